//! ttcp and its descendants: BRL 1984, SGI, CERN, epi_ttcp, and Teldat's `ttcp tx` and `rx`.
//!
//! Over TCP there is nothing but data: the transmitter connects, writes, and closes; the receiver takes one connection and
//! reads to its end. `docs/protocols/ttcp.md` has that, and the markers by which it is done over UDP.

use crate::bulk::{self, Filler};
use crate::solo::{Answers, Calls};
use model::Phase;
use seam::Opener;

/// The default port.
pub const PORT: u16 = 5001;

/// A transmitter's openers.
#[must_use]
pub fn callers(phase: &Phase, calls: &Calls) -> Vec<Box<dyn Opener>> {
    bulk::callers(phase, calls, Filler::Printable)
}

/// A receiver's openers.
#[must_use]
pub fn answerers(phase: &Phase, answers: &Answers) -> Vec<Box<dyn Opener>> {
    bulk::answerers(phase, answers, Filler::Printable)
}
