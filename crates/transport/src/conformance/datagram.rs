//! UDP sockets (udp(7)).

use super::ends::{Udp, plain, udp_pair};
use super::{Ability, Bench, IN_USE, REFUSED, TOO_LONG, Watcher, anywhere, lacking, settle};
use crate::{
    Clock as _, DatagramSocket as _, Deed, Fault, LONGEST_DATAGRAM, Net as _, Path, Platform as _, Read,
    Sent, SocketSettings, Target, Trigger, Watch as _,
};
use metrics::StampKind;
use std::net::{Ipv4Addr, SocketAddr};

/// A time by which two clocks of one host may be apart, or their readings: 100 µs.
const APART: u64 = 100_000;

/// What was sent as one datagram is received as one, and the order on a path without disorder is
/// kept.
pub fn datagrams_keep_their_boundaries_and_their_order<B: Bench>(bench: &B) {
    let (mut local, mut remote) = udp_pair(bench, &plain(), &plain());
    let sent: Vec<Vec<u8>> = (1..=20).map(|i| vec![i as u8; 7 * i]).collect();
    for bytes in &sent {
        local.send(bytes);
    }
    for bytes in &sent {
        let (got, batch) = remote.recv();
        assert_eq!(&got, bytes);
        assert_eq!((batch.len, batch.stride, batch.truncated), (bytes.len(), bytes.len(), false));
    }
    assert!(remote.rest().is_empty());
}

/// A receive on a socket at which nothing has arrived brings nothing, and pausing is no receive.
pub fn an_empty_socket_brings_nothing<B: Bench>(bench: &B) {
    let (mut local, mut remote) = udp_pair(bench, &plain(), &plain());
    for how in [Read::look(10), Read::skip(10), Read::Pause] {
        assert!(local.try_recv(how).is_nothing() && remote.try_recv(how).is_nothing());
    }
    local.send(b"x");
    remote.until(|ready| ready.readable);
    assert!(remote.try_recv(Read::Pause).is_nothing());
    assert_eq!(remote.try_recv(Read::look(10)).bytes(), b"x");
}

/// A datagram that is longer than was asked for is cut, says so, and its rest is lost (recv(2),
/// `MSG_TRUNC`).
pub fn a_datagram_that_is_longer_than_the_receive_is_cut<B: Bench>(bench: &B) {
    let (mut local, mut remote) = udp_pair(bench, &plain(), &plain());
    local.send(&[1; 100]);
    local.send(b"next");
    let (bytes, batch) = remote.recv_how(Read::look(10)).batch();
    assert_eq!((&bytes[..], batch.truncated), (&[1; 10][..], true));
    assert_eq!(remote.recv().0, b"next");
}

/// A skipped datagram is counted whole and not seen; the next one is another.
pub fn a_skipped_datagram_is_gone<B: Bench>(bench: &B) {
    let (mut local, mut remote) = udp_pair(bench, &plain(), &plain());
    local.send(&[1; 100]);
    local.send(b"next");
    let (bytes, batch) = remote.recv_how(Read::skip(1 << 20)).batch();
    assert_eq!((bytes.len(), batch.len, batch.count(), batch.truncated), (0, 100, 1, false));
    assert_eq!(remote.recv().0, b"next");
}

/// 65,507 bytes are the most that IPv4 leaves; a longer datagram is refused whole (udp(7),
/// `EMSGSIZE`), and the next one leaves.
pub fn the_longest_datagram_passes_and_a_longer_one_is_refused<B: Bench>(bench: &B) {
    let (mut local, mut remote) = udp_pair(bench, &plain(), &plain());
    local.send(&vec![7; LONGEST_DATAGRAM]);
    assert_eq!(remote.recv().0.len(), LONGEST_DATAGRAM);
    let wrote = local.burst(&vec![7; LONGEST_DATAGRAM + 1], |_| {});
    let refused = Fault { deed: Deed::Send, errno: TOO_LONG };
    assert_eq!(wrote, Sent { bytes: 0, fault: Some(refused) });
    local.send(b"short");
    assert_eq!(remote.recv().0, b"short");
}

