//! Sending on a thread of its own, for commands that measure again and again.
//!
//! The queue is the spool, with its bounds: handing over a reading writes a file and wakes the
//! thread.

use crate::delivery::Stop;
use crate::{Delivery, Exporter, Reading};
use metrics::Wall;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Time for the attempts after one reading.
const TURN: Duration = Duration::from_secs(30);
/// Interval at which the end looks at the wishes of the user.
const LOOK: Duration = Duration::from_millis(25);

/// State that both threads see.
#[derive(Default)]
struct State {
    /// Time of the latest reading that waits for the thread.
    latest: Option<Wall>,
    /// No reading follows.
    ending: bool,
    /// The thread is to leave what waits.
    stopped: bool,
    ended: bool,
}

/// A thread that sends readings.
pub struct Background {
    exporter: Exporter,
    shared: Arc<(Mutex<State>, Condvar)>,
}

impl Background {
    /// Starts the thread, which calls `say` with a sentence when a receiver begins to fail.
    pub fn start(exporter: Exporter, say: impl Fn(&str) + Send + 'static) -> Background {
        let shared = Arc::<(Mutex<State>, Condvar)>::default();
        let (own, sender) = (Arc::clone(&shared), exporter.clone());
        thread::spawn(move || {
            work(&sender, &own, &say);
            lock(&own).ended = true;
            own.1.notify_all();
        });
        Background { exporter, shared }
    }

    /// Hands over a reading. Returns without waiting for a receiver.
    pub fn put(&self, reading: &Reading, now: Wall) {
        // An entry that cannot be written is reported with the next attempt, which uses the folder.
        drop(self.exporter.keep(reading, now));
        lock(&self.shared).latest = Some(now);
        self.shared.1.notify_all();
    }

    /// Ends the thread after it has sent what waits; after `limit`, or when `stop` returns true, at
    /// once.
    pub fn end(self, limit: Duration, stop: Stop<'_>) {
        let until = Instant::now() + limit;
        let mut state = lock(&self.shared);
        state.ending = true;
        self.shared.1.notify_all();
        while !state.ended && !stop() && Instant::now() < until {
            state = self.shared.1.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.stopped = true;
    }
}

fn work(exporter: &Exporter, shared: &(Mutex<State>, Condvar), say: &dyn Fn(&str)) {
    let mut failing: Vec<String> = Vec::new();
    loop {
        let mut state = lock(shared);
        while state.latest.is_none() && !state.ending {
            state = shared.1.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let Some(now) = state.latest.take() else { return };
        drop(state);
        let stop = || lock(shared).stopped;
        for delivery in exporter.drain(Vec::new(), now, TURN, &stop) {
            report(&delivery, &mut failing, say);
        }
    }
}

/// Reports a failure of a receiver, the first of several in a row.
fn report(delivery: &Delivery, failing: &mut Vec<String>, say: &dyn Fn(&str)) {
    let was_failing = failing.contains(&delivery.url);
    match delivery.sentence() {
        Some(sentence) if !was_failing => {
            failing.push(delivery.url.clone());
            say(&sentence);
        }
        Some(_) => {}
        None => failing.retain(|url| *url != delivery.url),
    }
}

fn lock(shared: &(Mutex<State>, Condvar)) -> MutexGuard<'_, State> {
    shared.0.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Answer;
    use crate::delivery::tests::Scripted;
    use crate::spool::tests::Root;
    use report::MetricsSheet;

    const LONG: Duration = Duration::from_secs(3_600);

    fn reading(value: f64) -> Reading {
        let mut sheet = MetricsSheet::default();
        sheet.gauge("a", "A.", &Vec::new(), Some(value));
        Reading { sheet, ..Reading::default() }
    }

    #[test]
    fn readings_are_sent_in_their_order_before_the_end() {
        let root = Root::new("background");
        let server = Scripted::new(&root, "influx+http://h?db=d", []);
        let background = Background::start(server.exporter.clone(), |_| {});
        for n in 1..=20_i32 {
            background.put(&reading(f64::from(n)), Wall(n.into()));
        }
        background.end(LONG, &|| false);
        let seen: Vec<String> = server.seen.lock().unwrap().clone();
        assert_eq!(seen, (1..=20).map(|n| format!("a value={n} 0\n")).collect::<Vec<_>>());
    }

    #[test]
    fn a_failure_is_said_once_until_the_receiver_is_well_again() {
        let root = Root::new("background-failing");
        let refused = || Answer::Refused("HTTP status 401".to_owned());
        let taken = || Answer::Taken(None);
        let answers = [refused(), refused(), taken(), taken(), taken(), refused()];
        let server = Scripted::new(&root, "influx+http://h?db=d", answers);
        let said = Mutex::new(Vec::new());
        let say = |text: &str| said.lock().unwrap().push(text.to_owned());
        let mut failing = Vec::new();
        for n in 1..=4 {
            let unkept = server.exporter.keep(&reading(1.0), Wall(n));
            // The third turn sends three results; the fourth is refused again.
            for delivery in server.exporter.drain(unkept, Wall(n), LONG, &|| false) {
                report(&delivery, &mut failing, &say);
            }
        }
        let said = said.into_inner().unwrap();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].contains("1 result") && said[1].contains("401"), "{said:?}");
    }

    #[test]
    fn an_end_without_patience_leaves_what_waits() {
        let root = Root::new("background-end");
        let later = Answer::Later("HTTP status 503".to_owned(), Some(LONG));
        let server = Scripted::new(&root, "influx+http://h?db=d", [later]);
        let background = Background::start(server.exporter.clone(), |_| {});
        background.put(&reading(1.0), Wall(1));
        background.end(LONG, &|| true);
        let again = Scripted::new(&root, "influx+http://h?db=d", []);
        drop(again.exporter.drain(Vec::new(), Wall(1), LONG, &|| false));
        let sent = server.seen.lock().unwrap().len() + again.seen.lock().unwrap().len();
        assert!(sent >= 1);
    }
}
