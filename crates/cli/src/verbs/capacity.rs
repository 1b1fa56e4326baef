//! `netcaliper capacity`.

use crate::args::repeat::RepeatArgs;
use crate::args::values::{self, Named};
use crate::args::{HeaderArgs, LocalArgs, OutputArgs, SessionArgs, TargetArgs};
use crate::outputs::Outputs;
use crate::verbs::{measure, plan};
use clap::Args;
use console::error::{CliError, Exit};
use metrics::{Clamped, SECOND};
use model::{Algorithm, CapacitySettings, Method, Pattern, Payload, Phase, SearchSettings};
use std::collections::BTreeMap;

/// Nanoseconds of a millisecond.
const MS: u64 = SECOND / 1_000;

/// Maximum IP-layer capacity of a path (RFC 9097).
///
/// Bursts of datagrams are sent at a rate that rises while they arrive, and falls when they are lost
/// or delayed. The result is the rate of IP packets, headers included, in the best sub-interval.
#[derive(Args, Debug)]
pub(crate) struct CapacityArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    test: TestArgs,
    #[command(flatten)]
    search: SearchArgs,
    #[command(flatten)]
    packets: PacketArgs,
    #[command(flatten)]
    local: LocalArgs,
    #[command(flatten)]
    repeat: RepeatArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Direction, length and parts of the test.
#[derive(Args, Debug)]
#[command(next_help_heading = "Test")]
struct TestArgs {
    /// Length of a test in whole seconds, 1s to 1h; with udpstp 5s at least.
    #[arg(short = 't', long, value_name = "TIME", default_value = "10s", value_parser = values::duration)]
    time: u64,
    /// The server sends.
    #[arg(short = 'R', long, conflicts_with = "both")]
    reverse: bool,
    /// Both directions, one after the other.
    #[arg(long)]
    both: bool,
    /// Connections, 1 to 24, each with a search of its own; their rates are added.
    #[arg(short = 'P', long, value_name = "N", value_parser = values::count::<u32, 24>)]
    connections: Option<u32>,
    /// Length of a sub-interval, 100ms to 10s: the best one is the result.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::duration)]
    sub_interval: u64,
    /// Time from one report of the receiver to the next, 5ms to 250ms.
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = values::duration)]
    feedback: u64,
    /// Split the test after N sub-intervals: each part has a maximum of its own, as on paths that
    /// are faster at first.
    #[arg(long, value_name = "N", value_parser = values::count::<u16, 3600>)]
    first_mode: Option<u16>,
    /// Keep the first rate for N sub-intervals.
    #[arg(long, value_name = "N", value_parser = values::count::<u16, 3600>)]
    hold: Option<u16>,
    #[command(flatten)]
    session: SessionArgs,
}

/// The search for the rate.
#[derive(Args, Debug)]
#[command(next_help_heading = "Search")]
struct SearchArgs {
    /// Way of raising and lowering the rate.
    #[arg(long, default_value = "b", value_parser = values::one_of(ALGORITHM))]
    algorithm: Algorithm,
    /// Delay variation below which the rate rises.
    #[arg(long, value_name = "TIME", default_value = "30ms", value_parser = values::duration)]
    low: u64,
    /// Delay variation above which the rate falls.
    #[arg(long, value_name = "TIME", default_value = "90ms", value_parser = values::duration)]
    upper: u64,
    /// Variation of the one-way delay decides, instead of that of round trips.
    #[arg(long)]
    one_way: bool,
    /// Missing datagrams in a report above which the rate falls, 0 to 65535.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=65_535))]
    missing: u32,
    /// Overtaken and repeated datagrams count like missing ones.
    #[arg(long)]
    strict_order: bool,
    /// Rows of the table of rates that a fast step rises by, 1 to 255.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = values::count::<u16, 255>)]
    fast_step: u16,
    /// Bad reports after which steps are slow, 1 to 65535.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = values::count::<u32, 65_535>)]
    slow_after: u32,
    /// Only row of the table of rates, 0 to 1152: row N is N Mbit/s up to 1000.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1_152))]
    row: Option<u16>,
    /// First row of the search, 1 to 1152.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_152), conflicts_with = "row")]
    start_row: Option<u16>,
    /// Highest rate of IP packets that a connection may offer; udpstp states it to the server, in
    /// whole Mbit/s [default: that of the table, 10 Gbit/s, more with jumbo datagrams].
    #[arg(short = 'b', long, value_name = "RATE", value_parser = values::limit)]
    rate: Option<u64>,
}

