//! The statistics of one test: when its streams are asked for their counts, and the intervals and
//! results that follow from the answers.

use super::results::{Results, StreamResult};
use super::test_state::{Counts, StreamState, TestState};
use crate::{BulkCpu, BulkEnded, BulkNews, RemoteRow, ServerOutput, StreamRow};
use metrics::{Clamped, Group, Mono, SECOND, TcpInfo, real};

use std::collections::VecDeque;
use std::sync::Arc;

/// The question that is asked when measuring ends.
const LAST: u32 = u32::MAX;
/// Tag of the question for new data, which is no interval's.
const LOOK: u32 = u32::MAX - 1;
/// Limit for the answers to [`LOOK`], ns.
const ANSWER: u64 = SECOND;
/// A last interval that is shorter than this part of the others, and empty, is not reported.
const SHORT: u64 = 10;

/// Accounts of one stream.
#[derive(Clone, Debug, Default)]
struct Stream {
    sender: bool,
    /// At the end of the omitted start; before that, at the start.
    base: Counts,
    /// Counts at the last boundary.
    last: Counts,
    /// Counts at the end of the test.
    end: Option<Counts>,
    /// Bytes by its newest answer.
    newest: u64,
    info: Option<TcpInfo>,
}

/// A question that not all streams have answered yet.
#[derive(Debug)]
struct Round {
    tag: u32,
    omitted: bool,
    /// The boundary ends the omitted start (`-O`).
    begins: bool,
    answers: Vec<Option<(Counts, Option<TcpInfo>)>>,
}

#[derive(Debug)]
pub(super) struct StreamStats {
    test_state: Arc<TestState>,
    start: Mono,
    /// The omitted start, ns.
    omit: u64,
    /// User and system time of this process at the start, s; then the share of a core that the test
    /// took.
    used: (f64, f64),
    cpu: BulkCpu,
    /// Longest silence of an end that waits for data, ns.
    silence: Option<u64>,
    /// The peer's results.
    pub(super) remote: Option<Results>,
    /// Intervals are reported; and their length, ns.
    tells: bool,
    interval: u64,
    streams: Vec<Stream>,
    rounds: VecDeque<Round>,
    next_tag: u32,
    next: Mono,
    frozen: bool,
    /// Time of the latest report of new data by a receiving stream, or start of the test.
    heard: Mono,
    /// Receiving streams have been asked for new data: limit for the answers, and number of missing
    /// ones.
    looks: Option<(Mono, usize)>,
}

impl StreamStats {
    /// Statistics of a test that begins now, with all its streams. A receiver waits for data for
    /// `silence` ns at most; an interval of 0 reports none. `used` is the user and system time of
    /// this process so far, s.
    pub(super) fn new(
        test_state: Arc<TestState>,
        interval_ns: u64,
        silence: u64,
        used: (f64, f64),
        now: Mono,
    ) -> Self {
        let terms = &test_state.terms;
        let zero = Counts { at: now, ..Counts::default() };
        let stream =
            |slot| Stream { sender: test_state.sends(slot), base: zero, last: zero, ..Stream::default() };
        let mut stats = StreamStats {
            start: now,
            omit: u64::from(terms.omit_s) * SECOND,
            used,
            cpu: BulkCpu::default(),
            silence: (test_state.serving != terms.reverse).then_some(silence),
            remote: None,
            tells: interval_ns > 0,
            // Silence is found at the end of an interval, so there are intervals also where none is
            // reported.
            interval: if interval_ns > 0 { interval_ns } else { SECOND },
            streams: (0..terms.all_streams()).map(stream).collect(),
            rounds: VecDeque::new(),
            next_tag: 0,
            next: now,
            frozen: false,
            heard: now,
            looks: None,
            test_state,
        };
        stats.next = stats.after(now);
        stats
    }

    pub(super) fn group(&self) -> Group {
        self.test_state.group
    }

    /// When the test is over by the clock.
    pub(super) fn end(&self) -> Mono {
        let terms = &self.test_state.terms;
        let length = u64::from(terms.time_s) * SECOND + self.omit;
        if terms.time_s > 0 { self.start.plus(length) } else { Mono(u64::MAX) }
    }

