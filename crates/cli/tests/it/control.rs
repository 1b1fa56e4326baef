//! A relay between the ends damages the control connection, or the first bytes of a data
//! connection: neither end hangs or crashes, and a damaged result is not called complete.

use crate::support::relay::{Harm, Relay, Victim, Way};
use crate::support::{Done, Outcome, Server, at_once, number, serve, tcp};
use std::time::Duration;

/// Within this time a broken conversation must have been noticed and told: less than the minute
/// that a run would take.
const NOTICED: Duration = Duration::from_secs(50);

/// A run whose control connection suffers `harm`.
#[track_caller]
fn harmed(server: &Server, way: Way, harm: Harm, args: &str) -> Done {
    let relay = Relay::to(server.port, Victim::Control, way, harm);
    let done = tcp(relay.at()).args(args).arg("--json").spawn().wait_within(NOTICED);
    assert!(!done.err.contains("panicked"), "{}", done.tell());
    done
}

const SMALL: &str = "-P 2 --iterations 1 --transfer 100001";

#[test]
fn a_flipped_bit_anywhere_in_the_conversation_is_survived() {
    let server = serve("");
    // Lengths, braces, names, numbers.
    let offsets = [0, 2, 3, 4, 5, 20, 60, 111, 160, 200, 250, 333, 400, 555, 700, 901, 1200, 1700];
    let cases: Vec<(Way, u64)> =
        [Way::Up, Way::Down].into_iter().flat_map(|way| offsets.map(|offset| (way, offset))).collect();
    at_once(&cases, |(way, offset)| {
        let done = harmed(&server, way, Harm::Flip { offset, mask: 0x10 }, SMALL);
        assert!(matches!(done.code, Some(0 | 1 | 4)), "{way:?} {offset}: {}", done.tell());
        if done.code == Some(0) {
            // The bit was in words that decide nothing: then all is as it should be.
            let outcome = Outcome::of(done);
            assert_eq!(outcome.local()["completed"], 2, "{way:?} {offset}: {}", outcome.tell());
        }
    });
    server.still_serves();
}

#[test]
fn a_lost_control_connection_leaves_a_partial_result() {
    let harms = [Harm::Reset { offset: 6000 }, Harm::Close { offset: 6000 }, Harm::Stall { offset: 6000 }];
    at_once(&harms, |harm| {
        let server = serve("");
        // The server's reports on intervals make some thousand bytes soon.
        let relay = Relay::to(server.port, Victim::Control, Way::Down, harm);
        // A silent conversation does not end a run whose data moves, only its wait for the results.
        let line = tcp(relay.at()).args("-P 2 -t 15s -i 100ms -b 200k --json");
        let outcome = Outcome::of(line.spawn().wait_within(NOTICED));
        relay.did(1);
        if let Harm::Stall { .. } = harm {
            // The client goes on over another control connection, and gets the results there.
            let outcome = outcome.exits(0).status("complete");
            assert!(!outcome.remote().is_empty(), "{}", outcome.tell());
            return;
        }
        let outcome = outcome.exits(4).status("partial");
        assert!(number(&outcome.local()["traffic"]["tx_bytes"]) > 0, "{harm:?}: {}", outcome.tell());
        assert!(!outcome.json["reason"].as_str().unwrap_or_default().is_empty(), "{harm:?}");
        assert!(outcome.point()["intervals"].as_array().unwrap().len() > 3, "{harm:?}");
        // The server grants an exclusive session.
        let line = tcp(server.at()).args(SMALL).arg("--exclusive").arg("--json");
        Outcome::of(line.spawn().wait_within(NOTICED)).moved(2, 200_002, 0);
    });
}

#[test]
fn a_conversation_that_breaks_before_the_run_fails_and_a_slow_one_is_only_slow() {
    let server = serve("");
    // A full server resets connections without a hello, so the client retries such a reset once.
    let done = harmed(&server, Way::Up, Harm::Reset { offset: 30 }, SMALL);
    Outcome::of(done).moved(2, 200_002, 0);
    // A slow conversation is only slow.
    let done = harmed(&server, Way::Up, Harm::Delay { ms: 30 }, SMALL);
    let outcome = Outcome::of(done).moved(2, 200_002, 0);
    let rtt = number(&outcome.point()["sessions"][0]["base_rtt_ns"]);
    assert!(rtt >= 60_000_000, "both ways are delayed by 30 ms: {rtt}");
    for way in [Way::Up, Way::Down] {
        at_once(&[Harm::Close { offset: 30 }, Harm::Stall { offset: 30 }], |harm| {
            let outcome = Outcome::of(harmed(&server, way, harm, SMALL)).exits(1).status("failed");
            assert!(!outcome.json["reason"].as_str().unwrap_or_default().is_empty(), "{way:?} {harm:?}");
        });
    }
    server.still_serves();
}

#[test]
fn a_damaged_first_word_of_a_data_connection_is_refused() {
    let server = serve("");
    // The magic, the version, the purpose, the session, the number, the identifier, the transfer,
    // the seal, the check.
    for at in [0, 7, 9, 10, 20, 30, 40, 55, 60, 79] {
        let relay = Relay::new(server.port, 0, Way::Up, Harm::FlipPreamble { at, mask: 4 });
        let line = tcp(relay.at()).args("-P 1 --iterations 3 --transfer 100001 --json");
        let outcome = Outcome::of(line.spawn().wait_within(NOTICED)).exits(1).status("complete");
        relay.did(1);
        assert_eq!(outcome.local()["completed"], 2, "byte {at}: {}", outcome.tell());
        assert_eq!(outcome.errors().0, 1, "byte {at}: {}", outcome.tell());
        assert_eq!(outcome.remote_sum("/completed"), 2, "byte {at}: {}", outcome.tell());
    }
    // The same on the control connection: there is no conversation.
    for at in [0, 10, 40] {
        let done = harmed(&server, Way::Up, Harm::FlipPreamble { at, mask: 4 }, SMALL);
        Outcome::of(done).exits(1).status("failed");
    }
    server.still_serves();
}
