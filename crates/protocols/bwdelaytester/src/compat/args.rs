//! The command line: single letters as getopt reads them, and long options that the original does
//! not have.

use crate::{Settings, Stairs};
use compat::options::{Letters, Opt, Request, Stop, Takes, Value, Words, find, request};
use metrics::{Clamped, SECOND};
use model::{Kind, Phase, Probe, Range, SocketSettings, Waiting};
use std::path::PathBuf;
use std::str::FromStr;

/// A command line, understood.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spec {
    /// The server that a client sends to; a server has none.
    pub(crate) host: Option<String>,
    /// UDP payload, bytes.
    pub(crate) size: u32,
    /// Time from one datagram to the next, or at the top of a sweep, ps.
    pub(crate) gap_ps: u64,
    /// Datagrams that the socket has no room for are given up.
    pub(crate) give_up: bool,
    /// Of a server: latency of the fastest datagram, µs.
    pub(crate) compensation_us: i64,
    /// Another port than the original's.
    pub(crate) port: Option<u16>,
    pub(crate) device: Option<String>,
    pub(crate) unsynchronised: bool,
    pub(crate) sweep: bool,
    /// The original's arithmetic.
    pub(crate) as_original: bool,
    /// File to keep the run in, for `netcaliper report`.
    pub(crate) save: Option<PathBuf>,
}

/// Steps of a sweep, and how long each lasts: one second by its name, two by its arithmetic.
const STAIRS: Stairs = Stairs { steps: 100, step_ns: 2 * SECOND };
/// Length of a line's stretch of time, ns.
pub(super) const SLOT: u64 = SECOND / 10;

impl Spec {
    pub(crate) fn phase(&self) -> Phase {
        let phase = Phase {
            kind: Kind::Delay,
            connections: 1,
            iterations: Some(1),
            buffer: Range::just(64 * 1024),
            sockets: SocketSettings { rcvbuf: Some(4 << 20), ..SocketSettings::default() },
            ..Phase::default()
        };
        if self.host.is_none() {
            return Phase { duration_ns: None, interval_ns: SLOT, probe: Some(Probe::default()), ..phase };
        }
        let bits = u128::from(self.size) * 8 * 1_000_000_000_000;
        let settings = Settings {
            unsynchronised: self.unsynchronised,
            stairs: self.sweep.then_some(STAIRS),
            give_up: self.give_up,
        };
        Phase {
            rate: Some(u64::try_from(bits / u128::from(self.gap_ps.max(1))).unwrap_or(u64::MAX)),
            duration_ns: self.sweep.then(|| STAIRS.length_ns() + SECOND),
            probe: Some(Probe { size: self.size, waiting: Waiting::Hybrid, ..Probe::default() }),
            extra: settings.extra(),
            ..phase
        }
    }
}

/// The given options; a later one counts.
#[derive(Default)]
struct RawOptions {
    spec: Spec,
    gap_ns: u64,
    mbit: u64,
    size: u64,
    compensation: i64,
}

const LETTERS: &[Opt<RawOptions>] = ::compat::options! { RawOptions:
    "c" Value |o, v| o.spec.host = Some(v.owned());
    "d" Value |o, v| o.gap_ns = number(v, "a time in ns")?;
    "b" Value |o, v| o.mbit = number(v, "a rate in Mbit/s")?;
    "p" Value |o, v| o.size = number(v, "a size in bytes")?;
    "l" Value |o, v| o.compensation = number::<i32>(v, "a latency in ms")?.into();
    "i" Value |o, v| o.spec.device = Some(v.owned());
    "n" Flag |o, _| o.spec.give_up = true;
    "s" Flag |o, _| o.spec.sweep = true;
    "a" Flag |o, _| o.spec.unsynchronised = true;
};

const LONG: &[Opt<RawOptions>] = ::compat::options! { RawOptions:
    "as-original" Flag |o, _| o.spec.as_original = true;
    "save" Value |o, v| o.spec.save = Some(v.text.ok_or("--save takes the name of a file")?.into());
    "port" Value |o, v| {
        let wrong = |_| format!("'{}' is not a port (0 to 65535)", v.text());
        o.spec.port = Some(v.text().parse().map_err(wrong)?);
    };
};

