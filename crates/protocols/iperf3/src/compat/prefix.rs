//! Prefix of every line: the time (`--timestamps`), and a client's title (`-T`).

use jiff::Timestamp;
use jiff::fmt::strtime::{BrokenDownTime, Config, PosixCustom};
use jiff::tz::TimeZone;
use metrics::Wall;

/// Prefix of every line of the printed report.
#[derive(Clone, Debug)]
pub(crate) struct Prefix {
    format: Option<String>,
    title: Option<String>,
    zone: TimeZone,
    /// The next character begins a line.
    fresh: bool,
}

impl Prefix {
    /// With the time in this `strftime` format and this title, where there is one.
    pub(crate) fn new(format: Option<String>, title: Option<String>) -> Self {
        Prefix { format, title, zone: TimeZone::system(), fresh: true }
    }

    /// The same text with its lines marked, as printed at this time.
    pub(crate) fn mark(&mut self, text: &str, now: Wall) -> String {
        if self.format.is_none() && self.title.is_none() {
            return text.to_owned();
        }
        let before = self.before(now);
        let mut out = String::with_capacity(text.len() + before.len() * 8);
        for line in text.split_inclusive('\n') {
            if std::mem::replace(&mut self.fresh, line.ends_with('\n')) {
                out.push_str(&before);
            }
            out.push_str(line);
        }
        out
    }

    fn before(&self, now: Wall) -> String {
        let mut before = String::new();
        if let (Some(format), Ok(at)) = (&self.format, Timestamp::from_nanosecond(now.0.into())) {
            let at = at.to_zoned(self.zone.clone());
            // An unknown part of a format is left as it was written.
            let posix = Config::new().custom(PosixCustom::new());
            let told = BrokenDownTime::from(&at).to_string_with_config(&posix, format);
            before = told.unwrap_or_else(|_| format.clone());
        }
        if let Some(title) = &self.title {
            before.push_str(title);
            before.push_str(":  ");
        }
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(format: Option<&str>, title: Option<&str>) -> Prefix {
        Prefix { zone: TimeZone::UTC, ..Prefix::new(format.map(str::to_owned), title.map(str::to_owned)) }
    }

    #[test]
    fn every_line_is_marked_once() {
        // 1700000000 is Tue Nov 14 22:13:20 2023 (`date -u -d @1700000000`); what C's %c makes of
        // it in the C locale.
        let now = Wall(1_700_000_000_000_000_000);
        let mut both = prefix(Some("%c "), Some("x"));
        assert_eq!(both.mark("a\nb", now), "Tue Nov 14 22:13:20 2023 x:  a\nTue Nov 14 22:13:20 2023 x:  b");
        assert_eq!(both.mark("c\n", now), "c\n");
        assert_eq!(prefix(Some("%H:%M:%S%z "), None).mark("a\n\n", now), "22:13:20+0000 a\n22:13:20+0000 \n");
        assert_eq!(prefix(None, Some("t")).mark("", now), "");
        assert_eq!(prefix(None, None).mark("a\nb\n", now), "a\nb\n");
    }
}
