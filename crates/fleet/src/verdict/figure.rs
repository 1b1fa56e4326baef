//! The figures of a matrix: the ones that all runs have, and the answer of `load`.

use metrics::{Clamped, SECOND};
use model::load::{GROWN, StageResult, grade, under_load};
use model::{Figure, Outcome, Stat, Unit, Way};

/// Key of the responsiveness of `load`.
pub(crate) const RPM: &str = "rpm";
/// Key of the round trips under load.
const LOADED: &str = "rtt-loaded";
/// Growth of round trips of which a tenth was lost, ns: a lost message counts as one of 5 s.
const LOST_NS: i64 = 5 * SECOND.cast_signed();

/// A figure of a matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum MatrixFigure {
    /// A figure of all runs.
    Of(Figure),
    /// Growth of the round trips under load, which the grade is about.
    Grown,
    /// Round trips a minute under load.
    Responsiveness,
}

impl From<Figure> for MatrixFigure {
    fn from(figure: Figure) -> MatrixFigure {
        MatrixFigure::Of(figure)
    }
}

impl MatrixFigure {
    /// The figure with this key. Keys of a matrix have no direction, which is the pair's: the
    /// figure's own does not count.
    pub(crate) fn named(key: &str) -> Option<MatrixFigure> {
        match key {
            GROWN => Some(MatrixFigure::Grown),
            RPM => Some(MatrixFigure::Responsiveness),
            key => Figure::named(key).into_iter().next().map(MatrixFigure::Of),
        }
    }

    /// As people read it.
    pub(crate) fn label(self) -> &'static str {
        match self {
            MatrixFigure::Of(figure) => figure.family().1,
            MatrixFigure::Grown => "added delay under load",
            MatrixFigure::Responsiveness => "responsiveness under load",
        }
    }

    pub(crate) fn unit(self) -> Unit {
        match self {
            MatrixFigure::Of(figure) => figure.unit(),
            MatrixFigure::Grown => Unit::Ns,
            MatrixFigure::Responsiveness => Unit::Count,
        }
    }

    pub(crate) fn more_is_better(self) -> bool {
        match self {
            MatrixFigure::Of(figure) => figure.more_is_better(),
            MatrixFigure::Grown => false,
            MatrixFigure::Responsiveness => true,
        }
    }

    /// The percentile that it is.
    pub(crate) fn stat(self) -> Option<Stat> {
        match self {
            MatrixFigure::Of(figure) => figure.stat(),
            _ => None,
        }
    }

    /// Its name without the unit, and its meaning, for scrapers.
    pub(crate) fn gauge(self) -> (&'static str, &'static str) {
        match self {
            MatrixFigure::Of(figure) => figure.gauge(),
            MatrixFigure::Grown => ("added_delay", "Growth of round trips in the worst stage of a load."),
            MatrixFigure::Responsiveness => {
                ("responsiveness_rpm", "Round trips a minute in the worst stage.")
            }
        }
    }

    /// A value as people read it: `31.2 ms (B)`, `1.20 Mbit/s`.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            MatrixFigure::Of(figure) => figure.unit().show(value),
            MatrixFigure::Grown => {
                let sign = if value < 0.0 { "-" } else { "+" };
                let ns = metrics::format_duration(value.abs());
                let letter = grade(i64::clamped(value));
                format!("{sign}{ns} ({letter})")
            }
            MatrixFigure::Responsiveness => format!("{value:.0} RPM"),
        }
    }
}

/// The figures of the answer of a load whose data went this way: the added delay of the worst stage,
/// its round trips and the idle ones, goodput of the stage that fills the way alone.
pub(crate) fn of_load(outcome: &Outcome, way: Way) -> Vec<(&'static str, f64)> {
    let stages = under_load(outcome);
    let ns = |ns: Option<u64>| ns.map(metrics::real);
    let idle = stages.iter().find(|stage| stage.grown_ns().is_none());
    let loaded = || stages.iter().filter(|stage| stage.grown_ns().is_some());
    let worst = loaded().max_by_key(|stage| stage.grown_ns());
    let grown = |stage: &StageResult| Some(metrics::real(stage.grown_ns()?.min(LOST_NS)));
    let goodput = |stage: &StageResult| match way {
        Way::Up => stage.up?.goodput_bps,
        Way::Down => stage.down?.goodput_bps,
    };
    let alone = stages.iter().find(|stage| stage.stage == way.key());
    let lost = loaded().filter_map(|stage| stage.never_back).map(|share| 100.0 * share);
    let rpm = loaded().filter_map(|stage| stage.rpm).min_by(f64::total_cmp);
    let figures = [
        (GROWN, worst.and_then(grown)),
        ("goodput", alone.and_then(goodput)),
        ("rtt.p50", idle.and_then(|stage| ns(stage.rtt_p50_ns))),
        (LOADED, worst.and_then(|stage| ns(stage.rtt_p50_ns))),
        ("messages-lost", lost.max_by(f64::total_cmp)),
        (RPM, rpm),
    ];
    figures.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}
