//! The requested conditions of each direction, and of the lab as a whole.

use metrics::{Ecn, SECOND, format_duration, real};
use serde::Serialize;

/// Distribution of a jitter's amounts. All are drawn from the seed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Evenly between minus and plus the amount.
    Uniform,
    /// Bell-shaped around 0, the amount being the standard deviation.
    Normal,
    /// Only later, the amount being the mean: many small, few large.
    Exponential,
    /// Only later, the amount being the mean, with a heavy tail: a Lomax (Pareto II) distribution
    /// of this shape, above 1; the smaller the heavier. Cut off at a thousand times the amount.
    Pareto(f64),
}

/// Delay that differs from packet to packet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Jitter {
    /// The shape's parameter, ns.
    pub amount_ns: u64,
    /// Distribution of the amounts.
    pub shape: Shape,
    /// True if a packet may overtake one that was given more delay. Otherwise it waits for it, as
    /// in a queue.
    pub reorder: bool,
}

/// Capacity of the bottleneck's queue, the packet on the wire included. A packet that finds it idle
/// is always taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// A packet that would have to wait for longer is dropped, ns.
    Time(u64),
    /// Limit in bytes.
    Bytes(u64),
    /// Limit in packets.
    Packets(u64),
}

/// A bottleneck with a drop-tail queue before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Bottleneck {
    /// Bits per second.
    pub rate_bps: u64,
    /// Capacity of the queue.
    pub limit: Limit,
    /// Bytes that each packet takes beside its own: 38 for Ethernet's header, checksum, preamble
    /// and gap.
    pub overhead: u32,
}

/// Losses in bursts: a chain of two states (Gilbert-Elliott), one step per packet, beginning in the
/// good one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Bursts {
    /// Probability of going from good to bad.
    pub enter: f64,
    /// Probability of going from bad to good: bad times last 1 / `leave` packets on average.
    pub leave: f64,
    /// Probability that a packet is lost in a bad time.
    pub bad: f64,
    /// Probability that a packet is lost in a good time.
    pub good: f64,
}

/// Packets that arrive more than once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Duplicate {
    /// Probability, per packet.
    pub chance: f64,
    /// Number of additional arrivals.
    pub copies: u8,
    /// From one to the next, ns.
    pub gap_ns: u64,
}

/// Way in which a packet gets behind later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Behind {
    /// The packet is held until this many later ones have left, or for [`HOLD_NS`] if fewer follow.
    Packets(u16),
    /// The packet leaves this much later, ns; others do not wait for it.
    Time(u64),
}

/// The longest that a packet is held back for others to overtake it, ns.
pub const HOLD_NS: u64 = SECOND;

/// Packets that are overtaken.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Reorder {
    /// Probability, per packet.
    pub chance: f64,
    /// Distance behind the later packets.
    pub behind: Behind,
}

/// Packets with flipped bits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Corrupt {
    /// Probability, per packet that has payload.
    pub chance: f64,
    /// Bits flipped in each, all different; 1 to 16.
    pub bits: u8,
    /// True for corruption on the wire, below the checksums: the receiver's kernel then drops the
    /// packet. Otherwise the checksums are made to fit, and the damage reaches the application.
    pub wire: bool,
}

/// A single or periodic time. Times count from [`crate::Lab::begin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Window {
    /// When it begins, ns.
    pub start_ns: u64,
    /// Its length, ns.
    pub length_ns: u64,
    /// From one beginning to the next, ns; 0 when there is only one.
    pub period_ns: u64,
}

impl Window {
    /// When the window that `at` (ns) falls into is over; `None` when it falls into none.
    pub fn end(&self, at: u64) -> Option<u64> {
        let since = at.checked_sub(self.start_ns)?;
        let within = if self.period_ns == 0 { since } else { since % self.period_ns };
        (within < self.length_ns).then(|| at - within + self.length_ns)
    }
}

/// Treatment of packets larger than the path's MTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PathMtu {
    /// The largest packet that passes, bytes.
    pub bytes: u32,
    /// True for a black hole: such packets vanish; otherwise an ICMP message reports each to its
    /// sender.
    pub silent: bool,
}

/// Which packets the conditions are for. Others pass at once and untouched, and are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Only {
    /// The protocol's number: 6 is TCP, 17 UDP.
    pub protocol: u8,
    /// The port, of either end.
    pub port: Option<u16>,
    /// The ECN codepoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<Ecn>,
}

