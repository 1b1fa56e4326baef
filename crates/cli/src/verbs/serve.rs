//! `netcaliper serve` and `stop`.
#![allow(rustdoc::broken_intra_doc_links, reason = "doc comments here are the help text, brackets and all")]

use crate::args::protocol::LegacyArgs;
use crate::args::{CoreArgs, KeyArgs, LocalArgs, OutputArgs, TargetArgs};
use crate::args::{key, values};
use crate::outputs::Outputs;
use crate::outputs::scrape::{self, MetricsFile};
use crate::verbs::lines::LineBudget;
use crate::verbs::{legacy, plan};
use crate::{protocols, provenance};
use clap::Args;
use common::config::StopServers;
use common::{Acl, Limits, Processes, ProtocolOptions, ServerConfig};
use console::error::{CliError, Exit, lock};
use console::{signals, stderr};
use model::{Event, Level, Phase, Status};
use report::ServerMetrics;
use runtime::{Bound, EngineError, Interrupt};
use screen::Planned;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use web::Source;

/// Default port for the orders of fleets, also of agents that listen.
pub(crate) const FLEET_PORT: u16 = 7412;

/// How often it is looked whether the user wants the end of the protocols that go along.
const LOOK: Duration = Duration::from_millis(50);

// Wide: a field for each option, as clap wants them.
#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// Address to listen on, TCP and UDP: ADDR, ADDR:PORT or [V6]:PORT; repeatable [default: all
    /// addresses of both families].
    #[arg(short = 'B', long, visible_alias = "bind", value_name = "ADDR")]
    pub(crate) listen: Vec<String>,
    /// Port, TCP and UDP; 0 lets the system choose one.
    #[arg(short, long, default_value_t = native::PORT, value_parser = values::port)]
    pub(crate) port: u16,
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    /// File with the public keys of clients that may have sessions, one a line: NAME KEY
    /// [RIGHT=VALUE …]; goes with --key-file.
    #[arg(long, value_name = "FILE", help_heading = "Security")]
    pub(crate) client_keys: Option<PathBuf>,
    /// Serve these networks only, such as 192.0.2.0/24; repeatable [default: all].
    #[arg(long, value_name = "CIDR", value_parser = values::network, help_heading = "Security")]
    pub(crate) allow: Vec<ipnet::IpNet>,
    /// Do not serve these networks; repeatable, stronger than --allow.
    #[arg(long, value_name = "CIDR", value_parser = values::network, help_heading = "Security")]
    pub(crate) deny: Vec<ipnet::IpNet>,
    /// Take orders of a fleet's controllers (`fleet run --direct`) and run tests to TARGET when one
    /// asks for it: a host, or a network such as 192.0.2.0/24; repeatable. Goes with --psk-file:
    /// `verbs=` of a key says whether it gives orders (fleet).
    #[arg(long, value_name = "TARGET", help_heading = "Security")]
    pub(crate) fleet: Vec<String>,
    /// Port for such orders, TCP, at the addresses of the server.
    #[arg(long, value_name = "PORT", default_value_t = FLEET_PORT, value_parser = values::port, requires = "fleet",
        help_heading = "Security")]
    pub(crate) fleet_port: u16,
    #[command(flatten)]
    pub(crate) legacy: LegacyArgs,
    /// Most sessions at the same time, 1 to 1000000.
    #[arg(long, value_name = "N", default_value_t = 1000, help_heading = "Limits", value_parser = values::count::<u32, 1_000_000>)]
    pub(crate) max_sessions: u32,
    /// Most sessions at the same time from one address, 1 to 1000000.
    #[arg(long, value_name = "N", default_value_t = 256, help_heading = "Limits", value_parser = values::count::<u32, 1_000_000>)]
    pub(crate) max_per_address: u32,
    /// Most data connections in one session, 1 to 1000000 [default: 100000].
    #[arg(long, value_name = "N", help_heading = "Limits", value_parser = values::count::<u32, 1_000_000>)]
    pub(crate) max_connections: Option<u32>,
    /// Worker processes that share the connections of tcp and connect, each with a port and a limit
    /// of open files of its own, 1 to 1024 (Linux) [default: as many as --max-connections needs,
    /// none where this process is enough].
    #[arg(long, value_name = "N", value_parser = values::count::<u16, 1024>, conflicts_with = "exit_after")]
    pub(crate) processes: Option<u16>,
    /// Longest run that a client gets, in every protocol [default: no limit].
    #[arg(long, value_name = "TIME", value_parser = values::duration, help_heading = "Limits")]
    pub(crate) max_time: Option<u64>,
    /// Most bits per second of one session and direction, 8 and more; in a protocol without
    /// sessions of one address [default: no limit].
    #[arg(long, value_name = "RATE", value_parser = values::limit, help_heading = "Limits")]
    pub(crate) max_rate: Option<u64>,
    /// Most bytes of one session, both directions together; in a protocol without sessions of one
    /// address [default: no limit].
    #[arg(long, value_name = "SIZE", value_parser = values::bytes, help_heading = "Limits")]
    pub(crate) max_bytes: Option<u64>,
    /// Most bits per second and direction of one address, all protocols and sessions together
    /// [default: no limit].
    #[arg(long, value_name = "RATE", value_parser = values::limit, help_heading = "Limits")]
    pub(crate) max_address_rate: Option<u64>,
    /// Most bits per second and direction of all clients together [default: no limit].
    #[arg(long, value_name = "RATE", value_parser = values::limit, help_heading = "Limits")]
    pub(crate) max_total_rate: Option<u64>,
    /// One session at a time, for 10 minutes at most or as long as --max-time says; others wait in
    /// a queue.
    #[arg(long, help_heading = "Limits")]
    pub(crate) exclusive: bool,
    /// Let workers spin instead of sleeping for sessions that ask for it (ping --busy): a core each
    /// while they last.
    #[arg(long, help_heading = "Limits")]
    pub(crate) busy: bool,
    /// End after this number of data connections [default: run until interrupted].
    #[arg(long, value_name = "N", value_parser = values::count::<u64, { u64::MAX }>, help_heading = "Limits")]
    pub(crate) exit_after: Option<u64>,
    /// Switch on hardware timestamps of this host's network cards while sessions need them
    /// (CAP_NET_ADMIN), and restore them after [default: cards that stamp already are used].
    #[arg(long)]
    pub(crate) hardware_stamps: bool,
    /// Let Prometheus scrape /metrics at this address; a port alone is one of the loopback address.
    #[arg(long, value_name = "ADDR", value_parser = values::metrics_address, help_heading = "Output")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Length of an interval of the status line.
    #[arg(short = 'i', long, value_name = "TIME", default_value = "1s", value_parser = values::interval)]
    pub(crate) interval: u64,
    #[command(flatten)]
    pub(crate) cores: CoreArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Args, Debug)]
