//! Each caveat: raised where it must be, and silent where it must be. Texts are compared with
//! numbers worked out by hand.

use super::table::{baseline, delay, idle, late, late_and_lost, local, moved, ping, remote, round_trips};
use super::*;
use crate::builder::tests::{second, session_info};
use crate::*;
use metrics::{ClockFound, Dist, DistSummary, Ending, Packets, SECOND, Spread, TcpTotals};

/// A run in which nothing is wrong: cubic over a quiet network, five even seconds, both ends heard.
pub(super) fn sound() -> (Point, Begin) {
    let host = |name: &str| HostSnapshot { name: name.to_owned(), cpus: 16, ..HostSnapshot::default() };
    let session = SessionInfo { host: host("there"), workers: 8, ..session_info(100_000) };
    let effective =
        Effective { congestion: Some("cubic".to_owned()), nodelay: Some(true), ..Effective::default() };
    let totals = |who: &str, tx_bytes, rx_bytes| Totals {
        who: who.to_owned(),
        traffic: Traffic { tx_bytes, rx_bytes, ns: 5 * SECOND, ..Traffic::default() },
        opened: 40,
        completed: 32,
        stopped: 8,
        rate: Some(DistSummary { count: 40, ..DistSummary::default() }),
        effective: Some(effective.clone()),
        ..Totals::default()
    };
    let steady = Spread { n: 5, mean: 8_000.0, ..Spread::default() };
    let up = Direction {
        sent_bytes: 5_000,
        received_bytes: 5_000,
        confirmed: true,
        per_interval: Some(steady),
        ..Direction::default()
    };
    let point = Point {
        status: Status::Complete,
        sessions: vec![session],
        intervals: (0..5).map(|index| second(index, 1_000, Some(1_000))).collect(),
        up: Some(up),
        local: totals("client", 5_000, 0),
        remote: vec![totals("10.0.0.2", 0, 5_000)],
        ..Point::default()
    };
    let begin = Begin {
        verb: "tcp".to_owned(),
        host: host("here"),
        placement: "spread".to_owned(),
        workers: 8,
        ..Begin::default()
    };
    (point, begin)
}

/// The caveats that appear when `spoil` is done to the sound run.
pub(super) fn caveats(spoil: impl FnOnce(&mut Point, &mut Begin)) -> Vec<Caveat> {
    let (mut point, mut begin) = sound();
    spoil(&mut point, &mut begin);
    caveats_about(&point, &begin)
}

/// The text of the only caveat that appears, which must have the code `code` and an advice.
fn only(code: &str, spoil: impl FnOnce(&mut Point, &mut Begin)) -> String {
    let found = caveats(spoil);
    let codes: Vec<&str> = found.iter().map(|d| d.code.as_str()).collect();
    assert_eq!(codes, [code], "{found:#?}");
    let sentence = |s: &str| s.ends_with('.') && s.matches(". ").count() == 0;
    assert!(sentence(&found[0].text) && sentence(&found[0].advice), "{found:#?}");
    found[0].text.clone()
}

fn silent(spoil: impl FnOnce(&mut Point, &mut Begin)) {
    assert_eq!(caveats(spoil), []);
}

/// A machine whose work is all this program's.
pub(super) fn cpu(busiest: f64, machine_s: f64, steal_s: f64) -> Option<CpuUse> {
    Some(CpuUse { busiest, machine_s, steal_s, user_s: machine_s, available_s: 100.0, ..CpuUse::default() })
}

#[test]
fn a_sound_run_raises_none() {
    silent(|_, _| {});
}

#[test]
fn cpu_bound() {
    let want = "A CPU was the limit (the busiest CPU of server 10.0.0.2 was 97 % busy and its whole machine 62 %): this \
                is what the hosts manage, not what the path carries.";
    assert_eq!(only("cpu-bound", |p, _| p.remote[0].cpu = cpu(0.97, 62.0, 0.0)), want);
    let text = only("cpu-bound", |p, _| {
        p.local.cpu = cpu(0.93, 91.0, 0.0);
        p.remote[0].cpu = cpu(0.99, 50.0, 0.0);
    });
    let both = "of this host was 93 % busy and its whole machine 91 %; the busiest CPU of server";
    assert!(text.contains(both), "{text}");
}

#[test]
fn a_host_that_other_programs_keep_busy_is_not_our_limit() {
    // 5 s long: a CPU of ours would be 4.75 s of work, and half the machine's 45.5 s.
    let busy = |busiest, machine_s, user_s, softirq_s| {
        Some(CpuUse { busiest, machine_s, user_s, softirq_s, available_s: 100.0, ..CpuUse::default() })
    };
    let text = only("host-busy", |p, _| p.local.cpu = busy(0.97, 62.0, 1.0, 1.0));
    let others = "Other programs kept a host busy (the busiest CPU of this host was 97 %";
    assert!(text.starts_with(others), "{text}");
    only("host-busy", |p, _| p.local.cpu = busy(0.5, 91.0, 20.0, 20.0));
    only("host-busy", |p, _| p.local.cpu = busy(0.97, 62.0, 2.7, 2.0));
    only("cpu-bound", |p, _| p.local.cpu = busy(0.97, 62.0, 2.8, 2.0));
    only("cpu-bound", |p, _| p.local.cpu = busy(0.5, 91.0, 25.5, 20.0));
    // With 5 s more that are omitted a CPU of ours would be 9.5 s.
    let longer = |user_s| busy(0.97, 62.0, user_s, 2.0).map(|cpu| CpuUse { wall_s: 10.0, ..cpu });
    only("host-busy", |p, _| p.local.cpu = longer(7.4));
    only("cpu-bound", |p, _| p.local.cpu = longer(7.6));
}

