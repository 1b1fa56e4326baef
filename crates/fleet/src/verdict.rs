//! Finds outliers in a matrix: a host, one of its directions, a pair, or the hosts of a label; and
//! what could not be measured ([`failures`]).
//!
//! Each figure is fitted by rows and columns with medians (median polish, Tukey 1977): an effect of
//! each host as sender, an effect as receiver, and a residual of each pair. A few bad pairs or
//! hosts do not move a median.
//!
//! A healthy matrix must raise no alarm, however heavy the tails of its noise:
//!
//! - Hosts are compared with the spread of all other hosts, by Student's t with few degrees of
//!   freedom.
//! - A pair has to be worse in its repeats, each compared with all readings of all pairs, and worse
//!   by far than the spread of pairs. So pairs are judged from three repeats on; a single bad
//!   reading may be a moment's traffic.
//! - Labels are compared by ranks (Mann and Whitney).
//! - Over all that is judged the share of false alarms is controlled (Benjamini and Hochberg 1995):
//!   when nothing is wrong, the probability of any alarm is at most [`ALPHA`].
//! - A difference that matters to nobody is none: see `Bounds`.

mod failures;
mod figure;
mod stats;
mod words;

use crate::inventory::{HostId, Inventory};
pub use failures::Failures;
pub(crate) use failures::{FAILED, Tried, judge_failures};
pub(crate) use figure::{MatrixFigure, RPM, of_load};
use metrics::{ALPHA, Clamped, Contrast, real, student_two_sided};
use model::Unit;
use serde::{Deserialize, Serialize};
use stats::{Fit, at_least, benjamini_hochberg};
pub(crate) use stats::{median, spread};
use std::collections::BTreeMap;
pub(crate) use words::{Scale, title};

/// Fewest pairs of a host, and fewest hosts, that are judged.
pub const FEWEST: usize = 5;
/// Most readings of a pair that are looked at.
const MOST_REPEATS: usize = 64;
/// Hosts above which each is compared with the spread of all instead of all others.
const MANY_HOSTS: usize = 200;
/// Kinds of verdicts: hosts out, hosts in, pairs, labels.
const KINDS: f64 = 4.0;
/// Labels whose values are compared with each other. Hosts are sorted by them, and gathered by one
/// where there are many.
pub(crate) const LABELS: [&str; 4] = ["site", "rack", "rail", "role"];

/// A direction of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// From the host.
    Out,
    /// To the host.
    In,
    /// Both.
    Both,
}

/// Subject of a verdict; hosts by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Subject {
    /// All pairs.
    All,
    /// All pairs of a host in a direction.
    Host { host: String, side: Side },
    /// One pair.
    Pair { from: String, to: String },
    /// The hosts with this value of a label.
    Label { label: String, value: String },
}

/// Something that is worse than the rest, or could not be measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Verdict {
    /// The host, pair or label.
    #[serde(flatten)]
    pub subject: Subject,
    /// Key of the figure, as in `readings`; `failed` for tests without an outcome.
    pub figure: String,
    /// By how much it is worse: a share (0.2 is 20 % more delay, or 20 % less goodput), percentage
    /// points of losses, or the percentage of tests that failed.
    pub effect: f64,
    /// Probability of being as bad by chance, corrected for all that is judged of the figure in
    /// this way; 0 for failed tests, which are counted.
    pub q: f64,
    /// The failed tests, where it could not be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<Failures>,
}

/// The figure of a matrix with this key.
pub(crate) fn figure(key: &str) -> Option<MatrixFigure> {
    MatrixFigure::named(key)
}

/// Scale of a figure's comparison, and the least differences that matter.
pub(crate) struct Bounds {
    /// As a difference; as a ratio otherwise.
    pub(crate) additive: bool,
    /// Spread that is reckoned with at least.
    pub(crate) floor: f64,
    /// Least deviation of a pair.
    pair: f64,
    /// Least deviation of a host.
    host: f64,
    /// Least deviation of a single reading that is listed.
    pub(crate) single: f64,
}

impl Bounds {
    pub(crate) fn of(figure: impl Into<MatrixFigure>) -> Bounds {
        let figure = figure.into();
        let ms = 1e6;
        match figure.unit() {
            // Near 0 a ratio means nothing: grades are 5, 30, 60 ms apart.
            _ if figure == MatrixFigure::Grown => {
                Bounds { additive: true, floor: 0.5 * ms, pair: 5.0 * ms, host: 5.0 * ms, single: 10.0 * ms }
            }
            Unit::Percent | Unit::Share => {
                Bounds { additive: true, floor: 0.02, pair: 0.2, host: 0.2, single: 1.0 }
            }
            _ => Bounds {
                additive: false,
                floor: 0.01,
                pair: 1.05f64.ln(),
                host: 1.1f64.ln(),
                single: 1.25f64.ln(),
            },
        }
    }

