//! Units of figures, and values as people and scrapers read them.

use metrics::{
    Clamped, format_bits_per_second, format_bytes, format_duration, format_number, format_percent,
};
use serde::{Deserialize, Serialize};

/// Units of figures, always base units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Bits per second.
    #[serde(rename = "bps")]
    BitsPerSecond,
    /// Things per second.
    #[serde(rename = "per_s")]
    PerSecond,
    /// Nanoseconds.
    Ns,
    /// Percent.
    Percent,
    /// A number of things.
    Count,
    /// A share of one.
    Share,
    /// Seconds for 10^9 bytes.
    #[serde(rename = "s_per_gb")]
    SecondsPerGb,
    /// Bytes.
    Bytes,
    /// Place of a letter among [`crate::load::GRADES`].
    Grade,
}

/// Each unit in the order of the enum: its name in files, the suffix of a name for scrapers, whose
/// units are bytes, seconds and ratios, and the divisor for them.
const UNITS: [(Unit, &str, &str, f64); 9] = [
    (Unit::BitsPerSecond, "bps", "_bytes_per_second", 8.0),
    (Unit::PerSecond, "per_s", "_per_second", 1.0),
    (Unit::Ns, "ns", "_seconds", 1e9),
    (Unit::Percent, "percent", "_ratio", 100.0),
    (Unit::Count, "count", "", 1.0),
    (Unit::Share, "share", "_ratio", 1.0),
    (Unit::SecondsPerGb, "s_per_gb", "_seconds_per_gigabyte", 1.0),
    (Unit::Bytes, "bytes", "_bytes", 1.0),
    (Unit::Grade, "grade", "", 1.0),
];

impl Unit {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Unit> {
        UNITS.iter().map(|(unit, ..)| *unit)
    }

    /// The suffix of a name for scrapers, and the divisor of a value.
    pub fn scraped(self) -> (&'static str, f64) {
        let (_, _, suffix, divisor) = UNITS[self as usize];
        (suffix, divisor)
    }

    /// As files have it.
    pub fn name(self) -> &'static str {
        UNITS[self as usize].1
    }

    /// A value as people read it.
    pub fn show(self, value: f64) -> String {
        match self {
            Unit::BitsPerSecond => format_bits_per_second(value),
            Unit::Ns => format_duration(value),
            Unit::Percent => format_percent(value),
            Unit::PerSecond if value.abs() < 99.95 => format!("{value:.1}/s"),
            Unit::PerSecond => format!("{}/s", format_number(value)),
            Unit::Count => format!("{value:.0}"),
            Unit::Share => format!("{value:.4}"),
            Unit::SecondsPerGb => format!("{value:.3} s/GB"),
            Unit::Bytes => format_bytes(u64::clamped(value)),
            Unit::Grade => crate::load::letter(value).to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unit_has_its_own_row() {
        for (place, unit) in Unit::all().enumerate() {
            assert_eq!(unit as usize, place);
        }
    }

    #[test]
    fn a_small_share_is_not_shown_as_none() {
        let shown = [0.0, 0.000_04, 0.001, 0.25, 12.3].map(|value| Unit::Percent.show(value));
        assert_eq!(shown, ["0 %", "4.0e-5 %", "0.001 %", "0.25 %", "12 %"]);
    }
}
