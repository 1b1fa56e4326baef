//! Counts of a receiver of UDPmon's packets.

use super::codec::Setup;
use crate::{PacketTestCounts, PacketTestLost, PacketTestRecord};
use metrics::{Binned, Mono, Seen, Sequence};

/// Bins of the histograms of times.
const BINS: usize = 150;
/// Bins of the histograms of lengths.
const SHORT: usize = 10;
/// Packets within which repeats are distinguished from late ones.
const WINDOW: usize = 1 << 14;
/// Titles of the histograms, by number.
pub(super) const TITLES: [&str; 5] = [
    "Time between frames 0.1us",
    "Lost-frame sequence",
    "Out-of-order",
    "hwsystem Time between frames ns",
    "hwraw Time between frames ns",
];

/// A tenth of a microsecond, ns.
pub(super) const TENTH: u64 = 100;

#[derive(Clone, Debug)]
pub(super) struct PacketStats {
    pub(super) zero: Mono,
    pub(super) setup: Setup,
    room: usize,
    first: Option<Mono>,
    last: Mono,
    /// Packets that arrived, repeats included, and their bytes.
    pub(super) received: u64,
    pub(super) bytes: u64,
    sequence: Sequence,
    bad_order: u64,
    /// Gaps, lost in a row, distance back, times between kernel's stamps and between the card's.
    pub(super) hists: [Binned; 5],
    /// All records of packets, with zeros for missing packets.
    pub(super) records: Vec<PacketTestRecord>,
    /// All records of lost packets, including packets that arrived later.
    pub(super) lost: Vec<PacketTestLost>,
    /// The last packet in order: its arrival, its departure, its number; and its stamp.
    newest: (i64, i64, i64),
    stamp_ns: i64,
    raw_ns: i64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) frame: i64,
    pub(super) sent: i64,
    pub(super) bytes: usize,
    pub(super) at: Mono,
    /// Wall time of the kernel's stamp, ns; 0 without.
    pub(super) stamp_ns: i64,
    /// The card's stamp by its own clock, ns; 0 without.
    pub(super) raw_ns: i64,
}

impl PacketStats {
    /// An empty stats with at most `room` of the records that `setup` asks for.
    pub(super) fn new(setup: Setup, zero: Mono, room: usize) -> Self {
        let (low, width) = (i64::from(setup.low), i64::from(setup.bin_width).max(1));
        let times = Binned::new(low, width, BINS);
        // The original's factor: bins of 0.1 µs become bins of 250 ns.
        let stamps = Binned::new(low.saturating_mul(250), width.saturating_mul(250), BINS);
        let lengths = Binned::new(0, 1, SHORT);
        PacketStats {
            zero,
            setup,
            room: room.min(wanted(&setup)),
            first: None,
            last: zero,
            received: 0,
            bytes: 0,
            sequence: Sequence::new(WINDOW),
            bad_order: 0,
            hists: [times, lengths.clone(), lengths, stamps.clone(), stamps],
            records: Vec::new(),
            lost: Vec::new(),
            newest: (0, 0, -1),
            stamp_ns: 0,
            raw_ns: 0,
        }
    }

    pub(super) fn packet(&mut self, packet: &Packet) {
        let Packet { frame, sent, bytes, at, stamp_ns, raw_ns } = *packet;
        // The first packet has no gap before it; the original takes the time since the test before
        // for one.
        if self.first.is_none() {
            self.first = Some(at);
        } else {
            self.hists[0].fill(tenths(at.since(self.last)));
            if self.stamp_ns != 0 && stamp_ns != 0 && self.setup.stamps != 0 {
                self.hists[3].fill(stamp_ns.saturating_sub(self.stamp_ns));
            }
            if self.raw_ns != 0 && raw_ns != 0 && self.setup.stamps != 0 {
                self.hists[4].fill(raw_ns.saturating_sub(self.raw_ns));
            }
        }
        // The kernel may report two stamps out of order.
        self.last = self.last.max(at);
        (self.stamp_ns, self.raw_ns) = (stamp_ns, raw_ns);
        self.received += 1;
        self.bytes += bytes as u64;
        let came = tenths(at.since(self.zero));
        let back = self.newest.2.saturating_sub(frame);
        // No packet is numbered below 0: such a number is behind every other.
        match u64::try_from(frame).map_or(Seen::Ancient, |number| self.sequence.see(number)) {
            Seen::New { gap } => {
                if gap > 0 {
                    self.hists[1].fill(i64::try_from(gap).unwrap_or(i64::MAX));
                    self.missing(gap);
                }
                self.newest = (came, sent, frame);
                self.record(packet, came);
            }
            Seen::Reordered { .. } => {
                self.bad_order += 1;
                self.hists[2].fill(back);
                self.record(packet, came);
            }
            Seen::Duplicate | Seen::Ancient => {
                self.bad_order += 1;
                self.hists[2].fill(back);
            }
        }
    }

