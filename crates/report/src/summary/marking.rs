//! Class of service and ECN codepoint of packets in each direction: as they were sent, and as they
//! arrived.

use crate::text::{Column, Page, Table, Tone, or_dash};
use metrics::{DistSummary, Ecn, PairSide, TcpEcn, format_bytes, format_duration, format_percent};
use model::{Marking, Point, Totals, classes};

/// The codepoints of a direction, and the findings about these.
pub(super) fn write(point: &Point, page: &mut Page<'_>) {
    if point.marking.is_empty() {
        return;
    }
    page.gap();
    let columns: [Column<&Marking>; 6] = [
        ("sent", |m| or_dash(sent(m), |words| words)),
        ("arrived", |m| or_dash(m.arrived.dscp, classes)),
        ("Not-ECT", |m| share(m, Ecn::Off)),
        ("ECT(0)", |m| share(m, Ecn::Ect0)),
        ("ECT(1)", |m| share(m, Ecn::Ect1)),
        ("CE", |m| share(m, Ecn::Ce)),
    ];
    let is_counted = |m: &&Marking| m.arrived.dscp.is_some();
    let rows = point.marking.iter().filter(is_counted).map(|m| {
        let bad = m.ecn_changed || m.loses_more.is_some() || m.class_changed().is_some();
        (Tone::bad_if(bad), format!("to {}", m.to), m)
    });
    if point.marking.iter().any(|m| is_counted(&m)) {
        page.table(&Table::of("Class of service, ECN", &columns, rows));
    }
    pairs(std::iter::once((String::new(), point)), page);
    connections(point, page);
    findings("", point, page);
}

/// The findings about the codepoints of a phase with this name.
pub(super) fn findings(name: &str, point: &Point, page: &mut Page<'_>) {
    for marking in point.marking.iter().filter(|marking| !marking.findings.is_empty()) {
        let findings = marking.findings.join(", ");
        page.paragraph(Tone::Plain, &format!("  {name}to {}: ", marking.to), &findings);
    }
}

/// ECN of TCP connections, a row for each end.
fn connections(point: &Point, page: &mut Page<'_>) {
    let columns: [Column<TcpEcn>; 7] = [
        ("negotiated", |tcp| format!("{} of {}", tcp.negotiated, tcp.connections)),
        ("AccECN", |tcp| or_dash(tcp.accurate, |n| n.to_string())),
        ("ECT seen", |tcp| tcp.seen.to_string()),
        ("received ECT(0)", |tcp| or_dash(tcp.received_bytes, |sum| format_bytes(sum.ect0))),
        ("ECT(1)", |tcp| or_dash(tcp.received_bytes, |sum| format_bytes(sum.ect1))),
        ("CE", |tcp| or_dash(tcp.received_bytes, |sum| format_bytes(sum.ce))),
        ("CE echoed", |tcp| format!("{} of {}", tcp.delivered_ce, tcp.delivered)),
    ];
    let rows = point.marking.iter().filter_map(|m| Some((Tone::bad_if(m.ecn_changed), m.to.clone(), m.tcp?)));
    let rows: Vec<_> = rows.collect();
    if !rows.is_empty() {
        page.table(&Table::of("ECN of TCP, at", &columns, rows));
    }
}

/// `EF, ECT(0)`.
fn sent(marking: &Marking) -> Option<String> {
    let class = classes((marking.sent_dscp?, marking.sent_dscp?));
    let ecn = marking.sent_ecn.iter().map(|ecn| ecn.name());
    Some(std::iter::once(class.as_str()).chain(ecn).collect::<Vec<_>>().join(", "))
}

fn share(marking: &Marking, ecn: Ecn) -> String {
    or_dash(marking.arrived.percent(ecn), format_percent)
}

type Side = PairSide<Option<DistSummary>>;

/// Columns of datagrams with one of two codepoints.
const SIDES: [Column<Side>; 6] = [
    ("received", |side| side.received.to_string()),
    ("lost", |side| side.lost.to_string()),
    ("loss", |side| or_dash(side.loss(), |loss| format_percent(100.0 * loss))),
    ("delay p50", |side| or_dash(side.delay_ns.as_ref(), |delay| format_duration(delay.p50))),
    ("p99", |side| or_dash(side.delay_ns.as_ref(), |delay| format_duration(delay.p99))),
    ("CE", |side| (side.arrived[usize::from(Ecn::Ce.bits())]).to_string()),
];

/// Datagrams in pairs, a row for each codepoint of each direction of these phases, each of which has
/// a name.
pub(super) fn pairs<'a>(points: impl Iterator<Item = (String, &'a Point)>, page: &mut Page<'_>) {
    let mut rows: Vec<(Tone, String, Side)> = Vec::new();
    for (name, point) in points {
        let there = point.remote.iter().map(|end| (format!("{name}to server {}", end.who), end));
        let ends = there.chain([(format!("{name}to this host"), &point.local)]);
        let paired = |(name, end): (String, &Totals)| {
            let sides = end.packets.as_deref()?.pairs.as_deref()?.sides.clone();
            Some(sides.map(|side| (Tone::Plain, format!("{name}, {}", side.sent.name()), side)))
        };
        rows.extend(ends.filter_map(paired).flatten());
    }
    if !rows.is_empty() {
        let rows = rows.iter().map(|(tone, name, side)| (*tone, name.clone(), side));
        page.table(&Table::of("Datagrams by codepoint", &SIDES, rows));
    }
}
