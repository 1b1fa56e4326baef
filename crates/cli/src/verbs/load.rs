//! `netcaliper load`.

use crate::args::repeat::RepeatArgs;
use crate::args::values;
use crate::args::{EcnArgs, LocalArgs, OutputArgs, SocketArgs, TargetArgs};
use crate::outputs::Outputs;
use crate::protocols;
use crate::verbs::measure::Ended;
use crate::verbs::{measure, plan};
use clap::Args;
use common::ClientConfig;
use console::error::{CliError, Exit, lock};
use console::signals;
use metrics::{Clamped, SECOND, format_duration};
use model::load::{Load, Part, Stage};
use model::{Event, Outcome, Phase, Point, Status};
use runtime::Interrupt;
use screen::Planned;
use std::collections::BTreeMap;
use std::sync::{Mutex, mpsc};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

#[derive(Args, Debug)]
pub(crate) struct LoadArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Length of each of the four stages: idle, down, up, both.
    #[arg(short = 't', long, value_name = "TIME", default_value = "10s", value_parser = values::duration)]
    time: u64,
    /// Time to fill the path before measuring, rounded up to whole seconds.
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = values::duration)]
    ramp: u64,
    /// Connections that fill the path, 1 to 10000 [default: 8, and one to each server at least].
    #[arg(short = 'P', long, alias = "parallel", value_name = "N", value_parser = values::count::<u32, 10_000>)]
    connections: Option<u32>,
    /// Probes per second: messages there and back, and datagrams each way, at this rate each.
    #[arg(long, value_name = "N", default_value = "50", value_parser = values::per_second)]
    rate: f64,
    /// Run only when no other session runs on the server, and wait for that in a queue before each
    /// stage.
    #[arg(long)]
    exclusive: bool,
    #[command(flatten)]
    sockets: SocketArgs,
    #[command(flatten)]
    ecn: EcnArgs,
    #[command(flatten)]
    local: LocalArgs,
    #[command(flatten)]
    repeat: RepeatArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Interval of the checks for the user's interrupt while the path fills.
const LOOK: Duration = Duration::from_millis(20);
/// Time beyond the plan that the load may go on while the probes are set up, ns.
const EXTRA: u64 = 60 * SECOND;
/// Time that the load goes on after its probes' for datagrams that may be under way, ns. Their ends
/// wait longer for lost ones, and need no load for that.
const UNDER_WAY: u64 = 2 * SECOND;
const TOO_SHORT: &str = "the load ended before the delays beside it were measured, because the server limits the time of a run \
                         (its --max-time): choose a shorter -t or --ramp";

/// Ending of a measurement, and its events.
type Told = Result<(Ended, Vec<Event>), CliError>;

/// Length of all stages, with the time to fill the path.
pub(crate) fn length_ns(args: &LoadArgs) -> u64 {
    let stage = args.time.saturating_add(args.ramp.next_multiple_of(SECOND));
    stage.saturating_mul(u64::clamped(Stage::ALL.len()))
}

/// Delays of a full path.
pub(crate) fn load(args: &LoadArgs, command: Vec<String>) -> Result<Exit, CliError> {
    let protocol = args.target.protocol;
    if protocol != protocols::NATIVE {
        return Err(CliError::usage(format!(
            "the protocol {protocol} carries no load with probes beside it; native does"
        )));
    }
    let filler = Phase {
        connections: plan::connections(args.connections, 8, &args.target),
        duration_ns: Some(args.time),
        sockets: args.sockets.settings(),
        exclusive: args.exclusive,
        ..Phase::default()
    };
    let ecn = args.ecn.ecn.map(|(ecn, other)| (ecn, other.unwrap_or_default()));
    if ecn.is_some_and(|(ecn, other)| ecn == other) {
        return Err(CliError::usage("--ecn: the codepoint is compared with off: give another, such as ect1"));
    }
    let config = plan::client(&args.target, &args.local, false)?;
    let (ramp_ns, servers) = (args.ramp.next_multiple_of(SECOND), u32::clamped(config.peers.len()));
    let load = Load { filler, ramp_ns, rate: args.rate, servers, seed: 1, ecn };
    let all =
        Stage::ALL.into_iter().flat_map(|stage| load.probes(stage).into_iter().chain(load.filler(stage)));
    let phases: Vec<Phase> = all.map(|(_, phase)| phase).collect();
    phases.iter().try_for_each(|phase| measure::check_phase(&config, phase))?;
    measure::check_load_conditions(&args.output.asserts)?;
    let mut outputs = Outputs::open(&args.output, None, &[])?;
    let interrupt = signals::interrupt()?;
    outputs.watch(&interrupt, planned(&load, &args.repeat))?;
    outputs.begin(runtime::begin(&config, "load", command, &load.filler));
    if !args.output.quiet {
        let length = format_duration(length_ns(args));
        outputs.print(format!("load, 4 stages, at least {length}\n").into_bytes());
    }
    let (mut status, mut reason) = (Status::Complete, None);
    'all: for repeat in 1..=args.repeat.most() {
        if args.repeat.until_confidence.is_some_and(|until| until.reached_by_all(&parts(&outputs.outcome())))
        {
            break;
        }
        for stage in Stage::ALL {
            (status, reason) = run(&load, (stage, repeat), &config, &interrupt, &mut outputs)?;
            if status != Status::Complete {
                break 'all;
            }
        }
    }
    let outcome = outputs.outcome();
    if let Some(until) = args.repeat.until_confidence {
        let (level, text) = until.notice(&parts(&outcome));
        outputs.event(&Event::Notice { level, text });
    }
    let status = measure::of_run(status, &outcome);
    outputs.event(&Event::End { status, reason });
    Ok(outputs.finish())
}

