//! Mailboxes, and threads that drive tasks.

use super::ends::{connect, listener, spawn};
use super::{Ability, Bench, ListenerOf, PATIENCE, Watcher};
use crate::{
    Clock as _, Join as _, ListenerSocket as _, Mail, Net as _, Park, Platform, Reactor as _, Read, Ready,
    Receiver as _, Sender as _, SocketSettings, StreamSocket as _, Task, Trigger, Wake as _, Watch as _,
};
use metrics::Mono;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

type SenderOf<B, T> = <<B as Bench>::Platform as Platform>::Sender<T>;
type JoinOf<B> = <<B as Bench>::Platform as Platform>::Join;
type ReceiverOf<B, T> = <<B as Bench>::Platform as Platform>::Receiver<T>;

/// The next message, which another thread may still have to send; `None` when the mailbox is
/// closed.
fn next<B: Bench, T: Send + 'static>(bench: &B, mailbox: &ReceiverOf<B, T>) -> Option<T> {
    let mut watcher = Watcher::new(bench, &bench.client());
    let deadline = watcher.clock.now().plus(PATIENCE);
    loop {
        match mailbox.try_recv() {
            Mail::Message(message) => return Some(message),
            Mail::Closed => return None,
            Mail::Empty => {
                let soon = watcher.clock.now().plus(1_000_000);
                assert!(soon < deadline, "no message came");
                watcher.wait(Some(soon));
            }
        }
    }
}

/// All messages until the mailbox is closed.
fn all<B: Bench, T: Send + 'static>(bench: &B, mailbox: &ReceiverOf<B, T>) -> Vec<T> {
    std::iter::from_fn(|| next(bench, mailbox)).collect()
}

/// Messages of one sender arrive in the order in which they were sent, all of them and once; those
/// of clones are mixed.
pub fn a_mailbox_keeps_the_order_of_each_sender<B: Bench>(bench: &B) {
    let (sender, mailbox) = bench.client().channel();
    assert!(matches!(mailbox.try_recv(), Mail::<(u8, u32)>::Empty));
    let clone = sender.clone();
    for i in 0..100 {
        sender.send((0, i));
        clone.send((1, i));
    }
    drop((sender, clone));
    let got = all::<B, _>(bench, &mailbox);
    for sender in [0, 1] {
        let of = got.iter().filter(|message| message.0 == sender).map(|message| message.1);
        assert!(of.eq(0..100));
    }
    assert_eq!(got.len(), 200);
}

/// A mailbox is closed when its last sender is gone and its last message taken, not before.
pub fn a_mailbox_is_closed_when_it_is_empty_and_no_sender_is_left<B: Bench>(bench: &B) {
    let (sender, mailbox) = bench.client().channel();
    let clone = sender.clone();
    sender.send(7);
    drop(sender);
    assert_eq!(next::<B, _>(bench, &mailbox), Some(7));
    assert!(matches!(mailbox.try_recv(), Mail::Empty), "one sender is left");
    clone.send(8);
    drop(clone);
    assert_eq!(next::<B, _>(bench, &mailbox), Some(8));
    assert_eq!(next::<B, _>(bench, &mailbox), None);
    assert!(matches!(mailbox.try_recv(), Mail::Closed));
}

/// A message to a mailbox whose receiving end is gone is lost without a sound.
pub fn a_message_to_nobody_is_lost<B: Bench>(bench: &B) {
    let (sender, mailbox) = bench.client().channel();
    drop(mailbox);
    sender.send(1);
}

/// Starts posters of so many numbers, each followed by a wake; what they wake, the mailbox, and the
/// threads.
fn posters<'b, B: Bench>(
    bench: &'b B,
    posters: usize,
    numbers: u32,
) -> (Watcher<'b, B>, ReceiverOf<B, u32>, Vec<JoinOf<B>>) {
    let platform = bench.client();
    let watcher = Watcher::new(bench, &platform);
    let (sender, mailbox): (SenderOf<B, u32>, _) = platform.channel();
    let threads = (0..posters).map(|_| {
        let (waker, sender, mut left) = (watcher.reactor.waker(), sender.clone(), 0..numbers);
        spawn(&platform, "poster", move |_, _| {
            let Some(number) = left.next() else { return Park::Done };
            sender.send(number);
            waker.wake();
            Park::Run
        })
    });
    let threads = threads.collect();
    (watcher, mailbox, threads)
}

