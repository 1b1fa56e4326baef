//! The alert of a fleet: the user's commands, once for each change of the verdicts, which are kept
//! beside the folders of the runs.

use super::ShowArgs;
use crate::outputs::alert::Alert;
use console::error::CliError;
use console::file::state_folder;
use console::{file, stderr};
use fleet::matrix::{FEWEST, Matrix, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// Time that the user's command has before the controller goes on.
const LIMIT: Duration = Duration::from_secs(60);
/// Most fleets whose verdicts are kept; the oldest is forgotten.
const MOST_FLEETS: usize = 100;

/// The latest verdicts on a fleet.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Known {
    tests: Vec<String>,
    hosts: Vec<String>,
    verdicts: Vec<Verdict>,
}

impl Known {
    /// True for the same tests of mostly the same hosts: an inventory grows and shrinks.
    fn is_of(&self, other: &Known) -> bool {
        let common = self.hosts.iter().filter(|host| other.hosts.contains(host)).count();
        self.tests == other.tests && 2 * common >= self.hosts.len().max(other.hosts.len())
    }
}

/// The verdicts of a result that alerts are about: changes count against a result that the user
/// names, because the round before moves along with the fleet.
pub(super) fn verdicts(matrix: &Matrix, args: &ShowArgs) -> Vec<Verdict> {
    let changes = matrix.changes.iter().filter(|_| args.baseline.is_some());
    matrix.verdicts.iter().chain(changes).cloned().collect()
}

/// Runs the user's commands where the verdicts differ from the latest ones on this fleet.
pub(super) fn alert(matrix: &Matrix, args: &ShowArgs) -> Result<(), CliError> {
    let wanted = args.on_verdict.is_some() || args.on_mend.is_some();
    if (wanted || args.fail_on_verdict) && !matrix.is_judged() {
        stderr::say(format_args!(
            "netcaliper: warning: figures are not judged: {FEWEST} hosts with a result are needed"
        ));
    }
    let verdicts = verdicts(matrix, args);
    if !wanted || (matrix.counts().measured == 0 && verdicts.is_empty()) {
        return Ok(());
    }
    let path = state_folder()?.join("runs").join("verdicts.json");
    let mut all = read(&path);
    let fleet = Known {
        tests: matrix.tests.iter().map(fleet::plan::Test::words).collect(),
        hosts: matrix.inventory.hosts.iter().map(|host| host.name.clone()).collect(),
        verdicts,
    };
    let before = all.iter().position(|known| known.is_of(&fleet)).map(|at| all.remove(at));
    let (now, news) = change(matrix, before.clone().unwrap_or_default().verdicts, fleet.verdicts.clone());
    let command = match &news {
        Some(alert) if alert.mended.is_empty() => args.on_verdict.as_ref(),
        Some(_) => args.on_mend.as_ref(),
        None => None,
    };
    let delivered = news.zip(command).is_none_or(|(alert, command)| alert.run(command, LIMIT));
    // News that was not delivered stays news.
    let kept = if delivered { now } else { before.unwrap_or_default().verdicts };
    all.push(Known { verdicts: kept, ..fleet });
    all.drain(..all.len().saturating_sub(MOST_FLEETS));
    file::folder(path.parent().unwrap_or(&path))?;
    file::put(&path, |out| {
        serde_json::to_writer(&mut *out, &all).map_err(std::io::Error::from)?;
        writeln!(out)
    })
}

