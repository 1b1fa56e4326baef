//! Sending what waits, within a time limit.

use crate::answer::Answer;
use crate::http::Client;
use crate::spool::{self, Spool, SpoolLimits};
use crate::{Entry, Reading, Receiver, Secret};
use metrics::{Wall, format_count};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// First wait before another attempt; each further wait is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(250);
/// Longest wait before another attempt.
const LONGEST_WAIT: Duration = Duration::from_secs(8);
/// Longest time of one attempt.
const ATTEMPT: Duration = Duration::from_secs(10);
/// Interval at which a wait looks at the wishes of the user.
const LOOK: Duration = Duration::from_millis(25);

/// True when the user wants no more attempts.
pub(crate) type Stop<'a> = &'a (dyn Fn() -> bool + Sync);
/// One attempt, which takes no longer than this.
type Post = Arc<dyn Fn(&Entry, Duration, Stop<'_>) -> Answer + Send + Sync>;

/// The receivers of a run's figures.
#[derive(Clone)]
pub struct Exporter {
    channels: Vec<Channel>,
}

/// One receiver, with the entries that wait for it.
#[derive(Clone)]
struct Channel {
    receiver: Receiver,
    spool: Spool,
    post: Post,
    first_wait: Duration,
}

/// Result of a delivery to one receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// The receiver's URL.
    pub url: String,
    /// Entries that it has taken.
    pub sent: u64,
    /// Entries that wait in the spool.
    pub waiting: u64,
    /// Entries that are lost: too old, too many, or invalid to the receiver.
    pub given_up: u64,
    /// Why not all were taken.
    pub why: Option<String>,
}

impl Delivery {
    /// The sentence for the user; `None` where all was taken.
    pub fn sentence(&self) -> Option<String> {
        let url = &self.url;
        let why = self.why.as_deref().unwrap_or("there were too many, or they were too old");
        let results = |n| format_count(n, "result");
        match (self.waiting, self.given_up) {
            (0, 0) => self.why.as_ref().map(|why| format!("{url}: {why}")),
            (0, lost) => Some(format!("{} for {url} given up: {why}", results(lost))),
            (waiting, 0) => {
                let next = "a later run with the same --export sends";
                let them = if waiting == 1 { "it" } else { "them" };
                Some(format!("{} for {url} not sent yet: {why}; {next} {them}", results(waiting)))
            }
            (waiting, lost) => Some(format!(
                "{} for {url} given up, and {} not sent yet: {why}",
                results(lost),
                results(waiting)
            )),
        }
    }
}

impl Exporter {
    /// Receivers with their secrets; what waits for them is in folders of `root`.
    ///
    /// # Errors
    /// One sentence when nothing can be kept there, a secret cannot be sent, or this build cannot
    /// send.
    pub fn new(
        root: &Path,
        receivers: Vec<(Receiver, Option<Secret>)>,
        version: &str,
    ) -> Result<Exporter, String> {
        let channel = |(receiver, secret): (Receiver, Option<Secret>)| {
            let client = Client::new(&receiver, secret.as_ref(), version)?;
            let spool = Spool::of(root, &receiver.to_string(), SpoolLimits::default());
            let made = std::fs::create_dir_all(spool.folder()).and_then(|()| spool.lock().map(drop));
            made.map_err(|error| {
                format!("cannot keep results for {receiver} in {}: {error}", spool.folder().display())
            })?;
            let post: Post = Arc::new(move |entry, limit, stop| client.post(entry, limit, stop));
            Ok(Channel { receiver, spool, post, first_wait: FIRST_WAIT })
        };
        let channels = receivers.into_iter().map(channel).collect::<Result<_, String>>()?;
        Ok(Exporter { channels })
    }

    /// Sends a reading, and before it what waits from earlier runs, to each receiver. Returns after
    /// `limit` at the latest, or when `stop` returns true: the rest waits in the spool.
    pub fn deliver(&self, reading: &Reading, now: Wall, limit: Duration, stop: Stop<'_>) -> Vec<Delivery> {
        let unkept = self.keep(reading, now);
        self.drain(unkept, now, limit, stop)
    }

