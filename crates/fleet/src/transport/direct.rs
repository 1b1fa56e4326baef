//! A TCP connection to the agent of each host, which listens: for a few hosts that can reach each other and need nothing between.
//!
//! Both ends prove that they know one key; what they say is encrypted. How is not this module's affair: it is given a [`Secure`].

use super::lines::{Connection, Dial, Named, Undialled};
use crate::agent::{Agent, Input, drive};
use crate::message::{self, MAX_ORDER};
use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How long a connection and its handshake may take.
const OPENING: Duration = Duration::from_secs(5);
/// Most controllers at a time, those whose handshake is not over included.
const MAX_CONTROLLERS: usize = 16;
/// Most reports that wait for a controller.
const MAX_WAITING: usize = 4096;
/// Stack of a thread that passes lines on, bytes.
const STACK: usize = 256 << 10;

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
    plain: Vec<u8>,
}

impl Read for Reader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut piece = [0; 16 << 10];
        while self.plain.is_empty() {
            let n = self.stream.read(&mut piece)?;
            if n == 0 {
                return Ok(0);
            }
            let opened = self.sealed.lock().unwrap_or_else(PoisonError::into_inner).open(&piece[..n]);
            self.plain = opened.ok_or_else(|| io::Error::other("the connection was tampered with"))?;
        }
        let n = into.len().min(self.plain.len());
        into[..n].copy_from_slice(&self.plain[..n]);
        self.plain.drain(..n);
        Ok(n)
    }
}

/// Encrypts and sends; the other end sees the end when this is dropped.
struct Writer {
    stream: TcpStream,
    sealed: Shared,
}

impl Write for Writer {
    fn write(&mut self, plain: &[u8]) -> io::Result<usize> {
        let bytes = self.sealed.lock().unwrap_or_else(PoisonError::into_inner).seal(plain);
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
    let reader = Reader { stream: stream.try_clone()?, sealed: Arc::clone(&sealed), plain: Vec::new() };
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
        let at = |e: io::Error| {
            format!("cannot connect to the agent at {}, port {}: {e}", host.address, self.port)
        };
        let addresses: Vec<SocketAddr> =
            (host.address.as_str(), self.port).to_socket_addrs().map_err(at)?.collect();
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in addresses {
            match TcpStream::connect_timeout(&address, OPENING) {
                Ok(mut stream) => {
                    opening(&stream).map_err(at)?;
                    let sealed = self.secure.client(&mut stream)?;
                    return Ok((stream, sealed));
                }
                Err(e) => last = e,
            }
        }
        Err(at(last))
    }
}

impl<S: Secure> Dial for Direct<S> {
    fn dial(&self, host: &Named) -> Result<Connection, Undialled> {
        let (stream, sealed) = self.connected(host).map_err(|why| Undialled { why, may_retry: true })?;
        let failed = |e: io::Error| Undialled { why: e.to_string(), may_retry: true };
        let (reader, writer) = halves(&stream, sealed).map_err(failed)?;
        Ok(Connection {
            reader: Box::new(reader),
            writer: Box::new(writer),
            end: Box::new(move || drop(stream.shutdown(Shutdown::Both))),
            ended: Box::new(|| "has closed the connection".to_owned()),
        })
    }
}

/// Where reports go: all controllers with the key.
type Controllers = Arc<Mutex<BTreeMap<usize, SyncSender<Arc<str>>>>>;

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
    let controllers = Controllers::default();
    let (secure, open, ids) = (Arc::new(secure), Arc::default(), Arc::default());
    for listener in listeners {
        let accepting = Accepting {
            secure: Arc::clone(&secure),
            orders: inputs.0.clone(),
            controllers: Arc::clone(&controllers),
            open: Arc::clone(&open),
            ids: Arc::clone(&ids),
        };
        let thread = thread::Builder::new().name("listening".to_owned()).stack_size(STACK);
        thread
            .spawn(move || accepting.accept(&listener))
            .map_err(|e| format!("cannot start a thread: {e}"))?;
    }
    let mut send = |line: String| {
        let line: Arc<str> = line.into();
        // A controller that takes nothing any more is dropped: it comes back, and is told again.
        controllers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|_, to| to.try_send(Arc::clone(&line)).is_ok());
        true
    };
    drive(agent, &inputs.1, &mut send, false)
}

/// What the threads of all listeners share.
struct Accepting<S> {
    secure: Arc<S>,
    orders: Sender<Input>,
    controllers: Controllers,
    /// Connections that are open.
    open: Arc<AtomicUsize>,
    /// Connections until now.
    ids: Arc<AtomicUsize>,
}

impl<S: Secure> Accepting<S> {
    fn accept(&self, listener: &TcpListener) {
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
            let id = self.ids.fetch_add(1, Ordering::AcqRel);
            let (secure, orders) = (Arc::clone(&self.secure), self.orders.clone());
            let (controllers, open) = (Arc::clone(&self.controllers), Arc::clone(&self.open));
            let talking = move || {
                // Who does not prove the key is not answered.
                let _ = talk(stream, &*secure, id, &orders, &controllers);
                controllers.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
                open.fetch_sub(1, Ordering::AcqRel);
            };
            if thread::Builder::new().name("controller".to_owned()).stack_size(STACK).spawn(talking).is_err()
            {
                self.open.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }
}

fn talk(
    mut stream: TcpStream,
    secure: &impl Secure,
    id: usize,
    orders: &Sender<Input>,
    controllers: &Controllers,
) -> Result<(), String> {
    let failed = |e: io::Error| e.to_string();
    opening(&stream).map_err(failed)?;
    let sealed = secure.server(&mut stream)?;
    let (reader, writer) = halves(&stream, sealed).map_err(failed)?;
    let (reports, waiting) = sync_channel::<Arc<str>>(MAX_WAITING);
    controllers.lock().unwrap_or_else(PoisonError::into_inner).insert(id, reports);
    let end = stream.try_clone().map_err(failed)?;
    let writing = thread::Builder::new().name("reports".to_owned()).stack_size(STACK).spawn(move || {
        message::write_lines(&waiting, writer);
        let _ = end.shutdown(Shutdown::Both);
    });
    writing.map_err(failed)?;
    // It speaks first, as over a remote shell.
    orders.send(Input::Introduce).map_err(|e| e.to_string())?;
    let (mut lines, mut line) = (BufReader::new(reader), Vec::new());
    while message::read_line(&mut lines, MAX_ORDER, &mut line).map_err(failed)? {
        orders.send(Input::Order(Box::new(message::parse(&line)?))).map_err(|e| e.to_string())?;
    }
    Ok(())
}
