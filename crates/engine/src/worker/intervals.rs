//! Intervals and timers.

use super::{GroupState, Worker};
use crate::link::{Key, Phase};
use metrics::{Group, Mono, Sample, Tally, Window};
use model::Finding;
use std::cmp::Reverse;
use transport::{Cause, Clock as _, Deed, Defect, Fault, FlowEvent, GroupPlan, Platform};

/// Timers that a worker may keep beyond two for each link.
const SPARE_TIMERS: usize = 64;
/// Links of which TCP_INFO is read per interval.
const SAMPLES: usize = 256;

impl<P: Platform> Worker<P> {
    /// Cuts the intervals that are over. The wall clock, which may be slewed, is looked at anew.
    pub(super) fn boundaries(&mut self, now: Mono) {
        self.own.wall = self.clock.sample();
        while let Some(group) =
            self.groups.values().find(|w| !w.state.closed && w.boundary() <= now).map(|w| w.plan.group)
        {
            let Some(watch) = self.groups.get_mut(&group) else { return };
            let last = watch.plan.end.is_some_and(|end| watch.boundary() >= end);
            self.tally_up(group, now, false);
            if let Some(watch) = self.groups.get_mut(&group)
                && last
            {
                watch.state.closed = true;
            }
        }
        // The wall clock may have been set meanwhile, and its error has grown or shrunk.
        self.own.wall = self.clock.sample();
        let open = self.groups.values().filter(|w| !w.state.closed);
        self.next_boundary = open.map(GroupState::boundary).min().unwrap_or(Mono(u64::MAX));
    }

    /// Cuts the last interval before its time; without open links, at the last payload,
    /// establishment or ending of a connection: an interval contains its counts.
    pub(super) fn cut(&mut self, group: Group) {
        let now = self.clock.now();
        self.boundaries(now);
        let Some(watch) = self.groups.get_mut(&group) else { return };
        if watch.state.closed {
            return;
        }
        watch.state.closed = true;
        let from = watch.state.from;
        let tally = self.own.rec.tally(group);
        let last = tally.last.max(tally.turned);
        let to = match watch.tail_end(now) {
            Some((over, schedules)) => {
                tally.over = Some(schedules);
                last.max(over)
            }
            None if watch.state.open == 0 => last,
            None => now,
        };
        self.tally_up(group, to.max(from), true);
    }

    fn tally_up(&mut self, group: Group, to: Mono, last: bool) {
        self.sample(group);
        let Some(watch) = self.groups.get_mut(&group) else { return };
        let index = watch.state.index;
        watch.state.index += 1;
        let from = std::mem::replace(&mut watch.state.from, to);
        let open = watch.state.open.saturating_sub(u64::from(watch.state.connecting));
        let peak = std::mem::replace(&mut watch.state.peak, open);
        // The connections that the interval counts as ended are reported before it, so that a table
        // of them is never behind.
        self.flush(true);
        let mut tally = Box::new(self.own.rec.take_tally(group));
        (tally.open, tally.peak) = (open, peak);
        if group == Group::ALL {
            self.record_busy(&mut tally, from, to);
        }
        if self.platform.has(Defect::LostTally) && index % 5 == 1 {
            return;
        }
        self.report(Finding::Tally { group, index, to, last, tally });
    }

    /// Reports the busy part of an interval of all groups. Links that wait for the start of their
    /// group, or after its end for late datagrams, are not counted as open.
    fn record_busy(&mut self, tally: &mut Tally, from: Mono, to: Mono) {
        let waits = |watch: &GroupState| {
            let GroupPlan { group, tail, start, end, .. } = &watch.plan;
            *group != Group::ALL && *tail && (*start >= to || end.is_some_and(|end| end <= from))
        };
        let waiting: u64 =
            self.groups.values().filter(|watch| waits(watch)).map(|watch| watch.state.open).sum();
        let Some(all) = self.groups.get_mut(&Group::ALL) else { return };
        tally.open = tally.open.saturating_sub(waiting);
        let Some(busy) = all.state.busy else { return };
        let until = if tally.open == 0 { tally.last.min(to) } else { to };
        // Another worker may have been busy for a part of the interval only.
        let (open, busy) = (busy > from || until < to, busy.max(from));
        tally.busy = Some(Window { from: busy, ns: until.since(busy), open });
        if all.state.open == 0 {
            all.state.busy = None;
        }
    }

