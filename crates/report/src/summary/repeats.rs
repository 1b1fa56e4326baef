//! The same measurement again and again: what its figures are on average, and how well that is known.

use crate::text::{Page, Table, Tone};
use crate::words;
use metrics::Spread;
use model::{Figure, Outcome, Point, Status};
use std::io;

/// Whether all phases are repetitions of one setting.
pub(super) fn only(outcome: &Outcome) -> bool {
    let points = &outcome.points;
    points.iter().any(|point| point.repeat > 1) && points.iter().all(|point| point.label.is_empty())
}

/// A figure over the repetitions that measured something.
fn over(points: &[Point], figure: Figure) -> Option<Spread> {
    let measured = points.iter().filter(|point| point.status != Status::Failed);
    Spread::of(&measured.filter_map(|point| figure.of(point)).collect::<Vec<f64>>())
}

pub(super) fn write(outcome: &Outcome, page: &mut Page<'_>) -> io::Result<()> {
    let mut table = Table::new("Figure|runs|mean|± 95 %|sd|min|max");
    for figure in Figure::compared() {
        let Some(spread) = over(&outcome.points, figure) else { continue };
        let show = |value: f64| figure.unit().show(value);
        let known = |value: f64| if spread.n > 1 { show(value) } else { "-".to_owned() };
        let cells = [
            figure.to_string(),
            spread.n.to_string(),
            show(spread.mean),
            known(spread.ci95),
            known(spread.sd),
            show(spread.min),
            show(spread.max),
        ];
        table.row(Tone::Plain, cells.to_vec());
    }
    page.line(Tone::Heading, "Over the repetitions, each of which is one reading")?;
    page.table(&table)
}

/// What they are about, in a few words.
pub(super) fn found(outcome: &Outcome) -> Vec<String> {
    let kind = outcome.points.first().map(|point| point.phase.kind).unwrap_or_default();
    let about = Figure::leading(kind).iter().filter_map(|figure| {
        let spread = over(&outcome.points, *figure)?;
        let show = |value: f64| figure.unit().show(value);
        // One reading tells nothing of how well it is known.
        let known = if spread.n > 1 { format!(" ± {}", show(spread.ci95)) } else { String::new() };
        Some(format!("{figure} {}{known} in {}", show(spread.mean), words::count(spread.n, "run")))
    });
    about.collect()
}
