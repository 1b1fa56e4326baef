//! Every caveat has a row here: a run that raises it and one, as like it as can be, that must not.
//! A check without a row fails.

use super::tests::{cpu, failed, sound};
use super::*;
use crate::*;
use metrics::{ClockFound, Dist, DistSummary, Ecn, EcnPairs, Packets, PairSide, SECOND, Spread, TcpTotals};
use std::collections::BTreeSet;

/// What is done to a run in which nothing is wrong.
type Spoil = fn(&mut Point, &mut Begin);

struct Row {
    code: &'static str,
    /// Makes the run one of another kind first.
    base: fn(&mut Point),
    raises: Spoil,
    /// Alters the run, too, and must not raise the caveat.
    silent: Spoil,
}

/// A caveat of a run of TCP, or of the kind that its two closures make.
const fn row(code: &'static str, raises: Spoil, silent: Spoil) -> Row {
    on(|_| {}, code, raises, silent)
}

/// A caveat of a run that `base` makes.
const fn on(base: fn(&mut Point), code: &'static str, raises: Spoil, silent: Spoil) -> Row {
    Row { code, base, raises, silent }
}

/// So many values of `ns`.
fn values(ns: u64, n: u64) -> Dist {
    let mut dist = Dist::default();
    dist.record_n(ns, n);
    dist
}

/// Datagrams were sent as EF and arrived with this class.
fn classed(p: &mut Point, arrived: u8) {
    p.phase.sockets.dscp = Some(46);
    remote(p).marks.see(64, arrived << 2, 5_000);
}

/// Datagrams were sent as ECT(0), and one of two arrived as something else.
fn arrived(p: &mut Point, ecn: Ecn) {
    p.phase.sockets.ecn = Some(Ecn::Ect0);
    remote(p).marks.see(64, Ecn::Ect0.bits(), 2_500);
    remote(p).marks.see(64, ecn.bits(), 2_500);
}

/// Datagrams of ECT(1) and of Not-ECT in pairs, of which so many lost one datagram.
fn lost_alone(p: &mut Point, lost: [u64; 2]) {
    p.phase.sockets.ecn = Some(Ecn::Ect1);
    p.phase.probe.as_mut().unwrap().paired = Some(Ecn::Off);
    let mut pairs = EcnPairs::default();
    for (side, (sent, lost)) in [Ecn::Ect1, Ecn::Off].into_iter().zip(lost).enumerate() {
        let arrived = if sent == Ecn::Off { [2_500, 0, 0, 0] } else { [0, 2_500, 0, 0] };
        pairs.sides[side] =
            PairSide { sent, received: 2_500, lost, lost_alone: lost, arrived, delay_ns: None };
    }
    remote(p).marks.ecn = [2_500, 2_500, 0, 0];
    remote(p).marks.dscp = Some((0, 0));
    remote(p).pairs = Some(Box::new(pairs));
}

/// So many values of 100 µs.
fn spectrum(n: u64) -> Dist {
    values(100_000, n)
}

/// A run of 100,000 round trips of 100 µs each, ten every millisecond.
pub(super) fn ping(p: &mut Point) {
    p.phase.kind = Kind::Ping;
    p.phase.ping = Some(Ping { schedule: Schedule::Fixed { gap_ns: 1_000_000 }, ..Ping::default() });
    let counts = PingCounts { sent: 100_000, received: 100_000, ..PingCounts::default() };
    let rtt_ns = spectrum(100_000).spectrum();
    p.local.pings = Some(Box::new(RoundTrips { counts, rtt_ns, ..RoundTrips::default() }));
}

fn trips(p: &mut Point) -> &mut RoundTrips {
    p.local.pings.as_mut().unwrap()
}

