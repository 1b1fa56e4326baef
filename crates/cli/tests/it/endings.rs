//! How runs end before their time: kills, hangs and signals at either end. What was measured until
//! then is always there.

use crate::support::files::{Csv, Scratch};
use crate::support::{
    Outcome, Proc, Server, at_once, connect, eventually, net, netcaliper, number, serve, serve_at, tcp, whole,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Within this time a vanished peer must have been noticed and told: less than the minute that a
/// run would take.
const NOTICED: Duration = Duration::from_secs(50);
/// Longest time from an interrupt to the program's end: less than the ten seconds that a silent
/// peer is waited for.
const AT_ONCE: Duration = Duration::from_secs(9);

/// A client that would run for a minute, with a journal, once it has measured something.
fn endless(server: &Server, args: &str) -> (Proc, Scratch) {
    let scratch = Scratch::new();
    let line =
        tcp(server.at()).args("-t 60s -i 200ms -P 4 -b 1M --save").arg(scratch.file("run.jsonl")).args(args);
    let client = line.spawn();
    scratch.hears_intervals("run.jsonl", 3);
    (client, scratch)
}

/// Connections failed while it ran: a server's exit code says so, like a client's.
#[track_caller]
fn ends_having_lost(server: Server, connections: u32) {
    server.proc.signal("INT");
    let done = server.proc.wait().exits(1);
    assert!(done.out.contains(&format!("{connections} connections FAILED")), "{}", done.tell());
}

#[test]
fn a_killed_server_leaves_a_partial_result_and_its_port() {
    // An ephemeral port might be another test's in between.
    let server = serve_at(net::free_port(), "");
    let (client, scratch) = endless(&server, "");
    let port = server.port;
    server.proc.signal("KILL");
    let done = client.wait_within(NOTICED).exits(4).prints(&["Run partial", "client to server"]);
    assert!(done.out.contains(&format!("127.0.0.1:{port}")), "who was lost is said: {}", done.tell());

    // Restarted on the same port, at once.
    serve_at(port, "").still_serves();

    // The journal tells the same story.
    let report = netcaliper("report").arg(scratch.file("run.jsonl")).run().exits(4);
    report.prints(&["Run partial", "client to server"]);
    let outcome = netcaliper("report").arg(scratch.file("run.jsonl")).outcome().exits(4).status("partial");
    assert!(number(&outcome.local()["traffic"]["tx_bytes"]) > 0);
    assert!(outcome.point()["intervals"].as_array().unwrap().len() >= 3);
    outcome.caveats("unconfirmed");
}

#[test]
fn a_hung_server_is_noticed_and_recovers() {
    let server = serve("");
    let (client, _scratch) = endless(&server, "--json");
    server.proc.signal("STOP");
    let outcome = Outcome::of(client.wait_within(NOTICED)).exits(4).status("partial");
    assert!(number(&outcome.local()["traffic"]["tx_bytes"]) > 0, "{}", outcome.tell());
    server.proc.signal("CONT");
    server.still_serves();
    server.proc.signal("INT");
    let code = server.proc.wait().code;
    // What the client's abort looks like depends on what was on its way when the server froze.
    assert!(matches!(code, Some(0 | 1)), "{code:?}");
}

#[test]
fn a_run_goes_on_with_the_servers_that_are_left() {
    let (one, other) = (serve(""), serve(""));
    let scratch = Scratch::new();
    let line = tcp(one.at())
        .arg(other.at())
        .args("-P 4 -t 6s -i 200ms -b 200k --save")
        .arg(scratch.file("run.jsonl"));
    let client = line.arg("--json").spawn();
    scratch.hears_intervals("run.jsonl", 3);
    one.proc.signal("KILL");
    let outcome = Outcome::of(client.wait()).exits(4).status("partial");
    assert_eq!(outcome.remote().len(), 1, "{}", outcome.tell());
    assert_eq!(outcome.remote()[0]["who"], other.at().as_str());
    let last = outcome.point()["intervals"].as_array().unwrap().last().unwrap();
    assert!(number(&last["end_ns"]) > 4_000_000_000, "the rest of the run took place: {last}");
    other.still_serves();
}

#[test]
fn a_killed_client_disturbs_no_other_and_its_place_is_freed() {
    let server = serve("");
    let (victim, scratch) = endless(&server, "");
    let (mut witness, _theirs) = endless(&server, "");
    victim.signal("KILL");
    assert_eq!(victim.wait().code, None);
    std::thread::sleep(Duration::from_millis(500));
    assert!(witness.is_running(), "another session goes on");
    witness.signal("INT");
    let done = witness.wait().exits(130);
    assert!(!done.out.contains("network err  1"), "{}", done.tell());

    // What the victim had written is a run that can be read.
    assert!(!scratch.file("run.jsonl").exists(), "it is not whole");
    netcaliper("report").arg(scratch.partial("run.jsonl").unwrap()).run().exits(4).prints(&["Run partial"]);

    // An exclusive session is granted.
    let line = tcp(server.at()).args("--exclusive -P 2 --iterations 1 --transfer 100001");
    Outcome::of(line.arg("--json").spawn().wait_within(NOTICED)).moved(2, 200_002, 0);
    ends_having_lost(server, 4);
}

#[test]
fn a_hung_client_does_not_hold_the_server() {
    let server = serve("");
    let (hung, _scratch) = endless(&server, "");
    hung.signal("STOP");
    server.still_serves();
    let line = tcp(server.at()).args("--exclusive -P 2 --iterations 1 --transfer 100001");
    Outcome::of(line.arg("--json").spawn().wait_within(NOTICED)).moved(2, 200_002, 0);
    ends_having_lost(server, 4);
}

/// One signal to the client: everything that was measured, from both ends.
fn interrupted_by(signal: &str, args: &str) {
    let scratch = Scratch::new();
    let theirs = scratch.file("server.csv");
    let server = Server::start(netcaliper("serve").args("--port 0 --connection-csv").arg(&theirs));
    let (client, _scratch) = endless(&server, &format!("--json {args}"));
    client.signal(signal);
    let outcome = Outcome::of(client.wait()).exits(130).status("interrupted");
    assert_eq!(outcome.errors(), (0, 0), "{}", outcome.tell());
    assert_eq!(outcome.remote().len(), 1);
    assert_eq!(outcome.local()["stopped"], 4, "{}", outcome.tell());
    assert_eq!(outcome.remote_sum("/stopped"), 4, "{}", outcome.tell());
    for way in ["up", "down"].map(|name| &outcome.point()[name]).into_iter().filter(|way| !way.is_null()) {
        assert_eq!(way["confirmed"], true, "{way}");
        assert!(number(&way["received_bytes"]) > 0, "{way}");
    }
    server.end();
    // Both ends agree on every connection to the byte, although it was cut short.
    let theirs = Csv::read(&theirs);
    let ids = theirs.column("id");
    for ours in outcome.connections() {
        let at = ids.iter().position(|id| ours["id"] == **id).unwrap();
        let (rx, tx) = (theirs.column("rx_bytes")[at], theirs.column("tx_bytes")[at]);
        assert_eq!((ours["tx_bytes"].to_string(), ours["rx_bytes"].to_string()), (rx.into(), tx.into()));
        assert_eq!((&ours["result"], theirs.column("result")[at]), (&"stopped".into(), "stopped"));
    }
}

#[test]
fn signals_end_a_client_with_full_results() {
    let cases = [
        ("INT", ""),
        ("TERM", "--bidir"),
        ("INT", "-R"),
        ("INT", "--pattern pushpull --push-bytes 20K --pull-bytes 20K"),
    ];
    at_once(&cases, |(signal, args)| interrupted_by(signal, args));
}

#[test]
fn files_are_whole_or_as_they_were() {
    let (server, scratch) = (serve(""), Scratch::new());
    let old = scratch.with("run.html", "old");
    let start = || {
        let (csv, metrics) = (scratch.file("connections.csv"), scratch.file("run.prom"));
        let line =
            tcp(server.at()).args("-t 60s -i 200ms -P 2 -b 500k --save").arg(scratch.file("run.jsonl"));
        let line = line.arg("--html").arg(&old).arg("--connection-csv").arg(csv);
        let client = line.arg("--metrics-file").arg(metrics).spawn();
        scratch.hears_intervals("run.jsonl", 3);
        client
    };
    // Meanwhile nothing stands under its name but what was there before.
    let mut client = start();
    let names = |scratch: &Scratch| {
        let names = std::fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(std::fs::read_to_string(&old).unwrap(), "old");
    assert!(names(&scratch).iter().all(|name| name == "run.html" || name.ends_with(".partial")));
    // The second Ctrl-C ends the program at once. The server hangs, so that the client waits for it
    // after the first one. Only the journal's beginning stays under a partial name.
    server.proc.signal("STOP");
    while client.is_running() {
        client.signal("INT");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(client.wait().code, Some(130));
    server.proc.signal("CONT");
    let left = names(&scratch);
    let journal = scratch.partial("run.jsonl");
    let partial = left.iter().filter(|name| name.ends_with(".partial")).count();
    assert_eq!(partial, usize::from(journal.is_some()), "{left:?}");
    let page = std::fs::read_to_string(&old).unwrap();
    assert!(page == "old" || page.trim_end().ends_with("</html>"), "{page}");
    for name in left.iter().filter(|name| *name != "run.html") {
        std::fs::remove_file(scratch.file(name)).unwrap();
    }
    // After Ctrl-C all of them are whole.
    let client = start();
    client.signal("INT");
    client.wait().exits(130);
    assert_eq!(names(&scratch), ["connections.csv", "run.html", "run.jsonl", "run.prom"]);
    assert!(std::fs::read_to_string(&old).unwrap().trim_end().ends_with("</html>"));
    netcaliper("report").arg(scratch.file("run.jsonl")).run().exits(130);
}

/// Whether SIGINT is in a set of a program's signals: `SigCgt`, the handled ones, or `ShdPnd`, the
/// pending ones.
pub(crate) fn has_sigint(program: &Proc, set: &str) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{}/status", program.id())).unwrap_or_default();
    let mask = text.lines().find_map(|line| line.strip_prefix(set)?.strip_prefix(':'));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 2 != 0)
}

/// Waits until all of them have taken SIGINT over, and then for what they go on to wait for.
#[track_caller]
fn settle<'a>(programs: impl Iterator<Item = &'a mut Proc>) {
    for program in programs {
        eventually("SIGINT is taken over", || has_sigint(program, "SigCgt") || !program.is_running());
    }
    std::thread::sleep(Duration::from_millis(100));
}

