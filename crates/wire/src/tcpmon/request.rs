//! The requester: messages until the transfer is over or the time is up, then the responder's sums, which must agree.

use super::codec::{self, Command, Head, PARAM};
use crate::call::Caller;
use crate::payload::Source;
use crate::solo::{Calls, GROUP};
use metrics::{Ending, Mono, Row};
use model::{Pace, Phase};
use seam::{Batch, Burst, Card, Cx, End, Flow, News, Opener, Read, Violation, Want, When, Wrote};
use std::time::Duration;
use uuid::Uuid;

/// Shortest and longest message, bytes.
const SHORTEST: u64 = PARAM as u64;
const LONGEST: u64 = 1 << 30;

/// A client's openers.
#[must_use]
pub fn callers(phase: &Phase, calls: &Calls) -> Vec<Box<dyn Opener>> {
    let plan = Plan {
        message: phase.buffer.high.clamp(SHORTEST, LONGEST),
        transfer: phase.transfer,
        rate: phase.rate,
        stall_ns: phase.stall_ns,
    };
    Caller::for_all(phase, calls, false, &move |cx: &mut Cx<'_>, slot| -> Box<dyn Flow> {
        Box::new(Requester::new(plan, cx.rng.uuid(), slot))
    })
}

/// What each connection does.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Length of a message, bytes.
    pub message: u64,
    /// Bytes of a connection; the last message goes beyond it, because none is cut.
    pub transfer: u64,
    /// Rate, bits/s.
    pub rate: Option<u64>,
    /// How long nothing may move, ns.
    pub stall_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Data,
    Ask,
    Answer,
    Over(Ending),
    Failed,
}

/// One connection.
#[derive(Debug)]
pub struct Requester {
    plan: Plan,
    id: Uuid,
    slot: u32,
    row: Option<Row>,
    step: Step,
    since: Mono,
    moved: Mono,
    pace: Option<Pace>,
    /// Whole messages that have left, and how much of the one in work.
    frame: u64,
    at: u64,
    head: [u8; PARAM],
    have: usize,
    stopped: bool,
}

impl Requester {
    /// A connection.
    #[must_use]
    pub fn new(plan: Plan, id: Uuid, slot: u32) -> Self {
        Requester {
            plan,
            id,
            slot,
            row: None,
            step: Step::Data,
            since: Mono(0),
            moved: Mono(0),
            pace: None,
            frame: 0,
            at: 0,
            head: [0; PARAM],
            have: 0,
            stopped: false,
        }
    }

    /// The head of the next message.
    fn next(&mut self, now: Mono) {
        let frame = self.frame as i64;
        let tenths = (now.since(self.since) / 100) as i64;
        let done = self.stopped || self.frame.saturating_mul(self.plan.message) >= self.plan.transfer;
        self.at = 0;
        if done {
            self.step = Step::Ask;
            let head = Head { command: Command::Stats, frame, length: SHORTEST };
            self.head = codec::encode(&head, tenths, PARAM);
        } else {
            let head = Head { command: Command::Data, frame, length: self.plan.message };
            self.head = codec::encode(&head, tenths, 0);
        }
    }

    /// The responder's sums are there.
    fn judge(&mut self, cx: &mut Cx<'_>) -> Result<(), Violation> {
        let counts = codec::decode_counts(&self.head);
        let (sent, received) = (self.frame * self.plan.message, u64::try_from(counts.bytes).unwrap_or(0));
        if sent != received {
            self.step = Step::Failed;
            return Err(Violation::Disagree { sent, received });
        }
        if let Some(row) = self.row {
            cx.rec.complete(row, cx.now);
        }
        self.step = Step::Over(if self.stopped { Ending::Stopped } else { Ending::Completed });
        Ok(())
    }
}

impl Flow for Requester {
    fn want(&self) -> Want {
        let (send, read, end) = match self.step {
            Step::Data => {
                let due = self.pace.filter(|_| self.at == 0).map_or(When::Now, |pace| When::At(pace.due()));
                (due, Read::look(1), None)
            }
            Step::Ask => (When::Now, Read::Pause, None),
            Step::Answer => (When::Never, Read::look((PARAM - self.have) as u64), None),
            Step::Over(how) => (When::Never, Read::Pause, Some(End::Done { how, reset: false })),
            Step::Failed => (When::Never, Read::Pause, None),
        };
        let waits = matches!(self.step, Step::Data | Step::Ask | Step::Answer);
        Want { send, read, wake: waits.then(|| self.moved.plus(self.plan.stall_ns)), end }
    }

    fn fill(&mut self, _: &mut Cx<'_>, out: &mut Burst<'_>) {
        let at = self.at as usize;
        if at < PARAM {
            let own = out.own(PARAM - at);
            let n = own.len();
            own.copy_from_slice(&self.head[at..at + n]);
        }
        if self.step == Step::Data {
            let from = self.at.max(SHORTEST);
            Source::Pattern.offer(from - SHORTEST, (self.plan.message - from) as usize, out);
        }
    }

    fn wrote(&mut self, cx: &mut Cx<'_>, n: Wrote) {
        if n.bytes == 0 {
            return;
        }
        self.moved = cx.now;
        self.at += n.bytes as u64;
        let Some(row) = self.row else { return };
        if self.step == Step::Ask {
            cx.rec.framing_sent(row, n.bytes as u64);
            if self.at >= SHORTEST {
                self.step = Step::Answer;
            }
            return;
        }
        cx.rec.sent(row, n.bytes as u64);
        if let Some(pace) = &mut self.pace {
            pace.sent(n.bytes as u64, cx.now);
        }
        if self.at >= self.plan.message {
            self.frame += 1;
            self.next(cx.now);
        }
    }

    fn take(&mut self, cx: &mut Cx<'_>, got: &Batch<'_>, _: &mut Burst<'_>) -> Result<(), Violation> {
        self.moved = cx.now;
        if self.step != Step::Answer {
            self.step = Step::Failed;
            return Err(Violation::Malformed("the responder spoke before it was asked"));
        }
        let to = (self.have + got.bytes.len()).min(PARAM);
        self.head[self.have..to].copy_from_slice(&got.bytes[..to - self.have]);
        self.have = to;
        if let Some(row) = self.row {
            cx.rec.framing_received(row, got.len as u64);
        }
        if self.have < PARAM { Ok(()) } else { self.judge(cx) }
    }

    fn hear(&mut self, cx: &mut Cx<'_>, news: News) -> Result<(), Violation> {
        match news {
            News::Up(_) => {
                (self.since, self.moved) = (cx.now, cx.now);
                self.pace = self.plan.rate.map(|rate| Pace::new(rate, self.plan.message, cx.now));
                self.row = Some(cx.rec.open(GROUP, cx.now));
                self.next(cx.now);
            }
            News::Fin if !matches!(self.step, Step::Over(_)) => {
                self.step = Step::Failed;
                return Err(Violation::Unconfirmed { sent: self.frame * self.plan.message + self.at });
            }
            News::Stop => {
                self.stopped = true;
                if self.step == Step::Data && self.at == 0 {
                    self.next(cx.now);
                }
            }
            News::Wake if cx.now.since(self.moved) >= self.plan.stall_ns => {
                self.step = Step::Failed;
                let why = "a tcpmon_resp serves one connection at a time: the others wait for it";
                return Err(Violation::Stalled(Duration::from_nanos(self.plan.stall_ns)).likely(why));
            }
            _ => {}
        }
        Ok(())
    }

    fn card(&self) -> Card {
        Card { row: self.row, id: self.id, slot: self.slot }
    }
}
