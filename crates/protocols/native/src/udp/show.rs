//! A stream's frames at their receiver: their timeliness, and the depth that each would have
//! needed.
//!
//! Every frame has the same number of datagrams, so a datagram's number gives its frame. Frame *f*,
//! from 0, is due to be sent at the start + f frame times, and judged when the receiver's depth has
//! passed since.

use super::codec::Header;
use crate::verdicts::{LAZY, ROWS, SETTLE};
use common::kernel::Core;
use common::message::post_event;
use metrics::{Clamped, Frames, Mono, SECOND};
use model::{Event, FrameRow, FrameVerdict, Media};
use std::collections::VecDeque;
use transport::Context;

/// Most frames that are held, for any depth.
const MOST: u64 = 100_000;

/// A frame that may still receive datagrams.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    /// Bytes of its datagrams, each counted once, and with repeats.
    unique: u64,
    all: u64,
    /// Departure and arrival of the latest datagram, ns of the two hosts' clocks.
    sent: i64,
    came: i64,
}

/// Result of judging one frame.
#[derive(Clone, Copy, Debug)]
enum FrameResult {
    Complete(i64),
    Never,
    Missed(u64),
}

#[derive(Debug)]
pub(super) struct Show {
    media: Media,
    each: u64,
    /// Late frames are waited for this long, to know their need.
    patience: u64,
    /// Frames that may be held: the buffer's depth, and frames that arrive up to a second early.
    span: u64,
    start: Option<Mono>,
    /// The next frame to be judged, and when.
    next: u64,
    next_at: Option<Mono>,
    /// The first frame of `held`, and when it was to be shown.
    base: u64,
    base_at: Option<Mono>,
    /// The frame that the last datagram was of, and its first number.
    latest: (u64, u64),
    held: VecDeque<Held>,
    /// Length of the current run of missed frames.
    run: u64,
    frames: Frames,
    told: Vec<FrameResult>,
    /// Judged frames that were not reported, if they are to be.
    rows: Option<Vec<FrameRow>>,
}

impl Show {
    pub(super) fn new(media: Media, each: u64, patience: u64, tells: bool) -> Self {
        Show {
            media,
            each: each.max(1),
            patience,
            span: (media.depth_frames + u64::from(media.frame_rate) * (patience / SECOND + 2)).min(MOST),
            start: None,
            next: 0,
            next_at: None,
            base: 0,
            base_at: None,
            latest: (0, 0),
            held: VecDeque::new(),
            run: 0,
            frames: Frames::default(),
            told: Vec::new(),
            rows: tells.then(Vec::new),
        }
    }

    /// Frames are due from `start` on, by our clock.
    pub(super) fn begin(&mut self, start: Mono) {
        if self.start.is_none() {
            self.start = Some(start);
            (self.next_at, self.base_at) = (self.shown_at(self.next), self.shown_at(self.base));
        }
    }

    fn due(&self, frame: u64) -> Option<Mono> {
        Some(self.start?.plus(self.media.due_ns(frame)))
    }

    /// When frame `frame` is to be shown.
    fn shown_at(&self, frame: u64) -> Option<Mono> {
        self.due(frame.saturating_add(self.media.depth_frames))
    }

    /// When the next frame wants to be judged.
    pub(super) fn wake(&self) -> Option<Mono> {
        if self.next >= self.media.frames {
            return None;
        }
        Some(self.next_at?.plus(SETTLE + LAZY))
    }

    /// A good datagram arrived at `at`, for the first time or again; `sent` and `came` are stamps
    /// of the hosts' clocks.
    pub(super) fn on_datagram(&mut self, at: Mono, header: &Header, fresh: bool, came: u64) {
        self.begin(at);
        self.judge_until(at);
        let frame = self.frame_of(header.sequence);
        if frame < self.next {
            // Its time has passed: an error, as in the original, but worth knowing.
            self.frames.errors += 1;
        }
        let early = frame >= self.media.frames || frame - self.base.min(frame) >= self.span;
        if early {
            self.frames.errors += 1;
            return;
        }
        let Some(index) = frame.checked_sub(self.base) else { return };
        let index = usize::clamped(index);
        if self.held.len() <= index {
            self.held.resize(index + 1, Held::default());
        }
        let held = &mut self.held[index];
        let bytes = u64::from(header.size);
        held.all += bytes;
        (held.sent, held.came) = (header.actual as i64, came as i64);
        if fresh {
            held.unique += bytes;
            if held.unique == self.media.frame_size {
                let due = self.due(frame).unwrap_or(at);
                self.told.push(FrameResult::Complete(at.0 as i64 - due.0 as i64));
            }
        }
    }

