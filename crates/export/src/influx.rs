//! InfluxDB's line protocol: `measurement,tag=value field=value time`.
//!
//! The measurement is the name of a figure as Prometheus has it, its labels are tags, and the one
//! field is `value`. <https://docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol/>

use crate::Reading;
use report::Gauge;
use std::fmt::Write as _;

/// Bytes of a body after which a new one begins; servers accept 25 MB and more.
pub(crate) const MOST_BYTES: usize = 1 << 20;

/// The lines of a reading, in bodies that end with the line that exceeds `most` bytes.
pub(crate) fn bodies(reading: &Reading, most: usize) -> impl Iterator<Item = String> {
    let mut lines = reading.sheet.gauges().map(|gauge| line(&gauge, reading));
    std::iter::from_fn(move || {
        let mut body = lines.next()?;
        while body.len() < most {
            let Some(line) = lines.next() else { break };
            body.push_str(&line);
        }
        Some(body)
    })
}

/// One sample. Tags stand in the order of their names, as servers prefer, and without empty ones,
/// which the protocol does not have.
fn line(gauge: &Gauge<'_>, reading: &Reading) -> String {
    let mut tags: Vec<(&str, &str)> =
        gauge.labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
    tags.push(("host", &reading.host));
    tags.sort_by_key(|(name, _)| *name);
    let mut line = escaped(gauge.name, false);
    for (name, value) in tags {
        let value = escaped(value, true);
        if !value.is_empty() {
            line.extend([",", &escaped(name, true), "=", &value]);
        }
    }
    // Writing to a String cannot fail.
    let _ = writeln!(line, " value={} {}", gauge.value, reading.at.0);
    line
}

/// A measurement or a part of a tag. Control characters, which end lines, become U+FFFD; a
/// backslash at the end, which would escape the separator behind it, is left out.
fn escaped(text: &str, is_tag: bool) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.trim_end_matches('\\').chars() {
        if matches!(c, ',' | ' ') || c == '=' && is_tag {
            safe.push('\\');
        }
        safe.push(if c.is_control() { '\u{fffd}' } else { c });
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::Wall;
    use report::MetricsSheet;

    fn reading(value: f64, labels: &[(&'static str, &str)]) -> Reading {
        let labels = labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let mut sheet = MetricsSheet::default();
        sheet.gauge("netcaliper_goodput_bytes_per_second", "Payload.", &labels, Some(value));
        Reading { sheet, at: Wall(1_700_000_000_000_000_001), host: "probe".to_owned(), ..Reading::default() }
    }

    fn body(value: f64, labels: &[(&'static str, &str)]) -> String {
        bodies(&reading(value, labels), MOST_BYTES).collect()
    }

    #[test]
    fn a_sample_is_a_line_with_sorted_tags() {
        assert_eq!(
            body(1.25e8, &[("verb", "tcp"), ("target", "lab2:7411"), ("setting", "")]),
            "netcaliper_goodput_bytes_per_second,host=probe,target=lab2:7411,verb=tcp value=125000000 1700000000000000001\n"
        );
    }

    #[test]
    fn separators_in_tags_are_escaped() {
        // "Special characters" of the reference: comma, equals sign and space by a backslash; line
        // breaks are not supported.
        for (value, written) in [
            ("a b,c=d", r"a\ b\,c\=d"),
            ("Größe \u{1f680}", "Größe\\ \u{1f680}"),
            ("\"quoted\"", "\"quoted\""),
            ("two\nlines\r", "two\u{fffd}lines\u{fffd}"),
            (r"C:\path", r"C:\path"),
            (r"ends in \\", r"ends\ in\ "),
        ] {
            let body = body(0.5, &[("target", value)]);
            assert!(body.contains(&format!(",target={written} value=0.5 ")), "{body}");
            assert_eq!(body.lines().count(), 1, "{body}");
        }
        assert!(!body(0.5, &[("target", r"\\")]).contains("target"), "an empty tag is left out");
        assert_eq!(escaped("a b,c=d", false), r"a\ b\,c=d", "a measurement keeps its equals sign");
    }

    #[test]
    fn numbers_are_floats_without_an_exponent() {
        for (value, written) in
            [(0.0, "0"), (1e-9, "0.000000001"), (1e21, "1000000000000000000000"), (-0.5, "-0.5")]
        {
            assert!(body(value, &[]).contains(&format!(" value={written} ")), "{value}");
        }
    }

    #[test]
    fn long_readings_have_several_bodies() {
        let mut sheet = MetricsSheet::default();
        for n in 0..10 {
            sheet.gauge("a", "A.", &vec![("n", n.to_string())], Some(1.0));
        }
        let reading = Reading { sheet, ..Reading::default() };
        let bodies: Vec<String> = bodies(&reading, 30).collect();
        assert_eq!(bodies.iter().map(|body| body.lines().count()).collect::<Vec<_>>(), [2; 5], "{bodies:?}");
        assert_eq!(super::bodies(&Reading::default(), 30).count(), 0);
    }
}
