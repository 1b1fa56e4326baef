//! Files that are written beside their place and renamed when they are whole, so that none stands
//! half written under its name.
//!
//! `run.html` is `run.html.PID.partial` until then, as long as this program lives. Descriptors,
//! devices and pipes are written to as they are.

use crate::error::{CliError, Context as _, lock};
use model::Event;
use report::EventWriter as _;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// More links than these lead in a circle.
const MOST_LINKS: u32 = 40;

/// Unfinished files; true for those to be removed when the program ends at once.
static PARTIAL: Mutex<Vec<(PathBuf, bool)>> = Mutex::new(Vec::new());

/// A file that is being made. Unless it is finished, the old file stays, and the new one is removed
/// when dropped, but for one that [outlives the program](NewFile::outlives_the_program) and is not
/// empty.
pub struct NewFile {
    file: File,
    /// Its name until it is whole, and then; `None` where it is written in its place.
    names: Option<(PathBuf, PathBuf)>,
}

impl NewFile {
    /// A file that takes this name when it is finished.
    pub fn create(path: &Path) -> io::Result<NewFile> {
        let before = fs::metadata(path).ok();
        if before.as_ref().is_some_and(|before| !before.is_file()) {
            return NewFile::in_place(path);
        }
        let Some(place) = behind_links(path)? else { return NewFile::in_place(path) };
        if before.is_some() {
            // A file that must not be written must not be replaced either.
            OpenOptions::new().write(true).open(path)?;
        }
        let mut name = place.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.partial", std::process::id()));
        let partial = place.with_file_name(name);
        match register(&partial).and_then(|()| exclusive(&partial)) {
            Ok(file) => {
                before.iter().for_each(|before| inherit(&file, before));
                Ok(NewFile { file, names: Some((partial, place)) })
            }
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Err(e),
            Err(e) => {
                unregister(&partial);
                match e.kind() {
                    // The file may be written, but not its folder.
                    ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem if before.is_some() => {
                        NewFile::in_place(path)
                    }
                    _ => Err(e),
                }
            }
        }
    }

    /// A log, which is read while it is written: it stands in its place from the start.
    pub fn in_place(path: &Path) -> io::Result<NewFile> {
        Ok(NewFile { file: File::create(path)?, names: None })
    }

    /// Another handle of it, to write to.
    pub fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Has `write` write all of it.
    pub fn fill(mut self, write: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>) -> io::Result<()> {
        let mut out = BufWriter::new(&mut self.file);
        write(&mut out)?;
        out.flush()?;
        drop(out);
        self.finish()
    }

    pub fn finish(mut self) -> io::Result<()> {
        let Some((partial, path)) = self.names.take() else { return Ok(()) };
        // Both in one step: a program that ends at once finds the file either partial or whole.
        let mut all = lock(&PARTIAL);
        all.retain(|(other, _)| *other != partial);
        fs::rename(&partial, &path)
            .map_err(|e| io::Error::new(e.kind(), format!("{e}; the data is in {}", partial.display())))
    }

    /// Something is lost, and the beginning is worth keeping: where that is, if not in its place.
    pub fn keep(mut self) -> Option<PathBuf> {
        let (partial, _) = self.names.take()?;
        unregister(&partial);
        Some(partial)
    }

    /// Its beginning is worth keeping when the program ends at once.
    pub fn outlives_the_program(self) -> NewFile {
        let mut all = lock(&PARTIAL);
        let own = |partial: &Path| self.names.as_ref().is_some_and(|(own, _)| own == partial);
        all.iter_mut().filter(|(partial, _)| own(partial)).for_each(|(_, removed)| *removed = false);
        drop(all);
        self
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        let Some((partial, _)) = &self.names else { return };
        let is_removed = unregister(partial);
        if is_removed || self.file.metadata().is_ok_and(|file| file.len() == 0) {
            // If it cannot be removed, its name marks it as partial.
            let _ = fs::remove_file(partial);
        }
    }
}

/// Makes a file of what `write` writes.
pub fn write(path: &Path, write: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>) -> io::Result<()> {
    NewFile::create(path)?.fill(write)
}

/// The same, for commands that end when it cannot be made.
pub fn put(
    path: &Path,
    write: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>,
) -> Result<(), CliError> {
    self::write(path, write).map_err(|error| unwritten(path, &error))
}

/// Why there is no output in this file.
pub fn unwritten(path: &Path, error: &io::Error) -> CliError {
    CliError::failed(format!("cannot write to {}: {error}", path.display()))
}

