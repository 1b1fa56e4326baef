//! Sessions: queueing, granting and starting them.

use super::reports::Reports;
use super::resume::Resumable;
use super::standing::Moved;
use super::{
    Answered, ClientState, GRACE_EXCLUSIVE, Held, Holder, LINGER, Server, Step, WAIT_EXCLUSIVE, is_here,
};
use crate::auth::hex;
use crate::balance::{Placed, first_worker, is_light};
use crate::budget::Budget;
use crate::message::Message;
use crate::opening::OpeningKey;
use crate::spread::{About, Bounds, Granting, ProcessPort};
use common::{Limits, Protocol};
use metrics::{Clamped, Group, SECOND, real};
use model::{Accepted, Change, Kind, Level, Phase, Schedule, Standing};
use std::ops::Range;
use std::sync::Arc;
use transport::{Allowance, Context, Link, Terms};
use uuid::Uuid;

/// Agreed bits/s of a session in each direction; `None` where messages follow each other as fast as
/// echoes return.
fn rate_of(phase: &Phase) -> Option<u64> {
    if phase.kind == Kind::Ping {
        return phase.cost().rate_bps;
    }
    let each = phase.media.map(|media| media.rate_bps).or(phase.rate_high).or(phase.rate)?;
    Some(each.saturating_mul(phase.connections.into()))
}

/// The least distance of messages of `size` bytes at `rate`, ns.
fn gap_of(size: u32, rate: u64) -> u64 {
    let bits = u128::from(size) * 8 * u128::from(SECOND);
    u64::clamped(bits.div_ceil(u128::from(rate.max(1)))).max(SHORTEST_GAP)
}
/// Shortest and longest distance of messages on a schedule, ns.
const SHORTEST_GAP: u64 = 100;
const LONGEST_GAP: u64 = 3_600 * SECOND;
/// Length of the day of a right `bytes=`, ns.
const DAY: u64 = 86_400 * SECOND;

impl Server {
    /// Sessions that are granted or run, of other runs than `run`.
    pub(super) fn others(&self, run: Uuid) -> impl Iterator<Item = &ClientState> {
        self.clients.values().filter(move |v| v.held.is_some() && v.run != run)
    }

    /// Number of sessions that a proposal has to wait for, and why: an exclusive session excludes
    /// all others, and waits for those that run.
    pub(super) fn must_wait(&self, link: Link) -> Option<(u32, &'static str)> {
        let client = self.clients.get(&link)?;
        let ours = |v: &ClientState| {
            v.run == client.run && v.held.as_ref().is_some_and(|h| h.granting.phase.exclusive)
        };
        if self.clients.values().any(ours) {
            // The parts of a run share its place: other sessions wait for all of them.
            return None;
        }
        let exclusive = self.plan.config.exclusive || client.proposal.as_ref().is_some_and(|p| p.exclusive);
        let running = u32::clamped(self.others(client.run).count());
        let before = u32::clamped(self.queue.iter().take_while(|&&l| l != link).count());
        if exclusive && running + before > 0 {
            return Some((running + before, "an exclusive session waits until no other runs"));
        }
        if self.others(client.run).any(|v| v.held.as_ref().is_some_and(|h| h.granting.phase.exclusive))
            || before > 0
        {
            return Some((running + before, "an exclusive session is running or waiting"));
        }
        None
    }

    pub(super) fn consider(&mut self, cx: &Context<'_>, link: Link) -> Answered {
        self.days.retain(|_, (began, _)| cx.now.since(*began) < DAY);
        let Some(client) = self.clients.get(&link) else { return Ok(()) };
        let Some(proposal) = client.proposal.clone() else { return Ok(()) };
        if self.ending.is_some() {
            return Err("the server is stopping".to_owned());
        }
        let protocol: &dyn Protocol = &crate::PROTOCOL;
        proposal.check().and_then(|()| protocol.check(&proposal))?;
        self.check_rights(client, &proposal)?;
        if self.plan.config.limits.connections == 0 {
            return Err("nothing is measured at this port: it is for ending another server".to_owned());
        }
        if let Some((ahead, reason)) = self.must_wait(link) {
            if let Some(client) = self.clients.get_mut(&link)
                && client.step != Step::Queued
            {
                client.step = Step::Queued;
                self.queue.push_back(link);
                self.say(link, &Message::Queued { ahead, reason: reason.to_owned() });
                self.stands(cx, link, Standing::Waiting);
            }
            return Ok(());
        }
        self.queue.retain(|&l| l != link);
        if self.places(link, &proposal) == 0 {
            return Err(
                "the server has no open files left for connections (ulimit -n): ask again later".to_owned()
            );
        }
        self.grant(cx, link, *proposal);
        Ok(())
    }

