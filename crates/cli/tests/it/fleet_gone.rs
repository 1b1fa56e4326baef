//! A run that controllers share, and whose log the NATS server has lost.

use crate::fleet_nats::Fleet;
use crate::support::as_it_is;

#[test]
fn a_shared_run_whose_log_is_gone_is_not_waited_for() {
    let test = "fleet_gone::a_shared_run_whose_log_is_gone_is_not_waited_for";
    let Some(mut fleet) = Fleet::with_jetstream(test) else { return };
    let leader = fleet.run(&["a", "b"]).arg("--shared").spawn();
    leader.hears("netcaliper: run ");
    leader.signal("INT");
    leader.wait().exits(130);
    fleet.kill_server(0);
    std::fs::remove_dir_all(fleet.scratch.file("jetstream-0")).unwrap();
    fleet.start_server(0);
    as_it_is("fleet")
        .arg("resume")
        .env("XDG_STATE_HOME", fleet.scratch.file("state"))
        .run()
        .exits(1)
        .says_one_sentence()
        .complains(&["has no log of run", "for 7 days", "`netcaliper fleet report`", "fleet run --shared"]);
}
