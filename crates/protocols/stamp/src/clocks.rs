//! Offset of the remote end's clock from ours, from the exchanges and from both clocks' own error
//! estimates.

use super::time::ErrorEstimate;
use metrics::{Clock, Estimate, Exchange, Mono, Offset, SECOND};

/// Exchanges from which the clocks' distance is first found.
const FIRST: usize = 16;
/// Of later exchanges the best of this period is kept, ns.
const BEST_OF: u64 = SECOND / 10;
/// Period of new estimates, ns, and longest wait for the first exchanges.
const ANEW: u64 = SECOND;

#[derive(Debug, Default)]
pub(super) struct Clocks {
    offset: Offset,
    /// The best exchange of late, and since when.
    best: Option<(Exchange, Mono)>,
    /// Exchanges that are not judged yet.
    pub(super) held: Vec<Exchange>,
    found: Option<(Estimate, Mono)>,
}

impl Clocks {
    pub(super) fn add(&mut self, now: Mono, exchange: Exchange) {
        self.held.push(exchange);
        if self.found.is_none() {
            return self.offset.add(exchange);
        }
        let (best, since) = match self.best {
            Some((best, since)) if best.round_trip() <= exchange.round_trip() => (best, since),
            Some((_, since)) => (exchange, since),
            None => (exchange, now),
        };
        self.best = Some((best, since));
        if now.since(since) >= BEST_OF {
            self.offset.add(best);
            self.best = None;
        }
    }

    /// Their clock against ours, by the better of two bounds; true if by that of two disciplined
    /// clocks. `None` before enough exchanges, unless this is the `last` chance.
    pub(super) fn estimate(
        &mut self,
        now: Mono,
        ours: &Clock,
        theirs: &ErrorEstimate,
        last: bool,
    ) -> Option<(Estimate, bool)> {
        let first = self.held.first()?;
        let enough = self.held.len() >= FIRST || now.since(first.t4) >= ANEW || last;
        if self.found.is_none_or(|(_, at)| now.since(at) >= ANEW) && (self.found.is_some() || enough) {
            self.found = self.offset.at(now).map(|estimate| (estimate, now)).or(self.found);
        }
        let (found, _) = self.found?;
        let walls = theirs
            .ns
            .filter(|_| ours.synced && theirs.synced)
            .map(|ns| Estimate { offset_ns: ours.wall_at_zero, bound_ns: ns.saturating_add(ours.error_ns) });
        match walls.filter(|walls| walls.bound_ns < found.bound_ns) {
            Some(walls) => Some((walls, true)),
            None => Some((found, false)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Their clock is 5 s ahead; 3 ms there, 1 ms back, 10 µs between.
    fn exchange(at: u64) -> Exchange {
        let t2 = (at + 3_000_000 + 5 * SECOND) as i64;
        Exchange { t1: Mono(at), t2, t3: t2 + 10_000, t4: Mono(at + 4_010_000) }
    }

    #[test]
    fn the_distance_is_known_after_a_few_exchanges_or_at_the_end() {
        let (ours, theirs) = (Clock::default(), ErrorEstimate::default());
        let mut clocks = Clocks::default();
        for n in 0..FIRST as u64 - 1 {
            let exchange = exchange(SECOND + n * 1_000_000);
            clocks.add(exchange.t4, exchange);
            assert_eq!(clocks.estimate(exchange.t4, &ours, &theirs, false), None);
        }
        let (found, by_wall) = clocks.estimate(Mono(SECOND + 20_000_000), &ours, &theirs, true).unwrap();
        // Right within half of the path's 4 ms; the middle is wrong by half of the difference of
        // the two ways.
        assert!(found.offset_ns.abs_diff(5 * SECOND as i64 + 1_000_000) < 20_000, "{found:?}");
        assert!((2_000_000..2_020_000).contains(&found.bound_ns) && !by_wall);
    }

    #[test]
    fn two_good_clocks_are_better_than_a_long_path() {
        let exchanged = exchange(SECOND);
        let ours = Clock { wall_at_zero: 77, error_ns: 100_000, synced: true, ..Clock::default() };
        let theirs = |ns, synced| ErrorEstimate { ns: Some(ns), synced, ..ErrorEstimate::default() };
        for (remote, by_wall) in
            [(theirs(50_000, true), true), (theirs(50_000, false), false), (theirs(SECOND, true), false)]
        {
            let mut clocks = Clocks::default();
            clocks.add(exchanged.t4, exchanged);
            let found = clocks.estimate(exchanged.t4, &ours, &remote, true).unwrap();
            assert_eq!(found.1, by_wall);
            assert_eq!(found.0 == Estimate { offset_ns: 77, bound_ns: 150_000 }, by_wall);
        }
    }

    #[test]
    fn a_clock_that_is_set_is_noticed_and_believed_anew() {
        let (ours, theirs) = (Clock::default(), ErrorEstimate::default());
        let mut clocks = Clocks::default();
        let mut last = None;
        for n in 0..100 {
            let mut exchange = exchange(SECOND + n * SECOND / 4);
            if n >= 40 {
                (exchange.t2, exchange.t3) = (exchange.t2 + 60_000_000_000, exchange.t3 + 60_000_000_000);
            }
            clocks.add(exchange.t4, exchange);
            if let Some(found) = clocks.estimate(exchange.t4, &ours, &theirs, false) {
                clocks.held.clear();
                last = Some(found.0.offset_ns);
            }
        }
        assert!(last.unwrap().abs_diff(65 * SECOND as i64) < 2_000_000, "{last:?}");
    }
}
