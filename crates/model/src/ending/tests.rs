use super::reasons::SMALL_PASSED;
use super::*;
use crate::{
    Count, PacketReport, Ping, PingCounts, Probe, RoundTrips, SocketSettings, Totals, Traffic, Transport,
};
use metrics::{CauseCount, Packets};

/// An end that counted these bytes, sent and received, on so many connections.
fn bytes(opened: u64, tx_bytes: u64, rx_bytes: u64) -> Totals {
    Totals {
        opened,
        traffic: Traffic { tx_bytes, rx_bytes, ns: 1, ..Traffic::default() },
        ..Totals::default()
    }
}

fn datagrams(opened: u64, counts: Packets) -> Totals {
    let packets = Some(Box::new(PacketReport::from(counts)));
    Totals { opened, packets, ..Totals::default() }
}

fn messages(counts: PingCounts) -> Totals {
    let pings = Some(Box::new(RoundTrips { counts, ..RoundTrips::default() }));
    Totals { opened: 1, pings, ..Totals::default() }
}

fn refused(opened: u64) -> Totals {
    let first = "connection refused".to_owned();
    let cause = CauseCount { class: metrics::Ending::NetworkError, text: first.clone(), count: 1, first };
    Totals { network_errors: 1, causes: vec![cause], ..bytes(opened, 0, 0) }
}

fn tcp(pattern: Pattern) -> Phase {
    Phase { pattern, ..Phase::default() }
}

fn delay(pattern: Pattern, size: u32) -> Phase {
    let probe = Some(Probe { size, ..Probe::default() });
    Phase { kind: Kind::Delay, pattern, probe, ..Phase::default() }
}

fn ping(transport: Transport) -> Phase {
    Phase { kind: Kind::Ping, ping: Some(Ping { transport, ..Ping::default() }), ..Phase::default() }
}

/// The ending of a phase that its session calls complete.
fn ended(phase: &Phase, local: Totals, remote: Option<Totals>) -> Ended {
    of(phase, (Status::Complete, None), false, local, remote)
}

fn of(phase: &Phase, proposed: Ended, accepted: bool, local: Totals, remote: Option<Totals>) -> Ended {
    let mut account = Account { accepted, ..Account::default() };
    account.absorb(&Event::Local(Box::new(local)));
    remote.into_iter().for_each(|remote| account.absorb(&Event::Remote(Box::new(remote))));
    account.ending(JudgedPhase { phase, protocol: "ctstraffic", needs_report: false }, proposed)
}

#[track_caller]
fn check(ended: Ended, status: Status, why: &str) {
    assert_eq!((ended.0, ended.1.as_deref().unwrap_or("")), (status, why));
}

const DUPLEX: Pattern = Pattern::Duplex;
const TURNS: Pattern = Pattern::PushPull { push: 1, pull: 1 };

#[test]
fn a_transfer_of_which_no_end_counted_a_byte_has_failed() {
    let mute = "8 connections were established, but no payload";
    for (pattern, what) in
        [(Pattern::Push, "was sent"), (DUPLEX, "was sent"), (Pattern::Pull, "arrived from the server")]
    {
        let why = format!("{mute} {what}: is the server's protocol ctstraffic?");
        check(ended(&tcp(pattern), bytes(8, 0, 0), None), Status::Failed, &why);
    }
    let none = "no connection was established, and no payload was sent: is the server's protocol ctstraffic?";
    check(ended(&tcp(Pattern::Push), Totals::default(), None), Status::Failed, none);
    check(ended(&tcp(Pattern::Push), refused(0), None), Status::Failed, "connection refused");
    // The receiver's count is the result.
    let why = "8 connections were established, but no payload arrived at the server";
    check(ended(&tcp(Pattern::Push), bytes(8, 9, 0), Some(bytes(8, 0, 0))), Status::Failed, why);
    check(ended(&tcp(Pattern::Push), bytes(8, 9, 0), Some(bytes(8, 0, 9))), Status::Complete, "");
}

