//! From events to an outcome, live or from a journal alike.

use crate::caveat::caveats_against;
use crate::frames::FrameWatch;
use crate::thin::{self, Coarse};
use crate::{Event, Extra, Interval, Level, Marking, Outcome, Point, RoundTrips, SCHEMA, SweepRow, Totals};
use crate::{Meanwhile, figures, knee, load, mtu};
use metrics::format_count;
use std::collections::BTreeMap;

/// Ended connections kept per point; all of them are in the connection CSV and the journal.
const MAX_CONNECTIONS_KEPT: usize = 10_000;
/// Most notices, sentences about omissions included.
const MAX_NOTICES: usize = 200;
/// Intervals kept per point of a measurement (a day of seconds and more).
const MAX_INTERVALS: usize = 100_000;
/// Results of protocols' own kept per point, and bytes of their values; all are in the journal.
const MAX_EXTRAS_KEPT: usize = 2_000;
const MAX_EXTRA_BYTES_KEPT: usize = 64 << 20;
/// TCP_INFO samples kept per point; further intervals are kept without theirs.
const MAX_SAMPLES_KEPT: usize = 20_000;
/// The same for views of a running phase; earlier phases keep less.
const BOUNDED: Bounds = Bounds { connections: 1_000, extras: 50, extra_bytes: 0 };
const UNBOUNDED: Bounds =
    Bounds { connections: MAX_CONNECTIONS_KEPT, extras: MAX_EXTRAS_KEPT, extra_bytes: MAX_EXTRA_BYTES_KEPT };

/// Most items kept per point.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    connections: usize,
    extras: usize,
    extra_bytes: usize,
}

/// Builds an [`Outcome`] from [`Event`]s.
///
/// Events may be missing or out of order: each one goes to the latest phase, intervals are put in
/// order by their index (a repeated one counts once, as its last version), and missing totals are
/// made of the intervals. So a journal that a crash cut short still gives an outcome; without its
/// end it is [`crate::Status::Partial`].
///
/// Of a server, whose life has no planned end, older intervals are merged ([`Interval::join`]), so
/// that memory does not grow with its age. Notices name the omissions.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    /// All but `points` and `sweep`.
    outcome: Outcome,
    drafts: Vec<Draft>,
    ended: bool,
    /// True if memory is bounded.
    bounded: bool,
    /// True for a server's life, which may last for months.
    serving: bool,
}

/// A point under construction.
#[derive(Clone, Debug, Default)]
struct Draft {
    point: Point,
    /// True if its phase was reported, and not only a part of one.
    told: bool,
    /// Our totals, once reported.
    local: Option<Totals>,
    /// TCP_INFO samples kept.
    samples: usize,
    /// Bytes of values of results kept.
    extra_bytes: usize,
    /// Makes its frame times.
    frames: FrameWatch,
    /// Intervals beyond [`MAX_INTERVALS`].
    dropped: u64,
    /// Ended connections, and results of protocols' own or their values, beyond the limit of kept
    /// ones.
    unkept: (u64, u64),
    /// Joined intervals before the point's own; only where their number is limited.
    coarse: Coarse,
    /// The finished point, once the next phase has begun; only where it is to stay small.
    settled: Option<Box<Point>>,
}

impl Builder {
    /// A builder that stays small, however long the run is, for views of it while it goes on. Older
    /// intervals are joined ([`Interval::join`]), and finished phases keep only the data of plots.
    pub fn bounded() -> Self {
        Builder { bounded: true, ..Builder::default() }
    }

    /// A builder for a concurrent measurement of the same run: it stays small, too.
    pub fn for_concurrent(&self) -> Builder {
        let outcome = Outcome { begin: self.outcome.begin.clone(), ..Outcome::default() };
        Builder { outcome, serving: self.serving, ..Builder::bounded() }
    }

