//! Draws a plot as SVG: for the page, where a style sheet colours it, and as a file of its own,
//! which brings its colours.
//!
//! Own code and no plotting library: the page needs classes instead of colours (light, dark,
//! print), groups that its script can fill again, and text for screen readers.

use super::scale::{Scale, across, apart, ticks, up, width};
use super::{AxisUnit, Plot, Series, Style};
use crate::html::escape;
use crate::text::shortened;
use metrics::{Clamped, real};
use std::fmt::Write;

/// Width and height of the whole, and of what surrounds the area of the curves. `html/report.js`
/// reads them from the SVG.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 310.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 28.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 46.0;
/// Width and height of that area.
const AREA_WIDTH: f64 = WIDTH - LEFT - RIGHT;
const AREA_HEIGHT: f64 = HEIGHT - TOP - BOTTOM;
/// Fewer points than this are marked one by one.
const MARKED: usize = 40;
/// Most points that are drawn of one series: more than there are pixels show nothing more.
const DRAWN: usize = 2_500;
/// Colours; series beyond them begin again, with broken lines.
pub(crate) const COLOURS: usize = 8;

/// Colours of a file, as the page has them on white: each with a contrast of at least 3 to 1.
const LIGHT: [&str; COLOURS] =
    ["#0b62b8", "#b8500a", "#1b7f4b", "#a3298c", "#7a6500", "#c22f3d", "#4f4fc4", "#51606b"];

struct View<'a> {
    plot: &'a Plot,
    x: Scale,
    y: Scale,
}

impl View<'_> {
    /// Pixels across, within the area.
    fn px(&self, x: f64) -> Option<f64> {
        self.x.at(x).map(|at| at * AREA_WIDTH)
    }

    /// Pixels down, within the area.
    fn py(&self, y: f64) -> Option<f64> {
        self.y.height(y).map(|at| (1.0 - at) * AREA_HEIGHT)
    }

    /// The lower edge of bars and filled areas.
    fn floor(&self) -> f64 {
        self.py(0.0).map_or(AREA_HEIGHT, |y| y.clamp(0.0, AREA_HEIGHT))
    }
}

pub(crate) fn inline(plot: &Plot) -> String {
    let name = &plot.name;
    let mut out = format!(
        "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-labelledby=\"{name}-t {name}-d\">\n\
         <title id=\"{name}-t\">{}</title>\n<desc id=\"{name}-d\">{}</desc>\n",
        escape(&plot.title),
        escape(&plot.describe())
    );
    body(plot, 0.0, &mut out);
    out.push_str("</svg>\n");
    out
}

/// The plot as a file: with its title, its legend and its colours.
pub(crate) fn standalone(plot: &Plot) -> String {
    const HEAD: f64 = 34.0;
    const LINE: f64 = 18.0;
    let rows = plot.series.len().div_ceil(3);
    let height = HEIGHT + HEAD + 8.0 + real(rows) * LINE;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\">\n<title>{}</title>\n<desc>{}</desc>\n<style>{}</style>\n\
         <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"22\">{}</text>\n",
        escape(&plot.title),
        escape(&plot.describe()),
        file_style(),
        escape(&plot.title)
    );
    body(plot, HEAD, &mut out);
    for (at, series) in plot.series.iter().enumerate() {
        let (column, row) = (at % 3, at / 3);
        let x = LEFT + real(column) * (WIDTH - LEFT - RIGHT) / 3.0;
        let y = HEIGHT + HEAD + 4.0 + real(row) * LINE;
        let _ = writeln!(
            out,
            "<g class=\"{}\" transform=\"translate({} {})\"><path class=\"line\" d=\"M0 0H22\"/></g>\
             <text class=\"key\" x=\"{}\" y=\"{}\">{}</text>",
            class(at, series.style),
            two(x),
            two(y),
            two(x + 28.0),
            two(y + 4.0),
            escape(&shortened(&series.name, 34))
        );
    }
    out.push_str("</svg>\n");
    out
}

fn file_style() -> String {
    let mut text = String::from(
        "text{font:12px sans-serif;fill:#333}.title{font-size:15px;font-weight:bold}.paper{fill:#fff}\
         .frame{fill:none;stroke:#888}.grid{stroke:#ddd;fill:none}.shade{fill:#000;opacity:.06}\
         .mark{stroke:#555;stroke-dasharray:4 3}.line{fill:none;stroke-width:1.8;stroke-linejoin:round}\
         .fill{stroke:none;opacity:.18}.dashed .line{stroke-dasharray:6 4}.again .line{stroke-dasharray:2 3}",
    );
    for (at, colour) in LIGHT.iter().enumerate() {
        let _ = write!(
            text,
            ".s{at} .line{{stroke:{colour}}}.s{at} .fill,.s{at} .dot,.s{at} .bar{{fill:{colour}}}\
             .s{at} .whisker{{stroke:{colour}}}"
        );
    }
    text
}

