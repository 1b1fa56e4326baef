//! A connection of a capacity test, at either end, once both know its parameters and the server knows
//! its address.
//!
//! ```text
//! client                         Running ─ a PDU that says stop, or the time is up ─▶ Last ─▶ over
//! server                         Running ─ the time is up: every PDU says stop ─ the client's last PDU ─▶ over
//! ```
//!
//! 1. The receiver of load reports at each trial interval, once the first datagram has arrived.
//! 2. The server chooses the row in both directions: of an upstream test in its own reports, of a
//!    downstream test at the client's.
//! 3. An end that has received nothing for three seconds gives the test up.
//! 4. Until a client whose address was proven by nothing has proven it, its server sends no more
//!    than it has received ([`Proof`]).

use super::load::LoadSender;
use super::meter::{Finished, Meter};
use super::report::{EndReport, News, Report, SubIntervalReport, Warning};
use super::{
    Load, Moment, Parameters, Proof, RANDOM_FILLER, RateSearch, RateTable, Reports, Row, Status, TrialReport,
};
use crate::kernel::Core;
use crate::message::{Counted, SharedMessage};
use metrics::{Clamped, Ending, Group, Mono, Packets, SECOND, Wall};
use std::io::ErrorKind;
use std::net::SocketAddr;
use transport::{
    Checked, Context, Fault, Flow, FlowEvent, FlowId, Interest, Path, Patience, Read, Received, Sent,
    Transmit, Violation, When,
};
use uuid::Uuid;

/// Time without a PDU after which a test is given up.
const WATCHDOG: Patience = Patience::of("no PDU of the test", 3 * SECOND);
/// Time without a PDU after which the next ones say so, ns.
const SILENCE: u64 = SECOND;
/// From the planned end of a test to the server's stop, so that the last sub-interval is reported.
const TAIL: u64 = SECOND / 2;
/// From the planned end to the end by the client itself.
const SAFETY: u64 = 7 * SECOND / 2;
/// Longest datagram.
const LONGEST: u64 = 65_535;

/// Which end of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that asked for it.
    Client,
    /// The one that chooses the rate.
    Server,
}

/// A connection of a test as both ends know it.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Which connection of the test it is, from 0.
    pub index: u8,
    /// Names the test, where it has a number.
    pub test: u16,
    /// Version of the PDUs.
    pub version: u16,
    /// The client sends load.
    pub upstream: bool,
    /// The table of rates.
    pub table: RateTable,
    /// The highest row that a search may choose.
    pub last: u16,
    /// The parameters in force.
    pub parameters: Parameters,
    /// The set-up was signed.
    pub signed: bool,
}

impl Connection {
    /// A report of this connection.
    pub fn report(&self, at: Wall, path: Option<Path>, news: News) -> Report {
        let none = SocketAddr::from(([0; 4], 0));
        let (local, remote) = path.map_or((none, none), |path| (path.local, path.peer));
        Report { connection: self.index, test: self.test, at, local, remote, news }
    }

