//! The command lines: one letter for each option, as getopt takes them.

use metrics::SECOND;
use model::{Kind, Phase, Range, SocketSettings, Udpmon, UdpmonRecords, UdpmonRole, Verify};
use std::path::PathBuf;

/// Which of the programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Program {
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

impl Program {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Program::BwMon => "udpmon_bw_mon",
            Program::Req => "udpmon_req",
            Program::Send => "udpmon_send",
            Program::Recv => "udpmon_recv",
            Program::Resp => "udpmon_resp",
            Program::TcpMon => "tcpmon_mon",
            Program::TcpResp => "tcpmon_resp",
        }
    }

    /// Its letters: those with a value, those without.
    fn letters(self) -> (&'static str, &'static str) {
        match self {
            Program::BwMon => ("adegilnprtuwABGLMPQSTU", "hqvx6HNV"),
            Program::Req => ("abdeilmpruwPQST", "qv6HVh"),
            Program::Send => ("adegilnprtuwPQSTU", "hqvx6V"),
            Program::Recv => ("adtuBGILMQST", "hqv6DHNV"),
            Program::Resp => ("auIPQST", "hv6DV"),
            Program::TcpMon => ("adgilnprtuwABFGMPQST", "hqv6CHNV"),
            Program::TcpResp => ("acdtuiABGILMPQST", "hqv6FHV"),
        }
    }

    /// Whether it waits for others.
    #[must_use]
    pub fn serves(self) -> bool {
        matches!(self, Program::Recv | Program::Resp | Program::TcpResp)
    }

    /// Whether it speaks TCP.
    #[must_use]
    pub fn tcp(self) -> bool {
        matches!(self, Program::TcpMon | Program::TcpResp)
    }
}

/// What a command line asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// The usage.
    Help,
    /// The version.
    Version,
    /// A run.
    Run(Box<Spec>),
}

/// A command line, understood.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spec {
    /// Which program.
    pub program: Program,
    /// The far end (`-d`).
    pub host: String,
    /// Its port, or ours (`-u`).
    pub port: u16,
    /// Our own port (`-U`).
    pub from: Option<u16>,
    /// IPv6 (`-6`, or an address with colons).
    pub v6: bool,
    /// What is asked for.
    pub udpmon: Udpmon,
    /// Extended columns (`-x`).
    pub extended: bool,
    /// One line a test (`-q`).
    pub quiet: bool,
    /// Everything is told (`-v`).
    pub verbose: bool,
    /// Socket buffers, bytes (`-S`).
    pub buffer: Option<u64>,
    /// The octet of type of service (`-Q`, `-P`, `-T`).
    pub tos: Option<u8>,
    /// Cores (`-a`).
    pub cores: Option<Vec<usize>>,
    /// Largest segment of a TCP connection, bytes (`-F`; that of `tcpmon_resp` takes no value).
    pub mss: Option<u32>,
    /// Interfaces in a table of their own (`-N` of tcpmon), and CPUs (`-C`).
    pub apart: (bool, bool),
    /// How long a receiver runs (`-t`), ns.
    pub life_ns: Option<u64>,
    /// Where the run is kept, for `netcaliper report` (`--save`).
    pub save: Option<PathBuf>,
    /// The originals' arithmetic.
    pub as_original: bool,
    /// Options that have no effect here, each with the reason.
    pub ignored: Vec<String>,
    /// The command line as it was.
    pub command: String,
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

