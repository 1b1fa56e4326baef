//! Two runs, or two sets of runs, side by side: the figures that differ for certain, and the
//! settings that differ.

mod readings;
mod settings;

use crate::plot::AxisUnit;
use crate::text::{Page, Table, Tone, or_dash};
use crate::words;
use metrics::Clamped;
use model::{Caveat, CaveatLevel, Figure, Outcome, Status};
use readings::{
    ComparedFigure, FigureVerdict, Readings, by_setting, fewest_runs, judged, load_readings, own_readings,
    readings,
};
use serde_json::{Value, json};
use settings::{changes, test};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Most figures that a headline names of either verdict.
const MOST_NAMED: usize = 4;
/// Columns of the short table: the figure, its values, their difference and the verdict.
const SHORT_COLUMNS: usize = 5;

/// Common and different figures of two sides.
pub struct Comparison {
    rows: Vec<ComparedFigure>,
    /// Differences between the two tests, in the names of options.
    test: Vec<String>,
    /// Setting, of the first side, of the second.
    changes: Vec<[String; 3]>,
    /// Phases of either side in which nothing was measured.
    failed: [u64; 2],
    /// Caveats of the runs, and the number of runs of either side that have each.
    caveats: Vec<(Caveat, [u64; 2])>,
    /// Number of runs of either side.
    runs: [u64; 2],
}

impl Comparison {
    /// Compares the runs `after` with those `before`.
    ///
    /// # Errors
    /// One sentence when they are of different verbs, or have nothing in common.
    pub fn of(before: &[Outcome], after: &[Outcome]) -> Result<Self, String> {
        Comparison::is_of_one_verb(before, after)?;
        let (a, b) = (by_setting(before), by_setting(after));
        // The measurements of a load answer together, stage by stage.
        let is_load = before.iter().chain(after).any(|run| run.begin.verb == "load");
        let phases = a.iter().filter(|_| !is_load);
        let common = phases.filter_map(|(label, points)| Some((label, points, b.get(label)?)));
        let all: Vec<Readings> = common
            .flat_map(|(label, a, b)| {
                let setting = words::setting(label, 1);
                let own = own_readings(&setting, [a, b]);
                Figure::judged()
                    .filter_map(move |figure| readings(setting.clone(), figure, [a, b]))
                    .chain(own)
            })
            .chain(load_readings([before, after]))
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
        let sides = [before, after];
        let runs = sides.map(|side| u64::clamped(side.len()));
        let (rows, caveats) = (judged(all), caveats(sides));
        Ok(Comparison { rows, test: test(sides), changes: changes(sides), failed, caveats, runs })
    }

