//! The verdict on a token, made on a thread of its own: a private key takes up to a second of a
//! core, and the users' file has to be read.

use metrics::Wall;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Verdict on a token: true for a known user; empty until decided.
pub type TokenVerdict = Arc<OnceLock<bool>>;

/// Begins to judge a token that arrived at a time, and returns at once; `None` when there is no
/// room: the caller asks again later.
pub type Judge = Arc<dyn Fn(Option<&str>, Wall) -> Option<TokenVerdict> + Send + Sync>;

/// Tokens that wait for their verdict.
const QUEUE: usize = 16;

struct Question {
    token: Option<String>,
    came: Wall,
    verdict: TokenVerdict,
}

/// Judges by `decide`, which returns true if a token that arrived at a time proves a known user, on
/// a thread of its own that begins with the first token.
pub(crate) fn on_a_thread(decide: impl Fn(Option<&str>, Wall) -> bool + Send + Sync + 'static) -> Judge {
    let decide = Arc::new(decide);
    let questions = Mutex::new(None::<SyncSender<Question>>);
    Arc::new(move |token, came| {
        let mut questions = questions.lock().unwrap_or_else(PoisonError::into_inner);
        if questions.is_none() {
            let (sender, asked) = sync_channel::<Question>(QUEUE);
            let decide = Arc::clone(&decide);
            let judge = move || {
                for Question { token, came, verdict } in asked {
                    let _ = verdict.set(decide(token.as_deref(), came));
                }
            };
            let started = std::thread::Builder::new().name("tokens".to_owned()).spawn(judge);
            *questions = started.ok().map(|_| sender);
        }
        let verdict = TokenVerdict::default();
        let question = Question { token: token.map(str::to_owned), came, verdict: Arc::clone(&verdict) };
        questions.as_ref()?.try_send(question).ok().map(|()| verdict)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn whoever_asks_does_not_wait_and_the_queue_is_bounded() {
        let (open, gate) = channel::<()>();
        let gate = Mutex::new(gate);
        let judge = on_a_thread(move |token: Option<&str>, _| {
            // Nothing is judged before the gate is open.
            let _ = gate.lock().unwrap().recv();
            token == Some("good")
        });
        let asked: Vec<TokenVerdict> = (0..100).map_while(|_| judge(Some("good"), Wall(0))).collect();
        // One is being judged, if the thread has begun.
        assert!((QUEUE..=QUEUE + 1).contains(&asked.len()), "{}", asked.len());
        assert!(asked.iter().all(|verdict| verdict.get().is_none()));
        drop(open);
        let judged = || asked.iter().all(|verdict| verdict.get() == Some(&true));
        while !judged() {
            std::thread::yield_now();
        }
        assert!(judge(None, Wall(0)).is_some(), "there is room again");
    }
}
