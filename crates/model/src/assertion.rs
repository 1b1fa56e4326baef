//! Conditions on a run's figures: `p99<5ms`, `goodput>900M`, `loss<=0.1%`.

use crate::load::GRADES;
use crate::{Figure, Kind, Outcome, Phase, RunPart, Stat, Unit};
use metrics::{nearest, parse_duration, parse_rate, real};
use std::fmt;

/// Relations of a value to its limit. The longer ones first, because the shorter ones begin them.
const RELATIONS: [&str; 6] = ["<=", ">=", "==", "<", ">", "="];

/// One condition on a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Assertion {
    /// As it was written.
    text: String,
    /// The figures it may be about: it must hold for each of them that was measured.
    figures: Vec<Figure>,
    /// A percentile without a name in front means times to connect only where these are measured.
    bare: bool,
    /// One of [`RELATIONS`].
    relation: &'static str,
    limit: f64,
}

impl Assertion {
    /// The names that can be asserted, for the help.
    pub const NAMES: &str = "goodput, sent, connects, loss, cpu, jitter, messages-lost, frames, errors, retransmits, fairness, caveats; of a load grade, added, rpm; of \
        times: min, mean, max or a percentile such as p99.9, alone or after rtt., rtt-idle., added., delay. or connect.; .up or .down picks a direction";

    /// Understands `NAME RELATION VALUE`.
    ///
    /// # Errors
    /// One sentence: the wrong part and the expected form.
    pub fn parse(text: &str) -> Result<Assertion, String> {
        let (at, relation) = RELATIONS
            .into_iter()
            .filter_map(|relation| Some((text.find(relation)?, relation)))
            .min_by_key(|(at, relation)| (*at, 3 - relation.len()))
            .ok_or_else(|| {
                format!("'{text}' is not a condition: a name, <, <=, >, >= or =, and a value, such as p99<5ms or goodput>900M")
            })?;
        let (name, value) = (text[..at].trim(), text[at + relation.len()..].trim());
        let mut figures = Figure::named(name);
        let first = figures.first();
        let unit = first.ok_or_else(|| unknown(name))?.unit();
        figures.extend((name == "loss").then_some(Figure::MessagesLost));
        let bare = Stat::named(name).is_some();
        Ok(Assertion { text: text.trim().to_owned(), limit: limit(value, unit)?, figures, bare, relation })
    }

    /// Checks that a run of these phases can have the figure.
    ///
    /// # Errors
    /// One sentence: the figure that was perhaps meant, or the figures that the run has.
    pub fn check(&self, phases: &[Phase]) -> Result<(), String> {
        let is_possible = |figure: &Figure| phases.iter().any(|phase| self.is_of(*figure, phase));
        if phases.is_empty() || self.figures.iter().any(is_possible) {
            return Ok(());
        }
        self.refusal(|figure| phases.iter().any(|phase| figure.is_possible(phase)))
    }

    /// Checks that a load can have the figure.
    ///
    /// # Errors
    /// As [`Assertion::check`].
    pub fn check_load(&self) -> Result<(), String> {
        let is_possible = |figure: &Figure| figure.is_possible_of_load() && !self.is_aside(*figure, None);
        if self.figures.iter().any(is_possible) {
            return Ok(());
        }
        self.refusal(|figure| figure.is_possible_of_load())
    }

    /// The refusal for a run that `has` other figures.
    fn refusal(&self, has: impl Fn(&Figure) -> bool) -> Result<(), String> {
        let stat = self.figures.first().and_then(|figure| figure.stat());
        let mut all: Vec<Figure> = Figure::kept().filter(|figure| has(figure)).collect();
        // The same statistic of another distribution.
        let other = all.iter().find(|figure| figure.stat().is_some() && figure.stat() == stat);
        let meant = other.map(|figure| format!("did you mean {}?", figure.key()));
        all.dedup_by_key(|figure| figure.family().0);
        let names = || all.iter().map(|figure| figure.family().0).collect::<Vec<_>>().join(", ");
        let meant = meant.unwrap_or_else(|| format!("it has {}", names()));
        Err(format!("'{}': this run has no such figure; {meant}", self.text))
    }

