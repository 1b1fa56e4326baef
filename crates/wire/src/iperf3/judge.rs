//! The verdict on a token, made somewhere else: a private key takes up to a second of a core, and the users' file has to be read.

use metrics::Wall;
use std::sync::{Arc, OnceLock};

/// Whether a token proves a known user; empty until that is known.
pub type Verdict = Arc<OnceLock<bool>>;

/// Judges tokens on a thread of its own.
pub trait Judge: Send + Sync {
    /// Begins to judge a token that came at `now`, and returns at once; `None` when there is no room: to be asked again later.
    fn ask(&self, token: Option<&str>, now: Wall) -> Option<Verdict>;
}
