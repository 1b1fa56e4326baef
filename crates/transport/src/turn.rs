//! The one order of calls between a flow and its socket, for the worker and the simulator alike.

use crate::{
    Arena, Cause, Context, Direction, End, Fault, Flow, FlowEvent, LinkBudget, Read, Received, Sent,
    Transmit, When,
};
use metrics::{Clamped, Mono};

/// Result of a receive call.
#[derive(Debug)]
pub enum Got<'a> {
    /// The socket is empty.
    Nothing,
    /// Bytes.
    Received(Received<'a>),
    /// The peer will send no more.
    Fin,
    /// The kernel gave the link up.
    Fault(Fault),
}

/// A socket, real or simulated. Static: compiled once for each kind of socket of the worker, and
/// once for the simulator.
pub trait Net {
    /// True if bytes make a stream. On a stream, a receive of less than the requested bytes has
    /// emptied the socket, and a fault is the link's end. On a datagram socket each call concerns
    /// one datagram (or one run of them): behind a short one the next may be waiting, and a fault
    /// concerns one datagram only.
    fn stream(&self) -> bool;
    /// Tries to send. A full socket is `Sent::default()`.
    fn send(&mut self, burst: &Transmit<'_>) -> Sent;
    /// Tries to receive what `how` allows.
    fn recv(&mut self, how: Read) -> Got<'_>;
    /// The current instant.
    fn now(&mut self) -> Mono;
    /// Sends a datagram back at once, as [`Net::send`].
    fn reply(&mut self, burst: &Transmit<'_>) -> Sent {
        self.send(burst)
    }
    /// More is to be sent, now or at some time: the next receive call must not sleep, where it
    /// otherwise may.
    fn hurry(&mut self) {}
}

/// Which calls are worth trying: a socket that was full or empty is not tried again before the
/// kernel says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Can {
    /// Sending may succeed.
    pub send: bool,
    /// Receiving may succeed.
    pub read: bool,
}

/// Result of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Bytes accepted by the kernel.
    pub sent: usize,
    /// The kernel took less than was offered.
    pub full: bool,
    /// Bytes received.
    pub got: usize,
    /// The socket is empty: on a stream there was nothing, or less than was asked for; on a
    /// datagram socket there was nothing.
    pub empty: bool,
}

/// A send of more bytes is a batch of datagrams.
const BATCH: usize = 9_000;
/// In a turn in which a batch has left, this many times its bytes may be received.
const TIMES: usize = 8;
/// Bytes of a usual packet.
const PACKET: usize = 1_400;

/// A worker's memory for turns, shared by all its links.
#[derive(Debug)]
pub struct Scratch {
    /// Memory for sends.
    pub tx: Arena,
    /// Memory for replies.
    pub reply: Arena,
    /// Most bytes in one send.
    pub room: usize,
    /// Most bytes in one reply: no more than was received, and none on streams, where a partial
    /// send would lose the rest.
    pub reply_room: usize,
    /// Most datagrams in one send (generic segmentation), 1 where the kernel cannot or shall not;
    /// of no meaning on streams.
    pub segments: usize,
}

impl Scratch {
    /// Room for sends and replies of these lengths, without segmentation.
    pub fn new(room: usize, reply_room: usize) -> Self {
        Scratch { tx: Arena::new(room), reply: Arena::new(reply_room), room, reply_room, segments: 1 }
    }
}

/// One turn of a link, within its `budget` if there is one.
///
/// # Errors
/// When the link has failed. A flow that found the peer at fault is offered one last send, so that
/// the peer learns why.
pub fn turn<N: Net>(
    net: &mut N,
    flow: &mut dyn Flow,
    cx: &mut Context<'_>,
    scratch: &mut Scratch,
    can: Can,
    budget: Option<&mut LinkBudget>,
) -> Result<Turn, Cause> {
    match budget {
        None => one_turn(net, flow, cx, scratch, can),
        Some(budget) => limited_turn(net, flow, cx, scratch, can, budget),
    }
}

/// A socket that takes and gives no more than a budget has.
struct Limited<'a, N> {
    net: &'a mut N,
    budget: &'a mut LinkBudget,
    /// A send was kept back, and a read was cut short: neither says how full the socket is.
    kept_back: bool,
    cut_short: bool,
}

