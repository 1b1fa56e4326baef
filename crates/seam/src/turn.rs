//! The one order of calls between a flow and its socket, for the worker and the simulator alike.

use crate::{Arena, Batch, Burst, Cause, Cx, End, Fault, Flow, News, Read, When, Wrote};
use metrics::Mono;

/// What a receive call brought.
#[derive(Debug)]
pub enum Got<'a> {
    /// The socket is empty.
    Nothing,
    /// Bytes.
    Batch(Batch<'a>),
    /// The peer will send no more.
    Fin,
    /// The kernel gave the link up.
    Fault(Fault),
}

/// A socket, real or simulated. Static: compiled once for each kind of socket of the worker, and once for the simulator.
pub trait Net {
    /// Whether bytes make a stream. On a stream, a receive that brings less than was asked for has emptied the socket, and
    /// a fault is the link's end. On a datagram socket each call concerns one datagram (or one run of them): behind a
    /// short one the next may be waiting, and a fault says something about one datagram only.
    fn stream(&self) -> bool;
    /// Tries to send a burst. A full socket is `Wrote::default()`.
    fn send(&mut self, burst: &Burst<'_>) -> Wrote;
    /// Tries to receive what `how` allows.
    fn recv(&mut self, how: Read) -> Got<'_>;
    /// The current instant.
    fn now(&mut self) -> Mono;
    /// There is more to send, now or at some time: the next receive call must not sleep, where it otherwise may.
    fn hurry(&mut self) {}
}

/// Which calls are worth trying: a socket that was full or empty is not tried again before the kernel says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Can {
    /// Sending may succeed.
    pub send: bool,
    /// Receiving may succeed.
    pub read: bool,
}

/// What a turn did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Bytes accepted by the kernel.
    pub sent: usize,
    /// The kernel took less than was offered.
    pub full: bool,
    /// Bytes received.
    pub got: usize,
    /// The socket is empty: on a stream there was nothing, or less than was asked for; on a datagram socket there was
    /// nothing.
    pub empty: bool,
}

/// A worker's memory for turns, shared by all its links.
#[derive(Debug)]
pub struct Desk {
    /// What flows write their sends into.
    pub tx: Arena,
    /// What they write their replies into.
    pub reply: Arena,
    /// Most bytes in one send.
    pub room: usize,
    /// Most bytes in one reply: no more than was received, and none on streams, where a partial send would lose the rest.
    pub reply_room: usize,
    /// Most datagrams in one send (generic segmentation), 1 where the kernel cannot or shall not; of no meaning on streams.
    pub segments: usize,
}

/// One turn: want, fill, send, wrote; want, recv, take. At most one send and one receive: where nothing was due before the
/// receive call and something is after it, such as an answer, it is sent last (want, fill, send, wrote) and not in the next turn.
///
/// On a stream, a send that the kernel refuses does not end the turn: what the peer said before it hung up is still read,
/// because it may explain why. On a datagram socket a refused send is the flow's to judge (`wrote`), and so is a refused
/// receive (`hear(Broken)`), such as the echo of an ICMP message: the link goes on unless the flow ends it.
///
/// # Errors
/// When the link has failed. A flow that found the peer at fault is offered one last send, so that the peer learns why.
pub fn turn<N: Net>(
    net: &mut N,
    flow: &mut dyn Flow,
    cx: &mut Cx<'_>,
    desk: &mut Desk,
    can: Can,
) -> Result<Turn, Cause> {
    let stream = net.stream();
    let mut done = Turn::default();
    cx.now = net.now();
    let mut want = flow.want();
    let mut broken = None;
    let first = can.send && is_due(want.send, cx.now);
    if first {
        broken = send(net, flow, cx, desk, &mut done);
        want = flow.want();
    }
    if !(can.read || broken.is_some()) || want.read == Read::Pause {
        return broken.map_or(Ok(done), |fault| hang_up(flow, cx, fault, done));
    }
    if want.send != When::Never {
        net.hurry();
    }
    let budget = match want.read {
        Read::Look(n) | Read::Skip(n) => n.get() as usize,
        Read::Pause => 0,
    };
    let result = match net.recv(want.read) {
        Got::Nothing => {
            done.empty = true;
            Ok(())
        }
        Got::Batch(batch) => {
            done.got = batch.len;
            done.empty = stream && batch.len < budget;
            cx.now = batch.at;
            let mut reply =
                Burst::new(&mut desk.reply, desk.reply_room.min(batch.len)).datagrams(desk.segments);
            let taken = flow.take(cx, &batch, &mut reply);
            if !reply.is_empty() {
                let wrote = net.send(&reply);
                flow.wrote(cx, wrote);
            }
            taken
        }
        Got::Fin => flow.hear(cx, News::Fin),
        Got::Fault(fault) if stream => return hang_up(flow, cx, fault, done),
        Got::Fault(fault) => flow.hear(cx, News::Broken(fault)),
    };
    if let Err(violation) = result {
        let mut burst = Burst::new(&mut desk.tx, desk.room).datagrams(desk.segments);
        flow.fill(cx, &mut burst);
        if !burst.is_empty() {
            net.send(&burst);
        }
        return Err(Cause::Violation(violation));
    }
    if can.send && !first && done.got > 0 {
        let due = flow.want().send;
        if due != When::Never {
            cx.now = net.now();
            if is_due(due, cx.now) {
                broken = send(net, flow, cx, desk, &mut done);
            }
        }
    }
    // A broken link is read to its end, a turn at a time, before it is given up.
    match broken {
        Some(fault) if done.got == 0 => hang_up(flow, cx, fault, done),
        _ => Ok(done),
    }
}

