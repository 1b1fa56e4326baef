//! `netcaliper delay`.

use crate::args::datagrams::{self, DatagramArgs, WAITING};
use crate::args::protocol::ProtocolArgs;
use crate::args::repeat::RepeatArgs;
use crate::args::values::{self, Named, NumberOrNone};
use crate::args::{LocalArgs, OutputArgs, SessionArgs, TargetArgs};
use crate::outputs::Outputs;
use crate::protocols;
use crate::verbs::{measure, plan};
use clap::Args;
use console::error::{CliError, Exit};
use metrics::{Clamped, ClockKind, SECOND, real};
use model::{
    Axis, AxisName, Kind, Method, Pattern, Phase, Probe, SocketSettings, Spacing, Trace, Verify, Waiting,
};
use report::Rows;
use std::path::{Path, PathBuf};

/// From this rate on, bits/s, datagrams are received merged: one at a time a core does not keep up.
const FAST: u64 = 1_000_000_000;

#[derive(Args, Debug)]
pub(crate) struct DelayArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    probe: ProbeArgs,
    #[command(flatten)]
    protocol: ProtocolArgs,
    #[command(flatten)]
    sweep: SlotArgs,
    #[command(flatten)]
    sockets: DatagramArgs,
    #[command(flatten)]
    local: LocalArgs,
    #[command(flatten)]
    repeat: RepeatArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Write one row per datagram: flow, direction, number, intended, sent and received times,
    /// delay, source of the stamp, verdict.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    samples: Option<PathBuf>,
}

// Wide: a field for each option, as clap wants them.
/// Datagrams: number, size, rate and duration.
#[derive(Args, Debug)]
#[command(next_help_heading = "Datagrams")]
struct ProbeArgs {
    /// Rate of each flow and direction, in bits per second of UDP payload; 0 is as fast as it goes
    /// [default: 1000 datagrams per second].
    #[arg(short = 'b', long, value_name = "RATE", value_parser = values::rate_or_none, conflicts_with_all = ["pps", "spacing"])]
    rate: Option<NumberOrNone>,
    /// Rate as datagrams per second, of each flow and direction.
    #[arg(long, value_name = "N", value_parser = values::per_second, conflicts_with = "spacing", allow_negative_numbers = true)]
    pps: Option<f64>,
    /// Rate as the time between two datagrams of a flow, such as 250us.
    #[arg(long, value_name = "TIME", value_parser = values::duration, allow_negative_numbers = true)]
    spacing: Option<u64>,
    /// Size of a datagram: UDP payload in bytes, 40 to 65507; with bwdelaytester 16 to 2000.
    #[arg(short = 'l', long, visible_alias = "size", value_name = "BYTES", default_value = "1400", value_parser = values::bytes, allow_negative_numbers = true)]
    length: u64,
    /// Length of the run [default: 10s; 2s for each rate of a search and each slot of a sweep].
    #[arg(short = 't', long, value_name = "TIME", value_parser = values::duration, allow_negative_numbers = true)]
    time: Option<u64>,
    #[command(flatten)]
    session: SessionArgs,
    /// Flows, 1 to 1000, each from a port of its own (--source-ports says from which); each has a
    /// row in the result [default: 1, to each server].
    #[arg(short = 'P', long, alias = "parallel", value_name = "N", value_parser = values::count::<u32, 1000>, allow_negative_numbers = true)]
    flows: Option<u32>,
    /// Only this end sends [default: both send, but with --search, --sweep, --path-mtu and other
    /// protocols this end].
    #[arg(long)]
    up: bool,
    /// The server sends alone.
    #[arg(short = 'R', long, conflicts_with = "bidir", overrides_with = "up")]
    reverse: bool,
    /// Both send at once.
    #[arg(long, overrides_with = "up")]
    bidir: bool,
    /// Sequence of sending times.
    #[arg(long, default_value = "fixed", value_parser = values::one_of(SCHEDULE))]
    schedule: Spacing,
    /// Times between datagrams from a file, over and over: one a line, with a unit or in seconds
    /// (as tshark's frame.time_delta).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rate", "pps", "spacing", "schedule"])]
    trace: Option<PathBuf>,
    /// Seed of random schedules: the same seed gives the same times [default: random, shown in the
    /// result].
    #[arg(long, value_name = "N", value_parser = values::whole)]
    seed: Option<u64>,
    /// A datagram that takes longer counts as late; missing ones are waited for as long at the end.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = values::duration)]
    late: u64,
    /// Comparison of the clocks of the two hosts [default: same-host where both ends are on one
    /// host, else in-band].
    #[arg(long, value_parser = values::one_of(CLOCK))]
    clock: Option<ClockKind>,
    /// Senders' way of waiting for the next due time.
    #[arg(long, visible_alias = "waiting", default_value = "hybrid", value_parser = values::one_of(WAITING))]
    wait: Waiting,
    /// Short for --wait spin.
    #[arg(long, conflicts_with = "wait")]
    busy: bool,
    /// Have the kernel stamp each datagram's departure, where it is sent by a call of its own: the
    /// time in the sender's system is reported, and --samples has the kernel's stamps.
    #[arg(long)]
    tx_stamps: bool,
    /// Keep the schedule: drop datagrams that cannot be sent in time (within the spacing, 1 ms at
    /// least) instead of sending it late.
    #[arg(long)]
    nonblock: bool,
    /// Do not compare the payload of received datagrams; their headers are checked all the same.
    #[arg(long)]
    no_compare: bool,
    /// Find the highest rate at which no more than this share is lost (a probability such as 0.1%
    /// or 0.001): starts at full speed, then bisects between the highest rate that passed and the
    /// lowest that failed.
    #[arg(long, value_name = "LOSS", num_args = 0..=1, require_equals = true, default_missing_value = "0.01%", value_parser = values::share, conflicts_with_all = ["rate", "pps", "spacing", "trace"])]
    search: Option<f64>,
}

