//! Packet trains between two machines in virtual time: what is reported against what the link did.

use crate::support::run::{MS, client_ip, client_plan, serve, server_plan, told};
use crate::support::sized;
use metrics::{Packets, SECOND, StampKind, TrainPacket, TroubleKind};
use model::{Event, Kind, Pattern, Phase, Probe, SocketSettings, Status, Train, Trains};
use native::{Client, ClientPlan};
use sim::{Card, Host, Link, Network, Quirks, START};

const SIZE: u32 = 1_000;
/// IPv4 and UDP.
const HEADERS: f64 = 28.0;

/// Trains of so many packets, with these gaps in turn, each so often, ns.
fn train(packets: u32, waits_ns: &[u64], repeat: u32, every_ns: u64) -> Train {
    Train { packets, waits_ns: waits_ns.to_vec(), repeat, every_ns, ..Train::default() }
}

fn phase(pattern: Pattern, train: Train) -> Phase {
    Phase {
        kind: Kind::Train,
        pattern,
        connections: 1,
        duration_ns: Some(train.duration_ns()),
        interval_ns: 100 * MS,
        rate: Some(train.mean_bps(SIZE)),
        sockets: SocketSettings { card_stamps: true, ..SocketSettings::default() },
        probe: Some(Probe { size: SIZE, lead_ns: 500 * MS, late_ns: 400 * MS, ..Probe::default() }),
        train: Some(Train { samples: true, ..train }),
        ..Phase::default()
    }
}

struct Run {
    network: Network,
    client: Host,
}

fn run(phase: &Phase, up: Link, down: Link, seed: u64) -> Run {
    run_with(phase, up, down, seed, Card::Silent)
}

/// The same where the server has such a network card.
fn run_with(phase: &Phase, up: Link, down: Link, seed: u64, card: Card) -> Run {
    let mut network = Network::new(seed);
    network.datagram_links(up, down);
    let server = serve(&mut network, server_plan());
    network.quirks(server, Quirks { host_clock: 3_000 * SECOND, card, ..Quirks::default() });
    let plan = ClientPlan { workers: 1, ..client_plan(phase) };
    let client = network.join(client_ip(1), 1, Box::new(Client::new(plan, START)));
    network.run();
    Run { network, client }
}

impl Run {
    fn events(&self) -> impl Iterator<Item = &Event> {
        self.network.events(self.client).iter().map(|(_, event)| event)
    }

    fn trains(&self) -> &Trains {
        let ended = told(&self.network, self.client).end.map(|(_, status, reason)| (status, reason));
        assert_eq!(ended, Some((Status::Complete, None)));
        self.events().find_map(|e| if let Event::Trains(t) = e { Some(&**t) } else { None }).unwrap()
    }

    fn packets(&self) -> &[TrainPacket] {
        let rows = self
            .events()
            .filter_map(|e| if let Event::TrainPackets { rows } = e { Some(rows) } else { None });
        rows.last().unwrap()
    }

    /// What the receiver counted, without looking at trains.
    fn received(&self, up: bool) -> Packets {
        let it = told(&self.network, self.client);
        let totals = if up { it.remote.last() } else { it.local.as_ref() };
        totals.unwrap().packets.as_ref().unwrap().counts
    }
}

