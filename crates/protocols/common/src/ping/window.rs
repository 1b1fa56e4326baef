//! The messages of a connection that are under way, and the latest finished ones.

use metrics::{Clamped, Mono};
use std::collections::VecDeque;

/// State of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageState {
    /// Its echo is waited for.
    Waiting,
    /// Its time is up.
    Missing,
    /// Its echo arrived, or other bytes in its place.
    Settled,
}

/// A message.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageSlot {
    pub(super) intended: Mono,
    pub(super) sent: Mono,
    /// When it left, by the kernel's stamp, once that is known.
    pub(super) left_at: Option<Mono>,
    /// The second word of its units.
    pub(super) word: u64,
    /// Units that have not returned, a bit each.
    pub(super) left: u64,
    pub(super) state: MessageState,
    /// The message is not part of a warm-up.
    pub(super) counted: bool,
}

impl MessageSlot {
    /// A message of one unit that was sent when it was to be, and counts.
    pub(super) fn sent(at: Mono) -> MessageSlot {
        MessageSlot {
            intended: at,
            sent: at,
            left_at: None,
            word: 0,
            left: 1,
            state: MessageState::Waiting,
            counted: true,
        }
    }
}

/// Messages by number, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Window {
    slots: VecDeque<MessageSlot>,
    /// Number of the oldest.
    first: u64,
    /// No older one is waited for.
    oldest: u64,
    waiting: usize,
    missing: usize,
}

impl Window {
    /// The number of the next message.
    pub(super) fn next(&self) -> u64 {
        self.first + u64::clamped(self.slots.len())
    }

    /// Messages whose echo is waited for.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Messages whose time is up and that are still remembered.
    pub(super) fn missing(&self) -> usize {
        self.missing
    }

    /// Adds the next message, and forgets old ones beyond `most`.
    pub(super) fn push(&mut self, slot: MessageSlot, most: usize) {
        self.waiting += usize::from(slot.state == MessageState::Waiting);
        self.slots.push_back(slot);
        while self.slots.len() > most
            && let Some(front) = self.slots.front().filter(|s| s.state != MessageState::Waiting)
        {
            self.missing -= usize::from(front.state == MessageState::Missing);
            self.slots.pop_front();
            self.first += 1;
        }
    }

    /// A message that is remembered.
    pub(super) fn slot(&mut self, number: u64) -> Option<&mut MessageSlot> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.slots.get_mut(at)
    }

    /// Changes the state of a message.
    pub(super) fn enter(&mut self, number: u64, state: MessageState) {
        let Some(slot) = self.slot(number) else { return };
        let was = std::mem::replace(&mut slot.state, state);
        self.waiting -= usize::from(was == MessageState::Waiting);
        self.missing -= usize::from(was == MessageState::Missing);
        self.waiting += usize::from(state == MessageState::Waiting);
        self.missing += usize::from(state == MessageState::Missing);
    }

    /// The oldest message that is waited for, and its number.
    pub(super) fn oldest(&mut self) -> Option<(u64, MessageSlot)> {
        self.oldest = self.oldest.max(self.first);
        while let Some(slot) = self.slots.get(usize::clamped(self.oldest - self.first)) {
            if slot.state == MessageState::Waiting {
                return Some((self.oldest, *slot));
            }
            self.oldest += 1;
        }
        None
    }

    /// The same without looking further than was looked before: where it says none, there may be
    /// one.
    pub(super) fn known_oldest(&self) -> Option<&MessageSlot> {
        let at = self.oldest.max(self.first) - self.first;
        self.slots.get(usize::try_from(at).ok()?).filter(|slot| slot.state == MessageState::Waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(at: u64) -> MessageSlot {
        MessageSlot::sent(Mono(at))
    }

    #[test]
    fn the_oldest_that_is_waited_for_is_found_whatever_came_first() {
        let mut window = Window::default();
        (0..5).for_each(|n| window.push(slot(n), 100));
        assert_eq!((window.next(), window.waiting(), window.oldest().map(|o| o.0)), (5, 5, Some(0)));
        window.enter(1, MessageState::Settled);
        window.enter(0, MessageState::Missing);
        assert_eq!((window.oldest().map(|o| o.0), window.waiting(), window.missing()), (Some(2), 3, 1));
        window.enter(0, MessageState::Settled);
        assert_eq!((window.oldest().map(|o| o.0), window.missing()), (Some(2), 0));
        (2..5).for_each(|n| window.enter(n, MessageState::Settled));
        assert!(window.oldest().is_none() && window.waiting() == 0);
        window.push(slot(9), 100);
        assert_eq!(window.oldest().map(|o| o.0), Some(5));
    }

    #[test]
    fn old_ones_are_forgotten_unless_they_are_waited_for() {
        let mut window = Window::default();
        for n in 0..10 {
            window.push(slot(n), 4);
            if n != 3 {
                window.enter(n, if n == 0 { MessageState::Missing } else { MessageState::Settled });
            }
        }
        assert!(window.slot(2).is_none() && window.slot(3).is_some(), "3 holds the others");
        assert_eq!(window.missing(), 0, "0 is forgotten and lost for good");
        window.enter(3, MessageState::Missing);
        window.push(slot(10), 4);
        assert_eq!((window.first, window.slots.len()), (7, 4));
        window.enter(1, MessageState::Settled);
        assert_eq!(window.next(), 11);
    }
}
