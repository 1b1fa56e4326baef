//! Output against that of OB-UDPST 9.0.0 (BroadbandForum/obudpst 3201cf8).

use super::args::{Form, Spec};
use super::print::{Host, Printer, rates};
use crate::codec::Parameters;
use crate::report::{Activated, EndReport, News, Report, SubIntervalReport, Warning};
use crate::{NAME, Settings};
use metrics::Wall;
use model::Event;
use std::net::SocketAddr;

const LOCAL: ([u8; 4], u16) = ([10, 84, 0, 1], 43_205);
const REMOTE: ([u8; 4], u16) = ([10, 84, 0, 2], 55_135);

fn report(us: i64, news: News) -> Event {
    let (local, remote) = (SocketAddr::from(LOCAL), SocketAddr::from(REMOTE));
    let at = Wall(1_795_852_853_870_501_000 + us * 1_000);
    Event::extra(NAME, &Report { connection: 0, test: 64_892, at, local, remote, news })
}

/// The first two sub-intervals of a captured run: their counts, and the samples of their means.
fn events() -> Vec<Event> {
    let p = Parameters { test_s: 5, ..Parameters::default() };
    let sub = |number, datagrams, bytes, length_us, lost, (delay, trip)| SubIntervalReport {
        number,
        datagrams,
        bytes,
        length_us,
        end_ms: number * 1_000,
        lost,
        delay_ms: Some((0, 125)),
        delay_sum: (delay, 1),
        round_trip_ms: Some((0, 123)),
        round_trip_sum: (trip, 1),
        round_trip_min_ms: Some(0),
        headers: 28,
        ..SubIntervalReport::default()
    };
    vec![
        report(0, News::ActivationResponse(Box::new(Activated::new(1, false, &p)))),
        report(1_054_849, News::SubInterval(sub(1, 249, 111_778, 1_000_000, 580, (50, 69)))),
        report(2_063_052, News::SubInterval(sub(2, 442, 106_374, 1_000_000, 218, (65, 66)))),
        report(5_565_747, News::End(EndReport::default())),
    ]
}

fn spec(form: Form) -> Spec {
    let settings = Settings { test_s: 5, ..Settings::default() };
    Spec { upstream: Some(false), connections: Some((1, 1)), form, settings, ..Spec::default() }
}

fn printed(spec: &Spec, events: &[Event]) -> (String, u8) {
    let hosts = vec![Host { name: "10.84.0.2".to_owned(), at: ([10, 84, 0, 2], 24_601).into() }];
    let mut printer = Printer::new(spec, "0", hosts);
    let mut text: String = events.iter().map(|event| printer.on_event(event).0).collect();
    let (rest, code) = printer.finish();
    text.push_str(&rest);
    (text, code)
}

/// The lines of the reference for these counts.
#[test]
fn lines_are_those_of_the_original() {
    let (text, code) = printed(&spec(Form::Text), &events());
    let want = "\
Downstream Test Int(sec): 5, DelayVar Th(ms): 30-90 [RTT], Trial Int(ms): 50, Ignore OoO/Dup: Enabled, Payload: zeroes,
  ID: 64892, SR Index: <Auto>, Cong. Th: 3, HS Delta: 10, SeqErr Th: 10, Algo: B, Conn: 1, DSCP+ECN: 0, CE Th: 0
Sub-Interval[1](sec):   1.0, Delivered(%):  30.04, Loss/OoO/Dup: 580/0/0, OWDVar(ms): 0/50/125, RTTVar(ms): 0/69/123, Mbps(L3/IP): 0.95
Sub-Interval[2](sec):   2.0, Delivered(%):  66.97, Loss/OoO/Dup: 218/0/0, OWDVar(ms): 0/65/125, RTTVar(ms): 0/66/123, Mbps(L3/IP): 0.95
Downstream Summary Delivered(%):  46.41, Loss/OoO/Dup: 798/0/0, OWDVar(ms): 0/58/125, RTTVar(ms): 0/68/123, Mbps(L3/IP): 0.95
Downstream Minimum One-Way Delay(ms): 0 [w/clock diff], Round-Trip Time(ms): 0, Active Connections: 1
Downstream Maximum Mbps(L3/IP): 0.95, Mbps(L2/Eth): 0.98, Mbps(L1/Eth): 0.99, Mbps(L1/Eth+VLAN): 0.99
";
    assert_eq!((text.as_str(), code), (want, 0));
}

