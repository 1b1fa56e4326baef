//! One door for files: bytes become text, the text documents, and lines that are none are passed
//! over with a notice.
//!
//! Recognition follows: a document is of the program that it names itself ([`crate::import`]),
//! never of one that it resembles.

use flate2::bufread::GzDecoder;
use metrics::{Clamped, format_count};
use model::document::{check_syntax, top_field};
use model::{clean_json, clean_lines};
use serde_json::Value;
use std::borrow::Cow;
use std::io::{self, Read};

/// Largest file, unpacked, bytes.
pub const LARGEST: u64 = 1 << 29;
/// Bytes at the beginning that show the encoding.
const HEAD: usize = 4096;
/// Lines that a notice names; of more the number.
const MOST_NAMED: usize = 5;
/// Characters of a line that a message quotes.
const QUOTED: usize = 60;

/// A file, read.
#[derive(Debug, Default)]
pub struct File {
    /// Its documents, in order.
    pub documents: Vec<Document>,
    /// Notices about lines that were passed over.
    pub notices: Vec<String>,
}

/// The form of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A JSON object.
    Json,
    /// JSON objects, one a line, each an event.
    Events,
    /// Text of another kind: all of the file.
    Text,
}

/// One document of a file.
#[derive(Debug)]
pub struct Document {
    pub form: Form,
    /// The file is in UTF-16 with a byte order mark: for ctsTraffic's tables a sign of the
    /// original.
    pub is_utf16: bool,
    /// Without characters that a terminal obeys.
    pub text: String,
    /// Line of the file on which it begins, from 1.
    pub line: usize,
}

/// All bytes of `from`, at most as many as a file may have.
///
/// # Errors
/// Why they cannot be read.
pub fn read_bounded(from: impl Read) -> io::Result<Vec<u8>> {
    bounded(from, LARGEST)
}

fn bounded(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes)?;
    if u64::clamped(bytes.len()) > most {
        return Err(io::Error::other("the file is too large: more than 512 MiB"));
    }
    Ok(bytes)
}

/// Opens a file.
///
/// # Errors
/// One sentence when it holds no text.
pub fn open(bytes: &[u8]) -> Result<File, String> {
    let (unpacked, behind) = unpacked(bytes)?.map_or((None, 0), |(all, behind)| (Some(all), behind));
    let bytes = unpacked.as_deref().unwrap_or(bytes);
    let text = text(bytes)?;
    let is_zero = |c: char| c == '\0';
    // A crash of the host, and some copies, leave zeros around a text.
    let zeros = text.len() - text.trim_matches(is_zero).len();
    let text = clean_lines(text.trim_matches(is_zero));
    if text.trim().is_empty() {
        return Err("the file is empty".to_owned());
    }
    let is_utf16 = [[0xff, 0xfe], [0xfe, 0xff]].iter().any(|mark| bytes.starts_with(mark));
    let mut file = array(&text).unwrap_or_else(|| split(&text));
    let passed = [(zeros, "zero byte", "around the text"), (behind, "byte", "behind the packed data")];
    let passed = passed.into_iter().filter(|(n, ..)| *n > 0);
    file.notices.extend(
        passed.map(|(n, what, at)| format!("passed over: {} {at}", format_count(u64::clamped(n), what))),
    );
    file.documents.iter_mut().for_each(|document| document.is_utf16 = is_utf16);
    Ok(file)
}

/// The content of a packed file, of all its members, and how many bytes follow that are no member;
/// zeros, which fill blocks, are none.
fn unpacked(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, String> {
    if bytes.starts_with(b"BZh") {
        return Err("the file is packed with bzip2: unpack it first".to_owned());
    }
    let magic = [0x1f, 0x8b];
    if !bytes.starts_with(&magic) {
        return Ok(None);
    }
    let wrong = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => "the packed file is cut short: copy it again".to_owned(),
        _ => format!("the file cannot be unpacked: {error}"),
    };
    let (mut all, mut rest) = (Vec::new(), bytes);
    while rest.starts_with(&magic) {
        let mut member = GzDecoder::new(rest);
        let room = LARGEST.saturating_sub(u64::clamped(all.len()));
        all.extend(bounded(&mut member, room).map_err(wrong)?);
        rest = member.into_inner();
    }
    let behind = if rest.iter().all(|byte| *byte == 0) { 0 } else { rest.len() };
    Ok(Some((all, behind)))
}

