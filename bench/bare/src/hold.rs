//! Connections that are held: connect, 64 bytes there, compared, one byte back; and then all stay
//! open until standard input ends.

use crate::args::Plan;
use crate::{Outcome, on_workers};
use common::payload::Source;
use io::{Clock, Listener, Reactor, Stream};
use metrics::SECOND;
use std::io::{Read as _, Write as _};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use transport::{
    Arena, Got, ListenerSocket as _, Net, Read, Ready, StreamSocket as _, Target, Transmit, Trigger,
};

const LISTENER: u64 = u64::MAX - 1;
/// Connections accepted in a row before the others get their turn; as in the engine.
const AT_ONCE: usize = 64;
/// Bytes of a connection.
const BYTES: usize = 64;

/// Serves until it is killed. Each connection has a count of the bytes that have come, and the
/// socket.
pub(crate) fn serve(plan: &Plan, ready: Option<Sender<()>>) -> Outcome<()> {
    let bind = |_| {
        Listener::bind(plan.addr, true, &plan.settings)
            .map_err(|fault| format!("cannot listen at {}: {fault}", plan.addr))
    };
    let listeners = (0..plan.workers).map(bind).collect::<Outcome<Vec<_>>>()?;
    let _ = ready.map(|ready| ready.send(()));
    on_workers(plan, |worker| answer(&listeners[worker])).map(drop)
}

fn answer(listener: &Listener) -> Outcome<()> {
    let clock = Clock::new();
    let mut reactor = Reactor::new().map_err(|e| format!("no reactor: {e}"))?;
    let watching = |e| format!("cannot watch: {e}");
    reactor.watch(listener, LISTENER, Trigger::Level).map_err(watching)?;
    let mut links: Vec<(Stream, u8)> = Vec::new();
    let (mut events, mut arena): (Vec<Ready>, _) = (Vec::new(), Arena::new(0));
    loop {
        reactor.wait(None, &clock, &mut events).map_err(|e| format!("waiting failed: {e}"))?;
        for event in events.drain(..) {
            if event.key != LISTENER {
                if let Some(link) = links.get_mut(event.key as usize) {
                    take(link, &mut arena, &clock)?;
                }
                continue;
            }
            for _ in 0..AT_ONCE {
                let Some((stream, _)) = listener.accept().map_err(|f| format!("cannot accept: {f}"))? else {
                    break;
                };
                reactor.watch(&stream, links.len() as u64, Trigger::Edges).map_err(watching)?;
                let mut link = (stream, 0);
                take(&mut link, &mut arena, &clock)?;
                links.push(link);
            }
        }
    }
}

/// Compares what has come, and answers the last byte.
fn take((stream, got): &mut (Stream, u8), arena: &mut Arena, clock: &Clock) -> Outcome<()> {
    let mut buffer = [0; BYTES];
    if let Got::Received(received) = stream.net(&mut buffer, clock, false).recv(Read::look(BYTES)) {
        let checked = Source::Pattern.check((*got).into(), received.bytes);
        checked.map_err(|violation| format!("the data is wrong: {violation:?}"))?;
        *got += received.len as u8;
        if usize::from(*got) == BYTES {
            let mut burst = Transmit::new(arena, 1);
            burst.fixed(b"1");
            let _ = stream.net(&mut [], clock, false).send(&burst);
        }
    }
    Ok(())
}

/// Opens all connections, says how long that took, and keeps them.
pub(crate) fn call(plan: &Plan) -> Outcome<()> {
    let begun = Clock::new().now();
    let (all, left) = (Barrier::new(plan.workers), AtomicUsize::new(plan.workers));
    on_workers(plan, |worker| {
        let links = open(plan, (plan.connections - worker).div_ceil(plan.workers))?;
        if left.fetch_sub(1, Ordering::Relaxed) == 1 {
            let seconds = Clock::new().now().since(begun) as f64 / SECOND as f64;
            let line =
                format!(r#"{{"mode":"hold","connections":{},"seconds":{seconds:.6}}}"#, plan.connections);
            writeln!(std::io::stdout(), "{line}").map_err(|e| format!("cannot print: {e}"))?;
            // The connections stay open until the caller closes standard input.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
        }
        all.wait();
        drop(links);
        Ok(())
    })
    .map(drop)
}

fn open(plan: &Plan, slots: usize) -> Outcome<Vec<Stream>> {
    let clock = Clock::new();
    let mut reactor = Reactor::new().map_err(|e| format!("no reactor: {e}"))?;
    let (mut links, mut events): (Vec<Stream>, Vec<Ready>) = (Vec::with_capacity(slots), Vec::new());
    let (mut arena, mut buffer) = (Arena::new(0), [0; 16]);
    let target = Target { to: plan.addr, from: None };
    let (mut sent, mut done) = (vec![false; slots], 0);
    while done < slots {
        while links.len() < slots && links.len() - done < plan.throttle {
            let (stream, _) = Stream::connect(&target, &plan.settings)
                .map_err(|fault| format!("cannot connect to {}: {fault}", plan.addr))?;
            let at = links.len();
            // On fast paths the handshake is over by now.
            sent[at] = send(&stream, &mut arena, &clock)?;
            reactor.watch(&stream, at as u64, Trigger::Edges).map_err(|e| format!("cannot watch: {e}"))?;
            links.push(stream);
        }
        reactor.wait(None, &clock, &mut events).map_err(|e| format!("waiting failed: {e}"))?;
        for event in events.drain(..) {
            let at = event.key as usize;
            if !sent[at] && event.writable {
                sent[at] = send(&links[at], &mut arena, &clock)?;
            }
            if event.readable {
                match links[at].net(&mut buffer, &clock, false).recv(Read::look(16)) {
                    Got::Received(_) => done += 1,
                    Got::Nothing => {}
                    Got::Fin => return Err("the server hung up".to_owned()),
                    Got::Fault(fault) => return Err(format!("receiving failed: {fault}")),
                }
            }
        }
    }
    Ok(links)
}

/// Sends the bytes; false when the socket does not take them yet.
fn send(stream: &Stream, arena: &mut Arena, clock: &Clock) -> Outcome<bool> {
    let mut burst = Transmit::new(arena, BYTES);
    Source::Pattern.offer(0, BYTES, &mut burst);
    let wrote = stream.net(&mut [], clock, false).send(&burst);
    wrote.fault.map_or(Ok(wrote.bytes == BYTES), |fault| Err(format!("sending failed: {fault}")))
}
