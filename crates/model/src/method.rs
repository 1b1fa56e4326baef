//! What to run next: one phase, a sweep over one or two settings, each measured several times, or a search.

use crate::{Highest, MAX_BUFFER, MAX_CONNECTIONS, Outcome, Phase, Range, Search};
use metrics::{parse_bytes, parse_rate};
use std::collections::BTreeMap;
use std::fmt;

/// More values on an axis are a slip of the pen.
const MAX_VALUES: usize = 1000;
/// And so are more settings when two axes are crossed.
const MAX_SETTINGS: usize = 10_000;

/// A sweep that cannot be: one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepError(String);

impl fmt::Display for SweepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SweepError {}

/// A setting that can be swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AxisName {
    /// Bytes per send and receive call.
    Buffer,
    /// Concurrent connections.
    Connections,
    /// Limit per connection and direction, bits/s.
    Rate,
}

impl AxisName {
    /// All of them, for help texts.
    pub const ALL: [AxisName; 3] = [AxisName::Buffer, AxisName::Connections, AxisName::Rate];

    /// One value of the axis, in its base unit.
    fn parse_value(self, text: &str) -> Result<u64, SweepError> {
        let text = text.trim();
        let value = match self {
            AxisName::Buffer => parse_bytes(text).map_err(|e| SweepError(e.to_string())),
            AxisName::Rate => parse_rate(text).map_err(|e| SweepError(e.to_string())),
            AxisName::Connections => text
                .parse()
                .map_err(|_| SweepError(format!("'{text}' is not a number of connections such as 8"))),
        }?;
        if value == 0 || value > self.max() {
            return Err(SweepError(format!("{self} cannot be {text}")));
        }
        Ok(value)
    }

    /// The largest value a phase accepts.
    fn max(self) -> u64 {
        match self {
            AxisName::Buffer => MAX_BUFFER,
            AxisName::Connections => u64::from(MAX_CONNECTIONS),
            AxisName::Rate => u64::MAX, // Phase::check knows
        }
    }

    fn apply(self, value: u64, phase: &mut Phase) {
        match self {
            AxisName::Buffer => phase.buffer = Range::just(value),
            AxisName::Connections => phase.connections = u32::try_from(value).unwrap_or(u32::MAX),
            AxisName::Rate => phase.rate = Some(value),
        }
    }
}

impl fmt::Display for AxisName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AxisName::Buffer => "buffer",
            AxisName::Connections => "connections",
            AxisName::Rate => "rate",
        })
    }
}

/// One setting and the values it takes: bytes, connections or bits/s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The setting.
    pub name: AxisName,
    /// Its values, in the order in which they are run.
    pub values: Vec<u64>,
}

impl Axis {
    /// Understands `name=values`, where the values are
    /// - a list: `buffer=1Ki,64Ki,1Mi`, `connections=1,4,39`;
    /// - a range that doubles: `buffer=16..1Mi` (16, 32, 64, …), `rate=1M..1G`;
    /// - a range in equal steps: `connections=1..64/7`.
    ///
    /// A range begins and ends with the values given, whether or not a step falls on the last one.
    ///
    /// # Errors
    /// One sentence: what was wrong and what was expected.
    pub fn parse(text: &str) -> Result<Axis, SweepError> {
        let (name, values) = text.split_once('=').ok_or_else(|| {
            SweepError(format!(
                "'{text}' is not a sweep such as buffer=16..1Mi, connections=1,4,39 or rate=1M..1G"
            ))
        })?;
        let name = AxisName::ALL.into_iter().find(|n| n.to_string() == name.trim()).ok_or_else(|| {
            SweepError(format!("'{name}' cannot be swept; buffer, connections and rate can"))
        })?;
        let values = match values.split_once("..") {
            Some((low, high)) => range(name, low, high)?,
            None => values.split(',').map(|v| name.parse_value(v)).collect::<Result<_, _>>()?,
        };
        if values.len() > MAX_VALUES {
            return Err(SweepError(format!("the sweep of {name} has more than {MAX_VALUES} values")));
        }
        Ok(Axis { name, values })
    }
}

