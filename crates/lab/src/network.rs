//! The path in both directions as arithmetic: links, each with its [`Impairment`], joined by the
//! routers of the hops.
//!
//! ```text
//!  client ── link 1 ── hop 1 ── link 2 ── hop 2 ── … ── hop n ── link n + 1 ── server
//! ```
//!
//! Link `h` belongs to hop `h`: where routers stand side by side, each has a link of its own. The
//! conditions of the path apply on the last link, which without hops is the only one. Time is an
//! argument: [`Network::take`] decides the fate of a packet on its first link,
//! [`Network::step`] moves the packet that is due first by one link.

use crate::chance::{Purpose, generator};
use crate::hop::{Bucket, Choice, Hop, MOST_WAYS, Router};
use crate::icmp::{Form, PLAIN, Trouble};
use crate::impair::{Emission, Impairment, Offer, PacketOutcome, Verdict};
use crate::packet::{Anatomy, dissect};
use crate::setup::{Only, Path};
use crate::trace::{Class, TraceRow, Way};
use crate::truth::{DirectionStats, HopTruth, IcmpCounts, LinkCounts, PacketPlace, WayTruth};
use metrics::{Clamped, Ecn, Mono};
use transport::Rng;

/// Bytes that a direction may hold.
const MOST_BYTES: usize = 256 << 20;
/// Packets that a direction may hold.
const MOST_PACKETS: usize = 1 << 20;

/// A router: its hop and its way there, both from 0.
type Node = (usize, usize);

#[derive(Debug)]
struct PacketSlot {
    bytes: Vec<u8>,
    /// The row of its first emission, but for its end.
    row: TraceRow,
    /// Emissions still due, copies included.
    left: u8,
    /// Copies made on the links before this one, and on all of them.
    copies: [u8; 2],
    /// True if the conditions of no link applied.
    passed: bool,
    /// The router whose ICMP message this is.
    origin: Option<Node>,
}

impl PacketSlot {
    /// The row of an emission, but for its end.
    fn row(&self, emission: &Emission) -> TraceRow {
        let copy = if emission.copy == 0 { 0 } else { self.copies[0].saturating_add(emission.copy) };
        TraceRow { due: emission.due, copy: self.row.copy.saturating_add(copy), ..self.row }
    }
}

/// One direction of a link.
#[derive(Debug)]
struct Link {
    only: Option<Only>,
    /// The MTU that ICMP messages report to senders; `None` if the link drops silently.
    reports: Option<u32>,
    wire: bool,
    impairment: Impairment,
    /// The last arrival: packets of several links before may be handed over out of order.
    latest: Mono,
    counts: LinkCounts,
}

impl Link {
    fn new(path: &Path, seed: u64, lane: u16) -> Self {
        Link {
            only: path.only,
            reports: path.path_mtu.filter(|mtu| !mtu.silent).map(|mtu| mtu.bytes),
            wire: path.corrupt.is_some_and(|c| c.wire),
            impairment: Impairment::new(path, seed, lane, Mono(u64::MAX)),
            latest: Mono(0),
            counts: LinkCounts::default(),
        }
    }

    fn matches(&self, anatomy: &Anatomy) -> bool {
        self.only.is_none_or(|only| {
            let port = |port| anatomy.ports.is_some_and(|(from, to)| from == port || to == port);
            let marked = only.ecn.is_none_or(|ecn| ecn == Ecn::of(anatomy.tos));
            anatomy.protocol == only.protocol && only.port.is_none_or(port) && marked
        })
    }

    fn offer(&mut self, token: u32, bytes: &[u8], anatomy: &Anatomy, at: Mono) -> PacketOutcome {
        self.latest = self.latest.max(at);
        let outcome = self.impairment.offer(&Offer {
            at: self.latest,
            token,
            length: u32::clamped(bytes.len()),
            bits: u32::clamped(anatomy.payload.len()) * 8,
            tos: anatomy.tos,
            matched: self.matches(anatomy),
        });
        self.counts.packets += 1;
        self.counts.lost += u64::from(!outcome.verdict.goes_on());
        outcome
    }
}

