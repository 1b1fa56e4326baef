//! The command lines: one letter for each option, as getopt takes them.

use super::help;
use crate::{PacketTestRecords, PacketTestRole, PacketTestSettings};
use compat::options::{Letters, Opt, Request, Stop, Value, find, request};
use metrics::{Clamped, SECOND};
use model::{Kind, Phase, Range, SocketSettings, Verify};
use std::path::PathBuf;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Program {
    /// `udpmon_bw_mon`.
    #[default]
    BwMon,
    /// `udpmon_req`.
    Req,
    /// `udpmon_send`.
    Send,
    /// `udpmon_recv`.
    Recv,
    /// `udpmon_resp`.
    Resp,
    /// `tcpmon_mon`.
    TcpMon,
    /// `tcpmon_resp`.
    TcpResp,
}

/// Name of a program, its letters, their own meanings with this program, and its usage.
pub(super) struct Facts {
    name: &'static str,
    letters: &'static str,
    own: &'static [&'static [Opt<RawOptions>]],
    pub(super) usage: &'static str,
}

impl Program {
    pub(super) fn facts(self) -> Facts {
        let (name, letters, own, usage): (_, _, &[&[Opt<RawOptions>]], _) = match self {
            Program::BwMon => ("udpmon_bw_mon", "adegilnprtuwABGLMPQSTUhqvx6HNV", &[], help::BW_MON),
            Program::Req => ("udpmon_req", "abdeilmpruwPQSTqv6HVh", &[REQ], help::REQ),
            Program::Send => ("udpmon_send", "adegilnprtuwPQSTUhqvx6V", &[], help::SEND),
            Program::Recv => ("udpmon_recv", "adtuBGILMQSThqv6DHNV", &[RECV], help::RECV),
            Program::Resp => ("udpmon_resp", "auIPQSThv6DV", &[], help::RESP),
            Program::TcpMon => ("tcpmon_mon", "adgilnprtuwABFGMPQSThqv6CHNV", &[TCP], help::TCP_MON),
            Program::TcpResp => ("tcpmon_resp", "acdtuiABGILMPQSThqv6FHV", &[TCP_RESP, TCP], help::TCP_RESP),
        };
        Facts { name, letters, own, usage }
    }

    pub(crate) fn name(self) -> &'static str {
        self.facts().name
    }

    pub(crate) fn serves(self) -> bool {
        matches!(self, Program::Recv | Program::Resp | Program::TcpResp)
    }

    /// True if it speaks TCP.
    pub(crate) fn tcp(self) -> bool {
        matches!(self, Program::TcpMon | Program::TcpResp)
    }
}

/// A command line, understood.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spec {
    pub(crate) program: Program,
    /// The remote end (`-d`).
    pub(crate) host: String,
    /// Its port, or ours (`-u`).
    pub(crate) port: u16,
    /// Our own port (`-U`).
    pub(crate) from: Option<u16>,
    /// IPv6 (`-6`, or an address with colons).
    pub(crate) v6: bool,
    pub(crate) packet_tests: PacketTestSettings,
    /// Extended columns (`-x`).
    pub(crate) extended: bool,
    /// One line a test (`-q`).
    pub(crate) quiet: bool,
    /// All details are printed (`-v`).
    pub(crate) verbose: bool,
    /// Socket buffers, bytes (`-S`).
    pub(crate) buffer: Option<u64>,
    /// The octet of type of service (`-Q`, `-P`, `-T`).
    pub(crate) tos: Option<u8>,
    /// Cores (`-a`).
    pub(crate) cores: Option<Vec<usize>>,
    /// Largest segment of a TCP connection, bytes (`-F`; that of `tcpmon_resp` takes no value).
    pub(crate) mss: Option<u32>,
    /// Interfaces in a table of their own (`-N` of tcpmon), and CPUs (`-C`).
    pub(crate) apart: (bool, bool),
    /// Running time of a receiver (`-t`), ns.
    pub(crate) life_ns: Option<u64>,
    /// File to keep the run in, for `netcaliper report` (`--save`).
    pub(crate) save: Option<PathBuf>,
    pub(crate) as_original: bool,
    /// Options that have no effect here, each with the reason.
    pub(crate) ignored: Vec<String>,
    /// The command line as it was.
    pub(crate) command: String,
}