/// A message that was sent before a wake is there when the wait that the wake has ended is over.
pub fn what_was_sent_before_a_wake_is_there_after_the_wait<B: Bench>(bench: &B) {
    for _ in 0..20 {
        let (mut watcher, mailbox, threads) = posters(bench, 1, 1);
        assert_eq!(watcher.wait(None), []);
        assert!(matches!(mailbox.try_recv(), Mail::Message(0)));
        assert!(threads.into_iter().all(|thread| thread.join()));
    }
}

/// However wakes and waits interleave, no wake is lost: a thread that takes all messages after each
/// wait gets them all.
pub fn no_wake_is_lost<B: Bench>(bench: &B) {
    const NUMBERS: u32 = 2_000;
    let (mut watcher, mailbox, threads) = posters(bench, 2, NUMBERS);
    let mut got = 0;
    while got < 2 * NUMBERS {
        let deadline = watcher.clock.now().plus(PATIENCE);
        watcher.wait(Some(deadline));
        assert!(watcher.clock.now() < deadline, "a wake was lost after {got} messages");
        while let Mail::Message(_) = mailbox.try_recv() {
            got += 1;
        }
    }
    assert!(threads.into_iter().all(|thread| thread.join()));
}

/// What a [`Scripted`] task was called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Step,
    Resume { ready: usize },
}

/// Answers each step with the next of its parks, and tells of each call and its time.
struct Scripted<P: Platform> {
    reactor: P::Reactor,
    clock: P::Clock,
    parks: std::vec::IntoIter<Park>,
    calls: P::Sender<(Call, Mono)>,
}

impl<P: Platform> Task<P> for Scripted<P> {
    fn step(&mut self) -> Park {
        self.calls.send((Call::Step, self.clock.now()));
        self.parks.next().unwrap_or(Park::Done)
    }

    fn reactor(&mut self) -> &mut P::Reactor {
        &mut self.reactor
    }

    fn resume(&mut self, ready: io::Result<&mut Vec<Ready>>) {
        let ready = ready.unwrap().len();
        self.calls.send((Call::Resume { ready }, self.clock.now()));
    }
}

/// Runs a task that answers so, to its end; its calls and their times.
fn scripted<B: Bench>(bench: &B, parks: Vec<Park>) -> Vec<(Call, Mono)> {
    let platform = bench.client();
    let (calls, mailbox) = platform.channel();
    let (reactor, clock) = (platform.reactor().unwrap(), platform.clock());
    let task = Scripted::<B::Platform> { reactor, clock, parks: parks.into_iter(), calls };
    let thread = platform.spawn("scripted", task).unwrap();
    assert!(thread.join());
    // The task is gone and with it the sender.
    all::<B, _>(bench, &mailbox)
}

/// A task is stepped again and again until it is done; joining waits for that.
pub fn a_task_is_stepped_until_it_is_done<B: Bench>(bench: &B) {
    let calls = scripted(bench, vec![Park::Run; 3]);
    assert!(calls.iter().all(|call| call.0 == Call::Step));
    assert_eq!(calls.len(), 4);
}

/// `resume` follows each wait and nothing else, and neither a wait nor a sleep ends before its
/// instant.
pub fn a_task_is_resumed_after_each_wait_and_not_otherwise<B: Bench>(bench: &B) {
    let now = bench.client().clock().now();
    let at = |ms: u64| now.plus(ms * 1_000_000);
    let calls = scripted(
        bench,
        vec![
            Park::Wait(Some(Mono(0))),
            Park::Sleep(at(5)),
            Park::Wait(Some(at(10))),
            Park::Run,
            Park::Sleep(now),
        ],
    );
    let resume = Call::Resume { ready: 0 };
    let order: Vec<Call> = calls.iter().map(|call| call.0).collect();
    use Call::Step;
    assert_eq!(order, [Step, resume, Step, Step, resume, Step, Step, Step]);
    assert!(calls[3].1 >= at(5) && calls[4].1 >= at(10), "{now:?} {calls:?}");
}

