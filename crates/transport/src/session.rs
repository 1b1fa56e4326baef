//! The conversation: negotiation, start and stop, results. Sessions run on the control thread.

use crate::{Allowance, Context, End, Fault, LinkSource, Message, Path, Target};
use metrics::{Group, Mono, Tally};
use model::{Event, Kind, Phase, SocketSettings, Totals};
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

/// A control link, as the control thread numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Link(pub u64);

/// A session's name for a requested thing, before it has a [`Link`].
pub type Key = u32;

/// A group's way of waiting for due times and sockets. The most eager policy of its groups is the
/// worker's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// Sleep in the reactor: costs nothing, and a send leaves some tens of microseconds late.
    #[default]
    Block,
    /// Sleep in the receive call of the only link, as long as nothing else is due soon: one call
    /// less for each message, and a new connection is seen some milliseconds later.
    Receive,
    /// Sleep until shortly before a due time, by a margin that is learned, and spin from there.
    Hybrid,
    /// Never sleep: a core for a worker, and arrivals are found within a microsecond.
    Spin,
}

/// A group of links on the workers, and how they are watched.
// Wide: each member has a default, and a session sets few of them.
#[derive(Clone, Debug, Default)]
pub struct GroupPlan {
    /// Its number.
    pub group: Group,
    /// The workers that it is on, by their index; all of them without it.
    pub workers: Option<Range<u16>>,
    /// Socket options of its links.
    pub sockets: SocketSettings,
    /// Links that may be connecting at once, per worker.
    pub throttle: u32,
    /// True if a link counts as connecting until the peer has sent something, and not only until
    /// the kernel has connected it: the kernel connects to a listener whose program is far behind.
    pub until_heard: bool,
    /// Longest time of a connect, ns.
    pub connect_timeout: u64,
    /// When its first interval begins; what ends before does not count. [`WHEN_TOLD`] leaves it to
    /// [`Order::Start`].
    pub start: Mono,
    /// Length of an interval, ns.
    pub interval: u64,
    /// When measuring ends by the clock: the last interval is cut there, and what moves later does
    /// not count.
    pub end: Option<Mono>,
    /// True if its links end by themselves after `end`, once the payload on its way has arrived:
    /// the last interval is not cut at `end`, but reaches to the last payload.
    pub tail: bool,
    /// Omitted time at the start, ns; rounded up to whole intervals.
    pub omit: u64,
    /// True if every ended connection is reported, or only failed ones.
    pub records: bool,
    /// The server's worker that has the first connection, where both ends are on one host: it pays
    /// that a connection has the same core at both.
    pub beside: Option<u32>,
    /// True if the kernel's TCP_INFO is wanted of every connection when it ends.
    pub info: bool,
    /// True if its links are media streams, whose frames are reported.
    pub frames: bool,
    /// True if its links count datagrams, so that the memory for their distributions is made before
    /// the first.
    pub packets: bool,
    /// Its workers' way of waiting.
    pub wait: Wait,
    /// Its concurrent connections, where their number is known: connections of a worker process
    /// that ends count as failed.
    pub slots: u32,
    /// Address of a peer and the links that it was promised: while they have proved nothing, they
    /// have places beside the strangers.
    pub promised: Option<(IpAddr, u32)>,
    /// The shared allowance of its accepted links.
    pub allowance: Option<Arc<Allowance>>,
    /// Serialised plan for worker processes; `None` if the group has none.
    pub about: Option<Arc<[u8]>>,
}

/// A worker process's part of a group: the `index`-th of `count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// From 0.
    pub index: u32,
    /// All parts.
    pub of: u32,
}

/// A session in a worker process: makes the links of a group from the session's description of it.
pub trait Replica: Send {
    /// A group begins: its plan, and the sources of its links on each of `workers` workers. `None`
    /// when `about` is malformed, and nothing begins.
    fn group(&mut self, part: Part, workers: u16, about: &[u8]) -> Option<(GroupPlan, Vec<LinkSource>)>;
    /// A group is given an order, which its workers follow afterwards.
    fn order(&mut self, group: Group, order: Order);
}

impl GroupPlan {
    /// A group of no links of its own, whose intervals begin at `start` and last `interval` ns:
    /// nothing else is asked for.
    pub fn new(group: Group, start: Mono, interval: u64) -> Self {
        GroupPlan { group, start, interval, ..GroupPlan::default() }
    }

