//! The stand-ins of originals as cells: each against a good server, one that accepts and says
//! nothing, and one whose process is killed in the middle. The exit code is the original's, the
//! printout is whole, and the sentence names what went wrong.
//!
//! The questions over the same protocols are tried in virtual time
//! (`crates/protocols/tests/tests/it/matrix/`).

use crate::support::{Done, Proc, at_once, eventually, netcaliper, sized};
use std::net::{TcpListener, UdpSocket};
use std::time::Duration;

/// A stand-in.
#[derive(Clone, Copy)]
struct Row {
    /// Its command line against a server at `PORT` that serves it well.
    line: &'static str,
    /// The protocol of its server: one of `serve --legacy`, or the command line of the stand-in's
    /// own server.
    server: &'static str,
    /// A word of a whole printout.
    prints: &'static str,
    /// The same for longer than the server lives; or why that is not tried.
    longer: Result<&'static str, &'static str>,
    /// Exit codes: good, mute and killed server.
    codes: [i32; 3],
    /// What is said, on either pipe, where the server is mute, and after how many seconds; or why
    /// that is not tried.
    mute: Result<(&'static str, u64), &'static str>,
    /// What is said where it is killed.
    killed: &'static str,
}

const ROWS: &[Row] = &[
    Row {
        line: "iperf3 -c 127.0.0.1 -p PORT -t 1",
        server: "iperf3",
        prints: "receiver",
        longer: Ok("iperf3 -c 127.0.0.1 -p PORT -t 20"),
        codes: [0, 1, 1],
        mute: Err("the original waits for ever for the first answer of a server"),
        killed: "iperf3: error - ",
    },
    Row {
        line: "iperf3 -c 127.0.0.1 -p PORT -t 1 -u -l 1000",
        server: "iperf3",
        prints: "receiver",
        longer: Ok("iperf3 -c 127.0.0.1 -p PORT -t 20 -u -l 1000"),
        codes: [0, 1, 1],
        mute: Err("the original waits for ever for the first answer of a server"),
        killed: "iperf3: error - ",
    },
    Row {
        line: "iperf3 -c 127.0.0.1 -p PORT -t 1 -R -J",
        server: "iperf3",
        prints: "sum_received",
        longer: Ok("iperf3 -c 127.0.0.1 -p PORT -t 20 -R -J"),
        codes: [0, 1, 1],
        mute: Err("the original waits for ever for the first answer of a server"),
        killed: "\"error\":",
    },
    Row {
        line: "ctstraffic -target:127.0.0.1 -port:PORT -pattern:push -transfer:1000000 -connections:1 -iterations:1",
        server: "ctstraffic -listen:127.0.0.1 -port:PORT -pattern:push -transfer:1000000",
        prints: "Total Time",
        longer: Ok(
            "ctstraffic -target:127.0.0.1 -port:PORT -pattern:push -transfer:1000000 -connections:1 -iterations:1 \
             -ratelimit:50000",
        ),
        codes: [0, 1, 1],
        mute: Ok(("Total Time", 15)),
        killed: "Total Time",
    },
    Row {
        line: "udpst -d -t 5 -I 1 -p PORT 127.0.0.1",
        server: "udpstp",
        prints: "Downstream Maximum Mbps(L3/IP): ",
        longer: Ok("udpst -d -t 20 -I 1 -p PORT 127.0.0.1"),
        codes: [0, 200, 200],
        mute: Ok(("WARNING: Timeout awaiting response from server", 3)),
        killed: "ERROR: Minimum required connections (1) unavailable",
    },
    Row {
        line: "ttcp tx 127.0.0.1 port PORT nsrbc 333 blen 1000",
        server: "ttcp",
        prints: "ttcp-tx",
        longer: Ok("ttcp tx 127.0.0.1 port PORT nsrbc 90000000 blen 1000"),
        codes: [0, 1, 1],
        mute: Err("the original waits for ever where a receiver does not read"),
        killed: "ttcp-tx: ",
    },
    Row {
        line: "ttcp tx 127.0.0.1 -u port PORT nsrbc 333 blen 1000",
        server: "ttcp",
        prints: "ttcp-tx",
        longer: Ok("ttcp tx 127.0.0.1 -u port PORT nsrbc 90000000 blen 1000"),
        // Nothing answers datagrams: whether any arrived is not known.
        codes: [0, 0, 1],
        mute: Ok(("ttcp-tx", 1)),
        killed: "refused",
    },
    Row {
        line: "ntttcp -s127.0.0.1 -p PORT -t 1 -P 1",
        server: "ntttcp -r127.0.0.1 -p PORT -t 1 -P 1",
        prints: "throughput",
        longer: Err("the original runs to the end of its time, and exits with 0"),
        codes: [0, 24, 0],
        mute: Ok(("", 30)),
        killed: "",
    },
    Row {
        line: "tcpmon_mon -d 127.0.0.1 -u PORT -p 1000 -w 100 -l 10",
        server: "tcpmon",
        prints: "1000;",
        longer: Ok("tcpmon_mon -d 127.0.0.1 -u PORT -p 1000 -w 1000 -l 90000"),
        codes: [0, 1, 1],
        mute: Ok(("tcpmon_mon: ", 16)),
        killed: "tcpmon_mon: ",
    },
    Row {
        line: "udpmon_bw_mon -d 127.0.0.1 -u PORT -p 500 -l 20 -w 200",
        server: "udpmon",
        prints: "500;",
        longer: Err("the original hears of its responder between tests, and asks for half a minute"),
        codes: [0, 1, 1],
        mute: Ok(("udpmon_bw_mon: ", 33)),
        killed: "",
    },
    Row {
        line: "udpmon_req -d 127.0.0.1 -u PORT -l 5",
        server: "udpmon",
        prints: "num_bad",
        longer: Err("a request is asked again for half a minute, as of a mute responder"),
        codes: [0, 1, 1],
        mute: Ok(("udpmon_req: ", 33)),
        killed: "",
    },
    Row {
        line: "udpmon_send -d 127.0.0.1 -u PORT -l 200 -w 100 -p 300",
        server: "udpmon",
        prints: "300;",
        // The original hears nothing of its receiver, and neither does this program.
        longer: Err("the original does not hear of its receiver"),
        codes: [0, 0, 0],
        mute: Ok(("300;", 1)),
        killed: "",
    },
    Row {
        line: "rttcpip p=PORT i=127.0.0.1 m=300 r=100 c=2",
        server: "echo",
        prints: "packets",
        longer: Ok("rttcpip p=PORT i=127.0.0.1 m=90000 r=100 c=2"),
        codes: [0, 1, 1],
        mute: Ok(("", 30)),
        killed: "",
    },
    Row {
        line: "rttcpip p=PORT i=127.0.0.1 m=300 r=100 /udp",
        server: "echo",
        prints: "packets",
        longer: Err("each message is waited for a second: hours"),
        codes: [0, 1, 1],
        mute: Err("each of at least 300 messages is waited for a second"),
        killed: "",
    },
];

/// A command line as this program runs it.
fn spawn(line: &str, port: u16) -> Proc {
    let (name, words) = line.split_once(' ').unwrap();
    netcaliper(name).args(&words.replace("PORT", &port.to_string())).spawn()
}

/// Whether a TCP port is listened to.
fn is_listening(port: u16) -> bool {
    let all = std::fs::read_to_string("/proc/net/tcp").unwrap();
    all.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, local, _, state, ..] = words.as_slice() else { return false };
        *state == "0A" && local.ends_with(&format!(":{port:04X}"))
    })
}

