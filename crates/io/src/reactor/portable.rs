//! The reactor on every other system, over the `polling` crate.

use super::Watchable;
use crate::Clock;
use metrics::{Clamped, Mono};
use polling::{Event, Events, PollMode, Poller};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use transport::{Reactor as _, Ready, Wake};

/// Waits for sockets, for an instant, or for a [`Waker`]. One thread's.
#[derive(Debug)]
pub struct Reactor {
    events: Events,
    waker: Waker,
}

impl Reactor {
    /// A reactor that watches nothing yet.
    pub fn new() -> io::Result<Self> {
        let bell = Bell { rung: AtomicBool::new(false), poller: Poller::new()? };
        Ok(Reactor { events: Events::new(), waker: Waker(Arc::new(bell)) })
    }

    /// Reports under `key` when `what` is readable or writable: once, until [`Reactor::rearm`] asks for more. Watching
    /// again changes the key.
    ///
    /// # Errors
    /// When the system refuses, or `key` is `u64::MAX`.
    pub fn watch(&self, what: &impl Watchable, key: u64) -> io::Result<()> {
        self.register(what, key, true, PollMode::Oneshot)
    }

    /// The same for readability alone.
    pub fn watch_reading(&self, what: &impl Watchable, key: u64) -> io::Result<()> {
        self.register(what, key, false, PollMode::Oneshot)
    }

    /// Reports under `key` at every wait for as long as `what` (a listener) is readable; needs no rearming.
    pub fn watch_level(&self, what: &impl Watchable, key: u64) -> io::Result<()> {
        self.register(what, key, false, PollMode::Level)
    }

    /// Asks for the next event after one was reported.
    ///
    /// # Errors
    /// When `what` is not watched.
    pub fn rearm(&self, what: &impl Watchable, key: u64, read: bool, write: bool) -> io::Result<()> {
        self.poller().modify(what, Event::new(event_key(key)?, read, write))
    }

    /// Stops watching; must be done before `what` is closed.
    pub fn forget(&self, what: &impl Watchable) -> io::Result<()> {
        self.poller().delete(what)
    }

    /// Waits until a descriptor is ready, a waker wakes this thread or `until` has come, and replaces the contents of
    /// `out` with what is ready. `None` waits for ever; an instant that is past only looks. May return early and empty.
    ///
    /// # Errors
    /// When the system refuses, which it has no reason to.
    pub fn wait(&mut self, until: Option<Mono>, clock: &Clock, out: &mut Vec<Ready>) -> io::Result<()> {
        out.clear();
        self.events.clear();
        let timeout = until.map(|until| Duration::from_nanos(clock.until(until)));
        match self.waker.0.poller.wait(&mut self.events, timeout) {
            Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
            _ => {}
        }
        out.extend(self.events.iter().map(|event| {
            let failed = event.is_err() == Some(true);
            let hangup = failed || event.is_interrupt();
            Ready {
                key: u64::clamped(event.key),
                readable: hangup || event.readable,
                writable: failed || event.writable,
                hangup,
            }
        }));
        self.woken();
        Ok(())
    }

    fn poller(&self) -> &Poller {
        &self.waker.0.poller
    }

    fn register(&self, what: &impl Watchable, key: u64, write: bool, mode: PollMode) -> io::Result<()> {
        let interest = Event::new(event_key(key)?, true, write);
        #[cfg(unix)]
        let source = std::os::fd::AsRawFd::as_raw_fd(&what.as_fd());
        #[cfg(windows)]
        let source = std::os::windows::io::AsRawSocket::as_raw_socket(&what.as_socket());
        // SAFETY: `Watchable` demands that what is watched is forgotten before it is closed. Should a caller fail to do
        // so, events of a reused descriptor would come under an old key; no memory is at stake.
        match unsafe { self.poller().add_with_mode(source, interest, mode) } {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                self.poller().modify_with_mode(what, interest, mode)
            }
            result => result,
        }
    }
}

impl transport::Reactor for Reactor {
    type Waker = Waker;

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    #[inline]
    fn woken(&self) -> bool {
        let rung = &self.waker.0.rung;
        rung.load(Ordering::Relaxed) && rung.swap(false, Ordering::AcqRel)
    }

    #[inline]
    fn rung(&self) -> bool {
        self.waker.0.rung.load(Ordering::Relaxed)
    }
}

/// The key as `polling` has it, which keeps `usize::MAX` for itself.
fn event_key(key: u64) -> io::Result<usize> {
    let key = usize::try_from(key).map_err(|_| io::ErrorKind::InvalidInput)?;
    if key == usize::MAX { Err(io::ErrorKind::InvalidInput.into()) } else { Ok(key) }
}

/// Makes a [`Reactor`]'s wait return, from any thread. What was written before a wake is seen after the wait.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Bell>);

#[derive(Debug)]
struct Bell {
    /// Rung, and not yet heard: another ring would change nothing.
    rung: AtomicBool,
    poller: Poller,
}

impl Wake for Waker {
    /// Costs next to nothing while an earlier wake is still pending.
    fn wake(&self) {
        if !self.0.rung.swap(true, Ordering::AcqRel) && self.0.poller.notify().is_err() {
            // The wake failed: the next one must try again.
            self.0.rung.store(false, Ordering::Release);
        }
    }
}
