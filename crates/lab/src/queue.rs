//! A bottleneck with a drop-tail queue, as arithmetic.

use crate::setup::{Bottleneck, Limit};
use metrics::{Clamped, Mono};
use std::collections::VecDeque;

/// Sends packets one after the other at a rate, and drops packets that arrive when it is full.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    how: Bottleneck,
    /// When the last packet taken is through.
    free: Mono,
    /// The part of a nanosecond that it takes beyond that, in units of 1 / rate.
    rest: u64,
    /// When each packet in the queue is through, and its bytes.
    waiting: VecDeque<(Mono, u64)>,
    bytes: u64,
}

/// A packet's way through the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Through {
    /// Time in the queue, ns.
    pub(crate) waited: u64,
    /// When its last bit has left.
    pub(crate) out: Mono,
}

impl Queue {
    pub(crate) fn new(how: Bottleneck) -> Self {
        Queue { how, free: Mono(0), rest: 0, waiting: VecDeque::new(), bytes: 0 }
    }

    /// Offers a packet of `length` bytes at `at` (never earlier than the one before); `None` when
    /// it is dropped.
    pub(crate) fn offer(&mut self, at: Mono, length: u64) -> Option<Through> {
        while let Some((_, bytes)) = self.waiting.pop_front_if(|(out, _)| *out <= at) {
            self.bytes -= bytes;
        }
        let length = length + u64::from(self.how.overhead);
        let waited = self.free.since(at);
        let fits = match self.how.limit {
            Limit::Time(ns) => waited <= ns,
            Limit::Bytes(most) => self.bytes + length <= most,
            Limit::Packets(most) => (u64::clamped(self.waiting.len())) < most,
        };
        if !fits && !self.waiting.is_empty() {
            return None;
        }
        if waited == 0 {
            (self.free, self.rest) = (at, 0);
        }
        let rate = u128::from(self.how.rate_bps);
        let work = u128::from(length) * 8_000_000_000 + u128::from(self.rest);
        self.free = self.free.plus(u64::clamped(work / rate));
        self.rest = u64::clamped(work % rate);
        self.waiting.push_back((self.free, length));
        self.bytes += length;
        Some(Through { waited, out: self.free })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport::Rng;

    /// The same, slowly: a list of packets, each with the bits it has still to send, moved on
    /// nanosecond by nanosecond of a clock whose unit is chosen so that a bit takes a whole number
    /// of them.
    struct Slow {
        ns_per_byte: u64,
        limit: Limit,
        now: u64,
        queue: Vec<(u64, u64, usize)>,
        out: Vec<(usize, u64)>,
    }

    impl Slow {
        fn run_to(&mut self, at: u64) {
            while self.now < at {
                self.now += 1;
                if let Some(first) = self.queue.first_mut() {
                    first.0 -= 1;
                    if first.0 == 0 {
                        self.out.push((first.2, self.now));
                        self.queue.remove(0);
                    }
                }
            }
        }

        fn offer(&mut self, at: u64, length: u64, id: usize) -> bool {
            self.run_to(at);
            let fits = match self.limit {
                Limit::Packets(most) => (self.queue.len() as u64) < most,
                Limit::Bytes(most) => self.queue.iter().map(|q| q.1).sum::<u64>() + length <= most,
                Limit::Time(ns) => self.queue.iter().map(|q| q.0).sum::<u64>() <= ns,
            };
            if fits || self.queue.is_empty() {
                self.queue.push((length * self.ns_per_byte, length, id));
                return true;
            }
            false
        }
    }

    #[test]
    fn agrees_with_a_queue_moved_on_step_by_step() {
        let limits =
            [Limit::Packets(1), Limit::Packets(4), Limit::Bytes(60), Limit::Time(300), Limit::Time(0)];
        for (round, limit) in limits.into_iter().enumerate() {
            // 8 bits in 4 ns: 2 Gbit/s.
            let mut slow = Slow { ns_per_byte: 4, limit, now: 0, queue: Vec::new(), out: Vec::new() };
            let mut quick = Queue::new(Bottleneck { rate_bps: 2_000_000_000, limit, overhead: 0 });
            let mut rng = Rng::new(round as u64);
            let (mut at, mut out, mut drops) = (0, Vec::new(), 0);
            for id in 0..3000 {
                at += rng.between(0, 125);
                let length = rng.between(1, 30);
                let through = quick.offer(Mono(at), length);
                assert_eq!(through.is_some(), slow.offer(at, length, id), "{limit:?} packet {id}");
                out.extend(through.map(|t| (id, t.out.0)));
                drops += u32::from(through.is_none());
            }
            slow.run_to(at + 100_000);
            assert_eq!(out, slow.out, "{limit:?}");
            assert!(drops > 20, "{limit:?}: {drops}");
        }
    }

    #[test]
    fn a_rate_that_does_not_divide_is_kept_in_the_long_run() {
        // 3 bit/ns: 1000 bytes take 2666.67 ns; 3000 packets take 8 ms exactly.
        let how = Bottleneck { rate_bps: 3_000_000_000, limit: Limit::Packets(5000), overhead: 0 };
        let mut queue = Queue::new(how);
        let last = (0..3000).filter_map(|_| queue.offer(Mono(7), 1000)).last().unwrap();
        assert_eq!(last.out, Mono(8_000_007));
        // Overhead takes time, too: 38 bytes more of 1000.
        let mut queue = Queue::new(Bottleneck { overhead: 38, ..how });
        let last = (0..3000).filter_map(|_| queue.offer(Mono(7), 1000)).last().unwrap();
        assert_eq!(last.out, Mono(8_304_007));
    }
}
