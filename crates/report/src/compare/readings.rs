//! The readings of each figure on both sides of a comparison, and the verdicts on them.

use crate::plot::{Axis, show};
use metrics::{ALPHA, Clamped, Contrast, Series, format_duration, holm, least_readings, real};
use model::load::{GROWN, Stage, StageResult, each_under_load, grade};
use model::{Figure, Interval, Outcome, Point, Stat, Status, Unit, Way, is_shown};
use std::collections::BTreeMap;
use std::fmt;

/// Share of the error that the figures of the question have: the others, such as CPU time, are many
/// and must not hide a difference in goodput.
const LEADING: f64 = 0.8;

/// A figure that is compared.
#[derive(Clone, Debug)]
pub(super) struct Criterion {
    /// As people read it.
    pub(super) label: String,
    /// As files name it.
    pub(super) key: String,
    pub(super) unit: Unit,
    pub(super) more_is_better: bool,
    /// True for figures of the question itself.
    pub(super) leads: bool,
}

impl From<Figure> for Criterion {
    fn from(figure: Figure) -> Self {
        Criterion {
            label: figure.to_string(),
            key: figure.key(),
            unit: figure.unit(),
            more_is_better: figure.more_is_better(),
            leads: figure.is_compared(),
        }
    }
}

impl Criterion {
    /// A figure of a stage of a load.
    fn of_stage(figure: Figure) -> Self {
        let key = if figure == Figure::Added { GROWN.to_owned() } else { figure.key() };
        let leads = !matches!(figure, Figure::Retransmits);
        let label = match figure {
            Figure::Goodput(way) => format!("goodput {}", way.key()),
            Figure::RoundTrip(stat) | Figure::IdleRoundTrip(stat) => format!("trip {}", stat.key()),
            Figure::Responsiveness => "RPM".to_owned(),
            other => other.to_string(),
        };
        Criterion { label, key, leads, ..Criterion::from(figure) }
    }

    /// True for the growth of round trips, which may be negative and of which a share says nothing.
    pub(super) fn is_growth(&self) -> bool {
        self.key == GROWN
    }

    /// A value, for people: the growth of round trips with its grade.
    pub(super) fn show(&self, value: f64) -> String {
        let shown = self.show_difference(value);
        match self.key.as_str() {
            GROWN => format!("{shown} ({})", grade(i64::clamped(value))),
            _ => shown,
        }
    }

    /// A difference of two values, for people.
    pub(super) fn show_difference(&self, value: f64) -> String {
        if self.unit == Unit::Count {
            let digits = usize::from(value.fract() != 0.0 && value.abs() < 100.0);
            return format!("{value:.digits$}");
        }
        let shown = show(&Axis::new("", self.unit), value);
        if self.unit == Unit::SecondsPerGb { format!("{shown} s/GB") } else { shown }
    }

    /// By what share `after` is worse than `before`, negative where it is better, and what shares
    /// are of: a rate of that before, a percentage of all that was sent. `None` for a figure that
    /// does not add up over time.
    fn worsening(&self, before: f64, after: f64) -> Option<(f64, f64)> {
        match self.unit {
            Unit::Percent => Some(((after - before) / 100.0, 100.0)),
            Unit::BitsPerSecond | Unit::PerSecond if before > 0.0 => {
                Some(((before - after) / before, before))
            }
            _ => None,
        }
    }
}

/// `+1.5 %`, of a share.
pub(super) fn percent(share: f64) -> String {
    // A share that rounds to 0 has no minus.
    let percent = (share * 1e3).round() / 10.0 + 0.0;
    format!("{percent:+.1} %")
}

/// Verdict of a comparison on a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FigureVerdict {
    Better,
    Worse,
    Same,
    /// Too few readings ever to differ significantly: the number needed.
    TooFew(String),
    /// Intervals do not have this figure, only whole runs do.
    Untold,
}

impl fmt::Display for FigureVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FigureVerdict::Better => f.write_str("better"),
            FigureVerdict::Worse => f.write_str("worse"),
            FigureVerdict::Same => f.write_str("no significant difference"),
            FigureVerdict::TooFew(what) => write!(f, "too few {what}"),
            FigureVerdict::Untold => f.write_str("not told by intervals"),
        }
    }
}

impl FigureVerdict {
    /// In a column of a table.
    pub(super) fn short(&self, readings: &str) -> String {
        match self {
            FigureVerdict::Same => "not significant".to_owned(),
            FigureVerdict::TooFew(_) if readings == "runs" => "too few runs".to_owned(),
            FigureVerdict::TooFew(_) => "too short".to_owned(),
            FigureVerdict::Untold => "one run a side".to_owned(),
            _ => self.to_string(),
        }
    }
}