    /// Checks a proposal against the rights of the client's key and the limits of the server.
    fn check_rights(&self, client: &ClientState, phase: &Phase) -> Answered {
        let holder = client.holder.as_ref();
        if let Some(holder) = holder {
            let verb = phase.kind.name();
            if !holder.rights.permits(verb) {
                return Err(format!("{holder} is not for {verb}: {}", holder.rights.verbs()));
            }
            if phase.exclusive && !holder.rights.exclusive {
                return Err(format!("{holder} does not let you exclude others: leave --exclusive out"));
            }
        }
        let limits = self.limits_of(holder);
        if limits.bytes == Some(0) {
            let key = holder.map_or_else(|| "this server".to_owned(), Holder::to_string);
            return Err(format!("{key} has no bytes left for today: ask again tomorrow"));
        }
        let Some(most) = limits.rate else { return Ok(()) };
        let connections = phase.connections.min(limits.connections.max(1));
        if most < 8 * u64::from(connections) {
            let key = holder.map_or_else(|| "this server".to_owned(), Holder::to_string);
            return Err(format!(
                "{key} allows no more than {most} bit/s now, which is less than 8 bit/s for each connection: ask for fewer, or \
                 again when other sessions of this key have ended"
            ));
        }
        // Media, trains and traces keep schedules of their own and are not slowed down.
        let scheduled = phase.media.is_some() || phase.train.is_some() || phase.trace.is_some();
        let messages = phase.ping.filter(|_| phase.kind == Kind::Ping);
        if let Some(ping) = messages {
            let gap = gap_of(ping.size, most / u64::from(connections));
            let fits = ping.schedule.gap_ns().is_some_and(|asked| asked >= gap);
            if !fits && (gap > LONGEST_GAP || !client.slows_messages) {
                return Err(format!(
                    "your messages are more than the {most} bit/s that you may have here: ask for a lower rate (--rate) or for smaller \
                     ones (-l)"
                ));
            }
        }
        match rate_of(phase).filter(|&asked| scheduled && asked > most) {
            None => Ok(()),
            Some(asked) => Err(format!(
                "{asked} bit/s are more than the {most} bit/s that you may have here: ask for a lower rate"
            )),
        }
    }

    /// The limits for a client with this key. The sessions of a key share its rate.
    fn limits_of(&self, holder: Option<&Holder>) -> Limits {
        let mut limits = self.plan.config.limits.clone();
        let least = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        // No session has more than its address, or all clients together.
        limits.rate = [limits.rate, limits.address_rate, limits.total_rate].into_iter().flatten().min();
        let Some(Holder { name, rights }) = holder else { return limits };
        let left = rights.rate.map(|most| {
            let same = self.clients.values().filter(|v| v.holder.as_ref().is_some_and(|h| h.name == *name));
            let used =
                same.filter_map(|v| rate_of(&v.held.as_ref()?.granting.phase)).fold(0, u64::saturating_add);
            most.saturating_sub(used)
        });
        limits.rate = least(limits.rate, left);
        limits.duration_ns = least(limits.duration_ns, rights.time_ns);
        let of_day = self.days.get(name).and_then(|day| day.1.bytes_left());
        limits.bytes = least(limits.bytes, rights.bytes.map(|all| of_day.unwrap_or(all)));
        limits
    }

