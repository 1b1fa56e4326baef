//! The engine on this system: needs of a client or a server besides its session.
#![forbid(unsafe_code)]

mod client;
mod host;
mod keys;
mod machine;
mod processes;
mod reach;
mod server;
mod session;
mod texts;

pub use client::{begin, check, resolve_targets, run, run_id};
pub use engine::{EngineError, Interrupt};
pub use host::{ThisHost, is_ours, local_for, random};
pub use io::card::permit_change as permit_card_change;
pub use io::host::{abilities, local_addresses, rlimit_nofile, snapshot};
pub use io::process::{EndRequest, ask_to_end, on_end_request};
pub use io::process::{fail_writes_beyond_limit, read_hidden, terminal_columns, to_background};
pub use io::resolve::{address, check_scope};
pub use io::thread::available as usable_cores;
pub use io::{Called, Keys};
pub use keys::interrupt_by_any_key;
pub use machine::{CpuMeter, wall_now};
pub use processes::{WORKER_PROCESS, WorkerSettings, be_worker, processes_for};
pub use reach::{connecting, hello};
pub use server::{Bound, admission_beside, most_sent_to};
pub use transport::admission::Admission;
