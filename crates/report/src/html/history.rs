//! Saved runs as a page: the list with its form, and the trend of one target.

use super::{data, escape, figure, url_encoded, zeros};
use crate::history::{about, cells, is_by_stage, is_of_answer, known, leading, representative, tone};
use crate::plot::{Axis, AxisUnit, Plot, Series};
use crate::plots::Sheet;
use crate::text::{Page, Tone};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use metrics::{Wall, real};
use model::load::GROWN;
use model::{Figure, KeptFigure, KeptRun, Status, Unit};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Columns of the list: the key that a link sorts by, and the title.
const COLUMNS: [(&str, &str); 6] = [
    ("run", "Run"),
    ("started", "Started (UTC)"),
    ("test", "Test"),
    ("target", "Target"),
    ("status", "Status"),
    ("result", "Result"),
];
/// Nanoseconds of a second, and of a day.
const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;

/// A reader's query of the list, as its form sends it: empty fields select all.
#[derive(Clone, Debug, Default)]
pub struct HistoryQuery {
    pub verb: String,
    pub target: String,
    /// The first day, `2026-11-24` (UTC).
    pub from: String,
    /// The last day.
    pub to: String,
    /// The column that sorts, after a `-` downwards.
    pub sort: String,
}

impl HistoryQuery {
    /// When the first day begins.
    pub fn since(&self) -> Option<Wall> {
        midnight(&self.from)
    }

    /// When the last day is over.
    pub fn until(&self) -> Option<Wall> {
        midnight(&self.to).map(|at| Wall(at.0.saturating_add(DAY)))
    }

    fn link(&self, sort: &str) -> String {
        let pairs = [
            ("verb", &*self.verb),
            ("target", &self.target),
            ("from", &self.from),
            ("to", &self.to),
            ("sort", sort),
        ];
        address("/history", &pairs)
    }
}

/// When a day begins, UTC; `None` for a text that is none.
fn midnight(day: &str) -> Option<Wall> {
    let at = day.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp().as_nanosecond();
    i64::try_from(at).ok().map(Wall)
}

/// A path with a query, as an attribute holds it.
fn address(path: &str, pairs: &[(&str, &str)]) -> String {
    let mut text = path.to_owned();
    for (at, (name, value)) in pairs.iter().filter(|(_, value)| !value.is_empty()).enumerate() {
        text.extend([if at == 0 { "?" } else { "&amp;" }, name, "=", url_encoded(value.as_bytes()).as_str()]);
    }
    text
}

/// Writes the list of `runs` under the form of the query; `verbs` are all runs' verbs. Each run is
/// a link to `/history/ID`.
pub fn write_history_page(
    runs: &[KeptRun],
    query: &HistoryQuery,
    verbs: &[String],
    out: &mut dyn Write,
) -> io::Result<()> {
    let page = &mut Page::html(out);
    form(query, verbs, page);
    if runs.is_empty() {
        writeln!(page, "<p>No such run was kept.</p>");
        return page.end();
    }
    let mut sorted: Vec<&KeptRun> = runs.iter().collect();
    let (column, down) = match query.sort.strip_prefix('-') {
        Some(column) => (column, true),
        None => (query.sort.as_str(), false),
    };
    sorted.sort_by(|a, b| if down { order(column, b, a) } else { order(column, a, b) });
    writeln!(
        page,
        "<form method=\"get\" action=\"/compare\">\n<p><button>Compare</button> <span class=\"soft\">the runs marked as before and \
         after</span></p>\n<table class=\"pairs runs\"><thead><tr>"
    );
    for (name, title) in COLUMNS {
        let (now, next) = match (column == name, down) {
            (true, false) => (" aria-sort=\"ascending\"", format!("-{name}")),
            (true, true) => (" aria-sort=\"descending\"", name.to_owned()),
            (false, _) => ("", name.to_owned()),
        };
        writeln!(page, "<th scope=\"col\"{now}><a href=\"{}\">{title}</a></th>", query.link(&next));
    }
    writeln!(page, "<th scope=\"col\">Compare</th></tr></thead><tbody>");
    sorted.iter().for_each(|run| row(run, true, page));
    writeln!(page, "</tbody></table>\n</form>");
    page.end()
}

