//! The grid of character cells that a screen of the live view consists of, and the picture of a
//! screen, for pages that cannot hold a terminal.
//!
//! A character of two columns fills two cells: the left one holds it, the right one holds nothing
//! and is never there alone. Overwriting one half of such a character blanks the other half, as
//! terminals do.

use metrics::Clamped;
use report::escape;
use std::io::{self, Write};
use unicode_width::UnicodeWidthChar;

/// A foreground colour of the terminal's palette; the value is its number there. The dark blue and
/// the dark magenta (4, 5) cannot be read on black: their bright forms stand in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Color {
    /// The terminal's own.
    #[default]
    Default = 0,
    Red = 1,
    Green = 2,
    Yellow = 3,
    Cyan = 6,
    Blue = 12,
    Magenta = 13,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CellStyle {
    pub color: Color,
    pub bold: bool,
    pub dim: bool,
}

impl CellStyle {
    #[must_use]
    pub fn bold(self) -> CellStyle {
        CellStyle { bold: true, ..self }
    }
}

/// Combining marks kept per character; text from elsewhere may have thousands on one.
const MARKS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// `None` in the right half of a character of two columns.
    pub symbol: Option<char>,
    marks: [Option<char>; MARKS],
    pub style: CellStyle,
}

impl Cell {
    const BLANK: Cell = Cell {
        symbol: Some(' '),
        marks: [None; MARKS],
        style: CellStyle { color: Color::Default, bold: false, dim: false },
    };

    /// The character, then its combining marks; nothing in the right half of a character of two
    /// columns.
    pub fn chars(&self) -> impl Iterator<Item = char> {
        self.symbol.into_iter().chain(self.marks.into_iter().flatten())
    }

    /// True if every terminal moves its cursor by exactly one column for it.
    pub fn is_single(&self) -> bool {
        self.marks[0].is_none() && self.symbol.is_some_and(|symbol| columns_of(symbol) == 1)
    }
}

/// Columns and lines of cells, all blank at first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grid {
    width: u16,
    height: u16,
    cells: Vec<Cell>,
}

impl Grid {
    pub fn new(width: u16, height: u16) -> Grid {
        Grid { width, height, cells: vec![Cell::BLANK; usize::from(width) * usize::from(height)] }
    }

    pub fn size(&self) -> (u16, u16) {
        (self.width, self.height)
    }

    pub(super) fn area(&self) -> Area {
        Area { x: 0, y: 0, width: self.width, height: self.height }
    }

    /// The cell in column `x` of line `y`.
    pub fn cell(&self, x: u16, y: u16) -> Option<&Cell> {
        self.cells.get(self.index(x, y)?)
    }

    fn index(&self, x: u16, y: u16) -> Option<usize> {
        let inside = x < self.width && y < self.height;
        inside.then(|| usize::from(y) * usize::from(self.width) + usize::from(x))
    }

    pub fn clear(&mut self) {
        self.cells.fill(Cell::BLANK);
    }

    /// Puts a character into column `x` of line `y`, in place of the present one. One that does not
    /// fit, or has no column of its own, changes nothing.
    pub fn put(&mut self, x: u16, y: u16, symbol: char, style: CellStyle) {
        let columns = columns_of(symbol);
        let Some(at) = self.index(x, y).filter(|_| columns > 0 && columns <= self.width - x) else { return };
        for column in x..x + columns {
            self.split(column, y);
        }
        self.cells[at] = Cell { symbol: Some(symbol), style, ..Cell::BLANK };
        if columns > 1 {
            self.cells[at + 1] = Cell { symbol: None, style, ..Cell::BLANK };
        }
    }

    /// Blanks the other half of a character of which this cell is one half.
    fn split(&mut self, x: u16, y: u16) {
        let is_right = |x: u16| self.cell(x, y).is_some_and(|cell| cell.symbol.is_none());
        let other = if is_right(x) { x - 1 } else { x + 1 };
        if is_right(x.max(other))
            && let Some(at) = self.index(other, y)
        {
            self.cells[at] = Cell::BLANK;
        }
    }

    /// Writes `text` from column `x` of line `y`, at most `width` columns. A character that would
    /// reach beyond ends it.
    pub fn set_string(&mut self, x: u16, y: u16, width: u16, text: &str, style: CellStyle) {
        let end = x.saturating_add(width).min(self.width);
        let (mut next, mut last) = (x, None);
        for symbol in text.chars() {
            match columns_of(symbol) {
                0 => self.mark(last, symbol),
                columns if columns <= end.saturating_sub(next) => {
                    self.put(next, y, symbol, style);
                    last = self.index(next, y);
                    next += columns;
                }
                _ => return,
            }
        }
    }

    /// Puts a combining mark onto a character, if there is room for one more. Controls, and
    /// characters that join or widen their neighbours, are left out: terminals do not agree on the
    /// columns of the result.
    fn mark(&mut self, at: Option<usize>, mark: char) {
        let left_out = matches!(mark, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}');
        if let Some(at) = at.filter(|_| !left_out && !mark.is_control())
            && let Some(room) = self.cells[at].marks.iter_mut().find(|mark| mark.is_none())
        {
            *room = Some(mark);
        }
    }
}

