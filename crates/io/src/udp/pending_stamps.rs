//! Transmit stamps that were requested and have not been returned. No system call is made here.

use metrics::{Mono, SECOND, Stamp, StampKind};
use std::collections::VecDeque;

/// Waited for at once; older ones are given up.
const MOST: usize = 64;
/// Time that the card's stamp is waited for behind the kernel's, ns.
const PATIENCE: u64 = SECOND / 50;

/// Pending stamps of a socket, the oldest first.
#[derive(Debug, Default)]
pub(super) struct PendingStamps {
    all: VecDeque<PendingStamp>,
    next: u32,
}

/// One of them: by the kernel's number and the flow's tag.
#[derive(Clone, Copy, Debug)]
struct PendingStamp {
    number: u32,
    tag: u32,
    /// The kernel's stamp, while the card's is waited for.
    kernel: Option<Mono>,
}

/// A stamp with its flow's tag, and how far it may be off for having been taken by the card's
/// clock, ns.
pub(super) type TaggedStamp = (u32, Stamp, u64);

impl PendingStamp {
    /// The kernel's stamp.
    fn kernel_stamp(&self) -> Option<TaggedStamp> {
        Some((self.tag, Stamp { at: self.kernel?, kind: StampKind::KernelTx }, 0))
    }
}

impl PendingStamps {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// A send that asked for a stamp has left; the kernel numbers them.
    pub(super) fn sent(&mut self, tag: u32) {
        if self.all.len() == MOST {
            self.all.pop_front();
        }
        self.all.push_back(PendingStamp { number: self.next, tag, kernel: None });
        self.next = self.next.wrapping_add(1);
    }

    /// The kernel's stamp has arrived, with its time if that is known; returns the stamp to report
    /// now, unless the card's `follows`.
    pub(super) fn by_kernel(&mut self, number: u32, at: Option<Mono>, follows: bool) -> Option<TaggedStamp> {
        let place = self.place(number)?;
        if follows {
            self.all[place].kernel = at;
            return None;
        }
        let stamp = self.all.remove(place)?;
        PendingStamp { kernel: at, ..stamp }.kernel_stamp()
    }

    /// The card's stamp has arrived: `at` places it and its bound, ns, by the time when the kernel
    /// let the datagram go, unless it contradicts that. The kernel's stamp stands in for it then.
    pub(super) fn by_card(
        &mut self,
        number: u32,
        at: impl FnOnce(Option<Mono>) -> Option<(Mono, u64)>,
    ) -> Option<TaggedStamp> {
        let place = self.place(number)?;
        let stamp = self.all.remove(place)?;
        match at(stamp.kernel) {
            Some((at, bound)) => Some((stamp.tag, Stamp { at, kind: StampKind::Hardware }, bound)),
            None => stamp.kernel_stamp(),
        }
    }

    /// A kernel's stamp whose card's stamp is overdue.
    pub(super) fn overdue(&mut self, now: Mono) -> Option<TaggedStamp> {
        let old = |stamp: &PendingStamp| stamp.kernel.is_some_and(|at| now.since(at) > PATIENCE);
        let place = self.all.iter().position(old)?;
        self.all.remove(place)?.kernel_stamp()
    }

    fn place(&self, number: u32) -> Option<usize> {
        self.all.iter().position(|stamp| stamp.number == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(tag: u32, at: u64) -> TaggedStamp {
        (tag, Stamp { at: Mono(at), kind: StampKind::KernelTx }, 0)
    }

    fn three() -> PendingStamps {
        let mut pending = PendingStamps::default();
        [10, 11, 12].into_iter().for_each(|tag| pending.sent(tag));
        pending
    }

    #[test]
    fn the_kernels_stamp_is_told_at_once_where_no_card_stamps() {
        let mut pending = three();
        assert_eq!(pending.by_kernel(1, Some(Mono(5)), false), Some(kernel(11, 5)));
        assert_eq!(pending.by_kernel(1, Some(Mono(5)), false), None, "only once");
        assert_eq!(pending.by_kernel(0, None, false), None, "without a time");
        assert_eq!(pending.by_kernel(77, Some(Mono(5)), false), None);
        assert_eq!(pending.by_kernel(2, Some(Mono(6)), false), Some(kernel(12, 6)));
        assert!(pending.is_empty());
    }

    #[test]
    fn the_cards_stamp_is_waited_for_and_taken_if_it_can_be_true() {
        let mut pending = three();
        assert_eq!(pending.by_kernel(0, Some(Mono(5)), true), None);
        let told = pending.by_card(0, |kernel| {
            assert_eq!(kernel, Some(Mono(5)));
            Some((Mono(9), 3))
        });
        assert_eq!(told, Some((10, Stamp { at: Mono(9), kind: StampKind::Hardware }, 3)));
        pending.by_kernel(1, Some(Mono(6)), true);
        assert_eq!(pending.by_card(1, |_| None), Some(kernel(11, 6)));
        // Where the kernel's did not come, a card that cannot be right leaves nothing.
        assert_eq!(pending.by_card(2, |_| None), None);
        assert!(pending.is_empty());
    }

    #[test]
    fn a_card_that_says_nothing_is_waited_for_so_long() {
        let mut pending = three();
        pending.by_kernel(1, Some(Mono(5)), true);
        assert_eq!(pending.overdue(Mono(5 + PATIENCE)), None);
        assert_eq!(pending.overdue(Mono(6 + PATIENCE)), Some(kernel(11, 5)));
        assert_eq!(pending.overdue(Mono(u64::MAX)), None, "the others have no stamp at all");
    }

    #[test]
    fn no_more_are_waited_for_than_there_is_room() {
        let mut pending = PendingStamps::default();
        (0..100).for_each(|tag| pending.sent(tag));
        assert_eq!(pending.all.len(), MOST);
        assert_eq!(pending.by_kernel(35, Some(Mono(1)), false), None);
        assert_eq!(pending.by_kernel(36, Some(Mono(1)), false), Some(kernel(36, 1)));
    }
}
