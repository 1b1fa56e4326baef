//! A flow's UDP socket.

use super::ability::ability;
use super::net::{UdpMemory, UdpNet};
use super::settings::{apply, mtu};
#[cfg(any(not(target_os = "linux"), feature = "portable"))]
use super::shared::{Dealer, SocketPart};
use crate::sys::{self, fault, open_for, plain, share_port};
use crate::tcp::effective_options;
use crate::{Clock, System};
use metrics::Stamp;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::net::SocketAddr;
use std::sync::Arc;
use transport::{DatagramSocket, Deed, Fault, Path, SocketSettings, Target, UdpEffective};

/// A nonblocking UDP socket: bound, for any peer, or connected to one peer.
#[derive(Debug)]
pub struct Udp {
    pub(super) socket: Arc<Socket>,
    /// Of family IPv6; its peers need not be, when it is bound to `[::]`.
    pub(super) v6: bool,
    #[cfg(target_os = "linux")]
    pub(super) port: u16,
    /// Both ends, when it is connected.
    pub(super) path: Option<Path>,
    pub(super) state: UdpState,
    /// Its part in a socket of several peers.
    #[cfg(any(not(target_os = "linux"), feature = "portable"))]
    pub(super) shared: Option<SocketPart>,
}

/// Use of the socket, and its abilities.
#[derive(Debug, Default)]
pub(super) struct UdpState {
    /// Most datagrams in one send.
    pub(super) segments: usize,
    pub(super) gro: bool,
    pub(super) stamps: bool,
    /// Received datagrams have no facts but their bytes.
    #[cfg(target_os = "linux")]
    pub(super) plain: bool,
    /// The overflow counter, as last reported: the kernel leaves it out of messages while it is 0.
    #[cfg(target_os = "linux")]
    pub(super) dropped: u32,
    /// The part of it that `take_drops` has reported.
    #[cfg(target_os = "linux")]
    pub(super) taken: u32,
    /// Drops are counted.
    #[cfg(target_os = "linux")]
    pub(super) marks: bool,
    /// Datagrams of other peers may be queued, from between bind and connect.
    #[cfg(target_os = "linux")]
    pub(super) other_peers: bool,
    #[cfg(target_os = "linux")]
    pub(super) pending_stamps: super::pending_stamps::PendingStamps,
    /// The card that stamps besides, or why none does.
    #[cfg(target_os = "linux")]
    pub(super) card: Option<Arc<crate::card::Card>>,
    pub(super) no_card: Option<String>,
    /// The socket numbers its transmit stamps.
    #[cfg(target_os = "linux")]
    pub(super) numbers: bool,
}

#[cfg(target_os = "linux")]
impl UdpState {
    /// The overflow counter without the part that `take_drops` has reported.
    pub(super) fn drops(&self) -> u32 {
        self.dropped.wrapping_sub(self.taken)
    }

    /// A datagram carries this counter: the newest one, unless it was queued before `take_drops`.
    pub(super) fn saw_drops(&mut self, counter: u32) {
        if counter.wrapping_sub(self.dropped) < u32::MAX / 2 {
            self.dropped = counter;
        }
    }

    /// Switches stamps on by `set`, whose argument asks for the card's as well; true on success. An
    /// old kernel that accepts either, but not both, gives its own, and the card's are not waited
    /// for.
    fn switch_stamps(&mut self, set: impl Fn(bool) -> bool) -> bool {
        if self.card.is_some() {
            if set(true) {
                return true;
            }
            let why = "no stamps of the card: this system does not give them beside its own";
            (self.card, self.no_card) = (None, Some(why.to_owned()));
        }
        set(false)
    }
}

impl Udp {
    /// True if several sockets may share one port here.
    pub const CAN_SHARE: bool = cfg!(all(target_os = "linux", not(feature = "portable")));

