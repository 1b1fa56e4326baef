//! A plot as data: axes, series, marks. Drawn as SVG here, and redrawn by the page's script when a
//! reader zooms.

mod panels;
mod scale;
mod svg;

pub(crate) use panels::panels;
pub use scale::round_up;
pub(crate) use scale::show;
pub(crate) use svg::{class, inline, standalone};

use model::Unit;
use serde_json::{Value, json};

/// Most points of one series; more are thinned, keeping the extremes of each stretch.
pub(crate) const MOST_POINTS: usize = 20_000;

/// Sizes of numbers that can be drawn, but for 0.
const SMALLEST: f64 = 1e-18;
const LARGEST: f64 = 1e18;

/// Largest spread on a linear axis, which begins at 0: beyond it the smaller values lie flat, and
/// the axis is logarithmic, which its title states.
pub(crate) const SPREAD: f64 = 10.0;

/// Unit of an axis. The numbers are kept in the base unit and shown with a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AxisUnit {
    /// The unit of a figure.
    Figure(Unit),
    /// Seconds since the start.
    Second,
    /// Seconds since this one, which is counted from 1970; shown as the date and the time of day,
    /// UTC.
    Date(i64),
    /// `1/(1-q)` of the quantile `q`; shown as a percentile.
    Percentile,
    /// The n-th of the axis's names.
    Name,
}

impl From<Unit> for AxisUnit {
    fn from(unit: Unit) -> Self {
        AxisUnit::Figure(unit)
    }
}

impl AxisUnit {
    pub(crate) fn all() -> impl Iterator<Item = AxisUnit> {
        let figures = Unit::all().map(AxisUnit::Figure);
        figures.chain([AxisUnit::Second, AxisUnit::Date(0), AxisUnit::Percentile, AxisUnit::Name])
    }

    /// The step between prefixes, the prefixes (binary ones for bytes), and what stands behind
    /// them.
    pub(crate) fn words(self) -> (f64, &'static [&'static str], &'static str) {
        let AxisUnit::Figure(unit) = self else {
            return (1e3, &[""], if self == AxisUnit::Second { "s" } else { "" });
        };
        match unit {
            Unit::Ns => (1e3, &["n", "µ", "m", ""], "s"),
            Unit::BitsPerSecond => (1e3, &["", "k", "M", "G", "T"], "bit/s"),
            Unit::Bytes => (1024.0, &["", "Ki", "Mi", "Gi", "Ti"], "B"),
            Unit::Count | Unit::SecondsPerGb => (1e3, &["", "k", "M", "G"], ""),
            Unit::PerSecond => (1e3, &["", "k", "M", "G"], "/s"),
            Unit::Percent => (1e3, &[""], "%"),
            Unit::Share | Unit::Grade => (1e3, &[""], ""),
        }
    }

    /// Its name in the page's data.
    pub(crate) fn name(self) -> &'static str {
        match self {
            AxisUnit::Figure(unit) => unit.name(),
            AxisUnit::Second => "second",
            AxisUnit::Date(_) => "date",
            AxisUnit::Percentile => "percentile",
            AxisUnit::Name => "name",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    /// Its label, without the unit.
    pub(crate) label: String,
    pub(crate) unit: AxisUnit,
    /// Logarithmic: zeros lie at the lower edge, and smaller values are not drawn.
    pub(crate) log: bool,
    /// Names of its places, for [`AxisUnit::Name`].
    pub(crate) names: Vec<String>,
    /// The least that is always seen: an index from 0 to 1 is shown so for all values.
    pub(crate) at_least: Option<(f64, f64)>,
    /// Largest spread that is drawn linear.
    pub(crate) spread: f64,
}

impl Axis {
    pub(crate) fn new(label: &str, unit: impl Into<AxisUnit>) -> Self {
        Axis {
            label: label.to_owned(),
            unit: unit.into(),
            log: false,
            names: Vec::new(),
            at_least: None,
            spread: SPREAD,
        }
    }

    /// Its label, which states that it is logarithmic.
    pub(crate) fn title(&self) -> String {
        format!("{}{}", self.label, if self.log { " (log)" } else { "" })
    }

    /// Seconds since the phase's start.
    pub(crate) fn time() -> Self {
        Axis::new("time since the start", AxisUnit::Second)
    }

    pub(crate) fn log(mut self) -> Self {
        self.log = true;
        self
    }

    pub(crate) fn names(label: &str, names: Vec<String>) -> Self {
        Axis { names, ..Axis::new(label, AxisUnit::Name) }
    }

