//! STAMP (RFC 8762, RFC 8972), and with it TWAMP-Light (RFC 5357 appendix I): numbered and stamped UDP packets, and answers
//! that say when each was received and when the answer left, so that a round trip falls into its two ways.
//!
//! - [`codec`]: the packets; [`time`]: times and their errors; [`tlv`]: extensions.
//! - [`Speaker`]: what a [`Pinger`](crate::echo::Pinger) says and hears, when it speaks this.
//! - [`reflect`]: an answer to a request; [`Reflector`]: a sender's session; [`Listener`]: who gets one.
//!
//! `docs/protocols/stamp.md` has the details, and how to use it with routers.

mod clocks;
pub mod codec;
mod open;
pub mod reflect;
mod session;
mod speak;
pub mod time;
pub mod tlv;
mod ways;

pub use open::{Listener, acceptors, connectors};
pub use session::Reflector;
pub use speak::Speaker;

/// The default port (UDP).
pub const PORT: u16 = 862;