    /// The first row.
    pub fn first_row(&self) -> Row {
        self.table.row(self.parameters.first_row())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    /// The last PDU is to be sent, and how the test ends.
    Last(Ending),
    Over,
}

/// A connection of a test.
///
/// Wide: either end in either direction; the parts of each are types of their own.
pub struct TestFlow {
    core: Core,
    side: Side,
    connection: Connection,
    stage: Stage,
    load: Option<LoadSender>,
    meter: Option<Meter>,
    /// Of a server: the search, if the rate is not fixed.
    search: Option<RateSearch>,
    /// Of a server: the proof of the client's address that is still missing.
    proof: Option<Proof>,
    begun: Mono,
    /// When the last PDU of the other end arrived.
    heard: Mono,
    /// When the next report is due, and the report that is being sent.
    report_at: Mono,
    report: Option<Vec<u8>>,
    /// Of a sender: the last finished sub-interval that it knows, and the samples of round trips
    /// since.
    finished: u32,
    trips: (u64, u32),
    /// Of a sender: datagrams and bytes in the receiver's reports since the last finished
    /// sub-interval, and until its end.
    reported: (Packets, u64),
    reported_before: (Packets, u64),
    bleached: bool,
    counts: Packets,
    /// The kernel's word, reported at the next wake.
    refused: Option<Fault>,
    /// The exit code of the reference for the end.
    code: u8,
    /// Nothing has arrived for a second, here and at the other end.
    silent: bool,
    peer_silent: bool,
    /// Time of the report to which the last reported loss of reports belongs.
    losses_of: Moment,
    /// The stop was reported.
    stopping: bool,
    /// A report that says stop has left: later load is in no report, and does not count.
    closed: bool,
    reports: Reports,
    /// The first row.
    first: Row,
}

impl TestFlow {
    fn new(core: Core, side: Side, connection: Connection, reports: Reports) -> Self {
        TestFlow {
            core,
            side,
            stage: Stage::Running,
            first: connection.first_row(),
            connection,
            load: None,
            meter: None,
            search: None,
            proof: None,
            begun: Mono(0),
            heard: Mono(0),
            report_at: Mono(0),
            report: None,
            finished: 0,
            trips: (0, 0),
            reported: Default::default(),
            reported_before: Default::default(),
            bleached: false,
            counts: Packets::default(),
            refused: None,
            code: 0,
            silent: false,
            peer_silent: false,
            losses_of: Moment::default(),
            stopping: false,
            closed: false,
            reports,
        }
    }

    /// The client's end of the connection in `slot`, which begins with the row `first` where it
    /// sends.
    pub fn client(group: Group, slot: u32, connection: Connection, first: Row, reports: Reports) -> Self {
        let flow = TestFlow::new(Core::new(group, slot, 0), Side::Client, connection, reports);
        TestFlow { first, ..flow }
    }

    /// The server's end. `proof` is `None` where the client's address is proven.
    pub fn server(group: Group, connection: Connection, proof: Option<Proof>, reports: Reports) -> Self {
        let slot = connection.index.into();
        let flow = TestFlow::new(Core::new(group, slot, 0), Side::Server, connection, reports);
        TestFlow { proof, ..flow }
    }

    /// Keeps a place among others until the flow ends.
    #[must_use]
    pub fn placed(mut self, place: impl Send + 'static) -> Self {
        self.core.keep(place);
        self
    }

    /// The flow belongs to this worker, and will move there.
    #[must_use]
    pub fn leaving(mut self, to: Option<u16>) -> Self {
        self.core.leave_for(to);
        self
    }

    /// The flow with this identifier.
    #[must_use]
    pub fn with_id(mut self, id: Uuid) -> Self {
        self.core.id = id;
        self
    }

    fn post(&self, cx: &mut Context<'_>, news: News) {
        let report = self.connection.report(cx.clock.wall(cx.now), self.core.path, news);
        self.reports.post(cx, report);
    }

    /// True if load leaves this end.
    fn sends(&self) -> bool {
        self.connection.upstream == (self.side == Side::Client)
    }

    /// The test begins.
    fn begin(&mut self, cx: &mut Context<'_>) {
        let (p, row) = (self.connection.parameters, self.first);
        (self.begun, self.heard) = (cx.now, cx.now);
        if self.sends() {
            let random = p.modifiers & RANDOM_FILLER != 0;
            let held = self.proof.is_some();
            self.load = Some(LoadSender::new(cx, row, self.core.is_v6(), random, held));
        } else {
            let marks = p.ce_share > 0;
            self.meter = Some(Meter::new(cx.now, p.trial_ms, p.sub_interval_ms, marks));
            self.report_at = cx.now.plus(self.trial_ns());
        }
        if self.side == Side::Server && p.fixed_row().is_none() {
            self.search = Some(RateSearch::new(p.search(), p.first_row(), self.connection.last));
        }
    }

