//! Following a run to its end: intervals with the remote ends' reports, time-outs, totals.

use super::{
    ANSWERING, COUNTING, CUT_AFTER, Client, GRACE, GROUP, HEARTBEAT, LATE_REPORT, PATIENCE, SILENCE, Server,
    Stage, Step, UNANSWERED, reach,
};
use crate::message::Message;
use crate::udp::found;
use metrics::{Mono, SECOND, Tally};
use model::ending::Asked;
use model::{Event, Status};
use transport::Order;

impl Client {
    /// Ends the open connections in good order, by force at `kill_at`.
    pub(super) fn drain(&mut self, kill_at: Mono) {
        match self.stage {
            Stage::Running => {
                self.stage = Stage::Draining;
                self.stop_at = None;
                self.kill_at = Some(kill_at);
                self.driver.order(GROUP, Order::Stop);
            }
            Stage::Draining => self.kill_at = Some(self.kill_at.map_or(kill_at, |at| at.min(kill_at))),
            Stage::Agreeing => {
                self.finish(Status::Interrupted, self.driver.reason.clone());
            }
            Stage::Collecting | Stage::Over => {}
        }
    }

    /// Handles an interrupt. First call: ends the run in good order. Later: aborts open connections. Servers without results are given up
    /// by [`Client::limit`].
    pub(super) fn stop(&mut self, now: Mono) {
        if self.asked.is_none() {
            self.asked = Some(now);
            if matches!(self.stage, Stage::Agreeing | Stage::Running) {
                self.driver.status = Status::Interrupted;
                self.driver.reason.get_or_insert("interrupted by the user".to_owned());
            }
            // A live server answers; silence shows a dead one.
            self.ping_long();
            return self.drain(now.plus(self.for_all(GRACE)));
        }
        if self.stage == Stage::Draining {
            self.driver.status = Status::Interrupted;
            self.cut_off(now);
        }
    }

    /// No connection is left: the group is dropped and the remote ends' results are asked for.
    pub(super) fn collect(&mut self, now: Mono) {
        if !matches!(self.stage, Stage::Running | Stage::Draining) {
            return;
        }
        self.stage = Stage::Collecting;
        (self.stop_at, self.kill_at) = (None, None);
        self.driver.order(GROUP, Order::Drop);
        self.end_sessions(now);
    }

    /// Asks the servers for their results, which come once their connections have ended.
    fn end_sessions(&mut self, now: Mono) {
        for at in self.servers_in(|step| step == Step::Running) {
            self.say(at, &Message::Stop);
            self.enter(at, Step::Collecting, now);
        }
    }

    /// Aborts the open connections. The servers are told before: to an end that does not know that the run is over, an aborted
    /// connection is one that failed.
    fn cut_off(&mut self, now: Mono) {
        self.kill_at = None;
        if self.servers.iter().any(|server| server.step == Step::Running) {
            self.end_sessions(now);
            self.kill_at = Some(now.plus(CUT_AFTER));
        } else {
            self.driver.order(GROUP, Order::Kill);
        }
    }

    pub(super) fn report(&mut self) {
        self.release(true, Mono(u64::MAX));
        self.trains();
        self.settle();
        self.flows();
        if let Some(local) = self.local.take() {
            self.driver.ask(Event::Local(local));
        }
        for server in &mut self.servers {
            if let Some(mut totals) = server.totals.take() {
                totals.who = server.peer.address.to_string();
                self.driver.ask(Event::Remote(totals));
            }
        }
    }

    /// Adds to the totals of each receiver what it could not know to be lost.
    fn settle(&mut self) {
        let (local, servers) = (&mut self.local, &mut self.servers);
        self.tracks.settle(|end, lost| {
            let totals = match end {
                None => local.as_mut(),
                Some(at) => servers.get_mut(at).and_then(|server| server.totals.as_mut()),
            };
            if let Some(packets) = totals.and_then(|totals| totals.packets.as_mut()) {
                packets.lost_last(lost);
            }
        });
    }

    /// Tells what both ends know of single flows, and of single datagrams, if they do.
    fn flows(&mut self) {
        let phase = &self.plan.phase;
        let Some(probe) = &phase.probe else { return };
        if phase.media.is_some() || phase.train.is_some() {
            return;
        }
        let (up, down) = (phase.pattern.sends_up(), phase.pattern.sends_down());
        let rows = self.tracks.flows(up, down);
        let mut events = Vec::new();
        if rows.len() > 1 {
            events.push(Event::Flows { rows });
        }
        if probe.samples {
            let whole = self.tracks.rows(probe.late_ns);
            events.extend(whole.filter(|rows| !rows.is_empty()).map(|rows| Event::Packets { rows }));
        }
        events.into_iter().for_each(|event| self.driver.ask(event));
    }

    /// Tells what both ends remember of packet trains, if they do.
    fn trains(&mut self) {
        let phase = &self.plan.phase;
        let (Some(train), Some(probe), Some(local)) = (&phase.train, &phase.probe, self.log.take()) else {
            return;
        };
        // They go to, or come from, one server.
        let remembers = |s: &&Server| !(s.log.sent.is_empty() && s.log.got.is_empty());
        let Some(server) = self.servers.iter().find(remembers).or(self.servers.first()) else { return };
        let headers = if server.peer.address.ip().to_canonical().is_ipv4() { 20 + 8 } else { 40 + 8 };
        let (sender, receiver) =
            if phase.pattern.sends_up() { (&*local, &server.log) } else { (&server.log, &*local) };
        let Some((trains, rows)) = found(train, probe.size, headers, sender, receiver) else { return };
        let samples = train.samples;
        self.driver.ask(Event::Trains(Box::new(trains)));
        if samples {
            self.driver.ask(Event::TrainPackets { rows });
        }
    }

