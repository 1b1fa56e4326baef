//! Completions and manual pages, from the definitions that read the command line.

#[cfg(feature = "man")]
pub(crate) mod complete;
#[cfg(feature = "man")]
mod manual;

use crate::args::help;
#[cfg(feature = "man")]
use crate::command::Cli;
use clap::Args;
#[cfg(feature = "man")]
use console::error::Context as _;
use console::error::{CliError, Exit};
use console::stdout;
use std::path::PathBuf;

/// For which shell.
#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// bash, zsh, fish, powershell or elvish.
    #[arg(value_parser = ["bash", "elvish", "fish", "powershell", "zsh"])]
    shell: String,
}

#[cfg(not(feature = "man"))]
fn absent() -> CliError {
    CliError::usage(
        "this netcaliper was built without manual pages and completions (cargo build --release --features man)",
    )
}

/// Prints what completes this program's arguments.
#[cfg(not(feature = "man"))]
pub(crate) fn completions(_: &CompletionsArgs) -> Result<Exit, CliError> {
    Err(absent())
}

/// Prints what completes this program's arguments: in bash, zsh and fish by asking the program,
/// elsewhere by the names of commands and options.
#[cfg(feature = "man")]
pub(crate) fn completions(args: &CompletionsArgs) -> Result<Exit, CliError> {
    if let Some(script) = complete::script(&args.shell) {
        return Ok(stdout::write(script.as_bytes()));
    }
    let shell: clap_complete::Shell = args.shell.parse().map_err(CliError::usage)?;
    Ok(stdout::write(&names(shell)))
}

/// A script with the names of commands and options. Commands that no user types are left out.
#[cfg(feature = "man")]
fn names(shell: clap_complete::Shell) -> Vec<u8> {
    let whole = Cli::whole();
    let shown = whole.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    let mut program =
        clap::Command::new("netcaliper").args(whole.get_arguments().cloned()).subcommands(shown);
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut program, "netcaliper", &mut text);
    text
}

/// Folder of the pages.
#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// Write all pages into this folder, created if missing: netcaliper.1, netcaliper-tcp.1, …
    /// [default: the first one, to stdout].
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

#[cfg(not(feature = "man"))]
pub(crate) fn man(_: &ManArgs) -> Result<Exit, CliError> {
    Err(absent())
}

#[cfg(feature = "man")]
pub(crate) fn man(args: &ManArgs) -> Result<Exit, CliError> {
    let pages = manual::pages().context("cannot write the pages")?;
    match &args.folder {
        Some(folder) => {
            std::fs::create_dir_all(folder).context(folder.display())?;
            for (name, text) in &pages {
                let path = folder.join(name);
                std::fs::write(&path, text).context(path.display())?;
            }
            Ok(Exit::Good)
        }
        None => Ok(pages.first().map_or(Exit::Good, |(_, text)| stdout::write(text))),
    }
}

/// Explains the options that several commands share.
pub(crate) fn options() -> Result<Exit, CliError> {
    Ok(stdout::write(help::shared().render_long_help().to_string().as_bytes()))
}

#[cfg(all(test, feature = "man"))]
mod tests {
    use super::*;

    #[test]
    fn a_script_of_names_has_no_hidden_command() {
        for shell in [clap_complete::Shell::PowerShell, clap_complete::Shell::Elvish] {
            let text = String::from_utf8(names(shell)).unwrap();
            assert!(text.contains("netcaliper;tcp") && text.contains("--congestion"), "{shell}: {text}");
            for hidden in ["worker-process", "netcaliper;complete'", "netcaliper;ctstraffic"] {
                assert!(!text.contains(hidden), "{shell}: {hidden}");
            }
        }
    }
}
