//! Limits and access lists of a server; and many clients at once.

use crate::support::files::Scratch;
use crate::support::net::free_port;
use crate::support::{Line, Outcome, Server, netcaliper, number, serve, serve_at, sized, tcp, text};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;

const SMALL: &str = "-P 2 --iterations 1 --transfer 100001";

// ---- keys
// -----------------------------------------------------------------------------------------------------------

/// A small run at this server.
fn small(server: &Server) -> Line {
    tcp(server.at()).args(SMALL)
}

/// Waits until a session is taken in again.
#[track_caller]
fn accepts_again(server: &Server) {
    crate::support::eventually("the place is free again", || small(server).run().code == Some(0));
}

/// Both ends, which take the same options about keys.
fn both_ends() -> [Line; 2] {
    [netcaliper("tcp").arg("127.0.0.1"), netcaliper("serve").arg("--port=0")]
}

#[test]
fn the_right_key_is_accepted_from_file_and_environment() {
    let scratch = Scratch::new();
    let key = scratch.key("key", "correct horse battery\n");
    let server = Server::start(netcaliper("serve").args("--port 0 --psk-file").arg(&key));
    let from_file = small(&server).arg("--psk-file").arg(&key).outcome().moved(2, 200_002, 0);
    assert_eq!(from_file.point()["sessions"][0]["authenticated"], true);
    // The newline that editors leave is not part of it.
    small(&server).env("NETCALIPER_PSK", "correct horse battery").outcome().moved(2, 200_002, 0);
    small(&server).env("NETCALIPER_PSK_FILE", &key).outcome().moved(2, 200_002, 0);
    // A file that everybody can read is refused, unless that is meant.
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    for line in both_ends() {
        let done = line.arg("--psk-file").arg(&key).run().exits(2);
        done.says_one_sentence().complains(&["every user", "chmod 600", "--insecure-key-file"]);
    }
    let open = Server::start(netcaliper("serve").args("--port 0 --insecure-key-file --psk-file").arg(&key));
    small(&open).env("NETCALIPER_PSK", "correct horse battery").outcome().moved(2, 200_002, 0);
    for done in [from_file.done, server.end()] {
        assert!(
            !done.out.contains("correct horse") && !done.err.contains("correct horse"),
            "the key is kept"
        );
    }
}

#[test]
fn a_wrong_or_missing_key_says_what_to_do() {
    let scratch = Scratch::new();
    let key = scratch.key("key", "correct horse battery");
    let server = Server::start(netcaliper("serve").args("--port 0 --psk-file").arg(&key));
    let told = |line: Line, words: &[&str]| {
        let done = line.run().exits(1);
        for word in words {
            assert!((done.out.clone() + &done.err).contains(word), "'{word}': {}", done.tell());
        }
    };
    told(small(&server).env("NETCALIPER_PSK", "wrong horse battery"), &["wrong pre-shared key"]);
    told(small(&server), &["needs a pre-shared key", "--psk-file", "NETCALIPER_PSK"]);
    told(netcaliper("stop").arg(server.at()), &["needs a pre-shared key", "--psk-file"]);
    server.proc.hears("has not proved to know a key");
    small(&server).arg("--psk-file").arg(&key).outcome().moved(2, 200_002, 0);

    let open = serve("");
    assert!(open.proc.out().contains("no key is required"));
    told(small(&open).arg("--psk-file").arg(&key), &["has none and cannot prove who it is"]);
    open.still_serves();

    // A server with a key is stopped by a client with that key, too.
    netcaliper("stop").arg(server.at()).arg("--psk-file").arg(&key).run().exits(0);
    server.proc.wait().exits(0);
}

#[test]
fn a_key_never_stands_on_a_command_line_and_is_checked_before_use() {
    for line in both_ends() {
        line.args("--psk secret-secret").run().exits(2).complains(&["--psk"]);
    }
    for line in both_ends() {
        let missing = line.args("--psk-file /nowhere/key").run().exits(2);
        missing.says_one_sentence().complains(&["/nowhere/key", "No such file"]);
    }
    for unusable in ["", "1234567", "short"] {
        for line in both_ends() {
            let done = line.env("NETCALIPER_PSK", unusable).run().exits(2);
            done.says_one_sentence().complains(&["NETCALIPER_PSK", "8 to 4096 bytes"]);
        }
    }
    let empty = netcaliper("serve").args("--port 0").env("NETCALIPER_PSK_FILE", "").run().exits(2);
    empty.complains(&["--psk-file"]);
    // A key is bytes, not only text.
    let key = OsStr::from_bytes(b"\xff\xfe\x80 no text \x9f");
    let server = Server::start(netcaliper("serve").args("--port 0").env("NETCALIPER_PSK", key));
    assert!(server.proc.out().contains("a key is required"), "{}", server.proc.out());
    small(&server).run().exits(1);
    small(&server).env("NETCALIPER_PSK", key).outcome().moved(2, 200_002, 0);
}

