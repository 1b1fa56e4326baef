//! The netcaliper binary: arguments to a plan, the plan to the engine, events to the reporters.
#![forbid(unsafe_code)]

mod args;
mod command;
mod config;
#[cfg(test)]
mod documents;
mod fleet;
mod originals;
mod outputs;
mod protocols;
mod provenance;
mod runs;
mod verbs;

use command::Cli;
use console::{stderr, stdout};
use std::process::ExitCode;

fn main() -> ExitCode {
    runtime::fail_writes_beyond_limit();
    let command: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some((original, arguments)) = originals::requested(&command) {
        return originals::run(original, arguments, &command);
    }
    if let Some(text) = provenance::version_text(&command) {
        return stdout::write(text.as_bytes()).into();
    }
    // Help is what is needed to mend the file.
    let configured =
        config::Config::read(Cli::whole).inspect_err(|_| Cli::help_if_asked(&command)).map(|config| {
            if let Some(warning) = config.warning().filter(|_| Cli::is_for_users(&command)) {
                stderr::say(format_args!("netcaliper: {warning}"));
            }
            let configured = config.applied(&command);
            config.keep();
            configured
        });
    let done = configured.and_then(|words| command::run(Cli::parse_command(&words).command, command));
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
