//! ctsTraffic's media stream in virtual time, over good and bad paths; what a receiver says of its
//! frames is held against a slow model that knows only what arrived when.

use crate::support::{combinations, ran};
use common::one_sided::Answers;
use common::{Acl, Params};
use ctstraffic::Receiver;
use metrics::{Ending, Frames, Group, Mono, SECOND};
use model::{Event, FrameRow, FrameVerdict, Kind, Media, Phase, Verify};
use sim::{At, Cut, Link, Pair, Quirks, START, Side};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use transport::{
    Acceptor, Arena, Cause, Checked, Context, Flow, FlowEvent, FlowId, Interest, Path, Received, Sent,
    Transmit, Violation,
};

const MS: u64 = 1_000_000;

fn phase(media: Media) -> Phase {
    Phase { kind: Kind::Stream, media: Some(media), ..Phase::default() }
}

/// A stream of so many bits a second in so many frames, of whole seconds, held for `depth` frames.
fn media(rate: u64, fps: u32, seconds: u64, depth: u64) -> Media {
    Media { depth_frames: depth, ..Media::new(rate, fps, seconds, 1, 1_400).unwrap() }
}

/// What a receiver was given, and when.
#[derive(Default)]
struct Seen {
    /// When each START left.
    starts: Vec<Mono>,
    /// Arrivals: when, and the datagram.
    came: Vec<(Mono, Vec<u8>)>,
}

/// Writes down what passes between a receiver and its socket.
struct Tap {
    flow: Receiver,
    seen: Arc<Mutex<Seen>>,
}

impl Flow for Tap {
    fn interest(&self) -> Interest {
        self.flow.interest()
    }
    fn prepare_send(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
        self.flow.prepare_send(cx, out);
    }
    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        if n.bytes > 0 {
            self.seen.lock().unwrap().starts.push(cx.now);
        }
        self.flow.on_sent(cx, n);
    }
    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, reply: &mut Transmit<'_>) -> Checked {
        let at = got.stamp.map_or(got.at, |s| s.at);
        let came = got.datagrams().map(|bytes| (at, bytes.to_vec()));
        self.seen.lock().unwrap().came.extend(came);
        self.flow.on_received(cx, got, reply)
    }
    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        self.flow.on_event(cx, event)
    }
    fn id(&self) -> FlowId {
        self.flow.id()
    }
}

fn acceptor(phase: &Phase, streams: Acl) -> Box<dyn Acceptor> {
    let answers = Answers { streams, workers: 1, ..Answers::default() };
    ctstraffic::acceptors(phase, &answers).remove(0)
}

/// A client and a server whose streams may differ.
fn unlike(client: Media, server: Media) -> (Pair, Arc<Mutex<Seen>>) {
    let params = Arc::new(Params::of(&phase(client), Group(1)));
    let seen = Arc::default();
    let tap = Tap { flow: Receiver::new(params, client, 0, true), seen: Arc::clone(&seen) };
    let sockets = model::SocketSettings { gro: true, ..model::SocketSettings::default() };
    (Pair::unsolicited(Box::new(tap), acceptor(&phase(server), Acl::default())).sockets(sockets), seen)
}

/// A stream between ends that are set alike, as `set` makes it, and which has ended.
fn streamed(media: Media, set: impl FnOnce(Pair) -> Pair) -> (Pair, Seen) {
    let (pair, seen) = unlike(media, media);
    let pair = ran(set(pair));
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    (pair, seen)
}

fn number(bytes: &[u8]) -> i64 {
    bytes.iter().rev().fold(0i64, |n, &b| n << 8 | i64::from(b))
}

