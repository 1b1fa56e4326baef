//! JSON with keys in an order, as the original's library (cJSON) prints it.

use std::fmt::Write as _;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json {
    Object(Vec<(&'static str, Json)>),
    Array(Vec<Json>),
    /// A number as it is printed.
    Number(String),
    Text(String),
}

impl Json {
    /// A whole number.
    pub(super) fn whole(n: impl Into<i64>) -> Json {
        Json::Number(n.into().to_string())
    }

    pub(super) fn text(text: impl Into<String>) -> Json {
        Json::Text(text.into())
    }

    /// A number with this many decimals; zero is `0.0`.
    pub(super) fn fixed(value: f64, decimals: usize) -> Json {
        Json::Number(if value == 0.0 { "0.0".to_owned() } else { format!("{value:.decimals$}") })
    }

    /// Milliseconds in seconds, without zeros at the end.
    pub(super) fn seconds(ms: f64) -> Json {
        let text = format!("{:.9}", ms / 1_000.0);
        let cut = text.trim_end_matches('0');
        Json::Number(if cut.ends_with('.') { format!("{cut}0") } else { cut.to_owned() })
    }

    /// In one line, or in lines.
    pub(super) fn print(&self, formatted: bool) -> String {
        let mut out = String::new();
        self.write(&mut out, formatted, 0);
        out
    }

    fn write(&self, out: &mut String, formatted: bool, depth: usize) {
        match self {
            Json::Number(text) => out.push_str(text),
            Json::Text(text) => quote(out, text),
            Json::Array(items) => {
                out.push('[');
                for (n, item) in items.iter().enumerate() {
                    if n > 0 {
                        out.push_str(if formatted { ", " } else { "," });
                    }
                    item.write(out, formatted, depth + 1);
                }
                out.push(']');
            }
            Json::Object(members) => {
                let line = |out: &mut String, depth: usize| {
                    if formatted {
                        out.push('\n');
                        out.extend(std::iter::repeat_n('\t', depth));
                    }
                };
                out.push('{');
                for (n, (name, value)) in members.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    line(out, depth + 1);
                    quote(out, name);
                    out.push_str(if formatted { ":\t" } else { ":" });
                    value.write(out, formatted, depth + 1);
                }
                line(out, depth);
                out.push('}');
            }
        }
    }
}

fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if u32::from(c) < 32 => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_in_arrays_stand_as_in_the_original() {
        let inner = Json::Object(vec![("Host", Json::text("a\"b"))]);
        let all = Json::Object(vec![
            ("List", Json::Array(vec![inner.clone(), inner])),
            ("Zero", Json::fixed(0.0, 2)),
        ]);
        assert_eq!(all.print(false), r#"{"List":[{"Host":"a\"b"},{"Host":"a\"b"}],"Zero":0.0}"#);
        let want = "{\n\t\"List\":\t[{\n\t\t\t\"Host\":\t\"a\\\"b\"\n\t\t}, {\n\t\t\t\"Host\":\t\"a\\\"b\"\n\t\t}],\n\t\"Zero\":\t0.0\n}";
        assert_eq!(all.print(true), want);
        assert_eq!(Json::seconds(50.0), Json::Number("0.05".into()));
        assert_eq!(
            (Json::seconds(0.0), Json::seconds(2_000.0)),
            (Json::Number("0.0".into()), Json::Number("2.0".into()))
        );
        assert_eq!(Json::fixed(100.0, 2), Json::Number("100.00".into()));
    }
}
