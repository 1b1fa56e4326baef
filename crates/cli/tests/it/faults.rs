//! A relay between the ends damages one connection: the damage is noticed, classed, and told with
//! its exact place, by the end that saw it and in the client's result; and it stays the only one.

use crate::support::relay::{Harm, Relay, Way};
use crate::support::{Outcome, Server, number, serve, tcp, text};

/// Payload of the one connection that most of these tests have.
const TRANSFER: u64 = 3_000_017;
const BLOCK: u64 = 64 * 1024;

/// One connection of [`TRANSFER`] bytes through a relay that does `harm` to it.
#[track_caller]
fn harmed(server: &Server, way: Way, harm: Harm, args: &str) -> Outcome {
    harmed_by(server, way, harm, args).0
}

/// The same, and the relay that did it.
#[track_caller]
fn harmed_by(server: &Server, way: Way, harm: Harm, args: &str) -> (Outcome, Relay) {
    let relay = Relay::new(server.port, 0, way, harm);
    let flag = if way == Way::Up { "" } else { "-R" };
    let line = tcp(relay.at()).args(&format!("-P 1 --iterations 1 --transfer {TRANSFER} {flag} {args}"));
    let outcome = line.outcome();
    relay.did(1);
    (outcome, relay)
}

/// The run failed in exactly one connection, which is told as an error of this class by the client.
#[track_caller]
fn one_error(outcome: Outcome, class: &str) -> Outcome {
    let outcome = outcome.exits(1).status("complete");
    assert_eq!(outcome.local()[class], 1, "{}", outcome.tell());
    assert_eq!(outcome.errors().0, 1, "{}", outcome.tell());
    let bad: Vec<_> = outcome.connections().iter().filter(|c| c["result"] != "completed").collect();
    assert_eq!(bad.len(), 1, "records: {}", outcome.tell());
    assert!(format!("{class} ").starts_with(&text(&bad[0]["result"])[..7]), "{}", bad[0]);
    assert!(!text(&bad[0]["error"]).is_empty());
    outcome
}

/// The words with which the receiver tells wrong data at `offset`, and those with which the sender
/// does.
fn wrong_at(offset: u64) -> (String, String) {
    (
        format!("wrong data at offset {offset}: expected "),
        format!("the peer received wrong data at offset {offset}\n"),
    )
}

#[test]
fn a_flipped_bit_is_found_where_it_is_in_both_directions() {
    let server = serve("");
    for way in [Way::Up, Way::Down] {
        for (offset, mask, payload) in [
            (0, 0x01, "pattern"),
            (16_384, 0x80, "random"),
            (65_535, 0x10, "zeros"),
            (1_234_567, 0x04, "pattern"),
            (TRANSFER - 1, 0x40, "random"),
        ] {
            let outcome = harmed(&server, way, Harm::Flip { offset, mask }, &format!("--payload {payload}"));
            let outcome = one_error(outcome, "data_errors");
            let (receiver, sender) = wrong_at(offset);
            outcome.tells(&receiver);
            assert_eq!(outcome.remote_sum("/data_errors"), 1, "{}", outcome.tell());
            if way == Way::Up {
                // The receiver is the server: the client heard of it from there.
                outcome.tells(&sender);
                let causes = outcome.remote()[0]["causes"].to_string();
                assert!(causes.contains(&receiver), "the server tells the place: {causes}");
            }
        }
    }
    // The pattern is a little-endian counter of 16 bits: bytes 2000 and 2001 are 1000 = 0x03e8.
    let outcome = harmed(&server, Way::Up, Harm::Flip { offset: 2000, mask: 0x01 }, "");
    one_error(outcome, "data_errors").tells("wrong data at offset 2000: expected e8 03 e9 03 ea 03");
    let outcome = harmed(&server, Way::Down, Harm::Flip { offset: 2001, mask: 0x80 }, "");
    let outcome = one_error(outcome, "data_errors");
    outcome.tells("wrong data at offset 2001: expected 03 e9 03 ea");
    outcome.tells("received 83 e9 03 ea");
    server.still_serves();
}

