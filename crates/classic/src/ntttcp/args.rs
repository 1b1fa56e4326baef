//! The command line: getopt's letters, of which some take a value only when it is glued to them or does not begin with '-'.

use super::windows;
use metrics::SECOND;
use model::{Kind, Layout, Pattern, Phase, Probe, Range, SocketSettings, Verify, Waiting};
use std::net::IpAddr;

/// What a command line asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// The usage.
    Help,
    /// A run.
    Run(Box<Spec>),
}

/// Which end this is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Receives.
    #[default]
    Receiver,
    /// Sends.
    Sender,
}

/// A command line, understood.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spec {
    /// Which end this is.
    pub role: Role,
    /// Whether the command line says which.
    pub role_given: bool,
    /// Whom to send to, or where to listen.
    pub address: Option<String>,
    /// How the test is laid out and timed.
    pub layout: Layout,
    /// One test after the other (`-H`).
    pub hold: bool,
    /// Bytes of a write or read (`-b`).
    pub buffer: Option<u64>,
    /// Limit of all connections together, bits/s (`-B`).
    pub limit: Option<u64>,
    /// The same, to be kept by the kernel (`--fq-rate-limit`); `-B` wins.
    pub fq_limit: Option<u64>,
    /// First local port (`-f`).
    pub local_port: Option<u16>,
    /// Local address (`-a`).
    pub local: Option<IpAddr>,
    /// `--no-delay`.
    pub nodelay: bool,
    /// No real-time lines (`-Q`).
    pub quiet: bool,
    /// More detail (`-V`).
    pub verbose: bool,
    /// Retransmit rates (`--show-tcp-retrans`).
    pub retransmits: bool,
    /// Packets of this interface (`--show-nic-packets`).
    pub nic: Option<String>,
    /// Interrupts of lines that hold this (`--show-dev-interrupts`).
    pub interrupts: Option<String>,
    /// Windows NTttcp's command line and report.
    pub windows: bool,
    /// Windows: bytes of a thread, where no time is given (`-n` times `-l`).
    pub transfer: Option<u64>,
    /// Windows: the address of each port, from the mapping.
    pub hosts: Vec<String>,
    /// Windows: `SO_SNDBUF` (`-sb`).
    pub sndbuf: Option<u64>,
    /// Windows: `SO_RCVBUF` (`-rb`).
    pub rcvbuf: Option<u64>,
    /// Windows: how long nothing may move, ms (`-to`).
    pub patience_ms: Option<u64>,
    /// Windows: limit of a thread, bits/s (`-thr`).
    pub thread_limit: Option<u64>,
    /// IPv6 only (`-6`).
    pub v6: bool,
    /// Where the console's lines are copied to (`-O`).
    pub log: Option<String>,
    /// Where the XML file goes (`-x`).
    pub xml: Option<String>,
    /// Where the JSON file goes (`-j`).
    pub json: Option<String>,
    /// Arguments without an effect here, each with the reason.
    pub ignored: Vec<String>,
}

/// Most bytes of a datagram over IPv4: 65535 less both headers.
const LARGEST_DATAGRAM: u64 = 65_507;

/// How a letter takes its value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Value,
    /// Glued to it, or the next word unless that begins with '-'.
    Perhaps,
}

fn takes(name: &str) -> Option<Takes> {
    Some(match name {
        "r" | "s" | "f" | "O" | "x" | "j" => Takes::Perhaps,
        "H" | "D" | "M" | "L" | "e" | "6" | "u" | "N" | "Q" | "V" | "R" | "no-delay" | "show-tcp-retrans" => {
            Takes::Nothing
        }
        "m" | "P" | "a" | "n" | "l" | "p" | "b" | "B" | "W" | "t" | "C" | "K" | "I" => Takes::Value,
        "show-nic-packets" | "show-dev-interrupts" | "fq-rate-limit" => Takes::Value,
        _ => return None,
    })
}

