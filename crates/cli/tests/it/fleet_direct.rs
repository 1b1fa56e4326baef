//! Agents that listen, on loopback addresses of their own.

use crate::support::files::Scratch;
use crate::support::fleet::{all_measured, endings};
use crate::support::net::free_port;
use crate::support::{Line, Proc, as_it_is};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

struct Fleet {
    port: u16,
    scratch: Scratch,
    agents: Vec<Proc>,
}

const HOSTS: [&str; 3] = ["127.0.0.2", "127.0.0.3", "127.0.0.4"];

impl Fleet {
    fn new() -> Fleet {
        let scratch = Scratch::new();
        scratch.key("key", format!("netcaliper-psk-1:{}\n", "5b".repeat(32)));
        scratch.key("other", format!("netcaliper-psk-1:{}\n", "5c".repeat(32)));
        std::fs::write(scratch.file("hosts"), HOSTS.join("\n")).unwrap();
        let port = free_port();
        let agent = |host: &&str| {
            let line = as_it_is("agent")
                .arg("--listen")
                .arg(format!("{host}:{port}"))
                .arg("--psk-file")
                .arg(scratch.file("key"));
            let line = line
                .args("--port 0 --resource")
                .arg(format!("{host}-{port}"))
                .arg("--spool")
                .arg(scratch.file(host));
            let agent = line.spawn();
            agent.hears("agent listens on");
            agent
        };
        let agents = HOSTS.iter().map(agent).collect();
        Fleet { port, agents, scratch }
    }

    fn run(&self, key: &str) -> Line {
        let line = as_it_is("fleet").arg("run").arg(self.scratch.file("hosts")).args("--direct --agent-port");
        let line = line.arg(self.port.to_string()).arg("--psk-file").arg(self.scratch.file(key));
        line.env("XDG_STATE_HOME", self.scratch.file("state"))
    }
}

#[test]
fn agents_that_listen_obey_controllers_with_their_key_and_no_others() {
    let fleet = Fleet::new();
    // A connection that sends something else than a handshake is closed; other connections go on.
    for nonsense in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[b'5'; 4096], b"\n", b""] {
        let mut stream = TcpStream::connect((HOSTS[0], fleet.port)).unwrap();
        let _ = stream.write_all(nonsense);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        assert!(said.is_empty(), "{said:?}");
    }
    fleet
        .run("key")
        .args("--class background --test")
        .arg("ping -n 5 --rate 20 --no-baseline")
        .run()
        .exits(0);
    all_measured(&fleet.scratch.file("state"), 6);
    fleet
        .run("other")
        .args("--class background --test")
        .arg("ping -n 5")
        .run()
        .exits(1)
        .complains(&["another key"]);
    assert_eq!(endings(&fleet.scratch.file("state")), ["host_absent"; 6]);
    for agent in fleet.agents {
        agent.signal("TERM");
        agent.wait().exits(0);
    }
}

#[test]
fn two_controllers_share_agents_without_a_test_at_the_same_time() {
    let fleet = Fleet::new();
    let state = |name: &str| fleet.scratch.file(name);
    let run = |name| fleet.run("key").env("XDG_STATE_HOME", state(name)).args("--class exclusive --test");
    let both =
        ["one", "two"].map(|name| (name, run(name).arg("ping --flood -t 300ms --no-baseline").spawn()));
    for (name, run) in both {
        run.wait().exits(0);
        // What was busy was tried again.
        all_measured(&state(name), 6);
    }
}
