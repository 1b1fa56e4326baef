use super::*;
use crate::testing::{accept, here, pair};
use crate::{Clock, Listener, Stream};
use metrics::{Mono, SECOND};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use transport::{
    Arena, Burst, Net as _, Reactor as _, Ready, StreamSettings, StreamSocket as _, Target, Wake as _,
};

fn bench() -> (Reactor, Clock, Vec<Ready>) {
    (Reactor::new().unwrap(), Clock::new(), Vec::new())
}

fn soon(clock: &Clock) -> Option<Mono> {
    Some(clock.now().plus(60 * SECOND))
}

fn send(stream: &Stream, bytes: &'static [u8]) -> usize {
    let mut arena = Arena::new(8);
    let mut burst = Burst::new(&mut arena, usize::MAX);
    burst.fixed(bytes);
    stream.net(&mut [], &Clock::new(), false).send(&burst).bytes
}

#[test]
fn a_deadline_is_never_early_and_a_past_one_does_not_block() {
    let (mut reactor, clock, mut out) = bench();
    for ns in [1_000, 50_000, 1_500_000, 12_345_678] {
        let until = clock.now().plus(ns);
        // Other systems may come early and are asked again.
        while cfg!(not(target_os = "linux")) && clock.now() < until {
            reactor.wait(Some(until), &clock, &mut out).unwrap();
        }
        reactor.wait(Some(until), &clock, &mut out).unwrap();
        assert!(clock.now() >= until);
        assert!(out.is_empty());
    }
    reactor.wait(Some(Mono(0)), &clock, &mut out).unwrap();
    assert!(out.is_empty());
}

#[test]
fn a_wake_from_another_thread_ends_a_wait_without_end() {
    let (mut reactor, clock, mut out) = bench();
    let waker = reactor.waker();
    let thread = std::thread::spawn(move || waker.wake());
    reactor.wait(None, &clock, &mut out).unwrap();
    assert!(out.is_empty());
    thread.join().unwrap();
}

#[test]
fn no_wake_is_lost_however_they_interleave() {
    const ROUNDS: u32 = 20_000;
    let (mut reactor, clock, mut out) = bench();
    let posted = Arc::new(AtomicU32::new(0));
    let start = Arc::new(Barrier::new(3));
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let (waker, posted, start) = (reactor.waker(), Arc::clone(&posted), Arc::clone(&start));
            std::thread::spawn(move || {
                start.wait();
                for _ in 0..ROUNDS {
                    // Relaxed: the waker alone must make it visible.
                    posted.fetch_add(1, Ordering::Relaxed);
                    waker.wake();
                }
            })
        })
        .collect();
    start.wait();
    while posted.load(Ordering::Relaxed) < 2 * ROUNDS {
        let deadline = soon(&clock);
        reactor.wait(deadline, &clock, &mut out).unwrap();
        assert!(Some(clock.now()) < deadline, "a wake was lost");
    }
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_loop_that_never_waits_hears_a_wake_once() {
    let (reactor, ..) = bench();
    assert!(!reactor.woken());
    let waker = reactor.waker();
    waker.wake();
    waker.wake();
    assert!(reactor.woken() && !reactor.woken());
}

#[test]
fn edges_come_once_and_a_hang_up_is_told() {
    let (mut reactor, clock, mut out) = bench();
    let (near, far) = pair("127.0.0.1:0", &StreamSettings::default());
    reactor.watch(&near, 42).unwrap();
    reactor.wait(soon(&clock), &clock, &mut out).unwrap();
    assert_eq!(out, [Ready { key: 42, readable: false, writable: true, hangup: false }]);
    reactor.wait(Some(clock.now()), &clock, &mut out).unwrap();
    assert_eq!(out, []);
    reactor.rearm(&near, 42, true, false).unwrap();
    assert_eq!(send(&far, b"x"), 1);
    reactor.wait(soon(&clock), &clock, &mut out).unwrap();
    assert!(matches!(out[..], [Ready { key: 42, readable: true, hangup: false, .. }]));
    reactor.rearm(&near, 42, true, false).unwrap();
    drop(far);
    loop {
        reactor.wait(soon(&clock), &clock, &mut out).unwrap();
        assert_eq!(out.len(), 1);
        if out[0].hangup || cfg!(not(target_os = "linux")) {
            break;
        }
    }
    assert!(out[0].readable);
}

#[test]
fn a_listener_is_reported_until_it_is_empty() {
    let (mut reactor, clock, mut out) = bench();
    let listener = Listener::bind(here(), false, &StreamSettings::default()).unwrap();
    reactor.watch_level(&listener, 7).unwrap();
    let to = Target { to: listener.local().unwrap(), from: None };
    let _streams: Vec<_> =
        (0..2).map(|_| Stream::connect(&to, &StreamSettings::default()).unwrap()).collect();
    for _ in 0..2 {
        reactor.wait(soon(&clock), &clock, &mut out).unwrap();
        assert!(matches!(out[..], [Ready { key: 7, readable: true, .. }]));
        accept(&listener);
    }
    reactor.wait(Some(clock.now()), &clock, &mut out).unwrap();
    assert_eq!(out, []);
}

#[test]
fn a_socket_moves_between_reactors_and_says_at_once_what_it_has() {
    let (mut first, clock, mut out) = bench();
    let mut second = Reactor::new().unwrap();
    let (near, far) = pair("127.0.0.1:0", &StreamSettings::default());
    send(&far, b"waiting");
    first.watch(&near, 1).unwrap();
    first.forget(&near).unwrap();
    assert!(first.forget(&near).is_err());
    second.watch(&near, 2).unwrap();
    while !out.iter().any(|ready| ready.readable) {
        second.rearm(&near, 2, true, false).unwrap();
        second.wait(soon(&clock), &clock, &mut out).unwrap();
        assert!(out.iter().all(|ready| ready.key == 2));
    }
    first.wait(Some(clock.now()), &clock, &mut out).unwrap();
    assert_eq!(out, []);
    // Watching again changes the key.
    second.watch(&near, 3).unwrap();
    second.wait(soon(&clock), &clock, &mut out).unwrap();
    assert_eq!(out[0].key, 3);
    assert!(second.watch(&near, u64::MAX).is_err());
}
