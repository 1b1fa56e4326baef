//! Connections spread over worker processes: one result, and what a process that dies takes along.

use crate::support::files::Scratch;
use crate::support::{BIN, Line, Outcome, Server, connect, eventually, netcaliper, number, serve, tcp};
use std::process::Command;
use std::time::{Duration, Instant};

/// The totals of both ends.
fn totals(outcome: &Outcome) -> [&serde_json::Value; 2] {
    let point = outcome.point();
    [&point["local"], &point["remote"][0]]
}

/// All of so many connections were open at once, moved 64 bytes each, and ended well.
fn all_held(outcome: &Outcome, connections: u64) {
    for totals in totals(outcome) {
        let counts = ["opened", "completed", "peak"].map(|name| number(&totals[name]));
        assert_eq!(counts, [connections; 3], "{totals}");
        for name in ["network_errors", "data_errors", "protocol_errors", "stopped"] {
            assert_eq!(number(&totals[name]), 0, "{name}: {totals}");
        }
    }
    assert_eq!(number(&totals(outcome)[1]["traffic"]["rx_bytes"]), 64 * connections);
}

/// The worker processes of a program.
fn workers_of(parent: u32) -> Vec<u32> {
    let out = Command::new("ps").args(["-o", "pid=", "--ppid", &parent.to_string()]).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    text.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

fn kill(process: u32) {
    assert!(Command::new("kill").args(["-9", &process.to_string()]).status().unwrap().success());
}

#[test]
fn connections_of_many_processes_are_one_result() {
    let scratch = Scratch::new();
    let key = scratch.key("key", "correct horse battery\n");
    for keyed in [false, true] {
        let with = |line: Line| if keyed { line.arg("--psk-file").arg(&key) } else { line };
        for (words, clients) in [("", &["--processes 3"][..]), ("--processes 2", &["", "--processes 3"])] {
            let server = Server::start(with(netcaliper("serve").args("--port 0")).args(words));
            for client in clients {
                let line = connect(server.at()).args("-P 31 --hold 1s").args(client);
                all_held(&with(line).outcome(), 31);
            }
            server.end();
        }
    }
}

#[test]
fn data_of_many_processes_is_one_result() {
    let server = serve("--processes 2");
    for pattern in ["push", "pull", "duplex"] {
        let line = tcp(server.at()).args("-P 5 --iterations 3 --transfer 300000 --processes 2 --pattern");
        let outcome = line.arg(pattern).outcome();
        let [local, remote] = totals(&outcome);
        for (sent, received) in [("tx_bytes", "rx_bytes"), ("rx_bytes", "tx_bytes")] {
            assert_eq!(local["traffic"][sent], remote["traffic"][received], "{pattern}");
        }
        let moved = number(&local["traffic"]["tx_bytes"]) + number(&local["traffic"]["rx_bytes"]);
        assert_eq!(moved, 15 * 300_000, "{pattern}: {local}");
        assert_eq!([number(&local["completed"]), number(&remote["completed"])], [15, 15], "{pattern}");
        // Each connection is told, whichever process had it.
        assert_eq!(outcome.connections().len(), 15, "{pattern}");
    }
    // Questions that are not spread are answered by the server's own workers.
    netcaliper("ping").arg(server.at()).args("-n 5").run().exits(0);
    netcaliper("stop").arg(server.at()).run().exits(0);
    server.proc.wait().exits(0);
}

#[test]
fn more_connections_than_descriptors_start_worker_processes() {
    let server = serve("--max-connections 600");
    let line = format!("ulimit -n 300; exec {BIN} connect {} -P 600 --hold 1s --json", server.at());
    let mut command = Command::new("sh");
    command.args(["-c", &line]).env("NETCALIPER_STORE", "off").env("NETCALIPER_CONFIG", "off");
    let done = Line(command).run().exits(0).prints(&["4 worker processes share them"]);
    let local = &done.json()["points"][0]["local"];
    assert_eq!((number(&local["opened"]), number(&local["peak"])), (600, 600), "{local}");
    let none = netcaliper("connect").args("127.0.0.1 --protocol ctstraffic --processes 2").run();
    none.exits(2).says_one_sentence().complains(&["--processes", "native"]);
}

#[test]
fn a_worker_process_that_dies_is_told_and_takes_its_connections_along() {
    let server = serve("--processes 2");
    for of_client in [true, false] {
        let client = connect(server.at()).args("-P 40 --hold 4s --jsonl --processes 2").spawn();
        client.hears("\"in_flight\":40");
        kill(workers_of(if of_client { client.id() } else { server.proc.id() })[0]);
        let done = client.wait();
        assert_ne!(done.code, Some(0), "{}", done.tell());
        let told = done.err.contains("worker process 1 has ended");
        assert_eq!(told, of_client, "{}", done.tell());
        let local = done.out.lines().find(|line| line.contains("\"event\":\"local\"")).unwrap();
        let local: serde_json::Value = serde_json::from_str(local).unwrap();
        let count = |name: &str| number(&local[name]);
        assert_eq!((count("completed"), count("network_errors")), (20, 20), "{local}");
    }
    server.proc.hears("worker process 1 has ended");
    // The other goes on, and has all connections from now on.
    all_held(&connect(server.at()).args("-P 10 --hold 1s").outcome(), 10);
    server.proc.signal("INT");
    server.proc.wait().exits(1);
}

/// A worker process that is stopped: found within 5 s, killed, its connections failed; the next
/// client is served.
#[test]
fn a_worker_process_that_is_stopped_is_killed_and_takes_its_connections_along() {
    let each = |of_client: bool| {
        let server = serve("--processes 2");
        let client = connect(server.at()).args("-P 40 --hold 60s --jsonl --processes 2").spawn();
        client.hears("\"in_flight\":40");
        let stopped = workers_of(if of_client { client.id() } else { server.proc.id() })[0];
        assert!(Command::new("kill").args(["-STOP", &stopped.to_string()]).status().unwrap().success());
        let from = Instant::now();
        let told = "worker process 1 says nothing: it is killed";
        if of_client {
            client.hears(told)
        } else {
            server.proc.hears(told)
        };
        // 4 s, and as much again for a busy machine.
        assert!(from.elapsed() < Duration::from_secs(8), "{:?}", from.elapsed());
        client.signal("INT");
        client.wait().exits(130);
        all_held(&connect(server.at()).args("-P 10 --hold 200ms").outcome(), 10);
        server.proc.signal("INT");
        // A server that has lost a process has lost connections.
        server.proc.wait().exits(if of_client { 0 } else { 1 });
    };
    std::thread::scope(|scope| {
        for of_client in [true, false] {
            scope.spawn(move || each(of_client));
        }
    });
}

/// The first Ctrl-C ends a client and a server one of whose worker processes is stopped.
#[test]
fn the_first_signal_ends_both_ends_of_stopped_worker_processes() {
    let each = |of_client: bool| {
        let server = serve("--processes 2");
        let client = tcp(server.at()).args("-P 8 -t 60s -b 8M --jsonl --processes 2").spawn();
        client.hears("\"event\":\"interval\"");
        let stopped = workers_of(if of_client { client.id() } else { server.proc.id() })[0];
        assert!(Command::new("kill").args(["-STOP", &stopped.to_string()]).status().unwrap().success());
        let (first, second) = if of_client { (client, server.proc) } else { (server.proc, client) };
        first.signal("INT");
        first.wait();
        second.signal("INT");
        second.wait();
    };
    std::thread::scope(|scope| {
        for of_client in [true, false] {
            scope.spawn(move || each(of_client));
        }
    });
}

#[test]
fn worker_processes_end_with_the_process_that_has_started_them() {
    let server = serve("--processes 2");
    let client = connect(server.at()).args("-P 4 --hold 60s --processes 2 --jsonl").spawn();
    client.hears("\"in_flight\":4");
    let workers = [workers_of(client.id()), workers_of(server.proc.id())].concat();
    assert_eq!(workers.len(), 4);
    client.signal("KILL");
    server.proc.signal("KILL");
    let gone = |process: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        stat.is_empty() || stat.rsplit(')').next().unwrap().trim_start().starts_with('Z')
    };
    eventually("all worker processes have ended", || workers.iter().all(gone));
}
