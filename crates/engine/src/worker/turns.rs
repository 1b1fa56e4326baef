//! Work of links: turns, events, and moves to another worker.

use super::idle::SOON;
use super::{AT_ONCE, Command, REGISTER_AFTER, Report, SHORT, Worker};
use crate::link::{Key, Link, Phase, Socket};
use metrics::{Clamped, Ending, Group, Mono};
use model::Finding;
use transport::{
    Can, Cause, Clock as _, Deed, Defect, Direction, End, Fault, FlowEvent, Interest, LinkBudget, Platform,
    Read, Sender as _, StreamSocket as _, Trigger, Wake as _, When,
};

/// Most bytes of a call that holds whole segments only: more gains nothing, and keeps others
/// waiting.
const LONGEST_WHOLE: usize = 256 << 10;

/// Result of a link's turn.
pub(super) enum TurnResult {
    /// The link may have another turn at once; the time.
    Turn(Mono),
    /// Something is to be done about it first; the time.
    Enough(Mono),
    Gone,
}

impl<P: Platform> Worker<P> {
    pub(super) fn queue(&mut self, key: Key) {
        if let Some(link) = self.links.get(key)
            && !link.state.queued
        {
            link.state.queued = true;
            // A new link has its turn first, so that it does not wait behind thousands of busy
            // links.
            if link.state.fresh { self.ready.push_front(key) } else { self.ready.push_back(key) }
        }
    }

    pub(super) fn watch(&mut self, key: Key) {
        let Some(link) = self.links.get(key) else { return };
        if link.unwatched() {
            // A UDP socket is hardly ever full.
            let to_send = matches!(link.socket, Socket::Stream(_)) || !link.can.send;
            (link.state.watched, link.state.watched_to_send) = (true, to_send);
            let trigger = if to_send { Trigger::Edges } else { Trigger::ReadEdges };
            if let Err(error) = link.socket.as_watch().watch(&self.reactor, key.0, trigger) {
                let fault = Fault { deed: Deed::Open, errno: error.raw_os_error().unwrap_or(0) };
                self.close(key, Err(Cause::Fault(fault)), true);
            }
        }
    }

    /// Registers the links that wait and that the reactor does not watch: all of them on an idle
    /// worker, on one that is `busy` or tries its links first the longest waiting, a few at a time.
    /// The next wait reports a socket's readiness by then.
    pub(super) fn register(&mut self, now: Mono, busy: bool) {
        if busy && self.platform.has(Defect::RegisterWhenIdle) {
            return;
        }
        let tries = self.tries();
        let mut left = if busy { AT_ONCE } else { usize::MAX };
        while let Some(&(key, since)) = self.unregistered.front() {
            if left == 0 || (busy && now.since(since) < REGISTER_AFTER) {
                break;
            }
            self.unregistered.pop_front();
            let Some(link) = self.links.get(key) else { continue };
            link.state.to_register = false;
            if link.unwatched() && (busy || !link.state.queued) && !(tries && link.is_tried()) {
                self.watch(key);
                left -= 1;
            }
        }
    }

    /// Registers all links once they are tried no longer: at once, since a worker that is busy from
    /// now on would not find the time while some of them wait.
    pub(super) fn watch_untried(&mut self) {
        let tries = self.tries();
        if std::mem::replace(&mut self.has_turned, tries) && !tries {
            for key in self.links.keys() {
                self.watch(key);
            }
        }
    }

    /// Gives a flow an event, and then its turn.
    pub(super) fn deliver(&mut self, key: Key, event: FlowEvent) {
        let now = self.clock.now();
        let Some(link) = self.links.get(key) else { return };
        let mut cx = self.own.cx(now);
        match link.flow.on_event(&mut cx, event) {
            Ok(()) => self.queue(key),
            Err(violation) => self.close(key, Err(Cause::Violation(violation)), true),
        }
    }

    pub(super) fn turn(&mut self, key: Key) {
        let Some(link) = self.links.get(key) else { return };
        if link.phase == Phase::Connecting {
            return self.connected(key);
        }
        if let Some(now) = self.take_turn(key, false) {
            self.settle(key, now);
        }
    }

