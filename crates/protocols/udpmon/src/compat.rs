//! UDPmon 1.5.2: `udpmon_bw_mon`, `udpmon_req`, `udpmon_send`, `udpmon_recv` and `udpmon_resp`.
//!
//! Letters and columns are the originals'. Figures are right where the originals' formulas are not
//! (`docs/protocols/udpmon.md`); `--as-original` takes their arithmetic. Calibrations of clocks
//! that this program does not need are not printed.

mod args;
mod help;
mod import;
mod line;
mod print;
mod read;
mod recv;
mod run;
mod saved;
mod tables;
mod tcp;

use ::compat::Importer;
use ::compat::import::NOWHERE;
use args::{Program, Spec, read};
use common::Original;
use help::usage;
use print::Printer;
use saved::print;

/// A row for one of the programs.
macro_rules! program {
    ($name:literal, $program:ident, $about:literal) => {
        Original {
            name: $name,
            about: $about,
            run: |arguments, driver| run::run(Program::$program, arguments, driver),
            print: |outcome, events| print(Program::$program, outcome, events),
            tables: None,
        }
    };
}

/// UDPmon's programs.
pub(crate) const ORIGINALS: &[Original] = &[
    program!(
        "udpmon_bw_mon",
        BwMon,
        "Be UDPmon's udpmon_bw_mon: its stream of packets, and the responder's results"
    ),
    program!("udpmon_req", Req, "Be UDPmon's udpmon_req: its requests and responses"),
    program!("udpmon_send", Send, "Be UDPmon's udpmon_send: its stream of packets without a word"),
    program!("udpmon_recv", Recv, "Be UDPmon's udpmon_recv: its receiver"),
    program!("udpmon_resp", Resp, "Be UDPmon's udpmon_resp: its responder, for any number at once"),
];

/// tcpmon's.
pub(crate) const TCPMON: &[Original] = &[
    program!("tcpmon_mon", TcpMon, "Be tcpmon's tcpmon_mon: its messages over TCP"),
    program!("tcpmon_resp", TcpResp, "Be tcpmon's tcpmon_resp: its responder, for any number at once"),
];

/// Importers of all their printouts.
pub(crate) const IMPORTERS: &[Importer] = &[Importer {
    name: "udpmon_bw_mon, udpmon_req, udpmon_recv, tcpmon_mon",
    read: import::read,
    begins: NOWHERE,
}];
