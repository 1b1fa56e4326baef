//! A flow's estimate of the other end's clock.

use super::codec::Word;
use metrics::{ClockFound, ClockKind, Estimate, Exchange, Mono, Offset};
use transport::{Context, Received};

/// Error bound between stamps of two processes of one host, ns: each process finds its own zero
/// between readings of the same clock, and the kernel stamps by the wall clock.
const SAME_HOST_BOUND: u64 = 1_000;

/// The two clocks of a flow. The client compares them and sends the estimate to the server.
#[derive(Debug)]
pub(super) struct Clocks {
    kind: ClockKind,
    client: bool,
    offset: Offset,
    /// The server's clock minus the client's; with a bound of 0 before they were compared.
    pub(super) known: Estimate,
}

impl Clocks {
    pub(super) fn new(kind: ClockKind, client: bool) -> Self {
        Clocks { kind, client, offset: Offset::default(), known: Estimate::default() }
    }

    /// Our clock minus the other end's, once they were compared.
    pub(super) fn ours(&self) -> Option<Estimate> {
        let Estimate { offset_ns, bound_ns } = self.known;
        let offset_ns = if self.client { offset_ns.wrapping_neg() } else { offset_ns };
        (bound_ns > 0).then_some(Estimate { offset_ns, bound_ns })
    }

    pub(super) fn apply(&mut self, word: &Word) {
        if word.bound > 0 {
            let same = word.offset == 0 && word.bound == SAME_HOST_BOUND;
            if self.kind == ClockKind::SameHost && !same {
                // The client has found that the two clocks are not one.
                self.kind = ClockKind::InBand;
            }
            self.known = Estimate { offset_ns: word.offset, bound_ns: word.bound };
        }
    }

    /// The server has answered a request for its time; the next request follows within `pulse` ns.
    pub(super) fn exchanged(&mut self, cx: &Context<'_>, word: &Word, got: &Received<'_>, pulse: u64) {
        let came = got.arrived();
        let (t1, t4) = (Mono(word.t1), Mono(cx.clock.host(came)));
        if self.kind != ClockKind::Realtime {
            self.offset.add(Exchange { t1, t2: word.t2 as i64, t3: word.t3 as i64, t4 });
        }
        match self.kind {
            // Snapshots of one machine share its boot identifier: the flow's own stamps have to
            // agree.
            ClockKind::SameHost if self.offset.allows(0, SAME_HOST_BOUND) => {
                self.known = Estimate { offset_ns: 0, bound_ns: SAME_HOST_BOUND };
            }
            ClockKind::Realtime => {
                // Both wall clocks show the same time within the errors that their kernels state.
                let offset_ns = wall_above_host(cx).wrapping_sub(word.offset);
                let bound_ns = cx.clock.error_ns.saturating_add(word.bound).max(1);
                self.known = Estimate { offset_ns, bound_ns };
            }
            ClockKind::InBand | ClockKind::SameHost => {
                self.kind = ClockKind::InBand;
                // The bound allows for the largest possible drift until the next exchange.
                if let Some(Estimate { offset_ns, bound_ns }) = self.offset.during(t4, pulse) {
                    self.known = Estimate { offset_ns, bound_ns: bound_ns.max(1) };
                }
            }
        }
    }

    /// Compares the stamps of the flow's last messages, too, if the clocks are compared in band.
    pub(super) fn closing(&mut self, cx: &Context<'_>, word: &Word, got: &Received<'_>, pulse: u64) {
        if self.kind == ClockKind::InBand {
            self.exchanged(cx, word, got, pulse);
        }
    }

    /// Offset and bound in a server's answers: its wall clock minus its monotonic one, and the wall
    /// clock's error bound. `None` unless wall clocks are compared: answers then repeat the
    /// client's estimate.
    pub(super) fn wall(&self, cx: &Context<'_>) -> Option<(i64, u64)> {
        (self.kind == ClockKind::Realtime).then(|| (wall_above_host(cx), cx.clock.error_ns))
    }

    /// The method of comparing the clocks, and this end's result.
    pub(super) fn comparison(&self, cx: &Context<'_>) -> (ClockKind, Option<ClockFound>) {
        let found = || self.offset.summary(Mono(cx.clock.host(cx.now)));
        (self.kind, (self.kind == ClockKind::InBand).then(found).flatten())
    }
}

/// The wall clock minus the host's monotonic clock, ns.
fn wall_above_host(cx: &Context<'_>) -> i64 {
    cx.clock.wall(cx.now).0.wrapping_sub(cx.clock.host_signed(cx.now))
}
