//! Values on the command line.

use crate::protocols;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use common::{Original, Placement};
use console::error::CliError;
use metrics::{Ecn, parse_ecn};
use model::{Kind, Phase, Range};
use std::fmt::Display;
use std::net::SocketAddr;
use std::str::FromStr;

/// A size in bytes; a differentiated services code point (0..63, or its name); a duration in ns,
/// which may be 0; bits per second.
pub(crate) use metrics::{
    parse_bytes as bytes, parse_dscp as dscp, parse_duration as pause, parse_rate as rate,
};

/// One ECN codepoint, or two different ones that are compared; a codepoint other than `off` first.
pub(crate) fn codepoints(text: &str) -> Result<(Ecn, Option<Ecn>), String> {
    let Some((one, other)) = text.split_once(',') else { return Ok((parse_ecn(text)?, None)) };
    match (parse_ecn(one)?, parse_ecn(other)?) {
        (one, other) if one == other => {
            Err(format!("'{text}' names one codepoint twice: give two, such as ect1,off"))
        }
        (Ecn::Off, other) => Ok((other, Some(Ecn::Off))),
        (one, other) => Ok((one, Some(other))),
    }
}

/// Values of an option: the name of each, what the help says of it, and the value.
pub(crate) type Named<T> = &'static [(&'static str, &'static str, T)];

/// One of `all`, by its name.
pub(crate) fn one_of<T: Copy + Send + Sync + 'static>(all: Named<T>) -> impl TypedValueParser<Value = T> {
    let names = all.iter().map(|(name, help, _)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(names).try_map(move |name| {
        let found = all.iter().find(|(known, ..)| *known == name);
        found.map(|(.., value)| *value).ok_or("there is no value of this name")
    })
}

/// A number that `fits`; else a sentence about what is wanted.
pub(crate) fn number<T: FromStr>(
    text: &str,
    fits: impl Fn(&T) -> bool,
    wanted: impl Display,
) -> Result<T, String> {
    text.parse().ok().filter(fits).ok_or_else(|| format!("'{text}' is not {wanted}"))
}

/// A number that may be written in hexadecimal, behind `0x`.
pub(crate) fn hexadecimal_or_decimal(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => text.parse(),
    }
    .ok()
}

/// A local address, a link-local one with or without its interface.
pub(crate) fn source(text: &str) -> Result<SocketAddr, String> {
    let wrong = || format!("'{text}' is not an address such as 192.0.2.1, 2001:db8::1 or fe80::1%eth0");
    let at = runtime::address(text, 0).ok_or_else(wrong)??;
    if at.port() == 0 { Ok(at) } else { Err(wrong()) }
}

/// Networks that may have streams without proving an address: those given, and those of the
/// variable NETCALIPER_ALLOW, separated by commas.
pub(crate) fn open_to(given: &[String]) -> Result<Vec<ipnet::IpNet>, CliError> {
    let variable = std::env::var("NETCALIPER_ALLOW").unwrap_or_default();
    let of_variable = variable.split(',').map(str::trim).filter(|word| !word.is_empty());
    let parse =
        |(word, from): (&str, &str)| network(word).map_err(|why| CliError::usage(format!("{why}{from}")));
    given
        .iter()
        .map(|word| (word.as_str(), ""))
        .chain(of_variable.map(|word| (word, " (NETCALIPER_ALLOW)")))
        .map(parse)
        .collect()
}

/// Addresses that a server listens at: by default all of both families.
pub(crate) fn listen_addresses(texts: &[String], port: u16) -> Result<Vec<SocketAddr>, String> {
    if texts.is_empty() {
        return Ok(vec![SocketAddr::new([0u16; 8].into(), port)]);
    }
    let parse = |text: &String| {
        let at = runtime::address(text, port).unwrap_or_else(|| {
            Err(format!(
                "'{text}' is not an address such as 192.0.2.1, 192.0.2.1:7411, [2001:db8::1]:7411 or fe80::1%eth0"
            ))
        })?;
        runtime::check_scope(at).map(|()| at)
    };
    texts.iter().map(parse).collect()
}