/// The readings of a figure on both sides.
pub(super) struct Readings {
    pub(super) setting: String,
    pub(super) figure: Criterion,
    /// Over all of each side, before and after.
    pub(super) value: [Option<f64>; 2],
    pub(super) of: [Vec<f64>; 2],
    /// Of how many datagrams, messages or frames each reading of an interval is a percentage; empty
    /// for other figures.
    pub(super) events: [Vec<u64>; 2],
    /// Length of an interval, ns.
    pub(super) interval_ns: u64,
    /// True if each reading is a run of its own; else the readings are intervals of one run on each
    /// side of the comparison.
    pub(super) whole_runs: bool,
}

impl Readings {
    pub(super) fn kind(&self) -> &'static str {
        if self.whole_runs { "runs" } else { "intervals" }
    }

    /// True if a test is possible; where all readings are the same, nothing can differ and no test
    /// is made.
    fn tested(&self) -> bool {
        let mut all = self.of.iter().flatten();
        let first = all.next();
        !self.is_one_sided() && all.any(|value| Some(value) != first)
    }

    /// True if a side has none.
    fn is_one_sided(&self) -> bool {
        self.of.iter().any(Vec::is_empty)
    }

    /// Intervals of a side.
    fn series(&self, side: usize) -> Series<'_> {
        Series { values: &self.of[side], events: &self.events[side] }
    }

    /// Clause that asks for this many readings on each side: more runs, or longer ones.
    fn requirement(&self, readings: usize) -> String {
        match self.whole_runs {
            true => format!("{readings} + {readings} needed"),
            false => {
                let ns = self.interval_ns.saturating_mul(u64::clamped(readings));
                format!("runs of {} needed", format_duration(ns))
            }
        }
    }

    /// The row of a comparison in which the figure may err with this probability.
    fn compared(self, level: f64) -> ComparedFigure {
        let contrast = match self.whole_runs {
            true => Contrast::of_sets(&self.of[0], &self.of[1], level),
            false => Contrast::of_series(self.series(0), self.series(1), level),
        };
        let tested = self.tested();
        let verdict = match contrast {
            _ if !self.whole_runs && self.is_one_sided() => FigureVerdict::Untold,
            Some(_) if !tested => FigureVerdict::Same,
            Some(contrast) if contrast.least_p <= level => FigureVerdict::Same,
            _ => FigureVerdict::TooFew(format!(
                "{} to tell: {}",
                self.kind(),
                self.requirement(least_readings(level))
            )),
        };
        let p = contrast.filter(|_| tested && verdict == FigureVerdict::Same).map(|contrast| contrast.p);
        ComparedFigure { readings: self, level, contrast, p, verdict }
    }
}

/// The part of the error that a figure has, by the numbers of leading and of other figures: the
/// leading ones have four fifths together; all of it where there is but one kind.
fn weight(leads: bool, [leading, others]: [usize; 2]) -> f64 {
    let (own, beside) = if leads { (leading, others) } else { (others, leading) };
    let share = match (leads, beside) {
        (_, 0) => 1.0,
        (true, _) => LEADING,
        (false, _) => 1.0 - LEADING,
    };
    share / real(own.max(1))
}

/// The numbers of leading and of other figures.
fn counts<'a>(of: impl Iterator<Item = &'a Readings> + Clone) -> [usize; 2] {
    [true, false].map(|leads| of.clone().filter(|of| of.figure.leads == leads).count())
}

/// Compares figures, and corrects for their number.
pub(super) fn judged(all: Vec<Readings>) -> Vec<ComparedFigure> {
    // Figures whose readings are all the same are not tested.
    let counts = counts(all.iter().filter(|of| of.tested()));
    let weights: Vec<f64> = all.iter().map(|of| weight(of.figure.leads, counts)).collect();
    let each = all.into_iter().zip(&weights);
    let mut rows: Vec<ComparedFigure> =
        each.map(|(readings, weight)| readings.compared(ALPHA * weight)).collect();
    let tested: Vec<usize> = (0..rows.len()).filter(|at| rows[*at].readings.tested()).collect();
    // Figures with too little data count as tests, too.
    let p: Vec<f64> = tested.iter().map(|at| rows[*at].p.unwrap_or(1.0)).collect();
    let weights: Vec<f64> = tested.iter().map(|at| weights[*at]).collect();
    for (at, p) in tested.into_iter().zip(holm(&p, &weights)) {
        if rows[at].p.is_some() {
            rows[at].judge(p);
        }
    }
    rows
}