fn form(query: &HistoryQuery, verbs: &[String], page: &mut Page<'_>) {
    let option = |verb: &String| {
        let chosen = if *verb == query.verb { " selected" } else { "" };
        format!("<option value=\"{0}\"{chosen}>{0}</option>", escape(verb))
    };
    writeln!(
        page,
        "<form method=\"get\" action=\"/history\" class=\"ask\">\n\
         <label>Test <select name=\"verb\"><option value=\"\">all</option>{}</select></label>\n\
         <label>Target <input name=\"target\" value=\"{}\"></label>\n\
         <label>From <input type=\"date\" name=\"from\" value=\"{}\"></label>\n\
         <label>to <input type=\"date\" name=\"to\" value=\"{}\"></label>\n\
         <input type=\"hidden\" name=\"sort\" value=\"{}\"><button>Show</button> <a href=\"/history\">all runs</a>\n</form>",
        verbs.iter().map(option).collect::<String>(),
        escape(&query.target),
        escape(&query.from),
        escape(&query.to),
        escape(&query.sort)
    );
}

/// Order of two runs; the latest first by default.
fn order(column: &str, a: &KeptRun, b: &KeptRun) -> Ordering {
    let result = |run: &KeptRun| leading(run).unwrap_or_default();
    match column {
        "run" => a.id.cmp(&b.id),
        "started" => a.started.cmp(&b.started),
        "test" => (&a.verb, &a.protocol).cmp(&(&b.verb, &b.protocol)),
        "target" => a.targets.cmp(&b.targets),
        "status" => a.status.name().cmp(b.status.name()),
        "result" => {
            let ((name, value), (other, than)) = (result(a), result(b));
            name.cmp(&other).then(value.total_cmp(&than))
        }
        _ => b.id.cmp(&a.id),
    }
}

fn row(run: &KeptRun, compared: bool, page: &mut Page<'_>) {
    let [id, rest @ ..] = cells(run, &[]);
    let class = if tone(run) == Tone::Bad { " class=\"bad\"" } else { "" };
    write!(page, "<tr{class}><th scope=\"row\"><a href=\"/history/{id}\">{id}</a></th>");
    for ((name, title), cell) in COLUMNS[1..].iter().zip(&rest) {
        let trend = match *name {
            // A server has no figures over its life.
            "target" if compared && !run.targets.is_empty() && run.verb != "serve" => {
                let pairs = [("verb", &*run.verb), ("target", &run.targets)];
                format!(" <a class=\"trend\" href=\"{}\">trend</a>", address("/trend", &pairs))
            }
            _ => String::new(),
        };
        write!(page, "<td data-title=\"{title}\"><span>{}{trend}</span></td>", escape(cell));
    }
    if compared {
        write!(page, "<td data-title=\"Compare\"><span>");
        for side in ["before", "after"] {
            write!(page, "<label><input type=\"radio\" name=\"{side}\" value=\"{id}\">{side}</label> ");
        }
        write!(page, "</span></td>");
    }
    writeln!(page, "</tr>");
}

/// Writes how the figures of complete runs of one test against one target went, the earliest first.
pub fn write_trend(runs: &[KeptRun], out: &mut dyn Write) -> io::Result<()> {
    let page = &mut Page::html(out);
    let mut runs: Vec<&KeptRun> =
        runs.iter().filter(|run| run.status == Status::Complete && run.started.0 > 0).collect();
    runs.sort_by_key(|run| (run.started, run.id));
    let [first, .., _] = runs.as_slice() else {
        writeln!(page, "<p>A trend takes two complete runs of this test against this target.</p>");
        return page.end();
    };
    let sheet = Sheet::new(String::new(), trends(&runs, first), false);
    writeln!(page, "<section id=\"plots\"><h2>Figures over time</h2>");
    sheet.plots.iter().enumerate().for_each(|(at, plot)| figure(plot, at, page));
    zeros(&sheet, page);
    writeln!(page, "</section>\n<h2>Runs</h2>\n<table class=\"pairs runs\"><thead><tr>");
    COLUMNS.iter().for_each(|(_, title)| writeln!(page, "<th scope=\"col\">{title}</th>"));
    writeln!(page, "</tr></thead><tbody>");
    runs.iter().rev().for_each(|run| row(run, false, page));
    writeln!(page, "</tbody></table>");
    data(&[sheet], page);
    page.end()
}

