//! The shown state of a run, the effects of the keys, and the events on their way there.

use super::draw;
use super::figures::Figure;
use super::grid::Grid;
use super::keys::Press;
use super::stages::Stages;
use super::track::{self, Planned, SortBy, Track};
use model::{Begin, Caveat, CpuUse, Event, Interval, Level, Meanwhile, Point};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};

const NOTICES: usize = 200;
/// Measurements of a sweep that are kept when they are over.
const DONE: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Colours may be used (no NO_COLOR).
    pub color: bool,
    /// Block elements may be used: its text is UTF-8.
    pub blocks: bool,
}

impl Default for Look {
    fn default() -> Self {
        Look { color: true, blocks: true }
    }
}

/// Action that a key asks of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Nothing,
    /// End the run in good order.
    End,
    /// Leave the terminal to the shell for a while.
    Stop,
    Kill,
    /// Keep this screen as a picture.
    Picture,
    /// Draw everything anew: another program has written onto the screen.
    Anew,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Page {
    /// The most important of everything.
    #[default]
    Overview,
    Connections,
    Latency,
    /// Caveats, notices, failures.
    Caveats,
    /// The measurements of a sweep that are over.
    Points,
    Help,
}

impl Page {
    const ROUND: [Page; 5] = [Page::Overview, Page::Connections, Page::Latency, Page::Caveats, Page::Points];

    fn turn(self, by: usize) -> Page {
        let at = Page::ROUND.iter().position(|page| *page == self).unwrap_or(0);
        Page::ROUND[(at + by) % Page::ROUND.len()]
    }
}

/// A caveat, since when it is there.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Arisen {
    pub(super) caveat: Caveat,
    /// Which of the measurements beside each other.
    pub(super) part: u32,
    /// Since the run's start, ns.
    pub(super) at_ns: u64,
    pub(super) setting: String,
    /// True if the last look found it.
    pub(super) still: bool,
}

/// A measurement that is over: its setting, and its figures with their means.
#[derive(Clone, Debug)]
pub(super) struct Past {
    pub(super) setting: String,
    pub(super) figures: Vec<(String, String)>,
    pub(super) errors: u64,
}

/// State of the run.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) begin: Begin,
    pub(super) planned: Planned,
    /// Measurements that run, or ran last, beside each other.
    pub(super) tracks: BTreeMap<u32, Track>,
    pub(super) begun: u32,
    pub(super) done: VecDeque<Past>,
    /// With their times since the run's start, ns.
    pub(super) notices: VecDeque<(u64, Level, String)>,
    pub(super) caveats: Vec<Arisen>,
    /// Intervals dropped from the feed.
    pub(super) missed: u64,
    /// CPU time of this host: since the phase began, and in the last interval.
    pub(super) cpu: Option<(CpuUse, CpuUse)>,
    /// The caller's clock when the run began, ns.
    pub(super) since_ns: u64,
    /// The stages of a load.
    pub(super) stages: Stages,
    /// The caller's clock when the latest measurement began, ns.
    measurement_ns: u64,
    /// Finished measurements of a known length, and their time beyond it, ns.
    overhead: (u32, u64),
}

/// The shown state, and its look.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub(super) look: Look,
    pub(super) known: Known,
    /// State at the pause of the display, and its time.
    frozen: Option<Box<(Known, u64)>>,
    pub(super) page: Page,
    pub(super) sort: SortBy,
    pub(super) turned: bool,
    /// The first line shown of a page that is longer than the screen; drawing keeps it within the
    /// page.
    pub(super) scroll: Cell<u16>,
    /// True once the run was asked to end.
    pub(super) ending: bool,
}

impl View {
    /// Of a run of which this is known beforehand, that begins at `now_ns`.
    pub fn new(look: Look, planned: Planned, now_ns: u64) -> View {
        let known = Known { planned, since_ns: now_ns, ..Known::default() };
        View { look, known, ..View::default() }
    }

    /// Takes the events up to `now_ns`; times are of any monotonic clock of the caller.
    pub fn absorb(&mut self, feed: Feed, now_ns: u64) {
        self.known.absorb(feed, now_ns);
    }

    /// Takes the CPU time of this host since the phase began, and in the last interval.
    pub fn host(&mut self, phase: CpuUse, interval: CpuUse) {
        self.known.cpu = Some((phase, interval));
    }

    /// The run has been asked to end.
    pub fn ending(&mut self) {
        self.ending = true;
    }

    /// Shows a notice about the display, not the run.
    pub fn notice(&mut self, text: String, now_ns: u64) {
        self.known.notice(Level::Info, text, now_ns);
    }

    pub fn paused(&self) -> bool {
        self.frozen.is_some()
    }

