//! `netcaliper delay` with the real binary at both ends.

use crate::support::files::{Csv, Scratch};
use crate::support::lab::{lab, on_lab, sh};
use crate::support::net::{Namespace, has_ipv6};
use crate::support::{BIN, Line, Outcome, Server, netcaliper, number, serve, sized, skip, tcp, text};
use serde_json::Value;

fn delay(target: impl AsRef<std::ffi::OsStr>) -> Line {
    netcaliper("delay").arg(target)
}

/// The same with senders that sleep to the due times, for what does not depend on when a datagram
/// leaves: others spin before each.
fn blocking(target: impl AsRef<std::ffi::OsStr>) -> Line {
    delay(target).args("--wait block")
}

/// What each end found out about datagrams: ours, and the server's.
fn packets(outcome: &Outcome) -> (&Value, &Value) {
    (&outcome.local()["packets"], &outcome.remote()[0]["packets"])
}

fn counts(packets: &Value, names: [&str; 3]) -> [i64; 3] {
    names.map(|name| packets["counts"][name].as_i64().unwrap_or_else(|| panic!("{name} in {packets}")))
}

/// `sent` datagrams left here; there each one was received or is missing, and nothing else.
#[track_caller]
fn accounted(from: &Value, to: &Value, sent: i64) {
    let [left, unsent, refused] = counts(from, ["sent", "unsent", "refused"]);
    assert_eq!((left + unsent, refused), (sent, 0), "{from}");
    let [received, lost, corrupt] = counts(to, ["received", "lost", "corrupt"]);
    assert_eq!((received + lost, corrupt), (left, 0), "{to}");
    let [repeated, late, _] = counts(to, ["duplicated", "late", "lost"]);
    assert_eq!((repeated, late), (0, 0), "{to}");
    assert_eq!(to["delay_ns"]["count"].as_i64(), Some(received));
    assert!(to["clock_bound_ns"].is_u64(), "no delay without its bound: {to}");
    assert_eq!(to["before_sent"], 0, "{to}");
}

#[test]
fn every_datagram_is_accounted_for_in_every_direction() {
    let server = serve("");
    for (way, up, down) in [("", true, false), ("-R", false, true), ("--bidir", true, true)] {
        let outcome =
            blocking(server.at()).args("-t 600ms -i 200ms --pps 200 -l 300").args(way).outcome().good();
        let (local, remote) = packets(&outcome);
        if up {
            accounted(local, remote, 120);
        }
        if down {
            accounted(remote, local, 120);
        }
        let intervals = outcome.point()["intervals"].as_array().unwrap();
        // Intervals that a busy machine could not end in time are merged.
        assert!((1..=3).contains(&intervals.len()), "{way}: {}", outcome.tell());
        assert!(
            intervals.iter().all(|i| i["packets"].is_object() && i["remote_packets"].is_object()),
            "{way}"
        );
    }
    server.still_serves();
}

/// The server finds its time-outs passed, and the order to end, before it has read what came while
/// it was held up.
#[test]
fn what_a_held_up_receiver_had_not_read_is_not_lost() {
    let server = serve("");
    let scratch = Scratch::new();
    let line = blocking(server.at()).args("-t 1500ms -i 100ms --pps 200 -l 100 --late 500ms --json --save");
    let client = line.arg(scratch.file("run.jsonl")).spawn();
    scratch.hears_intervals("run.jsonl", 3);
    server.proc.signal("STOP");
    // The schedule, and what is waited for behind it.
    std::thread::sleep(std::time::Duration::from_millis(3_000));
    server.proc.signal("CONT");
    let outcome = Outcome::of(client.wait());
    let (local, remote) = packets(&outcome);
    let [sent, ..] = counts(local, ["sent", "unsent", "refused"]);
    assert_eq!(counts(remote, ["received", "lost", "dropped"]), [sent, 0, 0], "{remote}");
}

#[test]
fn several_flows_of_the_smallest_datagram() {
    let server = serve("");
    let outcome =
        blocking(server.at()).args("-t 500ms -P 5 --pps 200 -l 40 --schedule poisson").outcome().good();
    let (local, remote) = packets(&outcome);
    let [sent, ..] = counts(local, ["sent", "unsent", "refused"]);
    // Five flows of 100 on average; six standard deviations of a Poisson count.
    assert!((366..=634).contains(&sent), "{local}");
    accounted(local, remote, sent);
    assert_eq!(number(&outcome.local()["opened"]), 5);
    assert!(!outcome.point()["phase"]["probe"]["seed"].is_null(), "the seed is told");
}

