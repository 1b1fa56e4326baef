//! `netcaliper train`.

use crate::args::{LocalArgs, OutputArgs, TargetArgs};
use crate::datagrams::{self, DatagramArgs, WaitArg};
use crate::outputs::Outputs;
use crate::ping::Histograms;
use crate::{Exit, Trouble, measure, plan, values};
use clap::Args;
use model::{Kind, Method, Pattern, Phase, Probe, Train, Verify};
use std::path::PathBuf;

/// Trains of packets: what their dispersion, their delays and their losses tell of a path.
///
/// A train is a number of datagrams of one size that leave at a fixed spacing, or back to back. Several spacings take turns,
/// so that what befalls all of them at a time can be told from what befalls one.
#[derive(Args, Debug)]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    trains: ShapeArgs,
    #[command(flatten)]
    sockets: DatagramArgs,
    #[command(flatten)]
    local: LocalArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// What is sent.
#[derive(Args, Debug)]
#[command(next_help_heading = "Trains")]
struct ShapeArgs {
    /// Packets of a train, 2 to 10000. All trains together have at most 100000.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100, value_parser = values::count32::<10_000>)]
    packets: u32,
    /// Size of a packet: UDP payload in bytes, 40 to 65507.
    #[arg(short = 'l', long, value_name = "BYTES", default_value = "1400", value_parser = values::bytes)]
    length: u64,
    /// Time from the start of a packet to the start of the next, such as 20us; 0 is back to back. Several, separated by commas,
    /// are settings that take turns.
    #[arg(long, value_name = "TIME,…", default_value = "0", value_delimiter = ',', value_parser = values::pause)]
    wait: Vec<u64>,
    /// Trains of each setting.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = values::count32::<10_000>)]
    repeat: u32,
    /// Time from one round, in which every setting has its train, to the next.
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = values::duration)]
    every: u64,
    /// Length of an interval of the live report.
    #[arg(short = 'i', long, value_name = "TIME", default_value = "1s", value_parser = values::interval)]
    interval: u64,
    /// The server sends.
    #[arg(short = 'R', long)]
    reverse: bool,
    /// The server returns every packet: round trip of each, two-way rate, time per packet.
    #[arg(long, conflicts_with_all = ["reverse", "gro"])]
    echo: bool,
    /// A packet that takes longer counts as late; missing ones are waited for as long at the end.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = values::duration)]
    late: u64,
    /// How the sender waits for the next due time: asleep, asleep until shortly before, or spinning all the time.
    #[arg(long, value_enum, default_value_t = WaitArg::Hybrid)]
    waiting: WaitArg,
    /// Short for --waiting spin.
    #[arg(long, conflicts_with = "waiting")]
    busy: bool,
    /// Run only when no other session runs on the server; wait for it in a queue.
    #[arg(long)]
    exclusive: bool,
    /// Write one row per packet: train, setting, number, intended, sent and received times, delay, stamp, verdict.
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,
    /// Write one row per train: the time series.
    #[arg(long, value_name = "FILE")]
    train_csv: Option<PathBuf>,
}

/// Measures.
pub(crate) fn train(args: &TrainArgs, command: Vec<String>) -> Result<Exit, Trouble> {
    let protocol = args.target.protocol;
    if protocol != wire::Protocol::Native {
        return Err(Trouble::usage(format!("the protocol {protocol} carries no trains; native does")));
    }
    let method = Method::new(&phase(args), &[], 1).map_err(Trouble::usage)?;
    let config = plan::client(&args.target, &args.local, true)?;
    measure::check(&config, &method)?;
    let (packets, rows) = (args.trains.samples.as_ref(), args.trains.train_csv.as_ref());
    let outputs = Outputs::open(&args.output, None)?.with_trains(packets, rows)?;
    measure::run("train", command, &config, method, outputs, Histograms::default())
}

/// The phase that the command line asks for.
fn phase(args: &TrainArgs) -> Phase {
    let shape = &args.trains;
    let size = u32::try_from(shape.length).unwrap_or(u32::MAX);
    let train = Train {
        packets: shape.packets,
        waits_ns: shape.wait.clone(),
        repeat: shape.repeat,
        every_ns: shape.every,
        samples: shape.samples.is_some(),
        echo: shape.echo,
    };
    let mut sockets = datagrams::sockets(&args.sockets);
    // A stamp for each packet needs a send call for each.
    sockets.gso = false;
    Phase {
        kind: Kind::Train,
        pattern: match (shape.echo, shape.reverse) {
            (true, _) => Pattern::Duplex,
            (_, true) => Pattern::Pull,
            _ => Pattern::Push,
        },
        connections: 1,
        duration_ns: Some(train.duration_ns()),
        interval_ns: shape.interval,
        rate: Some(train.mean_bps(size)),
        verify: Verify::Data,
        exclusive: shape.exclusive,
        sockets,
        probe: Some(Probe {
            size,
            waiting: datagrams::waiting(shape.waiting, shape.busy),
            late_ns: shape.late,
            ..Probe::default()
        }),
        train: Some(train),
        ..Phase::default()
    }
}
