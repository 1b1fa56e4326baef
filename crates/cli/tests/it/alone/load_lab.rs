//! `netcaliper load` on a path whose truth is known: what it says that a full queue adds to the
//! delay of each direction, against what the lab did to each of the datagrams that it measured
//! with.

use crate::support::files::{Csv, Scratch};
use crate::support::lab::{lab, served};
use crate::support::net::congestion_controls;
use crate::support::{BIN, Outcome, PATIENCE, netcaliper, number, sized, skip, text};
use serde_json::Value;
use std::collections::BTreeMap;

/// A datagram of 160 bytes that measures delay, with the headers of IPv4 and UDP; no word of its
/// flow is as long.
const LENGTH: &str = "188";
const STAGES: [&str; 4] = ["idle", "down", "up", "both"];
const MS: f64 = 1e6;

/// Measuring datagrams a second, each way.
fn probes() -> usize {
    sized(50, 100)
}

/// A stage has at least a second of them. A segment of TCP may happen to be as long now and then.
fn few() -> usize {
    probes() / 2
}

/// The middle one of these delays, ns; of an even number, either.
fn median(mut delays: Vec<f64>) -> f64 {
    delays.sort_by(f64::total_cmp);
    delays[delays.len() / 2]
}

/// The median delay that the lab applied to the measuring datagrams of a direction, a stage after
/// the other: each has a flow of its own.
fn applied(trace: &Csv, way: &str) -> Vec<f64> {
    let column = |name| trace.column(name);
    let (ways, lengths, flows, classes) =
        (column("direction"), column("length"), column("flow"), column("class"));
    let delays = column("delay_ns");
    let mut stages: Vec<(&str, Vec<f64>)> = Vec::new();
    let mut at: BTreeMap<&str, usize> = BTreeMap::new();
    for row in 0..trace.rows.len() {
        if (ways[row], lengths[row], classes[row]) != (way, LENGTH, "left") {
            continue;
        }
        let stage = *at.entry(flows[row]).or_insert_with(|| {
            stages.push((flows[row], Vec::new()));
            stages.len() - 1
        });
        stages[stage].1.push(delays[row].parse().unwrap());
    }
    let measuring = stages.into_iter().filter(|(_, delays)| delays.len() >= few());
    measuring.map(|(_, delays)| median(delays)).collect()
}

/// How much longer than the measuring datagrams of its stage each load was under way, s: its flows
/// are those whose first long packet came between the measuring datagrams of the stage before and
/// its own.
fn load_beyond_probes(trace: &Csv) -> Vec<f64> {
    let column = |name| trace.column(name);
    let (ways, lengths) = (column("direction"), column("length"));
    let (flows, arrivals) = (column("flow"), column("arrived_ns"));
    // First and last arrival, and how many.
    let mut seen: BTreeMap<(bool, &str), (u64, u64, usize)> = BTreeMap::new();
    for row in 0..trace.rows.len() {
        let (length, arrived): (u32, u64) = (lengths[row].parse().unwrap(), arrivals[row].parse().unwrap());
        let probe = lengths[row] == LENGTH;
        if length > 1000 || (probe && ways[row] == "up") {
            let flow = seen.entry((probe, flows[row])).or_insert((arrived, arrived, 0));
            *flow = (flow.0.min(arrived), flow.1.max(arrived), flow.2 + 1);
        }
    }
    seen.retain(|_, (.., packets)| *packets >= few());
    let (mut probes, mut loads) = (Vec::new(), Vec::new());
    for ((probe, _), (first, last, _)) in seen {
        if probe { &mut probes } else { &mut loads }.push((first, last));
    }
    probes.sort_unstable();
    let beyond = |stages: &[(u64, u64)]| {
        let ((_, before), (begin, end)) = (stages[0], stages[1]);
        let of_stage = loads.iter().filter(|(first, _)| (before..begin).contains(first));
        let last = of_stage.map(|(_, last)| *last).max().expect("a load in each stage");
        (last as f64 - end as f64) / 1e9
    };
    probes.windows(2).map(beyond).collect()
}

/// The median that was measured, of the datagrams of a stage's direction.
fn measured(outcome: &Outcome, stage: &str, way: &str) -> f64 {
    let points = outcome.json["points"].as_array().unwrap();
    let is = |p: &&Value| text(&p["label"]["stage"]) == stage && text(&p["label"]["part"]) == "delay";
    let point = points.iter().find(is).unwrap_or_else(|| panic!("no delays of {stage}: {}", outcome.tell()));
    let end = if way == "up" { &point["remote"][0] } else { &point["local"] };
    number(&end["packets"]["delay_ns"]["p50"]) as f64
}

/// How long the transfers have to fill the path, s, at each try of a host that was too busy for it:
/// one that takes noise for a full queue (HyStart) needs longer.
const RAMPS: [u32; 6] = [2, 2, 4, 8, 16, 16];

