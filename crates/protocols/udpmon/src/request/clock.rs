//! A requester's comparison of the responder's clock with its own.

use super::{RequestStep, Requester};
use crate::PacketTestClock;
use crate::codec::{self, Message, Setup};
use metrics::{Exchange, Mono, SECOND};

/// Most exchanges before a test, as in the original, and behind it.
pub(super) const EXCHANGES: u32 = 200;
const EXCHANGES_BEHIND: u32 = 20;
/// Time after the first exchange in which further ones may begin, ns: over a round trip of 600 ms
/// all of them would take minutes.
const EXCHANGING: u64 = 2 * SECOND;
/// Limit for the response to an exchange, ns.
pub(super) const EXCHANGE: u64 = SECOND;

impl Requester {
    /// The exchanges of this host's clock and the responder's begin: those before a test, or those
    /// behind it.
    pub(super) fn begin_exchanges(&mut self, now: Mono, behind: bool) {
        self.exchanging = now;
        self.step = if behind { RequestStep::Resync(0) } else { RequestStep::Sync(0) };
        self.exchange(if behind { EXCHANGES + 1 } else { 1 });
    }

    pub(super) fn exchange(&mut self, number: u32) {
        let ask = Message::Ask { frame: number.into(), length: codec::SYNC as i32 };
        self.talk.ask_for(codec::encode(&ask, codec::SYNC), EXCHANGE);
    }

    /// A response to an exchange has arrived.
    pub(super) fn exchanged(&mut self, now: Mono, frame: i64, time: i64) {
        let (count, first, most) = match self.step {
            RequestStep::Sync(n) => (n, 1, EXCHANGES),
            RequestStep::Resync(n) => (n, EXCHANGES + 1, EXCHANGES_BEHIND),
            _ => return,
        };
        if frame != i64::from(first + count) {
            return;
        }
        let (sent, came) = (self.talk.sent.since(self.zero), now.since(self.zero));
        if !self.talk.repeated() {
            // The responder's time is in whole microseconds: the request arrived within the next
            // one.
            let t3 = time.saturating_mul(1_000);
            self.offset.add(Exchange { t1: Mono(sent), t2: t3.saturating_add(1_000), t3, t4: Mono(came) });
            if first == 1 {
                let half = (came.saturating_sub(sent)) as f64 / 2_000.0;
                self.points.push((time as f64, (sent / 1_000) as f64 + half));
            }
        }
        self.talk.on_answer(now);
        let next = count + 1;
        if next < most && now.since(self.exchanging) < EXCHANGING {
            self.step = if first == 1 { RequestStep::Sync(next) } else { RequestStep::Resync(next) };
            return self.exchange(first + next);
        }
        if first == 1 {
            self.step = RequestStep::Start;
            self.talk.ask(codec::encode(&Message::Start(Setup::of(&self.params.asked)), codec::PARAM));
        } else {
            self.release();
        }
    }

    /// Relation of the remote clock to ours, at the end of the train.
    pub(super) fn clock(&self) -> Option<PacketTestClock> {
        let middle = self.train.as_ref().map_or(0, |train| train.end().since(self.zero));
        let estimate = self.offset.at(Mono(middle))?;
        Some(PacketTestClock {
            slope: 1.0,
            offset: -(estimate.offset_ns as f64) / 1_000.0,
            bound: estimate.bound_ns as f64 / 1_000.0,
            original: least_squares(&self.points),
        })
    }
}

/// Slope and offset of the line with the smallest sum of squares.
fn least_squares(points: &[(f64, f64)]) -> (f64, f64) {
    let n = points.len() as f64;
    let sum = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
    let (x, y, xx, xy) = (sum(|p| p.0), sum(|p| p.1), sum(|p| p.0 * p.0), sum(|p| p.0 * p.1));
    let below = n * xx - x * x;
    if below == 0.0 {
        return (1.0, if n > 0.0 { (y - x) / n } else { 0.0 });
    }
    let slope = (n * xy - x * y) / below;
    (slope, (y - slope * x) / n)
}
