//! A media stream: frames of one size at a fixed rate, as ctsTraffic's UDP test sends them.

use metrics::{Clamped, SECOND};
use serde::{Deserialize, Serialize};

/// Smallest frame, bytes: a header and some payload, as in ctsTraffic.
const SMALLEST_FRAME: u64 = 40;
/// Smallest datagram a stream may ask for, bytes: the identifier of a ctsTraffic stream must fit.
pub const SMALLEST_DATAGRAM: u32 = 39;
/// Largest datagram, bytes: what UDP over IPv4 carries.
pub const LARGEST_DATAGRAM: u32 = 65_507;
/// Most frames a receiver waits for at once.
const MOST_DEPTH: u64 = 1_000_000;

/// The streamed media. Sizes count whole datagrams, protocol headers of the measurement included,
/// IP and UDP excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Media {
    /// Rate asked for, bits/s.
    pub rate_bps: u64,
    /// Frames per second.
    pub frame_rate: u32,
    /// Frames in the stream.
    pub frames: u64,
    /// Bytes of a frame, in all its datagrams together.
    pub frame_size: u64,
    /// Frames that the receiver holds before it shows the first: the buffer depth.
    pub depth_frames: u64,
    /// Most bytes in one datagram.
    pub datagram: u32,
    /// The datagrams of a frame leave evenly over its time, instead of back to back.
    pub spread: bool,
}

impl Media {
    /// A stream of `length_s` seconds whose receiver holds `depth_s` seconds, as ctsTraffic derives
    /// it: the rate is rounded down to whole bytes and the total to whole frames.
    ///
    /// # Errors
    /// One sentence naming the value that cannot be.
    pub fn new(
        rate_bps: u64,
        frame_rate: u32,
        length_s: u64,
        depth_s: u64,
        datagram: u32,
    ) -> Result<Media, String> {
        let too_many = || "the stream is too long: length times frame rate must stay below 2^32".to_owned();
        let frames =
            length_s.checked_mul(u64::from(frame_rate)).filter(|&n| n < 1 << 32).ok_or_else(too_many)?;
        let total = u128::from(rate_bps / 8) * u128::from(length_s);
        let frame_size = u64::try_from(total / u128::from(frames.max(1))).unwrap_or(u64::MAX);
        let depth_frames = depth_s.saturating_mul(u64::from(frame_rate));
        let media = Media { rate_bps, frame_rate, frames, frame_size, depth_frames, datagram, spread: false };
        media.check().map(|()| media)
    }

    /// Checks every value; both ends do.
    ///
    /// # Errors
    /// One sentence naming the first value that cannot be, and what would be accepted.
    pub fn check(&self) -> Result<(), String> {
        let must = |ok: bool, what: &str| if ok { Ok(()) } else { Err(what.to_owned()) };
        must(self.rate_bps >= 8, "the rate of a stream must be at least 8 bit/s")?;
        must(self.frame_rate >= 1, "a stream needs at least 1 frame per second")?;
        let frames = (1..1 << 32).contains(&self.frames);
        must(frames, "a stream must have 1 to 2^32-1 frames (length times frame rate)")?;
        let size = self.frame_size;
        let sizes = format!(
            "a frame would have {size} bytes, and must have {SMALLEST_FRAME} to 2^32-1: change the rate or the frame rate"
        );
        must((SMALLEST_FRAME..1 << 32).contains(&size), &sizes)?;
        must((1..=MOST_DEPTH).contains(&self.depth_frames), "the buffer depth must be 1 to 1000000 frames")?;
        let sizes =
            format!("a datagram of a stream must have {SMALLEST_DATAGRAM} to {LARGEST_DATAGRAM} bytes");
        must((SMALLEST_DATAGRAM..=LARGEST_DATAGRAM).contains(&self.datagram), &sizes)
    }

    /// Bytes of all frames.
    pub fn total(&self) -> u64 {
        self.frames.saturating_mul(self.frame_size)
    }

    /// The receive buffer that a receiver should ask for, bytes: a frame arrives as a burst, and
    /// several of them have to fit when the receiver is held up. 1 MiB, as ctsTraffic's clients
    /// have, unless frames are large.
    pub fn receive_buffer(&self) -> u64 {
        self.frame_size.saturating_mul(4).clamp(1 << 20, 64 << 20)
    }