/// Bytes of a run of six datagrams, the last of them shorter.
fn run() -> Vec<u8> {
    (0..550).map(|i| (i % 251) as u8).collect()
}

/// One send of several datagrams (udp(7), `UDP_SEGMENT`) is received one by one where the receiver
/// has not asked for more.
pub fn a_run_arrives_as_single_datagrams<B: Bench>(bench: &B) {
    if lacking(bench, Ability::Segmentation) {
        return;
    }
    let (mut local, mut remote) = udp_pair(bench, &SocketSettings::default(), &plain());
    assert!(local.socket.segments() >= 6);
    let wrote = local.burst(&run(), |burst| burst.segment = 100);
    assert_eq!(wrote, Sent { bytes: 550, fault: None });
    for part in run().chunks(100) {
        let (bytes, batch) = remote.recv();
        assert_eq!((&bytes[..], batch.stride), (part, part.len()));
    }
    assert!(remote.rest().is_empty());
}

/// A receiver that asks for it (udp(7), `UDP_GRO`) is given runs: datagrams of one length, of which
/// the last may be shorter.
pub fn a_run_is_merged_for_a_receiver_that_asks_for_it<B: Bench>(bench: &B) {
    if lacking(bench, Ability::Segmentation) || lacking(bench, Ability::Merging) {
        return;
    }
    let merging = SocketSettings { gro: true, ..SocketSettings::default() };
    let (mut local, mut remote) = udp_pair(bench, &merging, &merging);
    assert!(remote.socket.effective().gro);
    assert_eq!(local.burst(&run(), |burst| burst.segment = 100).bytes, 550);
    let mut got = Vec::new();
    let mut receives = 0;
    while got.len() < 6 {
        // A run is never cut, however little of a datagram is looked at.
        let (bytes, batch) = remote.recv_how(Read::look(10)).batch();
        assert_eq!(batch.count(), bytes.chunks(batch.stride).count());
        got.extend(bytes.chunks(batch.stride).map(<[u8]>::to_vec));
        receives += 1;
    }
    assert!(got.iter().map(Vec::as_slice).eq(run().chunks(100)));
    assert!(receives < 6, "nothing was merged");
}

/// Without segmentation one datagram is the most that a send is said to hold, and a run leaves all
/// the same.
pub fn without_segmentation_a_run_leaves_one_by_one<B: Bench>(bench: &B) {
    let (mut local, mut remote) = udp_pair(bench, &plain(), &plain());
    assert_eq!(local.socket.segments(), 1);
    let wrote = local.burst(b"aaabbbcc", |burst| burst.segment = 3);
    assert_eq!(wrote, Sent { bytes: 8, fault: None });
    for part in [&b"aaa"[..], b"bbb", b"cc"] {
        assert_eq!(remote.recv().0, part);
    }
}

/// Each datagram that arrives is an edge, though others wait; what is left unread is not reported
/// again.
pub fn each_datagram_is_reported<B: Bench>(bench: &B) {
    if lacking(bench, Ability::Edges) {
        return;
    }
    let (mut local, mut remote) = udp_pair(bench, &plain(), &plain());
    let mut watcher = Watcher::new(bench, &bench.server());
    remote.socket.watch(&watcher.reactor, 1, Trigger::ReadEdges).unwrap();
    assert_eq!(watcher.quiet(), []);
    for _ in 0..3 {
        local.send(b"x");
        let ready = watcher.next();
        assert!(matches!(ready[..], [ready] if ready.readable && !ready.hangup && !ready.writable));
        assert_eq!(watcher.quiet(), []);
    }
    assert_eq!(remote.try_recv(Read::look(10)).bytes(), b"x");
    assert_eq!(watcher.quiet(), []);
    assert_eq!(remote.rest().len(), 2);
}

