//! The folder of a run as its controller holds it: the [`Record`] of plan and results, and beside
//! it
//!
//! | file | what |
//! |---|---|
//! | `reach.json` | how the hosts are reached, and how many controllers the run has had |
//! | `lock` | locked by the controller that works on the run |
//! | `cancel` | is there when the run is to be cancelled |

use crate::plan::{Plan, TaskId};
use crate::record::{Appender, Record};
use crate::result::{Ending, PairResult, Reason, Standing};
use crate::spool::write_whole;
use metrics::Wall;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Continuation of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Continuation {
    /// Number of controllers that the run has had.
    epoch: u64,
    /// Way to the hosts; written and read by the command line.
    reach: serde_json::Value,
}

impl Continuation {
    fn read(folder: &Path) -> io::Result<Continuation> {
        Ok(serde_json::from_slice(&fs::read(folder.join("reach.json"))?)?)
    }

    fn write(&self, folder: &Path) -> io::Result<()> {
        write_whole(&folder.join("reach.json"), &serde_json::to_vec(self)?)
    }
}

/// Adds results to a second place, which has each before the run's folder has it; they are safe
/// there when this returns.
pub type Mirror = Box<dyn FnMut(&[PairResult]) -> io::Result<()> + Send>;

/// The folder of a run, held by one controller.
pub struct Journal {
    folder: PathBuf,
    record: Record,
    appender: Appender,
    held: Continuation,
    /// True if another controller has worked on the run before.
    takes_over: bool,
    mirror: Option<Mirror>,
    /// Unlocked when closed.
    _lock: File,
}

impl Journal {
    /// Makes the folder of a new run.
    ///
    /// # Errors
    /// One sentence, when the disk does not take it or the folder has a run already.
    pub fn create(folder: &Path, plan: Plan, reach: serde_json::Value) -> Result<Journal, String> {
        let failed = |e: io::Error| match e.kind() {
            io::ErrorKind::AlreadyExists => {
                format!("{} has a run already: `netcaliper fleet resume` goes on with it", folder.display())
            }
            _ => format!("cannot keep the run in {}: {e}", folder.display()),
        };
        fs::create_dir_all(folder).map_err(failed)?;
        let lock = hold(folder)?;
        if folder.join("plan.json").try_exists().map_err(failed)? {
            return Err(failed(io::ErrorKind::AlreadyExists.into()));
        }
        // The plan is written last: a folder with one is a run, which can be resumed.
        let held = Continuation { epoch: 1, reach };
        held.write(folder).map_err(failed)?;
        let record = Record::create(folder, plan).map_err(failed)?;
        Journal::of(folder, record, held, lock, false).map_err(failed)
    }

    /// Takes over the run in a folder.
    ///
    /// # Errors
    /// One sentence, when there is none or another controller works on it.
    pub fn resume(folder: &Path) -> Result<Journal, String> {
        let failed = |e: io::Error| format!("cannot go on with the run in {}: {e}", folder.display());
        Record::open(folder).map_err(failed)?;
        let lock = hold(folder)?;
        // The state that another controller wrote before it ended.
        let record = Record::open(folder).map_err(failed)?;
        let mut held = Continuation::read(folder).map_err(failed)?;
        held.epoch += 1;
        held.write(folder).map_err(failed)?;
        let _ = fs::remove_file(folder.join("cancel"));
        Journal::of(folder, record, held, lock, true).map_err(failed)
    }

