//! The lab's own account: counted packet by packet, not derived from the requested conditions.

use crate::hop::{Choice, Router};
use crate::impair::{PacketOutcome, Verdict};
use crate::order::{Order, Reordering};
use crate::packet::{Anatomy, CE, ICMP, ICMP6, TCP, UDP};
use crate::setup::{Path, Wait};
use crate::trace::{Class, TraceRow};
use metrics::{Clamped, Dist, DistSummary, Mono, real};
use serde::Serialize;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// Flows with counts of their own per direction; the packets of later ones are only in the
/// direction's total.
const MOST_FLOWS: usize = 256;
/// Flows with a distribution of their own, which takes up to half a MiB.
const MOST_DISTS: usize = 16;

/// Name and version of the JSON form of [`Truth`]: `schema/lab.v1.json`.
pub const SCHEMA: &str = "netcaliper.lab.v1";

/// Packets of a direction or a flow. `arrived` is the sum of `delivered`, the five kinds of loss
/// (`lost_random`, `lost_burst`, `lost_outage`, `dropped_queue`, `too_big`), `expired`, `overrun`,
/// `refused` and `unfinished`.
///
/// Wide: one record of the file, a number for each fate of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Counts {
    /// Packets that arrived at the lab.
    pub arrived: u64,
    /// Bytes of the packets that arrived at the lab, IP headers included.
    pub arrived_bytes: u64,
    /// Packets that left it, copies not counted.
    pub delivered: u64,
    /// Packets that left, copies included.
    pub left: u64,
    /// Bytes of the packets that left.
    pub left_bytes: u64,
    /// Of those delivered: passed at once, because the conditions are for others.
    pub passed: u64,
    /// Lost at random, each by itself.
    pub lost_random: u64,
    /// Lost in bursts.
    pub lost_burst: u64,
    /// Lost in outages.
    pub lost_outage: u64,
    /// Found the queue full.
    pub dropped_queue: u64,
    /// Larger than the path's MTU.
    pub too_big: u64,
    /// TTL or hop limit ran out at a hop. No loss: the sender has set it.
    pub expired: u64,
    /// Dropped because the lab held too much.
    pub overrun: u64,
    /// Could not be handed to the receiving device.
    pub refused: u64,
    /// Still on their way when the lab ended.
    pub unfinished: u64,
    /// Packets of which copies left, too.
    pub duplicated: u64,
    /// Copies that left.
    pub copies: u64,
    /// Delivered with flipped bits and fitting checksums: the application sees them.
    pub corrupted: u64,
    /// Delivered with flipped bits and wrong checksums: the receiver's kernel drops them.
    pub damaged: u64,
    /// Chosen to be overtaken, on any link. The result is in the reordering.
    pub held_back: u64,
    /// Had to wait for the end of a stall.
    pub stalled: u64,
    /// Due before their arrival (jitter below zero), and sent at once.
    pub clamped: u64,
    /// Delivered with a mark of congestion that they did not arrive with.
    pub marked: u64,
    /// Delivered, by their ECN bits at arrival: not capable, ECT(1), ECT(0), CE.
    pub ecn_arrived: [u64; 4],
    /// Delivered, by their ECN bits at departure.
    pub ecn_left: [u64; 4],
    /// The longest run of packets of which the receiver saw none: lost, dropped or damaged.
    pub longest_loss: u64,
    /// Number of runs of lost packets.
    pub loss_runs: u64,
}

impl Counts {
    /// Packets that did not reach the receiver for any reason, not counting copies, packets still
    /// under way, and packets whose TTL ran out.
    pub fn lost(&self) -> u64 {
        let lost = [self.lost_random, self.lost_burst, self.lost_outage, self.dropped_queue, self.too_big];
        lost.iter().sum::<u64>() + self.overrun + self.refused + self.damaged
    }
}

/// A flow: packets of one protocol between the same addresses and ports, in one direction.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Flow {
    /// `tcp`, `udp`, `icmp`, or the protocol's number.
    pub protocol: String,
    /// Its source, with the port if it has one.
    pub from: String,
    /// Its destination, with the port if it has one.
    pub to: String,
    /// Fates of the packets.
    pub counts: Counts,
    /// The delay that was applied to those delivered, ns. Of the first 16 flows of a direction.
    pub delay_ns: Option<DistSummary>,
    /// The order in which they left.
    pub reordering: Reordering,
}