/// What getopt finds: letters with their values, in order.
fn letters(program: Program, arguments: &[String]) -> Result<Vec<(char, String)>, String> {
    let (with, without) = program.letters();
    let mut found = Vec::new();
    let mut words = arguments.iter().filter(|word| *word != "--as-original");
    while let Some(word) = words.next() {
        if word == "--help" {
            return Ok(vec![('h', String::new())]);
        }
        let Some(mut rest) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) else {
            return Err(format!("'{word}' is not an option of {}", program.name()));
        };
        while let Some(letter) = rest.chars().next() {
            rest = &rest[letter.len_utf8()..];
            if without.contains(letter) {
                found.push((letter, String::new()));
            } else if with.contains(letter) {
                let value = if rest.is_empty() { words.next().cloned() } else { Some(rest.to_owned()) };
                found.push((letter, value.ok_or_else(|| format!("-{letter} takes a value"))?));
                break;
            } else {
                return Err(format!("'-{letter}' is not an option of {}", program.name()));
            }
        }
    }
    Ok(found)
}

fn number<T: std::str::FromStr>(letter: char, value: &str) -> Result<T, String> {
    value.trim().parse().map_err(|_| format!("'-{letter} {value}': -{letter} takes a whole number"))
}

fn hexadecimal(letter: char, value: &str) -> Result<u64, String> {
    let digits = value.trim().trim_start_matches("0x");
    u64::from_str_radix(digits, 16)
        .map_err(|_| format!("'-{letter} {value}': -{letter} takes a hexadecimal number"))
}

/// Microseconds with one decimal, in tenths, cut off as the original does.
fn tenths(letter: char, value: &str) -> Result<u32, String> {
    let us: f64 = value
        .trim()
        .parse()
        .ok()
        .filter(|us| (0.0..=200_000_000.0).contains(us))
        .ok_or_else(|| format!("'-{letter} {value}': -{letter} takes microseconds such as 20 or 0.8"))?;
    // A decimal that has no exact binary form must not lose a tenth.
    Ok((us * 10.0 + 1e-6) as u32)
}

/// `n` or `skip:n`.
fn skip_and_count(letter: char, value: &str) -> Result<(u32, u32), String> {
    match value.split_once(':') {
        Some((skip, n)) => Ok((number(letter, skip)?, number(letter, n)?)),
        None => Ok((0, number(letter, value)?)),
    }
}

fn cores(mask: u64) -> Option<Vec<usize>> {
    (mask != 0).then(|| (0..64).filter(|core| mask >> core & 1 == 1).collect())
}

/// What is read before it is put together: options depend on each other.
#[derive(Default)]
struct Sweep {
    wait: u32,
    end: u32,
    step: u32,
    rate: Option<f64>,
    gap: Option<u32>,
    bursts: u32,
    precedence: Option<u64>,
    service: Option<u64>,
    responses: (u32, u32, u32),
}

/// Reads a command line, without the program's name.
///
/// # Errors
/// One sentence that names what cannot be, and what could.
pub fn read(program: Program, arguments: &[String]) -> Result<Asked, String> {
    let (save, arguments) = saved(arguments)?;
    let found = letters(program, &arguments)?;
    if found.iter().any(|(letter, _)| *letter == 'h') {
        return Ok(Asked::Help);
    }
    if found.iter().any(|(letter, _)| *letter == 'V') {
        return Ok(Asked::Version);
    }
    let mut spec = Spec::empty(program);
    spec.as_original = arguments.iter().any(|word| word == "--as-original");
    spec.command = format!("{} {}", program.name(), arguments.join(" "));
    spec.save = save;
    if program == Program::TcpMon {
        (spec.udpmon.size, spec.extended) = (10_000, true);
    }
    let mut sweep = Sweep { step: 8, bursts: 1, responses: (1472, 0, 0), ..Sweep::default() };
    for (letter, value) in &found {
        option(&mut spec, &mut sweep, *letter, value)?;
    }
    settle(&mut spec, &sweep)?;
    spec.udpmon.check()?;
    Ok(Asked::Run(Box::new(spec)))
}

