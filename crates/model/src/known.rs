//! Counts that an end of a run has, and counts that the end cannot have: a count without a reading
//! is unknown and never 0.
//!
//! Released fields keep their numbers, so an unknown count is 0 there; `unknown`, a [`Counts`]
//! beside the fields, names the ones that mean nothing. Readers ask the accessors of this file,
//! which return `None` for such a count.

use crate::{Direction, Interval, PacketReport, Pattern, Totals};
use metrics::{Clamped, format_bytes, real};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A count of one direction, at the end that sends or the end that receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Payload bytes that the sender handed to its kernel.
    SentBytes,
    /// Payload bytes that arrived.
    ReceivedBytes,
    /// Datagrams sent.
    SentDatagrams,
    /// Datagrams that arrived.
    ReceivedDatagrams,
    /// Datagrams that did not arrive.
    LostDatagrams,
    /// Datagrams that arrived behind a later one.
    ReorderedDatagrams,
    /// Datagrams that arrived again.
    RepeatedDatagrams,
    /// Datagrams that the receiver's own buffer had no room for.
    DroppedDatagrams,
    /// Variation of the datagrams' delay.
    Jitter,
    /// Segments that the sender's kernel sent again.
    Retransmits,
}

impl Count {
    const ALL: [Count; 10] = [
        Count::SentBytes,
        Count::ReceivedBytes,
        Count::SentDatagrams,
        Count::ReceivedDatagrams,
        Count::LostDatagrams,
        Count::ReorderedDatagrams,
        Count::RepeatedDatagrams,
        Count::DroppedDatagrams,
        Count::Jitter,
        Count::Retransmits,
    ];

    /// Its name in JSON.
    const fn name(self) -> &'static str {
        match self {
            Count::SentBytes => "sent_bytes",
            Count::ReceivedBytes => "received_bytes",
            Count::SentDatagrams => "sent_datagrams",
            Count::ReceivedDatagrams => "received_datagrams",
            Count::LostDatagrams => "lost_datagrams",
            Count::ReorderedDatagrams => "reordered_datagrams",
            Count::RepeatedDatagrams => "repeated_datagrams",
            Count::DroppedDatagrams => "dropped_datagrams",
            Count::Jitter => "jitter",
            Count::Retransmits => "retransmits",
        }
    }
}

/// A set of counts; in JSON the list of their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts(u16);

impl Counts {
    /// No count.
    pub const NONE: Counts = Counts(0);
    /// Counts of the end that sends.
    pub const SENDER: Counts = Counts::of(&[Count::SentBytes, Count::SentDatagrams, Count::Retransmits]);
    /// Counts of the end that receives.
    pub const RECEIVER: Counts = Counts::of(&[
        Count::ReceivedBytes,
        Count::ReceivedDatagrams,
        Count::LostDatagrams,
        Count::ReorderedDatagrams,
        Count::RepeatedDatagrams,
        Count::DroppedDatagrams,
        Count::Jitter,
    ]);
    /// Counts of datagrams alone.
    const DATAGRAMS: Counts =
        Counts::ALL.without(Counts::of(&[Count::SentBytes, Count::ReceivedBytes, Count::Retransmits]));
    /// Counts of both ends.
    pub const ALL: Counts = Counts::SENDER.and(Counts::RECEIVER);

    /// The set of `counts`.
    pub const fn of(counts: &[Count]) -> Counts {
        let (mut bits, mut at) = (0, 0);
        while at < counts.len() {
            bits |= 1 << counts[at] as u16;
            at += 1;
        }
        Counts(bits)
    }

    /// Counts of either set.
    #[must_use]
    pub const fn and(self, other: Counts) -> Counts {
        Counts(self.0 | other.0)
    }

    /// Counts of this set alone.
    #[must_use]
    pub const fn without(self, other: Counts) -> Counts {
        Counts(self.0 & !other.0)
    }

    /// Counts of both sets.
    #[must_use]
    pub const fn common(self, other: Counts) -> Counts {
        Counts(self.0 & other.0)
    }

    /// True if `count` is in the set.
    pub const fn has(self, count: Count) -> bool {
        self.0 & (1 << count as u16) != 0
    }

    /// True if the set is empty.
    pub const fn is_empty(&self) -> bool {
        self.0 == 0
    }