    /// A turn of a link that reads whether it is known to be ready or not, unless it does not want
    /// to.
    pub(super) fn try_turn(&mut self, key: Key, sleeps: bool) -> TurnResult {
        let Some(link) = self.links.get(key) else { return TurnResult::Gone };
        if link.phase == Phase::Connecting || link.counted.is_none() {
            // Not up yet, or not known to count: the usual way.
            link.can.read |= link.phase == Phase::Open;
            self.turn(key);
            return TurnResult::Gone;
        }
        link.can.read = true;
        let Some(now) = self.take_turn(key, sleeps) else { return TurnResult::Gone };
        let Some(link) = self.links.get(key) else { return TurnResult::Gone };
        let want = link.flow.interest();
        // The clock handles later due times, not the next of two calls.
        let later = matches!(want.send, When::At(at) if at > now)
            || (sleeps && want.wake.is_some_and(|wake| wake.since(now) < SOON));
        let moves = want.send.is_due(now) || want.read != Read::Pause;
        let goes_on = want.end.is_none() && moves && link.can.send && !later && link.budget.is_none();
        if goes_on { TurnResult::Turn(now) } else { TurnResult::Enough(now) }
    }

    /// A turn; `None` when it was the last.
    pub(super) fn take_turn(&mut self, key: Key, sleeps: bool) -> Option<Mono> {
        let link = self.links.get(key)?;
        let can = Can { send: link.can.send, read: link.can.read || link.state.hung_up };
        let now = Mono(0);
        let mut cx = self.own.cx(now);
        let result = match &mut link.socket {
            Socket::Stream(stream) => {
                let most = self.memory.scratch.room;
                if link.state.bulk && link.state.whole_segments {
                    // Asked anew each time: it grows with the window and shrinks with the path.
                    self.memory.scratch.room = whole_segments(most.min(LONGEST_WHOLE), stream.mss());
                }
                let mut net = stream.net(&mut self.memory.buffer, &self.clock, sleeps);
                let budget = link.budget.as_deref_mut();
                let scratch = &mut self.memory.scratch;
                let done = transport::turn(&mut net, &mut *link.flow, &mut cx, scratch, can, budget);
                self.memory.scratch.room = most;
                done
            }
            Socket::Datagram(udp) => {
                let budget = link.budget.as_deref_mut();
                self.memory.packets.turn(udp, &mut *link.flow, &mut cx, (&self.clock, sleeps), can, budget)
            }
        };
        let now = cx.now;
        match result {
            Ok(done) => {
                link.state.fresh &= done.sent + done.got == 0;
                if link.state.pending && done.sent + done.got > 0 {
                    link.judge(&done, now);
                }
                link.state.bulk = done.sent > SHORT || (link.state.bulk && done.sent == 0);
                let (moved, datagrams) = (done.sent + done.got, matches!(link.socket, Socket::Datagram(_)));
                if datagrams {
                    self.idle.sent_since_yield += done.sent;
                    self.idle.got += done.got;
                    self.idle.sent += done.sent;
                }
                self.idle.active |= moved > 0 && (datagrams || moved <= SHORT);
                link.can.send &= !done.full;
                // A filled buffer hides the rest.
                link.can.read &= !done.empty || done.got >= self.memory.buffer.len();
                if done.got > 0
                    && std::mem::take(&mut link.state.unheard)
                    && let Some(watch) = self.groups.get_mut(&link.owner)
                {
                    watch.state.unheard = watch.state.unheard.saturating_sub(1);
                    watch.state.ask_at = None;
                }
                if done.sent + done.got > 0
                    && let Some(group) = link.counted
                {
                    self.own.rec.tally(group).last = now;
                    self.own.rec.tally(Group::ALL).last = now;
                }
                if link.budget.is_some() && self.curbed(key) {
                    return None;
                }
                Some(now)
            }
            Err(cause) => {
                self.close(key, Err(cause), true);
                None
            }
        }
    }

    /// Reports the effect of a limit on a link; returns whether the limit has ended the link.
    fn curbed(&mut self, key: Key) -> bool {
        let Some(link) = self.links.get(key) else { return true };
        let Some(budget) = &mut link.budget else { return false };
        let (over, news) = (budget.is_over(), budget.news());
        let (target, group) = (link.target, link.counted);
        if let Some(text) = news {
            self.report(Finding::Limited { group, ends: over, text: format!("{target}: {text}") });
        }
        if over {
            // The flow reports its bytes until now.
            self.deliver(key, FlowEvent::Stop);
            self.close(key, Ok(Ending::Stopped), true);
        }
        over
    }

