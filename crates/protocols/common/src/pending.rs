//! Admission of datagrams where no address can be proven.

use crate::Acl;
use crate::host::HostInfo;
use crate::message::warn;
use metrics::Clamped;
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use transport::Context;
use transport::admission::{Admission, PendingPeers as Places};

/// Most refused addresses that are named: few, because addresses may be forged, and a run reports a
/// limited number of notices.
const MOST: usize = 20;

/// Admits peers by the access lists, and reports each refused address once.
#[derive(Debug, Default)]
pub struct PendingPeers(HashSet<IpAddr>);

impl PendingPeers {
    /// True if datagrams of `who` count: `acl` is the user's list, `streams` the networks that need
    /// no proof of address.
    pub fn admits(&mut self, cx: &mut Context<'_>, acl: &Acl, streams: &Acl, who: IpAddr) -> bool {
        if !acl.admits(who) {
            return false;
        }
        if streams.admits(who) {
            return true;
        }
        self.warn_once(cx, who, |who| {
            format!(
                "{who} sends and is not heard: a datagram proves no address, so only datagrams of this host and of \
                 directly connected networks count, unless NETCALIPER_ALLOW names the network"
            )
        });
        false
    }

    /// Warns that an address which asked for `what` gets none.
    pub fn refuse(&mut self, cx: &mut Context<'_>, who: IpAddr, what: &str, answers: &str) {
        self.warn_once(cx, who, |who| {
            format!(
                "{who} asked for {what} and gets none: a datagram proves no address, so {answers} go to this host and \
                 directly connected networks only, unless NETCALIPER_ALLOW names the network"
            )
        });
    }

    /// Warns of a refused address: once, and of the first few addresses only.
    pub fn warn_once(&mut self, cx: &mut Context<'_>, who: IpAddr, text: impl FnOnce(IpAddr) -> String) {
        let who = who.to_canonical();
        if self.0.len() < MOST && self.0.insert(who) {
            warn(cx, text(who));
        }
    }
}

/// Ports below this belong to services.
const FIRST_CLIENT_PORT: u16 = 1024;

/// True if the sender is a service: two that answer each other would never end.
pub fn is_service(peer: SocketAddr) -> bool {
    peer.port() < FIRST_CLIENT_PORT
}

/// Fewest connections that may wait for their introduction.
const FEWEST_PENDING: usize = 32;
/// Descriptors that a worker opens when it starts, and that a server opens beside its workers.
const OF_A_WORKER: usize = 4;
const OF_A_SERVER: usize = 4;
/// Fewest descriptors that are left to peers without a session.
const FEWEST_LEFT: usize = 16;

/// Connections of all sessions of a server with these workers that its descriptors suffice for: a
/// sixteenth is left to control connections and to peers that introduce themselves.
pub fn most_held(workers: u16, host: &dyn HostInfo) -> Option<u32> {
    let free = host.free_descriptors()?;
    let others = OF_A_WORKER * usize::from(workers) + (free / 16).max(FEWEST_LEFT);
    Some(u32::clamped(free.saturating_sub(others)))
}

/// Memory of the process and of the kernel that a connection takes while its peer says nothing,
/// with as much again for all else, bytes: 15 KB were measured.
const OF_A_CONNECTION: u64 = 32 << 10;

/// Places of peers without a proof at a port where the server sends first, at most.
const MOST_SENT_TO: usize = 256;
/// Memory of the kernel that such a peer takes while it does not read, bytes: unsent bytes
/// ([`crate::one_sided::UNSENT`]), and the bytes of one call.
const OF_A_PEER_SENT_TO: u64 = 256 << 10;

/// Places for the peers of a server: `most` that have proved nothing, or a quarter of the
/// descriptors and of the memory. A native server knows its sessions and limits them itself; of the
/// connections of another one a sixteenth of the descriptors is left over.
pub fn admission(most: u32, is_native: bool, host: &dyn HostInfo) -> Admission {
    let (most, room) = bounds(usize::clamped(most), host.free_descriptors(), in_memory(host));
    let peers = Places::new(most);
    Admission::alone(if is_native { peers } else { peers.with_room(room) })
}

/// Places for the peers of other protocols' servers beside a native one, each with `workers`
/// workers. Three eighths of the descriptors are kept for the native one: a quarter for its own
/// peers without proof, the rest for sessions.
pub fn admission_beside(most: u32, servers: usize, workers: usize, host: &dyn HostInfo) -> Admission {
    let opened = (servers + 2) * (OF_A_WORKER * workers + OF_A_SERVER);
    let free = host.free_descriptors().map(|free| free.saturating_sub(opened));
    let (most, room) = bounds_beside(usize::clamped(most), free, in_memory(host));
    Admission::alone(Places::new(most).with_room(room))
}

/// Places at a port where the server sends first: no more than a quarter of the memory suffices
/// for.
pub fn most_sent_to(host: &dyn HostInfo) -> usize {
    places_sent_to(host.memory())
}

fn places_sent_to(memory: Option<u64>) -> usize {
    let fit = memory.map_or(MOST_SENT_TO, |bytes| usize::clamped(bytes / 4 / OF_A_PEER_SENT_TO));
    fit.clamp(FEWEST_PENDING, MOST_SENT_TO)
}

/// Most connections whose peers have proved nothing, and most in all, of a server by itself.
fn bounds(most: usize, free: Option<usize>, memory: usize) -> (usize, usize) {
    let free = free.unwrap_or(usize::MAX);
    let left = (free / 16).max(FEWEST_LEFT);
    let most = most.min(memory / 4).min((free / 4).max(FEWEST_PENDING));
    (most, free.saturating_sub(left).min(memory))
}

/// The same of servers beside a native one.
fn bounds_beside(most: usize, free: Option<usize>, memory: usize) -> (usize, usize) {
    let free = free.unwrap_or(usize::MAX);
    let kept = (free / 8 * 3).max(FEWEST_PENDING.min(free));
    let room = (free - kept).min(memory / 2);
    (most.min(memory / 4).min(free / 4).min(room / 2), room)
}

/// Connections that the memory of this process suffices for.
fn in_memory(host: &dyn HostInfo) -> usize {
    host.memory().map_or(usize::MAX, |bytes| usize::clamped(bytes / OF_A_CONNECTION))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_fit_the_descriptors_and_the_memory() {
        let connections = |mib: u64| usize::clamped((mib << 20) / OF_A_CONNECTION);
        for (free, mib) in [(116, 24_000), (3_900, 24_000), (20_000, 24_000), (1_000_000, 64), (20_000, 128)]
        {
            let memory = connections(mib);
            let (own, _) = bounds(4_096, Some(free), memory);
            let (others, room) = bounds_beside(4_096, Some(free), memory);
            assert!(own + room <= free && own + room <= memory, "{free} {mib}: {own} {others} {room}");
            assert!(others <= room / 2 && own >= 29, "{free} {mib}: {own} {others} {room}");
        }
        assert_eq!(bounds(4_096, Some(1_000_000), connections(64)).0, 512);
        assert_eq!(bounds_beside(4_096, Some(1_000_000), connections(64)), (512, 1_024));
        assert_eq!(bounds(4_096, None, usize::MAX).0, 4_096);
        let sent_to =
            [Some(16), Some(64), Some(24_000), None].map(|mib| places_sent_to(mib.map(|m| m << 20)));
        assert_eq!(sent_to, [32, 64, 256, 256]);
    }
}
