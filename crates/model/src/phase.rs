//! One stretch of measuring under fixed settings, as orthogonal values.

use crate::capacity;
use crate::{
    CapacitySettings, Extra, Media, Ping, Probe, Schedule, SocketSettings, Spacing, Trace, Train, Way,
};
use metrics::SECOND;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;

/// Which question is asked; it decides what counts as the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Goodput, integrity and reliability of TCP connections.
    #[default]
    Tcp,
    /// Connection establishment: many short connections.
    Connect,
    /// Arrival of a media stream: frames of datagrams at a fixed rate.
    Stream,
    /// Round trips of messages.
    Ping,
    /// One-way delay and loss of datagrams at a rate.
    Delay,
    /// Figures of a path from trains of packets: dispersion, and the delay of every packet.
    Train,
    /// Maximum IP-layer capacity (RFC 9097): the highest rate of IP packets that arrives.
    Capacity,
}

impl Kind {
    /// All questions.
    pub const ALL: [Kind; 7] =
        [Kind::Tcp, Kind::Connect, Kind::Stream, Kind::Ping, Kind::Delay, Kind::Train, Kind::Capacity];

    /// As documents and the command line name it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Tcp => "tcp",
            Kind::Connect => "connect",
            Kind::Stream => "stream",
            Kind::Ping => "ping",
            Kind::Delay => "delay",
            Kind::Train => "train",
            Kind::Capacity => "capacity",
        }
    }

    /// True if numbered datagrams are sent on a schedule.
    pub fn probes(self) -> bool {
        matches!(self, Kind::Delay | Kind::Train | Kind::Capacity)
    }
}

/// Which end sends payload, and in what order (the patterns of ctsTraffic).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// The client sends.
    #[default]
    Push,
    /// The server sends.
    Pull,
    /// Client and server take turns; the bytes of each turn. Both directions count toward the
    /// transfer.
    PushPull {
        /// Bytes the client sends in its turn.
        push: u64,
        /// Bytes the server sends in its turn.
        pull: u64,
    },
    /// Both send half of the transfer at the same time.
    Duplex,
}

impl Pattern {
    /// Client-to-server and server-to-client payload of a transfer of `total` bytes.
    ///
    /// Duplex halves it, rounding an odd total up first; push-pull cuts the last turn short; as
    /// ctsTraffic does.
    pub fn split(self, total: u64) -> (u64, u64) {
        match self {
            Pattern::Push => (total, 0),
            Pattern::Pull => (0, total),
            Pattern::Duplex => {
                let half = total / 2 + total % 2;
                (half, half)
            }
            Pattern::PushPull { push, pull } => {
                let round = push.saturating_add(pull).max(1);
                let (rounds, rest) = (total / round, total % round);
                (rounds * push + rest.min(push), rounds * pull + rest.saturating_sub(push))
            }
        }
    }

    /// True if the client sends payload.
    pub fn sends_up(self) -> bool {
        self != Pattern::Pull
    }

    /// True if the server sends payload.
    pub fn sends_down(self) -> bool {
        self != Pattern::Push
    }

    /// True if the sender of this direction sends payload.
    pub fn sends(self, way: Way) -> bool {
        match way {
            Way::Up => self.sends_up(),
            Way::Down => self.sends_down(),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pattern::Push => "push",
            Pattern::Pull => "pull",
            Pattern::PushPull { .. } => "pushpull",
            Pattern::Duplex => "duplex",
        })
    }
}

/// Check of payload by receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verify {
    /// Every byte is compared with the sent one.
    #[default]
    Data,
    /// Bytes are read and counted; the counts of both ends must agree.
    Connection,
    /// Bytes may be dropped unseen (`MSG_TRUNC`); the counts of both ends must agree.
    None,
}

impl Verify {
    /// A receiver's way of reading, by its name in results: `compare`, `read` or `discard`.
    pub fn receive(self) -> &'static str {
        match self {
            Verify::Data => "compare",
            Verify::Connection => "read",
            Verify::None => "discard",
        }
    }
}

/// Payload that senders send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Payload {
    /// The ctsTraffic pattern: a 16-bit little-endian counter, period 64 KiB.
    #[default]
    Pattern,
    /// Random bytes, seeded per connection and direction: incompressible, and never the same at two
    /// offsets.
    Random,
    /// Zeros.
    Zeros,
}