    pub(super) fn grant(&mut self, cx: &Context<'_>, link: Link, mut phase: Phase) {
        let now = cx.now;
        phase.exclusive |= self.plan.config.exclusive;
        let Some(client) = self.clients.get(&link) else { return };
        let (run, here, holder) = (client.run, is_here(&client.path), client.holder.clone());
        let places = self.places(link, &phase);
        let limits = self.limits_of(holder.as_ref());
        let changes = self.reduce(&mut phase, &limits, places);
        phase.first_worker = self.first_worker(&phase);
        let secret = self.secrets.short();
        let is_free = |group: &Group| !self.groups.contains_key(group);
        let group = (1..).map(Group).find(is_free).unwrap_or_default();
        self.groups.insert(group, link);
        self.sessions += 1;
        let session = self.sessions;
        let known = holder.is_some() || here;
        let host = if known { self.plan.host.clone() } else { self.plan.host.without_identity() };
        let others = u32::clamped(self.others(run).count());
        let (processes, process_ports) = self.process_ports(link, &phase);
        let answer = Message::Accepted {
            accepted: Accepted { session, changes, others },
            secret: hex(&secret),
            phase: Box::new(phase.clone()),
            host: Box::new(host),
            workers: self.plan.workers.into(),
            placement: self.plan.config.placement.describe(),
            process_ports: process_ports.clone(),
        };
        self.say(link, &answer);
        let config = &self.plan.config;
        let Some(client) = self.clients.get_mut(&link) else { return };
        let until = phase.exclusive.then(|| now.plus(WAIT_EXCLUSIVE));
        client.linger_ns = LINGER;
        client.reports = Reports::new(Budget::of(&phase)).keeping(client.resumes);
        // The sessions of a key share its rate: each keeps to its own part.
        let shares = client.holder.as_ref().is_some_and(|holder| holder.rights.rate.is_some());
        let own = rate_of(&phase).filter(|_| shares);
        let rate = limits.rate.map(|most| own.map_or(most, |own| own.min(most)));
        let key = OpeningKey::new(&secret, &client.handshake);
        let granting = Granting {
            group,
            session,
            key: key.bytes(),
            start: now,
            peer: client.path.peer.ip(),
            records: config.records,
            busy: config.limits.busy,
            eager: config.limits.eager && phase.kind == Kind::Ping,
            // The bytes of a key are counted over its sessions.
            terms: Bounds { rate, bytes: config.limits.bytes, time: limits.duration_ns.is_some() },
            phase,
            process_ports,
        };
        (client.step, client.since, client.said, client.proposal) = (Step::Granted, now, 0, None);
        client.resumable = client.resumes.then(|| Resumable::new(session, key));
        client.held = Some(Held {
            granting,
            until,
            others,
            moved: Moved::default(),
            allowance: None,
            limit: None,
            processes,
        });
        self.stands(cx, link, Standing::Granted);
        self.raise_others();
    }

    /// The worker processes that have a session's connections, next to each other, and the ports
    /// that lead there. None where the session needs what only this process has.
    fn process_ports(&self, link: Link, phase: &Phase) -> (Range<usize>, Vec<ProcessPort>) {
        let (all, connections) = (self.plan.process_ports.len(), usize::clamped(phase.connections));
        if !self.spreads(link, phase) {
            return (0..0, Vec::new());
        }
        // Sessions with fewer connections than there are processes have others in turn.
        let turn = usize::clamped(self.sessions);
        let whole = |range: &Range<usize>| !range.clone().any(|at| self.lost_processes.contains(&at));
        let found = (1..=all.min(connections)).rev().find_map(|count| {
            let places = all - count + 1;
            (0..places).map(|at| (at + turn) % places).map(|first| first..first + count).find(whole)
        });
        let Some(processes) = found else { return (0..0, Vec::new()) };
        let count = processes.len();
        let share = |at: usize| u32::clamped(connections / count + usize::from(at < connections % count));
        let ports = self.plan.process_ports[processes.clone()].iter().enumerate();
        let process_ports = ports.map(|(at, &port)| ProcessPort { port, connections: share(at) }).collect();
        (processes, process_ports)
    }

    /// True if worker processes may have a session's connections.
    fn spreads(&self, link: Link, phase: &Phase) -> bool {
        let takes = self.clients.get(&link).is_some_and(|client| client.takes_process_ports);
        // Bytes, and limits that sessions share, are counted in this process.
        let holder = self.clients.get(&link).and_then(|client| client.holder.as_ref());
        let counted = self.plan.config.clients.is_some() || self.limits_of(holder).bytes.is_some();
        takes && !counted && matches!(phase.kind, Kind::Tcp | Kind::Connect)
    }

    /// Connections for which the descriptors suffice that other sessions leave: of this process, or
    /// of the worker processes that share them, where each has as many as the fullest has left.
    fn places(&self, link: Link, phase: &Phase) -> u32 {
        let Some(most) = self.plan.config.limits.places else { return u32::MAX };
        let others = || self.clients.iter().filter(|(other, _)| **other != link);
        let held = || others().filter_map(|(_, client)| client.held.as_ref());
        let of_process = |at: usize| {
            let share =
                |held: &Held| held.granting.process_ports.get(at.checked_sub(held.processes.start)?).copied();
            most.saturating_sub(held().filter_map(share).map(|port| port.connections).sum())
        };
        let whole = (0..self.plan.process_ports.len()).filter(|at| !self.lost_processes.contains(at));
        let left: Vec<u32> = whole.filter(|_| self.spreads(link, phase)).map(of_process).collect();
        if let Some(least) = left.iter().min() {
            return least.saturating_mul(u32::clamped(left.len()));
        }
        let own = held().filter(|held| held.granting.process_ports.is_empty());
        most.saturating_sub(own.map(|held| held.granting.phase.connections).sum())
    }

