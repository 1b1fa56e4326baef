//! Reactors, wakers and clocks. Sockets behave as with epoll in edge-triggered mode (epoll(7)).

use super::ends::{LIMIT, Tcp, accept, connect, listener, pair, pair_with, plain, small, spawn, udp_pair};
use super::{Ability, Bench, QUIET, ReactorOf, Watcher, lacking, settle};
use crate::{
    Clock as _, Park, Platform as _, Reactor as _, Read, Ready, SocketSettings, StreamSocket as _, Trigger,
    Wake, Watch,
};
use metrics::{Mono, SECOND};

/// The key of most sockets here.
const KEY: u64 = 42;

/// Nothing but writable.
const WRITABLE: Ready = Ready { key: KEY, readable: false, writable: true, hangup: false };

/// Watches one end of a connection, which is new and therefore writable. What is to be read is
/// reported next.
fn watch<'b, B: Bench>(bench: &'b B, end: &Tcp<'_, B>) -> Watcher<'b, B> {
    let mut watcher = Watcher::new(bench, &end.platform);
    end.stream.watch(&watcher.reactor, KEY, Trigger::Edges).unwrap();
    assert_eq!(watcher.next(), [WRITABLE]);
    end.stream.rearm(&watcher.reactor, KEY, true, false).unwrap();
    watcher
}

/// The report of a socket that can be read, after [`watch`]: edges tell besides that it can be
/// written to, which a report that was asked for reading does not.
fn readable<B: Bench>(bench: &B) -> Ready {
    Ready { readable: true, writable: bench.lacks(Ability::Edges).is_none(), ..WRITABLE }
}

/// A reactor reports the sockets of its interest list alone (epoll(7)).
pub fn a_socket_that_nobody_watches_is_not_reported<B: Bench>(bench: &B) {
    let (mut local, remote) = pair(bench);
    let (mut other, watched) = pair(bench);
    let mut watcher = watch(bench, &watched);
    local.send_all(b"unheard");
    other.send_all(b"heard");
    watcher.until(|ready| ready.readable);
    drop(local);
    assert_eq!(watcher.quiet(), []);
    drop(remote);
}

/// Watching reports what the socket is ready for already, though nothing changes any more
/// (epoll_ctl(2), `EPOLL_CTL_ADD`).
pub fn watching_reports_what_the_socket_is_ready_for_already<B: Bench>(bench: &B) {
    let (mut local, remote) = pair(bench);
    local.send_all(b"waiting");
    remote.until(|ready| ready.readable);
    let mut watcher = Watcher::new(bench, &remote.platform);
    assert_eq!(watcher.quiet(), []);
    remote.stream.watch(&watcher.reactor, KEY, Trigger::Edges).unwrap();
    assert_eq!(watcher.next(), [Ready { readable: true, ..WRITABLE }]);
}

/// An edge is reported once. Bytes that arrive are an edge though others wait unread (epoll(7):
/// "multiple events can be generated upon receipt of multiple chunks of data").
pub fn a_change_is_reported_once_and_each_one_is<B: Bench>(bench: &B) {
    if lacking(bench, Ability::Edges) {
        return;
    }
    let (mut local, remote) = pair(bench);
    let mut watcher = watch(bench, &remote);
    assert_eq!(watcher.quiet(), []);
    for _ in 0..3 {
        local.send_all(b"x");
        assert_eq!(watcher.next(), [Ready { readable: true, ..WRITABLE }]);
        assert_eq!(watcher.quiet(), []);
    }
}

/// Bytes that a receive left behind are not reported again: the example of epoll(7), in which the
/// second wait hangs.
pub fn what_is_left_unread_is_not_reported_again<B: Bench>(bench: &B) {
    let (mut local, mut remote) = pair(bench);
    let mut watcher = watch(bench, &remote);
    local.send_all(&[0; 2_000]);
    watcher.until(|ready| ready.readable);
    watcher.quiet();
    assert_eq!(remote.recv(Read::look(1_000)).bytes().len(), 1_000);
    assert_eq!(watcher.quiet(), []);
    assert_eq!(remote.try_recv(Read::look(1_000)).bytes().len(), 1_000, "the rest is there");
}

/// A socket that was emptied is reported when bytes arrive again.
pub fn an_emptied_socket_is_reported_when_it_is_filled_again<B: Bench>(bench: &B) {
    let (mut local, mut remote) = pair(bench);
    let mut watcher = watch(bench, &remote);
    for _ in 0..3 {
        local.send_all(b"x");
        watcher.until(|ready| ready.readable);
        assert_eq!(remote.try_recv(Read::look(9)).bytes(), b"x");
        assert!(remote.try_recv(Read::look(9)).is_nothing());
        remote.stream.rearm(&watcher.reactor, KEY, true, false).unwrap();
        assert_eq!(watcher.quiet(), []);
    }
}