    /// Failures of `outcome`: one sentence for each of its [parts](Outcome::parts) and figures that
    /// breaks it, or one that nothing was measured; none when all is well.
    pub fn broken(&self, outcome: &Outcome) -> Vec<String> {
        let mut caveats = outcome.points.iter().flat_map(|point| &point.caveats);
        if let Some(caveat) = caveats.find(|caveat| caveat.code == crate::caveat::SERVER_NOT_MEASURED) {
            return vec![format!("{}: {}", self.text, caveat.text.trim_end_matches('.'))];
        }
        let is_repeated = outcome.points.iter().any(|point| point.repeat > 1);
        let parts = outcome.parts();
        let values: Vec<(String, Figure, f64)> =
            parts.iter().flat_map(|part| self.values(part, is_repeated)).collect();
        if values.is_empty() {
            return vec![format!("{}: nothing was measured that it is about", self.text)];
        }
        let broken = values.into_iter().filter(|(.., value)| !self.holds(*value));
        broken
            .map(|(setting, figure, value)| {
                let told = if value.is_finite() {
                    figure.unit().show(value)
                } else {
                    "that of messages that never came".to_owned()
                };
                format!("{}: {figure} was {told}{setting}", self.text)
            })
            .collect()
    }

    fn holds(&self, value: f64) -> bool {
        match self.relation {
            "<" => value < self.limit,
            "<=" => value <= self.limit,
            ">" => value > self.limit,
            ">=" => value >= self.limit,
            _ => (value - self.limit).abs() < 1e-9,
        }
    }

    /// True for a time that is not the question's where the statistic alone was named.
    fn is_aside(&self, figure: Figure, kind: Option<Kind>) -> bool {
        let is_beside = match figure {
            Figure::ConnectTime(_) => kind != Some(Kind::Connect),
            // The limit of a time is none of its growth.
            Figure::AddedPercentile(_) | Figure::IdleRoundTrip(_) => true,
            _ => false,
        };
        self.bare && is_beside
    }

    fn is_of(&self, figure: Figure, phase: &Phase) -> bool {
        figure.is_possible(phase) && !self.is_aside(figure, Some(phase.kind))
    }

    fn values<'a>(
        &'a self,
        part: &'a RunPart<'_>,
        is_repeated: bool,
    ) -> impl Iterator<Item = (String, Figure, f64)> + 'a {
        let setting = setting(part, is_repeated);
        let figures = self.figures.iter().filter(|figure| !self.is_aside(**figure, part.kind()));
        figures.filter_map(move |figure| Some((setting.clone(), *figure, part.figure(*figure)?)))
    }
}

impl fmt::Display for Assertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The sentence about a name that is none of a figure.
fn unknown(name: &str) -> String {
    let (key, rest) = name.split_once('.').map_or((name, ""), |(key, rest)| (key, rest));
    let keys: Vec<&str> = Figure::kept().map(|figure| figure.family().0).collect();
    let known = nearest(key, keys.iter().copied()).map(|known| match rest {
        "" => known.to_owned(),
        rest => format!("{known}.{rest}"),
    });
    match known.filter(|known| known != name && !Figure::named(known).is_empty()) {
        Some(known) => format!("'{name}' cannot be asserted; did you mean '{known}'?"),
        None => format!("'{name}' cannot be asserted; these can: {}", Assertion::NAMES),
    }
}

/// ` (rate=1000000, repetition 2)` of a part of several, else nothing.
fn setting(part: &RunPart<'_>, is_repeated: bool) -> String {
    let is_stage = matches!(part, RunPart::Stage(_));
    let word = |(name, value): (&String, &String)| match is_stage {
        true => format!("{name} {value}"),
        false => format!("{name}={value}"),
    };
    let mut words: Vec<String> = part.label().iter().map(word).collect();
    words.extend((is_repeated && !is_stage).then(|| format!("repetition {}", part.repeat())));
    if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) }
}

