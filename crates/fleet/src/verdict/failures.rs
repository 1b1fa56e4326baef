//! Verdicts on what could not be measured: all tests, a host, one of its directions, a pair.
//!
//! A failed test has been tried several times already, so that its verdict is no estimate. A
//! host is named when most of its tests failed while the tests of the other hosts among each other
//! work:
//!
//! - First the hosts of which no test was measured. Their partners have failures for that reason
//!   alone, so that tests with such hosts count for nobody else.
//! - Then, among the others, the hosts of which more than half of the tests in a direction failed,
//!   unless most tests without these hosts failed, too: a network that is cut in two halves names
//!   pairs and no host.
//! - Then the pairs of which no test was measured.

use super::{Side, Subject, Verdict};
use crate::inventory::{HostId, Inventory};
use crate::result::Reason;
use metrics::percent_of;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The `figure` of these verdicts.
pub(crate) const FAILED: &str = "failed";
/// Most pairs that are named; the counts of the matrix have all.
const MOST_PAIRS: usize = 200;
/// Longest explanation that is part of the sentence, characters.
const MOST_DETAIL: usize = 100;

/// The failed tests behind a verdict on what could not be measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Failures {
    /// Tests that failed.
    pub failed: u64,
    /// Tests of the plan, except pairs unreachable by design.
    pub tests: u64,
    /// Reason of most of them.
    pub reason: Reason,
    /// Explanation of most of them; absent where they have several, or a long one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Position in `tests` of the test that fails while others of the same hosts do not; absent for
    /// all tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<u16>,
    /// Command line of that test.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command: String,
}

/// The tests of a cell, as counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tried<'a> {
    pub(crate) from: HostId,
    pub(crate) to: HostId,
    /// Tests with an outcome.
    pub(crate) measured: usize,
    /// Tests without, by reason.
    pub(crate) missing: &'a BTreeMap<Reason, u16>,
    /// Words about the last of these.
    pub(crate) detail: &'a str,
}

/// Counts of the tests of several cells.
#[derive(Clone, Debug, Default)]
struct Tally<'a> {
    measured: u64,
    failed: u64,
    tests: u64,
    reasons: BTreeMap<Reason, u64>,
    details: BTreeMap<&'a str, u64>,
    /// A host at the other end, and whether there is a second one.
    partner: Option<HostId>,
    has_partners: bool,
}

impl<'a> Tally<'a> {
    fn add(&mut self, tried: &Tried<'a>, partner: Option<HostId>) {
        self.measured += tried.measured as u64;
        self.tests += tried.measured as u64;
        for (reason, n) in tried.missing.iter().filter(|(of, _)| **of != Reason::UnreachableByDesign) {
            let n = u64::from(*n);
            self.tests += n;
            if reason.is_failure() {
                self.failed += n;
                *self.reasons.entry(*reason).or_default() += n;
                *self.details.entry(tried.detail).or_default() += n;
            }
        }
        self.has_partners |= self.partner.is_some() && self.partner != partner;
        self.partner = self.partner.or(partner);
    }

    fn of<'b>(tried: impl IntoIterator<Item = &'b Tried<'a>>) -> Tally<'a>
    where
        'a: 'b,
    {
        let mut tally = Tally::default();
        tried.into_iter().for_each(|tried| tally.add(tried, None));
        tally
    }

    /// True if nothing was measured, and three quarters of the tests failed: the rest was cancelled
    /// or is not measured yet.
    fn is_dead(&self) -> bool {
        self.measured == 0 && self.failed > 0 && 4 * self.failed >= 3 * self.tests
    }

    /// True if more than half of the tests with several others failed.
    fn is_weak(&self) -> bool {
        self.has_partners && 2 * self.failed > self.tests
    }

    fn verdict(self, subject: Subject, of: Option<(u16, &str)>) -> Verdict {
        let most = |(_, n): &(Reason, u64)| *n;
        let reason = self.reasons.into_iter().max_by_key(most).map_or(Reason::Failed, |(reason, _)| reason);
        let mut details = self.details.into_iter().filter(|(_, n)| 2 * n > self.failed);
        let detail = details.find(|(text, _)| text.chars().count() <= MOST_DETAIL);
        let failures = Failures {
            failed: self.failed,
            tests: self.tests,
            reason,
            detail: detail.map_or_else(String::new, |(text, _)| text.to_owned()),
            test: of.map(|(test, _)| test),
            command: of.map_or_else(String::new, |(_, command)| command.to_owned()),
        };
        let effect = percent_of(self.failed, self.tests);
        Verdict { subject, figure: FAILED.to_owned(), effect, q: 0.0, failures: Some(failures) }
    }
}