    fn trial_ns(&self) -> u64 {
        u64::from(self.connection.parameters.trial_ms) * (SECOND / 1_000)
    }

    /// When the server stops the test, or the client gives up waiting for that.
    fn stops_at(&self) -> Mono {
        let after = if self.side == Side::Server { TAIL } else { SAFETY };
        self.begun.plus(u64::from(self.connection.parameters.test_s) * SECOND + after)
    }

    /// The server has said stop.
    fn stops(&self, now: Mono) -> bool {
        self.side == Side::Server && now >= self.stops_at()
    }

    fn watchdog(&self) -> Patience {
        WATCHDOG.since(self.heard)
    }

    /// The row for the time after a report, of which `finished` sub-intervals are over.
    fn next_row(&mut self, finished: u32, report: &TrialReport) -> Row {
        let p = &self.connection.parameters;
        let n = match (&mut self.search, p.fixed_row()) {
            _ if finished < u32::from(p.suppressed) => p.first_row(),
            (Some(search), _) => search.advance(report),
            (None, Some(row)) => row,
            (None, None) => 0,
        };
        self.connection.table.row(n)
    }

    /// The next report of a receiver.
    fn make_report(&mut self, cx: &mut Context<'_>) -> Option<Vec<u8>> {
        let silent = self.is_silent(cx.now);
        let status = self.meter.as_mut()?.status(cx.now, silent);
        let row = match self.side {
            Side::Server => self.next_row(status.finished, &status.report()),
            Side::Client => Row::default(),
        };
        let version = self.connection.version;
        let sent = Moment::of(cx.clock.wall(cx.now));
        if let Some(proof) = &mut self.proof {
            proof.reports(sent);
        }
        let mode = u8::from(self.connection.signed);
        let stops = self.stops(cx.now) || matches!(self.stage, Stage::Last(_));
        let action = if stops { 2 } else { 0 };
        let bytes = Status { row, sent, mode, action, ..status }.encode(version);
        bytes.get(..Status::length(version)).map(<[u8]>::to_vec)
    }

    /// True if nothing has arrived for a second.
    fn is_silent(&self, now: Mono) -> bool {
        now.since(self.heard) >= SILENCE
    }

    /// Reports a finished sub-interval, counted here or by the other end.
    fn finish(&self, cx: &mut Context<'_>, finished: &Finished, minima: (Option<i64>, Option<u32>)) {
        let report = SubIntervalReport::new(finished, minima, self.core.is_v6());
        self.post(cx, News::SubInterval(report));
    }

    /// The client's last PDU is to be sent, or the server has it.
    fn stop(&mut self, cx: &mut Context<'_>, how: Ending) {
        if self.stage == Stage::Running {
            self.note_stop(cx);
            self.stage = Stage::Last(how);
            // The next one says stop.
            self.report = None;
        }
    }

    fn note_stop(&mut self, cx: &mut Context<'_>) {
        if !std::mem::replace(&mut self.stopping, true) {
            self.post(cx, News::Stop);
        }
        if let Some(load) = &mut self.load {
            load.action = 2;
        }
    }

    fn end(&mut self, cx: &mut Context<'_>, how: Ending) {
        if self.stage == Stage::Over {
            return;
        }
        self.stage = Stage::Over;
        self.core.complete(cx, cx.now);
        self.end_report(cx);
        self.core.end(how);
    }

    fn end_report(&mut self, cx: &mut Context<'_>) {
        let bleached = self.bleached || self.meter.as_ref().is_some_and(Meter::bleached);
        let datagrams = (self.counts.sent, self.counts.received);
        self.post(cx, News::End(EndReport { code: self.code, bleached, datagrams }));
        if self.side == Side::Client && self.sends() {
            let (mut packets, mut bytes) = self.reported_before;
            packets.add(&self.reported.0);
            bytes += self.reported.1;
            let ns = cx.now.since(self.begun);
            cx.post(SharedMessage::Counted(Box::new(Counted {
                receive: "as its reports say",
                bytes,
                ns,
                packets: Some(packets),
            })));
        }
    }