    /// When frame `n`, from 0, is due, ns after the first. Halves, thirds and so on of a nanosecond
    /// do not add up.
    pub fn due_ns(&self, n: u64) -> u64 {
        let rate = u64::from(self.frame_rate.max(1));
        // Streams ask for this all the time, and wide divisions are slow.
        if let Some(ns) = n.checked_mul(SECOND) {
            return ns / rate;
        }
        u64::try_from(u128::from(n) * u128::from(SECOND) / u128::from(rate)).unwrap_or(u64::MAX)
    }

    /// Offset of stream `slot` from the common start, ns; less than the time of a frame. Streams
    /// that began together would send all their frames at the same instants, which no set of real
    /// streams does. Any number of streams is spread evenly: successive slots are a golden section
    /// of the frame's time apart.
    pub fn phase_ns(&self, slot: u32) -> u64 {
        // 2^32 divided by the golden ratio.
        let part = slot.wrapping_mul(0x9e37_79b9);
        u64::clamped((u128::from(self.due_ns(1)) * u128::from(part)) >> 32)
    }

    /// Length of the stream, ns.
    pub fn length_ns(&self) -> u64 {
        self.due_ns(self.frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_of_the_practical_guide() {
        // ctsTraffic's guide: 25 Mbit/s, 60 frames a second, 60 s: 3600 frames, 187,498,800 bytes.
        let media = Media::new(25_000_000, 60, 60, 1, 1400).unwrap();
        assert_eq!((media.frames, media.frame_size, media.total()), (3600, 52_083, 187_498_800));
        assert_eq!((media.depth_frames, media.length_ns()), (60, 60_000_000_000));
    }

    #[test]
    fn due_times_stay_exact_for_all_frames_there_can_be() {
        let media = Media { frame_rate: 7, ..Media::new(25_000_000, 60, 60, 1, 1400).unwrap() };
        for n in [0, 1, 6, 7, 1 << 32, u64::MAX / SECOND, u64::MAX / SECOND + 1, 1 << 40] {
            let exact = u128::from(n) * 1_000_000_000 / 7;
            assert_eq!(u128::from(media.due_ns(n)), exact.min(u64::MAX.into()), "frame {n}");
        }
    }

    #[test]
    fn streams_of_a_run_are_spread_over_the_time_of_a_frame() {
        let media = Media::new(25_000_000, 60, 60, 1, 1400).unwrap();
        let frame = media.due_ns(1);
        assert_eq!(media.phase_ns(0), 0);
        for n in [2, 10, 100, 1_000, 10_000] {
            let mut phases: Vec<u64> = (0..n).map(|slot| media.phase_ns(slot)).collect();
            phases.sort_unstable();
            assert!(phases.iter().all(|&phase| phase < frame));
            // Points of a golden section sequence: no gap is larger than twice the mean
            // (Swierczkowski 1958: three lengths at most, the largest the sum of the other two).
            let widest = phases.windows(2).map(|w| w[1] - w[0]).max().unwrap_or(0);
            assert!(widest <= 2 * frame / u64::from(n), "{n}: {widest}");
        }
    }

    #[test]
    fn what_cannot_be_is_named() {
        let says = |made: Result<Media, String>, what: &str| {
            let error = made.unwrap_err();
            assert!(error.contains(what), "{error}");
        };
        says(Media::new(7, 60, 60, 1, 1400), "at least 8 bit/s");
        says(Media::new(25_000_000, 0, 60, 1, 1400), "at least 1 frame");
        says(Media::new(25_000_000, 60, 0, 1, 1400), "1 to 2^32-1 frames");
        says(Media::new(25_000_000, 1 << 31, 2, 1, 1400), "too long");
        says(Media::new(8 * 39 * 60, 60, 1, 1, 1400), "would have 39 bytes");
        assert!(Media::new(8 * 40 * 60, 60, 1, 1, 1400).is_ok());
        says(Media::new(25_000_000, 60, 60, 0, 1400), "buffer depth");
        says(Media::new(25_000_000, 60, 60, 1, 38), "39 to 65507");
    }
}
