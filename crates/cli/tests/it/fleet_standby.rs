//! Controllers that share runs on a NATS server with JetStream: one leads, and others stand by.

use crate::fleet_nats::Fleet;
use crate::support::fleet::{all_measured, last_run, lines, testing};
use crate::support::{Done, Line, Proc, as_it_is, eventually};
use std::path::PathBuf;

const NAMES: [&str; 3] = ["a", "b", "c"];
const TEST: &str = "ping --rate 20 -t 300ms --no-baseline";

/// Agents, and controllers with a folder each.
struct Site {
    fleet: Fleet,
    agents: Vec<Proc>,
}

impl Site {
    fn new(test: &str) -> Option<Site> {
        Some(Site::of(Fleet::with_jetstream(&format!("fleet_standby::{test}"))?))
    }

    fn of(fleet: Fleet) -> Site {
        let agents = NAMES.iter().map(|name| fleet.agent(name)).collect();
        Site { fleet, agents }
    }

    fn state(&self, controller: &str) -> PathBuf {
        self.fleet.scratch.file(controller)
    }

    /// The controller that begins a run.
    fn leader(&self, words: &str) -> Proc {
        let line = self.fleet.run(&NAMES).env("XDG_STATE_HOME", self.state("leader")).arg("--shared");
        testing(line.args(words), "exclusive", TEST).spawn()
    }

    fn stand_by_line(&self, controller: &str) -> Line {
        let line = self.fleet.line(as_it_is("fleet").arg("stand-by"));
        line.env("XDG_STATE_HOME", self.state(controller))
    }

    /// One that stands by for the leader's run.
    fn stand_by(&self, controller: &str) -> Proc {
        let run = last_run(&self.state("leader")).expect("the leader has no run");
        self.stand_by_line(controller).arg(run.file_name().unwrap()).spawn()
    }

    /// Results at the leader.
    fn so_far(&self, n: usize) {
        eventually("results come", || lines(&self.state("leader")) >= n);
    }

    /// No agent keeps a result. The last acknowledgements may be under way when the controller has
    /// ended.
    fn nothing_is_kept(self) {
        for (name, agent) in NAMES.iter().zip(self.agents) {
            eventually(&format!("{name} keeps no result"), || !self.fleet.scratch.file(name).exists());
            agent.signal("TERM");
            agent.wait().exits(0);
        }
    }
}

fn led(done: &Done) -> usize {
    done.err.matches("netcaliper: leads run").count()
}

#[test]
fn one_of_those_that_stand_by_ends_the_run_of_a_killed_leader() {
    let Some(site) = Site::new("one_of_those_that_stand_by_ends_the_run_of_a_killed_leader") else { return };
    let leader = site.leader("--repeats 4");
    site.so_far(3);
    let others = ["second", "third"].map(|name| (name, site.stand_by(name)));
    others.iter().for_each(|(_, other)| drop(other.hears("stands by")));
    leader.signal("KILL");
    drop(leader);
    let before = lines(&site.state("leader"));
    let mut leads = 0;
    for (name, other) in others {
        let done = other.wait().exits(0);
        leads += led(&done);
        // Also the one that did not lead has the whole result.
        all_measured(&site.state(name), 24);
    }
    assert_eq!(leads, 1);
    assert!(before < 24, "the run was over when its leader was killed");
    site.nothing_is_kept();
}

#[test]
fn a_leader_that_slept_while_another_took_over_stands_by() {
    let Some(site) = Site::new("a_leader_that_slept_while_another_took_over_stands_by") else { return };
    let leader = site.leader("--repeats 8");
    site.so_far(2);
    let second = site.stand_by("second");
    second.hears("stands by");
    leader.signal("STOP");
    second.hears("leads run");
    eventually("the second one has results", || {
        lines(&site.state("second")) >= lines(&site.state("leader")) + 2
    });
    leader.signal("CONT");
    leader.hears("the lease is lost");
    second.wait().exits(0);
    leader.wait().exits(0);
    for name in ["leader", "second"] {
        all_measured(&site.state(name), 48);
    }
    site.nothing_is_kept();
}

