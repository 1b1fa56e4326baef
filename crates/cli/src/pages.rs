//! Completions and manual pages, from the definitions that read the command line.
#![allow(rustdoc::broken_intra_doc_links, reason = "doc comments here are the help text, brackets and all")]

#[cfg(feature = "man")]
use crate::args::Cli;
#[cfg(feature = "man")]
use crate::saved;
use crate::{CliError, Exit, help};
use clap::{Args, ValueEnum};
use std::io::{self, Write as _};
use std::path::PathBuf;

/// A shell that completions can be made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

/// For which shell.
#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// bash, zsh, fish, powershell or elvish.
    shell: Shell,
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

/// Prints what completes this program's arguments.
#[cfg(feature = "man")]
pub(crate) fn completions(args: &CompletionsArgs) -> Result<Exit, CliError> {
    let shell = match args.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Elvish => clap_complete::Shell::Elvish,
        Shell::Fish => clap_complete::Shell::Fish,
        Shell::Powershell => clap_complete::Shell::PowerShell,
        Shell::Zsh => clap_complete::Shell::Zsh,
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::whole(), "netcaliper", &mut text);
    Ok(write(&text))
}

/// Where to.
#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// Write all pages into this folder, created if missing: netcaliper.1, netcaliper-tcp.1, … [default: the first one, to
    /// stdout].
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

#[cfg(not(feature = "man"))]
pub(crate) fn man(_: &ManArgs) -> Result<Exit, CliError> {
    Err(absent())
}

#[cfg(feature = "man")]
pub(crate) fn man(args: &ManArgs) -> Result<Exit, CliError> {
    let mut command = Cli::whole();
    command.build();
    match &args.folder {
        Some(folder) => {
            let cannot = |e: io::Error| saved::named(folder, &e);
            std::fs::create_dir_all(folder).map_err(cannot)?;
            clap_mangen::generate_to(command, folder).map_err(cannot)?;
            Ok(Exit::Good)
        }
        None => {
            let mut text = Vec::new();
            let rendered = clap_mangen::Man::new(command).render(&mut text);
            rendered.map_err(|e| CliError::failed(format!("cannot write the page: {e}")))?;
            Ok(write(&text))
        }
    }
}

/// Explains the options that several commands share.
pub(crate) fn options() -> Result<Exit, CliError> {
    Ok(write(help::shared().render_long_help().to_string().as_bytes()))
}

/// Writes to stdout; a closed stdout is no error.
pub(crate) fn write(text: &[u8]) -> Exit {
    let _ = io::stdout().lock().write_all(text);
    Exit::Good
}