/// Keys and numbers of the captured document, of which the counts above are from.
#[test]
fn the_document_has_the_keys_and_numbers_of_the_original() {
    let (text, _) = printed(&spec(Form::Formatted), &events());
    let want = include_str!("document.txt");
    // Times of this test, and what is about sub-intervals that it leaves out.
    for (nth, line) in want.lines().enumerate().take(93) {
        assert_eq!(text.lines().nth(nth), Some(line), "line {}", nth + 1);
    }
    let keys = |text: &str| {
        let key =
            |line: &str| line.trim().split_once("\":").map(|(key, _)| key.trim_start_matches('"').to_owned());
        let mut keys: Vec<String> = text.lines().filter_map(key).collect();
        keys.sort();
        keys.dedup();
        keys
    };
    assert_eq!(keys(&text), keys(want));
    let (brief, _) = printed(&spec(Form::Brief), &events());
    assert!(brief.starts_with("{\"Output\":{\"BOMTime\":\"2026-11-28T08:00:53.870501Z\",\"TmaxUsed\":1000,"));
}

#[test]
fn refusals_have_the_words_and_the_exit_codes_of_the_original() {
    let failed = |code| report(0, News::End(EndReport { code, ..EndReport::default() }));
    let (text, code) = printed(&spec(Form::Text), &[failed(105)]);
    assert_eq!(code, 105);
    assert_eq!(
        text,
        "ERROR: Authentication required by server 10.84.0.2:24601\nERROR: Minimum required connections (1) unavailable\n"
    );
    let (text, code) = printed(&spec(Form::Text), &[failed(1)]);
    assert_eq!(code, 200);
    assert!(text.starts_with("WARNING: Timeout awaiting response from server 10.84.0.2:24601\n"));
    let (text, _) = printed(&spec(Form::Json), &[failed(1)]);
    assert!(text.ends_with(
        "\"ErrorStatus\":200,\"ErrorMessage\":\"ERROR: Minimum required connections (1) unavailable\",\"ErrorMessage2\":\
         \"WARNING: Timeout awaiting response from server 10.84.0.2:24601\"}\n"
    ));
}

#[test]
fn warnings_have_the_words_and_the_exit_codes_of_the_original() {
    let mut all = events();
    all.insert(1, report(9, News::Warning(Warning::ReportsLostThere(1))));
    let (text, code) = printed(&spec(Form::Text), &all);
    assert!(text.contains(
        "\nREMOTE WARNING: Incoming status feedback messages lost (1) [Server 10.84.0.2:24601]\nSub-Interval[1]"
    ));
    assert_eq!(code, 3);
}

#[test]
fn the_table_is_that_of_the_original() {
    let text = rates(&Settings::default());
    let line = |n: usize| text.lines().nth(n + 2).unwrap_or_default();
    for want in [
        "    0)        0        0     0  +    50000        0     0  52-1222 ~=       0.11",
        "    1)        0        0     0  +     1000        0     0       97  =       1.00",
        "   12)        0        0     0  +     1000     1222     1      222  =      12.00",
        "  999)      100     1222     9  +     1000     1222     9     1097  =     999.00",
        " 1000)      100     1222    10  +        0        0     0        0  =    1000.00",
        " 1001)      100     1347    10  +        0        0     0        0  =    1100.00",
        " 1152)      100     8972   100  +        0        0     0        0  =   72000.00",
    ] {
        let n: usize = want.split(')').next().unwrap().trim().parse().unwrap();
        assert_eq!(line(n), want);
    }
}
