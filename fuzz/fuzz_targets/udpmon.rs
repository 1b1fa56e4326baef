//! A UDPmon responder and its decoders; two bytes before each datagram say how long it is and how much later it comes.
#![no_main]

#[path = "bench.rs"]
mod bench;

use libfuzzer_sys::fuzz_target;
use model::{Kind, Phase};
use transport::{Arena, Batch, Burst, News, Path};
use wire::solo::Answers;
use wire::udpmon::blocks::{decode_card, decode_cpus, decode_histogram, decode_lost, decode_net, decode_records};
use wire::udpmon::codec::{Message, Setup, decode_counts, encode};
use wire::udpmon::{answerers, proc::between};

fuzz_target!(|bytes: &[u8]| {
    let _ = (decode_counts(bytes), decode_card(bytes), decode_lost(bytes), decode_records(bytes), decode_cpus(bytes));
    if let Some(hist) = decode_histogram(bytes) {
        let _ = (hist.shape(), hist.shape_as_udpmon());
    }
    if let Some((start, stop)) = decode_net(bytes) {
        let _ = between(&start, &stop, true);
    }
    let phase = Phase { kind: Kind::Train, udpmon: Some(Box::default()), ..Phase::default() };
    let Some(mut door) = answerers(&phase, &Answers { workers: 1, ..Answers::default() }).pop() else { return };
    let mut side = bench::side();
    let path = Path { peer: ([10, 0, 0, 1], 1).into(), local: ([10, 0, 0, 2], 2).into() };
    let first = encode(&Message::Zero(Setup::default()), 208);
    let knock = Batch { from: Some(path), ..Batch::stream(&first, bench::START) };
    let (mut arena, mut none) = (Arena::new(65_507), Arena::new(0));
    let Some(mut flow) = door.knock(&mut side.cx(bench::START), &knock, &mut Burst::new(&mut none, 0)) else { return };
    let _ = flow.hear(&mut side.cx(bench::START), News::Up(path));
    let (mut now, mut rest) = (bench::START, bytes);
    while let Some((&[n, later], after)) = rest.split_first_chunk::<2>() {
        let (datagram, after) = after.split_at(after.len().min(n.into()));
        (now, rest) = (now.plus(u64::from(later) * 100_000), after);
        let got = Batch::stream(datagram, now);
        let _ = flow.take(&mut side.cx(now), &got, &mut Burst::new(&mut none, 0));
        let mut burst = Burst::new(&mut arena, 65_507);
        flow.fill(&mut side.cx(now), &mut burst);
    }
});
