//! A simulated TCP connection: two pipes, and what the kernels at both ends know. It behaves as
//! Linux does, so far as a protocol can see: what was received before a reset can still be read; a
//! reset is told once, after that sends fail with EPIPE and reads end; a reset behind a FIN is told
//! as EPIPE alone; closing with unread bytes resets.

use super::link::{At, Cut, Link};
use super::pipe::{Pipe, Tail};
use metrics::Mono;
use transport::{Deed, Fault, Sent, Transmit};

/// Connection refused, as Linux numbers it.
pub(super) const REFUSED: i32 = 111;
/// Timed out.
pub(super) const TIMED_OUT: i32 = 110;
/// Connection reset.
pub(super) const RESET: i32 = 104;
/// Sent into a connection that is no more.
pub(super) const BROKEN_PIPE: i32 = 32;

#[derive(Clone, Copy, Default)]
struct Kernel {
    /// The application was told of the reset.
    told: bool,
    half: bool,
    closed: bool,
}

pub(super) enum Taken {
    Nothing,
    Bytes,
    Fin,
    Fault(Fault),
}

/// Both directions; end 0 has opened the connection.
pub(super) struct Stream {
    pipes: [Pipe; 2],
    kernels: [Kernel; 2],
}

impl Stream {
    /// A connection whose full segments have so much payload, with so many bytes of headers before
    /// it.
    pub(super) fn new(up: Link, down: Link, seed: u64, segment: (usize, usize)) -> Self {
        let pipes = [Pipe::new(up, seed, segment), Pipe::new(down, !seed, segment)];
        Stream { pipes, kernels: [Kernel::default(); 2] }
    }

    /// Delays from the opener to the acceptor and back, ns.
    pub(super) fn delays(&self) -> (u64, u64) {
        (self.pipes[0].link.delay, self.pipes[1].link.delay)
    }

    /// Payload of a full segment, bytes.
    pub(super) fn segment(&self) -> usize {
        self.pipes[0].segment()
    }

    /// When one of the directions is cut by the clock.
    pub(super) fn cut_at(&self) -> Option<Mono> {
        let instant = |p: &Pipe| match p.link.cut {
            Some((At::Time(at), _)) => Some(at),
            _ => None,
        };
        self.pipes.iter().filter_map(instant).min()
    }

    /// Does the cuts that are due.
    pub(super) fn tick(&mut self, now: Mono) {
        for from in 0..2 {
            if let Some((At::Time(at), how)) = self.pipes[from].link.cut
                && at <= now
            {
                self.pipes[from].link.cut = None;
                self.sever(from, how, now, now.plus(self.pipes[from].link.delay));
            }
        }
    }

    fn sever(&mut self, from: usize, how: Cut, now: Mono, arrives: Mono) {
        match how {
            Cut::Silence => self.pipes[from].silence(now),
            Cut::Reset | Cut::Fin => {
                let tail = if how == Cut::Reset { Tail::Reset } else { Tail::Fin };
                self.pipes[from].end_at(arrives, tail);
                let back = now.plus(self.pipes[1 - from].link.delay);
                self.pipes[1 - from].end_at(back, tail);
                for pipe in &mut self.pipes {
                    pipe.swallow();
                }
            }
        }
    }

    pub(super) fn unplug(&mut self, now: Mono) {
        for pipe in &mut self.pipes {
            pipe.silence(now);
        }
    }

    /// The kernel of `end` gives the connection up. The error that it tells is that of a reset.
    pub(super) fn time_out(&mut self, end: usize, now: Mono) {
        self.pipes[1 - end].give_up(now);
    }

    pub(super) fn readable(&self, end: usize, now: Mono) -> bool {
        let pipe = &self.pipes[1 - end];
        pipe.has_bytes(now) || pipe.ended(now).is_some()
    }

    pub(super) fn writable(&self, end: usize, now: Mono) -> bool {
        // A reset is reported once.
        if self.pipes[1 - end].is_reset(now) {
            return !self.kernels[end].told;
        }
        // Linux tells of room once a third of the buffer is free.
        let pipe = &self.pipes[end];
        pipe.room() * 3 >= pipe.link.window
    }

