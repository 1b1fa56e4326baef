//! One socket's state machine, and what makes such machines.

use crate::{Cause, Checked, Fault, Received, Transmit};
use metrics::{Clamped, Clock, Ending, Mono, Recorder, Row, SocketState, Stamp, TcpInfo, real};
use std::any::Any;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use uuid::Uuid;

/// A message between a flow, connector or acceptor on a worker and its session on the control
/// thread; only they know its type.
pub type Message = Box<dyn Any + Send>;

/// Everything a protocol may know of its surroundings, as an argument.
pub struct Context<'a> {
    /// The current instant.
    pub now: Mono,
    /// Its relation to wall time.
    pub clock: &'a Clock,
    /// Randomness.
    pub rng: &'a mut Rng,
    /// Receives the counts.
    pub rec: &'a mut Recorder,
    /// Messages for the session.
    pub outbox: &'a mut Vec<Message>,
}

impl<'a> Context<'a> {
    /// A context of these parts.
    pub fn new(
        now: Mono,
        clock: &'a Clock,
        rng: &'a mut Rng,
        rec: &'a mut Recorder,
        outbox: &'a mut Vec<Message>,
    ) -> Self {
        Context { now, clock, rng, rec, outbox }
    }

    /// Posts a message for the session.
    pub fn post(&mut self, message: impl Any + Send) {
        self.outbox.push(Box::new(message));
    }
}

