//! The kernel: clock, reactor, sockets and their options, threads, name resolution.
//!
//! The only crate with unsafe code; all of it that Linux needs is in `sys::linux` and `sys::space`, one system call a function. What only
//! Linux can do has a portable fallback or answers `None` or "unsupported" elsewhere. Nothing here knows a protocol:
//! [`tcp::TcpNet`] and [`udp::UdpNet`] implement [`transport::Net`], and the engine joins them to flows.
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
pub mod tcp;
pub mod thread;
#[cfg(target_os = "linux")]
pub mod tun;
pub mod udp;

mod sys;
#[cfg(test)]
mod testing;

/// The system's error number for "timed out".
#[cfg(target_os = "linux")]
pub const TIMED_OUT: i32 = libc::ETIMEDOUT;
/// The address is in use, as the system numbers it.
#[cfg(target_os = "linux")]
pub const IN_USE: i32 = libc::EADDRINUSE;
/// The system's error number for "timed out".
#[cfg(not(target_os = "linux"))]
pub const TIMED_OUT: i32 = 10_060;
/// The address is in use, as the system numbers it.
#[cfg(not(target_os = "linux"))]
pub const IN_USE: i32 = 10_048;

pub use clock::Clock;
pub use keys::{Called, Keys};
pub use reactor::{Reactor, Ready, Waker, Watchable};
pub use tcp::{Effective, Listener, Settings, Stream, TcpNet};
pub use udp::{Datagrams, Udp, UdpEffective, UdpMemory, UdpNet, UdpSettings};
