//! Linux: the reports of a UDP socket, and the control messages that carry them.

use crate::sys::message::Control;
use crate::sys::plain;
use crate::sys::unix::{get_option, set_option};
use socket2::Socket;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::AsFd as _;
use transport::Transmit;

/// `SOF_TIMESTAMPING_*` of linux/net_tstamp.h: transmit stamps are asked for per send, everything
/// else per socket.
const TX_HARDWARE: u32 = 1 << 0;
const TX_SOFTWARE: u32 = 1 << 1;
const RX_HARDWARE: u32 = 1 << 2;
const RX_SOFTWARE: u32 = 1 << 3;
const SOFTWARE: u32 = 1 << 4;
const RAW_HARDWARE: u32 = 1 << 6;
const OPT_ID: u32 = 1 << 7;
const OPT_TSONLY: u32 = 1 << 11;
/// The kernel's transmit stamp beside the card's, each in a message of its own. Linux 4.14.
const OPT_TX_SWHW: u32 = 1 << 14;
/// `SO_EE_ORIGIN_TIMESTAMPING` of linux/errqueue.h.
const ORIGIN_TIMESTAMPING: u8 = 4;

fn set(socket: &Socket, level: i32, name: i32, on: bool) {
    // A refused report is missing later.
    let _ = set_option(socket.as_fd(), level, name, &i32::from(on).to_ne_bytes());
}

/// Asks for the local address of received datagrams, on an unconnected socket.
pub(super) fn report(socket: &Socket, v6: bool, unconnected: bool) {
    match (unconnected, v6) {
        (false, _) => {}
        (true, true) => set(socket, libc::SOL_IPV6, libc::IPV6_RECVPKTINFO, true),
        (true, false) => set(socket, libc::SOL_IP, libc::IP_PKTINFO, true),
    }
}

/// Asks for the overflow counter, TTL and TOS, or no longer: each costs some ten nanoseconds a
/// datagram.
pub(super) fn set_marks(socket: &Socket, v6: bool, on: bool) {
    set(socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, on);
    set(socket, libc::SOL_IP, libc::IP_RECVTTL, on);
    set(socket, libc::SOL_IP, libc::IP_RECVTOS, on);
    if v6 {
        set(socket, libc::SOL_IPV6, libc::IPV6_RECVHOPLIMIT, on);
        set(socket, libc::SOL_IPV6, libc::IPV6_RECVTCLASS, on);
    }
}

/// The overflow counter of the socket at this instant (`SO_MEMINFO`, Linux 4.12).
pub(super) fn drops(socket: &Socket) -> Option<u32> {
    const AT: usize = 4 * libc::SK_MEMINFO_DROPS as usize;
    let mut values = [0; AT + 4];
    let n = get_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, &mut values).ok()?;
    values.get(..n)?.get(AT..)?.first_chunk().copied().map(u32::from_ne_bytes)
}

/// Switches the merging of datagrams on or off; whether it is on now.
pub(super) fn set_gro(socket: &Socket, on: bool) -> bool {
    let value = i32::from(on).to_ne_bytes();
    set_option(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, &value).is_ok() && on
}

/// Switches the kernel's receive stamps, and with `card` the network card's, on or off, and
/// prepares the socket for transmit stamps; false when the kernel refuses.
pub(super) fn set_stamps(socket: &Socket, receive: bool, card: bool) -> bool {
    let flags = SOFTWARE
        | OPT_ID
        | OPT_TSONLY
        | if receive { RX_SOFTWARE } else { 0 }
        | if card { RX_HARDWARE | RAW_HARDWARE | OPT_TX_SWHW } else { 0 };
    set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags.to_ne_bytes()).is_ok()
}

/// Marks of a received message.
#[derive(Default)]
pub(super) struct Marks {
    pub(super) stride: Option<usize>,
    pub(super) tos: u8,
    pub(super) ttl: u8,
    pub(super) local: Option<(IpAddr, u32)>,
    pub(super) dropped: Option<u32>,
    /// The kernel's, wall time in ns since 1970.
    pub(super) stamp: Option<i64>,
    /// The card's, by its own clock, ns.
    pub(super) card: Option<i64>,
}

