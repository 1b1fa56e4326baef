//! Results that no controller has acknowledged, kept at the agent's host: a file for each, in a
//! folder for each run.
//!
//! A result is on the disk before it is sent, and goes when the controller has it on its own.
//! Nothing is left when all are collected: neither files nor the folders that were made for them.
//! If the disk is full, results are kept in memory, with a message.

use crate::message::MAX_REPORT;
use crate::plan::{Attempt, TaskId};
use crate::result::Ending;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// Most results that wait for a controller, of all runs; with more, no test is admitted.
pub const MAX_KEPT: usize = 10_000;

/// A result that waits.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kept {
    /// Which.
    pub attempt: Attempt,
    /// Its ending.
    pub ending: Ending,
    /// Name of the key whose controller ordered it; empty without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner: String,
}

/// All results that wait.
#[derive(Debug)]
pub struct Spool {
    folder: PathBuf,
    kept: BTreeMap<(Uuid, TaskId), Kept>,
    /// Why the last result is in memory only.
    pub(crate) trouble: Option<String>,
}

impl Spool {
    /// The spool in this folder, which need not be there. Files that are no results are left alone.
    #[must_use]
    pub fn open(folder: PathBuf) -> Spool {
        let mut spool = Spool { folder, kept: BTreeMap::new(), trouble: None };
        spool.read();
        spool
    }

    /// Takes in what other agents of this host have left in the folder.
    pub(crate) fn read(&mut self) {
        for run in entries(&self.folder) {
            let id = run.file_name().and_then(|name| name.to_str()?.parse::<Uuid>().ok());
            let Some(id) = id else { continue };
            for file in entries(&run) {
                if self.is_full() {
                    return;
                }
                if let Some(kept) = read(&file) {
                    self.kept.entry((id, kept.attempt.task)).or_insert(kept);
                }
            }
        }
    }

    /// Keeps a result. Of each task that is the first outcome or, until there is one, the reason of
    /// the latest attempt.
    pub(crate) fn keep(&mut self, run: Uuid, kept: Kept) {
        let key = (run, kept.attempt.task);
        let is_better = |before: &Kept| {
            let is_later = kept.attempt.number > before.attempt.number;
            before.ending.reason().is_some() && (kept.ending.reason().is_none() || is_later)
        };
        if self.kept.get(&key).is_some_and(|before| !is_better(before)) {
            return;
        }
        self.trouble = self.write(run, &kept).err().map(|e| format!("{}: {e}", self.folder.display()));
        self.kept.insert(key, kept);
    }

    /// The result of a task.
    pub(crate) fn get(&self, run: Uuid, task: TaskId) -> Option<&Kept> {
        self.kept.get(&(run, task))
    }

    /// All results of a run.
    pub(crate) fn of(&self, run: Uuid) -> impl Iterator<Item = &Kept> {
        self.kept.range((run, TaskId(0))..=(run, TaskId(u32::MAX))).map(|(_, kept)| kept)
    }

    /// True if it can take no more.
    pub(crate) fn is_full(&self) -> bool {
        self.kept.len() >= MAX_KEPT
    }

    /// The controller has the result of this attempt at a task; without a number, of any attempt.
    pub(crate) fn stored(&mut self, run: Uuid, task: TaskId, number: Option<u32>) {
        let is_stored = |kept: &Kept| number.is_none_or(|number| number == kept.attempt.number);
        if self.get(run, task).is_some_and(is_stored) {
            self.forget(run, task);
        }
    }

    /// Keeps nothing of a task any more.
    pub(crate) fn forget(&mut self, run: Uuid, task: TaskId) {
        if self.kept.remove(&(run, task)).is_none() {
            return;
        }
        let file = self.file(run, task);
        // The file may be missing: the disk was full then.
        let _ = fs::remove_file(&file);
        // The run's folder, the spool's own and the two above it (`netcaliper/fleet`): one with
        // anything in it stays.
        let mut folders = file.ancestors().skip(1).take(4);
        while folders.next().is_some_and(|folder| fs::remove_dir(folder).is_ok()) {}
    }

    fn file(&self, run: Uuid, task: TaskId) -> PathBuf {
        self.folder.join(run.to_string()).join(format!("{}.json", task.0))
    }

    fn write(&self, run: Uuid, kept: &Kept) -> io::Result<()> {
        let path = self.file(run, kept.attempt.task);
        fs::create_dir_all(self.folder.join(run.to_string()))?;
        write_whole(&path, &serde_json::to_vec(kept)?)
    }
}

/// Writes a file that is there whole or not at all, and on the disk when this returns.
///
/// # Errors
/// When the disk does not take it.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let partial = path.with_extension("partial");
    let written = File::create(&partial).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&partial, path)?;
        // Other systems open no folders.
        let folder = path.parent().filter(|_| cfg!(unix));
        folder.map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    });
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    written
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_KEPT).map(|entry| entry.path()).collect()
}