/// An address for browsers. Without a port it needs brackets at least, because it might be the host
/// that is to be measured.
pub(crate) fn web_address(text: &str) -> Result<SocketAddr, String> {
    let usual = if text.is_empty() { "[127.0.0.1]" } else { text };
    page_address(usual, Some(web::PORT)).unwrap_or_else(|| {
        Err(format!(
            "'{text}' is not an address to be seen at such as 7480, 127.0.0.1:7480 or [::]:7480; the usual one is taken by --web= or by \
             --web at the end of the line"
        ))
    })
}

/// An address for scrapers of metrics.
pub(crate) fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    page_address(text, None).unwrap_or_else(|| {
        Err(format!("'{text}' is not an address to be scraped at such as 9411, 127.0.0.1:9411 or [::]:9411"))
    })
}

/// A port of the loopback address, `localhost:PORT`, or an address with its port; in brackets also
/// one at the port `usual`. `None` for other texts.
fn page_address(text: &str, usual: Option<u16>) -> Option<Result<SocketAddr, String>> {
    if let Ok(port) = text.strip_prefix("localhost:").unwrap_or(text).parse() {
        return Some(Ok(SocketAddr::new([127, 0, 0, 1].into(), port)));
    }
    let port = model::Address::parse(text)?.port.or(usual.filter(|_| text.starts_with('[')))?;
    Some(runtime::address(text, port)?.and_then(|at| runtime::check_scope(at).map(|()| at)))
}

/// A size or a range, `low..high` or `[low,high]`.
pub(crate) fn range(text: &str) -> Result<Range, String> {
    range_of(text, bytes, "1024..1Mi or [1024,1Mi]")
}

/// A rate or a range of rates, likewise.
pub(crate) fn rates(text: &str) -> Result<Range, String> {
    range_of(text, rate, "10M..100M or [10M,100M]")
}

fn range_of(text: &str, one: fn(&str) -> Result<u64, String>, such: &str) -> Result<Range, String> {
    let brackets = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    let ends = match brackets {
        Some(inside) => inside.split_once(','),
        None => text.split_once(".."),
    };
    let (low, high) = match ends {
        Some((low, high)) => (one(low)?, one(high)?),
        None if brackets.is_some() => {
            return Err(format!("'{text}' is not a range such as {such}"));
        }
        None => return one(text).map(Range::just),
    };
    if low > high {
        return Err(format!("the range '{text}' falls; the smaller value comes first"));
    }
    Ok(Range { low, high })
}

/// A duration, in ns, above 0.
pub(crate) fn duration(text: &str) -> Result<u64, String> {
    match pause(text)? {
        0 => Err("it must be longer than 0".to_owned()),
        ns => Ok(ns),
    }
}

/// The length of an interval, in ns.
pub(crate) fn interval(text: &str) -> Result<u64, String> {
    pause(text).and_then(|ns| match ns {
        10_000_000..=3_600_000_000_000 => Ok(ns),
        0 => Err("an interval is 10ms to 1h long; -q shows none".to_owned()),
        _ => Err("an interval is 10ms to 1h long".to_owned()),
    })
}

/// A whole number from 1 to `MOST`, which `T` can hold.
pub(crate) fn count<T: TryFrom<u64>, const MOST: u64>(text: &str) -> Result<T, String> {
    let count = match MOST {
        u64::MAX => number(text, |n| *n > 0, "a whole number above 0"),
        _ => number(text, |n| (1..=MOST).contains(n), format_args!("a whole number from 1 to {MOST}")),
    }?;
    T::try_from(count).map_err(|_| format!("'{text}' is too large"))
}

/// A port; 0 lets the kernel choose one.
pub(crate) fn port(text: &str) -> Result<u16, String> {
    number(text, |_| true, "a port (0 to 65535)")
}

