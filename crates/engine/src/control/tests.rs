//! The control thread with real links over loopback, and a session that writes down what it is fed.

use super::*;
use io::System;
use std::io::Write;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use transport::Context;

/// Bytes that the busy peer sends.
const FLOOD: usize = 8 << 20;

/// What was fed, in order: the link's key, bytes.
type Fed = Arc<Mutex<Vec<(u64, usize)>>>;

/// Connects to both peers, and needs a while for each message, as an answer does.
struct Witness {
    actions: VecDeque<Action>,
    /// The links of the busy peer and of the quiet one.
    links: [Option<Link>; 2],
    fed: Fed,
    done: bool,
}

impl Session for Witness {
    fn handle(&mut self, _: &mut Context<'_>, input: Input<'_>) {
        match input {
            Input::Up(link, _, Some(key)) => self.links[key as usize] = Some(link),
            Input::Bytes(link, bytes) => {
                std::thread::sleep(Duration::from_micros(500));
                let from = u64::from(self.links[1] == Some(link));
                self.fed.lock().unwrap().push((from, bytes.len()));
            }
            Input::Down(link, _) if self.links[0] == Some(link) => self.done = true,
            _ => {}
        }
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Option<Action> {
        if std::mem::take(&mut self.done) {
            self.actions.push_back(Action::Done);
        }
        self.actions.pop_front()
    }

    fn deadline(&self) -> Option<Mono> {
        None
    }
}

fn setup() -> Setup<System> {
    Setup {
        workers: 1,
        sets: 1,
        cores: Vec::new(),
        shared_cores: Vec::new(),
        listeners: Vec::new(),
        datagrams: Vec::new(),
        inherited: SocketSettings::default(),
        buffer: 4_096,
        realtime: false,
        links: None,
        meter: None,
        processes: Vec::new(),
        workers_of_process: 0,
    }
}

#[test]
fn a_link_that_never_runs_dry_does_not_keep_the_others_waiting() {
    let peers = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let connect = |key: usize| {
        let to = peers[key].local_addr().unwrap();
        Action::Connect(key as u32, Target { to, from: None })
    };
    let actions = VecDeque::from([connect(0), connect(1)]);
    let fed = Fed::default();
    let session = Witness { actions, links: [None; 2], fed: Arc::clone(&fed), done: false };
    let writer = std::thread::spawn(move || {
        let [mut busy, mut quiet] = peers.map(|peer| peer.accept().unwrap().0);
        let chunk = vec![7; 64 << 10];
        for n in 0..FLOOD / chunk.len() {
            busy.write_all(&chunk).unwrap();
            // The control thread is in the middle of it by now.
            if n == 8 {
                quiet.write_all(b"hello").unwrap();
            }
        }
    });
    let mut control = Control::new(System, Box::new(session), setup(), &Interrupt::new(), |_| {}).unwrap();
    io::drive(&mut control);
    control.finish().unwrap();
    writer.join().unwrap();
    let fed = fed.lock().unwrap();
    let all: usize = fed.iter().filter(|(from, _)| *from == 0).map(|(_, n)| n).sum();
    assert_eq!(all, FLOOD, "nothing of the busy link is lost");
    let at = fed.iter().position(|(from, _)| *from == 1).expect("the quiet link was read");
    let before: usize = fed[..at].iter().map(|(_, n)| n).sum();
    assert!(before < FLOOD / 2, "the quiet link had to wait for {before} bytes of the busy one");
    assert!(fed.iter().all(|(_, n)| *n <= SHARE));
}
