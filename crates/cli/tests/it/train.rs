//! `netcaliper train` with the real binary: over loopback, and on a path whose rate is known.

use crate::support::files::{Csv, Scratch};
use crate::support::lab::on_lab;
use crate::support::{BIN, Outcome, netcaliper, number, serve};

#[test]
fn every_packet_is_told_in_both_directions() {
    let server = serve("");
    let scratch = Scratch::new();
    for way in ["", "-R"] {
        let (packets, trains) = (scratch.file("packets.csv"), scratch.file("trains.csv"));
        let line = netcaliper("train").arg(server.at()).args("-n 20 --wait 0,20us --repeat 5 --every 20ms");
        let line = line.args(way).arg("--samples").arg(&packets).arg("--train-csv").arg(&trains);
        let outcome = line.outcome().exits(0);
        let report = &outcome.point()["trains"]["report"];
        let settings = report["settings"].as_array().unwrap();
        assert_eq!(settings.len(), 2, "{}", outcome.tell());
        for setting in settings {
            assert_eq!(
                (number(&setting["sent"]), number(&setting["trains"])),
                (100, 5),
                "{}",
                outcome.tell()
            );
            assert_eq!(number(&setting["received"]) + number(&setting["lost"]), 100, "{}", outcome.tell());
        }
        assert_eq!((Csv::read(&packets).rows.len(), Csv::read(&trains).rows.len()), (200, 10));
    }
}

#[test]
fn several_sizes_are_measured_one_after_the_other() {
    let server = serve("");
    let line =
        netcaliper("train").arg(server.at()).args("-n 10 -l 64..128,500..1450/475 --repeat 2 --every 20ms");
    let outcome = line.outcome().exits(0);
    let points = outcome.json["points"].as_array().unwrap();
    let told = |point: &serde_json::Value| {
        let setting = &point["trains"]["report"]["settings"][0];
        (point["label"]["size"].as_str().unwrap().to_owned(), number(&setting["sent"]))
    };
    let want = ["64", "128", "500", "975", "1450"].map(|size| (size.to_owned(), 20));
    assert_eq!(points.iter().map(told).collect::<Vec<_>>(), want, "{}", outcome.tell());
    let done = netcaliper("train").args("127.0.0.1 -l 100,39").run().exits(2);
    done.says_one_sentence().complains(&["40 to 65507"]);
}

#[test]
fn every_packet_is_returned() {
    let server = serve("");
    let scratch = Scratch::new();
    let packets = scratch.file("packets.csv");
    let line = netcaliper("train").arg(server.at()).args("--echo -n 20 --wait 50us --repeat 5 --every 20ms");
    let outcome = line.arg("--samples").arg(&packets).outcome().exits(0);
    let setting = &outcome.point()["trains"]["report"]["settings"][0];
    let echo = &setting["echo"];
    let whole = number(&echo["returned"]) + number(&echo["lost_there"]) + number(&echo["lost_back"]);
    assert_eq!((number(&setting["sent"]), whole), (100, 100), "{}", outcome.tell());
    assert_eq!(number(&echo["round_trip_ns"]["count"]), number(&echo["returned"]), "{}", outcome.tell());
    let (trip, path) = (number(&echo["round_trip_ns"]["max"]), number(&echo["path_ns"]["max"]));
    assert!(0 < path && path <= trip, "{}", outcome.tell());
    let csv = Csv::read(&packets);
    assert_eq!(csv.rows.len(), 100);
    let back = csv.column("back_ns").iter().filter(|cell| !cell.is_empty()).count();
    assert_eq!(back as u64, number(&echo["returned"]), "{}", outcome.tell());
}

