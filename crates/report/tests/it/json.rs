//! Saved runs: what is written can be read, whole or cut short.

use crate::common::{Counting, built, events, outcome, text_of};
use metrics::SECOND;
use model::{Begin, Builder, Event, Level, Outcome, Status, Totals, Traffic};
use report::EventWriter as _;
use report::{Journal, read_run, replay, write_outcome, write_summary};
use serde_json::Value;
use std::collections::BTreeMap;

/// Whether `bench/deep` asks for everything that takes its time.
pub(crate) fn thorough() -> bool {
    std::env::var_os("NETCALIPER_INPUTS").is_some()
}

fn document(outcome: &Outcome) -> String {
    text_of(|out| write_outcome(outcome, out))
}

fn journal(events: &[Event]) -> String {
    let mut out = Vec::new();
    let mut journal = Journal::new(&mut out);
    events.iter().for_each(|event| journal.on_event(event).unwrap());
    drop(journal);
    String::from_utf8(out).unwrap()
}

#[test]
fn an_outcome_survives_the_file() {
    let text = document(&outcome());
    assert!(text.starts_with("{\n  \"schema\": \"netcaliper.outcome.v2\",\n") && text.ends_with("}\n"));
    assert_eq!(read_run(&text).unwrap(), outcome());
    let compact = serde_json::to_string(&outcome()).unwrap();
    assert_eq!(read_run(&compact).unwrap(), outcome());
    assert_eq!(read_run(&format!("\u{feff}{text}\n\n")).unwrap(), outcome(), "as an editor may leave it");
}

/// A run of `verb` with a phase under each label.
fn run(verb: &str, labels: impl Iterator<Item = BTreeMap<String, String>>) -> Outcome {
    let targets = vec!["a-host-with-a-long-name.example.org".to_owned()];
    let mut events =
        vec![Event::Begin(Box::new(Begin { verb: verb.to_owned(), targets, ..Begin::default() }))];
    for label in labels {
        let counts = |tx_bytes, rx_bytes| Traffic { tx_bytes, rx_bytes, ns: SECOND, ..Traffic::default() };
        let totals = |traffic| Box::new(Totals { traffic, ..Totals::default() });
        events.push(Event::Phase { label, repeat: 1, phase: Box::default() });
        events.extend([Event::Local(totals(counts(1 << 40, 0))), Event::Remote(totals(counts(0, 1 << 40)))]);
        events.push(Event::PhaseEnd { status: Status::Complete, reason: None });
    }
    events.push(Event::End { status: Status::Complete, reason: None });
    built(&events)
}