/// Makes a folder, unless it is there.
pub fn folder(path: &Path) -> Result<(), CliError> {
    fs::create_dir_all(path).context(format_args!("cannot make the folder {}", path.display()))
}

/// The folder that a variable names. By the specification of base directories one that is not
/// absolute does not count.
pub fn folder_in(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Netcaliper's folder of one kind: in the folder that the variable `xdg` names, in `usual` of
/// the home directory, or in the folder that the variable `windows` names. `None` without a home.
pub fn own_folder(xdg: &str, usual: &str, windows: &str) -> Option<PathBuf> {
    let folder = folder_in(xdg)
        .or_else(|| folder_in("HOME").map(|home| home.join(usual)))
        .or_else(|| folder_in(windows))?;
    Some(folder.join("netcaliper"))
}

/// Folder of this program's own state: never results of the user's runs, which are in the store.
pub fn state_folder() -> Result<PathBuf, CliError> {
    let of_service = folder_in("STATE_DIRECTORY").map(|folder| folder.join("netcaliper"));
    let usual = || own_folder("XDG_STATE_HOME", ".local/state", "LOCALAPPDATA");
    of_service.or_else(usual).ok_or_else(|| {
        CliError::failed(
            "there is no home directory to keep results in: XDG_STATE_HOME names a folder for them",
        )
    })
}

/// True where a regular file can be read by users that are neither its owner nor in its group.
#[cfg(unix)]
pub fn is_world_readable(file: &Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.is_file() && file.permissions().mode() & 0o004 != 0
}

/// Access lists are not looked at.
#[cfg(not(unix))]
pub fn is_world_readable(_: &Metadata) -> bool {
    false
}

/// Removes the partial files, right before the process exits.
pub fn remove_partial() {
    let all = lock(&PARTIAL);
    for (partial, _) in all.iter().filter(|(_, removed)| *removed) {
        let _ = fs::remove_file(partial);
    }
    // Kept locked: another thread would otherwise begin a file before the process has ended.
    std::mem::forget(all);
}

/// Two outputs of one program cannot have the same file.
fn register(partial: &Path) -> io::Result<()> {
    let mut all = lock(&PARTIAL);
    if all.iter().any(|(other, _)| other == partial) {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "another output goes to the same file"));
    }
    all.push((partial.to_owned(), true));
    Ok(())
}

/// Takes the file off the list; true if it is to be removed unfinished.
fn unregister(partial: &Path) -> bool {
    let mut all = lock(&PARTIAL);
    let is_removed = all.iter().all(|(other, removed)| other != partial || *removed);
    all.retain(|(other, _)| other != partial);
    is_removed
}

/// A file that was not there. One that a program of this process number has left, as in a
/// container, is gone.
fn exclusive(partial: &Path) -> io::Result<File> {
    let new = || OpenOptions::new().write(true).create_new(true).open(partial);
    match new() {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            fs::remove_file(partial)?;
            new()
        }
        other => other,
    }
}

/// The file at the end of the links of `path`; `None` when that is no place for files, as with
/// /dev/stdout.
fn behind_links(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Some(name) = path.file_name() else { return Ok(None) };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = fs::canonicalize(folder.unwrap_or(Path::new(".")))?;
        if folder.starts_with("/proc") {
            return Ok(None);
        }
        let place = folder.join(name);
        match fs::read_link(&place) {
            Ok(target) => path = folder.join(target),
            Err(_) => return Ok(Some(place)),
        }
    }
    Ok(None)
}

/// Gives the new file the owner and permissions of the old one, where the system permits it.
fn inherit(file: &File, before: &Metadata) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let _ = std::os::unix::fs::fchown(file, Some(before.uid()), Some(before.gid()));
    }
    let _ = file.set_permissions(before.permissions());
}

/// The file in which an original's run is saved, until it is whole or has failed.
pub struct SavedRun(Option<(report::Journal<File>, NewFile)>);

impl SavedRun {
    /// A server's is a log, in its place from the start.
    pub fn open(path: &Path, serves: bool) -> Result<SavedRun, String> {
        let create = if serves { NewFile::in_place } else { NewFile::create };
        let file = create(path).map(NewFile::outlives_the_program);
        let opened = file.and_then(|file| Ok((report::Journal::new(file.handle()?), file)));
        Ok(SavedRun(Some(opened.map_err(|error| unwritten(path, &error).text)?)))
    }

