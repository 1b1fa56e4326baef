//! Fleets in a build that does not have them.

use crate::support::{as_it_is, skip};

#[test]
fn agents_are_refused_in_a_sentence_that_names_the_build() {
    as_it_is("agent").args("--stdio").run().exits(2).says_one_sentence().complains(&["--features fleet"]);
    skip("fleet_agent", "netcaliper was built without the feature fleet: none of these tests");
}