fn read(file: &Path) -> Option<Kept> {
    let task: u32 = file.file_name()?.to_str()?.strip_suffix(".json")?.parse().ok()?;
    let mut bytes = Vec::new();
    File::open(file).ok()?.take(MAX_REPORT as u64).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice::<Kept>(&bytes).ok().filter(|kept| kept.attempt.task.0 == task)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Reason;

    fn kept(task: u32, detail: &str) -> Kept {
        let attempt = Attempt { task: TaskId(task), number: 1 };
        Kept { attempt, ending: Ending::missing(Reason::Failed, detail), owner: String::new() }
    }

    fn detail(spool: &Spool, run: Uuid, task: u32) -> Option<String> {
        match &spool.get(run, TaskId(task))?.ending {
            Ending::Missing { detail, .. } => Some(detail.clone()),
            Ending::Measured(_) => None,
        }
    }

    /// A folder of this test, gone when dropped.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let folder = std::env::temp_dir().join(format!("nc-spool-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            Scratch(folder)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn results_outlive_the_agent_and_go_with_the_acknowledgement() {
        let scratch = Scratch::new("life");
        fs::write(scratch.0.join("other"), "stays").unwrap();
        let folder = scratch.0.join("netcaliper/fleet/host");
        let (run, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let mut spool = Spool::open(folder.clone());
        spool.keep(run, kept(3, "first"));
        spool.keep(run, kept(3, "second"));
        spool.keep(other, kept(3, "another run"));
        let mut again = Spool::open(folder.clone());
        assert_eq!(detail(&again, run, 3).as_deref(), Some("first"), "a task has one result");
        assert_eq!(again.of(run).count(), 1);
        again.forget(run, TaskId(3));
        again.forget(run, TaskId(3));
        assert_eq!(Spool::open(folder.clone()).of(run).count(), 0);
        assert_eq!(Spool::open(folder).of(other).count(), 1);
        again.forget(other, TaskId(3));
        assert!(!scratch.0.join("netcaliper").exists(), "empty folders are gone");
        assert!(scratch.0.join("other").exists());
    }

    #[test]
    fn a_later_attempt_takes_the_place_of_a_reason_and_an_outcome_stays() {
        let scratch = Scratch::new("attempts");
        let run = Uuid::from_u128(1);
        let mut spool = Spool::open(scratch.0.clone());
        let outcome = || Ending::Measured(serde_json::value::RawValue::NULL.to_owned());
        let failed = || Ending::missing(Reason::Failed, "");
        for (number, ending, stays) in [
            (2, failed(), 2),
            (1, failed(), 2),
            (3, failed(), 3),
            (2, outcome(), 2),
            (4, outcome(), 2),
            (5, failed(), 2),
        ] {
            let attempt = Attempt { task: TaskId(1), number };
            spool.keep(run, Kept { attempt, ending, owner: String::new() });
            for spool in [&spool, &Spool::open(scratch.0.clone())] {
                assert_eq!(
                    spool.get(run, TaskId(1)).unwrap().attempt.number,
                    stays,
                    "after attempt {number}"
                );
            }
        }
        spool.stored(run, TaskId(1), Some(1));
        assert_eq!(spool.of(run).count(), 1, "the controller has another attempt's");
        spool.stored(run, TaskId(1), Some(2));
        assert_eq!(spool.of(run).count(), 0);
        spool.keep(run, kept(1, "again"));
        spool.stored(run, TaskId(1), None);
        assert_eq!(spool.of(run).count(), 0, "a controller that names no attempt");
    }

    #[test]
    fn damaged_files_are_no_results() {
        let scratch = Scratch::new("damage");
        let run = Uuid::from_u128(1);
        let mut spool = Spool::open(scratch.0.clone());
        spool.keep(run, kept(1, "good"));
        let folder = scratch.0.join(run.to_string());
        fs::write(folder.join("2.json"), "{\"attempt\":").unwrap();
        fs::copy(folder.join("1.json"), folder.join("3.json")).unwrap();
        fs::write(folder.join("4.partial"), "").unwrap();
        assert_eq!(Spool::open(scratch.0.clone()).of(run).count(), 1);
    }

    #[test]
    fn a_disk_that_takes_nothing_costs_no_result() {
        let scratch = Scratch::new("full");
        fs::write(scratch.0.join("file"), "").unwrap();
        let run = Uuid::from_u128(1);
        let mut spool = Spool::open(scratch.0.join("file"));
        spool.keep(run, kept(1, "good"));
        assert_eq!(detail(&spool, run, 1).as_deref(), Some("good"));
        assert!(spool.trouble.is_some());
    }
}
