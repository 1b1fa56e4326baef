//! Ends of links: counted, reported, forgotten.

use super::Worker;
use super::drain::settle_drops;
use crate::link::{Key, Link, Phase};
use metrics::{Clamped, Ending, Group, Mono, SECOND, real};
use model::{ConnectionRecord, Failure};
use std::net::SocketAddr;
use transport::{Cause, Clock as _, Deed, Defect, Fault, Flow, LinkSource, Platform, Target, Violation};

/// From this long after a group's stop, ns, a fault of one of its connections is taken for the
/// abort by which the other end ends slow ones. A client announces that abort a tenth of a second
/// before. An earlier fault is a failure: it may be the reason of the stop.
const CUT_BY_PEER: u64 = SECOND / 20;

impl<P: Platform> Worker<P> {
    /// Ends a link: counts, reports and forgets it.
    pub(super) fn close(&mut self, key: Key, how: Result<Ending, Cause>, reset: bool) {
        let Some(link) = self.links.remove(key) else { return };
        let now = self.clock.now();
        let Some(mut link) = self.unless_elsewhere(*link, &how, now) else { return };
        let how = self.softened(&link, how, now);
        if let Some(group) = link.counted {
            // Drops after the end of the measurement do not count.
            if self.groups.get(&group).is_some_and(|watch| watch.state.stopped.is_none()) {
                settle_drops(&mut link, &mut self.own.rec);
            }
            self.account(&link, group, &how, now);
        }
        let Link { socket, flow, owner, counted, phase, state, .. } = link;
        let row = flow.id().row;
        if state.watched {
            socket.as_watch().before_close(&self.reactor);
        }
        socket.close(reset);
        if let Some(watch) = self.groups.get_mut(&owner) {
            if phase == Phase::Connecting {
                watch.state.connecting = watch.state.connecting.saturating_sub(1);
            }
            watch.state.unheard = watch.state.unheard.saturating_sub(state.unheard.into());
            watch.state.ask_at = None;
            if let Some(source) = &mut watch.source {
                let mut cx = self.own.cx(now);
                source.on_closed(&mut cx, flow, &how);
            }
        }
        // The source reads the counts before.
        if let Some(row) = row {
            self.own.rec.close(row);
        }
        for group in
            counted.into_iter().chain((owner == Group::ALL && counted.is_some()).then_some(Group::ALL))
        {
            if let Some(watch) = self.groups.get_mut(&group) {
                let closed = u64::from(!self.platform.has(Defect::NotForgotten));
                watch.state.open = watch.state.open.saturating_sub(closed);
            }
        }
        if let Some(group) = counted {
            self.check_idle(group);
        }
    }

    /// The link, unless it could not be connected and its source has another address for its flow.
    fn unless_elsewhere(&mut self, link: Link<P>, how: &Result<Ending, Cause>, now: Mono) -> Option<Link<P>> {
        let (Phase::Connecting, Err(Cause::Fault(fault))) = (link.phase, how) else { return Some(link) };
        let Link { flow, target, owner, .. } = link;
        let flow = self.unless_kept(owner, flow, target, *fault, now);
        let Some(flow) = flow else {
            if link.state.watched {
                link.socket.as_watch().before_close(&self.reactor);
            }
            link.socket.close(true);
            if let Some(watch) = self.groups.get_mut(&owner) {
                watch.state.connecting = watch.state.connecting.saturating_sub(1);
                watch.state.open = watch.state.open.saturating_sub(1);
            }
            return None;
        };
        Some(Link { flow, ..link })
    }

    /// The flow of a link that could not be connected, unless its source keeps it for another
    /// address.
    fn unless_kept(
        &mut self,
        group: Group,
        flow: Box<dyn Flow>,
        to: SocketAddr,
        fault: Fault,
        now: Mono,
    ) -> Option<Box<dyn Flow>> {
        let Some(watch) = self.groups.get_mut(&group).filter(|watch| watch.state.stopped.is_none()) else {
            return Some(flow);
        };
        let Some(LinkSource::Connector(connector)) = &mut watch.source else { return Some(flow) };
        let mut cx = self.own.cx(now);
        let flow = connector.on_unconnected(&mut cx, flow, to, fault);
        if flow.is_none() {
            watch.state.ask_at = None;
        }
        flow
    }