#[test]
fn times_between_datagrams_come_from_a_file() {
    let server = serve("");
    let scratch = Scratch::new();
    let trace = scratch.with("trace.txt", "# two at once every 4 ms\n0.000\n4ms\n");
    let csv = scratch.file("status.csv");
    let line = delay(server.at()).args("-t 600ms -i 200ms -l 300 --bidir --trace").arg(&trace);
    let outcome = line.arg("--status-csv").arg(&csv).outcome().good();
    let (local, remote) = packets(&outcome);
    accounted(local, remote, 300);
    accounted(remote, local, 300);
    let table = Csv::read(&csv);
    // What left after the last interval is in the totals alone.
    let intervals = outcome.point()["intervals"].as_array().unwrap().iter();
    let sent: u64 = intervals.map(|i| number(&i["packets"]["counts"]["sent"])).sum();
    assert_eq!(table.sum("local_datagrams_sent"), sent);
    assert!((1..=300).contains(&sent), "{sent}");
    let bad = scratch.with("bad.txt", "1ms\nsoon\n");
    delay("127.0.0.1:1").arg("--trace").arg(&bad).run().exits(2).says_one_sentence().complains(&["line 2"]);
}

#[test]
fn over_ipv6_with_everything_switched() {
    if !has_ipv6() {
        return skip("delay::over_ipv6_with_everything_switched", "no IPv6 loopback");
    }
    let server = serve("");
    for switched in ["--gro", "--no-gso --no-stamps --no-compare", "--wait block --dscp ef --ttl 9 --df on"] {
        let outcome = delay(server.on("[::1]")).args("-t 300ms -i 100ms --pps 200 -l 200").args(switched);
        let outcome = outcome.outcome().good();
        let (local, remote) = packets(&outcome);
        accounted(local, remote, 60);
        if switched.contains("ttl") {
            assert_eq!(remote["marks"]["ttl"], serde_json::json!([9, 9]), "{remote}");
            assert_eq!(remote["marks"]["dscp"], serde_json::json!([46, 46]), "{remote}");
        }
    }
}

#[test]
fn as_fast_as_it_goes_loses_here_or_nowhere() {
    let server = serve("");
    let time = sized("-t 200ms", "-t 300ms");
    let outcome = delay(server.at()).args("-b 0 -i 100ms -l 1400 --gro").args(time).outcome().good();
    let (local, remote) = packets(&outcome);
    let [sent, ..] = counts(local, ["sent", "unsent", "refused"]);
    let [received, lost, corrupt] = counts(remote, ["received", "lost", "corrupt"]);
    assert!(sent > 100, "{local}");
    assert_eq!((received + lost, corrupt), (sent, 0), "{remote}");
}

#[test]
fn between_namespaces_and_beside_tcp() {
    const TEST: &str = "delay::between_namespaces_and_beside_tcp";
    let Some((here, there)) = Namespace::pair(TEST) else { return };
    let _server = Server::start(there.within(netcaliper("serve")));
    let other = here.within(tcp("10.77.0.2").args("-P 1 -t 1s -b 10M -i 500ms")).spawn();
    let line = here.within(blocking("10.77.0.2").args("--bidir -t 500ms -i 100ms --pps 1000 -l 1000"));
    let outcome = line.outcome().good();
    let (local, remote) = packets(&outcome);
    accounted(local, remote, 500);
    accounted(remote, local, 500);
    other.wait().exits(0);
}

#[test]
fn a_search_tries_rates_and_says_what_it_found() {
    let server = serve("");
    // Almost all may be lost, so that any machine passes.
    let done = delay(server.at()).args("--search=99.9% --gro --json -t 300ms").run().exits(0);
    let outcome = done.json();
    assert!(outcome["points"][0]["phase"]["rate"].is_null(), "{}", done.tell());
    let notices = outcome["notices"].as_array().unwrap();
    let found = |notice: &Value| text(notice).starts_with("the highest rate that got through: ");
    assert!(notices.iter().any(found), "{notices:?}");
}

