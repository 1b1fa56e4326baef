//! Servers of other protocols beside our own (`serve --legacy`): which there are, and what is said of them.

use crate::protocols;
use crate::protocols::Protocol;
use crate::serve::{ServeArgs, listen_addresses};
use crate::values::Legacy;
use crate::{CliError, plan};
use common::Acl;
use common::{ProtocolOptions, ServerConfig};
use iperf3::ServerOptions;
use metrics::{Packets, format_duration, real};
use model::{Event, Level, Phase, StampSettings, Totals, Traffic};
use ntttcp::{Layout, READY_OFFSET};
use runtime::{Bound, Interrupt};
use std::net::SocketAddr;

/// The protocols that may go along, in the order in which they take their ports: ntttcp behind ttcp, which has one of its usual
/// ports (ASIDE).
const ALONG: [Protocol; 11] = [
    protocols::IPERF3,
    protocols::CTSTRAFFIC,
    protocols::TTCP,
    protocols::NTTTCP,
    protocols::TCPMON,
    protocols::UDPMON,
    protocols::BWDELAYTESTER,
    protocols::ECHO,
    protocols::STAMP,
    protocols::DISCARD,
    protocols::CHARGEN,
];

/// ntttcp's port where ttcp has the usual one of both: nothing tells a connection of one from that of the other.
const ASIDE: u16 = 5101;

/// Whether a server of this protocol can go along.
///
/// # Errors
/// Why it cannot.
pub(crate) fn goes_along(protocol: Protocol) -> Result<(), &'static str> {
    match protocol.info().legacy {
        Some(_) => Ok(()),
        None => Err("it is what the server speaks anyway"),
    }
}

/// The servers that go along.
pub(crate) struct Beside {
    /// By name, with their ports taken.
    pub(crate) bound: Vec<(&'static str, Bound)>,
    /// What could not be had, and why.
    refused: Vec<(&'static str, String)>,
    /// Whatever can be had was asked for.
    every: bool,
}

/// Whether a server with a key may answer what is asked for besides: of the other protocols only STAMP with a key of its own
/// proves anything, so a key would not keep unauthenticated clients out.
///
/// # Errors
/// When it may not, in one sentence.
pub(crate) fn check_key(args: &ServeArgs, keyed: bool) -> Result<(), CliError> {
    let legacy = &args.legacy;
    if !keyed || legacy.unauthenticated {
        return Ok(());
    }
    let keyless = |asked: &Legacy| asked.protocol != protocols::STAMP || legacy.stamp_psk_file.is_none();
    let named = legacy.named().into_iter().filter(keyless).map(|asked| asked.protocol.name());
    let mut names: Vec<&str> = named.collect();
    if legacy.every() {
        names = vec!["the other protocols"];
    }
    names.dedup();
    if names.is_empty() {
        return Ok(());
    }
    Err(CliError::usage(format!(
        "the key guards the native protocol only, and {} would answer without it: say --legacy-unauthenticated if that is \
         meant",
        names.join(", ")
    )))
}

/// Takes the ports of all that are asked for. One that is asked for by name must be had.
pub(crate) fn bind(args: &ServeArgs) -> Result<Beside, CliError> {
    let mut named = args.legacy.named();
    let mut beside = Beside { bound: Vec::new(), refused: Vec::new(), every: args.legacy.every() };
    let usual = protocols::TTCP.port();
    let ttcp = named.iter().find(|asked| asked.protocol == protocols::TTCP).map(|asked| asked.port);
    let ttcp = ttcp.or(beside.every.then_some(usual));
    for asked in &mut named {
        if asked.protocol == protocols::NTTTCP && asked.port == usual && ttcp == Some(usual) {
            asked.port = ASIDE;
        }
    }
    for &asked in &named {
        beside.bound.push((asked.protocol.name(), one(args, asked)?));
    }
    if !beside.every {
        return Ok(beside);
    }
    for protocol in ALONG {
        if named.iter().any(|asked| asked.protocol == protocol) {
            continue;
        }
        let had = goes_along(protocol).map_err(str::to_owned).and_then(|()| {
            let aside = protocol == protocols::NTTTCP && ttcp == Some(usual);
            let port = if aside { ASIDE } else { protocol.port() };
            one(args, Legacy { protocol, port }).map_err(|trouble| trouble.text)
        });
        match had {
            Ok(bound) => beside.bound.push((protocol.name(), bound)),
            Err(why) => beside.refused.push((protocol.name(), why)),
        }
    }
    Ok(beside)
}

impl Beside {
    /// What goes along, and at which ports.
    pub(crate) fn names(&self) -> Vec<String> {
        let ports = |(name, bound): &(&'static str, Bound)| {
            shown(name, bound).iter().map(|at| format!("{name}:{}", at.port())).collect::<Vec<_>>()
        };
        self.bound.iter().flat_map(ports).collect()
    }

    /// Whether a table is worth it.
    fn several(&self) -> bool {
        self.every || self.bound.len() > 1
    }

    /// What is answered where, a line each; nothing where there is a table.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |(name, bound): &(&'static str, Bound)| {
            let how = row(name).map_or("", |row| row.over);
            shown(name, bound)
                .iter()
                .map(|at| format!("answering {name} on {at} ({how})"))
                .collect::<Vec<_>>()
        };
        if self.several() { Vec::new() } else { self.bound.iter().flat_map(line).collect() }
    }