    /// Of a run that is over a connection is cut off, by this end or by the other one: it has not
    /// failed.
    fn softened(&mut self, link: &Link<P>, how: Result<Ending, Cause>, now: Mono) -> Result<Ending, Cause> {
        let after = match how {
            Err(Cause::Violation(Violation::Vanished)) => 0,
            Err(Cause::Fault(_)) => CUT_BY_PEER,
            _ => return how,
        };
        let Some(group) = link.counted else { return how };
        let stopped = self.groups.get(&group).and_then(|watch| watch.state.stopped);
        if stopped.is_none_or(|stopped| now.since(stopped) < after) {
            return how;
        }
        // One that was still connecting is not counted at all.
        if link.phase == Phase::Open {
            let told = || match &how {
                Err(Cause::Fault(fault)) => format!("{}: {fault}, after the end of the run", link.target),
                _ => {
                    "cut off: the connection did not end in time, so the ends could not compare their counts"
                        .to_owned()
                }
            };
            self.own.rec.tally(group).failed(Ending::Stopped, "cut off at the end of the run", told);
        }
        Ok(Ending::Stopped)
    }

    pub(super) fn account(&mut self, link: &Link<P>, group: Group, how: &Result<Ending, Cause>, now: Mono) {
        // A link that the end of the run overtook while it was connecting has not failed, and has
        // not been.
        if link.phase == Phase::Connecting && how.is_ok() {
            return;
        }
        let id = link.flow.id();
        let ending = how.as_ref().map_or_else(Cause::ending, |&ending| ending);
        let (counts, since) = id.row.map_or((metrics::Counts::default(), now), |row| self.own.rec.life(row));
        let until = id.row.and_then(|row| self.own.rec.completed(row)).unwrap_or(now);
        let ended = id.row.and_then(|row| self.own.rec.ended(row)).unwrap_or(now);
        let watch = self.groups.get(&group);
        // A link may be opened before the start of its measurement.
        let start = watch.map_or(since, |watch| watch.plan.start);
        let duration = until.since(since.max(start)).min(ended.since(start));
        let (records, asks, frames) =
            watch.map_or((false, false, false), |w| (w.plan.records, w.plan.info, w.plan.frames));
        let info = if link.phase == Phase::Open && (asks || records) { link.socket.info() } else { None };
        // An accepting end has its class after the handshake, before its first bytes.
        let classed = link.phase == Phase::Open
            && watch.is_some_and(|watch| watch.plan.sockets.dscp.is_some())
            && (link.connect_ns.is_none() || counts.rx_bytes > 0);
        let dscp = if classed { link.socket.received_dscp() } else { None };
        let bytes = counts.tx_bytes + counts.rx_bytes;
        let tally = self.own.rec.tally(group);
        tally.ended(ending);
        tally.turned = tally.turned.max(ended);
        tally.ended_tx += counts.tx_bytes;
        if let Some(info) = &info {
            tally.tcp.add(info);
            let mut ecn = link.state.ecn.as_deref().copied().unwrap_or_default();
            ecn.read(info);
            tally.tcp.see_ecn(&ecn);
            tally.retransmits += u64::from(info.retransmits.saturating_sub(link.state.retransmits));
        }
        dscp.into_iter().for_each(|dscp| tally.tcp.see(dscp));
        if let Err(cause) = how {
            tally.failed(ending, &name(cause), || format!("{}: {cause}", link.target));
        }
        if ending == Ending::Completed {
            tally.transfer_ns.record(duration);
        }
        if id.row.is_some() && duration > 0 && matches!(ending, Ending::Completed | Ending::Stopped) {
            let rate = real(bytes) * 1e9 / real(duration);
            tally.rate.record(u64::clamped(rate));
            tally.slots.add(id.slot, bytes, duration);
        }
        if let Some(remote) = tally.remote(link.target.ip()) {
            remote.connections += 1;
            remote.failed += u64::from(how.is_err());
            remote.tx_bytes += counts.tx_bytes;
            remote.rx_bytes += counts.rx_bytes;
            remote.time_ns += duration;
        }
        if link.owner == Group::ALL {
            let tally = self.own.rec.tally(Group::ALL);
            tally.ended(ending);
            tally.turned = tally.turned.max(ended);
        }
        if records || how.is_err() {
            self.ended.push(ConnectionRecord {
                id: id.id,
                local: link.path.map(|p| p.local),
                remote: link.target,
                ended_ns: ended.since(start),
                tx_bytes: counts.tx_bytes,
                rx_bytes: counts.rx_bytes,
                connect_ns: link.connect_ns,
                duration_ns: duration,
                result: ending,
                error: how.as_ref().err().map(ToString::to_string),
                failure: how.as_ref().err().map(failure),
                tcp: info,
                frames: frames.then_some(counts.frames),
            });
        }
    }