/// A client's way of ending a connection that has moved all its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Shutdown {
    /// In order: FIN both ways.
    #[default]
    Graceful,
    /// By abort: RST, which leaves no TIME_WAIT.
    Rude,
    /// A coin flip per connection.
    Random,
}

/// A size or a range of sizes, both ends included; from a range one is drawn per use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Range {
    /// Smallest, bytes.
    pub low: u64,
    /// Largest, bytes.
    pub high: u64,
}

impl Range {
    /// Always `n`.
    pub const fn just(n: u64) -> Self {
        Range { low: n, high: n }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.low == self.high {
            write!(f, "{}", self.low)
        } else {
            write!(f, "[{},{}]", self.low, self.high)
        }
    }
}

/// `count` sends, then a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Burst {
    /// Sends in a burst.
    pub count: u32,
    /// Pause after it, ns.
    pub delay_ns: u64,
}

/// One stretch of measuring under fixed settings. Durations are in ns, sizes in bytes.
///
/// Wide: one object of the JSON and of the proposal to a server, a member for each setting.
/// Datagrams are settings of three questions, which is why the questions are no enum that holds
/// their own: each reader would go through accessors that take it apart again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Phase {
    /// The question.
    pub kind: Kind,
    /// Which end sends.
    pub pattern: Pattern,
    /// Concurrent connections.
    pub connections: u32,
    /// Payload of one connection, both directions together, bytes; a connection that is done is
    /// replaced by another.
    pub transfer: u64,
    /// With a range of transfers, its upper end, bytes: one is drawn for each connection. Ends that
    /// agree on nothing draw one each, which makes failures on purpose.
    pub transfer_high: Option<u64>,
    /// Lives of each connection slot; `None` replaces connections until the time is up.
    pub iterations: Option<u64>,
    /// Time for which all connections are kept open together once each has moved its payload, ns;
    /// the run ends then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_ns: Option<u64>,
    /// Payload of all connections together after which the run ends, bytes.
    pub total_bytes: Option<u64>,
    /// Length of the run, ns; `None` when something else ends it.
    pub duration_ns: Option<u64>,
    /// Part at its start that does not count, ns.
    pub omit_ns: u64,
    /// Length of an interval, ns.
    pub interval_ns: u64,
    /// Bytes per send and receive call.
    pub buffer: Range,
    /// Limit per connection and direction, bits/s.
    pub rate: Option<u64>,
    /// With a range of rates, its upper end, bits/s: one is drawn for each connection.
    pub rate_high: Option<u64>,
    /// The stretch of time over which ctsTraffic's limit is kept, ns; `None` paces evenly.
    pub rate_period_ns: Option<u64>,
    /// Sends in bursts; `None` sends evenly.
    pub burst: Option<Burst>,
    /// Seed of transfers, rates and buffers that are drawn from ranges: the same seed draws the
    /// same ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draw_seed: Option<u64>,
    /// Receivers' check.
    pub verify: Verify,
    /// The payload.
    pub payload: Payload,
    /// Seed of random payload, where the user chose it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_seed: Option<u64>,
    /// End of connections.
    pub shutdown: Shutdown,
    /// The media stream; `None` when no stream is measured.
    pub media: Option<Media>,
    /// Messages of a round-trip measurement; `None` when no round trips are measured.
    pub ping: Option<Ping>,
    /// Between two exchanges that each connection makes inside its payload, ns; `None` makes none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside_gap_ns: Option<u64>,
    /// Datagrams of a delay measurement; `None` when none is made.
    pub probe: Option<Probe>,
    /// Recorded times between datagrams, repeated over and over, when the sending times follow a
    /// trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// The trains that datagrams form, when trains are measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train: Option<Train>,
    /// Settings of a capacity test, when the capacity is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<CapacitySettings>,
    /// Settings of one protocol only, in place of probe and trains: its crate checks them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra: Option<Extra>,
    /// Socket options.
    pub sockets: SocketSettings,
    /// New connections per second over all slots; `None` is as fast as it goes.
    pub connect_rate: Option<f64>,
    /// Connections that may be connecting at once. A connection of a phase with `hold_ns` counts as
    /// connecting until the server has confirmed its bytes.
    pub throttle: u32,
    /// Longest time that a connect may take, ns.
    pub connect_timeout_ns: u64,
    /// Longest time for which a connection may move nothing while it should, ns.
    pub stall_ns: u64,
    /// True if no other session may run on the server at the same time.
    pub exclusive: bool,
    /// The worker of either end that has the first connection; the next have the others in turn.
    /// Clients draw it, so that many with one connection each do not all meet on one worker.
    pub first_worker: u32,
}

