//! The ending of a run in which nothing came back, for every protocol, question and direction: a
//! peer that accepts connections and datagrams and says nothing, no peer at all, and a peer of
//! another protocol.

use crate::support::PROTOCOLS;
use crate::support::host::host;
use crate::support::run::{MS, Told, address, client_ip, told};
use common::one_sided::{Answers, OneSided, OneSidedPlan, OneSidedProtocol};
use common::protocol::{Calling, Protocol};
use common::{Acl, ClientConfig, Peer};
use metrics::SECOND;
use model::{
    Kind, Media, Pattern, Phase, Ping, Probe, Range, Schedule, StampSettings, Status, Train, Transport,
    Verify,
};
use sim::{Link, Network, START};
use stamp::Sizes as _;
use transport::LinkSource;

/// Protocols whose peers report nothing: to the sender all is well as long as the kernel takes its
/// payload.
const UNREPORTED: [&str; 4] = ["ttcp", "ntttcp", "bwdelaytester", "discard"];

/// A client gives a silent server up within this time, ns: the tests of udpmon's stand-in wait 33
/// s, as the original.
const SOON: u64 = 35 * SECOND;
const TALKS: [&str; 2] = ["native", "iperf3"];

/// Every question in every direction, each with its name.
fn questions() -> Vec<(String, Phase)> {
    let base = Phase {
        connections: 2,
        duration_ns: Some(2 * SECOND),
        verify: Verify::None,
        buffer: Range::just(8_192),
        ..Phase::default()
    };
    let mut all = Vec::new();
    let probe = Some(Probe { size: 160, lead_ns: 500 * MS, late_ns: 400 * MS, ..Probe::default() });
    let media = Media::new(1_000_000, 50, 2, 1, 1_400).unwrap();
    let frames = Some(Probe { size: media.datagram, ..Probe::default() });
    for pattern in [Pattern::Push, Pattern::Pull, Pattern::Duplex] {
        all.push((format!("tcp {pattern}"), Phase { pattern, ..base.clone() }));
        let compared = Phase { pattern, verify: Verify::Connection, ..base.clone() };
        all.push((format!("tcp {pattern}, counted"), compared));
        let delay = Phase { kind: Kind::Delay, pattern, probe, rate: Some(128_000), ..base.clone() };
        all.push((format!("delay {pattern}"), Phase { connections: 1, ..delay }));
        let (media, duration_ns, iterations) = (Some(media), None, Some(1));
        let stream = Phase { kind: Kind::Stream, pattern, media, duration_ns, ..base.clone() };
        all.push((format!("stream {pattern}"), Phase { probe: frames, ..stream.clone() }));
        all.push((format!("stream {pattern} without probes"), Phase { iterations, ..stream }));
    }
    let stamp = StampSettings::default();
    for (over, ping) in [
        ("tcp", Ping::default()),
        ("udp", Ping { transport: Transport::Udp, ..Ping::default() }),
        (
            "stamp",
            Ping { transport: Transport::Udp, size: stamp.size(), stamp: Some(stamp), ..Ping::default() },
        ),
    ] {
        let fixed = Schedule::Fixed { gap_ns: 100 * MS };
        for (stop, messages, schedule, duration_ns) in [
            ("-n", Some(5), fixed, None),
            ("-t", None, fixed, Some(2 * SECOND)),
            ("--flood", None, Schedule::Closed, Some(2 * SECOND)),
        ] {
            let ping = Some(Ping { messages, schedule, timeout_ns: SECOND / 2, ..ping });
            let iterations = messages.map(|_| 1);
            let phase =
                Phase { kind: Kind::Ping, connections: 1, ping, duration_ns, iterations, ..base.clone() };
            all.push((format!("ping {over} {stop}"), phase));
        }
    }
    let train = Train { packets: 20, repeat: 5, ..Train::default() };
    let (rate, duration_ns) = (Some(train.mean_bps(160)), Some(train.duration_ns()));
    let trains = Phase { kind: Kind::Train, connections: 1, ..base };
    all.push(("train".to_owned(), Phase { probe, train: Some(train), rate, duration_ns, ..trains.clone() }));
    let asked =
        udpmon::PacketTestSettings { size: 200, packets: 30, waits: vec![20_000], ..Default::default() };
    let iterations = Some(1);
    let trains = Phase { extra: asked.extra(), duration_ns: None, iterations, ..trains };
    all.push(("train of udpmon".to_owned(), trains));
    for pattern in [Pattern::Push, Pattern::Pull] {
        let capacity = udpstp::Settings { test_s: 5, ..udpstp::Settings::default() };
        all.push((format!("capacity {pattern}"), capacity.phase(pattern, 2)));
    }
    all
}

