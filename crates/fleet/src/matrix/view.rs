//! Cells in rows and columns, for people: hosts sorted by their labels, or a row for all hosts of a
//! label where there are many.

use super::{Cell, Matrix};
use crate::inventory::Host;
use crate::result::Reason;
use crate::verdict::{Bounds, LABELS, MatrixFigure, Scale, Side, Subject, Verdict, figure, median, title};
use metrics::{Clamped, real};
use model::Figure;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Most rows of a matrix.
const MOST_LINES: usize = 120;
/// Text in place of pictures where hosts are more than rows, and no label gathers them.
pub(super) const TOO_MANY: &str =
    "Too many hosts for a picture, and no label gathers them: give them site or rack.";

/// A row, and a column: a host, or all hosts of a label.
pub(super) struct Heading {
    pub(super) name: String,
    /// Its labels, for people.
    pub(super) labels: String,
    /// True if the line before belongs to another site, or to another value of the first label.
    pub(super) first: bool,
}

/// Content of a picture's cell.
#[derive(Clone, Copy)]
pub(super) enum CellContent {
    Value(f64),
    Reason(Reason),
    Nothing,
}

/// One cell of a picture.
#[derive(Clone)]
pub(super) struct Spot {
    pub(super) shown: CellContent,
    /// Index of the cell that it shows, where it is one.
    pub(super) cell: Option<usize>,
    /// True if an outcome may mislead, or must not be used.
    pub(super) has_cautions: bool,
    pub(super) is_named: bool,
}

impl Spot {
    /// Its text; a value as `of_value` has it.
    pub(super) fn text(&self, of_value: impl Fn(f64) -> String) -> String {
        match self.shown {
            CellContent::Value(value) => of_value(value),
            CellContent::Reason(reason) => reason.letter().to_string(),
            CellContent::Nothing => "-".to_owned(),
        }
    }
}

/// One figure of one test.
pub(super) struct Picture {
    pub(super) test: u16,
    pub(super) key: &'static str,
    pub(super) figure: MatrixFigure,
    /// By row, then by column; nothing where no pair is planned.
    pub(super) spots: Vec<Vec<Option<Spot>>>,
    /// Rows whose hosts a verdict on the figure names as senders, and columns as receivers.
    pub(super) named: [Vec<bool>; 2],
    /// The unit of all cells.
    pub(super) scale: Scale,
    /// The values at the two ends of the scale of colours.
    range: (f64, f64),
    /// The best and the worst value.
    ends: (f64, f64),
    /// The sentence that stands in place of cells that are all the same.
    pub(super) sentence: Option<String>,
}

pub(super) struct View {
    pub(super) lines: Vec<Heading>,
    pub(super) pictures: Vec<Picture>,
    /// Sentences about the figures that are the same everywhere.
    pub(super) uniform: Vec<String>,
    /// The label by which hosts are gathered.
    pub(super) gathered: Option<&'static str>,
    /// True if there are too many hosts for rows, and no label gathers them.
    pub(super) too_many: bool,
}