    /// Keeps a packet's record at its own place: losses leave zeros, and late or repeated packets
    /// move nothing.
    fn record(&mut self, packet: &Packet, received: i64) {
        if self.setup.log_lost == 1 {
            return;
        }
        let place = usize::try_from(packet.frame.saturating_sub(self.setup.skip.into()));
        let Ok(place) = place.map_err(drop).and_then(|n| if n < self.room { Ok(n) } else { Err(()) }) else {
            return;
        };
        if self.records.len() <= place {
            self.records.resize(place + 1, PacketTestRecord::default());
        }
        let (system_ns, raw_ns) =
            if self.setup.stamps != 0 { (packet.stamp_ns, packet.raw_ns) } else { (0, 0) };
        if self.records[place] == PacketTestRecord::default() {
            self.records[place] = PacketTestRecord { received, sent: packet.sent, system_ns, raw_ns };
        }
    }

    /// Keeps records of the `gap` packets behind the newest, which are missing now.
    fn missing(&mut self, gap: u64) {
        if self.setup.log_lost != 1 {
            return;
        }
        let (received, sent, newest) = self.newest;
        let skip = i64::from(self.setup.skip);
        let first = newest.saturating_add(1).max(skip);
        let behind = newest.saturating_add(i64::try_from(gap).unwrap_or(i64::MAX));
        let room = (self.room - self.lost.len().min(self.room)) as i64;
        let last = behind.min(first.saturating_add(room - 1));
        self.lost.extend((first..=last).map(|number| PacketTestLost { received, sent, number }));
    }

    /// Histogram `number`.
    pub(super) fn histogram(&self, number: i32) -> Option<(&Binned, &'static str)> {
        let number = usize::try_from(number).ok()?;
        Some((self.hists.get(number)?, TITLES[number]))
    }

    pub(super) fn counts(&self) -> PacketTestCounts {
        let span = self.first.map_or(0, |first| tenths(self.last.since(first)));
        let lost = self.sequence.missing();
        PacketTestCounts { received: self.received, lost, bad_order: self.bad_order, bytes: self.bytes, span }
    }
}

/// Records that a test asks for.
pub(super) fn wanted(setup: &Setup) -> usize {
    let one = if setup.log_lost == 1 { super::blocks::LOST } else { super::blocks::RECORD };
    usize::try_from(setup.record_bytes).unwrap_or(0) / one
}