    /// A key was pressed at `now_ns`.
    pub fn press(&mut self, press: Press, now_ns: u64) -> Wish {
        let scroll = self.scroll.get_mut();
        match press {
            Press::Char('q' | 'Q') => return Wish::End,
            Press::Char('\x1a') => return Wish::Stop,
            Press::Char('\x1c') => return Wish::Kill,
            Press::Char('\x0c') => return Wish::Anew,
            Press::Char('w') => return Wish::Picture,
            Press::Char('p' | ' ') => {
                self.frozen = (!self.paused()).then(|| Box::new((self.known.clone(), now_ns)));
            }
            Press::Char('s') => self.sort = self.sort.next(),
            Press::Char('r') => self.turned = !self.turned,
            Press::Up | Press::Char('k') => *scroll = scroll.saturating_sub(1),
            Press::Down | Press::Char('j') => *scroll = scroll.saturating_add(1),
            Press::PageUp => *scroll = scroll.saturating_sub(10),
            Press::PageDown => *scroll = scroll.saturating_add(10),
            Press::Home => *scroll = 0,
            Press::End => *scroll = u16::MAX,
            _ => {
                if let Some(page) = self.page(press) {
                    // The same key again leads back.
                    self.page = if page == self.page { Page::Overview } else { page };
                    self.scroll.set(0);
                }
            }
        }
        Wish::Nothing
    }

    /// Which page a key leads to.
    fn page(&self, press: Press) -> Option<Page> {
        Some(match press {
            Press::Char('1' | 'o') | Press::Escape => Page::Overview,
            Press::Char('2' | 'c') => Page::Connections,
            Press::Char('3' | 'l') => Page::Latency,
            Press::Char('4' | 'v') => Page::Caveats,
            Press::Char('5' | 't') => Page::Points,
            Press::Char('?' | 'h') => Page::Help,
            Press::Tab | Press::Right => self.page.turn(1),
            Press::BackTab | Press::Left => self.page.turn(Page::ROUND.len() - 1),
            _ => return None,
        })
    }

    /// Draws all of `grid`, of any size, as of `now_ns`.
    pub fn draw(&mut self, grid: &mut Grid, now_ns: u64) {
        match self.frozen.as_deref() {
            Some((known, then)) => draw::all(self, known, grid, *then),
            None => draw::all(self, &self.known, grid, now_ns),
        }
    }
}

impl Known {
    /// True for a server's life instead of a run.
    pub(super) fn serving(&self) -> bool {
        self.begin.verb == "serve"
    }

    fn absorb(&mut self, feed: Feed, now_ns: u64) {
        self.missed += feed.missed;
        let mut measured = Vec::new();
        for (part, event) in feed.told {
            match event {
                Event::Begin(begin) => self.begin = *begin,
                Event::Phase { label, repeat, phase } => {
                    // Finished measurements beside the previous one are removed with it.
                    let gone = |of: &u32, track: &mut Track| *of == part || track.ended;
                    let over: Vec<Track> = self.tracks.extract_if(.., gone).map(|(_, track)| track).collect();
                    over.iter().for_each(|track| self.summarise(track));
                    // Concurrent phases count as one measurement of the run.
                    if self.tracks.is_empty() {
                        self.learn_overhead(&over, now_ns);
                        self.begun += 1;
                    }
                    if self.begin.verb == "load" {
                        self.stages.begin(&label, &phase, self.planned.total_ns);
                    }
                    self.tracks.insert(part, Track::new(label, repeat, *phase));
                }
                Event::Notice { level, text } => self.notice(level, text, now_ns),
                Event::End { .. } => {}
                event => {
                    let interval = matches!(event, Event::Interval(_));
                    if let (Event::Interval(interval), Some(track)) = (&event, self.tracks.get(&part)) {
                        self.stages.interval(track, interval, now_ns.saturating_sub(self.since_ns));
                    }
                    self.tracks.entry(part).or_default().on_event(event, now_ns);
                    if interval && !measured.contains(&part) {
                        measured.push(part);
                    }
                }
            }
        }
        for text in feed.failures {
            self.notice(Level::Error, text, now_ns);
        }
        measured.into_iter().for_each(|part| self.caveat(part, now_ns));
    }

    /// Learns from the measurements that are `over` how much longer than planned one takes: it is
    /// set up and ended.
    fn learn_overhead(&mut self, over: &[Track], now_ns: u64) {
        let planned = over.iter().filter_map(|track| track::length(&track.point.phase)).max();
        if let Some(planned) = planned.filter(|_| self.begun > 0) {
            let took = now_ns.saturating_sub(self.measurement_ns);
            let (n, sum) = self.overhead;
            self.overhead = (n + 1, sum.saturating_add(took.saturating_sub(planned)));
        }
        self.measurement_ns = now_ns;
    }

    /// `planned`, ns, of all measurements, and for each the mean time that the finished ones took
    /// beyond their length.
    pub(super) fn with_overhead(&self, planned: u64) -> u64 {
        let (n, sum) = self.overhead;
        let each = sum.checked_div(u64::from(n)).unwrap_or(0);
        planned.saturating_add(each.saturating_mul(u64::from(self.planned.phases.unwrap_or(0))))
    }