/// Runs `load` with these words on a path of 5 ms each way with this rate and queue: its outcome,
/// the lab's trace, and the grade that it gives; or why this host did not get to its end. `None`,
/// and a skip on record, without the privilege.
fn loaded(test: &str, path: &str, words: &str) -> Option<Result<(Outcome, Csv, String), String>> {
    let test = format!("load_lab::{test}");
    let lab = lab(&test, "-q --wait sleep --delay 5ms")?;
    if !congestion_controls().iter().any(|name| name == "cubic") {
        skip(&test, "the system does not offer cubic");
        return None;
    }
    let scratch = Scratch::new();
    let (trace, saved) = (scratch.file("trace.csv"), scratch.file("run.jsonl"));
    // Senders of probes spin before each.
    let words = format!("{words} --rate {} -C cubic --json --save {}", probes(), saved.display());
    let command = format!("{BIN} load $NETCALIPER_LAB_SERVER {words}");
    let lab = served(lab.args(path).arg("--trace").arg(&trace), &command);
    let outcome = Outcome::of(lab.spawn().wait_within(4 * PATIENCE));
    if outcome.done.code == Some(4) {
        return Some(Err(outcome.json["reason"].to_string()));
    }
    let outcome = outcome.exits(0);
    let report = netcaliper("report").arg(&saved).run().exits(0);
    let grade = report.out.lines().find(|line| line.starts_with("Grade "));
    let grade = grade.unwrap_or_else(|| panic!("no grade: {}", report.tell())).to_owned();
    assert!(grade.contains("cubic"), "the congestion control is part of the verdict: {grade}");
    Some(Ok((outcome, Csv::read(&trace), grade)))
}

#[test]
fn a_queue_of_half_a_second_is_recognised_each_way() {
    let test = "a_queue_of_half_a_second_is_recognised_each_way";
    let mut told = Vec::new();
    for ramp in RAMPS {
        let path = format!("--rate {} --queue 500ms", sized("4M", "20M"));
        let words = format!("-t {} --ramp {ramp}s -P 4", sized("1s", "2s"));
        let Some(run) = loaded(test, &path, &words) else { return };
        match run.and_then(|(outcome, trace, grade)| recognised(&outcome, &trace, &grade)) {
            Ok(()) => return,
            Err(why) => told.push(why),
        }
    }
    panic!("{told:#?}");
}

/// Whether a full queue of half a second was found where it was. Of a host that is too busy to fill
/// the path, or whose own delays are as long, nothing can be asked but to try again.
fn recognised(outcome: &Outcome, trace: &Csv, grade: &str) -> Result<(), String> {
    let ways = ["up", "down"];
    let truth = ways.map(|way| applied(trace, way));
    assert!(truth.iter().all(|way| way.len() == STAGES.len()), "a flow in each stage: {truth:?}");
    let added: [[f64; 2]; 4] = std::array::from_fn(|s| [0, 1].map(|w| truth[w][s] - truth[w][0]));
    let beyond = load_beyond_probes(trace);
    assert!(beyond.iter().all(|s| *s > 0.0), "delays were measured when the load had ended: {beyond:?} s");
    let [_, down, up, both] = added;
    if down[1].min(up[0]).min(both[0].max(both[1])) < 100.0 * MS {
        return Err(format!("this host did not fill the path: {added:?} ns"));
    }
    // The way that is loaded fills, the other does not: acknowledgements are 2 % of it.
    if down[0] >= 20.0 * MS || up[1] >= 20.0 * MS {
        return Err(format!("the way that is not loaded: {down:?} ns, {up:?} ns"));
    }
    for (s, stage) in STAGES.into_iter().enumerate().skip(1) {
        // Of what the full queue adds. The way that is not loaded has the busy host's own delays
        // and next to none of the path's.
        let allowed = 0.05 * added[s][0].max(added[s][1]);
        for (w, way) in ways.into_iter().enumerate() {
            let found = measured(outcome, stage, way) - measured(outcome, STAGES[0], way);
            let (found, added) = (found / MS, added[s][w] / MS);
            if (found - added).abs() > allowed / MS {
                return Err(format!("{stage}, {way}: {added:.3} ms were added, {found:.3} ms found"));
            }
        }
    }
    assert!(["Grade C", "Grade D", "Grade F"].iter().any(|bad| grade.starts_with(bad)), "{grade}");
    Ok(())
}

#[test]
fn a_queue_of_ten_milliseconds_passes() {
    let mut grades = Vec::new();
    // A host that is busy with others delays messages by more than such a queue: then it is tried
    // again.
    for ramp in RAMPS {
        // Of a path of 10 Mbit/s such a queue holds eight packets, which the windows of four
        // connections overflow at once.
        let (path, load) = sized(("--rate 10M --queue 10ms", "-P 1"), ("--rate 20M --queue 10ms", "-P 4"));
        let words = format!("-t 1s --ramp {}s {load}", ramp / 2);
        let Some(run) = loaded("a_queue_of_ten_milliseconds_passes", path, &words) else { return };
        let (grade, beyond) =
            run.map_or_else(|why| (why, Vec::new()), |(_, trace, grade)| (grade, load_beyond_probes(&trace)));
        // Two such queues are 20 ms: what hosts add to that may be some, but not as much as a full
        // buffer. And the load does not go on while messages that were dropped are waited for,
        // twice 5 s.
        if ["Grade A", "Grade B"].iter().any(|good| grade.starts_with(good))
            && beyond.iter().all(|s| *s < 5.0)
        {
            return;
        }
        grades.push((grade, beyond));
    }
    panic!("{grades:?}");
}
