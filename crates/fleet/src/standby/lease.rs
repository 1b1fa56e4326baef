//! The lease of a run: one controller has it at a time.

use super::{LEASE, Place, Shared, failed};
use crate::threads::lock;
use async_nats::jetstream::kv::{CreateErrorKind, UpdateErrorKind};
use metrics::Mono;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;
use uuid::Uuid;

/// Time from one renewal to the next.
const RENEWAL: Duration = Duration::from_secs(2);
/// How much sooner than the server its holder takes a lease for over.
const MARGIN: Duration = Duration::from_secs(2);

/// The right to lead a run, renewed until it is dropped, or lost.
pub struct Lease {
    run: Uuid,
    held: Arc<Held>,
    place: Arc<Place>,
    renewing: JoinHandle<()>,
}

/// What a lease shares with its renewal.
struct Held {
    /// Until when its holder may rely on it, ns of this process's clock; 0 when it is lost.
    until: AtomicU64,
    revision: Mutex<u64>,
    clock: io::Clock,
}

impl Held {
    fn is_valid(&self) -> bool {
        self.clock.now() < Mono(self.until.load(Ordering::Acquire))
    }

    /// It was taken by a request that was sent at this time.
    fn begin(&self, sent: Mono, revision: u64) {
        let lasts = u64::try_from((LEASE - MARGIN).as_nanos()).unwrap_or(0);
        *lock(&self.revision) = revision;
        self.until.store(sent.plus(lasts).0, Ordering::Release);
    }

    /// It was renewed by a request that was sent at this time; whether it is held. One that has lapsed meanwhile stays lost, since
    /// its holder may have ended its work by that.
    fn renew(&self, sent: Mono, revision: u64) -> bool {
        let is_valid = self.is_valid();
        if is_valid {
            self.begin(sent, revision);
        }
        is_valid
    }

    fn revision(&self) -> u64 {
        *lock(&self.revision)
    }
}

impl Shared {
    /// Takes the lease of a run, unless another controller has it. `holder` tells controllers apart.
    ///
    /// # Errors
    /// One sentence, when the server does not answer.
    pub fn lead(&self, run: Uuid, holder: &str) -> Result<Option<Lease>, String> {
        let place = Arc::clone(&self.place);
        let clock = io::Clock::new();
        let (sent, value) = (clock.now(), holder.as_bytes().to_vec());
        match place.wait(place.leases.create(run.to_string(), value.into())) {
            Err(e) if e.kind() == CreateErrorKind::AlreadyExists => Ok(None),
            Err(e) => Err(failed(&e)),
            Ok(revision) => {
                let held = Arc::new(Held { until: AtomicU64::new(0), revision: Mutex::new(revision), clock });
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

    /// Whether the lease still is this controller's.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held.is_valid()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.renewing.abort();
        if self.is_held() {
            // Where this fails, the lease ends by its age.
            let (run, revision) = (self.run.to_string(), Some(self.held.revision()));
            let release = self.place.leases.delete_expect_revision(run, revision);
            let _ = self.place.wait(async { tokio::time::timeout(RENEWAL, release).await });
        }
    }
}

/// Renews a lease until it is lost.
async fn renew(place: Arc<Place>, run: Uuid, held: Arc<Held>, holder: String) {
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
                        *lock(&held.revision) = entry.revision;
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
        let held = Held { until: AtomicU64::new(0), revision: Mutex::new(1), clock };
        held.begin(clock.now(), 1);
        assert!(held.renew(clock.now(), 2) && held.is_valid());
        held.until.store(clock.now().0, Ordering::Release);
        assert!(!held.renew(clock.now(), 3) && !held.is_valid());
        assert_eq!(held.revision(), 2);
    }
}
