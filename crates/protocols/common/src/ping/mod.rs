//! The asking end of round trips, for all protocols.
//!
//! - [`codec`]: a message that is echoed as it was sent.
//! - [`Pinger`]: one connection of the asking end.
//! - [`Talk`]: messages and answers of protocols that do not merely echo bytes.

pub mod codec;
mod params;
mod pinger;
mod slots;
mod talk;
mod window;

use model::Phase;
pub use params::{Params, Remote};
pub use pinger::Pinger;
pub use talk::{DecodedEcho, Talk, Times};

/// Settings of STAMP packets are for STAMP only.
///
/// # Errors
/// Refuses STAMP settings, as the rest of a sentence about the protocol.
pub fn without_stamp(phase: &Phase) -> Result<(), &'static str> {
    match phase.ping.and_then(|ping| ping.stamp) {
        Some(_) => Err("has no STAMP packets: use --protocol stamp for settings of theirs"),
        None => Ok(()),
    }
}
