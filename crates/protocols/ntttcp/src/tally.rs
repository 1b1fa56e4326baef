//! What both sessions do alike: intervals, the end of a group, totals.

use crate::SyncStep;
use crate::counted::Intervals;
use crate::one_sided::{GROUP, Portion};
use metrics::{Mono, Tally};
use model::{Event, Phase, Status, Totals};
use std::collections::VecDeque;
use transport::Action;

/// The telling part of a session.
pub(super) struct Telling {
    pub(super) actions: VecDeque<Action>,
    intervals: Option<Intervals>,
    phase: Phase,
    /// When what counts began, once that is known.
    pub(super) from: Option<Mono>,
    /// When the last payload that counts moved.
    pub(super) last: Mono,
    bytes: (u64, u64),
    /// Steps to report, each at its time, in order.
    due: VecDeque<(Mono, SyncStep)>,
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
            due: VecDeque::new(),
            status: Status::Complete,
            reason: None,
        }
    }

    pub(super) fn emit(&mut self, event: Event) {
        self.actions.push_back(Action::Emit(event));
    }

    pub(super) fn step(&mut self, step: SyncStep) {
        self.emit(step.event());
    }

    /// Schedules the ends of warm-up (`from`) and measurement (`to`); senders stop at `quiet`.
    pub(super) fn schedule_steps(&mut self, now: Mono, (from, to, quiet): (Mono, Mono, Mono)) {
        let warm = (from > now).then_some((from, SyncStep::WarmupDone));
        let measured = (to.0 < u64::MAX).then_some((to, SyncStep::MeasurementDone { cooldown: to < quiet }));
        self.due = warm.into_iter().chain(measured).collect();
    }

    /// Reports the steps that are due.
    pub(super) fn emit_due(&mut self, now: Mono) {
        while let Some((_, step)) = self.due.pop_front_if(|(at, _)| *at <= now) {
            self.step(step);
        }
    }

    /// Time of the next scheduled step.
    pub(super) fn next_step(&self) -> Option<Mono> {
        self.due.front().map(|(at, _)| *at)
    }

    /// Reports the end of the cycle, and before it the end of a measurement that was cut short.
    pub(super) fn end_cycle(&mut self) {
        let early = self.due.drain(..).any(|(_, step)| matches!(step, SyncStep::MeasurementDone { .. }));
        if early {
            self.step(SyncStep::MeasurementDone { cooldown: false });
        }
        self.step(SyncStep::CycleDone);
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

    pub(super) fn portion(&mut self, portion: Portion) {
        let Some(from) = self.from else { return };
        self.bytes.0 += portion.tx_bytes;
        self.bytes.1 += portion.rx_bytes;
        if portion.tx_bytes + portion.rx_bytes > 0 {
            self.last = self.last.max(portion.to);
        }
        self.emit(portion.told(from));
    }

    /// Payload bytes sent by the connections that have reported.
    pub(super) fn sent(&self) -> u64 {
        self.bytes.0
    }

    pub(super) fn fail(&mut self, why: impl Into<String>) {
        if self.status == Status::Complete {
            (self.status, self.reason) = (Status::Failed, Some(why.into()));
        }
    }

    pub(super) fn cut_short(&mut self, why: String) {
        if self.status == Status::Complete {
            (self.status, self.reason) = (Status::Partial, Some(why));
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
            self.emit(Event::Local(totals));
        }
        let (status, reason) = (self.status, self.reason.take());
        self.emit(Event::PhaseEnd { status, reason });
        self.actions.push_back(Action::Done);
    }

    pub(super) fn group(
        &self,
        sources: Vec<transport::LinkSource>,
        group: metrics::Group,
        now: Mono,
    ) -> Action {
        Action::Group(Box::new(transport::GroupPlan {
            workers: None,
            group,
            sources,
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
            wait: transport::Wait::Block,
        }))
    }
}
