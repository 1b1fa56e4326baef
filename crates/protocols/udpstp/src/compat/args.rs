//! The command line: single letters as getopt reads them.

use crate::Settings;
use common::capacity::{Algorithm, LAST};
use compat::options::{Letters, Opt, Request, Stop, Value, Words, find, request};
use std::str::FromStr;

/// Form of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// Lines.
    #[default]
    Text,
    /// JSON in one line.
    Json,
    /// The same without its head and the settings.
    Brief,
    /// JSON in lines.
    Formatted,
}

/// A command line, understood.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spec {
    /// A client, and whether it sends; a server without.
    pub(crate) upstream: Option<bool>,
    /// Servers of a client, or the addresses of a server.
    pub(crate) hosts: Vec<String>,
    pub(crate) v4: bool,
    pub(crate) v6: bool,
    pub(crate) port: u16,
    /// Connections, at least and at most.
    pub(crate) connections: Option<(u8, u8)>,
    pub(crate) verbose: bool,
    pub(crate) summary_only: bool,
    pub(crate) form: Form,
    pub(crate) loss_ratio: bool,
    pub(crate) once: bool,
    pub(crate) daemon: bool,
    pub(crate) table: bool,
    pub(crate) key: Option<String>,
    pub(crate) key_file: Option<String>,
    pub(crate) buffer: u32,
    /// File for the events of the run.
    pub(crate) save: Option<String>,
    pub(crate) settings: Settings,
    /// Options that are accepted and without effect.
    pub(crate) ignored: Vec<String>,
}

/// Options as they were given; a later one counts.
#[derive(Default)]
struct Raw {
    spec: Spec,
    test_s: Option<u16>,
    row: Option<(u16, bool)>,
    class: Option<u8>,
    bandwidth: u32,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            upstream: None,
            hosts: Vec::new(),
            v4: false,
            v6: false,
            port: crate::PORT,
            connections: None,
            verbose: false,
            summary_only: false,
            form: Form::Text,
            loss_ratio: false,
            once: false,
            daemon: false,
            table: false,
            key: None,
            key_file: None,
            buffer: 1_024_000,
            save: None,
            settings: Settings::default(),
            ignored: Vec::new(),
        }
    }
}

/// A number in a range, in the original's words.
fn number<T>(value: &Value<'_>, low: T, high: T) -> Result<T, String>
where
    T: FromStr + PartialOrd + std::fmt::Display,
{
    let text = value.text();
    let found = text.parse().ok().filter(|n| (&low..=&high).contains(&n));
    found.ok_or_else(|| format!("ERROR: Parameter <{text}> out-of-range ({low}-{high})"))
}

fn octet(value: &Value<'_>) -> Result<u8, String> {
    let text = value.text();
    let found = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u8::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    found.ok_or_else(|| format!("ERROR: Parameter <{text}> out-of-range (0-255)"))
}

/// `min` or `min-max` connections.
fn connections(text: &str) -> Option<(u8, u8)> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let (low, high) = (low.parse().ok()?, high.parse().ok()?);
    (1..=crate::codec::MOST_CONNECTIONS).contains(&high).then_some(())?;
    (1..=high).contains(&low).then_some((low, high))
}

