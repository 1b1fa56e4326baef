//! The spool: entries on disk that a receiver has not taken yet, in the order of their times.
//!
//! Each entry is a file of its own, which takes its name when it is whole: the target of the
//! request in the first line, and the body. A folder belongs to one receiver, and one process at a
//! time sends from it.

use crate::Entry;
use metrics::Wall;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const ENTRY: &str = "entry";
const PARTIAL: &str = "partial";
const LOCK: &str = "lock";
/// Age of a file that is not whole after which its program is gone.
const GONE: Duration = Duration::from_secs(3_600);
/// Most letters of a URL in the name of its folder.
const MOST_LETTERS: usize = 60;

/// Bounds of what waits for one receiver; the oldest entries beyond are given up.
#[derive(Clone, Copy, Debug)]
pub struct SpoolLimits {
    /// Most bytes of all entries.
    pub bytes: u64,
    /// Greatest age of an entry, ns.
    pub age_ns: i64,
}

impl Default for SpoolLimits {
    /// 16 MiB and seven days.
    fn default() -> SpoolLimits {
        SpoolLimits { bytes: 16 << 20, age_ns: 7 * 24 * 3_600 * 1_000_000_000 }
    }
}

/// Entries that wait for one receiver.
#[derive(Clone, Debug)]
pub struct Spool {
    folder: PathBuf,
    limits: SpoolLimits,
}

/// A file that waits.
struct Waiting {
    path: PathBuf,
    at: i64,
    bytes: u64,
}

impl Spool {
    /// The spool for this URL, in the folder of all spools.
    pub fn of(root: &Path, url: &str, limits: SpoolLimits) -> Spool {
        let letters = url.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' });
        let letters: String = letters.take(MOST_LETTERS).collect();
        Spool { folder: root.join(format!("{letters}-{:016x}", fnv1a(url.as_bytes()))), limits }
    }

