//! `netcaliper fleet` over remote shells, between network namespaces joined by a bridge.

use crate::support::files::Scratch;
use crate::support::fleet::{PING, all_measured, ended, endings, lines, marked, testing};
use crate::support::net::{Namespace, succeeds};
use crate::support::{BIN, Line, as_it_is, eventually, sized, skip};
use std::fmt::Write as _;

/// Hosts in namespaces of their own, all at one bridge.
struct Site {
    hosts: Vec<Namespace>,
    _hub: Namespace,
    scratch: Scratch,
}

impl Site {
    fn new(test: &str, hosts: usize) -> Option<Site> {
        let hub = Namespace::for_test(test)?;
        if !succeeds("ip", &format!("-n {} link add br0 type bridge", hub.name())) {
            skip(test, "the kernel has no bridges");
            return None;
        }
        hub.ip("link set br0 up");
        let mut all = Vec::new();
        for n in 1..=hosts {
            let host = Namespace::for_test(test)?;
            let (a, b) = (host.name(), hub.name());
            assert!(succeeds("ip", &format!("link add nc0 netns {a} type veth peer name p{n} netns {b}")));
            host.ip(&format!("address add 10.77.1.{n}/24 dev nc0"));
            host.ip("link set nc0 up");
            hub.ip(&format!("link set p{n} master br0 up"));
            all.push(host);
        }
        let site = Site { hosts: all, _hub: hub, scratch: Scratch::new() };
        let mut inventory = String::new();
        for (n, host) in (1..).zip(&site.hosts) {
            writeln!(inventory, "{} address=10.77.1.{n}", host.name()).unwrap();
        }
        std::fs::write(site.inventory(), inventory).unwrap();
        Some(site)
    }

    fn inventory(&self) -> std::path::PathBuf {
        self.scratch.file("hosts")
    }

    /// `netcaliper fleet run` of this site, with a folder for all that is kept.
    fn run(&self) -> Line {
        self.shells().arg("--program").arg(BIN)
    }

    /// The same, without naming a program on the hosts.
    fn shells(&self) -> Line {
        self.fleet("run").arg(self.inventory()).arg("--rsh").arg("ip netns exec {}")
    }

    fn fleet(&self, verb: &str) -> Line {
        as_it_is("fleet")
            .arg(verb)
            .env("XDG_STATE_HOME", self.scratch.file("state"))
            .env("NETCALIPER_TEST_MARK", self.mark())
    }

    fn state(&self) -> std::path::PathBuf {
        self.scratch.file("state")
    }

    /// In the environment of all processes of this site.
    fn mark(&self) -> String {
        self.hosts[0].name().to_owned()
    }

    fn processes(&self) -> usize {
        marked(&format!("NETCALIPER_TEST_MARK={}", self.mark()))
    }

    /// Neither a process nor a file of an agent is left.
    #[track_caller]
    fn is_clean(&self) {
        eventually("no process is left", || self.processes() == 0);
        assert!(!self.scratch.file("state").join("netcaliper/fleet").exists(), "a result is left at a host");
    }
}

#[test]
fn a_mesh_of_hosts_with_nothing_installed_is_measured_with_one_command() {
    let hosts = sized(6, 20);
    let Some(site) =
        Site::new("fleet_run::a_mesh_of_hosts_with_nothing_installed_is_measured_with_one_command", hosts)
    else {
        return;
    };
    let began = std::time::Instant::now();
    let html = site.scratch.file("fleet.html");
    testing(site.run(), "background", PING).arg("--html").arg(&html).run().exits(0);
    let took = began.elapsed();
    all_measured(&site.state(), hosts * (hosts - 1));
    assert!(html.is_file());
    site.is_clean();
    if sized(false, true) {
        assert!(took.as_secs() <= 60, "{took:?}");
        println!("{hosts} hosts, {} pairs: {took:?}", hosts * (hosts - 1));
    }
}

#[test]
fn the_program_is_copied_checked_and_gone() {
    let Some(site) = Site::new("fleet_run::the_program_is_copied_checked_and_gone", 2) else { return };
    let folder = site.scratch.file("copies");
    std::fs::create_dir(&folder).unwrap();
    let line = site.shells().args("--copy --copy-to").arg(&folder);
    testing(line, "background", PING).run().exits(0);
    all_measured(&site.state(), 2);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "a copy is left");
    site.is_clean();
}

#[test]
fn a_killed_controller_loses_nothing_and_another_goes_on() {
    let Some(site) = Site::new("fleet_run::a_killed_controller_loses_nothing_and_another_goes_on", 4) else {
        return;
    };
    // Six rounds of exclusive tests.
    let first = testing(site.run(), "exclusive", "ping --rate 20 -t 400ms --no-baseline").spawn();
    eventually("results come", || lines(&site.state()) >= 3);
    site.fleet("status").run().exits(0).prints(&["4 hosts, 12 tests", "a controller works on it"]);
    first.signal("KILL");
    drop(first);
    let before = lines(&site.state());
    eventually("the agents end", || site.processes() == 0);
    site.fleet("status").run().exits(0).prints(&["no controller works on it"]);
    site.fleet("resume").run().exits(0);
    all_measured(&site.state(), 12);
    assert!(before < 12, "the run was over when the controller was killed");
    site.fleet("status").run().exits(0).prints(&["12 measured", "it is over"]);
    site.is_clean();
}

#[test]
fn a_cancelled_run_has_a_reason_for_each_pair_that_was_not_measured() {
    let Some(site) =
        Site::new("fleet_run::a_cancelled_run_has_a_reason_for_each_pair_that_was_not_measured", 3)
    else {
        return;
    };
    let run = testing(site.run(), "exclusive", "ping --rate 20 -t 2s --no-baseline").spawn();
    eventually("agents have started", || site.processes() > 3);
    site.fleet("cancel").run().exits(0);
    let done = run.wait();
    let endings = endings(&site.state());
    assert_eq!(endings.len(), 6);
    // Whether a test was over before is chance.
    let measured = endings.iter().any(|ending| ending == "measured");
    assert_eq!(done.code, Some(if measured { 4 } else { 1 }), "{}", done.tell());
    assert!(endings.iter().any(|ending| ending == "cancelled"), "{endings:?}");
    site.is_clean();
}

#[test]
fn hosts_that_are_not_there_are_named_with_the_reason() {
    let Some(site) = Site::new("fleet_run::hosts_that_are_not_there_are_named_with_the_reason", 2) else {
        return;
    };
    let inventory = std::fs::read_to_string(site.inventory()).unwrap() + "nct-absent address=10.77.1.99\n";
    std::fs::write(site.inventory(), inventory).unwrap();
    let done = testing(site.run(), "background", PING).run().exits(4);
    let endings = endings(&site.state());
    assert_eq!((endings.len(), ended(&site.state(), "host_absent")), (6, 4), "{endings:?}");
    assert!(done.err.contains("nct-absent"), "{}", done.err);
    site.is_clean();
}
