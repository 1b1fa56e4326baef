//! Which worker has a session's first connection, so that equal connections of several sessions have equal shares of the cores.

/// The connections of a session: connection `n` is on worker `first + n`, modulo their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) connections: u32,
    pub(crate) first: u32,
    /// Whether the server receives on them, and whether it sends.
    pub(crate) ways: (bool, bool),
}

/// The first worker for `new`: its own wish while it is alone or covers all workers evenly; else the one from which its connections
/// join the fewest others, and the fewest of its direction among several of these.
pub(crate) fn first_worker(workers: u16, new: Placed, held: impl Iterator<Item = Placed>) -> u32 {
    let workers = usize::from(workers.max(1));
    let split =
        |placed: &Placed| (placed.connections as usize / workers, placed.connections as usize % workers);
    let over = split(&new).1;
    let mut loads = vec![(0_u64, 0_u64); workers];
    for other in held {
        let (each, over) = split(&other);
        for at in 0..workers {
            let load = &mut loads[(at + other.first as usize) % workers];
            let connections = (each + usize::from(at < over)) as u64;
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
    let from = new.first as usize;
    let best = (0..workers).map(|at| (at + from) % workers).min_by_key(|&first| joined(first)).unwrap_or(0);
    if joined(best) == joined(from % workers) { new.first } else { best as u32 }
}

#[cfg(test)]
mod tests {
    use super::{Placed, first_worker};

    const PUSH: (bool, bool) = (true, false);
    const PULL: (bool, bool) = (false, true);

    /// Places sessions one after the other, each with the same wish; what each worker has of each direction.
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
