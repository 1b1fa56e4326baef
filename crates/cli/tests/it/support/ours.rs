//! A server of ctsTraffic's that the engine runs, as the binary runs it, in a thread: what it told
//! can be asked of it.

use common::ServerConfig;
use model::{ConnectionRecord, Event, Phase, Status, Totals};
use runtime::{Bound, Interrupt};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

pub(crate) struct Ours {
    pub(crate) port: u16,
    pub(crate) interrupt: Interrupt,
    /// Connections that it has seen the end of.
    ended: Arc<AtomicUsize>,
    thread: JoinHandle<Vec<Event>>,
}

pub(crate) struct Story {
    pub(crate) records: Vec<ConnectionRecord>,
    pub(crate) local: Totals,
    pub(crate) status: Status,
}

/// A server at the loopback address that ends after so many connections.
pub(crate) fn server_of_ours(phase: Phase, exit_after: Option<u64>) -> Ours {
    server_of_ours_at(Ipv4Addr::LOCALHOST.into(), phase, exit_after)
}

pub(crate) fn server_of_ours_at(listen: IpAddr, phase: Phase, exit_after: Option<u64>) -> Ours {
    let config = ServerConfig {
        listen: vec![(listen, 0).into()],
        exit_after,
        records: true,
        workers: Some(2),
        ..ServerConfig::legacy(&ctstraffic::PROTOCOL, phase)
    };
    let bound = Bound::new(config).unwrap();
    let (port, interrupt) = (bound.addresses()[0].port(), Interrupt::new());
    let asked = interrupt.clone();
    let ended = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ended);
    let thread = std::thread::spawn(move || {
        let mut events = Vec::new();
        let mut hear = |event| {
            count.fetch_add(usize::from(matches!(event, Event::Connection(_))), Ordering::Release);
            events.push(event);
        };
        bound.run(&asked, &mut hear).unwrap();
        events
    });
    Ours { port, interrupt, ended, thread }
}

impl Ours {
    /// Interrupts it once it has seen the end of so many connections: a client may be gone before.
    #[track_caller]
    pub(crate) fn end_after(&self, connections: u64) {
        super::eventually("the server sees its connections end", || {
            self.ended.load(Ordering::Acquire) as u64 >= connections
        });
        self.interrupt.ask();
    }

    pub(crate) fn story(self) -> Story {
        let events = self.thread.join().unwrap();
        let (mut records, mut local, mut status) = (vec![], None, None);
        for event in events {
            match event {
                Event::Connection(record) => records.push(*record),
                Event::Local(totals) => local = Some(*totals),
                Event::PhaseEnd { status: how, .. } => status = Some(how),
                _ => {}
            }
        }
        Story { records, local: local.expect("totals"), status: status.expect("an end") }
    }
}
