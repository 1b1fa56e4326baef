//! The receiving end of a test: counts of a trial interval and of a sub-interval, and the Status
//! PDUs about them.

use super::{Load, Moment, Status, SubInterval, Trial};
use metrics::{Mono, Packets};

/// Received numbers by which repeats are recognised.
const RECENT: usize = 32;
/// Nanoseconds of a millisecond.
const MS: u64 = 1_000_000;

/// A receiver of load.
///
/// Wide: counts of three spans of time, and the parts of the test that each report repeats.
pub(crate) struct Meter {
    /// The next number in order, and the last numbers received.
    expected: u32,
    recent: [u32; RECENT],
    nth: usize,
    trial: Trial,
    sub: SubInterval,
    sub_marked: u32,
    /// The last finished sub-interval, its marks, and their number.
    last: (SubInterval, u32),
    finished: u32,
    /// When the trial interval and the sub-interval began, and the first Status PDU was sent.
    trial_from: Mono,
    sub_from: Mono,
    first_status: Option<Mono>,
    /// Number of the next Status PDU.
    number: u32,
    /// Smallest difference of our clock at an arrival to the sender's at its sending, ms.
    delay_min_ms: Option<i64>,
    round_trip_min_ms: Option<u32>,
    updated: bool,
    /// The last echoed time of a Status PDU.
    echoed: Moment,
    bleached: bool,
    /// Samples of round trips of the sub-interval, and of the one before: sum and number.
    trips: (u64, u32),
    last_trips: (u64, u32),
    /// Datagrams were sent with an ECN-capable transport mark, and marks count.
    marks: bool,
    sub_interval_ns: u64,
    trial_ns: u64,
}

/// A finished sub-interval at the end that counted it, or that was sent it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Finished {
    pub(crate) number: u32,
    pub(crate) counts: SubInterval,
    pub(crate) marked: u32,
    /// Sum and number of the samples of round trips above the shortest, ms.
    pub(crate) trips: (u64, u32),
}

impl Meter {
    /// A receiver of a test with these intervals, ms, that begins now.
    pub(crate) fn new(now: Mono, trial_ms: u16, sub_interval_ms: u16, marks: bool) -> Self {
        Meter {
            expected: 1,
            recent: [0; RECENT],
            nth: 0,
            trial: Trial::default(),
            sub: SubInterval::default(),
            sub_marked: 0,
            last: (SubInterval::default(), 0),
            finished: 0,
            trial_from: now,
            sub_from: now,
            first_status: None,
            number: 1,
            delay_min_ms: None,
            round_trip_min_ms: None,
            updated: false,
            echoed: Moment::default(),
            bleached: false,
            trips: (0, 0),
            last_trips: (0, 0),
            marks,
            sub_interval_ns: u64::from(sub_interval_ms) * MS,
            trial_ns: u64::from(trial_ms) * MS,
        }
    }

    /// True once a datagram has arrived.
    pub(crate) fn has_begun(&self) -> bool {
        self.delay_min_ms.is_some()
    }

    /// Smallest one-way delay, clocks' difference included, and shortest round trip, ms.
    pub(crate) fn minima(&self) -> (Option<i64>, Option<u32>) {
        (self.delay_min_ms, self.round_trip_min_ms)
    }

    /// A datagram arrived at this moment of our clock, with this traffic class octet: its share in
    /// the counts.
    pub(crate) fn on_load(&mut self, load: &Load, arrived: Moment, class: u8) -> Packets {
        let bytes = u32::from(load.length);
        self.trial.datagrams = self.trial.datagrams.saturating_add(1);
        self.trial.bytes = self.trial.bytes.saturating_add(bytes);
        self.sub.datagrams = self.sub.datagrams.saturating_add(1);
        self.sub.bytes = self.sub.bytes.saturating_add(bytes.into());
        if self.marks {
            match class & 3 {
                0 => self.bleached = true,
                3 => {
                    self.trial.marked = self.trial.marked.saturating_add(1);
                    self.sub_marked = self.sub_marked.saturating_add(1);
                }
                _ => {}
            }
        }
        let mut counts = Packets { received: 1, ..Packets::default() };
        let ahead = load.number.wrapping_sub(self.expected);
        let is_new = ahead <= u32::MAX / 2;
        if is_new {
            self.trial.lost = self.trial.lost.saturating_add(ahead);
            self.sub.lost = self.sub.lost.saturating_add(ahead);
            self.expected = load.number.wrapping_add(1);
            counts.lost = i64::from(ahead);
        } else if self.recent.contains(&load.number) {
            self.trial.duplicated = self.trial.duplicated.saturating_add(1);
            self.sub.duplicated = self.sub.duplicated.saturating_add(1);
            counts = Packets { duplicated: 1, ..Packets::default() };
        } else {
            self.trial.reordered = self.trial.reordered.saturating_add(1);
            self.sub.reordered = self.sub.reordered.saturating_add(1);
            self.trial.lost = self.trial.lost.saturating_sub(1);
            self.sub.lost = self.sub.lost.saturating_sub(1);
            counts.reordered = 1;
            counts.lost = -1;
        }
        if let Some(place) = self.recent.get_mut(self.nth % RECENT) {
            *place = load.number;
        }
        self.nth = self.nth.wrapping_add(1);
        if is_new || !self.has_begun() {
            self.delay(load, arrived);
        }
        counts
    }

