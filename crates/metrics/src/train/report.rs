//! The figures of packet trains.

use super::{Echoes, TrainPacket};
use crate::{Clamped, Dist, DistSummary, Spread, StampKind, real};
use serde::{Deserialize, Serialize};

/// Most detail records.
const MOST_TROUBLES: usize = 1_000;
/// Most packet numbers whose delay is reported one by one.
const MOST_NUMBERS: usize = 1_000;
/// A trough lies further below the median than this many standard deviations (estimated from the
/// median absolute deviation, for which 1.4826 is the factor of a normal distribution) …
const DEVIATIONS: f64 = 3.0 * 1.4826;
/// … and below this share of it.
const SHARE: f64 = 0.9;
/// Fewer repetitions have no usual rate to fall below.
const LEAST_ROUNDS: usize = 5;

/// Median and quartiles, linearly interpolated between order statistics (type 7 of Hyndman and Fan,
/// 1996).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quartiles {
    /// Number of values.
    pub n: u64,
    /// First quartile.
    pub q1: f64,
    /// Median.
    pub median: f64,
    /// Third quartile.
    pub q3: f64,
}

impl Quartiles {
    /// The quartiles of `values`; `None` when there are none.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |q: f64| {
            let place = q * real(last);
            let (below, above) = (usize::clamped(place.floor()), (usize::clamped(place.ceil())).min(last));
            values[below] + (values[above] - values[below]) * (place - real(below))
        };
        Some(Quartiles { n: u64::clamped(values.len()), q1: at(0.25), median: at(0.5), q3: at(0.75) })
    }
}

/// One train. Rates are bits/s of UDP payload, durations ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TrainRow {
    /// The train, from 0.
    pub train: u32,
    /// Its setting, from 0.
    pub setting: u32,
    /// Which repetition of its setting, from 0.
    pub round: u32,
    /// When it was to begin, ns after the start.
    pub at_ns: u64,
    /// Packets sent.
    pub sent: u32,
    /// Packets that were to be sent and were not.
    pub unsent: u32,
    /// Packets received, each counted once.
    pub received: u32,
    /// Packets sent that did not arrive.
    pub lost: u32,
    /// Packets that others of higher number had overtaken.
    pub overtaken: u32,
    /// Packets that arrived again.
    pub repeated: u32,
    /// From the first send to the last, ns.
    pub send_ns: u64,
    /// From the first arrival to the last, ns.
    pub receive_ns: u64,
    /// Rate of sending, bits/s of UDP payload: the packets after the first, over `send_ns`.
    pub send_bps: Option<f64>,
    /// Rate of receiving, bits/s of UDP payload: the packets after the first, over `receive_ns`.
    pub receive_bps: Option<f64>,
    /// Mean time between arrivals, the dispersion, ns.
    pub dispersion_ns: Option<f64>,
    /// Smallest one-way delay, ns; below 0 when the clocks say so.
    pub delay_min_ns: Option<i64>,
    /// Mean one-way delay, ns.
    pub delay_mean_ns: Option<f64>,
    /// Largest one-way delay, ns.
    pub delay_max_ns: Option<i64>,
}

/// One-way delay of packets with one number, over the repetitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DelayAt {
    /// Number in the train, from 0.
    pub number: u32,
    /// Number of packets that arrived.
    pub received: u32,
    /// Mean delay of the packets, ns.
    pub mean_ns: f64,
}