/// Round trips of which the path has `path_ms` and the server `remote_ms`.
pub(crate) fn round_trips(path_ms: u64, remote_ms: u64) -> RoundTrips {
    let of = |ms: u64| values(ms * 1_000_000, 100_000).spectrum();
    let counts = PingCounts { sent: 100_000, received: 100_000, ..PingCounts::default() };
    let (rtt_ns, path_ns, remote_ns) = (of(path_ms + remote_ms), of(path_ms), of(remote_ms));
    RoundTrips { counts, rtt_ns, path_ns, remote_ns, ..RoundTrips::default() }
}

/// Idle round trips, the baseline of round trips under load.
pub(super) fn idle() -> RoundTrips {
    round_trips(10, 0)
}

/// A stage of `load` whose path takes 50 ms and whose server takes `remote_ms`.
fn loaded(p: &mut Point, remote_ms: u64) {
    ping(p);
    p.local.pings = Some(Box::new(round_trips(50, remote_ms)));
}

/// The local baseline of a round trip.
pub(super) fn baseline(p: &mut Point, ns: u64) {
    p.baseline = Some(Box::new(Baseline { rtt_ns: values(ns, 1_000).spectrum(), apart: true }));
}

/// A capacity of 100 Mbit/s.
fn capacity(p: &mut Point) {
    p.phase.kind = Kind::Capacity;
    p.phase.capacity = Some(CapacitySettings::RFC);
    p.capacity = Some(Box::new(Capacity { upstream: true, ip_bps: 100e6, ..Capacity::default() }));
}

/// A closed loop with ten round trips of so many ns among the others.
fn closed_loop(p: &mut Point, slow_ns: u64) {
    ping(p);
    p.phase.ping = Some(Ping { schedule: Schedule::Closed, ..Ping::default() });
    let mut all = spectrum(100_000);
    all.record_n(slow_ns, 10);
    trips(p).rtt_ns = all.spectrum();
}

/// So many messages of the round trips are late, and so many never came.
pub(super) fn late_and_lost(p: &mut Point, late: u64, lost: u64) {
    ping(p);
    let mut all = spectrum(100_000 - late - lost);
    all.record_n(1_500_000_000, late);
    trips(p).rtt_ns = all.spectrum();
    trips(p).rtt_ns.as_mut().unwrap().missing = lost;
    trips(p).counts.late = late;
}

/// A run of 1,000 datagrams a second to the server, of which it received 5,000.
pub(super) fn delay(p: &mut Point) {
    p.phase.kind = Kind::Delay;
    p.phase.connections = 1;
    p.phase.duration_ns = Some(5 * SECOND);
    p.phase.probe = Some(Probe { size: 125, ..Probe::default() });
    p.phase.rate = Some(1_000_000);
    let up = p.up.as_mut().unwrap();
    (up.sent_bps, up.goodput_bps) = (1e6, 1e6);
    for end in [&mut p.local, &mut p.remote[0]] {
        let counts = Packets { sent: 5_000, received: 5_000, ..Packets::default() };
        let mut packets = PacketReport::from(counts);
        packets.delay_ns = Some(DistSummary { count: 5_000, p50: 1_000_000, ..DistSummary::default() });
        end.packets = Some(Box::new(packets));
    }
}

pub(super) fn local(p: &mut Point) -> &mut PacketReport {
    p.local.packets.as_mut().unwrap()
}

pub(super) fn remote(p: &mut Point) -> &mut PacketReport {
    p.remote[0].packets.as_mut().unwrap()
}

/// Media streams of 60 frames a second from the server, in which nothing is wrong.
fn streams(p: &mut Point) {
    delay(p);
    p.phase.kind = Kind::Stream;
    p.phase.media = Some(Media::new(25_000_000, 60, 5, 1, 1_400).unwrap());
}

