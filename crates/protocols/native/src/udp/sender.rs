//! One direction's sender: the schedule, the numbers, the batches.

use super::codec::{Check, HEADER, Header, HeaderTemplate};
use super::terms::Terms;
use super::track::Memory;
use common::kernel::Template;
use metrics::{Clamped, Departure, Ecn, Group, Mono, Packets, SentPacket, Stamp, StampKind, pair_side};
use model::{Media, Probe, Spacing};
use std::collections::VecDeque;
use std::sync::Arc;
use transport::{Context, Rng, Sent, Transmit};

/// One template for all flows of a size: the payload is the same in every datagram.
const TEMPLATE: Template = Template { key: 1 << 63, payload: HEADER };
/// Most datagrams in one send call.
const MOST: usize = 128;
/// Datagrams that are due closer together than this, ps, cannot leave one by one: a call takes
/// about as long.
const CLOSE: u64 = 4_000_000;
/// Datagrams due within this time leave together, ns: with calls of a few datagrams the receiver
/// would be the first to be too slow, because each call costs it more than the sender.
const GATHER: u64 = 10_000;
/// A place in the schedule that is older than this is given up, ns: catching up would delay
/// the datagrams that are due now.
const TOO_LATE: u64 = 1_000_000_000;
/// The same for a sender that keeps its schedule: the time between two datagrams, but no less than
/// a wake-up may take.
const SOON_LATE: u64 = 1_000_000;
/// A turn of a flow that goes both ways as fast as it can takes no longer than this, ns.
const LONGEST_TURN: u64 = 200_000;
/// Transmit stamps that are waited for at once.
const MOST_ASKED: usize = 64;

/// Datagrams of a stream's frames: all as long as possible, but the last is never shorter than a
/// header; the one before it gives. And the datagram to plan next.
#[derive(Debug)]
struct Frames {
    media: Media,
    each: u64,
    /// Length of the last of them, and of the one before it.
    last: u64,
    before: u64,
    /// The next datagram's frame, its place in it, and when the frame is due, ns after the start.
    frame: u64,
    place: u64,
    due_ns: u64,
}

impl Frames {
    fn new(media: Media) -> Self {
        let most = u64::from(media.datagram).max(1);
        let (full, rest) = (media.frame_size / most, media.frame_size % most);
        let least = u64::clamped(HEADER);
        let (each, last, before) = match rest {
            0 => (full, most, most),
            _ if full > 0 && rest < least => (full + 1, least, most - (least - rest)),
            _ => (full + 1, rest, most),
        };
        Frames { media, each: each.max(1), last, before, frame: 0, place: 0, due_ns: 0 }
    }

    /// Length of the datagram at a place, which may lie in the next frame.
    fn size(&self, place: u64) -> usize {
        let place = if place < self.each { place } else { place % self.each };
        let size = match self.each - place {
            1 => self.last,
            2 => self.before,
            _ => self.media.datagram.into(),
        };
        usize::clamped(size)
    }

    /// When the next datagram is due, ns after the start.
    fn next_ns(&self) -> u64 {
        if !self.media.spread {
            return self.due_ns;
        }
        self.due_ns + self.media.due_ns(1) * self.place / self.each
    }

    fn advance(&mut self) {
        self.place += 1;
        if self.place == self.each {
            (self.frame, self.place) = (self.frame + 1, 0);
            self.due_ns = self.media.due_ns(self.frame);
        }
    }

    /// True after the last one.
    fn is_over(&self) -> bool {
        self.frame >= self.media.frames
    }
}

/// Number of datagrams of a frame of `media`.
pub(super) fn datagrams_of(media: &Media) -> u64 {
    Frames::new(*media).each
}

/// True if any datagram of data has `size` bytes.
pub(super) fn sends_size(terms: &Terms, size: usize) -> bool {
    match terms.media {
        None => usize::clamped(terms.probe.size) == size,
        Some(media) => {
            let frames = Frames::new(media);
            // All but the last two of a frame are alike.
            (frames.each.saturating_sub(3)..frames.each).any(|place| frames.size(place) == size)
        }
    }
}