/// An end of TCP connections whose payload arrived after the last interval.
fn afterwards(rx_bytes: u64) -> Totals {
    let peer = metrics::Remote { connections: 4, rx_bytes, ..metrics::Remote::default() };
    Totals { remotes: [([127, 0, 0, 1].into(), peer)].into(), ..bytes(4, 0, 0) }
}

#[test]
fn payload_that_arrived_after_the_time_of_the_test_is_no_failure_of_the_path() {
    let end = "within the time of the test, and 16.0 MiB after it: give a longer -t";
    let up = format!("no payload arrived at the server {end}");
    let down = format!("no payload arrived from the server {end}");
    let (sent, late) = (bytes(4, 9, 0), afterwards(16 << 20));
    check(ended(&tcp(Pattern::Push), sent.clone(), Some(late.clone())), Status::Partial, &up);
    check(ended(&tcp(Pattern::Pull), late.clone(), Some(sent.clone())), Status::Partial, &down);
    check(ended(&tcp(DUPLEX), bytes(4, 9, 9), Some(late.clone())), Status::Partial, &up);
    check(ended(&tcp(DUPLEX), late.clone(), Some(late)), Status::Partial, &up);
    assert_eq!(ended(&tcp(Pattern::Push), sent, Some(afterwards(0))).0, Status::Failed);
}

#[test]
fn a_time_that_was_over_before_a_connection_was_established_is_named() {
    let timed = Phase { duration_ns: Some(20_000_000), ..tcp(Pattern::Push) };
    let complete = (Status::Complete, None);
    let why = "the time of the test was over before a connection was established: give a longer -t";
    let none = Totals::default;
    check(of(&timed, complete.clone(), true, none(), Some(none())), Status::Failed, why);
    let other = of(&timed, complete, true, refused(0), Some(none()));
    check(other, Status::Failed, "connection refused");
}

#[test]
fn a_document_is_judged_as_its_run_was() {
    let asked = |point: &Point| {
        let asked = JudgedPhase { phase: &point.phase, protocol: "", needs_report: false };
        Account::of(point).ending(asked, (Status::Complete, None)).0
    };
    let of = |rx_bytes| Point {
        phase: tcp(Pattern::Push),
        local: bytes(1, 9, 0),
        remote: vec![bytes(1, 0, rx_bytes)],
        ..Point::default()
    };
    assert_eq!([of(9), of(0)].each_ref().map(asked), [Status::Complete, Status::Failed]);
    // Before the omitted period was over.
    let traffic = Traffic { rx_bytes: 9, ..Traffic::default() };
    let early = Interval { remote: Some(traffic), ..Interval::default() };
    assert_eq!(asked(&Point { intervals: vec![early], ..of(0) }), Status::Complete);
}

#[test]
fn damaged_payload_has_arrived() {
    let of = |text: &str| CauseCount {
        class: metrics::Ending::DataError,
        text: text.to_owned(),
        count: 1,
        first: format!("{text} at offset 0"),
    };
    let local = Totals { causes: vec![of("the peer received wrong data")], data_errors: 1, ..bytes(1, 9, 0) };
    let remote = Totals { causes: vec![of(WRONG_DATA)], data_errors: 1, ..bytes(1, 0, 0) };
    check(ended(&tcp(Pattern::Push), local, Some(remote)), Status::Complete, "");
}

#[test]
fn small_packets_that_pass_are_named_where_large_ones_may_not() {
    let mut local = bytes(1, 9, 0);
    local.tcp.retransmits = 7;
    let advice = "small packets pass, large ones may not: try `delay --path-mtu`";
    let complete = || (Status::Complete, None);
    let why = format!("1 connection was established, but no payload arrived at the server: {advice}");
    check(of(&tcp(Pattern::Push), complete(), true, local, Some(bytes(1, 0, 0))), Status::Failed, &why);
    let sent = Packets { sent: 500, ..Packets::default() };
    let lost = |size| {
        let (local, remote) = (datagrams(1, sent), datagrams(1, Packets::default()));
        of(&delay(Pattern::Push, size), complete(), true, local, Some(remote))
    };
    let why = "no datagram arrived at the server over UDP: 500 were sent";
    check(lost(1_400), Status::Failed, &format!("{why}: {advice}"));
    check(lost(64), Status::Failed, why);
}

