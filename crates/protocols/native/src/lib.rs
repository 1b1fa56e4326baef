//! Our own protocol: one port, TCP control, TCP data.
//!
//! Every connection opens with an 80-byte [`preamble`]. A control connection goes on with
//! length-prefixed JSON ([`message`]), encrypted where there is a key ([`secure`]); a data
//! connection with payload in spans, framed by 16-byte [`mark`]s ([`data`]).
#![forbid(unsafe_code)]

mod budget;
mod capacity;
mod client;
mod data;
mod dial;
mod grants;
mod handshake;
mod hello;
mod inside;
mod mark;
mod message;
pub mod opening;
mod ping;
mod preamble;
pub mod secure;
mod server;
mod spread;
pub mod udp;

pub use client::{Client, ClientPlan};
pub use data::{Data, Params, Role};
pub use grants::{Grant, Grants};
pub use handshake::{Handshake, Listener};
pub use hello::{answer_hello, hello, is_answer};
pub use mark::{Kind as MarkKind, MARK, Mark};
pub use message::{FlowReport, Frames, MAX_MESSAGE, Message, MessageError, encode};
pub use opening::{Numbers, Opener, OpeningKey};
pub use preamble::{Guess, PREAMBLE, Preamble, Purpose, guess, is_ours};
pub use server::{Server, ServerPlan};
pub use spread::ProcessPort;

use crate::config::ServerConfig;
use crate::host::HostInfo;
use crate::pending::most_held;
use crate::protocol::{Hello, Info, Listening, Ports, Protocol, Ranges, Serving, Started, refused};
use common::ProtocolOptions;
use common::protocol::{Calling, Foreigners};
use common::{auth, balance, config, host, payload, pending, protocol, quota, round_robin, verdicts};
use model::{EndCounts, Kind, Pattern, Phase, SMALLEST_PROBE, SocketSettings};
use std::net::SocketAddr;
use transport::Replica;

/// The default port, TCP and UDP.
pub const PORT: u16 = 7411;
/// Version of the wire format; both ends must have the same.
pub const WIRE_VERSION: u16 = 3;

pub static PROTOCOL: Native = Native(Info {
    keyed: true,
    capacity: true,
    holds: true,
    ranges: Ranges::Seeded,
    counts: EndCounts::OF_CLIENT,
    hello: Some(Hello { encode: |id| hello(id).to_vec(), is_answer }),
    ..Info::new("native", PORT)
});

/// The protocol with a conversation of its own: both ends agree, and tell each other what they
/// counted.
pub struct Native(Info);

/// Other protocols whose peers are recognised.
fn foreign(options: &ProtocolOptions) -> Foreigners {
    options.get().cloned().unwrap_or_default()
}

/// A worker's send and receive buffer; a client that asks for more gets it in pieces of this size.
const BUFFER: usize = 1 << 20;

/// Send buffer asked for when both ends are on one host, bytes.
///
/// The system lets a send buffer grow to megabytes. Within one host nothing is gained by that: the
/// sender fills it before the receiver runs, and every byte has left the caches by the time it is
/// read; a pacing congestion control arms a timer for each piece besides. Measured
/// (`bench/README.md`): best, or close to it, with and without pacing, with one connection and with
/// many.
const SAME_HOST_SNDBUF: u64 = 96 * 1024;
/// Receive buffer that Linux gives a connection at first, bytes.
const SAME_HOST_RCVBUF: u64 = 128 * 1024;

/// Connections from which on their buffers are held against the system's memory for TCP.
const MANY: u32 = 1_000;
/// The least socket buffer that is chosen, bytes.
const LEAST_BUFFER: u64 = 4 * 1024;

/// Socket buffers where both ends are on one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SameHost {
    /// Send buffer, bytes.
    pub sndbuf: u64,
    /// Receive buffer, bytes, where the system's own would not do.
    pub rcvbuf: Option<u64>,
}

/// The socket buffers for a phase within one host, unless the user has chosen the send buffer or it
/// would do harm.
///
/// Beyond `memory`, the pressure threshold of `net.ipv4.tcp_mem` in bytes, the kernel drops what
/// has been received already: connections then back off for many seconds. Each direction of a
/// connection has two queues, and the kernel takes twice what is asked for.
fn same_host(phase: &Phase, memory: Option<u64>) -> Option<SameHost> {
    let sockets = &phase.sockets;
    if !sockets.same_host_sndbuf || sockets.sndbuf.is_some() || phase.kind != Kind::Tcp {
        return None;
    }
    let ways = u64::from(phase.pattern.sends_up()) + u64::from(phase.pattern.sends_down());
    let queues = u64::from(phase.connections).saturating_mul(2 * ways).max(1);
    let share = memory.map_or(u64::MAX, |memory| (memory / queues / 2).max(LEAST_BUFFER));
    let usual = SAME_HOST_RCVBUF / 2;
    let rcvbuf = Some(share).filter(|&share| share < usual && sockets.rcvbuf.is_none());
    Some(SameHost { sndbuf: share.min(SAME_HOST_SNDBUF), rcvbuf })
}

/// The pressure threshold of the memory that all TCP sockets of the host may take, bytes.
fn tcp_memory(host: &dyn HostInfo) -> Option<u64> {
    let pages = host.snapshot(None).sysctl.get("net.ipv4.tcp_mem")?.split_whitespace().nth(1)?.parse().ok();
    // Where pages are larger, there is more.
    pages.map(|pages: u64| pages.saturating_mul(4_096))
}

