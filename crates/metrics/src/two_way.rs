//! Round trips taken apart into their two ways, where the remote end reports when messages arrived
//! and when answers left.

use crate::{Dist, IpFields, add_known};
use serde::{Deserialize, Serialize};

/// Outcomes of messages, or of answers, on one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct WayCounts {
    /// Known to have been lost on this way.
    pub lost: u64,
    /// Arrived twice at the end of this way.
    pub duplicated: u64,
    /// Overtaken on this way.
    pub reordered: u64,
}

impl WayCounts {
    fn add(&mut self, more: &WayCounts) {
        self.lost += more.lost;
        self.duplicated += more.duplicated;
        self.reordered += more.reordered;
    }
}

/// Facts about both directions besides delays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct WayFacts {
    /// On the way there.
    pub there: WayCounts,
    /// On the way back.
    pub back: WayCounts,
    /// Lost on an unknown way: the last ones of a flow, and all where the remote end does not
    /// number its answers itself.
    pub lost_somewhere: u64,
    /// Flows whose remote end was seen to number its answers itself.
    pub numbered: u64,
    /// Flows whose answers all had our numbers: the remote end copies them, or nothing was lost on
    /// the way there.
    pub copied: u64,
    /// IP fields of the messages as the remote end received them, where it reports them.
    pub there_marks: IpFields,
    /// IP fields of the answers as they were received.
    pub back_marks: IpFields,
    /// Error bound of the delays of one way because two clocks were compared, ns; the worst.
    pub clock_bound_ns: Option<u64>,
    /// The remote end's wall clock minus ours as it was found last, ns.
    pub clock_offset_ns: Option<i64>,
    /// Delays found by wall clocks that both ends say are disciplined, because that was the better
    /// bound; the others were found by exchanges of stamps, which no clock has to be right for.
    pub by_wall: u64,
    /// Error bound that the remote end reports for its clock, ns; the worst.
    pub remote_error_ns: Option<u64>,
    /// True while the remote end reports its clock as disciplined; false if it ever did not.
    pub remote_synced: Option<bool>,
    /// Answers that did not prove to know the key, or are none; they count as not received.
    pub rejected: u64,
    /// Extensions (STAMP's TLVs, by type) that the remote end did not understand.
    pub unrecognised: Vec<u8>,
    /// Answers in which the remote end found one of our extensions malformed.
    pub malformed: u64,
    /// Answers whose extensions differed from what either end sent; none of them was used.
    pub tampered: u64,
    /// Answers without the session's identifier, from a remote end that does not know such.
    pub unnamed: u64,
    /// Source and method of the remote end's clock when receiving, then when sending (STAMP's
    /// Timestamp Information; RFC 8972, tables 6 and 7), if it reports them.
    pub remote_clock: Option<[u8; 4]>,
    /// Messages that the remote end has received, and answers that it has sent, by its own count
    /// (STAMP's Direct Measurement).
    pub remote_counts: Option<(u64, u64)>,
}

impl WayFacts {
    fn merge(&mut self, other: &WayFacts) {
        self.there.add(&other.there);
        self.back.add(&other.back);
        self.lost_somewhere += other.lost_somewhere;
        self.numbered += other.numbered;
        self.copied += other.copied;
        self.there_marks.add(&other.there_marks);
        self.back_marks.add(&other.back_marks);
        self.clock_bound_ns = self.clock_bound_ns.max(other.clock_bound_ns);
        self.clock_offset_ns = other.clock_offset_ns.or(self.clock_offset_ns);
        self.by_wall += other.by_wall;
        self.remote_error_ns = self.remote_error_ns.max(other.remote_error_ns);
        add_known(&mut self.remote_synced, other.remote_synced.as_ref(), |ours, theirs| *ours &= theirs);
        self.rejected += other.rejected;
        for &kind in &other.unrecognised {
            self.not_recognised(kind);
        }
        self.malformed += other.malformed;
        self.tampered += other.tampered;
        self.unnamed += other.unnamed;
        self.remote_clock = other.remote_clock.or(self.remote_clock);
        add_known(&mut self.remote_counts, other.remote_counts.as_ref(), |ours, theirs| {
            *ours = (ours.0 + theirs.0, ours.1 + theirs.1);
        });
    }

    /// The remote end did not understand this extension.
    pub fn not_recognised(&mut self, kind: u8) {
        if let Err(at) = self.unrecognised.binary_search(&kind) {
            self.unrecognised.insert(at, kind);
        }
    }
}

/// Round trips taken apart into their two ways, in one interval or in all. `D` is a distribution of
/// times: a [`Dist`] while they are counted, a spectrum in results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Ways"))]
#[cfg_attr(feature = "schema", schemars(bound = "D: Default + schemars::JsonSchema + Serialize"))]
#[serde(default)]
pub struct TwoWay<D = Dist> {
    /// From our send until the remote end received, ns; no more certain than `facts.clock_bound_ns`
    /// says.
    pub there_ns: D,
    /// From the remote end's send until we received, ns; no more certain than
    /// `facts.clock_bound_ns` says.
    pub back_ns: D,
    /// Delay of answers in the remote end after their own stamps, by its kernel's stamps, ns.
    pub left_late_ns: D,
    /// Losses by direction, marks, clocks.
    pub facts: WayFacts,
}

impl<D> TwoWay<D> {
    /// The same with distributions of another form.
    pub fn map<T>(&self, form: impl Fn(&D) -> T) -> TwoWay<T> {
        let [there_ns, back_ns, left_late_ns] = [&self.there_ns, &self.back_ns, &self.left_late_ns].map(form);
        TwoWay { there_ns, back_ns, left_late_ns, facts: self.facts.clone() }
    }
}

impl TwoWay {
    /// Adds all that `other` holds.
    pub fn merge(&mut self, other: &TwoWay) {
        self.there_ns.merge(&other.there_ns);
        self.back_ns.merge(&other.back_ns);
        self.left_late_ns.merge(&other.left_late_ns);
        self.facts.merge(&other.facts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_adds_counts_and_keeps_the_worst() {
        let one = |bound, synced| {
            let mut ways = <TwoWay>::default();
            ways.there_ns.record(5);
            ways.facts.there = WayCounts { lost: 1, duplicated: 2, reordered: 3 };
            ways.facts.back.lost = 4;
            ways.facts.lost_somewhere = 5;
            ways.facts.clock_bound_ns = Some(bound);
            ways.facts.remote_synced = Some(synced);
            ways.facts.not_recognised(bound as u8);
            ways.facts.remote_counts = Some((6, 7));
            ways
        };
        let mut sum = one(9, true);
        sum.merge(&one(3, true));
        sum.merge(&<TwoWay>::default());
        assert_eq!((sum.there_ns.count(), sum.facts.clock_bound_ns), (2, Some(9)));
        assert_eq!((sum.facts.there.lost, sum.facts.there.duplicated, sum.facts.there.reordered), (2, 4, 6));
        assert_eq!((sum.facts.back.lost, sum.facts.lost_somewhere), (8, 10));
        assert_eq!((sum.facts.remote_synced, sum.facts.remote_counts), (Some(true), Some((12, 14))));
        assert_eq!(sum.facts.unrecognised, [3, 9]);
        sum.merge(&one(9, false));
        assert_eq!(sum.facts.remote_synced, Some(false));
        assert_eq!(sum.facts.unrecognised, [3, 9], "told once");
    }
}
