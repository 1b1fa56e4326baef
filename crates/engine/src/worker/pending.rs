//! Accepted links whose peers have proved nothing: their places, and how they give way.

use super::Worker;
use crate::link::{Key, Link, ServerPlace, Socket};
use metrics::{Mono, SECOND};
use std::collections::VecDeque;
use std::net::IpAddr;
use transport::{Cause, Flow, Patience, Platform, Turn, Violation};

/// The wait for a proof of the peer of a connection. A datagram socket has no such limit: a sender
/// may be slow.
const PROOF: Patience = Patience::of("no proof of the peer", 10 * SECOND);
/// Interval of the looks through the pending links, ns. After a newer link took its place, a
/// link stays for one more look: bytes of its peer may be unread.
const LOOK: u64 = SECOND / 20;
/// Age of a link from which on taking data proves something, where this end speaks first, ns.
/// Before that the buffers alone may have taken the data.
const TAKES: u64 = 3 * SECOND;

/// Bytes of a peer that prove something in a protocol without an introduction: a peer that has said
/// less keeps its connection until newer ones need its place.
const ENOUGH: usize = 512;
/// Interval of the looks where no link is silent, ns.
const LATER: u64 = SECOND;

/// Causes of the end of a link that has waited for too long, or gives way.
const SILENT: Violation = Violation::Malformed("said nothing for 10 s");
const GAVE_WAY: Violation = Violation::Malformed("said too little, and gave way to newer connections");

/// The links of a worker whose peers have proved nothing.
#[derive(Default)]
pub(super) struct Pending {
    /// In the order of their acceptance. Some may have proved something since, or have ended.
    links: VecDeque<(Key, Mono)>,
    /// When they are looked through next.
    pub(super) look_at: Option<Mono>,
    /// Links that gave way, and peers that were turned away, since that was reported.
    crowded: u64,
}

impl<P: Platform> Link<P> {
    /// The peer has proved something.
    pub(super) fn register(&mut self) {
        self.state.pending = false;
        if let Some(ServerPlace::Pending(place)) = self.place.take() {
            self.place = place.register().map(|place| ServerPlace::Registered { _place: place });
        }
    }

    /// Judges the peer of a pending link by a turn that has moved bytes.
    pub(super) fn judge(&mut self, done: &Turn, now: Mono) {
        let proves = self.flow.is_introduced().unwrap_or_else(|| {
            self.state.silent &= done.got == 0;
            self.state.said = self.state.said.saturating_add(done.got);
            self.state.said >= ENOUGH || (done.sent > 0 && now.since(self.born) >= TAKES)
        });
        if proves {
            self.register();
        }
    }
}

impl<P: Platform> Worker<P> {
    /// True if a peer of this address may be accepted at all.
    pub(super) fn has_room(&mut self, address: IpAddr, now: Mono) -> bool {
        let has_room = self.config.admission.as_ref().is_none_or(|admission| admission.has_room(address));
        if !has_room {
            self.crowd(now);
        }
        has_room
    }

    /// A place for an accepted link, where places are limited and its peer has not been introduced.
    pub(super) fn place(&mut self, flow: &dyn Flow, address: IpAddr, now: Mono) -> Option<ServerPlace> {
        if flow.is_introduced() == Some(true) {
            return None;
        }
        let (place, gave_way) = self.config.admission.as_ref()?.enter(address);
        if gave_way {
            self.crowd(now);
        }
        Some(ServerPlace::Pending(place))
    }

    fn crowd(&mut self, now: Mono) {
        self.pending.crowded += 1;
        self.look_within(now);
    }

    /// A pending link waits for a proof of its peer.
    pub(super) fn await_proof(&mut self, key: Key, now: Mono) {
        self.pending.links.push_back((key, now));
        self.look_within(now);
    }

    fn look_within(&mut self, now: Mono) {
        let at = now.plus(LOOK);
        self.pending.look_at = Some(self.pending.look_at.map_or(at, |known| known.min(at)));
    }

    /// Ends the links that lost their places to newer ones or have waited for too long.
    pub(super) fn check_pending(&mut self, now: Mono) {
        if self.pending.look_at.is_none_or(|at| at > now) {
            return;
        }
        let mut next = LATER;
        for _ in 0..self.pending.links.len() {
            let Some((key, since)) = self.pending.links.pop_front() else { break };
            let Some(link) = self.links.get(key) else { continue };
            let Some(ServerPlace::Pending(place)) = link.place.as_ref().filter(|_| link.state.pending) else {
                continue;
            };
            let age = now.since(since);
            // A link that waits for its first turn may have been spoken to.
            let waits = link.state.queued && link.state.fresh;
            let is_evicted = place.evicted();
            let gave_way = is_evicted && age >= LOOK && !waits;
            let is_silent = link.state.silent && matches!(link.socket, Socket::Stream(_));
            if is_silent || is_evicted {
                next = LOOK;
            }
            if gave_way || (is_silent && PROOF.since(since).is_over(now)) {
                let why = if gave_way { GAVE_WAY } else { SILENT };
                self.close(key, Err(Cause::Violation(why)), true);
            } else {
                self.pending.links.push_back((key, since));
            }
        }
        self.pending.look_at = (!self.pending.links.is_empty()).then(|| now.plus(next));
        match std::mem::take(&mut self.pending.crowded) {
            0 => {}
            n => self.report(super::Report::Crowded(n)),
        }
    }
}
