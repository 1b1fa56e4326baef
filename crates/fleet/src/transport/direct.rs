//! A TCP connection to the agent of each host, which listens: for a few hosts that can reach each
//! other and need nothing between.
//!
//! Both ends prove that they know one key, and encrypt their messages. A [`Secure`] does both for
//! this module.
//!
//! Connections without a proof have places of their own, of which the oldest gives way to a new
//! one; controllers, which have given an order, keep theirs as long as they speak.

use super::lines::{Connection, Dial, Named, Undialled};
use crate::agent::{Agent, Holder, Input, drive};
use crate::message::{self, MAX_ORDER, Of, Order};
use crate::threads::{lock, no_thread, spawn};
use ::io::Clock;
use ::io::resolve::{Family, resolve};
use ::transport::admission::{PendingPeers, PendingPlace};
use metrics::{Mono, SECOND};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Longest time of a connection's establishment and handshake.
const OPENING: Duration = Duration::from_secs(5);
/// Longest time to the first order, the handshake included, ns.
const FIRST: u64 = 15 * SECOND;
/// Patience of a controller, ns, whose greeting has not said otherwise, and the longest.
const PATIENCE: (u64, u64) = (10 * SECOND, 60 * SECOND);
/// Times its patience that a controller may say nothing.
const PATIENCES: u64 = 3;
/// Silence after which a controller gives way to another one, ns: controllers send a message each
/// second.
const SILENT: u64 = 4 * SECOND;
/// Silence of a controller's host after which TCP keep-alives probe it.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Most connections whose peers have proved nothing.
const MAX_PENDING: usize = 256;
/// Most controllers at a time.
const MAX_CONTROLLERS: usize = 16;
/// Most reports that wait for a controller.
const MAX_WAITING: usize = 4096;

/// A connection whose two ends have proved who they are.
pub trait Sealed: Send {
    /// Encrypts bytes of this end; `None` when no more may be sent.
    fn seal(&mut self, plain: &[u8]) -> Option<Vec<u8>>;
    /// Decrypts the complete records of received bytes; `None` if they were changed on the way.
    fn open(&mut self, bytes: &[u8]) -> Option<Vec<u8>>;
}

/// Proves the identity of both ends of a connection.
pub trait Secure: Send + Sync + 'static {
    /// The controller's end of a handshake.
    ///
    /// # Errors
    /// One sentence, when the other end has not proved that it knows the key.
    fn client(&self, stream: &mut TcpStream) -> Result<Box<dyn Sealed>, String>;
    /// The agent's end, with the name and the rights of the key that the controller names, which
    /// its first order proves.
    ///
    /// # Errors
    /// As that of the controller's.
    fn server(&self, stream: &mut TcpStream) -> Result<(Box<dyn Sealed>, Holder), String>;
}

type SharedSeal = Arc<Mutex<Box<dyn Sealed>>>;

/// Reads and decrypts the other end's lines.
struct SealedReader {
    stream: Arc<TcpStream>,
    sealed: SharedSeal,
    plain: VecDeque<u8>,
    /// Until when something has to be said.
    until: Option<Arc<Mutex<Mono>>>,
}

impl SealedReader {
    /// The time left is over all calls together: a peer that drips gains nothing.
    fn wait_within_time(&self) -> io::Result<()> {
        let Some(until) = &self.until else { return Ok(()) };
        let left = lock(until).since(Clock::new().now());
        if left == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(Duration::from_nanos(left)))
    }
}

impl Read for SealedReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut piece = [0; 16 << 10];
        while self.plain.is_empty() {
            self.wait_within_time()?;
            let n = (&*self.stream).read(&mut piece)?;
            if n == 0 {
                return Ok(0);
            }
            let opened = lock(&self.sealed).open(&piece[..n]);
            self.plain = opened.ok_or_else(|| io::Error::other("the connection was tampered with"))?.into();
        }
        self.plain.read(into)
    }
}

/// Encrypts and sends; the other end sees the end when this is dropped.
struct Writer {
    stream: Arc<TcpStream>,
    sealed: SharedSeal,
}

