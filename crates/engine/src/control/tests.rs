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
    let mut control =
        Control::new(System, Box::new(session), Setup::new(1, 4_096), &Interrupt::new(), |_| {}).unwrap();
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

/// Looks at its watch all the time, and ends when so many connections were told.
struct Clockwatcher {
    told: Arc<Mutex<Vec<bool>>>,
    all: usize,
    done: bool,
}

impl Session for Clockwatcher {
    fn handle(&mut self, _: &mut Context<'_>, input: Input<'_>) {
        if let Input::Wake = input {
            let mut told = self.told.lock().unwrap();
            told.push(false);
            self.done = told.iter().filter(|told| **told).count() == self.all;
        }
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Option<Action> {
        std::mem::take(&mut self.done).then_some(Action::Done)
    }

    fn deadline(&self) -> Option<Mono> {
        Some(Mono(0))
    }
}

/// What a worker process tells of a connection that has ended.
fn ended_report() -> Vec<u8> {
    let record = serde_json::json!({
        "id": "00000000-0000-0000-0000-000000000000", "local": null, "remote": "127.0.0.1:7", "ended_ns": 0,
        "tx_bytes": 0, "rx_bytes": 0, "connect_ns": null, "duration_ns": 0, "result": "completed", "error": null,
        "tcp": null
    });
    process::encode_finding(0, &Finding::Ended(vec![serde_json::from_value(record).unwrap()]))
}

#[test]
fn worker_processes_that_tell_much_do_not_keep_the_session_waiting() {
    const PROCESSES: usize = 40;
    const EACH: usize = 100;
    let body = ended_report();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = Target { to: listener.local_addr().unwrap(), from: None };
    let (mut processes, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..PROCESSES {
        processes.push(System.connect(&target, &SocketSettings::default()).unwrap().0);
        let mut stream = listener.accept().unwrap().0;
        stream.write_all(&body.repeat(EACH)).unwrap();
        theirs.push(stream);
    }
    let told = Arc::new(Mutex::new(Vec::new()));
    let session = Clockwatcher { told: Arc::clone(&told), all: PROCESSES * EACH, done: false };
    let sink = |event: Event| {
        if let Event::Connection(_) = event {
            told.lock().unwrap().push(true);
        }
    };
    let setup = Setup { processes, workers_of_process: 1, ..Setup::new(1, 4_096) };
    let mut control = Control::new(System, Box::new(session), setup, &Interrupt::new(), sink).unwrap();
    io::drive(&mut control);
    control.finish().unwrap();
    let told = told.lock().unwrap();
    let longest = told.split(|told| !told).map(<[bool]>::len).max().unwrap();
    assert!(
        longest <= SHARES * (SHARE / body.len() + 1),
        "{longest} connections without a look at the clock"
    );
}

/// Connects to a peer, and writes down whether that spoke before the deadline.
struct Listens {
    action: Option<Action>,
    deadline: Arc<Mutex<Option<Mono>>>,
    heard: Arc<Mutex<Vec<&'static str>>>,
}

impl Session for Listens {
    fn handle(&mut self, _: &mut Context<'_>, input: Input<'_>) {
        match input {
            Input::Bytes(..) => self.heard.lock().unwrap().push("the peer"),
            Input::Wake => {
                *self.deadline.lock().unwrap() = None;
                self.heard.lock().unwrap().push("the clock");
            }
            _ => return,
        }
        self.action = (self.heard.lock().unwrap().len() == 2).then_some(Action::Done);
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Option<Action> {
        self.action.take()
    }

    fn deadline(&self) -> Option<Mono> {
        *self.deadline.lock().unwrap()
    }
}

#[test]
fn a_peer_that_speaks_while_output_is_held_up_is_heard_before_the_deadline() {
    let [peer, process] = [0; 2].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let [to_peer, to_process] =
        [&peer, &process].map(|listener| Target { to: listener.local_addr().unwrap(), from: None });
    let processes = vec![System.connect(&to_process, &SocketSettings::default()).unwrap().0];
    let mut worker = process.accept().unwrap().0;
    worker.write_all(&ended_report()).unwrap();
    let (deadline, heard) = (Arc::default(), Arc::default());
    let session = Listens {
        action: Some(Action::Connect(0, to_peer)),
        deadline: Arc::clone(&deadline),
        heard: Arc::clone(&heard),
    };
    let mut peers = Vec::new();
    let sink = |event: Event| {
        if let Event::Connection(_) = event {
            let mut stream = peer.accept().unwrap().0;
            stream.write_all(b"hello").unwrap();
            peers.push(stream);
            *deadline.lock().unwrap() = Some(System.clock().now());
        }
    };
    let setup = Setup { processes, workers_of_process: 1, ..Setup::new(1, 4_096) };
    let mut control = Control::new(System, Box::new(session), setup, &Interrupt::new(), sink).unwrap();
    io::drive(&mut control);
    control.finish().unwrap();
    assert_eq!(*heard.lock().unwrap(), ["the peer", "the clock"]);
}
