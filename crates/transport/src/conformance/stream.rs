//! TCP sockets (tcp(7)).

use super::ends::{LIMIT, Tcp, accept, connect, listener, pair, pair_with, send, small, until};
use super::{
    Ability, BROKEN_PIPE, Bench, IN_USE, NOT_AVAILABLE, NOT_CONNECTED, REFUSED, RESET, Watcher, settle,
};
use crate::{
    Clock as _, Deed, Fault, ListenerSocket as _, Net as _, Path, Platform as _, Read, Sent, SocketSettings,
    StreamSocket as _, Target, Trigger, Watch as _,
};
use metrics::SECOND;
use std::net::SocketAddr;

/// What a send is told after the connection is over.
const BROKEN: Sent = Sent { bytes: 0, fault: Some(Fault { deed: Deed::Send, errno: BROKEN_PIPE }) };

/// Byte `i` of a pattern that shows gaps and repetitions.
fn pattern(i: usize) -> u8 {
    (i % 251) as u8
}

fn patterned(from: usize, to: usize) -> Vec<u8> {
    (from..to).map(pattern).collect()
}

fn mirrored(path: Path) -> Path {
    Path { peer: path.local, local: path.peer }
}

/// Both ends see one path, each from its side, and go on seeing it.
pub fn both_ends_agree_on_the_path<B: Bench>(bench: &B) {
    let (listener, to) = listener(bench);
    let local = connect(bench, &to, &SocketSettings::default());
    let remote = accept(bench, &listener);
    assert_eq!(local.path.peer, to.to);
    assert_eq!(remote.path, mirrored(local.path));
    assert_eq!(local.stream.connected(), Ok(Some(local.path)));
    assert_eq!(remote.stream.connected(), Ok(Some(remote.path)));
}

/// A connecting socket is not ready for anything until it is up, and writable then (connect(2),
/// `EINPROGRESS`).
pub fn a_connection_under_way_is_writable_when_it_is_up<B: Bench>(bench: &B) {
    let (_listener, to) = listener(bench);
    let platform = bench.client();
    let mut watcher = Watcher::new(bench, &platform);
    let (stream, up) = platform.connect(&to, &SocketSettings::default()).unwrap();
    stream.watch(&watcher.reactor, 1, Trigger::Edges).unwrap();
    assert!(!up || stream.connected().unwrap().is_some());
    let first = watcher.next();
    assert!(matches!(first[..], [ready] if ready.writable && !ready.readable && !ready.hangup), "{first:?}");
    assert!(stream.connected().unwrap().is_some());
    assert_eq!(watcher.quiet(), []);
}

/// The connecting end has the address and the port that were chosen for it (bind(2)).
pub fn the_local_address_can_be_chosen<B: Bench>(bench: &B) {
    let (_listener, to) = listener(bench);
    let settings = SocketSettings::default();
    let first = connect(bench, &to, &settings);
    let any = SocketAddr::new(first.path.local.ip(), 0);
    let local = connect(bench, &Target { from: Some(any), ..to }, &settings);
    assert_eq!(local.path.local.ip(), any.ip());
    local.stream.abort();
    // A port that was free a moment ago. Another program may have taken it since, and a process
    // that another test starts keeps the closed socket open from its fork to its exec, which is
    // longer than ten tries take.
    let platform = bench.client();
    let chosen = (0..5_000).find_map(|_| {
        let free = connect(bench, &to, &settings);
        let from = free.path.local;
        free.stream.abort();
        match platform.connect(&Target { from: Some(from), ..to }, &settings) {
            Ok((stream, _)) => Some((stream, from)),
            Err(fault) => {
                assert_eq!(fault, Fault { deed: Deed::Bind, errno: IN_USE });
                None
            }
        }
    });
    let (stream, from) = chosen.expect("a free port can be chosen");
    until(bench, &platform, &stream, |ready| ready.writable);
    assert_eq!(stream.connected(), Ok(Some(Path { peer: to.to, local: from })));
}