/// One direction of the path.
#[derive(Debug)]
pub(crate) struct Lane {
    way: Way,
    /// From client to server: the links of each hop, and the last link.
    links: Vec<Vec<Link>>,
    pub(crate) stats: DirectionStats,
    slots: Vec<PacketSlot>,
    free: Vec<u32>,
    bytes: usize,
    /// When the device was last seen empty.
    pub(crate) empty: Mono,
}

impl Lane {
    fn is_full(&self) -> bool {
        self.bytes > MOST_BYTES || self.slots.len() - self.free.len() >= MOST_PACKETS
    }

    fn slot(&mut self, token: u32) -> Option<&mut PacketSlot> {
        self.slots.get_mut(usize::clamped(token))
    }

    /// Bytes of a packet on its way.
    pub(crate) fn packet(&self, token: u32) -> &[u8] {
        self.slots.get(usize::clamped(token)).map_or(&[], |slot| &slot.bytes)
    }

    /// Keeps a packet until its last emission, in the buffer of one that has left; returns its
    /// token.
    fn keep(&mut self, bytes: &[u8], row: TraceRow, origin: Option<Node>) -> u32 {
        self.bytes += bytes.len();
        let mut slot = PacketSlot { bytes: Vec::new(), row, left: 1, copies: [0; 2], passed: true, origin };
        let token = self.free.pop().unwrap_or(u32::clamped(self.slots.len()));
        match self.slots.get_mut(usize::clamped(token)) {
            Some(old) => {
                std::mem::swap(&mut slot.bytes, &mut old.bytes);
                slot.bytes.clear();
                slot.bytes.extend_from_slice(bytes);
                *old = slot;
            }
            None => {
                slot.bytes.extend_from_slice(bytes);
                self.slots.push(slot);
            }
        }
        token
    }

    fn done(&mut self, token: u32) {
        let Some(slot) = self.slots.get_mut(usize::clamped(token)) else { return };
        slot.left = slot.left.saturating_sub(1);
        if slot.left == 0 {
            self.bytes -= slot.bytes.len();
            self.free.push(token);
        }
    }

    /// The packet of an emission by itself, on its way to the next link; `Err` with its row when
    /// there is no room for copies.
    fn separate(&mut self, emission: &Emission) -> Option<Result<u32, TraceRow>> {
        let is_full = self.is_full();
        let slot = self.slot(emission.token)?;
        let (row, origin) = (slot.row(emission), slot.origin);
        if slot.left <= 1 {
            slot.row = row;
            return Some(Ok(emission.token));
        }
        slot.left -= 1;
        let (bytes, copies, passed) = (slot.bytes.clone(), slot.copies, slot.passed);
        if is_full {
            self.stats.ended(&row, Verdict::Overrun);
            return Some(Err(TraceRow { class: Class::Not(Verdict::Overrun), ..row }));
        }
        let token = self.keep(&bytes, row, origin);
        if let Some(slot) = self.slot(token) {
            (slot.copies, slot.passed) = (copies, passed);
        }
        Some(Ok(token))
    }

    /// Which link has the packet that is due first, and when.
    fn due(&self) -> Option<(Mono, usize, usize)> {
        let links =
            (0..).zip(&self.links).flat_map(|(at, links)| (0..).zip(links).map(move |(w, l)| (at, w, l)));
        links.filter_map(|(at, w, link)| Some((link.impairment.due()?, at, w))).min()
    }

    /// A packet leaves at `at`, or its device refuses it.
    pub(crate) fn leave(&mut self, emission: &Emission, taken: bool, at: Mono) -> Option<TraceRow> {
        let slot = self.slots.get(usize::clamped(emission.token))?;
        let (mut row, is_own, passed) = (slot.row(emission), slot.origin.is_some(), slot.passed);
        self.done(emission.token);
        if is_own {
            return None;
        }
        if taken {
            (row.left, row.class) = (Some(at), Class::Left);
            self.stats.left(&row, passed, at);
        } else {
            row.class = Class::Refused;
            self.stats.stayed(&row);
        }
        Some(row)
    }
}