    /// Origin of times: the start of the test in the omitted part, else the end of that part.
    fn origin(&self, omitted: bool) -> Mono {
        if omitted { self.start } else { self.start.plus(self.omit) }
    }

    /// The boundary behind `at`.
    fn after(&self, at: Mono) -> Mono {
        let counted = self.start.plus(self.omit);
        let step = |origin: Mono| origin.plus((at.since(origin) / self.interval + 1) * self.interval);
        if at < counted { step(self.start).min(counted) } else { step(counted) }
    }

    /// When the streams are to be asked next.
    fn due(&self) -> Option<Mono> {
        (!self.frozen).then_some(self.next)
    }

    /// The question for the streams, when it is time for one.
    fn ask(&mut self, now: Mono) -> Option<u32> {
        let at = self.due().filter(|at| *at <= now)?;
        let counted = self.start.plus(self.omit);
        let tag = self.next_tag;
        self.next_tag += 1;
        let next = self.after(at.max(now));
        // A late timer does not move the end of the omitted period.
        self.next = if at < counted { next.min(counted) } else { next };
        self.round(tag, at <= counted && self.omit > 0, at == counted && self.omit > 0);
        Some(tag)
    }

    /// Time of the next check for new data, at an end that waits for data.
    fn silent_at(&self) -> Mono {
        let Some(silence) = self.silence else { return Mono(u64::MAX) };
        self.looks.map_or(self.heard.plus(silence), |(until, _)| until)
    }

    /// When there may be questions for the streams.
    pub(super) fn wakes(&self) -> Mono {
        self.due().unwrap_or(Mono(u64::MAX)).min(self.silent_at())
    }

    /// Tags of the questions to the streams that are due; `None` when nothing has arrived for too
    /// long.
    pub(super) fn questions(&mut self, now: Mono) -> Option<Vec<u32>> {
        let mut tags = Vec::new();
        if self.silent_at() <= now {
            tags.push(self.look(now)?);
        }
        tags.extend(self.ask(now));
        Some(tags)
    }

    /// No new data has been reported, but the latest reports may be old: tag of a question for
    /// newer ones. `None` if this question has been asked and no answer had new data.
    fn look(&mut self, now: Mono) -> Option<u32> {
        let receiving = self.streams.iter().filter(|stream| !stream.sender && stream.end.is_none()).count();
        if self.looks.is_some() || receiving == 0 {
            return None;
        }
        self.looks = Some((now.plus(ANSWER), receiving));
        Some(LOOK)
    }

    /// Tag of the last question; `used` is the user and system time of this process so far, s.
    pub(super) fn freeze(&mut self, now: Mono, used: (f64, f64)) -> u32 {
        self.frozen = true;
        self.cpu = cpu(self.used, used, now.since(self.start));
        self.round(LAST, now < self.start.plus(self.omit), false);
        LAST
    }

    fn round(&mut self, tag: u32, omitted: bool, begins: bool) {
        // Streams that have ended have sent their last counts.
        let answers = self.streams.iter().map(|s| s.end.map(|end| (end, None))).collect();
        self.rounds.push_back(Round { tag, omitted, begins, answers });
    }

    /// Takes a stream's counts; returns the intervals that are complete now.
    pub(super) fn update(&mut self, standing: &StreamState) -> Vec<BulkNews> {
        let at = usize::clamped(standing.slot);
        let Some(stream) = self.streams.get_mut(at).filter(|_| standing.group == self.test_state.group)
        else {
            return Vec::new();
        };
        let info = standing.info.as_deref().copied();
        let more = standing.counts.bytes > stream.newest;
        stream.newest = stream.newest.max(standing.counts.bytes);
        let receiver = !stream.sender;
        if receiver && more {
            (self.heard, self.looks) = (self.heard.max(standing.counts.at), None);
        }
        if let Some((until, left)) = &mut self.looks
            && receiver
            && standing.tag == Some(LOOK)
        {
            *left = left.saturating_sub(1);
            if *left == 0 {
                // All have answered: the time is up.
                *until = self.heard;
            }
        }
        match standing.tag {
            None => {
                stream.end = Some(standing.counts);
                for round in &mut self.rounds {
                    round.answers[at].get_or_insert((standing.counts, None));
                }
            }
            Some(tag) => {
                if let Some(round) = self.rounds.iter_mut().find(|round| round.tag == tag) {
                    round.answers[at] = Some((standing.counts, info));
                }
            }
        }
        let mut told = Vec::new();
        while self.rounds.front().is_some_and(|round| round.answers.iter().all(Option::is_some)) {
            if let Some(round) = self.rounds.pop_front() {
                told.extend(self.close(&round));
            }
        }
        told
    }

