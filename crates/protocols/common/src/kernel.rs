//! The common account of all protocols' kernels: the connection of a flow, its row, its path, the
//! time of its last bytes, and its ending. A protocol adds its framing.
//!
//! Nothing here is generic: protocols call it, and their own code is all that is compiled for each.

use crate::drops::Drops;
use crate::message::post_event;
use crate::payload;
use crate::pending::PendingPeers;
use metrics::{Clamped, Ending, Frames, Group, Mono, Packets, Recorder, Row, SECOND, Window};
use model::Event;
use std::any::Any;
use transport::{
    Checked, Context, End, Flow, FlowId, Interest, Path, Patience, Received, Sent, Transmit, Violation,
};
use uuid::Uuid;

/// The wait for a sign of the peer at the end of a connection that its protocol ends without one:
/// shorter than the time that sessions give connections to end.
pub const CONFIRMED: Patience = Patience::of("no sign of the peer", 4 * SECOND);

/// Which way paced payload goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacedWay {
    /// Bytes leave.
    Sent,
    /// Bytes arrive.
    Received,
}

/// The account of one flow.
#[derive(Debug, Default)]
pub struct Core {
    /// The group that counts it.
    pub group: Group,
    /// Its row, once it is up.
    pub row: Option<Row>,
    /// Its identifier, known to both ends; nil until then.
    pub id: Uuid,
    /// Which of the concurrent connections it is.
    pub slot: u32,
    /// Its addresses, once it is up.
    pub path: Option<Path>,
    /// Time of the last bytes, or of its establishment.
    pub moved: Mono,
    /// Longest time without progress, ns.
    pub stall_ns: u64,
    /// Bytes that the kernel had still to send, or to see acknowledged, when it was last asked, and
    /// the value of `moved` at that time.
    queued: Option<(Mono, u64)>,
    /// Its ending, once decided, and true if by RST.
    pub over: Option<(Ending, bool)>,
    /// The session is notified once the connection is up.
    arrivals: bool,
    /// The worker on which it belongs, while it is on another.
    leave: Option<u16>,
    /// `Up` was delivered on the accepting worker.
    came_in: bool,
    /// The kernel refused a send: later reads return earlier bytes only. And true once such a read
    /// had bytes.
    broken: bool,
    read_on: bool,
    /// When the first paced payload left, and arrived.
    paced: [Option<Mono>; 2],
    /// Drops of its socket.
    drops: Drops,
    /// Its place among others, given back when it goes.
    place: Option<Box<dyn Any + Send>>,
}

impl Core {
    /// The account of the connection in `slot`, counted in `group`, which is stalled after
    /// `stall_ns` without progress.
    pub fn new(group: Group, slot: u32, stall_ns: u64) -> Self {
        Core { group, slot, stall_ns, ..Core::default() }
    }

    /// The same with this identifier.
    #[must_use]
    pub fn with_id(self, id: Uuid) -> Self {
        Core { id, ..self }
    }

    /// The same; with `arrivals` its session is notified when the connection is up.
    #[must_use]
    pub fn telling(self, arrivals: bool) -> Self {
        Core { arrivals, ..self }
    }

    /// Keeps a place among others until the flow ends.
    pub fn keep(&mut self, place: impl Any + Send) {
        self.place = Some(Box::new(place));
    }

    /// The flow belongs to this worker, and will move there.
    pub fn leave_for(&mut self, to: Option<u16>) {
        self.leave = to;
    }

    /// The link is up. On a worker that the flow leaves, the first `Up` is passed over.
    pub fn up(&mut self, cx: &mut Context<'_>, path: Path) {
        if self.leave.is_some() && !std::mem::replace(&mut self.came_in, true) {
            return;
        }
        self.leave = None;
        if self.arrivals {
            let Path { local, peer: remote } = path;
            post_event(cx, Event::Established { local, remote, at_ns: cx.now.0 });
        }
        (self.path, self.moved) = (Some(path), cx.now);
        self.row.get_or_insert_with(|| cx.rec.open(self.group, cx.now));
    }

    /// True if its peer has an IPv6 address; an IPv4 address in the form of an IPv6 one, as a
    /// socket for both shows it, is none.
    pub fn is_v6(&self) -> bool {
        self.path.is_some_and(|path| path.peer.ip().to_canonical().is_ipv6())
    }

    /// Its name in records and logs.
    pub fn id(&self) -> FlowId {
        FlowId { row: self.row, id: self.id, slot: self.slot }
    }

