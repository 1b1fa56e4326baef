//! Whether datagrams get through is known before a phase is proposed: a path that carries TCP and
//! no UDP is told by name, one that loses most of its datagrams is not taken for it.

use crate::support::run::{MS, Told, client_plan, join, outcome, serve, server_plan, told};
use crate::support::sized;
use metrics::SECOND;
use model::load::{Load, Stage};
use model::{Kind, Media, Pattern, Phase, Ping, Probe, Schedule, Status, Totals, Train, Transport};
use sim::{At, Cut, Link, Network, START};

/// Within this time an end must have come.
const SOON: u64 = 3 * SECOND;
const LOST: f64 = 1.0;

/// What sends datagrams, by name.
pub(crate) fn questions() -> Vec<(&'static str, Phase)> {
    let one = Phase { connections: 1, ..Phase::default() };
    let probe = Some(Probe { size: 160, lead_ns: 500 * MS, late_ns: 400 * MS, ..Probe::default() });
    let (rate, duration_ns) = (Some(100 * 160 * 8), Some(SECOND));
    let delay = |pattern| Phase { kind: Kind::Delay, pattern, duration_ns, rate, probe, ..one.clone() };
    let media = Media::new(1_000_000, 50, 2, 1, 1_400).unwrap();
    let frames = Some(Probe { size: media.datagram, ..Probe::default() });
    let media = Some(media);
    let stream = |pattern| Phase {
        kind: Kind::Stream,
        pattern,
        duration_ns: None,
        media,
        probe: frames,
        ..one.clone()
    };
    let schedule = Schedule::Fixed { gap_ns: 10 * MS };
    let ping = Ping { transport: Transport::Udp, messages: Some(100), schedule, ..Ping::default() };
    let train = Train { packets: 20, repeat: 20, ..Train::default() };
    let train = Phase {
        kind: Kind::Train,
        duration_ns: Some(train.duration_ns()),
        rate: Some(train.mean_bps(160)),
        train: Some(train),
        ..delay(Pattern::Push)
    };
    let ping = Phase { kind: Kind::Ping, ping: Some(ping), iterations: Some(1), ..one.clone() };
    let filler = Phase { duration_ns, ..Phase::default() };
    let [trips, beside] =
        Load { filler, ramp_ns: SECOND, rate: 50.0, servers: 1, seed: 1, ecn: None }.probes(Stage::Idle);
    vec![
        ("delay", delay(Pattern::Push)),
        ("delay -R", delay(Pattern::Pull)),
        ("delay --bidir", delay(Pattern::Duplex)),
        ("stream", stream(Pattern::Pull)),
        ("stream -R", stream(Pattern::Push)),
        ("ping -u", ping),
        ("train", train),
        ("load: round trips", trips.1),
        ("load: delay", beside.1),
    ]
}

/// A run over a path that does this to datagrams, and nothing to TCP.
fn over(phase: &Phase, up: f64, down: f64, seed: u64) -> Told {
    let mut net = Network::new(seed);
    let link = Link::new().delay(5 * MS);
    net.links(link.clone(), link.clone());
    net.datagram_links(link.clone().loss(up), link.loss(down));
    outcome(&mut net, server_plan(), client_plan(phase))
}

#[test]
fn blocked_datagrams_end_a_run_soon_with_the_reason() {
    for (name, phase) in questions() {
        for (up, down) in [(LOST, 0.0), (0.0, LOST), (LOST, LOST)] {
            let it = over(&phase, up, down, 3);
            let what = || format!("{name} {up} {down}: {it:#?}");
            let (end, status, reason) = it.end.clone().unwrap();
            assert_eq!(status, Status::Failed, "{}", what());
            assert!(end <= START.plus(SOON), "{}", what());
            let reason = reason.unwrap();
            assert!(reason.contains("no UDP datagram comes back although TCP works"), "{reason}");
            assert!(reason.contains("10.0.0.1:7411") && reason.contains("firewall"), "{reason}");
            assert!(it.local.is_none() && it.remote.is_empty() && it.intervals.is_empty(), "{}", what());
        }
    }
}

#[test]
fn a_path_that_loses_nine_in_ten_is_not_called_blocked() {
    let losses = [(1, 0.9, 0.0), (2, 0.0, 0.9), (3, 0.9, 0.9)];
    for (nth, (name, mut phase)) in questions().into_iter().enumerate() {
        if phase.kind == Kind::Delay {
            // It takes some hundred words to open a flow.
            (phase.duration_ns, phase.rate) = (Some(8 * SECOND), phase.rate.map(|rate| rate / 4));
        }
        if let Some(ping) = &mut phase.ping {
            // One message in a hundred comes back where both directions lose that many.
            ping.messages = ping.messages.map(|_| 1_000);
            phase.duration_ns = phase.duration_ns.map(|_| 20 * SECOND);
        }
        // One of the paths for each question in ./test, in turn.
        for (seed, up, down) in losses.into_iter().skip(sized(nth % 3, 0)).step_by(sized(3, 1)) {
            let it = over(&phase, up, down, seed);
            let what = || format!("{name} {up} {down} {seed}: {it:#?}");
            assert!(!it.reason().contains("firewall") && it.status() != Status::Failed, "{}", what());
        }
    }
}

