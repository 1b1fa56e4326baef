//! Credentials of iperf3 in a build that does not know them.

use crate::support::files::Scratch;
use crate::support::{netcaliper, skip};

#[test]
fn credentials_are_refused_in_a_sentence_that_names_the_build() {
    let scratch = Scratch::new();
    let file = scratch.with("any", "");
    let server = netcaliper("iperf3").args("-s -p 0 --rsa-private-key-path").arg(&file);
    let client = netcaliper("iperf3").args("-c 127.0.0.1 --username mario --rsa-public-key-path").arg(&file);
    // Not even a password is asked for.
    for line in [server.arg("--authorized-users-path").arg(&file), client.without("IPERF3_PASSWORD")] {
        let done = line.run().exits(1);
        assert!(done.err.contains("--features iperf3-auth"), "{}", done.tell());
    }
    skip(
        "iperf3_auth",
        "netcaliper was built without the feature iperf3-auth: none of these tests, nor those of wire",
    );
}