fn number<T: FromStr>(value: &Value<'_>, what: &str) -> Result<T, String> {
    let (name, text) = (value.name, value.text());
    text.parse().map_err(|_| format!("'-{name} {text}': {what}, a whole number, was expected"))
}

/// Reads a command line, without the program's name.
///
/// # Errors
/// The error is one sentence; the usage belongs behind it.
pub(crate) fn read(arguments: &[String]) -> Result<Request<Spec>, String> {
    let mut options = RawOptions::default();
    let read = options.read(arguments.iter());
    request(read.and_then(|()| Ok(options.decide()?)))
}

impl RawOptions {
    fn read(&mut self, mut words: Words<'_>) -> Result<(), Stop> {
        let letters = Letters {
            find: &|letter| find(LETTERS, letter),
            unknown: &|letter| format!("invalid option -- '{letter}'"),
            missing: &|letter| format!("option requires an argument -- '{letter}'"),
        };
        while let Some(word) = words.next() {
            if word == "--help" {
                return Err(Stop::Help);
            }
            if let Some(long) = word.strip_prefix("--") {
                let (name, glued) = long.split_once('=').map_or((long, None), |(name, v)| (name, Some(v)));
                let option =
                    find(LONG, name).filter(|option| option.takes == Takes::Value || glued.is_none());
                let option = option.ok_or_else(|| format!("unknown option --{long}"))?;
                let text = match option.takes {
                    Takes::Value => glued.or_else(|| words.next().map(String::as_str)),
                    _ => None,
                };
                (option.set)(self, &Value { name, text })?;
            } else if let Some(word) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
                letters.read(word, &mut words, &mut |option, value| (option.set)(self, &value))?;
            } else {
                return Err(format!("'{word}' is not an option").into());
            }
        }
        Ok(())
    }

    fn decide(self) -> Result<Spec, String> {
        let RawOptions { mut spec, gap_ns, mbit, size, compensation } = self;
        if compensation < 0 && !spec.as_original {
            return Err("-l takes a latency of 0 ms and more".to_owned());
        }
        if spec.host.is_none() {
            // The original documents milliseconds and takes microseconds.
            spec.compensation_us = compensation * if spec.as_original { 1 } else { 1_000 };
            return Ok(spec);
        }
        let size = u32::try_from(size).ok().filter(|size| (16..=2_000).contains(size));
        let size = size.ok_or("Unsupported packet size: -p takes 16 to 2000 bytes")?;
        let gap_ps = match (gap_ns, mbit) {
            (0, 0) => return Err("Supply either delay or target bandwidth: -d or -b".to_owned()),
            (0, mbit) => gap_of(mbit, size, spec.as_original),
            (ns, 0) => ns.checked_mul(1_000),
            _ => return Err("Supply either delay or target bandwidth, but not both".to_owned()),
        };
        // 16 bytes in 16 s are the least rate that there is, 8 bit/s; a sweep begins with a
        // hundredth.
        let least = u128::from(size) * 1_000_000_000_000 / if spec.sweep { 100 } else { 1 };
        let gap_ps = gap_ps.filter(|&gap| gap > 0 && u128::from(gap) <= least);
        let gap_ps =
            gap_ps.ok_or("such a rate cannot be kept: -b takes 1 to 1000000 Mbit/s, -d as much time")?;
        Ok(Spec { size, gap_ps, ..spec })
    }
}

