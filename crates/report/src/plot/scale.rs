//! Place of a value on an axis, and the values written beside it. `html/report.js` does the same
//! for a zoomed range.

use super::{Axis, AxisUnit, Plot, Series};
use jiff::Timestamp;
use metrics::{Clamped, real};
use model::Unit;

/// Most ticks of an axis.
const MOST_TICKS: f64 = 7.0;

/// Room left and right of the first and last place, as a share of the width: what lies at the edge
/// is seen whole.
const EDGE: f64 = 0.012;

/// From values to 0..=1 along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    pub(super) low: f64,
    pub(super) high: f64,
    log: bool,
}

impl Scale {
    /// From `low` to `high`, which have to differ; a little is added when they do not.
    pub(super) fn new(low: f64, high: f64, log: bool) -> Self {
        let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        match (log, high > low) {
            (true, _) => {
                let low = if low > 0.0 { low } else { 1.0 };
                let high = if high > low { high } else { low * 10.0 };
                Scale { low, high, log }
            }
            (false, true) => Scale { low, high, log },
            (false, false) => Scale { low, high: low + low.abs().max(1.0), log },
        }
    }

    /// Place of `value`, 0 at the low end, 1 at the high end, beyond both where it is outside;
    /// `None` when it cannot be drawn.
    pub(super) fn at(self, value: f64) -> Option<f64> {
        if !value.is_finite() || (self.log && value <= 0.0) {
            return None;
        }
        Some(match self.log {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        })
    }

    /// The same upwards, where a logarithmic axis has its zeros at the lower edge.
    pub(super) fn height(self, value: f64) -> Option<f64> {
        if self.log && value == 0.0 { Some(0.0) } else { self.at(value) }
    }

    fn value(self, at: f64) -> f64 {
        match self.log {
            true => self.low * (self.high / self.low).powf(at),
            false => self.low + (self.high - self.low) * at,
        }
    }
}

/// Across: all places there are.
pub(super) fn across(plot: &Plot) -> Scale {
    if plot.x.unit == AxisUnit::Name {
        return Scale::new(-0.5, real(plot.x.names.len()) - 0.5, false);
    }
    let places = plot.series.iter().flat_map(|s| s.points.iter().map(|p| p.0));
    let places = places.filter(|x| !plot.x.log || *x > 0.0);
    let (low, high) = extent(places.chain(bounds(&plot.x)));
    let (low, high) = match (plot.x.unit, low == high) {
        (AxisUnit::Second, alone) => (low.min(0.0), if alone { high * 2.0 } else { high }),
        (_, true) if !plot.x.log => (low - low.abs() / 2.0, high + high.abs() / 2.0),
        _ => (low, high),
    };
    let bare = Scale::new(low, high, plot.x.log);
    Scale::new(bare.value(-EDGE), bare.value(1.0 + EDGE), plot.x.log)
}

/// Up: all values there are and, unless logarithmic, 0.
pub(super) fn up(plot: &Plot) -> Scale {
    let of = |series: &Series| {
        let spread = series.spread.iter().flatten().flat_map(|(low, high)| [*low, *high]);
        series.values().chain(spread).collect::<Vec<f64>>()
    };
    let values = plot.series.iter().flat_map(of).filter(|y| !plot.y.log || *y > 0.0);
    let (low, high) = extent(values.chain(bounds(&plot.y)));
    if plot.y.log {
        return Scale::new(low / 1.25, high * 1.25, true);
    }
    let low = low.min(0.0);
    let room = (high - low) * 0.05;
    let held = plot.y.at_least.is_some_and(|(_, most)| high <= most);
    Scale::new(if low < 0.0 { low - room } else { low }, if held { high } else { high + room }, false)
}

fn bounds(axis: &Axis) -> impl Iterator<Item = f64> {
    axis.at_least.into_iter().flat_map(|(low, high)| [low, high])
}

fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.filter(|v| v.is_finite()).fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)))
}

/// Pixels that a text of 12 px takes, about.
pub(super) fn width(text: &str) -> f64 {
    6.6 * real(text.chars().count())
}

/// Which of some texts, each around a place, are written, and where: none beyond `end`, none over
/// another.
pub(super) fn apart(texts: &[(f64, String)], end: f64) -> Vec<Option<f64>> {
    let mut free = f64::MIN;
    let place = |(at, text): &(f64, String)| {
        let half = width(text) / 2.0;
        let at = at.min(end - half);
        (at - half >= free).then(|| {
            free = at + half + 6.0;
            at
        })
    };
    texts.iter().map(place).collect()
}