/// Progress of a sender.
#[derive(Debug, Default)]
struct Progress {
    /// When it begins and ends.
    span: Option<(Mono, Mono)>,
    /// The next intended time after the pending ones, ns after the start, and its fraction in ps.
    next_ns: u64,
    next_ps: u64,
    /// Intended times of datagrams that have not left, in order.
    pending: Vec<Mono>,
    /// Number of them in the last offer, and its time.
    offered: usize,
    actual: Mono,
    sent: u64,
    over: bool,
    /// The number of the next place in the schedule of trains.
    planned: u64,
    /// Delay of the rest of the present train after its plan, ns.
    shift_ns: u64,
    /// True if datagrams wait for the next ones, to leave in one call.
    gathers: bool,
    /// Datagrams with a pending kernel stamp: tag, number, the program's stamp.
    asked: VecDeque<(u32, u64, Mono)>,
    /// The socket took no more at this time.
    full: Option<Mono>,
}

/// The turns of a flow that sends and receives as fast as it can. An end that receives fewer
/// datagrams has more time to send; the peer then has more to read and sends less, until one end
/// only sends and the other loses most of it. So a turn that received fewer bytes than it sent
/// takes as long as a turn that received as many.
#[derive(Debug, Default)]
struct Turns {
    last: Mono,
    /// Bytes that left at `last`, and bytes that arrived since.
    left: usize,
    came: usize,
    /// Time of a turn in which the arrived bytes equal the sent ones, ns.
    takes: u64,
}

impl Turns {
    /// When the next one may begin.
    fn next(&self) -> Mono {
        if self.is_full() { self.last } else { self.last.plus(self.takes) }
    }

    fn is_full(&self) -> bool {
        self.came >= self.left
    }

    fn begin(&mut self, now: Mono, left: usize) {
        let took = now.since(std::mem::replace(&mut self.last, now));
        if self.left > 0 && self.is_full() {
            let before = if self.takes == 0 { took } else { self.takes };
            // A held-up turn is no measure of the others.
            let took = took.min(2 * before);
            self.takes = (before - before / 8 + took / 8).min(LONGEST_TURN);
        }
        (self.left, self.came) = (left, 0);
    }
}

/// A sender. Begins at the given start, and ends with its schedule or when it is stopped.
pub(super) struct Sender {
    terms: Arc<Terms>,
    probe: Probe,
    frames: Option<Frames>,
    slot: u32,
    check: Check,
    rng: Rng,
    /// Mean time between datagrams, ps; 0 for as fast as it goes.
    gap_ps: u64,
    /// Of one without a schedule whose flow receives as well.
    turns: Option<Turns>,
    log: Vec<Departure>,
    /// Latest use of a place.
    too_late: u64,
    progress: Progress,
    /// Every datagram that left, when they are to be reported.
    pub(super) memory: Option<Box<Memory<SentPacket>>>,
}

impl Sender {
    pub(super) fn new(terms: &Arc<Terms>, slot: u32, check: Check, seed: u64) -> Self {
        let (probe, train) = (terms.probe, &terms.train);
        let both_ways = terms.pattern.sends_up() && terms.pattern.sends_down();
        let packets = train.as_ref().map_or(0, |train| train.total().min(model::MOST_TRAIN_PACKETS));
        let gap_ps = probe.gap_ps(terms.rate);
        Sender {
            // Every packet of a train is a send call; their places are the schedule.
            gap_ps: if train.is_some() { 1 } else { gap_ps },
            turns: (gap_ps == 0 && terms.media.is_none() && both_ways && !terms.echo()).then(Turns::default),
            probe,
            frames: terms.media.map(Frames::new),
            slot,
            check,
            rng: Rng::new(seed),
            log: Vec::with_capacity(packets as usize),
            too_late: if probe.nonblock { (gap_ps / 1_000).max(SOON_LATE) } else { TOO_LATE },
            progress: Progress { pending: Vec::with_capacity(MOST), ..Progress::default() },
            memory: Memory::of(terms),
            terms: Arc::clone(terms),
        }
    }