/// Trains of packets 20 µs apart that left so, and that the path stretched or did not.
fn trains(p: &mut Point, left_ns: u64, stretched: bool) {
    delay(p);
    p.phase.kind = Kind::Train;
    p.phase.train = Some(Train { waits_ns: vec![20_000], ..Train::default() });
    let mut found = Trains::default();
    found.report.settings = vec![metrics::TrainSetting {
        wait_ns: 20_000,
        send_gap_ns: late(left_ns).map(|gap| DistSummary { p50: gap.p99, ..gap }),
        stretched: Some(stretched),
        ..metrics::TrainSetting::default()
    }];
    p.trains = Some(Box::new(found));
}

pub(super) fn late(p99: u64) -> Option<DistSummary> {
    Some(DistSummary { count: 5_000, p99, ..DistSummary::default() })
}

pub(super) fn moved(name: &str, by: u64) -> HostCounters {
    HostCounters { moved: [(name.to_owned(), by)].into() }
}

fn first_interval(p: &mut Point, rx_bytes: u64) {
    p.intervals[0].remote = Some(Traffic { tx_bytes: 0, rx_bytes, ns: SECOND, ..Traffic::default() });
}

fn connections_with(p: &mut Point, count: u64) {
    (p.local.completed, p.local.stopped, p.phase.iterations) = (40, 0, Some(5));
    p.local.rate = Some(DistSummary { count, ..DistSummary::default() });
}

/// Intervals around 100 with this deviation.
fn varied(p: &mut Point, sd: f64) {
    p.up.as_mut().unwrap().per_interval = Some(Spread { n: 5, mean: 100.0, sd, ..Spread::default() });
}

/// A send buffer of 4 MiB was asked for, and this one given.
fn send_buffer(p: &mut Point, given: u32) {
    p.phase.sockets.sndbuf = Some(4 << 20);
    p.local.effective.as_mut().unwrap().sndbuf = Some(given);
}

/// Segments of 1400 bytes were asked for, and these given.
fn segments(p: &mut Point, given: u32) {
    p.phase.sockets.mss = Some(1_400);
    p.local.effective.as_mut().unwrap().mss = Some(given);
}

/// Eight connections of 1 kbit/s each sent so much.
fn paced(p: &mut Point, sent_bps: f64) {
    p.phase.rate = Some(1_000);
    p.up.as_mut().unwrap().sent_bps = sent_bps;
}

const CHANGED: fn(&str) -> Change = |what| Change { what: what.to_owned(), ..Change::default() };

