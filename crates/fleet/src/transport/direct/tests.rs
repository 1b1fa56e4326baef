//! An agent's port beside peers that are silent, drip, or vanish; the handshake is pretended: a
//! line with the name of a key.

use super::*;
use crate::agent::tests::{Free, read};
use crate::agent::{Ceilings, programs::Programs};
use crate::message::{Report, VERSION, parse};
use crate::plan::Attempt;
use crate::spool::Spool;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::sync::mpsc::channel;
use uuid::Uuid;

struct Idle;

impl Programs for Idle {
    fn serve(&mut self, _: Uuid, _: &str, _: &Ceilings) {}
    fn end_server(&mut self, _: Uuid) {}
    fn start(&mut self, _: Uuid, _: Attempt, _: Vec<String>, _: Option<&str>) {}
    fn end(&mut self, _: Uuid, _: Attempt, _: bool) {}
}

/// Nothing is encrypted; the first line is the name of the key.
struct Plain;

impl Sealed for Plain {
    fn seal(&mut self, plain: &[u8]) -> Option<Vec<u8>> {
        Some(plain.to_vec())
    }
    fn open(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        Some(bytes.to_vec())
    }
}

impl Secure for Plain {
    fn client(&self, _: &mut TcpStream) -> Result<Box<dyn Sealed>, String> {
        Ok(Box::new(Plain))
    }

    fn server(&self, stream: &mut TcpStream) -> Result<(Box<dyn Sealed>, Holder), String> {
        let (mut name, mut byte) = (String::new(), [0]);
        while byte != [b'\n'] {
            stream.read_exact(&mut byte).map_err(|e| e.to_string())?;
            name.push(char::from(byte[0]));
        }
        Ok((Box::new(Plain), Holder { name: name.trim().to_owned(), ..Holder::default() }))
    }
}

const KEY: &str = "netcaliper-psk-1:5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c";

/// The address of an agent that listens until the test is over.
fn listening() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let folder = std::env::temp_dir().join(format!("nc-direct-{}", address.port()));
        let (spool, ceilings) = (Spool::open(folder), Ceilings::default());
        let (name, program) = ("host".to_owned(), "1.2.3".to_owned());
        let mut agent = Agent::new(name, program, ceilings, spool, Box::new(Free), Box::new(Idle), read);
        let _ = serve(&mut agent, &channel(), vec![listener], Plain);
    });
    address
}

/// A controller with a key of this name.
struct Boss {
    lines: BufReader<TcpStream>,
}

impl Boss {
    fn connect(address: SocketAddr, name: &str) -> Boss {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        writeln!(stream, "{name}").unwrap();
        Boss { lines: BufReader::new(stream) }
    }

    fn order(&mut self, run: u128, message: Order) {
        let line = Of::new(Uuid::from_u128(run), message).line().unwrap();
        // The agent may have closed the connection.
        let _ = writeln!(self.lines.get_mut(), "{line}");
    }

    fn greet(&mut self, run: u128) {
        let key = Some(KEY.to_owned());
        self.order(run, Order::Hello { version: VERSION, epoch: 1, key, now: Mono(1), patience_ns: SECOND });
    }

    /// The next report; `None` once the connection is over.
    fn hears(&mut self) -> Option<Report> {
        let mut line = String::new();
        let n = self.lines.read_line(&mut line).unwrap_or(0);
        (n > 0).then(|| parse::<Report>(line.trim().as_bytes()).unwrap().message)
    }

    /// Whether an agent works for it.
    fn is_in(&mut self, run: u128) -> bool {
        let hello = self.hears();
        self.greet(run);
        matches!(hello, Some(Report::Hello { .. })) && matches!(self.hears(), Some(Report::Ready { .. }))
    }
}

#[test]
fn a_controller_is_in_at_once_whatever_silent_and_dripping_peers_there_are() {
    let address = listening();
    let mut silent: Vec<TcpStream> =
        (0..2 * MAX_PENDING).map(|_| TcpStream::connect(address).unwrap()).collect();
    for (n, stream) in silent.iter_mut().enumerate() {
        // Nothing, a part of a handshake, all of it, and the beginning of an order.
        let said = [&b""[..], b"al", b"alice\n", b"alice\n{\"run\":"][n % 4];
        let _ = stream.write_all(said);
    }
    let began = std::time::Instant::now();
    for run in 1..4 {
        assert!(Boss::connect(address, "alice").is_in(run), "run {run}");
    }
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    // The oldest ones gave way, the others have their time.
    silent[0].set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert!(matches!(silent[0].read(&mut [0; 1]), Ok(0) | Err(_)));
}

#[test]
fn controllers_that_say_nothing_any_more_give_way_and_are_closed() {
    let address = listening();
    let mut gone: Vec<Boss> = (0..MAX_CONTROLLERS).map(|_| Boss::connect(address, "alice")).collect();
    for (boss, run) in gone.iter_mut().zip([1; MAX_CONTROLLERS]) {
        assert!(boss.is_in(run));
    }
    let mut late = Boss::connect(address, "bob");
    assert!(!late.is_in(2), "all of them have just spoken");
    let began = std::time::Instant::now();
    while !Boss::connect(address, "bob").is_in(2) {
        assert!(began.elapsed() < Duration::from_secs(6), "silent controllers keep their places");
        thread::sleep(Duration::from_millis(100));
    }
    // Three times the patience of a second, which they have asked for.
    for boss in &mut gone {
        while boss.hears().is_some() {}
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn reports_go_to_the_key_of_their_run() {
    let address = listening();
    let (mut alice, mut again, mut bob) =
        (Boss::connect(address, "alice"), Boss::connect(address, "alice"), Boss::connect(address, "bob"));
    assert!(alice.is_in(1) && bob.is_in(2));
    again.lines.get_ref().set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let own = [again.hears(), again.hears()];
    assert!(matches!(own, [Some(Report::Hello { .. }), None]), "it has given no order: {own:?}");
    alice.order(1, Order::Alive { now: Mono(0) });
    assert!(matches!(alice.hears(), Some(Report::Alive)));
    bob.order(1, Order::Bye);
    assert!(matches!(bob.hears(), Some(Report::Hello { .. })), "the run of another key is unknown");
    bob.order(2, Order::Alive { now: Mono(0) });
    assert!(matches!(bob.hears(), Some(Report::Alive)));
    alice.order(1, Order::Alive { now: Mono(0) });
    assert!(
        matches!(alice.hears(), Some(Report::Alive)),
        "its run goes on, and it hears nothing of the other"
    );
}
