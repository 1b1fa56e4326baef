//! Sessions of a server, as it sees them.

use crate::{Phase, Traffic};
use metrics::Wall;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use uuid::Uuid;

/// A session of a server at a moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Served {
    /// Its number on the server; 0 while it waits.
    pub number: u64,
    /// The client's end of the conversation: no two sessions at once have the same.
    pub peer: SocketAddr,
    /// Names the run on both ends.
    pub run: Uuid,
    /// The granted phase; the requested one, while it waits. `None` while unknown.
    pub phase: Option<Box<Phase>>,
    /// Its state.
    pub standing: Standing,
    /// Since when: asked for, granted, or begun. The server's wall clock.
    pub since: Wall,
    /// Traffic of the interval before; none at the end.
    pub latest: Traffic,
    /// Traffic since it began.
    pub total: Traffic,
    /// Data connections open.
    pub open: u64,
    /// Data connections established.
    pub opened: u64,
    /// Connections that ended in an error of any kind.
    pub errors: u64,
}

/// State of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Another session has to end first.
    Waiting,
    /// Granted and not begun.
    Granted,
    /// Payload may flow.
    Running,
    /// Ended in good order.
    Ended,
    /// Its client vanished, or was refused on the way.
    Lost,
}

impl Standing {
    /// True in a final state.
    pub fn is_over(self) -> bool {
        matches!(self, Standing::Ended | Standing::Lost)
    }
}

/// Open links of a server's worker. A worker's list replaces its previous one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Links {
    /// Which of the server's workers.
    pub worker: u32,
    /// When. The server's wall clock.
    pub at: Wall,
    /// Time from the worker's previous look to that, ns.
    pub ns: u64,
    /// Connections that are open, and senders of datagrams that were heard lately; not more than a
    /// few hundred.
    pub rows: Vec<LinkRow>,
    /// Connections that are open beside those.
    #[serde(default)]
    pub more: u64,
}

/// An open link, or a peer without a socket of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkRow {
    /// Our address.
    pub local: SocketAddr,
    /// The client's address.
    pub remote: SocketAddr,
    /// Since when. The server's wall clock.
    pub since: Wall,
    /// Payload bytes sent since then.
    pub tx_bytes: u64,
    /// Payload bytes received since then.
    pub rx_bytes: u64,
}
