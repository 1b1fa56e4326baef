//! Accounting on the hot path: one row per connection, one tally per group and interval. All of it
//! belongs to one worker; nothing is shared, locked or allocated per event.

use crate::packets::USUAL;
use crate::{
    Clamped, Dist, Frames, Mono, PacketTally, Packets, Playout, SlotRates, TcpInfo, TcpTotals, Window,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use uuid::Uuid;

/// A set of connections that are counted together: a client's run, or one session on a server.
/// [`Group::ALL`] counts everything a worker does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Group(pub u32);

impl Group {
    /// All groups together.
    pub const ALL: Group = Group(0);
}

/// Which row of the recorder belongs to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row(u32);

/// Counters of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Payload bytes the kernel accepted from us.
    pub tx_bytes: u64,
    /// Payload bytes received (and, when verification is on, found intact).
    pub rx_bytes: u64,
    /// Frames received, on media streams.
    pub frames: Frames,
}

/// Bytes beside payload (identifiers, goodbyes) of protocols whose originals count them in their
/// totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Framing {
    /// Bytes sent beside payload.
    pub tx_bytes: u64,
    /// Bytes received beside payload.
    pub rx_bytes: u64,
}

impl Framing {
    /// True if there are none.
    pub fn is_none(&self) -> bool {
        *self == Framing::default()
    }
}

/// Class of a connection's ending in every report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// All bytes moved, verified, and both ends agreed on the count.
    Completed,
    /// Ended early because the run ended; both ends agreed on the bytes moved.
    Stopped,
    /// Failed to connect, was reset, timed out.
    NetworkError,
    /// Too few or too many bytes, or bytes that differ from the sent ones.
    DataError,
    /// The peer spoke, but not our protocol.
    ProtocolError,
}

/// Counts of one remote address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Remote {
    /// Connections that ended.
    pub connections: u64,
    /// Connections that ended in an error of any kind.
    pub failed: u64,
    /// Payload bytes sent to it.
    pub tx_bytes: u64,
    /// Payload bytes received from it.
    pub rx_bytes: u64,
    /// Sum of the connections' durations, ns.
    pub time_ns: u64,
}

/// One open connection at an instant: its bytes so far and its TCP_INFO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sample {
    /// The connection, by the identifier that both ends know.
    pub id: Uuid,
    /// The slot of the connection among the concurrent ones.
    pub slot: u32,
    /// Payload bytes that the connection has sent.
    #[serde(default)]
    pub tx_bytes: u64,
    /// Payload bytes that the connection has received.
    #[serde(default)]
    pub rx_bytes: u64,
    /// TCP_INFO of the connection.
    pub info: TcpInfo,
}

/// Number of connections that failed for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CauseCount {
    /// Class.
    pub class: Ending,
    /// The reason, without particulars.
    pub text: String,
    /// The number.
    pub count: u64,
    /// The first such failure in full.
    pub first: String,
}

/// Different reasons for failure kept apart in one tally.
const MAX_CAUSES: usize = 32;
/// Connections whose TCP_INFO one tally carries.
const MAX_SAMPLES: usize = 64;

/// Remote addresses kept apart in one tally; further ones are counted in the totals only.
const MAX_REMOTES: usize = 4096;