/// The values of `low..high` or `low..high/step`. At most one more than [`MAX_VALUES`] is made.
fn range(name: AxisName, low: &str, high: &str) -> Result<Vec<u64>, SweepError> {
    let (high, step) = match high.split_once('/') {
        Some((high, step)) => (high, Some(name.parse_value(step)?)),
        None => (high, None),
    };
    let (low, high) = (name.parse_value(low)?, name.parse_value(high)?);
    if low > high {
        return Err(SweepError(format!("the sweep of {name} must rise, from {low} to {high} it falls")));
    }
    let next = |&v: &u64| step.map_or(v.checked_mul(2), |step| v.checked_add(step));
    let below = std::iter::successors(Some(low), next).take_while(|&v| v < high);
    Ok(below.chain([high]).take(MAX_VALUES + 1).collect())
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Run this phase.
    Run {
        /// The settings.
        phase: Box<Phase>,
        /// What the sweep varies, name to value in base units (bytes, connections, bits/s); empty without a sweep.
        label: BTreeMap<String, String>,
        /// Which repetition, from 1.
        repeat: u32,
    },
    /// All is done.
    Done,
}

/// A run as a list of phases. Repetitions go round: every setting once, then every setting again, so that a drift of
/// the hosts or of the path spreads over all settings instead of colouring some.
#[derive(Clone, Debug)]
pub struct Method {
    settings: Vec<(BTreeMap<String, String>, Phase)>,
    repeat: u32,
    done: usize,
    /// Rates that depend on what was found so far, instead of all that.
    search: Option<Search>,
}

impl Method {
    /// `base` with the values of `axes` (none, one, or two crossed, the second changing faster), `repeat` times over.
    ///
    /// # Errors
    /// One sentence when the axes exclude each other or one of the phases cannot be.
    pub fn new(base: &Phase, axes: &[Axis], repeat: u32) -> Result<Method, SweepError> {
        if repeat == 0 {
            return Err(SweepError("the number of repetitions must be at least 1".to_owned()));
        }
        if axes.len() > 2 {
            return Err(SweepError(format!("at most two settings can be swept at once, not {}", axes.len())));
        }
        if let [first, second] = axes
            && first.name == second.name
        {
            return Err(SweepError(format!(
                "{} is swept twice; give all its values in one list",
                first.name
            )));
        }
        let crossed: usize = axes.iter().map(|axis| axis.values.len()).product();
        if crossed > MAX_SETTINGS {
            return Err(SweepError(format!("the sweep has {crossed} settings, more than {MAX_SETTINGS}")));
        }
        let mut settings = vec![(BTreeMap::new(), base.clone())];
        for axis in axes {
            settings = settings.iter().flat_map(|setting| vary(setting, axis)).collect();
        }
        for (label, phase) in &settings {
            phase.check().map_err(|why| SweepError(format!("{}{why}", at(label))))?;
        }
        Ok(Method { settings, repeat, done: 0, search: None })
    }

    /// A search for the highest rate of `base` at which no more than `limit` (a share) of the datagrams is lost.
    ///
    /// # Errors
    /// One sentence when the phase cannot be.
    pub fn search(base: &Phase, limit: f64) -> Result<Method, SweepError> {
        let search = Some(Search::new(base.clone(), limit));
        Ok(Method { search, ..Method::new(base, &[], 1)? })
    }

    /// What a search found, when all is done; `None` for other methods. None inside is: more was lost at each rate.
    #[must_use]
    pub fn found(&self, outcome: &Outcome) -> Option<Option<Highest>> {
        self.search.as_ref().map(|search| search.found(outcome))
    }

    /// These phases, each under its label, `repeat` times over.
    ///
    /// # Errors
    /// One sentence when one of them cannot be.
    pub fn list(settings: Vec<(BTreeMap<String, String>, Phase)>, repeat: u32) -> Result<Method, SweepError> {
        for (label, phase) in &settings {
            phase.check().map_err(|why| SweepError(format!("{}{why}", at(label))))?;
        }
        Ok(Method { settings, repeat, done: 0, search: None })
    }

