//! A request to end that arrives as two signals, as coreutils' `timeout` sends them (to its child,
//! then to the child's process group): every command of the program keeps its result and its exit
//! code.

use crate::support::files::Scratch;
use crate::support::lab::{lab, served, sh};
use crate::support::net::{free_port, free_row};
use crate::support::{BIN, Line, Proc, as_it_is, at_once, eventually, serve};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

/// Longest time from a signal to the end of anything that is signalled here.
const PROMPTLY: Duration = Duration::from_secs(20);

/// Sends a signal to a process that leads a group, and to that group, without a pause.
fn signal_twice(process: &Proc, signal: &str) {
    let leader = process.id();
    let both = format!("kill -{signal} {leader}; kill -{signal} -{leader}");
    assert!(Command::new("sh").arg("-c").arg(both).status().is_ok());
}

/// Starts it as the leader of a process group.
fn start(mut line: Line) -> Proc {
    line.0.process_group(0);
    line.spawn()
}

/// A command that goes on until it is signalled.
struct Case {
    line: Line,
    /// On stdout or stderr once there is something to keep; where it is empty nothing is printed
    /// before the end.
    begun: &'static str,
    code: i32,
    /// On stdout or stderr in the end.
    report: &'static str,
}

/// A question in its default form, of tables that begin early.
fn question(line: Line, code: i32) -> Case {
    Case { line: line.args("-i 200ms"), begun: "elapsed", code, report: "Run interrupted" }
}

fn case(line: Line, begun: &'static str, code: i32, report: &'static str) -> Case {
    Case { line, begun, code, report }
}

impl Case {
    #[track_caller]
    fn keeps_its_result(self, signal: &str) {
        let running = start(self.line);
        if self.begun.is_empty() {
            eventually("SIGINT is handled", || crate::endings::has_sigint(&running, "SigCgt"));
        } else {
            running.hears(self.begun);
        }
        signal_twice(&running, signal);
        let done = running.wait_within(PROMPTLY).exits(self.code);
        let kept = done.out.contains(self.report) || done.err.contains(self.report);
        assert!(kept, "'{}' is missing: {}", self.report, done.tell());
    }
}

/// Verbs that end by themselves: these have nothing to wait for but a reader of stdout.
const SHORT: [&str; 14] = [
    "doctor",
    "stop",
    "key",
    "report",
    "history",
    "show",
    "import",
    "export",
    "compare",
    "config",
    "options",
    "completions",
    "man",
    "help",
];

/// Verbs that this build lacks.
const ABSENT: &[&str] = if cfg!(feature = "fleet") { &[] } else { &["agent", "fleet"] };

/// A verb that waits for a signal, at a server at `at`; `None` for one that the program does not
/// have.
fn verb(name: &str, at: &str, scratch: &Scratch) -> Option<Case> {
    let plain = |words: &str| as_it_is(name).arg(at).args(words);
    Some(match name {
        "tcp" => question(plain("-t 60s -b 1M"), 130),
        "ping" => question(plain("-t 60s"), 130),
        "connect" => question(plain("-t 60s --rate 50"), 130),
        "delay" => question(plain("-t 60s --pps 50"), 130),
        "stream" => question(plain("--length 60s -b 1M"), 130),
        "capacity" => question(plain("-t 60s -b 1M"), 130),
        "train" => question(plain("-n 10 --wait 10ms --repeat 1000"), 130),
        "load" => case(plain("-t 30s -P 1"), "stage", 130, "Run interrupted"),
        "demo" => case(as_it_is(name).args("-t 60s"), "elapsed", 130, "Run interrupted"),
        "run" => {
            let config =
                scratch.with("config", &format!("[tests]\nlong = \"tcp {at} -t 60s -b 1M -i 200ms\"\n"));
            let line = as_it_is(name).arg("long").env("NETCALIPER_CONFIG", config);
            case(line, "elapsed", 130, "Run interrupted")
        }
        "serve" => case(as_it_is(name).args("--port 0"), "listening on", 0, "stopped by a signal"),
        "monitor" => {
            let line = as_it_is(name).args("--every 1h -- ping").arg(at).args("-n 3 --no-baseline");
            case(line.env("XDG_DATA_HOME", scratch.path()), "rtt", 0, "rtt")
        }
        "agent" => {
            let key = scratch.key("key", "a passphrase of tests");
            let line = as_it_is(name).args("--listen 127.0.0.1:0 --psk-file").arg(key);
            case(line.env("XDG_STATE_HOME", scratch.path()), "agent listens on", 0, "agent listens on")
        }
        // Six tests, of which the first are not over at the signal.
        "fleet" => {
            let hosts =
                scratch.with("hosts", "a address=127.0.0.1\nb address=127.0.0.1\nc address=127.0.0.1\n");
            let line = as_it_is(name).arg("run").arg(hosts).arg("--rsh").arg("env FLEET_HOST={}");
            let line = line
                .arg("--program")
                .arg(BIN)
                .args("--class exclusive --test")
                .arg("ping -n 2 --no-baseline");
            case(line.env("XDG_STATE_HOME", scratch.path()), "tests are over", 130, "round trip")
        }
        _ => return None,
    })
}

