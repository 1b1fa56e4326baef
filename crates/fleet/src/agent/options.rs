//! What an agent may be told to run: a question, and of its options those that neither read nor write files, nor choose
//! addresses or devices of this host, nor take cores. Within the agent's own ceilings.

use crate::message::Target;
use crate::plan::Verb;
use metrics::{format_bits_per_second, format_duration, parse_bytes, parse_duration, parse_rate, real};

/// Most words of a test.
const MAX_WORDS: usize = 48;
/// Longest word, bytes.
const MAX_WORD: usize = 64;

/// What one agent may do to the network at most.
#[derive(Clone, Debug, PartialEq)]
pub struct Ceilings {
    /// Bits per second of a test and direction.
    pub rate: Option<u64>,
    /// Length of a test, start and end included, ns.
    pub time_ns: u64,
    /// Share of the time in which there may be tests other than background ones, 0 to 1.
    pub share: f64,
    /// Names and addresses that tests may go to, networks as `192.0.2.0/24`; empty for all.
    pub targets: Vec<String>,
}

impl Default for Ceilings {
    fn default() -> Self {
        Ceilings { rate: None, time_ns: 600 * metrics::SECOND, share: 1.0, targets: Vec::new() }
    }
}

/// Options that agents take: whether they have a value, the questions that have them, and their names.
const OPTIONS: &[(bool, &[Verb], &[&str])] = {
    use Verb::{Delay, Load, Ping, Tcp, Train};
    &[
        (true, &Verb::ALL, &["-t", "--time", "--dscp", "--ttl"]),
        (true, &[Ping, Delay, Tcp, Train], &["-i", "--interval"]),
        (true, &[Ping, Delay, Tcp, Load], &["-P", "--rate"]),
        (true, &[Ping, Delay, Train], &["-l", "--size"]),
        (true, &[Ping, Tcp, Train], &["-n"]),
        (true, &[Ping, Tcp, Load], &["--connections", "--flow-label"]),
        (true, &[Ping, Tcp], &["--connect-timeout", "--stall-timeout"]),
        (true, &[Delay, Tcp], &["-b"]),
        (true, &[Delay, Train], &["--length"]),
        (true, &[Ping], &["--count", "--warmup", "--send-chunk", "--timeout"]),
        (true, &[Delay], &["--pps", "--spacing", "--flows", "--schedule", "--late"]),
        (true, &[Tcp], &["--bytes", "-C", "--congestion", "--sndbuf", "--rcvbuf", "-w", "--window"]),
        (true, &[Tcp], &["-M", "--mss", "--nodelay", "-O", "--omit"]),
        (true, &[Load], &["--ramp"]),
        (true, &[Train], &["--packets", "--wait", "--repeat"]),
        (false, &Verb::ALL, &["-4", "--ipv4", "-6", "--ipv6"]),
        (false, &[Delay, Tcp, Train], &["-R", "--reverse"]),
        (false, &[Delay, Tcp], &["--bidir"]),
        (false, &[Ping], &["-u", "--udp", "--flood", "--closed-loop", "--poisson", "--no-baseline"]),
        (false, &[Delay], &["--up", "--no-compare"]),
        (false, &[Train], &["--echo"]),
    ]
};

/// The options that agents take of a question: those with a value, and those without.
#[must_use]
pub fn allowed(verb: Verb) -> (Vec<&'static str>, Vec<&'static str>) {
    let of = |with_value: bool| {
        let own = OPTIONS.iter().filter(|(has_value, of, _)| *has_value == with_value && of.contains(&verb));
        own.flat_map(|(.., names)| *names).copied().collect()
    };
    (of(true), of(false))
}

/// The words of a test split into options and their values.
///
/// # Errors
/// One sentence that names the first word that an agent does not take.
pub fn parse(verb: Verb, words: &[String]) -> Result<Vec<(&str, Option<&str>)>, String> {
    if words.len() > MAX_WORDS {
        return Err(format!("{} options are more than the {MAX_WORDS} that an agent takes", words.len()));
    }
    let (values, flags) = allowed(verb);
    let mut options = Vec::new();
    let mut rest = words.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        let (name, joined) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        let value = match (values.contains(&name), flags.contains(&name), joined) {
            (true, _, Some(value)) => Some(value),
            (true, _, None) => Some(rest.next().ok_or_else(|| format!("the option {name} lacks its value"))?),
            (_, true, None) => None,
            _ => {
                let shown = crate::message::bounded(&name.chars().take(MAX_WORD).collect::<String>());
                return Err(format!("an agent takes no option '{shown}' of {}", verb.name()));
            }
        };
        if let Some(value) = value {
            let plain = |c: char| c.is_ascii_alphanumeric() || ".,:%+-_".contains(c);
            let is_short = (1..=MAX_WORD).contains(&value.len());
            if !is_short || value.starts_with('-') || !value.chars().all(plain) {
                return Err(format!(
                    "the value of {name} is 1 to {MAX_WORD} letters, digits and characters of .,:%+-_"
                ));
            }
        }
        options.push((name, value));
    }
    Ok(options)
}