#[test]
fn a_sender_that_spins_and_keeps_its_schedule_is_not_bound_by_its_cpu() {
    let raised = |waiting, spoil: fn(&mut Point)| {
        let found = caveats(|p, _| {
            delay(p);
            p.phase.probe.as_mut().unwrap().waiting = waiting;
            p.local.cpu = cpu(0.97, 62.0, 0.0);
            // A quarter of the spacing, which is a millisecond.
            local(p).late_ns = late(250_000);
            spoil(p);
        });
        found.iter().any(|caveat| caveat.code == "cpu-bound")
    };
    assert!(raised(Waiting::Block, |_| {}));
    assert!(!raised(Waiting::Spin, |_| {}) && !raised(Waiting::Hybrid, |_| {}));
    assert!(raised(Waiting::Hybrid, |p| local(p).late_ns = late(250_001)), "late");
    assert!(raised(Waiting::Hybrid, |p| local(p).counts.unsent = 1), "not sent");
    assert!(raised(Waiting::Hybrid, |p| local(p).counts.sent = 0), "a receiver does not spin");
    assert!(raised(Waiting::Spin, |p| p.phase.rate = None), "as fast as it goes");
}

#[test]
fn steal() {
    let text = only("cpu-steal", |p, _| p.local.cpu = cpu(0.5, 50.0, 2.5));
    assert!(text.contains("2.5 % of the CPU time of this host"), "{text}");
}

#[test]
fn window_limited() {
    let busy = TcpTotals { busy_us: 1_000, ..TcpTotals::default() };
    let tcp = |rwnd_limited_us, sndbuf_limited_us| TcpTotals { rwnd_limited_us, sndbuf_limited_us, ..busy };
    let text = only("window-limited", |p, _| p.local.tcp = tcp(430, 120));
    assert!(text.contains("(this host waited for the receiver's window 43 % of its busy time)"), "{text}");
    let text = only("window-limited", |p, _| p.local.tcp = tcp(300, 250));
    assert!(text.contains("window 30 % of its busy time and for its own send buffer 25 % of its"), "{text}");
    only("window-limited", |p, _| p.local.tcp = tcp(0, 201));
    silent(|p, _| p.local.tcp = tcp(200, 200));
    silent(|p, _| p.remote[0].tcp = tcp(900, 0)); // it sent no payload
}

#[test]
fn too_short() {
    let text = only("too-short", |p, _| p.intervals.truncate(2));
    assert!(text.starts_with("Only 5.00 s in 2 intervals were"), "{text}");
    let text = only("too-short", |p, _| p.local.traffic.ns = 1_500_000_000);
    assert!(text.starts_with("Only 1.50 s in 5 intervals were"), "{text}");
}

/// Gives the intervals these rates at the receiver.
fn received(point: &mut Point, bytes: [u64; 5]) {
    for (interval, rx_bytes) in point.intervals.iter_mut().zip(bytes) {
        interval.remote = Some(Traffic { tx_bytes: 0, rx_bytes, ns: SECOND, ..Traffic::default() });
    }
}

#[test]
fn slow_start() {
    let text = only("slow-start", |p, _| received(p, [600, 1_000, 990, 1_010, 1_000]));
    assert!(text.starts_with("The first interval was 40 % below the median of the others"), "{text}");
    silent(|p, _| {
        received(p, [600, 1_000, 990, 1_010, 1_000]);
        p.phase.omit_ns = SECOND;
    });
    // Of ten intervals the first one matters half as much.
    let ten = |p: &mut Point, first: u64| {
        p.intervals = (0..10).map(|index| second(index, 1_000, Some(1_000))).collect();
        p.intervals[0] = second(0, 1_000, Some(first));
    };
    silent(|p, _| ten(p, 801));
    only("slow-start", |p, _| ten(p, 799));
    // An omitted first second is no reading.
    silent(|p, _| {
        received(p, [600, 1_000, 990, 1_010, 1_000]);
        p.intervals[0].omitted = true;
    });
}

#[test]
fn unstable() {
    let spread = |sd| Some(Spread { n: 5, mean: 100.0, sd, ..Spread::default() });
    let text = only("unstable", |p, _| p.up.as_mut().unwrap().per_interval = spread(25.0));
    assert!(text.contains("(goodput to the server varied by 25 % from interval to interval)"), "{text}");
    let text = only("unstable", |p, _| {
        p.phase.kind = Kind::Connect;
        p.intervals.iter_mut().zip([100, 200, 300, 400, 500]).for_each(|(i, n)| i.opened = n);
    });
    // 100..500: mean 300, sd sqrt(25000) = 158.1, 53 %.
    assert!(text.contains("(connections per second varied by 53 % from"), "{text}");
}