    /// The test fails for this reason; the reference's exit code of it.
    fn fail(&mut self, cx: &mut Context<'_>, code: u8, violation: Violation) -> Checked {
        self.code = code;
        if self.stage != Stage::Over {
            self.end_report(cx);
            self.stage = Stage::Over;
        }
        Err(violation)
    }

    /// A datagram of load has arrived.
    fn on_load(&mut self, cx: &mut Context<'_>, got: &Received<'_>, at: Mono, bytes: &[u8]) -> bool {
        let Some(load) = Load::decode(bytes, bytes.len()) else { return false };
        let Some(meter) = &mut self.meter else { return false };
        (self.heard, self.silent) = (at, false);
        if load.action != 0 {
            return true;
        }
        if self.closed {
            return false;
        }
        let counts = meter.on_load(&load, Moment::of(cx.clock.wall(at)), got.tos);
        self.counts.add(&counts);
        self.core.packets(cx, &counts);
        self.core.received(cx, bytes.len());
        self.hear_peer(cx, load.silent);
        // Repeated in every datagram until the next report.
        if (1..u16::MAX).contains(&load.status_errors) && load.echoed != self.losses_of {
            self.losses_of = load.echoed;
            self.post(cx, News::Warning(Warning::ReportsLostThere(load.status_errors)));
        }
        if self.proof.as_mut().is_some_and(|proof| proof.hears_load(&load, bytes.len())) {
            self.proof = None;
        }
        false
    }

    /// A report has arrived.
    fn on_status(&mut self, cx: &mut Context<'_>, at: Mono, bytes: &[u8]) -> bool {
        let Some(status) = Status::decode(bytes, self.connection.version) else { return false };
        let Some(load) = &mut self.load else { return false };
        (self.heard, self.silent) = (at, false);
        self.core.framing_received(cx, bytes.len());
        if status.action != 0 {
            self.count_report(&status);
            return true;
        }
        if let Some(proof) = &mut self.proof {
            if !proof.hears_status(&status) {
                return false;
            }
            self.proof = None;
            load.release(cx);
        }
        let is_old = !load.on_status(at, status.number, status.sent);
        if is_old {
            return false;
        }
        let lost = load.reports_lost();
        if lost > 0 {
            self.post(cx, News::Warning(Warning::ReportsLost(lost)));
        }
        self.hear_peer(cx, status.silent);
        self.bleached |= status.bleached;
        if let Some(sample) = status.trial.round_trip_ms {
            self.trips = (self.trips.0 + u64::from(sample), self.trips.1.saturating_add(1));
        }
        self.count_report(&status);
        let row = match self.side {
            Side::Client => status.row,
            Side::Server => self.next_row(status.finished, &status.report()),
        };
        if let Some(load) = &mut self.load {
            load.set_row(cx.now, row);
        }
        if status.finished != self.finished {
            self.finished = status.finished;
            let finished = Finished {
                number: status.finished,
                counts: status.last,
                marked: status.sub_marked,
                trips: std::mem::take(&mut self.trips),
            };
            self.finish(cx, &finished, (Some(status.delay_min_ms.into()), status.round_trip_min_ms));
        }
        false
    }

    /// The other end says whether anything arrives there.
    fn hear_peer(&mut self, cx: &mut Context<'_>, silent: bool) {
        if silent && !self.peer_silent {
            self.post(cx, News::Warning(Warning::StoppedThere));
        }
        self.peer_silent = silent;
    }

    /// When this end has received nothing for a second, unless that was reported.
    fn falls_silent(&self) -> Option<Mono> {
        let receives = self.meter.as_ref().is_some_and(Meter::has_begun);
        (receives && !self.silent && !self.stopping).then(|| self.heard.plus(SILENCE))
    }

