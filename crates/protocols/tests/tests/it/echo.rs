//! Round trips in virtual time: a path whose delay is known must be measured exactly, in any
//! segmentation, and damaged, late and lost messages must be counted exactly.

use crate::support::run::about;
use crate::support::{combinations, ran, sized};
use common::Acl;
use common::one_sided::Answers;
use common::ping::{Params, Pinger, Remote};
use echo::{Responder, acceptors};
use metrics::{Ending, Group, Mono, PacketTally, Recorder, SECOND};
use model::{Echo, Event, Kind, Phase, Ping, PingRow, Schedule, Transport};
use sim::{At, Cut, Link, Pair, Quirks, START, Side};
use std::sync::Arc;
use transport::{
    Acceptor, Arena, Cause, Checked, Context, Flow, FlowEvent, FlowId, Interest, Path, Read, Received, Sent,
    Transmit, Violation, When,
};
use uuid::Uuid;

const MS: u64 = 1_000_000;
const GROUP: Group = Group(1);

fn ping(messages: u64, size: u32) -> Ping {
    Ping { messages: Some(messages), size, samples: true, ..Ping::default() }
}

fn udp(ping: Ping) -> Ping {
    Ping { transport: Transport::Udp, timeout_ns: 50 * MS, ..ping }
}

fn phase(ping: Ping) -> Phase {
    Phase { kind: Kind::Ping, ping: Some(ping), connections: 1, ..Phase::default() }
}

fn pinger(ping: Ping) -> Box<dyn Flow> {
    let params = Arc::new(Params::of(&phase(ping), GROUP, Remote::Nothing));
    Box::new(Pinger::new(params, Uuid::from_u128(7), 0))
}

/// A client and an echo service of ours.
fn pair(ping: Ping) -> Pair {
    match ping.transport {
        Transport::Tcp => Pair::stream(pinger(ping), Box::new(Responder::new(GROUP, 10 * SECOND))),
        Transport::Udp => {
            let listener = acceptors(&phase(ping), &Answers { workers: 1, ..Answers::default() });
            Pair::unsolicited(pinger(ping), listener.into_iter().next().unwrap())
        }
    }
}

/// What a flow sends at an instant, all of it.
fn transmit(flow: &mut dyn Flow, side: &mut Side, now: Mono) -> Vec<u8> {
    let mut arena = Arena::new(100);
    let mut burst = Transmit::new(&mut arena, 100);
    flow.prepare_send(&mut side.cx(now), &mut burst);
    let bytes: Vec<u8> = burst.slices().flatten().copied().collect();
    if !bytes.is_empty() {
        flow.on_sent(&mut side.cx(now), Sent { bytes: bytes.len(), fault: None });
    }
    bytes
}

fn tally(rec: &mut Recorder) -> PacketTally {
    *rec.take_tally(GROUP).packets.unwrap_or_default()
}

fn rows(pair: &Pair) -> Vec<PingRow> {
    let rows = crate::support::told(&pair.ends[0].side.outbox)
        .filter_map(|e| if let Event::Pings { rows } = e { Some(rows) } else { None });
    rows.flatten().copied().collect()
}

fn fates(rows: &[PingRow]) -> [usize; 4] {
    [Echo::InTime, Echo::Missing, Echo::Late, Echo::Damaged]
        .map(|echo| rows.iter().filter(|row| row.echo == echo).count())
}

#[test]
fn a_schedule_begins_with_its_phase_however_late_the_connection_is_up() {
    let path = Path { peer: ([10, 0, 0, 1], 7).into(), local: ([10, 0, 0, 2], 7).into() };
    let end = START.plus(6 * SECOND);
    // 600 places in 6 s. Up after 4 s: those before are missed.
    for (up_ms, sent, missed) in [(0, 600, 0), (4_000, 200, 400), (6_000, 0, 600)] {
        let schedule = Schedule::Fixed { gap_ns: 10 * MS };
        let ping = Ping { schedule, transport: Transport::Udp, timeout_ns: SECOND, ..Ping::default() };
        let params = Params::of(&phase(ping), GROUP, Remote::Nothing).during(START, Some(end));
        let mut pinger = Pinger::new(Arc::new(params), Uuid::from_u128(7), 0);
        let mut side = Side::new(1, Quirks::default());
        let mut now = START.plus(up_ms * MS);
        pinger.on_event(&mut side.cx(now), FlowEvent::Up(path)).unwrap();
        while now < end {
            transmit(&mut pinger, &mut side, now);
            match pinger.interest().send {
                When::At(due) => now = now.max(due),
                When::Never => break,
                When::Now => panic!("a message is whole"),
            }
        }
        pinger.on_event(&mut side.cx(end), FlowEvent::Stop).unwrap();
        let counts = tally(&mut side.rec).counts;
        assert_eq!((counts.sent, counts.unsent), (sent, missed), "up after {up_ms} ms");
    }
}

