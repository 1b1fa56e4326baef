//! A connection to each host's agent, made by the controller: lines in both directions, and another try when it is lost.

use super::{Arrival, Transport, arrived};
use crate::inventory::HostId;
use crate::message::{self, MAX_REPORT, Of, Order, bounded};
use crate::result::Reason;
use std::io::{BufReader, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Most hosts that are being dialled at a time: ssh servers and jump hosts take few unauthenticated connections.
const MAX_DIALLING: usize = 10;
/// Most orders that wait for a host.
const MAX_WAITING: usize = 256;
/// Most reports that wait for the controller: with more, agents wait.
const MAX_UNREAD: usize = 256;
/// Pauses between tries to reach a host, seconds; after the last one no more.
const PAUSES: [u64; 6] = [1, 1, 2, 4, 8, 8];
/// How long agents have to end after the farewell.
const FAREWELL: Duration = Duration::from_secs(3);
/// How often a pause is looked at, whether it is to end.
const LOOK: Duration = Duration::from_millis(20);
/// Stack of a thread that passes lines on, bytes.
const STACK: usize = 256 << 10;

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
    /// What the agent says.
    pub reader: Box<dyn Read + Send>,
    /// What it is told; the agent sees the end when this is dropped.
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
    /// Whether it can be of use to try again.
    pub may_retry: bool,
}

/// What makes connections.
pub trait Dial: Send + Sync + 'static {
    /// A connection to an agent of this host.
    ///
    /// # Errors
    /// When there is none.
    fn dial(&self, host: &Named) -> Result<Connection, Undialled>;
}

/// Limits how many threads do something at a time.
#[derive(Default)]
struct Turnstile {
    inside: Mutex<usize>,
    left: Condvar,
}

impl Turnstile {
    fn enter(self: &Arc<Self>) -> Inside {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        while *inside >= MAX_DIALLING {
            inside = self.left.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
        *inside += 1;
        Inside(Arc::clone(self))
    }
}

struct Inside(Arc<Turnstile>);

impl Drop for Inside {
    fn drop(&mut self) {
        *self.0.inside.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.left.notify_one();
    }
}

/// What the thread of a host shares with the transport.
#[derive(Default)]
struct Link {
    orders: Mutex<Option<SyncSender<String>>>,
    end: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
}

impl Link {
    fn set_orders(&self, orders: Option<SyncSender<String>>) {
        *self.orders.lock().unwrap_or_else(PoisonError::into_inner) = orders;
    }

    fn set_end(&self, end: Option<Box<dyn Fn() + Send + Sync>>) {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = end;
    }

    fn end(&self) {
        if let Some(end) = &*self.end.lock().unwrap_or_else(PoisonError::into_inner) {
            end();
        }
    }
}

/// Agents over connections of their own.
pub struct Lines {
    links: Vec<Option<Arc<Link>>>,
    threads: Vec<JoinHandle<()>>,
    arrivals: Receiver<(HostId, Arrival)>,
    is_over: Arc<AtomicBool>,
}

impl Lines {
    /// Begins to connect to each of these hosts.
    ///
    /// # Errors
    /// One sentence, when no thread can be made.
    pub fn start(dial: impl Dial, hosts: Vec<(HostId, Named)>) -> Result<Lines, String> {
        let (arrived, arrivals) = sync_channel(MAX_UNREAD);
        let dial: Arc<dyn Dial> = Arc::new(dial);
        let (is_over, turnstile) = (Arc::new(AtomicBool::new(false)), Arc::new(Turnstile::default()));
        let mut lines = Lines { links: Vec::new(), threads: Vec::new(), arrivals, is_over };
        for (id, named) in hosts {
            let link = Arc::new(Link::default());
            let host = Host {
                id,
                named,
                dial: Arc::clone(&dial),
                link: Arc::clone(&link),
                arrived: arrived.clone(),
                is_over: Arc::clone(&lines.is_over),
                turnstile: Arc::clone(&turnstile),
            };
            if lines.links.len() <= id.index() {
                lines.links.resize_with(id.index() + 1, || None);
            }
            lines.links[id.index()] = Some(link);
            let thread =
                thread::Builder::new().name("host".to_owned()).stack_size(STACK).spawn(move || host.reach());
            lines.threads.push(thread.map_err(|e| format!("cannot start a thread for a host: {e}"))?);
        }
        Ok(lines)
    }
}

impl Transport for Lines {
    fn send(&mut self, host: HostId, order: &Of<Order>) {
        let Some(link) = self.links.get(host.index()).and_then(Option::as_ref) else { return };
        let mut orders = link.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = orders.as_ref().map(|orders| order.line().is_ok_and(|line| orders.try_send(line).is_ok()));
        if sent == Some(false) {
            // It takes nothing any more: its thread finds the end of the connection.
            *orders = None;
            link.end();
        }
    }

