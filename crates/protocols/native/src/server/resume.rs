//! Sessions that go on on another control connection of their client.
//!
//! ```text
//! client                                    server
//!   stop ──── lost, and sent again late ──╳
//!   preamble, resume, stop ───────────────▶   another connection
//!   ◀── resumed, intervals, records, result   the connection before is closed
//! ```

use super::{Answered, ClientState, Server};
use crate::auth::unhex;
use crate::message::Message;
use crate::opening::{OpeningKey, resumption};
use metrics::Ending;
use transport::{Action, Context, End, Link};

/// Most bytes of a session's records and result that are kept for another connection.
const MOST_KEPT: usize = 256 << 10;
/// Answer to an attempt without the session's key.
const UNKNOWN: &str = "there is no such session to go on with";

/// A session that its client may go on with on another connection.
pub(super) struct Resumable {
    session: u64,
    key: OpeningKey,
    /// The number of the latest attempt.
    taken: u32,
    /// Records and result that were sent.
    last: Vec<Message>,
    bytes: usize,
}

impl Resumable {
    pub(super) fn new(session: u64, key: OpeningKey) -> Self {
        Resumable { session, key, taken: 0, last: Vec::new(), bytes: 0 }
    }

    fn admits(&self, session: u64, number: u32, seal: &str) -> bool {
        let is_new = self.session == session && number > self.taken;
        let seal = unhex(seal).filter(|_| is_new);
        seal.is_some_and(|seal| self.key.holds(&resumption(session, number), &seal))
    }

    /// Keeps a message of `bytes` bytes; false where there is no room.
    fn keep(&mut self, message: Message, bytes: usize) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        let fits = self.bytes <= MOST_KEPT;
        if fits {
            self.last.push(message);
        }
        fits
    }
}

impl Server {
    /// Sends a record or the result of a session, and keeps it for another connection.
    pub(super) fn say_last(&mut self, link: Link, message: Message) {
        let Some(client) = self.clients.get_mut(&link) else { return };
        let bytes = client.frames.encode(&message);
        let keeps = client.resumable.as_mut().is_none_or(|kept| kept.keep(message, bytes.len()));
        if !keeps {
            client.resumable = None;
        }
        self.driver.send(link, bytes);
    }

    /// A client goes on with a session on the connection `link`.
    pub(super) fn resume(
        &mut self,
        cx: &Context<'_>,
        link: Link,
        (session, number): (u64, u32),
        seal: &str,
    ) -> Answered {
        let admits = |client: &ClientState| {
            client.resumable.as_ref().is_some_and(|kept| kept.admits(session, number, seal))
        };
        let before = self.clients.iter().find(|(other, client)| **other != link && admits(client));
        let before = before.map(|(other, _)| *other).ok_or(UNKNOWN)?;
        let holder = |link: &Link| Some(self.clients.get(link)?.holder.as_ref()?.name.clone());
        if holder(&before) != holder(&link) {
            return Err(UNKNOWN.to_owned());
        }
        let (Some(new), Some(mut client)) = (self.clients.remove(&link), self.clients.remove(&before)) else {
            return Ok(());
        };
        (client.frames, client.handshake, client.heard) = (new.frames, new.handshake, cx.now);
        client.reports.send_again();
        let group = client.held.as_ref().map(|held| held.granting.group);
        if let Some(owner) = group.and_then(|group| self.groups.get_mut(&group)) {
            *owner = link;
        }
        let mut last = Vec::new();
        if let Some(kept) = &mut client.resumable {
            kept.taken = number;
            last.clone_from(&kept.last);
        }
        self.clients.insert(link, client);
        let end = End::Done { how: Ending::Stopped, reset: true };
        self.driver.ask(Action::Close(before, end));
        self.say(link, &Message::Resumed);
        self.send_reports(cx.now, link, true);
        last.iter().for_each(|message| self.say(link, message));
        Ok(())
    }
}