#[test]
fn a_damaged_echo_and_a_whole_copy_of_it_are_not_counted_as_two() {
    let path = Path { peer: ([10, 0, 0, 1], 7).into(), local: ([10, 0, 0, 2], 7).into() };
    for chunk in [None, Some(32)] {
        let schedule = Schedule::Fixed { gap_ns: SECOND };
        let mut pinger = pinger(Ping { schedule, chunk, ..udp(ping(2, 64)) });
        let mut side = Side::new(1, Quirks::default());
        pinger.on_event(&mut side.cx(START), FlowEvent::Up(path)).unwrap();
        let all = 0..64 / chunk.unwrap_or(64);
        let mut units: Vec<Vec<u8>> = all.map(|_| transmit(&mut *pinger, &mut side, START)).collect();
        let whole = units[0].clone();
        units[0][20] ^= 1;
        for unit in units.iter().chain([&whole]) {
            let mut none = Arena::new(0);
            let got = Received::stream(unit, START);
            pinger.on_received(&mut side.cx(START), &got, &mut Transmit::new(&mut none, 0)).unwrap();
        }
        let counts = tally(&mut side.rec).counts;
        assert_eq!((counts.corrupt, counts.received, counts.duplicated), (1, 0, 1), "{chunk:?}");
    }
}

#[test]
fn a_known_round_trip_is_measured() {
    let rtt_ns = 7 * MS + 321;
    for transport in [Transport::Tcp, Transport::Udp] {
        for size in [1, 7, 8, 15, 16, 17, 64, 1024] {
            let mut pair = ran(pair(Ping { transport, ..ping(50, size) })
                .up(Link::new().delay(3 * MS))
                .down(Link::new().delay(4 * MS + 321)));
            assert!(pair.ends[0].completed(), "{transport:?} {size}: {:?}", pair.ends[0].ended);
            let told = rows(&pair);
            assert_eq!(told.len(), 50);
            assert!(
                told.iter()
                    .enumerate()
                    .all(|(n, row)| row.seq == n as u64 && row.rtt_ns.is_some_and(|took| about(took, rtt_ns))),
                "{told:?}"
            );
            let tally = tally(&mut pair.ends[0].side.rec);
            assert_eq!((tally.counts.sent, tally.counts.received, tally.counts.lost), (50, 50, 0));
            let rtt = tally.delay_ns.spectrum().unwrap();
            assert!(rtt.count == 50 && about(rtt.min, rtt_ns) && about(rtt.max, rtt_ns), "{rtt:?}");
            assert!(rtt.quantile(0.5) >= Some(rtt.min) && rtt.quantile(0.99999) == Some(rtt.max), "{rtt:?}");
            assert!(tally.intended_ns.spectrum().is_none(), "a closed loop has no schedule");
        }
    }
}

#[test]
fn odd_pieces_change_no_byte_and_no_count() {
    let machines = [
        ("one-byte reads", Quirks::one_byte_reads()),
        ("tiny sends", Quirks::tiny_sends()),
        ("rough", Quirks::rough()),
    ];
    let chunks = [None, Some(1), Some(7), Some(16), Some(1000), Some(5000)];
    let sizes = [1, 5, 16, 17, 1024, 3001];
    let messages: usize = sized(3, 5);
    for [machine, chunk, size] in combinations([machines.len(), chunks.len(), sizes.len()]) {
        let ((name, quirks), chunk, size) = (machines[machine], chunks[chunk], sizes[size]);
        let pair =
            ran(pair(Ping { chunk, ..ping(messages as u64, size) }).seed(u64::from(size)).quirks(quirks));
        let what = format!("{name} {chunk:?} {size}");
        let moved = messages as u64 * u64::from(size);
        for end in &pair.ends {
            assert!(end.completed(), "{what}: {:?}", end.ended);
            assert_eq!((end.counts.tx_bytes, end.counts.rx_bytes), (moved, moved), "{what}");
        }
        assert_eq!(fates(&rows(&pair)), [messages, 0, 0, 0], "{what}");
    }
}

