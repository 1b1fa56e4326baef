//! Datagrams under way between two addresses: lost, doubled, overtaken, damaged, late, dropped for
//! want of room.

use super::link::{At, Link, chance};
use metrics::Mono;
use std::net::SocketAddr;
use transport::{Rng, Transmit};

#[derive(Clone)]
pub(super) struct Datagram {
    pub(super) bytes: Vec<u8>,
    pub(super) tos: u8,
    pub(super) ttl: u8,
    pub(super) arrives: Mono,
    /// Its checksum is wrong.
    pub(super) spoilt: bool,
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
    /// Dropped by the receiver's kernel for a wrong checksum.
    pub spoilt: u64,
    /// Dropped without notice because the packet was larger than the path carries.
    pub oversized: u64,
    /// Dropped because the receiver's buffer was full.
    pub overflowed: u64,
}

impl Fate {
    /// The datagrams of both.
    #[must_use]
    pub fn and(self, more: Fate) -> Fate {
        Fate {
            sent: self.sent + more.sent,
            refused: self.refused + more.refused,
            lost: self.lost + more.lost,
            dropped: self.dropped + more.dropped,
            delayed: self.delayed + more.delayed,
            doubled: self.doubled + more.doubled,
            damaged: self.damaged + more.damaged,
            spoilt: self.spoilt + more.spoilt,
            oversized: self.oversized + more.oversized,
            overflowed: self.overflowed + more.overflowed,
        }
    }
}

pub(super) struct Lane {
    pub(super) link: Link,
    rng: Rng,
    /// Bytes of the IP and UDP headers.
    headers: usize,
    offered: u64,
    free: Mono,
    pub(super) fate: Fate,
}

pub(super) struct Lanes {
    pub(super) lanes: [Lane; 2],
    pub(super) ends: [SocketAddr; 2],
}

impl Lane {
    fn new(link: Link, seed: u64, headers: usize) -> Self {
        Lane { link, rng: Rng::new(seed), headers, offered: 0, free: Mono(0), fate: Fate::default() }
    }

    /// Whether the sender's kernel refuses a send.
    pub(super) fn refuses(&mut self) -> bool {
        let refuses = chance(&mut self.rng, self.link.refuse);
        self.fate.refused += u64::from(refuses);
        refuses
    }

    /// The datagrams of one send, with the socket's traffic class and time to live: returns the
    /// ones that will arrive.
    pub(super) fn send(&mut self, now: Mono, burst: &Transmit<'_>, (tos, ttl): (u8, u8)) -> Vec<Datagram> {
        let marks = (burst.tos.unwrap_or(tos), ttl);
        let bytes = burst.slices().collect::<Vec<_>>().concat();
        let size = if burst.segment == 0 { bytes.len() } else { usize::from(burst.segment) };
        let mut arriving = Vec::new();
        for datagram in bytes.chunks(size.max(1)) {
            self.put(now, datagram.to_vec(), marks, &mut arriving);
        }
        arriving
    }

    fn put(&mut self, now: Mono, mut bytes: Vec<u8>, (tos, ttl): (u8, u8), arriving: &mut Vec<Datagram>) {
        let from = self.offered;
        self.offered += bytes.len() as u64;
        self.fate.sent += 1;
        let cut = match self.link.cut {
            Some((At::Byte(at), _)) => at < self.offered,
            Some((At::Time(at), _)) => at <= now,
            None => false,
        };
        if self.link.too_large(bytes.len(), self.headers) {
            self.fate.oversized += 1;
            return;
        }
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
        let mut damaged = false;
        for &(at, bits) in self.link.flips.iter().filter(|f| (from..self.offered).contains(&f.0)) {
            bytes[(at - from) as usize] ^= bits;
            damaged |= bits != 0;
        }
        if chance(&mut self.rng, self.link.corrupt) && !bytes.is_empty() {
            let at = self.rng.between(0, bytes.len() as u64 - 1) as usize;
            bytes[at] ^= 1 << self.rng.between(0, 7);
            damaged = true;
        }
        self.fate.damaged += u64::from(damaged);
        let spoilt = chance(&mut self.rng, self.link.damage);
        let jitter = if self.link.jitter > 0 { self.rng.between(0, self.link.jitter) } else { 0 };
        let mut arrives = self.free.plus(self.link.delay + jitter);
        if chance(&mut self.rng, self.link.reorder) {
            self.fate.delayed += 1;
            arrives = arrives.plus(self.link.delay.max(1_000_000));
        }
        if chance(&mut self.rng, self.link.duplicate) {
            self.fate.doubled += 1;
            let arrives = arrives.plus(1_000);
            arriving.push(Datagram { bytes: bytes.clone(), tos, ttl, arrives, spoilt });
        }
        arriving.push(Datagram { bytes, tos, ttl, arrives, spoilt });
    }
}

impl Lanes {
    pub(super) fn new(up: Link, down: Link, seed: u64, ends: [SocketAddr; 2]) -> Self {
        let headers = if ends[0].is_ipv4() { 28 } else { 48 };
        Lanes { lanes: [Lane::new(up, seed, headers), Lane::new(down, !seed, headers)], ends }
    }

    /// The cable of one end is out.
    pub(super) fn unplug(&mut self) {
        for lane in &mut self.lanes {
            lane.link.loss = 1.0;
        }
    }
}
