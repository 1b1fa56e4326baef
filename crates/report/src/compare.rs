//! Two runs, or two sets of runs, side by side: the figures that differ for certain, and the
//! settings that differ.

mod readings;
mod settings;

use crate::plot::AxisUnit;
use crate::text::{Page, Table, Tone, or_dash};
use crate::words;
use metrics::Clamped;
use model::{Figure, Outcome, Status};
use readings::{
    ComparedFigure, FigureVerdict, Readings, by_setting, fewest_runs, judged, load_readings, own_readings,
    percent, readings,
};
use serde_json::{Value, json};
use settings::{changes, test};
use std::io::{self, Write};

/// Most figures that a headline names of either verdict.
const MOST_NAMED: usize = 4;

/// Common and different figures of two sides.
pub struct Comparison {
    rows: Vec<ComparedFigure>,
    /// Differences between the two tests, in the names of options.
    test: Vec<String>,
    /// Setting, of the first side, of the second.
    changes: Vec<[String; 3]>,
    /// Phases of either side in which nothing was measured.
    failed: [u64; 2],
}

impl Comparison {
    /// Compares the runs `after` with those `before`.
    ///
    /// # Errors
    /// One sentence when they are of different verbs, or have nothing in common.
    pub fn of(before: &[Outcome], after: &[Outcome]) -> Result<Self, String> {
        Comparison::is_of_one_verb(before, after)?;
        let (a, b) = (by_setting(before), by_setting(after));
        let common = a.iter().filter_map(|(label, points)| Some((label, points, b.get(label)?)));
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
        Ok(Comparison { rows: judged(all), test: test(sides), changes: changes(sides), failed })
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

    /// For people, in lines of `columns` columns if their number is known.
    pub fn write(&self, color: bool, columns: Option<u16>, out: &mut dyn Write) -> io::Result<()> {
        let page = &mut Page::new(out, color).within(columns);
        self.write_test(page);
        page.paragraph(Tone::Heading, "", &self.headline());
        page.gap();
        self.write_tables(page);
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
        crate::html::overlay(before, after, page);
        self.write_tables(page);
        page.end()
    }

    /// Says first that the two sides are not the same test.
    fn write_test(&self, page: &mut Page<'_>) {
        if !self.test.is_empty() {
            page.paragraph(Tone::Warning, "", &format!("Not the same test: {}.", self.test.join(", ")));
        }
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
            parts.push(format!("too few {} for {}", first.readings.kind(), count(few)));
        }
        if !untold.is_empty() {
            parts.push(format!("{} of whole runs, of which several a side are needed", count(untold)));
        }
        let text = parts.join("; ");
        let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
        format!("{}{rest}.", first.to_uppercase())
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
             losses are counts) by chance, corrected for the number of figures (Holm; the figures of the question have four fifths of the error); the intervals hold together with 95 %. \
             Intervals of a run that are alike count less.",
        );
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
            "changes": self.changes.iter().map(|[name, before, after]| {
                json!({ "setting": name, "before": before, "after": after })
            }).collect::<Vec<_>>(),
        })
    }
}

fn cells(row: &ComparedFigure) -> Vec<String> {
    let value = |value: f64| row.readings.figure.show(value);
    let [before, after] = row.readings.value.map(|known| known.map(value));
    let difference = row.difference();
    let interval = row.contrast.and_then(|c| {
        let (low, high) = c.interval?;
        let base = c.base.abs();
        let end =
            |at: f64| if base == 0.0 { row.readings.figure.show_difference(at) } else { percent(at / base) };
        Some(format!("{} to {}", end(low), end(high)))
    });
    let p = row.p.map(|p| if p < 1e-4 { "<0.0001".to_owned() } else { format!("{p:.4}") });
    let told = [before, after, difference, interval, p].map(|cell| or_dash(cell, |cell| cell));
    [row.name()].into_iter().chain(told).chain([row.readings(), row.verdict.to_string()]).collect()
}

#[cfg(test)]
mod tests;