#[test]
fn loopback() {
    only("loopback", |p, _| p.sessions[0].address = "127.0.0.1:7411".parse().unwrap());
    only("loopback", |p, _| p.sessions[0].address = "[::ffff:127.0.0.1]:7411".parse().unwrap());
    only("loopback", |_, b| b.host.nic = Some(NicSnapshot { loopback: true, ..NicSnapshot::default() }));
    silent(|_, b| b.host.nic = Some(NicSnapshot::default()));
}

#[test]
fn congestion_control() {
    let name = |p: &mut Point, local: &str, remote: &str| {
        p.local.effective.as_mut().unwrap().congestion = Some(local.to_owned());
        p.remote[0].effective.as_mut().unwrap().congestion = Some(remote.to_owned());
    };
    let text = only("congestion-control", |p, _| name(p, "bbr", "cubic"));
    assert!(text.contains("(this host used bbr; server 10.0.0.2 used cubic)"), "{text}");
    silent(|p, _| name(p, "cubic", "bbr")); // the server sent nothing
    silent(|p, _| {
        name(p, "bbr", "bbr");
        p.phase.rate = Some(1_000);
    });
}

#[test]
fn placement() {
    let text = only("placement", |p, b| {
        b.host.cpus = 2;
        p.sessions[0].host = b.host.clone();
    });
    assert!(text.starts_with("Both ends shared the 2 CPUs of one host"), "{text}");
    let text = only("placement", |p, _| (p.sessions[0].host.cpus, p.sessions[0].workers) = (4, 3));
    assert!(text.contains("(server 10.0.0.2:7411 ran 3 workers on 4 CPUs)"), "{text}");
    silent(|p, _| {
        p.sessions[0].host.cpus = 4;
        p.sessions[0].placement = "cores 0,1".to_owned();
    });
    silent(|_, b| b.host.cpus = 1); // nothing to choose from
    // Not pinned is how these are meant to be: the other end is where its own scheduler put it.
    let beside_another_program = |spoil: fn(&mut Point, &mut Begin)| {
        caveats(|p, b| {
            (b.protocol, b.placement) = ("iperf3".to_owned(), "spread".to_owned());
            spoil(p, b);
        })
    };
    assert_eq!(beside_another_program(|_, b| b.host.cpus = 4), []);
    let shared = beside_another_program(|p, b| {
        b.host.cpus = 2;
        p.sessions[0].host = b.host.clone();
    });
    assert_eq!(shared.len(), 1);
    assert!(shared[0].code == "placement" && !shared[0].advice.contains("--affinity"), "{shared:?}");
}

#[test]
fn other_sessions() {
    let text = only("other-sessions", |p, _| p.sessions[0].accepted.others = 1);
    assert!(text.starts_with("Up to 1 other session was on"), "{text}");
    let text = only("other-sessions", |p, _| (p.sessions[0].accepted.others, p.remote[0].others) = (1, 3));
    assert!(text.starts_with("Up to 3 other sessions were on"), "{text}");
}

#[test]
fn server_reduced() {
    let change = Change {
        what: "connections".to_owned(),
        asked: "200".to_owned(),
        given: "100".to_owned(),
        why: "limit of the server".to_owned(),
    };
    let text = only("server-reduced", |p, _| p.sessions[0].accepted.changes = vec![change]);
    let reduced = "10.0.0.2:7411 gave connections 100 instead of 200 (limit of the server)";
    assert!(text.contains(reduced), "{text}");
    let limit = "ended after 1048576 bytes, the most of one session";
    let text = only("server-reduced", |p, _| p.remote[0].limit = Some(limit.to_owned()));
    assert!(text.contains(&format!("10.0.0.2 {limit}")), "{text}");
}

#[test]
fn buffer_shortfall() {
    let text = only("socket-buffer-shortfall", |p, _| {
        p.phase.sockets.sndbuf = Some(4 << 20);
        p.phase.sockets.rcvbuf = Some(1 << 20);
        let got = p.local.effective.as_mut().unwrap();
        (got.sndbuf, got.rcvbuf) = (Some(425_984), Some(2 << 20));
    });
    assert!(text.contains("(SO_SNDBUF of this host is 416 KiB instead of 4.00 MiB)"), "{text}");
}

#[test]
fn option_differs() {
    let ask = |p: &mut Point, ask: fn(&mut SocketSettings), got: fn(&mut Effective)| {
        ask(&mut p.phase.sockets);
        p.local.effective.iter_mut().chain(&mut p.remote[0].effective).for_each(got);
    };
    let text = only("socket-option-differs", |p, _| {
        p.phase.sockets.congestion = Some("vegas".to_owned());
        p.remote[0].effective.as_mut().unwrap().congestion = Some("vegas".to_owned());
    });
    assert!(text.contains("(congestion control cubic instead of vegas at this host)"), "{text}");
    let text =
        only("socket-option-differs", |p, _| p.remote[0].effective.as_mut().unwrap().nodelay = Some(false));
    assert!(text.contains("(TCP_NODELAY off instead of on at server 10.0.0.2)"), "{text}");
    let text = only("socket-option-differs", |p, _| ask(p, |s| s.mss = Some(1_400), |e| e.mss = Some(1_359)));
    assert!(text.contains("MSS 1359 instead of 1400 at this host; MSS 1359"), "{text}");
    silent(|p, _| ask(p, |s| s.mss = Some(1_400), |e| e.mss = Some(1_388))); // 12 bytes of time stamps
    let text = only("socket-option-differs", |p, _| ask(p, |s| s.dscp = Some(46), |e| e.tos = Some(40 << 2)));
    assert!(text.contains("DSCP 40 instead of 46"), "{text}");
    silent(|p, _| ask(p, |s| s.dscp = Some(46), |e| e.tos = Some((46 << 2) | 2))); // ECN bits
    let text = only("socket-option-differs", |p, _| ask(p, |s| s.ttl = Some(5), |e| e.ttl = Some(64)));
    assert!(text.contains("TTL 64 instead of 5"), "{text}");
}

