//! Settings of packets: their sizes, and the options that make them.

use common::options::{KeyOption, OptionGroup, OptionValue, ProtocolOption};
use metrics::parse_dscp;
use model::{Phase, StampSettings, Transport, Verify};

/// Sizes of packets with these settings.
pub trait Sizes {
    /// Bytes of a packet without extensions.
    fn base(&self) -> u32;

    /// Bytes of the extensions asked for, with the one that protects them in authenticated mode.
    fn extensions(&self) -> u32;

    /// Bytes of the shortest packet with all that is asked for.
    fn size(&self) -> u32 {
        self.base() + self.extensions()
    }
}

impl Sizes for StampSettings {
    fn base(&self) -> u32 {
        if self.authenticated { 112 } else { 44 }
    }

    fn extensions(&self) -> u32 {
        let each = [(self.cos.is_some(), 8), (self.clock_info, 8), (self.follow_up, 20), (self.direct, 16)];
        let all: u32 = each.iter().filter(|(asked, _)| *asked).map(|(_, bytes)| bytes).sum();
        all + if all > 0 && self.authenticated { 20 } else { 0 }
    }
}

/// True if packets of `size` bytes are possible.
pub(crate) fn fits(stamp: &StampSettings, size: u32) -> bool {
    let short = !stamp.authenticated && stamp.extensions() == 0 && (14..44).contains(&size);
    short || size == stamp.size() || size >= stamp.size() + 4
}

/// Has the messages of `phase` be packets of this protocol.
pub(crate) fn form(phase: &mut Phase, keyed: bool) -> Result<(), String> {
    let Some(ping) = &mut phase.ping else { return Ok(()) };
    let stamp = StampSettings { authenticated: keyed, ..ping.stamp.unwrap_or_default() };
    ping.stamp = Some(stamp);
    ping.transport = Transport::Udp;
    ping.size = if ping.size == 0 { stamp.size() } else { ping.size };
    if !fits(&stamp, ping.size) {
        let (least, short) = (stamp.size(), if stamp.size() == 44 { "14 to " } else { "" });
        return Err(format!(
            "a STAMP packet with these extensions has {short}{least} bytes, or {} and more (padding takes 4 at least)",
            least + 4
        ));
    }
    // The contents of packets are the remote end's, but for the fields that are read.
    phase.verify = Verify::Connection;
    // The value left at a packet's arrival shows the number of routers.
    phase.sockets.ttl = phase.sockets.ttl.or(Some(255));
    Ok(())
}

/// Changes the settings of the packets of `phase`.
fn change(phase: &mut Phase, change: impl FnOnce(&mut StampSettings)) {
    if let Some(ping) = &mut phase.ping {
        change(ping.stamp.get_or_insert_default());
    }
}

/// Options of `ping`.
pub(crate) const OPTIONS: &[OptionGroup] = &[OptionGroup {
    command: "ping",
    heading: "STAMP and TWAMP-Light packets (--protocol stamp; authenticated with --psk-file)",
    options: &[
        ProtocolOption {
            name: "ssid",
            help: "Session identifier (SSID, RFC 8972): 1 to 65535, in hexadecimal after 0x",
            value: OptionValue::One("N"),
            set: |text, phase| {
                let ssid = ssid(text)?;
                change(phase, |stamp| stamp.ssid = ssid);
                Ok(())
            },
            ..ProtocolOption::SWITCH
        },
        ProtocolOption {
            name: "stamp-format",
            help: "Format of times",
            value: OptionValue::Of(
                "STAMP_FORMAT",
                &[
                    ("ntp", "Seconds since 1900 and fractions of 2^-32 s"),
                    ("ptp", "Seconds since 1970 (UTC) and nanoseconds"),
                ],
            ),
            set: |text, phase| {
                change(phase, |stamp| stamp.ptp = text == "ptp");
                Ok(())
            },
            ..ProtocolOption::SWITCH
        },
        ProtocolOption {
            name: "tlv",
            help: "Extensions (RFC 8972), separated by commas: follow-up (the remote end's kernel stamp of its last answer), clock (the \
                   source of its time), cos=DSCP (class of its answers), direct (its counts of received and sent packets; few know it)",
            value: OptionValue::List("NAME,…"),
            set: extend,
            ..ProtocolOption::SWITCH
        },
    ],
}];

