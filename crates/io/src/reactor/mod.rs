//! Waiting for sockets, for an instant, or for another thread.
//!
//! On Linux: epoll, edge triggered, with nanosecond time-outs. Elsewhere the `polling` crate, one event at a time: after
//! each event on a watched socket, [`Reactor::rearm`] asks for the next (on Linux that is free and does nothing).

#[cfg(target_os = "linux")]
mod epoll;
#[cfg(not(target_os = "linux"))]
mod portable;

#[cfg(target_os = "linux")]
pub use epoll::{Reactor, Waker};
#[cfg(not(target_os = "linux"))]
pub use portable::{Reactor, Waker};

/// Something a [`Reactor`] can wait for: this crate's sockets, or any other descriptor.
///
/// Outside Linux it must be taken out with [`Reactor::forget`] before it is closed; on Linux closing is enough.
#[cfg(unix)]
pub trait Watchable: std::os::fd::AsFd {}
#[cfg(unix)]
impl<T: std::os::fd::AsFd> Watchable for T {}

/// Something a [`Reactor`] can wait for: this crate's sockets, or any other socket.
///
/// Outside Linux it must be taken out with [`Reactor::forget`] before it is closed; on Linux closing is enough.
#[cfg(windows)]
pub trait Watchable: std::os::windows::io::AsSocket {}
#[cfg(windows)]
impl<T: std::os::windows::io::AsSocket> Watchable for T {}

#[cfg(test)]
mod tests;
