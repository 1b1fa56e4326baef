//! Two runs, or two sets of runs, side by side: which figures differ for certain, and what was set differently.

use crate::plot::{Axis, AxisUnit, show};
use crate::text::{Page, Table, Tone};
use crate::words;
use metrics::{ALPHA, Clamped, Contrast, holm, least_readings, real};
use model::document::Document;
use model::{Begin, Figure, Outcome, Point, Status};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};

/// What a comparison says of a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Better,
    Worse,
    Same,
    /// So few readings never differ significantly: what it takes.
    TooFew(String),
    /// Intervals do not tell this figure, only whole runs do.
    Untold,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Better => f.write_str("better"),
            Verdict::Worse => f.write_str("worse"),
            Verdict::Same => f.write_str("no significant difference"),
            Verdict::TooFew(what) => write!(f, "too few {what}"),
            Verdict::Untold => f.write_str("not told by intervals"),
        }
    }
}

/// The readings of a figure on both sides.
struct Readings {
    setting: String,
    figure: Figure,
    value: (Option<f64>, Option<f64>),
    before: Vec<f64>,
    after: Vec<f64>,
    /// Whether the readings are whole runs; intervals of one run a side otherwise.
    runs: bool,
}

impl Readings {
    /// Whether a test can be made of them; where all are the same, nothing can differ and no test is made.
    fn tested(&self) -> bool {
        let mut all = self.before.iter().chain(&self.after);
        let first = all.next();
        !self.before.is_empty() && !self.after.is_empty() && all.any(|value| Some(value) != first)
    }

    /// The row of a comparison of `figures` figures in all.
    fn compared(self, figures: usize) -> Row {
        let level = ALPHA / real(figures.max(1));
        let contrast = Contrast::of(&self.before, &self.after, !self.runs, level);
        let tested = self.tested();
        let verdict = match contrast {
            _ if !self.runs && (self.before.is_empty() || self.after.is_empty()) => Verdict::Untold,
            Some(_) if !tested => Verdict::Same,
            Some(contrast) if contrast.least_p <= level => Verdict::Same,
            _ if self.runs => {
                let least = least_readings(figures);
                Verdict::TooFew(format!("runs to tell: {least} + {least} needed"))
            }
            _ => Verdict::TooFew("intervals to tell: longer runs needed".to_owned()),
        };
        let p = contrast.filter(|_| tested && verdict == Verdict::Same).map(|contrast| contrast.p);
        Row { readings: self, contrast, p, verdict }
    }
}

/// Compares figures, and corrects for their number.
fn judged(all: Vec<Readings>) -> Vec<Row> {
    let figures = all.iter().filter(|readings| readings.tested()).count();
    let mut rows: Vec<Row> = all.into_iter().map(|readings| readings.compared(figures)).collect();
    let mut p: Vec<f64> = rows.iter().filter_map(|row| row.p).collect();
    // Figures with too little data count as tests, too.
    p.resize(figures, 1.0);
    let told = rows.iter_mut().filter(|row| row.p.is_some());
    told.zip(holm(&p)).for_each(|(row, p)| row.judge(p));
    rows
}

/// A figure of both sides, compared.
struct Row {
    readings: Readings,
    /// The comparison of their readings; `None` with too few.
    contrast: Option<Contrast>,
    /// Its probability, corrected for the number of figures; `None` where none was tested.
    p: Option<f64>,
    verdict: Verdict,
}

impl Row {
    /// Tells better from worse, when the corrected probability `p` is small enough.
    fn judge(&mut self, p: f64) {
        self.p = Some(p);
        let Some(contrast) = self.contrast.filter(|_| p < ALPHA) else { return };
        // What `p` is the probability of: most differences between readings have this sign, even where their median is 0.
        let more = contrast.superiority > 0.5;
        self.verdict =
            if more == self.readings.figure.more_is_better() { Verdict::Better } else { Verdict::Worse };
    }

    /// Whether it is worse by more than `share` of what it was, by the end of the interval that is nearer to no difference. A
    /// value of 0 has no share: any worse value is worse by more.
    fn worse_by(&self, share: f64) -> bool {
        let Some(contrast) = self.contrast.filter(|_| self.verdict == Verdict::Worse) else { return false };
        let base = contrast.median.0.abs();
        base == 0.0 || share == 0.0 || contrast.local_end().abs() > share * base
    }

    /// `3 + 3 runs`
    fn readings(&self) -> String {
        let Readings { before, after, runs, .. } = &self.readings;
        format!("{} + {} {}", before.len(), after.len(), if *runs { "runs" } else { "intervals" })
    }

    fn name(&self) -> String {
        match self.readings.setting.as_str() {
            "" => self.readings.figure.to_string(),
            setting => format!("{setting}: {}", self.readings.figure),
        }
    }
}

