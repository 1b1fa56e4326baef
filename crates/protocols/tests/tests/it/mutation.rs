//! Mutated inputs for every decoder: none may panic, hang, or grow without bound.
//!
//! Mutations are seeded and repeat. Inputs start from valid ones, because random bytes are refused
//! at the first byte; where a check would hide what lies behind it, it is made to fit again for
//! half of them. `fuzz/` has the same targets for coverage-guided fuzzing.

use crate::support::bench::{Bench, inputs, last_news, mutate};
use crate::support::{ID, SESSION, key, opener, phase};
use common::protocol::Foreigners;
use metrics::Group;
use model::{Pattern, Payload, Phase, Totals, Traffic, Verify};
use native::{
    Data, Frames, Grant, Grants, Listener, MARK, MAX_MESSAGE, Mark, MarkKind, Message, PREAMBLE, Params,
    Preamble, Purpose, answer_hello, encode, guess, hello, is_answer, is_ours,
};
use std::sync::Arc;
use transport::{Acceptor, Arena, FlowEvent, Rng, Transmit};
use uuid::Uuid;

fn fnv1a<'a>(bytes: impl IntoIterator<Item = &'a u8>) -> [u8; 4] {
    let hash = bytes.into_iter().fold(0x811c_9dc5u32, |h, &b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
    hash.to_be_bytes()
}

fn preamble(rng: &mut Rng) -> Preamble {
    let purposes = [Purpose::Control, Purpose::Data, Purpose::Hello, Purpose::Answer];
    Preamble {
        version: if rng.between(0, 9) == 0 { rng.next() as u16 } else { native::WIRE_VERSION },
        session: if rng.between(0, 3) == 0 { 9 } else { SESSION },
        number: rng.next(),
        seal: rng.next().to_be_bytes().repeat(2).try_into().unwrap(),
        id: rng.uuid(),
        slot: rng.next() as u32,
        transfer: if rng.between(0, 9) == 0 { rng.next() } else { rng.between(0, 300) },
        ..Preamble::new(purposes[rng.between(0, 3) as usize])
    }
}

#[test]
fn preambles_and_hellos() {
    let mut rng = Rng::new(1);
    let mut decoded = 0;
    for _ in 0..inputs() {
        let whole = preamble(&mut rng);
        let bytes = whole.encode();
        assert_eq!(Preamble::decode(&bytes), Some(whole));
        let mut bytes = bytes.to_vec();
        mutate(&mut rng, &mut bytes);
        if let Some(answer) = answer_hello(&bytes) {
            assert!(bytes.len() == answer.len() && !is_answer(&bytes, whole.id));
        }
        bytes.resize(PREAMBLE, 0);
        if rng.next() & 1 == 0 {
            let check = fnv1a(&bytes[..PREAMBLE - 4]);
            bytes[PREAMBLE - 4..].copy_from_slice(&check);
        }
        if let Some(other) = Preamble::decode(&bytes) {
            decoded += 1;
            assert!(is_ours(&bytes));
            // All but the unused bytes survive.
            let again = Preamble::decode(&other.encode());
            assert_eq!(again, Some(other));
        }
    }
    assert!(decoded > inputs() / 10, "{decoded}");
    assert!(is_answer(&answer_hello(&hello(ID)).unwrap(), ID));
}

#[test]
fn guesses() {
    let mut rng = Rng::new(2);
    let seeds: [&[u8]; 7] = [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"ovtbza7m2lbfqs2qupwzkaugldlcjxwnuhtl\0",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        &[0x16, 3, 1, 2, 0, 1, 0],
        b"220 mail ESMTP\r\n",
        &[0xfe, 0, 0, 0, 114],
        &Preamble::new(Purpose::Control).encode(),
    ];
    let iperf3: &dyn common::Protocol = &iperf3::PROTOCOL;
    let iperf3 = Vec::from_iter(iperf3.info().foreign.as_ref());
    let mut seen = std::collections::HashSet::new();
    for _ in 0..inputs() {
        let mut bytes = seeds[rng.between(0, 6) as usize].to_vec();
        mutate(&mut rng, &mut bytes);
        seen.insert(guess(&bytes, &iperf3));
    }
    assert_eq!(seen.len(), 7, "{seen:?}");
}

fn mark(rng: &mut Rng, local: u64) -> Mark {
    use MarkKind::{Done, End, Refused, Span, Stop, Verdict};
    let kind =
        [Span, Span, Span, End, End, Verdict, Verdict, Stop, Done, Refused][rng.between(0, 9) as usize];
    let value = match rng.between(0, 5) {
        0 => rng.next(),
        1 => u64::MAX - rng.between(0, 3),
        2 => local,
        _ => rng.between(0, 2 * local.max(1)),
    };
    Mark { kind, flagged: rng.next() & 1 == 0 && matches!(kind, End | Verdict), value }
}

#[test]
fn marks() {
    let mut rng = Rng::new(3);
    let mut decoded = 0;
    for _ in 0..inputs() {
        let whole = mark(&mut rng, 1_000);
        let bytes = whole.encode(ID);
        assert_eq!(Mark::decode(&bytes, ID), Some(whole));
        let mut bytes = bytes.to_vec();
        mutate(&mut rng, &mut bytes);
        bytes.resize(MARK, 0);
        if rng.next() & 1 == 0 {
            let check = fnv1a(bytes[..4].iter().chain(&bytes[8..]).chain(ID.as_bytes()));
            bytes[4..8].copy_from_slice(&check);
        }
        if let Some(other) = Mark::decode(bytes[..].try_into().unwrap(), ID) {
            decoded += 1;
            assert_eq!(Mark::decode(&other.encode(ID), ID), Some(other));
        }
    }
    assert!(decoded > inputs() / 10, "{decoded}");
}

fn messages() -> Vec<Message> {
    let text = "a \u{201c}text\u{201d} with \\ and \" and {[".to_owned();
    vec![
        Message::Hello {
            version: "1".into(),
            capabilities: vec!["tcp".into()],
            nonce: "00".repeat(16),
            host: String::new(),
        },
        Message::Noise { protocol: native::secure::SHARED.into(), key: "k".into(), data: "ab".repeat(32) },
        Message::Ping { n: 7 },
        Message::Resume { session: 7, number: 1, seal: "ab".repeat(16) },
        Message::Resumed,
        Message::Abort { within_ns: 7 },
        Message::Propose { run: ID, phase: Box::new(Phase { rate: Some(8), ..phase(Pattern::Duplex, 7) }) },
        Message::Queued { ahead: 3, reason: text.clone() },
        Message::Accepted {
            accepted: model::Accepted::default(),
            secret: "11".repeat(16),
            phase: Box::default(),
            host: Box::default(),
            workers: 2,
            placement: text.clone(),
            process_ports: vec![native::ProcessPort { port: 9, connections: 1 }],
        },
        Message::Refused { reason: text },
        Message::Interval {
            index: 1,
            traffic: Traffic { tx_bytes: 1, rx_bytes: 2, ns: 3, ..Traffic::default() },
            open: 4,
            others: 5,
            came_ns: Some(7),
            packets: None,
        },
        Message::Result { totals: Box::new(Totals { completed: 9, ..Totals::default() }) },
        Message::Trains {
            start_ns: Some(-5),
            zero_ns: 6,
            offset_ns: -7,
            bound_ns: 8,
            left_out: 9,
            sent: vec![(0, 1), (1, -2)],
            got: vec![(0, 3, 4, 2), (1, -5, 6, 0)],
        },
        Message::Start,
        Message::Bye,
    ]
}

#[test]
fn control_messages() {
    let mut rng = Rng::new(4);
    let whole: Vec<_> = messages().into_iter().map(|m| (encode(&m), m)).collect();
    let (mut good, mut bad, mut tried) = (0u32, 0u32, 0);
    while tried < inputs() {
        // Long ones are tried less often: they cost more and find no more.
        let (bytes, message) = &whole[rng.between(0, whole.len() as u64 - 1) as usize];
        if bytes.len() > 400 && rng.between(0, 9) > 0 {
            continue;
        }
        tried += 1;
        let mut frames = Frames::new(4_096);
        frames.push(bytes).unwrap();
        if tried % 64 == 0 {
            assert_eq!(frames.pop(), Ok(Some(message.clone())));
        } else {
            frames = Frames::new(4_096);
        }
        let mut bytes = bytes.clone();
        mutate(&mut rng, &mut bytes);
        if bytes.len() >= 4 && rng.between(0, 3) > 0 {
            let length = (bytes.len() - 4) as u32;
            bytes[..4].copy_from_slice(&length.to_be_bytes());
        }
        let split = rng.between(1, bytes.len().max(1) as u64) as usize;
        'input: for chunk in bytes.chunks(split) {
            frames.push(chunk).unwrap();
            loop {
                match frames.pop() {
                    Ok(Some(_)) => good += 1,
                    Ok(None) => break,
                    Err(_) => {
                        bad += 1;
                        break 'input;
                    }
                }
            }
            assert!(frames.rest().len() <= 4_100, "more is kept than a message may have");
        }
    }
    assert!(good > inputs() / 100 && bad > inputs() / 10, "{good} {bad}");
    assert!(Frames::new(usize::MAX).pop().is_ok() && MAX_MESSAGE == 1 << 20);
}

