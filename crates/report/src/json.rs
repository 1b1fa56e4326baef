//! The outcome as a JSON document, the events as a journal of JSON lines, and the way back from both.

use crate::csv::EventWriter;
use model::document::{Document, check_syntax, top_field};
use model::{Builder, Event, Level, Outcome, SCHEMA};
use serde_json::Value;
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
