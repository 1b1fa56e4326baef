//! The largest packet that a path carries whole, each direction for itself: a search with datagrams
//! that must not be cut.
//!
//! The method is packetization layer path MTU discovery (RFC 4821, RFC 8899) from outside: only
//! arrivals count, so that a path whose routers drop packets without a message (a black hole) has
//! an MTU, too.

use crate::{Outcome, Pattern, Phase, Point, Status};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The first guess: Ethernet's.
const USUAL: u32 = 1_500;
/// The next one: what IPv6 asks for at least, and what tunnels leave.
const SMALL: u32 = 1_280;
/// Smallest payload of a datagram.
const LEAST: u32 = crate::SMALLEST_PROBE;
/// A search that takes longer than this never ends.
const MOST_STEPS: u32 = 80;
/// Datagrams of each size, and the length of the run with them, ns.
const DATAGRAMS: u64 = 5;
const LENGTH: u64 = 50_000_000;
/// Wait for datagrams behind the sender's last word, ns: each size that vanishes takes as long.
const LATE: u64 = 300_000_000;
/// Time for opening a flow, beside round trips, ns.
const LEAD: u64 = 100_000_000;
const SIZE: &str = "path_mtu";
const WAY: &str = "to";

/// Results of one direction. Sizes are of IP packets, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MtuFound {
    /// The largest packet that arrived.
    pub mtu: u32,
    /// The smallest packet that did not arrive; `None` when the search ended before one.
    pub too_big: Option<u32>,
    /// True if the sender's own system or a router refused that packet as too big. Otherwise it
    /// vanished.
    pub told: bool,
}

/// The path's MTU in the tested directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PathMtu {
    /// Client to server.
    pub up: Option<MtuFound>,
    /// Server to client.
    pub down: Option<MtuFound>,
}

/// A size that was tried.
struct Tried {
    mtu: u32,
    came: bool,
    told: bool,
}

fn tried(points: &[Point], up: bool) -> Vec<Tried> {
    let way = if up { "server" } else { "client" };
    let ours =
        points.iter().filter(|p| p.status == Status::Complete && p.label.get(WAY).is_some_and(|w| w == way));
    ours.filter_map(|point| {
        let mtu = point.label.get(SIZE)?.parse().ok()?;
        let local = point.local.packets.as_deref()?;
        let remote = point.remote.first()?.packets.as_deref()?;
        let (sender, receiver) = if up { (local, remote) } else { (remote, local) };
        Some(Tried { mtu, came: receiver.counts.received > 0, told: sender.counts.refused > 0 })
    })
    .collect()
}

/// The result from the points of a search; `None` for other points.
pub(crate) fn path_mtu(points: &[Point]) -> Option<PathMtu> {
    if !points.iter().any(is_step) {
        return None;
    }
    let side = |up| {
        let tried = tried(points, up);
        let mtu = tried.iter().filter(|t| t.came).map(|t| t.mtu).max()?;
        let too_big = tried.iter().filter(|t| !t.came && t.mtu > mtu).min_by_key(|t| t.mtu);
        Some(MtuFound { mtu, too_big: too_big.map(|t| t.mtu), told: too_big.is_some_and(|t| t.told) })
    };
    Some(PathMtu { up: side(true), down: side(false) })
}

/// True if a point is one of a search.
pub(crate) fn is_step(point: &Point) -> bool {
    point.label.contains_key(SIZE)
}

/// The search, one size after the other, from the outcome so far.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    base: Phase,
    /// Bytes that IP and UDP add to a datagram.
    headers: u32,
    /// Largest packet that is tried.
    limit: u32,
    steps: u32,
}

impl Search {
    pub(crate) fn new(base: Phase, headers: u32, limit: u32) -> Self {
        Search { base, headers, limit, steps: 0 }
    }

    /// The next phase with its label; `None` when both directions are known.
    pub(crate) fn next(&mut self, so_far: &Outcome) -> Option<(BTreeMap<String, String>, Phase)> {
        self.steps += 1;
        if self.steps > MOST_STEPS {
            return None;
        }
        let ways = [(true, self.base.pattern.sends_up()), (false, self.base.pattern.sends_down())];
        let mut open = ways.into_iter().filter(|(_, asked)| *asked).map(|(up, _)| up);
        let (up, mtu) = open.find_map(|up| Some((up, self.guess(&tried(&so_far.points, up))?)))?;
        let way = if up { "server" } else { "client" };
        let label = [(SIZE, mtu.to_string()), (WAY, way.to_owned())];
        Some((label.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(), self.phase(up, mtu)))
    }

