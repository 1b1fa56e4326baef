//! Two runs, or two sets of runs, side by side: the figures that differ for certain, and the
//! settings that differ.

use crate::plot::{Axis, AxisUnit, show};
use crate::text::{Page, Table, Tone, or_dash};
use crate::words;
use metrics::{ALPHA, Clamped, Contrast, Series, format_duration, holm, least_readings, real};
use model::document::Document;
use model::{Begin, Figure, Interval, Outcome, Point, SessionInfo, Status};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Write};

/// Verdict of a comparison on a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FigureVerdict {
    Better,
    Worse,
    Same,
    /// Too few readings ever to differ significantly: the number needed.
    TooFew(String),
    /// Intervals do not have this figure, only whole runs do.
    Untold,
}

impl fmt::Display for FigureVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FigureVerdict::Better => f.write_str("better"),
            FigureVerdict::Worse => f.write_str("worse"),
            FigureVerdict::Same => f.write_str("no significant difference"),
            FigureVerdict::TooFew(what) => write!(f, "too few {what}"),
            FigureVerdict::Untold => f.write_str("not told by intervals"),
        }
    }
}

/// The readings of a figure on both sides.
struct Readings {
    setting: String,
    figure: Figure,
    /// Over all of each side, before and after.
    value: [Option<f64>; 2],
    of: [Vec<f64>; 2],
    /// Of how many datagrams, messages or frames each reading of an interval is a percentage; empty
    /// for other figures.
    events: [Vec<u64>; 2],
    /// Length of an interval, ns.
    interval_ns: u64,
    /// True if the readings are whole runs; else they are intervals of one run a side.
    runs: bool,
}

impl Readings {
    fn kind(&self) -> &'static str {
        if self.runs { "runs" } else { "intervals" }
    }

    /// True if a test is possible; where all readings are the same, nothing can differ and no test
    /// is made.
    fn tested(&self) -> bool {
        let mut all = self.of.iter().flatten();
        let first = all.next();
        !self.is_one_sided() && all.any(|value| Some(value) != first)
    }

    /// True if a side has none.
    fn is_one_sided(&self) -> bool {
        self.of.iter().any(Vec::is_empty)
    }

    /// Intervals of a side.
    fn series(&self, side: usize) -> Series<'_> {
        Series { values: &self.of[side], events: &self.events[side] }
    }

    /// Clause that asks for this many readings a side.
    fn requirement(&self, readings: usize) -> String {
        match self.runs {
            true => format!("{readings} + {readings} needed"),
            false => {
                let ns = self.interval_ns.saturating_mul(u64::clamped(readings));
                format!("runs of {} needed", format_duration(ns))
            }
        }
    }

    /// The row of a comparison of `figures` figures in all.
    fn compared(self, figures: usize) -> ComparedFigure {
        let level = ALPHA / real(figures.max(1));
        let contrast = match self.runs {
            true => Contrast::of_sets(&self.of[0], &self.of[1], level),
            false => Contrast::of_series(self.series(0), self.series(1), level),
        };
        let tested = self.tested();
        let verdict = match contrast {
            _ if !self.runs && self.is_one_sided() => FigureVerdict::Untold,
            Some(_) if !tested => FigureVerdict::Same,
            Some(contrast) if contrast.least_p <= level => FigureVerdict::Same,
            _ => FigureVerdict::TooFew(format!(
                "{} to tell: {}",
                self.kind(),
                self.requirement(least_readings(figures))
            )),
        };
        let p = contrast.filter(|_| tested && verdict == FigureVerdict::Same).map(|contrast| contrast.p);
        ComparedFigure { readings: self, level, contrast, p, verdict }
    }
}

/// Compares figures, and corrects for their number.
fn judged(all: Vec<Readings>) -> Vec<ComparedFigure> {
    let figures = all.iter().filter(|readings| readings.tested()).count();
    let mut rows: Vec<ComparedFigure> = all.into_iter().map(|readings| readings.compared(figures)).collect();
    let mut p: Vec<f64> = rows.iter().filter_map(|row| row.p).collect();
    // Figures with too little data count as tests, too.
    p.resize(figures, 1.0);
    let told = rows.iter_mut().filter(|row| row.p.is_some());
    told.zip(holm(&p)).for_each(|(row, p)| row.judge(p));
    rows
}

/// A figure of both sides, compared.
struct ComparedFigure {
    readings: Readings,
    /// Error that is allowed to its interval.
    level: f64,
    /// The comparison of their readings; `None` with too few.
    contrast: Option<Contrast>,
    /// Its probability, corrected for the number of figures; `None` where none was tested.
    p: Option<f64>,
    verdict: FigureVerdict,
}

