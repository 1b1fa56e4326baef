//! Authentication: a token of name, password and time, encrypted with the server's public key.
//!
//! ```text
//! authtoken = base64(RSA(public key, "user: NAME\npwd:  PASSWORD\nts:   SECONDS"))      one line; two blanks, three blanks
//! padding     OAEP with SHA-1 and MGF1-SHA-1 since 3.17, PKCS#1 v1.5 before
//! users       a line each: NAME,hex(SHA-256("{NAME}PASSWORD")); '#' begins a comment
//! ```
//!
//! Nothing that a client sees depends on the reason of a refused token: all go the same way, and
//! the session sends its verdict at fixed times, which show the time of the private key in steps of
//! a quarter of a second only.

#[cfg(not(feature = "auth"))]
mod absent;
#[cfg(feature = "auth")]
mod present;

#[cfg(not(feature = "auth"))]
pub use absent::{Authenticator, available, token};
#[cfg(feature = "auth")]
pub use present::{Authenticator, available, token};

use std::sync::Arc;

/// The text of the users' file, as it is now.
pub type Users = Arc<dyn Fn() -> Option<String> + Send + Sync>;
