//! The media stream over UDP.
//!
//! ```text
//! client                                     server
//!   START ───────────────────────────────────▶          again until something came
//!   ◀───────────────────── identifier, once
//!   ◀─────── frame 1, in so many datagrams, one frame time later
//!   ◀─────── frame 2 …                                   each at its time, independent of replies
//!   (nothing more, ever)                                 done when the last frame has left
//!   done when the last frame was to be shown
//! ```
//!
//! The server neither knows what arrived nor whether anybody is there; the client judges each frame
//! when it is to be shown. A START proves no address: servers answer it behind a fence only.

mod receive;
mod ring;
mod send;

pub use receive::Receiver;
pub use ring::Ring;
pub use send::Sender;

use metrics::SECOND;

/// Ticks in a second of the clock that our senders put into datagrams and our receivers into rows:
/// as on Windows. Counted from the start of a stream, they stay below 2^47 for 162 days.
pub const HZ: i64 = 10_000_000;

/// Ticks that `ns` are.
fn ticks(ns: u64) -> i64 {
    (ns / (SECOND / HZ as u64)) as i64
}
