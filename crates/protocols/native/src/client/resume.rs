//! Another control connection at the end of a run.
//!
//! If a full queue has dropped a segment, all messages behind it wait for its retransmission,
//! whose time doubles with each loss: the results would arrive seconds after the queues are empty.
//! A server that has answered nothing for a round trip since the end of the run is asked for the
//! results on another connection, and then on further ones, until it goes on with the session on
//! one of them. The connections before are read all the same: one of them may bring the results
//! first.

use super::{Client, RunServer, Stage, Step};
use crate::message::{Frames, MAX_MESSAGE, Message};
use crate::preamble::{Preamble, Purpose};
use crate::round_robin::local_address;
use crate::secure::Shake;
use crate::udp::Log;
use metrics::{Clamped, Ending, Mono, SECOND};
use transport::{Action, Context, End, Link, Target};

/// Shortest and longest silence of a server since the end of the run before another connection is
/// opened, ns: the round trip with its queues.
const SHORTEST: u64 = SECOND / 5;
const LONGEST: u64 = 2 * SECOND;
/// Longest time between two attempts, ns. Before, it is the time since the end of the run, so that
/// the waits double: connections that wait in a queue of other traffic must not add to it.
const LONGEST_GAP: u64 = SECOND / 2;
/// Most attempts.
const MOST: u32 = 8;
/// Keys of attempts. The keys of first connections are far below.
const FIRST_KEY: u32 = 1 << 31;

/// State of the attempts to go on with a session on another connection.
#[derive(Default)]
pub(super) struct Resumption {
    /// The server goes on with sessions on other connections.
    pub(super) is_able: bool,
    /// Since when the server is to answer, and the round trip at that time, ns.
    since: Option<(Mono, u64)>,
    attempts: u32,
    /// Earliest time of the next attempt.
    next: Mono,
    /// The server's host has answered an attempt.
    pub(super) is_reached: bool,
    /// Connections on which the server has not answered yet.
    open: Vec<Attempt>,
    /// Why the connection in use has ended, if it has.
    broken: Option<String>,
}

/// Another connection to a server.
struct Attempt {
    key: u32,
    number: u32,
    /// Once it is established.
    link: Option<Link>,
    frames: Frames,
    shake: Option<Shake>,
    /// The end of the run was sent to the server there.
    said_stop: bool,
}

impl RunServer {
    /// True if the server may still answer on another connection than the one in use, which has
    /// ended for this reason.
    pub(super) fn awaits_another(&mut self, why: &str) -> bool {
        let waits = !self.resumption.open.is_empty();
        if waits {
            self.resumption.broken = Some(why.to_owned());
        }
        waits
    }

    /// True if the server has a session of which the results are yet to arrive.
    fn is_awaited(&self) -> bool {
        matches!(self.step, Step::Running | Step::Collecting)
    }

    /// When another connection to the server is due, unless it answers.
    pub(super) fn resumes_at(&self) -> Option<Mono> {
        let Resumption { is_able, since, attempts, next, .. } = &self.resumption;
        let (since, wait) = since.filter(|_| *is_able && *attempts < MOST)?;
        let (_, left) = self.beats.front().filter(|_| self.is_awaited())?;
        Some(since.max(*left).max(self.heard).plus(wait).max(*next))
    }
}

impl Client {
    /// The run ends: from now on a server is to answer its heartbeats within a round trip.
    pub(super) fn expect_answer(&mut self, at: usize, now: Mono) {
        let server = &mut self.servers[at];
        let round_trip = server.base_rtt.max(server.loaded_rtt).clamp(SHORTEST, LONGEST);
        server.resumption.since.get_or_insert((now, round_trip));
    }

    /// Opens another connection to a server.
    pub(super) fn open_another(&mut self, at: usize, now: Mono) {
        let all = u32::clamped(self.servers.len());
        let RunServer { peer, resumption, .. } = &mut self.servers[at];
        resumption.attempts += 1;
        let since = resumption.since.map_or(now, |(since, _)| since);
        resumption.next = now.plus(now.since(since).clamp(SHORTEST, LONGEST_GAP));
        let number = resumption.attempts;
        let key = FIRST_KEY.saturating_add(u32::clamped(at).saturating_add(number.saturating_mul(all)));
        let frames = Frames::new(MAX_MESSAGE);
        resumption.open.push(Attempt { key, number, link: None, frames, shake: None, said_stop: false });
        let to = peer.address;
        let target = Target { to, from: local_address(&self.plan.config.sources, 0, None, to) };
        self.driver.ask(Action::Connect(key, target));
    }

    /// The server and the place of an attempt.
    fn attempt(&self, is: impl Fn(&Attempt) -> bool) -> Option<(usize, usize)> {
        let place =
            |(at, server): (usize, &RunServer)| Some((at, server.resumption.open.iter().position(&is)?));
        self.servers.iter().enumerate().find_map(place)
    }