/// Columns of a character: 2, 1, or 0 for marks and controls.
fn columns_of(symbol: char) -> u16 {
    symbol.width().map_or(0, |columns| u16::clamped(columns.min(2)))
}

/// Columns that `text` takes.
pub(super) fn wide(text: &str) -> u16 {
    text.chars().fold(0, |sum, symbol| sum.saturating_add(columns_of(symbol)))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) x: u16,
    pub(super) y: u16,
    pub(super) width: u16,
    pub(super) height: u16,
}

/// The braille character without dots; one with dots has a bit for each.
pub(super) const BRAILLE: u32 = 0x2800;

/// A cell, in px: as wide as a character of a monospaced font of 14 px, as high as its lines.
const WIDTH: f64 = 8.43;
const HEIGHT: f64 = 18.0;
const MARGIN: f64 = 12.0;

/// The colour of a cell's text, from a common dark scheme.
fn ink(cell: &Cell) -> &'static str {
    match cell.style.color {
        Color::Red => "#f7768e",
        Color::Green => "#9ece6a",
        Color::Yellow => "#e0af68",
        Color::Cyan => "#7dcfff",
        Color::Blue => "#7aa2f7",
        Color::Magenta => "#bb9af7",
        Color::Default if cell.style.dim => "#8088a8",
        Color::Default if cell.style.bold => "#ffffff",
        Color::Default => "#c8d0f0",
    }
}

/// A symbol that is drawn and not written: the filled parts of a cell, as left, top, width and
/// height in shares of the cell. A full block is one, each dot of a braille character is one.
fn filled(cell: &Cell) -> Vec<[f64; 4]> {
    let symbol = cell.symbol.map_or(0, u32::from);
    if symbol == u32::from('█') {
        return vec![[0.0, 0.0, 1.0, 1.0]];
    }
    let Some(dots) = symbol.checked_sub(BRAILLE).filter(|dots| *dots < 0x100) else { return Vec::new() };
    let places = (0..8u32).filter(|n| dots & (1 << n) != 0).map(|n| match n {
        0..6 => (n / 3, n % 3),
        _ => (n - 6, 3),
    });
    places.map(|(x, y)| [f64::from(x) * 0.5 + 0.1, f64::from(y) * 0.25 + 0.04, 0.3, 0.17]).collect()
}

/// Writes `grid` as an SVG document, described by `alt`.
pub fn write_svg(grid: &Grid, alt: &str, out: &mut dyn Write) -> io::Result<()> {
    let (columns, lines) = grid.size();
    let (width, height) =
        (f64::from(columns) * WIDTH + 2.0 * MARGIN, f64::from(lines) * HEIGHT + 2.0 * MARGIN);
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\" font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"14\">"
    )?;
    writeln!(out, "<title>{}</title>", escape(alt))?;
    writeln!(out, "<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1a1b26\"/>")?;
    for y in 0..lines {
        row(grid, y, out)?;
    }
    writeln!(out, "</svg>")
}