/// Sockets that accept, up to their backlog, and that nobody reads, at a port and, for the
/// conversation of ntttcp, the one below.
fn mute() -> (u16, [TcpListener; 2], UdpSocket) {
    loop {
        let streams = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = streams.local_addr().unwrap().port();
        let below = TcpListener::bind(("127.0.0.1", port - 1));
        if let (Ok(below), Ok(datagrams)) = (below, UdpSocket::bind(("127.0.0.1", port))) {
            return (port, [streams, below], datagrams);
        }
    }
}

impl Row {
    /// A server of its own, and its port.
    fn serve(&self) -> (Proc, u16) {
        if !self.server.contains(' ') {
            let legacy = format!("-B 127.0.0.1 --port 0 --legacy {}:0", self.server);
            let proc = netcaliper("serve").args(&legacy).spawn();
            let port = proc.port_of(self.server);
            return (proc, port);
        }
        loop {
            let (port, ..) = mute();
            let mut proc = spawn(self.server, port);
            let talks = if self.server.starts_with("ntttcp") { port - 1 } else { port };
            eventually("the server listens, or its port was taken meanwhile", || {
                is_listening(talks) || !proc.is_running()
            });
            if proc.is_running() {
                return (proc, port);
            }
        }
    }

    #[track_caller]
    fn check(&self, case: &str, done: Done, code: i32, words: &str) {
        let done = done.exits(code);
        let all = format!("{}{}", done.out, done.err);
        assert!(all.contains(words), "{case}: '{words}' is missing: {}", done.tell());
        if self.line.contains("-J") {
            done.json();
        }
        assert!(!done.err.contains("panicked"), "{case}: {}", done.tell());
    }
}

