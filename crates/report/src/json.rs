//! The outcome as a JSON document, the events as a journal of JSON lines, the way back from both,
//! and the events of an outcome.

use crate::csv::EventWriter;
use crate::summary;
use metrics::real;
use model::document::{Document, check_syntax, top_field};
use model::load::{OneWay, StageResult, under_load};
use model::{Builder, Event, Figure, Level, Outcome, Point, SCHEMA, Stat, SweepRow, Way};
use serde_json::{Map, Value, json};
use std::io::{self, BufWriter, Write};

/// Writes `outcome` as an indented JSON document, as `schema/outcome.v2.json` describes it.
pub fn write_outcome(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    outcome.write_indented(&mut out)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Writes `outcome` as one line of JSON.
pub fn write_outcome_line(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    outcome.write(out)?;
    out.write_all(b"\n")
}

/// A summary in JSON is shorter, bytes.
const SHORT: usize = 2_000;

/// Figures of a setting or stage, the most important first.
struct SummaryRow {
    setting: Value,
    /// Grade of a stage of a load.
    grade: Option<&'static str>,
    figures: Vec<(String, Value)>,
}

/// Writes the summary of `outcome` as a JSON document below 2 KB: the answer, the figures of the
/// run, for each setting of a sweep and each stage of a load, the names of the caveats. Of many
/// settings each has fewer figures; of yet more settings some are left out, evenly, and counted.
pub fn write_summary(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let rows = rows(outcome);
    let most = rows.iter().map(|row| row.figures.len()).max().unwrap_or(1).max(1);
    let all = (1..=most).rev().map(|figures| (figures, 1));
    let fewer = (2..rows.len().max(2)).map(|every| (1, every));
    let mut texts = all.chain(fewer).map(|(figures, every)| document(outcome, &rows, figures, every));
    let text = texts.find(|text| text.len() < SHORT);
    writeln!(out, "{}", text.unwrap_or_else(|| document(outcome, &rows, 1, rows.len().max(1))))
}

/// The document, a line for each row; shortened to the first `most` figures of a row and to every
/// `every`-th row.
fn document(outcome: &Outcome, rows: &[SummaryRow], most: usize, every: usize) -> String {
    let caveats: Vec<&str> =
        summary::kinds(&outcome.points).iter().map(|(caveat, _)| caveat.code.as_str()).collect();
    let lines: Vec<String> = rows.iter().step_by(every).map(|row| row.line(most)).collect();
    let left_out = rows.len() - lines.len();
    let fields = [
        ("schema", json!("netcaliper.summary.v1")),
        ("verb", json!(outcome.begin.verb)),
        ("targets", json!(outcome.begin.targets)),
        ("run", json!(outcome.begin.run)),
        ("status", json!(outcome.status.name())),
        ("reason", json!(outcome.reason)),
        ("answer", json!(summary::answer(outcome))),
        ("caveats", json!(caveats)),
    ];
    let fields = fields.into_iter().chain((left_out > 0).then(|| ("left_out", json!(left_out))));
    let head: String = fields.map(|(name, value)| format!("  \"{name}\": {value},\n")).collect();
    format!("{{\n{head}  \"results\": [\n    {}\n  ]\n}}", lines.join(",\n    "))
}

impl SummaryRow {
    fn new(setting: Value, figures: impl IntoIterator<Item = (String, f64)>) -> Self {
        SummaryRow {
            setting,
            grade: None,
            figures: figures.into_iter().map(|(key, value)| (key, rounded(value))).collect(),
        }
    }

    fn line(&self, most: usize) -> String {
        let figures: Map<String, Value> = self.figures.iter().take(most).cloned().collect();
        let mut row = Map::new();
        row.extend((!self.setting.is_null()).then(|| ("setting".to_owned(), self.setting.clone())));
        row.extend(self.grade.map(|grade| ("grade".to_owned(), json!(grade))));
        row.insert("figures".to_owned(), Value::Object(figures));
        Value::Object(row).to_string()
    }
}

fn rows(outcome: &Outcome) -> Vec<SummaryRow> {
    let kind = outcome.points.first().map(|point| point.phase.kind).unwrap_or_default();
    let first = Figure::deciding(kind);
    let figures = || first.iter().copied().chain(Figure::kept().filter(|figure| !first.contains(figure)));
    let known = |of: &dyn Fn(Figure) -> Option<f64>| -> Vec<(String, f64)> {
        figures().filter_map(|figure| Some((figure.key(), of(figure)?))).collect()
    };
    match outcome.points.as_slice() {
        [one] => vec![SummaryRow::new(Value::Null, known(&|figure| figure.of(one)))],
        _ if outcome.begin.verb == "load" => under_load(outcome).iter().map(stage).collect(),
        _ => {
            let row = |row: &SweepRow| {
                SummaryRow::new(json!(row.label), known(&|figure| Some(row.figure(figure)?.mean)))
            };
            outcome.sweep.iter().map(row).collect()
        }
    }
}

/// The figures of a stage under load, with the path's figures under the names that all runs have.
fn stage(found: &StageResult) -> SummaryRow {
    let (median, p99) = (Stat::MEDIAN, Stat::Quantile(0.99));
    let goodput = |way: Option<OneWay>| way.and_then(|way| way.goodput_bps);
    let time = |ns: Option<u64>| ns.map(real);
    let figures = [
        (Figure::Goodput(Way::Up).key(), goodput(found.up)),
        (Figure::Goodput(Way::Down).key(), goodput(found.down)),
        (Figure::RoundTrip(median).key(), time(found.rtt_p50_ns)),
        (Figure::RoundTrip(p99).key(), time(found.rtt_p99_ns)),
        (Figure::MessagesLost.key(), found.never_back.map(|share| 100.0 * share)),
        ("rpm".to_owned(), found.rpm),
        (Figure::Delay(Way::Up, median).key(), found.up.map(|way| real(way.p50_ns))),
        (Figure::Delay(Way::Down, median).key(), found.down.map(|way| real(way.p50_ns))),
    ];
    let of_load =
        [Figure::Added, Figure::AddedPercentile(median), Figure::AddedPercentile(Stat::Quantile(0.9))];
    let of_load =
        of_load.map(|figure| (figure.key(), found.figure(figure).filter(|value| value.is_finite())));
    let known = figures.into_iter().chain(of_load).filter_map(|(key, value)| Some((key, value?)));
    let mut setting = json!({ "stage": found.stage });
    if found.repetitions > 1 {
        setting["repetitions"] = json!(found.repetitions);
    }
    SummaryRow { grade: found.grade(), ..SummaryRow::new(setting, known) }
}

/// A value with five digits, or with all those before the point.
fn rounded(value: f64) -> Value {
    let five = || format!("{value:.4e}").parse().unwrap_or(value);
    json!(if value.abs() >= 1e4 { value.round() } else { five() })
}

/// The journal: one event per line. Every event is written out at once, with all before it; only
/// ended connections wait for the next event of another kind (an interval's at the latest), since
/// tens of thousands may end in a second.
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

/// Reads a saved run: an outcome, or a journal of which a crash may have cut the last line.
///
/// # Errors
/// One sentence when `text` is neither.
pub fn read_run(text: &str) -> Result<Outcome, String> {
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Err("the file is empty".to_owned());
    }
    let first = text.lines().next().unwrap_or_default();
    let tag = check_syntax(first.as_bytes()).and_then(|()| top_field(first.as_bytes(), "event"));
    if matches!(tag, Ok(Some(_))) { read_journal(text) } else { read_outcome(text) }
}

