//! The matrix on a terminal.

use super::Matrix;
use super::view::{Heading, Picture, TOO_MANY, View};
use crate::result::{Counts, Reason};
use crate::verdict::FEWEST;
use metrics::format_count;
use report::{Page, Table, Tone};
use std::io::{self, Write};

/// Most rows whose cells have figures; with more, each cell is one sign.
const MOST_FIGURES: usize = 12;
/// From the best to the worst.
const SIGNS: [char; 5] = ['·', '░', '▒', '▓', '█'];
const SIGNS_WORDS: &str = "best · ░ ▒ ▓ █ worst";
/// The headline of a result without a verdict.
pub(super) const NONE: &str = "No host, direction, pair or label is worse than the rest";
/// Most verdicts that are printed below the headline.
const MOST_VERDICTS: usize = 20;

/// Writes verdicts and pictures of `matrix`, with colours if wanted.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_text(matrix: &Matrix, color: bool, columns: Option<u16>, out: &mut dyn Write) -> io::Result<()> {
    let page = &mut Page::new(out, color).within(columns);
    let view = View::of(matrix);
    let missing = matrix.counts().missing;
    let tone = if matrix.verdicts.is_empty() { Tone::Heading } else { Tone::Warning };
    page.paragraph(tone, "", &headline(matrix));
    for verdict in matrix.verdicts.iter().skip(1).take(MOST_VERDICTS) {
        page.paragraph(Tone::Warning, "  ", &format!("{}.", verdict.words()));
    }
    if matrix.verdicts.len() > MOST_VERDICTS + 1 {
        page.line(Tone::Warning, &format!("  and {} more.", matrix.verdicts.len() - MOST_VERDICTS - 1));
    }
    for verdict in matrix.changes.iter().take(MOST_VERDICTS) {
        page.paragraph(Tone::Warning, "  Since then: ", &format!("{}.", verdict.words()));
    }
    if let Some(single) = matrix.single_readings() {
        page.paragraph(Tone::Plain, "", &single);
    }
    page.paragraph(Tone::Plain, "", &format!("{}.", summary(matrix)));
    for sentence in &view.uniform {
        page.paragraph(Tone::Plain, "", &format!("{sentence}."));
    }
    for picture in &view.pictures {
        page.gap();
        let (test, title) = (matrix.test_words(picture.test), picture.title());
        page.line(Tone::Heading, &format!("{test}, {title}: rows send, columns receive"));
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

/// The first line of a result: the gravest verdict in plain words, or that there is none.
pub(super) fn headline(matrix: &Matrix) -> String {
    let more = match matrix.verdicts.len() {
        0 | 1 => String::new(),
        n => format!(", and {}", format_count(n as u64 - 1, "more verdict")),
    };
    match (matrix.verdicts.first(), matrix.changes.first()) {
        (Some(verdict), _) => format!("{}{more}", verdict.words()),
        (None, Some(change)) => format!("Since the earlier run: {}", change.words()),
        (None, None) if matrix.counts().measured == 0 => "Nothing was measured".to_owned(),
        (None, None) if matrix.is_judged() => NONE.to_owned(),
        (None, None) => format!("No verdict: {FEWEST} hosts with a result are needed for one"),
    }
}

/// `90 of 90 tests of 10 hosts measured`
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
    text
}

/// The name of a line, with a mark where a verdict names it.
fn head(line: &Heading, is_named: bool) -> String {
    format!("{}{}", line.name, if is_named { "!" } else { "" })
}

fn figures(view: &View, picture: &Picture) -> Table {
    let [rows, columns] = &picture.named;
    let heads = view.lines.iter().zip(columns).map(|(line, is_named)| head(line, *is_named));
    let mut table = Table::under(std::iter::once(String::new()).chain(heads).collect());
    for ((line, is_named), row) in view.lines.iter().zip(rows).zip(&picture.spots) {
        let cells = row.iter().map(|spot| {
            let Some(spot) = spot else { return String::new() };
            let mark = if spot.is_named { "!" } else { "" };
            spot.text(|value| picture.scale.show(value) + mark)
        });
        let tone = if *is_named { Tone::Warning } else { Tone::Plain };
        table.row(tone, std::iter::once(head(line, *is_named)).chain(cells).collect());
    }
    table
}

fn signs(view: &View, picture: &Picture, page: &mut Page<'_>) {
    let wide = view.lines.iter().map(|line| line.name.chars().count() + 1).max().unwrap_or(0).min(24);
    for ((line, is_named), row) in view.lines.iter().zip(&picture.named[0]).zip(&picture.spots) {
        let signs = row.iter().map(|spot| {
            let Some(spot) = spot else { return " ".to_owned() };
            let sign = |value| if spot.is_named { '!' } else { sign(picture.place(value)) };
            spot.text(|value| sign(value).to_string())
        });
        let mark = if *is_named { "!" } else { "" };
        let name: String = line.name.chars().take(wide - mark.len()).collect::<String>() + mark;
        let tone = if *is_named { Tone::Warning } else { Tone::Plain };
        page.line(tone, &format!("{name:wide$} {}", signs.collect::<String>()));
    }
    let (best, worst) = picture.ends();
    let scale = picture.scale_words();
    let text = format!("{:wide$} {SIGNS_WORDS}: {best} to {worst}, {scale}; ! is named above", "");
    page.line(Tone::Plain, &text);
}

fn sign(place: f64) -> char {
    let at = [0.2, 0.4, 0.6, 0.8].iter().filter(|bound| place > **bound).count();
    SIGNS[at]
}
