//! `netcaliper train`.

use crate::args::datagrams::{self, DatagramArgs, WAITING};
use crate::args::repeat::RepeatArgs;
use crate::args::values;
use crate::args::{LocalArgs, OutputArgs, SessionArgs, TargetArgs};
use crate::outputs::{Outputs, series};
use crate::verbs::{measure, plan};
use clap::{Args, ValueEnum};
use console::error::{CliError, Exit};
use console::file;
use metrics::Clamped;
use model::{
    Axis, AxisName, Kind, Method, Pattern, Phase, Probe, SocketSettings, Train, Until, Verify, Waiting,
};
use report::Rows;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Trains of packets: a path's dispersion, delays and losses.
///
/// A train is a number of datagrams of one size that leave at a fixed spacing, or back to back.
/// Several spacings take turns, so that an effect on all of them at a time differs from an effect
/// on one.
#[derive(Args, Debug)]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    trains: ShapeArgs,
    #[command(flatten)]
    preset: PresetArgs,
    #[command(flatten)]
    sockets: DatagramArgs,
    #[command(flatten)]
    local: LocalArgs,
    /// Number of measurements; each has --repeat trains of every setting [default: 1; with
    /// --until-confidence at most 30].
    #[arg(long, value_name = "N", value_parser = values::count::<u32, 1000>, help_heading = "Repetitions")]
    runs: Option<u32>,
    /// Measure until the mean is known so well: 99,5 is 99 percent sure of ±2.5 percent (netperf's
    /// rule; LEVEL is 95 or 99, WIDTH is 5 if left out). At least 3 times.
    #[arg(long, value_name = "LEVEL,WIDTH", value_parser = Until::parse, help_heading = "Repetitions")]
    until_confidence: Option<Until>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Most trains of a setting.
const MOST_TRAINS: u64 = 10_000;

/// Trains: packets, sizes, gaps.
#[derive(Args, Debug)]
#[command(next_help_heading = "Trains")]
struct ShapeArgs {
    /// Packets of a train, 2 to 10000. All trains together have at most 100000.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100, value_parser = values::count::<u32, 10_000>)]
    packets: u32,
    /// Size of a packet: UDP payload in bytes, 40 to 65507. Several are measured one after the
    /// other: 100,500,1450 (a list), 64..1024 (doubling), 100..1450/50 (in steps of 50).
    #[arg(short = 'l', long, visible_alias = "size", value_name = "BYTES,…", default_value = "1400", value_delimiter = ',',
          value_parser = sizes)]
    length: Vec<Sizes>,
    /// Time from the start of a packet to the start of the next, such as 20us; 0 is back to back.
    /// Several, separated by commas, are settings that take turns.
    #[arg(long, value_name = "TIME,…", default_value = "0", value_delimiter = ',', value_parser = values::pause)]
    wait: Vec<u64>,
    /// Trains of each setting, 1 to 10000.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = values::count::<u32, MOST_TRAINS>)]
    repeat: u32,
    /// Length of the run: rounds for this time, at most 10000, instead of --repeat.
    #[arg(short = 't', long, value_name = "TIME", conflicts_with = "repeat", value_parser = values::duration)]
    time: Option<u64>,
    /// Time from one round, in which every setting has its train, to the next.
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = values::duration)]
    every: u64,
    #[command(flatten)]
    session: SessionArgs,
    /// The server sends.
    #[arg(short = 'R', long)]
    reverse: bool,
    /// The server returns every packet: round trip of each, two-way rate, time per packet.
    #[arg(long, conflicts_with_all = ["reverse", "gro"])]
    echo: bool,
    /// A packet that takes longer counts as late; missing ones are waited for as long at the end.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = values::duration)]
    late: u64,
    /// Sender's way of waiting for the next due time.
    #[arg(long, default_value = "hybrid", value_parser = values::one_of(WAITING))]
    waiting: Waiting,
    /// Short for --waiting spin.
    #[arg(long, conflicts_with = "waiting")]
    busy: bool,
    /// Write one row per packet: train, setting, number, intended, sent and received times, delay,
    /// stamp, verdict.
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,
    /// Write one row per train: the time series.
    #[arg(long, value_name = "FILE")]
    train_csv: Option<PathBuf>,
}

