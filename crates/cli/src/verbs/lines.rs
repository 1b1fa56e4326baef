//! The lines of a server about peers that have proved nothing: one budget for all protocols of the
//! process, so that no flood of connections becomes a flood of lines.

use common::quota::Rate;
use metrics::{Mono, SECOND};
use model::{Event, Level};
use std::time::Instant;

/// Lines at once, and the time after which there is one more.
const BURST: u64 = 16;
const EACH: u64 = SECOND / 4;
/// Time between two lines about the number of lines that were left out.
const SUMMED_EVERY: u64 = 10 * SECOND;

/// The budget, and the number of lines that had no place in it.
pub(crate) struct LineBudget {
    began: Instant,
    rate: Rate,
    left_out: u64,
    summed: Option<Mono>,
}

impl LineBudget {
    pub(crate) fn new() -> Self {
        LineBudget { began: Instant::now(), rate: Rate::new(BURST, EACH), left_out: 0, summed: None }
    }

    fn now(&self) -> Mono {
        // The rate counts from long before the first line.
        Mono(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX).saturating_add(60 * SECOND))
    }

    /// True if an event is reported: a notice within the budget, and every other event.
    pub(crate) fn admits(&mut self, event: &Event) -> bool {
        !matches!(event, Event::Notice { .. }) || self.admits_at(self.now())
    }

    fn admits_at(&mut self, now: Mono) -> bool {
        let admitted = self.rate.admits(now);
        self.left_out += u64::from(!admitted);
        admitted
    }

    /// A line about the number of lines that were left out, when it is time.
    pub(crate) fn sum(&mut self) -> Option<Event> {
        self.sum_at(self.now())
    }

    fn sum_at(&mut self, now: Mono) -> Option<Event> {
        let is_due = self.summed.is_none_or(|at| now.since(at) >= SUMMED_EVERY);
        if self.left_out == 0 || !is_due {
            return None;
        }
        self.summed = Some(now);
        let text =
            format!("and {} more lines about peers, left out", grouped(std::mem::take(&mut self.left_out)));
        Some(Event::Notice { level: Level::Warning, text })
    }
}

/// `12,345`.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    groups.map(|group| String::from_utf8_lossy(group)).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_lines_is_counted_and_every_other_event_passes() {
        let mut budget = LineBudget::new();
        let at = |s: u64| Mono((100 + s) * SECOND);
        let admitted = (0..12_361).filter(|_| budget.admits_at(at(0))).count();
        assert_eq!(admitted, 16);
        let sum = |budget: &mut LineBudget, s| match budget.sum_at(at(s)) {
            Some(Event::Notice { text, .. }) => Some(text),
            _ => None,
        };
        assert_eq!(sum(&mut budget, 0).as_deref(), Some("and 12,345 more lines about peers, left out"));
        // Over an hour four lines a second, and one of ten that sums up.
        let (mut lines, mut sums) = (0, 0);
        for s in 1..=3_600 {
            lines += (0..1_000).filter(|_| budget.admits_at(at(s))).count();
            sums += usize::from(sum(&mut budget, s).is_some());
        }
        assert_eq!((lines, sums), (4 * 3_600, 360));
        assert!(
            sum(&mut budget, 3_609).is_none() && sum(&mut budget, 3_610).is_none(),
            "none is left out any more"
        );
        let mut full = LineBudget::new();
        let notice = Event::Notice { level: Level::Info, text: String::new() };
        assert!((0..20).filter(|_| full.admits(&notice)).count() < 20);
        let end = Event::PhaseEnd { status: model::Status::Complete, reason: None };
        assert!((0..100).all(|_| full.admits(&end)));
    }
}
