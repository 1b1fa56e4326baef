//! ttcp in virtual time: streams without framing, to the byte, on good and bad paths.

use crate::support::bench::{Bench, inputs, last_news, mutate};
use crate::support::run::{MS, Told, address, call_with, client_ip, network, portions, serve_with, told};
use crate::support::{combinations, conditions, ran, sized};
use common::bulk::{Filler, Params, Receiver, Sender, UNLIMITED};
use common::one_sided::{Answers, Calls};
use metrics::{Group, Mono, SECOND};
use model::{Burst, Event, Payload, Phase, Portion, Range, Status, Verify};
use sim::{At, Cut, Host, HungUp, Link, Network, Pair, Say};
use std::sync::Arc;
use transport::{Cause, Context, Fault, Flow, FlowEvent, Path, Violation};

fn phase(buffers: u64, length: u64) -> Phase {
    Phase {
        connections: 1,
        iterations: Some(1),
        transfer: buffers * length,
        buffer: Range::just(length),
        duration_ns: None,
        verify: Verify::Connection,
        ..Phase::default()
    }
}

fn params(phase: &Phase) -> Arc<Params> {
    Arc::new(Params::of(phase, Group(1), Filler::Printable))
}

fn pair(phase: &Phase) -> Pair {
    let (here, there) = (Sender::new(params(phase), 0), Receiver::new(params(phase)));
    Pair::stream(Box::new(here), Box::new(there))
}

#[test]
fn every_byte_arrives_over_every_path() {
    let conditions = conditions();
    let sizes = [(1, 1), (1, 5), (20, 512), (sized(3, 7), 8_191), (2, sized(16_384, 65_536))];
    for [condition, size, verify] in combinations([conditions.len(), sizes.len(), 2]) {
        let ((name, link, quirks), (buffers, length)) = (conditions[condition].clone(), sizes[size]);
        let verify = [Verify::Connection, Verify::None][verify];
        let what = format!("{name} {buffers} x {length} {verify:?}");
        let phase = Phase { verify, ..phase(buffers, length) };
        let pair = ran(pair(&phase).seed(length).quirks(quirks).both(link));
        let [here, there] = &pair.ends;
        assert!(here.completed() && there.completed(), "{what}: {:?} {:?}", here.ended, there.ended);
        assert_eq!((here.counts.tx_bytes, here.counts.rx_bytes), (phase.transfer, 0), "{what}");
        assert_eq!((there.counts.tx_bytes, there.counts.rx_bytes), (0, phase.transfer), "{what}");
    }
}

#[test]
fn no_limit_is_exceeded_by_the_last_burst() {
    // Of n bursts all are paid for, whatever the last one of them is followed by.
    for count in [1, 7, 20, 60] {
        let (rate, burst) = (1_000_000, Some(Burst { count, delay_ns: 0 }));
        let phase =
            Phase { rate: Some(rate), burst: burst.filter(|burst| burst.count > 1), ..phase(60, 2_000) };
        let (_, [sender, _]) = measured(count.into(), &phase, &phase);
        let bps = sender.tx_bytes as f64 * 8e9 / (sender.to_ns - sender.from_ns) as f64;
        assert_eq!(sender.tx_bytes, 120_000);
        assert!(bps <= rate as f64 * 1.000_01 && bps > rate as f64 * 0.99, "{count}: {bps}");
    }
}

#[test]
fn a_silent_path_is_noticed_by_both_ends() {
    let phase = phase(1_000, 65_536);
    let pair = ran(pair(&phase).both(Link::new().delay(MS).cut(At::Byte(600_000), Cut::Silence)));
    let stalled = |end: usize| match &pair.ends[end].ended {
        Some(Err(Cause::Violation(Violation::Likely(what, _)))) => matches!(**what, Violation::Stalled(_)),
        _ => false,
    };
    // Both wait for equally long; the path back still carries the receiver's reset.
    let reset = matches!(&pair.ends[0].ended, Some(Err(Cause::Fault(Fault { errno: 104, .. }))));
    assert!(stalled(1) && (stalled(0) || reset), "{:?}", pair.ends.each_ref().map(|end| &end.ended));
}

fn serve(net: &mut Network, phase: &Phase) -> Host {
    let answers = Answers { exit_after: Some(1), workers: 1, arrivals: true, ..Answers::default() };
    serve_with(net, 1, phase.clone(), ttcp::acceptors(phase, &answers), true)
}

fn portion(net: &Network, host: Host) -> Portion {
    let portions = portions(net, host);
    assert_eq!(portions.len(), 1);
    portions[0]
}

fn finish(net: &mut Network) {
    net.run();
    net.run_until(net.now.plus(10 * SECOND));
}

/// One connection between a client and a server with these phases: what both told, and what moved.
fn measured(seed: u64, called: &Phase, served: &Phase) -> ([Told; 2], [Portion; 2]) {
    let mut net = network(seed);
    let server = serve(&mut net, served);
    let calls = Calls { servers: common::Servers::at([address(1)]), workers: 1, ..Calls::default() };
    let client = call_with(&mut net, 1, 1, called, ttcp::connectors(called, &calls), true);
    finish(&mut net);
    let hosts = [client, server];
    (hosts.map(|host| told(&net, host)), hosts.map(|host| portion(&net, host)))
}

