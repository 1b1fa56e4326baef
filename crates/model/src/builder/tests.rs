//! The expected figures were computed by hand from the events.

use super::*;
use crate::Traffic;
use crate::{
    Accepted, Begin, ConnectionRecord, CpuUse, Figure, HostSnapshot, Kind, Pattern, Phase, Ping, Sample,
    SessionInfo, Stat, Status,
};
use metrics::{DistSummary, Ending, Moments, SECOND, TcpInfo, TcpTotals};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use uuid::Uuid;

const SERVER: &str = "10.0.0.2:7411";

fn begin(verb: &str) -> Event {
    Event::Begin(Box::new(Begin { verb: verb.to_owned(), ..Begin::default() }))
}

fn phase(phase: Phase) -> Event {
    Event::Phase { label: BTreeMap::new(), repeat: 1, phase: Box::new(phase) }
}

fn of(pattern: Pattern) -> Event {
    phase(Phase { pattern, ..Phase::default() })
}

pub(crate) fn session_info(base_rtt_ns: u64) -> SessionInfo {
    SessionInfo {
        target: "server".to_owned(),
        address: SERVER.parse::<SocketAddr>().unwrap(),
        version: "1".to_owned(),
        accepted: Accepted::default(),
        host: HostSnapshot::default(),
        workers: 2,
        placement: "spread".to_owned(),
        authenticated: false,
        base_rtt_ns,
        udp_rtt_ns: None,
        same_host: false,
    }
}

fn session(base_rtt_ns: u64) -> Event {
    Event::Session(Box::new(session_info(base_rtt_ns)))
}

fn traffic(tx_bytes: u64, rx_bytes: u64, ns: u64) -> Traffic {
    Traffic { tx_bytes, rx_bytes, ns, ..Traffic::default() }
}

/// An interval of a second with `sent` bytes sent by us and `received` counted by the server.
pub(crate) fn second(index: u32, sent: u64, received: Option<u64>) -> Interval {
    Interval {
        index,
        start_ns: u64::from(index) * SECOND,
        end_ns: u64::from(index + 1) * SECOND,
        local: traffic(sent, 0, SECOND),
        remote: received.map(|rx| traffic(0, rx, SECOND)),
        ..Interval::default()
    }
}

fn interval(interval: Interval) -> Event {
    Event::Interval(Box::new(interval))
}

fn totals(traffic: Traffic) -> Totals {
    Totals { traffic, ..Totals::default() }
}

fn complete() -> [Event; 2] {
    let (status, reason) = (Status::Complete, None);
    [Event::PhaseEnd { status, reason: reason.clone() }, Event::End { status, reason }]
}

fn built(events: impl IntoIterator<Item = Event>) -> Outcome {
    let mut builder = Builder::default();
    events.into_iter().for_each(|event| builder.absorb(&event));
    builder.outcome()
}

fn local(have: f64, want: f64) {
    assert!((have - want).abs() <= want.abs() * 1e-9, "{have} instead of {want}");
}

#[test]
fn a_failed_phase_has_no_rates_and_a_dead_one_has_zeroes() {
    let ended = |status| {
        let events = [of(Pattern::Duplex), session(0), Event::PhaseEnd { status, reason: None }];
        let point = built(events).points.remove(0);
        (point.up.map(|way| way.goodput_bps), point.down.map(|way| way.goodput_bps))
    };
    assert_eq!(ended(Status::Failed), (None, None));
    assert_eq!(ended(Status::Complete), (Some(0.0), Some(0.0)));
}

