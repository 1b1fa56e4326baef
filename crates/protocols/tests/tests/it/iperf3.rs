//! Both ends of iperf3 in virtual time: every mode over every kind of link and thread, and clients
//! that are none.

use crate::support::run::{MS, Told, address, client_ip, network, told};
use common::Acl;
use iperf3::codec::framed;
use iperf3::judge::{Judge, TokenVerdict};
use iperf3::params::Parameters;
use iperf3::{Bulk, BulkEnded, BulkNews, BulkTerms};
use iperf3::{Client, ClientPlan, Limits, Opening, Server, ServerOptions, ServerPlan, Store};
use metrics::SECOND;
use model::{Event, Kind, Phase, Standing, Status, Verify};
use sim::{Host, Link, Network, Quirks, Say};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

pub(crate) fn server_plan() -> ServerPlan {
    ServerPlan {
        options: ServerOptions::default(),
        workers: 2,
        cores: vec![Some(0), Some(1)],
        acl: Acl::default(),
        streams: Acl::default(),
        interval_ns: SECOND,
        exit_after: None,
        sessions: true,
        congestion: ("cubic".into(), vec![]),
        meter: Box::new(|| (0.0, 0.0)),
    }
}

/// A server's plan with these options.
fn with(options: ServerOptions) -> ServerPlan {
    ServerPlan { options, ..server_plan() }
}

fn serve(net: &mut Network, plan: ServerPlan) -> Host {
    let now = net.now;
    net.serve(address(1), 2, Box::new(Server::new(plan, now)))
}

pub(crate) fn client_plan(terms: BulkTerms) -> ClientPlan {
    let kind = if terms.udp { Kind::Delay } else { Kind::Tcp };
    ClientPlan {
        server: common::Peer::new("server", address(1)),
        phase: Phase { kind, verify: Verify::None, ..Phase::default() },
        parameters: Parameters { terms, token: None },
        interval_ns: SECOND,
        workers: 2,
        from: None,
        port: None,
        greeting_ns: 10 * SECOND,
        begin_ns: 15 * SECOND,
        results_ns: 15 * SECOND,
        silence_ns: 120 * SECOND,
        congestion: "cubic".into(),
        meter: Box::new(|| (0.0, 0.0)),
        records: false,
        store: None,
        user_timeout_ns: None,
    }
}

fn join(net: &mut Network, n: u32, plan: ClientPlan) -> Host {
    let now = net.now;
    net.join(client_ip(n), 2, Box::new(Client::new(plan, now)))
}

fn call(net: &mut Network, n: u32, terms: BulkTerms) -> Host {
    join(net, n, client_plan(terms))
}

/// A network with a server and its one client.
fn one(seed: u64, server: ServerPlan, client: ClientPlan) -> (Network, Host, Host) {
    let mut net = network(seed);
    let server = serve(&mut net, server);
    let client = join(&mut net, 1, client);
    (net, server, client)
}

fn terms() -> BulkTerms {
    BulkTerms { time_s: 3, block: 8_000, ..BulkTerms::usual() }
}

fn udp() -> BulkTerms {
    BulkTerms { udp: true, block: 500, rate: 400_000, wide: true, ..terms() }
}

/// What was told of a host's tests.
fn bulk(net: &Network, host: Host) -> Vec<Bulk> {
    net.events(host).iter().filter_map(|(_, event)| Bulk::of(event)).collect()
}

pub(crate) fn ended(net: &Network, host: Host) -> Vec<BulkEnded> {
    let of = |bulk: Bulk| if let BulkNews::Ended(ended) = bulk.news { Some(*ended) } else { None };
    bulk(net, host).into_iter().filter_map(of).collect()
}

fn complete(net: &Network, client: Host) -> (Told, BulkEnded) {
    let told = told(net, client);
    assert_eq!((told.status(), told.reason()), (Status::Complete, ""));
    let ended = ended(net, client);
    assert_eq!(ended.len(), 1);
    (told, ended.into_iter().next().unwrap())
}

/// A test of one second.
fn short(terms: BulkTerms) -> BulkTerms {
    BulkTerms { time_s: 1, ..terms }
}

