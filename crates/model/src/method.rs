//! The next phase: a single one, a sweep over one or two settings, each measured several times, or
//! a search.

use crate::search::{FASTEST, is_above_capacity};
use crate::{Highest, Level, MAX_BUFFER, MAX_CONNECTIONS, Outcome, Phase, Point, Range, Search, Until, mtu};
use metrics::{Clamped, SECOND, parse_bytes, parse_duration, parse_rate, real};
use std::collections::BTreeMap;
use std::fmt;

/// More values on an axis are a slip of the pen.
const MAX_VALUES: usize = 1000;
/// And so are more settings when two axes are crossed.
const MAX_SETTINGS: usize = 10_000;

/// A setting that can be swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AxisName {
    /// Bytes per send and receive call.
    Buffer,
    /// Concurrent connections.
    Connections,
    /// Limit per connection and direction, bits/s.
    Rate,
    /// UDP payload of a datagram, bytes; their number a second stays.
    Size,
    /// Time between two datagrams of a flow, ns.
    Spacing,
}

impl AxisName {
    /// Settings of TCP that can be swept.
    pub const STREAMS: [AxisName; 3] = [AxisName::Buffer, AxisName::Connections, AxisName::Rate];
    /// Settings of datagrams that can be swept.
    pub const DATAGRAMS: [AxisName; 3] = [AxisName::Rate, AxisName::Size, AxisName::Spacing];

    /// One value of the axis, in its base unit.
    fn parse_value(self, text: &str) -> Result<u64, String> {
        let text = text.trim();
        let number = |_| format!("'{text}' is not a number of connections such as 8");
        // The value, and the largest one that a phase accepts.
        let (value, most) = match self {
            AxisName::Buffer => (parse_bytes(text)?, MAX_BUFFER),
            AxisName::Spacing => (parse_duration(text)?, 3_600 * SECOND),
            AxisName::Connections => (text.parse().map_err(number)?, u64::from(MAX_CONNECTIONS)),
            // Phase::check knows.
            AxisName::Size => (parse_bytes(text)?, u64::MAX),
            AxisName::Rate => (parse_rate(text)?, u64::MAX),
        };
        if value == 0 || value > most {
            return Err(format!("{self} cannot be {text}"));
        }
        Ok(value)
    }

    fn apply(self, value: u64, phase: &mut Phase) {
        match self {
            AxisName::Buffer => {
                phase.buffer = Range::just(value);
                phase.sockets.whole_segments = false;
            }
            AxisName::Connections => phase.connections = u32::try_from(value).unwrap_or(u32::MAX),
            AxisName::Rate => {
                (phase.rate, phase.rate_high) = (Some(value), None);
                phase.sockets.whole_segments = false;
            }
            AxisName::Size => {
                let Some(probe) = &mut phase.probe else { return };
                let was = u128::from(probe.size.max(1));
                probe.size = u32::try_from(value).unwrap_or(u32::MAX);
                let scaled = |rate: u64| u128::from(rate) * u128::from(probe.size) / was;
                phase.rate = phase.rate.map(|rate| u64::try_from(scaled(rate)).unwrap_or(u64::MAX));
            }
            AxisName::Spacing => {
                let size = phase.probe.map_or(0, |probe| probe.size);
                phase.rate = Some(u64::clamped((f64::from(size) * 8e9 / real(value.max(1))).round()));
            }
        }
    }
}

