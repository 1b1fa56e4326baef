//! Our own protocol: one port, TCP control, TCP data.
//!
//! Every connection opens with an 80-byte [`preamble`]. A control connection goes on with length-prefixed JSON
//! ([`message`]), encrypted where there is a key ([`secure`]); a data connection with payload in spans, framed by 16-byte [`mark`]s ([`data`]).
#![forbid(unsafe_code)]

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
pub use dial::{Dialer, Site};
pub use grants::{Grant, Grants};
pub use handshake::{Handshake, Listener};
pub use hello::{answer_hello, hello, is_answer};
pub use mark::{Kind as MarkKind, MARK, Mark};
pub use message::{Frames, MAX_MESSAGE, Message, MessageError, encode};
pub use opening::{Numbers, Opener, OpeningKey};
pub use preamble::{Guess, PREAMBLE, Preamble, Purpose, guess, is_ours};
pub use server::{Server, ServerPlan};
pub use spread::Door;

use crate::config::{ClientConfig, ServerConfig, StopServers};
use crate::host::HostInfo;
use crate::pending::most_pending;
use crate::protocol::{Hello, Info, Listening, Ports, Protocol, Serving, Started, refused};
use common::protocol::Foreigners;
use common::{Limits, ProtocolOptions};
use common::{auth, balance, config, host, payload, pending, protocol, quota, round_robin, verdicts};
use model::{Kind, Phase, SMALLEST_PROBE, SocketSettings};
use std::net::SocketAddr;
use transport::Replica;

/// The default port, TCP and UDP.
pub const PORT: u16 = 7411;
/// Version of the wire format; both ends must have the same.
pub const WIRE_VERSION: u16 = 3;

pub static PROTOCOL: Native = Native(Info {
    keyed: true,
    holds: true,
    hello: Some(Hello { encode: |id| hello(id).to_vec(), is_answer }),
    ..Info::new("native", PORT)
});

/// The protocol with a conversation of its own: both ends agree, and tell each other what they counted.
pub struct Native(Info);

fn foreign(options: &ProtocolOptions) -> Foreigners {
    options.get().cloned().unwrap_or_default()
}

/// A worker's send and receive buffer; a client that asks for more gets it in pieces of this size.
const BUFFER: usize = 1 << 20;

/// Send buffer asked for when both ends are on one host, bytes.
///
/// The system lets a send buffer grow to megabytes. Within one host nothing is gained by that: the sender fills it before
/// the receiver runs, and every byte has left the caches by the time it is read; a pacing congestion control arms a timer
/// for each piece besides. Measured (`bench/README.md`): best, or close to it, with and without pacing, with one
/// connection and with many.
const SAME_HOST_SNDBUF: u64 = 96 * 1024;

/// The send buffer for a phase within one host, unless the user has chosen one or it would do harm.
fn same_host_sndbuf(phase: &Phase) -> Option<u64> {
    let sockets = &phase.sockets;
    let ours = sockets.same_host_sndbuf && sockets.sndbuf.is_none() && phase.kind == Kind::Tcp;
    ours.then_some(SAME_HOST_SNDBUF)
}

impl Protocol for Native {
    fn info(&self) -> &Info {
        &self.0
    }

    fn carries(&self, phase: &Phase) -> Result<(), &'static str> {
        carries(phase)
    }

    fn listening(&self, config: &ServerConfig) -> Result<Listening, String> {
        let ports = Ports { connections: true, datagrams: true };
        let ports = vec![ports; config.listen.len()];
        Ok(Listening { sockets: SocketSettings::default(), in_order: false, ports })
    }

    fn client(
        &self,
        config: &ClientConfig,
        phase: &Phase,
        host: &'static dyn HostInfo,
    ) -> Result<Started, String> {
        // With worker processes the threads of this one have nothing to do.
        let workers = match config.processes.count {
            0 => config.workers_for(phase, host.cores().len()),
            _ => 1,
        };
        let stop = config.options.get::<StopServers>();
        let plan = ClientPlan {
            peers: config.peers.clone(),
            phase: phase.clone(),
            keys: config.keys.clone(),
            run: config.run,
            version: config.version.clone(),
            workers,
            sources: config.sources.clone(),
            ports: config.ports,
            secret: host.secret()?,
            records: config.records,
            stop_servers: stop.is_some(),
            stop_only: stop.and_then(|stop| stop.only.clone()),
            clock_id: host.clock_id(),
            same_host_sndbuf: same_host_sndbuf(phase),
            foreign: foreign(&config.options),
            processes: config.processes,
        };
        Ok(Started::new(Client::new(plan, host.now()), workers, phase))
    }

    fn replica(&self) -> Option<Box<dyn Replica>> {
        Some(Box::<spread::Sharer>::default())
    }

    fn server(&self, serving: &Serving<'_>) -> Result<Started, String> {
        let Serving { config, host, workers, addresses, doors } = *serving;
        let limits = config.limits.clone();
        let plan = ServerPlan {
            version: config.version.clone(),
            keys: config.keys.clone(),
            acl: config.acl.clone(),
            limits: Limits { pending: most_pending(limits.pending, host), ..limits },
            foreign: foreign(&config.options),
            exclusive: config.exclusive,
            exit_after: config.exit_after,
            host: host.snapshot(addresses.first().map(SocketAddr::ip)),
            workers,
            placement: config.placement.describe(),
            interval_ns: config.interval_ns,
            secret: host.secret()?,
            records: config.records,
            sessions: config.sessions,
            clock_id: host.clock_id(),
            besides: config.besides.clone(),
            doors: doors.to_vec(),
            workers_of_process: config.processes.workers,
        };
        let session = Box::new(Server::new(plan, host.now()));
        Ok(Started { session, workers, sets: ServerPlan::SETS, buffer: BUFFER, keepalive_ns: None })
    }
}

/// Longest message that is sent back, bytes: a server keeps one for each connection.
const LONGEST_ECHO: u32 = 64 * 1024;

fn carries(phase: &Phase) -> Result<(), &'static str> {
    let several = phase.probe.is_none() || phase.iterations.is_some_and(|n| n > 1);
    let range = phase.transfer_high.is_some() || phase.rate_high.is_some();
    refused([
        (
            phase.kind == Kind::Stream && several,
            "carries each media stream once, as numbered datagrams of its own",
        ),
        (
            phase.probe.is_some_and(|probe| probe.size < SMALLEST_PROBE),
            "needs datagrams of 40 to 65507 bytes",
        ),
        (
            phase.probe.is_some() && phase.ends_after().is_none(),
            "agrees on a length: a measurement of delay needs one",
        ),
        (
            phase.ping.is_some_and(|ping| ping.size > LONGEST_ECHO),
            "sends messages of at most 64Ki back: use --protocol echo for longer ones",
        ),
        (
            range,
            "agrees on one transfer and one rate: ranges of them are for protocols that agree on nothing",
        ),
        (phase.rate_period_ns.is_some(), "keeps rates smoothly, not by quanta"),
    ])?;
    common::ping::without_stamp(phase)
}
