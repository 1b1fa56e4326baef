//! Network cards that stamp packets themselves: which cards do, and their stamps on our clock.
//!
//! A card is used while a socket has it. Its clock (`/dev/ptpN`) is read ten times a second by a
//! thread of its own, and a stamp of the card is converted by the last reading
//! ([`metrics::CardClock`]). A card that stamps already is left as it is; another one is changed
//! only if the whole process was permitted to ([`permit_change`]), and its setting is restored when
//! the last socket has let go of it, and at the latest when the process ends, however that is asked
//! for.

use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(target_os = "linux")]
pub(crate) mod layout;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::{Card, LastPlacement};

static MAY_CHANGE: AtomicBool = AtomicBool::new(false);

/// Permits switching on the stamping of cards whose stamps a socket needs, as the user of this
/// process asked.
pub fn permit_change() {
    MAY_CHANGE.store(true, Ordering::Relaxed);
}

/// True if the stamp settings of cards may be changed.
pub(crate) fn may_change() -> bool {
    MAY_CHANGE.load(Ordering::Relaxed)
}
