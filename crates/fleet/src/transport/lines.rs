//! A connection to each host's agent, made by the controller: lines in both directions, and another
//! try when it is lost.

use super::{Arrival, Transport, arrived};
use crate::inventory::HostId;
use crate::message::{self, MAX_REPORT, Of, Order, bounded};
use crate::result::Reason;
use crate::threads::{lock, spawn};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Most hosts that are being dialled at a time: ssh servers and jump hosts take few unauthenticated
/// connections.
const MAX_DIALLING: usize = 10;
/// Most orders that wait for a host.
const MAX_WAITING: usize = 256;
/// Most reports that wait for the controller: with more, agents wait.
const MAX_UNREAD: usize = 256;
/// Pauses between tries to reach a host, seconds; after the last one no more.
const PAUSES: [u64; 6] = [1, 1, 2, 4, 8, 8];
/// Limit for agents to end after the farewell.
const FAREWELL: Duration = Duration::from_secs(3);
/// Time between two looks at whether a pause is to end early.
const LOOK: Duration = Duration::from_millis(20);

/// A host as the user knows it.
#[derive(Clone, Debug)]
pub struct Named {
    /// Its name in the inventory.
    pub name: String,
    /// Its address.
    pub address: String,
}

/// Lines from and to an agent.
pub struct Connection {
    /// Output of the agent.
    pub reader: Box<dyn Read + Send>,
    /// Input of the agent, which sees the end of it when this is dropped.
    pub writer: Box<dyn Write + Send>,
    /// Ends it at once.
    pub end: Box<dyn Fn() + Send + Sync>,
    /// Called once it has ended: how.
    pub ended: Box<dyn FnOnce() -> String + Send>,
}

/// Why there is no connection.
#[derive(Clone, Debug)]
pub struct Undialled {
    /// In a sentence.
    pub why: String,
    /// True if another try may succeed.
    pub may_retry: bool,
}

/// Makes connections to agents.
pub trait Dial: Send + Sync + 'static {
    /// A connection to an agent of this host.
    ///
    /// # Errors
    /// When there is none.
    fn dial(&self, host: &Named) -> Result<Connection, Undialled>;
}

/// State that the threads of all hosts share.
struct DialState {
    dial: Box<dyn Dial>,
    is_over: AtomicBool,
    /// Hosts that are being dialled.
    dialling: Mutex<usize>,
    dialled: Condvar,
}

impl DialState {
    /// Waits until few hosts are being dialled, and counts one more until the turn is dropped.
    fn turn(&self) -> Turn<'_> {
        let mut dialling = lock(&self.dialling);
        while *dialling >= MAX_DIALLING {
            dialling = self.dialled.wait(dialling).unwrap_or_else(PoisonError::into_inner);
        }
        *dialling += 1;
        Turn(self)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }
}

struct Turn<'a>(&'a DialState);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *lock(&self.0.dialling) -= 1;
        self.0.dialled.notify_one();
    }
}

/// State that the thread of a host shares with the transport.
#[derive(Default)]
struct Link {
    orders: Option<SyncSender<String>>,
    end: Option<Box<dyn Fn() + Send + Sync>>,
}

impl Link {
    fn end(&self) {
        if let Some(end) = &self.end {
            end();
        }
    }
}

/// Agents over connections of their own.
pub struct Lines {
    links: BTreeMap<HostId, Arc<Mutex<Link>>>,
    threads: Vec<JoinHandle<()>>,
    arrivals: Receiver<(HostId, Arrival)>,
    shared: Arc<DialState>,
}

impl Lines {
    /// Begins to connect to each of these hosts.
    ///
    /// # Errors
    /// One sentence, when no thread can be made.
    pub fn start(dial: impl Dial, hosts: Vec<(HostId, Named)>) -> Result<Lines, String> {
        let (arrived, arrivals) = sync_channel(MAX_UNREAD);
        let (is_over, dialling, dialled) = (AtomicBool::new(false), Mutex::new(0), Condvar::new());
        let shared = Arc::new(DialState { dial: Box::new(dial), is_over, dialling, dialled });
        let mut lines = Lines { links: BTreeMap::new(), threads: Vec::new(), arrivals, shared };
        for (id, named) in hosts {
            let link = Arc::clone(lines.links.entry(id).or_default());
            let host = Host { id, named, link, arrived: arrived.clone(), shared: Arc::clone(&lines.shared) };
            let thread = spawn("host", move || host.reach());
            lines.threads.push(thread.map_err(|e| format!("cannot start a thread for a host: {e}"))?);
        }
        Ok(lines)
    }
}

impl Transport for Lines {
    fn send(&mut self, host: HostId, order: &Of<Order>) {
        let Some(mut link) = self.links.get(&host).map(|link| lock(link)) else { return };
        let Some(orders) = &link.orders else { return };
        if !order.line().is_ok_and(|line| orders.try_send(line).is_ok()) {
            // The agent reads no more: its thread finds the end of the connection.
            link.orders = None;
            link.end();
        }
    }

    fn receive(&mut self, wait: Duration) -> Vec<(HostId, Arrival)> {
        arrived(&self.arrivals, wait)
    }