fn option(spec: &mut Spec, sweep: &mut Sweep, letter: char, value: &str) -> Result<(), String> {
    let program = spec.program;
    if program.tcp() && tcp_option(spec, letter, value)? {
        return Ok(());
    }
    let udpmon = &mut spec.udpmon;
    match letter {
        'd' => spec.host = value.to_owned(),
        'u' => spec.port = number(letter, value)?,
        'U' => spec.from = Some(number(letter, value)?),
        'p' => udpmon.size = number(letter, value)?,
        'l' => udpmon.packets = number(letter, value)?,
        't' if program == Program::Recv => spec.life_ns = seconds(letter, value)?,
        't' => udpmon.time_ns = seconds(letter, value)?,
        'T' if program == Program::Recv => udpmon.every_ns = seconds(letter, value)?,
        'w' if program == Program::Req => sweep.wait = number::<u32>(letter, value)?.saturating_mul(10),
        'w' => sweep.wait = tenths(letter, value)?,
        'e' if program == Program::Req => sweep.responses.1 = number(letter, value)?,
        'e' => sweep.end = tenths(letter, value)?,
        'i' if program == Program::Req => sweep.responses.2 = number(letter, value)?,
        'i' => sweep.step = tenths(letter, value)?,
        'r' if program == Program::Req => sweep.responses.0 = number(letter, value)?,
        'r' => sweep.rate = Some(rate(value)?),
        'g' => sweep.gap = Some(tenths(letter, value)?),
        'n' => sweep.bursts = number(letter, value)?,
        'H' => udpmon.histograms = true,
        'B' | 'b' => udpmon.bin_width = number(letter, value)?,
        'M' | 'm' => udpmon.low = number(letter, value)?,
        'G' => {
            let (skip, n) = skip_and_count(letter, value)?;
            udpmon.records = UdpmonRecords::Packets { skip, n };
        }
        'L' => {
            let (skip, n) = skip_and_count(letter, value)?;
            udpmon.records = UdpmonRecords::Lost { skip, n };
        }
        'N' => udpmon.stamps = true,
        'A' => udpmon.acks = number::<u32>(letter, value)? > 0,
        'x' => spec.extended = true,
        'q' => spec.quiet = true,
        'v' => spec.verbose = true,
        '6' => spec.v6 = true,
        'S' => spec.buffer = Some(number(letter, value)?),
        'Q' => spec.tos = Some(hexadecimal(letter, value)? as u8),
        'P' => sweep.precedence = Some(hexadecimal(letter, value)?),
        'T' => sweep.service = Some(hexadecimal(letter, value)?),
        'a' => spec.cores = cores(hexadecimal(letter, value.split(':').next().unwrap_or(value))?),
        'I' => spec.udpmon.cards.push(value.to_owned()),
        'D' => spec.ignored.push("-D (it stays in the foreground)".to_owned()),
        _ => {}
    }
    Ok(())
}

/// The letters that mean something else with tcpmon; whether this is one.
fn tcp_option(spec: &mut Spec, letter: char, value: &str) -> Result<bool, String> {
    let program = spec.program;
    match letter {
        'A' => spec.cores = Some(vec![number(letter, value)?]),
        // The responder's has no value.
        'F' if program == Program::TcpResp => spec.mss = Some(RESP_MSS),
        'F' => spec.mss = Some(number(letter, value)?),
        'S' => spec.buffer = Some(number::<u64>(letter, value)?).filter(|n| *n > 0),
        'N' => spec.apart.0 = true,
        'C' => spec.apart.1 = true,
        'i' => spec.udpmon.every_ns = seconds(letter, value)?,
        't' if program == Program::TcpResp => spec.life_ns = seconds(letter, value)?,
        // The original takes them and does nothing with them.
        'd' | 'L' if program == Program::TcpResp => {}
        'c' => spec.ignored.push(format!("-c {value} (nor has it any in the original)")),
        _ => return Ok(false),
    }
    Ok(true)
}

fn seconds(letter: char, value: &str) -> Result<Option<u64>, String> {
    Ok(Some(number::<u64>(letter, value)?.saturating_mul(SECOND)).filter(|ns| *ns > 0))
}

