//! Datagrams under way: lost, doubled, overtaken, damaged, late, dropped for want of room.

use super::link::{At, Link, chance};
use super::stream::REFUSED;
use metrics::Mono;
use std::collections::{BTreeMap, VecDeque};
use transport::{Burst, Deed, Fault, Path, Rng, Wrote};

struct Datagram {
    bytes: Vec<u8>,
    tos: u8,
    arrived: Mono,
}

/// What became of the datagrams of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// Offered by the sender, and not refused.
    pub sent: u64,
    /// Sends that its kernel refused.
    pub refused: u64,
    /// Lost on the way.
    pub lost: u64,
    /// Dropped because too much waited for the bottleneck.
    pub dropped: u64,
    /// Overtaken on purpose.
    pub delayed: u64,
    /// Delivered twice.
    pub doubled: u64,
    /// Delivered with a flipped bit.
    pub damaged: u64,
    /// Dropped because the receiver's buffer was full.
    pub overflowed: u64,
}

struct Lane {
    link: Link,
    rng: Rng,
    offered: u64,
    free: Mono,
    flight: BTreeMap<(Mono, u64), Datagram>,
    inbox: VecDeque<Datagram>,
    waiting: usize,
    fate: Fate,
}

/// What is known about a received batch.
pub(super) struct Head {
    pub(super) stride: usize,
    pub(super) arrived: Mono,
    pub(super) path: Path,
    pub(super) tos: u8,
    pub(super) truncated: bool,
    pub(super) dropped: u32,
}

/// Both directions of a pair of datagram sockets.
pub(super) struct Lanes {
    lanes: [Lane; 2],
    paths: [Path; 2],
}

impl Lane {
    fn new(link: Link, seed: u64) -> Self {
        Lane {
            link,
            rng: Rng::new(seed),
            offered: 0,
            free: Mono(0),
            flight: BTreeMap::new(),
            inbox: VecDeque::new(),
            waiting: 0,
            fate: Fate::default(),
        }
    }

    fn put(&mut self, now: Mono, mut bytes: Vec<u8>, tos: u8) {
        let from = self.offered;
        self.offered += bytes.len() as u64;
        self.fate.sent += 1;
        let cut = match self.link.cut {
            Some((At::Byte(at), _)) => at < self.offered,
            Some((At::Time(at), _)) => at <= now,
            None => false,
        };
        let backlog = self.free.since(now);
        let room = self.link.serialise(self.link.queue);
        if self.link.rate.is_some() && backlog + self.link.serialise(bytes.len()) > room {
            self.fate.dropped += 1;
            return;
        }
        self.free = self.free.max(now).plus(self.link.serialise(bytes.len()));
        if cut || chance(&mut self.rng, self.link.loss) {
            self.fate.lost += 1;
            return;
        }
        let whole = bytes.clone();
        for &(at, bits) in self.link.flips.iter().filter(|f| (from..self.offered).contains(&f.0)) {
            bytes[(at - from) as usize] ^= bits;
        }
        if chance(&mut self.rng, self.link.corrupt) && !bytes.is_empty() {
            let at = self.rng.between(0, bytes.len() as u64 - 1) as usize;
            bytes[at] ^= 1 << self.rng.between(0, 7);
        }
        self.fate.damaged += u64::from(bytes != whole);
        let jitter = if self.link.jitter > 0 { self.rng.between(0, self.link.jitter) } else { 0 };
        let mut arrives = self.free.plus(self.link.delay + jitter);
        if chance(&mut self.rng, self.link.reorder) {
            self.fate.delayed += 1;
            arrives = arrives.plus(self.link.delay.max(1_000_000));
        }
        if chance(&mut self.rng, self.link.duplicate) {
            self.fate.doubled += 1;
            let copy = Datagram { bytes: bytes.clone(), tos, arrived: arrives.plus(1_000) };
            self.flight.insert((copy.arrived, self.rng.next() | 1), copy);
        }
        self.flight.insert((arrives, self.fate.sent * 2), Datagram { bytes, tos, arrived: arrives });
    }

