//! `netcaliper agent`: a fleet controller's tests on this host.

#[cfg(not(feature = "fleet"))]
mod absent;
#[cfg(feature = "fleet")]
mod work;

#[cfg(not(feature = "fleet"))]
pub(crate) use absent::{absent, agent, orders};
#[cfg(feature = "nats")]
pub(crate) use work::host_name;
#[cfg(feature = "fleet")]
pub(crate) use work::{agent, orders};

use crate::args::values;
use crate::fleet::nats::NatsArgs;
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct AgentArgs {
    /// Take orders from standard input and report to standard output, as `fleet run` wants it over
    /// a remote shell; end with the input.
    #[arg(long, required_unless_present_any = ["nats", "listen"], conflicts_with_all = ["nats", "listen"])]
    stdio: bool,
    /// Let controllers connect to this address, or ADDR:PORT [default port: 7412]; goes with
    /// --psk-file, the key that they have, too.
    #[arg(long, value_name = "ADDR", requires = "psk_file", conflicts_with = "nats")]
    listen: Option<String>,
    /// File with the key that controllers have to prove, one that `netcaliper key new` has made.
    #[arg(long, value_name = "FILE", env = "NETCALIPER_PSK_FILE")]
    psk_file: Option<PathBuf>,
    /// Use a key file that every user of this host can read.
    #[arg(long)]
    insecure_key_file: bool,
    /// Name of this host in inventories, for --nats [default: the host's name].
    #[arg(long, value_name = "NAME", requires = "nats")]
    name: Option<String>,
    #[command(flatten)]
    nats: NatsArgs,
    /// Port of the server that the agent starts for tests; where it is taken, and with 0, any
    /// other.
    #[arg(short, long, default_value_t = native::PORT, value_parser = values::port)]
    port: u16,
    /// Resource that tests occupy here: agents with the same NAME count as one host [default: boot
    /// and network namespace].
    #[arg(long, value_name = "NAME")]
    resource: Option<String>,
    /// Folder in which results wait until a controller has them [default: netcaliper/fleet in
    /// $STATE_DIRECTORY, $XDG_STATE_HOME or ~/.local/state].
    #[arg(long, value_name = "DIR")]
    spool: Option<PathBuf>,
    /// Most bits per second and direction of all tests together, 8 and more [default: no limit].
    #[arg(long, value_name = "RATE", value_parser = values::limit, help_heading = "Ceilings, above which no order is taken")]
    max_rate: Option<u64>,
    /// Longest test.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = values::duration,
        help_heading = "Ceilings, above which no order is taken")]
    max_time: u64,
    /// Largest share of the time (of 10 minutes) in which tests run, each by itself: 0.1 or 10%
    /// [default: all].
    #[arg(long, value_name = "SHARE", value_parser = values::share, help_heading = "Ceilings, above which no order is taken")]
    max_share: Option<f64>,
    /// Run tests to this host or network only, such as lab2 or 192.0.2.0/24; repeatable [default:
    /// any].
    #[arg(long, value_name = "TARGET", help_heading = "Ceilings, above which no order is taken")]
    target: Vec<String>,
    /// Remove the file of this program now: the agent was copied here for one run.
    #[arg(long, hide = true)]
    remove_program: bool,
}
