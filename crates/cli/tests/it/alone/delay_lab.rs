//! `netcaliper delay` on a path whose truth is known: what it counted against what the lab did to
//! each datagram. Counts only: how long things take depends on how busy this machine is.

use crate::support::files::{Csv, Scratch};
use crate::support::lab::{lab, served};
use crate::support::{BIN, Outcome, number, sized, skip};
use serde_json::Value;

/// What a datagram of this much UDP payload is with the headers of IPv4 and UDP; no word of a flow
/// is as long.
const PAYLOAD: usize = 200;
const LENGTH: &str = "228";

/// A packet or a copy, as the lab's trace has it.
struct Seen {
    /// The how-manieth datagram it is, in the order in which they were sent.
    number: usize,
    left_ns: Option<u64>,
    /// How long the lab held it.
    delay_ns: Option<u64>,
    class: String,
    flipped: bool,
}

/// Everything about the datagrams of one direction, from the trace.
fn truth(trace: &Csv, way: &str) -> Vec<Seen> {
    let column = |name| trace.column(name);
    let (ways, lengths, indices, copies) =
        (column("direction"), column("length"), column("index"), column("copy"));
    let (lefts, delays) = (column("left_ns"), column("delay_ns"));
    let (classes, flips) = (column("class"), column("flipped_bits"));
    let ours: Vec<usize> =
        (0..trace.rows.len()).filter(|&at| ways[at] == way && lengths[at] == LENGTH).collect();
    let mut order: Vec<u64> =
        ours.iter().filter(|&&at| copies[at] == "0").map(|&at| indices[at].parse().unwrap()).collect();
    order.sort_unstable();
    let row = |&at: &usize| Seen {
        number: order.binary_search(&indices[at].parse().unwrap()).unwrap(),
        left_ns: lefts[at].parse().ok(),
        delay_ns: delays[at].parse().ok(),
        class: classes[at].to_owned(),
        flipped: flips[at] != "0",
    };
    ours.iter().map(row).collect()
}

/// How long each datagram that left upwards was held by the lab, ns, ascending.
fn held(trace: &Csv) -> Vec<u64> {
    let mut all: Vec<u64> = truth(trace, "up").iter().filter_map(|seen| seen.delay_ns).collect();
    all.sort_unstable();
    all
}

/// Lost, repeated and reordered (RFC 4737 §3.3), counted in the plainest way.
fn fate(seen: &[Seen], sent: usize) -> [usize; 3] {
    let mut left: Vec<&Seen> = seen.iter().filter(|s| s.class == "left").collect();
    left.sort_by_key(|s| s.left_ns.unwrap());
    let mut come = vec![0; sent];
    let (mut reordered, mut highest) = (0, None);
    for s in left {
        if come[s.number] == 0 && highest > Some(s.number) {
            reordered += 1;
        }
        come[s.number] += 1;
        highest = highest.max(Some(s.number));
    }
    let lost = come.iter().filter(|&&n| n == 0).count();
    let repeated = come.iter().map(|&n: &usize| n.saturating_sub(1)).sum();
    [lost, repeated, reordered]
}

/// Runs `delay` on a path with these conditions for datagrams; its outcome, the lab's report, and
/// its trace. Where a host that was too busy lost datagrams itself or sent them long after their
/// time, it is tried again.
fn measured(test: &str, conditions: &str, arguments: &str) -> Option<(Outcome, Value, Csv)> {
    const TRIES: usize = 6;
    let run = || once(test, conditions, arguments);
    for _ in 0..TRIES {
        let (outcome, report, trace) = run()?;
        if !disturbed(&outcome, &report) {
            return Some((outcome, report, trace));
        }
    }
    run()
}

/// Whether the hosts of a run lost datagrams, or took half as long again for it as was asked for.
fn disturbed(outcome: &Outcome, report: &Value) -> bool {
    let lost = |way: &str| {
        number(&report[way]["device"]["not_read"]) + number(&report[way]["device"]["not_received"])
    };
    let asked = number(&outcome.point()["phase"]["duration_ns"]);
    let late = |end: &Value| {
        count(&end["packets"], "dropped") > 0 || number(&end["traffic"]["ns"]) > asked + asked / 2
    };
    lost("up") + lost("down") > 0 || late(outcome.local()) || outcome.remote().iter().any(late)
}

fn once(test: &str, conditions: &str, arguments: &str) -> Option<(Outcome, Value, Csv)> {
    let lab = lab(&format!("delay_lab::{test}"), "-q --only udp")?;
    let scratch = Scratch::new();
    let (report, trace) = (scratch.file("report.json"), scratch.file("trace.csv"));
    let command = format!("{BIN} delay $NETCALIPER_LAB_SERVER --no-gso -l {PAYLOAD} {arguments} --json");
    let lab = lab.args(conditions).arg("--report").arg(&report).arg("--trace").arg(&trace);
    let outcome = Outcome::of(served(lab, &command).run().exits(0));
    let told = serde_json::from_str(&std::fs::read_to_string(&report).unwrap()).unwrap();
    Some((outcome, told, Csv::read(&trace)))
}

