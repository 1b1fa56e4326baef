//! Periodic reports of the open links, for pages and logs that show them.

use super::{Report, Worker};
use crate::link::Phase;
use metrics::{Group, Mono, SECOND};
use model::LinkRow;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use transport::{Path, Platform};

/// Most links in one list, and most senders without a socket of their own. Further open links are
/// reported by number.
const MOST: usize = 256;
/// A peer without a socket of its own is dropped from the list after this silence, ns.
const SILENT: u64 = 10 * SECOND;

pub(super) struct Peers {
    every: u64,
    /// Times of the last and of the next report.
    last: Mono,
    pub(super) next: Mono,
    /// Unsolicited datagrams, by peers without a socket of their own.
    unsolicited: BTreeMap<SocketAddr, UnsolicitedPeer>,
    /// True if the last list had any.
    told: bool,
}

struct UnsolicitedPeer {
    local: SocketAddr,
    since: Mono,
    last: Mono,
    tx_bytes: u64,
    rx_bytes: u64,
}

impl Peers {
    pub(super) fn new(every: u64, now: Mono) -> Peers {
        Peers { every, last: now, next: now.plus(every), unsolicited: BTreeMap::new(), told: false }
    }

    /// Counts bytes sent to and received from a peer without a socket of its own.
    pub(super) fn count_unsolicited(&mut self, path: Path, (tx_bytes, rx_bytes): (u64, u64), now: Mono) {
        if tx_bytes + rx_bytes == 0
            || (self.unsolicited.len() >= MOST && !self.unsolicited.contains_key(&path.peer))
        {
            return;
        }
        let fresh = UnsolicitedPeer { local: path.local, since: now, last: now, tx_bytes: 0, rx_bytes: 0 };
        let known = self.unsolicited.entry(path.peer).or_insert(fresh);
        known.last = now;
        known.tx_bytes += tx_bytes;
        known.rx_bytes += rx_bytes;
    }
}

impl<P: Platform> Worker<P> {
    /// Payload counted since the last interval: the growth is an unsolicited datagram's.
    pub(super) fn counted(&mut self) -> (u64, u64) {
        let tally = self.own.rec.tally(Group::ALL);
        (tally.tx_bytes, tally.rx_bytes)
    }

    /// Reports the open links when the period has passed.
    pub(super) fn report_links(&mut self, now: Mono) {
        let Some(peers) = self.peers.as_mut().filter(|peers| peers.next <= now) else { return };
        let ns = now.since(std::mem::replace(&mut peers.last, now));
        peers.next = now.plus(peers.every);
        peers.unsolicited.retain(|_, known| now.since(known.last) < SILENT);
        let senders = peers.unsolicited.iter().map(|(&remote, known)| LinkRow {
            local: known.local,
            remote,
            since: self.own.wall.wall(known.since),
            tx_bytes: known.tx_bytes,
            rx_bytes: known.rx_bytes,
        });
        let mut rows: Vec<LinkRow> = senders.collect();
        let mut more = 0;
        for key in self.links.keys() {
            let Some(link) = self.links.get(key).filter(|l| l.phase == Phase::Open) else { continue };
            let (Some(path), Some(row)) = (link.path, link.flow.id().row) else { continue };
            if rows.len() >= MOST {
                more += 1;
                continue;
            }
            let (counts, since) = self.own.rec.life(row);
            rows.push(LinkRow {
                local: path.local,
                remote: path.peer,
                since: self.own.wall.wall(since),
                tx_bytes: counts.tx_bytes,
                rx_bytes: counts.rx_bytes,
            });
        }
        // An empty list is reported once.
        let was =
            self.peers.as_mut().is_some_and(|peers| std::mem::replace(&mut peers.told, !rows.is_empty()));
        if was || !rows.is_empty() {
            self.report(Report::Links { at: self.own.wall.wall(now), ns, rows, more });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_at_the_door_are_told_apart_and_bounded() {
        let mut peers = Peers::new(SECOND, Mono(0));
        let path = |port: u16| Path {
            peer: SocketAddr::from(([192, 0, 2, 1], port)),
            local: SocketAddr::from(([192, 0, 2, 2], 7)),
        };
        peers.count_unsolicited(path(9), (0, 0), Mono(1));
        assert!(peers.unsolicited.is_empty(), "a refused peer moved nothing");
        for port in 1..=1_000 {
            peers.count_unsolicited(path(port), (1, 2), Mono(5));
            peers.count_unsolicited(path(port), (3, 4), Mono(6));
        }
        assert_eq!(peers.unsolicited.len(), MOST);
        let known = &peers.unsolicited[&path(1).peer];
        assert_eq!((known.tx_bytes, known.rx_bytes, known.since, known.last), (4, 6, Mono(5), Mono(6)));
    }
}
