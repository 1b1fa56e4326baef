use super::*;
use crate::inventory::tests::cases;
use crate::inventory::{Format, Limit};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn inventory(hosts: &str) -> Inventory {
    Inventory::parse(hosts, Format::Lines).unwrap()
}

fn named(n: usize) -> Inventory {
    inventory(&(0..n).map(|n| format!("h{n} rack=r{}\n", n / 10)).collect::<String>())
}

fn request(shape: Shape) -> Request {
    let test = Test { length_ns: 1_000_000_000, bytes: Some(1_000), ..Test::default() };
    Request { run: Uuid::nil(), shape, tests: vec![test], repeats: 1, seed: 5, unlike: None }
}

fn pairs(plan: &Plan) -> BTreeSet<(u32, u32)> {
    let pairs: BTreeSet<(u32, u32)> = plan.tasks.iter().map(|task| (task.from.0, task.to.0)).collect();
    assert_eq!(pairs.len() * plan.tests.len(), plan.tasks.len(), "a pair is there twice");
    assert!(pairs.iter().all(|(a, b)| a != b && pairs.contains(&(*b, *a))));
    assert!(plan.tasks.iter().enumerate().all(|(at, task)| task.id.index() == at));
    pairs
}

#[test]
fn a_mesh_has_every_pair_in_rounds_without_a_host_twice() {
    for n in [2, 3, 4, 7, 10, 11] {
        let plan = Plan::make(named(n), request(Shape::Mesh)).unwrap();
        assert_eq!(pairs(&plan).len(), n * (n - 1));
        for round in plan.tasks.chunks(n / 2) {
            let hosts: BTreeSet<HostId> = round.iter().flat_map(|task| [task.from, task.to]).collect();
            assert_eq!(hosts.len(), 2 * round.len(), "{n}: {round:?}");
        }
    }
}

#[test]
fn two_sets_meet_in_both_directions() {
    let shape = Shape::Bipartite("rack=r0".parse().unwrap(), "rack=r1".parse().unwrap());
    let plan = Plan::make(named(13), request(shape)).unwrap();
    assert_eq!(pairs(&plan).len(), 2 * 10 * 3);
    // Sets with hosts in common: no host with itself, no pair twice.
    let shape = Shape::Bipartite("all".parse().unwrap(), "rack=r0".parse().unwrap());
    assert_eq!(pairs(&Plan::make(named(12), request(shape)).unwrap()).len(), 10 * 9 + 2 * 10 * 2);
    let shape = Shape::Bipartite("all".parse().unwrap(), "h99".parse().unwrap());
    assert!(Plan::make(named(3), request(shape)).unwrap_err().contains("h99"));
}

#[test]
fn each_rack_sends_one_representative() {
    let plan = Plan::make(named(45), request(Shape::Representatives("rack".to_owned()))).unwrap();
    assert_eq!(pairs(&plan).len(), 5 * 4);
    let racks: BTreeSet<u32> = plan.tasks.iter().map(|task| task.from.0 / 10).collect();
    assert_eq!(racks.len(), 5);
    assert!(Plan::make(named(45), request(Shape::Representatives("rail".to_owned()))).is_err());
}

#[test]
fn only_pairs_of_changed_hosts() {
    let before = named(5);
    let mut now = named(6);
    now.hosts[2].address = "10.0.0.2".to_owned();
    let plan = Plan::make(now.clone(), Request { unlike: Some(before), ..request(Shape::Mesh) }).unwrap();
    // The new host and the changed one: 5 and 5 pairs, less the one that they share.
    assert_eq!(pairs(&plan).len(), 2 * 9);
    let same = Plan::make(now.clone(), Request { unlike: Some(now), ..request(Shape::Mesh) });
    assert!(same.unwrap_err().contains("no pair"));
}

#[test]
fn tests_and_repeats_multiply_and_are_bounded() {
    let test = Test::default();
    let plan =
        Plan::make(named(4), Request { tests: vec![test.clone(), test], repeats: 3, ..request(Shape::Mesh) })
            .unwrap();
    assert_eq!(plan.tasks.len(), 12 * 2 * 3);
    assert_eq!(plan.tasks.iter().map(|task| (task.repeat, task.test)).collect::<BTreeSet<_>>().len(), 6);
    let error = Plan::make(named(2_000), request(Shape::Mesh)).unwrap_err();
    assert!(error.contains("more than 2000000 tests"), "{error}");
}

#[test]
fn a_forecast_tells_bounds_bytes_and_what_excludes_what() {
    let mut hosts = inventory("a resource=m\nb resource=m\nc groups=wan\nd groups=wan\ne nat=1\nf nat=1\n");
    hosts.limit(&["wan:1".parse::<Limit>().unwrap()]).unwrap();
    let forecast = Plan::make(hosts, request(Shape::Mesh)).unwrap().forecast();
    assert_eq!((forecast.tests, forecast.unreachable, forecast.bytes), (28, 2, 28_000));
    // c and d with each other and with the four others, both ways, one at a time.
    let wan = &forecast.groups[0];
    assert_eq!((wan.group.hosts, wan.tests, wan.at_least_ns), (2, 18, 18_000_000_000));
    assert_eq!(forecast.at_least_ns, 18_000_000_000);
    let expected = forecast.expected_ns.unwrap();
    assert!((18_000_000_000..24_000_000_000).contains(&expected), "{expected}");
    assert_eq!(forecast.shared["m"], ["a", "b"]);
    assert_eq!(forecast.busiest.unwrap().tests, 10);
}

/// Operations are bounded by the number of tasks, not of pairs of hosts: the plan holds as many
/// tasks as asked for.
#[test]
fn ten_thousand_hosts_are_sampled() {
    let plan = Plan::make(named(10_000), request(Shape::Regular(2))).unwrap();
    assert_eq!(plan.tasks.len(), 20_000);
    let forecast = plan.forecast();
    assert_eq!(forecast.tests, 20_000);
    // Each host has 4 tests of a second.
    assert_eq!(forecast.at_least_ns, 4_000_000_000);
    assert!(forecast.expected_ns.unwrap() <= 5_000_000_000, "{:?}", forecast.expected_ns);
}

proptest! {
    #![proptest_config(cases(100, 2_000))]

    #[test]
    fn a_regular_plan_gives_each_host_its_partners_and_connects_all(n in 2usize..60, degree in 1u32..12, seed in any::<u64>()) {
        let plan = Plan::make(named(n), Request { seed, ..request(Shape::Regular(degree)) }).unwrap();
        let pairs = pairs(&plan);
        let mut partners = BTreeMap::<u32, BTreeSet<u32>>::new();
        for (a, b) in &pairs {
            partners.entry(*a).or_default().insert(*b);
        }
        let degree = degree as usize;
        let want = if degree + 1 >= n { n - 1 } else { degree + usize::from(degree % 2 == 1 && n % 2 == 1) };
        prop_assert_eq!(partners.len(), n);
        prop_assert!(partners.values().all(|of| of.len() == want), "{} {} {:?}", n, degree, partners);
        if degree > 1 {
            let (mut seen, mut due) = (BTreeSet::new(), vec![0]);
            while let Some(host) = due.pop() {
                if seen.insert(host) {
                    due.extend(&partners[&host]);
                }
            }
            prop_assert_eq!(seen.len(), n);
        }
    }

    #[test]
    fn the_same_seed_makes_the_same_plan(seed in any::<u64>()) {
        let hosts = named(30);
        let make = || Plan::make(hosts.clone(), Request { seed, ..request(Shape::Regular(4)) }).unwrap();
        prop_assert_eq!(make(), make());
    }
}