/// The values that are written beside an axis, with their text, and the unit's text for its label.
pub(super) fn ticks(axis: &Axis, scale: Scale) -> (Vec<(f64, String)>, String) {
    let (base, prefixes, suffix) = axis.unit.words();
    match axis.unit {
        AxisUnit::Name => {
            let every = usize::clamped((real(axis.names.len()) / 12.0).ceil().max(1.0));
            let named = axis.names.iter().enumerate().step_by(every);
            (named.map(|(at, name)| (real(at), name.clone())).collect(), String::new())
        }
        AxisUnit::Percentile => (percentiles(scale), String::new()),
        AxisUnit::Date(origin) => (dates(origin, scale), String::new()),
        // The space beside an axis is too narrow for this unit.
        AxisUnit::Figure(Unit::BitsPerSecond) if scale.log => {
            let short = |text: String| text.trim_end_matches(suffix).trim_end().to_owned();
            let all = decades(axis, scale).into_iter().map(|(value, text)| (value, short(text)));
            (all.collect(), suffix.to_owned())
        }
        _ if scale.log => (decades(axis, scale), String::new()),
        _ => {
            let most = scale.high.abs().max(scale.low.abs());
            let at = rank(most, base, prefixes.len());
            let factor = base.powi(i32::clamped(at));
            let step = nice((scale.high - scale.low) / factor / MOST_TICKS) * factor;
            let digits = usize::clamped((-(step / factor).log10().floor()).max(0.0));
            let first = i64::clamped((scale.low / step - 1e-9).ceil());
            let last = i64::clamped((scale.high / step + 1e-9).floor());
            let all = (first..=last.min(first.saturating_add(50))).map(|n| {
                let value = real(n) * step;
                (value, format!("{:.digits$}", value / factor))
            });
            (all.collect(), format!("{}{suffix}", prefixes[at]))
        }
    }
}

/// 1, 2 or 5 times a power of ten, not below `step`.
fn nice(step: f64) -> f64 {
    round_up(step, &[1.0, 2.0, 5.0])
}

/// One of `steps`, which lie below 10, times a power of ten, not below `value`; 1 where that is no
/// number above 0.
pub fn round_up(value: f64, steps: &[f64]) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let decade = 10f64.powf(value.log10().floor());
    let first = steps.iter().find(|step| *step * decade >= value * (1.0 - 1e-9));
    decade * first.unwrap_or(&10.0)
}

/// The prefix for values around `most`.
fn rank(most: f64, base: f64, prefixes: usize) -> usize {
    let mut at = 0;
    // A value that would be rounded to the base has the next prefix.
    while at + 1 < prefixes && most / base.powi(i32::clamped(at)) >= base - 0.5 {
        at += 1;
    }
    at
}

/// Powers of ten (of two for bytes); with few of them 2 and 5 times them as well.
fn decades(axis: &Axis, scale: Scale) -> Vec<(f64, String)> {
    let base: f64 = if axis.unit == Unit::Bytes.into() { 2.0 } else { 10.0 };
    let (first, last) = (
        i32::clamped((scale.low.ln() / base.ln()).floor()),
        i32::clamped((scale.high.ln() / base.ln()).ceil()),
    );
    let span = f64::from(last - first);
    let every = i32::clamped((span / (MOST_TICKS + 2.0)).ceil().max(1.0));
    let within: &[f64] = if base > 2.0 && span <= 3.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let powers = (first..=last).filter(|n| n.rem_euclid(every) == 0);
    let all = powers.flat_map(|n| within.iter().map(move |m| m * base.powi(n)));
    let mut all: Vec<f64> = all.filter(|v| *v >= scale.low * 0.999 && *v <= scale.high * 1.001).collect();
    if all.len() < 2 {
        // So short that no two powers are seen.
        let step = nice((scale.high - scale.low) / 4.0);
        let first = (scale.low / step).ceil() * step;
        all = (0..20).map(|n| first + f64::from(n) * step).take_while(|v| *v <= scale.high).collect();
    }
    all.into_iter().map(|v| (v, show(axis, v))).collect()
}