/// Option of `serve` for the key of authenticated packets.
pub(crate) const KEY: KeyOption = KeyOption {
    name: "stamp-psk-file",
    variable: "NETCALIPER_STAMP_PSK_FILE",
    help: "File with the key of authenticated STAMP; packets without a valid HMAC are not answered, valid ones from every address",
};

/// Options of `serve`.
pub(crate) const OF_SERVER: &[ProtocolOption] = &[ProtocolOption {
    name: "stamp-direct",
    help: "Answer STAMP's Direct Measurement extension, too, of which only one source confirms the numbers",
    set: |_, phase| {
        change(phase, |stamp| stamp.direct = true);
        Ok(())
    },
    ..ProtocolOption::SWITCH
}];

/// Adds an extension.
fn extend(text: &str, phase: &mut Phase) -> Result<(), String> {
    let wrong = || format!("'{text}' is not an extension: it must be follow-up, clock, cos=DSCP or direct");
    match text.split_once('=') {
        None if text == "follow-up" => change(phase, |stamp| stamp.follow_up = true),
        None if text == "clock" => change(phase, |stamp| stamp.clock_info = true),
        None if text == "direct" => change(phase, |stamp| stamp.direct = true),
        Some(("cos", dscp)) => {
            let dscp = parse_dscp(dscp)?;
            change(phase, |stamp| stamp.cos = Some(dscp));
        }
        _ => return Err(wrong()),
    }
    Ok(())
}

fn ssid(text: &str) -> Result<u16, String> {
    let number = match text.strip_prefix("0x") {
        Some(hex) => u16::from_str_radix(hex, 16),
        None => text.parse(),
    };
    number
        .ok()
        .filter(|number| *number > 0)
        .ok_or_else(|| format!("'{text}' is not a session identifier (1 to 65535)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Kind, Ping};

    fn phase(size: u32) -> Phase {
        Phase { kind: Kind::Ping, ping: Some(Ping { size, ..Ping::default() }), ..Phase::default() }
    }

    #[test]
    fn extensions_and_identifiers() {
        let extended = |text: &str| {
            let mut phase = phase(0);
            extend(text, &mut phase).map(|()| phase.ping.unwrap().stamp.unwrap())
        };
        assert_eq!(extended("cos=ef").map(|all| all.cos), Ok(Some(46)));
        assert_eq!(extended("follow-up").map(|all| all.follow_up), Ok(true));
        assert!(extended("cos").unwrap_err().contains("cos=DSCP") && extended("cos=64").is_err());
        assert_eq!((ssid("7"), ssid("0xffff")), (Ok(7), Ok(65535)));
        assert!(ssid("0").is_err() && ssid("65536").is_err() && ssid("x").is_err());
    }

    #[test]
    fn packets_have_the_size_of_their_extensions_or_padding_beside_it() {
        let sized = |size, keyed, tlv: &[&str]| {
            let mut phase = phase(size);
            tlv.iter().for_each(|text| extend(text, &mut phase).unwrap());
            form(&mut phase, keyed).map(|()| phase.ping.unwrap().size)
        };
        assert_eq!((sized(0, false, &[]), sized(0, true, &[])), (Ok(44), Ok(112)));
        assert_eq!(sized(0, true, &["clock"]), Ok(112 + 8 + 20));
        assert_eq!((sized(14, false, &[]), sized(48, false, &[])), (Ok(14), Ok(48)));
        assert!(
            sized(13, false, &[]).is_err() && sized(45, false, &[]).unwrap_err().contains("14 to 44 bytes")
        );
        assert!(sized(44, false, &["clock"]).unwrap_err().contains("52 bytes, or 56 and more"));
    }
}