#[test]
fn unconfirmed() {
    let text = only("unconfirmed", |p, _| {
        p.up.as_mut().unwrap().confirmed = false;
        p.up.as_mut().unwrap().sent_bytes = 3 << 30;
        p.remote.clear();
    });
    assert!(text.contains("the 3.00 GiB to the server are the sender's own count"), "{text}");
    let text = only("unconfirmed", |p, begin| {
        begin.protocol = "ctstraffic".to_owned();
        p.up.as_mut().unwrap().confirmed = false;
        p.remote.clear();
    });
    assert!(text.starts_with("A server of the protocol ctstraffic does not tell what it received"), "{text}");
    assert!(text.contains("confirmed one by one"), "{text}");
    let text = only("unconfirmed", |p, _| {
        p.remote.clear();
        p.intervals[4].remote = None;
    });
    for part in ["totals of 1 of 1 servers never came", "on 4 of 5 intervals"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn unfinished() {
    let text = only("unfinished-connections", |p, _| p.local.opened = 43);
    assert!(text.starts_with("At least 3 of 43 connections were still open"), "{text}");
    let text = only("unfinished-connections", |p, _| p.phase.iterations = Some(5));
    let unfinished = "Only 32 of 40 connections had moved all their bytes when the run ended; 8 were";
    assert!(text.starts_with(unfinished), "{text}");
}

#[test]
fn verification_off() {
    let text = only("verification-off", |p, _| p.phase.verify = Verify::None);
    assert!(text.contains("counted, but not looked at"), "{text}");
    let text = only("verification-off", |p, _| p.phase.verify = Verify::Connection);
    assert!(text.contains("not compared"), "{text}");
    let of_capacity = |p: &mut Point, _: &mut Begin| {
        (p.phase.kind, p.phase.verify) = (Kind::Capacity, Verify::Connection);
    };
    assert!(caveats(of_capacity).iter().all(|caveat| caveat.code != "verification-off"));
}

#[test]
fn few_connections() {
    let rate = |count| Some(DistSummary { count, ..DistSummary::default() });
    let of = |p: &mut Point, n| {
        (p.local.completed, p.local.stopped, p.phase.iterations) = (40, 0, Some(5));
        p.local.rate = n;
    };
    let text = only("few-connections", |p, _| of(p, rate(19)));
    assert!(text.starts_with("Too few connections (19)"), "{text}");
    silent(|p, _| of(p, None));
    silent(|p, _| p.local.rate = rate(8)); // a run's own connections, which last as long as it
    let text = only("few-connections", |p, _| {
        p.phase.kind = Kind::Connect;
        p.local.connect_ns = rate(1);
        p.local.rate = rate(100);
        p.intervals.iter_mut().for_each(|i| i.opened = 10);
    });
    assert!(text.starts_with("Too few connections (1)"), "{text}");
}

#[test]
fn rate_missed() {
    let (mut point, begin) = sound();
    point.phase.rate = Some(1_000);
    point.phase.connections = 8;
    let with = |point: &mut Point, bps: f64| {
        if let Some(up) = &mut point.up {
            up.sent_bps = bps;
        }
        caveats_about(point, &begin).into_iter().find(|d| d.code == "rate-missed")
    };
    assert_eq!(with(&mut point, 7_900.0), None, "98.75 % of 8 x 1 kbit/s");
    let text = with(&mut point, 4_000.0).unwrap().text;
    assert!(text.starts_with("Of 8.00 kbit/s that were asked for, 4.00 kbit/s were sent."), "{text}");
    point.phase.iterations = Some(1);
    assert_eq!(with(&mut point, 4_000.0), None, "connections that are done early lower the sum");
    // Of round trips the schedule tells: 96 of 100 are too few.
    point.phase.kind = Kind::Ping;
    point.phase.ping = Some(Ping { schedule: Schedule::Fixed { gap_ns: 1_000_000 }, ..Ping::default() });
    let mut with = |sent, missed| {
        let counts = PingCounts { sent, missed, received: sent, ..PingCounts::default() };
        point.local.pings = Some(Box::new(RoundTrips { counts, ..RoundTrips::default() }));
        caveats_about(&point, &begin).into_iter().find(|d| d.code == "rate-missed")
    };
    assert_eq!(with(97, 3), None);
    assert_eq!(with(96, 4).unwrap().text, "Of 100 messages of the schedule 96 were sent.");
    assert!(with(0, 100).is_some());
}

#[test]
fn few_messages_are_told_how_many_it_takes() {
    let (name, q) = crate::ping::ASKED;
    let found = caveats(|p, _| {
        ping(p);
        p.local.pings.as_mut().unwrap().rtt_ns.as_mut().unwrap().count = 999;
    });
    let advice = &found.iter().find(|caveat| caveat.code == "few-messages").unwrap().advice;
    let needed = (crate::ping::BEYOND / (1.0 - q)).round();
    let want = format!("Send at least {needed} messages to know {name}, ten times");
    assert!(advice.starts_with(&want), "{advice}");
}

#[test]
fn late_pacing() {
    let text =
        only("late-pacing", |p, _| (p.phase.rate, p.local.late_ns) = (Some(1_000_000), late(1_200_000)));
    assert!(text.contains("99th percentile 1.20 ms of this host"), "{text}");
    silent(|p, _| p.local.late_ns = late(9_000_000)); // nothing was paced
}

/// A run of streams of 60 frames a second from the server, in which nothing is wrong.
fn streams(point: &mut Point) {
    point.phase.kind = Kind::Stream;
    point.phase.media = Some(Media::new(25_000_000, 60, 5, 1, 1_400).unwrap());
    (point.local.traffic, point.remote[0].traffic) = (point.remote[0].traffic, point.local.traffic);
    for end in [&mut point.local, &mut point.remote[0]] {
        let counts = Packets { sent: 11_400, received: 11_400, ..Packets::default() };
        end.packets = Some(Box::new(PacketReport::from(counts)));
    }
}

#[test]
fn stamps_of_a_card_that_are_of_no_use() {
    let found = |untrue, unread| {
        let all = caveats(|p, _| {
            delay(p);
            let report = remote(p);
            (report.card_stamped, report.card_refused, report.card_unplaced) = (90, untrue, unread);
        });
        all.into_iter().find(|caveat| caveat.code == "card-stamps").map(|caveat| caveat.text)
    };
    assert_eq!(found(0, 0), None);
    let untrue = found(10, 0).unwrap();
    assert!(untrue.contains("(at server 10.0.0.2, 10 of 100 were later than"), "{untrue}");
    assert!(!untrue.contains("could not be read"), "{untrue}");
    let unread = found(0, 10).unwrap();
    let why = "10 of 100 could not be converted, because the card's clock could not be read)";
    assert!(unread.contains(why), "{unread}");
    assert!(!unread.contains("later"), "{unread}");
    let both = found(4, 6).unwrap();
    assert!(both.contains("4 of 100 were") && both.contains("6 of 100 could not be converted"), "{both}");
}

#[test]
fn loss_in_a_buffer_and_damage_stand_beside_streams_and_messages() {
    let said = |code: &str, spoil: fn(&mut Point)| {
        let found = caveats(|p, _| spoil(p)).into_iter().find(|caveat| caveat.code == code);
        found.map(|caveat| caveat.text).unwrap_or_default()
    };
    let overflow = said("receive-buffer-overflow", |p| {
        streams(p);
        let packets = p.local.packets.as_mut().unwrap();
        packets.counts = Packets { lost: 3_854, dropped: 3_854, dropped_merged: 3_751, ..packets.counts };
    });
    let runs = "(this host dropped 103 merged runs, up to 3854 datagrams, 100 % of what is missing there)";
    assert!(overflow.contains(runs), "{overflow}");
    let damage = said("damaged-on-the-way", |p| {
        streams(p);
        let packets = p.local.packets.as_mut().unwrap();
        (packets.counts.lost, packets.damaged) = (17, 17);
    });
    assert!(damage.contains("17 of 17 that this host misses had a wrong checksum"), "{damage}");
    fn messages(p: &mut Point, transport: Transport) {
        ping(p);
        p.phase.ping.as_mut().unwrap().transport = transport;
        p.local.pings.as_mut().unwrap().counts.lost = 20;
        p.remote[0].counters = moved("Udp.InCsumErrors", 22);
    }
    let damage = said("damaged-on-the-way", |p| messages(p, Transport::Udp));
    let most = "server 10.0.0.2 counted 22 wrong checksums, and at most 20 of 20 lost messages had one";
    assert!(damage.contains(most), "{damage}");
    assert_eq!(said("damaged-on-the-way", |p| messages(p, Transport::Tcp)), "");
}

#[test]
fn the_first_limit_of_streams() {
    let code = "stream-limit";
    let said = |spoil: fn(&mut Point)| {
        let found = caveats(|p, _| {
            streams(p);
            spoil(p);
        });
        found.into_iter().find(|caveat| caveat.code == code).map(|caveat| caveat.text).unwrap_or_default()
    };
    fn counts(end: &mut Totals) -> &mut Packets {
        &mut end.packets.as_mut().unwrap().counts
    }
    assert_eq!(said(|_| {}), "");
    // Loss alone is the path's.
    assert_eq!(said(|p| counts(&mut p.local).lost = 500), "");
    let text = |what: &str| format!("The first limit of the streams was not the path: {what}.");
    // 1/60 s is 16.67 ms.
    let slow = caveats(|p, _| {
        streams(p);
        p.remote[0].late_ns = late(16_000_000);
    });
    assert!(slow.iter().all(|caveat| caveat.code != code), "{slow:#?}");
    let slow = |busiest| {
        let found = caveats(|p, _| {
            streams(p);
            p.remote[0].late_ns = late(20_000_000);
            p.remote[0].cpu = cpu(busiest, 50.0, 0.0);
            counts(&mut p.local).dropped = 7;
        });
        found.into_iter().find(|caveat| caveat.code == code).unwrap().text
    };
    let who = "server 10.0.0.2 sent late (99th percentile 20.0 ms)";
    let busy = format!("{who}: its cores were busy, the busiest 97 % and all of them 50 %");
    assert_eq!(slow(0.97), text(&busy));
    assert_eq!(slow(0.5), text(&format!("{who}, though its cores were not busy")));
    let dropped = text("the receive buffer of this host dropped 7 datagrams");
    assert_eq!(said(|p| counts(&mut p.local).dropped = 7), dropped);
    let refused = text("the system of server 10.0.0.2 refused 5 % of what was to be sent");
    assert_eq!(said(|p| counts(&mut p.remote[0]).unsent = 600), refused);
    let softnet = |p: &mut Point| {
        p.local.counters.moved.extend([("softnet.dropped".to_owned(), 9)]);
        local(p).counts.lost = 9;
    };
    assert_eq!(said(softnet), text("this host dropped 9 packets before they reached a socket"));
    let files = |p: &mut Point| p.local.causes.push(failed("open: Too many open files", 3));
    assert_eq!(said(files), text("3 could not be opened because the limit of open files was reached"));
}

#[test]
fn the_clocks_of_streams_are_compared_too() {
    let found = caveats(|p, _| {
        streams(p);
        local(p).clock_found = Some(ClockFound { stepped: true, wandered: true, ..ClockFound::default() });
    });
    let told = |code: &str| found.iter().any(|caveat| caveat.code == code);
    assert!(told("clock-stepped") && told("clock-wander"), "{found:#?}");
}

#[test]
fn drops_of_a_queue_are_at_most_what_did_not_come() {
    let told = |dropped, lost, sent| {
        let found = caveats(|p, _| {
            delay(p);
            p.local.counters = moved("eth0.qdisc_dropped", dropped);
            (local(p).counts.sent, remote(p).counts.lost) = (sent, lost);
        });
        found.into_iter().find(|caveat| caveat.code == "queue-drops").map(|caveat| caveat.text)
    };
    let text = told(30, 7, 5_000).unwrap();
    assert!(text.contains("(this host dropped 30, at most 7 of them among the lost)"), "{text}");
    assert_eq!(told(30, 0, 5_000), None, "they were of another program");
    assert_eq!(told(30, 7, 0), None, "this host has sent nothing that could be dropped");
}

#[test]
fn drops() {
    let text = only("listen-drops", |p, _| p.remote[0].counters = moved("TcpExt.ListenDrops", 12));
    assert!(text.contains("(TcpExt.ListenDrops of server 10.0.0.2 rose by 12)"), "{text}");
    let text = only("softnet-drops", |p, _| {
        (p.local.counters, p.local.network_errors) = (moved("softnet.dropped", 3), 2);
    });
    assert!(text.contains("(softnet.dropped of this host rose by 3; of this run 2 are missing)"), "{text}");
}

pub(super) fn failed(text: &str, count: u64) -> CauseCount {
    CauseCount { class: Ending::NetworkError, text: text.to_owned(), count, first: String::new() }
}

#[test]
fn exhausted_resources() {
    let text = only("ephemeral-ports", |p, _| {
        p.local.causes = vec![failed("connecting: Cannot assign requested address (os error 99)", 70)];
    });
    assert!(text.starts_with("70 connections found no free local port"), "{text}");
    assert!(text.contains("TIME_WAIT") && text.contains("net.ipv4.ip_local_port_range"), "{text}");
    silent(|p, _| p.local.causes = vec![failed("connecting: Connection refused (os error 111)", 70)]);
    let text = only("file-descriptors", |p, _| {
        p.local.causes =
            vec![failed("opening a socket: Too many open files (os error 24)", 2), failed("EMFILE", 3)];
    });
    assert!(text.starts_with("5 connections failed"), "{text}");
}

#[test]
fn when_nothing_was_measured_there_are_no_figures_to_caveat() {
    let failed_at_once = |p: &mut Point| {
        (p.status, p.local.opened) = (Status::Failed, 0);
        p.sessions[0].address = "127.0.0.1:1".parse().unwrap();
        p.phase.verify = Verify::None;
    };
    silent(|p, _| failed_at_once(p));
    only("file-descriptors", |p, _| {
        failed_at_once(p);
        p.local.causes = vec![failed("opening a socket: Too many open files (os error 24)", 1)];
    });
}

#[test]
fn a_server_knows_nothing_of_its_clients_plans() {
    silent(|p, b| {
        b.verb = "serve".to_owned();
        p.sessions.clear();
        p.remote.clear();
        p.intervals.truncate(1);
        p.local.opened = 50;
        p.local.effective.as_mut().unwrap().nodelay = Some(false);
        p.up.as_mut().unwrap().confirmed = false;
        p.local.rate = Some(DistSummary { count: 1, ..DistSummary::default() });
    });
    let remote = |b: &mut Begin, p: &mut Point| {
        b.verb = "serve".to_owned();
        p.sessions.clear();
        p.local.remotes = [("::1".parse().unwrap(), metrics::Remote::default())].into();
    };
    only("loopback", |p, b| remote(b, p));
}

#[test]
fn round_trips_that_are_mostly_this_hosts_own() {
    let own = |p: &mut Point, own_ns| {
        ping(p);
        baseline(p, own_ns);
    };
    let text = only("own-share", |p, _| own(p, 60_000));
    assert!(text.starts_with("60"), "{text}");
    silent(|p, _| own(p, 212_000)); // more than what was measured is no part of it
    only("loopback", |p, _| {
        own(p, 100_000);
        p.sessions[0].address = "127.0.0.1:1".parse().unwrap();
    });
}

#[test]
fn a_server_that_is_slow_to_answer_under_load() {
    // The path took 10 ms when idle, and adds 40.
    let codes = |loaded: RoundTrips, idle: Option<RoundTrips>| {
        let (mut point, begin) = sound();
        ping(&mut point);
        point.local.pings = Some(Box::new(loaded));
        caveats_against(&point, idle.as_ref(), &begin)
    };
    let found = codes(round_trips(50, 9), Some(idle()));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].code, "server-turnaround");
    let text = &found[0].text;
    assert!(text.contains("9.00 ms (median)") && text.contains("added 40.0 ms"), "{text}");
    // 8 ms are a fifth of 40, and no more.
    assert_eq!(codes(round_trips(50, 8), Some(idle())), []);
    assert_eq!(codes(round_trips(50, 90), None), [], "only where a load is compared to none");
    // Without a load the path adds nothing: 1 ms of the server's is told, and less is no matter.
    assert_eq!(codes(round_trips(10, 1), Some(idle()))[0].code, "server-turnaround");
    assert_eq!(codes(idle(), Some(idle())), []);
}