#[test]
fn every_datagram_is_told_in_both_directions_and_when_the_kernel_sent_it() {
    let server = serve("");
    let scratch = Scratch::new();
    let csv = scratch.file("datagrams.csv");
    let line = blocking(server.at()).args("-t 300ms -i 100ms --pps 500 -l 200 -P 3 --bidir --tx-stamps");
    let outcome = line.arg("--samples").arg(&csv).outcome().good();
    let (local, remote) = packets(&outcome);
    let table = Csv::read(&csv);
    for (way, from, to) in [("up", local, remote), ("down", remote, local)] {
        let of: Vec<&Vec<String>> = table.rows.iter().filter(|row| row[3] == way).collect();
        let count = |verdict: &str| of.iter().filter(|row| row[10] == verdict).count() as i64;
        let [sent, ..] = counts(from, ["sent", "unsent", "refused"]);
        let [received, lost, _] = counts(to, ["received", "lost", "corrupt"]);
        assert_eq!((of.len() as i64, count("lost")), (sent, lost), "{way}");
        assert_eq!(count("received") + count("reordered") + count("late"), received, "{way}");
        // Each flow's numbers, from 0.
        for flow in ["0", "1", "2"] {
            let numbers = of.iter().filter(|row| row[2] == flow).map(|row| row[4].parse::<usize>().unwrap());
            assert!(numbers.enumerate().all(|(at, number)| at == number), "{way} {flow}");
        }
    }
    assert_eq!(outcome.point()["flows"].as_array().unwrap().len(), 3);
    for sender in [local, remote] {
        let [sent, ..] = counts(sender, ["sent", "unsent", "refused"]);
        let Some(stamped) = sender["stack_ns"]["count"].as_i64() else {
            // What was used is in the result either way.
            return skip(
                "delay::every_datagram_is_told_in_both_directions_and_when_the_kernel_sent_it",
                "the kernel gives no transmit stamps here",
            );
        };
        // The last ones may come back after the flow has ended.
        assert!(0 < stamped && stamped <= sent, "{sender}");
    }
}

/// Four flows from ports of their own, of which the path treats one badly, both ways.
#[test]
fn the_flow_on_the_bad_path_is_found() {
    const TEST: &str = "delay::the_flow_on_the_bad_path_is_found";
    let command = format!(
        "{BIN} delay $NETCALIPER_LAB_SERVER -P 4 --local-port 40000-40003 --pps 500 -l 200 -t 1s --bidir --wait block --json"
    );
    let options = "-q --wait sleep --delay 2ms --loss 30% --only udp:40002";
    let Some(done) = on_lab(TEST, options, &command) else { return };
    let outcome = Outcome::of(done.exits(0));
    for flow in outcome.point()["flows"].as_array().unwrap() {
        let bad = text(&flow["local"]).ends_with(":40002");
        for way in ["up", "down"] {
            // A busy machine may lose some of the others' as well; who lost nothing is not marked.
            let lost = flow[way]["got"]["counts"]["lost"].as_i64().unwrap();
            assert!(flow[way]["lossy"] == bad || (!bad && lost > 0), "{flow} {}", outcome.tell());
        }
    }
}

#[test]
fn a_sweep_has_a_slot_for_each_value() {
    let server = serve("");
    let scratch = Scratch::new();
    let csv = scratch.file("slots.csv");
    let line = blocking(server.at())
        .args("-t 200ms -i 100ms -l 500 --pps 200 --bidir --sweep size=100,200,400 --repeat 2");
    let outcome = line.arg("--sweep-csv").arg(&csv).outcome().good();
    let rows = outcome.json["sweep"].as_array().unwrap().clone();
    let sizes: Vec<&str> = rows.iter().map(|row| row["label"]["size"].as_str().unwrap()).collect();
    assert_eq!(sizes, ["100", "200", "400"]);
    for row in &rows {
        for way in ["up", "down"] {
            let figure = |name: &str| &row["figures"][name];
            assert_eq!(number(&figure(&format!("sent.{way}"))["n"]), 2, "{row}");
            assert!(figure(&format!("delay.{way}.p50"))["mean"].as_f64().unwrap() > 0.0, "{row}");
        }
    }
    let table = Csv::read(&csv);
    assert_eq!(table.column("size"), ["100", "200", "400"]);
    assert!(table.column("up_knee").iter().all(|knee| ["true", "false"].contains(knee)));
    for (words, why) in [
        ("--sweep buffer=1..2", "rate, size and spacing"),
        ("--sweep size=39", "40 to 65507"),
        ("--sweep rate=2M..1M", "must rise"),
    ] {
        delay("127.0.0.1:1").args(words).run().exits(2).says_one_sentence().complains(&[why]);
    }
}

