//! Two runs, or two sets of runs, side by side: which figures differ for certain, and what was set differently.

use crate::plot::{Axis, Unit, show};
use crate::text::{Page, Table, Tone};
use crate::words;
use metrics::Contrast;
use model::{Begin, Figure, Outcome, Point};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Runs of one side from which on a run's figure is a reading, instead of an interval's.
const RUNS: usize = 3;

/// A figure of both sides.
struct Row {
    /// Which setting of a sweep.
    setting: String,
    figure: Figure,
    /// Over all of each side.
    value: (Option<f64>, Option<f64>),
    /// The comparison of their readings; `None` with too few.
    contrast: Option<Contrast>,
    /// Whether the readings are whole runs; intervals otherwise.
    runs: bool,
}

impl Row {
    /// By how much the second side is worse, as a share of the first; 0 or less when it is not.
    fn worse(&self) -> f64 {
        let relative = self.contrast.filter(Contrast::differs).and_then(|c| c.relative()).unwrap_or(0.0);
        if self.figure.more_is_better() { -relative } else { relative }
    }
}

/// What two sides have in common and what not.
pub struct Comparison {
    rows: Vec<Row>,
    /// Setting, of the first side, of the second.
    changes: Vec<(String, String, String)>,
}

impl Comparison {
    /// Compares the runs `after` with those `before`.
    ///
    /// # Errors
    /// One sentence when they have nothing in common.
    pub fn of(before: &[Outcome], after: &[Outcome]) -> Result<Self, String> {
        let (a, b) = (by_setting(before), by_setting(after));
        let common = a.iter().filter_map(|(label, points)| Some((label, points, b.get(label)?)));
        let rows: Vec<Row> = common
            .flat_map(|(label, a, b)| {
                let setting = words::setting(label, 1);
                Figure::COMPARED.into_iter().filter_map(move |figure| row(setting.clone(), figure, a, b))
            })
            .collect();
        if rows.is_empty() {
            return Err(
                "the runs have no figure in common: compare runs of one kind, or sweeps of the same settings"
                    .to_owned(),
            );
        }
        Ok(Comparison { rows, changes: changes(before, after) })
    }

    /// Whether the second side is worse for certain, by more than `share` of the first, in any figure.
    #[must_use]
    pub fn worse_by(&self, share: f64) -> bool {
        self.rows.iter().any(|row| row.worse() > share)
    }

    /// For people.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn write(&self, color: bool, out: &mut dyn Write) -> io::Result<()> {
        let page = &mut Page::new(out, color);
        let mut table = Table::new(&[
            "Figure",
            "before",
            "after",
            "difference",
            "95 % interval",
            "p",
            "readings",
            "verdict",
        ]);
        for row in &self.rows {
            let tone = match row.worse() {
                share if share > 0.0 => Tone::Bad,
                share if share < 0.0 => Tone::Heading,
                _ => Tone::Plain,
            };
            table.row(tone, cells(row));
        }
        page.table(&table)?;
        page.gap()?;
        page.paragraph(
            Tone::Plain,
            "",
            "before and after: over all of each side. Difference: the median of all differences between readings (Hodges-Lehmann) \
             and its 95 % interval, in percent of the median before. p: of ranks so uneven by chance (Mann-Whitney); readings that \
             follow each other and are alike count less.",
        )?;
        page.gap()?;
        if self.changes.is_empty() {
            return page.line(Tone::Plain, "All settings and hosts are the same.");
        }
        let mut table = Table::new(&["Set differently", "before", "after"]);
        for (name, before, after) in &self.changes {
            table.row(Tone::Plain, vec![name.clone(), before.clone(), after.clone()]);
        }
        page.table(&table)
    }

    /// For programs: one JSON document.
    #[must_use]
    pub fn json(&self) -> Value {
        let row = |row: &Row| {
            json!({
                "setting": row.setting,
                "figure": row.figure.to_string(),
                "key": row.figure.key(),
                "unit": Unit::from(row.figure.unit()).words().2,
                "more_is_better": row.figure.more_is_better(),
                "before": row.value.0,
                "after": row.value.1,
                "readings": if row.runs { "runs" } else { "intervals" },
                "contrast": row.contrast,
                "differs": row.contrast.is_some_and(|c| c.differs()),
                "worse_by": row.worse(),
            })
        };
        json!({
            "schema": "netcaliper.comparison.v1",
            "figures": self.rows.iter().map(row).collect::<Vec<_>>(),
            "changes": self.changes.iter().map(|(name, before, after)| {
                json!({ "setting": name, "before": before, "after": after })
            }).collect::<Vec<_>>(),
        })
    }
}

/// All phases by what a sweep varies.
fn by_setting(runs: &[Outcome]) -> BTreeMap<BTreeMap<String, String>, Vec<&Point>> {
    let mut all: BTreeMap<_, Vec<&Point>> = BTreeMap::new();
    for point in runs.iter().flat_map(|run| &run.points) {
        all.entry(point.label.clone()).or_default().push(point);
    }
    all
}

