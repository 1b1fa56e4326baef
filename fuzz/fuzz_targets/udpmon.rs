//! A UDPmon responder and its decoders; two bytes before each datagram say how long it is and how
//! much later it comes.
#![no_main]

#[path = "bench.rs"]
mod bench;

use libfuzzer_sys::fuzz_target;
use model::{Kind, Phase};
use transport::{Arena, FlowEvent, Path, Received, Transmit};
use common::one_sided::Answers;
use udpmon::blocks::{
    decode_card, decode_cpus, decode_histogram, decode_lost, decode_net, decode_records,
};
use udpmon::codec::{Message, Setup, decode_counts, encode};
use udpmon::{acceptors, proc::between};

fuzz_target!(|bytes: &[u8]| {
    let _ = (
        decode_counts(bytes),
        decode_card(bytes),
        decode_lost(bytes),
        decode_records(bytes),
        decode_cpus(bytes),
    );
    if let Some(hist) = decode_histogram(bytes) {
        let _ = (hist.shape(), hist.shape_as_original());
    }
    if let Some((start, stop)) = decode_net(bytes) {
        let _ = between(&start, &stop, true);
    }
    let phase = Phase { kind: Kind::Train, extra: udpmon::PacketTestSettings::default().extra(), ..Phase::default() };
    let Some(mut acceptor) = acceptors(&phase, &Answers { workers: 1, ..Answers::default() }).pop() else {
        return;
    };
    let mut side = bench::side();
    let path = Path { peer: ([10, 0, 0, 1], 1).into(), local: ([10, 0, 0, 2], 2).into() };
    let first = encode(&Message::Zero(Setup::default()), 208);
    let first = Received { from: Some(path), ..Received::stream(&first, bench::START) };
    let (mut arena, mut none) = (Arena::new(65_507), Arena::new(0));
    let Some(mut flow) =
        acceptor.on_unsolicited(&mut side.cx(bench::START), &first, &mut Transmit::new(&mut none, 0))
    else {
        return;
    };
    let _ = flow.on_event(&mut side.cx(bench::START), FlowEvent::Up(path));
    let (mut now, mut rest) = (bench::START, bytes);
    while let Some((&[n, later], after)) = rest.split_first_chunk::<2>() {
        let (datagram, after) = after.split_at(after.len().min(n.into()));
        (now, rest) = (now.plus(u64::from(later) * 100_000), after);
        let got = Received::stream(datagram, now);
        let _ = flow.on_received(&mut side.cx(now), &got, &mut Transmit::new(&mut none, 0));
        let mut burst = Transmit::new(&mut arena, 65_507);
        flow.prepare_send(&mut side.cx(now), &mut burst);
    }
});