#[test]
fn with_a_key_protocols_without_one_are_answered_only_when_that_is_said() {
    let scratch = Scratch::new();
    let key = scratch.key("key", "correct horse battery");
    let keyed = |words: &str| netcaliper("serve").args("--port 0 --psk-file").arg(&key).args(words);
    for words in ["--legacy iperf3:0", "--legacy all", "--stamp=0", "--echo=0", "--stamp=0 --echo=0"] {
        keyed(words).run().exits(2).says_one_sentence().complains(&["guards the native protocol only"]);
    }
    Server::start(keyed("--echo=0 --legacy-unauthenticated")).end();
    // STAMP with a key of its own authenticates its senders.
    Server::start(keyed("--stamp=0 --stamp-psk-file").arg(&key)).end();
    serve("--echo=0").end();
}

// ---- many workers
// ---------------------------------------------------------------------------------------------------

#[test]
fn sixty_four_workers_at_each_end_lose_nothing_and_end() {
    // Twice as many on the server: a second set for round trips. A lock that is held across a wait
    // would hang here.
    let server = serve("--workers 64");
    let size = sized(50_001, 200_001);
    let all = 128 * size;
    let words = format!("-P 64 --iterations 2 --transfer {size} --workers 64 --pattern");
    let run = |way: &str| tcp(server.at()).args(&words).arg(way).outcome();
    run("push").moved(128, all, 0);
    run("pull").moved(128, 0, all);
    let pings = netcaliper("ping").arg(server.at()).args("-P 64 -n 20 --workers 64").outcome();
    assert_eq!(number(&pings.local()["pings"]["counts"]["received"]), 64 * 20);
    server.end();
}

// ---- fences
// ---------------------------------------------------------------------------------------------------------

#[test]
fn allow_and_deny_decide_by_the_clients_address() {
    let refused = |server: &Server, args: &str| {
        let done = tcp(server.at()).args(SMALL).args(args).run().exits(1);
        // Wherever the line is broken.
        let all = (done.out.clone() + &done.err).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(all.contains("may not serve this address"), "{}", done.tell());
    };
    let served = |server: &Server, args: &str| {
        small(server).args(args).outcome().moved(2, 200_002, 0);
    };
    let denied = serve("--deny 127.0.0.0/8");
    refused(&denied, "");
    let allowed = serve("--allow 127.0.0.2/32 --allow 127.0.0.3/32");
    refused(&allowed, "");
    served(&allowed, "-B 127.0.0.2");
    served(&allowed, "-B 127.0.0.3");
    let both = serve("--allow 127.0.0.0/8 --deny 127.0.0.2/32");
    served(&both, "");
    refused(&both, "-B 127.0.0.2");
    if crate::support::net::has_ipv6() {
        // One family does not speak for the other.
        tcp(denied.on("[::1]")).args(SMALL).outcome().moved(2, 200_002, 0);
        tcp(both.on("[::1]")).args(SMALL).run().exits(1);
    }
}

// ---- limits
// ---------------------------------------------------------------------------------------------------------

/// The change with this name that the server made, as asked and as given.
#[track_caller]
fn change(outcome: &Outcome, what: &str) -> (String, String) {
    let all = outcome.point()["sessions"][0]["accepted"]["changes"].as_array().unwrap();
    let found =
        all.iter().find(|c| c["what"] == what).unwrap_or_else(|| panic!("no change of {what}: {all:?}"));
    assert!(!text(&found["why"]).is_empty());
    assert!(outcome.caveats("server-reduced").contains(what));
    (text(&found["asked"]).to_owned(), text(&found["given"]).to_owned())
}