#[test]
fn the_dispersion_rate_is_the_links() {
    for pattern in [Pattern::Push, Pattern::Pull] {
        let train = train(50, &[0, 20_000, 200_000], 6, 90 * MS);
        // 1000 bytes at 100 Mbit/s take 80 µs: the last setting is slower than that.
        let link = || Link::new().rate(100_000_000).delay(5 * MS);
        let run = run(&phase(pattern, train), link(), link(), 7);
        let trains = run.trains();
        let report = &trains.report;
        assert_eq!((report.trains.len(), report.settings.len(), trains.strays), (18, 3, 0));
        assert_eq!((report.troubles.len(), report.troughs.len()), (0, 0));
        for row in &report.trains {
            let gap = if row.setting == 2 { 200_000.0 } else { 80_000.0 };
            assert_eq!((row.sent, row.received, row.lost), (50, 50, 0), "{pattern}");
            assert!((row.dispersion_ns.unwrap() - gap).abs() < 10.0, "{pattern} {row:?}");
            let rate = row.receive_bps.unwrap();
            assert!((rate / (8_000.0 * 1e9 / gap) - 1.0).abs() < 1e-4, "{rate}");
        }
        let first = &report.settings[0];
        let on_ip = 100e6 * (f64::from(SIZE) + HEADERS) / f64::from(SIZE);
        for q in [first.train_bps.unwrap(), first.pair_bps.unwrap()] {
            assert!([q.q1, q.median, q.q3].iter().all(|bps| (bps - on_ip).abs() < 1.0), "{q:?} {on_ip}");
        }
        assert_eq!(first.pair_bps.unwrap().n, 6 * 49);
        let stretched: Vec<_> = report.settings.iter().map(|setting| setting.stretched).collect();
        assert_eq!(stretched, [Some(true), Some(true), Some(false)]);
        // Behind 49 others, which left a little earlier, the last packet of a train has waited the
        // longest.
        let by_number = &first.by_number;
        let rise = by_number[49].mean_ns - by_number[0].mean_ns;
        let left = report.trains[0].send_ns as f64;
        assert!((rise - (49.0 * 80_000.0 - left)).abs() < 1.0 && left < 100_000.0, "{rise} {left}");
        // 5 ms there, 5 ms back.
        let delay = by_number[0].mean_ns;
        assert!((delay - 5.08e6).abs() <= trains.clock_bound_ns as f64, "{delay} {}", trains.clock_bound_ns);
        assert!(report.trains.iter().all(|row| row.at_ns % (30 * MS) == 0));
    }
}

#[test]
fn what_a_card_stamped_is_told_and_its_clock_makes_delays_less_sure() {
    const EARLIER: u64 = 30_000;
    let phase = phase(Pattern::Push, train(20, &[0], 5, 20 * MS));
    let link = || Link::new().delay(5 * MS);
    let with = |card| run_with(&phase, link(), link(), 7, card);
    let (silent, right) = (with(Card::Silent), with(Card::Right(EARLIER)));
    let stamped = |run: &Run| {
        let report = &run.trains().report;
        (report.kernel_stamped, report.card_stamped)
    };
    assert_eq!((stamped(&silent), stamped(&right)), ((100, 0), (0, 100)));
    assert!(silent.packets().iter().all(|packet| packet.stamp == Some(StampKind::KernelRx)));
    assert!(right.packets().iter().all(|packet| packet.stamp == Some(StampKind::Hardware)));
    assert_eq!(right.trains().clock_bound_ns, silent.trains().clock_bound_ns + EARLIER);
    assert_eq!(stamped(&with(Card::Wrong)), (100, 0));
}

fn bad() -> Link {
    Link::new().loss(0.03).duplicate(0.02).reorder(0.02).delay(2 * MS)
}

#[test]
fn the_records_of_loss_reordering_and_repetition_are_what_the_receiver_counted() {
    for (seed, pattern) in [(1, Pattern::Push), (2, Pattern::Pull)] {
        let train = train(20, &[100_000, 200_000], 40, 20 * MS);
        let run = run(&phase(pattern, train), bad(), bad(), seed);
        let trains = run.trains();
        let counts = run.received(pattern == Pattern::Push);
        let sum = |of: fn(&metrics::TrainSetting) -> u64| trains.report.settings.iter().map(of).sum::<u64>();
        assert_eq!((sum(|s| s.sent), sum(|s| s.unsent)), (1_600, 0));
        assert_eq!(sum(|s| s.received), counts.received);
        assert_eq!(i64::try_from(sum(|s| s.lost)), Ok(counts.lost));
        assert_eq!(sum(|s| s.repeated), counts.duplicated);
        assert!(counts.lost > 10 && counts.duplicated > 5 && counts.reordered > 5, "{counts:?}");
        // Overtaken by packets of other trains is reordered, too; here a train ends long before the
        // next begins.
        assert_eq!(sum(|s| s.overtaken), counts.reordered);
        let of = |kind| trains.report.troubles.iter().filter(move |t| t.kind == kind);
        assert_eq!(of(TroubleKind::Lost).count() as i64, counts.lost);
        assert_eq!(of(TroubleKind::Overtaken).count() as u64, counts.reordered);
        assert_eq!(of(TroubleKind::Repeated).map(|t| u64::from(t.by)).sum::<u64>(), counts.duplicated);
        assert_eq!(run.packets().len(), 1_600);
        let lost = run.packets().iter().filter(|p| p.received_ns.is_none()).count();
        assert_eq!(lost as i64, counts.lost);
    }
}