#[test]
fn each_direction_is_judged() {
    let (both, phase) = (bytes(8, 9, 9), tcp(DUPLEX));
    check(ended(&phase, both.clone(), Some(both)), Status::Complete, "");
    let why = "8 connections were established, but no payload arrived at the server";
    check(ended(&phase, bytes(8, 9, 9), Some(bytes(8, 9, 0))), Status::Partial, why);
    let why = "8 connections were established, but no payload arrived from the server";
    check(ended(&phase, bytes(8, 9, 0), Some(bytes(8, 9, 9))), Status::Partial, why);
    let (sent, got) =
        (Packets { sent: 5, ..Packets::default() }, Packets { sent: 5, received: 5, ..Packets::default() });
    let why = "no datagram arrived from the server over UDP: 5 were sent";
    check(ended(&delay(DUPLEX, 64), datagrams(1, sent), Some(datagrams(1, got))), Status::Partial, why);
    // Turns, and a number of bytes that both directions share, need not use both.
    check(ended(&tcp(TURNS), bytes(1, 9, 0), Some(bytes(1, 0, 9))), Status::Complete, "");
    let shared = Phase { total_bytes: Some(1), ..tcp(DUPLEX) };
    check(ended(&shared, bytes(1, 0, 1), Some(bytes(1, 1, 0))), Status::Complete, "");
    assert_eq!(ended(&tcp(TURNS), bytes(1, 0, 0), None).0, Status::Failed);
}

#[test]
fn round_trips_without_an_answer_have_failed() {
    let sent = PingCounts { sent: 5, lost: 5, ..PingCounts::default() };
    let question = ": is the server's protocol ctstraffic?";
    for (transport, over) in [(Transport::Udp, "UDP"), (Transport::Tcp, "TCP")] {
        let why = format!("no message returned over {over}: 5 were sent{question}");
        check(ended(&ping(transport), messages(sent), None), Status::Failed, &why);
    }
    for counts in [PingCounts { damaged: 1, ..sent }, PingCounts { received: 1, late: 1, ..sent }] {
        check(ended(&ping(Transport::Udp), messages(counts), None), Status::Complete, "");
    }
    // Bytes of another protocol are no answers, and one that ended its connection is none.
    let other = Totals { traffic: Traffic { rx_bytes: 370, ..Traffic::default() }, ..messages(sent) };
    assert_eq!(ended(&ping(Transport::Udp), other, None).0, Status::Failed);
    let damaged = messages(PingCounts { sent: 1, damaged: 1, ..PingCounts::default() });
    let (causes, network_errors) = (refused(1).causes, 1);
    let damaged = Totals { causes, network_errors, ..damaged };
    let why = "no message returned over TCP: 1 was sent: connection refused";
    check(ended(&ping(Transport::Tcp), damaged, None), Status::Failed, why);
    let missed = PingCounts { missed: 3, ..PingCounts::default() };
    let why = "none of the 3 messages of the schedule was sent: the flow was opened too late";
    check(ended(&ping(Transport::Udp), messages(missed), None), Status::Failed, why);
    let none = format!("no message was sent{question}");
    check(ended(&ping(Transport::Tcp), messages(PingCounts::default()), None), Status::Failed, &none);
}

/// The short last part of a frame passes a path that drops large packets.
#[test]
fn a_stream_without_a_whole_frame_has_failed() {
    let phase = Phase { kind: Kind::Stream, ..Phase::default() };
    let client = |completed| {
        let frames =
            Some(metrics::Frames { completed, dropped: 60 - completed, ..metrics::Frames::default() });
        Totals { frames, ..bytes(1, 0, 60 * 400) }
    };
    let why = format!("none of 60 frames arrived whole from the server{SMALL_PASSED}");
    check(ended(&phase, client(0), None), Status::Failed, &why);
    check(ended(&phase, client(1), None), Status::Complete, "");
}