#[test]
fn more_connections_than_allowed_are_reduced() {
    let server = serve("--max-connections 3");
    let outcome = tcp(server.at()).args("-P 8 --iterations 2 --transfer 100001").outcome().good();
    assert_eq!(change(&outcome, "connections"), ("8".into(), "3".into()));
    assert!(number(&outcome.local()["peak"]) <= 3);
    assert_eq!(outcome.local()["completed"], 6);
    let text = tcp(server.at()).args("-P 8 --iterations 2 --transfer 100001").run().exits(0);
    text.prints(&["connections reduced from 8 to 3"]);
    server.still_serves();
}

#[test]
fn a_longer_run_than_allowed_is_cut() {
    let server = serve("--max-time 1s");
    let outcome = tcp(server.at()).args("-P 2 -t 30s -b 2M").outcome().good();
    assert_eq!(change(&outcome, "duration"), ("30 s".into(), "1 s".into()));
    // The bytes that were asked for did not pass.
    let outcome = tcp(server.at()).args("-P 1 -n 1G -b 2M").outcome().exits(4).status("partial");
    assert_eq!(change(&outcome, "duration"), ("no end".into(), "1 s".into()));
}

#[test]
fn a_faster_rate_than_allowed_is_reduced_to_the_share_of_each_connection() {
    let server = serve("--max-rate 4M");
    for (flags, way) in [("", "up"), ("-R", "down")] {
        // Never more than is allowed; a busy machine may send less, and is tried again.
        let reached = (0..5).any(|_| {
            let outcome = tcp(server.at()).args(&format!("-P 4 -t 2s -i 500ms {flags}")).outcome().good();
            let changed = change(&outcome, "rate per connection");
            assert_eq!(changed, ("unlimited".into(), "1000000 bit/s".into()));
            let goodput = outcome.point()[way]["goodput_bps"].as_f64().unwrap();
            assert!(goodput < 4.2e6, "{way}: {}", outcome.tell());
            goodput > 3.8e6
        });
        assert!(reached, "{way}");
    }
    let within = tcp(server.at()).args("-P 2 -n 100K -b 1M").outcome().good();
    assert!(within.caveat("server-reduced").is_none());
}

#[test]
fn too_many_sessions_are_refused_with_the_reason() {
    for (limits, words) in [
        ("--max-sessions 1", "1 sessions are the limit"),
        ("--max-per-address 1", "1 sessions from 127.0.0.1 are"),
    ] {
        let server = serve(limits);
        let running = tcp(server.at()).args("-t 60s -P 1 -b 1M").spawn();
        server.proc.hears("session 1 with");
        let done = tcp(server.at()).args(SMALL).run().exits(1);
        assert!((done.out.clone() + &done.err).contains(words), "{limits}: {}", done.tell());
        if limits.contains("address") {
            // Another address has room of its own.
            tcp(server.at()).args(SMALL).args("-B 127.0.0.2").outcome().moved(2, 200_002, 0);
        }
        running.signal("INT");
        running.wait().exits(130);
        accepts_again(&server);
    }
}

#[test]
fn sessions_that_ended_badly_leave_their_place() {
    let server = serve("--max-sessions 2");
    for _ in 0..3 {
        let client = tcp(server.at()).args("-t 60s -P 2 -b 1M").spawn();
        client.hears("idle round trip");
        client.signal("KILL");
        client.wait();
    }
    accepts_again(&server);
}

// ---- queues
// ---------------------------------------------------------------------------------------------------------

#[test]
fn who_asks_for_the_server_alone_waits_and_is_waited_for() {
    let server = serve("");
    let first = tcp(server.at()).args("-P 2 -t 60s -b 1M --json").spawn();
    server.proc.hears("session 1 with");
    let alone = tcp(server.at()).args("-P 2 -t 1s -b 1M --exclusive").spawn();
    alone.hears("waiting for 1 other session(s): an exclusive session waits until no other runs");
    let last = tcp(server.at()).args("-P 2 --iterations 1 --transfer 100001").spawn();
    last.hears("waiting for 2 other session(s): an exclusive session is running or waiting");
    // Both others wait by now, however long they took to come.
    first.signal("INT");
    let first = Outcome::of(first.wait()).exits(130);
    assert!(first.caveat("other-sessions").is_none(), "those who wait do not disturb");
    alone.wait().exits(0);
    last.wait().exits(0);
    let told = server.ends().out;
    let order: Vec<usize> = (1..=3)
        .flat_map(|n| [format!("session {n} with"), format!("session {n} with")])
        .enumerate()
        .map(|(i, words)| {
            told.match_indices(&words).nth(i % 2).unwrap_or_else(|| panic!("{words}: {told}")).0
        })
        .collect();
    assert!(order.is_sorted(), "each ended before the next began: {told}");
}

