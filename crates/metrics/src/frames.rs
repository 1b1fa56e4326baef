//! Frames of a media stream.

use serde::{Deserialize, Serialize};

/// Frames as the receiver of a media stream judged them when they were due to be shown
/// (ctsTraffic's renderer).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Frames {
    /// All bytes arrived.
    pub completed: u64,
    /// Bytes were missing.
    pub dropped: u64,
    /// More bytes arrived than the frame has.
    pub repeated: u64,
    /// Datagrams of no frame that was waited for: too late, too early, or beyond the last.
    pub errors: u64,
}

impl Frames {
    /// Number of judged frames.
    pub fn judged(&self) -> u64 {
        self.completed + self.dropped + self.repeated
    }

    /// Adds others.
    pub fn add(&mut self, more: Frames) {
        self.completed += more.completed;
        self.dropped += more.dropped;
        self.repeated += more.repeated;
        self.errors += more.errors;
    }
}
