//! Keeps it: every run's outcome in one SQLite file, with its figures as rows that any SQL tool can
//! ask.
//!
//! A run never depends on the store: its errors are reported in one sentence and the run goes on.
//! The file is open only during a call, so any number of processes share it.
#![forbid(unsafe_code)]

mod retention;
mod schema;

pub use retention::Retention;

use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};
use metrics::Wall;
use model::document::Document;
use model::{Figure, KeptFigure, KeptRun, Outcome, Reading, Stat, Status, Unit};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, params};
use std::collections::BTreeSet;
use std::io::{self, BufWriter, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;
use uuid::Uuid;

/// Longest wait for another process that holds the store.
const PATIENCE: Duration = Duration::from_secs(2);
/// No outcome has as many bytes: what claims to is damaged.
const LARGEST: u64 = 1 << 30;

/// Reason for a refused request to the store: one sentence.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file does not exist.
    #[error("there is no store at {0}: no run was kept yet")]
    Missing(PathBuf),
    /// The run does not exist.
    #[error("the store {path} holds no run {id}; `netcaliper history` lists its runs")]
    NoRun {
        /// The store.
        path: PathBuf,
        /// The requested run.
        id: i64,
    },
    /// Another version of this program made the file.
    #[error(
        "the store {path} was made by {age} build (its version is {version}, this build's {}): set it aside, e.g. with 'mv {path} {path}.v{version}', and a new one will be made",
        schema::VERSION,
        age = if *version < schema::VERSION { "an earlier" } else { "a later" }
    )]
    OtherVersion {
        /// The store.
        path: PathBuf,
        /// Its version.
        version: i64,
    },
    /// The file is no intact store.
    #[error("the store {path} is damaged ({why}): move it away, and a new one will be made")]
    Damaged {
        /// The store.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// The system or SQLite refused.
    #[error("the store {path} cannot be {deed}: {why}")]
    Refused {
        /// The store.
        path: PathBuf,
        /// `read` or `written`.
        deed: &'static str,
        /// The system's reason.
        why: String,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Runs of this verb only.
    pub verb: Option<String>,
    pub target: Option<String>,
    /// Begun at that time or later.
    pub since: Option<Wall>,
    /// Begun before that time.
    pub until: Option<Wall>,
    /// Largest number of runs, newest first.
    pub most: Option<u32>,
}

#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

impl Store {
    /// Opens the store, and makes it (and the folders above it) when the file is missing. Only the
    /// owner can read the new files: runs contain hosts, addresses and command lines.
    ///
    /// # Errors
    /// When that cannot be done.
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            private_folders().create(folder).map_err(|why| unwritten(path, why))?;
        }
        // An error here recurs in SQLite, which reports it.
        let _ = private_file().open(path);
        let connection = Connection::open(path).map_err(|e| sqlite_error(path, "written", &e))?;
        Store { connection, path: path.to_owned() }.prepared()
    }

    /// Opens a store that must be there.
    ///
    /// # Errors
    /// [`StoreError::Missing`], or when it cannot be read.
    pub fn existing(path: &Path) -> Result<Store, StoreError> {
        if !path.exists() {
            return Err(StoreError::Missing(path.to_owned()));
        }
        Store::open(path)
    }

    fn prepared(mut self) -> Result<Store, StoreError> {
        let other =
            self.connection.busy_timeout(PATIENCE).and_then(|()| schema::prepare(&mut self.connection));
        match self.read(other)? {
            None => Ok(self),
            Some(version) => Err(StoreError::OtherVersion { path: self.path, version }),
        }
    }

    /// Adds the path to an error of a read.
    fn read<T>(&self, found: rusqlite::Result<T>) -> Result<T, StoreError> {
        found.map_err(|e| sqlite_error(&self.path, "read", &e))
    }

    /// Adds the path to an error of a write.
    fn written<T>(&self, done: rusqlite::Result<T>) -> Result<T, StoreError> {
        done.map_err(|e| sqlite_error(&self.path, "written", &e))
    }

    /// Keeps an outcome; `source` is the file that it was imported from, or empty. The number it
    /// got. Runs beyond the retention go.
    ///
    /// # Errors
    /// When it cannot be written: then nothing has changed.
    pub fn keep(&mut self, outcome: &Outcome, source: &str) -> Result<i64, StoreError> {
        let document = packed(outcome).map_err(|why| unwritten(&self.path, why))?;
        let kept = insert(&mut self.connection, outcome, source, &document);
        let id = self.written(kept)?;
        // Best effort: the run is kept, and the next one tries again.
        let _ = self.prune();
        Ok(id)
    }

    /// True if a run with this identifier is kept.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn holds(&self, run: Uuid) -> Result<bool, StoreError> {
        let asked = "SELECT EXISTS (SELECT 1 FROM run WHERE uuid = ?1)";
        self.read(self.connection.query_row(asked, [run.to_string()], |row| row.get(0)))
    }

    /// The runs that are asked for, the latest first.
    pub fn list(&self, query: &Query) -> Result<Vec<KeptRun>, StoreError> {
        self.read(self.try_list(query))
    }

    fn try_list(&self, query: &Query) -> rusqlite::Result<Vec<KeptRun>> {
        let mut runs = self.connection.prepare(
            "SELECT id, uuid, started_ns, verb, protocol, targets, status, source FROM run
             WHERE (?1 IS NULL OR verb = ?1) AND (?2 IS NULL OR instr(targets, ?2) > 0)
               AND (?3 IS NULL OR started_ns >= ?3) AND (?5 IS NULL OR started_ns < ?5) ORDER BY id DESC LIMIT ?4",
        )?;
        let most = query.most.map_or(-1, i64::from);
        let [since, until] = [query.since, query.until].map(|time| time.map(|wall| wall.0));
        let asked = params![query.verb, query.target, since, most, until];
        let entries = runs.query_map(asked, entry)?.collect::<rusqlite::Result<Vec<KeptRun>>>()?;
        let mut figures = self
            .connection
            .prepare("SELECT setting, repeat, name, unit, value FROM figure WHERE run = ?1 ORDER BY rowid")?;
        let with_figures = entries.into_iter().map(|entry| {
            let figures =
                figures.query_map([entry.id], kept)?.collect::<rusqlite::Result<Vec<KeptFigure>>>()?;
            Ok(KeptRun { figures, ..entry })
        });
        with_figures.collect()
    }

    /// The number of the latest run.
    pub fn latest(&self) -> Result<Option<i64>, StoreError> {
        self.read(self.connection.query_row("SELECT max(id) FROM run", [], |row| row.get(0)))
    }

    /// Outcome of a run.
    ///
    /// # Errors
    /// [`StoreError::NoRun`], or when the store cannot be read.
    pub fn outcome(&self, id: i64) -> Result<Outcome, StoreError> {
        let asked = "SELECT deflated FROM document WHERE run = ?1";
        let found = self.connection.query_row(asked, [id], |row| row.get::<_, Vec<u8>>(0)).optional();
        let bytes = self.read(found)?.ok_or_else(|| StoreError::NoRun { path: self.path.clone(), id })?;
        unpacked(&bytes)
            .map_err(|why| StoreError::Damaged { path: self.path.clone(), why: format!("run {id}: {why}") })
    }

    /// Takes these runs out, all or none of them: how many those are.
    ///
    /// # Errors
    /// [`StoreError::NoRun`], or when the store cannot be written.
    pub fn forget(&mut self, ids: &[i64]) -> Result<usize, StoreError> {
        let path = &self.path;
        let written = |error| sqlite_error(path, "written", &error);
        let transaction = self.connection.transaction().map_err(written)?;
        let ids: BTreeSet<i64> = ids.iter().copied().collect();
        for &id in &ids {
            if transaction.execute("DELETE FROM run WHERE id = ?1", [id]).map_err(written)? == 0 {
                return Err(StoreError::NoRun { path: path.clone(), id });
            }
        }
        transaction.commit().map_err(written)?;
        self.connection.execute_batch("PRAGMA incremental_vacuum").map_err(written)?;
        Ok(ids.len())
    }

    /// The limits of the store.
    pub fn retention(&self) -> Result<Retention, StoreError> {
        self.read(retention::read(&self.connection))
    }

    /// Sets the limits of the store and deletes the runs beyond them; returns their number.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn retain(&mut self, retention: &Retention) -> Result<usize, StoreError> {
        let set = retention::write(&self.connection, retention).and_then(|()| self.prune());
        self.written(set)
    }

    /// Deletes runs beyond the retention limits; returns their number.
    fn prune(&mut self) -> rusqlite::Result<usize> {
        let retention = retention::read(&self.connection)?;
        let gone = retention::prune(&mut self.connection, &retention)?;
        if gone > 0 {
            self.connection.execute_batch("PRAGMA incremental_vacuum")?;
        }
        Ok(gone)
    }
}

