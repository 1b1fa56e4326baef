//! Runs that several controllers share through NATS JetStream, so that one of them leads and another takes over when it is gone.
//!
//! | what | where | lives |
//! |---|---|---|
//! | log of a run: its plan, then its results, then its end | subject `netcaliper.FLEET.log.RUN` of the stream `netcaliper-FLEET` | 7 days |
//! | lease: which controller leads a run | key `RUN` of the bucket `netcaliper-FLEET-leases` | [`LEASE`] from its last renewal |
//!
//! A controller holds a lease by compare-and-set: it creates the key and renews it under the revision that it knows. Each message of
//! a log is published under the condition that the last one is the one that the controller knows, so that a controller which was
//! stopped and wakes up after another has taken over can write nothing. Agents are told of a result that it is stored only after the
//! log has it: none is lost with a controller, and none counts twice.

mod lease;
mod log;

use crate::threads::no_thread;
use crate::transport::nats::{Server, Tell, runtime, token};
use async_nats::jetstream::{self, kv, stream};
pub use lease::Lease;
pub use log::{Keeper, Log};
use std::future::Future;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::oneshot;
use uuid::Uuid;

/// How long a lease lasts without its holder.
pub const LEASE: Duration = Duration::from_secs(10);
/// How long the log of a run is kept.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// How long a request to the server may take.
const REQUEST: Duration = Duration::from_secs(2);

/// The runs of a fleet that controllers share.
pub struct Shared {
    place: Arc<Place>,
    closing: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Where logs and leases are.
struct Place {
    handle: Handle,
    jetstream: jetstream::Context,
    stream: stream::Stream,
    leases: kv::Store,
    prefix: String,
}

impl Shared {
    /// Connects to the server, and makes stream and bucket where they are missing.
    ///
    /// # Errors
    /// One sentence, when the server is not to be had, or has no JetStream.
    pub fn connect(server: &Server, tell: Tell) -> Result<Shared, String> {
        let runtime = runtime()?;
        let place = Arc::new(Place::open(&runtime, server, tell)?);
        let (closing, closed) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("jetstream".to_owned()).spawn(move || {
            // It drives what other threads wait for.
            let _ = runtime.block_on(closed);
        });
        let thread = thread.map_err(no_thread)?;
        Ok(Shared { place, closing: Some(closing), thread: Some(thread) })
    }

    /// Runs that have a log, those that are over included.
    ///
    /// # Errors
    /// One sentence, when the server does not answer.
    pub fn runs(&self) -> Result<Vec<Uuid>, String> {
        let place = &self.place;
        let all = format!("{}.*", place.prefix);
        let subjects = place.wait(async {
            use futures_util::TryStreamExt as _;
            let subjects = place.stream.info_with_subjects(all).await.map_err(|e| failed(&e))?;
            subjects.try_collect::<Vec<_>>().await.map_err(|e| failed(&e))
        })?;
        Ok(subjects.iter().filter_map(|(subject, _)| subject.rsplit('.').next()?.parse().ok()).collect())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(closing) = self.closing.take() {
            let _ = closing.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Place {
    fn open(runtime: &Runtime, server: &Server, tell: Tell) -> Result<Place, String> {
        let fleet = token(&server.fleet);
        if fleet.contains('=') {
            let name = &server.fleet;
            return Err(format!(
                "the fleet's name {name:?} cannot name a bucket: letters, digits, - and _ can"
            ));
        }
        let prefix = format!("netcaliper.{fleet}.log");
        let opened = runtime.block_on(async {
            let client = server.connect("netcaliper controller", false, tell).await?;
            let jetstream =
                jetstream::context::ContextBuilder::new().timeout(REQUEST).ack_timeout(REQUEST).build(client);
            let stream = made(&jetstream, &fleet, &prefix).await?;
            let leases = leased(&jetstream, &fleet).await?;
            Ok::<_, String>((jetstream, stream, leases))
        });
        let (jetstream, stream, leases) = opened?;
        let handle = runtime.handle().clone();
        Ok(Place { handle, jetstream, stream, leases, prefix })
    }

    fn wait<T>(&self, what: impl Future<Output = T>) -> T {
        self.handle.block_on(what)
    }

    fn subject(&self, run: Uuid) -> String {
        format!("{}.{run}", self.prefix)
    }
}

/// Copies of what is stored: as many as a cluster of three has, or the one that a single server has.
const REPLICAS: [usize; 2] = [3, 1];

async fn made(jetstream: &jetstream::Context, fleet: &str, prefix: &str) -> Result<stream::Stream, String> {
    let mut last = String::new();
    for num_replicas in REPLICAS {
        let config = stream::Config {
            name: format!("netcaliper-{fleet}"),
            description: Some("Logs of a fleet's runs".to_owned()),
            subjects: vec![format!("{prefix}.*")],
            max_age: KEPT,
            // A log that lost its beginning would be measured again.
            discard: stream::DiscardPolicy::New,
            num_replicas,
            ..stream::Config::default()
        };
        match jetstream.get_or_create_stream(config).await {
            Ok(stream) => return Ok(stream),
            Err(e) => last = failed(&e),
        }
    }
    Err(last)
}

async fn leased(jetstream: &jetstream::Context, fleet: &str) -> Result<kv::Store, String> {
    let bucket = format!("netcaliper-{fleet}-leases");
    if let Ok(leases) = jetstream.get_key_value(&bucket).await {
        return Ok(leases);
    }
    let mut last = String::new();
    for num_replicas in REPLICAS {
        // The bucket's age ends a lease, not the key's: a key that was deleted and made again would have none (async-nats 0.51).
        let config =
            kv::Config { bucket: bucket.clone(), max_age: LEASE, num_replicas, ..kv::Config::default() };
        match jetstream.create_key_value(config).await {
            Ok(leases) => return Ok(leases),
            Err(e) => last = failed(&e),
        }
    }
    Err(last)
}

fn failed(e: &dyn std::fmt::Display) -> String {
    format!("JetStream of the NATS server (nats-server -js): {e}")
}
