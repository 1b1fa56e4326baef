//! Virtual time: flows, openers and sessions run against each other without a socket or a clock, through the same
//! [`transport::turn()`] as on a worker.
//!
//! - [`Pair`]: two flows over one connection, stream or datagrams.
//! - [`Network`]: machines with sessions and workers, as the engine runs them, and peers that only say what they are told.
//! - [`Link`]: what the network does to one direction: delay, rate, loss, order, damage, cuts.
//! - [`Quirks`]: what a real machine does that a tidy test would not: partial sends, reads of any size, sockets that are
//!   full, threads that are late, a wall clock that steps.
//!
//! All chance comes from a seed; a failure repeats.
//!
//! ```
//! use metrics::Group;
//! use model::Phase;
//! use std::sync::Arc;
//! use wire::native::{Data, Grant, Grants, Params, Reception};
//! use wire::sim::{Link, Pair, Quirks};
//!
//! let (token, transfer) = ([7; 16], 100_000);
//! let params = Arc::new(Params::of(&Phase { transfer, ..Phase::default() }, Group(1)));
//! let grants = Arc::new(Grants::new(None));
//! grants.insert(token, Arc::new(Grant::new(Arc::clone(&params), 1, transfer, false)));
//! let mut reception = Reception::new(grants, Arc::default(), 0);
//! let client = Data::client(params, token, uuid::Uuid::from_u128(7), 0, transfer, false);
//!
//! let mut pair = Pair::accepted(Box::new(client), &mut reception)
//!     .seed(42)
//!     .quirks(Quirks::one_byte_reads())
//!     .both(Link::new().delay(20_000_000).loss(0.01));
//! pair.run();
//! assert!(pair.ends[0].completed() && pair.ends[1].completed());
//! assert_eq!(pair.ends[1].counts.rx_bytes, transfer);
//! ```
#![allow(
    clippy::panic,
    clippy::expect_used,
    reason = "a test harness: a broken rule of `transport` ends the test"
)]

mod datagram;
mod door;
mod host;
mod link;
mod network;
mod pair;
mod pipe;
mod raw;
mod side;
mod stream;
mod worker;

pub use datagram::Fate;
pub use host::Host;
pub use link::{At, Cut, Link};
pub use network::Network;
pub use pair::{End, Pair, START};
pub use raw::{HungUp, Raw, Say};
pub use side::{Card, Quirks, Side};
