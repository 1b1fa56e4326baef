//! What a responder notes of each message, when it is asked to: how long reading took, what came between two, what the kernel
//! knew of the connection.

use crate::{PacketTestPut, PacketTestRecords, PacketTestSettings};
use metrics::{Binned, Mono, SocketState};

/// Bins of both histograms, as the original has them.
const BINS: usize = 150;
/// Width of a bin of the times of reading, µs.
const READ_WIDTH: i64 = 20;

/// What an end is asked to note of its messages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// Histograms (`-H`), with the lower edge and the width of the first, µs: a responder's of times between messages, a requester's of
    /// the times that messages take to be sent.
    pub histograms: Option<(i32, u32)>,
    /// Messages one by one (`-G`): so many are passed over, then so many are noted.
    pub records: Option<(u32, u32)>,
    /// Period of snapshots (`-i`), ns.
    pub every_ns: Option<u64>,
}

impl Wanted {
    /// What a test asks for.
    pub fn of(asked: &PacketTestSettings) -> Self {
        Wanted {
            histograms: asked.histograms.then_some((asked.low, asked.bin_width)),
            records: match asked.records {
                PacketTestRecords::Packets { skip, n } => Some((skip, n)),
                PacketTestRecords::None | PacketTestRecords::Lost { .. } => None,
            },
            every_ns: asked.every_ns,
        }
    }

    /// Whether message `n` is noted by itself.
    pub(super) fn is_recorded(&self, n: u64) -> bool {
        let Some((skip, most)) = self.records else { return false };
        let skip = u64::from(skip);
        (skip..skip + u64::from(most)).contains(&n)
    }
}

#[derive(Debug, Default)]
pub(super) struct Notes {
    wanted: Wanted,
    /// Times between the ends of two messages, and times of reading, µs.
    pub(super) histograms: Vec<Binned>,
    pub(super) puts: Vec<PacketTestPut>,
    messages: u64,
    came: Mono,
    /// When the message before ended, and when reading this one was begun: behind the answers, if there were any.
    ended: Mono,
    begun: Mono,
    /// Receive calls of the message in work.
    pub(super) reads: u32,
    /// It is looked what the kernel knows before more is read.
    pub(super) looks: bool,
    state: Option<SocketState>,
}

impl Notes {
    pub(super) fn new(wanted: &Wanted) -> Self {
        let pair = |(low, width): (i32, u32)| {
            vec![Binned::new(low.into(), width.into(), BINS), Binned::new(0, READ_WIDTH, BINS)]
        };
        let histograms = wanted.histograms.map(pair).unwrap_or_default();
        Notes { wanted: *wanted, histograms, ..Notes::default() }
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

    /// What the kernel knows, in time for the next message.
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
        self.wanted.is_recorded(self.messages)
    }
}