    /// Whether the peer will send no more, read or not; and whether the connection is over in both
    /// directions.
    pub(super) fn ended(&self, end: usize, now: Mono) -> (bool, bool) {
        let pipe = &self.pipes[1 - end];
        let ended = pipe.ended(now).is_some();
        (ended, pipe.is_reset(now) || (ended && self.kernels[end].half))
    }

    /// The next instant at which `end` is to be poked.
    pub(super) fn poke(&mut self, end: usize) -> Option<Mono> {
        self.pipes[1 - end].pokes.pop()
    }

    /// Bytes that `end` has sent and that are not acknowledged.
    pub(super) fn queued(&self, end: usize, now: Mono) -> u64 {
        self.pipes[end].queued(now)
    }

    /// Sends up to `cap` bytes of `burst`.
    pub(super) fn send(&mut self, end: usize, now: Mono, burst: &Transmit<'_>, cap: usize) -> Sent {
        let kernel = &mut self.kernels[end];
        if self.pipes[1 - end].is_reset(now) || kernel.half {
            let broken = kernel.told || kernel.half || self.pipes[1 - end].reset_after_fin();
            let errno = if broken { BROKEN_PIPE } else { RESET };
            kernel.told = true;
            return Sent { bytes: 0, fault: Some(Fault { deed: Deed::Send, errno }) };
        }
        let n = self.pipes[end].room().min(cap).min(burst.len());
        let mut bytes = Vec::with_capacity(n);
        for slice in burst.slices() {
            bytes.extend_from_slice(&slice[..slice.len().min(n - bytes.len())]);
        }
        if n > 0 {
            let (arrives, cut) = self.pipes[end].put(now, &bytes);
            if let Some(cut) = cut {
                self.sever(end, cut, now, arrives.unwrap_or(now));
            } else if let Some(at) = arrives.filter(|_| self.kernels[1 - end].closed) {
                self.refuse(1 - end, at);
            }
        }
        Sent { bytes: n, fault: None }
    }

    /// Bytes reach `end`, whose application has closed: a reset goes back.
    fn refuse(&mut self, end: usize, at: Mono) {
        let delay = self.pipes[end].link.delay;
        self.pipes[end].end_at(at.plus(delay), Tail::Reset);
    }

    /// Reads up to `most` bytes into `out`.
    pub(super) fn recv(&mut self, end: usize, now: Mono, most: usize, out: &mut Vec<u8>) -> Taken {
        let pipe = &mut self.pipes[1 - end];
        pipe.read(now, most, out);
        if !out.is_empty() {
            return Taken::Bytes;
        }
        match pipe.ended(now) {
            None => Taken::Nothing,
            Some(Tail::Reset) if !self.kernels[end].told && !pipe.reset_after_fin() => {
                self.kernels[end].told = true;
                Taken::Fault(Fault { deed: Deed::Receive, errno: RESET })
            }
            Some(_) => Taken::Fin,
        }
    }

    /// No more sends from `end`.
    pub(super) fn half_close(&mut self, end: usize, now: Mono) {
        if !self.kernels[end].half {
            self.kernels[end].half = true;
            self.pipes[end].finish(now, Tail::Fin);
        }
    }

    /// `end` closes its socket.
    pub(super) fn close(&mut self, end: usize, now: Mono, reset: bool) {
        if self.kernels[end].closed {
            return;
        }
        self.kernels[end].closed = true;
        let incoming = &self.pipes[1 - end];
        if incoming.is_reset(now) {
            return;
        }
        let tail = if reset || incoming.has_bytes(now) { Tail::Reset } else { Tail::Fin };
        if let Some(at) = incoming.under_way(now).filter(|_| tail == Tail::Fin) {
            self.half_close(end, now);
            self.refuse(end, at);
        } else if tail == Tail::Reset || !self.kernels[end].half {
            self.pipes[end].finish(now, tail);
        }
    }
}
