//! The sending end of a test: bursts at the intervals of a row.
//!
//! 1. Each transmitter of the row has a schedule of its own. A tick begins with the present row: a
//!    new row takes effect at the next tick of either transmitter.
//! 2. Ticks keep the schedule; one that is late by more than [`TOO_LATE`] begins a new schedule.
//! 3. Datagrams that the socket does not take before the next tick are given up, and their numbers
//!    are used by the next ones: drops of our own host are no losses of the path.

use super::proof::Proof;
use super::{BURST, LOAD, Load, Moment, Row, Size, Transmitter};
use crate::kernel::Core;
use metrics::{Clamped, Clock, Mono, Packets};
use transport::{Context, Sent, Transmit, When};

/// A schedule that is late by more is given up, ns.
const TOO_LATE: u64 = 10_000_000;
/// Bytes that IPv6 has more than IPv4 in each packet.
const IPV6_MORE: u32 = 20;
/// Smallest datagram of IPv4, bytes; that of IPv6 is a header.
const SMALLEST: u32 = 52;
/// Most datagrams of a send call.
const MOST: usize = 64;
/// Name of prepared datagrams in a worker's arena.
const TEMPLATE: u64 = 0x7564_7073_0000_0000;
const RANDOM_TEMPLATE: u64 = 0x7564_7072_0000_0000;

/// The last Status PDU, for the next datagrams.
#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    /// Its number and its time.
    number: u32,
    sent: Moment,
    /// When it arrived.
    at: Mono,
    /// Status PDUs missing before it; 65535: it was out of order.
    errors: u16,
}

/// Datagrams of a tick that have not left.
#[derive(Clone, Copy, Debug, Default)]
struct Burst {
    left: u32,
    size: Size,
    addon: Size,
    /// Time of the tick, and the time at which the remaining ones are given up.
    at: Mono,
    until: Mono,
}

impl Burst {
    fn is_over(&self) -> bool {
        self.left == 0 && self.addon.bytes == 0
    }

    fn datagrams(&self) -> u64 {
        u64::from(self.left) + u64::from(self.addon.bytes > 0)
    }
}

/// A sender of load.
pub(crate) struct LoadSender {
    row: Row,
    due: [Option<Mono>; 2],
    burst: Burst,
    /// Number of the next datagram.
    number: u32,
    v6: bool,
    /// Filler is random.
    random: bool,
    heard: Option<Heard>,
    /// Size and number of the datagrams offered last; true if the additional one was.
    offered: (usize, u64, bool),
    /// Datagrams longer than this are sent one by one: the kernel refused to cut a run of them.
    alone_from: usize,
    /// Since the test is to stop, a tick has one datagram.
    pub(crate) action: u8,
    /// Only datagrams that prove the address may leave.
    held: bool,
}

impl LoadSender {
    /// A sender that begins with this row, at a random time of the first 5 to 50 ms; with `held`
    /// after [`LoadSender::release`].
    pub(crate) fn new(cx: &mut Context<'_>, row: Row, v6: bool, random: bool, held: bool) -> Self {
        let row = bounded(row);
        let mut sender = LoadSender {
            row,
            due: [None; 2],
            burst: Burst::default(),
            number: 1,
            v6,
            random,
            heard: None,
            offered: (0, 0, false),
            alone_from: usize::MAX,
            action: 0,
            held,
        };
        for (due, one) in sender.due.iter_mut().zip(row.transmitters) {
            let at = cx.now.plus(cx.rng.between(5_000_000, 50_000_000));
            *due = (one.interval_us > 0 && !held).then_some(at);
        }
        sender
    }

    /// The address is proven: the row begins.
    pub(crate) fn release(&mut self, cx: &Context<'_>) {
        self.held = false;
        self.set_row(cx.now, self.row);
    }

    /// Another row from the next tick on.
    pub(crate) fn set_row(&mut self, now: Mono, row: Row) {
        let row = bounded(row);
        self.row = row;
        if self.due == [None, None] && !self.held {
            // No tick would ever be.
            for (due, one) in self.due.iter_mut().zip(row.transmitters) {
                *due = (one.interval_us > 0).then_some(now);
            }
        }
    }

