//! Log files: opened before the run, written as it goes.

use super::spec::{Encoding, LogFiles, Transport};
use super::transcript::Item;
use super::{connection, jitter, line, raw};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Opens a file for writing, in the caller's way.
pub(crate) type OpenFile<'a> = &'a mut dyn FnMut(&Path) -> io::Result<Box<dyn Write + Send>>;

/// One file, which several logs may share.
struct Log {
    path: PathBuf,
    out: BufWriter<Box<dyn Write + Send>>,
    encoding: Encoding,
    csv: bool,
    failed: bool,
}

impl Log {
    fn line(&mut self, text: &str) -> io::Result<()> {
        match self.encoding {
            Encoding::Utf8 => {
                self.out.write_all(text.as_bytes())?;
                self.out.write_all(b"\r\n")
            }
            Encoding::Utf16 => text
                .encode_utf16()
                .chain("\r\n".encode_utf16())
                .try_for_each(|unit| self.out.write_all(&unit.to_le_bytes())),
        }
    }

    fn lines<T: AsRef<str>>(&mut self, all: &[T]) -> io::Result<()> {
        all.iter().try_for_each(|line| self.line(line.as_ref()))
    }
}

/// All log files of a run.
#[derive(Default)]
pub(super) struct Logs {
    transport: Transport,
    files: Vec<Log>,
    status: Option<usize>,
    connection: Option<usize>,
    error: Option<usize>,
    jitter: Option<usize>,
    tcp_info: Option<usize>,
}

impl Logs {
    /// Opens all files and writes the headers of the tables.
    ///
    /// # Errors
    /// One sentence naming the first file that cannot be written.
    pub(super) fn open(asked: &LogFiles, transport: Transport, open: OpenFile<'_>) -> Result<Logs, String> {
        let mut logs = Logs { transport, ..Logs::default() };
        logs.status =
            logs.file(asked.status.as_deref(), asked.encoding, line::csv_header(transport), open)?;
        let header = connection::csv_header(transport);
        logs.connection = logs.file(asked.connection.as_deref(), asked.encoding, header, open)?;
        logs.error = logs.file(asked.error.as_deref(), asked.encoding, "", open)?;
        logs.jitter = logs.file(asked.jitter.as_deref(), asked.encoding, jitter::HEADER, open)?;
        let header = connection::TCP_INFO_CSV;
        logs.tcp_info = logs.file(asked.tcp_info.as_deref(), asked.encoding, header, open)?;
        Ok(logs)
    }

    fn file(
        &mut self,
        path: Option<&Path>,
        encoding: Encoding,
        header: &str,
        open: OpenFile<'_>,
    ) -> Result<Option<usize>, String> {
        let Some(path) = path else { return Ok(None) };
        if let Some(known) = self.files.iter().position(|log| log.path == path) {
            return Ok(Some(known));
        }
        let named = |e: io::Error| format!("cannot write to {}: {e}", path.display());
        let mut out = BufWriter::new(open(path).map_err(named)?);
        if encoding == Encoding::Utf16 {
            out.write_all(&[0xff, 0xfe]).map_err(named)?;
        }
        let csv = raw::is_csv(path);
        let mut log = Log { path: path.to_owned(), out, encoding, csv, failed: false };
        if csv {
            log.line(header).map_err(named)?;
        }
        log.out.flush().map_err(named)?;
        self.files.push(log);
        Ok(Some(self.files.len() - 1))
    }

    /// Writes `item` to the files that it belongs to. What is in them survives a crash up to the last item that was not an
    /// ended connection. A file that fails is named once, and the others go on.
    pub(super) fn write(&mut self, item: &Item) -> Vec<String> {
        let mut failed = Vec::new();
        let transport = self.transport;
        match item {
            Item::Started(text) => {
                for log in &mut self.files {
                    on(log, &mut failed, |log| if log.csv { Ok(()) } else { log.line(text) });
                }
                self.to(self.status, &mut failed, |log| {
                    if log.csv {
                        return Ok(());
                    }
                    log.lines(&line::legend(transport))?;
                    log.line(line::header(transport))
                });
            }
            Item::Banner(lines) | Item::Summary(lines) => {
                self.to(self.connection, &mut failed, |log| if log.csv { Ok(()) } else { log.lines(lines) });
            }
            Item::Status(slice) => self.to(self.status, &mut failed, |log| {
                if log.csv { log.line(&slice.row()) } else { log.line(&slice.line(transport)) }
            }),
            Item::Established(text) => {
                self.to(self.connection, &mut failed, |log| if log.csv { Ok(()) } else { log.line(text) });
            }
            Item::Connection { line, row, tcp_info } => {
                self.to(self.connection, &mut failed, |log| log.line(if log.csv { row } else { line }));
                if let Some(row) = tcp_info {
                    self.to(self.tcp_info, &mut failed, |log| log.line(row));
                }
            }
            Item::Error(text) => self.to(self.error, &mut failed, |log| log.line(text)),
            Item::Message { at, text, error: true } | Item::Warning { at, text } => {
                self.to(self.error, &mut failed, |log| log.line(&format!("[{at}] {text}")));
            }
            Item::Jitter(rows) => self.to(self.jitter, &mut failed, |log| log.lines(rows)),
            Item::Said(text) => {
                self.to(self.error, &mut failed, |log| log.line(text.trim_start()));
            }
            Item::Adapters(_) | Item::Message { .. } | Item::Pause => {}
        }
        if !matches!(item, Item::Connection { .. } | Item::Established(_) | Item::Error(_)) {
            // The status last: if the process is killed, it never counts connections whose rows were lost.
            let status = self.status;
            for last in [false, true] {
                let files = self.files.iter_mut().enumerate();
                for (_, log) in files.filter(|(at, _)| (Some(*at) == status) == last) {
                    on(log, &mut failed, |log| log.out.flush());
                }
            }
        }
        failed
    }

    fn to(
        &mut self,
        at: Option<usize>,
        failed: &mut Vec<String>,
        write: impl FnOnce(&mut Log) -> io::Result<()>,
    ) {
        if let Some(log) = at.and_then(|at| self.files.get_mut(at)) {
            on(log, failed, write);
        }
    }
}

fn on(log: &mut Log, failed: &mut Vec<String>, write: impl FnOnce(&mut Log) -> io::Result<()>) {
    if log.failed {
        return;
    }
    if let Err(error) = write(log) {
        log.failed = true;
        failed.push(format!("writing to {} failed: {error}", log.path.display()));
    }
}

#[cfg(test)]
mod tests;