/// Seconds, and days, between two dates beside an axis.
const SECONDS: [i64; 12] = [1, 5, 15, 60, 300, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200];
const DAYS: [i64; 7] = [1, 2, 7, 14, 28, 91, 364];
const DAY: i64 = 86_400;

/// Round dates between the ends: days, or times of day with the day.
fn dates(origin: i64, scale: Scale) -> Vec<(f64, String)> {
    let wanted = (scale.high - scale.low) / MOST_TICKS;
    let mut steps = SECONDS.into_iter().chain(DAYS.map(|days| days * DAY));
    let step = steps.find(|step| real(*step) >= wanted).unwrap_or(364 * DAY);
    let text = |at: i64| match date(origin, real(at)) {
        text if step >= DAY => text.chars().take(10).collect(),
        text => text.chars().skip(5).take(if step < 60 { 14 } else { 11 }).collect::<String>(),
    };
    let (low, high) = (i64::clamped(scale.low.ceil()), i64::clamped(scale.high.floor()));
    let first = low.saturating_add(origin.saturating_add(low).saturating_neg().rem_euclid(step));
    (0..50)
        .map(|n| first.saturating_add(n * step))
        .take_while(|at| *at <= high)
        .map(|at| (real(at), text(at)))
        .collect()
}

/// `2026-11-24 17:00:00`, at `after` seconds after the origin.
fn date(origin: i64, after: f64) -> String {
    let at = Timestamp::from_second(origin.saturating_add(i64::clamped(after.round())));
    at.map_or("-".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// `0 %, 50 %, 90 %, 99 %, …` at 1, 2, 10, 100, ….
fn percentiles(scale: Scale) -> Vec<(f64, String)> {
    let all = [1.0, 2.0].into_iter().chain((1..=12).map(|n| 10f64.powi(n)));
    all.filter(|v| *v >= scale.low * 0.999 && *v <= scale.high * 1.001).map(|v| (v, percentile(v))).collect()
}

/// `99.9 %` of 1000.
fn percentile(odds: f64) -> String {
    let digits = usize::clamped((odds.max(1.0).log10() - 2.0 - 1e-9).ceil().max(0.0));
    format!("{:.digits$} %", 100.0 * (1.0 - 1.0 / odds.max(1.0)))
}

/// A value with its unit: three significant digits, trailing zeros left out.
pub(crate) fn show(axis: &Axis, value: f64) -> String {
    match axis.unit {
        AxisUnit::Name => axis.names.get(usize::clamped(value.round().max(0.0))).cloned().unwrap_or_default(),
        AxisUnit::Percentile => percentile(value),
        AxisUnit::Date(origin) => date(origin, value),
        AxisUnit::Figure(Unit::Share) => trimmed(value, 4),
        unit => {
            let (base, prefixes, suffix) = unit.words();
            let at = rank(value.abs(), base, prefixes.len());
            let digits = if prefixes.len() == 1 { 4 } else { 3 };
            let number = trimmed(value / base.powi(i32::clamped(at)), digits);
            let words = format!("{}{suffix}", prefixes[at]);
            if words.is_empty() { number } else { format!("{number} {words}") }
        }
    }
}

/// `value` with this many significant digits, and no useless zeros behind the point.
fn trimmed(value: f64, digits: i32) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let behind = usize::clamped((digits - 1 - value.abs().log10().floor() as i32).clamp(0, 9));
    let text = format!("{value:.behind$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts of the ticks of an axis, and the unit that they share.
    fn tick_texts(axis: &Axis, low: f64, high: f64, log: bool) -> String {
        let (all, words) = ticks(axis, Scale::new(low, high, log));
        let texts: Vec<String> = all.into_iter().map(|(_, text)| text).collect();
        format!("{} [{words}]", texts.join(", "))
    }

    fn linear(unit: impl Into<AxisUnit>, low: f64, high: f64) -> String {
        tick_texts(&Axis::new("", unit), low, high, false)
    }

    fn log(unit: impl Into<AxisUnit>, low: f64, high: f64) -> String {
        tick_texts(&Axis::new("", unit).log(), low, high, true)
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(linear(Unit::BitsPerSecond, 0.0, 12.6e9), "0, 2, 4, 6, 8, 10, 12 [Gbit/s]");
        assert_eq!(linear(Unit::Ns, 0.0, 900.0), "0, 200, 400, 600, 800 [ns]");
        assert_eq!(linear(Unit::Share, 0.0, 1.0), "0.0, 0.2, 0.4, 0.6, 0.8, 1.0 []");
        let mib = 1024.0 * 1024.0;
        assert_eq!(linear(Unit::Bytes, 0.0, 3.0 * mib), "0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0 [MiB]");
        let seconds = linear(AxisUnit::Second, 3.0, 3.5);
        assert!(seconds.starts_with("3.0, 3.1, 3.2, 3.3, 3.4, 3.5 ["), "{seconds}");
    }

    #[test]
    fn dates_are_round_whatever_the_origin() {
        // date -u -d '2026-11-24 17:13:20' +%s
        let origin = 1_795_540_400;
        let of = |seconds: f64| {
            let text = linear(AxisUnit::Date(origin), 0.0, seconds);
            text.rsplit_once(" [").unwrap().0.to_owned()
        };
        assert_eq!(of(7_200.0), "11-24 17:30, 11-24 18:00, 11-24 18:30, 11-24 19:00");
        assert_eq!(of(4.0 * 86_400.0), "2026-11-25, 2026-11-26, 2026-11-27, 2026-11-28");
        assert_eq!(of(30.0), [20, 25, 30, 35, 40, 45, 50].map(|s| format!("11-24 17:13:{s}")).join(", "));
        assert_eq!(of(3.0 * 365.0 * 86_400.0).split(", ").count(), 3);
        assert_eq!(show(&Axis::new("", AxisUnit::Date(origin)), 60.0), "2026-11-24 17:14:20");
        assert_eq!(show(&Axis::new("", AxisUnit::Date(i64::MAX)), 60.0), "-", "no such date");
    }

    #[test]
    fn logarithmic_axes_have_decades() {
        assert_eq!(log(Unit::Ns, 9e3, 2e8), "10 µs, 100 µs, 1 ms, 10 ms, 100 ms []");
        assert_eq!(log(Unit::Ns, 15e3, 210e3), "20 µs, 50 µs, 100 µs, 200 µs []");
        assert_eq!(log(Unit::Bytes, 64.0, 1024.0), "64 B, 128 B, 256 B, 512 B, 1 KiB []");
        let percentiles = "0 %, 50 %, 90 %, 99 %, 99.9 %, 99.99 % []";
        assert_eq!(log(AxisUnit::Percentile, 1.0, 12_000.0), percentiles);
    }

    #[test]
    fn texts_stand_apart() {
        let texts = |places: &[f64]| places.iter().map(|x| (*x, "99.9 %".to_owned())).collect::<Vec<_>>();
        // 39.6 px each, and 6 px between two; the last is moved to the left, or left out.
        assert_eq!(apart(&texts(&[0.0, 45.0, 46.0, 100.0]), 110.0), [Some(0.0), None, Some(46.0), None]);
        assert_eq!(apart(&texts(&[100.0]), 110.0), [Some(110.0 - 19.8)]);
    }

    #[test]
    fn values_have_three_digits() {
        let shown = |unit: Unit, v| show(&Axis::new("", unit), v);
        assert_eq!(shown(Unit::BitsPerSecond, 9.876e9), "9.88 Gbit/s");
        assert_eq!(shown(Unit::Ns, 12_340.0), "12.3 µs");
        assert_eq!(shown(Unit::Ns, 61e9), "61 s");
        assert_eq!(shown(Unit::Bytes, 65_536.0), "64 KiB");
        assert_eq!(shown(Unit::Count, 0.0), "0");
        assert_eq!(shown(Unit::PerSecond, 33_300.0), "33.3 k/s");
        assert_eq!(shown(Unit::Percent, 0.123_44), "0.1234 %");
        assert_eq!(shown(Unit::Share, 0.999_9), "0.9999");
    }

    #[test]
    fn every_value_has_its_place() {
        let scale = Scale::new(10.0, 1000.0, true);
        assert_eq!(scale.at(100.0), Some(0.5));
        assert_eq!(scale.at(0.0), None, "a logarithm has no zero");
        assert_eq!(Scale::new(0.0, 4.0, false).at(1.0), Some(0.25));
        assert_eq!(Scale::new(5.0, 5.0, false).at(5.0), Some(0.0), "one value is no division by zero");
        assert_eq!(Scale::new(f64::MAX, f64::MIN, false), Scale::new(0.0, 1.0, false), "nothing to show");
        assert_eq!(Scale::new(0.0, 1.0, false).at(f64::NAN), None);
    }
}
