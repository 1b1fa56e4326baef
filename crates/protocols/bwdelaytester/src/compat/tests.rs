//! The same datagrams by either arithmetic. What the original makes of them stands in the comments:
//! observed with the original (arnoutdekimo/bwdelaytester, 2022-11) on a crafted stream, or
//! computed from its rules by hand.

use super::*;
use crate::DatagramRow;
use ::compat::{Printed, Request};
use metrics::Wall;
use model::Event;

const WALL: i64 = 1_795_148_553_000_000_000;
const MS: u64 = 1_000_000;

/// Datagrams of 100 bytes, a millisecond apart, each 250 us under way: number, and place in time.
fn rows(places: impl IntoIterator<Item = (u64, u64)>) -> Vec<DatagramRow> {
    let row = |(number, place): (u64, u64)| {
        let at_ns = 5_000 * MS + place * MS;
        let wall = Wall(WALL.saturating_add_unsigned(at_ns));
        DatagramRow {
            peer: ([192, 0, 2, 1], 9).into(),
            number,
            stamp_us: (WALL as u64 + 5_000 * MS + number * MS) / 1_000 - 250,
            bytes: 100,
            at_ns,
            read_ns: at_ns,
            wall,
        }
    };
    places.into_iter().map(row).collect()
}

/// In the order of their numbers.
fn plain(numbers: impl IntoIterator<Item = u64>) -> Vec<DatagramRow> {
    rows(numbers.into_iter().map(|n| (n, n)))
}

/// What a server prints on stdout and stderr.
fn printed(line: &str, rows: &[DatagramRow]) -> (Vec<String>, Vec<String>) {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let Ok(Request::Run(spec)) = read(&words) else { panic!("{line}") };
    let mut printer = Printer::new(&spec);
    let mut all = vec![printer.on_event(&Event::Start { at: Wall(WALL) })];
    all.extend(rows.chunks(7).map(|chunk| printer.on_event(&Event::extra("bwdelaytester", &chunk))));
    let (last, code) = printer.finish();
    assert_eq!(code, 1);
    all.push(last);
    let lines =
        |of: fn(&Printed) -> &str| all.iter().flat_map(|p| of(p).lines()).map(str::to_owned).collect();
    (lines(|p| &p.out.0), lines(|p| &p.err.0))
}

fn drops(out: &[String]) -> (u64, u64) {
    let column =
        |n: usize| out[1..].iter().map(|l| l.split(' ').nth(n).unwrap().parse::<u64>().unwrap()).sum();
    (column(2), column(3))
}

#[test]
fn a_plain_stream() {
    let rows = plain(0..250);
    let (out, err) = printed("", &rows);
    assert!(out[0].starts_with("# bytes_last_intv") && out[0].ends_with("avgdelayus_last_intv "));
    assert_eq!(
        out[1..],
        ["100000 1000 0 0 250 250 250", "100000 1000 0 0 250 250 250", "50000 500 0 0 250 250 250"]
    );
    assert_eq!(err[0], "First packet seen from 192.0.2.1:9");
    assert_eq!(err[2..5], ["## Printing latency histogram:", "0 0 0", "200 250 100"]);
    // The original: a line with the first packet; then with the first that comes more than 100 ms
    // later, itself included; a first minimum of 0; and nothing of the last 48.
    let (out, err) = printed("--as-original", &rows);
    assert_eq!(
        out[1..],
        ["1000 10 0 0 0 250 250", "101000 1010 0 0 250 250 250", "101000 1010 0 0 250 250 250"]
    );
    assert_eq!(err[1..4], ["## Printing latency histogram:", "0 0 0", "200 250 100"]);
    assert_eq!(err.last().unwrap(), "## Printing sweep data:");
}

#[test]
fn what_was_overtaken_is_no_loss_and_hides_none() {
    // 50 and 51 swapped, 80 lost.
    let mut rows = plain((0..320).filter(|&n| n != 80));
    rows.swap(50, 51);
    assert_eq!(drops(&printed("", &rows).0), (1, 1));
    // The original counts the swap as a drop, expects one too many from then on, and so misses the
    // drop of 80.
    let (out, _) = printed("--as-original", &rows);
    assert_eq!(drops(&out), (1, 1));
    rows.remove(49);
    // Without the swap's first half both arithmetics agree on two.
    rows.swap(49, 49);
    assert_eq!(drops(&printed("", &plain((0..320).filter(|n| ![49, 80].contains(n)))).0), (2, 2));
    assert_eq!(
        drops(&printed("--as-original", &plain((0..320).filter(|n| ![49, 80].contains(n)))).0),
        (2, 2)
    );
}

