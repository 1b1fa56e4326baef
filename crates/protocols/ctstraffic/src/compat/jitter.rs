//! The jitter table: one row per frame, as the original computes it.

use metrics::{FrameJitter, FrameStamps};
use model::{FrameRow, FrameVerdict};

/// The header, without its line end.
pub(super) const HEADER: &str = "SequenceNumber,SenderQpc,SenderQpf,ReceiverQpc,ReceiverQpf,\
RelativeInFlightTimeMs,PrevToCurrentInFlightTimeJitter";

/// What the figures of the next frame depend on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Jitter(FrameJitter);

impl Jitter {
    /// The row of a frame; `None` for a repeated one, which the original leaves out.
    pub(super) fn row(&mut self, frame: &FrameRow) -> Option<String> {
        let FrameRow { seq, sender_ticks, sender_hz, receiver_ticks, receiver_hz, .. } = *frame;
        match frame.verdict {
            FrameVerdict::Repeated => None,
            FrameVerdict::Dropped => Some(format!("{seq},0,0,0,0,0.000,0.000")),
            FrameVerdict::Completed => {
                let stamps = FrameStamps { sender_ticks, sender_hz, receiver_ticks, receiver_hz };
                let (flight, jitter) = self.0.see(stamps);
                Some(format!(
                    "{seq},{sender_ticks},{sender_hz},{receiver_ticks},{receiver_hz},{flight:.3},{jitter:.3}"
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames 100 ms apart by the sender's clock (10 MHz); they come 100, 103 and 99 ms apart by the receiver's (1 MHz).
    #[test]
    fn time_in_flight_is_relative_to_the_first_frame() {
        let frame = |seq, sent_ms: i64, came_ms: i64| FrameRow {
            seq,
            verdict: FrameVerdict::Completed,
            bytes: 1000,
            sender_ticks: sent_ms * 10_000,
            sender_hz: 10_000_000,
            receiver_ticks: came_ms * 1000,
            receiver_hz: 1_000_000,
        };
        let dropped = FrameRow { seq: 3, verdict: FrameVerdict::Dropped, ..frame(3, 0, 0) };
        let repeated = FrameRow { seq: 4, verdict: FrameVerdict::Repeated, ..frame(4, 300, 800) };
        let mut jitter = Jitter::default();
        let mut row = |f: FrameRow| jitter.row(&f);
        assert_eq!(row(frame(1, 100, 500)).unwrap(), "1,1000000,10000000,500000,1000000,0.000,0.000");
        assert_eq!(row(frame(2, 200, 603)).unwrap(), "2,2000000,10000000,603000,1000000,3.000,3.000");
        assert_eq!(row(dropped).unwrap(), "3,0,0,0,0,0.000,0.000");
        assert_eq!(row(repeated), None);
        assert_eq!(row(frame(5, 300, 699)).unwrap(), "5,3000000,10000000,699000,1000000,-1.000,4.000");
        assert_eq!(HEADER.split(',').count(), 7);
    }
}
