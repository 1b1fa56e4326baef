//! Worker processes as the control thread sees them: what crosses to one and back, and the state of
//! each.
//!
//! ```text
//! +---------------+----------------------+
//! | length (4)    | body, `length` bytes |      numbers are big-endian
//! +---------------+----------------------+
//! down:  0 | part (4) | of (4) | what the session says of the group      a group begins
//!        1 | group (4) | order (1) | value (8)                           an order
//! up:    worker (2) | a Finding as JSON
//!        nothing                                                         the process runs
//! ```

use metrics::{CauseCount, Clamped, Ending, Group, Mono, Tally};
use model::Finding;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use transport::{Order, Part};

/// A sign of life of a worker process: a frame without a body.
pub(crate) const BEAT_FRAME: [u8; 4] = [0; 4];

/// Interval of the looks at worker processes, ns.
pub(crate) const LOOK: u64 = metrics::SECOND / 2;
/// Silent looks after which a worker process counts as stopped or stuck: 4 s.
const LOST_AFTER: u8 = 8;
/// The same once the user has asked for the end: 1.5 s.
const LOST_AT_END_AFTER: u8 = 3;

/// A stream of bodies.
#[derive(Default)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    used: usize,
}

impl Frames {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..std::mem::take(&mut self.used));
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn pop(&mut self) -> Option<&[u8]> {
        let (length, rest) = self.bytes.get(self.used..)?.split_first_chunk::<4>()?;
        let length = usize::clamped(u32::from_be_bytes(*length));
        let body = rest.get(..length)?;
        self.used += 4 + length;
        Some(body)
    }
}

/// A body with its length before it.
fn framed(body: &[u8]) -> Vec<u8> {
    [&u32::clamped(body.len()).to_be_bytes(), body].concat()
}

/// Instructions to a worker process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Instruction<'a> {
    Group(Part, &'a [u8]),
    Order(Group, Order),
}

impl Instruction<'_> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        match self {
            Instruction::Group(part, about) => {
                body.push(0);
                body.extend(part.index.to_be_bytes());
                body.extend(part.of.to_be_bytes());
                body.extend(*about);
            }
            Instruction::Order(group, order) => {
                let (kind, value) = match order {
                    Order::Start(at) => (0, at.0),
                    Order::Ask(tag) => (1, u64::from(*tag)),
                    Order::Freeze(tag) => (2, u64::from(*tag)),
                    Order::Stop => (3, 0),
                    Order::Kill => (4, 0),
                    Order::Drop => (5, 0),
                };
                body.push(1);
                body.extend(group.0.to_be_bytes());
                body.push(kind);
                body.extend(value.to_be_bytes());
            }
        }
        framed(&body)
    }

    pub(crate) fn decode(body: &[u8]) -> Option<Instruction<'_>> {
        let (kind, rest) = body.split_first()?;
        let (first, rest) = rest.split_first_chunk::<4>()?;
        let first = u32::from_be_bytes(*first);
        match kind {
            0 => {
                let (of, about) = rest.split_first_chunk::<4>()?;
                Some(Instruction::Group(Part { index: first, of: u32::from_be_bytes(*of) }, about))
            }
            1 => {
                let (order, value) = rest.split_first()?;
                let value = u64::from_be_bytes(value.try_into().ok()?);
                let order = match order {
                    0 => Order::Start(Mono(value)),
                    1 => Order::Ask(u32::clamped(value)),
                    2 => Order::Freeze(u32::clamped(value)),
                    3 => Order::Stop,
                    4 => Order::Kill,
                    5 => Order::Drop,
                    _ => return None,
                };
                Some(Instruction::Order(Group(first), order))
            }
            _ => None,
        }
    }
}

