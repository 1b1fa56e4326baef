//! A run that controllers share, and whose log the NATS server has lost.

use crate::fleet_nats::Fleet;
use crate::support::as_it_is;
use crate::support::fleet::last_run;

#[test]
fn a_shared_run_whose_log_is_gone_is_not_waited_for() {
    let test = "fleet_gone::a_shared_run_whose_log_is_gone_is_not_waited_for";
    let Some(mut fleet) = Fleet::with_jetstream(test) else { return };
    let leader = fleet.run(&["a", "b"]).arg("--shared").spawn();
    leader.hears("netcaliper: run ");
    let run = last_run(&fleet.scratch.file("state")).expect("the leader has no run");
    let other = fleet.line(as_it_is("fleet").arg("stand-by")).arg(run.file_name().unwrap());
    let other = other.env("XDG_STATE_HOME", fleet.scratch.file("other")).spawn();
    other.hears("stands by");
    leader.signal("KILL");
    fleet.kill_server(0);
    std::fs::remove_dir_all(fleet.scratch.file("jetstream-0")).unwrap();
    fleet.start_server(0);
    // One that stands by already, and one that begins to.
    let resume = as_it_is("fleet").arg("resume").env("XDG_STATE_HOME", fleet.scratch.file("state"));
    for done in [other.wait(), resume.run().says_one_sentence()] {
        let words = ["has no log of run", "for 7 days", "`netcaliper fleet report`", "fleet run --shared"];
        done.exits(1).complains(&words);
    }
}
