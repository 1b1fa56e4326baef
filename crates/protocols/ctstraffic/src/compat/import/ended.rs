//! ctsTraffic's tables of connections, of frames and of what TCP knew at the end, as phases.

use super::{add, add_frames, pattern};
use crate::compat::read::{ConnectionLine, Connections, Frame, TcpInfo};
use crate::compat::spec::Transport;
use compat::import::{ImportedPhase, ns};
use metrics::{Clamped, Dist, Ending, FrameStamps, Frames, real};
use model::{CauseCount, ConnectionRecord, FrameRow, FrameVerdict, Interval, Kind, Pattern, Totals};
use std::collections::BTreeMap;
use std::net::SocketAddr;

const MOST_CAUSES: usize = 32;
/// Most frames a second of a plausible stream; a higher number is a damaged file.
const MOST_SECONDS: u64 = 1 << 20;

/// A table of connections: each with its addresses, bytes, time and end.
pub(super) fn connections(table: &Connections) -> ImportedPhase {
    let udp = table.transport == Transport::Udp;
    let mut phase =
        ImportedPhase { kind: if udp { Kind::Stream } else { Kind::Tcp }, ..ImportedPhase::default() };
    let (mut first, mut last) = (u64::MAX, 0);
    let (mut times, mut rates) = (Dist::default(), Dist::default());
    let mut frames = Frames::default();
    let mut causes: BTreeMap<String, CauseCount> = BTreeMap::new();
    for row in &table.rows {
        let record = record(row, table.transport);
        let local = &mut phase.local;
        // A connection that failed before its first byte was not established.
        let moved = record.tx_bytes > 0 || record.rx_bytes > 0 || record.frames.is_some();
        local.opened += u64::from(moved || record.result != Ending::NetworkError);
        add(&mut local.traffic.tx_bytes, record.tx_bytes);
        add(&mut local.traffic.rx_bytes, record.rx_bytes);
        match record.result {
            Ending::Completed => local.completed += 1,
            Ending::NetworkError => local.network_errors += 1,
            _ => local.data_errors += 1,
        }
        if let Some(text) = &record.error {
            let new =
                || CauseCount { class: record.result, text: text.clone(), count: 0, first: text.clone() };
            causes.entry(text.clone()).or_insert_with(new).count += 1;
        }
        if let Some(more) = record.frames {
            add_frames(&mut frames, more);
        } else {
            first = first.min(record.ended_ns.saturating_sub(record.duration_ns));
            last = last.max(record.ended_ns);
            if record.result == Ending::Completed && record.duration_ns > 0 {
                let bytes = record.tx_bytes.saturating_add(record.rx_bytes);
                let rate = real(bytes) * 1e9 / real(record.duration_ns);
                times.record(record.duration_ns);
                rates.record(u64::clamped(rate));
                local.rates.add(rate);
            }
        }
        let remote = local.remotes.entry(record.remote.ip()).or_default();
        remote.connections += 1;
        remote.failed += u64::from(record.result != Ending::Completed);
        add(&mut remote.tx_bytes, record.tx_bytes);
        add(&mut remote.rx_bytes, record.rx_bytes);
        add(&mut remote.time_ns, record.duration_ns);
        phase.records.push(record);
    }
    let local = &mut phase.local;
    local.traffic.ns = last.saturating_sub(first);
    local.transfer_ns = times.summary();
    local.rate = rates.summary();
    local.frames = udp.then_some(frames);
    local.causes = causes.into_values().collect();
    local.causes.sort_by_key(|cause| std::cmp::Reverse(cause.count));
    local.causes.truncate(MOST_CAUSES);
    local.peak = peak(&phase.records);
    phase.connections = u32::try_from(local.peak).unwrap_or(u32::MAX);
    phase.pattern = pattern(local.traffic, Pattern::Pull);
    phase
}

fn record(row: &ConnectionLine, transport: Transport) -> ConnectionRecord {
    let address = |text: &str| text.parse::<SocketAddr>().ok();
    let [a, b, c, d, e] = row.numbers;
    let result = match row.result.as_bytes() {
        b"Succeeded" => Ending::Completed,
        // Windows' error number and text, or the error's name.
        [b'0'..=b'9', ..] | [b'W', b'S', b'A', ..] => Ending::NetworkError,
        _ => Ending::DataError,
    };
    let tcp = transport == Transport::Tcp;
    ConnectionRecord {
        id: row.id.parse().unwrap_or_default(),
        local: address(&row.local),
        remote: address(&row.remote).unwrap_or_else(|| ([0, 0, 0, 0], 0).into()),
        ended_ns: if row.at_s.is_finite() { ns(row.at_s) } else { 0 },
        tx_bytes: if tcp { a } else { 0 },
        rx_bytes: if tcp { c } else { 0 },
        connect_ns: None,
        duration_ns: if tcp { e.saturating_mul(1_000_000) } else { 0 },
        result,
        error: (result != Ending::Completed).then(|| row.result.clone()),
        failure: None,
        tcp: None,
        frames: (!tcp).then_some(Frames { completed: b, dropped: c, repeated: d, errors: e }),
    }
}

