//! Web pages of a running measurement or server, of saved runs, and metrics for scrapers.
//!
//! One thread of its own answers (`server.rs`); the server is the only user of tokio. A run passes
//! its events to a [`Web`], which never waits: pages are made from a copy, at most once a second
//! and only while a page is open (`shown.rs`), of a run that is kept small however long it is. A
//! page gets all parts at first and then the changed ones (`update.rs`). All of it can only be
//! read; access is decided in one place (`guard.rs`).
//!
//! Without the feature `http` nothing of this is there: opening a page is an error that says so
//! (`absent.rs`).
#![forbid(unsafe_code)]

mod address;
#[cfg(feature = "http")]
mod answer;
#[cfg(feature = "http")]
mod guard;
#[cfg(feature = "http")]
mod history;
#[cfg(feature = "http")]
mod open;
#[cfg(feature = "http")]
mod routes;
#[cfg(feature = "http")]
mod server;
#[cfg(feature = "http")]
mod shown;
#[cfg(feature = "http")]
mod update;
#[cfg(feature = "http")]
mod write_timeout;

#[cfg(not(feature = "http"))]
mod absent;

#[cfg(not(feature = "http"))]
pub use absent::{Scraped, Web};
pub use address::PORT;
#[cfg(feature = "http")]
pub use open::{Scraped, Web};

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// Writes a page of metrics as they are now.
pub type Metrics = Arc<dyn Fn(&mut dyn Write) -> io::Result<()> + Send + Sync>;

/// Source of an event: the run or the server.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// The run, or the server's own protocol.
    Run,
    /// A protocol that a server speaks beside its own.
    Beside(&'static str),
    /// A concurrent measurement, by index. Its events are replayed in index order at the end.
    Part(u32),
}

/// A page's settings besides the run.
#[derive(Default)]
pub struct Setup {
    /// The store, if runs are kept.
    pub store: Option<PathBuf>,
    /// Metrics for scrapers, at `/metrics`.
    pub metrics: Option<Metrics>,
}
