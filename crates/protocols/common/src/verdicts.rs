//! What receivers of media streams of all protocols share: when frames are judged, and how verdicts are reported.

use model::FrameRow;
use uuid::Uuid;

/// How long after its time a frame is judged, ns. What came before that time may still have to be read: it is judged by when
/// it came.
pub const SETTLE: u64 = 2_000_000;
/// And so much later, ns, when nothing comes that would be the occasion: hundreds of streams would otherwise wake up for each
/// of their frames. The verdict is the same.
pub const LAZY: u64 = 50_000_000;
/// Frames that are told at once.
pub const ROWS: usize = 256;

/// Posted with the frames of a stream that were judged since the last such note.
#[derive(Debug)]
pub struct FrameVerdicts {
    /// The stream.
    pub id: Uuid,
    /// Its frames, in order.
    pub rows: Vec<FrameRow>,
}