/// The file of `--save`, and the other arguments.
fn saved(arguments: &[String]) -> Result<(Option<PathBuf>, Vec<String>), String> {
    let (mut file, mut rest) = (None, Vec::new());
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.strip_prefix("--save") {
            Some("") => {
                file = Some(PathBuf::from(words.next().ok_or("--save takes the name of a file")?));
            }
            Some(name) if name.starts_with('=') => file = Some(PathBuf::from(&name[1..])),
            _ => rest.push(word.clone()),
        }
    }
    Ok((file, rest))
}

/// Largest segment that `tcpmon_resp -F` allows, bytes.
const RESP_MSS: u32 = 1460;

/// A number of the field's type; the text may have a larger one.
fn parse<T: TryFrom<u64>>(letter: &str, value: &str) -> Result<T, String> {
    let most = [u64::from(u16::MAX), u64::from(u32::MAX)].into_iter().rev();
    let most = most.fold(u64::MAX, |most, next| if T::try_from(next + 1).is_ok() { most } else { next });
    let n = value.trim().parse::<u64>().ok().and_then(|n| T::try_from(n).ok());
    n.ok_or_else(|| format!("'-{letter} {value}': -{letter} takes a whole number from 0 to {most}"))
}

fn hexadecimal(v: &Value<'_>) -> Result<u64, String> {
    let (letter, value) = (v.name, v.text());
    let digits = value.trim().trim_start_matches("0x");
    u64::from_str_radix(digits, 16)
        .map_err(|_| format!("'-{letter} {value}': -{letter} takes a hexadecimal number"))
}

/// Microseconds with one decimal, in tenths, cut off as the original does.
fn tenths(v: &Value<'_>) -> Result<u32, String> {
    let (letter, value) = (v.name, v.text());
    let us: f64 = value
        .trim()
        .parse()
        .ok()
        .filter(|us| (0.0..=200_000_000.0).contains(us))
        .ok_or_else(|| format!("'-{letter} {value}': -{letter} takes microseconds such as 20 or 0.8"))?;
    // A decimal that has no exact binary form must not lose a tenth.
    Ok(u32::clamped(us * 10.0 + 1e-6))
}

fn number<T: TryFrom<u64>>(v: &Value<'_>) -> Result<T, String> {
    parse(v.name, v.text())
}

/// `n` or `skip:n`.
fn skip_and_count(v: &Value<'_>) -> Result<(u32, u32), String> {
    match v.text().split_once(':') {
        Some((skip, n)) => Ok((parse(v.name, skip)?, parse(v.name, n)?)),
        None => Ok((0, number(v)?)),
    }
}

fn cores(v: &Value<'_>) -> Result<Option<Vec<usize>>, String> {
    let text = v.text().split(':').next();
    let mask = hexadecimal(&Value { name: v.name, text })?;
    Ok((mask != 0).then(|| (0..64).filter(|core| mask >> core & 1 == 1).collect()))
}

/// Options as they were given: some depend on others.
#[derive(Default)]
struct RawOptions {
    spec: Spec,
    wait: u32,
    end: u32,
    step: u32,
    rate: Option<f64>,
    gap: Option<u32>,
    bursts: u32,
    precedence: Option<u64>,
    service: Option<u64>,
}

