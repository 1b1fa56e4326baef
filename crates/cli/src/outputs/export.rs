//! Results on their way to other programs' servers.

use crate::outputs::watch::host_name;
use console::{signals, stderr};
use export::{Background, Delivery, Exporter, Reading};
use metrics::Wall;
use model::{Assertion, Outcome, Point};
use std::time::Duration;

/// Longest time that sending takes at the end of a run.
const LIMIT: Duration = Duration::from_secs(5);

/// The figures of a run.
pub(crate) fn of_run(outcome: &Outcome, conditions: &[Assertion]) -> Reading {
    Reading {
        sheet: report::run_gauges(outcome, conditions),
        at: end_of(outcome),
        group: report::labels_of_run(outcome),
        host: host_name(),
        version: outcome.begin.version.clone(),
    }
}

/// Time of the end of a run's last interval, else of its start: also of a run that was saved.
fn end_of(outcome: &Outcome) -> Wall {
    let of_point = |point: &Point| {
        let length_ns = point.intervals.last().map_or(0, |interval| interval.end_ns);
        Some(point.started?.0.saturating_add_unsigned(length_ns))
    };
    let ended = outcome.points.iter().filter_map(of_point).max();
    Wall(ended.unwrap_or_default().max(outcome.begin.started.0))
}

/// The figures of a fleet.
#[cfg(feature = "fleet")]
pub(crate) fn of_fleet(matrix: &fleet::matrix::Matrix) -> Reading {
    Reading {
        sheet: fleet::matrix::metrics_sheet(matrix),
        at: matrix.made,
        group: vec![("verb", "fleet".to_owned())],
        host: host_name(),
        version: crate::provenance::VERSION.to_owned(),
    }
}

/// Sends figures, and says in one sentence per receiver what was not taken. A request to end the
/// program that arrives meanwhile ends the attempts.
pub(crate) fn send(exporter: &Exporter, reading: &Reading) {
    let before = signals::interrupted();
    let stop = move || !before && signals::interrupted();
    let deliveries = exporter.deliver(reading, runtime::wall_now(), LIMIT, &stop);
    deliveries.iter().filter_map(Delivery::sentence).for_each(|sentence| warn(&sentence));
}

/// Sends on a thread of its own.
pub(crate) fn in_background(exporter: Exporter) -> Background {
    Background::start(exporter, warn)
}

/// Ends that thread when it has sent what waits, or cannot.
pub(crate) fn end(background: Background) {
    let before = signals::interrupted();
    background.end(LIMIT, &move || !before && signals::interrupted());
}

fn warn(sentence: &str) {
    stderr::say(format_args!("netcaliper: warning: {sentence}"));
}