/// The conditions of one direction, in the order of their effects: [`Only`], path MTU, outage,
/// loss, burst loss, corruption, marking, bottleneck, delay and jitter, reordering, stall,
/// duplication. A lost packet therefore takes no room in the queue, and copies do not either.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Path {
    /// For which packets; `None` for all.
    pub only: Option<Only>,
    /// Delay of every packet, ns.
    pub delay_ns: u64,
    /// Delay that varies, added to `delay_ns`.
    pub jitter: Option<Jitter>,
    /// Limited rate.
    pub bottleneck: Option<Bottleneck>,
    /// Probability that a packet is lost, each for itself.
    pub loss: f64,
    /// Losses in bursts, beside those.
    pub bursts: Option<Bursts>,
    /// Packets that arrive more than once.
    pub duplicate: Option<Duplicate>,
    /// Packets that are overtaken.
    pub reorder: Option<Reorder>,
    /// Packets with flipped bits.
    pub corrupt: Option<Corrupt>,
    /// Packets that arrive during these are lost.
    pub outages: Vec<Window>,
    /// While these last, no packet leaves; all that waited leave at their end.
    pub stalls: Vec<Window>,
    /// The largest packet that the sending device takes, bytes: the sender's kernel knows it.
    pub mtu: Mtu,
    /// The largest that passes further on, which the sender has to find out.
    pub path_mtu: Option<PathMtu>,
    /// Code point that all packets are given.
    pub dscp: Option<u8>,
    /// Probability that a packet whose sender understands it (ECT) is marked: congestion
    /// experienced.
    pub ecn_ce: f64,
    /// Such packets are also marked when they waited longer than this for the bottleneck, ns.
    pub ecn_above_ns: Option<u64>,
    /// True if the ECN bits are cleared.
    pub ecn_bleach: bool,
}

/// The largest packet that a device takes, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Mtu(pub u32);

impl Default for Mtu {
    /// Ethernet's.
    fn default() -> Self {
        Mtu(1500)
    }
}

/// The longest time that a condition may name, ns: the lab holds delayed packets in memory.
pub const LONGEST_NS: u64 = 60 * SECOND;

impl Path {
    /// Refuses an impossible path.
    ///
    /// # Errors
    /// The first thing that cannot be, in one sentence.
    pub fn check(&self) -> Result<(), String> {
        let chances = [
            ("loss", self.loss),
            ("ecn-ce", self.ecn_ce),
            ("duplicate", self.duplicate.map_or(0.0, |d| d.chance)),
            ("reorder", self.reorder.map_or(0.0, |r| r.chance)),
            ("corrupt", self.corrupt.map_or(0.0, |c| c.chance)),
        ];
        let bursts = self.bursts.map_or([0.0; 4], |b| [b.enter, b.leave, b.bad, b.good]);
        let mut chances = chances.into_iter().chain(bursts.map(|p| ("burst-loss", p)));
        if let Some((name, p)) = chances.find(|(_, p)| !(0.0..=1.0).contains(p)) {
            return Err(format!("{name}: {p} is not a probability from 0 to 1"));
        }
        let times = [
            ("delay", self.delay_ns),
            ("jitter", self.jitter.map_or(0, |j| j.amount_ns)),
            ("duplicate", self.duplicate.map_or(0, |d| d.gap_ns)),
            ("reorder", self.reorder.map_or(0, |r| if let Behind::Time(ns) = r.behind { ns } else { 0 })),
            ("queue", self.bottleneck.map_or(0, |b| if let Limit::Time(ns) = b.limit { ns } else { 0 })),
            ("stall", self.stalls.iter().map(|s| s.length_ns).max().unwrap_or(0)),
        ];
        if let Some((name, ns)) = times.into_iter().find(|(_, ns)| *ns > LONGEST_NS) {
            let (got, most) = (format_duration(real(ns)), format_duration(real(LONGEST_NS)));
            return Err(format!("{name}: {got} is longer than a lab can hold packets back ({most})"));
        }
        if let Some(Shape::Pareto(shape)) = self.jitter.map(|j| j.shape)
            && !(1.05..=100.0).contains(&shape)
        {
            return Err(format!("jitter: the Pareto shape {shape} is not between 1.05 and 100"));
        }
        let windows = self.outages.iter().chain(&self.stalls);
        if windows.clone().any(|w| w.length_ns == 0 || (w.period_ns > 0 && w.period_ns <= w.length_ns)) {
            return Err("outage, stall: a window has a length, and a period is longer than it".to_owned());
        }
        self.check_sizes()
    }