/// What two sides have in common and what not.
pub struct Comparison {
    rows: Vec<Row>,
    /// Setting, of the first side, of the second.
    changes: Vec<(String, String, String)>,
    /// Phases of either side in which nothing was measured.
    failed: (usize, usize),
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
                let own = own_readings(&setting, a, b);
                Figure::compared()
                    .filter_map(move |figure| readings(setting.clone(), figure, a, b))
                    .chain(own)
            })
            .collect();
        if all.is_empty() {
            return Err(
                "the runs have no figure in common: compare runs of one kind, or sweeps of the same settings"
                    .to_owned(),
            );
        }
        let failed = |runs: &[Outcome]| {
            let points = runs.iter().flat_map(|run| &run.points);
            points.filter(|point| point.status == Status::Failed).count()
        };
        Ok(Comparison {
            rows: judged(all),
            changes: changes(before, after),
            failed: (failed(before), failed(after)),
        })
    }

    /// Whether the second side is worse for certain, by more than `share` of the first, in any figure.
    ///
    /// # Errors
    /// One sentence when none is, and there are figures of which it cannot be told.
    pub fn worse_by(&self, share: f64) -> Result<bool, String> {
        if self.rows.iter().any(|row| row.worse_by(share)) {
            return Ok(true);
        }
        let short = self.rows.iter().find(|row| matches!(row.verdict, Verdict::TooFew(_)));
        match short {
            _ if self.failed.1 > 0 => Err(format!(
                "the threshold cannot be judged: {} of the runs after failed",
                metrics::format_count(u64::clamped(self.failed.1), "phase")
            )),
            Some(row) => Err(format!(
                "the threshold cannot be judged: {} ({} + {}): {}",
                row.name(),
                row.readings.before.len(),
                row.readings.after.len(),
                row.verdict
            )),
            None if self.rows.iter().all(|row| row.verdict == Verdict::Untold) => Err(
                "the threshold cannot be judged: intervals tell none of these figures, compare several runs"
                    .to_owned(),
            ),
            None => Ok(false),
        }
    }

    /// For people, in lines of so many columns if they are known.
    pub fn write(&self, color: bool, columns: Option<u16>, out: &mut dyn Write) -> io::Result<()> {
        self.tell(&mut Page::new(out, color).within(columns))
    }

    /// The same for a page, under a sentence with what it comes to and both runs over time.
    pub fn write_html(&self, before: &Outcome, after: &Outcome, out: &mut dyn Write) -> io::Result<()> {
        let of = |verdict: &Verdict| self.rows.iter().filter(|row| row.verdict == *verdict).count();
        let (better, worse) = (of(&Verdict::Better), of(&Verdict::Worse));
        let figures = metrics::format_count(u64::clamped(self.rows.len()), "figure");
        let tone = if worse > 0 { "bad" } else { "good" };
        writeln!(out, "<p class=\"verdict {tone}\">{figures} compared: {better} better, {worse} worse.</p>")?;
        crate::html::overlay(before, after, out)?;
        let page = &mut Page::html(out);
        self.tell(page)?;
        page.end()
    }

    fn tell(&self, page: &mut Page<'_>) -> io::Result<()> {
        let mut table = Table::new("Figure|before|after|difference|interval|p|readings|verdict");
        for row in &self.rows {
            let tone = match row.verdict {
                Verdict::Worse => Tone::Bad,
                Verdict::Better => Tone::Heading,
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
             and its interval, in percent of the median before. p: of ranks so uneven by chance (Mann-Whitney), corrected for the \
             number of figures (Holm); the intervals hold together with 95 %. Intervals of a run that are alike count less.",
        )?;
        for (failed, side) in [(self.failed.0, "before"), (self.failed.1, "after")] {
            if failed > 0 {
                let phases = metrics::format_count(u64::clamped(failed), "phase");
                page.paragraph(
                    Tone::Bad,
                    "",
                    &format!("Of the runs {side}, {phases} failed and are left out."),
                )?;
            }
        }
        if self.rows.iter().any(|row| !row.readings.runs) {
            let least = least_readings(self.rows.len());
            let text = format!(
                "One run a side: a difference is one between these two runs, and not yet one between settings. For that compare \
                 {least} or more runs a side, taken in turn.",
            );
            page.paragraph(Tone::Plain, "", &text)?;
        }
        page.gap()?;
        if self.changes.is_empty() {
            return page.line(Tone::Plain, "All settings and hosts are the same.");
        }
        let mut table = Table::new("Set differently|before|after");
        for (name, before, after) in &self.changes {
            table.row(Tone::Plain, vec![name.clone(), before.clone(), after.clone()]);
        }
        page.table(&table)
    }

    /// For programs: one JSON document.
    pub fn json(&self) -> Value {
        let row = |row: &Row| {
            let Readings { setting, figure, value, runs, .. } = &row.readings;
            json!({
                "setting": setting,
                "figure": figure.to_string(),
                "key": figure.key(),
                "unit": AxisUnit::from(figure.unit()).words().2,
                "more_is_better": figure.more_is_better(),
                "before": value.0,
                "after": value.1,
                "readings": if *runs { "runs" } else { "intervals" },
                "contrast": row.contrast,
                "p": row.p,
                "verdict": row.verdict.to_string(),
            })
        };
        json!({
            "schema": "netcaliper.comparison.v1",
            "figures": self.rows.iter().map(row).collect::<Vec<_>>(),
            "failed": { "before": self.failed.0, "after": self.failed.1 },
            "changes": self.changes.iter().map(|(name, before, after)| {
                json!({ "setting": name, "before": before, "after": after })
            }).collect::<Vec<_>>(),
        })
    }
}

