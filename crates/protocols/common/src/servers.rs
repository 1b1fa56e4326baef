//! Servers of a client without a conversation, shared by its workers: the address in use of each,
//! and the payload that was moved there.

use crate::config::Peer;
use model::{Kind, Phase};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The servers, in the order in which the user named them.
#[derive(Debug, Default)]
pub struct Servers(Vec<NamedServer>);

#[derive(Debug)]
struct NamedServer {
    name: String,
    addresses: Vec<SocketAddr>,
    /// The address in use, by its place.
    at: AtomicUsize,
    /// A connection was established: the address stays.
    reached: AtomicBool,
    /// Payload bytes of ended connections: sent, received, and sent over connections that
    /// completed.
    moved: [AtomicU64; 3],
}

/// Another address of a server.
pub(crate) struct Elsewhere {
    /// The address.
    pub(crate) to: SocketAddr,
    /// The words for the user, of the first connection that goes there.
    pub(crate) notice: Option<String>,
}

impl Servers {
    /// The servers of a client's configuration.
    pub fn of(peers: &[Peer]) -> Arc<Self> {
        let server = |peer: &Peer| NamedServer {
            name: peer.name.clone(),
            addresses: std::iter::once(peer.address).chain(peer.others.iter().copied()).collect(),
            at: AtomicUsize::new(0),
            reached: AtomicBool::new(false),
            moved: [const { AtomicU64::new(0) }; 3],
        };
        Arc::new(Servers(peers.iter().map(server).collect()))
    }

    /// Servers with one address each, which is their name, too.
    pub fn at(addresses: impl IntoIterator<Item = SocketAddr>) -> Arc<Self> {
        let peers: Vec<Peer> = addresses.into_iter().map(|at| Peer::new(at.to_string(), at)).collect();
        Servers::of(&peers)
    }

    /// Number of servers.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The address in use of server `n`.
    pub fn address(&self, n: usize) -> Option<SocketAddr> {
        let server = self.0.get(n)?;
        server.addresses.get(server.at.load(Ordering::Relaxed)).copied()
    }

    /// A connection to this address was established.
    pub(crate) fn reached(&self, to: SocketAddr) {
        for server in self.0.iter().filter(|server| server.addresses.contains(&to)) {
            server.reached.store(true, Ordering::Relaxed);
        }
    }

    /// Next address for a connection that could not be established to `from`, an address of server
    /// `n`; `None` if the server has no further address, or was reached.
    pub(crate) fn instead(&self, n: usize, from: SocketAddr, why: &str) -> Option<Elsewhere> {
        let server = self.0.get(n)?;
        let failed = server.addresses.iter().position(|address| *address == from)?;
        let to = *server.addresses.get(failed + 1)?;
        if server.reached.load(Ordering::Relaxed) {
            // Another worker's connection may have been established at a later address.
            return self.address(n).filter(|at| *at != from).map(|to| Elsewhere { to, notice: None });
        }
        let first =
            server.at.compare_exchange(failed, failed + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        let notice = first.then(|| Peer::falls_back(&server.name, from, why, to));
        Some(Elsewhere { to: self.address(n)?, notice })
    }

    /// A connection to server `n` has ended that sent and received this much, and `completed`.
    pub fn moved(&self, n: usize, (tx_bytes, rx_bytes): (u64, u64), completed: bool) {
        if let Some(server) = self.0.get(n) {
            let confirmed = if completed { tx_bytes } else { 0 };
            for (sum, bytes) in server.moved.iter().zip([tx_bytes, rx_bytes, confirmed]) {
                sum.fetch_add(bytes, Ordering::Relaxed);
            }
        }
    }

    /// Names of servers at which nothing was measured: no payload arrived from there. If `phase`
    /// asks a server for no payload, a connection must have completed at servers that report; of
    /// others only the sent bytes are known at this end.
    pub fn idle(&self, phase: &Phase, server_reports: bool) -> Vec<String> {
        let measured = match (phase.kind == Kind::Ping || phase.pattern.sends_down(), server_reports) {
            (true, _) => 1,
            (false, true) => 2,
            (false, false) => 0,
        };
        let busy = |server: &&NamedServer| server.moved[measured].load(Ordering::Relaxed) > 0;
        let busy: BTreeSet<&str> = self.0.iter().filter(busy).map(|server| server.name.as_str()).collect();
        let mut idle: Vec<String> = Vec::new();
        for server in self.0.iter().filter(|server| !busy.contains(server.name.as_str())) {
            if !idle.contains(&server.name) {
                idle.push(server.name.clone());
            }
        }
        idle
    }
}