const TABLE: &[Row] = &[
    row(
        "ephemeral-ports",
        |p, _| {
            p.local.causes = vec![failed("connecting: Cannot assign requested address (os error 99)", 7)];
        },
        |p, _| {
            p.local.causes = vec![failed("binding: Cannot assign requested address (os error 99)", 7)];
        },
    ),
    row(
        "file-descriptors",
        |p, _| {
            p.local.causes = vec![failed("opening a socket: Too many open files (os error 24)", 2)];
        },
        |p, _| p.local.causes = vec![failed("connecting: Connection refused (os error 111)", 2)],
    ),
    row(
        "unconfirmed",
        |p, _| {
            p.up.as_mut().unwrap().confirmed = false;
            p.remote.clear();
        },
        |p, _| p.up = None,
    ),
    // A server without a session, and one that has a session with nothing in it.
    row(
        "server-not-measured",
        |p, b| b.targets = vec![p.sessions[0].target.clone(), "other".to_owned()],
        |p, b| b.targets = vec![p.sessions[0].target.clone()],
    ),
    row(
        "unfinished-connections",
        |p, _| p.local.opened = 43,
        |p, _| (p.local.completed, p.local.stopped, p.phase.iterations) = (40, 0, Some(5)),
    ),
    row(
        "verification-off",
        |p, _| p.phase.verify = Verify::Connection,
        |p, b| {
            b.verb = "serve".to_owned();
            p.phase.verify = Verify::Connection;
        },
    ),
    // 100,000 round trips of 100 µs are 10 s; ten of 11 ms are 1.1 % of all time, ten of 9 ms 0.9
    // %.
    row("closed-loop", |p, _| closed_loop(p, 11_000_000), |p, _| closed_loop(p, 9_000_000)),
    // The hundredth part of the messages lies beyond p99, and p99 is the last of the others.
    row("late-or-lost", |p, _| late_and_lost(p, 500, 501), |p, _| late_and_lost(p, 5, 5)),
    on(ping, "missed-slots", |p, _| trips(p).counts.missed = 101, |p, _| trips(p).counts.missed = 100),
    on(ping, "late-sends", |p, _| p.local.late_ns = late(100_001), |p, _| p.local.late_ns = late(100_000)),
    on(ping, "own-share", |p, _| baseline(p, 50_100), |p, _| baseline(p, 49_900)),
    on(
        ping,
        "few-messages",
        |p, _| trips(p).rtt_ns = spectrum(999).spectrum(),
        |p, _| trips(p).rtt_ns = spectrum(1_000).spectrum(),
    ),
    on(streams, "stream-limit", |p, _| local(p).counts.dropped = 7, |p, _| local(p).counts.lost = 500),
    on(
        capacity,
        "search-limit",
        |p, _| p.capacity.as_mut().unwrap().most_bps = 102e6,
        |p, _| p.capacity.as_mut().unwrap().most_bps = 104e6,
    ),
    on(delay, "not-sent", |p, _| local(p).counts.unsent = 6, |p, _| local(p).counts.unsent = 5),
    on(
        delay,
        "sender-throttled",
        |p, _| local(p).blocked_ns = 50_000_001,
        |p, _| local(p).blocked_ns = 50_000_000,
    ),
    on(
        delay,
        "queue-drops",
        |p, _| (p.local.counters, remote(p).counts.lost) = (moved("eth0.qdisc_dropped", 3), 100),
        |p, _| (p.local.counters, remote(p).counts.lost) = (moved("eth0.qdisc_dropped", 3), 0),
    ),
    on(
        delay,
        "receive-buffer-overflow",
        |p, _| (remote(p).counts.lost, remote(p).counts.dropped) = (100, 1),
        |p, _| remote(p).counts.lost = 100,
    ),
    on(
        delay,
        "damaged-on-the-way",
        |p, _| (remote(p).counts.lost, remote(p).damaged) = (100, 1),
        |p, _| (remote(p).counts.lost, remote(p).counts.corrupt) = (100, 1),
    ),
    on(
        delay,
        "clock-offset",
        |p, _| remote(p).clock_bound_ns = Some(500_001),
        |p, _| remote(p).clock_bound_ns = Some(500_000),
    ),
    on(
        delay,
        "clock-stepped",
        |p, _| local(p).clock_found = Some(ClockFound { stepped: true, ..ClockFound::default() }),
        |p, _| local(p).clock_found = Some(ClockFound { skew_ppm: (-80.0, 80.0), ..ClockFound::default() }),
    ),
    on(
        delay,
        "clock-wander",
        |p, _| local(p).clock_found = Some(ClockFound { wandered: true, ..ClockFound::default() }),
        |p, _| local(p).clock_found = Some(ClockFound { exchanges: 144, ..ClockFound::default() }),
    ),
    on(delay, "card-stamps", |p, _| remote(p).card_refused = 1, |p, _| remote(p).card_stamped = 5_000),
    // A quarter of a millisecond.
    on(delay, "late-sends", |p, _| local(p).late_ns = late(250_001), |p, _| local(p).late_ns = late(250_000)),
    row("train-spacing", |p, _| trains(p, 22_001, true), |p, _| trains(p, 22_000, true)),
    row("train-not-stretched", |p, _| trains(p, 20_000, false), |p, _| trains(p, 20_000, true)),
    row(
        "loopback",
        |p, _| p.sessions[0].address = "127.0.0.1:7411".parse().unwrap(),
        |p, _| p.sessions[0].address = "128.0.0.1:7411".parse().unwrap(),
    ),
    row(
        "cpu-bound",
        |p, _| p.remote[0].cpu = cpu(0.951, 62.0, 0.0),
        |p, _| p.remote[0].cpu = cpu(0.95, 90.0, 0.0),
    ),
    row(
        "host-busy",
        |p, _| p.local.cpu = cpu(0.97, 62.0, 0.0).map(|cpu| CpuUse { user_s: 1.0, ..cpu }),
        |p, _| p.local.cpu = cpu(0.97, 62.0, 0.0),
    ),
    row("cpu-steal", |p, _| p.local.cpu = cpu(0.5, 50.0, 1.1), |p, _| p.local.cpu = cpu(0.5, 50.0, 1.0)),
    row(
        "listen-drops",
        |p, _| p.remote[0].counters = moved("TcpExt.ListenDrops", 12),
        |p, _| p.remote[0].counters = moved("TcpExt.ListenDrops", 0),
    ),
    row(
        "softnet-drops",
        |p, _| (p.local.counters, p.local.network_errors) = (moved("softnet.dropped", 3), 1),
        // Nothing of the run is missing: the packets were another program's.
        |p, _| p.local.counters = moved("softnet.dropped", 7_999),
    ),
    row(
        "own-allowance",
        |p, _| p.remote[0].counters = moved("cgroup.throttled_us", 2_001),
        |p, _| p.remote[0].counters = moved("cgroup.throttled_us", 2_000),
    ),
    on(delay, "dscp-changed", |p, _| classed(p, 0), |p, _| classed(p, 46)),
    // Congestion marks are what the codepoint is for.
    on(delay, "ecn-changed", |p, _| arrived(p, Ecn::Off), |p, _| arrived(p, Ecn::Ce)),
    // Of 12 pairs with one lost datagram, all lost ECT(1), or nine: p = 0.0005 and 0.15.
    on(delay, "ecn-loss", |p, _| lost_alone(p, [12, 0]), |p, _| lost_alone(p, [9, 3])),
    row(
        "late-pacing",
        |p, _| (p.phase.rate, p.local.late_ns) = (Some(1_000), late(1_000_001)),
        |p, _| (p.phase.rate, p.local.late_ns) = (Some(1_000), late(1_000_000)),
    ),
    row("other-sessions", |p, _| p.remote[0].others = 1, |p, _| p.sessions.push(p.sessions[0].clone())),
    row(
        "server-reduced",
        |p, _| p.sessions[0].accepted.changes = vec![CHANGED("connections")],
        |p, _| p.sessions[0].accepted.session = 2,
    ),
    row("socket-buffer-shortfall", |p, _| send_buffer(p, 425_984), |p, _| send_buffer(p, 8 << 20)),
    row("socket-option-differs", |p, _| segments(p, 1_359), |p, _| segments(p, 1_360)),
    row(
        "window-limited",
        |p, _| p.local.tcp = TcpTotals { busy_us: 1_000, rwnd_limited_us: 201, ..TcpTotals::default() },
        |p, _| p.local.tcp = TcpTotals { busy_us: 1_000, rwnd_limited_us: 200, ..TcpTotals::default() },
    ),
    row(
        "congestion-control",
        |p, _| p.local.effective.as_mut().unwrap().congestion = Some("bbr".to_owned()),
        |p, _| p.remote[0].effective.as_mut().unwrap().congestion = Some("bbr".to_owned()),
    ),
    row(
        "placement",
        |p, _| p.sessions[0].host.cpus = 4,
        |p, _| (p.sessions[0].host.cpus, p.sessions[0].placement) = (4, "cores 0,1".to_owned()),
    ),
    row("too-short", |p, _| p.local.traffic.ns = 2 * SECOND - 1, |p, _| p.local.traffic.ns = 2 * SECOND),
    row("slow-start", |p, _| first_interval(p, 899), |p, _| first_interval(p, 900)),
    row(
        "own-traffic",
        |p, _| {
            p.local.traffic = Traffic { tx_bytes: 100_000, ..Traffic::default() };
            p.local.own = OwnTraffic { messages: 10, message_bytes: 12_000, ..OwnTraffic::default() };
        },
        |p, _| {
            p.local.traffic = Traffic { tx_bytes: 100_000, ..Traffic::default() };
            p.local.own = OwnTraffic { messages: 10, message_bytes: 10_000, ..OwnTraffic::default() };
        },
    ),
    row("rate-missed", |p, _| paced(p, 7_759.0), |p, _| paced(p, 7_760.0)),
    row("unstable", |p, _| varied(p, 20.1), |p, _| varied(p, 20.0)),
    row("server-turnaround", |p, _| loaded(p, 9), |p, _| loaded(p, 8)),
    row("few-connections", |p, _| connections_with(p, 19), |p, _| connections_with(p, 20)),
];

