//! What both ends say in the end, joined: the objects under `end` of iperf3's JSON.

use super::json::{moved, seconds, with};
use crate::{BulkEnded, BulkTerms, RemoteRow, StreamRow};
use metrics::{Clamped, real};
use serde_json::{Map, Value, json};

/// Figures of a stream, or of several together, at one end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Side {
    pub(super) bytes: u64,
    pub(super) ns: u64,
    pub(super) retransmits: Option<u64>,
    pub(super) jitter_ns: f64,
    pub(super) lost: i64,
    pub(super) packets: i64,
    pub(super) streams: u32,
}

impl Side {
    pub(super) fn local(row: &StreamRow) -> Side {
        Side {
            bytes: row.bytes,
            ns: row.end_ns.saturating_sub(row.start_ns),
            retransmits: row.retransmits,
            jitter_ns: row.jitter_ns,
            lost: row.lost,
            packets: i64::clamped(row.packets),
            streams: 1,
        }
    }

    /// The peer's; where it does not say how long it took, it is what we saw.
    fn remote(row: &RemoteRow, local: &StreamRow) -> Side {
        Side {
            bytes: row.bytes,
            ns: row.ns.unwrap_or(local.end_ns.saturating_sub(local.start_ns)),
            retransmits: row.retransmits,
            jitter_ns: row.jitter_ns,
            lost: row.lost,
            packets: row.packets,
            streams: 1,
        }
    }

    /// Of a peer that said nothing: it took as long as we saw.
    pub(super) fn silent(local: &StreamRow) -> Side {
        Side { ns: local.end_ns.saturating_sub(local.start_ns), streams: 1, ..Side::default() }
    }

    pub(super) fn add(&mut self, other: &Side) {
        self.bytes += other.bytes;
        self.ns = self.ns.max(other.ns);
        self.retransmits = match (self.retransmits, other.retransmits) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        self.jitter_ns += other.jitter_ns;
        self.lost += other.lost;
        self.packets += other.packets;
        self.streams += other.streams;
    }

    pub(super) fn jitter_ms(&self) -> f64 {
        self.jitter_ns / f64::from(self.streams.max(1)) / 1e6
    }

    pub(super) fn share(&self) -> f64 {
        if self.packets > 0 { 100.0 * real(self.lost) / real(self.packets) } else { 0.0 }
    }

    /// Its datagrams.
    pub(super) fn json(&self) -> Value {
        json!({
            "jitter_ms": self.jitter_ms(),
            "lost_packets": self.lost,
            "packets": self.packets,
            "lost_percent": self.share(),
        })
    }

    /// Its bytes, time and rate.
    pub(super) fn moved(&self) -> Map<String, Value> {
        moved(0.0, seconds(self.ns), self.bytes)
    }
}

/// The sender's and the receiver's word on a stream; `None` where the peer said nothing.
pub(super) fn sides(ended: &BulkEnded, row: &StreamRow) -> (Option<Side>, Option<Side>) {
    let remote = ended.remote.iter().find(|remote| remote.slot == row.slot);
    let (local, remote) = (Some(Side::local(row)), remote.map(|remote| Side::remote(remote, row)));
    if row.sender { (local, remote) } else { (remote, local) }
}

pub(super) fn sum_row(
    terms: &BulkTerms,
    omitted: bool,
    sender: bool,
    rows: &[&StreamRow],
) -> Map<String, Value> {
    let bytes = rows.iter().map(|row| row.bytes).sum();
    let (from, to) = rows.first().map_or((0, 0), |row| (row.start_ns, row.end_ns));
    let map = moved(seconds(from), seconds(to), bytes);
    let map = with(map, json!({ "omitted": omitted, "sender": sender }));
    let packets: u64 = rows.iter().map(|row| row.packets).sum();
    match (terms.udp, sender) {
        (true, true) => with(map, json!({ "packets": packets })),
        (true, false) => {
            let mut all = Side::default();
            rows.iter().for_each(|row| all.add(&Side::local(row)));
            with(map, all.json())
        }
        (false, true) => {
            let again: u64 = rows.iter().filter_map(|row| row.retransmits).sum();
            with(map, json!({ "retransmits": again }))
        }
        (false, false) => map,
    }
}

/// The sums of one direction in the end.
pub(super) fn sums(
    map: &mut Map<String, Value>,
    terms: &BulkTerms,
    ended: &BulkEnded,
    suffix: &str,
    sender: bool,
    rows: &[&StreamRow],
) {
    let (mut sent, mut got) = (Side::default(), Side::default());
    for row in rows {
        let (s, g) = sides(ended, row);
        sent.add(&s.unwrap_or(Side::silent(row)));
        got.add(&g.unwrap_or(Side::silent(row)));
    }
    let mut put = |key: &str, value: Map<String, Value>| {
        map.insert(format!("{key}{suffix}"), Value::Object(value));
    };
    let who = json!({ "sender": sender });
    let (from_sender, from_receiver) = (sent.moved(), got.moved());
    if terms.udp {
        // A sender knows how many it sent, and nothing of loss and jitter.
        let there = Side { packets: sent.packets, ..Side::default() };
        let mixed = Side { packets: sent.packets, ..got };
        put("sum", with(with(from_sender.clone(), mixed.json()), who));
        put("sum_sent", with(with(from_sender, there.json()), json!({ "sender": true })));
        put("sum_received", with(with(from_receiver, got.json()), json!({ "sender": false })));
        return;
    }
    let again = sent.retransmits.map_or(json!({}), |again| json!({ "retransmits": again }));
    put("sum_sent", with(with(from_sender, again), who.clone()));
    put("sum_received", with(from_receiver, who));
}
