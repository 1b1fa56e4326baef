//! Receiver of ntttcp's UDP data: datagrams without header, number or end. Each sender's datagrams
//! to each port are counted.
//!
//! 1. Nothing is answered, and no sender gets a socket of its own.
//! 2. Datagrams outside the measured time are dropped.
//! 3. Senders end by falling silent: after a second without datagrams a worker counts all its
//!    senders as ended.

use super::open::{Posted, ReceiverState};
use crate::one_sided::GROUP;
use common::Patience;
use common::kernel::Unconnected;
use common::message::post_event;
use metrics::{Clamped, Ending, Mono, Packets, SECOND};
use model::{Event, Portion};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use transport::{Context, Path, Received};

/// Senders' sockets with counts of their own, times ports; as many as a sender may have threads.
const MOST: usize = 25_600;
/// The wait for the next datagram, behind which a worker counts as left.
const SILENCE: Patience = Patience::of("no datagram", SECOND);

/// Datagrams that one worker received.
pub(super) struct DatagramReceiver {
    shared: Arc<ReceiverState>,
    /// Traffic of each sender's socket to each port; times are those of the process, ns.
    accounts: HashMap<(SocketAddr, u16), Portion>,
    arrivals: Unconnected,
    last: Mono,
    /// The last counted datagram.
    counted: Mono,
    /// Counted among the workers that receive datagrams.
    open: bool,
    closed: bool,
}

impl DatagramReceiver {
    pub(super) fn new(shared: Arc<ReceiverState>) -> Self {
        DatagramReceiver {
            shared,
            accounts: HashMap::new(),
            arrivals: Unconnected::new(GROUP),
            last: Mono(0),
            counted: Mono(0),
            open: false,
            closed: false,
        }
    }

    /// True if this sender's datagrams count: a control connection proves its address.
    fn admits(&mut self, cx: &mut Context<'_>, path: &Path) -> bool {
        let who = path.peer.ip();
        let shared = &*self.shared;
        let streams = if shared.is_proven(who) { &shared.acl } else { &shared.streams };
        self.accounts.len() < MOST && self.arrivals.pending.admits(cx, &shared.acl, streams, who)
    }

    pub(super) fn enter(&mut self, cx: &mut Context<'_>, got: &Received<'_>) {
        let Some(path) = got.from else { return };
        let key = (path.peer, path.local.port());
        let at = got.arrived();
        if !self.accounts.contains_key(&key) {
            if !self.admits(cx, &path) {
                return;
            }
            self.shared.begin(at);
            cx.rec.tally(GROUP).opened += 1;
            post_event(cx, Event::Established { local: path.local, remote: path.peer, at_ns: at.0 });
            self.accounts.insert(key, Portion::new(path.local, path.peer, at.0));
        }
        self.last = self.last.max(cx.now);
        if !std::mem::replace(&mut self.open, true) {
            self.shared.open.fetch_add(1, Ordering::Relaxed);
            cx.post(Posted::Back);
        }
        let drops = self.arrivals.drops(got);
        let Some(account) = self.accounts.get_mut(&key).filter(|_| self.shared.params.table.counts(at))
        else {
            return;
        };
        account.rx_bytes += u64::clamped(got.len);
        account.calls += 1;
        account.to_ns = at.0;
        self.counted = self.counted.max(at);
        self.arrivals.see_marks(cx, got);
        self.arrivals.received(cx, got.len, &Packets { received: 1, ..drops });
    }

    /// Notices silence; reports the traffic when all is over.
    pub(super) fn on_timer(&mut self, cx: &mut Context<'_>) -> Option<Mono> {
        if self.open && (self.closed || SILENCE.since(self.last).is_over(cx.now)) {
            self.open = false;
            if self.shared.open.fetch_sub(1, Ordering::Relaxed) == 1 {
                cx.post(Posted::Empty(self.counted));
            }
        }
        if self.closed {
            let tally = cx.rec.tally(GROUP);
            (0..self.accounts.len()).for_each(|_| tally.ended(Ending::Completed));
            for account in std::mem::take(&mut self.accounts).into_values() {
                post_event(cx, Event::Portion(Box::new(account)));
            }
        }
        self.open.then(|| SILENCE.since(self.last).until())
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
    }
}
