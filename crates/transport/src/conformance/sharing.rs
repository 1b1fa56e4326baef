//! Several sockets on one port (socket(7), `SO_REUSEPORT`), and a peer's own socket beside a bound
//! one.

use super::ends::{Udp, connect, plain};
use super::{Ability, Bench, ListenerOf, QUIET, Watcher, anywhere, lacking, settle};
use crate::{
    Clock as _, DatagramSocket as _, ListenerSocket as _, Path, Platform as _, Read, SocketSettings, Target,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Sockets that share a port in a check.
const SOCKETS: usize = 3;
/// Peers of them: that one of three sockets has none of 64 happens once in 10^11 runs.
const PEERS: usize = 64;

/// Connections are spread over the listeners that share a port, each to exactly one.
pub fn each_connection_goes_to_one_of_the_listeners<B: Bench>(bench: &B) {
    if lacking(bench, Ability::SharedPorts) {
        return;
    }
    let mut at = anywhere(bench);
    let mut listeners: Vec<ListenerOf<B>> = Vec::new();
    for _ in 0..SOCKETS {
        let (listener, to) = bench.listen(at, true, &SocketSettings::default()).unwrap();
        listeners.push(listener);
        at = to;
    }
    let to = Target { to: at, from: None };
    let local: Vec<_> = (0..PEERS).map(|_| connect(bench, &to, &SocketSettings::default())).collect();
    settle(bench);
    let mut peers = Vec::new();
    for listener in &listeners {
        let before = peers.len();
        while let Some((_, path)) = listener.accept().unwrap() {
            peers.push(path.peer);
        }
        assert!(peers.len() > before, "a listener has no connection");
    }
    let mut expected: Vec<SocketAddr> = local.iter().map(|local| local.path.local).collect();
    expected.sort_unstable();
    peers.sort_unstable();
    assert_eq!(peers, expected);
}

/// Bound sockets that share a port, and that port.
fn bound<B: Bench>(bench: &B, sockets: usize) -> (Vec<Udp<'_, B>>, Target) {
    let mut at = anywhere(bench);
    let mut all = Vec::new();
    for _ in 0..sockets {
        let (socket, to) = bench.bind_udp(at, true, &plain()).unwrap();
        all.push(Udp::new(bench, bench.server(), socket));
        at = to;
    }
    (all, Target { to: at, from: None })
}

fn peers<'b, B: Bench>(bench: &'b B, to: &Target, n: usize) -> Vec<Udp<'b, B>> {
    (0..n).map(|_| Udp::connected(bench, to, &plain())).collect()
}

/// Sends one datagram from each peer, and finds by which of the sockets each was received.
fn received_by<B: Bench>(
    bench: &B,
    peers: &mut [Udp<'_, B>],
    sockets: &mut [Udp<'_, B>],
) -> BTreeMap<SocketAddr, usize> {
    for peer in &mut *peers {
        peer.send(b"x");
    }
    let mut watcher = Watcher::new(bench, &bench.server());
    let mut by = BTreeMap::new();
    let deadline = watcher.clock.now().plus(super::PATIENCE);
    while by.len() < peers.len() {
        assert!(watcher.clock.now() < deadline, "{} of {} datagrams arrived", by.len(), peers.len());
        let until = watcher.clock.now().plus(QUIET);
        watcher.wait(Some(until));
        for (i, socket) in sockets.iter_mut().enumerate() {
            loop {
                let seen = socket.try_recv(Read::look(10));
                if seen.is_nothing() {
                    break;
                }
                let peer = seen.batch().1.from.unwrap().peer;
                assert_eq!(by.insert(peer, i), None, "a datagram came twice");
            }
        }
    }
    by
}

/// A peer's datagrams all go to the same one of the sockets that share a port, and every socket has
/// some peers.
pub fn each_peer_goes_to_one_of_the_sockets<B: Bench>(bench: &B) {
    if lacking(bench, Ability::SharedPorts) {
        return;
    }
    let (mut sockets, to) = bound(bench, SOCKETS);
    let mut peers = peers(bench, &to, PEERS);
    let first = received_by(bench, &mut peers, &mut sockets);
    assert!((0..SOCKETS).all(|i| first.values().any(|&by| by == i)), "{first:?}");
    for _ in 0..3 {
        assert_eq!(received_by(bench, &mut peers, &mut sockets), first);
    }
}

/// When one of the sockets is closed, the others receive what its peers send from then on.
pub fn the_peers_of_a_closed_socket_go_to_the_others<B: Bench>(bench: &B) {
    if lacking(bench, Ability::SharedPorts) {
        return;
    }
    let (mut sockets, to) = bound(bench, SOCKETS);
    let mut peers = peers(bench, &to, PEERS);
    received_by(bench, &mut peers, &mut sockets);
    drop(sockets.remove(0));
    let by = received_by(bench, &mut peers, &mut sockets);
    assert_eq!(by.len(), PEERS);
}

/// The server's own socket for a peer of the socket `bound`.
fn peer_socket<'b, B: Bench>(bench: &'b B, bound: &Udp<'_, B>, to: &Target, peer: &Udp<'_, B>) -> Udp<'b, B> {
    let path = Path { peer: peer.path().local, local: to.to };
    let platform = bench.server();
    let socket = platform.udp_beside(&bound.socket, &path, &plain()).unwrap();
    assert_eq!(socket.path(), Some(path));
    Udp::new(bench, platform, socket)
}

