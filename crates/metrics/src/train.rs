//! Packet trains: a path's dispersion, delays and losses.
//!
//! Sender and receiver each keep a log; [`join`] puts the two together, one [`TrainPacket`] per
//! place in the schedule, and [`TrainReport::of`] makes the figures. `docs/methods/train.md` has
//! the formulas and their limits.

mod echo;
mod report;

pub use echo::{Echo, Echoes, join_echoes};
pub use report::{DelayAt, Quartiles, TrainReport, TrainRow, TrainSetting, Trouble, TroubleKind, Trough};

use crate::{Clamped, ReceivedPacket, StampKind};
use serde::{Deserialize, Serialize};

/// A datagram that left, as its sender logged it; its sequence number is its place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Its place in the schedule of all trains, from 0.
    pub place: u32,
    /// When it left, ns of the sender's host clock.
    pub sent_ns: i64,
}

/// A place in a schedule of trains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The train, from 0.
    pub train: u32,
    /// Which of the settings it has, from 0.
    pub setting: u32,
    /// Which repetition of its setting it is, from 0.
    pub round: u32,
    /// The packet's number in its train, from 0.
    pub number: u32,
    /// When it is to leave, ns after the start.
    pub intended_ns: u64,
}

/// One packet of a train: its schedule and its outcome. Times are ns after the start, by the
/// sender's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrainPacket {
    /// The train, from 0.
    pub train: u32,
    /// Which of the settings the train has, from 0.
    pub setting: u32,
    /// Which repetition of its setting the train is, from 0.
    pub round: u32,
    /// The packet's number in its train, from 0.
    pub number: u32,
    /// When it is to leave, ns after the start.
    pub intended_ns: u64,
    /// When it left; `None` when it was not sent, which is no loss.
    pub sent_ns: Option<i64>,
    /// First arrival; `None` without one.
    pub received_ns: Option<i64>,
    /// Source of the arrival time; `None` when the packet did not arrive.
    pub stamp: Option<StampKind>,
    /// Number of further arrivals.
    pub repeats: u32,
    /// Packets of its train with higher numbers that arrived before it (RFC 4737: reordered when
    /// not 0).
    pub overtaken_by: u32,
    /// When it was back for the first time, where packets are returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back_ns: Option<i64>,
    /// Time at the remote end, from arrival to departure, ns of that host's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_ns: Option<i64>,
}

impl TrainPacket {
    /// The packet of this place in the schedule, of which nothing more is known.
    pub fn at(place: Place) -> Self {
        let Place { train, setting, round, number, intended_ns } = place;
        TrainPacket { train, setting, round, number, intended_ns, ..TrainPacket::default() }
    }

    /// One-way delay from the actual send, ns; below 0 when the clocks say so.
    pub fn delay_ns(&self) -> Option<i64> {
        Some(self.received_ns?.saturating_sub(self.sent_ns?))
    }

    /// Time there and back from the actual send, ns: two stamps of one clock.
    pub fn round_trip_ns(&self) -> Option<i64> {
        Some(self.back_ns?.saturating_sub(self.sent_ns?))
    }
}

/// Puts both logs together: a packet for every place of `schedule`, and how many arrivals belong to
/// none. `start_ns` is the start by the sender's host clock.
///
/// A train is judged by one offset between the clocks, that of its first arrival: later knowledge
/// of the clocks does not change the times between its packets.
pub fn join(
    schedule: impl Iterator<Item = Place>,
    start_ns: i64,
    sent: &[Departure],
    got: &[ReceivedPacket],
) -> (Vec<TrainPacket>, u64) {
    let mut packets: Vec<TrainPacket> = schedule.map(TrainPacket::at).collect();
    for departure in sent {
        if let Some(packet) = packets.get_mut(usize::clamped(departure.place)) {
            packet.sent_ns = Some(departure.sent_ns.wrapping_sub(start_ns));
        }
    }
    let mut strays = 0;
    // Numbers that arrived, in order, of each train.
    let trains = packets.last().map_or(0, |last| usize::clamped(last.train) + 1);
    let mut come: Vec<Vec<u32>> = vec![Vec::new(); trains];
    let mut offsets: Vec<Option<i64>> = vec![None; trains];
    for arrival in got {
        let at = usize::try_from(arrival.sequence).ok().and_then(|at| sent.get(at));
        let Some(packet) = at.and_then(|d| packets.get_mut(usize::clamped(d.place))) else {
            strays += 1;
            continue;
        };
        if packet.received_ns.is_some() {
            packet.repeats += 1;
            continue;
        }
        let train = usize::clamped(packet.train);
        let offset = offsets.get_mut(train).map_or(0, |known| *known.get_or_insert(arrival.offset_ns));
        packet.received_ns = Some(arrival.received_ns.wrapping_sub(offset).wrapping_sub(start_ns));
        packet.stamp = Some(arrival.stamp);
        if let Some(come) = come.get_mut(train) {
            let rank = come.partition_point(|&number| number < packet.number);
            packet.overtaken_by = u32::clamped(come.len() - rank);
            come.insert(rank, packet.number);
        }
    }
    (packets, strays)
}

#[cfg(test)]
mod tests;