    /// A table of what listens where, and of what could not be had; nothing where there is no more than one.
    pub(crate) fn table(&self, own: &Bound) -> Vec<String> {
        if !self.several() {
            return Vec::new();
        }
        let mut rows = vec![["protocol", "listens at", "over", "serves"].map(str::to_owned)];
        let mut listening = |name: &str, at: &[SocketAddr], how: &str, who: &str| {
            rows.extend(
                at.iter().map(|at| [name.to_owned(), at.to_string(), how.to_owned(), who.to_owned()]),
            );
        };
        listening("native", own.addresses(), "TCP and UDP", "everybody");
        for (name, bound) in &self.bound {
            let (how, who) = row(name).map_or(("", ""), |row| (row.over, row.serves));
            let at = shown(name, bound);
            let aside =
                at.first().is_some_and(|at| at.port() == ASIDE - 1) && *name == protocols::NTTTCP.name();
            let which = if aside {
                format!("{who}; ttcp has 5001, so its senders need -p {ASIDE}")
            } else {
                who.to_owned()
            };
            listening(name, &at, how, &which);
        }
        for (name, why) in &self.refused {
            rows.push([*name, "refused", "-", why].map(str::to_owned));
        }
        aligned(&rows)
    }
}

/// The addresses that are worth telling: of a row of ports the first, which is that of the conversation.
fn shown(name: &str, bound: &Bound) -> Vec<SocketAddr> {
    let each =
        if name == protocols::NTTTCP.name() { 2 * usize::from(Layout::default().ports) + 1 } else { 1 };
    bound.addresses().iter().step_by(each).copied().collect()
}

fn row(name: &str) -> Option<&'static common::protocol::Legacy> {
    protocols::parse(name).ok()?.info().legacy.as_ref()
}

/// A table's lines, with columns below each other.
fn aligned(rows: &[[String; 4]]) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    let line = |[name, at, how, who]: &[String; 4]| {
        let [a, b, c] = widths;
        format!("{name:a$}  {at:b$}  {how:c$}  {who}")
    };
    rows.iter().map(line).collect()
}