pub(crate) struct StopArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) local: LocalArgs,
}

impl ServeArgs {
    /// The limits of every protocol's clients.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            sessions: self.max_sessions,
            per_address: self.max_per_address,
            connections: self.max_connections.unwrap_or(Limits::default().connections),
            duration_ns: self.max_time,
            rate: self.max_rate,
            bytes: self.max_bytes,
            address_rate: self.max_address_rate,
            total_rate: self.max_total_rate,
            busy: self.busy,
            ..Limits::default()
        }
    }
}

/// What runs beside a server in its process until the server ends.
pub(crate) struct Beside {
    /// Addresses that it listens at.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) end: Box<dyn FnOnce() -> Result<(), CliError>>,
}

/// Runs a server, and beside it the agent for fleets that `orders` starts where the arguments ask
/// for one.
pub(crate) fn serve(
    args: &ServeArgs,
    command: Vec<String>,
    orders: impl FnOnce(&ServeArgs) -> Result<Option<Beside>, CliError>,
) -> Result<Exit, CliError> {
    if args.hardware_stamps {
        runtime::permit_card_change();
    }
    let keys = key::of_server(&args.key, args.client_keys.as_deref())?;
    legacy::check_key(&args.legacy, !keys.is_empty())?;
    let who = if !keys.is_empty() { "a key is required" } else { "no key is required" };
    let metrics = Arc::new(Mutex::new(ServerMetrics::default()));
    let page = scrape::shared(&metrics, ServerMetrics::write);
    let mut outputs = Outputs::of_server(&args.output, Some(Arc::clone(&page)))?;
    let config = ServerConfig {
        listen: values::listen_addresses(&args.listen, args.port).map_err(CliError::usage)?,
        keys,
        acl: Acl { allow: args.allow.clone(), deny: args.deny.clone() },
        limits: args.limits(),
        exclusive: args.exclusive,
        exit_after: args.exit_after,
        interval_ns: args.interval,
        device: args.cores.bind_dev.clone(),
        placement: plan::placement(&args.cores, protocols::NATIVE),
        workers: args.cores.workers,
        processes: processes(args),
        version: provenance::VERSION.to_owned(),
        records: outputs.records
            || args.metrics.is_some()
            || args.output.metrics_file.is_some()
            || args.output.web.wanted(),
        sessions: args.output.web.wanted() || outputs.records,
        options: protocols::foreign(),
        ..ServerConfig::new(protocols::NATIVE)
    };
    let interval_ns = config.interval_ns;
    let bound = Bound::new(config).map_err(unbound)?;
    let interrupt = signals::interrupt()?;
    outputs.watch(&interrupt, Planned::default())?;
    let begin = bound.begin(command);
    lock(&metrics).absorb(&Event::Begin(Box::new(begin.clone())));
    let mut file = MetricsFile::begin(args.output.metrics_file.as_ref(), &page)?;
    outputs.begin(begin);
    let phase = Box::new(Phase { duration_ns: None, interval_ns, ..Phase::default() });
    outputs.event(&Event::Phase { label: BTreeMap::new(), repeat: 1, phase });
    for address in bound.addresses() {
        outputs.inform(format!("listening on {address} (TCP and UDP; {who})"));
    }
    if let Some(limits) = bound.config().limits.in_effect() {
        outputs.inform(format!("limits: {}", limits.text()));
    }
    let scraped = args.metrics.map(|address| scrape::serve(address, Arc::clone(&page))).transpose()?;
    if let Some(scraped) = &scraped {
        outputs.inform(format!("metrics at http://{}/metrics", scraped.address()));
    }
    let beside = orders(args)?;
    for address in beside.iter().flat_map(|beside| &beside.addresses) {
        outputs.inform(format!("takes orders of fleets on {address} (TCP; a key is required)"));
    }
    let also = legacy::bind(&legacy::Settings {
        legacy: &args.legacy,
        cores: &args.cores,
        insecure_key_file: args.key.insecure_key_file,
        page: args.output.web.wanted(),
        own: bound.config(),
    })?;
    let bound = bound.with(also.names());
    also.lines().into_iter().for_each(|line| outputs.inform(line));
    // As it is: notices are wrapped.
    also.table(&bound).into_iter().for_each(|line| outputs.complain(line));
    let outputs_of_all = Mutex::new(outputs);
    let budget = Mutex::new(LineBudget::new());
    let tell = |event: &Event| lock(&outputs_of_all).event(event);
    let tell_of_peer = |event: &Event| {
        if lock(&budget).admits(event) {
            tell(event);
        }
    };
    let show =
        |protocol: &'static str, event: &Event| lock(&outputs_of_all).show(Source::Beside(protocol), event);
    let fail = |protocol: &'static str, failed| lock(&outputs_of_all).fails_beside(protocol, failed);
    let (over, stop) = (AtomicBool::new(false), Interrupt::new());
    std::thread::scope(|scope| {
        for answering in also.answering {
            let (stop, tell, show, fail) = (&stop, &tell_of_peer, &show, &fail);
            scope.spawn(move || legacy::answer(answering, stop, tell, show, fail));
        }
        // Ctrl-C is for all of them at once.
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) && !interrupt.is_requested() {
                std::thread::sleep(LOOK);
            }
            stop.ask();
        });
        let mut quiet = false;
        let ran = bound.run(&interrupt, &mut |event| {
            lock(&metrics).absorb(&event);
            if matches!(event, Event::Interval(_)) {
                file.write(&page);
                let sum = lock(&budget).sum();
                sum.iter().for_each(tell);
            }
            // An idle server says so once, not every second.
            if let Event::Interval(interval) = &event {
                let idle = interval.in_flight == 0 && interval.local.tx_bytes + interval.local.rx_bytes == 0;
                let was_quiet = std::mem::replace(&mut quiet, idle && interval.opened == 0);
                if quiet && was_quiet {
                    return lock(&outputs_of_all).show(Source::Run, &event);
                }
            }
            // A client with a session has been admitted: its lines are outside of the budget.
            match event {
                Event::Notice { level: Level::Warning, .. } => tell_of_peer(&event),
                _ => tell(&event),
            }
        });
        over.store(true, Ordering::Relaxed);
        ran
    })?;
    if let Some(beside) = beside {
        (beside.end)()?;
    }
    let mut outputs = outputs_of_all.into_inner().unwrap_or_else(PoisonError::into_inner);
    outputs.event(&Event::End { status: Status::Complete, reason: None });
    // A signal is how servers are ended: that is no failure.
    Ok(match outputs.finish() {
        Exit::Interrupted => Exit::Good,
        other => other,
    })
}

