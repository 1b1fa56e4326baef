use super::*;
use std::collections::BTreeSet;

const SIZE: u32 = 972;
/// IPv4 and UDP.
const HEADERS: u32 = 28;

fn places(trains: u32, settings: u32, packets: u32, gap: u64) -> impl Iterator<Item = Place> {
    (0..trains).flat_map(move |train| {
        (0..packets).map(move |number| Place {
            train,
            setting: train % settings,
            round: train / settings,
            number,
            intended_ns: u64::from(train) * 1_000_000_000 + u64::from(number) * gap,
        })
    })
}

fn departures(places: impl Iterator<Item = Place>) -> Vec<Departure> {
    places.enumerate().map(|(i, p)| Departure { place: i as u32, sent_ns: p.intended_ns as i64 }).collect()
}

fn received(sequence: u64, received_ns: i64, stamp: StampKind) -> ReceivedPacket {
    ReceivedPacket { sequence, received_ns, offset_ns: 0, stamp, damaged: false }
}

#[test]
fn a_train_by_hand() {
    // Five packets every 10 µs from 0. The path takes 1 ms and spaces them 100 µs: 1000 bytes in
    // 100 µs are 80 Mbit/s.
    let sent = departures(places(1, 1, 5, 10_000));
    // The card stamped one of the received packets, and the kernel the others.
    let at = |sequence: u64, us: i64| {
        let stamp = if us == 1_200 { StampKind::Hardware } else { StampKind::KernelRx };
        received(sequence, us * 1_000, stamp)
    };
    // 1 is lost, 3 and 2 change places, 4 comes twice; a stray is no packet of ours.
    let got = [at(0, 1_000), at(3, 1_200), at(2, 1_300), at(4, 1_400), at(4, 1_401), at(9, 1_402)];
    let (packets, strays) = join(places(1, 1, 5, 10_000), 0, &sent, &got);
    assert_eq!(strays, 1);
    let report = TrainReport::of(&packets, &[10_000], SIZE, HEADERS, false);
    let row = report.trains[0];
    assert_eq!((row.sent, row.received, row.lost, row.overtaken, row.repeated), (5, 4, 1, 1, 1));
    assert_eq!((row.send_ns, row.receive_ns), (40_000, 400_000));
    // Four packets in 40 µs were sent, three in 400 µs came, after the first.
    assert_eq!(row.send_bps, Some(777_600_000.0));
    let receive = row.receive_bps.unwrap();
    assert!((receive - 3.0 * 972.0 * 8.0 / 400e-6).abs() < 1e-3, "{receive}");
    assert_eq!(row.dispersion_ns, Some(400_000.0 / 3.0));
    // Delays: 1000, -, 1280, 1170, 1360 µs.
    assert_eq!((row.delay_min_ns, row.delay_max_ns), (Some(1_000_000), Some(1_360_000)));
    assert_eq!(row.delay_mean_ns, Some(1_202_500.0));
    let befell: Vec<_> = report.troubles.iter().map(|t| (t.kind, t.number, t.by)).collect();
    let expected = [(TroubleKind::Lost, 1, 1), (TroubleKind::Overtaken, 2, 1), (TroubleKind::Repeated, 4, 1)];
    assert_eq!(befell, expected);
    // The only pair in order is 3, 4: 1000 bytes in 200 µs.
    let pairs = report.settings[0].pair_bps.unwrap();
    assert_eq!((pairs.n, pairs.median), (1, 40_000_000.0));
    assert_eq!(report.settings[0].stretched, Some(true));
    assert_eq!((report.kernel_stamped, report.card_stamped), (3, 1));
    assert_eq!(report.settings[0].by_number.len(), 4);
}

#[test]
fn quartiles_as_everybody_computes_them() {
    // numpy.percentile([1, 2, 4, 8, 16, 32], [25, 50, 75]) = 2.5, 6, 14.
    let q = Quartiles::of(vec![32.0, 1.0, 8.0, 2.0, 16.0, 4.0]).unwrap();
    assert_eq!((q.n, q.q1, q.median, q.q3), (6, 2.5, 6.0, 14.0));
    assert_eq!(Quartiles::of(vec![]), None);
    assert_eq!(Quartiles::of(vec![7.0]).map(|q| (q.q1, q.q3)), Some((7.0, 7.0)));
}

