//! Quantities as people write them: `25M`, `64Ki`, `250ms`.
//!
//! Rates are in bits per second with SI prefixes (k = 1000); sizes are in bytes, where `K`, `M`,
//! `G` alone mean 1024 as in iperf3 and `Ki`, `Mi`, `Gi` say so; durations carry a unit, a bare
//! number is seconds.

use crate::number::{Clamped, Real};

const RATE: &str = "a rate in bits per second such as 500k, 25M or 1.5G";
const SIZE: &str = "a size in bytes such as 1400, 64Ki, 1Mi or 2G";
const DSCP: &str = "a DSCP (0 to 63, or a name such as cs1, af41, ef)";
const TIME: &str = "a duration such as 10s, 250ms, 5m, 1h or 7d";

/// The error for a malformed quantity: the given text and the expected form.
fn wrong(given: &str, wanted: &str) -> String {
    format!("'{given}' is not {wanted}")
}

/// Splits `text` into a non-negative decimal number and its unit.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number = text[..end].parse::<f64>().ok().filter(|n| n.is_finite())?;
    Some((number, text[end..].trim()))
}

fn scaled(text: &str, wanted: &str, factor: impl Fn(&str) -> Option<f64>) -> Result<u64, String> {
    let fail = || wrong(text, wanted);
    let (number, unit) = split(text).ok_or_else(fail)?;
    let value = number * factor(unit).ok_or_else(fail)?;
    if value > 9.2e18 {
        return Err(fail());
    }
    Ok(u64::clamped(value.round()))
}

/// The factor of a prefix: `k`, `m`, `g` and `t` in either case are the first to fourth power of
/// `base`, nothing is 1.
fn prefix(text: &str, base: f64) -> Option<f64> {
    match text.as_bytes() {
        [] => Some(1.0),
        [letter] => {
            let place = b"kmgt".iter().position(|known| known == &letter.to_ascii_lowercase())?;
            Some(base.powi(i32::clamped(place) + 1))
        }
        _ => None,
    }
}

/// Units that a rate may name.
const PER_SECOND: [&str; 5] = ["bits/s", "bit/s", "bps", "bits", "bit"];

/// Bits per second: `500k`, `25M`, `1.5G`, with or without a trailing `bit/s`, `bps` or `bit`.
///
/// # Errors
/// When `text` is not such a rate, or does not fit 63 bits.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    scaled(text, RATE, |unit| {
        let bare = PER_SECOND.iter().find_map(|word| unit.strip_suffix(word)).unwrap_or(unit);
        prefix(bare.trim(), 1000.0)
    })
}

/// Bytes: `1400`, `64Ki`, `64K` (1024 as in iperf3), `1MiB`.
///
/// # Errors
/// When `text` is not such a size, or does not fit 63 bits.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    scaled(text, SIZE, |unit| {
        let unit = unit.strip_suffix(['B', 'b']).unwrap_or(unit);
        let letter = unit.strip_suffix('i').filter(|letter| !letter.is_empty());
        prefix(letter.unwrap_or(unit), 1024.0)
    })
}

/// Nanoseconds: `10s`, `250ms`, `20us`, `5m`, `1h`, `1m30s`; a bare number is seconds.
///
/// # Errors
/// When `text` is not such a duration, or does not fit 63 bits.
pub fn parse_duration(text: &str) -> Result<u64, String> {
    let fail = || wrong(text, TIME);
    let (mut rest, mut sum, mut larger) = (text.trim(), 0.0, f64::INFINITY);
    loop {
        let (number, behind) = split(rest).ok_or_else(fail)?;
        let (unit, next) = behind.split_at(behind.find(|c: char| c.is_ascii_digit()).unwrap_or(behind.len()));
        let factor = time_unit(unit.trim()).filter(|factor| *factor < larger).ok_or_else(fail)?;
        // Of several parts each names its unit, the larger ones first.
        let several = larger.is_finite() || !next.is_empty();
        if several && unit.trim().is_empty() {
            return Err(fail());
        }
        (sum, larger, rest) = (sum + number * factor, factor, next);
        if rest.is_empty() {
            break;
        }
    }
    if sum > 9.2e18 { Err(fail()) } else { Ok(u64::clamped(sum.round())) }
}

