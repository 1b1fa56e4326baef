//! Capacity tests: the rate over the sub-intervals, and the variation of delays in each.

use crate::plot::{Plot, Series, Style};
use metrics::real;
use model::{Capacity, DelayVariation, Point, SubInterval, Unit};

pub(super) fn plots(point: &Point) -> Vec<Plot> {
    let Some(found) = point.capacity.as_deref() else { return Vec::new() };
    let mut rates = Plot::timed(
        "capacity",
        "Rate of IP packets by sub-interval",
        "rate of IP packets",
        Unit::BitsPerSecond,
    )
    .note("As the receiver counted them, headers included. The best sub-interval is the capacity.")
    .with([steps("IP packets", found, |one| Some(one.ip_bps))]);
    if let Some(best) = found.sub_interval(found.best) {
        rates.marks.push((real(u64::from(best.end_ms)) / 1e3, "best".to_owned()));
    }
    let most = |of: Option<DelayVariation>| of.map(|of| real(u64::from(of.max_ms)) * 1e6);
    let delays = Plot::timed(
        "capacity-delays",
        "Largest delay above the least by sub-interval",
        "delay above the least",
        Unit::Ns,
    )
    .note("In whole milliseconds: a delay that rises with the rate is a queue that fills.")
    .with([
        steps("one way", found, |one| most(one.delay)),
        steps("round trip", found, |one| most(one.round_trip)),
    ]);
    vec![rates, delays]
}

/// A value holds until the next sub-interval ends.
fn steps(name: &str, found: &Capacity, of: impl Fn(&SubInterval) -> Option<f64>) -> Series {
    let ends = found.sub_intervals.iter().map(|one| real(u64::from(one.end_ms)) / 1e3);
    let values = found.sub_intervals.iter().map(of).chain([None]);
    Series::new(name, Style::Steps, std::iter::once(0.0).chain(ends).zip(values).collect())
}