/// Which slot it is depends on how busy this machine is; that it is the one of the definition does
/// not.
#[test]
fn the_knee_is_where_power_is_largest() {
    const TEST: &str = "delay::the_knee_is_where_power_is_largest";
    // Both are a path of 32 ms of queue, and rates of a tenth to more than twice of what it
    // carries.
    let (rates, path) = sized(
        ("1M,4M,16M,24M --wait block", "--rate 10M --queue 40k"),
        ("5M,20M,80M,120M", "--rate 50M --queue 200k"),
    );
    let command = format!("{BIN} delay $NETCALIPER_LAB_SERVER -l 1000 -t 400ms --sweep rate={rates} --json");
    let options = format!("-q --wait sleep {path} --delay 10ms");
    let Some(done) = on_lab(TEST, &options, &command) else { return };
    let outcome = Outcome::of(done.exits(0));
    // Load, power and mark of each slot.
    let slots: Vec<(f64, f64, bool)> = outcome.json["sweep"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let mean = |value: &Value| value["mean"].as_f64().unwrap_or(0.0);
            let figures = &row["figures"];
            let power = mean(&figures["goodput.up"]) / (mean(&figures["delay.up.p50"]).max(1_000.0) / 1e9);
            (mean(&figures["sent.up"]), power, row["up_slot"]["knee"] == true)
        })
        .collect();
    assert_eq!(slots.len(), 4, "{}", outcome.tell());
    let best = slots.iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    let beyond = slots.iter().any(|slot| slot.0 > best.0);
    let marked: Vec<&(f64, f64, bool)> = slots.iter().filter(|slot| slot.2).collect();
    assert_eq!(marked, if beyond { vec![best] } else { vec![] }, "{slots:?}");
}

/// 1400 bytes there, where routers say so, and 1300 back, where they do not.
#[test]
fn the_mtu_of_each_direction_is_the_paths() {
    const TEST: &str = "delay::the_mtu_of_each_direction_is_the_paths";
    let command = format!("{BIN} delay $NETCALIPER_LAB_SERVER --path-mtu --mtu-limit 1500 --bidir --json");
    let options = "-q --wait sleep --only udp --up path-mtu=1400 --down path-mtu=1300:silent";
    let Some(done) = on_lab(TEST, options, &command) else { return };
    let outcome = done.exits(0).json();
    let found = &outcome["path_mtu"];
    assert_eq!(found["up"], serde_json::json!({ "mtu": 1400, "too_big": 1401, "told": true }), "{found}");
    assert_eq!(found["down"], serde_json::json!({ "mtu": 1300, "too_big": 1301, "told": false }), "{found}");
}

/// The control connection passes the black hole, too. Three sizes each way: 30 s when each of 22
/// was waited for 2 s.
#[test]
fn a_black_hole_is_measured_or_named() {
    const TEST: &str = "delay::a_black_hole_is_measured_or_named";
    let on_narrow = |host: &str, words: &str| {
        on_lab(TEST, "-q --wait sleep --path-mtu 1280:silent", &format!("{BIN} {words} {host}"))
    };
    let mut handles = Vec::new();
    for host in ["$NETCALIPER_LAB_SERVER", "$NETCALIPER_LAB_SERVER6"] {
        handles.push(std::thread::spawn(move || {
            let Some(done) = on_narrow(host, "delay --path-mtu --bidir --json") else { return };
            let found = &done.exits(0).json()["path_mtu"];
            let narrow = serde_json::json!({ "mtu": 1280, "too_big": 1281, "told": false });
            assert_eq!((&found["up"], &found["down"]), (&narrow, &narrow), "{found}");
            let done = on_narrow(host, "delay -l 1300 -t 500ms --json").expect("a lab was there before");
            let outcome = done.exits(1).json();
            let reason = outcome["reason"].as_str().unwrap();
            assert!(reason.contains("large ones may not: try `delay --path-mtu`"), "{reason}");
        }));
    }
    handles.into_iter().for_each(|handle| handle.join().unwrap());
}

/// Where the peer reports nothing, the kernel knows that only small packets passed.
#[test]
fn payload_that_is_lost_in_a_black_hole_has_failed() {
    const TEST: &str = "delay::payload_that_is_lost_in_a_black_hole_has_failed";
    for (protocol, port) in [("discard", 9), ("ctstraffic", 4444)] {
        let server = format!("{BIN} serve --legacy {protocol}:{port}");
        let Some(line) = lab(TEST, "-q --wait sleep --path-mtu 1280:silent --server") else { return };
        let command =
            format!("{BIN} tcp $NETCALIPER_LAB_SERVER -p {port} --protocol {protocol} -t 1s --json");
        let done = sh(line.arg(server), &command).run().exits(1);
        let outcome = done.json();
        let reason = outcome["reason"].as_str().unwrap_or_default();
        assert!(
            reason.contains("no byte was acknowledged: small packets pass"),
            "{protocol}: {}",
            done.tell()
        );
    }
}

