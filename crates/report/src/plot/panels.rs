//! Several plots above each other over one axis of time, as one SVG.

use super::scale::{Scale, apart, ticks, up, width as wide_of};
use super::svg::{class, dot, line, text, two};
use super::{Plot, Style};
use crate::html::escape;
use metrics::Clamped;
use std::fmt::Write;

/// Height of a panel and of what stands above and below it.
const PANEL: f64 = 96.0;
const ABOVE: f64 = 22.0;
/// Height of a further line of a legend.
const LINE: f64 = 15.0;
const BOTTOM: f64 = 39.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 10.0;
/// Height of the line that names the phases.
const PHASES: f64 = 16.0;

/// Of a text that ends at its place.
const END: &str = " text-anchor=\"end\"";

/// Draws `plots` from 0 to `end` s in `width` pixels; `phases` are marked where each begins, and
/// named; `shades` are times that do not count.
pub(crate) fn panels(
    plots: &[Plot],
    end: f64,
    phases: &[(f64, String)],
    shades: &[(f64, f64)],
    width: f64,
) -> String {
    let named = if phases.len() > 1 { PHASES } else { 0.0 };
    let wide = width - LEFT - RIGHT;
    let heads: Vec<Head> = plots.iter().map(|plot| head(plot, wide)).collect();
    let height = named + heads.iter().map(|head| head.above + PANEL).sum::<f64>() + BOTTOM;
    let mut out =
        format!("<svg class=\"timeline\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"");
    plots.iter().for_each(|plot| out.push_str(&escape(&plot.describe())));
    out.push_str("\">\n");
    let px = |x: f64| LEFT + wide * (x / end).clamp(0.0, 1.0);
    let mut top = named;
    for (plot, head) in plots.iter().zip(&heads) {
        top += head.above;
        for (from, to) in shades {
            let (left, wide) = (two(px(*from)), two(px(*to) - px(*from)));
            let _ = write!(
                out,
                "<rect class=\"shade\" x=\"{left}\" y=\"{top}\" width=\"{wide}\" height=\"{PANEL}\"/>"
            );
        }
        panel(plot, head, top, (px(0.0), wide), &px, &mut out);
        for (at, _) in phases.iter().filter(|_| phases.len() > 1) {
            let _ = write!(out, "<path class=\"mark\" d=\"M{} {top}v{PANEL}\"/>", two(px(*at)));
        }
        top += PANEL;
    }
    if phases.len() > 1 {
        named_phases(phases, &px, width, &mut out);
    }
    let axis = super::Axis::time();
    let (marks, unit) = ticks(&axis, Scale::new(0.0, end, false));
    let texts: Vec<(f64, String)> = marks.into_iter().map(|(x, text)| (px(x), text)).collect();
    for ((_, words), x) in texts.iter().zip(apart(&texts, width)) {
        let Some(x) = x else { continue };
        out.push_str(&text(x, top + 18.0, " text-anchor=\"middle\"", words));
    }
    out + &text(px(end), top + 33.0, END, &format!("time, {unit}")) + "\n</svg>\n"
}

/// The names of phases where they begin, within the space.
fn named_phases(phases: &[(f64, String)], px: &dyn Fn(f64) -> f64, width: f64, out: &mut String) {
    let mut free = 0.0;
    for (n, (at, name)) in phases.iter().enumerate() {
        let begins = px(*at) + 3.0;
        let x = begins.max(free);
        let next = phases.get(n + 1).map_or(width, |(next, _)| px(*next));
        // Moved to the right where it stays within its phase.
        if x + wide_of(name) > if x > begins { next } else { width } {
            continue;
        }
        free = x + wide_of(name) + 6.0;
        out.push_str(&text(x, 11.0, "", name));
    }
}

/// Heading of a panel: its label, then its series by place, row from the lowest, and name.
struct Head {
    what: String,
    above: f64,
    series: Vec<(f64, f64)>,
}

fn head(plot: &Plot, wide: f64) -> Head {
    let (_, unit) = ticks(&plot.y, up(plot));
    let unit = if unit.is_empty() { String::new() } else { format!(", {unit}") };
    let what = format!("{}{unit}", plot.y.title());
    // The label is bold.
    let (mut at, mut row) = (1.15 * wide_of(&what) + 12.0, 0.0);
    let place = |series: &super::Series| {
        let long = 17.0 + wide_of(&series.name);
        if at + long > wide && at > 0.0 {
            (at, row) = (0.0, row + LINE);
        }
        let place = (at, row);
        at += long + 10.0;
        place
    };
    let series = plot.series.iter().map(place).collect();
    Head { what, above: ABOVE + row, series }
}

fn panel(
    plot: &Plot,
    head: &Head,
    top: f64,
    (left, wide): (f64, f64),
    px: &dyn Fn(f64) -> f64,
    out: &mut String,
) {
    let scale = up(plot);
    let (marks, _) = ticks(&plot.y, scale);
    let first = top - head.above + ABOVE - 6.0;
    let _ = write!(
        out,
        "<g class=\"panel\"><text class=\"what\" x=\"{left}\" y=\"{}\">{}</text>",
        two(first),
        escape(&head.what)
    );
    for ((n, series), (at, row)) in plot.series.iter().enumerate().zip(&head.series) {
        let _ = write!(
            out,
            "<g class=\"{}\"><path class=\"line\" d=\"M{} {}h14\"/>{}</g>",
            class(n, series.style),
            two(left + at),
            two(first + row - 4.0),
            text(left + at + 17.0, first + row, "", &series.name)
        );
    }
    let py = |y: f64| scale.height(y).map(|at| top + PANEL * (1.0 - at));
    let _ = write!(
        out,
        "<rect class=\"frame\" x=\"{left}\" y=\"{top}\" width=\"{}\" height=\"{PANEL}\"/>",
        two(wide)
    );
    let few = marks.len().div_ceil(4).max(1);
    for (y, words) in marks.iter().step_by(few) {
        let Some(y) = py(*y).filter(|y| (top - 0.5..=top + PANEL + 0.5).contains(y)) else { continue };
        let _ = write!(out, "<path class=\"grid\" d=\"M{left} {}h{}\"/>", two(y), two(wide));
        out.push_str(&text(left - 5.0, y + 4.0, END, words));
    }
    for (n, series) in plot.series.iter().enumerate() {
        let points = super::thinned(&series.points, usize::clamped(wide));
        let places: Vec<_> = points.iter().map(|(x, y)| Some((px(*x), y.and_then(py)?))).collect();
        let _ = write!(out, "<g class=\"{}\">{}", class(n, series.style), line(&places));
        if series.points.len() <= 60 || series.style == Style::Points {
            places.into_iter().flatten().for_each(|(x, y)| out.push_str(&dot(x, y, 2.0)));
        }
        out.push_str("</g>");
    }
    out.push_str("</g>\n");
}
