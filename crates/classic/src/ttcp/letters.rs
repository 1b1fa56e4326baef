//! The classic command line: letters, each with its value behind it or glued to it.

use super::args::{LONGEST, Value};
use super::spec::{Dialect, Role, Spec};

/// Letters with a value.
const VALUED: &[u8] = b"lnpbfAOwISNRmic#PL";

/// Reads the classic letters.
pub(super) fn read(arguments: &[String]) -> Result<Spec, String> {
    let mut spec = Spec::new(Dialect::Classic);
    let (mut role, mut host) = (None, None);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--epi" => (spec.udp, spec.epi) = (true, true),
            "--keep" => spec.keep = true,
            "--as-original" => spec.as_original = true,
            _ => {
                let Some(letters) = word.strip_prefix('-') else {
                    if host.replace(word.clone()).is_some() {
                        return Err(format!("'{word}': there can be one host only"));
                    }
                    continue;
                };
                cluster(letters, &mut words, &mut spec, &mut role)?;
            }
        }
    }
    spec.role = match (role, host) {
        (Some('t'), Some(host)) => Role::Transmit(host),
        (Some('t'), None) => return Err("-t needs the host to send to: ttcp -t -s 192.0.2.1".to_owned()),
        (Some(_), None) => Role::Receive,
        (Some(_), Some(host)) => return Err(format!("'{host}': a receiver takes no host")),
        (None, _) => return Err("ttcp either sends (-t) or receives (-r)".to_owned()),
    };
    Ok(spec)
}

/// One word: letters without a value in a row, the last one perhaps with one.
fn cluster<'a>(
    letters: &str,
    words: &mut impl Iterator<Item = &'a String>,
    spec: &mut Spec,
    role: &mut Option<char>,
) -> Result<(), String> {
    let mut rest = letters;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        let name = format!("-{letter}");
        if u8::try_from(letter).is_ok_and(|byte| VALUED.contains(&byte)) {
            let text = if rest.is_empty() { words.next().map(String::as_str) } else { Some(rest) };
            return assign(letter, &Value { name: &name, text }, spec);
        }
        match letter {
            't' | 'r' => *role = Some(letter),
            'u' => spec.udp = true,
            // Sourcing and sinking patterns is all that we do; it is what -s asks for, or the default.
            's' => {}
            'v' => spec.verbose = true,
            'D' => spec.nodelay = true,
            'B' => spec.full_blocks = true,
            'H' => spec.marks = spec.marks.or(Some(1)),
            'x' => spec.random = true,
            'd' | 'T' | 'V' | 'h' => spec.ignored.push(format!("{name} (has no effect here)")),
            _ => return Err(format!("'{name}' is not an option of ttcp: see ttcp -h")),
        }
    }
    Ok(())
}

fn assign(letter: char, value: &Value<'_>, spec: &mut Spec) -> Result<(), String> {
    match letter {
        'l' => spec.length = value.size(1, LONGEST)?,
        'n' => spec.buffers = value.number(1, 1 << 48)?,
        'p' => spec.port = value.number(0, 65_535)? as u16,
        'b' => spec.socket_buffer = Some(value.size(1, 1 << 30)?),
        'f' => spec.unit = value.unit()?,
        'w' => spec.timeout_ms = value.number(0, 86_400_000)?,
        'I' => spec.seed = value.number(0, u64::MAX)?,
        'N' => spec.burst = Some(value.number(1, 1 << 31)?),
        'm' => spec.mss = Some(value.number(64, 65_535)? as u32),
        'c' => spec.limit_kbps = Some(value.number(1, 1_000_000_000)?),
        '#' => spec.marks = Some(value.number(1, 1 << 48)?),
        _ => {
            value.text()?;
            spec.ignored.push(format!("{} (has no effect here)", value.name));
        }
    }
    Ok(())
}
