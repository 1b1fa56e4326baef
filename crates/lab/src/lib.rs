//! An impaired path with known truth, for measurements to be compared with.
//!
//! Two network namespaces are joined through TUN devices and a forwarder that applies, per
//! direction and from a seed: delay, jitter, a limited rate with a finite queue, loss, duplication,
//! reordering, corruption, outages, stalls, MTU, DSCP and ECN ([`Path`]). The forwarder counts each
//! effect as it applies it ([`Truth`], [`TraceRow`]), so that the truth is the applied path and not
//! the requested one; packets that the kernel dropped at the devices are in it, too. Routers may
//! stand on the path ([`Hop`]), each with a link of its own.
//!
//! ```no_run
//! use lab::{Lab, Path, Setup, Side};
//! use std::net::UdpSocket;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let up = Path { delay_ns: 20_000_000, loss: 0.005, ..Path::default() };
//! let lab = Lab::new(Setup { up, seed: 7, ..Setup::default() })?;
//! let server = lab.within(Side::Server, || UdpSocket::bind((Side::Server.ipv4(), 7000)))?;
//! let client = lab.within(Side::Client, || UdpSocket::bind((Side::Client.ipv4(), 0)))?;
//! client.send_to(b"hello", server.local_addr()?)?;
//! # let _ = lab.settle(std::time::Duration::from_secs(1));
//! let truth = lab.finish()?.truth;
//! assert_eq!(truth.up.counts.arrived, 1);
//! # Ok(()) }
//! ```
//!
//! The fate of packet n is arithmetic (`impair`) with the time as an argument, tested without a
//! clock. The clock, the devices and the namespaces are `io`'s. Any number of labs can stand at
//! once: their namespaces have no names and their addresses never leave these.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "the arithmetic is there, but nothing to drive it")
)]

mod chance;
#[cfg(target_os = "linux")]
mod forward;
mod grammar;
mod hop;
mod icmp;
mod impair;
mod nat;
mod network;
mod order;
mod packet;
mod queue;
#[cfg(target_os = "linux")]
mod rig;
#[cfg(target_os = "linux")]
mod run;
mod setup;
mod trace;
mod truth;

pub use grammar::{KEYS, Key};
pub use hop::{Choice, Hop, IcmpRate, MOST_HOPS, MOST_WAYS, Router};
pub use impair::Verdict;
pub use nat::Nat;
pub use order::Reordering;
#[cfg(target_os = "linux")]
pub use rig::Lab;
#[cfg(target_os = "linux")]
pub use run::{Finished, Job, run};
pub use setup::{
    Behind, Bottleneck, Bursts, Corrupt, Duplicate, HOLD_NS, Jitter, LONGEST_NS, Limit, MOST_BITS,
    MOST_COPIES, Mtu, Only, Path, PathMtu, Reorder, Setup, Shape, Trace, Wait, Window,
};
pub use trace::{Class, TraceRow, Way, Ways};
pub use truth::{
    Counts, Device, Direction, Flow, HopTruth, IcmpCounts, LinkCounts, SCHEMA, Truth, WayTruth, Worker,
};

use std::net::{Ipv4Addr, Ipv6Addr};

/// The two ends of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The side of the command.
    Client,
    Server,
}

impl Side {
    /// Bits of the IPv4 network that both are in, and the routers of the hops.
    pub const PREFIX4: u8 = 16;
    /// Bits of the IPv6 network that both are in, and the routers of the hops.
    pub const PREFIX6: u8 = 64;

    /// `client` or `server`.
    pub fn name(self) -> &'static str {
        match self {
            Side::Client => "client",
            Side::Server => "server",
        }
    }

    /// Its IPv4 address.
    pub const fn ipv4(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, 0, 1 + self as u8)
    }

    /// Its IPv6 address (RFC 4193).
    pub const fn ipv6(self) -> Ipv6Addr {
        Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1 + self as u16)
    }
}

/// A random seed, short enough to be typed again.
pub fn seed() -> u64 {
    io::clock::entropy() >> 32
}

#[derive(Debug)]
pub struct LabResult {
    pub truth: Truth,
    /// Single packets, with [`Trace::Keep`].
    pub rows: Vec<TraceRow>,
}

/// Why there is no lab, or no truth.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A condition that cannot be.
    #[error("{0}")]
    Setting(String),
    /// The privilege is missing.
    #[error(
        "a lab needs the right to make network namespaces and TUN devices: root, or CAP_SYS_ADMIN and CAP_NET_ADMIN"
    )]
    Denied,
    /// The kernel has no TUN devices.
    #[error("a lab needs TUN devices, and this system has no /dev/net/tun")]
    NoTun,
    /// Not Linux.
    #[error("a lab needs the network namespaces of Linux")]
    NoLinux,
    /// The forwarder's thread is gone.
    #[error("the lab's forwarder has failed")]
    Forwarder,
    /// The system said no.
    #[error("{what}: {error}")]
    System {
        /// The action that failed.
        what: &'static str,
        /// The system's error.
        error: std::io::Error,
    },
}

impl LabError {
    /// Adds the action to the system's error.
    fn system(what: &'static str) -> impl Fn(std::io::Error) -> LabError {
        move |error| LabError::System { what, error }
    }
}