/// Sums over a group. A worker counts into one; at an interval it hands the tally up and goes on
/// with a clean one. Tallies that cross from one process to another are of TCP connections: they
/// have no datagrams and no playout.
///
/// Wide: a counter or a distribution for each thing that a worker counts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Payload bytes sent.
    pub tx_bytes: u64,
    /// Payload bytes received.
    pub rx_bytes: u64,
    /// Connections established.
    pub opened: u64,
    /// Connections that ended, by [`Ending`] (in its order).
    pub ended: [u64; 5],
    /// Payload bytes that these had sent, in this interval and before.
    pub ended_tx: u64,
    /// Frames received, on media streams.
    pub frames: Frames,
    /// Datagrams; `None` until one is counted.
    #[serde(skip)]
    pub packets: Option<Box<PacketTally>>,
    /// When frames of media streams were complete; `None` until one is counted.
    #[serde(skip)]
    pub playout: Option<Box<Playout>>,
    /// Segments retransmitted, by the samples of TCP_INFO.
    pub retransmits: u64,
    /// Bytes of a legacy protocol beside its payload, where its original counts them, too.
    pub framing: Framing,
    /// Time to connect, ns.
    pub connect_ns: Dist,
    /// Time from the first payload request to the end, ns, of completed connections.
    pub transfer_ns: Dist,
    /// Rate of each ended connection over its life, bytes/s, both directions together.
    pub rate: Dist,
    /// Bytes of the ended connections by slot, for the fairness index.
    pub slots: SlotRates,
    /// Lateness of paced sends, ns.
    pub late_ns: Dist,
    /// By remote address.
    pub remotes: BTreeMap<IpAddr, Remote>,
    /// Failures by what went wrong.
    pub causes: BTreeMap<String, CauseCount>,
    /// The kernel's TCP_INFO of connections, summed.
    pub tcp: TcpTotals,
    /// Some open connections when the tally was taken.
    pub samples: Vec<Sample>,
    /// Connections open when the tally was taken.
    pub open: u64,
    /// Most connections open at once since the tally before; of several workers the sum.
    pub peak: u64,
    /// Last instant at which payload moved.
    pub last: Mono,
    /// Last instant at which a connection was established or ended.
    #[serde(default)]
    pub turned: Mono,
    /// Until when rates are taken, where that is not to the end of the interval.
    #[serde(default)]
    pub moved: Option<Mono>,
    /// Until when schedules count, where the last interval is not cut by the clock: to their end,
    /// or to a stop before.
    #[serde(default)]
    pub over: Option<Mono>,
    /// Time with open links at a server, of links whose start has arrived; `None` without any. Not
    /// `open` if that was all of the interval.
    #[serde(default)]
    pub busy: Option<Window>,
    /// When a schedule has payload leave, as links say once, or whenever that grows.
    #[serde(default)]
    pub tx_window: Option<Window>,
    /// When payload that follows a schedule arrives: the sender's window, as much later as the path
    /// takes; likewise.
    #[serde(default)]
    pub rx_window: Option<Window>,
    /// The parts of these two that lie in the interval, ns, in a tally that is handed to a session.
    #[serde(skip)]
    pub scheduled_ns: [Option<u64>; 2],
}

impl Tally {
    /// A tally whose distributions of datagrams have their memory.
    pub fn warm() -> Self {
        let packets = Some(Box::new(PacketTally::warm()));
        Tally { packets, late_ns: Dist::with_room(USUAL), ..Tally::default() }
    }

    /// The tally without its counts, but with the memory for distributions of datagrams, or of many
    /// connections; `None` where it has none.
    pub fn recycled(self) -> Option<Self> {
        let has_many = self.has_many();
        let Tally { packets, mut late_ns, mut connect_ns, mut transfer_ns, mut rate, .. } = self;
        let mut packets = packets.filter(|packets| packets.delay_ns.has_room());
        if packets.is_none() && !has_many {
            return None;
        }
        packets.iter_mut().for_each(|packets| packets.clear());
        [&mut late_ns, &mut connect_ns, &mut transfer_ns, &mut rate].into_iter().for_each(Dist::clear);
        Some(Tally { packets, late_ns, connect_ns, transfer_ns, rate, ..Tally::default() })
    }

    /// True once enough connections have ended for their distributions to hold the memory for all
    /// usual values.
    fn has_many(&self) -> bool {
        self.ended.iter().sum::<u64>() >= MANY
    }

    /// Counts an ended connection.
    pub fn ended(&mut self, how: Ending) {
        self.ended[how as usize] += 1;
        if self.ended.iter().sum::<u64>() == MANY {
            // Their distributions would go on growing with each new extreme, for hours.
            let dists = [&mut self.connect_ns, &mut self.transfer_ns, &mut self.rate, &mut self.late_ns];
            dists.into_iter().filter(|dist| dist.has_room()).for_each(|dist| dist.make_room(USUAL));
        }
    }

    /// Counts a failure: what went wrong, without and with particulars.
    pub fn failed(&mut self, class: Ending, what: &str, particulars: impl FnOnce() -> String) {
        if let Some(known) = self.causes.get_mut(what) {
            known.count += 1;
        } else if self.causes.len() < MAX_CAUSES {
            let cause = CauseCount { class, text: what.to_owned(), count: 1, first: particulars() };
            self.causes.insert(what.to_owned(), cause);
        }
    }

