//! One direction's receiver: arrivals of datagrams, their damage and their delay.

use super::codec::{Check, HEADER, Header, HeaderTemplate};
use super::log::Log;
use super::sender::datagrams_of;
use super::show::Show;
use super::terms::Terms;
use super::track::Memory;
use crate::payload;
use common::kernel::Core;
use metrics::{
    Clamped, Dist, Echo, Ecn, EcnPairs, Estimate, FlowSums, Jitter, Mono, PacketTally, Packets, PairWindow,
    ReceivedPacket, Seen, Sequence, Stamp, StampKind, Unplaced, Variation,
};
use model::Verify;
use transport::{Context, Received};

/// Most numbers that are remembered one by one: two seconds at half a million a second, an eighth
/// of a second at eight million; 128 KiB.
const MOST_WINDOW: u64 = 1 << 20;
const LEAST_WINDOW: u64 = 1 << 12;

#[derive(Debug)]
pub(super) struct Receiver {
    check: Check,
    late_ns: u64,
    compare: bool,
    /// Made when the first datagram arrives.
    sequence: Option<Box<Sequence>>,
    window: usize,
    jitter: Jitter,
    variation: Variation,
    /// Damaged beyond recognition; their numbers seem lost.
    unknown: u64,
    finished: bool,
    /// Every received packet, of packet trains.
    pub(super) log: Option<Box<Log>>,
    /// Received packets are our own, returned by the remote end ([`super::echo`]): `actual` is
    /// their departure there, `intended` their arrival there.
    echoes: bool,
    /// Every received datagram, when a record of them was requested.
    pub(super) memory: Option<Box<Memory<ReceivedPacket>>>,
    /// Datagrams in pairs of two ECN codepoints.
    pairs: Option<Box<Pairs>>,
    /// All of the above in a few numbers.
    pub(super) sums: FlowSums,
    /// The frames, when it is a stream.
    pub(super) show: Option<Show>,
}

/// Datagrams in pairs of two ECN codepoints, as they arrive.
#[derive(Debug)]
struct Pairs {
    window: PairWindow,
    /// The codepoints of both.
    sent: [Ecn; 2],
    /// The codepoint of the received batch.
    arrived: Ecn,
}

impl Pairs {
    /// The pairs of a flow with this seed; `None` where `terms` ask for none.
    fn of(terms: &Terms, seed: u64) -> Option<Box<Pairs>> {
        let sent = [terms.sockets.ecn.unwrap_or_default(), terms.probe.paired?];
        Some(Box::new(Pairs { window: PairWindow::new(seed), sent, arrived: Ecn::Off }))
    }

    /// The account of a tally.
    fn account<'a>(&self, tally: &'a mut PacketTally) -> &'a mut EcnPairs<Dist> {
        let account = tally.pairs.get_or_insert_default();
        account.sides.iter_mut().zip(self.sent).for_each(|(side, sent)| side.sent = sent);
        account
    }
}

/// Datagrams in a row with numbers in a row, sent in one call.
struct Stretch {
    first: u64,
    count: u64,
    actual: u64,
    /// When the last of them were to be sent, and how many those are that have not been recorded.
    intended: u64,
    alike: u64,
}

impl Receiver {
    /// A receiver of what `terms` say, at the client or at the server.
    pub(super) fn new(terms: &Terms, check: Check, client: bool, slot: u32) -> Self {
        let probe = &terms.probe;
        // Packets of a train arrive faster than the mean rate.
        let rate = terms.rate.filter(|_| terms.train.is_none());
        let gap = probe.gap_ps(rate.or(terms.media.map(|media| media.rate_bps)));
        // As many as are under way before they are late, and some.
        let expected = probe.late_ns.saturating_mul(2_000).checked_div(gap).unwrap_or(MOST_WINDOW);
        Receiver {
            check,
            late_ns: probe.late_ns,
            compare: terms.verify == Verify::Data,
            sequence: None,
            window: expected.clamp(LEAST_WINDOW, MOST_WINDOW) as usize,
            jitter: Jitter::default(),
            variation: Variation::default(),
            unknown: 0,
            finished: false,
            log: terms.train.as_ref().map(|_| Box::default()),
            echoes: client && terms.echo(),
            memory: Memory::of(terms),
            pairs: Pairs::of(terms, terms.probe.pairs_seed(slot)),
            sums: FlowSums::default(),
            show: terms
                .media
                .map(|media| Show::new(media, datagrams_of(&media), probe.late_ns, client && terms.tells)),
        }
    }

