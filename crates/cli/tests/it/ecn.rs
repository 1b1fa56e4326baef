//! Classes and ECN codepoints against what a lab's path did to them: each change is named, and none is
//! invented.

use crate::support::lab::on_lab;
use crate::support::{BIN, Outcome, number, serve, skip};
use serde_json::Value;

/// Runs a question in a lab with these options.
fn asked(test: &str, options: &str, question: &str) -> Option<Outcome> {
    let (verb, rest) = question.split_once(' ').unwrap_or((question, ""));
    let command = format!("{BIN} {verb} $NETCALIPER_LAB_SERVER {rest} --json");
    Some(Outcome::of(on_lab(test, &format!("-q {options}"), &command)?))
}

/// The marking to the server, and to this host.
fn markings(outcome: &Outcome) -> [Value; 2] {
    let all = outcome.point()["marking"].as_array().cloned().unwrap_or_default();
    [true, false].map(|up| all.iter().find(|marking| marking["up"] == up).cloned().unwrap_or_default())
}

/// Findings of a direction, and percent of CE.
fn found(marking: &Value) -> (Vec<&str>, f64) {
    let findings = marking["findings"].as_array().map(|all| all.iter().filter_map(Value::as_str).collect());
    (findings.unwrap_or_default(), marking["ce_percent"].as_f64().unwrap_or(-1.0))
}

const QUESTIONS: [&str; 3] =
    ["delay --bidir --pps 1000 -t 1s", "ping -u --rate 500 -t 1s", "stream --bidir -b 10M --length 1s"];

#[test]
fn marks_of_congestion_are_counted_in_each_direction_of_each_question() {
    const TEST: &str = "ecn::marks_of_congestion_are_counted_in_each_direction_of_each_question";
    for question in QUESTIONS {
        let question = format!("{question} --ecn ect0");
        let Some(outcome) = asked(TEST, "--seed 5 --only udp --up ecn-ce=20%", &question) else { return };
        let [up, down] = markings(&outcome);
        let (findings, percent) = found(&up);
        // 20 % of at least 400 datagrams: 5 standard deviations are 10 %.
        assert!((10.0..30.0).contains(&percent), "{question}: {up}");
        assert!(findings.len() == 1 && findings[0].starts_with("CE marks "), "{question}: {up}");
        assert_eq!(found(&down), (vec![], 0.0), "{question}: {down}");
        assert!(outcome.caveat("ecn-changed").is_none(), "{question}");
        // Each datagram is in one interval, of the end that received it.
        let intervals = outcome.point()["intervals"].as_array().unwrap();
        let pointer =
            if question.starts_with("ping") { "/pings/remote_marks" } else { "/remote_packets/marks" };
        let sum = |at: usize| -> u64 {
            let of = intervals.iter().filter_map(|interval| interval.pointer(pointer)?["ecn"][at].as_u64());
            of.sum()
        };
        assert!(sum(3) > 0 && sum(3) <= number(&up["arrived"]["ecn"][3]), "{question}: {up}");
    }
}

#[test]
fn cleared_codepoints_and_classes_are_named_and_none_is_invented() {
    const TEST: &str = "ecn::cleared_codepoints_and_classes_are_named_and_none_is_invented";
    let cleared = "ECT(1) was sent, Not-ECT arrived: cleared between the hosts";
    for question in QUESTIONS {
        let question = format!("{question} --ecn ect1 --dscp ef");
        let Some(outcome) = asked(TEST, "--down ecn-bleach=yes,dscp=cs1", &question) else { return };
        let [up, down] = markings(&outcome);
        assert_eq!((found(&up), found(&down).0), ((vec![], 0.0), vec![cleared]), "{question}");
        assert!(outcome.caveats("ecn-changed").contains("(to this host: ECT(1) was sent"), "{question}");
        let text = outcome.caveats("dscp-changed");
        assert!(text.contains("(to this host: sent EF, arrived as CS1)"), "{question}: {text}");
        assert_eq!(up["arrived"]["dscp"], serde_json::json!([46, 46]), "{question}");
        let outcome = asked(TEST, "", &question).unwrap();
        assert!(outcome.caveat("ecn-changed").is_none() && outcome.caveat("dscp-changed").is_none());
        assert!(markings(&outcome).iter().all(|marking| found(marking) == (vec![], 0.0)), "{question}");
    }
}

#[test]
fn a_queue_that_marks_above_a_delay_marks_what_is_sent_too_fast() {
    const TEST: &str = "ecn::a_queue_that_marks_above_a_delay_marks_what_is_sent_too_fast";
    let run = |rate: &str| {
        let question = format!("delay --up -b {rate} -l 1000 -t 1s --ecn ect0");
        asked(TEST, "--only udp --up rate=10M,queue=500ms,ecn-above=5ms", &question)
    };
    let Some(outcome) = run("12M") else { return };
    let [up, _] = markings(&outcome);
    assert!(found(&up).1 > 50.0, "the queue is above 5 ms after 25 ms: {up}");
    let [up, _] = markings(&run("1M").unwrap());
    assert!(found(&up).1 < 5.0, "only a stalled sender makes a queue: {up}");
}