#[test]
fn the_receiver_counts_and_the_sender_stands_beside() {
    let mut events = vec![begin("tcp"), of(Pattern::Push), session(0)];
    events.extend(
        [1_000, 2_000, 3_000].iter().enumerate().map(|(i, &n)| interval(second(i as u32, n + 500, Some(n)))),
    );
    events.push(Event::Local(Box::new(totals(traffic(7_500, 0, 3 * SECOND)))));
    events.push(Event::Remote(Box::new(totals(traffic(0, 6_000, 4 * SECOND)))));
    events.extend(complete());
    let outcome = built(events);
    assert_eq!((outcome.status, outcome.schema.as_str()), (Status::Complete, "netcaliper.outcome.v2"));
    let point = &outcome.points[0];
    let up = point.up.unwrap();
    assert!(up.confirmed);
    assert_eq!((up.sent_bytes, up.received_bytes), (7_500, 6_000));
    local(up.sent_bps, 20_000.0); // 7500 bytes x 8 in 3 s
    local(up.goodput_bps, 12_000.0); // 6000 bytes x 8 in the receiver's 4 s
    let spread = up.per_interval.unwrap();
    assert_eq!((spread.n, spread.mean, spread.min, spread.max), (3, 16_000.0, 8_000.0, 24_000.0));
    local(spread.sd, 8_000.0);
    assert_eq!(point.down, None, "nothing was to come back");
}

#[test]
fn pulled_and_duplex_data_are_counted_by_us() {
    let events = [
        begin("tcp"),
        of(Pattern::Duplex),
        session(0),
        Event::Local(Box::new(totals(traffic(1_000, 4_000, SECOND)))),
        Event::Remote(Box::new(totals(traffic(4_400, 900, SECOND)))),
    ];
    let point = built(events).points.remove(0);
    let (up, down) = (point.up.unwrap(), point.down.unwrap());
    assert_eq!((up.sent_bytes, up.received_bytes, up.goodput_bps), (1_000, 900, 7_200.0));
    assert_eq!((down.sent_bytes, down.received_bytes, down.goodput_bps), (4_400, 4_000, 32_000.0));
    assert!(up.confirmed && down.confirmed);

    let point = built([begin("tcp"), of(Pattern::Pull), session(0)]).points.remove(0);
    let received = point.down.map(|d| d.received_bytes);
    assert_eq!((point.up, received), (None, Some(0)), "asked for, though nothing came");
}

#[test]
fn several_servers_add_up() {
    let remote = |who: &str, rx, ns| {
        Event::Remote(Box::new(Totals { who: who.to_owned(), ..totals(traffic(0, rx, ns)) }))
    };
    let ends = [remote("a", 1_000, SECOND), remote("b", 3_000, 2 * SECOND)];
    let events = [of(Pattern::Push), session(0), session(0)].into_iter().chain(ends);
    let up = built(events).points[0].up.unwrap();
    assert_eq!((up.received_bytes, up.goodput_bps), (4_000, 16_000.0), "4000 bytes in the longer 2 s");
}

#[test]
fn without_final_totals_the_interval_reports_of_the_receiver_count() {
    let mut events = vec![begin("tcp"), of(Pattern::Push), session(0)];
    events.extend([interval(second(0, 1_000, Some(900))), interval(second(1, 1_000, Some(700)))]);
    events.push(interval(second(2, 1_000, None))); // the server has vanished
    let outcome = built(events);
    let up = outcome.points[0].up.unwrap();
    assert!(up.confirmed);
    // 1600 bytes in the two seconds it told of.
    assert_eq!((up.received_bytes, up.goodput_bps), (1_600, 6_400.0));
    assert_eq!(up.per_interval.unwrap().n, 2);
    assert_eq!((up.sent_bytes, up.sent_bps), (3_000, 8_000.0));
    assert_eq!(outcome.status, Status::Partial);
    assert_eq!(outcome.reason.as_deref(), Some("the end of the run is not on record"));
}

#[test]
fn a_server_that_never_told_anything_leaves_the_figure_unconfirmed() {
    let events =
        [of(Pattern::Push), session(0), interval(second(0, 1_000, None)), interval(second(1, 3_000, None))];
    let up = built(events).points[0].up.unwrap();
    assert!(!up.confirmed);
    assert_eq!((up.received_bytes, up.goodput_bps, up.sent_bps), (4_000, 16_000.0, 16_000.0));
    assert_eq!(up.per_interval.map(|s| (s.n, s.mean)), Some((2, 16_000.0)));
}

