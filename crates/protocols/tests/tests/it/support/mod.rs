//! What the tests share.

pub(crate) mod bench;
pub(crate) mod driven;
pub(crate) mod host;
pub(crate) mod run;

use common::protocol::Foreigners;
use metrics::Group;
use model::{Pattern, Phase};
use native::{Data, Grant, Grants, Listener, Opener, OpeningKey, Params};
use run::MS;
use sim::{Link, Pair, Quirks};
use std::collections::BTreeSet;
use std::sync::Arc;
use uuid::Uuid;

/// A protocol.
pub(crate) type Spoken = &'static dyn common::Protocol;

/// What the binary speaks, in the order of its table. A new one joins here.
pub(crate) static PROTOCOLS: [Spoken; 13] = [
    &native::PROTOCOL,
    &::iperf3::PROTOCOL,
    &::ctstraffic::PROTOCOL,
    &::ttcp::PROTOCOL,
    &::ntttcp::PROTOCOL,
    &::udpmon::tcpmon::PROTOCOL,
    &::udpmon::PROTOCOL,
    &::bwdelaytester::PROTOCOL,
    &::echo::PROTOCOL,
    &::stamp::PROTOCOL,
    &::discard::PROTOCOL,
    &::discard::chargen::PROTOCOL,
    &::udpstp::PROTOCOL,
];

/// The number of the session that tests open connections of.
pub(crate) const SESSION: u64 = 7;
pub(crate) const ID: Uuid = Uuid::from_u128(0x0123_4567_89ab_4def_8123_4567_89ab_cdef);

/// The size of a test: `./test` takes the first, and `bench/deep`, which sets `NETCALIPER_INPUTS`,
/// the second.
pub(crate) fn sized<T>(usual: T, deep: T) -> T {
    if std::env::var_os("NETCALIPER_INPUTS").is_some() { deep } else { usual }
}

/// Combinations of settings that have so many values each, as indices: all of them where
/// `NETCALIPER_INPUTS` is set, as by `bench/deep`; otherwise as few as hold every pair of values of
/// two settings.
pub(crate) fn combinations<const N: usize>(sizes: [usize; N]) -> Vec<[usize; N]> {
    let nth = |mut n: usize| {
        sizes.map(|size| {
            let value = n % size;
            n /= size;
            value
        })
    };
    let all = (0..sizes.iter().product()).map(nth);
    if sized(false, true) {
        return all.collect();
    }
    let pairs = |one: [usize; N]| (0..N).flat_map(move |j| (0..j).map(move |i| (i, one[i], j, one[j])));
    let mut missing: BTreeSet<_> = all.clone().flat_map(pairs).collect();
    let mut chosen = Vec::new();
    // First the combinations that add the most pairs.
    for most in (1..=N * (N - 1) / 2).rev() {
        for one in all.clone() {
            if pairs(one).filter(|pair| missing.contains(pair)).count() >= most {
                missing.retain(|&(i, a, j, b)| one[i] != a || one[j] != b);
                chosen.push(one);
            }
        }
    }
    chosen
}

/// Paths and threads, good and bad, by name.
pub(crate) fn conditions() -> Vec<(&'static str, Link, Quirks)> {
    let clean = Link::new();
    let slow = Link::new().delay(30 * MS).rate(10_000_000).window(20_000);
    let lossy = Link::new().delay(5 * MS).jitter(3 * MS).loss(0.02).reorder(0.05).duplicate(0.02);
    vec![
        ("clean", clean.clone(), Quirks::default()),
        ("slow", slow, Quirks::default()),
        ("lossy", lossy.clone(), Quirks::default()),
        ("one-byte reads", clean.clone(), Quirks::one_byte_reads()),
        ("tiny sends", clean, Quirks::tiny_sends()),
        ("rough", lossy, Quirks::rough()),
    ]
}

pub(crate) fn phase(pattern: Pattern, transfer: u64) -> Phase {
    Phase { pattern, transfer, ..Phase::default() }
}

/// What openings of the session are sealed with.
pub(crate) fn key() -> OpeningKey {
    OpeningKey::new(b"a session's key!", &[])
}

/// Openings of the session, from the first.
pub(crate) fn opener() -> Opener {
    Opener::new(SESSION, key())
}

pub(crate) fn listener(phase: &Phase) -> Listener {
    let params = Arc::new(Params::of(phase, Group(1)));
    let grants = Arc::new(Grants::new(Foreigners::default(), None));
    grants.insert(SESSION, Arc::new(Grant::new(key(), params, 0..1)));
    Listener::new(grants, Arc::default(), 0)
}

pub(crate) fn client(phase: &Phase, rude: bool) -> Box<Data> {
    let params = Arc::new(Params::of(phase, Group(1)));
    Box::new(Data::client(params, &opener(), ID, 0, phase.transfer, rude))
}

/// A data connection as a phase wants it, client to greeter.
pub(crate) fn pair(phase: &Phase, rude: bool) -> Pair {
    Pair::accepted(client(phase, rude), &mut listener(phase))
}

/// A pair that has run to its end.
pub(crate) fn ran(mut pair: Pair) -> Pair {
    pair.run();
    pair
}

/// The events that flows have told their session.
pub(crate) fn told(outbox: &[transport::Message]) -> impl Iterator<Item = &model::Event> {
    outbox.iter().filter_map(|message| match message.downcast_ref() {
        Some(common::message::SharedMessage::Event(event)) => Some(event),
        _ => None,
    })
}
