use super::*;
use crate::order::Order;
use crate::setup::{Bottleneck, Bursts, Corrupt, Duplicate, Jitter, Limit, Only, PathMtu, Reorder, Shape};

/// Arrivals, every so many ns.
fn arrivals(n: u32, every: u64) -> Vec<Offer> {
    let offer = |i| Offer {
        at: Mono(1_000_000 + u64::from(i) * every),
        token: i,
        length: 1000,
        bits: 7000,
        tos: 2,
        matched: true,
    };
    (0..n).map(offer).collect()
}

/// Runs a path in virtual time: the outcome of each packet, and what left when.
fn run(path: &Path, seed: u64, offers: &[Offer]) -> (Vec<PacketOutcome>, Vec<(Mono, u32, u8)>) {
    let mut impairment = Impairment::new(path, seed, 0, Mono(1_000_000));
    let (mut outcomes, mut out) = (Vec::new(), Vec::new());
    for offer in offers {
        while let Some(due) = impairment.due().filter(|due| *due < offer.at) {
            drain(&mut impairment, due, &mut out);
        }
        outcomes.push(impairment.offer(offer));
    }
    while let Some(due) = impairment.due() {
        drain(&mut impairment, due, &mut out);
    }
    assert!(impairment.is_empty() && impairment.unfinished().is_empty());
    (outcomes, out)
}

fn drain(impairment: &mut Impairment, now: Mono, out: &mut Vec<(Mono, u32, u8)>) {
    while let Some(left) = impairment.pop(now) {
        assert!(left.due <= now);
        out.push((now, left.token, left.copy));
    }
}

fn lost(outcomes: &[PacketOutcome], verdict: Verdict) -> Vec<usize> {
    outcomes.iter().enumerate().filter(|(_, f)| f.verdict == verdict).map(|(i, _)| i).collect()
}

fn everything() -> Path {
    Path {
        delay_ns: 5_000_000,
        jitter: Some(Jitter { amount_ns: 500_000, shape: Shape::Normal, reorder: true }),
        bottleneck: Some(Bottleneck { rate_bps: 80_000_000, limit: Limit::Packets(20), overhead: 38 }),
        loss: 0.01,
        bursts: Some(Bursts { enter: 0.002, leave: 0.2, bad: 0.9, good: 0.0 }),
        duplicate: Some(Duplicate { chance: 0.02, copies: 2, gap_ns: 1000 }),
        reorder: Some(Reorder { chance: 0.02, behind: Behind::Packets(3) }),
        corrupt: Some(Corrupt { chance: 0.03, bits: 3, wire: false }),
        outages: vec![Window { start_ns: 100_000_000, length_ns: 3_000_000, period_ns: 250_000_000 }],
        stalls: vec![Window { start_ns: 200_000_000, length_ns: 20_000_000, period_ns: 0 }],
        ecn_ce: 0.1,
        ..Path::default()
    }
}

#[test]
fn a_clean_path_delays_and_nothing_else() {
    let offers = arrivals(1000, 777);
    let path = Path { delay_ns: 20_000_000, ..Path::default() };
    let (outcomes, out) = run(&path, 1, &offers);
    let want: Vec<_> = offers.iter().map(|o| (o.at.plus(20_000_000), o.token, 0)).collect();
    assert_eq!(out, want);
    let plain = |f: &PacketOutcome| f.verdict == Verdict::Forwarded && f.flips().is_empty() && f.tos == 2;
    assert!(outcomes.iter().all(plain));
}

#[test]
fn every_packet_is_accounted_for_once() {
    let offers = arrivals(50_000, 100_000);
    let (outcomes, out) = run(&everything(), 9, &offers);
    let mut left = vec![0; offers.len()];
    for (at, token, copy) in &out {
        assert_eq!(left[*token as usize], *copy, "copies follow in order");
        left[*token as usize] += 1;
        assert!(*at >= offers[*token as usize].at, "nothing leaves before it came");
    }
    for (outcome, left) in outcomes.iter().zip(&left) {
        assert_eq!(*left, if outcome.verdict.goes_on() { 1 + outcome.copies } else { 0 });
    }
    for verdict in [Verdict::LostRandom, Verdict::LostBurst, Verdict::LostOutage, Verdict::DroppedQueue] {
        assert!(!lost(&outcomes, verdict).is_empty(), "{verdict:?} does not occur");
    }
    assert!(outcomes.iter().any(|f| f.reordered) && outcomes.iter().any(|f| f.stalled));
}