fn entry(row: &Row<'_>) -> rusqlite::Result<KeptRun> {
    let (run, status): (String, String) = (row.get(1)?, row.get(6)?);
    Ok(KeptRun {
        id: row.get(0)?,
        run: Uuid::parse_str(&run).unwrap_or_default(),
        started: Wall(row.get(2)?),
        verb: row.get(3)?,
        protocol: row.get(4)?,
        targets: row.get(5)?,
        status: Status::named(&status).unwrap_or_default(),
        source: row.get(7)?,
        figures: Vec::new(),
    })
}

fn kept(row: &Row<'_>) -> rusqlite::Result<KeptFigure> {
    Ok(KeptFigure {
        setting: row.get(0)?,
        repeat: row.get(1)?,
        name: row.get(2)?,
        unit: row.get(3)?,
        value: row.get(4)?,
    })
}

/// Writes a run, its figures and its document: all of it or nothing.
fn insert(
    connection: &mut Connection,
    outcome: &Outcome,
    source: &str,
    document: &[u8],
) -> rusqlite::Result<i64> {
    // A read followed by a write could find that another process wrote in between.
    let all = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let begin = &outcome.begin;
    all.execute(
        "INSERT INTO run (uuid, started_ns, verb, protocol, targets, command, host, status, version, source, bytes)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        params![
            begin.run.to_string(),
            begin.started.0,
            begin.verb,
            begin.protocol,
            begin.targets.join(" "),
            begin.command.join(" "),
            begin.host.name,
            outcome.status.name(),
            begin.version,
            source,
            i64::try_from(document.len()).unwrap_or(i64::MAX),
        ],
    )?;
    let id = all.last_insert_rowid();
    all.execute("INSERT INTO document (run, deflated) VALUES (?1, ?2)", params![id, document])?;
    {
        let mut row = all.prepare(
            "INSERT INTO figure (run, setting, repeat, name, unit, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        for figure in figures(outcome) {
            row.execute(params![id, figure.setting, figure.repeat, figure.name, figure.unit, figure.value])?;
        }
    }
    all.commit()?;
    Ok(id)
}

