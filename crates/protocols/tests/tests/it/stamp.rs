//! STAMP in virtual time: a path whose two ways differ and whose losses are known must be found as
//! it is; and no bytes, from whomever, may do harm.

use crate::support::bench::inputs;
use crate::support::ran;
use common::Psk;
use common::one_sided::{Answers, Calls};
use metrics::{Clock, Group, Mono, PacketTally, TwoWay};
use model::{Kind, Phase, Ping, Schedule, StampSettings, Transport};
use sim::{Link, Pair, Quirks, Side};
use stamp::codec::{Mode, Reply, Request};
use stamp::reflect::{self, Arrived, Rules, Session};
use stamp::{Sizes as _, acceptors, connectors, tlv};
use transport::{Open, Rng};

const MS: u64 = 1_000_000;
const GROUP: Group = Group(1);

fn key() -> Psk {
    Psk::new(b"twelve bytes").unwrap()
}

fn phase(stamp: StampSettings, messages: u64) -> Phase {
    let ping = Ping {
        transport: Transport::Udp,
        size: stamp.size(),
        messages: Some(messages),
        schedule: Schedule::Fixed { gap_ns: 10 * MS },
        timeout_ns: 500 * MS,
        stamp: Some(stamp),
        ..Ping::default()
    };
    Phase { kind: Kind::Ping, ping: Some(ping), connections: 1, iterations: Some(1), ..Phase::default() }
}

/// A sender and a reflector of ours.
fn pair(stamp: StampSettings, messages: u64) -> Pair {
    let key = stamp.authenticated.then(key);
    let phase = phase(stamp, messages);
    let calls = Calls {
        servers: common::Servers::at([([10, 0, 0, 2], 862).into()]),
        workers: 1,
        key: key.clone(),
        ..Calls::default()
    };
    let mut caller = connectors(&phase, &calls).remove(0);
    let mut side = Side::new(1, Quirks::default());
    let Open::Datagram(sender, _) = caller.open(&mut side.cx(Mono(0))) else { panic!("no flow") };
    let answers = Answers { workers: 1, key, ..Answers::default() };
    Pair::unsolicited(sender, acceptors(&phase, &answers).remove(0))
}

fn tally(pair: &mut Pair) -> PacketTally {
    *pair.ends[0].side.rec.take_tally(GROUP).packets.unwrap_or_default()
}

fn ways(tally: &PacketTally) -> TwoWay {
    *tally.ways.clone().unwrap_or_default()
}

#[test]
fn both_ways_of_a_known_path_are_found() {
    for authenticated in [false, true] {
        let stamp =
            StampSettings { authenticated, clock_info: true, cos: Some(10), ..StampSettings::default() };
        let mut pair = ran(pair(stamp, 100).up(Link::new().delay(3 * MS)).down(Link::new().delay(9 * MS)));
        assert!(pair.ends[0].completed(), "{:?}", pair.ends[0].ended);
        let tally = tally(&mut pair);
        assert_eq!((tally.counts.sent, tally.counts.received), (100, 100));
        let found = ways(&tally);
        let bound = found.facts.clock_bound_ns.unwrap();
        // Half of the round trip, and what clocks might have drifted; less where clocks are
        // believed.
        assert!(bound < 6 * MS + 100_000, "{bound}");
        for (dist, truth) in [(&found.there_ns, 3 * MS), (&found.back_ns, 9 * MS)] {
            let (low, high) = dist.extremes().unwrap();
            assert!(low.abs_diff(truth) <= bound && high.abs_diff(truth) <= bound, "{low} {high} {truth}");
        }
        let (low, high) = tally.path_ns.extremes().unwrap();
        assert!((12 * MS..12 * MS + 10_000).contains(&low) && high < 12 * MS + 10_000, "{low} {high}");
        assert_eq!((found.facts.rejected, found.facts.tampered), (0, 0));
        assert!(found.facts.unrecognised.is_empty() && found.facts.remote_clock.is_some());
    }
}

#[test]
fn losses_are_those_of_the_path_to_the_packet() {
    for seed in 1..30 {
        let link = || Link::new().delay(2 * MS).loss(0.1);
        let mut pair = ran(pair(StampSettings::default(), 400).seed(seed).up(link()).down(link()));
        let tally = tally(&mut pair);
        let facts = ways(&tally).facts;
        let (there, back) = (pair.fate(0).lost, pair.fate(1).lost);
        assert_eq!(tally.counts.lost as u64, there + back, "seed {seed}");
        assert_eq!(facts.there.lost + facts.back.lost + facts.lost_somewhere, there + back, "seed {seed}");
        // The first request opens the session; losses at the very end cannot be assigned to a
        // direction.
        assert!(
            facts.there.lost <= there && there - facts.there.lost <= facts.lost_somewhere,
            "seed {seed}: {facts:?}"
        );
        assert!(
            facts.back.lost <= back && back - facts.back.lost <= facts.lost_somewhere,
            "seed {seed}: {facts:?}"
        );
        assert!(facts.lost_somewhere <= 5, "seed {seed}: {facts:?}");
    }
}

