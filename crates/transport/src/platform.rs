//! The system beneath the engine: the operating system's sockets, clock and threads, or a simulated
//! one in virtual time.
//!
//! `engine` is generic over [`Platform`] and names nothing of the system itself, so that the
//! scheduler which ships is the one that is simulated. The engine's threads are [`Task`]s: they
//! never block within a call, and return a [`Park`] instead.

use crate::{Effective, SocketSettings, UdpEffective};
use crate::{Fault, Net, Path, Target};
use metrics::{Mono, SocketState, Stamp, TcpInfo};
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{self, TryRecvError};

/// Longest datagram payload of UDP, bytes; also the most that one send of several datagrams holds.
pub const LONGEST_DATAGRAM: usize = 65_507;

/// A system, as the engine's threads call it. A cheap handle; all handles of one platform share it.
pub trait Platform: Clone + Send + Sync + 'static {
    /// The error number of a connect that timed out.
    const TIMED_OUT: i32;

    /// The clocks.
    type Clock: Clock;
    /// Wakes a thread from its wait.
    type Waker: Wake;
    /// Waits for sockets.
    type Reactor: Reactor<Waker = Self::Waker>;
    /// A TCP socket.
    type Stream: StreamSocket<Self>;
    /// A listening TCP socket.
    type Listener: ListenerSocket<Self>;
    /// A UDP socket.
    type Udp: DatagramSocket<Self>;
    /// Memory for datagram calls, which all UDP sockets of a thread share.
    type UdpMemory: Default + Send;
    /// The sending end of a mailbox.
    type Sender<T: Send + 'static>: Sender<T>;
    /// The receiving end of a mailbox.
    type Receiver<T: Send + 'static>: Receiver<T>;
    /// A thread that was started.
    type Join: Join;

    /// The clocks, as every thread of this platform reads them.
    fn clock(&self) -> Self::Clock;

    /// A reactor that watches nothing yet.
    ///
    /// # Errors
    /// When there are no descriptors left.
    fn reactor(&self) -> io::Result<Self::Reactor>;

    /// A mailbox without a bound. Sending does not wake the receiver: [`Wake`] does.
    fn channel<T: Send + 'static>(&self) -> (Self::Sender<T>, Self::Receiver<T>);

    /// Starts a thread that drives `task` to its end.
    ///
    /// # Errors
    /// When the system refuses a thread.
    fn spawn(&self, name: &str, task: impl Task<Self> + Send + 'static) -> io::Result<Self::Join>;

    /// 64 random bits to seed a generator with; not for secrets.
    fn random(&self) -> u64;

    /// Begins to connect; the flag says that the connection is up already.
    ///
    /// # Errors
    /// An immediate refusal.
    fn connect(&self, to: &Target, settings: &SocketSettings) -> Result<(Self::Stream, bool), Fault>;

    /// A UDP socket that is connected to an address.
    fn connect_udp(&self, to: &Target, settings: &SocketSettings) -> Result<Self::Udp, Fault>;

    /// A connected UDP socket for a peer that has sent to the socket `bound`, on the bound one's
    /// port.
    ///
    /// # Errors
    /// When the system refuses, as where `bound` does not share its port.
    fn udp_beside(
        &self,
        bound: &Self::Udp,
        path: &Path,
        settings: &SocketSettings,
    ) -> Result<Self::Udp, Fault>;

    /// Lets the calling thread run on this core only.
    ///
    /// # Errors
    /// When the core may not be used.
    fn pin(&self, core: usize) -> io::Result<()>;

    /// Makes the calling thread's timers as precise as they get; where that is impossible they are
    /// later.
    fn precise_timers(&self);

    /// Runs the calling thread before all ordinary ones (`SCHED_FIFO`).
    ///
    /// # Errors
    /// Without the privilege.
    fn realtime(&self) -> io::Result<()>;

    /// Keeps the process's memory from being paged out (`mlockall`).
    ///
    /// # Errors
    /// Without the privilege.
    fn lock_memory(&self) -> io::Result<()>;

    /// Lets other threads that wait for this core run first; returns at once where there are none.
    fn yield_core(&self);

    /// True if the engine is to have this defect: only ever on a simulated platform.
    #[inline]
    fn has(&self, _: Defect) -> bool {
        false
    }
}

/// Mistakes that a simulated platform plants in the engine, so that the simulation proves that it
/// would find them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// Sockets that wait are registered by an idle worker only: beside a busy one they starve.
    RegisterWhenIdle,
    /// A socket is not known to be writable again after it was full.
    LostEdge,
    /// After its first timer a link has no other.
    TimerNotRearmed,
    /// Timers are served 50 ms late.
    LateTimers,
    /// A group is reported to have no connections left while it has some.
    IdleTooEarly,
    /// An accepted connection is counted in its group twice.
    CountedTwice,
    /// A closed connection stays counted as open.
    NotForgotten,
    /// An answer to a peer that has proved nothing is sent twice.
    AnsweredTwice,
    /// A flow's message to its session is lost now and then.
    LostMessage,
    /// An interval's counts are lost now and then.
    LostTally,
    /// The control thread is not woken by its workers.
    NotWoken,
}