    /// After a turn: what next?
    pub(super) fn settle(&mut self, key: Key, now: Mono) {
        let tries = self.tries();
        let Some(link) = self.links.get(key) else { return };
        if link.counted.is_none() && link.flow.id().row.is_some() {
            self.attach(key, now);
        }
        let Some(link) = self.links.get(key) else { return };
        let Interest { send, read, wake, end } = link.flow.interest();
        match end {
            Some(End::Done { how, reset }) => return self.close(key, Ok(how), reset),
            // Sessions read streams only.
            Some(End::Detach) if matches!(link.socket, Socket::Datagram(_)) => {
                return self.close(key, Ok(Ending::Stopped), false);
            }
            Some(End::Detach)
                if link.state.pending && !(link.state.to_detach && (link.can.read || link.state.hung_up)) =>
            {
                return self.detach_later(key);
            }
            Some(End::Detach) => return self.detach(key),
            Some(End::Migrate(to)) => return self.migrate(key, to),
            Some(End::Replace) => return self.replace(key, now),
            Some(End::Half) if !link.state.half_closed => {
                link.state.half_closed = true;
                // A flow of datagrams has no end to send.
                if let Socket::Stream(stream) = &link.socket {
                    stream.half_close();
                }
            }
            Some(End::Half) | None => {}
        }
        // A direction that waits for its share is nothing that the socket could be ready for.
        let held = |budget: &LinkBudget| {
            let [send, read] = [Direction::Sent, Direction::Received].map(|way| budget.held(way));
            (send, read, budget.allowance().until())
        };
        let (held_send, held_read, over) = link.budget.as_deref().map_or((None, None, None), held);
        let due = send.is_due(now) && held_send.is_none();
        let reads = read != Read::Pause && held_read.is_none();
        let readable = link.can.read || link.state.hung_up;
        // A link that goes on in one direction may wait in the other.
        let waits = (due && !link.can.send) || (reads && !readable) || link.socket.awaits_stamps();
        let tried = tries && link.is_tried();
        if tried && self.idle.spins() {
            link.unwatch(&self.reactor);
        }
        let watched = tried || !link.unwatched();
        // Only where the reactor forgets reported sockets.
        if waits && link.state.watched && link.socket.rearm(&self.reactor, key, reads, due).is_err() {
            link.unwatch(&self.reactor);
        }
        if waits && !(watched && (tried || link.state.watched)) && !link.state.to_register {
            link.state.to_register = true;
            self.unregistered.push_back((key, now));
        }
        if (due && link.can.send) || (reads && readable) {
            return self.queue(key);
        }
        let later = if let When::At(at) = send { Some(at).filter(|at| *at > now) } else { None };
        let held = held_send.into_iter().chain(held_read).chain(over);
        if let Some(at) = later.into_iter().chain(wake).chain(held).min() {
            self.arm(key, at);
        }
    }

    /// Another flow takes the place of the one that has identified the link.
    fn replace(&mut self, key: Key, now: Mono) {
        let Some(link) = self.links.get(key) else { return };
        let (Some(flow), Some(path)) = (link.flow.successor(), link.path) else {
            return self.close(key, Ok(Ending::Stopped), false);
        };
        link.flow = flow;
        self.deliver(key, FlowEvent::Up(path));
        self.settle(key, now);
    }

    /// The session has nothing to read yet: until the peer says something the link keeps its place
    /// among the pending ones.
    fn detach_later(&mut self, key: Key) {
        let Some(link) = self.links.get(key) else { return };
        if !std::mem::replace(&mut link.state.to_detach, true) {
            // Registered anew, the reactor reports bytes that have arrived before.
            link.unwatch(&self.reactor);
            link.can.read = false;
            self.watch(key);
        }
    }

    pub(super) fn detach(&mut self, key: Key) {
        let Some(mut link) = self.links.remove(key) else { return };
        link.unwatch(&self.reactor);
        if let Link { socket: Socket::Stream(stream), path: Some(path), .. } = *link {
            self.report(Report::Detached { stream, path });
        }
    }

    pub(super) fn migrate(&mut self, key: Key, to: u16) {
        let Some(mut link) = self.links.remove(key) else { return };
        link.unwatch(&self.reactor);
        let Link { socket, path: Some(path), flow, place, .. } = *link else { return };
        if let Some((mailbox, waker)) = self.config.peers.get(usize::from(to)) {
            mailbox.send(Command::Adopt { socket, path, flow, place });
            waker.wake();
        }
    }
}

/// The largest number of bytes up to `most` that fills whole segments of this size; `most` where
/// the size is not known, or one does not fit.
fn whole_segments(most: usize, mss: Option<u32>) -> usize {
    let mss = mss.map_or(1, |mss| usize::clamped(mss.max(1)));
    if mss > most { most } else { most / mss * mss }
}

#[cfg(test)]
mod tests {
    use super::whole_segments;

    #[test]
    fn a_send_ends_where_a_segment_ends() {
        assert_eq!(whole_segments(131_328, Some(65_483)), 130_966);
        assert_eq!(whole_segments(131_328, Some(1_448)), 130_320);
        assert_eq!(whole_segments(4_352, Some(65_483)), 4_352);
        assert_eq!(whole_segments(65_483, Some(65_483)), 65_483);
        assert_eq!((whole_segments(100, None), whole_segments(100, Some(0))), (100, 100));
    }
}