/// Text of UTF-8 or UTF-16, as [`decode`] makes it.
///
/// # Errors
/// One sentence when the bytes are no text.
fn text(bytes: &[u8]) -> Result<Cow<'_, str>, String> {
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

/// Text of UTF-8 or UTF-16, with or without a byte order mark. Invalid characters are replaced.
pub fn decode(bytes: &[u8]) -> Cow<'_, str> {
    let head = &bytes[..bytes.len().min(HEAD)];
    // ASCII in UTF-16 has a zero in every second byte.
    let zeros = |from: usize| head.iter().skip(from).step_by(2).filter(|byte| **byte == 0).count();
    let half = head.len() / 2;
    let wide = half > 1 && zeros(0).max(zeros(1)) > half * 3 / 4 && zeros(0).min(zeros(1)) < half / 4;
    match bytes {
        [0xff, 0xfe, rest @ ..] => Cow::Owned(utf16(rest, u16::from_le_bytes)),
        [0xfe, 0xff, rest @ ..] => Cow::Owned(utf16(rest, u16::from_be_bytes)),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest),
        _ if wide && zeros(0) < zeros(1) => Cow::Owned(utf16(bytes, u16::from_le_bytes)),
        _ if wide => Cow::Owned(utf16(bytes, u16::from_be_bytes)),
        _ => String::from_utf8_lossy(bytes),
    }
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let units = bytes.chunks_exact(2).map(|two| unit([two[0], two[1]]));
    char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// The objects of a list of objects, as `jq -s` makes of several documents.
fn array(text: &str) -> Option<File> {
    if !text.trim_start().starts_with('[') {
        return None;
    }
    let values: Vec<Value> = serde_json::from_str(text).ok()?;
    let object = |value: &Value| value.is_object().then(|| clean_json(&value.to_string()).into_owned());
    let texts: Vec<String> = values.iter().map(object).collect::<Option<_>>()?;
    let document = |text| Document { form: Form::Json, is_utf16: false, text, line: 1 };
    (!texts.is_empty())
        .then(|| File { documents: texts.into_iter().map(document).collect(), ..File::default() })
}

/// Index behind the end of the line at `at`.
fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |n| at + n + 1)
}

/// The documents of `text`; without an object on a line of its own, all of it is one.
fn split(text: &str) -> File {
    let mut file = File::default();
    let mut passed = Vec::new();
    // The place up to which lines are counted, and how many there are.
    let (mut counted, mut lines) = (0, 1);
    let mut line_at = |at: usize| {
        lines += text[counted..at].bytes().filter(|byte| *byte == b'\n').count();
        counted = at;
        lines
    };
    let mut at = 0;
    while at < text.len() {
        let end = line_end(text, at);
        let start = at + text[at..end].len() - text[at..end].trim_start().len();
        if start >= end {
            at = end;
            continue;
        }
        let line = line_at(start);
        if !text[start..].starts_with('{') {
            passed.push((line, text[start..end].trim_end()));
            at = end;
            continue;
        }
        let first = text[start..end].trim_end();
        let (form, to) = match event(first) {
            Some(tag) => (Form::Events, events_end(text, end, &tag)),
            None => (Form::Json, object_end(text, start)),
        };
        let own = &text[start..to];
        if form == Form::Events && event(first).as_deref() != Some(OURS) {
            // A journal of this program is damaged by such a line, and its reader says so.
            let lines = (line..).zip(own.lines()).map(|(line, text)| (line, text.trim()));
            passed.extend(lines.filter(|(_, text)| !text.is_empty() && parsed(text).is_none()));
        }
        let text = clean_json(own).into_owned();
        file.documents.push(Document { form, is_utf16: false, text, line });
        at = to;
    }
    let damaged = |document: &Document| document.form == Form::Json && parsed(&document.text).is_none();
    if !passed.is_empty() && file.documents.iter().all(damaged) {
        // A printout with a brace somewhere.
        let text = text.to_owned();
        return File {
            documents: vec![Document { form: Form::Text, is_utf16: false, text, line: 1 }],
            ..File::default()
        };
    }
    file.notices.extend(notice(&passed));
    file
}