    /// The next phase to run, or the end. `so_far` is what the earlier ones found; a sweep does not depend on it.
    pub fn next(&mut self, so_far: &Outcome) -> Step {
        if let Some(search) = &mut self.search {
            let Some(phase) = search.next(so_far) else { return Step::Done };
            let rate = phase.rate.map_or_else(|| "as fast as it goes".to_owned(), |rate| rate.to_string());
            let label = BTreeMap::from([(AxisName::Rate.to_string(), rate)]);
            let same = so_far.points.iter().filter(|point| point.label == label).count();
            return Step::Run { phase: Box::new(phase), label, repeat: same as u32 + 1 };
        }
        if self.done >= self.len() {
            return Step::Done;
        }
        let (round, setting) = (self.done / self.settings.len(), self.done % self.settings.len());
        self.done += 1;
        let (label, phase) = &self.settings[setting];
        Step::Run { phase: Box::new(phase.clone()), label: label.clone(), repeat: round as u32 + 1 }
    }

    /// How many phases there are in all.
    #[must_use]
    pub fn len(&self) -> usize {
        self.settings.len() * self.repeat as usize
    }

    /// Whether there is nothing to run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One setting for each value of `axis`.
fn vary<'a>(
    (label, phase): &'a (BTreeMap<String, String>, Phase),
    axis: &'a Axis,
) -> impl Iterator<Item = (BTreeMap<String, String>, Phase)> + 'a {
    axis.values.iter().map(move |&value| {
        let (mut label, mut phase) = (label.clone(), phase.clone());
        label.insert(axis.name.to_string(), value.to_string());
        axis.name.apply(value, &mut phase);
        (label, phase)
    })
}

