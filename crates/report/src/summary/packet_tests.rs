//! Tests of UDPmon and tcpmon, a row each.

use super::packets::share;
use crate::text::{Column, Page, Table, Tone, or_dash};
use metrics::{Clamped, format_bits_per_second, format_bytes, format_count, format_duration, real};
use model::{Figure, PacketTest, PacketTestCounts, PacketTestLatency, Point};
use std::io;

/// Tests that are shown; the JSON has all.
const MOST_SHOWN: usize = 50;
/// A tenth of a microsecond, in which UDPmon counts, ns.
pub(crate) const TENTH: f64 = 100.0;

fn over(point: &Point) -> impl Iterator<Item = &PacketTest> {
    point.packet_tests.iter().filter(|test| test.over)
}

pub(super) fn any(point: &Point) -> bool {
    over(point).next().is_some()
}

/// Whether all of them are of round trips: then there were no datagrams one way.
pub(super) fn only_trips(point: &Point) -> bool {
    any(point) && over(point).all(|test| test.latency.is_some())
}

/// What a test found, of one kind.
pub(crate) fn figure(test: &PacketTest, wanted: fn(&Figure) -> bool) -> Option<f64> {
    Figure::of_test(test).into_iter().find(|(figure, _)| wanted(figure)).map(|(_, value)| value)
}

fn rate(test: &PacketTest) -> Option<f64> {
    figure(test, |figure| matches!(figure, Figure::Goodput(_)))
}

fn loss(test: &PacketTest) -> Option<f64> {
    figure(test, |figure| matches!(figure, Figure::Loss(_)))
}

/// A number that is not 0.
fn some<T: Default + PartialEq>(n: T) -> Option<T> {
    Some(n).filter(|n| *n != T::default())
}

/// The result in a few words.
pub(super) fn found(point: &Point) -> Vec<String> {
    let mut words = vec![format_count(u64::clamped(over(point).count()), "test")];
    let rates = || over(point).filter_map(rate);
    let (least, most) =
        rates().fold((f64::MAX, 0.0), |(least, most), rate| (rate.min(least), rate.max(most)));
    match rates().count() {
        0 => {}
        1 => words.push(format!("{} received", format_bits_per_second(most))),
        _ => words.push(format!(
            "{} to {} received",
            format_bits_per_second(least),
            format_bits_per_second(most)
        )),
    }
    let (lost, came) = over(point)
        .filter_map(|test| test.counts)
        .fold((0, 0), |(lost, came), counts| (lost + counts.lost, came + counts.received));
    words.extend((lost + came > 0).then(|| format!("{} lost", share(real(lost) / real(lost + came)))));
    words
}

pub(super) fn write(point: &Point, page: &mut Page<'_>) -> io::Result<()> {
    let shown = || over(point).take(MOST_SHOWN);
    // A program that only received knows neither size nor spacing.
    let columns: [Column<(&PacketTest, PacketTestCounts)>; 8] = [
        ("size", |(test, _)| or_dash(some(test.size), |n| format_bytes(n.into()))),
        ("spacing", |(test, _)| or_dash(some(test.sent), |_| format_duration(f64::from(test.wait) * TENTH))),
        ("sent", |(test, _)| or_dash(some(test.sent), |n| n.to_string())),
        ("received", |(_, counts)| counts.received.to_string()),
        ("lost", |(_, counts)| counts.lost.to_string()),
        ("loss", |(test, _)| or_dash(loss(test), |percent| share(percent / 100.0))),
        ("out of order", |(_, counts)| counts.bad_order.to_string()),
        ("rate", |(test, _)| or_dash(rate(test), format_bits_per_second)),
    ];
    let tests = shown().filter_map(|test| Some((test, test.counts?)));
    let rows = tests.map(|row| (Tone::bad_if(row.1.lost > 0), row.0.peer.clone(), row));
    let streams = Table::of("Tests (receiver's count)", &columns, rows);
    let columns: [Column<(&PacketTest, &PacketTestLatency)>; 7] = [
        ("response", |(_, told)| format_bytes(told.response.into())),
        ("request", |(test, _)| format_bytes(test.size.into())),
        ("answered", |(_, told)| told.count.to_string()),
        ("missing", |(_, told)| told.missing.to_string()),
        ("min", |(_, told)| or_dash(some(told.count), |_| format_duration(told.min_ns))),
        ("mean", |(_, told)| or_dash(some(told.count), |n| format_duration(real(told.sum_ns) / real(n)))),
        ("max", |(_, told)| or_dash(some(told.count), |_| format_duration(told.max_ns))),
    ];
    let tests = shown().filter_map(|test| Some((test, test.latency.as_ref()?)));
    let rows = tests.map(|row| (Tone::bad_if(row.1.missing > 0), row.0.peer.clone(), row));
    let trips = Table::of("Round trips by response", &columns, rows);
    for table in [streams, trips].iter().filter(|table| !table.is_empty()) {
        page.table(table)?;
    }
    let more = over(point).count().saturating_sub(MOST_SHOWN);
    if more > 0 {
        page.line(
            Tone::Plain,
            &format!("  and {} more (--json has all)", format_count(u64::clamped(more), "test")),
        )?;
    }
    Ok(())
}
