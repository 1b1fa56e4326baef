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

/// One turn: want, fill, send, wrote; want, recv, take. At most one send and one receive.
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
    let due = match want.send {
        When::Now => true,
        When::At(at) => at <= cx.now,
        When::Never => false,
    };
    let mut broken = None;
    if can.send && due {
        let mut burst = Burst::new(&mut desk.tx, desk.room).datagrams(desk.segments);
        flow.fill(cx, &mut burst);
        if !burst.is_empty() {
            let wrote = net.send(&burst);
            done.sent = wrote.bytes;
            // A refusal is no fullness: nobody will tell that there is room again.
            done.full = wrote.fault.is_none() && wrote.bytes < burst.len();
            broken = wrote.fault.filter(|_| stream);
            flow.wrote(cx, wrote);
        }
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
    // A broken link is read to its end, a turn at a time, before it is given up.
    match broken {
        Some(fault) if done.got == 0 => hang_up(flow, cx, fault, done),
        _ => Ok(done),
    }
}

/// Tells the flow that the kernel gave the link up. The flow may know a better reason, or may have been done with it.
fn hang_up(flow: &mut dyn Flow, cx: &mut Cx<'_>, fault: Fault, done: Turn) -> Result<Turn, Cause> {
    flow.hear(cx, News::Broken(fault)).map_err(Cause::Violation)?;
    match flow.want().end {
        Some(End::Done { .. }) => Ok(done),
        _ => Err(Cause::Fault(fault)),
    }
}
