//! What a worker, or the control thread, has besides its links: recorder, chance, clock, memory.

use super::datagram::Lanes;
use super::link::chance;
use super::stream::{Stream, Taken};
use metrics::{CardStamp, Clock, Ending, Mono, Recorder, SocketState, Stamp, StampKind, Unplaced};
use std::collections::VecDeque;
use transport::{
    Arena, Batch, Burst, Can, Cause, Cx, Desk, End, Flow, Got, Net, News, Note, Read, Rng, Want, When, Wrote,
    turn,
};

/// The permutations that a real machine produces and a tidy test would not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quirks {
    /// Sizes of reads on streams, smallest and largest; drawn for each.
    pub reads: (usize, usize),
    /// Bytes that one send may place, likewise.
    pub sends: (usize, usize),
    /// Probability that a socket claims to be full or empty although it is not.
    pub shy: f64,
    /// Whether skipped bytes are really not seen (`MSG_TRUNC`), or read like others, as where the kernel cannot.
    pub skips: bool,
    /// Datagrams of one size may arrive as one batch (GRO).
    pub batches: bool,
    /// Probability that a transmit stamp never comes.
    pub lost_stamps: f64,
    /// Longest delay of a message between threads, ns.
    pub threads: u64,
    /// The wall clock steps by so many ns at an instant.
    pub wall_step: Option<(Mono, i64)>,
    /// Most bytes a flow may send in one call.
    pub room: usize,
    /// Most datagrams it may send in one call (GSO).
    pub segments: usize,
    /// What the host's monotonic clock says at `Mono(0)`, ns: two machines need not agree.
    pub host_clock: u64,
    /// What the network card says of datagrams that come.
    pub card: Card,
}

/// A network card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Card {
    /// It stamps nothing.
    #[default]
    Silent,
    /// It stamps what comes so many ns before the kernel, and what leaves with it, and is right to within as many.
    Right(u64),
    /// Nothing that it says can be true.
    Wrong,
    /// It stamps, but its clock cannot be read.
    Unread,
}

impl Card {
    fn stamp(self, kernel: Mono) -> Option<CardStamp> {
        // Its clock shows another time altogether.
        let raw_ns = kernel.0 as i64 + 37_000_000_000;
        let placed = match self {
            Card::Silent => return None,
            Card::Right(ns) => Ok((Mono(kernel.0.saturating_sub(ns)), ns)),
            Card::Wrong => Err(Unplaced::Untrue),
            Card::Unread => Err(Unplaced::Unread),
        };
        Some(CardStamp { raw_ns, placed })
    }

    /// Who stamps what leaves, and how far that may be off, ns.
    fn left(self) -> (StampKind, u64) {
        match self {
            Card::Right(ns) => (StampKind::Hardware, ns),
            Card::Silent | Card::Wrong | Card::Unread => (StampKind::KernelTx, 0),
        }
    }
}

impl Default for Quirks {
    fn default() -> Self {
        Quirks {
            reads: (usize::MAX, usize::MAX),
            sends: (usize::MAX, usize::MAX),
            shy: 0.0,
            skips: true,
            batches: true,
            lost_stamps: 0.0,
            threads: 20_000,
            wall_step: None,
            room: 64 * 1024,
            segments: 64,
            host_clock: 0,
            card: Card::Silent,
        }
    }
}

impl Quirks {
    /// Every read brings one byte.
    #[must_use]
    pub fn one_byte_reads() -> Self {
        Quirks { reads: (1, 1), ..Quirks::default() }
    }

    /// No send places more than 7 bytes.
    #[must_use]
    pub fn tiny_sends() -> Self {
        Quirks { sends: (1, 7), ..Quirks::default() }
    }