    /// The size to try next, of one direction.
    fn guess(&self, tried: &[Tried]) -> Option<u32> {
        let least = self.headers + LEAST;
        let low = tried.iter().filter(|t| t.came).map(|t| t.mtu).max();
        let high = tried.iter().filter(|t| !t.came).map(|t| t.mtu).min();
        match (low, high) {
            (None, None) => Some(USUAL.min(self.limit)),
            (Some(low), None) if low >= self.limit => None,
            // Most paths end right there.
            (Some(USUAL), None) => Some(USUAL + 1),
            (None, Some(high)) if high > SMALL && least < SMALL => Some(SMALL),
            (Some(SMALL), Some(high)) if high > SMALL + 1 => Some(SMALL + 1),
            (Some(_), None) => Some(self.limit),
            (None, Some(high)) if high <= least => None,
            (None, Some(high)) => Some(least + (high - least) / 2),
            (Some(low), Some(high)) => (high > low + 1).then(|| low + (high - low) / 2),
        }
    }

    fn phase(&self, up: bool, mtu: u32) -> Phase {
        let mut phase = self.base.clone();
        phase.pattern = if up { Pattern::Push } else { Pattern::Pull };
        let size = mtu.saturating_sub(self.headers).max(LEAST);
        if let Some(probe) = &mut phase.probe {
            probe.size = size;
            probe.late_ns = probe.late_ns.min(LATE);
            probe.lead_ns = probe.lead_ns.min(LEAD);
        }
        phase.connections = 1;
        phase.duration_ns = Some(LENGTH);
        phase.interval_ns = LENGTH;
        phase.rate = Some(u64::from(size) * 8 * DATAGRAMS * metrics::SECOND / LENGTH);
        phase.sockets.dont_fragment = Some(true);
        phase.sockets.gso = false;
        phase
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, PacketReport, Probe, Totals};
    use metrics::Packets;

    /// A path that carries packets up to these sizes, there and back, and says so only upwards.
    fn played(up: u32, down: u32, limit: u32) -> (PathMtu, usize) {
        let base = Phase {
            kind: Kind::Delay,
            pattern: Pattern::Duplex,
            probe: Some(Probe::default()),
            ..Phase::default()
        };
        let (mut search, mut outcome) = (Search::new(base, 28, limit), Outcome::default());
        while let Some((label, phase)) = search.next(&outcome) {
            assert_eq!(phase.check(), Ok(()), "{label:?}");
            let (size, there) = (phase.probe.unwrap().size + 28, phase.pattern == Pattern::Push);
            let came = size <= if there { up } else { down };
            let sender = Packets { sent: 5, refused: u64::from(!came && there), ..Packets::default() };
            let receiver = Packets { received: if came { 5 } else { 0 }, ..Packets::default() };
            let told =
                |counts| Totals { packets: Some(Box::new(PacketReport::from(counts))), ..Totals::default() };
            let (local, remote) =
                if there { (told(sender), told(receiver)) } else { (told(receiver), told(sender)) };
            let (status, remote) = (Status::Complete, vec![remote]);
            outcome.points.push(Point { label, phase, status, local, remote, ..Point::default() });
        }
        (path_mtu(&outcome.points).unwrap(), outcome.points.len())
    }

    #[test]
    fn every_mtu_is_found() {
        for (up, down) in [(1_500, 1_500), (1_400, 1_492), (9_000, 1_280), (68, 8_999), (1_501, 1_499)] {
            let (found, steps) = played(up, down, 9_000);
            assert_eq!((found.up.unwrap().mtu, found.down.unwrap().mtu), (up, down));
            assert_eq!(found.up.unwrap().told, up < 9_000);
            assert!(!found.down.unwrap().told);
            let beyond = |mtu| (mtu < 9_000).then_some(mtu + 1);
            assert_eq!((found.up.unwrap().too_big, found.down.unwrap().too_big), (beyond(up), beyond(down)));
            assert!(steps <= 34, "{steps}");
        }
        assert_eq!(played(1_500, 1_500, 9_000).1, 4, "the usual one takes two sizes each way");
        assert_eq!(played(1_280, 1_280, 9_000).1, 6, "and a tunnel's three");
    }

    #[test]
    fn a_path_that_carries_nothing_has_no_mtu() {
        assert_eq!(played(0, 1_500, 9_000).0.up, None);
        assert_eq!(path_mtu(&[Point::default()]), None);
    }
}
