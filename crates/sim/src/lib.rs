//! Virtual time: the platform of `transport`, with a network, a clock and threads that exist in
//! memory alone.
//!
//! - [`Sim`]: a host of a simulated world, which is a [`transport::Platform`].
//! - [`Pair`]: two flows over one connection, stream or datagrams, each on a worker.
//! - [`Network`]: machines with sessions, run by the engine as it ships, and peers that only say
//!   what they are told.
//! - [`Link`]: what the network does to one direction: delay, rate, loss, order, damage, cuts.
//! - [`Quirks`]: what a real machine does that a tidy test would not: partial sends, reads of any
//!   size, sockets that are full, threads that are late, a wall clock that steps.
//!
//! Each thread has its own time, and the one furthest behind takes the next step; every call to the
//! platform takes some of it. All chance comes from a seed; a failure repeats.
#![allow(
    clippy::panic,
    clippy::expect_used,
    reason = "a test harness: a broken rule of `transport` ends the test"
)]
#![forbid(unsafe_code)]

mod datagram;
mod flow;
mod link;
mod measured;
mod network;
mod pair;
mod pipe;
mod platform;
mod quirks;
mod raw;
mod run;
mod session;
mod side;
mod socket;
mod stream;
mod tcp;
mod udp;
mod world;

pub use datagram::Fate;
pub use link::{At, Cut, Link};
pub use measured::Load;
pub use network::{Host, Network};
pub use pair::{End, Pair};
pub use platform::{Sim, SimClock, SimJoin, SimReactor, SimReceiver, SimSender, SimWaker};
pub use quirks::{Card, Quirks};
pub use raw::{HungUp, Raw, Say};
pub use side::Side;
pub use socket::Socket;

use metrics::{Mono, SECOND};

/// When a simulation begins: not at 0, which would hide bugs.
pub const START: Mono = Mono(SECOND);
