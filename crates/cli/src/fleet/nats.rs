//! The options for a NATS server in the middle of a fleet.

use clap::Args;
#[cfg(feature = "fleet")]
use console::error::CliError;
use std::path::PathBuf;

/// Address of the server, and this end's proof of identity.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Through a NATS server")]
pub(crate) struct NatsArgs {
    /// NATS server through which controllers and agents meet, such as tls://nats.example:4222;
    /// several with commas between (needs a build with the feature `nats`).
    #[arg(long, value_name = "URL")]
    pub(crate) nats: Option<String>,
    /// Name of the fleet on that server.
    #[arg(long, value_name = "NAME", default_value = "fleet", requires = "nats")]
    nats_fleet: String,
    /// Certificates of the authorities that have signed the server's [default: the system's].
    #[arg(long, value_name = "FILE", requires = "nats")]
    nats_ca: Option<PathBuf>,
    /// Credentials: a file with a JWT and its key.
    #[arg(long, value_name = "FILE", requires = "nats", conflicts_with = "nats_nkey")]
    nats_creds: Option<PathBuf>,
    /// File with the seed of an NKey.
    #[arg(long, value_name = "FILE", requires = "nats")]
    nats_nkey: Option<PathBuf>,
    /// Certificate of this end.
    #[arg(long, value_name = "FILE", requires = "nats_cert_key")]
    nats_cert: Option<PathBuf>,
    /// Its key.
    #[arg(long, value_name = "FILE", requires = "nats_cert")]
    nats_cert_key: Option<PathBuf>,
}

impl NatsArgs {
    /// The server, if one is asked for.
    #[cfg(feature = "nats")]
    pub(crate) fn server(&self) -> Result<Option<fleet::transport::nats::Login>, CliError> {
        let Some(url) = self.nats.clone() else { return Ok(None) };
        if url.contains('@') {
            // Other users of the host can read command lines.
            return Err(CliError::usage(
                "a password does not stand in --nats: give --nats-nkey, --nats-creds or --nats-cert",
            ));
        }
        Ok(Some(fleet::transport::nats::Login {
            url,
            fleet: self.nats_fleet.clone(),
            ca: self.nats_ca.clone(),
            creds: self.nats_creds.clone(),
            nkey: self.nats_nkey.clone(),
            certificate: self.nats_cert.clone().zip(self.nats_cert_key.clone()),
        }))
    }

    /// Refuses a server: this build cannot reach one.
    #[cfg(all(feature = "fleet", not(feature = "nats")))]
    pub(crate) fn refuse(&self) -> Result<(), CliError> {
        match self.nats {
            None => Ok(()),
            Some(_) => Err(CliError::usage(
                "this netcaliper was built without NATS (cargo build --release --features nats)",
            )),
        }
    }
}