#[test]
fn nothing_sent_and_nothing_received_have_no_rates() {
    let (packets, _) = join(places(2, 1, 3, 0), 0, &departures(places(2, 1, 3, 0))[..3], &[]);
    let report = TrainReport::of(&packets, &[0], SIZE, HEADERS, false);
    assert_eq!((report.trains[0].sent, report.trains[0].lost, report.trains[0].unsent), (3, 3, 0));
    assert_eq!((report.trains[1].sent, report.trains[1].lost, report.trains[1].unsent), (0, 0, 3));
    assert_eq!((report.trains[0].send_bps, report.trains[0].receive_bps), (None, None));
    assert_eq!(report.settings[0].train_bps, None);
    assert_eq!(TrainReport::of(&[], &[], SIZE, HEADERS, false), TrainReport::default());
}

/// Trains of three packets, 100 µs apart at the receiver but for those of `slow`, which come 300 µs
/// apart.
fn with_slow(settings: u32, rounds: u32, slow: &[(u32, u32)]) -> TrainReport {
    let packets = || places(settings * rounds, settings, 3, 0);
    let sent = departures(packets());
    let got: Vec<ReceivedPacket> = packets()
        .enumerate()
        .map(|(i, p)| {
            // Some jitter, so that the deviation is not 0.
            let gap =
                if slow.contains(&(p.setting, p.round)) { 300_000 } else { 100_000 + u64::from(p.round % 3) };
            let at = p.intended_ns + u64::from(p.number) * gap;
            received(i as u64, at as i64, StampKind::KernelRx)
        })
        .collect();
    let (packets, _) = join(packets(), 0, &sent, &got);
    TrainReport::of(&packets, &vec![0; settings as usize], SIZE, HEADERS, false)
}

#[test]
fn troughs_of_all_are_told_from_those_of_one() {
    let report = with_slow(3, 10, &[(0, 4), (1, 4), (2, 4), (1, 7)]);
    let told: Vec<_> = report.troughs.iter().map(|t| (t.round, t.settings.clone(), t.common)).collect();
    assert_eq!(told, [(4, vec![0, 1, 2], true), (7, vec![1], false)]);
    // One setting cannot show which setting is slow, and few repetitions cannot show what is usual.
    assert!(!with_slow(1, 10, &[(0, 4)]).troughs[0].common);
    assert_eq!(with_slow(2, 4, &[(0, 3), (1, 3)]).troughs, []);
    assert_eq!(with_slow(2, 10, &[]).troughs, []);
}

/// A generator of its own, so that nothing here depends on what is tested.
struct Lcg(u64);