/// The classes of a series: its colour and its kind of line.
pub(crate) fn class(at: usize, style: Style) -> String {
    let again = if at >= COLOURS { " again" } else { "" };
    let dashed = if style == Style::Dashed { " dashed" } else { "" };
    format!("s{}{again}{dashed}", at % COLOURS)
}

fn body(plot: &Plot, down: f64, out: &mut String) {
    let view = View { plot, x: across(plot), y: up(plot) };
    let _ = writeln!(out, "<g class=\"axes\" transform=\"translate({LEFT} {})\">", two(TOP + down));
    axes(&view, out);
    let _ = writeln!(
        out,
        "</g>\n<svg class=\"area\" x=\"{LEFT}\" y=\"{}\" width=\"{AREA_WIDTH}\" height=\"{AREA_HEIGHT}\" overflow=\"hidden\">",
        two(TOP + down)
    );
    for (at, series) in plot.series.iter().enumerate() {
        let _ = write!(out, "<g class=\"series {}\">", class(at, series.style));
        draw(&view, at, series, out);
        out.push_str("</g>\n");
    }
    let _ = writeln!(
        out,
        "</svg>\n<rect class=\"frame\" x=\"{LEFT}\" y=\"{}\" width=\"{AREA_WIDTH}\" height=\"{AREA_HEIGHT}\"/>",
        two(TOP + down)
    );
}

/// Grid, ticks, labels, shade and marks.
fn axes(view: &View<'_>, out: &mut String) {
    if let Some((from, to)) = view.plot.shade
        && let (Some(from), Some(to)) = (view.px(from), view.px(to))
    {
        let (from, to) = (from.clamp(0.0, AREA_WIDTH), to.clamp(0.0, AREA_WIDTH));
        let (left, width) = (two(from), two(to - from));
        let _ = writeln!(
            out,
            "<rect class=\"shade\" x=\"{left}\" y=\"0\" width=\"{width}\" height=\"{AREA_HEIGHT}\"/>"
        );
    }
    // One path and two groups, which say once what all their ticks have in common: a sweep's page
    // has thousands.
    let (mut grid, mut below, mut beside) = (String::new(), String::new(), String::new());
    let (across, x_unit) = ticks(&view.plot.x, view.x);
    // A character is about seven wide.
    let most = (usize::clamped(AREA_WIDTH / 7.0 / real(across.len().max(1)))).max(6);
    let seen = |(at, text): (f64, String)| {
        let x = view.px(at).filter(|x| (-0.5..=AREA_WIDTH + 0.5).contains(x))?;
        Some((x, if view.plot.x.unit == AxisUnit::Name { shortened(&text, most) } else { text }))
    };
    let texts: Vec<(f64, String)> = across.into_iter().filter_map(seen).collect();
    for ((x, text), at) in texts.iter().zip(apart(&texts, AREA_WIDTH + RIGHT)) {
        if view.plot.x.unit != AxisUnit::Name {
            let _ = write!(grid, "M{} 0V{AREA_HEIGHT}", two(*x));
        }
        if let Some(at) = at {
            let _ = write!(below, "<text x=\"{}\">{}</text>", two(at), escape(text));
        }
    }
    let (up, y_unit) = ticks(&view.plot.y, view.y);
    for (at, text) in up {
        let Some(y) = view.py(at).filter(|y| (-0.5..=AREA_HEIGHT + 0.5).contains(y)) else { continue };
        let y = two(y);
        let _ = write!(grid, "M0 {y}H{AREA_WIDTH}");
        let _ = write!(beside, "<text y=\"{y}\">{}</text>", escape(&text));
    }
    let room = usize::clamped((AREA_WIDTH + 2.0 * RIGHT) / 6.6);
    let label = |label: &str, unit: &str| {
        let text = if unit.is_empty() { label.to_owned() } else { format!("{label}, {unit}") };
        escape(&shortened(&text, room)).into_owned()
    };
    let _ = writeln!(
        out,
        "<path class=\"grid\" d=\"{grid}\"/>\n\
         <g text-anchor=\"middle\" transform=\"translate(0 {})\">{below}<text x=\"{}\" y=\"20\">{}</text></g>\n\
         <g text-anchor=\"end\" transform=\"translate(-6 4)\">{beside}</g>\n\
         <text x=\"{}\" y=\"-17\">{}</text>",
        two(AREA_HEIGHT + 19.0),
        two(AREA_WIDTH / 2.0),
        label(&view.plot.x.title(), &x_unit),
        two(8.0 - LEFT),
        label(&view.plot.y.title(), &y_unit)
    );
    marks(view, out);
}