impl fmt::Display for AxisName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AxisName::Buffer => "buffer",
            AxisName::Connections => "connections",
            AxisName::Rate => "rate",
            AxisName::Size => "size",
            AxisName::Spacing => "spacing",
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
    /// - a range in equal steps: `connections=1..64/7`;
    /// - a range in a number of slots, evenly spaced (a ramp): `rate=10M..100M:10`.
    ///
    /// Only the settings in `names` are known.
    ///
    /// A range begins and ends with the values given, whether or not a step falls on the last one.
    ///
    /// # Errors
    /// One sentence: the wrong part and the expected form.
    pub fn parse(text: &str, names: &[AxisName]) -> Result<Axis, String> {
        let known = || {
            let all: Vec<String> = names.iter().map(ToString::to_string).collect();
            all.split_last().map_or(String::new(), |(last, rest)| format!("{} and {last}", rest.join(", ")))
        };
        let (name, values) = text.split_once('=').ok_or_else(|| {
            format!(
                "'{text}' is not a sweep: a name, = and values, such as {} or rate=1M,10M,100M; {} can be swept",
                if names.contains(&AxisName::Buffer) { "buffer=16..1Mi" } else { "rate=1M..1G" },
                known()
            )
        })?;
        let found = names.iter().find(|known| known.to_string() == name.trim()).copied();
        let name = found.ok_or_else(|| format!("'{name}' cannot be swept; {} can", known()))?;
        let values = match values.split_once("..") {
            Some((low, high)) => range(name, low, high)?,
            None => values.split(',').map(|v| name.parse_value(v)).collect::<Result<_, _>>()?,
        };
        if values.len() > MAX_VALUES {
            return Err(format!("the sweep of {name} has more than {MAX_VALUES} values"));
        }
        Ok(Axis { name, values })
    }
}

/// The ends of `low..high`.
fn ends(name: AxisName, low: &str, high: &str) -> Result<(u64, u64), String> {
    let (low, high) = (name.parse_value(low)?, name.parse_value(high)?);
    if low > high {
        return Err(format!("the sweep of {name} must rise, from {low} to {high} it falls"));
    }
    Ok((low, high))
}

/// The values of `low..high:slots`.
fn ramp(name: AxisName, low: &str, high: &str, slots: &str) -> Result<Vec<u64>, String> {
    let number = slots.trim().parse::<u64>().ok().filter(|n| (2..=u64::clamped(MAX_VALUES)).contains(n));
    let slots = number.ok_or_else(|| format!("'{slots}' is not a number of slots from 2 to {MAX_VALUES}"))?;
    let (low, high) = ends(name, low, high)?;
    let at = |i: u64| low + u64::clamped(u128::from(high - low) * u128::from(i) / u128::from(slots - 1));
    Ok((0..slots).map(at).collect())
}

/// The values of `low..high`, `low..high/step` or `low..high:slots`. At most one more than
/// [`MAX_VALUES`] is made.
fn range(name: AxisName, low: &str, high: &str) -> Result<Vec<u64>, String> {
    if let Some((high, slots)) = high.split_once(':') {
        return ramp(name, low, high, slots);
    }
    let (high, step) = match high.split_once('/') {
        Some((high, step)) => (high, Some(name.parse_value(step)?)),
        None => (high, None),
    };
    let (low, high) = ends(name, low, high)?;
    let next = |&v: &u64| step.map_or(v.checked_mul(2), |step| v.checked_add(step));
    let below = std::iter::successors(Some(low), next).take_while(|&v| v < high);
    Ok(below.chain([high]).take(MAX_VALUES + 1).collect())
}

/// A phase to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The settings.
    pub phase: Box<Phase>,
    /// The sweep's settings, name to value in base units (bytes, connections, bits/s); empty
    /// without a sweep.
    pub label: BTreeMap<String, String>,
    /// Which repetition, from 1.
    pub repeat: u32,
}

/// A run as a list of phases. Repetitions go round: every setting once, then every setting again,
/// so that a drift of the hosts or of the path spreads over all settings instead of colouring some.
#[derive(Clone, Debug, Default)]
pub struct Method {
    settings: Vec<(BTreeMap<String, String>, Phase)>,
    repeat: u32,
    /// Repeat no longer than that: a setting whose mean is known well enough is left out of further
    /// rounds.
    until: Option<Until>,
    done: usize,
    /// The path's MTU is looked for instead of all that.
    mtu: Option<mtu::Search>,
    /// Rates that depend on the results so far, instead of all that.
    search: Option<Search>,
}