#[test]
fn a_split_message_is_one_datagram_for_each_part() {
    for (size, chunk, datagrams) in [(1024, 1000, 2), (100, 30, 4), (64, 1, 64), (10, 10, 1)] {
        let ping = udp(Ping { chunk: Some(chunk), transport: Transport::Udp, ..ping(9, size) });
        let pair = ran(pair(ping).both(Link::new().delay(MS)));
        assert!(pair.ends[0].completed(), "{:?}", pair.ends[0].ended);
        assert_eq!(pair.fate(0).sent, 9 * datagrams, "{size} by {chunk}");
        assert_eq!(fates(&rows(&pair)), [9, 0, 0, 0]);
        assert_eq!(pair.ends[0].counts.rx_bytes, 9 * u64::from(size));
    }
}

#[test]
fn the_warm_up_is_left_out_and_stated() {
    let mut pair = ran(pair(Ping { warmup: 20, ..ping(30, 64) }));
    let tally = tally(&mut pair.ends[0].side.rec);
    assert_eq!((tally.omitted, tally.counts.sent, tally.delay_ns.count()), (20, 30, 30));
    let told = rows(&pair);
    assert_eq!((told.len(), told[0].seq, told[29].seq), (30, 0, 29));
    assert_eq!(pair.ends[0].counts.tx_bytes, 50 * 64, "bytes count all the same");
}

#[test]
fn a_changed_byte_damages_its_message_and_no_other() {
    // Byte 2 of message 1 (its number), byte 100 of message 2 (its pattern), byte 9 of message 5
    // (its word).
    for at in [128 + 2, 256 + 100, 640 + 9] {
        let pair = ran(pair(ping(8, 128)).down(Link::new().flip(at, 0x20)));
        let how = pair.ends[0].ended.clone().unwrap();
        let Err(Cause::Violation(Violation::BadData { offset, .. })) = how else { panic!("{how:?}") };
        assert_eq!(offset, at % 128);
        let told = rows(&pair);
        assert_eq!(fates(&told), [7, 0, 0, 1]);
        assert_eq!(told.iter().position(|row| row.echo == Echo::Damaged), Some((at / 128) as usize));
    }
}

#[test]
fn an_echo_that_ends_early_or_says_more_is_an_error() {
    let mut short = ran(pair(ping(10, 100)).down(Link::new().cut(At::Byte(250), Cut::Fin)));
    let how = short.ends[0].ended.clone().unwrap();
    assert!(matches!(how, Err(Cause::Violation(_) | Cause::Fault(_))), "{how:?}");
    let counts = tally(&mut short.ends[0].side.rec).counts;
    assert_eq!(
        (counts.sent, counts.received, counts.lost),
        (3, 2, 0),
        "over TCP nothing is lost, only unanswered"
    );
    let more = ran(pair(ping(10, 100)).down(Link::new().insert(300, &[7])));
    let how = more.ends[0].ended.clone().unwrap();
    assert!(matches!(how, Err(Cause::Violation(_))), "{how:?}");
}

#[test]
fn a_silent_service_is_noticed() {
    let pair = ran(pair(ping(10, 100)).down(Link::new().cut(At::Byte(150), Cut::Silence)));
    let how = pair.ends[0].ended.clone().unwrap();
    let Err(Cause::Violation(violation)) = how else { panic!("{how:?}") };
    assert_eq!(violation.ending(), Ending::NetworkError);
    assert!(violation.to_string().contains("is it an echo service?"), "{violation}");
}

/// An echo service over UDP that does something else with chosen datagrams: keeps one back so long,
/// or for ever; says it twice; cuts it; spoils a byte.
struct Odd {
    seen: u64,
    due: Vec<(Mono, Vec<u8>)>,
    plan: fn(u64) -> What,
}