    /// The worker that has a session's first connection. Alone, a client on this host is placed as
    /// it proposes, so that both ends of a connection share a core; round trips always are, because
    /// the other end counts on it.
    fn first_worker(&self, phase: &Phase) -> u32 {
        if phase.kind == Kind::Ping {
            return phase.first_worker;
        }
        let placed = |phase: &Phase| Placed {
            connections: phase.connections,
            first: phase.first_worker,
            ways: (phase.pattern.sends_up(), phase.pattern.sends_down()),
        };
        // A paced connection costs a worker next to nothing beside one that sends as fast as it
        // can; others are on other workers.
        let paced = |phase: &Phase| (phase.rate.is_some() || phase.media.is_some(), is_light(phase));
        let held = self.clients.values().filter_map(|client| Some(&client.held.as_ref()?.granting.phase));
        let alike = held.filter(|other| paced(other) == paced(phase)).map(placed);
        first_worker(self.plan.workers, placed(phase), alike)
    }

    /// Notes in every session how many of other runs are beside it now, however short they turn out
    /// to be.
    pub(super) fn raise_others(&mut self) {
        let runs: Vec<Uuid> = self.clients.values().filter(|v| v.held.is_some()).map(|v| v.run).collect();
        for client in self.clients.values_mut() {
            if let Some(held) = &mut client.held {
                let others = u32::clamped(runs.iter().filter(|&&run| run != client.run).count());
                held.others = held.others.max(others);
            }
        }
    }

