//! Agents as a controller sees them: messages over their standard input and output.

use crate::support::files::Scratch;
use crate::support::fleet::marked;
use crate::support::{BIN, PATIENCE, eventually};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

const RUN: &str = "00000000-0000-0000-0000-000000000007";
const KEY: &str = "netcaliper-psk-1:5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c0f5b1c";

struct Agent {
    child: Child,
    stdin: Option<ChildStdin>,
    said: Receiver<Value>,
    /// In the environment of the agent and of all that it starts.
    mark: String,
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Agent {
    fn start(scratch: &Scratch, name: &str) -> Agent {
        // Tests run side by side, and agents of one resource exclude each other.
        let spool = scratch.file(name);
        let mark = format!("NETCALIPER_TEST_MARK={}", spool.display());
        let mut command = Command::new(BIN);
        command.args(["agent", "--stdio", "--port", "0", "--resource", &mark, "--spool"]).arg(&spool);
        command.env("NETCALIPER_TEST_MARK", &spool).env("NETCALIPER_CONFIG", "off");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, out) = (child.stdin.take(), child.stdout.take().unwrap());
        let (tell, said) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let _ = tell.send(serde_json::from_str(&line).unwrap_or(Value::String(line)));
            }
        });
        Agent { child, stdin, said, mark }
    }

    /// An agent that knows the run.
    fn greeted(scratch: &Scratch, name: &str) -> Agent {
        let mut agent = Agent::start(scratch, name);
        agent.hears("hello");
        agent.told(&json!({"hello": {"version": 1, "epoch": 1, "key": KEY, "now": 0, "patience_ns": 60_000_000_000_u64}}));
        agent.hears("ready");
        agent
    }

    fn told(&mut self, order: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{}", json!({"run": RUN, "message": order})).unwrap();
    }

    fn next(&self) -> Value {
        self.said.recv_timeout(PATIENCE).expect("the agent says nothing")["message"].take()
    }

    /// A port that a server of this agent has for the first task.
    #[track_caller]
    fn reserved(&mut self) -> u64 {
        self.told(&reserve(1));
        self.hears("reserved")["port"].as_u64().unwrap()
    }

    /// The next message, which must be of this kind.
    #[track_caller]
    fn hears(&self, kind: &str) -> Value {
        let mut message = self.next();
        assert!(message.get(kind).is_some(), "not {kind}: {message}");
        message[kind].take()
    }

    /// Processes that it has started, itself included.
    fn processes(&self) -> usize {
        marked(&self.mark)
    }
}

fn attempt(task: u32) -> Value {
    json!({"task": task, "number": 1})
}

/// `until` counts from the controller's zero, which is when the agents were greeted.
fn reserve(task: u32) -> Value {
    json!({"reserve": {"attempt": attempt(task), "class": "exclusive", "until": 60_000_000_000_u64}})
}

fn run(task: u32, port: u64, arguments: &[&str], until: u64) -> Value {
    let target = json!({"host": "127.0.0.1", "port": port});
    json!({"run": {"attempt": attempt(task), "class": "exclusive", "until": until, "verb": "ping", "arguments": arguments,
        "target": target}})
}

#[test]
fn a_pair_is_measured_and_its_result_waits_on_the_disk_until_it_is_collected() {
    let scratch = Scratch::new();
    let (mut client, mut server) = (Agent::greeted(&scratch, "client"), Agent::greeted(&scratch, "server"));
    let port = server.reserved();
    server.told(&reserve(2));
    assert!(server.hears("busy")["for_ns"].as_u64().unwrap() > 0, "one at a time");
    client.told(&run(1, port, &["-n", "3", "--no-baseline"], 50_000_000_000));
    let ended = client.hears("ended");
    let measured = &ended["ending"]["measured"]["begin"];
    assert_eq!(measured["verb"], "ping", "{ended}");
    let kept = scratch.file("client").join(RUN).join("1.json");
    assert!(kept.is_file());
    // Killed before the controller had it, with all that it had started.
    client.child.kill().unwrap();
    client.child.wait().unwrap();
    let mut again = Agent::greeted(&scratch, "client");
    assert_eq!(again.hears("ended")["ending"]["measured"]["begin"], *measured);
    again.told(&json!({"stored": {"tasks": [1]}}));
    again.told(&json!("bye"));
    server.told(&json!("bye"));
    for agent in [&mut again, &mut server] {
        assert!(agent.child.wait().unwrap().success());
        assert_eq!(agent.processes(), 0, "a process is left");
    }
    assert!(!scratch.file("client").exists() && !scratch.file("server").exists(), "a file is left");
}

#[test]
fn tests_and_servers_end_with_their_agent_however_it_ends() {
    let scratch = Scratch::new();
    let (mut client, mut server) = (Agent::greeted(&scratch, "client"), Agent::greeted(&scratch, "server"));
    let port = server.reserved();
    client.told(&run(1, port, &["-t", "50s", "--no-baseline"], 59_000_000_000));
    eventually("the test runs", || client.processes() == 2 && server.processes() == 2);
    for agent in [&mut client, &mut server] {
        agent.child.kill().unwrap();
        agent.child.wait().unwrap();
    }
    eventually("no process is left", || client.processes() == 0 && server.processes() == 0);
}

#[test]
fn a_test_that_hangs_ends_in_its_time_and_garbage_ends_the_agent() {
    let scratch = Scratch::new();
    let mut agent = Agent::greeted(&scratch, "one");
    // An address that answers, and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = u64::from(silent.local_addr().unwrap().port());
    agent.told(&run(1, port, &["-n", "3"], 3_000_000_000));
    let ended = agent.hears("ended");
    let reason = &ended["ending"]["missing"]["reason"];
    assert!(reason == "timed_out" || reason == "failed", "{ended}");
    agent.told(&run(2, port, &["--save", "x"], 50_000_000_000));
    assert_eq!(agent.hears("refused")["reason"], "refused");
    writeln!(agent.stdin.as_mut().unwrap(), "what is this").unwrap();
    assert_eq!(agent.child.wait().unwrap().code(), Some(1));
    assert_eq!(agent.processes(), 0);
}

#[test]
fn an_agent_ends_when_its_controller_is_gone_and_keeps_what_was_running() {
    let scratch = Scratch::new();
    let (mut client, mut server) = (Agent::greeted(&scratch, "client"), Agent::greeted(&scratch, "server"));
    let port = server.reserved();
    // Long enough to be seen.
    client.told(&run(1, port, &["-n", "60", "--rate", "20", "--no-baseline"], 50_000_000_000));
    eventually("the test runs", || client.processes() == 2);
    client.stdin = None;
    assert!(client.child.wait().unwrap().success());
    let kept = std::fs::read_to_string(scratch.file("client").join(RUN).join("1.json")).unwrap();
    assert!(kept.contains("\"measured\""), "{kept}");
    // The server's reservation holds while the client may run.
    assert!(server.child.try_wait().unwrap().is_none());
}