/// What is to be added to a test so that it keeps within the ceilings.
///
/// # Errors
/// One sentence where it cannot: what was asked for, and what the ceiling is.
pub(super) fn limited(verb: Verb, words: &[String], ceilings: &Ceilings) -> Result<Vec<String>, String> {
    let options = parse(verb, words)?;
    let value = |names: &[&str]| {
        options.iter().rev().find(|(name, _)| names.contains(name)).and_then(|(_, value)| *value)
    };
    if let Some(time) = value(&["-t", "--time"])
        && parse_duration(time).map_err(of("--time"))? > ceilings.time_ns
    {
        let most = format_duration(real(ceilings.time_ns));
        return Err(format!("{time} is longer than the {most} that this agent allows"));
    }
    let Some(ceiling) = ceilings.rate else { return Ok(Vec::new()) };
    let most = format_bits_per_second(real(ceiling));
    let count = value(&["-P", "--connections", "--flows"]).map_or(Ok(None), |n| n.parse::<u64>().map(Some));
    let count = count.map_err(|_| "the number of connections is not a whole number".to_owned())?;
    let asked = match verb {
        Verb::Tcp => match value(&["-b", "--rate"]) {
            Some(rate) => parse_rate(rate).map_err(of("--rate"))?.saturating_mul(count.unwrap_or(8)),
            None => {
                let each = (ceiling / count.unwrap_or(8).max(1)).max(8);
                return Ok(vec!["--rate".to_owned(), each.to_string()]);
            }
        },
        Verb::Delay => delay_rate(&value)?.saturating_mul(count.unwrap_or(1)),
        Verb::Ping if options.iter().any(|(name, _)| ["--flood", "--closed-loop"].contains(name)) => u64::MAX,
        Verb::Ping => {
            let rate = value(&["--rate"]).map_or(Ok(10.0), str::parse::<f64>);
            let rate = rate.map_err(|_| "--rate: a number of messages per second is wanted".to_owned())?;
            let size = value(&["-l", "--size"]).map_or(Ok(64), parse_bytes).map_err(of("--size"))?;
            (rate * 8.0 * real(size.saturating_mul(count.unwrap_or(1)))) as u64
        }
        Verb::Load | Verb::Train => u64::MAX,
    };
    match asked {
        u64::MAX => Err(format!("the rate of such a test has no bound, and this agent allows {most}")),
        asked if asked > ceiling => {
            let asked = format_bits_per_second(real(asked));
            Err(format!("{asked} is more than the {most} that this agent allows"))
        }
        _ => Ok(Vec::new()),
    }
}

/// Names the option whose value is wrong.
fn of(option: &str) -> impl Fn(String) -> String {
    move |why| format!("{option}: {why}")
}

/// Bits per second of a flow of datagrams.
fn delay_rate<'a>(value: &impl Fn(&[&str]) -> Option<&'a str>) -> Result<u64, String> {
    if let Some(rate) = value(&["-b", "--rate"]) {
        return parse_rate(rate).map_err(of("--rate"));
    }
    let length = value(&["-l", "--length", "--size"]).map_or(Ok(64 << 10), parse_bytes);
    let length = real(length.map_err(of("--length"))?);
    let each = match (value(&["--pps"]), value(&["--spacing"])) {
        (Some(pps), _) => {
            pps.trim_end_matches("/s").parse::<f64>().map_err(|_| "--pps: a number is wanted".to_owned())?
        }
        (None, Some(spacing)) => 1e9 / real(parse_duration(spacing).map_err(of("--spacing"))?.max(1)),
        // The default is 100 packets a second.
        (None, None) => 100.0,
    };
    Ok((each * 8.0 * length) as u64)
}

/// The words for a target.
///
/// # Errors
/// One sentence where it is no name or address, or not among those that the agent may test.
pub(super) fn target(target: &Target, ceilings: &Ceilings) -> Result<Vec<String>, String> {
    let good = |c: char| c.is_ascii_alphanumeric() || ".:-_%".contains(c);
    let host = target.host.as_str();
    if host.is_empty() || host.len() > 253 || host.starts_with('-') || !host.chars().all(good) {
        return Err("the target is no name and no address".to_owned());
    }
    if !ceilings.targets.is_empty() && !ceilings.targets.iter().any(|allowed| covers(allowed, host)) {
        return Err(format!("{host} is not among the targets that this agent may test"));
    }
    let mut words = vec![host.to_owned()];
    if let Some(port) = target.port {
        words.extend(["--port".to_owned(), port.to_string()]);
    }
    if let Some(protocol) = &target.protocol {
        if protocol.is_empty() || !protocol.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Err("the protocol of the target has no such name".to_owned());
        }
        words.extend(["--protocol".to_owned(), protocol.clone()]);
    }
    Ok(words)
}