/// Packets that the kernel dropped at one of the lab's devices: not the path's doing, but the lab's
/// limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Device {
    /// On their way into this direction: the lab did not read fast enough.
    pub not_read: u64,
    /// On their way out of it, after they left the lab.
    pub not_received: u64,
}

/// One direction of the path.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Direction {
    /// Fates of the packets.
    pub counts: Counts,
    /// The delay that was applied to those delivered: from when the lab read them until it handed
    /// them to the receiving device, ns.
    pub delay_ns: Option<DistSummary>,
    /// Lateness of departures, ns; part of the delay above.
    pub late_ns: Option<DistSummary>,
    /// Upper bound of a packet's wait before the lab read it: the time since the lab last looked,
    /// ns; *not* part of the delay above. While the lab sleeps, it does not look; a packet wakes
    /// it, and the true value is then the time of a wake-up.
    pub unseen_ns: Option<DistSummary>,
    /// The order in which packets left.
    pub reordering: Reordering,
    /// When the first packet left, ns since the origin.
    pub first_left_ns: Option<u64>,
    /// When the last one left, ns since the origin.
    pub last_left_ns: Option<u64>,
    /// Packets of the kernels' own (neighbour and multicast discovery), not passed on and not
    /// counted above.
    pub housekeeping: u64,
    /// ICMP messages that reported a too big packet to its sender.
    pub told_too_big: u64,
    /// Drops at the devices.
    pub device: Device,
    /// Its flows, in order of appearance.
    pub flows: Vec<Flow>,
    /// Packets of flows beyond the 256 that are listed.
    pub unlisted: u64,
}

/// Packets on one direction of a link, ICMP messages of the routers included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LinkCounts {
    /// Packets, and copies made on links before, that entered the link.
    pub packets: u64,
    /// Lost on it for any reason.
    pub lost: u64,
}

/// ICMP errors of a router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct IcmpCounts {
    /// Packets whose TTL or hop limit ran out here.
    pub expired: u64,
    /// Messages sent: time exceeded, and packet too big.
    pub sent: u64,
    /// Messages that the router's limit prevented.
    pub limited: u64,
    /// Messages lost on the links of the way back.
    pub lost: u64,
}

/// A router of a hop and its link.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WayTruth {
    /// Requested addresses and conditions.
    pub asked: Router,
    /// The link towards the client, client to server.
    pub up: LinkCounts,
    /// The link towards the client, server to client.
    pub down: LinkCounts,
    /// ICMP errors.
    pub icmp: IcmpCounts,
}

/// A hop, counted from the client.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HopTruth {
    /// Choice of the way.
    pub choice: Choice,
    /// Way 1, way 2, …
    pub ways: Vec<WayTruth>,
}

/// The thread that forwards packets.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Worker {
    /// Wait of the forwarder.
    pub wait: Wait,
    /// The core it was bound to.
    pub core: Option<usize>,
    /// True if it had the most weight among the machine's threads (nice -20).
    pub hurried: bool,
    /// Sleeps of the forwarder.
    pub sleeps: u64,
}

/// Report of `netcaliper lab`: the fate of the packets on its path. Members may be added to version
/// 1; none is removed or changes its meaning.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Truth {
    /// Name and version of this format.
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    pub schema: &'static str,
    /// Seed of all chance.
    pub seed: u64,
    /// Requested conditions, client to server.
    pub asked_up: Path,
    /// Requested conditions, server to client.
    pub asked_down: Path,
    /// The hops from client to server; with hops, the conditions above apply on the last link.
    pub hops: Vec<HopTruth>,
    /// Wall time of the origin, which all times count from: when the lab was made, ns since 1970.
    pub origin_wall_ns: i64,
    /// The same, on this process's clock.
    #[serde(skip)]
    pub origin: Mono,
    /// When the command was started and the timetables with it, ns since the origin.
    pub begin_ns: Option<u64>,
    /// Client to server.
    pub up: Direction,
    /// Server to client.
    pub down: Direction,
    /// Work of the forwarder.
    pub worker: Worker,
    /// Rows of the trace that were lost because they could not be written fast enough, or not kept.
    pub trace_lost: u64,
    /// Why the truth may be less than the whole truth.
    pub caveats: Vec<String>,
}

