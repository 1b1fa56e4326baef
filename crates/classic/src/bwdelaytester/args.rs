//! The command line: single letters as getopt reads them, and long options that the original does not have.

use metrics::SECOND;
use model::{Kind, Phase, Probe, Range, SocketSettings, Stairs, Stamping};
use std::path::PathBuf;

/// What a command line asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// A client.
    Client(Client),
    /// A server.
    Server(Server),
    /// How it is used (`--help`, which the original does not have).
    Help,
}

/// What both ends have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Both {
    /// Another port than the original's.
    pub port: Option<u16>,
    /// Interface to bind to.
    pub device: Option<String>,
    /// The clocks are not synchronised.
    pub unsynchronised: bool,
    /// The rate is swept.
    pub sweep: bool,
    /// The original's arithmetic.
    pub as_original: bool,
    /// Where the run is kept, for `netcaliper report`.
    pub save: Option<PathBuf>,
}

/// A client's command line, understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    /// Where to send to.
    pub host: String,
    /// UDP payload, bytes.
    pub size: u32,
    /// Time from one datagram to the next, or at the top of a sweep, ps.
    pub gap_ps: u64,
    /// What the socket has no room for is given up.
    pub give_up: bool,
    /// What servers have, too.
    pub both: Both,
}

/// A server's command line, understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Latency of the fastest datagram, µs.
    pub compensation_us: i64,
    /// What clients have, too.
    pub both: Both,
}

/// Steps of a sweep, and how long each lasts: one second by its name, two by its arithmetic.
const STAIRS: Stairs = Stairs { steps: 100, step_ns: 2 * SECOND };
/// Length of a line's stretch of time, ns.
pub(super) const SLOT: u64 = SECOND / 10;

impl Client {
    /// What it sends.
    #[must_use]
    pub fn phase(&self) -> Phase {
        let bits = u128::from(self.size) * 8 * 1_000_000_000_000;
        Phase {
            rate: Some(u64::try_from(bits / u128::from(self.gap_ps.max(1))).unwrap_or(u64::MAX)),
            duration_ns: self.both.sweep.then(|| STAIRS.length_ns() + SECOND),
            probe: Some(Probe {
                size: self.size,
                stamping: if self.both.unsynchronised { Stamping::Host } else { Stamping::Wall },
                stairs: self.both.sweep.then_some(STAIRS),
                give_up: self.give_up,
                ..Probe::default()
            }),
            ..phase()
        }
    }
}

impl Server {
    /// What it listens to.
    #[must_use]
    pub fn phase(&self) -> Phase {
        Phase { duration_ns: None, interval_ns: SLOT, probe: Some(Probe::default()), ..phase() }
    }
}

fn phase() -> Phase {
    Phase {
        kind: Kind::Delay,
        connections: 1,
        iterations: Some(1),
        buffer: Range::just(64 * 1024),
        sockets: SocketSettings { rcvbuf: Some(4 << 20), ..SocketSettings::default() },
        ..Phase::default()
    }
}

/// Letters that are options, those with a value followed by a colon.
const LETTERS: &str = "c:d:p:l:ni:sab:";

/// What was given, letter by letter; a later one counts.
#[derive(Default)]
struct Given {
    host: Option<String>,
    gap_ns: u64,
    mbit: u64,
    size: u64,
    compensation: i64,
    give_up: bool,
    both: Both,
}

/// Reads a command line, without the program's name.
///
/// # Errors
/// What is wrong with it, in one sentence; the usage belongs behind it.
pub fn read(arguments: &[String]) -> Result<Asked, String> {
    let mut given = Given::default();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word == "--help" {
            return Ok(Asked::Help);
        }
        if let Some(long) = word.strip_prefix("--") {
            given.long(long, &mut words)?;
        } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            given.letters(letters, &mut words)?;
        } else {
            return Err(format!("'{word}' is not an option"));
        }
    }
    given.decide()
}

type Words<'a> = std::slice::Iter<'a, String>;