/// Time between two datagrams at a rate, ps; the original's is in whole ns, of a whole number of
/// datagrams a second.
fn gap_of(mbit: u64, size: u32, as_original: bool) -> Option<u64> {
    let bits = mbit.checked_mul(1_000_000).filter(|_| mbit <= 1_000_000)?;
    if as_original {
        let per_second = bits / u64::from(size) / 8;
        return (1_000_000_000_u64.checked_div(per_second)?).checked_mul(1_000);
    }
    Some(u64::clamped(u128::from(size) * 8 * 1_000_000_000_000 / u128::from(bits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_line(line: &str) -> Result<Request<Spec>, String> {
        read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    fn spec(line: &str) -> Spec {
        match read_line(line) {
            Ok(Request::Run(spec)) => spec,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn letters_are_read_as_getopt_reads_them() {
        let c = spec("-c 192.168.1.1 -p 1000 -b 1000");
        assert_eq!((c.host.as_deref(), c.size, c.gap_ps), (Some("192.168.1.1"), 1_000, 8_000_000));
        assert_eq!(spec("-sanc10.0.0.1 -p500 -b60"), spec("-s -a -n -c 10.0.0.1 -p 500 -b 60"));
        let s = spec("-sail0 -l 3");
        assert_eq!((s.sweep, s.unsynchronised, s.device.as_deref()), (true, true, Some("l0")));
        assert_eq!(spec(""), Spec::default());
    }

    #[test]
    fn compensation_is_in_milliseconds_as_the_usage_says() {
        assert_eq!(spec("-a -l 5").compensation_us, 5_000);
        assert_eq!(spec("-a -l -5 --as-original").compensation_us, -5);
        assert!(read_line("-a -l -5").unwrap_err().contains("0 ms and more"));
        // What the original takes for microseconds (its `-l 500` made the first delay print 500).
        assert_eq!(spec("-a -l 500 --as-original").compensation_us, 500);
    }

    #[test]
    fn the_period_is_exact_unless_the_originals_is_asked_for() {
        // 3 Mbit/s of 1000 bytes: 375 a second, 2.666… ms.
        assert_eq!(spec("-c h -p 1000 -b 3").gap_ps, 2_666_666_666);
        // 1000000·3/1000/8 = 375; 1000000000/375 = 2666666 ns.
        assert_eq!(spec("-c h -p 1000 -b 3 --as-original").gap_ps, 2_666_666_000);
        // 1000000/1999/8 = 62 (62.53 before cutting): 16129032 ns.
        assert_eq!(spec("-c h -p 1999 -b 1 --as-original").gap_ps, 16_129_032_000);
        assert_eq!(spec("-c h -p 100 -d 1000000").gap_ps, 1_000_000_000);
        // Beyond 2^31 ns the original floods.
        let phase = spec("-c h -p 100 -d 3000000000").phase();
        assert_eq!(phase.rate, Some(266));
        assert_eq!(phase.check(), Ok(()));
    }

    #[test]
    fn sweeps_take_two_hundred_seconds() {
        let phase = spec("-c h -p 500 -b 60 -s").phase();
        assert_eq!(Settings::of(&phase).stairs.map(|s| s.length_ns()), Some(200 * SECOND));
        assert_eq!(phase.check(), Ok(()));
        assert_eq!(spec("-s").phase().check(), Ok(()));
    }

    #[test]
    fn what_cannot_be_is_named() {
        assert_eq!(read(&["-c".to_owned(), "h".to_owned(), "--help".to_owned()]), Ok(Request::Help));
        for (line, why) in [
            ("-c h -p 8 -b 1", "Unsupported packet size"),
            ("-c h -p 2001 -b 1", "Unsupported packet size"),
            ("-c h -p 100", "either delay or target bandwidth"),
            ("-c h -p 100 -b 1 -d 5", "but not both"),
            ("-c h -p 100 -b 99999999999", "such a rate"),
            ("-c h -p 16 -d 99999999999999999", "such a rate"),
            ("-h", "invalid option -- 'h'"),
            ("-p", "requires an argument"),
            ("-p x", "a whole number"),
            ("-l 9999999999", "a whole number"),
            ("--helper", "unknown option --helper"),
            ("--port 70000", "not a port"),
            ("server", "not an option"),
            ("-:", "invalid option"),
        ] {
            let told = read_line(line).unwrap_err();
            assert!(told.contains(why), "{line}: {told}");
        }
    }
}
