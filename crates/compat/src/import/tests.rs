mod support;

use super::*;
use crate::IMPORTERS;
use flate2::{Compression, write::GzEncoder};
use model::{Figure, Stat, Way};
use std::io::Write as _;
use support::{near, only, outcome_of};

/// The file after its first line, which says where it comes from.
fn sample(text: &'static str) -> &'static [u8] {
    text.split_once('\n').map_or("", |(_, rest)| rest).as_bytes()
}

#[test]
fn irtt_with_its_round_trips() {
    let outcome = outcome_of(sample(include_str!("irtt.json.txt")));
    let point = only(&outcome);
    // stats.rtt of the file: min 112458, max 358024, 10 of 10 came back.
    near(Figure::RoundTrip(Stat::Min).of(point), 112458.0);
    near(Figure::RoundTrip(Stat::Max).of(point), 358024.0);
    assert_eq!(Figure::MessagesLost.of(point), Some(0.0));
    assert_eq!((outcome.begin.version.as_str(), outcome.begin.protocol.as_str()), ("irtt 0.9.0", "irtt"));
    assert!(outcome.begin.started.0 > 1_700_000_000_000_000_000);
}

#[test]
fn flent_packed_or_not() {
    let text = sample(include_str!("flent.json.txt"));
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(text).unwrap();
    let outcome = outcome_of(&packed.finish().unwrap());
    assert_eq!(outcome, outcome_of(text));
    let series: Vec<&str> = outcome.points.iter().map(|p| p.label["series"].as_str()).collect();
    assert_eq!(series, ["Ping (ms) ICMP", "Ping (ms) UDP"]);
    // The largest of either series in the file, ms.
    near(Figure::RoundTrip(Stat::Max).of(&outcome.points[0]), 0.052_988_327e6);
    near(Figure::RoundTrip(Stat::Max).of(&outcome.points[1]), 0.802_843_934e6);
    assert_eq!((outcome.points[0].intervals.len(), outcome.begin.version.as_str()), (9, "flent 2.1.1"));
}

#[test]
fn flents_streams_add_up() {
    // In the layout of flent's rrul: two streams up and one down of 4 steps, sums beside them, one
    // step without a value.
    let text = r#"{"metadata":{"NAME":"rrul_be","HOST":"remote","STEP_SIZE":0.5},"version":4,"x_values":[0.0,0.5,1.0,1.5],
        "results":{"TCP upload BE":[null,10,20,30],"TCP upload BE2":[null,1,2,3],"TCP upload BE::tcp_rtt":[9,9,9,9],
        "TCP upload sum":[null,11,22,33],"TCP download BE":[null,8,null,8],"Ping (ms) avg":[1,1,1,1],"VoIP::loss":[0,0,0,0]}}"#;
    let outcome = outcome_of(text.as_bytes());
    let point = only(&outcome);
    // (11 + 22 + 33) / 3 Mbit/s over the steps with readings, and (8 + 8) / 2 back: a place without
    // a reading is none of 0.
    near(point.up.map(|d| d.sent_bps), 22e6);
    near(Figure::Goodput(Way::Down).of(point), 8e6);
    assert!(!point.up.unwrap().confirmed, "only the sender's readings are known");
    // Computed series are named as well.
    let left_out = outcome.notices.iter().find(|notice| notice.starts_with("left out: ")).unwrap();
    for series in ["TCP upload BE::tcp_rtt", "VoIP::loss", "TCP upload sum", "Ping (ms) avg"] {
        assert!(left_out.contains(series), "{left_out}");
    }
}

#[test]
fn other_files_are_none_of_these_and_damage_does_no_harm() {
    for text in ["{", "{}", "[1]", "<xml/>", "size,wait\n", "{\"schema\":\"netcaliper.outcome.v2\"}"] {
        assert!(import(IMPORTERS, text.as_bytes()).is_none(), "{text}");
    }
    for whole in [sample(include_str!("irtt.json.txt")), sample(include_str!("flent.json.txt"))] {
        for cut in (0..whole.len()).step_by(whole.len() / 97 + 1) {
            let _ = import(IMPORTERS, &whole[..cut]);
        }
    }
    let packed = import(IMPORTERS, b"\x1f\x8bnonsense");
    assert!(packed.unwrap().unwrap_err().contains("cannot be unpacked"));
}
