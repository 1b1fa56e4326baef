//! Media streams: frames over time, and which buffer depth would have been enough.

use super::measured;
use crate::plot::{Axis, Plot, Series, Style};
use metrics::{PlayoutSummary, real, seconds};
use model::{End, FrameTime, Measure, Point, Unit};

/// How evenly the frames of a stream came, one by one: ctsTraffic's jitter table.
fn times(point: &Point) -> Vec<Plot> {
    let Some(times) = &point.frame_times else { return Vec::new() };
    let line = |of: fn(&FrameTime) -> f64| -> Vec<_> {
        times.rows.iter().map(|row| (seconds(row.at_ns), Some(of(row)))).collect()
    };
    let each = times.rows.iter().map(|row| row.frames).max().unwrap_or(1);
    let joined = |which: &str| match each {
        1 => String::new(),
        n => format!(" A point stands for up to {n} frames that followed each other{which}."),
    };
    let mut jitter =
        vec![Series::line(if each > 1 { "mean" } else { "from the frame before" }, line(|r| r.jitter_ns))];
    if each > 1 {
        jitter.push(Series::new("largest", Style::Dashed, line(|r| r.most_ns)));
    }
    vec![
        Plot::timed("jitter", "Jitter of the frames", "jitter", Unit::Ns)
            .note(format!(
                "By how much the time in flight of each whole frame of the first stream differs from that of the whole frame before, \
                 from its last datagram's stamps, at the time when it came (since the first one).{}",
                joined("")
            ))
            .with(jitter),
        Plot::timed("frame-flight", "Time in flight of the frames", "more than the first frame's", Unit::Ns)
        .note(format!(
            "Of the first stream, relative to its first whole frame: this plot does not compare the two clocks, and a slope is what \
             they drift apart, or a queue that grows.{}",
            joined(": the longest of their times")
        ))
        .with([Series::line("whole frames", line(|r| real(r.flight_ns)))]),
    ]
}

pub(super) fn plots(point: &Point) -> Vec<Plot> {
    let count = |measure| measured(point, measure, End::Local);
    let unwell = [
        Series::line("dropped: bytes were missing", count(Measure::FRAMES_DROPPED)),
        Series::line("repeated", count(Measure::FRAMES_REPEATED)),
        Series::line("datagrams of no frame", count(Measure::FRAMES_OF_NONE)),
    ];
    let frames = Plot::timed("frames", "Frames over time", "frames in the interval", Unit::Count)
        .note("As the receiver at this end judged them when they were to be shown.")
        .with([Series::line("whole and in time", count(Measure::FRAMES_WHOLE))])
        .with(unwell.into_iter().filter(Series::is_some));
    let ends = std::iter::once(("received here", &point.local))
        .chain(point.remote.iter().map(|totals| ("received there", totals)));
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
        let points = playout.misses.iter().map(|&(depth, n)| (real(depth), Some(real(n))));
        Series::line(*name, points.collect())
    }));
    [frames, misses].into_iter().chain(times(point)).filter_map(Plot::some).collect()
}
