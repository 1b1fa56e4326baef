//! What both ends say in the end, joined: the objects under `end` of iperf3's JSON.

use super::json::{Loss, clip, moved, seconds, with};
use crate::{BulkEnded, BulkTerms, RemoteRow, StreamRow};
use serde_json::{Map, Value, json};

/// What one end says of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct End {
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    pub(super) retransmits: Option<u64>,
    pub(super) jitter_ns: f64,
    pub(super) lost: i64,
    pub(super) packets: i64,
}

/// The sender's and the receiver's word on a stream; nothing where the peer said nothing.
pub(super) fn sides(ended: &BulkEnded, row: &StreamRow) -> (End, End) {
    let length = seconds(row.end_ns.saturating_sub(row.start_ns));
    let local = End {
        bytes: row.bytes,
        seconds: length,
        retransmits: row.retransmits,
        jitter_ns: row.jitter_ns,
        lost: row.lost,
        packets: clip(row.packets),
    };
    let told = |remote: &RemoteRow| End {
        bytes: remote.bytes,
        seconds: remote.ns.map_or(length, seconds),
        retransmits: remote.retransmits,
        jitter_ns: remote.jitter_ns,
        lost: remote.lost,
        packets: remote.packets,
    };
    let silent = End { seconds: length, ..End::default() };
    let remote = ended.remote.iter().find(|remote| remote.slot == row.slot).map_or(silent, told);
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
            let mut loss = Loss::default();
            rows.iter().for_each(|row| loss.add(row.jitter_ns, row.lost, clip(row.packets)));
            with(map, loss.json())
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
    let (mut sent, mut got) = (End::default(), End::default());
    let (mut there, mut here) = (Loss::default(), Loss::default());
    for row in rows {
        let (s, g) = sides(ended, row);
        for (sum, one) in [(&mut sent, s), (&mut got, g)] {
            sum.bytes += one.bytes;
            sum.seconds = sum.seconds.max(one.seconds);
            sum.retransmits = match (sum.retransmits, one.retransmits) {
                (Some(a), Some(b)) => Some(a + b),
                (a, b) => a.or(b),
            };
        }
        there.add(0.0, 0, s.packets);
        here.add(g.jitter_ns, g.lost, g.packets);
    }
    let mut put = |key: &str, value: Map<String, Value>| {
        map.insert(format!("{key}{suffix}"), Value::Object(value));
    };
    let who = json!({ "sender": sender });
    let (from_sender, from_receiver) =
        (moved(0.0, sent.seconds, sent.bytes), moved(0.0, got.seconds, got.bytes));
    if terms.udp {
        let mixed = Loss { packets: there.packets, ..here };
        put("sum", with(with(from_sender.clone(), mixed.json()), who));
        put("sum_sent", with(with(from_sender, there.json()), json!({ "sender": true })));
        put("sum_received", with(with(from_receiver, here.json()), json!({ "sender": false })));
        return;
    }
    let again = sent.retransmits.map_or(json!({}), |again| json!({ "retransmits": again }));
    put("sum_sent", with(with(from_sender, again), who.clone()));
    put("sum_received", with(from_receiver, who));
}
