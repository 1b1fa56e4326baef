//! What people read. The expected lines were written by hand from the numbers in `common`.

use crate::common::{built, events, single, text_of};
use metrics::{DistSummary, Frames, Packets, SECOND, Spread, TcpTotals};
use model::{
    Accepted, Begin, Direction, Event, HostSnapshot, Interval, Kind, Level, Media, Outcome, PacketReport,
    Pattern, Phase, Ping, PingCounts, PingInterval, Point, Probe, SessionInfo, Status, Totals, Traffic,
};
use report::{Console, Detail, Style, replay};
use std::collections::BTreeMap;

const PLAIN: Style =
    Style { detail: Detail::Full, color: false, verbose: false, linear_ns: None, columns: None };
const VERBOSE: Style = Style { verbose: true, ..PLAIN };

fn live(style: Style, events: &[Event]) -> String {
    let mut console = Console::new(style);
    let mut out = Vec::new();
    events.iter().for_each(|event| console.on_event(event, &mut out).unwrap());
    String::from_utf8(out).unwrap()
}

fn summary(style: Style, outcome: &Outcome) -> String {
    text_of(|out| Console::new(style).summary(outcome, out))
}

trait Holds {
    /// Whether the text holds `lines`, one after the other, exactly.
    fn holds(&self, lines: &[&str]);
}

impl Holds for str {
    #[track_caller]
    fn holds(&self, lines: &[&str]) {
        let wanted = format!("{}\n", lines.join("\n"));
        let found = self.starts_with(&wanted) || self.contains(&format!("\n{wanted}"));
        assert!(found, "no\n{wanted}in\n{self}");
    }
}

#[test]
fn a_run_as_it_happens() {
    let want = "\
warning: the clock of lab2 is not synchronised
tcp both ways, 4 connections of 1.00 GiB to 2.00 GiB, 9 each in turn, 1.00 TiB in all, 4.00 s, the first
  1.00 s omitted, 1.00 KiB to 1.00 MiB buffers, every byte compared, at most 5.00 Gbit/s to 6.00 Gbit/s each,
  drawn from seed 11, at most 100 connections/s
server 10.0.0.2:7411: netcaliper 0.1.1, host lab2 on Linux 6.18, 8 CPUs, idle round trip 123 µs, authenticated
  connections reduced from 8 to 4: limit of this server
  2 other sessions on this server
  elapsed         send      receive  remote recv    open  errors  retrans
   1.00 s  4.01 Gbit/s  1.00 Gbit/s  4.00 Gbit/s       4       0        0 omitted
   2.00 s  8.01 Gbit/s  1.00 Gbit/s  8.00 Gbit/s       4       0        2
   3.00 s  10.0 Gbit/s  1.00 Gbit/s  10.0 Gbit/s       4       0        4
   4.00 s  12.0 Gbit/s  1.00 Gbit/s  12.0 Gbit/s       4       1        6
";
    assert_eq!(live(PLAIN, &single()), want);
    let quiet = live(Style { detail: Detail::Line, ..Style::default() }, &single());
    assert!(!quiet.contains("other session") && !quiet.contains("reduced"), "a result of one line: {quiet}");
}

#[test]
fn verbose_adds_the_command_and_every_connection() {
    let text = live(VERBOSE, &single());
    text.holds(&["netcaliper 0.1.0, run 00000000-0000-0000-0000-000000000007: netcaliper tcp lab2"]);
    text.holds(&[
        "connection 00000000-0000-0000-0000-000000000001 to 10.0.0.2:7411: completed, 977 KiB sent, 488 KiB \
             received in 2.00 s",
        "connection 00000000-0000-0000-0000-000000000000 to 10.0.0.2:7411: network error, 0 B sent, 0 B \
             received in 0 ns: =connecting: Connection refused",
    ]);
}

fn phase(phase: Phase) -> Event {
    Event::Phase { label: BTreeMap::new(), repeat: 1, phase: Box::new(phase) }
}

/// What a phase with one interval prints.
fn measuring(style: Style, of: Phase, interval: Interval) -> String {
    live(style, &[phase(of), Event::Interval(Box::new(interval))])
}

fn interval(end: u64) -> Event {
    let (start_ns, end_ns) = ((end - 1) * SECOND, end * SECOND);
    Event::Interval(Box::new(Interval { start_ns, end_ns, ..Interval::default() }))
}

/// An interval of 8 s at `rate` bits/s each way, in datagrams of 1400 bytes of which one in ten is
/// lost; round trips of a second.
fn at_rate(rate: u64) -> Interval {
    let traffic = Traffic { tx_bytes: rate, rx_bytes: rate, ns: 8 * SECOND, ..Traffic::default() };
    let delay =
        DistSummary { count: 1, p50: SECOND, p99: SECOND + 1, max: 99 * SECOND, ..DistSummary::default() };
    let (sent, lost) = (rate / 1400, (rate / 14_000) as i64);
    let mut packets = PacketReport::from(Packets { sent, received: sent, lost, ..Packets::default() });
    packets.delay_ns = Some(delay);
    let counts = PingCounts { sent: rate, received: rate, lost: (rate / 10) as i64, ..PingCounts::default() };
    let (min_ns, mean_ns, max_ns, p50_ns) = (SECOND, 1e9, 9_999 * SECOND, Some(999_960_000));
    let pings = PingInterval {
        counts,
        count: rate,
        min_ns,
        mean_ns,
        p50_ns,
        p99_ns: p50_ns,
        max_ns,
        ..PingInterval::default()
    };
    Interval {
        end_ns: 8 * SECOND,
        local: traffic,
        remote: Some(traffic),
        in_flight: rate.min(1_000_000),
        completed: rate,
        opened: rate,
        retransmits: rate / 1400,
        packets: Some(Box::new(packets.clone())),
        remote_packets: Some(Box::new(packets)),
        pings: Some(pings),
        ..Interval::default()
    }
}

