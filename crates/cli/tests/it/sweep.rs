//! Sweeps, the connection method, and the demo: more than one phase, and more than bytes.

use crate::support::files::{Csv, Scratch};
use crate::support::outcome::same_report;
use crate::support::{Outcome, connect, netcaliper, number, serve, tcp, text};

#[test]
fn two_settings_crossed_and_repeated_make_a_row_each() {
    let server = serve("");
    let scratch = Scratch::new();
    let line = tcp(server.at()).args("--sweep connections=1,2 --sweep buffer=4Ki,64Ki --repeat 2 -n 2000003");
    let line =
        line.arg("--sweep-csv").arg(scratch.file("sweep.csv")).arg("--save").arg(scratch.file("run.jsonl"));
    let outcome = line.outcome().good();
    let points = outcome.json["points"].as_array().unwrap();
    assert_eq!(points.len(), 8);
    for (at, point) in points.iter().enumerate() {
        // Round robin, the second setting faster.
        let (connections, buffer) = [(1, 4096), (1, 65_536), (2, 4096), (2, 65_536)][at % 4];
        assert_eq!(point["repeat"], at / 4 + 1);
        assert_eq!(text(&point["label"]["connections"]), connections.to_string());
        assert_eq!(text(&point["label"]["buffer"]), buffer.to_string());
        assert_eq!(point["phase"]["connections"], connections);
        assert_eq!(point["phase"]["buffer"]["high"], buffer);
        assert_eq!(point["up"]["received_bytes"], 2_000_003);
        assert_eq!(point["local"]["completed"], connections);
    }
    let rows = outcome.json["sweep"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        let rates: Vec<f64> = points
            .iter()
            .filter(|p| p["label"] == row["label"])
            .map(|p| p["up"]["goodput_bps"].as_f64().unwrap())
            .collect();
        let mean = (rates[0] + rates[1]) / 2.0;
        let sd = (rates[0] - rates[1]).abs() / 2f64.sqrt();
        let local = |found: &serde_json::Value, wanted: f64| {
            assert!((found.as_f64().unwrap() - wanted).abs() <= 1e-6 * mean, "{found} instead of {wanted}");
        };
        assert_eq!(row["figures"]["goodput.up"]["n"], 2);
        local(&row["figures"]["goodput.up"]["mean"], mean);
        local(&row["figures"]["goodput.up"]["sd"], sd);
        // Student's t of one degree of freedom, over the root of two.
        assert!(
            (row["figures"]["goodput.up"]["ci95"].as_f64().unwrap() / (12.706 * sd / 2f64.sqrt()) - 1.0)
                .abs()
                < 1e-3,
            "{row}"
        );
        assert_eq!(row["errors"], 0);
    }
    let csv = Csv::read(&scratch.file("sweep.csv"));
    assert_eq!(csv.rows.len(), 4);
    assert_eq!(csv.column("buffer"), ["4096", "65536", "4096", "65536"]);
    assert_eq!(csv.column("connections"), ["1", "1", "2", "2"]);
    assert_eq!(csv.column("goodput.up_runs"), ["2"; 4]);
    for (cell, row) in csv.column("goodput.up_mean_bps").iter().zip(rows) {
        let mean = row["figures"]["goodput.up"]["mean"].as_f64().unwrap();
        assert!((cell.parse::<f64>().unwrap() / mean - 1.0).abs() < 1e-6, "{cell} and {mean}");
    }
    // The report makes the same table and file of the journal.
    let line =
        netcaliper("report").arg(scratch.file("run.jsonl")).arg("--sweep-csv").arg(scratch.file("again.csv"));
    let table = line.run().exits(0).prints(&["Sweep: ", "connections", "buffer", "± sd", "to server"]).out;
    let after = table.split("Sweep: ").nth(1).unwrap();
    assert_eq!(after.lines().skip(2).take_while(|l| !l.trim().is_empty()).count(), 4, "{after}");
    let read = |name| std::fs::read_to_string(scratch.file(name)).unwrap();
    assert_eq!(read("sweep.csv"), read("again.csv"));
}

#[test]
fn a_swept_rate_is_the_rate() {
    let server = serve("");
    let outcome = tcp(server.at()).args("--sweep rate=4M,8M -P 2 -t 1500ms").outcome().good();
    for (row, rate) in outcome.json["sweep"].as_array().unwrap().iter().zip([8e6, 16e6]) {
        let mean = row["figures"]["goodput.up"]["mean"].as_f64().unwrap();
        let late = outcome.admits_lateness();
        assert!(
            mean < 1.03 * rate && (mean > 0.97 * rate || late),
            "{mean} instead of {rate}: {}",
            outcome.tell()
        );
    }
}

#[test]
fn more_streams_than_the_slac_tool_could() {
    let server = serve("");
    let outcome = tcp(server.at()).args("--sweep connections=39,40,64 -n 3000000").outcome().good();
    assert_eq!(outcome.json["sweep"].as_array().unwrap().len(), 3);
    assert_eq!(outcome.json["points"][2]["local"]["completed"], 64);
}

