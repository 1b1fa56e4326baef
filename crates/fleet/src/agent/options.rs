//! Orders that an agent obeys: a question within the agent's own ceilings, with options that
//! neither read nor write files, nor choose addresses or devices of this host, nor take cores.

use crate::message::Target;
use crate::plan::{CostClass, Verb};
use metrics::{format_bits_per_second, format_duration, real};
use model::{Address, Cost};

/// Most words of a test.
const MAX_WORDS: usize = 48;
/// Lowest rate that a test's `--at-most` takes, bits/s.
const LEAST_RATE: u64 = 8;
/// Longest word, bytes.
const MAX_WORD: usize = 64;

/// Ceilings of the network load of one agent, or of one key at an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Ceilings {
    /// Bits per second and direction, of all tests together.
    pub rate: Option<u64>,
    /// Length of a test, start and end included, ns.
    pub time_ns: u64,
    /// Share of the time in which there may be tests, 0 to 1.
    pub share: f64,
    /// Names and addresses that tests may go to, networks as `192.0.2.0/24`; empty for all.
    pub targets: Vec<String>,
    /// Verbs that tests may use (`tcp`, `ping`, …); `None` is all.
    pub verbs: Option<Vec<&'static str>>,
    /// A test may have a host to itself.
    pub exclusive: bool,
}

impl Default for Ceilings {
    fn default() -> Self {
        Ceilings {
            rate: None,
            time_ns: 600 * metrics::SECOND,
            share: 1.0,
            targets: Vec::new(),
            verbs: None,
            exclusive: true,
        }
    }
}

impl Ceilings {
    /// None.
    #[must_use]
    pub fn none() -> Ceilings {
        Ceilings { time_ns: u64::MAX, ..Ceilings::default() }
    }
}

/// The source of orders: the name of a key and its rights. Over a remote shell and a NATS server,
/// which know no keys of ours, the name is empty and the rights are all.
#[derive(Clone, Debug, PartialEq)]
pub struct Holder {
    /// The name; of the one key without a name, empty.
    pub name: String,
    /// The rights.
    pub rights: Ceilings,
}

impl Default for Holder {
    fn default() -> Self {
        Holder { name: String::new(), rights: Ceilings::none() }
    }
}

/// The meaning of a test's words, which plans and agents read alike.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// Class of the test's load on others.
    pub class: CostClass,
    /// Cost of the test.
    pub cost: Cost,
    /// Concurrent connections.
    pub connections: u32,
}

/// Reads the words of a test; the error is one sentence.
pub type WordReader = fn(Verb, &[String]) -> Result<Demand, String>;

/// Options that agents take: whether they have a value, the questions that have them, and their
/// names.
const OPTIONS: &[(bool, &[Verb], &[&str])] = {
    use Verb::{Capacity, Delay, Load, Ping, Tcp, Train};
    &[
        (true, &Verb::ALL, &["-t", "--time", "--dscp", "--ttl"]),
        (true, &[Ping, Delay, Tcp, Train, Capacity], &["-i", "--interval"]),
        (true, &[Ping, Delay, Tcp, Load, Capacity], &["-P", "--rate"]),
        (true, &[Ping, Delay, Train], &["-l", "--size"]),
        (true, &[Ping, Tcp, Train], &["-n"]),
        (true, &[Ping, Tcp, Load], &["--connections", "--flow-label"]),
        (true, &[Capacity], &["--connections", "--sub-interval", "--feedback", "--first-mode", "--hold"]),
        (true, &[Capacity], &["--algorithm", "--low", "--upper", "--missing", "--fast-step", "--slow-after"]),
        (true, &[Capacity], &["--row", "--start-row", "--overhead"]),
        (true, &[Ping, Tcp], &["--connect-timeout", "--stall-timeout"]),
        (true, &[Delay, Tcp, Capacity], &["-b"]),
        (true, &[Delay, Train], &["--length"]),
        (true, &[Ping], &["--count", "--warmup", "--send-chunk", "--timeout"]),
        (true, &[Delay], &["--pps", "--spacing", "--flows", "--schedule", "--late"]),
        (true, &[Tcp], &["--bytes", "-C", "--congestion", "--sndbuf", "--rcvbuf", "-w", "--window"]),
        (true, &[Tcp], &["-M", "--mss", "--nodelay", "-O", "--omit"]),
        (true, &[Load], &["--ramp"]),
        (true, &[Train], &["--packets", "--wait", "--repeat"]),
        (false, &Verb::ALL, &["-4", "--ipv4", "-6", "--ipv6"]),
        (false, &[Delay, Tcp, Train, Capacity], &["-R", "--reverse"]),
        (false, &[Delay, Tcp], &["--bidir"]),
        (false, &[Ping], &["-u", "--udp", "--flood", "--closed-loop", "--poisson", "--no-baseline"]),
        (false, &[Delay], &["--up", "--no-compare"]),
        (false, &[Train], &["--echo"]),
        (false, &[Capacity], &["--one-way", "--strict-order", "--no-jumbo", "--traditional", "--random"]),
    ]
};