/// An address that the host does not have cannot be a local one (bind(2), `EADDRNOTAVAIL`).
pub fn an_address_of_another_host_cannot_be_bound<B: Bench>(bench: &B) {
    let (_listener, to) = listener(bench);
    let from = Some(SocketAddr::from(([192, 0, 2, 99], 0)));
    let refused = bench.client().connect(&Target { from, ..to }, &SocketSettings::default());
    assert_eq!(refused.err(), Some(Fault { deed: Deed::Bind, errno: NOT_AVAILABLE }));
}

/// At a closed port, `connected` reports the refusal (connect(2), `ECONNREFUSED`) once; after that
/// the socket is neither up nor under way (`ENOTCONN`), nothing comes and nothing leaves.
pub fn a_refused_connection_is_told_once<B: Bench>(bench: &B) {
    let (_, closed) = listener(bench);
    let platform = bench.client();
    let refused = Fault { deed: Deed::Connect, errno: REFUSED };
    let stream = match platform.connect(&closed, &SocketSettings::default()) {
        Ok((stream, up)) => {
            assert!(!up);
            stream
        }
        Err(fault) => return assert_eq!(fault, refused),
    };
    let told = until(bench, &platform, &stream, |ready| ready.hangup);
    assert!(told.readable && told.writable);
    assert_eq!(stream.connected(), Err(refused));
    assert_eq!(stream.connected(), Err(Fault { deed: Deed::Connect, errno: NOT_CONNECTED }));
    let (clock, mut buffer) = (platform.clock(), [0; 10]);
    let mut net = stream.net(&mut buffer, &clock, false);
    assert!(matches!(net.recv(Read::look(10)), crate::Got::Fin));
    assert_eq!(send(&mut net, 1, b"x", |_| {}), BROKEN);
}

/// Connecting succeeds, and bytes are taken, before the listener has accepted (listen(2), backlog).
pub fn a_connection_is_up_before_it_is_accepted<B: Bench>(bench: &B) {
    let (listener, to) = listener(bench);
    assert!(listener.accept().unwrap().is_none());
    let mut local = connect(bench, &to, &SocketSettings::default());
    local.send_all(b"early");
    local.stream.half_close();
    let mut remote = accept(bench, &listener);
    assert_eq!(remote.recv_all(5), b"early");
    assert!(remote.recv(Read::look(1)).is_fin());
    assert!(listener.accept().unwrap().is_none());
}

/// Connections wait in the order in which they came (listen(2)).
pub fn connections_are_accepted_in_order_of_arrival<B: Bench>(bench: &B) {
    let (listener, to) = listener(bench);
    let local: Vec<_> = (0..5).map(|_| connect(bench, &to, &SocketSettings::default())).collect();
    for local in local {
        assert_eq!(accept(bench, &listener).path, mirrored(local.path));
    }
}

/// A connection that its peer reset while it waited is accepted, and tells the reset then
/// (accept(2); other systems drop it).
pub fn a_connection_that_was_reset_in_the_queue_is_accepted<B: Bench>(bench: &B) {
    let (listener, to) = listener(bench);
    let local = connect(bench, &to, &SocketSettings::default());
    let path = local.path;
    local.stream.abort();
    // Packets that follow on the same path arrive after the reset.
    let next = connect(bench, &to, &SocketSettings::default());
    let mut remote = accept(bench, &listener);
    assert_eq!(remote.path, mirrored(path));
    assert_eq!(remote.recv(Read::look(1)).fault(), Fault { deed: Deed::Receive, errno: RESET });
    assert_eq!(accept(bench, &listener).path, mirrored(next.path));
}

/// Closing a listener resets the connections that were not accepted, and later ones are refused.
pub fn a_closed_listener_resets_the_connections_that_wait<B: Bench>(bench: &B) {
    let (listener, to) = listener(bench);
    let mut local = connect(bench, &to, &SocketSettings::default());
    until(bench, &bench.server(), &listener, |ready| ready.readable);
    drop(listener);
    assert_eq!(local.recv(Read::look(1)).fault(), Fault { deed: Deed::Receive, errno: RESET });
}