#[test]
fn losses_that_do_not_look_at_codepoints_are_no_difference() {
    const TEST: &str = "ecn::losses_that_do_not_look_at_codepoints_are_no_difference";
    let question = "delay --bidir --pps 1000 -t 2s --ecn ect1,off --seed 9";
    let Some(outcome) = asked(TEST, "--seed 2 --only udp --up burst-loss=1%:20%", question) else { return };
    let sides = outcome.remote()[0]["packets"]["pairs"]["sides"].as_array().unwrap();
    assert_eq!([&sides[0]["sent"], &sides[1]["sent"]], ["ect1", "off"]);
    let arrived = |side: usize, bits: usize| number(&sides[side]["arrived"][bits]);
    assert!(arrived(0, 1) > 500 && arrived(1, 0) > 500, "{sides:?}");
    assert_eq!((arrived(0, 0), arrived(1, 1)), (0, 0));
    assert!(outcome.caveat("ecn-loss").is_none() && outcome.caveat("ecn-changed").is_none());
    assert!(markings(&outcome)[0]["loss_p"].as_f64().is_some());
}

#[test]
fn a_path_that_loses_one_codepoint_is_found() {
    const TEST: &str = "ecn::a_path_that_loses_one_codepoint_is_found";
    let question = "delay --bidir --pps 1000 -t 2s --ecn ect1,off --seed 9";
    let Some(outcome) = asked(TEST, "--seed 2 --up only=udp+ect1,loss=5%", question) else { return };
    let text = outcome.caveats("ecn-loss");
    assert!(text.contains("(to server") && text.contains("ECT(1) loses more than Not-ECT"), "{text}");
    let [up, down] = markings(&outcome);
    assert!(up["loss_p"].as_f64().is_some_and(|p| p < 1e-3), "{up}");
    assert!(down["loses_more"].is_null(), "{down}");
}

/// The kernel counts packets with CE of all programs in the namespace; the connections of the run
/// are all but a few of them.
#[test]
fn tcp_reports_what_the_kernel_negotiated_and_counted() {
    const TEST: &str = "ecn::tcp_reports_what_the_kernel_negotiated_and_counted";
    let run = |conditions: &str, ecn: u8| {
        let tcp = format!("{BIN} tcp $NETCALIPER_LAB_SERVER -P 2 -t 2s -b 5M --json");
        let command = format!("echo {ecn} > /proc/sys/net/ipv4/tcp_ecn && {tcp}");
        Some(Outcome::of(on_lab(TEST, &format!("-q {conditions}"), &command)?))
    };
    let Some(outcome) = run("--up ecn-ce=5%", 1) else { return };
    let server = &outcome.remote()[0];
    let ecn = &server["tcp"]["ecn"];
    let of = |name: &str| number(&ecn[name]);
    assert_eq!((of("connections"), of("negotiated"), of("seen")), (2, 2, 2), "{ecn}");
    if ecn["received_bytes"].is_null() {
        return skip(TEST, "this kernel counts no bytes by codepoint (Linux 6.18 does)");
    }
    let bytes = |name: &str| number(&ecn["received_bytes"][name]);
    let (marked, all) = (bytes("ce"), bytes("ce") + bytes("ect0"));
    assert!(marked > 0 && marked < all / 5, "{ecn}");
    let received = number(&server["traffic"]["rx_bytes"]);
    assert!(all.abs_diff(received) < received / 10, "{ecn}: {received}");
    let kernel = number(&server["counters"]["moved"]["IpExt.InCEPkts"]);
    // Packets of the control connection are marked, too.
    assert!(of("received_ce") <= kernel && of("received_ce") + 20 > kernel, "{ecn}: {kernel}");
    let outcome = run("--ecn-bleach yes", 1).unwrap();
    let text = outcome.caveats("ecn-changed");
    assert!(text.contains("to server") && text.contains("ECN was negotiated, Not-ECT arrived"), "{text}");
    let outcome = run("", 0).unwrap();
    assert_eq!(outcome.remote()[0]["tcp"]["ecn"]["negotiated"], 0);
    assert!(outcome.caveat("ecn-changed").is_none() && outcome.point()["marking"].is_null());
}

#[test]
fn a_codepoint_is_refused_where_the_kernel_or_the_question_has_none() {
    let server = serve("");
    for (words, complaint) in [
        ("ping --ecn ect0", "datagrams (-u)"),
        ("ping -u --ecn ect0,off", "give one"),
        ("train --ecn ect0,ect1", "give one"),
        ("stream --ecn ect0,ect1", "give one"),
        ("delay --ecn ect2", "'ect2'"),
        ("delay --ecn ce,ce", "twice"),
        ("load --ecn off", "compared with off"),
    ] {
        let (verb, rest) = words.split_once(' ').unwrap();
        crate::support::netcaliper(verb).arg(server.at()).args(rest).run().exits(2).complains(&[complaint]);
    }
}
