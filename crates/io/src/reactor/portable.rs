//! The reactor on every other system, over the `polling` crate.

use super::{Rung, Watchable};
use crate::Clock;
use metrics::{Clamped, Mono};
use polling::{Event, Events, PollMode, Poller};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use transport::{Reactor as _, Ready, Trigger, Wake};

#[cfg(unix)]
type Raw = std::os::fd::RawFd;
#[cfg(windows)]
type Raw = std::os::windows::io::RawSocket;

/// Waits for sockets, for an instant, or for a [`Waker`]. One thread's.
#[derive(Debug)]
pub struct Reactor {
    events: Events,
    pub(super) waker: Waker,
    /// The sockets that are watched. One that is closed unforgotten would stay: on Windows
    /// `polling` then waits for itself for ever (its `feed_event` locks a socket's state twice when
    /// that is closed), on Linux the registration of the next one of its number fails, so that
    /// tests find the mistake.
    watched: RefCell<HashSet<Raw>>,
}

impl Reactor {
    /// A reactor that watches nothing yet.
    pub fn new() -> io::Result<Self> {
        let bell = Bell { rung: Rung::default(), poller: Poller::new()?, posted: Mutex::default() };
        Ok(Reactor { events: Events::new(), waker: Waker(Arc::new(bell)), watched: RefCell::default() })
    }

    /// Reports `what` under `key` at this trigger: at edges once, until [`Reactor::rearm`] asks for
    /// more. Watching again changes both.
    ///
    /// # Errors
    /// When the system refuses, or `key` is `u64::MAX`.
    pub fn watch(&self, what: &impl Watchable, key: u64, trigger: Trigger) -> io::Result<()> {
        let interest = Event::new(event_key(key)?, true, trigger == Trigger::Edges);
        let mode = if trigger == Trigger::Level { PollMode::Level } else { PollMode::Oneshot };
        let source = raw(what);
        if self.watched.borrow().contains(&source) {
            return self.poller().modify_with_mode(what, interest, mode);
        }
        // SAFETY: `Watchable` demands that a watched object is forgotten before it is closed.
        // Should a caller fail to do so, events of a reused descriptor would be reported under an
        // old key; no memory is at stake.
        let added = unsafe { self.poller().add_with_mode(source, interest, mode) };
        match added {
            Ok(()) => drop(self.watched.borrow_mut().insert(source)),
            // The object may have been entered before the system refused to watch it.
            Err(_) => drop(self.poller().delete(what)),
        }
        added
    }

    /// Asks for the next event after one was reported.
    ///
    /// # Errors
    /// When `what` is not watched.
    pub fn rearm(&self, what: &impl Watchable, key: u64, read: bool, write: bool) -> io::Result<()> {
        self.poller().modify(what, Event::new(event_key(key)?, read, write))
    }

    /// Stops watching; must be done before `what` is closed.
    ///
    /// # Errors
    /// When `what` is not watched.
    pub fn forget(&self, what: &impl Watchable) -> io::Result<()> {
        if !self.watched.borrow_mut().remove(&raw(what)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.poller().delete(what)
    }

    /// Stops watching an object before it is closed, if it is watched.
    pub fn before_close(&self, what: &impl Watchable) {
        // Only watched objects need to be forgotten.
        let _ = self.forget(what);
    }

    /// Waits until a descriptor is ready, a waker wakes this thread or `until` is reached, and
    /// replaces the contents of `out` with the ready ones. `None` waits for ever; an instant that
    /// is past only looks. Never returns empty-handed before `until`, but for wakers.
    ///
    /// # Errors
    /// When the system refuses, which it has no reason to.
    pub fn wait(&mut self, until: Option<Mono>, clock: &Clock, out: &mut Vec<Ready>) -> io::Result<()> {
        out.clear();
        #[cfg(target_os = "linux")]
        debug_assert!(
            self.watched.borrow().iter().all(|socket| crate::sys::linux::is_open(*socket)),
            "a socket was closed while it was watched"
        );
        loop {
            let left = until.map(|until| clock.until(until));
            let left = if self.bell().posted().is_empty() { left } else { Some(0) };
            self.events.clear();
            match self.waker.0.poller.wait(&mut self.events, left.map(Duration::from_nanos)) {
                Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
                _ => {}
            }
            out.extend(self.events.iter().map(|event| ready(&event)));
            let posted = std::mem::take(&mut *self.bell().posted());
            out.extend(posted.into_iter().map(|(key, (readable, writable))| Ready {
                key,
                readable,
                writable,
                hangup: false,
            }));
            // Time-outs of the system are whole milliseconds, and a notice may be left of a wake
            // that was reported already.
            if self.woken() || !out.is_empty() || until.is_some_and(|until| clock.until(until) == 0) {
                return Ok(());
            }
        }
    }

    /// The bell by which sockets unknown to the system report that they are ready.
    pub(crate) fn bell(&self) -> &Arc<Bell> {
        &self.waker.0
    }

    fn poller(&self) -> &Poller {
        &self.waker.0.poller
    }
}

fn raw(what: &impl Watchable) -> Raw {
    #[cfg(unix)]
    return std::os::fd::AsRawFd::as_raw_fd(&what.as_fd());
    #[cfg(windows)]
    std::os::windows::io::AsRawSocket::as_raw_socket(&what.as_socket())
}

fn ready(event: &Event) -> Ready {
    let failed = event.is_err() == Some(true);
    let hangup = failed || event.is_interrupt();
    Ready {
        key: u64::clamped(event.key),
        readable: hangup || event.readable,
        writable: failed || event.writable,
        hangup,
    }
}

/// The key as `polling` has it, which keeps `usize::MAX` for itself.
fn event_key(key: u64) -> io::Result<usize> {
    let key = usize::try_from(key).map_err(|_| io::ErrorKind::InvalidInput)?;
    if key == usize::MAX { Err(io::ErrorKind::InvalidInput.into()) } else { Ok(key) }
}

/// Makes a [`Reactor`]'s wait return, from any thread. Writes before a wake are visible after the
/// wait.
#[derive(Clone, Debug)]
pub struct Waker(pub(super) Arc<Bell>);

/// Ends a wait from outside.
#[derive(Debug)]
pub(crate) struct Bell {
    pub(super) rung: Rung,
    poller: Poller,
    /// Readable, writable: of sockets that share one of the system's, by their keys.
    posted: Mutex<BTreeMap<u64, (bool, bool)>>,
}

impl Bell {
    /// Reports under `key` with the next wait, and ends the present one.
    pub(crate) fn post(&self, key: u64, readable: bool, writable: bool) {
        let mut posted = self.posted();
        let ready = posted.entry(key).or_default();
        *ready = (ready.0 || readable, ready.1 || writable);
        drop(posted);
        // A report that ends no wait is returned with the next event.
        let _ = self.poller.notify();
    }

    /// Takes back a report that no wait has returned.
    pub(crate) fn take_back(&self, key: u64) {
        self.posted().remove(&key);
    }

    fn posted(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, (bool, bool)>> {
        self.posted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Waker {
    /// Costs next to nothing while an earlier wake is still pending.
    fn wake(&self) {
        if !self.0.rung.0.swap(true, Ordering::AcqRel) && self.0.poller.notify().is_err() {
            // The wake failed: the next one must try again.
            self.0.rung.0.store(false, Ordering::Release);
        }
    }
}