    /// True while a train is partly sent.
    pub(super) fn mid_train(&self) -> bool {
        let Some(train) = &self.terms.train else { return false };
        let packets = u64::from(train.packets.max(1));
        !self.progress.over
            && (!self.progress.pending.is_empty() || !self.progress.planned.is_multiple_of(packets))
    }

    /// Its begin, and its departures.
    pub(super) fn take_log(&mut self) -> (Option<Mono>, Vec<Departure>) {
        (self.progress.span.map(|(start, _)| start), std::mem::take(&mut self.log))
    }

    /// Sets when it begins and ends, once.
    pub(super) fn begin(&mut self, start: Mono, end: Mono) {
        if self.progress.span.is_none() {
            self.progress.span = Some((start, end));
        }
    }

    pub(super) fn stop(&mut self) {
        self.progress.over = true;
        self.progress.pending.clear();
    }

    /// True if its schedule is over, or it was stopped.
    pub(super) fn is_over(&self) -> bool {
        self.progress.over
    }

    pub(super) fn sent(&self) -> u64 {
        self.progress.sent
    }

    /// When it wants to send next.
    pub(super) fn due(&self) -> Option<Mono> {
        let (start, _) = self.progress.span.filter(|_| !self.progress.over)?;
        Some(match self.progress.pending.first() {
            Some(&first) => first,
            None if self.flat_out() => self.turns.as_ref().map_or(start, |turns| turns.next().max(start)),
            None => self.at(start).plus(if self.progress.gathers { GATHER } else { 0 }),
        })
    }

    /// Without a schedule.
    fn flat_out(&self) -> bool {
        self.gap_ps == 0 && self.frames.is_none()
    }

    /// When the next datagram that is not pending is due.
    fn at(&self, start: Mono) -> Mono {
        if let Some(train) = &self.terms.train {
            let place = train.place(self.progress.planned);
            return start.plus(place.intended_ns.saturating_add(self.progress.shift_ns));
        }
        if let Some(frames) = &self.frames {
            return start.plus(frames.next_ns());
        }
        start.plus(self.progress.next_ns)
    }

    /// Offers the datagrams that are due, as many as one send call takes; how many places in the
    /// schedule were given up before.
    pub(super) fn prepare_send(&mut self, cx: &mut Context<'_>, group: Group, out: &mut Transmit<'_>) -> u64 {
        let mut given_up = 0;
        let size = usize::clamped(self.probe.size);
        // All datagrams of a call have one traffic class.
        let alone = self.terms.train.is_some() || self.probe.paired.is_some();
        let one = if alone { 1 } else { MOST };
        let most = out.segments().min(out.room() / size).min(one);
        self.progress.actual = cx.now;
        let rated = self.terms.train.is_none() && self.frames.is_none() && self.gap_ps > 0;
        self.progress.gathers = rated && self.gap_ps < CLOSE && most > 1;
        if let Some(since) = self.progress.full.take() {
            cx.rec.packet_tally(group).blocked_ns += cx.now.since(since);
        }
        if self.probe.nonblock && self.gap_ps > 0 && self.frames.is_none() {
            given_up = self.give_up(cx.now);
        }
        self.plan(cx.now, most);
        let (n, bytes) = self.batch(self.progress.pending.len().min(most));
        self.progress.offered = n;
        if n == 0 {
            return given_up;
        }
        out.tos = self.paired_class();
        if n == 1 && self.probe.tx_stamps {
            out.tag = Some(self.progress.sent as u32);
        }
        cx.rec.tally(group).late_ns.record(cx.now.since(self.progress.pending[0]));
        // All datagrams of a call have one length, but for a shorter last one.
        let size = self.size(self.progress.sent);
        let actual = cx.clock.host(cx.now);
        let bytes = TEMPLATE.offer(out, size, bytes);
        let (check, slot) = (self.check, self.slot);
        let template = |at: Mono, size: usize| {
            let intended = cx.clock.host(at);
            HeaderTemplate::of(Header { sequence: 0, intended, actual, size: size as u16, slot }, check)
        };
        let (mut sequence, mut rest) = (self.progress.sent, bytes);
        for due in self.progress.pending[..n].chunk_by(|at, next| at == next) {
            let (these, others) = rest.split_at_mut((due.len() * size).min(rest.len()));
            rest = others;
            let whole = template(due[0], size);
            let mut datagrams = these.chunks_exact_mut(size);
            for datagram in &mut datagrams {
                whole.write(sequence, datagram);
                sequence += 1;
            }
            let shorter = datagrams.into_remainder();
            if !shorter.is_empty() {
                template(due[0], shorter.len()).write(sequence, shorter);
            }
        }
        given_up
    }

