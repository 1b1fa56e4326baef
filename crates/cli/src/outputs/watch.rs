//! `--web`: a run or a server in a browser while it goes on.

use crate::args::values;
use crate::error::CliError;
use crate::runs::kept::StoreArgs;
use crate::{signals, stderr};
use clap::Args;
use model::Outcome;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;
use web::{Metrics, Setup, Web};

/// Address of the page that shows a run in a browser.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct WebArgs {
    /// Show the run in a browser, with the saved runs: at a port of this host (7480 if none is
    /// given, 0 for any), or at ADDR:PORT. At an address that other hosts can reach, the printed
    /// URL holds a token, and requests without it are refused.
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = "", value_parser = web::parse_address,
        help_heading = "Live")]
    web: Option<SocketAddr>,
    /// Serve the page for this long after the run's end; the first Ctrl-C ends that.
    #[arg(long, value_name = "TIME", requires = "web", value_parser = values::duration, help_heading = "Live")]
    web_linger: Option<u64>,
}

pub(crate) struct Page {
    pub(crate) web: Web,
    linger: Option<u64>,
}

impl WebArgs {
    pub(crate) fn wanted(&self) -> bool {
        self.web.is_some()
    }

    /// Opens the page, if one is wanted.
    pub(crate) fn open(&self, store: &StoreArgs, metrics: Option<Metrics>) -> Result<Option<Page>, CliError> {
        let Some(address) = self.web else { return Ok(None) };
        let store = store.path().ok().flatten();
        let cannot = format!("cannot show the run at {address}");
        let web = Web::open(address, Setup { store, metrics }).map_err(|error| match error.kind() {
            ErrorKind::Unsupported => CliError::usage(error),
            ErrorKind::AddrInUse => {
                CliError::failed(format!("{cannot}: {error}; --web 0 takes any port that is free"))
            }
            _ => CliError::failed(format!("{cannot}: {error}")),
        })?;
        // To the user alone, before any other output: the kept run must not hold the token.
        stderr::say(format_args!("netcaliper: live view at {}", web.url(&host_name())));
        Ok(Some(Page { web, linger: self.web_linger }))
    }
}

/// Name of this host; empty when it is not known.
fn host_name() -> String {
    let told = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    told.or_else(|| std::env::var("COMPUTERNAME").ok()).unwrap_or_default().trim().to_owned()
}

impl Page {
    /// Shows the end of the run on open pages.
    pub(crate) fn end(self, outcome: &Outcome) {
        let linger = Duration::from_nanos(self.linger.unwrap_or(0));
        self.web.end(outcome, linger, signals::interrupted);
    }
}