    /// Judges and counts the frames that are due, and reports them in batches.
    pub(super) fn show(&mut self, cx: &mut Context<'_>, core: &Core) {
        if let Some(show) = &mut self.show {
            show.report(cx, core, false);
        }
    }

    /// Number of different datagrams received with a readable number.
    pub(super) fn unique(&self) -> u64 {
        self.sequence.as_ref().map_or(0, |s| s.counts().unique)
    }

    /// Received numbers, from the first datagram on.
    #[inline]
    fn sequence(&mut self) -> &mut Sequence {
        self.sequence.get_or_insert_with(|| Box::new(Sequence::new(self.window)))
    }

    /// The clocks have been compared for the first time: earlier records get the same offset.
    pub(super) fn compared(&mut self, clock: Estimate) {
        let logged = self.log.iter_mut().flat_map(|log| &mut log.got);
        let remembered = self.memory.iter_mut().flat_map(|memory| memory.iter_mut());
        for packet in logged.chain(remembered) {
            packet.offset_ns = clock.offset_ns;
        }
    }

    /// The header of a datagram, if that is intact; the payload is compared only if that was
    /// requested.
    pub(super) fn intact(&self, datagram: &[u8]) -> Option<Header> {
        let header = Header::read(self.check, datagram)?;
        (!self.compare || payload::is_start(&datagram[HEADER..])).then_some(header)
    }

    /// Numbers below `total` that have not arrived; damaged datagrams have.
    pub(super) fn missing(&self, total: u64) -> u64 {
        total.saturating_sub(self.unique()).saturating_sub(self.unknown)
    }