    /// Traffic class octet of the next datagram, where datagrams have two codepoints.
    fn paired_class(&self) -> Option<u8> {
        let (sockets, seed) = (&self.terms.sockets, self.probe.pairs_seed(self.slot));
        let both = [sockets.ecn.unwrap_or_default(), self.probe.paired?];
        let class: Ecn = both[pair_side(seed, self.progress.sent)];
        Some(sockets.dscp.unwrap_or(0) << 2 | class.bits())
    }

    /// Length of datagram `number`.
    fn size(&self, number: u64) -> usize {
        let whole = usize::clamped(self.probe.size);
        self.frames.as_ref().map_or(whole, |frames| frames.size(number % frames.each))
    }

    /// Number of the `n` due datagrams that may leave in one call, and their bytes.
    fn batch(&self, n: usize) -> (usize, usize) {
        let Some(frames) = &self.frames else { return (n, n * usize::clamped(self.probe.size)) };
        let place = self.progress.sent % frames.each;
        let first = frames.size(place);
        let (mut count, mut bytes) = (0, 0);
        while count < n {
            let size = frames.size(place + u64::clamped(count));
            if size > first {
                break;
            }
            (count, bytes) = (count + 1, bytes + size);
            if size < first {
                break;
            }
        }
        (count, bytes)
    }

    /// Draws intended times until `most` are pending or the next is not due.
    fn plan(&mut self, now: Mono, most: usize) {
        let Some((start, end)) = self.progress.span else { return };
        if self.flat_out() {
            if now >= end {
                self.progress.over = true;
            } else if now >= start {
                self.progress.pending.resize(most.max(self.progress.pending.len()), now);
            }
            return;
        }
        while self.progress.pending.len() < most {
            let at = self.at(start);
            if at > now {
                break;
            }
            if at >= end || self.no_more() {
                self.progress.over = self.progress.pending.is_empty();
                break;
            }
            self.progress.pending.push(at);
            self.shift(now.since(at));
            self.advance();
        }
    }

    /// A packet of a train that is more than a wait late shifts those behind it in its train: the
    /// purpose of a train is the time between its packets, and a sender that makes up for lost time
    /// sends them back to back. The shift uses the room before the next train: none is delayed by
    /// the one before it.
    fn shift(&mut self, late_ns: u64) {
        let Some(train) = &self.terms.train else { return };
        let (place, next) = (train.place(self.progress.planned), train.place(self.progress.planned + 1));
        let wait = train.waits_ns.get(usize::clamped(place.setting)).copied().unwrap_or(0);
        if next.train != place.train {
            self.progress.shift_ns = 0;
        } else if wait > 0 && late_ns > wait {
            let behind = (u64::from(place.train) + 1) * u64::from(train.packets.max(1));
            let end = train.place(behind - 1).intended_ns.saturating_add(wait);
            let room = train.place(behind).intended_ns.saturating_sub(end);
            self.progress.shift_ns = self.progress.shift_ns.saturating_add(late_ns).min(room);
        }
    }

    /// True if all frames have left, or are about to.
    fn no_more(&self) -> bool {
        self.frames.as_ref().is_some_and(Frames::is_over)
    }

