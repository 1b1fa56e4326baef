//! A responder's notes of each message, on request: the time of reading, the time between two, the
//! kernel's figures of the connection.

use crate::{PacketTestPut, PacketTestSettings};
use metrics::{Binned, Mono, SocketState};
use std::sync::Arc;

/// Bins of both histograms, as the original has them.
const BINS: usize = 150;
/// Width of a bin of the times of reading, µs.
const READ_WIDTH: i64 = 20;

#[derive(Debug, Default)]
pub(super) struct Notes {
    asked: Arc<PacketTestSettings>,
    /// Times between the ends of two messages, and times of reading, µs.
    pub(super) histograms: Vec<Binned>,
    pub(super) puts: Vec<PacketTestPut>,
    messages: u64,
    came: Mono,
    /// When the message before ended, and when reading this one was begun: behind the answers, if
    /// there were any.
    ended: Mono,
    begun: Mono,
    /// Receive calls of the message in work.
    pub(super) reads: u32,
    /// The kernel's figures are read before more bytes.
    pub(super) looks: bool,
    state: Option<SocketState>,
}

impl Notes {
    /// Notes by the settings of `asked`.
    pub(super) fn new(asked: Arc<PacketTestSettings>) -> Self {
        let between = || Binned::new(asked.low.into(), asked.bin_width.into(), BINS);
        let pair = || vec![between(), Binned::new(0, READ_WIDTH, BINS)];
        let histograms = asked.histograms.then(pair).unwrap_or_default();
        Notes { asked, histograms, ..Notes::default() }
    }

    pub(super) fn up(&mut self, now: Mono) {
        (self.came, self.ended) = (now, now);
        self.begin(now);
    }

    /// The next message may be read.
    pub(super) fn begin(&mut self, now: Mono) {
        (self.begun, self.reads) = (now, 0);
        self.looks = self.is_recorded();
    }

    /// The kernel's figures, in time for the next message.
    pub(super) fn state(&mut self, state: SocketState) {
        self.state = Some(state);
    }

    /// A data message was read to its end.
    pub(super) fn message(&mut self, now: Mono, bytes: u64) {
        let took_ns = now.since(self.begun);
        let us = [now.since(self.ended), took_ns].map(|ns| (ns / 1_000) as i64);
        self.histograms.iter_mut().zip(us).for_each(|(hist, us)| hist.fill(us));
        if self.is_recorded() {
            let (at_ns, socket) = (self.begun.since(self.came), self.state.take());
            self.puts.push(PacketTestPut { took_ns, at_ns, sends: self.reads, bytes, socket });
        }
        self.messages += 1;
        self.ended = now;
    }

    fn is_recorded(&self) -> bool {
        self.asked.is_recorded(self.messages)
    }
}