/// One setting over its repetitions.
///
/// Wide: one object of the JSON, a member for each figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TrainSetting {
    /// The setting, from 0.
    pub setting: u32,
    /// From the start of a packet to the start of the next, as intended, ns.
    pub wait_ns: u64,
    /// Trains of which something was sent.
    pub trains: u32,
    /// Packets sent.
    pub sent: u64,
    /// Packets that were to be sent and were not.
    pub unsent: u64,
    /// Packets received, each counted once.
    pub received: u64,
    /// Packets sent that did not arrive.
    pub lost: u64,
    /// Packets that others of higher number had overtaken.
    pub overtaken: u64,
    /// Packets that arrived again.
    pub repeated: u64,
    /// Sending rates of its trains, bits/s of UDP payload.
    pub send_bps: Option<Spread>,
    /// Receiving rates of its trains, bits/s of UDP payload.
    pub receive_bps: Option<Spread>,
    /// Dispersion rates of its trains, bits/s of IP packets.
    pub train_bps: Option<Quartiles>,
    /// Dispersion rates of its pairs, packets sent one after the other that arrived so, bits/s of
    /// IP packets.
    pub pair_bps: Option<Quartiles>,
    /// Pairs whose arrivals had the same stamp: they have no rate.
    pub merged_pairs: u64,
    /// True if the path stretched the trains: half of them arrived slower than 95 % of the rate
    /// they were sent at. An unstretched train shows that the path carries its rate, and no more.
    pub stretched: Option<bool>,
    /// Time between arrivals, ns, in order of arrival.
    pub gap_ns: Option<DistSummary>,
    /// Time between sends, ns.
    pub send_gap_ns: Option<DistSummary>,
    /// One-way delay, ns; below 0 counts as 0.
    pub delay_ns: Option<DistSummary>,
    /// Packets that seem to have arrived before they were sent.
    pub before_sent: u64,
    /// Delay by number in the train, the first 1000.
    pub by_number: Vec<DelayAt>,
    /// Figures of the returned packets, where the remote end returns them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub echo: Option<Box<Echoes>>,
}

/// Fate of a troubled packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TroubleKind {
    /// Did not arrive.
    #[default]
    Lost,
    /// Others overtook it.
    Overtaken,
    /// Arrived more than once.
    Repeated,
    /// Was not sent.
    Unsent,
}

/// A packet that something befell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Trouble {
    /// Fate of the packet.
    pub kind: TroubleKind,
    /// The train of the packet, from 0.
    pub train: u32,
    /// The number of the packet in its train, from 0.
    pub number: u32,
    /// When it was to be sent, ns after the start.
    pub intended_ns: u64,
    /// Number of packets that overtook it, or of its further arrivals; 1 otherwise.
    pub by: u32,
}

/// A repetition in which trains arrived much slower than usual.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Trough {
    /// The repetition, from 0.
    pub round: u32,
    /// When its first slow train was to begin, ns after the start.
    pub at_ns: u64,
    /// Settings that were slow.
    pub settings: Vec<u32>,
    /// True if all settings were slow, of several: the cause is then the path's or a host's at that
    /// time, not the setting's.
    pub common: bool,
}

/// Everything about trains in one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TrainReport {
    /// One per setting.
    pub settings: Vec<TrainSetting>,
    /// One per train.
    pub trains: Vec<TrainRow>,
    /// Repetitions in which trains were much slower than usual.
    pub troughs: Vec<Trough>,
    /// Troubled packets, the first 1000.
    pub troubles: Vec<Trouble>,
    /// Number of further troubles.
    pub more_troubles: u64,
    /// Packets whose arrival was stamped by the kernel.
    pub kernel_stamped: u64,
    /// Packets whose arrival was stamped by the network card, none of `kernel_stamped`.
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub card_stamped: u64,
}

impl TrainReport {
    /// The report on `packets`, which are in the order of their schedule, and with `echo` on their
    /// return. `waits_ns` are the settings, `size` the UDP payload of a packet and `headers` what
    /// IP and UDP add to it, bytes.
    pub fn of(packets: &[TrainPacket], waits_ns: &[u64], size: u32, headers: u32, echo: bool) -> Self {
        let mut report = TrainReport::default();
        let trains: Vec<&[TrainPacket]> = packets.chunk_by(|a, b| a.train == b.train).collect();
        report.trains = trains.iter().map(|train| row(train, size)).collect();
        for (setting, &wait_ns) in waits_ns.iter().enumerate() {
            let setting = u32::clamped(setting);
            let of = |train: &&&[TrainPacket]| train.first().is_some_and(|p| p.setting == setting);
            let packets: Vec<&[TrainPacket]> = trains.iter().filter(of).copied().collect();
            let rows: Vec<TrainRow> =
                report.trains.iter().filter(|row| row.setting == setting).copied().collect();
            report.settings.push(TrainSetting {
                setting,
                wait_ns,
                echo: echo.then(|| Box::new(Echoes::of(&packets, size))),
                ..self::setting(&rows, &packets, size, headers)
            });
        }
        report.troughs = troughs(&report.trains, waits_ns.len());
        let stamped = |kind| u64::clamped(packets.iter().filter(|p| p.stamp == Some(kind)).count());
        report.kernel_stamped = stamped(StampKind::KernelRx);
        report.card_stamped = stamped(StampKind::Hardware);
        let all = packets.iter().flat_map(befell);
        for trouble in all {
            if report.troubles.len() < MOST_TROUBLES {
                report.troubles.push(trouble);
            } else {
                report.more_troubles += 1;
            }
        }
        report
    }
}

