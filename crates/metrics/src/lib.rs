//! Numbers in, numbers out.
//!
//! Time and unit types, distributions, per-connection and per-group accounting, fairness, means
//! with their confidence. Nothing here reads a clock, opens a socket or prints: every figure is a
//! function of its arguments, so each one is tested against an independent reference.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod binned;
mod card;
mod compare;
mod dist;
mod fairness;
mod frames;
mod ip_fields;
mod jitter;
mod known;
mod number;
mod offset;
mod packet_outcome;
mod packets;
mod pairs;
mod playout;
mod record;
mod runs;
#[cfg(feature = "schema")]
pub mod schema;
mod sequence;
mod spectrum;
mod spelling;
mod stats;
mod student;
mod tcp;
mod tcp_ecn;
mod time;
mod train;
mod two_way;
mod units;
mod variation;

pub use binned::{Binned, Shape};
pub use card::{CardClock, CardStamp, Crossing, LONGEST_IN_CARD, Placement, Unplaced};
pub use compare::{ALPHA, Contrast, Series, holm, least_readings};
pub use dist::{Dist, DistSummary};
pub use fairness::{Moments, SlotRates};
pub use frames::Frames;
pub use ip_fields::{Ecn, IpFields, parse_ecn};
pub use jitter::{FrameJitter, FrameStamps};
pub use known::{add_known, sum_of};
pub use number::{Clamped, Real, bits_per_second, is_zero, per_second, percent_of, real, seconds};
pub use offset::{ClockFound, ClockKind, Estimate, Exchange, MAX_DRIFT, Offset, WANDER};
pub use packet_outcome::{FlowSums, PacketOutcome, ReceivedPacket, SentPacket, Verdict, packet_outcomes};
pub use packets::{Datagrams, PacketTally, Packets};
pub use pairs::{EcnPairs, PairSide, PairWindow, pair_side};
pub use playout::{Playout, PlayoutSummary};
pub use record::{CauseCount, Counts, Ending, Framing, Group, Recorder, Remote, Row, Sample, Tally};
pub use runs::{RunArrival, Runs};
pub use sequence::{Arrivals, Seen, Sequence, widen};
pub use spectrum::Spectrum;
pub use spelling::{distance, nearest};
pub use stats::Spread;
pub use student::two_sided as student_two_sided;
pub use tcp::{SocketState, TcpInfo, TcpTotals, buffer_delay_percent, tcp_efficiency_percent};
pub use tcp_ecn::{EcnBytes, EcnWatch, TcpEcn, TcpEcnInfo};
pub use time::{Clock, Mono, SECOND, Stamp, StampKind, Wall, Window};
pub use train::{
    DelayAt, Departure, Echo, Echoes, Place, Quartiles, TrainPacket, TrainReport, TrainRow, TrainSetting,
    Trouble, TroubleKind, Trough, join, join_echoes,
};
pub use two_way::{TwoWay, WayCounts, WayFacts};
pub use units::{
    dscp_name, format_bits_per_second, format_bytes, format_count, format_duration, format_number,
    format_percent, parse_bytes, parse_dscp, parse_duration, parse_rate,
};
pub use variation::{Jitter, Jitters, Signed, SignedSummary, Variation};
