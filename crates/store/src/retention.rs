//! Limits of the store.

use metrics::{SECOND, format_bytes, format_count, format_duration, parse_bytes, parse_duration};
use rusqlite::Connection;
use std::fmt;

/// Limits of the store. Beyond them the oldest runs are deleted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Most runs.
    pub runs: Option<u64>,
    /// Most bytes of their documents.
    pub bytes: Option<u64>,
    /// Greatest age of a run before the latest one, ns.
    pub age_ns: Option<u64>,
}

impl Default for Retention {
    /// Ten thousand runs in a gibibyte.
    fn default() -> Self {
        Retention { runs: Some(10_000), bytes: Some(1 << 30), age_ns: None }
    }
}

impl Retention {
    /// Parses `runs=1000,size=1Gi,age=90d`; a limit without a value is none, `all` sets no limit.
    ///
    /// # Errors
    /// One sentence: the wrong part and the expected form.
    pub fn parse(text: &str) -> Result<Retention, String> {
        let mut retention = Retention { runs: None, bytes: None, age_ns: None };
        if text.trim() == "all" {
            return Ok(retention);
        }
        for word in text.split(',') {
            let wrong = || format!("'{word}' is not runs=NUMBER, size=BYTES or age=TIME (90d, 12h), nor all");
            let (name, value) = word.trim().split_once('=').ok_or_else(wrong)?;
            match name {
                "runs" => retention.runs = Some(value.parse().map_err(|_| wrong())?),
                "size" => retention.bytes = Some(parse_bytes(value).map_err(|_| wrong())?),
                "age" => retention.age_ns = Some(parse_duration(value).map_err(|_| wrong())?),
                _ => return Err(wrong()),
            }
        }
        Ok(retention)
    }
}

impl fmt::Display for Retention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words: Vec<String> = Vec::new();
        words.extend(self.runs.map(|n| format!("the latest {n} runs")));
        words.extend(self.bytes.map(|n| format!("{} of outcomes", format_bytes(n))));
        words.extend(self.age_ns.map(|ns| format!("runs of the last {}", age(ns))));
        match &words[..] {
            [] => f.write_str("everything is kept"),
            words => write!(f, "at most {} are kept", words.join(", ")),
        }
    }
}

/// `90 days`, `36 hours`: in the largest unit of which it is a whole number.
fn age(ns: u64) -> String {
    let units = [(86_400 * SECOND, "day"), (3_600 * SECOND, "hour"), (60 * SECOND, "minute")];
    let whole = units.iter().find(|(unit, _)| ns >= *unit && ns.is_multiple_of(*unit));
    whole.map_or_else(|| format_duration(ns), |(unit, name)| format_count(ns / unit, name))
}

/// The store's limits, or the default ones when none were set.
pub(crate) fn read(connection: &Connection) -> rusqlite::Result<Retention> {
    let mut asked = connection.prepare("SELECT name, value FROM keep")?;
    let rows: Vec<(String, i64)> =
        asked.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<rusqlite::Result<_>>()?;
    if rows.is_empty() {
        return Ok(Retention::default());
    }
    let value = |name: &str| {
        let found = rows.iter().find(|(known, _)| known == name);
        found.and_then(|(_, value)| u64::try_from(*value).ok())
    };
    Ok(Retention { runs: value("runs"), bytes: value("size"), age_ns: value("age_ns") })
}

/// No limit is a row, too, so that it is not taken for nothing having been said.
pub(crate) fn write(connection: &Connection, retention: &Retention) -> rusqlite::Result<()> {
    let Retention { runs, bytes, age_ns } = *retention;
    for (name, value) in [("runs", runs), ("size", bytes), ("age_ns", age_ns)] {
        let value = value.map_or(-1, |value| i64::try_from(value).unwrap_or(i64::MAX));
        connection.execute("INSERT OR REPLACE INTO keep (name, value) VALUES (?1, ?2)", (name, value))?;
    }
    Ok(())
}

/// Deletes the runs beyond the limits; returns their number. The latest run always stays.
pub(crate) fn prune(connection: &mut Connection, retention: &Retention) -> rusqlite::Result<usize> {
    let limit = |value: Option<u64>| value.map_or(i64::MAX, |value| i64::try_from(value).unwrap_or(i64::MAX));
    let all = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let mut gone = all.execute(
        "DELETE FROM run WHERE id NOT IN (SELECT id FROM run ORDER BY id DESC LIMIT max(?1, 1))",
        [limit(retention.runs)],
    )?;
    gone += all.execute(
        "DELETE FROM run WHERE id IN (
             SELECT id FROM (SELECT id, sum(bytes) OVER (ORDER BY id DESC) AS held FROM run) WHERE held > ?1)
         AND id < (SELECT max(id) FROM run)",
        [limit(retention.bytes)],
    )?;
    gone += all.execute(
        "DELETE FROM run WHERE started_ns < (SELECT max(started_ns) FROM run) - ?1
         AND id < (SELECT max(id) FROM run)",
        [limit(retention.age_ns)],
    )?;
    all.commit()?;
    Ok(gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_said_in_words() {
        let all = Retention::parse("runs=1000, size=1Gi,age=90d").unwrap();
        assert_eq!((all.runs, all.bytes), (Some(1_000), Some(1 << 30)));
        assert_eq!(all.age_ns, Some(90 * 86_400_000_000_000));
        assert_eq!(
            all.to_string(),
            "at most the latest 1000 runs, 1.00 GiB of outcomes, runs of the last 90 days are kept"
        );
        for (asked, said) in
            [("1d", "1 day"), ("36h", "36 hours"), ("90m", "90 minutes"), ("1.5d", "36 hours")]
        {
            let retention = Retention::parse(&format!("age={asked}")).unwrap();
            assert_eq!(retention.to_string(), format!("at most runs of the last {said} are kept"));
        }
        assert_eq!(Retention::parse("all").unwrap().to_string(), "everything is kept");
        for bad in ["", "1000", "runs=x", "age=old", "size=-1", "age=-1d"] {
            assert!(Retention::parse(bad).unwrap_err().contains("is not runs="), "{bad}");
        }
    }
}