#[derive(Clone, Copy)]
enum What {
    Echo,
    After(u64),
    Drop,
    Twice,
    Cut,
    Spoil(usize),
}

impl Flow for Odd {
    fn interest(&self) -> Interest {
        let due = self.due.iter().map(|d| d.0).min();
        Interest { send: due.map_or(When::Never, When::At), read: Read::look(65_535), wake: None, end: None }
    }
    fn prepare_send(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
        if let Some(at) = self.due.iter().position(|d| d.0 <= cx.now) {
            let bytes = self.due.remove(at).1;
            out.own(bytes.len()).copy_from_slice(&bytes);
        }
    }
    fn on_sent(&mut self, _: &mut Context<'_>, _: Sent) {}
    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        for datagram in got.datagrams() {
            let mut bytes = datagram.to_vec();
            let n = self.seen;
            self.seen += 1;
            match (self.plan)(n) {
                What::Echo => self.due.push((cx.now, bytes)),
                What::After(ns) => self.due.push((cx.now.plus(ns), bytes)),
                What::Drop => {}
                What::Twice => self.due.extend([(cx.now, bytes.clone()), (cx.now, bytes)]),
                What::Cut => self.due.push((cx.now, bytes[..bytes.len() - 1].to_vec())),
                What::Spoil(at) => {
                    bytes[at] ^= 1;
                    self.due.push((cx.now, bytes));
                }
            }
        }
        Ok(())
    }
    fn on_event(&mut self, _: &mut Context<'_>, _: FlowEvent) -> Checked {
        Ok(())
    }
    fn id(&self) -> FlowId {
        FlowId::default()
    }
}

/// What has become of such a service and its client within a minute, over paths of a millisecond.
fn odd(ping: Ping, plan: fn(u64) -> What) -> Pair {
    odd_over(Link::new().delay(MS), ping, plan)
}

/// The same where requests take another way.
fn odd_over(up: Link, ping: Ping, plan: fn(u64) -> What) -> Pair {
    let peer = Odd { seen: 0, due: Vec::new(), plan };
    let pair = Pair::datagrams(pinger(ping), Box::new(peer));
    let mut pair = pair.up(up).down(Link::new().delay(MS));
    pair.run_until(Mono(60 * SECOND));
    pair
}

#[test]
fn late_is_not_lost_and_neither_is_a_round_trip() {
    // Timeout 50 ms: number 3 is kept back for 70 ms, 5 for ever, 9 is said twice, the last (19) is
    // late, too.
    let mut pair = odd(udp(ping(20, 64)), |n| match n {
        3 | 19 => What::After(70 * MS),
        5 => What::Drop,
        9 => What::Twice,
        _ => What::Echo,
    });
    let told = rows(&pair);
    let tally = tally(&mut pair.ends[0].side.rec);
    let counts = tally.counts;
    assert_eq!(
        (counts.sent, counts.received, counts.late, counts.lost, counts.duplicated, counts.corrupt),
        (20, 19, 2, 1, 1, 0)
    );
    assert_eq!(fates(&told), [17, 3, 2, 0], "the late ones were missing first");
    let rtt = tally.delay_ns.spectrum().unwrap();
    assert_eq!(rtt.count, 19);
    assert!(about(rtt.min, 2 * MS) && about(rtt.max, 72 * MS), "late ones with the time they took: {rtt:?}");
    assert_eq!(tally.delay_ns.count_above(3 * MS), 2, "a late echo is no round trip of the next message");
    let late: Vec<_> =
        told.iter().filter(|row| row.echo == Echo::Late).map(|row| (row.seq, row.rtt_ns)).collect();
    assert_eq!(late.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [3, 19]);
    assert!(late.iter().all(|(_, took)| took.is_some_and(|took| about(took, 72 * MS))), "{late:?}");
    assert_eq!(pair.ends[0].ended, Some(Ok(Ending::Completed)));
}

#[test]
fn a_short_or_spoilt_datagram_is_damaged() {
    let mut pair = odd(udp(ping(12, 64)), |n| match n {
        2 => What::Cut,
        4 => What::Spoil(40),
        7 => What::Spoil(12),
        _ => What::Echo,
    });
    let counts = tally(&mut pair.ends[0].side.rec).counts;
    assert_eq!((counts.sent, counts.received, counts.corrupt, counts.lost), (12, 9, 3, 0));
    assert!(matches!(
        pair.ends[0].ended,
        Some(Err(Cause::Violation(Violation::TooFew { got: 63, want: 64 })))
    ));
}