    /// Another place in the schedule is taken, or given up.
    fn advance(&mut self) {
        if let Some(frames) = &mut self.frames {
            return frames.advance();
        }
        let ps = self.progress.next_ps.saturating_add(self.step());
        self.progress.next_ns = self.progress.next_ns.saturating_add(ps / 1_000);
        self.progress.next_ps = ps % 1_000;
    }

    /// Time to the next datagram, ps.
    fn step(&mut self) -> u64 {
        let number = self.progress.planned;
        self.progress.planned += 1;
        match self.probe.spacing {
            Spacing::Trace => {
                let ns = self.terms.trace.as_ref().map_or(self.gap_ps / 1_000, |trace| trace.gap_ns(number));
                ns.saturating_mul(1_000)
            }
            Spacing::Fixed => self.gap_ps,
            Spacing::Uniform => self.rng.between(0, self.gap_ps.saturating_mul(2)),
            Spacing::Poisson => self.rng.exponential(self.gap_ps),
        }
    }

    /// Notes received data of the flow, bytes.
    pub(super) fn add_received(&mut self, bytes: usize) {
        if let Some(turns) = &mut self.turns {
            turns.came = turns.came.saturating_add(bytes);
        }
    }

    /// Result of the offer: departures, and given-up datagrams.
    pub(super) fn on_sent(&mut self, cx: &Context<'_>, n: Sent) -> Packets {
        let gone = n.bytes.div_ceil(self.size(self.progress.sent).max(1)).min(self.progress.offered);
        let progress = &mut self.progress;
        if let Some(turns) = &mut self.turns {
            turns.begin(progress.actual, n.bytes);
        }
        let mut count = Packets { sent: u64::clamped(gone), ..Packets::default() };
        let mut drop = gone;
        let sent_ns = cx.clock.host_signed(progress.actual);
        if self.terms.train.is_some() {
            let first = progress.planned - progress.pending.len() as u64;
            self.log.extend((0..gone as u64).map(|i| Departure { place: u32::clamped(first + i), sent_ns }));
        }
        if gone == 1 && progress.offered == 1 && self.probe.tx_stamps {
            if progress.asked.len() == MOST_ASKED {
                progress.asked.pop_front();
            }
            progress.asked.push_back((progress.sent as u32, progress.sent, progress.actual));
        }
        if let Some(memory) = &mut self.memory {
            for at in progress.pending.iter().take(gone) {
                let intended_ns = cx.clock.host_signed(*at);
                memory.push(SentPacket { intended_ns, sent_ns, stamp: StampKind::User });
            }
        }
        if n.fault.is_some() {
            // Refused is refused: the same datagrams would be again.
            drop = progress.offered;
            count.refused = 1;
            count.unsent = u64::clamped(progress.offered - gone);
        }
        progress.full = (n.fault.is_none() && gone < progress.offered).then_some(cx.now);
        progress.pending.drain(..drop.min(progress.pending.len()));
        progress.offered = 0;
        // A datagram's number determines its frame, so refused datagrams use up numbers.
        progress.sent += if self.frames.is_some() { drop } else { gone } as u64;
        if self.frames.is_some() {
            // A stream makes up for late datagrams: its frames are wanted all the same.
        } else if self.gap_ps == 0 {
            // A datagram without room has missed no place in a schedule.
            progress.pending.clear();
        } else {
            count.unsent += self.give_up(cx.now);
        }
        if let Some((start, end)) = self.progress.span
            && self.progress.pending.is_empty()
        {
            let next = if self.flat_out() { cx.now } else { self.at(start) };
            self.progress.over |= next >= end || self.no_more();
        }
        count
    }

    /// The kernel says when a datagram left; how long after the program's stamp that was, ns.
    pub(super) fn stamped(&mut self, cx: &Context<'_>, tag: u32, stamp: Stamp) -> Option<u64> {
        let at = self.progress.asked.iter().position(|asked| asked.0 == tag)?;
        let (_, number, actual) = self.progress.asked.drain(..=at).next_back()?;
        if let Some(left) = self.memory.as_mut().and_then(|memory| memory.at(number)) {
            (left.sent_ns, left.stamp) = (cx.clock.host_signed(stamp.at), stamp.kind);
        }
        Some(stamp.at.since(actual))
    }

