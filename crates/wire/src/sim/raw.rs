//! Peers without a session: they say what they are told to and remember what they hear.

use super::network::Network;
use super::side::Wire;
use super::stream::Taken;
use metrics::Mono;
use std::collections::VecDeque;
use transport::{Arena, Burst};

/// What such a peer does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Say {
    /// Sends bytes.
    Bytes(Vec<u8>),
    /// Does not hang up when it is hung up on in order; to be said first.
    Stay,
    /// Sends no more.
    Fin,
    /// Hangs up with a reset.
    Reset,
}

/// How the other end has ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HungUp {
    /// It could not be reached.
    Refused,
    /// In order.
    Fin,
    /// With a reset.
    Reset,
}

/// A peer without a session.
pub struct Raw {
    /// What it has heard.
    pub heard: Vec<u8>,
    /// How and when it was hung up on.
    pub ended: Option<(Mono, HungUp)>,
    pub(super) conn: u64,
    script: VecDeque<(Mono, Say)>,
    out: Vec<u8>,
    up: bool,
    stays: bool,
}

impl Raw {
    pub(super) fn new(script: Vec<(u64, Say)>, now: Mono) -> Self {
        let script = script.into_iter().map(|(after, say)| (now.plus(after), say)).collect();
        Raw { heard: Vec::new(), ended: None, conn: 0, script, out: Vec::new(), up: false, stays: false }
    }

    pub(super) fn connected(&mut self, yes: bool) {
        self.up = yes;
        if !yes {
            self.ended = Some((Mono(0), HungUp::Refused));
        }
    }

    pub(super) fn next(&self, wire: &Wire, end: usize, now: Mono) -> Option<Mono> {
        let deaf = self.ended.is_some();
        if !self.up || (deaf && !self.stays) {
            return None;
        }
        let say = self.script.front().map(|s| s.0);
        let flush = (!self.out.is_empty() && wire.writable(end, now)).then_some(now);
        wire.next(end, now).filter(|_| !deaf).into_iter().chain(say).chain(flush).min()
    }
}

impl Network {
    /// Hears what there is, and says what is due.
    pub(super) fn raw_turn(&mut self, raw: usize, id: u64, end: usize) {
        let now = self.now;
        let Some(Wire::Stream(stream)) = self.conns.get_mut(&id).map(|c| &mut c.wire) else { return };
        let me = &mut self.raws[raw];
        let mut bytes = Vec::new();
        while me.ended.is_none() {
            match stream.recv(end, now, 1 << 20, &mut bytes) {
                Taken::Nothing => break,
                Taken::Bytes => me.heard.extend_from_slice(&bytes),
                Taken::Fin => me.ended = Some((now, HungUp::Fin)),
                Taken::Fault(_) => me.ended = Some((now, HungUp::Reset)),
            }
            if matches!(me.ended, Some((_, how)) if !(me.stays && how == HungUp::Fin)) {
                return self.close(id, end, false);
            }
        }
        while let Some((at, _)) = me.script.front()
            && *at <= now
            && let Some((_, say)) = me.script.pop_front()
        {
            match say {
                Say::Bytes(bytes) => me.out.extend_from_slice(&bytes),
                Say::Stay => me.stays = true,
                Say::Fin => stream.half_close(end, now),
                Say::Reset => return self.close(id, end, true),
            }
        }
        if !me.out.is_empty() {
            let mut arena = Arena::new(me.out.len());
            let mut burst = Burst::new(&mut arena, me.out.len());
            burst.own(me.out.len()).copy_from_slice(&me.out);
            let wrote = stream.send(end, now, &burst, usize::MAX);
            me.out.drain(..wrote.bytes);
            if wrote.fault.is_some() {
                me.out.clear();
            }
        }
    }
}