/// Places that have a name; a name that another would cover is left out.
fn marks(view: &View<'_>, out: &mut String) {
    let mut taken: Vec<(f64, f64)> = Vec::new();
    for (at, text) in &view.plot.marks {
        let Some(x) = view.px(*at).filter(|x| (0.0..=AREA_WIDTH).contains(x)) else { continue };
        let _ = writeln!(out, "<path class=\"mark\" d=\"M{} 0V{AREA_HEIGHT}\"/>", two(x));
        let long = width(text) + 4.0;
        let (anchor, by, from) =
            if x > AREA_WIDTH / 2.0 { ("end", -4.0, x - long) } else { ("start", 4.0, x) };
        if taken.iter().any(|(low, high)| from < *high && from + long > *low) {
            continue;
        }
        taken.push((from, from + long));
        let _ = writeln!(out, "{}", self::text(x + by, 12.0, &format!(" text-anchor=\"{anchor}\""), text));
    }
}

fn draw(view: &View<'_>, at: usize, series: &Series, out: &mut String) {
    whiskers(view, series, out);
    match series.style {
        Style::Bars => bars(view, at, series, out),
        Style::Steps => steps(view, series, out),
        Style::Points => dots(view, &series.points, out),
        Style::Line | Style::Dashed => {
            let points = super::thinned(&series.points, DRAWN);
            let places = points.iter().map(|(x, y)| view.px(*x).zip(view.py((*y)?)));
            out.push_str(&line(&places.collect::<Vec<_>>()));
            if points.len() <= MARKED {
                dots(view, &points, out);
            }
        }
    }
}

/// A line through these places, interrupted where one is missing.
pub(super) fn line(places: &[Option<(f64, f64)>]) -> String {
    let parts = places.split(Option::is_none).map(|part| {
        let points: Vec<_> = part.iter().flatten().map(|(x, y)| format!("{} {}", two(*x), two(*y))).collect();
        if points.is_empty() { String::new() } else { format!("M{}", points.join("L")) }
    });
    format!("<path class=\"line\" d=\"{}\"/>", parts.collect::<String>())
}

fn dots(view: &View<'_>, points: &[(f64, Option<f64>)], out: &mut String) {
    let points = super::thinned(points, DRAWN);
    let radius = if points.len() <= MARKED { 3.0 } else { 1.4 };
    for &(x, y) in &points {
        if let Some((x, y)) = view.px(x).zip(y.and_then(|y| view.py(y))) {
            out.push_str(&dot(x, y, radius));
        }
    }
}

/// A histogram: each point's value holds until the next point. Every step goes down to the floor,
/// so that a step without a value leaves a hole and `fill` has closed boxes.
fn steps(view: &View<'_>, series: &Series, out: &mut String) {
    let floor = two(view.floor());
    let (mut line, mut fill) = (String::new(), String::new());
    for pair in series.points.windows(2) {
        let ((from, value), (to, _)) = (pair[0], pair[1]);
        let (Some(from), Some(to), Some(value)) = (view.px(from), view.px(to), value) else { continue };
        let y = two(view.py(value).unwrap_or(AREA_HEIGHT));
        let (from, to) = (two(from), two(to));
        let _ = write!(line, "M{from} {floor}V{y}H{to}V{floor}");
        let _ = write!(fill, "M{from} {floor}V{y}H{to}V{floor}Z");
    }
    let _ = write!(out, "<path class=\"fill\" d=\"{fill}\"/><path class=\"line\" d=\"{line}\"/>");
}

fn bars(view: &View<'_>, at: usize, series: &Series, out: &mut String) {
    let all = real(view.plot.series.iter().filter(|s| s.style == Style::Bars).count().max(1));
    let before = real(view.plot.series[..at].iter().filter(|s| s.style == Style::Bars).count());
    let width = 0.8 / all;
    let floor = view.floor();
    for &(x, y) in &series.points {
        let left = x - 0.4 + before * width;
        let (Some(from), Some(to), Some(y)) =
            (view.px(left), view.px(left + width * 0.94), y.and_then(|y| view.py(y)))
        else {
            continue;
        };
        let _ = write!(
            out,
            "<rect class=\"bar\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
            two(from),
            two(y.min(floor)),
            two(to - from),
            two((floor - y).abs())
        );
    }
}