impl View {
    pub(super) fn of(matrix: &Matrix) -> View {
        let hosts = &matrix.inventory.hosts;
        let taking_part: BTreeSet<&str> =
            matrix.cells.iter().flat_map(|cell| [cell.from.as_str(), cell.to.as_str()]).collect();
        let mut order: Vec<&Host> =
            hosts.iter().filter(|host| taking_part.contains(host.name.as_str())).collect();
        order.sort_by_cached_key(|host| {
            (LABELS.map(|label| natural(host.label(label).unwrap_or(""))), natural(&host.name))
        });
        let gathered = (order.len() > MOST_LINES).then(|| gathering(&order)).flatten();
        let too_many = order.len() > MOST_LINES && gathered.is_none();
        let lead = LABELS
            .into_iter()
            .find(|label| order.iter().any(|host| host.label(label) != order[0].label(label)));
        let mut lines: Vec<Heading> = Vec::new();
        let mut line_of = HashMap::new();
        for (at, host) in order.iter().enumerate().filter(|_| !too_many) {
            let name = gathered.map_or(host.name.as_str(), |label| host.label(label).unwrap_or("-"));
            let known = gathered.and_then(|_| lines.iter().position(|line| line.name == name));
            line_of.insert(host.name.as_str(), known.unwrap_or(lines.len()));
            if known.is_some() {
                continue;
            }
            let (mut labels, mut first) = (Vec::new(), false);
            if gathered.is_none() {
                labels.extend(
                    LABELS.iter().filter_map(|label| Some(format!("{label} {}", host.label(label)?))),
                );
                first = at > 0 && lead.is_some_and(|label| order[at - 1].label(label) != host.label(label));
            }
            lines.push(Heading { name: name.to_owned(), labels: labels.join(", "), first });
        }
        let mut figures: Vec<(u16, &'static str)> = matrix.figures().collect();
        if figures.is_empty() && !matrix.tests.is_empty() {
            // Nothing is measured yet: a picture of the reasons.
            figures.push((0, "rtt.p50"));
        }
        let pictures = figures.into_iter().filter(|_| !too_many);
        let pictures = pictures.filter_map(|(test, key)| {
            let figure = figure(key)?;
            Some(picture(matrix, (test, key, figure), &line_of, lines.len()))
        });
        let (mut pictures, uniform) = split(matrix, pictures.collect());
        // The gravest verdict is the first line, and its figure the first picture.
        let is_of = |picture: &Picture, verdict: &Verdict| {
            verdict.failures.is_none() && verdict.is_about(picture.test, picture.key)
        };
        pictures.sort_by_key(|picture| {
            let at = matrix.verdicts.iter().position(|verdict| is_of(picture, verdict));
            at.unwrap_or(usize::MAX)
        });
        View { lines, pictures, uniform, gathered, too_many }
    }
}

fn picture(
    matrix: &Matrix,
    (test, key, figure): (u16, &'static str, MatrixFigure),
    line_of: &HashMap<&str, usize>,
    lines: usize,
) -> Picture {
    let mut gathered = BTreeMap::<(usize, usize), Vec<usize>>::new();
    for (at, cell) in matrix.cells.iter().enumerate().filter(|(_, cell)| cell.test == test) {
        if let (Some(row), Some(column)) = (line_of.get(cell.from.as_str()), line_of.get(cell.to.as_str())) {
            gathered.entry((*row, *column)).or_default().push(at);
        }
    }
    let mut heads = [vec![false; lines], vec![false; lines]];
    let verdicts = || matrix.verdicts.iter().filter(|verdict| verdict.is_about(test, key));
    for verdict in verdicts() {
        for host in &matrix.inventory.hosts {
            let Some(line) = line_of.get(host.name.as_str()) else { continue };
            for (heads, side) in heads.iter_mut().zip([Side::Out, Side::In]) {
                heads[*line] |= verdict.subject.has(host, side);
            }
        }
    }
    let named = verdicts().filter_map(|verdict| match &verdict.subject {
        Subject::Pair { from, to } => Some((from.as_str(), to.as_str())),
        _ => None,
    });
    let named: BTreeSet<(&str, &str)> = named.collect();
    let (mut spots, mut values) = (vec![vec![None; lines]; lines], Vec::new());
    for ((row, column), cells) in gathered {
        let of = |at: &usize| &matrix.cells[*at];
        let value = median(cells.iter().filter_map(|at| of(at).value(key)).collect());
        values.extend(value);
        let reason = || cells.iter().find_map(|at| of(at).reason());
        let is_named = |cell: &Cell| named.contains(&(cell.from.as_str(), cell.to.as_str()));
        spots[row][column] = Some(Spot {
            shown: value
                .map(CellContent::Value)
                .or_else(|| reason().map(CellContent::Reason))
                .unwrap_or(CellContent::Nothing),
            cell: if let [only] = cells[..] { Some(only) } else { None },
            has_cautions: cells.iter().any(|at| of(at).has_cautions()),
            is_named: cells.iter().any(|at| is_named(of(at))),
        });
    }
    values.sort_by(f64::total_cmp);
    let at =
        |share: f64| values.get(usize::clamped(real(values.len().saturating_sub(1)) * share + 0.5)).copied();
    let [least, low, middle, high, most] = [0.0, 0.02, 0.5, 0.98, 1.0].map(|share| at(share).unwrap_or(0.0));
    let scale = Scale::of(figure.unit(), middle);
    let is_worse = verdicts().any(|verdict| verdict.failures.is_none());
    let is_same = values.len() > 1 && scale.show(least) == scale.show(most) && !is_worse;
    let sentence = is_same.then(|| sentence(key, figure, middle, values.len()));
    Picture {
        test,
        key,
        figure,
        spots,
        named: heads,
        scale,
        range: (low, high),
        ends: (least, most),
        sentence,
    }
}

/// The sentence for a figure that has one value everywhere.
fn sentence(key: &str, figure: MatrixFigure, value: f64, pairs: usize) -> String {
    match figure {
        MatrixFigure::Of(Figure::MessagesLost) if value == 0.0 => format!("no message lost in {pairs} pairs"),
        MatrixFigure::Of(Figure::Loss(_)) if value == 0.0 => format!("no datagram lost in {pairs} pairs"),
        _ => format!("{} {} in all {pairs} pairs", title(key), figure.show(value)),
    }
}

/// The pictures that have something to show, and the sentences of the others. If nothing of a
/// test differs and some pair has no value, one picture shows the reasons.
fn split(matrix: &Matrix, all: Vec<Picture>) -> (Vec<Picture>, Vec<String>) {
    let has_reasons = |picture: &Picture| {
        let mut spots = picture.spots.iter().flatten().flatten();
        spots.any(|spot| matches!(spot.shown, CellContent::Reason(_)))
    };
    let mut drawn: BTreeSet<u16> =
        all.iter().filter(|picture| picture.sentence.is_none()).map(|picture| picture.test).collect();
    let (mut pictures, mut sentences) = (Vec::new(), Vec::new());
    for mut picture in all {
        let is_needed = has_reasons(&picture) && drawn.insert(picture.test);
        match picture.sentence.take().filter(|_| !is_needed) {
            Some(sentence) => sentences.push(format!("{}: {sentence}", matrix.test_words(picture.test))),
            None => pictures.push(picture),
        }
    }
    (pictures, sentences)
}

impl Picture {
    /// Place of a value between the best, 0, and the worst, 1. Times and rates count by their
    /// ratios.
    pub(super) fn place(&self, value: f64) -> f64 {
        let scale = |value| Bounds::of(self.figure).scale(value);
        let (low, high) = (scale(self.range.0), scale(self.range.1));
        // Differences of less than a hundredth are no contrast.
        let wide = (high - low).max(0.01);
        let worse = if self.figure.more_is_better() { high - scale(value) } else { scale(value) - low };
        (worse / wide).clamp(0.0, 1.0)
    }

    /// The scale of the colours: times and rates count by their ratios.
    pub(super) fn scale_words(&self) -> &'static str {
        if Bounds::of(self.figure).additive { "linear scale" } else { "logarithmic scale" }
    }

    /// Its name and the unit of its cells.
    pub(super) fn title(&self) -> String {
        let unit = if self.figure == MatrixFigure::Responsiveness { "RPM" } else { self.scale.unit };
        format!("{} ({unit})", title(self.key))
    }

    /// The best and the worst value, for people.
    pub(super) fn ends(&self) -> (String, String) {
        let show = |value| self.figure.show(value);
        let (low, high) = (show(self.ends.0), show(self.ends.1));
        if self.figure.more_is_better() { (high, low) } else { (low, high) }
    }
}

/// The label with the most values that still fit.
fn gathering(hosts: &[&Host]) -> Option<&'static str> {
    let values =
        |label: &str| hosts.iter().filter_map(|host| host.label(label)).collect::<BTreeSet<_>>().len();
    let counts = LABELS.into_iter().map(|label| (values(label), label));
    counts.filter(|(n, _)| (2..=MOST_LINES).contains(n)).max_by_key(|(n, _)| *n).map(|(_, label)| label)
}

/// Sorts `h2` before `h10`.
fn natural(text: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let words = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let digits = rest[words..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |n| words + n);
        parts.push((rest[..words].to_lowercase(), rest[words..digits].parse().unwrap_or(0)));
        rest = &rest[digits..];
    }
    parts
}
