//! [`transport::Platform`] in virtual time.

use super::run;
use super::socket::Socket;
use super::world::{Call, Event, ReactorState, World};
use metrics::Mono;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use transport::{
    Clock, Defect, Fault, Held, Join, Mail, Path, Platform, Reactor, Receiver, Sender, SocketSettings,
    Target, Task, Wake,
};

/// A process on a host of a simulated world.
#[derive(Clone)]
pub struct Sim {
    pub(super) world: Arc<Mutex<World>>,
    pub(super) host: usize,
    pub(super) process: usize,
}

impl Sim {
    pub(super) fn with<T>(&self, what: impl FnOnce(&mut World) -> T) -> T {
        what(&mut lock(&self.world))
    }

    /// The socket with this number, of this process.
    pub(super) fn socket(&self, id: u64) -> Socket {
        Socket { sim: self.clone(), id }
    }
}

/// A panic is a failed test: what was locked then is looked at by destructors alone.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Platform for Sim {
    const TIMED_OUT: i32 = super::stream::TIMED_OUT;

    type Clock = SimClock;
    type Waker = SimWaker;
    type Reactor = SimReactor;
    type Stream = Socket;
    type Listener = Socket;
    type Udp = Socket;
    type UdpMemory = Vec<u8>;
    type Sender<T: Send + 'static> = SimSender<T>;
    type Receiver<T: Send + 'static> = SimReceiver<T>;
    type Join = SimJoin;

    fn clock(&self) -> SimClock {
        SimClock(self.clone())
    }

    fn reactor(&self) -> io::Result<SimReactor> {
        let id = self.with(|world| {
            world.reactors.push(ReactorState::default());
            world.reactors.len() - 1
        });
        Ok(SimReactor { sim: self.clone(), id })
    }

    fn channel<T: Send + 'static>(&self) -> (SimSender<T>, SimReceiver<T>) {
        let mailbox =
            Arc::new(Mutex::new(Mailbox { messages: BTreeMap::new(), sent: 0, senders: 1, closed: false }));
        let sender = SimSender { sim: self.clone(), mailbox: Arc::clone(&mailbox) };
        (sender, SimReceiver { sim: self.clone(), mailbox })
    }

    fn spawn(&self, name: &str, task: impl Task<Self> + Send + 'static) -> io::Result<SimJoin> {
        let thread = self.with(|world| {
            world.charge(Call::Spawn, 0);
            world.add((self.host, self.process), name, Some(Box::new(task)))
        });
        Ok(SimJoin { sim: self.clone(), thread })
    }

    fn random(&self) -> u64 {
        self.with(|world| world.rng.next())
    }

    fn connect(&self, to: &Target, settings: &SocketSettings) -> Result<(Socket, bool), Fault> {
        let (id, up) = self.with(|world| world.connect(self.host, to, settings))?;
        Ok((self.socket(id), up))
    }

    fn connect_udp(&self, to: &Target, settings: &SocketSettings) -> Result<Socket, Fault> {
        self.with(|world| world.connect_udp(self.host, to, settings)).map(|id| self.socket(id))
    }

    fn udp_beside(&self, _: &Socket, path: &Path, settings: &SocketSettings) -> Result<Socket, Fault> {
        self.with(|world| world.udp_beside(self.host, path, settings)).map(|id| self.socket(id))
    }

    fn pin(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn precise_timers(&self) {}

    fn realtime(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock_memory(&self) -> io::Result<()> {
        Ok(())
    }

    fn has(&self, defect: Defect) -> bool {
        self.with(|world| world.defect == Some(defect))
    }

    fn yield_core(&self) {
        self.with(|world| world.charge(Call::Yield, 0));
    }
}

/// A host's clocks.
#[derive(Clone)]
pub struct SimClock(Sim);

impl Clock for SimClock {
    fn now(&self) -> Mono {
        self.0.with(|world| world.charge(Call::Clock, 0))
    }

    fn sample(&self) -> metrics::Clock {
        self.0.with(|world| {
            let now = world.charge(Call::Clock, 0);
            world.hosts[self.0.host].quirks.clock(now)
        })
    }
}

/// What a simulated thread waits with.
pub struct SimReactor {
    sim: Sim,
    pub(super) id: usize,
}

impl Reactor for SimReactor {
    type Waker = SimWaker;

    fn waker(&self) -> SimWaker {
        SimWaker { sim: self.sim.clone(), reactor: self.id }
    }

    fn woken(&self) -> bool {
        self.sim.with(|world| {
            let now = world.time();
            let rung = &mut world.reactors[self.id].rung;
            let before = rung.len();
            rung.retain(|at| *at > now);
            rung.len() < before
        })
    }

    /// Also true when another thread is behind this one in virtual time, so that a loop that polls
    /// this ends and the other runs.
    fn rung(&self) -> bool {
        self.sim.with(|world| {
            let now = world.time();
            world.is_ahead() || world.reactors[self.id].rung.iter().any(|at| *at <= now)
        })
    }
}

#[derive(Clone)]
pub struct SimWaker {
    sim: Sim,
    reactor: usize,
}

impl Wake for SimWaker {
    fn wake(&self) {
        self.sim.with(|world| {
            let now = world.charge(Call::Wake, 0);
            let most = world.hosts[self.sim.host].quirks.threads;
            let rings = now.plus(world.rng.between(0, most));
            let state = &mut world.reactors[self.reactor];
            if state.rung.iter().all(|rung| *rung < now) {
                state.rung.push(now);
            }
            if !state.bells.iter().any(|bell| (now..=rings).contains(bell)) {
                state.bells.push(rings);
                world.push(rings, Event::Ring(self.reactor));
            }
        });
    }
}

struct Mailbox<T> {
    messages: BTreeMap<(Mono, u64), T>,
    sent: u64,
    senders: usize,
    closed: bool,
}

const ONE_MESSAGE: Held = Held { links: 0, timers: 0, messages: 1, bytes: 0 };

/// The sending end of a mailbox. As on a real system, a message is there when what the sender does
/// next can be seen; what may take long is the wake.
pub struct SimSender<T> {
    sim: Sim,
    mailbox: Arc<Mutex<Mailbox<T>>>,
}

impl<T> Clone for SimSender<T> {
    fn clone(&self) -> Self {
        lock(&self.mailbox).senders += 1;
        SimSender { sim: self.sim.clone(), mailbox: Arc::clone(&self.mailbox) }
    }
}

impl<T> Drop for SimSender<T> {
    fn drop(&mut self) {
        lock(&self.mailbox).senders -= 1;
    }
}

impl<T: Send> Sender<T> for SimSender<T> {
    fn send(&self, message: T) {
        if lock(&self.mailbox).closed {
            return;
        }
        let at = self.sim.with(|world| {
            world.keep(self.sim.process, Held::default(), ONE_MESSAGE);
            *world.sent.entry(self.sim.process).or_default() += 1;
            world.charge(Call::Mail, 0)
        });
        let mut mailbox = lock(&self.mailbox);
        mailbox.sent += 1;
        let number = mailbox.sent;
        mailbox.messages.insert((at, number), message);
    }
}

/// The receiving end of a mailbox.
pub struct SimReceiver<T> {
    sim: Sim,
    mailbox: Arc<Mutex<Mailbox<T>>>,
}

impl<T: Send> Receiver<T> for SimReceiver<T> {
    fn try_recv(&self) -> Mail<T> {
        let now = self.sim.with(|world| world.charge(Call::Mail, 0));
        let mut mailbox = lock(&self.mailbox);
        let senders = mailbox.senders;
        match mailbox.messages.first_entry() {
            Some(entry) if entry.key().0 <= now => {
                self.sim.with(|world| world.keep(self.sim.process, ONE_MESSAGE, Held::default()));
                Mail::Message(entry.remove())
            }
            None if senders == 0 => Mail::Closed,
            _ => Mail::Empty,
        }
    }
}

impl<T> Drop for SimReceiver<T> {
    fn drop(&mut self) {
        let mut mailbox = lock(&self.mailbox);
        mailbox.closed = true;
        let lost = std::mem::take(&mut mailbox.messages);
        drop(mailbox);
        let messages = Held { messages: lost.len(), ..Held::default() };
        self.sim.with(|world| world.keep(self.sim.process, messages, Held::default()));
        drop(lost);
    }
}

pub struct SimJoin {
    sim: Sim,
    thread: usize,
}

impl Join for SimJoin {
    /// The others run until it is over. A panic in it is one of the test.
    fn join(self) -> bool {
        run::join(&self.sim.world, self.thread);
        true
    }
}