/// Nanoseconds in tenths of a microsecond.
pub(super) fn tenths(ns: u64) -> i64 {
    (ns / TENTH) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(setup: Setup, frames: &[i64]) -> PacketStats {
        let mut stats = PacketStats::new(setup, Mono(1_000), 100);
        for (n, &frame) in frames.iter().enumerate() {
            // One packet each 10 µs, the first 5 µs after zero.
            let at = Mono(6_000 + 10_000 * n as u64);
            let sent = frame.wrapping_mul(100);
            stats.packet(&Packet { frame, sent, bytes: 100, at, stamp_ns: 0, raw_ns: 0 });
        }
        stats
    }

    #[test]
    fn five_packets_ten_microseconds_apart_span_forty() {
        let stats = fed(Setup { bin_width: 5, ..Setup::default() }, &[0, 1, 2, 3, 4]);
        let counts = stats.counts();
        assert_eq!(
            (counts.received, counts.lost, counts.bad_order, counts.bytes, counts.span),
            (5, 0, 0, 500, 400)
        );
        let (gaps, title) = stats.histogram(0).unwrap();
        assert_eq!((gaps.count(), gaps.mean(), gaps.bins[20], gaps.over, title), (4, 100.0, 4, 0, TITLES[0]));
    }

    #[test]
    fn late_and_repeated_packets_are_out_of_order_and_only_missing_ones_lost() {
        // 2 and 6 never come, 4 comes late, 5 twice.
        let stats = fed(Setup::default(), &[0, 1, 3, 5, 4, 5, 7]);
        let counts = stats.counts();
        assert_eq!((counts.received, counts.lost, counts.bad_order), (7, 2, 2));
        let lengths = stats.histogram(1).unwrap().0;
        assert_eq!(lengths.bins[..3], [0, 3, 0], "2, 4 and 6 were missed when they were passed over");
        let back = stats.histogram(2).unwrap().0;
        assert_eq!(back.bins[..3], [1, 1, 0], "5 again, and 4 one behind the newest");
    }

    #[test]
    fn a_negative_number_is_out_of_order_and_no_new_packet() {
        // udpmon_resp: the last number is -1 at first; a step of 0 or less is out of order, at that
        // distance, and moves nothing.
        let stats = fed(Setup::default(), &[-1, 0, -3, 1]);
        let counts = stats.counts();
        assert_eq!((counts.received, counts.lost, counts.bad_order), (4, 0, 2));
        assert_eq!(stats.histogram(2).unwrap().0.bins[..4], [1, 0, 0, 1]);
        assert_eq!(stats.histogram(1).unwrap().0.count(), 0);
    }

    #[test]
    fn records_stand_at_their_packets_places() {
        let setup = Setup { record_bytes: 32 * 4, skip: 1, ..Setup::default() };
        let stats = fed(setup, &[0, 1, 4, 3, 4, 9]);
        let told: Vec<_> = stats.records.iter().map(|row| (row.received, row.sent)).collect();
        // Packet 1 came 15 µs after zero, 4 at 25, 3 at 35; 2 did not come, 9 has no record.
        assert_eq!(told, [(150, 100), (0, 0), (350, 300), (250, 400)]);
    }

    #[test]
    fn stamps_are_told_only_to_whoever_asked_for_them() {
        let test = |stamps| {
            let setup = Setup { record_bytes: 32 * 3, bin_width: 1, stamps, ..Setup::default() };
            let mut stats = PacketStats::new(setup, Mono(1_000), 100);
            // The card did not stamp the second one; its clock shows another time than the
            // kernel's.
            for (frame, raw_ns) in [(0, 7_000), (1, 0), (2, 8_300), (3, 8_800)] {
                let (at, stamp_ns) = (Mono(2_000 + 600 * frame as u64), 1_000_000 + 600 * frame);
                stats.packet(&Packet { frame, sent: 0, bytes: 100, at, stamp_ns, raw_ns });
            }
            let counts = [3, 4].map(|n| stats.histogram(n).unwrap().0.count());
            let rows: Vec<_> = stats.records.iter().map(|row| (row.system_ns, row.raw_ns)).collect();
            (counts, rows)
        };
        assert_eq!(test(0), ([0, 0], vec![(0, 0); 3]));
        assert_eq!(test(1), ([3, 1], vec![(1_000_000, 7_000), (1_000_600, 0), (1_001_200, 8_300)]));
    }

    #[test]
    fn each_lost_packet_has_a_record_up_to_the_room() {
        let setup = Setup { record_bytes: 24 * 3, log_lost: 1, skip: 2, ..Setup::default() };
        let stats = fed(setup, &[0, 4, 9]);
        let told: Vec<_> = stats.lost.iter().map(|row| (row.received, row.sent, row.number)).collect();
        assert_eq!(told, [(50, 0, 2), (50, 0, 3), (150, 400, 5)]);
    }

    #[test]
    fn absurd_numbers_do_no_harm() {
        let setup = Setup {
            record_bytes: i32::MAX,
            log_lost: 1,
            skip: i32::MIN,
            low: i32::MIN,
            bin_width: 0,
            ..Setup::default()
        };
        let stats = fed(setup, &[i64::MAX - 1, i64::MIN, -1, i64::MAX, 0, 5]);
        assert_eq!((stats.lost.len(), stats.counts().received), (100, 6));
        let setup = Setup { record_bytes: i32::MAX, skip: i32::MIN, ..Setup::default() };
        assert!(fed(setup, &[i64::MAX, 0, i64::MIN, 1 << 40]).records.len() <= 100);
    }
}