    /// Adds a report to the receiver's counts. A sub-interval has the counts of its trial
    /// intervals whose reports were lost, but not the one of the first report.
    fn count_report(&mut self, status: &Status) {
        let Status { trial, last, .. } = status;
        let packets = |received: u32, lost: u32, reordered: u32| Packets {
            received: received.into(),
            lost: lost.into(),
            reordered: reordered.into(),
            ..Packets::default()
        };
        let own = packets(trial.datagrams, trial.lost, trial.reordered);
        if status.finished != self.finished {
            let finished = packets(last.datagrams, last.lost, last.reordered);
            self.reported_before.0.add(&finished);
            self.reported_before.1 = self.reported_before.1.saturating_add(last.bytes);
            self.reported = Default::default();
        }
        let sum = if status.number == 1 { &mut self.reported_before } else { &mut self.reported };
        sum.0.add(&own);
        sum.1 = sum.1.saturating_add(trial.bytes.into());
    }

    /// The timers.
    fn wake(&mut self, cx: &mut Context<'_>) -> Checked {
        if let Some(fault) = self.refused.take() {
            if self.stops(cx.now) || matches!(self.stage, Stage::Last(_)) {
                // The other end is gone, as it is to be.
                self.end(cx, Ending::Completed);
                return Ok(());
            }
            return self.fail(cx, 1, Violation::Refused(fault));
        }
        if self.stage == Stage::Running {
            if self.watchdog().is_over(cx.now) {
                if self.stops(cx.now) {
                    self.end(cx, Ending::Completed);
                    return Ok(());
                }
                return self.fail(cx, 1, WATCHDOG.violation().likely(UNANSWERED));
            }
            if self.falls_silent().is_some_and(|at| at <= cx.now) {
                self.silent = true;
                self.post(cx, News::Warning(Warning::LoadStopped));
            }
            if self.side == Side::Client && cx.now >= self.stops_at() {
                self.stop(cx, Ending::Completed);
            }
            if self.stops(cx.now) {
                self.note_stop(cx);
            }
            self.skip_report(cx.now);
        }
        Ok(())
    }

    /// The next report is not due before there is something to report on, and something to pay for
    /// it.
    fn skip_report(&mut self, now: Mono) {
        let trial = self.trial_ns();
        while self.report.is_none() && self.meter.is_some() && self.report_at <= now && !self.may_report() {
            self.report_at = self.report_at.plus(trial);
        }
    }

    fn may_report(&self) -> bool {
        let length = Status::length(self.connection.version);
        self.meter.as_ref().is_some_and(Meter::has_begun)
            && self.proof.as_ref().is_none_or(|proof| proof.pays_for(length))
    }

    /// A report has left, or was given up.
    fn on_reported(&mut self, cx: &mut Context<'_>, n: Sent) {
        self.report = None;
        if let Some(proof) = &mut self.proof {
            proof.spend(n.bytes);
        }
        self.core.framing_sent(cx, n.bytes);
        self.closed |= self.stopping && n.bytes > 0;
        let trial = self.trial_ns();
        self.report_at = self.report_at.plus(trial);
        if self.report_at <= cx.now {
            // Late by a whole interval: the missed reports are left out.
            self.report_at = cx.now.plus(trial);
        }
        let Some(meter) = self.meter.as_mut().filter(|_| self.stage == Stage::Running) else { return };
        if let Some(finished) = meter.next_trial(cx.now) {
            let minima = meter.minima();
            self.finish(cx, &finished, minima);
        }
    }

