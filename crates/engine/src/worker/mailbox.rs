//! Messages between a worker and the control thread.

use super::GroupState;
use crate::link::Socket;
use metrics::{Group, Mono, Tally, Wall};
use model::{ConnectionRecord, Effective, LinkRow};
use transport::{Flow, Message, Order, Path, Platform};

pub(crate) enum Command<P: Platform> {
    Group(Box<GroupState>),
    Order(Group, Order),
    /// A link from another worker.
    Adopt {
        socket: Socket<P>,
        path: Path,
        flow: Box<dyn Flow>,
    },
    /// A warm tally for an interval to come.
    Spare(Box<Tally>),
    Quit,
}

pub(crate) enum Report<P: Platform> {
    Tally {
        group: Group,
        index: u32,
        to: Mono,
        /// The group has ended here: `to` is when its last payload moved, not when the clock said so.
        last: bool,
        tally: Box<Tally>,
    },
    Ended(Vec<ConnectionRecord>),
    Idle(Group),
    Dropped {
        group: Group,
        tally: Box<Tally>,
        peak: u64,
        effective: Option<Effective>,
    },
    Message(Message),
    Detached {
        stream: P::Stream,
        path: Path,
    },
    /// List of open links, for pages and logs.
    Links {
        at: Wall,
        ns: u64,
        rows: Vec<LinkRow>,
        more: u64,
    },
    /// Something that the user should know.
    Trouble(String),
}