#[test]
fn a_seed_decides_whatever_the_timing() {
    let choices = |every, seed, path: &Path| -> Vec<(bool, u8, bool, Vec<u32>)> {
        let (outcomes, _) = run(path, seed, &arrivals(5000, every));
        let lost = |f: &PacketOutcome| matches!(f.verdict, Verdict::LostRandom | Verdict::LostBurst);
        outcomes.iter().map(|f| (lost(f), f.copies, f.reordered, f.flips().to_vec())).collect()
    };
    // Without what depends on time.
    let timeless =
        Path { bottleneck: None, outages: Vec::new(), stalls: Vec::new(), jitter: None, ..everything() };
    let one = choices(100_000, 9, &timeless);
    assert_eq!(one, choices(3_000, 9, &timeless));
    assert_ne!(one, choices(100_000, 10, &timeless));
    // Without loss the same packets are flipped, and the formerly lost ones as well.
    let lossless = choices(100_000, 9, &Path { loss: 0.0, bursts: None, ..timeless });
    for (with, without) in one.iter().zip(&lossless).filter(|(with, _)| !with.0) {
        assert_eq!((with.1, with.2, &with.3), (without.1, without.2, &without.3));
    }
}

#[test]
fn chances_stay_within_binomial_bounds() {
    let n = 200_000_u32;
    let path = Path {
        loss: 0.005,
        duplicate: Some(Duplicate { chance: 0.02, copies: 1, gap_ns: 0 }),
        corrupt: Some(Corrupt { chance: 0.01, bits: 1, wire: false }),
        ecn_ce: 0.05,
        ..Path::default()
    };
    let (outcomes, _) = run(&path, 3, &arrivals(n, 1000));
    let count = |what: &dyn Fn(&&PacketOutcome) -> bool| outcomes.iter().filter(what).count() as f64;
    let check = |got: f64, of: f64, p: f64| {
        // Five standard deviations.
        assert!((got - of * p).abs() < 5.0 * (of * p * (1.0 - p)).sqrt(), "{got} of {of} at {p}");
    };
    let n = f64::from(n);
    check(count(&|f| f.verdict == Verdict::LostRandom), n, 0.005);
    let on = count(&|f| f.verdict == Verdict::Forwarded);
    check(count(&|f| f.copies > 0), on, 0.02);
    check(count(&|f| f.verdict == Verdict::Forwarded && !f.flips().is_empty()), on, 0.01);
    check(count(&|f| f.tos == 3), on, 0.05);
}

/// The slow way: a list of what has left; a held packet goes in after the n-th later one that was
/// not held.
#[test]
fn held_packets_are_overtaken_by_exactly_so_many() {
    for n in [1_u16, 2, 7] {
        let path = Path {
            delay_ns: 1_000_000,
            reorder: Some(Reorder { chance: 0.05, behind: Behind::Packets(n) }),
            ..Path::default()
        };
        let (outcomes, out) = run(&path, u64::from(n), &arrivals(5000, 10_000));
        let (mut want, mut held): (Vec<u32>, Vec<(u32, u16)>) = (Vec::new(), Vec::new());
        for (token, outcome) in (0..).zip(&outcomes) {
            if outcome.reordered {
                held.push((token, n));
                continue;
            }
            want.push(token);
            for h in &mut held {
                h.1 -= 1;
            }
            want.extend(held.iter().filter(|h| h.1 == 0).map(|h| h.0));
            held.retain(|h| h.1 > 0);
        }
        want.extend(held.iter().map(|h| h.0));
        assert_eq!(out.iter().map(|o| o.1).collect::<Vec<_>>(), want, "{n}");
    }
}

#[test]
fn a_held_packet_that_nobody_overtakes_is_let_go() {
    let path = Path {
        delay_ns: 7_000,
        reorder: Some(Reorder { chance: 1.0, behind: Behind::Packets(3) }),
        ..Path::default()
    };
    let offers = arrivals(2, 500);
    let (_, out) = run(&path, 1, &offers);
    let want = |i: usize| (offers[i].at.plus(7_000 + HOLD_NS), i as u32, 0);
    assert_eq!(out, [want(0), want(1)]);
}

#[test]
fn late_ones_are_late_and_hold_up_nobody() {
    let path = Path {
        reorder: Some(Reorder { chance: 0.1, behind: Behind::Time(35_000) }),
        delay_ns: 1_000,
        ..Path::default()
    };
    let offers = arrivals(2000, 10_000);
    let (outcomes, out) = run(&path, 4, &offers);
    for (at, token, _) in out {
        let late = if outcomes[token as usize].reordered { 35_000 } else { 0 };
        assert_eq!(at, offers[token as usize].at.plus(1_000 + late));
    }
}

#[test]
fn jitter_reorders_only_when_it_may() {
    for shape in [Shape::Uniform, Shape::Normal, Shape::Exponential, Shape::Pareto(2.5)] {
        for reorder in [false, true] {
            let jitter = Some(Jitter { amount_ns: 50_000, shape, reorder });
            let path = Path { delay_ns: 200_000, jitter, ..Path::default() };
            let (_, out) = run(&path, 5, &arrivals(5000, 10_000));
            let mut order = Order::default();
            out.iter().for_each(|o| order.first(u64::from(o.1)));
            assert_eq!(order.summary().reordered > 0, reorder, "{shape:?}");
            assert_eq!(out.len(), 5000);
        }
    }
}