    pub(super) fn complete(&self) -> bool {
        self.frozen && self.rounds.is_empty()
    }

    /// Closes the open boundary with the counts so far: streams that have not answered are gone.
    pub(super) fn settle(&mut self) -> Vec<BulkNews> {
        let rounds = std::mem::take(&mut self.rounds);
        rounds.iter().filter_map(|round| self.close(round)).collect()
    }

    fn close(&mut self, round: &Round) -> Option<BulkNews> {
        let origin = self.origin(round.omitted);
        let (udp, last) = (self.test_state.terms.udp, round.tag == LAST);
        let mut rows = Vec::new();
        for (slot, (stream, answer)) in self.streams.iter_mut().zip(&round.answers).enumerate() {
            let (mut counts, info) = (*answer).unwrap_or((stream.last, None));
            counts.retransmits = info.map(|info| info.retransmits).filter(|_| stream.sender && !udp);
            rows.push(StreamRow { info, ..row(slot, stream.sender, origin, &stream.last, &counts) });
            if round.begins {
                stream.base = counts;
            }
            counts.retransmits = counts.retransmits.or(stream.last.retransmits);
            (stream.last, stream.info) = (counts, info.or(stream.info));
            if last {
                stream.end = Some(counts);
            }
        }
        let length = rows.iter().map(|row| row.end_ns.saturating_sub(row.start_ns)).max().unwrap_or(0);
        let empty = rows.iter().all(|row| row.bytes == 0);
        let tell = self.tells && length > 0 && !(last && empty && length < self.interval / SHORT);
        tell.then_some(BulkNews::Interval { omitted: round.omitted, rows })
    }

    /// Counts of each stream, without the omitted start.
    pub(super) fn rows(&self) -> Vec<StreamRow> {
        let one = |(slot, stream): (usize, &Stream)| {
            let end = stream.end.unwrap_or(stream.last);
            // A stream that was lost has no figure of its end.
            let end = Counts { retransmits: stream.last.retransmits, ..end };
            let Stream { sender, base, info, .. } = *stream;
            StreamRow { info, ..row(slot, sender, base.at.max(self.start), &base, &end) }
        };
        self.streams.iter().enumerate().map(one).collect()
    }

    /// The end of the test, with the results of both ends.
    pub(super) fn ended(&self, congestion: &str, error: Option<String>) -> BulkNews {
        let remote = self.remote.as_ref();
        BulkNews::Ended(Box::new(BulkEnded {
            local: self.rows(),
            remote: remote
                .map(|remote| remote.lines.iter().map(|line| line.row).collect())
                .unwrap_or_default(),
            cpu: self.cpu,
            remote_cpu: remote.map(|remote| remote.cpu),
            congestion: self.congestion(congestion),
            remote_congestion: remote.and_then(|remote| remote.congestion.clone()),
            server_output: remote.and_then(|remote| remote.output.clone()),
            error,
        }))
    }

    /// This end's results for the peer.
    pub(super) fn results(&self, congestion: &str, output: Option<ServerOutput>) -> Results {
        let sends = self.streams.iter().any(|stream| stream.sender);
        Results {
            cpu: self.cpu,
            has_retransmits: if sends { i64::from(!self.test_state.terms.udp) } else { -1 },
            congestion: self.congestion(congestion),
            lines: self.lines(),
            output,
        }
    }

    /// The congestion control of this end, of TCP.
    fn congestion(&self, name: &str) -> Option<String> {
        (!self.test_state.terms.udp).then(|| name.to_owned())
    }

