//! Shows it in a browser: a run or a server while it goes on, runs that were kept, and metrics for scrapers.
//!
//! One thread of its own answers (`server.rs`); it is the only user of tokio. A run tells its events to a [`View`], which never
//! waits: what pages show is made from a copy, at most once a second and only while somebody looks (`shown.rs`), of a run that is
//! kept small however long it is. Pages are told all at first and then what has changed (`update.rs`). All of it can only be
//! read; who may read is decided in one place (`guard.rs`).
#![forbid(unsafe_code)]

mod address;
mod guard;
mod history;
mod patient;
mod routes;
mod server;
mod shown;
mod update;

pub use address::{PORT, is_here, parse_address};
pub use history::past;
pub use shown::View;

use guard::Guard;
use model::Outcome;
use routes::Site;
use server::Server;
use shown::Shown;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Something that can be written as a page of metrics.
pub trait Metrics: Send + Sync {
    /// Writes it as it is now.
    ///
    /// # Errors
    /// When `out` cannot be written.
    fn write(&self, out: &mut dyn Write) -> io::Result<()>;
}

/// How often it is looked whether a page that stays after the run is to go.
const LOOK: Duration = Duration::from_millis(50);

/// A page that is open to browsers. It closes when this is dropped.
pub struct Web {
    server: Server,
    view: View,
    token: Option<String>,
}

/// What a page has besides the run.
#[derive(Default)]
pub struct Setup {
    /// Where runs are kept, if they are.
    pub store: Option<PathBuf>,
    /// Metrics for scrapers, at `/metrics`.
    pub metrics: Option<Arc<dyn Metrics>>,
}

impl Web {
    /// Opens a page at `address`; port 0 is any that is free.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn open(address: SocketAddr, setup: Setup) -> io::Result<Web> {
        let shown = Arc::new(Shown::new(setup.store));
        let site = |bound: SocketAddr| {
            let guard = Guard::of(bound).map_err(io::Error::other)?;
            Ok(Site { guard, shown: Some(Arc::clone(&shown)), metrics: setup.metrics })
        };
        let (server, guard) = Server::start(address, site)?;
        let token = guard.token().map(str::to_owned);
        Ok(Web { server, view: View::new(shown), token })
    }

    /// What to open in a browser, with the token where one is wanted; `host` is this host's name, for a page at all of its
    /// addresses.
    #[must_use]
    pub fn url(&self, host: &str) -> String {
        address::url(self.server.address, host, self.token.as_deref())
    }

    /// The run's side.
    pub fn view(&mut self) -> &mut View {
        &mut self.view
    }

    /// The run is over, and this is its result: pages that are open are told. It stays `linger` longer, unless `stop` says
    /// otherwise; whoever comes in that time sees the end, too.
    pub fn end(mut self, outcome: &Outcome, linger: Duration, stop: impl Fn() -> bool) {
        self.view.end(outcome);
        let began = Instant::now();
        while began.elapsed() < linger && !stop() {
            std::thread::sleep(LOOK.min(linger));
        }
        self.server.end();
    }
}

/// Metrics alone, for scrapers, to whoever asks: nothing else is told.
pub struct Scraped {
    server: Server,
}

impl Scraped {
    /// Answers scrapers at `address` from now on, until this is dropped.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn open(address: SocketAddr, metrics: Arc<dyn Metrics>) -> io::Result<Scraped> {
        let site = |_| Ok(Site { guard: Guard::Open, shown: None, metrics: Some(metrics) });
        Ok(Scraped { server: Server::start(address, site)?.0 })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address
    }
}
