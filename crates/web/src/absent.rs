//! What stands for pages in a build without the feature `http`.

use crate::{Metrics, Setup};
use model::{Event, Outcome};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
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

    /// The run's side.
    pub fn view(&mut self) -> &mut View {
        match *self {}
    }

    pub fn end(self, _: &Outcome, _: Duration, _: impl Fn() -> bool) {
        match self {}
    }
}

/// The run's side of a page.
pub enum View {}

impl View {
    /// Takes an event to the page.
    pub fn hear(&mut self, _: &Event) {
        match *self {}
    }

    /// The same with an event of a protocol that a server speaks beside its own.
    pub fn hear_beside(&mut self, _: &'static str, _: &Event) {
        match *self {}
    }

    /// The same with an event of one of several measurements that run beside each other.
    pub fn hear_part(&mut self, _: u32, _: &Event) {
        match *self {}
    }
}

/// Stands in for the metrics server in builds without feature `http`.
pub enum Scraped {}

impl Scraped {
    /// Answers no scraper.
    pub fn open(_: SocketAddr, _: Arc<dyn Metrics>) -> io::Result<Scraped> {
        absent()
    }

    pub fn address(&self) -> SocketAddr {
        match *self {}
    }
}
