//! The command line: getopt's letters, of which some take a value only when it is glued to them or
//! does not begin with '-'.

use super::windows;
use crate::Layout;
use compat::options::{self, Opt, Request, Stop, Takes, Value, find, request, stop, whole};
use metrics::{Clamped, SECOND};
use model::{Address, Kind, Pattern, Phase, Probe, Range, SocketSettings, Verify, Waiting};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    #[default]
    Receiver,
    Sender,
}

/// A command line, understood.
///
/// Wide: a field for each option of the original.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spec {
    pub(crate) role: Role,
    /// True if the command line has a role.
    pub(crate) role_given: bool,
    /// Address to send to, or to listen at.
    pub(crate) address: Option<String>,
    /// Layout and times of the test.
    pub(crate) layout: Layout,
    /// One test after the other (`-H`).
    pub(crate) hold: bool,
    /// Bytes of a write or read (`-b`).
    pub(crate) buffer: Option<u64>,
    /// Limit of all connections together, bits/s (`-B`).
    pub(crate) limit: Option<u64>,
    /// The same, to be kept by the kernel (`--fq-rate-limit`); `-B` wins.
    pub(crate) fq_limit: Option<u64>,
    /// First local port (`-f`).
    pub(crate) local_port: Option<u16>,
    /// Local address (`-a`).
    pub(crate) local: Option<Address>,
    /// `--no-delay`.
    pub(crate) nodelay: bool,
    /// No real-time lines (`-Q`).
    pub(crate) quiet: bool,
    /// More detail (`-V`).
    pub(crate) verbose: bool,
    /// Retransmit rates (`--show-tcp-retrans`).
    pub(crate) retransmits: bool,
    /// Packets of this interface (`--show-nic-packets`).
    pub(crate) nic: Option<String>,
    /// Interrupts of lines that hold this (`--show-dev-interrupts`).
    pub(crate) interrupts: Option<String>,
    /// Windows NTttcp's command line and report.
    pub(crate) windows: bool,
    /// Windows: bytes of a thread, where no time is given (`-n` times `-l`).
    pub(crate) transfer: Option<u64>,
    /// Windows: the address of each port, from the mapping.
    pub(crate) hosts: Vec<String>,
    /// Windows: `SO_SNDBUF` (`-sb`).
    pub(crate) sndbuf: Option<u64>,
    /// Windows: `SO_RCVBUF` (`-rb`).
    pub(crate) rcvbuf: Option<u64>,
    /// Windows: how long nothing may move, ms (`-to`).
    pub(crate) patience_ms: Option<u64>,
    /// Windows: limit of a thread, bits/s (`-thr`).
    pub(crate) thread_limit: Option<u64>,
    /// IPv6 only (`-6`).
    pub(crate) v6: bool,
    /// File for a copy of the console's lines (`-O`).
    pub(crate) log: Option<String>,
    /// The XML file (`-x`).
    pub(crate) xml: Option<String>,
    /// The JSON file (`-j`).
    pub(crate) json: Option<String>,
    /// Arguments without an effect here, each with the reason.
    pub(crate) ignored: Vec<String>,
}

/// Most bytes of a datagram over IPv4: 65535 less both headers.
pub(super) const LARGEST_DATAGRAM: u64 = 65_507;

