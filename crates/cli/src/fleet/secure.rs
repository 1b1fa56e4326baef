//! The connection between a controller and an agent that listens: the handshake of our own control connection, with a shared key.
//!
//! ```text
//! controller ── noise {e} in hexadecimal, a line ──────────▶ agent
//! controller ◀── noise {e, ee, psk} in hexadecimal, a line ── agent
//! records, both ways
//! ```

use common::Psk;
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

/// Knowledge of a key.
pub(crate) struct Keyed(pub(crate) Psk);

struct Open(Records);

impl Sealed for Open {
    fn seal(&mut self, plain: &[u8]) -> Option<Vec<u8>> {
        self.0.seal(plain).ok()
    }

    fn open(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.0.open(bytes).ok()
    }
}

impl Secure for Keyed {
    fn client(&self, stream: &mut TcpStream) -> Result<Box<dyn Sealed>, String> {
        let unproved = || "the agent has another key, or none".to_owned();
        let mut shake = self.shake(Shake::client)?;
        say(stream, &mut shake)?;
        let line = hear(stream).map_err(|_| unproved())?;
        shake.hear(&line).ok_or_else(unproved)?;
        records(shake)
    }

    fn server(&self, stream: &mut TcpStream) -> Result<Box<dyn Sealed>, String> {
        let mut shake = self.shake(Shake::server)?;
        shake.hear(&hear(stream)?).ok_or("that is no handshake")?;
        say(stream, &mut shake)?;
        records(shake)
    }
}

impl Keyed {
    fn shake(&self, end: fn(Proof<'_>, &[u8], [u8; 32]) -> Option<Shake>) -> Result<Shake, String> {
        let mut drawn = [0; 32];
        if !runtime::random(&mut drawn) {
            return Err("this system has no randomness for a handshake".to_owned());
        }
        end(Proof::Shared(self.0.handshake_key()), PROLOGUE, drawn)
            .ok_or_else(|| "no handshake can be made".to_owned())
    }
}

fn records(shake: Shake) -> Result<Box<dyn Sealed>, String> {
    let records = shake.records().ok_or("the handshake is not over")?;
    Ok(Box::new(Open(records)))
}

fn say(stream: &mut TcpStream, shake: &mut Shake) -> Result<(), String> {
    let message = shake.say().ok_or("the handshake failed")?;
    writeln!(stream, "{message}").map_err(|e| e.to_string())
}

/// A line, which must have come within [`OPENING`]; nothing behind it is read.
fn hear(stream: &mut TcpStream) -> Result<String, String> {
    let began = Instant::now();
    let (mut line, mut byte) = (Vec::new(), [0]);
    while line.len() < LONGEST && began.elapsed() < OPENING {
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

    fn pair(ours: &str, theirs: &str) -> [Result<Box<dyn Sealed>, String>; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let [ours, theirs] = [ours, theirs].map(|key| Keyed(Psk::new(key.as_bytes()).unwrap()));
        std::thread::scope(|scope| {
            let served = scope.spawn(move || theirs.server(&mut server));
            [ours.client(&mut client), served.join().unwrap()]
        })
    }

    #[test]
    fn ends_with_one_key_understand_each_other_and_others_do_not() {
        let [one, two] = [
            "netcaliper-psk-1:".to_owned() + &"5b".repeat(32),
            "netcaliper-psk-1:".to_owned() + &"5c".repeat(32),
        ];
        let [mut client, mut server] = pair(&one, &one).map(Result::unwrap);
        let sealed = client.seal(b"orders").unwrap();
        assert_eq!(server.open(&sealed).as_deref(), Some(&b"orders"[..]));
        let mut changed = server.seal(b"reports").unwrap();
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(client.open(&changed), None);
        let [client, _] = pair(&one, &two);
        assert!(client.err().unwrap().contains("another key"));
    }
}
