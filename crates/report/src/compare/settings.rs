//! Differences between the two sides of a comparison besides the figures: the test itself, in the
//! words of its command line, and all other settings and both hosts.

use crate::text::or_dash;
use metrics::{Clamped, SECOND};
use model::document::Document;
use model::{Begin, Outcome, Schedule, SessionInfo};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// The form of a setting's value on a command line.
#[derive(Clone, Copy)]
enum Form {
    Plain,
    Bytes,
    Rate,
    Time,
}

/// Settings of a test and their options.
const OPTIONS: [(&str, &str, Form); 46] = [
    ("protocol", "--protocol", Form::Plain),
    ("phase.connections", "-P", Form::Plain),
    ("phase.duration_ns", "-t", Form::Time),
    ("phase.omit_ns", "-O", Form::Time),
    ("load.ramp_ns", "--ramp", Form::Time),
    ("load.rate", "--rate", Form::Plain),
    ("phase.interval_ns", "-i", Form::Time),
    ("phase.transfer", "--transfer", Form::Bytes),
    ("phase.total_bytes", "-n", Form::Bytes),
    ("phase.iterations", "--iterations", Form::Plain),
    ("phase.hold_ns", "--hold", Form::Time),
    ("phase.buffer.low", "-l", Form::Bytes),
    ("phase.rate", "-b", Form::Rate),
    ("phase.burst.count", "--burst", Form::Plain),
    ("phase.burst.delay_ns", "--burst-delay", Form::Time),
    ("phase.verify", "--verify", Form::Plain),
    ("phase.payload", "--payload", Form::Plain),
    ("phase.shutdown", "--shutdown", Form::Plain),
    ("phase.connect_rate", "--rate", Form::Plain),
    ("phase.throttle", "--throttle", Form::Plain),
    ("phase.connect_timeout_ns", "--connect-timeout", Form::Time),
    ("phase.stall_ns", "--stall-timeout", Form::Time),
    ("phase.exclusive", "--exclusive", Form::Plain),
    ("phase.sockets.sndbuf", "--sndbuf", Form::Bytes),
    ("phase.sockets.rcvbuf", "--rcvbuf", Form::Bytes),
    ("phase.sockets.nodelay", "--nodelay", Form::Plain),
    ("phase.sockets.mss", "-M", Form::Plain),
    ("phase.sockets.congestion", "-C", Form::Plain),
    ("phase.sockets.dscp", "--dscp", Form::Plain),
    ("phase.sockets.ecn", "--ecn", Form::Plain),
    ("phase.probe.paired", "the other codepoint of --ecn", Form::Plain),
    ("phase.sockets.ttl", "--ttl", Form::Plain),
    ("phase.sockets.flow_label", "--flow-label", Form::Plain),
    ("phase.sockets.keepalive_ns", "--keepalive", Form::Time),
    ("phase.ping.size", "-l", Form::Bytes),
    ("phase.ping.messages", "-n", Form::Plain),
    ("phase.ping.warmup", "--warmup", Form::Plain),
    ("phase.ping.chunk", "--send-chunk", Form::Bytes),
    ("phase.ping.timeout_ns", "--timeout", Form::Time),
    ("phase.ping.busy", "--busy", Form::Plain),
    ("phase.probe.size", "-l", Form::Bytes),
    ("phase.probe.spacing", "--schedule", Form::Plain),
    ("phase.probe.waiting", "--wait", Form::Plain),
    ("phase.media.rate_bps", "-b", Form::Rate),
    ("phase.media.frame_rate", "--frame-rate", Form::Plain),
    ("phase.train.packets", "-n", Form::Plain),
];

/// Settings that a program chooses for itself, or that follow from others.
const DERIVED: [&str; 13] = [
    "phase.kind",
    "phase.pattern",
    "phase.buffer.high",
    "phase.inside_gap_ns",
    "phase.first_worker",
    "phase.probe.seed",
    "phase.payload_seed",
    "phase.sockets.same_host_sndbuf",
    "phase.sockets.whole_segments",
    "phase.sockets.card_stamps",
    "phase.media.frames",
    "phase.media.frame_size",
    "phase.media.depth_frames",
];