impl<N: Net> Net for Limited<'_, N> {
    fn stream(&self) -> bool {
        self.net.stream()
    }

    fn send(&mut self, burst: &Transmit<'_>) -> Sent {
        let now = self.net.now();
        if self.budget.room(Direction::Sent, now) == 0 {
            self.kept_back = true;
            return Sent::default();
        }
        let sent = self.net.send(burst);
        self.budget.spend(Direction::Sent, sent.bytes);
        sent
    }

    fn reply(&mut self, burst: &Transmit<'_>) -> Sent {
        let now = self.net.now();
        if self.budget.reply(burst.len(), now) { self.net.send(burst) } else { Sent::default() }
    }

    fn recv(&mut self, how: Read) -> Got<'_> {
        if !self.net.stream() {
            let got = self.net.recv(how);
            if let Got::Received(received) = &got {
                self.budget.receive(received.len, received.at);
            }
            return got;
        }
        let now = self.net.now();
        let room = self.budget.room(Direction::Received, now);
        if room == 0 {
            self.cut_short = true;
            return Got::Nothing;
        }
        let room = u32::clamped(room);
        let how = match how {
            Read::Look(n) => Read::look(n.get().min(room)),
            Read::Skip(n) => Read::skip(n.get().min(room)),
            Read::Pause => Read::Pause,
        };
        let got = self.net.recv(how);
        if let Got::Received(received) = &got {
            self.budget.spend(Direction::Received, received.len);
            self.cut_short = received.len >= usize::clamped(room);
        }
        got
    }

    fn now(&mut self) -> Mono {
        self.net.now()
    }

    fn hurry(&mut self) {
        self.net.hurry();
    }
}

/// A turn without the directions that wait for their shares.
#[cold]
fn limited_turn<N: Net>(
    net: &mut N,
    flow: &mut dyn Flow,
    cx: &mut Context<'_>,
    scratch: &mut Scratch,
    mut can: Can,
    budget: &mut LinkBudget,
) -> Result<Turn, Cause> {
    let (now, stream) = (net.now(), net.stream());
    cx.now = now;
    if !budget.begin(now, !stream) {
        return Ok(Turn::default());
    }
    let want = flow.interest();
    let (room, segments) = (scratch.room, scratch.segments);
    if can.send && want.send.is_due(now) {
        let share = budget.room(Direction::Sent, now);
        can.send = share > 0;
        if stream {
            scratch.room = room.min(share.max(1));
        } else {
            scratch.segments = segments.min((share / PACKET).max(1));
        }
    } else if stream {
        scratch.room = room.min(PACKET);
    }
    if stream && can.read && want.read != Read::Pause {
        can.read = budget.room(Direction::Received, now) > 0;
    }
    let mut net = Limited { net, budget, kept_back: false, cut_short: false };
    let done = one_turn(&mut net, flow, cx, scratch, can);
    let Limited { kept_back, cut_short, .. } = net;
    (scratch.room, scratch.segments) = (room, segments);
    done.map(|done| Turn { full: done.full && !kept_back, empty: done.empty && !cut_short, ..done })
}

/// One turn: interest, prepare_send, send, on_sent; interest, recv, on_received. At most one send
/// and one receive, and some more where a batch of datagrams has left: a send that becomes due by
/// the receive call, such as an answer, is made last and not in the next turn. If a stream refuses
/// that send, a second receive follows.
///
/// On a stream, a send that the kernel refuses does not end the turn: the peer's bytes before it
/// hung up are still read, because they may explain why. On a datagram socket a refused send is the
/// flow's to judge (`on_sent`), and so is a refused receive (`on_event(Broken)`), such as the echo
/// of an ICMP message: the link goes on unless the flow ends it.
///
/// # Errors
/// When the link has failed. A flow that found the peer at fault is offered one last send, so that
/// the peer learns why.
#[inline]
fn one_turn<N: Net>(
    net: &mut N,
    flow: &mut dyn Flow,
    cx: &mut Context<'_>,
    scratch: &mut Scratch,
    can: Can,
) -> Result<Turn, Cause> {
    let mut done = Turn::default();
    let mut want = flow.interest();
    let mut broken = None;
    // A flow that only waits gets the time of the bytes' arrival.
    if !can.read || want.send != When::Never || want.read == Read::Pause {
        cx.now = net.now();
    }
    let first = can.send && want.send.is_due(cx.now);
    if first {
        broken = send(net, flow, cx, scratch, &mut done);
        want = flow.interest();
    }
    if !(can.read || broken.is_some()) || want.read == Read::Pause {
        return broken.map_or(Ok(done), |fault| hang_up(flow, cx, fault, done));
    }
    if want.send != When::Never {
        net.hurry();
    }
    if !receive(net, flow, cx, scratch, want.read, &mut done)? {
        return Ok(done);
    }
    // A peer that is a little faster sends more batches of datagrams than it gets: as much as has
    // left would not do.
    while first && !net.stream() && done.sent > BATCH && !done.empty && done.got < TIMES * done.sent {
        let before = done.got;
        let read = flow.interest().read;
        if read == Read::Pause || !receive(net, flow, cx, scratch, read, &mut done)? {
            return Ok(done);
        }
        if done.got == before {
            break;
        }
    }
    let mut before = 0;
    if can.send && !first && done.got > 0 {
        let due = flow.interest().send;
        if due != When::Never {
            cx.now = net.now();
            if due.is_due(cx.now) {
                broken = send(net, flow, cx, scratch, &mut done);
            }
        }
        if broken.is_some() {
            before = done.got;
            let read = flow.interest().read;
            if read != Read::Pause && !receive(net, flow, cx, scratch, read, &mut done)? {
                return Ok(done);
            }
        }
    }
    // A broken link is read to its end, a turn at a time, before it is given up.
    match broken {
        Some(fault) if done.got == before => hang_up(flow, cx, fault, done),
        _ => Ok(done),
    }
}

