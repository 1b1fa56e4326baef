//! What receivers of media streams have in common, whatever the protocol: when frames are judged,
//! and told.

/// How long after its time a frame is judged, ns. What came before that time may still have to be
/// read: it is judged by when it came.
pub const SETTLE: u64 = 2_000_000;
/// And so much later, ns, when nothing comes that would be the occasion: hundreds of streams would
/// otherwise wake up for each of their frames. The verdict is the same.
pub const LAZY: u64 = 50_000_000;
/// Frames that are told at once.
pub const ROWS: usize = 256;
