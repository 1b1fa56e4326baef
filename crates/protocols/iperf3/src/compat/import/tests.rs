#[path = "../../../../../compat/src/import/tests/support.rs"]
mod support;

use crate::compat::IMPORTERS;
use compat::import::import;
use model::{Figure, Way};
use support::{near, only, outcome_of};

/// The file after its first line, which says where it comes from.
fn sample(text: &'static str) -> &'static [u8] {
    text.split_once('\n').map_or("", |(_, rest)| rest).as_bytes()
}

#[test]
fn iperf3_over_tcp() {
    let outcome = outcome_of(sample(include_str!("iperf3-tcp.json.txt")));
    let begin = &outcome.begin;
    assert_eq!(
        (begin.version.as_str(), begin.verb.as_str(), begin.protocol.as_str()),
        ("iperf 3.12", "tcp", "iperf3")
    );
    assert_eq!((begin.targets[0].as_str(), begin.host.name.as_str()), ("127.0.0.1", "vm"));
    let point = only(&outcome);
    // end.sum_received.bits_per_second of the file; its intervals are the sender's.
    near(Figure::Goodput(Way::Up).of(point), 200_211_745.912_103_1);
    assert_eq!((point.intervals.len(), point.up.unwrap().confirmed), (2, true));
    assert_eq!(point.up.unwrap().sent_bytes, 50_069_504);
    assert_eq!(Figure::Goodput(Way::Down).of(point), None);
    assert_eq!(Figure::Retransmits.of(point), Some(0.0));
}

#[test]
fn iperf3_both_ways_and_udp() {
    let outcome = outcome_of(sample(include_str!("iperf3-bidir.json.txt")));
    let point = only(&outcome);
    near(Figure::Goodput(Way::Up).of(point), 100_128_594.626_158_86);
    near(Figure::Goodput(Way::Down).of(point), 100_128_594.626_158_86);
    let first = &point.intervals[0];
    assert_eq!((first.local.tx_bytes, first.local.rx_bytes), (12_582_912, 12_582_912));

    let outcome = outcome_of(sample(include_str!("iperf3-udp.json.txt")));
    let point = only(&outcome);
    assert_eq!((outcome.begin.verb.as_str(), Figure::Loss(Way::Up).of(point)), ("delay", Some(0.0)));
    near(Figure::Jitter(Way::Up).of(point), 392_618.042);
    assert_eq!(point.remote[0].packets.as_ref().unwrap().counts.received, 39);
}

#[test]
fn an_end_that_sends_and_receives_datagrams_keeps_both_counts() {
    let sum = |packets: u32, lost: u32| {
        format!(r#"{{"bytes":1000,"seconds":1,"packets":{packets},"lost_packets":{lost},"jitter_ms":0.1}}"#)
    };
    let text = format!(
        r#"{{"start":{{"version":"iperf 3.16","test_start":{{"protocol":"UDP","bidir":1,"num_streams":1}}}},
        "intervals":[],"end":{{"sum_sent":{},"sum_received":{},"sum_sent_bidir_reverse":{},
        "sum_received_bidir_reverse":{}}}}}"#,
        sum(100, 0),
        sum(100, 3),
        sum(50, 0),
        sum(50, 2)
    );
    let file = compat::file::open(text.as_bytes()).unwrap();
    let run = super::read(&file.documents[0].source().unwrap()).unwrap().unwrap();
    let phase = &run.phases[0];
    for (totals, counts) in [(&phase.local, (100, 48)), (phase.remote.as_ref().unwrap(), (50, 97))] {
        let packets = totals.packets.as_ref().unwrap();
        assert_eq!((packets.counts.sent, packets.counts.received), counts);
    }
}

#[test]
fn damage_does_no_harm() {
    let whole = sample(include_str!("iperf3-tcp.json.txt"));
    for cut in (0..whole.len()).step_by(whole.len() / 97 + 1) {
        let _ = import(IMPORTERS, &whole[..cut]);
    }
    // Numbers where texts are expected, nonsense where numbers are.
    let odd = r#"{"start":{"version":"iperf 3.9","test_start":{"num_streams":-1,"duration":1e300}},"intervals":[7,{}],"end":{"sum_sent":{"bytes":-5,"seconds":"x"}}}"#;
    let told = import(IMPORTERS, odd.as_bytes()).unwrap().unwrap_err();
    assert!(told.contains("none of its counts of bytes can be used"), "{told}");
    let failed =
        r#"{"start":{"version":"iperf 3.9"},"intervals":[],"end":{},"error":"error - unable to connect"}"#;
    let told = import(IMPORTERS, failed.as_bytes()).unwrap().unwrap_err();
    assert!(told.contains("unable to connect"));
}