/// Of 100,000 messages so many are late and so many lost: the caveat names the lowest percentile
/// that they reach.
#[test]
fn late_and_lost_messages_are_told_where_percentiles_are_theirs() {
    let of = |late, lost| only("late-or-lost", |p, _| late_and_lost(p, late, lost));
    assert!(of(500, 501).contains("never came: p99 "), "{}", of(500, 501));
    assert!(of(0, 1_000).contains("never came: p99.9 "), "exactly 1 % leaves p99 alone");
    assert!(of(20_000, 0).contains("20000 came after the timeout of 1.00 s"), "{}", of(20_000, 0));
}

#[test]
fn a_figure_of_a_quota_names_the_quota() {
    let text = only("own-allowance", |p, b| {
        b.host.allowance = Some(CgroupLimits { cpus: Some(0.2), memory: Some(64 << 20), tasks: None });
        p.local.cpu = Some(CpuUse { wall_s: 4.5, available_s: 9.0, ..CpuUse::default() });
        p.local.counters = HostCounters {
            moved: [
                ("cgroup.nr_throttled", 41),
                ("cgroup.throttled_us", 6_102_311),
                ("cgroup.memory_limit_hits", 3),
            ]
            .map(|(name, by)| (name.to_owned(), by))
            .into(),
        };
    });
    let words = "(this host: its CPU quota of 0.20 CPUs held it back in 41 periods, its threads for 6.10 s together, its memory limit \
                 of 64.0 MiB was reached 3 times)";
    assert!(text.contains(words), "{text}");
}