impl Write for Writer {
    fn write(&mut self, plain: &[u8]) -> io::Result<usize> {
        let bytes = lock(&self.sealed).seal(plain);
        let bytes = bytes.ok_or_else(|| io::Error::other("the connection is used up"))?;
        (&*self.stream).write_all(&bytes)?;
        Ok(plain.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // The other end may be gone already.
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}

fn halves(stream: &Arc<TcpStream>, sealed: Box<dyn Sealed>) -> io::Result<(SealedReader, Writer)> {
    stream.set_read_timeout(None)?;
    let sealed = Arc::new(Mutex::new(sealed));
    let (stream, own) = (Arc::clone(stream), Arc::clone(stream));
    let reader = SealedReader { stream, sealed: Arc::clone(&sealed), plain: VecDeque::new(), until: None };
    Ok((reader, Writer { stream: own, sealed }))
}

fn opening(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(OPENING))?;
    stream.set_write_timeout(Some(OPENING))
}

/// Connects to agents that listen.
pub struct Direct<S> {
    /// Proves the identity of both ends.
    pub secure: S,
    /// Port of the agents.
    pub port: u16,
}

impl<S: Secure> Direct<S> {
    fn connected(&self, host: &Named) -> Result<(TcpStream, Box<dyn Sealed>), String> {
        let (address, port) = (&host.address, self.port);
        let at = |e: io::Error| format!("cannot connect to the agent at {address}, port {port}: {e}");
        let addresses = resolve(address, port, Family::Any)?;
        let mut connected = Err(io::ErrorKind::AddrNotAvailable.into());
        for address in addresses {
            connected = TcpStream::connect_timeout(&address, OPENING);
            if connected.is_ok() {
                break;
            }
        }
        let mut stream = connected.map_err(at)?;
        opening(&stream).map_err(at)?;
        let sealed = self.secure.client(&mut stream)?;
        Ok((stream, sealed))
    }
}

impl<S: Secure> Dial for Direct<S> {
    fn dial(&self, host: &Named) -> Result<Connection, Undialled> {
        let failed = |why: String| Undialled { why, may_retry: true };
        let (stream, sealed) = self.connected(host).map_err(failed)?;
        let stream = Arc::new(stream);
        let (reader, writer) = halves(&stream, sealed).map_err(|e| failed(e.to_string()))?;
        Ok(Connection {
            reader: Box::new(reader),
            writer: Box::new(writer),
            end: Box::new(move || drop(stream.shutdown(Shutdown::Both))),
            ended: Box::new(|| "has closed the connection".to_owned()),
        })
    }
}

/// Runs an agent that listens, until it is asked to end ([`Input::Gone`]) and its last test is
/// over.
///
/// # Errors
/// One sentence, when no thread can be made.
pub fn serve(
    agent: &mut Agent,
    inputs: &(Sender<Input>, Receiver<Input>),
    listeners: Vec<TcpListener>,
    secure: impl Secure,
) -> Result<(), String> {
    let accepting = Arc::new(Accepting {
        secure,
        introduction: agent.introduction().line().unwrap_or_default().into(),
        orders: inputs.0.clone(),
        pending: Arc::new(PendingPeers::new(MAX_PENDING)),
        open: Mutex::default(),
    });
    for listener in listeners {
        let accepting = Arc::clone(&accepting);
        spawn("listening", move || accepting.accept(&listener)).map_err(no_thread)?;
    }
    let mut send = |to: &Holder, line: String| {
        let line: Arc<str> = line.into();
        // A controller that reads no more is dropped: it connects again, and gets the reports
        // again.
        let has_room = |of: &Controller| of.name != to.name || of.reports.try_send(Arc::clone(&line)).is_ok();
        lock(&accepting.open).controllers.retain(|_, of| has_room(of));
        true
    };
    drive(agent, &inputs.1, &mut send, false)
}

/// State that the threads of all listeners share.
struct Accepting<S> {
    secure: S,
    /// The agent's first line on each connection.
    introduction: Arc<str>,
    orders: Sender<Input>,
    pending: Arc<PendingPeers>,
    open: Mutex<Open>,
}

/// Connections by their numbers.
#[derive(Default)]
struct Open {
    /// Connections whose peers have proved nothing.
    pending: BTreeMap<u64, Arc<TcpStream>>,
    controllers: BTreeMap<u64, Controller>,
}

/// A connection on which a controller has given an order.
struct Controller {
    name: String,
    stream: Arc<TcpStream>,
    /// When it gave its last one.
    heard: Mono,
    reports: SyncSender<Arc<str>>,
}

/// A thread's state of its connection.
struct Talk {
    stream: Arc<TcpStream>,
    holder: Arc<Holder>,
    number: u64,
    /// Place among the unproven peers, until it gives an order.
    place: Option<PendingPlace>,
    patience: u64,
    until: Arc<Mutex<Mono>>,
    /// Queue of reports, until a controller owns the connection.
    reports: Option<SyncSender<Arc<str>>>,
}

impl Open {
    /// Makes room for another controller: of the key that has most controllers, the longest silent
    /// one gives way, if it was silent for [`SILENT`]. True if there is room.
    fn make_room(&mut self, now: Mono) -> bool {
        if self.controllers.len() < MAX_CONTROLLERS {
            return true;
        }
        let of_key = |name: &str| self.controllers.values().filter(|of| of.name == name).count();
        let silent = self.controllers.iter().filter(|(_, of)| now.since(of.heard) >= SILENT);
        let gives_way = silent.max_by_key(|(_, of)| (of_key(&of.name), now.since(of.heard)));
        let number = gives_way.map(|(number, _)| *number);
        let gone = number.and_then(|number| self.controllers.remove(&number));
        if let Some(of) = &gone {
            // Its host may be gone already.
            let _ = of.stream.shutdown(Shutdown::Both);
        }
        gone.is_some()
    }
}

impl<S: Secure> Accepting<S> {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        loop {
            let Ok((stream, peer)) = listener.accept() else {
                // Without descriptors there is nothing to be done but to wait.
                thread::sleep(Duration::from_millis(10));
                continue;
            };
            let (place, gave_way) = self.pending.enter(peer.ip());
            let (stream, number) = (Arc::new(stream), place.number());
            let mut open = lock(&self.open);
            open.pending.insert(number, Arc::clone(&stream));
            if let Some(gone) = gave_way.and_then(|gone| open.pending.remove(&gone)) {
                let _ = gone.shutdown(Shutdown::Both);
            }
            drop(open);
            let shared = Arc::clone(self);
            let talking = move || {
                // A peer that does not prove the key has no answer.
                let _ = shared.talk(&stream, place);
                let _ = stream.shutdown(Shutdown::Both);
                let mut open = lock(&shared.open);
                open.pending.remove(&number);
                open.controllers.remove(&number);
            };
            if spawn("controller", talking).is_err() {
                lock(&self.open).pending.remove(&number);
            }
        }
    }