/// 5 datagrams a second each way over 32 kbit/s: by the lab's count what is asked for, and one
/// exchange a second.
#[test]
fn a_slow_path_is_not_filled_with_own_traffic() {
    const TEST: &str = "delay::a_slow_path_is_not_filled_with_own_traffic";
    let command = format!("{BIN} delay $NETCALIPER_LAB_SERVER -t 2s --pps 5 -l 100 --clock in-band --json");
    let options = "-q --wait sleep --rate 32k --delay 5ms --queue 2s";
    let Some(done) = on_lab(TEST, options, &command) else { return };
    let outcome = done.exits(0).json();
    let local = &outcome["points"][0]["local"];
    let own = &local["own"];
    assert!(own["datagrams"].as_u64().unwrap() <= 12 && own["messages"].as_u64().unwrap() <= 12, "{own}");
    // 128 bytes take 32 ms.
    for end in [local, &outcome["points"][0]["remote"][0]] {
        let p50 = end["packets"]["delay_ns"]["p50"].as_f64().unwrap();
        let bound = end["packets"]["clock_bound_ns"].as_f64().unwrap();
        assert!(p50 <= 37e6 * 1.1 + bound, "{p50} ± {bound}");
    }
}

#[test]
fn what_cannot_be_is_said_in_a_sentence() {
    for (words, complaint) in [
        ("-l 39", "40 to 65507"),
        ("-P 2000", "1000"),
        ("--protocol ctstraffic", "delay"),
        ("-b 1M --pps 5", "cannot be used with"),
        ("-b 1M --search", "cannot be used with"),
        ("--search=100%", "'100%' is not a share from 0 to below 1"),
        ("--hardware-stamps --protocol bwdelaytester", "clients of bwdelaytester take no stamps"),
        ("--hardware-stamps --no-stamps", "leave out --no-stamps"),
    ] {
        let done = delay("127.0.0.1:1").args(words).run().exits(2);
        assert!(done.err.contains(complaint), "{words}: {}", done.tell());
    }
}

#[test]
fn an_interrupted_run_tells_what_it_had() {
    let server = serve("");
    let running = delay(server.at()).args("-t 30s -i 100ms --pps 100 --jsonl").spawn();
    running.hears("\"event\":\"interval\"");
    running.signal("INT");
    let done = running.wait().exits(130);
    assert!(done.out.contains("\"event\":\"remote\""), "{}", done.tell());
}

/// A time namespace moves the monotonic clock: one boot identifier, and 5000 s between the two
/// clocks.
#[test]
fn a_server_in_another_time_namespace_reads_another_clock() {
    let name = "delay::a_server_in_another_time_namespace_reads_another_clock";
    let unshare = || {
        let mut command = std::process::Command::new("unshare");
        command.args(["-T", "--monotonic", "5000"]).env("NETCALIPER_STORE", "off");
        command
    };
    if !unshare().arg("true").output().is_ok_and(|done| done.status.success()) {
        return skip(name, "unshare -T does not work here: it takes root and time namespaces");
    }
    let mut command = unshare();
    command.arg(BIN).args(["serve", "--port", "0"]);
    let server = Server::start(Line(command));
    let outcome = delay(server.at()).args("-t 600ms --pps 200 -l 100 --bidir").outcome();
    assert_eq!(outcome.done.code, Some(0), "{}", outcome.tell());
    let (local, remote) = packets(&outcome);
    for report in [local, remote] {
        assert_eq!(report["clock"], "in_band", "{report}");
        let (median, bound) = (number(&report["delay_ns"]["p50"]), number(&report["clock_bound_ns"]));
        // Some microseconds of loopback, and nowhere near 5000 s.
        assert!(bound > 1_000 && median < 1_000_000_000, "{report}");
        assert_eq!(counts(report, ["late", "corrupt", "duplicated"]), [0, 0, 0], "{report}");
    }
    let refused = delay(server.at()).args("-t 600ms --pps 200 --clock same-host").run();
    assert_eq!(refused.code, Some(1), "{}", refused.tell());
}