impl Default for Phase {
    fn default() -> Self {
        Phase {
            kind: Kind::Tcp,
            pattern: Pattern::Push,
            connections: 8,
            transfer: 1 << 30,
            transfer_high: None,
            iterations: None,
            hold_ns: None,
            total_bytes: None,
            duration_ns: Some(10 * SECOND),
            omit_ns: 0,
            interval_ns: SECOND,
            buffer: Range::just(256 * 1024),
            rate: None,
            rate_high: None,
            rate_period_ns: None,
            burst: None,
            draw_seed: None,
            verify: Verify::Data,
            payload: Payload::Pattern,
            payload_seed: None,
            shutdown: Shutdown::Graceful,
            media: None,
            ping: None,
            inside_gap_ns: None,
            probe: None,
            trace: None,
            train: None,
            capacity: None,
            extra: None,
            sockets: SocketSettings::default(),
            connect_rate: None,
            throttle: 1000,
            connect_timeout_ns: 10 * SECOND,
            stall_ns: 15 * SECOND,
            exclusive: false,
            first_worker: 0,
        }
    }
}

/// Longest buffer a phase may ask for; it is the size of a worker's receive buffer.
pub const MAX_BUFFER: u64 = 16 << 20;
/// Most connections a phase may ask for.
pub const MAX_CONNECTIONS: u32 = 1_000_000;

/// True if an optional value is absent or in `range`.
fn within(value: Option<u64>, range: RangeInclusive<u64>) -> bool {
    value.is_none_or(|value| range.contains(&value))
}

impl Phase {
    /// Most bytes of a connection; a connection of this many is one without end.
    pub const MAX_TRANSFER: u64 = 1 << 50;

    /// Time from the agreement on the phase to its start, ns: the schedule is set up within it.
    pub fn lead_ns(&self) -> u64 {
        let open = self.ping.filter(|ping| ping.schedule != Schedule::Closed);
        self.probe.map(|probe| probe.lead_ns).or(open.map(|ping| ping.lead_ns)).unwrap_or(0)
    }