/// What the programs of an original wait for: one as a client, at a server of ours at `port`, one
/// as a server.
fn original(name: &str, port: &dyn Fn(&str) -> u16) -> Option<Vec<Case>> {
    let own = |words: &str| as_it_is(name).args(words);
    let client = |words: &str, protocol: &str| own(&words.replace("PORT", &port(protocol).to_string()));
    Some(match name {
        "iperf3" => vec![
            case(
                client("-c 127.0.0.1 -p PORT -t 60 -b 1M -i 0.2 --forceflush", "iperf3"),
                "Bytes",
                0,
                "receiver",
            ),
            case(own("-s -p 0 --forceflush"), "Server listening", 0, "Server listening"),
        ],
        "ctstraffic" => {
            let words = "-target:127.0.0.1 -port:PORT -connections:2 -ratelimit:1000000";
            let server = format!("-listen:127.0.0.1 -port:{}", free_port());
            vec![
                case(client(words, "ctstraffic"), "connection established", 0, "Total Time"),
                case(own(&server), "Server-accepted", 0, "Total Time"),
            ]
        }
        "ttcp" => vec![
            case(client("-t -s -p PORT -n 1000000000 127.0.0.1", "ttcp"), "connect", 130, "real seconds"),
            case(own("-r -s -p 0"), "port=", 130, "port="),
        ],
        "ntttcp" => {
            let row = format!("-r127.0.0.1 -p {}", free_row(16, 0));
            vec![case(own(&row), "threads created", 0, "Interrupted by Ctrl+C")]
        }
        "tcpmon_mon" => vec![case(
            client("-u PORT -d 127.0.0.1 -p 1000 -l 10000000 -w 100", "tcpmon"),
            "destination",
            130,
            "destination",
        )],
        "udpmon_bw_mon" => vec![case(
            client("-u PORT -d 127.0.0.1 -p 100 -l 1000 -w 1000 -i 100 -e 9000", "udpmon"),
            "num_sent",
            130,
            "num_sent",
        )],
        "udpmon_req" => {
            vec![case(
                client("-u PORT -d 127.0.0.1 -p 100 -l 100000000", "udpmon"),
                "response",
                130,
                "response",
            )]
        }
        "udpmon_send" => {
            let words = "-u PORT -d 127.0.0.1 -p 100 -l 1000000 -w 1000";
            vec![case(client(words, "udpmon"), "100 bytes", 130, "100 bytes")]
        }
        "tcpmon_resp" | "udpmon_resp" | "udpmon_recv" => vec![case(own("-u 0"), "port is", 0, "port is")],
        "bwdelaytester" => vec![
            case(client("-c 127.0.0.1 --port PORT -p 160 -b 1", "bwdelaytester"), "", 1, "packets left"),
            case(own("--port 0"), "listening on", 1, "sweep data"),
        ],
        "rttcpip" | "rttcpipclient" => {
            vec![case(client("i=127.0.0.1 p=PORT m=1000000", "echo"), "packets (", 130, "Errors")]
        }
        "rttcpipserver" => vec![case(own("p=0"), "echo on", 0, "bytes echoed")],
        "udpst" => vec![
            case(
                client("-d -t 60 -I 1 -p PORT 127.0.0.1", "udpstp"),
                "Sub-Interval[1]",
                0,
                "Downstream Summary",
            ),
            case(own("-4 -v -p 0"), "Awaiting setup", 0, "Awaiting setup"),
        ],
        _ => return None,
    })
}