#[test]
fn columns_hold_from_one_bit_a_second_to_400_gigabits() {
    let probe = |kind| Phase { kind, probe: Some(Probe::default()), ..Phase::default() };
    let ping = Phase { kind: Kind::Ping, ping: Some(Ping::default()), ..Phase::default() };
    let connect = Phase { kind: Kind::Connect, ..Phase::default() };
    let rates = [1, 9, 10, 999_950, 1_000_000, 9_999_500_000, 100_000_000_000, 400_000_000_000];
    for rate in rates {
        for pattern in [Pattern::Push, Pattern::Pull, Pattern::Duplex] {
            for of in
                [Phase::default(), probe(Kind::Delay), probe(Kind::Train), ping.clone(), connect.clone()]
            {
                let of = Phase { pattern, ..of };
                let text = measuring(Style::default(), of, at_rate(rate));
                let lines: Vec<&str> = text.lines().collect();
                let [header, values] = lines[lines.len() - 2..] else { panic!("{text}") };
                let wide = |line: &str| line.chars().count();
                assert!(
                    wide(values) == wide(header) && wide(header) <= 80,
                    "{rate}, {pattern}: {header}\n{values}"
                );
            }
        }
    }
    let tcp = |rate| measuring(Style::default(), Phase::default(), at_rate(rate));
    assert!(tcp(1).contains("      1 bit/s      1 bit/s"), "{}", tcp(1));
    assert!(tcp(400_000_000_000).contains("   400 Gbit/s   400 Gbit/s"), "{}", tcp(400_000_000_000));
}

#[test]
fn the_header_comes_again_every_40_lines_and_with_each_phase() {
    let headers = |text: &str| -> Vec<usize> {
        text.lines().enumerate().filter(|(_, l)| l.contains("elapsed")).map(|(at, _)| at).collect()
    };
    let mut events: Vec<Event> = (1..=81).map(interval).collect();
    assert_eq!(headers(&live(PLAIN, &events)), [0, 41, 82]);
    events.truncate(2);
    events.extend([phase(Phase::default()), interval(3)]);
    assert_eq!(headers(&live(PLAIN, &events)), [0, 4]);
}

#[test]
fn a_direction_that_is_not_used_has_no_column_and_a_silent_remote_end_a_dash() {
    let local = Traffic { tx_bytes: 125_000, rx_bytes: 125_000, ns: SECOND, ..Traffic::default() };
    let second = Interval { end_ns: SECOND, local, ..Interval::default() };
    let line = |pattern| {
        let text = measuring(PLAIN, Phase { pattern, ..Phase::default() }, second.clone());
        text.lines().last().unwrap().to_owned()
    };
    let push = "   1.00 s  1.00 Mbit/s            -       0         0       0        0";
    let pull = "   1.00 s  1.00 Mbit/s       0         0       0        0";
    assert_eq!(line(Pattern::Push), push);
    assert_eq!(line(Pattern::Pull), pull);
}

#[test]
fn connect_and_serve_have_their_own_columns() {
    let half =
        Interval { end_ns: SECOND / 2, opened: 600, in_flight: 3, completed: 597, ..Interval::default() };
    let connect = Phase { kind: Kind::Connect, ..Phase::default() };
    measuring(PLAIN, connect, half.clone()).holds(&[
        "  elapsed  connects/s    open  finished  errors  retrans",
        "   0.50 s        1200       3       597       0        0",
    ]);
    let begin = Begin { verb: "serve".to_owned(), ..Begin::default() };
    let local = Traffic { tx_bytes: 0, rx_bytes: 125_000_000, ns: SECOND, ..Traffic::default() };
    let second = Interval { end_ns: SECOND, local, ..half };
    let events = [Event::Begin(Box::new(begin)), phase(Phase::default()), Event::Interval(Box::new(second))];
    let want = "  elapsed         send      receive    open  finished  errors  retrans\n   \
                1.00 s      0 bit/s  1.00 Gbit/s       3       597       0        0\n";
    assert_eq!(live(PLAIN, &events), want);
}

