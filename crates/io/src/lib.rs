//! The kernel: clock, reactor, sockets and their options, threads, name resolution.
//!
//! The only crate with unsafe code; all of it is in `sys`, one system call a function. Abilities of Linux alone have a portable fallback or answers `None`
//! or "unsupported" elsewhere. Nothing here knows a protocol: [`System`] implements
//! [`transport::Platform`], and the engine joins its sockets to flows.
#![expect(unsafe_code, reason = "system calls that std and socket2 do not offer")]

pub mod card;
pub mod clock;
pub mod host;
pub mod keys;
#[cfg(target_os = "linux")]
pub mod netns;
pub mod process;
pub mod reactor;
pub mod resolve;
#[cfg(target_os = "linux")]
pub mod signals;
pub mod system;
pub mod tcp;
pub mod thread;
#[cfg(target_os = "linux")]
pub mod tun;
pub mod udp;
#[cfg(target_os = "linux")]
pub mod workers;

mod sys;
#[cfg(test)]
mod testing;

/// The address is in use, as the system numbers it.
#[cfg(unix)]
pub const IN_USE: i32 = libc::EADDRINUSE;
/// The address is in use, as the system numbers it.
#[cfg(not(unix))]
pub const IN_USE: i32 = 10_048;

pub use clock::Clock;
pub use keys::{Called, Keys};
pub use reactor::{Reactor, Waker, Watchable};
pub use system::{System, drive};
pub use tcp::{Listener, Stream, TcpNet};
pub use udp::{Udp, UdpMemory, UdpNet};
