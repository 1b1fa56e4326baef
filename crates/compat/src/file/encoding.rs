//! Bytes as text: what packs them, which encoding they are in, and what terminals and copies leave
//! among them.

use super::HEAD;
use flate2::bufread::GzDecoder;
use metrics::Clamped;
use std::borrow::Cow;
use std::io::{self, Read};

/// Largest file, unpacked, bytes.
pub const LARGEST: u64 = 1 << 29;
/// Most packings of one file within each other.
const MOST_PACKED: usize = 3;
/// First bytes of gzip's members.
const GZIP: &[u8] = &[0x1f, 0x8b];
/// First bytes of files that are to be unpacked by their own programs, and the names of those.
const PACKED: [(&[u8], &str); 7] = [
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"PK\x03\x04", "zip"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip"),
    (b"\x1f\x9d", "compress"),
];
/// Byte order mark, also where files with one were joined.
const MARK: char = '\u{feff}';

/// All bytes of `from`, at most as many as a file may have.
///
/// # Errors
/// Why they cannot be read.
pub fn read_bounded(from: impl Read) -> io::Result<Vec<u8>> {
    bounded(from, LARGEST)
}

pub(super) fn bounded(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes)?;
    if u64::clamped(bytes.len()) > most {
        return Err(io::Error::other("the file is too large: more than 512 MiB"));
    }
    Ok(bytes)
}

/// The content of a packed file, of all its members, and how many bytes follow that are no member;
/// zeros, which fill blocks, are none.
pub(super) fn unpacked(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, String> {
    let mut found = None::<(Vec<u8>, usize)>;
    for _ in 0..MOST_PACKED {
        let packed = found.as_ref().map_or(bytes, |(bytes, _)| bytes);
        if let Some((_, program)) = PACKED.iter().find(|(magic, _)| packed.starts_with(magic)) {
            return Err(format!("the file is packed with {program}: unpack it first"));
        }
        if packed.get(257..262) == Some(b"ustar") {
            return Err("the file is an archive of tar: unpack it first".to_owned());
        }
        if !packed.starts_with(GZIP) {
            break;
        }
        let (bytes, more) = members(packed)?;
        let behind = found.map_or(0, |(_, behind)| behind);
        found = Some((bytes, behind + more));
    }
    Ok(found)
}

/// The content of gzip's members, and the number of bytes behind them.
fn members(packed: &[u8]) -> Result<(Vec<u8>, usize), String> {
    let wrong = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => "the packed file is cut short: copy it again".to_owned(),
        _ => format!("the file cannot be unpacked: {error}"),
    };
    let (mut all, mut rest) = (Vec::new(), packed);
    while rest.starts_with(GZIP) {
        let mut member = GzDecoder::new(rest);
        let room = LARGEST.saturating_sub(u64::clamped(all.len()));
        all.extend(bounded(&mut member, room).map_err(wrong)?);
        rest = member.into_inner();
    }
    let behind = if rest.iter().all(|byte| *byte == 0) { 0 } else { rest.len() };
    Ok((all, behind))
}

/// Text, as [`decode`] makes it.
///
/// # Errors
/// One sentence when the bytes are no text.
pub(super) fn text(bytes: &[u8]) -> Result<Cow<'_, str>, String> {
    let text = decode(bytes);
    let zeros = |text: &str| text.chars().filter(|c| *c == '\0').count();
    let inner = text.trim_matches('\0');
    let head: String = inner.chars().take(HEAD).collect();
    // One among thousands is a damaged character; a binary file has them everywhere.
    if zeros(&head) > head.len() / 50 + 1 || (inner.is_empty() && !text.is_empty()) {
        return Err(
            "the file is no text: an outcome, a journal or another program's printout is expected".to_owned()
        );
    }
    Ok(text)
}

/// An encoding of units of more than a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wide {
    Utf16Le,
    Utf16Be,
    Utf32Le,
    Utf32Be,
}

impl Wide {
    /// The encoding that a byte order mark names, and the mark's length.
    fn marked(bytes: &[u8]) -> Option<(Wide, usize)> {
        match bytes {
            [0xff, 0xfe, 0, 0, ..] => Some((Wide::Utf32Le, 4)),
            [0, 0, 0xfe, 0xff, ..] => Some((Wide::Utf32Be, 4)),
            [0xff, 0xfe, ..] => Some((Wide::Utf16Le, 2)),
            [0xfe, 0xff, ..] => Some((Wide::Utf16Be, 2)),
            _ => None,
        }
    }