/// Datagrams, or messages, that were sent at either end, and that arrived or came back.
fn moved(it: &Told) -> (u64, u64) {
    let of = |totals: &Totals| {
        let datagrams = totals.packets.as_ref().map(|packets| &packets.counts);
        let messages = totals.pings.as_ref().map(|pings| &pings.counts);
        let sent = datagrams.map_or(0, |counts| counts.sent) + messages.map_or(0, |counts| counts.sent);
        let came = datagrams.map_or(0, |counts| counts.received + counts.late)
            + messages.map_or(0, |counts| counts.received + counts.late);
        (sent, came)
    };
    it.local.iter().chain(&it.remote).map(of).fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1))
}

#[test]
fn packets_that_must_not_be_fragmented_may_all_be_lost() {
    let mut lost = 0;
    for (_, mut phase) in questions().into_iter().filter(|(_, phase)| phase.kind == Kind::Delay) {
        phase.sockets.dont_fragment = Some(true);
        phase.rate = phase.rate.map(|rate| rate / 50);
        for seed in 1..20 {
            let it = over(&phase, 0.9, 0.9, seed);
            let (sent, came) = moved(&it);
            if sent > 0 && came == 0 {
                lost += 1;
                assert_ne!(it.status(), Status::Failed, "{seed}: {it:#?}");
                // One run of each question shows it.
                if sized(true, false) {
                    break;
                }
            }
        }
    }
    assert!(lost > 0);
}

#[test]
fn a_run_in_which_nothing_arrived_has_failed() {
    let (mut unopened, mut lost) = (0, 0);
    for (name, phase) in questions() {
        for seed in [1, 3] {
            let it = over(&phase, 0.97, 0.97, seed);
            let (sent, came) = moved(&it);
            let what = || format!("{name} {seed}: {it:#?}");
            assert_eq!(it.status() == Status::Failed, came == 0, "{}", what());
            unopened += u32::from(it.reason().contains("no flow of datagrams could be opened"));
            lost += u32::from(sent > 0 && came == 0);
        }
    }
    assert!(unopened > 0, "each of these runs could open a flow");
    assert!(unopened + lost > 1);
}

#[test]
fn a_run_whose_messages_all_were_lost_has_failed() {
    let (_, phase) = questions().into_iter().find(|(_, phase)| phase.ping.is_some()).unwrap();
    let mut net = Network::new(3);
    let link = Link::new().delay(5 * MS);
    net.links(link.clone(), link.clone());
    // The answers to the hello and to the opening arrive, 80 bytes each, and nothing behind them.
    net.datagram_links(link.clone(), link.cut(At::Byte(100), Cut::Silence));
    let it = outcome(&mut net, server_plan(), client_plan(&phase));
    let (sent, came) = moved(&it);
    assert!(sent > 0 && came == 0, "{it:#?}");
    assert_eq!(it.status(), Status::Failed, "{it:#?}");
    assert!(it.reason().contains("no message returned over UDP"), "{}", it.reason());
}

#[test]
fn tcp_asks_nothing_of_datagrams() {
    let phase = Phase { duration_ns: Some(SECOND), connections: 1, ..Phase::default() };
    assert_eq!(over(&phase, LOST, LOST, 1).status(), Status::Complete);
    let ping = Ping { messages: Some(10), ..Ping::default() };
    let phase = Phase { kind: Kind::Ping, ping: Some(ping), iterations: Some(1), ..phase };
    assert_eq!(over(&phase, LOST, LOST, 1).status(), Status::Complete);
}

#[test]
fn a_server_that_vanishes_meanwhile_is_not_called_a_firewall() {
    let (_, phase) = questions().remove(0);
    let mut net = Network::new(3);
    let link = Link::new().delay(50 * MS);
    net.links(link.clone(), link.clone());
    net.datagram_links(link.clone().loss(LOST), link);
    let server = serve(&mut net, server_plan());
    let client = join(&mut net, 0, client_plan(&phase));
    // The connection is there after 100 ms, and five round trips after 700 ms.
    net.unplug_at(server, START.plus(SECOND));
    net.run();
    let it = told(&net, client);
    assert_eq!(it.status(), Status::Failed, "{it:#?}");
    assert!(it.reason().contains("no answer within 10 s"), "{}", it.reason());
}