    fn of(
        folder: &Path,
        record: Record,
        held: Continuation,
        lock: File,
        takes_over: bool,
    ) -> io::Result<Journal> {
        let appender = record.append()?;
        let folder = folder.to_owned();
        Ok(Journal { folder, record, appender, held, takes_over, mirror: None, _lock: lock })
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The plan of the run, and its results.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Way to the hosts.
    #[must_use]
    pub fn reach(&self) -> &serde_json::Value {
        &self.held.reach
    }

    /// Way to the hosts of the run in a folder.
    ///
    /// # Errors
    /// When the folder does not have it.
    pub fn reach_in(folder: &Path) -> io::Result<serde_json::Value> {
        Continuation::read(folder).map(|held| held.reach)
    }

    /// Number of this controller among all of the run, from 1.
    pub(crate) fn epoch(&self) -> u64 {
        self.held.epoch
    }

    /// True if tests of another controller may still run.
    pub(crate) fn takes_over(&self) -> bool {
        self.takes_over
    }

    /// Adds results; they are on the disk when this returns.
    ///
    /// # Errors
    /// When the disk, or the mirror, does not take them.
    pub fn append(&mut self, results: &[PairResult]) -> io::Result<()> {
        if let Some(mirror) = &mut self.mirror {
            mirror(results)?;
        }
        self.appender.push(results)
    }

    /// Takes over the results that a mirror has, and keeps it up from here on. `epoch` grows with
    /// the controllers of the run; `was_led` says whether there was one before this one.
    ///
    /// # Errors
    /// When the disk does not take them.
    pub fn adopt(
        &mut self,
        epoch: u64,
        was_led: bool,
        results: Vec<PairResult>,
        mirror: Option<Mirror>,
    ) -> io::Result<()> {
        self.takes_over |= was_led;
        let known = latest(&self.record)?;
        let is_measured = |result: &PairResult| result.ending.reason().is_none();
        let is_new = |result: &PairResult| match known.get(&result.task) {
            Some(known) => is_measured(result) && !is_measured(known),
            None => true,
        };
        let there: BTreeSet<TaskId> = results.iter().map(|result| result.task).collect();
        let new: Vec<PairResult> = results.into_iter().filter(is_new).collect();
        self.appender.push(&new)?;
        let only_here: Vec<PairResult> =
            known.into_values().filter(|result| !there.contains(&result.task)).collect();
        self.held.epoch = self.held.epoch.max(epoch);
        self.held.write(&self.folder)?;
        self.mirror = mirror;
        // The mirror lacks results that this disk has.
        self.mirror.as_mut().map_or(Ok(()), |mirror| mirror(&only_here))
    }

    /// Ends every task that has no result as cancelled. Returns how many.
    ///
    /// # Errors
    /// When the results cannot be read or written.
    pub fn end_all(&mut self, ended: Wall, why: &str) -> io::Result<usize> {
        let results = latest(&self.record)?;
        let tasks = self.record.plan().tasks.iter().map(|task| task.id);
        let missing = tasks.filter(|task| !results.contains_key(task));
        let ending = || Ending::missing(Reason::Cancelled, why);
        let ended = |task| PairResult { task, attempts: 0, ended, ending: ending() };
        let results: Vec<PairResult> = missing.map(ended).collect();
        self.append(&results)?;
        Ok(results.len())
    }
}

fn hold(folder: &Path) -> Result<File, String> {
    let lock = OpenOptions::new().write(true).create(true).truncate(false).open(folder.join("lock"));
    let lock = lock.map_err(|e| format!("cannot keep the run in {}: {e}", folder.display()))?;
    lock.try_lock().map_err(|_| format!("another controller works on the run in {}", folder.display()))?;
    Ok(lock)
}

/// Result of each task: its first outcome, or else the last reason.
///
/// # Errors
/// When the results cannot be read.
pub fn latest(record: &Record) -> io::Result<BTreeMap<TaskId, PairResult>> {
    let (mut latest, mut standing) = (BTreeMap::new(), Standing::of(record.plan()));
    record.results(|result, _| {
        if standing.add(result.task, result.ending.reason()) {
            latest.insert(result.task, result);
        }
    })?;
    Ok(latest)
}

/// True if a controller works on the run in a folder.
#[must_use]
pub fn is_held(folder: &Path) -> bool {
    File::open(folder.join("lock")).is_ok_and(|lock| lock.try_lock().is_err())
}

/// True if the run in a folder is to be cancelled.
#[must_use]
pub fn is_cancel_requested(folder: &Path) -> bool {
    folder.join("cancel").exists()
}

/// Asks the controller of a run to cancel it.
///
/// # Errors
/// When the disk does not take the request.
pub fn request_cancel(folder: &Path) -> io::Result<()> {
    write_whole(&folder.join("cancel"), b"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::{Host, HostId, Inventory};
    use crate::plan::{Task, Test};

    #[test]
    fn a_run_has_one_controller_at_a_time() {
        let folder = std::env::temp_dir().join(format!("nc-journal-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let task = |id| Task { id: TaskId(id), from: HostId(0), to: HostId(1), test: 0, repeat: 0 };
        let inventory = Inventory { hosts: vec![Host::default(), Host::default()], ..Inventory::default() };
        let plan = Plan {
            inventory,
            tests: vec![Test::default()],
            tasks: (0..4).map(task).collect(),
            ..Plan::default()
        };
        // A run that could not be resumed is none.
        fs::create_dir_all(folder.join("reach.partial")).unwrap();
        assert!(Journal::create(&folder, plan.clone(), "how".into()).is_err());
        assert!(!folder.join("plan.json").exists());
        fs::remove_dir(folder.join("reach.partial")).unwrap();
        let mut journal = Journal::create(&folder, plan.clone(), "how".into()).unwrap();
        let result = |reason| PairResult {
            task: TaskId(1),
            attempts: 1,
            ended: Wall(0),
            ending: Ending::missing(reason, ""),
        };
        journal.append(&[result(Reason::Failed)]).unwrap();
        assert!(is_held(&folder) && Journal::resume(&folder).err().unwrap().contains("another controller"));
        request_cancel(&folder).unwrap();
        assert!(is_cancel_requested(&folder));
        drop(journal);
        assert!(!is_held(&folder));
        assert!(Journal::create(&folder, plan, "how".into()).err().unwrap().contains("resume"));
        let mut journal = Journal::resume(&folder).unwrap();
        assert_eq!(
            (journal.epoch(), is_cancel_requested(&folder), journal.reach().as_str()),
            (2, false, Some("how"))
        );
        journal.append(&[result(Reason::Refused)]).unwrap();
        let latest = latest(journal.record()).unwrap();
        assert_eq!(latest[&TaskId(1)].ending.reason(), Some(Reason::Refused));
        drop(journal);
        fs::remove_dir_all(&folder).unwrap();
        assert!(Journal::resume(&folder).is_err());
    }
}