#[test]
fn stand_ins_at_good_servers() {
    at_once(ROWS, |row| {
        let (_server, port) = row.serve();
        row.check("good", spawn(row.line, port).wait(), row.codes[0], row.prints);
    });
}

#[test]
fn stand_ins_at_mute_servers() {
    at_once(ROWS, |row| {
        // `bench/deep` waits for the patient ones, too.
        let Some((words, _)) = row.mute.ok().filter(|(_, after)| *after <= sized(20, 60)) else { return };
        let (port, _streams, _datagrams) = mute();
        row.check("mute", spawn(row.line, port).wait(), row.codes[1], words);
    });
}

/// Questions over protocols without a conversation, for longer than their servers live.
const QUESTIONS: [(&str, &str, &str); 8] = [
    ("ctstraffic", "tcp", "-t 3s"),
    ("ttcp", "tcp", "-t 3s"),
    ("discard", "tcp", "-t 3s"),
    ("chargen", "tcp", "-t 3s -R"),
    ("echo", "ping", "-t 3s --rate 50"),
    ("echo", "ping", "-u -t 3s --rate 50 --timeout 500ms"),
    ("stamp", "ping", "-u -t 3s --rate 50 --timeout 500ms"),
    ("bwdelaytester", "delay", "-t 3s --pps 100 -l 200"),
];

#[test]
fn questions_whose_servers_are_killed_are_partial() {
    at_once(&QUESTIONS, |(protocol, verb, words)| {
        let server =
            netcaliper("serve").args(&format!("-B 127.0.0.1 --port 0 --legacy {protocol}:0")).spawn();
        let port = server.port_of(protocol);
        let words = format!("127.0.0.1 -p {port} --protocol {protocol} {words} --json");
        let client = netcaliper(verb).args(&words).spawn();
        // Behind the first interval and before the last one.
        std::thread::sleep(Duration::from_millis(1_700));
        server.signal("KILL");
        let done = client.wait().exits(4);
        let outcome = done.json();
        assert_eq!(outcome["status"], "partial", "{protocol} {verb}: {}", done.tell());
        assert!(outcome["reason"].is_string(), "{protocol} {verb}: {}", done.tell());
    });
}

#[test]
fn stand_ins_whose_servers_are_killed() {
    at_once(ROWS, |row| {
        let Ok(line) = row.longer else { return };
        let (server, port) = row.serve();
        let client = spawn(line, port);
        // Long enough to be in the middle of a run of which nothing need be printed yet.
        std::thread::sleep(Duration::from_millis(1_200));
        server.signal("KILL");
        row.check("killed", client.wait(), row.codes[2], row.killed);
    });
}
