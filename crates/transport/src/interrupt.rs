//! Requests to end, from any thread to the control threads of all runs.

use crate::Wake;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Asks runs to end in good order. Cloned into signal handlers and tests.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    state: Arc<InterruptState>,
    finishing: Arc<AtomicBool>,
}

type WakeRun = Box<dyn Fn() + Send>;

#[derive(Default)]
struct InterruptState {
    asked: AtomicBool,
    /// Runs that go on beside each other, each with a number of its own.
    wakers: Mutex<Vec<(u64, WakeRun)>>,
    attached: AtomicU64,
}

impl fmt::Debug for InterruptState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupt").field("asked", &self.asked).finish_non_exhaustive()
    }
}

/// A run that asking wakes, as long as this lives.
#[derive(Debug)]
pub struct Attached(Arc<InterruptState>, u64);

impl Drop for Attached {
    fn drop(&mut self) {
        let Attached(state, number) = self;
        state.wakers.lock().unwrap_or_else(PoisonError::into_inner).retain(|(other, _)| other != number);
    }
}

impl Interrupt {
    /// Not asked for yet.
    pub fn new() -> Self {
        Interrupt::default()
    }

    /// Asks the run to end.
    pub fn ask(&self) {
        self.state.asked.store(true, Ordering::Release);
        self.wake();
    }

    /// The same for the user, with a [`finish`](Self::finish) of its own: for one of several runs
    /// beside each other.
    pub fn for_one(&self) -> Self {
        Interrupt { state: Arc::clone(&self.state), finishing: Arc::default() }
    }

    /// Ends the measurement as the end of its time does: its result is complete. Sessions without
    /// such an end are not affected.
    pub fn finish(&self) {
        self.finishing.store(true, Ordering::Release);
        self.wake();
    }

    /// True if the measurement is to end as at the end of its time.
    pub fn is_finishing(&self) -> bool {
        self.finishing.load(Ordering::Acquire)
    }

    fn wake(&self) {
        let wakers = self.state.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        wakers.iter().for_each(|(_, wake)| wake());
    }

    /// True once the end was requested.
    pub fn is_requested(&self) -> bool {
        self.state.asked.load(Ordering::Acquire)
    }

    /// Adds a waker to the ones that [`Interrupt::ask`] wakes.
    pub fn attach(&self, waker: impl Wake) -> Attached {
        let number = self.state.attached.fetch_add(1, Ordering::Relaxed);
        let wake = Box::new(move || waker.wake());
        self.state.wakers.lock().unwrap_or_else(PoisonError::into_inner).push((number, wake));
        Attached(Arc::clone(&self.state), number)
    }
}