#[test]
fn one_of_two_servers_missing_is_not_taken_for_the_whole() {
    let remote = Event::Remote(Box::new(totals(traffic(0, 500, SECOND))));
    let events = [of(Pattern::Push), session(0), session(0), interval(second(0, 1_000, Some(990))), remote];
    assert_eq!(built(events).points[0].up.unwrap().received_bytes, 990);
}

#[test]
fn a_journal_cut_short_gives_totals_from_its_intervals() {
    let first = Interval { omitted: true, opened: 8, in_flight: 8, ..second(0, 9_999, Some(9_999)) };
    let info = TcpInfo { rtt_us: 250, ..TcpInfo::default() };
    let samples = vec![Sample { info, ..Sample::default() }];
    let middle = Interval { in_flight: 9, opened: 2, retransmits: 3, ..second(1, 1_000, Some(1_000)) };
    let middle = Interval { completed: 1, samples, ..middle };
    let last = Interval { in_flight: 7, opened: 1, retransmits: 4, ..second(2, 3_000, Some(2_000)) };
    let last = Interval { completed: 3, network_errors: 2, data_errors: 1, ..last };
    let intervals = [first, middle, last].map(interval);
    let outcome = built([begin("tcp"), of(Pattern::Push), session(0)].into_iter().chain(intervals));
    let point = &outcome.points[0];
    let local = &point.local;
    assert_eq!(local.traffic, traffic(4_000, 0, 2 * SECOND), "the omitted second does not count");
    assert_eq!((local.opened, local.peak, local.completed), (3, 9, 3));
    assert_eq!((local.network_errors, local.data_errors, local.tcp.retransmits), (2, 1, 7));
    assert_eq!(local.tcp.mean_rtt_us(), Some(250.0));
    assert_eq!(point.up.unwrap().received_bytes, 3_000);
    assert_eq!(point.status, Status::Partial);
}

#[test]
fn a_short_last_interval_is_no_reading() {
    let last =
        Interval { end_ns: 2 * SECOND + SECOND / 4, local: traffic(10, 0, SECOND / 4), ..second(2, 0, None) };
    let intervals = [second(0, 1_000, None), second(1, 1_000, None), last].map(interval);
    let events = [of(Pattern::Push)].into_iter().chain(intervals);
    let up = built(events).points[0].up.unwrap();
    assert_eq!(up.per_interval.map(|s| (s.n, s.min)), Some((2, 8_000.0)));
    assert_eq!(up.sent_bytes, 2_010, "but its bytes count");
}

#[test]
fn intervals_are_ordered_and_the_last_telling_counts() {
    let intervals = [second(1, 20, None), second(0, 10, None), second(1, 30, Some(25))].map(interval);
    let events = [of(Pattern::Push)].into_iter().chain(intervals);
    let point = built(events).points.remove(0);
    let told: Vec<_> = point.intervals.iter().map(|i| (i.index, i.local.tx_bytes)).collect();
    assert_eq!(told, [(0, 10), (1, 30)]);
    assert_eq!(point.local.traffic.tx_bytes, 40);
}

#[test]
fn events_before_their_phase_belong_to_it() {
    let outcome = built([session(5), interval(second(0, 10, None)), of(Pattern::Push), begin("tcp")]);
    assert_eq!(outcome.points.len(), 1);
    assert_eq!((outcome.points[0].sessions.len(), outcome.points[0].intervals.len()), (1, 1));
    assert_eq!(outcome.begin.verb, "tcp");
    assert_eq!(built([]).points, []);
}