impl ComparedFigure {
    /// Sets the verdict, when the corrected probability `p` is small enough.
    fn judge(&mut self, p: f64) {
        self.p = Some(p);
        let Some(contrast) = self.contrast.filter(|_| p < ALPHA) else { return };
        let more = contrast.is_more();
        self.verdict = if more == self.readings.figure.more_is_better() {
            FigureVerdict::Better
        } else {
            FigureVerdict::Worse
        };
    }

    /// True if the figure is worse by more than `share` of its old value, by the whole confidence
    /// interval: of the readings, or of the whole of each side. A value of 0 has no share: any
    /// worse value is worse by more.
    fn worse_by(&self, share: f64) -> bool {
        let Some(contrast) = self.contrast.filter(|_| self.verdict == FigureVerdict::Worse) else {
            return false;
        };
        let base = contrast.base.abs();
        let beyond = |of: Contrast, scale: f64| of.local_end().abs() > share * scale;
        base == 0.0
            || share == 0.0
            || beyond(contrast, base)
            || self.whole(share).is_some_and(|(_, of, whole)| beyond(whole, of))
    }

    /// A figure that is worse by more than `share` over all of the side after: by what share, what
    /// shares are of, and the comparison of the wholes. A share of 0 asks for a difference of any
    /// size, and the readings alone answer that.
    fn whole(&self, share: f64) -> Option<(f64, f64, Contrast)> {
        let all = &self.readings;
        let (worse, of) = all.figure.worsening(all.value[0]?, all.value[1]?)?;
        let whole = match all.runs {
            true => self.contrast,
            false => Contrast::of_wholes(all.series(0), all.series(1), self.level),
        };
        (share > 0.0 && worse > share).then(|| (worse, of, whole.unwrap_or_default()))
    }

    /// Sentence for a figure whose whole is worse by more than `share`, and not for certain: its
    /// readings scatter too much.
    fn uncertainty(&self, share: f64) -> Option<String> {
        let (worse, of, whole) = self.whole(share)?;
        let readings = self.readings.of.iter().map(Vec::len).max().unwrap_or_default();
        // Of a whole that is near the threshold even a hundred times as many leave that open.
        let more = whole.more_readings((worse - share) * of).filter(|times| *times <= 100.0);
        let needed = more
            .map(|times| self.readings.requirement(usize::clamped((real(readings) * times.max(1.0)).ceil())));
        Some(format!(
            "over all of each side {} is worse by {:.1} %, and {} {} scatter too much to say that for certain: {}",
            self.name(),
            worse * 100.0,
            self.numbers(),
            self.readings.kind(),
            needed.unwrap_or_else(|| "several runs a side needed".to_owned())
        ))
    }

    /// `3 + 3 runs`
    fn readings(&self) -> String {
        format!("{} {}", self.numbers(), self.readings.kind())
    }

    /// `3 + 3`
    fn numbers(&self) -> String {
        let [before, after] = &self.readings.of;
        format!("{} + {}", before.len(), after.len())
    }

    fn name(&self) -> String {
        match self.readings.setting.as_str() {
            "" => self.readings.figure.to_string(),
            setting => format!("{setting}: {}", self.readings.figure),
        }
    }
}

/// Common and different figures of two sides.
pub struct Comparison {
    rows: Vec<ComparedFigure>,
    /// Setting, of the first side, of the second.
    changes: Vec<[String; 3]>,
    /// Phases of either side in which nothing was measured.
    failed: [u64; 2],
}

impl Comparison {
    /// Compares the runs `after` with those `before`.
    ///
    /// # Errors
    /// One sentence when they have nothing in common.
    pub fn of(before: &[Outcome], after: &[Outcome]) -> Result<Self, String> {
        let (a, b) = (by_setting(before), by_setting(after));
        let common = a.iter().filter_map(|(label, points)| Some((label, points, b.get(label)?)));
        let all: Vec<Readings> = common
            .flat_map(|(label, a, b)| {
                let setting = words::setting(label, 1);
                let own = own_readings(&setting, [a, b]);
                Figure::compared()
                    .filter_map(move |figure| readings(setting.clone(), figure, [a, b]))
                    .chain(own)
            })
            .collect();
        if all.is_empty() {
            return Err(
                "the runs have no figure in common: compare runs of one kind, or sweeps of the same settings"
                    .to_owned(),
            );
        }
        let failed = [before, after].map(|runs| {
            let points = runs.iter().flat_map(|run| &run.points);
            u64::clamped(points.filter(|point| point.status == Status::Failed).count())
        });
        Ok(Comparison { rows: judged(all), changes: changes([before, after]), failed })
    }