#[test]
fn damage_while_both_send_and_damaged_framing_are_found_in_the_direction_they_are_in() {
    let server = serve("");
    for way in [Way::Up, Way::Down] {
        for args in ["--bidir", "--pattern pushpull --push-bytes 100000 --pull-bytes 100000"] {
            let relay = Relay::new(server.port, 0, way, Harm::Flip { offset: 777_777, mask: 2 });
            let line = tcp(relay.at()).args(&format!("-P 1 --iterations 1 --transfer {TRANSFER} {args}"));
            let outcome = line.outcome().exits(1);
            relay.did(1);
            // The end of the run may overtake the connection's end at the relay: then the server
            // counts the connection as cut off.
            let cut_off = outcome.remote_sum("/stopped");
            assert!(outcome.errors().0 == 1 && outcome.errors().1 + cut_off == 1, "{}", outcome.tell());
            outcome.tells(&wrong_at(777_777).0);
        }
        // Damaged framing is told from damaged payload.
        for mark in [0, 3] {
            let outcome = harmed(&server, way, Harm::FlipMark { mark }, "").exits(1);
            assert_eq!(outcome.errors().0, 1, "{}", outcome.tell());
            outcome.tells("damaged framing");
        }
    }
    server.still_serves();
}

#[test]
fn one_bad_connection_of_many_is_the_only_one() {
    let server = serve("");
    let relay = Relay::new(server.port, 5, Way::Up, Harm::Flip { offset: 99_999, mask: 8 });
    let line = tcp(relay.at()).args(&format!("-P 4 --iterations 4 --transfer {BLOCK}0"));
    let outcome = one_error(line.outcome(), "data_errors");
    relay.did(1);
    assert_eq!(outcome.local()["completed"], 15, "{}", outcome.tell());
    assert_eq!(outcome.remote_sum("/completed"), 15, "{}", outcome.tell());
    let remote = &outcome.local()["remotes"]["127.0.0.1"];
    assert_eq!((&remote["connections"], &remote["failed"]), (&16.into(), &1.into()));
    // With one connection at a time, too, the run goes on after the failed one.
    let relay = Relay::new(server.port, 0, Way::Up, Harm::Reset { offset: 10_000 });
    let line = tcp(relay.at()).args("-P 1 --iterations 5 --transfer 100001 --payload random");
    let outcome = one_error(line.outcome(), "network_errors");
    relay.did(1);
    assert_eq!(outcome.local()["completed"], 4, "the other lives: {}", outcome.tell());
    assert!(number(&outcome.remote()[0]["traffic"]["rx_bytes"]) >= 400_004, "{}", outcome.tell());
}

#[test]
fn damage_that_is_not_looked_for_and_delays_are_no_errors() {
    let server = serve("");
    for verify in ["connection", "none"] {
        let outcome =
            harmed(&server, Way::Up, Harm::Flip { offset: 5000, mask: 1 }, &format!("--verify {verify}"));
        let outcome = outcome.moved(1, TRANSFER, 0);
        assert!(outcome.caveats("verification-off").contains("damaged data would not have been noticed"));
    }
    // Delays change nothing but the time.
    let outcome = harmed(&server, Way::Up, Harm::Delay { ms: 3 }, "-i 100ms").moved(1, TRANSFER, 0);
    assert!(number(&outcome.local()["traffic"]["ns"]) > 50_000_000, "the relay took its time");
    let outcome = harmed(&server, Way::Down, Harm::Delay { ms: 3 }, "-i 100ms").moved(1, 0, TRANSFER);
    // Each interval adds up to the whole.
    let intervals = outcome.point()["intervals"].as_array().unwrap();
    assert_eq!(intervals.iter().map(|i| number(&i["local"]["rx_bytes"])).sum::<u64>(), TRANSFER);
}

#[test]
fn random_payload_finds_blocks_that_changed_places() {
    let server = serve("");
    let harm = Harm::Swap { offset: 3 * BLOCK, size: BLOCK };
    for way in [Way::Up, Way::Down] {
        let (outcome, relay) = harmed_by(&server, way, harm, "--payload random");
        let first = relay.first_swapped();
        assert!((3 * BLOCK..3 * BLOCK + 16).contains(&first), "blocks that differ: {first}");
        one_error(outcome, "data_errors").tells(&wrong_at(first).0);
        // A swap by one period of the fixed pattern is invisible in it, which is why there is the
        // other.
        let outcome = harmed(&server, way, harm, "--payload pattern");
        outcome.moved(
            1,
            if way == Way::Up { TRANSFER } else { 0 },
            if way == Way::Up { 0 } else { TRANSFER },
        );
    }
    // A swap by anything else is not.
    let outcome = harmed(&server, Way::Up, Harm::Swap { offset: BLOCK, size: 1000 }, "");
    one_error(outcome, "data_errors").tells(&wrong_at(BLOCK).0);
    server.still_serves();
}