    /// Binds to `at`; `[::]` takes IPv4 as well (and is all of IPv4 where there is no IPv6). With
    /// `share`, several sockets may do so and the kernel spreads the senders over them (Linux
    /// only).
    ///
    /// # Errors
    /// When the address is taken or not ours, or an option is refused.
    pub fn bind(at: SocketAddr, share: bool, settings: &SocketSettings) -> Result<Self, Fault> {
        let (socket, at) = open_for(at, Type::DGRAM, Protocol::UDP).map_err(fault(Deed::Open))?;
        if share {
            share_port(&socket).map_err(fault(Deed::Bind))?;
        }
        let udp = Udp::made(socket, at.is_ipv6(), settings, |socket| {
            socket.bind(&at.into()).map_err(fault(Deed::Bind))?;
            Ok(None)
        })?;
        #[cfg(any(not(target_os = "linux"), feature = "portable"))]
        let udp = Udp { shared: Some(SocketPart::Bound(Arc::new(Dealer::new(udp.socket.clone())))), ..udp };
        Ok(udp)
    }

    /// Among sockets that share a port, takes datagrams that arrive on this core
    /// (`SO_INCOMING_CPU`, Linux); the others get them only if no socket prefers the core.
    /// Elsewhere nothing changes.
    pub fn prefer_core(&self, core: usize) {
        sys::prefer_core(&self.socket, core);
    }

    /// A socket connected to `target.to`, from any local address or the given one.
    ///
    /// # Errors
    /// When an option is refused, our address cannot be had, or there is no way to the peer.
    pub fn connect(target: &Target, settings: &SocketSettings) -> Result<Self, Fault> {
        let peer = plain(target.to);
        let socket =
            sys::open(Domain::for_address(peer), Type::DGRAM, Protocol::UDP).map_err(fault(Deed::Open))?;
        Udp::made(socket, peer.is_ipv6(), settings, |socket| {
            if let Some(from) = target.from {
                socket.bind(&from.into()).map_err(fault(Deed::Bind))?;
            }
            socket.connect(&peer.into()).map_err(fault(Deed::Connect))?;
            let local = address(socket.local_addr()).ok_or(Fault { deed: Deed::Connect, errno: 0 })?;
            Ok(Some(Path { peer, local }))
        })
    }

    /// A socket for one peer beside `bound`, which was bound with `share`: same local address and
    /// port, connected.
    ///
    /// Between binding and connecting the socket may receive other peers' datagrams. They are
    /// dropped by their source before a flow sees them; the two calls follow each other directly.
    ///
    /// # Errors
    /// When the system refuses.
    #[cfg(all(target_os = "linux", not(feature = "portable")))]
    pub fn for_peer(_: &Udp, path: &Path, settings: &SocketSettings) -> Result<Self, Fault> {
        let Path { peer, local } = *path;
        let socket =
            sys::open(Domain::for_address(peer), Type::DGRAM, Protocol::UDP).map_err(fault(Deed::Open))?;
        share_port(&socket).map_err(fault(Deed::Bind))?;
        let mut udp = Udp::made(socket, peer.is_ipv6(), settings, |socket| {
            socket.bind(&local.into()).map_err(fault(Deed::Bind))?;
            socket.connect(&peer.into()).map_err(fault(Deed::Connect))?;
            Ok(Some(*path))
        })?;
        udp.state.other_peers = true;
        Ok(udp)
    }

    /// A peer's part in the socket `bound`, which goes on receiving for all others. Options are the
    /// bound socket's.
    ///
    /// # Errors
    /// When `bound` is not a bound socket.
    #[cfg(any(not(target_os = "linux"), feature = "portable"))]
    pub fn for_peer(bound: &Udp, path: &Path, _: &SocketSettings) -> Result<Self, Fault> {
        let Some(SocketPart::Bound(dealer)) = &bound.shared else {
            return Err(Fault { deed: Deed::Bind, errno: sys::UNSUPPORTED });
        };
        let mailbox = dealer.admit(path.peer, &Clock::new());
        Ok(Udp {
            socket: Arc::clone(&bound.socket),
            v6: bound.v6,
            #[cfg(target_os = "linux")]
            port: bound.port,
            path: Some(*path),
            state: UdpState { segments: 1, ..UdpState::default() },
            shared: Some(SocketPart::Peer(Arc::clone(dealer), mailbox, path.peer)),
        })
    }

