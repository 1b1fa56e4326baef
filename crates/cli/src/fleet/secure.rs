//! The connection between a controller and an agent that listens: the handshake of our own control
//! connection, with a shared key.
//!
//! ```text
//! controller ── [name of the key] noise {e} in hexadecimal, a line ──▶ agent
//! controller ◀── noise {e, ee, psk} in hexadecimal, a line ────────── agent
//! records, both ways
//! ```

use common::keys::{Named, ORDERS};
use common::{Keyring, Psk, Rights};
use fleet::agent::{Ceilings, Holder};
use fleet::transport::direct::{Sealed, Secure};
use native::secure::{Proof, Records, Shake};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// What both ends mix into their keys: no message of another conversation fits.
const PROLOGUE: &[u8] = b"netcaliper fleet 1";
/// Longest line of a handshake, bytes.
const LONGEST: usize = 256;
/// How long it may take.
const OPENING: Duration = Duration::from_secs(5);

/// The shared keys of this end: a controller has the first, an agent knows each by its name, which
/// may be let give no orders (`verbs=`).
pub(crate) struct Keyed(pub(crate) Keyring);

struct Open(Records);

impl Sealed for Open {
    fn seal(&mut self, plain: &[u8]) -> Option<Vec<u8>> {
        self.0.seal(plain)
    }

    fn open(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.0.open(bytes)
    }
}

impl Secure for Keyed {
    fn client(&self, stream: &mut TcpStream) -> Result<Box<dyn Sealed>, String> {
        let unproved = || "the agent has another key, or none, or takes no orders with this one".to_owned();
        let own = self.0.shared.first().ok_or("there is no key to prove")?;
        let mut shake = shake(Shake::client, own.key.handshake_key(), &own.name)?;
        let before = if own.name.is_empty() { String::new() } else { format!("{} ", own.name) };
        say(stream, &before, &mut shake)?;
        let line = read_line(stream).map_err(|_| unproved())?;
        shake.read_message(&line).ok_or_else(unproved)?;
        records(shake)
    }

    fn server(&self, stream: &mut TcpStream) -> Result<(Box<dyn Sealed>, Holder), String> {
        let line = read_line(stream)?;
        let (name, message) = line.split_once(' ').unwrap_or(("", &line));
        // A key that is not known, or gives no orders, is answered like one that the other end does
        // not know: names cannot be tried.
        let unknown = drawn()?;
        let known = self.0.named(name).filter(|key| key.rights.permits(ORDERS));
        let mut shake =
            shake(Shake::server, known.map_or(&unknown, |known| known.key.handshake_key()), name)?;
        shake.read_message(message).ok_or("that is no handshake")?;
        say(stream, "", &mut shake)?;
        Ok((records(shake)?, known.map(holder).unwrap_or_default()))
    }
}

/// The name of a key, and what its rights bound.
fn holder(key: &Named<Psk>) -> Holder {
    let Rights { rate, time_ns, verbs, exclusive, .. } = key.rights.clone();
    let time_ns = time_ns.unwrap_or(u64::MAX);
    Holder {
        name: key.name.clone(),
        rights: Ceilings { rate, time_ns, verbs, exclusive, ..Ceilings::none() },
    }
}

fn drawn() -> Result<[u8; 32], String> {
    let mut drawn = [0; 32];
    match runtime::random(&mut drawn) {
        true => Ok(drawn),
        false => Err("this system has no randomness for a handshake".to_owned()),
    }
}

fn shake(
    end: fn(Proof<'_>, &[u8], [u8; 32]) -> Option<Shake>,
    key: &[u8; 32],
    name: &str,
) -> Result<Shake, String> {
    let prologue = [PROLOGUE, name.as_bytes()].concat();
    end(Proof::Shared(key), &prologue, drawn()?).ok_or_else(|| "no handshake can be made".to_owned())
}

fn records(shake: Shake) -> Result<Box<dyn Sealed>, String> {
    let records = shake.records().ok_or("the handshake is not over")?;
    Ok(Box::new(Open(records)))
}

fn say(stream: &mut TcpStream, before: &str, shake: &mut Shake) -> Result<(), String> {
    let message = shake.say().ok_or("the handshake failed")?;
    writeln!(stream, "{before}{message}").map_err(|e| e.to_string())
}

/// A line, which must arrive whole within [`OPENING`]; nothing behind the line is read.
fn read_line(stream: &mut TcpStream) -> Result<String, String> {
    let began = Instant::now();
    let (mut line, mut byte) = (Vec::new(), [0]);
    while line.len() < LONGEST
        && let Some(left) = OPENING.checked_sub(began.elapsed()).filter(|left| !left.is_zero())
    {
        stream.set_read_timeout(Some(left)).map_err(|e| e.to_string())?;
        stream.read_exact(&mut byte).map_err(|e| e.to_string())?;
        if byte == [b'\n'] {
            return String::from_utf8(line).map_err(|e| e.to_string());
        }
        line.extend(byte);
    }
    Err("the handshake is longer than one is".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A key of this name, for these verbs.
    fn key(name: &str, key: &str, verbs: Option<Vec<&'static str>>) -> Named<Psk> {
        let rights = Rights { verbs, ..Rights::default() };
        Named { name: name.to_owned(), key: Psk::new(key.as_bytes()).unwrap(), rights }
    }

    fn pair(ours: Vec<Named<Psk>>, theirs: Vec<Named<Psk>>) -> [Result<Box<dyn Sealed>, String>; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let [ours, theirs] = [ours, theirs].map(|shared| Keyed(Keyring { shared, ..Keyring::default() }));
        std::thread::scope(|scope| {
            let served = scope.spawn(move || theirs.server(&mut server));
            [ours.client(&mut client), served.join().unwrap().map(|(sealed, _)| sealed)]
        })
    }

    #[test]
    fn ends_with_one_key_understand_each_other_and_others_do_not() {
        let [one, two] = [
            "netcaliper-psk-1:".to_owned() + &"5b".repeat(32),
            "netcaliper-psk-1:".to_owned() + &"5c".repeat(32),
        ];
        let of = |text: &str| vec![key("", text, None)];
        let [mut client, mut server] = pair(of(&one), of(&one)).map(Result::unwrap);
        let sealed = client.seal(b"orders").unwrap();
        assert_eq!(server.open(&sealed).as_deref(), Some(&b"orders"[..]));
        let mut changed = server.seal(b"reports").unwrap();
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(client.open(&changed), None);
        let [client, _] = pair(of(&one), of(&two));
        assert!(client.err().unwrap().contains("another key"));
    }

    #[test]
    fn a_key_of_several_gives_orders_where_its_rights_say_so() {
        let keys = |own: u8| format!("netcaliper-psk-1:{}", format!("{own:02x}").repeat(32));
        let theirs = || {
            vec![
                key("alice", &keys(1), None),
                key("bob", &keys(2), Some(vec!["ping", "fleet"])),
                key("carol", &keys(3), Some(vec!["ping"])),
            ]
        };
        for (name, own, may) in [
            ("alice", 1, true),
            ("bob", 2, true),
            ("carol", 3, false),
            ("alice", 2, false),
            ("eve", 4, false),
        ] {
            let [client, _] = pair(vec![key(name, &keys(own), None)], theirs());
            assert_eq!(client.is_ok(), may, "{name}");
        }
    }
}
