//! Sizes and rates that are drawn from the ranges of a phase.
//!
//! A protocol whose ends know the identifier of a connection draws from it, so that one seed of the
//! identifiers repeats all draws, at both ends. Others draw from the generator of their worker.

use model::{Phase, Range};
use transport::Rng;
use uuid::Uuid;

/// Draws of one connection, by their purpose.
#[derive(Clone, Copy, Debug)]
pub enum Drawn {
    /// Payload of both directions together.
    Transfer,
    /// Rate and send calls of one end.
    Sent,
    /// Receive calls of one end.
    Received,
}

/// Payload of a connection, bytes.
pub fn transfer(phase: &Phase, rng: &mut Rng) -> u64 {
    rng.between(phase.transfer, phase.transfer_high.unwrap_or(phase.transfer))
}

/// Rate of one direction of a connection, bits/s, if it is limited.
pub fn rate(phase: &Phase, rng: &mut Rng) -> Option<u64> {
    phase.rate.map(|low| rng.between(low, phase.rate_high.unwrap_or(low)))
}

/// Bytes of the next call.
#[inline]
pub fn buffer(Range { low, high }: Range, rng: &mut Rng) -> u64 {
    if low == high { high } else { rng.between(low, high) }
}

/// The generator for draws of one purpose at one end of the connection `id`: the same at either
/// end.
pub fn generator(id: Uuid, of_client: bool, what: Drawn) -> Rng {
    let (high, low) = id.as_u64_pair();
    let purpose = (what as u64) << 1 | u64::from(of_client);
    Rng::new(Rng::new(high ^ low.rotate_left(32)).next() ^ purpose)
}

/// The identifier of life number `life` of a connection slot, from the seed of a phase.
pub fn identifier(seed: u64, slot: u32, life: u64) -> Uuid {
    let of_slot = Rng::new(seed).next() ^ u64::from(slot);
    Rng::new(Rng::new(of_slot).next() ^ life).uuid()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_seed_repeats_all_draws_and_no_two_connections_draw_alike() {
        let phase = Phase {
            transfer: 1_000,
            transfer_high: Some(9_000_000),
            rate: Some(8),
            rate_high: Some(1 << 40),
            buffer: Range { low: 1, high: 16 << 20 },
            ..Phase::default()
        };
        let all = |seed: u64| -> Vec<u64> {
            let ids = (0..20).flat_map(|slot| (1..6).map(move |life| identifier(seed, slot, life)));
            let of = |id: Uuid| {
                let of = |of_client, what| generator(id, of_client, what);
                let ends = [true, false].map(|client| {
                    let (mut sent, mut got) = (of(client, Drawn::Sent), of(client, Drawn::Received));
                    let rate = rate(&phase, &mut sent).unwrap();
                    [rate, buffer(phase.buffer, &mut sent), buffer(phase.buffer, &mut got)]
                });
                [vec![transfer(&phase, &mut of(true, Drawn::Transfer))], ends.concat()].concat()
            };
            ids.flat_map(of).collect()
        };
        assert_eq!(all(7), all(7));
        let (one, other) = (all(7), all(8));
        let rates: HashSet<u64> = one.iter().chain(&other).skip(1).step_by(7).copied().collect();
        assert_eq!(rates.len(), 200, "a rate of each connection");
        for (nth, range) in [(0, 1_000..=9_000_000), (1, 8..=1 << 40), (2, 1..=16 << 20)] {
            assert!(one.iter().skip(nth).step_by(7).all(|drawn| range.contains(drawn)));
        }
    }
}
