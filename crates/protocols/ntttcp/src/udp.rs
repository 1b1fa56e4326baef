//! Receiver of ntttcp's UDP data: datagrams without header, number or end. Each sender's datagrams to each port are counted.
//!
//! 1. Nothing is answered, and no sender gets a socket of its own.
//! 2. Datagrams outside the measured time are dropped.
//! 3. Senders end by falling silent: after a second without datagrams a worker counts all its senders as ended.

use super::open::{Empty, Shared};
use crate::one_sided::{Arrived, GROUP, Portion};
use common::kernel::Unconnected;
use metrics::{Ending, Mono, Packets, SECOND};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use transport::{Context, Path, Received};

/// Senders' sockets that are told apart, times ports; as many as a sender may have threads.
const MOST: usize = 25_600;
/// How long nothing may come to a worker that is not left yet, ns.
const SILENCE: u64 = SECOND;

/// Posted at the first datagram after a silence.
pub(super) struct Back;

/// What one sender's socket has sent to one port.
struct Account {
    path: Path,
    bytes: u64,
    datagrams: u64,
    since: Mono,
    last: Mono,
}

/// What has come to one worker.
pub(super) struct Books {
    shared: Arc<Shared>,
    accounts: HashMap<(SocketAddr, u16), Account>,
    arrivals: Unconnected,
    last: Mono,
    /// When the last that counts came.
    counted: Mono,
    /// Counted among the workers to which something comes.
    open: bool,
    closed: bool,
}

impl Books {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Books {
            shared,
            accounts: HashMap::new(),
            arrivals: Unconnected::new(GROUP),
            last: Mono(0),
            counted: Mono(0),
            open: false,
            closed: false,
        }
    }

    /// Whether this sender is heard: who talks to us has proven its address.
    fn admits(&mut self, cx: &mut Context<'_>, path: &Path) -> bool {
        let who = path.peer.ip();
        let shared = &*self.shared;
        let proven =
            shared.proven.lock().unwrap_or_else(PoisonError::into_inner).contains(&who.to_canonical());
        let streams = if proven { &shared.acl } else { &shared.streams };
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
            cx.post(Arrived { path, at });
            let account = Account { path, bytes: 0, datagrams: 0, since: at, last: at };
            self.accounts.insert(key, account);
        }
        self.last = self.last.max(cx.now);
        if !std::mem::replace(&mut self.open, true) {
            self.shared.open.fetch_add(1, Ordering::Relaxed);
            cx.post(Back);
        }
        let dropped = self.arrivals.dropped(got);
        let Some(account) = self.accounts.get_mut(&key).filter(|_| self.shared.params.table.counts(at))
        else {
            return;
        };
        account.bytes += got.len as u64;
        account.datagrams += 1;
        account.last = at;
        self.counted = self.counted.max(at);
        self.arrivals.received(cx, got.len, &Packets { received: 1, dropped, ..Packets::default() });
    }

    /// Notices silence; tells what has come when all is over.
    pub(super) fn on_timer(&mut self, cx: &mut Context<'_>) -> Option<Mono> {
        if self.open && (self.closed || cx.now.since(self.last) >= SILENCE) {
            self.open = false;
            if self.shared.open.fetch_sub(1, Ordering::Relaxed) == 1 {
                cx.post(Empty { last: self.counted });
            }
        }
        if self.closed {
            let tally = cx.rec.tally(GROUP);
            (0..self.accounts.len()).for_each(|_| tally.ended(Ending::Completed));
            for account in std::mem::take(&mut self.accounts).into_values() {
                cx.post(Portion {
                    rx_bytes: account.bytes,
                    from: account.since,
                    to: account.last,
                    calls: account.datagrams,
                    ..Portion::new(0, account.path)
                });
            }
        }
        self.open.then(|| self.last.plus(SILENCE))
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
    }
}