#[derive(Debug)]
struct RouterState {
    how: Router,
    bucket: Bucket,
    counts: IcmpCounts,
}

#[derive(Debug)]
struct HopState {
    choice: Choice,
    /// Of each direction: salt of the hash, and draws for single packets.
    salts: [u64; 2],
    draws: [Rng; 2],
    routers: Vec<RouterState>,
}

/// Fate of a packet at its arrival.
#[derive(Debug)]
pub(crate) struct Taken {
    /// The row of a packet that goes no further.
    pub(crate) row: Option<TraceRow>,
    /// ICMP message to be handed to the sender at once.
    pub(crate) reply: Option<Vec<u8>>,
}

/// Effect of [`Network::step`].
#[derive(Debug)]
pub(crate) enum Step {
    /// The packet leaves the path of this direction.
    Leaves(Way, Emission),
    /// The packet is on its next link, or ended with this row.
    Moved(Option<TraceRow>),
}

#[derive(Debug)]
pub(crate) struct Network {
    /// Up and down.
    pub(crate) lanes: [Lane; 2],
    hops: Vec<HopState>,
}

/// The number of the generators of a hop's way in a direction. 0 and 1 belong to the last link.
fn generator_number(hop: usize, way: usize, direction: Way) -> u16 {
    u16::clamped(2 + (hop * usize::from(MOST_WAYS) + way) * 2 + direction as usize)
}

/// Hash of a packet's flow.
fn flow_hash(salt: u64, anatomy: &Anatomy) -> u64 {
    let wide = |address| match address {
        std::net::IpAddr::V4(v4) => u128::from(v4.to_bits()),
        std::net::IpAddr::V6(v6) => v6.to_bits(),
    };
    let (from, to) = (wide(anatomy.source), wide(anatomy.destination));
    let ports = anatomy.ports.map_or(0, |(from, to)| u64::from(from) << 16 | u64::from(to));
    let halves = |wide: u128| [u64::clamped(wide >> 64), u64::clamped(wide & u128::from(u64::MAX))];
    let words = [halves(from), halves(to), [ports, u64::from(anatomy.protocol)]].concat();
    words.into_iter().fold(salt, |hash, word| Rng::new(hash ^ word).next())
}

impl Network {
    pub(crate) fn new(paths: [&Path; 2], hops: &[Hop], seed: u64, now: Mono) -> Self {
        let lane = |way: Way| {
            let of_hop = |(at, hop): (usize, &Hop)| {
                let link = |(w, router): (usize, &Router)| {
                    let path = if way == Way::Up { &router.up } else { &router.down };
                    Link::new(path, seed, generator_number(at, w, way))
                };
                hop.routers.iter().enumerate().map(link).collect()
            };
            let mut links: Vec<Vec<Link>> = hops.iter().enumerate().map(of_hop).collect();
            links.push(vec![Link::new(paths[way as usize], seed, way as u16)]);
            let stats = DirectionStats::new();
            Lane { way, links, stats, slots: Vec::new(), free: Vec::new(), bytes: 0, empty: now }
        };
        let hop = |(at, hop): (usize, &Hop)| {
            let of = |way| generator(seed, generator_number(at, 0, way), Purpose::Way);
            let mut draws = [of(Way::Up), of(Way::Down)];
            let salts = [draws[0].next(), draws[1].next()];
            let routers = hop.routers.iter().map(|how| RouterState {
                bucket: Bucket::default(),
                counts: IcmpCounts::default(),
                how: how.clone(),
            });
            HopState { choice: hop.choice, salts, draws, routers: routers.collect() }
        };
        let hops = hops.iter().enumerate().map(hop).collect();
        Network { lanes: [lane(Way::Up), lane(Way::Down)], hops }
    }

    /// Starts the timetables of all links.
    pub(crate) fn begin(&mut self, at: Mono) {
        let links = self.lanes.iter_mut().flat_map(|lane| lane.links.iter_mut().flatten());
        links.for_each(|link| link.impairment.begin = at);
    }

