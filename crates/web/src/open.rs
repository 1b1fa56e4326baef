//! Pages that are open to browsers, and to scrapers.

use crate::guard::Guard;
use crate::routes::Site;
use crate::server::WebServer;
use crate::shown::{SharedPage, View};
use crate::{Metrics, Setup, Source, address};
use model::{Event, Outcome};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval of the checks if a page that stays after the run is to close.
const LOOK: Duration = Duration::from_millis(50);

/// A page that is open to browsers, until it is dropped.
pub struct Web {
    server: WebServer,
    view: View,
    token: Option<String>,
}

impl Web {
    /// Opens a page at `address`; port 0 is any that is free.
    pub fn open(address: SocketAddr, setup: Setup) -> io::Result<Web> {
        let shown = Arc::new(SharedPage::new(setup.store));
        let site = |bound: SocketAddr| {
            let guard = Guard::of(bound).map_err(io::Error::other)?;
            Ok(Site { guard, shown: Some(Arc::clone(&shown)), metrics: setup.metrics })
        };
        let (server, guard) = WebServer::start(address, site)?;
        let token = guard.token().map(str::to_owned);
        Ok(Web { server, view: View::new(shown), token })
    }

    /// The URL for a browser, with the token where the page has one; `host` is this host's name,
    /// for a page at all of its addresses.
    pub fn url(&self, host: &str) -> String {
        address::url(self.server.address, host, self.token.as_deref())
    }

    /// Takes an event to the page, and waits for nothing.
    pub fn record(&mut self, of: Source, event: &Event) {
        self.view.record(of, event);
    }

    /// Shows the final result on all open pages. The page stays open for `linger`, unless `stop`
    /// returns true; a browser that connects in that time sees the result, too.
    pub fn end(mut self, outcome: &Outcome, linger: Duration, stop: impl Fn() -> bool) {
        self.view.end(outcome);
        let began = Instant::now();
        while began.elapsed() < linger && !stop() {
            std::thread::sleep(LOOK.min(linger));
        }
        self.server.end();
    }
}

/// Metrics alone, for every scraper.
pub struct Scraped {
    server: WebServer,
}

impl Scraped {
    /// Answers scrapers at `address` from now on, until this is dropped.
    pub fn open(address: SocketAddr, metrics: Metrics) -> io::Result<Scraped> {
        let site = |_| Ok(Site { guard: Guard::Open, shown: None, metrics: Some(metrics) });
        Ok(Scraped { server: WebServer::start(address, site)?.0 })
    }

    pub fn address(&self) -> SocketAddr {
        self.server.address
    }
}
