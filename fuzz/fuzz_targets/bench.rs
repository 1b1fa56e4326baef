//! Feeds a flow or an acceptor.
#![expect(dead_code, reason = "each target uses a part of it")]

use metrics::Mono;
use model::{Kind, Phase, Probe};
use sim::{Quirks, Side};
use transport::{Acceptor, Arena, End, Flow, FlowEvent, Path, Read, Received, Sent, Transmit, When};
use common::one_sided::Answers;

pub const START: Mono = Mono(1_000_000_000);

pub fn side() -> Side {
    Side::new(1, Quirks::default())
}

/// Gives a flow `bytes` as it asks for them, lets it speak in between, and hangs up in the end.
pub fn feed(side: &mut Side, flow: &mut dyn Flow, mut bytes: &[u8]) {
    let (mut arena, mut none) = (Arena::new(4_096), Arena::new(0));
    for turn in 0..1_000 {
        let want = flow.interest();
        if matches!(want.end, Some(End::Done { .. } | End::Detach | End::Migrate(_))) {
            return;
        }
        let now = START.plus(turn * 1_000_000);
        if want.send != When::Never {
            let mut burst = Transmit::new(&mut arena, 2_000);
            flow.prepare_send(&mut side.cx(now), &mut burst);
            let sent = Sent { bytes: burst.len(), fault: None };
            flow.on_sent(&mut side.cx(now), sent);
        }
        let (most, skip) = match flow.interest().read {
            Read::Pause => (0, false),
            Read::Look(n) => (n.get() as usize, false),
            Read::Skip(n) => (n.get() as usize, true),
        };
        let n = most.min(bytes.len());
        let (got, rest) = bytes.split_at(n);
        bytes = rest;
        let result = if n > 0 {
            let batch = if skip { Received::skipped(n, now) } else { Received::stream(got, now) };
            flow.on_received(&mut side.cx(now), &batch, &mut Transmit::new(&mut none, 0))
        } else {
            let _ = flow.on_event(&mut side.cx(now), FlowEvent::Fin);
            return;
        };
        if result.is_err() {
            flow.prepare_send(&mut side.cx(now), &mut Transmit::new(&mut arena, 2_000));
            return;
        }
    }
}

/// Gives acceptors datagrams of peers that they must refuse; two bytes before each are its length
/// and the delay since the previous one.
pub fn unsolicited(acceptors: fn(&Phase, &Answers) -> Vec<Box<dyn Acceptor>>, bytes: &[u8]) {
    let phase = Phase { kind: Kind::Delay, probe: Some(Probe::default()), ..Phase::default() };
    let answers = Answers { workers: 1, arrivals: true, ..Answers::default() };
    let Some(mut acceptor) = acceptors(&phase, &answers).pop() else { return };
    let mut side = side();
    let (mut now, mut rest) = (START, bytes);
    while let Some((&[n, later], after)) = rest.split_first_chunk::<2>() {
        let (datagram, after) = after.split_at(after.len().min(n.into()));
        (now, rest) = (now.plus(u64::from(later) * 100_000), after);
        let path = Path { peer: ([10, 0, 0, later], 9).into(), local: ([10, 0, 0, 2], 8888).into() };
        let got = Received { from: Some(path), ..Received::stream(datagram, now) };
        let mut none = Arena::new(0);
        assert!(acceptor.on_unsolicited(&mut side.cx(now), &got, &mut Transmit::new(&mut none, 0)).is_none());
        acceptor.on_timer(&mut side.cx(now));
        side.outbox.clear();
    }
    acceptor.stop();
    acceptor.on_timer(&mut side.cx(now));
}