    /// Reads and sends of any size, sockets that are shy, slow threads, a stepping wall clock, no `MSG_TRUNC`.
    #[must_use]
    pub fn rough() -> Self {
        Quirks {
            reads: (1, 3_000),
            sends: (1, 3_000),
            shy: 0.1,
            skips: false,
            batches: false,
            lost_stamps: 0.3,
            threads: 2_000_000,
            wall_step: Some((Mono(1_050_000_000), -3_600_000_000_000)),
            room: 5_000,
            segments: 1,
            host_clock: 1 << 50,
            card: Card::Silent,
        }
    }
}

/// A connection of either kind.
pub(super) enum Wire {
    Stream(Box<Stream>),
    Lanes(Box<Lanes>),
}

impl Wire {
    pub(super) fn readable(&mut self, end: usize, now: Mono) -> bool {
        match self {
            Wire::Stream(s) => s.readable(end, now),
            Wire::Lanes(l) => l.readable(end, now),
        }
    }

    pub(super) fn writable(&self, end: usize, now: Mono) -> bool {
        match self {
            Wire::Stream(s) => s.writable(end, now),
            Wire::Lanes(_) => true,
        }
    }

    pub(super) fn next(&self, end: usize, now: Mono) -> Option<Mono> {
        match self {
            Wire::Stream(s) => s.next(end, now),
            Wire::Lanes(l) => l.next(end, now),
        }
    }

    pub(super) fn close(&mut self, end: usize, now: Mono, reset: bool) {
        if let Wire::Stream(s) = self {
            s.close(end, now, reset);
        }
    }
}

/// What the machine remembers about a flow's socket.
#[derive(Default)]
pub(super) struct Socket {
    half: bool,
    /// Not tried again before.
    gate: Mono,
    stamps: VecDeque<(Mono, u32)>,
    /// Steps without any effect in a row.
    idle: u32,
    /// Bytes that have moved through it.
    pub(super) moved: u64,
}

/// What came of a step.
pub(super) enum Stepped {
    On,
    Ended(Result<Ending, Cause>, bool),
    Lift,
    Hand(u16),
}

/// Time that a turn takes, ns.
const TURN: u64 = 1_000;
/// How long a shy socket stays so, ns.
const SHY: u64 = 10_000;
/// Steps in a row that may have no effect.
const PATIENCE: u32 = 1_000;
/// A machine's receive buffer.
const BUFFER: usize = 1 << 20;

/// One thread's memory.
pub struct Side {
    /// Its counts.
    pub rec: Recorder,
    /// What flows posted.
    pub post: Vec<Note>,
    pub(super) quirks: Quirks,
    pub(super) chaos: Rng,
    rng: Rng,
    clock: Clock,
    desk: Desk,
    buffer: Vec<u8>,
}

struct SimNet<'a> {
    wire: &'a mut Wire,
    end: usize,
    now: Mono,
    quirks: &'a Quirks,
    chaos: &'a mut Rng,
    buffer: &'a mut Vec<u8>,
    tag: Option<u32>,
    shy: bool,
}