/// The kept verdicts; none where the file is missing or damaged.
fn read(path: &Path) -> Vec<Known> {
    let text = std::fs::read(path).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// The verdicts that hold now, and the news in them, if there are any. A verdict on something that
/// was not measured this time still holds.
fn change(matrix: &Matrix, before: Vec<Verdict>, now: Vec<Verdict>) -> (Vec<Verdict>, Option<Alert>) {
    let has = |all: &[Verdict], of: &Verdict| all.iter().any(|one| one.is_like(of));
    let unmeasured = |old: &Verdict| !matrix.has_readings(old);
    let mut all = now;
    let (held, mended): (Vec<Verdict>, Vec<Verdict>) = {
        let gone = before.iter().filter(|old| !has(&all, old)).cloned();
        gone.partition(unmeasured)
    };
    let is_new = all.iter().any(|verdict| !has(&before, verdict));
    all.extend(held);
    let words = |verdicts: &[Verdict]| verdicts.iter().map(Verdict::words).collect::<Vec<_>>();
    let names: BTreeSet<String> = all.iter().chain(&mended).map(Verdict::name).collect();
    let names: Vec<String> = names.into_iter().collect();
    let alert = |broken, mended| Alert {
        broken,
        mended,
        run: matrix.run.to_string(),
        verb: "fleet".to_owned(),
        target: names.join(" "),
    };
    let news = match (is_new, all.is_empty() && !mended.is_empty()) {
        (true, _) => Some(alert(words(&all), Vec::new())),
        (false, true) => Some(alert(Vec::new(), words(&mended))),
        (false, false) => None,
    };
    (all, news)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(host: &str, effect: f64) -> Verdict {
        let json = serde_json::json!({
            "kind": "host", "host": host, "side": "out", "figure": "goodput", "effect": effect, "q": 0.001,
        });
        serde_json::from_value(json).unwrap()
    }

    /// A result in which these hosts sent something.
    fn matrix(hosts: &[&str]) -> Matrix {
        let cell = |host: &&str| serde_json::json!({ "from": host, "to": "x", "test": 0, "readings": { "goodput": [1.0] } });
        let named = |host: &&str| serde_json::json!({ "name": host, "address": host });
        let hosts_of = hosts.iter().chain(&["x"]).map(named);
        let document = serde_json::json!({
            "schema": fleet::matrix::SCHEMA,
            "run": "00000000-0000-0000-0000-000000000001",
            "made": 0,
            "inventory": { "hosts": hosts_of.collect::<Vec<_>>() },
            "tests": [],
            "cells": hosts.iter().map(cell).collect::<Vec<_>>(),
            "verdicts": [],
        });
        Matrix::read(document.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_change_is_news_once() {
        let all = matrix(&["h1", "h2", "h5"]);
        let (known, news) = change(&all, Vec::new(), vec![verdict("h5", 0.4)]);
        let news = news.unwrap();
        assert_eq!(news.broken, ["h5 sends 40 % less than the others do (goodput)"]);
        assert_eq!((news.target.as_str(), news.mended.len()), ("h5", 0));
        // As bad, a little more or less, is no news.
        let (known, news) = change(&all, known, vec![verdict("h5", 0.42)]);
        assert!(news.is_none());
        let (known, news) = change(&all, known, vec![verdict("h5", 0.4), verdict("h2", 0.3)]);
        assert_eq!(news.unwrap().broken.len(), 2, "all that is broken is said");
        let (known, news) = change(&all, known, vec![verdict("h2", 0.3)]);
        assert!(news.is_none(), "some of it is still broken");
        let (known, news) = change(&all, known, Vec::new());
        let news = news.unwrap();
        assert!(known.is_empty() && news.broken.is_empty());
        assert_eq!(news.mended, ["h2 sends 30 % less than the others do (goodput)"]);
        assert!(change(&all, known, Vec::new()).1.is_none());
    }

    #[test]
    fn a_host_that_was_not_measured_has_not_mended() {
        let (known, news) = change(&matrix(&["h1"]), vec![verdict("h5", 0.4)], Vec::new());
        assert!(news.is_none() && known.len() == 1);
        let (known, news) = change(&matrix(&["h1", "h5"]), known, Vec::new());
        assert!(known.is_empty() && !news.unwrap().mended.is_empty());
    }

    #[test]
    fn a_fleet_is_known_again_when_its_inventory_grows() {
        let known = |tests: &str, hosts: &[&str]| Known {
            tests: vec![tests.to_owned()],
            hosts: hosts.iter().map(ToString::to_string).collect(),
            verdicts: Vec::new(),
        };
        let four = known("tcp", &["a", "b", "c", "d"]);
        assert!(four.is_of(&known("tcp", &["a", "b", "c", "d", "e"])));
        assert!(!four.is_of(&known("ping", &["a", "b", "c", "d"])));
        assert!(!four.is_of(&known("tcp", &["x", "y", "z", "d"])));
    }
}
