//! The figures of a phase: what follows from both ends' counts, and from nothing else.

use crate::{Count, Counts, CpuUse, Direction, Interval, Kind, Point, Status, Totals, Traffic, Way};
use metrics::{
    Frames, Moments, Spread, TcpTotals, buffer_delay_percent, per_second, real, sum_of,
    tcp_efficiency_percent,
};

/// A shorter interval than this part of the usual one is no reading of the rate: the run ended
/// within it.
const FULL: f64 = 0.9;

impl Interval {
    /// Its length, ns.
    pub fn ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// The parts of it in which each end was to send and to receive by a schedule, ns; `None`
    /// without one, or before its begin.
    fn scheduled_ns(&self) -> [Option<u64>; 4] {
        let remote = self.remote.unwrap_or_default();
        [self.local.tx_ns, self.local.rx_ns, remote.tx_ns, remote.rx_ns]
    }

    /// Connections that ended in an error of any kind, since the start.
    pub fn errors(&self) -> u64 {
        self.network_errors + self.data_errors
    }
}

/// Figures of the life of a server: key and word.
pub const SERVED: [(&str, &str); 2] = [("bytes-received", "received"), ("bytes-sent", "sent")];

impl Point {
    /// Both ends' totals, ours first.
    pub fn ends(&self) -> impl Iterator<Item = &Totals> {
        std::iter::once(&self.local).chain(&self.remote)
    }

    /// Connections or flows of the phase: as many as the servers granted.
    pub fn granted(&self) -> u32 {
        let changes = self.sessions.iter().flat_map(|session| &session.accepted.changes);
        let reduced = changes.filter(|change| change.what == "connections");
        let less = reduced.filter_map(|change| {
            let [asked, given] = [&change.asked, &change.given].map(|text| text.parse::<u32>().ok());
            Some(asked?.saturating_sub(given?))
        });
        less.fold(self.phase.connections, u32::saturating_sub)
    }

    /// Shortest round trip to a server before the run, ns.
    pub fn idle_rtt_ns(&self) -> Option<u64> {
        self.sessions.iter().map(|session| session.base_rtt_ns).filter(|ns| *ns > 0).min()
    }

    /// Round trip of a transfer's own connections, ns: the kernel's mean, of the end with the
    /// larger one.
    pub fn loaded_rtt_ns(&self) -> Option<f64> {
        let means = self.ends().filter_map(|end| Some(end.tcp.mean_rtt_us()? * 1e3));
        means.reduce(f64::max).filter(|_| self.phase.kind == Kind::Tcp)
    }

    /// The intervals after the omitted start.
    pub fn counted(&self) -> impl Iterator<Item = &Interval> {
        self.intervals.iter().filter(|i| !i.omitted)
    }

    /// Intervals that lasted at least 90 % of the median length, of a schedule too: each is one
    /// reading of a rate. The last one of a run is often cut short and is none, and so is the first
    /// one while the first datagrams are under way.
    pub fn readings(&self) -> impl Iterator<Item = &Interval> {
        let mut lengths: Vec<u64> = self.counted().map(Interval::ns).collect();
        lengths.sort_unstable();
        let least = lengths.get(lengths.len() / 2).map_or(0.0, |&median| real(median) * FULL);
        let mut has = [false; 4];
        for i in &self.intervals {
            has.iter_mut().zip(i.scheduled_ns()).for_each(|(has, part)| *has |= part.is_some());
        }
        self.counted().filter(move |i| {
            let parts = i.scheduled_ns().into_iter().zip(has).filter(|(_, has)| *has);
            i.ns() > 0 && parts.map(|(part, _)| part.unwrap_or(0)).chain([i.ns()]).all(|ns| real(ns) >= least)
        })
    }

    /// Connections established in the counted intervals, and their length, ns.
    pub fn established(&self) -> (u64, u64) {
        self.counted().fold((0, 0), |(opened, ns), i| (opened + i.opened, ns + i.ns()))
    }

    /// Connections established per second; `None` when no time was measured.
    pub fn connects_per_second(&self) -> Option<f64> {
        let (opened, ns) = self.established();
        (ns > 0).then(|| per_second(opened, ns))
    }

    /// The spread of connections established per second over the readings.
    pub fn connects_per_interval(&self) -> Option<Spread> {
        let rates: Vec<f64> = self.readings().map(|i| per_second(i.opened, i.ns())).collect();
        Spread::of(&rates)
    }

    /// Connections that ended in an error of any kind. Both ends count the same connections and
    /// each may miss failures that the other saw, so the larger count holds.
    pub fn errors(&self) -> u64 {
        let remote = self.remote.iter().map(Totals::errors).fold(0, u64::saturating_add);
        self.local.errors().max(remote)
    }

    /// Frames of a stream by the counts of the receivers of this direction; `None` while one of them
    /// has none.
    pub fn frames(&self, way: Way) -> Option<Frames> {
        let pattern = self.phase.pattern;
        let frames = |ends: &[Totals]| {
            let all = ends.iter().map(|end| end.frames);
            all.reduce(|sum, one| {
                let mut sum = sum?;
                sum.add(one?);
                Some(sum)
            })
        };
        match way {
            Way::Up if pattern.sends_up() => frames(&self.remote)?,
            Way::Down if pattern.sends_down() => self.local.frames,
            _ => None,
        }
    }