    /// Adds `count`.
    pub fn insert(&mut self, count: Count) {
        *self = self.and(Counts::of(&[count]));
    }

    /// `value`, unless `count` is in this set of unknown counts.
    fn known<T>(self, count: Count, value: T) -> Option<T> {
        (!self.has(count)).then_some(value)
    }
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(Count::ALL.into_iter().filter(|count| self.has(*count)).map(Count::name))
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Counts {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Counts".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let names: Vec<String> = Count::ALL.iter().map(|count| format!("`{}`", count.name())).collect();
        let names = format!("{}; later versions may have more.", names.join(", "));
        schemars::json_schema!({
            "description": "Names of counts.",
            "type": "array",
            "items": {"description": names, "type": "string"},
        })
    }
}

impl<'de> Deserialize<'de> for Counts {
    /// Names that a later version added are passed over.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = Vec::<String>::deserialize(deserializer)?;
        let known = |count: &&Count| names.iter().any(|name| name == count.name());
        Ok(Count::ALL.iter().filter(known).fold(Counts::NONE, |all, count| all.and(Counts::of(&[*count]))))
    }
}

/// Role of an end in a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The end that asked for the test.
    #[default]
    Client,
    /// The end that answered.
    Server,
}

/// Counts of each direction that an end has, its own and its peer's reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountsByWay {
    /// Of the client's payload.
    pub up: Counts,
    /// Of the server's payload.
    pub down: Counts,
}

/// Counts that each end of a protocol has, by role and direction: one statement for live runs and
/// for files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndCounts {
    /// At the client.
    pub client: CountsByWay,
    /// At the server.
    pub server: CountsByWay,
}

impl EndCounts {
    /// Each end has its own counts only: no peer reports any.
    pub const OWN: EndCounts = EndCounts {
        client: CountsByWay { up: Counts::SENDER, down: Counts::RECEIVER },
        server: CountsByWay { up: Counts::RECEIVER, down: Counts::SENDER },
    };
    /// The server reports its counts; the client reports none.
    pub const OF_CLIENT: EndCounts =
        EndCounts { client: CountsByWay { up: Counts::ALL, down: Counts::ALL }, ..EndCounts::OWN };

    /// Counts that the end in the role `recorder` lacks of a test with this pattern, of datagrams
    /// or of connections: the client's counts, the server's counts.
    pub fn unknown(self, recorder: Role, pattern: Pattern, datagrams: bool) -> (Counts, Counts) {
        let has = match recorder {
            Role::Client => self.client,
            Role::Server => self.server,
        };
        let (mut client, mut server) = (Counts::NONE, Counts::NONE);
        if pattern.sends_up() {
            client = client.and(Counts::SENDER.without(has.up));
            server = server.and(Counts::RECEIVER.without(has.up));
        }
        if pattern.sends_down() {
            server = server.and(Counts::SENDER.without(has.down));
            client = client.and(Counts::RECEIVER.without(has.down));
        }
        let of_others = if datagrams { Counts::of(&[Count::Retransmits]) } else { Counts::DATAGRAMS };
        (client.without(of_others), server.without(of_others))
    }

    /// True if a client gets the server's counts of arrivals.
    pub const fn server_reports(self) -> bool {
        !self.client.up.common(Counts::RECEIVER).is_empty()
    }
}