    /// Keeps an event; with the end of the run the file is whole.
    ///
    /// # Errors
    /// Once, when the file fails.
    pub fn on_event(&mut self, event: &Event) -> Result<(), String> {
        let Some((mut journal, file)) = self.0.take() else { return Ok(()) };
        let failed = |error: io::Error| format!("cannot write to the file of --save: {error}");
        if let Err(error) = journal.on_event(event) {
            return Err(failed(error) + &before(file.keep()));
        }
        if matches!(event, Event::End { .. }) {
            drop(journal);
            return file.finish().map_err(failed);
        }
        self.0 = Some((journal, file));
        Ok(())
    }
}

/// A clause that names the kept beginning of a file that has failed.
pub fn before(kept: Option<PathBuf>) -> String {
    kept.map_or_else(String::new, |path| format!("; its beginning is in {}", path.display()))
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    /// A folder that is gone when dropped.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let folder = std::env::temp_dir().join(format!("netcaliper-file-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).unwrap();
            Folder(folder)
        }

        /// Names and contents of all that is in it.
        fn holds(&self) -> Vec<(String, String)> {
            let entry = |entry: io::Result<fs::DirEntry>| {
                let entry = entry.unwrap();
                (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap())
            };
            let mut all: Vec<_> = fs::read_dir(&self.0).unwrap().map(entry).collect();
            all.sort();
            all
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn held(name: &str, text: &str) -> Vec<(String, String)> {
        vec![(name.to_owned(), text.to_owned())]
    }

    #[test]
    fn a_file_is_whole_or_as_it_was() {
        let folder = Folder::new("whole");
        let path = folder.0.join("a");
        let file = NewFile::create(&path).unwrap();
        file.handle().unwrap().write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(file);
        assert_eq!(folder.holds(), []);

        write(&path, |out| out.write_all(b"whole")).unwrap();
        assert_eq!(folder.holds(), held("a", "whole"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let failed = write(&path, |out| out.write_all(b"half").and(Err(ErrorKind::StorageFull.into())));
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(folder.holds(), held("a", "whole"));
        write(&path, |out| out.write_all(b"new")).unwrap();
        assert_eq!(folder.holds(), held("a", "new"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn the_beginning_of_a_journal_stays_where_the_run_ends_in_an_error() {
        let folder = Folder::new("journal");
        let journal = || NewFile::create(&folder.0.join("a")).unwrap().outlives_the_program();
        drop(journal());
        assert_eq!(folder.holds(), [], "it has no beginning");
        let file = journal();
        file.handle().unwrap().write_all(b"begin").unwrap();
        drop(file);
        assert_eq!(folder.holds(), held(&format!("a.{}.partial", std::process::id()), "begin"));
    }

    #[test]
    fn links_stay_and_what_they_lead_to_is_replaced() {
        let folder = Folder::new("links");
        let (there, link) = (folder.0.join("there"), folder.0.join("link"));
        symlink("there", &link).unwrap();
        for text in ["made", "replaced"] {
            write(&link, |out| out.write_all(text.as_bytes())).unwrap();
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
            assert_eq!(fs::read_to_string(&there).unwrap(), text);
        }
        let circle = folder.0.join("circle");
        symlink("circle", &circle).unwrap();
        assert!(NewFile::create(&circle).is_err());
        assert!(NewFile::create(&folder.0.join("none").join("a")).is_err());
        assert!(NewFile::create(&folder.0).is_err(), "a folder");
    }

    #[test]
    fn devices_and_descriptors_are_written_as_they_are() {
        let folder = Folder::new("devices");
        write(Path::new("/dev/null"), |out| out.write_all(b"gone")).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let path = folder.0.join("a");
        let open = File::create(&path).unwrap();
        let descriptor = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&open));
        let link = folder.0.join("link");
        symlink(&descriptor, &link).unwrap();
        write(&link, |out| out.write_all(b"kept")).unwrap();
        // Still the same file, which has not been replaced.
        assert_eq!(open.metadata().unwrap().len(), 4);
    }

    #[test]
    fn two_outputs_cannot_have_the_same_file() {
        let folder = Folder::new("two");
        let path = folder.0.join("a");
        let first = NewFile::create(&path).unwrap();
        let refused = NewFile::create(&folder.0.join(".").join("a")).map(drop).unwrap_err();
        assert!(refused.to_string().contains("another output goes to the same file"), "{refused}");
        first.finish().unwrap();
        assert_eq!(folder.holds(), held("a", ""));
        // A partial file of an earlier process with this PID is replaced.
        fs::write(folder.0.join(format!("a.{}.partial", std::process::id())), "old").unwrap();
        write(&path, |out| out.write_all(b"new")).unwrap();
        assert_eq!(folder.holds(), held("a", "new"));
    }
}
