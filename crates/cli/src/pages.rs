//! Completions and manual pages, from the definitions that read the command line.
#![allow(rustdoc::broken_intra_doc_links, reason = "doc comments here are the help text, brackets and all")]

use crate::args::Cli;
use crate::{Exit, Trouble, saved};
use clap::Args;
use clap_complete::Shell;
use std::io::{self, Write};
use std::path::PathBuf;

/// For which shell.
#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// bash, zsh, fish, powershell or elvish.
    shell: Shell,
}

/// Prints what completes this program's arguments.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<Exit, Trouble> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::whole(), "netcaliper", &mut text);
    write(&text)
}

/// Where to.
#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// Write all pages into this folder, which is made if need be: netcaliper.1, netcaliper-tcp.1, … [default: the first one, to
    /// stdout].
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Writes the manual pages.
pub(crate) fn man(args: &ManArgs) -> Result<Exit, Trouble> {
    let command = Cli::whole();
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
            rendered.map_err(|e| Trouble::failed(format!("cannot write the page: {e}")))?;
            write(&text)
        }
    }
}

/// To stdout; where nobody reads on, nobody needs the rest.
fn write(text: &[u8]) -> Result<Exit, Trouble> {
    let _ = io::stdout().lock().write_all(text);
    Ok(Exit::Good)
}
