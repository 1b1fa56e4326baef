//! A receiver's listener at its bound socket: tests over datagrams, one per sender.
//!
//! Nothing is ever answered, so no sender gets a socket of its own: only one socket keeps the order
//! of start, data and end.
//!
//! 1. Both kinds of markers are understood, by their content.
//! 2. A marker before any data is a start, whichever it was meant as: an end that a former test has
//!    left behind then does no harm. A marker behind data is the end, also where the start was lost
//!    (the original would take it for the start).
//! 3. Time runs from the start to the end, and where one of them was lost from the first datagram
//!    or to the last.
//! 4. If the end is lost, a test is over when nothing has arrived for a while. The original waits
//!    for ever.

use crate::NAME;
use crate::bulk::Word;
use crate::one_sided::{Answers, GROUP};
use common::Limit;
use common::kernel::Unconnected;
use common::message::{post_event, post_result, warn};
use metrics::{Clamped, Ending, Mono, Packets, Seen, Sequence};
use model::{Event, Portion};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use transport::{Acceptor, Cause, Context, Flow, Path, Received, Transmit};

/// Tests that go on at once.
const MOST: usize = 256;
/// Numbers are remembered one by one while their byte tells them apart.
const WINDOW: usize = 256;

/// Results of a receiver of datagrams between markers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marked {
    /// Datagrams of data.
    pub data: u64,
    /// Starts.
    pub starts: u64,
    /// Ends, up to the one that ended it.
    pub ends: u64,
    /// Datagrams that the sender reports as sent; `None` where its end markers have no number.
    pub told: Option<u64>,
    /// Datagrams that a later one had overtaken, where they are numbered.
    pub reordered: u64,
    /// Datagrams that arrived again, where they are numbered.
    pub repeated: u64,
}

impl Marked {
    /// Reads this result from `event`, if it is one.
    pub fn read(event: &Event) -> Option<Marked> {
        event.extra_of(NAME)
    }
}

/// Effect of a datagram on a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    Marker,
    Data,
    Over,
    /// The test is over because the next one has begun, with this datagram.
    Next,
    /// An end without anything before it, left behind by another test.
    Stray,
}

/// One test, as its receiver sees it.
#[derive(Debug, Default)]
pub struct Test {
    /// First datagram of the test, and the latest one.
    pub since: Mono,
    /// The latest datagram that counts.
    pub last: Mono,
    /// Bytes of data.
    pub bytes: u64,
    pub marked: Marked,
    /// The test began with epi_ttcp's start: the first byte of its data is a number.
    numbers: Option<Sequence>,
    /// The number that is expected next.
    next: u64,
    entered: bool,
}

impl Test {
    /// Takes in a datagram that arrived at `at`.
    pub fn take(&mut self, datagram: &[u8], at: Mono) -> Deed {
        let word = Word::of(datagram);
        let begun = self.marked.data > 0;
        let started = begun || self.marked.starts > 0;
        let deed = match word {
            Word::Start if begun => return Deed::Next,
            Word::End(_) if !started => return Deed::Stray,
            Word::Data => {
                if !started {
                    self.since = at;
                }
                self.marked.data += 1;
                self.bytes += u64::clamped(datagram.len());
                datagram.first().into_iter().for_each(|byte| self.number(*byte));
                Deed::Data
            }
            Word::Start | Word::Classic if !begun => {
                self.marked.starts += 1;
                if word == Word::Start {
                    self.numbers.get_or_insert_with(|| Sequence::new(WINDOW));
                }
                self.since = at;
                Deed::Marker
            }
            Word::Start | Word::Classic | Word::End(_) => {
                self.marked.ends += 1;
                if let Word::End(told) = word {
                    self.marked.told = Some(told.into());
                }
                Deed::Over
            }
        };
        self.last = at;
        deed
    }

    /// The number of a datagram is known modulo 256: the nearest to the expected one is taken.
    fn number(&mut self, byte: u8) {
        let Some(numbers) = &mut self.numbers else { return };
        let ahead = i64::from(byte.wrapping_sub(self.next as u8) as i8);
        let Some(number) = self.next.checked_add_signed(ahead) else { return };
        self.next = self.next.max(number + 1);
        match numbers.see(number) {
            Seen::Reordered { .. } => self.marked.reordered += 1,
            Seen::Duplicate => self.marked.repeated += 1,
            Seen::New { .. } | Seen::Ancient => {}
        }
    }

    /// Datagrams that did not arrive, where their number is known.
    pub fn lost(&self) -> Option<u64> {
        self.marked.told.map(|told| told.saturating_sub(self.marked.data - self.marked.repeated))
    }

    fn portion(&self, path: Path) -> Portion {
        let Marked { data, starts, ends, .. } = self.marked;
        Portion {
            rx_bytes: self.bytes,
            to_ns: self.last.0,
            calls: data + starts + ends,
            ..Portion::new(path.local, path.peer, self.since.0)
        }
    }
}

/// State that a receiver's workers share.
pub(super) struct AnswerLimits {
    pub(super) answers: Answers,
    pub(super) limit: Limit,
    pub(super) stall_ns: u64,
}

pub(super) struct Answerer {
    streams: Box<dyn Acceptor>,
    shared: Arc<AnswerLimits>,
    tests: HashMap<SocketAddr, (Path, Test)>,
    account: Unconnected,
    stopped: bool,
}