    fn made(
        socket: Socket,
        v6: bool,
        settings: &SocketSettings,
        place: impl FnOnce(&Socket) -> Result<Option<Path>, Fault>,
    ) -> Result<Self, Fault> {
        apply(&socket, v6, settings)?;
        let path = place(&socket)?;
        let mut udp = Udp {
            #[cfg(target_os = "linux")]
            port: address(socket.local_addr()).map_or(0, |local| local.port()),
            socket: Arc::new(socket),
            v6,
            path,
            state: UdpState::default(),
            #[cfg(any(not(target_os = "linux"), feature = "portable"))]
            shared: None,
        };
        #[cfg(target_os = "linux")]
        super::wire::report(&udp.socket, v6, path.is_none());
        udp.abilities(settings);
        Ok(udp)
    }

    /// Switches on the requested abilities that were seen to work.
    fn abilities(&mut self, settings: &SocketSettings) {
        let able = ability();
        self.state.segments = if settings.gso { able.segments.max(1) } else { 1 };
        #[cfg(target_os = "linux")]
        {
            self.state.gro = super::wire::set_gro(&self.socket, settings.gro && able.gro);
            let stamps = settings.stamps && able.receive_stamps;
            super::wire::set_marks(&self.socket, self.v6, settings.marks);
            self.state.marks = settings.marks;
            self.state.plain = !settings.marks && !stamps && !self.state.gro && self.path.is_some();
            self.find_card(settings, stamps);
            let Udp { socket, state, .. } = self;
            state.numbers = state.switch_stamps(|card| super::wire::set_stamps(socket, stamps, card));
            state.stamps = state.numbers && stamps;
        }
    }

    /// The card of the socket's interface, where its stamps are wanted. The kernel's stamps check
    /// the card's.
    #[cfg(target_os = "linux")]
    fn find_card(&mut self, settings: &SocketSettings, stamps: bool) {
        let local = self.path.map(|path| path.local.ip()).filter(|_| settings.card_stamps && stamps);
        let found = local.map(|local| crate::card::Card::of(local, settings.device.as_deref()));
        (self.state.card, self.state.no_card) = match found {
            None => (None, None),
            Some(Ok(card)) => (Some(card), None),
            Some(Err(why)) => (None, Some(why)),
        };
    }

    /// Its address; `[::]` stands for both families.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn local(&self) -> Result<SocketAddr, Fault> {
        let address = self.socket.local_addr().map_err(fault(Deed::Bind))?;
        address.as_socket().ok_or(Fault { deed: Deed::Bind, errno: sys::UNSUPPORTED })
    }
}

impl DatagramSocket<System> for Udp {
    type Net<'a> = UdpNet<'a>;

    fn apply(&mut self, settings: &SocketSettings) -> Result<(), Fault> {
        // The options of a socket of several peers are not one peer's; the effective ones are
        // reported.
        #[cfg(any(not(target_os = "linux"), feature = "portable"))]
        if self.shared_peer().is_some() {
            return Ok(());
        }
        let applied = apply(&self.socket, self.v6, settings);
        self.abilities(settings);
        applied.map_err(Fault::from)
    }

    fn effective(&self) -> UdpEffective {
        let UdpState { segments, gro, stamps, .. } = self.state;
        // Only a user who permitted changes to network cards expects more than kernel stamps.
        let no_card = self.state.no_card.clone().filter(|_| crate::card::may_change());
        let options = effective_options(&self.socket, self.v6);
        UdpEffective { options, mtu: mtu(&self.socket, self.v6), segments, gro, stamps, no_card }
    }

    /// IPv4 is shown as IPv4.
    fn path(&self) -> Option<Path> {
        self.path
    }

    /// 1 without generic segmentation, or after the kernel refused it here (as it does for
    /// datagrams longer than the path takes).
    #[inline]
    fn segments(&self) -> usize {
        self.state.segments.max(1)
    }

