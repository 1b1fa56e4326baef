//! Stand-in for pages in a build without the feature `http`.

use crate::{Metrics, Setup, Source};
use model::{Event, Outcome};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

fn absent<T>() -> io::Result<T> {
    let text = "this netcaliper was built without HTTP (cargo build --release --features http)";
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}

/// A page that cannot be opened.
pub enum Web {}

impl Web {
    /// Opens no page.
    pub fn open(_: SocketAddr, _: Setup) -> io::Result<Web> {
        absent()
    }

    /// The page's address.
    pub fn url(&self, _: &str) -> String {
        match *self {}
    }

    /// Takes an event to the page.
    pub fn record(&mut self, _: Source, _: &Event) {
        match *self {}
    }

    pub fn end(self, _: &Outcome, _: Duration, _: impl Fn() -> bool) {
        match self {}
    }
}

/// Stands in for the metrics server in builds without feature `http`.
pub enum Scraped {}

impl Scraped {
    /// Answers no scraper.
    pub fn open(_: SocketAddr, _: Metrics) -> io::Result<Scraped> {
        absent()
    }

    pub fn address(&self) -> SocketAddr {
        match *self {}
    }
}