impl Truth {
    /// Its JSON form, indented.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Why the truth may be less than the whole truth.
    pub(crate) fn caveats(&self) -> Vec<String> {
        let mut caveats = Vec::new();
        for (name, way) in [("up", &self.up), ("down", &self.down)] {
            let mut say = |n: u64, what: &str| {
                if n > 0 {
                    caveats.push(format!("{name}: {n} packets {what}"));
                }
            };
            say(way.device.not_read, "were dropped by the kernel because the lab did not read them in time");
            say(way.device.not_received, "were dropped by the kernel after they had left the lab");
            say(way.counts.overrun, "were dropped because the lab held too much");
            say(way.counts.refused, "were refused by the receiving device");
            say(way.unlisted, "belong to flows that are not listed");
            if let Some(late) = way.late_ns.as_ref().filter(|late| late.p99 > 1_000_000) {
                let p99 = metrics::format_duration(real(late.p99));
                caveats.push(format!(
                    "{name}: one packet in a hundred left {p99} late or later: the machine is busy"
                ));
            }
        }
        if self.trace_lost > 0 {
            caveats.push(format!("{} rows are missing in the trace", self.trace_lost));
        }
        caveats
    }
}

/// Runs of packets that the receiver did not see, from decisions in any order.
#[derive(Debug, Default)]
struct Runs {
    /// The first packet without a decision.
    next: u64,
    /// Decisions from there on.
    later: VecDeque<Option<Seen>>,
    /// Lost packets in a row, up to `next`.
    run: u64,
}

/// Part of a packet in the runs of losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Yes,
    No,
    /// Not for the receiver.
    Neither,
}

impl Runs {
    /// Decides about packet `number`, once.
    fn decide(&mut self, number: u64, seen: Seen, counts: &mut Counts) {
        let Some(at) = number.checked_sub(self.next).map(usize::clamped) else { return };
        if self.later.len() <= at {
            self.later.resize(at + 1, None);
        }
        self.later[at].get_or_insert(seen);
        while let Some(Some(seen)) = self.later.front().copied() {
            self.later.pop_front();
            self.next += 1;
            match seen {
                Seen::Yes => self.run = 0,
                Seen::No => {
                    counts.loss_runs += u64::from(self.run == 0);
                    self.run += 1;
                    counts.longest_loss = counts.longest_loss.max(self.run);
                }
                Seen::Neither => {}
            }
        }
    }
}

/// Running counts of a direction or flow.
#[derive(Debug, Default)]
pub(crate) struct FlowStats {
    counts: Counts,
    order: Order,
    delay: Option<Dist>,
    runs: Runs,
}

impl FlowStats {
    fn new(dist: bool) -> Self {
        FlowStats { delay: dist.then(Dist::default), ..FlowStats::default() }
    }

    /// Counts the effect of a link, the last one or another, on packet `number`.
    fn treated(&mut self, row: &TraceRow, outcome: &PacketOutcome, is_last: bool, number: u64) {
        let counts = &mut self.counts;
        counts.held_back += u64::from(outcome.reordered);
        counts.stalled += u64::from(outcome.stalled);
        counts.clamped += u64::from(outcome.clamped);
        if !outcome.verdict.goes_on() {
            self.ended(outcome.verdict, number);
        } else if is_last {
            let seen = if row.wire && row.flipped > 0 { Seen::No } else { Seen::Yes };
            self.runs.decide(number, seen, &mut self.counts);
        }
    }

    /// Packet `number` goes no further.
    fn ended(&mut self, verdict: Verdict, number: u64) {
        let counts = &mut self.counts;
        let count = match verdict {
            Verdict::Forwarded | Verdict::Passed => return,
            Verdict::LostRandom => &mut counts.lost_random,
            Verdict::LostBurst => &mut counts.lost_burst,
            Verdict::LostOutage => &mut counts.lost_outage,
            Verdict::DroppedQueue => &mut counts.dropped_queue,
            Verdict::TooBig => &mut counts.too_big,
            Verdict::Expired => &mut counts.expired,
            Verdict::Overrun => &mut counts.overrun,
        };
        *count += 1;
        let seen = if verdict == Verdict::Expired { Seen::Neither } else { Seen::No };
        self.runs.decide(number, seen, counts);
    }

