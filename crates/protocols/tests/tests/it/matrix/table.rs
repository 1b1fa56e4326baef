//! The table: protocols, questions, directions and troubles. A new protocol, question or trouble is
//! a row here.

use super::cell::Cell;
use crate::support::run::MS;
pub(super) use crate::support::{PROTOCOLS, Spoken};
use metrics::SECOND;
use model::{
    CapacitySettings, Kind, Media, Pattern, Phase, Ping, Probe, Range, Schedule, SocketSettings,
    StampSettings, Train, Transport, Verify,
};
use stamp::Sizes as _;
use udpmon::PacketTestSettings;

/// Which end sends.
pub(super) const WAYS: [(&str, Pattern); 4] = [
    ("to the server", Pattern::Push),
    ("from the server", Pattern::Pull),
    ("both at once", Pattern::Duplex),
    ("in turns", Pattern::PushPull { push: 20_000, pull: 30_000 }),
];

/// Length of a run and of an interval, ns.
pub(super) const LENGTH: u64 = 2 * SECOND;
const INTERVAL: u64 = SECOND / 2;
/// Payload of a datagram that measures, bytes: more than a path of [`super::cell::NARROW`] carries.
const SIZE: u32 = 1_300;
/// Datagrams a second.
const PER_SECOND: u64 = 100;

/// What a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nature {
    /// Bytes of connections.
    Stream,
    /// Numbered datagrams on a schedule.
    Scheduled,
    /// Messages that are sent back.
    Trips,
    /// Whether something passes at all: that nothing does is a result.
    Passes,
}

/// A question as a user asks it.
pub(super) struct Verb {
    pub(super) name: &'static str,
    pub(super) nature: Nature,
    pub(super) datagrams: bool,
    /// Payload of each direction, bits/s, where a rate is asked for.
    pub(super) rate: Option<u64>,
    /// The phase for a protocol and a direction.
    pub(super) phase: fn(Spoken, Pattern) -> Phase,
}

impl Verb {
    /// Whether a direction means something here.
    pub(super) fn has(&self, way: Pattern) -> bool {
        // Messages go there and back: one direction stands for both.
        let one = self.nature == Nature::Trips;
        // An end that waits for its turn keeps no rate.
        let alone = self.datagrams || self.rate.is_some() || self.name == "connect";
        let turns = matches!(way, Pattern::PushPull { .. }) && alone;
        !turns && (!one || way == Pattern::Push)
    }
}

/// The questions.
pub(super) static VERBS: [Verb; 13] = [
    Verb { name: "tcp", nature: Nature::Stream, datagrams: false, rate: None, phase: |p, w| tcp(p, w, None) },
    Verb {
        name: "tcp --rate",
        nature: Nature::Stream,
        datagrams: false,
        rate: Some(PACED),
        phase: |p, w| tcp(p, w, Some(PACED)),
    },
    Verb { name: "connect", nature: Nature::Stream, datagrams: false, rate: None, phase: connect },
    Verb {
        name: "ping",
        nature: Nature::Trips,
        datagrams: false,
        rate: None,
        phase: |p, _| ping(p, Transport::Tcp),
    },
    Verb {
        name: "ping --udp",
        nature: Nature::Trips,
        datagrams: true,
        rate: None,
        phase: |p, _| ping(p, Transport::Udp),
    },
    Verb {
        name: "delay",
        nature: Nature::Scheduled,
        datagrams: true,
        rate: Some(RATE),
        phase: |p, w| delay(p, w, Some(RATE)),
    },
    Verb {
        name: "delay --search",
        nature: Nature::Scheduled,
        datagrams: true,
        rate: None,
        // The first step goes as fast as the path takes.
        phase: |p, w| Phase { duration_ns: Some(10 * MS), ..delay(p, w, None) },
    },
    Verb { name: "delay --path-mtu", nature: Nature::Passes, datagrams: true, rate: None, phase: path_mtu },
    Verb { name: "train", nature: Nature::Scheduled, datagrams: true, rate: None, phase: train },
    Verb { name: "stream", nature: Nature::Scheduled, datagrams: true, rate: Some(MEDIA), phase: stream },
    Verb {
        name: "load (connections)",
        nature: Nature::Stream,
        datagrams: false,
        rate: None,
        // The exchanges inside its payload.
        phase: |p, w| Phase { inside_gap_ns: Some(20 * MS), ..tcp(p, w, None) },
    },
    Verb {
        name: "load (datagrams)",
        nature: Nature::Scheduled,
        datagrams: true,
        rate: None,
        phase: |p, w| {
            let spacing = model::Spacing::Poisson;
            let base = delay(p, w, Some(50 * 160 * 8));
            Phase { probe: base.probe.map(|probe| Probe { size: 160, spacing, ..probe }), ..base }
        },
    },
    Verb { name: "capacity", nature: Nature::Scheduled, datagrams: true, rate: None, phase: capacity },
];

/// Payload of `tcp --rate` and direction, bits/s: of one connection.
const PACED: u64 = 1_000_000;
const RATE: u64 = PER_SECOND * SIZE as u64 * 8;
const MEDIA: u64 = 1_000_000;

