//! Whose datagrams are taken although no address can be proven.

use crate::Acl;
use crate::host::HostInfo;
use crate::message::warn;
use std::collections::HashSet;
use std::net::IpAddr;
use transport::Context;

/// Refused addresses that are named.
const MOST: usize = 100;

/// Admits peers by the access lists, and reports each refused address once.
#[derive(Debug, Default)]
pub struct PendingPeers(HashSet<IpAddr>);

impl PendingPeers {
    /// Whether datagrams of `who` count: `acl` is the user's list, `streams` the networks that need no proof of address.
    pub fn admits(&mut self, cx: &mut Context<'_>, acl: &Acl, streams: &Acl, who: IpAddr) -> bool {
        if !acl.admits(who) {
            return false;
        }
        if streams.admits(who) {
            return true;
        }
        let who = who.to_canonical();
        if self.0.len() < MOST && self.0.insert(who) {
            let text = format!(
                "{who} sends and is not heard: a datagram proves no address, so only those of this host and of directly \
                 connected networks count, unless NETCALIPER_ALLOW names the network"
            );
            warn(cx, text);
        }
        false
    }
}

/// Says that an address which asked for `what` gets none.
pub fn refuse(cx: &mut Context<'_>, who: IpAddr, what: &str, answers: &str) {
    let who = who.to_canonical();
    let text = format!(
        "{who} asked for {what} and gets none: a datagram proves no address, so {answers} go to this host and directly \
         connected networks only, unless NETCALIPER_ALLOW names the network"
    );
    warn(cx, text);
}

/// Fewest connections that may wait for their introduction: what workers accept in a row.
const FEWEST_PENDING: u32 = 128;

/// How many connections may wait for their introduction: `most`, or a quarter of the descriptors.
pub fn most_pending(most: u32, host: &dyn HostInfo) -> u32 {
    let quarter = host.descriptors().map_or(u32::MAX, |all| u32::try_from(all / 4).unwrap_or(u32::MAX));
    most.min(quarter.max(FEWEST_PENDING))
}
