//! Messages between a worker and the control thread.

use super::GroupState;
use crate::link::Socket;
use metrics::{Group, Mono, Tally, Wall};
use model::{ConnectionRecord, Effective, LinkRow};
use transport::{Flow, Message, Path, Platform};

pub(crate) enum Command<P: Platform> {
    Group(Box<GroupState>),
    /// Its intervals begin, and its links are told.
    Start(Group, Mono),
    /// Its links say how they stand.
    Ask(Group, u32),
    /// Its last interval ends, and its links say how they stand.
    Freeze(Group, u32),
    /// Its links end in good order.
    Stop(Group),
    /// Its links are aborted.
    Kill(Group),
    Drop(Group),
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
