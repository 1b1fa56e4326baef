//! iperf3's `Protocol`: the phases that it carries, and its sessions on a host.

use super::judge::Judge;
use super::params::{self, BLOCK, LARGEST_BLOCK, MOST_STREAMS, Parameters};
use super::{BulkTerms, Client, ClientPlan, Limits, NAME, Opening, PORT, Render, Server, ServerPlan, file};
use crate::auth;
use crate::config::ServerConfig;
use crate::host::HostInfo;
use common::protocol::{
    Calling, Defaults, Foreign, Info, Legacy, Listening, Ports, Protocol, Serving, Started, Workers, refused,
};
use common::round_robin::local_address;
use common::{Patience, ProtocolOptions};
use metrics::SECOND;
use model::{EndCounts, Kind, Pattern, Phase, Range, SocketSettings, Spacing, Verify};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Settings of a server besides its configuration.
#[derive(Clone, Default)]
pub struct ServerOptions {
    pub limits: Limits,
    /// Judges clients' tokens, if the server requires them.
    pub judge: Option<Judge>,
    /// Time without a test after which the server ends, ns.
    pub idle_ns: Option<u64>,
    pub silent: bool,
    /// Opens the file that payload is read from or written to.
    pub file: Option<Opening>,
    /// `TCP_USER_TIMEOUT`: limit for the acknowledgement of sent data, ns.
    pub user_timeout_ns: Option<u64>,
    /// Renders the printout that clients may ask for.
    pub render: Option<Render>,
}

/// Idle time of a control connection after which the kernel probes its peer (keepalive), ns.
const KEEPALIVE: u64 = 10 * SECOND;
/// A server's send and receive buffer, bytes.
const BUFFER: usize = 1 << 20;

/// A client's proof of its user's identity.
#[derive(Clone)]
pub struct Credentials {
    pub user: String,
    pub password: String,
    /// The server's RSA public key, PEM.
    pub key: String,
    /// Pad as servers up to 3.16 want it.
    pub pkcs1: bool,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Settings of a client besides its phase.
#[derive(Clone, Debug, Default)]
pub struct ClientOptions {
    /// Parameters of the test; `None` makes them of the phase. A block of 0 bytes stands for the
    /// payload of a packet.
    pub terms: Option<BulkTerms>,
    /// Credentials for a server that requires them.
    pub credentials: Option<Credentials>,
    /// Length of the reports on each stream, ns; `None` is that of the phase, 0 for no reports.
    pub interval_ns: Option<u64>,
    /// Local port of the first stream.
    pub port: Option<u16>,
    /// Longest wait for each answer until the test runs, ns; `None` is 10 s for the first and 15 s
    /// for each further one.
    pub begin_ns: Option<u64>,
    /// Longest wait for the server's results, ns; `None` is 15 s.
    pub results_ns: Option<u64>,
    /// Longest silence of a test that receives, ns.
    pub silence_ns: Option<u64>,
    /// `TCP_USER_TIMEOUT`: limit for the acknowledgement of sent data, ns.
    pub user_timeout_ns: Option<u64>,
    /// Idle time of the control connection after which the kernel probes its peer (keepalive), ns;
    /// `None` is 10 s.
    pub keepalive_ns: Option<u64>,
    /// File that payload is read from or written to; without another end of the test all of it is
    /// sent.
    pub file: Option<PathBuf>,
}

/// The parameters of iperf3's test that `phase` asks for.
fn terms_of(phase: &Phase, version: &str) -> BulkTerms {
    let seconds = |ns: u64| u32::try_from(ns.div_ceil(SECOND)).unwrap_or(u32::MAX);
    let sockets = &phase.sockets;
    let udp = phase.kind == Kind::Delay;
    // Without a given block length the original's default is proposed: a server would take another
    // for the user's choice.
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
        tos: sockets.class().unwrap_or(0),
        flow_label: sockets.flow_label.unwrap_or(0),
        congestion: sockets.congestion.clone(),
        wide: udp,
        dont_fragment: sockets.dont_fragment == Some(true),
        version: format!("netcaliper {version}"),
        ..BulkTerms::usual()
    }
}

