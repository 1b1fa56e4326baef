//! The correct figures: slots of exactly a tenth of a second, the losses in each, and the delays of
//! the rest.
//!
//! - A slot is a tenth of a second of the receiver's clock from the first datagram on. Datagrams
//!   count in the slot of their arrival, so the rate is right even when a line is printed late.
//! - A slot is printed a little after its end: reordered datagrams may still arrive until then, and
//!   are not lost.
//! - Each sender has its own numbers, and repeats are recognised.
//! - Without synchronised clocks, a latency is the delay beyond that of the fastest datagram so far
//!   of its sender.

use super::args::{SLOT, Spec};
use super::table::{Histogram, Rate, SlotLine, print_rates, slot_of};
use crate::DatagramRow;
use crate::codec::is_wall;
use crate::receive::{MOST_SENDERS, SILENT};
use ::compat::{Printed, Text};
use metrics::{Clamped, Runs, SECOND, Seen, percent_of};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

/// Time after its end that a slot waits for overtaken datagrams, ns.
const HOLD: u64 = SECOND / 20;
/// Numbers remembered one by one for each sender.
const WINDOW: usize = 1 << 16;
/// Slots that may be open at once: rows are reported some 20 ms after their arrival.
const OPEN: usize = 4;
/// Runs of missing numbers that are remembered in one slot; further ones are lost for good.
const GAPS: usize = 100_000;
struct SlotSender {
    runs: Runs,
    /// Which run of all this is.
    number: u32,
    /// Smallest difference so far between our time and a stamp of a clock of which nothing is
    /// known, µs.
    fastest: Option<i64>,
    /// Its latest datagram, ns of the receiver's clock.
    heard: u64,
}

/// Delays of datagrams, µs.
#[derive(Default)]
struct Delays {
    packets: u64,
    sum: i128,
    min: Option<i64>,
    max: Option<i64>,
}

impl Delays {
    fn add(&mut self, more: &Delays) {
        self.packets += more.packets;
        self.sum += more.sum;
        self.min = self.min.into_iter().chain(more.min).min();
        self.max = self.max.max(more.max);
    }

    fn mean(&self) -> i64 {
        i64::clamped(self.sum / i128::from(self.packets.max(1)))
    }
}

/// A tenth of a second.
#[derive(Default)]
struct TenthOfSecond {
    index: u64,
    bytes: u64,
    /// Missing numbers that were noticed in it: first by sender, and one after the last.
    gaps: BTreeMap<(u32, u64), u64>,
    more: u64,
    delays: Delays,
}

impl TenthOfSecond {
    fn lost(&self) -> u64 {
        let gaps = self.gaps.iter().map(|(&(_, first), &end)| end - first);
        gaps.fold(self.more, u64::saturating_add)
    }

    /// A missing number has arrived. True if it was counted missing in this slot.
    fn fill(&mut self, sender: u32, number: u64) -> bool {
        let Some((&(owner, first), &end)) = self.gaps.range(..=(sender, number)).next_back() else {
            return false;
        };
        if owner != sender || number >= end {
            return false;
        }
        self.gaps.remove(&(sender, first));
        if first < number {
            self.gaps.insert((sender, first), number);
        }
        if number + 1 < end {
            self.gaps.insert((sender, number + 1), end);
        }
        true
    }
}

/// Sums over a rate's slots.
#[derive(Default)]
struct Sums {
    lost: u64,
    delays: Delays,
    slots: u64,
}

/// Counts over all datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) packets: u64,
    pub(super) lost: u64,
    pub(super) repeated: u64,
    pub(super) overtaken: u64,
    /// Number of the lost ones that arrived after their line was printed.
    pub(super) late: u64,
}

/// Slots, and the sums of each rate.
#[derive(Default)]
pub(super) struct Slots {
    spec: Spec,
    senders: BTreeMap<SocketAddr, SlotSender>,
    /// Runs of all senders so far, each of which has numbers of its own.
    runs: u32,
    /// When the first slot began, ns of the receiver's clock.
    start: Option<u64>,
    open: VecDeque<TenthOfSecond>,
    rates: BTreeMap<usize, Sums>,
    histogram: Histogram,
    pub(super) sum: Sum,
}

impl Slots {
    pub(super) fn new(spec: &Spec) -> Self {
        Slots { spec: spec.clone(), ..Slots::default() }
    }

    /// Takes a datagram in, and prints the slots that are over.
    pub(super) fn take(&mut self, row: &DatagramRow, printed: &mut Printed) {
        self.pass(row.at_ns, &mut printed.out);
        let start = *self.start.get_or_insert(row.at_ns);
        self.open_for(row.at_ns.saturating_sub(start) / SLOT);
        if self.senders.len() >= MOST_SENDERS && !self.senders.contains_key(&row.peer) {
            self.senders.retain(|_, sender| row.at_ns.saturating_sub(sender.heard) < SILENT);
        }
        let runs = &mut self.runs;
        let sender = self.senders.entry(row.peer).or_insert_with(|| {
            *runs += 1;
            SlotSender { runs: Runs::new(WINDOW), number: *runs, fastest: None, heard: row.at_ns }
        });
        sender.heard = sender.heard.max(row.at_ns);
        let came = sender.runs.see(row.number, row.stamp_us);
        if came.anew {
            writeln!(printed.err, "WARNING: Remote restarted. Restarting here too");
            // Its numbers begin again, and so do the missing ones.
            *runs += 1;
            sender.number = *runs;
            sender.fastest = None;
        }
        let who = sender.number;
        let took = sender.delay(row, self.spec.unsynchronised).saturating_add(
            if self.spec.unsynchronised || !is_wall(row.stamp_us) { self.spec.compensation_us } else { 0 },
        );
        match came.seen {
            Seen::New { gap } => self.miss(who, row.number, gap),
            Seen::Reordered { .. } => {
                self.sum.overtaken += 1;
                if self.open.iter_mut().any(|slot| slot.fill(who, row.number)) {
                    self.sum.lost = self.sum.lost.saturating_sub(1);
                } else {
                    self.sum.late += 1;
                }
            }
            Seen::Duplicate => {
                self.sum.repeated += 1;
                return;
            }
            Seen::Ancient => self.sum.late += 1,
        }
        self.sum.packets += 1;
        self.histogram.add(took);
        if let Some(slot) = self.open.back_mut() {
            slot.bytes += u64::from(row.bytes);
            let (min, max) = (Some(took), Some(took));
            slot.delays.add(&Delays { packets: 1, sum: took.into(), min, max });
        }
    }

