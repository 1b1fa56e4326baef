//! A file of this host for sent or received payload.

use super::{Opening, Store};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

#[derive(Debug)]
struct OnDisk(File);

/// Opens the file for each test anew: to be sent, or emptied and filled with received payload.
pub(super) fn opening(path: &Path) -> Opening {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    Arc::new(move |sends| {
        let file = if sends { File::open(&path) } else { File::create(&path) };
        let file = file.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Arc::new(OnDisk(file)) as Arc<dyn Store>)
    })
}

impl Store for OnDisk {
    fn size(&self) -> u64 {
        self.0.metadata().map_or(0, |of| of.len())
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), String> {
        read(&self.0, at, into).map_err(|error| format!("the file cannot be read on: {error}"))
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), String> {
        write(&self.0, at, bytes).map_err(|error| format!("the file cannot be written on: {error}"))
    }
}

#[cfg(unix)]
fn read(file: &File, at: u64, into: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, into, at)
}

#[cfg(unix)]
fn write(file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(windows)]
fn read(file: &File, at: u64, into: &mut [u8]) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    let mut have = 0;
    while have < into.len() {
        match file.seek_read(&mut into[have..], at + have as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => have += n,
        }
    }
    Ok(())
}

#[cfg(windows)]
fn write(file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    let mut done = 0;
    while done < bytes.len() {
        match file.seek_write(&bytes[done..], at + done as u64)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => done += n,
        }
    }
    Ok(())
}
