//! Admission of datagrams where no address can be proven.

use crate::Acl;
use crate::host::HostInfo;
use crate::message::warn;
use metrics::Clamped;
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use transport::Context;

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

/// Fewest connections that may wait for their introduction: what workers accept in a row.
const FEWEST_PENDING: u32 = 128;

/// Descriptors that a worker opens when it starts.
const OF_A_WORKER: usize = 4;
/// Fewest descriptors that are left to peers without a session.
const FEWEST_LEFT: usize = 16;

/// Connections of all sessions of a server with these workers that its descriptors suffice for: a
/// sixteenth is left to control connections and to peers that introduce themselves.
pub fn most_held(workers: u16, host: &dyn HostInfo) -> Option<u32> {
    let free = host.free_descriptors()?;
    let others = OF_A_WORKER * usize::from(workers) + (free / 16).max(FEWEST_LEFT);
    Some(u32::clamped(free.saturating_sub(others)))
}

/// Most connections that may wait for their introduction: `most`, or a quarter of the descriptors.
pub fn most_pending(most: u32, host: &dyn HostInfo) -> u32 {
    let quarter = host.descriptors().map_or(u32::MAX, |all| u32::try_from(all / 4).unwrap_or(u32::MAX));
    most.min(quarter.max(FEWEST_PENDING))
}
