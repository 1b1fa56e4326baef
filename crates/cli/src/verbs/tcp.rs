//! `netcaliper tcp`.

use crate::args::protocol::named;
use crate::args::repeat::RepeatArgs;
use crate::args::values::{self, Named};
use crate::args::{LocalArgs, OutputArgs, RunArgs, SocketArgs, TargetArgs, VERIFY, plain};
use crate::outputs::Outputs;
use crate::protocols;
use crate::verbs::{measure, plan};
use clap::Args;
use common::protocol::{Defaults, Ranges};
use console::error::{CliError, Exit};
use metrics::SECOND;
use model::{Axis, AxisName, Burst, Pattern, Payload, Phase, Range, SocketSettings, Verify};
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct TcpArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    #[command(flatten)]
    pub(crate) data: DataArgs,
    #[command(flatten)]
    pub(crate) sweep: SweepArgs,
    #[command(flatten)]
    pub(crate) repeat: RepeatArgs,
    #[command(flatten)]
    pub(crate) sockets: SocketArgs,
    #[command(flatten)]
    pub(crate) local: LocalArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What is moved, in which direction, and how it is checked.
#[derive(Args, Debug)]
#[command(next_help_heading = "Data")]
pub(crate) struct DataArgs {
    /// Which end sends.
    #[arg(long, default_value = "push", value_parser = values::one_of(PATTERN))]
    pub(crate) pattern: Pattern,
    /// The server sends: short for --pattern pull.
    #[arg(short = 'R', long, conflicts_with_all = ["pattern", "bidir"])]
    pub(crate) reverse: bool,
    /// Both send at once: short for --pattern duplex.
    #[arg(long, conflicts_with = "pattern")]
    pub(crate) bidir: bool,
    /// With --pattern pushpull: bytes the client sends in its turn.
    #[arg(long, value_name = "BYTES", default_value = "1Mi", value_parser = values::bytes)]
    pub(crate) push_bytes: u64,
    /// With --pattern pushpull: bytes the server sends in its turn.
    #[arg(long, value_name = "BYTES", default_value = "1Mi", value_parser = values::bytes)]
    pub(crate) pull_bytes: u64,
    #[arg(long, value_name = "BYTES", value_parser = values::range, allow_negative_numbers = true, help = transfer_help())]
    pub(crate) transfer: Option<Range>,
    /// Payload of the whole run in bytes: it ends when they have moved [default: the run ends by
    /// time].
    #[arg(short = 'n', long, value_name = "BYTES", value_parser = values::bytes, allow_negative_numbers = true)]
    pub(crate) bytes: Option<u64>,
    #[arg(short = 'l', long, value_name = "BYTES", value_parser = values::range, allow_negative_numbers = true, help = buffer_help())]
    pub(crate) buffer: Option<Range>,
    /// Rate limit of each connection and direction: bits per second, 8 to 10T, or a range
    /// low..high that each of them draws from [default: none].
    #[arg(short = 'b', long, value_name = "RATE", value_parser = values::rates, allow_negative_numbers = true)]
    pub(crate) rate: Option<Range>,
    /// Seed of what --buffer, --transfer and -b draw from ranges: the same seed draws the same
    /// [default: random, shown in the result].
    #[arg(long, value_name = "N", value_parser = values::whole)]
    pub(crate) seed: Option<u64>,
    /// Send calls in a burst, 1 to 1000000.
    #[arg(long, value_name = "N", requires = "burst_delay", conflicts_with = "rate", value_parser = values::count::<u32, 1_000_000>)]
    pub(crate) burst: Option<u32>,
    /// Pause after a burst.
    #[arg(long, value_name = "TIME", requires = "burst", value_parser = values::duration)]
    pub(crate) burst_delay: Option<u64>,
    #[arg(long, value_parser = values::one_of(VERIFY), help = verify_help())]
    pub(crate) verify: Option<Verify>,
    /// Payload: the pattern, random bytes (incompressible, never the same twice), or zeros.
    #[arg(long, default_value = "pattern", value_parser = values::one_of(PAYLOAD))]
    pub(crate) payload: Payload,
}

/// One setting, or two crossed, varied over a list of values.
#[derive(Args, Debug)]
#[command(next_help_heading = "Sweep")]
pub(crate) struct SweepArgs {
    /// Vary buffer, connections or rate: buffer=16..1Mi (doubling), connections=1..64/7 (in steps
    /// of 7), rate=1M,10M,100M (a list). Give it twice to cross two.
    #[arg(long, value_name = "NAME=VALUES")]
    pub(crate) sweep: Vec<String>,
    /// Write one CSV row per setting.
    #[arg(long, value_name = "FILE", requires = "sweep")]
    pub(crate) sweep_csv: Option<PathBuf>,
}

/// Bytes of a turn are options of their own.
const PATTERN: Named<Pattern> = &[
    ("push", "The client sends", Pattern::Push),
    ("pull", "The server sends", Pattern::Pull),
    ("pushpull", "They take turns", Pattern::PushPull { push: 0, pull: 0 }),
    ("duplex", "Both send at once", Pattern::Duplex),
];

const PAYLOAD: Named<Payload> = &[
    ("pattern", "A 16-bit counter, period 64 KiB", Payload::Pattern),
    ("random", "Random, seeded per connection and direction", Payload::Random),
    ("zeros", "Zeros", Payload::Zeros),
];

