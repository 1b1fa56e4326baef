//! A TCP connection to the agent of each host, which listens: for a few hosts that can reach each other and need nothing between.
//!
//! Both ends prove that they know one key; what they say is encrypted. How is not this module's affair: it is given a [`Secure`].

use super::lines::{Connection, Dial, Named, Undialled};
use crate::agent::{Agent, Input, drive};
use crate::message::{self, MAX_ORDER};
use crate::threads::{lock, no_thread, spawn};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How long a connection and its handshake may take.
const OPENING: Duration = Duration::from_secs(5);
/// Most controllers at a time, those whose handshake is not over included.
const MAX_CONTROLLERS: usize = 16;
/// Most reports that wait for a controller.
const MAX_WAITING: usize = 4096;

/// A connection whose two ends have proved who they are.
pub trait Sealed: Send {
    /// Encrypts what this end says; `None` when it may say no more.
    fn seal(&mut self, plain: &[u8]) -> Option<Vec<u8>>;
    /// Decrypts what came, as far as it is complete; `None` when it was changed.
    fn open(&mut self, bytes: &[u8]) -> Option<Vec<u8>>;
}

/// What proves who the ends of a connection are.
pub trait Secure: Send + Sync + 'static {
    /// The controller's end of a handshake.
    ///
    /// # Errors
    /// One sentence, when the other end has not proved that it knows the key.
    fn client(&self, stream: &mut TcpStream) -> Result<Box<dyn Sealed>, String>;
    /// The agent's end.
    ///
    /// # Errors
    /// As that of the controller's.
    fn server(&self, stream: &mut TcpStream) -> Result<Box<dyn Sealed>, String>;
}

type Shared = Arc<Mutex<Box<dyn Sealed>>>;

/// Reads what the other end says.
struct Reader {
    stream: TcpStream,
    sealed: Shared,
    plain: VecDeque<u8>,
}

impl Read for Reader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut piece = [0; 16 << 10];
        while self.plain.is_empty() {
            let n = self.stream.read(&mut piece)?;
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
    stream: TcpStream,
    sealed: Shared,
}

impl Write for Writer {
    fn write(&mut self, plain: &[u8]) -> io::Result<usize> {
        let bytes = lock(&self.sealed).seal(plain);
        self.stream.write_all(&bytes.ok_or_else(|| io::Error::other("the connection is used up"))?)?;
        Ok(plain.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // The other end may be gone already.
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}

fn halves(stream: &TcpStream, sealed: Box<dyn Sealed>) -> io::Result<(Reader, Writer)> {
    stream.set_read_timeout(None)?;
    let sealed = Arc::new(Mutex::new(sealed));
    let reader = Reader { stream: stream.try_clone()?, sealed: Arc::clone(&sealed), plain: VecDeque::new() };
    Ok((reader, Writer { stream: stream.try_clone()?, sealed }))
}

fn opening(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(OPENING))?;
    stream.set_write_timeout(Some(OPENING))
}

/// Connects to agents that listen.
pub struct Direct<S> {
    /// What proves who the ends are.
    pub secure: S,
    /// Port of the agents.
    pub port: u16,
}

impl<S: Secure> Direct<S> {
    fn connected(&self, host: &Named) -> Result<(TcpStream, Box<dyn Sealed>), String> {
        let (address, port) = (&host.address, self.port);
        let at = |e: io::Error| format!("cannot connect to the agent at {address}, port {port}: {e}");
        let addresses = (host.address.as_str(), self.port).to_socket_addrs().map_err(at)?;
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
        let (reader, writer) = halves(&stream, sealed).map_err(|e| failed(e.to_string()))?;
        Ok(Connection {
            reader: Box::new(reader),
            writer: Box::new(writer),
            end: Box::new(move || drop(stream.shutdown(Shutdown::Both))),
            ended: Box::new(|| "has closed the connection".to_owned()),
        })
    }
}

/// Runs an agent that listens, until it is asked to end ([`Input::Gone`]) and its last test is over.
///
/// # Errors
/// One sentence, when no thread can be made.
pub fn serve(
    agent: &mut Agent,
    inputs: &(Sender<Input>, Receiver<Input>),
    listeners: Vec<TcpListener>,
    secure: impl Secure,
) -> Result<(), String> {
    let (orders, controllers) = (inputs.0.clone(), Mutex::default());
    let open = AtomicUsize::new(0);
    let accepting = Arc::new(Accepting { secure, orders, controllers, open, ids: AtomicUsize::new(0) });
    for listener in listeners {
        let accepting = Arc::clone(&accepting);
        spawn("listening", move || accepting.accept(&listener)).map_err(no_thread)?;
    }
    let mut send = |line: String| {
        let line: Arc<str> = line.into();
        // A controller that takes nothing any more is dropped: it comes back, and is told again.
        lock(&accepting.controllers).retain(|_, to| to.try_send(Arc::clone(&line)).is_ok());
        true
    };
    drive(agent, &inputs.1, &mut send, false)
}

/// What the threads of all listeners share.
struct Accepting<S> {
    secure: S,
    orders: Sender<Input>,
    /// Where reports go: all controllers with the key.
    controllers: Mutex<BTreeMap<usize, SyncSender<Arc<str>>>>,
    /// Connections that are open.
    open: AtomicUsize,
    /// Connections until now.
    ids: AtomicUsize,
}

impl<S: Secure> Accepting<S> {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                // Without descriptors there is nothing to be done but to wait.
                thread::sleep(Duration::from_millis(10));
                continue;
            };
            if self.open.fetch_add(1, Ordering::AcqRel) >= MAX_CONTROLLERS {
                self.open.fetch_sub(1, Ordering::AcqRel);
                continue;
            }
            let shared = Arc::clone(self);
            let talking = move || {
                let id = shared.ids.fetch_add(1, Ordering::AcqRel);
                // Who does not prove the key is not answered.
                let _ = shared.talk(stream, id);
                lock(&shared.controllers).remove(&id);
                shared.open.fetch_sub(1, Ordering::AcqRel);
            };
            if spawn("controller", talking).is_err() {
                self.open.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    fn talk(&self, mut stream: TcpStream, id: usize) -> Result<(), String> {
        let failed = |e: io::Error| e.to_string();
        opening(&stream).map_err(failed)?;
        let sealed = self.secure.server(&mut stream)?;
        let (reader, writer) = halves(&stream, sealed).map_err(failed)?;
        let (reports, waiting) = sync_channel::<Arc<str>>(MAX_WAITING);
        lock(&self.controllers).insert(id, reports);
        let write = move || {
            message::write_lines(&waiting, writer);
            let _ = stream.shutdown(Shutdown::Both);
        };
        spawn("reports", write).map_err(failed)?;
        // It speaks first, as over a remote shell.
        self.orders.send(Input::Introduce).map_err(|e| e.to_string())?;
        let take = |order| self.orders.send(Input::Order(Box::new(order))).is_ok();
        message::read_all(reader, MAX_ORDER, take).map_err(failed)
    }
}
