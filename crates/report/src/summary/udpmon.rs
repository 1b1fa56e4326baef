//! Tests of UDPmon and tcpmon, a row each.

use super::packets::share;
use crate::text::{Page, Table, Tone};
use metrics::{format_bits_per_second, format_bytes, format_count, format_duration, real};
use model::{Figure, Point, UdpmonTest};
use std::io;

/// Tests that are shown; the JSON has all.
const MOST_SHOWN: usize = 50;
/// A tenth of a microsecond, in which UDPmon counts, ns.
pub(crate) const TENTH: f64 = 100.0;

fn over(point: &Point) -> impl Iterator<Item = &UdpmonTest> {
    point.udpmon.iter().filter(|test| test.over)
}

/// Whether there are any.
pub(super) fn any(point: &Point) -> bool {
    over(point).next().is_some()
}

/// Whether all of them are of round trips: then there were no datagrams one way.
pub(super) fn only_trips(point: &Point) -> bool {
    any(point) && over(point).all(|test| test.latency.is_some())
}

/// What a test found, of one kind.
pub(crate) fn figure(test: &UdpmonTest, wanted: fn(&Figure) -> bool) -> Option<f64> {
    Figure::of_test(test).into_iter().find(|(figure, _)| wanted(figure)).map(|(_, value)| value)
}

fn rate(test: &UdpmonTest) -> Option<f64> {
    figure(test, |figure| matches!(figure, Figure::Goodput(_)))
}

fn loss(test: &UdpmonTest) -> Option<f64> {
    figure(test, |figure| matches!(figure, Figure::Loss(_)))
}

/// The result in a few words.
pub(super) fn found(point: &Point) -> Vec<String> {
    let mut words = vec![format_count(over(point).count() as u64, "test")];
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

/// All of them.
pub(super) fn write(point: &Point, page: &mut Page<'_>) -> io::Result<()> {
    let shown = || over(point).take(MOST_SHOWN);
    let cell = |n: u64| if n > 0 { n.to_string() } else { "-".to_owned() };
    let mut streams = Table::new(&[
        "Tests (receiver's count)",
        "size",
        "spacing",
        "sent",
        "received",
        "lost",
        "loss",
        "out of order",
        "rate",
    ]);
    for (test, counts) in shown().filter_map(|test| Some((test, test.counts?))) {
        let size = if test.size > 0 { format_bytes(test.size.into()) } else { "-".to_owned() };
        // Who only received knows neither.
        let spacing =
            if test.sent > 0 { format_duration(f64::from(test.wait) * TENTH) } else { "-".to_owned() };
        streams.row(
            if counts.lost > 0 { Tone::Bad } else { Tone::Plain },
            vec![
                test.peer.clone(),
                size,
                spacing,
                cell(test.sent),
                counts.received.to_string(),
                counts.lost.to_string(),
                loss(test).map_or("-".to_owned(), |percent| share(percent / 100.0)),
                counts.bad_order.to_string(),
                rate(test).map_or("-".to_owned(), format_bits_per_second),
            ],
        );
    }
    let mut trips = Table::new(&[
        "Round trips by response",
        "response",
        "request",
        "answered",
        "missing",
        "min",
        "mean",
        "max",
    ]);
    for (test, told) in shown().filter_map(|test| Some((test, test.latency.as_ref()?))) {
        let time = |ns: f64| if told.count > 0 { format_duration(ns) } else { "-".to_owned() };
        trips.row(
            if told.missing > 0 { Tone::Bad } else { Tone::Plain },
            vec![
                test.peer.clone(),
                format_bytes(told.response.into()),
                format_bytes(test.size.into()),
                told.count.to_string(),
                told.missing.to_string(),
                time(real(told.min_ns)),
                time(real(told.sum_ns) / real(told.count.max(1))),
                time(real(told.max_ns)),
            ],
        );
    }
    for table in [streams, trips].iter().filter(|table| !table.is_empty()) {
        page.table(table)?;
    }
    let more = over(point).count().saturating_sub(MOST_SHOWN);
    if more > 0 {
        page.line(
            Tone::Plain,
            &format!("  and {} more (--json has all)", format_count(more as u64, "test")),
        )?;
    }
    Ok(())
}
