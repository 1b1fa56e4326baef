//! Agents that listen, on loopback addresses of their own.

use crate::support::files::Scratch;
use crate::support::fleet::{PING, all_measured, ended, endings, testing};
use crate::support::net::{Namespace, free_port, has_ipv6};
use crate::support::{Line, Proc, as_it_is, skip};
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
            let line = as_it_is("agent").args("--port 0 --listen").arg(format!("{host}:{port}"));
            let line = line.arg("--psk-file").arg(scratch.file("key")).arg("--resource");
            let agent = line.arg(format!("{host}-{port}")).arg("--spool").arg(scratch.file(host)).spawn();
            agent.hears("agent listens on");
            agent
        };
        let agents = HOSTS.iter().map(agent).collect();
        Fleet { port, agents, scratch }
    }

    /// The same hosts with servers that take orders, by keys with rights, and test the first two of
    /// them.
    fn of_servers() -> Fleet {
        let scratch = Scratch::new();
        let key = |byte: &str| format!("netcaliper-psk-1:{}", byte.repeat(32));
        scratch.key("keys", format!("boss {}\nguest {} verbs=ping\n", key("5b"), key("5c")));
        scratch.key("key", format!("boss {}\n", key("5b")));
        scratch.key("other", format!("guest {}\n", key("5c")));
        std::fs::write(scratch.file("hosts"), HOSTS.join("\n")).unwrap();
        let port = free_port();
        let server = |host: &&str| {
            let line = as_it_is("serve").arg("--listen").arg(host).args("--port 0 --fleet-port");
            let line = line.arg(port.to_string()).arg("--psk-file").arg(scratch.file("keys"));
            let line = line.args("--fleet 127.0.0.2 --fleet 127.0.0.3/32");
            let server = line.env("XDG_STATE_HOME", scratch.file(host)).spawn();
            server.hears("takes orders of fleets on");
            server
        };
        let agents = HOSTS.iter().map(server).collect();
        Fleet { port, agents, scratch }
    }

    fn run(&self, key: &str) -> Line {
        let line = as_it_is("fleet").arg("run").arg(self.scratch.file("hosts")).args("--direct --agent-port");
        let line = line.arg(self.port.to_string()).arg("--psk-file").arg(self.scratch.file(key));
        line.env("XDG_STATE_HOME", self.scratch.file("state"))
    }
}

/// An agent or a server ends in order.
#[track_caller]
fn end(agent: Proc) {
    agent.signal("TERM");
    agent.wait().exits(0);
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
    testing(fleet.run("key"), "background", PING).run().exits(0);
    all_measured(&fleet.scratch.file("state"), 6);
    let refused = testing(fleet.run("other"), "background", "ping -n 5").run().exits(1);
    refused.complains(&["another key"]);
    assert_eq!(endings(&fleet.scratch.file("state")), ["host_absent"; 6]);
    fleet.agents.into_iter().for_each(end);
}

#[test]
fn two_controllers_share_agents_without_a_test_at_the_same_time() {
    let fleet = Fleet::new();
    let state = |name: &str| fleet.scratch.file(name);
    let run = |name| {
        let line = fleet.run("key").env("XDG_STATE_HOME", state(name));
        testing(line, "exclusive", "ping --rate 20 -t 300ms --no-baseline").spawn()
    };
    for (name, run) in ["one", "two"].map(|name| (name, run(name))) {
        run.wait().exits(0);
        // What was busy was tried again.
        all_measured(&state(name), 6);
    }
}

#[test]
fn servers_take_orders_of_keys_with_the_right_and_test_the_allowed_targets() {
    let fleet = Fleet::of_servers();
    // The servers are one host, whose resource they share: background tests exclude nothing.
    let state = fleet.scratch.file("state");
    testing(fleet.run("other"), "background", PING).run().exits(1).complains(&["another key"]);
    assert_eq!(endings(&state), ["host_absent"; 6]);
    testing(fleet.run("key"), "background", PING).run().exits(4);
    assert_eq!((ended(&state, "measured"), ended(&state, "refused")), (4, 2), "{:?}", endings(&state));
    // The server itself goes on serving, and ends in order.
    fleet.agents.into_iter().for_each(end);
}

#[test]
fn a_server_takes_orders_with_keys_only() {
    as_it_is("serve").args("--port 0 --fleet 127.0.0.1").run().exits(2).complains(&["--psk-file"]);
}

#[test]
fn agents_are_reached_at_link_local_addresses() {
    const NAME: &str = "fleet_direct::agents_are_reached_at_link_local_addresses";
    let Some((here, there)) = Namespace::pair(NAME) else { return };
    if !has_ipv6() {
        return skip(NAME, "this machine has no IPv6");
    }
    let scratch = Scratch::new();
    scratch.key("key", format!("netcaliper-psk-1:{}\n", "5b".repeat(32)));
    let keyed = |verb: &str| as_it_is(verb).env("XDG_STATE_HOME", scratch.file("state"));
    let agents = [(&here, "fe80::71"), (&there, "fe80::72")].map(|(space, host)| {
        space.ip(&format!("address add {host}/64 dev nc0 nodad"));
        let line = keyed("agent").args("--port 0 --listen").arg(format!("[{host}%nc0]:7500"));
        let line = line.arg("--psk-file").arg(scratch.file("key")).arg("--resource").arg(host);
        let agent = space.within(line.arg("--spool").arg(scratch.file(host))).spawn();
        agent.hears(&format!("agent listens on [{host}%"));
        agent
    });
    std::fs::write(scratch.file("hosts"), "fe80::71%nc0\nfe80::72%nc0\n").unwrap();
    let line = keyed("fleet").arg("run").arg(scratch.file("hosts")).args("--direct --agent-port 7500");
    let line = testing(line.arg("--psk-file").arg(scratch.file("key")), "background", PING);
    here.within(line).run().exits(0);
    all_measured(&scratch.file("state"), 2);
    agents.into_iter().for_each(end);
}
