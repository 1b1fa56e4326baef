//! A server's listener at its bound socket: every sender's datagrams, in the order of arrival.
//!
//! No sender gets a socket of its own. Nothing is ever answered, so a flow would have no task; and
//! only one socket keeps the order of the datagrams that arrive before and after a flow is made.

use super::codec::{Header, is_wall};
use crate::NAME;
use crate::one_sided::{Answers, GROUP};
use common::kernel::Unconnected;
use common::message::{post_result, warn};
use metrics::{Jitter, Mono, PacketTally, Packets, Runs, SECOND, StampKind, Variation, Wall};
use model::Event;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::net::SocketAddr;
use transport::{Acceptor, Context, Flow, Path, Received, Transmit};

/// Senders with state of their own; a new one takes the place of one that has long been silent.
pub(super) const MOST_SENDERS: usize = 1_000;
pub(super) const SILENT: u64 = 10 * SECOND;
/// Numbers that are remembered one by one for each sender, 8 KiB.
const WINDOW: usize = 1 << 16;
/// Most rows of one report, and longest wait of a row for it, ns.
const ROWS: usize = 512;
const TELL: u64 = SECOND / 50;
/// Error bound of a delay on one clock, ns: the sender's stamp has whole microseconds.
const SAME_HOST: u64 = 1_000;

/// A numbered and stamped datagram at its arrival, without interpretation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatagramRow {
    /// The sender's address.
    pub peer: SocketAddr,
    /// Its number, by the sender.
    pub number: u64,
    /// When it was sent, µs by the sender's clock.
    pub stamp_us: u64,
    /// UDP payload, bytes.
    pub bytes: u32,
    /// Arrival, ns of this host's monotonic clock.
    pub at_ns: u64,
    /// When it was read, which is later, ns of the same clock.
    pub read_ns: u64,
    /// Arrival by this host's wall clock.
    pub wall: Wall,
}

impl DatagramRow {
    /// The rows of `event`, in the order of arrival; none of other events.
    pub fn rows(event: &Event) -> Vec<DatagramRow> {
        event.extra_of(NAME).unwrap_or_default()
    }
}

/// One sender, as long as it keeps its address.
struct Stream {
    runs: Runs,
    jitter: Jitter,
    variation: Variation,
    /// The smallest difference between a time of ours and a stamp that cannot be compared with it,
    /// ns.
    fastest: Option<i64>,
    heard: Mono,
}

pub struct Receiver {
    answers: Answers,
    /// A datagram that took longer is late, ns.
    late_ns: u64,
    senders: HashMap<SocketAddr, Stream>,
    account: Unconnected,
    /// True once the surplus of senders was reported.
    crowded: bool,
    rows: Vec<DatagramRow>,
    /// Time of the next report, if rows are pending.
    report_at: Option<Mono>,
    stopped: bool,
}

impl Receiver {
    pub(super) fn new(answers: Answers, late_ns: u64) -> Self {
        Receiver {
            answers,
            late_ns,
            senders: HashMap::new(),
            account: Unconnected::new(GROUP),
            crowded: false,
            rows: Vec::new(),
            report_at: None,
            stopped: false,
        }
    }

    /// Makes room for `peer` among the senders, and reports the state of its clock; false when
    /// there is no room.
    fn admit(&mut self, cx: &mut Context<'_>, path: &Path, header: &Header) -> bool {
        let peer = path.peer;
        if self.senders.contains_key(&peer) {
            return true;
        }
        if self.senders.len() >= MOST_SENDERS {
            let silent = |_: &SocketAddr, stream: &mut Stream| cx.now.since(stream.heard) >= SILENT;
            let silent: Vec<_> = self.senders.extract_if(silent).map(|(_, stream)| stream).collect();
            if silent.is_empty() {
                if !std::mem::replace(&mut self.crowded, true) {
                    warn(cx, format!("more than {MOST_SENDERS} senders: new ones are not heard"));
                }
                return false;
            }
            silent.into_iter().for_each(|stream| stream.settle(cx));
        }
        cx.rec.tally(GROUP).opened += 1;
        self.senders.insert(peer, Stream::new(cx.now));
        let from = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let doubt = if !is_wall(header.stamp_us) {
            format!(
                "{from} stamps the time since its start: delays from there are relative, those above its fastest datagram"
            )
        } else if !cx.clock.synced && !same_host(path) {
            format!(
                "this host's clock is not synchronised: delays from {from} are wrong by as much as the clocks differ"
            )
        } else {
            return true;
        };
        warn(cx, doubt);
        true
    }

    fn report(&mut self, cx: &mut Context<'_>) {
        self.report_at = None;
        if !self.rows.is_empty() {
            let rows = std::mem::replace(&mut self.rows, Vec::with_capacity(ROWS));
            post_result(cx, move || Event::extra(NAME, &rows));
        }
    }
}

/// True if both addresses are this host's: one clock stamps and receives.
fn same_host(path: &Path) -> bool {
    let (peer, local) = (path.peer.ip().to_canonical(), path.local.ip().to_canonical());
    peer == local || peer.is_loopback()
}