/// The limit, in the figure's base unit.
fn limit(text: &str, unit: Unit) -> Result<f64, String> {
    let plain = |text: &str, what: &str| {
        let number = text.parse::<f64>().ok().filter(|n| n.is_finite());
        number.ok_or_else(|| format!("'{text}' is not {what}"))
    };
    // A bare number is bits/s or seconds elsewhere: such a limit holds for nearly every run.
    let bare = text.parse::<f64>().is_ok_and(|number| number != 0.0);
    match unit {
        Unit::BitsPerSecond if bare => {
            Err(format!("'{text}' has no unit: {text}M are {text} Mbit/s, {text}bit are {text} bit/s"))
        }
        Unit::Ns if bare => Err(format!("'{text}' has no unit: {text}ms, {text}us or {text}s")),
        Unit::BitsPerSecond => parse_rate(text).map(real),
        Unit::Ns => parse_duration(text).map(real),
        Unit::Percent => plain(text.trim_end_matches('%').trim(), "a percentage such as 0.1%"),
        Unit::PerSecond => {
            let (number, factor) = match text.strip_suffix(['k', 'K']) {
                Some(number) => (number, 1e3),
                None => (text, 1.0),
            };
            plain(number, "a number per second such as 20k").map(|n| n * factor)
        }
        Unit::Grade => {
            let place = GRADES.iter().position(|(letter, _)| letter.eq_ignore_ascii_case(text));
            place.map(real).ok_or_else(|| format!("'{text}' is not a grade: A+, A, B, C, D or F"))
        }
        Unit::Count | Unit::Bytes => plain(text, "a number such as 0"),
        Unit::Share => plain(text, "a share such as 0.95"),
        Unit::SecondsPerGb => plain(text, "a number of seconds such as 0.5"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Direction, Point, RoundTrips, Status};
    use metrics::Dist;

    /// A thousand round trips of 1 to 1000 µs and 900 Mbit/s up.
    fn outcome() -> Outcome {
        let mut trips = Dist::default();
        (1..=1_000u64).for_each(|us| trips.record(us * 1_000));
        let mut point = Point { status: Status::Complete, ..Point::default() };
        point.local.pings = Some(Box::new(RoundTrips { rtt_ns: trips.spectrum(), ..RoundTrips::default() }));
        point.up = Some(Direction { goodput_bps: 900e6, ..Direction::default() });
        Outcome { points: vec![point], ..Outcome::default() }
    }

    fn broken(text: &str) -> Vec<String> {
        Assertion::parse(text).unwrap().broken(&outcome())
    }

    #[test]
    fn limits_are_kept_or_not() {
        // The 99th percentile of 1..=1000 µs is 990 µs, to a thousandth.
        for kept in [
            "p99<1ms",
            "rtt.p50 <= 501us",
            "max>=1ms",
            "goodput>899M",
            "goodput.up<1G",
            "errors=0",
            "caveats==0",
        ] {
            assert_eq!(broken(kept), Vec::<String>::new(), "{kept}");
        }
        for not in ["p99<900us", "p99.9<1us", "min>2us", "goodput>901M", "errors>0"] {
            assert_eq!(broken(not).len(), 1, "{not}");
        }
        assert_eq!(broken("p99<0.9ms"), ["p99<0.9ms: round trip, p99 was 990 µs"]);
        assert_eq!(broken("goodput>1G"), ["goodput>1G: goodput to server was 900 Mbit/s"]);
    }

    #[test]
    fn what_was_not_measured_is_not_met() {
        for text in ["loss.up<1%", "delay.p99<1s", "goodput.down>1k", "connects>1"] {
            assert_eq!(broken(text), [format!("{text}: nothing was measured that it is about")]);
        }
        assert_eq!(Assertion::parse("p99<1s").unwrap().broken(&Outcome::default()).len(), 1);
    }

    #[test]
    fn figures_of_other_servers_than_those_that_were_named_meet_nothing() {
        let mut outcome = outcome();
        let (code, text) =
            (crate::caveat::SERVER_NOT_MEASURED.to_owned(), "Nothing was measured at b.".to_owned());
        let level = crate::CaveatLevel::Invalid;
        outcome.points[0].caveats.push(crate::Caveat { code, level, text, advice: String::new() });
        let broken = Assertion::parse("p99<1ms").unwrap().broken(&outcome);
        assert_eq!(broken, ["p99<1ms: Nothing was measured at b"]);
    }

    #[test]
    fn a_percentile_among_lost_messages_keeps_to_no_upper_limit() {
        let mut outcome = outcome();
        let mut second = outcome.points[0].clone();
        second.local.pings.as_mut().unwrap().rtt_ns.as_mut().unwrap().missing = 20;
        outcome.points.push(second);
        let broken = |text: &str| Assertion::parse(text).unwrap().broken(&outcome);
        let want = "p99<10s: round trip, p99 was that of messages that never came";
        assert_eq!(broken("p99<10s"), [want], "20 of 1020");
        assert_eq!(broken("p90<1ms"), Vec::<String>::new());
    }

    #[test]
    fn a_load_is_held_to_the_figures_of_its_answer() {
        use crate::load::{Stage, tests::points};
        let all = [points(Stage::Idle, 20, 9, 10), points(Stage::Down, 75, 9, 65)];
        let mut outcome = Outcome { points: all.concat(), ..Outcome::default() };
        outcome.begin.verb = "load".to_owned();
        let broken = |text: &str| Assertion::parse(text).unwrap().broken(&outcome);
        // The exchanges inside the connections take 150 ms, and the idle path 20 ms.
        for kept in [
            "rtt.p99<76ms",
            "rtt.p50>74ms",
            "p99<80ms",
            "rtt-idle.p50<21ms",
            "added<56ms",
            "added.p50<56ms",
            "grade<=B",
            "grade=b",
            "rpm>500",
            "goodput.down>18M",
            "errors=0",
        ] {
            assert_eq!(broken(kept), Vec::<String>::new(), "{kept}");
        }
        assert_eq!(broken("added<30ms"), ["added<30ms: added delay was 55.0 ms (stage down)"]);
        assert_eq!(broken("grade<=A"), ["grade<=A: grade was B (stage down)"]);
        let check = |text: &str| Assertion::parse(text).unwrap().check_load();
        assert_eq!(check("rtt.p99<50ms"), Ok(()));
        assert_eq!(check("grade<=B"), Ok(()));
        let why = check("frames<1%").unwrap_err();
        assert!(why.contains("no such figure; it has goodput") && why.contains("grade, added"), "{why}");
        assert!(Assertion::parse("grade<=E").unwrap_err().contains("not a grade"));
        assert!(Assertion::parse("added<1s").unwrap().check(&[Phase::default()]).is_err());
    }

    #[test]
    fn what_cannot_be_is_said() {
        let wrong = |text: &str| Assertion::parse(text).unwrap_err();
        assert!(wrong("p99").contains("is not a condition"));
        assert!(wrong("speed>1").contains("'speed' cannot be asserted"));
        assert!(wrong("p101<1ms").contains("cannot be asserted"));
        assert_eq!(wrong("goodputt.up>1"), "'goodputt.up' cannot be asserted; did you mean 'goodput.up'?");
        assert!(wrong("retransmit<9").ends_with("did you mean 'retransmits'?"));
        assert!(wrong("p99<fast").contains("not a duration"));
        assert!(wrong("goodput>much").contains("not a rate"));
        assert!(wrong("loss<x%").contains("not a percentage"));
    }

    #[test]
    fn a_rate_and_a_time_have_a_unit() {
        let parsed = Assertion::parse;
        let why = "'900' has no unit: 900M are 900 Mbit/s, 900bit are 900 bit/s";
        assert_eq!(parsed("goodput>900").unwrap_err(), why);
        assert_eq!(parsed("p99<5").unwrap_err(), "'5' has no unit: 5ms, 5us or 5s");
        for good in ["goodput>0", "goodput>900bit", "goodput>1.5G", "p99<5ms", "min>0", "errors=0", "loss<1"]
        {
            assert!(parsed(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn a_search_is_held_to_its_result() {
        use crate::{PacketReport, Totals};
        let at = |rate: &str, lost: u64| {
            let counts = |sent, received| {
                let counts = metrics::Packets { sent, received, ..metrics::Packets::default() };
                Totals { packets: Some(Box::new(PacketReport::from(counts))), ..Totals::default() }
            };
            let up = Direction { goodput_bps: 9e6 + lost as f64, ..Direction::default() };
            Point {
                label: [("rate".to_owned(), rate.to_owned())].into(),
                status: Status::Complete,
                up: Some(up),
                local: counts(100, 0),
                remote: vec![counts(0, 100 - lost)],
                ..Point::default()
            }
        };
        let fails = [at(crate::search::FASTEST, 60), at("2000", 30)];
        let mut found: Vec<Point> = (0..6).map(|_| at("1000", 0)).collect();
        found.insert(2, at("1000", 20));
        let (status, done) = (Status::Complete, Outcome::default);
        let outcome = |points: &[Point]| Outcome { points: points.to_vec(), status, ..done() };
        let broken = |text: &str, outcome: &Outcome| Assertion::parse(text).unwrap().broken(outcome);
        let all = outcome(&[&fails[..], &found].concat());
        assert_eq!(all.parts().len(), 6, "the attempt that lost most failed");
        assert!(broken("goodput<9000001bit", &all).is_empty());
        let none = outcome(&[&fails[..], &found[..5]].concat());
        let want = ["goodput>1k: nothing was measured that it is about"];
        assert_eq!(broken("goodput>1k", &none), want);
    }

    #[test]
    fn a_figure_that_a_run_cannot_have_is_refused_before_it() {
        let check = |text: &str, kind| {
            let phase = Phase { kind, ..Phase::default() };
            Assertion::parse(text).unwrap().check(&[phase])
        };
        assert_eq!(
            check("p99<5ms", Kind::Tcp).unwrap_err(),
            "'p99<5ms': this run has no such figure; did you mean connect.p99?"
        );
        let why = check("loss<1%", Kind::Tcp).unwrap_err();
        assert!(why.contains("no such figure; it has goodput, sent, "), "{why}");
        for (text, kind) in [("p99<5ms", Kind::Connect), ("goodput>1k", Kind::Tcp), ("loss<1%", Kind::Ping)] {
            assert_eq!(check(text, kind), Ok(()), "{text}");
        }
    }

    #[test]
    fn each_phase_is_held_to_it() {
        let mut outcome = outcome();
        let mut second = outcome.points[0].clone();
        second.up = Some(Direction { goodput_bps: 1e6, ..Direction::default() });
        second.repeat = 2;
        outcome.points.push(second);
        let broken = Assertion::parse("goodput>500M").unwrap().broken(&outcome);
        assert_eq!(broken, ["goodput>500M: goodput to server was 1.00 Mbit/s (repetition 2)"]);
    }
}
