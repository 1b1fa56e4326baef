//! UDP over loopback: metadata of datagrams arrives as it was sent.
#![cfg(target_os = "linux")]

use super::*;
use crate::Clock;
use crate::testing::{has_ipv6, here, readable, skip};
use transport::{
    Arena, DatagramSocket as _, Deed, Got, Net as _, Path, Read, Received, Sent, SocketSettings, Target,
    Transmit,
};

/// A received message, taken out of the buffer.
#[derive(Debug)]
struct Message {
    bytes: Vec<u8>,
    received: Received<'static>,
}

fn plain_settings() -> SocketSettings {
    SocketSettings { gso: false, gro: false, stamps: false, ..SocketSettings::default() }
}

/// A socket connected to another, which is bound only.
fn pair(local: &SocketSettings, remote: &SocketSettings) -> (Udp, Udp) {
    let remote = Udp::bind(here(), false, remote).unwrap();
    let to = Target { to: remote.local().unwrap(), from: None };
    (Udp::connect(&to, local).unwrap(), remote)
}

fn send_burst(udp: &mut Udp, bytes: &[u8], make: impl FnOnce(&mut Transmit<'_>)) -> Sent {
    let (mut arena, mut memory) = (Arena::new(1 << 16), UdpMemory::default());
    let mut burst = Transmit::new(&mut arena, 1 << 16).datagrams(udp.segments());
    burst.own(bytes.len()).copy_from_slice(bytes);
    make(&mut burst);
    udp.net(&mut memory, &Clock::new(), false).send(&burst)
}

fn send(udp: &mut Udp, bytes: &[u8]) {
    assert_eq!(send_burst(udp, bytes, |_| {}), Sent { bytes: bytes.len(), fault: None });
}

fn try_receive(udp: &mut Udp, most: u64) -> Option<Message> {
    let mut memory = UdpMemory::default();
    match udp.net(&mut memory, &Clock::new(), false).recv(Read::look(most)) {
        Got::Nothing => None,
        Got::Received(received) => {
            let bytes = received.bytes.to_vec();
            Some(Message { bytes, received: Received { bytes: &[], ..received } })
        }
        other => panic!("{other:?}"),
    }
}

fn receive(udp: &mut Udp) -> Message {
    loop {
        if let Some(message) = try_receive(udp, 65_535) {
            return message;
        }
        readable(udp);
    }
}

#[test]
fn long_datagrams_leave_in_runs_too_and_longer_than_a_send_takes_is_refused() {
    let (mut local, mut remote) = pair(&SocketSettings::default(), &plain_settings());
    let mtu = local.effective().mtu.unwrap_or(0);
    let size = 20_000;
    if mtu < 65_536 || local.segments() < 3 {
        return skip(&format!("this loopback takes {mtu} bytes, {} datagrams a send", local.segments()));
    }
    let bytes = vec![7; 60_000];
    assert_eq!(send_burst(&mut local, &bytes, |burst| burst.segment = size).bytes, 60_000);
    for _ in 0..3 {
        assert_eq!(receive(&mut remote).bytes.len(), usize::from(size));
    }
    let long = send_burst(&mut local, &bytes, |burst| {
        // 65,536 bytes in one datagram: IPv4 leaves 65,507.
        burst.own(5_536).fill(7);
    });
    assert_eq!((long.bytes, long.fault.map(|f| f.deed)), (0, Some(Deed::Send)));
}

#[test]
fn time_to_live_and_traffic_class_arrive() {
    let marked = SocketSettings { ttl: Some(17), dscp: Some(10), ..plain_settings() };
    for at in ["127.0.0.1:0", "[::1]:0"] {
        if at.starts_with('[') && !has_ipv6() {
            continue;
        }
        let mut remote = Udp::bind(at.parse().unwrap(), false, &plain_settings()).unwrap();
        let to = Target { to: remote.local().unwrap(), from: None };
        let mut local = Udp::connect(&to, &marked).unwrap();
        send(&mut local, b"x");
        let got = receive(&mut remote).received;
        assert_eq!((got.ttl, got.tos), (17, 40), "{at}");
        send_burst(&mut local, b"x", |burst| burst.tos = Some(0xb9));
        assert_eq!(receive(&mut remote).received.tos, 0xb9, "{at}: this send alone");
        let effective = local.effective().options;
        assert_eq!((effective.ttl, effective.tos), (Some(17), Some(40)));
    }
}

#[test]
fn stamps_that_never_come_do_not_pile_up() {
    let (mut local, _remote) = pair(&plain_settings(), &plain_settings());
    for tag in 0..1_000 {
        send_burst(&mut local, b"x", |burst| burst.tag = Some(tag));
    }
    assert!(local.state.pending_stamps.len() <= 64);
}

#[test]
fn a_datagram_without_a_byte_is_one() {
    let mut remote = Udp::bind(here(), false, &plain_settings()).unwrap();
    let empty = std::net::UdpSocket::bind(here()).unwrap();
    empty.send_to(b"", remote.local().unwrap()).unwrap();
    let got = receive(&mut remote).received;
    assert_eq!((got.len, got.count(), got.datagrams().count()), (0, 1, 0));
    assert!(try_receive(&mut remote, 10).is_none());
}

#[test]
fn who_slipped_in_before_connecting_is_not_let_through() {
    // The moment between binding and connecting, held still: a bound socket that believes to be
    // connected.
    let mut udp = Udp::bind(here(), false, &plain_settings()).unwrap();
    let to = Target { to: udp.local().unwrap(), from: None };
    let mut friend = Udp::connect(&to, &plain_settings()).unwrap();
    let mut foreign = Udp::connect(&to, &plain_settings()).unwrap();
    udp.path = Some(Path { peer: friend.local().unwrap(), local: to.to });
    udp.state.other_peers = true;
    send(&mut foreign, b"foreign");
    send(&mut friend, b"friend");
    send(&mut foreign, b"foreign");
    assert_eq!(receive(&mut udp).bytes, b"friend");
    assert!(try_receive(&mut udp, 100).is_none());
}

#[test]
fn settings_are_asked_for_and_told() {
    let want = SocketSettings { rcvbuf: Some(100_000), sndbuf: Some(50_000), ..plain_settings() };
    let (local, _remote) = pair(&want, &want);
    let got = local.effective();
    assert!(got.options.rcvbuf >= Some(100_000) && got.options.sndbuf >= Some(50_000), "{got:?}");
    assert_eq!((got.segments, got.gro, got.stamps), (1, false, false));
    let wrong = SocketSettings { device: Some("no-such-interface".into()), ..plain_settings() };
    assert_eq!(Udp::bind(here(), false, &wrong).unwrap_err().deed, Deed::Open);
    for df in [true, false] {
        let want = SocketSettings { dont_fragment: Some(df), ..plain_settings() };
        let (mut local, mut remote) = pair(&want, &want);
        send(&mut local, b"x");
        receive(&mut remote);
    }
}
