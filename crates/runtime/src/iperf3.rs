//! What iperf3's conversation needs of this host.

mod file;
mod judge;

use crate::place::workers_beside_others;
use crate::server::ServerConfig;
use crate::session::{self, now};
use crate::{ClientConfig, EngineError, Interrupt, client};
use metrics::SECOND;
use model::{BulkTerms, Event, Kind, Pattern, Phase, Scribe};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use transport::StreamSettings;
use wire::iperf3::auth::{self, Keeper, Users};
use wire::iperf3::judge::Judge;
use wire::iperf3::params::{BLOCK, Parameters};
use wire::iperf3::{Client, ClientPlan, Limits, Meter, ServerPlan};
use wire::native::Acl;

/// What an iperf3 server needs besides.
#[derive(Clone, Default)]
pub struct Iperf3Server {
    /// What is allowed.
    pub limits: Limits,
    /// Who may have a test, where that is asked.
    pub keeper: Option<Keeper>,
    /// End after so long without a test, ns.
    pub idle_ns: Option<u64>,
    /// Interval reports are not told.
    pub silent: bool,
    /// File that payload comes from or goes to.
    pub file: Option<PathBuf>,
    /// How long sent data may go unacknowledged, ns.
    pub user_timeout_ns: Option<u64>,
    /// What renders the printout that clients may ask for.
    pub scribe: Option<Scribe>,
}

impl fmt::Debug for Iperf3Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iperf3Server").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// How long a control connection may be idle before the kernel asks whether its peer is there.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// Options of the listener, which accepted connections inherit.
pub(crate) fn listener(device: Option<String>) -> StreamSettings {
    // Plain TCP gets in as well.
    StreamSettings { device, keepalive: Some(KEEPALIVE), multipath: true, ..StreamSettings::default() }
}

/// Reads what this process has used of the CPU.
pub(crate) fn meter() -> Meter {
    let zero = io::host::Reading::now();
    Box::new(move || {
        let used = io::host::difference(&zero, &io::host::Reading::now());
        used.process.map_or((0.0, 0.0), |process| (process.user_s, process.system_s))
    })
}

/// The system's congestion control, and those that it offers.
pub(crate) fn congestion() -> (String, Vec<String>) {
    (io::host::congestion_control(), io::host::congestion_controls())
}

/// A server's plan.
pub(crate) fn server_plan(config: &ServerConfig, workers: u16, streams: Acl) -> ServerPlan {
    let own = &config.iperf3;
    ServerPlan {
        workers,
        cores: config.placement.cores(workers.into(), 0),
        file: own.file.as_deref().map(file::opening),
        user_timeout_ns: own.user_timeout_ns,
        acl: config.acl.clone(),
        streams,
        limits: own.limits.clone(),
        keeper: own.keeper.clone().map(|keeper| {
            let decide = move |token: Option<&str>, came| keeper.admits(token, came);
            Arc::new(judge::Helper::new(decide)) as Arc<dyn Judge>
        }),
        interval_ns: if own.silent { 0 } else { config.interval_ns.max(SECOND / 10) },
        exit_after: config.exit_after,
        idle_ns: own.idle_ns,
        scribe: own.scribe,
        congestion: congestion(),
        meter: meter(),
    }
}

/// What proves to an iperf3 server who asks.
#[derive(Clone)]
pub struct Iperf3Credentials {
    /// Name.
    pub user: String,
    /// Password.
    pub password: String,
    /// The server's RSA public key, PEM.
    pub key: String,
    /// Pad as servers up to 3.16 want it.
    pub pkcs1: bool,
}

impl fmt::Debug for Iperf3Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iperf3Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Who may have a test: `key` is the server's RSA private key, PEM; `pkcs1` takes the older padding as well.
///
/// # Errors
/// When `key` is none.
pub fn iperf3_keeper(key: &str, users: Users, skew_s: u32, pkcs1: bool) -> Result<Keeper, String> {
    Keeper::new(key, users, skew_s, pkcs1, draw)
}

fn draw(bytes: &mut [u8]) -> bool {
    io::clock::random(bytes).is_ok()
}

/// The token of who asks, made now.
fn token(of: &Iperf3Credentials) -> Result<String, EngineError> {
    let now = io::Clock::new().sample().wall(now());
    auth::token((&of.user, &of.password), now, &of.key, of.pkcs1, draw).map_err(EngineError::Setting)
}

/// What an iperf3 client asks for that a phase does not say.
#[derive(Clone, Debug, Default)]
pub struct Iperf3Client {
    /// All that is asked for; `None` asks for what the phase says. A block of 0 bytes is what a packet holds.
    pub terms: Option<BulkTerms>,
    /// Who asks, where the server wants to know.
    pub credentials: Option<Iperf3Credentials>,
    /// Length of the reports on each stream, ns; `None` is that of the phase, 0 tells none.
    pub interval_ns: Option<u64>,
    /// Local port of the first stream.
    pub port: Option<u16>,
    /// How long a receiving test may get nothing, ns.
    pub silence_ns: Option<u64>,
    /// How long sent data may go unacknowledged, ns.
    pub user_timeout_ns: Option<u64>,
    /// How long the control connection may be idle before the kernel asks whether its peer is there, ns; `None` is 10 s.
    pub keepalive_ns: Option<u64>,
    /// File that payload comes from or goes to; without another end of the test all of it is sent.
    pub file: Option<PathBuf>,
}