/// Goodput, integrity and reliability.
pub(crate) fn tcp(args: &TcpArgs, command: Vec<String>) -> Result<Exit, CliError> {
    let phase = plan::suited(args.target.protocol, phase(args));
    if phase.draw_seed.is_some() && !draws(&args.data) {
        let why = "--seed repeats draws from ranges, and there are none: give --buffer, --transfer or -b as low..high";
        return Err(CliError::usage(why));
    }
    let method = args.repeat.of(&phase, &axes(args)?).map_err(CliError::usage)?;
    // A transfer is long enough for its record to cost nothing.
    let mut config = plan::client(&args.target, &args.local, true)?;
    config.processes.count = args.run.processes.unwrap_or(0);
    measure::check(&config, &method, &args.output)?;
    let outputs = Outputs::open(&args.output, args.sweep.sweep_csv.as_ref(), &[])?;
    measure::run("tcp", command, &config, method, outputs)
}

/// The phase that `netcaliper tcp` asks for, before any sweep.
pub(crate) fn phase(args: &TcpArgs) -> Phase {
    let data = &args.data;
    let ends_by_itself = args.run.iterations.is_some() || data.bytes.is_some();
    let length = if args.sweep.sweep.is_empty() { 10 * SECOND } else { 3 * SECOND };
    let Defaults { plain, whole_segments, .. } = args.target.protocol.info().defaults;
    let common = plan::common(&args.run, &args.sockets, &args.target, (!ends_by_itself).then_some(length));
    // A length that was asked for is kept, and so is that of originals that tell how many calls
    // they made; at a rate or up to an amount iperf3 sends block by block. Our own protocol, whose
    // ends choose the send buffer within a host, is no faster with whole segments.
    let free = data.buffer.is_none() && data.rate.is_none() && data.bytes.is_none();
    let whole_segments = free && whole_segments;
    let connections = common.connections;
    // The number of bytes of a single connection, which a receiver reads to its end, is its
    // transfer.
    let alone = plain && connections == 1 && args.sweep.sweep.is_empty();
    let alone = alone && data.transfer.is_none() && args.run.iterations.is_none();
    let transfer = data.transfer.map(|range| range.low);
    let (transfer, bytes) = if alone { (data.bytes, None) } else { (transfer, data.bytes) };
    let seeded = draws(data) && args.target.protocol.info().ranges == Ranges::Seeded;
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
        transfer_high: data.transfer.and_then(upper_end),
        total_bytes: bytes,
        buffer: data.buffer.unwrap_or(Phase::default().buffer),
        sockets: SocketSettings { whole_segments, ..common.sockets },
        rate: data.rate.map(|range| range.low),
        rate_high: data.rate.and_then(upper_end),
        draw_seed: data.seed.or_else(|| seeded.then(plan::seed)),
        burst: data.burst.zip(data.burst_delay).map(|(count, delay_ns)| Burst { count, delay_ns }),
        verify: data.verify.unwrap_or(if plain { Verify::Connection } else { Verify::Data }),
        payload: data.payload,
        ..common
    }
}

/// The upper end of a range, if it is one.
fn upper_end(Range { low, high }: Range) -> Option<u64> {
    (high > low).then_some(high)
}

/// True if something is drawn from a range.
fn draws(data: &DataArgs) -> bool {
    [data.buffer, data.transfer, data.rate].into_iter().flatten().any(|range| upper_end(range).is_some())
}

/// The sweep's axes.
fn axes(args: &TcpArgs) -> Result<Vec<Axis>, CliError> {
    args.sweep
        .sweep
        .iter()
        .map(|text| Axis::parse(text, &AxisName::STREAMS).map_err(CliError::usage))
        .collect()
}

fn transfer_help() -> String {
    format!(
        "Payload of one connection in bytes, both directions together, at most 1024Ti, or a range low..high that each connection \
         draws from; then it is replaced by a new one [default: 1Gi; no limit with --protocol {}]",
        plain()
    )
}

fn buffer_help() -> String {
    format!(
        "Bytes per send and receive call, 1 to 16Mi, or a range low..high that each call draws from [default: 256Ki; with \
         --protocol {}, without -b and -n, a send call takes what fills whole segments]",
        named(|protocol| protocol.info().defaults.whole_segments)
    )
}

fn verify_help() -> String {
    let unread = |protocol: protocols::Protocol| protocol.suited(Phase::default()).verify == Verify::None;
    format!(
        "What receivers check: every byte, the counts of both ends (bytes are read), or only the counts (bytes may be discarded \
         unread) [default: data; connection with --protocol {}, none with {}: they agree on no payload]",
        plain(),
        named(unread)
    )
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

    fn phase_of(words: &str) -> Phase {
        let all = ["tcp", "host"].into_iter().chain(words.split_whitespace());
        let line = Line::try_parse_from(all).unwrap_or_else(|e| panic!("{words}: {e}"));
        phase(&line.args)
    }

    #[test]
    fn the_bytes_of_a_single_connection_are_its_transfer() {
        let of = |words: &str| {
            let phase = phase_of(words);
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
    fn ranges_are_drawn_from_a_seed_that_the_result_has() {
        let of = |words: &str| {
            let phase = phase_of(words);
            (phase.transfer, phase.transfer_high, phase.rate, phase.rate_high, phase.draw_seed)
        };
        assert_eq!(
            of("--transfer 1Ki..1Mi -b [10M,1G] --seed 9"),
            (1 << 10, Some(1 << 20), Some(10_000_000), Some(1_000_000_000), Some(9))
        );
        assert_eq!(of("--transfer 5..5 -b 8"), (5, None, Some(8), None, None));
        for words in ["-l 1Ki..1Mi", "--transfer 1..2", "-b 1M..2M"] {
            assert!(phase_of(words).draw_seed.is_some_and(|seed| seed < 1 << 48), "{words}");
        }
        // Its ends draw by themselves.
        assert_eq!(of("--protocol ctstraffic --transfer 1..2").4, None);
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
            assert_eq!(phase_of(words).sockets.whole_segments, free, "{words}");
        }
    }
}