/// A client's socket, and one of the server that receives none of its datagrams, because it is
/// connected to another peer. Beside that socket no other test can be given the port.
fn to_a_port_that_refuses<B: Bench>(bench: &B) -> (Udp<'_, B>, Udp<'_, B>) {
    let (_, other) = Udp::bound(bench, false, &plain());
    let server = bench.server();
    let elsewhere = Target { to: other.to, from: Some(anywhere(bench)) };
    let holder = server.connect_udp(&elsewhere, &plain()).unwrap();
    let holder = Udp::new(bench, server, holder);
    let to = Target { to: holder.path().local, from: None };
    (Udp::connected(bench, &to, &plain()), holder)
}

/// An ICMP message "port unreachable" is a fault of the connected socket's next receive (udp(7),
/// `ECONNREFUSED`), told once; the socket goes on.
pub fn a_refusal_is_a_fault_of_the_next_receive_alone<B: Bench>(bench: &B) {
    let (mut local, _holder) = to_a_port_that_refuses(bench);
    for _ in 0..2 {
        local.send(b"anyone?");
        local.until(|ready| ready.hangup);
        let fault = local.try_recv(Read::look(100)).fault();
        assert_eq!(fault, Fault { deed: Deed::Receive, errno: REFUSED });
        assert!(local.try_recv(Read::look(100)).is_nothing());
    }
}

/// A send that comes first is told instead, and does not leave; the one after it does (udp(7)).
pub fn a_refusal_is_a_fault_of_the_next_send_alone<B: Bench>(bench: &B) {
    let (mut local, _holder) = to_a_port_that_refuses(bench);
    local.send(b"anyone?");
    local.until(|ready| ready.hangup);
    let fault = Fault { deed: Deed::Send, errno: REFUSED };
    assert_eq!(local.burst(b"and now?", |_| {}), Sent { bytes: 0, fault: Some(fault) });
    assert!(local.try_recv(Read::look(100)).is_nothing());
    local.send(b"the next one leaves");
}

/// A bound socket is not told of refusals: they would concern one of its peers and hit the next
/// call for another (udp(7)).
pub fn a_bound_socket_is_not_told_of_refusals<B: Bench>(bench: &B) {
    let (mut local, mut remote) = udp_pair(bench, &plain(), &plain());
    local.send(b"where I was");
    let gone = remote.recv().1.from.unwrap();
    drop(local);
    remote.send_to(b"still there?", gone);
    settle(bench);
    assert!(remote.try_recv(Read::look(100)).is_nothing());
    remote.send_to(b"still there?", gone);
}

/// A socket that is bound to all addresses knows to which of them a datagram came, and answers from
/// there (ip(7), `IP_PKTINFO`).
pub fn a_bound_socket_answers_from_where_it_was_asked<B: Bench>(bench: &B) {
    let all = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let (socket, at) = bench.bind_udp(all, false, &plain()).unwrap();
    let mut remote = Udp::new(bench, bench.server(), socket);
    assert!(remote.socket.path().is_none());
    assert_eq!(remote.socket.local().unwrap().port(), at.port());
    for ip in bench.addresses() {
        let to = SocketAddr::new(ip, at.port());
        let mut local = Udp::connected(bench, &Target { to, from: None }, &plain());
        local.send(b"who?");
        let (bytes, batch) = remote.recv();
        assert_eq!(bytes, b"who?");
        let path = batch.from.unwrap();
        assert_eq!(path, Path { peer: local.path().local, local: to });
        remote.send_to(b"me", path);
        // The client's socket is connected: it would not hear an answer from elsewhere.
        let (bytes, batch) = local.recv();
        assert_eq!((&bytes[..], batch.from), (&b"me"[..], Some(local.path())));
        assert_eq!(local.socket.local(), Ok(local.path().local));
    }
}