fn whiskers(view: &View<'_>, series: &Series, out: &mut String) {
    for ((x, _), spread) in series.points.iter().zip(&series.spread) {
        let Some((low, high)) = spread else { continue };
        let (Some(x), Some(high)) = (view.px(*x), view.py(*high)) else { continue };
        let low = view.py(*low).unwrap_or(AREA_HEIGHT);
        let _ = write!(
            out,
            "<path class=\"whisker\" d=\"M{0} {1}V{2}M{3} {1}h8M{3} {2}h8\"/>",
            two(x),
            two(low),
            two(high),
            two(x - 4.0)
        );
    }
}

/// A text at a place; `more` are further attributes.
pub(super) fn text(x: f64, y: f64, more: &str, words: &str) -> String {
    format!("<text x=\"{}\" y=\"{}\"{more}>{}</text>", two(x), two(y), escape(words))
}

pub(super) fn dot(x: f64, y: f64, radius: f64) -> String {
    format!("<circle class=\"dot\" cx=\"{}\" cy=\"{}\" r=\"{radius}\"/>", two(x), two(y))
}

/// A coordinate: two digits behind the point at most, and never far outside. Rounded as
/// `html/report.js` rounds, halves up, so that a plot does not change when it is drawn again.
pub(super) fn two(value: f64) -> String {
    let hundredths = (value.clamp(-1e5, 1e5) * 100.0 + 0.5).floor();
    (hundredths / 100.0 + 0.0).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::Axis;
    use model::Unit;

    fn plot(series: Vec<Series>) -> Plot {
        let y = Axis::new("goodput", Unit::BitsPerSecond);
        Plot::new("goodput", "Goodput <over> time", Axis::time(), y).with(series)
    }

    #[test]
    fn coordinates_are_rounded_as_the_script_rounds_them() {
        // What String(Math.round(v * 100) / 100) says in ECMAScript; ties go up, not to the even
        // digit.
        for (value, text) in [
            (93.125, "93.13"),
            (-93.125, "-93.12"),
            (0.004, "0"),
            (-0.004, "0"),
            (7.5, "7.5"),
            (1e9, "100000"),
        ] {
            assert_eq!(two(value), text);
        }
    }

    #[test]
    fn points_lie_where_arithmetic_puts_them() {
        // The area is 670 wide and 234 high; the top of the axis is 5 % above the highest value,
        // and 1.2 % of the range are left free on either side.
        let drawn = inline(&plot(vec![Series::line("a", vec![(0.0, Some(0.0)), (10.0, Some(2e9))])]));
        let (left, right, y) = (670.0 * 0.012 / 1.024, 670.0 * 1.012 / 1.024, 234.0 - 234.0 / 1.05);
        let path = format!("d=\"M{} 234L{} {}\"", two(left), two(right), two(y));
        assert!(drawn.contains(&path), "{path} {drawn}");
        assert!(drawn.contains(">Gbit/s<") || drawn.contains("goodput, Gbit/s"), "{drawn}");
    }

    #[test]
    fn a_gap_is_a_gap() {
        let points = vec![(0.0, Some(1.0)), (1.0, None), (2.0, Some(1.0)), (3.0, Some(1.0))];
        let drawn = inline(&plot(vec![Series::line("a", points)]));
        let path = drawn.split("class=\"line\" d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(path.matches('M').count(), 2, "{path}");
        assert_eq!(path.matches('L').count(), 1, "{path}");
    }

    #[test]
    fn files_stand_alone_and_nothing_in_them_is_markup() {
        let mut plot = plot(vec![Series::line("</svg><script>alert(1)</script>", vec![(0.0, Some(1.0))])]);
        plot.marks.push((0.0, "<b>".to_owned()));
        for drawn in [standalone(&plot), inline(&plot)] {
            assert!(!drawn.contains("<script") && !drawn.contains("<b>"), "{drawn}");
            assert!(drawn.contains("Goodput &lt;over&gt; time"));
            assert_eq!(drawn.matches("<svg").count(), drawn.matches("</svg>").count());
        }
        let file = standalone(&plot);
        assert!(file.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
        assert!(!file.contains("url(") && !file.contains("href"), "nothing is loaded from elsewhere");
    }

    #[test]
    fn numbers_that_are_none_draw_nothing_strange() {
        let strange = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, -0.0, 5e-324];
        for style in [Style::Line, Style::Dashed, Style::Points, Style::Steps, Style::Bars] {
            let points: Vec<_> = strange.iter().flat_map(|&x| strange.map(|y| (x, Some(y)))).collect();
            let mut plot = plot(vec![Series::new("a", style, points)]);
            for log in [false, true] {
                (plot.x.log, plot.y.log) = (log, log);
                let drawn = standalone(&plot);
                assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
            }
        }
    }
}