#[test]
fn outages_lose_what_comes_and_stalls_hold_it() {
    let window = Window { start_ns: 30_000, length_ns: 20_000, period_ns: 100_000 };
    let offers = arrivals(40, 10_000);
    let (outcomes, out) = run(&Path { outages: vec![window], ..Path::default() }, 1, &offers);
    assert_eq!(lost(&outcomes, Verdict::LostOutage), [3, 4, 13, 14, 23, 24, 33, 34]);
    assert_eq!(out.len(), 32);
    let (outcomes, out) = run(&Path { stalls: vec![window], ..Path::default() }, 1, &offers);
    for (at, token, _) in &out {
        let came = offers[*token as usize].at.0;
        // Tens of microseconds 3 and 4 of each hundred leave at 5.
        let stalled = (3..5).contains(&((came - 1_000_000) / 10_000 % 10));
        assert_eq!(outcomes[*token as usize].stalled, stalled);
        let want = if stalled { came / 100_000 * 100_000 + 50_000 } else { came };
        assert_eq!(at.0, want, "{token}");
    }
}

#[test]
fn timetables_wait_for_the_beginning() {
    let path = Path {
        outages: vec![Window { start_ns: 0, length_ns: 1_000_000_000, period_ns: 0 }],
        stalls: vec![Window { start_ns: 0, length_ns: 1_000_000_000, period_ns: 0 }],
        ..Path::default()
    };
    let mut impairment = Impairment::new(&path, 1, 0, Mono(u64::MAX));
    let offer = arrivals(1, 1)[0];
    let outcome = impairment.offer(&offer);
    assert_eq!((outcome.verdict, outcome.due), (Verdict::Forwarded, offer.at));
    impairment.begin = offer.at;
    assert_eq!(impairment.offer(&offer).verdict, Verdict::LostOutage);
}

#[test]
fn what_conditions_are_not_for_passes_at_once() {
    let path = Path {
        only: Some(Only { protocol: 17, port: None, ecn: None }),
        loss: 1.0,
        delay_ns: 1_000_000,
        // Over the arrivals 20 to 29.
        stalls: vec![Window { start_ns: 20_000, length_ns: 10_000, period_ns: 0 }],
        ..Path::default()
    };
    let mut offers = arrivals(100, 1000);
    offers.iter_mut().for_each(|o| o.matched = o.token % 2 == 0);
    let (outcomes, out) = run(&path, 1, &offers);
    assert_eq!(
        (lost(&outcomes, Verdict::LostRandom).len(), lost(&outcomes, Verdict::Passed).len()),
        (50, 50)
    );
    assert!(out.iter().all(|(at, token, _)| *at == offers[*token as usize].at));
}

#[test]
fn too_big_is_told_by_length() {
    let path = Path { path_mtu: Some(PathMtu { bytes: 999, silent: true }), ..Path::default() };
    let (outcomes, _) = run(&path, 1, &arrivals(3, 1));
    assert_eq!(lost(&outcomes, Verdict::TooBig).len(), 3);
    let path = Path { path_mtu: Some(PathMtu { bytes: 1000, silent: true }), ..Path::default() };
    assert_eq!(run(&path, 1, &arrivals(3, 1)).1.len(), 3);
}

#[test]
fn marks_are_made_where_they_are_understood() {
    let tos = |path: Path, tos: u8| run(&path, 1, &[Offer { tos, ..arrivals(1, 1)[0] }]).0[0].tos;
    let ce = Path { ecn_ce: 1.0, ..Path::default() };
    assert_eq!([0, 1, 2, 3].map(|ecn| tos(ce.clone(), 0xb8 | ecn)), [0xb8, 0xbb, 0xbb, 0xbb]);
    let bleach = Path { ecn_bleach: true, ..Path::default() };
    assert_eq!([0, 1, 2, 3].map(|ecn| tos(bleach.clone(), 0xb8 | ecn)), [0xb8; 4]);
    let dscp = Path { dscp: Some(8), ..Path::default() };
    assert_eq!([0, 1, 2, 3].map(|ecn| tos(dscp.clone(), 0xb8 | ecn)), [0x20, 0x21, 0x22, 0x23]);
    // 1000 bytes at 1 Mbit/s take 8 ms: of three at once the last waits for 16.
    let bottleneck = Some(Bottleneck { rate_bps: 1_000_000, limit: Limit::Packets(9), overhead: 0 });
    let path = Path { bottleneck, ecn_above_ns: Some(8_000_000), ..Path::default() };
    let (outcomes, _) = run(&path, 1, &arrivals(3, 0));
    assert_eq!(outcomes.iter().map(|f| f.tos).collect::<Vec<_>>(), [2, 2, 3]);
}

#[test]
fn flips_are_different_bits_of_the_payload() {
    let corrupt = Some(Corrupt { chance: 1.0, bits: 16, wire: false });
    let path = Path { corrupt, ..Path::default() };
    for bits in [0, 1, 8, 16, 17, 10_000] {
        let (outcomes, _) = run(&path, 2, &[Offer { bits, ..arrivals(1, 1)[0] }]);
        let mut flips = outcomes[0].flips().to_vec();
        flips.sort_unstable();
        flips.dedup();
        assert_eq!(flips.len() as u32, bits.min(16), "{bits}");
        assert!(flips.iter().all(|f| *f < bits));
    }
}