/// A phase of the usual length.
fn base(pattern: Pattern) -> Phase {
    Phase {
        pattern,
        connections: 1,
        duration_ns: Some(LENGTH),
        interval_ns: INTERVAL,
        buffer: Range::just(16 * 1024),
        stall_ns: 3 * SECOND,
        connect_timeout_ns: 3 * SECOND,
        ..Phase::default()
    }
}

/// As the command line makes it for this protocol.
fn tcp(protocol: Spoken, pattern: Pattern, rate: Option<u64>) -> Phase {
    let plain = protocol.info().defaults.plain;
    Phase {
        rate,
        transfer: if plain { common::bulk::UNLIMITED } else { 1 << 30 },
        verify: if plain { Verify::Connection } else { Verify::Data },
        // Some protocols send whole blocks: the last one is less than half a per cent of the run.
        buffer: Range::just(if rate.is_some() { 1_000 } else { 16 * 1024 }),
        ..base(pattern)
    }
}

fn connect(_: Spoken, pattern: Pattern) -> Phase {
    let connect_rate = Some(100.0);
    let (transfer, buffer) = (1, Range::just(4_096));
    Phase { kind: Kind::Connect, connections: 4, transfer, buffer, connect_rate, ..base(pattern) }
}

fn ping(protocol: Spoken, transport: Transport) -> Phase {
    let stamp = (protocol.name() == "stamp").then(StampSettings::default);
    let size = stamp.map_or(64, |stamp| stamp.size());
    let schedule = Schedule::Fixed { gap_ns: 20 * MS };
    let ping = Ping { transport, size, stamp, schedule, ..Ping::default() };
    let verify = if stamp.is_some() { Verify::Connection } else { Verify::Data };
    Phase { kind: Kind::Ping, ping: Some(ping), iterations: Some(1), verify, ..base(Pattern::Push) }
}

fn delay(protocol: Spoken, pattern: Pattern, rate: Option<u64>) -> Phase {
    let own = protocol.name() == "native";
    let plain = protocol.info().defaults.plain;
    Phase {
        kind: Kind::Delay,
        probe: Some(Probe { size: SIZE, ..Probe::default() }),
        rate,
        // Nothing agrees on an end with another protocol's: the flow has it, and is not begun
        // again.
        iterations: (!own).then_some(1),
        transfer: if plain { common::bulk::UNLIMITED } else { 1 << 30 },
        verify: if plain { Verify::Connection } else { Verify::Data },
        ..base(pattern)
    }
}

fn path_mtu(protocol: Spoken, pattern: Pattern) -> Phase {
    let base = delay(protocol, pattern, Some(10 * u64::from(SIZE) * 8));
    let sockets = SocketSettings { dont_fragment: Some(true), ..base.sockets.clone() };
    Phase { sockets, ..base }
}

fn train(protocol: Spoken, pattern: Pattern) -> Phase {
    if protocol.name() == "udpmon" {
        let asked =
            PacketTestSettings { size: 1_300, packets: 100, waits: vec![50_000], ..Default::default() };
        let iterations = Some(1);
        return Phase {
            kind: Kind::Train,
            extra: asked.extra(),
            iterations,
            duration_ns: None,
            ..base(pattern)
        };
    }
    let train = Train { packets: 10, repeat: 10, waits_ns: vec![MS], ..Train::default() };
    Phase {
        kind: Kind::Train,
        duration_ns: Some(train.duration_ns()),
        rate: Some(train.mean_bps(SIZE)),
        train: Some(train),
        probe: Some(Probe { size: SIZE, ..Probe::default() }),
        ..base(pattern)
    }
}

fn stream(protocol: Spoken, pattern: Pattern) -> Phase {
    // A frame of 2,500 bytes: two datagrams.
    let media = Media::new(MEDIA, 50, LENGTH / SECOND, 1, SIZE).ok();
    let probe = (protocol.name() == "native").then(|| Probe { size: SIZE, ..Probe::default() });
    Phase {
        kind: Kind::Stream,
        transfer: media.map_or(1, |media| media.total()),
        media,
        probe,
        iterations: Some(1),
        duration_ns: None,
        buffer: Range::just(64 * 1024),
        sockets: SocketSettings { rcvbuf: Some(1 << 20), gro: true, ..SocketSettings::default() },
        ..base(pattern)
    }
}

/// A fixed rate of 1 Mbit/s, for the shortest test.
fn capacity(_: Spoken, pattern: Pattern) -> Phase {
    let settings = CapacitySettings { row: Some(1), ..CapacitySettings::RFC };
    Phase { duration_ns: Some(5 * SECOND), interval_ns: INTERVAL, ..settings.phase(pattern, 1) }
}

/// What is done to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Nothing.
    None,
    /// The server's kernel accepts, and its program says nothing.
    Mute,
    /// The server's process is killed in the middle.
    Dies,
    /// The server's host is cut off in silence, half a second before the planned end.
    Silent,
    /// The path drops everything behind the handshake.
    Behind,
    /// The path drops packets of more than 1,280 bytes without notice.
    Narrow,
    /// Two servers are named.
    Two,
    /// Two servers are named, and one of them is mute.
    Half,
    /// 300 ms each way.
    Far,
    /// One packet in fifty arrives with a flipped bit that no checksum shows.
    Damaged,
    /// One packet in twenty is dropped by the receiver's kernel for its checksum.
    Spoilt,
    /// The server's threads wake late, and datagrams wait at its listening socket meanwhile.
    Late,
}