#[test]
fn doubled_and_overtaken_packets_are_told_by_their_way() {
    let link = || Link::new().delay(2 * MS);
    let mut pair = ran(pair(StampSettings::default(), 400).up(link().duplicate(0.1)).down(link()));
    let facts = ways(&tally(&mut pair)).facts;
    assert_eq!((facts.there.duplicated, facts.back.duplicated), (pair.fate(0).doubled, 0));
    // Where nothing is lost on the way there the remote end's numbers are ours, and its doubles
    // could be anybody's; one loss tells.
    let mut pair = ran(self::pair(StampSettings::default(), 400)
        .up(link().loss(0.02))
        .down(link().duplicate(0.1))
        .seed(5));
    let facts = ways(&tally(&mut pair)).facts;
    assert!(pair.fate(0).lost > 0);
    assert_eq!((facts.there.duplicated, facts.back.duplicated), (0, pair.fate(1).doubled));
}

/// One packet in, one packet out, for any bytes.
fn thrown_at(rules: &Rules, session: &mut Session, bytes: &[u8], clock: &Clock) -> Option<Vec<u8>> {
    let request = reflect::check(rules, bytes)?;
    let got = Arrived { bytes, at: Mono(5), ttl: 64, tos: 0xb9 };
    if !reflect::admit(rules, session, &request, got.at) {
        return None;
    }
    let mut out = vec![0xee; bytes.len()];
    reflect::reply(rules, Some(session), (&request, &got), (Mono(9), clock), &mut out);
    Some(out)
}

#[test]
fn spoilt_packets_do_no_harm_and_none_proves_anything() {
    let mut rng = Rng::new(42);
    let clock =
        Clock { wall_at_zero: 1_700_000_000_000_000_000, error_ns: 5_000, synced: true, host_at_zero: 0 };
    let all = StampSettings {
        cos: Some(1),
        clock_info: true,
        follow_up: true,
        direct: true,
        ..StampSettings::default()
    };
    for mode in [Mode::Open, Mode::Sealed] {
        let settings = StampSettings { authenticated: mode == Mode::Sealed, ..all };
        let rules = Rules { key: settings.authenticated.then(key), unconfirmed: true };
        let mut whole = vec![0; settings.size() as usize + 40];
        Request { number: 7, sent: 99, error: 0x8001, ssid: 3 }.encode(mode, &mut whole);
        tlv::ask(&settings, rules.key.as_ref(), &7u32.to_be_bytes(), 1, &mut whole[mode.base()..]);
        let mut session = Session::default();
        let mut answered = 0;
        for _ in 0..inputs() {
            let mut bytes = whole.clone();
            for _ in 0..rng.between(1, 4) {
                let at = rng.between(0, bytes.len() as u64 - 1) as usize;
                bytes[at] = rng.next() as u8;
            }
            bytes.truncate(rng.between(0, 2 * whole.len() as u64) as usize);
            if let Some(reply) = thrown_at(&rules, &mut session, &bytes, &clock) {
                answered += 1;
                assert_eq!(reply.len(), bytes.len(), "never longer, never shorter");
                if let Some(units) = reply.get(mode.base()..) {
                    let _ = tlv::decode(mode, rules.key.as_ref(), &[0; 4], units);
                }
                let _ = Reply::decode(mode, &reply);
            }
            let _ = Reply::decode(mode, &bytes);
        }
        // The proof was zeros from the start: nothing spoilt may pass for proven.
        assert_eq!(answered > 0, mode == Mode::Open, "{mode:?} {answered}");
    }
}

#[test]
fn a_reply_is_what_the_request_was_and_no_more() {
    let clock = Clock::default();
    let rules = Rules::default();
    for octets in [14, 41, 44, 112, 1400] {
        let mut request = vec![0; octets];
        Request { number: 5, sent: 7, error: 1, ssid: 0 }.encode(Mode::Open, &mut request);
        let reply = thrown_at(&rules, &mut Session::default(), &request, &clock).unwrap();
        assert_eq!(reply.len(), octets);
    }
    assert_eq!(thrown_at(&rules, &mut Session::default(), &[0; 13], &clock), None);
}

#[test]
fn the_proof_is_that_of_another_library() {
    // HMAC-SHA-256 of 96 octets 00 01 .. 5f under the key "a shared secret", cut to 16: Python's
    // hmac and hashlib.
    let mut packet: Vec<u8> = (0..96).collect();
    packet.extend_from_slice(&[
        0x82, 0x1d, 0x0b, 0x66, 0xeb, 0x48, 0x3e, 0x79, 0x77, 0xe8, 0x7d, 0x90, 0x52, 0x9f, 0x7c, 0x1f,
    ]);
    let rules = Rules { key: Some(Psk::new(b"a shared secret").unwrap()), unconfirmed: false };
    assert!(reflect::check(&rules, &packet).is_some());
    packet[3] ^= 1;
    assert!(reflect::check(&rules, &packet).is_none());
}

#[test]
fn answers_of_nobody_settle_nothing() {
    // Bytes that were altered on the way are no answers: what they would have settled is lost.
    let stamp = StampSettings { authenticated: true, ..StampSettings::default() };
    let mut pair = ran(pair(stamp, 200).down(Link::new().delay(MS).corrupt(0.1)).seed(3));
    let tally = tally(&mut pair);
    let (damaged, found) = (pair.fate(1).damaged, ways(&tally).facts);
    assert!(damaged > 5, "{damaged}");
    assert_eq!(
        (found.rejected, tally.counts.lost as u64, tally.counts.received),
        (damaged, damaged, 200 - damaged)
    );
}
