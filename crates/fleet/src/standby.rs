//! Runs that several controllers share through NATS JetStream, so that one of them leads and
//! another takes over when it is gone.
//!
//! | what | where | lives |
//! |---|---|---|
//! | log of a run: its plan, then its results, then its end | subject `netcaliper.FLEET.log.RUN` of the stream `netcaliper-FLEET` | 7 days |
//! | lease: which controller leads a run | key `RUN` of the bucket `netcaliper-FLEET-leases` | [`LEASE`] from its last renewal |
//!
//! A controller holds a lease by compare-and-set: it creates the key and renews it under its known
//! revision. Each message of a log is published under the condition that the controller knows the
//! last one, so that a controller which was stopped and wakes up after another has taken over can
//! write nothing. A result is acknowledged to its agent only after the log has it: no result is
//! lost with a controller, and none counts twice.

mod log;

use crate::threads::no_thread;
use crate::transport::nats::{Login, Tell, runtime, token};
use async_nats::jetstream::kv::{CreateErrorKind, UpdateErrorKind};
use async_nats::jetstream::{self, kv, stream};
pub use log::{Keeper, Log};
use metrics::Mono;
use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::oneshot;
use tokio::task;
use uuid::Uuid;

/// Time that a lease lasts without renewal.
pub const LEASE: Duration = Duration::from_secs(10);
/// Time from one renewal to the next.
const RENEWAL: Duration = Duration::from_secs(2);
/// Time before the server's expiry at which its holder takes a lease for over.
const MARGIN: Duration = Duration::from_secs(2);
/// Time that the log of a run is kept.
pub const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// Longest time of a request to the server.
const REQUEST: Duration = Duration::from_secs(2);

/// The runs of a fleet that controllers share.
pub struct SharedRuns {
    place: Arc<LogStore>,
    closing: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Place of logs and leases.
struct LogStore {
    handle: Handle,
    jetstream: jetstream::Context,
    stream: stream::Stream,
    leases: kv::Store,
    prefix: String,
}

impl SharedRuns {
    /// Connects to the server, and makes stream and bucket where they are missing.
    ///
    /// # Errors
    /// One sentence, when the server is not to be had, or has no JetStream.
    pub fn connect(server: &Login, tell: Tell) -> Result<SharedRuns, String> {
        let runtime = runtime()?;
        let place = Arc::new(LogStore::open(&runtime, server, tell)?);
        let (closing, closed) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("jetstream".to_owned()).spawn(move || {
            // The thread drives other threads' requests, until the sender is dropped.
            let _ = runtime.block_on(closed);
        });
        let thread = thread.map_err(no_thread)?;
        Ok(SharedRuns { place, closing: Some(closing), thread: Some(thread) })
    }

