//! The store of runs: where it is, and how a run gets there.

use clap::Args;
use console::error::CliError;
use console::{file, stderr};
use model::{Outcome, Point};
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use store::Store;

/// Which store.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct StoreArgs {
    /// The store of runs, an SQLite file; `off` saves none [default: netcaliper/runs.sqlite in
    /// $XDG_DATA_HOME or ~/.local/share].
    #[arg(long, value_name = "PATH", env = "NETCALIPER_STORE", help_heading = "Store")]
    store: Option<PathBuf>,
}

impl StoreArgs {
    /// As the environment has it, for command lines that are not ours.
    pub(crate) fn of_environment() -> StoreArgs {
        StoreArgs { store: std::env::var_os("NETCALIPER_STORE").filter(|v| !v.is_empty()).map(PathBuf::from) }
    }

    /// The file; `None` when none is wanted.
    ///
    /// # Errors
    /// One sentence when there is no place for it.
    pub(crate) fn path(&self) -> Result<Option<PathBuf>, CliError> {
        match &self.store {
            Some(path) if path.as_os_str() == "off" => Ok(None),
            Some(path) => Ok(Some(path.clone())),
            None => usual().map(Some).ok_or_else(|| {
                CliError::failed(
                    "there is no home directory to keep runs in: --store names a file, --no-store keeps none",
                )
            }),
        }
    }

    /// The store, which must be there.
    pub(crate) fn open(&self) -> Result<Store, CliError> {
        Store::existing(&self.wanted()?).map_err(CliError::failed)
    }

    /// The store, made when it is not there.
    pub(crate) fn make(&self) -> Result<Store, CliError> {
        Store::open(&self.wanted()?).map_err(CliError::failed)
    }

    /// Saves a run, except that of a server without clients; its number, if it is saved.
    pub(crate) fn keep(&self, outcome: &Outcome) -> Result<Option<i64>, CliError> {
        if is_idle_server(outcome) {
            return Ok(None);
        }
        let Some(path) = self.path()? else { return Ok(None) };
        let kept = Store::open(&path).and_then(|mut store| store.keep(outcome, ""));
        kept.map(Some).map_err(CliError::failed)
    }

    fn wanted(&self) -> Result<PathBuf, CliError> {
        self.path()?.ok_or_else(|| {
            CliError::usage("the store is off: --store or NETCALIPER_STORE must name its file")
        })
    }
}

/// Folder for data of programs on this system.
fn usual() -> Option<PathBuf> {
    Some(file::own_folder("XDG_DATA_HOME", ".local/share", "LOCALAPPDATA")?.join("runs.sqlite"))
}

/// Saves a run. An error is one sentence on stderr and does not change the run's result.
pub(crate) fn keep(store: &StoreArgs, outcome: &Outcome) {
    match store.keep(outcome) {
        Ok(Some(id)) if io::stderr().is_terminal() => {
            stderr::say(format_args!("saved as run {id}: netcaliper show {id}"));
        }
        Ok(_) => {}
        Err(trouble) => warn_of_loss(&trouble),
    }
}

fn warn_of_loss(trouble: &CliError) {
    stderr::say(format_args!("netcaliper: warning: this run was not kept: {}", trouble.text));
}

/// True for the run of a server that had no clients and received nothing.
fn is_idle_server(outcome: &Outcome) -> bool {
    let is_idle = |point: &Point| {
        let local = &point.local;
        let moved = local.traffic.tx_bytes + local.traffic.rx_bytes;
        let datagrams = local.packets.as_ref().map_or(0, |packets| packets.counts.received);
        local.opened + moved + datagrams == 0
            && point.extras.is_empty()
            && point.intervals.iter().all(|i| i.opened == 0)
    };
    outcome.begin.verb == "serve" && outcome.points.iter().all(is_idle)
}

/// True if runs of originals are kept.
pub(crate) fn keeps() -> bool {
    !matches!(StoreArgs::of_environment().path(), Ok(None))
}

/// Saves the run of an original. A failing store does not change its output and exit code.
pub(crate) fn keep_original(outcome: &Outcome) {
    if let Err(trouble) = StoreArgs::of_environment().keep(outcome)
        // A program that reads the original's stderr does not expect this line.
        && io::stderr().is_terminal()
    {
        warn_of_loss(&trouble);
    }
}