    /// The same for the links of `phase`: their options, their connects, their end, and their
    /// counts.
    pub fn of(phase: &Phase, group: Group, start: Mono) -> Self {
        GroupPlan {
            sockets: phase.sockets.clone(),
            slots: phase.connections,
            throttle: phase.throttle,
            connect_timeout: phase.connect_timeout_ns,
            end: phase.ends_after().map(|ns| start.plus(ns)),
            omit: phase.omit_ns,
            info: phase.kind == Kind::Tcp,
            frames: phase.kind == Kind::Stream,
            packets: matches!(
                phase.kind,
                Kind::Stream | Kind::Ping | Kind::Delay | Kind::Train | Kind::Capacity
            ),
            ..GroupPlan::new(group, start, phase.interval_ns)
        }
    }
}

/// The start of a group whose session will name the instant: its links are opened first.
pub const WHEN_TOLD: Mono = Mono(u64::MAX);

/// Orders to a group. Times are absolute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Its intervals begin at this instant, and its links get `FlowEvent::Start`. To be given once,
    /// to a group that was planned to start [`WHEN_TOLD`].
    Start(Mono),
    /// Its links get `FlowEvent::Ask` with this tag, and post a message with their counts.
    Ask(u32),
    /// The measurement ends: the last interval is cut, and its links get `FlowEvent::Freeze` with
    /// this tag. Its links stay as they are until `Stop`.
    Freeze(u32),
    /// Open no more links and end the open ones in good order.
    Stop,
    /// Abort the links that have not ended since `Stop`.
    Kill,
    /// Forget the group; its totals follow as `Input::Dropped`. Open links are aborted: after
    /// `Stop` as by `Kill`, else as failed, because their session is gone.
    Drop,
}

/// Input of a session.
pub enum Input<'a> {
    /// A control link is up: the one asked for under this key, or one that a worker detached (no
    /// key).
    Up(Link, Path, Option<Key>),
    /// A control link asked for could not be had.
    Refused(Key, Fault),
    /// Bytes on a control link.
    Bytes(Link, &'a [u8]),
    /// A control link is gone; with the reason, unless the peer closed it in order.
    Down(Link, Option<Fault>),
    /// A message that a flow, connector or acceptor posted.
    Message(Message),
    /// All worker processes that have a group know it.
    Begun(Group),
    /// Counts of a group in an interval, summed over the workers.
    Tally {
        /// The group.
        group: Group,
        /// The interval's number, from 0.
        index: u32,
        /// When it began.
        from: Mono,
        /// When it ended.
        to: Mono,
        /// The counts.
        tally: &'a Tally,
    },
    /// A group has no links left and will open no more.
    Idle(Group),
    /// A group was dropped, with these totals.
    Dropped(Group, Box<Totals>),
    /// A limit of this server ends the links of a group, and which.
    Limited(Group, &'a str),
    /// A worker process died; the engine has filled in its missing reports.
    Lost(Range<u16>),
    /// The deadline is reached.
    Wake,
    /// The measurement is long enough: it ends as it would when its time is over.
    Finish,
    /// The user or the system asks to end: the first time in good order.
    Stop,
}

/// Requests of a session.
pub enum Action {
    /// A control link.
    Connect(Key, Target),
    /// Bytes for a control link; queued, bounded by the machine.
    Send(Link, Vec<u8>),
    /// End a control link after its queued bytes have been sent.
    Close(Link, End),
    /// Start a group on the workers, with the source of its links on each of them, in their order;
    /// empty when another group's acceptors make the links.
    Group(Box<GroupPlan>, Vec<LinkSource>),
    /// Give a group an order.
    Order(Group, Order),
    /// Give the reporters an event.
    Emit(Event),
    /// The session is over.
    Done,
}

impl From<Event> for Action {
    fn from(event: Event) -> Self {
        Action::Emit(event)
    }
}

/// One side of the conversation.
pub trait Session: Send {
    /// Something happened.
    fn handle(&mut self, cx: &mut Context<'_>, input: Input<'_>);
    /// The next thing to do, until there is none.
    fn poll(&mut self, cx: &mut Context<'_>) -> Option<Action>;
    /// When to be woken at the latest.
    fn deadline(&self) -> Option<Mono>;
}