/// A connected socket receives what its peer sends, and nothing else that is sent to its port
/// (connect(2)).
pub fn a_connected_socket_hears_its_peer_alone<B: Bench>(bench: &B) {
    let (mut local, mut remote) = udp_pair(bench, &plain(), &plain());
    let (mut foreign, _) = Udp::bound(bench, false, &plain());
    local.send(b"here I am");
    let path = remote.recv().1.from.unwrap();
    let from = foreign.socket.local().unwrap();
    foreign.send_to(b"foreign", Path { peer: path.peer, local: from });
    remote.send_to(b"peer", path);
    assert_eq!(local.recv().0, b"peer");
    assert!(local.rest().is_empty());
}

/// One port has one bound socket, unless all that are bound there share it (bind(2), `EADDRINUSE`);
/// it is free once that is closed.
pub fn a_taken_port_is_refused<B: Bench>(bench: &B) {
    let (socket, to) = Udp::bound(bench, false, &plain());
    for share in [false, true] {
        let fault = bench.bind_udp(to.to, share, &plain()).err().expect("the port is taken");
        assert_eq!(fault, Fault { deed: Deed::Bind, errno: IN_USE });
    }
    drop(socket);
    assert_eq!(bench.bind_udp(to.to, false, &plain()).unwrap().1, to.to);
}

/// Datagrams for which the receive buffer has no room are dropped and counted; the count comes with
/// the next one that fits (socket(7), `SO_RXQ_OVFL`).
pub fn what_the_receive_buffer_drops_is_counted<B: Bench>(bench: &B) {
    const SENT: u32 = 200;
    let small = SocketSettings { rcvbuf: Some(4_096), ..plain() };
    let (mut local, mut remote) = udp_pair(bench, &plain(), &small);
    for _ in 0..SENT {
        local.send(&[0; 1_000]);
    }
    let got = remote.rest().len() as u32;
    assert!((1..SENT).contains(&got), "{got} of {SENT}");
    for _ in 0..2 {
        local.send(b"fits");
        assert_eq!(remote.recv().1.dropped, SENT - got, "it is a sum");
    }
}

/// Drops behind the last datagram received are taken once; the counter of later ones is without
/// them.
pub fn drops_behind_the_last_datagram_are_taken_once<B: Bench>(bench: &B) {
    const SENT: u32 = 200;
    let small = SocketSettings { rcvbuf: Some(4_096), ..plain() };
    let (mut local, mut remote) = udp_pair(bench, &plain(), &small);
    let mut fill = |remote: &mut Udp<'_, B>| {
        for _ in 0..SENT {
            local.send(&[0; 1_000]);
        }
        settle(bench);
        let before = remote.socket.take_drops();
        let (got, last) = (remote.rest().len() as u32, remote.socket.take_drops());
        assert!(before > 0 && before + got == SENT && last == 0, "{before} + {got} + {last}");
        local.send(b"fits");
        assert_eq!(remote.recv().1.dropped, 0, "the datagrams that were queued have an older counter");
    };
    fill(&mut remote);
    fill(&mut remote);
    let unmarked = SocketSettings { marks: false, ..small };
    remote.socket.apply(&unmarked).unwrap();
    for _ in 0..SENT {
        local.send(&[0; 1_000]);
    }
    settle(bench);
    assert_eq!(remote.socket.take_drops(), 0, "nobody asked");
}

/// Traffic class and time to live arrive as the socket, or this one send, had them; on a path
/// without routers (ip(7)). 0 is an unknown time to live.
pub fn marks_arrive_or_are_unknown<B: Bench>(bench: &B) {
    let marked = SocketSettings { ttl: Some(17), dscp: Some(10), ..plain() };
    let (mut local, mut remote) = udp_pair(bench, &marked, &plain());
    for _ in 0..2 {
        local.send(b"x");
        let (_, batch) = remote.recv();
        assert_eq!(batch.tos, 40);
        assert!([0, 17].contains(&batch.ttl), "{batch:?}");
        local.burst(b"x", |burst| burst.tos = Some(0xb9));
        assert_eq!(remote.recv().1.tos, 0xb9, "this send alone");
    }
    let told = local.socket.effective().options;
    assert!(told.ttl.is_none_or(|ttl| ttl == 17) && told.tos.is_none_or(|tos| tos == 40), "{told:?}");
    local.socket.apply(&SocketSettings { dscp: Some(12), ..plain() }).unwrap();
    local.send(b"x");
    assert_eq!(remote.recv().1.tos, 48, "as it was set last");
}

