//! Before a receiver of datagrams ends, its sockets are read empty: datagrams in them have arrived
//! and are not lost.
//!
//! A worker that was kept from its core finds passed time-outs and orders to end before the
//! datagrams that arrived meanwhile.

use super::{GroupState, Worker};
use crate::link::{Key, Link, Phase, Socket};
use metrics::{Clamped, Group, Mono, Packets, Recorder, SECOND};
use transport::{Clock as _, DatagramSocket, Platform, Read};

/// The least that the kernel takes of a receive buffer for a datagram, bytes; its bookkeeping alone
/// has more.
const LEAST: u32 = 512;
/// Limit of datagrams read from a socket whose buffer size is unknown.
const UNTOLD: u32 = 8_192;
/// Longest time to read the sockets of a group, ns, and one of them.
const LONGEST: u64 = 2 * SECOND;

impl<P: Platform> Worker<P> {
    /// Reads the sockets of a group empty, and counts their drops behind the last datagram; for
    /// `Group::ALL`, the unsolicited datagrams as well.
    pub(super) fn drain(&mut self, group: Group) {
        let until = self.clock.now().plus(LONGEST);
        if group == Group::ALL {
            self.drain_doors();
            self.settle_doors();
        }
        for key in self.keys_of(group) {
            self.drain_link(key, until);
            if let Some(link) = self.links.get(key) {
                settle_drops(link, &mut self.own.rec);
            }
        }
    }

    /// Counts the drops of bound sockets behind their last datagrams.
    fn settle_doors(&mut self) {
        let now = self.clock.now();
        let Some(acceptor) = self.groups.get_mut(&Group::ALL).and_then(GroupState::acceptor) else { return };
        for udp in &mut self.config.datagrams {
            let buffers = udp.take_drops();
            if buffers > 0 {
                acceptor.on_dropped(&mut self.own.cx(now), buffers);
            }
        }
    }

    /// The same for one link, before it is woken.
    pub(super) fn drain_one(&mut self, key: Key) {
        let until = self.clock.now().plus(LONGEST);
        self.drain_link(key, until);
    }

    /// Reads a UDP socket until it is empty, or as many datagrams as its buffer can have held:
    /// later arrivals are not waited for. Nothing but replies is sent meanwhile.
    fn drain_link(&mut self, key: Key, until: Mono) {
        let (mut turns, mut most) = (0, u32::MAX);
        loop {
            let Some(link) = self.links.get(key) else { return };
            let Socket::Datagram(udp) = &link.socket else { return };
            let want = link.flow.interest();
            if link.phase != Phase::Open || want.end.is_some() || want.read == Read::Pause {
                return;
            }
            if turns == 1 {
                // Most sockets are empty, and never get here.
                most = holds::<P>(udp);
            }
            if turns >= most {
                return;
            }
            turns += 1;
            let could_send = std::mem::replace(&mut link.can.send, false);
            link.can.read = true;
            let Some(now) = self.take_turn(key, false) else { return };
            let Some(link) = self.links.get(key) else { return };
            link.can.send = could_send;
            if !link.can.read || now >= until {
                return;
            }
        }
    }

    /// Answers the unsolicited datagrams that have arrived.
    pub(super) fn drain_doors(&mut self) {
        for at in 0..self.config.datagrams.len() {
            let mut left = holds::<P>(&self.config.datagrams[at]);
            while left > 0 && self.receive_unsolicited(at) {
                left = left.saturating_sub(u32::clamped(super::AT_ONCE));
            }
        }
    }
}

/// Counts the datagrams that a link's socket dropped behind the last one received. A dropped run
/// (GRO) counts as one: the gap of its numbers is not known here.
pub(super) fn settle_drops<P: Platform>(link: &mut Link<P>, rec: &mut Recorder) {
    let (Socket::Datagram(udp), Some(row)) = (&mut link.socket, link.flow.id().row) else { return };
    let dropped = u64::from(udp.take_drops());
    if dropped > 0 {
        rec.packets(row, &Packets { dropped, ..Packets::default() });
    }
}

/// Most datagrams that a socket's buffer can hold.
fn holds<P: Platform>(udp: &P::Udp) -> u32 {
    udp.effective().options.rcvbuf.map_or(UNTOLD, |bytes| bytes / LEAST).max(1)
}

#[cfg(test)]
mod tests {
    use super::super::tests::Thread;
    use super::super::{Command, Report};
    use super::*;
    use io::{System, Udp};
    use metrics::{Ending, Row};
    use std::net::UdpSocket;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;
    use transport::{
        Checked, Context, End, Flow, FlowEvent, FlowId, Interest, Order, Received, SocketSettings, Target,
        Transmit, Wait, When,
    };

    const GROUP: Group = Group(7);
    /// Fits into a socket buffer of default size.
    const MANY: u64 = 150;
    /// The loopback, too, may deliver a moment later on a loaded machine.
    const TRIES: u32 = 5;

    /// How many datagrams a reader had when it ended.
    struct Had(u64);