fn modes() -> Vec<BulkTerms> {
    let mut modes = vec![];
    for base in [terms(), udp()].map(short) {
        modes.push(base.clone());
        modes.push(BulkTerms { reverse: true, streams: 3, ..base.clone() });
        modes.push(BulkTerms { bidir: true, streams: 2, ..base.clone() });
        modes.push(BulkTerms { omit_s: 1, ..base.clone() });
        modes.push(BulkTerms { omit_s: 1, reverse: true, ..base.clone() });
        modes.push(BulkTerms { time_s: 0, bytes: 100_000, ..base.clone() });
        modes.push(BulkTerms { time_s: 0, blocks: 40, streams: 2, reverse: true, ..base.clone() });
        modes.push(BulkTerms { rate: 300_000, burst: 4, wide: false, ..base });
    }
    modes
}

fn check(terms: &BulkTerms, end: &BulkEnded) {
    assert_eq!(
        (end.local.len(), end.remote.len()),
        (terms.all_streams() as usize, terms.all_streams() as usize)
    );
    for (local, remote) in end.local.iter().zip(&end.remote) {
        assert_eq!((local.slot, local.sender), (remote.slot, terms.client_sends(local.slot)), "{terms:?}");
        let (sent, got) =
            if local.sender { (local.bytes, remote.bytes) } else { (remote.bytes, local.bytes) };
        assert!(got > 0, "{terms:?}: {local:?} {remote:?}");
        // What was on its way when the omitted start ended counts at the receiver only.
        assert!(terms.omit_s > 0 || got <= sent, "{terms:?}: {local:?} {remote:?}");
    }
    let sent: u64 = end.local.iter().filter(|row| row.sender).map(|row| row.bytes).sum();
    let got: u64 = end.local.iter().filter(|row| !row.sender).map(|row| row.bytes).sum();
    let most = terms.bytes.max(terms.blocks * u64::from(terms.block));
    assert!(most == 0 || sent.max(got) >= most, "{terms:?}: {sent} {got}");
}

/// The test of the server may be over before the client asks again for an answer that was lost.
#[test]
fn a_lost_answer_to_a_hello_does_not_make_a_server_old() {
    for seed in 1..=20 {
        let streams = 1 + (seed % 2) as u32;
        let asked = BulkTerms { time_s: 1, bidir: true, streams, rate: 100_000, ..udp() };
        let (mut net, _, client) = one(seed, server_plan(), client_plan(asked));
        net.datagram_links(Link::new().delay(MS), Link::new().delay(MS).loss(0.2));
        net.run();
        let told = told(&net, client);
        assert_eq!((told.status(), told.reason()), (Status::Complete, ""), "{seed}");
    }
}

#[test]
fn every_mode_over_a_clean_link() {
    for terms in modes() {
        let (mut net, server, client) = one(5, server_plan(), client_plan(terms.clone()));
        net.run();
        net.run_until(net.now.plus(5 * SECOND));
        let (told, end) = complete(&net, client);
        check(&terms, &end);
        // Of each connection, up to its last interval.
        let mut intervals = bulk(&net, client).into_iter().filter_map(|bulk| match bulk.news {
            BulkNews::Interval { rows, .. } => Some(rows),
            _ => None,
        });
        let last = intervals.next_back().unwrap();
        for row in end.local.iter().chain(&last) {
            assert_eq!(row.retransmits.is_some(), row.sender && !terms.udp, "{terms:?}: {row:?}");
        }
        if terms.udp {
            assert!(end.local.iter().all(|row| row.lost == 0 && row.duplicates == 0), "{end:?}");
            assert!(end.remote.iter().all(|row| row.lost == 0), "{end:?}");
        }
        assert_eq!((told.sessions.len(), told.remote.len()), (1, 1));
        // People who watch the server see a session that moved bytes and ended.
        let mut stood = net.events(server).iter().filter_map(|(_, event)| match event {
            Event::Served(served) => Some(served),
            _ => None,
        });
        let last = stood.next_back().unwrap();
        assert_eq!((last.standing, last.open), (Standing::Ended, 0), "{terms:?}");
        assert_eq!(last.phase.as_ref().map(|phase| phase.connections), Some(terms.streams), "{terms:?}");
        assert_eq!(last.total.tx_bytes > 0, terms.reverse || terms.bidir, "{last:?}");
        // The server told the same, and holds nothing any more.
        assert_eq!(ended(&net, server).len(), 1, "{terms:?}");
        assert_eq!((net.open(server), net.groups(server)), ((0, 0), 0), "{terms:?}");
    }
}