    /// Bytes that moved in the life of a server, whose rate would include its waiting: the key and
    /// the word of each direction that has some.
    pub fn served(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let Traffic { rx_bytes, tx_bytes, .. } = self.local.traffic;
        let moved = SERVED.into_iter().zip([rx_bytes, tx_bytes]);
        moved.map(|((key, word), bytes)| (key, word, bytes)).filter(|(.., bytes)| *bytes > 0)
    }

    /// Payload bytes that arrived, both directions together.
    pub fn received_bytes(&self) -> u64 {
        let bytes = |d: Option<Direction>| d.map_or(0, |d| d.received_bytes);
        bytes(self.up).saturating_add(bytes(self.down))
    }
}

impl Totals {
    /// Connections that ended in an error of any kind.
    pub fn errors(&self) -> u64 {
        self.network_errors.saturating_add(self.data_errors).saturating_add(self.protocol_errors)
    }
}

impl CpuUse {
    /// CPU time of this process, seconds.
    pub fn process_s(&self) -> f64 {
        self.user_s + self.system_s
    }

    /// Share of the time of all CPUs that `seconds` are, 0..=1; `None` when unknown.
    pub fn share(&self, seconds: f64) -> Option<f64> {
        (self.available_s > 0.0).then(|| seconds / self.available_s)
    }
}

/// One end and its counts.
struct EndFigures {
    /// Its totals; `None` when it never said anything.
    total: Option<Traffic>,
    /// Counts that the end does not have.
    unknown: Counts,
    /// The end's counts of an interval.
    in_interval: fn(&Interval) -> Option<Traffic>,
}

/// An end without counts.
const SILENT: EndFigures = EndFigures { total: None, unknown: Counts::NONE, in_interval: |_| None };

impl EndFigures {
    /// The end's count, unless `count` is unknown to it.
    fn with_known(&self, count: Count) -> Option<Traffic> {
        self.total.filter(|_| !self.unknown.has(count))
    }
}

/// Fills in everything in `point` that is computed from the rest of it. `serving` is the traffic
/// before the intervals of a server's point: there the local end is the server, and the clients'
/// counts are not known.
pub(crate) fn derive(point: &mut Point, serving: Option<Traffic>) {
    if point.phase.kind == Kind::Ping {
        return; // its figures are distributions, which are shown directly
    }
    let local = EndFigures {
        total: Some(point.local.traffic),
        unknown: point.local.unknown,
        in_interval: |i| Some(i.local),
    };
    let unknown = point.remote.iter().fold(Counts::NONE, |all, totals| all.and(totals.unknown));
    let remote = EndFigures { total: remote_total(point), unknown, in_interval: |i| i.remote };
    let (client, server) = match serving {
        Some(before) => {
            let in_interval = |i: &Interval| Some(i.local).filter(|t| !is_idle(t));
            (SILENT, EndFigures { total: busy(point, before), in_interval, ..local })
        }
        None => (local, remote),
    };
    let serving = serving.is_some();
    let up = direction(point, &client, &server);
    let down = direction(point, &server, &client);
    let moved = |d: &Direction| d.sent_bytes > 0 || d.received_bytes > 0;
    let asked = &point.phase.pattern;
    let measured = point.status != Status::Failed;
    // Datagrams without bytes are another program's, which reports their number without their rate.
    let untold = |totals: &Totals| totals.packets.as_ref().is_some_and(|p| p.counts.received > 0);
    let (up_told, down_told) = (!point.remote.iter().any(untold), !untold(&point.local));
    point.up = up.filter(|d| moved(d) || (measured && !serving && asked.sends_up() && up_told));
    point.down = down.filter(|d| moved(d) || (measured && !serving && asked.sends_down() && down_told));

    if point.phase.kind == Kind::Connect {
        return; // the rest is about bytes, and they are not its work
    }
    point.fairness = fairness(point);
    (point.tcp_efficiency_percent, point.buffer_delay_percent) = rfc6349(point);
    let remote_cpu: f64 =
        point.remote.iter().filter_map(|totals| totals.cpu).map(|cpu| cpu.process_s()).sum();
    point.local_cpu_s_per_gb = per_gb(point, point.local.cpu.map_or(0.0, |cpu| cpu.process_s()));
    point.remote_cpu_s_per_gb = per_gb(point, remote_cpu);
}

/// A server waits most of its life: it counts in the intervals in which something moved.
fn busy(point: &Point, before: Traffic) -> Option<Traffic> {
    let stretches = std::iter::once(before).chain(point.counted().map(|i| i.local));
    sum_of(stretches.filter(|t| !is_idle(t)), Traffic::add_later)
}

/// True if nothing moved.
pub(crate) fn is_idle(traffic: &Traffic) -> bool {
    traffic.tx_bytes == 0 && traffic.rx_bytes == 0
}

