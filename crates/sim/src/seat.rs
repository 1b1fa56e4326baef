//! Flows that a test looks into: they run on a worker, and count into a recorder of the test's.

use super::platform::lock;
use super::side::Side;
use metrics::{Ending, Group, Mono, Row};
use std::sync::{Arc, Mutex};
use transport::{
    Batch, Burst, Card, Cause, Cx, End, Flow, News, Open, Opener, Path, Read, Target, Violation, Want, When,
    Wrote,
};

/// The group that both ends count under.
pub(super) const GROUP: Group = Group(1);

/// A flow that does nothing.
pub(super) struct Absent;

impl Flow for Absent {
    fn want(&self) -> Want {
        Want { send: When::Never, read: Read::Pause, wake: None, end: None }
    }
    fn fill(&mut self, _: &mut Cx<'_>, _: &mut Burst<'_>) {}
    fn wrote(&mut self, _: &mut Cx<'_>, _: Wrote) {}
    fn take(&mut self, _: &mut Cx<'_>, _: &Batch<'_>, _: &mut Burst<'_>) -> Result<(), Violation> {
        Ok(())
    }
    fn hear(&mut self, _: &mut Cx<'_>, _: News) -> Result<(), Violation> {
        Ok(())
    }
    fn card(&self) -> Card {
        Card::default()
    }
}

/// What a flow has around it, shared by the worker that runs it and the test.
pub(super) struct Inside {
    pub(super) side: Side,
    pub(super) flow: Box<dyn Flow>,
    /// Its row in the worker's recorder.
    row: Option<Row>,
    pub(super) ended: Option<(Mono, Result<Ending, Cause>)>,
    pub(super) lifted: bool,
}

/// A flow as its worker has it.
#[derive(Clone)]
pub(super) struct Seat(pub(super) Arc<Mutex<Inside>>);

impl Seat {
    pub(super) fn new(side: Side, flow: Box<dyn Flow>) -> Self {
        Seat(Arc::new(Mutex::new(Inside { side, flow, row: None, ended: None, lifted: false })))
    }

    /// Calls the flow with the test's recorder, and with the worker's clock.
    fn call<T>(&self, cx: &mut Cx<'_>, what: impl FnOnce(&mut dyn Flow, &mut Cx<'_>) -> T) -> T {
        let Inside { side, flow, row, .. } = &mut *lock(&self.0);
        let Side { rec, post, rng, .. } = side;
        let result = what(&mut **flow, &mut Cx { now: cx.now, clock: cx.clock, rng, rec, post });
        if row.is_none() && flow.card().row.is_some() {
            *row = Some(cx.rec.open(GROUP, cx.now));
        }
        result
    }
}

impl Flow for Seat {
    fn want(&self) -> Want {
        let mut inside = lock(&self.0);
        let want = inside.flow.want();
        assert_eq!(want, inside.flow.want(), "want() must change nothing");
        inside.lifted |= want.end == Some(End::Lift);
        want
    }
    fn fill(&mut self, cx: &mut Cx<'_>, out: &mut Burst<'_>) {
        self.call(cx, |flow, cx| flow.fill(cx, out));
    }
    fn wrote(&mut self, cx: &mut Cx<'_>, n: Wrote) {
        self.call(cx, |flow, cx| flow.wrote(cx, n));
    }
    fn take(&mut self, cx: &mut Cx<'_>, got: &Batch<'_>, reply: &mut Burst<'_>) -> Result<(), Violation> {
        self.call(cx, |flow, cx| flow.take(cx, got, reply))
    }
    fn hear(&mut self, cx: &mut Cx<'_>, news: News) -> Result<(), Violation> {
        self.call(cx, |flow, cx| flow.hear(cx, news))
    }
    fn curious(&self) -> bool {
        lock(&self.0).flow.curious()
    }
    fn card(&self) -> Card {
        let inside = lock(&self.0);
        Card { row: inside.row, ..inside.flow.card() }
    }
}

/// Where a seat's flow comes from.
pub(super) enum Source {
    /// It connects to a target, by a connection or by datagrams, at an instant.
    Connects { target: Target, datagrams: bool, at: Mono },
    /// The next connection is its.
    Accepts,
    /// This makes it for a peer that knocks at a bound UDP socket.
    Knocked(Box<dyn Opener>),
}

/// Puts one flow to its socket.
pub(super) struct Usher {
    pub(super) seat: Seat,
    pub(super) source: Source,
    pub(super) used: bool,
}

impl Opener for Usher {
    fn open(&mut self, cx: &mut Cx<'_>) -> Open {
        match self.source {
            Source::Connects { at, .. } if cx.now < at => Open::At(at),
            Source::Connects { target, datagrams, .. } if !std::mem::replace(&mut self.used, true) => {
                let flow = Box::new(self.seat.clone());
                if datagrams { Open::Datagram(flow, target) } else { Open::Flow(flow, target) }
            }
            _ => Open::Done,
        }
    }

    fn accept(&mut self, _: &mut Cx<'_>, _: &Path) -> Option<Box<dyn Flow>> {
        let free = matches!(self.source, Source::Accepts) && !std::mem::replace(&mut self.used, true);
        free.then(|| Box::new(self.seat.clone()) as Box<dyn Flow>)
    }

    fn knock(&mut self, cx: &mut Cx<'_>, got: &Batch<'_>, reply: &mut Burst<'_>) -> Option<Box<dyn Flow>> {
        let Source::Knocked(opener) = &mut self.source else { return None };
        let inside = &mut *lock(&self.seat.0);
        let Side { rec, post, rng, .. } = &mut inside.side;
        let flow = opener.knock(&mut Cx { now: cx.now, clock: cx.clock, rng, rec, post }, got, reply)?;
        inside.flow = flow;
        Some(Box::new(self.seat.clone()))
    }

    fn closed(&mut self, cx: &mut Cx<'_>, _: Box<dyn Flow>, how: &Result<Ending, Cause>) {
        lock(&self.seat.0).ended = Some((cx.now, how.clone()));
    }

    fn stop(&mut self) {}
}