    /// A send was refused: ends the test where the other end is gone.
    fn on_fault(&mut self, fault: Fault) {
        let kind = std::io::Error::from_raw_os_error(fault.errno).kind();
        let is_gone = matches!(
            kind,
            ErrorKind::ConnectionRefused | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable
        );
        if is_gone {
            self.refused = Some(fault);
        }
    }
}

/// Why nothing may arrive.
const UNANSWERED: &str = "the other end is gone, or UDP passes one way only";

impl Flow for TestFlow {
    fn interest(&self) -> Interest {
        if let Some(last) = self.core.last_interest() {
            return last;
        }
        if self.core.row.is_none() {
            return Interest::NONE;
        }
        let read = Read::look(LONGEST);
        if self.refused.is_some() {
            return Interest { read, wake: Some(Mono(0)), ..Interest::NONE };
        }
        match self.stage {
            Stage::Last(_) => Interest { send: When::Now, read, ..Interest::NONE },
            Stage::Running => {
                let mut wake = self.watchdog().until();
                if let Some(at) = self.falls_silent() {
                    wake = wake.min(at);
                }
                if !self.stopping {
                    wake = wake.min(self.stops_at());
                }
                let send = match (&self.load, &self.meter) {
                    (Some(load), _) => load.interest(self.proof.as_ref()),
                    (None, Some(_)) if self.may_report() || self.report.is_some() => When::At(self.report_at),
                    _ => {
                        wake = wake.min(self.report_at);
                        When::Never
                    }
                };
                Interest { send, read, wake: Some(wake), end: None }
            }
            Stage::Over => Interest::NONE,
        }
    }

    fn prepare_send(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
        let class = self.connection.parameters.traffic_class;
        match self.stage {
            Stage::Running | Stage::Last(_) => {
                out.tos = (class != 0).then_some(class);
                let silent = self.is_silent(cx.now);
                if self.meter.is_some() {
                    if self.report.is_none() {
                        self.report = self.make_report(cx);
                    }
                    out.copy(self.report.as_deref().unwrap_or_default());
                } else if let Some(load) = &mut self.load {
                    let is_last = matches!(self.stage, Stage::Last(_));
                    load.prepare_send(cx, &self.core, (silent, is_last), self.proof.as_mut(), out);
                }
            }
            Stage::Over => {}
        }
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        if let Some(fault) = n.fault {
            self.on_fault(fault);
        }
        if n.bytes == 0 && n.fault.is_none() {
            return;
        }
        match self.stage {
            Stage::Running | Stage::Last(_) if self.meter.is_some() => self.on_reported(cx, n),
            Stage::Running | Stage::Last(_) => {
                if let Some(load) = &mut self.load {
                    let counts = load.on_sent(n);
                    if let Some(proof) = self.proof.as_mut().filter(|_| counts.sent > 0) {
                        proof.sent(cx.now, u64::clamped(n.bytes));
                    }
                    self.counts.add(&counts);
                    self.core.packets(cx, &counts);
                    self.core.sent(cx, n.bytes);
                }
            }
            _ => {}
        }
        if let Stage::Last(how) = self.stage {
            self.end(cx, how);
        }
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        let at = got.arrived();
        let drops = self.core.drops(got);
        self.core.packets(cx, &drops);
        for bytes in got.datagrams() {
            match self.stage {
                Stage::Running => {
                    let is_stop = self.on_load(cx, got, at, bytes) || self.on_status(cx, at, bytes);
                    match (is_stop, self.side) {
                        (true, Side::Client) => self.stop(cx, Ending::Completed),
                        (true, Side::Server) => {
                            let how = if self.stops(cx.now) { Ending::Completed } else { Ending::Stopped };
                            self.end(cx, how);
                        }
                        (false, _) => {}
                    }
                }
                Stage::Last(_) | Stage::Over => {}
            }
        }
        Ok(())
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match event {
            FlowEvent::Up(path) => {
                if self.core.id.is_nil() {
                    self.core.id = cx.rng.uuid();
                }
                self.core.up(cx, path);
                if self.core.row.is_some() {
                    self.begin(cx);
                }
            }
            FlowEvent::Wake => return self.wake(cx),
            FlowEvent::Broken(fault) => self.on_fault(fault),
            FlowEvent::Stop => self.stop(cx, Ending::Stopped),
            _ => {}
        }
        Ok(())
    }

    fn id(&self) -> FlowId {
        self.core.id()
    }
}