/// Counts of the remote ends together: their totals when all of them arrived, else their interval
/// reports.
fn remote_total(point: &Point) -> Option<Traffic> {
    if !point.remote.is_empty() && point.remote.len() >= point.sessions.len() {
        let mut all = Traffic::default();
        point.remote.iter().for_each(|totals| all.add_host(&totals.traffic));
        return Some(all);
    }
    sum_of(point.counted().filter_map(|i| i.remote), Traffic::add_later)
}

/// The result is the receiver's count. Only when the receiver never said anything, or cannot know,
/// does the sender's stand in for it. `None` when neither end knows.
fn direction(point: &Point, sender: &EndFigures, receiver: &EndFigures) -> Option<Direction> {
    let sent = sender.with_known(Count::SentBytes);
    let got = receiver.with_known(Count::ReceivedBytes);
    let unknown = sender.unknown.common(Counts::of(&[Count::SentBytes]));
    if sent.or(got).is_none() && !unknown.is_empty() {
        return None;
    }
    let sent = sent.unwrap_or_default();
    let (received_bytes, goodput_bps) =
        got.map_or((sent.tx_bytes, sent.tx_bps()), |got| (got.rx_bytes, got.rx_bps()));
    let rates: Vec<f64> = point
        .readings()
        .filter_map(|i| match got {
            Some(_) => (receiver.in_interval)(i).map(|got| got.rx_bps()),
            None => (sender.in_interval)(i).map(|sent| sent.tx_bps()),
        })
        .collect();
    Some(Direction {
        sent_bytes: sent.tx_bytes,
        received_bytes,
        sent_bps: sent.tx_bps(),
        goodput_bps,
        per_interval: Spread::of(&rates),
        confirmed: got.is_some(),
        unknown,
    })
}

/// Jain's index over the rates of our slots of connections, or, when we know of fewer than two, of
/// the remote ends'.
fn fairness(point: &Point) -> Option<f64> {
    let mut remote = Moments::default();
    point.remote.iter().for_each(|totals| remote.merge(&totals.rates));
    point.local.rates.jain().or_else(|| remote.jain())
}

/// Our totals when none were reported (the record was cut short): the sum of the intervals.
pub(crate) fn totals_of(intervals: &[Interval]) -> Totals {
    let mut totals = Totals::default();
    for interval in intervals.iter().filter(|i| !i.omitted) {
        totals.traffic.add_later(&interval.local);
        totals.opened += interval.opened;
        totals.peak = totals.peak.max(interval.in_flight);
        totals.tcp.retransmits += interval.retransmits;
        interval.samples.iter().for_each(|sample| totals.tcp.sample(&sample.info));
    }
    if let Some(last) = intervals.last() {
        totals.completed = last.completed;
        totals.network_errors = last.network_errors;
        totals.data_errors = last.data_errors;
    }
    totals
}

/// TCP efficiency of all senders together, and buffer delay of the connections that sent payload: a
/// pure receiver's round-trip times are of its handshakes, not of the load.
fn rfc6349(point: &Point) -> (Option<f64>, Option<f64>) {
    let mut all = TcpTotals::default();
    let mut loaded = TcpTotals::default();
    for totals in point.ends() {
        all.merge(&totals.tcp);
        if totals.traffic.tx_bytes > 0 {
            loaded.merge(&totals.tcp);
        }
    }
    let efficiency = tcp_efficiency_percent(all.bytes_sent, all.bytes_retrans);
    let delay = loaded
        .mean_rtt_us()
        .zip(base_rtt_us(point))
        .and_then(|(mean, base)| buffer_delay_percent(mean, base));
    (efficiency, delay)
}

/// The base of the buffer delay, µs: the smallest round-trip time that the kernels of both ends saw
/// on the loading connections, usually that of a handshake, before there was a load. Round trips
/// that a program measures have its threads in them. Of several servers, which share the
/// connections evenly, it is the mean.
pub(crate) fn base_rtt_us(point: &Point) -> Option<f64> {
    let known = |totals: &Totals| (totals.tcp.min_rtt_us > 0).then_some(f64::from(totals.tcp.min_rtt_us));
    match point.remote.as_slice() {
        [] | [_] => point.ends().filter_map(known).reduce(f64::min),
        several => {
            let all = several.iter().map(known).collect::<Option<Vec<f64>>>()?;
            Spread::of(&all).map(|spread| spread.mean)
        }
    }
}

/// CPU seconds per 10^9 payload bytes. CPU time is that of the whole phase, so the bytes of the
/// omitted start count here.
fn per_gb(point: &Point, cpu_s: f64) -> Option<f64> {
    let omitted = point.intervals.iter().filter(|i| i.omitted);
    let before: u64 =
        omitted.map(|i| i.local.rx_bytes + i.remote.map_or(i.local.tx_bytes, |remote| remote.rx_bytes)).sum();
    let bytes = point.received_bytes().saturating_add(before);
    (bytes > 0 && cpu_s > 0.0).then(|| cpu_s * 1e9 / real(bytes))
}
