//! Openers of a client's connections.

use crate::Settings;
use crate::keys::KeyFile;
use crate::one_sided::{Calls, GROUP};
use crate::report::keep;
use crate::setup::{ClientPlan, Handover, Place, SetupFlow};
use common::Servers;
use common::capacity::{Asked, LAST, Reports};
use common::round_robin::RoundRobin;
use metrics::{Clamped, Ending, SECOND};
use model::{Pattern, Phase};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock, PoisonError};
use transport::{Cause, Connector, Context, Flow, Open, Target};

/// A client's sources of links for `phase`: connections go to the servers in turn.
pub fn connectors(phase: &Phase, calls: &Calls) -> Vec<Box<dyn Connector>> {
    let settings = Settings::of(phase).unwrap_or_default();
    let upstream = phase.pattern == Pattern::Push;
    let key = calls.key.as_ref().map(|psk| {
        let keys = KeyFile::of(psk).unwrap_or_default();
        // An unknown number is no key: the server then refuses the client.
        keys.key(settings.key).unwrap_or_default().to_vec()
    });
    let count = phase.connections.max(1);
    let most = settings.test.fixed_row().unwrap_or(LAST);
    let asked = Asked {
        upstream,
        connections: usize::clamped(count),
        overhead: settings.test.overhead,
        planned: settings.test.sub_intervals(u64::from(settings.test_s) * SECOND),
        first_mode: settings.test.first_mode,
        most_bps: settings.table().row(most).rate_bps(),
    };
    // Reports are results of the original's tests.
    let reports = Reports::default().folded(asked);
    let reports = if phase.extra.is_some() { reports.passed(keep) } else { reports };
    let plan = Arc::new(ClientPlan {
        settings,
        upstream,
        count: u8::clamped(count),
        key,
        test: OnceLock::new(),
        group: GROUP,
        reports,
    });
    let workers = calls.workers.max(1);
    let one = |worker: u16| -> Box<dyn Connector> {
        Box::new(Dialer {
            plan: Arc::clone(&plan),
            servers: Arc::clone(&calls.servers),
            round_robin: RoundRobin::new(calls.sources.clone(), calls.ports, worker, workers),
            slots: (0..count).filter(|slot| slot % u32::from(workers) == u32::from(worker)).collect(),
            setups: BTreeMap::new(),
            ready: VecDeque::new(),
        })
    };
    (0..workers).map(one).collect()
}

/// Opens the connections of one worker: each at the control port, then at the port of its test.
struct Dialer {
    plan: Arc<ClientPlan>,
    servers: Arc<Servers>,
    round_robin: RoundRobin,
    /// Connections that have not begun.
    slots: VecDeque<u32>,
    /// Places of connections in their set-up.
    setups: BTreeMap<u32, Place>,
    /// Connections that go on.
    ready: VecDeque<Handover>,
}

impl Dialer {
    fn server(&self, slot: u32) -> usize {
        usize::clamped(slot).checked_rem(self.servers.count()).unwrap_or(0)
    }
}

impl Connector for Dialer {
    fn open(&mut self, _: &mut Context<'_>) -> Open {
        if let Some(Handover { flow, to, from }) = self.ready.pop_front() {
            return Open::Datagram(Box::new(flow), Target { to, from: Some(from) });
        }
        let Some(slot) = self.slots.pop_front() else {
            return if self.setups.is_empty() { Open::Done } else { Open::Idle };
        };
        let Some(to) = self.servers.address(self.server(slot)) else { return Open::Done };
        let place = Place::default();
        self.setups.insert(slot, Arc::clone(&place));
        let from = self.round_robin.next(to);
        let flow = SetupFlow::new(Arc::clone(&self.plan), slot, place);
        Open::Datagram(Box::new(flow), Target { to, from })
    }

    fn on_closed(&mut self, cx: &mut Context<'_>, flow: Box<dyn Flow>, how: &Result<Ending, Cause>) {
        let slot = flow.id().slot;
        if let Some(place) = self.setups.remove(&slot) {
            let next = place.lock().unwrap_or_else(PoisonError::into_inner).take();
            if how.is_ok() {
                self.ready.extend(next);
            }
        }
        if let Some(row) = flow.id().row {
            let (counts, _) = cx.rec.life(row);
            let completed = cx.rec.completed(row).is_some();
            self.servers.moved(self.server(slot), (counts.tx_bytes, counts.rx_bytes), completed);
        }
    }

    fn stop(&mut self) {
        self.slots.clear();
        self.ready.clear();
    }
}