impl Given {
    fn long(&mut self, word: &str, words: &mut Words<'_>) -> Result<(), String> {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word, None),
        };
        match name {
            "as-original" if value.is_none() => self.both.as_original = true,
            "save" => {
                let name =
                    value.or_else(|| words.next().cloned()).ok_or("--save takes the name of a file")?;
                self.both.save = Some(PathBuf::from(name));
            }
            "port" => {
                let value = value.or_else(|| words.next().cloned()).unwrap_or_default();
                let port = value.parse().map_err(|_| format!("'{value}' is not a port (0 to 65535)"))?;
                self.both.port = Some(port);
            }
            _ => return Err(format!("unknown option --{word}")),
        }
        Ok(())
    }

    /// Letters that stand together: `-sa`, `-p1000`.
    fn letters(&mut self, letters: &str, words: &mut Words<'_>) -> Result<(), String> {
        for (at, letter) in letters.char_indices() {
            let known = LETTERS.find(letter).filter(|_| letter != ':');
            let Some(known) = known else { return Err(format!("invalid option -- '{letter}'")) };
            if LETTERS[known + 1..].starts_with(':') {
                let rest = &letters[at + letter.len_utf8()..];
                let value = if rest.is_empty() { words.next().map(String::as_str) } else { Some(rest) };
                let value = value.ok_or_else(|| format!("option requires an argument -- '{letter}'"))?;
                return self.value(letter, value);
            }
            match letter {
                'n' => self.give_up = true,
                's' => self.both.sweep = true,
                _ => self.both.unsynchronised = true,
            }
        }
        Ok(())
    }

    fn value(&mut self, letter: char, value: &str) -> Result<(), String> {
        let number = |what: &str| {
            value
                .parse::<u64>()
                .map_err(|_| format!("'-{letter} {value}': {what}, a whole number, was expected"))
        };
        match letter {
            'c' => self.host = Some(value.to_owned()),
            'd' => self.gap_ns = number("a time in ns")?,
            'b' => self.mbit = number("a rate in Mbit/s")?,
            'p' => self.size = number("a size in bytes")?,
            'i' => self.both.device = Some(value.to_owned()),
            _ => {
                let parsed = value.parse::<i32>();
                let why = |_| format!("'-l {value}': a latency in ms, a whole number, was expected");
                self.compensation = parsed.map_err(why)?.into();
            }
        }
        Ok(())
    }

    fn decide(self) -> Result<Asked, String> {
        let Given { host, gap_ns, mbit, size, compensation, give_up, both } = self;
        let Some(host) = host else {
            // The original documents milliseconds and takes microseconds.
            let unit = if both.as_original { 1 } else { 1_000 };
            return Ok(Asked::Server(Server { compensation_us: compensation * unit, both }));
        };
        let size = u32::try_from(size).ok().filter(|size| (16..=2_000).contains(size));
        let size = size.ok_or("Unsupported packet size: -p takes 16 to 2000 bytes")?;
        let gap_ps = match (gap_ns, mbit) {
            (0, 0) => return Err("Supply either delay or target bandwidth: -d or -b".to_owned()),
            (0, mbit) => gap_of(mbit, size, both.as_original),
            (ns, 0) => ns.checked_mul(1_000),
            _ => return Err("Supply either delay or target bandwidth, but not both".to_owned()),
        };
        // 16 bytes in 16 s are the least rate that there is, 8 bit/s; a sweep begins with a hundredth.
        let least = u128::from(size) * 1_000_000_000_000 / if both.sweep { 100 } else { 1 };
        let gap_ps = gap_ps.filter(|&gap| gap > 0 && u128::from(gap) <= least);
        let gap_ps =
            gap_ps.ok_or("such a rate cannot be kept: -b takes 1 to 1000000 Mbit/s, -d as much time")?;
        Ok(Asked::Client(Client { host, size, gap_ps, give_up, both }))
    }
}

/// Time between two datagrams at a rate, ps; the original's is in whole ns, of a whole number of datagrams a second.
fn gap_of(mbit: u64, size: u32, as_original: bool) -> Option<u64> {
    let bits = mbit.checked_mul(1_000_000).filter(|_| mbit <= 1_000_000)?;
    if as_original {
        let per_second = bits / u64::from(size) / 8;
        return (1_000_000_000_u64.checked_div(per_second)?).checked_mul(1_000);
    }
    Some((u128::from(size) * 8 * 1_000_000_000_000 / u128::from(bits)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Asked, String> {
        read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    fn client(line: &str) -> Client {
        match asked(line) {
            Ok(Asked::Client(client)) => client,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn server(line: &str) -> Server {
        match asked(line) {
            Ok(Asked::Server(server)) => server,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn letters_are_read_as_getopt_reads_them() {
        let c = client("-c 192.168.1.1 -p 1000 -b 1000");
        assert_eq!((c.host.as_str(), c.size, c.gap_ps), ("192.168.1.1", 1_000, 8_000_000));
        assert_eq!(client("-sanc10.0.0.1 -p500 -b60"), client("-s -a -n -c 10.0.0.1 -p 500 -b 60"));
        let s = server("-sail0 -l 3");
        assert_eq!((s.both.sweep, s.both.unsynchronised, s.both.device.as_deref()), (true, true, Some("l0")));
        assert_eq!(server("").both, Both::default());
    }

    #[test]
    fn compensation_is_in_milliseconds_as_the_usage_says() {
        assert_eq!(server("-a -l 5").compensation_us, 5_000);
        // What the original takes for microseconds (its `-l 500` made the first delay print 500).
        assert_eq!(server("-a -l 500 --as-original").compensation_us, 500);
    }

    #[test]
    fn the_period_is_exact_unless_the_originals_is_asked_for() {
        // 3 Mbit/s of 1000 bytes: 375 a second, 2.666… ms.
        assert_eq!(client("-c h -p 1000 -b 3").gap_ps, 2_666_666_666);
        // 1000000·3/1000/8 = 375; 1000000000/375 = 2666666 ns.
        assert_eq!(client("-c h -p 1000 -b 3 --as-original").gap_ps, 2_666_666_000);
        // 1000000/1999/8 = 62 (62.53 before cutting): 16129032 ns.
        assert_eq!(client("-c h -p 1999 -b 1 --as-original").gap_ps, 16_129_032_000);
        assert_eq!(client("-c h -p 100 -d 1000000").gap_ps, 1_000_000_000);
        // Beyond 2^31 ns the original floods.
        let phase = client("-c h -p 100 -d 3000000000").phase();
        assert_eq!(phase.rate, Some(266));
        assert_eq!(phase.check(), Ok(()));
    }

    #[test]
    fn sweeps_take_two_hundred_seconds() {
        let phase = client("-c h -p 500 -b 60 -s").phase();
        assert_eq!(phase.probe.and_then(|p| p.stairs).map(|s| s.length_ns()), Some(200 * SECOND));
        assert_eq!(phase.check(), Ok(()));
        assert_eq!(server("-s").phase().check(), Ok(()));
    }

    #[test]
    fn what_cannot_be_is_named() {
        assert_eq!(read(&["-c".to_owned(), "h".to_owned(), "--help".to_owned()]), Ok(Asked::Help));
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
            let told = asked(line).unwrap_err();
            assert!(told.contains(why), "{line}: {told}");
        }
    }
}