#[test]
fn colour_marks_what_matters_and_nothing_else_is_escaped() {
    let style = Style { color: true, ..PLAIN };
    let text = live(style, &single());
    assert!(text.contains("\x1b[33mwarning: the clock of lab2 is not synchronised\x1b[0m\n"), "{text}");
    assert!(text.contains("\x1b[31m   4.00 s "), "an interval with errors is red: {text}");
    assert_eq!(text.replace("\x1b[0m", "").matches('\x1b').count(), text.matches("\x1b[0m").count());
    let evil = Event::Notice { level: Level::Info, text: "\x1b[2Jgone".to_owned() };
    assert!(!live(style, &[evil]).contains('\x1b'));
    for plain in [live(VERBOSE, &events()), summary(VERBOSE, &built(&events()))] {
        assert!(!plain.contains('\x1b'), "{plain}");
    }
}

#[test]
fn the_summary_says_who_counted_what() {
    let text = summary(PLAIN, &built(&single()));
    // To the server: 3.75 GB received in 3 s, 3.753 GB sent. Intervals of 8, 10 and 12 Gbit/s: sd
    // 2, and too few for a ±.
    text.holds(&[
        "Goodput (as the receiver counted it)",
        "  client to server   10.0 Gbit/s  received: 3.49 GiB, counted by the server",
        "                     10.0 Gbit/s  sent: 3.50 GiB, counted by the client",
        "    3 intervals     mean 10.0 Gbit/s, sd 2.00 Gbit/s, min 8.00 Gbit/s, max 12.0 Gbit/s",
        "  server to client   1.00 Gbit/s  received: 358 MiB, counted by the client",
        "                     1.00 Gbit/s  sent: 359 MiB, counted by the server",
        "    3 intervals     mean 1.00 Gbit/s, sd 0 bit/s, min 1.00 Gbit/s, max 1.00 Gbit/s",
        "  both directions    11.0 Gbit/s",
    ]);
    text.holds(&[
        "Connections             opened  completed  stopped  network err  data err  protocol err  peak",
        "  this end                   6          3        4            1         0             0     4",
        "  server 10.0.0.2:7411       6          3        4            1         0             0     4",
        "",
        "Failures by cause",
        "        1 x connecting: Connection refused (network error, counted by this end)",
        "            first: 10.0.0.2:7411: connecting: Connection refused (os error 111)",
    ]);
    text.holds(&[
        "Run interrupted: 10.0 Gbit/s to server (8.00 Gbit/s to 12.0 Gbit/s, 3 intervals), 1.00 Gbit/s from server,",
        "  1 connection FAILED, stopped by SIGINT",
    ]);
}

#[test]
fn the_summary_of_the_connections() {
    // 12.5, 25, 31.25 and 50 MB/s are 100, 200, 250 and 400 Mbit/s. 4 GiB in 14 s over 7
    // connections: 2.45 Gbit/s, 2 s. Jain's index of the rates 1 and 3: 16 / (2 x 10).
    summary(PLAIN, &built(&single())).holds(&[
        "Rates (this end)          min        mean         p50  p90  p99         max  count",
        "  of a connection  100 Mbit/s  250 Mbit/s  200 Mbit/s    -    -  400 Mbit/s      4",
        "  Jain's fairness index 0.800 (1 is even)",
        "",
        "Times (this end)           min     mean      p50  p90  p99  p99.9      max  count",
        "  to connect            100 µs   250 µs   200 µs    -    -      -   400 µs      4",
        "  transfer              1.00 s   2.50 s   2.00 s    -    -      -   4.00 s      4",
        "  paced sends late by  1.00 µs  2.50 µs  2.00 µs    -    -      -  4.00 µs      4",
        "",
        "By remote address  connections  failed  sent to it  received from it    mean rate  mean time",
        "  10.0.0.2                   7       1    3.00 GiB          1.00 GiB  2.45 Gbit/s     2.00 s",
    ]);
}

#[test]
fn the_summary_of_the_hosts() {
    // RTT 2460/10 = 246 µs under load, 101 the smallest: 145/101. 3.5 of 10 s waiting for the
    // window. 2 MB of 4 GB sent twice. CPU 2 s for 3.75 + 0.375 GB and 0.625 GB before they
    // counted: 0.421 s/GB; 6 of 24 s busy; 0.06 of 24 s stolen is 0.25 %.
    summary(PLAIN, &built(&single())).holds(&[
        "TCP                     retransmits    resent  min RTT  mean RTT  window-limited  buffer-limited",
        "  this end                       12  1.91 MiB   101 µs    246 µs            35 %           0.5 %",
        "  server 10.0.0.2:7411           12  1.91 MiB   101 µs    246 µs            35 %           0.5 %",
        "  TCP efficiency 99.950 %: the share of all bytes sent that were not sent again (RFC 6349)",
        "  Buffer delay 144 %: the load's addition to the smallest round trip (RFC 6349)",
        "",
        "CPU                     process    user  system  whole machine  busiest CPU  stolen",
        "  this end               2.00 s  0.50 s  1.50 s           25 %         97 %  0.25 %",
        "  server 10.0.0.2:7411   2.00 s  0.50 s  1.50 s           25 %         97 %  0.25 %",
        "  CPU seconds per GB (10^9 payload bytes): this end 0.421, the servers 0.421",
        "",
        "Settings in effect      congestion  send buffer  receive buffer  nodelay   MSS  TOS  TTL",
        "  this end                   cubic      416 KiB        8.00 MiB       on  1388  184   64",
        "  server 10.0.0.2:7411       cubic      416 KiB        8.00 MiB       on  1388  184   64",
        "",
        "Verification  this end: every byte compared; server 10.0.0.2:7411: every byte compared",
        "Placement     this end: 2 workers (cores 0,1) on 8 CPUs; server 10.0.0.2:7411: 1 worker (spread) on 8 CPUs",
    ]);
    summary(VERBOSE, &built(&single())).holds(&[
        "Host of this end: lab1",
        "  Linux 6.18, 8 x EPYC, 16.0 GiB, default congestion control cubic, clock synchronised within 2.00 ms",
        "  eth0 (virtio_net), MTU 1500, 10000 Mbit/s, qdisc fq, offloads tso gro",
        "  net.core.rmem_max = 212992",
    ]);
}

