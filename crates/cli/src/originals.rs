//! The originals: the names under which their command lines are found, and the program that they
//! are part of.

use crate::args::{store, values};
use crate::{protocols, provenance};
use common::original::{Bound, Driver, Original, Refusal};
use common::{Peer, ServerConfig};
use console::error::{CliError, Exit};
use console::file::{NewFile, SavedRun};
use console::{signals, stderr};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// The original that a command line asks for, and its arguments: by the name of the binary, or as
/// the first argument.
pub(crate) fn requested(command: &[String]) -> Option<(&'static Original, &[String])> {
    let called = Path::new(command.first()?).file_name()?.to_str()?;
    let bare = match called.to_ascii_lowercase().strip_suffix(".exe") {
        Some(stem) => called[..stem.len()].to_owned(),
        None => called.to_owned(),
    };
    if let Some(original) = protocols::original(&bare) {
        return Some((original, &command[1..]));
    }
    Some((protocols::original(command.get(1)?)?, &command[2..]))
}

/// Runs an original.
pub(crate) fn run(original: &Original, arguments: &[String], command: &[String]) -> ExitCode {
    let code = (original.run)(arguments, &driver(command));
    // What was printed did not get there.
    let unread = code == 0 && STDOUT_FAILED.load(Ordering::Relaxed);
    ExitCode::from(if unread { 1 } else { code })
}

static STDOUT_FAILED: AtomicBool = AtomicBool::new(false);

/// Stdout of an original. When it takes no more, that is told once, in a sentence.
struct Stdout(io::Stdout);

fn report_failure<T>(written: io::Result<T>) -> io::Result<T> {
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
        report_failure(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        report_failure(self.0.flush())
    }
}

/// The same failure, as an original reports it.
fn refused(error: impl Into<CliError>) -> Refusal {
    let CliError { text, exit } = error.into();
    match exit {
        Exit::Usage => Refusal::Usage(text),
        Exit::Interrupted => Refusal::Interrupted(text),
        _ => Refusal::Failed(text),
    }
}

/// This program, run with this command line.
fn driver(command: &[String]) -> Driver {
    Driver {
        command: command.to_vec(),
        version: provenance::VERSION,
        host: &runtime::ThisHost,
        own_protocol: protocols::NATIVE,
        local_addresses: runtime::local_addresses,
        is_ours: runtime::is_ours,
        open_files: runtime::rlimit_nofile,
        resolve: |host, port, v4, v6| {
            let interrupt = signals::interrupt().map_err(refused)?;
            let targets = [host.to_owned()];
            let peers = runtime::resolve_targets(&targets, port, (v4, v6), &interrupt).map_err(refused)?;
            Ok(peers.into_iter().flat_map(Peer::each).collect())
        },
        open_to: |networks| values::open_to(networks).map_err(refused),
        say: |text| stderr::say(text),
        stdout: || Box::new(Stdout(io::stdout())),
        quoted: |line, to_stdout| report::hanging(line, stderr::stdout_columns().filter(|_| to_stdout)),
        read_hidden: runtime::read_hidden,
        on_signals: || signals::interrupt().map_err(refused),
        on_any_key: |interrupt| Some(Box::new(runtime::interrupt_by_any_key(interrupt)?)),
        to_background: runtime::to_background,
        sleep: std::thread::sleep,
        check: |config, phase| runtime::check(config, phase).map_err(refused),
        begin: runtime::begin,
        run: |config, phase, interrupt, on_event| {
            runtime::run(config, phase, interrupt, &mut |event| on_event(&event)).map_err(refused)
        },
        bind,
        create: |path| {
            let file = NewFile::create(path)?;
            Ok(Box::new(|text| file.fill(|out| out.write_all(text.as_bytes()))))
        },
        save: |path, serves| {
            let mut file = SavedRun::open(path, serves)?;
            Ok(Box::new(move |event| file.on_event(event)))
        },
        keep: store::keeps().then_some(store::keep_original),
    }
}

fn bind(config: ServerConfig, command: Vec<String>) -> Result<Bound, Refusal> {
    let bound = runtime::Bound::new(config).map_err(refused)?;
    Ok(Bound {
        addresses: bound.addresses().to_vec(),
        begin: bound.begin(command),
        run: Box::new(|interrupt, on_event| {
            bound.run(interrupt, &mut |event| on_event(&event)).map_err(refused)
        }),
    })
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
        assert_eq!(found(&["netcaliper", "ntttcp.exe", "-s"]), Some(("ntttcp", 1)));
        assert_eq!(found(&["netcaliper", "tcp", "ctstraffic"]), None);
        assert_eq!(found(&["netcaliper"]), None);
        assert_eq!(found(&[]), None);
    }
}