#[test]
fn an_interrupted_leader_hands_the_run_over_at_once() {
    let Some(site) = Site::new("an_interrupted_leader_hands_the_run_over_at_once") else { return };
    let leader = site.leader("--repeats 4");
    site.so_far(2);
    let second = site.stand_by("second");
    second.hears("stands by");
    leader.signal("INT");
    leader.wait().exits(130);
    second.wait().exits(0);
    all_measured(&site.state("second"), 24);
    site.nothing_is_kept();
}

#[test]
fn a_shared_run_is_in_the_folder_that_the_user_names_and_goes_on_from_there() {
    let name = "a_shared_run_is_in_the_folder_that_the_user_names_and_goes_on_from_there";
    let Some(site) = Site::new(name) else { return };
    let folder = site.fleet.scratch.file("named");
    let line = site.fleet.run(&NAMES).env("XDG_STATE_HOME", site.state("leader")).arg("--shared");
    let leader = testing(line.arg("--state").arg(&folder), "exclusive", TEST).spawn();
    let results =
        || std::fs::read_to_string(folder.join("results.jsonl")).unwrap_or_default().lines().count();
    eventually("results are in the folder", || results() >= 2);
    leader.signal("INT");
    leader.wait().exits(130).complains(&[&format!("fleet resume {}", folder.display())]);
    // Nothing is where runs without a folder of their own are.
    assert!(last_run(&site.state("leader")).is_none());
    let resumed = as_it_is("fleet").arg("resume").arg(&folder);
    resumed.env("XDG_STATE_HOME", site.state("other")).run().exits(0);
    assert_eq!(results(), 6);
    site.nothing_is_kept();
}

#[test]
fn a_server_that_was_killed_keeps_what_it_has_acknowledged() {
    let Some(mut site) = Site::new("a_server_that_was_killed_keeps_what_it_has_acknowledged") else { return };
    let leader = site.leader("--repeats 4");
    site.so_far(3);
    site.fleet.kill_server(0);
    site.fleet.start_server(0);
    leader.wait().exits(0);
    all_measured(&site.state("leader"), 24);
    site.nothing_is_kept();
}

/// Each server of the cluster in turn: one of them leads it.
#[test]
fn a_cluster_whose_leader_is_killed_costs_no_result() {
    let test = "fleet_standby::a_cluster_whose_leader_is_killed_costs_no_result";
    let Some(fleet) = Fleet::with_cluster(test) else { return };
    let mut site = Site::of(fleet);
    let leader = site.leader("--repeats 6");
    for at in 0..3 {
        site.so_far(10 * at + 3);
        site.fleet.kill_server(at);
        site.fleet.start_server(at);
    }
    leader.wait().exits(0);
    all_measured(&site.state("leader"), 36);
    site.nothing_is_kept();
}

#[test]
fn the_rounds_of_a_series_go_on_with_another_controller() {
    let Some(site) = Site::new("the_rounds_of_a_series_go_on_with_another_controller") else { return };
    let leader = site.leader("--every 40s --count 2");
    leader.hears("round 2 of 2 is due");
    let second = site.stand_by("second");
    second.hears("stands by");
    leader.signal("KILL");
    drop(leader);
    let done = second.wait().exits(0);
    assert_eq!(led(&done), 1, "{}", done.err);
    assert!(done.out.contains("Round 2 of 2"), "{}", done.out);
    all_measured(&site.state("second"), 6);
    site.nothing_is_kept();
}

#[test]
fn a_server_without_a_store_is_named() {
    let Some(fleet) = Fleet::new("fleet_standby::a_server_without_a_store_is_named") else { return };
    let line = testing(fleet.run(&NAMES).arg("--shared"), "background", "ping");
    line.run().exits(1).complains(&["JetStream", "nats-server -js"]);
}