/// One setting, varied slot by slot.
#[derive(Args, Debug)]
#[command(next_help_heading = "Sweep")]
struct SlotArgs {
    /// Vary rate, size or spacing, a slot each: rate=1M..1G (doubling), rate=10M..100M/10M (steps),
    /// rate=10M..100M:40 (a ramp of 40 slots), size=64,512,1400 (as many datagrams a second as
    /// otherwise), spacing=10us..1ms. Loss and delay of each slot are reported, and the knee.
    #[arg(long, value_name = "NAME=VALUES", conflicts_with = "trace")]
    sweep: Option<String>,
    /// Look for the largest packet that arrives whole, in each direction asked for, instead.
    #[arg(long, conflicts_with_all = ["sweep", "trace", "rate", "pps", "spacing", "length", "samples"])]
    path_mtu: bool,
    /// Largest IP packet to try, in bytes, 1 to 65535.
    #[arg(long, value_name = "BYTES", default_value_t = 9000, requires = "path_mtu", value_parser = values::count::<u32, 65535>)]
    mtu_limit: u32,
    /// Write one CSV row per slot.
    #[arg(long, value_name = "FILE", requires = "sweep")]
    sweep_csv: Option<PathBuf>,
}

/// Methods of comparing clocks.
const CLOCK: Named<ClockKind> = &[
    (
        "in-band",
        "Over the path itself, before, during and after: right within half of the smallest round trip",
        ClockKind::InBand,
    ),
    (
        "realtime",
        "By the wall clocks, which PTP or NTP must keep right: the bound is the kernels' error estimate",
        ClockKind::Realtime,
    ),
    (
        "same-host",
        "Both ends read one clock: servers that cannot prove to be on this host are refused",
        ClockKind::SameHost,
    ),
];

/// Sequences of sending times.
const SCHEDULE: Named<Spacing> = &[
    ("fixed", "Always the same time", Spacing::Fixed),
    ("uniform", "Random, evenly between nothing and twice the mean", Spacing::Uniform),
    ("poisson", "Random, as a Poisson process", Spacing::Poisson),
];