    /// Moves what has arrived into the socket's buffer.
    fn settle(&mut self, now: Mono) {
        while let Some(entry) = self.flight.first_entry().filter(|e| e.key().0 <= now) {
            let datagram = entry.remove();
            if self.waiting + datagram.bytes.len() > self.link.window {
                self.fate.overflowed += 1;
            } else {
                self.waiting += datagram.bytes.len();
                self.inbox.push_back(datagram);
            }
        }
    }

    fn pop(&mut self) -> Option<Datagram> {
        let datagram = self.inbox.pop_front()?;
        self.waiting -= datagram.bytes.len();
        Some(datagram)
    }
}

impl Lanes {
    pub(super) fn new(up: Link, down: Link, seed: u64, paths: [Path; 2]) -> Self {
        Lanes { lanes: [Lane::new(up, seed), Lane::new(down, !seed)], paths }
    }

    pub(super) fn fate(&self, from: usize) -> Fate {
        self.lanes[from].fate
    }

    /// One send call: all of it, or a refusal.
    pub(super) fn send(&mut self, end: usize, now: Mono, burst: &Burst<'_>) -> Wrote {
        let lane = &mut self.lanes[end];
        if chance(&mut lane.rng, lane.link.refuse) {
            lane.fate.refused += 1;
            return Wrote { bytes: 0, fault: Some(Fault { deed: Deed::Send, errno: REFUSED }) };
        }
        let bytes: Vec<u8> = burst.slices().flatten().copied().collect();
        let size = if burst.segment == 0 { bytes.len() } else { usize::from(burst.segment) };
        for datagram in bytes.chunks(size.max(1)) {
            self.lanes[end].put(now, datagram.to_vec(), burst.tos.unwrap_or(0));
        }
        Wrote { bytes: burst.len(), fault: None }
    }

    /// The cable of one end is out.
    pub(super) fn unplug(&mut self) {
        for lane in &mut self.lanes {
            lane.link.loss = 1.0;
        }
    }

    /// Nobody will receive at `end` any more.
    pub(super) fn forget(&mut self, end: usize) {
        let lane = &mut self.lanes[1 - end];
        lane.flight.clear();
        lane.inbox.clear();
        lane.waiting = 0;
    }

    pub(super) fn readable(&mut self, end: usize, now: Mono) -> bool {
        let lane = &mut self.lanes[1 - end];
        lane.settle(now);
        !lane.inbox.is_empty()
    }

    pub(super) fn next(&self, end: usize, now: Mono) -> Option<Mono> {
        let lane = &self.lanes[1 - end];
        if !lane.inbox.is_empty() {
            return Some(now);
        }
        lane.flight.first_key_value().map(|(key, _)| key.0.max(now))
    }

    /// One receive call: a datagram, or with `batch` a run of them, all of one size but the last.
    pub(super) fn recv(
        &mut self,
        end: usize,
        now: Mono,
        most: usize,
        batch: bool,
        out: &mut Vec<u8>,
    ) -> Option<Head> {
        let path = self.paths[end];
        let lane = &mut self.lanes[1 - end];
        lane.settle(now);
        let first = lane.pop()?;
        out.clear();
        out.extend_from_slice(&first.bytes[..first.bytes.len().min(most)]);
        let stride = out.len().max(1);
        let mut last = first.bytes.len();
        while batch
            && last == stride
            && let Some(next) = lane.inbox.front()
            && next.bytes.len() <= stride
            && next.tos == first.tos
            && out.len() + next.bytes.len() <= most.min(65_507)
            && let Some(next) = lane.pop()
        {
            last = next.bytes.len();
            out.extend_from_slice(&next.bytes);
        }
        Some(Head {
            stride,
            arrived: first.arrived,
            path,
            tos: first.tos,
            truncated: first.bytes.len() > most,
            dropped: lane.fate.overflowed as u32,
        })
    }
}