    /// Opens slot `index`, unless a later one is open.
    fn open_for(&mut self, index: u64) {
        if self.open.back().is_none_or(|slot| slot.index < index) {
            self.open.push_back(TenthOfSecond { index, ..TenthOfSecond::default() });
        }
    }

    fn miss(&mut self, who: u32, number: u64, gap: u64) {
        self.sum.lost = self.sum.lost.saturating_add(gap);
        let Some(slot) = self.open.back_mut().filter(|_| gap > 0) else { return };
        if slot.gaps.len() < GAPS {
            slot.gaps.insert((who, number - gap), number);
        } else {
            slot.more = slot.more.saturating_add(gap);
        }
    }

    /// Prints the slots that are over at `now`, ns of the receiver's clock.
    pub(super) fn pass(&mut self, now: u64, out: &mut Text) {
        let Some(start) = self.start else { return };
        while let Some(slot) = self.open.front() {
            let over = start.saturating_add((slot.index + 1).saturating_mul(SLOT)).saturating_add(HOLD);
            if now < over && self.open.len() < OPEN {
                return;
            }
            self.print(out);
        }
    }

    fn print(&mut self, out: &mut Text) {
        let Some(slot) = self.open.pop_front() else { return };
        let lost = slot.lost();
        let packets = slot.delays.packets;
        if self.spec.sweep && packets > 0 {
            // Lost datagrams are taken to be as long as the received ones.
            let all = slot.bytes.saturating_add(lost.saturating_mul(slot.bytes / packets));
            if let Some(rate) = slot_of(all.saturating_mul(80)) {
                let sums = self.rates.entry(rate).or_default();
                sums.lost = sums.lost.saturating_add(lost);
                sums.delays.add(&slot.delays);
                sums.slots += 1;
            }
        }
        // Without a datagram there is no latency, and no line.
        let (Some(min), Some(max)) = (slot.delays.min, slot.delays.max) else { return };
        let gaps = u64::clamped(slot.gaps.len());
        let (bytes, packets, avg) = (slot.bytes * 10, packets * 10, slot.delays.mean());
        SlotLine { bytes, packets, drops: lost, gaps, min, max, avg }.print(out);
    }

    /// Prints the open slots, and the two tables.
    pub(super) fn finish(&mut self, out: &mut Text, err: &mut Text) {
        while !self.open.is_empty() {
            self.print(out);
        }
        self.histogram.print(err);
        let rates = self.rates.iter().map(|(&slot, sums)| {
            let delays = &sums.delays;
            let rate = Rate {
                loss_percent: percent_of(sums.lost, delays.packets.saturating_add(sums.lost).max(1)),
                min: delays.min.unwrap_or(0),
                max: delays.max.unwrap_or(0),
                avg: delays.mean(),
                intervals: sums.slots,
            };
            (slot, rate)
        });
        print_rates(rates, err);
    }
}

impl SlotSender {
    /// Delay of a datagram, µs.
    fn delay(&mut self, row: &DatagramRow, unsynchronised: bool) -> i64 {
        let sent = i64::try_from(row.stamp_us).unwrap_or(i64::MAX);
        if !unsynchronised && is_wall(row.stamp_us) {
            return (row.wall.0.div_euclid(1_000)).saturating_sub(sent);
        }
        let took = i64::try_from(row.at_ns / 1_000).unwrap_or(i64::MAX).saturating_sub(sent);
        let fastest = self.fastest.map_or(took, |fastest| fastest.min(took));
        self.fastest = Some(fastest);
        took.saturating_sub(fastest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::Wall;

    #[test]
    fn senders_that_fell_silent_are_forgotten() {
        let mut slots = Slots::new(&Spec { unsynchronised: true, ..Spec::default() });
        let mut printed = Printed::default();
        for n in 0..2_500u32 {
            // Fifty a second: 500 of them within the time after which one is silent.
            let at_ns = u64::from(n) * SECOND / 50;
            let peer = SocketAddr::from(((0x0a00_0000 + n).to_be_bytes(), 9));
            let (number, stamp_us, bytes) = (0, at_ns / 1_000, 100);
            let row = DatagramRow { peer, number, stamp_us, bytes, at_ns, read_ns: at_ns, wall: Wall(0) };
            slots.take(&row, &mut printed);
            assert!(slots.senders.len() <= MOST_SENDERS);
        }
        assert_eq!((slots.sum.packets, slots.sum.lost), (2_500, 0));
    }
}
