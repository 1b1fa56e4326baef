//! The command lines: Teldat's `tx HOST` or `rx` and then words, most of them with a value; or the
//! classic letters.

use super::spec::{Dialect, Request, Spec, TransferRole, Unit};
use super::{help, words};
use compat::options::{Letters, Opt, Stop, Takes, Value, find, scaled};

/// Longest buffer, bytes.
const LONGEST: u64 = 16 << 20;

#[derive(Default)]
struct RawOptions {
    spec: Spec,
    /// The classic program's `-t` or `-r`, and its host.
    role: Option<char>,
    host: Option<String>,
}

const WORDS: &[Opt<RawOptions>] = ::compat::options! { RawOptions:
    "verbose -v" Flag |o, _| o.spec.verbose = true;
    "phmarks -H" Flag |o, _| o.spec.marks = o.spec.marks.or(Some(1));
    "random -x" Flag |o, _| o.spec.random = true;
    "perc" Flag |o, _| o.spec.percent = true;
    "-u" Flag |o, _| o.spec.udp = true;
    "-Vr -A -O -R -De -d -Bf -T -S" Flag |o, v| o.spec.ignored.push(format!("{} (obsolete since 11.01.07)", v.name));
    "nsrcb nsrbc -n" Value |o, v| o.spec.buffers = v.whole(1, 1 << 48)?;
    "blen -l" Value |o, v| o.spec.length = size(v, LONGEST)?;
    "port -p" Value |o, v| o.spec.port = v.whole(0, 65_535)?;
    "timeout -w" Value |o, v| o.spec.timeout_ms = v.whole(0, 86_400_000)?;
    "nbhmarks -#" Value |o, v| o.spec.marks = Some(v.whole(1, 1 << 48)?);
    "sbsize -b" Value |o, v| o.spec.socket_buffer = Some(size(v, 1 << 30)?);
    "nsrcbb -Ns -N" Value |o, v| o.spec.burst = Some(v.whole(1, 1 << 31)?);
    "iRNG irng -I" Value |o, v| o.spec.seed = v.whole(0, u64::MAX)?;
    "frate -f" Value |o, v| o.spec.unit = unit(v)?;
    "rlimit -c" Value |o, v| o.spec.limit_kbps = Some(v.whole(1, 1_000_000_000)?);
    "mss -m" Value |o, v| o.spec.mss = Some(v.whole(64, 65_535)?);
    "time" Value |o, v| o.spec.seconds = Some(v.whole(1, 31_536_000)?);
};

/// Options of the classic program besides or instead of Teldat's letters. Sourcing and sinking
/// patterns (`-s`) is all that we do.
const LETTERS: &[Opt<RawOptions>] = ::compat::options! { RawOptions:
    "-t -r" Flag |o, v| o.role = v.name.chars().last();
    "-s" Flag |_, _| ();
    "-D" Flag |o, _| o.spec.nodelay = true;
    "-B" Flag |o, _| o.spec.full_blocks = true;
    "-d -T -V -h" Flag |o, v| o.spec.ignored.push(format!("{} (has no effect here)", v.name));
    "-A -O -S -R -i -P -L" Value |o, v| o.spec.ignored.push(format!("{} (has no effect here)", v.name));
};

const OURS: &[Opt<RawOptions>] = ::compat::options! { RawOptions:
    "--epi" Flag |o, _| (o.spec.udp, o.spec.epi) = (true, true);
    "--keep" Flag |o, _| o.spec.keep = true;
    "--as-original" Flag |o, _| o.spec.as_original = true;
};

fn unknown(name: &str) -> String {
    format!("'{name}' is not an option of ttcp: see ttcp -h")
}

fn missing(name: &str) -> String {
    format!("{name} needs a value")
}

/// Sizes may end in k, m or g, by 1024 each.
fn size(value: &Value<'_>, high: u64) -> Result<u64, String> {
    let (name, text) = (value.name, value.text());
    let n = scaled(text, 1024).filter(|n| (1..=high).contains(n));
    n.ok_or_else(|| format!("'{text}': {name} takes 1 to {high} bytes"))
}

