//! The lines of `udpmon_bw_mon` as outcomes: a test each.

use super::read::{Table, is_table, tables};
use crate::import::{Found, Part, ns, received};
use model::{Kind, Pattern, Totals};
use std::collections::BTreeMap;

/// Reads a printout; `None` when it is none.
pub(crate) fn read(bytes: &[u8]) -> Option<Result<Found, String>> {
    if !is_table(bytes) {
        return None;
    }
    let text = String::from_utf8_lossy(bytes);
    let all = tables(&text);
    let parts: Vec<Part> =
        all.iter().flat_map(|table| table.rows.iter().filter_map(|row| test(table, row))).collect();
    if parts.is_empty() {
        return Some(Err(
            "the file is of UDPmon, but holds no line of udpmon_bw_mon with what was received; `netcaliper report` reads it"
                .to_owned(),
        ));
    }
    Some(Ok(Found {
        program: "udpmon_bw_mon".to_owned(),
        protocol: "udpmon",
        verb: "delay",
        parts,
        notices: vec![
            "the rates are over as many gaps as there are: the original divides N packets by N - 1 gaps"
                .to_owned(),
        ],
        ..Found::default()
    }))
}

/// A line: one size and one spacing.
fn test(table: &Table<'_>, row: &[&str]) -> Option<Part> {
    let at = |beginning: &str| {
        let place = table.titles.iter().position(|title| title.starts_with(beginning))?;
        row.get(place)?.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0)
    };
    let size: f64 = row.first()?.parse().ok().filter(|n: &f64| (1.0..=65_535.0).contains(n))?;
    let (sent, came, rate) = (at("num_sent")?, at("num_recv")?, at("recv_user")?);
    let lost = at("num_lost").unwrap_or(0.0);
    let wait = at("inter-pkt_time").or_else(|| at("wait_time")).unwrap_or(0.0);
    let mut far = Totals::default();
    far.traffic.rx_bytes = (size * came) as u64;
    // Of N packets the rate of the N - 1 that came after the first.
    let right = if came > 1.0 { rate * (came - 1.0) / came } else { rate };
    far.traffic.ns = if right > 0.0 { ns(size * came * 8.0 / (right * 1e6)) } else { 0 };
    far.packets =
        Some(Box::new(received(came as u64, lost as u64, at("num_badorder").unwrap_or(0.0) as u64)));
    let mut near = Totals::default();
    near.traffic.tx_bytes = (size * sent) as u64;
    near.traffic.ns = far.traffic.ns;
    let label = BTreeMap::from([
        ("size".to_owned(), format!("{size:.0}")),
        ("spacing".to_owned(), format!("{:.0}", wait * 1e3)),
    ]);
    Some(Part {
        label,
        kind: Kind::Delay,
        pattern: Pattern::Push,
        connections: 1,
        near,
        far: Some(far),
        ..Part::default()
    })
}