/// What the description says of the frames, computed from the arrivals alone, frame by frame and
/// datagram by datagram.
fn expected(media: &Media, seen: &Seen) -> (Frames, BTreeMap<u64, FrameVerdict>) {
    let start = seen.starts[0].0;
    let depth = media.depth_frames.min(media.frames);
    let due = |frame: u64| {
        u128::from(start) + u128::from(depth + frame - 1) * u128::from(SECOND) / u128::from(media.frame_rate)
    };
    let mut bytes: BTreeMap<u64, u64> = BTreeMap::new();
    let mut errors = 0;
    for (at, datagram) in &seen.came {
        if datagram[..2] != [0, 0] {
            continue;
        }
        let frame = number(&datagram[2..10]);
        // The first frame that has not been shown when this comes.
        let head =
            (1..=media.frames + 1).find(|&f| f > media.frames || due(f) > u128::from(at.0)).unwrap() as i64;
        let last = (media.frames as i64).min(head + 2 * depth as i64 - 1);
        if (head..=last).contains(&frame) {
            *bytes.entry(frame as u64).or_default() += datagram.len() as u64;
        } else if head <= media.frames as i64 {
            errors += 1;
        }
    }
    let mut frames = Frames { errors, ..Frames::default() };
    let mut verdicts = BTreeMap::new();
    for frame in 1..=media.frames {
        let verdict = match bytes.get(&frame).copied().unwrap_or(0) {
            n if n == media.frame_size => FrameVerdict::Completed,
            n if n < media.frame_size => FrameVerdict::Dropped,
            _ => FrameVerdict::Repeated,
        };
        match verdict {
            FrameVerdict::Completed => frames.completed += 1,
            FrameVerdict::Dropped => frames.dropped += 1,
            FrameVerdict::Repeated => frames.repeated += 1,
        }
        verdicts.insert(frame, verdict);
    }
    (frames, verdicts)
}

/// The rows that a receiver has posted, and its remarks.
fn told(pair: &Pair, end: usize) -> (Vec<FrameRow>, Vec<String>) {
    let (mut rows, mut notices) = (vec![], vec![]);
    for event in crate::support::told(&pair.ends[end].side.outbox) {
        match event {
            Event::Frames { rows: judged, .. } => rows.extend(judged.iter().copied()),
            Event::Notice { text, .. } => notices.push(text.clone()),
            _ => {}
        }
    }
    (rows, notices)
}

/// A stream that ran to its end: the receiver's word against the model's.
fn assert_judged(pair: &Pair, media: &Media, seen: &Seen, what: &str) -> Frames {
    let (frames, verdicts) = expected(media, seen);
    assert!(pair.ends[0].completed(), "{what}: {:?}", pair.ends[0].ended);
    assert_eq!(pair.ends[0].counts.frames, frames, "{what}");
    let (rows, _) = told(pair, 0);
    let judged: BTreeMap<u64, FrameVerdict> = rows.iter().map(|r| (r.seq, r.verdict)).collect();
    assert_eq!(judged, verdicts, "{what}");
    assert!(
        rows.is_sorted_by_key(|r| r.seq) && rows.len() as u64 == media.frames,
        "{what}: each once, in order"
    );
    assert_eq!(frames.completed + frames.dropped + frames.repeated, media.frames);
    frames
}

#[test]
fn the_guides_stream_arrives_whole() {
    // 25 Mbit/s in 60 frames a second, for 6 s of the guide's 60: 360 frames of 52,083 bytes,
    // 18,749,880 bytes in all.
    let guide = Media::new(25_000_000, 60, 6, 1, 1_400).unwrap();
    let (pair, seen) = streamed(guide, |pair| pair.both(Link::new().delay(10 * MS).window(1 << 20)));
    let frames = assert_judged(&pair, &guide, &seen, "guide");
    assert_eq!((frames.completed, frames.dropped, frames.repeated, frames.errors), (360, 0, 0, 0));
    for (end, tx, rx) in [(0, 0, 18_749_880), (1, 18_749_880, 0)] {
        let counts = pair.ends[end].counts;
        assert_eq!((counts.tx_bytes, counts.rx_bytes), (tx, rx));
    }
    assert!(pair.ends[1].completed());
    assert_eq!(pair.ends[0].flow.id().id, pair.ends[1].flow.id().id, "both know the identifier");
    // One identifier, and 38 datagrams for each frame.
    assert_eq!(seen.came.len(), 1 + 360 * 38);
    assert_eq!(seen.starts.len(), 1);
}