fn spoiled(row: &Row, spoil: Spoil) -> (Point, Begin) {
    let (mut point, mut begin) = sound();
    (row.base)(&mut point);
    spoil(&mut point, &mut begin);
    assert_ne!((&point, &begin), (&sound().0, &sound().1), "the run is not altered");
    (point, begin)
}

fn raised(check: &Check, row: &Row, spoil: Spoil) -> Option<String> {
    let (point, begin) = spoiled(row, spoil);
    check.raise(&Case { point: &point, idle: Some(&idle()), begin: &begin }).map(|caveat| caveat.code)
}

#[test]
fn every_check_has_a_run_that_raises_it_and_one_that_must_not() {
    let mut used = vec![0; TABLE.len()];
    for (place, check) in CAUSES.iter().chain(CHECKS).enumerate() {
        let raises = |row: &Row| raised(check, row, row.raises).as_deref() == Some(row.code);
        let row = TABLE.iter().enumerate().find(|(at, row)| used[*at] == 0 && raises(row));
        let Some((at, row)) = row else { panic!("check {place} of CAUSES and CHECKS is raised by no row") };
        used[at] += 1;
        assert_eq!(raised(check, row, row.silent), None, "{}", row.code);
    }
    let idle: Vec<&str> =
        TABLE.iter().zip(&used).filter(|(_, n)| **n == 0).map(|(row, _)| row.code).collect();
    assert!(idle.is_empty(), "no check is raised by {idle:?}");
}

