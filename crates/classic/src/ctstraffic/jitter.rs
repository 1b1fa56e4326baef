//! The jitter table: one row per frame, as the original computes it.

use model::{FrameRow, FrameVerdict};

const HEADER: &str = "SequenceNumber,SenderQpc,SenderQpf,ReceiverQpc,ReceiverQpf,RelativeInFlightTimeMs,\
PrevToCurrentInFlightTimeJitter";

/// The header, without its line end.
pub(super) fn header() -> &'static str {
    HEADER
}

/// What the figures of the next frame depend on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Jitter {
    /// Sender's and receiver's time of the first whole frame, ms.
    first: Option<(f64, f64)>,
    /// Time in flight of the last whole frame, relative to the first one's, ms.
    last: f64,
}

impl Jitter {
    /// The row of a frame; `None` for a repeated one, which the original leaves out.
    ///
    /// Time in flight is relative to that of the first whole frame, since the two clocks have nothing to do with each other;
    /// jitter is how much it differs from that of the whole frame before.
    pub(super) fn row(&mut self, frame: &FrameRow) -> Option<String> {
        let seq = frame.seq;
        match frame.verdict {
            FrameVerdict::Repeated => None,
            FrameVerdict::Dropped => Some(format!("{seq},0,0,0,0,0.000,0.000")),
            FrameVerdict::Completed => {
                let sent = ms(frame.sender_ticks, frame.sender_hz);
                let came = ms(frame.receiver_ticks, frame.receiver_hz);
                let (first_sent, first_came) = *self.first.get_or_insert((sent, came));
                let flight = (came - first_came) - (sent - first_sent);
                let jitter = (self.last - flight).abs();
                self.last = flight;
                let FrameRow { sender_ticks, sender_hz, receiver_ticks, receiver_hz, .. } = frame;
                Some(format!(
                    "{seq},{sender_ticks},{sender_hz},{receiver_ticks},{receiver_hz},{flight:.3},{jitter:.3}"
                ))
            }
        }
    }
}

/// Ticks as ms; 0 when the frequency is not known.
fn ms(ticks: i64, hz: i64) -> f64 {
    if hz == 0 { 0.0 } else { ticks as f64 * 1000.0 / hz as f64 }
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
        assert_eq!(header().split(',').count(), 7);
    }
}