#[test]
fn a_repeat_hides_no_loss() {
    // 20 twice, then 60 to 62 lost: three, of which the original sees two (observed on the crafted
    // stream).
    let places = (0..=20).chain(20..320).filter(|n| !(60..63).contains(n));
    let rows = rows(places.map(|n| (n, n)));
    let (out, err) = printed("", &rows);
    assert_eq!(drops(&out), (3, 1));
    assert!(err[1].contains("317 packets arrived, 3 did not; 1 arrived more than once"), "{}", err[1]);
    assert_eq!(drops(&printed("--as-original", &rows).0), (2, 1));
}

#[test]
fn a_late_low_number_is_no_restart() {
    // 5 comes again when 150 is expected: below half of it, so the original restarts (observed).
    let rows = rows((0..150).map(|n| (n, n)).chain([(5, 150)]).chain((150..320).map(|n| (n, n))));
    let (out, err) = printed("", &rows);
    assert_eq!(drops(&out), (0, 0));
    assert!(!err.iter().any(|line| line.starts_with("WARNING")));
    let (out, err) = printed("--as-original", &rows);
    assert!(err.contains(&"WARNING: Remote restarted. Restarting here too".to_owned()));
    // And counts all numbers between as lost: it expects 6, and 150 comes.
    assert_eq!(drops(&out), (144, 1));
}

#[test]
fn a_receiver_that_comes_late_has_lost_nothing() {
    let rows = plain(1_000..1_250);
    assert_eq!(drops(&printed("", &rows).0), (0, 0));
    assert_eq!(drops(&printed("--as-original", &rows).0), (1_000, 1));
}

#[test]
fn silence_is_no_rate() {
    // Ten packets, half a second of nothing, ten packets.
    let rows = rows((0..10).map(|n| (n, n)).chain((10..20).map(|n| (n, n + 500))));
    let (out, _) = printed("", &rows);
    let rate = |line: &String| line.split(' ').nth(1).unwrap().to_owned();
    assert_eq!(out[1..].iter().map(rate).collect::<Vec<_>>(), ["100", "100"]);
    // The original takes half a second for a tenth.
    assert_eq!(printed("--as-original", &rows).0[2].split(' ').nth(1), Some("100"));
}

#[test]
fn unsynchronised_latencies_are_those_above_the_fastest() {
    let mut rows = plain(0..120);
    for row in &mut rows {
        // 665 s since the sender's start, as captured; the first one was slow by 900 us.
        row.stamp_us = 665_792_710 + row.number * 1_000;
    }
    rows[0].at_ns += 900_000;
    rows[0].read_ns += 900_000;
    let (out, _) = printed("-a", &rows);
    assert_eq!(out[1].split(' ').skip(4).collect::<Vec<_>>(), ["0", "0", "0"]);
    // The original declares the first one to have taken nothing, and all others to have come before
    // they were sent.
    let (out, _) = printed("-a --as-original", &rows);
    assert_eq!(out[2].split(' ').nth(4), Some("-900"));
    // The compensation is added: 2 ms, or, as the original takes it, 2 us.
    assert_eq!(printed("-a -l 2", &rows).0[1].split(' ').nth(4), Some("2000"));
    assert_eq!(printed("-a -l 2 --as-original", &rows).0[1].split(' ').nth(5), Some("2"));
}

#[test]
fn the_table_by_rate() {
    // 100 bytes every millisecond for two seconds, a tenth of them lost: 0.8 Mbit/s offered, which
    // is the lowest rate.
    let rows = plain((0..2_000).filter(|n| n % 10 != 5));
    let (_, err) = printed("-s", &rows);
    let at = err.iter().position(|line| line == "## Printing sweep data:").unwrap();
    assert_eq!(err[at + 1..], ["10 10.000000 250 250 250 20"]);
    // The original: intervals of 101 or 102 places, the least latency never above 0.
    let (_, err) = printed("-s --as-original", &rows);
    let at = err.iter().position(|line| line == "## Printing sweep data:").unwrap();
    let row: Vec<&str> = err[at + 1].split(' ').collect();
    assert_eq!((row[0], row[2], row[3], row[4], row[5]), ("10", "0", "250", "250", "20"));
}

#[test]
fn nothing_is_no_crash() {
    for line in ["", "-s", "-a --as-original"] {
        let (out, err) = printed(line, &[]);
        assert_eq!(out.len(), 1);
        // The original divides by zero here.
        assert!(err.contains(&"0 0 0".to_owned()) && err.last().unwrap() == "## Printing sweep data:");
    }
}