fn read_outcome(text: &str) -> Result<Outcome, String> {
    let json = text.as_bytes();
    check_syntax(json).map_err(|e| format!("the file is neither a saved outcome nor a journal: {e}"))?;
    let schema = top_field(json, "schema").ok().flatten();
    match schema.as_ref().and_then(Value::as_str) {
        Some(SCHEMA) => {}
        Some(other) if other.starts_with("netcaliper.outcome.") => return Err(other_build(other)),
        Some(other) => {
            return Err(format!("the file is a '{other}', this version reads '{SCHEMA}'"));
        }
        None => {
            return Err(format!("the file is JSON, but no outcome: it has no schema '{SCHEMA}'"));
        }
    }
    Outcome::read(json).map_err(|e| format!("the outcome is damaged: {e}"))
}

/// The refusal of a run that a build with another version of the document saved.
fn other_build(schema: &str) -> String {
    let version = |schema: &str| schema.rsplit_once(".v").and_then(|(_, digits)| digits.parse::<u32>().ok());
    let age = if version(schema) > version(SCHEMA) { "a later" } else { "an earlier" };
    let schema = if schema.is_empty() { "a journal without a version" } else { schema };
    format!(
        "the file was made by {age} build ({schema}), this one reads {SCHEMA}: measure again, or read it with that build"
    )
}

