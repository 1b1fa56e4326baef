//! A screen as a picture, cell by cell: what a terminal would show, for pages that cannot hold a terminal.

use super::draw::BARS;
use super::grid::{Cell, Color, Grid};
use crate::html::escape;
use metrics::real;
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

/// How much of a cell's height a block element fills, from below.
fn block(cell: &Cell) -> Option<f64> {
    let at = BARS.iter().position(|bar| cell.symbol() == Some(*bar))?;
    Some(real(at + 1) / 8.0)
}

/// Writes `grid` as an SVG document, described by `alt`.
///
/// # Errors
/// When `out` cannot be written.
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

/// A line: rectangles for block elements, and a text for each run of cells that look the same.
fn row(grid: &Grid, y: u16, out: &mut dyn Write) -> io::Result<()> {
    let top = MARGIN + f64::from(y) * HEIGHT;
    let left = |x: u16| MARGIN + f64::from(x) * WIDTH;
    let mut x = 0;
    while let Some(first) = grid.cell(x, y) {
        if let Some(share) = block(first) {
            let high = share * HEIGHT;
            writeln!(
                out,
                "<rect x=\"{:.2}\" y=\"{:.2}\" width=\"{WIDTH}\" height=\"{high:.2}\" fill=\"{}\"/>",
                left(x),
                top + HEIGHT - high,
                ink(first)
            )?;
            x += 1;
            continue;
        }
        let mut text = String::new();
        let from = x;
        while let Some(next) = grid.cell(x, y) {
            if next.style != first.style || block(next).is_some() {
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
