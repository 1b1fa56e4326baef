//! Which way messages were lost, doubled or overtaken.
//!
//! A remote end that numbers its answers itself (a stateful reflector) thereby reports how many
//! messages it has received: a gap among its numbers was lost on the way back, and messages without
//! a number on the way there. One that copies our numbers reports nothing, and until a loss on the
//! way there the two look alike.

use metrics::{Clamped, Seen, Sequence, WayCounts, WayFacts, widen};
use std::collections::VecDeque;

/// Replies back from the newest among which repeats are recognised.
const WINDOW: usize = 1 << 16;
/// Numbers that were given to sends that never left; of more the oldest are forgotten.
const MOST_REFUSED: usize = 1 << 12;

/// One flow's losses and delays on both ways.
#[derive(Debug)]
pub(super) struct Ways {
    pub(super) sent: u64,
    /// Numbers of messages whose send was refused.
    refused: VecDeque<u64>,
    /// The number of the remote end's first answer, less that of our first message.
    base: Option<u32>,
    replies: Sequence,
    answered: u64,
    /// The highest of our numbers that was answered.
    highest: Option<u64>,
    there: WayCounts,
    back: WayCounts,
    /// The remote end has numbers of its own.
    numbers: bool,
}

impl Ways {
    pub(super) fn new() -> Self {
        Ways {
            sent: 0,
            refused: VecDeque::new(),
            base: None,
            replies: Sequence::new(WINDOW),
            answered: 0,
            highest: None,
            there: WayCounts::default(),
            back: WayCounts::default(),
            numbers: false,
        }
    }

    /// Message `number` has left, or was refused for good.
    pub(super) fn left(&mut self, number: u64, accepted: bool) {
        if accepted {
            self.sent += 1;
            return;
        }
        if self.refused.len() == MOST_REFUSED {
            self.refused.pop_front();
        }
        self.refused.push_back(number);
    }

    /// Message `number` was answered by the reply of this number, for the first time if `fresh`.
    pub(super) fn on_reply(&mut self, number: u64, reply: u32, fresh: bool) {
        // A session may be older than we are: then its numbers do not begin with 0.
        let base = *self.base.get_or_insert_with(|| {
            let ahead = reply.wrapping_sub(number as u32);
            if (ahead as i32) > 0 { ahead } else { 0 }
        });
        let reply = widen(self.replies.next(), reply.wrapping_sub(base));
        self.numbers |= reply != number;
        match self.replies.see(reply) {
            Seen::Duplicate => self.back.duplicated += 1,
            seen => {
                self.there.duplicated += u64::from(!fresh);
                self.back.reordered += u64::from(matches!(seen, Seen::Reordered { .. }));
                // Answered after a higher one, by the remote end's own account.
                let overtaken = self.highest.is_some_and(|highest| number < highest);
                self.there.reordered += u64::from(fresh && overtaken && matches!(seen, Seen::New { .. }));
            }
        }
        self.answered += u64::from(fresh);
        self.highest = self.highest.max(Some(number));
    }

    /// Adds the counts at the end of the flow.
    pub(super) fn report(&self, facts: &mut WayFacts) {
        let lost = self.sent.saturating_sub(self.answered);
        if !self.numbers {
            facts.copied += u64::from(self.answered > 0);
            facts.lost_somewhere += lost;
            return;
        }
        facts.numbered += 1;
        let below = self.highest.map_or(0, |highest| {
            highest + 1 - u64::clamped(self.refused.iter().filter(|number| **number < highest).count())
        });
        let lost_there = (below + self.there.duplicated).saturating_sub(self.replies.next()).min(lost);
        let lost_back = self.replies.missing().min(lost - lost_there);
        facts.there.lost += lost_there;
        facts.back.lost += lost_back;
        facts.lost_somewhere += lost - lost_there - lost_back;
        facts.there.duplicated += self.there.duplicated;
        facts.there.reordered += self.there.reordered;
        facts.back.duplicated += self.back.duplicated;
        facts.back.reordered += self.back.reordered;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn facts(ways: &Ways) -> WayFacts {
        let mut facts = WayFacts::default();
        ways.report(&mut facts);
        facts
    }

    #[test]
    fn losses_are_told_apart_by_hand() {
        let mut ways = Ways::new();
        (0..10).for_each(|n| ways.left(n, n != 4));
        // 4 never left; 2 and 3 were lost there, the answer to 5 (reply 2) back, and 9 was not
        // answered at all.
        for (number, reply) in [(0, 0), (1, 1), (6, 3), (7, 4), (8, 5)] {
            ways.on_reply(number, reply, true);
        }
        let found = facts(&ways);
        assert_eq!((found.there.lost, found.back.lost, found.lost_somewhere, found.numbered), (2, 1, 1, 1));
    }

    #[test]
    fn a_remote_end_that_copies_numbers_tells_no_direction() {
        let mut ways = Ways::new();
        (0..10).for_each(|n| ways.left(n, true));
        for number in [0, 1, 5, 6, 9] {
            ways.on_reply(number, number as u32, true);
        }
        let found = facts(&ways);
        assert_eq!((found.there.lost, found.back.lost, found.lost_somewhere, found.copied), (0, 0, 5, 1));
    }

    #[test]
    fn a_session_may_be_older_than_we_are() {
        let mut ways = Ways::new();
        (0..4).for_each(|n| ways.left(n, true));
        ways.on_reply(0, 1_000, true);
        ways.on_reply(2, 1_001, true);
        ways.on_reply(3, 1_002, true);
        assert_eq!((facts(&ways).there.lost, facts(&ways).back.lost), (1, 0));
    }

    proptest! {
        /// On any path each loss is reported once, and its direction is right except at the flow's
        /// end.
        #[test]
        fn nothing_is_told_twice(fates in proptest::collection::vec(0u8..8, 1..300)) {
            let (mut ways, mut next, mut there, mut back) = (Ways::new(), 0, 0, 0);
            let (mut last_there, mut last_back) = (0, 0);
            for (number, fate) in (0..).zip(&fates) {
                ways.left(number, true);
                match fate {
                    0 => there += 1,
                    1 => { back += 1; next += 1; }
                    _ => {
                        ways.on_reply(number, next, true);
                        // Some are answered twice, under the next number or under the same one.
                        next += u32::from(*fate == 2);
                        if [2, 3].contains(fate) {
                            ways.on_reply(number, next, false);
                        }
                        next += 1;
                        (last_there, last_back) = (there, back);
                    }
                }
            }
            let found = facts(&ways);
            let all = found.there.lost + found.back.lost + found.lost_somewhere;
            prop_assert_eq!(all, there + back);
            if ways.numbers {
                prop_assert_eq!((found.there.lost, found.back.lost), (last_there, last_back));
            }
        }
    }
}
