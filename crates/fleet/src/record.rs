//! The folder of a run: its plan, and each result as a line. Nothing that was appended is lost: a
//! line that a crash or a full disk cut off is dropped when the folder is opened, and its task is
//! missing again.

use crate::plan::{Plan, TaskId};
use crate::result::{Counts, Documents, PairResult, Reason, Standing};
use crate::spool::write_whole;
use model::Outcome;
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

    /// Shows every result to `each`, in the order in which they were written, with its outcome
    /// where it has one: builds before this one did not read what agents reported.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn results(&self, each: impl FnMut(PairResult, Option<Outcome>)) -> io::Result<()> {
        self.read(&mut Documents::default(), each)
    }

    fn read(
        &self,
        documents: &mut Documents,
        mut each: impl FnMut(PairResult, Option<Outcome>),
    ) -> io::Result<()> {
        let read = self.lines(|mut result| {
            let outcome = documents.read(&self.plan, &mut result);
            each(result, outcome);
        });
        read.map(drop)
    }

    /// Passes on every result as its line has it. The rest after a line that was cut off is not
    /// read. Returns the bytes of whole lines.
    fn lines(&self, mut each: impl FnMut(PairResult)) -> io::Result<u64> {
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

    /// The tasks that have a result that is not to be tried again, an outcome or a reason that does
    /// not pass; and the documents.
    pub(crate) fn finished(&self) -> io::Result<(Vec<TaskId>, Documents)> {
        let (mut over, mut documents) = (Vec::new(), Documents::default());
        self.read(&mut documents, |result, _| {
            let again = result.ending.reason().is_some_and(Reason::is_resumed);
            over.extend((!again).then_some(result.task));
        })?;
        Ok((over, documents))
    }

    /// States of the run's tasks.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn counts(&self) -> io::Result<Counts> {
        let mut standing = Standing::of(&self.plan);
        self.results(|result, _| {
            standing.add(result.task, result.ending.reason());
        })?;
        Ok(standing.counts())
    }

    /// Goes on after the last whole line.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn append(&self) -> io::Result<Appender> {
        let length = self.lines(|_| {})?;
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
    /// When they cannot be written; written parts are taken back, so that the next try can write
    /// them.
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
    use crate::plan::{Request, Shape, Test, Verb};
    use crate::result::{Ending, document};
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
        let text = document(Verb::Ping, &[]).to_string();
        let raw = serde_json::value::RawValue::from_string(text.clone()).unwrap();
        let mut all = record.append().unwrap();
        all.push(&[result(0, Ending::Measured(raw))]).unwrap();
        all.push(&[result(1, Ending::missing(Reason::Refused, "no"))]).unwrap();
        all.push(&[result(2, Ending::missing(Reason::Cancelled, ""))]).unwrap();
        drop(all);
        let mut file = OpenOptions::new().append(true).open(folder.join(RESULTS)).unwrap();
        file.write_all(b"{\"task\": 3, \"attem").unwrap();
        let record = Record::open(&folder).unwrap();
        assert_eq!(record.plan(), &plan());
        assert_eq!(record.finished().unwrap().0, [TaskId(0), TaskId(1)], "what was cancelled is resumed");
        record.append().unwrap().push(&[result(4, Ending::missing(Reason::Version, ""))]).unwrap();
        let mut seen = Vec::new();
        record.results(|result, outcome| seen.push((result, outcome.is_some()))).unwrap();
        let counts = record.counts().unwrap();
        assert_eq!((counts.measured, counts.all(), counts.of(Reason::NotMeasuredYet)), (1, 6, 2));
        let tasks: Vec<(u32, bool)> =
            seen.iter().map(|(result, is_outcome)| (result.task.0, *is_outcome)).collect();
        assert_eq!(tasks, [(0, true), (1, false), (2, false), (4, false)]);
        assert!(matches!(&seen[0].0.ending, Ending::Measured(raw) if raw.get() == text));
        fs::write(folder.join(PLAN), b"{}").unwrap();
        assert!(Record::open(&folder).unwrap_err().to_string().contains("no plan"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