impl Answerer {
    pub(super) fn new(streams: Box<dyn Acceptor>, shared: Arc<AnswerLimits>) -> Self {
        Answerer { streams, shared, tests: HashMap::new(), account: Unconnected::new(GROUP), stopped: false }
    }

    /// Makes room for one more test: of those without data, the one that was silent longest gives
    /// way.
    fn make_room(&mut self) -> bool {
        if self.tests.len() < MOST {
            return true;
        }
        let empty = self.tests.iter().filter(|(_, (_, test))| test.marked.data == 0);
        let longest = empty.min_by_key(|(_, (_, test))| test.last).map(|(peer, _)| *peer);
        longest.is_some_and(|peer| self.tests.remove(&peer).is_some())
    }

    /// Counts a test with its first data among the requested number of tests.
    fn enter(&mut self, cx: &mut Context<'_>, path: Path) -> bool {
        if !self.shared.limit.enter() {
            return false;
        }
        cx.rec.tally(GROUP).opened += 1;
        if self.shared.answers.arrivals {
            let Path { local, peer: remote } = path;
            post_event(cx, Event::Established { local, remote, at_ns: cx.now.0 });
        }
        true
    }

    /// A test is over.
    fn settle(&mut self, cx: &mut Context<'_>, peer: SocketAddr) {
        let Some((path, test)) = self.tests.remove(&peer) else { return };
        if !test.entered && !self.enter(cx, path) {
            return;
        }
        post_event(cx, Event::Portion(Box::new(test.portion(path))));
        let marked = test.marked;
        post_result(cx, move || Event::extra(NAME, &marked));
        cx.rec.tally(GROUP).ended(Ending::Completed);
        let Marked { reordered, repeated, .. } = marked;
        let lost = test.lost().map_or(0, |lost| i64::try_from(lost).unwrap_or(i64::MAX));
        let counts = Packets { lost, reordered, duplicated: repeated, ..Packets::default() };
        self.account.received(cx, 0, &counts);
        self.shared.limit.leave(cx);
    }

    /// Ends tests of senders that have long been silent, or all with data.
    fn expire(&mut self, cx: &mut Context<'_>) {
        let stall = self.shared.stall_ns;
        let over = |test: &Test| self.stopped || cx.now.since(test.last) >= stall;
        let gone: Vec<SocketAddr> =
            self.tests.iter().filter(|(_, (_, test))| over(test)).map(|(peer, _)| *peer).collect();
        for peer in gone {
            if self.tests.get(&peer).is_none_or(|(_, test)| test.marked.data == 0) {
                self.tests.remove(&peer);
                continue;
            }
            if !self.stopped {
                let from = SocketAddr::new(peer.ip().to_canonical(), peer.port());
                warn(cx, format!("no end arrived from {from}: the rate is up to its last datagram"));
            }
            self.settle(cx, peer);
        }
    }
}

impl Acceptor for Answerer {
    fn accept(&mut self, cx: &mut Context<'_>, path: &Path) -> Option<Box<dyn Flow>> {
        self.streams.accept(cx, path)
    }

    fn on_unsolicited(
        &mut self,
        cx: &mut Context<'_>,
        got: &Received<'_>,
        _: &mut Transmit<'_>,
    ) -> Option<Box<dyn Flow>> {
        let path = got.from?;
        let peer = path.peer;
        if !self.tests.contains_key(&peer) {
            let Answers { acl, streams, .. } = &self.shared.answers;
            if !self.account.pending.admits(cx, acl, streams, peer.ip()) || !self.make_room() {
                return None;
            }
        }
        let at = got.arrived();
        let take = |tests: &mut HashMap<_, (_, Test)>| {
            tests.entry(peer).or_insert_with(|| (path, Test::default())).1.take(got.bytes, at)
        };
        let mut deed = take(&mut self.tests);
        if deed == Deed::Next {
            self.settle(cx, peer);
            deed = take(&mut self.tests);
        }
        match deed {
            Deed::Data => {
                let is_entered = self.tests.get(&peer).is_some_and(|(_, test)| test.entered);
                if !is_entered && !self.enter(cx, path) {
                    // Others are measured already.
                    self.tests.remove(&peer);
                    return None;
                }
                self.tests.entry(peer).and_modify(|(_, test)| test.entered = true);
                let drops = self.account.drops(got);
                self.account.see_marks(cx, got);
                self.account.received(cx, got.len, &Packets { received: 1, ..drops });
            }
            Deed::Over => self.settle(cx, peer),
            Deed::Stray => {
                self.tests.remove(&peer);
            }
            Deed::Marker | Deed::Next => {}
        }
        None
    }

    fn on_dropped(&mut self, cx: &mut Context<'_>, buffers: u32) {
        self.account.count_last_drops(cx, buffers);
    }

    fn on_timer(&mut self, cx: &mut Context<'_>) -> Option<Mono> {
        self.expire(cx);
        self.tests.values().map(|(_, test)| test.last.plus(self.shared.stall_ns)).min()
    }

    fn on_closed(&mut self, cx: &mut Context<'_>, flow: Box<dyn Flow>, how: &Result<Ending, Cause>) {
        self.streams.on_closed(cx, flow, how);
    }

    fn stop(&mut self) {
        self.stopped = true;
        self.streams.stop();
    }
}