/// A full socket is reported as writable after its peer has read (epoll(7)). Before that the
/// kernels may make some room by themselves; a report without room is none.
pub fn a_full_socket_is_reported_when_the_peer_has_read<B: Bench>(bench: &B) {
    let (mut local, mut remote) = pair_with(bench, &small());
    let mut watcher = watch(bench, &local);
    fill(&mut local, &mut watcher);
    local.stream.rearm(&watcher.reactor, KEY, false, true).unwrap();
    let mut got = 0;
    while !remote.try_recv(Read::look(1 << 20)).is_nothing() {
        got += 1;
    }
    assert!(got > 0);
    assert!(watcher.until(|ready| ready.writable).key == KEY);
    assert!(local.send(&[0; 100]).bytes > 0);
}

/// Sends until the socket takes no more and is not reported.
fn fill<B: Bench>(local: &mut Tcp<'_, B>, watcher: &mut Watcher<'_, B>) {
    let (mut total, mut reported) = (0, false);
    loop {
        let wrote = local.send(&[0; 10_000]);
        assert_eq!(wrote.fault, None);
        if wrote.bytes == 0 {
            assert!(!reported, "a full socket was reported");
            reported = !watcher.quiet().is_empty();
            if !reported {
                return;
            }
        } else {
            (total, reported) = (total + wrote.bytes, false);
            assert!(total < LIMIT, "{total} bytes were taken unread");
        }
    }
}

/// Without `EPOLLOUT` in the interest list writability is not reported (epoll_ctl(2)), neither at
/// first nor when a stream has room again nor when a datagram has left.
pub fn watching_for_reading_says_nothing_of_writability<B: Bench>(bench: &B) {
    let (mut local, mut remote) = pair_with(bench, &small());
    let mut watcher = Watcher::new(bench, &local.platform);
    local.stream.watch(&watcher.reactor, KEY, Trigger::ReadEdges).unwrap();
    fill(&mut local, &mut watcher);
    while !remote.try_recv(Read::look(1 << 20)).is_nothing() {}
    assert_eq!(watcher.quiet(), []);
    assert!(local.send(&[0; 100]).bytes > 0, "there was room, and no word of it");
    remote.send_all(b"x");
    assert_eq!(watcher.next(), [Ready { readable: true, writable: false, ..WRITABLE }]);

    let (mut local, mut remote) = udp_pair(bench, &plain(), &plain());
    local.socket.watch(&watcher.reactor, KEY, Trigger::ReadEdges).unwrap();
    local.send(b"question");
    let path = remote.recv().1.from.unwrap();
    assert_eq!(watcher.quiet(), []);
    remote.send_to(b"answer", path);
    assert_eq!(watcher.next(), [Ready { readable: true, writable: false, ..WRITABLE }]);
}

/// A level is reported at every wait for as long as it lasts (epoll(7)): a listener until its queue
/// is empty.
pub fn a_listener_watched_by_level_is_reported_until_it_is_empty<B: Bench>(bench: &B) {
    let (listener, to) = listener(bench);
    let mut watcher = Watcher::new(bench, &bench.server());
    listener.watch(&watcher.reactor, KEY, Trigger::Level).unwrap();
    assert_eq!(watcher.quiet(), []);
    let _streams: Vec<_> = (0..2).map(|_| connect(bench, &to, &SocketSettings::default())).collect();
    for _ in 0..2 {
        for _ in 0..3 {
            assert_eq!(watcher.next(), [Ready { readable: true, writable: false, ..WRITABLE }]);
        }
        accept(bench, &listener);
    }
    assert_eq!(watcher.quiet(), []);
}

/// Watching again replaces the key and reports anew what the socket is ready for (`EPOLL_CTL_MOD`;
/// epoll(7), questions).
pub fn watching_again_changes_the_key_and_reports_anew<B: Bench>(bench: &B) {
    let (_local, remote) = pair(bench);
    let mut watcher = watch(bench, &remote);
    assert_eq!(watcher.quiet(), []);
    remote.stream.watch(&watcher.reactor, KEY + 1, Trigger::Edges).unwrap();
    assert_eq!(watcher.next(), [Ready { key: KEY + 1, ..WRITABLE }]);
    remote.stream.watch(&watcher.reactor, KEY + 2, Trigger::ReadEdges).unwrap();
    assert_eq!(watcher.quiet(), []);
}

