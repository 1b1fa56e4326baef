//! Packet trains: settings and results.

use metrics::{Clamped, Place, SECOND, TrainReport};
use serde::{Deserialize, Serialize};

/// Most packets of a run: each is remembered at both ends.
pub const MOST_TRAIN_PACKETS: u64 = 100_000;
/// Most settings.
const MOST_SETTINGS: usize = 16;

/// Trains of packets, several settings in turn. The size of the packets is the probe's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Train {
    /// Packets of a train.
    pub packets: u32,
    /// The settings: time from the start of a packet to the start of the next, ns; 0 is back to
    /// back.
    pub waits_ns: Vec<u64>,
    /// Trains of each setting.
    pub repeat: u32,
    /// From one round, in which each setting has a train, to the next, ns. The trains of a round
    /// are spread evenly over it.
    pub every_ns: u64,
    /// True if each packet is reported.
    pub samples: bool,
    /// True if the remote end returns every packet.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub echo: bool,
}

impl Default for Train {
    fn default() -> Self {
        Train {
            packets: 100,
            waits_ns: vec![0],
            repeat: 10,
            every_ns: SECOND / 5,
            samples: false,
            echo: false,
        }
    }
}

impl Train {
    fn settings(&self) -> u64 {
        u64::clamped(self.waits_ns.len().max(1))
    }

    /// Packets in all.
    pub fn total(&self) -> u64 {
        u64::from(self.packets).saturating_mul(self.settings()).saturating_mul(self.repeat.into())
    }

    /// Length of the run, ns.
    pub fn duration_ns(&self) -> u64 {
        self.every_ns.saturating_mul(self.repeat.into())
    }

    /// Mean rate in bits/s of packets of `size` bytes.
    pub fn mean_bps(&self, size: u32) -> u64 {
        let bits = u128::from(self.total()) * u128::from(size) * 8 * u128::from(SECOND);
        u64::clamped(bits / u128::from(self.duration_ns().max(1))).max(8)
    }

    /// The `n`th place of the schedule, from 0; places after the last are in trains that would
    /// follow.
    pub fn place(&self, n: u64) -> Place {
        let packets = u64::from(self.packets.max(1));
        let (train, number) = (n / packets, n % packets);
        let (round, setting) = (train / self.settings(), train % self.settings());
        let wait = self.waits_ns.get(usize::clamped(setting)).copied().unwrap_or(0);
        let begin =
            round.saturating_mul(self.every_ns).saturating_add(setting * (self.every_ns / self.settings()));
        let intended_ns = begin.saturating_add(number * wait);
        let [train, setting, round, number] = [train, setting, round, number].map(u32::clamped);
        Place { train, setting, round, number, intended_ns }
    }

    /// All places, in order.
    pub fn places(&self) -> impl Iterator<Item = Place> + '_ {
        (0..self.total().min(MOST_TRAIN_PACKETS)).map(|n| self.place(n))
    }

    /// Checks every value; both ends do.
    ///
    /// # Errors
    /// One sentence naming the first value that cannot be, and what would be accepted.
    pub fn check(&self) -> Result<(), String> {
        let must = |ok: bool, what: &str| if ok { Ok(()) } else { Err(what.to_owned()) };
        must((2..=10_000).contains(&self.packets), "a train must have 2 to 10000 packets")?;
        must((1..=MOST_SETTINGS).contains(&self.waits_ns.len()), "trains must have 1 to 16 settings")?;
        must((1..=10_000).contains(&self.repeat), "trains must be repeated 1 to 10000 times")?;
        let few = self.total() <= MOST_TRAIN_PACKETS;
        must(few, "all trains together must have at most 100000 packets: send fewer or shorter ones")?;
        let often = (SECOND / 1_000..=3_600 * SECOND).contains(&self.every_ns);
        must(often, "trains must be repeated every 1ms to 1h")?;
        let longest = self.waits_ns.iter().max().copied().unwrap_or(0);
        must(
            longest.saturating_mul(u64::from(self.packets)) <= self.every_ns / self.settings(),
            "the trains of a round must fit into it: repeat them less often (--every), or make them shorter",
        )
    }
}

/// Results of trains, which go one way: the phase's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Trains {
    /// Bytes that IP and UDP add to a packet; dispersion rates count them.
    pub headers: u32,
    /// Error bound of one-way delays because clocks were compared, two hosts' and that of a network
    /// card that stamped packets, ns.
    pub clock_bound_ns: u64,
    /// Packets that arrived and belong to none of these trains.
    pub strays: u64,
    /// Arrivals that the receiver had no room to remember.
    pub left_out: u64,
    /// The figures.
    pub report: TrainReport,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_take_turns_within_a_round() {
        let train =
            Train { packets: 3, waits_ns: vec![0, 10], repeat: 2, every_ns: 1_000_000, ..Train::default() };
        assert_eq!((train.total(), train.duration_ns()), (12, 2_000_000));
        let told: Vec<_> = train.places().map(|p| (p.setting, p.round, p.number, p.intended_ns)).collect();
        let expected = [
            [(0, 0, 0, 0), (0, 0, 1, 0), (0, 0, 2, 0)],
            [(1, 0, 0, 500_000), (1, 0, 1, 500_010), (1, 0, 2, 500_020)],
            [(0, 1, 0, 1_000_000), (0, 1, 1, 1_000_000), (0, 1, 2, 1_000_000)],
            [(1, 1, 0, 1_500_000), (1, 1, 1, 1_500_010), (1, 1, 2, 1_500_020)],
        ];
        assert_eq!(told, expected.concat());
        assert_eq!(train.place(12).intended_ns, train.duration_ns());
        // 12 packets of 1000 bytes in 2 ms.
        assert_eq!(train.mean_bps(1_000), 48_000_000);
    }

    #[test]
    fn what_cannot_be_is_named() {
        assert_eq!(Train::default().check(), Ok(()));
        let with = |train: Train| train.check().unwrap_err();
        assert!(with(Train { packets: 1, ..Train::default() }).contains("2 to 10000"));
        assert!(with(Train { waits_ns: vec![], ..Train::default() }).contains("1 to 16"));
        assert!(with(Train { repeat: 10_000, ..Train::default() }).contains("100000"));
        assert!(with(Train { waits_ns: vec![0, 1_000_001], ..Train::default() }).contains("--every"));
        assert!(with(Train { every_ns: 1, ..Train::default() }).contains("1ms to 1h"));
    }
}
