//! The system's values for a UDP socket.

use model::Effective;

/// The system's values for a UDP socket; `None` where it reports none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UdpEffective {
    /// Options that sockets of either kind have.
    pub options: Effective,
    /// Path MTU as the kernel knows it, bytes; only of connected sockets. Linux.
    pub mtu: Option<u32>,
    /// Most datagrams in one send.
    pub segments: usize,
    /// True if the kernel merges datagrams for a receive.
    pub gro: bool,
    /// True if the kernel stamps arrivals.
    pub stamps: bool,
    /// Why the card's stamps are not used, where they were asked for and the process may change
    /// cards: one sentence.
    pub no_card: Option<String>,
}
