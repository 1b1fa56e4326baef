//! UDP sockets: plain ones, and those that flows have, with generic segmentation and receive offload, traffic class, time
//! to live, local address, overflow counter and kernel stamps, as far as the system really delivers them.

mod ability;
#[cfg(target_os = "linux")]
mod asked;
mod net;
mod plain;
mod settings;
mod socket;
#[cfg(target_os = "linux")]
mod wire;

pub use ability::{Ability, ability};
pub use net::{UdpMemory, UdpNet};
pub use plain::Datagrams;
pub use settings::{UdpEffective, UdpSettings};
pub use socket::Udp;

/// The longest payload of a datagram, or of a run of them in one send or receive call, bytes: what IPv4 leaves of 64 KiB.
pub const LONGEST: usize = 65_507;

#[cfg(test)]
mod tests;
