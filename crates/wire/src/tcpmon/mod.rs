//! tcpmon 2.2.1, UDPmon's sister: messages over a TCP connection, then questions about them on the same connection.
//!
//! ```text
//! tcpmon_mon                                        tcpmon_resp
//!   DATA, of any length, again and again ───────────▶ counted
//!   GETSTATS ───────────────────────────────────────▶
//!   ◀─────────────────── the same head with the sums
//!   GETNETSNMP, GETNICSTATS twice, GETCPULOAD ──────▶
//!   ◀─────────────────────── a block, whole, for each
//!   FIN
//! ```

pub mod codec;
mod notes;
mod plan;
mod request;
mod respond;

pub use codec::PORT;
pub use notes::Wanted;
pub use plan::{Plan, Test};
pub use request::{Requester, connectors};
pub use respond::{Listener, Responder, acceptors};
