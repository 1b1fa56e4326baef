//! Figures and verdicts of a matrix in plain words.

use super::{Bounds, FAILED, Failures, MatrixFigure, Side, Subject, Verdict, figure};
use crate::inventory::Host;
use model::{Figure, Unit};

/// The name of a figure of a matrix, for people: `round trip, median`.
pub(crate) fn title(key: &str) -> String {
    if key == FAILED {
        return "tests that failed".to_owned();
    }
    let name = if let Some(figure) = figure(key) { figure.label() } else { key };
    match key.split_once('.') {
        Some((_, "p50")) => format!("{name}, median"),
        Some((_, stat)) => format!("{name}, {stat}"),
        None => name.to_owned(),
    }
}

impl Subject {
    /// True if a verdict on the subject is about a host in this direction, [`Side::Out`] or
    /// [`Side::In`].
    pub(crate) fn has(&self, host: &Host, of: Side) -> bool {
        match self {
            Subject::Host { host: name, side } => *name == host.name && (*side == of || *side == Side::Both),
            Subject::Label { label, value } => host.label(label) == Some(value.as_str()),
            Subject::All | Subject::Pair { .. } => false,
        }
    }

    /// True if a verdict on the subject is about what `from` sends to `to`.
    pub(crate) fn covers(&self, from: &Host, to: &Host) -> bool {
        match self {
            Subject::All => true,
            Subject::Pair { from: sender, to: receiver } => *sender == from.name && *receiver == to.name,
            _ => self.has(from, Side::Out) || self.has(to, Side::In),
        }
    }

    /// In one word: a host, `h1>h2`, `rack=7`, or `all`.
    fn name(&self) -> String {
        match self {
            Subject::All => "all".to_owned(),
            Subject::Host { host, .. } => host.clone(),
            Subject::Pair { from, to } => format!("{from}>{to}"),
            Subject::Label { label, value } => format!("{label}={value}"),
        }
    }

    /// Its place among the pairs: `from h1`, `between h1 and h2`, and that of the others.
    fn place(&self) -> (String, &'static str) {
        match self {
            Subject::All => ("everywhere".to_owned(), "elsewhere"),
            Subject::Host { host, side: Side::Out } => (format!("from {host}"), "from the others"),
            Subject::Host { host, side: Side::In } => (format!("to {host}"), "to the others"),
            Subject::Host { host, side: Side::Both } => {
                (format!("from and to {host}"), "from and to the others")
            }
            Subject::Pair { from, to } => (format!("from {from} to {to}"), "between the others"),
            Subject::Label { label, value } => {
                (format!("from and to hosts with {label} {value}"), "from and to the others")
            }
        }
    }
}

impl Verdict {
    /// Its subject in one word: a host, `h1>h2`, `rack=7`, or `all`.
    #[must_use]
    pub fn name(&self) -> String {
        self.subject.name()
    }

    /// True if both say the same of the same subject, more or less of it.
    #[must_use]
    pub fn is_like(&self, other: &Verdict) -> bool {
        let test = |verdict: &Verdict| verdict.failures.as_ref().and_then(|failures| failures.test);
        self.name() == other.name() && self.figure == other.figure && test(self) == test(other)
    }

    /// True if the verdict is about this figure of this test, or about tests of it that failed.
    pub(crate) fn is_about(&self, test: u16, key: &str) -> bool {
        match &self.failures {
            Some(failures) => failures.test.is_none_or(|of| of == test),
            None => self.figure == key,
        }
    }

    /// The subject, and how many of its tests failed.
    fn failure_words(&self, failures: &Failures) -> String {
        let which = match &self.subject {
            Subject::All => "Nothing".to_owned(),
            Subject::Host { host, .. } => host.clone(),
            Subject::Pair { from, to } => format!("{from} → {to}"),
            Subject::Label { label, value } => format!("hosts with {label} {value}"),
        };
        let side = match &self.subject {
            Subject::Host { side: Side::Out, .. } => " as sender",
            Subject::Host { side: Side::In, .. } => " as receiver",
            _ => "",
        };
        let could = match (&self.subject, failures.are_all()) {
            (Subject::All, _) => "could",
            (_, true) => "could not",
            (_, false) => "could hardly",
        };
        let with =
            if failures.command.is_empty() { String::new() } else { format!(" with {}", failures.command) };
        format!("{which} {could} be measured{side}{with}: {}", failures.words())
    }