    /// Connections that ended in `how`.
    pub fn count(&self, how: Ending) -> u64 {
        self.ended[how as usize]
    }

    /// Connections that ended in an error of any kind.
    pub fn errors(&self) -> u64 {
        self.count(Ending::NetworkError) + self.count(Ending::DataError) + self.count(Ending::ProtocolError)
    }

    /// The entry of a remote address; `None` once [`MAX_REMOTES`] others are kept.
    pub fn remote(&mut self, at: IpAddr) -> Option<&mut Remote> {
        if self.remotes.len() >= MAX_REMOTES && !self.remotes.contains_key(&at) {
            return None;
        }
        Some(self.remotes.entry(at).or_default())
    }

    /// Adds another worker's or interval's tally.
    pub fn merge(&mut self, other: &Tally) {
        self.tx_bytes += other.tx_bytes;
        self.rx_bytes += other.rx_bytes;
        self.opened += other.opened;
        for (ours, theirs) in self.ended.iter_mut().zip(other.ended) {
            *ours += theirs;
        }
        self.ended_tx += other.ended_tx;
        self.frames.add(other.frames);
        if let Some(theirs) = &other.packets {
            self.packets.get_or_insert_default().merge(theirs);
        }
        if let Some(theirs) = &other.playout {
            self.playout.get_or_insert_default().merge(theirs);
        }
        self.retransmits += other.retransmits;
        self.framing.tx_bytes += other.framing.tx_bytes;
        self.framing.rx_bytes += other.framing.rx_bytes;
        self.connect_ns.merge(&other.connect_ns);
        self.transfer_ns.merge(&other.transfer_ns);
        self.rate.merge(&other.rate);
        self.slots.merge(&other.slots);
        self.late_ns.merge(&other.late_ns);
        self.tcp.merge(&other.tcp);
        self.open += other.open;
        self.peak += other.peak;
        self.last = self.last.max(other.last);
        self.turned = self.turned.max(other.turned);
        self.over = self.over.max(other.over);
        Window::add(&mut self.busy, other.busy);
        Window::add(&mut self.tx_window, other.tx_window);
        Window::add(&mut self.rx_window, other.rx_window);
        let room = MAX_SAMPLES.saturating_sub(self.samples.len());
        self.samples.extend(other.samples.iter().take(room).copied());
        for (what, theirs) in &other.causes {
            self.failed(theirs.class, what, || theirs.first.clone());
            if let Some(ours) = self.causes.get_mut(what) {
                ours.count += theirs.count - 1;
            }
        }
        for (at, theirs) in &other.remotes {
            if let Some(ours) = self.remote(*at) {
                ours.connections += theirs.connections;
                ours.failed += theirs.failed;
                ours.tx_bytes += theirs.tx_bytes;
                ours.rx_bytes += theirs.rx_bytes;
                ours.time_ns += theirs.time_ns;
            }
        }
    }
}

#[derive(Debug)]
struct Entry {
    group: Group,
    counts: Counts,
    since: Mono,
    until: Option<Mono>,
    /// When it ended, where that was before its socket was closed.
    ended: Option<Mono>,
}

/// One per worker: the rows of its connections and the tallies of its groups.
#[derive(Debug, Default)]
pub struct Recorder {
    rows: Vec<Entry>,
    free: Vec<Row>,
    tallies: Vec<Tally>,
    /// By row; no longer than the last row that counts datagrams.
    packets: Vec<Packets>,
    /// Tallies that have their memory and hold nothing.
    spare: Vec<Tally>,
}

/// Connections of a group that have ended, and its distributions get the memory for all usual
/// values.
const MANY: u64 = 1_000;
/// Spare tallies kept.
const MOST_SPARE: usize = 4;

impl Recorder {
    /// Gives a connection of `group` a row; its life is counted from `now`.
    pub fn open(&mut self, group: Group, now: Mono) -> Row {
        let entry = Entry { group, counts: Counts::default(), since: now, until: None, ended: None };
        if let Some(row) = self.free.pop() {
            self.rows[usize::clamped(row.0)] = entry;
            if let Some(packets) = self.packets.get_mut(usize::clamped(row.0)) {
                *packets = Packets::default();
            }
            return row;
        }
        self.rows.push(entry);
        Row(u32::clamped(self.rows.len()) - 1)
    }

