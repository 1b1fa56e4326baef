//! Connections: goodput over time, each one's share of it, and the kernel's figures of them.

use super::{coarse_curve, coarse_histogram, measured, middle, over_time, percentiles, times_axis};
use crate::plot::{Plot, Series, Style};
use metrics::{Moments, TcpInfo, real, seconds};
use model::{ConnectionRecord, End, Interval, Kind, Measure, Point, Sample, Unit};
use std::collections::{BTreeMap, HashMap, HashSet};
use uuid::Uuid;

/// More connections than this are shown by their spread.
const MOST_SLOTS: usize = 12;
/// As many connections as a tally can hold TCP_INFO of; with more, each interval has other ones.
const MOST_SAMPLED: usize = 64;

pub(super) fn plots(point: &Point) -> Vec<Plot> {
    [shares(point), tcp_info_plots(point), connections(point).into_iter().collect()].concat()
}

/// `connect`: how many, how fast, and how long each took.
pub(super) fn connects(point: &Point) -> Vec<Plot> {
    let rate = Plot::timed(
        "connections-per-second",
        "Connections established per second",
        "connections",
        Unit::PerSecond,
    )
    .note("Counted by this end when the kernel reports the connection.")
    .with([Series::line("established", measured(point, Measure::CONNECTS, End::Local))]);
    let mut plots = vec![rate, in_flight(point)];
    if let Some(dist) = &point.local.connect_ns {
        let (x, y) = times_axis(true);
        let histogram =
            Plot::new("connect-times", "Time to connect", x, y).with(coarse_histogram("connections", dist));
        plots.push(histogram.note("From the start of connect until the kernel reports the connection."));
        let curve = percentiles("connect-percentiles", "Time to connect, percentiles", "time to connect");
        plots.push(curve.with([coarse_curve("time to connect", dist)]));
    }
    plots
}

/// The receivers' rates, and the senders' beside them.
pub(super) fn goodput(point: &Point, serving: bool) -> Plot {
    let known = point.intervals.iter().any(|i| i.remote.is_some());
    // A value that no interval has gives no series.
    let shown: &[(&str, Style, Measure, End)] = match serving {
        true => &[
            ("from clients, as received here", Style::Line, Measure::RECEIVED, End::Local),
            ("to clients, as sent from here", Style::Dashed, Measure::SENT, End::Local),
        ],
        false => &[
            ("to server, as received there", Style::Line, Measure::RECEIVED, End::Remote),
            ("from server, as received here", Style::Line, Measure::RECEIVED, End::Local),
            ("to server, as sent from here", Style::Dashed, Measure::SENT, End::Local),
            ("from server, as sent there", Style::Dashed, Measure::SENT, End::Remote),
        ],
    };
    let series = shown
        .iter()
        .map(|(name, style, measure, end)| Series::new(*name, *style, measured(point, *measure, *end)));
    let note = match known || serving {
        true => {
            "Payload bytes per interval. The receiver's count is the result; broken lines are the sender's."
        }
        false => "Payload bytes per interval. The remote end reported no counts.",
    };
    Plot::timed("goodput", "Goodput over time", "goodput", Unit::BitsPerSecond)
        .note(note)
        .with(series.filter(Series::is_some))
}

/// Connections open at the end of each interval.
fn in_flight(point: &Point) -> Plot {
    let open = measured(point, Measure::OPEN, End::Local);
    Plot::timed("connections", "Connections open", "connections", Unit::Count)
        .note("At the end of each interval, at this end.")
        .with([Series::line("open", open)])
}

/// The same with opened ones, where connections are opened and closed during the run.
fn connections(point: &Point) -> Option<Plot> {
    let opened: u64 = point.intervals.iter().map(|i| i.opened).sum();
    if opened <= u64::from(point.phase.connections) && point.errors() == 0 {
        return None;
    }
    let opened = over_time(point, |i| Some(real(i.opened)));
    Some(in_flight(point).some()?.with([Series::line("opened in the interval", opened)]))
}

/// Samples of one connection slot at the ends of intervals: `(interval, sample)` in order.
type Slots<'a> = BTreeMap<u32, Vec<(&'a Interval, &'a Sample)>>;

fn slots(point: &Point) -> Slots<'_> {
    let mut slots = Slots::new();
    for interval in &point.intervals {
        for sample in &interval.samples {
            slots.entry(sample.slot).or_default().push((interval, sample));
        }
    }
    slots
}

/// Connections without a sample of all their bytes, because they ended between two.
struct EndedConnections<'a> {
    /// Connections that were sampled before they ended.
    sampled: HashMap<Uuid, &'a ConnectionRecord>,
    /// When the others ended, in order, ns.
    unseen: Vec<u64>,
}