#[test]
fn refused_packets_were_not_sent_and_are_not_lost() {
    let train = train(20, &[50_000], 50, 10 * MS);
    let run = run(&phase(Pattern::Push, train), Link::new().refuse(0.05), Link::new(), 4);
    let setting = &run.trains().report.settings[0];
    assert_eq!(setting.sent + setting.unsent, 1_000);
    assert!((20..90).contains(&setting.unsent), "{}", setting.unsent);
    assert_eq!((setting.received, setting.lost), (setting.sent, 0));
    // The places of the sent packets are still right.
    for p in run.packets().iter().filter(|p| p.sent_ns.is_some()) {
        let late = p.sent_ns.unwrap() - p.intended_ns as i64;
        assert!((0..50_000).contains(&late), "{p:?}");
    }
}

#[test]
fn as_many_packets_as_may_be_are_all_remembered() {
    let train = train(10_000, &[1_000], 10, 20 * MS);
    let mut phase = phase(Pattern::Push, train.clone());
    // Small ones: it is their number that counts.
    let size = 160;
    phase.rate = Some(train.mean_bps(size));
    phase.probe = phase.probe.map(|probe| Probe { size, ..probe });
    let run = run(&phase, Link::new().window(1 << 30), Link::new(), 5);
    let trains = run.trains();
    assert_eq!((trains.report.settings[0].received, trains.left_out), (100_000, 0));
    assert_eq!(run.packets().len(), 100_000);
}

fn echoing(train: Train) -> Phase {
    phase(Pattern::Duplex, Train { echo: true, ..train })
}

#[test]
fn every_packet_is_returned_and_its_round_trip_is_the_links() {
    let train = train(20, &[0, 200_000], 5, 40 * MS);
    // 5 ms there, 3 ms back; 1000 bytes at 100 Mbit/s take 80 µs.
    let run = run(&echoing(train), Link::new().rate(100_000_000).delay(5 * MS), Link::new().delay(3 * MS), 8);
    let report = &run.trains().report;
    for (setting, gap) in [(0, 80_000.0), (1, 200_000.0)] {
        let echo = report.settings[setting].echo.as_deref().unwrap();
        assert_eq!((echo.returned, echo.lost_there, echo.lost_back), (100, 0, 0));
        // The server's turns cost nothing in virtual time, or next to nothing.
        let path = echo.path_ns.as_ref().unwrap();
        assert!((8_000_000..8_000_000 + 80_000 + 20_000).contains(&path.min), "{path:?}");
        assert!((echo.back_bps.unwrap().mean - 8e12 / gap).abs() < 8e12 / gap * 0.01, "{echo:?}");
    }
    for p in run.packets() {
        let (there, back) = (p.delay_ns().unwrap(), p.round_trip_ns().unwrap());
        assert!(p.held_ns.is_some_and(|held| held >= 0) && back > there && back >= 8_080_000, "{p:?}");
    }
    // What was counted on each way is one way's.
    let (there, back) = (run.received(true), run.received(false));
    assert_eq!((there.received, back.received, there.lost, back.lost), (200, 200, 0, 0));
}

#[test]
fn what_is_lost_there_is_not_lost_back() {
    for seed in 1..=sized(2, 4) {
        let run = run(&echoing(train(20, &[100_000], 50, 20 * MS)), bad(), bad(), seed);
        let (there, back) = (run.received(true), run.received(false));
        let echo = run.trains().report.settings[0].echo.clone().unwrap();
        assert_eq!(i64::try_from(echo.lost_there), Ok(there.lost), "{seed}");
        assert_eq!(i64::try_from(echo.lost_back), Ok(back.lost), "{seed}");
        let reached = echo.returned + echo.lost_back;
        assert_eq!((echo.returned, reached), (back.received, there.received), "{seed}");
        assert!(there.lost > 10 && back.lost > 10 && back.duplicated > 10, "{there:?} {back:?}");
    }
}
