//! Runs that were kept, a line each.

use crate::csv::{begun, guarded, or_empty};
use crate::plot::{Axis, show};
use crate::text::{Page, Table, Tone, shortened};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use metrics::{Clamped, Spread, format_duration};
use model::load::GROWN;
use model::{Figure, KeptFigure, KeptRun, Kind, SERVED, Stat, Status, Unit, Way};
use serde_json::json;
use std::io::{self, Write};

/// Writes a line for each run, with the figures called `names`, or with its main figures, in the
/// local time of `zone`.
pub fn write_history(
    runs: &[KeptRun],
    names: &[String],
    zone: &TimeZone,
    color: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let page = &mut Page::new(out, color);
    if runs.is_empty() {
        page.line(Tone::Plain, "No such run was kept");
        return page.end();
    }
    let mut table = Table::new("Run|Started|Test|Target|Result").left(5);
    let rows: Vec<[String; 6]> = runs.iter().map(|run| cells(run, names)).collect();
    let wide = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let before = 2 + wide(0).max(3) + MINUTES + wide(2).max(4) + wide(3).clamp(6, MOST_TARGET) + 4 * 2;
    let room = if names.is_empty() { WIDTH.saturating_sub(before) } else { usize::MAX };
    for (run, [id, _, test, target, status, _]) in runs.iter().zip(&rows) {
        let found = match run.status {
            Status::Complete => figures_text(run, names, room),
            Status::Failed => status.clone(),
            _ => {
                let left = room.saturating_sub(status.len() + 2);
                format!("{status}: {}", figures_text(run, names, left))
            }
        };
        let local = began(run).map(|at| at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M").to_string());
        let began = local.unwrap_or_else(|| "not known".to_owned());
        let target = shortened(target, MOST_TARGET);
        table.row(tone(run), vec![id.clone(), began, test.clone(), target, found]);
    }
    page.table(&table);
    page.end()
}

/// Columns of the list.
const WIDTH: usize = 100;
/// Width of a time to the minute.
const MINUTES: usize = "2026-11-24 17:04".len();
/// Width of the targets.
const MOST_TARGET: usize = 24;

pub(crate) fn tone(run: &KeptRun) -> Tone {
    match run.status {
        Status::Complete => Tone::Plain,
        _ => Tone::Bad,
    }
}

pub(crate) fn cells(run: &KeptRun, names: &[String]) -> [String; 6] {
    let mut question = run.verb.clone();
    if !["", "native"].contains(&run.protocol.as_str()) {
        question += &format!(" ({})", run.protocol);
    }
    if !run.source.is_empty() {
        question += ", imported";
    }
    let utc = |at| format!("{at:.0}").replace('T', " ").replace('Z', "");
    let began = began(run).map_or_else(|| "not known".to_owned(), utc);
    let ended = run.status.name().to_owned();
    [run.id.to_string(), began, question, run.targets.clone(), ended, figures_text(run, names, usize::MAX)]
}

/// Its begin; other programs' files do not always have it.
fn began(run: &KeptRun) -> Option<Timestamp> {
    let known = Some(run.started.0).filter(|ns| *ns > 0)?;
    Timestamp::from_nanosecond(i128::from(known)).ok()
}

/// `goodput.up 9.4 Gbit/s, goodput.down 9.1 Gbit/s`, as many as have room; of several phases the
/// range. Nothing of a run that failed.
fn figures_text(run: &KeptRun, names: &[String], room: usize) -> String {
    if run.status == Status::Failed {
        return "-".to_owned();
    }
    let about = if names.is_empty() { about(run) } else { names.to_vec() };
    let most = match (names.len(), run.verb.as_str()) {
        (0, "load") => 3,
        (0, _) => 4,
        (asked, _) => asked,
    };
    let one = |name: &str| {
        let (spread, unit) = known(run, name)?;
        // The growth of round trips has this name, too.
        if names.is_empty() && name == Figure::Added.key() && known(run, GROWN).is_some() {
            return None;
        }
        // A run that was cut short before anything arrived has measured no rate.
        if run.status != Status::Complete && name.starts_with("goodput") && spread.max == 0.0 {
            return None;
        }
        if name == GROWN {
            let grown = i64::clamped(spread.max);
            let added = if grown < 0 { "-" } else { "+" };
            let added = format!("{added}{}", format_duration(grown.unsigned_abs()));
            return Some(format!("grade {}, {added}", model::load::grade(grown)));
        }
        let axis = Axis::new("", unit);
        let show = |value| if unit == Unit::Percent { unit.show(value) } else { show(&axis, value) };
        let [low, high] = [spread.min, spread.max].map(show);
        let value = if low == high { low } else { format!("{low} to {high}") };
        if let Some((_, word)) = SERVED.iter().find(|(key, _)| *key == name).filter(|_| names.is_empty()) {
            return Some(format!("{value} {word}"));
        }
        let figure = Figure::named(name).into_iter().next().filter(|_| names.is_empty());
        // Both directions of a load share their unit.
        if run.verb == "load" && figure == Some(Figure::Goodput(Way::Down)) && names.is_empty() {
            let up = known(run, "goodput.up").map(|(spread, _)| show(spread.max));
            let shared = up.as_ref().and_then(|up| value.strip_suffix(up.split_once(' ')?.1));
            return Some(match (shared, &up) {
                (Some(down), Some(up)) => format!("↓{} ↑{up}", down.trim_end()),
                (None, Some(up)) => format!("↓{value} ↑{up}"),
                (_, None) => format!("↓{value}"),
            });
        }
        if run.verb == "load"
            && figure == Some(Figure::Goodput(Way::Up))
            && known(run, "goodput.down").is_some()
        {
            return None;
        }
        Some(figure.map_or_else(|| format!("{name} {value}"), |figure| in_words(figure, &value)))
    };
    let mut text = String::new();
    for words in about.iter().filter_map(|name| one(name)).take(most) {
        let comma = if text.is_empty() { "" } else { ", " };
        if !text.is_empty() && text.chars().count() + 2 + words.chars().count() > room {
            break;
        }
        text.extend([comma, &words]);
    }
    if text.is_empty() { "-".to_owned() } else { text }
}

/// `↑47.9 Mbit/s`, `delay ↓p99 9.5 ms`, `dropped 0 %`: a figure and its value, with an arrow up to
/// the server, down from it.
fn in_words(figure: Figure, value: &str) -> String {
    let way = figure.way().map_or("", |way| if way == Way::Up { "↑" } else { "↓" });
    let stat = figure.stat().map(|stat| stat.key() + " ").unwrap_or_default();
    let name = match figure {
        Figure::Goodput(_) | Figure::Connects => "",
        Figure::Frames => "dropped",
        Figure::MessagesLost => "lost",
        figure => figure.family().0,
    };
    let blank = if name.is_empty() { "" } else { " " };
    format!("{name}{blank}{way}{stat}{value}")
}

/// The keys of the figures that a run is about, the most important first; of a server, which waits
/// for most of its life, its bytes.
pub(crate) fn about(run: &KeptRun) -> Vec<String> {
    if run.verb == "serve" {
        return SERVED.map(|(key, _)| key.to_owned()).to_vec();
    }
    let grown = (run.verb == "load").then(|| GROWN.to_owned());
    let figures: Vec<Figure> = match Kind::ALL.into_iter().find(|kind| kind.name() == run.verb) {
        Some(kind) => {
            // A run has the largest value in the place of a percentile without support.
            let tail = |figure: &Figure| figure.stat() != Some(Stat::MEDIAN);
            let largest = |figure: &Figure| figure.largest().filter(|_| tail(figure));
            let leading = Figure::leading(kind).iter();
            leading.flat_map(|figure| [Some(*figure), largest(figure)]).flatten().collect()
        }
        None if grown.is_some() => Figure::leading_of_load().to_vec(),
        None => Figure::kept().filter(Figure::is_leading).collect(),
    };
    grown.into_iter().chain(figures.into_iter().map(Figure::key)).collect()
}

/// The first of these that a run has: its name, and its mean over the phases.
pub(crate) fn leading(run: &KeptRun) -> Option<(String, f64)> {
    about(run).into_iter().find_map(|name| {
        let (spread, _) = known(run, &name)?;
        let value = representative(run, &name, &spread);
        Some((name, value))
    })
}

/// A figure of a run over its phases, and its unit.
pub(crate) fn known(run: &KeptRun, name: &str) -> Option<(Spread, Unit)> {
    // Only some parts of a load or a demo fill the path: what probes and short connections move is
    // no goodput.
    let filling = match (run.verb.as_str(), name) {
        ("load", "goodput.down") => "stage=down",
        ("load", "goodput.up") => "stage=up",
        ("demo", "goodput.up" | "goodput.down") => "part=tcp",
        _ => "",
    };
    let is_by_stage = is_by_stage(run);
    let counts =
        |f: &&KeptFigure| f.name == name && f.setting.contains(filling) && (!is_by_stage || is_of_answer(f));
    let same: Vec<&KeptFigure> = run.figures.iter().filter(counts).collect();
    let spread = Spread::of(&same.iter().map(|f| f.value).collect::<Vec<f64>>())?;
    Some((spread, unit(&same.first()?.unit)))
}

/// True for a load whose stages have figures; of a load that an early version kept, only the parts have
/// some.
pub(crate) fn is_by_stage(run: &KeptRun) -> bool {
    run.verb == "load" && run.figures.iter().any(|f| f.setting.starts_with("stage="))
}

/// True for a figure of a load that is none of a part of a stage.
pub(crate) fn is_of_answer(figure: &KeptFigure) -> bool {
    !figure.setting.contains("part=")
}

/// One value for all phases or stages: the mean, and of the stages of a load the worst.
pub(crate) fn representative(run: &KeptRun, name: &str, spread: &Spread) -> f64 {
    let more_is_better = Figure::named(name).first().is_some_and(|figure| figure.more_is_better());
    match run.verb.as_str() {
        "load" if more_is_better => spread.min,
        "load" => spread.max,
        _ => spread.mean,
    }
}

fn unit(name: &str) -> Unit {
    Unit::all().find(|unit| unit.name() == name).unwrap_or(Unit::Count)
}

/// A value of the table of figures.
pub(crate) enum Cell<'a> {
    Id(i64),
    /// `None` where another program's file has none.
    Time(Option<Timestamp>),
    Text(&'a str),
    Number(u32),
    Value(f64),
}

/// A column of that table: its name, and its cell in the row of a run's figure.
type FigureColumn = (&'static str, for<'a> fn(&'a KeptRun, &'a KeptFigure) -> Cell<'a>);

pub(crate) const COLUMNS: [FigureColumn; 12] = [
    ("id", |run, _| Cell::Id(run.id)),
    ("started_utc", |run, _| Cell::Time(began(run))),
    ("verb", |run, _| Cell::Text(&run.verb)),
    ("protocol", |run, _| Cell::Text(&run.protocol)),
    ("targets", |run, _| Cell::Text(&run.targets)),
    ("status", |run, _| Cell::Text(run.status.name())),
    ("source", |run, _| Cell::Text(&run.source)),
    ("setting", |_, figure| Cell::Text(&figure.setting)),
    ("repeat", |_, figure| Cell::Number(figure.repeat)),
    ("figure", |_, figure| Cell::Text(&figure.name)),
    ("unit", |_, figure| Cell::Text(&figure.unit)),
    ("value", |_, figure| Cell::Value(figure.value)),
];

/// Writes a row per figure of each run.
pub fn write_figures_csv(runs: &[KeptRun], out: &mut dyn Write) -> io::Result<()> {
    let mut table = begun(out, COLUMNS.map(|(name, _)| name))?;
    for (run, figure) in runs.iter().flat_map(|run| run.figures.iter().map(move |figure| (run, figure))) {
        table.write_record(COLUMNS.map(|(_, cell)| match cell(run, figure) {
            Cell::Id(id) => id.to_string(),
            Cell::Time(at) => or_empty(at.map(|at| format!("{at:.6}"))),
            Cell::Text(text) => guarded(text),
            Cell::Number(n) => n.to_string(),
            Cell::Value(value) => value.to_string(),
        }))?;
    }
    table.flush()
}

/// Writes the runs as one JSON document.
pub fn write_history_json(runs: &[KeptRun], out: &mut dyn Write) -> io::Result<()> {
    let document = json!({ "schema": "netcaliper.history.v1", "runs": runs });
    writeln!(out, "{document:#}")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::histogram::tests::text;
    use metrics::Wall;
    use uuid::Uuid;

    pub(crate) fn run(verb: &str, status: Status, figures: &[(&str, &str, f64)]) -> KeptRun {
        let figure = |(name, unit, value): &(&str, &str, f64)| KeptFigure {
            setting: String::new(),
            repeat: 1,
            name: (*name).to_owned(),
            unit: (*unit).to_owned(),
            value: *value,
        };
        KeptRun {
            id: 12_345,
            run: Uuid::nil(),
            started: Wall(1_764_000_000_000_000_000),
            verb: verb.to_owned(),
            protocol: "native".to_owned(),
            targets: "a-rather-long-name.of-a-host.example.org:7411".to_owned(),
            status,
            source: String::new(),
            figures: figures.iter().map(figure).collect(),
        }
    }

    #[test]
    fn a_list_fits_a_hundred_columns_and_says_what_the_result_is() {
        let delays =
            [("delay.up.p50", "ns", 1.5e6), ("delay.up.p99", "ns", 9.5e6), ("loss.up", "percent", 0.25)];
        let mut demo =
            run("demo", Status::Complete, &[("goodput.up", "bps", 8.7e9), ("goodput.up", "bps", 6.8e4)]);
        for (figure, part) in demo.figures.iter_mut().zip(["part=tcp push", "part=connect"]) {
            part.clone_into(&mut figure.setting);
        }
        let figures = [
            ("rtt-grown", "ns", 7e7),
            ("goodput.down", "bps", 9.53e7),
            ("goodput.down", "bps", 4.92e7),
            ("goodput.up", "bps", 4.81e7),
            ("added", "ns", 7e7),
        ];
        let mut load = run("load", Status::Complete, &figures);
        let stages = ["", "stage=down", "part=load stage=both", "stage=up", "stage=down"];
        for (figure, stage) in load.figures.iter_mut().zip(stages) {
            stage.clone_into(&mut figure.setting);
        }
        "a.example".clone_into(&mut load.targets);
        let runs = [
            demo,
            load,
            run("ping", Status::Complete, &[("rtt.p50", "ns", 1.37e5), ("rtt.max", "ns", 1.71e5)]),
            run("stream", Status::Complete, &[("frames", "percent", 0.0)]),
            run("serve", Status::Complete, &[("loss.down", "percent", 0.0)]),
            run(
                "serve",
                Status::Interrupted,
                &[("bytes-received", "bytes", 11.6e9), ("bytes-sent", "bytes", 640.0)],
            ),
            run("train", Status::Complete, &[("dispersion", "bps", 9.4e8), ("goodput.up", "bps", 1e6)]),
            run("delay", Status::Partial, &delays),
            run("tcp", Status::Complete, &[("goodput.up", "bps", 4.789e7), ("goodput.up", "bps", 4.791e7)]),
            run("tcp", Status::Failed, &[("goodput.up", "bps", 0.0)]),
            run("tcp", Status::Interrupted, &[("goodput.up", "bps", 0.0)]),
        ];
        let hours = TimeZone::fixed(jiff::tz::offset(2));
        let text = text(|out| write_history(&runs, &[], &hours, false, out));
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        for told in [
            "grade C, +70.0 ms, ↓95.3 ↑48.1 Mbit/s\n",
            "rtt p50 137 µs, rtt max 171 µs",
            "dispersion 940 Mbit/s",
            "partial: delay ↑p50 1.5 ms\n",
            "  ↑47.9 Mbit/s\n",
            "  failed\n",
            // 16:00 UTC, two hours further east.
            "  2025-11-24 18:00  ",
            "  dropped 0 %\n",
            "  interrupted: 10.8 GiB received\n",
        ] {
            assert!(text.contains(told), "{told}: {text}");
        }
        assert!(text.lines().any(|line| line.contains("serve") && line.ends_with("  -")), "{text}");
        assert!(!text.contains(" 0 bit/s"), "{text}");
    }
}