// ---- the end by count
// -----------------------------------------------------------------------------------------------

#[test]
fn a_server_may_end_after_an_exact_number_of_connections() {
    // An ephemeral port might be another test's afterwards.
    let server = serve_at(free_port(), "--exit-after 10");
    tcp(server.at()).args("-P 2 --iterations 3 --transfer 100001").outcome().moved(6, 600_006, 0);
    // Four are left of the six that this one wants.
    let outcome = tcp(server.at()).args("-P 2 --iterations 3 --transfer 100001").outcome().exits(1);
    assert_eq!(outcome.local()["completed"], 4, "{}", outcome.tell());
    assert_eq!(outcome.local()["protocol_errors"], 2, "{}", outcome.tell());
    outcome.tells("it ends after a number of connections that is reached");
    let port = server.port;
    let done = server.proc.wait().exits(0);
    assert!(done.out.contains("the limit of connections is reached"), "{}", done.tell());
    let refused = tcp(format!("127.0.0.1:{port}")).args(SMALL).run().exits(1);
    assert!((refused.out + &refused.err).contains("Connection refused"));
    // One that reaches its number exactly ends well, too.
    let server = serve("--exit-after 6");
    tcp(server.at()).args("-P 3 --iterations 2 --transfer 100001").outcome().moved(6, 600_006, 0);
    server.proc.wait().exits(0);
}

// ---- many
// -----------------------------------------------------------------------------------------------------------

#[test]
fn many_clients_at_once_all_succeed() {
    let clients_at_once: u64 = sized(12, 200);
    let server = serve("");
    let clients: Vec<_> = (0..clients_at_once)
        .map(|_| tcp(server.at()).args("-P 1 --iterations 2 --transfer 100001 -b 2M --json").spawn())
        .collect();
    let mut most_others = 0;
    for client in clients {
        let outcome = Outcome::of(client.wait_within(2 * crate::support::PATIENCE)).moved(2, 200_002, 0);
        let others = number(&outcome.remote()[0]["others"]);
        let at_start = number(&outcome.point()["sessions"][0]["accepted"]["others"]);
        assert_eq!(outcome.caveat("other-sessions").is_some(), others > 0 || at_start > 0);
        most_others = most_others.max(others);
    }
    assert!(most_others > 0, "some knew of others");
    let done = server.end();
    assert!(done.out.contains(&format!("session {clients_at_once} with")), "{}", done.tell());
}

#[test]
fn sessions_beside_each_other_are_told() {
    let server = serve("");
    let other = tcp(server.at()).args("-P 1 -t 60s -b 1M").spawn();
    server.proc.hears("session 1 with");
    let outcome = tcp(server.at()).args("-P 1 -t 500ms -i 100ms -b 1M").outcome().good();
    assert_eq!(outcome.point()["sessions"][0]["accepted"]["others"], 1);
    assert_eq!(outcome.remote()[0]["others"], 1);
    assert!(outcome.caveats("other-sessions").contains("1 other session was on a server"));
    other.signal("INT");
    let told = other.wait().exits(130);
    assert!(told.out.contains("other-sessions"), "the first session has the caveat, too: {}", told.tell());
}

#[test]
fn short_sessions_beside_a_busy_one_lose_nothing() {
    let server = serve("");
    let busy = tcp(server.at()).args("-P 4 -t 3600s --quiet").args(sized("-b 20M", "-b 100M")).spawn();
    server.proc.hears("session 1 with");
    std::thread::scope(|scope| {
        for _ in 0..sized(6, 20) {
            scope.spawn(|| {
                for _ in 0..sized(2, 5) {
                    tcp(server.at()).args("-P 4 --iterations 1 --transfer 1001").outcome().moved(4, 4004, 0);
                }
            });
        }
    });
    busy.signal("INT");
    busy.wait().exits(130);
    server.ends().prints(&[&format!("session {} with", sized(13, 101))]);
}
