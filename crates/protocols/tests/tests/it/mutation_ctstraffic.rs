//! Mutated inputs for each end of a ctsTraffic connection: none may panic, hang, or move more than
//! was agreed.

use crate::support::bench::{Bench, inputs, last_news, mutate};
use common::Params;
use common::payload::Source;
use ctstraffic::codec::{DONE, Datagram, ID, decode, decode_id, encode_header, encode_id, encode_stream_id};
use ctstraffic::{Connection, Receiver};
use metrics::Group;
use model::{Kind, Media, Pattern, Phase, Range, Verify};
use std::sync::Arc;
use transport::{Arena, End, Flow, FlowEvent, Received, Rng, Sent, Transmit, When};
use uuid::Uuid;

fn params(rng: &mut Rng, transfer: u64) -> Arc<Params> {
    let pick = |rng: &mut Rng, n: u64| rng.between(0, n - 1) as usize;
    let pattern = [Pattern::Push, Pattern::Pull, Pattern::Duplex, Pattern::PushPull { push: 50, pull: 30 }]
        [pick(rng, 4)];
    let verify = [Verify::Data, Verify::Connection, Verify::None][pick(rng, 3)];
    let buffer = Range { low: rng.between(1, 40), high: rng.between(40, 400) };
    Arc::new(Params::of(&Phase { pattern, verify, buffer, transfer, ..Phase::default() }, Group(1)))
}

/// What a good peer would say, all at once.
fn talk(params: &Params, from_client: bool, transfer: u64) -> Vec<u8> {
    let (up, down) = params.pattern.split(transfer);
    let mut arena = Arena::new(1 << 12);
    let mut burst = Transmit::new(&mut arena, 4_096);
    Source::Pattern.offer(0, (if from_client { up } else { down }) as usize, &mut burst);
    let payload: Vec<u8> = burst.slices().flatten().copied().collect();
    if from_client {
        return payload;
    }
    [&encode_id(Uuid::from_u128(7))[..], &payload, DONE].concat()
}

#[test]
fn both_ends() {
    let (mut bench, mut rng) = (Bench::new(15), Rng::new(16));
    let mut content = 0;
    for n in 0..2 * inputs() {
        let transfer = rng.between(1, 300);
        let params = params(&mut rng, transfer);
        let is_client = n % 2 == 0;
        let mut flow = if is_client {
            Connection::client(Arc::clone(&params), 0, transfer, rng.next() & 1 == 0)
        } else {
            Connection::server(Arc::clone(&params), transfer)
        };
        let mut bytes = talk(&params, !is_client, transfer);
        if rng.next() & 1 == 0 {
            mutate(&mut rng, &mut bytes);
        }
        let (fed, counts) = bench.run(&mut flow, &bytes, last_news(&mut rng));
        content += u32::from(fed);
        let (up, down) = params.pattern.split(transfer);
        let (tx, rx) = if is_client { (up, down) } else { (down, up) };
        assert!(counts.rx_bytes <= rx && counts.tx_bytes <= tx, "{counts:?} of {tx} and {rx}");
    }
    assert!(content > inputs() / 5 && content < 2 * inputs() - inputs() / 5, "{content}");
}

#[test]
fn identifiers() {
    let mut rng = Rng::new(17);
    let (mut known, mut unknown) = (0u32, 0u32);
    for _ in 0..inputs() {
        let id = rng.uuid();
        let mut bytes = encode_id(id).to_vec();
        assert_eq!(decode_id(bytes[..].try_into().unwrap()), id);
        mutate(&mut rng, &mut bytes);
        bytes.resize(ID, 0);
        if decode_id(bytes[..].try_into().unwrap()).is_nil() { unknown += 1 } else { known += 1 }
    }
    assert!(known > inputs() / 20 && unknown > inputs() / 2, "{known} {unknown}");
}

/// A datagram of a stream, more or less.
fn datagram(rng: &mut Rng) -> Vec<u8> {
    if rng.between(0, 9) == 0 {
        return encode_stream_id(rng.uuid()).to_vec();
    }
    let frame = if rng.between(0, 9) == 0 { rng.next() as i64 } else { rng.between(0, 30) as i64 };
    let header = encode_header(frame, rng.next() as i64, rng.next() as i64);
    let mut payload = vec![0; rng.between(0, 74) as usize];
    for (i, byte) in payload.iter_mut().enumerate() {
        *byte = if i % 2 == 0 { (i / 2) as u8 } else { 0 };
    }
    [&header[..], &payload].concat()
}

#[test]
fn datagrams() {
    let mut rng = Rng::new(18);
    let (mut ids, mut parts, mut none) = (0u32, 0u32, 0u32);
    for _ in 0..inputs() {
        let mut bytes = datagram(&mut rng);
        assert!(decode(&bytes).is_some());
        mutate(&mut rng, &mut bytes);
        match decode(&bytes) {
            Some(Datagram::Id(_)) => ids += 1,
            Some(Datagram::Part { .. }) => parts += 1,
            None => none += 1,
        }
    }
    assert!(ids > inputs() / 100 && parts > inputs() / 10 && none > inputs() / 10, "{ids} {parts} {none}");
}

#[test]
fn receivers() {
    let (mut bench, mut rng) = (Bench::new(19), Rng::new(20));
    let media = Media {
        rate_bps: 8_000,
        frame_rate: 1_000,
        frames: 25,
        frame_size: 100,
        depth_frames: 5,
        datagram: 100,
        spread: false,
    };
    let (mut tried, mut whole) = (0, 0u64);
    while tried < inputs() {
        let verify = [Verify::Data, Verify::Connection][rng.between(0, 1) as usize];
        let phase = Phase { kind: Kind::Stream, media: Some(media), verify, ..Phase::default() };
        let mut flow = Receiver::new(Arc::new(Params::of(&phase, Group(1))), media, 0, true);
        flow.on_event(&mut bench.cx(), FlowEvent::Up(Bench::path())).unwrap();
        for _ in 0..200 {
            tried += 1;
            bench.now = bench.now.plus(rng.between(0, 1_000_000));
            let mut cx = bench.cx();
            let want = flow.interest();
            if matches!(want.end, Some(End::Done { .. })) {
                break;
            }
            if want.send == When::Now || matches!(want.send, When::At(at) if at <= cx.now) {
                let mut arena = Arena::new(64);
                let mut burst = Transmit::new(&mut arena, 64);
                flow.prepare_send(&mut cx, &mut burst);
                flow.on_sent(&mut cx, Sent { bytes: burst.len(), fault: None });
            }
            let mut bytes = datagram(&mut rng);
            if rng.between(0, 9) == 0 {
                mutate(&mut rng, &mut bytes);
            }
            let got = Received::stream(&bytes, cx.now);
            let taken = flow.on_received(&mut cx, &got, &mut Transmit::new(&mut Arena::new(0), 0));
            let due = flow.interest().wake.is_some_and(|at| at <= cx.now);
            let woken = if due { flow.on_event(&mut cx, FlowEvent::Wake) } else { Ok(()) };
            if taken.is_err() || woken.is_err() {
                break;
            }
        }
        let row = flow.id().row.unwrap();
        let frames = bench.rec.life(row).0.frames;
        assert!(frames.completed + frames.dropped + frames.repeated <= 25, "{frames:?}");
        whole += frames.completed;
        bench.rec.close(row);
        bench.outbox.clear();
    }
    assert!(whole > u64::from(inputs() / 1_000), "{whole}");
}
