//! `netcaliper ping`.

use crate::args::protocol::ProtocolArgs;
use crate::args::repeat::RepeatArgs;
use crate::args::values;
use crate::args::{ConnectionArgs, EcnArgs, HistogramArgs, LocalArgs, OutputArgs, SocketArgs, TargetArgs};
use crate::outputs::Outputs;
use crate::outputs::histograms::Histograms;
use crate::verbs::{baseline, delay, measure, plan};
use clap::Args;
use console::error::{CliError, Exit};
use metrics::{Clamped, SECOND};
use model::{Kind, Phase, Ping, Range, Schedule, SocketSettings, Transport, Verify};
use report::Rows;
use std::path::PathBuf;

/// Messages a second, unless the user says otherwise: routers answer STAMP on their slow path.
const USUAL_RATE: f64 = 10.0;
/// Messages, where neither a number nor a length is asked for.
const USUAL_COUNT: u64 = 10;
/// So few messages that each has an interval, hence a line, where they are that far apart, ns.
const FEW: (u64, u64) = (30, SECOND / 10);

/// Smallest socket buffer that a user may mean, bytes; Linux gives twice 1,152 at least.
const SMALLEST_WINDOW: u64 = 256;

#[derive(Args, Debug)]
pub(crate) struct PingArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    messages: MessageArgs,
    #[command(flatten)]
    protocol: ProtocolArgs,
    #[command(flatten)]
    repeat: RepeatArgs,
    #[command(flatten)]
    sockets: SocketArgs,
    #[command(flatten)]
    ecn: EcnArgs,
    #[command(flatten)]
    local: LocalArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    histogram: HistogramArgs,
    /// Write one CSV row per message: when it was to be sent, when it was, how long it took.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    samples: Option<PathBuf>,
}