/// A unit of time, ns.
fn time_unit(unit: &str) -> Option<f64> {
    Some(match unit {
        "" | "s" | "sec" => 1e9,
        "ms" => 1e6,
        "us" | "µs" => 1e3,
        "ns" => 1.0,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        "d" => 86_400e9,
        _ => return None,
    })
}

/// The differentiated services code point of a name: class selectors (RFC 2474), assured forwarding
/// of four classes and three drop precedences (RFC 2597), expedited forwarding (RFC 3246) and lower
/// effort (RFC 8622).
fn code_point(name: &str) -> Option<u8> {
    match *name.to_ascii_lowercase().as_bytes() {
        [b'c', b's', class @ b'0'..=b'7'] => Some(8 * (class - b'0')),
        [b'a', b'f', class @ b'1'..=b'4', low @ b'1'..=b'3'] => Some(8 * (class - b'0') + 2 * (low - b'0')),
        [b'e', b'f'] => Some(46),
        [b'l', b'e'] => Some(1),
        _ => None,
    }
}

/// The name of a differentiated services code point, as [`parse_dscp`] takes it; `None` for 0 and
/// nameless code points.
pub fn dscp_name(dscp: u8) -> Option<String> {
    let (class, low) = (dscp / 8, dscp % 8 / 2);
    match dscp {
        46 => Some("EF".to_owned()),
        1 => Some("LE".to_owned()),
        8.. if dscp.is_multiple_of(8) => Some(format!("CS{class}")),
        _ if dscp.is_multiple_of(2) && (1..=4).contains(&class) && (1..=3).contains(&low) => {
            Some(format!("AF{class}{low}"))
        }
        _ => None,
    }
}

/// A differentiated services code point: 0 to 63, or its name.
///
/// # Errors
/// When `text` is neither.
pub fn parse_dscp(text: &str) -> Result<u8, String> {
    code_point(text).or_else(|| text.parse().ok().filter(|n| *n < 64)).ok_or_else(|| wrong(text, DSCP))
}