    /// A link that could not even begin to connect.
    pub(super) fn never_was(&mut self, group: Group, flow: Box<dyn Flow>, target: &Target, fault: Fault) {
        let cause = Cause::Fault(fault);
        let now = self.clock.now();
        let Some(flow) = self.unless_kept(group, flow, target.to, fault, now) else { return };
        let tally = self.own.rec.tally(group);
        tally.ended(Ending::NetworkError);
        tally.turned = now;
        tally.failed(Ending::NetworkError, &fault.to_string(), || format!("{}: {fault}", target.to));
        if let Some(remote) = tally.remote(target.to.ip()) {
            remote.connections += 1;
            remote.failed += 1;
        }
        let start = self.groups.get(&group).map_or(now, |w| w.plan.start);
        self.ended.push(ConnectionRecord {
            id: flow.id().id,
            local: target.from,
            remote: target.to,
            ended_ns: now.since(start),
            tx_bytes: 0,
            rx_bytes: 0,
            connect_ns: None,
            duration_ns: 0,
            result: Ending::NetworkError,
            error: Some(cause.to_string()),
            failure: Some(failure(&cause)),
            tcp: None,
            frames: None,
        });
        if let Some(source) = self.groups.get_mut(&group).and_then(|w| w.source.as_mut()) {
            let mut cx = self.own.cx(now);
            source.on_closed(&mut cx, flow, &Err(cause));
        }
    }
}

/// The failure as data, without its text. A violation that a system call caused is reported as the
/// call's failure.
fn failure(cause: &Cause) -> Failure {
    let fault = match cause {
        Cause::Fault(fault) | Cause::Violation(Violation::Refused(fault)) => fault,
        Cause::Violation(Violation::Likely(what, _)) if matches!(**what, Violation::Refused(_)) => {
            return failure(&Cause::Violation((**what).clone()));
        }
        Cause::Violation(violation) => return violation_class(violation),
    };
    let deed = match fault.deed {
        Deed::Open => "open",
        Deed::Bind => "bind",
        Deed::Listen => "listen",
        Deed::Connect => "connect",
        Deed::Send => "send",
        Deed::Receive => "receive",
    };
    Failure::System { deed: deed.to_owned(), errno: fault.errno }
}

fn violation_class(violation: &Violation) -> Failure {
    match violation {
        Violation::BadData { .. } | Violation::Reported { .. } => Failure::BadData,
        Violation::TooFew { .. } | Violation::Unconfirmed { .. } => Failure::TooFew,
        Violation::TooMany { .. } => Failure::TooMany,
        Violation::Stalled(_) => Failure::Stalled,
        Violation::Likely(what, _) => violation_class(what),
        _ => Failure::Other,
    }
}

/// Failures with the same name are counted together.
fn name(cause: &Cause) -> String {
    match cause {
        Cause::Fault(fault) => fault.to_string(),
        Cause::Violation(violation) => violation.name().to_owned(),
    }
}