/// Messages, and when they are sent.
#[derive(Args, Debug)]
#[command(next_help_heading = "Messages")]
struct MessageArgs {
    /// Send datagrams instead of using a stream.
    #[arg(short, long)]
    udp: bool,
    /// Size of a message: payload in bytes, 1 to 64Ki (native), 65507 (UDP) or 16Mi (echo over TCP)
    /// [default: 64; of a STAMP packet as many as it needs].
    #[arg(short = 'l', long, value_name = "BYTES", value_parser = values::bytes)]
    size: Option<u64>,
    /// Messages of each connection: the run ends after them [default: 10; with --time, --flood,
    /// --rate or --trace the run ends by time].
    #[arg(short = 'n', long, value_name = "N", value_parser = values::count::<u64, { u64::MAX }>)]
    count: Option<u64>,
    /// Warm-up messages at the start of each connection, before those of --count.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = values::whole)]
    warmup: u64,
    /// Send a message in pieces of this many bytes, a send call (a datagram) each [default: whole].
    #[arg(long, value_name = "BYTES", value_parser = values::bytes)]
    send_chunk: Option<u64>,
    /// Messages per second on each connection, independent of echoes [default: 10].
    #[arg(long, value_name = "N", value_parser = values::per_second, overrides_with = "flood")]
    rate: Option<f64>,
    /// Open loop: times between messages from a file, over and over: one a line, with a unit or in
    /// seconds (as tshark's frame.time_delta).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rate", "poisson"], overrides_with = "flood")]
    trace: Option<PathBuf>,
    /// A closed loop, at the speed of the echoes: each message waits for the echo of the last.
    #[arg(long, visible_alias = "closed-loop")]
    flood: bool,
    /// Random times between messages (a Poisson process of that rate) instead of even ones.
    #[arg(long, requires = "rate")]
    poisson: bool,
    /// Longest wait for an echo, at most 10m; over UDP a later echo is late, a missing one lost.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::duration)]
    timeout: u64,
    /// Spin instead of sleeping: a core for each worker, and no wake-up in the figure.
    #[arg(long)]
    busy: bool,
    /// Run before all ordinary threads (SCHED_FIFO), with all memory kept in place (mlockall):
    /// needs root. With --busy the kernel still takes 50 ms a second, unless
    /// kernel.sched_rt_runtime_us is -1.
    #[arg(long)]
    realtime: bool,
    /// Take kernel timestamps of messages and echoes, too (UDP): round trips without this program
    /// and its wake-up.
    #[arg(long)]
    kernel_stamps: bool,
    /// Do not measure the local baseline, the same messages within this host, before the run (up to
    /// 0.25 s, and half a second before it where messages keep a schedule, as before the run
    /// itself: connections are set up then).
    #[arg(long, alias = "no-empty-path")]
    no_baseline: bool,
    /// Concurrent connections, 1 to 1000000, each with messages of its own [default: 1, to each
    /// server].
    #[arg(short = 'P', long, alias = "parallel", value_name = "N", value_parser = values::count::<u32, 1_000_000>)]
    connections: Option<u32>,
    /// Length of the run [default: 10s with --flood, --rate and --trace; else the run ends after
    /// its messages].
    #[arg(short = 't', long, value_name = "TIME", value_parser = values::duration)]
    time: Option<u64>,
    /// Length of an interval, 10ms to 1h [default: 1s; the time between two messages where at most
    /// 30 are sent, no more than 10 a second].
    #[arg(short = 'i', long, value_name = "TIME", value_parser = report_interval)]
    interval: Option<u64>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// The length of an interval of the report. A bare number, to other programs the time from one
/// message to the next, is refused.
fn report_interval(text: &str) -> Result<u64, String> {
    match text.trim().parse::<f64>().ok().filter(|seconds| *seconds > 0.0 && seconds.is_finite()) {
        Some(seconds) => Err(format!(
            "for a message every {seconds} s use --rate {}; -i is the interval of the report and takes a unit, such as {seconds}s",
            (1e6 / seconds).round() / 1e6
        )),
        None => values::interval(text),
    }
}

/// Refuses a socket buffer that is smaller than any message: to other programs `-w` is the length
/// of the run.
fn check_window(sockets: &SocketArgs) -> Result<(), CliError> {
    match sockets.window.filter(|bytes| *bytes < SMALLEST_WINDOW) {
        Some(bytes) => Err(CliError::usage(format!(
            "-w is the size of the socket buffers, and {bytes} bytes are too few: the length of the run is `-t {bytes}s`"
        ))),
        None => Ok(()),
    }
}

/// Refuses an ECN codepoint of messages over TCP.
fn check_ecn(args: &PingArgs) -> Result<(), CliError> {
    match args.ecn.ecn.filter(|_| !args.messages.udp) {
        Some(_) => Err(CliError::usage(
            "--ecn is for datagrams (-u): over TCP the kernel negotiates ECN by itself (net.ipv4.tcp_ecn)",
        )),
        None => Ok(()),
    }
}

/// Round trips of messages.
pub(crate) fn ping(args: &PingArgs, command: Vec<String>) -> Result<Exit, CliError> {
    check_window(&args.sockets)?;
    check_ecn(args)?;
    let mut config = plan::client(&args.target, &args.local, true)?;
    config.realtime = args.messages.realtime;
    let method = args.repeat.of(&phase(args, config.keys.psk().is_some())?, &[]).map_err(CliError::usage)?;
    measure::check(&config, &method, &args.output)?;
    let [hgrm, csv] = args.histogram.files();
    let outputs = Outputs::open(&args.output, None, &[args.samples.as_ref(), hgrm, csv])?;
    let outputs = outputs.with(Rows::Samples, args.samples.as_ref())?.in_steps(args.histogram.linear);
    let mut outputs = outputs.with_files_beside(hgrm.or(csv).is_some());
    let mut files = Histograms::open(&args.histogram)?;
    measure::measure("ping", command, &config, method, &mut outputs, |phase, interrupt, outputs| {
        if !args.messages.no_baseline {
            outputs.event(&baseline::reading(&config, phase, interrupt));
        }
        measure::one(&config, phase, interrupt, &mut |event| outputs.event(&event))
    })?;
    files.add(&outputs.outcome());
    outputs.heed(files.write());
    Ok(outputs.finish())
}

/// The phase that the command line asks for; `keyed` says that a key is known.
pub(crate) fn phase(args: &PingArgs, keyed: bool) -> Result<Phase, CliError> {
    let m = &args.messages;
    let is_paced = m.rate.is_some() || m.trace.is_some();
    let rate = m.rate.or((!m.flood).then_some(USUAL_RATE));
    let usual = !(is_paced || m.flood || m.time.is_some());
    let count = m.count.or(usual.then_some(USUAL_COUNT));
    let small = |n: u64, what: &str| {
        u32::try_from(n)
            .map_err(|_| CliError::usage(format!("{what} of {n} bytes is too long: at most 16Mi")))
    };
    let gap_ns = rate.map(|rate| u64::clamped((SECOND as f64 / rate).round()));
    let trace = m.trace.as_deref().map(delay::trace).transpose()?;
    let gap_ns = trace.as_ref().map(|trace| u64::clamped(trace.mean_ns().round())).or(gap_ns);
    let connections = plan::connections(m.connections, 1, &args.target);
    let is_few = count.is_some_and(|count| count <= FEW.0) && connections == 1;
    let apart = gap_ns.filter(|gap| is_few && (FEW.1..=3_600 * SECOND).contains(gap));
    let interval_ns = m.interval.or(apart).unwrap_or(SECOND);
    let ping = Ping {
        transport: if m.udp { Transport::Udp } else { Transport::Tcp },
        // 0: the usual size of the protocol.
        size: small(m.size.unwrap_or(0), "a message")?,
        messages: count,
        warmup: m.warmup,
        chunk: m.send_chunk.map(|n| small(n, "a send")).transpose()?,
        schedule: match gap_ns {
            None => Schedule::Closed,
            Some(gap_ns) if trace.is_some() => Schedule::Trace { gap_ns },
            Some(gap_ns) if m.poisson => Schedule::Poisson { gap_ns },
            Some(gap_ns) => Schedule::Fixed { gap_ns },
        },
        timeout_ns: m.timeout,
        lead_ns: Ping::default().lead_ns,
        busy: m.busy,
        kernel_stamps: m.kernel_stamps,
        samples: args.samples.is_some() || args.output.save.is_some() || args.output.jsonl,
        stamp: None,
    };
    let mut phase = Phase {
        kind: Kind::Ping,
        ping: Some(ping),
        trace,
        connections,
        iterations: Some(1),
        duration_ns: m.time.or(count.is_none().then_some(10 * SECOND)),
        omit_ns: m.connection.omit.div_ceil(interval_ns) * interval_ns,
        interval_ns,
        verify: Verify::Data,
        sockets: SocketSettings { ecn: args.ecn.one()?, ..args.sockets.settings() },
        connect_timeout_ns: m.connection.connect_timeout,
        stall_ns: m.connection.stall_timeout,
        ..Phase::default()
    };
    args.protocol.apply(args.target.protocol, &mut phase)?;
    (args.target.protocol.info().form)(&mut phase, keyed).map_err(CliError::usage)?;
    let size = phase.ping.map_or(0, |ping| ping.size);
    Ok(Phase { buffer: Range::just(u64::from(size).clamp(4096, 1 << 20)), ..phase })
}