    fn receive(&mut self, wait: Duration) -> Vec<(HostId, Arrival)> {
        arrived(&self.arrivals, wait)
    }

    fn close(&mut self) {
        self.is_over.store(true, Ordering::Release);
        self.links.iter().flatten().for_each(|link| link.set_orders(None));
        let clock = io::Clock::new();
        let until = clock.now().plus(u64::try_from(FAREWELL.as_nanos()).unwrap_or(u64::MAX));
        while clock.now() < until && self.threads.iter().any(|thread| !thread.is_finished()) {
            // A thread whose report has no room does not end.
            self.arrivals.try_iter().for_each(drop);
            thread::sleep(LOOK);
        }
        self.links.iter().flatten().for_each(|link| link.end());
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
    dial: Arc<dyn Dial>,
    link: Arc<Link>,
    arrived: SyncSender<(HostId, Arrival)>,
    is_over: Arc<AtomicBool>,
    turnstile: Arc<Turnstile>,
}

/// How a connection ended.
struct Lost {
    reason: Reason,
    why: String,
    /// Whether an agent had answered.
    had_answered: bool,
    /// Whether it can be of use to try again.
    may_retry: bool,
}

impl Host {
    /// Reaches the host again and again, until the run is over or there is no hope.
    fn reach(self) {
        let mut tries = 0;
        while !self.is_over.load(Ordering::Acquire) {
            let lost = self.connect();
            self.link.set_orders(None);
            if lost.had_answered {
                tries = 0;
            }
            let pause = PAUSES.get(tries).filter(|_| lost.may_retry);
            tries += 1;
            let arrival =
                Arrival::Lost { reason: lost.reason, why: bounded(&lost.why), retries: pause.is_some() };
            if self.arrived.send((self.id, arrival)).is_err() {
                return;
            }
            let Some(seconds) = pause else { return };
            for _ in 0..Duration::from_secs(*seconds).as_millis() / LOOK.as_millis() {
                if self.is_over.load(Ordering::Acquire) {
                    return;
                }
                thread::sleep(LOOK);
            }
        }
    }

    /// One connection, from its start to its end.
    fn connect(&self) -> Lost {
        let inside = self.turnstile.enter();
        if self.is_over.load(Ordering::Acquire) {
            return Lost {
                reason: Reason::HostAbsent,
                why: String::new(),
                had_answered: false,
                may_retry: false,
            };
        }
        match self.dial.dial(&self.named) {
            Ok(connection) => self.talk(connection, inside),
            Err(Undialled { why, may_retry }) => {
                Lost { reason: Reason::HostAbsent, why, had_answered: false, may_retry }
            }
        }
    }

    /// Passes lines on in both directions until the connection ends.
    fn talk(&self, connection: Connection, inside: Inside) -> Lost {
        let Connection { reader, writer, end, ended } = connection;
        let (orders, waiting) = sync_channel::<String>(MAX_WAITING);
        self.link.set_end(Some(end));
        self.link.set_orders(Some(orders));
        let writing = thread::Builder::new().name("orders".to_owned()).stack_size(STACK);
        let writing = writing.spawn(move || message::write_lines(&waiting, writer));
        let mut inside = Some(inside);
        let (mut garbage, mut had_answered) = (None, false);
        let mut lines = BufReader::new(reader);
        let mut line = Vec::new();
        loop {
            let report = match message::read_line(&mut lines, MAX_REPORT, &mut line) {
                Ok(true) => message::parse(&line),
                Ok(false) => break,
                Err(e) if e.kind() == std::io::ErrorKind::InvalidData => Err(e.to_string()),
                Err(_) => break,
            };
            match report {
                Ok(report) => {
                    (had_answered, inside) = (true, None);
                    if self.arrived.send((self.id, Arrival::Report(Box::new(report)))).is_err() {
                        break;
                    }
                }
                Err(why) => {
                    garbage = Some(why);
                    break;
                }
            }
        }
        drop((lines, inside.take()));
        self.link.set_orders(None);
        if garbage.is_some() {
            self.link.end();
        }
        let how = ended();
        let _ = writing.map(JoinHandle::join);
        self.link.set_end(None);
        let name = &self.named.name;
        match garbage {
            Some(why) => Lost {
                reason: Reason::BadResult,
                why: format!("the agent at {name} says what is no report: {why}"),
                had_answered: false,
                may_retry: true,
            },
            None => {
                let reason = if had_answered { Reason::AgentLost } else { Reason::HostAbsent };
                Lost { reason, why: format!("the agent at {name} {how}"), had_answered, may_retry: true }
            }
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