/// The agreement passed, in small packets.
#[test]
fn large_messages_without_an_answer_may_be_too_large() {
    let large = Ping { transport: Transport::Udp, size: 1_400, ..Ping::default() };
    let sent = PingCounts { sent: 10, ..PingCounts::default() };
    for (size, advice) in [(1_400, SMALL_PASSED), (64, "")] {
        let phase = Phase { ping: Some(Ping { size, ..large }), ..ping(Transport::Udp) };
        let why = format!("no message returned over UDP: 10 were sent{advice}");
        let ended = of(&phase, (Status::Complete, None), true, messages(sent), None);
        check(ended, Status::Failed, &why);
    }
}

#[test]
fn connections_are_the_measure_of_connects() {
    let phase = Phase { kind: Kind::Connect, ..Phase::default() };
    check(ended(&phase, bytes(1, 0, 0), Some(bytes(1, 0, 0))), Status::Complete, "");
    check(ended(&phase, refused(1), None), Status::Complete, "");
    check(ended(&phase, refused(0), None), Status::Failed, "connection refused");
    check(ended(&phase, Totals::default(), None), Status::Failed, "no connection was established");
}

#[test]
fn that_no_datagram_of_a_size_passes_is_a_result() {
    let sockets = SocketSettings { dont_fragment: Some(true), ..SocketSettings::default() };
    let phase = Phase { sockets, ..delay(Pattern::Push, 1_400) };
    let sent = Packets { sent: 5, ..Packets::default() };
    check(ended(&phase, datagrams(1, sent), Some(datagrams(1, Packets::default()))), Status::Complete, "");
}

#[test]
fn a_peer_that_reports_nothing_leaves_the_senders_count() {
    check(ended(&tcp(Pattern::Push), bytes(1, 9, 0), None), Status::Complete, "");
    let sent = Packets { sent: 50, refused: 3, ..Packets::default() };
    check(ended(&delay(Pattern::Push, 64), datagrams(1, sent), None), Status::Complete, "");
    let one = Packets { sent: 1, ..Packets::default() };
    check(ended(&delay(Pattern::Push, 64), datagrams(1, one), None), Status::Complete, "");
    let absent = Packets { sent: 9, refused: 9, ..Packets::default() };
    let why = "the peer's host refused 9 of 9 datagrams: does anything listen there?";
    check(ended(&delay(Pattern::Push, 64), datagrams(1, absent), None), Status::Failed, why);
    // Another host sends about one refusal a second: one in most intervals is all that can be known.
    let second = |refused| {
        let counts = Packets { sent: 1_000, refused, ..Packets::default() };
        let packets = Some(Box::new(PacketReport::from(counts)));
        Event::Interval(Box::new(Interval { packets, ..Interval::default() }))
    };
    let of_other_host = |refusals: [u64; 4]| {
        let mut account = Account::default();
        refusals.into_iter().for_each(|refused| account.absorb(&second(refused)));
        let sent = Packets { sent: 4_000, refused: refusals.iter().sum(), ..Packets::default() };
        account.absorb(&Event::Local(Box::new(datagrams(1, sent))));
        let phase = delay(Pattern::Push, 64);
        let asked = JudgedPhase { phase: &phase, protocol: "discard", needs_report: false };
        account.ending(asked, (Status::Complete, None)).0
    };
    assert_eq!(of_other_host([4, 1, 0, 1]), Status::Failed);
    assert_eq!(of_other_host([4, 0, 0, 0]), Status::Complete, "the peer began to listen");
    // A protocol whose servers report what they received is not spoken there.
    let (phase, mut account) = (tcp(Pattern::Push), Account::default());
    account.absorb(&Event::Local(Box::new(bytes(1, 9, 0))));
    let asked = JudgedPhase { phase: &phase, protocol: "tcpmon", needs_report: true };
    let why =
        "1 connection was established, but the server reported nothing: is the server's protocol tcpmon?";
    check(account.ending(asked, (Status::Complete, None)), Status::Failed, why);
    let none = Packets { refused: 5, ..Packets::default() };
    let why = "no datagram was sent: the kernel refused 5";
    check(ended(&delay(Pattern::Push, 64), datagrams(1, none), None), Status::Failed, why);
}

