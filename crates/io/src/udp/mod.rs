//! UDP sockets of flows, with generic segmentation and receive offload, traffic class, time to
//! live, local address, overflow counter and kernel stamps, where the system really delivers them.

mod ability;
mod net;
#[cfg(target_os = "linux")]
mod pending_stamps;
mod settings;
#[cfg(any(not(target_os = "linux"), feature = "portable"))]
mod shared;
mod socket;
#[cfg(target_os = "linux")]
mod wire;

pub(crate) use ability::known_ability;
pub use ability::{Ability, ability};
pub use net::{UdpMemory, UdpNet};
pub use socket::Udp;

#[cfg(test)]
mod tests;
