//! What the system says of a UDP socket.

use model::Effective;

/// What the system says of a UDP socket; `None` where it does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UdpEffective {
    /// What it says of sockets of either kind.
    pub options: Effective,
    /// Path MTU as the kernel knows it, bytes; only of connected sockets. Linux.
    pub mtu: Option<u32>,
    /// Most datagrams in one send.
    pub segments: usize,
    /// Whether the kernel merges datagrams for a receive.
    pub gro: bool,
    /// Whether the kernel stamps what arrives.
    pub stamps: bool,
    /// Why the card's stamps are not used, where they were asked for and the process may change cards: one sentence.
    pub no_card: Option<String>,
}