#[test]
fn what_a_session_knows_stands() {
    let phase = tcp(Pattern::Push);
    let why = |text: &str| Some(text.to_owned());
    for status in [Status::Interrupted, Status::Failed] {
        let ended = of(&phase, (status, why("so")), false, Totals::default(), None);
        check(ended, status, "so");
    }
    let lost = (Status::Partial, why("the server vanished"));
    check(of(&phase, lost.clone(), true, bytes(1, 9, 0), None), Status::Partial, "the server vanished");
    check(of(&phase, lost, true, bytes(1, 0, 0), None), Status::Failed, "the server vanished");
}

#[test]
fn intervals_stand_in_for_totals() {
    let traffic = |tx_bytes, rx_bytes| Traffic { tx_bytes, rx_bytes, ns: 1, ..Traffic::default() };
    let ended = |remote| {
        let mut account = Account::default();
        let interval = Interval { local: traffic(9, 0), remote, ..Interval::default() };
        account.absorb(&Event::Interval(Box::new(interval)));
        account
            .ending(
                JudgedPhase { phase: &tcp(Pattern::Push), protocol: "", needs_report: false },
                (Status::Complete, None),
            )
            .0
    };
    assert_eq!(ended(None), Status::Complete, "unconfirmed");
    assert_eq!(ended(Some(traffic(0, 9))), Status::Complete);
    assert_eq!(ended(Some(traffic(0, 0))), Status::Failed);
}

#[test]
fn a_phase_that_asks_for_nothing_is_complete_without_anything() {
    let ping = Ping { messages: Some(0), ..Ping::default() };
    let phases = [
        Phase { total_bytes: Some(0), ..Phase::default() },
        Phase { iterations: Some(0), ..Phase::default() },
        Phase { kind: Kind::Ping, ping: Some(ping), ..Phase::default() },
    ];
    for phase in phases {
        check(ended(&phase, Totals::default(), None), Status::Complete, "");
    }
}

#[test]
fn a_count_that_no_end_has_is_not_judged() {
    let without = |unknown, totals: Totals| Totals { unknown, ..totals };
    let phase = tcp(Pattern::Push);
    let sender = || bytes(1, 9, 0);
    let receiver = without(Counts::of(&[Count::ReceivedBytes]), bytes(1, 0, 0));
    check(ended(&phase, sender(), Some(receiver)), Status::Complete, "");
    // A receiver's file, of which neither count can be read.
    let (none, all) = (without(Counts::ALL, bytes(1, 0, 0)), without(Counts::ALL, bytes(1, 0, 0)));
    check(ended(&phase, none, Some(all)), Status::Complete, "");
    let unsent = without(Counts::of(&[Count::ReceivedBytes]), bytes(1, 0, 0));
    assert_eq!(ended(&phase, unsent, None).0, Status::Failed);
}

/// An end whose connections ended so, for this reason.
fn failing(class: metrics::Ending, text: &str, count: u64, totals: Totals) -> Totals {
    let first = format!("10.0.0.2:5001: {text}");
    let causes = vec![CauseCount { class, text: text.to_owned(), count, first }];
    let n = |of| if class == of { count } else { 0 };
    use metrics::Ending::{DataError, NetworkError, ProtocolError};
    let [network_errors, data_errors, protocol_errors] = [NetworkError, DataError, ProtocolError].map(n);
    Totals { causes, network_errors, data_errors, protocol_errors, ..totals }
}