fn is_due(send: When, now: Mono) -> bool {
    match send {
        When::Now => true,
        When::At(at) => at <= now,
        When::Never => false,
    }
}

/// Sends what the flow offers. A stream's refusal is returned.
#[inline]
fn send<N: Net>(
    net: &mut N,
    flow: &mut dyn Flow,
    cx: &mut Cx<'_>,
    desk: &mut Desk,
    done: &mut Turn,
) -> Option<Fault> {
    let mut burst = Burst::new(&mut desk.tx, desk.room).datagrams(desk.segments);
    flow.fill(cx, &mut burst);
    if burst.is_empty() {
        return None;
    }
    let wrote = net.send(&burst);
    done.sent = wrote.bytes;
    // A refusal is no fullness: nobody will tell that there is room again.
    done.full = wrote.fault.is_none() && wrote.bytes < burst.len();
    flow.wrote(cx, wrote);
    wrote.fault.filter(|_| net.stream())
}

/// Tells the flow that the kernel gave the link up. The flow may know a better reason, or may have been done with it.
fn hang_up(flow: &mut dyn Flow, cx: &mut Cx<'_>, fault: Fault, done: Turn) -> Result<Turn, Cause> {
    flow.hear(cx, News::Broken(fault)).map_err(Cause::Violation)?;
    match flow.want().end {
        Some(End::Done { .. }) => Ok(done),
        _ => Err(Cause::Fault(fault)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Card, Note, Rng, Violation, Want};
    use metrics::{Clock, Recorder};

    /// A socket on which `come` is waiting; what happens to it is written down, with the time.
    struct Wire {
        come: &'static [u8],
        at: u64,
        said: Vec<(u64, String)>,
    }

    impl Net for Wire {
        fn stream(&self) -> bool {
            true
        }

        fn send(&mut self, burst: &Burst<'_>) -> Wrote {
            let bytes: Vec<u8> = burst.slices().flatten().copied().collect();
            self.said.push((self.at, format!("send {}", String::from_utf8_lossy(&bytes))));
            Wrote { bytes: bytes.len(), fault: None }
        }

        fn recv(&mut self, _: Read) -> Got<'_> {
            self.said.push((self.at, "recv".to_owned()));
            if self.come.is_empty() {
                return Got::Nothing;
            }
            Got::Batch(Batch::stream(std::mem::take(&mut self.come), self.now()))
        }

        fn now(&mut self) -> Mono {
            self.at += 1;
            Mono(self.at)
        }
    }

    /// Has something to say from the start, or answers.
    struct Talker {
        says: bool,
        at: Vec<Mono>,
    }

    impl Flow for Talker {
        fn want(&self) -> Want {
            let send = if self.says { When::Now } else { When::Never };
            Want { send, read: Read::look(10), wake: None, end: None }
        }

        fn fill(&mut self, cx: &mut Cx<'_>, out: &mut Burst<'_>) {
            self.at.push(cx.now);
            out.fixed(b"word");
        }

        fn wrote(&mut self, _: &mut Cx<'_>, _: Wrote) {
            self.says = false;
        }

        fn take(&mut self, _: &mut Cx<'_>, _: &Batch<'_>, _: &mut Burst<'_>) -> Result<(), Violation> {
            self.says = true;
            Ok(())
        }

        fn hear(&mut self, _: &mut Cx<'_>, _: News) -> Result<(), Violation> {
            Ok(())
        }

        fn card(&self) -> Card {
            Card::default()
        }
    }

    fn told(come: &'static [u8], mut talker: Talker, send: bool) -> (Vec<(u64, String)>, Vec<Mono>, Turn) {
        let (clock, mut rng, mut rec) = (Clock::default(), Rng::new(1), Recorder::default());
        let mut post: Vec<Note> = Vec::new();
        let mut cx = Cx { now: Mono(0), clock: &clock, rng: &mut rng, rec: &mut rec, post: &mut post };
        let mut desk =
            Desk { tx: Arena::new(64), reply: Arena::new(0), room: 64, reply_room: 0, segments: 1 };
        let mut wire = Wire { come, at: 0, said: Vec::new() };
        let done = turn(&mut wire, &mut talker, &mut cx, &mut desk, Can { send, read: true }).unwrap();
        (wire.said, talker.at, done)
    }

    #[test]
    fn what_a_receive_makes_due_is_sent_in_the_same_turn_and_nothing_twice() {
        let answers = || Talker { says: false, at: Vec::new() };
        let (said, at, done) = told(b"question", answers(), true);
        assert_eq!(said, [(1, "recv".to_owned()), (3, "send word".to_owned())]);
        assert_eq!(at, [Mono(3)], "the clock is read between the two");
        assert_eq!((done.got, done.sent), (8, 4));
        let (said, ..) = told(b"", answers(), true);
        assert_eq!(said, [(1, "recv".to_owned())], "nothing came, nothing is due");
        let (said, ..) = told(b"question", answers(), false);
        assert_eq!(said, [(1, "recv".to_owned())], "the socket was full");
        // Who had its send before may have more to say: next time.
        let (said, ..) = told(b"question", Talker { says: true, at: Vec::new() }, true);
        assert_eq!(said, [(1, "send word".to_owned()), (1, "recv".to_owned())]);
    }
}