    /// Reads TCP_INFO of some open links of a group, other ones each time.
    pub(super) fn sample(&mut self, group: Group) {
        if group == Group::ALL {
            return;
        }
        let keys = self.keys_of(group);
        let Some(watch) = self.groups.get_mut(&group) else { return };
        let skip = if keys.len() > SAMPLES { watch.state.sampled % keys.len() } else { 0 };
        watch.state.sampled = skip + SAMPLES;
        for &key in keys.iter().cycle().skip(skip).take(SAMPLES.min(keys.len())) {
            let Some(link) = self.links.get(key) else { continue };
            let (card, Some(info)) = (link.flow.id(), link.socket.info()) else { continue };
            let moved = card.row.map(|row| self.own.rec.life(row).0).unwrap_or_default();
            let more = info.retransmits.saturating_sub(link.state.retransmits);
            link.state.retransmits = link.state.retransmits.max(info.retransmits);
            if info.ecn.is_some_and(|ecn| ecn.negotiated) {
                link.state.ecn.get_or_insert_default().read(&info);
            }
            let tally = self.own.rec.tally(group);
            tally.retransmits += u64::from(more);
            tally.tcp.sample(&info);
            if tally.samples.len() < 64 {
                let (tx_bytes, rx_bytes) = (moved.tx_bytes, moved.rx_bytes);
                tally.samples.push(Sample { id: card.id, slot: card.slot, tx_bytes, rx_bytes, info });
            }
        }
    }

    pub(super) fn next_instant(&mut self) -> Option<Mono> {
        let timer = self.timers.peek().map(|Reverse((at, _))| *at);
        let asks = self.opening.iter().filter_map(|group| self.groups.get(group)?.state.ask_at);
        let tend = self.groups.get(&Group::ALL).and_then(|watch| watch.state.ask_at);
        let links = self.peers.as_ref().map(|peers| peers.next);
        asks.chain(timer)
            .chain(tend)
            .chain(links)
            .chain(self.accept_at)
            .chain(self.pending.look_at)
            .chain([self.next_boundary])
            .min()
            .filter(|at| *at < Mono(u64::MAX))
    }

    /// True if a connector is to be asked at once.
    pub(super) fn wants_links(&self) -> bool {
        let mut connectors = self.opening.iter().filter_map(|group| self.groups.get(group));
        connectors.any(|w| !w.state.exhausted && w.state.ask_at.is_none())
    }

    pub(super) fn due_timers(&mut self, mut now: Mono) {
        if self.platform.has(Defect::LateTimers) {
            now = Mono(now.0.saturating_sub(50_000_000));
        }
        while let Some(&Reverse((at, key))) = self.timers.peek()
            && at <= now
        {
            self.timers.pop();
            let Some(link) = self.links.get(key) else { continue };
            if link.armed == Some(at) && !self.platform.has(Defect::TimerNotRearmed) {
                link.armed = None;
            }
            if link.phase == Phase::Connecting {
                let owner = link.owner;
                let limit = self.groups.get(&owner).map_or(0, |w| w.plan.connect_timeout);
                let born = self.links.get(key).map_or(now, |l| l.born);
                if now.since(born) >= limit {
                    let fault = Fault { deed: Deed::Connect, errno: P::TIMED_OUT };
                    self.close(key, Err(Cause::Fault(fault)), true);
                } else {
                    self.arm(key, born.plus(limit));
                }
                continue;
            }
            if self.wakes(key, now) {
                // The awaited bytes may have arrived: a worker that had no core for a while sees
                // the time first.
                self.drain_one(key);
            }
            if self.wakes(key, now)
                && let Some(link) = self.links.get(key)
            {
                if let Some(state) = link.flow.wants_socket_state().then(|| link.socket.state()).flatten() {
                    self.deliver(key, FlowEvent::State(Box::new(state)));
                }
                self.deliver(key, FlowEvent::Wake);
            } else {
                self.queue(key);
            }
        }
    }

    /// True if a flow is to be woken by now.
    fn wakes(&mut self, key: Key, now: Mono) -> bool {
        self.links.get(key).and_then(|link| link.flow.interest().wake).is_some_and(|wake| wake <= now)
    }

    pub(super) fn arm(&mut self, key: Key, at: Mono) {
        let Some(link) = self.links.get(key) else { return };
        if link.armed.is_none_or(|armed| at < armed) {
            link.armed = Some(at);
            self.timers.push(Reverse((at, key)));
            if self.timers.len() > 2 * self.links.len() + SPARE_TIMERS {
                self.forget_timers();
            }
        }
    }

    /// Forgets the timers of links that are closed or wait for another instant by now. Otherwise
    /// each timer is kept until it is due: the stall timer of every short connection for its whole
    /// time-out.
    fn forget_timers(&mut self) {
        let mut timers = std::mem::take(&mut self.timers).into_vec();
        timers.retain(|Reverse((at, key))| self.links.get(*key).is_some_and(|link| link.armed == Some(*at)));
        timers.sort_unstable();
        timers.dedup();
        self.timers = timers.into();
    }
}
