use super::*;
use crate::Clock;
use metrics::SECOND;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use transport::{Reactor as _, Wake as _};

#[test]
fn no_wake_is_lost_however_they_interleave() {
    const ROUNDS: u32 = 20_000;
    let (mut reactor, clock, mut out) = (Reactor::new().unwrap(), Clock::new(), Vec::new());
    let posted = Arc::new(AtomicU32::new(0));
    let start = Arc::new(Barrier::new(3));
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let (waker, posted, start) = (reactor.waker(), Arc::clone(&posted), Arc::clone(&start));
            std::thread::spawn(move || {
                start.wait();
                for _ in 0..ROUNDS {
                    // Relaxed: the waker alone must make it visible.
                    posted.fetch_add(1, Ordering::Relaxed);
                    waker.wake();
                }
            })
        })
        .collect();
    start.wait();
    while posted.load(Ordering::Relaxed) < 2 * ROUNDS {
        let deadline = Some(clock.now().plus(60 * SECOND));
        reactor.wait(deadline, &clock, &mut out).unwrap();
        assert!(Some(clock.now()) < deadline, "a wake was lost");
    }
    for thread in threads {
        thread.join().unwrap();
    }
}
