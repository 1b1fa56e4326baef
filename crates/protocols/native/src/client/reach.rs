//! Checks that datagrams get through, before a phase that sends them: many firewalls let TCP
//! through and drop UDP.
//!
//! ```text
//! client                                   server
//!   hello (UDP), again until answered ────▶  bound socket
//!   ◀──────────────────────── answer (UDP)   the phase is proposed
//!
//!   no answer within LIMIT:
//!   ping (control connection) ────────────▶
//!   ◀───────────── pong (control connection) TCP works and UDP does not: the server is left out
//! ```
//!
//! Some 1,400 hellos ([`mod@crate::hello`]) fit into [`LIMIT`]. Of a path that loses nine datagrams
//! in ten each way one hello in a hundred is answered, so that all remain unanswered once in a
//! million runs; a path that loses nine in ten one way is never taken for blocked. A server whose
//! workers are busy has as long to answer.

use super::{Client, RunServer, Stage, Step};
use crate::hello::{hello, is_answer};
use crate::round_robin::local_address;
use crate::udp::Posted;
use metrics::{Clamped, Ending, Group, Mono, SECOND};
use model::{Kind, Phase, Transport};
use transport::{
    Cause, Checked, Connector, Context, End, Flow, FlowEvent, FlowId, GroupPlan, Interest, LinkSource, Open,
    Order, Read, Received, Sent, Target, Transmit, When,
};
use uuid::Uuid;

/// The group of the flows that send hellos.
pub(super) const REACH: Group = Group(2);
/// Limit for an answer to hellos, in addition to [`TRIPS`] round trips, ns.
const LIMIT: u64 = 5 * SECOND / 2;
/// Time between the first two hellos, ns; doubled from one to the next while an answer may be under
/// way.
const FIRST_GAP: u64 = SECOND / 10;
/// Time beyond [`TRIPS`] round trips in which an answer may be under way, ns.
const FIRST: u64 = 3 * SECOND / 10;
/// Round trips of the control connection, whose messages are shorter, for one of a hello and others
/// that wait before it.
const TRIPS: u64 = 8;
/// Time between two hellos afterwards, ns.
const GAP: u64 = 1_500_000;
/// Why a server is left out.
pub(super) const BLOCKED: &str = "no UDP datagram comes back although TCP works: is a firewall in the way?";

/// State of the check that datagrams reach the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Hellos are still to be sent.
    Unknown,
    /// Hellos are being sent.
    Asking,
    /// Every server has answered or was left out; the sockets are being closed.
    Closing,
    /// The phase may be proposed.
    Known,
}

impl Reach {
    /// State before `phase` is proposed: a phase over TCP needs no hello.
    pub(super) fn before(phase: &Phase) -> Self {
        let pings = phase.ping.as_ref().is_some_and(|ping| ping.transport == Transport::Udp);
        let datagrams =
            phase.probe.is_some() || phase.capacity.is_some() || (phase.kind == Kind::Ping && pings);
        if datagrams { Reach::Unknown } else { Reach::Known }
    }
}

/// Limit for an answer to the hellos of a server with this round trip, ns.
pub(super) fn limit(rtt: u64) -> u64 {
    LIMIT.saturating_add(rtt.saturating_mul(TRIPS))
}

impl Client {
    /// All servers that are there know their round trip: their datagrams are looked at, and then
    /// the phase is proposed.
    pub(super) fn look_at_datagrams(&mut self, now: Mono) {
        match self.reach {
            Reach::Unknown => self.say_hello(now),
            Reach::Asking => {
                self.reach = Reach::Closing;
                self.driver.order(REACH, Order::Stop);
                self.driver.order(REACH, Order::Drop);
            }
            Reach::Closing => {}
            Reach::Known => self.propose_all(now),
        }
    }