/// Encodes a finding of worker `worker` of a process, for the control thread.
pub(crate) fn encode_finding(worker: usize, finding: &Finding) -> Vec<u8> {
    let mut body = u16::clamped(worker).to_be_bytes().to_vec();
    // Here and not in `model`, which is not optimised: a client of a million connections hears of
    // seventy processes a second. Writing our own types into memory cannot fail; if it ever did,
    // the body could not be read.
    let _ = serde_json::to_writer(&mut body, finding);
    framed(&body)
}

fn decode_finding(body: &[u8]) -> Option<(usize, Finding)> {
    let (worker, finding) = body.split_first_chunk::<2>()?;
    Some((u16::from_be_bytes(*worker).into(), serde_json::from_slice(finding).ok()?))
}

/// State of a group on one worker of a process.
#[derive(Clone, Debug, Default)]
struct GroupProgress {
    /// Its next interval.
    next: u32,
    /// The worker has reported its last interval.
    closed: bool,
    idle: bool,
    /// Connections that it was to keep open.
    share: u64,
    /// Connections that were open at the end of its latest interval, and that have ended so far.
    open: u64,
    ended: u64,
    /// Payload bytes that open connections have sent.
    tx_bytes: u64,
}

/// A worker process.
pub(crate) struct Process {
    /// The control link that leads to it.
    pub(crate) link: u64,
    /// Its workers, as the control thread numbers them.
    pub(crate) workers: Range<usize>,
    pub(crate) is_over: bool,
    /// Something was heard since the last look; the number of silent looks before.
    is_heard: bool,
    silent: u8,
    frames: Frames,
    /// Groups that it has not said to know.
    beginning: BTreeSet<Group>,
    /// By group and worker, until that has dropped the group.
    groups: BTreeMap<(Group, usize), GroupProgress>,
}

impl Process {
    pub(crate) fn new(link: u64, workers: Range<usize>) -> Self {
        let (beginning, groups) = (BTreeSet::new(), BTreeMap::new());
        Process {
            link,
            workers,
            is_over: false,
            is_heard: true,
            silent: 0,
            frames: Frames::default(),
            beginning,
            groups,
        }
    }

    /// A look at the process, of which something may be unread; false when it has said nothing for
    /// too long. Looks are counted and not times: a host that sleeps, or a program that was stopped
    /// with its worker processes, proves nothing.
    pub(crate) fn is_alive(&mut self, is_unread: bool, is_ending: bool) -> bool {
        let is_heard = std::mem::take(&mut self.is_heard) || is_unread || self.is_over;
        self.silent = if is_heard { 0 } else { self.silent.saturating_add(1) };
        self.silent < if is_ending { LOST_AT_END_AFTER } else { LOST_AFTER }
    }

    /// The process has this part of a group, with `slots` connections at once.
    pub(crate) fn begin(&mut self, group: Group, part: Part, slots: u32) {
        self.beginning.insert(group);
        let each = u32::clamped(self.workers.len());
        let all = u64::from(part.of.saturating_mul(each)).max(1);
        for (at, worker) in (0..).zip(self.workers.clone()) {
            let place = u64::from(part.index.saturating_mul(each).saturating_add(at));
            let share = (u64::from(slots) + all - 1).saturating_sub(place) / all;
            self.groups.insert((group, worker), GroupProgress { share, ..GroupProgress::default() });
        }
    }

