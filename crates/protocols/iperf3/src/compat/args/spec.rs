//! An understood command line.

use crate::{BulkTerms, Limits};
use std::net::IpAddr;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum RunRole {
    #[default]
    Server,
    Client(String),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Output {
    #[default]
    Text,
    /// One JSON document in the end.
    Json,
    /// One JSON document per event.
    Stream,
    /// The same, and then the whole document.
    StreamAndAll,
}

/// A command line, understood.
///
/// Wide: a field for each option of the original.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spec {
    pub(crate) role: RunRole,
    pub(crate) port: u16,
    /// Length of an interval, ns; 0 reports none.
    pub(crate) interval_ns: u64,
    /// Unit of rates: one of `kmgtKMGT`, or `a` for the unit that fits.
    pub(crate) format: char,
    pub(crate) verbose: bool,
    pub(crate) output: Output,
    pub(crate) logfile: Option<String>,
    /// `strftime` format before each line.
    pub(crate) timestamps: Option<String>,
    pub(crate) pidfile: Option<String>,
    /// Demands on the server.
    pub(crate) terms: BulkTerms,
    /// True if `-l` was given.
    pub(crate) length_given: bool,
    pub(crate) bind: Option<IpAddr>,
    pub(crate) device: Option<String>,
    /// IPv4 only, IPv6 only.
    pub(crate) family: (bool, bool),
    /// File of sent or received payload.
    pub(crate) file: Option<String>,
    /// Longest time without acknowledgement of sent data, ns.
    pub(crate) user_timeout_ns: Option<u64>,
    /// Longest idle time of the control connection before the kernel probes its peer, ns.
    pub(crate) keepalive_ns: Option<u64>,
    pub(crate) affinity: Option<usize>,
    /// First local port of the streams.
    pub(crate) local_port: Option<u16>,
    /// Longest time to open the control connection, ns.
    pub(crate) connect_timeout_ns: Option<u64>,
    /// Name for authentication, and the file with the server's key.
    pub(crate) user: (Option<String>, Option<String>),
    /// Older padding of the token.
    pub(crate) pkcs1: bool,
    /// Server: end after one test.
    pub(crate) one_off: bool,
    /// Server: go to the background.
    pub(crate) daemon: bool,
    /// Limits of a server's tests; a client keeps the one of silence.
    pub(crate) limits: Limits,
    /// Server: end or start again after this time without a test, s.
    pub(crate) idle_s: Option<u32>,
    /// Server: files with the private key and with the users.
    pub(crate) keys: (Option<String>, Option<String>),
    /// Server: how far the client's clock may be off, s.
    pub(crate) skew_s: u32,
    /// Options that have no effect here.
    pub(crate) ignored: Vec<String>,
}
