//! The remote end of trains whose packets are returned: each returns at once, one by one, under its
//! own number.
//!
//! A returned packet is DATA like any other, with its arrival at the remote end as `intended` and
//! its departure there as `actual`, by that host's clock. So the client knows the time between, and
//! each end measures one way as for other DATA. A damaged packet is not returned; a repeated one is
//! returned each time.

use super::codec::{Check, Header};
use super::receiver::Receiver;
use metrics::Packets;
use transport::{Context, Received, Sent, Transmit};

#[derive(Debug)]
pub(super) struct Returner {
    check: Check,
    /// Different datagrams that were returned.
    pub(super) returned: u64,
    /// Different ones that had arrived before the offered one.
    before: u64,
    fresh: bool,
}

impl Returner {
    pub(super) fn new(check: Check) -> Self {
        Returner { check, returned: 0, before: 0, fresh: false }
    }

    /// Offers the datagrams that `receiver` has just received; false if none. Merged datagrams
    /// (GRO) cannot all be returned and are never requested with `echo`.
    pub(super) fn offer(
        &mut self,
        cx: &Context<'_>,
        got: &Received<'_>,
        receiver: &Receiver,
        reply: &mut Transmit<'_>,
    ) -> bool {
        self.fresh = receiver.unique() > self.before;
        self.before = receiver.unique();
        let whole = got.count() == 1 && !got.truncated && reply.is_empty();
        let Some(header) = receiver.intact(got.bytes).filter(|_| whole) else { return false };
        let room = reply.own(got.bytes.len());
        if room.len() != got.bytes.len() {
            return false;
        }
        room.copy_from_slice(got.bytes);
        let came = got.arrived();
        let (intended, actual) = (cx.clock.host(came), cx.clock.host(cx.now));
        Header { intended, actual, ..header }.write(self.check, room);
        true
    }

    pub(super) fn wrote(&mut self, n: Sent) -> Packets {
        let gone = n.bytes > 0;
        self.returned += u64::from(gone && self.fresh);
        let refused = u64::from(n.fault.is_some());
        Packets { sent: u64::from(gone), unsent: u64::from(!gone), refused, ..Packets::default() }
    }
}