/// The verbs in the program's help, which is made of the table of commands.
fn verbs() -> Vec<String> {
    let help = as_it_is("--help").run().exits(0);
    let commands = help.out.split_once("Commands:\n").and_then(|(_, rest)| rest.split_once("\n\n"));
    let lines = commands.expect("the commands in the help").0.lines();
    // Of longer descriptions the further lines are indented more.
    let names = lines.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn every_verb_keeps_its_result_when_a_request_to_end_is_two_signals() {
    let (server, scratch) = (serve(""), Scratch::new());
    let at = server.at();
    let all = verbs();
    assert!(all.len() > 20, "{all:?}");
    let cases: Vec<(&str, &str)> =
        all.iter().map(String::as_str).zip(["INT", "TERM"].into_iter().cycle()).collect();
    at_once(&cases, |(name, signal)| {
        if name == "lab" || SHORT.contains(&name) || ABSENT.contains(&name) {
            return;
        }
        let case = verb(name, &at, &scratch);
        case.unwrap_or_else(|| panic!("{name}: no test of its end")).keeps_its_result(signal);
    });
    server.ends();
}

#[test]
fn every_original_keeps_its_result_when_a_request_to_end_is_two_signals() {
    let others = "iperf3:0,ctstraffic:0,ttcp:0,echo:0,bwdelaytester:0,udpmon:0,tcpmon:0,udpstp:0";
    let server = serve(&format!("--legacy {others}"));
    let help = as_it_is("--help").run().exits(0);
    let text = help.out.replace('\n', " ");
    let (_, list) = text.split_once("called by their names: ").expect("the originals in the help");
    let names: Vec<&str> = list.split_once('.').unwrap().0.split(',').map(str::trim).collect();
    let signals = ["TERM", "INT"].into_iter().cycle();
    let cases: Vec<(&str, &str)> = names.into_iter().zip(signals).collect();
    assert!(cases.len() > 10, "{cases:?}");
    at_once(&cases, |(name, signal)| {
        let cases = original(name, &|protocol| server.proc.port_of(protocol));
        for case in cases.unwrap_or_else(|| panic!("{name}: no test of its end")) {
            case.keeps_its_result(signal);
        }
    });
    server.ends();
}

/// `timeout` itself, whose exit code for a command that it ended is 124.
#[test]
fn a_run_under_timeout_is_printed_and_saved() {
    let (server, scratch) = (serve(""), Scratch::new());
    for words in ["1.5", "-s INT 1.5"] {
        let mut command = Command::new("timeout");
        command.args(words.split(' ')).arg(BIN).args(["ping", &server.at(), "-t", "10s", "--json"]);
        command.arg("--save").arg(scratch.file("run.jsonl")).env("NETCALIPER_STORE", "off");
        let mut line = Line(command);
        line.0.process_group(0);
        let done = line.run().exits(124);
        assert_eq!(done.json()["status"], "interrupted", "{}", done.tell());
        assert!(scratch.so_far("run.jsonl").contains("\"event\":\"end\""));
    }
    server.ends();
}

#[test]
fn a_lab_keeps_its_result_when_a_request_to_end_is_two_signals() {
    const NAME: &str = "signals::a_lab_keeps_its_result_when_a_request_to_end_is_two_signals";
    let question = format!("exec {BIN} tcp $NETCALIPER_LAB_SERVER -t 60s -i 200ms");
    let Some(lab) = lab(NAME, "--delay 5ms") else { return };
    let running = start(served(lab, &question));
    running.hears("elapsed");
    signal_twice(&running, "INT");
    running.wait_within(PROMPTLY).exits(130).prints(&["Run interrupted"]).complains(&["lab: up:"]);
}

/// One signal to the lab alone, as a supervisor sends it that knows one process: what the command
/// started ends, too.
#[test]
fn a_lab_that_is_signalled_alone_ends_what_runs_in_it() {
    const NAME: &str = "signals::a_lab_that_is_signalled_alone_ends_what_runs_in_it";
    for (signal, command, code) in [
        ("INT", "echo $$; sleep 1000; echo awake", None),
        ("TERM", "trap '' TERM INT HUP; echo $$; while :; do sleep 0.05; done", Some(128 + 9)),
        ("HUP", "trap '' TERM INT HUP; echo $$; exec sleep 1000", Some(128 + 9)),
    ] {
        let Some(lab) = lab(NAME, "") else { return };
        let running = start(sh(lab, command));
        eventually("the command runs", || running.out().contains('\n'));
        let child = std::path::Path::new("/proc").join(running.out().trim());
        running.signal(signal);
        let done = running.wait_within(Duration::from_secs(9)).complains(&["lab: up:"]);
        assert!(code.is_none() || done.code == code, "{}", done.tell());
        assert!(!child.join("cmdline").exists(), "{}", done.tell());
    }
    // A shell that waits for a client: the client reports first.
    let Some(lab) = lab(NAME, "") else { return };
    let command = format!("trap : INT; {BIN} tcp $NETCALIPER_LAB_SERVER -t 60s -i 200ms; echo ended with $?");
    let running = start(served(lab, &command));
    running.hears("elapsed");
    running.signal("INT");
    running.wait_within(PROMPTLY).exits(0).prints(&["Run interrupted", "ended with 130"]);
}
