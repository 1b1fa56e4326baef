//! Simulated matrices. What is random comes from seeds 0, 1, 2, …: none is left out.

use super::*;
use crate::inventory::Format;
use crate::plan::Random;
use std::collections::BTreeSet;

/// Matrices of each kind here; `bench/deep` sets NETCALIPER_MATRICES to look at more.
fn matrices() -> u64 {
    std::env::var("NETCALIPER_MATRICES").ok().and_then(|n| n.parse().ok()).unwrap_or(160)
}

fn uniform(random: &mut Random) -> f64 {
    (real(random.next() >> 11) + 0.5) / real(1u64 << 53)
}

/// By Box and Muller (1958).
fn normal(random: &mut Random) -> f64 {
    (-2.0 * uniform(random).ln()).sqrt() * (std::f64::consts::TAU * uniform(random)).cos()
}

/// A normal variable over the root of a mean of squares: heavy tails.
fn student(random: &mut Random, freedom: u32) -> f64 {
    let squares: f64 = (0..freedom).map(|_| normal(random).powi(2)).sum();
    normal(random) / (squares / f64::from(freedom)).sqrt()
}

fn poisson(random: &mut Random, mean: f64) -> f64 {
    let (mut n, mut product, least) = (0.0, uniform(random), (-mean).exp());
    while product > least {
        (n, product) = (n + 1.0, product * uniform(random));
    }
    n
}

struct Fleet {
    hosts: u32,
    repeats: usize,
    inventory: Inventory,
}

type Cells = Vec<((HostId, HostId), Vec<f64>)>;

impl Fleet {
    fn new(hosts: u32, repeats: usize) -> Fleet {
        let list: String = (0..hosts).map(|n| format!("h{n} rack={}\n", n % 3)).collect();
        Fleet { hosts, repeats, inventory: Inventory::parse(&list, Format::Lines).unwrap() }
    }

    fn pairs(&self) -> impl Iterator<Item = (u32, u32)> {
        let n = self.hosts;
        (0..n).flat_map(move |a| (0..n).map(move |b| (a, b))).filter(|(a, b)| a != b)
    }

    /// Delays: hosts differ by some 5 % with heavy tails, paths by 1 %, readings by 2 % with very
    /// heavy tails, and 1 of 100 is half as large again, or more, because of other traffic.
    fn delays(&self, random: &mut Random, slowed: &[(u32, u32)]) -> Cells {
        let base = 1e6 * (0.15 * normal(random)).exp();
        let mut offsets = || (0..self.hosts).map(|_| 0.04 * student(random, 5)).collect::<Vec<f64>>();
        let (out, into) = (offsets(), offsets());
        let mut cell = |(a, b): (u32, u32)| {
            let path = 0.012 * normal(random) + out[a as usize] + into[b as usize];
            let slow = if slowed.contains(&(a, b)) { 1.2 } else { 1.0 };
            let mut reading = || {
                let burst = if uniform(random) < 0.01 { -0.5 * uniform(random).ln() } else { 0.0 };
                base * slow * (path + 0.015 * student(random, 3) + burst).exp()
            };
            ((HostId(a), HostId(b)), (0..self.repeats).map(|_| reading()).collect())
        };
        self.pairs().map(&mut cell).collect()
    }

    /// Percent lost of 1,000 datagrams: hardly any, but for a burst in 1 of 100 readings, and 1 %
    /// of all that `lossy` sends.
    fn losses(&self, random: &mut Random, lossy: Option<u32>) -> Cells {
        let mut cell = |(a, b): (u32, u32)| {
            let rare = 0.01 * normal(random).exp();
            let mut reading = || {
                let burst = if uniform(random) < 0.01 { 8.0 } else { 0.0 };
                let lost = if lossy == Some(a) { 10.0 } else { 0.0 };
                poisson(random, rare + burst + lost) / 10.0
            };
            ((HostId(a), HostId(b)), (0..self.repeats).map(|_| reading()).collect())
        };
        self.pairs().map(&mut cell).collect()
    }

    fn judged(&self, delays: Cells, losses: Cells) -> Vec<Verdict> {
        [self.judged_by("delay.p50", delays, 2), self.judged_by("loss", losses, 2)].concat()
    }

    /// By one of so many figures.
    fn judged_by(&self, key: &str, cells: Cells, figures: usize) -> Vec<Verdict> {
        let figure = figure(key).unwrap();
        judge(&self.inventory, figure, key, &Readings::of(figure, cells), figures)
    }
}

fn pair(a: u32, b: u32) -> Subject {
    Subject::Pair { from: format!("h{a}"), to: format!("h{b}") }
}

/// Most events of `n` that a true share of `share` explains: 3 standard deviations above its mean.
fn most(n: u64, share: f64) -> f64 {
    real(n) * share + 3.0 * (real(n) * share * (1.0 - share)).sqrt()
}

#[test]
fn healthy_matrices_raise_no_alarm() {
    for (hosts, repeats) in [(6, 3), (10, 1), (10, 3), (10, 5), (16, 3)] {
        let fleet = Fleet::new(hosts, repeats);
        let n = if (hosts, repeats) == (10, 3) { matrices() } else { matrices() / 2 };
        let alarms = (0..n).filter(|seed| {
            let random = &mut Random(*seed);
            let (delays, losses) = (fleet.delays(random, &[]), fleet.losses(random, None));
            !fleet.judged(delays, losses).is_empty()
        });
        let alarms = alarms.count();
        // Not the bound with its error added: the count itself stays below 5 %.
        assert!(real(alarms) <= 0.05 * real(n), "{hosts} hosts, {repeats} repeats: {alarms} of {n}");
    }
}

