#[path = "../../../../../compat/src/import/tests/support.rs"]
mod support;

use super::*;
use crate::compat::IMPORTERS;
use compat::import::import;
use model::{DelayRange, Figure, Stat, Way};
use support::{near, only, outcome_of};

#[test]
fn bwdelaytesters_table_of_rates() {
    // From a sweep of the original, `-p 500 -b 60 -s`.
    let text = "## Printing latency histogram:\n0 2194 88\n## Printing sweep data:\n10 0.000000 0 321924 353 326\n\
        70 5.628461 0 219105 882 44\n";
    let outcome = outcome_of(text.as_bytes());
    assert_eq!(outcome.points.len(), 3);
    let last = &outcome.points[2];
    assert_eq!(last.label["rate"], "70000000");
    near(Figure::Loss(Way::Up).of(last), 5.6285);
    let told = last.remote[0].packets.as_ref().and_then(|p| p.delay_range_ns);
    assert_eq!(told, Some(DelayRange { min: None, mean: 882e3, max: 219_105_000 }));
    // How much came at a rate is not told.
    assert!(
        outcome.points.iter().all(|point| point.up.is_none())
            && outcome.sweep.iter().all(|row| !row.figures.contains_key("goodput.up"))
    );
}

/// From the output of the original (arnoutdekimo/bwdelaytester, 2022-11): the beginning of `-p 1000
/// -b 10`, received over loopback, and two rows of the table of `-p 500 -b 60 -s`.
const OUT: &str = "# bytes_last_intv packets_last_intv drops_last_intv drops_consq_last_intv mindelayus_last_intv maxdelayus_last_intv avgdelayus_last_intv \n\
    10000 10 0 0 0 243 243\n1250000 1250 0 0 6 1403 175\n1270000 1270 0 0 6 4002 102\n";
const ERR: &str = "First packet seen from 127.0.0.1:60330\n## Printing latency histogram:\n0 2194 88\n200 16 88\n400 290 100\n\
    ## Printing sweep data:\n10 0.000000 0 321924 353 326\n20 0.238643 0 219105 474 328\n";

const HISTOGRAM: &str = "## Printing latency histogram:\n0 2194 88\n200 16 88\n400 290 100\n";

fn imported(text: &str) -> ImportedRun {
    read(&Source::Text(text.to_owned(), false)).unwrap().unwrap()
}

#[test]
fn lines_add_up_to_what_came() {
    let outcome = outcome_of(format!("{OUT}{HISTOGRAM}").as_bytes());
    let point = only(&outcome);
    near(Figure::Goodput(Way::Up).of(point), 253_000.0 * 8.0 / 0.3);
    assert_eq!(Figure::Loss(Way::Up).of(point), Some(0.0));
    near(Figure::Delay(Way::Up, Stat::MEDIAN).of(point), 200e3);
    let ranges: Vec<_> = point.intervals.iter().map(|i| i.remote_packets.as_ref()?.delay_range_ns).collect();
    // The first smallest one is what the original begins to compare with.
    assert_eq!(ranges[0], Some(DelayRange { min: None, mean: 243e3, max: 243_000 }));
    assert_eq!(ranges[1], Some(DelayRange { min: Some(6_000), mean: 175e3, max: 1_403_000 }));
    let run = imported(OUT);
    let remote = run.phases[0].remote.as_ref().unwrap();
    // 1, 125 and 127 packets of 1000 bytes in three tenths of a second.
    let counts = remote.packets.as_ref().unwrap().counts;
    assert_eq!(
        (counts.received, counts.lost, remote.traffic.rx_bytes, remote.traffic.ns),
        (253, 0, 253_000, 3 * TENTH)
    );
    let delays = run.phases[0].intervals[0].remote_packets.as_ref().unwrap().delay_range_ns.unwrap();
    assert_eq!((delays.min, delays.max), (None, 243_000));
}

#[test]
fn histogram_and_table() {
    let run = imported(ERR);
    let delays = run.phases[0].remote.as_ref().unwrap().packets.as_ref().unwrap().delay_ns.clone().unwrap();
    assert_eq!(delays.count, 2_500);
    assert_eq!((run.phases.len(), run.phases[2].label["rate"].as_str()), (3, "20000000"));
    assert!(!run.notices.iter().any(|text| text.contains("none of its")), "{:?}", run.notices);
}

#[test]
fn other_files_are_not_taken_and_nonsense_is_counted() {
    for text in ["", "1 2 3 4 5 6 7\n", "{\"schema\": 1}", "size,wait_us\n"] {
        assert!(read(&Source::Text(text.to_owned(), false)).is_none(), "{text}");
    }
    let run = imported(&format!("{OUT}1 2 x\n9 9 9 9 9 9 9 9\nnan 1 1 1 1 1 1\n"));
    assert!(run.notices.contains(&"3 lines are none of its".to_owned()), "{:?}", run.notices);
}