impl Method {
    /// `base` with the values of `axes` (none, one, or two crossed, the second changing faster),
    /// `repeat` times over.
    ///
    /// # Errors
    /// One sentence when the axes exclude each other or one of the phases cannot be.
    pub fn new(base: &Phase, axes: &[Axis], repeat: u32) -> Result<Method, String> {
        if repeat == 0 {
            return Err("the number of repetitions must be at least 1".to_owned());
        }
        if axes.len() > 2 {
            return Err(format!("at most two settings can be swept at once, not {}", axes.len()));
        }
        if let [first, second] = axes
            && first.name == second.name
        {
            return Err(format!("{} is swept twice; give all its values in one list", first.name));
        }
        let crossed: usize = axes.iter().map(|axis| axis.values.len()).product();
        if crossed > MAX_SETTINGS {
            return Err(format!("the sweep has {crossed} settings, more than {MAX_SETTINGS}"));
        }
        let mut settings = vec![(BTreeMap::new(), base.clone())];
        for axis in axes {
            settings = settings.iter().flat_map(|setting| vary(setting, axis)).collect();
        }
        Method::list(settings, repeat)
    }

    /// A search for the highest rate of `base` at which no more than `limit` (a share) of the
    /// datagrams is lost.
    ///
    /// # Errors
    /// One sentence when the phase cannot be.
    pub fn search(base: &Phase, limit: f64) -> Result<Method, String> {
        let search = Some(Search::new(base.clone(), limit));
        Ok(Method { search, ..Method::new(base, &[], 1)? })
    }

    /// The same, with no more repetitions of a setting than it takes.
    #[must_use]
    pub fn until(self, until: Option<Until>) -> Method {
        Method { until, ..self }
    }

    /// Result of a search, when all is done; `None` for other methods. An inner `None`: more was
    /// lost at each rate.
    pub fn highest(&self, outcome: &Outcome) -> Option<Option<Highest>> {
        self.search.as_ref().map(|search| search.highest(outcome))
    }

    /// True if the run goes on after a phase that did not end as planned: a search learns from a
    /// rate at which nothing arrives.
    pub fn goes_on(&self, outcome: &Outcome) -> bool {
        self.search.is_some() && outcome.points.last().is_some_and(is_above_capacity)
    }

    /// These phases, each under its label, `repeat` times over.
    ///
    /// # Errors
    /// One sentence when one of them cannot be.
    pub fn list(settings: Vec<(BTreeMap<String, String>, Phase)>, repeat: u32) -> Result<Method, String> {
        for (label, phase) in &settings {
            phase.check().map_err(|why| format!("{}{why}", at(label)))?;
        }
        Ok(Method { settings, repeat, ..Method::default() })
    }

    /// A search for the largest packets, up to `limit` bytes, that arrive whole in the directions
    /// of `base`, a measurement of delay; `headers` are the bytes that IP and UDP add to a
    /// datagram.
    ///
    /// # Errors
    /// One sentence when the limit or the base cannot be.
    pub fn path_mtu(base: &Phase, headers: u32, limit: u32) -> Result<Method, String> {
        base.check()?;
        if !(576..=65_535).contains(&limit) {
            return Err("the largest packet to try must have 576 to 65535 bytes".to_owned());
        }
        let mtu = Some(mtu::Search::new(base.clone(), headers, limit));
        Ok(Method { mtu, ..Method::default() })
    }

    /// The next phase to run; `None` at the end. `so_far` has the results of the earlier ones; a
    /// sweep does not depend on it.
    pub fn next(&mut self, so_far: &Outcome) -> Option<Step> {
        if let Some(search) = &mut self.search {
            let phase = search.next(so_far)?;
            let rate = phase.rate.map_or_else(|| FASTEST.to_owned(), |rate| rate.to_string());
            let label = BTreeMap::from([(AxisName::Rate.to_string(), rate)]);
            let repeat = u32::clamped(under(&label, so_far).len()) + 1;
            return Some(Step { phase: Box::new(phase), label, repeat });
        }
        if let Some(search) = &mut self.mtu {
            let (label, phase) = search.next(so_far)?;
            return Some(Step { phase: Box::new(phase), label, repeat: 1 });
        }
        while self.done < self.len() {
            let (round, setting) = (self.done / self.settings.len(), self.done % self.settings.len());
            self.done += 1;
            let (label, phase) = &self.settings[setting];
            if self.until.is_some_and(|until| until.reached(&under(label, so_far))) {
                continue;
            }
            let (phase, label) = (Box::new(phase.clone()), label.clone());
            return Some(Step { phase, label, repeat: u32::clamped(round) + 1 });
        }
        None
    }