/// The tests of each host in each direction, [`Side::Out`] or [`Side::In`].
fn by_side<'a>(tried: &[&Tried<'a>]) -> BTreeMap<(HostId, Side), Tally<'a>> {
    let mut tallies = BTreeMap::<(HostId, Side), Tally<'a>>::new();
    for one in tried {
        tallies.entry((one.from, Side::Out)).or_default().add(one, Some(one.to));
        tallies.entry((one.to, Side::In)).or_default().add(one, Some(one.from));
    }
    tallies
}

/// The verdicts on these tests, which are all of a run or, with `of`, all of one test and its
/// command line.
pub(crate) fn judge_failures(
    inventory: &Inventory,
    tried: &[Tried<'_>],
    of: Option<(u16, &str)>,
) -> Vec<Verdict> {
    let all = Tally::of(tried);
    if all.failed == 0 {
        return Vec::new();
    }
    if all.measured == 0 {
        return Vec::from_iter(all.is_dead().then(|| all.verdict(Subject::All, of)));
    }
    let name = |host: HostId| inventory.name(host).to_owned();
    let mut verdicts = Vec::new();
    let mut hosts = BTreeMap::<HostId, Tally<'_>>::new();
    for one in tried {
        hosts.entry(one.from).or_default().add(one, Some(one.to));
        hosts.entry(one.to).or_default().add(one, Some(one.from));
    }
    hosts.retain(|_, tally| tally.has_partners && tally.is_dead());
    let is_left = |one: &&Tried<'_>| !hosts.contains_key(&one.from) && !hosts.contains_key(&one.to);
    let mut rest: Vec<&Tried<'_>> = tried.iter().filter(is_left).collect();
    for (host, tally) in hosts {
        verdicts.push(tally.verdict(Subject::Host { host: name(host), side: Side::Both }, of));
    }

    let mut sides = by_side(&rest);
    sides.retain(|_, tally| tally.is_weak());
    let weak: BTreeSet<(HostId, Side)> = sides.keys().copied().collect();
    let is_left =
        |one: &&Tried<'_>| !weak.contains(&(one.from, Side::Out)) && !weak.contains(&(one.to, Side::In));
    let others = Tally::of(rest.iter().copied().filter(is_left));
    if 2 * others.measured > others.tests {
        let both: BTreeSet<HostId> =
            weak.iter().map(|(host, _)| *host).filter(|host| weak.contains(&(*host, Side::In))).collect();
        let both = both.into_iter().filter(|host| weak.contains(&(*host, Side::Out)));
        let both: BTreeSet<HostId> = both.collect();
        for host in &both {
            let own = rest.iter().copied().filter(|one| one.from == *host || one.to == *host);
            let subject = Subject::Host { host: name(*host), side: Side::Both };
            verdicts.push(Tally::of(own).verdict(subject, of));
        }
        for ((host, side), tally) in sides.into_iter().filter(|((host, _), _)| !both.contains(host)) {
            verdicts.push(tally.verdict(Subject::Host { host: name(host), side }, of));
        }
        rest.retain(is_left);
    }

    let mut pairs = BTreeMap::<(HostId, HostId), Tally<'_>>::new();
    for one in rest {
        pairs.entry((one.from, one.to)).or_default().add(one, None);
    }
    let dead = pairs.into_iter().filter(|(_, tally)| tally.is_dead()).take(MOST_PAIRS);
    verdicts.extend(
        dead.map(|((from, to), tally)| tally.verdict(Subject::Pair { from: name(from), to: name(to) }, of)),
    );
    verdicts
}

impl Failures {
    /// `22 of 22 tests failed (host absent)`
    pub(super) fn words(&self) -> String {
        let Failures { failed, reason, .. } = self;
        let tests = metrics::format_count(self.tests, "test");
        let why = match self.detail.as_str() {
            "" if *reason == Reason::Failed => String::new(),
            "" => format!(" ({reason})"),
            detail => format!(" ({})", report::clean(detail)),
        };
        format!("{failed} of {tests} failed{why}")
    }

    /// True if no test of them has an outcome.
    pub(super) fn are_all(&self) -> bool {
        self.failed >= self.tests
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::Format;

    /// Verdicts on a mesh of hosts, `repeats` tests of each pair, of which `failed` fail.
    fn judged(hosts: u32, repeats: u16, failed: impl Fn(u32, u32) -> u16) -> Vec<String> {
        let list: String = (0..hosts).map(|n| format!("h{n}\n")).collect();
        let inventory = Inventory::parse(&list, Format::Lines).unwrap();
        let pairs = (0..hosts).flat_map(|a| (0..hosts).map(move |b| (a, b))).filter(|(a, b)| a != b);
        let cells: Vec<(u32, u32, BTreeMap<Reason, u16>)> = pairs
            .map(|(a, b)| {
                (a, b, BTreeMap::from_iter(Some((Reason::Failed, failed(a, b))).filter(|f| f.1 > 0)))
            })
            .collect();
        let tried: Vec<Tried<'_>> = cells
            .iter()
            .map(|(a, b, missing)| Tried {
                from: HostId(*a),
                to: HostId(*b),
                measured: usize::from(repeats - missing.values().sum::<u16>()),
                missing,
                detail: "",
            })
            .collect();
        judge_failures(&inventory, &tried, None).iter().map(Verdict::words).collect()
    }

    #[test]
    fn a_dead_host_is_named_and_nobody_else() {
        assert_eq!(
            judged(12, 1, |a, b| u16::from(a == 7 || b == 7)),
            ["h7 could not be measured: 22 of 22 tests failed"]
        );
        assert_eq!(judged(12, 1, |_, _| 0), [""; 0]);
        // Most hosts are dead: the two others still work.
        let dead = judged(12, 1, |a, b| u16::from(a > 1 || b > 1));
        assert_eq!(dead.len(), 10);
        assert_eq!(dead[0], "h2 could not be measured: 22 of 22 tests failed");
        assert_eq!(
            judged(3, 1, |a, b| u16::from(a == 2 || b == 2)),
            ["h2 could not be measured: 4 of 4 tests failed"]
        );
    }

    #[test]
    fn most_tests_of_a_host_or_of_a_direction_are_enough() {
        assert_eq!(
            judged(12, 3, |a, b| 2 * u16::from(a == 7 || b == 7)),
            ["h7 could hardly be measured: 44 of 66 tests failed"]
        );
        assert_eq!(
            judged(12, 1, |a, _| u16::from(a == 7)),
            ["h7 could not be measured as sender: 11 of 11 tests failed"]
        );
        assert_eq!(
            judged(12, 1, |a, b| u16::from(b == 7 && a != 3)),
            ["h7 could hardly be measured as receiver: 10 of 11 tests failed"]
        );
    }

    #[test]
    fn a_pair_is_named_when_none_of_its_tests_was_measured() {
        let one = |a, b, n| if (a, b) == (1, 2) { n } else { 0 };
        assert_eq!(judged(6, 3, |a, b| one(a, b, 3)), ["h1 → h2 could not be measured: 3 of 3 tests failed"]);
        assert_eq!(judged(6, 3, |a, b| one(a, b, 2)), [""; 0]);
        // Of two hosts nobody can say which one is at fault.
        assert_eq!(
            judged(2, 1, |a, _| u16::from(a == 0)),
            ["h0 → h1 could not be measured: 1 of 1 test failed"]
        );
    }

    #[test]
    fn halves_that_do_not_reach_each_other_name_no_host() {
        let cut = judged(6, 1, |a, b| u16::from((a < 3) != (b < 3)));
        assert_eq!(cut.len(), 18);
        assert!(cut.iter().all(|words| words.contains(" → ")), "{cut:?}");
    }

    #[test]
    fn nothing_measured_at_all_is_one_verdict() {
        assert_eq!(judged(12, 1, |_, _| 1), ["Nothing could be measured: 132 of 132 tests failed"]);
    }

    #[test]
    fn what_was_cancelled_has_not_failed() {
        let inventory = Inventory::parse("a\nb\nc\n", Format::Lines).unwrap();
        let missing = BTreeMap::from([(Reason::Cancelled, 2), (Reason::HostAbsent, 1)]);
        let none = BTreeMap::new();
        let cell = |from, to, measured, missing| Tried {
            from: HostId(from),
            to: HostId(to),
            measured,
            missing,
            detail: "",
        };
        let tried = [cell(0, 1, 3, &none), cell(0, 2, 0, &missing), cell(1, 2, 0, &missing)];
        assert!(judge_failures(&inventory, &tried, None).is_empty());
        let absent = BTreeMap::from([(Reason::HostAbsent, 3), (Reason::UnreachableByDesign, 9)]);
        let tried = [cell(0, 1, 3, &none), cell(0, 2, 0, &absent), cell(1, 2, 0, &absent)];
        let verdicts = judge_failures(&inventory, &tried, Some((1, "tcp -t 1s")));
        assert_eq!(
            verdicts.iter().map(Verdict::words).collect::<Vec<_>>(),
            ["c could not be measured with tcp -t 1s: 6 of 6 tests failed (host absent)"]
        );
        assert!((verdicts[0].effect - 100.0).abs() < 1e-9);
    }
}
