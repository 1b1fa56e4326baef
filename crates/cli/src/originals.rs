//! The originals: the names under which their command lines are found, and the program that they are part of.

use crate::file::{NewFile, SavedRun};
use crate::kept::Keeping;
use crate::{CliError, Exit, measure, plan, protocols, stderr};
use common::host::HostInfo;
use common::original::{self, Console, Driver, Files, Original, Refusal, Runs};
use common::{ClientConfig, Peer, Protocol, ServerConfig};
use ipnet::IpNet;
use model::{Begin, Event, Phase};
use runtime::{Bound, EngineError, Interrupt};
use std::fmt::Display;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// All of them. Each is also found by its name as that of the binary, in upper or lower case: by a link to it.
pub(crate) fn all() -> impl Iterator<Item = &'static Original> {
    protocols::ALL.into_iter().flat_map(|protocol| protocol.info().originals)
}

pub(crate) fn find(name: &str) -> Option<&'static Original> {
    all().find(|original| original.name.eq_ignore_ascii_case(name))
}

/// The original that a command line asks for, and its arguments: by the name of the binary, or as the first argument.
pub(crate) fn requested(command: &[String]) -> Option<(&'static Original, &[String])> {
    let called = Path::new(command.first()?).file_name()?.to_str()?;
    let bare = match called.to_ascii_lowercase().strip_suffix(".exe") {
        Some(stem) => called[..stem.len()].to_owned(),
        None => called.to_owned(),
    };
    if let Some(original) = find(&bare) {
        return Some((original, &command[1..]));
    }
    Some((find(command.get(1)?)?, &command[2..]))
}

/// Runs an original.
pub(crate) fn run(original: &Original, arguments: &[String], command: &[String]) -> ExitCode {
    let code = (original.run)(arguments, &This { command });
    // What was printed did not get there.
    let unread = code == 0 && STDOUT_FAILED.load(Ordering::Relaxed);
    ExitCode::from(if unread { 1 } else { code })
}

static STDOUT_FAILED: AtomicBool = AtomicBool::new(false);

/// Stdout of an original. When it takes no more, that is told once, in a sentence.
struct Stdout(io::Stdout);

fn told<T>(written: io::Result<T>) -> io::Result<T> {
    if let Err(error) = &written
        && error.kind() != io::ErrorKind::Interrupted
        && !STDOUT_FAILED.swap(true, Ordering::Relaxed)
        && let Some(text) = stderr::of_stdout(error)
    {
        stderr::say(format_args!("netcaliper: {text}"));
    }
    written
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        told(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        told(self.0.flush())
    }
}

impl From<CliError> for Refusal {
    fn from(error: CliError) -> Self {
        if error.exit == Exit::Usage { Refusal::Usage(error.text) } else { Refusal::Failed(error.text) }
    }
}

fn refused(error: EngineError) -> Refusal {
    CliError::from(error).into()
}

/// This program, run with this command line.
struct This<'a> {
    command: &'a [String],
}

impl Driver for This<'_> {
    fn command(&self) -> &[String] {
        self.command
    }

    fn version(&self) -> &'static str {
        plan::VERSION
    }

    fn host(&self) -> &'static dyn HostInfo {
        &runtime::ThisHost
    }

    fn local_addresses(&self) -> Vec<(String, IpAddr)> {
        runtime::local_addresses()
    }

    fn is_ours(&self, address: IpAddr) -> bool {
        runtime::is_ours(address)
    }

    fn open_files(&self) -> Option<(u64, u64)> {
        runtime::rlimit_nofile()
    }

    fn resolve(&self, targets: &[String], port: u16, v4: bool, v6: bool) -> Result<Vec<Peer>, Refusal> {
        runtime::resolve_targets(targets, port, v4, v6).map_err(refused)
    }

    fn open_to(&self, networks: &[String]) -> Result<Vec<IpNet>, Refusal> {
        Ok(plan::open_to(networks)?)
    }
}

impl Console for This<'_> {
    fn say(&self, text: &dyn Display) {
        stderr::say(text);
    }

    fn stdout(&self) -> Box<dyn Write> {
        Box::new(Stdout(io::stdout()))
    }

    fn quoted(&self, line: &str, to_stdout: bool) -> String {
        report::hanging(line, stderr::stdout_columns().filter(|_| to_stdout))
    }

    fn read_hidden(&self, prompt: &str) -> io::Result<String> {
        runtime::read_hidden(prompt)
    }

    fn on_signals(&self) -> Result<Interrupt, Refusal> {
        Ok(measure::on_signals()?)
    }

    fn on_any_key(&self, interrupt: &Interrupt) -> Option<Box<dyn Send>> {
        runtime::interrupt_by_any_key(interrupt).map(|keys| Box::new(keys) as Box<dyn Send>)
    }

    fn to_background(&self) -> io::Result<()> {
        runtime::to_background()
    }

    fn sleep(&self, ms: u64) {
        std::thread::sleep(Duration::from_millis(ms));
    }
}

impl Runs for This<'_> {
    fn check(&self, config: &ClientConfig, phase: &Phase) -> Result<(), Refusal> {
        runtime::check(config, phase).map_err(refused)
    }

    fn begin(&self, config: &ClientConfig, verb: &str, phase: &Phase) -> Begin {
        runtime::begin(config, verb, self.command.to_vec(), phase)
    }

    fn run(
        &self,
        config: &ClientConfig,
        phase: &Phase,
        interrupt: &Interrupt,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<(), Refusal> {
        runtime::run(config, phase, interrupt, &mut |event| on_event(&event)).map_err(refused)
    }

    fn bind(&self, config: ServerConfig) -> Result<Box<dyn original::Bound>, Refusal> {
        let bound = Bound::new(config).map_err(refused)?;
        Ok(Box::new(Server(bound)))
    }

    fn own_protocol(&self) -> &'static dyn Protocol {
        protocols::NATIVE
    }
}

impl Files for This<'_> {
    fn create(&self, path: &Path) -> io::Result<Box<dyn original::ResultFile>> {
        Ok(Box::new(NewFile::create(path)?))
    }

    fn journal(&self, path: Option<&PathBuf>, serves: bool) -> Result<Box<dyn original::Journal>, Refusal> {
        Ok(Box::new(SavedRun::open(path, serves)?))
    }

    fn history(&self) -> Box<dyn original::History> {
        Box::new(Keeping::new())
    }
}

struct Server(Bound);

impl original::Bound for Server {
    fn addresses(&self) -> &[SocketAddr] {
        self.0.addresses()
    }

    fn begin(&self, command: Vec<String>) -> Begin {
        self.0.begin(command)
    }

    fn run(self: Box<Self>, interrupt: &Interrupt, on_event: &mut dyn FnMut(&Event)) -> Result<(), Refusal> {
        self.0.run(interrupt, &mut |event| on_event(&event)).map_err(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_original_is_found_by_either_name() {
        let found = |words: &[&str]| {
            let command: Vec<String> = words.iter().map(ToString::to_string).collect();
            requested(&command).map(|(original, rest)| (original.name, rest.len()))
        };
        assert_eq!(found(&["netcaliper", "ctstraffic", "-Listen:*"]), Some(("ctstraffic", 1)));
        assert_eq!(found(&["/usr/bin/ctsTraffic", "-Listen:*", "-Port:5"]), Some(("ctstraffic", 2)));
        assert_eq!(found(&["ctsTraffic.exe"]), Some(("ctstraffic", 0)));
        assert_eq!(found(&["netcaliper", "tcp", "ctstraffic"]), None);
        assert_eq!(found(&["netcaliper"]), None);
        assert_eq!(found(&[]), None);
    }
}