/// Options of `verb` that agents accept in orders: first options with a value, then flags.
#[must_use]
pub fn allowed(verb: Verb) -> (Vec<&'static str>, Vec<&'static str>) {
    let names = |with_value: bool| {
        let rows =
            OPTIONS.iter().filter(|(has_value, verbs, _)| *has_value == with_value && verbs.contains(&verb));
        rows.flat_map(|(.., names)| *names).copied().collect()
    };
    (names(true), names(false))
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
                if !shown.starts_with('-') {
                    return Err(format!(
                        "a test of {} has no word '{shown}': leave the host out, the plan names both ends",
                        verb.name()
                    ));
                }
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

/// The meaning of a test within the ceilings, and further words with which the test keeps them.
///
/// # Errors
/// One sentence with the request and the ceiling, if the test cannot be limited.
pub fn limited(
    verb: Verb,
    words: &[String],
    ceilings: &Ceilings,
    read: WordReader,
) -> Result<(Vec<String>, Demand), String> {
    parse(verb, words)?;
    let parts: &[&str] = if verb == Verb::Load { &["tcp", "ping", "delay"] } else { &[verb.name()] };
    let verbs = ceilings.verbs.as_deref();
    if let Some(part) = parts.iter().find(|part| verbs.is_some_and(|verbs| !verbs.contains(*part))) {
        return Err(format!("this key is not for {part}"));
    }
    let asked = read(verb, words)?;
    if let Some(length) = asked.cost.length_ns.filter(|length| *length > ceilings.time_ns) {
        let [length, most] = [length, ceilings.time_ns].map(|ns| format_duration(real(ns)));
        return Err(format!("{length} is longer than the {most} that this agent allows"));
    }
    let Some(ceiling) = ceilings.rate else { return Ok((Vec::new(), asked)) };
    let most = format_bits_per_second(real(ceiling));
    // The test's own engine keeps the share, whatever its words mean.
    let share = |bps: u64| ["--at-most".to_owned(), bps.max(LEAST_RATE).to_string()];
    match asked.cost.rate_bps {
        Some(bps) if bps <= ceiling => Ok((share(bps).into(), asked)),
        Some(bps) => {
            let bps = format_bits_per_second(real(bps));
            Err(format!("{bps} is more than the {most} that this agent allows"))
        }
        None if matches!(verb, Verb::Tcp | Verb::Capacity) => {
            let each = ceiling / u64::from(asked.connections.max(1));
            let more = vec!["--rate".to_owned(), each.to_string()];
            let asked = read(verb, &[words, more.as_slice()].concat())?;
            let is_bounded = asked.cost.rate_bps.is_some_and(|bps| bps <= ceiling);
            let more = [&more[..], &share(asked.cost.rate_bps.unwrap_or(ceiling))].concat();
            if is_bounded { Ok((more, asked)) } else { Err(no_bound(&most)) }
        }
        None => Err(no_bound(&most)),
    }
}

fn no_bound(most: &str) -> String {
    format!("the rate of such a test has no bound, and this agent allows {most}")
}

/// The words for a target.
///
/// # Errors
/// One sentence, if it is no name or address, or the agent may not test it.
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

/// True of a name, an address or a network that is or contains this host.
fn covers(allowed: &str, host: &str) -> bool {
    use std::net::IpAddr;
    let Some(Address { ip: address, zone, port: None }) = Address::parse(host) else {
        return allowed.eq_ignore_ascii_case(host);
    };
    let Some((network, bits)) = allowed.split_once('/') else {
        let allowed = Address::parse(allowed);
        return allowed.is_some_and(|own| own.ip == address && (own.zone.is_none() || own.zone == zone));
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
        for (allowed, host, good) in [
            ("fe80::/10", "fe80::1%eth0", true),
            ("fe80::1", "fe80::1%eth0", true),
            ("fe80::1%eth0", "fe80::1%eth0", true),
            ("fe80::1%eth0", "fe80::1%eth1", false),
            ("10.0.0.0/8", "10.0.0.1:22", false),
        ] {
            assert_eq!(covers(allowed, host), good, "{allowed} {host}");
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
