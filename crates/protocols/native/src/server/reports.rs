//! Reports on intervals to a client: bundled to the budget of own traffic, and kept back while too
//! many are under way.

use crate::budget::Budget;
use crate::message::{Frames, Message};
use metrics::{Clamped, DistSummary, Ecn, Mono};
use model::PacketReport;
use std::collections::VecDeque;

/// Most reports that are kept back; of more the oldest are dropped.
const MOST: usize = 32;
/// Bytes of reports under way, of which the client has not said that they have arrived: more would
/// stand in a full queue.
const UNDER_WAY: usize = 16 * 1024;
/// Segments whose reports are remembered until they are acknowledged.
const MOST_SENT: usize = 256;
/// Bytes that leave together: a segment.
const TOGETHER: usize = 1_200;

/// Reports that left together.
struct UnderWay {
    /// The interval of the last one.
    last: u32,
    bytes: usize,
    /// Kept for another connection, if the client goes on with sessions there.
    reports: Vec<Message>,
}

/// The reports to one client.
#[derive(Default)]
pub(super) struct Reports {
    waiting: VecDeque<Message>,
    /// Earliest time of the next one.
    at: Mono,
    sent: VecDeque<UnderWay>,
    /// The client acknowledges reports.
    is_answered: bool,
    /// Reports under way are kept.
    keeps: bool,
    budget: Budget,
}

impl Reports {
    pub(super) fn new(budget: Budget) -> Self {
        Reports { budget, ..Reports::default() }
    }

    /// The same; if `keeps`, reports can be sent again until the client has them.
    pub(super) fn keeping(self, keeps: bool) -> Self {
        Reports { keeps, ..self }
    }

    pub(super) fn add(&mut self, mut report: Message) {
        if self.budget.omits_reports() {
            return;
        }
        if let Message::Interval { packets: Some(packets), .. } = &mut report
            && self.budget.is_scarce()
        {
            // The client shows delays; totals have the rest.
            let mut short = PacketReport::from(packets.counts);
            short.delay_ns = packets.delay_ns.take().map(|delay| DistSummary {
                mean: delay.mean.round(),
                sd: delay.sd.round(),
                ..delay
            });
            short.jitter_ns = packets.jitter_ns.map(f64::round);
            if packets.marks.count(Ecn::Off) < packets.marks.all() {
                short.marks = packets.marks;
            }
            (short.clock_bound_ns, short.unknown) = (packets.clock_bound_ns, packets.unknown);
            **packets = short;
        }
        if self.waiting.len() == MOST {
            self.waiting.pop_front();
        }
        self.waiting.push_back(report);
    }

    /// The client has the reports on the first `intervals` intervals.
    pub(super) fn acknowledge(&mut self, intervals: u32) {
        self.is_answered = true;
        while self.sent.pop_front_if(|sent| sent.last < intervals).is_some() {}
    }

    /// Reports that are not acknowledged wait again: the connection that they were sent on is given
    /// up.
    pub(super) fn send_again(&mut self) {
        let sent = self.sent.drain(..).flat_map(|sent| sent.reports);
        self.waiting = sent.chain(std::mem::take(&mut self.waiting)).collect();
    }

    fn is_full(&self) -> bool {
        let bytes = || self.sent.iter().map(|sent| sent.bytes).sum::<usize>();
        self.is_answered && (self.sent.len() >= MOST_SENT || bytes() >= UNDER_WAY)
    }

    /// Time at which waiting reports leave, unless too many are under way.
    pub(super) fn due(&self) -> Option<Mono> {
        (!self.waiting.is_empty() && !self.is_full()).then_some(self.at)
    }

    /// The bytes of the reports that leave now; `all` that wait.
    pub(super) fn take(&mut self, now: Mono, frames: &mut Frames, all: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        if !all && self.due().is_none_or(|at| at > now) {
            return bytes;
        }
        let (mut last, mut reports) = (None, Vec::new());
        while let Some(report) = self.waiting.pop_front() {
            bytes.extend(frames.encode(&report));
            if let Message::Interval { index, .. } = report {
                last = Some(index);
            }
            if self.keeps {
                reports.push(report);
            }
            if !all && bytes.len() >= TOGETHER {
                break;
            }
        }
        if let Some(last) = last.filter(|_| self.sent.len() < MOST_SENT) {
            self.sent.push_back(UnderWay { last, bytes: bytes.len(), reports });
        }
        self.at = now.plus(self.budget.reports_wait_ns(u64::clamped(bytes.len())));
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::MAX_MESSAGE;
    use metrics::SECOND;
    use model::{Phase, Traffic};

    fn report(index: u32) -> Message {
        Message::Interval {
            index,
            traffic: Traffic::default(),
            open: 1,
            others: 0,
            came_ns: None,
            packets: None,
        }
    }

    fn indices(bytes: &[u8]) -> Vec<u32> {
        let mut frames = Frames::new(MAX_MESSAGE);
        frames.push(bytes).unwrap();
        let one = |message| match message {
            Message::Interval { index, .. } => index,
            _ => u32::MAX,
        };
        std::iter::from_fn(|| frames.pop().unwrap()).map(one).collect()
    }

    #[test]
    fn reports_leave_at_once_where_nothing_is_asked_for_and_together_where_little_is() {
        let mut frames = Frames::new(MAX_MESSAGE);
        let mut fast = Reports::new(Budget::of(&Phase::default()));
        let slow = Phase { rate: Some(1_000), connections: 1, ..Phase::default() };
        let mut slow = Reports::new(Budget::of(&slow));
        let mut left = (Vec::new(), Vec::new());
        for index in 0..8 {
            let now = Mono(u64::from(index) * SECOND / 2);
            fast.add(report(index));
            slow.add(report(index));
            left.0.push(indices(&fast.take(now, &mut frames, false)));
            left.1.push(indices(&slow.take(now, &mut frames, false)));
        }
        assert_eq!(left.0, (0..8).map(|index| vec![index]).collect::<Vec<_>>());
        // An interval of 1 s between two.
        let none = Vec::new;
        let pairs = [vec![0], none(), vec![1, 2], none(), vec![3, 4], none(), vec![5, 6], none()];
        assert_eq!(left.1, pairs);
        assert_eq!(indices(&slow.take(Mono(4 * SECOND), &mut frames, true)), [7], "before the result");
    }

    #[test]
    fn a_client_that_gets_none_is_sent_no_more_and_its_memory_is_bounded() {
        let mut frames = Frames::new(MAX_MESSAGE);
        let mut reports = Reports::new(Budget::default());
        reports.acknowledge(0);
        let mut left = 0;
        for index in 0..1_000 {
            reports.add(report(index));
            left += reports.take(Mono(0), &mut frames, false).len();
        }
        assert!((UNDER_WAY..UNDER_WAY + TOGETHER).contains(&left), "{left}");
        assert!(reports.waiting.len() <= MOST && reports.due().is_none());
        // It has some now: the latest follow.
        reports.acknowledge(100);
        let got = indices(&reports.take(Mono(0), &mut frames, false));
        assert!(got.first() >= Some(&(1_000 - u32::try_from(MOST).unwrap())), "{got:?}");
        // A client of an earlier version says nothing of that.
        let mut reports = Reports::new(Budget::default());
        for index in 0..1_000 {
            reports.add(report(index));
            assert_eq!(indices(&reports.take(Mono(0), &mut frames, false)), [index]);
        }
        assert!(reports.sent.len() <= MOST_SENT);
    }
}