/// What answers at the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remote {
    /// It takes connections, bytes and datagrams, and says nothing: a discard service.
    Mute,
    Absent,
    /// It sends lines of characters on every connection.
    Other,
}

fn serve(net: &mut Network, protocol: &'static OneSidedProtocol) {
    let phase = (protocol.info.legacy.as_ref().unwrap().phase)();
    let answers = Answers { workers: 1, streams: Acl::default(), ..Answers::default() };
    let sources = LinkSource::acceptors((protocol.acceptors)(&phase, &answers));
    let (name, counts) = (protocol.info.name, protocol.info.counts);
    let (serving, servers, records) = (true, Default::default(), false);
    let plan = OneSidedPlan { protocol: name, phase, sources, serving, servers, records, counts };
    net.serve(address(1), 1, Box::new(OneSided::new(plan, START)));
}

/// A client's run; `None` where its protocol has no such question.
fn ended(protocol: &'static dyn Protocol, phase: &Phase, remote: Remote) -> Option<Told> {
    let phase = protocol.suited(phase.clone());
    phase.check().ok()?;
    protocol.check(&phase).ok()?;
    let mut net = Network::new(11);
    let link = Link::new().delay(MS).rate(2_000_000).window(50_000);
    net.links(link.clone(), link);
    match remote {
        Remote::Mute => serve(&mut net, &discard::PROTOCOL),
        Remote::Other => serve(&mut net, &discard::chargen::PROTOCOL),
        Remote::Absent => {}
    }
    let peers = vec![Peer { name: "server".into(), address: address(1), others: Vec::new() }];
    let config = ClientConfig { peers, ..ClientConfig::new(protocol) };
    let started = protocol.client(&Calling { config: &config, phase: &phase, host: host(START) }).ok()?;
    let client = net.join(client_ip(0), started.workers, started.session);
    net.run();
    Some(told(&net, client))
}

#[test]
fn a_run_of_which_nothing_came_back_is_never_a_success() {
    let questions = questions();
    let mut wrong = Vec::new();
    for protocol in PROTOCOLS {
        let mut asked = 0;
        for (name, phase) in &questions {
            for remote in [Remote::Mute, Remote::Absent, Remote::Other] {
                let Some(it) = ended(protocol, phase, remote) else { continue };
                asked += 1;
                let speaks = match remote {
                    Remote::Mute => protocol.name() == "discard",
                    Remote::Absent => false,
                    Remote::Other => protocol.name() == "chargen",
                };
                let sent = it.local.as_ref().is_some_and(|local| {
                    let datagrams = local.packets.as_ref().map_or(0, |packets| packets.counts.sent);
                    local.traffic.tx_bytes > 0 || datagrams > 0
                });
                let unreported = UNREPORTED.contains(&protocol.name()) && phase.pattern == Pattern::Push;
                let right = match it.status() {
                    Status::Failed => !speaks && !it.reason().is_empty(),
                    Status::Complete => speaks || (unreported && sent && it.remote.is_empty()),
                    // Payload left, until the bytes of another protocol ended the connections.
                    Status::Partial => {
                        unreported && sent && remote == Remote::Other && !it.reason().is_empty()
                    }
                    Status::Interrupted => false,
                };
                let limit = if TALKS.contains(&protocol.name()) { 15 * SECOND } else { SOON };
                let in_time = it.end.as_ref().is_some_and(|end| end.0 <= START.plus(limit));
                if !right || !in_time {
                    let (status, reason) = (it.status(), it.reason());
                    wrong.push(format!(
                        "{protocol}, {name}, {remote:?}: {status:?} {reason}, sent: {sent}, {in_time}"
                    ));
                }
            }
        }
        assert!(asked > 0, "{protocol} carries none of the questions");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