    /// Puts a reading into the spools. Returns for each receiver the entries that could not be
    /// written.
    pub(crate) fn keep(&self, reading: &Reading, now: Wall) -> Vec<Vec<Entry>> {
        let of = |channel: &Channel| {
            let mut entries = channel.receiver.entries(reading);
            let is_latest = channel.receiver.keeps_the_latest();
            entries.retain(|entry| channel.spool.put(entry, now, is_latest).is_err());
            entries
        };
        self.channels.iter().map(of).collect()
    }

    /// Sends what waits, and then the entries that could not be kept.
    pub(crate) fn drain(
        &self,
        unkept: Vec<Vec<Entry>>,
        now: Wall,
        limit: Duration,
        stop: Stop<'_>,
    ) -> Vec<Delivery> {
        let until = Instant::now() + limit;
        let unkept = unkept.into_iter().chain(std::iter::repeat_with(Vec::new));
        thread::scope(|scope| {
            let all: Vec<_> = self
                .channels
                .iter()
                .zip(unkept)
                .map(|(channel, unkept)| scope.spawn(move || channel.drain(unkept, now, until, stop)))
                .collect();
            all.into_iter().filter_map(|one| one.join().ok()).collect()
        })
    }
}

/// Fate of the entry at the head of a spool.
enum Fate {
    Sent,
    GivenUp,
    Waits,
}

impl Channel {
    fn drain(&self, unkept: Vec<Entry>, now: Wall, until: Instant, stop: Stop<'_>) -> Delivery {
        let mut delivery = Delivery { url: self.receiver.to_string(), ..Delivery::default() };
        let mut unkept = unkept.into_iter();
        match self.work(&mut unkept, &mut delivery, now, (until, stop)) {
            Ok(()) => {}
            Err(error) => {
                delivery.why = Some(format!("cannot use {}: {error}", self.spool.folder().display()));
            }
        }
        delivery.given_up += unkept.count() as u64;
        delivery.waiting = self.spool.len();
        delivery
    }

    fn work(
        &self,
        unkept: &mut impl Iterator<Item = Entry>,
        delivery: &mut Delivery,
        now: Wall,
        (until, stop): (Instant, Stop<'_>),
    ) -> std::io::Result<()> {
        let lock = loop {
            if let Some(lock) = self.spool.lock()? {
                break lock;
            }
            if !pause(LOOK, until, stop) {
                delivery.why = Some("another run is sending".to_owned());
                return Ok(());
            }
        };
        delivery.given_up += self.spool.prune(now)?;
        loop {
            let kept = self.spool.oldest()?;
            let (path, entry) = match kept {
                Some((path, entry)) => (Some(path), entry),
                None => match unkept.next() {
                    Some(entry) => (None, entry),
                    None => break,
                },
            };
            let fate = self.send(&entry, &mut delivery.why, until, stop);
            match (&fate, &path) {
                (Fate::Sent, _) => delivery.sent += 1,
                (Fate::GivenUp, _) | (Fate::Waits, None) => delivery.given_up += 1,
                (Fate::Waits, Some(_)) => {}
            }
            match (fate, path) {
                (Fate::Waits, _) => break,
                (Fate::Sent | Fate::GivenUp, Some(path)) => spool::remove(&path)?,
                (Fate::Sent | Fate::GivenUp, None) => {}
            }
        }
        drop(lock);
        Ok(())
    }

    /// Attempts to send one entry, again and again with doubling waits.
    fn send(&self, entry: &Entry, why: &mut Option<String>, until: Instant, stop: Stop<'_>) -> Fate {
        let mut wait = self.first_wait;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || stop() {
                why.get_or_insert_with(|| "the time for sending was over".to_owned());
                return Fate::Waits;
            }
            match (self.post)(entry, left.min(ATTEMPT), stop) {
                Answer::Taken(remark) => {
                    // An earlier failure of this entry does not matter any more.
                    *why = remark;
                    return Fate::Sent;
                }
                Answer::Invalid(text) => {
                    *why = Some(text);
                    return Fate::GivenUp;
                }
                Answer::Refused(text) => {
                    *why = Some(text);
                    return Fate::Waits;
                }
                Answer::Later(text, asked) => {
                    *why = Some(text);
                    if !pause(asked.unwrap_or(wait), until, stop) {
                        return Fate::Waits;
                    }
                    wait = (wait * 2).min(LONGEST_WAIT);
                }
            }
        }
    }
}