fn row(setting: String, figure: Figure, a: &[&Point], b: &[&Point]) -> Option<Row> {
    let values = |points: &[&Point]| points.iter().filter_map(|p| figure.of(p)).collect::<Vec<f64>>();
    let mean =
        |values: &[f64]| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let (whole_a, whole_b) = (values(a), values(b));
    let value = (mean(&whole_a), mean(&whole_b));
    // What neither side has, or what only stood still, is no figure of these runs.
    if value.0.is_none() || value.1.is_none() || (figure.more_is_better() && value == (Some(0.0), Some(0.0)))
    {
        return None;
    }
    let readings = |points: &[&Point]| {
        let intervals = points.iter().flat_map(|p| p.readings());
        intervals.filter_map(|i| figure.of_interval(i)).collect::<Vec<f64>>()
    };
    let runs = whole_a.len() >= RUNS && whole_b.len() >= RUNS;
    let contrast = match runs {
        true => Contrast::of(&whole_a, &whole_b, false),
        false => Contrast::of(&readings(a), &readings(b), true),
    };
    Some(Row { setting, figure, value, contrast, runs })
}

fn cells(row: &Row) -> Vec<String> {
    let axis = Axis::new("", row.figure.unit().into());
    let value = |v: Option<f64>| v.map_or("-".to_owned(), |v| show(&axis, v));
    let percent = |share: f64| format!("{:+.1} %", share * 100.0);
    let name = match row.setting.as_str() {
        "" => row.figure.to_string(),
        setting => format!("{setting}: {}", row.figure),
    };
    let mut cells = vec![name, value(row.value.0), value(row.value.1)];
    let Some(c) = &row.contrast else {
        cells.extend(["-", "-", "-", "-", "too few readings"].map(str::to_owned));
        return cells;
    };
    cells.push(c.relative().map_or_else(|| show(&axis, c.shift), percent));
    cells.push(match (c.interval, c.median.0 != 0.0) {
        (Some((low, high)), true) => {
            format!("{} to {}", percent(low / c.median.0.abs()), percent(high / c.median.0.abs()))
        }
        (Some((low, high)), false) => format!("{} to {}", show(&axis, low), show(&axis, high)),
        (None, _) => "-".to_owned(),
    });
    cells.push(if c.p < 1e-4 { "<0.0001".to_owned() } else { format!("{:.4}", c.p) });
    cells.push(format!("{} + {} {}", c.n.0, c.n.1, if row.runs { "runs" } else { "intervals" }));
    let verdict = match (c.differs(), row.worse() > 0.0, c.shift != 0.0) {
        (false, ..) => "no difference told",
        (true, true, _) => "worse",
        (true, false, true) => "better",
        (true, false, false) => "no difference told",
    };
    cells.push(verdict.to_owned());
    cells
}

/// What the first run of each side was asked for and ran on, where it differs.
fn changes(before: &[Outcome], after: &[Outcome]) -> Vec<(String, String, String)> {
    let told = |runs: &[Outcome]| runs.first().map(conditions).unwrap_or_default();
    let (a, b) = (told(before), told(after));
    let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let value = |side: &BTreeMap<String, String>, name: &String| {
        side.get(name).cloned().unwrap_or_else(|| "-".to_owned())
    };
    let both = names.into_iter().map(|name| (name.clone(), value(&a, name), value(&b, name)));
    both.filter(|(_, before, after)| before != after).collect()
}

fn conditions(run: &Outcome) -> BTreeMap<String, String> {
    let mut rows = Vec::new();
    let mut add = |name: &str, value: Result<Value, serde_json::Error>| {
        crate::html::flatten(name, &value.unwrap_or(Value::Null), &mut rows);
    };
    let Begin { version, verb, protocol, targets, host, placement, workers, .. } = &run.begin;
    let begin = json!({
        "version": version, "verb": verb, "protocol": protocol, "targets": targets, "placement": placement, "workers": workers,
    });
    add("", Ok(begin));
    add("host", serde_json::to_value(host));
    if let Some(point) = run.points.first() {
        add("phase", serde_json::to_value(&point.phase));
        add("in effect here", serde_json::to_value(&point.near.effective));
        for (n, totals) in point.far.iter().enumerate() {
            add(&format!("in effect at server {}", n + 1), serde_json::to_value(&totals.effective));
        }
        for (n, session) in point.sessions.iter().enumerate() {
            let name = format!("server {}", n + 1);
            add(
                &name,
                Ok(
                    json!({ "version": session.version, "placement": session.placement, "workers": session.workers }),
                ),
            );
            add(&format!("{name}.host"), serde_json::to_value(&session.host));
        }
    }
    // Drawn anew for each run.
    rows.retain(|(name, _)| {
        !name.ends_with("first_worker") && !name.ends_with("probe.seed") && !name.ends_with("clock_error_ns")
    });
    rows.into_iter().collect()
}