#[test]
fn an_interrupted_sweep_keeps_the_points_it_has() {
    let server = serve("");
    let line = tcp(server.at()).args("--sweep connections=1..64/1 -t 400ms -i 100ms -b 1M --json");
    let scratch = Scratch::new();
    let client = line.arg("--save").arg(scratch.file("run.jsonl")).spawn();
    crate::support::eventually("two points", || {
        let journal = scratch.so_far("run.jsonl");
        journal.matches("\"event\":\"phase_end\"").count() >= 2
    });
    client.signal("INT");
    let outcome = Outcome::of(client.wait()).exits(130).status("interrupted");
    let points = outcome.json["points"].as_array().unwrap();
    assert!((2..64).contains(&points.len()), "{}", points.len());
    assert_eq!(points[0]["status"], "complete");
}

#[test]
fn connect_counts_connections() {
    let server = serve("");
    for (args, lives) in [("-P 8 --iterations 25", 200u64), ("-P 1 --iterations 20", 20)] {
        for shutdown in ["graceful", "rude", "random"] {
            let line = connect(server.at()).args(&format!("{args} --shutdown {shutdown}"));
            let outcome = line.outcome().good();
            assert_eq!(outcome.local()["opened"], lives);
            assert_eq!(outcome.local()["completed"], lives);
            assert_eq!(outcome.remote_sum("/completed"), lives);
            assert_eq!(outcome.local()["connect_ns"]["count"], lives);
            assert_eq!(outcome.local()["traffic"]["tx_bytes"], lives, "a byte each");
            assert_eq!(outcome.point()["phase"]["kind"], "connect");
        }
    }
    let text = connect(server.at()).args("--iterations 10").run().exits(0);
    text.prints(&["Connections established", "to connect", "Time to connect, connections up to each bound"]);
}

#[test]
fn connect_keeps_its_rate() {
    let server = serve("");
    for rate in [20.0, 300.0] {
        let outcome = connect(server.at()).args(&format!("--rate {rate} -t 3s -P 16")).outcome().good();
        let share = number(&outcome.local()["opened"]) as f64 / (3.0 * rate);
        // A busy machine may be late, and then says so; never may it be too fast. The first comes
        // at once, and one more fits at the end, on each of two workers.
        assert!(
            share < 1.0 + 4.0 / (3.0 * rate) && (share > 0.97 || outcome.admits_lateness()),
            "{share} of {rate}/s: {}",
            outcome.tell()
        );
    }
}

#[test]
fn connect_may_carry_more_than_a_byte_and_writes_records_when_asked() {
    let server = serve("");
    let scratch = Scratch::new();
    let line = connect(server.at()).args("-P 4 --iterations 25 --transfer 70001 --connection-csv");
    line.arg(scratch.file("c.csv")).outcome().moved(100, 7_000_100, 0);
    let csv = Csv::read(&scratch.file("c.csv"));
    assert_eq!((csv.rows.len(), csv.sum("tx_bytes")), (100, 7_000_100));
    assert!(csv.column("connect_s").iter().all(|s| s.parse::<f64>().is_ok_and(|s| s > 0.0 && s < 10.0)));
}

#[test]
fn the_demo_needs_nothing_and_saves_what_it_shows() {
    let scratch = Scratch::new();
    let file = scratch.file("demo.jsonl");
    let done = netcaliper("demo").args("-t 100ms --save").arg(&file).run().exits(0);
    let done =
        done.prints(&["TCP one way", "TCP both ways", "connections", "bit/s", "Run complete: TCP one way"]);
    let again = netcaliper("report").arg(&file).run().exits(0);
    same_report(&again.out, &done.out);
    let outcome = netcaliper("report").arg(&file).outcome().good();
    let points = outcome.json["points"].as_array().unwrap();
    assert_eq!(points.len(), 3);
    assert!(points[0]["up"]["goodput_bps"].as_f64().unwrap() > 0.0 && points[0]["down"].is_null());
    assert!(points[1]["up"]["goodput_bps"].as_f64().unwrap() > 0.0);
    assert!(points[1]["down"]["goodput_bps"].as_f64().unwrap() > 0.0);
    assert!(number(&points[2]["local"]["completed"]) > 0);
}

#[test]
fn the_demo_speaks_json_and_can_be_interrupted() {
    let scratch = Scratch::new();
    let outcome = netcaliper("demo").args("-t 100ms --save").arg(scratch.file("d.jsonl")).outcome().good();
    assert_eq!(outcome.json["points"].as_array().unwrap().len(), 3);
    let demo = netcaliper("demo").args("-t 60s --save").arg(scratch.file("e.jsonl")).spawn();
    crate::support::eventually("the first part begins", || {
        scratch.so_far("e.jsonl").contains("\"event\":\"start\"")
    });
    demo.signal("INT");
    demo.wait().exits(130).prints(&["Run interrupted", "Goodput"]);
    netcaliper("report").arg(scratch.file("e.jsonl")).run().exits(130);
}