/// A plot for each kind of figure.
fn trends(runs: &[&KeptRun], first: &KeptRun) -> Vec<Plot> {
    let across = Axis::new("started, UTC", AxisUnit::Date(first.started.0 / SECOND));
    let mut lines: BTreeMap<&str, Vec<(f64, Option<f64>)>> = BTreeMap::new();
    let mut units: BTreeMap<&str, Unit> = BTreeMap::new();
    for run in runs {
        let is_by_stage = is_by_stage(run);
        let shown = |f: &&KeptFigure| !is_by_stage || is_of_answer(f) && f.name != GROWN;
        for figure in run.figures.iter().filter(shown) {
            let name = figure.name.as_str();
            let at = real(run.started.0 / SECOND - first.started.0 / SECOND);
            let line = lines.entry(name).or_default();
            if line.last().is_none_or(|(last, _)| *last < at)
                && let Some((spread, unit)) = known(run, name)
            {
                units.insert(name, unit);
                line.push((at, Some(representative(run, name, &spread))));
            }
        }
    }
    let mut plots: Vec<Plot> = Vec::new();
    let mut lines = Vec::from_iter(lines);
    let about = about(first);
    let place = |name: &str| about.iter().position(|known| *known == name).unwrap_or(usize::MAX);
    lines.sort_by_key(|(name, _)| place(name));
    for (name, points) in lines {
        let Some(unit) = units.get(name) else { continue };
        let figure = match name {
            GROWN => Some(Figure::Added),
            _ => Figure::named(name).into_iter().next(),
        };
        let label = figure.map_or(name, |figure| figure.family().1);
        let part =
            figure.map(Figure::part).filter(|part| !part.is_empty()).unwrap_or_else(|| label.to_owned());
        let plot = Plot::titled(&mut plots, label, || {
            let id = format!("trend-{}", name.split('.').next().unwrap_or_default());
            Plot::new(&id, label, across.clone(), Axis::new(label, *unit))
        });
        plot.add(Series::line(part, points));
    }
    plots.into_iter().filter_map(Plot::some).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::tests::text;

    const EVIL: &str = "\"><img src=x onerror='x'>&";

    fn run(id: i64, target: &str, bps: f64) -> KeptRun {
        let figures = [("goodput.up", "bps", bps), ("goodput.down", "bps", 2.0 * bps)];
        let kept = crate::history::tests::run("tcp", Status::Complete, &figures);
        let started = Wall(kept.started.0 + id * DAY / 24);
        KeptRun { id, started, targets: target.to_owned(), ..kept }
    }

    fn page(query: &HistoryQuery) -> String {
        let runs = [run(1, "b", 3e6), run(2, EVIL, 1e6), run(3, "a", 2e6)];
        let verbs = ["ping".to_owned(), "tcp".to_owned()];
        text(|out| write_history_page(&runs, query, &verbs, out))
    }

    /// The runs of a list in its order.
    fn ids(page: &str) -> Vec<&str> {
        page.split("href=\"/history/").skip(1).filter_map(|rest| rest.split('"').next()).collect()
    }

    #[test]
    fn a_list_is_sorted_by_any_column_both_ways() {
        let sorted = |sort: &str| page(&HistoryQuery { sort: sort.to_owned(), ..HistoryQuery::default() });
        assert_eq!(ids(&sorted("")), ["3", "2", "1"], "the latest first");
        assert_eq!(ids(&sorted("run")), ["1", "2", "3"]);
        assert_eq!(ids(&sorted("target")), ["2", "3", "1"]);
        assert_eq!(ids(&sorted("-target")), ["1", "3", "2"]);
        assert_eq!(ids(&sorted("result")), ["2", "3", "1"]);
        let turns = "aria-sort=\"ascending\"><a href=\"/history?sort=-target\">Target";
        assert!(sorted("target").contains(turns));
    }

    #[test]
    fn a_form_says_what_is_asked_and_nothing_in_it_is_markup() {
        let query =
            HistoryQuery { verb: "tcp".to_owned(), target: EVIL.to_owned(), ..HistoryQuery::default() };
        let text = page(&query);
        assert!(text.contains("<option value=\"tcp\" selected>") && text.contains("&lt;img src=x"), "{text}");
        assert!(text.contains("/trend?verb=tcp&amp;target=%22%3E%3Cimg%20src%3Dx"), "{text}");
        assert!(!text.contains("<img"), "{text}");
    }

    #[test]
    fn days_are_whole() {
        let day = |day: &str| {
            let (from, to) = (day.to_owned(), day.to_owned());
            HistoryQuery { from, to, ..HistoryQuery::default() }
        };
        // date -u -d 2026-11-24 +%s
        let begins = 1_795_478_400_000_000_000;
        assert_eq!(day("2026-11-24").since(), Some(Wall(begins)));
        assert_eq!(day("2026-11-24").until(), Some(Wall(begins + DAY)));
        assert_eq!((day("").since(), day("yesterday").until()), (None, None));
    }

    #[test]
    fn a_trend_has_a_plot_for_each_kind_of_figure() {
        let trend = |runs: &[KeptRun]| text(|out| write_trend(runs, out));
        let text = trend(&[run(3, "a", 2e6), run(1, "a", 3e6)]);
        assert_eq!(text.matches("<figure").count(), 1, "{text}");
        // date -u -d @1764003600: 2025-11-24 17:00:00, the first run; the other is two hours later.
        assert!(text.contains(">11-24 18:00<") && text.contains("\"x\":[0.0,7200.0]"), "{text}");
        assert!(trend(&[run(1, "a", 3e6)]).contains("two complete runs"));
    }
}