    /// Gives up all places that are far too late; how many.
    fn give_up(&mut self, now: Mono) -> u64 {
        let late = self.progress.pending.iter().take_while(|at| now.since(**at) > self.too_late).count();
        self.progress.pending.drain(..late);
        late as u64 + self.skip(now)
    }

    /// Skips places of the schedule that are overdue beyond `too_late` and not pending yet; returns
    /// their number.
    fn skip(&mut self, now: Mono) -> u64 {
        let Some((start, end)) = self.progress.span else { return 0 };
        let mut skipped = 0;
        while self.at(start) < end && now.since(self.at(start)) > self.too_late {
            self.advance();
            skipped += 1;
        }
        skipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::{Clock, Recorder};
    use model::{Kind, Phase, Train};
    use transport::{Arena, Message};
    use uuid::Uuid;

    /// When the packets of `train` leave, ns after the start, on a host that does nothing for so
    /// long when the first is due, and again before the tenth packet of the first train.
    fn departures(train: Train, held_up: [u64; 2]) -> Vec<i64> {
        let phase = Phase {
            kind: Kind::Train,
            probe: Some(Probe::default()),
            train: Some(train.clone()),
            ..Phase::default()
        };
        let terms = Arc::new(Terms::of(&phase, Group(1), None).unwrap());
        let check = Check::of(Uuid::nil());
        let mut sender = Sender::new(&terms, 0, check, 1);
        sender.begin(Mono(0), Mono(train.duration_ns()));
        let (mut rec, mut rng, clock) = (Recorder::default(), Rng::new(1), Clock::default());
        let (mut outbox, mut arena): (Vec<Message>, _) = (Vec::new(), Arena::new(4096));
        let mut now = Mono(held_up[0]);
        while let Some(due) = sender.due() {
            if sender.sent() == 9 {
                now = now.plus(held_up[1]);
            }
            now = now.max(due);
            let mut cx = Context::new(now, &clock, &mut rng, &mut rec, &mut outbox);
            let mut out = Transmit::new(&mut arena, 4096);
            sender.prepare_send(&mut cx, Group(1), &mut out);
            let bytes = out.len();
            sender.on_sent(&cx, Sent { bytes, fault: None });
        }
        sender.take_log().1.iter().map(|left| left.sent_ns).collect()
    }

    #[test]
    fn a_train_that_is_held_up_keeps_its_spacing() {
        let wait = 10_000;
        let train =
            Train { packets: 20, waits_ns: vec![wait], repeat: 2, every_ns: 1_000_000, ..Train::default() };
        let times = |held_up| departures(train.clone(), held_up);
        let places = || train.places().map(|place| place.intended_ns as i64);
        assert_eq!(times([0, 0]), places().collect::<Vec<_>>(), "nothing is late");
        // Less than a wait is made up for.
        let late = times([wait - 1, 0]);
        assert_eq!((late[0], late[1], late[39]), (wait as i64 - 1, wait as i64, 1_000_000 + 190_000));
        // More is not, but the next train begins when it was to.
        let late = times([50_000, 200_000]);
        let gaps: Vec<i64> = late.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mut expected = [wait as i64; 39];
        (expected[8], expected[19]) = (200_000, 1_000_000 - late[19]);
        assert_eq!((late.len(), late[0], gaps), (40, 50_000, expected.to_vec()));
        // Nor does a train delay the next: where there is no room for it, it is made up for what is
        // left.
        let late = times([0, 900_000]);
        assert_eq!((late[9], late[10], late[18]), (980_000, 980_000, 980_000), "until it has caught up");
        assert_eq!((late[19], late[20], late[39]), (990_000, 1_000_000, 1_190_000));
    }
}