/// `with buffer=16: `, or nothing for an empty label.
fn at(label: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = label.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if pairs.is_empty() { String::new() } else { format!("with {}: ", pairs.join(" ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<u64> {
        Axis::parse(text).unwrap().values
    }

    #[test]
    fn ranges_double_and_keep_both_ends() {
        assert_eq!(values("buffer=16..128"), [16, 32, 64, 128]);
        assert_eq!(values("buffer=16..1Mi").len(), 17, "2^4 to 2^20");
        assert_eq!(values("buffer=16..1Mi").last(), Some(&1_048_576));
        assert_eq!(values("connections=1..39"), [1, 2, 4, 8, 16, 32, 39]);
        assert_eq!(values("connections=3..20"), [3, 6, 12, 20]);
        assert_eq!(values("rate=1M..5M"), [1_000_000, 2_000_000, 4_000_000, 5_000_000]);
        assert_eq!(values("rate=7M..7M"), [7_000_000]);
    }

    #[test]
    fn ranges_with_steps_keep_both_ends_too() {
        assert_eq!(values("connections=1..10/3"), [1, 4, 7, 10]);
        assert_eq!(values("connections=1..9/3"), [1, 4, 7, 9]);
        assert_eq!(values("buffer=1Ki..3Ki/1Ki"), [1024, 2048, 3072]);
    }

    #[test]
    fn lists_are_taken_as_they_are() {
        assert_eq!(values("buffer=1Ki,64Ki,1Mi"), [1024, 65_536, 1_048_576]);
        assert_eq!(values("connections=39,1,4"), [39, 1, 4]);
        assert_eq!(
            Axis::parse(" rate = 10M").unwrap(),
            Axis { name: AxisName::Rate, values: vec![10_000_000] }
        );
    }

    #[test]
    fn what_cannot_be_swept_is_said_in_one_sentence() {
        for (text, why) in [
            ("buffer", "'buffer' is not a sweep such as buffer=16..1Mi, connections=1,4,39 or rate=1M..1G"),
            ("mss=1..2", "'mss' cannot be swept; buffer, connections and rate can"),
            ("buffer=64..16", "the sweep of buffer must rise, from 64 to 16 it falls"),
            ("buffer=", "'' is not a size in bytes such as 1400, 64Ki, 1Mi or 2G"),
            ("connections=1,,2", "'' is not a number of connections such as 8"),
            ("connections=0..4", "connections cannot be 0"),
            ("connections=1..4/0", "connections cannot be 0"),
            ("buffer=1Gi", "buffer cannot be 1Gi"),
            ("connections=1..1000000/1", "the sweep of connections has more than 1000 values"),
            ("rate=fast", "'fast' is not a rate in bits per second such as 500k, 25M or 1.5G"),
        ] {
            assert_eq!(Axis::parse(text).unwrap_err().to_string(), why, "{text}");
        }
    }

    /// The runs of a method as `label#repeat`.
    fn played(mut method: Method) -> Vec<String> {
        let mut runs = Vec::new();
        while let Step::Run { label, repeat, .. } = method.next(&Outcome::default()) {
            let pairs: Vec<String> = label.iter().map(|(k, v)| format!("{k}={v}")).collect();
            runs.push(format!("{}#{repeat}", pairs.join(" ")));
        }
        runs
    }

    #[test]
    fn repetitions_go_round_over_the_settings() {
        let axes = [Axis::parse("connections=1,4").unwrap()];
        let method = Method::new(&Phase::default(), &axes, 2).unwrap();
        assert_eq!(method.len(), 4);
        assert_eq!(
            played(method),
            ["connections=1#1", "connections=4#1", "connections=1#2", "connections=4#2"]
        );
    }

    #[test]
    fn two_axes_are_crossed_and_the_phases_carry_the_values() {
        let axes = [Axis::parse("connections=1,2").unwrap(), Axis::parse("buffer=16,1Ki").unwrap()];
        let mut method = Method::new(&Phase::default(), &axes, 1).unwrap();
        let mut seen = Vec::new();
        while let Step::Run { phase, label, .. } = method.next(&Outcome::default()) {
            assert_eq!(label["buffer"], phase.buffer.to_string());
            seen.push((phase.connections, phase.buffer));
        }
        let cell = |c, b| (c, Range::just(b));
        assert_eq!(seen, [cell(1, 16), cell(1, 1024), cell(2, 16), cell(2, 1024)]);
    }

    #[test]
    fn without_axes_the_base_is_run_as_it_is() {
        let base = Phase { rate: Some(800), ..Phase::default() };
        let mut method = Method::new(&base, &[], 1).unwrap();
        let only = Step::Run { phase: Box::new(base), label: BTreeMap::new(), repeat: 1 };
        assert_eq!(method.next(&Outcome::default()), only);
        assert_eq!(method.next(&Outcome::default()), Step::Done);
        assert_eq!(method.next(&Outcome::default()), Step::Done);
    }

    #[test]
    fn impossible_methods_are_refused_before_anything_runs() {
        let axis = |text: &str| Axis::parse(text).unwrap();
        let refused =
            |base: &Phase, axes: &[Axis], repeat| Method::new(base, axes, repeat).unwrap_err().to_string();
        let base = Phase::default();
        assert_eq!(refused(&base, &[], 0), "the number of repetitions must be at least 1");
        assert_eq!(
            refused(&base, &[axis("buffer=1"), axis("buffer=2")], 1),
            "buffer is swept twice; give all its values in one list"
        );
        let three = [axis("buffer=1"), axis("rate=8"), axis("connections=1")];
        assert_eq!(refused(&base, &three, 1), "at most two settings can be swept at once, not 3");
        let many = [axis("buffer=1..1000/1"), axis("connections=1..1000/1")];
        assert_eq!(refused(&base, &many, 1), "the sweep has 1000000 settings, more than 10000");
        let bursts = Phase { burst: Some(crate::Burst { count: 1, delay_ns: 1 }), ..Phase::default() };
        assert_eq!(
            refused(&bursts, &[axis("rate=8")], 1),
            "with rate=8: a burst and a rate exclude each other"
        );
    }
}