/// Whether a name, an address or a network is or has this host.
fn covers(allowed: &str, host: &str) -> bool {
    use std::net::IpAddr;
    let Ok(address) = host.parse::<IpAddr>() else { return allowed.eq_ignore_ascii_case(host) };
    let Some((network, bits)) = allowed.split_once('/') else {
        return allowed.parse::<IpAddr>().is_ok_and(|allowed| allowed == address);
    };
    let as_bits = |address: IpAddr| match address {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)) << 96, 32),
        IpAddr::V6(v6) => (u128::from(v6), 128),
    };
    let (Ok(network), Ok(bits)) = (network.parse::<IpAddr>(), bits.parse::<u32>()) else { return false };
    let ((network, width), (address, of)) = (as_bits(network), as_bits(address));
    width == of && bits <= width && (network ^ address).checked_shr(128 - bits).unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn files_addresses_and_cores_are_not_for_others_to_choose() {
        let all = "--json, --save x, --html x, --status-csv x, --psk-file x, --key-file x, --trace x, --web, \
            --metrics-file x, -B 127.0.0.1, --bind-dev lo, --affinity 0, --workers 9, --busy, --realtime, --store x, \
            --hardware-stamps, 10.0.0.1, --, -t, --protocol iperf3, -p 22, --sweep x";
        for verb in Verb::ALL {
            for bad in all.split(", ") {
                assert!(parse(verb, &words(bad)).is_err(), "{} {bad}", verb.name());
            }
        }
        for bad in ["-t=", "-t=/etc/passwd", "-t --flood", "-t -1", "-t $(reboot)"] {
            assert!(parse(Verb::Ping, &words(bad)).is_err(), "{bad}");
        }
        let good = words("-t 500ms --rate=100 -u");
        assert_eq!(
            parse(Verb::Ping, &good).unwrap(),
            [("-t", Some("500ms")), ("--rate", Some("100")), ("-u", None)]
        );
        assert!(parse(Verb::Tcp, &vec!["-R".to_owned(); 49]).is_err());
    }

    #[test]
    fn ceilings_bound_what_is_asked_for() {
        let ceilings =
            Ceilings { rate: Some(8_000_000), time_ns: 10 * metrics::SECOND, ..Ceilings::default() };
        let limit = |verb, text: &str| limited(verb, &words(text), &ceilings);
        assert_eq!(limit(Verb::Tcp, "-P 2 -t 5s").unwrap(), ["--rate", "4000000"]);
        assert_eq!(limit(Verb::Tcp, "").unwrap(), ["--rate", "1000000"], "eight connections are the default");
        assert_eq!(limit(Verb::Tcp, "-P 2 -b 4M").unwrap(), [""; 0]);
        assert!(limit(Verb::Tcp, "-P 3 -b 4M").is_err());
        assert!(limit(Verb::Tcp, "-t 11s").unwrap_err().contains("longer"));
        assert!(limit(Verb::Ping, "--flood").is_err() && limit(Verb::Ping, "--rate 100").is_ok());
        assert!(limit(Verb::Ping, "--rate 2000 -l 1000").is_err(), "16 Mbit/s");
        assert!(
            limit(Verb::Delay, "--pps 100 -l 1000").is_ok()
                && limit(Verb::Delay, "--pps 2000 -l 1000").is_err()
        );
        assert!(limit(Verb::Load, "").is_err() && limit(Verb::Train, "").is_err());
        assert_eq!(limited(Verb::Load, &[], &Ceilings::default()).unwrap(), [""; 0]);
    }

    #[test]
    fn targets_are_those_allowed() {
        let to = |host: &str| Target { host: host.to_owned(), port: Some(1), protocol: None };
        let any = Ceilings::default();
        assert_eq!(target(&to("a-1.example"), &any).unwrap(), ["a-1.example", "--port", "1"]);
        for bad in ["", "-v", "a b", "$(x)", "a/b", "a;b"] {
            assert!(target(&to(bad), &any).is_err(), "{bad}");
        }
        let few = Ceilings { targets: words("10.1.0.0/16 fd00::/8 lab2 192.0.2.1"), ..Ceilings::default() };
        for (host, good) in [
            ("10.1.255.1", true),
            ("10.2.0.1", false),
            ("fd01::1", true),
            ("fe80::1", false),
            ("LAB2", true),
            ("lab3", false),
            ("192.0.2.1", true),
            ("192.0.2.2", false),
        ] {
            assert_eq!(target(&to(host), &few).is_ok(), good, "{host}");
        }
        assert!(
            covers("0.0.0.0/0", "10.0.0.1")
                && !covers("0.0.0.0/0", "::1")
                && !covers("10.0.0.0/33", "10.0.0.0")
        );
        let odd = Target { protocol: Some("--x".to_owned()), ..to("a") };
        assert!(target(&odd, &any).is_err());
    }
}
