//! Figures over time as lines of braille dots, with a scale of values on the left and one of time
//! below.

use super::draw::Sheet;
use super::figures::{self, Figure, FigureRole, show};
use super::grid::{CellStyle, Color, wide};
use super::pages;
use super::track::Track;
use metrics::{Clamped, real};
use model::Unit;
use report::round_up;

/// Lines of the least plot: the names, two lines of dots, the times.
pub(super) const LEAST: u16 = 4;
/// Lines of a plot that is easy to read; one gets no more than three times as many.
pub(super) const GOOD: u16 = 7;
/// Columns from which on two plots fit beside each other.
pub(super) const TWO: u16 = 72;
/// Columns of the values left of a plot.
const GUTTER: u16 = 12;
/// Dots of a cell, across and down.
const DOTS: (u16, u16) = (2, 4);
/// Colours of lines in one plot, after that of the figures' role.
const MORE: [Color; 4] = [Color::Yellow, Color::Magenta, Color::Blue, Color::Cyan];
/// Dots of a line in turn, and gaps between them, after the first line of a plot: lines differ
/// without colours, too.
const DASHES: [(u32, u32); 3] = [(4, 3), (1, 2), (2, 5)];

/// Figures of one unit, most important first.
pub(super) struct Plot<'a> {
    track: &'a Track,
    lines: Vec<Figure>,
}

/// Plots of `track`: its main figures, latencies, then errors and losses; the figures of a unit
/// together.
pub(super) fn of(track: &Track, serving: bool) -> Vec<Plot<'_>> {
    let mut all: Vec<Plot<'_>> = Vec::new();

    let mut figures = figures::of(&track.point.phase, serving);
    figures.sort_by_key(|figure| figure.role);
    for figure in figures {
        let fits = |plot: &&mut Plot<'_>| {
            plot.unit() == figure.unit && plot.lines.iter().all(|l| l.role == figure.role)
        };
        match all.iter_mut().find(fits) {
            Some(plot) => plot.lines.push(figure),
            None => all.push(Plot { track, lines: vec![figure] }),
        }
    }
    all
}

impl<'a> Plot<'a> {
    /// The main plot of `track` with at most `lines` lines.
    pub(super) fn first(track: &'a Track, lines: usize) -> Option<Plot<'a>> {
        let plot = of(track, false).into_iter().next()?;
        Some(Plot { lines: plot.lines.into_iter().take(lines).collect(), ..plot })
    }
}

impl Plot<'_> {
    pub(super) fn unit(&self) -> Unit {
        self.lines.first().map_or(Unit::Count, |line| line.unit)
    }

    pub(super) fn role(&self) -> FigureRole {
        self.lines.first().map_or(FigureRole::Beside, |line| line.role)
    }

    /// True if the plot shows more than its figures' names: errors and losses that never occurred
    /// are left out.
    pub(super) fn has_news(&self) -> bool {
        let values = || self.lines.iter().flat_map(|line| self.track.values(*line));
        let is_bad = self.lines.iter().all(|line| line.role == FigureRole::Bad);
        if is_bad { values().any(|value| value > 0.0) } else { values().next().is_some() }
    }

    /// Draws it over the whole width of `sheet`, in `height` lines from `y` on.
    pub(super) fn draw(&self, sheet: &mut Sheet<'_>, y: u16, height: u16) {
        let height = height.min(sheet.area.height.saturating_sub(y));
        let Some(rows) = height.checked_sub(2).filter(|rows| *rows >= LEAST - 2) else { return };
        let Some(columns) = sheet.area.width.checked_sub(GUTTER + 1).filter(|columns| *columns >= 8) else {
            return;
        };
        let span = self.span();
        let most = self.lines.iter().flat_map(|line| self.track.values(*line)).fold(0.0, f64::max);
        let field =
            Field { x: GUTTER + 1, y: y + 1, columns, rows, from: span.0, to: span.1, top: above(most) };
        self.names(sheet, y);
        field.values(self.unit(), sheet);
        field.times(sheet);
        for (n, line) in self.lines.iter().enumerate().rev() {
            let dashes = n.checked_sub(1).and_then(|n| DASHES.iter().cycle().nth(n)).copied();
            field.line(self.track, *line, self.style(n, sheet), dashes, sheet);
        }
    }

    fn style(&self, n: usize, sheet: &Sheet<'_>) -> CellStyle {
        let first = sheet.of_role(self.lines[n].role);
        let others = MORE.iter().filter(|color| **color != first.color);
        match n.checked_sub(1).and_then(|n| others.copied().cycle().nth(n)) {
            Some(color) if sheet.look.color => CellStyle { color, ..first },
            _ => first,
        }
    }

    /// The names of the lines, each in its colour, with the latest value; short where the width does
    /// not allow that: no line is without its name.
    fn names(&self, sheet: &mut Sheet<'_>, y: u16) {
        let last = |line: &Figure| self.track.readings.back().and_then(|last| line.of(last));
        let value = |line: &Figure| last(line).map_or("-".to_owned(), |value| show(line.unit, value));
        let forms: [&dyn Fn(&Figure) -> String; 3] =
            [&|line| format!("{} {}", line.name(), value(line)), &|line| line.name(), &|line| {
                line.name().rsplit(' ').next().unwrap_or_default().to_owned()
            }];
        let room = sheet.area.width.saturating_sub(GUTTER + 1);
        let long = |names: &[String]| {
            names.iter().fold(0, |sum: u16, name| sum.saturating_add(wide(name)).saturating_add(3))
        };
        let all = forms.map(|form| self.lines.iter().map(form).collect::<Vec<String>>());
        let fitting = all.iter().find(|names| long(names) <= room + 3).or(all.last());
        let mut x = GUTTER + 1;
        for (n, name) in fitting.into_iter().flatten().enumerate() {
            sheet.text(x, y, wide(name), name, self.style(n, sheet));
            x = x.saturating_add(wide(name) + 3);
        }
    }

