//! A screen as a picture, cell by cell: what a terminal would show, for pages that cannot hold a terminal.

use super::draw::BRAILLE;
use super::grid::{Cell, Color, Grid};
use crate::html::escape;
use std::io::{self, Write};

/// A cell, in px: as wide as a character of a monospaced font of 14 px, as high as its lines.
const WIDTH: f64 = 8.43;
const HEIGHT: f64 = 18.0;
const MARGIN: f64 = 12.0;

/// The colour of a cell's text; those of a common dark scheme.
fn ink(cell: &Cell) -> &'static str {
    match cell.style.color {
        Color::Red => "#f7768e",
        Color::Green => "#9ece6a",
        Color::Yellow => "#e0af68",
        Color::Blue => "#7aa2f7",
        Color::Cyan => "#7dcfff",
        Color::Default if cell.style.dim => "#8088a8",
        Color::Default if cell.style.bold => "#ffffff",
        Color::Default => "#c8d0f0",
    }
}

/// What is drawn and not written: the parts of a cell that are filled, as left, top, width and height in shares of the cell. A full
/// block is one, each dot of a braille character is one.
fn filled(cell: &Cell) -> Vec<[f64; 4]> {
    let symbol = cell.symbol().map_or(0, u32::from);
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