/// Cores for workers, separated by commas; `none` leaves them to the scheduler.
pub(crate) fn affinity(text: &str) -> Result<Placement, String> {
    if text == "none" {
        return Ok(Placement::Spread);
    }
    let core =
        |part: &str| part.trim().parse().map_err(|_| format!("'{part}' is not a core's number (nor 'none')"));
    text.split(',').map(core).collect::<Result<_, _>>().map(Placement::Cores)
}

pub(crate) fn ttl(text: &str) -> Result<u8, String> {
    number(text, |n| *n > 0, "a time to live from 1 to 255")
}

/// A rate above 0, in bits per second.
pub(crate) fn limit(text: &str) -> Result<u64, String> {
    match rate(text)? {
        0..8 => Err("the rate must be at least 8 bit/s".to_owned()),
        bits => Ok(bits),
    }
}

/// The length of a part of the demo, in ns.
pub(crate) fn part(text: &str) -> Result<u64, String> {
    match duration(text)? {
        ns @ 100_000_000.. => Ok(ns),
        _ => Err("a part is at least 100ms long".to_owned()),
    }
}

/// A number, or the word that stands for none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NumberOrNone(pub(crate) Option<u64>);

/// A socket buffer in bytes, or `system`: its own choice.
pub(crate) fn socket_buffer(text: &str) -> Result<NumberOrNone, String> {
    let size = if text == "system" { Ok(None) } else { bytes(text).map(Some) };
    size.map(NumberOrNone)
        .map_err(|_| format!("'{text}' is neither 'system' nor a size in bytes such as 64Ki or 4Mi"))
}

/// A rate in bits/s, or 0: as fast as it goes.
pub(crate) fn rate_or_none(text: &str) -> Result<NumberOrNone, String> {
    let rate = if text.trim() == "0" { Ok(None) } else { rate(text).map(Some) };
    rate.map(NumberOrNone)
}

/// A share from 0 to below 1: `0.1%` or `0.001`.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 0.01));
    let share = number.trim().parse::<f64>().ok().map(|number| number * unit);
    share
        .filter(|share| (0.0..1.0).contains(share))
        .ok_or_else(|| format!("'{text}' is not a share from 0 to below 1 such as 0.01% or 0.0001"))
}

/// Ports `low-high`, or one.
pub(crate) fn ports(text: &str) -> Result<(u16, u16), String> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    match (low.parse(), high.parse()) {
        (Ok(low), Ok(high)) if 0 < low && low <= high => Ok((low, high)),
        _ => Err(format!("'{text}' is not a port or a rising range of ports such as 20000-20999")),
    }
}

/// A network, or one address.
pub(crate) fn network(text: &str) -> Result<ipnet::IpNet, String> {
    let single = || text.parse::<std::net::IpAddr>().map(ipnet::IpNet::from);
    text.parse().or_else(|_| single()).map_err(|_| match text.split_once('%') {
        Some((ip, zone)) if ip.parse::<std::net::Ipv6Addr>().is_ok() => {
            let zone = zone.split('/').next().unwrap_or_default();
            format!("'{text}': a network is the same on all interfaces: leave out '%{zone}'")
        }
        _ => format!("'{text}' is not a network such as 192.0.2.0/24 or 2001:db8::/32, nor an address"),
    })
}

/// A whole number, 0 included.
pub(crate) fn whole(text: &str) -> Result<u64, String> {
    number(text, |_| true, "a whole number of 0 or more")
}

pub(crate) fn original(text: &str) -> Result<&'static Original, String> {
    protocols::original(text).ok_or_else(|| {
        let known: Vec<&str> = protocols::originals().map(|original| original.name).collect();
        format!("'{text}' is not one of {}", known.join(", "))
    })
}

/// A legacy protocol to answer, how, and where.
#[derive(Clone, Debug)]
pub(crate) struct Legacy {
    pub(crate) protocol: protocols::Protocol,
    pub(crate) info: &'static common::protocol::Legacy,
    pub(crate) port: u16,
    /// Settings in place of the usual ones.
    pub(crate) settings: Option<Box<Phase>>,
}

