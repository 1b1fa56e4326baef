//! Frames that a player of a media stream would have had in time, and the buffer that this takes.

use crate::{Signed, SignedSummary};
use serde::{Deserialize, Serialize};

/// Buffer depths for which misses are reported, ms.
const DEPTHS: [u64; 11] = [0, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000];

/// Gathers frames over a stream, or over many.
#[derive(Clone, Debug, Default)]
pub struct Playout {
    need: Signed,
    never: u64,
    stalls: u64,
    longest: u64,
}

impl Playout {
    /// A frame is complete `need` ns after it was due to be sent: a player that holds at least as
    /// much has it in time.
    pub fn complete(&mut self, need: i64) {
        self.need.record(need);
    }

    /// A frame will never be complete: no depth helps.
    pub fn never(&mut self) {
        self.never += 1;
    }

    /// The next frame was due and absent: the `run`-th of its stream in a row.
    pub fn missed(&mut self, run: u64) {
        self.stalls += u64::from(run == 1);
        self.longest = self.longest.max(run);
    }

    /// Adds another stream's, or a later interval's.
    pub fn merge(&mut self, other: &Playout) {
        self.need.merge(&other.need);
        self.never += other.never;
        self.stalls += other.stalls;
        self.longest = self.longest.max(other.longest);
    }

    /// Figures for a report.
    pub fn summary(&self) -> PlayoutSummary {
        let Playout { ref need, never, stalls, longest: longest_stall } = *self;
        let depths = DEPTHS.into_iter().map(|ms| ms * 1_000_000);
        let misses = depths.map(|depth| (depth, never + need.count_above(depth))).collect();
        PlayoutSummary { need_ns: need.summary(), never, misses, stalls, longest_stall }
    }
}

/// Buffer depths that frames of a media stream needed, and the stalls with the depth that was asked
/// for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PlayoutSummary {
    /// From when a frame was due to be sent until it was complete, ns: the depth that it needed. Of
    /// complete frames; `None` without one.
    pub need_ns: Option<SignedSummary>,
    /// Frames that never became complete: no depth would have helped.
    pub never: u64,
    /// Depth in ns, and how many frames a player that holds so much would have missed.
    pub misses: Vec<(u64, u64)>,
    /// Times that the picture stood still with the depth that was asked for.
    pub stalls: u64,
    /// The longest stall, frames.
    pub longest_stall: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_by_depth_agree_with_counting() {
        let ms = 1_000_000;
        let needs: Vec<i64> = (0..1_000i64).map(|i| (i * i % 977) * 3 * ms - 20 * ms).collect();
        let mut playout = Playout::default();
        needs.iter().for_each(|&need| playout.complete(need));
        (0..7).for_each(|_| playout.never());
        for (depth, missed) in playout.summary().misses {
            let slow = needs.iter().filter(|&&need| need > depth as i64).count() as i64 + 7;
            // The histogram keeps three digits: frames on the edge may fall on either side.
            let edge =
                needs.iter().filter(|need| (**need - depth as i64).unsigned_abs() <= depth / 500).count();
            assert!((missed as i64 - slow).unsigned_abs() as usize <= edge, "{depth}: {missed} {slow}");
        }
    }

    #[test]
    fn stalls_are_runs_of_missed_frames() {
        let mut playout = Playout::default();
        for run in [1, 2, 1, 2, 3] {
            playout.missed(run);
        }
        let summary = playout.summary();
        assert_eq!((summary.stalls, summary.longest_stall, summary.never), (2, 3, 0));
        assert_eq!(summary.need_ns, None);
    }
}