    /// A value of `figure` on a scale on which differences count, and more is worse.
    pub(crate) fn badness(&self, figure: MatrixFigure, value: f64) -> f64 {
        let worse = if figure.more_is_better() { -1.0 } else { 1.0 };
        worse * self.scale(value)
    }

    /// The value on a scale on which differences count: its logarithm, if ratios count.
    pub(crate) fn scale(&self, value: f64) -> f64 {
        if self.additive { value } else { value.max(f64::MIN_POSITIVE).ln() }
    }
}

/// The readings of one figure of all pairs, as they are judged: more is worse, and ratios are
/// differences of logarithms.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readings {
    cells: BTreeMap<(HostId, HostId), Vec<f64>>,
}

impl Readings {
    /// Readings of `figure`, from the repeats of each pair.
    pub(crate) fn of(
        figure: impl Into<MatrixFigure>,
        cells: impl IntoIterator<Item = ((HostId, HostId), Vec<f64>)>,
    ) -> Readings {
        let figure = figure.into();
        let bounds = Bounds::of(figure);
        let judged = |value| bounds.badness(figure, value);
        let cells = cells.into_iter().map(|(pair, values)| {
            let finite = values.into_iter().filter(|value| value.is_finite()).take(MOST_REPEATS);
            (pair, finite.map(judged).collect::<Vec<f64>>())
        });
        Readings { cells: cells.filter(|(_, values)| !values.is_empty()).collect() }
    }

    /// Differences to the medians of the same pairs in another matrix; pairs that are not in both
    /// are left out.
    pub(crate) fn against(&self, before: &Readings) -> Readings {
        let cells = self.cells.iter().filter_map(|(pair, values)| {
            let was = median(before.cells.get(pair)?.clone())?;
            Some((*pair, values.iter().map(|value| value - was).collect()))
        });
        Readings { cells: cells.collect() }
    }
}

/// Verdicts on hosts, pairs and labels that are worse than the rest, gravest first. `figures` is
/// the number of figures that are judged of the matrix.
pub(crate) fn judge(
    inventory: &Inventory,
    figure: impl Into<MatrixFigure>,
    key: &str,
    readings: &Readings,
    figures: usize,
) -> Vec<Verdict> {
    let figure = figure.into();
    let mut judge = Judge {
        inventory,
        bounds: Bounds::of(figure),
        level: ALPHA / (KINDS * real(figures.max(1))),
        more_is_better: figure.more_is_better(),
        key,
        verdicts: Vec::new(),
    };
    judge.matrix(readings);
    judge.verdicts.sort_by(|a, b| a.q.total_cmp(&b.q).then_with(|| a.subject.cmp(&b.subject)));
    judge.verdicts
}

struct Judge<'a> {
    inventory: &'a Inventory,
    bounds: Bounds,
    level: f64,
    more_is_better: bool,
    key: &'a str,
    verdicts: Vec<Verdict>,
}

