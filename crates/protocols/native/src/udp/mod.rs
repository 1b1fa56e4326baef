//! Native UDP: numbered datagrams on a schedule, in one direction or both, and the few words around them.
//!
//! ```text
//! client                                server
//!   INIT (seal, id) ──────────────────▶  bound socket: answers, remembers nothing
//!   ◀───────────────────────── COOKIE     made of the address, the id and a secret
//!   OPEN (seal, id, cookie) ───────────▶  the address is proven: a flow with a connected socket of its own
//!   ◀───────────────────────── OPENED
//!   TIME ×16 ──────────────────────────▶  four stamps each: how far apart the clocks are (once within a host)
//!   ◀────────────────────────── TIMED
//!   DATA … ────────────────────────────▶  from the agreed instant on
//!   ◀──────────────────────────── DATA …  the server's own, or returned ones (`echo`)
//!   TIME, now and then ────────────────▶  with the state of clock comparison; keeps the flow alive
//!   ◀────────────────────────── TIMED
//!   END (how many were sent) ──────────▶  repeated until nothing is missing, or late for good
//!   ◀────────────────────────── ENDED     (how many were sent, how many are missing)
//! ```
//!
//! All words have 144 bytes, so that nothing larger ever goes to an address that has not returned its cookie. The client
//! repeats what is not answered. Packets are drawn in [`codec`]; `docs/methods/delay.md` says what is made of them.

mod clocks;
mod codec;
mod echo;
mod flow;
mod log;
mod receiver;
mod sender;
mod show;
mod terms;
mod track;

pub use codec::{CONTROL, HEADER, Header, Kind, Word};
pub use flow::Probe;
pub(super) use log::{Log, found};
pub(super) use terms::{Terms, cookie};
pub(super) use track::{Track, Tracks};

use crate::preamble::Guess;
use metrics::SECOND;
use transport::Path;

/// Time after which what is not answered is sent again, ns.
const AGAIN: u64 = SECOND / 10;
/// So long without an answer, and requests follow each other more closely, ns: most of them are lost.
const UNANSWERED: u64 = 3 * SECOND / 10;
/// Time between these, of one flow alone, ns.
const CLOSELY: u64 = SECOND / 500;
/// And all flows together no more often than this, ns.
const TOGETHER: u64 = SECOND / 2_000;

/// When a client sends a request again that has not been answered for so long, ns from now. Of a path that loses nine datagrams in
/// ten each way one exchange in a hundred succeeds: at ten requests a second a flow would take a minute to open.
pub(super) fn again(unanswered: u64, flows: u32) -> u64 {
    if unanswered < UNANSWERED { AGAIN } else { (u64::from(flows) * TOGETHER).clamp(CLOSELY, AGAIN) }
}

/// What flows, connectors and listeners tell their session.
pub(crate) enum Posted {
    /// A connection that was not for us has come from there, and seems to speak this.
    ForeignPeer(Path, Guess),
    /// The hellos of this server, by its place in the plan, have been answered, or could not be sent for a reason of this host's.
    Answered(usize),
    /// A client's flow ends before it has been opened.
    Unopened,
    /// What is known of a flow that is over.
    Track(Box<Track>),
}
