//! Round trips inside a loaded connection: a mark that the client puts between two spans of
//! payload, and the server's answer, which it puts between two of its own. Either waits for all
//! that was sent before it, in both ends' sockets and on the path, as any exchange over that
//! connection would have to.
//!
//! ```text
//! client                                         server
//!   SPAN n, n bytes, PROBE k, SPAN …   ──────────▶          an open loop: at its time, or as soon as the span is over
//!   ◀────────── SPAN n, n bytes, ANSWER k, SPAN …           as soon as it has been read, and a span is over
//! ```

use metrics::{Clamped, Mono};
use std::collections::VecDeque;
use transport::{Checked, Violation};

/// Probes under way at once.
const MOST: usize = 64;

/// One end's state of a connection's probes.
#[derive(Debug, Default)]
pub(super) struct Inside {
    /// Between two probes, ns; none are wanted without.
    pub(super) gap_ns: Option<u64>,
    /// When the next one is to be sent.
    due: Mono,
    /// When those under way were to be sent, in order.
    asked: VecDeque<Mono>,
    /// Number of the oldest of them.
    first: u64,
    /// Numbers that are to be answered.
    pub(super) owed: VecDeque<u64>,
}

impl Inside {
    pub(super) fn new(gap_ns: Option<u64>) -> Self {
        Inside { gap_ns, ..Inside::default() }
    }

    /// The connection is up; `part` of a gap, 0..=1, passes before the first probe.
    pub(super) fn up(&mut self, now: Mono, part: f64) {
        self.due = now.plus((self.gap_ns.unwrap_or(0) as f64 * part) as u64);
    }

    /// When the next probe is due.
    pub(super) fn due(&self) -> Option<Mono> {
        self.gap_ns.map(|_| self.due)
    }

    /// The next probe leaves now: its number, or `None` when too many are under way and its place
    /// is given up.
    pub(super) fn ask(&mut self, now: Mono) -> Option<u64> {
        let intended = self.due;
        // After a long span there is one probe, the most patient one, for all that were due.
        let gap = self.gap_ns.unwrap_or(u64::MAX).max(1);
        let missed = now.since(intended) / gap;
        self.due = intended.plus((missed + 1).saturating_mul(gap));
        if self.asked.len() >= MOST {
            return None;
        }
        self.asked.push_back(intended);
        Some(self.first + u64::clamped(self.asked.len()) - 1)
    }

    /// The answer to probe `number` has arrived: returns the time since that was to be sent, ns.
    pub(super) fn on_answer(&mut self, number: u64, now: Mono) -> Result<u64, Violation> {
        match self.asked.pop_front() {
            Some(intended) if number == self.first => {
                self.first += 1;
                Ok(now.since(intended))
            }
            _ => Err(Violation::Malformed("an answer to no probe")),
        }
    }

    /// A probe has arrived.
    pub(super) fn owe(&mut self, number: u64) -> Checked {
        if self.gap_ns.is_none() || self.owed.len() >= MOST {
            return Err(Violation::Malformed("more probes between its payload than were agreed on"));
        }
        self.owed.push_back(number);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_loop_counts_from_when_a_probe_was_to_be_sent() {
        let mut ours = Inside::new(Some(10));
        ours.up(Mono(100), 0.5);
        assert_eq!(ours.due(), Some(Mono(105)));
        assert_eq!((ours.ask(Mono(107)), ours.due()), (Some(0), Some(Mono(115))));
        // Held up: those due at 115, 125 and 135 are one probe.
        assert_eq!((ours.ask(Mono(136)), ours.due()), (Some(1), Some(Mono(145))));
        assert_eq!(ours.on_answer(0, Mono(140)), Ok(35));
        assert_eq!(ours.on_answer(1, Mono(141)), Ok(26));
        assert!(ours.on_answer(2, Mono(142)).is_err());
    }

    #[test]
    fn a_peer_cannot_make_us_owe_without_end() {
        let mut ours = Inside::new(Some(10));
        assert!((0..MOST as u64).all(|n| ours.owe(n).is_ok()) && ours.owe(99).is_err());
        assert_eq!((ours.owed.front(), ours.owed.len()), (Some(&0), MOST));
        assert!(Inside::new(None).owe(0).is_err(), "nothing was agreed on");
        let mut asking = Inside::new(Some(1));
        (0..MOST as u64).for_each(|n| assert_eq!(asking.ask(Mono(n)), Some(n)));
        assert_eq!(asking.ask(Mono(1_000)), None);
    }
}