impl Net for SimNet<'_> {
    fn stream(&self) -> bool {
        matches!(self.wire, Wire::Stream(_))
    }

    fn send(&mut self, burst: &Burst<'_>) -> Wrote {
        if chance(self.chaos, self.quirks.shy) {
            self.shy = true;
            return Wrote::default();
        }
        match self.wire {
            Wire::Stream(stream) => {
                let cap = draw(self.chaos, self.quirks.sends);
                stream.send(self.end, self.now, burst, cap)
            }
            Wire::Lanes(lanes) => {
                let wrote = lanes.send(self.end, self.now, burst);
                self.tag = burst.tag.filter(|_| wrote.fault.is_none());
                wrote
            }
        }
    }

    fn recv(&mut self, how: Read) -> Got<'_> {
        let (most, skip) = match how {
            Read::Pause => return Got::Nothing,
            Read::Look(n) => (n.get() as usize, false),
            Read::Skip(n) => (n.get() as usize, self.quirks.skips),
        };
        if chance(self.chaos, self.quirks.shy) {
            self.shy = true;
            return Got::Nothing;
        }
        match self.wire {
            Wire::Stream(stream) => {
                let most = most.min(draw(self.chaos, self.quirks.reads)).min(BUFFER);
                match stream.recv(self.end, self.now, most, self.buffer) {
                    Taken::Nothing => Got::Nothing,
                    Taken::Bytes if skip => Got::Batch(Batch::skipped(self.buffer.len(), self.now)),
                    Taken::Bytes => Got::Batch(Batch::stream(self.buffer, self.now)),
                    Taken::Fin => Got::Fin,
                    Taken::Fault(fault) => Got::Fault(fault),
                }
            }
            Wire::Lanes(lanes) => {
                let Some(head) = lanes.recv(self.end, self.now, most, self.quirks.batches, self.buffer)
                else {
                    return Got::Nothing;
                };
                let (n, now) = (self.buffer.len(), self.now);
                let batch = if skip { Batch::skipped(n, now) } else { Batch::stream(self.buffer, now) };
                Got::Batch(Batch {
                    stride: head.stride,
                    stamp: Some(Stamp { at: head.arrived, kind: StampKind::KernelRx }),
                    card: self.quirks.card.stamp(head.arrived),
                    from: Some(head.path),
                    tos: head.tos,
                    ttl: 64,
                    truncated: head.truncated,
                    dropped: head.dropped,
                    ..batch
                })
            }
        }
    }

    fn now(&mut self) -> Mono {
        self.now
    }
}

fn draw(rng: &mut Rng, (low, high): (usize, usize)) -> usize {
    if low == high { low } else { rng.between(low as u64, high as u64) as usize }.max(1)
}

impl Side {
    /// A thread's memory; everything random in it comes from `seed`. On datagram sockets, replies are allowed.
    #[must_use]
    pub fn new(seed: u64, quirks: Quirks, datagrams: bool) -> Self {
        let reply = if datagrams { quirks.room } else { 0 };
        let (tx, again) = (Arena::new(quirks.room.max(1 << 16)), Arena::new(reply));
        Side {
            rec: Recorder::default(),
            post: Vec::new(),
            chaos: Rng::new(seed ^ 0x5eed),
            rng: Rng::new(seed),
            clock: Clock {
                wall_at_zero: 1_700_000_000_000_000_000,
                error_ns: 1_000,
                synced: true,
                host_at_zero: quirks.host_clock,
            },
            desk: Desk { tx, reply: again, room: quirks.room, reply_room: reply, segments: quirks.segments },
            buffer: Vec::new(),
            quirks,
        }
    }