/// `value` by its prefix, in three significant digits; whole numbers without a prefix as they are.
fn prefixed(value: f64, base: f64, prefixes: &[&str]) -> String {
    let (mut value, mut scale) = (value, 0);
    // A value that would be rounded to the base has the next prefix.
    while scale + 1 < prefixes.len() && value >= base - 0.5 {
        value /= base;
        scale += 1;
    }
    let digits = match value {
        // As they are when rounded: 99.96 is 100.
        _ if scale == 0 && value.fract() == 0.0 => 0,
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {}", prefixes[scale])
}

/// `12345`, `1.23 M`: whole up to 99,999, beyond with SI prefixes in three significant digits.
pub fn format_number(value: impl Real) -> String {
    let value = value.real();
    if value.abs() < 99_999.5 {
        return format!("{value:.0}");
    }
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{}", prefixed(value.abs(), 1000.0, &["", "k", "M", "G", "T", "P"]))
}

/// `9.87 Gbit/s`: SI prefixes, three significant digits.
pub fn format_bits_per_second(rate: impl Real) -> String {
    format!("{}bit/s", prefixed(rate.real().max(0.0), 1000.0, &["", "k", "M", "G", "T", "P"]))
}

/// `1.50 GiB`: binary prefixes, three significant digits.
pub fn format_bytes(bytes: u64) -> String {
    format!("{}B", prefixed(bytes.real(), 1024.0, &["", "Ki", "Mi", "Gi", "Ti", "Pi"]))
}

/// `1 server`, `2 servers`.
pub fn format_count(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// `0.67 %`, `12 %`, `99.96 %`: two significant digits; near 100 % the first digit that differs from
/// it.
pub fn format_percent(percent: impl Real) -> String {
    let value = percent.real();
    let (size, rest) = (value.abs(), 100.0 - value.abs());
    let digits = match size {
        0.0 => return "0 %".to_owned(),
        size if size < 0.001 => return format!("{value:.1e} %"),
        _ if (0.0..0.000_01).contains(&rest) => 0.0,
        size if size > 90.0 && rest > 0.0 => -rest.log10().floor(),
        size => 1.0 - size.log10().floor(),
    };
    let digits = usize::clamped(digits.max(0.0));
    let text = format!("{value:.digits$}");
    let text = if digits > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { text.as_str() };
    format!("{text} %")
}

/// `12.3 ms`: three significant digits in the largest unit up to seconds.
pub fn format_duration(ns: impl Real) -> String {
    let ns = ns.real();
    if ns < 1.0 {
        return "0 ns".to_owned();
    }
    if ns >= 100e9 {
        return format!("{:.0} s", ns / 1e9);
    }
    format!("{}s", prefixed(ns, 1000.0, &["n", "µ", "m", ""]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write() {
        assert_eq!(parse_rate("25M"), Ok(25_000_000));
        assert_eq!(parse_rate("1.5Gbit/s"), Ok(1_500_000_000));
        assert_eq!(parse_rate("800"), Ok(800));
        for ten in ["10M", "10Mbit", "10Mbits", "10Mbps", "10 Mbit/s", "10Mbits/s"] {
            assert_eq!(parse_rate(ten), Ok(10_000_000), "{ten}");
        }
        assert_eq!(parse_rate("800bit"), Ok(800));
        assert_eq!(parse_bytes("64K"), Ok(65_536));
        assert_eq!(parse_bytes("64Ki"), Ok(65_536));
        assert_eq!(parse_bytes("1MiB"), Ok(1 << 20));
        assert_eq!(parse_duration("10"), Ok(10_000_000_000));
        assert_eq!(parse_duration("250ms"), Ok(250_000_000));
        assert_eq!(parse_duration("1.5h"), Ok(5_400_000_000_000));
        assert_eq!(parse_duration("1m30s"), Ok(90_000_000_000));
        assert_eq!(parse_duration("1h 2min 3s 4ms"), Ok(3_723_004_000_000));
    }

    /// The values are those of the IANA registry "Differentiated Services Field Codepoints".
    #[test]
    fn code_points_have_names() {
        let class_selectors = (0..8).map(|class| (format!("cs{class}"), class * 8));
        let assured: [u8; 12] = [10, 12, 14, 18, 20, 22, 26, 28, 30, 34, 36, 38];
        let names = (1..=4).flat_map(|class| (1..=3).map(move |low| format!("af{class}{low}")));
        let others =
            [("EF", 46), ("le", 1), ("63", 63), ("0", 0)].map(|(name, value)| (name.to_owned(), value));
        for (name, value) in class_selectors.chain(names.zip(assured)).chain(others) {
            assert_eq!(parse_dscp(&name), Ok(value), "{name}");
            let named = dscp_name(value).unwrap_or_else(|| value.to_string());
            assert!(
                name.eq_ignore_ascii_case(&named) || (value, name.as_str()) == (0, "cs0"),
                "{name} {named}"
            );
        }
        for wrong in ["cs8", "cs", "af10", "af14", "af51", "af1", "ef1", "64", "-1", "", "lé"] {
            assert_eq!(parse_dscp(wrong), Err(format!("'{wrong}' is not {DSCP}")), "{wrong}");
        }
    }

    #[test]
    fn percentages_have_the_digits_that_count() {
        let shown = [0.0, 0.000_04, 0.001, 0.04, 0.6667, 1.5, 2.0, 12.3, 93.33, 99.3, 99.96, 100.0, 130.0];
        let want = [
            "0 %", "4.0e-5 %", "0.001 %", "0.04 %", "0.67 %", "1.5 %", "2 %", "12 %", "93 %", "99.3 %",
            "99.96 %", "100 %", "130 %",
        ];
        assert_eq!(shown.map(format_percent), want.map(str::to_owned));
        assert_eq!([-3.21, -0.5, 99.999_999_9].map(format_percent), ["-3.2 %", "-0.5 %", "100 %"]);
    }

    #[test]
    fn prefixes_count_by_thousands_or_by_1024() {
        for (prefix, power) in [("", 0), ("k", 1), ("K", 1), ("m", 2), ("g", 3), ("T", 4)] {
            assert_eq!(parse_rate(&format!("2{prefix}")), Ok(2 * 1000u64.pow(power)), "{prefix}");
            assert_eq!(parse_bytes(&format!("2{prefix}B")), Ok(2 * 1024u64.pow(power)), "{prefix}");
        }
        for wrong in ["5i", "5ib", "5kk", "5KI", "5p"] {
            assert!(parse_bytes(wrong).is_err() && parse_rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_they_should_not() {
        for bad in ["", "-1", "x", "1x", "1e400", "99999999T", "1..2", "inf", "NaN"] {
            let parsed = [parse_rate(bad), parse_bytes(bad), parse_duration(bad)];
            assert!(parsed.iter().all(Result::is_err), "{bad}: {parsed:?}");
        }
        for bad in ["1m30", "30s1m", "1s1s", "1m x", "1 30", "1m-3s"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
        assert!(parse_rate("10Mbitbit").is_err() && parse_rate("bit").is_err());
        assert_eq!(parse_rate("fast"), Err(format!("'fast' is not {RATE}")));
    }

    #[test]
    fn printed_with_three_digits() {
        assert_eq!(format_bits_per_second(9_876_000_000.0), "9.88 Gbit/s");
        assert_eq!(format_bits_per_second(0.0), "0 bit/s");
        assert_eq!(format_bits_per_second(999_960.0), "1.00 Mbit/s");
        assert_eq!(format_bits_per_second(123_456.0), "123 kbit/s");
        assert_eq!(format_number(99_999.0), "99999");
        assert_eq!(format_number(14_880_952.0), "14.9 M");
        assert_eq!(format_number(-123_456.0), "-123 k");
        assert_eq!(format_bytes(1_610_612_736), "1.50 GiB");
        assert_eq!(format_bytes(17), "17 B");
        assert_eq!(format_duration(12_345_678.0), "12.3 ms");
        assert_eq!(format_duration(51_000.0), "51.0 µs");
        assert_eq!(format_duration(3.0e9), "3.00 s");
    }

    #[test]
    fn one_of_them_and_several() {
        assert_eq!(["server", "run"].map(|what| format_count(1, what)), ["1 server", "1 run"]);
        assert_eq!([0, 2].map(|n| format_count(n, "server")), ["0 servers", "2 servers"]);
    }

    /// The number and the unit of a text.
    fn parts(text: &str) -> (&str, f64, String) {
        let (number, unit) = text.split_once(' ').unwrap();
        (number, number.parse().unwrap(), unit.to_owned())
    }

    #[test]
    fn right_in_three_digits_from_one_bit_a_second_to_beyond_400_gbit() {
        let factors = |prefixes: &[(&str, f64)], suffix: &str| -> Vec<(String, f64)> {
            prefixes.iter().map(|(prefix, factor)| (format!("{prefix}{suffix}"), *factor)).collect()
        };
        let si = [("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12), ("P", 1e15)];
        let rates = factors(&si, "bit/s");
        let binary = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];
        let binary: Vec<(&str, f64)> =
            binary.iter().enumerate().map(|(n, prefix)| (*prefix, 1024f64.powi(n as i32))).collect();
        let bytes = factors(&binary, "B");
        let times = factors(&[("n", 1.0), ("µ", 1e3), ("m", 1e6), ("", 1e9)], "s");
        // Values a little below, at and above each power of ten and of two, and of 400 Gbit/s, its
        // bytes, its packets.
        let powers = (0..16).map(|n| 10f64.powi(n)).chain((0..50).map(|n| 2f64.powi(n)));
        let special = [400e9, 50e9, 32.5e6, 595e6, 1.0];
        let around = [0.4, 0.99, 0.9994, 0.9995, 0.99951, 0.99996, 1.0, 1.0004, 1.5, 3.0, 7.77, 9.994, 9.996];
        for value in powers.chain(special).flat_map(|value| around.map(|factor| value * factor)) {
            let whole = value.round().max(1.0);
            let shown = [
                (format_bits_per_second(whole), whole, &rates, 1000.0),
                (format_bytes(u64::clamped(whole)), whole, &bytes, 1024.0),
                (format_duration(whole), whole, &times, 1000.0),
            ];
            for (text, value, units, base) in shown {
                let (digits, number, unit) = parts(&text);
                let factor =
                    units.iter().find(|(name, _)| *name == unit).unwrap_or_else(|| panic!("{text}")).1;
                let off = (number * factor - value).abs() / value;
                assert!(off <= 0.005, "{value} is told as {text}");
                let last = units.last().unwrap().0 == unit;
                assert!(number < base || last, "{value} is told as {text}");
                let count = digits.chars().filter(char::is_ascii_digit).count();
                let is_whole = !digits.contains('.');
                assert!(count == 3 || is_whole, "{value} is told as {text}");
            }
        }
    }
}