    /// True if the second side is worse for certain, by more than `share` of the first, in any
    /// figure.
    ///
    /// # Errors
    /// One sentence when none is, and there are figures of which that is not known.
    pub fn worse_by(&self, share: f64) -> Result<bool, String> {
        if self.rows.iter().any(|row| row.worse_by(share)) {
            return Ok(true);
        }
        let short = self.rows.iter().find(|row| matches!(row.verdict, FigureVerdict::TooFew(_)));
        match short {
            _ if self.failed[1] > 0 => Err(format!(
                "the threshold cannot be judged: {} of the runs after failed",
                words::count(self.failed[1], "phase")
            )),
            Some(row) => Err(format!(
                "the threshold cannot be judged: {} ({}): {}",
                row.name(),
                row.numbers(),
                row.verdict
            )),
            None if self.rows.iter().all(|row| row.verdict == FigureVerdict::Untold) => Err(
                "the threshold cannot be judged: intervals have none of these figures, compare several runs"
                    .to_owned(),
            ),
            None => match self.rows.iter().find_map(|row| row.uncertainty(share)) {
                Some(why) => Err(format!("the threshold cannot be judged: {why}")),
                None => Ok(false),
            },
        }
    }

    /// For people, in lines of `columns` columns if their number is known.
    pub fn write(&self, color: bool, columns: Option<u16>, out: &mut dyn Write) -> io::Result<()> {
        let page = &mut Page::new(out, color).within(columns);
        self.write_tables(page);
        page.end()
    }

    /// The same for a page, under a sentence with the verdict and both runs over time.
    pub fn write_html(&self, before: &Outcome, after: &Outcome, out: &mut dyn Write) -> io::Result<()> {
        let of = |verdict: &FigureVerdict| self.rows.iter().filter(|row| row.verdict == *verdict).count();
        let (better, worse) = (of(&FigureVerdict::Better), of(&FigureVerdict::Worse));
        let figures = words::count(u64::clamped(self.rows.len()), "figure");
        let tone = if worse > 0 { "bad" } else { "good" };
        let page = &mut Page::html(out);
        writeln!(page, "<p class=\"verdict {tone}\">{figures} compared: {better} better, {worse} worse.</p>");
        crate::html::overlay(before, after, page);
        self.write_tables(page);
        page.end()
    }

    fn write_tables(&self, page: &mut Page<'_>) {
        let mut table = Table::new("Figure|before|after|difference|interval|p|readings|verdict");
        for row in &self.rows {
            let tone = match row.verdict {
                FigureVerdict::Worse => Tone::Bad,
                FigureVerdict::Better => Tone::Heading,
                _ => Tone::Plain,
            };
            table.row(tone, cells(row));
        }
        page.table(&table);
        page.gap();
        page.paragraph(
            Tone::Plain,
            "",
            "before and after: over all of each side. Difference, in percent of before: of runs the median of all differences \
             (Hodges-Lehmann), of intervals that of the means. p: probability of such ranks (Mann-Whitney) or means (Student's t; \
             losses are counts) by chance, corrected for the number of figures (Holm); the intervals hold together with 95 %. \
             Intervals of a run that are alike count less.",
        );
        for (failed, side) in
            self.failed.into_iter().zip(["before", "after"]).filter(|(failed, _)| *failed > 0)
        {
            let phases = words::count(failed, "phase");
            let text = format!("Of the runs {side}, {phases} failed and are left out.");
            page.paragraph(Tone::Bad, "", &text);
        }
        if self.rows.iter().any(|row| !row.readings.runs) {
            let least = least_readings(self.rows.len());
            let text = format!(
                "One run a side: a difference is one between these two runs, and not yet one between settings. For that compare \
                 {least} or more runs a side, taken in turn.",
            );
            page.paragraph(Tone::Plain, "", &text);
        }
        page.gap();
        if self.changes.is_empty() {
            return page.line(Tone::Plain, "All settings and hosts are the same.");
        }
        let mut table = Table::new("Set differently|before|after");
        self.changes.iter().for_each(|change| table.row(Tone::Plain, change.to_vec()));
        page.table(&table);
    }

    /// For programs: one JSON document.
    pub fn json(&self) -> Value {
        let row = |row: &ComparedFigure| {
            let Readings { setting, figure, value, .. } = &row.readings;
            json!({
                "setting": setting,
                "figure": figure.to_string(),
                "key": figure.key(),
                "unit": AxisUnit::from(figure.unit()).words().2,
                "more_is_better": figure.more_is_better(),
                "before": value[0],
                "after": value[1],
                "readings": row.readings.kind(),
                "contrast": row.contrast,
                "p": row.p,
                "verdict": row.verdict.to_string(),
            })
        };
        json!({
            "schema": "netcaliper.comparison.v1",
            "figures": self.rows.iter().map(row).collect::<Vec<_>>(),
            "failed": { "before": self.failed[0], "after": self.failed[1] },
            "changes": self.changes.iter().map(|[name, before, after]| {
                json!({ "setting": name, "before": before, "after": after })
            }).collect::<Vec<_>>(),
        })
    }
}