/// A line: rectangles for blocks and dots, and a text for each run of cells that look the same.
fn row(grid: &Grid, y: u16, out: &mut dyn Write) -> io::Result<()> {
    let top = MARGIN + f64::from(y) * HEIGHT;
    let left = |x: u16| MARGIN + f64::from(x) * WIDTH;
    let mut x = 0;
    while let Some(first) = grid.cell(x, y) {
        let parts = filled(first);
        if !parts.is_empty() {
            for [across, down, wide, high] in parts {
                writeln!(
                    out,
                    "<rect x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{:.2}\" fill=\"{}\"/>",
                    left(x) + across * WIDTH,
                    top + down * HEIGHT,
                    wide * WIDTH,
                    high * HEIGHT,
                    ink(first)
                )?;
            }
            x += 1;
            continue;
        }
        let mut text = String::new();
        let from = x;
        while let Some(next) = grid.cell(x, y) {
            if next.style != first.style || !filled(next).is_empty() {
                break;
            }
            text.extend(next.chars());
            x += 1;
        }
        if !text.trim().is_empty() {
            let bold = if first.style.bold { " font-weight=\"bold\"" } else { "" };
            writeln!(
                out,
                "<text x=\"{:.2}\" y=\"{:.2}\" fill=\"{}\"{bold} xml:space=\"preserve\" textLength=\"{:.2}\">{}</text>",
                left(from),
                top + HEIGHT * 0.75,
                ink(first),
                f64::from(x - from) * WIDTH,
                escape(&text)
            )?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance (WCAG 2.2).
    fn luminance([r, g, b]: [u8; 3]) -> f64 {
        let linear = |c: u8| match f64::from(c) / 255.0 {
            c if c <= 0.040_45 => c / 12.92,
            c => ((c + 0.055) / 1.055).powf(2.4),
        };
        0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
    }

    /// Palettes of terminals: the colours' red, green and blue by their numbers 1, 2, 3, 6, 12, 13,
    /// from the defaults of xterm, PuTTY and the Linux console.
    #[test]
    fn every_colour_can_be_read_on_black() {
        type Palette = [[u8; 3]; 6];
        let xterm: Palette =
            [[205, 0, 0], [0, 205, 0], [205, 205, 0], [0, 205, 205], [92, 92, 255], [255, 0, 255]];
        let putty: Palette =
            [[187, 0, 0], [0, 187, 0], [187, 187, 0], [0, 187, 187], [85, 85, 255], [255, 85, 255]];
        let linux: Palette =
            [[170, 0, 0], [0, 170, 0], [170, 85, 0], [0, 170, 170], [85, 85, 255], [255, 85, 255]];
        for palette in [xterm, putty, linux] {
            for colour in palette {
                let contrast = (luminance(colour) + 0.05) / 0.05;
                // Large marks need 3; red is what every program has for failures.
                let least = if colour[1] == 0 && colour[2] == 0 { 2.5 } else { 3.0 };
                assert!(contrast >= least, "{colour:?}: {contrast:.2}");
            }
        }
        let used = [Color::Red, Color::Green, Color::Yellow, Color::Cyan, Color::Blue, Color::Magenta];
        assert_eq!(used.map(|color| color as u8), [1, 2, 3, 6, 12, 13]);
    }

    /// A line as text, with `_` for the right half of a character of two columns.
    fn line(grid: &Grid, y: u16) -> String {
        let text = |cell: &Cell| match cell.symbol {
            Some(_) => cell.chars().collect(),
            None => "_".to_owned(),
        };
        (0..grid.size().0).filter_map(|x| grid.cell(x, y)).map(text).collect()
    }

    /// `text` written into a line of six columns from column `x`, at most `width` columns.
    fn written(x: u16, width: u16, text: &str) -> String {
        let mut grid = Grid::new(6, 1);
        grid.set_string(0, 0, 6, "......", CellStyle::default());
        grid.set_string(x, 0, width, text, CellStyle::default().bold());
        line(&grid, 0)
    }

    #[test]
    fn text_is_clipped_by_columns() {
        assert_eq!(written(0, 6, "abcdefg"), "abcdef");
        assert_eq!(written(4, 9, "abc"), "....ab");
        assert_eq!(written(1, 2, "abc"), ".ab...");
        // 字 takes two columns (East Asian Width W): half of it is never shown.
        assert_eq!(written(0, 6, "a字b"), "a字_b..");
        assert_eq!(written(4, 2, "a字"), "....a.");
        assert_eq!(written(4, 2, "字"), "....字_");
        assert_eq!(written(5, 6, "字"), "......");
        assert_eq!(written(6, 6, "a"), "......");
        assert_eq!(written(u16::MAX, u16::MAX, "a"), "......");
        let mut none = Grid::new(0, 0);
        none.set_string(0, 0, 5, "a字", CellStyle::default());
        none.put(0, 0, 'a', CellStyle::default());
        assert_eq!(none, Grid::default());
    }

    #[test]
    fn marks_stay_with_their_character_and_are_bounded() {
        assert_eq!(written(0, 2, "e\u{301}x"), "e\u{301}x....");
        assert_eq!(written(0, 2, &format!("e{}x", "\u{301}".repeat(1000))), "e\u{301}\u{301}x....");
        // A mark without a character, controls, a joiner, a variation selector, a right-to-left
        // override.
        assert_eq!(written(0, 3, "\u{301}a\u{1b}b\u{200d}\u{fe0f}\u{202e}c"), "abc...");
        assert_eq!((wide("a字e\u{301}"), wide("")), (4, 0));
    }

    #[test]
    fn half_a_character_is_never_left() {
        for (x, want) in [(0, "x字_字_."), (1, ".x 字_."), (2, ". x字_."), (3, ".字_x ."), (4, ".字_ x.")]
        {
            let mut grid = Grid::new(6, 1);
            grid.set_string(0, 0, 6, ".字字.", CellStyle::default());
            grid.put(x, 0, 'x', CellStyle::default());
            assert_eq!(line(&grid, 0), want, "at {x}");
        }
        let mut grid = Grid::new(6, 1);
        grid.set_string(0, 0, 6, ".字字.", CellStyle::default());
        grid.put(2, 0, '語', CellStyle::default());
        assert_eq!(line(&grid, 0), ". 語_ .");
    }

    #[test]
    fn dots_are_added_to_a_cell() {
        // A plot of braille dots (U+2800 and a bit per dot) reads a cell and puts it back with one
        // more.
        let (mut grid, green) = (Grid::new(1, 1), CellStyle { color: Color::Green, ..CellStyle::default() });
        for bit in [0x01, 0x80] {
            let before = grid.cell(0, 0).and_then(|cell| cell.symbol).map_or(0, u32::from);
            let dots = if before >> 8 == 0x28 { before } else { 0x2800 };
            grid.put(0, 0, char::from_u32(dots | bit).unwrap(), green);
        }
        assert_eq!(grid.cell(0, 0).map(|cell| (cell.symbol, cell.style)), Some((Some('⢁'), green)));
        assert!(grid.cell(0, 0).unwrap().is_single());
    }
}