/// From the earliest to the latest of `times`, and how many there are.
pub(super) fn stretch(times: impl Iterator<Item = i64>) -> (u64, u32) {
    let (mut first, mut last, mut n) = (i64::MAX, i64::MIN, 0);
    for at in times {
        (first, last, n) = (first.min(at), last.max(at), n + 1);
    }
    (if n == 0 { 0 } else { last.abs_diff(first) }, n)
}

/// Bits/s of the `n` - 1 packets of `size` bytes that followed the first within `ns`.
fn rate(n: u32, size: u32, ns: u64) -> Option<f64> {
    (n > 1 && ns > 0).then(|| f64::from(n - 1) * f64::from(size) * 8e9 / real(ns))
}

fn row(train: &[TrainPacket], size: u32) -> TrainRow {
    let first = train.first().copied().unwrap_or_default();
    let (send_ns, sent) = stretch(train.iter().filter_map(|p| p.sent_ns));
    let (receive_ns, received) = stretch(train.iter().filter_map(|p| p.received_ns));
    let delays: Vec<i64> = train.iter().filter_map(TrainPacket::delay_ns).collect();
    let n = real(delays.len());
    TrainRow {
        train: first.train,
        setting: first.setting,
        round: first.round,
        at_ns: first.intended_ns,
        sent,
        unsent: u32::clamped(train.len()) - sent,
        received,
        lost: sent.saturating_sub(received),
        overtaken: u32::clamped(train.iter().filter(|p| p.overtaken_by > 0).count()),
        repeated: train.iter().map(|p| p.repeats).sum(),
        send_ns,
        receive_ns,
        send_bps: rate(sent, size, send_ns),
        receive_bps: rate(received, size, receive_ns),
        dispersion_ns: (received > 1).then(|| real(receive_ns) / f64::from(received - 1)),
        delay_min_ns: delays.iter().min().copied(),
        delay_mean_ns: (n > 0.0).then(|| delays.iter().map(|&d| real(d)).sum::<f64>() / n),
        delay_max_ns: delays.iter().max().copied(),
    }
}

fn setting(rows: &[TrainRow], trains: &[&[TrainPacket]], size: u32, headers: u32) -> TrainSetting {
    let sum = |of: fn(&TrainRow) -> u32| rows.iter().map(|row| u64::from(of(row))).sum();
    let whole = size + headers;
    let (mut gaps, mut send_gaps, mut delays) = (Dist::default(), Dist::default(), Dist::default());
    let (mut pairs, mut merged, mut before_sent) = (Vec::new(), 0, 0);
    for train in trains {
        for (a, b) in train.iter().zip(train.iter().skip(1)) {
            if let (Some(a), Some(b)) = (a.sent_ns, b.sent_ns) {
                send_gaps.record(u64::clamped(b.saturating_sub(a).max(0)));
            }
            let in_order = a.overtaken_by == 0 && b.overtaken_by == 0;
            if let (Some(first), Some(second), true) = (a.received_ns, b.received_ns, in_order) {
                match rate(2, whole, u64::clamped(second.saturating_sub(first).max(0))) {
                    Some(bps) => pairs.push(bps),
                    None => merged += 1,
                }
            }
        }
        let mut arrivals: Vec<i64> = train.iter().filter_map(|p| p.received_ns).collect();
        arrivals.sort_unstable();
        for (a, b) in arrivals.iter().zip(arrivals.iter().skip(1)) {
            gaps.record(b.abs_diff(*a));
        }
        for delay in train.iter().filter_map(TrainPacket::delay_ns) {
            before_sent += u64::from(delay < 0);
            delays.record(u64::clamped(delay.max(0)));
        }
    }
    let receive: Vec<f64> = rows.iter().filter_map(|row| row.receive_bps).collect();
    let send: Vec<f64> = rows.iter().filter_map(|row| row.send_bps).collect();
    let on_ip = |bps: &f64| bps * f64::from(whole) / f64::from(size.max(1));
    let ratio = rows.iter().filter_map(|row| Some(row.receive_bps? / row.send_bps?)).collect();
    TrainSetting {
        trains: u32::clamped(rows.iter().filter(|row| row.sent > 0).count()),
        sent: sum(|row| row.sent),
        unsent: sum(|row| row.unsent),
        received: sum(|row| row.received),
        lost: sum(|row| row.lost),
        overtaken: sum(|row| row.overtaken),
        repeated: sum(|row| row.repeated),
        train_bps: Quartiles::of(receive.iter().map(on_ip).collect()),
        pair_bps: Quartiles::of(pairs),
        merged_pairs: merged,
        stretched: Quartiles::of(ratio).map(|ratio| ratio.median < 0.95),
        send_bps: Spread::of(&send),
        receive_bps: Spread::of(&receive),
        gap_ns: gaps.summary(),
        send_gap_ns: send_gaps.summary(),
        delay_ns: delays.summary(),
        before_sent,
        by_number: by_number(trains),
        ..TrainSetting::default()
    }
}