    fn delay(&mut self, load: &Load, arrived: Moment) {
        if load.echoed != self.echoed {
            self.echoed = load.echoed;
            self.round_trip(load, arrived);
        }
        let delta = rounded_ms(arrived.nanoseconds().saturating_sub(load.sent.nanoseconds()));
        let Some(min) = self.delay_min_ms else {
            (self.delay_min_ms, self.updated) = (Some(delta), true);
            return;
        };
        if delta < min {
            (self.delay_min_ms, self.updated) = (Some(delta), true);
        }
        let above = u32::try_from(delta.saturating_sub(min.min(delta))).unwrap_or(u32::MAX);
        self.trial.delay.add(above);
        self.sub.delay.add(above);
    }

    fn round_trip(&mut self, load: &Load, arrived: Moment) {
        let took = rounded_ms(arrived.nanoseconds().saturating_sub(load.echoed.nanoseconds()));
        let Ok(took) = u32::try_from(took) else { return };
        // The sender rounds its time, too.
        let waited = u32::from(load.response_ms);
        let sample = if waited > took + 1 { took } else { took.saturating_sub(waited) };
        if self.round_trip_min_ms.is_none_or(|min| sample < min) {
            (self.round_trip_min_ms, self.updated) = (Some(sample), true);
        }
        let above = sample - self.round_trip_min_ms.unwrap_or(sample);
        self.trial.round_trip_ms = Some(above);
        let (low, high) = self.sub.round_trip.unwrap_or((above, above));
        self.sub.round_trip = Some((low.min(above), high.max(above)));
        self.trips = (self.trips.0 + u64::from(above), self.trips.1.saturating_add(1));
    }

    /// The trial interval ends: the next Status PDU.
    pub(crate) fn status(&mut self, now: Mono, silent: bool) -> Status {
        self.trial.length_us = microseconds(now.since(self.trial_from));
        let (last, sub_marked) = self.last;
        let number = self.number;
        self.number = number.wrapping_add(1);
        Status {
            silent,
            number,
            finished: self.finished,
            last,
            sub_marked,
            trial: self.trial,
            delay_min_ms: self
                .delay_min_ms
                .map_or(0, |ms| i32::try_from(ms).unwrap_or(if ms < 0 { i32::MIN } else { i32::MAX })),
            round_trip_min_ms: self.round_trip_min_ms,
            updated: self.updated,
            bleached: self.bleached,
            ..Status::default()
        }
    }

    /// The Status PDU has left, or was given up: the next trial interval begins, and perhaps a
    /// sub-interval is finished.
    pub(crate) fn next_trial(&mut self, now: Mono) -> Option<Finished> {
        self.trial = Trial::default();
        self.trial_from = now;
        self.updated = false;
        let Some(first) = self.first_status else {
            self.first_status = Some(now);
            self.begin_sub_interval(now);
            return None;
        };
        let length = now.since(self.sub_from);
        if length <= self.sub_interval_ns.saturating_sub(self.trial_ns / 2) {
            return None;
        }
        self.sub.length_us = microseconds(length);
        self.sub.end_ms = u32::try_from((now.since(first) + MS / 2) / MS).unwrap_or(u32::MAX);
        self.finished = self.finished.wrapping_add(1);
        self.last = (self.sub, self.sub_marked);
        self.last_trips = self.trips;
        self.begin_sub_interval(now);
        Some(Finished {
            number: self.finished,
            counts: self.last.0,
            marked: self.last.1,
            trips: self.last_trips,
        })
    }

