//! Metrics, to be fetched over HTTP or left in a file for a textfile collector.

use console::error::{CliError, lock};
use console::stdout::is_stdout;
use console::{file, stderr};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use web::{Metrics, Scraped};

/// The page of counts so far. The web server writes it into memory: no slow scraper holds the lock.
pub(crate) fn shared<T: Send + 'static>(
    counted: &Arc<Mutex<T>>,
    write: fn(&T, &mut dyn Write) -> io::Result<()>,
) -> Metrics {
    let counted = Arc::clone(counted);
    Arc::new(move |out: &mut dyn Write| write(&lock(&counted), out))
}

/// Answers scrapers as long as it is kept.
pub(crate) fn serve(address: SocketAddr, metrics: Metrics) -> Result<Scraped, CliError> {
    let refused = |e: io::Error| match e.kind() {
        io::ErrorKind::Unsupported => CliError::usage(e),
        _ => CliError::failed(format!("cannot listen for scrapers at {address}: {e}")),
    };
    Scraped::open(address, metrics).map_err(refused)
}

/// A file for textfile collectors: a page that is written anew again and again, whole, or not at
/// all.
pub(crate) struct MetricsFile {
    path: Option<PathBuf>,
    /// True if the last writing failed, and the failure was reported.
    failed: bool,
}

impl MetricsFile {
    /// Writes the page before anything is measured, if it is wanted.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn begin(path: Option<&PathBuf>, page: &Metrics) -> Result<MetricsFile, CliError> {
        if path.is_some_and(|path| is_stdout(path)) {
            return Err(CliError::usage("--metrics-file: repeated writing needs a file"));
        }
        let left = MetricsFile { path: path.cloned(), failed: false };
        left.put(page)?;
        Ok(left)
    }

    /// Writes the page as it is now. Of several failures in a row the first is reported.
    pub(crate) fn write(&mut self, page: &Metrics) {
        let written = self.put(page);
        let was_failing = std::mem::replace(&mut self.failed, written.is_err());
        if let Err(trouble) = written
            && !was_failing
        {
            stderr::say(format_args!("netcaliper: warning: {}", trouble.text));
        }
    }

    fn put(&self, page: &Metrics) -> Result<(), CliError> {
        // The collector reads *.prom only, so not the partial file.
        self.path.as_deref().map_or(Ok(()), |path| file::put(path, |out| page(out)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use console::error::Exit;

    #[test]
    fn metrics_that_cannot_be_written_are_an_error_at_first_and_told_once_later() {
        let page: Metrics = Arc::new(|out: &mut dyn Write| out.write_all(b"up 1\n"));
        assert_eq!(MetricsFile::begin(Some(&"-".into()), &page).err().map(|e| e.exit), Some(Exit::Usage));
        let folder = std::env::temp_dir().join(format!("netcaliper-scrape-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let path = folder.join("left.prom");
        assert_eq!(MetricsFile::begin(Some(&path), &page).err().map(|e| e.exit), Some(Exit::Failed));
        std::fs::create_dir_all(&folder).unwrap();
        let mut file = MetricsFile::begin(Some(&path), &page).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "up 1\n");
        std::fs::remove_dir_all(&folder).unwrap();
        for _ in 0..2 {
            file.write(&page);
            assert!(file.failed);
        }
        std::fs::create_dir_all(&folder).unwrap();
        file.write(&page);
        assert!(!file.failed, "the next failure is told again");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