#[test]
fn a_stall_of_the_remote_end_shows_in_an_open_loop_and_hides_in_a_closed_one() {
    // All that arrives in 200 ms from the 50th message on is answered at their end.
    let stall: fn(u64) -> What = |n| if n == 50 { What::After(200 * MS) } else { What::Echo };
    let mut closed = odd(Ping { timeout_ns: SECOND, ..udp(ping(500, 64)) }, stall);
    let hidden = tally(&mut closed.ends[0].side.rec).datagrams.delay_ns;
    let (least, most) = hidden.extremes().unwrap();
    assert!(about(least, 2 * MS) && about(most, 202 * MS), "{least} {most}");
    assert!(hidden.quantile(0.99) < 3 * MS, "one message of 500");

    // An open loop, 10 ms apart, over TCP, whose echo is held up for 200 ms by a cut of the path's
    // rate: the messages that were due meanwhile waited, each 10 ms less than the one before.
    let open = Ping { schedule: Schedule::Fixed { gap_ns: 10 * MS }, ..ping(500, 64) };
    let mut pair = held_up(open, 200 * MS);
    pair.run_until(Mono(600 * SECOND));
    let tally = tally(&mut pair.ends[0].side.rec);
    assert_eq!((tally.counts.sent, tally.counts.unsent, tally.intended_ns.count()), (500, 0, 500));
    // 500 messages: those due 0, 10, … 190 ms into the stall waited 200, 190, … 10 ms; 5 of 500 lie
    // beyond p99.
    let (p99, max) = (tally.intended_ns.quantile(0.99), tally.intended_ns.extremes().unwrap().1);
    assert!((150 * MS..=165 * MS).contains(&p99), "{p99}");
    assert!((200 * MS..=203 * MS).contains(&max), "{max}");
}

/// The remote end answers nothing for 2.5 s, then everything; each of the messages due meanwhile
/// waited 10 ms less than the one before. The oracle sorts the rows of all messages, a lost one as
/// the largest number there is.
#[test]
fn late_echoes_are_in_the_percentiles_and_lost_ones_above_them() {
    const STALL: u64 = 2_500 * MS;
    let plan: fn(u64) -> What = |n| match n {
        100..350 => What::After(STALL - (n - 100) * 10 * MS),
        500..505 => What::Drop,
        _ => What::Echo,
    };
    let open =
        Ping { schedule: Schedule::Fixed { gap_ns: 10 * MS }, timeout_ns: SECOND, ..udp(ping(700, 64)) };
    let mut pair = odd(open, plan);
    let mut last = std::collections::BTreeMap::new();
    rows(&pair).iter().for_each(|row| {
        last.insert(row.seq, row.rtt_ns.unwrap_or(u64::MAX));
    });
    let mut all: Vec<u64> = last.into_values().collect();
    all.sort_unstable();
    let trips = model::RoundTrips::of(&tally(&mut pair.ends[0].side.rec));
    // Those due 0, 10, … 1500 ms into the stall waited 2502, 2492, … 1002 ms.
    assert_eq!((trips.counts.sent, trips.counts.late, trips.counts.lost), (700, 151, 5));
    for dist in [trips.rtt_ns.unwrap(), trips.intended_ns.unwrap()] {
        assert_eq!((dist.count, dist.missing, all.len()), (695, 5, 700));
        for q in [0.5, 0.9, 0.99, 0.999] {
            let want = Some(all[(q * 700.0_f64).ceil() as usize - 1]).filter(|&ns| ns < u64::MAX);
            // Three digits, and what the simulated threads add.
            let local = |got: u64, want: u64| got.abs_diff(want) <= want / 500 + 30_000;
            let got = dist.quantile(q);
            assert!(got.zip(want).map_or(got == want, |(a, b)| local(a, b)), "{q}: {got:?} {want:?}");
        }
        // 7 of 700 beyond p99, 5 of them lost and the slowest two: the third slowest waited 2.48 s,
        // and 2 ms of path.
        let p99 = dist.quantile(0.99).unwrap();
        assert!((2_470 * MS..2_495 * MS).contains(&p99), "{p99}");
        assert_eq!(dist.quantile(0.999), None, "among the lost");
    }
}