impl<'a> EndedConnections<'a> {
    fn of(point: &'a Point) -> Self {
        let seen: HashSet<Uuid> = point.intervals.iter().flat_map(|i| &i.samples).map(|s| s.id).collect();
        let (sampled, unseen): (Vec<_>, Vec<_>) =
            point.connections.iter().partition(|c| seen.contains(&c.id));
        let mut unseen: Vec<u64> = unseen.iter().map(|c| c.ended_ns).collect();
        unseen.sort_unstable();
        EndedConnections { sampled: sampled.into_iter().map(|c| (c.id, c)).collect(), unseen }
    }

    /// True if a connection began and ended within the interval: its slot is not known.
    fn hidden(&self, interval: &Interval) -> bool {
        let next = self.unseen.partition_point(|&at| at <= interval.start_ns);
        self.unseen.get(next).is_some_and(|&at| at <= interval.end_ns)
    }
}

/// A line for each slot.
type Lines = BTreeMap<u32, Vec<(f64, Option<f64>)>>;

/// By slot: what `of` makes of a sample of an interval and the sample before it, at the middle of
/// the interval.
fn steps(
    slots: &Slots<'_>,
    of: impl Fn((&Interval, &Sample), Option<(&Interval, &Sample)>) -> Option<f64>,
) -> Lines {
    let line = |told: &Vec<(&Interval, &Sample)>| {
        let before = std::iter::once(None).chain(told.iter().copied().map(Some));
        told.iter().zip(before).map(|(now, before)| (middle(now.0), of(*now, before))).collect()
    };
    slots.iter().map(|(&slot, told)| (slot, line(told))).collect()
}

/// True if an interval has a sample of each open connection.
fn is_whole(interval: &Interval) -> bool {
    interval.samples.len() < MOST_SAMPLED
}

/// By slot: its traffic in each interval, as bits/s; a gap where that is not known.
fn rates(point: &Point, slots: &Slots<'_>, way: Bytes) -> Lines {
    let ended = EndedConnections::of(point);
    steps(slots, |(interval, sample), before| {
        let next = before.is_none_or(|(i, _)| i.index + 1 == interval.index);
        let moved = match before {
            Some((_, b)) if b.id == sample.id => (way.sample)(sample).checked_sub((way.sample)(b)),
            // Another one took its place: the rest of the one before, and the new one's traffic
            // since.
            Some((_, b)) => {
                let last = ended.sampled.get(&b.id).filter(|_| !ended.hidden(interval))?;
                Some((way.record)(last).checked_sub((way.sample)(b))? + (way.sample)(sample))
            }
            None => (!ended.hidden(interval)).then(|| (way.sample)(sample)),
        };
        let rate = moved.filter(|_| next && is_whole(interval) && interval.ns() > 0);
        rate.map(|n| real(n) * 8.0 / seconds(interval.ns()))
    })
}

/// Bytes one way, in samples and records.
#[derive(Clone, Copy)]
struct Bytes {
    sample: fn(&Sample) -> u64,
    record: fn(&ConnectionRecord) -> u64,
}

const SENT: Bytes = Bytes { sample: |s| s.tx_bytes, record: |c| c.tx_bytes };
const RECEIVED: Bytes = Bytes { sample: |s| s.rx_bytes, record: |c| c.rx_bytes };

/// By slot: `of` a sample and the one before it of the same connection, at the middle of the time
/// between. A connection that began in between has no sample before it.
fn changes(slots: &Slots<'_>, of: impl Fn(&Sample, Option<&Sample>) -> Option<f64>) -> Lines {
    steps(slots, |(interval, sample), before| {
        let same = before.filter(|(i, s)| s.id == sample.id && i.index + 1 == interval.index);
        let fresh = before.is_none_or(|(_, s)| s.id != sample.id) && is_whole(interval);
        let known = same.is_some() || fresh;
        known.then(|| of(sample, same.map(|(_, before)| before))).flatten().filter(|v| *v >= 0.0)
    })
}

/// The values of all slots at each time, in order.
fn by_time(slots: &Lines) -> Vec<(f64, Vec<f64>)> {
    let mut at: BTreeMap<u64, (f64, Vec<f64>)> = BTreeMap::new();
    for (x, y) in slots.values().flatten() {
        at.entry(x.to_bits()).or_insert((*x, Vec::new())).1.extend(y);
    }
    at.into_values().collect()
}

