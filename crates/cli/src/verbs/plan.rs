//! From arguments to a phase and a client.

use crate::args::key;
use crate::args::{ConnectArgs, CoreArgs, LocalArgs, RunArgs, SocketArgs, TargetArgs, TcpArgs};
use crate::error::CliError;
use crate::protocols::Protocol;
use crate::{config, protocols, provenance, signals};
use common::protocol::Defaults;
use common::{ClientConfig, Placement};
use metrics::{Clamped, SECOND};
use model::{Axis, AxisName, Burst, Kind, Pattern, Phase, Range, SocketSettings, Verify};
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

/// The connections or flows that were asked for, or the `usual` number of them: as many as servers at least.
pub(crate) fn connections(asked: Option<u32>, usual: u32, target: &TargetArgs) -> u32 {
    asked.unwrap_or_else(|| usual.max(u32::clamped(target.targets.len())))
}

/// Settings that all kinds of run share; `length` is the duration without `--time`.
fn common(run: &RunArgs, settings: &SocketArgs, target: &TargetArgs, length: Option<u64>) -> Phase {
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

/// The phase that `netcaliper tcp` asks for, before any sweep.
pub(crate) fn tcp(args: &TcpArgs) -> Phase {
    let data = &args.data;
    let ends_by_itself = args.run.iterations.is_some() || data.bytes.is_some();
    let length = if args.sweep.sweep.is_empty() { 10 * SECOND } else { 3 * SECOND };
    let Defaults { plain, whole_segments, .. } = args.target.protocol.info().defaults;
    let common = common(&args.run, &args.sockets, &args.target, (!ends_by_itself).then_some(length));
    // A length that was asked for is kept, and so is that of originals that tell how many calls they made; at a rate or up to an
    // amount iperf3 sends block by block. Our own protocol, whose
    // ends choose the send buffer within a host, is no faster with whole segments.
    let free = data.buffer.is_none() && data.rate.is_none() && data.bytes.is_none();
    let whole_segments = free && whole_segments;
    let connections = common.connections;
    // The number of bytes of a single connection, which a receiver reads to its end, is its transfer.
    let alone = plain && connections == 1 && args.sweep.sweep.is_empty();
    let alone = alone && data.transfer.is_none() && args.run.iterations.is_none();
    let (transfer, bytes) = if alone { (data.bytes, None) } else { (data.transfer, data.bytes) };
    Phase {
        connections,
        iterations: common.iterations.or((plain && transfer.is_some()).then_some(1)),
        pattern: match data.pattern {
            _ if data.reverse => Pattern::Pull,
            _ if data.bidir => Pattern::Duplex,
            Pattern::PushPull { .. } => Pattern::PushPull { push: data.push_bytes, pull: data.pull_bytes },
            pattern => pattern,
        },
        transfer: transfer.unwrap_or(if plain { common::bulk::UNLIMITED } else { 1 << 30 }),
        total_bytes: bytes,
        buffer: data.buffer.unwrap_or(Phase::default().buffer),
        sockets: SocketSettings { whole_segments, ..common.sockets },
        rate: data.rate,
        burst: data.burst.zip(data.burst_delay).map(|(count, delay_ns)| Burst { count, delay_ns }),
        verify: data.verify.unwrap_or(if plain { Verify::Connection } else { Verify::Data }),
        payload: data.payload,
        ..common
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

/// The sweep's axes.
pub(crate) fn axes(args: &TcpArgs) -> Result<Vec<Axis>, CliError> {
    args.sweep
        .sweep
        .iter()
        .map(|text| Axis::parse(text, &AxisName::STREAMS).map_err(CliError::usage))
        .collect()
}

/// The phase that `netcaliper connect` asks for.
pub(crate) fn connect(args: &ConnectArgs) -> Phase {
    let transfer = args.transfer.unwrap_or(if args.hold.is_some() { 64 } else { 1 });
    let ends_by_itself = args.run.iterations.is_some() || args.hold.is_some();
    let length = (!ends_by_itself).then_some(10 * SECOND);
    let common = common(&args.run, &args.sockets, &args.target, length);
    Phase {
        kind: Kind::Connect,
        pattern: Pattern::Push,
        transfer,
        iterations: args.hold.map_or(common.iterations, |_| Some(1)),
        hold_ns: args.hold,
        // Small transfers are read in one call together with their framing.
        buffer: Range::just(transfer.clamp(4096, 64 * 1024)),
        connect_rate: args.rate,
        ..common
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: TcpArgs,
    }

    fn phase(words: &str) -> Phase {
        let all = ["tcp", "host"].into_iter().chain(words.split_whitespace());
        let line = Line::try_parse_from(all).unwrap_or_else(|e| panic!("{words}: {e}"));
        tcp(&line.args)
    }

    #[test]
    fn the_bytes_of_a_single_connection_are_its_transfer() {
        let of = |words: &str| {
            let phase = phase(words);
            (phase.transfer, phase.iterations, phase.total_bytes, phase.duration_ns)
        };
        for protocol in ["ttcp", "ntttcp", "tcpmon", "discard"] {
            assert_eq!(
                of(&format!("--protocol {protocol} -n 16Mi")),
                (16 << 20, Some(1), None, None),
                "{protocol}"
            );
        }
        assert_eq!(of("--protocol ttcp -n 16Mi -P 2").2, Some(16 << 20));
        assert_eq!(of("-n 16Mi -P 1"), (1 << 30, None, Some(16 << 20), None));
    }

    #[test]
    fn calls_end_with_segments_where_nothing_says_how_much_they_move() {
        for (words, free) in [
            ("", false),
            ("--protocol iperf3", true),
            ("--protocol iperf3 --reverse", true),
            ("--protocol iperf3 -l 64Ki", false),
            ("--protocol iperf3 -b 1M", false),
            ("--protocol iperf3 -n 1M", false),
        ] {
            assert_eq!(phase(words).sockets.whole_segments, free, "{words}");
        }
    }
}