    /// All that it asks for, where that is to end or to go elsewhere.
    pub fn last_interest(&self) -> Option<Interest> {
        let end = match (self.over, self.leave) {
            (Some((how, reset)), _) => End::Done { how, reset },
            (None, Some(to)) => End::Migrate(to),
            (None, None) => return None,
        };
        Some(Interest::of(end))
    }

    /// Ends with this result, in good order, unless the flow has ended.
    pub fn end(&mut self, how: Ending) {
        self.over.get_or_insert((how, false));
    }

    /// Something of a send has left; false if nothing has.
    pub fn wrote(&mut self, now: Mono, n: Sent) -> bool {
        self.broken |= n.fault.is_some();
        if n.bytes > 0 {
            self.moved = now;
        }
        n.bytes > 0
    }

    /// Something was received.
    pub fn read(&mut self, now: Mono) {
        self.moved = now;
        self.read_on |= self.broken;
    }

    /// Meaning of an end of the stream after a refused send. The kernel reports a reset once; after
    /// a send has learnt of it, reading only ends. The fault is reported next, unless that was in
    /// an earlier turn.
    pub fn cut_off(&self) -> Option<Checked> {
        match (self.broken, self.read_on) {
            (_, true) => Some(Err(Violation::Vanished)),
            (true, false) => Some(Ok(())),
            (false, false) => None,
        }
    }

    /// When the kernel is asked for the bytes that it has still to send, and then when nothing has
    /// moved for too long: on a slow path a full send buffer takes longer than that.
    pub fn looks_at(&self) -> Mono {
        let is_known = self.queued.is_some_and(|(moved, _)| moved == self.moved);
        if is_known { self.stalls_at() } else { self.moved.plus(self.stall_ns / 3) }
    }

    /// The kernel has `bytes` still to send, or to see acknowledged: fewer than before is progress.
    pub fn note_queue(&mut self, now: Mono, bytes: u64) {
        if self.queued.is_some_and(|(moved, before)| moved == self.moved && bytes < before) {
            self.moved = now;
        }
        self.queued = Some((self.moved, bytes));
    }

    /// The wait for the next bytes.
    pub fn patience(&self) -> Patience {
        Patience::new("no progress", self.moved).within(self.stall_ns)
    }

    /// The end of the run: from now on a sign of the peer is waited for, [`CONFIRMED`] at most from
    /// one to the next.
    pub fn part(&mut self, now: Mono) {
        (self.moved, self.stall_ns, self.queued) = (now, CONFIRMED.ns(), None);
    }

    /// True if the kernel knows that the peer has acknowledged bytes since `since`; of a flow that
    /// `only_sends`, also if all bytes are acknowledged.
    pub fn is_acknowledged(&self, since: Mono, only_sends: bool) -> bool {
        self.queued.is_some_and(|(moved, bytes)| moved > since || (only_sends && bytes == 0))
    }

    /// The violation of a peer that has acknowledged nothing for too long, although bytes were
    /// under way: the path, or the host of the peer, is gone.
    pub fn unacknowledged(&self, now: Mono) -> Option<Violation> {
        let bytes = self.queued.map_or(0, |(_, bytes)| bytes);
        let why = "the last bytes were not acknowledged: the path, or the other host, is gone";
        self.stalled(now).filter(|_| bytes > 0).map(|stalled| stalled.likely(why))
    }

    /// The violation of a peer of which nothing arrives any more, although it was sending.
    pub fn silent(&self, now: Mono) -> Option<Violation> {
        let why = "nothing arrived any more: the path, or the other host, is gone";
        self.stalled(now).map(|stalled| stalled.likely(why))
    }

    /// When nothing has moved for too long.
    pub fn stalls_at(&self) -> Mono {
        self.patience().until()
    }

    /// The violation that a stall is, if nothing has moved for too long.
    pub fn stalled(&self, now: Mono) -> Option<Violation> {
        Some(self.patience()).filter(|wait| wait.is_over(now)).map(|wait| wait.violation())
    }

    /// Nothing has moved for too long.
    ///
    /// # Errors
    /// When that is so.
    pub fn check_stall(&self, now: Mono) -> Checked {
        self.stalled(now).map_or(Ok(()), Err)
    }

    /// Counts in its row, once it has one.
    #[inline]
    fn count(&self, cx: &mut Context<'_>, count: impl FnOnce(&mut Recorder, Row)) {
        if let Some(row) = self.row {
            count(cx.rec, row);
        }
    }

