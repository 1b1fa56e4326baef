//! Following a run to its end: intervals with the remote ends' reports, time-outs, totals.

use super::{
    ACKNOWLEDGED, ANSWERING, CONNECTION_RESET, COUNTING, CUT_AFTER, Client, FIRST_BEAT, GRACE, GROUP,
    HEARTBEAT, LIVELY, MOST_BEATS, PATIENCE, REACHED, RunServer, SILENCE, Stage, Step, UNANSWERED, reach,
};
use crate::message::Message;
use crate::udp::trains_of;
use common::Patience;
use metrics::{Ending, Mono, SECOND, Tally};
use model::ending::JudgedPhase;
use model::{Event, Interval, Status, Totals};
use transport::{FIREWALL, Order};

/// The longest round trip with which connections end in good order within the time that an
/// interrupt leaves, ns.
const ORDERLY: u64 = 7 * SECOND / 20;
/// Intervals that wait for late reports; of more the oldest stay without.
const MOST_INCOMPLETE: usize = 64;
/// Cause of connections that were aborted at the end of a run, as the engine names it.
const CUT_OFF: &str = "cut off at the end of the run";
/// Silence behind a heartbeat after which another one is sent, ns.
const REPEATED: u64 = 3 * SECOND;

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

    /// Handles an interrupt. First call: ends the run in good order. Later: aborts open
    /// connections. Servers without results are given up by [`Client::patience`].
    pub(super) fn stop(&mut self, now: Mono) {
        if self.asked.is_none() {
            (self.asked, self.patience_ns) = (Some(now), self.loaded_rtt(now));
            if matches!(self.stage, Stage::Agreeing | Stage::Running) {
                self.driver.status = Status::Interrupted;
                self.driver.reason.get_or_insert("interrupted by the user".to_owned());
            }
            let (is_running, slow) = (self.stage == Stage::Running, self.patience_ns > ORDERLY);
            self.drain(now.plus(self.longer_for_many(GRACE)));
            if is_running && slow {
                // No connection can end in good order in time: its unsent data would take longer.
                // Flows of datagrams have stopped by then, so that the message to the servers meets
                // a shorter queue.
                if self.plan.phase.probe.is_some() || self.plan.phase.capacity.is_some() {
                    self.kill_at = Some(now.plus(CUT_AFTER));
                } else {
                    self.cut_off(now);
                }
            }
            // A live server answers; silence shows a dead one, or a connection that waits for a
            // retransmission.
            self.ping_all(now);
            self.servers_in(|step| step == Step::Running)
                .into_iter()
                .for_each(|at| self.expect_answer(at, now));
            self.beat = now.plus(CUT_AFTER);
            return;
        }
        if self.stage == Stage::Draining {
            self.driver.status = Status::Interrupted;
            self.cut_off(now);
        }
    }

    /// The longest round trip to a server that is present, by its heartbeats: queues on the way are
    /// part of it.
    fn loaded_rtt(&self, now: Mono) -> u64 {
        let there = self.servers.iter().filter(|server| server.step != Step::Over);
        let of = |server: &RunServer| {
            let waits = server.beats.front().map_or(0, |(_, at)| now.since(*at));
            let is_lively = now.since(server.heard) < LIVELY;
            server.base_rtt.max(server.loaded_rtt).max(if is_lively { waits.min(LIVELY) } else { 0 })
        };
        there.map(of).max().unwrap_or(0)
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

    /// The messages that end a session. Behind an interrupt the server waits for no more than a
    /// round trip for connections whose aborts were lost.
    pub(super) fn last_messages(&self) -> Vec<Message> {
        let within_ns = CUT_AFTER.saturating_add(self.patience_ns.max(2 * CUT_AFTER));
        let abort = self.asked.map(|_| Message::Abort { within_ns });
        abort.into_iter().chain([Message::Stop]).collect()
    }

    /// Asks the servers for their results, which they send once their connections have ended.
    fn end_sessions(&mut self, now: Mono) {
        for at in self.servers_in(|step| step == Step::Running) {
            if self.asked.is_none() {
                self.beat(at, now);
            }
            let last = self.last_messages();
            self.say_all(at, &last);
            self.enter(at, Step::Collecting, now);
            self.expect_answer(at, now);
        }
    }

    /// Aborts the open connections, after a message to the servers: an end that does not know that
    /// the run is over counts an aborted connection as failed.
    fn cut_off(&mut self, now: Mono) {
        self.kill_at = None;
        if self.servers.iter().any(|server| server.step == Step::Running) {
            self.end_sessions(now);
            // Flows of datagrams say for a round trip that they have ended: the servers' data fill
            // the queue until that is heard.
            let is_heard_late = self.plan.phase.probe.is_some() && self.asked.is_some();
            self.kill_at = Some(now.plus(CUT_AFTER.max(if is_heard_late { self.patience_ns } else { 0 })));
        } else {
            self.was_cut_off = true;
            self.driver.order(GROUP, Order::Kill);
        }
    }

    pub(super) fn report(&mut self) {
        self.release(true, Mono(u64::MAX));
        self.trains();
        self.settle();
        self.flows();
        let aborted = self.local.as_ref().filter(|_| self.was_cut_off).map_or(0, |local| local.stopped);
        if let Some(local) = self.local.take() {
            self.driver.ask(Event::Local(local));
        }
        for server in &mut self.servers {
            if let Some(mut totals) = server.totals.take() {
                excuse_resets(&mut totals, aborted);
                totals.who = server.peer.address.to_string();
                self.driver.ask(Event::Remote(totals));
            }
        }
    }

    /// Adds to the totals of each receiver the losses that only its sender's record shows.
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

    /// Reports both ends' figures of single flows, and their records of single datagrams if
    /// requested.
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

    /// Reports both ends' records of packet trains, if there are any.
    fn trains(&mut self) {
        let phase = &self.plan.phase;
        let (Some(train), Some(probe), Some(local)) = (&phase.train, &phase.probe, self.log.take()) else {
            return;
        };
        // Trains run between this end and one server.
        let remembers = |s: &&RunServer| !(s.log.sent.is_empty() && s.log.got.is_empty());
        let Some(server) = self.servers.iter().find(remembers).or(self.servers.first()) else { return };
        let headers = if server.peer.address.ip().to_canonical().is_ipv4() { 20 + 8 } else { 40 + 8 };
        let (sender, receiver) =
            if phase.pattern.sends_up() { (&*local, &server.log) } else { (&server.log, &*local) };
        let Some((trains, rows)) = trains_of(train, probe.size, headers, sender, receiver) else { return };
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
            self.close_others(at);
        }
        (self.driver.status, self.driver.reason) = (status, reason);
        let asked = JudgedPhase { phase: &self.plan.phase, protocol: "native", needs_report: false };
        self.driver.finish(Some(asked).filter(|_| collected), None);
    }

    pub(super) fn tally(&mut self, now: Mono, index: u32, from: Mono, to: Mono, tally: &Tally) {
        if self.stage == Stage::Running {
            self.hold(to, tally);
        }
        // Data that moves shows that the one server is there, whatever keeps its messages.
        let phase = &self.plan.phase;
        let is_datagrams = phase.probe.is_some() || phase.ping.is_some() || phase.capacity.is_some();
        let came = tally.packets.as_deref().map(|packets| packets.came).filter(|came| *came > from);
        let moves = tally.rx_bytes > 0 || (tally.tx_bytes > 0 && !is_datagrams);
        let heard = came.or(moves.then_some(from));
        if let (Some(heard), None, [server]) = (heard, self.asked, &mut self.servers[..]) {
            server.heard = server.heard.max(heard);
        }
        let interval = self.driver.intervals.next(index, from, to, tally);
        self.silence.local(&interval, from, tally);
        self.waiting.push_back((to, interval));
        self.release(false, now);
    }

    /// True if all servers have reported on an interval.
    fn is_whole(&self, index: u32) -> bool {
        self.servers.iter().filter(|s| s.takes_part()).all(|s| s.reports.contains_key(&index))
    }

    /// When the next interval is reported, if no report arrives meanwhile.
    pub(super) fn release_due(&self) -> Option<Mono> {
        let (end, interval) = self.waiting.front()?;
        let is_whole = self.is_whole(interval.index);
        // The last interval waits for the results, which follow its reports.
        let is_last = self.waiting.len() == 1 && self.stage == Stage::Collecting && self.asked.is_none();
        (is_whole || !is_last || self.rhythm.is_last()).then(|| self.rhythm.due(*end, is_whole))
    }

    /// Emits the intervals that are due. The sum of the remote ends is left out unless all have
    /// reported.
    pub(super) fn release(&mut self, all: bool, now: Mono) {
        while self.release_due().is_some_and(|at| all || at <= now) {
            let Some((_, mut interval)) = self.waiting.pop_front() else { return };
            self.next = interval.index.saturating_add(1);
            if !self.add_reports(&mut interval) {
                if self.incomplete.len() == MOST_INCOMPLETE {
                    self.incomplete.pop_front();
                }
                self.incomplete.push_back(interval.clone());
            }
            self.forget_reports();
            self.rhythm.advance(now);
            self.driver.ask(Event::Interval(Box::new(interval)));
        }
    }

    /// Emits an interval again whose last report arrived after its line.
    pub(super) fn correct(&mut self, index: u32) {
        let Some(at) = self.incomplete.iter().position(|interval| interval.index == index) else { return };
        let mut interval = self.incomplete[at].clone();
        if self.add_reports(&mut interval) {
            self.incomplete.remove(at);
            self.forget_reports();
            self.driver.ask(Event::Corrected(Box::new(interval)));
        }
    }

    /// Adds the sum of the remote ends to an interval, if all have reported.
    fn add_reports(&self, interval: &mut Interval) -> bool {
        let index = interval.index;
        let reports = self.servers.iter().filter(|s| s.takes_part()).map(|s| s.reports.get(&index));
        let Some(reports) = reports.collect::<Option<Vec<_>>>() else { return false };
        for (traffic, packets) in reports {
            // Of messages the server reports the IP fields alone.
            if let (Some(pings), Some(packets)) = (&mut interval.pings, packets) {
                pings.remote_marks.get_or_insert_default().add(&packets.marks);
            }
            let packets = packets.as_ref().filter(|_| interval.pings.is_none());
            let Some(sum) = &mut interval.remote else {
                (interval.remote, interval.remote_packets) = (Some(*traffic), packets.cloned());
                continue;
            };
            sum.add_host(traffic);
            if let (Some(sum), Some(packets)) = (&mut interval.remote_packets, packets) {
                sum.add_host(packets);
            }
        }
        true
    }

    /// Drops the reports of intervals that have left, except intervals that wait for a late report.
    fn forget_reports(&mut self) {
        let (next, incomplete) = (self.next, &self.incomplete);
        let waits = |index: u32| index >= next || incomplete.iter().any(|interval| interval.index == index);
        for server in &mut self.servers {
            server.reports.retain(|index, _| waits(*index));
        }
    }

    pub(super) fn beats(&self) -> bool {
        self.stage != Stage::Over && self.servers.iter().any(|s| s.step.is_long())
    }

    pub(super) fn wake(&mut self, now: Mono) {
        if self.stop_at.is_some_and(|at| at <= now) {
            self.drain(now.plus(self.longer_for_many(GRACE)));
        }
        if self.kill_at.is_some_and(|at| at <= now) {
            self.cut_off(now);
        }
        if self.beats() && self.beat <= now {
            self.beat = now.plus(match self.asked {
                // A segment that arrives shows that one before it was lost: sent once the queue has
                // room again, and then ever more seldom.
                Some(since) => now.since(since).clamp(CUT_AFTER, HEARTBEAT),
                None if self.stage == Stage::Running => self.budget.beat_ns,
                None => HEARTBEAT,
            });
            self.ping_long(now);
        }
        self.open_others(now);
        for at in 0..self.servers.len() {
            if let Some(patience) = self.patience(&self.servers[at]).filter(|wait| wait.until() <= now) {
                self.overdue(at, patience, now);
            }
        }
        self.release(false, now);
        if self.stage == Stage::Collecting {
            self.advance(now);
        }
    }

    /// The wait for a server that ends first: that of its step, or that behind an interrupt.
    pub(super) fn patience(&self, server: &RunServer) -> Option<Patience> {
        // In a full queue a message waits for the round trip of the load, and for another one if it
        // was dropped.
        let path_ns = server.base_rtt.max(server.loaded_rtt).saturating_mul(2);
        let silence = Patience::new("no word", server.heard).within(SILENCE.saturating_add(path_ns));
        let since = |what| Patience::new(what, server.since);
        let wait = match server.step {
            Step::Over => return None,
            Step::Collecting => {
                let results = since("no results").within(self.longer_for_many(COUNTING));
                if results.until() < silence.until() { results } else { silence }
            }
            step if step.is_long() => silence,
            Step::Reaching => since("no answer over UDP").within(reach::limit(server.base_rtt)),
            Step::Connecting => since("no connection").within(self.plan.phase.connect_timeout_ns),
            Step::Greeting => since("no answer").within(self.plan.phase.connect_timeout_ns),
            _ => since("no answer").within(PATIENCE),
        };
        Some(self.interrupted(server).filter(|other| other.until() < wait.until()).unwrap_or(wait))
    }

    /// The wait for a server without results behind an interrupt: one that has answered since is
    /// alive, however long its results take on a loaded host or a long path; others may answer as
    /// late as the queues on the way let them.
    fn interrupted(&self, server: &RunServer) -> Option<Patience> {
        let since = self.asked?;
        // A segment that found a queue on the way full arrives a round trip later.
        let rtts = 2 * self.patience_ns.max(server.base_rtt);
        let silent = UNANSWERED.saturating_add(rtts);
        let limit_ns = match (server.heard >= since, server.resumption.is_reached) {
            (true, _) => ANSWERING,
            // The server's kernel answers: a program that runs follows.
            (false, true) => silent.saturating_add(REACHED),
            (false, false) => silent,
        };
        Some(Patience::new("no results", since).within(limit_ns))
    }

    /// A server has remained in its step for too long.
    fn overdue(&mut self, at: usize, patience: Patience, now: Mono) {
        let RunServer { step, since, heard, .. } = self.servers[at];
        let counting = self.longer_for_many(COUNTING);
        let why = match step {
            _ if self.interrupted(&self.servers[at]).is_some_and(|wait| wait.until() <= now) => {
                "it was not waited for after the interrupt".to_owned()
            }
            // Its hellos have remained unanswered: does it answer on the control connection?
            Step::Reaching => return self.ping(at, Step::Unreached, now),
            Step::Greeting => {
                let seconds = patience.seconds();
                format!("it accepted the connection but said nothing for {seconds} s: is it netcaliper?")
            }
            Step::Collecting if now.since(since) >= counting => {
                format!("it sent no results within {} s", counting / SECOND)
            }
            Step::Connecting => format!("{patience}: {FIREWALL}"),
            step if !step.is_long() => patience.to_string(),
            _ if self.stage == Stage::Agreeing => {
                format!("vanished: nothing was heard from it for {} s", patience.seconds())
            }
            _ => format!("vanished: nothing arrived {}", self.after(heard)),
        };
        self.lose(at, &why, now);
    }

    /// Sends heartbeats to the servers whose step may last. One is under way at a time: further
    /// ones would wait behind it in a full queue.
    fn ping_long(&mut self, now: Mono) {
        let is_asked = self.asked.is_some();
        for at in self.servers_in(Step::is_long) {
            let waits = self.servers[at].beats.back().is_some_and(|(_, left)| now.since(*left) < REPEATED);
            if is_asked || !waits {
                self.beat(at, now);
            }
        }
    }

    /// Sends heartbeats to all of them, whatever is under way.
    fn ping_all(&mut self, now: Mono) {
        self.servers_in(Step::is_long).into_iter().for_each(|at| self.beat(at, now));
    }

    /// A report has arrived: many of them are acknowledged before the next heartbeat.
    pub(super) fn acknowledge(&mut self, at: usize) {
        self.servers[at].unacknowledged += 1;
        if self.servers[at].unacknowledged >= ACKNOWLEDGED {
            let received = self.received(at);
            self.say(at, &received);
        }
    }

    /// The acknowledgement of a server's reports.
    fn received(&mut self, at: usize) -> Message {
        let server = &mut self.servers[at];
        server.unacknowledged = 0;
        let latest = server.reports.keys().next_back().map_or(0, |index| index + 1);
        Message::Received { intervals: self.next.max(latest) }
    }

    fn beat(&mut self, at: usize, now: Mono) {
        self.beats = self.beats.checked_add(1).unwrap_or(FIRST_BEAT);
        let n = self.beats;
        let server = &mut self.servers[at];
        if server.beats.len() == MOST_BEATS {
            server.beats.pop_front();
        }
        server.beats.push_back((n, now));
        let is_running = server.step == Step::Running;
        let told = is_running.then(|| self.received(at));
        // In one segment.
        let messages: Vec<Message> = told.into_iter().chain([Message::Ping { n }]).collect();
        self.say_all(at, &messages);
    }

    /// A heartbeat was answered; earlier ones will not be.
    pub(super) fn note_pong(&mut self, at: usize, n: u32, now: Mono) {
        let server = &mut self.servers[at];
        let Some(place) = server.beats.iter().position(|(number, _)| *number == n) else { return };
        if let Some((_, left)) = server.beats.drain(..=place).next_back() {
            server.loaded_rtt = now.since(left);
        }
    }
}