/// The kernel's receive stamp is not earlier than the send nor later than the receive.
pub fn receive_stamps_lie_between_sending_and_receiving<B: Bench>(bench: &B) {
    if lacking(bench, Ability::ReceiveStamps) {
        return;
    }
    let (mut local, mut remote) = udp_pair(bench, &SocketSettings::default(), &SocketSettings::default());
    assert!(remote.socket.effective().stamps);
    // The kernel switches stamps on by deferred work: the first datagrams may have none.
    let (mut stamped, mut sent) = (0, 0);
    while stamped < 10 {
        let before = local.clock.now();
        local.send(b"x");
        let (_, batch) = remote.recv();
        sent += 1;
        assert!(sent < 2_000, "no datagram was stamped");
        let Some(stamp) = batch.stamp else {
            settle(bench);
            continue;
        };
        assert_eq!(stamp.kind, StampKind::KernelRx);
        assert!(before.0 < stamp.at.0 + APART && stamp.at.0 <= batch.at.0 + APART, "{before:?} {batch:?}");
        stamped += 1;
    }
    let (mut local, mut remote) = udp_pair(bench, &plain(), &plain());
    local.send(b"x");
    assert!(remote.recv().1.stamp.is_none(), "stamps were not asked for");
}

/// A transmit stamp comes back once for each send that asked for one, under its tag and in order;
/// others have none.
pub fn transmit_stamps_come_back_under_their_tags<B: Bench>(bench: &B) {
    if lacking(bench, Ability::TransmitStamps) {
        return;
    }
    let (mut local, _remote) = udp_pair(bench, &plain(), &plain());
    local.send(b"no stamp");
    assert!(!local.socket.awaits_stamps());
    let before = local.clock.now();
    for tag in [7, 7_000_000, 8] {
        assert_eq!(local.burst(b"x", |burst| burst.tag = Some(tag)).bytes, 1);
        local.send(b"none again");
    }
    assert!(local.socket.awaits_stamps());
    let mut tags = Vec::new();
    while tags.len() < 3 {
        let Udp { socket, memory, clock, .. } = &mut local;
        let Some((tag, stamp, bound)) = socket.stamped(memory, clock) else {
            local.until(|ready| ready.hangup);
            continue;
        };
        assert_eq!((stamp.kind, bound), (StampKind::KernelTx, 0));
        assert!(before.0 < stamp.at.0 + APART && stamp.at < clock.now().plus(APART));
        tags.push(tag);
    }
    assert_eq!(tags, [7, 7_000_000, 8]);
    assert!(!local.socket.awaits_stamps());
    let Udp { socket, memory, clock, .. } = &mut local;
    assert!(socket.stamped(memory, clock).is_none());
}

/// A receive call that may sleep brings what is there, and ends without anything after a while
/// (socket(7), `SO_RCVTIMEO`). Where receive calls cannot sleep, the socket refuses to let them.
pub fn a_sleeping_receive_ends_with_a_datagram_and_without<B: Bench>(bench: &B) {
    let (mut local, mut remote) = udp_pair(bench, &plain(), &plain());
    let lacks = bench.lacks(Ability::SleepingReceives).is_some();
    assert_eq!(remote.socket.let_sleep().is_err(), lacks);
    if lacks {
        return;
    }
    assert!(remote.sleeping_recv(Read::look(10)).is_nothing());
    local.send(b"x");
    remote.until(|ready| ready.readable);
    assert_eq!(remote.sleeping_recv(Read::look(10)).bytes(), b"x");
    let mut net = remote.socket.net(&mut remote.memory, &remote.clock, true);
    net.hurry();
    assert!(matches!(net.recv(Read::look(10)), crate::Got::Nothing));
}