    /// `n` payload bytes were sent.
    #[inline]
    pub fn sent<N>(&self, cx: &mut Context<'_>, n: N)
    where
        u64: Clamped<N>,
    {
        self.count(cx, |rec, row| rec.sent(row, u64::clamped(n)));
    }

    /// `n` payload bytes were received.
    #[inline]
    pub fn received<N>(&self, cx: &mut Context<'_>, n: N)
    where
        u64: Clamped<N>,
    {
        self.count(cx, |rec, row| rec.received(row, u64::clamped(n)));
    }

    /// Paced payload has left, or arrived, and more is due at `next`: its rate is over the time
    /// from the start of the pace to there. `from` is that start, which counts from the first call.
    pub fn keeps_pace(&mut self, cx: &mut Context<'_>, way: PacedWay, from: Mono, next: Mono) {
        if self.row.is_some() {
            let from = *self.paced[way as usize].get_or_insert(from);
            let tally = cx.rec.tally(self.group);
            let window = if way == PacedWay::Sent { &mut tally.tx_window } else { &mut tally.rx_window };
            Window::add(window, Some(Window { from, ns: next.since(from), open: true }));
        }
    }

    /// `n` bytes of a peer that is paced at `rate` bits/s have arrived: more is due when the rate
    /// has paid for these.
    pub fn hears_pace(&mut self, cx: &mut Context<'_>, n: u64, rate: u64) {
        let paid_ns = u64::clamped(u128::from(n) * 8 * u128::from(SECOND) / u128::from(rate.max(1)));
        self.keeps_pace(cx, PacedWay::Received, cx.now, cx.now.plus(paid_ns));
    }

    /// Datagrams were sent or received.
    #[inline]
    pub fn packets(&self, cx: &mut Context<'_>, more: &Packets) {
        self.count(cx, |rec, row| rec.packets(row, more));
    }

    /// One datagram was sent or received, or was not.
    #[inline]
    pub fn packet(&self, cx: &mut Context<'_>, count: impl Fn(&mut Packets)) {
        self.count(cx, |rec, row| rec.packet(row, count));
    }

    /// Frames were received.
    pub fn frames(&self, cx: &mut Context<'_>, more: Frames) {
        self.count(cx, |rec, row| rec.frames(row, more));
    }

    /// `n` bytes beside payload were sent.
    pub fn framing_sent<N>(&self, cx: &mut Context<'_>, n: N)
    where
        u64: Clamped<N>,
    {
        self.count(cx, |rec, row| rec.framing_sent(row, u64::clamped(n)));
    }

    /// `n` bytes beside payload were received.
    pub fn framing_received<N>(&self, cx: &mut Context<'_>, n: N)
    where
        u64: Clamped<N>,
    {
        self.count(cx, |rec, row| rec.framing_received(row, u64::clamped(n)));
    }

    /// The last measured byte moved at `at`.
    pub fn complete(&self, cx: &mut Context<'_>, at: Mono) {
        self.count(cx, |rec, row| rec.complete(row, at));
    }

    /// A send that was due at `due` has left.
    #[inline]
    pub fn late(&self, cx: &mut Context<'_>, due: Mono) {
        cx.rec.tally(self.group).late_ns.record(cx.now.since(due));
    }

    /// Counts the IP fields of received datagrams, where the system reports these.
    #[inline]
    pub fn see_marks(&self, cx: &mut Context<'_>, got: &Received<'_>) {
        if got.ttl > 0 {
            cx.rec.packet_tally(self.group).marks.see(got.ttl, got.tos, u64::clamped(got.count()));
        }
    }

    /// Datagrams without numbers that the socket has dropped since it was last asked.
    pub fn drops(&mut self, got: &Received<'_>) -> Packets {
        self.drops.take(got)
    }

    /// Adds the datagrams that the socket has dropped since it was last asked to `counts`, the
    /// counts of `got` with the missing numbers before it.
    pub fn count_drops(&mut self, got: &Received<'_>, counts: &mut Packets) {
        self.drops.count(got, counts);
    }

    /// The same of numbers that are missing at the end.
    pub fn count_last_drops(&mut self, missing: &mut Packets) {
        self.drops.fill(missing);
    }
}

/// Datagrams of one length, but for a shorter last one, that are prepared once and differ in their
/// protocol's header only.
#[derive(Clone, Copy, Debug)]
pub struct Template {
    /// Names the prepared datagrams in a worker's arena; their length is added.
    pub key: u64,
    /// Offset of the payload in each.
    pub payload: usize,
}

impl Template {
    /// Offers `bytes` bytes of datagrams of `size` bytes each, whose headers the caller writes.
    #[inline]
    pub fn offer<'a>(self, out: &'a mut Transmit<'_>, size: usize, bytes: usize) -> &'a mut [u8] {
        if bytes > size {
            out.segment = u16::clamped(size);
        }
        out.template(self.key | u64::clamped(size), bytes, |arena| {
            for datagram in arena.chunks_mut(size) {
                payload::start(datagram.get_mut(self.payload..).unwrap_or_default());
            }
        })
    }
}

/// Result of a send call with `offered` datagrams of `size` bytes: sent datagrams, and the refusal.
#[inline]
pub fn sent_packets(n: Sent, size: usize, offered: u64) -> Packets {
    let sent = u64::clamped(n.bytes.div_ceil(size.max(1))).min(offered);
    Packets { sent, refused: u64::from(n.fault.is_some()), ..Packets::default() }
}

/// The account of datagrams at a bound socket, of peers without one of their own.
#[derive(Debug)]
pub struct Unconnected {
    core: Core,
    /// Admits peers, and remembers refused ones that were reported.
    pub pending: PendingPeers,
}

impl Unconnected {
    /// An account without datagrams.
    pub fn new(group: Group) -> Self {
        Unconnected { core: Core::new(group, 0, 0), pending: PendingPeers::default() }
    }

    /// Datagrams that the socket has dropped since it was last asked.
    pub fn drops(&mut self, got: &Received<'_>) -> Packets {
        self.core.drops(got)
    }

    /// Counts the IP fields of received datagrams: see [`Core::see_marks`].
    pub fn see_marks(&self, cx: &mut Context<'_>, got: &Received<'_>) {
        self.core.see_marks(cx, got);
    }

    /// The row that counts them.
    pub fn row(&mut self, cx: &mut Context<'_>) -> Row {
        *self.core.row.get_or_insert_with(|| cx.rec.open(self.core.group, cx.now))
    }

    /// Counts received datagrams as `counts`; `bytes` of them are payload.
    pub fn received(&mut self, cx: &mut Context<'_>, bytes: usize, counts: &Packets) {
        let row = self.row(cx);
        cx.rec.received(row, u64::clamped(bytes));
        cx.rec.packets(row, counts);
    }

    /// Counts the datagrams that the socket has dropped since it was last asked.
    pub fn count_drops(&mut self, cx: &mut Context<'_>, got: &Received<'_>) {
        let drops = self.drops(got);
        if drops.dropped > 0 {
            self.received(cx, 0, &drops);
        }
    }

    /// Counts the buffers that the socket has dropped behind its last datagram.
    pub fn count_last_drops(&mut self, cx: &mut Context<'_>, buffers: u32) {
        self.received(cx, 0, &Packets { dropped: buffers.into(), ..Packets::default() });
    }

    /// A datagram of `bytes` bytes was answered with `n` bytes.
    pub fn record_answer(&mut self, cx: &mut Context<'_>, bytes: usize, n: usize) {
        self.received(cx, bytes, &Packets { sent: 1, received: 1, ..Packets::default() });
        let row = self.row(cx);
        cx.rec.sent(row, u64::clamped(n));
    }
}

/// A connection that belongs to the session, which reads it.
pub struct Detached;

impl Flow for Detached {
    fn interest(&self) -> Interest {
        Interest::of(End::Detach)
    }

    fn id(&self) -> FlowId {
        FlowId::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_buffer_that_drains_is_no_stall() {
        let mut core = Core { stall_ns: 15, moved: Mono(100), ..Core::default() };
        // The kernel is asked twice: what it has still to send became less.
        assert_eq!(core.looks_at(), Mono(105));
        core.note_queue(Mono(105), 70_000);
        assert_eq!((core.looks_at(), core.stalled(Mono(105))), (Mono(115), None));
        core.note_queue(Mono(115), 60_000);
        assert_eq!((core.looks_at(), core.stalled(Mono(115))), (Mono(130), None));
        // From then on nothing is acknowledged.
        core.note_queue(Mono(130), 60_000);
        assert!(core.stalled(Mono(130)).is_some());
        // Bytes that are written in between begin anew.
        core.moved = Mono(131);
        assert_eq!(core.looks_at(), Mono(136));
    }

    #[test]
    fn an_address_of_ipv4_is_one_in_either_form() {
        for (peer, v6) in [("10.0.0.1:7", false), ("[::ffff:10.0.0.1]:7", false), ("[2001:db8::1]:7", true)] {
            let peer = peer.parse::<std::net::SocketAddr>().unwrap();
            let core = Core { path: Some(Path { peer, local: peer }), ..Core::default() };
            assert_eq!(core.is_v6(), v6, "{peer}");
        }
        assert!(!Core::default().is_v6());
    }
}