const LETTERS: &[Opt<Raw>] = ::compat::options! { Raw:
    "u" Flag |o, _| o.spec.upstream = Some(true);
    "d" Flag |o, _| o.spec.upstream = Some(false);
    "4" Flag |o, _| o.spec.v4 = true;
    "6" Flag |o, _| o.spec.v6 = true;
    "C" Value |o, v| {
        let text = v.text();
        let wrong = || format!("ERROR: Parameter <{text}> out-of-range (1-24)");
        o.spec.connections = Some(connections(text).ok_or_else(wrong)?);
    };
    "x" Flag |o, _| o.spec.daemon = true;
    "1" Flag |o, _| o.spec.once = true;
    "e" Flag |o, v| o.spec.ignored.push(format!("-{}", v.name));
    "v" Flag |o, _| o.spec.verbose = true;
    "s" Flag |o, _| o.spec.summary_only = true;
    "f" Value |o, v| {
        o.spec.form = match v.text() {
            "json" => Form::Json,
            "jsonb" => Form::Brief,
            "jsonf" => Form::Formatted,
            text => return Err(format!("ERROR: '{text}' is not a valid output format").into()),
        };
    };
    "j" Flag |o, _| o.spec.settings.test.jumbo = false;
    "T" Flag |o, _| o.spec.settings.test.traditional = true;
    "D" Flag |o, v| o.spec.ignored.push(format!("-{}", v.name));
    "X" Flag |o, _| o.spec.settings.random = true;
    "S" Flag |o, _| o.spec.table = true;
    "O" Value |o, v| o.spec.ignored.push(format!("-O {}", v.text()));
    "B" Value |o, v| o.bandwidth = number(v, 1, 32_767)?;
    "r" Flag |o, _| o.spec.loss_ratio = true;
    "i" Value |o, v| {
        let text = v.text();
        let count = text.strip_prefix('-').unwrap_or(text);
        o.spec.settings.test.first_mode = number(&Value { text: Some(count), ..*v }, 1, 3_600)?;
        o.spec.settings.test.suppressed = if count == text { 0 } else { o.spec.settings.test.first_mode };
    };
    "o" Flag |o, _| o.spec.settings.test.search.one_way = true;
    "m" Value |o, v| o.class = Some(octet(v)?);
    "R" Flag |o, _| o.spec.settings.test.search.loss_only = false;
    "a" Value |o, v| {
        let key = v.owned();
        if !(1..=64).contains(&key.len()) {
            return Err("ERROR: Authentication key exceeds 64 characters".into());
        }
        o.spec.key = Some(key);
    };
    "y" Value |o, v| o.spec.settings.key = number(v, 0, 255)?;
    "K" Value |o, v| o.spec.key_file = Some(v.owned());
    "G" Value |o, v| o.spec.ignored.push(format!("-G {}", v.text()));
    "n" Flag |o, v| o.spec.ignored.push(format!("-{}", v.name));
    "I" Value |o, v| {
        let text = v.text();
        let row = text.strip_prefix('@').unwrap_or(text);
        o.row = Some((number(&Value { text: Some(row), ..*v }, 0, LAST)?, row != text));
    };
    "t" Value |o, v| o.test_s = Some(number(v, 5, 3_600)?);
    "P" Value |o, v| o.spec.settings.test.sub_interval_ms = number(v, 100, 10_000)?;
    "p" Value |o, v| o.spec.port = number(v, 0, 65_535)?;
    "A" Value |o, v| {
        o.spec.settings.test.search.algorithm = match v.text() {
            "B" | "b" => Algorithm::B,
            "C" | "c" => Algorithm::C,
            text => return Err(format!("ERROR: '{text}' is not a valid rate adjustment algorithm").into()),
        };
    };
    "b" Value |o, v| o.spec.buffer = number(v, 0, 16_777_216)?;
    "L" Value |o, v| o.spec.settings.test.search.low_ms = number(v, 1, 10_000)?;
    "U" Value |o, v| o.spec.settings.test.search.upper_ms = number(v, 1, 10_000)?;
    "F" Value |o, v| o.spec.settings.test.trial_ms = number(v, 5, 250)?;
    "c" Value |o, v| o.spec.settings.test.search.bad_reports = number(v, 1, 65_535)?;
    "h" Value |o, v| o.spec.settings.test.search.fast_rows = number(v, 1, 255)?;
    "q" Value |o, v| o.spec.settings.test.search.sequence_errors = number(v, 0, 65_535)?;
    "E" Value |o, v| o.spec.ignored.push(format!("-E {}", v.text()));
    "M" Flag |o, v| o.spec.ignored.push(format!("-{}", v.name));
    "l" Value |o, v| o.spec.ignored.push(format!("-l {}", v.text()));
    "k" Value |o, v| o.spec.ignored.push(format!("-k {}", v.text()));
    "Z" Value |o, v| o.spec.settings.test.search.ce_share = number(v, 1, 255)?;
};

/// Reads a command line, without the program's name.
///
/// # Errors
/// The error is one line, as the original's.
pub(crate) fn read(arguments: &[String]) -> Result<Request<Spec>, String> {
    let mut options = Raw::default();
    let read = options.read(arguments.iter());
    request(read.and_then(|()| Ok(options.decide()?)))
}

