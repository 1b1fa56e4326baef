//! Runs that were kept, a line each.

use crate::csv::{begun, guarded};
use crate::html::escape;
use crate::plot::{Axis, Unit, show};
use crate::text::{Page, Table, Tone};
use jiff::Timestamp;
use metrics::Spread;
use model::{KeptFigure, KeptRun, Status};
use serde_json::{Value, json};
use std::io::{self, Write};

/// What is shown of a run when nothing in particular was asked for, the first four that it has.
const ABOUT: [&str; 12] = [
    "goodput.up",
    "goodput.down",
    "connects",
    "rtt.p50",
    "rtt.p99",
    "messages-lost",
    "delay.up.p50",
    "delay.up.p99",
    "loss.up",
    "delay.down.p50",
    "loss.down",
    "frames",
];

/// Writes a line for each run, with the figures called `names`, or with what each run is about.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_history(runs: &[KeptRun], names: &[String], color: bool, out: &mut dyn Write) -> io::Result<()> {
    let page = &mut Page::new(out, color);
    if runs.is_empty() {
        return page.line(Tone::Plain, "No such run was kept");
    }
    let mut table = Table::under(COLUMNS_FOR_PEOPLE.map(str::to_owned).to_vec());
    for run in runs {
        table.row(tone(run), cells(run, names).to_vec());
    }
    page.table(&table)
}

/// What people are told of each run.
const COLUMNS_FOR_PEOPLE: [&str; 6] = ["Run", "begun (UTC)", "question", "of", "ended", "found"];

fn tone(run: &KeptRun) -> Tone {
    match run.status {
        Status::Complete => Tone::Plain,
        _ => Tone::Bad,
    }
}

fn cells(run: &KeptRun, names: &[String]) -> [String; 6] {
    let mut question = run.verb.clone();
    if !["", "native"].contains(&run.protocol.as_str()) {
        question += &format!(" ({})", run.protocol);
    }
    if !run.source.is_empty() {
        question += ", imported";
    }
    let began = began(run).map_or_else(
        || "not known".to_owned(),
        |at| format!("{at:.0}").replace('T', " ").trim_end_matches('Z').to_owned(),
    );
    let ended = run.status.name().to_owned();
    [run.id.to_string(), began, question, run.targets.clone(), ended, found(&run.figures, names)]
}

/// Writes the same as a table of HTML in which each run is a link to `/history/ID`.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_history_rows(runs: &[KeptRun], out: &mut dyn Write) -> io::Result<()> {
    if runs.is_empty() {
        return writeln!(out, "<p>No run was kept yet.</p>");
    }
    writeln!(out, "<div class=\"wide\"><table class=\"pairs\"><thead><tr>")?;
    COLUMNS_FOR_PEOPLE.iter().try_for_each(|name| writeln!(out, "<th scope=\"col\">{name}</th>"))?;
    writeln!(out, "</tr></thead><tbody>")?;
    for run in runs {
        let [id, rest @ ..] = cells(run, &[]);
        let class = if tone(run) == Tone::Bad { " class=\"bad\"" } else { "" };
        write!(out, "<tr{class}><th scope=\"row\"><a href=\"/history/{id}\">{id}</a></th>")?;
        rest.iter().try_for_each(|cell| write!(out, "<td>{}</td>", escape(cell)))?;
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody></table></div>")
}

/// When it began; other programs' files do not always tell.
fn began(run: &KeptRun) -> Option<Timestamp> {
    let known = Some(run.started.0).filter(|ns| *ns > 0)?;
    Timestamp::from_nanosecond(i128::from(known)).ok()
}

/// `goodput.up 9.4 Gbit/s, goodput.down 9.1 Gbit/s`; of several phases the range.
fn found(figures: &[KeptFigure], names: &[String]) -> String {
    let about: Vec<&str> = match names {
        [] => ABOUT.to_vec(),
        names => names.iter().map(String::as_str).collect(),
    };
    let most = if names.is_empty() { 4 } else { names.len() };
    let one = |name: &str| {
        let same: Vec<&KeptFigure> = figures.iter().filter(|f| f.name == name).collect();
        let spread = Spread::of(&same.iter().map(|f| f.value).collect::<Vec<f64>>())?;
        let axis = Axis::new("", unit(&same.first()?.unit));
        Some(match same.len() {
            1 => format!("{name} {}", show(&axis, spread.mean)),
            _ => format!("{name} {} to {}", show(&axis, spread.min), show(&axis, spread.max)),
        })
    };
    let words: Vec<String> = about.into_iter().filter_map(one).take(most).collect();
    if words.is_empty() { "-".to_owned() } else { words.join(", ") }
}

fn unit(name: &str) -> Unit {
    model::Unit::ALL.into_iter().find(|unit| unit.name() == name).unwrap_or(model::Unit::Count).into()
}

/// Columns of [`write_figures_csv`].
pub(crate) const COLUMNS: [&str; 12] = [
    "id",
    "started_utc",
    "verb",
    "protocol",
    "targets",
    "status",
    "source",
    "setting",
    "repeat",
    "figure",
    "unit",
    "value",
];

/// Writes a row per figure of each run.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_figures_csv(runs: &[KeptRun], out: &mut dyn Write) -> io::Result<()> {
    let mut table = begun(out, COLUMNS)?;
    for run in runs {
        let began = began(run).map_or_else(String::new, |at| format!("{at:.6}"));
        for figure in &run.figures {
            table.write_record([
                run.id.to_string(),
                began.clone(),
                guarded(&run.verb),
                guarded(&run.protocol),
                guarded(&run.targets),
                run.status.name().to_owned(),
                guarded(&run.source),
                guarded(&figure.setting),
                figure.repeat.to_string(),
                figure.name.clone(),
                figure.unit.clone(),
                figure.value.to_string(),
            ])?;
        }
    }
    table.flush()
}

/// Writes the runs as one JSON document.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_history_json(runs: &[KeptRun], out: &mut dyn Write) -> io::Result<()> {
    let figure = |f: &KeptFigure| json!({ "setting": f.setting, "repeat": f.repeat, "figure": f.name, "unit": f.unit, "value": f.value });
    let run = |run: &KeptRun| {
        json!({
            "id": run.id,
            "run": run.run,
            "started": run.started,
            "verb": run.verb,
            "protocol": run.protocol,
            "targets": run.targets,
            "status": run.status,
            "source": run.source,
            "figures": run.figures.iter().map(figure).collect::<Vec<Value>>(),
        })
    };
    let document = json!({
        "schema": "netcaliper.history.v1",
        "runs": runs.iter().map(run).collect::<Vec<Value>>(),
    });
    writeln!(out, "{document:#}")
}
