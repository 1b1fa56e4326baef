//! From arguments to a phase and a client.

use crate::args::key;
use crate::args::{CoreArgs, LocalArgs, RunArgs, SocketArgs, TargetArgs};
use crate::protocols::Protocol;
use crate::{config, protocols, provenance};
use common::{ClientConfig, Placement};
use console::error::CliError;
use console::signals;
use metrics::Clamped;
use model::{Kind, Phase, Verify};
use std::net::SocketAddr;

/// Where the workers of a test run whose protocol is this.
pub(crate) fn placement(args: &CoreArgs, protocol: Protocol) -> Placement {
    let usual = if protocol.info().defaults.spread { Placement::Spread } else { Placement::Even };
    args.affinity.clone().unwrap_or(usual)
}

/// The client's configuration: servers, local address, workers.
pub(crate) fn client(
    target: &TargetArgs,
    local: &LocalArgs,
    records: bool,
) -> Result<ClientConfig, CliError> {
    let protocol = target.protocol;
    let port = target.port.unwrap_or_else(|| protocol.port());
    let targets: Vec<String> = target.targets.iter().map(|name| config::target(name)).collect();
    let families = (target.ipv4, target.ipv6);
    let mut peers = runtime::resolve_targets(&targets, port, families, &signals::interrupt()?)?;
    let fits = |to: &SocketAddr| local.bind.iter().any(|from| from.is_ipv4() == to.is_ipv4());
    peers.iter_mut().filter(|_| !local.bind.is_empty()).for_each(|peer| peer.keep(fits));
    Ok(ClientConfig {
        peers,
        keys: key::of_client(target)?,
        sources: local.bind.clone(),
        ports: local.local_port,
        device: local.cores.bind_dev.clone(),
        placement: placement(&local.cores, protocol),
        workers: local.cores.workers,
        at_most: local.at_most,
        allowance: local.at_most.map(common::config::own_allowance),
        run: runtime::run_id(),
        version: provenance::VERSION.to_owned(),
        records,
        options: protocols::foreign(),
        ..ClientConfig::new(protocol)
    })
}

/// The connections or flows that were asked for, or the `usual` number of them: as many as servers
/// at least.
pub(crate) fn connections(asked: Option<u32>, usual: u32, target: &TargetArgs) -> u32 {
    asked.unwrap_or_else(|| usual.max(u32::clamped(target.targets.len())))
}

/// A seed of draws that the user did not choose: of 48 bits, which are exact in every JSON reader.
pub(crate) fn seed() -> u64 {
    runtime::run_id().as_u64_pair().1 >> 16
}

/// Settings that all kinds of run share; `length` is the duration without `--time`.
pub(crate) fn common(
    run: &RunArgs,
    settings: &SocketArgs,
    target: &TargetArgs,
    length: Option<u64>,
) -> Phase {
    let usual = if target.protocol.info().defaults.plain { 1 } else { 8 };
    Phase {
        connections: connections(run.connections, usual, target),
        iterations: run.iterations,
        duration_ns: run.time.or(length),
        omit_ns: run.connection.omit.div_ceil(run.session.interval) * run.session.interval,
        interval_ns: run.session.interval,
        shutdown: run.shutdown,
        sockets: settings.settings(),
        throttle: run.throttle,
        connect_timeout_ns: run.connection.connect_timeout,
        stall_ns: run.connection.stall_timeout,
        exclusive: run.session.exclusive,
        ..Phase::default()
    }
}

/// Replaces defaults that the protocol does not support; explicit settings stay and are refused
/// later.
pub(crate) fn suited(protocol: Protocol, phase: Phase) -> Phase {
    if protocol.info().defaults.plain && phase.kind == Kind::Delay {
        // Datagrams are sent for a time, however many those are.
        return Phase { transfer: common::bulk::UNLIMITED, verify: Verify::Connection, ..phase };
    }
    protocol.suited(phase)
}