/// Sends SIGINT twice, as a person does: two within half a second would be one request.
#[track_caller]
fn sigint_twice(program: &Proc) {
    let id = program.id();
    let both = format!("kill -INT {id} && sleep 0.55 && kill -INT {id}");
    let status = std::process::Command::new("sh").arg("-c").arg(both).status().unwrap();
    assert!(status.success(), "it has ended before the second signal");
}

/// Sends SIGINT, at which it must end at once.
#[track_caller]
fn ends_at_ctrl_c(program: Proc) -> crate::support::Done {
    program.signal("INT");
    let done = program.wait_within(AT_ONCE);
    assert!(!done.err.contains("panicked") && done.code != Some(101), "{}", done.tell());

    done
}

#[test]
fn ctrl_c_ends_whatever_is_waited_for_from_a_silent_address() {
    let test = "endings::ctrl_c_ends_whatever_is_waited_for_from_a_silent_address";
    let Some(space) = net::Namespace::for_test(test) else { return };
    let Some(silent) = space.silence() else {
        return crate::support::skip(test, "no path that swallows packets can be made here");
    };
    let questions = [
        "tcp AT",
        "connect AT",
        "ping AT",
        "ping -u AT",
        "delay AT",
        "stream AT",
        "train AT",
        "load AT",
        "stop AT",
        "tcp AT --protocol iperf3",
        "tcp AT --protocol ctstraffic",
        "tcp AT --protocol ntttcp",
        "tcp AT --protocol ttcp",
        "tcp AT --protocol tcpmon",
        "train AT --protocol udpmon",
        "delay AT --protocol bwdelaytester",
        "ping AT --protocol stamp",
        "ping AT --protocol echo",
        "tcp AT --repeat 10",
    ];
    let originals = [
        ("iperf3 -c AT", 0),
        ("ntttcp -s AT", 0),
        ("ctstraffic -target:AT", 0),
        ("ttcp -t -s AT", 130),
        ("udpmon_bw_mon -d AT -l 100", 130),
        ("udpmon_req -d AT -l 100", 130),
        ("tcpmon_mon -d AT", 130),
        ("bwdelaytester -c AT -p 160 -b 1", 1),
        ("monitor --every 60s -- tcp AT", 0),
    ];
    let cases = questions.map(|words| (words, 130)).into_iter().chain(originals);
    // A few at a time, as many as a machine has cores at least.
    let cases: Vec<_> = cases.collect();
    for some in cases.chunks(4) {
        let start = |(words, code): &(&str, i32)| {
            let words = words.replace("AT", silent);
            let (verb, rest) = words.split_once(' ').unwrap();
            (space.within(netcaliper(verb).args(rest)).spawn(), *code)
        };
        let mut running: Vec<_> = some.iter().map(start).collect();
        settle(running.iter_mut().map(|(program, _)| program));
        std::thread::scope(|scope| {
            for (program, code) in running {
                scope.spawn(move || ends_at_ctrl_c(program).exits(code));
            }
        });
    }
    // The lookup of a name: what was asked for says so.
    let lookups = [
        ("tcp far.example -J", 130, r#""status":"interrupted""#),
        ("ping far.example --jsonl", 130, r#""status":"interrupted""#),
        ("load far.example -J", 130, "'far.example' was looked up"),
        ("ntttcp -s far.example", 130, ""),
        ("monitor --every 60s -- tcp far.example", 0, " interrupted"),
        ("iperf3 -c far.example -J", 0, "interrupt - the client has terminated"),
        ("iperf3 -c far.example --json-stream", 0, "interrupt - the client has terminated"),
    ];
    for (words, code, said) in lookups {
        let (verb, rest) = words.split_once(' ').unwrap();
        let mut program = space.within(netcaliper(verb).args(rest)).spawn();
        settle(std::iter::once(&mut program));
        let done = ends_at_ctrl_c(program).exits(code);
        let out: String = done.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(out.replace("\": ", "\":").contains(said), "{}", done.tell());
    }
}

#[test]
fn ctrl_c_ends_whatever_is_waited_for_from_a_peer_that_hangs() {
    // A client in mid-run, and one that waits for results.
    let questions = [
        "tcp -P 2 -b 500k",
        "tcp -R -P 2 -b 500k",
        "tcp --bidir -P 2 -b 500k",
        "connect --rate 50",
        "ping --rate 50",
        "ping -u --rate 50",
        "delay --pps 100",
        "delay -R --pps 100",
        "stream -b 1M",
        "load --ramp 20s",
    ];
    for (time, after) in [("60s", 300), ("5s", 5_300)] {
        // They mostly wait: so many at a time.
        for some in questions.chunks(5) {
            let (server, scratch) = (serve("--max-rate 2M"), Scratch::new());
            let journal = |at: usize| format!("{at}.jsonl");
            let start = |(at, words): (usize, &&str)| {
                let (verb, rest) = words.split_once(' ').unwrap();
                let line = netcaliper(verb).arg(server.at()).args(&format!("-t {time}")).args(rest);
                line.arg("--save").arg(scratch.file(&journal(at))).spawn()
            };
            let clients: Vec<Proc> = some.iter().enumerate().map(start).collect();
            for (at, words) in some.iter().enumerate() {
                // The parts of a stage are written when it ends.
                let begun = || match words.starts_with("load") {
                    true => whole(&server.proc.out()).matches("session ").count() >= some.len(),
                    false => scratch.so_far(&journal(at)).contains("\"event\":\"start\""),
                };
                eventually(words, begun);
            }
            server.proc.signal("STOP");
            std::thread::sleep(Duration::from_millis(after));
            std::thread::scope(|scope| {
                for client in clients {
                    scope.spawn(|| ends_at_ctrl_c(client).exits(130).prints(&["Run interrupted"]));
                }
            });
        }
    }
    // A server whose client hangs.
    let server = serve("");
    let (client, _scratch) = endless(&server, "");
    client.signal("STOP");
    let done = ends_at_ctrl_c(server.proc);
    assert!(matches!(done.code, Some(0 | 1)), "{}", done.tell());
    // Between two measurements, and while the page is kept.
    let server = serve("");
    let monitor =
        netcaliper("monitor").args(&format!("--every 1h -- tcp {} -t 1s -b 1M", server.at())).spawn();
    monitor.hears(": ok");
    ends_at_ctrl_c(monitor).exits(0);
    if cfg!(feature = "http") {
        let line = tcp(server.at()).args("-t 1s -b 1M --web 0 --web-linger 1h").spawn();
        line.hears("Run complete");
        ends_at_ctrl_c(line);
    }
}

/// Stand-ins for other programs' servers and clients, and the exit codes of an interrupted client
/// and, in one row of each program, of an interrupted server: the original's, and 130 where the
/// original does not handle SIGINT. FIRST is a port with 16 free ports above it.
const STAND_INS: &[(&str, &str, i32, Option<i32>)] = &[
    ("iperf3 -s -p FIRST", "iperf3 -c 127.0.0.1 -p FIRST -t 60 -b 1M", 0, Some(0)),
    ("iperf3 -s -p FIRST", "iperf3 -c 127.0.0.1 -p FIRST -t 60 -R -P 2 -b 1M", 0, None),
    ("iperf3 -s -p FIRST", "iperf3 -c 127.0.0.1 -p FIRST -t 60 -u", 0, None),
    (
        "ctstraffic -listen:127.0.0.1 -port:FIRST",
        "ctstraffic -target:127.0.0.1 -port:FIRST -connections:2 -ratelimit:100000",
        0,
        Some(0),
    ),
    (
        "ctstraffic -listen:127.0.0.1 -port:FIRST -pattern:pull -ratelimit:100000",
        "ctstraffic -target:127.0.0.1 -port:FIRST -connections:2 -pattern:pull",
        0,
        None,
    ),
    (
        "ctstraffic -listen:127.0.0.1 -port:FIRST -protocol:udp -bitspersecond:1000000 -framerate:50 -streamlength:60",
        "ctstraffic -target:127.0.0.1 -port:FIRST -protocol:udp -bitspersecond:1000000 -framerate:50 -streamlength:60",
        0,
        Some(0),
    ),
    ("ttcp rx port FIRST", "ttcp tx 127.0.0.1 port FIRST time 60 rlimit 10000", 130, Some(130)),
    ("ttcp -r -s -p FIRST", "ttcp -t -s -c 10000 -p FIRST -n 100000000 127.0.0.1", 130, None),
    ("ttcp -r -s -u -p FIRST", "ttcp -t -s -u -c 10000 -p FIRST -n 100000000 127.0.0.1", 130, Some(130)),
    (
        "ntttcp -r127.0.0.1 -p FIRST -P 2 -t 60",
        "ntttcp -s127.0.0.1 -p FIRST -P 2 -n 1 -t 60 -B 2M",
        0,
        Some(0),
    ),
    (
        "ntttcp -r127.0.0.1 -p FIRST -P 1 -t 60 -u",
        "ntttcp -s127.0.0.1 -p FIRST -P 1 -n 1 -t 60 -u -B 1M",
        0,
        None,
    ),
    ("ntttcp -r127.0.0.1 -p FIRST -P 1 -N", "ntttcp -s127.0.0.1 -p FIRST -P 1 -n 1 -t 60 -N -B 1M", 0, None),
    (
        "ntttcp -r -m 1,*,127.0.0.1 -p FIRST -t 60",
        "ntttcp -s -m 1,*,127.0.0.1 -p FIRST -t 60 -thr 100",
        0,
        None,
    ),
    ("rttcpip server i=127.0.0.1 p=FIRST", "rttcpip i=127.0.0.1 p=FIRST m=100000000", 130, Some(0)),
    ("tcpmon_resp -u FIRST", "tcpmon_mon -d 127.0.0.1 -u FIRST -p 1000 -w 10000 -l 100000000", 130, Some(0)),
    (
        "udpmon_resp -u FIRST",
        "udpmon_bw_mon -d 127.0.0.1 -u FIRST -p 100 -w 10000 -l 100000000",
        130,
        Some(0),
    ),
    // The packets have left, and the responder's counts are asked for.
    ("udpmon_resp -u FIRST", "udpmon_bw_mon -d 127.0.0.1 -u FIRST -p 100 -w 100 -l 6000", 130, None),
    ("udpmon_resp -u FIRST", "udpmon_req -d 127.0.0.1 -u FIRST -p 64 -w 10000 -l 100000000", 130, None),
    ("bwdelaytester -s --port FIRST", "bwdelaytester -c 127.0.0.1 -p 160 -b 1 --port FIRST", 1, Some(1)),
];

fn started((server, client, ..): &(&str, &str, i32, Option<i32>)) -> [Proc; 2] {
    let port = net::free_row(17, 17);
    let line = |words: &str| {
        let words = words.replace("FIRST", &port.to_string());
        let (verb, rest) = words.split_once(' ').unwrap();
        netcaliper(verb).args(rest)
    };
    // What it says once it listens: a look at the kernel's tables of sockets takes 30 ms of CPU
    // time.
    let word = match server.split(' ').next() {
        Some("iperf3") => "Server listening on ",
        Some("ntttcp") => " threads created",
        Some("ctstraffic") => "Accepting connections on addresses",
        Some("rttcpip") => "echo on ",
        Some("bwdelaytester") => "listening on ",
        _ => "",
    };
    let server = line(server).spawn();
    server.hears(word);
    [server, line(client).spawn()]
}

#[test]
fn ctrl_c_ends_every_stand_in_whose_peer_hangs() {
    let clients = STAND_INS.iter().map(|row| (row, Some(row.2), true));
    let servers = STAND_INS.iter().map(|row| (row, row.3, false));
    let cases: Vec<_> =
        clients.chain(servers).filter_map(|(row, code, client)| Some((row, code?, client))).collect();
    // A few at a time, as many as a machine has cores at least.
    for some in cases.chunks(4) {
        let mut running: Vec<_> = some.iter().map(|case| (started(case.0), case)).collect();
        settle(running.iter_mut().map(|([_, client], _)| client));
        for ([server, client], (.., stops_server)) in &running {
            (if *stops_server { server } else { client }).signal("STOP");
        }
        std::thread::sleep(Duration::from_millis(200));
        std::thread::scope(|scope| {
            for ([server, client], (_, code, stops_server)) in running {
                let (mut left, hung) = if *stops_server { (client, server) } else { (server, client) };
                scope.spawn(move || {
                    let _hung = hung;
                    assert!(left.is_running(), "it ended before Ctrl-C: {}{}", left.out(), left.err());
                    ends_at_ctrl_c(left).exits(*code);
                });
            }
        });
    }
}

#[test]
fn sigint_ends_a_connect_run() {
    let server = serve("");
    let client = connect(server.at()).args("-t 60s -i 200ms --rate 50").spawn();
    client.hears_often(" s  ", 3);
    client.signal("INT");
    client.wait().exits(130).prints(&["Run interrupted", "Connections established"]);
    server.still_serves();
}

#[test]
fn an_interrupted_server_lets_its_clients_finish_in_good_order() {
    for signal in ["INT", "TERM"] {
        let server = serve("");
        let (client, _scratch) = endless(&server, "--json");
        server.proc.signal(signal);
        let outcome = Outcome::of(client.wait_within(NOTICED)).exits(130).status("interrupted");
        assert_eq!(outcome.errors(), (0, 0), "{}", outcome.tell());
        assert_eq!(outcome.point()["up"]["confirmed"], true, "{}", outcome.tell());
        let reason = outcome.json["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("stop"), "it says why: {reason}");
        let done = server.proc.wait_within(NOTICED).exits(0);
        assert!(done.out.contains("client to server"), "the server's own summary: {}", done.tell());
        // One that is idle ends at once.
        let idle = serve("");
        idle.proc.signal(signal);
        idle.proc.wait_within(AT_ONCE).exits(0);
    }
}

#[test]
fn the_second_signal_ends_a_client_at_once() {
    let server = serve("");
    let (client, _scratch) = endless(&server, "");
    server.proc.signal("STOP");
    // The server answers nothing, so that nothing can end in good order.
    std::thread::sleep(Duration::from_millis(300));
    sigint_twice(&client);
    client.wait_within(AT_ONCE).exits(130);
    server.proc.signal("CONT");
    server.still_serves();
}

#[test]
fn the_second_signal_ends_a_server_at_once() {
    let server = serve("");
    let (client, _scratch) = endless(&server, "");
    client.signal("STOP");
    sigint_twice(&server.proc);
    server.proc.wait_within(AT_ONCE).exits(130);
    client.signal("CONT");
    let began = Instant::now();
    let code = client.wait_within(NOTICED).code;
    assert!(matches!(code, Some(4 | 130)), "{code:?} after {:?}", began.elapsed());
}

#[test]
fn a_client_with_nothing_under_way_ends_at_once() {
    let server = serve("--exclusive");
    let (running, _scratch) = endless(&server, "");
    let waiting = tcp(server.at()).args("-n 1M").spawn();
    waiting.hears("waiting for 1 other session");
    waiting.signal("INT");
    waiting.wait_within(AT_ONCE).exits(130);
    running.signal("INT");
    running.wait().exits(130);
    server.still_serves();
}

#[test]
fn stop_drains_the_server() {
    let server = serve("");
    // Long enough for two more programs to start meanwhile.
    let client = tcp(server.at()).args("-t 8s -P 2 -b 100k --json").spawn();
    server.proc.hears("session 1 with");
    let mut stop = netcaliper("stop").arg(server.at()).spawn();
    server.proc.hears("asks to stop; 1 session(s) still running");
    // New clients are refused; present ones stay.
    let late = tcp(server.at()).args("-n 1M").run().exits(1);
    assert!((late.out.clone() + &late.err).contains("the server is stopping"), "{}", late.tell());
    assert!(stop.is_running(), "stop waits for the end");
    let outcome = Outcome::of(client.wait()).good();
    assert!(number(&outcome.point()["intervals"][0]["end_ns"]) > 900_000_000);
    stop.wait().exits(0);
    server.proc.wait_within(NOTICED).exits(0);
    // Where none listens there is nothing to stop.
    let port = net::free_port();
    let done = netcaliper("stop").arg(format!("127.0.0.1:{port}")).run().exits(1).says_one_sentence();
    done.complains(&["Connection refused", &port.to_string()]);
}

/// What was not measured is absent: no rate of 0 in what is printed, kept and scraped.
#[test]
fn a_failed_run_has_no_figures() {
    let scratch = Scratch::new();
    let (store, metrics) = (scratch.file("store.db"), scratch.file("metrics.prom"));
    for verb in ["tcp", "connect", "delay"] {
        let line = netcaliper(verb).arg(format!("127.0.0.1:{}", net::free_port())).args("-t 300ms --json");
        let line = line.arg("--store").arg(&store).arg("--metrics-file").arg(&metrics);
        let done = line.run().exits(1);
        let point = &done.json()["points"][0];
        assert_eq!(
            (&point["status"], &point["up"], &point["down"]),
            (&json!("failed"), &Value::Null, &Value::Null)
        );
        let scraped = std::fs::read_to_string(&metrics).unwrap();
        assert!(!scraped.contains("netcaliper_goodput"), "{scraped}");
        assert!(scraped.contains("netcaliper_runs_total{status=\"failed\"} 1"), "{scraped}");
    }
    let history = netcaliper("history").arg("--store").arg(&store).run().exits(0);
    assert!(!history.out.contains("bit/s") && history.out.contains("failed"), "{}", history.tell());
}