fn one(args: &ServeArgs, asked: Legacy) -> Result<Bound, CliError> {
    let stamp_key = match &args.legacy.stamp_psk_file {
        Some(path) => plan::key_in(path, args.key.insecure_key_file).map(Some)?,
        None => None,
    };
    let stamp = StampSettings {
        authenticated: stamp_key.is_some(),
        direct: args.legacy.stamp_direct,
        ..StampSettings::default()
    };
    let phase = Phase { interval_ns: args.interval, ..answered(asked.protocol, stamp) };
    let config = ServerConfig {
        listen: listen_addresses(&hosts(&args.listen), asked.port).map_err(CliError::usage)?,
        acl: Acl { allow: args.allow.clone(), deny: args.deny.clone() },
        open_to: plan::open_to(&[])?,
        records: args.output.web.wanted(),
        links_ns: args.output.web.wanted().then_some(args.interval),
        psk: stamp_key.filter(|_| asked.protocol == protocols::STAMP),
        device: args.cores.bind_dev.clone(),
        placement: plan::placement(&args.cores, asked.protocol),
        workers: args.cores.workers,
        version: plan::VERSION.to_owned(),
        also_datagrams: asked.protocol.info().legacy.as_ref().is_some_and(|legacy| legacy.also_datagrams),
        options: ProtocolOptions::new(ServerOptions {
            scribe: Some(classic::iperf3::server_output),
            ..ServerOptions::default()
        }),
        ..ServerConfig::legacy(asked.protocol, phase)
    };
    let config = if asked.protocol == protocols::NTTTCP { row_of_ports(config)? } else { config };
    Ok(Bound::new(config)?)
}

/// A receiver of ntttcp listens to a conversation, on the ports above it to data, and where Windows' senders announce that they
/// are ready.
fn row_of_ports(config: ServerConfig) -> Result<ServerConfig, CliError> {
    // As long as senders propose: the longer of both is agreed on.
    let layout = Layout { seconds: 1, ..Layout::default() };
    let port = config.listen.first().map_or(layout.port, SocketAddr::port);
    let last = u32::from(port) + u32::from(layout.ports) - 1;
    let aside = u32::from(READY_OFFSET);
    if port < 2 || last + aside > 65_535 {
        return Err(CliError::usage(format!(
            "ntttcp needs the port below {port}, those up to {last}, and {} to {}",
            u32::from(port) + aside,
            last + aside
        )));
    }
    let row = |at: &SocketAddr| {
        let (ip, after) = (at.ip(), port + layout.ports);
        (port - 1..after)
            .chain(port + READY_OFFSET..after + READY_OFFSET)
            .map(move |port| SocketAddr::new(ip, port))
    };
    let listen = config.listen.iter().flat_map(row).collect();
    let options = ProtocolOptions::new(Layout { port, unsynced: true, ..layout });
    Ok(ServerConfig { listen, options, ..config })
}

/// The settings with which a legacy protocol is answered.
fn answered(protocol: Protocol, stamp: StampSettings) -> Phase {
    let usual = protocol.info().legacy.as_ref().map_or_else(Phase::default, |legacy| (legacy.phase)());
    let mut phase = Phase { duration_ns: None, ..usual };
    if let Some(ping) = phase.ping.as_mut().filter(|ping| ping.stamp.is_some()) {
        (ping.size, ping.stamp) = (stamp.size(), Some(stamp));
    }
    // The original's usual settings: whoever wants others starts `netcaliper ctstraffic`.
    if protocol == protocols::CTSTRAFFIC
        && let Ok(classic::ctstraffic::Request::Run(spec)) =
            classic::ctstraffic::read(&["-Listen:*".to_owned()])
    {
        phase = Phase { duration_ns: None, ..spec.phase };
    }
    phase
}

/// The addresses of `listen` without their ports, which are those of our own protocol.
fn hosts(listen: &[String]) -> Vec<String> {
    let host = |text: &String| match text.parse::<SocketAddr>() {
        Ok(address) => address.ip().to_string(),
        Err(_) => text.clone(),
    };
    listen.iter().map(host).collect()
}