    /// A Status PDU has arrived; false if it was out of order.
    pub(crate) fn on_status(&mut self, at: Mono, number: u32, sent: Moment) -> bool {
        let before = self.heard.map_or(0, |heard| heard.number);
        let errors = match number.wrapping_sub(before) {
            n if n > 0 && n <= u32::MAX / 2 => u16::try_from(n - 1).unwrap_or(u16::MAX - 1),
            _ => u16::MAX,
        };
        let is_next = errors != u16::MAX;
        let number = if is_next { number } else { before };
        self.heard = Some(Heard { number, sent, at, errors });
        is_next
    }

    /// Reports missing before the last one.
    pub(crate) fn reports_lost(&self) -> u16 {
        self.heard.map_or(0, |heard| heard.errors).checked_rem(u16::MAX).unwrap_or(0)
    }

    /// When the next datagram is due.
    pub(crate) fn interest(&self, proof: Option<&Proof>) -> When {
        if let Some(proof) = proof {
            return proof.due().map_or(When::Never, When::At);
        }
        if !self.burst.is_over() {
            return When::Now;
        }
        self.due.into_iter().flatten().min().map_or(When::Never, When::At)
    }

    /// The least UDP payload of a datagram, bytes.
    fn least(&self) -> u32 {
        if self.v6 { LOAD as u32 } else { SMALLEST }
    }

    /// The size of a datagram, bytes.
    fn draw(&self, cx: &mut Context<'_>, size: Size) -> usize {
        let most = if self.v6 && size.bytes >= SMALLEST { size.bytes - IPV6_MORE } else { size.bytes };
        let most = most.clamp(self.least(), 65_507);
        let drawn = match size.random {
            true => cx.rng.between(self.least().into(), most.into()),
            false => most.into(),
        };
        usize::clamped(drawn)
    }

    /// Begins the tick that is due, if one is.
    fn tick(&mut self, now: Mono) {
        let first = self.due.iter().flatten().min().copied();
        let Some(n) = self.due.iter().position(|due| due.is_some() && *due == first) else { return };
        let Some(due) = first.filter(|due| *due <= now) else { return };
        let late = now.since(due) > TOO_LATE;
        let from = if late { now } else { due };
        let intervals = self.row.transmitters.map(|one| u64::from(one.interval_us) * 1_000);
        let next = (intervals[n] > 0).then(|| from.plus(intervals[n]));
        let other = 1 - n;
        self.due[n] = next;
        if intervals[other] == 0 {
            self.due[other] = None;
        } else {
            self.due[other].get_or_insert(from.plus(intervals[other]));
        }
        let one = self.row.transmitters[n];
        let (left, addon) = match self.action {
            0 => (one.burst, if n == 1 { self.row.addon } else { Size::default() }),
            _ if one.burst > 0 => (1, Size::default()),
            _ => (0, if n == 1 { self.row.addon } else { Size::default() }),
        };
        let until = next.unwrap_or(Mono(u64::MAX));
        self.burst = Burst { left, size: one.size, addon, at: now, until };
    }

    /// Offers datagrams that are due; with `is_last` one that ends the test.
    pub(crate) fn prepare_send(
        &mut self,
        cx: &mut Context<'_>,
        core: &Core,
        (silent, is_last): (bool, bool),
        proof: Option<&mut Proof>,
        out: &mut Transmit<'_>,
    ) {
        if is_last || proof.is_some() {
            let size = match is_last {
                true => u64::from(self.least()),
                false => Proof::draw(cx.rng),
            };
            self.burst = Burst { addon: Size::just(u32::clamped(size)), at: cx.now, ..Burst::default() };
            self.offered = (usize::clamped(size), 1, true);
            self.fill(cx, silent, out);
            return;
        }
        if cx.now >= self.burst.until && !self.burst.is_over() {
            let unsent = self.burst.datagrams();
            core.packets(cx, &Packets { unsent, ..Packets::default() });
            self.burst = Burst::default();
        }
        while self.burst.is_over() && self.due.into_iter().flatten().any(|due| due <= cx.now) {
            self.tick(cx.now);
        }
        if self.burst.is_over() {
            return;
        }
        let addon = self.burst.left == 0;
        let size = self.draw(cx, if addon { self.burst.addon } else { self.burst.size });
        let many = !addon && !self.burst.size.random && size < self.alone_from;
        let most = if many { out.segments().min(out.room() / size.max(1)).min(MOST) } else { 1 };
        let n = if addon { 1 } else { u64::from(self.burst.left).min(u64::clamped(most.max(1))) };
        self.offered = (size, n, addon);
        self.fill(cx, silent, out);
    }

