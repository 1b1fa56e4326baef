//! Who may have a test: a token of name, password and time, encrypted with the server's public key.

use metrics::Wall;

/// Knows who may have a test.
#[derive(Clone, Debug)]
pub struct Keeper {}

impl Keeper {
    /// Whether a token proves a known user, at this time.
    #[must_use]
    pub fn admits(&self, token: Option<&str>, now: Wall) -> bool {
        let _ = (token, now);
        false
    }
}