#[test]
fn the_series_of_the_slac_report() {
    let server = serve("");
    let scratch = Scratch::new();
    let (live, again) = (scratch.file("live"), scratch.file("again"));
    let saved = scratch.file("run.jsonl");
    let slac =
        |words: &str| netcaliper("train").arg(server.at()).args("--preset slac --every 100ms").args(words);
    let line = slac("--repeat 2 -q --streams 1,3 --stream-time 20ms -w 128Ki --save").arg(&saved);
    line.arg("--series").arg(&live).run().exits(0).prints(&[
        "Data rate by measurement number and wait",
        "TCP: streams against rate",
        "Activity of the hosts meanwhile",
    ]);
    // A machine format has stdout alone.
    let rows = slac("--repeat 1 --streams 0 --status-csv -").run().exits(0).out;
    assert!(rows.starts_with("label,") && !rows.contains("Data rate by measurement"), "{rows}");
    // Four sizes, four waits, two measurements.
    let measured = Csv::read(&live.join("rate_by_measurement.csv"));
    assert_eq!(measured.rows.len(), 4 * 4 * 2);
    assert!(
        measured
            .column("sent")
            .iter()
            .zip(measured.column("unsent"))
            .all(|(sent, unsent)| { sent.parse::<u32>().unwrap() + unsent.parse::<u32>().unwrap() == 300 })
    );
    // 1450 bytes every 50 us.
    assert!(measured.column("asked_mbps").contains(&"232.000"));
    assert_eq!(Csv::read(&live.join("sent_and_received.csv")).rows.len(), 16);
    let streams = Csv::read(&live.join("streams.csv"));
    assert_eq!(streams.column("streams"), ["1", "3"]);
    // The kernel counts twice what was asked for.
    assert_eq!(streams.column("sndbuf"), ["262144", "262144"]);
    assert_eq!(Csv::read(&live.join("hosts.csv")).rows.len(), 2 * (4 + 2));

    netcaliper("report").arg(&saved).args("-q --series").arg(&again).run().exits(0);
    for file in ["rate_by_measurement.csv", "sent_and_received.csv", "streams.csv", "hosts.csv"] {
        let read = |folder: &std::path::Path| std::fs::read_to_string(folder.join(file)).unwrap();
        assert_eq!(read(&live), read(&again), "{file}: live and from the file");
    }
}

#[test]
fn a_round_trip_is_both_ways_of_the_path() {
    const NAME: &str = "train::a_round_trip_is_both_ways_of_the_path";
    let command =
        format!("{BIN} train $NETCALIPER_LAB_SERVER --echo -n 20 --wait 1ms --repeat 5 --every 100ms --json");
    let options = "-q --wait sleep --up delay=20ms --down delay=5ms";
    let Some(done) = on_lab(NAME, options, &command) else { return };
    let outcome = Outcome::of(done.exits(0));
    let echo = &outcome.point()["trains"]["report"]["settings"][0]["echo"];
    assert_eq!(number(&echo["returned"]), 100, "{}", outcome.tell());
    // No path is faster than it is; how much slower, is this machine's.
    assert!(number(&echo["path_ns"]["min"]) >= 25_000_000, "{}", outcome.tell());
}

#[test]
fn the_dispersion_rate_is_that_of_the_path() {
    const NAME: &str = "train::the_dispersion_rate_is_that_of_the_path";
    let command = format!("{BIN} train $NETCALIPER_LAB_SERVER -n 60 --repeat 10 --every 100ms --json");
    let mut rates = Vec::new();
    // How exactly a train is spaced depends on how busy this machine is: then it is tried again.
    while rates.len() < 8 {
        let Some(done) = on_lab(NAME, "-q --rate 100M --delay 5ms", &command) else { return };
        let outcome = Outcome::of(done.exits(0));
        let setting = &outcome.point()["trains"]["report"]["settings"][0];
        let counts = [number(&setting["sent"]), number(&setting["received"])];
        let rate = setting["train_bps"]["median"].as_f64().unwrap();
        if (60e6..125e6).contains(&rate) && counts == [600; 2] {
            return;
        }
        rates.push((rate, counts));
    }
    panic!("600 packets at 100 Mbit/s were {rates:?}");
}

#[test]
fn what_cannot_be_is_one_sentence() {
    for (words, why) in [
        ("-n 1", "2 to 10000 packets"),
        ("--wait 1s", "must fit"),
        ("-n 10000 --repeat 11 --every 1s", "100000"),
        ("-n 2 -t 1h", "--time has room for 18000 rounds"),
        ("-l 39", "40 to 65507"),
        ("--protocol echo", "round trips only"),
        ("--protocol udpmon --hardware-stamps", "clients of udpmon take no stamps"),
    ] {
        let done = netcaliper("train").args("127.0.0.1").args(words).run().exits(2);
        done.says_one_sentence().complains(&[why]);
    }
}
