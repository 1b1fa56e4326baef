//! UDPmon 1.5.2: `udpmon_bw_mon`, `udpmon_req`, `udpmon_send`, `udpmon_recv` and `udpmon_resp`.
//!
//! Letters and columns are the originals'. Figures are right where the originals' formulas are not (`docs/protocols/udpmon.md`);
//! `--as-original` takes their arithmetic. Calibrations of clocks that this program does not need are not printed.

mod args;
mod help;
pub(crate) mod import;
mod line;
mod print;
mod read;
mod recv;
mod saved;
mod tables;
mod tcp;
mod tcp_watch;

pub use args::{Program, Spec, read};
pub use help::usage;
pub use print::Printer;
pub use saved::print;