/// Connections that the client aborted at the end of the run have failed at neither end. Their
/// resets may reach the server before the message that the run is over, if a full queue drops that
/// and it is sent again.
fn excuse_resets(totals: &mut Totals, aborted: u64) {
    let is_reset =
        |text: &str| CONNECTION_RESET.iter().any(|errno| text.ends_with(&format!("(os error {errno})")));
    let mut left = aborted.saturating_sub(totals.stopped).min(totals.network_errors);
    for cause in &mut totals.causes {
        if cause.class == Ending::NetworkError && is_reset(&cause.text) && cause.count <= left {
            (cause.class, cause.text) = (Ending::Stopped, CUT_OFF.to_owned());
            totals.network_errors -= cause.count;
            totals.stopped += cause.count;
            left -= cause.count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::CauseCount;

    #[test]
    fn resets_of_connections_that_the_client_aborted_are_no_failures() {
        let cause = |text: &str, count| CauseCount {
            class: Ending::NetworkError,
            text: text.to_owned(),
            count,
            first: String::new(),
        };
        let reset = "receiving: Connection reset by peer (os error 104)";
        let causes = vec![cause(reset, 4), cause("receiving: No route to host (os error 113)", 1)];
        let totals = Totals { network_errors: 5, causes, ..Totals::default() };
        for (aborted, stopped) in [(4, 4), (5, 4), (3, 0), (0, 0)] {
            let mut totals = totals.clone();
            excuse_resets(&mut totals, aborted);
            assert_eq!((totals.stopped, totals.network_errors), (stopped, 5 - stopped), "{aborted}");
        }
    }
}
