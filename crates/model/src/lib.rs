//! Requests of runs and their results.
//!
//! A [`Phase`] is a set of orthogonal values (pattern, connections, size, rate, stop, …); a
//! [`Method`] yields phases; a run is a sequence of [`Event`]s; a [`Builder`] makes an [`Outcome`]
//! of them, live or from a file alike; [`Caveat`]s limit the trust in the outcome.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod abilities;
mod address;
mod aggregator;
mod assertion;
mod builder;
mod capacity;
mod caveat;
pub mod churn;
mod clean;
mod confidence;
mod cost;
pub mod document;
pub mod ending;
mod event;
mod extra;
mod figures;
mod finding;
mod flows;
mod frames;
mod host;
mod kept;
mod knee;
mod known;
pub mod load;
mod marking;
mod media;
mod method;
mod mtu;
mod outcome;
mod pace;
mod packets;
mod phase;
mod ping;
mod probe;
mod quantity;
mod rate;
mod search;
mod served;
mod sockets;
mod thin;
mod trace;
mod train;

pub use abilities::{
    Abilities, Connecting, Descriptors, FirewallPolicy, Permission, TrackedConnections, UdpAbility,
};
pub use address::{Address, at_port, is_link_local, scope_of, with_scope};
pub use aggregator::{Aggregator, Complete};
pub use assertion::Assertion;
pub use builder::Builder;
pub use capacity::{Algorithm, Capacity, CapacitySettings, DelayVariation, SearchSettings, SubInterval};
pub use caveat::{
    Caveat, CaveatLevel, LONGEST_SHORT, Meanwhile, caveat_levels, caveats_about, caveats_so_far,
};
pub use clean::{clean, clean_json, clean_lines};
pub use confidence::{LEAST_REPEATS, MOST_REPEATS, Until};
pub use cost::Cost;
pub use event::{
    Accepted, Begin, Change, ConnectionRecord, Event, Failure, FrameRow, FrameVerdict, Interval, Level,
    OwnTraffic, Portion, SchemaName, ServerLimits, SessionInfo, Totals, sampled_rtt_ns,
};
pub use extra::{Curve, Extra, Reading, Shown};
pub use figures::SERVED;
pub use finding::Finding;
pub use flows::{FlowRow, FlowWay, MOST_SAMPLES, PacketRow, mark_flows};
pub use frames::{FrameTime, FrameTimes};
pub use host::{CgroupLimits, CpuUse, HostCounters, HostSnapshot, NicSnapshot};
pub use kept::{KeptFigure, KeptRun};
pub use knee::Slot;
pub use known::{Count, Counts, CountsByWay, EndCounts, Role, reject_impossible};
pub use marking::{Marking, classes};
pub use media::{LARGEST_DATAGRAM, Media, SMALLEST_DATAGRAM};
pub use method::{Axis, AxisName, Method, Step};
pub use metrics::{CauseCount, Sample};
pub use mtu::{MtuFound, PathMtu};
pub use outcome::{Direction, Outcome, Point, SCHEMA, Status, SweepRow};
pub use pace::{Delays, Pace, Quanta};
pub use packets::{DelayRange, PacketReport};
pub use phase::{Burst, Kind, MAX_BUFFER, MAX_CONNECTIONS, Pattern, Payload, Phase, Range, Shutdown, Verify};
pub use ping::{
    Baseline, Echo, MOST_PIECES, PERCENTILES, Ping, PingCounts, PingInterval, PingRow, RoundTrips, Schedule,
    StampSettings, Transport, Ways, is_reliable, is_shown,
};
pub use probe::{Probe, SMALLEST_PROBE, Spacing, Waiting};
pub use quantity::{End, Figure, Measure, RunPart, Stat, Unit, Way};
pub use rate::{Traffic, omitted_intervals};
pub use search::{Highest, Search};
pub use served::{LinkRow, Links, Served, Standing};
pub use sockets::{Effective, SocketSettings};
pub use trace::Trace;
pub use train::{MOST_TRAIN_PACKETS, Train, Trains};