impl Stream {
    fn new(now: Mono) -> Self {
        let (jitter, variation) = (Jitter::default(), Variation::default());
        Stream { runs: Runs::new(WINDOW), jitter, variation, fastest: None, heard: now }
    }

    /// The sender is not waited for any more.
    fn settle(mut self, cx: &mut Context<'_>) {
        let arrivals = self.runs.finish();
        cx.rec.packet_tally(GROUP).arrivals.merge(&arrivals);
    }

    /// Counts one datagram: what became of its number, and how long it took. `at` is our time, ns,
    /// by the clock that its stamp is compared with.
    fn take(&mut self, header: &Header, at: i64, late_ns: u64, tally: &mut PacketTally) -> Packets {
        let mut counts = Packets::default();
        let came = self.runs.see(header.number, header.stamp_us);
        if came.anew {
            (self.fastest, self.variation) = (None, Variation::default());
        }
        tally.saw(came.seen);
        if !counts.saw(came.seen) {
            return counts;
        }
        counts.received = 1;
        let sent = i64::try_from(header.stamp_us).unwrap_or(i64::MAX).saturating_mul(1_000);
        let transit = at.saturating_sub(sent);
        let took = if is_wall(header.stamp_us) {
            transit
        } else {
            let fastest = self.fastest.map_or(transit, |fastest| fastest.min(transit));
            self.fastest = Some(fastest);
            transit.saturating_sub(fastest)
        };
        self.jitter.see(transit).into_iter().for_each(|ns| tally.jitter.record(ns));
        self.variation.see(header.number, transit).for_each(|ns| tally.ipdv_ns.record(ns));
        if took < 0 {
            tally.before_sent += 1;
            tally.before_sent_ns = tally.before_sent_ns.max(took.unsigned_abs());
        }
        let took = took.max(0) as u64;
        tally.delay_ns.record(took);
        counts.late = u64::from(took > late_ns);
        counts
    }
}

impl Acceptor for Receiver {
    fn on_unsolicited(
        &mut self,
        cx: &mut Context<'_>,
        got: &Received<'_>,
        _: &mut Transmit<'_>,
    ) -> Option<Box<dyn Flow>> {
        let path = got.from?;
        let peer = path.peer;
        if !self.account.pending.admits(cx, &self.answers.acl, &self.answers.streams, peer.ip()) {
            return None;
        }
        let drops = self.account.drops(got);
        let Some(header) = Header::decode(got.bytes) else {
            self.account.received(cx, 0, &Packets { corrupt: 1, ..drops });
            return None;
        };
        if !self.admit(cx, &path, &header) {
            return None;
        }
        let (at, kernel) = match got.stamp {
            Some(stamp) => (stamp.at, stamp.kind != StampKind::User),
            None => (got.at, false),
        };
        let wall = cx.clock.wall(at);
        let ours = if is_wall(header.stamp_us) { wall.0 } else { cx.clock.host_signed(at) };
        let bound = if is_wall(header.stamp_us) && same_host(&path) { SAME_HOST } else { cx.clock.error_ns };
        let stream = self.senders.get_mut(&peer)?;
        stream.heard = cx.now;
        let tally = cx.rec.packet_tally(GROUP);
        let mut counts = stream.take(&header, ours, self.late_ns, tally);
        counts.add(&drops);
        if is_wall(header.stamp_us) {
            tally.clock_bound_ns = tally.clock_bound_ns.max(Some(bound));
        }
        tally.kernel_stamped += u64::from(kernel);
        self.account.see_marks(cx, got);
        self.account.received(cx, got.len, &counts);
        if self.answers.arrivals {
            self.note(cx, got, peer, &header, (at, wall));
        }
        None
    }

    fn on_dropped(&mut self, cx: &mut Context<'_>, buffers: u32) {
        self.account.count_last_drops(cx, buffers);
    }

    fn on_timer(&mut self, cx: &mut Context<'_>) -> Option<Mono> {
        if self.stopped || self.report_at.is_some_and(|at| at <= cx.now) {
            self.report(cx);
        }
        if self.stopped {
            self.senders.drain().for_each(|(_, stream)| stream.settle(cx));
        }
        self.report_at
    }

    fn stop(&mut self) {
        self.stopped = true;
    }
}

impl Receiver {
    fn note(
        &mut self,
        cx: &mut Context<'_>,
        got: &Received<'_>,
        peer: SocketAddr,
        header: &Header,
        (at, wall): (Mono, Wall),
    ) {
        self.rows.push(DatagramRow {
            peer: SocketAddr::new(peer.ip().to_canonical(), peer.port()),
            number: header.number,
            stamp_us: header.stamp_us,
            bytes: u32::try_from(got.len).unwrap_or(u32::MAX),
            at_ns: cx.clock.host(at),
            read_ns: cx.clock.host(got.at),
            wall,
        });
        if self.rows.len() >= ROWS {
            self.report(cx);
        } else {
            self.report_at.get_or_insert(cx.now.plus(TELL));
        }
    }
}