#[test]
fn a_server_is_the_remote_side_of_its_clients() {
    let both = Interval { local: traffic(300, 1_000, SECOND), ..second(0, 0, None) };
    let events =
        [begin("serve"), interval(both), Event::Local(Box::new(totals(traffic(300, 1_000, SECOND))))];
    let point = built(events).points.remove(0);
    let (up, down) = (point.up.unwrap(), point.down.unwrap());
    assert_eq!((up.received_bytes, up.goodput_bps, up.confirmed), (1_000, 8_000.0, true));
    assert_eq!((up.sent_bytes, up.per_interval.unwrap().mean), (0, 8_000.0));
    assert_eq!((down.sent_bytes, down.goodput_bps, down.confirmed), (300, 2_400.0, false));

    // Three idle seconds around a busy one: the rate is that of the busy one.
    let sent = (0..).zip([0, 500, 0, 0]).map(|(at, bytes)| interval(second(at, bytes, None)));
    let end = Event::Local(Box::new(totals(traffic(500, 0, 4 * SECOND))));
    let down = built([begin("serve")].into_iter().chain(sent).chain([end])).points[0].down.unwrap();
    assert_eq!((down.sent_bytes, down.goodput_bps, down.per_interval.unwrap().n), (500, 4_000.0, 1));

    let idle = built([begin("serve"), interval(second(0, 0, None))]).points.remove(0);
    assert_eq!((idle.up, idle.down), (None, None));
}

#[test]
fn round_trips_under_load_get_caveats_from_those_of_the_idle_stage() {
    let stage = |name: &str, part: &str, repeat, path_ms, remote_ms| {
        let pings = crate::caveat::table::round_trips(path_ms, remote_ms);
        let label = [("stage", name), ("part", part)].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let phase = Phase { kind: Kind::Ping, ping: Some(Ping::default()), ..Phase::default() };
        let phase = Event::Phase { label: label.into(), repeat, phase: Box::new(phase) };
        [phase, Event::Local(Box::new(Totals { pings: Some(Box::new(pings)), ..Totals::default() }))]
    };
    let events = [
        stage("idle", "trips", 1, 10, 0),
        stage("down", "trips", 1, 50, 30),
        stage("down", "load", 1, 50, 30),
        stage("up", "trips", 1, 50, 0),
        // Nothing to compare it to: each repetition has its own.
        stage("down", "trips", 2, 50, 30),
    ];
    for bounded in [false, true] {
        let mut builder = if bounded { Builder::bounded() } else { Builder::default() };
        std::iter::once(begin("load")).chain(events.concat()).for_each(|event| builder.absorb(&event));
        let has_caveat =
            |point: &Point| point.caveats.iter().any(|caveat| caveat.code == "server-turnaround");
        let points = builder.outcome().points;
        assert_eq!(points.iter().map(has_caveat).collect::<Vec<_>>(), [false, true, false, false, false]);
    }
}

#[test]
fn rfc6349_figures_use_both_senders_and_the_idle_round_trip() {
    let tcp = |bytes_sent, bytes_retrans, rtt_sum_us, rtt_samples, min_rtt_us| TcpTotals {
        bytes_sent,
        bytes_retrans,
        rtt_sum_us,
        rtt_samples,
        min_rtt_us,
        ..TcpTotals::default()
    };
    let ours = Totals { tcp: tcp(90_000, 2_000, 600.0, 3, 120), ..totals(traffic(88_000, 0, SECOND)) };
    let theirs = Totals { tcp: tcp(12_000, 0, 100.0, 10, 100), ..totals(traffic(0, 88_000, SECOND)) };
    // What a program measured when idle, 150 µs with its threads in it, is no base for what the
    // kernel measures.
    let events = |remote: &[&Totals]| {
        let mut events = vec![of(Pattern::Push), session(150_000), Event::Local(Box::new(ours.clone()))];
        events.extend(remote.iter().map(|remote| Event::Remote(Box::new((*remote).clone()))));
        events
    };
    let point = built(events(&[&theirs])).points.remove(0);
    local(point.tcp_efficiency_percent.unwrap(), 100_000.0 / 102_000.0 * 100.0);
    // Under load 600/3 = 200 µs; the receiver's 10 µs were never loaded. The smallest, at either
    // end, is 100 µs.
    local(point.buffer_delay_percent.unwrap(), 100.0);
    // Two servers, 100 and 300 µs away: 200 µs are the mean, and our own smallest is the nearer
    // one's.
    let farther = Totals { tcp: tcp(0, 0, 0.0, 0, 300), ..theirs.clone() };
    local(built(events(&[&theirs, &farther])).points[0].buffer_delay_percent.unwrap(), 0.0);
    let unknown = Totals { tcp: tcp(0, 0, 0.0, 0, 0), ..theirs.clone() };
    assert_eq!(built(events(&[&theirs, &unknown])).points[0].buffer_delay_percent, None);
}