/// What a phase asks for, in iperf3's words.
fn terms_of(phase: &Phase, version: &str) -> BulkTerms {
    let seconds = |ns: u64| u32::try_from(ns.div_ceil(SECOND)).unwrap_or(u32::MAX);
    let sockets = &phase.sockets;
    let udp = phase.kind == Kind::Delay;
    // Where no length was asked for it is the original's: a server takes another for a wish.
    let longest = if sockets.whole_segments { BLOCK } else { 1 << 20 };
    BulkTerms {
        udp,
        streams: phase.connections,
        reverse: phase.pattern == Pattern::Pull,
        bidir: phase.pattern == Pattern::Duplex,
        omit_s: seconds(phase.omit_ns),
        time_s: phase.duration_ns.map_or(0, |ns| seconds(ns.saturating_sub(phase.omit_ns)).max(1)),
        bytes: phase.total_bytes.unwrap_or(0),
        block: phase.probe.map_or(phase.buffer.high.min(longest.into()) as u32, |probe| probe.size),
        rate: phase.rate.unwrap_or(0),
        window: sockets.sndbuf.max(sockets.rcvbuf.filter(|_| !udp)).unwrap_or(0),
        mss: sockets.mss.unwrap_or(0),
        nodelay: sockets.nodelay && !udp,
        tos: sockets.dscp.unwrap_or(0) << 2,
        flow_label: sockets.flow_label.unwrap_or(0),
        congestion: sockets.congestion.clone(),
        wide: udp,
        dont_fragment: sockets.dont_fragment == Some(true),
        version: format!("netcaliper {version}"),
        ..BulkTerms::default()
    }
}

/// A datagram that fits a packet on the way to `to`, bytes: what the original takes from its control connection.
fn packet(to: SocketAddr) -> u32 {
    let local = client::local_for(to).map(|local| local.ip());
    let nic = crate::machine::snapshot(local).nic;
    // Headers of IP and TCP, and TCP's time stamps; over loopback the original sees half of what there is.
    let headers = if to.is_ipv4() { 52 } else { 72 };
    match nic {
        Some(nic) if nic.mtu > 576 => (nic.mtu - headers).min(32_768),
        _ => 1_460,
    }
}

/// Runs a phase against an iperf3 server.
pub(crate) fn run(
    config: &ClientConfig,
    phase: &Phase,
    interrupt: &Interrupt,
    sink: &mut dyn FnMut(Event),
) -> Result<(), EngineError> {
    let Some(peer) = config.peers.first() else {
        return Err(EngineError::Setting("no target was given".to_owned()));
    };
    let asked = &config.iperf3;
    let mut terms = asked.terms.clone().unwrap_or_else(|| terms_of(phase, &config.version));
    if terms.block == 0 {
        terms.block = if terms.udp { packet(peer.address) } else { BLOCK };
    }
    let file = asked.file.as_deref().map(file::opening);
    let store = file.map(|open| open(!terms.reverse)).transpose().map_err(EngineError::Setting)?;
    if let Some(store) = &store
        && !terms.reverse
        && (terms.time_s, terms.bytes, terms.blocks) == (0, 0, 0)
    {
        terms.bytes = store.size();
        if terms.bytes == 0 {
            return Err(EngineError::Setting("the file is empty: there is nothing to send".to_owned()));
        }
    }
    wire::iperf3::params::check(&terms).map_err(|refused| EngineError::Setting(refused.why))?;
    let streams = u16::try_from(terms.all_streams()).unwrap_or(u16::MAX);
    let workers = config.workers.unwrap_or_else(|| workers_beside_others().min(streams)).max(1);
    let (congestion, _) = congestion();
    let plan = ClientPlan {
        target: (peer.name.clone(), peer.address),
        phase: phase.clone(),
        interval_ns: asked.interval_ns.unwrap_or(phase.interval_ns),
        workers,
        from: config.sources.iter().find(|s| s.is_ipv4() == peer.address.is_ipv4()).copied(),
        port: asked.port.or(config.ports.map(|(first, _)| first)),
        connect_timeout_ns: phase.connect_timeout_ns,
        silence_ns: asked.silence_ns.unwrap_or(120 * SECOND),
        congestion: terms.congestion.clone().unwrap_or(congestion),
        meter: meter(),
        records: config.records,
        store,
        user_timeout_ns: asked.user_timeout_ns,
        parameters: Parameters { terms, token: asked.credentials.as_ref().map(token).transpose()? },
    };
    let mut setup = client::client_setup(config, phase, workers);
    setup.inherited.keepalive = Some(asked.keepalive_ns.map_or(KEEPALIVE, Duration::from_nanos));
    session::run(Client::new(plan, now()), setup, interrupt, sink)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_call_is_asked_for_as_the_original_does_unless_one_was_wanted() {
        let mut phase = Phase::default();
        assert_eq!(u64::from(terms_of(&phase, "").block), phase.buffer.high);
        phase.sockets.whole_segments = true;
        assert_eq!(terms_of(&phase, "").block, BLOCK);
    }
}
