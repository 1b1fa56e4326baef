//! Common parts of both sessions: the begin of the measured time, intervals, the end of a group,
//! totals.

use crate::bulk::Timetable;
use crate::one_sided::GROUP;
use crate::{NAME, SyncStep};
use common::driver::Driver;
use common::message::since;
use metrics::{Group, Mono, Tally};
use model::ending::JudgedPhase;
use model::{Event, Level, Phase, Portion, SocketSettings, Totals, Traffic};
use std::collections::VecDeque;
use std::sync::Arc;
use transport::{Context, GroupPlan, LinkSource};

/// The reporting part of a session.
pub(super) struct Reporting {
    pub(super) driver: Driver,
    phase: Phase,
    pub(super) table: Arc<Timetable>,
    /// When what counts began, once that is known.
    pub(super) from: Option<Mono>,
    /// When the last payload that counts moved.
    pub(super) last: Mono,
    /// Payload bytes sent and received by the connections that have reported.
    pub(super) bytes: (u64, u64),
    /// Connections that moved payload which counts.
    pub(super) carried: u64,
    /// Steps to report, each at its time, in order.
    due: VecDeque<(Mono, SyncStep)>,
}

impl Reporting {
    pub(super) fn new(phase: Phase, table: Arc<Timetable>) -> Self {
        Reporting {
            driver: Driver::new(Mono(0), 0, &phase),
            phase,
            table,
            from: None,
            last: Mono(0),
            bytes: (0, 0),
            carried: 0,
            due: VecDeque::new(),
        }
    }

    pub(super) fn step(&mut self, step: SyncStep) {
        self.driver.ask(step.event());
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

    /// Begins what counts, once the timetable is set, and schedules the ends of warm-up and
    /// measurement; whether it is set.
    pub(super) fn begin(&mut self, cx: &Context<'_>) -> bool {
        let Some(from) = self.table.from() else { return false };
        if self.from.is_none() {
            (self.from, self.last) = (Some(from), from);
            self.driver.count_from(from, 0, &self.phase);
            self.driver.ask(Event::Start { at: cx.clock.wall(from) });
            let (to, quiet) = (self.table.to(), self.table.quiet());
            let warm = (from > cx.now).then_some((from, SyncStep::WarmupDone));
            let measured =
                (to.0 < u64::MAX).then_some((to, SyncStep::MeasurementDone { cooldown: to < quiet }));
            self.due = warm.into_iter().chain(measured).collect();
        }
        true
    }

    /// Reports the part of an interval that lies within the measured time.
    pub(super) fn interval(&mut self, index: u32, from: Mono, to: Mono, tally: &Tally) {
        let Some(begun) = self.from else { return };
        let (from, to) = (from.max(begun), to.min(self.table.to()));
        if from < to {
            self.driver.interval(index, from, to, tally);
        }
    }

    /// Adds the traffic of one connection.
    pub(super) fn portion(&mut self, portion: Box<Portion>) {
        let Some(from) = self.from else { return };
        self.bytes.0 += portion.tx_bytes;
        self.bytes.1 += portion.rx_bytes;
        if portion.tx_bytes + portion.rx_bytes > 0 {
            self.last = self.last.max(Mono(portion.to_ns));
            self.carried += 1;
        }
        self.driver.ask(since(Event::Portion(portion), from));
    }

    /// All is over: the totals, of what counts and no more, and the end.
    pub(super) fn finish(&mut self, serving: bool, totals: Option<Box<Totals>>) {
        if let Some(here) = totals.as_ref().and_then(|totals| totals.drops_here()) {
            self.driver.notice(Level::Warning, here);
        }
        let local = totals.zip(self.from).map(|(mut totals, from)| {
            let ns = self.table.to().since(from);
            totals.traffic =
                Traffic { tx_bytes: self.bytes.0, rx_bytes: self.bytes.1, ns, ..Traffic::default() };
            totals.receive = self.phase.verify.receive().to_owned();
            (totals.packets, totals.pings) = (None, None);
            totals
        });
        let asked = JudgedPhase { phase: &self.phase, protocol: NAME, needs_report: false };
        self.driver.finish(Some(asked).filter(|_| !serving), local);
    }

    /// Asks for a group of these links. Only the measured ones have the socket options of the run.
    pub(super) fn group(&mut self, sources: Vec<LinkSource>, group: Group, now: Mono) {
        let mut plan = GroupPlan::of(&self.phase, group, now);
        if group != GROUP {
            plan.sockets = SocketSettings::default();
        }
        self.driver.group(GroupPlan { end: None, omit: 0, records: true, ..plan }, sources);
    }
}