fn by_number(trains: &[&[TrainPacket]]) -> Vec<DelayAt> {
    let longest = trains.iter().map(|train| train.len()).max().unwrap_or(0).min(MOST_NUMBERS);
    let at = |number: usize| {
        let of = trains.iter().filter_map(|train| train.get(number)?.delay_ns());
        let (sum, received) = of.fold((0.0, 0_u32), |(sum, n), delay| (sum + real(delay), n + 1));
        let mean_ns = sum / f64::from(received);
        (received > 0).then(|| DelayAt { number: u32::clamped(number), received, mean_ns })
    };
    (0..longest).filter_map(at).collect()
}

fn befell(packet: &TrainPacket) -> impl Iterator<Item = Trouble> {
    let TrainPacket { train, number, intended_ns, .. } = *packet;
    let trouble = |kind, by| Trouble { kind, train, number, intended_ns, by };
    let missing = match (packet.sent_ns, packet.received_ns) {
        (None, _) => Some(trouble(TroubleKind::Unsent, 1)),
        (Some(_), None) => Some(trouble(TroubleKind::Lost, 1)),
        _ => None,
    };
    let overtaken = (packet.overtaken_by > 0).then(|| trouble(TroubleKind::Overtaken, packet.overtaken_by));
    let repeated = (packet.repeats > 0).then(|| trouble(TroubleKind::Repeated, packet.repeats));
    missing.into_iter().chain(overtaken).chain(repeated)
}

/// Below which rate the trains of `rows`, all of one setting, are slow; `None` when too few have
/// been sent to know.
fn usual(rows: &[&TrainRow]) -> Option<f64> {
    let rates: Vec<f64> = rows.iter().map(|row| row.receive_bps.unwrap_or(0.0)).collect();
    if rates.len() < LEAST_ROUNDS {
        return None;
    }
    let median = Quartiles::of(rates.clone())?.median;
    let apart = rates.iter().map(|rate| (rate - median).abs()).collect();
    let deviation = Quartiles::of(apart)?.median;
    Some((median * SHARE).min(median - DEVIATIONS * deviation))
}

/// Repetitions in which trains arrived slower than usual; one of which (almost) nothing arrived is
/// as slow as can be.
fn troughs(rows: &[TrainRow], settings: usize) -> Vec<Trough> {
    let mut all: Vec<Trough> = Vec::new();
    for setting in 0..u32::clamped(settings) {
        let of: Vec<&TrainRow> = rows.iter().filter(|row| row.setting == setting && row.sent > 1).collect();
        let Some(limit) = usual(&of) else { continue };
        for &&TrainRow { round, at_ns, .. } in of.iter().filter(|row| row.receive_bps.unwrap_or(0.0) < limit)
        {
            match all.iter_mut().find(|trough| trough.round == round) {
                Some(trough) => trough.settings.push(setting),
                None => all.push(Trough { round, at_ns, settings: vec![setting], common: false }),
            }
        }
    }
    for trough in &mut all {
        trough.common = settings > 1 && trough.settings.len() == settings;
    }
    all.sort_by_key(|trough| trough.round);
    all
}
