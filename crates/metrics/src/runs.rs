//! Numbered packets of a sender that may begin again at 0 without a word, and may have begun before
//! anybody listened.

use crate::{Arrivals, Seen, Sequence};

/// Packets in a row, each one number above the last and none of them believable, that mean a new
/// beginning after all: a host that was started anew counts its time from 0 again, too.
const ANEW: u32 = 16;
/// Numbers that may be missing at once, an hour of a million a second; more is not believed at
/// first either.
const LEAP: u64 = 1 << 32;

/// Follows the numbers of one sender over all its runs.
///
/// A packet that was overtaken or repeated on its way bears a stamp older than the newest that
/// arrived. A low number with a newer stamp can only be that of a sender that has begun again.
/// Numbers below the first arrival are not lost: the receiver may not have been listening when they
/// were sent.
#[derive(Clone, Debug)]
pub struct Runs {
    window: usize,
    sequence: Sequence,
    /// The first number of this run that arrived.
    base: Option<u64>,
    /// The newest stamp of this run.
    newest: u64,
    /// The last number that was too old, and how many old ones arrived in a row.
    old: (u64, u32),
    /// Counts of the runs before.
    past: Arrivals,
}

/// Classification of an arrived packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunArrival {
    /// The sender has begun again with this one.
    pub anew: bool,
    /// Its place among the packets of its run.
    pub seen: Seen,
}

impl Runs {
    /// Remembers as many numbers one by one as [`Sequence::new`] with this window.
    pub fn new(window: usize) -> Self {
        Runs {
            window,
            sequence: Sequence::new(window),
            base: None,
            newest: 0,
            old: (0, 0),
            past: Arrivals::default(),
        }
    }

    /// The number expected next in this run.
    pub fn next(&self) -> u64 {
        self.base.unwrap_or(0).saturating_add(self.sequence.next())
    }

    /// Packet `number`, stamped `stamp` by its sender's clock (of any unit and origin), was
    /// received.
    pub fn see(&mut self, number: u64, stamp: u64) -> RunArrival {
        if number >> 62 != 0 {
            // No sender gets there.
            return RunArrival { anew: false, seen: Seen::Ancient };
        }
        let next = self.next();
        let leaps = number >= next + LEAP;
        let anew = self.base.is_some()
            && ((number < next && stamp > self.newest) || ((leaps || number < next) && self.insists(number)));
        if anew {
            self.settle();
        } else if leaps && self.base.is_some() {
            return RunArrival { anew: false, seen: Seen::Ancient };
        }
        let base = *self.base.get_or_insert(number);
        let seen = match number.checked_sub(base) {
            Some(number) => self.sequence.see(number),
            None => Seen::Ancient,
        };
        self.newest = self.newest.max(stamp);
        RunArrival { anew, seen }
    }

    /// True if an implausible number is one of many in a row.
    fn insists(&mut self, number: u64) -> bool {
        let (last, count) = self.old;
        self.old = (number, if number == last.wrapping_add(1) { count + 1 } else { 0 });
        self.old.1 >= ANEW
    }

    fn settle(&mut self) {
        let counts = self.sequence.finish(0);
        self.past.merge(&counts);
        (self.sequence, self.base, self.newest, self.old) = (Sequence::new(self.window), None, 0, (0, 0));
    }

    /// Ends the wait: every missing packet is lost. Counts of all runs.
    pub fn finish(&mut self) -> Arrivals {
        self.settle();
        self.past
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn see(runs: &mut Runs, number: u64, stamp: u64) -> Seen {
        let came = runs.see(number, stamp);
        assert!(!came.anew, "{number} at {stamp}");
        came.seen
    }

    #[test]
    fn what_was_overtaken_or_repeated_is_no_new_beginning() {
        let mut runs = Runs::new(1 << 10);
        for number in 0..100 {
            assert_eq!(see(&mut runs, number, 1_000 + number), Seen::New { gap: 0 });
        }
        // The crafted stream that made the original restart: a number below half of what it
        // expected, and number 0.
        assert_eq!(see(&mut runs, 3, 1_003), Seen::Duplicate);
        assert_eq!(see(&mut runs, 0, 1_000), Seen::Duplicate);
        assert_eq!(see(&mut runs, 101, 1_101), Seen::New { gap: 1 });
        assert_eq!(see(&mut runs, 100, 1_100), Seen::Reordered { extent: 1 });
        let counts = runs.finish();
        assert_eq!((counts.unique, counts.duplicates, counts.reordered, counts.lost), (102, 2, 1, 0));
    }

    #[test]
    fn a_low_number_with_a_newer_stamp_is_a_new_beginning() {
        let mut runs = Runs::new(1 << 10);
        for number in [0, 1, 2, 5] {
            see(&mut runs, number, 1_000 + number);
        }
        let came = runs.see(0, 5_000);
        assert_eq!(came, RunArrival { anew: true, seen: Seen::New { gap: 0 } });
        assert_eq!(see(&mut runs, 1, 5_001), Seen::New { gap: 0 });
        assert_eq!(runs.next(), 2);
        let counts = runs.finish();
        assert_eq!((counts.unique, counts.lost, counts.loss_bursts), (6, 2, 1));
    }

    #[test]
    fn a_host_that_was_started_anew_is_believed_after_a_while() {
        let mut runs = Runs::new(128);
        for number in 0..500 {
            see(&mut runs, number, 1_000_000 + number);
        }
        let anew: Vec<u64> = (0..40).filter(|&number| runs.see(number, 10 + number).anew).collect();
        // 0 to 15 could be old; 16 is the sixteenth that follows the one before it.
        assert_eq!(anew, [16]);
        assert_eq!(runs.next(), 40);
    }

    #[test]
    fn a_leap_is_not_believed_unless_many_follow() {
        let mut runs = Runs::new(128);
        see(&mut runs, 0, 9);
        assert_eq!(see(&mut runs, 1 << 61, 10), Seen::Ancient);
        assert_eq!(see(&mut runs, 1, 11), Seen::New { gap: 0 });
        let anew: Vec<u64> = (0..20).filter(|n| runs.see((1 << 40) + n, 12 + n).anew).collect();
        assert_eq!((anew, runs.finish().lost), (vec![16], 0));
    }

    #[test]
    fn nobody_lost_what_was_sent_before_anybody_listened() {
        let mut runs = Runs::new(128);
        assert_eq!(see(&mut runs, 70_000, 9), Seen::New { gap: 0 });
        assert_eq!(see(&mut runs, 70_002, 11), Seen::New { gap: 1 });
        assert_eq!(see(&mut runs, 69_999, 8), Seen::Ancient);
        assert_eq!(runs.finish().lost, 1);
        assert_eq!(runs.see(u64::MAX, 99).seen, Seen::Ancient);
        assert_eq!(runs.see(1, 100), RunArrival { anew: false, seen: Seen::New { gap: 0 } });
        assert_eq!(runs.see((1 << 61) + 5, 100).seen, Seen::Ancient);
    }
}
