//! Readings of this host's counters, and what waits for them: a thread of the runtime reads, and a
//! flow looks from time to time whether it has.

use crate::host::{HostTexts, PendingTexts};
use metrics::{Mono, SECOND};

/// Interval of the checks for a reading, ns.
const LOOK: u64 = SECOND / 1_000;
/// Longest wait for a reading, ns.
pub(crate) const READING: u64 = SECOND;
/// Longest wait for a reading before an answer, or before the first message is read, ns: with many
/// tests at once they queue.
pub(crate) const FIRST: u64 = SECOND / 20;

/// True if a reading is there, or none was begun.
pub(crate) fn is_there(reading: &Option<PendingTexts>) -> bool {
    reading.as_ref().is_none_or(|reading| reading.get().is_some())
}

/// Texts of a reading; empty before it is there.
pub(crate) fn texts(reading: &Option<PendingTexts>) -> HostTexts {
    reading.as_ref().and_then(|reading| reading.get()).cloned().unwrap_or_default()
}

/// Something that waits for a reading, but not for ever.
#[derive(Debug)]
pub(crate) struct Pending<T> {
    pub(crate) what: T,
    until: Mono,
    /// When it is looked for the reading again.
    look: Mono,
}

impl<T> Pending<T> {
    /// `what` waits for `patience`, ns.
    pub(crate) fn new(what: T, now: Mono, patience: u64) -> Option<Self> {
        Some(Pending { what, until: now.plus(patience), look: now })
    }

    /// The item that waited for a reading, once `is_read` is true or its time is over; else the
    /// next check is later.
    pub(crate) fn take(pending: &mut Option<Self>, now: Mono, is_read: impl Fn(&T) -> bool) -> Option<T> {
        let waits = pending.as_mut()?;
        if is_read(&waits.what) || now >= waits.until {
            return pending.take().map(|waits| waits.what);
        }
        waits.look = now.plus(LOOK);
        None
    }

    /// When it is looked for the reading again, if anything waits.
    pub(crate) fn look(pending: &Option<Self>) -> Option<Mono> {
        pending.as_ref().map(|waits| waits.look)
    }
}