/// The plan: the parts of a stage run concurrently, and the load is the longest.
fn planned(load: &Load, repeat: &RepeatArgs) -> Planned {
    let stage =
        |stage| load.filler(stage).map_or_else(|| load.probes(stage)[0].1.clone(), |(_, phase)| phase);
    let once: Vec<Phase> = Stage::ALL.map(stage).into();
    let all = std::iter::repeat_n(&once, usize::clamped(repeat.most())).flatten();
    Planned::of(all)
}

/// All parts of all stages, each with its repetitions.
fn parts(outcome: &Outcome) -> Vec<Vec<&Point>> {
    let mut parts: BTreeMap<_, Vec<&Point>> = BTreeMap::new();
    outcome.points.iter().for_each(|point| parts.entry(&point.label).or_default().push(point));
    parts.into_values().collect()
}

/// Runs all parts of a stage, and replays their events one after the other.
fn run(
    load: &Load,
    (stage, repeat): (Stage, u32),
    config: &ClientConfig,
    interrupt: &Interrupt,
    outputs: &mut Outputs,
) -> Result<Ended, CliError> {
    let told = run_stage(load, (stage, repeat), config, interrupt, outputs);
    let mut worst = (Status::Complete, None);
    for ((label, phase), told) in told {
        let (end, events) = match told {
            Ok(told) => told,
            Err(error) => {
                let end = (Status::Failed, Some(measure::failed(error, &outputs.outcome())?));
                (end.clone(), vec![Event::PhaseEnd { status: end.0, reason: end.1 }])
            }
        };
        // The live views have shown it as it happened.
        outputs.record(&Event::Phase { label, repeat, phase: Box::new(phase) });
        events.iter().for_each(|event| outputs.record(event));
        // After a failure of the path, the parts under way know when, and later ones do not.
        let is_worse = match worst.0 {
            Status::Complete => end.0 != Status::Complete,
            Status::Failed => end.0 == Status::Partial,
            _ => false,
        };
        if is_worse {
            worst = end;
        }
    }
    Ok(worst)
}

