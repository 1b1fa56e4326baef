//! One door for files: bytes become text, the text documents, and lines that are none are passed
//! over with a notice.
//!
//! Recognition follows: a document is of the program that it names itself ([`crate::import`]),
//! never of one that it resembles.

mod encoding;

pub use encoding::{LARGEST, decode, read_bounded};

use encoding::{is_utf16, text, unpacked};
use metrics::{Clamped, format_count};
use model::document::{check_syntax, top_field};
use model::{clean_json, clean_lines};
use serde_json::Value;

/// Bytes at the beginning that show the encoding.
const HEAD: usize = 4096;
/// Lines that a notice names; of more the number.
const MOST_NAMED: usize = 5;
/// Lines with an opening bracket behind something or of a list that are tried: each is searched for
/// its end.
const MOST_LISTS: usize = 100;
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
    let is_utf16 = is_utf16(bytes);
    let mut file = split(&text);
    if file.documents.iter().all(|document| document.form == Form::Text) {
        file = behind_prefixes(&text).unwrap_or(file);
    }
    let passed = [(zeros, "zero byte", "around the text"), (behind, "byte", "behind the packed data")];
    let passed = passed.into_iter().filter(|(n, ..)| *n > 0);
    file.notices.extend(
        passed.map(|(n, what, at)| format!("passed over: {} {at}", format_count(u64::clamped(n), what))),
    );
    file.documents.iter_mut().for_each(|document| document.is_utf16 = is_utf16);
    Ok(file)
}

/// The objects of a list of objects, as `jq -s` makes of several documents; `None` of a list
/// without any.
fn objects(list: &str) -> Option<Vec<String>> {
    let strict: Option<Vec<Value>> = serde_json::from_str(list).ok();
    let values = strict.or_else(|| serde_json::from_str(&with_numbers(list)?).ok())?;
    let objects = values.iter().filter(|value| value.is_object());
    let texts: Vec<String> = objects.map(|value| clean_json(&value.to_string()).into_owned()).collect();
    (!texts.is_empty()).then_some(texts)
}

/// Index behind the end of the line at `at`.
fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |n| at + n + 1)
}

/// The documents of `text`; without an object on a line of its own, all of it is one.
fn split(text: &str) -> File {
    let mut file = File::default();
    let mut passed = Vec::new();
    let mut lists = 0;
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
        if text[start..].starts_with('[') && lists < MOST_LISTS {
            lists += 1;
            let to = value_end(text, start);
            if let Some(texts) = objects(&text[start..to]) {
                let document = |text| Document { form: Form::Json, is_utf16: false, text, line };
                file.documents.extend(texts.into_iter().map(document));
                at = to;
                continue;
            }
        }
        if !text[start..].starts_with('{') {
            let head = text[start..end].trim_end();
            // As a variable has it: `result = {`.
            if head.ends_with('{') && lists < MOST_LISTS {
                lists += 1;
                let open = start + head.len() - 1;
                let to = value_end(text, open);
                if to > end && parsed(&text[open..to]).is_some() {
                    passed.push((line, &head[..head.len() - 1]));
                    let text = clean_json(&text[open..to]).into_owned();
                    file.documents.push(Document { form: Form::Json, is_utf16: false, text, line });
                    at = to;
                    continue;
                }
            }
            passed.push((line, head));
            at = end;
            continue;
        }
        let first = text[start..end].trim_end();
        let (form, to) = match event(first) {
            Some(tag) => (Form::Events, events_end(text, end, &tag)),
            None => (Form::Json, value_end(text, start)),
        };
        let own = &text[start..to];
        if form == Form::Events && event(first).as_deref() != Some(OURS) {
            // A journal of this program is damaged by such a line, and its reader says so.
            let lines = (line..).zip(own.lines()).map(|(line, text)| (line, text.trim()));
            passed.extend(lines.filter(|(_, text)| !text.is_empty() && parsed(text).is_none()));
        }
        let whole = if form == Form::Json { without_odd_lines(own) } else { None };
        let (own, odd) = whole.as_ref().map_or((own, &[][..]), |(own, odd)| (own.as_str(), odd));
        passed.extend(odd.iter().map(|(at, text)| (line + at, *text)));
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
    file.notices.extend(notice(&passed, "being no JSON"));
    file
}

/// A sentence about lines that were passed over, and `why`.
pub(crate) fn notice(passed: &[(usize, &str)], why: &str) -> Option<String> {
    let named = passed.iter().take(MOST_NAMED);
    let named: Vec<String> = named.map(|(line, text)| format!("line {line} ('{}')", quoted(text))).collect();
    let more = passed.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 {
        format!(" and {}", format_count(u64::clamped(more), "further line"))
    } else {
        String::new()
    };
    (!passed.is_empty()).then(|| format!("passed over, {why}: {}{more}", named.join(", ")))
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

/// Index behind the object or list that begins at `start`: behind its last bracket, or the end of a
/// text that is cut.
fn value_end(text: &str, start: usize) -> usize {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.as_bytes()[start..].iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => depth += 1,
            b'}' | b']' if !quoted => {
                depth = depth.saturating_sub(1);
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

/// A damaged object without the lines that another output left within it (`2>&1`), and those lines,
/// counted from 0; `None` where it is whole, or the damage another.
fn without_odd_lines(text: &str) -> Option<(String, Vec<(usize, &str)>)> {
    if !text.contains('\n') || check_syntax(text.as_bytes()).is_ok() || parsed(text).is_some() {
        return None;
    }
    let mut lines: Vec<&str> = text.lines().collect();
    let mut odd = Vec::new();
    while odd.len() < MOST_NAMED {
        let whole = lines.join("\n");
        let loose = with_numbers(&whole);
        let error = match serde_json::from_str::<Value>(loose.as_deref().unwrap_or(&whole)) {
            Ok(value) => return value.is_object().then_some((whole, odd)),
            Err(error) => error,
        };
        let at = error.line().checked_sub(1)?;
        let line = lines.get_mut(at)?;
        // A line of the object begins with a bracket, a name, a number or a constant.
        let own = |line: &str| line.starts_with(['{', '}', '[', ']', '"', ',', '-']) || line.ends_with(',');
        if line.trim().is_empty() || own(line.trim()) {
            return None;
        }
        odd.push((at, std::mem::take(line)));
    }
    None
}

/// The documents of a text whose lines begin with something else, as logs put a time and a name
/// before each: up to the column of the first brace. `None` where no whole object follows.
fn behind_prefixes(text: &str) -> Option<File> {
    let first = text.find('{')?;
    let begin = text[..first].rfind('\n').map_or(0, |at| at + 1);
    let column = first - begin;
    if column == 0 {
        return None;
    }
    let lines = text[begin..].lines().map(|line| line.get(column..).unwrap_or_default());
    let lines: Vec<&str> = lines.collect();
    let mut file = split(&lines.join("\n"));
    let whole = |document: &Document| match document.form {
        Form::Json => parsed(&document.text).is_some(),
        Form::Events => true,
        Form::Text => false,
    };
    if !file.documents.iter().any(whole) {
        return None;
    }
    let before = text[..begin].lines().count();
    file.documents.iter_mut().for_each(|document| document.line += before);
    file.notices.push(format!("passed over: the first {column} characters of each line, before its JSON"));
    Some(file)
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
                let odd = if odd.trim().is_empty() { String::new() } else { format!(" ('{}')", quoted(odd)) };
                format!("the file is JSON that {what} at line {line}{odd}")
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