/// The fewest runs a side with which each of these figures could differ significantly.
pub(super) fn fewest_runs(rows: &[ComparedFigure]) -> usize {
    let all = || rows.iter().map(|row| &row.readings);
    let counts = counts(all());
    all().map(|of| least_readings(ALPHA * weight(of.figure.leads, counts))).max().unwrap_or(0)
}

/// A figure of both sides, compared.
pub(super) struct ComparedFigure {
    pub(super) readings: Readings,
    /// Error that is allowed to its interval.
    level: f64,
    /// The comparison of their readings; `None` with too few.
    pub(super) contrast: Option<Contrast>,
    /// Its probability, corrected for the number of figures; `None` where none was tested.
    pub(super) p: Option<f64>,
    pub(super) verdict: FigureVerdict,
}

impl ComparedFigure {
    /// Sets the verdict, when the corrected probability `p` is small enough.
    fn judge(&mut self, p: f64) {
        self.p = Some(p);
        let Some(contrast) = self.contrast.filter(|_| p < ALPHA) else { return };
        let more = contrast.is_more();
        self.verdict = if more == self.readings.figure.more_is_better {
            FigureVerdict::Better
        } else {
            FigureVerdict::Worse
        };
    }

    /// True if the figure is worse by more than `share` of its old value, by the whole confidence
    /// interval: of the readings, or of the whole of each side. A value of 0 has no share: any
    /// worse value is worse by more.
    pub(super) fn worse_by(&self, share: f64) -> bool {
        let Some(contrast) = self.contrast.filter(|_| self.verdict == FigureVerdict::Worse) else {
            return false;
        };
        let base = contrast.base.abs();
        let beyond = |of: Contrast, scale: f64| of.local_end().abs() > share * scale;
        base == 0.0
            || share == 0.0
            || beyond(contrast, base)
            || self.whole(share).is_some_and(|(_, of, whole)| beyond(whole, of))
    }

    /// A figure that is worse by more than `share` over all of the side after: by what share, what
    /// shares are of, and the comparison of the wholes. A share of 0 asks for a difference of any
    /// size, and the readings alone answer that.
    fn whole(&self, share: f64) -> Option<(f64, f64, Contrast)> {
        let all = &self.readings;
        let (worse, of) = all.figure.worsening(all.value[0]?, all.value[1]?)?;
        let whole = match all.whole_runs {
            true => self.contrast,
            false => Contrast::of_wholes(all.series(0), all.series(1), self.level),
        };
        (share > 0.0 && worse > share).then(|| (worse, of, whole.unwrap_or_default()))
    }

    /// Sentence for a figure whose whole is worse by more than `share`, and not for certain: its
    /// readings scatter too much.
    pub(super) fn uncertainty(&self, share: f64) -> Option<String> {
        let (worse, of, whole) = self.whole(share)?;
        let readings = self.readings.of.iter().map(Vec::len).max().unwrap_or_default();
        // Of a whole that is near the threshold even a hundred times as many leave that open.
        let more = whole.more_readings((worse - share) * of).filter(|times| *times <= 100.0);
        let needed = more
            .map(|times| self.readings.requirement(usize::clamped((real(readings) * times.max(1.0)).ceil())));
        Some(format!(
            "over all of each side {} is worse by {:.1} %, and {} {} scatter too much to say that for certain: {}",
            self.name(),
            worse * 100.0,
            self.numbers(),
            self.readings.kind(),
            needed.unwrap_or_else(|| "several runs a side needed".to_owned())
        ))
    }

    /// `goodput to server -10.0 %`
    pub(super) fn words(&self) -> String {
        format!("{} {}", self.name(), self.difference().unwrap_or_default())
    }

    /// The values before and after: medians of runs, the whole of one run a side.
    pub(super) fn shown(&self) -> [Option<f64>; 2] {
        match self.contrast.filter(|_| self.readings.whole_runs) {
            Some(Contrast { median: (before, after), .. }) => [Some(before), Some(after)],
            None => self.readings.value,
        }
    }

