//! Peers' texts without characters that a terminal or a reader obeys.

use std::borrow::Cow;

/// Replacement of a removed character.
const INSTEAD: char = '\u{fffd}';

/// True if a terminal takes `c` for a command, or a reader turns the reading direction at it
/// (Unicode's Bidi_Control).
fn is_command(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `text` without control characters and characters that turn the reading direction.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.contains(is_command) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if is_command(c) { INSTEAD } else { c }).collect())
}

/// `text` of several lines without control characters but tabs and line ends, and without
/// characters that turn the reading direction.
pub fn clean_lines(text: &str) -> Cow<'_, str> {
    let bad = |c: char| is_command(c) && !matches!(c, '\t' | '\n' | '\r');
    if !text.contains(bad) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if bad(c) { INSTEAD } else { c }).collect())
}

/// A peer's JSON whose texts, names of fields among them, have none of these either, written as
/// they are or escaped; tabs and line ends stay. To be called before parsing, so that all texts
/// made of it are clean.
pub fn clean_json(json: &str) -> Cow<'_, str> {
    // JSON's own white space is no part of a text, and no other control character below a blank may
    // stand in one as it is.
    let plain = |c: char| c >= ' ' && is_command(c);
    if !json.contains(|c| c == '\\' || plain(c)) {
        return Cow::Borrowed(json);
    }
    let (mut clean, mut rest) = (String::with_capacity(json.len()), json);
    while let Some(at) = rest.find(|c| c == '\\' || plain(c)) {
        let (before, from) = rest.split_at(at);
        let (length, bad) = match from.strip_prefix('\\') {
            None => (from.chars().next().map_or(0, char::len_utf8), true),
            Some(after) => escaped(after),
        };
        let (piece, after) = from.split_at_checked(length).unwrap_or((from, ""));
        clean.push_str(before);
        if bad {
            clean.push(INSTEAD);
        } else {
            clean.push_str(piece);
        }
        rest = after;
    }
    clean.push_str(rest);
    Cow::Owned(clean)
}

/// The length of the escape whose backslash is followed by `after`, and whether it stands for a
/// command.
fn escaped(after: &str) -> (usize, bool) {
    let first = after.chars().next();
    let number =
        after.get(1..5).filter(|_| first == Some('u')).and_then(|hex| u32::from_str_radix(hex, 16).ok());
    match number {
        Some(number) => {
            let kept = |c: &char| matches!(c, '\t' | '\n' | '\r');
            (6, char::from_u32(number).filter(|c| !kept(c)).is_some_and(is_command))
        }
        None => (1 + first.map_or(0, char::len_utf8), matches!(first, Some('b' | 'f'))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn what_steers_a_terminal_or_turns_the_text_is_taken_out() {
        assert_eq!(clean("plain: é 日本 🙂"), "plain: é 日本 🙂");
        let evil =
            "a\u{1b}b\u{7f}c\u{80}d\u{9f}e\u{61c}f\u{200e}g\u{200f}h\u{202a}i\u{202e}j\u{2066}k\u{2069}l\nm";
        assert_eq!(clean(evil).replace('\u{fffd}', "·"), "a·b·c·d·e·f·g·h·i·j·k·l·m");
        assert_eq!(clean_lines("a\tb\r\nc\u{1b}d"), "a\tb\r\nc\u{fffd}d");
        // Their neighbours are harmless.
        assert!(matches!(clean("\u{a0}\u{200d}\u{2010}\u{202f}\u{2065}\u{206a}"), Cow::Borrowed(_)));
    }

    #[test]
    fn all_ways_to_write_them_in_json_are_known() {
        let evil: String = (0..=0x2070).filter_map(char::from_u32).filter(|c| is_command(*c)).collect();
        assert_eq!(evil.chars().count(), 32 + 33 + 12);
        let wanted: String =
            evil.chars().map(|c| if matches!(c, '\t' | '\n' | '\r') { c } else { '\u{fffd}' }).collect();
        let escapes: String = evil.chars().map(|c| format!("\\u{:04X}", u32::from(c))).collect();
        let value = json!({ "k": &evil });
        for text in [value.to_string(), format!("{{\r\n\t\"k\" : \"{escapes}\"}}")] {
            let read: Value = serde_json::from_str(&clean_json(&text)).unwrap();
            assert_eq!(read["k"], wanted.as_str(), "{text}");
        }
        // As the name of a field, too.
        let text = clean_json("{\"a\u{9b}b\\u202e\": 1}").into_owned();
        assert_eq!(text, "{\"a\u{fffd}b\u{fffd}\": 1}");
    }

    #[test]
    fn all_else_is_left_as_it_is() {
        for text in [
            r#"{"a":"\\u009b \" \\ \/ \n\r\t \u00e9 \ud83d\ude42","b":[1.5e-3,null,true]}"#,
            r#""\\\\u202e""#,
            "{ \"日\" : \"🙂\" }\r\n",
            "\\",
            "\\u",
            "\\u12",
            "\\u12é4",
            "\\é",
            "",
        ] {
            assert_eq!(clean_json(text), text);
        }
        assert_eq!(clean_json(r#""\\\u009b\\\b""#), "\"\\\\\u{fffd}\\\\\u{fffd}\"");
    }
}