#[test]
fn connections_that_break_before_the_end_make_a_phase_partial() {
    use metrics::Ending::{DataError, NetworkError, ProtocolError};
    let whole = || (Status::Complete, None);
    for (class, text) in [
        (NetworkError, "connecting: Connection refused (os error 111)"),
        (ProtocolError, "it sent no identifier"),
        (DataError, TOO_FEW),
        (DataError, UNCONFIRMED),
    ] {
        let local = || failing(class, text, 6, bytes(8, 9, 9));
        let why = format!("6 connections failed: 10.0.0.2:5001: {text}");
        for phase in [tcp(Pattern::Push), tcp(Pattern::Pull), tcp(DUPLEX)] {
            check(ended(&phase, local(), None), Status::Partial, &why);
        }
        // A server with a conversation that reports its totals was there until the end.
        check(of(&tcp(Pattern::Push), whole(), true, local(), Some(bytes(8, 9, 9))), Status::Complete, "");
        // Failed connections are part of the result of `connect`.
        let connects = Phase { kind: Kind::Connect, ..Phase::default() };
        check(ended(&connects, local(), None), Status::Complete, "");
    }
    // Round trips over connections.
    let answered = messages(PingCounts { sent: 9, received: 5, lost: 4, ..PingCounts::default() });
    let why = "1 connection failed: 10.0.0.2:5001: sending: Broken pipe";
    let broken = failing(NetworkError, "sending: Broken pipe", 1, answered);
    let mut account = Account::default();
    account.absorb(&replies(0, 9, 5, 0));
    account.absorb(&Event::Local(Box::new(broken)));
    check(judged(&account, &ping(Transport::Tcp)), Status::Partial, why);
    // Damaged data passed a path that carried them to the end.
    let damaged = failing(DataError, WRONG_DATA, 1, bytes(8, 9, 9));
    check(ended(&tcp(Pattern::Pull), damaged, None), Status::Complete, "");
}

fn judged(account: &Account, phase: &Phase) -> Ended {
    account.ending(JudgedPhase { phase, protocol: "echo", needs_report: false }, (Status::Complete, None))
}

/// A second of a measurement of round trips.
fn replies(second: u64, sent: u64, received: u64, refused: u64) -> Event {
    let counts = PingCounts { sent, received, refused, ..PingCounts::default() };
    let pings = Some(crate::PingInterval { counts, ..crate::PingInterval::default() });
    let [start_ns, end_ns] = [second, second + 1].map(|at| at * metrics::SECOND);
    Event::Interval(Box::new(Interval { start_ns, end_ns, pings, ..Interval::default() }))
}

#[test]
fn round_trips_whose_peer_stops_answering_are_partial() {
    let phase = ping(Transport::Udp);
    // Sent, received and refused of each second, and the lost messages in all.
    let of = |seconds: &[[u64; 3]], lost: i64| {
        let mut account = Account::default();
        let mut all = PingCounts { lost, ..PingCounts::default() };
        for (second, &[sent, received, refused]) in (0..).zip(seconds) {
            account.absorb(&replies(second, sent, received, refused));
            (all.sent, all.refused) = (all.sent + sent, all.refused + refused);
        }
        // What is not lost returned, in an interval or behind the last one.
        all.received = all.sent - lost as u64;
        account.absorb(&Event::Local(Box::new(messages(all))));
        judged(&account, &phase)
    };
    let silent = "no message returned after 2.00 s: 20 were sent since";
    check(of(&[[20, 20, 0], [20, 15, 0], [20, 0, 0]], 25), Status::Partial, silent);
    let within = "of 40 messages that were sent after 1.00 s, 2 returned";
    check(of(&[[20, 20, 0], [20, 2, 0], [20, 0, 0]], 38), Status::Partial, within);
    check(of(&[[20, 20, 0], [20, 2, 0], [20, 19, 0]], 19), Status::Complete, "");
    check(of(&[[20, 20, 0], [20, 9, 0]], 11), Status::Complete, "");
    let refused = "the peer's host refused 12 datagrams until the end: nothing listens there any more";
    check(of(&[[20, 20, 0], [20, 10, 4], [12, 0, 8]], 22), Status::Partial, refused);
    // Loss, a pause, answers after the last interval and refusals before a program began to listen
    // are no end.
    check(of(&[[20, 2, 0], [20, 0, 0]], 38), Status::Complete, "");
    check(of(&[[20, 20, 0], [20, 0, 0], [20, 19, 0]], 21), Status::Complete, "");
    check(of(&[[20, 20, 0], [20, 0, 0]], 0), Status::Complete, "");
    check(of(&[[20, 20, 0], [2, 0, 0]], 2), Status::Complete, "");
    check(of(&[[20, 5, 9], [20, 20, 0]], 15), Status::Complete, "");
}

