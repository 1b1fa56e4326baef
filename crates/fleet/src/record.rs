//! The folder of a run: its plan, and each result as a line. Nothing that was appended is lost: a line that a crash or a full disk
//! cut off is dropped when the folder is opened, and its task is missing again.

use crate::plan::{Plan, TaskId};
use crate::result::PairResult;
use crate::spool::write_whole;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

const PLAN: &str = "plan.json";
const RESULTS: &str = "results.jsonl";
/// Longest result, bytes.
const MOST: u64 = 64 << 20;

/// A run on disk.
#[derive(Debug)]
pub struct Record {
    plan: Plan,
    path: PathBuf,
}

/// Appends results to a run on disk.
#[derive(Debug)]
pub struct Appender {
    file: File,
    /// Bytes of whole lines.
    length: u64,
}

impl Record {
    /// Makes the folder of a new run.
    ///
    /// # Errors
    /// When it exists already with a plan, or cannot be written.
    pub fn create(folder: &Path, plan: Plan) -> io::Result<Record> {
        fs::create_dir_all(folder)?;
        let file = folder.join(PLAN);
        if file.try_exists()? {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        write_whole(&file, &serde_json::to_vec(&plan)?)?;
        Ok(Record { plan, path: folder.join(RESULTS) })
    }

    /// Opens the folder of a run.
    ///
    /// # Errors
    /// When it holds no plan, or cannot be read.
    pub fn open(folder: &Path) -> io::Result<Record> {
        let text = fs::read(folder.join(PLAN))?;
        let plan = Plan::read(&text).map_err(|why| io::Error::other(format!("{PLAN}: {why}")))?;
        Ok(Record { plan, path: folder.join(RESULTS) })
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Shows every result to `each`, in the order in which they came. What follows a line that was cut off is not read. Returns the
    /// bytes of whole lines.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn results(&self, mut each: impl FnMut(PairResult)) -> io::Result<u64> {
        let file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            file => file?,
        };
        let (mut file, mut line, mut length) = (BufReader::new(file), Vec::new(), 0);
        loop {
            line.clear();
            let read = file.by_ref().take(MOST).read_until(b'\n', &mut line)?;
            if !line.ends_with(b"\n") {
                return Ok(length);
            }
            let Ok(result) = serde_json::from_slice::<PairResult>(&line) else { return Ok(length) };
            length += read as u64;
            if self.plan.task(result.task).is_some() {
                each(result);
            }
        }
    }

    /// The tasks that have a result that is not to be tried again: an outcome, or a reason that does not pass.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn over(&self) -> io::Result<Vec<TaskId>> {
        let mut over = Vec::new();
        self.results(|result| {
            let again = result.ending.reason().is_some_and(crate::result::Reason::is_resumed);
            over.extend((!again).then_some(result.task));
        })?;
        Ok(over)
    }

    /// Goes on after the last whole line.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn append(&self) -> io::Result<Appender> {
        let length = self.results(|_| {})?;
        let mut file = OpenOptions::new().create(true).write(true).truncate(false).open(&self.path)?;
        file.set_len(length)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Appender { file, length })
    }
}

impl Appender {
    /// Appends results, and returns when the disk has them.
    ///
    /// # Errors
    /// When they cannot be written; what was written of them is taken back, so that it can be tried again.
    pub fn push(&mut self, results: &[PairResult]) -> io::Result<()> {
        let mut lines = Vec::new();
        for result in results {
            let before = lines.len();
            serde_json::to_writer(&mut lines, result)?;
            lines.push(b'\n');
            if (lines.len() - before) as u64 > MOST {
                return Err(io::Error::other("a result has more than 64 MiB"));
            }
        }
        let written = self.file.write_all(&lines).and_then(|()| self.file.sync_data());
        if written.is_err() {
            // A failure here leaves a cut line, which the next reader drops.
            let _ = self.file.set_len(self.length);
            let _ = self.file.seek(SeekFrom::Start(self.length));
            return written;
        }
        self.length += lines.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::{Format, Inventory};
    use crate::plan::{Request, Shape, Test};
    use crate::result::{Ending, Reason};
    use metrics::Wall;

    fn plan() -> Plan {
        let inventory = Inventory::parse("a\nb\nc\n", Format::Lines).unwrap();
        let run = uuid::Uuid::from_u128(7);
        let request = Request {
            run,
            shape: Shape::Mesh,
            tests: vec![Test::default()],
            repeats: 1,
            seed: 1,
            unlike: None,
        };
        Plan::make(inventory, request).unwrap()
    }

    #[test]
    fn results_outlive_a_line_that_was_cut_off() {
        let folder = std::env::temp_dir().join(format!("netcaliper-record-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        // What cannot be written whole is not there.
        fs::create_dir_all(folder.join("plan.partial")).unwrap();
        assert!(Record::create(&folder, plan()).is_err() && Record::open(&folder).is_err());
        fs::remove_dir(folder.join("plan.partial")).unwrap();
        let record = Record::create(&folder, plan()).unwrap();
        assert!(Record::create(&folder, plan()).is_err(), "a run is not written over");
        let result = |task, ending| PairResult { task: TaskId(task), attempts: 1, ended: Wall(5), ending };
        let raw = serde_json::value::RawValue::from_string("{\"schema\": 1}".to_owned()).unwrap();
        let mut all = record.append().unwrap();
        all.push(&[result(0, Ending::Measured(raw))]).unwrap();
        all.push(&[result(1, Ending::missing(Reason::Refused, "no"))]).unwrap();
        all.push(&[result(2, Ending::missing(Reason::Cancelled, ""))]).unwrap();
        drop(all);
        let mut file = OpenOptions::new().append(true).open(folder.join(RESULTS)).unwrap();
        file.write_all(b"{\"task\": 3, \"attem").unwrap();
        let record = Record::open(&folder).unwrap();
        assert_eq!(record.plan(), &plan());
        assert_eq!(record.over().unwrap(), [TaskId(0), TaskId(1)], "what was cancelled is resumed");
        record.append().unwrap().push(&[result(4, Ending::missing(Reason::Version, ""))]).unwrap();
        let mut seen = Vec::new();
        record.results(|result| seen.push(result)).unwrap();
        assert_eq!(seen.iter().map(|result| result.task.0).collect::<Vec<_>>(), [0, 1, 2, 4]);
        assert!(matches!(&seen[0].ending, Ending::Measured(raw) if raw.get() == "{\"schema\": 1}"));
        fs::write(folder.join(PLAN), b"{}").unwrap();
        assert!(Record::open(&folder).unwrap_err().to_string().contains("no plan"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