/// The packets of the load.
#[derive(Args, Debug)]
#[command(next_help_heading = "Packets")]
struct PacketArgs {
    /// No datagrams longer than a packet of Ethernet, above 1 Gbit/s. With udpstp both ends must
    /// have the same setting.
    #[arg(long)]
    no_jumbo: bool,
    /// Fill packets of 1,500 bytes, instead of 1,250. With udpstp both ends must have the same
    /// setting.
    #[arg(long)]
    traditional: bool,
    /// Random payload, which nothing on the path can compress.
    #[arg(long)]
    random: bool,
    /// Octets of the lower layers of a packet, for the rate of the link: 18 is Ethernet with its
    /// checksum, 22 with a VLAN tag, 38 with preamble and gap; 0 to 1000.
    #[arg(long, value_name = "OCTETS", default_value_t = 18, value_parser = clap::value_parser!(u16).range(0..=1_000))]
    overhead: u16,
    /// Send and receive buffer of the sockets in bytes.
    #[arg(long, value_name = "BYTES", default_value = "1024000", value_parser = values::bytes)]
    socket_buffer: u64,
    #[command(flatten)]
    header: HeaderArgs,
}

/// Algorithms.
const ALGORITHM: Named<Algorithm> = &[
    ("b", "By rows, as in RFC 9097 and TR-471", Algorithm::B),
    ("c", "By doubling, and again after a while: faster on fast paths", Algorithm::C),
];

/// The directions, in turn.
fn ways(test: &TestArgs) -> &'static [Pattern] {
    match (test.both, test.reverse) {
        (true, _) => &[Pattern::Push, Pattern::Pull],
        (_, true) => &[Pattern::Pull],
        _ => &[Pattern::Push],
    }
}

/// The capacity of a path.
pub(crate) fn capacity(args: &CapacityArgs, command: Vec<String>) -> Result<Exit, CliError> {
    let method = match ways(&args.test) {
        [one] => args.repeat.of(&phase_of(args, *one)?, &[]),
        ways => {
            let named = |way: &Pattern| {
                let name = if way.sends_up() { "up" } else { "down" };
                Ok((BTreeMap::from([("direction".to_owned(), name.to_owned())]), phase_of(args, *way)?))
            };
            let settings = ways.iter().map(named).collect::<Result<Vec<_>, CliError>>()?;
            Method::list(settings, args.repeat.most())
                .map(|method| method.until(args.repeat.until_confidence))
        }
    };
    let method = method.map_err(CliError::usage)?;
    let config = plan::client(&args.target, &args.local, true)?;
    measure::check(&config, &method, &args.output)?;
    measure::run("capacity", command, &config, method, Outputs::open(&args.output, None, &[])?)
}

/// The phase of the first direction.
pub(crate) fn phase(args: &CapacityArgs) -> Result<Phase, CliError> {
    phase_of(args, ways(&args.test).first().copied().unwrap_or_default())
}

fn phase_of(args: &CapacityArgs, way: Pattern) -> Result<Phase, CliError> {
    let CapacityArgs { test, search, packets, .. } = args;
    let whole = |name: &str, ns: u64| match ns % MS {
        0 => Ok(ns / MS),
        _ => Err(CliError::usage(format!("--{name} takes whole milliseconds, such as 50ms"))),
    };
    if test.time % SECOND != 0 {
        return Err(CliError::usage("a capacity test lasts whole seconds: give --time as 10s"));
    }
    let settings = CapacitySettings {
        search: SearchSettings {
            algorithm: search.algorithm,
            low_ms: u32::clamped(whole("low", search.low)?),
            upper_ms: u32::clamped(whole("upper", search.upper)?),
            sequence_errors: search.missing,
            loss_only: !search.strict_order,
            one_way: search.one_way,
            fast_rows: search.fast_step,
            bad_reports: search.slow_after,
            ..SearchSettings::RFC
        },
        trial_ms: u16::clamped(whole("feedback", test.feedback)?),
        sub_interval_ms: u16::clamped(whole("sub-interval", test.sub_interval)?),
        first_mode: test.first_mode.unwrap_or(0),
        suppressed: test.hold.unwrap_or(0),
        row: search.row.or(search.start_row),
        start: search.start_row.is_some(),
        jumbo: !packets.no_jumbo,
        traditional: packets.traditional,
        overhead: packets.overhead,
    };
    let connections = plan::connections(test.connections, 1, &args.target);
    let mut phase = settings.phase(way, connections);
    phase.duration_ns = Some(test.time);
    phase.interval_ns = test.session.interval;
    phase.exclusive = test.session.exclusive;
    phase.rate = search.rate;
    if packets.random {
        phase.payload = Payload::Random;
    }
    let buffer = Some(packets.socket_buffer);
    (phase.sockets.sndbuf, phase.sockets.rcvbuf) = (buffer, buffer);
    (phase.sockets.dscp, phase.sockets.ttl) = (packets.header.dscp, packets.header.ttl);
    phase.check().map_err(CliError::usage)?;
    Ok(phase)
}
