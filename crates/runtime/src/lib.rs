//! The engine on this system: what a client or a server needs besides its session.
#![forbid(unsafe_code)]

mod client;
mod iperf3;
mod keys;
mod machine;
mod ntttcp;
mod place;
mod server;
mod session;
mod texts;

pub use client::{ClientConfig, check, is_ours, is_resolving, resolve_targets, run, run_id, stop_servers};
pub use engine::{EngineError, Interrupt};
pub use io::card::permit_change as permit_card_change;
pub use io::host::{local_addresses, rlimit_nofile};
pub use io::process::{fail_writes_beyond_limit, on_end_asked, read_hidden, terminal_columns, to_background};
pub use io::{Called, Keys};
pub use iperf3::{Iperf3Client, Iperf3Credentials, Iperf3Server, iperf3_keeper};
pub use keys::interrupt_by_any_key;
pub use machine::{CpuMeter, snapshot, wall_now};
pub use ntttcp::send_ntttcp;
pub use place::Placement;
pub use server::{Bound, ServerConfig};
