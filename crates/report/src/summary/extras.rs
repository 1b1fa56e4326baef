//! Results of a protocol's own, a row each.

use crate::text::{Page, Table, Tone};
use crate::words::count;
use metrics::Clamped;
use model::{Figure, Point, Reading, Shown};

/// Results that are shown; the JSON has all.
const MOST_SHOWN: usize = 50;

/// True if there are any.
pub(super) fn any(point: &Point) -> bool {
    point.shown().next().is_some()
}

/// True if all of them are of round trips: then there were no datagrams one way.
pub(super) fn only_trips(point: &Point) -> bool {
    let trips = |figure: &Reading| matches!(figure.figure(), Some(Figure::RoundTrip(_)));
    any(point) && point.shown().flat_map(|shown| &shown.figures).all(trips)
}

/// The result in a few words: the range of each figure.
pub(super) fn result_words(point: &Point) -> Vec<String> {
    let mut words = vec![count(u64::clamped(point.shown().count()), "test")];
    let mut ranges: Vec<(&Reading, &Reading)> = Vec::new();
    for figure in point.shown().flat_map(|shown| &shown.figures) {
        match ranges.iter_mut().find(|(least, _)| least.key == figure.key) {
            Some((least, _)) if figure.value < least.value => *least = figure,
            Some((_, most)) if figure.value > most.value => *most = figure,
            Some(_) => {}
            None => ranges.push((figure, figure)),
        }
    }
    words.extend(ranges.iter().map(|(least, most)| match (&most.label, least.show(), most.show()) {
        (label, least, most) if least == most => format!("{label} {most}"),
        (label, least, most) => format!("{label} {least} to {most}"),
    }));
    words
}

/// All of them, a table for each kind.
pub(super) fn write(point: &Point, page: &mut Page<'_>) {
    let shown: Vec<&Shown> = point.shown().take(MOST_SHOWN).collect();
    let mut titles: Vec<&String> = shown.iter().map(|shown| &shown.title).collect();
    titles.dedup();
    for title in titles {
        let readings = |shown: &'_ Shown| [&shown.settings[..], &shown.counts, &shown.figures].concat();
        let same: Vec<(&Shown, Vec<Reading>)> = shown
            .iter()
            .filter(|shown| shown.title == *title)
            .map(|shown| (*shown, readings(shown)))
            .collect();
        let mut columns: Vec<(&str, &str)> = Vec::new();
        for (_, row) in &same {
            for reading in row {
                if !columns.iter().any(|(key, _)| *key == reading.key) {
                    columns.push((&reading.key, &reading.label));
                }
            }
        }
        let header = std::iter::once(title.as_str()).chain(columns.iter().map(|(_, label)| *label));
        let mut table = Table::under(header.map(str::to_owned).collect());
        for (shown, row) in &same {
            let cell = |(key, _): &(&str, &str)| {
                let known = row.iter().find(|reading| reading.key == *key);
                known.map_or_else(|| "-".to_owned(), Reading::show)
            };
            let cells = std::iter::once(shown.peer.clone()).chain(columns.iter().map(cell));
            table.row(Tone::bad_if(shown.bad), cells.collect());
        }
        page.table(&table);
    }
    page.more(u64::clamped(point.shown().count().saturating_sub(MOST_SHOWN)), ", in the JSON");
}
