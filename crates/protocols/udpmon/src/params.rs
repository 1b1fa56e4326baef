//! Common settings of all tests of a run.

use super::codec::Setup;
use super::packet_stats::TENTH;
use crate::host::Host;
use crate::{PacketTestRecords, PacketTestRole, PacketTestSettings};
use metrics::{Clamped, Group, SECOND};
use model::{Phase, Train};

/// Longest wait behind a train before the receiver is asked for it, ns.
const SETTLE: u64 = SECOND / 5;

/// Common settings of all tests of a run.
#[derive(Clone, Debug, Default)]
pub struct Params {
    pub group: Group,
    pub asked: PacketTestSettings,
    /// The trains that the tests are, if the run is one of trains.
    pub train: Option<Train>,
    /// Time between the starts of two packets, ns; a test for each.
    pub waits_ns: Vec<u64>,
    /// Source of this host's counters.
    pub host: Host,
}

impl Params {
    /// The settings of `phase`.
    pub fn of(phase: &Phase, group: Group, host: Host) -> Self {
        if let Some(asked) = PacketTestSettings::of(phase) {
            let waits_ns = asked.waits.iter().map(|wait| u64::from(*wait) * TENTH).collect();
            return Params { group, asked, train: None, waits_ns, host };
        }
        let (train, probe) = (phase.train.clone().unwrap_or_default(), phase.probe.unwrap_or_default());
        let trains = train.total() / u64::from(train.packets.max(1));
        let settings = train.waits_ns.len().max(1);
        let wait = |n: u64| train.waits_ns.get(usize::clamped(n) % settings).copied().unwrap_or(0);
        let asked = PacketTestSettings {
            role: PacketTestRole::Stream,
            size: probe.size,
            packets: train.packets,
            // Room behind the last: the original's pointer runs on with every packet that is
            // repeated or out of order.
            records: PacketTestRecords::Packets { skip: 0, n: train.packets.saturating_mul(2) },
            settle_ns: probe.late_ns.min(SETTLE),
            ..PacketTestSettings::default()
        };
        Params { group, asked, waits_ns: (0..trains).map(wait).collect(), train: Some(train), host }
    }
}

impl Setup {
    /// Setup of a test of `asked`.
    pub(super) fn of(asked: &PacketTestSettings) -> Self {
        let (record_bytes, log_lost, skip) = match asked.records {
            PacketTestRecords::None => (0, 0, 0),
            PacketTestRecords::Packets { skip, n } => (n.saturating_mul(32), 0, skip),
            PacketTestRecords::Lost { skip, n } => (n.saturating_mul(24), 1, skip),
        };
        let small = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
        Setup {
            record_bytes: small(record_bytes),
            acks: i32::from(asked.acks),
            low: asked.low,
            bin_width: small(asked.bin_width).max(1),
            log_lost,
            skip: small(skip),
            stamps: i32::from(asked.stamps),
        }
    }
}