/// Length of a datagram that fits a packet on the way to `to`, bytes. The original takes it from
/// its control connection.
fn packet(to: SocketAddr, host: &dyn HostInfo) -> u32 {
    let nic = host.snapshot(host.local_for(to)).nic;
    // Headers of IP and TCP, and TCP's time stamps; over loopback the original's limit is half the
    // MTU.
    let headers = if to.is_ipv4() { 52 } else { 72 };
    match nic {
        Some(nic) if nic.mtu > 576 => (nic.mtu - headers).min(32_768),
        _ => 1_460,
    }
}

/// A server does not learn its client's counts, neither in a test nor in its document.
pub(crate) const COUNTS: EndCounts = EndCounts::OF_CLIENT;

/// The protocol of iperf3.
pub static PROTOCOL: Iperf3 = Iperf3(Info {
    questions: "tcp, delay",
    one_server: true,
    workers: Workers::BesideOthers,
    defaults: Defaults { whole_segments: true, spread: true, ..Defaults::VERIFIED },
    legacy: Some(Legacy {
        over: "TCP and UDP",
        config: |config| {
            // The page has its tests, not their connections.
            let options =
                ServerOptions { render: Some(crate::compat::server_output), ..ServerOptions::default() };
            Ok(ServerConfig { options: ProtocolOptions::new(options), links_ns: None, ..config })
        },
        ..Legacy::PLAIN
    }),
    foreign: Some(Foreign {
        name: NAME,
        // A client's cookie of 37 bytes, or a server's state.
        sends_first: |bytes| {
            let letter = |c: &u8| c.is_ascii_lowercase() || (b'2'..=b'7').contains(c);
            bytes.get(36) == Some(&0) && bytes[..36].iter().all(letter)
                || matches!(bytes, [9] | [0xff] | [0xfe, ..])
        },
        // SERVER_ERROR, then iperf's "unable to receive parameters from client" and errno EPROTO:
        // the only way to make its client print an error of ours; its server says who was there.
        refusal: &[0xfe, 0, 0, 0, 114, 0, 0, 0, 71],
    }),
    originals: crate::compat::ORIGINALS,
    importers: crate::compat::IMPORTERS,
    counts: COUNTS,
    ..Info::new(NAME, PORT)
});

/// A conversation and streams on one port.
pub struct Iperf3(Info);

impl Protocol for Iperf3 {
    fn info(&self) -> &Info {
        &self.0
    }

