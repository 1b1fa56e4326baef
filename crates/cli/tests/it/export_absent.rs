//! Sending results in a build that cannot.

use crate::support::{netcaliper, skip};

#[test]
fn sending_is_refused_in_a_sentence_that_names_the_build() {
    let line = netcaliper("ping").args("127.0.0.1 --export otlp+http://127.0.0.1");
    line.run().exits(2).says_one_sentence().complains(&["--features export"]);
    skip("export", "netcaliper was built without the feature export: none of these tests");
}