    fn close(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        self.links.values().for_each(|link| lock(link).orders = None);
        let clock = io::Clock::new();
        let until = clock.now().plus(u64::try_from(FAREWELL.as_nanos()).unwrap_or(u64::MAX));
        while clock.now() < until && self.threads.iter().any(|thread| !thread.is_finished()) {
            // A thread whose report has no room does not end.
            self.arrivals.try_iter().for_each(drop);
            thread::sleep(LOOK);
        }
        self.links.values().for_each(|link| lock(link).end());
        for thread in self.threads.drain(..).filter(JoinHandle::is_finished) {
            let _ = thread.join();
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.close();
    }
}

/// The thread of a host.
struct Host {
    id: HostId,
    named: Named,
    link: Arc<Mutex<Link>>,
    arrived: SyncSender<(HostId, Arrival)>,
    shared: Arc<DialState>,
}

impl Host {
    /// Reaches the host again and again, until the run is over or there is no hope.
    fn reach(self) {
        let mut tries = 0;
        while !self.shared.is_over() {
            let (reason, Undialled { why, may_retry }) = self.connect();
            if reason == Reason::AgentLost {
                tries = 0;
            }
            let pause = PAUSES.get(tries).filter(|_| may_retry);
            tries += 1;
            let arrival = Arrival::Lost { reason, why: bounded(&why), retries: pause.is_some() };
            if self.arrived.send((self.id, arrival)).is_err() {
                return;
            }
            let Some(seconds) = pause else { return };
            for _ in 0..Duration::from_secs(*seconds).as_millis() / LOOK.as_millis() {
                if self.shared.is_over() {
                    return;
                }
                thread::sleep(LOOK);
            }
        }
    }

    /// One connection, from its start to its end: how it ended. An agent that had answered is lost.
    fn connect(&self) -> (Reason, Undialled) {
        let turn = self.shared.turn();
        if self.shared.is_over() {
            return (Reason::HostAbsent, Undialled { why: String::new(), may_retry: false });
        }
        match self.shared.dial.dial(&self.named) {
            Ok(connection) => {
                let (reason, why) = self.talk(connection, turn);
                (reason, Undialled { why, may_retry: true })
            }
            Err(undialled) => (Reason::HostAbsent, undialled),
        }
    }

    /// Passes lines on in both directions until the connection ends.
    fn talk(&self, connection: Connection, turn: Turn<'_>) -> (Reason, String) {
        let Connection { reader, writer, end, ended } = connection;
        let (orders, waiting) = sync_channel::<String>(MAX_WAITING);
        *lock(&self.link) = Link { orders: Some(orders), end: Some(end) };
        let writing = spawn("orders", move || message::write_lines(&waiting, writer));
        let (mut turn, mut reason) = (Some(turn), Reason::HostAbsent);
        let read = message::read_all(reader, MAX_REPORT, |report| {
            (turn, reason) = (None, Reason::AgentLost);
            self.arrived.send((self.id, Arrival::Report(Box::new(report)))).is_ok()
        });
        drop(turn);
        lock(&self.link).orders = None;
        let garbage = read.err().filter(|e| e.kind() == ErrorKind::InvalidData);
        if garbage.is_some() {
            lock(&self.link).end();
        }
        let how = ended();
        let _ = writing.map(JoinHandle::join);
        lock(&self.link).end = None;
        let name = &self.named.name;
        match garbage {
            Some(why) => (Reason::BadResult, format!("the agent at {name} sent an invalid report: {why}")),
            None => (reason, format!("the agent at {name} {how}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Report;
    use std::io;
    use std::sync::atomic::AtomicUsize;

    /// An agent that says one line after the other, until it is told no more.
    #[derive(Clone, Default)]
    struct Talker(Arc<(AtomicUsize, AtomicBool)>);

    impl Read for Talker {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if self.0.1.load(Ordering::Acquire) {
                return Ok(0);
            }
            self.0.0.fetch_add(1, Ordering::AcqRel);
            let line = Of::new(uuid::Uuid::nil(), Report::Alive).line()? + "\n";
            into[..line.len()].copy_from_slice(line.as_bytes());
            Ok(line.len())
        }
    }

    struct Told(Talker);

    impl Write for Told {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Drop for Told {
        fn drop(&mut self) {
            self.0.0.1.store(true, Ordering::Release);
        }
    }

    impl Dial for Talker {
        fn dial(&self, _: &Named) -> Result<Connection, Undialled> {
            Ok(Connection {
                reader: Box::new(self.clone()),
                writer: Box::new(Told(self.clone())),
                end: Box::new(|| {}),
                ended: Box::new(|| "is gone".to_owned()),
            })
        }
    }

    #[test]
    fn an_agent_that_says_much_waits_until_it_is_heard() {
        let talker = Talker::default();
        let named = Named { name: "a".to_owned(), address: "a".to_owned() };
        let mut lines = Lines::start(talker.clone(), vec![(HostId(0), named)]).unwrap();
        let said = || talker.0.0.load(Ordering::Acquire);
        while said() < MAX_UNREAD {
            thread::sleep(LOOK);
        }
        thread::sleep(5 * LOOK);
        assert!(said() <= MAX_UNREAD + 1, "{}", said());
        assert!(lines.receive(LOOK).len() >= MAX_UNREAD);
        let began = std::time::Instant::now();
        lines.close();
        assert!(began.elapsed() < FAREWELL, "its thread does not wait for room any more");
    }
}