impl Legacy {
    /// `None` for the protocol that the server speaks anyway.
    pub(crate) fn of(protocol: protocols::Protocol, port: u16) -> Option<Self> {
        Some(Legacy { protocol, info: protocol.info().legacy.as_ref()?, port, settings: None })
    }

    /// The server of datagrams that goes along where no settings were given, at this port.
    pub(crate) fn companion(&self, port: u16) -> Option<Self> {
        let phase = self.info.beside.filter(|_| self.settings.is_none())?;
        Some(Legacy { settings: Some(Box::new(phase())), port, ..self.clone() })
    }

    /// True if the other one is of the same protocol, over the same transport.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.protocol == other.protocol && self.ports_in_words() == other.ports_in_words()
    }

    /// The settings of its tests.
    pub(crate) fn phase(&self) -> Phase {
        self.settings.as_deref().cloned().unwrap_or_else(self.info.phase)
    }

    /// Its ports, in words.
    pub(crate) fn ports_in_words(&self) -> &'static str {
        let streams = self.settings.as_ref().is_some_and(|phase| phase.kind == Kind::Stream);
        if streams { "UDP" } else { self.info.over }
    }

    /// Clients that are served, in words.
    pub(crate) fn serves(&self) -> &'static str {
        match &self.settings {
            Some(phase) if phase.kind == Kind::Stream => common::protocol::Legacy::LOCAL,
            Some(_) => "everybody, with the settings given",
            None => self.info.serves,
        }
    }
}

/// What `--legacy` asks for.
#[derive(Clone, Debug)]
pub(crate) enum LegacyAsked {
    All,
    One(Legacy),
}

/// `all`, `echo`, `echo:9999`, `stamp`: of the protocols whose servers need no settings, or have
/// usual ones. Words behind the name are settings: `NAME:4444 -pattern:pull`.
pub(crate) fn legacy(text: &str) -> Result<LegacyAsked, String> {
    if text == "all" {
        return Ok(LegacyAsked::All);
    }
    let mut words = text.split_whitespace().map(str::to_owned);
    let first = words.next().unwrap_or_default();
    let (name, at) = first.split_once(':').map_or((first.as_str(), None), |(name, at)| (name, Some(at)));
    let protocol = protocols::parse(name)?;
    let asked = Legacy::of(protocol, at.map_or(Ok(protocol.port()), port)?);
    let own = || format!("{protocol} does not go along: it is what the server speaks anyway");
    let asked = asked.ok_or_else(own)?;
    let words: Vec<String> = words.collect();
    let settings = match &asked.info.settings {
        _ if words.is_empty() => None,
        Some(settings) => Some(Box::new((settings.read)(&words)?)),
        None => return Err(format!("{protocol} takes no settings here: write {protocol}:PORT")),
    };
    Ok(LegacyAsked::One(Legacy { settings, ..asked }))
}

pub(crate) fn label(text: &str) -> Result<u32, String> {
    let label = hexadecimal_or_decimal(text).filter(|n| *n < 1 << 20);
    label.ok_or_else(|| format!("'{text}' is not a flow label (0 to 0xfffff)"))
}

