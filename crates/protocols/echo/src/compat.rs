//! RtTcpipClient and RtTcpipServer, samples of IntervalZero's RTX: their command lines and the
//! client's printout.
//!
//! On the wire they are plain echo over TCP or UDP, which any echo service speaks.

mod args;
mod help;
mod print;
mod run;
mod sums;

use args::{Client, Server, read_client, read_server};
use common::Original;
use help::{CLIENT, SERVER};
use print::{Printer, print};

/// Its programs.
pub(crate) const ORIGINALS: &[Original] = &[
    Original {
        name: "rttcpip",
        about: "Be RtTcpip: its client, or, with server as the first argument, its server",
        run: run::run,
        print,
        tables: None,
    },
    Original {
        name: "rttcpipclient",
        about: "Be RtTcpipClient (also when called by that name)",
        run: run::call,
        print,
        tables: None,
    },
    Original {
        name: "rttcpipserver",
        about: "Be RtTcpipServer (also when called by that name)",
        run: run::serve,
        print,
        tables: None,
    },
];