#[test]
fn own_traffic_of_round_trips_is_judged_by_their_number() {
    let ten = |p: &mut Point, messages: u64| {
        ping(p);
        p.local.pings.as_mut().unwrap().counts =
            PingCounts { sent: 10, received: 10, ..PingCounts::default() };
        p.local.traffic = Traffic { tx_bytes: 640, rx_bytes: 640, ..Traffic::default() };
        p.local.own = OwnTraffic { messages, message_bytes: 85 * messages, ..OwnTraffic::default() };
    };
    // A run of a second has its intervals, its end and its totals.
    silent(|p, _| ten(p, 19));
    let text = only("own-traffic", |p, _| ten(p, 20));
    assert!(text.starts_with("Own traffic was 60 % of all traffic: 20 control messages"), "{text}");
    // Connections without payload have packets: of ten 3,120 bytes, of a thousand 312,000.
    let raised = |opened: u64| {
        let found = caveats(|p, _| {
            (p.phase.kind, p.local.opened) = (Kind::Connect, opened);
            p.local.traffic = Traffic::default();
            p.local.own = OwnTraffic { messages: 40, message_bytes: 3_400, ..OwnTraffic::default() };
        });
        found.iter().any(|caveat| caveat.code == "own-traffic")
    };
    assert!(raised(10) && !raised(1_000));
}