    /// Takes the row back.
    pub fn close(&mut self, row: Row) {
        self.free.push(row);
    }

    /// `n` payload bytes were accepted by the kernel.
    pub fn sent(&mut self, row: Row, n: u64) {
        let entry = &mut self.rows[usize::clamped(row.0)];
        entry.counts.tx_bytes += n;
        let group = entry.group;
        self.both(group, |tally| tally.tx_bytes += n);
    }

    /// `n` payload bytes were received.
    pub fn received(&mut self, row: Row, n: u64) {
        let entry = &mut self.rows[usize::clamped(row.0)];
        entry.counts.rx_bytes += n;
        let group = entry.group;
        self.both(group, |tally| tally.rx_bytes += n);
    }

    /// Datagrams were sent or received: once per batch, not per datagram. Their payload is counted
    /// by [`Recorder::sent`] and [`Recorder::received`]; their delays go into
    /// [`Recorder::packet_tally`].
    pub fn packets(&mut self, row: Row, more: &Packets) {
        self.packet(row, |packets| packets.add(more));
    }

    /// The same where it is one thing about one datagram: what did not happen is not added.
    pub fn packet(&mut self, row: Row, count: impl Fn(&mut Packets)) {
        let at = usize::clamped(row.0);
        if at >= self.packets.len() {
            self.packets.resize(at + 1, Packets::default());
        }
        count(&mut self.packets[at]);
        let group = self.rows[at].group;
        self.both(group, |tally| count(&mut tally.packets.get_or_insert_default().counts));
    }

    /// Outcomes of a link's datagrams so far; zeros when it has none.
    pub fn packets_of(&self, row: Row) -> Packets {
        self.packets.get(usize::clamped(row.0)).copied().unwrap_or_default()
    }

    /// The running packet tally of a group.
    pub fn packet_tally(&mut self, group: Group) -> &mut PacketTally {
        self.tally(group).packets.get_or_insert_default()
    }

    /// Readies a group that has got a link which counts datagrams: the distributions of this
    /// interval and of the next get their memory before the first datagram, and later intervals
    /// reuse it by [`Recorder::spare`]. Half a megabyte, so not before there is a link.
    pub fn warm(&mut self, group: Group) {
        let tally = self.tally(group);
        if tally.packets.as_ref().is_some_and(|packets| packets.delay_ns.has_room()) {
            return;
        }
        let mut packets = Box::new(PacketTally::warm());
        // Counts of the first datagrams stay.
        if let Some(counted) = tally.packets.take() {
            packets.merge(&counted);
        }
        tally.packets = Some(packets);
        if tally.late_ns.count() == 0 {
            tally.late_ns = Dist::with_room(USUAL);
        }
        self.spare(Tally::warm());
    }

    /// Takes a warm tally for a later interval.
    pub fn spare(&mut self, tally: Tally) {
        if self.spare.len() < MOST_SPARE {
            self.spare.push(tally);
        }
    }

    /// Frames of a media stream were judged.
    pub fn frames(&mut self, row: Row, more: Frames) {
        let entry = &mut self.rows[usize::clamped(row.0)];
        entry.counts.frames.add(more);
        let group = entry.group;
        self.both(group, |tally| tally.frames.add(more));
    }

    /// `n` bytes beside payload were accepted by the kernel: they count in the sums, not in the
    /// connection.
    pub fn framing_sent(&mut self, row: Row, n: u64) {
        self.both(self.group(row), |tally| tally.framing.tx_bytes += n);
    }

    /// `n` bytes beside payload were received.
    pub fn framing_received(&mut self, row: Row, n: u64) {
        self.both(self.group(row), |tally| tally.framing.rx_bytes += n);
    }

    /// Counts in the running tally of a group, and in that of all groups.
    fn both(&mut self, group: Group, count: impl Fn(&mut Tally)) {
        count(self.tally(group));
        if group != Group::ALL {
            count(self.tally(Group::ALL));
        }
    }

