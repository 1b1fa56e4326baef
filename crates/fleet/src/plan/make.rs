//! Plans from an inventory: which pairs, in which order.

use super::{MAX_TASKS, Plan, Task, TaskId, Test};
use crate::inventory::{Host, HostId, Inventory, Selector};
use std::collections::{BTreeSet, HashMap};
use uuid::Uuid;

/// Which pairs are measured, each in both directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// All.
    Mesh,
    /// Each host of one set with each of the other.
    Bipartite(Selector, Selector),
    /// All pairs of one host, chosen at random, for each value of the label, such as `rack`.
    Representatives(String),
    /// Each host with this many others, which are chosen at random.
    Regular(u32),
}

/// Parts of a plan.
#[derive(Clone, Debug)]
pub struct Request {
    /// Identifier of the run.
    pub run: Uuid,
    /// The pairs.
    pub shape: Shape,
    /// Tests of each pair; at least one.
    pub tests: Vec<Test>,
    /// Number of measurements of each test of each pair, from 1.
    pub repeats: u16,
    /// Seed of random choices: the same seed chooses the same.
    pub seed: u64,
    /// Only pairs are measured of which one host at least is not in this inventory, or differs from
    /// it there.
    pub unlike: Option<Inventory>,
}

impl Plan {
    /// The plan of all that `request` asks for. Tasks stand in an order in which neighbours have no
    /// host in common, where the shape allows it.
    ///
    /// # Errors
    /// When no pair is left, or more than [`MAX_TASKS`] tasks.
    pub fn make(inventory: Inventory, request: Request) -> Result<Plan, String> {
        let Request { run, shape, tests, repeats, seed, unlike } = request;
        let all: Vec<HostId> = (0..).map(HostId).take(inventory.hosts.len()).collect();
        let mut random = Random(seed);
        let most = MAX_TASKS / tests.len().max(1) / usize::from(repeats.max(1));
        let too_many = || {
            format!("the plan would have more than {MAX_TASKS} tests: choose fewer pairs, such as --random 8")
        };
        let pairs = match &shape {
            Shape::Mesh => mesh(&all, most),
            Shape::Bipartite(a, b) => bipartite(&inventory.select(a)?, &inventory.select(b)?, most),
            Shape::Representatives(label) => {
                let by_value = inventory.by_label(label);
                if by_value.len() < 2 {
                    return Err(format!("fewer than two values of the label {label:?} are in the inventory"));
                }
                let chosen = by_value.into_values().map(|hosts| hosts[random.below(hosts.len())]);
                mesh(&chosen.collect::<Vec<_>>(), most)
            }
            Shape::Regular(degree) => regular(all, *degree, &mut random, most),
        };
        let mut pairs = pairs.ok_or_else(too_many)?;
        if let Some(before) = unlike {
            let known: HashMap<&str, &Host> =
                before.hosts.iter().map(|host| (host.name.as_str(), host)).collect();
            let changed = |id: HostId| {
                inventory.host(id).is_some_and(|host| known.get(host.name.as_str()) != Some(&host))
            };
            pairs.retain(|(a, b)| changed(*a) || changed(*b));
        }
        if pairs.is_empty() || tests.is_empty() {
            return Err("no pair of hosts is left to measure".to_owned());
        }
        let count = u16::try_from(tests.len()).map_err(|_| too_many())?;
        let mut tasks = Vec::with_capacity(pairs.len() * tests.len());
        for repeat in 0..repeats.max(1) {
            for test in 0..count {
                let next = (tasks.len() as u32..).map(TaskId);
                tasks.extend(next.zip(&pairs).map(|(id, (from, to))| Task {
                    id,
                    from: *from,
                    to: *to,
                    test,
                    repeat,
                }));
            }
        }
        Ok(Plan { run, round: None, inventory, tests, tasks })
    }
}

type Pairs = Vec<(HostId, HostId)>;

/// All pairs by the circle method: one host stays, the others move on by one place a round; hosts
/// that face each other are a pair, so that each round has every host once.
fn mesh(hosts: &[HostId], most: usize) -> Option<Pairs> {
    let n = hosts.len();
    if n.saturating_mul(n.saturating_sub(1)) > most {
        return None;
    }
    let even = n + n % 2;
    let mut pairs = Vec::with_capacity(n.saturating_mul(n.saturating_sub(1)));
    for round in 0..even.saturating_sub(1) {
        let place = |at: usize| if at == 0 { 0 } else { (at - 1 + round) % (even - 1) + 1 };
        let faced = (0..even / 2).filter_map(|at| {
            // The place that an odd number leaves free means a round off.
            Some((*hosts.get(place(at))?, *hosts.get(place(even - 1 - at))?))
        });
        both_ways(faced, &mut pairs);
    }
    Some(pairs)
}

fn bipartite(a: &[HostId], b: &[HostId], most: usize) -> Option<Pairs> {
    if a.len().saturating_mul(b.len()).saturating_mul(2) > most.saturating_mul(2) {
        return None;
    }
    let (longer, shorter) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let (mut pairs, mut seen) = (Vec::new(), BTreeSet::new());
    for shift in 0..longer.len() {
        let faced = shorter.iter().enumerate().map(|(at, host)| (longer[(at + shift) % longer.len()], *host));
        let new = faced.filter(|(a, b)| a != b && seen.insert((*a.min(b), *a.max(b)))).collect::<Vec<_>>();
        both_ways(new.into_iter(), &mut pairs);
    }
    (pairs.len() <= most).then_some(pairs)
}

fn both_ways(pairs: impl Iterator<Item = (HostId, HostId)> + Clone, into: &mut Pairs) {
    into.extend(pairs.clone());
    into.extend(pairs.map(|(a, b)| (b, a)));
}

/// Each host with `degree` others: hosts in a random order on a ring, each with those at the same
/// random distances. One of the distances is 1, so that every host is connected with every other.
/// An odd degree needs an even number of hosts; otherwise there is one more partner.
fn regular(mut hosts: Vec<HostId>, degree: u32, random: &mut Random, most: usize) -> Option<Pairs> {
    let n = hosts.len();
    let degree = degree.max(1) as usize;
    if degree + 1 >= n {
        return mesh(&hosts, most);
    }
    if n.saturating_mul(degree + 1) > most {
        return None;
    }
    random.shuffle(&mut hosts);
    let half = degree % 2 == 1 && n.is_multiple_of(2);
    let mut distances: Vec<usize> = (2..n.div_ceil(2)).collect();
    random.shuffle(&mut distances);
    distances.truncate(if half { degree / 2 } else { degree.div_ceil(2) }.saturating_sub(1));
    if degree > 1 || !half {
        distances.push(1);
    }
    let mut pairs = Vec::with_capacity(n * (degree + 1));
    for distance in distances {
        // Pairs at even places of the ring first: neighbours share no host where the distance is
        // odd.
        let order = (0..n).step_by(2).chain((1..n).step_by(2));
        both_ways(order.map(|at| (hosts[at], hosts[(at + distance) % n])), &mut pairs);
    }
    if half {
        both_ways((0..n / 2).map(|at| (hosts[at], hosts[at + n / 2])), &mut pairs);
    }
    Some(pairs)
}

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            all.swap(last, self.below(last + 1));
        }
    }
}