/// Meanings of letters with most programs. The program decides if a value follows, and if it has
/// the letter at all.
const OPTIONS: &[Opt<RawOptions>] = ::compat::options! { RawOptions:
    "h V" Flag |_, _| ();
    "d" Value |o, v| o.spec.host = v.owned();
    "u" Value |o, v| o.spec.port = number(v)?;
    "U" Value |o, v| o.spec.from = Some(number(v)?);
    "p" Value |o, v| o.spec.packet_tests.size = number(v)?;
    "l" Value |o, v| o.spec.packet_tests.packets = number(v)?;
    "t" Value |o, v| o.spec.packet_tests.time_ns = seconds(v)?;
    "w" Value |o, v| o.wait = tenths(v)?;
    "e" Value |o, v| o.end = tenths(v)?;
    "i" Value |o, v| o.step = tenths(v)?;
    "r" Value |o, v| o.rate = Some(rate(v.text())?);
    "g" Value |o, v| o.gap = Some(tenths(v)?);
    "n" Value |o, v| o.bursts = number(v)?;
    "H" Flag |o, _| o.spec.packet_tests.histograms = true;
    "B b" Value |o, v| o.spec.packet_tests.bin_width = number(v)?;
    "M m" Value |o, v| o.spec.packet_tests.low = number(v)?;
    "G" Value |o, v| {
        let (skip, n) = skip_and_count(v)?;
        o.spec.packet_tests.records = PacketTestRecords::Packets { skip, n };
    };
    "L" Value |o, v| {
        let (skip, n) = skip_and_count(v)?;
        o.spec.packet_tests.records = PacketTestRecords::Lost { skip, n };
    };
    "N" Flag |o, _| o.spec.packet_tests.stamps = true;
    "A" Value |o, v| o.spec.packet_tests.acks = number::<u32>(v)? > 0;
    "x" Flag |o, _| o.spec.extended = true;
    "q" Flag |o, _| o.spec.quiet = true;
    "v" Flag |o, _| o.spec.verbose = true;
    "6" Flag |o, _| o.spec.v6 = true;
    "S" Value |o, v| o.spec.buffer = Some(number(v)?);
    "Q" Value |o, v| o.spec.tos = Some(octet(hexadecimal(v)?));
    "P" Value |o, v| o.precedence = Some(hexadecimal(v)?);
    "T" Value |o, v| o.service = Some(hexadecimal(v)?);
    "a" Value |o, v| o.spec.cores = cores(v)?;
    "I" Value |o, v| o.spec.packet_tests.cards.push(v.owned());
    "D" Flag |o, _| o.spec.ignored.push("-D (it stays in the foreground)".to_owned());
};

/// Their own meanings with `udpmon_req`.
const REQ: &[Opt<RawOptions>] = ::compat::options! { RawOptions:
    "w" Value |o, v| o.wait = number::<u32>(v)?.saturating_mul(10);
    "e" Value |o, v| o.spec.packet_tests.responses.1 = number(v)?;
    "i" Value |o, v| o.spec.packet_tests.responses.2 = number(v)?;
    "r" Value |o, v| o.spec.packet_tests.responses.0 = number(v)?;
};

/// With `udpmon_recv`.
const RECV: &[Opt<RawOptions>] = ::compat::options! { RawOptions:
    "t" Value |o, v| o.spec.life_ns = seconds(v)?;
    "T" Value |o, v| o.spec.packet_tests.every_ns = seconds(v)?;
};

/// With tcpmon's programs.
const TCP: &[Opt<RawOptions>] = ::compat::options! { RawOptions:
    "A" Value |o, v| o.spec.cores = Some(vec![number(v)?]);
    "F" Value |o, v| o.spec.mss = Some(number(v)?);
    "S" Value |o, v| o.spec.buffer = Some(number::<u64>(v)?).filter(|n| *n > 0);
    "N" Flag |o, _| o.spec.apart.0 = true;
    "C" Flag |o, _| o.spec.apart.1 = true;
    "i" Value |o, v| o.spec.packet_tests.every_ns = seconds(v)?;
    "c" Value |o, v| o.spec.ignored.push(format!("-c {} (nor has it any in the original)", v.text()));
};