/// The end of test overtakes the data: what has not been read by then is not counted.
#[test]
fn an_amount_has_arrived_before_the_test_ends() {
    let way = || Link::new().delay(20 * MS);
    for terms in [
        BulkTerms { bytes: 300_000, ..terms() },
        BulkTerms { blocks: 40, streams: 3, ..terms() },
        BulkTerms { bytes: 200_000, rate: 2_000_000, ..udp() },
    ] {
        let terms = BulkTerms { time_s: 0, ..terms };
        let (mut net, server, client) = one(6, server_plan(), client_plan(terms.clone()));
        net.links(way().rate(1_000_000), way());
        net.datagram_links(way().delay(60 * MS), way());
        net.run();
        let (_, end) = complete(&net, client);
        for (local, remote) in end.local.iter().zip(&end.remote) {
            assert_eq!((local.bytes, local.packets as i64), (remote.bytes, remote.packets), "{terms:?}");
            // Waiting for that belongs to neither end's time: 8 s a million bytes, at most.
            let most = 8_000 * local.bytes + 150 * MS;
            assert!(local.end_ns <= most, "{terms:?}: {local:?}");
            assert!(terms.udp || remote.ns.unwrap() <= most, "{terms:?}: {remote:?}");
        }
        net.run_until(net.now.plus(SECOND));
        assert_eq!((net.open(server), net.groups(server)), ((0, 0), 0));
    }
}

/// A receiver of an old version waits for all of a block: in any split into calls the total is
/// whole blocks.
#[test]
fn calls_of_any_length_end_with_a_whole_block() {
    for (quirks, block) in [Quirks::default(), Quirks::tiny_sends(), Quirks::rough()]
        .into_iter()
        .flat_map(|quirks| [7, 3_001, 65_536].map(|block| (quirks, block)))
    {
        let mut plan = client_plan(BulkTerms { time_s: 1, block, ..terms() });
        plan.phase.sockets.whole_segments = true;
        let (mut net, _, client) = one(7, server_plan(), plan);
        let slow = Link::new().delay(MS).rate(400_000).window(10_000);
        net.links(slow.clone(), slow);
        net.quirks(client, quirks);
        net.run();
        let (_, end) = complete(&net, client);
        let sent = end.local[0].bytes;
        assert!(sent >= u64::from(block) && sent % u64::from(block) == 0, "{sent} in blocks of {block}");
    }
}

#[test]
fn every_mode_where_nothing_goes_as_planned() {
    for (seed, quirks) in (0..).zip([Quirks::one_byte_reads(), Quirks::tiny_sends(), Quirks::rough()]) {
        for terms in modes() {
            // Slow enough for one byte at a time.
            let slow = BulkTerms {
                rate: 25_000,
                block: terms.block.min(1_000),
                bytes: terms.bytes.min(3_000),
                blocks: terms.blocks.min(6),
                ..terms
            };
            let (mut net, server, client) = one(seed, server_plan(), client_plan(slow.clone()));
            net.quirks(server, quirks);
            net.quirks(client, quirks);
            net.run();
            let (_, end) = complete(&net, client);
            check(&slow, &end);
        }
    }
}

#[test]
fn loss_and_repeats_are_counted_as_the_wire_wants_and_as_they_are() {
    for (terms, at_client) in [(udp(), false), (BulkTerms { reverse: true, ..udp() }, true)] {
        let (mut net, server, client) = one(7, server_plan(), client_plan(terms));
        let lossy = Link::new().delay(MS).loss(0.05).duplicate(0.02);
        let (up, down) =
            if at_client { (Link::new().delay(MS), lossy) } else { (lossy, Link::new().delay(MS)) };
        net.datagram_links(up, down);
        net.run();
        net.run_until(net.now.plus(SECOND));
        let (_, end) = complete(&net, client);
        let server = ended(&net, server).remove(0);
        let receiver = if at_client { end.local[0] } else { server.local[0] };
        let told = if at_client { server.remote[0] } else { end.remote[0] };
        assert_eq!(told.lost, receiver.lost, "both ends agree");
        assert!(receiver.lost > 0 && receiver.duplicates > 0, "{receiver:?}");
        // A repeat takes a loss back, as in the original: what is not lost is at least what came,
        // repeats not counted, and at most all that came.
        let (came, kept) = (receiver.bytes / 500, receiver.packets - receiver.lost.unsigned_abs());
        assert!((came - receiver.duplicates..=came).contains(&kept), "{receiver:?}");
    }
}

