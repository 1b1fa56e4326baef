//! A screen as a picture, cell by cell: what a terminal would show, for pages that cannot hold a terminal.

use crate::html::escape;
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use std::io::{self, Write};

/// A cell, in px: as wide as a character of a monospaced font of 14 px, as high as its lines.
const WIDTH: f64 = 8.43;
const HEIGHT: f64 = 18.0;
const MARGIN: f64 = 12.0;

/// The colour of a cell's text; those of a common dark scheme.
fn ink(cell: &Cell) -> &'static str {
    match cell.fg {
        Color::Red => "#f7768e",
        Color::Green => "#9ece6a",
        Color::Yellow => "#e0af68",
        Color::Blue => "#7aa2f7",
        Color::Cyan => "#7dcfff",
        _ if cell.modifier.contains(Modifier::DIM) => "#8088a8",
        _ if cell.modifier.contains(Modifier::BOLD) => "#ffffff",
        _ => "#c8d0f0",
    }
}

/// How much of a cell's height a block element fills, from below.
fn block(symbol: &str) -> Option<f64> {
    let at = "▁▂▃▄▅▆▇█".chars().position(|c| symbol.starts_with(c))?;
    Some((at + 1) as f64 / 8.0)
}

/// Writes `buffer` as an SVG document, described by `alt`.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_svg(buffer: &Buffer, alt: &str, out: &mut dyn Write) -> io::Result<()> {
    let area = buffer.area;
    let (width, height) =
        (f64::from(area.width) * WIDTH + 2.0 * MARGIN, f64::from(area.height) * HEIGHT + 2.0 * MARGIN);
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\" font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"14\">"
    )?;
    writeln!(out, "<title>{}</title>", escape(alt))?;
    writeln!(out, "<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1a1b26\"/>")?;
    for y in 0..area.height {
        row(buffer, y, out)?;
    }
    writeln!(out, "</svg>")
}

/// A line: rectangles for block elements, and a text for each run of cells that look the same.
fn row(buffer: &Buffer, y: u16, out: &mut dyn Write) -> io::Result<()> {
    let area = buffer.area;
    let top = MARGIN + f64::from(y) * HEIGHT;
    let left = |x: u16| MARGIN + f64::from(x) * WIDTH;
    let cell = |x: u16| buffer.cell((area.x + x, area.y + y));
    let mut x = 0;
    while let Some(first) = cell(x).filter(|_| x < area.width) {
        if let Some(share) = block(first.symbol()) {
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
        while let Some(next) = cell(x).filter(|_| x < area.width) {
            let same = ink(next) == ink(first) && next.modifier == first.modifier;
            if !same || block(next.symbol()).is_some() {
                break;
            }
            text.push_str(next.symbol());
            x += 1;
        }
        if !text.trim().is_empty() {
            let bold = if first.modifier.contains(Modifier::BOLD) { " font-weight=\"bold\"" } else { "" };
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
