//! Regularity of a media stream's frames: the kept part of ctsTraffic's jitter table.

use crate::thin::join_pairs;
use crate::{FrameRow, FrameVerdict};
use metrics::{Clamped, FrameJitter, FrameStamps, real};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Rows kept. When there are more, each two neighbours become one.
const MOST: usize = 4_096;

/// Whole frames of one stream, the first of the phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct FrameTimes {
    /// Number of whole frames.
    pub frames: u64,
    /// The rows in order: one per frame or, of long streams, per 2, 4, 8 … frames that followed
    /// each other.
    pub rows: Vec<FrameTime>,
}

/// A frame, or some that followed each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct FrameTime {
    /// Number of frames in the row.
    pub frames: u64,
    /// Arrival of the last of them, ns since the first frame, by the receiver's clock.
    pub at_ns: i64,
    /// The longest time in flight among them, ns more than that of the first frame: between two
    /// clocks no more can be said.
    pub flight_ns: i64,
    /// By how much times in flight differed from frame to frame, ns, in the mean.
    pub jitter_ns: f64,
    /// By how much times in flight differed from frame to frame at most, ns.
    pub most_ns: f64,
}

impl FrameTime {
    /// Adds later frames.
    fn join(&mut self, later: &FrameTime) {
        let (ours, theirs) = (real(self.frames), real(later.frames));
        self.jitter_ns = (self.jitter_ns * ours + later.jitter_ns * theirs) / (ours + theirs).max(1.0);
        self.most_ns = self.most_ns.max(later.most_ns);
        self.frames += later.frames;
        self.at_ns = later.at_ns;
        self.flight_ns = self.flight_ns.max(later.flight_ns);
    }
}

/// Makes them of frames as they are judged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FrameWatch {
    /// The stream's connection.
    id: Option<Uuid>,
    jitter: FrameJitter,
    /// Arrival of the first whole frame, s of the receiver's clock.
    first: Option<f64>,
    /// Frames that a row is made of now, as a power of two.
    level: u32,
}

impl FrameWatch {
    /// Takes in frames of the stream `id`.
    pub(crate) fn see(&mut self, id: Uuid, rows: &[FrameRow], times: &mut Option<Box<FrameTimes>>) {
        if *self.id.get_or_insert(id) != id {
            return;
        }
        let whole = rows.iter().filter(|row| row.verdict == FrameVerdict::Completed && row.receiver_hz > 0);
        for row in whole {
            let FrameRow { sender_ticks, sender_hz, receiver_ticks, receiver_hz, .. } = *row;
            let (flight, jitter) =
                self.jitter.see(FrameStamps { sender_ticks, sender_hz, receiver_ticks, receiver_hz });
            let came = real(receiver_ticks) / real(receiver_hz);
            let since = came - *self.first.get_or_insert(came);
            let one = FrameTime {
                frames: 1,
                at_ns: i64::clamped((since * 1e9).round()),
                flight_ns: i64::clamped((flight * 1e6).round()),
                jitter_ns: jitter * 1e6,
                most_ns: jitter * 1e6,
            };
            self.add(one, times.get_or_insert_default());
        }
    }

    fn add(&mut self, one: FrameTime, times: &mut FrameTimes) {
        times.frames += 1;
        match times.rows.last_mut() {
            Some(last) if last.frames < 1 << self.level => return last.join(&one),
            _ => times.rows.push(one),
        }
        if times.rows.len() > MOST {
            self.level += 1;
            join_pairs(&mut times.rows, FrameTime::join);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(seq: u64, sent_us: i64, came_us: i64) -> FrameRow {
        FrameRow {
            seq,
            verdict: FrameVerdict::Completed,
            bytes: 1,
            sender_ticks: sent_us,
            sender_hz: 1_000_000,
            receiver_ticks: came_us,
            receiver_hz: 1_000_000,
        }
    }

    #[test]
    fn whole_frames_of_the_first_stream_are_told() {
        let (mut watch, mut times) = (FrameWatch::default(), None);
        let id = Uuid::from_u128(1);
        // Sent every 100 ms; come 100, 103 and 96 ms after each other.
        let dropped = FrameRow { verdict: FrameVerdict::Dropped, ..frame(9, 0, 0) };
        watch.see(id, &[frame(1, 0, 5_000_000), dropped, frame(2, 100_000, 5_100_000)], &mut times);
        watch.see(Uuid::from_u128(2), &[frame(1, 0, 7)], &mut times);
        watch.see(id, &[frame(3, 200_000, 5_203_000), frame(4, 300_000, 5_299_000)], &mut times);
        let times = *times.unwrap();
        let rows: Vec<_> =
            times.rows.iter().map(|r| (r.at_ns, r.flight_ns, r.jitter_ns.round() as i64)).collect();
        let ms = 1_000_000;
        assert_eq!(rows, [(0, 0, 0), (100 * ms, 0, 0), (203 * ms, 3 * ms, 3 * ms), (299 * ms, -ms, 4 * ms)]);
        assert_eq!(times.frames, 4);
    }

    #[test]
    fn a_long_stream_stays_small_and_keeps_its_worst() {
        let (mut watch, mut times) = (FrameWatch::default(), None);
        for n in 0..100_000 {
            let late = if n == 70_001 { 50_000 } else { 0 };
            watch.see(Uuid::nil(), &[frame(n as u64, n * 1000, n * 1000 + late)], &mut times);
        }
        let times = times.unwrap();
        assert!(times.rows.len() <= MOST && times.rows.len() > MOST / 2, "{}", times.rows.len());
        assert_eq!(times.rows.iter().map(|row| row.frames).sum::<u64>(), 100_000);
        let worst = times.rows.iter().map(|row| row.most_ns).fold(0.0, f64::max);
        assert!((worst - 50e6).abs() < 1.0, "{worst}");
        assert_eq!(times.rows.iter().map(|row| row.flight_ns).max(), Some(50_000_000), "so late it came");
        let mean = times.rows.iter().map(|row| row.jitter_ns * row.frames as f64).sum::<f64>();
        // It came late, and the next one came in time again.
        assert!((mean - 100e6).abs() < 10.0, "{mean}");
    }
}