    /// # Errors
    /// One sentence where the runs answer different questions.
    pub fn is_of_one_verb(before: &[Outcome], after: &[Outcome]) -> Result<(), String> {
        let verbs = before.iter().chain(after).map(|run| run.begin.verb.as_str());
        let mut verbs = verbs.filter(|verb| !verb.is_empty());
        let first = verbs.next();
        match first.zip(verbs.find(|verb| Some(*verb) != first)) {
            Some((one, other)) => Err(format!(
                "a run of `{one}` and a run of `{other}` answer different questions: compare runs of one verb"
            )),
            None => Ok(()),
        }
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
        // Figures beside the question need more runs, and their absence holds nothing up.
        let mut leading = self.rows.iter().filter(|row| row.readings.figure.leads);
        let short = leading.find(|row| matches!(row.verdict, FigureVerdict::TooFew(_)));
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

    /// For people, in lines of `columns` columns if their number is known; `verbose` with
    /// intervals, probabilities and the meaning of the columns.
    pub fn write(
        &self,
        (color, columns, verbose): (bool, Option<u16>, bool),
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let page = &mut Page::new(out, color).within(columns);
        self.write_test(page);
        page.paragraph(Tone::Heading, "", &self.headline());
        self.write_caveats(page);
        page.gap();
        self.write_tables(page, verbose);
        page.end()
    }

    /// The same for a page, under a sentence with the verdict and both runs over time.
    pub fn write_html(&self, before: &Outcome, after: &Outcome, out: &mut dyn Write) -> io::Result<()> {
        let has = |verdict: FigureVerdict| self.rows.iter().any(|row| row.verdict == verdict);
        let tone = if has(FigureVerdict::Worse) { "bad" } else { "good" };
        let page = &mut Page::html(out);
        self.write_test(page);
        let headline = self.headline();
        writeln!(page, "<p class=\"verdict {tone}\">{}</p>", crate::html::escape(&headline));
        self.write_caveats(page);
        crate::html::overlay(before, after, page);
        self.write_tables(page, true);
        page.end()
    }

    /// Says first that the two sides are not the same test.
    fn write_test(&self, page: &mut Page<'_>) {
        if !self.test.is_empty() {
            page.paragraph(Tone::Warning, "", &format!("Not the same test: {}.", self.test.join(", ")));
        }
    }

    /// Names the caveats of the runs, gravest first.
    fn write_caveats(&self, page: &mut Page<'_>) {
        if self.caveats.is_empty() {
            return;
        }
        let of_runs = |runs: &[u64; 2]| match self.runs {
            [1, 1] if *runs == [1, 1] => "both runs".to_owned(),
            [1, 1] if runs[0] == 1 => "the run before".to_owned(),
            [1, 1] => "the run after".to_owned(),
            [before, after] => format!("{} of {before} + {} of {after} runs", runs[0], runs[1]),
        };
        let named = |(caveat, runs): &(Caveat, [u64; 2])| format!("{} in {}", caveat.code, of_runs(runs));
        let all: Vec<String> = self.caveats.iter().map(named).collect();
        page.paragraph(Tone::Warning, "", &format!("Caveats: {}.", all.join(", ")));
    }

    /// The answer in one line: the figures that are worse, the better ones, and how many are neither.
    fn headline(&self) -> String {
        let of = |wanted: fn(&FigureVerdict) -> bool| {
            self.rows.iter().filter(move |row| wanted(&row.verdict)).collect::<Vec<_>>()
        };
        let named = |rows: Vec<&ComparedFigure>| {
            let mut all: Vec<String> = rows.iter().take(MOST_NAMED).map(|row| row.words()).collect();
            let more = rows.len().saturating_sub(MOST_NAMED);
            all.extend((more > 0).then(|| format!("{more} more")));
            all.join(", ")
        };
        let count = |rows: Vec<&ComparedFigure>| words::count(u64::clamped(rows.len()), "figure");
        let mut parts = Vec::new();
        let (worse, better) = (of(|v| *v == FigureVerdict::Worse), of(|v| *v == FigureVerdict::Better));
        let (same, few) = (of(|v| *v == FigureVerdict::Same), of(|v| matches!(v, FigureVerdict::TooFew(_))));
        let untold = of(|v| *v == FigureVerdict::Untold);
        if !worse.is_empty() {
            parts.push(format!("worse: {}", named(worse)));
        }
        if !better.is_empty() {
            parts.push(format!("better: {}", named(better)));
        }
        if !same.is_empty() {
            parts.push(format!("no significant difference in {}", count(same)));
        }
        if let Some(first) = few.first() {
            let need = match &first.verdict {
                FigureVerdict::TooFew(what) => what.rsplit(": ").next().unwrap_or_default(),
                _ => "",
            };
            let kind = first.readings.kind();
            parts.push(format!("too few {kind} for {} ({need})", count(few.clone())));
        }
        if !untold.is_empty() {
            parts.push(format!("{} of whole runs, of which several a side are needed", count(untold)));
        }
        let text = parts.join("; ");
        let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
        format!("{}{rest}.", first.to_uppercase())
    }

    fn write_tables(&self, page: &mut Page<'_>, verbose: bool) {
        let more = if verbose { "|interval|p|readings" } else { "" };
        let mut table = Table::new(&format!("Figure|before|after|difference|verdict{more}"));
        for row in &self.rows {
            let tone = match row.verdict {
                FigureVerdict::Worse => Tone::Bad,
                FigureVerdict::Better => Tone::Heading,
                _ => Tone::Plain,
            };
            let mut cells = cells(row);
            cells.truncate(if verbose { cells.len() } else { SHORT_COLUMNS });
            table.row(tone, cells);
        }
        page.table(&table);
        if verbose {
            page.gap();
            self.write_legend(page);
        }
        self.write_conditions(page);
    }

    /// The meaning of the columns.
    fn write_legend(&self, page: &mut Page<'_>) {
        page.paragraph(
            Tone::Plain,
            "",
            "before and after: of runs the medians, of one run a side the whole of it. Difference, in percent of before; its interval: of runs that of the median of all differences \
             (Hodges-Lehmann), of intervals that of the means. p: probability of such ranks (Mann-Whitney) or means (Student's t; \
             losses are counts) by chance, corrected for the number of figures (Holm; the figures of the question have four fifths of the error); the intervals hold together with 95 %. \
             Intervals of a run that are alike count less.",
        );
    }

    /// Failures of the runs, and settings that differ.
    fn write_conditions(&self, page: &mut Page<'_>) {
        for (failed, side) in
            self.failed.into_iter().zip(["before", "after"]).filter(|(failed, _)| *failed > 0)
        {
            let phases = words::count(failed, "phase");
            let text = format!("Of the runs {side}, {phases} failed and are left out.");
            page.paragraph(Tone::Bad, "", &text);
        }
        if self.rows.iter().any(|row| !row.readings.whole_runs) {
            let least = fewest_runs(&self.rows);
            let text = format!(
                "One run a side: a difference is one between these two runs, and not yet one between settings. For that compare \
                 {least} or more runs a side, taken in turn.",
            );
            page.paragraph(Tone::Plain, "", &text);
        }
        page.gap();
        // Options of the test are in the first line.
        let changes = || self.changes.iter().filter(|[name, ..]| !name.starts_with("phase."));
        if changes().next().is_none() {
            let other = if self.test.is_empty() { "" } else { " other" };
            return page.line(Tone::Plain, &format!("All{other} settings and hosts are the same."));
        }
        let mut table = Table::new("Set differently|before|after");
        changes().for_each(|change| table.row(Tone::Plain, change.to_vec()));
        page.table(&table);
    }

    /// For programs: one JSON document.
    pub fn json(&self) -> Value {
        let row = |row: &ComparedFigure| {
            let Readings { setting, figure, value, .. } = &row.readings;
            json!({
                "setting": setting,
                "figure": figure.label,
                "key": figure.key,
                "unit": AxisUnit::from(figure.unit).words().2,
                "more_is_better": figure.more_is_better,
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
            "answer": self.headline(),
            "test": self.test,
            "figures": self.rows.iter().map(row).collect::<Vec<_>>(),
            "failed": { "before": self.failed[0], "after": self.failed[1] },
            "caveats": self.caveats.iter().map(|(caveat, [before, after])| {
                json!({ "code": caveat.code, "level": caveat.level.name(), "before": before, "after": after })
            }).collect::<Vec<_>>(),
            "changes": self.changes.iter().map(|[name, before, after]| {
                json!({ "setting": name, "before": before, "after": after })
            }).collect::<Vec<_>>(),
        })
    }
}

/// Caveats of the runs beyond notes, and how many runs of either side have each.
fn caveats(sides: [&[Outcome]; 2]) -> Vec<(Caveat, [u64; 2])> {
    let mut all: BTreeMap<&str, (&Caveat, [u64; 2])> = BTreeMap::new();
    for (at, runs) in sides.into_iter().enumerate() {
        for run in runs {
            let of_run = run.points.iter().flat_map(|point| &point.caveats);
            let of_run = of_run.filter(|caveat| caveat.level != CaveatLevel::Note);
            let codes: BTreeMap<&str, &Caveat> =
                of_run.map(|caveat| (caveat.code.as_str(), caveat)).collect();
            for (code, caveat) in codes {
                all.entry(code).or_insert((caveat, [0; 2])).1[at] += 1;
            }
        }
    }
    all.into_values().map(|(caveat, runs)| (caveat.clone(), runs)).collect()
}

fn cells(row: &ComparedFigure) -> Vec<String> {
    let value = |value: f64| row.readings.figure.show(value);
    let [before, after] = row.shown().map(|known| known.map(value));
    let p = row.p.map(|p| if p < 1e-4 { "<0.0001".to_owned() } else { format!("{p:.4}") });
    let verdict = Some(row.verdict.short(row.readings.kind()));
    let all = [before, after, row.difference(), verdict, row.interval(), p];
    let all = all.map(|cell| or_dash(cell, |cell| cell));
    // A stage has its name alone: the table of a load fits 80 columns.
    let name = row.name().trim_start_matches("stage ").to_owned();
    [name].into_iter().chain(all).chain([row.readings()]).collect()
}

#[cfg(test)]
mod tests;
