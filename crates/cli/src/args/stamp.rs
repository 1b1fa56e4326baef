//! The settings of STAMP packets, and where they are answered.

use crate::args::values::{self, Legacy, LegacyAsked, Named};
use crate::error::CliError;
use crate::protocols::{self, Protocol};
use clap::Args;
use model::StampSettings;

/// STAMP packets.
#[derive(Args, Debug)]
#[command(
    next_help_heading = "STAMP and TWAMP-Light packets (--protocol stamp; authenticated with --psk-file)"
)]
pub(crate) struct StampArgs {
    /// Session identifier (SSID, RFC 8972): 1 to 65535, in hexadecimal after 0x.
    #[arg(long, value_name = "N", value_parser = ssid)]
    pub(crate) ssid: Option<u16>,
    /// Format of times.
    #[arg(long, default_value = "ntp", value_parser = values::one_of(PTP), action = clap::ArgAction::Set)]
    pub(crate) stamp_format: bool,
    /// Extensions (RFC 8972), separated by commas: follow-up (the remote end's kernel stamp of its
    /// last answer), clock (the source of its time), cos=DSCP (class of its answers), direct (its
    /// counts of received and sent packets; few know it).
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = extension)]
    pub(crate) tlv: Vec<StampSettings>,
}

/// Names of the two formats of times; true for PTP's.
const PTP: Named<bool> = &[
    ("ntp", "Seconds since 1900 and fractions of 2^-32 s", false),
    ("ptp", "Seconds since 1970 (UTC) and nanoseconds", true),
];

/// Settings with this extension alone.
fn extension(text: &str) -> Result<StampSettings, String> {
    let none = StampSettings::default();
    match text.split_once('=') {
        None if text == "follow-up" => Ok(StampSettings { follow_up: true, ..none }),
        None if text == "clock" => Ok(StampSettings { clock_info: true, ..none }),
        None if text == "direct" => Ok(StampSettings { direct: true, ..none }),
        Some(("cos", dscp)) => values::dscp(dscp).map(|dscp| StampSettings { cos: Some(dscp), ..none }),
        _ => Err(format!("'{text}' is not an extension: it must be follow-up, clock, cos=DSCP or direct")),
    }
}

fn ssid(text: &str) -> Result<u16, String> {
    let number = values::hexadecimal_or_decimal(text).and_then(|n| u16::try_from(n).ok()).filter(|n| *n > 0);
    number.ok_or_else(|| format!("'{text}' is not a session identifier (1 to 65535)"))
}

impl StampArgs {
    /// The settings of packets, if `protocol` has such; `keyed` says that a key is known.
    pub(crate) fn settings(
        &self,
        protocol: Protocol,
        keyed: bool,
    ) -> Result<Option<StampSettings>, CliError> {
        let extended = |all: StampSettings, one: &StampSettings| StampSettings {
            follow_up: all.follow_up || one.follow_up,
            clock_info: all.clock_info || one.clock_info,
            direct: all.direct || one.direct,
            cos: one.cos.or(all.cos),
            ..all
        };
        let extensions = self.tlv.iter().fold(StampSettings::default(), extended);
        let asked = StampSettings { ssid: self.ssid.unwrap_or(0), ptp: self.stamp_format, ..extensions };
        if protocol == protocols::STAMP {
            return Ok(Some(StampSettings { authenticated: keyed, ..asked }));
        }
        if asked != StampSettings::default() {
            let text =
                "--ssid, --stamp-format and --tlv are for STAMP packets: use them with --protocol stamp";
            return Err(CliError::usage(text));
        }
        Ok(None)
    }
}

/// Other protocols that a server answers besides its own.
#[derive(Args, Debug)]
#[command(next_help_heading = "Other protocols")]
pub(crate) struct LegacyArgs {
    /// Answer other protocols as well, each on its own port or on the one given (echo:9999):
    /// iperf3, ctstraffic, ntttcp, ttcp, udpmon, tcpmon, bwdelaytester, echo, stamp, separated by
    /// commas; or all, and a table shows which ports could not be bound. Their datagrams prove no
    /// address: only those of this host and of directly connected networks are answered, unless
    /// NETCALIPER_ALLOW names other networks.
    #[arg(long, value_name = "all|NAME[:PORT],…", value_delimiter = ',', value_parser = values::legacy)]
    legacy: Vec<LegacyAsked>,
    /// Echo (RFC 862): the same as --legacy echo.
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "7", value_parser = values::port)]
    echo: Option<u16>,
    /// Reflect STAMP and TWAMP-Light packets (RFC 8762, UDP): the same as --legacy stamp.
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "862", value_parser = values::port)]
    stamp: Option<u16>,
    /// Answer the other protocols although the server has a key, which guards the native protocol
    /// only.
    #[arg(long = "legacy-unauthenticated")]
    pub(crate) unauthenticated: bool,
    /// File with the key of authenticated STAMP; packets without a valid HMAC are not answered,
    /// valid ones from every address.
    #[arg(long, value_name = "FILE", env = "NETCALIPER_STAMP_PSK_FILE")]
    pub(crate) stamp_psk_file: Option<std::path::PathBuf>,
    /// Answer STAMP's Direct Measurement extension, too, of which only one source confirms the
    /// numbers.
    #[arg(long)]
    pub(crate) stamp_direct: bool,
}

impl LegacyArgs {
    /// All that are asked for by name.
    pub(crate) fn named(&self) -> Vec<Legacy> {
        let echo = self.echo.and_then(|port| Legacy::of(protocols::ECHO, port));
        let stamp = self.stamp.and_then(|port| Legacy::of(protocols::STAMP, port));
        let named = self.legacy.iter().filter_map(|asked| match asked {
            LegacyAsked::One(legacy) => Some(*legacy),
            LegacyAsked::All => None,
        });
        named.chain(echo).chain(stamp).collect()
    }

    /// True if `all` is among them.
    pub(crate) fn every(&self) -> bool {
        self.legacy.iter().any(|asked| matches!(asked, LegacyAsked::All))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_and_identifiers() {
        assert_eq!(extension("cos=ef").map(|all| all.cos), Ok(Some(46)));
        assert_eq!(extension("follow-up").map(|all| all.follow_up), Ok(true));
        assert!(extension("cos").unwrap_err().contains("cos=DSCP") && extension("cos=64").is_err());
        assert_eq!((ssid("7"), ssid("0xffff")), (Ok(7), Ok(65535)));
        assert!(ssid("0").is_err() && ssid("65536").is_err() && ssid("x").is_err());
    }
}
