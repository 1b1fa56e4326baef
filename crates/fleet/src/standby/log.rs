//! The log of a run: its plan, its results, its end.

use super::{Lease, LogStore, SharedRuns, failed};
use crate::message::MAX_REPORT;
use crate::plan::Plan;
use crate::result::{Ending, PairResult};
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::RawMessageErrorKind;
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// Length of a part of a plan, characters: below the largest message that a server takes, with each
/// quote escaped.
const PART: usize = 400_000;
/// Most parts of a plan.
const MOST_PARTS: u32 = 2_000;
/// Pause before another try to write.
const PAUSE: Duration = Duration::from_millis(200);

/// A message of a log.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Entry {
    /// A part of the plan's JSON, from 0, of `of` parts.
    Plan { part: u32, of: u32, text: String },
    /// A controller leads from here on.
    Lead { controller: String },
    /// Tasks have ended.
    Results(Vec<PairResult>),
    /// The run is over.
    Over,
}

/// Contents of a log.
pub struct Log {
    /// The plan.
    pub plan: Plan,
    /// The results so far, in the order of arrival.
    pub results: Vec<PairResult>,
    /// True if a controller has led the run.
    pub was_led: bool,
    /// True if the run is over.
    pub is_over: bool,
    /// Number of its last message.
    last: u64,
}

/// Writes a log, as long as no other controller does.
pub struct Keeper {
    place: Arc<LogStore>,
    subject: String,
    last: u64,
}

impl SharedRuns {
    /// Reads the log of a run; `None` where it has no plan, or not all of it.
    ///
    /// # Errors
    /// One sentence, when the server does not answer, or the log is none.
    pub fn log(&self, run: Uuid) -> Result<Option<Log>, String> {
        self.place.wait(read(&self.place, run))
    }

    /// True if the last message of a run's log marks it as over.
    ///
    /// # Errors
    /// One sentence, when the server does not answer.
    pub fn is_over(&self, run: Uuid) -> Result<bool, String> {
        let subject = self.place.subject(run);
        let last = self.place.stream.get_last_raw_message_by_subject(&subject);
        match self.place.wait(last) {
            Ok(message) => Ok(matches!(serde_json::from_slice(&message.payload), Ok(Entry::Over))),
            Err(e) if e.kind() == RawMessageErrorKind::NoMessageFound => Ok(false),
            Err(e) => Err(failed(e)),
        }
    }