    /// Takes in one event.
    pub fn absorb(&mut self, event: &Event) {
        let (bounds, joins) = (self.bounds(), self.bounded || self.serving);
        match event {
            Event::Begin(begin) => {
                self.serving = begin.verb == "serve";
                self.outcome.begin = (**begin).clone();
            }
            Event::Phase { label, repeat, phase } => {
                if self.drafts.last().is_none_or(|draft| draft.told) {
                    self.settle();
                    self.drafts.push(Draft::default());
                }
                let draft = self.draft();
                draft.told = true;
                draft.point.label.clone_from(label);
                draft.point.repeat = *repeat;
                draft.point.phase = (**phase).clone();
            }
            Event::Session(session) => self.draft().point.sessions.push((**session).clone()),
            Event::Start { at } => self.draft().point.started = Some(*at),
            Event::Interval(interval) => self.draft().interval(interval, joins),
            // Coarse intervals are sums, in which the interval is already.
            Event::Corrected(interval) if !joins => self.draft().interval(interval, joins),
            Event::Corrected(_) => {}
            Event::Connection(record) => {
                let draft = self.draft();
                match draft.point.connections.len() < bounds.connections {
                    true => draft.point.connections.push((**record).clone()),
                    false => draft.unkept.0 += 1,
                }
            }
            Event::Frames { id, rows } => {
                let draft = self.draft();
                draft.frames.see(*id, rows, &mut draft.point.frame_times);
            }
            // One per message or connection (repeated at its end): for journals and sample files.
            Event::Pings { .. }
            | Event::TrainPackets { .. }
            | Event::Portion(_)
            | Event::Packets { .. }
            | Event::Served(_)
            | Event::Links(_)
            | Event::Established { .. } => {}
            Event::Baseline(baseline) => self.draft().point.baseline = Some(baseline.clone()),
            Event::Trains(trains) => self.draft().point.trains = Some(trains.clone()),
            Event::Capacity(capacity) => self.draft().point.capacity = Some(capacity.clone()),
            Event::FrameTimes(times) => self.draft().point.frame_times = Some(times.clone()),
            Event::Extra(extra) if extra.shown.is_some() => self.draft().extra(extra, bounds),
            Event::Extra(_) => {}
            Event::Flows { rows } => self.draft().point.flows.clone_from(rows),
            Event::Notice { level, text } => self.notice(*level, text),
            Event::Local(totals) => self.draft().local = Some((**totals).clone()),
            Event::Remote(totals) => self.draft().point.remote.push((**totals).clone()),
            Event::PhaseEnd { status, reason } => {
                let point = &mut self.draft().point;
                point.status = *status;
                point.reason.clone_from(reason);
            }
            Event::End { status, reason } => {
                self.ended = true;
                self.outcome.status = *status;
                self.outcome.reason.clone_from(reason);
            }
        }
    }

    /// The outcome so far.
    pub fn outcome(&self) -> Outcome {
        self.outcome_with(std::iter::empty())
    }

    /// The outcome so far, with concurrent measurements ([`Builder::for_concurrent`]) after the
    /// finished ones.
    pub fn outcome_with<'a>(&'a self, beside: impl IntoIterator<Item = &'a Builder>) -> Outcome {
        let mut outcome = self.outcome.clone();
        outcome.schema = SCHEMA.to_owned();
        if !self.ended {
            outcome.reason = Some("the end of the run is not on record".to_owned());
        }
        let all = std::iter::once(self).chain(beside);
        let points = all.flat_map(|builder| builder.drafts.iter().map(move |draft| builder.finish(draft)));
        outcome.points = points.collect();
        outcome.path_mtu = mtu::path_mtu(&outcome.points);
        outcome.sweep = if outcome.path_mtu.is_some() { Vec::new() } else { sweep_rows(&outcome.points) };
        let left_out = self.left_out();
        outcome.notices.truncate(MAX_NOTICES.saturating_sub(left_out.len()));
        outcome.notices.extend(left_out);
        outcome
    }

    /// Input of [`caveats_so_far`](crate::caveats_so_far) about the latest phase's intervals.
    pub fn meanwhile(&self) -> Meanwhile {
        let latest = self.drafts.last().map(|draft| &draft.coarse);
        let (joined, busy) = latest.map(|coarse| (coarse.kept(), coarse.busy)).unwrap_or_default();
        let joined = usize::try_from(joined).unwrap_or(usize::MAX);
        Meanwhile { joined, busy, ..Meanwhile::default() }
    }

    /// A sentence for each kind of dropped events. Views of a running phase need none.
    fn left_out(&self) -> Vec<String> {
        let all = |of: fn(&Draft) -> u64| self.drafts.iter().map(of).sum::<u64>();
        let mut told = Vec::new();
        let dropped = all(|draft| draft.dropped);
        if dropped > 0 {
            let dropped = format_count(dropped, "interval");
            told.push(format!(
                "{dropped} beyond the first {MAX_INTERVALS}: only in the status CSV and the journal"
            ));
        }
        if self.bounded {
            return told;
        }
        let (joined, longer) = (all(|draft| draft.coarse.came), all(|draft| draft.coarse.kept()));
        if joined > 0 {
            told.push(format!(
                "the first {joined} intervals are joined to {longer} longer ones, whose bytes and counts are exact and whose \
                 percentiles are the largest of each, and the spread over the intervals is that of the later ones: one by one \
                 they are only in the status CSV and the journal"
            ));
        }
        let (connections, tests) = (all(|draft| draft.unkept.0), all(|draft| draft.unkept.1));
        if connections > 0 {
            told.push(format!(
                "{} beyond the first {MAX_CONNECTIONS_KEPT}: counted, and told one by one only in the connection CSV and the journal",
                format_count(connections, "ended connection")
            ));
        }
        if tests > 0 {
            let results = format_count(tests, "result");
            told.push(format!("{results} beyond the first {MAX_EXTRAS_KEPT} or 64 MiB: only in the journal"));
        }
        told
    }

    fn bounds(&self) -> Bounds {
        if self.bounded { BOUNDED } else { UNBOUNDED }
    }

    /// The last phase is over: shrinks it if memory is bounded.
    fn settle(&mut self) {
        if !self.bounded {
            return;
        }
        let before = self.drafts.len();
        let Some(point) = self.drafts.last().map(|draft| self.finish(draft)) else { return };
        if let Some(last) = self.drafts.last_mut() {
            let settled = Some(Box::new(thin::settled(point, before)));
            *last = Draft { told: true, settled, ..Draft::default() };
        }
    }

    /// The latest point; an empty one before the first phase.
    fn draft(&mut self) -> &mut Draft {
        if self.drafts.is_empty() {
            self.drafts.push(Draft::default());
        }
        let last = self.drafts.len() - 1;
        &mut self.drafts[last]
    }

    fn notice(&mut self, level: Level, text: &str) {
        let notices = &mut self.outcome.notices;
        if notices.len() < MAX_NOTICES {
            notices.push(match level {
                Level::Info => text.to_owned(),
                Level::Warning => format!("warning: {text}"),
                Level::Error => format!("error: {text}"),
            });
        }
    }

    /// Round trips of the idle stage, when `point` belongs to another stage of the same run.
    fn idle_of(&self, point: &Point) -> Option<&RoundTrips> {
        let mut all = self.drafts.iter().map(|draft| match &draft.settled {
            Some(settled) => (&**settled, Some(&settled.local)),
            None => (&draft.point, draft.local.as_ref()),
        });
        all.find(|(other, _)| load::is_idle_of(other, point))?.1?.pings.as_deref()
    }

    fn finish(&self, draft: &Draft) -> Point {
        if let Some(settled) = &draft.settled {
            return (**settled).clone();
        }
        let mut point = draft.point.clone();
        let latest = self.serving.then(|| point.intervals.clone());
        draft.coarse.before(&mut point.intervals);
        point.local = draft.local.clone().unwrap_or_else(|| figures::totals_of(&point.intervals));
        match latest {
            // Merged intervals are no readings of a rate, and a server's idle time in them does not
            // count.
            Some(latest) => {
                let all = std::mem::replace(&mut point.intervals, latest);
                figures::derive(&mut point, Some(draft.coarse.busy));
                point.intervals = all;
            }
            None => figures::derive(&mut point, None),
        }
        point.marking = Marking::all(&point);
        point.caveats = caveats_against(&point, self.idle_of(&point), &self.outcome.begin);
        point
    }
}