#[test]
fn many_clients_at_once() {
    let mut net = network(9);
    let server = serve(&mut net, server_plan());
    let clients: Vec<(BulkTerms, Host)> = modes()
        .into_iter()
        .enumerate()
        .map(|(n, terms)| (terms.clone(), call(&mut net, n as u32 + 1, terms)))
        .collect();
    net.run();
    net.run_until(net.now.plus(5 * SECOND));
    for (terms, client) in &clients {
        let (_, end) = complete(&net, *client);
        check(terms, &end);
    }
    assert_eq!(ended(&net, server).len(), clients.len());
    assert_eq!((net.open(server), net.groups(server)), ((0, 0), 0));
}

#[test]
fn whoever_vanishes_leaves_nothing_behind() {
    for terms in [terms(), BulkTerms { reverse: true, ..terms() }, udp(), BulkTerms { bidir: true, ..udp() }]
        .map(short)
    {
        // In every step of the conversation.
        for after in [0, 1, 2, 3, 4, 5, 7, 9, 12, 500, 999, 1_003, 1_005, 1_007] {
            let (mut net, server, victim) = one(11, server_plan(), client_plan(terms.clone()));
            let beside = call(&mut net, 2, short(udp()));
            net.kill_at(victim, net.now.plus(after * MS));
            net.run();
            net.run_until(net.now.plus(120 * SECOND));
            complete(&net, beside);
            assert_eq!((net.open(server), net.groups(server)), ((0, 0), 0), "{terms:?} {after}");
        }
    }
}

#[test]
fn a_server_that_vanishes_or_stops_is_told() {
    for (after, killed) in [(0, true), (5, true), (1_000, true), (1_000, false), (3_004, true)] {
        let (mut net, server, client) = one(13, server_plan(), client_plan(terms()));
        match killed {
            true => net.kill_at(server, net.now.plus(after * MS)),
            false => net.stop_at(server, net.now.plus(after * MS)),
        }
        net.run();
        let told = told(&net, client);
        assert!(matches!(told.status(), Status::Failed | Status::Partial), "{after}: {:?}", told.end);
        assert!(!told.reason().is_empty());
        if !killed {
            assert!(told.reason().contains("server has terminated"), "{}", told.reason());
        }
    }
}

#[test]
fn a_client_that_is_stopped_has_results_all_the_same() {
    let plan = client_plan(BulkTerms { time_s: 0, ..terms() });
    let (mut net, _, client) = one(15, server_plan(), plan);
    net.stop_at(client, net.now.plus(2 * SECOND));
    net.run();
    let told = told(&net, client);
    assert_eq!((told.status(), told.remote.len()), (Status::Interrupted, 1));
    let end = ended(&net, client).remove(0);
    assert!(end.remote[0].bytes > 0 && end.error.is_none());
}

#[test]
fn limits_are_kept() {
    let mut net = network(17);
    let limits = Limits { rate: Some((1_000_000, 1)), duration_s: Some(20), ..Limits::default() };
    serve(&mut net, with(ServerOptions { limits, ..ServerOptions::default() }));
    let over = [
        call(&mut net, 1, BulkTerms { rate: 5_000_000, ..terms() }),
        call(&mut net, 2, BulkTerms { time_s: 15, ..terms() }),
        call(&mut net, 3, BulkTerms { rate: 600_000, bidir: true, ..terms() }),
        call(&mut net, 4, BulkTerms { rate: 1_000, time_s: 21, ..terms() }),
        call(&mut net, 5, BulkTerms { rate: 1_000, time_s: 0, bytes: 10, ..terms() }),
    ];
    let within = call(&mut net, 6, BulkTerms { rate: 500_000, ..terms() });
    net.run();
    for (n, client) in over.into_iter().enumerate() {
        let told = told(&net, client);
        let expected = if n < 3 { "larger than server limit" } else { "maximum permitted" };
        assert!(told.reason().contains(expected), "{n}: {}", told.reason());
    }
    complete(&net, within);
}