    fn fill(&self, cx: &mut Context<'_>, silent: bool, out: &mut Transmit<'_>) {
        let (size, n, _) = self.offered;
        let all = size * usize::clamped(n);
        if all > size {
            out.segment = u16::clamped(size);
        }
        // The sizes of datagrams with headers at other places must differ in their name.
        let key = (if self.random { RANDOM_TEMPLATE } else { TEMPLATE }) | u64::clamped(size);
        let rng = &mut *cx.rng;
        let bytes = out.template(key, all, |arena| match self.random {
            true => arena.chunks_mut(8).for_each(|chunk| {
                let word = rng.next().to_be_bytes();
                chunk.copy_from_slice(&word[..chunk.len()]);
            }),
            false => arena.fill(0),
        });
        let mut load = self.header(cx.clock, self.burst.at, silent);
        load.length = u16::clamped(size);
        for datagram in bytes.chunks_mut(size) {
            if let Some(head) = datagram.first_chunk_mut() {
                *head = load.encode();
            }
            load.number = load.number.wrapping_add(1);
        }
    }

    /// The header of the next datagram.
    fn header(&self, clock: &Clock, at: Mono, silent: bool) -> Load {
        let heard = self.heard.unwrap_or_default();
        let waited = self.heard.map_or(0, |heard| (at.since(heard.at) + 500_000) / 1_000_000);
        Load {
            action: self.action,
            silent,
            number: self.number,
            length: 0,
            status_errors: heard.errors,
            echoed: heard.sent,
            sent: Moment::of(clock.wall(at)),
            response_ms: u16::clamped(waited),
        }
    }

    /// The kernel took this much of the offer: sent datagrams and given up ones.
    pub(crate) fn on_sent(&mut self, n: Sent) -> Packets {
        let (size, offered, addon) = self.offered;
        let sent = u64::clamped(n.bytes.div_ceil(size.max(1))).min(offered);
        self.number = self.number.wrapping_add(u32::clamped(sent));
        if addon && sent > 0 {
            self.burst.addon = Size::default();
        } else if !addon {
            self.burst.left = self.burst.left.saturating_sub(u32::clamped(sent));
        }
        let mut counts = Packets { sent, ..Packets::default() };
        if n.fault.is_some() {
            counts.refused = 1;
            if offered > 1 && sent == 0 {
                // A run of datagrams that each pass, where the kernel cuts no run of this size.
                self.alone_from = self.alone_from.min(size);
                return counts;
            }
            counts.unsent = self.burst.datagrams();
            self.burst = Burst::default();
        }
        counts
    }
}

/// Shortest interval of a transmitter, µs.
const SHORTEST_US: u32 = 100;

/// A row within the bounds of the table: one arrives in each report of a server.
fn bounded(row: Row) -> Row {
    let transmitters = row.transmitters.map(|one| Transmitter {
        interval_us: if one.interval_us == 0 { 0 } else { one.interval_us.max(SHORTEST_US) },
        burst: one.burst.min(BURST),
        ..one
    });
    Row { transmitters, ..row }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_a_server_is_bounded() {
        let wild = Transmitter { interval_us: 1, size: Size::just(u32::MAX), burst: u32::MAX };
        let row = bounded(Row { transmitters: [wild, Transmitter::default()], ..Row::default() });
        let [first, second] = row.transmitters;
        assert_eq!((first.interval_us, first.burst, second.interval_us), (100, 100, 0));
    }
}
