//! From a group's tallies to the intervals in reports.

use metrics::{Ending, Mono, Tally};
use model::{Interval, Kind, PacketReport, Phase, PingInterval, Traffic, omitted_intervals};

/// Keeps the cumulative columns of a group's intervals.
#[derive(Debug)]
pub struct Intervals {
    start: Mono,
    /// Number of omitted intervals at the start.
    omitted: u32,
    frames: bool,
    pings: bool,
    /// True if the bytes of messages are inside the payload.
    within: bool,
    ended: [u64; 5],
}

impl Intervals {
    /// The intervals of a group that starts at `start` and whose first `omit` ns do not count.
    pub fn new(start: Mono, omit: u64, phase: &Phase) -> Self {
        let omitted = omitted_intervals(omit, phase.interval_ns);
        let (frames, pings) = (phase.kind == Kind::Stream, phase.kind == Kind::Ping);
        let within = phase.inside_gap_ns.is_some();
        Intervals { start, omitted, frames, pings, within, ended: [0; 5] }
    }

    /// Counts of the next interval; the session adds the counts of remote ends.
    pub fn next(&mut self, index: u32, from: Mono, to: Mono, tally: &Tally) -> Interval {
        for (sum, n) in self.ended.iter_mut().zip(tally.ended) {
            *sum += n;
        }
        let ended = |how: Ending| self.ended[how as usize];
        Interval {
            index,
            start_ns: from.since(self.start),
            end_ns: to.since(self.start),
            omitted: index < self.omitted,
            local: Traffic::of(tally, from, to),
            remote: None,
            framing: tally.framing,
            in_flight: tally.open,
            completed: ended(Ending::Completed) + ended(Ending::Stopped),
            network_errors: ended(Ending::NetworkError),
            data_errors: ended(Ending::DataError) + ended(Ending::ProtocolError),
            opened: tally.opened,
            retransmits: tally.retransmits,
            frames: self.frames.then_some(tally.frames),
            pings: self.pings.then(|| tally.packets.as_deref().map(PingInterval::of).unwrap_or_default()),
            packets: if self.pings || self.within { None } else { PacketReport::of_interval(tally) },
            remote_packets: None,
            samples: tally.samples.clone(),
            unknown: model::Counts::NONE,
        }
    }
}