impl Raw {
    fn read(&mut self, mut words: Words<'_>) -> Result<(), Stop> {
        let letters = Letters {
            find: &|letter| find(LETTERS, letter),
            unknown: &|letter| format!("udpst: invalid option -- '{letter}'"),
            missing: &|letter| format!("udpst: option requires an argument -- '{letter}'"),
        };
        while let Some(word) = words.next() {
            if matches!(word.as_str(), "--help" | "-?") {
                return Err(Stop::Help);
            }
            if let Some(long) = word.strip_prefix("--save") {
                let text = match long.strip_prefix('=') {
                    Some(glued) => Some(glued.to_owned()),
                    None => words.next().cloned(),
                };
                self.spec.save = Some(text.ok_or("--save takes the name of a file")?);
            } else if let Some(word) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
                letters.read(word, &mut words, &mut |option, value| (option.set)(self, &value))?;
            } else {
                self.spec.hosts.push(word.clone());
            }
        }
        Ok(())
    }

    fn decide(self) -> Result<Spec, String> {
        let Raw { mut spec, test_s, row, class, bandwidth } = self;
        let client = spec.upstream.is_some();
        let usual = if client { Settings::default() } else { Settings::of_server() };
        let settings = &mut spec.settings;
        settings.test_s = test_s.unwrap_or(usual.test_s);
        settings.traffic_class = class.unwrap_or(usual.traffic_class);
        settings.test.row = row.map(|(row, _)| row).or(usual.test.row);
        settings.test.start = row.is_some_and(|(_, start)| start);
        settings.bandwidth = bandwidth;
        if client && settings.test.start && settings.test.row == Some(0) {
            (settings.test.row, settings.test.start) = (None, false);
        }
        if !client {
            return Ok(spec);
        }
        if spec.hosts.is_empty() && !spec.table {
            return Err("ERROR: Server hostname/IP address required when client".to_owned());
        }
        let search = &settings.test.search;
        if search.low_ms > search.upper_ms {
            return Err("ERROR: Low delay variation threshold > upper delay variation threshold".to_owned());
        }
        let (sub, trial) = (settings.test.sub_interval_ms, settings.test.trial_ms);
        if sub < 2 * trial || sub % trial != 0 {
            return Err(format!(
                "ERROR: Sub-interval period ({sub}) must be a multiple of the trial interval ({trial}), and two of them at least"
            ));
        }
        if u32::from(settings.test.first_mode) >= u32::from(settings.test_s) * 1_000 / u32::from(sub)
            && settings.test.first_mode > 0
        {
            return Err(
                "ERROR: Bimodal sub-interval count must be below the number of sub-intervals".to_owned()
            );
        }
        let servers = u8::try_from(spec.hosts.len()).unwrap_or(u8::MAX);
        let (least, most) = spec.connections.unwrap_or((servers, servers));
        let most = most.max(servers.min(crate::codec::MOST_CONNECTIONS)).max(1);
        spec.connections = Some((least.max(1), most));
        settings.least = least.max(1);
        // All connections together have the stated bandwidth.
        settings.bandwidth = bandwidth.div_ceil(u32::from(most));
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(line: &str) -> Result<Spec, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match read(&words) {
            Ok(Request::Run(spec)) => Ok(spec),
            Ok(_) => Err("a page".to_owned()),
            Err(text) => Err(text),
        }
    }

    #[test]
    fn letters_are_read_as_getopt_reads_them() {
        let one = spec("-dv -t5 -C 2-4 -I@20 -i -3 -A C -m 0xb8 192.0.2.1 192.0.2.2:25000").unwrap();
        assert_eq!((one.upstream, one.verbose, one.connections), (Some(false), true, Some((2, 4))));
        assert_eq!(one.hosts, ["192.0.2.1", "192.0.2.2:25000"]);
        let (s, test) = (one.settings, one.settings.test);
        assert_eq!(
            (s.test_s, test.row, test.start, test.suppressed, test.first_mode),
            (5, Some(20), true, 3, 3)
        );
        assert_eq!((test.search.algorithm, s.traffic_class, s.least), (Algorithm::C, 184, 2));
        let server = spec("-1 -B 900 -j -T").unwrap();
        assert_eq!((server.upstream, server.once, server.settings.bandwidth), (None, true, 900));
        assert_eq!(server.settings.test_s, 3_600);
        assert_eq!(spec("-u -B 100 -C 3 a").unwrap().settings.bandwidth, 34);
        assert_eq!(spec("-u -I@0 a").unwrap().settings.test.row, None);
    }

    /// As OB-UDPST 9.0.0 prints them.
    #[test]
    fn what_cannot_be_is_refused_in_its_words() {
        for (line, text) in [
            ("-d -t 4 a", "ERROR: Parameter <4> out-of-range (5-3600)"),
            ("-d -L 100 -U 50 a", "ERROR: Low delay variation threshold > upper delay variation threshold"),
            ("-Q", "udpst: invalid option -- 'Q'"),
        ] {
            assert_eq!(spec(line), Err(text.to_owned()));
        }
        assert!(spec("-d").is_err() && spec("-d -C 25 a").is_err() && spec("-d -P 175 a").is_err());
    }
}