/// A seeded generator (SplitMix64): fast, good enough for sizes and identifiers, not for secrets.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator that always yields the same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// The next 64 bits.
    #[expect(
        clippy::should_implement_trait,
        reason = "an endless iterator would invite adaptors that hide the draws"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0.0..1.0`, all equally likely.
    pub fn fraction(&mut self) -> f64 {
        real(self.next() >> 11) / real(1_u64 << 53)
    }

    /// The time to the next event of a Poisson process with this mean distance.
    pub fn exponential(&mut self, mean: u64) -> u64 {
        // Even in (0, 1].
        let even = real((self.next() >> 11) + 1) / real(1_u64 << 53);
        u64::clamped(-even.ln() * real(mean))
    }

    /// A number in `low..=high`; `low` when the range is empty.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        match high.checked_sub(low) {
            None | Some(0) => low,
            Some(span) => low + u64::clamped((u128::from(self.next()) * (u128::from(span) + 1)) >> 64),
        }
    }

    /// A random (version 4) UUID.
    pub fn uuid(&mut self) -> Uuid {
        let bits = u128::from(self.next()) << 64 | u128::from(self.next());
        uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid()
    }
}

/// The two ends of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Path {
    /// The other end.
    pub peer: SocketAddr,
    /// Our end.
    pub local: SocketAddr,
}

/// When a flow wants to send next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Nothing to send.
    Never,
    /// As soon as the socket takes it.
    Now,
    /// Not before this instant.
    At(Mono),
}

impl When {
    /// True if a send is due.
    #[inline]
    pub fn is_due(self, now: Mono) -> bool {
        match self {
            When::Now => true,
            When::At(at) => at <= now,
            When::Never => false,
        }
    }
}

/// A flow's next read. The limit never goes beyond the bytes of this step of the protocol, so that
/// a socket can be handed on without left-over bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Nothing.
    Pause,
    /// Up to this many bytes, to look at.
    Look(NonZeroU32),
    /// Up to this many bytes, dropped unseen (cheaper where the kernel can: `MSG_TRUNC`).
    Skip(NonZeroU32),
}

impl Read {
    /// `Look(n)`, capped to 32 bits; `Pause` when `n` is 0.
    pub fn look<N>(n: N) -> Read
    where
        u32: Clamped<N>,
    {
        NonZeroU32::new(u32::clamped(n)).map_or(Read::Pause, Read::Look)
    }

    /// `Skip(n)`, capped to 32 bits; `Pause` when `n` is 0.
    pub fn skip<N>(n: N) -> Read
    where
        u32: Clamped<N>,
    {
        NonZeroU32::new(u32::clamped(n)).map_or(Read::Pause, Read::Skip)
    }
}

/// A flow's wish for the end of its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// No more sends from our side; reading goes on. Asked for until it is done, done once.
    Half,
    /// The flow is done with the socket.
    Done {
        /// Result of the connection.
        how: Ending,
        /// Abort (RST) instead of an orderly close.
        reset: bool,
    },
    /// The socket goes to the session, which reads on.
    Detach,
    /// Socket and flow go to another worker.
    Migrate(u16),
    /// [Another flow](Flow::successor) has the socket from now on.
    Replace,
}

impl End {
    /// In good order, after all that was to be done.
    pub const COMPLETED: End = End::Done { how: Ending::Completed, reset: false };
}

/// Requests of a flow to its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// To send.
    pub send: When,
    /// To read.
    pub read: Read,
    /// Instant of the next `on_timer`, independent of the socket.
    pub wake: Option<Mono>,
    /// To end.
    pub end: Option<End>,
}

impl Interest {
    /// In nothing.
    pub const NONE: Interest = Interest { send: When::Never, read: Read::Pause, wake: None, end: None };

    /// In this end alone.
    pub fn of(end: End) -> Interest {
        Interest { end: Some(end), ..Interest::NONE }
    }

    /// In an end in good order alone.
    pub fn done(how: Ending) -> Interest {
        Interest::of(End::Done { how, reset: false })
    }
}

/// The kernel's result of a send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Bytes accepted.
    pub bytes: usize,
    /// The fault that stopped the send, unless the socket was merely full. On a datagram socket it
    /// concerns this send alone: a refused datagram has not left, and the next send may succeed. A
    /// flow that wants to send `Now` must give the datagram up, or wait, or end: offering it again
    /// at once may be refused for ever.
    pub fault: Option<Fault>,
}

/// Events of a flow besides sending and receiving.
#[derive(Debug)]
pub enum FlowEvent {
    /// The link is established (connected or accepted), or has arrived on this worker.
    Up(Path),
    /// The peer will send no more.
    Fin,
    /// The kernel gave the link up. On a datagram socket: one datagram could not be received, or an
    /// ICMP message returned one that was sent earlier; the link goes on unless the flow ends it.
    Broken(Fault),
    /// A transmit stamp that was asked for with this tag: the kernel's, or the network card's.
    Stamped {
        /// The tag.
        tag: u32,
        /// The stamp.
        stamp: Stamp,
        /// Error bound from the card's clock, ns; 0 without one.
        bound_ns: u64,
    },
    /// The instant of `Interest::wake` is reached.
    Wake,
    /// The kernel's state of the connection at this instant, for a flow that [asks for
    /// it](Flow::wants_socket_state).
    State(Box<SocketState>),
    /// Its group begins: held sends may leave.
    Start,
    /// Its session wants to know how it stands.
    Ask {
        /// The session's name for the question.
        tag: u32,
        /// The kernel's TCP_INFO at this instant.
        info: Option<Box<TcpInfo>>,
    },
    /// The measurement ends: later bytes do not count, and nothing is sent any more. The session
    /// wants the counts so far.
    Freeze {
        /// The session's name for the question.
        tag: u32,
        /// The kernel's TCP_INFO at this instant.
        info: Option<Box<TcpInfo>>,
    },
    /// The run ends: finish the present step, begin nothing.
    Stop,
}

/// Identity of a flow in records and logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowId {
    /// Its row in the worker's recorder, once it counts anything.
    pub row: Option<Row>,
    /// The connection's identifier, known to both ends; nil until then.
    pub id: Uuid,
    /// Which of the run's concurrent connections it is.
    pub slot: u32,
}

/// One socket: its bytes, its time-outs, its end. Lives on the worker that owns the socket.
///
/// 1. `interest` changes nothing and costs nothing.
/// 2. `prepare_send` offers; only `on_sent` moves offsets and counts. A send may be partial,
///    blocked or refused at any byte.
/// 3. A flow that wants to send `Now` offers something: an empty offer with the same wish is a busy
///    loop.
/// 4. A read budget ends where this step of the protocol ends, so that neither end leaves bytes to
///    the next.
/// 5. After `Fin` a flow asks for no more reads.
/// 6. `on_received` looks at the bytes in the worker's buffer and keeps none of them.
/// 7. Nothing is allocated per byte, datagram or turn.
/// 8. A time-out is judged in `Wake`, not in `on_received`, behind which more may be waiting: a UDP
///    socket is read empty before `Wake`, `Freeze` and `Stop`.
pub trait Flow: Send {
    /// Its present requests; changes nothing. Read after every other call.
    fn interest(&self) -> Interest;
    /// Offers ONE send call. Offsets and counts change in [`Flow::on_sent`] only.
    fn prepare_send(&mut self, cx: &mut Context<'_>, out: &mut Transmit<'_>) {
        let _ = (cx, out);
    }
    /// The kernel accepted this part of the offer.
    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        let _ = (cx, n);
    }
    /// One receive call's bytes. On datagram sockets `reply` may be filled at once, with no more
    /// bytes than arrived and to the same peer; on streams it has no room.
    ///
    /// # Errors
    /// When the peer broke the protocol; the link is then given up.
    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, reply: &mut Transmit<'_>) -> Checked {
        let _ = (cx, got, reply);
        Ok(())
    }
    /// Something else happened.
    ///
    /// # Errors
    /// When they mean that the link has failed.
    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        let _ = (cx, event);
        Ok(())
    }
    /// True if [`FlowEvent::State`] is to precede the next `Wake`. Asked only when a wake is due,
    /// so that other flows cost nothing; where the kernel has no state, `Wake` is delivered alone.
    fn wants_socket_state(&self) -> bool {
        false
    }
    /// True once the peer of an accepted link has introduced itself; `None` in a protocol without
    /// an introduction. Until then a newer link may take its place. Read once bytes have moved.
    fn is_introduced(&self) -> Option<bool> {
        None
    }
    /// The flow that takes its place on [`End::Replace`]; its first event is [`FlowEvent::Up`].
    fn successor(&mut self) -> Option<Box<dyn Flow>> {
        None
    }
    /// Its name in records and logs.
    fn id(&self) -> FlowId;
}

/// Destination of a new link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The other end.
    pub to: SocketAddr,
    /// Our end, when it is chosen; port 0 lets the kernel pick.
    pub from: Option<SocketAddr>,
}

/// A connector's answer.
pub enum Open {
    /// Connect this flow.
    Flow(Box<dyn Flow>, Target),
    /// Give this flow a UDP socket that is connected to the target, so that the kernel drops
    /// datagrams of other peers and reports ICMP errors. The link is up at once: nothing is sent by
    /// that.
    Datagram(Box<dyn Flow>, Target),
    /// Ask again at this instant.
    At(Mono),
    /// Ask again after the next link has ended.
    Idle,
    /// No further link will be opened.
    Done,
}

/// Opens links on the worker where their flows will live: one connector per worker, no thread
/// crossing per connection.
pub trait Connector: Send {
    /// The next link to connect, if any. Asked until it answers otherwise.
    fn open(&mut self, cx: &mut Context<'_>) -> Open;
    /// A link to `to` is established.
    fn on_connected(&mut self, to: SocketAddr) {
        let _ = to;
    }
    /// A link to `to` was not established. A connector that has another address for its flow keeps
    /// the flow and returns `None`: the attempt counts nowhere, and the next call of
    /// [`Connector::open`] connects the flow there.
    fn on_unconnected(
        &mut self,
        cx: &mut Context<'_>,
        flow: Box<dyn Flow>,
        to: SocketAddr,
        fault: Fault,
    ) -> Option<Box<dyn Flow>> {
        let _ = (cx, to, fault);
        Some(flow)
    }
    /// A link has ended.
    fn on_closed(&mut self, cx: &mut Context<'_>, flow: Box<dyn Flow>, how: &Result<Ending, Cause>) {
        let _ = (cx, flow, how);
    }
    /// The run ends: open no more.
    fn stop(&mut self);
}

/// Answers the peers that reach the listeners and the bound UDP sockets of a worker: one acceptor
/// per worker.
pub trait Acceptor: Send {
    /// A connection was accepted: its flow, or `None` to abort it.
    fn accept(&mut self, cx: &mut Context<'_>, path: &Path) -> Option<Box<dyn Flow>> {
        let _ = (cx, path);
        None
    }
    /// A datagram from a peer that has no socket of its own has reached a worker's bound UDP
    /// socket; `got.from` holds both addresses. The answer goes into `reply`, which has room for as
    /// many bytes as arrived: never more is sent to an unproven address. The answer leaves at once
    /// or is lost.
    ///
    /// By returning a flow the acceptor vouches for the address: it is proven (the peer has
    /// returned a value that was sent there) or allowed by a fence, and the peer's socket has no
    /// such limit. The flow gets a UDP socket of its own on the same local address and port,
    /// connected to the peer, on this worker, and gets `Up` with the path; `got` itself is not
    /// given to it again. From then on the peer's datagrams go there. Another peer's datagram that
    /// reaches the new socket before it is connected is dropped, and so are datagrams that arrive
    /// before the flow exists: a peer repeats its opening until it is answered, and every copy that
    /// was already under way reaches the flow.
    ///
    /// The link is counted under the group of the flow's row, like an accepted one.
    fn on_unsolicited(
        &mut self,
        cx: &mut Context<'_>,
        got: &Received<'_>,
        reply: &mut Transmit<'_>,
    ) -> Option<Box<dyn Flow>> {
        let _ = (cx, got, reply);
        None
    }

    /// The run ends, and a worker's bound socket has dropped `buffers` behind the last datagram
    /// delivered.
    fn on_dropped(&mut self, cx: &mut Context<'_>, buffers: u32) {
        let _ = (cx, buffers);
    }
    /// Called after unsolicited datagrams, at the instant that its last answer named, and for the
    /// last time when the run has been stopped. Returns the time of the next call without datagrams
    /// until then.
    fn on_timer(&mut self, cx: &mut Context<'_>) -> Option<Mono> {
        let _ = cx;
        None
    }
    /// A link has ended.
    fn on_closed(&mut self, cx: &mut Context<'_>, flow: Box<dyn Flow>, how: &Result<Ending, Cause>) {
        let _ = (cx, flow, how);
    }
    /// The run ends: answer no more.
    fn stop(&mut self) {}
}

/// Source of links on one worker.
pub enum LinkSource {
    /// Opens links.
    Connector(Box<dyn Connector>),
    /// Answers links that peers open.
    Acceptor(Box<dyn Acceptor>),
}

impl LinkSource {
    /// The sources of a group whose links are opened, in the order of its workers.
    pub fn connectors(connectors: Vec<Box<dyn Connector>>) -> Vec<LinkSource> {
        connectors.into_iter().map(LinkSource::Connector).collect()
    }

    /// The sources of a group whose links are accepted, in the order of its workers.
    pub fn acceptors(acceptors: Vec<Box<dyn Acceptor>>) -> Vec<LinkSource> {
        acceptors.into_iter().map(LinkSource::Acceptor).collect()
    }

    /// A link has ended.
    pub fn on_closed(&mut self, cx: &mut Context<'_>, flow: Box<dyn Flow>, how: &Result<Ending, Cause>) {
        match self {
            LinkSource::Connector(connector) => connector.on_closed(cx, flow, how),
            LinkSource::Acceptor(acceptor) => acceptor.on_closed(cx, flow, how),
        }
    }

    /// The run ends.
    pub fn stop(&mut self) {
        match self {
            LinkSource::Connector(connector) => connector.stop(),
            LinkSource::Acceptor(acceptor) => acceptor.stop(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix64_reference_values() {
        // Published test vector of SplitMix64 for seed 1234567.
        let mut rng = Rng::new(1_234_567);
        assert_eq!(
            [rng.next(), rng.next(), rng.next()],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn ranges_include_both_ends() {
        let mut rng = Rng::new(1);
        let drawn: Vec<u64> = (0..200).map(|_| rng.between(3, 6)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&3), Some(&6)));
        assert_eq!(rng.between(9, 9), 9);
        assert_eq!(rng.between(9, 2), 9);
        let _ = rng.between(0, u64::MAX);
    }

    #[test]
    fn a_budget_of_zero_pauses() {
        assert_eq!(Read::look(0), Read::Pause);
        assert_eq!(Read::skip(1_u64 << 40), Read::Skip(NonZeroU32::MAX));
    }
}