/// Makes the accessors of counts: each is `None` where its count is unknown.
macro_rules! known {
    ($($(#[$about:meta])* $end:ident :: $name:ident -> $of:ty, $count:ident: $value:expr;)*) => {
        $(impl $end {
            $(#[$about])*
            pub fn $name(&self) -> Option<$of> {
                let value: fn(&Self) -> $of = $value;
                self.unknown.known(Count::$count, value(self))
            }
        })*
    };
}

known! {
    /// Payload bytes sent.
    Totals::sent_bytes -> u64, SentBytes: |end| end.traffic.tx_bytes;
    /// Payload bytes received.
    Totals::received_bytes -> u64, ReceivedBytes: |end| end.traffic.rx_bytes;
    /// Datagrams sent.
    PacketReport::sent -> u64, SentDatagrams: |packets| packets.counts.sent;
    /// Datagrams received.
    PacketReport::received -> u64, ReceivedDatagrams: |packets| packets.counts.received;
    /// Datagrams lost.
    PacketReport::lost -> i64, LostDatagrams: |packets| packets.counts.lost;
    /// Datagrams reordered.
    PacketReport::reordered -> u64, ReorderedDatagrams: |packets| packets.counts.reordered;
    /// Datagrams repeated.
    PacketReport::repeated -> u64, RepeatedDatagrams: |packets| packets.counts.duplicated;
    /// Datagrams that the receiver's own buffer had no room for.
    PacketReport::dropped -> u64, DroppedDatagrams: |packets| packets.counts.dropped;
    /// Rate that this end sent at, bits/s.
    Interval::sent_bps -> f64, SentBytes: |interval| interval.local.tx_bps();
    /// Rate that this end received at, bits/s.
    Interval::received_bps -> f64, ReceivedBytes: |interval| interval.local.rx_bps();
    /// Bytes that the sender counted.
    Direction::sent_bytes -> u64, SentBytes: |way| way.sent_bytes;
    /// Rate that the sender counted, bits/s.
    Direction::sent_bps -> f64, SentBytes: |way| way.sent_bps;
}

impl Totals {
    /// True if this end has `count`.
    pub fn has_count(&self, count: Count) -> bool {
        !self.unknown.has(count) && !self.packets.as_ref().is_some_and(|packets| packets.unknown.has(count))
    }

    /// Datagrams received, where datagrams are counted.
    pub fn received_datagrams(&self) -> Option<u64> {
        self.packets.as_ref()?.received().filter(|_| self.has_count(Count::ReceivedDatagrams))
    }

    /// Segments sent again, of an end whose connections were asked.
    pub fn retransmits(&self) -> Option<u64> {
        let asked = (self.tcp.connections > 0).then_some(self.tcp.retransmits);
        self.unknown.known(Count::Retransmits, asked).flatten()
    }
}

impl PacketReport {
    /// Lost datagrams of a phase that the receiver's own buffer had no room for.
    pub fn dropped_of_lost(&self) -> Option<u64> {
        // Documents of 0.1.0 count repeats and damaged datagrams that were dropped, too.
        Some(self.dropped()?.min(u64::clamped(self.lost()?.max(0))))
    }

    /// The same in words; of datagrams that nobody numbered all that were dropped.
    pub fn drops_in_words(&self) -> Option<String> {
        let mut counts = self.counts;
        counts.limit_drops(self.dropped_of_lost().or_else(|| self.dropped())?);
        counts.drops_in_words()
    }

    /// Jitter, ns.
    pub fn jitter_ns(&self) -> Option<f64> {
        self.unknown.known(Count::Jitter, self.jitter_ns).flatten()
    }
}

impl Totals {
    /// Parts the drops of the sockets by the kernel's counters, in IPv4 and IPv6: Linux counts full
    /// buffers and wrong checksums in one counter of the socket. Drops of `numbered` datagrams are
    /// missing numbers; a dropped repeat is none.
    #[must_use]
    pub fn with_drops_parted(mut self, numbered: bool) -> Self {
        let of = |names: &[&str]| -> u64 {
            let all = names.iter().flat_map(|name| [format!("Udp.{name}"), format!("Udp6.{name}")]);
            all.filter_map(|name| self.counters.moved.get(&name)).sum()
        };
        // Without a kernel counter the counter of the socket stands alone.
        let full = of(&["RcvbufErrors", "MemErrors"]);
        let (wrong, errors) = (of(&["InCsumErrors"]), of(&["InErrors"]));
        let Some(packets) = &mut self.packets else { return self };
        // The kernel counts buffers, merged or not.
        let merged = packets.counts.dropped_merged.min(packets.counts.dropped);
        let buffers = packets.counts.dropped - merged;
        if full.max(wrong).max(errors) > 0 {
            // The counters are of all programs of the host.
            let own = buffers.min(full);
            packets.damaged = (buffers - own).min(wrong);
            let merged = u128::from(merged) * u128::from(own) / u128::from(buffers.max(1));
            packets.counts.dropped_merged = u64::clamped(merged);
            packets.counts.dropped = own + packets.counts.dropped_merged;
        }
        if numbered {
            let lost = u64::clamped(packets.counts.lost.max(0));
            packets.counts.limit_drops(lost);
            packets.damaged = packets.damaged.min(lost - packets.counts.dropped);
        } else if let Some(frames) = self.frames.filter(|frames| frames.completed > 0) {
            // Datagrams of media are missing in dropped frames alone.
            let whole = packets.counts.received.div_ceil(frames.completed);
            let buffers = packets.counts.dropped - packets.counts.dropped_merged;
            packets.counts.limit_drops(whole.saturating_mul(frames.dropped).max(buffers));
        }
        self
    }

    /// One sentence about datagrams that the receive buffer of this end had no room for; `None`
    /// without any.
    pub fn drops_here(&self) -> Option<String> {
        let packets = self.packets.as_ref()?;
        let verb = match (packets.dropped()?, packets.counts.dropped_merged) {
            (1, _) => " was",
            (_, 0) => " were",
            _ => ", were",
        };
        let drops = packets.counts.drops_in_words()?;
        Some(format!("{drops}{verb} dropped by this host's receive buffer, not by the network"))
    }
}

/// Makes counts of one direction unknown that no test can have: more received than sent, a part
/// larger than its whole, a count below 0. Returns a sentence for each. A surplus of arrivals up to
/// `tolerance`, as a share of the sent ones, is accepted.
pub fn reject_impossible(sender: &Totals, receiver: &mut Totals, tolerance: f64) -> Vec<String> {
    let mut rejected = Vec::new();
    let beyond = |part: u64, whole: u64| real(part) > real(whole) * (1.0 + tolerance);
    // A sender without any count of bytes counted something else.
    if let Some((sent, received)) =
        sender.sent_bytes().filter(|sent| *sent > 0).zip(receiver.received_bytes())
        && beyond(received, sent)
    {
        let [sent, received] = [sent, received].map(format_bytes);
        rejected
            .push(format!("more bytes received ({received}) than sent ({sent}): what arrived is unknown"));
        receiver.unknown.insert(Count::ReceivedBytes);
    }
    let sent = sender.packets.as_ref().and_then(|packets| packets.sent()).filter(|sent| *sent > 0);
    let Some(packets) = receiver.packets.as_deref_mut() else { return rejected };
    let arrived = packets.counts.received;
    let whole = sent.unwrap_or(arrived.saturating_add_signed(packets.counts.lost.max(0)));
    let lost = packets.counts.lost;
    let missing = u64::clamped(lost.max(0));
    let parts = [
        (Count::ReceivedDatagrams, "received", beyond(arrived, whole), arrived, whole),
        (Count::LostDatagrams, "lost", lost < 0 || beyond(missing, whole), missing, whole),
        (
            Count::ReorderedDatagrams,
            "reordered",
            packets.counts.reordered > arrived,
            packets.counts.reordered,
            arrived,
        ),
        (
            Count::DroppedDatagrams,
            "dropped by the receiver",
            packets.counts.dropped > missing,
            packets.counts.dropped,
            missing,
        ),
    ];
    for (count, name, impossible, part, whole) in parts {
        if impossible && !packets.unknown.has(count) {
            packets.unknown.insert(count);
            rejected.push(match lost < 0 && count == Count::LostDatagrams {
                true => format!("{lost} datagrams {name}: how many is unknown"),
                false => format!("{part} datagrams {name}, of {whole}: how many is unknown"),
            });
        }
    }
    if packets.jitter_ns.is_some_and(|ns| !ns.is_finite() || ns < 0.0) {
        packets.jitter_ns = None;
        packets.unknown.insert(Count::Jitter);
        rejected.push("a jitter below 0: the jitter is unknown".to_owned());
    }
    rejected
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Builder, Event, Phase, Status, Traffic};
    use metrics::Packets;
    use std::collections::BTreeMap;

    #[test]
    fn a_set_is_a_list_of_names_and_unknown_names_are_passed_over() {
        let counts = Counts::of(&[Count::Jitter, Count::SentBytes]);
        assert_eq!(serde_json::to_string(&counts).unwrap(), r#"["sent_bytes","jitter"]"#);
        let read: Counts = serde_json::from_str(r#"["jitter","of_a_later_version","sent_bytes"]"#).unwrap();
        assert_eq!(read, counts);
        for count in Count::ALL {
            assert!(Counts::ALL.has(count) && !Counts::NONE.has(count), "{count:?}");
            assert!(Counts::SENDER.has(count) != Counts::RECEIVER.has(count), "{count:?}");
        }
    }

    #[test]
    fn released_documents_have_no_unknown_counts_and_gain_no_field() {
        let totals: Totals =
            serde_json::from_str(r#"{"traffic":{"tx_bytes":0,"rx_bytes":5,"ns":8}}"#).unwrap();
        assert_eq!((totals.sent_bytes(), totals.received_bytes()), (Some(0), Some(5)));
        assert!(!serde_json::to_string(&totals).unwrap().contains("unknown"));
    }

    #[test]
    fn a_statement_names_what_each_end_lacks_by_role_and_direction() {
        let lacks = |role, pattern| EndCounts::OF_CLIENT.unknown(role, pattern, true);
        let (sender, all) = (Counts::of(&[Count::SentBytes, Count::SentDatagrams]), Counts::ALL);
        assert_eq!(lacks(Role::Client, Pattern::Duplex), (Counts::NONE, Counts::NONE));
        // A server does not learn what its client received, nor what it sent.
        assert_eq!(lacks(Role::Server, Pattern::Pull), (Counts::RECEIVER, Counts::NONE));
        assert_eq!(lacks(Role::Server, Pattern::Push), (sender, Counts::NONE));
        let both = all.without(Counts::of(&[Count::Retransmits]));
        assert_eq!(lacks(Role::Server, Pattern::Duplex), (both, Counts::NONE));
        // Connections have no datagrams.
        let own = |role, pattern| EndCounts::OWN.unknown(role, pattern, false);
        let sender = Counts::of(&[Count::SentBytes, Count::Retransmits]);
        assert_eq!(own(Role::Client, Pattern::Push), (Counts::NONE, Counts::of(&[Count::ReceivedBytes])));
        assert_eq!(own(Role::Client, Pattern::Pull), (Counts::NONE, sender));
        assert_eq!(own(Role::Server, Pattern::Push), (sender, Counts::NONE));
        assert!(EndCounts::OF_CLIENT.server_reports() && !EndCounts::OWN.server_reports());
    }

    #[test]
    fn the_sender_stands_in_where_the_receiver_has_no_count() {
        let down = |client: Counts, server: Counts| {
            let mut builder = Builder::default();
            let phase = Box::new(Phase { pattern: Pattern::Pull, ..Phase::default() });
            builder.absorb(&Event::Phase { label: BTreeMap::new(), repeat: 1, phase });
            builder.absorb(&Event::Local(Box::new(Totals { unknown: client, ..Totals::default() })));
            let traffic = Traffic { tx_bytes: 500, rx_bytes: 0, ns: 1_000_000, ..Traffic::default() };
            let remote = Totals { traffic, unknown: server, ..Totals::default() };
            builder.absorb(&Event::Remote(Box::new(remote)));
            builder.absorb(&Event::PhaseEnd { status: Status::Complete, reason: None });
            builder.outcome().points[0].down
        };
        let found = down(Counts::RECEIVER, Counts::NONE).unwrap();
        assert_eq!((found.received_bytes, found.goodput_bps, found.confirmed), (500, 4e6, false));
        assert_eq!(down(Counts::NONE, Counts::SENDER).unwrap().sent_bps(), None);
        assert_eq!(down(Counts::RECEIVER, Counts::SENDER), None, "a rate that no end knows is absent");
    }

    /// An end of datagrams of 100 bytes.
    fn end(sent: u64, counts: Packets) -> Totals {
        let mut totals = Totals::default();
        totals.traffic.tx_bytes = sent * 100;
        totals.traffic.rx_bytes = counts.received * 100;
        let report = PacketReport::from(Packets { sent, ..counts });
        totals.packets = Some(Box::new(report));
        totals
    }

    #[test]
    fn a_number_that_no_test_can_have_is_unknown() {
        let found = |counts: Packets| {
            let mut receiver = end(0, counts);
            let said = reject_impossible(&end(1_000, Packets::default()), &mut receiver, 0.0);
            (receiver, said.len())
        };
        let good = Packets { received: 990, lost: 10, reordered: 3, dropped: 10, ..Packets::default() };
        let (receiver, said) = found(good);
        assert_eq!(
            (receiver.received_bytes(), receiver.received_datagrams(), said),
            (Some(99_000), Some(990), 0)
        );
        let (more, said) = found(Packets { received: 1_001, ..good });
        assert_eq!((more.received_bytes(), more.received_datagrams(), said), (None, None, 2));
        let unknown = |counts| *found(counts).0.packets.unwrap();
        assert_eq!(unknown(Packets { lost: -1, ..good }).lost(), None);
        assert_eq!(unknown(Packets { lost: 1_001, ..good }).lost(), None);
        assert_eq!(unknown(Packets { reordered: 991, ..good }).reordered(), None);
        assert_eq!(unknown(Packets { dropped: 11, ..good }).dropped(), None);
        // Without the sender's count the whole is what was received and what is missing.
        let mut alone = end(0, Packets { received: 5, lost: 5, dropped: 6, ..Packets::default() });
        assert_eq!(reject_impossible(&Totals::default(), &mut alone, 0.0).len(), 1);
    }

    #[test]
    fn drops_are_parted_by_the_kernels_counters() {
        let parted = |counters: &[(&str, u64)], lost, numbered| {
            let counts = Packets { dropped: 47, lost, ..Packets::default() };
            let packets = Some(Box::new(PacketReport::from(counts)));
            let moved = counters.iter().map(|(name, by)| ((*name).to_owned(), *by)).collect();
            let totals = Totals { packets, counters: crate::HostCounters { moved }, ..Totals::default() };
            let packets = totals.with_drops_parted(numbered).packets.unwrap();
            (packets.counts.dropped, packets.damaged)
        };
        assert_eq!(parted(&[], 50, true), (47, 0), "no counter is known");
        assert_eq!(parted(&[("Udp.InCsumErrors", 40), ("Udp6.InCsumErrors", 7)], 50, true), (0, 47));
        let both = [("Udp.InCsumErrors", 40), ("Udp.RcvbufErrors", 5), ("Udp6.MemErrors", 2)];
        assert_eq!(parted(&both, 50, true), (7, 40));
        // The counters are of all programs, and a filter's drops are neither.
        assert_eq!(parted(&[("Udp.InCsumErrors", 400), ("Udp.RcvbufErrors", 400)], 50, true), (47, 0));
        assert_eq!(parted(&[("Udp.InErrors", 47)], 50, true), (0, 0));
        // Repeats were dropped, too.
        assert_eq!(parted(&both, 12, true), (7, 5));
        assert_eq!(parted(&both, 3, true), (3, 0));
        // Without numbers nothing is known to be lost.
        assert_eq!(parted(&both, 0, false), (7, 40));
    }

    #[test]
    fn merged_drops_are_parted_by_buffers_and_said_as_a_bound() {
        let parted = |full: u64, wrong: u64, lost| {
            let counts = Packets { dropped: 3_854, dropped_merged: 3_751, lost, ..Packets::default() };
            let packets = Some(Box::new(PacketReport::from(counts)));
            let moved = [("Udp.RcvbufErrors", full), ("Udp.InCsumErrors", wrong)];
            let moved = moved.map(|(name, by)| (name.to_owned(), by)).into();
            let totals = Totals { packets, counters: crate::HostCounters { moved }, ..Totals::default() };
            let totals = totals.with_drops_parted(true);
            let packets = totals.packets.as_deref().unwrap();
            (packets.counts.dropped, packets.damaged, totals.drops_here())
        };
        let words = |dropped: &str| {
            Some(format!("{dropped}, were dropped by this host's receive buffer, not by the network"))
        };
        let all = words("103 merged runs, up to 3854 datagrams");
        assert_eq!(parted(103, 0, 3_854), (3_854, 0, all.clone()));
        assert_eq!(parted(0, 0, 3_854), (3_854, 0, all), "no counter is known");
        // Less is missing, and half of the buffers had a wrong checksum.
        assert_eq!(parted(103, 0, 3_000), (3_000, 0, words("103 merged runs, up to 3000 datagrams")));
        assert_eq!(parted(51, 52, 3_854), (1_908, 52, words("51 merged runs, up to 1908 datagrams")));
        assert_eq!(parted(0, 103, 3_854), (0, 103, None));
        // Without numbers no more than dropped frames have: 46 of 143 datagrams.
        let counts =
            Packets { received: 19_100, dropped: 8_234, dropped_merged: 8_055, ..Packets::default() };
        let packets = Some(Box::new(PacketReport::from(counts)));
        let frames = Some(metrics::Frames { completed: 134, dropped: 46, ..Default::default() });
        let totals = Totals { packets, frames, ..Totals::default() }.with_drops_parted(false);
        assert_eq!(totals.drops_here(), words("179 merged runs, up to 6578 datagrams"));
    }
}