/// Notice about lines that were passed over.
fn notice(passed: &[(usize, &str)]) -> Option<String> {
    let named = passed.iter().take(MOST_NAMED);
    let named: Vec<String> = named.map(|(line, text)| format!("line {line} ('{}')", quoted(text))).collect();
    let more = passed.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 {
        format!(" and {}", format_count(u64::clamped(more), "further line"))
    } else {
        String::new()
    };
    (!passed.is_empty()).then(|| format!("passed over, being no JSON: {}{more}", named.join(", ")))
}

/// The beginning of a line, as messages quote it.
pub fn quoted(line: &str) -> String {
    let line = model::clean(line.trim());
    let short: String = line.chars().take(QUOTED).collect();
    if short.len() < line.len() { format!("{short}…") } else { short }
}

/// The name of the event that a line is.
fn event(line: &str) -> Option<String> {
    let json = line.as_bytes();
    check_syntax(json).ok()?;
    top_field(json, "event").ok()??.as_str().map(str::to_owned)
}

/// The first event of a journal of this program.
const OURS: &str = "begin";

/// End of the events that begin with one called `first`: the next event of that name, an object
/// that is no event, or the end of the text. Other lines between events are passed over.
fn events_end(text: &str, from: usize, first: &str) -> usize {
    let again = |line: &str| {
        let head = line.get(..100).unwrap_or(line);
        head.contains(first) && event(line).as_deref() == Some(first)
    };
    let mut at = from;
    while at < text.len() {
        let end = line_end(text, at);
        let line = text[at..end].trim();
        let goes_on = || {
            let next = text[end..].lines().map(str::trim).find(|line| !line.is_empty());
            next.and_then(event).is_some_and(|tag| tag != first)
        };
        let is_object = || line.starts_with('{') && event(line).is_none() && parsed(line).is_some();
        let other = first != OURS && ((line == "{" && !goes_on()) || is_object());
        if !line.is_empty() && (other || again(line)) {
            break;
        }
        at = end;
    }
    at
}

/// Index behind the object that begins at `start`: behind its last brace, or the end of a text that
/// is cut.
fn object_end(text: &str, start: usize) -> usize {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.as_bytes()[start..].iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' if !quoted => depth += 1,
            b'}' if !quoted => {
                depth -= 1;
                if depth == 0 {
                    return start + at + 1;
                }
            }
            _ => {}
        }
    }
    text.len()
}

/// An object of another program. `nan` and `inf`, which printf writes and JSON lacks, are read as
/// null.
fn parsed(text: &str) -> Option<Value> {
    let strict: Option<Value> = serde_json::from_str(text).ok();
    strict.or_else(|| serde_json::from_str(&with_numbers(text)?).ok()).filter(Value::is_object)
}