#[test]
fn messages_over_tcp_are_never_lost_but_stay_without_an_answer() {
    let of = |received: u64| {
        let mut account = Account::default();
        [replies(0, 20, 20, 0), replies(1, 20, 0, 0)].iter().for_each(|event| account.absorb(event));
        let counts = PingCounts { sent: 40, received, ..PingCounts::default() };
        account.absorb(&Event::Local(Box::new(messages(counts))));
        judged(&account, &ping(Transport::Tcp))
    };
    check(of(20), Status::Partial, "no message returned after 1.00 s: 20 were sent since");
    check(of(40), Status::Complete, "");
}

#[test]
fn datagrams_that_are_refused_at_the_end_are_partial() {
    let phase = delay(Pattern::Push, 64);
    let of = |seconds: &[[u64; 2]], remote: bool| {
        let mut account = Account::default();
        let mut all = Packets::default();
        for &[sent, refused] in seconds {
            let counts = Packets { sent, refused, ..Packets::default() };
            let packets = Some(Box::new(PacketReport::from(counts)));
            account.absorb(&Event::Interval(Box::new(Interval { packets, ..Interval::default() })));
            (all.sent, all.refused) = (all.sent + sent, all.refused + refused);
        }
        account.absorb(&Event::Local(Box::new(datagrams(1, all))));
        if remote {
            let got = Packets { sent: all.sent, received: all.sent, ..Packets::default() };
            account.absorb(&Event::Remote(Box::new(datagrams(1, got))));
        }
        judged(&account, &phase)
    };
    let why = |n: u64| {
        format!("the peer's host refused {n} datagrams until the end: nothing listens there any more")
    };
    // Of another host about one refusal a second arrives, within one host every second datagram's.
    let good = [1_000, 0];
    check(of(&[good, good, good, [999, 1], [999, 1]], false), Status::Partial, &why(2));
    check(of(&[[950, 50], [500, 500]], false), Status::Partial, &why(550));
    check(of(&[[990, 10], [1_000, 0], [1_000, 0]], false), Status::Complete, "");
    check(of(&[good, good, good, [999, 1], [999, 1]], true), Status::Complete, "");
    // Ends of the flow behind the first, at which its receiver went.
    check(of(&[good, good, [1_000, 4]], false), Status::Complete, "");
}

#[test]
fn payload_that_no_kernel_saw_acknowledged_has_not_passed() {
    let sender = |acked, retransmits, tx_bytes| {
        let mut local = bytes(2, tx_bytes, 0);
        (local.tcp.connections, local.tcp.bytes_acked, local.tcp.retransmits) = (2, acked, retransmits);
        ended(&tcp(Pattern::Push), local, None)
    };
    // A SYN each, or the first words of a protocol.
    let why = format!("2 connections were established, but no byte was acknowledged{SMALL_PASSED}");
    for acked in [0, 2, 80] {
        check(sender(Some(acked), 7, 300_000), Status::Failed, &why);
    }
    // A kernel that does not count, a path that was never asked again, and payload that passed.
    check(sender(None, 7, 300_000), Status::Complete, "");
    check(sender(Some(2), 0, 300_000), Status::Complete, "");
    check(sender(Some(100_000), 7, 300_000), Status::Complete, "");
    check(sender(Some(2), 7, 60), Status::Complete, "");
}