/// Whether this run can be compared: the lab dropped nothing that it does not know of, and has told
/// of every packet.
#[track_caller]
fn usable(report: &Value) {
    for way in ["up", "down"] {
        assert_eq!(
            report[way]["device"],
            serde_json::json!({ "not_read": 0, "not_received": 0 }),
            "the lab itself lost packets"
        );
    }
    assert_eq!(report["trace_lost"], 0);
}

fn count(packets: &Value, name: &str) -> i64 {
    packets["counts"][name].as_i64().unwrap()
}

/// Each direction: what its receiver counted is what the path did.
#[track_caller]
fn agrees(outcome: &Outcome, trace: &Csv) {
    let (local, remote) = (&outcome.local()["packets"], &outcome.remote()[0]["packets"]);
    for (way, from, to) in [("up", local, remote), ("down", remote, local)] {
        let sent = usize::try_from(count(from, "sent")).unwrap();
        let seen = truth(trace, way);
        let known = seen.iter().map(|s| s.number + 1).max().unwrap_or(0);
        assert_eq!(known, sent, "{way}: every datagram that left came to the path");
        let [lost, repeated, reordered] = fate(&seen, sent);
        let counted = ["lost", "duplicated", "reordered"].map(|name| count(to, name));
        let applied = [lost, repeated, reordered].map(|n| i64::try_from(n).unwrap());
        assert_eq!(counted, applied, "{way}: lost, repeated, reordered; {}", outcome.tell());
        assert_eq!(count(to, "corrupt"), 0);
        assert_eq!(count(to, "dropped"), 0, "{way}");
        assert!(lost > 0 && repeated > 0 && reordered > 0, "{way}: {lost} {repeated} {reordered}");
    }
}

/// So many datagrams each way that each thing that befalls one in a hundred befalls some.
fn a_thousand_a_second() -> String {
    format!("--bidir --pps 1000 -t {} --wait block", sized("1s", "2s"))
}

#[test]
fn loss_repeats_and_order_are_the_paths_at_a_thousand_a_second() {
    let conditions = "--wait sleep --delay 3ms --loss 2% --burst-loss 1%:50% --duplicate 2%:2:1ms --reorder 2%:3 --seed 11";
    const TEST: &str = "loss_repeats_and_order_are_the_paths_at_a_thousand_a_second";
    let Some((outcome, report, trace)) = measured(TEST, conditions, &a_thousand_a_second()) else { return };
    usable(&report);
    agrees(&outcome, &trace);
}

/// The rate that is asked for; what this machine does not send in time is given up, and what leaves
/// is compared.
#[test]
fn loss_repeats_and_order_are_the_paths_at_twenty_thousand_a_second() {
    const TEST: &str = "loss_repeats_and_order_are_the_paths_at_twenty_thousand_a_second";
    let conditions = "--delay 3ms --loss 1% --duplicate 1%:1:500us --reorder 1%:3 --seed 12";
    let Some((outcome, report, trace)) =
        measured(TEST, conditions, sized("--bidir --pps 20000 -t 200ms", "--bidir --pps 20000 -t 500ms"))
    else {
        return;
    };
    if disturbed(&outcome, &report) {
        return skip(
            &format!("delay_lab::{TEST}"),
            "this machine is too busy: buffers overflowed on the way, or datagrams left too late",
        );
    }
    usable(&report);
    agrees(&outcome, &trace);
}

#[test]
fn damage_is_told_from_loss_exactly() {
    let conditions = "--wait sleep --delay 1ms --loss 1% --corrupt 2% --seed 13";
    const TEST: &str = "damage_is_told_from_loss_exactly";
    let Some((outcome, report, trace)) = measured(TEST, conditions, &a_thousand_a_second()) else { return };
    usable(&report);
    let (local, remote) = (&outcome.local()["packets"], &outcome.remote()[0]["packets"]);
    for (way, to) in [("up", remote), ("down", local)] {
        let seen = truth(&trace, way);
        let damaged = seen.iter().filter(|s| s.class == "left" && s.flipped).count();
        let lost = seen.iter().filter(|s| s.class != "left").count();
        let intact = seen.iter().filter(|s| s.class == "left" && !s.flipped).count();
        let applied = [damaged, lost, intact].map(|n| i64::try_from(n).unwrap());
        assert_eq!(
            ["corrupt", "lost", "received"].map(|name| count(to, name)),
            applied,
            "{way}: damaged, lost, intact; {}",
            outcome.tell()
        );
        assert!(damaged > 0 && lost > 0, "{way}");
    }
}