    /// The frame of a datagram, which is mostly the one of the last datagram.
    #[inline]
    fn frame_of(&mut self, number: u64) -> u64 {
        let (frame, first) = self.latest;
        if number.wrapping_sub(first) < self.each {
            return frame;
        }
        let frame = number / self.each;
        self.latest = (frame, frame * self.each);
        frame
    }

    /// Judges the frames that were due at `at`, and frees finished ones.
    #[inline]
    fn judge_until(&mut self, at: Mono) {
        while self.next < self.media.frames && self.next_at.is_some_and(|due| due < at) {
            self.judge();
        }
        self.forget(at);
    }

    /// The same by the clock, some moments later.
    pub(super) fn judge(&mut self) {
        let held = usize::clamped(self.next - self.base.min(self.next));
        let held = self.held.get(held).copied().unwrap_or_default();
        let verdict = if held.unique < self.media.frame_size {
            FrameVerdict::Dropped
        } else if held.all > self.media.frame_size {
            FrameVerdict::Repeated
        } else {
            FrameVerdict::Completed
        };
        self.frames.add(verdict.counted());
        if verdict == FrameVerdict::Dropped {
            self.run += 1;
            self.told.push(FrameResult::Missed(self.run));
        } else {
            self.run = 0;
        }
        self.next += 1;
        self.next_at = self.shown_at(self.next);
        if let Some(rows) = &mut self.rows {
            let hz = |bytes| if bytes > 0 { SECOND as i64 } else { 0 };
            rows.push(FrameRow {
                seq: self.next,
                verdict,
                bytes: held.all,
                sender_ticks: held.sent,
                sender_hz: hz(held.all),
                receiver_ticks: held.came,
                receiver_hz: hz(held.all),
            });
        }
    }

    #[inline]
    fn forget(&mut self, at: Mono) {
        while self.base < self.next {
            let whole = self.held.front().is_some_and(|held| held.unique >= self.media.frame_size);
            let patient = self.base_at.is_some_and(|due| at.since(due) < self.patience);
            if !whole && patient {
                return;
            }
            self.pop();
        }
    }

    fn pop(&mut self) {
        let held = self.held.pop_front().unwrap_or_default();
        if held.unique < self.media.frame_size {
            self.told.push(FrameResult::Never);
        }
        self.base += 1;
        self.base_at = self.shown_at(self.base);
    }

    /// Counts the judged frames, and reports them once there are enough, or `all`.
    pub(super) fn report(&mut self, cx: &mut Context<'_>, core: &Core, all: bool) {
        if let Some(at) = cx.now.0.checked_sub(SETTLE) {
            self.judge_until(Mono(at));
        }
        if self.frames != Frames::default() {
            core.frames(cx, std::mem::take(&mut self.frames));
        }
        if !self.told.is_empty() {
            let playout = cx.rec.tally(core.group).playout.get_or_insert_default();
            for told in self.told.drain(..) {
                match told {
                    FrameResult::Complete(need) => playout.complete(need),
                    FrameResult::Never => playout.never(),
                    FrameResult::Missed(run) => playout.missed(run),
                }
            }
        }
        let enough = if all { 1 } else { ROWS };
        if let Some(rows) = self.rows.as_mut().filter(|rows| rows.len() >= enough) {
            post_event(cx, Event::Frames { id: core.id, rows: std::mem::take(rows) });
        }
    }

