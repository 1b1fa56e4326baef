//! What opens the data connections, and what answers them.

use super::Layout;
use super::udp::Books;
use crate::bulk::{Filler, Marks, Params, Pourer, Receiver, Sender};
use crate::native::Fence;
use crate::solo::{Answers, Calls};
use metrics::{Ending, Mono};
use model::{Kind, Phase};
use seam::{
    Batch, Burst, Card, Cause, Cx, End, Flow, News, Open, Opener, Path, Read, Target, Violation, Want, When,
    Wrote,
};
use std::collections::{HashSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A client's openers without a conversation, for plain streams to one port.
#[must_use]
pub fn callers(phase: &Phase, calls: &Calls) -> Vec<Box<dyn Opener>> {
    if phase.kind == Kind::Tcp {
        return crate::bulk::callers(phase, calls, Filler::LetterA);
    }
    crate::bulk::pourers(phase, calls, Filler::LetterB, Marks::None)
}

/// A server's openers without a conversation.
#[must_use]
pub fn answerers(phase: &Phase, answers: &Answers) -> Vec<Box<dyn Opener>> {
    crate::bulk::answerers(phase, answers, Filler::LetterA)
}

/// Posted when a data connection could not be had, or has failed.
pub(super) struct Lost(pub(super) String);

/// Posted when no data connection is left.
pub(super) struct Empty {
    /// When the last that counts came, where the connections do not tell it themselves.
    pub(super) last: Mono,
}

/// Makes a sender's connections, each once.
pub(super) struct Dialer {
    params: Arc<Params>,
    slots: VecDeque<u32>,
    to: Arc<Vec<IpAddr>>,
    from: Option<SocketAddr>,
    layout: Layout,
}

impl Dialer {
    /// One per worker; `from` is our address and the first of our ports, 0 leaves them to the system.
    pub(super) fn for_all(
        params: &Arc<Params>,
        layout: Layout,
        to: &Arc<Vec<IpAddr>>,
        from: Option<SocketAddr>,
        workers: u16,
    ) -> Vec<Box<dyn Opener>> {
        let workers = workers.max(1);
        let one = |worker: u16| {
            let slots = (u32::from(worker)..layout.all()).step_by(usize::from(workers)).collect();
            let (params, to) = (Arc::clone(params), Arc::clone(to));
            Box::new(Dialer { params, slots, to, from, layout }) as Box<dyn Opener>
        };
        (0..workers).map(one).collect()
    }
}

impl Opener for Dialer {
    fn open(&mut self, _: &mut Cx<'_>) -> Open {
        let Some(slot) = self.slots.pop_front() else { return Open::Done };
        let Some(to) = self.layout.address(&self.to, self.layout.port_of(slot)) else { return Open::Done };
        let from = self.from.map(|from| match (from.port(), u16::try_from(slot)) {
            (0, _) | (_, Err(_)) => SocketAddr::new(from.ip(), 0),
            (first, Ok(slot)) => SocketAddr::new(from.ip(), first.saturating_add(slot)),
        });
        let (params, target) = (Arc::clone(&self.params), Target { to, from });
        if self.layout.udp {
            Open::Datagram(Box::new(Pourer::new(params, Marks::None, slot)), target)
        } else {
            Open::Flow(Box::new(Sender::new(params, slot)), target)
        }
    }

    fn closed(&mut self, cx: &mut Cx<'_>, _: Box<dyn Flow>, how: &Result<Ending, Cause>) {
        if let Err(cause) = how {
            cx.post.push(Box::new(Lost(cause.to_string())));
        }
    }

    fn stop(&mut self) {
        self.slots.clear();
    }
}

/// What a receiver's workers share.
pub(super) struct House {
    pub(super) params: Arc<Params>,
    pub(super) layout: Layout,
    pub(super) fence: Fence,
    /// Whose datagrams are believed without proof.
    pub(super) streams: Fence,
    /// Whose are, because they talk to us.
    pub(super) proven: Mutex<HashSet<IpAddr>>,
    /// Data connections that are open; with datagrams, workers to which some come.
    pub(super) open: AtomicU64,
}

impl House {
    /// Without a conversation, the first connection begins the test.
    pub(super) fn begin(&self, now: Mono) {
        let table = &self.params.table;
        if !self.layout.sync && !self.layout.token && table.from().is_none() {
            let (from, to, quiet) = self.layout.times(now, self.layout.cycle_s());
            table.set(from, to, quiet);
        }
    }
}

/// Answers a receiver's connections on one worker, and hears its datagrams.
pub(super) struct Answerer {
    house: Arc<House>,
    books: Books,
}

impl Answerer {
    pub(super) fn new(house: &Arc<House>) -> Self {
        Answerer { house: Arc::clone(house), books: Books::new(Arc::clone(house)) }
    }
}

impl Opener for Answerer {
    fn open(&mut self, _: &mut Cx<'_>) -> Open {
        Open::Idle
    }

    fn accept(&mut self, cx: &mut Cx<'_>, path: &Path) -> Option<Box<dyn Flow>> {
        if !self.house.fence.admits(path.peer.ip()) {
            return None;
        }
        if self.house.layout.talks(path.local.port()) {
            return Some(Box::new(Lifted));
        }
        self.house.begin(cx.now);
        self.house.open.fetch_add(1, Ordering::Relaxed);
        Some(Box::new(Receiver::new(Arc::clone(&self.house.params))))
    }

    fn knock(&mut self, cx: &mut Cx<'_>, got: &Batch<'_>, _: &mut Burst<'_>) -> Option<Box<dyn Flow>> {
        if self.house.layout.udp {
            self.books.enter(cx, got);
        }
        None
    }

    fn tend(&mut self, cx: &mut Cx<'_>) -> Option<Mono> {
        self.books.tend(cx)
    }

    fn closed(&mut self, cx: &mut Cx<'_>, flow: Box<dyn Flow>, _: &Result<Ending, Cause>) {
        if flow.card().row.is_some() && self.house.open.fetch_sub(1, Ordering::Relaxed) == 1 {
            cx.post.push(Box::new(Empty { last: Mono(0) }));
        }
    }

    fn stop(&mut self) {
        self.books.close();
    }
}

/// A connection of the conversation, on its way to the session.
struct Lifted;

impl Flow for Lifted {
    fn want(&self) -> Want {
        Want { send: When::Never, read: Read::Pause, wake: None, end: Some(End::Lift) }
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