    fn notice(&mut self, level: Level, text: String, now_ns: u64) {
        if self.notices.len() >= NOTICES {
            self.notices.pop_front();
        }
        self.notices.push_back((now_ns.saturating_sub(self.since_ns), level, text));
    }

    /// Keeps the figures of a measurement that is over.
    fn summarise(&mut self, track: &Track) {
        if track.readings.is_empty() {
            return;
        }
        if self.done.len() >= DONE {
            self.done.pop_front();
        }
        let errors = track.last().map_or(0, Interval::errors);
        let figures = super::figures::results(track, self.serving());
        self.done.push_back(Past { setting: track.setting(), figures, errors });
    }

    /// Looks for caveats of a measurement so far.
    fn caveat(&mut self, part: u32, now_ns: u64) {
        let Some(track) = self.tracks.get(&part) else { return };
        let intervals = track.readings.iter().map(|reading| reading.interval.clone()).collect();
        // Totals at the end have caveats of their own, in the report.
        let (local, remote) = Default::default();
        let point = Point { intervals, local, remote, ..track.point.clone() };
        let known = Meanwhile {
            cpu: self.cpu.map(|(phase, _)| phase),
            tcp: track.connections.totals(),
            cut: track.forgotten > 0,
            ..Meanwhile::default()
        };
        let found = model::caveats_so_far(point, &self.begin, &known);
        let setting = track.setting();
        self.caveats.iter_mut().for_each(|arisen| arisen.still &= arisen.part != part);
        for caveat in found {
            let same = |arisen: &&mut Arisen| arisen.part == part && arisen.caveat.code == caveat.code;
            match self.caveats.iter_mut().find(same) {
                Some(known) => (known.caveat, known.still) = (caveat, true),
                None => self.caveats.push(Arisen {
                    caveat,
                    part,
                    at_ns: now_ns.saturating_sub(self.since_ns),
                    setting: setting.clone(),
                    still: true,
                }),
            }
        }
    }
}

impl Track {
    /// The values of the intervals that are kept, the omitted ones not among them.
    pub(super) fn values(&self, figure: Figure) -> impl Iterator<Item = f64> {
        let counted = self.readings.iter().filter(|reading| !reading.interval.omitted);
        counted.filter_map(move |reading| figure.of(reading))
    }

    pub(super) fn mean(&self, figure: Figure) -> Option<f64> {
        let (n, sum) = self.values(figure).fold((0.0, 0.0), |(n, sum), value| (n + 1.0, sum + value));
        (n > 0.0).then(|| sum / n)
    }
}

/// Most events kept. Some minutes of a run, while the terminal is stopped; after that the oldest
/// intervals are left out.
const MOST: usize = 512;
/// Most failures shown one by one.
const FAILURES: usize = 64;

/// Events on their way to a [`View`].
///
/// Adding an event copies the parts that are shown and never blocks. Parts that are not shown are
/// left out; ended connections, of which there may be tens of thousands a second, are counted.
#[derive(Clone, Debug, Default)]
pub struct Feed {
    told: VecDeque<(u32, Event)>,
    /// Connections that ended.
    ended: u64,
    /// Causes of the first failures.
    failures: Vec<String>,
    /// Intervals dropped because the view did not take them in time.
    missed: u64,
}

impl Feed {
    /// Takes an event of one of several measurements that run beside each other; of the only one,
    /// 0.
    pub fn push(&mut self, part: u32, event: &Event) {
        match event {
            Event::Begin(_)
            | Event::Phase { .. }
            | Event::Session(_)
            | Event::Start { .. }
            | Event::Interval(_)
            | Event::Corrected(_)
            | Event::Notice { .. }
            | Event::Local(_)
            | Event::Remote(_)
            | Event::PhaseEnd { .. }
            | Event::End { .. } => {
                if self.told.len() >= MOST {
                    self.forget();
                }
                self.told.push_back((part, event.clone()));
            }
            Event::Connection(record) => {
                self.ended += 1;
                if let Some(error) = &record.error
                    && self.failures.len() < FAILURES
                {
                    self.failures.push(format!("{}: {error}", record.remote));
                }
            }
            _ => {}
        }
    }

    /// All events since the last call.
    pub fn take(&mut self) -> Feed {
        std::mem::take(self)
    }

    pub fn is_empty(&self) -> bool {
        self.told.is_empty() && self.ended == 0
    }

    /// True if a phase has begun to measure since.
    pub fn begins(&self) -> bool {
        self.told.iter().any(|(_, event)| matches!(event, Event::Start { .. }))
    }

    /// True if an interval has ended since.
    pub fn measured(&self) -> bool {
        self.told.iter().any(|(_, event)| matches!(event, Event::Interval(_)))
    }

    /// Leaves out the oldest interval: the others are still true without it.
    fn forget(&mut self) {
        let oldest = self.told.iter().position(|(_, event)| matches!(event, Event::Interval(_)));
        self.told.remove(oldest.unwrap_or(0));
        self.missed += 1;
    }
}
