//! The operating system as a [`Platform`], and the loop that drives the engine's threads on it.

use crate::{Clock, Listener, Reactor, Stream, Udp, UdpMemory, Waker, clock, thread};
use metrics::Mono;
use std::io;
use std::sync::mpsc;
use std::thread::{Builder, JoinHandle, sleep, yield_now};
use std::time::Duration;
use transport::{Fault, Park, Path, Platform, SocketSettings, Target, Task, Trigger, Watch};

/// Stack of a thread, bytes.
const STACK: usize = 512 * 1024;

#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Platform for System {
    #[cfg(target_os = "linux")]
    const TIMED_OUT: i32 = libc::ETIMEDOUT;
    #[cfg(not(target_os = "linux"))]
    const TIMED_OUT: i32 = 10_060;

    type Clock = Clock;
    type Waker = Waker;
    type Reactor = Reactor;
    type Stream = Stream;
    type Listener = Listener;
    type Udp = Udp;
    type UdpMemory = UdpMemory;
    type Sender<T: Send + 'static> = mpsc::Sender<T>;
    type Receiver<T: Send + 'static> = mpsc::Receiver<T>;
    type Join = Join;

    fn clock(&self) -> Clock {
        Clock::new()
    }

    fn reactor(&self) -> io::Result<Reactor> {
        Reactor::new()
    }

    fn channel<T: Send + 'static>(&self) -> (mpsc::Sender<T>, mpsc::Receiver<T>) {
        mpsc::channel()
    }

    fn spawn(&self, name: &str, mut task: impl Task<Self> + Send + 'static) -> io::Result<Join> {
        let builder = Builder::new().name(name.to_owned()).stack_size(STACK);
        builder.spawn(move || drive(&mut task)).map(Join)
    }

    fn random(&self) -> u64 {
        clock::entropy()
    }

    #[inline]
    fn connect(&self, to: &Target, settings: &SocketSettings) -> Result<(Stream, bool), Fault> {
        Stream::connect(to, settings)
    }

    #[inline]
    fn connect_udp(&self, to: &Target, settings: &SocketSettings) -> Result<Udp, Fault> {
        Udp::connect(to, settings)
    }

    #[inline]
    fn udp_beside(&self, bound: &Udp, path: &Path, settings: &SocketSettings) -> Result<Udp, Fault> {
        Udp::for_peer(bound, path, settings)
    }

    fn pin(&self, core: usize) -> io::Result<()> {
        thread::pin(&[core])
    }

    fn precise_timers(&self) {
        // Without precise timers, threads wake later.
        let _ = thread::precise_timers();
    }

    fn realtime(&self) -> io::Result<()> {
        thread::realtime()
    }

    fn lock_memory(&self) -> io::Result<()> {
        thread::lock_memory()
    }

    #[inline]
    fn yield_core(&self) {
        yield_now();
    }
}

/// Drives a task on the calling thread to its end.
pub fn drive(task: &mut impl Task<System>) {
    let (clock, mut ready) = (Clock::new(), Vec::new());
    loop {
        match task.step() {
            Park::Run => {}
            Park::Wait(until) => {
                let waited = task.reactor().wait(until, &clock, &mut ready);
                task.resume(waited.map(|()| &mut ready));
            }
            Park::Sleep(until) => sleep(Duration::from_nanos(clock.until(until))),
            Park::Done => return,
        }
    }
}

impl transport::Clock for Clock {
    #[inline]
    fn now(&self) -> Mono {
        Clock::now(self)
    }

    fn sample(&self) -> metrics::Clock {
        Clock::sample(self)
    }
}

macro_rules! watch {
    ($($socket:ty),*) => {$(
        impl Watch<System> for $socket {
            #[inline]
            fn watch(&self, reactor: &Reactor, key: u64, trigger: Trigger) -> io::Result<()> {
                reactor.watch(self, key, trigger)
            }

            #[inline]
            fn rearm(&self, reactor: &Reactor, key: u64, read: bool, write: bool) -> io::Result<()> {
                reactor.rearm(self, key, read, write)
            }

            #[inline]
            fn forget(&self, reactor: &Reactor) -> io::Result<()> {
                reactor.forget(self)
            }

            #[inline]
            fn before_close(&self, reactor: &Reactor) {
                reactor.before_close(self);
            }
        }
    )*};
}

watch!(Stream, Listener);
#[cfg(all(target_os = "linux", not(feature = "portable")))]
watch!(Udp);

#[derive(Debug)]
pub struct Join(JoinHandle<()>);

impl transport::Join for Join {
    fn join(self) -> bool {
        self.0.join().is_ok()
    }
}

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod tests;