    fn begin_sub_interval(&mut self, now: Mono) {
        self.sub = SubInterval::default();
        self.sub_marked = 0;
        self.trips = (0, 0);
        self.sub_from = now;
    }

    /// True if a datagram arrived without its ECN bits.
    pub(crate) fn bleached(&self) -> bool {
        self.bleached
    }
}

fn microseconds(ns: u64) -> u32 {
    u32::try_from(ns / 1_000).unwrap_or(u32::MAX)
}

/// Whole milliseconds, rounded to the nearest.
fn rounded_ms(ns: i64) -> i64 {
    let ms = MS.cast_signed();
    ns.saturating_add(ms / 2).div_euclid(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(ms: u64) -> Moment {
        Moment { s: (ms / 1_000) as u32, ns: (ms % 1_000) as u32 * 1_000_000 }
    }

    fn load(number: u32, sent_ms: u64) -> Load {
        Load { number, length: 100, sent: moment(sent_ms), ..Load::default() }
    }

    fn meter() -> Meter {
        Meter::new(Mono(0), 50, 1_000, true)
    }

    #[test]
    fn numbers_are_lost_reordered_or_repeated() {
        let mut meter = meter();
        for number in [1, 2, 5, 4, 4, 6, 3] {
            meter.on_load(&load(number, 0), moment(0), 2);
        }
        let trial = meter.trial;
        assert_eq!((trial.lost, trial.reordered, trial.duplicated), (0, 2, 1));
        assert_eq!((trial.datagrams, trial.bytes), (7, 700));
        // A loss of an earlier trial interval stays reported.
        meter.next_trial(Mono(50 * MS));
        meter.on_load(&load(9, 0), moment(0), 2);
        meter.next_trial(Mono(100 * MS));
        let counts = meter.on_load(&load(8, 0), moment(0), 2);
        assert_eq!((meter.trial.lost, meter.trial.reordered, counts.lost), (0, 1, -1));
    }

    #[test]
    fn delays_are_those_above_the_smallest() {
        let mut meter = meter();
        for (number, sent, arrived) in [(1, 0, 1_010), (2, 10, 1_025), (3, 20, 1_025), (4, 30, 1_040)] {
            meter.on_load(&load(number, sent), moment(arrived), 2);
        }
        assert_eq!(meter.minima().0, Some(1_005));
        let delay = meter.trial.delay;
        assert_eq!((delay.range, delay.sum, delay.count), (Some((0, 5)), 10, 3));
    }

    #[test]
    fn a_round_trip_is_counted_once_for_each_status() {
        let mut meter = meter();
        let echo = |number, waited| Load { echoed: moment(500), response_ms: waited, ..load(number, 0) };
        meter.on_load(&load(1, 0), moment(0), 2);
        meter.on_load(&echo(2, 20), moment(560), 2);
        meter.on_load(&echo(3, 0), moment(900), 2);
        assert_eq!((meter.round_trip_min_ms, meter.trial.round_trip_ms), (Some(40), Some(0)));
        let next = Load { echoed: moment(600), response_ms: 5, ..load(4, 0) };
        meter.on_load(&next, moment(700), 2);
        assert_eq!((meter.trial.round_trip_ms, meter.sub.round_trip), (Some(55), Some((0, 55))));
        // A wait that is longer than the round trip by its rounding is none.
        let close = Load { echoed: moment(800), response_ms: 31, ..load(5, 0) };
        meter.on_load(&close, moment(830), 2);
        assert_eq!(meter.round_trip_min_ms, Some(0));
    }

    #[test]
    fn a_sub_interval_ends_with_a_status_and_begins_with_the_first() {
        let mut meter = meter();
        meter.on_load(&load(1, 0), moment(0), 0);
        let mut ended = None;
        for n in 1..=21_u64 {
            let now = Mono(n * 50 * MS);
            assert!(ended.is_none());
            assert_eq!(meter.status(now, false).finished, 0);
            ended = meter.next_trial(now);
            meter.on_load(&load(n as u32 + 1, 0), moment(0), 3);
        }
        let ended = ended.unwrap();
        // One datagram before the first Status PDU, and one behind the last, are in no interval.
        assert_eq!((ended.number, ended.counts.datagrams, ended.marked), (1, 20, 20));
        assert_eq!((ended.counts.length_us, ended.counts.end_ms), (1_000_000, 1_000));
        let status = meter.status(Mono(22 * 50 * MS), false);
        assert_eq!(
            (status.number, status.finished, status.last, status.bleached),
            (22, 1, ended.counts, true)
        );
    }
}
