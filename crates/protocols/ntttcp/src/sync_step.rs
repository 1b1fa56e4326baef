//! Steps of an ntttcp test that the original prints on its console.

use crate::NAME;
use model::Event;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncStep {
    /// A synchronisation connection is established.
    Connected {
        /// Local address.
        local: SocketAddr,
        /// Peer address.
        remote: SocketAddr,
    },
    /// A synchronisation connection is closed.
    Closed {
        /// Peer address.
        remote: SocketAddr,
    },
    /// Both ends agreed on the length of the cycle, warm-up and cool-down included; 0 is unlimited.
    Negotiated {
        /// Seconds.
        seconds: u32,
    },
    /// The sender waits for the last of several senders.
    WaitingForLast,
    /// A sender announced itself as the last of several at a receiver that serves one.
    NotMultiClient,
    /// The warm-up is over.
    WarmupDone,
    /// The measured part is over.
    MeasurementDone {
        /// Data is still sent until the end of the cycle.
        cooldown: bool,
    },
    /// The sender asked the receiver to stop.
    StoppedBySender,
    /// The cycle is over.
    CycleDone,
    /// The receiver confirmed the sender's stop.
    StopConfirmed,
    /// The user interrupted the test.
    Interrupted,
}

impl SyncStep {
    /// The step as an event.
    pub fn event(self) -> Event {
        Event::extra(NAME, &self)
    }

    /// The step in `event`, if it has one.
    pub fn of(event: &Event) -> Option<SyncStep> {
        event.extra_of(NAME)
    }
}