    /// A packet left: number `number` of the direction or flow.
    fn left(&mut self, row: &TraceRow, passed: bool, number: u64) {
        let counts = &mut self.counts;
        counts.left += 1;
        counts.left_bytes += u64::from(row.length);
        if row.copy > 0 {
            counts.duplicated += u64::from(row.copy == 1);
            counts.copies += 1;
            return;
        }
        counts.delivered += 1;
        counts.passed += u64::from(passed);
        if row.flipped > 0 {
            *(if row.wire { &mut counts.damaged } else { &mut counts.corrupted }) += 1;
        }
        let (came, left) = (usize::from(row.tos_in & 3), usize::from(row.tos_out & 3));
        counts.ecn_arrived[came] += 1;
        counts.ecn_left[left] += 1;
        counts.marked += u64::from(left == usize::from(CE) && came != left);
        self.order.first(number);
        if let (Some(dist), Some(delay_ns)) = (&mut self.delay, row.delay_ns()) {
            dist.record(delay_ns);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    protocol: u8,
    from: IpAddr,
    to: IpAddr,
    ports: Option<(u16, u16)>,
}

/// A packet's place in the statistics: its number in the direction, its flow, and its number there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketPlace {
    pub(crate) index: u64,
    /// `None` for a flow that is not listed.
    pub(crate) flow: Option<u32>,
    pub(crate) flow_index: u64,
}

#[derive(Debug, Default)]
pub(crate) struct DirectionStats {
    all: FlowStats,
    late: Dist,
    unseen: Dist,
    keys: HashMap<Key, u32>,
    flows: Vec<(Key, FlowStats)>,
    unlisted: u64,
    first_left: Option<Mono>,
    last_left: Option<Mono>,
    pub(crate) housekeeping: u64,
    pub(crate) told_too_big: u64,
}

impl DirectionStats {
    pub(crate) fn new() -> Self {
        DirectionStats { all: FlowStats::new(true), ..DirectionStats::default() }
    }

    /// The next packet's places in this direction and its flow.
    pub(crate) fn place(&mut self, anatomy: &Anatomy) -> PacketPlace {
        let index = self.all.counts.arrived;
        let key = Key {
            protocol: anatomy.protocol,
            from: anatomy.source,
            to: anatomy.destination,
            ports: anatomy.ports,
        };
        let flow = match self.keys.get(&key) {
            Some(flow) => *flow,
            None if self.flows.len() == MOST_FLOWS => {
                self.unlisted += 1;
                return PacketPlace { index, flow: None, flow_index: 0 };
            }
            None => {
                let flow = u32::clamped(self.flows.len());
                self.flows.push((key, FlowStats::new(self.flows.len() < MOST_DISTS)));
                self.keys.insert(key, flow);
                flow
            }
        };
        let flow_index = self.flows.get(usize::clamped(flow)).map_or(0, |f| f.1.counts.arrived);
        PacketPlace { index, flow: Some(flow), flow_index }
    }

    /// Counts a packet in the direction and in its flow, each with its number there.
    fn count(&mut self, row: &TraceRow, count: impl Fn(&mut FlowStats, u64)) {
        count(&mut self.all, row.index);
        if let Some((_, flow)) = row.flow.and_then(|flow| self.flows.get_mut(usize::clamped(flow))) {
            count(flow, row.flow_index);
        }
    }

    /// Counts a packet that arrived `unseen` ns after the device was last seen empty.
    pub(crate) fn arrived(&mut self, row: &TraceRow, unseen: u64) {
        self.unseen.record(unseen);
        self.count(row, |stats, _| {
            stats.counts.arrived += 1;
            stats.counts.arrived_bytes += u64::from(row.length);
        });
    }

    /// Counts the effect of a link, the last one or another, on a packet. Copies count when they
    /// leave.
    pub(crate) fn treated(&mut self, row: &TraceRow, outcome: &PacketOutcome, is_last: bool) {
        if row.copy == 0 {
            self.count(row, |stats, number| stats.treated(row, outcome, is_last, number));
        }
    }