/// With `tcpmon_resp`. The original takes `-d` and `-L` and does nothing with them.
const TCP_RESP: &[Opt<RawOptions>] = ::compat::options! { RawOptions:
    "F" Flag |o, _| o.spec.mss = Some(RESP_MSS);
    "t" Value |o, v| o.spec.life_ns = seconds(v)?;
    "d L" Value |_, _| ();
};

/// Reads a command line, without the program's name.
///
/// # Errors
/// One sentence that names what cannot be, and what could.
pub(crate) fn read(program: Program, arguments: &[String]) -> Result<Request<Box<Spec>>, String> {
    let (save, arguments) = saved(arguments)?;
    let Facts { letters: known, own, .. } = program.facts();
    // Letters are all looked at before any value is.
    let mut found = Vec::new();
    let letters = Letters {
        find: &|letter| {
            let tables = own.iter().copied().chain([OPTIONS]).filter(|_| known.contains(letter));
            tables.into_iter().find_map(|table| find(table, letter))
        },
        unknown: &|letter| format!("'-{letter}' is not an option of {}", program.name()),
        missing: &|letter| format!("-{letter} takes a value"),
    };
    let plain: Vec<String> = arguments.iter().filter(|word| *word != "--as-original").cloned().collect();
    let mut words = plain.iter();
    while let Some(word) = words.next() {
        if word == "--help" {
            return Ok(Request::Help);
        }
        let rest = word.strip_prefix('-').filter(|rest| !rest.is_empty());
        let rest = rest.ok_or_else(|| format!("'{word}' is not an option of {}", program.name()))?;
        let read = letters.read(rest, &mut words, &mut |option, value| {
            found.push((option, value.name.to_owned(), value.text.map(str::to_owned)));
            Ok(())
        });
        request(read)?;
    }
    for (letter, request) in [("h", Request::Help), ("V", Request::Version)] {
        if found.iter().any(|(_, name, _)| name == letter) {
            return Ok(request);
        }
    }
    let spec = Spec {
        as_original: arguments.iter().any(|word| word == "--as-original"),
        command: format!("{} {}", program.name(), arguments.join(" ")),
        save,
        ..Spec::empty(program)
    };
    let mut options = RawOptions { spec, step: 8, bursts: 1, ..RawOptions::default() };
    if program == Program::TcpMon {
        (options.spec.packet_tests.size, options.spec.extended) = (10_000, true);
    }
    let mut set = || -> Result<(), Stop> {
        for (option, name, text) in &found {
            (option.set)(&mut options, &Value { name, text: text.as_deref() })?;
        }
        Ok(())
    };
    request(set())?;
    let mut spec = std::mem::take(&mut options.spec);
    settle(&mut spec, &options)?;
    spec.packet_tests.check()?;
    Ok(Request::Run(Box::new(spec)))
}

fn seconds(v: &Value<'_>) -> Result<Option<u64>, String> {
    Ok(Some(number::<u64>(v)?.saturating_mul(SECOND)).filter(|ns| *ns > 0))
}

fn rate(value: &str) -> Result<f64, String> {
    let rate: f64 = value.trim().parse().map_err(|_| format!("'-r {value}': -r takes Mbit/s such as 100"))?;
    Some(rate).filter(|rate| *rate > 0.0).ok_or_else(|| "-r takes a rate above 0".to_owned())
}

/// The lowest eight bits.
fn octet(n: u64) -> u8 {
    u8::clamped(n & 0xff)
}