impl ShapeArgs {
    /// Rounds in the length of the run, if that is given.
    fn rounds(&self) -> Option<u64> {
        self.time.map(|ns| ns.div_ceil(self.every))
    }

    /// Refuses an impossible number of rounds.
    fn check_rounds(&self) -> Result<(), CliError> {
        match self.rounds() {
            Some(rounds) if rounds > MOST_TRAINS => Err(CliError::usage(format!(
                "--time has room for {rounds} rounds, and at most {MOST_TRAINS} are possible: shorten it, or lengthen --every"
            ))),
            _ => Ok(()),
        }
    }
}

/// Scenarios that belong together.
#[derive(Args, Debug)]
#[command(next_help_heading = "Presets")]
struct PresetArgs {
    /// Run the scenarios of the SLAC report on UDPmon: trains of 300 packets of 1450, 1000, 200 and
    /// 100 bytes with waits of 0, 10, 20 and 50us, then TCP with 1 to 128 streams; print the data
    /// series of its figures. --repeat is the number of measurements.
    #[arg(long, value_enum, conflicts_with_all = ["packets", "length", "wait", "echo"])]
    preset: Option<Preset>,
    /// Numbers of TCP streams, separated by commas, each at most 10000; 0 for no TCP at all.
    #[arg(long, value_name = "N,…", value_delimiter = ',', requires = "preset",
          default_value = "1,2,4,8,16,24,32,38,39,64,128", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    streams: Vec<u32>,
    /// Length of each run with TCP.
    #[arg(long, value_name = "TIME", default_value = "3s", requires = "preset", value_parser = values::duration)]
    stream_time: u64,
    /// Send and receive buffer of TCP, both ends, in bytes [default: the system's].
    #[arg(short = 'w', long, value_name = "BYTES", requires = "preset", value_parser = values::bytes)]
    window: Option<u64>,
    /// Write the data series as CSV files into this folder.
    #[arg(long, value_name = "FOLDER")]
    series: Option<PathBuf>,
}

/// Which scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Preset {
    Slac,
}

/// Sizes, waits and packets of the SLAC report.
const SLAC_SIZES: [u32; 4] = [1_450, 1_000, 200, 100];
const SLAC_WAITS: [u64; 4] = [0, 10_000, 20_000, 50_000];
const SLAC_PACKETS: u32 = 300;

fn label(name: &str, value: u32) -> BTreeMap<String, String> {
    BTreeMap::from([(name.to_owned(), value.to_string())])
}

/// The scenarios, each under its label.
fn slac(args: &TrainArgs) -> Vec<(BTreeMap<String, String>, Phase)> {
    let PresetArgs { streams, stream_time, window, .. } = &args.preset;
    let train = |size| {
        let shape = Train { packets: SLAC_PACKETS, waits_ns: SLAC_WAITS.to_vec(), ..train_of(&args.trains) };
        (label("size", size), phase(args, shape, size))
    };
    let tcp = |&connections: &u32| {
        let sockets = SocketSettings {
            sndbuf: *window,
            rcvbuf: *window,
            // One host or two: the window is the requested one, or the system's.
            same_host_sndbuf: false,
            ..SocketSettings::default()
        };
        let time = Some(*stream_time);
        (label("streams", connections), Phase { connections, duration_ns: time, sockets, ..Phase::default() })
    };
    SLAC_SIZES.into_iter().map(train).chain(streams.iter().filter(|&&n| n > 0).map(tcp)).collect()
}

