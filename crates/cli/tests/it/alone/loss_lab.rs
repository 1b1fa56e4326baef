//! Paths of the lab that carry TCP and lose nine datagrams in ten: these are measured, and no
//! firewall is suspected.

use crate::support::files::Scratch;
use crate::support::lab::{lab, served};
use crate::support::{BIN, Outcome, at_once, number, sized, text};
use serde_json::Value;

/// Runs a question on a path that loses nine datagrams in ten; its outcome, and how many the lab
/// lost each way.
fn lossy(test: &str, loss: &str, question: &str) -> Option<(Outcome, [u64; 2])> {
    let options = format!("-q --wait sleep --only udp --seed 9 {loss} --report");
    let lab = lab(&format!("loss_lab::{test}"), &options)?;
    let scratch = Scratch::new();
    let report = scratch.file("report.json");
    let (verb, rest) = question.split_once(' ').unwrap();
    let command = format!("{BIN} {verb} $NETCALIPER_LAB_SERVER {rest} --json");
    let outcome = Outcome::of(served(lab.arg(&report), &command).run());
    let told: Value = serde_json::from_str(&std::fs::read_to_string(&report).unwrap()).unwrap();
    let lost = ["up", "down"].map(|way| number(&told[way]["counts"]["lost_random"]));
    Some((outcome, lost))
}

/// Datagrams and messages that either end sent.
fn sent(outcome: &Outcome) -> u64 {
    let point = outcome.point();
    let datagrams = [&point["local"], &point["remote"][0]].map(|end| &end["packets"]["counts"]["sent"]);
    let messages = &point["local"]["pings"]["counts"]["sent"];
    datagrams.into_iter().chain([messages]).filter_map(Value::as_u64).sum()
}

#[test]
fn a_path_that_loses_nine_in_ten_is_measured() {
    const TEST: &str = "a_path_that_loses_nine_in_ten_is_measured";
    let measure = |(loss, question): (&str, &str)| {
        let Some((outcome, lost)) = lossy(TEST, loss, question) else { return };
        let told = format!("{loss}, {question}: {}", outcome.tell());
        assert!(lost.iter().sum::<u64>() > 0 && sent(&outcome) > 0, "{told}");
        assert!(matches!(outcome.done.code, Some(0 | 4)), "{told}");
        assert!(matches!(text(&outcome.json["status"]), "complete" | "partial"), "{told}");
        assert!(
            !outcome.done.err.contains("firewall") && !outcome.json.to_string().contains("firewall"),
            "{told}"
        );
    };
    const DELAY: &str = "delay --pps 100 --wait block -t 3s";
    const BACK: &str = "delay -R --pps 100 --wait block -t 3s";
    const PING: &str = "ping -u --no-baseline --rate 100 -t 3s";
    const CASES: [(&str, &str); 7] = [
        ("--up loss=90%", DELAY),
        ("--loss 90%", BACK),
        ("--down loss=90%", PING),
        ("--down loss=90%", DELAY),
        ("--loss 90%", DELAY),
        ("--up loss=90%", PING),
        ("--loss 90%", PING),
    ];
    // The simulated engine has every question on each of these paths (`reach`).
    at_once(&CASES[..sized(3, CASES.len())], measure);
}
