//! RtTcpipClient and RtTcpipServer, samples of IntervalZero's RTX: their command lines and the client's printout.
//!
//! On the wire they are plain echo over TCP or UDP, which any echo service speaks.

mod args;
mod help;
mod print;
mod sums;

pub use args::{Client, Server, read_client, read_server};
pub use help::{CLIENT, SERVER};
pub use print::{Printer, print};
