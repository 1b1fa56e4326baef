//! An understood command line.

use model::BulkTerms;
use std::net::IpAddr;

/// Client or server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// A server.
    #[default]
    Server,
    /// A client of this host.
    Client(String),
}

/// What is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Output {
    /// Text.
    #[default]
    Text,
    /// One JSON document in the end.
    Json,
    /// One JSON document per event.
    Stream,
    /// The same, and then the whole document.
    StreamAndAll,
}

/// An understood command line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spec {
    /// Client or server.
    pub role: Role,
    /// Port.
    pub port: u16,
    /// Length of an interval, ns; 0 tells none.
    pub interval_ns: u64,
    /// Unit of rates: one of `kmgtKMGT`, or `a` for whatever fits.
    pub format: char,
    /// More detail.
    pub verbose: bool,
    /// What is printed.
    pub output: Output,
    /// File that is printed to.
    pub logfile: Option<String>,
    /// `strftime` format before each line.
    pub timestamps: Option<String>,
    /// File for the process identifier.
    pub pidfile: Option<String>,
    /// What is asked of the server.
    pub terms: BulkTerms,
    /// Whether `-l` was given.
    pub length_given: bool,
    /// Address to bind to.
    pub bind: Option<IpAddr>,
    /// Interface to bind to.
    pub device: Option<String>,
    /// IPv4 only, IPv6 only.
    pub family: (bool, bool),
    /// File that payload comes from or goes to.
    pub file: Option<String>,
    /// How long sent data may go unacknowledged, ns.
    pub user_timeout_ns: Option<u64>,
    /// How long the control connection may be idle before the kernel asks whether its peer is there, ns.
    pub keepalive_ns: Option<u64>,
    /// Core of this process.
    pub affinity: Option<usize>,
    /// First local port of the streams.
    pub local_port: Option<u16>,
    /// How long the control connection may take, ns.
    pub connect_timeout_ns: Option<u64>,
    /// How long nothing may come, ns.
    pub silence_ns: u64,
    /// Name for authentication, and the file with the server's key.
    pub user: Option<(String, String)>,
    /// Older padding of the token.
    pub pkcs1: bool,
    /// Server: end after one test.
    pub one_off: bool,
    /// Server: go to the background.
    pub daemon: bool,
    /// Server: most bits/s of a test, and over how many seconds.
    pub rate_limit: Option<(u64, u32)>,
    /// Server: longest test, s.
    pub longest: Option<u32>,
    /// Server: end or start again after so long without a test, s.
    pub idle_s: Option<u32>,
    /// Server: files with the private key and with the users.
    pub keys: Option<(String, String)>,
    /// Server: how far the client's clock may be off, s.
    pub skew_s: u32,
    /// Options that have no effect here.
    pub ignored: Vec<String>,
}