    fn talk(&self, stream: &Arc<TcpStream>, place: PendingPlace) -> Result<(), String> {
        let failed = |e: io::Error| e.to_string();
        let began = Clock::new().now();
        opening(stream).map_err(failed)?;
        ::io::tcp::keep_alive(stream, KEEP_ALIVE).map_err(failed)?;
        let mut handshake = stream.try_clone().map_err(failed)?;
        let (sealed, holder) = self.secure.server(&mut handshake)?;
        drop(handshake);
        let (mut reader, writer) = halves(stream, sealed).map_err(failed)?;
        let until = Arc::new(Mutex::new(began.plus(FIRST)));
        reader.until = Some(Arc::clone(&until));
        let (reports, waiting) = sync_channel::<Arc<str>>(MAX_WAITING);
        // The agent speaks first, as over a remote shell.
        let _ = reports.try_send(Arc::clone(&self.introduction));
        let writing = Arc::clone(stream);
        let write = move || {
            message::write_lines(&waiting, writer);
            let _ = writing.shutdown(Shutdown::Both);
        };
        spawn("reports", write).map_err(failed)?;
        let (stream, holder, number) = (Arc::clone(stream), Arc::new(holder), place.number());
        let (place, patience, reports) = (Some(place), PATIENCE.0, Some(reports));
        let mut talk = Talk { stream, holder, number, place, patience, until, reports };
        let take = |order: Of<Order>| self.take(&mut talk, order);
        message::read_all(reader, MAX_ORDER, take).map_err(failed)
    }

    /// Takes an order; whether the connection goes on.
    fn take(&self, talk: &mut Talk, order: Of<Order>) -> bool {
        let now = Clock::new().now();
        if let Order::Hello { patience_ns, .. } = order.message {
            talk.patience = patience_ns.clamp(SECOND, PATIENCE.1);
        }
        *lock(&talk.until) = now.plus(talk.patience.saturating_mul(PATIENCES));
        let mut open = lock(&self.open);
        if let Some(reports) = talk.reports.take() {
            talk.place = None;
            open.pending.remove(&talk.number);
            if !open.make_room(now) {
                return false;
            }
            let (name, stream) = (talk.holder.name.clone(), Arc::clone(&talk.stream));
            open.controllers.insert(talk.number, Controller { name, stream, heard: now, reports });
        }
        // One that has given way, or takes no reports, is over.
        let Some(controller) = open.controllers.get_mut(&talk.number) else { return false };
        controller.heard = now;
        drop(open);
        self.orders.send(Input::Order(Arc::clone(&talk.holder), Box::new(order))).is_ok()
    }
}

#[cfg(test)]
mod tests;
