//! Waiting for sockets, for an instant, or for another thread.
//!
//! On Linux: epoll, edge triggered, with nanosecond time-outs. Elsewhere the `polling` crate, one
//! event at a time: after each event on a watched socket, [`Reactor::rearm`] asks for the next (on
//! Linux that is free and does nothing). The feature `portable` has Linux do as the other systems,
//! so that their ways are tested here.

#[cfg(target_os = "linux")]
#[cfg_attr(
    feature = "portable",
    expect(dead_code, unreachable_pub, reason = "the portable one takes its place")
)]
mod epoll;
#[cfg(any(not(target_os = "linux"), feature = "portable"))]
mod portable;

#[cfg(all(target_os = "linux", not(feature = "portable")))]
pub use epoll::{Reactor, Waker};
#[cfg(any(not(target_os = "linux"), feature = "portable"))]
pub(crate) use portable::Bell;
#[cfg(any(not(target_os = "linux"), feature = "portable"))]
pub use portable::{Reactor, Waker};
use std::sync::atomic::{AtomicBool, Ordering};

/// True while a wake is pending: another would change nothing.
#[derive(Debug, Default)]
struct Rung(AtomicBool);

impl Rung {
    /// Takes the pending wake away; whether there was one.
    #[inline]
    fn take(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::AcqRel)
    }
}

impl transport::Reactor for Reactor {
    type Waker = Waker;

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    #[inline]
    fn woken(&self) -> bool {
        self.waker.0.rung.take()
    }

    #[inline]
    fn rung(&self) -> bool {
        self.waker.0.rung.0.load(Ordering::Relaxed)
    }
}

/// Something a [`Reactor`] can wait for: this crate's sockets, or any other descriptor.
///
/// Without edges it must be taken out ([`Reactor::forget`], [`Reactor::before_close`]) before it is
/// closed.
#[cfg(unix)]
pub trait Watchable: std::os::fd::AsFd {}
#[cfg(unix)]
impl<T: std::os::fd::AsFd> Watchable for T {}

/// Something a [`Reactor`] can wait for: this crate's sockets, or any other socket.
///
/// An object must be taken out ([`Reactor::forget`], [`Reactor::before_close`]) before it is
/// closed.
#[cfg(windows)]
pub trait Watchable: std::os::windows::io::AsSocket {}
#[cfg(windows)]
impl<T: std::os::windows::io::AsSocket> Watchable for T {}

#[cfg(test)]
mod tests;
