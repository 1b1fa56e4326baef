//! One direction of a stream: bytes under way, in order.

use super::link::{At, Cut, Link, chance};
use metrics::Mono;
use std::collections::VecDeque;
use transport::Rng;

/// How long a sender waits before it sends a lost packet again, beyond a round trip.
const AGAIN: u64 = 10_000_000;

struct Segment {
    leaves: Mono,
    arrives: Mono,
    bytes: Vec<u8>,
    read: usize,
}

/// How a direction ends for its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tail {
    Fin,
    Reset,
}

pub(super) struct Pipe {
    pub(super) link: Link,
    rng: Rng,
    /// Payload of a full segment, and the headers before it, bytes.
    segment: (usize, usize),
    /// Bytes the sender has put in.
    offered: u64,
    /// Bytes put in that the receiver has not read.
    held: usize,
    flight: VecDeque<Segment>,
    free: Mono,
    last: Mono,
    end: Option<(Mono, Tail)>,
    /// A FIN came before the reset.
    fin: bool,
    /// Swallows everything.
    dead: bool,
    /// Bytes from a segment on that is larger than the path carries, or that a dead path has lost:
    /// the receiver never gets them.
    stuck: u64,
    /// Instants at which the socket's readiness changes at the receiver.
    pub(super) pokes: Vec<Mono>,
}

impl Pipe {
    pub(super) fn new(link: Link, seed: u64, segment: (usize, usize)) -> Self {
        Pipe {
            link,
            rng: Rng::new(seed),
            segment,
            offered: 0,
            held: 0,
            flight: VecDeque::new(),
            free: Mono(0),
            last: Mono(0),
            end: None,
            fin: false,
            dead: false,
            stuck: 0,
            pokes: Vec::new(),
        }
    }

    /// Payload of a full segment, bytes.
    pub(super) fn segment(&self) -> usize {
        self.segment.0
    }

    /// Bytes of which the sender does not know yet that they have arrived.
    pub(super) fn queued(&self, now: Mono) -> u64 {
        let under_way = self.flight.iter().filter(|s| s.arrives.plus(self.link.delay) > now);
        self.stuck + under_way.map(|s| s.bytes.len() as u64).sum::<u64>()
    }

    /// Bytes that the sender may put in.
    pub(super) fn room(&self) -> usize {
        self.link.window.saturating_sub(self.held)
    }

    /// Takes `bytes`, which fit. Says when they arrive, and whether the direction is cut by that.
    pub(super) fn put(&mut self, now: Mono, bytes: &[u8]) -> (Option<Mono>, Option<Cut>) {
        let from = self.offered;
        self.offered += bytes.len() as u64;
        self.held += bytes.len();
        if self.dead || self.end.is_some() {
            self.stuck += if self.dead { bytes.len() as u64 } else { 0 };
            return (None, None);
        }
        let mut cut = None;
        let mut passed = bytes;
        if let Some((At::Byte(at), how)) = self.link.cut
            && at < self.offered
        {
            passed = &bytes[..at.saturating_sub(from) as usize];
            cut = Some(how);
            self.link.cut = None;
        }
        let (most, headers) = self.segment;
        if self.stuck > 0 || self.link.too_large(passed.len().min(most), headers) {
            self.stuck += passed.len() as u64;
            return (None, cut);
        }
        let mut bytes = self.mangled(from, passed);
        let packets = passed.len().div_ceil(most).max(1);
        let hit = |p: f64| 1.0 - (1.0 - p).powi(packets as i32);
        let mut late = if self.link.jitter > 0 { self.rng.between(0, self.link.jitter) } else { 0 };
        let again = self.link.loss + self.link.damage - self.link.loss * self.link.damage;
        if chance(&mut self.rng, hit(again)) {
            late += 2 * self.link.delay + AGAIN;
        }
        if chance(&mut self.rng, hit(self.link.reorder)) {
            late += self.rng.between(0, self.link.delay);
        }
        if chance(&mut self.rng, hit(self.link.corrupt)) && !bytes.is_empty() {
            let at = self.rng.between(0, bytes.len() as u64 - 1) as usize;
            bytes[at] ^= 1 << self.rng.between(0, 7);
        }
        let leaves = self.free.max(now).plus(self.link.serialise(passed.len()));
        self.free = leaves;
        let arrives = leaves.plus(self.link.delay + late).max(self.last);
        self.last = arrives;
        // Bytes that a relay drops are never read, but do not block the sender either.
        self.held = (self.held + bytes.len()).saturating_sub(passed.len());
        if !bytes.is_empty() {
            self.flight.push_back(Segment { leaves, arrives, bytes, read: 0 });
            self.pokes.push(arrives);
        }
        (Some(arrives), cut)
    }