/// One port has one listener, unless all that listen there share it (bind(2), `EADDRINUSE`); it is
/// free once that is closed.
pub fn a_taken_port_is_refused<B: Bench>(bench: &B) {
    let (listener, to) = listener(bench);
    let again = |share| bench.listen(to.to, share, &SocketSettings::default());
    for share in [false, true] {
        let fault = again(share).err().expect("the port is taken");
        assert!(matches!(fault.deed, Deed::Bind | Deed::Listen) && fault.errno == IN_USE, "{fault:?}");
    }
    drop(listener);
    assert_eq!(again(false).unwrap().1, to.to);
}

/// Bytes arrive once and in order, though the socket is full at times and takes less than was
/// offered.
pub fn bytes_arrive_in_order_through_full_sockets<B: Bench>(bench: &B) {
    const TOTAL: usize = 2 << 20;
    let (mut local, mut remote) = pair_with(bench, &small());
    let (mut sent, mut got, mut short) = (0, 0, 0);
    while got < TOTAL {
        while sent < TOTAL {
            let offered = patterned(sent, TOTAL.min(sent + 100_000));
            let wrote = local.send(&offered);
            assert_eq!(wrote.fault, None);
            sent += wrote.bytes;
            if wrote.bytes < offered.len() {
                short += 1;
                break;
            }
        }
        let bytes = remote.recv(Read::look(1 << 20)).bytes();
        assert!(bytes.iter().enumerate().all(|(i, byte)| *byte == pattern(got + i)), "after {got} bytes");
        got += bytes.len();
    }
    assert!(short > 0, "the socket was never full");
    assert_eq!(got, sent);
    assert!(remote.try_recv(Read::look(1)).is_nothing());
}

/// A stream takes the part of an offer for which it has room, at last nothing, and calls neither a
/// fault (send(2), `EAGAIN`).
pub fn a_stream_takes_what_fits<B: Bench>(bench: &B) {
    let (mut local, _remote) = pair_with(bench, &small());
    let offer = vec![0; LIMIT];
    let mut total = 0;
    loop {
        let wrote = local.send(&offer);
        assert_eq!(wrote.fault, None);
        total += wrote.bytes;
        assert!((1..LIMIT).contains(&total), "{total} bytes were taken unread");
        if wrote.bytes == 0 {
            break;
        }
    }
}

/// A receive brings no more than was asked for, nor than its buffer holds; the rest waits.
pub fn a_receive_is_limited_by_its_budget_and_its_buffer<B: Bench>(bench: &B) {
    let (mut local, mut remote) = pair(bench);
    local.send_all(&patterned(0, 200));
    let mut got = Vec::new();
    for end in [37, 38, 200] {
        while got.len() < end {
            let bytes = remote.recv(Read::look((end - got.len()) as u64)).bytes();
            assert!(!bytes.is_empty() && bytes.len() <= end - got.len());
            got.extend(bytes);
        }
    }
    assert_eq!(got, patterned(0, 200));
    local.send_all(&patterned(0, 50));
    remote.until(|ready| ready.readable);
    assert!(remote.try_recv(Read::Pause).is_nothing());
    remote.buffer.truncate(20);
    let (bytes, batch) = remote.recv(Read::look(1_000)).batch();
    assert!(bytes.len() <= 20 && bytes.len() == batch.len && batch.stride == batch.len);
    remote.buffer.clear();
    assert!(remote.try_recv(Read::look(1_000)).is_nothing());
}

/// Skipped bytes are counted, not seen, and no more than were asked for (tcp(7), `MSG_TRUNC`).
pub fn skipped_bytes_are_gone<B: Bench>(bench: &B) {
    let (mut local, mut remote) = pair(bench);
    local.send_all(&patterned(0, 4_000));
    local.stream.half_close();
    let mut skipped = 0;
    while skipped < 2_500 {
        let (bytes, batch) = remote.recv(Read::skip(2_500 - skipped as u64)).batch();
        assert!(bytes.is_empty() && batch.len > 0);
        skipped += batch.len;
    }
    assert_eq!(skipped, 2_500);
    assert_eq!(remote.recv_all(1_500), patterned(2_500, 4_000));
    assert!(remote.recv(Read::skip(10)).is_fin());
}

/// A receive on an open connection on which nothing has come brings nothing.
pub fn an_empty_stream_brings_nothing<B: Bench>(bench: &B) {
    let (mut local, mut remote) = pair(bench);
    for how in [Read::look(10), Read::skip(10), Read::Pause] {
        assert!(local.try_recv(how).is_nothing() && remote.try_recv(how).is_nothing());
    }
}