/// A wake ends a task's wait without an instant, from another thread.
pub fn a_wake_ends_the_wait_of_a_task<B: Bench>(bench: &B) {
    let platform = bench.client();
    let (sender, mailbox) = platform.channel::<<B::Platform as Platform>::Waker>();
    let mut sender = Some(sender);
    let thread = spawn(&platform, "sleeper", move |reactor, resumed| {
        if let Some(sender) = sender.take() {
            sender.send(reactor.waker());
        }
        if resumed { Park::Done } else { Park::Wait(None) }
    });
    next::<B, <B::Platform as Platform>::Waker>(bench, &mailbox).unwrap().wake();
    assert!(thread.join());
}

/// Accepts one connection and returns what comes there, to its end.
struct Echo<P: Platform> {
    reactor: P::Reactor,
    clock: P::Clock,
    listener: P::Listener,
    stream: Option<P::Stream>,
    watched: bool,
    over: bool,
}

/// Key of the listener.
const LISTENER: u64 = 0;
/// Key of the connection.
const STREAM: u64 = 1;

impl<P: Platform> Task<P> for Echo<P> {
    fn step(&mut self) -> Park {
        if !self.watched {
            self.watched = true;
            self.listener.watch(&self.reactor, LISTENER, Trigger::Level).unwrap();
        }
        if self.over { Park::Done } else { Park::Wait(None) }
    }

    fn reactor(&mut self) -> &mut P::Reactor {
        &mut self.reactor
    }

    fn resume(&mut self, ready: io::Result<&mut Vec<Ready>>) {
        for ready in ready.unwrap().drain(..) {
            match (ready.key, &self.stream) {
                (LISTENER, None) => {
                    let Some((stream, _)) = self.listener.accept().unwrap() else { continue };
                    stream.watch(&self.reactor, STREAM, Trigger::Edges).unwrap();
                    self.listener.forget(&self.reactor).unwrap();
                    self.stream = Some(stream);
                }
                (STREAM, Some(stream)) => {
                    self.over = echo::<P>(stream, &self.clock);
                    stream.rearm(&self.reactor, STREAM, true, false).unwrap();
                }
                other => panic!("an unexpected report: {other:?}", other = other.0),
            }
        }
    }
}

/// Returns all bytes that are there; whether the peer's have ended.
fn echo<P: Platform>(stream: &P::Stream, clock: &P::Clock) -> bool {
    let mut buffer = [0; 100];
    loop {
        let bytes = match stream.net(&mut buffer, clock, false).recv(Read::look(100)) {
            crate::Got::Received(received) => received.bytes.to_vec(),
            crate::Got::Nothing => return false,
            crate::Got::Fin => return true,
            crate::Got::Fault(fault) => panic!("{fault}"),
        };
        super::ends::send(&mut stream.net(&mut [], clock, false), 1, &bytes, |_| {});
    }
}

/// A task learns by its reactor of connections, of bytes and of their end.
pub fn a_task_serves_sockets<B: Bench>(bench: &B) {
    let platform = bench.server();
    let (listener, to): (ListenerOf<B>, _) = listener(bench);
    let (reactor, clock) = (platform.reactor().unwrap(), platform.clock());
    let echo = Echo::<B::Platform> { reactor, clock, listener, stream: None, watched: false, over: false };
    let thread = platform.spawn("echo", echo).unwrap();
    let mut local = connect(bench, &to, &SocketSettings::default());
    for _ in 0..3 {
        local.send_all(b"question");
        assert_eq!(local.recv_all(8), b"question");
    }
    local.stream.half_close();
    assert!(local.recv(Read::look(1)).is_fin());
    assert!(thread.join());
}

/// A task that panics ends its thread alone, and joining tells. Where threads share the caller's,
/// the panic is the caller's too.
pub fn a_task_that_panics_is_told_by_join<B: Bench>(bench: &B) {
    let platform = bench.client();
    let thread = spawn(&platform, "broken", |_, _| panic!("this panic belongs to the check"));
    let joined = catch_unwind(AssertUnwindSafe(|| thread.join()));
    assert_eq!(joined.ok(), bench.lacks(Ability::Panics).is_none().then_some(false));
}

/// Random numbers are not the same twice.
pub fn random_numbers_differ<B: Bench>(bench: &B) {
    let platform = bench.client();
    let drawn: std::collections::BTreeSet<u64> = (0..100).map(|_| platform.random()).collect();
    assert_eq!(drawn.len(), 100);
}