    /// Counts a batch of DATA. `clock` estimates the sender's clock: its offset is ours minus
    /// theirs; `None` before the clocks were compared, when the delay of a datagram is not known.
    pub(super) fn on_received(
        &mut self,
        cx: &mut Context<'_>,
        core: &mut Core,
        got: &Received<'_>,
        clock: Option<Estimate>,
    ) {
        let (Stamp { at, kind }, card_bound_ns) = got.arrival();
        // A sender's time plus the offset is a time of ours.
        let host = cx.clock.host(at);
        let offset_ns = clock.map_or(0, |clock| clock.offset_ns);
        let now = clock.map(|_| (host as i64).wrapping_sub(offset_ns));
        let mut counts = Packets::default();
        let mut bytes = 0;
        let n = u64::clamped(got.count());
        core.see_marks(cx, got);
        if got.ttl > 0 {
            self.sums.marks.see(got.ttl, got.tos, n);
        }
        if let Some(pairs) = &mut self.pairs {
            pairs.arrived = Ecn::of(got.tos);
        }
        let tally = cx.rec.packet_tally(core.group);
        tally.came = tally.came.max(at);
        let bound_ns = clock.map(|clock| clock.bound_ns.saturating_add(card_bound_ns));
        tally.clock_bound_ns = tally.clock_bound_ns.max(bound_ns);
        match kind {
            StampKind::User => {}
            StampKind::Hardware => {
                tally.card_stamped += n;
                tally.card_bound_ns = tally.card_bound_ns.max(card_bound_ns);
            }
            StampKind::KernelRx | StampKind::KernelTx => tally.kernel_stamped += n,
        }
        match got.card.and_then(|card| card.placed.err()) {
            Some(Unplaced::Untrue) => tally.card_refused += n,
            Some(Unplaced::Unread) => tally.card_unplaced += n,
            None => {}
        }
        let mut stretch: Option<Stretch> = None;
        let came = |sequence, damaged| ReceivedPacket {
            sequence,
            received_ns: host as i64,
            offset_ns,
            stamp: kind,
            damaged,
        };
        let each = n == 1 || self.log.is_some() || self.memory.is_some() || self.show.is_some();
        let mut datagrams = got.datagrams();
        while let Some(datagram) = datagrams.next() {
            let Some(header) = Header::read(self.check, datagram).filter(|_| !got.truncated) else {
                counts.corrupt += 1;
                // Its number will be missed, but it is not lost.
                counts.lost -= 1;
                self.unknown += 1;
                self.settle(stretch.take(), now, tally, &mut counts);
                let expected = self.next();
                if let Some(memory) = &mut self.memory {
                    memory.push(came(expected, true).nameless());
                }
                self.sequence().see_nameless();
                continue;
            };
            if self.compare && !payload::is_start(&datagram[HEADER..]) {
                counts.corrupt += 1;
                if let Some(memory) = &mut self.memory {
                    memory.push(came(header.sequence, true));
                }
                self.settle(stretch.take(), now, tally, &mut counts);
                self.see_damaged(header.sequence, tally, &mut counts);
                continue;
            }
            if let Some(log) = &mut self.log {
                if self.echoes {
                    let held_ns = header.actual.wrapping_sub(header.intended) as i64;
                    log.returned(Echo { sequence: header.sequence, back_ns: host as i64, held_ns });
                } else {
                    log.arrived(came(header.sequence, false));
                    log.bound_ns = log.bound_ns.max(card_bound_ns);
                }
            }
            if let Some(memory) = &mut self.memory {
                memory.push(came(header.sequence, false));
            }
            let size = u64::clamped(datagram.len());
            if let Some(s) = &mut stretch
                && s.first + s.count == header.sequence
                && s.actual == header.actual
            {
                if s.intended != header.intended {
                    record_delay(&mut tally.intended_ns, now, s.intended, s.alike);
                    (s.intended, s.alike) = (header.intended, 0);
                }
                (s.count, s.alike, bytes) = (s.count + 1, s.alike + 1, bytes + size);
                shown(&mut self.show, at, &header, true, host);
                continue;
            }
            self.settle(stretch.take(), now, tally, &mut counts);
            if header.sequence >= self.next() && header.sequence >> 63 == 0 {
                bytes += size;
                shown(&mut self.show, at, &header, true, host);
                let Header { sequence: first, actual, intended, .. } = header;
                // No output lists single datagrams: the run of consecutive ones is counted at once.
                let more = if each { 0 } else { self.pass(header, datagram.len(), &mut datagrams) };
                bytes += size * more;
                stretch = Some(Stretch { first, count: 1 + more, actual, intended, alike: 1 + more });
            } else if self.see(header.sequence, tally, &mut counts) {
                record_delay(&mut tally.intended_ns, now, header.intended, 1);
                bytes += size;
                counts.received += 1;
                shown(&mut self.show, at, &header, true, host);
                self.count_delay(header.actual, header.sequence, 1, now, tally, &mut counts);
                if n == 1 {
                    self.alone(header.sequence, header.actual, host, tally);
                }
            } else {
                shown(&mut self.show, at, &header, false, host);
            }
        }
        if let Some(s) = stretch.as_ref().filter(|_| n == 1) {
            self.alone(s.first, s.actual, host, tally);
        }
        self.settle(stretch, now, tally, &mut counts);
        core.count_drops(got, &mut counts);
        self.sums.counts.add(&counts);
        core.received(cx, bytes);
        core.packets(cx, &counts);
    }

    /// Counts the datagrams that our socket dropped before `got`, a word: behind the last data only
    /// words carry the counter.
    pub(super) fn overflowed(&mut self, cx: &mut Context<'_>, core: &mut Core, got: &Received<'_>) {
        let mut counts = Packets::default();
        core.count_drops(got, &mut counts);
        if counts.dropped > 0 {
            self.sums.counts.add(&counts);
            core.packets(cx, &counts);
        }
    }

    /// Skips the datagrams of `rest` that continue the run of `header`: of the same `size`, intact,
    /// equal to it but for the number, which grows by one. Returns how many.
    fn pass<'a>(
        &self,
        header: Header,
        size: usize,
        rest: &mut (impl Iterator<Item = &'a [u8]> + Clone),
    ) -> u64 {
        let alike = HeaderTemplate::of(header, self.check);
        let mut passed = 0;
        loop {
            let here = rest.clone();
            let good = |datagram: &&[u8]| {
                datagram.len() == size
                    && alike.heads(header.sequence.wrapping_add(passed + 1), datagram)
                    && (!self.compare || payload::is_start(&datagram[HEADER..]))
            };
            if rest.next().filter(good).is_none() {
                *rest = here;
                return passed;
            }
            passed += 1;
        }
    }

