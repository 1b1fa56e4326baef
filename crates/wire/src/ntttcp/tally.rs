//! What both sessions do alike: intervals, the end of a group, totals.

use crate::Run;
use crate::counted::Intervals;
use crate::solo::{GROUP, Portion};
use metrics::{Mono, Tally};
use model::{Event, Phase, Status, Totals};
use seam::Action;
use std::collections::VecDeque;

/// The telling part of a session.
pub(super) struct Telling {
    pub(super) actions: VecDeque<Action<Run>>,
    intervals: Option<Intervals>,
    phase: Phase,
    /// When what counts began, once that is known.
    pub(super) from: Option<Mono>,
    /// When the last payload that counts moved.
    pub(super) last: Mono,
    bytes: (u64, u64),
    pub(super) status: Status,
    pub(super) reason: Option<String>,
}

impl Telling {
    pub(super) fn new(phase: Phase) -> Self {
        Telling {
            actions: VecDeque::new(),
            intervals: None,
            phase,
            from: None,
            last: Mono(0),
            bytes: (0, 0),
            status: Status::Complete,
            reason: None,
        }
    }

    pub(super) fn emit(&mut self, event: Event) {
        self.actions.push_back(Action::Emit(event));
    }

    /// What counts begins at `from`.
    pub(super) fn begin(&mut self, from: Mono, clock: &metrics::Clock) {
        if self.from.is_none() {
            (self.from, self.last) = (Some(from), from);
            self.intervals = Some(Intervals::new(from, 0, &self.phase));
            self.emit(Event::Start { at: clock.wall(from) });
        }
    }

    /// An interval, as far as it lies within what counts.
    pub(super) fn interval(&mut self, index: u32, from: Mono, to: Mono, end: Mono, tally: &Tally) {
        let (Some(begun), Some(intervals)) = (self.from, &mut self.intervals) else { return };
        let (from, to) = (from.max(begun), to.min(end));
        if from < to {
            let interval = intervals.next(index, from, to, tally);
            self.actions.push_back(Action::Emit(Event::Interval(Box::new(interval))));
        }
    }

    /// What one connection has moved.
    pub(super) fn portion(&mut self, portion: Portion) {
        let Some(from) = self.from else { return };
        self.bytes.0 += portion.tx_bytes;
        self.bytes.1 += portion.rx_bytes;
        if portion.tx_bytes + portion.rx_bytes > 0 {
            self.last = self.last.max(portion.to);
        }
        self.emit(portion.told(from));
    }

    pub(super) fn fail(&mut self, why: impl Into<String>) {
        if self.status == Status::Complete {
            (self.status, self.reason) = (Status::Failed, Some(why.into()));
        }
    }

    /// All is over: the totals, of what counts and no more, and the end. `to` is when counting ended.
    pub(super) fn finish(&mut self, totals: Option<Box<Totals>>, to: Mono) {
        if let Some(mut totals) = totals.filter(|_| self.from.is_some()) {
            let ns = to.since(self.from.unwrap_or(to));
            totals.traffic = model::Traffic { tx_bytes: self.bytes.0, rx_bytes: self.bytes.1, ns };
            totals.receive = self.phase.verify.receive().to_owned();
            totals.packets = None;
            totals.pings = None;
            self.emit(Event::Near(totals));
        }
        let (status, reason) = (self.status, self.reason.take());
        self.emit(Event::PhaseEnd { status, reason });
        self.actions.push_back(Action::Done);
    }

    pub(super) fn group(
        &self,
        openers: Vec<Box<dyn seam::Opener>>,
        group: metrics::Group,
        now: Mono,
    ) -> Action<Run> {
        Action::Group(Box::new(seam::GroupPlan {
            group,
            openers,
            sockets: if group == GROUP {
                self.phase.sockets.clone()
            } else {
                model::SocketSettings::default()
            },
            throttle: self.phase.throttle,
            connect_timeout: self.phase.connect_timeout_ns,
            start: now,
            interval: self.phase.interval_ns,
            end: None,
            omit: 0,
            records: true,
            beside: None,
            info: !self.phase.kind.probes(),
            frames: false,
            packets: self.phase.kind.probes(),
            wait: seam::Wait::Block,
        }))
    }
}