    /// The encoding that the places of zeros show: ASCII has one or three of them in each unit.
    fn guessed(bytes: &[u8]) -> Option<Wide> {
        let head = &bytes[..bytes.len().min(HEAD)];
        let zeros = |place: usize| head.iter().skip(place).step_by(4).filter(|byte| **byte == 0).count();
        let quarter = head.len() / 4;
        let full = |place| quarter > 0 && zeros(place) > quarter * 3 / 4;
        let empty = |place| zeros(place) < quarter.div_ceil(4);
        match [0, 1, 2, 3].map(|place| (full(place), empty(place))) {
            [(_, true), (true, _), (true, _), (true, _)] => Some(Wide::Utf32Le),
            [(true, _), (true, _), (true, _), (_, true)] => Some(Wide::Utf32Be),
            [(_, true), (true, _), (_, true), (true, _)] => Some(Wide::Utf16Le),
            [(true, _), (_, true), (true, _), (_, true)] => Some(Wide::Utf16Be),
            _ => None,
        }
    }

    fn text(self, bytes: &[u8]) -> String {
        let two = |unit: fn([u8; 2]) -> u16| {
            let units = bytes.chunks_exact(2).map(move |two| unit([two[0], two[1]]));
            char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
        };
        let four = |unit: fn([u8; 4]) -> u32| {
            let units = bytes.chunks_exact(4).map(move |four| unit([four[0], four[1], four[2], four[3]]));
            units.map(|unit| char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
        };
        match self {
            Wide::Utf16Le => two(u16::from_le_bytes),
            Wide::Utf16Be => two(u16::from_be_bytes),
            Wide::Utf32Le => four(u32::from_le_bytes),
            Wide::Utf32Be => four(u32::from_be_bytes),
        }
    }
}

/// True if the file has the byte order mark of UTF-16.
pub(super) fn is_utf16(bytes: &[u8]) -> bool {
    matches!(Wide::marked(bytes), Some((Wide::Utf16Le | Wide::Utf16Be, _)))
}

/// Text of UTF-8, UTF-16 or UTF-32, with or without byte order marks, also of UTF-8 to which a
/// program appended UTF-16. Invalid characters are replaced; colours and other commands of
/// terminals are left out, and a carriage return alone ends a line.
pub fn decode(bytes: &[u8]) -> Cow<'_, str> {
    let text = match Wide::marked(bytes) {
        Some((wide, mark)) => Cow::Owned(wide.text(&bytes[mark..])),
        // A unit of ASCII has a zero among its first four bytes; text before the first zero is of
        // another encoding.
        None => match Wide::guessed(bytes).filter(|_| bytes[..bytes.len().min(4)].contains(&0)) {
            Some(wide) => Cow::Owned(wide.text(bytes)),
            None => narrow(bytes),
        },
    };
    if text.contains([MARK, '\r', '\u{1b}']) { Cow::Owned(plain(&text)) } else { text }
}

/// UTF-8, up to where UTF-16 follows: behind its mark, or from the first character with a zero on.
fn narrow(bytes: &[u8]) -> Cow<'_, str> {
    let zero = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let mark = bytes[..zero].windows(2).position(|two| Wide::marked(two).is_some());
    let from = mark.unwrap_or(zero.saturating_sub(1));
    let (before, behind) = bytes.split_at(from);
    let behind = match Wide::marked(behind) {
        Some((wide, mark)) => wide.text(&behind[mark..]),
        None if zero < bytes.len() && Wide::guessed(behind) == Some(Wide::Utf16Le) => {
            Wide::Utf16Le.text(behind)
        }
        None => return String::from_utf8_lossy(bytes),
    };
    Cow::Owned(String::from_utf8_lossy(before).into_owned() + &behind)
}

/// `text` without marks and commands of terminals, each of its lines ended by a line feed.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find([MARK, '\r', '\u{1b}']) {
        plain.push_str(&rest[..at]);
        let found = &rest[at..];
        let behind = &found[found.chars().next().map_or(0, char::len_utf8)..];
        rest = behind;
        if found.starts_with('\r') {
            plain.push(if behind.starts_with('\n') { '\r' } else { '\n' });
        } else if found.starts_with('\u{1b}') {
            match command(behind) {
                Some(length) => rest = &behind[length..],
                None => plain.push('\u{1b}'),
            }
        }
    }
    plain.push_str(rest);
    plain
}

/// Length of a command of ECMA-48 (colours, places) behind its escape; `None` where none follows.
fn command(behind: &str) -> Option<usize> {
    let parameters = behind.strip_prefix('[')?;
    let end = parameters.find(|c: char| !matches!(c, ' '..='?'))?;
    matches!(parameters.as_bytes()[end], b'@'..=b'~').then_some(end + 2)
}
