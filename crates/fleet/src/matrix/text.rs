//! The matrix on a terminal.

use super::Matrix;
use super::view::{Picture, View, letter};
use crate::result::Reason;
use report::{Page, Table, Tone};
use std::io::{self, Write};

/// Most rows whose cells are told in figures; of more each cell is one sign.
const MOST_FIGURES: usize = 12;
/// From the best to the worst.
const SIGNS: [char; 5] = ['·', '░', '▒', '▓', '█'];
const SIGNS_WORDS: &str = "best · ░ ▒ ▓ █ worst";
/// Most verdicts that are told.
const MOST_VERDICTS: usize = 20;

/// Writes verdicts and pictures of `matrix`, with colours if wanted.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_text(matrix: &Matrix, color: bool, columns: Option<u16>, out: &mut dyn Write) -> io::Result<()> {
    let page = &mut Page::new(out, color).within(columns);
    let view = View::of(matrix);
    let (measured, missing) = matrix.counts();
    page.line(Tone::Heading, &summary(matrix))?;
    for verdict in matrix.verdicts.iter().take(MOST_VERDICTS) {
        page.paragraph(Tone::Warning, "  ", &format!("{}.", verdict.words()))?;
    }
    if matrix.verdicts.len() > MOST_VERDICTS {
        page.line(Tone::Warning, &format!("  and {} more.", matrix.verdicts.len() - MOST_VERDICTS))?;
    }
    if matrix.verdicts.is_empty() && measured > 0 {
        page.line(Tone::Plain, "  No host, direction, pair or label is worse than the rest.")?;
    }
    for verdict in matrix.changes.iter().take(MOST_VERDICTS) {
        page.paragraph(Tone::Warning, "  Since then: ", &format!("{}.", verdict.words()))?;
    }
    for picture in &view.pictures {
        page.gap()?;
        page.line(
            Tone::Heading,
            &format!("{}, {} (rows send, columns receive)", matrix.test_words(picture.test), picture.title()),
        )?;
        match view.lines.len() <= MOST_FIGURES {
            true => page.table(&figures(&view, picture))?,
            false => signs(&view, picture, page)?,
        }
    }
    if view.too_many {
        let text =
            "There are too many hosts for a picture, and no label gathers them: give them site or rack.";
        page.paragraph(Tone::Plain, "", text)?;
    }
    if !missing.is_empty() {
        page.gap()?;
        let told = missing.iter().map(|(reason, n)| format!("{} {n} {}", letter(*reason), reason.words()));
        page.paragraph(Tone::Plain, "Without an outcome: ", &told.collect::<Vec<_>>().join(", "))?;
    }
    Ok(())
}

/// `90 of 90 tests of 10 hosts have an outcome, 2 verdicts`
pub(super) fn summary(matrix: &Matrix) -> String {
    let (measured, missing) = matrix.counts();
    let by_design = missing.get(&Reason::UnreachableByDesign).copied().unwrap_or(0);
    let all = measured + missing.values().sum::<usize>() - by_design;
    let hosts = matrix.inventory.hosts.len();
    let plural = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
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
    text + &match matrix.verdicts.len() {
        0 => String::new(),
        n => format!(", {}", plural(n, "verdict")),
    }
}

fn figures(view: &View, picture: &Picture) -> Table {
    let names = view.lines.iter().map(|line| line.name.clone());
    let mut table = Table::under(std::iter::once(String::new()).chain(names).collect());
    for (line, row) in view.lines.iter().zip(&picture.spots) {
        let cells = row.iter().map(|spot| match spot {
            None => String::new(),
            Some(spot) => match (spot.value, spot.reason) {
                (Some(value), _) => {
                    let mark = if spot.is_named { "!" } else { "" };
                    format!("{}{mark}", picture.figure.unit().show(value))
                }
                (None, Some(reason)) => letter(reason).to_string(),
                (None, None) => "-".to_owned(),
            },
        });
        table.row(Tone::Plain, std::iter::once(line.name.clone()).chain(cells).collect());
    }
    table
}

fn signs(view: &View, picture: &Picture, page: &mut Page<'_>) -> io::Result<()> {
    let wide = view.lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0).min(24);
    for (line, row) in view.lines.iter().zip(&picture.spots) {
        let signs = row.iter().map(|spot| match spot {
            None => ' ',
            Some(spot) => match (spot.value, spot.reason) {
                (Some(_), _) if spot.is_named => '!',
                (Some(value), _) => sign(picture.place(value)),
                (None, Some(reason)) => letter(reason),
                (None, None) => '-',
            },
        });
        let name: String = line.name.chars().take(wide).collect();
        page.line(Tone::Plain, &format!("{name:wide$} {}", signs.collect::<String>()))?;
    }
    let (best, worst) = picture.ends();
    page.line(Tone::Plain, &format!("{:wide$} {SIGNS_WORDS}: {best} to {worst}; ! is named above", ""))
}

fn sign(place: f64) -> char {
    let at = [0.2, 0.4, 0.6, 0.8].iter().filter(|bound| place > **bound).count();
    SIGNS[at]
}