/// A connected socket beside bound ones receives all that its peer sends and nothing of others;
/// their datagrams go on to the bound ones, each to the same one as before. It answers from the
/// shared port.
pub fn a_socket_beside_takes_over_its_peer<B: Bench>(bench: &B) {
    // Of several, it stands beside the one that its peer's datagrams came to.
    let sharing = if bench.lacks(Ability::SharedPorts).is_none() { 2 } else { 1 };
    let (mut sockets, to) = bound(bench, sharing);
    let mut clients = peers(bench, &to, 8);
    let by = received_by(bench, &mut clients, &mut sockets);
    let own = |client: &Udp<'_, B>| peer_socket(bench, &sockets[by[&client.path().local]], &to, client);
    let mut own: Vec<_> = clients[..4].iter().map(own).collect();
    let (theirs, others) = clients.split_at_mut(4);
    for _ in 0..2 {
        let by = received_by(bench, theirs, &mut own);
        for (i, client) in theirs.iter_mut().enumerate() {
            assert_eq!(by[&client.path().local], i);
            own[i].send(b"answer");
            assert_eq!(client.recv().0, b"answer");
        }
        received_by(bench, others, &mut sockets);
        assert!(own.iter_mut().all(|own| own.rest().is_empty()));
        assert!(sockets.iter_mut().all(|bound| bound.rest().is_empty()));
    }
}

/// Datagrams that had arrived before the peer had its own socket stay with the bound one, once.
pub fn what_came_before_the_socket_beside_stays_where_it_is<B: Bench>(bench: &B) {
    let (mut sockets, to) = bound(bench, 1);
    let mut client = Udp::connected(bench, &to, &plain());
    client.send(b"first");
    sockets[0].until(|ready| ready.readable);
    let mut own = peer_socket(bench, &sockets[0], &to, &client);
    client.send(b"second");
    assert_eq!(own.recv().0, b"second");
    assert!(own.rest().is_empty());
    assert_eq!(sockets[0].rest(), [b"first"]);
}

/// When a peer's own socket is closed, its datagrams reach the bound one again.
pub fn a_peer_whose_socket_is_closed_goes_back_to_the_bound_one<B: Bench>(bench: &B) {
    let (mut sockets, to) = bound(bench, 1);
    let mut clients = peers(bench, &to, 1);
    let own = peer_socket(bench, &sockets[0], &to, &clients[0]);
    drop(own);
    received_by(bench, &mut clients, &mut sockets);
}

/// A port is shared only among sockets that all asked for it (socket(7)): none can be put beside
/// one that did not.
pub fn sharing_takes_consent<B: Bench>(bench: &B) {
    if lacking(bench, Ability::SharedPorts) {
        return;
    }
    let (mut alone, to) = Udp::bound(bench, false, &plain());
    let mut client = Udp::connected(bench, &to, &plain());
    let path = Path { peer: client.path().local, local: to.to };
    assert!(bench.server().udp_beside(&alone.socket, &path, &plain()).is_err());
    client.send(b"x");
    assert_eq!(alone.recv().0, b"x");
}
