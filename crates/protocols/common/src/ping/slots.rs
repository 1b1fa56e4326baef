//! The distances at which messages are sent in an open loop.

use model::{Schedule, Trace};
use std::sync::Arc;
use transport::Rng;

/// The places of one connection's schedule, one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    schedule: Schedule,
    trace: Option<Arc<Trace>>,
    /// Number of distances so far.
    given: u64,
}

impl Slots {
    pub(super) fn new(schedule: Schedule, trace: Option<Arc<Trace>>) -> Self {
        Slots { schedule, trace, given: 0 }
    }

    /// The distance from this message to the next, ns; `None` in a closed loop.
    pub(super) fn next(&mut self, rng: &mut Rng) -> Option<u64> {
        let gap = self.schedule.gap_ns()?;
        let given = self.given;
        self.given += 1;
        Some(match (self.schedule, &self.trace) {
            (Schedule::Poisson { .. }, _) => rng.exponential(gap),
            (Schedule::Trace { .. }, Some(trace)) => trace.gap_ns(given),
            _ => gap,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_schedule_has_its_distances() {
        let mut rng = Rng::new(1);
        let mut of = |schedule, trace: Option<Arc<Trace>>, n: usize| {
            let mut slots = Slots::new(schedule, trace);
            (0..n).map(|_| slots.next(&mut rng)).collect::<Vec<_>>()
        };
        assert_eq!(of(Schedule::Closed, None, 2), [None, None]);
        assert_eq!(of(Schedule::Fixed { gap_ns: 5 }, None, 2), [Some(5), Some(5)]);
        let trace = Arc::new(Trace { gaps_ns: vec![1, 0, 7] });
        let played = of(Schedule::Trace { gap_ns: 2 }, Some(trace), 5);
        assert_eq!(played, [1, 0, 7, 1, 0].map(Some), "over and over");
        // The mean of an exponential distribution over n draws is right within 3/sqrt(n), nearly
        // always.
        let random = of(Schedule::Poisson { gap_ns: 1_000_000 }, None, 10_000);
        let mean = random.iter().flatten().sum::<u64>() as f64 / 10_000.0;
        assert!((mean / 1e6 - 1.0).abs() < 0.03, "{mean}");
    }
}