    /// Runs that have a log, finished ones included.
    ///
    /// # Errors
    /// One sentence, when the server does not answer.
    pub fn runs(&self) -> Result<Vec<Uuid>, String> {
        let place = &self.place;
        let all = format!("{}.*", place.prefix);
        let subjects = place.wait(async {
            use futures_util::TryStreamExt as _;
            let subjects = match place.stream.info_with_subjects(all).await {
                Ok(subjects) => subjects,
                // The server has lost its storage: no run has a log.
                Err(e) if is_not_found(&e) => return Ok(Vec::new()),
                Err(e) => return Err(failed(e)),
            };
            subjects.try_collect::<Vec<_>>().await.map_err(failed)
        })?;
        Ok(subjects.iter().filter_map(|(subject, _)| subject.rsplit('.').next()?.parse().ok()).collect())
    }
}

/// True if the server reports that it does not have the stream.
fn is_not_found(error: &stream::InfoError) -> bool {
    let source = std::error::Error::source(error).and_then(|e| e.downcast_ref::<jetstream::Error>());
    source.is_some_and(|e| e.error_code() == jetstream::ErrorCode::STREAM_NOT_FOUND)
}

impl Drop for SharedRuns {
    fn drop(&mut self) {
        self.closing = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl LogStore {
    fn open(runtime: &Runtime, server: &Login, tell: Tell) -> Result<LogStore, String> {
        let fleet = token(&server.fleet);
        if fleet.contains('=') {
            let name = &server.fleet;
            return Err(format!(
                "the fleet's name {name:?} cannot name a bucket: letters, digits, - and _ can"
            ));
        }
        let prefix = format!("netcaliper.{fleet}.log");
        let client = runtime.block_on(server.connect("netcaliper controller", false, tell))?;
        let context = jetstream::context::ContextBuilder::new().timeout(REQUEST).ack_timeout(REQUEST);
        // A context starts a task.
        let jetstream = runtime.block_on(async { context.build(client) });
        let stream = runtime.block_on(made(&jetstream, &fleet, &prefix))?;
        let leases = runtime.block_on(leased(&jetstream, &fleet))?;
        Ok(LogStore { handle: runtime.handle().clone(), jetstream, stream, leases, prefix })
    }

    fn wait<T>(&self, what: impl Future<Output = T>) -> T {
        self.handle.block_on(what)
    }

    fn subject(&self, run: Uuid) -> String {
        format!("{}.{run}", self.prefix)
    }
}

/// Makes a stored object with as many copies as a cluster of three has, or the one that a single
/// server has.
async fn replicated<T, E: Display>(make: impl AsyncFn(usize) -> Result<T, E>) -> Result<T, String> {
    match make(3).await {
        Ok(made) => Ok(made),
        Err(_) => make(1).await.map_err(failed),
    }
}

async fn made(jetstream: &jetstream::Context, fleet: &str, prefix: &str) -> Result<stream::Stream, String> {
    let config = |num_replicas| stream::Config {
        name: format!("netcaliper-{fleet}"),
        description: Some("Logs of a fleet's runs".to_owned()),
        subjects: vec![format!("{prefix}.*")],
        max_age: KEPT,
        // A log that lost its beginning would be measured again.
        discard: stream::DiscardPolicy::New,
        num_replicas,
        ..stream::Config::default()
    };
    replicated(async |replicas| jetstream.get_or_create_stream(config(replicas)).await).await
}

async fn leased(jetstream: &jetstream::Context, fleet: &str) -> Result<kv::Store, String> {
    let bucket = format!("netcaliper-{fleet}-leases");
    if let Ok(leases) = jetstream.get_key_value(&bucket).await {
        return Ok(leases);
    }
    // The bucket's age ends a lease, not the key's: a key that was deleted and made again would
    // have none (async-nats 0.51).
    let (bucket, max_age) = (&bucket, LEASE);
    let config =
        |num_replicas| kv::Config { bucket: bucket.clone(), max_age, num_replicas, ..kv::Config::default() };
    replicated(async |replicas| jetstream.create_key_value(config(replicas)).await).await
}

fn failed(e: impl Display) -> String {
    format!("JetStream of the NATS server (nats-server -js): {e}")
}

/// The right to lead a run, renewed until it is dropped, or lost.
pub struct Lease {
    run: Uuid,
    held: Arc<LeaseState>,
    place: Arc<LogStore>,
    renewing: task::JoinHandle<()>,
}

/// State that a lease shares with its renewal.
struct LeaseState {
    /// Until when its holder may rely on it, ns of this process's clock; 0 when it is lost.
    until: AtomicU64,
    revision: AtomicU64,
    clock: io::Clock,
}

impl LeaseState {
    fn is_valid(&self) -> bool {
        self.clock.now() < Mono(self.until.load(Ordering::Acquire))
    }

    /// The lease was taken by a request that was sent at this time.
    fn begin(&self, sent: Mono, revision: u64) {
        let lasts = u64::try_from((LEASE - MARGIN).as_nanos()).unwrap_or(0);
        self.revision.store(revision, Ordering::Release);
        self.until.store(sent.plus(lasts).0, Ordering::Release);
    }

    /// The lease was renewed by a request that was sent at this time; true if it is held. One that
    /// has lapsed meanwhile stays lost, since its holder may have ended its work by that.
    fn renew(&self, sent: Mono, revision: u64) -> bool {
        let is_valid = self.is_valid();
        if is_valid {
            self.begin(sent, revision);
        }
        is_valid
    }

    fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }
}

impl SharedRuns {
    /// Takes the lease of a run, unless another controller has it. `holder` is this controller's
    /// name.
    ///
    /// # Errors
    /// One sentence, when the server does not answer.
    pub fn lead(&self, run: Uuid, holder: &str) -> Result<Option<Lease>, String> {
        let place = Arc::clone(&self.place);
        let clock = io::Clock::new();
        let (sent, value) = (clock.now(), holder.as_bytes().to_vec());
        match place.wait(place.leases.create(run.to_string(), value.into())) {
            Err(e) if e.kind() == CreateErrorKind::AlreadyExists => Ok(None),
            Err(e) => Err(failed(e)),
            Ok(revision) => {
                let held = Arc::new(LeaseState {
                    until: AtomicU64::new(0),
                    revision: AtomicU64::new(revision),
                    clock,
                });
                held.begin(sent, revision);
                let renewing = renew(Arc::clone(&place), run, Arc::clone(&held), holder.to_owned());
                let renewing = place.handle.spawn(renewing);
                Ok(Some(Lease { run, held, place, renewing }))
            }
        }
    }
}

impl Lease {
    /// The run.
    #[must_use]
    pub fn run(&self) -> Uuid {
        self.run
    }

    /// True if the lease still is this controller's.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held.is_valid()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.renewing.abort();
        if self.is_held() {
            // On failure the lease ends by its age.
            let (run, revision) = (self.run.to_string(), Some(self.held.revision()));
            let release = self.place.leases.delete_expect_revision(run, revision);
            let _ = self.place.wait(async { tokio::time::timeout(RENEWAL, release).await });
        }
    }
}

/// Renews a lease until it is lost.
async fn renew(place: Arc<LogStore>, run: Uuid, held: Arc<LeaseState>, holder: String) {
    let key = run.to_string();
    while held.is_valid() {
        tokio::time::sleep(RENEWAL).await;
        let (sent, revision) = (held.clock.now(), held.revision());
        match place.leases.update(&key, holder.clone().into(), revision).await {
            Ok(revision) if held.renew(sent, revision) => {}
            Ok(_) => break,
            Err(e) if e.kind() == UpdateErrorKind::WrongLastRevision => {
                // A renewal whose answer was lost is this holder's own.
                let entry = place.leases.entry(&key).await;
                match entry {
                    Ok(Some(entry)) if entry.value == holder && entry.revision > revision => {
                        held.revision.store(entry.revision, Ordering::Release);
                    }
                    Ok(_) => held.until.store(0, Ordering::Release),
                    Err(_) => {}
                }
            }
            // The server does not answer: its holder tries again as long as the lease may last.
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_has_lapsed_does_not_come_back() {
        let clock = io::Clock::new();
        let held = LeaseState { until: AtomicU64::new(0), revision: AtomicU64::new(1), clock };
        held.begin(clock.now(), 1);
        assert!(held.renew(clock.now(), 2) && held.is_valid());
        held.until.store(clock.now().0, Ordering::Release);
        assert!(!held.renew(clock.now(), 3) && !held.is_valid());
        assert_eq!(held.revision(), 2);
    }
}