/// Reads a command line.
///
/// # Errors
/// One sentence that names what cannot be, and what could.
pub fn read(arguments: &[String]) -> Result<Asked, String> {
    if windows::is_meant(arguments) {
        return windows::read(arguments);
    }
    let mut spec = Spec::default();
    let mut role = None;
    let mut words = arguments.iter().peekable();
    // Letters without a value may stand in one word, as getopt has it.
    let mut rest: Option<String> = None;
    while let Some(word) = rest.take().or_else(|| words.next().cloned()) {
        let (name, glued) = split(&word)?;
        if name == "h" || name == "help" {
            return Ok(Asked::Help);
        }
        let how = takes(name).ok_or_else(|| format!("'{word}' is not an option of ntttcp: see ntttcp -h"))?;
        let mut value = glued.map(str::to_owned);
        if how == Takes::Nothing && !word.starts_with("--") {
            rest = value.take().map(|letters| format!("-{letters}"));
        }
        let next = words.peek().filter(|next| how == Takes::Value || !next.starts_with('-'));
        if how != Takes::Nothing && value.is_none() && next.is_some() {
            value = words.next().cloned();
        }
        if how == Takes::Value && value.is_none() {
            return Err(format!("{word} needs a value"));
        }
        apply(&mut spec, &mut role, name, value)?;
    }
    finish(&mut spec, role)?;
    Ok(Asked::Run(Box::new(spec)))
}

/// `-P4`, `-P`, `--no-delay`, `--fq-rate-limit=1G`.
fn split(word: &str) -> Result<(&str, Option<&str>), String> {
    if let Some(long) = word.strip_prefix("--") {
        return Ok(long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value))));
    }
    let short = word.strip_prefix('-').filter(|rest| !rest.is_empty());
    let short = short.ok_or_else(|| format!("'{word}' is not an option of ntttcp: see ntttcp -h"))?;
    let letter = short.chars().next().map_or(0, char::len_utf8);
    let (name, rest) = short.split_at(letter);
    Ok((name, Some(rest).filter(|rest| !rest.is_empty())))
}

fn apply(spec: &mut Spec, role: &mut Option<Role>, name: &str, value: Option<String>) -> Result<(), String> {
    let text = value.clone().unwrap_or_default();
    let number = |low: u64, high: u64| number(name, &text, low, high);
    match name {
        "r" | "s" => {
            let this = if name == "r" { Role::Receiver } else { Role::Sender };
            if role.replace(this).is_some_and(|other| other != this) {
                return Err("-r and -s exclude each other".to_owned());
            }
            spec.address = value.or(spec.address.take());
        }
        "m" => mapping(spec, &text)?,
        "P" => spec.layout.ports = number(1, 512)? as u16,
        "n" => spec.layout.threads = number(1, 25_600)? as u32,
        "l" => spec.layout.connections = number(1, 1_000)? as u32,
        "p" => spec.layout.port = number(2, 65_535)? as u16,
        "f" => {
            let first = if value.is_some() { number(1, 65_535)? as u16 } else { 25_001 };
            spec.local_port = Some(if first <= 1024 { 25_001 } else { first });
        }
        "a" => {
            let parsed =
                text.parse().map_err(|_| format!("'{text}': -a takes an address such as 192.0.2.1"))?;
            spec.local = Some(parsed);
        }
        "b" => spec.buffer = Some(scaled(name, &text, 1024)?.clamp(1, 16 << 20)),
        "B" => spec.limit = Some(scaled(name, &text, 1000)?.max(8)),
        "W" => spec.layout.warmup_s = number(0, 86_400)? as u32,
        "t" => spec.layout.seconds = number(0, 31_536_000)? as u32,
        "C" => spec.layout.cooldown_s = number(0, 86_400)? as u32,
        "N" => spec.layout.sync = false,
        "M" | "L" => spec.layout.multi = true,
        "H" => spec.hold = true,
        "Q" => spec.quiet = true,
        "V" => spec.verbose = true,
        "no-delay" => spec.nodelay = true,
        "R" | "show-tcp-retrans" => spec.retransmits = true,
        "K" | "show-nic-packets" => spec.nic = value,
        "I" | "show-dev-interrupts" => spec.interrupts = value,
        "u" => spec.layout.udp = true,
        "O" => spec.log = Some(value.unwrap_or_else(|| "ntttcp-for-linux-log.log".to_owned())),
        "x" => spec.xml = Some(value.unwrap_or_else(|| "ntttcp-for-linux-log.xml".to_owned())),
        "j" => spec.json = Some(value.unwrap_or_else(|| "ntttcp-for-linux-log.json".to_owned())),
        "6" => spec.v6 = true,
        "fq-rate-limit" => spec.fq_limit = Some(scaled(name, &text, 1000)?.max(8)),
        "e" => spec.ignored.push("-e (connections are always waited for by epoll)".to_owned()),
        "D" => spec.ignored.push("-D (it stays in the foreground)".to_owned()),
        other => spec.ignored.push(format!("-{other} (has no effect here)")),
    }
    Ok(())
}

