//! UDPmon 1.5.2 (Richard Hughes-Jones, University of Manchester): trains of numbered packets, and one conversation about them
//! on the same UDP port.
//!
//! ```text
//! udpmon_bw_mon                                     udpmon_resp
//!   ZEROSTATS, with what is to be counted ──────────▶
//!   ◀────────────────────────────────────────────── OK
//!   REQ_RESP, 200 times, if records are wanted ─────▶
//!   ◀──────────────────────────────────────── RESPONSE     the two clocks
//!   START ──────────────────────────────────────────▶
//!   ◀────────────────────────────────────────────── OK
//!   DATA 0 ─────────────────────────────────────────▶
//!   DATA 1 … each at its time ──────────────────────▶
//!   GETSTATS, GETHIST0 and others, piece by piece ──▶
//!   ◀─────────────────────── each piece, without a head
//!   TESTEND ────────────────────────────────────────▶
//!   ◀────────────────────────────────────────────── OK
//! ```

pub mod blocks;
pub mod codec;
mod latency;
mod ledger;
mod params;
pub mod proc;
mod request;
mod respond;
mod talk;
mod train;

pub use codec::PORT;
pub use latency::Latency;
pub use params::Params;
pub use request::{Requester, connectors};
pub use respond::{Listener, Responder, acceptors};
