//! Round trips: percentiles over time, the whole curve, the histogram, and what did not come back.

use super::{curve, histogram, measured, over_time, percentiles, times_axis};
use crate::plot::{Plot, Series, Style};
use metrics::{Spectrum, per_second, real};
use model::{End, Interval, Measure, PingInterval, Point, Unit};

pub(super) fn plots(point: &Point) -> Vec<Plot> {
    let over = |measure| measured(point, measure, End::Local);
    let mut plots = vec![
        Plot::timed("latency", "Round-trip time over time", "round-trip time", Unit::Ns)
            .log()
            .note("From the actual send until the echo was whole, of each interval's messages.")
            .with([
                Series::line("median", over(Measure::RTT_P50)),
                Series::line("99th percentile", over(Measure::RTT_P99)),
                Series::new("largest", Style::Dashed, over(Measure::RTT_MAX)),
                Series::new("smallest", Style::Dashed, over(Measure::RTT_MIN)),
            ]),
    ];
    if let Some(trips) = &point.local.pings {
        let kinds: [(&str, &Option<Spectrum>); 5] = [
            ("from the actual send", &trips.rtt_ns),
            ("from the intended send", &trips.intended_ns),
            ("without server turnaround", &trips.path_ns),
            ("in the remote end", &trips.remote_ns),
            ("by the kernel's stamps", &trips.kernel_ns),
        ];
        let known = || kinds.iter().filter_map(|(name, times)| Some((*name, times.as_ref()?)));
        plots.push(
            percentiles("percentiles", "Round-trip times, all percentiles", "round-trip time")
                .note("Of all messages: a line ends where lost messages begin, else at the largest value.")
                .with(known().map(|(name, times)| curve(name, times))),
        );
        let slugs = ["histogram", "histogram-2", "histogram-3", "histogram-4", "histogram-5"];
        for ((name, times), slug) in known().zip(slugs) {
            let (series, log) = histogram(name, times);
            let (x, y) = times_axis(log);
            plots.push(Plot::new(slug, &format!("Round-trip times {name}"), x, y).with([series]));
        }
    }
    plots.extend(fates(point));
    plots.into_iter().filter_map(Plot::some).collect()
}

/// Messages that did not come back well, and how many were sent.
fn fates(point: &Point) -> Vec<Plot> {
    let count = |of: fn(&PingInterval) -> f64| over_time(point, move |i: &Interval| i.pings.as_ref().map(of));
    let unwell = [
        Series::line("lost", count(|p| real(p.counts.lost.max(0)))),
        Series::line("late", count(|p| real(p.counts.late))),
        Series::line("damaged", count(|p| real(p.counts.damaged))),
        Series::line("repeated", count(|p| real(p.counts.repeated))),
        Series::line("not sent in time", count(|p| real(p.counts.missed))),
    ];
    let rate = over_time(point, |i| Some(per_second(i.pings?.counts.sent, i.ns())));
    vec![
        Plot::timed(
            "messages-unwell",
            "Messages that did not come back well",
            "messages in the interval",
            Unit::Count,
        )
        .note("Late ones came after their time was up; they are not lost.")
        .with(unwell.into_iter().filter(Series::is_some)),
        Plot::timed("messages", "Messages sent", "messages", Unit::PerSecond)
            .with([Series::line("sent", rate)]),
    ]
}
