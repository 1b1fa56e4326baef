//! Handshakes with keys: what a client without any of them says to a server, and what a server
//! without any says to a client. Of each part of the input the first byte says what it is, the
//! second how long.
#![no_main]

use common::auth::{DRAWN, hex};
use common::keys::{Named, PrivateKey};
use common::{Keyring, Psk, Rights, ServerConfig};
use libfuzzer_sys::fuzz_target;
use metrics::Mono;
use native::secure::{PAIRS, Proof, SHARED, Shake, prologue};
use native::{Frames, MAX_MESSAGE, Message, Server, ServerPlan, encode};
use sim::{Quirks, Side};
use transport::{Action, Input, Link, Path, Session};

const START: Mono = Mono(1_000_000_000);

fn keys() -> Keyring {
    let drawn = format!("{DRAWN}{}", hex(&[7; 32]));
    let key = Psk::new(drawn.as_bytes()).expect("a drawn key");
    let named = |key| Named { name: "a".to_owned(), key, rights: Rights::default() };
    Keyring {
        shared: vec![named(key)],
        own: Some(PrivateKey([3; 32])),
        peers: vec![Named { name: "b".to_owned(), key: [5; 32], rights: Rights::default() }],
    }
}

fn server() -> Server {
    let plan = ServerPlan {
        config: ServerConfig { keys: keys(), ..ServerConfig::new(&native::PROTOCOL) },
        host: model::HostSnapshot::default(),
        workers: 1,
        secret: [1; 32],
        clock_id: String::new(),
        process_ports: Vec::new(),
    };
    Server::new(plan, START)
}

/// The parts of the input.
fn parts(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (&[kind, length], rest) = bytes.split_first_chunk::<2>()?;
        let (part, rest) = rest.split_at(rest.len().min(length.into()));
        bytes = rest;
        Some((kind, part))
    })
}

fuzz_target!(|bytes: &[u8]| {
    let mut server = server();
    let mut side = Side::new(1, Quirks::default());
    let path = Path { peer: ([10, 0, 0, 1], 1).into(), local: ([10, 0, 0, 2], 2).into() };
    let link = Link(1);
    server.handle(&mut side.cx(START), Input::Up(link, path, None));
    for (kind, part) in parts(bytes) {
        let protocol = [SHARED, PAIRS, ""][usize::from(kind / 4) % 3].to_owned();
        let key = ["", "a", "b"][usize::from(kind / 16) % 3].to_owned();
        let said = match kind % 4 {
            0 => encode(&Message::Noise { protocol, key, data: hex(part) }),
            _ => part.to_vec(),
        };
        server.handle(&mut side.cx(START), Input::Bytes(link, &said));
    }
    let mut said = Vec::new();
    while let Some(action) = server.poll(&mut side.cx(START)) {
        if let Action::Send(_, bytes) = action {
            said.extend(bytes);
        }
    }
    // Encrypted is at most the sentence that a public key is not known.
    let mut frames = Frames::new(MAX_MESSAGE);
    if frames.push(&said).is_ok() {
        while let Ok(Some(message)) = frames.pop() {
            let harmless = matches!(message, Message::Noise { .. } | Message::Refused { .. } | Message::Unknown);
            assert!(harmless, "{message:?}");
        }
    }

    for (proof, key) in [(Proof::Shared(&[7; 32]), "a"), (Proof::Own(&[4; 32]), "")] {
        let Some(mut shake) = Shake::client(proof, &prologue(key), [9; 32]) else { continue };
        shake.say();
        let mut proved = false;
        for (_, part) in parts(bytes) {
            proved |= shake.read_message(&hex(part)).is_some();
        }
        // With a pair, anybody can be at the other end: who it is, is asked afterwards. But it has
        // to know what it says.
        assert!(!proved || shake.peer().is_some(), "nobody has proved to know the shared key");
    }

    let shaken = || {
        let mut client = Shake::client(Proof::Shared(&[7; 32]), b"", [1; 32])?;
        let mut server = Shake::server(Proof::Shared(&[7; 32]), b"", [2; 32])?;
        server.read_message(&client.say()?)?;
        client.read_message(&server.say()?)?;
        client.records()
    };
    if let Some(mut records) = shaken() {
        assert!(records.open(bytes).is_some_and(|plain| plain.is_empty()) || bytes.len() >= 2);
    }
});