fn rate(value: &str) -> Result<f64, String> {
    let rate: f64 = value.trim().parse().map_err(|_| format!("'-r {value}': -r takes Mbit/s such as 100"))?;
    Some(rate).filter(|rate| *rate > 0.0).ok_or_else(|| "-r takes a rate above 0".to_owned())
}

/// Puts together what depends on several options.
fn settle(spec: &mut Spec, sweep: &Sweep) -> Result<(), String> {
    let program = spec.program;
    if !program.serves() && spec.host.is_empty() {
        return Err("the far end is missing: -d HOST".to_owned());
    }
    spec.v6 |= spec.host.contains(':');
    let udpmon = &mut spec.udpmon;
    udpmon.role = match program {
        Program::Req => UdpmonRole::Latency,
        Program::Send => UdpmonRole::Send,
        _ => UdpmonRole::Stream,
    };
    // No request of the original is shorter.
    udpmon.size = if program == Program::Req { udpmon.size.max(64) } else { udpmon.size };
    if program == Program::TcpMon {
        // A head is the shortest message.
        udpmon.size = udpmon.size.max(144);
    }
    udpmon.cpu = program == Program::BwMon && spec.extended;
    udpmon.drift = spec.as_original;
    udpmon.responses = sweep.responses;
    if program == Program::Send {
        udpmon.settle_ns = 0;
    }
    let wait = match sweep.rate {
        // Cut off to a tenth, as the original does.
        Some(mbit) => (10.0 * f64::from(udpmon.size) * 8.0 / mbit) as u32,
        None => sweep.wait,
    };
    udpmon.waits = vec![wait];
    if program == Program::BwMon && sweep.end > wait {
        if sweep.step == 0 {
            return Err("-i 0 would never reach the end of the sweep (-e)".to_owned());
        }
        udpmon.waits = (wait..=sweep.end).step_by(sweep.step as usize).collect();
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
        spec.tos = Some(((p << 5) & 0xe0) as u8 | ((t << 1) & 0x1e) as u8);
    }
    Ok(())
}

impl Spec {
    /// What a program does without a word.
    pub(super) fn empty(program: Program) -> Spec {
        Spec {
            program,
            port: 14_233,
            udpmon: Udpmon { packets: if program == Program::Req { 10 } else { 2 }, ..Udpmon::default() },
            extended: program == Program::Send,
            command: program.name().to_owned(),
            ..Spec::default()
        }
    }

    /// The test itself, or what a server of it is to be.
    #[must_use]
    pub fn phase(&self) -> Phase {
        // Without a word of the user's a server has room for a burst: what its own buffer loses is not lost by a network.
        let room = if self.program.serves() { Some(ROOM) } else { None };
        let sockets = SocketSettings {
            sndbuf: self.buffer,
            rcvbuf: self.buffer.or(room),
            dscp: self.tos.map(|tos| tos >> 2),
            gso: false,
            // Its clients say later whether they want them (-N).
            card_stamps: self.program.serves() && !self.program.tcp(),
            ..SocketSettings::default()
        };
        let sockets = SocketSettings { mss: self.mss, ..sockets };
        if self.program.tcp() {
            // What the user does not choose is the kernel's to choose.
            let sockets = SocketSettings { rcvbuf: self.buffer, ..sockets };
            return Phase {
                udpmon: Some(Box::new(self.udpmon.clone())),
                duration_ns: self.life_ns,
                interval_ns: self.udpmon.every_ns.unwrap_or(SECOND),
                connections: 1,
                iterations: Some(1),
                buffer: Range::just(1 << 20),
                verify: Verify::Connection,
                sockets,
                ..Phase::default()
            };
        }
        Phase {
            kind: Kind::Train,
            udpmon: Some(Box::new(self.udpmon.clone())),
            duration_ns: self.life_ns,
            connections: 1,
            sockets,
            ..Phase::default()
        }
    }
}

/// Receive buffer of a server, bytes, as far as the system gives it.
const ROOM: u64 = 4 << 20;

#[cfg(test)]
mod tests;