#[test]
fn three_slow_pairs_of_ninety_are_named() {
    let fleet = Fleet::new(10, 3);
    let (n, mut named, mut others) = (matrices(), 0, 0);
    for seed in 0..n {
        let random = &mut Random(seed);
        let mut slowed = BTreeSet::new();
        while slowed.len() < 3 {
            let (a, b) = (random.below(10), random.below(10));
            slowed.extend((a != b).then(|| (u32::clamped(a), u32::clamped(b))));
        }
        let slowed: Vec<(u32, u32)> = slowed.into_iter().collect();
        let (delays, losses) = (fleet.delays(random, &slowed), fleet.losses(random, None));
        let found: Vec<Subject> =
            fleet.judged(delays, losses).into_iter().map(|verdict| verdict.subject).collect();
        let want: Vec<Subject> = slowed.iter().map(|(a, b)| pair(*a, *b)).collect();
        named += u64::from(want.iter().all(|pair| found.contains(pair)));
        others += u64::from(found.iter().any(|subject| !want.contains(subject)));
    }
    assert!(real(named) >= 0.95 * real(n), "{named} of {n}");
    assert!(real(others) <= most(n, 0.05), "{others} of {n} name another");
}

#[test]
fn a_host_that_loses_one_percent_is_named_with_its_direction() {
    let fleet = Fleet::new(10, 3);
    let (n, mut named, mut others) = (matrices(), 0, 0);
    for seed in 0..n {
        let random = &mut Random(seed);
        let lossy = u32::clamped(random.below(10));
        let (delays, losses) = (fleet.delays(random, &[]), fleet.losses(random, Some(lossy)));
        let found = fleet.judged(delays, losses);
        let want = Subject::Host { host: format!("h{lossy}"), side: Side::Out };
        named += u64::from(
            found.iter().any(|verdict| verdict.subject == want && (verdict.effect - 1.0).abs() < 0.4),
        );
        others += u64::from(found.iter().any(|verdict| verdict.subject != want));
    }
    assert!(real(named) >= 0.95 * real(n), "{named} of {n}");
    assert!(real(others) <= most(n, 0.05), "{others} of {n} name another");
}

#[test]
fn a_difference_from_before_is_found_although_hosts_differ() {
    let fleet = Fleet::new(10, 3);
    let figure = figure("delay.p50").unwrap();
    let (n, mut named, mut alarms) = (matrices() / 2, 0, 0);
    for seed in 0..n {
        let before = fleet.delays(&mut Random(seed), &[]);
        // The same hosts and paths, other noise: 2 % with heavy tails.
        let random = &mut Random(seed + 1_000_000);
        let slower = |slow: f64, random: &mut Random| -> Cells {
            let again = |(pair, values): &((HostId, HostId), Vec<f64>)| {
                let middle = median(values.clone()).unwrap();
                let slow = if pair.0 == HostId(4) { slow } else { 1.0 };
                (*pair, (0..3).map(|_| middle * slow * (0.02 * student(random, 3)).exp()).collect())
            };
            before.iter().map(again).collect()
        };
        let old = Readings::of(figure, before.clone());
        let differs = |cells: Cells| {
            judge(&fleet.inventory, figure, "delay.p50", &Readings::of(figure, cells).against(&old), 1)
        };
        let found = differs(slower(1.3, random));
        let want = Subject::Host { host: "h4".to_owned(), side: Side::Out };
        named += u64::from(found.iter().any(|verdict| verdict.subject == want));
        alarms += u64::from(!differs(slower(1.0, random)).is_empty());
    }
    assert!(real(named) >= 0.95 * real(n), "{named} of {n}");
    assert!(real(alarms) <= 0.05 * real(n), "{alarms} alarms of {n}");
}

#[test]
fn a_slow_rack_is_named() {
    let fleet = Fleet::new(24, 3);
    let mut cells = fleet.delays(&mut Random(1), &[]);
    for ((from, to), values) in &mut cells {
        let slow = [from, to].iter().filter(|host| host.0 % 3 == 1).count();
        values.iter_mut().for_each(|value| *value *= 1.3f64.powi(i32::clamped(slow)));
    }
    let found = fleet.judged_by("delay.p50", cells, 1);
    let want = Subject::Label { label: "rack".to_owned(), value: "1".to_owned() };
    assert!(found.iter().any(|verdict| verdict.subject == want), "{found:?}");
}

#[test]
fn less_goodput_is_worse_and_the_words_say_so() {
    let fleet = Fleet::new(8, 3);
    let mut cells: Cells =
        fleet.pairs().map(|(a, b)| ((HostId(a), HostId(b)), vec![1e9, 1.001e9, 0.999e9])).collect();
    cells[3].1.iter_mut().for_each(|value| *value *= 0.5);
    let found = fleet.judged_by("goodput", cells, 1);
    assert_eq!(found.len(), 1);
    assert!((found[0].effect - 0.5).abs() < 0.01);
    assert_eq!(found[0].words(), "h0 sends 50 % less to h4 than the others send each other (goodput)");
}

#[test]
fn odd_input_is_no_reason_to_panic() {
    let fleet = Fleet::new(6, 1);
    for key in ["goodput", "loss"] {
        let figure = figure(key).unwrap();
        for values in [vec![], vec![f64::NAN], vec![0.0], vec![f64::INFINITY, -1.0], vec![f64::MAX; 200]] {
            let cells: Cells = fleet.pairs().map(|(a, b)| ((HostId(a), HostId(b)), values.clone())).collect();
            let readings = Readings::of(figure, cells);
            assert!(judge(&fleet.inventory, figure, key, &readings, 1).is_empty());
            assert!(judge(&Inventory::default(), figure, key, &readings, 1).is_empty());
        }
    }
}
