//! The outcome as a JSON document, the events as a journal of JSON lines, and the way back from both.

use crate::csv::EventWriter;
use crate::summary;
use model::document::{Document, check_syntax, top_field};
use model::{Builder, Event, Figure, Kind, Level, Outcome, SCHEMA, Stat};
use serde_json::{Map, Value, json};
use std::fmt;
use std::io::{self, BufWriter, Write};

/// Writes `outcome` as an indented JSON document, as `schema/outcome.v2.json` describes it.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_outcome(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    outcome.write_indented(&mut out)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Writes `outcome` as one line of JSON.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_outcome_line(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    outcome.write(out)?;
    out.write_all(b"\n")
}

/// Writes what `outcome` says in short as a JSON document of some lines: the answer, the figures of each phase, of a sweep those of
/// each setting and of a load those of each stage, the names of the caveats.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_summary(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let caveats: Vec<&str> =
        summary::kinds(&outcome.points).iter().map(|(caveat, _)| caveat.code.as_str()).collect();
    let figures = |of: &dyn Fn(Figure) -> Option<f64>| -> Map<String, Value> {
        let known = Figure::kept().filter_map(|figure| Some((figure.key(), of(figure)?)));
        known.map(|(key, value)| (key, rounded(value))).collect()
    };
    let results: Vec<Value> = match outcome.points.as_slice() {
        [one] => vec![json!({ "figures": figures(&|figure| figure.of(one)) })],
        all if outcome.begin.verb == "load" => all
            .iter()
            .map(|point| {
                let few = figures(&|figure| figure.of(point).filter(|_| Figure::leading(point.phase.kind).contains(&figure)
                    || figure.stat().is_some_and(|stat| stat == Stat::MEDIAN) && point.phase.kind != Kind::Tcp));
                json!({ "setting": point.label, "figures": few })
            })
            .collect(),
        _ => outcome
            .sweep
            .iter()
            .map(|row| json!({ "setting": row.label, "figures": figures(&|figure| Some(row.figure(figure)?.mean)) }))
            .collect(),
    };
    let document = json!({
        "schema": "netcaliper.summary.v1",
        "verb": outcome.begin.verb,
        "targets": outcome.begin.targets,
        "run": outcome.begin.run,
        "status": outcome.status.name(),
        "reason": outcome.reason,
        "answer": summary::answer(outcome),
        "results": results,
        "caveats": caveats,
    });
    writeln!(out, "{document:#}")
}

/// A value with the digits that it deserves.
fn rounded(value: f64) -> Value {
    let shown = if value.abs() >= 1e4 { value.round() } else { (value * 1e4).round() / 1e4 };
    json!(shown)
}

/// The journal: one event per line. Every event is written out at once, with all before it; only ended connections
/// wait for the next event of another kind (an interval's at the latest), since tens of thousands may end in a second.
pub struct Journal<W: Write> {
    out: BufWriter<W>,
}

impl<W: Write> Journal<W> {
    /// A journal on `out`.
    pub fn new(out: W) -> Self {
        Journal { out: BufWriter::with_capacity(64 * 1024, out) }
    }
}

impl<W: Write> EventWriter for Journal<W> {
    /// Connections wait for the next other event: tens of thousands may end in a second.
    fn on_event(&mut self, event: &Event) -> io::Result<()> {
        event.write(&mut self.out)?;
        self.out.write_all(b"\n")?;
        match event {
            Event::Connection(_) => Ok(()),
            _ => self.out.flush(),
        }
    }
}

/// Why a saved run cannot be read: one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError(String);

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ReadError {}

/// Reads a saved run: an outcome, or a journal of which a crash may have cut the last line.
///
/// # Errors
/// One sentence when `text` is neither.
pub fn read_run(text: &str) -> Result<Outcome, ReadError> {
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Err(ReadError("the file is empty".to_owned()));
    }
    let first = text.lines().next().unwrap_or_default();
    let tag = check_syntax(first.as_bytes()).and_then(|()| top_field(first.as_bytes(), "event"));
    if matches!(tag, Ok(Some(_))) { read_journal(text) } else { read_outcome(text) }
}

fn read_outcome(text: &str) -> Result<Outcome, ReadError> {
    let json = text.as_bytes();
    check_syntax(json)
        .map_err(|e| ReadError(format!("the file is neither a saved outcome nor a journal: {e}")))?;
    let schema = top_field(json, "schema").ok().flatten();
    match schema.as_ref().and_then(Value::as_str) {
        Some(SCHEMA) => {}
        Some(other) if other.starts_with("netcaliper.outcome.") => return Err(other_build(other)),
        Some(other) => {
            return Err(ReadError(format!("the file is a '{other}', this version reads '{SCHEMA}'")));
        }
        None => {
            return Err(ReadError(format!("the file is JSON, but no outcome: it has no schema '{SCHEMA}'")));
        }
    }
    Outcome::read(json).map_err(|e| ReadError(format!("the outcome is damaged: {e}")))
}

/// The refusal of a run that a build with another version of the document saved.
fn other_build(schema: &str) -> ReadError {
    let version = |schema: &str| schema.rsplit_once(".v").and_then(|(_, digits)| digits.parse::<u32>().ok());
    let age = if version(schema) > version(SCHEMA) { "a later" } else { "an earlier" };
    let schema = if schema.is_empty() { "a journal without a version" } else { schema };
    ReadError(format!(
        "the file was made by {age} build ({schema}), this one reads {SCHEMA}: measure again, or read it with that build"
    ))
}

/// Plays the journal to a builder. The last line may be cut; events that a later version added are passed over.
fn read_journal(text: &str) -> Result<Outcome, ReadError> {
    let mut builder = Builder::default();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((at, line)) = lines.next() {
        match Event::read(line.as_bytes()) {
            Ok(Event::Begin(begin)) if begin.schema.0 != SCHEMA => return Err(other_build(&begin.schema.0)),
            Ok(event) => builder.absorb(&event),
            Err(_) if line.trim().is_empty() => {}
            Err(_) if lines.peek().is_none() => {} // cut by a crash
            Err(why) if check_syntax(line.as_bytes()).is_ok() => {
                let text = format!("line {} of the journal was passed over: {why}", at + 1);
                builder.absorb(&Event::Notice { level: Level::Warning, text });
            }
            Err(why) => return Err(ReadError(format!("line {} of the journal is damaged: {why}", at + 1))),
        }
    }
    Ok(builder.outcome())
}
