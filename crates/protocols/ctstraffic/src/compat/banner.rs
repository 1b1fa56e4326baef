//! The first lines: the network adapter, and the settings in force.

use super::connection::address;
use super::line::layout;
use super::spec::{Binding, Role, Spec, Transport};
use model::{Burst, HostSnapshot, Pattern, Range, Verify};
use std::net::SocketAddr;

/// Addresses that the names on the command line stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) targets: Vec<SocketAddr>,
    pub(crate) binds: Vec<SocketAddr>,
    pub(crate) listens: Vec<SocketAddr>,
}

/// The adapter that carries the test: a line for its name, an indented one for its offloads.
pub(super) fn adapter(host: &HostSnapshot) -> Vec<String> {
    let Some(nic) = &host.nic else { return Vec::new() };
    let on = |name: &str| if nic.offloads.iter().any(|o| o == name) { "on" } else { "off" };
    let driver = if nic.driver.is_empty() { String::new() } else { format!(" {}", nic.driver) };
    let speed = nic.speed_mbit.map_or_else(String::new, |mbit| format!(", {mbit} Mbit/s"));
    vec![
        format!("Adapter {}{driver} (Up)", nic.name),
        format!(
            "\tRSC (GRO) {}, LSO (TSO) {}, GSO {}, MTU {}{speed}, queueing {}",
            on("gro"),
            on("tso"),
            on("gso"),
            nic.mtu,
            if nic.qdisc.is_empty() { "unknown" } else { &nic.qdisc }
        ),
    ]
}

/// The settings in force, one line each, the heading first and a blank line last.
pub(super) fn settings(spec: &Spec, resolved: &Resolved) -> Vec<String> {
    let mut lines = vec!["  Configured Settings  ".to_owned(), "-----------------------".to_owned()];
    let mut tell = |line: String| lines.push(format!("\t{line}"));
    let (phase, shown) = (&spec.phase, &spec.shown);
    tell(format!("Protocol: {}", layout(spec.transport).name));
    let options = if shown.options.is_empty() { "None".to_owned() } else { shown.options.join(" ") };
    tell(format!("Options: {options}"));
    tell(format!("IO function: {}", io_function(spec.role, spec.transport)));
    tell(format!("IoPattern: {}", pattern(spec)));
    if let Pattern::PushPull { push, pull } = phase.pattern {
        tell(format!("PushBytes: {push}"));
        tell(format!("PullBytes: {pull}"));
    }
    tell(format!("PrePostRecvs: {}", shown.receives));
    tell(match shown.sends {
        0 => "PrePostSends: Following Ideal Send Backlog".to_owned(),
        n => format!("PrePostSends: {n}"),
    });
    let level = if phase.verify == Verify::Data { "Connections & Data" } else { "Connections" };
    tell(format!("Level of verification: {level}"));
    tell(format!("Port: {}", spec.port));
    sizes(spec, &mut tell);
    if let Some(Binding::Compartment(name)) = &spec.place {
        tell(format!("IP Compartment: {name}"));
    }
    if let Some(dscp) = phase.sockets.dscp {
        tell(format!("QOS DSCP: {dscp}"));
    }
    match spec.role {
        Role::Server => server(spec, resolved, &mut tell),
        Role::Client => client(spec, resolved, &mut tell),
    }
    if let Some(group) = shown.cpu_group {
        tell(format!("CPU group: {group}"));
    }
    if let Some(sharding) = &shown.sharding {
        tell(format!("Receive sharding: {sharding}"));
    }
    lines.push(String::new());
    lines
}

/// The banner's name for the method that moves the bytes.
fn io_function(role: Role, transport: Transport) -> &'static str {
    match (transport, role) {
        (Transport::Udp, Role::Client) => "MediaStream Client",
        (Transport::Udp, Role::Server) => "MediaStream Server",
        (Transport::Tcp, _) => "epoll (send/recv on non-blocking sockets)",
    }
}