fn short(outcome: &Outcome) -> Value {
    let text = text_of(|out| write_summary(outcome, out));
    assert!(text.len() < 2048, "{} bytes: {text}", text.len());
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn a_summary_is_below_two_kilobytes_however_many_settings_there_are() {
    for settings in [1, 2, 21, 100, if thorough() { 1000 } else { 300 }] {
        let label = |n: i32| BTreeMap::from([("connections".to_owned(), n.to_string())]);
        let summary = short(&run("tcp", (1..=settings).map(label)));
        let told = summary["results"].as_array().unwrap();
        let left_out = summary["left_out"].as_i64().unwrap_or(0);
        assert_eq!(told.len() as i64 + left_out, i64::from(settings), "{summary:#}");
        let rate = told[0]["figures"]["goodput.up"].as_f64();
        assert_eq!(rate, Some(8_796_093_022_208.0), "the figure that it is about comes first: {summary:#}");
        assert!(summary["answer"].as_str().unwrap().contains("8.80 Tbit/s"), "{summary:#}");
    }
    assert!(short(&outcome())["results"][0]["figures"].is_object());
    let stages = ["idle", "down", "up", "both"].into_iter().flat_map(|stage| {
        ["delay", "trips", "load"]
            .map(|part| [("stage", stage), ("part", part)].map(|(k, v)| (k.to_owned(), v.to_owned())).into())
    });
    short(&run("load", stages));
}

#[test]
fn a_journal_gives_the_outcome_it_was_written_with() {
    let text = journal(&events());
    assert_eq!(text.lines().count(), events().len());
    assert!(text.lines().all(|line| line.starts_with("{\"event\":\"")));
    assert_eq!(read_run(&text).unwrap(), outcome());
}

#[test]
fn replaying_an_outcome_builds_it_again() {
    let mut builder = Builder::default();
    replay(&outcome()).iter().for_each(|event| builder.absorb(event));
    assert_eq!(builder.outcome(), outcome());
}

#[test]
fn replayed_notices_are_as_grave_as_they_were() {
    let notices = ["error: a", "warning: b", "note: c", "d"].map(str::to_owned).to_vec();
    let events = replay(&Outcome { notices, ..Outcome::default() });
    let told: Vec<(Level, &str)> = events
        .iter()
        .filter_map(|event| match event {
            Event::Notice { level, text } => Some((*level, text.as_str())),
            _ => None,
        })
        .collect();
    let want = [(Level::Error, "a"), (Level::Warning, "b"), (Level::Info, "note: c"), (Level::Info, "d")];
    assert_eq!(told, want);
}

#[test]
fn a_journal_cut_anywhere_after_its_first_line_is_a_partial_run() {
    let text = journal(&events());
    let first = text.find('\n').unwrap() + 1;
    // Every byte where `NETCALIPER_INPUTS` is set, as by bench/deep; otherwise the beginning and
    // the end of each line and every 353rd byte.
    let local = |cut: usize| text.as_bytes()[cut.saturating_sub(2)..text.len().min(cut + 2)].contains(&b'\n');
    let chosen = |cut: &usize| cut.is_multiple_of(353) || local(*cut) || thorough();
    for cut in (first..text.len() - 1).filter(|&cut| text.is_char_boundary(cut)).filter(chosen) {
        assert_eq!(read_run(&text[..cut]).unwrap().status, Status::Partial, "cut at {cut}");
    }
    // Cut within the third interval: two were told, the first of them omitted.
    let intervals: Vec<usize> = text.match_indices("{\"event\":\"interval\"").map(|(at, _)| at).collect();
    let outcome = read_run(&text[..intervals[2] + 40]).unwrap();
    let point = &outcome.points[0];
    assert_eq!(point.intervals.len(), 2);
    assert_eq!(point.up.unwrap().goodput_bps, 8e9);
    assert_eq!(point.down.unwrap().received_bytes, 125_000_000);
}

#[test]
fn events_of_a_later_version_are_passed_over_and_said() {
    let mut lines: Vec<String> = journal(&events()).lines().map(str::to_owned).collect();
    lines.insert(2, "{\"event\":\"eclipse\",\"depth\":3}".to_owned());
    let outcome = read_run(&lines.join("\n")).unwrap();
    let passed: Vec<&String> = outcome.notices.iter().filter(|n| n.contains("passed over")).collect();
    assert!(passed.len() == 1 && passed[0].starts_with("warning: line 3 of the journal"), "{passed:?}");
    assert_eq!(outcome.points, crate::common::outcome().points);
}

#[test]
fn what_cannot_be_read_is_said_in_one_sentence() {
    let fails = |text: &str| read_run(text).unwrap_err();
    assert_eq!(fails(" \n"), "the file is empty");
    assert!(fails("hello").starts_with("the file is neither a saved outcome nor a journal: "));
    assert_eq!(fails("{}"), "the file is JSON, but no outcome: it has no schema 'netcaliper.outcome.v2'");
    assert_eq!(fails("[1]"), "the file is JSON, but no outcome: it has no schema 'netcaliper.outcome.v2'");
    let other = "{\"schema\":\"netcaliper.lab.v1\"}";
    assert_eq!(fails(other), "the file is a 'netcaliper.lab.v1', this version reads 'netcaliper.outcome.v2'");
    for (schema, age) in
        [("v1", "an earlier build (netcaliper.outcome.v1)"), ("v3", "a later build (netcaliper.outcome.v3)")]
    {
        let said = fails(&format!("{{\"schema\":\"netcaliper.outcome.{schema}\"}}"));
        let want = format!("the file was made by {age}, this one reads netcaliper.outcome.v2");
        assert!(said.starts_with(&want), "{said}");
    }
    let unsaid = journal(&events()).replace("\"schema\":\"netcaliper.outcome.v2\",", "");
    let want = "the file was made by an earlier build (a journal without a version)";
    assert!(fails(&unsaid).starts_with(want), "{}", fails(&unsaid));
    let damaged = document(&outcome()).replace("\"repeat\": 1", "\"repeat\": \"one\"");
    assert!(fails(&damaged).starts_with("the outcome is damaged: "), "{}", fails(&damaged));
    let cut = document(&outcome());
    assert!(fails(&cut[..cut.len() / 2]).starts_with("the file is neither"), "a document cannot be cut");
    let mut lines: Vec<String> = journal(&events()).lines().map(str::to_owned).collect();
    lines[3] = lines[3][..20].to_owned();
    assert!(fails(&lines.join("\n")).starts_with("line 4 of the journal is damaged: "));
}

#[test]
fn no_damaged_byte_in_a_file_makes_the_reader_panic() {
    // Each fourth byte of a short journal replaced in turn by one of these, or every byte by each:
    // read or refused, never a panic.
    let text = journal(&events()[..4]);
    for at in (0..text.len()).step_by(if thorough() { 1 } else { 4 }) {
        let mut others = *b"\"}9-\n";
        others.rotate_left(at % 5);
        for byte in &others[..if thorough() { 5 } else { 1 }] {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = *byte;
            if let Ok(text) = String::from_utf8(bytes) {
                let _ = read_run(&text);
            }
        }
    }
}

#[test]
fn every_event_reaches_the_file_at_once_but_connections_wait_for_the_next() {
    let mut lines = Vec::new();
    let mut journal = Journal::new(Counting(&mut lines));
    events().iter().for_each(|event| journal.on_event(event).unwrap());
    std::mem::forget(journal); // a crash: nothing more is flushed
    // Nine events to the end of the intervals, then two connections with our totals, then three
    // more.
    assert_eq!(lines, [1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 1, 1, 1]);
}