/// An option whose value is missing or begins with `-` takes none.
const OPTIONS: &[Opt<Spec>] = ::compat::options! { Spec:
    "h help" Flag |_, _| stop(Stop::Help)?;
    "r s" Maybe |o, v| {
        one_role(o, if v.name == "-r" { Role::Receiver } else { Role::Sender })?;
        o.address = v.text.map(str::to_owned).or(o.address.take());
    };
    "m" Value |o, v| {
        let (ports, host) = mapping(o, v.text())?;
        (o.layout.ports, o.layout.threads) = (ports, 1);
        if host != "*" {
            o.address = Some(host.to_owned());
        }
    };
    "P" Value |o, v| o.layout.ports = v.whole(1, MOST_PORTS)?;
    "n" Value |o, v| o.layout.threads = v.whole(1, 25_600)?;
    "l" Value |o, v| o.layout.connections = v.whole(1, 1_000)?;
    "p" Value |o, v| o.layout.port = v.whole(2, 65_535)?;
    "f" Maybe |o, v| {
        let first = if v.text.is_some() { v.whole(1, 65_535)? } else { FIRST_LOCAL };
        o.local_port = Some(if first <= 1024 { FIRST_LOCAL } else { first });
    };
    "a" Value |o, v| o.local = Some(address(v)?);
    "b" Value |o, v| o.buffer = Some(scaled(v, 1024)?.clamp(1, 16 << 20));
    "B" Value |o, v| o.limit = Some(scaled(v, 1000)?.max(8));
    "W" Value |o, v| o.layout.warmup_s = v.whole(0, 86_400)?;
    "t" Value |o, v| o.layout.seconds = v.whole(0, 31_536_000)?;
    "C" Value |o, v| o.layout.cooldown_s = v.whole(0, 86_400)?;
    "N" Flag |o, _| o.layout.sync = false;
    "M L" Flag |o, _| o.layout.multi = true;
    "H" Flag |o, _| o.hold = true;
    "Q" Flag |o, _| o.quiet = true;
    "V" Flag |o, _| o.verbose = true;
    "no-delay" Flag |o, _| o.nodelay = true;
    "R show-tcp-retrans" Flag |o, _| o.retransmits = true;
    "K show-nic-packets" Value |o, v| o.nic = v.text.map(str::to_owned);
    "I show-dev-interrupts" Value |o, v| o.interrupts = v.text.map(str::to_owned);
    "u" Flag |o, _| o.layout.udp = true;
    "O" Maybe |o, v| o.log = Some(v.text.unwrap_or("ntttcp-for-linux-log.log").to_owned());
    "x" Maybe |o, v| o.xml = Some(v.text.unwrap_or("ntttcp-for-linux-log.xml").to_owned());
    "j" Maybe |o, v| o.json = Some(v.text.unwrap_or("ntttcp-for-linux-log.json").to_owned());
    "6" Flag |o, _| o.v6 = true;
    "fq-rate-limit" Value |o, v| o.fq_limit = Some(scaled(v, 1000)?.max(8));
    "e" Flag |o, _| o.ignored.push("-e (connections are always waited for by epoll)".to_owned());
    "D" Flag |o, _| o.ignored.push("-D (it stays in the foreground)".to_owned());
};

/// Most ports of a test, each of which has a thread.
pub(super) const MOST_PORTS: u16 = 512;
/// First local port where none is given, or one that is not free to all.
const FIRST_LOCAL: u16 = 25_001;

/// Reads a command line.
///
/// # Errors
/// One sentence that names what cannot be, and what could.
pub(crate) fn read(arguments: &[String]) -> Result<Request<Box<Spec>>, String> {
    request(if windows::is_meant(arguments) { windows::read(arguments) } else { linux(arguments) })
}

fn linux(arguments: &[String]) -> Result<Box<Spec>, Stop> {
    let mut spec = Spec::default();
    let mut words = arguments.iter().map(String::as_str).peekable();
    // Letters without a value may stand in one word, as getopt has it.
    let mut rest: Option<String> = None;
    while let Some(word) = rest.take().or_else(|| words.next().map(str::to_owned)) {
        let (name, mut text) = split(&word)?;
        let option = find(OPTIONS, name);
        let option = option.ok_or_else(|| format!("'{word}' is not an option of ntttcp: see ntttcp -h"))?;
        match option.takes {
            Takes::Flag if word.starts_with("--") => {}
            Takes::Flag => rest = text.take().map(|letters| format!("-{letters}")),
            Takes::Value => text = text.or_else(|| words.next()),
            Takes::Maybe => text = text.or_else(|| words.next_if(|next| !next.starts_with('-'))),
        }
        if option.takes == Takes::Value && text.is_none() {
            return Err(format!("{word} needs a value").into());
        }
        (option.set)(&mut spec, &Value { name: &format!("-{name}"), text })?;
    }
    finish(&spec)?;
    Ok(Box::new(spec))
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

/// Takes a role, of which there can be one only.
pub(super) fn one_role(spec: &mut Spec, role: Role) -> Result<(), Stop> {
    let given = std::mem::replace(&mut spec.role_given, true);
    match std::mem::replace(&mut spec.role, role) {
        other if given && other != role => stop("-r and -s exclude each other"),
        _ => Ok(()),
    }
}

pub(super) fn address(value: &Value<'_>) -> Result<Address, String> {
    common::original::address(value.name, value.text())
}

/// Threads and address of a mapping, `threads,cpu,address`; the CPU has no effect.
pub(super) fn mapping<'a>(spec: &mut Spec, text: &'a str) -> Result<(u16, &'a str), String> {
    let parts: Vec<&str> = text.split(',').collect();
    let [threads, cpu, address] = parts[..] else {
        return Err(format!("'{text}': -m takes threads,cpu,address such as 4,*,192.0.2.1"));
    };
    let threads = whole(threads, "-m", threads, 1, MOST_PORTS)?;
    if cpu != "*" {
        spec.ignored.push(format!("CPU {cpu} of -m (threads are placed one per core)"));
    }
    Ok((threads, address))
}