/// Why the server has no port, with the option that chooses another one.
fn unbound(error: EngineError) -> CliError {
    let is_taken = matches!(&error, EngineError::Socket { fault, .. } if fault.is_port_taken());
    let error = CliError::from(error);
    if is_taken {
        CliError { text: format!("{}: `-p PORT` chooses another", error.text), ..error }
    } else {
        error
    }
}

/// Worker processes: those asked for, or as many as the connections of a session need that were
/// asked for.
fn processes(args: &ServeArgs) -> Processes {
    let needed = args.max_connections.map(runtime::processes_for).filter(|&count| count > 1);
    let count = args.processes.or(needed.filter(|_| args.exit_after.is_none())).unwrap_or(0);
    let usual = || common::protocol::Workers::PerCore.on(runtime::usable_cores().len());
    let workers = args.cores.workers.unwrap_or_else(usual).div_ceil(count.max(1));
    Processes { count, workers }
}

pub(crate) fn stop(args: &StopArgs) -> Result<Exit, CliError> {
    let mut config = plan::client(&args.target, &args.local, false)?;
    if config.protocol != protocols::NATIVE {
        let text = format!("a server of the protocol {} cannot be asked to end", config.protocol);
        return Err(CliError::usage(text));
    }
    config.options = ProtocolOptions::new(StopServers::default());
    let interrupt = signals::interrupt()?;
    let mut end = (Status::Failed, None);
    runtime::run(&config, &StopServers::phase(), &interrupt, &mut |event| match event {
        Event::Notice { text, .. } => stderr::say(text),
        Event::PhaseEnd { status, reason } => end = (status, reason),
        _ => {}
    })?;
    match end {
        (Status::Complete, _) => Ok(Exit::Good),
        (Status::Interrupted, _) => Ok(Exit::Interrupted),
        (_, reason) => {
            Err(CliError::failed(reason.unwrap_or_else(|| "the server did not answer".to_owned())))
        }
    }
}
