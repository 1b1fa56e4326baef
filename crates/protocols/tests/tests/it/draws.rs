//! Transfers, rates and buffers that are drawn from ranges: a seed repeats all of them.

use crate::support::run::*;
use metrics::{Ending, SECOND};
use model::{ConnectionRecord, Event, Pattern, Phase, Range, Status};
use sim::{Link, Network};

fn drawn(pattern: Pattern, seed: u64) -> Phase {
    Phase {
        pattern,
        connections: 3,
        iterations: Some(8),
        duration_ns: None,
        transfer: 2_000,
        transfer_high: Some(200_000),
        rate: Some(4_000_000),
        rate_high: Some(40_000_000),
        buffer: Range { low: 100, high: 20_000 },
        draw_seed: Some(seed),
        ..Phase::default()
    }
}

/// A run of a client with two workers over a network of its own chances: its outcome, and its
/// connections by their identifiers.
fn run(phase: &Phase, chances: u64, server: native::ServerPlan) -> (Told, Vec<ConnectionRecord>) {
    let mut net = Network::new(chances);
    let link = Link::new().delay(MS).jitter(2 * MS);
    net.links(link.clone(), link);
    serve(&mut net, server);
    let client = join(&mut net, 0, recorded(client_plan(phase), 0));
    net.run();
    let record = |(_, event): &(metrics::Mono, Event)| match event {
        Event::Connection(record) => Some((**record).clone()),
        _ => None,
    };
    let mut records: Vec<_> = net.events(client).iter().filter_map(record).collect();
    records.sort_by_key(|record| record.id);
    (told(&net, client), records)
}

#[test]
fn a_seed_repeats_the_draws_of_both_ends() {
    for pattern in [Pattern::Push, Pattern::Pull, Pattern::Duplex] {
        let all: Vec<_> = [(5, 1), (5, 2), (6, 1)]
            .map(|(seed, chances)| {
                let (it, records) = run(&drawn(pattern, seed), chances, server_plan());
                assert_eq!(it.status(), Status::Complete, "{pattern}: {}", it.reason());
                assert_eq!((it.local().completed, it.remote[0].completed), (24, 24), "{pattern}");
                let of = |record: &ConnectionRecord| {
                    assert_eq!(record.result, Ending::Completed);
                    let bytes = record.tx_bytes + record.rx_bytes;
                    assert!((2_000..=200_001).contains(&bytes), "{bytes}");
                    // A pace has its first send at once.
                    let rate = 8.0 * bytes as f64 / (record.duration_ns as f64 / SECOND as f64);
                    (record.id, record.tx_bytes, record.rx_bytes, rate)
                };
                records.iter().map(of).collect::<Vec<_>>()
            })
            .into();
        let bytes = |nth: usize| all[nth].iter().map(|(id, tx, rx, _)| (*id, *tx, *rx)).collect::<Vec<_>>();
        assert_eq!(bytes(0), bytes(1), "{pattern}");
        assert_ne!(bytes(0), bytes(2), "{pattern}");
        let mut sizes: Vec<u64> = bytes(0).iter().map(|(_, tx, rx)| tx + rx).collect();
        sizes.sort_unstable();
        sizes.dedup();
        assert!(sizes.len() > 20, "{pattern}: {sizes:?}");
        // Longer connections show their rates: the same ones in both runs, within a round trip.
        let mut rates = Vec::new();
        for (one, other) in all[0].iter().zip(&all[1]).filter(|(one, _)| one.1 + one.2 > 100_000) {
            assert!((one.3 / other.3 - 1.0).abs() < 0.2, "{pattern}: {one:?} {other:?}");
            rates.push(one.3);
        }
        let (low, high) = rates.iter().fold((f64::MAX, 0.0_f64), |(l, h), rate| (l.min(*rate), h.max(*rate)));
        assert!(high > 2.0 * low, "{pattern}: {rates:?}");
    }
}

#[test]
fn a_server_reduces_a_range_of_rates_to_its_limit() {
    for (limit, rates) in [(36_000_000, (4_000_000, Some(12_000_000))), (9_000_000, (3_000_000, None))] {
        let limits = common::Limits { rate: Some(limit), ..common::Limits::default() };
        let plan = server_with(|config| config.limits = limits);
        let (it, records) = run(&drawn(Pattern::Push, 5), 1, plan);
        assert_eq!((it.status(), records.len()), (Status::Complete, 24), "{}", it.reason());
        let changes = &it.sessions[0].accepted.changes;
        let given = format!("{} bit/s", limit / 3);
        assert!(changes.iter().any(|change| change.given == given), "{rates:?}: {changes:?}");
        for record in records.iter().filter(|record| record.tx_bytes > 100_000) {
            let rate = 8e9 * record.tx_bytes as f64 / record.duration_ns as f64;
            assert!(rate < 1.3 * limit as f64 / 3.0, "{rate}");
        }
    }
}
