//! Reports of a worker to its control thread, also from one process to another.

use crate::{ConnectionRecord, Effective};
use metrics::{Group, Mono, Tally};
use serde::{Deserialize, Serialize};

/// A worker's report about its groups.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// A worker process knows a group: links that it accepts from now on are the group's.
    Begun(Group),
    /// Counts of a group in an interval.
    Tally {
        /// The group.
        group: Group,
        /// The interval's number, from 0.
        index: u32,
        /// When it ended.
        to: Mono,
        /// The group has ended here: `to` is when payload moved, or a connection was established or
        /// ended, for the last time, not when the clock said so.
        last: bool,
        /// The counts.
        tally: Box<Tally>,
    },
    /// Connections that have ended.
    Ended(Vec<ConnectionRecord>),
    /// A group has no links left and will open no more.
    Idle(Group),
    /// A group was dropped.
    Dropped {
        /// The group.
        group: Group,
        /// Counts since its last interval.
        tally: Box<Tally>,
        /// Socket options as the kernel applied them.
        effective: Option<Effective>,
    },
    /// A limit of this server holds for a client, of this group where it has one.
    Limited {
        /// The group.
        group: Option<Group>,
        /// Its links end.
        ends: bool,
        /// Which client, and the effect.
        text: String,
    },
    /// Something that the user should know.
    Trouble(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Aggregator;
    use metrics::{Ending, Remote, Sample, TcpInfo};
    use std::net::IpAddr;
    use uuid::Uuid;

    fn tally(seed: u64) -> Tally {
        let mut tally = Tally {
            tx_bytes: u64::MAX >> 4,
            rx_bytes: seed,
            opened: 7,
            open: 3,
            peak: 5,
            ..Tally::default()
        };
        tally.ended(Ending::Completed);
        tally.ended(Ending::DataError);
        tally.failed(Ending::DataError, "wrong \"data\"", || "wrong data at offset 5".into());
        let mut rng = generator(seed);
        for _ in 0..10_000 {
            tally.connect_ns.record(rng() % 1_000_000_000);
            tally.transfer_ns.record(rng() >> (rng() % 64));
            tally.rate.record(rng() % 3);
        }
        tally.slots.add(5, 1_000, 2_000);
        if let Some(remote) = tally.remote(IpAddr::from([127, 0, 0, 1])) {
            *remote = Remote { connections: 9, failed: 1, tx_bytes: 5, rx_bytes: 6, time_ns: 7 };
        }
        tally.remote(IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1u16]));
        tally.tcp.sample(&TcpInfo { rtt_us: 17, ..TcpInfo::default() });
        let id = Uuid::from_u128(u128::MAX - 5);
        tally.samples.push(Sample { id, slot: 3, ..Sample::default() });
        tally.last = Mono(u64::MAX - 1);
        tally
    }

    /// SplitMix64.
    fn generator(mut state: u64) -> impl FnMut() -> u64 {
        move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }
    }

    fn sent(tally: Tally) -> Tally {
        let finding =
            Finding::Tally { group: Group(1), index: 4, to: Mono(9), last: true, tally: Box::new(tally) };
        let text = serde_json::to_string(&finding).unwrap();
        let Ok(Finding::Tally { group: Group(1), index: 4, to: Mono(9), last: true, tally }) =
            serde_json::from_str(&text)
        else {
            panic!("{text}");
        };
        *tally
    }

    #[test]
    fn tallies_of_other_processes_merge_to_what_one_would_have_counted() {
        let (mut here, mut sum) = (Aggregator::new(1, Mono(0), 0, false), Tally::default());
        let mut other = Aggregator::new(1, Mono(0), 0, false);
        for seed in 1..4 {
            let one = tally(seed);
            sum.merge(&one);
            here.tally(seed as u32 - 1, Mono(seed), false, &one);
            other.tally(seed as u32 - 1, Mono(seed), false, &sent(one));
        }
        let came = sent(sum.clone());
        for quantile in [0.0, 0.5, 0.999, 1.0] {
            assert_eq!(came.transfer_ns.quantile(quantile), sum.transfer_ns.quantile(quantile));
        }
        assert_eq!((&came.samples, came.last), (&sum.samples, sum.last));
        here.last(&sum, None);
        other.last(&came, None);
        assert_eq!(other.totals(), here.totals());
    }
}