fn params(rng: &mut Rng) -> Arc<Params> {
    let pick = |rng: &mut Rng, n: u64| rng.between(0, n - 1) as usize;
    let pattern = [Pattern::Push, Pattern::Pull, Pattern::Duplex, Pattern::PushPull { push: 50, pull: 30 }]
        [pick(rng, 4)];
    let payload = [Payload::Pattern, Payload::Random, Payload::Zeros][pick(rng, 3)];
    let verify = [Verify::Data, Verify::Connection, Verify::None][pick(rng, 3)];
    Arc::new(Params::of(&Phase { payload, verify, ..phase(pattern, 300) }, Group(1)))
}

/// What a peer might send: payload and marks that fit, more or less.
fn talk(rng: &mut Rng, params: &Params, from_client: bool, transfer: u64) -> Vec<u8> {
    let (up, down) = params.pattern.split(transfer);
    let (mine, theirs) = if from_client { (up, down) } else { (down, up) };
    let mut out = Vec::new();
    let mut arena = Arena::new(1 << 12);
    let source = common::payload::Source::new(params.payload, ID.as_u128(), from_client);
    let honest = rng.between(0, 3) > 0;
    let mut sent = 0;
    for _ in 0..6 {
        let mut next = mark(rng, mine.max(theirs));
        if honest {
            let left = mine - sent;
            next = match (sent, left) {
                _ if left > 0 => Mark::new(MarkKind::Span, rng.between(1, left)),
                _ if mine > 0 && rng.next() & 1 == 0 => Mark::new(MarkKind::End, mine),
                _ => Mark::new([MarkKind::Verdict, MarkKind::Done][rng.between(0, 1) as usize], theirs),
            };
        }
        out.extend(next.encode(ID));
        if next.kind == MarkKind::Span {
            let n = next.value.min(600);
            let mut burst = Transmit::new(&mut arena, 600);
            source.offer(sent, n as usize, &mut burst);
            out.extend(burst.slices().flatten());
            sent = (sent + n).min(mine);
        }
    }
    out
}

