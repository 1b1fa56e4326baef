//! `--web`: a run or a server in a browser while it goes on.

use crate::args::WebArgs;
use crate::args::store::StoreArgs;
use console::error::CliError;
use console::{signals, stderr};
use model::Outcome;
use std::io::ErrorKind;
use std::time::Duration;
use web::{Metrics, Setup, Web};

pub(crate) struct Page {
    pub(crate) web: Web,
    linger: Option<u64>,
}

/// Name of this host; empty when it is not known.
pub(crate) fn host_name() -> String {
    let told = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    told.or_else(|| std::env::var("COMPUTERNAME").ok()).unwrap_or_default().trim().to_owned()
}

impl Page {
    /// Opens the page, if one is wanted.
    pub(crate) fn open(
        args: &WebArgs,
        store: &StoreArgs,
        metrics: Option<Metrics>,
    ) -> Result<Option<Page>, CliError> {
        let Some(address) = args.web else { return Ok(None) };
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
        Ok(Some(Page { web, linger: args.web_linger }))
    }

    /// Shows the end of the run on open pages.
    pub(crate) fn end(self, outcome: &Outcome) {
        let linger = Duration::from_nanos(self.linger.unwrap_or(0));
        self.web.end(outcome, linger, signals::interrupted);
    }
}
