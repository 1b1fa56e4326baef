//! Recorded times between sends, played over and over.

use metrics::{Clamped, SECOND, parse_duration, real};
use serde::{Deserialize, Serialize};

/// Most times of a trace: it has to fit into the proposal.
const MOST: usize = 50_000;
/// Longest time between two sends, ns.
const LONGEST: u64 = 3_600 * SECOND;

/// Times from one send to the next. After the last one the first follows again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Trace {
    /// Times from one send to the next, ns.
    pub gaps_ns: Vec<u64>,
}

impl Trace {
    /// Reads a text with one time a line: with a unit (`250us`), or in seconds without one, as
    /// `tshark -T fields -e frame.time_delta` prints them. Empty lines and what follows a `#` are
    /// left out.
    ///
    /// # Errors
    /// One sentence naming the first line that is no time, or the fault of the whole trace.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut gaps_ns = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            if gaps_ns.len() == MOST {
                return Err(format!("a trace must have at most {MOST} times"));
            }
            let gap = parse_duration(line).map_err(|error| format!("line {}: {error}", at + 1))?;
            gaps_ns.push(gap);
        }
        let trace = Trace { gaps_ns };
        trace.check()?;
        Ok(trace)
    }

    /// Checks it; both ends do.
    ///
    /// # Errors
    /// One sentence: the expected form.
    pub fn check(&self) -> Result<(), String> {
        let must = |ok: bool, what: &str| if ok { Ok(()) } else { Err(what.to_owned()) };
        must((1..=MOST).contains(&self.gaps_ns.len()), "a trace must have 1 to 50000 times")?;
        must(self.gaps_ns.iter().all(|&gap| gap <= LONGEST), "no time of a trace may be longer than 1h")?;
        must(self.gaps_ns.iter().any(|&gap| gap > 0), "a trace must have a time above 0")
    }

    /// The time from send `n`, from 0, to the next, ns.
    pub fn gap_ns(&self, n: u64) -> u64 {
        let at = n.checked_rem(u64::clamped(self.gaps_ns.len())).unwrap_or(0);
        self.gaps_ns.get(usize::clamped(at)).copied().unwrap_or(SECOND)
    }

    /// The mean time between two sends, ns, at least 1.
    pub fn mean_ns(&self) -> f64 {
        let sum: u128 = self.gaps_ns.iter().map(|&gap| u128::from(gap)).sum();
        (real(sum) / real(self.gaps_ns.len().max(1))).max(1.0)
    }

    /// The mean rate of sends of `size` bytes, bits/s, at least 8.
    pub fn mean_bps(&self, size: u32) -> u64 {
        (u64::clamped(f64::from(size) * 8e9 / self.mean_ns())).max(8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_time() {
        let trace = Trace::parse("# from a capture\n0.000250000\n1ms # late\n\n 0\n").unwrap();
        assert_eq!(trace.gaps_ns, [250_000, 1_000_000, 0]);
        let told: Vec<u64> = (0..5).map(|n| trace.gap_ns(n)).collect();
        assert_eq!(told, [250_000, 1_000_000, 0, 250_000, 1_000_000]);
        // 3 sends of 1000 bytes in 1.25 ms.
        assert_eq!(trace.mean_bps(1_000), 19_200_000);
    }

    #[test]
    fn invalid_trace_is_refused_by_name() {
        for (text, why) in [
            ("", "1 to 50000"),
            ("0\n0", "above 0"),
            ("1ms\nsoon", "line 2"),
            ("2h", "longer than 1h"),
            (&"1ms\n".repeat(50_001), "at most 50000"),
        ] {
            let told = Trace::parse(text).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
        assert_eq!(Trace::default().gap_ns(7), SECOND);
    }
}