    /// The lowest number above all received ones.
    pub(super) fn next(&self) -> u64 {
        self.sequence.as_ref().map_or(0, |sequence| sequence.next())
    }

    /// Records jitter and delay variation, for a datagram that was received alone at `host`: merged
    /// ones share a stamp. Both stamps are of the ends' own clocks, so that a new estimate of their
    /// offset is no variation.
    fn alone(&mut self, number: u64, actual: u64, host: u64, tally: &mut PacketTally) {
        let transit = host.wrapping_sub(actual) as i64;
        self.jitter.see(transit).into_iter().for_each(|ns| tally.jitter.record(ns));
        self.variation.see(number, transit).for_each(|ns| tally.ipdv_ns.record(ns));
    }

    /// Counts a stretch, all of whose numbers are new.
    fn settle(
        &mut self,
        s: Option<Stretch>,
        now: Option<i64>,
        tally: &mut PacketTally,
        counts: &mut Packets,
    ) {
        let Some(s) = s else { return };
        if self.sequence().see_run(s.first, s.count) {
            tally.saw(Seen::New { gap: 0 });
        } else {
            for number in s.first..s.first + s.count {
                self.see(number, tally, counts);
            }
        }
        counts.received += s.count;
        record_delay(&mut tally.intended_ns, now, s.intended, s.alike);
        self.count_delay(s.actual, s.first, s.count, now, tally, counts);
    }

    /// Records the delay of `n` datagrams from number `first` on that were sent at `actual` and have
    /// arrived for the first time, where it is known.
    fn count_delay(
        &mut self,
        actual: u64,
        first: u64,
        n: u64,
        now: Option<i64>,
        tally: &mut PacketTally,
        counts: &mut Packets,
    ) {
        let took = now.map(|now| now.wrapping_sub(actual as i64));
        if let Some(pairs) = &mut self.pairs {
            for number in first..first + n {
                let arrived = pairs.arrived;
                let account = pairs.account(tally);
                let side = pairs.window.see(number, arrived, account);
                took.iter().for_each(|took| account.sides[side].delay_ns.record((*took).max(0) as u64));
            }
        }
        let Some(took) = took else { return };
        if took < 0 {
            tally.before_sent += n;
            tally.before_sent_ns = tally.before_sent_ns.max(took.unsigned_abs());
        }
        let took = took.max(0) as u64;
        tally.delay_ns.record_n(took, n);
        self.sums.add_delay(took, n);
        if took > self.late_ns {
            counts.late += n;
        }
    }

    /// Notes a received number; true if it is new.
    fn see(&mut self, number: u64, tally: &mut PacketTally, counts: &mut Packets) -> bool {
        let seen = self.sequence().see(number);
        tally.saw(seen);
        counts.saw(seen)
    }

    /// A damaged datagram with this number arrived: the number is not lost, and nothing else is
    /// judged.
    fn see_damaged(&mut self, number: u64, tally: &mut PacketTally, counts: &mut Packets) {
        let seen = self.sequence().see(number);
        tally.saw(seen);
        let mut all = Packets::default();
        all.saw(seen);
        counts.lost = counts.lost.saturating_add(all.lost);
    }

    /// Ends reception: numbers below `total`, the sender's count if known, that have not arrived
    /// count as lost.
    pub(super) fn finish(&mut self, cx: &mut Context<'_>, core: &mut Core, total: Option<u64>) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        let sequence = self.sequence();
        let next = sequence.next();
        let total = total.unwrap_or(next).max(next);
        let arrivals = sequence.finish(total);
        let tail = i64::try_from(total - next).unwrap_or(i64::MAX);
        // Copies of received datagrams stand for no missing number.
        let copies = self.unknown.saturating_sub(arrivals.nameless);
        let mut missing = Packets { lost: tail.saturating_add_unsigned(copies), ..Packets::default() };
        core.count_last_drops(&mut missing);
        self.sums.counts.add(&missing);
        core.packets(cx, &missing);
        let tally = cx.rec.packet_tally(core.group);
        tally.arrivals.merge(&arrivals);
        if let Some(pairs) = &mut self.pairs {
            let account = pairs.account(tally);
            pairs.window.finish(total, account);
        }
        tally.saw(Seen::New { gap: total - next });
        self.sequence = None;
        if let Some(show) = &mut self.show {
            show.finish(total);
            show.report(cx, core, true);
        }
    }
}