/// All phases by what a sweep varies, each with whether a server recorded it.
fn by_setting(runs: &[Outcome]) -> BTreeMap<BTreeMap<String, String>, Vec<(&Point, bool)>> {
    let mut all: BTreeMap<_, Vec<(&Point, bool)>> = BTreeMap::new();
    for run in runs {
        for point in &run.points {
            all.entry(point.label.clone()).or_default().push((point, run.begin.verb == "serve"));
        }
    }
    all
}

/// The readings of a figure: whole runs, or the intervals of one run a side. `None` where a side has not measured it.
fn readings(setting: String, figure: Figure, a: &[(&Point, bool)], b: &[(&Point, bool)]) -> Option<Readings> {
    let measured = |points: &[(&Point, bool)]| {
        let points = points.iter().filter(|(point, _)| point.status != Status::Failed);
        points.filter_map(|(point, _)| figure.of(point)).collect::<Vec<f64>>()
    };
    let mean = |values: &[f64]| (!values.is_empty()).then(|| values.iter().sum::<f64>() / real(values.len()));
    let (whole_a, whole_b) = (measured(a), measured(b));
    let value = (mean(&whole_a), mean(&whole_b));
    // What neither side has, or what only stood still, is no figure of these runs.
    if value.0.is_none() || value.1.is_none() || (figure.more_is_better() && value == (Some(0.0), Some(0.0)))
    {
        return None;
    }
    let runs = a.len() > 1 || b.len() > 1;
    let of = |points: &[(&Point, bool)]| {
        points.iter().flat_map(|(point, serving)| figure.readings(point, *serving)).collect::<Vec<f64>>()
    };
    let (before, after) = if runs { (whole_a, whole_b) } else { (of(a), of(b)) };
    Some(Readings { setting, figure, value, before, after, runs })
}

/// What a protocol's own results with the same settings read, figure by figure.
fn own(points: &[(&Point, bool)]) -> BTreeMap<(String, String), Vec<f64>> {
    let mut all: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
    for shown in points.iter().flat_map(|(point, _)| point.shown()) {
        for figure in &shown.figures {
            all.entry((shown.setting(), figure.key.clone())).or_default().push(figure.value);
        }
    }
    all
}

/// The readings of the figures of a protocol's own results, where each side has several with the same settings.
fn own_readings(setting: &str, a: &[(&Point, bool)], b: &[(&Point, bool)]) -> Vec<Readings> {
    let mut theirs = own(b);
    let common = own(a).into_iter().filter_map(|(key, before)| {
        let after = theirs.remove(&key)?;
        let figure = Figure::named(&key.1).into_iter().next().filter(|figure| figure.is_compared())?;
        let mean = |values: &[f64]| Some(values.iter().sum::<f64>() / real(values.len()));
        let setting =
            [setting, &key.0].into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(", ");
        let value = (mean(&before), mean(&after));
        (before.len() > 1 && after.len() > 1).then_some(Readings {
            setting,
            figure,
            value,
            before,
            after,
            runs: true,
        })
    });
    common.collect()
}

fn cells(row: &Row) -> Vec<String> {
    let axis = Axis::new("", row.readings.figure.unit());
    let value = |v: Option<f64>| v.map_or("-".to_owned(), |v| show(&axis, v));
    let percent = |share: f64| format!("{:+.1} %", share * 100.0);
    let mut cells = vec![row.name(), value(row.readings.value.0), value(row.readings.value.1)];
    let readings = row.readings();
    let Some(c) = &row.contrast else {
        cells.extend(["-".to_owned(), "-".to_owned(), "-".to_owned(), readings, row.verdict.to_string()]);
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
    cells.push(match row.p {
        Some(p) if p < 1e-4 => "<0.0001".to_owned(),
        Some(p) => format!("{p:.4}"),
        None => "-".to_owned(),
    });
    cells.extend([readings, row.verdict.to_string()]);
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
            add(
                &name,
                Ok(
                    json!({ "version": session.version, "placement": session.placement, "workers": session.workers }),
                ),
            );
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