/// A phase, and whether a server recorded it.
type Phase<'a> = (&'a Point, bool);

/// All phases by the sweep's setting.
fn by_setting(runs: &[Outcome]) -> BTreeMap<BTreeMap<String, String>, Vec<Phase<'_>>> {
    let mut all: BTreeMap<_, Vec<Phase<'_>>> = BTreeMap::new();
    for run in runs {
        for point in &run.points {
            all.entry(point.label.clone()).or_default().push((point, run.begin.verb == "serve"));
        }
    }
    all
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / real(values.len()))
}

/// The readings of a figure: whole runs, or the intervals of one run a side. `None` where a side
/// has not measured it.
fn readings(setting: String, figure: Figure, sides: [&[Phase<'_>]; 2]) -> Option<Readings> {
    let whole: [Vec<f64>; 2] = sides.map(|points| {
        let points = points.iter().filter(|(point, _)| point.status != Status::Failed);
        points.filter_map(|(point, _)| figure.of(point)).collect()
    });
    let value = [mean(&whole[0]), mean(&whole[1])];
    // A value that neither side has, or that only stood still, is no figure of these runs.
    if value.contains(&None) || (figure.more_is_better() && value == [Some(0.0); 2]) {
        return None;
    }
    let runs = sides.iter().any(|points| points.len() > 1);
    let intervals = |points: &[Phase<'_>]| -> Vec<f64> {
        points.iter().flat_map(|(point, serving)| figure.readings(point, *serving)).collect()
    };
    let of = if runs { whole } else { sides.map(intervals) };
    let events = sides.map(|points| match runs {
        true => Vec::new(),
        false => points.iter().flat_map(|(point, _)| figure.events(point)).collect(),
    });
    let lengths = sides.iter().flat_map(|points| points.iter().flat_map(|(point, _)| point.readings()));
    let interval_ns = lengths.map(Interval::ns).max().unwrap_or_default();
    Some(Readings { setting, figure, value, of, events, interval_ns, runs })
}

/// Readings of a protocol's own results with the same settings, figure by figure.
fn own(points: &[Phase<'_>]) -> BTreeMap<(String, String), Vec<f64>> {
    let mut all: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
    for shown in points.iter().flat_map(|(point, _)| point.shown()) {
        for figure in &shown.figures {
            all.entry((shown.setting(), figure.key.clone())).or_default().push(figure.value);
        }
    }
    all
}

/// The readings of the figures of a protocol's own results, where each side has several with the
/// same settings.
fn own_readings(setting: &str, sides: [&[Phase<'_>]; 2]) -> Vec<Readings> {
    let [ours, mut theirs] = sides.map(own);
    let common = ours.into_iter().filter_map(|(key, before)| {
        let of = [before, theirs.remove(&key)?];
        let figure = Figure::named(&key.1).into_iter().next().filter(|figure| figure.is_compared())?;
        let settings: Vec<&str> = [setting, &key.0].into_iter().filter(|words| !words.is_empty()).collect();
        let value = [mean(&of[0]), mean(&of[1])];
        let several = of.iter().all(|values| values.len() > 1);
        let (setting, events) = (settings.join(", "), [Vec::new(), Vec::new()]);
        several.then_some(Readings { setting, figure, value, of, events, interval_ns: 0, runs: true })
    });
    common.collect()
}

fn cells(row: &ComparedFigure) -> Vec<String> {
    let axis = Axis::new("", row.readings.figure.unit());
    let value = |value: f64| show(&axis, value);
    let percent = |share: f64| format!("{:+.1} %", share * 100.0);
    let [before, after] = row.readings.value.map(|known| known.map(value));
    let difference = row.contrast.map(|c| c.relative().map_or_else(|| value(c.shift), percent));
    let interval = row.contrast.and_then(|c| {
        let (low, high) = c.interval?;
        let base = c.base.abs();
        let end = |at: f64| if base == 0.0 { value(at) } else { percent(at / base) };
        Some(format!("{} to {}", end(low), end(high)))
    });
    let p = row.p.map(|p| if p < 1e-4 { "<0.0001".to_owned() } else { format!("{p:.4}") });
    let told = [before, after, difference, interval, p].map(|cell| or_dash(cell, |cell| cell));
    [row.name()].into_iter().chain(told).chain([row.readings(), row.verdict.to_string()]).collect()
}

/// Settings and hosts of the first run of each side, where they differ.
fn changes(sides: [&[Outcome]; 2]) -> Vec<[String; 3]> {
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
        !name.ends_with("first_worker") && !name.ends_with("probe.seed") && !name.ends_with("clock_error_ns")
    });
    rows.into_iter().collect()
}

#[cfg(test)]
mod tests;