/// Each connection's rate, and how even they are.
fn shares(point: &Point) -> Vec<Plot> {
    let slots = slots(point);
    if slots.len() < 2 {
        return Vec::new();
    }
    let ways = [
        ("connections-received", "Goodput of each connection, as received here", RECEIVED),
        ("connections-sent", "Rate of each connection, as sent from here", SENT),
    ];
    let mut plots = Vec::new();
    let mut even =
        Plot::timed("fairness", "Fairness over time", "Jain's index", Unit::Share).at_least(0.0, 1.0).note(
            "Over the rates of the connections in each interval: 1 is even, 1/n is one that has everything.",
        );
    for (name, title, bytes) in ways {
        let rates = rates(point, &slots, bytes);
        if !rates.values().flatten().any(|(_, y)| y.is_some_and(|y| y > 0.0)) {
            continue;
        }
        let jain = |(x, values): (f64, Vec<f64>)| {
            let mut moments = Moments::default();
            values.into_iter().for_each(|value| moments.add(value));
            (x, moments.jain())
        };
        let known = by_time(&rates).into_iter().filter(|(_, values)| !values.is_empty());
        let jain = known.map(jain).collect();
        even.add(Series::line(if name.ends_with("sent") { "sent" } else { "received" }, jain));
        let plot = Plot::timed(name, title, "rate of a connection", Unit::BitsPerSecond);
        plots.push(
            plot.note("Payload; a slot's connections one after the other are one line.").with(spread(rates)),
        );
    }
    plots.push(even);
    plots
}

/// A line for each slot; of many slots the least, the median and the most at each time.
fn spread(slots: Lines) -> Vec<Series> {
    if slots.len() <= MOST_SLOTS {
        let one = |(slot, points)| Series::line(format!("connection {slot}"), points);
        return slots.into_iter().map(one).collect();
    }
    let mut all = by_time(&slots);
    all.iter_mut().for_each(|(_, values)| values.sort_by(f64::total_cmp));
    let ranked = |name: &str, of: fn(&[f64]) -> Option<&f64>| {
        Series::line(name, all.iter().map(|(x, values)| (*x, of(values).copied())).collect())
    };
    vec![
        ranked("least", |v| v.first()),
        ranked("median", |v| v.get(v.len() / 2)),
        ranked("most", |v| v.last()),
    ]
}

/// TCP_INFO over time.
fn tcp_info_plots(point: &Point) -> Vec<Plot> {
    let slots = slots(point);
    let read = |of: fn(&TcpInfo) -> Option<f64>| {
        let value = |(interval, sample): &(&Interval, &Sample)| (seconds(interval.end_ns), of(&sample.info));
        spread(slots.iter().map(|(&slot, told)| (slot, told.iter().map(value).collect())).collect())
    };
    let sends = point.local.traffic.tx_bytes > 0;
    let rtt = Plot::timed("rtt", "Round-trip time of connections", "smoothed RTT", Unit::Ns)
        .note("As the kernel of this end smooths it (TCP_INFO), at the end of each interval.")
        .with(read(|info| (info.rtt_us > 0).then(|| f64::from(info.rtt_us) * 1e3)));
    let mut plots = vec![rtt];
    if sends {
        let cwnd = Plot::timed("cwnd", "Congestion window of connections", "congestion window", Unit::Bytes)
            .note("Segments times their size, at the end of each interval, at this end.")
            .with(read(|info| Some(f64::from(info.cwnd) * f64::from(info.snd_mss))));
        plots.extend([cwnd, limits(&slots)]);
    }
    if point.phase.kind == Kind::Tcp && !slots.is_empty() {
        let again = measured(point, Measure::RETRANSMITS, End::Local);
        plots.push(
            Plot::timed("retransmits", "Segments retransmitted", "segments in the interval", Unit::Count)
                .note("By this end, as sampled.")
                .with([Series::line("retransmitted", again)]),
        );
    }
    plots
}

/// Limits of the senders: shares of the time in which they had data outstanding.
fn limits(slots: &Slots<'_>) -> Plot {
    type Time = fn(&TcpInfo) -> Option<u64>;
    // Of all slots together: the times are the same for all of TCP_INFO.
    let grown = |of: Time| -> Vec<(f64, f64)> {
        let lines = changes(slots, move |now, before| {
            let then = before.map_or(Some(0), |s| of(&s.info))?;
            Some(real(of(&now.info)?.checked_sub(then)?))
        });
        by_time(&lines)
            .into_iter()
            .map(|(x, values)| (x, values.iter().fold(0.0, |sum, value| sum + value)))
            .collect()
    };
    let busy = grown(|info| info.busy_us);
    let share = |name: &str, of: Time| {
        let parts = busy.iter().zip(grown(of));
        let share =
            |(&(x, all), (_, part)): (&(f64, f64), (f64, f64))| (x, (all > 0.0).then(|| 100.0 * part / all));
        Series::line(name, parts.map(share).collect())
    };
    Plot::timed("limits", "Limits of the sender", "share of the busy time", Unit::Percent).at_least(0.0, 100.0)
    .note(
        "Of the time in which this end had data outstanding (TCP_INFO): limited by the receiver's window, by the send \
         buffer. The rest was the congestion window's, or the path's.",
    )
    .with([
        share("receiver's window", |info| info.rwnd_limited_us),
        share("send buffer", |info| info.sndbuf_limited_us),
    ])
}