/// The differences between two tests in the names of options: `-P 8 -> 2`, `--bidir`. Hosts, kernels
/// and versions are no part of a test.
pub(super) fn test(sides: [&[Outcome]; 2]) -> Vec<String> {
    let all = sides.map(|runs| runs.first().map(settings).unwrap_or_default());
    let names: BTreeSet<&String> = all.iter().flat_map(BTreeMap::keys).collect();
    let mut found = Vec::new();
    let place = |name: &&String| OPTIONS.iter().position(|(path, ..)| path == name).unwrap_or(OPTIONS.len());
    let mut names: Vec<&String> =
        names.into_iter().filter(|name| !DERIVED.contains(&name.as_str())).collect();
    names.sort_by_key(|name| place(name));
    for name in names {
        let [before, after] = [&all[0], &all[1]].map(|side| side.get(name));
        if before != after {
            let row = OPTIONS.iter().find(|(path, ..)| path == name);
            let form = row.map_or(Form::Plain, |(.., form)| *form);
            let plain = || name.trim_start_matches("phase.").replace(['.', '_'], " ");
            let option = row.map_or_else(plain, |(_, option, _)| (*option).to_owned());
            let [before, after] = [before, after].map(|value| shown(value, form));
            found.push(format!("{option} {before} -> {after}"));
        }
    }
    found.extend(direction([&all[0], &all[1]]));
    let swept = sides.map(|runs| runs.first().map(swept).unwrap_or_default());
    if swept[0] != swept[1] {
        found.push("--sweep".to_owned());
    }
    found
}

/// The direction of the payload as its option; none where both tests have the same.
fn direction([before, after]: [&BTreeMap<String, String>; 2]) -> Option<String> {
    let [was, is] = [before, after].map(|side| side.get("phase.pattern").map_or("push", String::as_str));
    if was == is {
        return None;
    }
    let kind = after.get("phase.kind").map_or("", String::as_str);
    let option = |pattern: &str| match (pattern, kind) {
        ("pull", _) => "-R".to_owned(),
        ("duplex", _) => "--bidir".to_owned(),
        ("push", "delay") => "--up".to_owned(),
        (other, _) => format!("--pattern {other}"),
    };
    Some(match (was, is) {
        ("push", _) if kind != "delay" => option(is),
        (_, "push") if kind != "delay" => format!("without {}", option(was)),
        _ => format!("{} -> {}", option(was), option(is)),
    })
}