/// Waits; false, at once, where the wait would end after `until`, and when the user wants no more.
fn pause(wait: Duration, until: Instant, stop: Stop<'_>) -> bool {
    let Some(end) = Instant::now().checked_add(wait).filter(|end| *end < until) else { return false };
    loop {
        if stop() {
            return false;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(LOOK));
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::spool::tests::{Root, entry};
    use std::collections::VecDeque;
    use std::sync::Mutex;

    const HOUR: Duration = Duration::from_secs(3_600);
    const GO_ON: Stop<'static> = &|| false;

    /// A receiver that gives these answers, and then takes all; and the bodies that it was sent.
    pub(crate) struct Scripted {
        pub(crate) exporter: Exporter,
        pub(crate) seen: Arc<Mutex<Vec<String>>>,
    }

    impl Scripted {
        pub(crate) fn new(root: &Root, url: &str, answers: impl IntoIterator<Item = Answer>) -> Scripted {
            let answers: Mutex<VecDeque<Answer>> = Mutex::new(answers.into_iter().collect());
            let seen = Arc::new(Mutex::new(Vec::new()));
            let sent = Arc::clone(&seen);
            let post: Post = Arc::new(move |entry, _, _| {
                sent.lock().unwrap().push(entry.body.clone());
                answers.lock().unwrap().pop_front().unwrap_or(Answer::Taken(None))
            });
            let receiver = Receiver::parse(url).unwrap();
            let spool = root.spool(SpoolLimits::default());
            std::fs::create_dir_all(spool.folder()).unwrap();
            let channel = Channel { receiver, spool, post, first_wait: Duration::ZERO };
            Scripted { exporter: Exporter { channels: vec![channel] }, seen }
        }

        fn spool(&self) -> &Spool {
            &self.exporter.channels[0].spool
        }

        fn put(&self, at: i64, body: &str) {
            self.spool().put(&entry("/a", body), Wall(at), false).unwrap();
        }

        fn drain(&self) -> Delivery {
            self.exporter.drain(Vec::new(), Wall(0), HOUR, GO_ON).remove(0)
        }

        fn seen(&self) -> Vec<String> {
            std::mem::take(&mut self.seen.lock().unwrap())
        }
    }

    fn later() -> Answer {
        Answer::Later("HTTP status 500".to_owned(), None)
    }

    const URL: &str = "otlp+http://h";

    #[test]
    fn errors_of_a_server_are_tried_again_and_the_order_stays() {
        let root = Root::new("again");
        let server = Scripted::new(&root, URL, [later(), later(), later()]);
        server.put(2, "second");
        server.put(1, "first");
        let delivery = server.drain();
        assert_eq!((delivery.sent, delivery.waiting, delivery.sentence()), (2, 0, None), "{delivery:?}");
        assert_eq!(server.seen(), ["first", "first", "first", "first", "second"]);
    }

    #[test]
    fn a_refusal_is_not_tried_again_and_keeps_the_entries() {
        let root = Root::new("refused");
        let server = Scripted::new(&root, URL, [Answer::Refused("HTTP status 401".to_owned())]);
        server.put(1, "first");
        server.put(2, "second");
        let delivery = server.drain();
        assert_eq!(server.seen(), ["first"]);
        assert_eq!((delivery.sent, delivery.waiting, delivery.given_up), (0, 2, 0));
        let said = delivery.sentence().unwrap();
        assert!(said.contains("2 results for otlp+http://h not sent yet: HTTP status 401"), "{said}");
        // The next run sends them.
        assert_eq!((server.drain().sentence(), server.seen().len()), (None, 2));
    }

    #[test]
    fn an_invalid_entry_keeps_no_other_away() {
        let root = Root::new("invalid");
        let server = Scripted::new(&root, URL, [Answer::Invalid("HTTP status 400".to_owned())]);
        server.put(1, "bad");
        server.put(2, "good");
        let delivery = server.drain();
        assert_eq!((delivery.sent, delivery.waiting, delivery.given_up), (1, 0, 1));
        assert_eq!(server.seen(), ["bad", "good"]);
        assert!(
            delivery.sentence().unwrap().starts_with("1 result for otlp+http://h given up: "),
            "{delivery:?}"
        );
    }

    #[test]
    fn a_server_that_wants_more_time_than_there_is_is_not_waited_for() {
        let root = Root::new("patience");
        let wait = Some(HOUR * 2);
        let server = Scripted::new(&root, URL, [Answer::Later("HTTP status 429".to_owned(), wait)]);
        server.put(1, "first");
        let delivery = server.drain();
        assert_eq!((delivery.waiting, server.seen().len()), (1, 1));
        assert!(delivery.sentence().unwrap().contains("429"));
    }

    #[test]
    fn a_user_who_wants_no_more_is_not_kept() {
        let root = Root::new("stop");
        let server = Scripted::new(&root, URL, std::iter::repeat_n(later(), 1_000));
        server.put(1, "first");
        let seen = Arc::clone(&server.seen);
        let stop = move || seen.lock().unwrap().len() >= 3;
        let delivery = server.exporter.drain(Vec::new(), Wall(0), HOUR, &stop).remove(0);
        assert_eq!((delivery.sent, delivery.waiting), (0, 1));
        assert_eq!(server.seen().len(), 3);
    }

    #[test]
    fn what_cannot_be_kept_is_sent_all_the_same() {
        let root = Root::new("unkept");
        let server = Scripted::new(&root, URL, []);
        server.put(1, "kept");
        let unkept = vec![vec![entry("/a", "unkept")]];
        let delivery = server.exporter.drain(unkept, Wall(0), HOUR, GO_ON).remove(0);
        assert_eq!((delivery.sent, server.seen()), (2, vec!["kept".to_owned(), "unkept".to_owned()]));
        let server = Scripted::new(&root, URL, [Answer::Refused(String::new())]);
        let unkept = vec![vec![entry("/a", "one"), entry("/a", "two")]];
        let delivery = server.exporter.drain(unkept, Wall(0), HOUR, GO_ON).remove(0);
        assert_eq!((delivery.sent, delivery.waiting, delivery.given_up), (0, 0, 2));
    }

    #[test]
    fn an_entry_stays_on_disk_until_it_is_taken() {
        let root = Root::new("kill");
        let server = Scripted::new(&root, URL, []);
        server.put(1, "first");
        // A program that is killed during the attempt leaves what the spool holds at that time.
        let mut exporter = server.exporter.clone();
        let spool = server.spool().clone();
        let during = Arc::new(Mutex::new(Vec::new()));
        let held = Arc::clone(&during);
        exporter.channels[0].post = Arc::new(move |_, _, _| {
            held.lock().unwrap().push(spool.len());
            Answer::Taken(None)
        });
        assert_eq!(exporter.drain(Vec::new(), Wall(0), HOUR, GO_ON)[0].sent, 1);
        assert_eq!((during.lock().unwrap().as_slice(), server.spool().len()), (&[1][..], 0));
    }

    #[test]
    fn a_spool_in_use_is_left_alone() {
        let root = Root::new("busy");
        let server = Scripted::new(&root, URL, []);
        server.put(1, "first");
        let held = server.spool().lock().unwrap();
        let delivery = server.exporter.drain(Vec::new(), Wall(0), Duration::ZERO, GO_ON).remove(0);
        assert!(delivery.sentence().unwrap().contains("another run is sending"), "{delivery:?}");
        assert_eq!((delivery.waiting, server.seen().len()), (1, 0));
        drop(held);
    }
}