    pub(super) fn finish(&mut self, status: Status, reason: Option<String>) {
        if self.stage == Stage::Over {
            return;
        }
        // A client that only asks servers to stop measures nothing.
        let collected = std::mem::replace(&mut self.stage, Stage::Over) == Stage::Collecting;
        for at in 0..self.servers.len() {
            self.say(at, &Message::Bye);
            if let Some(link) = self.servers[at].link.take() {
                self.driver.close(link);
            }
        }
        (self.driver.status, self.driver.reason) = (status, reason);
        let asked = Asked { phase: &self.plan.phase, protocol: "native", needs_report: false };
        self.driver.finish(Some(asked).filter(|_| collected), None);
    }

    pub(super) fn tally(&mut self, now: Mono, index: u32, from: Mono, to: Mono, tally: &Tally) {
        if self.stage == Stage::Running {
            self.hold(to, tally);
        }
        let interval = self.driver.intervals.next(index, from, to, tally);
        self.silence.local(&interval, from, tally);
        self.waiting.push_back((now, interval));
        self.release(false, now);
    }

    /// Emits the intervals whose remote reports have come, or are overdue. The remote ends' sum is told only when it is whole.
    pub(super) fn release(&mut self, all: bool, now: Mono) {
        while let Some((since, interval)) = self.waiting.front_mut() {
            let index = interval.index;
            let reports = self.servers.iter().filter(|s| s.takes_part()).map(|s| s.reports.get(&index));
            let reports: Option<Vec<_>> = reports.collect();
            if !(all || reports.is_some() || now.since(*since) > LATE_REPORT) {
                return;
            }
            for (traffic, packets) in reports.into_iter().flatten() {
                let Some(sum) = &mut interval.remote else {
                    (interval.remote, interval.remote_packets) = (Some(*traffic), packets.clone());
                    continue;
                };
                sum.beside(traffic);
                if let (Some(sum), Some(packets)) = (&mut interval.remote_packets, packets) {
                    sum.beside(packets);
                }
            }
            let interval = std::mem::take(interval);
            self.waiting.pop_front();
            self.next = index.saturating_add(1);
            for server in &mut self.servers {
                server.reports = server.reports.split_off(&self.next);
            }
            self.driver.ask(Event::Interval(Box::new(interval)));
        }
    }

    pub(super) fn beats(&self) -> bool {
        self.stage != Stage::Over && self.servers.iter().any(|s| s.step.is_long())
    }

    pub(super) fn wake(&mut self, now: Mono) {
        if self.stop_at.is_some_and(|at| at <= now) {
            self.drain(now.plus(self.for_all(GRACE)));
        }
        if self.kill_at.is_some_and(|at| at <= now) {
            self.cut_off(now);
        }
        if self.beats() && self.beat <= now {
            self.beat = now.plus(HEARTBEAT);
            self.ping_long();
        }
        for at in 0..self.servers.len() {
            if self.limit(&self.servers[at]).is_some_and(|limit| limit <= now) {
                self.overdue(at, now);
            }
        }
        self.release(false, now);
    }

    /// Until when a server may remain in its step.
    pub(super) fn limit(&self, server: &Server) -> Option<Mono> {
        let heard = server.heard.plus(SILENCE);
        let limit = match server.step {
            Step::Over => return None,
            Step::Collecting => heard.min(server.since.plus(self.for_all(COUNTING))),
            step if step.is_long() => heard,
            Step::Reaching => server.since.plus(reach::limit(server.base_rtt)),
            _ => server.since.plus(PATIENCE),
        };
        Some(self.given_up_at(server).map_or(limit, |at| at.min(limit)))
    }

    /// When a server without results is given up after an interrupt: one that has answered since is alive, however long its results take
    /// on a loaded host or a long path.
    fn given_up_at(&self, server: &Server) -> Option<Mono> {
        let since = self.asked?;
        let answered = server.heard >= since;
        Some(since.plus(if answered { ANSWERING } else { UNANSWERED.max(2 * server.base_rtt) }))
    }

    /// A server has remained in its step for too long.
    fn overdue(&mut self, at: usize, now: Mono) {
        let Server { step, since, heard, .. } = self.servers[at];
        let (patience, counting) = (PATIENCE / SECOND, self.for_all(COUNTING));
        let why = match step {
            _ if self.given_up_at(&self.servers[at]).is_some_and(|at| at <= now) => {
                "it was not waited for after the interrupt".to_owned()
            }
            // Its hellos have remained unanswered: does it answer on the control connection?
            Step::Reaching => return self.ping(at, Step::Unreached, now),
            Step::Connecting => format!("no connection within {patience} s"),
            Step::Greeting => {
                format!("it accepted the connection but said nothing for {patience} s: is it netcaliper?")
            }
            Step::Collecting if now.since(since) >= counting => {
                format!("it sent no results within {} s", counting / SECOND)
            }
            step if !step.is_long() => format!("no answer within {patience} s"),
            _ if self.stage == Stage::Agreeing => {
                format!("vanished: nothing was heard from it for {} s", SILENCE / SECOND)
            }
            _ => format!("vanished: nothing arrived {}", self.after(heard)),
        };
        self.lose(at, &why, now);
    }

    /// Says to the servers whose step may last that this end is here; they answer.
    fn ping_long(&mut self) {
        for at in self.servers_in(Step::is_long) {
            self.say(at, &Message::Ping { n: 0 });
        }
    }
}