    /// Counts what comes, until it is told to stop, or is woken while `closes`.
    #[derive(Default)]
    struct Reader {
        row: Option<Row>,
        had: u64,
        wake: Option<Mono>,
        closes: Arc<AtomicBool>,
        over: bool,
        /// Where it says that it holds its worker up, and how it learns that it may go on.
        holds: Option<(Sender<()>, Receiver<()>)>,
    }

    impl Flow for Reader {
        fn interest(&self) -> Interest {
            let end = self.over.then_some(End::Done { how: Ending::Completed, reset: false });
            Interest { send: When::Never, read: Read::look(1_000), wake: self.wake, end }
        }
        fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
            self.had += got.count() as u64;
            let received = got.count() as u64;
            self.row.into_iter().for_each(|row| {
                cx.rec.packets(row, &Packets { received, ..Packets::default() });
            });
            if let Some((held, go_on)) = self.holds.take() {
                held.send(()).unwrap();
                go_on.recv().unwrap();
            }
            Ok(())
        }
        fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
            match event {
                FlowEvent::Up(_) => self.row = Some(cx.rec.open(GROUP, cx.now)),
                FlowEvent::Wake if !self.closes.load(Ordering::SeqCst) => {
                    self.wake = Some(cx.now.plus(SECOND / 100));
                }
                FlowEvent::Wake | FlowEvent::Stop => {
                    (self.over, self.wake) = (true, None);
                    cx.post(Had(self.had));
                }
                _ => {}
            }
            Ok(())
        }
        fn id(&self) -> FlowId {
            FlowId { row: self.row, ..FlowId::default() }
        }
    }

    /// A socket for a flow, and a sender to it.
    fn pair() -> (UdpSocket, Udp) {
        pair_with(&SocketSettings::default())
    }

    fn pair_with(settings: &SocketSettings) -> (UdpSocket, Udp) {
        let local = UdpSocket::bind("127.0.0.1:0").unwrap();
        let target = Target { to: local.local_addr().unwrap(), from: None };
        let udp = System.connect_udp(&target, settings).unwrap();
        local.connect(udp.path().unwrap().local).unwrap();
        (local, udp)
    }

    fn fill(local: &UdpSocket) {
        for n in 0..MANY {
            local.send(&n.to_be_bytes()).unwrap();
        }
    }

    fn adopt(udp: Udp, flow: Reader) -> Command<System> {
        let path = udp.path().unwrap();
        Command::Adopt { socket: Socket::Datagram(Box::new(udp)), path, flow: Box::new(flow), place: None }
    }

    fn had(thread: &Thread) -> u64 {
        thread.until(|report| match report {
            Report::Message(message) => message.downcast::<Had>().ok().map(|had| had.0),
            _ => None,
        })
    }

    /// The worker finds a flow, and the order to end it, in one look at its mailbox.
    fn stopped() -> u64 {
        let thread = Thread::start(Vec::new());
        thread.group(GROUP, None, Wait::Block, false);
        let (local, udp) = pair();
        fill(&local);
        thread.send_all([adopt(udp, Reader::default()), Command::Order(GROUP, Order::Stop)]);
        had(&thread)
    }

    #[test]
    fn what_has_come_is_read_before_a_flow_is_stopped() {
        assert!((0..TRIES).any(|_| stopped() == MANY));
    }

    /// A buffer that is too small for all, with nothing behind them: received and dropped ones.
    fn overflowed() -> (u64, u64) {
        let thread = Thread::start(Vec::new());
        thread.group(GROUP, None, Wait::Block, true);
        let small = SocketSettings { rcvbuf: Some(4_096), gro: false, ..SocketSettings::default() };
        let (local, udp) = pair_with(&small);
        fill(&local);
        thread.send(adopt(udp, Reader::default()));
        let counts = thread.end(GROUP).0.packets.unwrap_or_default().counts;
        (counts.received, counts.dropped)
    }

    #[test]
    fn drops_behind_the_last_datagram_count_when_the_group_ends() {
        let all = |(received, dropped)| received > 0 && dropped > 0 && received + dropped == MANY;
        assert!((0..TRIES).any(|_| all(overflowed())));
    }

    /// Another flow holds the worker up until a wake is overdue and the datagrams are there.
    fn woken() -> u64 {
        let thread = Thread::start(Vec::new());
        thread.group(GROUP, None, Wait::Block, false);
        let ((local, udp), (other, second)) = (pair(), pair());
        let closes = Arc::new(AtomicBool::new(false));
        let first = Reader { wake: Some(Mono(0)), closes: closes.clone(), ..Reader::default() };
        let ((held, is_held), (let_go, go_on)) = (channel(), channel());
        let holder = Reader { holds: Some((held, go_on)), ..Reader::default() };
        thread.send_all([adopt(udp, first), adopt(second, holder)]);
        other.send(b"stay").unwrap();
        is_held.recv().unwrap();
        fill(&local);
        closes.store(true, Ordering::SeqCst);
        // Longer than until it is woken again.
        std::thread::sleep(Duration::from_millis(30));
        let_go.send(()).unwrap();
        had(&thread)
    }

    #[test]
    fn what_has_come_is_read_before_a_flow_is_woken() {
        assert!((0..TRIES).any(|_| woken() == MANY));
    }
}