#[test]
fn frames_are_judged_as_the_model_does_over_every_path() {
    let paths = [
        ("clean", Link::new()),
        ("lossy", Link::new().delay(5 * MS).loss(0.01)),
        ("very lossy", Link::new().delay(5 * MS).loss(0.3)),
        ("duplicating", Link::new().delay(5 * MS).duplicate(0.05)),
        ("reordering", Link::new().delay(20 * MS).jitter(30 * MS).reorder(0.1)),
        ("late", Link::new().delay(400 * MS).jitter(400 * MS)),
        ("slow", Link::new().rate(3_000_000).queue(60_000)),
        ("all of it", Link::new().delay(80 * MS).jitter(100 * MS).loss(0.02).duplicate(0.02).reorder(0.05)),
        ("small buffer", Link::new().delay(MS).window(9_000)),
    ];
    let streams = [
        media(4_000_000, 30, 3, 30),
        media(4_000_000, 30, 3, 2),
        media(1_000_000, 10, 4, 1_000),
        media(2_000_000, 250, 2, 50),
        // Frames of 1401 bytes: two datagrams, the second of 27 bytes.
        media(1_401 * 8 * 20, 20, 3, 10),
        Media { spread: true, ..media(4_000_000, 30, 2, 15) },
        Media { datagram: 53, ..media(100_000, 10, 2, 5) },
    ];
    let mut sum = Frames::default();
    let machines = [Quirks::default(), Quirks { segments: 1, batches: false, ..Quirks::default() }];
    for [path, i, q] in combinations([paths.len(), streams.len(), machines.len()]) {
        let ((name, link), media) = (&paths[path], &streams[i]);
        let what = format!("{name}, stream {i}, quirks {q}");
        let (pair, seen) =
            streamed(*media, |pair| pair.seed(i as u64 + 7).quirks(machines[q]).down(link.clone()));
        if matches!(pair.ends[0].ended, Some(Err(_))) {
            // Nothing of a frame had come when the first was to be shown.
            let (frames, _) = expected(media, &seen);
            assert_eq!(frames.completed, 0, "{what}: {:?}", pair.ends[0].ended);
            continue;
        }
        sum.add(assert_judged(&pair, media, &seen, &what));
    }
    assert!(sum.completed > 500 && sum.dropped > 500 && sum.repeated > 20 && sum.errors > 100, "{sum:?}");
}

#[test]
fn frames_leave_at_their_times_whatever_their_rate() {
    for (fps, spread) in [(1, false), (7, false), (60, false), (1_000, false), (25, true)] {
        let stream = Media { spread, ..media(u64::from(fps) * 8 * 3_000, fps, 3, u64::from(fps)) };
        let (_, seen) = streamed(stream, |pair| pair);
        let base = seen.came[0].0;
        let mut first: BTreeMap<i64, Mono> = BTreeMap::new();
        let mut last: BTreeMap<i64, Mono> = BTreeMap::new();
        for (at, bytes) in seen.came.iter().skip(1) {
            first.entry(number(&bytes[2..10])).or_insert(*at);
            last.insert(number(&bytes[2..10]), *at);
        }
        for (frame, at) in &first {
            let due = *frame as u64 * SECOND / u64::from(fps);
            let off = at.since(base).abs_diff(due);
            assert!(off < 100_000, "{fps} fps: frame {frame} is {off} ns off");
            let took = last[frame].since(*at);
            // 3000 bytes are three datagrams: spread, the third leaves after 2800 / 3000 of the
            // frame's time.
            let want = if spread { SECOND / u64::from(fps) * 2_800 / 3_000 } else { 0 };
            assert!(
                took.abs_diff(want) < 100_000,
                "{fps} fps, spread {spread}: frame {frame} took {took} ns"
            );
        }
        // Stamps: 100 ns ticks at 10 MHz, refreshed for each send, far below 2^47.
        for (at, bytes) in seen.came.iter().skip(1) {
            assert_eq!(number(&bytes[18..26]), 10_000_000);
            let ticks = number(&bytes[10..18]);
            assert!((0..1 << 47).contains(&ticks));
            let sent = at.since(base) / 100;
            assert!(sent.abs_diff(ticks as u64) < 5_000, "{sent} {ticks}");
        }
    }
}

