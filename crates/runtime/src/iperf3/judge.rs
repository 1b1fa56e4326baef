//! Tokens of iperf3 clients are judged on a thread of their own.

use metrics::Wall;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use wire::iperf3::judge::{Judge, Verdict};

/// Tokens that wait for their verdict.
const QUEUE: usize = 16;

/// Whether a token that came at a time proves a known user.
type Decide = Arc<dyn Fn(Option<&str>, Wall) -> bool + Send + Sync>;

struct Question {
    token: Option<String>,
    came: Wall,
    verdict: Verdict,
}

/// Judges on a thread of its own, which begins with the first token.
pub(super) struct Helper {
    decide: Decide,
    questions: Mutex<Option<SyncSender<Question>>>,
}

impl Helper {
    pub(super) fn new(decide: impl Fn(Option<&str>, Wall) -> bool + Send + Sync + 'static) -> Self {
        Helper { decide: Arc::new(decide), questions: Mutex::default() }
    }

    fn start(decide: Decide) -> Option<SyncSender<Question>> {
        let (questions, asked) = sync_channel::<Question>(QUEUE);
        let judge = move || {
            for Question { token, came, verdict } in asked {
                let _ = verdict.set(decide(token.as_deref(), came));
            }
        };
        std::thread::Builder::new().name("tokens".to_owned()).spawn(judge).ok().map(|_| questions)
    }
}

impl Judge for Helper {
    fn ask(&self, token: Option<&str>, came: Wall) -> Option<Verdict> {
        let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        if questions.is_none() {
            *questions = Helper::start(Arc::clone(&self.decide));
        }
        let verdict = Verdict::new(OnceLock::new());
        let question = Question { token: token.map(str::to_owned), came, verdict: Arc::clone(&verdict) };
        questions.as_ref()?.try_send(question).ok().map(|()| verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    #[test]
    fn whoever_asks_does_not_wait_and_the_queue_is_bounded() {
        let (open, gate) = channel::<()>();
        let gate = Mutex::new(gate);
        let helper = Helper::new(move |token: Option<&str>, _| {
            // Nothing is judged before the gate is open.
            let _ = gate.lock().unwrap().recv();
            token == Some("good")
        });
        let asked: Vec<Verdict> = (0..100).map_while(|_| helper.ask(Some("good"), Wall(0))).collect();
        // One is being judged, if the thread has begun.
        assert!((QUEUE..=QUEUE + 1).contains(&asked.len()), "{}", asked.len());
        assert!(asked.iter().all(|verdict| verdict.get().is_none()));
        drop(open);
        let until = Instant::now() + Duration::from_secs(60);
        while asked.iter().any(|verdict| verdict.get() != Some(&true)) {
            assert!(Instant::now() < until, "a verdict never came");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(helper.ask(None, Wall(0)).is_some(), "there is room again");
    }
}
