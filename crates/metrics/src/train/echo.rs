//! Trains whose packets are returned: there and back by one clock.

use super::report::stretch;
use super::{Departure, TrainPacket};
use crate::{Clamped, Dist, DistSummary, Spread, real};
use serde::{Deserialize, Serialize};

/// A packet that was returned, in the order of return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// Its sequence number.
    pub sequence: u64,
    /// When it was back, ns of the sender's host clock.
    pub back_ns: i64,
    /// Time at the remote end, ns of that host's clock.
    pub held_ns: i64,
}

/// Returned packets of one setting's trains, over its repetitions. Both ways together: nothing here
/// says which of them was slow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Echoes {
    /// Packets that were back, each counted once.
    pub returned: u64,
    /// Packets that did not get there.
    pub lost_there: u64,
    /// Packets that arrived there and did not return.
    pub lost_back: u64,
    /// UDP payload moved both ways, over the time from the first send to the last return, of its
    /// trains, bits/s.
    pub two_way_bps: Option<Spread>,
    /// Rate of its trains on their return, bits/s of UDP payload: bytes after the first packet,
    /// over the time since it.
    pub back_bps: Option<Spread>,
    /// Time from the first send to the last return, for each packet that was returned, ns.
    pub frame_ns: Option<Spread>,
    /// Time there and back, ns.
    pub round_trip_ns: Option<DistSummary>,
    /// Time of the packets at the remote end, ns.
    pub held_ns: Option<DistSummary>,
    /// Time there and back without `held_ns`, ns.
    pub path_ns: Option<DistSummary>,
}

/// Enters returned packets into `packets`, which were made from the same departures:
/// [`super::join`]. Further returns of one packet, and those of unknown packets, are left out.
pub fn join_echoes(packets: &mut [TrainPacket], start_ns: i64, sent: &[Departure], back: &[Echo]) {
    for echo in back {
        let at = usize::try_from(echo.sequence).ok().and_then(|at| sent.get(at));
        let Some(packet) = at.and_then(|d| packets.get_mut(usize::clamped(d.place))) else { continue };
        if packet.back_ns.is_none() {
            packet.back_ns = Some(echo.back_ns.wrapping_sub(start_ns));
            packet.held_ns = Some(echo.held_ns);
        }
    }
}

impl Echoes {
    /// Figures of the returned packets of `trains`, with `size` bytes of UDP payload each.
    pub(super) fn of(trains: &[&[TrainPacket]], size: u32) -> Self {
        let (mut two_way, mut back, mut frame) = (Vec::new(), Vec::new(), Vec::new());
        let (mut rtt, mut held, mut path) = (Dist::default(), Dist::default(), Dist::default());
        let mut echoes = Echoes::default();
        for train in trains {
            for packet in train.iter().filter(|p| p.sent_ns.is_some()) {
                match (packet.round_trip_ns(), packet.held_ns) {
                    (Some(round), kept) => {
                        let kept = kept.unwrap_or(0).max(0);
                        echoes.returned += 1;
                        rtt.record(u64::clamped(round.max(0)));
                        held.record(u64::clamped(kept));
                        path.record(u64::clamped(round.saturating_sub(kept).max(0)));
                    }
                    (None, _) if packet.received_ns.is_some() => echoes.lost_back += 1,
                    (None, _) => echoes.lost_there += 1,
                }
            }
            let (back_ns, n) = stretch(train.iter().filter_map(|p| p.back_ns));
            let first = train.iter().filter_map(|p| p.sent_ns).min();
            let last = train.iter().filter_map(|p| p.back_ns).max();
            let Some(whole) = first.zip(last).map(|(first, last)| last.saturating_sub(first)) else {
                continue;
            };
            let bits = f64::from(size) * 8e9;
            if whole > 0 && n > 0 {
                two_way.push(2.0 * bits * f64::from(n) / real(whole));
                frame.push(real(whole) / f64::from(n));
            }
            if back_ns > 0 && n > 1 {
                back.push(bits * f64::from(n - 1) / real(back_ns));
            }
        }
        Echoes {
            two_way_bps: Spread::of(&two_way),
            back_bps: Spread::of(&back),
            frame_ns: Spread::of(&frame),
            round_trip_ns: rtt.summary(),
            held_ns: held.summary(),
            path_ns: path.summary(),
            ..echoes
        }
    }
}