    /// Its folder, for messages.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Adds an entry of this time. With `is_latest` entries of the same target that wait are
    /// replaced.
    ///
    /// # Errors
    /// When the folder cannot be made or the file not be written.
    pub fn put(&self, entry: &Entry, now: Wall, is_latest: bool) -> io::Result<()> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        fs::create_dir_all(&self.folder)?;
        let before = if is_latest { self.of_target(&entry.target)? } else { Vec::new() };
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(format!("{:020}-{:010}-{count:010}", now.0.max(0), std::process::id()));
        let partial = path.with_extension(PARTIAL);
        let text = format!("{}\n{}", entry.target, entry.body);
        let written =
            fs::write(&partial, text).and_then(|()| fs::rename(&partial, path.with_extension(ENTRY)));
        if written.is_err() {
            let _ = fs::remove_file(&partial);
        }
        written?;
        before.iter().try_for_each(|path| remove(path))
    }

    fn of_target(&self, target: &str) -> io::Result<Vec<PathBuf>> {
        let all = self.waiting()?.into_iter().map(|waiting| waiting.path);
        Ok(all.filter(|path| read(path).is_ok_and(|entry| entry.target == target)).collect())
    }

    /// Gives up the entries that are too old or too much, the oldest first. Returns their number.
    ///
    /// # Errors
    /// When the folder cannot be read or a file not be removed.
    pub fn prune(&self, now: Wall) -> io::Result<u64> {
        let all = self.waiting()?;
        let mut bytes: u64 = all.iter().map(|waiting| waiting.bytes).sum();
        let mut given_up = 0;
        for Waiting { path, at, bytes: own } in all {
            if now.0.saturating_sub(at) > self.limits.age_ns || bytes > self.limits.bytes {
                remove(&path)?;
                bytes -= own;
                given_up += 1;
            }
        }
        for path in self.files(PARTIAL)? {
            let modified = fs::metadata(&path).and_then(|file| file.modified());
            if modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > GONE)) {
                remove(&path)?;
            }
        }
        Ok(given_up)
    }

    /// The oldest entry, and its file.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub(crate) fn oldest(&self) -> io::Result<Option<(PathBuf, Entry)>> {
        for Waiting { path, .. } in self.waiting()? {
            match read(&path) {
                Ok(entry) => return Ok(Some((path, entry))),
                // Another process has replaced it.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) if error.kind() == ErrorKind::InvalidData => remove(&path)?,
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Number of entries that wait.
    pub fn len(&self) -> u64 {
        self.waiting().map_or(0, |all| all.len() as u64)
    }

    /// True if no entry waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The right to send from this spool, until dropped or the process ends; `None` while another
    /// process has it.
    ///
    /// # Errors
    /// When the file of the lock cannot be made.
    pub(crate) fn lock(&self) -> io::Result<Option<File>> {
        let file = File::options().create(true).append(true).open(self.folder.join(LOCK))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// The entries in the order of their names, which begin with the time.
    fn waiting(&self) -> io::Result<Vec<Waiting>> {
        let mut paths = self.files(ENTRY)?;
        paths.sort();
        let of = |path: PathBuf| {
            let name = path.file_name()?.to_str()?;
            let at = name.split('-').next()?.parse().ok()?;
            // A file that is gone meanwhile was sent or replaced.
            let bytes = fs::metadata(&path).ok()?.len();
            Some(Waiting { path, at, bytes })
        };
        Ok(paths.into_iter().filter_map(of).collect())
    }

    fn files(&self, kind: &str) -> io::Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
        Ok(paths.into_iter().filter(|path| path.extension().is_some_and(|found| found == kind)).collect())
    }
}

/// An entry of a file; one without a first line is invalid.
fn read(path: &Path) -> io::Result<Entry> {
    let text = String::from_utf8(fs::read(path)?).map_err(|_| ErrorKind::InvalidData)?;
    let (target, body) = text.split_once('\n').ok_or(ErrorKind::InvalidData)?;
    Ok(Entry { target: target.to_owned(), body: body.to_owned() })
}

/// Removes a file, unless another process was first.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// FNV-1a, 64 bits: the same in every version of the program.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A folder of spools, gone when dropped.
    pub(crate) struct Root(pub(crate) PathBuf);

    impl Root {
        pub(crate) fn new(name: &str) -> Root {
            let path = std::env::temp_dir().join(format!("netcaliper-export-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Root(path)
        }

        pub(crate) fn spool(&self, limits: SpoolLimits) -> Spool {
            Spool::of(&self.0, "otlp+http://h", limits)
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    pub(crate) fn entry(target: &str, body: &str) -> Entry {
        Entry { target: target.to_owned(), body: body.to_owned() }
    }

    /// Bodies in the order in which they are sent.
    fn bodies(spool: &Spool) -> Vec<String> {
        spool.waiting().unwrap().iter().map(|waiting| read(&waiting.path).unwrap().body).collect()
    }

    #[test]
    fn entries_leave_in_the_order_of_their_times() {
        let root = Root::new("order");
        let spool = root.spool(SpoolLimits::default());
        for (at, body) in [(30, "third"), (10, "first\nwith a line"), (20, "second"), (30, "fourth")] {
            spool.put(&entry("/a?b=c", body), Wall(at), false).unwrap();
        }
        assert_eq!(bodies(&spool), ["first\nwith a line", "second", "third", "fourth"]);
        let (path, oldest) = spool.oldest().unwrap().unwrap();
        assert_eq!(oldest.target, "/a?b=c");
        remove(&path).unwrap();
        assert_eq!(spool.len(), 3);
        assert!(Spool::of(&root.0, "otlp+http://other", SpoolLimits::default()).is_empty());
    }

    #[test]
    fn the_oldest_beyond_a_bound_are_given_up() {
        let root = Root::new("bound");
        // A target of two letters, a line break and seven of body: 10 bytes each.
        let spool = root.spool(SpoolLimits { bytes: 35, age_ns: 100 });
        for at in 1..=5 {
            spool.put(&entry("/a", &format!("entry {at}")), Wall(at), false).unwrap();
        }
        assert_eq!(spool.prune(Wall(5)).unwrap(), 2);
        assert_eq!(bodies(&spool), ["entry 3", "entry 4", "entry 5"]);
        assert_eq!(spool.prune(Wall(104)).unwrap(), 1, "the third is 101 ns old");
        assert_eq!(bodies(&spool), ["entry 4", "entry 5"]);
        assert_eq!(spool.prune(Wall(0)).unwrap(), 0, "a clock that was set back makes nothing old");
    }

    #[test]
    fn a_later_entry_replaces_those_of_its_target_where_only_the_latest_counts() {
        let root = Root::new("latest");
        let spool = root.spool(SpoolLimits::default());
        for (at, target, body) in [(1, "/a", "old"), (2, "/b", "other"), (3, "/a", "new")] {
            spool.put(&entry(target, body), Wall(at), true).unwrap();
        }
        assert_eq!(bodies(&spool), ["other", "new"]);
    }

    #[test]
    fn a_file_that_is_not_whole_is_no_entry() {
        let root = Root::new("partial");
        let spool = root.spool(SpoolLimits::default());
        spool.put(&entry("/a", "whole"), Wall(2), false).unwrap();
        fs::write(spool.folder().join("00000000000000000001-1-1.partial"), "/a\nhal").unwrap();
        fs::write(spool.folder().join("00000000000000000001-1-2.entry"), "cut").unwrap();
        assert_eq!(spool.oldest().unwrap().unwrap().1.body, "whole");
        assert_eq!(spool.len(), 1, "what is no entry is gone");
    }

    #[test]
    fn one_at_a_time_sends() {
        let root = Root::new("lock");
        let spool = root.spool(SpoolLimits::default());
        spool.put(&entry("/a", ""), Wall(0), false).unwrap();
        let held = spool.lock().unwrap();
        assert!(held.is_some() && spool.lock().unwrap().is_none());
        drop(held);
        assert!(spool.lock().unwrap().is_some());
    }
}