pub(crate) fn train(args: &TrainArgs, command: Vec<String>) -> Result<Exit, CliError> {
    let protocol = args.target.protocol;
    args.trains.check_rounds()?;
    args.sockets.ecn.one()?;
    args.sockets.permit_card_change(protocol)?;
    let repeat = RepeatArgs { repeat: args.runs, until_confidence: args.until_confidence };
    let several = match args.preset.preset {
        Some(Preset::Slac) => Some(slac(args)),
        None if lengths(&args.trains).count() > 1 => Some(of_sizes(args)),
        None => None,
    };
    let method = match several {
        Some(settings) => {
            Method::list(settings, repeat.most()).map(|method| method.until(repeat.until_confidence))
        }
        None => repeat.of(&checked(args)?, &[]),
    };
    let method = method.map_err(CliError::usage)?;
    let config = plan::client(&args.target, &args.local, true)?;
    measure::check(&config, &method, &args.output)?;
    let (packets, trains) = (args.trains.samples.as_ref(), args.trains.train_csv.as_ref());
    let folder = args.preset.series.as_deref();
    folder.map_or(Ok(()), file::folder)?;
    let outputs = Outputs::open(&args.output, None, &[packets, trains])?.with_files_beside(folder.is_some());
    let mut outputs = outputs.with(Rows::Packets, packets)?.with(Rows::Trains, trains)?;
    measure::measure("train", command, &config, method, &mut outputs, |phase, interrupt, outputs| {
        measure::one(&config, phase, interrupt, &mut |event| outputs.event(&event))
    })?;
    let outcome = outputs.outcome();
    if args.preset.preset.is_some() {
        let mut text = Vec::new();
        // Writing to memory does not fail.
        let _ = series::print_all(&outcome, &mut text);
        outputs.print(text);
    }
    outputs.heed(folder.map_or(Ok(()), |folder| series::write_all(folder, &outcome)));
    Ok(outputs.finish())
}

/// One size of packets, or a range of them.
#[derive(Clone, Debug)]
struct Sizes(Vec<u64>);

fn sizes(text: &str) -> Result<Sizes, String> {
    if !text.contains("..") {
        return values::bytes(text).map(|one| Sizes(vec![one]));
    }
    Axis::parse(&format!("{}={text}", AxisName::Size), &[AxisName::Size]).map(|axis| Sizes(axis.values))
}

/// All sizes, in the order in which they are measured.
fn lengths(shape: &ShapeArgs) -> impl Iterator<Item = u64> {
    shape.length.iter().flat_map(|sizes| sizes.0.iter().copied())
}

/// A phase for each size, each under its label.
fn of_sizes(args: &TrainArgs) -> Vec<(BTreeMap<String, String>, Phase)> {
    let sizes = lengths(&args.trains).map(u32::clamped);
    sizes.map(|size| (label("size", size), phase(args, train_of(&args.trains), size))).collect()
}

/// The only phase without a preset, where its trains are possible.
pub(crate) fn checked(args: &TrainArgs) -> Result<Phase, CliError> {
    args.trains.check_rounds()?;
    let [(_, phase)] = <[_; 1]>::try_from(of_sizes(args))
        .map_err(|_| CliError::usage("one size of packets was expected: give --length once"))?;
    phase.check().map_err(CliError::usage)?;
    Ok(phase)
}

/// The trains that the command line asks for.
fn train_of(shape: &ShapeArgs) -> Train {
    Train {
        packets: shape.packets,
        waits_ns: shape.wait.clone(),
        repeat: shape.rounds().map_or(shape.repeat, |rounds| u32::clamped(rounds.min(MOST_TRAINS))),
        every_ns: shape.every,
        samples: shape.samples.is_some(),
        echo: shape.echo,
    }
}

fn phase(args: &TrainArgs, train: Train, size: u32) -> Phase {
    let shape = &args.trains;
    let mut sockets = datagrams::sockets(&args.sockets, args.target.protocol);
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
        interval_ns: shape.session.interval,
        rate: Some(train.mean_bps(size)),
        verify: Verify::Data,
        exclusive: shape.session.exclusive,
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