    /// What a relay makes of the bytes from offset `from` on.
    fn mangled(&self, from: u64, bytes: &[u8]) -> Vec<u8> {
        let to = from + bytes.len() as u64;
        let Link { flips, inserts, removes, .. } = &self.link;
        let mut out = bytes.to_vec();
        for &(at, bits) in flips.iter().filter(|f| (from..to).contains(&f.0)) {
            out[(at - from) as usize] ^= bits;
        }
        let added = |at: u64| inserts.iter().filter(move |i| i.0 == at).flat_map(|i| i.1.iter().copied());
        let removed = |at: u64| removes.iter().any(|r| at >= r.0 && at - r.0 < r.1);
        let touched = inserts.iter().any(|i| i.0 == 0 || (from + 1..=to).contains(&i.0))
            || removes.iter().any(|r| r.0 < to && r.0.saturating_add(r.1) > from);
        if !touched {
            return out;
        }
        // What is added before a byte follows its predecessor at once, so that it can be put behind
        // the last byte, too.
        let first = added(0).filter(|_| from == 0);
        let kept = first.chain(out.into_iter().zip(from..).flat_map(|(byte, at)| {
            (!removed(at)).then_some(byte).into_iter().chain(added(at + 1)).collect::<Vec<_>>()
        }));
        kept.collect()
    }

    /// Nothing gets through from `now` on.
    pub(super) fn silence(&mut self, now: Mono) {
        self.dead = true;
        let lost = self.flight.iter().filter(|s| s.arrives > now);
        self.stuck += lost.map(|s| s.bytes.len() as u64).sum::<u64>();
        self.flight.retain(|s| s.arrives <= now);
        self.end = self.end.filter(|e| e.0 <= now);
    }

    /// Swallows what comes from now on; what is under way arrives.
    pub(super) fn swallow(&mut self) {
        self.dead = true;
    }

    /// The sender will send no more; with a reset, what has not left yet is dropped. Says when the
    /// receiver knows.
    pub(super) fn finish(&mut self, now: Mono, tail: Tail) -> Option<Mono> {
        // A FIN waits behind what is sent again and again; a reset is small, and overtakes it.
        if self.dead || (self.stuck > 0 && tail == Tail::Fin) {
            return None;
        }
        if tail == Tail::Reset {
            self.flight.retain(|s| s.leaves <= now || s.read > 0);
            self.last = self.flight.back().map_or(Mono(0), |s| s.arrives);
            self.free = now;
        }
        let at = now.plus(self.link.delay).max(self.last).max(self.free.plus(self.link.delay));
        if self.end.is_none_or(|(_, known)| known == Tail::Fin && tail == Tail::Reset) {
            self.end_with(at, tail);
        }
        Some(at)
    }

    /// Ends the receiver's side at `at`, also with data under way.
    pub(super) fn end_at(&mut self, at: Mono, tail: Tail) {
        if !self.dead {
            self.end_with(at.max(self.last), tail);
        }
    }

    /// The receiver's kernel expects nothing more, though nothing was told.
    pub(super) fn give_up(&mut self, now: Mono) {
        if self.end.is_none() {
            self.end_with(now, Tail::Reset);
        }
    }

    fn end_with(&mut self, at: Mono, tail: Tail) {
        // Each segment to a closed socket is answered by a reset: the first one to arrive counts.
        if self.end.is_some_and(|(known, how)| how == Tail::Reset && known <= at) {
            return;
        }
        self.fin |= self.end.is_some_and(|(_, known)| known == Tail::Fin);
        self.end = Some((at, tail));
        self.pokes.push(at);
    }

    /// Whether the reset has followed a FIN: the receiver has known the end before, and reads it
    /// again.
    pub(super) fn reset_after_fin(&self) -> bool {
        self.fin
    }

    /// How it has ended for the receiver, once everything before is read.
    pub(super) fn ended(&self, now: Mono) -> Option<Tail> {
        self.end.filter(|e| e.0 <= now).map(|e| e.1)
    }

    /// Whether a reset has arrived, read or not.
    pub(super) fn is_reset(&self, now: Mono) -> bool {
        self.ended(now) == Some(Tail::Reset)
    }

    /// Whether bytes have arrived that were not read.
    pub(super) fn has_bytes(&self, now: Mono) -> bool {
        self.flight.front().is_some_and(|s| s.arrives <= now)
    }

    /// When the first bytes that are still under way arrive.
    pub(super) fn under_way(&self, now: Mono) -> Option<Mono> {
        self.flight.iter().map(|s| s.arrives).find(|&at| at > now)
    }

    /// Reads up to `most` bytes that have arrived.
    pub(super) fn read(&mut self, now: Mono, most: usize, out: &mut Vec<u8>) {
        out.clear();
        while out.len() < most
            && let Some(front) = self.flight.front_mut().filter(|s| s.arrives <= now)
        {
            let rest = &front.bytes[front.read..];
            let n = rest.len().min(most - out.len());
            out.extend_from_slice(&rest[..n]);
            front.read += n;
            if front.read == front.bytes.len() {
                self.flight.pop_front();
            }
        }
        self.held = self.held.saturating_sub(out.len());
    }
}