/// A forgotten socket is not reported, not even what had happened before; forgetting it again is
/// refused (epoll_ctl(2), `ENOENT`).
pub fn a_forgotten_socket_is_not_reported<B: Bench>(bench: &B) {
    let (mut local, remote) = pair(bench);
    let mut watcher = watch(bench, &remote);
    local.send_all(b"before");
    settle(bench);
    remote.stream.forget(&watcher.reactor).unwrap();
    local.send_all(b"after");
    assert_eq!(watcher.quiet(), []);
    assert!(remote.stream.forget(&watcher.reactor).is_err());
}

/// Closing a socket ends its being watched (epoll(7), questions).
pub fn a_closed_socket_is_not_reported<B: Bench>(bench: &B) {
    let (mut local, remote) = pair(bench);
    let mut watcher = watch(bench, &remote);
    local.send_all(b"before");
    settle(bench);
    remote.stream.before_close(&watcher.reactor);
    drop(remote);
    local.send(b"after");
    assert_eq!(watcher.quiet(), []);
}

/// A socket is reported although it has the number of a watched one that was closed: the lowest
/// free number is the next (open(2)).
pub fn the_successor_of_a_closed_socket_is_reported<B: Bench>(bench: &B) {
    let mut watcher = Watcher::new(bench, &bench.server());
    for _ in 0..3 {
        let (mut local, mut remote) = pair(bench);
        remote.stream.watch(&watcher.reactor, KEY, Trigger::Edges).unwrap();
        assert_eq!(watcher.next(), [WRITABLE]);
        remote.stream.rearm(&watcher.reactor, KEY, true, false).unwrap();
        local.send_all(b"x");
        assert_eq!(watcher.next(), [readable(bench)]);
        assert_eq!(remote.recv_all(1), b"x");
        remote.stream.rearm(&watcher.reactor, KEY, true, true).unwrap();
        remote.stream.before_close(&watcher.reactor);
        remote.stream.abort();
    }
}

/// A socket that moves to another reactor is reported there at once, and no longer where it was.
pub fn a_socket_moves_between_reactors<B: Bench>(bench: &B) {
    let (mut local, remote) = pair(bench);
    let mut first = watch(bench, &remote);
    local.send_all(b"waiting");
    first.until(|ready| ready.readable);
    remote.stream.forget(&first.reactor).unwrap();
    let mut second = Watcher::new(bench, &remote.platform);
    remote.stream.watch(&second.reactor, KEY + 1, Trigger::Edges).unwrap();
    assert_eq!(second.next(), [Ready { key: KEY + 1, readable: true, ..WRITABLE }]);
    local.send_all(b"more");
    remote.stream.rearm(&second.reactor, KEY + 1, true, false).unwrap();
    assert_eq!(second.next(), [Ready { key: KEY + 1, ..readable(bench) }]);
    assert_eq!(first.quiet(), []);
}

/// A FIN is readable and, where a change is reported once, a hang-up (`EPOLLRDHUP`, epoll_ctl(2));
/// sending goes on.
pub fn the_end_of_the_peers_bytes_is_a_hang_up<B: Bench>(bench: &B) {
    let (local, remote) = pair(bench);
    let mut watcher = watch(bench, &remote);
    local.stream.half_close();
    assert_eq!(watcher.next(), [Ready { hangup: bench.lacks(Ability::Edges).is_none(), ..readable(bench) }]);
    assert_eq!(watcher.quiet(), []);
}

/// A reset makes a socket ready for everything (`EPOLLERR` and `EPOLLHUP`, which epoll_ctl(2)
/// reports unasked).
pub fn a_reset_is_readiness_for_everything<B: Bench>(bench: &B) {
    let (local, remote) = pair(bench);
    let mut watcher = Watcher::new(bench, &remote.platform);
    remote.stream.watch(&watcher.reactor, KEY, Trigger::ReadEdges).unwrap();
    local.stream.abort();
    let reset = watcher.until(|ready| ready.hangup);
    assert_eq!(reset, Ready { readable: true, hangup: true, ..WRITABLE });
}

/// Asking for the next event is allowed at any time, and brings none by itself where events come
/// unasked.
pub fn rearming_is_allowed_at_any_time<B: Bench>(bench: &B) {
    let (mut local, remote) = pair(bench);
    let mut watcher = watch(bench, &remote);
    remote.stream.rearm(&watcher.reactor, KEY, true, false).unwrap();
    assert_eq!(watcher.quiet(), []);
    local.send_all(b"x");
    assert!(watcher.next()[0].readable);
}

