//! The contract between a protocol and its sockets.
//!
//! A protocol implements [`Flow`], [`Connector`], [`Acceptor`] and [`Session`]; `io` and `sim` fill
//! a [`Received`] and empty a [`Transmit`]; `engine` joins them through [`turn()`]. Neither side
//! sees the other, and nothing here knows a socket, reads a clock or holds protocol state.
//!
//! Costs on a two-core machine: `interest` 1.3 ns, a call through `Box<dyn Flow>` 6 ns, a datagram
//! from a template 0.6 ns. Headers and payload as separate pieces would cost a quarter to a half of
//! the rate of small datagrams. A system call is at least 110 ns, so a turn is dominated by the
//! kernel from the first byte on.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod admission;
mod allowance;
#[cfg(feature = "conformance")]
pub mod conformance;
mod fault;
mod flow;
mod interrupt;
mod patience;
mod platform;
mod session;
mod sockets;
mod transmit;
mod turn;

pub use allowance::{Allowance, Clients, Curb, Direction, LinkBudget, Terms};
pub use fault::{Cause, Checked, Deed, FIREWALL, Fault, Violation};
pub use flow::{
    Acceptor, Connector, Context, End, Flow, FlowEvent, FlowId, Interest, LinkSource, Message, Open, Path,
    Read, Rng, Sent, Target, When,
};
pub use interrupt::{Attached, Interrupt};
pub use model::{
    Abilities, Address, CgroupLimits, CpuUse, Descriptors, Effective, FirewallPolicy, HostCounters,
    HostSnapshot, NicSnapshot, Permission, SocketSettings, TrackedConnections, UdpAbility, is_link_local,
    scope_of, with_scope,
};
pub use patience::Patience;
pub use platform::{
    Clock, DatagramSocket, Defect, Held, Join, LONGEST_DATAGRAM, ListenerSocket, Mail, Park, Platform,
    Reactor, Ready, Receiver, Sender, StreamSocket, Task, Trigger, Wake, Watch,
};
pub use session::{Action, GroupPlan, Input, Key, Link, Order, Part, Replica, Session, WHEN_TOLD, Wait};
pub use sockets::UdpEffective;
pub use transmit::{Arena, Piece, Received, Transmit};
pub use turn::{Can, Got, Net, Scratch, Turn, turn};