impl Defect {
    /// All of them.
    pub const ALL: [Defect; 11] = [
        Defect::RegisterWhenIdle,
        Defect::LostEdge,
        Defect::TimerNotRearmed,
        Defect::LateTimers,
        Defect::IdleTooEarly,
        Defect::CountedTwice,
        Defect::NotForgotten,
        Defect::AnsweredTwice,
        Defect::LostMessage,
        Defect::LostTally,
        Defect::NotWoken,
    ];
}

/// A platform's clocks.
pub trait Clock: Clone + Send {
    /// The current instant.
    fn now(&self) -> Mono;
    /// Relation of the monotonic clock to the wall clock now.
    fn sample(&self) -> metrics::Clock;
}

/// A handle that wakes one thread, from any thread.
pub trait Wake: Clone + Send + Sync + 'static {
    /// Ends the thread's current or next wait. Messages sent to it before are visible after the
    /// wait.
    fn wake(&self);
}

/// Readiness of a watched socket. A hung-up or failed socket is ready for everything: the next call
/// returns the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The key it was registered under.
    pub key: u64,
    /// Receiving will not block.
    pub readable: bool,
    /// Sending will not block.
    pub writable: bool,
    /// The peer will send no more, or the socket failed: read to the end, there may be no further
    /// event.
    pub hangup: bool,
}

/// A thread's means to wait for sockets. Waiting itself is the driver's part: see [`Park::Wait`].
pub trait Reactor: Send {
    /// Wakes the thread that this reactor belongs to.
    type Waker: Wake;
    /// A handle that ends a wait on this reactor.
    fn waker(&self) -> Self::Waker;
    /// True if a wake arrived since the last wait or the last call of this; for threads that do not
    /// wait. The call takes the wake: on some systems no later wait ends for it, so the caller
    /// reads its mailbox, and acts on it, before it waits.
    fn woken(&self) -> bool;
    /// The same without taking the wake away.
    fn rung(&self) -> bool;
}

/// When a watched socket is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// Each time it becomes readable or writable.
    Edges,
    /// Each time it becomes readable. A UDP socket becomes writable after each datagram that has
    /// left, full or not.
    ReadEdges,
    /// At every wait for as long as it is readable.
    Level,
}

/// A socket that a reactor can watch. Until it is watched, nothing is reported of it.
pub trait Watch<P: Platform> {
    /// Reports the socket under `key` at this trigger, and its present readiness. Watching again
    /// changes both.
    fn watch(&self, reactor: &P::Reactor, key: u64, trigger: Trigger) -> io::Result<()>;
    /// Asks for the next event after one was reported, on systems that report one only.
    ///
    /// # Errors
    /// When the socket is not watched.
    fn rearm(&self, reactor: &P::Reactor, key: u64, read: bool, write: bool) -> io::Result<()>;
    /// Stops watching.
    ///
    /// # Errors
    /// When the socket was not watched.
    fn forget(&self, reactor: &P::Reactor) -> io::Result<()>;
    /// Stops watching a socket that is about to be closed; free where closing does so by itself.
    fn before_close(&self, reactor: &P::Reactor);
}

/// A TCP socket.
pub trait StreamSocket<P: Platform>: Watch<P> + Send + 'static {
    /// The socket as [`crate::turn()`] uses it.
    type Net<'a>: Net
    where
        Self: 'a;
    /// The path of an established connection; `None` while connecting.
    fn connected(&self) -> Result<Option<Path>, Fault>;
    /// Sets options.
    ///
    /// # Errors
    /// The first refusal, after all were tried.
    fn apply(&self, settings: &SocketSettings) -> Result<(), Fault>;
    /// Options as the system has them.
    fn effective(&self) -> Effective;
    /// The current segment size, bytes.
    fn mss(&self) -> Option<u32>;
    /// The system's TCP_INFO of the connection.
    fn info(&self) -> Option<TcpInfo>;
    /// Part of the same: the state that a single message met.
    fn state(&self) -> Option<SocketState>;
    /// DSCP of the peer's packets, where the system keeps it for sockets that have a class of their
    /// own ([`SocketSettings::dscp`]).
    fn received_dscp(&self) -> Option<u8> {
        None
    }
    /// Lets receive calls sleep that ask for it ([`StreamSocket::net`]).
    ///
    /// # Errors
    /// When they cannot: the thread waits by its reactor then.
    fn let_sleep(&self) -> io::Result<()>;
    /// Asks the system to send the few bytes of a conversation again at even intervals until they
    /// are acknowledged, although usual intervals double. A system without the choice goes on as
    /// before.
    fn retransmit_evenly(&self) {}
    /// Says that nothing more will be sent.
    fn half_close(&self);
    /// Closes it with a reset.
    fn abort(self);
    /// The socket for one turn or many; no receive is longer than `buffer`. With `sleeps`, receive
    /// calls may sleep.
    fn net<'a>(&'a self, buffer: &'a mut [u8], clock: &'a P::Clock, sleeps: bool) -> Self::Net<'a>;
}