    /// True if all packets have left.
    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.iter().flat_map(|lane| lane.links.iter().flatten()).all(|link| link.impairment.is_empty())
    }

    /// When [`Network::step`] will next do something.
    pub(crate) fn due(&self) -> Option<Mono> {
        self.lanes.iter().filter_map(Lane::due).map(|due| due.0).min()
    }

    /// Takes a packet that arrived from client (up) or server (down).
    pub(crate) fn take(&mut self, way: Way, bytes: &[u8], anatomy: &Anatomy, at: Mono) -> Taken {
        let lane = &mut self.lanes[way as usize];
        let PacketPlace { index, flow, flow_index } = lane.stats.place(anatomy);
        let (tos_in, tos_out) = (anatomy.tos, anatomy.tos);
        let row = TraceRow::new(way, u32::clamped(bytes.len()), at);
        let row = TraceRow { index, flow, flow_index, tos_in, tos_out, ..row };
        lane.stats.arrived(&row, at.since(lane.empty));
        if lane.is_full() {
            lane.stats.ended(&row, Verdict::Overrun);
            return Taken { row: Some(TraceRow { class: Class::Not(Verdict::Overrun), ..row }), reply: None };
        }
        let token = lane.keep(bytes, row, None);
        let link = match way {
            Way::Up => (0, self.choose(way, 0, anatomy, None)),
            Way::Down => (self.hops.len(), 0),
        };
        let (row, verdict) = self.enter(way, token, link, anatomy, at);
        let mtu = self.reports(way, link).filter(|_| verdict == Verdict::TooBig);
        // No router stands between the sender and this link: the message is in the name of the
        // remote end.
        let reply =
            mtu.and_then(|mtu| anatomy.error(bytes, Trouble::TooBig(mtu), anatomy.destination, &PLAIN));
        Taken { row, reply }
    }

    /// Moves the packet that is due first in both directions, by `now`; `None` without one.
    pub(crate) fn step(&mut self, now: Mono) -> Option<Step> {
        let of = |lane: &Lane| lane.due().map(|(due, link, w)| (due, lane.way as usize, link, w));
        let (due, way, link, w) = self.lanes.iter().filter_map(of).min().filter(|first| first.0 <= now)?;
        let lane = &mut self.lanes[way];
        // A packet that was let go may be due later.
        let Some(emission) = lane.links[link][w].impairment.pop(due) else { return Some(Step::Moved(None)) };
        let way = lane.way;
        let hop = match way {
            Way::Up if link == self.hops.len() => return Some(Step::Leaves(way, emission)),
            Way::Down if link == 0 => return Some(Step::Leaves(way, emission)),
            Way::Up => link,
            Way::Down => link - 1,
        };
        let token = match lane.separate(&emission) {
            Some(Ok(token)) => token,
            Some(Err(row)) => return Some(Step::Moved(Some(row))),
            None => return Some(Step::Moved(None)),
        };
        // No condition damages an IP header.
        let Some(anatomy) = dissect(lane.packet(token)) else {
            lane.done(token);
            return Some(Step::Moved(None));
        };
        let node = match way {
            Way::Up => (hop, w),
            Way::Down => (hop, self.choose(way, hop, &anatomy, Some(w).filter(|_| link < self.hops.len()))),
        };
        Some(Step::Moved(self.pass(way, token, node, anatomy, emission.due)))
    }

    /// The way at `hop` of a packet that took the way `before` at the hop that it passed last.
    fn choose(&mut self, way: Way, hop: usize, anatomy: &Anatomy, before: Option<usize>) -> usize {
        let Some(count) = self.hops.get(hop).map(|hop| hop.routers.len()).filter(|count| *count > 1) else {
            return 0;
        };
        let is_same = |at: usize| self.hops.get(at).is_some_and(|hop| hop.choice == Choice::Same);
        // Parallel lines join this hop with the one passed last when the later of both, seen from
        // the client, has `same`.
        let (later, last) = if way == Way::Up { (hop, hop.wrapping_sub(1)) } else { (hop + 1, hop + 1) };
        let is_joined = is_same(later) && self.hops.get(last).is_some_and(|hop| hop.routers.len() > 1);
        if let Some(before) = before.filter(|_| is_joined) {
            return before % count;
        }
        // The choice of the lines is made at the first of their hops.
        let first = (0..=hop).rev().find(|at| !is_same(*at)).unwrap_or(0);
        let is_single = self.hops[first].choice == Choice::Packet;
        let state = &mut self.hops[hop];
        let draw = match is_single {
            true => state.draws[way as usize].next(),
            false => flow_hash(state.salts[way as usize], anatomy),
        };
        usize::clamped(u64::clamped((u128::from(draw) * u128::from(u64::clamped(count))) >> 64))
    }

    /// A packet reaches a router: TTL, translation, next link. The row of one that ends here.
    fn pass(&mut self, way: Way, token: u32, node: Node, mut anatomy: Anatomy, at: Mono) -> Option<TraceRow> {
        let router = &mut self.hops[node.0].routers[node.1];
        let lane = &mut self.lanes[way as usize];
        let slot = lane.slot(token)?;
        slot.row.ways.set(node);
        if anatomy.ttl <= 1 {
            router.counts.expired += 1;
            let row = TraceRow { class: Class::Not(Verdict::Expired), hop: number(node.0), ..slot.row };
            let is_own = slot.origin.is_some();
            if !is_own {
                lane.stats.ended(&row, Verdict::Expired);
            }
            self.report(way, token, node, &anatomy, Trouble::Expired, at);
            self.lanes[way as usize].done(token);
            return (!is_own).then_some(row);
        }
        anatomy.set_ttl(&mut slot.bytes, anatomy.ttl - 1);
        if let Some(nat) = router.how.nat {
            crate::nat::translate(nat, router.how.v4, way, &mut slot.bytes);
            anatomy = dissect(&slot.bytes)?;
        }
        self.depart(way, token, node, &anatomy, at)
    }

    /// A packet leaves a router. The row of one that its next link does not carry.
    fn depart(&mut self, way: Way, token: u32, node: Node, anatomy: &Anatomy, at: Mono) -> Option<TraceRow> {
        let link = match way {
            Way::Up => (node.0 + 1, self.choose(way, node.0 + 1, anatomy, Some(node.1))),
            Way::Down => node,
        };
        let (row, verdict) = self.enter(way, token, link, anatomy, at);
        if verdict == Verdict::TooBig
            && let Some(mtu) = self.reports(way, link)
        {
            self.report(way, token, node, anatomy, Trouble::TooBig(mtu), at);
        }
        row
    }

    fn reports(&self, way: Way, link: Node) -> Option<u32> {
        self.lanes[way as usize].links[link.0][link.1].reports
    }

    /// Offers a packet to a link: its row when it goes no further, and the decision.
    fn enter(
        &mut self,
        way: Way,
        token: u32,
        link: Node,
        anatomy: &Anatomy,
        at: Mono,
    ) -> (Option<TraceRow>, Verdict) {
        let is_last = link.0 == if way == Way::Up { self.hops.len() } else { 0 };
        let Lane { links, slots, stats, .. } = &mut self.lanes[way as usize];
        let (link, at_hop) = (&mut links[link.0][link.1], number(link.0));
        let Some(slot) = slots.get_mut(usize::clamped(token)) else { return (None, Verdict::Overrun) };
        let outcome = link.offer(token, &slot.bytes, anatomy, at);
        if !outcome.flips().is_empty() {
            anatomy.flip(&mut slot.bytes, outcome.flips(), !link.wire);
            slot.row.flipped = slot.row.flipped.saturating_add(u8::clamped(outcome.flips().len()));
            slot.row.wire = link.wire;
        }
        if outcome.tos != anatomy.tos {
            anatomy.set_tos(&mut slot.bytes, outcome.tos);
        }
        (slot.row.due, slot.row.tos_out) = (outcome.due, outcome.tos);
        slot.passed &= outcome.verdict == Verdict::Passed;
        if let Some(origin) = slot.origin {
            let lost = u64::from(!outcome.verdict.goes_on());
            self.hops[origin.0].routers[origin.1].counts.lost += lost;
        } else {
            stats.treated(&slot.row, &outcome, is_last);
        }
        if outcome.verdict.goes_on() {
            slot.left = 1 + outcome.copies;
            slot.copies = [slot.copies[1], slot.copies[1].saturating_add(outcome.copies)];
            return (None, outcome.verdict);
        }
        let hop = if self.hops.is_empty() { 0 } else { at_hop };
        let row = TraceRow { class: Class::Not(outcome.verdict), hop, ..slot.row };
        let is_own = slot.origin.is_some();
        self.lanes[way as usize].done(token);
        ((!is_own).then_some(row), outcome.verdict)
    }

    /// A router sends an ICMP error about a packet, if it may: on the way back, through the links
    /// before it.
    fn report(&mut self, way: Way, token: u32, node: Node, anatomy: &Anatomy, why: Trouble, at: Mono) {
        let RouterState { how, bucket, counts } = &mut self.hops[node.0].routers[node.1];
        let Some(rate) = how.icmp else { return };
        let form = Form { quote: how.quote.map_or(usize::MAX, usize::clamped), labels: &how.labels };
        let from = how.address(anatomy.source);
        let Some(message) = anatomy.error(self.lanes[way as usize].packet(token), why, from, &form) else {
            return;
        };
        if !bucket.take(rate, at) {
            counts.limited += 1;
            return;
        }
        counts.sent += 1;
        self.lanes[way as usize].stats.told_too_big += u64::from(matches!(why, Trouble::TooBig(_)));
        let back = if way == Way::Up { Way::Down } else { Way::Up };
        let lane = &mut self.lanes[back as usize];
        if lane.is_full() {
            counts.lost += 1;
            return;
        }
        let Some(anatomy) = dissect(&message) else { return };
        let row = TraceRow::new(back, u32::clamped(message.len()), at);
        let token = lane.keep(&message, row, Some(node));
        // A message has no row.
        let _ = self.depart(back, token, node, &anatomy, at);
    }

    /// Rows of the packets that will not leave any more.
    pub(crate) fn unfinished(&mut self) -> Vec<TraceRow> {
        let has_hops = !self.hops.is_empty();
        let mut rows = Vec::new();
        for Lane { links, slots, stats, .. } in &mut self.lanes {
            for (at, link) in
                links.iter_mut().enumerate().flat_map(|(at, links)| links.iter_mut().map(move |l| (at, l)))
            {
                for emission in link.impairment.unfinished() {
                    let slot = slots.get(usize::clamped(emission.token)).filter(|slot| slot.origin.is_none());
                    let Some(slot) = slot else { continue };
                    let row = TraceRow { hop: if has_hops { number(at) } else { 0 }, ..slot.row(&emission) };
                    stats.stayed(&row);
                    rows.push(row);
                }
            }
        }
        rows
    }

    /// Statistics of both directions, and the truth of each hop.
    pub(crate) fn close(self) -> ([DirectionStats; 2], Vec<HopTruth>) {
        let links = self.lanes.each_ref().map(|lane| {
            lane.links
                .iter()
                .map(|links| links.iter().map(|link| link.counts).collect::<Vec<_>>())
                .collect::<Vec<_>>()
        });
        let hop = |(at, hop): (usize, HopState)| {
            let way = |(w, router): (usize, RouterState)| WayTruth {
                asked: router.how,
                up: links[0][at][w],
                down: links[1][at][w],
                icmp: router.counts,
            };
            HopTruth { choice: hop.choice, ways: hop.routers.into_iter().enumerate().map(way).collect() }
        };
        let hops = self.hops.into_iter().enumerate().map(hop).collect();
        (self.lanes.map(|lane| lane.stats), hops)
    }
}

/// The number of a hop, from 1.
fn number(at: usize) -> u8 {
    u8::clamped(at + 1)
}

#[cfg(test)]
mod tests;