#[test]
fn fairness_and_cpu_per_gigabyte() {
    let cpu = |user_s, system_s| Some(CpuUse { user_s, system_s, ..CpuUse::default() });
    let rates = Moments { n: 2, sum: 4.0, squares: 10.0 }; // rates 1 and 3: 16 / (2 x 10)
    let ours = Totals { cpu: cpu(0.5, 1.0), rates, ..totals(traffic(2_100_000_000, 0, SECOND)) };
    let theirs = Totals { cpu: cpu(1.0, 2.0), ..totals(traffic(0, 2_000_000_000, SECOND)) };
    let mut events = vec![Event::Local(Box::new(ours)), Event::Remote(Box::new(theirs))];
    events.insert(0, of(Pattern::Push));
    let point = built(events.clone()).points.remove(0);
    local(point.fairness.unwrap(), 0.8);
    local(point.local_cpu_s_per_gb.unwrap(), 0.75);
    local(point.remote_cpu_s_per_gb.unwrap(), 1.5);

    // CPU time is that of the whole phase: as many bytes again in the omitted start halve it.
    let start = Interval { omitted: true, ..second(0, 0, Some(2_000_000_000)) };
    let point = built(events.clone().into_iter().chain([interval(start)])).points.remove(0);
    local(point.local_cpu_s_per_gb.unwrap(), 0.375);

    events[0] = phase(Phase { kind: Kind::Connect, ..Phase::default() });
    assert_eq!(built(events).points[0].local_cpu_s_per_gb, None, "bytes are not what connect is about");
}

/// A phase of a sweep that received `mbit` in a second, with its errors.
fn swept(value: &str, repeat: u32, mbit: u64, errors: u64, status: Status) -> Vec<Event> {
    let label = BTreeMap::from([("buffer".to_owned(), value.to_owned())]);
    let bytes = mbit * 125_000;
    vec![
        Event::Phase { label, repeat, phase: Box::default() },
        Event::Local(Box::new(Totals { network_errors: errors, ..totals(traffic(bytes, 0, SECOND)) })),
        Event::Remote(Box::new(totals(traffic(0, bytes, SECOND)))),
        Event::PhaseEnd { status, reason: None },
    ]
}

#[test]
fn a_sweep_has_a_row_per_setting_over_its_repetitions() {
    let done = Status::Complete;
    let runs = [swept("16", 1, 10, 0, done), swept("32", 1, 40, 1, done), swept("16", 2, 14, 2, done)];
    let failed = swept("32", 2, 0, 5, Status::Failed);
    let outcome = built(runs.into_iter().flatten().chain(failed));
    assert_eq!(outcome.points.len(), 4);
    let rows: Vec<_> = outcome
        .sweep
        .iter()
        .map(|r| (r.label["buffer"].as_str(), r.figures["goodput.up"], r.errors))
        .collect();
    let [(small, low, few), (big, high, many)] = rows[..] else { panic!("two settings, two rows") };
    assert_eq!((small, low.n, low.mean, few), ("16", 2, 12e6, 2));
    local(low.sd, 8f64.sqrt() * 1e6); // 10 and 14: deviations -2 and 2, variance 8/1
    assert_eq!((big, high.n, high.mean, many), ("32", 1, 40e6, 6), "a failed run adds its errors only");
    assert!(!outcome.sweep[0].figures.contains_key("connects"));
    let remote = vec![Totals { data_errors: 3, ..Totals::default() }];
    let local = Totals { network_errors: 2, ..Totals::default() };
    let point = Point { local, remote, ..Point::default() };
    assert_eq!(point.errors(), 3, "the server saw what we did not");
}