/// A listening TCP socket.
pub trait ListenerSocket<P: Platform>: Watch<P> + Send + 'static {
    /// The next connection, if one is waiting.
    ///
    /// # Errors
    /// When the system has no room for it (no descriptors left): it stays in the queue.
    fn accept(&self) -> Result<Option<(P::Stream, Path)>, Fault>;
}

/// A UDP socket.
pub trait DatagramSocket<P: Platform>: Watch<P> + Send + 'static {
    /// The socket as [`crate::turn()`] uses it.
    type Net<'a>: Net
    where
        Self: 'a;
    /// Sets options.
    ///
    /// # Errors
    /// The first refusal, after all were tried.
    fn apply(&mut self, settings: &SocketSettings) -> Result<(), Fault>;
    /// Options as the system has them.
    fn effective(&self) -> UdpEffective;
    /// Both ends of a connected socket.
    fn path(&self) -> Option<Path>;
    /// The local address.
    ///
    /// # Errors
    /// When the system does not report it.
    fn local(&self) -> Result<SocketAddr, Fault>;
    /// Most datagrams in one send.
    fn segments(&self) -> usize;
    /// Lets receive calls sleep that ask for it.
    fn let_sleep(&self) -> io::Result<()>;
    /// Buffers that the socket has dropped behind the last one received, each reported once: later
    /// [`Received::dropped`](crate::Received::dropped) is without them. Settles the count of an
    /// ended measurement; 0 where the system keeps no such counter or marks are not wanted.
    fn take_drops(&mut self) -> u32;
    /// True while requested transmit stamps are missing.
    fn awaits_stamps(&self) -> bool;
    /// The next returned transmit stamp: its tag, the stamp and its error bound, ns.
    fn stamped(&mut self, memory: &mut P::UdpMemory, clock: &P::Clock) -> Option<(u32, Stamp, u64)>;
    /// The socket for one turn or many. With `sleeps`, receive calls may sleep.
    fn net<'a>(
        &'a mut self,
        memory: &'a mut P::UdpMemory,
        clock: &'a P::Clock,
        sleeps: bool,
    ) -> Self::Net<'a>;
}

/// The sending end of a mailbox.
pub trait Sender<T>: Clone + Send {
    /// Puts a message in; lost when the receiving end is gone.
    fn send(&self, message: T);
}

impl<T: Send> Sender<T> for mpsc::Sender<T> {
    fn send(&self, message: T) {
        // Fails only when the receiving end is gone.
        let _ = mpsc::Sender::send(self, message);
    }
}

/// The receiving end of a mailbox.
pub trait Receiver<T>: Send {
    /// The next message that is there.
    fn try_recv(&self) -> Mail<T>;
}

impl<T: Send> Receiver<T> for mpsc::Receiver<T> {
    fn try_recv(&self) -> Mail<T> {
        match mpsc::Receiver::try_recv(self) {
            Ok(message) => Mail::Message(message),
            Err(TryRecvError::Empty) => Mail::Empty,
            Err(TryRecvError::Disconnected) => Mail::Closed,
        }
    }
}

/// Result of a look into a mailbox.
#[derive(Debug)]
pub enum Mail<T> {
    /// The next message.
    Message(T),
    /// None at the moment.
    Empty,
    /// None, and no sender is left.
    Closed,
}

/// A thread that was started.
pub trait Join: Send {
    /// Waits for its end; false when it panicked.
    fn join(self) -> bool;
}

/// One of the engine's threads, driven by the platform: `step`, then the wait of its [`Park`], and
/// again.
pub trait Task<P: Platform> {
    /// Does what there is to do without blocking, and says what to wait for.
    fn step(&mut self) -> Park;
    /// The reactor that a [`Park::Wait`] waits on.
    fn reactor(&mut self) -> &mut P::Reactor;
    /// A [`Park::Wait`] is over: takes the ready sockets out of `ready`, or learns why the wait
    /// failed.
    fn resume(&mut self, ready: io::Result<&mut Vec<Ready>>);
    /// Its memory. Only simulations call it, to check that it stays bounded.
    fn held(&self) -> Held {
        Held::default()
    }
}

/// Memory of a [`Task`], by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Links.
    pub links: usize,
    /// Timers, also of closed links.
    pub timers: usize,
    /// Messages that wait to be sent or handled.
    pub messages: usize,
    /// Bytes that wait to be sent.
    pub bytes: usize,
}

/// A [`Task`]'s wait between two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Park {
    /// Nothing: the next step follows at once.
    Run,
    /// A socket, a wake, or the instant; without one, for ever. An instant that is past only looks.
    Wait(Option<Mono>),
    /// The instant alone.
    Sleep(Mono),
    /// The thread is over.
    Done,
}