/// Units of values on a command line, the largest first.
type Units = [(u64, &'static str); 4];
const TIMES: Units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
const BYTES: Units = [(1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"), (1, "")];
const RATES: Units = [(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k"), (1, "")];

/// A value as it is typed: in the largest unit of which it is a multiple.
fn typed(value: u64, units: &Units) -> String {
    let unit = units.iter().find(|(unit, _)| value > 0 && value.is_multiple_of(*unit));
    unit.map_or_else(|| "0".to_owned(), |(unit, name)| format!("{}{name}", value / unit))
}

fn shown(value: Option<&String>, form: Form) -> String {
    let unset = if matches!(form, Form::Rate) { "unlimited" } else { "default" };
    let Some(text) = value else { return unset.to_owned() };
    let number = text.parse::<f64>().ok();
    match (form, number) {
        (Form::Time, Some(ns)) => typed(u64::clamped(ns), &TIMES),
        (Form::Bytes, Some(bytes)) => typed(u64::clamped(bytes), &BYTES),
        (Form::Rate, Some(rate)) => typed(u64::clamped(rate), &RATES),
        _ => text.clone(),
    }
}

/// The settings of a run's test: of a load the settings of its connections.
fn settings(run: &Outcome) -> BTreeMap<String, String> {
    let mut rows = Vec::new();
    if !run.begin.protocol.is_empty() {
        rows.push(("protocol".to_owned(), run.begin.protocol.clone()));
    }
    let is_load = |point: &&model::Point| point.label.get("part").is_some_and(|part| part == "load");
    if let Some(point) = run.points.iter().find(is_load).or(run.points.first()) {
        crate::html::flatten("phase", &point.phase.value().unwrap_or(Value::Null), &mut rows);
    }
    let mut all: BTreeMap<String, String> = rows.into_iter().collect();
    if run.begin.verb == "load" {
        of_load(run, &mut all);
    }
    all
}

/// Turns the settings of a load's connections into its options: their time includes the ramp.
fn of_load(run: &Outcome, all: &mut BTreeMap<String, String>) {
    let number = |text: Option<&String>| text.and_then(|text| text.parse::<u64>().ok());
    let ramp_ns = number(all.remove("phase.omit_ns").as_ref()).unwrap_or(0);
    if let Some(ns) = number(all.get("phase.duration_ns")) {
        all.insert("phase.duration_ns".to_owned(), ns.saturating_sub(ramp_ns).to_string());
    }
    all.insert("load.ramp_ns".to_owned(), ramp_ns.to_string());
    let pings = run.points.iter().find_map(|point| point.phase.ping);
    let gap_ns = pings.and_then(|ping| match ping.schedule {
        Schedule::Poisson { gap_ns } => Some(gap_ns).filter(|ns| *ns > 0),
        _ => None,
    });
    all.extend(gap_ns.map(|ns| ("load.rate".to_owned(), (SECOND / ns).to_string())));
}

/// The names and values that a run sweeps.
fn swept(run: &Outcome) -> BTreeSet<&BTreeMap<String, String>> {
    run.points.iter().map(|point| &point.label).collect()
}

/// Settings and hosts of the first run of each side, where they differ.
pub(super) fn changes(sides: [&[Outcome]; 2]) -> Vec<[String; 3]> {
    let sides = sides.map(|runs| runs.first().map(conditions).unwrap_or_default());
    let names: BTreeSet<&String> = sides.iter().flat_map(BTreeMap::keys).collect();
    let all = names.into_iter().map(|name| {
        let [before, after] = [&sides[0], &sides[1]].map(|side| or_dash(side.get(name), String::clone));
        [name.clone(), before, after]
    });
    all.filter(|[_, before, after]| before != after).collect()
}

fn conditions(run: &Outcome) -> BTreeMap<String, String> {
    let mut rows = Vec::new();
    let mut add = |name: &str, value: io::Result<Value>| {
        crate::html::flatten(name, &value.unwrap_or(Value::Null), &mut rows);
    };
    let Begin { version, verb, protocol, targets, host, placement, workers, .. } = &run.begin;
    let begin = json!({
        "version": version, "verb": verb, "protocol": protocol, "targets": targets, "placement": placement, "workers": workers,
    });
    add("", Ok(begin));
    add("host", host.value());
    if let Some(point) = run.points.first() {
        add("phase", point.phase.value());
        add("in effect here", point.local.effective.value());
        for (n, totals) in point.remote.iter().enumerate() {
            add(&format!("in effect at server {}", n + 1), totals.effective.value());
        }
        for (n, session) in point.sessions.iter().enumerate() {
            let name = format!("server {}", n + 1);
            let SessionInfo { version, placement, workers, .. } = session;
            add(&name, Ok(json!({ "version": version, "placement": placement, "workers": workers })));
            add(&format!("{name}.host"), session.host.value());
        }
    }
    // Drawn anew for each run.
    rows.retain(|(name, _)| {
        !name.ends_with("first_worker")
            && !name.ends_with("probe.seed")
            && !name.ends_with("draw_seed")
            && !name.ends_with("clock_error_ns")
    });
    rows.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Pattern, Phase, Point};

    fn run(phase: Phase) -> Outcome {
        Outcome { points: vec![Point { phase, ..Point::default() }], ..Outcome::default() }
    }

    fn differences(before: Phase, after: Phase) -> Vec<String> {
        test([&[run(before)], &[run(after)]])
    }

    #[test]
    fn a_test_differs_in_the_names_of_options() {
        let one = Phase::default();
        let two = Phase { connections: 2, pattern: Pattern::Duplex, ..one.clone() };
        assert_eq!(differences(one.clone(), two.clone()), ["-P 8 -> 2", "--bidir"]);
        assert_eq!(differences(two, one.clone()), ["-P 2 -> 8", "without --bidir"]);
        let rate = Phase { rate: Some(10_000_000), duration_ns: Some(2_000_000_000), ..one.clone() };
        assert_eq!(differences(one.clone(), rate), ["-t 10s -> 2s", "-b unlimited -> 10M"]);
        // Drawn anew for each run.
        let drawn = Phase { first_worker: 3, payload_seed: Some(7), ..one.clone() };
        assert!(differences(one.clone(), drawn).is_empty());
        let unnamed = Phase { rate_high: Some(5), ..one.clone() };
        assert_eq!(differences(one, unnamed), ["rate high default -> 5"]);
    }
}
