//! What failed, and when.

use super::over_time;
use crate::plot::{Plot, Series, Style};
use metrics::{Ending, real, seconds};
use model::{ConnectionRecord, Interval, Point, Unit};

pub(super) fn plots(point: &Point) -> Option<Plot> {
    if point.errors() == 0 {
        return None;
    }
    let mut before = (0, 0);
    let grown: Vec<(u64, u64)> = point
        .intervals
        .iter()
        .filter(|i| i.ns() > 0)
        .map(|i| {
            let now = (i.network_errors, i.data_errors);
            let more = (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1));
            before = now;
            more
        })
        .collect();
    let line = |name: &str, of: fn(&(u64, u64)) -> u64| {
        let places = over_time(point, |_: &Interval| None);
        let points = places.iter().zip(&grown).map(|((x, _), more)| (*x, Some(real(of(more)))));
        Series::line(name, points.collect())
    };
    let single = |name: &str, class: Ending| {
        let own = point.connections.iter().filter(|c: &&ConnectionRecord| c.result == class);
        Series::new(name, Style::Points, own.map(|c| (seconds(c.ended_ns), Some(1.0))).collect())
    };
    Plot::timed("failures", "Failures over time", "connections that failed", Unit::Count)
    .note(
        "Lines: counted in each interval at this end. Points: single connections of which there is a record.",
    )
    .with([
        line("network errors", |m| m.0),
        line("data and protocol errors", |m| m.1),
        single("a network error", Ending::NetworkError),
        single("a data error", Ending::DataError),
        single("a protocol error", Ending::ProtocolError),
    ])
    .some()
}
