//! Connections of a controller to the agents of its hosts: the same messages over different
//! carriers.

pub mod direct;
pub mod lines;
#[cfg(feature = "nats")]
pub mod nats;
pub mod ssh;

use crate::inventory::HostId;
use crate::message::{Of, Order, Report};
use crate::result::Reason;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Message from a host.
#[derive(Debug)]
pub enum Arrival {
    /// Its agent says this.
    Report(Box<Of<Report>>),
    /// Its agent is not reached, or not any more. The transport tries again where that can help.
    Lost {
        /// Why.
        reason: Reason,
        /// In a sentence.
        why: String,
        /// True if it tries again.
        retries: bool,
    },
}

/// A carrier of messages. Nothing here waits for a host: what cannot be sent at once is lost, and
/// the host with it.
pub trait Transport {
    /// Sends an order to a host's agent; a host that is not reached gets nothing.
    fn send(&mut self, host: HostId, order: &Of<Order>);
    /// Waits for arrivals, `wait` at most, and takes all pending ones.
    fn receive(&mut self, wait: Duration) -> Vec<(HostId, Arrival)>;
    /// Ends all connections. Messages sent before have some time to arrive.
    fn close(&mut self);
}

/// Waits for messages of a transport's threads, `wait` at most, and takes all pending ones.
fn arrived<T>(arrivals: &Receiver<T>, wait: Duration) -> Vec<T> {
    let first = arrivals.recv_timeout(wait);
    if matches!(first, Err(RecvTimeoutError::Disconnected)) {
        thread::sleep(wait);
    }
    first.into_iter().chain(arrivals.try_iter().take(10_000)).collect()
}