    /// Decodes findings, each with the worker by the control thread's numbers; `None` when one is
    /// malformed.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Option<Vec<(usize, Finding)>> {
        self.frames.push(bytes);
        self.is_heard = true;
        let mut all = Vec::new();
        while let Some(body) = self.frames.pop() {
            if body.is_empty() {
                continue;
            }
            let (worker, finding) = decode_finding(body)?;
            let worker = self.workers.start + worker;
            match &finding {
                Finding::Begun(group) => self.beginning.take(group).map(drop)?,
                Finding::Tally { group, index, last, tally, .. } => {
                    let known = self.groups.get_mut(&(*group, worker))?;
                    known.next = index.saturating_add(1);
                    known.closed |= last;
                    known.open = tally.open;
                    known.ended += tally.ended.iter().sum::<u64>();
                    known.tx_bytes = (known.tx_bytes + tally.tx_bytes).saturating_sub(tally.ended_tx);
                }
                Finding::Idle(group) => self.groups.get_mut(&(*group, worker))?.idle = true,
                Finding::Dropped { group, .. } => {
                    self.groups.remove(&(*group, worker))?;
                }
                Finding::Ended(_) | Finding::Limited { .. } | Finding::Trouble(_) => {}
            }
            all.push((worker, finding));
        }
        Some(all)
    }

    /// The missing reports of a lost process: its workers are waited for no longer, and their open
    /// connections have failed.
    pub(crate) fn lost(&mut self, now: Mono) -> Vec<(usize, Finding)> {
        self.is_over = true;
        let first = self.workers.start;
        let begun = std::mem::take(&mut self.beginning).into_iter();
        let mut all: Vec<_> = begun.map(|group| (first, Finding::Begun(group))).collect();
        for ((group, worker), known) in std::mem::take(&mut self.groups) {
            let failed = known.open.max(known.share.saturating_sub(known.ended));
            let failed = if known.idle { 0 } else { failed };
            let mut tally = Box::new(failures(failed, known.tx_bytes));
            if !known.closed {
                // In an interval, because a session may wait until each connection has moved its
                // payload or failed.
                let tally = std::mem::take(&mut tally);
                all.push((worker, Finding::Tally { group, index: known.next, to: now, last: true, tally }));
            }
            if !known.idle {
                all.push((worker, Finding::Idle(group)));
            }
            all.push((worker, Finding::Dropped { group, tally, effective: None }));
        }
        all
    }
}