/// A client whose remote end, an echo service that reads nothing for so long from its 50th message
/// on, is otherwise ours.
fn held_up(ping: Ping, ns: u64) -> Pair {
    let server = Stalling { inner: Responder::new(GROUP, 10 * SECOND), got: 0, ns, until: None };
    Pair::stream(pinger(ping), Box::new(server)).both(Link::new().delay(MS))
}

struct Stalling {
    inner: Responder,
    got: u64,
    ns: u64,
    until: Option<Mono>,
}

impl Flow for Stalling {
    fn interest(&self) -> Interest {
        let want = self.inner.interest();
        match (self.until, want.send) {
            (Some(until), When::Now) => Interest { send: When::At(until), ..want },
            _ => want,
        }
    }
    fn prepare_send(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
        self.inner.prepare_send(cx, out);
    }
    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        self.inner.on_sent(cx, n);
    }
    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, reply: &mut Transmit<'_>) -> Checked {
        self.got += got.len as u64;
        if self.got >= 50 * 64 && self.until.is_none() {
            self.until = Some(cx.now.plus(self.ns));
        }
        self.inner.on_received(cx, got, reply)
    }
    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        self.inner.on_event(cx, event)
    }
    fn id(&self) -> FlowId {
        self.inner.id()
    }
}

#[test]
fn an_open_loop_keeps_its_schedule() {
    let fixed = Ping { schedule: Schedule::Fixed { gap_ns: 5 * MS }, ..udp(ping(200, 64)) };
    // The round trip takes four times as long as the distance: several are under way at once.
    let mut pair = odd(fixed, |_| What::After(18 * MS));
    let told = rows(&pair);
    assert_eq!(told.len(), 200);
    for row in &told {
        let due = told[0].intended_ns + row.seq * 5 * MS;
        assert_eq!(row.intended_ns, due);
        assert!(about(row.sent_ns, due) && about(row.rtt_ns.unwrap(), 20 * MS), "{row:?}");
    }
    let tally = tally(&mut pair.ends[0].side.rec);
    assert_eq!((tally.delay_ns.count(), tally.intended_ns.count(), tally.counts.unsent), (200, 200, 0));
}

#[test]
fn random_distances_have_the_mean_and_the_spread_of_a_poisson_process() {
    let poisson = Ping { schedule: Schedule::Poisson { gap_ns: MS }, ..udp(ping(20_000, 16)) };
    let pair = odd(poisson, |_| What::Echo);
    let told = rows(&pair);
    let gaps: Vec<f64> =
        told.windows(2).map(|two| (two[1].intended_ns - two[0].intended_ns) as f64 / MS as f64).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let sd = (gaps.iter().map(|g| (g - mean) * (g - mean)).sum::<f64>() / gaps.len() as f64).sqrt();
    // Mean and deviation of an exponential distribution are equal; five standard errors of 20,000
    // draws are 0.035.
    assert!((mean - 1.0).abs() < 0.036 && (sd - 1.0).abs() < 0.08, "{mean} {sd}");
    let beyond = gaps.iter().filter(|&&g| g > 3.0).count() as f64 / gaps.len() as f64;
    assert!((beyond - (-3f64).exp()).abs() < 0.008, "{beyond}");
}

#[test]
fn the_end_of_the_run_waits_for_what_is_under_way() {
    for transport in [Transport::Tcp, Transport::Udp] {
        let endless = Ping { messages: None, transport, timeout_ns: 300 * MS, ..ping(1, 64) };
        let mut pair = ran(pair(endless).both(Link::new().delay(10 * MS)).stop(0, 95 * MS));
        assert_eq!(pair.ends[0].ended, Some(Ok(Ending::Stopped)), "{transport:?}");
        let counts = tally(&mut pair.ends[0].side.rec).counts;
        assert_eq!((counts.sent, counts.received, counts.lost), (5, 5, 0), "{transport:?}");
    }
}

