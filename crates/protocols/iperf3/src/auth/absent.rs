//! Authentication in a build without RSA: tests that need it are refused.

use super::Users;
use crate::host::Random;
use metrics::Wall;

const ABSENT: &str = "this netcaliper was built without iperf3's authentication (cargo build --release --features iperf3-auth)";

/// Refuses authentication, which this build does not have.
///
/// # Errors
/// Always: one sentence that says which build does.
pub fn available() -> Result<(), String> {
    Err(ABSENT.to_owned())
}

/// Authenticator of users, of which a build without RSA has none.
pub enum Authenticator {}

impl Authenticator {
    /// Makes none.
    pub fn new(_: &str, _: Users, _: u32, _: bool, _: Random) -> Result<Self, String> {
        Err(ABSENT.to_owned())
    }

    /// True if a token proves a known user, at this time.
    pub fn admits(&self, _: Option<&str>, _: Wall) -> bool {
        match *self {}
    }
}

/// Makes no token.
pub fn token(_: (&str, &str), _: Wall, _: &str, _: bool, _: Random) -> Result<String, String> {
    Err(ABSENT.to_owned())
}