#[test]
fn a_class_that_arrives_as_another_is_named_in_each_direction() {
    let text = only("dscp-changed", |p, _| {
        delay(p);
        p.phase.sockets.dscp = Some(46);
        remote(p).marks.see(64, 0, 5_000);
        local(p).marks.see(64, 46 << 2, 5_000);
    });
    assert!(text.contains("(to server 10.0.0.2: sent EF, arrived as 0)"), "{text}");
    let text = only("ecn-changed", |p, _| {
        delay(p);
        p.phase.sockets.dscp = Some(46);
        p.local.effective.as_mut().unwrap().tos = Some((46 << 2) | 2);
        remote(p).marks.see(64, 46 << 2, 5_000);
    });
    assert!(text.contains("ECT(0) was sent, Not-ECT arrived: cleared between the hosts"), "{text}");
    let text = only("dscp-changed", |p, _| {
        p.phase.sockets.dscp = Some(46);
        p.remote[0].tcp.dscp = Some((0, 46));
        p.local.tcp.dscp = Some((8, 8));
        p.local.effective.as_mut().unwrap().tos = Some(46 << 2);
        p.remote[0].effective.as_mut().unwrap().tos = Some(46 << 2);
    });
    assert!(
        text.contains(
            "(to this host: sent EF, arrived as CS1; to server 10.0.0.2: sent EF, arrived as 0 to EF)"
        ),
        "{text}"
    );
    let text = only("dscp-changed", |p, _| {
        ping(p);
        p.phase.sockets.dscp = Some(46);
        let mut ways = Ways::default();
        ways.facts.there_marks.see(64, 0, 10);
        p.local.pings.as_mut().unwrap().ways = Some(Box::new(ways));
    });
    assert!(text.contains("(to the reflector: sent EF, arrived as 0)"), "{text}");
    // The class of a server that reports none is unknown.
    silent(|p, _| {
        p.phase.sockets.dscp = Some(46);
        p.local.tcp.dscp = Some((0, 0));
        p.remote[0].effective = None;
    });
}

