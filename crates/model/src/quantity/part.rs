//! Parts of a run that have figures of their own: what conditions, the store, scrapers and the
//! monitor judge a run by.

use super::{Figure, Stat};
use crate::load::{StageResult, under_load};
use crate::ping::is_shown;
use crate::{Kind, Outcome, Point, Status, search};
use std::collections::BTreeMap;

/// A part of a run that has figures of its own.
#[derive(Clone, Debug)]
pub enum RunPart<'a> {
    /// A phase.
    Phase(&'a Point),
    /// A stage of a load: of its measurements beside each other, none answers the question alone.
    Stage(Box<StageResult>),
}

impl Outcome {
    /// The parts of the run that measured something: of a load its stages, of a search the attempts
    /// that are its result, else its phases.
    pub fn parts(&self) -> Vec<RunPart<'_>> {
        if self.begin.verb == "load" {
            return under_load(self).into_iter().map(|stage| RunPart::Stage(Box::new(stage))).collect();
        }
        let all = search::result(self).unwrap_or_else(|| self.points.iter().collect());
        let measured = all.into_iter().filter(|point| point.status != Status::Failed);
        measured.map(RunPart::Phase).collect()
    }
}

impl RunPart<'_> {
    /// Value of a figure; infinite where a percentile falls among lost messages, and `None` where
    /// the figure was not measured.
    pub fn figure(&self, figure: Figure) -> Option<f64> {
        match self {
            RunPart::Phase(point) => figure.of_any_percentile(point).or_else(|| endless(figure, point)),
            RunPart::Stage(stage) => stage.figure(figure),
        }
    }

    /// True if enough values lie beyond the percentile that the figure is.
    pub fn is_shown(&self, figure: Figure) -> bool {
        match (self, figure.stat()) {
            (RunPart::Phase(point), _) => figure.is_shown(point),
            (RunPart::Stage(stage), Some(Stat::Quantile(q))) => {
                !matches!(
                    figure,
                    Figure::RoundTrip(_) | Figure::IdleRoundTrip(_) | Figure::AddedPercentile(_)
                ) || stage.rtt.as_ref().is_none_or(|rtt| is_shown(rtt, q))
            }
            _ => true,
        }
    }

    /// Its setting: name to value.
    pub fn label(&self) -> BTreeMap<String, String> {
        match self {
            RunPart::Phase(point) => point.label.clone(),
            RunPart::Stage(stage) => BTreeMap::from([("stage".to_owned(), stage.stage.clone())]),
        }
    }

    /// Which repetition, from 1; the stages of a load combine all repetitions.
    pub fn repeat(&self) -> u32 {
        match self {
            RunPart::Phase(point) => point.repeat.max(1),
            RunPart::Stage(_) => 1,
        }
    }

    /// Its question; `None` for a stage of a load.
    pub fn kind(&self) -> Option<Kind> {
        match self {
            RunPart::Phase(point) => Some(point.phase.kind),
            RunPart::Stage(_) => None,
        }
    }
}

/// A percentile that falls among lost messages is larger than any limit.
fn endless(figure: Figure, point: &Point) -> Option<f64> {
    let rtt = point.local.pings.as_ref()?.rtt_ns.as_ref()?;
    (matches!(figure, Figure::RoundTrip(Stat::Quantile(_))) && rtt.missing > 0).then_some(f64::INFINITY)
}