    fn check_sizes(&self) -> Result<(), String> {
        if let Some(c) = self.corrupt.filter(|c| !(1..=MOST_BITS).contains(&c.bits)) {
            return Err(format!("corrupt: {} bits are not 1 to {MOST_BITS}", c.bits));
        }
        if let Some(d) = self.duplicate.filter(|d| !(1..=MOST_COPIES).contains(&d.copies)) {
            return Err(format!("duplicate: {} copies are not 1 to {MOST_COPIES}", d.copies));
        }
        if self.reorder.is_some_and(|r| r.behind == Behind::Packets(0)) {
            return Err("reorder: a packet is overtaken by at least one other".to_owned());
        }
        if self.bottleneck.is_some_and(|b| b.rate_bps < 8) {
            return Err(
                "rate: a bottleneck (rate, queue, overhead) needs a rate of at least 8 bit/s".to_owned()
            );
        }
        let sizes = [("mtu", Some(self.mtu.0)), ("path-mtu", self.path_mtu.map(|mtu| mtu.bytes))];
        for (name, bytes) in sizes {
            if let Some(bytes) = bytes.filter(|bytes| !(68..=65_535).contains(bytes)) {
                return Err(format!("{name}: {bytes} is not between 68 and 65535 bytes"));
            }
        }
        match self.dscp {
            Some(dscp) if dscp > 63 => Err(format!("dscp: {dscp} is not between 0 and 63")),
            _ => Ok(()),
        }
    }
}

/// The most bits flipped in a packet.
pub const MOST_BITS: u8 = 16;
/// The most copies made of a packet.
pub const MOST_COPIES: u8 = 16;

/// The forwarder's way of waiting for packets and due times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Wait {
    /// Sleeps, but not through the last moments before a packet is due.
    #[default]
    Hybrid,
    /// Never sleeps: packets are seen at their arrival. Takes a whole core.
    Spin,
    /// Sleeps until something is due: packets leave some 50 µs late, at the least cost.
    Sleep,
}

/// Which rows are kept of single packets.
#[derive(Debug, Default)]
pub enum Trace {
    /// None.
    #[default]
    Off,
    /// In memory, this many at the start, for [`crate::Lab::finish`].
    Keep(usize),
    /// In a file, as CSV.
    File(std::fs::File),
}

#[derive(Debug, Default)]
pub struct Setup {
    pub up: Path,
    pub down: Path,
    /// Routers from client to server, each with a link before it. `up` and `down` are then the
    /// conditions of the link between the last router and the server.
    pub hops: Vec<crate::Hop>,
    pub seed: u64,
    pub wait: Wait,
    /// The forwarder's own core: commands are kept off it, where there is another. `None` leaves
    /// all to the scheduler.
    pub core: Option<usize>,
    pub trace: Trace,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_once_and_again() {
        let once = Window { start_ns: 100, length_ns: 10, period_ns: 0 };
        for (at, end) in
            [(0, None), (99, None), (100, Some(110)), (109, Some(110)), (110, None), (1100, None)]
        {
            assert_eq!(once.end(at), end, "{at}");
        }
        let again = Window { period_ns: 50, ..once };
        for (at, end) in
            [(99, None), (105, Some(110)), (149, None), (150, Some(160)), (1_000_155, Some(1_000_160))]
        {
            assert_eq!(again.end(at), end, "{at}");
        }
    }

    #[test]
    fn what_cannot_be_is_said() {
        let good = Path::default();
        good.check().unwrap();
        let bad = [
            (Path { loss: 1.5, ..good.clone() }, "loss"),
            (Path { loss: f64::NAN, ..good.clone() }, "loss"),
            (Path { delay_ns: 61 * SECOND, ..good.clone() }, "delay"),
            (Path { mtu: Mtu(10), ..good.clone() }, "mtu"),
            (Path { dscp: Some(64), ..good.clone() }, "dscp"),
            (
                Path { corrupt: Some(Corrupt { chance: 0.1, bits: 17, wire: false }), ..good.clone() },
                "corrupt",
            ),
            (Path { outages: vec![Window { start_ns: 0, length_ns: 5, period_ns: 5 }], ..good }, "outage"),
        ];
        for (path, word) in bad {
            let why = path.check().unwrap_err();
            assert!(why.starts_with(word), "{why}");
        }
    }
}
