//! Log files: opened before the run, written as it goes.

use super::connection::{JITTER_CSV, TCP_INFO_CSV};
use super::line::layout;
use super::raw::is_csv;
use super::spec::{LogFiles, Transport};
use super::transcript::Item;
use model::Level;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Opens a file for writing, in the caller's way.
pub(crate) type OpenFile<'a> = &'a mut dyn FnMut(&Path) -> io::Result<Box<dyn Write + Send>>;

/// One file, which several logs may share.
struct File {
    path: PathBuf,
    out: BufWriter<Box<dyn Write + Send>>,
    utf16: bool,
    csv: bool,
    failed: bool,
}

impl File {
    fn line(&mut self, text: &str) -> io::Result<()> {
        let units = text.encode_utf16().chain("\r\n".encode_utf16());
        if self.utf16 {
            return units.map(u16::to_le_bytes).try_for_each(|unit| self.out.write_all(&unit));
        }
        self.out.write_all(text.as_bytes())?;
        self.out.write_all(b"\r\n")
    }

    fn lines<T: AsRef<str>>(&mut self, all: &[T]) -> io::Result<()> {
        all.iter().try_for_each(|line| self.line(line.as_ref()))
    }

    /// Lines that stand in text files only.
    fn text<T: AsRef<str>>(&mut self, all: &[T]) -> io::Result<()> {
        if self.csv { Ok(()) } else { self.lines(all) }
    }
}

/// Content of a log.
#[derive(Clone, Copy)]
enum Log {
    Status,
    Connection,
    Error,
    Jitter,
    TcpInfo,
}

/// All log files of a run.
pub(super) struct Logs {
    transport: Transport,
    files: Vec<File>,
    /// The file of each [`Log`].
    of: [Option<usize>; 5],
    /// Failures that have not been reported.
    failures: Vec<String>,
}

impl Logs {
    /// Opens all files and writes the headings of the tables.
    ///
    /// # Errors
    /// One sentence naming the first file that cannot be written.
    pub(super) fn open(asked: &LogFiles, transport: Transport, open: OpenFile<'_>) -> Result<Logs, String> {
        let mut logs = Logs { transport, files: Vec::new(), of: [None; 5], failures: Vec::new() };
        let layout = layout(transport);
        for (log, path, heading) in [
            (Log::Status, &asked.status, layout.status_csv),
            (Log::Connection, &asked.connection, layout.connection_csv),
            (Log::Error, &asked.error, ""),
            (Log::Jitter, &asked.jitter, JITTER_CSV),
            (Log::TcpInfo, &asked.tcp_info, TCP_INFO_CSV),
        ] {
            if let Some(path) = path {
                let opened = logs.file(path, asked.utf16, heading, open);
                let why = |error| format!("cannot write to {}: {error}", path.display());
                logs.of[log as usize] = Some(opened.map_err(why)?);
            }
        }
        Ok(logs)
    }

    fn file(&mut self, path: &Path, utf16: bool, heading: &str, open: OpenFile<'_>) -> io::Result<usize> {
        if let Some(known) = self.files.iter().position(|file| file.path == path) {
            return Ok(known);
        }
        let mut out = BufWriter::new(open(path)?);
        if utf16 {
            out.write_all(&[0xff, 0xfe])?;
        }
        let csv = is_csv(path);
        let mut file = File { path: path.to_owned(), out, utf16, csv, failed: false };
        if csv {
            file.line(heading)?;
        }
        file.out.flush()?;
        self.files.push(file);
        Ok(self.files.len() - 1)
    }

    /// Writes `item` to the files that it belongs to. After a crash a file is complete up to the
    /// last item that was not an ended connection. A file that fails is named once, and the others
    /// go on.
    pub(super) fn write(&mut self, item: &Item) -> Vec<String> {
        let transport = self.transport;
        match item {
            Item::Started(text) => {
                for at in 0..self.files.len() {
                    self.on(at, |file| file.text(&[text]));
                }
                self.to(Log::Status, |file| {
                    file.text(&layout(transport).legend())?;
                    file.text(&[layout(transport).heading])
                });
            }
            Item::Banner(lines) | Item::Summary(lines) => self.to(Log::Connection, |file| file.text(lines)),
            Item::Status(slice) => self.to(Log::Status, |file| {
                file.line(&if file.csv { slice.row() } else { slice.line(transport) })
            }),
            Item::Established(text) => self.to(Log::Connection, |file| file.text(&[text])),
            Item::Connection { line, row, tcp_info } => {
                self.to(Log::Connection, |file| file.line(if file.csv { row } else { line }));
                if let Some(row) = tcp_info {
                    self.to(Log::TcpInfo, |file| file.line(row));
                }
            }
            Item::Error(text) => self.to(Log::Error, |file| file.line(text)),
            Item::Adapters(_) | Item::Message { level: Level::Info, .. } | Item::Pause => {}
            Item::Message { at, text, .. } => {
                self.to(Log::Error, |file| file.line(&format!("[{at}] {text}")));
            }
            Item::Jitter(rows) => self.to(Log::Jitter, |file| file.lines(rows)),
            Item::Said(text) => self.to(Log::Error, |file| file.line(text.trim_start())),
        }
        if !matches!(item, Item::Connection { .. } | Item::Established(_) | Item::Error(_)) {
            // The status last: if the process is killed, it never counts connections whose rows
            // were lost.
            let status = self.of[Log::Status as usize];
            for at in (0..self.files.len()).filter(|at| Some(*at) != status).chain(status) {
                self.on(at, |file| file.out.flush());
            }
        }
        std::mem::take(&mut self.failures)
    }

    fn to(&mut self, log: Log, write: impl FnOnce(&mut File) -> io::Result<()>) {
        if let Some(at) = self.of[log as usize] {
            self.on(at, write);
        }
    }

    fn on(&mut self, at: usize, write: impl FnOnce(&mut File) -> io::Result<()>) {
        let Some(file) = self.files.get_mut(at).filter(|file| !file.failed) else { return };
        if let Err(error) = write(file) {
            file.failed = true;
            self.failures.push(format!("writing to {} failed: {error}", file.path.display()));
        }
    }
}

#[cfg(test)]
mod tests;