/// One-way delay and loss of datagrams.
pub(crate) fn delay(args: &DelayArgs, command: Vec<String>) -> Result<Exit, CliError> {
    if args.probe.search.is_some() && args.target.protocol != protocols::NATIVE {
        let text = format!(
            "a search needs the counts of arrivals, which {} servers do not report",
            args.target.protocol
        );
        return Err(CliError::usage(text));
    }
    args.sockets.permit_card_change(args.target.protocol)?;
    let config = plan::client(&args.target, &args.local, true)?;
    let axis = args.sweep.sweep.as_deref().map(|text| Axis::parse(text, &AxisName::DATAGRAMS)).transpose();
    let axes: Vec<Axis> = axis.map_err(CliError::usage)?.into_iter().collect();
    let base = plan::suited(args.target.protocol, phase(args)?);
    let method = if args.sweep.path_mtu {
        let v4 = config.peers.iter().all(|peer| peer.address.ip().to_canonical().is_ipv4());
        Method::path_mtu(&base, if v4 { 28 } else { 48 }, args.sweep.mtu_limit)
    } else {
        match args.probe.search {
            Some(limit) => Method::search(&base, limit),
            None => args.repeat.of(&base, &axes),
        }
    };
    let method = method.map_err(CliError::usage)?;
    if args.repeat.repeats() && (args.sweep.path_mtu || args.probe.search.is_some()) {
        return Err(CliError::usage(
            "a search repeats its attempts by itself: leave out --repeat and --until-confidence",
        ));
    }
    measure::check(&config, &method, &args.output)?;
    let samples = args.samples.as_ref();
    let outputs = Outputs::open(&args.output, args.sweep.sweep_csv.as_ref(), &[samples])?;
    measure::run("delay", command, &config, method, outputs.with(Rows::Datagrams, samples)?)
}

/// The phase that `netcaliper delay` asks for.
pub(crate) fn phase(args: &DelayArgs) -> Result<Phase, CliError> {
    let DelayArgs { probe, sockets, .. } = args;
    let size = u32::try_from(probe.length).unwrap_or(u32::MAX);
    let bits = real(probe.length) * 8.0;
    let rate = match (probe.rate, probe.pps, probe.spacing) {
        (Some(rate), ..) => rate.0,
        (None, Some(pps), _) => Some(u64::clamped((pps * bits).round())),
        (None, None, Some(ns)) => Some(u64::clamped((bits * 1e9 / ns as f64).round())),
        (None, None, None) => Some(1_000 * probe.length * 8),
    };
    let trace = probe.trace.as_deref().map(trace).transpose()?;
    let rate = trace.as_ref().map(|trace| trace.mean_bps(size)).or(rate);
    let usual = if probe.search.is_some() || args.sweep.sweep.is_some() { 2 * SECOND } else { 10 * SECOND };
    let time = probe.time.unwrap_or(usual);
    let DatagramArgs { gro, no_gro, .. } = sockets;
    let native = args.target.protocol == protocols::NATIVE;
    let searches = probe.search.is_some() || args.sweep.sweep.is_some() || args.sweep.path_mtu;
    let plain = native && !searches;
    if !native {
        sockets.ecn.one()?;
    }
    let flows = plan::connections(probe.flows, 1, &args.target);
    let all = rate.map(|rate| rate.saturating_mul(flows.into()));
    let fast = plain && all.is_none_or(|bps| bps >= FAST) && !probe.tx_stamps && args.samples.is_none();
    let asked = datagrams::sockets(sockets, args.target.protocol);
    let mut phase = Phase {
        kind: Kind::Delay,
        pattern: match (probe.reverse, probe.bidir) {
            (true, _) => Pattern::Pull,
            (_, true) => Pattern::Duplex,
            _ if plain && !probe.up => Pattern::Duplex,
            _ => Pattern::Push,
        },
        connections: flows,
        // Nothing agrees on an end with another protocol's: the flow has it, and is not begun
        // again.
        duration_ns: Some(time),
        iterations: (args.target.protocol != protocols::NATIVE).then_some(1),
        interval_ns: probe.session.interval,
        rate,
        verify: if probe.no_compare { Verify::Connection } else { Verify::Data },
        exclusive: probe.session.exclusive,
        sockets: SocketSettings { gro: *gro || fast && !no_gro, ..asked },
        probe: Some(Probe {
            size,
            spacing: if trace.is_some() { Spacing::Trace } else { probe.schedule },
            waiting: datagrams::waiting(probe.wait, probe.busy),
            seed: probe.seed.unwrap_or_else(plan::seed),
            late_ns: probe.late,
            clock: probe.clock,
            nonblock: probe.nonblock,
            tx_stamps: probe.tx_stamps,
            samples: args.samples.is_some(),
            paired: sockets.ecn.ecn.and_then(|(_, other)| other),
            ..Probe::default()
        }),
        trace,
        ..Phase::default()
    };
    args.protocol.apply(args.target.protocol, &mut phase)?;
    Ok(phase)
}

/// The times between sends in a file.
pub(crate) fn trace(path: &Path) -> Result<Trace, CliError> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| CliError::usage(format!("cannot read the trace {}: {e}", path.display())))?;
    Trace::parse(&text).map_err(|why| CliError::usage(format!("{}: {why}", path.display())))
}