/// A socket that is dropped closes in order: its peer receives all bytes, then the end, as often as
/// it asks (recv(2)).
pub fn the_end_follows_all_bytes_and_is_told_again<B: Bench>(bench: &B) {
    let (mut local, mut remote) = pair(bench);
    local.send_all(&patterned(0, 100_000));
    drop(local);
    assert_eq!(remote.recv_all(100_000), patterned(0, 100_000));
    for _ in 0..3 {
        assert!(remote.recv(Read::look(10)).is_fin());
    }
}

/// After a half-close the peer's bytes still come, and sends are refused (shutdown(2), send(2),
/// `EPIPE`).
pub fn half_a_connection_goes_on_after_the_other_has_ended<B: Bench>(bench: &B) {
    let (mut local, mut remote) = pair(bench);
    local.send_all(b"all I have");
    local.stream.half_close();
    assert_eq!(remote.recv_all(10), b"all I have");
    assert!(remote.recv(Read::look(1)).is_fin());
    for _ in 0..3 {
        remote.send_all(b"go on");
        assert_eq!(local.recv_all(5), b"go on");
        assert_eq!(local.send(b"more"), BROKEN);
    }
    remote.stream.half_close();
    assert!(local.recv(Read::look(1)).is_fin());
    assert!(remote.recv(Read::look(1)).is_fin());
}

/// Aborts `local` once the socket `remote` knows of its bytes, and waits until it knows of the
/// reset.
fn abort<B: Bench>(local: Tcp<'_, B>, remote: &Tcp<'_, B>) {
    local.stream.abort();
    remote.until(|ready| ready.hangup);
}

/// Bytes that were received before a reset can be read after it; then the reset is told once, and
/// after that there is the end.
pub fn what_was_received_before_a_reset_can_be_read<B: Bench>(bench: &B) {
    let (mut local, mut remote) = pair(bench);
    local.send_all(b"last words");
    remote.until(|ready| ready.readable);
    abort(local, &remote);
    assert_eq!(remote.recv(Read::look(5)).bytes(), b"last ");
    assert_eq!(remote.recv(Read::look(100)).bytes(), b"words");
    assert_eq!(remote.recv(Read::look(100)).fault(), Fault { deed: Deed::Receive, errno: RESET });
    assert!(remote.recv(Read::look(100)).is_fin());
}

/// A receive is told of a reset once (recv(2), `ECONNRESET`); after that receives bring the end,
/// and sends are refused (`EPIPE`).
pub fn a_receive_is_told_of_a_reset_once<B: Bench>(bench: &B) {
    for how in [Read::look(10), Read::skip(10)] {
        let (local, mut remote) = pair(bench);
        abort(local, &remote);
        assert_eq!(remote.recv(how).fault(), Fault { deed: Deed::Receive, errno: RESET });
        assert!(remote.recv(how).is_fin());
        assert_eq!(remote.send(b"x"), BROKEN);
        assert!(remote.recv(how).is_fin());
    }
}

/// A send that comes first is told of the reset (send(2), `ECONNRESET`), and the receive after it
/// finds the end.
pub fn a_send_is_told_of_a_reset_once<B: Bench>(bench: &B) {
    let (local, mut remote) = pair(bench);
    abort(local, &remote);
    let fault = Some(Fault { deed: Deed::Send, errno: RESET });
    assert_eq!(remote.send(b"x"), Sent { bytes: 0, fault });
    assert!(remote.recv(Read::look(10)).is_fin());
    assert_eq!(remote.send(b"x"), BROKEN);
}

/// A socket that is closed with unread bytes resets the connection (RFC 1122, 4.2.2.13; RFC 2525,
/// 2.17).
pub fn closing_with_unread_bytes_resets<B: Bench>(bench: &B) {
    let (mut local, mut remote) = pair(bench);
    remote.send_all(b"unread");
    local.until(|ready| ready.readable);
    assert_eq!(local.recv(Read::look(2)).bytes(), b"un");
    drop(local);
    assert_eq!(remote.recv(Read::look(10)).fault(), Fault { deed: Deed::Receive, errno: RESET });
    assert!(remote.recv(Read::look(10)).is_fin());
}