/// `threads,cpu,address`.
fn mapping(spec: &mut Spec, text: &str) -> Result<(), String> {
    let parts: Vec<&str> = text.split(',').collect();
    let [threads, cpu, address] = parts[..] else {
        return Err(format!("'{text}': -m takes threads,cpu,address such as 4,*,192.0.2.1"));
    };
    spec.layout.ports = number("m", threads, 1, 512)? as u16;
    spec.layout.threads = 1;
    if cpu != "*" {
        spec.ignored.push(format!("CPU {cpu} of -m (threads are placed one per core)"));
    }
    if address != "*" {
        spec.address = Some(address.to_owned());
    }
    Ok(())
}

fn finish(spec: &mut Spec, role: Option<Role>) -> Result<(), String> {
    (spec.role, spec.role_given) = (role.unwrap_or_default(), role.is_some());
    let last = u32::from(spec.layout.port) + u32::from(spec.layout.ports) - 1;
    if last > 65_535 {
        return Err(format!(
            "{} ports from {} on would end at {last}, beyond 65535",
            spec.layout.ports, spec.layout.port
        ));
    }
    match spec.role {
        Role::Sender if spec.address.is_none() => {
            Err("a sender needs the receiver's address: ntttcp -s192.0.2.1".to_owned())
        }
        _ if spec.layout.udp && spec.nodelay => Err("--no-delay is for TCP, and -u is UDP".to_owned()),
        Role::Sender if spec.hold => Err("-H is for receivers".to_owned()),
        _ => Ok(()),
    }
}

pub(super) fn number(name: &str, text: &str, low: u64, high: u64) -> Result<u64, String> {
    let n = text.parse().ok().filter(|n| (low..=high).contains(n));
    n.ok_or_else(|| format!("'{text}': -{name} takes a whole number from {low} to {high}"))
}

pub(super) fn scaled(name: &str, text: &str, base: u64) -> Result<u64, String> {
    let power = match text.bytes().last() {
        Some(b'k' | b'K') => 1,
        Some(b'm' | b'M') => 2,
        Some(b'g' | b'G') => 3,
        _ => 0,
    };
    let digits = &text[..text.len() - usize::from(power > 0)];
    let n: Option<u64> = digits.parse().ok();
    n.and_then(|n| n.checked_mul(base.pow(power)))
        .filter(|n| *n > 0)
        .ok_or_else(|| format!("'{text}': -{name} takes a number above 0, perhaps with K, M or G"))
}

impl Spec {
    /// The settings of its connections.
    #[must_use]
    pub fn phase(&self) -> Phase {
        let usual = if self.role == Role::Sender { 128 << 10 } else { 64 << 10 };
        let mut buffer = self.buffer.unwrap_or(usual);
        if self.layout.udp && self.role == Role::Sender {
            // What fits into a datagram, as in the original.
            buffer = buffer.min(LARGEST_DATAGRAM);
        }
        let connections = if self.role == Role::Sender { self.layout.all() } else { 1 };
        let each = |bits: u64| (bits / u64::from(connections.max(1))).max(8);
        // The kernel paces TCP itself; datagrams only where the interface's queue is fq, so those we keep back as well.
        let paced = self.fq_limit.filter(|_| self.role == Role::Sender && self.limit.is_none());
        Phase {
            kind: if self.layout.udp { Kind::Delay } else { Kind::Tcp },
            pattern: Pattern::Push,
            connections,
            transfer: self.transfer.unwrap_or(1 << 50),
            iterations: Some(1),
            duration_ns: None,
            interval_ns: SECOND / 2,
            buffer: Range::just(buffer),
            // No probe is so small or so large; what is sent is a buffer.
            probe: self.layout.udp.then(|| Probe {
                size: (buffer.min(LARGEST_DATAGRAM) as u32).max(16),
                waiting: Waiting::Block,
                ..Probe::default()
            }),
            rate: self
                .limit
                .or(self.fq_limit.filter(|_| self.layout.udp))
                .map(each)
                .or(self.thread_limit)
                .filter(|_| self.role == Role::Sender),
            verify: Verify::Connection,
            // Nothing may be sent for the whole length of a test, and the conversation knows when it is over.
            stall_ns: self.patience_ms.map_or(24 * 3600 * SECOND, |ms| ms * (SECOND / 1_000)),
            sockets: SocketSettings {
                sndbuf: self.sndbuf.filter(|_| self.role == Role::Sender),
                rcvbuf: self.rcvbuf.filter(|_| self.role == Role::Receiver),
                nodelay: self.nodelay,
                pacing: paced.map(each),
                same_host_sndbuf: false,
                ..SocketSettings::default()
            },
            ..Phase::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &str) -> Result<Spec, String> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        match read(&words)? {
            Asked::Run(spec) => Ok(*spec),
            Asked::Help => Err("help".to_owned()),
        }
    }

