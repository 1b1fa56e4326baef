//! The thread that answers: any number of browsers, each of which can hold up nothing but itself.

use crate::guard::Guard;
use crate::routes::{Site, respond};
use crate::shown::SharedPage;
use crate::write_timeout::WriteTimeout;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

/// Connections at once; further ones are closed at once.
const MOST: usize = 96;
/// Longest time for a request's head.
const PATIENCE: Duration = Duration::from_secs(5);
/// Largest head of a request, bytes.
const LARGEST: usize = 16 * 1024;
/// Interval of updates to followers.
const EVERY: Duration = Duration::from_secs(1);
/// Longest time for the final update to reach followers.
const FAREWELL: Duration = Duration::from_secs(3);

pub(crate) struct WebServer {
    pub(crate) address: SocketAddr,
    over: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl WebServer {
    /// Takes the address; answers from now on. The guard depends on the address that was got.
    pub(crate) fn start(
        address: SocketAddr,
        make: impl FnOnce(SocketAddr) -> io::Result<Site>,
    ) -> io::Result<(Self, Guard)> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let site = make(address)?;
        let guard = site.guard.clone();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build()?;
        let (over, told) = oneshot::channel();
        let thread = std::thread::Builder::new().name("web".to_owned()).spawn(move || {
            runtime.block_on(answer(listener, site, told));
            // Answers under way are not waited for.
            runtime.shutdown_background();
        })?;
        Ok((WebServer { address, over: Some(over), thread: Some(thread) }, guard))
    }

    /// Sends followers the final update, and ends the thread.
    pub(crate) fn end(&mut self) {
        drop(self.over.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread does not end the run.
            let _ = thread.join();
        }
    }
}

async fn answer(listener: std::net::TcpListener, site: Site, over: oneshot::Receiver<()>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let shown = site.shown.clone();
    let site = Arc::new(site);
    // Number of connections with a request under way.
    let busy = Arc::new(AtomicUsize::new(0));
    let accepting = tokio::spawn(accept(listener, site, Arc::clone(&busy)));
    let telling = shown.clone().map(|shown| tokio::spawn(refresh_followers(shown)));
    // Dropped or sent, it is over.
    let _ = over.await;
    telling.inspect(tokio::task::JoinHandle::abort);
    accepting.abort();
    if let Some(shown) = shown {
        shown.refresh().await;
        let until = Instant::now() + FAREWELL;
        while busy.load(Ordering::Acquire) > 0 && Instant::now() < until {
            sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Refreshes the update while pages follow.
async fn refresh_followers(shown: Arc<SharedPage>) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if shown.followers() > 0 {
            shown.refresh().await;
        }
    }
}

async fn accept(listener: TcpListener, site: Arc<Site>, busy: Arc<AtomicUsize>) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, mostly: some are free again soon.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        if open.fetch_add(1, Ordering::AcqRel) >= MOST {
            open.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let (site, busy, open) = (Arc::clone(&site), Arc::clone(&busy), Arc::clone(&open));
        tokio::spawn(async move {
            one(stream, &site, &busy).await;
            open.fetch_sub(1, Ordering::AcqRel);
        });
    }
}

/// Answers one request. Connections are closed after the answer: requests are rare, and an idle
/// connection would hold a place.
async fn one(stream: TcpStream, site: &Site, busy: &AtomicUsize) {
    let asked = AtomicBool::new(false);
    let service = service_fn(async |request| {
        if !asked.swap(true, Ordering::AcqRel) {
            busy.fetch_add(1, Ordering::AcqRel);
        }
        Ok::<_, Infallible>(respond(site, &request).await)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).keep_alive(false).max_buf_size(LARGEST);
    // A browser that goes away needs no answer.
    let _ = http.serve_connection(TokioIo::new(WriteTimeout::new(stream)), service).await;
    if asked.load(Ordering::Acquire) {
        busy.fetch_sub(1, Ordering::AcqRel);
    }
}