/// Connections that failed with their process, and the payload bytes that they had sent.
fn failures(count: u64, tx_bytes: u64) -> Tally {
    let mut tally = Tally::default();
    if count > 0 {
        let (class, text) = (Ending::NetworkError, "its worker process has ended");
        tally.ended[class as usize] = count;
        tally.ended_tx = tx_bytes;
        let cause = CauseCount { class, text: text.to_owned(), count, first: text.to_owned() };
        tally.causes.insert(text.to_owned(), cause);
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_survive_any_split() {
        let part = Part { index: 3, of: 9 };
        let all = [
            Instruction::Group(part, b"about"),
            Instruction::Group(part, b""),
            Instruction::Order(Group(7), Order::Start(Mono(u64::MAX))),
            Instruction::Order(Group(7), Order::Ask(5)),
            Instruction::Order(Group(7), Order::Freeze(5)),
            Instruction::Order(Group(7), Order::Stop),
            Instruction::Order(Group(7), Order::Kill),
            Instruction::Order(Group(0), Order::Drop),
        ];
        let bytes: Vec<u8> = all.iter().flat_map(Instruction::encode).collect();
        for size in [1, 3, bytes.len()] {
            let (mut frames, mut at) = (Frames::default(), 0);
            for chunk in bytes.chunks(size) {
                frames.push(chunk);
                while let Some(body) = frames.pop() {
                    assert_eq!(Instruction::decode(body).as_ref(), Some(&all[at]));
                    at += 1;
                }
            }
            assert_eq!(at, all.len());
        }
        for bad in [&b""[..], b"\x02\0\0\0\0", b"\x01\0\0\0\0\x06\0\0\0\0\0\0\0\0", b"\x01\0\0\0\0\x05"] {
            assert_eq!(Instruction::decode(bad), None);
        }
    }

    /// 10 connections over two processes with two workers each: workers 2 and 3 of four have 2
    /// each.
    fn second() -> Process {
        let mut process = Process::new(1, 12..14);
        process.begin(Group(1), Part { index: 1, of: 2 }, 10);
        process
    }

    fn counted(index: u32, open: u64, completed: u64) -> Finding {
        let mut tally = Tally { open, ..Tally::default() };
        tally.ended[Ending::Completed as usize] = completed;
        Finding::Tally { group: Group(1), index, to: Mono(5), last: false, tally: Box::new(tally) }
    }

    #[test]
    fn the_connections_of_a_process_that_ends_have_failed() {
        let failed = |process: &mut Process| -> Vec<u64> {
            let lost = process.lost(Mono(9));
            let dropped = lost.iter().filter_map(|(_, finding)| match finding {
                Finding::Tally { tally, .. } => Some(tally.count(Ending::NetworkError)),
                _ => None,
            });
            dropped.collect()
        };
        assert_eq!(failed(&mut second()), [2, 2], "before it has told anything");
        let mut process = second();
        let bytes = [encode_finding(0, &counted(0, 1, 1)), encode_finding(1, &counted(0, 2, 700))].concat();
        assert_eq!(process.receive(&bytes).unwrap().len(), 2);
        assert_eq!(failed(&mut process), [1, 2], "one connection had completed; the open ones failed");
        assert!(process.lost(Mono(9)).is_empty(), "they are told once");
    }

    /// A session that waits until each has moved its bytes or failed counts none of them twice.
    #[test]
    fn what_the_failed_connections_of_a_process_had_sent_is_told() {
        let moved = |index, tx_bytes, ended_tx| {
            let tally = Box::new(Tally { open: 2, tx_bytes, ended_tx, ..Tally::default() });
            encode_finding(0, &Finding::Tally { group: Group(1), index, to: Mono(5), last: false, tally })
        };
        let mut process = second();
        process.receive(&[moved(0, 300, 0), moved(1, 50, 100)].concat()).unwrap();
        let lost = process.lost(Mono(9));
        let sent: Vec<u64> = lost
            .iter()
            .filter_map(|(_, finding)| match finding {
                Finding::Tally { tally, .. } => Some(tally.ended_tx),
                _ => None,
            })
            .collect();
        assert_eq!(sent, [250, 0]);
    }

    #[test]
    fn a_process_that_ends_is_waited_for_in_no_interval() {
        let mut process = second();
        process
            .receive(
                &[encode_finding(0, &counted(0, 1, 0)), encode_finding(1, &Finding::Idle(Group(1)))].concat(),
            )
            .unwrap();
        let lost = process.lost(Mono(9));
        let intervals: Vec<(usize, u32)> = lost
            .iter()
            .filter_map(|(worker, finding)| match finding {
                Finding::Tally { index, last: true, .. } => Some((*worker, *index)),
                _ => None,
            })
            .collect();
        assert_eq!(intervals, [(12, 1), (13, 0)]);
        let idle: Vec<usize> = lost
            .iter()
            .filter_map(|(worker, finding)| matches!(finding, Finding::Idle(_)).then_some(*worker))
            .collect();
        assert_eq!(idle, [12], "the other has said so itself");
    }

    #[test]
    fn a_process_that_says_nothing_is_noticed_by_the_looks_that_it_missed() {
        let mut process = second();
        assert!((0..1 + 7).all(|_| process.is_alive(false, false)), "the first look finds it heard");
        assert!(process.receive(&BEAT_FRAME).unwrap().is_empty());
        assert!((0..100).all(|_| process.is_alive(true, false)), "what it says waits to be read");
        assert!((0..7).all(|_| process.is_alive(false, false)) && !process.is_alive(false, false));
        process
            .receive(&[&BEAT_FRAME[..], &encode_finding(0, &counted(0, 1, 0)), &BEAT_FRAME].concat())
            .unwrap();
        assert!((0..1 + 2).all(|_| process.is_alive(false, true)) && !process.is_alive(false, true));
    }

    #[test]
    fn nonsense_is_noticed() {
        for bad in [&b"\0\0\0\x01x"[..], b"\0\0\0\x05\0\0abc", &encode_finding(0, &Finding::Idle(Group(9)))] {
            assert!(second().receive(bad).is_none());
        }
    }
}