    #[test]
    fn letters_and_their_values_in_every_form() {
        let spec =
            asked("-s10.0.0.1 -P 2 -n3 -l 4 -p5201 -t 7 -W 1 -C 2 -b 64K -B 1G -f -N -Q -V --no-delay")
                .unwrap();
        assert_eq!((spec.role, spec.address.as_deref()), (Role::Sender, Some("10.0.0.1")));
        assert_eq!(
            (spec.layout.ports, spec.layout.threads, spec.layout.connections, spec.layout.all()),
            (2, 3, 4, 24)
        );
        assert_eq!(
            (spec.layout.port, spec.layout.seconds, spec.layout.warmup_s, spec.layout.cooldown_s),
            (5201, 7, 1, 2)
        );
        assert_eq!(
            (spec.buffer, spec.limit, spec.local_port),
            (Some(65_536), Some(1_000_000_000), Some(25_001))
        );
        assert!(!spec.layout.sync && spec.quiet && spec.verbose && spec.nodelay);
        let spec = asked("-r -m 4,*,192.0.2.9 -M -H -R -K eth0 --show-dev-interrupts LOC").unwrap();
        assert_eq!((spec.role, spec.layout.ports, spec.layout.threads), (Role::Receiver, 4, 1));
        assert_eq!((spec.address.as_deref(), spec.nic.as_deref()), (Some("192.0.2.9"), Some("eth0")));
        assert!(
            spec.layout.multi && spec.hold && spec.retransmits && spec.interrupts.as_deref() == Some("LOC")
        );
        assert_eq!(asked("-s 10.0.0.1").unwrap().address.as_deref(), Some("10.0.0.1"));
        assert_eq!(asked("-r").unwrap(), Spec { role_given: true, ..Spec::default() });
        // As getopt reads them: letters without a value in one word, the last one with one.
        let spec = asked("-rNVQ -6 -HP4").unwrap();
        assert!(!spec.verbose && spec.address.as_deref() == Some("NVQ") && spec.v6 && spec.hold);
        let spec = asked("-r -NVQP4 --fq-rate-limit=1G").unwrap();
        assert!(!spec.layout.sync && spec.verbose && spec.quiet && spec.layout.ports == 4);
        assert_eq!((spec.fq_limit, spec.limit), (Some(1_000_000_000), None));
    }

    #[test]
    fn the_kernels_limit_is_shared_by_all_connections() {
        // 4 ports, 2 threads each, 1 connection each: an eighth of 1 Gbit/s.
        let words = "-s10.0.0.1 -P4 -n2 --fq-rate-limit 1G";
        let of = |more: &str| {
            let phase = asked(&format!("{words}{more}")).unwrap().phase();
            (phase.sockets.pacing, phase.rate)
        };
        assert_eq!(of(""), (Some(125_000_000), None));
        assert_eq!(of(" -u"), (Some(125_000_000), Some(125_000_000)));
        // -B wins.
        assert_eq!(of(" -B 80M"), (None, Some(10_000_000)));
    }

    #[test]
    fn what_cannot_be_is_told_in_a_sentence() {
        for (words, why) in [
            ("-s", "needs the receiver's address"),
            ("-r -P 0", "from 1 to 512"),
            ("-r -P", "needs a value"),
            ("-Z", "not an option"),
            ("word", "not an option"),
            ("-r -s10.0.0.1", "exclude each other"),
            ("-r -p 65535 -P 2", "beyond 65535"),
            ("-s10.0.0.1 -m 4,*", "threads,cpu,address"),
            ("-s10.0.0.1 -B x", "number above 0"),
            ("-h", "help"),
        ] {
            let told = asked(words).unwrap_err();
            assert!(told.contains(why), "{words}: {told}");
        }
    }
}