impl Marks {
    pub(super) fn read(control: &Control) -> Self {
        let mut marks = Marks::default();
        for (level, kind, data) in control.messages() {
            match (level, kind) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    marks.stride = word(data).and_then(|n| usize::try_from(n).ok()).filter(|&n| n > 0);
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => marks.dropped = word(data).map(|n| n as u32),
                (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => {
                    (marks.stamp, marks.card) = (stamp(data, Taker::Kernel), stamp(data, Taker::Card));
                }
                (libc::SOL_IP, libc::IP_TTL) | (libc::SOL_IPV6, libc::IPV6_HOPLIMIT) => {
                    marks.ttl = word(data).and_then(|n| u8::try_from(n).ok()).unwrap_or(0);
                }
                (libc::SOL_IP, libc::IP_TOS) => marks.tos = data.first().copied().unwrap_or(0),
                (libc::SOL_IPV6, libc::IPV6_TCLASS) => marks.tos = word(data).map_or(0, |n| n as u8),
                // struct in_pktinfo: interface, the local address that answers, the destination in
                // the header.
                (libc::SOL_IP, libc::IP_PKTINFO) => {
                    let ip: Option<[u8; 4]> = data.get(4..).and_then(|d| d.first_chunk().copied());
                    marks.local = ip.map(|ip| (Ipv4Addr::from(ip).into(), 0));
                }
                // struct in6_pktinfo: destination, interface.
                (libc::SOL_IPV6, libc::IPV6_PKTINFO) => {
                    let ip: Option<[u8; 16]> = data.first_chunk().copied();
                    let index = data.get(16..).and_then(word).map_or(0, |n| n as u32);
                    marks.local = ip.map(|ip| (Ipv6Addr::from(ip).into(), index));
                }
                _ => {}
            }
        }
        marks
    }
}

/// The local end of a received datagram: an interface is part of a link-local address only.
pub(super) fn local_address((ip, interface): (IpAddr, u32), port: u16) -> SocketAddr {
    let scope = |v6: Ipv6Addr| if v6.is_unicast_link_local() { interface } else { 0 };
    match ip {
        IpAddr::V4(_) => SocketAddr::new(ip, port),
        IpAddr::V6(v6) => plain(SocketAddrV6::new(v6, port, 0, scope(v6)).into()),
    }
}

fn word(data: &[u8]) -> Option<i32> {
    data.first_chunk().copied().map(i32::from_ne_bytes)
}

/// Author of a stamp: its place among the three of `struct scm_timestamping`. The one in between is
/// no longer used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taker {
    Kernel = 0,
    Card = 2,
}

/// One of three time stamps (`struct scm_timestamping`), wide or narrow; zero is none.
fn stamp(data: &[u8], taker: Taker) -> Option<i64> {
    let place = taker as usize;
    let (seconds, nanoseconds) = if data.len() >= 48 {
        let part = |at: usize| data.get(at..)?.first_chunk().copied().map(i64::from_ne_bytes);
        (part(16 * place)?, part(16 * place + 8)?)
    } else {
        let part = |at: usize| data.get(at..).and_then(word).map(i64::from);
        (part(8 * place)?, part(8 * place + 4)?)
    };
    let ns = seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)?;
    (ns != 0).then_some(ns)
}

