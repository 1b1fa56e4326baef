//! Teldat's command line: `tx HOST` or `rx`, then words, most of them with a value.

use super::help;
use super::letters;
use super::spec::{Asked, Dialect, Role, Spec, Unit};

/// Words of Teldat's that did something once.
const OBSOLETE: [&str; 9] = ["-Vr", "-A", "-O", "-R", "-De", "-d", "-Bf", "-T", "-S"];

/// Reads a command line of either kind.
///
/// # Errors
/// One sentence that names what cannot be, and what could.
pub fn read(arguments: &[String]) -> Result<Asked, String> {
    let Some(first) = arguments.first() else { return Ok(Asked::Nothing) };
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["?"] => return Ok(Asked::Next(help::ROLES)),
        ["tx", "?"] => return Ok(Asked::Next(help::HOST)),
        _ => {}
    }
    let asks = |text: &String| matches!(text.as_str(), "-h" | "--help" | "-?" | "?" | "help");
    if arguments.iter().any(asks) {
        return Ok(Asked::Help);
    }
    let mut spec = match first.as_str() {
        "tx" => teldat(transmitter(&arguments[1..])?, &arguments[2..])?,
        "rx" => teldat(Spec::new(Dialect::Teldat), &arguments[1..])?,
        letter if letter.starts_with('-') => letters::read(arguments)?,
        other => {
            return Err(format!("'{other}' is neither tx, nor rx, nor an option such as -t or -r"));
        }
    };
    // As the original: shorter datagrams would be taken for markers.
    if spec.udp {
        spec.length = spec.length.max(5);
    }
    spec.check()?;
    Ok(Asked::Run(Box::new(spec)))
}

fn transmitter(rest: &[String]) -> Result<Spec, String> {
    match rest.first() {
        Some(host) if !host.starts_with('-') => {
            Ok(Spec { role: Role::Transmit(host.clone()), ..Spec::new(Dialect::Teldat) })
        }
        _ => Err("tx needs the address of the receiver: ttcp tx 192.0.2.1".to_owned()),
    }
}

/// The next word's value.
pub(super) struct Value<'a> {
    pub(super) name: &'a str,
    pub(super) text: Option<&'a str>,
}

impl Value<'_> {
    pub(super) fn text(&self) -> Result<&str, String> {
        self.text.ok_or_else(|| format!("{} needs a value", self.name))
    }

    pub(super) fn number(&self, low: u64, high: u64) -> Result<u64, String> {
        let text = self.text()?;
        let n = text.parse().ok().filter(|n| (low..=high).contains(n));
        n.ok_or_else(|| format!("'{text}': {} takes a whole number from {low} to {high}", self.name))
    }

    /// Sizes may end in k, m or g, by 1024 each.
    pub(super) fn size(&self, low: u64, high: u64) -> Result<u64, String> {
        let text = self.text()?;
        let shift = match text.bytes().last() {
            Some(b'k' | b'K') => 10,
            Some(b'm' | b'M') => 20,
            Some(b'g' | b'G') => 30,
            _ => 0,
        };
        let digits = &text[..text.len() - usize::from(shift > 0)];
        let n = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift));
        n.filter(|n| (low..=high).contains(n))
            .ok_or_else(|| format!("'{text}': {} takes {low} to {high} bytes", self.name))
    }

    pub(super) fn unit(&self) -> Result<Unit, String> {
        let text = self.text()?;
        Ok(match text {
            "v" | "b" => Unit::Fixed { bytes: false, prefix: 0 },
            "B" => Unit::Fixed { bytes: true, prefix: 0 },
            "k" => Unit::Fixed { bytes: false, prefix: 1 },
            "K" => Unit::Fixed { bytes: true, prefix: 1 },
            "m" => Unit::Fixed { bytes: false, prefix: 2 },
            "M" => Unit::Fixed { bytes: true, prefix: 2 },
            "g" => Unit::Fixed { bytes: false, prefix: 3 },
            "G" => Unit::Fixed { bytes: true, prefix: 3 },
            _ => {
                return Err(format!(
                    "'{text}': {} takes b, k, m or g for bits, B, K, M or G for bytes",
                    self.name
                ));
            }
        })
    }
}

/// Longest buffer, bytes.
pub(super) const LONGEST: u64 = 16 << 20;

fn teldat(mut spec: Spec, words: &[String]) -> Result<Spec, String> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (name, glued) = word.split_once('=').map_or((word.as_str(), None), |(name, v)| (name, Some(v)));
        if flag(&mut spec, name) {
            continue;
        }
        if OBSOLETE.contains(&name) {
            spec.ignored.push(format!("{name} (obsolete since 11.01.07)"));
            continue;
        }
        if !takes_value(name) {
            return Err(format!("'{name}' is not an option of ttcp: see ttcp -h"));
        }
        let value = Value { name, text: glued.or_else(|| words.next().map(String::as_str)) };
        assign(&mut spec, &value)?;
    }
    Ok(spec)
}

fn flag(spec: &mut Spec, name: &str) -> bool {
    match name {
        "verbose" | "-v" => spec.verbose = true,
        "phmarks" | "-H" => spec.marks = spec.marks.or(Some(1)),
        "random" | "-x" => spec.random = true,
        "perc" => spec.percent = true,
        "-u" => spec.udp = true,
        "--epi" => (spec.udp, spec.epi) = (true, true),
        "--keep" => spec.keep = true,
        "--as-original" => spec.as_original = true,
        _ => return false,
    }
    true
}

fn takes_value(name: &str) -> bool {
    const NAMES: [&str; 28] = [
        "nsrcb", "nsrbc", "-n", "blen", "-l", "port", "-p", "timeout", "-w", "nbhmarks", "-#", "sbsize",
        "-b", "nsrcbb", "-Ns", "iRNG", "irng", "-I", "frate", "-f", "rlimit", "-c", "mss", "time", "nbsize",
        "-N", "-m", "-t",
    ];
    NAMES.contains(&name)
}

fn assign(spec: &mut Spec, value: &Value<'_>) -> Result<(), String> {
    match value.name {
        "nsrcb" | "nsrbc" | "-n" => spec.buffers = value.number(1, 1 << 48)?,
        "blen" | "-l" => spec.length = value.size(1, LONGEST)?,
        "port" | "-p" => spec.port = value.number(0, 65_535)? as u16,
        "timeout" | "-w" => spec.timeout_ms = value.number(0, 86_400_000)?,
        "nbhmarks" | "-#" => spec.marks = Some(value.number(1, 1 << 48)?),
        "sbsize" | "-b" => spec.socket_buffer = Some(value.size(1, 1 << 30)?),
        "nsrcbb" | "-Ns" | "-N" => spec.burst = Some(value.number(1, 1 << 31)?),
        "iRNG" | "irng" | "-I" => spec.seed = value.number(0, u64::MAX)?,
        "frate" | "-f" => spec.unit = value.unit()?,
        "rlimit" | "-c" => spec.limit_kbps = Some(value.number(1, 1_000_000_000)?),
        "mss" | "-m" => spec.mss = Some(value.number(64, 65_535)? as u32),
        "time" | "-t" => spec.seconds = Some(value.number(1, 31_536_000)?),
        other => return Err(format!("'{other}' is not an option of ttcp: see ttcp -h")),
    }
    Ok(())
}
