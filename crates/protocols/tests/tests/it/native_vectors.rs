//! Test vectors of noiseprotocol 0.3.1 (PyPI, on cryptography 48.0) and of Python's hmac, computed
//! once by hand: the handshakes with a shared key and with pairs, their first records, and the
//! seals of openings. All keys are consecutive bytes.

use common::auth::{hex, unhex};
use native::secure::{Proof, Shake, prologue, public_key};
use native::udp::{Kind, Word};
use native::{Opener, OpeningKey, Preamble, Purpose};
use uuid::Uuid;

/// The bytes from `first` on.
fn bytes<const N: usize>(first: u8) -> [u8; N] {
    std::array::from_fn(|at| first + at as u8)
}

/// A handshake under the name "lab": its messages, its hash, and the records of `netcaliper`,
/// `repilacten` (from the server), `again`.
struct Vector {
    messages: &'static [&'static str],
    hash: &'static str,
    records: [&'static str; 3],
}

fn holds(vector: &Vector, mut client: Shake, mut server: Shake) -> Vec<u8> {
    for (n, want) in vector.messages.iter().enumerate() {
        let (from, to) = if n % 2 == 0 { (&mut client, &mut server) } else { (&mut server, &mut client) };
        assert_eq!(from.say().as_deref(), Some(*want), "message {n}");
        assert!(to.read_message(want).is_some(), "message {n}");
    }
    assert!(client.is_over() && server.is_over());
    assert_eq!((hex(client.hash()).as_str(), hex(server.hash()).as_str()), (vector.hash, vector.hash));
    let hash = client.hash().to_vec();
    let (mut client, mut server) = (client.records().unwrap(), server.records().unwrap());
    let plain: [&[u8]; 3] = [b"netcaliper", b"repilacten", b"again"];
    for (n, (plain, want)) in plain.into_iter().zip(vector.records).enumerate() {
        let (from, to) = if n == 1 { (&mut server, &mut client) } else { (&mut client, &mut server) };
        let sealed = from.seal(plain).unwrap();
        assert_eq!((&sealed[..2], hex(&sealed[2..]).as_str()), (&[0, want.len() as u8 / 2][..], want));
        assert_eq!(to.open(&sealed).unwrap(), plain);
    }
    hash
}

#[test]
fn the_handshake_with_a_shared_key_and_the_seals_are_those_of_other_libraries() {
    let vector = Vector {
        messages: &[
            "358072d6365880d1aeea329adf9121383851ed21a28e3b75e965d0d2cd16625479052c7fd1fe59c7a7cb86906483f448",
            "79a631eede1bf9c98f12032cdeadd0e7a079398fc786b88cc846ec89af85a51af29498166f3691880d361b81e9b3e285",
        ],
        hash: "b1b4e922bf13c4453477477df32ca552e2761cacf0c1aba80e453c8090a24f79",
        records: [
            "34e1b58b5cc464b4cf911de6db2a8f6013005f051ea36fedc836",
            "fa931a793e5af0ff43b7070c7192216bf335acaaae2ccf76f439",
            "0bf73db84ea5b259ffdf3bbdaa9033cf5a65c45224",
        ],
    };
    let psk = bytes(0);
    let client = Shake::client(Proof::Shared(&psk), &prologue("lab"), bytes(0x20)).unwrap();
    let server = Shake::server(Proof::Shared(&psk), &prologue("lab"), bytes(0x40)).unwrap();
    let hash = holds(&vector, client, server);

    let id = Uuid::from_bytes(bytes(0xb0));
    let preamble =
        Preamble { slot: 2, session: 5, number: 9, id, transfer: 1_000, ..Preamble::new(Purpose::Data) };
    let word = Word { slot: 2, cookie: bytes(0xc0), ..Word::new(Kind::Open, id) };
    for (hash, of_preamble, of_word) in [
        (&hash[..], "75ccd526e3f3ee72c90544e18df041ae", "0e122342409b481f1b9c8761372fd901"),
        (&[], "9fef814154d8931d7f45a455b11e799d", "42fddcd1ada40bdc37d5cf605dcafd77"),
    ] {
        let key = OpeningKey::new(&bytes(0xa0), hash);
        let opener = Opener::new(5, key);
        (0..9).for_each(|_| _ = opener.number());
        let sealed = Preamble::decode(&opener.preamble(id, 2, 1_000)).unwrap();
        assert_eq!(sealed, Preamble { seal: unhex(of_preamble).unwrap(), ..preamble });
        assert_eq!(hex(&opener.word(9, word).seal), of_word);
    }
}

#[test]
fn the_handshake_with_pairs_is_that_of_another_library() {
    let vector = Vector {
        messages: &[
            "358072d6365880d1aeea329adf9121383851ed21a28e3b75e965d0d2cd166254",
            "79a631eede1bf9c98f12032cdeadd0e7a079398fc786b88cc846ec89af85a51a78b6a1619422636d799690c379e27ffc\
             013112f90f3361b7beec64122f40020f9b670e5b5e6243c522d1fab8a75d8fb63cf328ba02848936e7db7dfbb07a84a9",
            "83c3fbe16a793cf0fec2e0662191dafdebcd1e71e278a35ac13523173518c90a0b0dd2017a7a003e5288f4aac379a604\
             5cdf4220342e0fae0cae9bd99a61e773",
        ],
        hash: "2449aa9080d3e1ba9df86c0a0674dc1db296c6fe70544aaa70eb2861c6f54579",
        records: [
            "d7f29db7929b2bef6537ecfc8956cef2cc8ab05090dd96514a27",
            "7acbd7888f9bb5a155c874adb19221d1f3fa36dc76660c7624b0",
            "7435eae884d4ed50a9175de394d8a0af307f4c8327",
        ],
    };
    let (own, theirs) = (bytes(0x60), bytes(0x80));
    let client = Shake::client(Proof::Own(&own), &prologue("lab"), bytes(0x20)).unwrap();
    let server = Shake::server(Proof::Own(&theirs), &prologue("lab"), bytes(0x40)).unwrap();
    holds(&vector, client, server);
    let public = "675dd574ed7789310b3d2e7681f3790b466c773b1521fecf36577958371ea52f";
    assert_eq!(public_key(&own).map(|key| hex(&key)).as_deref(), Some(public));
}
