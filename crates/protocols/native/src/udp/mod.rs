//! Native UDP: numbered datagrams on a schedule, in one direction or both, and the few words around
//! them.
//!
//! ```text
//! client                                server
//!   INIT (seal, id) ──────────────────▶  bound socket: answers, remembers nothing
//!   ◀───────────────────────── COOKIE     made of the address, the id and a secret
//!   OPEN (seal, id, cookie) ───────────▶  the address is proven: a flow with a connected socket of its own
//!   ◀───────────────────────── OPENED
//!   TIME ×16 ──────────────────────────▶  one under way, four stamps each: how far apart the clocks are (once within a host)
//!   ◀────────────────────────── TIMED
//!   DATA … ────────────────────────────▶  from the agreed instant on
//!   ◀──────────────────────────── DATA …  the server's own, or returned ones (`echo`)
//!   TIME, now and then ────────────────▶  with the state of clock comparison; keeps the flow alive
//!   ◀────────────────────────── TIMED
//!   END (how many were sent) ──────────▶  repeated until nothing is missing, or late for good
//!   ◀────────────────────────── ENDED     (how many were sent, how many are missing)
//! ```
//!
//! All words have 144 bytes, so that nothing larger ever goes to an address that has not returned
//! its cookie. The client repeats requests without an answer. [`codec`] draws the packets;
//! `docs/methods/delay.md` explains the results.

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
pub(super) use log::{Log, trains_of};
pub(super) use terms::{Terms, cookie};
pub(super) use track::{Track, Tracks};

use crate::preamble::Guess;
use metrics::SECOND;
use transport::Path;

/// Time after which a request without an answer is sent again, ns.
pub(super) const AGAIN: u64 = SECOND / 10;
/// Silence after which a path is taken for one that loses most datagrams, ns.
pub(super) const LOSSY: u64 = SECOND;
/// Silence on such a path after which requests follow each other closely, ns.
const UNANSWERED: u64 = 3 * SECOND / 10;
/// Round trip of datagrams of which nothing is known: their path may be slower than that of the
/// control connection, ns.
const UNKNOWN_TRIP: u64 = SECOND / 40;
/// First wait of a doubling series, ns; twice the round trip, if that is longer.
const SHORTEST: u64 = SECOND / 50;
/// Most times that a wait is doubled.
const MOST_DOUBLED: u32 = 5;
/// Time between such close requests of one flow, ns.
const CLOSELY: u64 = SECOND / 500;
/// Least time between close requests of all flows together, ns.
const TOGETHER: u64 = SECOND / 2_000;

/// Round trips before data flows: INIT, open, clock comparisons, and as many again for losses.
pub(crate) const ROUND_TRIPS: u64 = 6;

/// Repetitions of a flow, whose lead has half a second and round trips of the control connection.
pub(super) fn repetitions(flows: u32, lead_ns: u64) -> Repeat {
    let trip = lead_ns.saturating_sub(SECOND / 2) / ROUND_TRIPS;
    Repeat::new(flows, UNANSWERED + 8 * trip, trip.max(UNKNOWN_TRIP))
}

/// Times at which a client repeats a request that is not answered.
///
/// Each wait is twice as long as the one before, so that a slow path is not filled with
/// repetitions. A path that loses nine datagrams in ten each way answers one request in a hundred:
/// after long silence the requests follow each other closely.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repeat {
    flows: u32,
    /// Silence that is taken for loss, ns.
    patient: u64,
    /// Silence was taken for loss before.
    lossy: bool,
    tries: u32,
    /// The latest known, ns.
    pub(super) round_trip: u64,
}

impl Repeat {
    /// For one of `flows` flows, over a path that answers within `patient` ns, and usually after
    /// `round_trip` ns.
    pub(super) fn new(flows: u32, patient: u64, round_trip: u64) -> Self {
        Repeat { flows, patient, lossy: false, tries: 0, round_trip }
    }

    /// Wait for the answer to the request that leaves now, ns; `unheard` is the silence before it.
    pub(super) fn next(&mut self, unheard: u64) -> u64 {
        self.lossy |= unheard >= self.patient.max(4 * self.round_trip);
        if self.lossy && unheard >= UNANSWERED {
            return (u64::from(self.flows) * TOGETHER).clamp(CLOSELY, AGAIN);
        }
        let doubled = 1 << self.tries.min(MOST_DOUBLED);
        self.tries = self.tries.saturating_add(1);
        let wait = SHORTEST.max(2 * self.round_trip).saturating_mul(doubled);
        // The next one shows whether the path is lossy.
        let left = self.patient.max(4 * self.round_trip).saturating_sub(unheard);
        if left >= AGAIN { wait.min(left) } else { wait }
    }

    /// Begins anew: the other end was heard.
    pub(super) fn reset(&mut self) {
        self.tries = 0;
    }

    /// A question was answered after `round_trip` ns.
    pub(super) fn set_round_trip(&mut self, round_trip: u64) {
        (self.tries, self.round_trip) = (0, round_trip);
    }
}

/// Messages of flows, connectors and listeners to their session.
pub(crate) enum Posted {
    /// A peer of another protocol has connected, by these addresses; its protocol is a guess.
    ForeignPeer(Path, Guess),
    /// The hellos of this server, by its place in the plan, have been answered, or could not be
    /// sent for a reason of this host's.
    Answered(usize),
    /// A client's flow ends before it has been opened.
    Unopened,
    /// Figures and records of a flow that is over.
    Track(Box<Track>),
}
