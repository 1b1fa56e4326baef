//! The netcaliper binary: arguments to a plan, the plan to the engine, events to the reporters.
#![forbid(unsafe_code)]

mod agent;
mod args;
mod baseline;
mod compare;
mod config;
mod datagrams;
mod delay;
mod demo;
#[cfg(test)]
mod documents;
mod failure;
mod file;
mod fleet;
mod help;
mod import_export;
mod kept;
mod key;
mod lab;
mod legacy;
mod lines;
mod live;
mod load;
mod loopback;
mod measure;
mod mistaken;
mod monitor;
mod nats;
mod originals;
mod outputs;
mod pages;
mod ping;
mod plan;
mod processes;
mod protocols;
mod provenance;
mod repeat;
mod saved;
mod scrape;
mod series;
mod serve;
mod signals;
mod stamp;
mod stderr;
mod stream;
mod train;
mod values;
mod watch;

use args::{Cli, Command};
use std::fmt::Display;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How a command ended, for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exit {
    Good,
    /// Something failed: nothing could be measured, or connections ended in errors.
    Failed,
    Usage,
    /// A figure is worse than was to be accepted.
    Threshold,
    /// The remote end vanished: the result covers what was measured until then.
    Partial,
    /// Ended by SIGINT or SIGTERM; the result covers what was measured until then.
    Interrupted,
    /// What a command ended with that was run for the user.
    Command(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(match exit {
            Exit::Good => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Threshold => 3,
            Exit::Partial => 4,
            Exit::Interrupted => 130,
            Exit::Command(code) => code,
        })
    }
}

fn main() -> ExitCode {
    runtime::fail_writes_beyond_limit();
    let command: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some((original, arguments)) = originals::requested(&command) {
        return originals::run(original, arguments, &command);
    }
    if let Some(text) = provenance::asked(&command) {
        return pages::write(text.as_bytes()).into();
    }
    // Help is what is needed to mend the file.
    let configured = config::Config::read().inspect_err(|_| Cli::help_if_asked(&command)).map(|config| {
        let configured = config.applied(&command);
        config.keep();
        configured
    });
    let done = configured.and_then(|words| verb(Cli::parse_command(&words).command, command));
    match done {
        Ok(exit) => exit.into(),
        Err(trouble) => {
            if !trouble.text.is_empty() {
                stderr::say(format_args!("netcaliper: {}", trouble.text));
            }
            trouble.exit.into()
        }
    }
}

/// Does what the command line asks for; `command` is as it was typed.
fn verb(verb: Command, command: Vec<String>) -> Result<Exit, CliError> {
    let failure = failure::Form::of(&verb);
    let done = run_verb(verb, command.clone());
    done.inspect_err(|error| failure.iter().for_each(|form| form.report(error, command.clone())))
}

fn run_verb(verb: Command, command: Vec<String>) -> Result<Exit, CliError> {
    match verb {
        Command::Tcp(args) => measure::tcp(&args, command),
        Command::Connect(args) => measure::connect(&args, command),
        Command::Ping(args) => ping::ping(&args, command),
        Command::Stream(args) => stream::stream(&args, command),
        Command::Delay(args) => delay::delay(&args, command),
        Command::Train(args) => train::train(&args, command),
        Command::Load(args) => load::load(&args, command),
        Command::Serve(args) => serve::serve(&args, command),
        Command::Agent(args) => agent::agent(&args),
        Command::Stop(args) => serve::stop(&args),
        Command::Key(args) => key::key(&args),
        Command::Demo(args) => demo::demo(&args, command),
        Command::Report(args) => saved::report(&args),
        Command::History(args) => kept::history(&args),
        Command::Show(args) => kept::show(&args),
        Command::Import(args) => import_export::import(&args),
        Command::Export(args) => import_export::export(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Monitor(args) => monitor::monitor(&args),
        Command::Lab(args) => lab::lab(&args),
        Command::Fleet(args) => fleet::fleet(&args),
        Command::WorkerProcess(args) => processes::worker(&args),
        Command::Options => pages::options(),
        Command::Config => config::show(),
        Command::Run(args) => config::run(&args),
        Command::Completions(args) => pages::completions(&args),
        Command::Man(args) => pages::man(&args),
    }
}

/// Why a command could not do its work: one sentence (none where the reader of stdout has closed it), and the exit code.
#[derive(Debug)]
struct CliError {
    text: String,
    exit: Exit,
}

impl CliError {
    fn usage(text: impl ToString) -> Self {
        CliError { text: text.to_string(), exit: Exit::Usage }
    }

    fn failed(text: impl ToString) -> Self {
        CliError { text: text.to_string(), exit: Exit::Failed }
    }

    /// Stdout takes no more. A reader that has closed it, as `head` does, wants no sentence about that either.
    fn stdout(error: &std::io::Error) -> Self {
        CliError::failed(stderr::of_stdout(error).unwrap_or_default())
    }
}

/// Locks what is whole even after a thread panicked that had it.
fn lock<T: ?Sized>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says of a failure what was being done, or with which file.
trait Context<T> {
    fn context(self, what: impl Display) -> Result<T, CliError>;
}

impl<T, E: Display> Context<T> for Result<T, E> {
    fn context(self, what: impl Display) -> Result<T, CliError> {
        self.map_err(|error| CliError::failed(format!("{what}: {error}")))
    }
}

impl From<runtime::EngineError> for CliError {
    fn from(error: runtime::EngineError) -> Self {
        match error {
            runtime::EngineError::Setting(text) => CliError::usage(text),
            runtime::EngineError::Interrupted(text) => CliError { text, exit: Exit::Interrupted },
            other => CliError::failed(other),
        }
    }
}