#[test]
fn ends_without_tcp_have_no_row_of_zeros() {
    let mut outcome = built(&single());
    outcome.points[0].remote[0].tcp = TcpTotals::default();
    summary(PLAIN, &outcome).holds(&[
        "TCP         retransmits    resent  min RTT  mean RTT  window-limited  buffer-limited",
        "  this end           12  1.91 MiB   101 µs    246 µs            35 %           0.5 %",
        "  TCP efficiency 99.950 %: the share of all bytes sent that were not sent again (RFC 6349)",
    ]);
    outcome.points[0].local.tcp = TcpTotals::default();
    assert!(!summary(PLAIN, &outcome).contains("\nTCP "));
}

#[test]
fn a_server_that_tells_nothing_of_itself_is_not_told_as_one_of_ours() {
    let silent = SessionInfo {
        version: String::new(),
        accepted: Accepted::default(),
        host: HostSnapshot::default(),
        workers: 0,
        placement: String::new(),
        base_rtt_ns: 0,
        ..crate::common::session()
    };
    for (authenticated, said) in [(true, ": authenticated"), (false, "")] {
        let session = Event::Session(Box::new(SessionInfo { authenticated, ..silent.clone() }));
        assert_eq!(live(PLAIN, &[session]), format!("server 10.0.0.2:7411{said}\n"));
    }
    let mut outcome = built(&single());
    outcome.points[0].sessions = vec![silent];
    summary(PLAIN, &outcome).holds(&["Placement     this end: 2 workers (cores 0,1) on 8 CPUs"]);
    let page = text_of(|out| report::write_html(&outcome, out));
    assert!(page.contains("<li>lab2 is 10.0.0.2:7411; authenticated</li>"), "{page}");
}

#[test]
fn caveats_come_with_their_advice() {
    summary(PLAIN, &built(&single())).holds(&[
        "  caution: other-sessions: Up to 2 other sessions were on a server meanwhile and shared it.",
        "    > Use --exclusive, or repeat when the server is idle.",
    ]);
    let sound = Outcome { points: vec![Point::default()], ..Outcome::default() };
    assert!(!summary(PLAIN, &sound).contains("Caveats"));
}

/// A sweep of two buffer sizes, each measured twice.
fn swept() -> Outcome {
    measured(&[("1024", 1, 100), ("65536", 1, 900), ("1024", 2, 300), ("65536", 2, 900)])
}

/// What was measured with buffers (none: no sweep) in repetitions, Mbit/s.
fn measured(phases: &[(&str, u32, u64)]) -> Outcome {
    let mut events = Vec::new();
    for &(buffer, repeat, mbit) in phases {
        let totals = |tx_bytes, rx_bytes| {
            Box::new(Totals {
                traffic: Traffic { tx_bytes, rx_bytes, ns: SECOND, ..Traffic::default() },
                ..Totals::default()
            })
        };
        let mut label = BTreeMap::from([("buffer".to_owned(), buffer.to_owned())]);
        label.retain(|_, value| !value.is_empty());
        let mut local = totals(mbit * 125_000, 0);
        local.network_errors = u64::from(repeat == 2 && buffer == "1024");
        events.push(Event::Phase { label, repeat, phase: Box::default() });
        events.extend([Event::Local(local), Event::Remote(totals(0, mbit * 125_000))]);
        events.push(Event::PhaseEnd { status: Status::Complete, reason: None });
    }
    events.push(Event::End { status: Status::Complete, reason: None });
    built(&events)
}

#[test]
fn repetitions_are_a_mean_and_how_well_it_is_known() {
    // 100 and 300: mean 200, sd 141; of two readings no ± is shown.
    let text = summary(PLAIN, &measured(&[("", 1, 100), ("", 2, 300)]));
    text.holds(&["  goodput to server     2  200 Mbit/s       -  141 Mbit/s  100 Mbit/s  300 Mbit/s"]);
    assert!(!text.contains("Sweep"), "{text}");
    let last = "\nRun complete: goodput to server 200 Mbit/s (100 Mbit/s to 300 Mbit/s) in 2 runs\n";
    assert!(text.ends_with(last), "{text}");
    let mut one = measured(&[("", 1, 100), ("", 2, 300)]);
    one.points[1].status = Status::Failed;
    let text = summary(PLAIN, &one);
    assert_eq!(text.lines().last(), Some("Run complete: goodput to server 100 Mbit/s in 1 run"), "{text}");
}