/// Control messages of a send: segment size, traffic class, source address, and the request for a
/// stamp, of the card too.
pub(super) fn describe(burst: &Transmit<'_>, v6: bool, segmented: bool, card: bool, control: &mut Control) {
    control.clear();
    if segmented {
        control.put(libc::SOL_UDP, libc::UDP_SEGMENT, &burst.segment.to_ne_bytes());
    }
    let to_v6 = burst.to.map_or(v6, |path| plain(path.peer).is_ipv6());
    if let Some(tos) = burst.tos {
        let (level, kind) =
            if to_v6 { (libc::SOL_IPV6, libc::IPV6_TCLASS) } else { (libc::SOL_IP, libc::IP_TOS) };
        control.put(level, kind, &i32::from(tos).to_ne_bytes());
    }
    match burst.to.map(|path| path.local).filter(|local| !local.ip().is_unspecified()) {
        Some(SocketAddr::V4(local)) => {
            let mut info = [0; 12];
            info[4..8].copy_from_slice(&local.ip().octets());
            control.put(libc::SOL_IP, libc::IP_PKTINFO, &info);
        }
        Some(SocketAddr::V6(local)) => {
            let mut info = [0; 20];
            info[..16].copy_from_slice(&local.ip().octets());
            info[16..].copy_from_slice(&local.scope_id().to_ne_bytes());
            control.put(libc::SOL_IPV6, libc::IPV6_PKTINFO, &info);
        }
        None => {}
    }
    if burst.tag.is_some() {
        let takers = TX_SOFTWARE | if card { TX_HARDWARE } else { 0 };
        control.put(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &takers.to_ne_bytes());
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// By the kernel: wall time, ns since 1970.
    Kernel(i64),
    /// By the card: its own clock, ns.
    Card(i64),
}

/// The number and the time of a transmit stamp from the error queue.
pub(super) fn transmit_stamp(control: &Control) -> Option<(u32, Taken)> {
    let (mut number, mut taken) = (None, None);
    for (level, kind, data) in control.messages() {
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => {
                let card = stamp(data, Taker::Card).map(Taken::Card);
                taken = stamp(data, Taker::Kernel).map(Taken::Kernel).or(card);
            }
            // struct sock_extended_err: errno u32, origin, type, code, pad u8 each, info u32, data
            // u32.
            (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
                if data.get(4) == Some(&ORIGIN_TIMESTAMPING) =>
            {
                number = data.get(12..).and_then(word).map(|n| n as u32);
            }
            _ => {}
        }
    }
    number.zip(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_read_in_both_widths() {
        let mut wide = [0; 48];
        wide[..8].copy_from_slice(&1_700_000_000_i64.to_ne_bytes());
        wide[8..16].copy_from_slice(&5_i64.to_ne_bytes());
        assert_eq!(stamp(&wide, Taker::Kernel), Some(1_700_000_000_000_000_005));
        assert_eq!(stamp(&wide, Taker::Card), None);
        wide[32..40].copy_from_slice(&37_i64.to_ne_bytes());
        wide[40..48].copy_from_slice(&9_i64.to_ne_bytes());
        assert_eq!(stamp(&wide, Taker::Card), Some(37_000_000_009));
        let mut narrow = [0; 24];
        narrow[..4].copy_from_slice(&1_700_000_000_i32.to_ne_bytes());
        narrow[20..24].copy_from_slice(&3_i32.to_ne_bytes());
        assert_eq!(stamp(&narrow, Taker::Kernel), Some(1_700_000_000_000_000_000));
        assert_eq!(stamp(&narrow, Taker::Card), Some(3));
        for taker in [Taker::Kernel, Taker::Card] {
            assert_eq!(stamp(&[0; 48], taker), None);
            assert_eq!(stamp(&[1; 7], taker), None);
        }
    }

    /// As linux/errqueue.h and linux/socket.h lay them out: what a socket is told of a datagram
    /// that came, and of one that left.
    #[test]
    fn the_cards_stamps_are_found_in_control_messages() {
        let mut stamps = [0; 48];
        stamps[..8].copy_from_slice(&1_i64.to_ne_bytes());
        stamps[32..40].copy_from_slice(&2_i64.to_ne_bytes());
        let mut control = Control::new();
        control.put(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &stamps);
        control.put(libc::SOL_IP, libc::IP_TTL, &64_i32.to_ne_bytes());
        let marks = Marks::read(&control);
        assert_eq!((marks.stamp, marks.card, marks.ttl), (Some(1_000_000_000), Some(2_000_000_000), 64));

        // Of what left there are two messages: errno ENOMSG, origin, type, code, padding, which
        // stamp, number; and the sender.
        let mut error = [0; 32];
        error[..4].copy_from_slice(&42_i32.to_ne_bytes());
        error[4] = ORIGIN_TIMESTAMPING;
        error[12..16].copy_from_slice(&7_u32.to_ne_bytes());
        let told = |stamps: &[u8]| {
            let mut control = Control::new();
            control.put(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, stamps);
            control.put(libc::SOL_IP, libc::IP_RECVERR, &error);
            transmit_stamp(&control)
        };
        assert_eq!(told(&stamps), Some((7, Taken::Kernel(1_000_000_000))));
        stamps[..8].fill(0);
        assert_eq!(told(&stamps), Some((7, Taken::Card(2_000_000_000))));
        assert_eq!(told(&[0; 48]), None);
    }
}