    /// In one sentence without its full stop: the subject, the difference, the figure.
    #[must_use]
    pub fn words(&self) -> String {
        if let Some(failures) = &self.failures {
            return self.failure_words(failures);
        }
        let (of, title) = (figure(&self.figure), title(&self.figure));
        let (place, rest) = self.subject.place();
        if of.is_none_or(|of| Bounds::of(of).additive) {
            let points = self.effect;
            if of == Some(MatrixFigure::Grown) {
                let more = metrics::format_duration(points);
                return format!("{title} {place}: {more} more than {rest}");
            }
            return format!("{title} {place}: {points:.2} percentage points more than {rest}");
        }
        let share = format!("{:.0} %", self.effect * 100.0);
        if of.is_some_and(|of| !of.more_is_better()) {
            let what = if matches!(of, Some(MatrixFigure::Of(Figure::RoundTrip(_)))) {
                "messages"
            } else {
                "datagrams"
            };
            return format!("{what} {place} take {share} longer than {rest} ({title})");
        }
        match &self.subject {
            Subject::All => format!("all hosts send {share} less ({title})"),
            Subject::Host { host, side } => {
                let does = match side {
                    Side::Out => "sends",
                    Side::In => "receives",
                    Side::Both => "sends and receives",
                };
                format!("{host} {does} {share} less than the others do ({title})")
            }
            Subject::Pair { from, to } => {
                format!("{from} sends {share} less to {to} than the others send each other ({title})")
            }
            Subject::Label { label, value } => {
                format!(
                    "hosts with {label} {value} send and receive {share} less than the others do ({title})"
                )
            }
        }
    }
}

/// A unit that several values of a figure are shown in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// The unit, for people.
    pub(crate) unit: &'static str,
    /// Its size in the figure's base unit.
    size: f64,
    is_percent: bool,
}

impl Scale {
    /// The unit that suits `value`, which is in base units.
    pub(crate) fn of(unit: Unit, value: f64) -> Scale {
        let steps: &[(&'static str, f64)] = match unit {
            Unit::BitsPerSecond => {
                &[("bit/s", 1.0), ("kbit/s", 1e3), ("Mbit/s", 1e6), ("Gbit/s", 1e9), ("Tbit/s", 1e12)]
            }
            Unit::Ns => &[("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)],
            Unit::Percent => &[("%", 1.0)],
            other => &[(other.name(), 1.0)],
        };
        let step = steps.iter().rev().find(|(_, size)| value.abs() >= *size).or(steps.first());
        let (unit_name, size) = step.copied().unwrap_or(("", 1.0));
        Scale { unit: unit_name, size, is_percent: unit == Unit::Percent }
    }

    /// A value without the unit, in three digits: `95.7`.
    pub(crate) fn show(&self, value: f64) -> String {
        let value = value / self.size;
        let decimals = match value.abs() {
            v if v <= 0.0 => 0,
            v if v >= 99.95 => 0,
            v if v >= 9.995 => 1,
            v if v >= 0.9995 || (self.is_percent && v >= 0.1) => 2,
            v if v >= 0.1 => 3,
            v if v >= 0.000_05 => 4,
            _ => return "<0.0001".to_owned(),
        };
        format!("{value:.decimals$}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(subject: Subject, figure: &str, effect: f64) -> String {
        Verdict { subject, figure: figure.to_owned(), effect, q: 0.01, failures: None }.words()
    }

    fn host(side: Side) -> Subject {
        Subject::Host { host: "h5".to_owned(), side }
    }

    #[test]
    fn a_verdict_is_a_plain_sentence() {
        assert_eq!(words(host(Side::Out), "goodput", 0.4), "h5 sends 40 % less than the others do (goodput)");
        assert_eq!(
            words(host(Side::Both), "goodput", 0.4),
            "h5 sends and receives 40 % less than the others do (goodput)"
        );
        assert_eq!(
            words(host(Side::In), "rtt.p50", 1.0),
            "messages to h5 take 100 % longer than to the others (round trip, median)"
        );
        let pair = Subject::Pair { from: "h1".to_owned(), to: "h2".to_owned() };
        assert_eq!(
            words(pair.clone(), "goodput", 0.5),
            "h1 sends 50 % less to h2 than the others send each other (goodput)"
        );
        assert_eq!(
            words(pair, "loss", 1.0),
            "loss from h1 to h2: 1.00 percentage points more than between the others"
        );
        let label = Subject::Label { label: "rack".to_owned(), value: "7".to_owned() };
        assert_eq!(
            words(label, "delay.p50", 0.25),
            "datagrams from and to hosts with rack 7 take 25 % longer than from and to the others (delay, median)"
        );
    }

    #[test]
    fn a_value_has_three_digits_in_the_unit_of_its_picture() {
        let scale = Scale::of(Unit::BitsPerSecond, 95.9e6);
        let shown = [95.7e6, 1.2e6, 1.234e9, 1_200.0, 0.0, 3.0].map(|value| scale.show(value));
        assert_eq!(
            (scale.unit, shown),
            ("Mbit/s", ["95.7", "1.20", "1234", "0.0012", "0", "<0.0001"].map(str::to_owned))
        );
        assert_eq!(Scale::of(Unit::Ns, 7.34e6).show(7.34e6), "7.34");
        assert_eq!(Scale::of(Unit::Percent, 0.0).show(0.6667), "0.67");
        assert_eq!(Scale::of(Unit::Ns, 0.0).unit, "ns");
    }
}