    /// What a protocol may know of the world at `now`.
    pub fn cx(&mut self, now: Mono) -> Cx<'_> {
        if let Some((at, by)) = self.quirks.wall_step
            && at <= now
        {
            self.quirks.wall_step = None;
            self.clock.wall_at_zero = self.clock.wall_at_zero.saturating_add(by);
        }
        Cx { now, clock: &self.clock, rng: &mut self.rng, rec: &mut self.rec, post: &mut self.post }
    }

    /// One step of a flow: tidings that are due, one turn, its end.
    pub(super) fn step(
        &mut self,
        wire: &mut Wire,
        end: usize,
        flow: &mut dyn Flow,
        socket: &mut Socket,
        now: Mono,
    ) -> Stepped {
        let asked = flow.want();
        assert_eq!(asked, flow.want(), "want() must change nothing");
        if let Some(over) = self.over(wire, end, flow, socket, now) {
            return over;
        }
        if asked.wake.is_some_and(|at| at <= now) {
            let state = match wire {
                Wire::Stream(stream) if flow.curious() => {
                    Some(SocketState { queued: stream.queued(end, now), ..SocketState::default() })
                }
                _ => None,
            };
            let news = state.map(|state| News::State(Box::new(state)));
            let heard =
                news.into_iter().chain([News::Wake]).try_for_each(|n| flow.hear(&mut self.cx(now), n));
            if let Err(violation) = heard {
                return Stepped::Ended(Err(violation.into()), true);
            }
            let Want { wake, end, .. } = flow.want();
            assert!(
                end.is_some() || wake.is_none_or(|at| at > now),
                "a flow was woken at {now:?} and asks to be woken at {wake:?}: it would spin"
            );
        }
        while let Some(&(at, tag)) = socket.stamps.front()
            && at <= now
        {
            socket.stamps.pop_front();
            let (kind, bound_ns) = self.quirks.card.left();
            let stamp = Stamp { at, kind };
            if let Err(violation) = flow.hear(&mut self.cx(now), News::Stamped { tag, stamp, bound_ns }) {
                return Stepped::Ended(Err(violation.into()), true);
            }
        }
        let can = Can {
            send: now >= socket.gate && wire.writable(end, now),
            read: now >= socket.gate && wire.readable(end, now),
        };
        let Side { rec, rng, clock, post, desk, buffer, quirks, chaos, .. } = self;
        // A reply on a stream might be sent in part, and the rest lost.
        desk.reply_room = if matches!(wire, Wire::Lanes(_)) { quirks.room } else { 0 };
        let mut net = SimNet { wire, end, now, quirks, chaos, buffer, tag: None, shy: false };
        let mut cx = Cx { now, clock, rng, rec, post };
        let done = turn(&mut net, flow, &mut cx, desk, can);
        let (tag, shy) = (net.tag, net.shy);
        if let Some(tag) = tag
            && !chance(chaos, quirks.lost_stamps)
        {
            socket.stamps.push_back((now.plus(5_000), tag));
        }
        let done = match done {
            Ok(done) => done,
            Err(cause) => return Stepped::Ended(Err(cause), true),
        };
        socket.gate = if shy {
            now.plus(SHY)
        } else if done.sent + done.got > 0 {
            now.plus(TURN)
        } else {
            now
        };
        socket.moved += (done.sent + done.got) as u64;
        socket.idle = if shy || done.sent + done.got > 0 { 0 } else { socket.idle + 1 };
        self.over(wire, end, flow, socket, now).unwrap_or(Stepped::On)
    }

    /// What the flow wants to become of its socket.
    fn over(
        &mut self,
        wire: &mut Wire,
        end: usize,
        flow: &dyn Flow,
        socket: &mut Socket,
        now: Mono,
    ) -> Option<Stepped> {
        match flow.want().end? {
            End::Done { how, reset } => Some(Stepped::Ended(Ok(how), reset)),
            End::Lift => Some(Stepped::Lift),
            End::Hand(to) => Some(Stepped::Hand(to)),
            End::Half => {
                if let (Wire::Stream(stream), false) = (wire, socket.half) {
                    socket.half = true;
                    stream.half_close(end, now);
                }
                None
            }
        }
    }
}

/// When a flow can do something next, as things stand.
pub(super) fn next(flow: &dyn Flow, wire: &mut Wire, end: usize, socket: &Socket, now: Mono) -> Option<Mono> {
    let Want { send, read, wake, end: over } = flow.want();
    if over.is_some_and(|o| o != End::Half || !socket.half) {
        return Some(now);
    }
    let due = match send {
        When::Never => None,
        When::Now => Some(now),
        When::At(at) => Some(at.max(now)),
    };
    let sends = due.filter(|_| wire.writable(end, now)).map(|at| at.max(socket.gate));
    let reads = if read == Read::Pause { None } else { wire.next(end, now) };
    let reads = reads.map(|at| at.max(socket.gate));
    let stamp = socket.stamps.front().map(|s| s.0);
    let at = sends.into_iter().chain(reads).chain(wake).chain(stamp).min().map(|at| at.max(now));
    assert!(
        at != Some(now) || socket.idle < PATIENCE,
        "a flow spins at {now:?}: it wants {:?}, and nothing comes of it",
        flow.want()
    );
    at
}