/// The first bytes for a socket that was closed are taken and answered by a reset, which the next
/// send is told as `EPIPE`; receives bring the end all the while, since the FIN came first (RFC
/// 9293, 3.10.7.1; send(2)).
pub fn sending_to_a_closed_peer_breaks_the_pipe<B: Bench>(bench: &B) {
    for reads_first in [false, true] {
        let (local, mut remote) = pair(bench);
        drop(local);
        remote.until(|ready| ready.hangup || ready.readable);
        if reads_first {
            assert!(remote.recv(Read::look(10)).is_fin());
        }
        remote.send_all(b"anyone?");
        settle(bench);
        assert!(remote.recv(Read::look(10)).is_fin());
        assert_eq!(remote.send(b"and now?"), BROKEN);
        assert!(remote.recv(Read::look(10)).is_fin());
    }
}

/// An option that was set is told as it was set; buffers as long as that or longer. What a platform
/// does not know is absent.
pub fn settings_are_honoured_or_not_told<B: Bench>(bench: &B) {
    let settings = SocketSettings {
        sndbuf: Some(100_000),
        rcvbuf: Some(50_000),
        nodelay: false,
        dscp: Some(46),
        ttl: Some(33),
        ..Default::default()
    };
    let (local, remote) = pair_with(bench, &settings);
    for end in [&local, &remote] {
        let told = end.stream.effective();
        assert!(
            told.sndbuf.is_none_or(|n| n >= 100_000) && told.rcvbuf.is_none_or(|n| n >= 50_000),
            "{told:?}"
        );
        assert!(told.nodelay.is_none_or(|on| !on), "{told:?}");
        assert!(
            told.tos.is_none_or(|tos| tos == 46 << 2) && told.ttl.is_none_or(|ttl| ttl == 33),
            "{told:?}"
        );
        assert!(end.stream.mss().is_none_or(|mss| mss > 0));
    }
    remote.stream.apply(&SocketSettings { ttl: Some(44), ..Default::default() }).unwrap();
    let told = remote.stream.effective();
    assert!(told.ttl.is_none_or(|ttl| ttl == 44) && told.nodelay.is_none_or(|on| on), "{told:?}");
}

/// A receive call that may sleep brings what is there at once, and ends without anything after a
/// while; one that is to hurry, or was not allowed to sleep, ends at once (socket(7),
/// `SO_RCVTIMEO`). Where receive calls cannot sleep, the socket refuses to let them.
pub fn a_sleeping_receive_ends_with_bytes_and_without<B: Bench>(bench: &B) {
    let (mut local, mut remote) = pair(bench);
    let lacks = bench.lacks(Ability::SleepingReceives).is_some();
    assert_eq!(remote.stream.let_sleep().is_err(), lacks);
    if lacks {
        return;
    }
    assert!(remote.sleeping_recv(Read::look(10)).is_nothing());
    local.send_all(b"x");
    remote.until(|ready| ready.readable);
    assert_eq!(remote.sleeping_recv(Read::look(10)).bytes(), b"x");
    assert!(remote.try_recv(Read::look(10)).is_nothing());
    let mut net = remote.stream.net(&mut remote.buffer, &remote.clock, true);
    net.hurry();
    assert!(matches!(net.recv(Read::look(10)), crate::Got::Nothing));
}

/// The time that a receive tells lies between the two readings of the clock around it.
pub fn times_of_receives_lie_between_their_calls<B: Bench>(bench: &B) {
    let (mut local, mut remote) = pair(bench);
    for _ in 0..10 {
        local.send_all(b"x");
        remote.until(|ready| ready.readable);
        let before = remote.clock.now();
        let (_, batch) = remote.try_recv(Read::look(10)).batch();
        let after = remote.clock.now();
        assert!(before <= batch.at && batch.at <= after, "{before:?} {batch:?} {after:?}");
        let now = remote.stream.net(&mut [], &remote.clock, false).now();
        assert!(after <= now && now.since(after) < SECOND * 20);
    }
}