    /// The difference of the values shown as a share of the one before; in the figure's unit where
    /// that is 0, and of a growth.
    pub(super) fn difference(&self) -> Option<String> {
        let [Some(before), Some(after)] = self.shown() else { return None };
        let by = after - before;
        Some(if before == 0.0 || self.readings.figure.is_growth() {
            let sign = if by > 0.0 { "+" } else { "" };
            format!("{sign}{}", self.readings.figure.show_difference(by))
        } else {
            percent(by / before.abs())
        })
    }

    /// The interval of the difference, in the form of [`ComparedFigure::difference`]; no value that
    /// cannot be negative falls by more than 100 %.
    pub(super) fn interval(&self) -> Option<String> {
        let contrast = self.contrast?;
        let (low, high) = contrast.interval?;
        let base = contrast.base.abs();
        let figure = &self.readings.figure;
        let end = |at: f64| match base == 0.0 || figure.is_growth() {
            true => figure.show_difference(at),
            false => percent((at / base).max(-1.0)),
        };
        Some(format!("{} to {}", end(low), end(high)))
    }

    /// `3 + 3 runs`
    pub(super) fn readings(&self) -> String {
        format!("{} {}", self.numbers(), self.readings.kind())
    }

    /// `3 + 3`
    pub(super) fn numbers(&self) -> String {
        let [before, after] = &self.readings.of;
        format!("{} + {}", before.len(), after.len())
    }

    pub(super) fn name(&self) -> String {
        match self.readings.setting.as_str() {
            "" => self.readings.figure.label.clone(),
            setting => format!("{setting}: {}", self.readings.figure.label),
        }
    }
}

/// A phase, and whether a server recorded it.
pub(super) type Phase<'a> = (&'a Point, bool);

/// All phases by the sweep's setting.
pub(super) fn by_setting(runs: &[Outcome]) -> BTreeMap<BTreeMap<String, String>, Vec<Phase<'_>>> {
    let mut all: BTreeMap<_, Vec<Phase<'_>>> = BTreeMap::new();
    for run in runs {
        for point in &run.points {
            all.entry(point.label.clone()).or_default().push((point, run.begin.verb == "serve"));
        }
    }
    all
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / real(values.len()))
}

