//! A TCP relay between client and server that damages one data connection in a chosen way. It knows
//! enough of the framing (preamble, spans, marks) to count payload bytes.

use socket2::SockRef;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const PREAMBLE: usize = 80;
const MARK: usize = 16;
const MAGIC: &[u8] = b"\x8eNETCAL\n";
/// Where the preamble says what the connection is for; 2 is data.
const PURPOSE: usize = 10;

/// Which way the damaged bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Up,
    Down,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    /// The n-th data connection, from 0.
    Data(u32),
    /// The control connection, of which every byte after the preamble counts as payload.
    Control,
}

/// What is done to a connection. Offsets count payload bytes of the chosen way.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Harm {
    /// The bits of `mask` of the payload byte at `offset` are flipped.
    Flip { offset: u64, mask: u8 },
    /// The bits of `mask` of a byte of the preamble are flipped (up only).
    FlipPreamble { at: usize, mask: u8 },
    /// One bit of the `mark`-th mark (16 bytes of framing, from 0) is flipped.
    FlipMark { mark: u32 },
    /// Two neighbouring blocks of `size` bytes of payload, the first at `offset`, change places.
    Swap { offset: u64, size: u64 },
    /// `count` bytes of payload at `offset` are left out.
    Lose { offset: u64, count: u64 },
    /// `count` bytes are put in before the payload byte at `offset`.
    Insert { offset: u64, count: u64 },
    /// `count` bytes follow after everything else, before the end of the stream.
    Append { count: u64 },
    /// After `offset` bytes of payload both ends see an orderly close.
    Close { offset: u64 },
    /// After `offset` bytes of payload both ends are reset.
    Reset { offset: u64 },
    /// After `offset` bytes of payload nothing is forwarded any more.
    Stall { offset: u64 },
    /// Every piece is held up for `ms` milliseconds.
    Delay { ms: u64 },
}

pub(crate) struct Relay {
    pub(crate) port: u16,
    over: Arc<AtomicBool>,
    done: Arc<AtomicU32>,
    swapped: Arc<AtomicU64>,
}

#[derive(Clone)]
struct Job {
    way: Way,
    harm: Harm,
    done: Arc<AtomicU32>,
    /// The first byte that two blocks' change of places altered.
    swapped: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
}

impl Relay {
    /// A relay to `server` that does `harm` to the `victim`-th data connection (from 0), and to no
    /// other.
    pub(crate) fn new(server: u16, victim: u32, way: Way, harm: Harm) -> Relay {
        Relay::to(server, Victim::Data(victim), way, harm)
    }

    /// A relay to `server` that does `harm` to the `victim` only.
    pub(crate) fn to(server: u16, victim: Victim, way: Way, harm: Harm) -> Relay {
        Relay::at_listener(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(), server, victim, way, harm)
    }

    /// A relay behind `listener` to `server` that does `harm` to the `victim` only.
    pub(crate) fn at_listener(
        listener: TcpListener,
        server: u16,
        victim: Victim,
        way: Way,
        harm: Harm,
    ) -> Relay {
        let port = listener.local_addr().unwrap().port();
        let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let seen = Arc::new(AtomicU32::new(0));
        let swapped = Arc::new(AtomicU64::new(u64::MAX));
        let job = Job {
            way,
            harm,
            done: Arc::clone(&done),
            swapped: Arc::clone(&swapped),
            over: Arc::clone(&over),
        };
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if job.over.load(Ordering::Relaxed) {
                    return;
                }
                let (job, seen) = (job.clone(), Arc::clone(&seen));
                thread::spawn(move || serve(client, server, &seen, victim, &job));
            }
        });
        Relay { port, over, done, swapped }
    }

    pub(crate) fn at(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// How often harm was done: a test in which none was done has shown nothing.
    #[track_caller]
    pub(crate) fn did(&self, times: u32) {
        assert_eq!(self.done.load(Ordering::Relaxed), times, "times the relay did its harm");
    }

    /// The offset of the first payload byte that a swap altered: of blocks of random bytes it need
    /// not be the first, one time in 256 those are alike.
    pub(crate) fn first_swapped(&self) -> u64 {
        self.swapped.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

fn serve(mut client: TcpStream, server: u16, seen: &AtomicU32, victim: Victim, job: &Job) {
    let Ok(mut server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)) else { return };
    let mut preamble = [0; PREAMBLE];
    if client.read_exact(&mut preamble).is_err() {
        return;
    }
    let data = preamble.starts_with(MAGIC) && preamble[PURPOSE] == 2;
    let harmed = match victim {
        Victim::Data(n) => data && seen.fetch_add(1, Ordering::Relaxed) == n,
        Victim::Control => !data && seen.fetch_add(1, Ordering::Relaxed) == 0,
    };
    if let Harm::FlipPreamble { at, mask } = job.harm
        && harmed
    {
        preamble[at] ^= mask;
        job.done.fetch_add(1, Ordering::Relaxed);
    }
    if server.write_all(&preamble).is_err() {
        return;
    }
    for stream in [&client, &server] {
        let _ = stream.set_nodelay(true);
        let _ = stream.set_write_timeout(Some(GLANCE));
    }
    let fate = Arc::new(Fate::default());
    let pipe = |way| Pipe {
        job: (harmed && (way == job.way || delays(job))).then(|| job.clone()),
        fate: Arc::clone(&fate),
        span: if data { 0 } else { u64::MAX },
        ..Pipe::default()
    };
    let (up, down) = (pipe(Way::Up), pipe(Way::Down));
    let (Ok(from_client), Ok(from_server)) = (client.try_clone(), server.try_clone()) else { return };
    let back = thread::spawn(move || down.run(from_server, client));
    up.run(from_client, server);
    let _ = back.join();
}

/// Passes on what comes, at once, until either socket ends. `std::io::copy` moves bytes between
/// sockets with splice(2), which holds a piece that is no whole segment back for up to 200 ms.
pub(crate) fn forward(mut from: TcpStream, mut to: TcpStream) -> std::io::Result<()> {
    to.set_nodelay(true)?;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match from.read(&mut buffer)? {
            0 => return to.shutdown(Shutdown::Write),
            n => to.write_all(&buffer[..n])?,
        }
    }
}