/// A wait until an instant that is past looks, brings what is there, and does not block.
pub fn a_past_instant_only_looks<B: Bench>(bench: &B) {
    let (mut local, remote) = pair(bench);
    let mut watcher = Watcher::new(bench, &remote.platform);
    assert_eq!(watcher.wait(Some(Mono(0))), []);
    local.send_all(b"x");
    remote.until(|ready| ready.readable);
    remote.stream.watch(&watcher.reactor, KEY, Trigger::Edges).unwrap();
    assert_eq!(watcher.wait(Some(Mono(0))), [Ready { readable: true, ..WRITABLE }]);
    assert_eq!(watcher.wait(Some(Mono(0))), []);
}

/// A wait in which nothing happens ends empty and not before its instant, to the nanosecond.
pub fn a_wait_ends_never_before_its_instant<B: Bench>(bench: &B) {
    let mut watcher = Watcher::new(bench, &bench.client());
    for ns in [1_000, 50_000, 1_500_000, 12_345_678] {
        let until = watcher.clock.now().plus(ns);
        assert_eq!(watcher.wait(Some(until)), []);
        assert!(watcher.clock.now() >= until);
    }
}

/// A wait without an instant lasts until a socket is ready.
pub fn a_socket_ends_a_wait_without_an_instant<B: Bench>(bench: &B) {
    let (mut local, remote) = pair(bench);
    let mut watcher = watch(bench, &remote);
    local.send_all(b"x");
    assert_eq!(watcher.wait(None), [readable(bench)]);
}

/// Whether no wake waits to be told.
fn is_quiet<B: Bench>(bench: &B, reactor: &ReactorOf<B>) -> bool {
    let rung = reactor.rung() && bench.lacks(Ability::ExactRung).is_none();
    !rung && !reactor.woken()
}

/// A wake that comes before a wait ends it at once, and no other wait after it.
pub fn a_wake_before_a_wait_ends_it_once<B: Bench>(bench: &B) {
    let mut watcher = Watcher::new(bench, &bench.client());
    let waker = watcher.reactor.waker();
    for _ in 0..3 {
        waker.wake();
        waker.clone().wake();
        assert!(watcher.reactor.rung());
        assert_eq!(watcher.wait(None), []);
        assert!(is_quiet(bench, &watcher.reactor), "the wait has taken the wake");
        let until = watcher.clock.now().plus(QUIET);
        assert_eq!(watcher.wait(Some(until)), []);
        assert!(watcher.clock.now() >= until);
    }
}

/// A wake from another thread ends a wait without an instant.
pub fn a_wake_during_a_wait_ends_it<B: Bench>(bench: &B) {
    let platform = bench.client();
    let mut watcher = Watcher::new(bench, &platform);
    let at = watcher.clock.now().plus(SECOND / 50);
    let (waker, mut sleep) = (watcher.reactor.waker(), Some(at));
    let alarm = spawn(&platform, "alarm", move |_, _| match sleep.take() {
        Some(at) => Park::Sleep(at),
        None => {
            waker.wake();
            Park::Done
        }
    });
    assert_eq!(watcher.wait(None), []);
    assert!(watcher.clock.now() >= at);
    assert!(crate::Join::join(alarm));
}

/// `woken` tells several wakes once and takes them; `rung` leaves them.
pub fn wakes_are_told_once_to_a_thread_that_does_not_wait<B: Bench>(bench: &B) {
    let reactor = bench.client().reactor().unwrap();
    assert!(is_quiet(bench, &reactor));
    for _ in 0..2 {
        reactor.waker().wake();
        reactor.waker().wake();
        assert!(reactor.rung() && reactor.rung());
        assert!(reactor.woken());
        assert!(is_quiet(bench, &reactor));
    }
}

/// A waker wakes the thread of its reactor and no other.
pub fn a_wake_is_its_own_reactors<B: Bench>(bench: &B) {
    let mut one = Watcher::new(bench, &bench.client());
    let other = Watcher::new(bench, &bench.client());
    other.reactor.waker().wake();
    assert!(is_quiet(bench, &one.reactor));
    let until = one.clock.now().plus(QUIET);
    assert_eq!(one.wait(Some(until)), []);
    assert!(one.clock.now() >= until);
    assert!(other.reactor.woken());
}

/// All clocks of a host show one monotonic time, and tell its relation to wall time as of one
/// moment.
pub fn clocks_agree_and_do_not_go_back<B: Bench>(bench: &B) {
    let platform = bench.client();
    let (one, other) = (platform.clock(), platform.clock());
    let mut last = Mono(0);
    for _ in 0..100 {
        for now in [one.now(), other.now(), one.clone().now()] {
            assert!(now >= last, "{now:?} after {last:?}");
            last = now;
        }
    }
    let (first, second) = (one.sample(), other.sample());
    let apart = first.wall_at_zero.abs_diff(second.wall_at_zero);
    assert!(apart < SECOND, "two readings of one wall clock, {apart} ns apart");
}