/// Everything that was measured, phase after phase.
pub fn figures(outcome: &Outcome) -> Vec<KeptFigure> {
    let all = outcome.points.iter().flat_map(|point| {
        let words: Vec<String> = point.label.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let setting = words.join(" ");
        let row = |setting: &str, of: Reading| KeptFigure {
            setting: setting.to_owned(),
            repeat: point.repeat,
            name: of.key,
            unit: of.unit.name().to_owned(),
            value: of.value,
        };
        // A protocol's own results are settings of their own; what went over the whole of them
        // includes their waiting.
        let (served, tests) = (outcome.begin.verb == "serve", !point.extras.is_empty());
        let largest = Figure::leading(point.phase.kind).iter().map(|figure| figure.supported(point));
        let largest = largest.filter(|figure| figure.stat() == Some(Stat::Max));
        let known = Figure::kept().chain(largest).filter(|figure| figure.of_a_life() || !(served || tests));
        let whole =
            known.filter_map(|figure| Some(row(&setting, Reading::of(figure, "", figure.of(point)?))));
        let single = point.shown().flat_map(|shown| {
            let setting = shown.setting();
            shown.figures.iter().map(move |figure| row(&setting, figure.clone()))
        });
        let life = point.served().filter(|_| served).map(|(key, _, bytes)| KeptFigure {
            setting: setting.clone(),
            repeat: point.repeat,
            name: key.to_owned(),
            unit: Unit::Bytes.name().to_owned(),
            value: metrics::real(bytes),
        });
        whole.chain(single).chain(life).filter(|kept| kept.value.is_finite()).collect::<Vec<KeptFigure>>()
    });
    let grown = model::load::under_load(outcome).iter().filter_map(model::load::StageResult::grown_ns).max();
    let grown = grown.filter(|_| outcome.status == Status::Complete).map(|ns| KeptFigure {
        setting: String::new(),
        repeat: 1,
        name: model::load::GROWN.to_owned(),
        unit: Unit::Ns.name().to_owned(),
        value: metrics::real(ns),
    });
    all.chain(grown).chain(stages(outcome)).collect()
}