/// Receives once; whether the link goes on, which it does not where its flow is done with one that
/// the kernel gave up.
#[inline]
fn receive<N: Net>(
    net: &mut N,
    flow: &mut dyn Flow,
    cx: &mut Context<'_>,
    scratch: &mut Scratch,
    read: Read,
    done: &mut Turn,
) -> Result<bool, Cause> {
    let stream = net.stream();
    let budget = match read {
        Read::Look(n) | Read::Skip(n) => usize::clamped(n.get()),
        Read::Pause => 0,
    };
    let result = match net.recv(read) {
        Got::Nothing => {
            cx.now = net.now();
            done.empty = true;
            Ok(())
        }
        Got::Received(received) => {
            done.got += received.len;
            done.empty = stream && received.len < budget;
            cx.now = received.at;
            let mut reply = Transmit::new(&mut scratch.reply, scratch.reply_room.min(received.len))
                .datagrams(scratch.segments);
            let taken = flow.on_received(cx, &received, &mut reply);
            if !reply.is_empty() {
                let wrote = net.reply(&reply);
                flow.on_sent(cx, wrote);
            }
            taken
        }
        Got::Fin => {
            cx.now = net.now();
            flow.on_event(cx, FlowEvent::Fin)
        }
        Got::Fault(fault) => {
            cx.now = net.now();
            if stream {
                return hang_up(flow, cx, fault, *done).map(|_| false);
            }
            flow.on_event(cx, FlowEvent::Broken(fault))
        }
    };
    let Err(violation) = result else { return Ok(true) };
    let mut burst = Transmit::new(&mut scratch.tx, scratch.room).datagrams(scratch.segments);
    flow.prepare_send(cx, &mut burst);
    if !burst.is_empty() {
        net.send(&burst);
    }
    Err(Cause::Violation(violation))
}

/// Sends the flow's offer. A stream's refusal is returned.
#[inline]
fn send<N: Net>(
    net: &mut N,
    flow: &mut dyn Flow,
    cx: &mut Context<'_>,
    scratch: &mut Scratch,
    done: &mut Turn,
) -> Option<Fault> {
    let mut burst = Transmit::new(&mut scratch.tx, scratch.room).datagrams(scratch.segments);
    flow.prepare_send(cx, &mut burst);
    if burst.is_empty() {
        return None;
    }
    if burst.timed {
        cx.now = net.now();
    }
    let wrote = net.send(&burst);
    done.sent = wrote.bytes;
    // A refused send does not mean a full buffer: no writability event will follow.
    done.full = wrote.fault.is_none() && wrote.bytes < burst.len();
    flow.on_sent(cx, wrote);
    wrote.fault.filter(|_| net.stream())
}