/// Puts together what depends on several options.
fn settle(spec: &mut Spec, sweep: &RawOptions) -> Result<(), String> {
    let program = spec.program;
    if !program.serves() && spec.host.is_empty() {
        return Err("the remote end is missing: -d HOST".to_owned());
    }
    spec.v6 |= spec.host.contains(':');
    let udpmon = &mut spec.packet_tests;
    udpmon.role = match program {
        Program::Req => PacketTestRole::Latency,
        Program::Send => PacketTestRole::Send,
        _ => PacketTestRole::Stream,
    };
    // No request of the original is shorter, and no message of tcpmon shorter than its head.
    let least = match program {
        Program::Req => 64,
        Program::TcpMon => 144,
        _ => 0,
    };
    if udpmon.size < least && !spec.as_original {
        spec.ignored.push(format!("-p {} ({least} bytes are sent, which is the least)", udpmon.size));
    }
    udpmon.size = udpmon.size.max(least);
    udpmon.cpu = program == Program::BwMon && spec.extended;
    udpmon.drift = spec.as_original;
    if program == Program::Send {
        udpmon.settle_ns = 0;
    }
    let wait = match sweep.rate {
        // Cut off to a tenth, as the original does.
        Some(mbit) => u32::clamped(10.0 * f64::from(udpmon.size) * 8.0 / mbit),
        None => sweep.wait,
    };
    udpmon.waits = vec![wait];
    if program == Program::BwMon && sweep.end > wait {
        if sweep.step == 0 {
            return Err("-i 0 would never reach the end of the sweep (-e)".to_owned());
        }
        udpmon.waits = (wait..=sweep.end).step_by(usize::clamped(sweep.step)).collect();
    }
    if let Some(gap) = sweep.gap {
        (udpmon.gap, udpmon.bursts) = (gap, sweep.bursts);
    }
    if let Some(both) = spec.tos.map(|tos| tos & 3).filter(|bits| *bits > 0) {
        spec.ignored
            .push(format!("the lowest two bits of -Q ({both}: they are the kernel's, for congestion)"));
    }
    if spec.tos.is_none() && (sweep.precedence.is_some() || sweep.service.is_some()) {
        let (p, t) = (sweep.precedence.unwrap_or(0), sweep.service.unwrap_or(0));
        spec.tos = Some(octet((p << 5) & 0xe0 | (t << 1) & 0x1e));
    }
    Ok(())
}

impl Spec {
    /// A program's defaults.
    pub(super) fn empty(program: Program) -> Spec {
        Spec {
            program,
            port: crate::PORT,
            packet_tests: PacketTestSettings {
                packets: if program == Program::Req { 10 } else { 2 },
                ..PacketTestSettings::default()
            },
            extended: program == Program::Send,
            command: program.name().to_owned(),
            ..Spec::default()
        }
    }

    /// The test itself, or the settings of a server for it.
    pub(crate) fn phase(&self) -> Phase {
        // Without a user's choice a server has room for a burst: losses of its own buffer are not
        // the network's. Over TCP the kernel chooses.
        let (tcp, serves) = (self.program.tcp(), self.program.serves());
        let room = Some(ROOM).filter(|_| serves && !tcp);
        let sockets = SocketSettings {
            sndbuf: self.buffer,
            rcvbuf: self.buffer.or(room),
            dscp: self.tos.map(|tos| tos >> 2),
            gso: false,
            mss: self.mss,
            // Its clients say later whether they want them (-N).
            card_stamps: serves && !tcp,
            ..SocketSettings::default()
        };
        let phase = Phase {
            kind: Kind::Train,
            extra: self.packet_tests.extra(),
            duration_ns: self.life_ns,
            connections: 1,
            sockets,
            ..Phase::default()
        };
        if !tcp {
            return phase;
        }
        Phase {
            kind: Kind::Tcp,
            interval_ns: self.packet_tests.every_ns.unwrap_or(SECOND),
            iterations: Some(1),
            buffer: Range::just(1 << 20),
            verify: Verify::Connection,
            ..phase
        }
    }
}

/// Receive buffer of a server, bytes, where the system gives it.
const ROOM: u64 = 4 << 20;

#[cfg(test)]
pub(super) mod tests;