fn pattern(spec: &Spec) -> &'static str {
    match (spec.transport, spec.phase.pattern) {
        (Transport::Udp, _) => "MediaStream <UDP controlled stream from server to client>",
        (_, Pattern::Push) => "Push <TCP client send/server recv>",
        (_, Pattern::Pull) => "Pull <TCP client recv/server send>",
        (_, Pattern::PushPull { .. }) => "PushPull <TCP client/server alternate send/recv>",
        (_, Pattern::Duplex) => "Duplex <TCP client/server both sending and receiving>",
    }
}

fn both(n: u64) -> String {
    format!("{n} [0x{n:x}]")
}

fn sizes(spec: &Spec, tell: &mut impl FnMut(String)) {
    let phase = &spec.phase;
    let Range { low, high } = phase.buffer;
    let request = match &phase.media {
        Some(media) => both(media.frame_size),
        None if low == high => both(low),
        None => span(low, Some(high)),
    };
    tell(format!("Buffer used for each IO request: {request} bytes"));
    let transfer = span(phase.transfer, phase.transfer_high);
    tell(format!("Total transfer per connection: {transfer} bytes"));
    if let Some(media) = &phase.media {
        let rate = u64::from(media.frame_rate).max(1);
        tell(format!("\tUDP Stream BitsPerSecond: {} bits per second", media.rate_bps));
        tell(format!("\tUDP Stream FrameRate: {} frames per second", media.frame_rate));
        tell(format!("\tUDP Stream BufferDepth: {} seconds", media.depth_frames / rate));
        tell(format!("\tUDP Stream StreamLength: {} seconds ({} frames)", media.frames / rate, media.frames));
        tell(format!("\tUDP Stream FrameSize: {} bytes", media.frame_size));
    }
    if let Some(rate) = phase.rate {
        let period = phase.rate_period_ns.unwrap_or(0) / 1_000_000;
        let rates = span(rate / 8, phase.rate_high.map(|high| high / 8));
        tell(format!("Sending throttled down to {rates} bytes/second, over periods of {period} ms"));
    }
    if let Some(Burst { count, delay_ns }) = phase.burst {
        tell(format!("Sending in bursts of {count}, each with a delay of {} ms", delay_ns / 1_000_000));
    }
}

fn server(spec: &Spec, resolved: &Resolved, tell: &mut impl FnMut(String)) {
    tell("Accepting connections on addresses:".to_owned());
    resolved.listens.iter().for_each(|&at| tell(format!("\t{}", address(at))));
    tell(format!("Server-accepted connections before exit : {}", limited(spec.exit_limit)));
}

fn client(spec: &Spec, resolved: &Resolved, tell: &mut impl FnMut(String)) {
    let phase = &spec.phase;
    if let Some(Binding::Interface(index)) = &spec.place {
        tell(format!("InterfaceIndex: {index}"));
    }
    tell("Connecting out to addresses:".to_owned());
    resolved.targets.iter().for_each(|&at| tell(format!("\t{}", address(at))));
    tell("Binding to local addresses for outgoing connections:".to_owned());
    resolved.binds.iter().for_each(|at| tell(format!("\t{}", at.ip())));
    match spec.local_ports {
        Some((low, high)) if low != high => {
            tell(format!("Using local port range for outgoing connections: [{low}, {high}]"));
        }
        Some((port, _)) => tell(format!("Using local port for outgoing connections: {port}")),
        None => {}
    }
    let [limit, throttle] = [phase.connections, phase.throttle].map(|n| both(n.into()));
    tell(format!("Connection limit (maximum established connections): {limit}"));
    tell(format!("Connection throttling rate (maximum pended connection attempts): {throttle}"));
    let all = limited(phase.iterations.map(|n| n.saturating_mul(phase.connections.into())));
    tell(format!("Total outgoing connections before exit (iterations * concurrent connections) : {all}"));
}

/// A count in both notations, a large one and none in hexadecimal only.
fn limited(count: Option<u64>) -> String {
    let n = count.unwrap_or(u64::MAX);
    if n > 0x7fff_ffff { format!("0x{n:x}") } else { both(n) }
}

/// A value, or the ends of a range.
fn span(low: u64, high: Option<u64>) -> String {
    high.map_or_else(|| low.to_string(), |high| format!("[{low}, {high}]"))
}