fn unit(value: &Value<'_>) -> Result<Unit, String> {
    let (name, text) = (value.name, value.text());
    let prefix = "bkmg".find(text.to_ascii_lowercase().as_str()).filter(|_| text.len() == 1);
    match (prefix, text) {
        (_, "v") => Ok(Unit::Fixed { bytes: false, prefix: 0 }),
        (Some(prefix), _) => Ok(Unit::Fixed { bytes: text.starts_with(char::is_uppercase), prefix }),
        _ => Err(format!("'{text}': {name} takes b (or v), k, m or g for bits, B, K, M or G for bytes")),
    }
}

/// Reads a command line of either kind.
///
/// # Errors
/// One sentence that names what cannot be, and what could.
pub(crate) fn read(arguments: &[String]) -> Result<Request, String> {
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => return Ok(Request::Nothing),
        ["?"] => return Ok(Request::Next(help::ROLES.to_owned())),
        ["tx", "?"] => return Ok(Request::Next(help::HOST.to_owned())),
        ["tx", _, .., "?"] => return Ok(Request::Next(words(true))),
        ["rx", .., "?"] => return Ok(Request::Next(words(false))),
        _ => {}
    }
    if arguments.iter().any(|text| matches!(text.as_str(), "-h" | "--help" | "-?" | "?" | "help")) {
        return Ok(Request::Help);
    }
    let read = match (arguments[0].as_str(), arguments.get(1)) {
        ("tx", Some(host)) if !host.starts_with('-') => {
            teldat(TransferRole::Transmit(host.clone()), &arguments[2..])
        }
        ("tx", _) => Err("tx needs the address of the receiver: ttcp tx 192.0.2.1".into()),
        ("rx", _) => teldat(TransferRole::Receive, &arguments[1..]),
        (letter, _) if letter.starts_with('-') => classic(arguments),
        (other, _) => Err(format!("'{other}' is neither tx, nor rx, nor an option such as -t or -r").into()),
    };
    let mut spec = match read {
        Ok(spec) => spec,
        Err(Stop::Wrong(text)) => return Err(text),
        Err(_) => return Ok(Request::Help),
    };
    // As the original: shorter datagrams would be taken for markers.
    if spec.udp {
        spec.length = spec.length.max(5);
    }
    spec.check()?;
    Ok(Request::Run(Box::new(spec)))
}

fn teldat(role: TransferRole, given: &[String]) -> Result<Spec, Stop> {
    let mut options =
        RawOptions { spec: Spec { role, ..Spec::new(Dialect::Teldat) }, ..RawOptions::default() };
    let mut given = given.iter();
    while let Some(word) = given.next() {
        let (name, glued) = word.split_once('=').map_or((word.as_str(), None), |(name, v)| (name, Some(v)));
        let option = find(WORDS, name).or_else(|| find(OURS, name)).ok_or_else(|| unknown(name))?;
        let text = match option.takes {
            Takes::Value => {
                Some(glued.or_else(|| given.next().map(String::as_str)).ok_or_else(|| missing(name))?)
            }
            _ => None,
        };
        (option.set)(&mut options, &Value { name, text })?;
    }
    Ok(options.spec)
}

fn classic(arguments: &[String]) -> Result<Spec, Stop> {
    let mut options = RawOptions { spec: Spec::new(Dialect::Classic), ..RawOptions::default() };
    let dashed = |letter: &str| format!("-{letter}");
    let letters = Letters {
        find: &|letter| find(LETTERS, &dashed(letter)).or_else(|| find(WORDS, &dashed(letter))),
        unknown: &|letter| unknown(&dashed(letter)),
        missing: &|letter| missing(&dashed(letter)),
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if let Some(option) = find(OURS, word) {
            (option.set)(&mut options, &Value { name: word, text: None })?;
        } else if let Some(word) = word.strip_prefix('-') {
            letters.read(word, &mut words, &mut |option, value| {
                (option.set)(&mut options, &Value { name: &dashed(value.name), ..value })
            })?;
        } else if options.host.replace(word.clone()).is_some() {
            return Err(format!("'{word}': there can be one host only").into());
        }
    }
    options.spec.role = match (options.role, options.host) {
        (Some('t'), Some(host)) => TransferRole::Transmit(host),
        (Some('t'), None) => return Err("-t needs the host to send to: ttcp -t -s 192.0.2.1".into()),
        (Some(_), None) => TransferRole::Receive,
        (Some(_), Some(host)) => return Err(format!("'{host}': a receiver takes no host").into()),
        (None, _) => return Err("ttcp either sends (-t) or receives (-r)".into()),
    };
    Ok(options.spec)
}
