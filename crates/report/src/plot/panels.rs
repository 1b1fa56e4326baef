//! Several plots above each other over one axis of time, as one SVG.

use super::scale::{Scale, ticks, up};
use super::svg::{class, two};
use super::{Plot, Style};
use crate::html::escape;
use std::fmt::Write;

/// Height of a panel and of what stands above and below it.
const PANEL: f64 = 96.0;
const ABOVE: f64 = 22.0;
const BOTTOM: f64 = 34.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 10.0;
/// Height of the line that names the phases.
const PHASES: f64 = 16.0;

/// Draws `plots` from 0 to `end` s in `width` pixels; `phases` are marked where each begins, and named.
pub(crate) fn panels(plots: &[Plot], end: f64, phases: &[(f64, String)], width: f64) -> String {
    let named = if phases.len() > 1 { PHASES } else { 0.0 };
    let count = plots.iter().fold(0.0, |n, _| n + 1.0);
    let height = named + count * (PANEL + ABOVE) + BOTTOM;
    let wide = width - LEFT - RIGHT;
    let mut out =
        format!("<svg class=\"timeline\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"");
    plots.iter().for_each(|plot| out.push_str(&escape(&plot.describe())));
    out.push_str("\">\n");
    let px = |x: f64| LEFT + wide * (x / end).clamp(0.0, 1.0);
    let mut top = named;
    for plot in plots {
        top += ABOVE;
        panel(plot, top, (px(0.0), wide), &px, &mut out);
        top += PANEL;
    }
    for (at, name) in phases.iter().filter(|_| phases.len() > 1) {
        let x = px(*at);
        let _ = write!(
            out,
            "<path class=\"mark\" d=\"M{0} {named}V{top}\"/><text x=\"{1}\" y=\"11\">{2}</text>",
            two(x),
            two(x + 3.0),
            escape(name)
        );
    }
    let axis = super::Axis::time();
    let (marks, unit) = ticks(&axis, Scale::new(0.0, end, false));
    for (x, text) in marks {
        let _ = write!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            two(px(x)),
            two(top + 13.0),
            escape(&text)
        );
    }
    let _ = write!(
        out,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">time, {unit}</text>\n</svg>\n",
        two(px(end)),
        two(top + 28.0)
    );
    out
}

fn panel(plot: &Plot, top: f64, (left, wide): (f64, f64), px: &dyn Fn(f64) -> f64, out: &mut String) {
    let scale = up(plot);
    let (marks, unit) = ticks(&plot.y, scale);
    let unit = if unit.is_empty() { String::new() } else { format!(", {unit}") };
    let _ = write!(
        out,
        "<g class=\"panel\"><text class=\"what\" x=\"{left}\" y=\"{}\">{}{}</text>",
        two(top - 6.0),
        escape(&plot.y.label),
        escape(&unit)
    );
    // The legend stands behind the label.
    let mut at =
        left + 8.0 * (plot.y.label.chars().chain(unit.chars()).fold(0.0, |n, _| n + 1.0)) * 0.82 + 12.0;
    for (n, series) in plot.series.iter().enumerate() {
        let _ = write!(
            out,
            "<g class=\"{}\"><path class=\"line\" d=\"M{} {lift}h14\"/><text x=\"{}\" y=\"{}\">{}</text></g>",
            class(n, series.style),
            two(at),
            two(at + 17.0),
            two(top - 6.0),
            escape(&series.name),
            lift = two(top - 10.0)
        );
        at += 17.0 + 6.4 * series.name.chars().fold(0.0, |n, _| n + 1.0) + 10.0;
    }
    let py = |y: f64| scale.at(y).map(|at| top + PANEL * (1.0 - at));
    let _ = write!(
        out,
        "<rect class=\"frame\" x=\"{left}\" y=\"{top}\" width=\"{}\" height=\"{PANEL}\"/>",
        two(wide)
    );
    let few = marks.len().div_ceil(4).max(1);
    for (y, text) in marks.iter().step_by(few) {
        let Some(y) = py(*y).filter(|y| (top - 0.5..=top + PANEL + 0.5).contains(y)) else { continue };
        let _ = write!(
            out,
            "<path class=\"grid\" d=\"M{left} {0}h{1}\"/><text x=\"{2}\" y=\"{3}\" text-anchor=\"end\">{4}</text>",
            two(y),
            two(wide),
            two(left - 5.0),
            two(y + 4.0),
            escape(text)
        );
    }
    for (n, series) in plot.series.iter().enumerate() {
        let mut path = String::new();
        let mut down = false;
        let mut dots = String::new();
        for &(x, y) in &super::thinned(&series.points, 1_000) {
            let Some((x, y)) = y.and_then(py).map(|y| (px(x), y)) else {
                down = false;
                continue;
            };
            let _ = write!(path, "{}{} {}", if down { "L" } else { "M" }, two(x), two(y));
            if series.points.len() <= 60 || series.style == Style::Points {
                let _ = write!(dots, "<circle class=\"dot\" cx=\"{}\" cy=\"{}\" r=\"2\"/>", two(x), two(y));
            }
            down = true;
        }
        let _ = write!(
            out,
            "<g class=\"{}\"><path class=\"line\" d=\"{path}\"/>{dots}</g>",
            class(n, series.style)
        );
    }
    out.push_str("</g>\n");
}