/// The readings of a figure: whole runs, or the intervals of one run a side. `None` where a side
/// has not measured it.
pub(super) fn readings(setting: String, figure: Figure, sides: [&[Phase<'_>]; 2]) -> Option<Readings> {
    let whole: [Vec<f64>; 2] = sides.map(|points| {
        let points = points.iter().filter(|(point, _)| point.status != Status::Failed);
        points.filter_map(|(point, _)| figure.of(point)).collect()
    });
    let value = [mean(&whole[0]), mean(&whole[1])];
    // A value that neither side has, or that only stood still, is no figure of these runs; nor are
    // errors that did not occur.
    let is_empty = figure.more_is_better() || figure == Figure::Errors;
    if value.contains(&None) || (is_empty && value == [Some(0.0); 2]) {
        return None;
    }
    let runs = sides.iter().any(|points| points.len() > 1);
    let intervals = |points: &[Phase<'_>]| -> Vec<f64> {
        points.iter().flat_map(|(point, serving)| figure.readings(point, *serving)).collect()
    };
    let of = if runs { whole } else { sides.map(intervals) };
    let events = sides.map(|points| match runs {
        true => Vec::new(),
        false => points.iter().flat_map(|(point, _)| figure.events(point)).collect(),
    });
    let lengths = sides.iter().flat_map(|points| points.iter().flat_map(|(point, _)| point.readings()));
    let interval_ns = lengths.map(Interval::ns).max().unwrap_or_default();
    let figure = Criterion::from(figure);
    Some(Readings { setting, figure, value, of, events, interval_ns, whole_runs: runs })
}

/// Readings of a protocol's own results with the same settings, figure by figure.
fn own(points: &[Phase<'_>]) -> BTreeMap<(String, String), Vec<f64>> {
    let mut all: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
    for shown in points.iter().flat_map(|(point, _)| point.shown()) {
        for figure in &shown.figures {
            all.entry((shown.setting(), figure.key.clone())).or_default().push(figure.value);
        }
    }
    all
}

/// The readings of the figures of a protocol's own results, where each side has several with the
/// same settings.
pub(super) fn own_readings(setting: &str, sides: [&[Phase<'_>]; 2]) -> Vec<Readings> {
    let [ours, mut theirs] = sides.map(own);
    let common = ours.into_iter().filter_map(|(key, before)| {
        let of = [before, theirs.remove(&key)?];
        let figure = Figure::named(&key.1).into_iter().next().filter(|figure| figure.is_compared())?;
        let settings: Vec<&str> = [setting, &key.0].into_iter().filter(|words| !words.is_empty()).collect();
        let value = [mean(&of[0]), mean(&of[1])];
        let several = of.iter().all(|values| values.len() > 1);
        let (setting, events) = (settings.join(", "), [Vec::new(), Vec::new()]);
        let figure = Criterion::from(figure);
        several.then_some(Readings { setting, figure, value, of, events, interval_ns: 0, whole_runs: true })
    });
    common.collect()
}

/// The figures of the answer of a load, stage by stage: a reading for each repetition; of one run a
/// side the intervals of the measurement that has the figure.
pub(super) fn load_readings(sides: [&[Outcome]; 2]) -> Vec<Readings> {
    /// Growth that stands for all beyond it: lost messages have no time.
    const MOST_GROWN: f64 = 5e9;
    let runs: [Vec<Vec<StageResult>>; 2] = sides.map(|runs| {
        let loads = runs.iter().filter(|run| run.begin.verb == "load");
        loads.flat_map(each_under_load).collect()
    });
    let whole_runs = runs.iter().any(|side| side.len() > 1);
    let points = sides.map(by_setting);
    let mut all = Vec::new();
    for (stage, figure, part) in Stage::ALL.into_iter().flat_map(load_figures) {
        let read = |found: &StageResult| {
            let goodput = |way: Option<model::load::OneWay>| way?.goodput_bps;
            let value = match figure {
                // In the stage that fills both directions, too.
                Figure::Goodput(Way::Up) => goodput(found.up),
                Figure::Goodput(Way::Down) => goodput(found.down),
                Figure::RoundTrip(Stat::Quantile(q))
                    if q > 0.5 && found.rtt.as_ref().is_some_and(|rtt| !is_shown(rtt, q)) =>
                {
                    None
                }
                _ => found.figure(figure),
            };
            value.map(|value| value.min(if figure == Figure::Added { MOST_GROWN } else { f64::MAX }))
        };
        let whole = [&runs[0], &runs[1]].map(|side| {
            let own = side.iter().flatten().filter(|found| found.stage == stage.name());
            own.filter_map(read).collect::<Vec<f64>>()
        });
        let value = [mean(&whole[0]), mean(&whole[1])];
        let is_nothing = value == [Some(0.0); 2] && figure.unit() != Unit::Ns;
        if value.contains(&None) || is_nothing {
            continue;
        }
        let label = BTreeMap::from([("stage", stage.name()), ("part", part)]);
        let label = label.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        // Growth, grade and responsiveness are of whole stages.
        let of_whole = matches!(figure, Figure::Added | Figure::Responsiveness | Figure::Retransmits);
        let setting = format!("stage {}", stage.name());
        let own = [&points[0], &points[1]].map(|side| side.get(&label).map_or(&[][..], Vec::as_slice));
        let interval_figure = match figure {
            Figure::IdleRoundTrip(stat) => Figure::RoundTrip(stat),
            other => other,
        };
        let of_intervals =
            readings(setting.clone(), interval_figure, own).filter(|_| !of_whole && !whole_runs);
        let figure = Criterion::of_stage(figure);
        all.push(match of_intervals {
            Some(known) => Readings { figure, value, ..known },
            None => {
                let of = if whole_runs { whole } else { [Vec::new(), Vec::new()] };
                let events = [Vec::new(), Vec::new()];
                Readings { setting, figure, value, of, events, interval_ns: 0, whole_runs }
            }
        });
    }
    all
}

/// The figures of a stage, and the part of it that has their intervals.
fn load_figures(stage: Stage) -> Vec<(Stage, Figure, &'static str)> {
    const P50: Stat = Stat::MEDIAN;
    const P99: Stat = Stat::Quantile(0.99);
    let trips = |figure| (stage, figure, "trips");
    let load = |figure| (stage, figure, "load");
    let goodput = match stage {
        Stage::Idle => return vec![trips(Figure::IdleRoundTrip(P50))],
        Stage::Down => vec![Way::Down],
        Stage::Up => vec![Way::Up],
        Stage::Both => vec![Way::Down, Way::Up],
    };
    let mut all = vec![trips(Figure::Added)];
    all.extend(goodput.into_iter().map(|way| load(Figure::Goodput(way))));
    all.extend([Figure::RoundTrip(P50), Figure::RoundTrip(P99), Figure::Responsiveness].map(trips));
    all.extend([trips(Figure::MessagesLost), load(Figure::Retransmits)]);
    all
}
