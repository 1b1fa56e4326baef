//! `netcaliper fleet`: the pairs of many hosts.

pub(crate) mod agent;
#[cfg(feature = "fleet")]
mod alert;
#[cfg(feature = "fleet")]
mod lost;
mod nats;
#[cfg(feature = "fleet")]
mod pages;
#[cfg(feature = "fleet")]
mod plan;
#[cfg(feature = "fleet")]
pub(crate) mod questions;
mod reach;
#[cfg(feature = "fleet")]
mod rounds;
#[cfg(feature = "fleet")]
mod run;
#[cfg(feature = "fleet")]
pub(crate) mod secure;
#[cfg(feature = "nats")]
mod standby;

use crate::args::export::ExportArgs;
use crate::args::store::StoreArgs;
use crate::args::values;
use clap::{Args, Subcommand};
use console::error::{CliError, Exit};
use std::path::PathBuf;

/// The commands of a fleet.
#[derive(Args, Debug)]
pub(crate) struct FleetArgs {
    #[command(subcommand)]
    pub(crate) command: FleetCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum FleetCommand {
    /// Print a plan's forecast (duration, bytes, and which tests exclude which), and send nothing.
    Plan(PlanArgs),
    /// Measure the pairs, and show their matrix.
    Run(Box<reach::FleetRunArgs>),
    /// Say how far a run is.
    Status(reach::WhichArgs),
    /// End a run: tests that have not begun are cancelled.
    Cancel(reach::WhichArgs),
    /// Go on with a run whose controller ended, or was killed: missing results are collected or
    /// measured.
    Resume(reach::ResumeArgs),
    /// Stand by for the controller of runs that are shared on a NATS server (`fleet run --shared`),
    /// and take them over when it is gone.
    StandBy(Box<reach::StandByArgs>),
    /// Show the matrix of a run: text, HTML, JSON, metrics.
    Report(ReportArgs),
}

/// Which pairs, and which tests.
#[derive(Args, Debug, Clone)]
pub(crate) struct ShapeArgs {
    /// Hosts: a file with a host a line and its labels (`name site=a rack=7`), an inventory of
    /// Ansible (INI, YAML or JSON), Prometheus' file_sd (JSON or YAML), `-` for stdin, or dns:NAME
    /// for the addresses of a name.
    #[arg(value_name = "INVENTORY")]
    pub(crate) inventory: String,
    /// A test of every pair, as on the command line but without the host (repeatable): 'ping -n
    /// 20', 'delay -b 5M -t 2s', 'tcp -t 5s', 'load -t 5s', 'train' [default: ping].
    #[arg(long = "test", value_name = "TEST")]
    pub(crate) tests: Vec<String>,
    /// Cost class of the tests, at least the one of their bits: exclusive (no other
    /// test runs beside at either host), limited (a few at a host), background (beside all others)
    /// [default: pings of at most 1 Mbit/s are background, tests of at most 10 Mbit/s are limited,
    /// all others are exclusive].
    #[arg(long, value_name = "CLASS", value_parser = ["exclusive", "limited", "background"])]
    pub(crate) class: Option<String>,
    /// Number of measurements of each test of each pair; a single pair is judged from three on.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = values::count::<u16, 1_000>)]
    pub(crate) repeats: u16,
    /// Each host with N others chosen at random, instead of all pairs.
    #[arg(long, value_name = "N", value_parser = values::count::<u32, 20_000>, conflicts_with_all = ["between", "representatives"])]
    pub(crate) random: Option<u32>,
    /// Each host of one set with each of the other; a set is a host, a group, LABEL=VALUE, or all.
    #[arg(long, num_args = 2, value_names = ["SET", "SET"], conflicts_with = "representatives")]
    pub(crate) between: Vec<String>,
    /// One host, chosen at random, for each value of a label, such as rack.
    #[arg(long, value_name = "LABEL")]
    pub(crate) representatives: Option<String>,
    /// Only pairs with a host that is not in this earlier inventory, or differs from it there.
    #[arg(long, value_name = "INVENTORY")]
    pub(crate) changed_since: Option<String>,
    /// At most N tests at a time, background ones excepted, use what some hosts share (repeatable):
    /// wan:1 for a group, rack=7:2 for a label, rack=*:2 for each rack; with :crossing only tests
    /// with hosts outside count.
    #[arg(long = "limit", value_name = "SET:N")]
    pub(crate) limits: Vec<String>,
    /// Seed of all random choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) when: WhenArgs,
}

/// When it is measured, and how often.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Schedule")]
pub(crate) struct WhenArgs {
    /// Measure all pairs again and again, every TIME (10m, 6h, 1d): each round is a run of its own.
    /// A round that is due while another one runs is missed, with a message. Goes with --count or
    /// --until.
    #[arg(long, value_name = "TIME", value_parser = values::pause)]
    pub(crate) every: Option<u64>,
    /// Begin then, and not at once: 02:00, 2027-01-31T02:00 (time of this host),
    /// 2027-01-31T02:00:00Z.
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    /// End after this number of rounds, missed ones included.
    #[arg(long, value_name = "N", requires = "every", value_parser = values::count::<u32, 100_000>)]
    pub(crate) count: Option<u32>,
    /// Begin no round after this time, which is given as that of --at.
    #[arg(long, value_name = "TIME", requires = "every")]
    pub(crate) until: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,
    /// Print the forecast as JSON.
    #[arg(short = 'J', long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ReportArgs {
    /// The run (its folder, the beginning of its name, or `last`), or the JSON of a matrix; `-` is
    /// stdin [default: the last run].
    #[arg(value_name = "RESULT")]
    pub(crate) result: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Output of a run.
#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    /// Compare with an earlier result: a run, or the JSON of a matrix.
    #[arg(long, value_name = "RESULT")]
    pub(crate) baseline: Option<PathBuf>,
    /// Write the matrix as one HTML page.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write each pair's own report into this folder, created if missing; the HTML page leads to
    /// them.
    #[arg(long, value_name = "FOLDER", requires = "html")]
    pub(crate) pages: Option<PathBuf>,
    /// Print the matrix as JSON (schema/fleet.v1.json).
    #[arg(short = 'J', long)]
    pub(crate) json: bool,
    /// Write metrics into this file for Prometheus' textfile collector: call it something.prom.
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics_file: Option<PathBuf>,
    /// Save each pair's outcome in the store, where it is not yet: `netcaliper history` lists them.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Exit with 3 when a host, direction, pair or label is worse than the rest, could not be
    /// measured, or is worse than in the result of --baseline.
    #[arg(long, help_heading = "Alerts")]
    pub(crate) fail_on_verdict: bool,
    /// Shell command to run when something is named that was not in the latest result of this
    /// fleet. The command finds the sentences in NETCALIPER_BROKEN, the names in
    /// NETCALIPER_TARGET, and the run in NETCALIPER_RUN.
    #[arg(long, value_name = "COMMAND", help_heading = "Alerts")]
    pub(crate) on_verdict: Option<String>,
    /// Shell command to run when nothing is named any more; NETCALIPER_MENDED has the sentences of
    /// the result before.
    #[arg(long, value_name = "COMMAND", help_heading = "Alerts")]
    pub(crate) on_mend: Option<String>,
    #[command(flatten)]
    pub(crate) export: ExportArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Runs the command.
#[cfg(feature = "fleet")]
pub(crate) fn fleet(args: &FleetArgs) -> Result<Exit, CliError> {
    match &args.command {
        FleetCommand::Plan(args) => plan::show(args),
        FleetCommand::Run(args) => run::run(args),
        FleetCommand::Status(args) => run::status(args),
        FleetCommand::Cancel(args) => run::cancel(args),
        FleetCommand::Resume(args) => run::resume(args),
        #[cfg(feature = "nats")]
        FleetCommand::StandBy(args) => standby::stand_by(args),
        #[cfg(not(feature = "nats"))]
        FleetCommand::StandBy(args) => args
            .nats
            .refuse()
            .and_then(|()| Err(CliError::usage("controllers stand by at a NATS server: give --nats URL"))),
        FleetCommand::Report(args) => {
            let result = pages::find(args.result.as_deref())?;
            pages::report(&result, &args.show, None).map(|shown| shown.exit(Exit::Good, &args.show))
        }
    }
}

#[cfg(not(feature = "fleet"))]
pub(crate) fn fleet(_: &FleetArgs) -> Result<Exit, CliError> {
    Err(agent::absent())
}
