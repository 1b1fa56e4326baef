//! `netcaliper key`, which makes keys.

use crate::args::key;
use clap::{Args, Subcommand};
use common::auth::{DRAWN, hex};
use common::keys::{PrivateKey, public_text};
use console::error::{CliError, Context as _, Exit};
use console::{stderr, stdout};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
pub(crate) struct KeyVerbArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Draw a key and write it to a file that only its owner can read.
    New(NewArgs),
    /// Print the public key of a private one.
    Public(PublicArgs),
}

#[derive(Args, Debug)]
struct NewArgs {
    /// The file; it must not exist yet.
    file: PathBuf,
    /// The key's name, by which a server with several keys knows it and gives it rights.
    #[arg(long, value_parser = key::name)]
    name: Option<String>,
    /// A private key for --key-file instead of a key that both ends share. Its public key is
    /// printed: the other end is given that.
    #[arg(long)]
    pair: bool,
}

#[derive(Args, Debug)]
struct PublicArgs {
    /// File with a private key.
    file: PathBuf,
    /// The name to print before it, as lists of keys have it.
    #[arg(long, value_parser = key::name)]
    name: Option<String>,
    /// Use key files that every user of this host can read.
    #[arg(long)]
    insecure_key_file: bool,
}

/// `netcaliper key`.
pub(crate) fn key(args: &KeyVerbArgs) -> Result<Exit, CliError> {
    match &args.command {
        Command::New(args) => new(args),
        Command::Public(args) => {
            print_public(&key::private_in(&args.file, args.insecure_key_file)?, args.name.as_deref())
        }
    }
}

fn new(args: &NewArgs) -> Result<Exit, CliError> {
    let drawn = key::drawn()?;
    let before =
        args.name.as_ref().filter(|_| !args.pair).map_or_else(String::new, |name| format!("{name} "));
    let kind = if args.pair { key::PRIVATE } else { DRAWN };
    let written = of_owner(&args.file).and_then(|mut file| {
        file.write_all(format!("{before}{kind}{}\n", hex(&drawn)).as_bytes())?;
        file.sync_all()
    });
    written.context(format_args!("cannot write {}", args.file.display()))?;
    if args.pair {
        return print_public(&PrivateKey(drawn), args.name.as_deref());
    }
    stderr::say(format_args!("{} holds a new key: give it to both ends as --psk-file", args.file.display()));
    Ok(Exit::Good)
}

fn print_public(key: &PrivateKey, name: Option<&str>) -> Result<Exit, CliError> {
    let public = native::secure::public_key(&key.0)
        .ok_or_else(|| CliError::failed("the private key has no public key"))?;
    let before = name.map_or_else(String::new, |name| format!("{name} "));
    stdout::print(|out| writeln!(out, "{before}{}", public_text(&public)))
}

/// A new file that only its owner can read and write.
#[cfg(unix)]
fn of_owner(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// A new file; who may read it is inherited from its folder.
#[cfg(not(unix))]
fn of_owner(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}
