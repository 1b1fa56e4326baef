//! Media streams: frames over time, and which buffer depth would have been enough.

use super::over_time;
use crate::plot::{Axis, Plot, Series, Unit};
use metrics::{Frames, PlayoutSummary};
use model::Point;

pub(super) fn plots(point: &Point) -> Vec<Plot> {
    let count =
        |of: fn(&Frames) -> u64| over_time(point, move |i| i.frames.as_ref().map(|frames| of(frames) as f64));
    let unwell = [
        Series::line("dropped: bytes were missing", count(|f| f.dropped)),
        Series::line("repeated", count(|f| f.repeated)),
        Series::line("datagrams of no frame", count(|f| f.errors)),
    ];
    let frames = Plot::new(
        "frames",
        "Frames over time",
        Axis::time(),
        Axis::new("frames in the interval", Unit::Count),
    )
    .note("As the receiver at this end judged them when they were to be shown.")
    .with([Series::line("whole and in time", count(|f| f.completed))])
    .with(unwell.into_iter().filter(Series::is_some));
    let ends = std::iter::once(("received here", &point.near))
        .chain(point.far.iter().map(|totals| ("received there", totals)));
    let known: Vec<(&str, &PlayoutSummary)> =
        ends.filter_map(|(name, totals)| Some((name, totals.playout.as_ref()?))).collect();
    let misses = Plot::new(
        "buffer-depth",
        "Frames missed by the depth of the buffer",
        Axis::new("depth of the player's buffer", Unit::Ns),
        Axis::new("frames missed", Unit::Count),
    )
    .note("What a player that holds so much would not have had in time; what lies flat was never complete.")
    .with(known.iter().map(|(name, playout)| {
        let points = playout.misses.iter().map(|&(depth, n)| (depth as f64, Some(n as f64)));
        Series::line(*name, points.collect())
    }));
    [frames, misses].into_iter().filter_map(Plot::some).collect()
}