    /// Counts of each stream for the peer.
    fn lines(&self) -> Vec<StreamResult> {
        let rows = self.rows();
        let line = |(stream, row): (&Stream, &StreamRow)| {
            let StreamRow { slot, bytes, retransmits, jitter_ns, lost, .. } = *row;
            let ns = Some(row.end_ns.saturating_sub(row.start_ns));
            let packets = i64::clamped(row.packets);
            StreamResult {
                row: RemoteRow { slot, bytes, retransmits, jitter_ns, lost, packets, ns },
                omitted_errors: stream.base.lost,
                omitted_packets: i64::clamped(stream.base.packets),
                repeated: row.duplicates,
                reordered: row.out_of_order,
                unknown: model::Counts::NONE,
            }
        };
        self.streams.iter().zip(&rows).map(line).collect()
    }
}

/// The share of the time of a core, percent, that was used in `ns` from one reading of user and
/// system time, s, to the next.
fn cpu(then: (f64, f64), now: (f64, f64), ns: u64) -> BulkCpu {
    let share = |now: f64, then: f64| (now - then).max(0.0) * 1e11 / real(ns.max(1));
    let (user, system) = (share(now.0, then.0), share(now.1, then.1));
    BulkCpu { total: user + system, user, system }
}

fn more(now: Option<u32>, before: Option<u32>) -> Option<u64> {
    now.map(|now| u64::from(now.saturating_sub(before.unwrap_or(0))))
}

