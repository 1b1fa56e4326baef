//! Jitter of a media stream's frames, as ctsTraffic computes it, and its client's reading of a
//! sender's stamps.

use crate::number::real;

/// Sending and arrival time of a frame, each by a clock of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameStamps {
    /// The sender's clock when it sent the last of the frame's datagrams that arrived.
    pub sender_ticks: i64,
    /// The sender's ticks in a second.
    pub sender_hz: i64,
    /// The receiver's clock when that datagram arrived.
    pub receiver_ticks: i64,
    /// The receiver's ticks in a second.
    pub receiver_hz: i64,
}

impl FrameStamps {
    /// The stamps behind those in a file of ctsTraffic's client, which misreads a sender's stamps:
    /// it reads both fields two bytes before where they are, so that each is shifted up by 16 bits,
    /// with the top of the number before it below. While both are below 2^47 this multiplies both
    /// by 65,536, up to that top, and their ratio stays as it is; larger ones cannot be had back.
    #[must_use]
    pub fn from_misread(self) -> FrameStamps {
        let back = |ticks: i64| (ticks as u64 >> 16) as i64;
        FrameStamps { sender_ticks: back(self.sender_ticks), sender_hz: back(self.sender_hz), ..self }
    }

    /// True if the sender's columns may be misread: the low 16 bits of the ticks are then the high
    /// ones of the frame's number, and the low bits of the frequency the high ones of the ticks, 0
    /// in every row. Real frequencies (10 MHz, 1 GHz) are no multiples of 65,536; one row's ticks
    /// may be by chance.
    pub fn looks_misread(self) -> bool {
        (self.sender_ticks | self.sender_hz) & 0xffff == 0 && self.sender_hz != 0
    }
}

/// Time in flight and jitter of frames, one after the other.
///
/// The two clocks have nothing to do with each other, so the time in flight is relative to that of
/// the first whole frame, and may be negative; jitter is by how much it differs from that of the
/// whole frame before.
#[derive(Clone, Copy, Debug, Default)]
pub struct FrameJitter {
    /// Sender's and receiver's time of the first whole frame, ms.
    first: Option<(f64, f64)>,
    /// Time in flight of the last whole frame, ms.
    last: f64,
}

impl FrameJitter {
    /// A whole frame: its time in flight and its jitter, ms.
    pub fn see(&mut self, stamps: FrameStamps) -> (f64, f64) {
        let sent = ms(stamps.sender_ticks, stamps.sender_hz);
        let came = ms(stamps.receiver_ticks, stamps.receiver_hz);
        let (first_sent, first_came) = *self.first.get_or_insert((sent, came));
        let flight = (came - first_came) - (sent - first_sent);
        let jitter = (self.last - flight).abs();
        self.last = flight;
        (flight, jitter)
    }
}

/// Ticks as ms; 0 when the frequency is not known.
fn ms(ticks: i64, hz: i64) -> f64 {
    if hz == 0 { 0.0 } else { real(ticks) * 1000.0 / real(hz) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamps(sender_ticks: i64, receiver_ticks: i64) -> FrameStamps {
        FrameStamps { sender_ticks, sender_hz: 10_000_000, receiver_ticks, receiver_hz: 1_000_000 }
    }

    #[test]
    fn time_in_flight_is_relative_to_the_first_frame() {
        // Sent every 100 ms by a clock of 10 MHz; come after 100, 103 and 96 ms more by one of 1
        // MHz.
        let mut jitter = FrameJitter::default();
        assert_eq!(jitter.see(stamps(1_000_000, 500_000)), (0.0, 0.0));
        assert_eq!(jitter.see(stamps(2_000_000, 600_000)), (0.0, 0.0));
        assert_eq!(jitter.see(stamps(3_000_000, 703_000)), (3.0, 3.0));
        assert_eq!(jitter.see(stamps(4_000_000, 799_000)), (-1.0, 4.0));
    }

    /// What ctsTraffic's own client makes of the stamps in the header of this frame.
    fn misread(stamps: FrameStamps, frame: i64) -> FrameStamps {
        let shifted = |upper: i64, lower: i64| ((upper as u64) << 16 | (lower as u64) >> 48) as i64;
        FrameStamps {
            sender_ticks: shifted(stamps.sender_ticks, frame),
            sender_hz: shifted(stamps.sender_hz, stamps.sender_ticks),
            ..stamps
        }
    }

    #[test]
    fn the_original_reads_two_bytes_too_early() {
        // Bytes as they are in a header, read where the original reads them.
        let (frame, ticks, hz) = (3_600_i64, 123_456_789_012_i64, 10_000_000_i64);
        let header = [&[0u8, 0][..], &frame.to_le_bytes(), &ticks.to_le_bytes(), &hz.to_le_bytes()].concat();
        let read = |at: usize| i64::from_le_bytes(*header[at..].first_chunk().unwrap());
        let right = FrameStamps { sender_ticks: read(10), sender_hz: read(18), ..FrameStamps::default() };
        assert_eq!((right.sender_ticks, right.sender_hz), (ticks, hz));
        let wrong = misread(right, frame);
        assert_eq!((wrong.sender_ticks, wrong.sender_hz), (read(8), read(16)));
        assert_eq!((wrong.sender_ticks, wrong.sender_hz), (ticks * 65_536, hz * 65_536));
        assert!(wrong.looks_misread() && !right.looks_misread());
        assert_eq!(wrong.from_misread(), right);
        // Times in flight come out the same, as long as the ticks stay below 2^47.
        let (mut one, mut other) = (FrameJitter::default(), FrameJitter::default());
        for n in 1..100 {
            let stamps = stamps(n * 166_667, n * 16_667 + n % 7 * 100);
            let (a, b) = (one.see(stamps), other.see(misread(stamps, n)));
            assert!((a.0 - b.0).abs() < 1e-6 && (a.1 - b.1).abs() < 1e-6, "{a:?} {b:?}");
        }
        let late = FrameStamps { sender_ticks: 1 << 47, sender_hz: hz, ..FrameStamps::default() };
        assert!(misread(late, 1).sender_ticks < 0, "from 2^47 on it is wrong");
    }
}
