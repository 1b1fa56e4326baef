//! `netcaliper doctor`: facts of this host and of a path, judged.

use crate::args::{LocalArgs, TargetArgs};
use crate::verbs::{measure, plan};
use crate::{protocols, provenance};
use ::doctor::{Detail, PATIENCE_NS, Path, Report};
use clap::{ArgAction, Args};
use common::ClientConfig;
use console::error::{CliError, Exit};
use console::{signals, stderr, stdout};
use model::{Builder, Event, Level, Method, Outcome, Phase, Status, Step};
use runtime::Interrupt;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// An address for documents (RFC 5737), to which the default route leads; nothing is sent there.
const FAR: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 9);

#[derive(Args, Debug)]
#[command(
    mut_arg("targets", |arg| arg.required(false).num_args(0..=1).action(ArgAction::Set)
        .help("Server to try the path to: a name or an address, with :PORT if it is not the default [default: this host alone]")
        .long_help(None::<&str>)),
    mut_arg("protocol", |arg| arg.hide(true)),
)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    local: LocalArgs,
    /// Print the checks and the facts behind them as one JSON document (schema/doctor.v1.json).
    #[arg(short = 'J', long, help_heading = "Output")]
    json: bool,
    /// Print the answer as one line.
    #[arg(short, long, help_heading = "Output")]
    quiet: bool,
    /// Print every check with its sentence.
    #[arg(short, long, overrides_with = "verbose", help_heading = "Output")]
    verbose: bool,
}

/// Prints what can be measured here, and towards a server.
pub(crate) fn doctor(args: &DoctorArgs) -> Result<Exit, CliError> {
    if args.target.protocol != protocols::NATIVE {
        return Err(CliError::usage("doctor asks servers of netcaliper alone: leave out --protocol"));
    }
    let config = match args.target.targets.is_empty() {
        true => None,
        false => Some(plan::client(&args.target, &args.local, false)?),
    };
    let peer = config.as_ref().and_then(|config| config.peers.first());
    let local = args.local.bind.first().map(SocketAddr::ip);
    let local = local.or_else(|| runtime::local_for(peer.map_or(FAR, |peer| peer.address)));
    let host = runtime::snapshot(local);
    let abilities = runtime::abilities();
    let path = match (&config, peer) {
        (Some(config), Some(peer)) => Some(tried(config, Path::new(&peer.name, peer.address, &host))?),
        _ => None,
    };
    let report = Report::new(provenance::VERSION, host, abilities, path);
    let exit = if report.prevents_measuring() { Exit::Threshold } else { Exit::Good };
    let detail = match (args.verbose, args.quiet) {
        (true, _) => Detail::Full,
        (false, true) => Detail::Line,
        (false, false) => Detail::Brief,
    };
    stdout::print(|out| match args.json {
        true => ::doctor::write_json(&report, out),
        false => ::doctor::write_text(&report, detail, stdout::color(), &mut stdout::Text::to(out)),
    })?;
    Ok(exit)
}

/// Tries the path: TCP, then datagrams, then large packets, as far as a server answers.
fn tried(config: &ClientConfig, mut path: Path) -> Result<Path, CliError> {
    let interrupt = signals::interrupt()?;
    let once = |phase: Phase| Method::list(vec![(Default::default(), phase)], 1).map_err(CliError::usage);
    path.take_tcp(&run(config, once(Path::tcp_phase())?, &interrupt)?);
    if path.tcp_failure.is_some() {
        path.tcp = runtime::connecting(path.address, Duration::from_nanos(PATIENCE_NS));
    }
    if path.udp_rtt_ns.is_none()
        && let Some(hello) = &config.protocol.info().hello
    {
        path.udp_rtt_ns = runtime::hello(hello, path.address);
    }
    if path.has_session() {
        path.take_datagrams(&run(config, once(Path::datagram_phase())?, &interrupt)?);
    }
    if path.has_session() && path.udp_failure.is_none() {
        let method = Method::path_mtu(&Path::datagram_phase(), path.headers(), path.largest_tried);
        path.take_mtu(&run(config, method.map_err(CliError::usage)?, &interrupt)?);
    }
    match interrupt.is_requested() {
        true => Err(CliError { text: "interrupted".to_owned(), exit: Exit::Interrupted }),
        false => Ok(path),
    }
}

/// The results of a method, of which a phase that fails is one.
fn run(config: &ClientConfig, mut method: Method, interrupt: &Interrupt) -> Result<Outcome, CliError> {
    let mut builder = Builder::default();
    while !interrupt.is_requested()
        && let Some(Step { phase, label, repeat }) = method.next(&builder.outcome())
    {
        builder.absorb(&Event::Phase { label, repeat, phase: phase.clone() });
        let config = ClientConfig { run: runtime::run_id(), ..config.clone() };
        let mut is_granted = false;
        let ended = measure::one(&config, &phase, interrupt, &mut |event| {
            match &event {
                Event::Session(_) => is_granted = true,
                // The client waits for other sessions to end.
                Event::Notice { level: Level::Info, text } if !is_granted => stderr::say(text),
                _ => {}
            }
            builder.absorb(&event);
        });
        match ended {
            Ok((Status::Complete, _)) => {}
            Ok(_) => break,
            Err(error) if error.exit == Exit::Failed => {
                let reason = Some(error.text);
                builder.absorb(&Event::PhaseEnd { status: Status::Failed, reason });
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(builder.outcome())
}