    fn carries(&self, phase: &Phase) -> Result<(), &'static str> {
        let in_turn = phase.iterations.is_some() || phase.transfer_high.is_some();
        let blocks = phase.kind == Kind::Tcp && phase.buffer.high > u64::from(LARGEST_BLOCK);
        let rates = phase.burst.is_some() || phase.rate_high.is_some() || phase.rate_period_ns.is_some();
        let uneven = phase.probe.is_some_and(|probe| probe.spacing != Spacing::Fixed);
        let other = !matches!(phase.kind, Kind::Tcp | Kind::Delay);
        let ways_in_turn = matches!(phase.pattern, Pattern::PushPull { .. });
        refused([
            (other, "moves bulk data over TCP and UDP: use it with tcp and delay"),
            (ways_in_turn, "sends one way or both at once, not in turns"),
            (in_turn, "keeps its streams for the whole run: it knows no transfers that follow each other"),
            (phase.connections > MOST_STREAMS, "carries 128 streams in each direction at most"),
            (
                phase.verify == Verify::Data,
                "compares no payload, that of the other end being random: use --verify connection or none",
            ),
            (blocks, "sends blocks of 1Mi at most"),
            (rates, "keeps one rate, smoothly"),
            (uneven, "sends datagrams at even intervals"),
        ])
    }

    fn suited(&self, phase: Phase) -> Phase {
        // The payload is random and cannot be compared.
        let verify = if phase.verify == Verify::Data { Verify::None } else { phase.verify };
        let most = u64::from(LARGEST_BLOCK);
        let buffer = Range { low: phase.buffer.low.min(most), high: phase.buffer.high.min(most) };
        let iterations = phase.iterations.filter(|_| phase.kind == Kind::Tcp);
        Phase { verify, buffer, iterations, ..phase }
    }

    fn listening(&self, config: &ServerConfig) -> Result<Listening, String> {
        // Plain TCP gets in as well.
        let sockets =
            SocketSettings { keepalive_ns: Some(KEEPALIVE), multipath: true, ..SocketSettings::default() };
        let ports = vec![Ports { connections: true, datagrams: true }; config.listen.len()];
        // Streams are numbered as they are accepted.
        Ok(Listening { sockets, in_order: true, ports })
    }

    fn client(&self, calling: &Calling<'_>) -> Result<Started, String> {
        let Calling { config, phase, host } = *calling;
        let Some(peer) = config.peers.first() else { return Err("no target was given".to_owned()) };
        let usual = ClientOptions::default();
        let asked = config.options.get().unwrap_or(&usual);
        let mut terms = asked.terms.clone().unwrap_or_else(|| terms_of(phase, &config.version));
        if terms.block == 0 {
            terms.block = if terms.udp { packet(peer.address, host) } else { BLOCK };
        }
        let file = asked.file.as_deref().map(file::opening);
        let store = file.map(|open| open(!terms.reverse)).transpose()?;
        if let Some(store) = &store
            && !terms.reverse
            && (terms.time_s, terms.bytes, terms.blocks) == (0, 0, 0)
        {
            terms.bytes = store.size();
            if terms.bytes == 0 {
                return Err("the file is empty: there is nothing to send".to_owned());
            }
        }
        params::check(&terms).map_err(|refused| refused.why)?;
        let streams = Phase { connections: terms.all_streams(), ..Phase::default() };
        let workers = config.workers_for(&streams, host.cores().len());
        let token = |own: &Credentials| {
            auth::token((&own.user, &own.password), host.wall(), &own.key, own.pkcs1, host.random())
        };
        let plan = ClientPlan {
            server: peer.clone(),
            phase: phase.clone(),
            interval_ns: asked.interval_ns.unwrap_or(phase.interval_ns),
            workers,
            from: local_address(&config.sources, 0, None, peer.address),
            port: asked.port.or(config.ports.map(|(first, _)| first)),
            greeting_ns: asked.begin_ns.unwrap_or(phase.connect_timeout_ns),
            begin_ns: asked.begin_ns.unwrap_or(Patience::LIMIT),
            results_ns: asked.results_ns.unwrap_or(Patience::LIMIT),
            silence_ns: asked.silence_ns.unwrap_or(phase.stall_ns),
            congestion: terms.congestion.clone().unwrap_or(host.congestion().0),
            meter: host.cpu_meter(),
            records: config.records,
            store,
            user_timeout_ns: asked.user_timeout_ns,
            parameters: Parameters { terms, token: asked.credentials.as_ref().map(token).transpose()? },
        };
        let keepalive_ns = Some(asked.keepalive_ns.unwrap_or(KEEPALIVE));
        Ok(Started { keepalive_ns, ..Started::new(Client::new(plan, host.now()), workers, phase) })
    }

    fn server(&self, serving: &Serving<'_>) -> Result<Started, String> {
        let Serving { config, host, workers, .. } = *serving;
        let options = config.options.get::<ServerOptions>().cloned().unwrap_or_default();
        let plan = ServerPlan {
            workers,
            cores: config.placement.cores(workers.into(), 0, &host.cores()),
            acl: config.acl.clone(),
            streams: config.unproven(host),
            interval_ns: if options.silent { 0 } else { config.interval_ns.max(SECOND / 10) },
            exit_after: config.exit_after,
            sessions: config.sessions,
            congestion: host.congestion(),
            meter: host.cpu_meter(),
            options,
        };
        let session = Box::new(Server::new(plan, host.now()));
        Ok(Started { session, workers, sets: 1, buffer: BUFFER, keepalive_ns: None, mss: None })
    }
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

    #[test]
    fn peers_are_known_by_their_first_bytes() {
        let sends_first = PROTOCOL.info().foreign.as_ref().expect("it is known").sends_first;
        for bytes in [&b"ovtbza7m2lbfqs2qupwzkaugldlcjxwnuhtl\0"[..], &[9], &[0xff], &[0xfe, 0, 0, 0, 114]] {
            assert!(sends_first(bytes), "{bytes:?}");
        }
        for bytes in [&b""[..], b"GET / HTTP/1.1\r\n", b"ovtbza7m2lbfqs2qupwzkaugldlcjxwnuhtl", &[9, 9]] {
            assert!(!sends_first(bytes), "{bytes:?}");
        }
    }

    #[test]
    fn the_refusal_is_the_error_of_parameters_that_cannot_be_read() {
        let refusal = PROTOCOL.info().foreign.as_ref().expect("it is known").refusal;
        assert_eq!(refusal[..5], crate::codec::server_error(crate::codec::code::PARAMETERS)[..5]);
    }
}