/// Answers a legacy protocol until it is told to end; says what a person should know.
pub(crate) fn answer(
    name: &'static str,
    bound: Bound,
    stop: &Interrupt,
    tell: &dyn Fn(&Event),
    show: &dyn Fn(&'static str, &Event),
) {
    // A receiver of ntttcp is one for one test.
    let again = (name == protocols::NTTTCP.name()).then(|| bound.config().clone());
    answer_once(name, bound, stop, tell, show);
    while let Some(config) = again.clone().filter(|_| !stop.asked()) {
        match Bound::new(config) {
            Ok(bound) => answer_once(name, bound, stop, tell, show),
            Err(error) => {
                let text = format!("{name}: cannot listen again: {error}");
                return tell(&Event::Notice { level: Level::Error, text });
            }
        }
    }
}

/// Answers until it is told to end, or its only test is over.
fn answer_once(
    name: &'static str,
    bound: Bound,
    stop: &Interrupt,
    tell: &dyn Fn(&Event),
    show: &dyn Fn(&'static str, &Event),
) {
    let say = |level, text: &str| tell(&Event::Notice { level, text: format!("{name}: {text}") });
    let ran = bound.run(stop, &mut |event| {
        show(name, &event);
        match event {
            Event::Notice { level, text } => say(level, &text),
            // A test of UDPmon or tcpmon is kept with what the server itself does.
            event @ Event::Udpmon(_) => tell(&event),
            Event::Portion(_) if name == "ntttcp" => {}
            Event::Portion(portion) => {
                let ns = portion.to_ns.saturating_sub(portion.from_ns);
                let bytes = portion.rx_bytes;
                let rate = Traffic { tx_bytes: 0, rx_bytes: bytes, ns }.rx_bps() / 1e6;
                let seconds = real(ns) / 1e9;
                let from = portion.remote;
                say(Level::Info, &format!("{bytes} bytes from {from} in {seconds:.6} s, {rate:.3} Mbit/s"));
            }
            Event::Near(totals) if name == "bwdelaytester" => say(Level::Info, &came(&totals)),
            Event::Near(totals) if name == "ntttcp" => {
                let traffic = totals.traffic;
                let (n, bytes, seconds) = (totals.opened, traffic.rx_bytes, real(traffic.ns) / 1e9);
                let rate = traffic.rx_bps() / 1e6;
                say(
                    Level::Info,
                    &format!("{n} connections, {bytes} bytes in {seconds:.3} s, {rate:.3} Mbit/s"),
                );
            }
            Event::Near(totals) if totals.opened > 0 || totals.traffic.rx_bytes > 0 => {
                let what = match (totals.traffic.tx_bytes, totals.traffic.rx_bytes) {
                    (0, received) => format!("{received} bytes received"),
                    (sent, 0) => format!("{sent} bytes sent"),
                    (answered, _) => format!("{answered} bytes answered"),
                };
                let text = format!("{} connections, {what}", totals.opened);
                say(Level::Info, &text);
            }
            _ => {}
        }
    });
    if let Err(error) = ran {
        say(Level::Error, &error.to_string());
    }
}

/// What came of a protocol that answers nothing.
fn came(totals: &Totals) -> String {
    let Some(report) = totals.packets.as_deref() else { return "nothing came".to_owned() };
    let Packets { received, lost, duplicated, reordered, dropped, .. } = report.counts;
    let mut text = format!(
        "{received} datagrams from {} senders, {lost} lost ({dropped} of them here), {duplicated} repeated, {reordered} \
         reordered",
        totals.opened
    );
    if let Some(delay) = &report.delay_ns {
        let told = |ns: u64| format_duration(real(ns));
        let bound = match report.clock_bound_ns {
            Some(bound) => format!("if the clocks agree, within {}", told(bound)),
            None => "relative to the fastest".to_owned(),
        };
        text += &format!(
            "; delay p50 {}, p99 {}, max {} ({bound})",
            told(delay.p50),
            told(delay.p99),
            told(delay.max)
        );
    }
    text
}