    #[inline]
    fn net<'a>(&'a mut self, memory: &'a mut UdpMemory, clock: &'a Clock, sleeps: bool) -> UdpNet<'a> {
        UdpNet { udp: self, memory, clock, sleeps }
    }

    /// Some milliseconds at most. Linux only: other systems have no receive calls that do not sleep
    /// on such a socket.
    fn let_sleep(&self) -> std::io::Result<()> {
        sys::let_sleep(&self.socket)
    }

    /// The parts of a socket of several peers share its counter, which is no peer's.
    fn take_drops(&mut self) -> u32 {
        #[cfg(any(not(target_os = "linux"), feature = "portable"))]
        if self.shared_peer().is_some() {
            return 0;
        }
        #[cfg(target_os = "linux")]
        if let Some(all) = super::wire::drops(&self.socket).filter(|_| self.state.marks) {
            let more = all.wrapping_sub(std::mem::replace(&mut self.state.dropped, all));
            self.state.taken = self.state.taken.wrapping_add(more);
            return more;
        }
        0
    }

    /// Only then is it worth asking [`DatagramSocket::stamped`], which is a system call.
    #[inline]
    fn awaits_stamps(&self) -> bool {
        #[cfg(target_os = "linux")]
        return !self.state.pending_stamps.is_empty();
        #[cfg(not(target_os = "linux"))]
        false
    }

    /// The card's stamp, where it stamps, if it is in time and plausible, with its error bound (the
    /// kernel's: 0). Abandoned ones are passed over.
    #[cfg(target_os = "linux")]
    fn stamped(&mut self, memory: &mut UdpMemory, clock: &Clock) -> Option<(u32, Stamp, u64)> {
        use super::wire::Taken;
        use metrics::Mono;
        use std::os::fd::AsFd as _;
        let control = &mut memory.control;
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        while self.awaits_stamps() {
            if sys::message::recv(self.socket.as_fd(), &mut [], control, false, flags).is_err() {
                return self.state.pending_stamps.overdue(clock.now());
            }
            let UdpState { pending_stamps, card, .. } = &mut self.state;
            let card = card.as_ref().filter(|card| card.sends());
            let told = match super::wire::transmit_stamp(control) {
                None => None,
                Some((number, Taken::Kernel(wall))) => {
                    pending_stamps.by_kernel(number, clock.from_wall(wall).0, card.is_some())
                }
                Some((number, Taken::Card(raw))) => {
                    let placement = card.and_then(|card| card.placement());
                    pending_stamps.by_card(number, |kernel| {
                        placement?.departure(raw, kernel.unwrap_or(Mono(0)), clock.now())
                    })
                }
            };
            if told.is_some() {
                return told;
            }
        }
        None
    }

    #[cfg(not(target_os = "linux"))]
    fn stamped(&mut self, _: &mut UdpMemory, _: &Clock) -> Option<(u32, Stamp, u64)> {
        None
    }

    fn local(&self) -> Result<SocketAddr, Fault> {
        Udp::local(self)
    }
}

fn address(address: std::io::Result<SockAddr>) -> Option<SocketAddr> {
    address.ok()?.as_socket().map(plain)
}

#[cfg(unix)]
impl std::os::fd::AsFd for Udp {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(windows)]
impl std::os::windows::io::AsSocket for Udp {
    fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
        self.socket.as_socket()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::card::Card;
    use crate::testing::here;

    #[test]
    fn a_card_whose_stamps_are_refused_is_not_waited_for() {
        let with_card = || UdpState { card: Some(Card::idle(false).into()), ..UdpState::default() };
        let mut both = with_card();
        assert!(both.switch_stamps(|_| true));
        assert!(both.card.is_some() && both.no_card.is_none());
        let mut one = with_card();
        assert!(one.switch_stamps(|card| !card));
        assert!(one.card.is_none() && one.no_card.is_some_and(|why| why.contains("beside its own")));
        let mut none = with_card();
        assert!(!none.switch_stamps(|_| false) && none.card.is_none());
        assert!(
            UdpState::default().switch_stamps(|card| !card),
            "nothing is asked of a card that is not there"
        );
    }

    #[test]
    fn only_a_process_that_may_change_cards_is_told_why_none_stamps() {
        let mut udp = Udp::bind(here(), false, &SocketSettings::default()).unwrap();
        udp.state.no_card = Some("why".to_owned());
        assert_eq!(udp.effective().no_card, None);
        crate::card::permit_change();
        assert_eq!(udp.effective().no_card, udp.state.no_card);
    }
}