/// `text` with null for `nan` and `inf`, and with the sign that `5.9e 06` lost; `None` where it has
/// neither.
fn with_numbers(text: &str) -> Option<String> {
    let (mut out, mut rest, mut quoted, mut changed) =
        (String::with_capacity(text.len()), text, false, false);
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        if quoted {
            let length =
                if c == '\\' { 1 + after.chars().next().map_or(0, char::len_utf8) } else { c.len_utf8() };
            out.push_str(&rest[..length]);
            quoted = c != '"';
            rest = &rest[length..];
            continue;
        }
        quoted = c == '"';
        let word = rest.trim_start_matches(['-', '+']);
        let sign = rest.len() - word.len();
        let is_none = ["nan", "inf"].iter().any(|none| {
            word.get(..3).is_some_and(|head| head.eq_ignore_ascii_case(none))
                && !out.ends_with(|c: char| c.is_alphanumeric())
        });
        if is_none && sign <= 1 {
            let length = word.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(word.len());
            out.push_str("null");
            (rest, changed) = (&word[length..], true);
        } else if matches!(c, 'e' | 'E')
            && after.starts_with(' ')
            && out.ends_with(|c: char| c.is_ascii_digit())
        {
            out.push_str("e+");
            (rest, changed) = (&after[1..], true);
        } else {
            out.push(c);
            rest = after;
        }
    }
    changed.then_some(out)
}

/// A document of another program.
#[derive(Debug)]
pub enum Source {
    /// An object.
    Json(Value),
    /// Events, in order: the name and the object of each.
    Events(Vec<(String, Value)>),
    /// Text, and whether the file had it in UTF-16 with a byte order mark.
    Text(String, bool),
}

impl Source {
    /// The object.
    pub fn json(&self) -> Option<&Value> {
        match self {
            Source::Json(value) => Some(value),
            _ => None,
        }
    }

    /// The text.
    pub fn text(&self) -> Option<&str> {
        match self {
            Source::Text(text, _) => Some(text),
            _ => None,
        }
    }

    /// True if the file is text in UTF-16 with a byte order mark.
    pub fn is_utf16(&self) -> bool {
        matches!(self, Source::Text(_, true))
    }
}

impl Document {
    /// True if the document's schema is one of this program.
    pub fn is_ours(&self) -> bool {
        let first = match self.form {
            Form::Text => return false,
            Form::Events if self.event().as_deref() != Some("begin") => return false,
            Form::Events => self.text.lines().next().unwrap_or_default(),
            Form::Json => &self.text,
        };
        let schema = top_field(first.as_bytes(), "schema").ok().flatten();
        schema.as_ref().and_then(Value::as_str).is_some_and(|schema| schema.starts_with("netcaliper."))
    }

    /// The first event's name.
    fn event(&self) -> Option<String> {
        event(self.text.lines().next()?)
    }

    /// The document as readers of other programs' files get it.
    ///
    /// # Errors
    /// One sentence when its JSON is damaged: where and how.
    pub fn source(&self) -> Result<Source, String> {
        Ok(match self.form {
            Form::Text => Source::Text(self.text.clone(), self.is_utf16),
            Form::Json => Source::Json(parsed(&self.text).ok_or_else(|| self.damage())?),
            Form::Events => {
                let values = self.text.lines().filter_map(parsed);
                let named = |value: Value| Some((value["event"].as_str()?.to_owned(), value));
                Source::Events(values.filter_map(named).collect())
            }
        })
    }

    fn damage(&self) -> String {
        match serde_json::from_str::<Value>(&self.text) {
            Err(error) => {
                let line = self.line + error.line().saturating_sub(1);
                let odd = self.text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
                let what = if error.is_eof() { "ends before it is whole" } else { "is damaged" };
                format!("the file is JSON that {what} at line {line} ('{}')", quoted(odd))
            }
            Ok(_) => "the file is JSON, but no object".to_owned(),
        }
    }

    /// Description of a document of no known program, for messages.
    pub fn kind(&self) -> String {
        let first = self.text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        match self.form {
            Form::Text => format!("text that begins with '{}'", quoted(first)),
            Form::Events => {
                format!("JSON lines whose first event is '{}'", quoted(&self.event().unwrap_or_default()))
            }
            Form::Json => {
                let names = parsed(&self.text);
                let names = names.iter().flat_map(|value| value.as_object()).flat_map(|map| map.keys());
                let names: Vec<String> = names.take(6).map(|name| format!("'{}'", quoted(name))).collect();
                match names.is_empty() {
                    true => "JSON without any field".to_owned(),
                    false => format!("JSON with {}", names.join(", ")),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