    /// A connection is established; false unless it is another one to a server.
    pub(super) fn another_up(&mut self, cx: &Context<'_>, link: Link, key: u32) -> bool {
        let Some((at, n)) = self.attempt(|attempt| attempt.key == key) else { return false };
        self.servers[at].resumption.open[n].link = Some(link);
        self.servers[at].resumption.is_reached = true;
        if !self.servers[at].is_awaited() {
            self.drop_attempt(at, n, cx.now);
            return true;
        }
        let mut bytes = Preamble::new(Purpose::Control).encode().to_vec();
        if self.plan.config.keys.is_empty() {
            bytes.extend(self.resume_messages(at, n));
        } else {
            let first = self.shake(at);
            let shake = self.servers[at].shake.take();
            let Some(first) = first else {
                self.drop_attempt(at, n, cx.now);
                return true;
            };
            let attempt = &mut self.servers[at].resumption.open[n];
            attempt.shake = shake;
            bytes.extend(attempt.frames.encode(&first));
        }
        self.driver.send(link, bytes);
        true
    }

    /// The messages that ask the server to go on with the session.
    fn resume_messages(&mut self, at: usize, n: usize) -> Vec<u8> {
        let last = self.last_messages();
        let RunServer { granted, step, resumption, .. } = &mut self.servers[at];
        let (Some(granted), Some(attempt)) = (granted, resumption.open.get_mut(n)) else { return Vec::new() };
        let mut bytes = attempt.frames.encode(&granted.opener.resume(attempt.number));
        attempt.said_stop = *step == Step::Collecting;
        if attempt.said_stop {
            bytes.extend(last.iter().flat_map(|message| attempt.frames.encode(message)));
        }
        bytes
    }

    /// Bytes of another connection have arrived.
    pub(super) fn another_bytes(&mut self, cx: &Context<'_>, link: Link, bytes: &[u8]) {
        let Some((at, n)) = self.attempt(|attempt| attempt.link == Some(link)) else { return };
        let mut pushed = self.servers[at].resumption.open[n].frames.push(bytes);
        while pushed.is_ok() {
            match self.servers[at].resumption.open[n].frames.pop() {
                Ok(None) => return,
                Ok(Some(Message::Resumed)) => {
                    self.resumed(at, n);
                    // The rest of the arrived bytes.
                    return self.bytes(cx, at, &[]);
                }
                Ok(Some(Message::Noise { data, .. })) if self.shaken_again(at, n, &data).is_some() => {}
                Ok(Some(_)) => break,
                Err(error) => pushed = Err(error),
            }
        }
        self.drop_attempt(at, n, cx.now);
    }

    /// The server has proved that it has the key.
    fn shaken_again(&mut self, at: usize, n: usize, data: &str) -> Option<()> {
        let attempt = self.servers[at].resumption.open.get_mut(n)?;
        let (link, mut shake) = (attempt.link?, attempt.shake.take()?);
        shake.read_message(data)?;
        let mut bytes = Vec::new();
        if let Some(key) = shake.peer() {
            let data = shake.say().filter(|_| self.is_known(at, &key))?;
            let last = Message::Noise { protocol: String::new(), key: String::new(), data };
            bytes = self.servers[at].resumption.open.get_mut(n)?.frames.encode(&last);
        }
        let records = shake.records()?;
        self.servers[at].resumption.open.get_mut(n)?.frames.secure(records).ok()?;
        bytes.extend(self.resume_messages(at, n));
        self.driver.send(link, bytes);
        Some(())
    }

    /// The server goes on with the session on another connection, and sends all records of it
    /// there.
    fn resumed(&mut self, at: usize, n: usize) {
        let server = &mut self.servers[at];
        let attempt = server.resumption.open.remove(n);
        let before = std::mem::replace(&mut server.link, attempt.link);
        server.frames = attempt.frames;
        server.resumption.broken = None;
        server.beats.clear();
        server.log = Log::default();
        self.tracks.forget(at);
        let says_stop = server.step == Step::Collecting && !attempt.said_stop;
        if let Some(link) = before {
            let end = End::Done { how: Ending::Stopped, reset: true };
            self.driver.ask(Action::Close(link, end));
        }
        if says_stop {
            let last = self.last_messages();
            self.say_all(at, &last);
        }
    }

    /// Another connection has ended, or could not be established.
    pub(super) fn another_down(&mut self, link: Option<Link>, key: Option<u32>, now: Mono) {
        let is = |attempt: &Attempt| (link.is_some() && attempt.link == link) || Some(attempt.key) == key;
        if let Some((at, n)) = self.attempt(is) {
            self.servers[at].resumption.open[n].link = None;
            self.drop_attempt(at, n, now);
        }
    }

    fn drop_attempt(&mut self, at: usize, n: usize, now: Mono) {
        let server = &mut self.servers[at];
        if let Some(link) = server.resumption.open.remove(n).link {
            self.driver.close(link);
        }
        let is_last = server.link.is_none() && server.resumption.open.is_empty();
        if let Some(why) = server.resumption.broken.take_if(|_| is_last) {
            self.lose(at, &why, now);
        }
    }

    /// Closes the connections of a server that are not in use.
    pub(super) fn close_others(&mut self, at: usize) {
        for attempt in std::mem::take(&mut self.servers[at].resumption.open) {
            if let Some(link) = attempt.link {
                self.driver.close(link);
            }
        }
    }

    /// Opens the connections that are due.
    pub(super) fn open_others(&mut self, now: Mono) {
        if self.stage == Stage::Over {
            return;
        }
        for at in 0..self.servers.len() {
            if self.servers[at].resumes_at().is_some_and(|due| due <= now) {
                self.open_another(at, now);
            }
        }
    }
}