/// Checks that the data ports, and those so far `above` them, are ports.
pub(super) fn check_ports(layout: &Layout, above: u16) -> Result<(), String> {
    let last = u32::from(layout.port) + u32::from(layout.ports) - 1 + u32::from(above);
    if last > 65_535 {
        return Err(format!(
            "{} ports from {} on would end at {last}, beyond 65535",
            layout.ports, layout.port
        ));
    }
    Ok(())
}

fn finish(spec: &Spec) -> Result<(), String> {
    check_ports(&spec.layout, 0)?;
    match spec.role {
        Role::Sender if spec.address.is_none() => {
            Err("a sender needs the receiver's address: ntttcp -s192.0.2.1".to_owned())
        }
        _ if spec.layout.udp && spec.nodelay => Err("--no-delay is for TCP, and -u is UDP".to_owned()),
        Role::Sender if spec.hold => Err("-H is for receivers".to_owned()),
        _ => Ok(()),
    }
}

pub(super) fn scaled(value: &Value<'_>, base: u64) -> Result<u64, String> {
    let (name, text) = (value.name, value.text());
    let n = options::scaled(text, base).filter(|n| *n > 0);
    n.ok_or_else(|| format!("'{text}': {name} takes a number above 0, perhaps with K, M or G"))
}

impl Spec {
    pub(crate) fn phase(&self) -> Phase {
        let usual = if self.role == Role::Sender { 128 << 10 } else { 64 << 10 };
        let mut buffer = self.buffer.unwrap_or(usual);
        if self.layout.udp && self.role == Role::Sender {
            // The largest payload of a datagram, as in the original.
            buffer = buffer.min(LARGEST_DATAGRAM);
        }
        let connections = if self.role == Role::Sender { self.layout.all() } else { 1 };
        let each = |bits: u64| (bits / u64::from(connections.max(1))).max(8);
        // The kernel paces TCP itself; datagrams only where the interface's queue is fq, so those
        // we keep back as well.
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
            // A probe's size is bounded; the datagrams sent have the buffer's size.
            probe: self.layout.udp.then(|| Probe {
                size: u32::clamped(buffer.min(LARGEST_DATAGRAM)).max(16),
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
            // Nothing may be sent for the whole length of a test, and the conversation knows when
            // it is over.
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
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn read_words(words: &str) -> Result<Spec, String> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        match read(&words)? {
            Request::Run(spec) => Ok(*spec),
            _ => Err("help".to_owned()),
        }
    }

    #[test]
    fn letters_and_their_values_in_every_form() {
        let spec =
            read_words("-s10.0.0.1 -P 2 -n3 -l 4 -p5201 -t 7 -W 1 -C 2 -b 64K -B 1G -f -N -Q -V --no-delay")
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
        let spec = read_words("-r -m 4,*,192.0.2.9 -M -H -R -K eth0 --show-dev-interrupts LOC").unwrap();
        assert_eq!((spec.role, spec.layout.ports, spec.layout.threads), (Role::Receiver, 4, 1));
        assert_eq!((spec.address.as_deref(), spec.nic.as_deref()), (Some("192.0.2.9"), Some("eth0")));
        assert!(
            spec.layout.multi && spec.hold && spec.retransmits && spec.interrupts.as_deref() == Some("LOC")
        );
        assert_eq!(read_words("-s 10.0.0.1").unwrap().address.as_deref(), Some("10.0.0.1"));
        assert_eq!(read_words("-r").unwrap(), Spec { role_given: true, ..Spec::default() });
        // As getopt reads them: letters without a value in one word, the last one with one.
        let spec = read_words("-rNVQ -6 -HP4").unwrap();
        assert!(!spec.verbose && spec.address.as_deref() == Some("NVQ") && spec.v6 && spec.hold);
        let spec = read_words("-r -NVQP4 --fq-rate-limit=1G").unwrap();
        assert!(!spec.layout.sync && spec.verbose && spec.quiet && spec.layout.ports == 4);
        assert_eq!((spec.fq_limit, spec.limit), (Some(1_000_000_000), None));
    }

    #[test]
    fn the_kernels_limit_is_shared_by_all_connections() {
        // 4 ports, 2 threads each, 1 connection each: an eighth of 1 Gbit/s.
        let words = "-s10.0.0.1 -P4 -n2 --fq-rate-limit 1G";
        let of = |more: &str| {
            let phase = read_words(&format!("{words}{more}")).unwrap().phase();
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
            let told = read_words(words).unwrap_err();
            assert!(told.contains(why), "{words}: {told}");
        }
    }
}