    /// Brings a proposal within the limits, and says how.
    fn reduce(&self, phase: &mut Phase, limits: &Limits, places: u32) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut change = |what: &str, asked: String, given: String, why: &str| {
            changes.push(Change { what: what.into(), asked, given, why: why.into() });
        };
        let open_files = (places, "open files that this server has left (ulimit -n)");
        let (most, why) = open_files.min((limits.connections, "limit per session"));
        if phase.connections > most {
            let given = most.max(1);
            change("connections", phase.connections.to_string(), given.to_string(), why);
            phase.connections = given;
        }
        // An exclusive session blocks all others, so its duration is limited.
        let longest = limits.duration_ns.or(phase.exclusive.then_some(limits.exclusive_ns));
        if let Some(most) = longest
            && phase.duration_ns.is_none_or(|d| d > most)
        {
            let asked = phase.duration_ns.map_or("no end".into(), |d| format!("{} s", d as f64 / 1e9));
            let why = match limits.duration_ns {
                most if most != self.plan.config.limits.duration_ns => "limit of your key",
                Some(_) => "limit of this server",
                None => "limit of this server for sessions that exclude all others (--max-time sets another)",
            };
            change("duration", asked, format!("{} s", most as f64 / 1e9), why);
            phase.duration_ns = Some(most);
            phase.omit_ns = phase.omit_ns.min(most.saturating_sub(1));
        }
        if let Some(ping) = phase.ping.as_mut().filter(|ping| ping.busy && !limits.busy) {
            ping.busy = false;
            change("spinning", "on".into(), "off".into(), "this server spins only with --busy");
        }
        let both = phase.cost().bytes;
        if let Some(most) = limits.bytes.filter(|most| both.is_none_or(|bytes| bytes > *most)) {
            let of_key = limits.bytes != self.plan.config.limits.bytes;
            let why = if of_key { "limit of your key for today" } else { "limit per session" };
            let asked = phase.total_bytes.map_or("unlimited".into(), |bytes| bytes.to_string());
            change("bytes", asked, most.to_string(), why);
        }
        if let Some(most) = limits.rate {
            let each = (most / u64::from(phase.connections)).max(8);
            let Limits { rate, address_rate, total_rate, .. } = self.plan.config.limits;
            let why = match limits.rate {
                of if of == rate => "limit per session",
                of if of == address_rate => "limit per address",
                of if of == total_rate => "limit of all clients together",
                _ => "limit of your key",
            };
            if let Some(ping) = phase.ping.as_mut().filter(|_| phase.kind == Kind::Ping) {
                let gap_ns = gap_of(ping.size, each);
                if ping.schedule.gap_ns().is_none_or(|asked| asked < gap_ns) {
                    let a_second = |gap: u64| format!("{:.1}/s", 1e9 / real(gap));
                    let asked = ping.schedule.gap_ns().map_or("unlimited".into(), a_second);
                    change("messages per connection", asked, a_second(gap_ns), why);
                    ping.schedule = match ping.schedule {
                        Schedule::Poisson { .. } => Schedule::Poisson { gap_ns },
                        _ => Schedule::Fixed { gap_ns },
                    };
                }
            } else if phase.rate_high.or(phase.rate).is_none_or(|r| r > each) {
                let asked =
                    phase.rate_high.or(phase.rate).map_or("unlimited".into(), |r| format!("{r} bit/s"));
                change("rate per connection", asked, format!("{each} bit/s"), why);
                let low = phase.rate.map_or(each, |low| low.min(each));
                phase.rate_high = phase.rate_high.map(|high| high.min(each)).filter(|high| *high > low);
                phase.rate = Some(low);
                phase.burst = None;
            }
        }
        changes
    }

    /// The allowance of a session's connections, where one is limited, within its key, its address
    /// and all clients.
    fn allowance(&mut self, cx: &Context<'_>, link: Link) -> Option<Arc<Allowance>> {
        let client = self.clients.get(&link)?;
        let granting = &client.held.as_ref()?.granting;
        let address = client.path.peer.ip();
        let clients = self.plan.config.clients.as_ref();
        let mut above: Vec<_> = clients.and_then(|all| all.of_address(address, cx.now)).into_iter().collect();
        let bytes = |holder: &Holder| Some((holder.name.clone(), holder.rights.bytes?));
        if let Some((name, bytes)) = client.holder.as_ref().and_then(bytes) {
            let new = || {
                let terms = Terms { bytes: Some(bytes), ..Terms::default() };
                (cx.now, Arc::new(Allowance::new("this key a day", terms, None, cx.now)))
            };
            above.push(Arc::clone(&self.days.entry(name).or_insert_with(new).1));
        }
        granting.allowance(above, (1, 1), cx.now)
    }

    pub(super) fn begin(&mut self, cx: &Context<'_>, link: Link) {
        let allowance = self.allowance(cx, link);
        let Some(client) = self.clients.get_mut(&link) else { return };
        let Some(held) = &mut client.held else { return };
        client.step = Step::Running;
        held.allowance = allowance;
        let granting = &mut held.granting;
        // Schedules begin at the instant that the client sets, which is this much later.
        granting.start = cx.now.plus(granting.phase.lead_ns());
        let phase = &granting.phase;
        let longest = phase.ends_after().unwrap_or(self.plan.config.limits.exclusive_ns);
        held.until = phase.exclusive.then(|| cx.now.plus(longest).plus(GRACE_EXCLUSIVE));
        let mut plan = granting.plan();
        plan.allowance.clone_from(&held.allowance);
        let workers = self.plan.set(u16::from(is_light(phase)));
        plan.workers = Some(workers.clone());
        let holder = client.holder.as_ref().filter(|holder| !holder.name.is_empty());
        let text = format!(
            "session {} with {}{}: {} {}, {} connections",
            granting.session,
            client.path.peer,
            holder.map_or_else(String::new, |holder| format!(" ({holder})")),
            phase.kind.name(),
            phase.pattern,
            phase.connections
        );
        let is_spread = !granting.process_ports.is_empty();
        if is_spread {
            plan.workers = Some(self.plan.workers_of(&held.processes));
            plan.about = Some(About::Grant(granting.clone()).encode());
        } else {
            plan.promised = Some((granting.peer, granting.phase.connections));
            self.grants.insert(granting.session, Arc::new(granting.grant(workers, None)));
        }
        self.driver.group(plan, Vec::new());
        self.driver.notice(Level::Info, text);
        self.stands(cx, link, Standing::Running);
        // Worker processes would refuse connections of a session that they do not know yet.
        if !is_spread {
            self.say(link, &Message::Started);
        }
    }

    /// Grants queued sessions after one has ended, in the order of the queue.
    pub(super) fn admit_queued(&mut self, cx: &Context<'_>) {
        if self.ending.is_some() {
            for queued in std::mem::take(&mut self.queue) {
                self.refuse(cx, queued, "the server is stopping");
            }
        }
        while let Some(&link) = self.queue.front() {
            let before = self.queue.len();
            // Takes it out of the queue, unless it has to go on waiting.
            if let Err(why) = self.consider(cx, link) {
                self.refuse(cx, link, &why);
            }
            if self.queue.len() >= before {
                return;
            }
        }
    }
}