/// A datagram of a stream, for its frame.
#[inline]
fn shown(show: &mut Option<Show>, at: Mono, header: &Header, fresh: bool, host: u64) {
    if let Some(show) = show {
        show.on_datagram(at, header, fresh, host);
    }
}

/// Records `n` times the time from `then` to `now`, both by the sender's clock, ns; 0 where that is
/// negative.
#[inline]
fn record_delay(delays: &mut Dist, now: Option<i64>, then: u64, n: u64) {
    if let Some(now) = now {
        delays.record_n(now.wrapping_sub(then as i64).max(0) as u64, n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::{Clock, Group, Recorder};
    use model::{Kind, Phase, Probe};
    use transport::Rng;
    use uuid::Uuid;

    const SIZE: usize = 64;

    /// What a receiver makes of `datagrams` that come so many at a time.
    fn received(datagrams: &[Vec<u8>], at_once: usize) -> (Packets, u64, Vec<(u64, u64)>) {
        let phase = Phase { kind: Kind::Delay, probe: Some(Probe::default()), ..Phase::default() };
        let terms = Terms::of(&phase, Group(1), None).unwrap();
        let mut receiver = Receiver::new(&terms, Check::of(Uuid::nil()), false, 0);
        let (mut rec, mut rng, clock) = (Recorder::default(), Rng::new(1), Clock::default());
        let mut core = Core::new(Group(1), 0, 0);
        core.row = Some(rec.open(Group(1), Mono(0)));
        let mut outbox = Vec::new();
        let mut cx = Context::new(Mono(0), &clock, &mut rng, &mut rec, &mut outbox);
        // Only the last of a run may be shorter.
        for run in
            datagrams.chunks(at_once).flat_map(|run| run.chunk_by(|datagram, _| datagram.len() == SIZE))
        {
            let bytes = run.concat();
            let got = Received { stride: run[0].len(), ..Received::stream(&bytes, Mono(5_000)) };
            receiver.on_received(&mut cx, &mut core, &got, Some(Estimate::default()));
        }
        receiver.finish(&mut cx, &mut core, None);
        let tally = cx.rec.packet_tally(Group(1));
        let delays = [&tally.delay_ns, &tally.intended_ns].map(|d| (d.count(), d.quantile(0.5)));
        (
            core.row.map_or_else(Packets::default, |row| cx.rec.packets_of(row)),
            receiver.sums.counts.received,
            delays.to_vec(),
        )
    }

    #[test]
    fn merged_or_one_by_one_the_same_has_come() {
        let mut rng = Rng::new(11);
        for round in 0..300 {
            let mut datagrams: Vec<Vec<u8>> = Vec::new();
            let (mut actual, mut intended) = (0, 0);
            for sequence in 0..rng.between(1, 400) {
                if rng.between(0, 40) == 0 {
                    actual = sequence;
                }
                if rng.between(0, 40) == 0 {
                    intended = sequence;
                }
                let len = if rng.between(0, 90) == 0 { SIZE - 1 } else { SIZE };
                let mut datagram = vec![0; len];
                payload::start(&mut datagram[HEADER..]);
                let header = Header { sequence, intended, actual, size: len as u16, slot: 0 };
                header.write(Check::of(Uuid::nil()), &mut datagram);
                match rng.between(0, 60) {
                    0 => continue,
                    1 => datagrams.push(datagram.clone()),
                    2 => datagram[rng.between(0, len as u64 - 1) as usize] ^= 1,
                    3 if !datagrams.is_empty() => {
                        let at = rng.between(0, datagrams.len() as u64 - 1) as usize;
                        datagrams.insert(at, datagram);
                        continue;
                    }
                    _ => {}
                }
                datagrams.push(datagram);
            }
            let one_by_one = received(&datagrams, 1);
            assert_eq!(received(&datagrams, 128), one_by_one, "round {round}");
            assert_eq!(received(&datagrams, 7), one_by_one, "round {round}");
        }
    }
}