#[test]
fn both_ends_tell_what_moved_and_how_long_it_took() {
    let phase = phase(20, 8_192);
    let (both, [tx, rx]) = measured(3, &phase, &phase);
    for told in both {
        assert_eq!((told.status(), told.local().completed, told.local().errors()), (Status::Complete, 1, 0));
    }
    assert_eq!((tx.tx_bytes, tx.calls, rx.rx_bytes), (163_840, 20, 163_840));
    // 163,840 bytes at 2 Mbit/s take 655 ms, and the receiver sees all of them.
    let ns = rx.to_ns - rx.from_ns;
    assert!((655 * MS..685 * MS).contains(&ns), "{ns}");
}

#[test]
fn a_timed_run_ends_behind_a_whole_buffer_and_with_a_fin() {
    let timed = Phase { transfer: UNLIMITED, duration_ns: Some(2 * SECOND), ..phase(1, 8_192) };
    let ([here, there], [tx, rx]) = measured(4, &timed, &phase(1, 8_192));
    assert_eq!((here.status(), here.local().errors()), (Status::Complete, 0));
    assert_eq!((there.status(), there.local().completed), (Status::Complete, 1));
    assert_eq!((tx.tx_bytes % 8_192, tx.tx_bytes), (0, rx.rx_bytes));
    // 2 Mbit/s for two seconds, and what the send buffer held.
    assert!((490_000..600_000).contains(&tx.tx_bytes), "{}", tx.tx_bytes);
}

#[test]
fn the_rate_limit_holds() {
    let limited = Phase { rate: Some(800_000), ..phase(25, 8_192) };
    let (_, [tx, _]) = measured(5, &limited, &limited);
    // 204,800 bytes at 100,000 a second.
    let ns = tx.to_ns - tx.from_ns;
    assert!((2_000 * MS..2_100 * MS).contains(&ns), "{ns}");
}

#[test]
fn a_receiver_takes_one_connection_and_turns_others_away() {
    let mut net = network(6);
    let server = serve(&mut net, &phase(1, 8_192));
    let first =
        net.raw(client_ip(1), address(1), vec![(0, Say::Bytes(b" !\"#".to_vec())), (SECOND, Say::Fin)]);
    let second = net.raw(client_ip(2), address(1), vec![(SECOND / 2, Say::Bytes(b"!".to_vec()))]);
    finish(&mut net);
    assert_eq!(net.raw_state(first).ended.map(|(_, how)| how), Some(HungUp::Fin));
    assert_eq!(net.raw_state(second).ended.map(|(_, how)| how), Some(HungUp::Reset));
    assert_eq!((told(&net, server).status(), portion(&net, server).rx_bytes), (Status::Complete, 4));
}

#[test]
fn somebody_else_s_filler_is_named() {
    let mut net = network(7);
    let server = serve(&mut net, &phase(1, 8_192));
    net.raw(client_ip(1), address(1), vec![(0, Say::Bytes(vec![b'A'; 100])), (SECOND, Say::Fin)]);
    finish(&mut net);
    let named = |(_, event): &(Mono, Event)| matches!(event, Event::Notice { text, .. } if text.ends_with("sends what ntttcp sends"));
    assert!(net.events(server).iter().any(named), "{:?}", net.events(server));
}

#[test]
fn an_interrupted_receiver_keeps_what_it_has() {
    let mut net = network(8);
    let server = serve(&mut net, &phase(1, 8_192));
    net.raw(client_ip(1), address(1), vec![(0, Say::Bytes(vec![b' '; 100])), (60 * SECOND, Say::Fin)]);
    let now = net.now;
    net.stop_at(server, now.plus(SECOND));
    finish(&mut net);
    let told = told(&net, server);
    assert_eq!((told.status(), portion(&net, server).rx_bytes), (Status::Interrupted, 100));
}

#[test]
fn damaged_streams_make_neither_end_panic_or_say_a_word_too_many() {
    let mut bench = Bench::new(31);
    let mut rng = transport::Rng::new(32);
    let path = Path { peer: ([10, 0, 0, 1], 1).into(), local: ([10, 0, 0, 2], 2).into() };
    for n in 0..inputs() {
        let payload = if rng.next() & 1 == 0 { Payload::Random } else { Payload::Pattern };
        let length = rng.between(1, 200);
        let phase = Phase { payload, ..phase(rng.between(1, 9), length) };
        let mut flow: Box<dyn Flow> = if n % 2 == 0 {
            Box::new(Sender::new(params(&phase), 0))
        } else {
            Box::new(Receiver::new(params(&phase)))
        };
        let mut bytes = b" !\"#$%&'".repeat(4);
        mutate(&mut rng, &mut bytes);
        let Bench { rec, rng: own, clock, outbox, now, .. } = &mut bench;
        flow.on_event(&mut Context::new(*now, clock, own, rec, outbox), FlowEvent::Up(path)).unwrap();
        let content = bench.feed(&mut *flow, if n % 4 == 0 { &[] } else { &bytes }, last_news(&mut rng));
        let row = flow.id().row.unwrap();
        let (counts, since) = bench.rec.life(row);
        assert!(since > Mono(0) && counts.tx_bytes <= phase.transfer);
        assert!(n % 4 != 2 || bytes.is_empty() || !content, "a sender takes nothing");
        bench.rec.close(row);
        bench.outbox.clear();
    }
}