/// A rate per second, above 0.
pub(crate) fn per_second(text: &str) -> Result<f64, String> {
    let rate = text.trim_end_matches("/s").parse().ok().filter(|r: &f64| *r > 0.0 && r.is_finite());
    rate.ok_or_else(|| format!("'{text}' is not a number per second above 0, such as 500"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_go_by_their_names() {
        const NUMBERS: Named<u8> = &[("one", "The first", 1), ("two", "The second", 2)];
        #[derive(clap::Parser)]
        struct Line {
            #[arg(long, default_value = "two", value_parser = one_of(NUMBERS))]
            number: u8,
        }
        let number = |words: &[&str]| {
            let line = <Line as clap::Parser>::try_parse_from(words);
            line.map(|line| line.number).map_err(|error| error.to_string())
        };
        assert_eq!(number(&["x"]), Ok(2));
        assert_eq!(number(&["x", "--number", "one"]), Ok(1));
        let said = number(&["x", "--number", "three"]).unwrap_err();
        assert!(said.contains("[possible values: one, two]"), "{said}");
    }

    #[test]
    fn ranges_sizes_and_ports() {
        assert_eq!(range("64Ki"), Ok(Range::just(65_536)));
        assert_eq!(range("[1024,1048576]"), Ok(Range { low: 1024, high: 1_048_576 }));
        assert_eq!(range("1Ki..1Mi"), range("[1024,1048576]"));
        assert_eq!(rates("10M..1G"), Ok(Range { low: 10_000_000, high: 1_000_000_000 }));
        assert_eq!(rates("5k"), Ok(Range::just(5_000)));
        assert!(["[9,3]", "[9]", "", "9..3", "..9", "9.."].iter().all(|text| range(text).is_err()));
        assert_eq!(ports("20000-20999"), Ok((20_000, 20_999)));
        assert_eq!(ports("7"), Ok((7, 7)));
        assert!(ports("9-3").is_err() && ports("0").is_err() && ports("70000").is_err());
    }

    #[test]
    fn code_points_by_number_and_name() {
        assert_eq!((dscp("46"), dscp("EF"), dscp("af41"), dscp("cs1")), (Ok(46), Ok(46), Ok(34), Ok(8)));
        assert!(dscp("64").is_err() && dscp("high").is_err());
        assert_eq!(label("0xfffff"), Ok(0xfffff));
        assert!(label("0x100000").is_err());
    }

    #[test]
    fn legacy_protocols_by_name_and_port() {
        let one = |text: &str| match legacy(text) {
            Ok(LegacyAsked::One(asked)) => Some((asked.protocol, asked.port)),
            _ => None,
        };
        assert_eq!(one("echo"), Some((protocols::ECHO, 7)));
        assert_eq!(one("echo:9999"), Some((protocols::ECHO, 9999)));
        assert_eq!(one("iperf3"), Some((protocols::IPERF3, 5201)));
        assert!(matches!(legacy("all"), Ok(LegacyAsked::All)));
        assert_eq!(one("ntttcp:6001"), Some((protocols::NTTTCP, 6001)));
        assert!(legacy("native").unwrap_err().contains("speaks anyway"));
        assert!(legacy("echo:x").is_err() && legacy("quote").is_err());
        let settings = |text: &str| match legacy(text) {
            Ok(LegacyAsked::One(asked)) => Ok((asked.port, asked.ports_in_words(), asked.phase().pattern)),
            Ok(LegacyAsked::All) => Err(String::new()),
            Err(why) => Err(why),
        };
        let pull = settings("ctstraffic:4445 -pattern:pull -transfer:1000000");
        assert_eq!(pull, Ok((4445, "TCP", model::Pattern::Pull)));
        let companion = |text: &str| match legacy(text) {
            Ok(LegacyAsked::One(asked)) => asked.companion(7).map(|one| (one.port, one.ports_in_words())),
            _ => None,
        };
        assert_eq!(companion("ctstraffic"), Some((7, "UDP")), "a stream of the usual settings");
        assert_eq!(companion("ctstraffic -pattern:pull").or(companion("echo")), None);
        let media = "ctstraffic -protocol:udp -bitspersecond:1000000 -framerate:30 -streamlength:3";
        assert_eq!(settings(media), Ok((4444, "UDP", model::Pattern::Pull)));
        for (text, why) in [
            ("ctstraffic -connections:3", "'-connections:3' is none of ctsTraffic's settings of both ends"),
            ("ctstraffic -pattern:foo", "foo"),
            ("echo -x", "echo takes no settings here: write echo:PORT"),
        ] {
            assert!(settings(text).unwrap_err().contains(why), "{text}");
        }
    }

    #[test]
    fn counts_say_what_they_accept() {
        assert_eq!(count::<u32, 1_000_000>("8"), Ok(8));
        for bad in ["0", "-1", "x", "1000001", "1.5", ""] {
            let why = count::<u32, 1_000_000>(bad).unwrap_err();
            assert_eq!(why, format!("'{bad}' is not a whole number from 1 to 1000000"));
        }
        assert_eq!(count::<u64, { u64::MAX }>("0").unwrap_err(), "'0' is not a whole number above 0");
        assert!(interval("1ms").is_err() && interval("2h").is_err() && interval("1s").is_ok());
        assert!(part("5ms").is_err() && limit("0").is_err() && ttl("0").is_err() && port("65536").is_err());
    }

    #[test]
    fn durations_and_rates() {
        assert_eq!(duration("250ms"), Ok(250_000_000));
        assert!(duration("0").is_err());
        assert_eq!(pause("0"), Ok(0));
        assert_eq!(per_second("500/s"), Ok(500.0));
        assert!(network("10.0.0.0/8").is_ok() && network("::1").is_ok() && network("10.0.0.0/33").is_err());
        assert_eq!(whole("x").unwrap_err(), "'x' is not a whole number of 0 or more");
        assert!(per_second("0").is_err() && per_second("-3").is_err() && per_second("nan").is_err());
    }

    #[test]
    fn listening_addresses() {
        let parse =
            |texts: &[&str]| listen_addresses(&texts.iter().map(ToString::to_string).collect::<Vec<_>>(), 7);
        assert_eq!(parse(&[]).unwrap(), ["[::]:7".parse().unwrap()]);
        assert_eq!(
            parse(&["127.0.0.1", "::1", "[::1]:9", "127.0.0.1:9"]).unwrap(),
            [
                "127.0.0.1:7".parse().unwrap(),
                "[::1]:7".parse().unwrap(),
                "[::1]:9".parse().unwrap(),
                "127.0.0.1:9".parse().unwrap()
            ]
        );
        assert!(parse(&["somewhere"]).is_err());
        let error = parse(&["fe80::1"]).unwrap_err();
        assert!(error.starts_with("a link-local address needs its interface: fe80::1%"), "{error}");
        let scopes =
            ["fe80::1%1", "[fe80::1%1]", "[fe80::1%1]:9"].map(|text| parse(&[text]).unwrap()[0].to_string());
        assert_eq!(scopes, ["[fe80::1%1]:7", "[fe80::1%1]:7", "[fe80::1%1]:9"]);
        assert!(parse(&["fe80::1%nosuch0"]).unwrap_err().contains("no interface 'nosuch0'"));
    }
    #[test]
    fn pages_are_at_a_port_or_an_address() {
        let at = |found: Result<SocketAddr, String>| found.unwrap().to_string();
        for (text, expected) in [
            ("8080", "127.0.0.1:8080"),
            ("localhost:0", "127.0.0.1:0"),
            ("[::1]:9", "[::1]:9"),
            ("192.0.2.1:80", "192.0.2.1:80"),
            ("[fe80::1%1]:80", "[fe80::1%1]:80"),
        ] {
            assert_eq!([at(web_address(text)), at(metrics_address(text))], [expected; 2]);
        }
        assert_eq!(
            ["", "[::1]", "[fe80::1%1]"].map(|text| at(web_address(text))),
            ["127.0.0.1:7480", "[::1]:7480", "[fe80::1%1]:7480"]
        );
        for wrong in ["lab2", "192.0.2.1", "::1", "fe80::1%1", "70000", "1:2:3"] {
            assert!(web_address(wrong).unwrap_err().contains("not an address to be seen at"), "{wrong}");
            assert!(metrics_address(wrong).unwrap_err().contains("not an address to be scraped"), "{wrong}");
        }
        assert!(metrics_address("[::1]").is_err());
        for parse in [web_address, metrics_address] {
            assert!(parse("[fe80::1]:80").unwrap_err().starts_with("a link-local address needs"));
            assert!(parse("[fe80::1%nosuch0]:80").unwrap_err().contains("no interface 'nosuch0'"));
        }
        let why = network("fe80::%eth0/64").unwrap_err();
        assert!(why.ends_with("leave out '%eth0'"), "{why}");
    }
}
