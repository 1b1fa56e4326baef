//! Metrics, to be fetched over HTTP or left in a file for a textfile collector.

use crate::{CliError, file};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use web::{Metrics, Scraped};

/// Something that can be written as a page of metrics.
pub(crate) trait Page: Send + 'static {
    /// Writes it as it is now.
    fn page(&self, out: &mut dyn Write) -> io::Result<()>;
}

impl Page for report::ServerMetrics {
    fn page(&self, out: &mut dyn Write) -> io::Result<()> {
        self.write(out)
    }
}

impl Page for report::RunMetrics {
    fn page(&self, out: &mut dyn Write) -> io::Result<()> {
        self.write(out)
    }
}

/// An address to be scraped at: `ADDR:PORT`, or a port of the loopback address.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let port = || text.parse().map(|port: u16| SocketAddr::new(IpAddr::from([127, 0, 0, 1]), port));
    text.parse().or_else(|_| port()).map_err(|_| {
        format!("'{text}' is not an address to be scraped at such as 9411, 127.0.0.1:9411 or [::]:9411")
    })
}

/// A page that others write to.
struct Shared<P>(Arc<Mutex<P>>);

impl<P: Page> Metrics for Shared<P> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        // Written into memory first: the counting thread must not wait for a slow scraper.
        let mut body = Vec::new();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).page(&mut body)?;
        out.write_all(&body)
    }
}

pub(crate) fn shared<P: Page>(page: &Arc<Mutex<P>>) -> Arc<dyn Metrics> {
    Arc::new(Shared(Arc::clone(page)))
}

/// Answers scrapers as long as it is kept.
pub(crate) fn serve<P: Page>(address: SocketAddr, page: &Arc<Mutex<P>>) -> Result<Scraped, CliError> {
    let refused = |e: io::Error| match e.kind() {
        io::ErrorKind::Unsupported => CliError::usage(e.to_string()),
        _ => CliError::failed(format!("cannot listen for scrapers at {address}: {e}")),
    };
    Scraped::open(address, shared(page)).map_err(refused)
}

/// Puts a page where a textfile collector looks: whole, or not at all.
pub(crate) fn leave(path: &Path, page: &dyn Page) -> Result<(), String> {
    let cannot = |e: io::Error| format!("cannot write to {}: {e}", path.display());
    // The collector reads *.prom only, so not what is being written.
    file::write(path, |out| page.page(out)).map_err(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_of_the_loopback_address() {
        assert_eq!(address("9411").unwrap(), "127.0.0.1:9411".parse().unwrap());
        assert_eq!(address("[::]:9").unwrap(), "[::]:9".parse().unwrap());
        assert!(address("somewhere").unwrap_err().contains("not an address"));
    }
}
