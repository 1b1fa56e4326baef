//! iperf3: control connections and streams on one port, distinguished by the 37 bytes of a cookie.
//!
//! The client speaks on a control connection (`codec.rs` has the bytes, `params.rs` and
//! `results.rs` the two documents) and opens every stream: a TCP connection that begins with the
//! same cookie, or a UDP socket that begins with a hello. `docs/protocols/iperf3.md` says more.
#![forbid(unsafe_code)]

pub mod auth;
mod bulk;
mod client;
pub mod codec;
mod compat;
mod dial;
mod file;
pub mod judge;
mod listener;
mod packets;
pub mod params;
mod protocol;
pub mod results;
mod server;
mod store;
mod stream;
mod stream_stats;
mod test_state;

use common::{balance, config, host, payload, quota};

pub use bulk::{
    Bulk, BulkBegun, BulkCpu, BulkEnded, BulkNews, BulkStream, BulkTerms, RemoteRow, Render, ServerOutput,
    StreamRow,
};
pub use client::{Client, ClientPlan};
pub use codec::PORT;
pub(crate) use protocol::COUNTS;
pub use protocol::{ClientOptions, Credentials, PROTOCOL, ServerOptions};
pub use server::{Limits, Server, ServerPlan};
pub use store::{Opening, Store};

const NAME: &str = "iperf3";