/// The troubles, in words.
pub(super) const TROUBLES: [(Trouble, &str); 12] = [
    (Trouble::None, "a good path"),
    (Trouble::Mute, "a server that accepts and says nothing"),
    (Trouble::Dies, "a server whose process is killed in the middle"),
    (Trouble::Silent, "a server whose host is cut off half a second before the planned end"),
    (Trouble::Behind, "a path that drops everything behind the handshake"),
    (Trouble::Narrow, "a path that drops packets of more than 1,280 bytes without notice"),
    (Trouble::Two, "two servers"),
    (Trouble::Half, "two servers, of which one says nothing"),
    (Trouble::Far, "300 ms each way"),
    (Trouble::Damaged, "packets with a flipped bit that no checksum shows (2 %)"),
    (Trouble::Spoilt, "packets with a wrong checksum, which the receiver's kernel drops (5 %)"),
    (Trouble::Late, "a server whose threads wake up to 60 ms late: datagrams wait at its listening socket"),
];

/// Settings of a server that limit its clients.
pub(super) type Limit = (&'static str, fn(&Phase) -> common::Limits);

/// A server that limits nothing.
pub(super) const UNLIMITED: &str = "no limits";

/// The servers that are asked. Those with limits are tried on good paths, every question in every
/// run.
pub(super) const LIMITS: [Limit; 2] = [
    (UNLIMITED, |_| common::Limits::default()),
    ("a server that gives a tenth of the rate", |phase| common::Limits {
        rate: Some(phase.cost().rate_bps.or(phase.rate).unwrap_or(super::cell::RATE) / 10),
        ..common::Limits::default()
    }),
];

/// Cells that are left out although the protocol carries the question, or a rule of them. `""` and
/// `None` are any.
pub(super) struct LeftOut {
    pub(super) protocol: &'static str,
    pub(super) verb: &'static str,
    pub(super) way: &'static str,
    pub(super) trouble: Option<Trouble>,
    pub(super) rule: &'static str,
    pub(super) why: &'static str,
}

impl LeftOut {
    /// Whether it is about a rule of a cell; about the cell as a whole with `""`.
    pub(super) fn is_of(&self, cell: &Cell, rule: &str) -> bool {
        let fits = |of: &str, name: &str| of.is_empty() || of == name;
        fits(self.protocol, cell.protocol.name())
            && fits(self.verb, cell.verb.name)
            && fits(self.way, cell.way)
            && self.trouble.is_none_or(|trouble| trouble == cell.trouble)
            && self.rule == rule
    }
}

/// What is left out, with the reason.
pub(super) static LEFT_OUT: &[LeftOut] = &[LeftOut {
    protocol: "udpstp",
    verb: "capacity",
    way: "to the server",
    trouble: Some(Trouble::Spoilt),
    rule: "agree",
    why: "a lost report takes the counts of its trial interval along, until the sub-interval is over",
}];

/// A server that waits for a silent client longer than [`common::Patience::LIMIT`].
pub(super) struct LongWait {
    pub(super) protocol: &'static str,
    pub(super) seconds: u64,
    pub(super) why: &'static str,
}

const fn waits(protocol: &'static str, seconds: u64, why: &'static str) -> LongWait {
    LongWait { protocol, seconds, why }
}

const IDLE: &str =
    "a connection may be idle: the kernel asks after 60 s whether the client's host is there, ten times";
const PROGRAM: &str = "the client is another program's, and the original server waits for ever";
/// The longer waits of servers, with the reasons.
pub(super) static LONG_WAITS: &[LongWait] = &[
    waits("iperf3", 120, "data is waited for as long as by the original (--rcv-timeout)"),
    waits("ctstraffic", 60, "what a slow pace sends fills the send buffer before the silence shows"),
    waits("ttcp", 300, PROGRAM),
    waits("ntttcp", 300, PROGRAM),
    waits("udpmon", 300, "pauses between the packets of a test may last 214 s, and no message names them"),
    waits("tcpmon", 600, IDLE),
    waits("echo", 600, IDLE),
    waits("discard", 600, IDLE),
    waits("chargen", 300, "a reader may pause: the RFC lets it"),
    waits("stamp", 900, "no sender says how seldom its requests are (REFWAIT of RFC 5357)"),
];

/// Why a protocol does not carry a question in a direction, in its own words; `Ok` where it does.
pub(super) fn carried(protocol: Spoken, verb: &Verb, way: Pattern) -> Result<Phase, String> {
    let phase = protocol.suited((verb.phase)(protocol, way));
    phase.check()?;
    protocol.check(&phase)?;
    if verb.name == "delay --search" && protocol.name() != "native" {
        return Err("tells nothing of what arrived, which a search needs to know".to_owned());
    }
    Ok(phase)
}