    fn say_hello(&mut self, now: Mono) {
        let config = &self.plan.config;
        let ask = |(at, server): (usize, &RunServer)| {
            let to = server.peer.address;
            // A firewall may know the ports that the user has chosen, and no others.
            let port = config.ports.map(|(low, high)| low.saturating_add(at as u16).min(high));
            let from = local_address(&config.sources, 0, port, to);
            Ask {
                at,
                target: Target { to, from },
                gap: FIRST_GAP.max(2 * server.base_rtt),
                first: FIRST.saturating_add(TRIPS * server.base_rtt),
            }
        };
        let there = self.servers.iter().enumerate().filter(|(_, server)| server.step != Step::Over);
        let asks = there.map(ask).collect();
        let sockets = self.plan.phase.sockets.clone();
        let plan = GroupPlan { sockets, ..GroupPlan::new(REACH, now, 3_600 * SECOND) };
        self.driver.group(plan, vec![LinkSource::Connector(Box::new(Hellos { asks }))]);
        self.reach = Reach::Asking;
        for at in self.servers_in(|step| step != Step::Over) {
            self.enter(at, Step::Reaching, now);
        }
    }

    /// A server's hellos are answered.
    pub(super) fn on_hello_answered(&mut self, at: usize, now: Mono) {
        if matches!(self.servers.get(at).map(|s| s.step), Some(Step::Reaching | Step::Unreached)) {
            self.enter(at, Step::Measured, now);
            self.advance(now);
        }
    }

    /// The sockets that sent hellos are closed.
    pub(super) fn reached(&mut self, now: Mono) {
        self.reach = Reach::Known;
        if self.stage == Stage::Agreeing {
            self.advance(now);
        }
    }
}

/// A server to which hellos are sent, by its place in the plan.
#[derive(Clone, Copy, Debug)]
struct Ask {
    at: usize,
    target: Target,
    /// Time between the first two hellos, ns.
    gap: u64,
    /// Time in which the first answer may be under way, ns.
    first: u64,
}

/// Opens a flow for each server.
struct Hellos {
    asks: Vec<Ask>,
}

impl Connector for Hellos {
    fn open(&mut self, cx: &mut Context<'_>) -> Open {
        let Some(ask) = self.asks.pop() else { return Open::Done };
        let flow = Hello {
            ask,
            id: cx.rng.uuid(),
            dense: cx.now.plus(ask.first),
            next: cx.now,
            offered: false,
            over: None,
        };
        Open::Datagram(Box::new(flow), ask.target)
    }

    fn on_closed(&mut self, cx: &mut Context<'_>, flow: Box<dyn Flow>, how: &Result<Ending, Cause>) {
        if how.is_err() {
            // No socket could be opened: the flows of the phase will fail for the same reason.
            cx.post(Posted::Answered(usize::clamped(flow.id().slot)));
        }
    }

    fn stop(&mut self) {
        self.asks.clear();
    }
}

/// Sends hellos until one is answered.
struct Hello {
    ask: Ask,
    id: Uuid,
    /// From then on hellos follow each other closely.
    dense: Mono,
    next: Mono,
    offered: bool,
    over: Option<Ending>,
}

impl Flow for Hello {
    fn interest(&self) -> Interest {
        let end = self.over.map(|how| End::Done { how, reset: false });
        let send = if end.is_some() { When::Never } else { When::At(self.next) };
        Interest { send, read: Read::look(65_535), wake: None, end }
    }

    fn prepare_send(&mut self, _: &mut Context<'_>, out: &mut Transmit<'_>) {
        self.offered = out.whole(&hello(self.id));
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        if std::mem::take(&mut self.offered) && (n.bytes > 0 || n.fault.is_some()) {
            self.next = cx.now.plus(if cx.now < self.dense { self.ask.gap } else { GAP });
            self.ask.gap = self.ask.gap.saturating_mul(2);
        }
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        if self.over.is_none() && got.datagrams().any(|datagram| is_answer(datagram, self.id)) {
            self.over = Some(Ending::Completed);
            cx.post(Posted::Answered(self.ask.at));
        }
        Ok(())
    }

    fn on_event(&mut self, _: &mut Context<'_>, event: FlowEvent) -> Checked {
        if let FlowEvent::Stop = event {
            self.over.get_or_insert(Ending::Stopped);
        }
        Ok(())
    }

    fn id(&self) -> FlowId {
        FlowId { row: None, id: self.id, slot: u32::clamped(self.ask.at) }
    }
}
