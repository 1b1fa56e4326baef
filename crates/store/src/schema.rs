//! The tables.
//!
//! ```text
//! run       id, uuid, started_ns, verb, protocol, targets, command, host, status, version, source, bytes
//! document  run, deflated      the outcome (schema/outcome.v2.json), raw deflate (RFC 1951)
//! figure    run, setting, repeat, name, unit, value
//! keep      name, value        the retention
//! ```

use rusqlite::Connection;

/// The version that this program writes.
pub(crate) const VERSION: i64 = 2;
/// SQLite application id `netc`, recognised by `file(1)`.
const APPLICATION: i64 = 0x6e65_7463;

const TABLES: &str = "
    CREATE TABLE run (
        id         INTEGER PRIMARY KEY AUTOINCREMENT,
        uuid       TEXT    NOT NULL,
        started_ns INTEGER NOT NULL,
        verb       TEXT    NOT NULL,
        protocol   TEXT    NOT NULL,
        targets    TEXT    NOT NULL,
        command    TEXT    NOT NULL,
        host       TEXT    NOT NULL,
        status     TEXT    NOT NULL,
        version    TEXT    NOT NULL,
        source     TEXT    NOT NULL,
        bytes      INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX run_started ON run (started_ns);
    CREATE TABLE document (
        run      INTEGER PRIMARY KEY REFERENCES run (id) ON DELETE CASCADE,
        deflated BLOB NOT NULL
    ) STRICT;
    CREATE TABLE figure (
        run     INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
        setting TEXT    NOT NULL,
        repeat  INTEGER NOT NULL,
        name    TEXT    NOT NULL,
        unit    TEXT    NOT NULL,
        value   REAL    NOT NULL
    ) STRICT;
    CREATE INDEX figure_run ON figure (run);
    CREATE TABLE keep (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
";

/// Makes the tables where there are none. The version of a store that a build with other tables or
/// documents made.
pub(crate) fn prepare(connection: &mut Connection) -> rusqlite::Result<Option<i64>> {
    // No write-ahead log: its two further files and shared memory buy nothing where a run writes
    // once, and they fail on network file systems.
    connection.execute_batch("PRAGMA foreign_keys = ON; PRAGMA synchronous = NORMAL;")?;
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version == VERSION {
        return Ok(None);
    }
    if version != 0 {
        return Ok(Some(version));
    }
    // `auto_vacuum` has effect before the first table only.
    connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL")?;
    let all = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let version: i64 = all.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    // Another process may have been faster.
    if version == 0 {
        all.execute_batch(TABLES)?;
        all.execute_batch(&format!(
            "PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION};"
        ))?;
    }
    all.commit()?;
    Ok(None)
}