/// Plays the journal to a builder. The last line may be cut; events that a later version added are
/// passed over.
fn read_journal(text: &str) -> Result<Outcome, String> {
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
            Err(why) => return Err(format!("line {} of the journal is damaged: {why}", at + 1)),
        }
    }
    let outcome = builder.outcome();
    match outcome.begin.verb.is_empty() {
        true => Err("the journal has no beginning: its first event has to be 'begin'".to_owned()),
        false => Ok(outcome),
    }
}

/// The events of `outcome`: a [`Builder`] makes the same outcome of them again, except for dropped
/// parts. Notices follow the beginning, since an outcome does not have their times.
pub fn replay(outcome: &Outcome) -> Vec<Event> {
    let mut events = vec![Event::Begin(Box::new(outcome.begin.clone()))];
    events.extend(outcome.notices.iter().map(|notice| {
        let (level, text) = match notice.split_once(": ") {
            Some(("warning", text)) => (Level::Warning, text),
            Some(("error", text)) => (Level::Error, text),
            _ => (Level::Info, notice.as_str()),
        };
        Event::Notice { level, text: text.to_owned() }
    }));
    outcome.points.iter().for_each(|point| phase(point, &mut events));
    events.push(Event::End { status: outcome.status, reason: outcome.reason.clone() });
    events
}

fn phase(point: &Point, events: &mut Vec<Event>) {
    let (label, repeat) = (point.label.clone(), point.repeat);
    events.push(Event::Phase { label, repeat, phase: Box::new(point.phase.clone()) });
    events.extend(point.baseline.iter().map(|baseline| Event::Baseline(baseline.clone())));
    events.extend(point.sessions.iter().map(|s| Event::Session(Box::new(s.clone()))));
    events.extend(point.started.map(|at| Event::Start { at }));
    events.extend(point.intervals.iter().map(|i| Event::Interval(Box::new(i.clone()))));
    events.extend(point.extras.iter().cloned().map(Event::Extra));
    events.extend(point.connections.iter().map(|c| Event::Connection(Box::new(c.clone()))));
    events.extend(point.trains.iter().map(|trains| Event::Trains(trains.clone())));
    events.extend(point.capacity.iter().map(|capacity| Event::Capacity(capacity.clone())));
    events.extend(point.frame_times.iter().map(|times| Event::FrameTimes(times.clone())));
    if !point.flows.is_empty() {
        events.push(Event::Flows { rows: point.flows.clone() });
    }
    events.push(Event::Local(Box::new(point.local.clone())));
    events.extend(point.remote.iter().map(|totals| Event::Remote(Box::new(totals.clone()))));
    events.push(Event::PhaseEnd { status: point.status, reason: point.reason.clone() });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_zero_is_not_rounded_to_it() {
        for (value, shown) in
            [(0.0, 0.0), (0.000_012_345_6, 0.000_012_346), (-1.0 / 3.0, -0.333_33), (123_456.7, 123_457.0)]
        {
            assert_eq!(rounded(value), json!(shown));
        }
    }
}