#[test]
fn a_load_tells_how_often_it_was_repeated() {
    let point = |stage: &str, repeat| {
        let label = [("stage", stage), ("part", "trips")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let pings = Some(Box::new(crate::common::round_trips()));
        let phase = Phase { kind: Kind::Ping, ping: Some(Ping::default()), ..Phase::default() };
        let local = Totals { pings, ..Totals::default() };
        Point { label, repeat, phase, local, status: Status::Complete, ..Point::default() }
    };
    let load = |points: Vec<Point>| {
        let begin = Begin { verb: "load".to_owned(), ..Begin::default() };
        Outcome { begin, points, status: Status::Complete, ..Outcome::default() }
    };
    let twice = load(vec![point("idle", 1), point("down", 1), point("idle", 2), point("down", 2)]);
    let text = summary(PLAIN, &twice);
    assert!(text.contains("  figures of 2 repetitions together: "), "{text}");
    assert_eq!(
        text.lines().last(),
        Some("Run complete: latency under load: A+ (+0 ns, median), 2 repetitions"),
        "{text}"
    );
    let once = summary(PLAIN, &load(vec![point("idle", 1), point("down", 1)]));
    assert!(!once.contains("repetitions"), "{once}");
}

#[test]
fn a_sweep_is_a_table() {
    // 100 and 300: mean 200, sd sqrt(2 x 100^2) = 141.
    let text = summary(PLAIN, &swept());
    text.holds(&[
        "Sweep: as the receivers counted; mean and standard deviation over the runs",
        "buffer      runs  goodput to server        ± sd         min         max  errors  CPU s/GB",
        "  1.00 KiB     2         200 Mbit/s  141 Mbit/s  100 Mbit/s  300 Mbit/s       1         -",
        "  64.0 KiB     2         900 Mbit/s     0 bit/s  900 Mbit/s  900 Mbit/s       0         -",
    ]);
    assert!(!text.contains("Goodput"), "no details unless asked for: {text}");
    text.holds(&[
        "  caution: too-short (in 4 of 4 runs): Only 1.00 s in 0 intervals were measured: too little to show how much",
    ]);
    // The interval of two readings of 100 and 300 reaches beyond 900.
    text.holds(&[
        "Run complete: 2 settings, best buffer 64.0 KiB: 900 Mbit/s (no significant difference to 1 other), no knee",
        "  within the sweep, 1 connection FAILED",
    ]);
    let brief = summary(Style { columns: Some(80), ..Style::default() }, &swept());
    assert_eq!(brief.matches("best buffer").count(), 1, "{brief}");
    let many: Vec<(String, u32, u64)> = (1..=13).map(|at: u64| ((at << 10).to_string(), 1, at)).collect();
    let many: Vec<(&str, u32, u64)> = many.iter().map(|(of, repeat, rate)| (&**of, *repeat, *rate)).collect();
    let long = summary(Style { columns: Some(80), ..Style::default() }, &measured(&many));
    let last = long.lines().last().unwrap_or_default();
    assert!(
        last.contains("13 settings, best buffer 13.0 KiB"),
        "below a long table the answer is repeated: {long}"
    );
    // 900 and 920 differ by less than 5 %.
    let level = measured(&[("1024", 1, 100), ("65536", 1, 900), ("131072", 1, 920)]);
    assert!(summary(PLAIN, &level).contains("knee at buffer 64.0 KiB: more gains less than 5 %"));
    let verbose = summary(VERBOSE, &swept());
    assert_eq!(verbose.matches("Goodput (as").count(), 4);
    assert!(verbose.contains("server : every byte compared"), "{verbose}");
    assert!(!verbose.contains("this end: every byte compared"), "it received nothing: {verbose}");
    verbose.holds(&[
        "buffer 1.00 KiB, repetition 2: tcp to server, 8 connections, 10.0 s, 256 KiB buffers, every byte compared",
    ]);
}

#[test]
fn no_caveat_is_cut_at_80_columns_in_any_verb() {
    let text =
        "Of 99.9 kbit/s, 99.9 Mbit/s (99.9 ms) were sent by a host, and the sentence goes on and on and on";
    for verb in ["tcp", "connect", "ping", "stream", "delay", "train", "load", "demo"] {
        for (code, level) in model::caveat_levels() {
            let mut outcome = built(&single());
            outcome.begin.verb = verb.to_owned();
            let (code, text, advice) = (code.to_owned(), text.to_owned(), String::new());
            let named = format!("  {}: {code}: ", level.name());
            outcome.points[0].caveats = vec![model::Caveat { code, level, text, advice }];
            let said = summary(Style { columns: Some(80), ..Style::default() }, &outcome);
            let lines = || said.lines().filter(|line| line.starts_with(&named));
            assert!(said.lines().all(|line| line.chars().count() <= 80 && !line.contains('…')), "{said}");
            assert_eq!(lines().count(), usize::from(level != model::CaveatLevel::Note), "{verb}: {said}");
        }
    }
}

#[test]
fn an_unconfirmed_figure_is_called_so() {
    let up = Direction { sent_bytes: 1 << 20, sent_bps: 8e6, goodput_bps: 8e6, ..Direction::default() };
    let point = Point { up: Some(up), ..Point::default() };
    let reason = Some("the server vanished".to_owned());
    let outcome = Outcome { points: vec![point], status: Status::Partial, reason, ..Outcome::default() };
    let text = summary(PLAIN, &outcome);
    text.holds(&[
        "  client to server   8.00 Mbit/s  sent: 1.00 MiB, counted by the client; NOT CONFIRMED by the server",
    ]);
    assert_eq!(
        text.lines().last(),
        Some("Run partial: 8.00 Mbit/s to server by the sender's count, the server vanished")
    );
}

/// The lines of the events and of the answer, in the usual form.
fn all_lines(events: &[Event]) -> String {
    live(Style::default(), events) + &summary(Style::default(), &built(events))
}

#[test]
fn the_cause_of_a_failure_is_printed_once() {
    let why = "10.0.0.2:5001: connecting: Connection refused";
    let (failed, refused) = (Status::Failed, || Some(why.to_owned()));
    let error = |text: &str| Event::Notice { level: Level::Error, text: text.to_owned() };
    let begin = |verb: &str| {
        let targets = vec!["10.0.0.2:5001".to_owned()];
        Event::Begin(Box::new(Begin { verb: verb.to_owned(), targets, ..Begin::default() }))
    };
    let ends = || {
        [
            Event::PhaseEnd { status: failed, reason: refused() },
            Event::End { status: failed, reason: refused() },
        ]
    };
    let run = [vec![begin("tcp"), phase(Phase::default()), error(why)], ends().to_vec()].concat();
    let text = all_lines(&run);
    assert_eq!(text.matches("Connection refused").count(), 1, "{text}");
    // Parts of a stage fail alike, and so does the run.
    let part = |name: &str| {
        let label = [("stage", "idle"), ("part", name)].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        Event::Phase { label, repeat: 1, phase: Box::default() }
    };
    let [part_end, end] = ends();
    let load = [begin("load"), part("trips"), part_end.clone(), part("delay"), part_end, end];
    let text = all_lines(&load);
    assert_eq!(text.matches("Connection refused").count(), 1, "{text}");
    // A failure that is not the reason of the end, and the end of a phase before others, stay.
    let between = [
        vec![begin("tcp"), phase(Phase::default()), error("a worker thread has failed")],
        vec![interval(1), Event::PhaseEnd { status: Status::Complete, reason: None }],
    ];
    assert!(live(Style::default(), &between.concat()).contains("error: a worker thread has failed"));
    let label: BTreeMap<String, String> = [("buffer".to_owned(), "1024".to_owned())].into();
    let step = || Event::Phase { label: label.clone(), repeat: 1, phase: Box::default() };
    let steps = [begin("tcp"), step(), Event::PhaseEnd { status: failed, reason: refused() }, step()];
    assert!(live(Style::default(), &steps).contains(&format!("failed: {why}")));
}

#[test]
fn a_partial_run_names_its_target_and_its_time_once() {
    let reason = "lab2: it closed the control connection after 3.0 s".to_owned();
    let mut outcome = built(&single());
    (outcome.status, outcome.begin.targets) = (Status::Partial, vec!["lab2".to_owned()]);
    outcome.reason = Some(reason);
    let text = summary(Style::default(), &outcome);
    assert!(
        text.contains("Run partial: tcp lab2: it closed the control connection after 3.0 s; until then"),
        "{text}"
    );
}

#[test]
fn a_server_speaks_of_its_clients() {
    let per_interval = Some(Spread { n: 1, mean: 8e6, ..Spread::default() });
    let up = Direction { received_bytes: 1 << 20, goodput_bps: 8e6, confirmed: true, ..Direction::default() };
    let up = Direction { per_interval, ..up };
    let told = |point| {
        let begin = Begin { verb: "serve".to_owned(), ..Begin::default() };
        summary(PLAIN, &Outcome { begin, points: vec![point], ..Outcome::default() })
    };
    told(Point { up: Some(up), ..Point::default() }).holds(&[
        "Goodput (as the receiver counted it)",
        "  client to server   8.00 Mbit/s  received: 1.00 MiB, counted by this server",
        "    1 interval      mean 8.00 Mbit/s",
        "",
    ]);
    let down = Direction { confirmed: false, sent_bps: 8e6, sent_bytes: 1 << 20, ..Direction::default() };
    let line = "  server to client   8.00 Mbit/s  sent: 1.00 MiB, counted by this server; the receivers' counts are theirs";
    told(Point { down: Some(down), ..Point::default() }).holds(&[line]);
}

#[test]
fn a_stream_is_about_frames() {
    let media = Media::new(25_000_000, 60, 2, 1, 1_400).unwrap();
    let phase = Phase {
        kind: Kind::Stream,
        pattern: Pattern::Pull,
        media: Some(media),
        connections: 2,
        duration_ns: None,
        ..Phase::default()
    };
    let frames = Frames { completed: 118, dropped: 1, repeated: 1, errors: 2 };
    let local = Traffic { tx_bytes: 0, rx_bytes: 6_250_000, ns: SECOND, ..Traffic::default() };
    let second =
        Interval { end_ns: SECOND, local, frames: Some(frames), in_flight: 2, ..Interval::default() };
    measuring(PLAIN, phase.clone(), second).holds(&[
        "  elapsed      receive    whole  dropped  repeated    stray  streams  errors",
        "   1.00 s  50.0 Mbit/s      118        1         1        2        2       0",
    ]);
    let traffic = Traffic { tx_bytes: 0, rx_bytes: 6 << 20, ns: 3 * SECOND, ..Traffic::default() };
    let local = Totals { traffic, opened: 2, completed: 2, frames: Some(frames), ..Totals::default() };
    let point = Point { phase, local, status: Status::Complete, ..Point::default() };
    let outcome = Outcome { points: vec![point.clone()], status: Status::Complete, ..Outcome::default() };
    let text = summary(PLAIN, &outcome);
    text.holds(&[
        "Frames (as the receiver judged them when they were to be shown)",
        "  whole              118        98 %  every byte had come in time",
        "  dropped              1      0.83 %  bytes were missing: lost, or too late",
        "  repeated             1      0.83 %  more bytes arrived than the frame has",
        "  stray                2              datagrams of frames that were shown already, or far ahead",
        "  received: 6.00 MiB in 3.00 s, the time that frames are held included",
    ]);
    text.holds(&["Run complete: 118 of 120 frames whole and in time"]);
    assert!(!text.contains("TCP") && !text.contains("Goodput"), "{text}");
    let begin = Begin { verb: "serve".to_owned(), ..Begin::default() };
    let text = summary(PLAIN, &Outcome { begin, points: vec![point], ..Outcome::default() });
    text.holds(&["Streams sent (what arrives is known to the receivers alone)", "  sent: 0 B in 3.00 s"]);
}

#[test]
fn connect_is_about_connections() {
    let buckets = vec![(100_000, 100), (200_000, 1), (400_000, 0)];
    let connect_ns = Some(DistSummary { count: 101, buckets, ..DistSummary::default() });
    let cpu = Some(model::CpuUse { user_s: 0.5, system_s: 1.5, ..Default::default() });
    let local = Totals { opened: 20_000, connect_ns, cpu, ..Totals::default() };
    let second = |at: u64| Interval {
        start_ns: at * SECOND,
        end_ns: (at + 1) * SECOND,
        opened: if at == 0 { 8_000 } else { 4_000 },
        ..Interval::default()
    };
    let phase = Phase { kind: Kind::Connect, ..Phase::default() };
    let point = Point { phase, local, intervals: (0..4).map(second).collect(), ..Point::default() };
    let outcome = Outcome { points: vec![point], status: Status::Complete, ..Outcome::default() };
    let text = summary(PLAIN, &outcome);
    text.holds(&["Connections established (as the client counted them)", "        5000/s  20000 in 4.00 s"]);
    let full = format!("    <= 100 µs        100  {}", "#".repeat(50));
    // One in a hundred would be half a mark of fifty: it is still seen.
    text.holds(&[
        "Time to connect, connections up to each bound",
        &full,
        "    <= 200 µs          1  #",
        "    <= 400 µs          0",
    ]);
    text.holds(&["  CPU time per connection at this end: 100 µs"]); // 2 s for 20,000
    assert_eq!(text.lines().last(), Some("Run complete: 5000 connections/s (4000/s to 8000/s, 4 intervals)"));
    // Six readings: mean 4667, sd 1633, and Student's t of 2.571 at five degrees of freedom: 2.571
    // x 1633 / sqrt(6) = 1714. That is above 30 % of the mean, and reaches below the least reading.
    let mut six = outcome;
    six.points[0].intervals = (0..6).map(second).collect();
    let last = "Run complete: 4667 connections/s (4000/s to 8000/s, 6 intervals)";
    assert_eq!(summary(PLAIN, &six).lines().last(), Some(last));
    assert!(!text.contains("Goodput"), "{text}");
}

#[test]
fn nothing_measured_is_said_in_two_lines() {
    let point = Point { status: Status::Failed, up: Some(Direction::default()), ..Point::default() };
    let reason = Some("10.0.0.2:7411: connection refused".to_owned());
    let outcome = Outcome { points: vec![point], status: Status::Failed, reason, ..Outcome::default() };
    let want = "\nNothing was measured\n\nRun failed: 10.0.0.2:7411: connection refused\n";
    assert_eq!(summary(PLAIN, &outcome), want);
}

#[test]
fn a_replayed_outcome_prints_as_it_did_live() {
    assert_eq!(live(VERBOSE, &replay(&built(&events()))), live(VERBOSE, &events()));
}

#[test]
fn trains_are_told_by_setting() {
    let mut events = events();
    let end = events.pop().unwrap();
    events.truncate(1);
    events.push(phase(crate::common::train_phase()));
    events.push(Event::Trains(Box::new(crate::common::trains())));
    events.push(Event::Local(Box::new(Totals { opened: 1, completed: 1, ..Totals::default() })));
    events.push(Event::PhaseEnd { status: Status::Complete, reason: None });
    events.push(end);
    let outcome = built(&events);
    let text = summary(PLAIN, &outcome);
    // 1000 bytes of IP every 100 µs are 80 Mbit/s; of the six trains back to back one came at a
    // quarter, and one, which had lost a packet, at half of that: the first quartile lies a quarter
    // of the way from 40 to 80.
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = text.lines().map(squeezed).collect();
    for wanted in [
        "back to back 6 18 17 1 0 1 0",
        "every 10.0 µs 6 17 17 0 1 0 1",
        "back to back 80.0 Mbit/s 50.0 Mbit/s 80.0 Mbit/s 80.0 Mbit/s 80.0 Mbit/s 80.0 Mbit/s",
        "repetition 3 at 2.00 s: all settings",
        "repetition 1 at 0 ns: back to back",
        "train 1, packet 2, at 0 ns: lost",
        "train 2, packet 2, at 500 ms: overtaken by 1 packet",
        "train 3, packet 3, at 1.00 s: arrived 1 time more",
        "train 12, packet 3, at 5.50 s: not sent",
    ] {
        assert!(lines.iter().any(|line| line.starts_with(wanted)), "no\n{wanted}\nin\n{text}");
    }
    let verbose = summary(VERBOSE, &outcome);
    let gaps = "Time between arrivals";
    assert!(verbose.contains(gaps) && !text.contains(gaps), "{verbose}");
    // What is saved tells the same.
    assert_eq!(built(&replay(&outcome)), outcome);
}

#[test]
fn a_capacity_is_told_by_layer_and_sub_interval() {
    let mut events = events();
    let end = events.pop().unwrap();
    events.truncate(1);
    let (asked, found) = crate::common::capacity();
    events.push(phase(asked));
    events.push(Event::Capacity(Box::new(found)));
    events.push(Event::Local(Box::new(Totals { opened: 2, completed: 2, ..Totals::default() })));
    events.push(Event::PhaseEnd { status: Status::Complete, reason: None });
    events.push(end);
    let outcome = built(&events);
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = summary(PLAIN, &outcome);
    let lines: Vec<String> = text.lines().map(squeezed).collect();
    for wanted in [
        "Maximum IP-layer capacity from server (as the receiver counted it)",
        "IP packets 100 Mbit/s best sub-interval, 2 of 3, 1.00 s until 2.00 s",
        "link 102 Mbit/s",
        "UDP payload 98.0 Mbit/s",
        "mean 80.0 Mbit/s",
        "first mode 60.0 Mbit/s",
        "second mode 100 Mbit/s",
        "round trip 9 ms at least",
        "2 best 100 Mbit/s 990 10 1 % 1 0/2/7 ms 0/2/7 ms",
    ] {
        assert!(lines.iter().any(|line| line.starts_with(wanted)), "no\n{wanted}\nin\n{text}");
    }
    let line = summary(Style { detail: Detail::Line, ..Style::default() }, &outcome);
    assert!(line.contains("IP capacity 100 Mbit/s from server, mean 80.0 Mbit/s, 1 % lost"), "{line}");
    assert_eq!(built(&replay(&outcome)), outcome);
}

/// What is printed by default, on so many columns.
fn brief(outcome: &Outcome, columns: u16) -> String {
    summary(Style { columns: Some(columns), ..Style::default() }, outcome)
}

#[test]
fn the_result_is_a_dozen_lines_that_begin_with_the_answer() {
    for columns in [80, 100] {
        for outcome in [built(&single()), crate::common::outcome(), swept()] {
            let text = brief(&outcome, columns);
            let lines: Vec<&str> = text.trim().lines().collect();
            let steps = if outcome.points.len() > 1 { outcome.sweep.len() + 1 } else { 0 };
            assert!(lines.len() <= 12 + steps, "{} lines: {text}", lines.len());
            assert!(lines.iter().all(|line| line.chars().count() <= columns.into()), "{text}");
            let named = lines.iter().filter(|line| line.trim_start().starts_with('!')).count();
            assert!(named <= 3, "{text}");
        }
    }
    let text = brief(&built(&single()), 80);
    let answer = "Run interrupted: tcp lab2: 10.0 Gbit/s to server";
    assert!(text.trim().starts_with(answer), "{text}");
    let line = summary(Style { detail: Detail::Line, ..Style::default() }, &built(&single()));
    assert_eq!(line.lines().count(), 1, "{line}");
}

#[test]
fn interval_lines_fit_eighty_columns() {
    let second = Interval { end_ns: 86_400 * SECOND, ..crate::common::interval(1, 50_000_000_000) };
    for kind in [Kind::Tcp, Kind::Connect, Kind::Ping, Kind::Stream, Kind::Delay, Kind::Train] {
        for pattern in [Pattern::Push, Pattern::Pull, Pattern::Duplex] {
            for probe in [None, Some(Probe::default())] {
                let asked = Phase { kind, pattern, probe, ..Phase::default() };
                let text = measuring(PLAIN, asked, second.clone());
                let header = text.lines().rev().nth(1).unwrap();
                assert!(header.chars().count() <= 80, "{kind:?} {pattern}: {header}");
            }
        }
    }
}
