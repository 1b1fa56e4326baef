//! Damaged inputs for decoders, and what a flow needs around it to be fed with them.

use super::sized;
use metrics::{Clock, Counts, Mono, Recorder};
use std::collections::BTreeMap;
use transport::{
    Arena, Context, End, Flow, FlowEvent, Message, Path, Read, Received, Rng, Sent, Transmit, When,
};

/// Damaged inputs for each decoder: `NETCALIPER_INPUTS`, or 5,000, which find what a change breaks
/// at once. `bench/deep` has a million.
pub(crate) fn inputs() -> u32 {
    std::env::var("NETCALIPER_INPUTS").map_or(5_000, |n| n.parse().expect("NETCALIPER_INPUTS is a number"))
}

/// So many handshakes of each kind of attack: each costs a millisecond in a `dev` build.
/// `bench/deep` has 10,000.
pub(crate) fn handshakes() -> u32 {
    sized(25, inputs() / 100).clamp(1, 10_000)
}

/// Damages `bytes` in one to four ways.
pub(crate) fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>) {
    const ODD: [u8; 12] = [0, 1, 2, 0x7f, 0x80, 0xff, b'"', b'{', b'[', b'\\', b'9', 0xa2];
    for _ in 0..rng.between(1, 4) {
        let at = rng.between(0, bytes.len() as u64) as usize;
        let to = (at + rng.between(0, 24) as usize).min(bytes.len());
        let odd = ODD[rng.between(0, 11) as usize];
        match rng.between(0, 8) {
            0 | 1 if at < bytes.len() => bytes[at] ^= 1 << rng.between(0, 7),
            2 if at < bytes.len() => bytes[at] = odd,
            3 if at < bytes.len() => bytes[at] = rng.next() as u8,
            4 => bytes.truncate(at),
            5 => bytes.insert(at, odd),
            6 => drop(bytes.drain(at..to)),
            7 => {
                let copy = bytes[at..to].to_vec();
                let into = rng.between(0, bytes.len() as u64) as usize;
                bytes.splice(into..into, copy);
            }
            _ => bytes[at..to].fill(odd),
        }
    }
}

pub(crate) struct Bench {
    pub(crate) rec: Recorder,
    pub(crate) rng: Rng,
    pub(crate) clock: Clock,
    pub(crate) outbox: Vec<Message>,
    arena: Arena,
    pub(crate) now: Mono,
    /// Flows that took the place of others and had rows.
    pub(crate) replaced: u32,
}

impl Bench {
    pub(crate) fn new(seed: u64) -> Self {
        let (rec, rng, clock) = (Recorder::default(), Rng::new(seed), Clock::default());
        Bench {
            rec,
            rng,
            clock,
            outbox: vec![],
            arena: Arena::new(4_096),
            now: Mono(1_000_000_000),
            replaced: 0,
        }
    }

    /// The path given to flows under test.
    pub(crate) fn path() -> Path {
        Path { peer: ([10, 0, 0, 1], 1).into(), local: ([10, 0, 0, 2], 2).into() }
    }

    /// The context of a flow at this time.
    pub(crate) fn cx(&mut self) -> Context<'_> {
        let Bench { rec, rng, clock, outbox, now, .. } = self;
        Context::new(*now, clock, rng, rec, outbox)
    }

    /// The whole life of a flow that has a row once its link is up: as `feed`, and what it has
    /// counted.
    pub(crate) fn run(&mut self, flow: &mut dyn Flow, bytes: &[u8], event: FlowEvent) -> (bool, Counts) {
        flow.on_event(&mut self.cx(), FlowEvent::Up(Bench::path())).unwrap();
        let content = self.feed(flow, bytes, event);
        let row = flow.id().row.unwrap();
        let (counts, _) = self.rec.life(row);
        self.rec.close(row);
        (content, counts)
    }

    /// Feeds a flow with `bytes` at random splits, lets it speak in between, now and then with a
    /// partial send, and ends with `news`. True when it was content until then.
    pub(crate) fn feed(&mut self, flow: &mut dyn Flow, mut bytes: &[u8], event: FlowEvent) -> bool {
        let Bench { rec, rng, clock, outbox, arena, now, .. } = self;
        let mut content = true;
        let mut event = Some(event);
        for _ in 0..200 {
            *now = now.plus(rng.next() & 0xffff);
            let want = flow.interest();
            if matches!(want.end, Some(End::Done { .. } | End::Detach | End::Migrate(_))) {
                break;
            }
            let mut cx = Context::new(*now, clock, rng, rec, outbox);
            if want.end == Some(End::Replace) {
                let mut next = flow.successor().expect("a flow takes its place");
                next.on_event(&mut cx, FlowEvent::Up(Bench::path())).unwrap();
                let content = event.is_none_or(|event| self.feed(&mut *next, bytes, event));
                if let Some(row) = next.id().row {
                    self.replaced += 1;
                    self.rec.close(row);
                }
                return content;
            }
            if want.send != When::Never {
                let mut burst = Transmit::new(arena, 2_000);
                flow.prepare_send(&mut cx, &mut burst);
                let n = burst.len();
                let n = if cx.rng.next() & 3 == 0 { cx.rng.between(0, n as u64) as usize } else { n };
                flow.on_sent(&mut cx, Sent { bytes: n, fault: None });
            }
            let (most, skip) = match flow.interest().read {
                Read::Pause => (0, false),
                Read::Look(n) => (n.get() as usize, false),
                Read::Skip(n) => (n.get() as usize, true),
            };
            let n = if cx.rng.next() & 1 == 0 { most } else { cx.rng.between(1, 40) as usize };
            let n = n.min(most).min(bytes.len());
            let result = if n > 0 {
                let received =
                    if skip { Received::skipped(n, cx.now) } else { Received::stream(&bytes[..n], cx.now) };
                bytes = &bytes[n..];
                flow.on_received(&mut cx, &received, &mut Transmit::new(&mut Arena::new(0), 0))
            } else if let Some(event) = event.take() {
                flow.on_event(&mut cx, event)
            } else {
                break;
            };
            if result.is_err() {
                content = false;
                let mut burst = Transmit::new(arena, 2_000);
                flow.prepare_send(&mut cx, &mut burst);
                break;
            }
        }
        content
    }
}

pub(crate) fn last_news(rng: &mut Rng) -> FlowEvent {
    match rng.between(0, 3) {
        0 => FlowEvent::Fin,
        1 => FlowEvent::Stop,
        2 => FlowEvent::Wake,
        _ => FlowEvent::Broken(transport::Fault { deed: transport::Deed::Receive, errno: 104 }),
    }
}

/// Bytes in hexadecimal digits.
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// What was captured, by name, of a file of vectors whose lines are a name, where it comes from and
/// its bytes in hexadecimal digits. A number in brackets is so many bytes of 0.
pub(crate) fn vectors(text: &'static str) -> BTreeMap<&'static str, Vec<u8>> {
    let bytes = |coded: &str| {
        let (mut bytes, mut rest) = (Vec::new(), coded);
        while !rest.is_empty() {
            if let Some(zeros) = rest.strip_prefix('(') {
                let (n, behind) = zeros.split_once(')').unwrap();
                bytes.resize(bytes.len() + n.parse::<usize>().unwrap(), 0);
                rest = behind;
            } else {
                bytes.push(u8::from_str_radix(&rest[..2], 16).unwrap());
                rest = &rest[2..];
            }
        }
        bytes
    };
    let lines = text.lines().skip(1).map(|line| line.split(' ').collect::<Vec<_>>());
    lines.map(|words| (words[0], bytes(words[2]))).collect()
}
