//! The quantities of an interval, in one table. The status CSV has a column for each row; interval
//! lines and figures read the same rows.

use super::{Stat, Unit};
use crate::{Count, Interval, PacketReport, Traffic, sampled_rtt_ns};
use metrics::{Ecn, Frames, IpFields, per_second, percent_of, real};

/// An end of a run, as the one that recorded it sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The end at this host.
    Local,
    /// The remote ends together.
    Remote,
}

impl End {
    /// Its figures of datagrams in an interval.
    pub fn packets(self, interval: &Interval) -> Option<&PacketReport> {
        match self {
            End::Local => interval.packets.as_deref(),
            End::Remote => interval.remote_packets.as_deref(),
        }
    }

    /// IP fields of the datagrams that it received in an interval.
    pub fn marks(self, interval: &Interval) -> Option<IpFields> {
        let of_pings = |pings: crate::PingInterval| match self {
            End::Local => pings.marks,
            End::Remote => pings.remote_marks,
        };
        self.packets(interval).map(|packets| packets.marks).or_else(|| interval.pings.and_then(of_pings))
    }

    /// Its counts of bytes, unless `count` is unknown to it.
    fn traffic(self, interval: &Interval, count: Count) -> Option<&Traffic> {
        match self {
            End::Local => Some(&interval.local).filter(|_| !interval.unknown.has(count)),
            End::Remote => interval.remote.as_ref(),
        }
    }
}

/// A number of each interval, of one end where both count it.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// Its name in columns, with the unit at the end and the end's name in front.
    pub key: &'static str,
    /// Its unit.
    pub unit: Unit,
    of: fn(&Interval, End) -> Option<f64>,
}

const fn measure(key: &'static str, unit: Unit, of: fn(&Interval, End) -> Option<f64>) -> Measure {
    Measure { key, unit, of }
}

const ENDS: &[End] = &[End::Local, End::Remote];
/// Rows that are not counted by both ends are read as the local one's.
const RUN: &[End] = &[End::Local];

/// All of them, in the order of the columns: groups of rows, of each end or of the run.
static TABLE: [(&[End], &[Measure]); 5] = [
    (
        ENDS,
        &[
            measure("tx_bytes", Unit::Bytes, |i, end| Some(real(end.traffic(i, Count::SentBytes)?.tx_bytes))),
            Measure::SENT,
            measure("rx_bytes", Unit::Bytes, |i, end| {
                Some(real(end.traffic(i, Count::ReceivedBytes)?.rx_bytes))
            }),
            Measure::RECEIVED,
        ],
    ),
    (
        RUN,
        &[
            Measure::OPEN,
            measure("opened", Unit::Count, |i, _| Some(real(i.opened))),
            Measure::COMPLETED,
            measure("network_errors", Unit::Count, |i, _| Some(real(i.network_errors))),
            measure("data_errors", Unit::Count, |i, _| Some(real(i.data_errors))),
            Measure::RETRANSMITS,
        ],
    ),
    (
        ENDS,
        &[
            measure("datagrams_sent", Unit::Count, |i, end| end.packets(i)?.sent().map(real)),
            measure("datagrams_received", Unit::Count, |i, end| end.packets(i)?.received().map(real)),
            Measure::LOST,
            measure("datagrams_duplicated", Unit::Count, |i, e| e.packets(i)?.repeated().map(real)),
            measure("datagrams_reordered", Unit::Count, |i, end| end.packets(i)?.reordered().map(real)),
            measure("datagrams_late", Unit::Count, |i, end| Some(real(end.packets(i)?.counts.late))),
            measure("datagrams_corrupt", Unit::Count, |i, end| Some(real(end.packets(i)?.counts.corrupt))),
            measure("datagrams_unsent", Unit::Count, |i, end| Some(real(end.packets(i)?.counts.unsent))),
            measure("datagrams_dropped", Unit::Count, |i, end| end.packets(i)?.dropped().map(real)),
            Measure::DELAY_P50,
            Measure::DELAY_P99,
            Measure::DELAY_MAX,
            measure("jitter_ns", Unit::Ns, |i, end| end.packets(i)?.jitter_ns()),
            measure("clock_bound_ns", Unit::Ns, |i, end| end.packets(i)?.clock_bound_ns.map(real)),
        ],
    ),
    (
        RUN,
        &[
            Measure::FRAMES_WHOLE,
            Measure::FRAMES_DROPPED,
            Measure::FRAMES_REPEATED,
            Measure::FRAMES_OF_NONE,
            Measure::MESSAGES_SENT,
            measure("messages_lost", Unit::Count, |i, _| Some(real(i.pings?.counts.lost))),
            Measure::RTT_MIN,
            Measure::RTT_MEAN,
            Measure::RTT_P50,
            Measure::RTT_P99,
            Measure::RTT_MAX,
        ],
    ),
    (
        ENDS,
        &[
            measure("datagrams_not_ect", Unit::Count, |i, end| marked(i, end, Ecn::Off)),
            measure("datagrams_ect1", Unit::Count, |i, end| marked(i, end, Ecn::Ect1)),
            measure("datagrams_ect0", Unit::Count, |i, end| marked(i, end, Ecn::Ect0)),
            measure("datagrams_ce", Unit::Count, |i, end| marked(i, end, Ecn::Ce)),
        ],
    ),
];