/// What both directions of a connection must know.
#[derive(Default)]
struct Fate {
    /// Both directions are to end: the sockets are reset once neither holds them.
    reset: AtomicBool,
    /// A send has learnt that the other end is gone: what its receiver takes for an end is a reset.
    broken: AtomicBool,
}

/// How often a blocked write looks whether it is still wanted.
const GLANCE: Duration = Duration::from_millis(50);

fn delays(job: &Job) -> bool {
    matches!(job.harm, Harm::Delay { .. })
}

/// What becomes of the connection after a piece.
enum Then {
    Go,
    Close,
    Reset,
    Stall,
}

#[derive(Default)]
struct Pipe {
    job: Option<Job>,
    fate: Arc<Fate>,
    /// Payload bytes so far, and left of the open span.
    payload: u64,
    span: u64,
    mark: Vec<u8>,
    marks: u32,
    /// Payload that waits to change places.
    held: Vec<u8>,
    /// Framing between the held bytes: behind which of them it belongs.
    between: Vec<(usize, u8)>,
}

impl Pipe {
    fn run(mut self, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let n = match from.read(&mut buffer) {
                Ok(0) => return self.ended(&from, &mut to),
                Ok(n) => n,
                Err(_) => return self.reset(&from, &to),
            };
            let mut out = Vec::with_capacity(n + 64);
            let then = self.pass(&buffer[..n], &mut out);
            if !self.write(&mut to, &out) {
                // What the other end said before it went is still to be forwarded: that direction
                // decides.
                self.fate.broken.store(true, Ordering::Relaxed);
                return;
            }
            match then {
                Then::Go => {}
                Then::Close => {
                    let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
                    return;
                }
                Then::Reset => return self.reset(&from, &to),
                Then::Stall => {
                    // The ends give up at some time; until then both directions stay open and
                    // silent.
                    while !self.fate.reset.load(Ordering::Relaxed)
                        && from.peek(&mut buffer).is_ok_and(|n| n > 0)
                    {
                        thread::sleep(GLANCE);
                    }
                    return self.reset(&from, &to);
                }
            }
        }
    }

    fn write(&self, to: &mut TcpStream, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() && !self.fate.reset.load(Ordering::Relaxed) {
            match to.write(bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => return false,
            }
        }
        bytes.is_empty()
    }

    fn ended(&self, from: &TcpStream, to: &mut TcpStream) {
        thread::sleep(Duration::from_millis(10));
        if self.fate.broken.load(Ordering::Relaxed) || self.fate.reset.load(Ordering::Relaxed) {
            return self.reset(from, to);
        }
        if let Some(job) = &self.job
            && let Harm::Append { count } = job.harm
        {
            job.done.fetch_add(1, Ordering::Relaxed);
            self.write(to, &vec![0x5a; count as usize]);
        }
        let _ = to.shutdown(Shutdown::Write);
    }

    /// Both ends see a reset, as soon as both directions have let go of the sockets.
    fn reset(&self, a: &TcpStream, b: &TcpStream) {
        self.fate.reset.store(true, Ordering::Relaxed);
        for stream in [a, b] {
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
            let _ = stream.shutdown(Shutdown::Read);
        }
    }

    /// Takes bytes from one end; what the other end gets is added to `out`.
    fn pass(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Then {
        let Some(job) = self.job.clone() else {
            out.extend_from_slice(bytes);
            return Then::Go;
        };
        if let Harm::Delay { ms } = job.harm {
            job.done.store(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(ms));
            out.extend_from_slice(bytes);
            return Then::Go;
        }
        let mut rest = bytes;
        while let Some((&byte, behind)) = rest.split_first() {
            let untouched = self.untouched(job.harm).min(rest.len() as u64);
            if untouched > 0 {
                let (taken, left) = rest.split_at(untouched as usize);
                out.extend_from_slice(taken);
                self.span -= untouched;
                self.payload += untouched;
                rest = left;
                continue;
            }
            rest = behind;
            let then = if self.span > 0 {
                self.span -= 1;
                self.payload += 1;
                self.payload_byte(byte, &job, out)
            } else {
                self.framing_byte(byte, &job, out);
                Then::Go
            };
            if !matches!(then, Then::Go) {
                job.done.fetch_add(1, Ordering::Relaxed);
                return then;
            }
        }
        Then::Go
    }

    /// How many bytes of payload come next in the open span that this harm leaves alone: byte by
    /// byte, megabytes take a debug build long.
    fn untouched(&self, harm: Harm) -> u64 {
        let (first, end) = match harm {
            Harm::Flip { offset, .. } | Harm::Insert { offset, .. } => (offset, offset + 1),
            Harm::Swap { offset, size } => (offset, offset + 2 * size),
            Harm::Lose { offset, count } => (offset, offset + count),
            // The byte before `offset` is the last.
            Harm::Close { offset } | Harm::Reset { offset } | Harm::Stall { offset } => {
                (offset.saturating_sub(1), offset)
            }
            Harm::FlipPreamble { .. } | Harm::FlipMark { .. } | Harm::Append { .. } | Harm::Delay { .. } => {
                (0, 0)
            }
        };
        let ahead = if self.payload >= end { u64::MAX } else { first.saturating_sub(self.payload) };
        ahead.min(self.span)
    }

    fn framing_byte(&mut self, byte: u8, job: &Job, out: &mut Vec<u8>) {
        self.mark.push(byte);
        let flip =
            matches!(job.harm, Harm::FlipMark { mark } if mark == self.marks) && self.mark.len() == MARK;
        let sent = if flip {
            job.done.fetch_add(1, Ordering::Relaxed);
            byte ^ 0x40
        } else {
            byte
        };
        if self.held.is_empty() {
            out.push(sent);
        } else {
            self.between.push((self.held.len(), sent));
        }
        if self.mark.len() == MARK {
            if self.mark[0] == 0xa1 {
                self.span = u64::from_be_bytes(*self.mark.last_chunk().unwrap());
            }
            self.mark.clear();
            self.marks += 1;
        }
    }

    /// `self.payload` counts this byte already.
    fn payload_byte(&mut self, byte: u8, job: &Job, out: &mut Vec<u8>) -> Then {
        let at = self.payload - 1;
        let did = || job.done.fetch_add(1, Ordering::Relaxed);
        match job.harm {
            Harm::Flip { offset, mask } if at == offset => {
                did();
                out.push(byte ^ mask);
            }
            Harm::Swap { offset, size } if (offset..offset + 2 * size).contains(&at) => {
                self.held.push(byte);
                if at + 1 == offset + 2 * size {
                    did();
                    let first = self.swapped(size as usize, out);
                    job.swapped.store(first.map_or(u64::MAX, |i| offset + i as u64), Ordering::Relaxed);
                }
            }
            Harm::Lose { offset, count } if (offset..offset + count).contains(&at) => {
                if at == offset {
                    did();
                }
            }
            Harm::Insert { offset, count } if at == offset => {
                did();
                out.resize(out.len() + count as usize, 0x5a);
                out.push(byte);
            }
            Harm::Close { offset } if self.payload == offset => {
                out.push(byte);
                return Then::Close;
            }
            Harm::Reset { offset } if self.payload == offset => {
                out.push(byte);
                return Then::Reset;
            }
            Harm::Stall { offset } if self.payload == offset => {
                out.push(byte);
                return Then::Stall;
            }
            _ => out.push(byte),
        }
        Then::Go
    }

    /// The held payload with its halves exchanged, and the framing where it was; says which byte is
    /// the first that is another now.
    fn swapped(&mut self, size: usize, out: &mut Vec<u8>) -> Option<usize> {
        let first = self.held[..size].iter().zip(&self.held[size..]).position(|(a, b)| a != b);
        self.held.rotate_left(size);
        let mut framing = std::mem::take(&mut self.between).into_iter().peekable();
        for (i, byte) in std::mem::take(&mut self.held).into_iter().enumerate() {
            while let Some((_, mark)) = framing.next_if(|&(behind, _)| behind <= i) {
                out.push(mark);
            }
            out.push(byte);
        }
        out.extend(framing.map(|(_, mark)| mark));
        first
    }
}