#[test]
fn a_service_that_is_stopped_serves_those_it_has_to_their_end() {
    // 100 round trips of 20 ms; the service is stopped during the tenth.
    let run = ran(pair(ping(100, 64)).both(Link::new().delay(10 * MS)).stop(1, 190 * MS));
    assert!(run.ends[0].completed(), "{:?}", run.ends[0].ended);
    assert_eq!(fates(&rows(&run)), [100, 0, 0, 0]);
    // A client that is silent for a second is not waited for.
    let slow = Ping { schedule: Schedule::Fixed { gap_ns: 3 * SECOND }, ..ping(5, 64) };
    let run = ran(pair(slow).both(Link::new().delay(10 * MS)).stop(1, 190 * MS));
    assert_eq!(format!("{:?}", run.ends[1].ended), "Some(Ok(Stopped))");
    assert_eq!(fates(&rows(&run))[0], 1, "{:?}", run.ends[0].ended);
}

#[test]
fn nobody_there_is_told_and_not_asked_for_ever() {
    let mut pair = odd_over(Link::new().refuse(1.0), udp(ping(1000, 64)), |_| What::Drop);
    let counts = tally(&mut pair.ends[0].side.rec).counts;
    assert_eq!((counts.sent, counts.received), (0, 0));
    assert!(counts.refused > 0 && counts.refused == counts.unsent, "{counts:?}");
}

#[test]
fn refused_addresses_are_named_once_each_and_the_first_only() {
    // An address that is not admitted, and one that asks from the port of a service.
    let nowhere = Acl { allow: vec!["192.0.2.0/24".parse().unwrap()], deny: vec![] };
    for (streams, port) in [(nowhere, 5_000), (Acl::default(), 7)] {
        let answers = Answers { workers: 1, streams, ..Answers::default() };
        let mut acceptor: Box<dyn Acceptor> = acceptors(&phase(udp(ping(1, 64))), &answers).remove(0);
        let mut side = Side::new(1, Quirks::default());
        let mut arena = Arena::new(0);
        let mut told = Vec::new();
        for (seen, addresses) in [(2, 2), (20, 200)] {
            for n in 0..1_000 {
                let peer = ([10, 9, 0, (n % addresses) as u8], port).into();
                let path = Path { peer, local: ([10, 0, 0, 1], 7).into() };
                let got = Received { from: Some(path), ..Received::stream(&[7; 64], START) };
                let mut reply = Transmit::new(&mut arena, 0);
                assert!(acceptor.on_unsolicited(&mut side.cx(START), &got, &mut reply).is_none());
            }
            told.append(&mut side.outbox);
            assert_eq!(told.len(), seen, "port {port}");
        }
    }
}

#[test]
fn the_echo_service_holds_back_a_peer_that_does_not_read() {
    let mut responder = Responder::new(GROUP, SECOND);
    let mut side = Side::new(1, Quirks::default());
    let mut arena = Arena::new(0);
    let chunk = vec![5u8; 60_000];
    for _ in 0..10 {
        let Read::Look(room) = responder.interest().read else { break };
        let n = chunk.len().min(room.get() as usize);
        let mut reply = Transmit::new(&mut arena, 0);
        let now = Mono(5);
        responder.on_received(&mut side.cx(now), &Received::stream(&chunk[..n], now), &mut reply).unwrap();
    }
    assert_eq!(responder.interest().read, Read::Pause, "64 KiB are owed");
    assert_eq!(responder.interest().send, When::Now);
}

#[test]
fn a_stopped_echo_service_is_woken_no_more_before_the_peer_that_does_not_read_has_stalled() {
    let mut responder = Responder::new(GROUP, 10 * SECOND);
    let mut side = Side::new(1, Quirks::default());
    let mut arena = Arena::new(0);
    let came = Mono(5);
    let mut reply = Transmit::new(&mut arena, 0);
    responder.on_received(&mut side.cx(came), &Received::stream(&[5; 100], came), &mut reply).unwrap();
    // Silent for longer than the service waits after a stop.
    responder.on_event(&mut side.cx(came.plus(2 * SECOND)), FlowEvent::Stop).unwrap();
    let Interest { send, wake, .. } = responder.interest();
    assert_eq!((send, wake), (When::Now, Some(came.plus(10 * SECOND))));
}
