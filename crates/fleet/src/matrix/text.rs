//! The matrix on a terminal.

use super::Matrix;
use super::view::{Picture, TOO_MANY, View};
use crate::result::{Counts, Reason};
use metrics::format_count;
use report::{Page, Table, Tone};
use std::io::{self, Write};

/// Most rows whose cells have figures; with more, each cell is one sign.
const MOST_FIGURES: usize = 12;
/// From the best to the worst.
const SIGNS: [char; 5] = ['·', '░', '▒', '▓', '█'];
const SIGNS_WORDS: &str = "best · ░ ▒ ▓ █ worst";
/// Most verdicts that are printed.
const MOST_VERDICTS: usize = 20;

/// Writes verdicts and pictures of `matrix`, with colours if wanted.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_text(matrix: &Matrix, color: bool, columns: Option<u16>, out: &mut dyn Write) -> io::Result<()> {
    let page = &mut Page::new(out, color).within(columns);
    let view = View::of(matrix);
    let Counts { measured, missing } = matrix.counts();
    page.line(Tone::Heading, &summary(matrix));
    for verdict in matrix.verdicts.iter().take(MOST_VERDICTS) {
        page.paragraph(Tone::Warning, "  ", &format!("{}.", verdict.words()));
    }
    if matrix.verdicts.len() > MOST_VERDICTS {
        page.line(Tone::Warning, &format!("  and {} more.", matrix.verdicts.len() - MOST_VERDICTS));
    }
    if matrix.verdicts.is_empty() && measured > 0 {
        page.line(Tone::Plain, "  No host, direction, pair or label is worse than the rest.");
    }
    for verdict in matrix.changes.iter().take(MOST_VERDICTS) {
        page.paragraph(Tone::Warning, "  Since then: ", &format!("{}.", verdict.words()));
    }
    for picture in &view.pictures {
        page.gap();
        let (test, title) = (matrix.test_words(picture.test), picture.title());
        page.line(Tone::Heading, &format!("{test}, {title} (rows send, columns receive)"));
        match view.lines.len() <= MOST_FIGURES {
            true => page.table(&figures(&view, picture)),
            false => signs(&view, picture, page),
        }
    }
    if view.too_many {
        page.paragraph(Tone::Plain, "", TOO_MANY);
    }
    if !missing.is_empty() {
        page.gap();
        let counted = missing.iter().map(|(reason, n)| format!("{} {n} {reason}", reason.letter()));
        page.paragraph(Tone::Plain, "Without an outcome: ", &counted.collect::<Vec<_>>().join(", "));
    }
    page.end()
}

/// `90 of 90 tests of 10 hosts have an outcome, 2 verdicts`
pub(super) fn summary(matrix: &Matrix) -> String {
    let Counts { measured, missing } = matrix.counts();
    let by_design = missing.get(&Reason::UnreachableByDesign).copied().unwrap_or(0);
    let all = measured + missing.values().sum::<usize>() - by_design;
    let hosts = matrix.inventory.hosts.len();
    let plural = |n: usize, word: &str| format_count(n as u64, word);
    let mut text = format!("{measured} of {} of {} measured", plural(all, "test"), plural(hosts, "host"));
    if by_design > 0 {
        text += &format!(", {by_design} unreachable by design");
    }
    if let Some(round) = &matrix.round {
        text = format!("Round {} of {}: {text}", round.number, round.rounds.count);
        if round.missed > 0 {
            text += &format!(", {} missed before it", plural(round.missed as usize, "round"));
        }
    }
    if !matrix.verdicts.is_empty() {
        text += &format!(", {}", plural(matrix.verdicts.len(), "verdict"));
    }
    text
}

fn figures(view: &View, picture: &Picture) -> Table {
    let names = view.lines.iter().map(|line| line.name.clone());
    let mut table = Table::under(std::iter::once(String::new()).chain(names).collect());
    for (line, row) in view.lines.iter().zip(&picture.spots) {
        let cells = row.iter().map(|spot| {
            let Some(spot) = spot else { return String::new() };
            let mark = if spot.is_named { "!" } else { "" };
            spot.text(|value| picture.figure.unit().show(value) + mark)
        });
        table.row(Tone::Plain, std::iter::once(line.name.clone()).chain(cells).collect());
    }
    table
}

fn signs(view: &View, picture: &Picture, page: &mut Page<'_>) {
    let wide = view.lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0).min(24);
    for (line, row) in view.lines.iter().zip(&picture.spots) {
        let signs = row.iter().map(|spot| {
            let Some(spot) = spot else { return " ".to_owned() };
            let sign = |value| if spot.is_named { '!' } else { sign(picture.place(value)) };
            spot.text(|value| sign(value).to_string())
        });
        let name: String = line.name.chars().take(wide).collect();
        page.line(Tone::Plain, &format!("{name:wide$} {}", signs.collect::<String>()));
    }
    let (best, worst) = picture.ends();
    page.line(Tone::Plain, &format!("{:wide$} {SIGNS_WORDS}: {best} to {worst}; ! is named above", ""));
}

fn sign(place: f64) -> char {
    let at = [0.2, 0.4, 0.6, 0.8].iter().filter(|bound| place > **bound).count();
    SIGNS[at]
}