#[test]
fn repetitions_without_a_sweep_have_one_row_and_a_single_run_none() {
    let again = Event::Phase { label: BTreeMap::new(), repeat: 2, phase: Box::default() };
    assert_eq!(built([of(Pattern::Push), again]).sweep.len(), 1);
    assert_eq!(built([of(Pattern::Push)]).sweep, []);
}

#[test]
fn connections_per_second_of_a_connect_sweep() {
    let connect = Phase { kind: Kind::Connect, ..Phase::default() };
    let label = BTreeMap::from([("connections".to_owned(), "4".to_owned())]);
    let mut events = vec![Event::Phase { label, repeat: 1, phase: Box::new(connect) }];
    let opened = [(0, 900, true), (1, 200, false), (2, 300, false)];
    let second = |(at, opened, omitted)| Interval { opened, omitted, ..second(at, 1, None) };
    events.extend(opened.map(second).map(interval));
    let outcome = built(events);
    assert_eq!(outcome.sweep[0].figures["connects"].mean, 250.0, "the omitted second does not count");
    let spread = outcome.points[0].connects_per_interval();
    assert_eq!(spread.map(|s| (s.n, s.min, s.max)), Some((2, 200.0, 300.0)));
}

#[test]
fn a_percentile_beyond_which_no_value_lies_is_named_in_the_row_of_a_sweep() {
    let of = |count| {
        let mut events = swept("16", 1, 10, 0, Status::Complete);
        let connect_ns = Some(DistSummary { count, p50: 5, p99: 7, max: 7, ..DistSummary::default() });
        events[1] = Event::Local(Box::new(Totals { connect_ns, ..Totals::default() }));
        events
    };
    let row = |count| built(of(count)).sweep.remove(0);
    let p99 = Figure::ConnectTime(Stat::Quantile(0.99));
    let few = row(8);
    assert_eq!((&*few.unsupported, few.figure(p99)), (&["connect.p99".to_owned()][..], None));
    assert_eq!(few.figures["connect.p99"].mean, 7.0, "documents of 0.1.0 have it");
    assert_eq!(few.figure(Figure::ConnectTime(Stat::MEDIAN)).unwrap().mean, 5.0);
    let many = row(100);
    assert_eq!((&*many.unsupported, many.figure(p99).unwrap().mean), (&[][..], 7.0));
}

#[test]
fn what_is_kept_is_bounded() {
    let record = ConnectionRecord {
        id: Uuid::nil(),
        local: None,
        remote: SERVER.parse().unwrap(),
        ended_ns: 0,
        tx_bytes: 0,
        rx_bytes: 0,
        connect_ns: None,
        duration_ns: 0,
        result: Ending::Completed,
        error: None,
        failure: None,
        tcp: None,
        frames: None,
    };
    let mut builder = Builder::default();
    for n in 0..10_001u64 {
        let record = ConnectionRecord { ended_ns: n, ..record.clone() };
        builder.absorb(&Event::Connection(Box::new(record)));
        builder.absorb(&Event::Notice { level: Level::Warning, text: n.to_string() });
    }
    let outcome = builder.outcome();
    assert_eq!(outcome.points[0].connections.len(), 10_000);
    assert_eq!(outcome.points[0].connections[9_999].ended_ns, 9_999, "the first ones are kept");
    assert_eq!(outcome.notices.len(), 200);
    assert_eq!(outcome.notices[7], "warning: 7");
    let last = &outcome.notices[199];
    assert!(last.starts_with("1 ended connection beyond the first 10000: "), "that one is told: {last}");
}