    /// Begins the log of a run with its plan, unless it has one. The lease keeps other controllers
    /// from doing the same.
    ///
    /// # Errors
    /// One sentence, when the server does not take it.
    pub fn create(&self, lease: &Lease, plan: &Plan) -> Result<(), String> {
        let place = &self.place;
        if self.is_over(lease.run())? || self.log(lease.run())?.is_some() {
            return Ok(());
        }
        let text = serde_json::to_string(plan).map_err(failed)?;
        let parts = parts(&text);
        let of = u32::try_from(parts.len()).ok().filter(|of| *of <= MOST_PARTS);
        let of = of.ok_or_else(|| failed("the plan is too long to be shared: choose fewer pairs"))?;
        // Leftovers of a controller that ended in the middle of this.
        let purge = place.stream.purge().filter(place.subject(lease.run()));
        place.wait(async { purge.await }).map_err(failed)?;
        let mut keeper = self.keeper(lease.run(), 0);
        for (part, text) in (0..).zip(parts) {
            keeper.write(&Entry::Plan { part, of, text: text.to_owned() }).map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    /// Takes the log of a run over: from here on no other controller can write into it that has not
    /// done the same.
    ///
    /// # Errors
    /// One sentence, when the server does not answer, or another controller was faster.
    pub fn take_over(&self, lease: &Lease, controller: &str) -> Result<(Log, Keeper), String> {
        let run = lease.run();
        let log = self.log(run)?.ok_or_else(|| failed(format!("run {run} has no plan in its log")))?;
        let mut keeper = self.keeper(run, log.last);
        if !log.is_over {
            let lead = Entry::Lead { controller: controller.to_owned() };
            keeper.write(&lead).map_err(|e| e.to_string())?;
        }
        Ok((log, keeper))
    }

    fn keeper(&self, run: Uuid, last: u64) -> Keeper {
        Keeper { place: Arc::clone(&self.place), subject: self.place.subject(run), last }
    }

    /// Removes all of a log but its end.
    ///
    /// # Errors
    /// One sentence, when the server does not answer.
    pub fn forget(&self, run: Uuid) -> Result<(), String> {
        let purge = self.place.stream.purge().filter(self.place.subject(run)).keep(1);
        self.place.wait(async { purge.await }).map(drop).map_err(failed)
    }
}

impl Keeper {
    /// Number of the log's last message: it grows with each controller that takes the run over.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.last
    }

    /// Writes that the run is over.
    ///
    /// # Errors
    /// When another controller writes the log, or the server does not take it.
    pub fn end(&mut self) -> io::Result<()> {
        self.write(&Entry::Over)
    }

    /// Writes results: they are safe on the server when this returns.
    ///
    /// # Errors
    /// When another controller writes the log, or the server does not take them.
    pub fn append(&mut self, results: &[PairResult]) -> io::Result<()> {
        let (mut batch, mut length) = (Vec::new(), 0);
        for result in results {
            let own = match &result.ending {
                Ending::Measured(outcome) => outcome.get().len() + 1_000,
                Ending::Missing { detail, document, .. } => {
                    detail.len() + document.as_ref().map_or(0, |document| document.get().len()) + 1_000
                }
            };
            if length + own > MAX_REPORT && !batch.is_empty() {
                self.write(&Entry::Results(std::mem::take(&mut batch)))?;
                length = 0;
            }
            batch.push(result.clone());
            length += own;
        }
        if batch.is_empty() { Ok(()) } else { self.write(&Entry::Results(batch)) }
    }

    /// Writes a message behind the last one that this controller knows.
    fn write(&mut self, entry: &Entry) -> io::Result<()> {
        let payload = serde_json::to_vec(entry)?;
        let place = Arc::clone(&self.place);
        let published = place.wait(publish(&place, &self.subject, &payload, self.last));
        self.last = published.map_err(io::Error::other)?;
        Ok(())
    }
}

/// Publishes behind message `last` of a subject; returns the number of the new one.
async fn publish(place: &LogStore, subject: &str, payload: &[u8], last: u64) -> Result<u64, String> {
    // As often as a lease may last: where another controller has written meanwhile, the next try
    // finds out.
    let mut tries = super::LEASE.as_millis() / PAUSE.as_millis();
    loop {
        let message =
            PublishMessage::build().payload(payload.to_vec().into()).expected_last_subject_sequence(last);
        let published = match place.jetstream.send_publish(subject.to_owned(), message).await {
            Ok(acknowledged) => acknowledged.await,
            Err(e) => Err(e),
        };
        match published {
            Ok(acknowledged) => return Ok(acknowledged.sequence),
            Err(e) if e.kind() == PublishErrorKind::WrongLastSequence => {
                // The answer to a try before this one may have been lost.
                let next = place.stream.raw_message_builder().sequence(last + 1).next_by_subject(subject);
                return match next.send().await {
                    Ok(message) if message.payload == payload => Ok(message.sequence),
                    _ => Err("another controller has taken the run over".to_owned()),
                };
            }
            Err(e) if tries == 0 => return Err(failed(e)),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
        tries -= 1;
    }
}

async fn read(place: &LogStore, run: Uuid) -> Result<Option<Log>, String> {
    let subject = place.subject(run);
    let (mut text, mut parts, mut whole) = (String::new(), 0, None);
    let mut log = Log { plan: Plan::default(), results: Vec::new(), was_led: false, is_over: false, last: 0 };
    loop {
        let next = place.stream.raw_message_builder().sequence(log.last + 1).next_by_subject(&subject);
        let message = match next.send().await {
            Ok(message) => message,
            Err(e) if e.kind() == RawMessageErrorKind::NoMessageFound => break,
            Err(e) => return Err(failed(e)),
        };
        log.last = message.sequence;
        match serde_json::from_slice(&message.payload) {
            Ok(Entry::Plan { part, of, text: more }) if part == parts && of <= MOST_PARTS => {
                (parts, whole) = (parts + 1, Some(of));
                text += &more;
            }
            Ok(Entry::Results(results)) => log.results.extend(results),
            Ok(Entry::Lead { .. }) => log.was_led = true,
            Ok(Entry::Over) => log.is_over = true,
            Ok(Entry::Plan { .. }) | Err(_) => {
                return Err(failed(format!("message {} is none of a log", message.sequence)));
            }
        }
    }
    if whole != Some(parts) {
        return Ok(None);
    }
    log.plan = Plan::read(text.as_bytes()).map_err(failed)?;
    if log.plan.run != run {
        return Err(failed(format!("the log of run {run} has the plan of another one")));
    }
    Ok(Some(log))
}

fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let (part, more) = rest.split_at(rest.floor_char_boundary(PART));
        parts.push(part);
        rest = more;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_plan_are_whole_characters_and_fit_into_messages() {
        let text = "ä\"".repeat(PART);
        let parts = parts(&text);
        assert_eq!(parts.concat(), text);
        for part in parts {
            let entry = Entry::Plan { part: 0, of: 1, text: part.to_owned() };
            assert!(serde_json::to_vec(&entry).unwrap().len() < 1_000_000);
        }
    }
}