    /// The time from the left to the right edge, ns: the whole run where all of it is kept, else
    /// the intervals that are.
    fn span(&self) -> (u64, u64) {
        let intervals = || self.track.readings.iter().map(|reading| &reading.interval);
        let from = intervals().next().map_or(0, |first| first.start_ns);
        let to = intervals().next_back().map_or(1, |last| last.end_ns);
        match self.track.planned_ns().filter(|_| self.track.forgotten == 0) {
            Some(planned) => (0, to.max(planned)),
            None => (from, to.max(from + 1)),
        }
    }
}

/// A round value that is not below `most`.
fn above(most: f64) -> f64 {
    round_up(most, &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0])
}

/// Area of lines: cells of a sheet, and the values at its edges.
struct Field {
    x: u16,
    y: u16,
    columns: u16,
    rows: u16,
    from: u64,
    to: u64,
    top: f64,
}

impl Field {
    /// A value of the axis; 0 in the unit of the largest.
    fn value(&self, unit: Unit, value: f64) -> String {
        match show(unit, self.top).rsplit_once(' ') {
            Some((_, shown)) if value == 0.0 && unit == Unit::Ns => format!("0 {shown}"),
            _ => show(unit, value),
        }
    }

    /// The largest value, the half of it, and 0, with the axis.
    fn values(&self, unit: Unit, sheet: &mut Sheet<'_>) {
        let last = self.rows - 1;
        let quiet = sheet.quiet();
        let told = |row: u16| match row {
            0 => Some(self.top),
            row if row == last => Some(0.0),
            row if row == last / 2 && last.is_multiple_of(2) && last >= 4 => Some(self.top / 2.0),
            _ => None,
        };
        for row in 0..self.rows {
            let text = told(row).map(|value| self.value(unit, value)).unwrap_or_default();
            sheet.right(0, self.y + row, GUTTER - 1, &text, quiet);
            let axis = match (sheet.look.blocks, text.is_empty()) {
                (true, true) => "│",
                (true, false) => "┤",
                (false, true) => "|",
                (false, false) => "+",
            };
            sheet.text(GUTTER, self.y + row, 1, axis, quiet);
        }
    }

    /// The times at the left and the right edge, and between them where there is room.
    fn times(&self, sheet: &mut Sheet<'_>) {
        let y = self.y + self.rows;
        let quiet = sheet.quiet();
        let (corner, line) = if sheet.look.blocks { ("└", "─") } else { ("+", "-") };
        sheet.text(GUTTER, y, 1, corner, quiet);
        sheet.text(self.x, y, self.columns, &line.repeat(usize::from(self.columns)), quiet);
        let parts = (self.columns / 30).clamp(1, 4);
        for part in 0..=parts {
            let at = self.from + (self.to - self.from) / u64::from(parts) * u64::from(part);
            let text = pages::time(at);
            let x = u32::from(self.columns) * u32::from(part) / u32::from(parts);
            let x = u16::clamped(x).min(self.columns.saturating_sub(wide(&text) + 1));
            sheet.text(self.x + x, y, self.columns - x, &format!("{text} "), quiet);
        }
    }

    /// A step for each interval, as high as its value, joined to the one before; of a broken line
    /// some dots are left out.
    fn line(
        &self,
        track: &Track,
        figure: Figure,
        style: CellStyle,
        dashes: Option<(u32, u32)>,
        sheet: &mut Sheet<'_>,
    ) {
        let is_drawn = |x: u32| dashes.is_none_or(|(dots, gap)| x % (dots + gap) < dots);
        let (across, down) = (u32::from(self.columns * DOTS.0), u32::from(self.rows * DOTS.1));
        let column = |ns: u64| {
            let share = real(ns.saturating_sub(self.from)) / real(self.to - self.from);
            u32::clamped((share * f64::from(across)).round()).min(across - 1)
        };
        let mut before = None;
        for reading in &track.readings {
            let Some(value) = figure.of(reading) else {
                before = None;
                continue;
            };
            let high = (value.max(0.0) / self.top).min(1.0) * f64::from(down - 1);
            let row = down - 1 - u32::clamped(high.round());
            let (first, last) = (column(reading.interval.start_ns), column(reading.interval.end_ns));
            let (low, up) = before.map_or((row, row), |other: u32| (row.min(other), row.max(other)));
            (low..=up).for_each(|y| self.dot(first, y, style, sheet));
            // Each step has a dot, however short it is.
            (first..=last)
                .filter(|x| is_drawn(*x) || *x == last)
                .for_each(|x| self.dot(x, row, style, sheet));
            before = Some(row);
        }
    }

    fn dot(&self, x: u32, y: u32, style: CellStyle, sheet: &mut Sheet<'_>) {
        let (across, down) = (u32::from(DOTS.0), u32::from(DOTS.1));
        // Unicode counts the dots of a cell down the left column, then down the right one; the last
        // row was added later.
        let bit = match (x % across, y % down) {
            (x, 3) => 0x40 << x,
            (x, y) => 1 << (x * 3 + y),
        };
        sheet.dot(self.x + u16::clamped(x / across), self.y + u16::clamped(y / down), bit, style);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_of_a_plot_is_round_and_near() {
        let tops = [1.0, 1.01, 9.3, 100e6, 101e6, 399e9, 401e9, 8.1e3].map(above);
        assert_eq!(tops, [1.0, 1.2, 10.0, 100e6, 120e6, 400e9, 500e9, 10e3]);
        assert_eq!((above(0.0), above(f64::NAN)), (1.0, 1.0));
    }
}