#[test]
fn lost_and_added_bytes_are_found_with_and_without_comparing() {
    let server = serve("");
    for way in [Way::Up, Way::Down] {
        // What follows is shifted.
        let outcome = harmed(&server, way, Harm::Lose { offset: 70_000, count: 3 }, "");
        one_error(outcome, "data_errors").tells(&wrong_at(70_000).0);
        // With equal bytes, or without comparison, the framing shows the error.
        for args in ["--payload zeros", "--verify connection", "--verify none"] {
            let outcome = harmed(&server, way, Harm::Lose { offset: 70_000, count: 3 }, args);
            let outcome = outcome.exits(1);
            assert_eq!(outcome.errors().0, 1, "{args}: {}", outcome.tell());
            assert_eq!(outcome.local()["completed"], 0, "{args}: {}", outcome.tell());
        }
        let outcome = harmed(&server, way, Harm::Insert { offset: 123_456, count: 1 }, "");
        one_error(outcome, "data_errors").tells(&wrong_at(123_456).0);
        let outcome =
            harmed(&server, way, Harm::Insert { offset: 123_456, count: 65_536 }, "--verify none").exits(1);
        assert_eq!(outcome.errors().0, 1, "{}", outcome.tell());
    }
    for count in [1, 16, 100_000] {
        // The client closes once all is confirmed: only the server can see what comes then, and it
        // says so.
        let outcome = harmed(&server, Way::Up, Harm::Append { count }, "");
        let errors = outcome.remote_sum("/data_errors");
        assert_eq!(errors, 1, "{count} bytes too many: {}", outcome.tell());
        outcome.tells("too many bytes");
        outcome.exits(1);
    }
    server.still_serves();
}

#[test]
fn a_stream_that_is_cut_short_is_an_error_with_its_length() {
    let server = serve("");
    for offset in [1, 500_000, TRANSFER - 1] {
        let outcome = harmed(&server, Way::Down, Harm::Close { offset }, "").exits(1);
        assert_eq!(outcome.errors().0, 1, "{}", outcome.tell());
        assert_eq!(outcome.connections()[0]["rx_bytes"], offset, "{}", outcome.tell());
        outcome.tells(&format!("too few bytes: {offset} of {TRANSFER} arrived"));
        // A server that got no core before the run was over has not met the connection, or counts
        // what it reads then in no interval.
        let counted = (0..10).any(|_| {
            let outcome = harmed(&server, Way::Up, Harm::Close { offset }, "").exits(1);
            assert_eq!(outcome.errors().0, 1, "{}", outcome.tell());
            let met = outcome.remote_sum("/opened") > 0;
            if met {
                outcome.tells(&format!("too few bytes: {offset} of {TRANSFER} arrived"));
            }
            met && outcome.remote_sum("/traffic/rx_bytes") == offset
        });
        assert!(counted, "the server never counted the {offset} bytes that arrived");
    }
    server.still_serves();
}

#[test]
fn resets_and_stalls_are_network_errors_in_the_systems_words() {
    let server = serve("");
    for way in [Way::Up, Way::Down] {
        for offset in [1, 400_000] {
            let outcome = one_error(harmed(&server, way, Harm::Reset { offset }, ""), "network_errors");
            let complaints = outcome.complaints();
            let told = complaints.contains("reset by peer") || complaints.contains("Broken pipe");
            assert!(told, "in the system's words: {complaints}");
            assert_eq!(outcome.remote_sum("/network_errors"), 1, "the server, too: {}", outcome.tell());
            assert_eq!(outcome.local()["completed"], 0);
        }
        let outcome = harmed(&server, way, Harm::Stall { offset: 200_000 }, "--stall-timeout 1s");
        let outcome = outcome.exits(1).status("complete");
        assert_eq!(outcome.local()["network_errors"], 1, "{}", outcome.tell());
        outcome.tells("timed out: nothing moved");
        assert!(
            outcome.connections()[0]["duration_ns"].as_u64().unwrap() >= 1_000_000_000,
            "not before its time"
        );
    }
    server.still_serves();
}
