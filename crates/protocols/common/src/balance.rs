//! Places sessions on workers: bulk data and short turns on different sets, and the first
//! connection of each session so that equal connections of several sessions have equal shares of
//! the cores.

use metrics::Clamped;
use model::{Kind, Phase};

/// Datagrams a second of a light session, in one direction: at 2.8 µs each they take some 3 % of a
/// core.
const LIGHT_RATE: u64 = 10_000;
/// And bits a second.
const LIGHT_BPS: u64 = 100_000_000;

/// True if the turns of a session's connections and flows are short and far apart. The session then
/// does not share workers with bulk sessions, where each message would wait for a turn of every
/// bulk connection.
pub fn is_light(phase: &Phase) -> bool {
    let rate = phase.rate.or(phase.media.map(|media| media.rate_bps));
    let (Some(rate), Some(probe)) = (rate, phase.probe) else { return phase.kind == Kind::Ping };
    let flows = u64::from(phase.connections);
    let second = metrics::SECOND.saturating_mul(1_000);
    let datagrams = second / probe.gap_ps(Some(rate)).max(1);
    datagrams.saturating_mul(flows) <= LIGHT_RATE && rate.saturating_mul(flows) <= LIGHT_BPS
}

/// The connections of a session: connection `n` is on worker `first + n`, modulo their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Number of connections.
    pub connections: u32,
    /// The worker of the first.
    pub first: u32,
    /// True if the server receives on them, and if it sends.
    pub ways: (bool, bool),
}

/// The first worker for `new`: its own wish while it is alone or covers all workers evenly; else
/// the one from which its connections join the fewest others, and the fewest of its direction among
/// several of these.
pub fn first_worker(workers: u16, new: Placed, held: impl Iterator<Item = Placed>) -> u32 {
    let workers = usize::from(workers.max(1));
    let split = |placed: &Placed| {
        (usize::clamped(placed.connections) / workers, usize::clamped(placed.connections) % workers)
    };
    let over = split(&new).1;
    let mut loads = vec![(0_u64, 0_u64); workers];
    for other in held {
        let (each, over) = split(&other);
        for at in 0..workers {
            let load = &mut loads[(at + usize::clamped(other.first)) % workers];
            let connections = u64::clamped(each + usize::from(at < over));
            load.0 += connections;
            load.1 += if other.ways == new.ways { connections } else { 0 };
        }
    }
    let joined = |first: usize| {
        (0..over)
            .map(|at| loads[(first + at) % workers])
            .fold((0, 0), |sum, load| (sum.0 + load.0, sum.1 + load.1))
    };
    // From the wish on: of several equals the first is taken.
    let from = usize::clamped(new.first);
    let best = (0..workers).map(|at| (at + from) % workers).min_by_key(|&first| joined(first)).unwrap_or(0);
    if joined(best) == joined(from % workers) { new.first } else { best as u32 }
}

#[cfg(test)]
mod tests {
    use super::{Placed, first_worker, is_light};
    use model::{Kind, Media, Phase, Ping, Probe};

    const PUSH: (bool, bool) = (true, false);
    const PULL: (bool, bool) = (false, true);

    /// Places sessions one after the other, each with the same wish; what each worker has of each
    /// direction.
    fn place(workers: u16, sessions: impl Iterator<Item = (u32, (bool, bool))>) -> Vec<(u32, u32)> {
        let mut held: Vec<Placed> = Vec::new();
        for (connections, ways) in sessions {
            let new = Placed { connections, first: 1, ways };
            held.push(Placed { first: first_worker(workers, new, held.iter().copied()), ..new });
        }
        let mut found = vec![(0, 0); usize::from(workers)];
        for placed in held {
            for nth in 0..placed.connections {
                let at = &mut found[((placed.first + nth) % u32::from(workers)) as usize];
                if placed.ways == PUSH { at.0 += 1 } else { at.1 += 1 }
            }
        }
        found
    }

    #[test]
    fn round_trips_and_slow_datagrams_are_light_and_nothing_else_is() {
        let ping = Phase { kind: Kind::Ping, ping: Some(Ping::default()), ..Phase::default() };
        assert!(is_light(&ping) && is_light(&Phase { connections: 1_000, ..ping }));
        let bulk = Phase { kind: Kind::Tcp, rate: Some(1_000), ..Phase::default() };
        assert!(!is_light(&Phase::default()) && !is_light(&bulk));
        assert!(!is_light(&Phase { kind: Kind::Connect, ..Phase::default() }));
        let delay = |datagrams: u64, size: u32, connections: u32| Phase {
            kind: Kind::Delay,
            rate: Some(datagrams * u64::from(size) * 8),
            probe: Some(Probe { size, ..Probe::default() }),
            connections,
            ..Phase::default()
        };
        assert!(is_light(&delay(50, 160, 1)) && is_light(&delay(10_000, 160, 1)));
        assert!(!is_light(&delay(10_100, 160, 1)) && !is_light(&delay(5_100, 160, 2)));
        // 8000 datagrams of 1400 bytes are 90 Mbit/s, of 9000 bytes 576.
        assert!(is_light(&delay(8_000, 1_400, 1)) && !is_light(&delay(8_000, 9_000, 1)));
        assert!(!is_light(&Phase { rate: None, ..delay(50, 160, 1) }), "as fast as it goes");
        let media = Media::new(5_000_000, 60, 10, 1, 1_400).unwrap();
        let stream = Phase { kind: Kind::Stream, rate: None, media: Some(media), ..delay(1, 1_400, 1) };
        assert!(is_light(&stream) && !is_light(&Phase { connections: 1_000, ..stream }));
    }

    #[test]
    fn the_only_session_is_placed_as_it_wishes() {
        for connections in 1..9 {
            let new = Placed { connections, first: 3, ways: PUSH };
            assert_eq!(first_worker(4, new, std::iter::empty()), 3);
        }
    }

    #[test]
    fn single_connections_of_both_directions_are_even_on_every_worker() {
        for workers in [1, 2, 3, 8, 64] {
            for sessions in [2, 20, 200] {
                let mixed = (0..sessions).map(|n| (1, if n % 2 == 0 { PUSH } else { PULL }));
                let in_turn = (0..sessions).map(|n| (1, if n < sessions / 2 { PUSH } else { PULL }));
                for found in [place(workers, mixed), place(workers, in_turn)] {
                    let totals: Vec<u32> = found.iter().map(|(push, pull)| push + pull).collect();
                    let (least, most) = (totals.iter().min().unwrap(), totals.iter().max().unwrap());
                    assert!(most - least <= 1, "{workers} workers: {found:?}");
                }
            }
        }
    }

    #[test]
    fn sessions_of_several_connections_fill_the_gaps() {
        let found = place(4, [(3, PUSH), (3, PUSH), (2, PULL)].into_iter());
        assert_eq!(found.iter().map(|(push, pull)| push + pull).collect::<Vec<_>>(), [2; 4]);
    }
}