/// Most of them at once.
fn peak(records: &[ConnectionRecord]) -> u64 {
    let begin = |record: &ConnectionRecord| record.ended_ns.saturating_sub(record.duration_ns);
    let ends = |record| [(begin(record), 1), (record.ended_ns, -1)];
    let mut steps: Vec<(u64, i64)> = records.iter().flat_map(ends).collect();
    // At one instant the ends are first: the next connection of a slot begins with the end of the
    // last.
    steps.sort_unstable();
    let mut open = 0_i64;
    let most = steps.into_iter().map(|(_, step)| {
        open += step;
        open
    });
    most.max().map_or(0, |most| u64::try_from(most).unwrap_or(0))
}

/// A table of frames: the complete ones, by seconds of the receiver's clock, and their jitter.
/// Beside it the number of rows whose time no stream has.
pub(super) fn frames(rows: &[Frame]) -> (ImportedPhase, u64) {
    let mut odd = 0;
    let mut all = Frames::default();
    let mut seconds: BTreeMap<u64, Frames> = BTreeMap::new();
    let (mut begun, mut at) = (None, 0);
    let (mut jitter, mut before) = (0.0_f64, None::<f64>);
    for row in rows {
        if !row.dropped() {
            if row.stamps.receiver_hz > 0 {
                let s = real(row.stamps.receiver_ticks) / real(row.stamps.receiver_hz);
                let since = (s - *begun.get_or_insert(s)).max(0.0);
                if since > real(MOST_SECONDS) {
                    odd += 1;
                    continue;
                }
                at = u64::clamped(since);
            }
            if let Some(before) = before.replace(row.flight_ms) {
                // RFC 3550, section 6.4.1.
                jitter += ((row.flight_ms - before).abs() * 1e6 - jitter) / 16.0;
            }
        }
        let one = frame_row(row).verdict.counted();
        all.add(one);
        seconds.entry(at).or_default().add(one);
    }
    let mut local = Totals { frames: Some(all), opened: 1, peak: 1, ..Totals::default() };
    local.packets = before
        .map(|_| Box::new(model::PacketReport { jitter_ns: Some(jitter), ..model::PacketReport::default() }));
    let intervals = seconds.into_iter().map(|(second, frames)| Interval {
        index: u32::try_from(second).unwrap_or(u32::MAX),
        start_ns: second * 1_000_000_000,
        end_ns: (second + 1) * 1_000_000_000,
        in_flight: 1,
        frames: Some(frames),
        ..Interval::default()
    });
    let phase = ImportedPhase {
        kind: Kind::Stream,
        pattern: Pattern::Pull,
        connections: 1,
        intervals: intervals.collect(),
        frames: rows.iter().map(frame_row).collect(),
        local,
        ..ImportedPhase::default()
    };
    (phase, odd)
}

/// A row in the form of our own streams.
fn frame_row(row: &Frame) -> FrameRow {
    let FrameStamps { sender_ticks, sender_hz, receiver_ticks, receiver_hz } = row.stamps;
    FrameRow {
        seq: u64::try_from(row.seq).unwrap_or(0),
        verdict: if row.dropped() { FrameVerdict::Dropped } else { FrameVerdict::Completed },
        bytes: 0,
        sender_ticks,
        sender_hz,
        receiver_ticks,
        receiver_hz,
    }
}

/// A table of what TCP knew of each connection at its end.
pub(super) fn tcp_info(rows: &[TcpInfo]) -> ImportedPhase {
    let mut phase = ImportedPhase { kind: Kind::Tcp, ..ImportedPhase::default() };
    let local = &mut phase.local;
    let (mut first, mut last) = (u64::MAX, 0);
    for row in rows {
        let [sent, _, received, _, ms] = row.moved;
        local.opened += 1;
        local.completed += 1;
        add(&mut local.traffic.tx_bytes, sent);
        add(&mut local.traffic.rx_bytes, received);
        let (end, took) = (if row.at_s.is_finite() { ns(row.at_s) } else { 0 }, ms.saturating_mul(1_000_000));
        first = first.min(end.saturating_sub(took));
        last = last.max(end);
        let tcp = &mut local.tcp;
        tcp.connections += 1;
        add(&mut tcp.bytes_sent, sent);
        // From BytesReordered on: retransmitted bytes, SYNs sent again, …, the smallest round trip.
        add(&mut tcp.bytes_retrans, row.numbers[1].unwrap_or(0));
        if let Some(us) = row.numbers[4].and_then(|us| u32::try_from(us).ok()).filter(|us| *us > 0) {
            tcp.min_rtt_us = if tcp.min_rtt_us == 0 { us } else { tcp.min_rtt_us.min(us) };
        }
        let mss = row.numbers[5].unwrap_or(0).max(1);
        add(&mut tcp.retransmits, row.numbers[1].unwrap_or(0).div_ceil(mss));
    }
    local.traffic.ns = last.saturating_sub(first);
    phase.connections = u32::try_from(rows.len()).unwrap_or(u32::MAX);
    phase.pattern =
        if local.traffic.rx_bytes > local.traffic.tx_bytes { Pattern::Pull } else { Pattern::Push };
    phase
}
