//! `--export`: the receivers of results, and their secrets.

use clap::Args;
use console::error::CliError;
use console::file;
use export::{Exporter, Receiver, Secret};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Longest file of a token that is read, bytes.
const LONGEST_FILE: u64 = 16 << 10;

/// Where figures are sent.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Output")]
pub(crate) struct ExportArgs {
    /// Send the figures to a receiver when they are measured (repeatable):
    /// otlp+http://HOST:4318 (OTLP, JSON), influx+http://HOST:8086?bucket=B&org=O (InfluxDB 2),
    /// influx+http://HOST:8086?db=D (InfluxDB 1), pushgateway+http://HOST:9091; with https instead
    /// of http over TLS. A receiver that fails changes neither the result nor the exit code: what
    /// it does not take waits on disk for a later run with the same URL (docs/export.md).
    // Read by `open`: clap would repeat a URL with a password in its message.
    #[arg(long, value_name = "URL")]
    export: Vec<String>,
    /// File with the token that the receiver wants, or NAME:PASSWORD, or HEADER: VALUE; other users
    /// cannot read the file. With several receivers HOST=FILE for each. The variable
    /// NETCALIPER_EXPORT_TOKEN may hold the token itself instead, for a single host.
    #[arg(long, value_name = "[HOST=]FILE", value_parser = token_file)]
    export_token_file: Vec<(String, PathBuf)>,
}

/// `FILE`, of which the host is empty, or `HOST=FILE`; a name with a slash is no host.
fn token_file(text: &str) -> Result<(String, PathBuf), String> {
    let named = text.split_once('=').filter(|(host, _)| !host.contains('/'));
    match named.unwrap_or(("", text)) {
        (_, "") => Err("FILE or HOST=FILE is wanted".to_owned()),
        (host, file) => Ok((host.to_owned(), file.into())),
    }
}

impl ExportArgs {
    /// The receivers with their secrets; `None` where none is named.
    ///
    /// # Errors
    /// One sentence, before anything is measured, for a secret that cannot be read or belongs to no
    /// receiver, a folder that cannot be written, a build without this ability.
    pub(crate) fn open(&self, version: &str) -> Result<Option<Exporter>, CliError> {
        if self.export.is_empty() {
            return Ok(None);
        }
        let receiver = |url: &String| Receiver::parse(url).map_err(|why| format!("--export: {why}"));
        let receivers = self.export.iter().map(receiver).collect::<Result<Vec<Receiver>, _>>();
        let receivers = receivers.map_err(CliError::usage)?;
        let hosts: Vec<&str> = receivers.iter().map(Receiver::host).collect();
        let unknown = self
            .export_token_file
            .iter()
            .find(|(host, _)| !host.is_empty() && !hosts.contains(&host.as_str()));
        if let Some((host, _)) = unknown {
            return Err(CliError::usage(format!(
                "--export-token-file {host}=…: no --export names the host {host}"
            )));
        }
        let of = |receiver: &Receiver| Ok((receiver.clone(), self.secret(receiver.host(), &hosts)?));
        let receivers = receivers.iter().map(of).collect::<Result<_, CliError>>()?;
        let root = file::state_folder()?.join("export");
        Exporter::new(&root, receivers, version).map(Some).map_err(CliError::usage)
    }

    /// The secret for receivers on `host`, one of all these: the one for that host, else the one for
    /// all.
    fn secret(&self, host: &str, hosts: &[&str]) -> Result<Option<Secret>, CliError> {
        let file_of = |host: &str| self.export_token_file.iter().find(|(of, _)| of == host);
        if let Some((_, path)) = file_of(host) {
            return secret_in(path).map(Some);
        }
        let (text, place) = match (file_of(""), std::env::var("NETCALIPER_EXPORT_TOKEN")) {
            (Some((_, path)), _) => (secret_in(path)?, "--export-token-file FILE"),
            (None, Ok(text)) if !text.is_empty() => {
                let wrong = |why| CliError::usage(format!("NETCALIPER_EXPORT_TOKEN {why}"));
                (Secret::parse(&text).map_err(wrong)?, "NETCALIPER_EXPORT_TOKEN")
            }
            _ => return Ok(None),
        };
        // A secret for one host is no other host's business.
        match hosts.iter().all(|other| *other == host) {
            true => Ok(Some(text)),
            false => Err(CliError::usage(format!(
                "{place} is for receivers on one host: with several, give --export-token-file HOST=FILE for each"
            ))),
        }
    }
}

/// The secret in a file, which other users must not be able to read.
fn secret_in(path: &Path) -> Result<Secret, CliError> {
    let wrong = |why: String| CliError::usage(format!("--export-token-file {}: {why}", path.display()));
    let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    if file.metadata().is_ok_and(|data| file::is_world_readable(&data)) {
        return Err(wrong("every user of this host can read it: `chmod 600` mends that".to_owned()));
    }
    let mut text = String::new();
    file.take(LONGEST_FILE).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
    Secret::parse(&text).map_err(wrong)
}
