//! Equal connections of many clients share one server evenly, and none is told of an error that the
//! network did not make.

use crate::support::net::{a_core, installed};
use crate::support::{Outcome, Proc, netcaliper, serve, sized, skip, tcp};
use serde_json::Value;
use std::process::Command;

/// A run that the machine disturbed is repeated so often; what must never happen must not happen in
/// any.
const TRIES: usize = 5;
/// The slowest connection moves at least this part of the median of its kind.
const EVEN: f64 = 0.5;
/// Below this part of the median a connection has starved: no disturbance of the machine explains
/// it.
const STARVED: f64 = 0.05;

/// Starts `of_each` clients of each of `kinds` in turn and reads the rate of each. Repeats until
/// the slowest of each kind moved at least half of the median of its kind; none may starve.
#[track_caller]
fn share_evenly(kinds: &[&str], of_each: usize, start: impl Fn(&str) -> Proc, rate: impl Fn(Proc) -> f64) {
    let (mut best, mut told) = (0.0_f64, String::new());
    for _ in 0..TRIES {
        let mut running: Vec<(usize, Proc)> = Vec::new();
        for _ in 0..of_each {
            running.extend(kinds.iter().enumerate().map(|(kind, words)| (kind, start(words))));
        }
        let mut rates = vec![Vec::new(); kinds.len()];
        for (kind, client) in running {
            rates[kind].push(rate(client));
        }
        let mut least = f64::INFINITY;
        for (kind, rates) in kinds.iter().zip(&mut rates) {
            rates.sort_by(f64::total_cmp);
            let part = rates[0] / rates[rates.len() / 2];
            assert!(part > STARVED, "{kind}: a connection has starved: {rates:?} bits/s");
            least = least.min(part);
        }
        best = best.max(least);
        if best >= EVEN {
            return;
        }
        told = format!("{rates:?}");
    }
    panic!("the slowest moved {best} of the median in the best of {TRIES} runs; in the last, bits/s: {told}");
}

/// The same with clients of our own protocol, each the arguments of a verb.
#[track_caller]
fn ours(kinds: &[&str], of_each: usize) {
    let server = serve("");
    let start = |words: &str| {
        let (verb, words) = words.split_once(' ').unwrap();
        netcaliper(verb).arg(server.at()).args(words).arg("--json").spawn()
    };
    share_evenly(kinds, of_each, start, |client| {
        let outcome = Outcome::of(client.wait()).good();
        let point = outcome.point();
        let sides = [&point["up"], &point["down"]].map(|side| side["goodput_bps"].as_f64());
        sides.into_iter().flatten().fold(f64::INFINITY, f64::min)
    });
    server.end();
}

#[test]
fn kinds_of_connections_beside_each_other() {
    ours(
        &["tcp -P 1 -t 1s", "tcp -P 1 -R -t 1s", "tcp -P 1 --bidir -t 1s", "stream -b 5M -t 1s"],
        sized(5, 10),
    );
}

/// Connections whose first bytes came late to a busy server were reset after 5 s. One core is as
/// busy as several. `./test` looks for the cause in the simulated engine
/// (`Defect::RegisterWhenIdle`), and here for what a second shows.
#[test]
fn a_thousand_downloads_are_never_reset() {
    let core = format!("--affinity {}", a_core());
    let server = serve(&core);
    let words = format!("-R -P 1000 -t {}", sized("1s", "6s"));
    tcp(server.at()).args(&words).args(&core).outcome().good();
    server.end();
}

#[test]
fn stock_clients_of_iperf3() {
    if !installed("iperf3") {
        return skip("stock_clients_of_iperf3", "iperf3 is not installed");
    }
    let server = serve("--legacy iperf3:0");
    let port = server.proc.port_of("iperf3").to_string();
    let start = |words: &str| {
        let mut command = Command::new("iperf3");
        command.args(["-c", "127.0.0.1", "-p", &port, "-J", "-t", "1"]).args(words.split_whitespace());
        Proc::spawn(&mut command)
    };
    share_evenly(&["-P 1", "-P 1 -R"], sized(5, 10), start, |client| {
        let done = client.wait().exits(0);
        let result: Value =
            serde_json::from_str(&done.out).unwrap_or_else(|e| panic!("{e}: {}", done.tell()));
        let received = &result["end"]["sum_received"]["bits_per_second"];
        received.as_f64().unwrap_or_else(|| panic!("no rate: {}", done.tell()))
    });
    server.end();
}