#[test]
fn bytes_that_a_servers_time_limit_left_out_make_a_phase_partial() {
    let whole = || (Status::Complete, None);
    let asked = Phase { total_bytes: Some(100 << 30), duration_ns: None, ..tcp(Pattern::Push) };
    let moved = |n: u64, phase: &Phase| of(phase, whole(), true, bytes(8, n, 0), Some(bytes(8, 0, n)));
    let why = "4.00 GiB of 100 GiB passed: the server ended the session at its time limit";
    check(moved(4 << 30, &asked), Status::Partial, why);
    check(moved(100 << 30, &asked), Status::Complete, "");
    // The user's own time ended it.
    let timed = Phase { duration_ns: Some(metrics::SECOND), ..asked };
    check(moved(4 << 30, &timed), Status::Complete, "");
}

#[test]
fn a_run_that_is_over_within_its_omitted_start_is_partial() {
    let phase = Phase { omit_ns: 5 * metrics::SECOND, total_bytes: Some(9), ..tcp(Pattern::Push) };
    let early = |rx_bytes| Interval {
        local: Traffic { tx_bytes: 9, ..Traffic::default() },
        remote: Some(Traffic { rx_bytes, ..Traffic::default() }),
        ..Interval::default()
    };
    let of = |measured: u64| {
        let mut account = Account::default();
        account.absorb(&Event::Interval(Box::new(early(9))));
        account.absorb(&Event::Local(Box::new(bytes(1, measured, 0))));
        account.absorb(&Event::Remote(Box::new(bytes(1, 0, measured))));
        judged(&account, &phase)
    };
    check(
        of(0),
        Status::Partial,
        "the run was over within its omitted start of 5.00 s: nothing was measured",
    );
    check(of(9), Status::Complete, "");
}

#[test]
fn a_stream_whose_server_stops_sending_is_partial() {
    let phase = Phase { kind: Kind::Stream, pattern: Pattern::Pull, ..Phase::default() };
    // Frames of each second that arrived and that did not.
    let of = |seconds: &[[u64; 2]]| {
        let mut account = Account::default();
        let mut all = metrics::Frames::default();
        for (second, &[completed, dropped]) in (1..).zip(seconds) {
            let frames = Some(metrics::Frames { completed, dropped, ..metrics::Frames::default() });
            let end_ns = second * metrics::SECOND;
            account.absorb(&Event::Interval(Box::new(Interval { end_ns, frames, ..Interval::default() })));
            (all.completed, all.dropped) = (all.completed + completed, all.dropped + dropped);
        }
        let local = Totals { frames: Some(all), ..bytes(1, 0, all.completed * 400) };
        account.absorb(&Event::Local(Box::new(local)));
        judged(&account, &phase)
    };
    let why = "no frame arrived after 2.00 s: 50 were due since";
    check(of(&[[50, 0], [20, 30], [0, 50]]), Status::Partial, why);
    check(of(&[[50, 0], [20, 30], [40, 10]]), Status::Complete, "");
}

#[test]
fn a_server_that_listens_later_than_its_client_is_no_loss() {
    let text = "connecting: Connection refused (os error 111)";
    let of = |seconds: &[[u64; 2]]| {
        let mut account = Account::default();
        for &[tx_bytes, network_errors] in seconds {
            let local = Traffic { tx_bytes, ..Traffic::default() };
            let interval = Interval { local, network_errors, ..Interval::default() };
            account.absorb(&Event::Interval(Box::new(interval)));
        }
        let local = failing(metrics::Ending::NetworkError, text, 3, bytes(2, 9, 0));
        account.absorb(&Event::Local(Box::new(local)));
        judged(&account, &tcp(Pattern::Push)).0
    };
    assert_eq!(of(&[[0, 3], [9, 0], [9, 0]]), Status::Complete);
    assert_eq!(of(&[[9, 0], [9, 2], [0, 1]]), Status::Partial);
}