#[test]
fn sends_are_late_by_the_round_trip_and_by_percentiles_of_enough_values() {
    let ten = |p: &mut Point, late_ns: u64| {
        ping(p);
        p.local.pings.as_mut().unwrap().rtt_ns = Dist::from_iter([20_000_000; 10]).spectrum();
        p.local.late_ns =
            Some(DistSummary { count: 10, p99: late_ns, p90: late_ns, ..DistSummary::default() });
    };
    silent(|p, _| ten(p, 5_000_000));
    let hundred = |p: &mut Point, p90: u64| {
        ten(p, 0);
        p.local.late_ns = Some(DistSummary { count: 100, p90, p99: 90_000_000, ..DistSummary::default() });
    };
    // 5 % of 20 ms.
    silent(|p, _| hundred(p, 1_000_000));
    let text = only("late-sends", |p, _| hundred(p, 1_010_000));
    assert!(text.starts_with("Messages left late (p90 1.01 ms)"), "{text}");
    // Datagrams a millisecond apart, whose round trip takes 2 ms: 250 µs where some are lost, and
    // no less than 5 % of the trip.
    let late_by = |ns, delay_ns, lost| {
        let found = caveats(|p, _| {
            delay(p);
            local(p).late_ns = late(ns);
            for end in [&mut p.local, &mut p.remote[0]] {
                end.packets.as_mut().unwrap().delay_ns.as_mut().unwrap().p50 = delay_ns;
            }
            remote(p).counts.lost = lost;
        });
        found.iter().any(|caveat| caveat.code == "late-sends")
    };
    assert!(late_by(250_001, 1_000_000, 0) && !late_by(1_000_000, 10_000_000, 0));
    assert!(late_by(1_000_001, 10_000_000, 0) && late_by(250_001, 10_000_000, 1));
}

#[test]
fn one_clock_has_no_offset_and_ten_messages_no_note() {
    silent(|p, _| {
        delay(p);
        (remote(p).clock_bound_ns, remote(p).clock) = (Some(900_000), Some(metrics::ClockKind::SameHost));
    });
    silent(|p, _| {
        ping(p);
        p.local.pings.as_mut().unwrap().rtt_ns = Dist::from_iter([20_000_000; 10]).spectrum();
    });
    silent(|p, _| {
        ping(p);
        let counts = &mut p.local.pings.as_mut().unwrap().counts;
        (counts.sent, counts.missed) = (149, 1);
    });
}

#[test]
fn the_place_of_a_program_that_needs_little_of_a_cpu_decides_nothing() {
    let placed = |p: &mut Point, b: &mut Begin, user_s| {
        (p.sessions[0].same_host, b.host.cpus) = (true, 2);
        let cpu = Some(CpuUse { user_s, wall_s: 10.0, available_s: 20.0, ..CpuUse::default() });
        (p.local.cpu, p.remote[0].cpu) = (cpu, cpu);
    };
    silent(|p, b| placed(p, b, 2.9));
    only("placement", |p, b| placed(p, b, 3.1));
    let trips = |p: &mut Point, b: &mut Begin, ns| {
        placed(p, b, 0.1);
        ping(p);
        p.local.pings.as_mut().unwrap().rtt_ns = Dist::from_iter([ns; 2_000]).spectrum();
    };
    silent(|p, b| trips(p, b, 20_000_000));
    only("placement", |p, b| trips(p, b, 50_000));
}
