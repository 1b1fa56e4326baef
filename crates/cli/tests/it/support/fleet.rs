//! Commands of fleets, and the results of a run as its folder has them.

use super::Line;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A test of a quarter of a second.
pub(crate) const PING: &str = "ping -n 5 --rate 20 --no-baseline";

/// The same command of a fleet with a test of this class.
pub(crate) fn testing(line: Line, class: &str, test: &str) -> Line {
    line.arg("--class").arg(class).arg("--test").arg(test)
}

/// Processes with this entry in their environment.
pub(crate) fn marked(entry: &str) -> usize {
    let of = |process: std::fs::DirEntry| std::fs::read(process.path().join("environ")).ok();
    let all = std::fs::read_dir("/proc").unwrap().flatten().filter_map(of);
    all.filter(|environ| environ.split(|byte| *byte == 0).any(|own| own == entry.as_bytes())).count()
}

/// Folder of the last run that was made with this XDG_STATE_HOME.
pub(crate) fn last_run(state: &Path) -> Option<PathBuf> {
    let runs = std::fs::read_dir(state.join("netcaliper/runs")).ok()?.flatten();
    let made = |entry: &std::fs::DirEntry| {
        entry.path().join("plan.json").metadata().and_then(|file| file.modified()).ok()
    };
    runs.filter_map(|entry| Some((made(&entry)?, entry.path()))).max().map(|(_, folder)| folder)
}

/// Lines of results so far.
pub(crate) fn lines(state: &Path) -> usize {
    let text = last_run(state).and_then(|folder| std::fs::read_to_string(folder.join("results.jsonl")).ok());
    text.map_or(0, |text| text.lines().count())
}

/// Why each task of the last run has no outcome; `measured` where it has one. No task has two
/// outcomes.
#[track_caller]
pub(crate) fn endings(state: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(last_run(state).expect("no run").join("results.jsonl")).unwrap();
    let mut endings: BTreeMap<u64, String> = BTreeMap::new();
    for line in text.lines() {
        let result: Value = serde_json::from_str(line).unwrap();
        let reason = result["ending"]["missing"]["reason"].as_str();
        let is_outcome = result["ending"]["measured"]["begin"]["verb"].is_string();
        assert!(reason.is_some() || is_outcome, "no outcome: {line}");
        let before =
            endings.insert(result["task"].as_u64().unwrap(), reason.unwrap_or("measured").to_owned());
        assert_ne!(before.as_deref(), Some("measured"), "two results: {line}");
    }
    endings.into_values().collect()
}

/// How many tasks of the last run ended so.
#[track_caller]
pub(crate) fn ended(state: &Path, how: &str) -> usize {
    endings(state).iter().filter(|ending| *ending == how).count()
}

/// All tasks of the last run were measured.
#[track_caller]
pub(crate) fn all_measured(state: &Path, tasks: usize) {
    let endings = endings(state);
    let missing: Vec<&String> = endings.iter().filter(|ending| *ending != "measured").collect();
    assert!(
        missing.is_empty() && endings.len() == tasks,
        "{} of {tasks} results, without outcome: {missing:?}",
        endings.len()
    );
}