    /// Checks every value; both ends do.
    ///
    /// # Errors
    /// One sentence naming the first value that cannot be, and what would be accepted.
    pub fn check(&self) -> Result<(), String> {
        let must = |ok: bool, what: &str| if ok { Ok(()) } else { Err(what.to_owned()) };
        must((1..=MAX_CONNECTIONS).contains(&self.connections), "connections must be 1 to 1000000")?;
        must((1..=Phase::MAX_TRANSFER).contains(&self.transfer), "the transfer must be 1 byte to 1 PiB")?;
        let apart = within(self.inside_gap_ns, SECOND / 1000..=3600 * SECOND);
        must(apart, "exchanges inside the payload must be 1 ms to 1 h apart")?;
        must(self.iterations != Some(0), "iterations must be at least 1")?;
        must(within(self.hold_ns, 1..=24 * 3600 * SECOND), "connections are held for at most 24 h")?;
        let held = self.hold_ns.is_none() || (self.kind == Kind::Connect && self.iterations == Some(1));
        must(held, "only connections of a measurement of connects are held, and each of them lives once")?;
        must(self.total_bytes != Some(0), "the total number of bytes must be at least 1")?;
        must(self.duration_ns != Some(0), "the duration must be longer than 0")?;
        must((SECOND / 100..=3600 * SECOND).contains(&self.interval_ns), "the interval must be 10ms to 1h")?;
        let Range { low, high } = self.buffer;
        let rises = 1 <= low && low <= high && high <= MAX_BUFFER;
        must(rises, "the buffer must be 1 byte to 16Mi, and a range must rise")?;
        must(
            within(self.rate, 8..=10_000_000_000_000),
            "the rate must be 8 bit/s to 10T, or left out for no limit",
        )?;
        let rises = within(self.transfer_high, self.transfer..=Phase::MAX_TRANSFER);
        must(rises, "a range of transfers must rise, to 1 PiB at most")?;
        let rises = self.rate_high.is_none_or(|high| self.rate.is_some_and(|low| low <= high));
        must(rises, "a range of rates must rise")?;
        must(self.rate_period_ns != Some(0), "the period of a rate limit must be longer than 0")?;
        let whole = self.burst.is_none_or(|burst| burst.count > 0 && burst.delay_ns > 0);
        must(whole, "a burst needs a count and a delay above 0")?;
        must(!(self.burst.is_some() && self.rate.is_some()), "a burst and a rate exclude each other")?;
        let paced = self.connect_rate.is_none_or(|rate| rate > 0.0 && rate <= 1e7);
        must(paced, "the connection rate must be above 0 and at most 10000000 per second")?;
        let ends = self.omit_ns == 0 || self.duration_ns.is_some();
        must(ends, "omitting the start needs a length of the run: without one, all of it might be omitted")?;
        must(self.throttle > 0, "the connect throttle must be at least 1")?;
        let counts = self.duration_ns.is_none_or(|duration| duration > self.omit_ns);
        must(counts, "the omitted start must be shorter than the run")?;
        self.sockets.check()?;
        let streams = (self.kind == Kind::Stream) == self.media.is_some();
        must(streams, "a stream needs its rate and its frame rate, and nothing else has them")?;
        self.media.map_or(Ok(()), |media| media.check())?;
        let pings = (self.kind == Kind::Ping) == self.ping.is_some();
        must(pings, "round trips need their messages described, and no other phase has messages")?;
        let timed = |by_trace: bool| {
            let has = by_trace == self.trace.is_some();
            must(has, "times of a trace need the trace, and the trace is of no use otherwise")
        };
        if let Some(ping) = &self.ping {
            ping.check()?;
            timed(matches!(ping.schedule, Schedule::Trace { .. }))?;
        }
        // Our own protocol's streams are made of probes, others have packets of their own.
        let free = self.kind == Kind::Stream || self.extra.is_some() || self.capacity.is_some();
        let probes = free || self.kind.probes() == self.probe.is_some();
        must(probes, "a measurement of delay needs its datagrams, and nothing else but a stream has them")?;
        if let Some(probe) = &self.probe {
            probe.check(self.connections, self.media.is_some())?;
            let fits = self.media.is_none_or(|media| media.datagram == probe.size && media.datagram >= 128);
            must(fits, "a datagram of a stream must have at least 128 bytes")?;
            let in_turns = matches!(self.pattern, Pattern::PushPull { .. });
            must(!in_turns, "datagrams go to the server, from it, or both ways at once, not in turns")?;
        }
        let trains = self.extra.is_some() || (self.kind == Kind::Train) == self.train.is_some();
        must(trains, "a measurement of trains needs them, and nothing else has them")?;
        let measures = (self.kind == Kind::Capacity) == self.capacity.is_some();
        must(measures, "a measurement of capacity needs its settings, and nothing else has them")?;
        self.capacity.map_or(Ok(()), |capacity| capacity.check(self.connections, self.duration_ns))?;
        if let Some(probe) = &self.probe {
            timed(probe.spacing == Spacing::Trace)?;
            let own = self.trace.as_ref().is_none_or(|trace| self.rate == Some(trace.mean_bps(probe.size)));
            must(own, "a trace cannot be sent at another rate than its own")?;
            let delays = self.trace.is_none() || self.kind == Kind::Delay;
            must(delays, "only measurements of delay follow a trace")?;
        }
        self.trace.as_ref().map_or(Ok(()), Trace::check)?;
        if let (Some(train), Some(probe)) = (&self.train, &self.probe) {
            train.check()?;
            must(self.connections == 1, "trains go in one flow")?;
            let one_way = matches!(self.pattern, Pattern::Push | Pattern::Pull);
            let goes = if train.echo { self.pattern == Pattern::Duplex } else { one_way };
            must(goes, "trains go one way, unless they are returned")?;
            let merged = train.echo && self.sockets.gro;
            must(!merged, "packets that are to be returned one by one cannot be received merged (--gro)")?;
            let own = self.rate == Some(train.mean_bps(probe.size));
            must(own, "trains cannot be sent at another rate than theirs: send fewer, or less often")?;
        }
        if let Pattern::PushPull { push, pull } = self.pattern {
            must(push > 0 && pull > 0, "push-pull segments must be at least 1 byte")?;
        }
        Ok(())
    }