    /// A connection's payload follows a schedule: its life is that of the schedule, and its end is
    /// at `ended`, whenever its socket was opened and closed.
    pub fn lives(&mut self, row: Row, schedule: Window, ended: Mono) {
        let entry = &mut self.rows[usize::clamped(row.0)];
        (entry.since, entry.until) = (schedule.from, Some(schedule.from.plus(schedule.ns)));
        entry.ended = Some(ended);
    }

    /// When a connection ended, if that was before its socket was closed.
    pub fn ended(&self, row: Row) -> Option<Mono> {
        self.rows[usize::clamped(row.0)].ended
    }

    /// A connection's payload is complete: its goodbye does not count in its duration. Of two calls
    /// the first holds.
    pub fn complete(&mut self, row: Row, now: Mono) {
        self.rows[usize::clamped(row.0)].until.get_or_insert(now);
    }

    /// When a connection's life ended, if that was earlier than its socket.
    pub fn completed(&self, row: Row) -> Option<Mono> {
        self.rows[usize::clamped(row.0)].until
    }

    /// The connection's counts so far, and since when.
    pub fn life(&self, row: Row) -> (Counts, Mono) {
        let entry = &self.rows[usize::clamped(row.0)];
        (entry.counts, entry.since)
    }

    /// Which group a row belongs to.
    pub fn group(&self, row: Row) -> Group {
        self.rows[usize::clamped(row.0)].group
    }

    /// The running tally of a group.
    pub fn tally(&mut self, group: Group) -> &mut Tally {
        let at = usize::clamped(group.0);
        if at >= self.tallies.len() {
            self.tallies.resize_with(at + 1, Tally::default);
        }
        &mut self.tallies[at]
    }

