//! Metrics, to be fetched over HTTP or left in a file for a textfile collector.

use crate::Trouble;
use report::METRICS_TYPE;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a request may take to come.
const PATIENCE: Duration = Duration::from_secs(3);
/// Largest head of a request.
const LARGEST: usize = 8 * 1024;
/// Requests that are answered at once; more are closed.
const MOST: usize = 16;

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

/// Answers scrapers from now on, on a thread of its own; the address it listens on.
pub(crate) fn serve<P: Page>(address: SocketAddr, page: Arc<Mutex<P>>) -> Result<SocketAddr, Trouble> {
    let refused = |e: io::Error| Trouble::failed(format!("cannot listen for scrapers at {address}: {e}"));
    let listener = TcpListener::bind(address).map_err(refused)?;
    let bound = listener.local_addr().map_err(refused)?;
    let busy = Arc::new(AtomicUsize::new(0));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                // Out of files, mostly: they come back.
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            if busy.fetch_add(1, Ordering::AcqRel) >= MOST {
                busy.fetch_sub(1, Ordering::AcqRel);
                continue;
            }
            let (page, busy) = (Arc::clone(&page), Arc::clone(&busy));
            thread::spawn(move || {
                // A scraper that goes away needs no answer.
                let _ = answer(stream, &page);
                busy.fetch_sub(1, Ordering::AcqRel);
            });
        }
    });
    Ok(bound)
}

/// Reads one request and answers it. Connections are not kept: a scrape is one request in many seconds.
fn answer<P: Page>(mut stream: TcpStream, page: &Mutex<P>) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let Some(request) = head(&mut stream)? else { return Ok(()) };
    let mut words = request.split(|c: char| c.is_ascii_whitespace());
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let (status, kind, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => {
            let mut body = Vec::new();
            page.lock().unwrap_or_else(PoisonError::into_inner).page(&mut body)?;
            ("200 OK", METRICS_TYPE, body)
        }
        ("GET" | "HEAD", _) => ("404 Not Found", "text/plain", b"metrics are at /metrics\n".to_vec()),
        _ => ("405 Method Not Allowed", "text/plain", b"metrics can be read only\n".to_vec()),
    };
    let length = body.len();
    let headers = "Connection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff";
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{headers}\r\n\r\n"
    )?;
    if method != "HEAD" {
        stream.write_all(&body)?;
    }
    stream.flush()
}

/// The request's line and headers; `None` when they are too long, or do not come in time.
fn head(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let until = Instant::now() + PATIENCE;
    let mut read = Vec::new();
    let mut chunk = [0; 1024];
    while !read.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || read.len() > LARGEST {
            return Ok(None);
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut chunk)? {
            0 => return Ok(None),
            n => read.extend_from_slice(&chunk[..n]),
        }
    }
    Ok(Some(String::from_utf8_lossy(&read).into_owned()))
}

/// Puts a page where a textfile collector looks: whole, or not at all.
pub(crate) fn leave(path: &Path, page: &dyn Page) -> Result<(), String> {
    let cannot = |e: io::Error| format!("cannot write to {}: {e}", path.display());
    let mut body = Vec::new();
    page.page(&mut body).map_err(cannot)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    // The collector reads *.prom only.
    name.push(format!(".{}.partial", std::process::id()));
    let partial = path.with_file_name(name);
    fs::write(&partial, body).and_then(|()| fs::rename(&partial, path)).map_err(|e| {
        let _ = fs::remove_file(&partial);
        cannot(e)
    })
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
