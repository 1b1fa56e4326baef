//! The reactor on Linux.

use super::{Rung, Watchable};
use crate::Clock;
use crate::sys::linux;
use libc::{EPOLLERR, EPOLLET, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLRDHUP};
use metrics::Mono;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use transport::{Ready, Trigger, Wake};

/// The key under which the waker is registered.
const WAKER: u64 = u64::MAX;

/// Events taken from the kernel at once; the next wait returns the others, in turn.
const EVENTS: usize = 512;

/// Waits for sockets, for an instant, or for a [`Waker`]. One thread's.
#[derive(Debug)]
pub struct Reactor {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
    pub(super) waker: Waker,
}

impl Reactor {
    /// A reactor that watches nothing yet.
    ///
    /// # Errors
    /// When the process has no descriptors left (two are needed).
    pub fn new() -> io::Result<Self> {
        let epoll = linux::epoll()?;
        let bell = linux::eventfd(libc::EFD_NONBLOCK)?;
        linux::epoll_ctl(&epoll, libc::EPOLL_CTL_ADD, bell.as_fd(), EPOLLIN | EPOLLET, WAKER)?;
        let waker = Waker(Arc::new(Bell { rung: Rung::default(), eventfd: bell.into() }));
        Ok(Reactor { epoll, events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS], waker })
    }

    /// Reports `what` under `key` at this trigger. The next [`Reactor::wait`] reports readiness
    /// that exists already. Watching again changes both and reports anew.
    ///
    /// # Errors
    /// When the kernel refuses, or `key` is `u64::MAX`, which is the reactor's own.
    pub fn watch(&self, what: &impl Watchable, key: u64, trigger: Trigger) -> io::Result<()> {
        let events = match trigger {
            Trigger::Edges => EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
            Trigger::ReadEdges => EPOLLIN | EPOLLRDHUP | EPOLLET,
            Trigger::Level => EPOLLIN,
        };
        if key == WAKER {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        match linux::epoll_ctl(&self.epoll, libc::EPOLL_CTL_ADD, what.as_fd(), events, key) {
            Err(e) if e.raw_os_error() == Some(libc::EEXIST) => {
                linux::epoll_ctl(&self.epoll, libc::EPOLL_CTL_MOD, what.as_fd(), events, key)
            }
            result => result,
        }
    }

    /// Asks for the next event after one was reported; not needed on Linux, where it does nothing.
    ///
    /// # Errors
    /// Never on Linux.
    #[inline]
    pub fn rearm(&self, what: &impl Watchable, key: u64, read: bool, write: bool) -> io::Result<()> {
        let _ = (what, key, read, write);
        Ok(())
    }

    /// Stops watching, as when the socket moves to another worker. Closing a socket does the same.
    pub fn forget(&self, what: &impl Watchable) -> io::Result<()> {
        linux::epoll_ctl(&self.epoll, libc::EPOLL_CTL_DEL, what.as_fd(), 0, 0)
    }

    /// Stops watching a descriptor before it is closed, which closing it does by itself.
    #[inline]
    pub fn before_close(&self, _: &impl Watchable) {}

    /// Waits until a descriptor is ready, a waker wakes this thread, a signal arrives or `until` is
    /// reached, and replaces the contents of `out` with the ready ones (none, in the last three
    /// cases). `None` waits for ever; an instant that is past only looks. Never returns
    /// empty-handed before `until`, but for wakers and signals.
    pub fn wait(&mut self, until: Option<Mono>, clock: &Clock, out: &mut Vec<Ready>) -> io::Result<()> {
        out.clear();
        let ns = until.map(|until| clock.until(until));
        let n = match linux::epoll_wait(&self.epoll, &mut self.events, ns) {
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => 0,
            Err(e) => return Err(e),
        };
        for event in &self.events[..n] {
            let (key, events) = (event.u64, event.events as i32);
            if key == WAKER {
                continue;
            }
            let failed = events & (EPOLLERR | EPOLLHUP) != 0;
            let hangup = failed || events & EPOLLRDHUP != 0;
            out.push(Ready {
                key,
                readable: hangup || events & EPOLLIN != 0,
                writable: failed || events & EPOLLOUT != 0,
                hangup,
            });
        }
        self.waker.0.rung.take();
        Ok(())
    }
}

/// Makes a [`Reactor`]'s wait return, from any thread. Writes before a wake are visible after the
/// wait.
#[derive(Clone, Debug)]
pub struct Waker(pub(super) Arc<Bell>);

#[derive(Debug)]
pub(super) struct Bell {
    pub(super) rung: Rung,
    eventfd: File,
}

impl Wake for Waker {
    /// Costs next to nothing while an earlier wake is still pending.
    fn wake(&self) {
        if !self.0.rung.0.swap(true, Ordering::AcqRel) {
            // The eventfd is registered for edges: each write is one, so that the counter is never
            // read. The counter cannot fill up (2^64 writes), and a write to a valid eventfd has no
            // other way to fail.
            let _ = (&self.0.eventfd).write(&1_u64.to_ne_bytes());
        }
    }
}