    /// Counts a packet that ended elsewhere than on a link.
    pub(crate) fn ended(&mut self, row: &TraceRow, verdict: Verdict) {
        if row.copy == 0 {
            self.count(row, |stats, number| stats.ended(verdict, number));
        }
    }

    /// A packet left at `at`.
    pub(crate) fn left(&mut self, row: &TraceRow, passed: bool, at: Mono) {
        self.late.record(at.since(row.due));
        self.first_left.get_or_insert(at);
        self.last_left = Some(at);
        self.count(row, |stats, number| stats.left(row, passed, number));
    }

    /// A packet was refused, or will not leave any more.
    pub(crate) fn stayed(&mut self, row: &TraceRow) {
        if row.copy > 0 {
            return;
        }
        self.count(row, |stats, number| {
            let Counts { refused, unfinished, .. } = &mut stats.counts;
            *(if row.class == Class::Refused { refused } else { unfinished }) += 1;
            stats.runs.decide(number, Seen::Yes, &mut stats.counts);
        });
    }

    pub(crate) fn close(self, origin: Mono, device: Device) -> Direction {
        let since = |at: Mono| at.since(origin);
        Direction {
            counts: self.all.counts,
            delay_ns: self.all.delay.and_then(|d| d.summary()),
            late_ns: self.late.summary(),
            unseen_ns: self.unseen.summary(),
            reordering: self.all.order.summary(),
            first_left_ns: self.first_left.map(since),
            last_left_ns: self.last_left.map(since),
            housekeeping: self.housekeeping,
            told_too_big: self.told_too_big,
            device,
            flows: self.flows.into_iter().map(|(key, stats)| flow(&key, stats)).collect(),
            unlisted: self.unlisted,
        }
    }
}

fn flow(key: &Key, stats: FlowStats) -> Flow {
    let end = |ip: IpAddr, port: Option<u16>| match port {
        Some(port) => std::net::SocketAddr::new(ip, port).to_string(),
        None => ip.to_string(),
    };
    Flow {
        protocol: match key.protocol {
            TCP => "tcp".to_owned(),
            UDP => "udp".to_owned(),
            ICMP | ICMP6 => "icmp".to_owned(),
            other => other.to_string(),
        },
        from: end(key.from, key.ports.map(|p| p.0)),
        to: end(key.to, key.ports.map(|p| p.1)),
        counts: stats.counts,
        delay_ns: stats.delay.and_then(|d| d.summary()),
        reordering: stats.order.summary(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, Runs, Seen, Truth};
    use metrics::schema::Published;
    use transport::Rng;

    #[test]
    fn runs_of_loss_do_not_depend_on_the_order_of_decisions() {
        let mut rng = Rng::new(8);
        for round in 0..200 {
            let seen: Vec<Seen> = (0..rng.between(1, 60))
                .map(|_| [Seen::Yes, Seen::No, Seen::No, Seen::Neither][rng.between(0, 3) as usize])
                .collect();
            let mut order: Vec<(u64, u64)> =
                (0..seen.len() as u64).map(|n| (n + rng.between(0, round % 20), n)).collect();
            order.sort_unstable();
            let (mut runs, mut counts) = (Runs::default(), Counts::default());
            for (_, number) in order {
                runs.decide(number, seen[number as usize], &mut counts);
                // A second decision changes nothing.
                runs.decide(number, Seen::No, &mut counts);
            }
            let text: String = seen
                .iter()
                .filter(|s| **s != Seen::Neither)
                .map(|s| if *s == Seen::No { 'x' } else { ' ' })
                .collect();
            let slow: Vec<usize> = text.split(' ').map(str::len).filter(|len| *len > 0).collect();
            assert_eq!(counts.loss_runs, slow.len() as u64, "{seen:?}");
            assert_eq!(counts.longest_loss, slow.iter().max().copied().unwrap_or(0) as u64, "{seen:?}");
            assert!(runs.later.is_empty());
        }
    }

    #[test]
    fn the_schema_is_that_of_the_types() {
        let (file, id) = ("lab.v1.json", "urn:netcaliper:lab:v1");
        Published { file, id, title: "netcaliper lab report, version 1" }.check::<Truth>().unwrap();
    }
}
