//! An understood command line.

use iperf3::BulkTerms;
use std::net::IpAddr;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Role {
    #[default]
    Server,
    Client(String),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Output {
    #[default]
    Text,
    /// One JSON document in the end.
    Json,
    /// One JSON document per event.
    Stream,
    /// The same, and then the whole document.
    StreamAndAll,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spec {
    pub role: Role,
    pub port: u16,
    /// Length of an interval, ns; 0 tells none.
    pub interval_ns: u64,
    /// Unit of rates: one of `kmgtKMGT`, or `a` for the unit that fits.
    pub format: char,
    pub verbose: bool,
    pub output: Output,
    pub logfile: Option<String>,
    /// `strftime` format before each line.
    pub timestamps: Option<String>,
    pub pidfile: Option<String>,
    /// What is asked of the server.
    pub terms: BulkTerms,
    /// Whether `-l` was given.
    pub length_given: bool,
    pub bind: Option<IpAddr>,
    pub device: Option<String>,
    /// IPv4 only, IPv6 only.
    pub family: (bool, bool),
    /// File that payload comes from or goes to.
    pub file: Option<String>,
    /// How long sent data may go unacknowledged, ns.
    pub user_timeout_ns: Option<u64>,
    /// How long the control connection may be idle before the kernel asks whether its peer is there, ns.
    pub keepalive_ns: Option<u64>,
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