/// 20 ms there and 5 ms back, which no exchange over the path can tell from 12.5 ms each way: the
/// bound has to say so.
#[test]
fn the_truth_lies_within_the_bound_of_the_clock() {
    const TEST: &str = "the_truth_lies_within_the_bound_of_the_clock";
    let conditions = "--wait sleep --up delay=20ms --down delay=5ms --seed 14";
    let Some((outcome, report, _)) = measured(TEST, conditions, "--bidir --pps 500 -t 1s --clock in-band")
    else {
        return;
    };
    let (local, remote) = (&outcome.local()["packets"], &outcome.remote()[0]["packets"]);
    for (way, to) in [("up", remote), ("down", local)] {
        assert_eq!(to["clock"], "in_band");
        let (least, bound) = (number(&to["delay_ns"]["min"]), number(&to["clock_bound_ns"]));
        // The smallest delay is at least what was applied, and the clocks are wrong by the bound at
        // most. Three digits are kept of a delay, and a delay below 0 is told as 0.
        let applied = number(&report[way]["delay_ns"]["min"]);
        assert!(least + bound + least / 500 >= applied, "{way}: {least} ± {bound}, {applied} was applied");
        // Nor is it larger than the bound allows: the fastest of 500 datagrams is held up on these
        // hosts by far less than 5 ms.
        let lateness = 5_000_000;
        assert!(
            least <= applied + lateness + bound + least / 500,
            "{way}: {least} ± {bound}, {applied} was applied"
        );
        assert!(bound >= 12_000_000, "{way}: half of a round trip of 25 ms cannot be known better: {bound}");
    }
    let found = &local["clock_found"];
    assert!(number(&found["round_trip_ns"]) >= 25_000_000, "{found}");
    assert!(number(&found["exchanges"]) > 16, "{found}");
}

/// The sender itself is held up for 200 ms, and the path for 50 ms twice a second. Percentiles from
/// the intended send have both; those from the actual send have the path's alone. Only what must be
/// is asserted: a busy machine may make all of it worse.
#[test]
fn a_stalled_sender_hides_no_spikes() {
    const TEST: &str = "delay_lab::a_stalled_sender_hides_no_spikes";
    let scratch = Scratch::new();
    let run = |more: &str, seconds: u32| {
        let lab = lab(TEST, "-q --wait sleep --only udp --up stall=100ms+50ms/500ms --trace")?;
        let (csv, out, trace) =
            (scratch.file("status.csv"), scratch.file("out.json"), scratch.file("trace.csv"));
        let _ = std::fs::remove_file(&csv);
        // The sender is stopped once three intervals are over, whenever that is.
        let command = format!(
            "{BIN} delay $NETCALIPER_LAB_SERVER --pps 1000 --wait block -l 200 -t {seconds}s -i 100ms {more} --status-csv {csv} --json > {out} & \
             pid=$!; until ! kill -0 $pid || [ $(wc -l 2>/dev/null < {csv} || echo 0) -gt 3 ]; do sleep 0.1; done; \
             kill -STOP $pid; sleep 0.2; kill -CONT $pid; wait $pid",
            csv = csv.display(),
            out = out.display()
        );
        served(lab.arg(&trace), &command).run().exits(0);
        let json: Value = serde_json::from_str(&std::fs::read_to_string(&out).unwrap()).unwrap();
        let point = &json["points"][0];
        Some((point["local"]["packets"].clone(), point["remote"][0]["packets"].clone(), Csv::read(&trace)))
    };
    let Some((local, remote, trace)) = run("", 3) else { return };
    assert_eq!(count(&local, "sent") + count(&local, "unsent"), 3_000, "{local}");
    let (actual, intended) = (&remote["delay_ns"], &remote["intended_ns"]);
    // What the lab itself did to them is a part of each delay. A busy host sends fewer while the
    // path is held up than a tenth.
    let applied = held(&trace);
    let rank = |share: f64| applied[(applied.len() as f64 * share).ceil() as usize - 1];
    assert!(*applied.last().unwrap() >= 25_000_000, "the path was held up for 50 ms, six times: {applied:?}");
    for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)] {
        for delays in [actual, intended] {
            // Three digits are kept.
            assert!(number(&delays[name]) * 1001 / 1000 >= rank(share), "{name} of {applied:?}: {delays}");
        }
    }
    // What was to leave when the sender stopped left 200 ms later, less one place in the schedule,
    // and three digits are kept.
    assert!(number(&intended["max"]) >= 195_000_000, "{intended}");
    // With --nonblock those places are given up instead: 200 ms are 200 of them, but for the last
    // millisecond's.
    let (local, ..) = run("--nonblock", 2).unwrap();
    let unsent = count(&local, "unsent");
    assert!(unsent >= 190, "{local}");
    assert_eq!(count(&local, "sent") + unsent, 2_000, "{local}");
}
