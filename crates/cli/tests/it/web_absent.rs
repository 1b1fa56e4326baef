//! Pages and metrics over HTTP in a build that does not have them.

use crate::support::{netcaliper, skip};

#[test]
fn pages_are_refused_in_a_sentence_that_names_the_build() {
    for words in ["ping 127.0.0.1 --web=0", "serve -B 127.0.0.1 -p 0 --metrics 0"] {
        let (verb, words) = words.split_once(' ').unwrap();
        netcaliper(verb).args(words).run().exits(2).says_one_sentence().complains(&["--features http"]);
    }
    skip("web", "netcaliper was built without the feature http: none of these tests, nor those of scrapers");
}
