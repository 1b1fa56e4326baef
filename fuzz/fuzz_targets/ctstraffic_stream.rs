//! A ctsTraffic media stream's receiver; two bytes before each datagram say how long it is and how
//! much later it comes.
#![no_main]

#[path = "bench.rs"]
mod bench;

use libfuzzer_sys::fuzz_target;
use metrics::Group;
use model::{Kind, Media, Phase};
use std::sync::Arc;
use transport::{Arena, Flow, FlowEvent, Path, Received, Transmit};
use common::Params;
use ctstraffic::Receiver;

fuzz_target!(|bytes: &[u8]| {
    let media = Media {
        rate_bps: 8_000,
        frame_rate: 1_000,
        frames: 25,
        frame_size: 100,
        depth_frames: 5,
        datagram: 100,
        spread: false,
    };
    let phase = Phase { kind: Kind::Stream, media: Some(media), ..Phase::default() };
    let mut flow = Receiver::new(Arc::new(Params::of(&phase, Group(1))), media, 0, true);
    let mut side = bench::side();
    let path = Path { peer: ([10, 0, 0, 1], 1).into(), local: ([10, 0, 0, 2], 2).into() };
    let _ = flow.on_event(&mut side.cx(bench::START), FlowEvent::Up(path));
    bench::feed(&mut side, &mut flow, b"");
    let (mut now, mut rest) = (bench::START, bytes);
    while let Some((&[n, later], after)) = rest.split_first_chunk::<2>() {
        let (datagram, after) = after.split_at(after.len().min(n.into()));
        (now, rest) = (now.plus(u64::from(later) * 100_000), after);
        let got = Received::stream(datagram, now);
        if flow.on_received(&mut side.cx(now), &got, &mut Transmit::new(&mut Arena::new(0), 0)).is_err() {
            break;
        }
        if flow.interest().wake.is_some_and(|at| at <= now)
            && flow.on_event(&mut side.cx(now), FlowEvent::Wake).is_err()
        {
            break;
        }
        side.outbox.clear();
    }
});
