//! ttcp and its descendants: BRL 1984, SGI, CERN, epi_ttcp, and Teldat's `ttcp tx` and `rx`.
//!
//! Over TCP there is nothing but data: the transmitter connects, writes, and closes; the receiver takes one connection and
//! reads to its end. Over UDP markers stand before and behind it ([`bulk::Marks`]). `docs/protocols/ttcp.md` has both.

mod receive;

pub use receive::{Deed, Test};

use crate::bulk::{self, Filler, Marks};
use crate::solo::{Answers, Calls};
use model::{Kind, Phase};
use receive::{Answerer, House};
use std::sync::Arc;
use transport::Opener;

/// The default port.
pub const PORT: u16 = 5001;

/// A transmitter's openers.
#[must_use]
pub fn callers(phase: &Phase, calls: &Calls) -> Vec<Box<dyn Opener>> {
    if phase.kind == Kind::Tcp {
        return bulk::callers(phase, calls, Filler::Printable);
    }
    let marks = if calls.marks == Marks::Epi { Marks::Epi } else { Marks::Classic };
    bulk::pourers(phase, calls, Filler::Printable, marks)
}

/// A receiver's openers, for connections and for datagrams.
#[must_use]
pub fn answerers(phase: &Phase, answers: &Answers) -> Vec<Box<dyn Opener>> {
    let house = Arc::new(House::new(phase, answers));
    let one = |streams| Box::new(Answerer::new(streams, Arc::clone(&house))) as Box<dyn Opener>;
    bulk::answerers(phase, answers, Filler::Printable).into_iter().map(one).collect()
}