/// Figures of the stages of a load, which are the answer. Figures of its single measurements have a
/// part in their setting.
fn stages(outcome: &Outcome) -> Vec<KeptFigure> {
    let parts = if outcome.begin.verb == "load" { outcome.parts() } else { Vec::new() };
    let figures = parts.iter().flat_map(|part| {
        let words: Vec<String> = part.label().iter().map(|(name, value)| format!("{name}={value}")).collect();
        let shown = Figure::kept().filter(|figure| *figure != Figure::Grade && part.is_shown(*figure));
        shown.filter_map(move |figure| {
            Some(KeptFigure {
                setting: words.join(" "),
                repeat: part.repeat(),
                name: figure.key(),
                unit: figure.unit().name().to_owned(),
                value: part.figure(figure).filter(|value| value.is_finite())?,
            })
        })
    });
    figures.collect()
}

/// Makes folders that only their owner can enter; existing ones stay as they are.
fn private_folders() -> std::fs::DirBuilder {
    let mut folders = std::fs::DirBuilder::new();
    folders.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folders, 0o700);
    folders
}

/// Makes a file that only its owner can read, unless it exists. SQLite gives its other files the
/// same mode.
fn private_file() -> std::fs::OpenOptions {
    let mut file = std::fs::OpenOptions::new();
    file.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut file, 0o600);
    file
}

fn packed(outcome: &Outcome) -> Result<Vec<u8>, String> {
    // The JSON writer writes a word at a time, and the encoder prepares 32 KiB for each write.
    let mut out = BufWriter::with_capacity(1 << 16, DeflateEncoder::new(Vec::new(), Compression::default()));
    outcome.write(&mut out).map_err(|e| e.to_string())?;
    let packed = out.into_inner().map_err(io::IntoInnerError::into_error).and_then(DeflateEncoder::finish);
    packed.map_err(|e| e.to_string())
}

fn unpacked(bytes: &[u8]) -> Result<Outcome, String> {
    let mut text = Vec::new();
    let most = DeflateDecoder::new(bytes).take(LARGEST).read_to_end(&mut text);
    most.map_err(|e| e.to_string())?;
    Outcome::read(&text).map_err(|e| e.to_string())
}

/// A failure to write the store outside SQLite.
fn unwritten(path: &Path, why: impl ToString) -> StoreError {
    StoreError::Refused { path: path.to_owned(), deed: "written", why: why.to_string() }
}

/// An error of SQLite as a sentence.
fn sqlite_error(path: &Path, deed: &'static str, error: &rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    let why = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            return StoreError::Damaged { path, why: plain(error) };
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            format!("another process has held it for {} s", PATIENCE.as_secs())
        }
        Some(ErrorCode::DiskFull) => "the disk is full".to_owned(),
        _ => plain(error),
    };
    StoreError::Refused { path, deed, why }
}

fn plain(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(text)) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