/// Datagrams that arrived with this codepoint.
fn marked(interval: &Interval, end: End, ecn: Ecn) -> Option<f64> {
    Some(real(end.marks(interval)?.count(ecn)))
}

/// The time that datagrams of an interval are divided by, ns: that of their bytes, where it is
/// known.
fn datagrams_ns(interval: &Interval, ns: u64) -> u64 {
    if ns > 0 { ns } else { interval.ns().max(1) }
}

/// The rows that others name.
impl Measure {
    /// Rate of payload sent.
    pub const SENT: Measure = measure("tx_bps", Unit::BitsPerSecond, |i, end| {
        end.traffic(i, Count::SentBytes).filter(|t| t.sending_ns() > 0).map(Traffic::tx_bps)
    });
    /// Rate of received payload. Without a time no rate is known: a table of frames has no bytes.
    pub const RECEIVED: Measure = measure("rx_bps", Unit::BitsPerSecond, |i, end| {
        end.traffic(i, Count::ReceivedBytes).filter(|t| t.receiving_ns() > 0).map(Traffic::rx_bps)
    });
    /// Connections open at its end.
    pub const OPEN: Measure = measure("in_flight", Unit::Count, |i, _| Some(real(i.in_flight)));
    /// Connections completed since the start.
    pub const COMPLETED: Measure = measure("completed", Unit::Count, |i, _| Some(real(i.completed)));
    /// Segments that this end sent again.
    pub const RETRANSMITS: Measure = measure("retransmits", Unit::Count, |i, _| {
        (!i.unknown.has(Count::Retransmits)).then(|| real(i.retransmits))
    });
    /// Connections established per second.
    pub const CONNECTS: Measure =
        measure("connects_per_s", Unit::PerSecond, |i, _| (i.ns() > 0).then(|| per_second(i.opened, i.ns())));
    /// Connections in error since the start.
    pub const ERRORS: Measure = measure("errors", Unit::Count, |i, _| Some(real(i.errors())));
    /// Datagrams sent per second.
    pub const DATAGRAMS_SENT: Measure = measure("datagrams_sent_per_s", Unit::PerSecond, |i, end| {
        let ns = end.traffic(i, Count::SentBytes).map_or(0, |t| t.sending_ns());
        Some(per_second(end.packets(i)?.sent()?, datagrams_ns(i, ns)))
    });
    /// Datagrams received per second.
    pub const DATAGRAMS_RECEIVED: Measure = measure("datagrams_received_per_s", Unit::PerSecond, |i, end| {
        let ns = end.traffic(i, Count::ReceivedBytes).map_or(0, |t| t.receiving_ns());
        Some(per_second(end.packets(i)?.received()?, datagrams_ns(i, ns)))
    });
    /// Datagrams that did not arrive, less earlier intervals' losses that arrived meanwhile.
    pub const LOST: Measure =
        measure("datagrams_lost", Unit::Count, |i, end| end.packets(i)?.lost().map(real));
    /// Share of the expected datagrams that did not arrive.
    pub const LOST_SHARE: Measure = measure("datagrams_lost_percent", Unit::Percent, |i, end| {
        let packets = end.packets(i)?;
        packets.loss().map(|share| 100.0 * share)
    });
    /// Share of the received datagrams with congestion experienced.
    pub const CE_SHARE: Measure =
        measure("datagrams_ce_percent", Unit::Percent, |i, end| end.marks(i)?.percent(Ecn::Ce));
    /// Median delay of datagrams.
    pub const DELAY_P50: Measure = measure("delay_p50_ns", Unit::Ns, |i, end| {
        Stat::MEDIAN.of_summary(end.packets(i)?.delay_ns.as_ref()?)
    });
    /// 99th percentile of the delay of datagrams.
    pub const DELAY_P99: Measure = measure("delay_p99_ns", Unit::Ns, |i, end| {
        Stat::Quantile(0.99).of_summary(end.packets(i)?.delay_ns.as_ref()?)
    });
    /// Largest delay of a datagram.
    pub const DELAY_MAX: Measure =
        measure("delay_max_ns", Unit::Ns, |i, end| end.packets(i)?.largest_delay_ns().map(real));
    /// Frames that were whole in time.
    pub const FRAMES_WHOLE: Measure =
        measure("frames_completed", Unit::Count, |i, _| Some(real(i.frames?.completed)));
    /// Frames with bytes missing.
    pub const FRAMES_DROPPED: Measure =
        measure("frames_dropped", Unit::Count, |i, _| Some(real(i.frames?.dropped)));
    /// Frames with too many bytes.
    pub const FRAMES_REPEATED: Measure =
        measure("frames_repeated", Unit::Count, |i, _| Some(real(i.frames?.repeated)));
    /// Datagrams of no frame that was waited for.
    pub const FRAMES_OF_NONE: Measure =
        measure("frames_errors", Unit::Count, |i, _| Some(real(i.frames?.errors)));
    /// Messages sent.
    pub const MESSAGES_SENT: Measure =
        measure("messages_sent", Unit::Count, |i, _| Some(real(i.pings?.counts.sent)));
    /// Share of the sent messages that did not return.
    pub const MESSAGES_LOST: Measure =
        measure("messages_lost_percent", Unit::Percent, |i, _| i.pings?.counts.lost_percent());
    /// Shortest round trip.
    pub const RTT_MIN: Measure = measure("rtt_min_ns", Unit::Ns, |i, _| trips(i, Stat::Min));
    /// Mean round trip.
    pub const RTT_MEAN: Measure = measure("rtt_mean_ns", Unit::Ns, |i, _| trips(i, Stat::Mean));
    /// Median round trip.
    pub const RTT_P50: Measure = measure("rtt_p50_ns", Unit::Ns, |i, _| trips(i, Stat::MEDIAN));
    /// 99th percentile of the round trips.
    pub const RTT_P99: Measure = measure("rtt_p99_ns", Unit::Ns, |i, _| trips(i, Stat::Quantile(0.99)));
    /// Longest round trip.
    pub const RTT_MAX: Measure = measure("rtt_max_ns", Unit::Ns, |i, _| trips(i, Stat::Max));
    /// Mean smoothed round trip of the sampled connections.
    pub const SAMPLED_RTT_MEAN: Measure =
        measure("sampled_rtt_mean_ns", Unit::Ns, |i, _| Some(sampled_rtt_ns(&i.samples)?.mean));
    /// The largest of them.
    pub const SAMPLED_RTT_MAX: Measure =
        measure("sampled_rtt_max_ns", Unit::Ns, |i, _| Some(sampled_rtt_ns(&i.samples)?.max));

    /// Its value at an end; `None` where the interval has none.
    pub fn of(self, interval: &Interval, end: End) -> Option<f64> {
        (self.of)(interval, end)
    }

    /// The columns of a table of intervals: their names, measures and ends.
    pub fn columns() -> Vec<(String, Measure, End)> {
        let mut columns = Vec::new();
        for (ends, rows) in TABLE {
            for end in ends {
                let prefix = match end {
                    _ if ends.len() == 1 => "",
                    End::Local => "local_",
                    End::Remote => "remote_",
                };
                columns.extend(rows.iter().map(|row| (format!("{prefix}{}", row.key), *row, *end)));
            }
        }
        columns
    }
}

/// A statistic of the round trips of an interval, if any returned.
pub(super) fn trips(interval: &Interval, stat: Stat) -> Option<f64> {
    stat.of_trips(interval.pings.as_ref().filter(|trips| trips.count > 0)?)
}

/// Percent of the frames that were not whole in time; `None` when there were none.
pub(super) fn unwell(frames: Option<Frames>) -> Option<f64> {
    let f = frames?;
    let all = f.judged();
    (all > 0).then(|| percent_of(all - f.completed, all))
}