/// Longest message that is sent back, bytes: a server keeps one for each connection.
const LONGEST_ECHO: u32 = 64 * 1024;

impl Protocol for Native {
    fn info(&self) -> &Info {
        &self.0
    }

    fn carries(&self, phase: &Phase) -> Result<(), &'static str> {
        let several = phase.probe.is_none() || phase.iterations.is_some_and(|n| n > 1);
        let stream = phase.kind == Kind::Stream && several;
        let short = phase.probe.is_some_and(|probe| probe.size < SMALLEST_PROBE);
        let endless = phase.probe.is_some() && phase.ends_after().is_none();
        let long = phase.ping.is_some_and(|ping| ping.size > LONGEST_ECHO);
        let timeless = phase.capacity.is_some() && phase.duration_ns.is_none();
        let both = phase.capacity.is_some() && !matches!(phase.pattern, Pattern::Push | Pattern::Pull);
        let range = phase.transfer_high.is_some() || phase.rate_high.is_some();
        let range = range && !matches!(phase.kind, Kind::Tcp | Kind::Connect);
        let parts = phase.transfer_high.is_some() && phase.total_bytes.is_some();
        refused([
            (stream, "carries each media stream once, as numbered datagrams of its own"),
            (short, "needs datagrams of 40 to 65507 bytes"),
            (endless, "agrees on a length: a measurement of delay needs one"),
            (timeless, "agrees on a length: a capacity test needs one"),
            (both, "measures the capacity of one direction at a time"),
            (long, "sends messages of at most 64Ki back: use --protocol echo for longer ones"),
            (range, "draws transfers and rates of connections only"),
            (parts, "cannot share a number of bytes (-n) among transfers that are drawn"),
            (phase.rate_period_ns.is_some(), "keeps rates smoothly, not by quanta"),
        ])?;
        common::ping::without_stamp(phase)
    }

    fn listening(&self, config: &ServerConfig) -> Result<Listening, String> {
        let ports = Ports { connections: true, datagrams: true };
        let ports = vec![ports; config.listen.len()];
        Ok(Listening { sockets: SocketSettings::default(), in_order: false, ports })
    }

    fn client(&self, calling: &Calling<'_>) -> Result<Started, String> {
        let Calling { config, phase, host } = *calling;
        // With worker processes the threads of this one have nothing to do.
        let workers = match config.processes.count {
            0 => config.workers_for(phase, host.cores().len()),
            _ => 1,
        };
        let memory = if phase.connections > MANY { tcp_memory(host) } else { None };
        let plan = ClientPlan {
            config: config.clone(),
            phase: phase.clone(),
            workers,
            secret: host.secret()?,
            clock_id: host.clock_id(),
            same_host: same_host(phase, memory),
        };
        Ok(Started::new(Client::new(plan, host.now()), workers, phase).in_small_segments())
    }

    fn replica(&self) -> Option<Box<dyn Replica>> {
        Some(Box::<spread::Sharer>::default())
    }

    fn server(&self, serving: &Serving<'_>) -> Result<Started, String> {
        let Serving { config, host, workers, addresses, process_ports } = *serving;
        let mut config = config.clone();
        config.limits.places = most_held(workers.saturating_mul(ServerPlan::SETS), host);
        let plan = ServerPlan {
            config,
            host: host.snapshot(addresses.first().map(SocketAddr::ip)),
            workers,
            secret: host.secret()?,
            clock_id: host.clock_id(),
            process_ports: process_ports.to_vec(),
        };
        let session = Box::new(Server::new(plan, host.now()));
        Ok(Started {
            session,
            workers,
            sets: ServerPlan::SETS,
            buffer: BUFFER,
            keepalive_ns: None,
            mss: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_many_connections_fit_the_memory_for_tcp() {
        // The pressure threshold of a host with 24 GiB: 383,868 pages.
        let memory = 383_868 * 4_096;
        let chosen = |connections, pattern, memory| {
            same_host(&Phase { connections, pattern, ..Phase::default() }, memory).unwrap()
        };
        let usual = SameHost { sndbuf: 98_304, rcvbuf: None };
        for memory in [Some(memory), None] {
            assert_eq!(chosen(8, Pattern::Duplex, memory), usual);
            assert_eq!(chosen(2_000, Pattern::Push, memory), usual);
        }
        for (connections, pattern, ways) in
            [(15_000, Pattern::Pull, 1), (15_000, Pattern::Duplex, 2), (19_000, Pattern::Duplex, 2)]
        {
            let SameHost { sndbuf, rcvbuf } = chosen(connections, pattern, Some(memory));
            // The kernel takes twice what is asked for.
            let all = 2 * (sndbuf + rcvbuf.unwrap_or(65_536)) * u64::from(connections) * ways;
            assert!(all <= memory && all > memory / 2, "{connections} {pattern}: {sndbuf} {rcvbuf:?}");
        }
        assert_eq!(chosen(1_000_000, Pattern::Duplex, Some(memory)).sndbuf, LEAST_BUFFER);
        let own =
            Phase { sockets: SocketSettings { sndbuf: Some(1), ..Default::default() }, ..Phase::default() };
        assert_eq!(same_host(&own, None), None);
    }
}