    /// Notice about the requested confidence; `None` without one.
    pub fn sure(&self, outcome: &Outcome) -> Option<(Level, String)> {
        let until = self.until?;
        let settings: Vec<Vec<&Point>> =
            self.settings.iter().map(|(label, _)| under(label, outcome)).collect();
        Some(until.notice(&settings))
    }

    /// Number of all phases; 0 when that depends on their results.
    pub fn len(&self) -> usize {
        self.settings.len() * usize::clamped(self.repeat)
    }

    /// True without anything to run.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The points of an outcome under this label.
fn under<'a>(label: &BTreeMap<String, String>, outcome: &'a Outcome) -> Vec<&'a Point> {
    outcome.points.iter().filter(|point| point.label == *label).collect()
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

    fn swept(text: &str) -> Axis {
        Axis::parse(text, &AxisName::STREAMS).unwrap()
    }

    #[test]
    fn values_of_ranges_and_lists() {
        let cases: [(&str, &[u64]); 12] = [
            // Ranges double.
            ("buffer=16..128", &[16, 32, 64, 128]),
            ("connections=1..39", &[1, 2, 4, 8, 16, 32, 39]),
            ("connections=3..20", &[3, 6, 12, 20]),
            ("rate=1M..5M", &[1_000_000, 2_000_000, 4_000_000, 5_000_000]),
            ("rate=7M..7M", &[7_000_000]),
            // Those with steps keep both ends, too.
            ("connections=1..10/3", &[1, 4, 7, 10]),
            ("connections=1..9/3", &[1, 4, 7, 9]),
            ("buffer=1Ki..3Ki/1Ki", &[1024, 2048, 3072]),
            // A ramp has as many slots as asked for.
            ("rate=10M..40M:4", &[10_000_000, 20_000_000, 30_000_000, 40_000_000]),
            ("connections=1..2:2", &[1, 2]),
            // Lists are taken as they are.
            ("buffer=1Ki,64Ki,1Mi", &[1024, 65_536, 1_048_576]),
            ("connections=39,1,4", &[39, 1, 4]),
        ];
        for (text, values) in cases {
            assert_eq!(swept(text).values, values, "{text}");
        }
        let long = swept("buffer=16..1Mi").values;
        assert_eq!((long.len(), long.last()), (17, Some(&1_048_576)), "2^4 to 2^20");
        assert_eq!(swept(" rate = 10M"), Axis { name: AxisName::Rate, values: vec![10_000_000] });
        assert!(Axis::parse("rate=1M..2M:1", &AxisName::STREAMS).is_err());
    }

    #[test]
    fn what_is_swept_takes_the_freedom_of_the_call_length() {
        for (text, free) in [("connections=1..2", true), ("rate=1M..2M", false), ("buffer=16..32", false)] {
            let mut phase = Phase::default();
            phase.sockets.whole_segments = true;
            let axis = swept(text);
            axis.name.apply(axis.values[0], &mut phase);
            assert_eq!(phase.sockets.whole_segments, free, "{text}");
        }
    }

    #[test]
    fn datagrams_are_swept_by_load_size_and_spacing() {
        let base = Phase {
            kind: crate::Kind::Delay,
            connections: 1,
            rate: Some(8_000_000),
            probe: Some(crate::Probe { size: 1_000, ..crate::Probe::default() }),
            ..Phase::default()
        };
        let swept = |text: &str| {
            let axis = Axis::parse(text, &AxisName::DATAGRAMS).unwrap();
            let mut method = Method::new(&base, &[axis], 1).unwrap();
            let mut seen = Vec::new();
            while let Some(Step { phase, .. }) = method.next(&Outcome::default()) {
                seen.push((phase.probe.unwrap().size, phase.rate.unwrap()));
            }
            seen
        };
        assert_eq!(swept("rate=1M,2M"), [(1_000, 1_000_000), (1_000, 2_000_000)]);
        // A thousand a second all the time.
        assert_eq!(swept("size=64,500"), [(64, 512_000), (500, 4_000_000)]);
        // 8000 bits every 10 and every 100 µs.
        assert_eq!(swept("spacing=10us,100us"), [(1_000, 800_000_000), (1_000, 80_000_000)]);
        let refused = Axis::parse("buffer=1", &AxisName::DATAGRAMS).unwrap_err();
        assert!(refused.contains("rate, size and spacing"), "{refused}");
    }

    #[test]
    fn what_cannot_be_swept_is_said_in_one_sentence() {
        for (text, why) in [
            (
                "buffer",
                "'buffer' is not a sweep: a name, = and values, such as buffer=16..1Mi or rate=1M,10M,100M; buffer, \
                 connections and rate can be swept",
            ),
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
            assert_eq!(Axis::parse(text, &AxisName::STREAMS).unwrap_err(), why, "{text}");
        }
    }

    /// The runs of a method as `label#repeat`.
    fn played(mut method: Method) -> Vec<String> {
        let mut runs = Vec::new();
        while let Some(Step { label, repeat, .. }) = method.next(&Outcome::default()) {
            let pairs: Vec<String> = label.iter().map(|(k, v)| format!("{k}={v}")).collect();
            runs.push(format!("{}#{repeat}", pairs.join(" ")));
        }
        runs
    }

    #[test]
    fn repetitions_go_round_over_the_settings() {
        let method = Method::new(&Phase::default(), &[swept("connections=1,4")], 2).unwrap();
        assert_eq!(method.len(), 4);
        let want = ["connections=1#1", "connections=4#1", "connections=1#2", "connections=4#2"];
        assert_eq!(played(method), want);
    }

    #[test]
    fn two_axes_are_crossed_and_the_phases_carry_the_values() {
        let axes = [swept("connections=1,2"), swept("buffer=16,1Ki")];
        let mut method = Method::new(&Phase::default(), &axes, 1).unwrap();
        let mut seen = Vec::new();
        while let Some(Step { phase, label, .. }) = method.next(&Outcome::default()) {
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
        let only = Step { phase: Box::new(base), label: BTreeMap::new(), repeat: 1 };
        assert_eq!(method.next(&Outcome::default()), Some(only));
        assert_eq!(method.next(&Outcome::default()), None);
        assert_eq!(method.next(&Outcome::default()), None);
    }

    #[test]
    fn impossible_methods_are_refused_before_anything_runs() {
        let refused = |base: &Phase, axes: &[Axis], repeat| Method::new(base, axes, repeat).unwrap_err();
        let base = Phase::default();
        assert_eq!(refused(&base, &[], 0), "the number of repetitions must be at least 1");
        let twice = [swept("buffer=1"), swept("buffer=2")];
        assert_eq!(refused(&base, &twice, 1), "buffer is swept twice; give all its values in one list");
        let three = [swept("buffer=1"), swept("rate=8"), swept("connections=1")];
        assert_eq!(refused(&base, &three, 1), "at most two settings can be swept at once, not 3");
        let many = [swept("buffer=1..1000/1"), swept("connections=1..1000/1")];
        assert_eq!(refused(&base, &many, 1), "the sweep has 1000000 settings, more than 10000");
        let bursts = Phase { burst: Some(crate::Burst { count: 1, delay_ns: 1 }), ..Phase::default() };
        let rate = [swept("rate=8")];
        assert_eq!(refused(&bursts, &rate, 1), "with rate=8: a burst and a rate exclude each other");
    }

    #[test]
    fn a_search_goes_on_beyond_a_rate_at_which_nothing_arrives() {
        let probe = Some(crate::Probe::default());
        let base = Phase { kind: crate::Kind::Delay, probe, ..Phase::default() };
        let end = |sent, received| crate::Totals {
            packets: Some(Box::new(crate::PacketReport::from(metrics::Packets {
                sent,
                received,
                ..metrics::Packets::default()
            }))),
            ..crate::Totals::default()
        };
        let after = |local, remote| Outcome {
            points: vec![Point { phase: base.clone(), local, remote, ..Point::default() }],
            ..Outcome::default()
        };
        let lost = after(end(9, 0), vec![end(0, 0)]);
        let search = Method::search(&base, 0.01).unwrap();
        assert!(search.goes_on(&lost));
        assert!(!search.goes_on(&after(end(9, 0), vec![])), "no server reported");
        assert!(!search.goes_on(&after(end(0, 0), vec![end(0, 0)])), "nothing was sent");
        assert!(!Method::new(&base, &[], 2).unwrap().goes_on(&lost), "repetitions are no search");
    }
}
