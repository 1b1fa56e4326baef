//! Commands of the user, for `monitor` and fleets: one runs once when something breaks, the other
//! once when nothing is broken any more.

use console::stderr;
use std::process::{Child, Command, Stdio};
#[cfg(feature = "fleet")]
use std::time::{Duration, Instant};

/// Interval at which a running command is looked at.
#[cfg(feature = "fleet")]
const LOOK: Duration = Duration::from_millis(20);

/// The news for a command.
#[derive(Debug, Default)]
pub(crate) struct Alert {
    /// Sentences about everything that is broken.
    pub(crate) broken: Vec<String>,
    /// Sentences about everything that was broken before and is not any more.
    pub(crate) mended: Vec<String>,
    /// Identifier of the run.
    pub(crate) run: String,
    /// Its verb.
    pub(crate) verb: String,
    /// Its targets, or the hosts that are named.
    pub(crate) target: String,
}

impl Alert {
    /// Starts the user's command in a shell, with the news in its environment. A command that
    /// cannot be started is reported.
    pub(crate) fn start(&self, command: &str) -> Option<Child> {
        let mut shell = if cfg!(windows) { Command::new("cmd") } else { Command::new("sh") };
        shell.arg(if cfg!(windows) { "/C" } else { "-c" }).arg(command);
        shell.env("NETCALIPER_BROKEN", self.broken.join("\n"));
        shell.env("NETCALIPER_MENDED", self.mended.join("\n"));
        shell.env("NETCALIPER_RUN", &self.run);
        shell.env("NETCALIPER_VERB", &self.verb);
        shell.env("NETCALIPER_TARGET", &self.target);
        match shell.stdin(Stdio::null()).spawn() {
            Ok(child) => Some(child),
            Err(error) => {
                stderr::say(format_args!("netcaliper: warning: cannot run '{command}': {error}"));
                None
            }
        }
    }

    /// Runs the user's command, and waits for its end. True if the news is delivered: the command
    /// ended with 0, or goes on after `limit`, and does so beside this program.
    #[cfg(feature = "fleet")]
    pub(crate) fn run(&self, command: &str, limit: Duration) -> bool {
        let Some(mut child) = self.start(command) else { return false };
        let began = Instant::now();
        let why = loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return true,
                Ok(Some(status)) => break status.to_string(),
                Ok(None) if began.elapsed() >= limit => {
                    let limit = limit.as_secs();
                    stderr::say(format_args!("netcaliper: '{command}' still runs after {limit} s"));
                    return true;
                }
                Ok(None) => std::thread::sleep(LOOK),
                Err(error) => break error.to_string(),
            }
        };
        stderr::say(format_args!(
            "netcaliper: warning: '{command}' failed ({why}): the next result repeats it"
        ));
        false
    }
}
