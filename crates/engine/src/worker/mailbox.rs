//! Messages between a worker and the control thread.

use super::GroupState;
use crate::link::{ServerPlace, Socket};
use metrics::{Group, Tally, Wall};
use model::{Finding, LinkRow};
use transport::{Flow, Message, Order, Path, Platform};

pub(crate) enum Command<P: Platform> {
    Group(Box<GroupState>),
    Order(Group, Order),
    /// A link from another worker.
    Adopt {
        socket: Socket<P>,
        path: Path,
        flow: Box<dyn Flow>,
        place: Option<ServerPlace>,
    },
    /// A warm tally for a later interval.
    Spare(Box<Tally>),
    Quit,
}

pub(crate) enum Report<P: Platform> {
    Found(Finding),
    Message(Message),
    /// Number of peers without a proof that gave way to newer ones, or were turned away.
    Crowded(u64),
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
}

impl<P: Platform> From<Finding> for Report<P> {
    fn from(finding: Finding) -> Self {
        Report::Found(finding)
    }
}