    /// When the run ends by the clock, counted from its start: the omitted part and the duration.
    pub fn ends_after(&self) -> Option<u64> {
        // Our own streams begin together; other programs' streams begin when each server answers,
        // and end by themselves.
        let stream = self.media.filter(|_| self.probe.is_some());
        let length = stream.map(|media| media.length_ns()).into_iter().chain(self.duration_ns).min();
        // A capacity test ends by itself once its last sub-interval is reported.
        let tail = if self.capacity.is_some() { capacity::TAIL_NS } else { 0 };
        length.map(|ns| ns.saturating_add(tail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_ends_at_its_length_or_sooner_if_asked() {
        let media = Media::new(25_000_000, 60, 10, 1, 1400).ok();
        let ours = Phase { media, probe: Some(Probe::default()), duration_ns: None, ..Phase::default() };
        let asked = |ns| Phase { duration_ns: Some(ns), ..ours.clone() }.ends_after();
        assert_eq!(ours.ends_after(), Some(10_000_000_000));
        assert_eq!(asked(3_000_000_000), Some(3_000_000_000));
        assert_eq!(asked(20_000_000_000), Some(10_000_000_000));
        // A stream of ctsTraffic's ends by itself.
        assert_eq!(Phase { probe: None, ..ours }.ends_after(), None);
    }

    /// Plays the turns one by one.
    fn played(push: u64, pull: u64, total: u64) -> (u64, u64) {
        let (mut up, mut down, mut ours) = (0, 0, true);
        while up + down < total {
            let left = total - up - down;
            if ours {
                up += push.min(left);
            } else {
                down += pull.min(left);
            }
            ours = !ours;
        }
        (up, down)
    }

    #[test]
    fn push_pull_splits_as_if_played_turn_by_turn() {
        for (push, pull, total) in [
            (1_048_576, 1_048_576, 2_500_000),
            (3, 5, 1),
            (3, 5, 8),
            (3, 5, 10),
            (3, 5, 13),
            (7, 1, 1_000),
            (1, 1, 3),
        ] {
            assert_eq!(Pattern::PushPull { push, pull }.split(total), played(push, pull, total));
        }
        // The example of the ctsTraffic notes: 1,048,576 up, as many down, 402,848 up.
        let (up, down) = Pattern::PushPull { push: 1_048_576, pull: 1_048_576 }.split(2_500_000);
        assert_eq!((up, down), (1_048_576 + 402_848, 1_048_576));
    }

    #[test]
    fn duplex_rounds_an_odd_total_up() {
        assert_eq!(Pattern::Duplex.split(255), (128, 128));
        assert_eq!(Pattern::Duplex.split(256), (128, 128));
        assert_eq!(Pattern::Push.split(5), (5, 0));
        assert_eq!(Pattern::Pull.split(5), (0, 5));
    }

    #[test]
    fn the_default_phase_passes_its_own_check() {
        assert_eq!(Phase::default().check(), Ok(()));
        let bad = Phase { buffer: Range { low: 9, high: 3 }, ..Phase::default() };
        assert!(bad.check().unwrap_err().contains("range must rise"));
        let bad = Phase { connections: 0, ..Phase::default() };
        assert!(bad.check().unwrap_err().contains("connections"));
    }

    #[test]
    fn a_phase_survives_json_and_ignores_what_it_does_not_know() {
        let phase = Phase { rate: Some(5), ..Phase::default() };
        let mut json = serde_json::to_value(&phase).unwrap();
        json["something_new"] = serde_json::json!({"deep": [1, 2]});
        assert_eq!(serde_json::from_value::<Phase>(json).unwrap(), phase);
        assert_eq!(serde_json::from_str::<Phase>("{}").unwrap(), Phase::default());
    }
}
