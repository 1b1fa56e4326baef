//! The contract between a protocol and its sockets.
//!
//! `wire` implements [`Flow`], [`Connector`], [`Acceptor`] and [`Session`]; `io` fills a [`Received`] and empties a [`Transmit`]; `engine` and
//! `wire::sim` join them through [`turn()`]. Neither side sees the other, and nothing here knows a socket, reads a clock
//! or holds protocol state. The figures and the reasons behind this shape are in ARCHITECTURE.md, "The transport".
#![forbid(unsafe_code)]

#[cfg(feature = "conformance")]
pub mod conformance;
mod fault;
mod flow;
mod platform;
mod session;
mod sockets;
mod transmit;
mod turn;

pub use fault::{Cause, Deed, Fault, Violation};
pub use flow::{
    Acceptor, Connector, Context, End, Flow, FlowEvent, FlowId, Interest, LinkSource, Message, Open, Path,
    Read, Rng, Sent, Target, When,
};
pub use platform::{
    Clock, DatagramSocket, Defect, Held, Join, LONGEST_DATAGRAM, ListenerSocket, Mail, Park, Platform,
    Reactor, Ready, Receiver, Sender, StreamSocket, Task, Wake, Watch,
};
pub use session::{Action, GroupPlan, Input, Key, Link, Order, Session, WHEN_TOLD, Wait};
pub use sockets::{StreamEffective, StreamSettings, UdpEffective, UdpSettings};
pub use transmit::{Arena, Piece, Received, Transmit};
pub use turn::{Can, Got, Net, Scratch, Turn, turn};
