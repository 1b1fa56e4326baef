//! The frames that a receiver holds, and their judgement when they are due.
//!
//! A receiver that holds N frames keeps 2 N of them: N that are waited for, and N that may arrive
//! early. Frame *f* is judged at the start + (N + f - 1) frame times. A datagram of none of the 2 N
//! frames is an error, be it too late or too early: it has no place.

use metrics::{Clamped, FrameStamps};
use model::{FrameRow, FrameVerdict, Media};
use std::collections::VecDeque;

/// A frame that has not been judged.
#[derive(Clone, Copy, Debug, Default)]
struct PendingFrame {
    bytes: u64,
    /// Stamps of the latest datagram.
    stamps: FrameStamps,
}

/// The frames that a receiver holds.
#[derive(Debug)]
pub struct Ring {
    /// The streamed media.
    pub media: Media,
    /// The next to be judged, from 1.
    head: u64,
    /// Frames from `head` to the last one with a datagram.
    held: VecDeque<PendingFrame>,
}

impl Ring {
    /// Holds as much of `media` as its depth says.
    pub fn new(media: Media) -> Self {
        Ring { media, head: 1, held: VecDeque::new() }
    }

    /// Frames that are held before the first is judged.
    pub fn depth(&self) -> u64 {
        self.media.depth_frames.min(self.media.frames).max(1)
    }

    /// The next frame to be judged, from 1; `None` when all were.
    pub fn next(&self) -> Option<u64> {
        (self.head <= self.media.frames).then_some(self.head)
    }

    /// Takes in a datagram of `bytes` bytes of frame `frame`; false when no such frame is waited
    /// for.
    pub fn store(&mut self, frame: i64, bytes: u64, stamps: FrameStamps) -> bool {
        let Some(frame) = u64::try_from(frame).ok().filter(|&f| f <= self.media.frames) else { return false };
        let Some(at) = frame.checked_sub(self.head).filter(|&at| at < 2 * self.depth()) else { return false };
        let at = usize::clamped(at);
        if self.held.len() <= at {
            self.held.resize(at + 1, PendingFrame::default());
        }
        let held = &mut self.held[at];
        held.bytes = held.bytes.saturating_add(bytes);
        held.stamps = stamps;
        true
    }

    pub fn judge(&mut self) -> Option<FrameRow> {
        let seq = self.next()?;
        self.head += 1;
        let PendingFrame { bytes, stamps } = self.held.pop_front().unwrap_or_default();
        let verdict = match bytes.cmp(&self.media.frame_size) {
            std::cmp::Ordering::Less => FrameVerdict::Dropped,
            std::cmp::Ordering::Equal => FrameVerdict::Completed,
            std::cmp::Ordering::Greater => FrameVerdict::Repeated,
        };
        let FrameStamps { sender_ticks, sender_hz, receiver_ticks, receiver_hz } = stamps;
        Some(FrameRow { seq, verdict, bytes, sender_ticks, sender_hz, receiver_ticks, receiver_hz })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn media(frames: u64, depth_frames: u64) -> Media {
        Media {
            rate_bps: 8,
            frame_rate: 10,
            frames,
            frame_size: 100,
            depth_frames,
            datagram: 60,
            spread: false,
        }
    }

    #[test]
    fn frames_are_judged_by_their_bytes() {
        let mut ring = Ring::new(media(4, 2));
        let at = |n| FrameStamps { sender_ticks: n, ..FrameStamps::default() };
        assert!(ring.store(1, 60, at(1)) && ring.store(1, 40, at(2)));
        assert!(ring.store(2, 60, at(3)));
        assert!(ring.store(4, 60, at(4)) && ring.store(4, 60, at(5)));
        let verdicts: Vec<_> = std::iter::from_fn(|| ring.judge())
            .map(|r| (r.seq, r.verdict, r.bytes, r.sender_ticks))
            .collect();
        let (whole, dropped, repeated) =
            (FrameVerdict::Completed, FrameVerdict::Dropped, FrameVerdict::Repeated);
        assert_eq!(
            verdicts,
            [(1, whole, 100, 2), (2, dropped, 60, 3), (3, dropped, 0, 0), (4, repeated, 120, 5)]
        );
        assert_eq!(ring.next(), None);
    }

    #[test]
    fn the_window_is_twice_the_depth_and_ends_with_the_stream() {
        let mut ring = Ring::new(media(100, 3));
        let stamps = FrameStamps::default();
        let mut takes = |frame| ring.store(frame, 1, stamps);
        assert_eq!(
            [takes(1), takes(6), takes(7), takes(0), takes(-1), takes(i64::MAX)],
            [true, true, false, false, false, false]
        );
        ring.judge();
        let mut takes = |frame| ring.store(frame, 1, stamps);
        assert_eq!([takes(1), takes(2), takes(7), takes(8)], [false, true, true, false]);
        let mut short = Ring::new(media(2, 50));
        assert_eq!([short.store(2, 1, stamps), short.store(3, 1, stamps)], [true, false]);
    }
}
