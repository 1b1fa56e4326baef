//! Scratch folders, and CSV files as the tests need them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder of its own, gone when dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("netcaliper-test-{}-{n}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn with(&self, name: &str, content: &str) -> PathBuf {
        let path = self.file(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// What a program has written into this file so far: beside it, before it is whole.
    pub(crate) fn so_far(&self, name: &str) -> String {
        fs::read_to_string(self.partial(name).unwrap_or_else(|| self.file(name))).unwrap_or_default()
    }

    /// Waits until a run has told so many intervals in the journal of this name, and so has begun.
    #[track_caller]
    pub(crate) fn hears_intervals(&self, name: &str, n: usize) {
        super::eventually("intervals in the journal", || {
            self.so_far(name).matches("\"event\":\"interval\"").count() >= n
        });
    }

    /// The file that is to have this name when it is whole.
    pub(crate) fn partial(&self, name: &str) -> Option<PathBuf> {
        let all = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path());
        let named = |path: &PathBuf| {
            let other = path.file_name().unwrap().to_string_lossy().into_owned();
            other.starts_with(&format!("{name}.")) && other.ends_with(".partial")
        };
        all.into_iter().find(named)
    }

    /// A file with a key, readable by its owner only.
    pub(crate) fn key(&self, name: &str, key: impl AsRef<[u8]>) -> PathBuf {
        let path = self.file(name);
        fs::write(&path, key).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A CSV file: header and rows.
pub(crate) struct Csv {
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Csv {
    #[track_caller]
    pub(crate) fn read(path: &Path) -> Csv {
        let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut rows: Vec<Vec<String>> = text.lines().map(cells).collect();
        assert!(!rows.is_empty(), "{} is empty", path.display());
        let header = rows.remove(0);
        for row in &rows {
            assert_eq!(row.len(), header.len(), "{}: {row:?}", path.display());
        }
        Csv { header, rows }
    }

    #[track_caller]
    pub(crate) fn column(&self, name: &str) -> Vec<&str> {
        let at = self.header.iter().position(|h| h == name);
        let at = at.unwrap_or_else(|| panic!("no column '{name}' in {:?}", self.header));
        self.rows.iter().map(|row| row[at].as_str()).collect()
    }

    /// The sum of a column of counts.
    #[track_caller]
    pub(crate) fn sum(&self, name: &str) -> u64 {
        self.column(name)
            .iter()
            .map(|cell| cell.parse::<u64>().unwrap_or_else(|_| panic!("{name}: '{cell}'")))
            .sum()
    }
}

/// One line without line breaks in cells, as RFC 4180 quotes it.
fn cells(line: &str) -> Vec<String> {
    let (mut all, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => cell.extend(chars.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => all.push(std::mem::take(&mut cell)),
            c => cell.push(c),
        }
    }
    all.push(cell);
    all
}
