//! What listens for ttcp's datagrams; two bytes before each say how long it is and how much later it comes.
#![no_main]

#[path = "bench.rs"]
#[allow(dead_code)]
mod bench;

use libfuzzer_sys::fuzz_target;
use model::{Kind, Phase, Probe};
use seam::{Arena, Batch, Burst, Path};
use wire::ttcp::answerers;
use wire::solo::Answers;

fuzz_target!(|bytes: &[u8]| {
    let phase = Phase { kind: Kind::Delay, probe: Some(Probe::default()), ..Phase::default() };
    let answers = Answers { workers: 1, arrivals: true, ..Answers::default() };
    let Some(mut opener) = answerers(&phase, &answers).pop() else { return };
    let mut side = bench::side();
    let (mut now, mut rest) = (bench::START, bytes);
    while let Some((&[n, later], after)) = rest.split_first_chunk::<2>() {
        let (datagram, after) = after.split_at(after.len().min(n.into()));
        (now, rest) = (now.plus(u64::from(later) * 100_000), after);
        let path = Path { peer: ([10, 0, 0, later], 9).into(), local: ([10, 0, 0, 2], 8888).into() };
        let got = Batch { from: Some(path), ..Batch::stream(datagram, now) };
        let mut none = Arena::new(0);
        assert!(opener.knock(&mut side.cx(now), &got, &mut Burst::new(&mut none, 0)).is_none());
        opener.tend(&mut side.cx(now));
        side.post.clear();
    }
    opener.stop();
    opener.tend(&mut side.cx(now));
});