#[test]
fn caveats_are_those_of_their_rows() {
    for row in TABLE {
        let codes = |spoil| {
            let (point, begin) = spoiled(row, spoil);
            let found = caveats_against(&point, Some(&idle()), &begin).into_iter();
            found.map(|caveat| caveat.code).collect::<Vec<_>>()
        };
        let (raised, silent) = (codes(row.raises), codes(row.silent));
        assert!(raised.iter().any(|code| code == row.code), "{}: {raised:?}", row.code);
        assert!(!silent.iter().any(|code| code == row.code), "{}: {silent:?}", row.code);
    }
}

/// A caveat is named where it is left out while a run goes on: a name that no check has would do
/// nothing.
#[test]
fn every_code_in_a_list_is_that_of_a_caveat() {
    for code in running::IN_THE_END.iter().chain(running::STEADY) {
        assert!(TABLE.iter().any(|row| row.code == *code), "{code}");
    }
}

#[test]
fn every_caveat_has_one_level() {
    let codes: BTreeSet<&str> = TABLE.iter().map(|row| row.code).collect();
    let levels: BTreeSet<(&str, CaveatLevel)> = caveat_levels().collect();
    assert_eq!(levels.iter().map(|(code, _)| *code).collect::<BTreeSet<_>>(), codes);
    assert_eq!(levels.len(), codes.len(), "a caveat has two levels");
    let kebab =
        |code: &str| code.split('-').all(|w| !w.is_empty() && w.chars().all(|c| c.is_ascii_lowercase()));
    assert!(codes.iter().all(|code| kebab(code)), "{codes:?}");
}