impl Judge<'_> {
    fn matrix(&mut self, readings: &Readings) {
        let cells = readings
            .cells
            .iter()
            .filter_map(|((from, to), values)| Some((*from, *to, median(values.clone())?)));
        let fit = Fit::of(self.inventory.hosts.len(), cells);
        let out = self.hosts(&fit.out, &fit.cells_out);
        let into = self.hosts(&fit.into, &fit.cells_in);
        for (host, (effect, q)) in &out {
            match into.get(host) {
                Some((more, of_more)) => {
                    self.say(self.host(*host, Side::Both), effect + more, q.max(*of_more));
                }
                None => self.say(self.host(*host, Side::Out), *effect, *q),
            }
        }
        for (host, (effect, q)) in into.iter().filter(|(host, _)| !out.contains_key(host)) {
            self.say(self.host(*host, Side::In), *effect, *q);
        }
        self.pairs(readings, &fit, &out, &into);
        self.labels(&fit);
    }

    fn host(&self, host: HostId, side: Side) -> Subject {
        Subject::Host { host: self.inventory.name(host).to_owned(), side }
    }

    fn say(&mut self, subject: Subject, effect: f64, q: f64) {
        let effect = match (self.bounds.additive, self.more_is_better) {
            (true, _) => effect,
            (false, true) => 1.0 - (-effect).exp(),
            (false, false) => effect.exp() - 1.0,
        };
        self.verdicts.push(Verdict { subject, figure: self.key.to_owned(), effect, q, failures: None });
    }

    /// The judged ones with an effect of at least `least` that is too great for chance, with the
    /// corrected probability.
    fn significant<T>(&self, judged: Vec<(T, f64, f64)>, least: f64) -> Vec<(T, f64, f64)> {
        let corrected = benjamini_hochberg(&judged.iter().map(|(.., p)| *p).collect::<Vec<_>>());
        let judged = judged.into_iter().zip(corrected).map(|((of, effect, _), q)| (of, effect, q));
        judged.filter(|(_, effect, q)| *q < self.level && *effect >= least).collect()
    }

    /// Hosts with a worse effect than the others, with deviation and corrected probability.
    fn hosts(&self, effects: &[f64], cells: &[usize]) -> BTreeMap<HostId, (f64, f64)> {
        let judged: Vec<usize> = (0..effects.len()).filter(|at| cells[*at] >= FEWEST - 1).collect();
        if judged.len() < FEWEST {
            return BTreeMap::new();
        }
        let mut sorted: Vec<f64> = judged.iter().map(|at| effects[*at]).collect();
        sorted.sort_by(f64::total_cmp);
        let n = real(judged.len());
        // The fewer hosts, the less is known about their spread.
        let freedom = (n / 4.0).clamp(1.0, 4.0);
        let whole = (median(sorted.clone()).unwrap_or(0.0), spread(&sorted));
        let deviations = judged
            .into_iter()
            .map(|at| {
                let (middle, spread) = if sorted.len() > MANY_HOSTS {
                    whole
                } else {
                    let mut others = sorted.clone();
                    let own = sorted.partition_point(|value| *value < effects[at]);
                    others.remove(own.min(sorted.len() - 1));
                    let spread = spread(&others);
                    (median(others).unwrap_or(0.0), spread)
                };
                let effect = effects[at] - middle;
                let scale = (spread * (1.0 + 1.2 / (n - 1.0))).max(self.bounds.floor);
                (HostId(u32::clamped(at)), effect, upper(effect / scale, freedom))
            })
            .collect();
        let found = self.significant(deviations, self.bounds.host).into_iter();
        found.map(|(host, effect, q)| (host, (effect, q))).collect()
    }

    /// Adds pairs that are worse in their repeats, except pairs of hosts that have a verdict in
    /// that direction already.
    fn pairs(
        &mut self,
        readings: &Readings,
        fit: &Fit,
        out: &BTreeMap<HostId, (f64, f64)>,
        into: &BTreeMap<HostId, (f64, f64)>,
    ) {
        if fit.rest.len() < FEWEST * (FEWEST - 1) {
            return;
        }
        let own = |(from, to): (HostId, HostId), values: &[f64]| -> Vec<f64> {
            values.iter().map(|value| value - fit.expected(from, to)).collect()
        };
        let mut all: Vec<f64> = readings.cells.iter().flat_map(|(pair, values)| own(*pair, values)).collect();
        all.sort_by(f64::total_cmp);
        let scale = spread(&fit.rest).max(self.bounds.floor);
        let judged = readings
            .cells
            .iter()
            .map(|(pair, values)| {
                let mut own = own(*pair, values);
                own.sort_by(|a, b| b.total_cmp(a));
                let middle = median(own.clone()).unwrap_or(0.0);
                // All repeats, or three of four, are at least so bad.
                let least = own.len() - own.len() / 4;
                let bad = own.get(least - 1).copied().unwrap_or(0.0);
                let beyond = all.len() - all.partition_point(|value| *value < bad);
                let beyond = beyond - own.iter().filter(|value| **value >= bad).count();
                let share = real(1 + beyond) / real(all.len() - own.len() + 1);
                let p = at_least(least, own.len(), share.min(1.0)).max(upper(middle / scale, 6.0));
                (*pair, middle, p)
            })
            .collect();
        for ((from, to), effect, q) in self.significant(judged, self.bounds.pair) {
            if !out.contains_key(&from) && !into.contains_key(&to) {
                let [from, to] = [from, to].map(|host| self.inventory.name(host).to_owned());
                self.say(Subject::Pair { from, to }, effect, q);
            }
        }
    }

    /// Labels whose hosts are worse than all other hosts.
    fn labels(&mut self, fit: &Fit) {
        let mut judged = Vec::new();
        for label in LABELS {
            for (value, members) in self.inventory.by_label(label) {
                let hosts = (0..).map(HostId).take(fit.out.len());
                let hosts = hosts.filter(|host| fit.cells_out[host.index()] + fit.cells_in[host.index()] > 0);
                let (inside, outside): (Vec<HostId>, Vec<HostId>) =
                    hosts.partition(|host| members.binary_search(host).is_ok());
                let effect = |host: HostId| fit.out[host.index()] + fit.into[host.index()];
                let [inside, outside] =
                    [inside, outside].map(|hosts| hosts.into_iter().map(effect).collect::<Vec<f64>>());
                let are_enough = inside.len() >= 3 && outside.len() >= 3;
                if are_enough && let Some(contrast) = Contrast::of_sets(&outside, &inside, ALPHA) {
                    let subject = Subject::Label { label: label.to_owned(), value: value.to_owned() };
                    judged.push((subject, contrast.shift, contrast.p));
                }
            }
        }
        for (subject, shift, q) in self.significant(judged, self.bounds.host) {
            self.say(subject, shift, q);
        }
    }
}

/// Probability of more than `t` by Student's distribution.
fn upper(t: f64, freedom: f64) -> f64 {
    if t > 0.0 { student_two_sided(t, Some(freedom)) / 2.0 } else { 1.0 }
}

#[cfg(test)]
mod tests;