impl Lcg {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

#[test]
fn any_order_is_judged_as_by_counting_one_by_one() {
    let mut random = Lcg(1);
    for _ in 0..200 {
        let n = 2 + random.below(20) as u32;
        let all: Vec<Place> = places(2, 2, n, 1_000).collect();
        // Some are not sent, some are lost, some come twice, in any order.
        let sent: Vec<Departure> =
            departures(all.iter().copied()).into_iter().filter(|_| random.below(10) > 0).collect();
        let mut order: Vec<u64> = Vec::new();
        for sequence in 0..sent.len() as u64 {
            for _ in 0..[0, 1, 1, 1, 2][random.below(5) as usize] {
                order.insert(random.below(order.len() as u64 + 1) as usize, sequence);
            }
        }
        let got: Vec<ReceivedPacket> = (5_000..)
            .zip(&order)
            .map(|(at, &sequence)| received(sequence, at * 100, StampKind::User))
            .collect();
        let (packets, strays) = join(all.iter().copied(), 0, &sent, &got);
        assert_eq!(strays, 0);
        let report = TrainReport::of(&packets, &[1_000, 1_000], SIZE, HEADERS, false);
        for (train, row) in report.trains.iter().enumerate() {
            let mine = |s: &&u64| all[sent[**s as usize].place as usize].train == train as u32;
            let arrived: Vec<u64> = order.iter().filter(mine).copied().collect();
            let unique: BTreeSet<u64> = arrived.iter().copied().collect();
            let left = (0..sent.len() as u64).filter(|s| mine(&s)).count();
            // Reordered, the slow way: the first coming of a number after any higher one.
            let overtaken = unique
                .iter()
                .filter(|&&s| {
                    let first = arrived.iter().position(|&a| a == s).unwrap();
                    arrived[..first].iter().any(|&a| a > s)
                })
                .count();
            let told = [row.sent, row.received, row.lost, row.overtaken, row.repeated].map(|n| n as usize);
            let received = unique.len();
            assert_eq!(told, [left, received, left - received, overtaken, arrived.len() - received]);
            let firsts: Vec<usize> =
                unique.iter().map(|s| order.iter().position(|o| o == s).unwrap()).collect();
            let span = firsts.iter().max().zip(firsts.iter().min()).map_or(0, |(a, b)| (a - b) * 100);
            assert_eq!(row.receive_ns, span as u64);
        }
    }
}

#[test]
fn what_becomes_known_of_the_clocks_does_not_change_a_train() {
    let packets = || places(2, 1, 2, 0);
    // The receiver's clock is 5 s ahead; in the midst of the first train that is corrected by 7 µs.
    let at = |sequence, at: i64, offset: i64| ReceivedPacket {
        offset_ns: 5_000_000_000 + offset,
        ..received(sequence, 5_000_000_000 + at, StampKind::KernelRx)
    };
    let got =
        [at(0, 1_000, 0), at(1, 3_000, 7_000), at(2, 1_000_001_000, 7_000), at(3, 1_000_003_000, 7_000)];
    let (packets, _) = join(packets(), 0, &departures(packets()), &got);
    let delays: Vec<_> = packets.iter().map(|p| p.delay_ns().unwrap()).collect();
    assert_eq!(delays, [1_000, 3_000, -6_000, -4_000]);
    let report = TrainReport::of(&packets, &[0], SIZE, HEADERS, false);
    assert_eq!((report.trains[0].receive_ns, report.trains[1].receive_ns), (2_000, 2_000));
    assert_eq!(report.settings[0].before_sent, 2);
}

#[test]
fn what_is_returned_is_counted_both_ways() {
    // Four packets of 1000 bytes every 10 µs. The first two are back 500 µs after they left; the
    // remote end had them for 20 and 30 µs. The third got there only, the fourth not even that.
    let sent = departures(places(1, 1, 4, 10_000));
    let arrival = |sequence, us: i64| received(sequence, us * 1_000, StampKind::KernelRx);
    let (mut packets, _) =
        join(places(1, 1, 4, 10_000), 0, &sent, &[arrival(0, 250), arrival(1, 260), arrival(2, 270)]);
    let at = sent[0].sent_ns;
    let echo = |sequence: u64, held: i64| Echo {
        sequence,
        back_ns: sent[sequence as usize].sent_ns + 500_000,
        held_ns: held * 1_000,
    };
    // Strays and repeats change nothing.
    let later = Echo { back_ns: at + 900_000, ..echo(0, 1) };
    join_echoes(&mut packets, 0, &sent, &[echo(0, 20), echo(1, 30), later, Echo { sequence: 77, ..later }]);
    let report = TrainReport::of(&packets, &[10_000], 1_000, HEADERS, true);
    let echoes = report.settings[0].echo.as_deref().unwrap();
    assert_eq!((echoes.returned, echoes.lost_there, echoes.lost_back), (2, 1, 1));
    let rtt = echoes.round_trip_ns.as_ref().unwrap();
    assert_eq!((rtt.count, rtt.min, rtt.max), (2, 500_000, 500_000));
    assert_eq!(echoes.held_ns.as_ref().map(|d| (d.min, d.max)), Some((20_000, 30_000)));
    assert_eq!(echoes.path_ns.as_ref().map(|d| (d.min, d.max)), Some((470_000, 480_000)));
    // From the first send to the last return pass 510 µs: 2 packets, each both ways, 255 µs for
    // each.
    assert_eq!(echoes.frame_ns.map(|s| s.mean), Some(255_000.0));
    let two_way = echoes.two_way_bps.unwrap().mean;
    assert!((two_way - 2.0 * 2.0 * 8_000.0 / 510e-6).abs() < 1.0, "{two_way}");
    // They come back 10 µs apart.
    assert!((echoes.back_bps.unwrap().mean - 800e6).abs() < 1.0);
}
