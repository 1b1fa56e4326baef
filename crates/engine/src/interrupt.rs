//! The user's wish to end, from a signal handler's thread to the control thread.

use io::Waker;
pub use io::{Called, Keys};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Asks a run to end in good order. Cloned into signal handlers and tests.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<State>);

#[derive(Debug, Default)]
struct State {
    asked: AtomicBool,
    /// Runs that go on beside each other, each with a number of its own.
    wakers: Mutex<Vec<(u64, Waker)>>,
    attached: AtomicU64,
}

/// A run that asking wakes, as long as this lives.
#[derive(Debug)]
pub(crate) struct Attached(Arc<State>, u64);

impl Drop for Attached {
    fn drop(&mut self) {
        let Attached(state, number) = self;
        state.wakers.lock().unwrap_or_else(PoisonError::into_inner).retain(|(other, _)| other != number);
    }
}

impl Interrupt {
    /// Nobody has asked yet.
    #[must_use]
    pub fn new() -> Self {
        Interrupt::default()
    }

    /// Asks the run to end.
    pub fn ask(&self) {
        self.0.asked.store(true, Ordering::Release);
        let wakers = self.0.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        wakers.iter().for_each(|(_, waker)| waker.wake());
    }

    /// Whether somebody has asked.
    #[must_use]
    pub fn asked(&self) -> bool {
        self.0.asked.load(Ordering::Acquire)
    }

    /// Any key pressed at the terminal asks, as long as what is returned lives; `None` where there is no terminal.
    #[must_use]
    pub fn by_any_key(&self) -> Option<Keys> {
        let keys = Keys::listen()?;
        let asked = self.clone();
        let listen = move || {
            if Keys::pressed() {
                asked.ask();
            }
        };
        // It waits for ever if nobody presses one, and ends with the process.
        std::thread::Builder::new().name("keys".to_owned()).spawn(listen).ok()?;
        Some(keys)
    }

    /// From now on, asking wakes this reactor, and those that are attached already.
    pub(crate) fn attach(&self, waker: Waker) -> Attached {
        let number = self.0.attached.fetch_add(1, Ordering::Relaxed);
        self.0.wakers.lock().unwrap_or_else(PoisonError::into_inner).push((number, waker));
        Attached(Arc::clone(&self.0), number)
    }
}