/// Difference of two counts of a stream.
fn row(slot: usize, sender: bool, origin: Mono, from: &Counts, to: &Counts) -> StreamRow {
    StreamRow {
        slot: u32::clamped(slot),
        sender,
        start_ns: from.at.since(origin),
        end_ns: to.at.since(origin),
        bytes: to.bytes.saturating_sub(from.bytes),
        packets: to.packets.saturating_sub(from.packets),
        lost: to.lost.saturating_sub(from.lost),
        out_of_order: to.out_of_order.saturating_sub(from.out_of_order),
        duplicates: to.duplicates.saturating_sub(from.duplicates),
        jitter_ns: to.jitter_ns,
        retransmits: more(to.retransmits, from.retransmits),
        info: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BulkTerms;

    fn says(slot: u32, tag: Option<u32>, at: u64, bytes: u64) -> StreamState {
        let counts = Counts { at: Mono(at), bytes, ..Counts::default() };
        StreamState { group: Group(1), slot, tag, counts, info: None }
    }

    /// Of a client's test that begins at `now`.
    fn stats(terms: BulkTerms, interval: u64, now: u64) -> StreamStats {
        let test_state = TestState::new(Group(1), terms, [0; 37], false);
        StreamStats::new(Arc::new(test_state), interval, SECOND / 2, (0.0, 0.0), Mono(now))
    }

    /// An interval: whether it is omitted, and its rows.
    fn interval(news: &BulkNews) -> (bool, &[StreamRow]) {
        let BulkNews::Interval { omitted, rows } = news else { panic!("{news:?}") };
        (*omitted, rows)
    }

    #[test]
    fn intervals_begin_anew_after_the_omitted_start() {
        let terms = BulkTerms { omit_s: 2, time_s: 3, ..BulkTerms::usual() };
        // 1.5 s: 1.5 and 2.0 are omitted, then 3.5 (1.5 after that), then the end.
        let zero = 100 * SECOND;
        let mut stats = stats(terms, 3 * SECOND / 2, zero);
        let mut told = vec![];
        for (ms, bytes) in [(1_500, 10), (2_000, 20), (3_500, 50)] {
            let at = zero + ms * 1_000_000;
            assert_eq!(stats.due(), Some(Mono(at)));
            assert_eq!(stats.ask(Mono(at - 1)), None);
            let tag = stats.ask(Mono(at)).unwrap();
            told.extend(stats.update(&says(0, Some(tag), at, bytes)));
        }
        let tag = stats.freeze(Mono(zero + 5 * SECOND), (0.0, 0.0));
        assert!(!stats.complete());
        told.extend(stats.update(&says(0, Some(tag), zero + 5 * SECOND, 100)));
        assert!(stats.complete() && stats.due().is_none());
        let seen = told.iter().map(interval);
        let seen: Vec<(bool, u64, u64, u64)> =
            seen.map(|(omitted, rows)| (omitted, rows[0].start_ns, rows[0].end_ns, rows[0].bytes)).collect();
        let ms = 1_000_000;
        assert_eq!(
            seen,
            [
                (true, 0, 1_500 * ms, 10),
                (true, 1_500 * ms, 2_000 * ms, 10),
                (false, 0, 1_500 * ms, 30),
                (false, 1_500 * ms, 3_000 * ms, 50)
            ]
        );
        let rows = stats.rows();
        assert_eq!((rows[0].bytes, rows[0].start_ns, rows[0].end_ns), (80, 0, 3_000 * ms));
        assert_eq!((stats.lines()[0].row.bytes, stats.lines()[0].row.ns), (80, Some(3_000 * ms)));
    }

    #[test]
    fn the_omitted_start_ends_where_it_is_to_although_the_wake_comes_late() {
        let terms = BulkTerms { omit_s: 2, time_s: 3, ..BulkTerms::usual() };
        let mut stats = stats(terms, SECOND, 0);
        // The one at 1 s comes behind 2 s.
        let late = 2 * SECOND + 5;
        for _ in 0..2 {
            let tag = stats.ask(Mono(late)).unwrap();
            stats.update(&says(0, Some(tag), late, 30));
        }
        assert_eq!(stats.due(), Some(Mono(3 * SECOND)));
        let tag = stats.freeze(Mono(5 * SECOND), (0.0, 0.0));
        stats.update(&says(0, Some(tag), 5 * SECOND, 100));
        assert_eq!((stats.rows()[0].bytes, stats.lines()[0].row.bytes), (70, 70));
    }

    #[test]
    fn whether_anything_comes_is_asked_however_long_an_interval_is() {
        let (long, silence) = (300 * SECOND, SECOND / 2);
        let mut stats = stats(BulkTerms { reverse: true, ..BulkTerms::usual() }, long, 0);
        assert_eq!(stats.silent_at(), Mono(silence));
        let tag = stats.look(Mono(silence)).unwrap();
        assert!(stats.silent_at() > Mono(silence), "an answer is waited for");
        assert!(stats.update(&says(0, Some(tag), silence, 7)).is_empty());
        // It had got 7 bytes, and gets no more.
        assert_eq!(stats.silent_at(), Mono(2 * silence));
        let tag = stats.look(Mono(2 * silence)).unwrap();
        assert!(stats.update(&says(0, Some(tag), 2 * silence, 7)).is_empty());
        assert!(stats.silent_at() <= Mono(2 * silence));
        assert_eq!(stats.look(Mono(2 * silence)), None);
        assert_eq!((stats.due(), stats.complete()), (Some(Mono(long)), false));
    }

    #[test]
    fn a_stream_that_has_gone_is_not_waited_for() {
        let terms = BulkTerms { streams: 2, reverse: true, ..BulkTerms::usual() };
        let mut stats = stats(terms, SECOND, 0);
        let tag = stats.ask(Mono(SECOND)).unwrap();
        assert!(stats.update(&says(0, Some(tag), SECOND, 7)).is_empty());
        let told = stats.update(&says(1, None, SECOND / 2, 3));
        assert_eq!(told.len(), 1);
        assert_eq!(interval(&told[0]).1.iter().map(|row| row.bytes).collect::<Vec<_>>(), [7, 3]);
        let tag = stats.freeze(Mono(2 * SECOND), (0.0, 0.0));
        assert!(!stats.update(&says(0, Some(tag), 2 * SECOND, 9)).is_empty() && stats.complete());
        assert_eq!(stats.rows().iter().map(|row| row.bytes).collect::<Vec<_>>(), [9, 3]);
        // Reports of another test are ignored.
        assert!(stats.update(&StreamState { group: Group(2), ..says(0, Some(tag), 0, 0) }).is_empty());
    }
}
