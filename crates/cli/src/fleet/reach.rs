//! The way to the hosts of a fleet, and the choice of a run: the options of `fleet run`, `resume`,
//! `status` and `cancel`.

use super::nats::NatsArgs;
use super::{ShapeArgs, ShowArgs};
use crate::verbs::serve::FLEET_PORT;
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct FleetRunArgs {
    #[command(flatten)]
    pub(super) shape: ShapeArgs,
    #[command(flatten)]
    pub(super) reach: ReachArgs,
    /// Folder for the run [default: one with the run's name in netcaliper/runs in $XDG_STATE_HOME
    /// or ~/.local/state].
    #[arg(long, value_name = "FOLDER")]
    pub(super) state: Option<PathBuf>,
    #[command(flatten)]
    pub(super) show: ShowArgs,
}

#[derive(Args, Debug)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    pub(super) run: WhichArgs,
    #[command(flatten)]
    pub(super) show: ShowArgs,
}

#[derive(Args, Debug)]
pub(crate) struct WhichArgs {
    /// The run: its folder, the beginning of its name, or `last` [default: the last one].
    #[arg(value_name = "RUN")]
    pub(super) run: Option<PathBuf>,
}

/// The way to the agents.
#[derive(Args, Debug)]
#[command(next_help_heading = "Reaching the hosts")]
pub(crate) struct ReachArgs {
    /// Remote shell that starts an agent at each host, as a command line; {} stands for its name
    /// and {address} for its address, which is otherwise the last word: 'ssh -J gate', 'ip netns
    /// exec {}'. It must ask nothing.
    #[arg(long, value_name = "COMMAND", default_value = "ssh")]
    pub(super) rsh: String,
    /// The program at the hosts.
    #[arg(long, value_name = "PATH", default_value = "netcaliper", conflicts_with = "copy")]
    pub(super) program: String,
    /// Copy this program, or FILE, to the hosts first; the copy is removed as soon as it runs.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(super) copy: Option<PathBuf>,
    /// Folder at the hosts for the copy.
    #[arg(long, value_name = "FOLDER", default_value = "/tmp")]
    pub(super) copy_to: String,
    /// Option for the agents (`netcaliper agent --help`), as one word such as --max-rate=100M;
    /// repeatable.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub(super) agent_option: Vec<String>,
    /// Connect to agents that listen (`netcaliper agent --listen`) instead; goes with --psk-file.
    #[arg(long, requires = "psk_file")]
    pub(super) direct: bool,
    /// Port of such agents.
    #[arg(long, value_name = "PORT", default_value_t = FLEET_PORT)]
    pub(super) agent_port: u16,
    /// File with the key that they have, too.
    #[arg(long, value_name = "FILE", env = "NETCALIPER_PSK_FILE")]
    pub(super) psk_file: Option<PathBuf>,
    /// Use a key file that every user of this host can read.
    #[arg(long)]
    pub(super) insecure_key_file: bool,
    #[command(flatten)]
    pub(super) nats: NatsArgs,
    /// Keep plan and results on the NATS server, too (JetStream), so that controllers that stand by
    /// (`netcaliper fleet stand-by`) can take the run over. Ctrl-C hands the run over; `netcaliper
    /// fleet cancel` ends it.
    #[arg(long, requires = "nats", help_heading = "Through a NATS server")]
    pub(super) shared: bool,
}

/// Which runs a controller stands by for.
#[derive(Args, Debug)]
pub(crate) struct StandByArgs {
    /// Only for the run whose name begins so, and the rounds of its series; end when they are over
    /// [default: all runs of the fleet, until interrupted].
    #[arg(value_name = "RUN")]
    pub(super) run: Option<String>,
    #[command(flatten)]
    pub(super) nats: NatsArgs,
    #[command(flatten)]
    pub(super) show: ShowArgs,
}