impl Draft {
    fn extra(&mut self, extra: &Extra, bounds: Bounds) {
        if self.point.extras.len() >= bounds.extras {
            self.unkept.1 += 1;
            return;
        }
        let bytes = extra.value.get().len();
        let fits = self.extra_bytes + bytes <= bounds.extra_bytes;
        self.unkept.1 += u64::from(!fits);
        self.extra_bytes += if fits { bytes } else { 0 };
        let value = if fits { extra.clone() } else { Extra::new(&extra.protocol, &()) };
        self.point.extras.push(Extra { shown: extra.shown.clone(), ..value });
    }

    fn interval(&mut self, interval: &Interval, joins: bool) {
        if joins {
            return self.coarse.keep(interval, &mut self.point.intervals);
        }
        let mut interval = interval.clone();
        if self.samples + interval.samples.len() > MAX_SAMPLES_KEPT {
            interval.samples.clear();
        }
        let kept = &mut self.point.intervals;
        match kept.binary_search_by_key(&interval.index, |i| i.index) {
            Ok(at) => {
                self.samples = self.samples - kept[at].samples.len() + interval.samples.len();
                kept[at] = interval;
            }
            Err(_) if kept.len() >= MAX_INTERVALS => self.dropped += 1,
            Err(at) => {
                self.samples += interval.samples.len();
                kept.insert(at, interval);
            }
        }
    }
}

/// One row per setting in order of appearance; none for a run that measured one setting once.
fn sweep_rows(points: &[Point]) -> Vec<SweepRow> {
    if points.iter().all(|p| p.label.is_empty() && p.repeat <= 1) {
        return Vec::new();
    }
    let mut settings: Vec<Vec<&Point>> = Vec::new();
    let mut known = BTreeMap::new();
    for point in points {
        let at = *known.entry(&point.label).or_insert(settings.len());
        match settings.get_mut(at) {
            Some(same) => same.push(point),
            None => settings.push(vec![point]),
        }
    }
    let mut rows: Vec<SweepRow> = settings.iter().map(|same| SweepRow::of(same)).collect();
    knee::mark(&mut rows);
    rows
}

#[cfg(test)]
pub(crate) mod tests;