    pub(crate) fn at_least(mut self, low: f64, high: f64) -> Self {
        self.at_least = Some((low, high));
        self
    }

    fn json(&self) -> Value {
        let origin = if let AxisUnit::Date(origin) = self.unit { Some(origin) } else { None };
        json!({
            "label": self.label,
            "unit": self.unit.name(),
            "origin": origin,
            "log": self.log,
            "names": self.names,
            "atLeast": self.at_least.map(|(low, high)| [low, high]),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// A line from point to point.
    Line,
    /// A broken line, for secondary values.
    Dashed,
    /// Points alone.
    Points,
    /// Each value holds until the next one's place; the area below is filled.
    Steps,
    /// A bar at each place, beside the other series' bars.
    Bars,
}

/// A series: a name and points. A value that is `None` is a gap.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) style: Style,
    pub(crate) points: Vec<(f64, Option<f64>)>,
    /// Around each point: from, to. Empty without.
    pub(crate) spread: Vec<Option<(f64, f64)>>,
}

impl Series {
    pub(crate) fn new(name: impl Into<String>, style: Style, points: Vec<(f64, Option<f64>)>) -> Self {
        Series { name: name.into(), style, points, spread: Vec::new() }
    }

    pub(crate) fn line(name: impl Into<String>, points: Vec<(f64, Option<f64>)>) -> Self {
        Series::new(name, Style::Line, points)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = f64> + '_ {
        self.points.iter().filter_map(|(_, y)| *y)
    }

    /// True if any value is above 0.
    pub(crate) fn is_some(&self) -> bool {
        self.values().any(|y| y > 0.0)
    }

    fn json(&self) -> Value {
        let style = match self.style {
            Style::Line => "line",
            Style::Dashed => "dashed",
            Style::Points => "points",
            Style::Steps => "steps",
            Style::Bars => "bars",
        };
        json!({
            "name": self.name,
            "style": style,
            "x": self.points.iter().map(|(x, _)| x).collect::<Vec<_>>(),
            "y": self.points.iter().map(|(_, y)| y).collect::<Vec<_>>(),
            "spread": self.spread,
        })
    }
}

/// Seven digits are more than a plot shows, and fewer bytes than sixteen.
fn short(value: f64) -> f64 {
    format!("{value:.6e}").parse().unwrap_or(value)
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plot {
    /// Its name in files and links: small letters and hyphens.
    pub(crate) name: String,
    pub(crate) title: String,
    /// One or two sentences: which end counted, and how to read the plot.
    pub(crate) note: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
    /// Places across that have a name.
    pub(crate) marks: Vec<(f64, String)>,
    /// A stretch across that does not count: the omitted start.
    pub(crate) shade: Option<(f64, f64)>,
}

impl Plot {
    /// An empty plot. Its name may be the text of a peer or a file: each character but letters and
    /// digits becomes a hyphen.
    pub(crate) fn new(name: &str, title: &str, x: Axis, y: Axis) -> Self {
        Plot {
            name: name.replace(|c: char| !c.is_alphanumeric(), "-"),
            title: title.to_owned(),
            note: String::new(),
            x,
            y,
            series: Vec::new(),
            marks: Vec::new(),
            shade: None,
        }
    }

    /// The plot of this title, which `new` makes where `plots` has none.
    pub(crate) fn titled<'a>(
        plots: &'a mut Vec<Plot>,
        title: &str,
        new: impl FnOnce() -> Plot,
    ) -> &'a mut Plot {
        let at = plots.iter().position(|plot| plot.title == title).unwrap_or_else(|| {
            plots.push(new());
            plots.len() - 1
        });
        &mut plots[at]
    }

    /// A plot of `label` over the time of a phase.
    pub(crate) fn timed(name: &str, title: &str, label: &str, unit: Unit) -> Self {
        Plot::new(name, title, Axis::time(), Axis::new(label, unit))
    }

    /// The same, with all from `low` to `high` always seen.
    pub(crate) fn at_least(self, low: f64, high: f64) -> Self {
        Plot { y: self.y.at_least(low, high), ..self }
    }

    pub(crate) fn note(mut self, text: impl Into<String>) -> Self {
        self.note = text.into();
        self
    }

    /// Adds a series that has at least one value; long ones are thinned, and numbers that nothing
    /// measures (none, endless, beyond 10^18) are gaps: arithmetic with them would have no place on
    /// the paper. All are rounded here, so that the drawing and the data beside it are the same
    /// numbers.
    pub(crate) fn add(&mut self, mut series: Series) {
        // Nothing lies between two names.
        if self.x.unit == AxisUnit::Name && matches!(series.style, Style::Line | Style::Dashed) {
            series.style = Style::Points;
        }
        let sane = |v: f64| v == 0.0 || (SMALLEST..=LARGEST).contains(&v.abs());
        let around = std::mem::take(&mut series.spread).into_iter().chain(std::iter::repeat(None));
        let kept = series.points.drain(..).zip(around).filter(|((x, _), _)| sane(*x));
        let value = |y: Option<f64>| y.filter(|y| sane(*y)).map(short);
        let around = |s: Option<(f64, f64)>| {
            s.filter(|s| sane(s.0) && sane(s.1)).map(|(low, high)| (short(low), short(high)))
        };
        let kept = kept.map(|((x, y), s)| ((short(x), value(y)), around(s)));
        let (points, spread): (Vec<_>, Vec<_>) = kept.unzip();
        series.points = points;
        if spread.iter().any(Option::is_some) {
            series.spread = spread;
        }
        if series.points.len() > MOST_POINTS {
            let text = format!(" '{}' is thinned: of each stretch the extremes are shown.", series.name);
            self.note.push_str(&text);
            series.points = thinned(&series.points, MOST_POINTS);
            series.spread.clear();
        }
        if series.values().next().is_some() {
            self.series.push(series);
        }
    }

    pub(crate) fn with(mut self, series: impl IntoIterator<Item = Series>) -> Self {
        series.into_iter().for_each(|series| self.add(series));
        self
    }

    /// The plot, if it shows anything; logarithmic upwards where the values spread widely.
    pub(crate) fn some(mut self) -> Option<Self> {
        self.y.log |= self.is_spread();
        if self.y.log && self.series.iter().flat_map(Series::values).any(|y| y == 0.0) {
            let space = if self.note.is_empty() { "" } else { " " };
            self.note.extend([space, "Zeros lie at the lower edge of the logarithmic axis."]);
        }
        (!self.series.is_empty()).then_some(self)
    }

    /// True if times differ by more than the axis' spread, usually [`SPREAD`], or the largest values of the series of other
    /// figures do: these fall to next to nothing for a moment.
    fn is_spread(&self) -> bool {
        let series = || self.series.iter().map(Series::values);
        let values: Vec<f64> = match self.y.unit {
            AxisUnit::Figure(Unit::Ns) => series().flatten().collect(),
            _ => series().map(|values| values.fold(0.0, f64::max)).collect(),
        };
        let above = values.into_iter().filter(|value| *value > 0.0);
        let (low, high) = above.fold((f64::MAX, 0.0), |(low, high): (f64, f64), v| (low.min(v), high.max(v)));
        let is_negative = series().flatten().any(|y| y < 0.0);
        self.y.at_least.is_none() && !is_negative && high > self.y.spread * low
    }

    /// True if it shows anything but zeros.
    pub(crate) fn tells(&self) -> bool {
        self.series.iter().flat_map(Series::values).any(|y| y != 0.0)
    }

    /// Description of the plot for screen readers.
    pub(crate) fn describe(&self) -> String {
        let mut text = format!("{}: {} against {}.", self.title, self.y.title(), self.x.title());
        for series in self.series.iter().take(12) {
            let (mut n, mut low, mut high, mut sum) = (0u32, f64::MAX, f64::MIN, 0.0);
            for y in series.values() {
                (n, low, high, sum) = (n + 1, low.min(y), high.max(y), sum + y);
            }
            let value = |v| show(&self.y, v);
            let mean = if n > 0 { sum / f64::from(n) } else { 0.0 };
            text.push_str(&format!(
                " {}: {n} points from {} to {}, mean {}.",
                series.name,
                value(low),
                value(high),
                value(mean)
            ));
        }
        if self.series.len() > 12 {
            text.push_str(&format!(" And {} more series.", self.series.len() - 12));
        }
        text
    }

    /// For the page's script.
    pub(crate) fn json(&self) -> Value {
        json!({
            "name": self.name,
            "title": self.title,
            "x": self.x.json(),
            "y": self.y.json(),
            "series": self.series.iter().map(Series::json).collect::<Vec<_>>(),
            "marks": self.marks,
            "shade": self.shade.map(|(from, to)| [from, to]),
        })
    }
}

/// At most about `most` points: of each stretch the lowest and the highest, in order.
fn thinned(points: &[(f64, Option<f64>)], most: usize) -> Vec<(f64, Option<f64>)> {
    let stretch = points.len().div_ceil((most / 2).max(1)).max(1);
    let mut kept = Vec::with_capacity(most + 2);
    for part in points.chunks(stretch) {
        let known = || part.iter().enumerate().filter_map(|(at, (_, y))| y.map(|y| (at, y)));
        let low = known().min_by(|a, b| a.1.total_cmp(&b.1));
        let high = known().max_by(|a, b| a.1.total_cmp(&b.1));
        let Some(((low, _), (high, _))) = low.zip(high) else {
            kept.extend(part.first());
            continue;
        };
        kept.push(part[low.min(high)]);
        if low != high {
            kept.push(part[low.max(high)]);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_extremes_and_order() {
        let points: Vec<_> = (0..100_001).map(|i| (f64::from(i), Some(f64::from(i * 7919 % 1000)))).collect();
        let kept = thinned(&points, 1_000);
        assert!(kept.len() <= 1_002, "{}", kept.len());
        assert!(kept.windows(2).all(|w| w[0].0 < w[1].0));
        let extremes = |points: &[(f64, Option<f64>)]| {
            let values = || points.iter().filter_map(|p| p.1);
            (values().fold(f64::MAX, f64::min), values().fold(f64::MIN, f64::max))
        };
        assert_eq!(extremes(&kept), extremes(&points));
        let gaps: Vec<_> = (0..5_000).map(|i| (f64::from(i), None)).collect();
        assert!(thinned(&gaps, 100).iter().all(|p| p.1.is_none()));
    }

    #[test]
    fn a_name_is_one_in_files_and_markup() {
        let plot = |name: &str| Plot::timed(name, "", "", Unit::Count);
        assert_eq!(plot("delay-up").name, "delay-up");
        assert_eq!(plot("../x").name, "---x");
        let drawn = inline(&plot("\"><script>"));
        assert!(!drawn.contains("<script") && drawn.contains("id=\"---script--t\""), "{drawn}");
    }

    #[test]
    fn axes_are_linear_up_to_a_spread_of_ten_and_state_it_beyond() {
        let plot = |unit: Unit, of: [&[f64]; 2]| {
            let place = |(at, y): (u32, &f64)| (f64::from(at), Some(*y));
            let series = of.map(|values| Series::line("s", (0..).zip(values).map(place).collect()));
            Plot::timed("x", "x", "delay", unit).with(series).some().unwrap()
        };
        for (unit, linear, log) in [
            // Of times all values count, of other figures the largest of each series.
            (Unit::Ns, [&[1.0, 10.0][..], &[5.0][..]], [&[1.0, 10.5][..], &[5.0][..]]),
            (Unit::BitsPerSecond, [&[1e3, 1e9][..], &[1e8][..]], [&[1e3, 1e9][..], &[0.9e8][..]]),
        ] {
            let (linear, log) = (plot(unit, linear), plot(unit, log));
            assert!(!linear.y.log && log.y.log, "{unit:?}");
            assert!(!inline(&linear).contains("(log)") && inline(&log).contains("delay (log)"), "{unit:?}");
            let drawn = panels(&[log], 1.0, &[], &[(0.0, 0.5)], 940.0);
            assert!(drawn.contains("delay (log)") && drawn.contains("class=\"shade\""), "{drawn}");
        }
        let zeros = plot(Unit::Ns, [&[0.0, 1.0], &[31.0]]);
        assert!(zeros.y.log && zeros.note.contains("Zeros lie at the lower edge"), "{}", zeros.note);
        assert!(!plot(Unit::Ns, [&[-1.0, 1.0], &[31.0]]).y.log, "a logarithm has no sign");
    }

    #[test]
    fn no_line_joins_names() {
        let plot =
            Plot::new("x", "x", Axis::names("", vec!["a".into(), "b".into()]), Axis::new("y", Unit::Count));
        let plot = plot.with([Series::line("s", vec![(0.0, Some(1.0)), (1.0, Some(2.0))])]);
        assert_eq!(plot.series[0].style, Style::Points);
    }

    #[test]
    fn what_cannot_be_seen_is_told() {
        let points = vec![(0.0, Some(1e9)), (1.0, None), (2.0, Some(3e9))];
        let plot = Plot::timed("goodput", "Goodput", "goodput", Unit::BitsPerSecond)
            .with([Series::line("to server", points), Series::line("nothing", vec![(0.0, None)])]);
        assert_eq!(
            plot.describe(),
            "Goodput: goodput against time since the start. to server: 2 points from 1 Gbit/s to 3 Gbit/s, mean 2 \
             Gbit/s."
        );
        assert_eq!(plot.series.len(), 1, "a series without values is not shown");
    }
}