    /// Hands the running tally of a group up and starts a clean one: a spare one where
    /// distributions of datagrams, or of many connections, are filled, so that none has to wait for
    /// their memory.
    pub fn take_tally(&mut self, group: Group) -> Tally {
        let tally = self.tally(group);
        let datagrams = tally.packets.as_ref().is_some_and(|packets| packets.delay_ns.has_room());
        let wanted = datagrams || tally.has_many();
        let spare = self.spare.iter().position(|spare| wanted && spare.packets.is_some() == datagrams);
        let next = spare.map(|at| self.spare.swap_remove(at)).unwrap_or_default();
        std::mem::replace(self.tally(group), next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_reused_and_tallies_swap() {
        let mut rec = Recorder::default();
        let a = rec.open(Group(1), Mono(5));
        let b = rec.open(Group(2), Mono(6));
        rec.sent(a, 100);
        rec.received(b, 7);
        rec.received(b, 8);
        rec.frames(b, Frames { completed: 3, dropped: 1, ..Frames::default() });
        assert_eq!(rec.life(a), (Counts { tx_bytes: 100, ..Counts::default() }, Mono(5)));
        rec.close(a);
        let c = rec.open(Group(2), Mono(9));
        assert_eq!(c, a, "a closed row is used again");
        assert_eq!(rec.life(c), (Counts::default(), Mono(9)));
        rec.sent(c, 1);
        let tally = rec.take_tally(Group(2));
        assert_eq!((tally.tx_bytes, tally.rx_bytes), (1, 15));
        assert_eq!((tally.frames.completed, tally.frames.dropped), (3, 1));
        assert_eq!(rec.take_tally(Group(2)).rx_bytes, 0);
        assert_eq!(rec.take_tally(Group(1)).tx_bytes, 100);
        let all = rec.take_tally(Group::ALL);
        assert_eq!((all.tx_bytes, all.rx_bytes), (101, 15));
    }

    #[test]
    fn datagrams_are_counted_by_row_group_and_in_all() {
        let mut rec = Recorder::default();
        let (a, b) = (rec.open(Group(1), Mono(5)), rec.open(Group(2), Mono(6)));
        assert!(rec.tally(Group(2)).packets.is_none());
        rec.packets(b, &Packets { sent: 3, ..Packets::default() });
        rec.packets(b, &Packets { sent: 1, lost: -1, ..Packets::default() });
        assert_eq!((rec.packets_of(a).sent, rec.packets_of(b).sent, rec.packets_of(b).lost), (0, 4, -1));
        assert!(rec.tally(Group(1)).packets.is_none());
        assert_eq!(rec.take_tally(Group(2)).packets.unwrap().counts.sent, 4);
        assert_eq!(rec.take_tally(Group::ALL).packets.unwrap().counts.sent, 4);
        rec.close(b);
        let c = rec.open(Group(3), Mono(9));
        assert_eq!((c, rec.packets_of(c)), (b, Packets::default()));
    }

    #[test]
    fn a_warm_group_goes_on_with_what_comes_back() {
        let mut rec = Recorder::default();
        let row = rec.open(Group(1), Mono(5));
        rec.tally(Group(1)).opened = 3;
        rec.warm(Group(1));
        rec.warm(Group(1));
        assert_eq!(rec.spare.len(), 1, "a second link needs no more memory");
        assert_eq!(rec.tally(Group(1)).opened, 3, "what was counted stays");
        let early = rec.open(Group(2), Mono(5));
        rec.packets(early, &Packets { sent: 1, ..Packets::default() });
        rec.warm(Group(2));
        let packets = rec.tally(Group(2)).packets.as_ref().unwrap();
        assert!(packets.delay_ns.has_room() && packets.counts.sent == 1, "nor is what came before forgotten");
        for interval in 1..5 {
            assert!(rec.tally(Group(1)).packets.as_ref().unwrap().delay_ns.has_room(), "{interval}");
            rec.packets(row, &Packets { sent: interval, ..Packets::default() });
            rec.packet_tally(Group(1)).delay_ns.record(interval);
            let taken = rec.take_tally(Group(1));
            let packets = taken.packets.as_ref().unwrap();
            assert_eq!((packets.counts.sent, packets.delay_ns.count()), (interval, 1));
            rec.spare(taken.recycled().unwrap());
        }
        for _ in 0..20 {
            rec.spare(Tally::default());
        }
        assert_eq!(rec.spare.len(), MOST_SPARE);
        let mut connections = Tally::default();
        (0..MANY).for_each(|at| {
            connections.transfer_ns.record(at);
            connections.ended(Ending::Completed);
        });
        let connections = connections.recycled().unwrap();
        assert!(connections.packets.is_none() && connections.transfer_ns.has_room());
        assert_eq!((connections.transfer_ns.count(), connections.count(Ending::Completed)), (0, 0));
        assert!(Tally::default().recycled().is_none());
        assert!(Tally { packets: Some(Box::default()), ..Tally::default() }.recycled().is_none());
    }

    #[test]
    fn merging_adds_every_field() {
        let mut one =
            Tally { tx_bytes: 1, rx_bytes: 2, opened: 3, retransmits: 4, ended_tx: 5, ..Tally::default() };
        one.ended(Ending::DataError);
        one.connect_ns.record(50);
        one.failed(Ending::DataError, "wrong data", || "wrong data at offset 5".into());
        let here = IpAddr::from([127, 0, 0, 1]);
        if let Some(r) = one.remote(here) {
            *r = Remote { connections: 1, failed: 1, tx_bytes: 5, rx_bytes: 6, time_ns: 7 };
        }
        (one.open, one.peak) = (9, 10);
        let mut two = one.clone();
        two.merge(&one);
        assert_eq!((two.tx_bytes, two.rx_bytes, two.opened, two.retransmits), (2, 4, 6, 8));
        assert_eq!(two.ended_tx, 10);
        assert_eq!((two.open, two.peak), (18, 20));
        assert_eq!(two.count(Ending::DataError), 2);
        assert_eq!(two.connect_ns.count(), 2);
        assert_eq!(two.causes["wrong data"].count, 2);
        let twice = Remote { connections: 2, failed: 2, tx_bytes: 10, rx_bytes: 12, time_ns: 14 };
        assert_eq!(two.remotes[&here], twice);
    }

    #[test]
    fn remotes_are_bounded() {
        let mut tally = Tally::default();
        for i in 0..10_000u32 {
            tally.remote(IpAddr::from(i.to_be_bytes()));
        }
        assert_eq!(tally.remotes.len(), MAX_REMOTES);
        assert!(tally.remote(IpAddr::from([0, 0, 0, 1])).is_some(), "a known address is still found");
    }
}