/// Runs all parts of a stage beside each other, and shows what happens meanwhile. The probes begin
/// when the load has gone on for the ramp. Their set-up may take long in a full queue, and they
/// must not measure an unloaded path: the load ends when both have reported their last interval,
/// with the remote end's part, which passes the queue behind the last answers. The load does not go
/// on for answers that are lost ([`UNDER_WAY`]), nor while the ends exchange their results.
fn run_stage(
    load: &Load,
    (stage, repeat): (Stage, u32),
    config: &ClientConfig,
    interrupt: &Interrupt,
    outputs: &mut Outputs,
) -> Vec<(Part, Told)> {
    let (filler, probes) = (load.filler(stage), load.probes(stage));
    let shown = Mutex::new(outputs);
    // Each part reports its start, and each probe its last interval.
    type Progress = mpsc::Sender<()>;
    let one = |place, (label, phase): &Part, extra_ns, interrupt: &Interrupt, progress: Progress| -> Told {
        let mut events = Vec::new();
        let show = |event: &Event| {
            lock(&shown).show_part(place, event);
        };
        show(&Event::Phase { label: label.clone(), repeat, phase: Box::new(phase.clone()) });
        let is_load = extra_ns > 0;
        let time = phase.duration_ns;
        let phase = Phase { duration_ns: time.map(|ns| ns.saturating_add(extra_ns)), ..phase.clone() };
        let end = measure::one(config, &phase, interrupt, &mut |mut event| {
            match &mut event {
                Event::Start { .. } => progress.send(()).unwrap_or_default(),
                Event::Interval(interval) if !is_load && Some(interval.end_ns) >= time => {
                    progress.send(()).unwrap_or_default();
                }
                // A limit that leaves the load long enough is of no interest, and a shorter one
                // fails the stage.
                Event::Session(info) if is_load => {
                    info.accepted.changes.retain(|change| change.what != "duration");
                }
                _ => {}
            }
            show(&event);
            events.push(event);
        })?;
        Ok((end, events))
    };
    let one = &one;
    let of_load = &interrupt.for_one();
    std::thread::scope(|scope| {
        let start = |place, part: Part, extra_ns: u64, interrupt, progress| {
            let own = part.clone();
            (part, scope.spawn(move || one(place, &own, extra_ns, interrupt, progress)))
        };
        let ended = |(part, thread): (Part, ScopedJoinHandle<'_, Told>)| {
            let died = |_| Err(CliError::failed("a measurement ended without a result"));
            (part, thread.join().unwrap_or_else(died))
        };
        // The load is the first part on a terminal, and the last in the report.
        let last = u32::clamped(probes.len());
        let (progress, starts) = mpsc::channel();
        let filling = filler.map(|part| start((0, last), part, EXTRA, of_load, progress));
        let is_ready = filling.is_none() || is_filled(&starts, load.ramp_ns, interrupt);
        let time_ns = probes.iter().filter_map(|(_, phase)| phase.duration_ns).max().unwrap_or(0);
        let probes = (0..).zip(probes).filter(|_| is_ready);
        let (progress, measured) = mpsc::channel();
        let probe = |(at, part)| start((at + 1, at), part, 0, interrupt, progress.clone());
        let probing: Vec<_> = probes.map(probe).collect();
        drop(progress);
        let Some(filling) = filling else { return probing.into_iter().map(ended).collect() };
        wait_measured(&measured, probing.len(), time_ns);
        // A load that has said all it has to say need not have left its thread.
        let too_short = !is_ready || filling.1.is_finished();
        of_load.finish();
        let mut told: Vec<_> = probing.into_iter().chain([filling]).map(ended).collect();
        if too_short && matches!(told.last(), Some((_, Ok(((Status::Complete, _), _))))) {
            told.iter_mut().filter_map(|(_, told)| told.as_mut().ok()).for_each(spoil);
        }
        told
    })
}

/// Waits until all `probes` of `time_ns` have reported their start and their last interval, or
/// nothing is under way to them any more.
fn wait_measured(progress: &mpsc::Receiver<()>, probes: usize, time_ns: u64) {
    progress.iter().take(probes).for_each(drop);
    let over = Instant::now() + Duration::from_nanos(time_ns.saturating_add(UNDER_WAY));
    for _ in 0..probes {
        let left = over.saturating_duration_since(Instant::now());
        if progress.recv_timeout(left).is_err() {
            return;
        }
    }
}

/// Waits until the path has been filled for the ramp: `false` if the load, or the user, ended
/// before.
fn is_filled(starts: &mpsc::Receiver<()>, ramp_ns: u64, interrupt: &Interrupt) -> bool {
    if starts.recv().is_err() {
        return false;
    }
    let filled = Instant::now() + Duration::from_nanos(ramp_ns);
    loop {
        let left = filled.saturating_duration_since(Instant::now());
        match starts.recv_timeout(left.min(LOOK)) {
            Err(mpsc::RecvTimeoutError::Disconnected) => return false,
            _ if interrupt.is_requested() => return false,
            _ if left.is_zero() => return true,
            _ => {}
        }
    }
}

/// Marks a part of a stage as failed whose load ended before its probes.
fn spoil((end, events): &mut (Ended, Vec<Event>)) {
    *end = (Status::Failed, Some(TOO_SHORT.to_owned()));
    for event in events {
        if let Event::PhaseEnd { status, reason } = event {
            (*status, *reason) = end.clone();
        }
    }
}