    /// No further datagram will arrive: `sent` datagrams were sent, and no frames beyond them are
    /// to be judged.
    pub(super) fn finish(&mut self, sent: u64) {
        let frames = sent.div_ceil(self.each).min(self.media.frames);
        while self.next < frames {
            self.judge();
        }
        while self.base < self.next {
            self.pop();
        }
        self.media.frames = frames;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::{Clock, Group, Recorder};
    use transport::Rng;

    const MS: u64 = 1_000_000;
    const START: u64 = 5_000 * MS;

    /// Three datagrams a frame, ten frames a second, held for two frames.
    fn media() -> Media {
        Media {
            rate_bps: 8 * 3_000 * 10,
            frame_rate: 10,
            frames: 40,
            frame_size: 3_000,
            depth_frames: 2,
            datagram: 1_000,
            spread: false,
        }
    }

    /// An arrival: when, which number, whether for the first time.
    type Arrival = (u64, u64, bool);

    /// Datagrams that are lost, repeated and delayed at random, in the order of arrival.
    fn arrivals(seed: u64) -> Vec<Arrival> {
        let mut rng = Rng::new(seed);
        let mut all = Vec::new();
        for number in 0..120 {
            let sent = START + number / 3 * 100 * MS;
            let copies = match rng.between(0, 19) {
                0 => 0,
                1 => 2,
                _ => 1,
            };
            for _ in 0..copies {
                let delay = if rng.between(0, 9) == 0 { rng.between(0, 900) } else { rng.between(1, 40) };
                // Off the grid, so that no arrival falls on an instant of judgement.
                all.push((sent + delay * MS + 1 + number, number));
            }
        }
        all.sort_unstable();
        let mut seen = Vec::new();
        all.into_iter()
            .map(|(at, number)| {
                let fresh = !seen.contains(&number);
                seen.push(number);
                (at, number, fresh)
            })
            .collect()
    }

    /// The definitions, frame by frame.
    fn slow(arrivals: &[Arrival], patience: u64) -> (Frames, Vec<i64>, u64) {
        let (mut frames, mut needs, mut never) = (Frames::default(), Vec::new(), 0);
        for frame in 0..40 {
            let due = START + frame * 100 * MS;
            let shown = due + 200 * MS;
            let of: Vec<&Arrival> = arrivals.iter().filter(|a| a.1 / 3 == frame).collect();
            let in_time: Vec<&&Arrival> = of.iter().filter(|a| a.0 <= shown).collect();
            let unique = in_time.iter().filter(|a| a.2).count();
            match (unique, in_time.len()) {
                (3, 3) => frames.completed += 1,
                (3, _) => frames.repeated += 1,
                _ => frames.dropped += 1,
            }
            frames.errors += (of.len() - in_time.len()) as u64;
            let fresh: Vec<u64> = of.iter().filter(|a| a.2).map(|a| a.0).collect();
            match fresh.iter().max() {
                // Late frames are waited for until the next arrival after their patience.
                Some(&last) if fresh.len() == 3 && last < shown + patience => {
                    needs.push(last as i64 - due as i64);
                }
                _ => never += 1,
            }
        }
        (frames, needs, never)
    }

    #[test]
    fn frames_are_judged_as_defined() {
        for seed in 0..200 {
            let arrivals = arrivals(seed);
            let mut show = Show::new(media(), 3, 10_000 * MS, true);
            show.begin(Mono(START));
            let (clock, mut rng, mut rec, mut outbox) =
                (Clock::default(), Rng::new(1), Recorder::default(), Vec::new());
            let mut core = Core::new(Group(1), 0, 0);
            core.row = Some(rec.open(Group(1), Mono(START)));
            for &(at, sequence, fresh) in &arrivals {
                let header = Header { sequence, intended: 0, actual: 7, size: 1_000, slot: 0 };
                show.on_datagram(Mono(at), &header, fresh, at);
                let now = Mono(at + MS);
                let mut cx = Context::new(now, &clock, &mut rng, &mut rec, &mut outbox);
                show.report(&mut cx, &core, false);
            }
            show.finish(120);
            let now = Mono(START + 60_000 * MS);
            let mut cx = Context::new(now, &clock, &mut rng, &mut rec, &mut outbox);
            show.report(&mut cx, &core, false);
            let (frames, needs, never) = slow(&arrivals, 10_000 * MS);
            let tally = rec.take_tally(Group(1));
            assert_eq!(tally.frames, frames, "seed {seed}");
            let playout = tally.playout.unwrap().summary();
            assert_eq!(
                (playout.never, playout.need_ns.unwrap().count),
                (never, needs.len() as u64),
                "seed {seed}"
            );
            let max = needs.iter().max().copied().unwrap();
            assert!((playout.need_ns.unwrap().max - max).abs() <= max / 1_000 + 1, "seed {seed}");
            let rows = show.rows.take().unwrap();
            assert_eq!(rows.len(), 40);
            assert!(rows.iter().zip(1..).all(|(row, n)| row.seq == n));
        }
    }

    #[test]
    fn absurd_numbers_take_no_memory() {
        let mut show = Show::new(Media { frames: 1 << 31, ..media() }, 3, MS, false);
        show.begin(Mono(0));
        // Held for two frames, then for 1 ms; 20 more may come early.
        for sequence in [u64::MAX >> 1, 1 << 40, 3 * 22] {
            let header = Header { sequence, intended: 0, actual: 0, size: 1_000, slot: 0 };
            show.on_datagram(Mono(1), &header, true, 1);
        }
        assert_eq!((show.held.len(), show.frames.errors), (0, 3));
    }
}