#[test]
fn a_measurement_of_days_keeps_its_first_intervals() {
    let mut builder = Builder::default();
    let sample = Sample::default();
    for index in 0..100_010 {
        builder.absorb(&interval(Interval { samples: vec![sample], ..second(index, 1, None) }));
    }
    let outcome = builder.outcome();
    assert_eq!(outcome.points[0].intervals.len(), 100_000);
    assert_eq!(outcome.points[0].intervals.iter().map(|i| i.samples.len()).sum::<usize>(), 20_000);
    let notice = &outcome.notices[0];
    assert!(notice.starts_with("10 intervals beyond the first 100000: "), "{notice}");
}

#[test]
fn a_server_that_runs_for_months_stays_small_and_loses_no_byte() {
    let mut builder = Builder::default();
    builder.absorb(&begin("serve"));
    builder.absorb(&of(Pattern::Push));
    let sample = Sample::default();
    let gathered = |builder: &Builder| {
        let intervals = builder.outcome().points[0].intervals.clone();
        intervals.len() + intervals.iter().map(|i| i.samples.len()).sum::<usize>()
    };
    // 20,000 seconds (86,400 in `bench/deep`), in one of four of which a client sends 100 bytes to
    // it.
    let seconds = if std::env::var_os("NETCALIPER_INPUTS").is_some() { 86_400 } else { 20_000 };
    let mut most = 0;
    for index in 0..seconds {
        let local = if index % 4 == 0 { traffic(0, 100, SECOND) } else { traffic(0, 0, SECOND) };
        let samples = vec![sample; 9];
        builder.absorb(&interval(Interval { local, samples, ..second(index, 0, None) }));
        if index % 5_000 == 1_000 {
            most = most.max(gathered(&builder));
        }
    }
    // 512 as they came with their 9 samples, and 512 joined without.
    assert!(most.max(gathered(&builder)) <= 512 * 10 + 512, "{most}");
    let outcome = builder.outcome();
    let (point, sent) = (&outcome.points[0], u64::from(seconds / 4) * 100);
    assert_eq!(point.local.traffic.rx_bytes, sent);
    let up = point.up.unwrap();
    assert_eq!(up.received_bytes, sent);
    // Idle seconds are none in which it received.
    local(up.goodput_bps, 800.0);
    local(up.per_interval.unwrap().mean, 800.0);
    assert_eq!(outcome.notices.len(), 1, "{:?}", outcome.notices);
    let told = &outcome.notices[0];
    assert!(told.starts_with("the first ") && told.contains("joined to"), "{told}");
    assert!(told.contains("the spread over the intervals is that of the later ones"), "{told}");
    let joined: usize = told.split(' ').nth(2).unwrap().parse().unwrap();
    assert!((seconds as usize - joined) < 512, "{told}");
    let known = builder.meanwhile();
    let unmerged = point.intervals.len() - known.joined;
    assert_eq!(unmerged, seconds as usize - joined, "the unmerged ones are unchanged");
    assert_eq!(known.busy.ns, known.busy.rx_bytes / 100 * SECOND, "the seconds in which anything came");
}

#[test]
fn the_outcome_can_be_had_at_any_moment() {
    let mut builder = Builder::default();
    let mut events = vec![begin("tcp"), of(Pattern::Push), session(0)];
    events.push(interval(second(0, 100, Some(90))));
    events.push(Event::Local(Box::new(totals(traffic(100, 0, SECOND)))));
    events.push(Event::Remote(Box::new(totals(traffic(0, 95, SECOND)))));
    events.extend(complete());
    let received = events.iter().map(|event| {
        builder.absorb(event);
        builder.outcome().points.first().and_then(|p| p.up).map(|up| up.received_bytes)
    });
    let received: Vec<Option<u64>> = received.collect();
    assert_eq!(received, [None, Some(0), Some(0), Some(90), Some(90), Some(95), Some(95), Some(95)]);
}