#[test]
fn data_connections() {
    let (mut bench, mut rng) = (Bench::new(5), Rng::new(6));
    let mut content = 0;
    for _ in 0..inputs() {
        let params = params(&mut rng);
        let transfer = rng.between(1, 300);
        let is_client = rng.next() & 1 == 0;
        let mut flow = if is_client {
            Data::client(Arc::clone(&params), &opener(), ID, 0, transfer, false)
        } else {
            Data::server(Arc::clone(&params), &Preamble { id: ID, transfer, ..Preamble::new(Purpose::Data) })
        };
        let mut bytes = talk(&mut rng, &params, !is_client, transfer);
        if rng.next() & 1 == 0 {
            mutate(&mut rng, &mut bytes);
        }
        let (fed, counts) = bench.run(&mut flow, &bytes, last_news(&mut rng));
        content += u32::from(fed);
        assert!(counts.rx_bytes <= transfer && counts.tx_bytes <= transfer);
    }
    assert!(content > inputs() / 20 && content < inputs() / 20 * 19, "{content}");
}

#[test]
fn greeters() {
    let (mut bench, mut rng, path) = (Bench::new(7), Rng::new(8), Bench::path());
    let grants = Arc::new(Grants::new(Foreigners::default(), None));
    let phase = phase(Pattern::Duplex, 300);
    let params = Arc::new(Params::of(&phase, Group(1)));
    let grant = Arc::new(Grant::new(key(), params, 0..2));
    grants.insert(SESSION, grant);
    let mut listener = Listener::new(Arc::clone(&grants), Arc::default(), 0);
    let seeds: [&[u8]; 3] = [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"hello?\r\n", &[0x16, 3, 1, 2, 0, 1, 0]];
    let openings = opener();
    let mut pending = 0;
    for _ in 0..inputs() {
        let mut bytes = if rng.between(0, 3) == 0 {
            seeds[rng.between(0, 2) as usize].to_vec()
        } else {
            let preamble = match rng.between(0, 1) {
                0 => preamble(&mut rng).encode(),
                _ => openings.preamble(rng.uuid(), rng.next() as u32, rng.between(0, 300)),
            };
            let id = Preamble::decode(&preamble).unwrap().id;
            [&preamble[..], &mark(&mut rng, 300).encode(id)].concat()
        };
        if rng.between(0, 2) > 0 {
            mutate(&mut rng, &mut bytes);
        }
        let mut flow = listener.accept(&mut bench.cx(), &path).expect("no place is lost");
        let what = match rng.between(0, 3) {
            0 => FlowEvent::Up(path),
            _ => last_news(&mut rng),
        };
        bench.feed(&mut *flow, &bytes, what);
        pending += bench.outbox.len();
        bench.outbox.clear();
    }
    let replaced = bench.replaced;
    assert!(replaced > inputs() / 100 && pending > inputs() as usize / 10, "{replaced} {pending}");
    // Every place was given back: a connection is admitted as if nothing had been.
    let params = Arc::new(Params::of(&phase, Group(1)));
    let last = Box::new(Data::client(params, &openings, ID, 0, 300, false));
    let mut pair = sim::Pair::accepted(last, &mut Listener::new(grants, Arc::default(), 0));
    pair.run();
    assert!(pair.ends[0].completed(), "{:?}", pair.ends[0].ended);
    assert_ne!(ID, Uuid::nil());
}