#[test]
fn a_hello_that_comes_again_is_no_datagram() {
    // Half of the answers are lost, and nothing else.
    let mut completed = 0;
    for seed in 0..12 {
        let plan = client_plan(BulkTerms { time_s: 1, streams: 2, rate: 100_000, ..udp() });
        let (mut net, _, client) = one(seed, server_plan(), plan);
        net.datagram_links(Link::new().delay(MS), Link::new().delay(MS).loss(0.5));
        net.run();
        let told = told(&net, client);
        let end = ended(&net, client);
        if told.status() == Status::Complete {
            completed += 1;
            assert!(end[0].remote.iter().all(|row| row.lost == 0 && row.packets > 0), "{:?}", end[0].remote);
        }
    }
    assert!(completed > 0, "no run was complete");
}

#[test]
fn what_is_said_in_any_pieces_is_understood_and_rubbish_ends_one_test() {
    let cookie = [&[b'k'; 36][..], &[0]].concat();
    let document = framed(r#"{"tcp":true,"parallel":1,"time":1,"len":1000}"#);
    let said = [&cookie[..], &document].concat();
    for cut in 0..=said.len() {
        let mut net = network(19);
        let server = serve(&mut net, server_plan());
        let pieces = vec![(0, Say::Bytes(said[..cut].to_vec())), (50 * MS, Say::Bytes(said[cut..].to_vec()))];
        let raw = net.raw(Ipv4Addr::new(10, 200, 0, 1).into(), address(1), pieces);
        net.run_until(net.now.plus(SECOND));
        assert_eq!(net.raw_state(raw).heard, [9, 10], "cut at {cut}");
        // Its streams do not come.
        net.run_until(net.now.plus(60 * SECOND));
        assert_eq!(net.raw_state(raw).heard, [9, 10, 0xfe, 0, 0, 0, 204, 0, 0, 0, 0]);
        assert_eq!((net.open(server), net.groups(server)), ((0, 0), 0));
    }
    for at in 0..document.len() {
        let mut bytes = said.clone();
        bytes[37 + at] ^= 0x80;
        let mut net = network(21);
        let server = serve(&mut net, server_plan());
        let raw = net.raw(Ipv4Addr::new(10, 200, 0, 1).into(), address(1), vec![(0, Say::Bytes(bytes))]);
        net.run_until(net.now.plus(100 * SECOND));
        assert_eq!(net.raw_state(raw).heard.first(), Some(&9));
        assert_eq!((net.open(server), net.groups(server)), ((0, 0), 0), "{at}");
        assert!(ended(&net, server).is_empty());
    }
}

#[derive(Debug, Default)]
struct Memory(Mutex<Vec<u8>>);

impl Store for Memory {
    fn size(&self) -> u64 {
        self.0.lock().unwrap().len() as u64
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), String> {
        into.copy_from_slice(&self.0.lock().unwrap()[at as usize..][..into.len()]);
        Ok(())
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), String> {
        let mut file = self.0.lock().unwrap();
        let end = at as usize + bytes.len();
        if file.len() < end {
            file.resize(end, 0);
        }
        file[at as usize..end].copy_from_slice(bytes);
        Ok(())
    }
}

#[test]
fn a_file_arrives_as_it_was_in_either_direction() {
    let content: Vec<u8> = (0..9_999_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    for reverse in [false, true] {
        for seed in 0..5 {
            let full = Arc::new(Memory(Mutex::new(content.clone())));
            let empty = Arc::new(Memory::default());
            let (local, remote): (Arc<dyn Store>, Arc<dyn Store>) =
                if reverse { (empty.clone(), full) } else { (full, empty.clone()) };
            let file: Opening = Arc::new(move |_| Ok(Arc::clone(&remote)));
            let server = with(ServerOptions { file: Some(file), ..ServerOptions::default() });
            let terms =
                BulkTerms { time_s: 0, bytes: content.len() as u64, block: 1_000, reverse, ..terms() };
            let plan = ClientPlan { store: Some(local), ..client_plan(terms) };
            let (mut net, _, client) = one(seed, server, plan);
            net.run();
            let (_, end) = complete(&net, client);
            assert_eq!(
                (end.local[0].bytes, end.remote[0].bytes),
                (content.len() as u64, content.len() as u64)
            );
            assert!(*empty.0.lock().unwrap() == content, "{reverse} {seed}: {} bytes", empty.size());
        }
    }
}

#[test]
fn a_file_that_cannot_be_opened_keeps_no_server_from_ending() {
    let file: Opening = Arc::new(|_| Err("there is none".to_owned()));
    let plan = with(ServerOptions { file: Some(file), ..ServerOptions::default() });
    let (mut net, server, client) = one(33, plan, client_plan(terms()));
    net.run_until(net.now.plus(SECOND));
    assert_eq!(told(&net, client).status(), Status::Failed);
    net.stop_at(server, net.now.plus(SECOND));
    net.run_until(net.now.plus(10 * SECOND));
    assert_eq!(told(&net, server).status(), Status::Interrupted);
}

#[test]
fn a_test_that_moves_is_not_silent_however_long_its_intervals_are() {
    for reverse in [false, true] {
        let limits = Limits { silence_ns: SECOND / 2, ..Limits::default() };
        let server = with(ServerOptions { limits, ..ServerOptions::default() });
        let terms = BulkTerms { reverse, ..terms() };
        let plan = ClientPlan { silence_ns: SECOND / 2, interval_ns: 60 * SECOND, ..client_plan(terms) };
        let (mut net, _, client) = one(34, server, plan);
        net.run();
        complete(&net, client);
    }
}

#[test]
fn results_that_no_client_can_have_are_not_waited_for() {
    let mut net = network(35);
    let server = serve(&mut net, server_plan());
    let cookie = [&[b'k'; 36][..], &[0]].concat();
    let asked = framed(r#"{"tcp":true,"parallel":1,"time":1,"len":1000}"#);
    let talk = vec![
        (0, Say::Bytes([&cookie[..], &asked].concat())),
        (200 * MS, Say::Bytes(vec![4])),
        // The length of its results: a byte more than the longest.
        (5 * SECOND, Say::Bytes(vec![0, 4, 0, 1])),
    ];
    let from = Ipv4Addr::new(10, 200, 0, 1).into();
    let talker = net.raw(from, address(1), talk);
    net.raw(from, address(1), vec![(100 * MS, Say::Bytes(cookie))]);
    net.run_until(net.now.plus(7 * SECOND));
    assert_eq!(net.raw_state(talker).heard, [9, 10, 1, 2, 13, 0xfe, 0, 0, 0, 117, 0, 0, 0, 0]);
    net.run_until(net.now.plus(10 * SECOND));
    assert_eq!((net.open(server), net.groups(server)), ((0, 0), 0));
}

#[test]
fn tokens_that_take_long_keep_only_their_own_address_waiting() {
    // Never comes to a verdict on junk, and lets everybody else in.
    let junk_asked = Arc::new(Mutex::new(0));
    let asked = Arc::clone(&junk_asked);
    let judge: Judge = Arc::new(move |token, _| {
        if token == Some("good") {
            return Some(TokenVerdict::new(true.into()));
        }
        *asked.lock().unwrap() += 1;
        Some(TokenVerdict::default())
    });
    let mut net = network(31);
    serve(&mut net, with(ServerOptions { judge: Some(judge), ..ServerOptions::default() }));
    let call = |net: &mut Network, n: u32, token: &str| {
        let parameters = Parameters { terms: terms(), token: Some(token.to_owned()) };
        join(net, n, ClientPlan { parameters, ..client_plan(terms()) })
    };
    let junk: Vec<_> = (0..20).map(|_| call(&mut net, 1, "junk")).collect();
    net.run_until(net.now.plus(SECOND));
    let good = call(&mut net, 2, "good");
    net.run_until(net.now.plus(20 * SECOND));
    assert_eq!(told(&net, good).status(), Status::Complete);
    assert_eq!(*junk_asked.lock().unwrap(), 4, "four of an address at once");
    net.run();
    for client in junk {
        assert_eq!(told(&net, client).status(), Status::Failed);
    }
}

#[test]
fn silent_clients_keep_nobody_out() {
    let mut net = network(32);
    let server = serve(&mut net, server_plan());
    // A cookie, and nothing more.
    for n in 0..600u16 {
        let from = Ipv4Addr::new(10, 200, 0, (n % 3) as u8 + 1);
        let mut cookie = format!("{n:036}").into_bytes();
        cookie.push(0);
        net.raw(from.into(), address(1), vec![(0, Say::Bytes(cookie))]);
    }
    net.run_until(net.now.plus(SECOND));
    let client = call(&mut net, 9, terms());
    net.run();
    assert_eq!(told(&net, client).status(), Status::Complete);
    let notices = net
        .events(server)
        .iter()
        .filter(|(_, event)| matches!(event, Event::Notice { text, .. } if text.contains("had to give way")));
    assert_eq!(notices.count(), 1);
}
