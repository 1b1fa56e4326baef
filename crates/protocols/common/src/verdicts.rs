//! Times at which receivers of media streams judge and report frames, the same in every protocol.

/// Delay of the judgement of a frame behind its time, ns. Datagrams that arrived before that time
/// may still have to be read; their stamps count.
pub const SETTLE: u64 = 2_000_000;
/// Further delay of the judgement when no datagram arrives to be its occasion, ns: hundreds of
/// streams would otherwise wake up for each of their frames. The verdict is the same.
pub const LAZY: u64 = 50_000_000;
/// Frames in one report.
pub const ROWS: usize = 256;