#[test]
fn start_is_said_again_until_a_frame_has_come() {
    // Frames of 100 ms held for 3 s: again after 100 + 500 ms each time; the first frame is to be
    // shown after 3 s.
    let stream = media(1_000_000, 10, 5, 30);
    let (mut pair, seen) = streamed(stream, |pair| pair.down(Link::new().cut(At::Byte(0), Cut::Silence)));
    let starts: Vec<u64> = seen.starts.iter().map(|at| at.since(START) / MS).collect();
    assert_eq!(starts, [0, 600, 1_200, 1_800, 2_400]);
    match &pair.ends[0].ended {
        Some(Err(cause @ Cause::Violation(v))) => {
            assert_eq!((v.ending(), v.name()), (Ending::DataError, "too few bytes"));
            assert!(
                cause.to_string().contains("nothing arrived before the first frame was to be shown"),
                "{cause}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(pair.ends[0].counts.frames, Frames { dropped: 50, ..Frames::default() });
    assert!(pair.ends[0].ended_at.since(START.plus(3 * SECOND)) < 10 * MS);
    // Each START but the first is a repeated one to the server, which goes on all the same.
    assert_eq!(pair.ends[1].side.rec.tally(Group(1)).frames.repeated, 4);
    assert!(pair.ends[1].completed(), "{:?}", pair.ends[1].ended);
}

#[test]
fn a_lost_start_only_costs_time() {
    let stream = media(1_000_000, 10, 3, 20);
    let mut late = 0;
    for seed in 0..20 {
        let (pair, seen) = streamed(stream, |pair| pair.seed(seed).up(Link::new().loss(0.5)));
        if pair.ends[0].completed() {
            late += u32::from(seen.starts.len() > 1);
            assert_judged(&pair, &stream, &seen, "a lost start");
        }
    }
    assert!(late >= 5, "{late}");
}

#[test]
fn streams_that_were_set_unlike_are_named() {
    let stream = |rate, fps| media(rate, fps, 4, u64::from(fps));
    for (client, server) in [
        (stream(4_000_000, 20), stream(2_000_000, 20)),
        (stream(2_000_000, 20), stream(4_000_000, 20)),
        (stream(4_000_000, 20), stream(4_000_000, 40)),
    ] {
        let pair = ran(unlike(client, server).0);
        let (_, notices) = told(&pair, 0);
        let text = notices.join("\n");
        let words = format!(
            "frames of {} bytes were expected and arrive with {}",
            client.frame_size, server.frame_size
        );
        assert!(text.contains(&words), "{text}");
        assert_eq!(pair.ends[0].counts.frames.completed, 0);
    }
    // The original's negative test: a client that takes 1399 bytes of a server's 1400 has no whole
    // frame.
    let whole = stream(4_000_000, 20);
    let pair = ran(unlike(Media { datagram: 1_399, ..whole }, whole).0);
    let (_, notices) = told(&pair, 0);
    assert!(
        notices[0].contains("datagrams of 1400 bytes arrive where at most 1399 were expected"),
        "{notices:?}"
    );
    assert_eq!(pair.ends[0].counts.frames.dropped, 80);
    // Alike, nothing is said.
    assert_eq!(told(&streamed(whole, |pair| pair).0, 0).1, [""; 0]);
}

#[test]
fn a_longer_stream_of_the_server_is_named_and_divided_by_its_own_time() {
    let (client, server) = (media(1_000_000, 20, 2, 20), media(1_000_000, 20, 4, 20));
    let pair = ran(unlike(client, server).0);
    let (_, notices) = told(&pair, 0);
    assert!(notices.iter().any(|text| text.contains("the server's stream is longer")), "{notices:?}");
    // Until the last frame is shown, a second after it came: three seconds of the stream.
    let (counts, ended) = (pair.ends[0].counts, pair.ends[0].ended_at);
    assert!(counts.rx_bytes.abs_diff(375_000) < 20_000, "{counts:?} {ended:?}");
}

#[test]
fn a_flipped_bit_ends_the_stream_unless_nobody_looks() {
    // Down: 39 bytes of identifier, then datagrams; a byte of the second datagram's payload.
    for (verify, fails) in [(Verify::Data, true), (Verify::Connection, false)] {
        let stream = media(1_000_000, 10, 2, 10);
        let params = Arc::new(Params::of(&Phase { verify, ..phase(stream) }, Group(1)));
        let client = Box::new(Receiver::new(params, stream, 0, false));
        let pair = ran(Pair::unsolicited(client, acceptor(&phase(stream), Acl::default()))
            .down(Link::new().flip(39 + 1_400 + 700, 0x20)));
        match &pair.ends[0].ended {
            Some(Err(Cause::Violation(Violation::BadData { offset, .. }))) if fails => {
                assert_eq!(*offset, 674);
            }
            Some(Ok(Ending::Completed)) if !fails => {}
            other => panic!("{verify:?}: {other:?}"),
        }
    }
}

#[test]
fn what_is_none_of_ctstraffics_ends_the_stream() {
    // The flag of the second datagram becomes 0x0002.
    let stream = media(1_000_000, 10, 2, 10);
    let (pair, _) = streamed(stream, |pair| pair.down(Link::new().flip(39 + 1_400, 0x02)));
    match &pair.ends[0].ended {
        Some(Err(cause)) => {
            assert!(
                cause.to_string().contains("a datagram of 1400 bytes is none of ctsTraffic's"),
                "{cause}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn refusals_end_a_stream_on_either_side() {
    let stream = media(1_000_000, 10, 2, 10);
    let refused = |ended: &Option<Result<Ending, Cause>>| match ended {
        // With the advice which server to start, or without.
        Some(Err(Cause::Violation(v))) => {
            let fault = if let Violation::Likely(fault, _) = v { fault } else { v };
            matches!(fault, Violation::Refused(_)) && v.ending() == Ending::NetworkError
        }
        _ => false,
    };
    let (pair, _) = streamed(stream, |pair| pair.up(Link::new().refuse(1.0)));
    assert!(refused(&pair.ends[0].ended), "{:?}", pair.ends[0].ended);
    let (pair, _) = streamed(stream, |pair| pair.down(Link::new().refuse(1.0)));
    assert!(refused(&pair.ends[1].ended), "{:?}", pair.ends[1].ended);
}

#[test]
fn no_stream_goes_beyond_the_fence() {
    // The peer is 10.0.0.1.
    for (allow, admitted) in [("10.0.0.0/8", true), ("10.0.1.0/24", false), ("127.0.0.0/8", false)] {
        let stream = media(1_000_000, 10, 1, 10);
        let params = Arc::new(Params::of(&phase(stream), Group(1)));
        let acl = Acl { allow: vec![allow.parse().unwrap()], deny: vec![] };
        let client = Box::new(Receiver::new(params, stream, 0, false));
        let pair = ran(Pair::unsolicited(client, acceptor(&phase(stream), acl)));
        assert_eq!(pair.ends[0].completed(), admitted, "{allow}: {:?}", pair.ends[0].ended);
        let (_, notices) = told(&pair, 1);
        assert_eq!(notices.len(), usize::from(!admitted), "once, for every START: {notices:?}");
        if !admitted {
            assert!(notices[0].starts_with("10.0.0.1 asked for a stream and gets none"), "{notices:?}");
            assert_eq!(pair.fate(1).sent, 0, "not a byte was sent to it");
        }
    }
}

#[test]
fn streams_are_as_many_as_files_allow_and_half_of_them_to_one_address() {
    let answers = Answers { workers: 1, sockets: Some(1), ..Answers::default() };
    let mut acceptor = ctstraffic::acceptors(&phase(media(1_000_000, 10, 1, 10)), &answers).remove(0);
    let mut side = Side::new(1, Quirks::default());
    let mut arena = Arena::new(0);
    let mut ask = |(host, port): (u8, u16)| {
        let path = Path { peer: ([10, 0, 0, host], port).into(), local: ([10, 0, 0, 100], 4_444).into() };
        let got = Received { from: Some(path), ..Received::stream(b"START", START) };
        acceptor.on_unsolicited(&mut side.cx(START), &got, &mut Transmit::new(&mut arena, 0))
    };
    let peers = [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1)];
    let flows = peers.map(&mut ask);
    let admitted = flows.each_ref().map(|flow| flow.is_some());
    assert_eq!(admitted, [true, true, false, true, true, false]);
    drop(flows);
    assert!(ask((1, 3)).is_some(), "places are given back");
}

#[test]
fn a_stop_ends_both_ends_at_once() {
    let stream = media(1_000_000, 10, 10, 10);
    for end in 0..2 {
        let mut pair = unlike(stream, stream).0.stop(end, 3 * SECOND);
        pair.run_until(START.plus(4 * SECOND));
        assert_eq!(pair.ends[end].ended, Some(Ok(Ending::Stopped)));
        assert!(pair.ends[end].ended_at < START.plus(3 * SECOND + 10 * MS));
    }
}