/// Passes the kernel's fault to the flow, which may know a better reason, or may have been done
/// with the link.
fn hang_up(flow: &mut dyn Flow, cx: &mut Context<'_>, fault: Fault, done: Turn) -> Result<Turn, Cause> {
    flow.on_event(cx, FlowEvent::Broken(fault)).map_err(Cause::Violation)?;
    match flow.interest().end {
        Some(End::Done { .. }) => Ok(done),
        _ => Err(Cause::Fault(fault)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Checked, Deed, FlowId, Interest, Message, Rng};
    use metrics::{Clock, Recorder};

    /// A socket on which `come` is waiting; what happens to it is written down, with the time.
    struct Wire {
        come: &'static [u8],
        at: u64,
        said: Vec<(u64, &'static str)>,
        refuses: bool,
    }

    impl Net for Wire {
        fn stream(&self) -> bool {
            true
        }

        fn send(&mut self, burst: &Transmit<'_>) -> Sent {
            self.said.push((self.at, "send"));
            let fault = self.refuses.then_some(Fault { deed: Deed::Send, errno: 104 });
            Sent { bytes: if self.refuses { 0 } else { burst.len() }, fault }
        }

        fn recv(&mut self, _: Read) -> Got<'_> {
            self.said.push((self.at, "recv"));
            if self.come.is_empty() {
                return Got::Nothing;
            }
            Got::Received(Received::stream(std::mem::take(&mut self.come), self.now()))
        }

        fn now(&mut self) -> Mono {
            self.at += 1;
            Mono(self.at)
        }
    }

    /// Has something to say from the start, or answers.
    struct Talker {
        says: bool,
        timed: bool,
        /// When it was asked for what to send, and when told of what was sent.
        at: Vec<Mono>,
    }

    impl Flow for Talker {
        fn interest(&self) -> Interest {
            let send = if self.says { When::Now } else { When::Never };
            Interest { send, read: Read::look(10), wake: None, end: None }
        }

        fn prepare_send(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
            self.at.push(cx.now);
            out.timed = self.timed;
            out.fixed(b"word");
        }

        fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
            self.at.push(cx.now);
            self.says = n.bytes == 0;
        }

        fn on_received(&mut self, _: &mut Context<'_>, _: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
            self.says = true;
            Ok(())
        }

        fn id(&self) -> FlowId {
            FlowId::default()
        }
    }

    const ANSWERS: Talker = Talker { says: false, timed: false, at: Vec::new() };

    type Told = (Vec<(u64, &'static str)>, Vec<Mono>, Result<Turn, Cause>);

    fn one_turn(come: &'static [u8], mut talker: Talker, can_send: bool, refuses: bool) -> Told {
        let (clock, mut rng, mut rec) = (Clock::default(), Rng::new(1), Recorder::default());
        let mut outbox: Vec<Message> = Vec::new();
        let mut cx = Context::new(Mono(0), &clock, &mut rng, &mut rec, &mut outbox);
        let mut scratch = Scratch::new(64, 0);
        let mut wire = Wire { come, at: 0, said: Vec::new(), refuses };
        let done =
            turn(&mut wire, &mut talker, &mut cx, &mut scratch, Can { send: can_send, read: true }, None);
        (wire.said, talker.at, done)
    }

    #[test]
    fn what_a_receive_makes_due_is_sent_in_the_same_turn_and_nothing_twice() {
        let (said, at, done) = one_turn(b"question", ANSWERS, true, false);
        assert_eq!(said, [(0, "recv"), (2, "send")]);
        assert_eq!(at, [Mono(2), Mono(2)], "the clock is read between the two");
        let done = done.unwrap();
        assert_eq!((done.got, done.sent), (8, 4));
        let (said, ..) = one_turn(b"", ANSWERS, true, false);
        assert_eq!(said, [(0, "recv")], "nothing came, nothing is due");
        let (said, ..) = one_turn(b"question", ANSWERS, false, false);
        assert_eq!(said, [(0, "recv")], "the socket was full");
        // Who had its send before may have more to say: next time.
        let (said, ..) = one_turn(b"question", Talker { says: true, ..ANSWERS }, true, false);
        assert_eq!(said, [(1, "send"), (1, "recv")]);
    }

    #[test]
    fn who_wants_to_know_is_told_the_time_just_before_the_send() {
        let (said, at, _) = one_turn(b"", Talker { says: true, timed: true, ..ANSWERS }, true, false);
        assert_eq!(said, [(2, "send"), (2, "recv")]);
        assert_eq!(at, [Mono(1), Mono(2)]);
    }

    #[test]
    fn an_answer_that_is_refused_is_the_end_once_everything_is_read() {
        let (said, _, done) = one_turn(b"question", ANSWERS, true, true);
        assert_eq!(said, [(0, "recv"), (2, "send"), (2, "recv")]);
        assert_eq!(done, Err(Cause::Fault(Fault { deed: Deed::Send, errno: 104 })));
    }
}
