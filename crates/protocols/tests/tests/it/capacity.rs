//! Capacity tests over the native protocol, in virtual time: the result against the rate of the
//! path.

use crate::support::run::{MS, Told, client_ip, client_plan, serve, server_plan, server_with, told};
use common::Limits;
use metrics::SECOND;
use model::{Capacity, CapacitySettings, Event, Pattern, Phase, Status};
use native::{Client, ClientPlan, ServerPlan};
use sim::{Host, Link, Network, START};

fn phase(pattern: Pattern, connections: u32, settings: CapacitySettings) -> Phase {
    Phase { duration_ns: Some(5 * SECOND), ..settings.phase(pattern, connections) }
}

struct Ran {
    net: Network,
    client: Host,
    told: Told,
}

impl Ran {
    fn new(link: Link, phase: &Phase, plan: ServerPlan) -> Self {
        let mut net = Network::new(7);
        net.datagram_links(link.clone(), link);
        let server = serve(&mut net, plan);
        let plan = ClientPlan { workers: 2, ..client_plan(phase) };
        let client = net.join(client_ip(1), 2, Box::new(Client::new(plan, START)));
        net.run();
        let over = net.now;
        net.run_until(over.plus(SECOND));
        assert_eq!(net.open(server), (0, 0), "nothing is kept of a test that is over");
        let told = told(&net, client);
        Ran { net, client, told }
    }

    fn result(&self) -> Option<Capacity> {
        let of =
            |event: &Event| if let Event::Capacity(found) = event { Some((**found).clone()) } else { None };
        self.net.events(self.client).iter().find_map(|(_, event)| of(event))
    }
}

#[test]
fn a_path_of_known_capacity_is_measured_in_both_directions() {
    for pattern in [Pattern::Push, Pattern::Pull] {
        for connections in [1, 4] {
            // Each connection has a path of this rate.
            let link = Link::new().delay(5 * MS).rate(20_000_000).queue(60_000);
            let ran = Ran::new(link, &phase(pattern, connections, CapacitySettings::RFC), server_plan());
            assert_eq!((ran.told.status(), ran.told.reason()), (Status::Complete, ""), "{pattern}");
            let found = ran.result().unwrap();
            let each = found.ip_bps / f64::from(connections);
            assert!((19e6..20.8e6).contains(&each), "{pattern} {connections}: {each}");
            assert_eq!((found.upstream, found.connections), (pattern == Pattern::Push, connections));
            assert_eq!(found.sub_intervals.len(), 5);
            assert!(found.mean_bps < found.ip_bps && found.payload_bps < found.ip_bps);
            assert!((9..=14).contains(&found.round_trip_min_ms.unwrap()), "{:?}", found.round_trip_min_ms);
            // Both ends' counts are in the run, as of every native test.
            let (local, remote) = (ran.told.local(), &ran.told.remote[0]);
            assert_eq!(local.errors() + remote.errors(), 0);
            let received = if found.upstream { remote } else { local };
            assert!(received.packets.as_ref().unwrap().counts.received >= found.datagrams().0);
        }
    }
}

#[test]
fn a_lossy_path_opens_its_connections() {
    for pattern in [Pattern::Push, Pattern::Pull] {
        let fixed = CapacitySettings { row: Some(2), ..CapacitySettings::RFC };
        let link = Link::new().delay(MS).rate(50_000_000).loss(0.4);
        let ran = Ran::new(link, &phase(pattern, 8, fixed), server_plan());
        let found = ran.result().unwrap();
        // Each connection offers 2 Mbit/s, of which three fifths arrive.
        assert!((8.5e6..10.7e6).contains(&found.mean_bps), "{pattern}: {found:#?}");
        let (received, lost) = found.datagrams();
        let share = lost as f64 / (received + lost) as f64;
        assert!((0.35..0.45).contains(&share), "{share}");
    }
}

#[test]
fn a_servers_rate_bounds_the_search_and_its_time_the_test() {
    for pattern in [Pattern::Push, Pattern::Pull] {
        let limits = Limits { rate: Some(10_000_000), duration_ns: Some(2 * SECOND), ..Limits::default() };
        let plan = server_with(|config| config.limits = limits);
        let link = Link::new().delay(MS).rate(100_000_000).queue(200_000);
        let ran = Ran::new(link, &phase(pattern, 1, CapacitySettings::RFC), plan);
        let found = ran.result().unwrap();
        assert!((9e6..10.1e6).contains(&found.ip_bps), "{pattern}: {}", found.ip_bps);
        assert_eq!((found.most_bps as u64, found.sub_intervals.len()), (10_000_000, 2));
        let changes = &ran.told.sessions[0].accepted.changes;
        assert!(changes.iter().any(|change| change.what == "rate per connection"), "{changes:?}");
    }
}

#[test]
fn a_test_may_be_split() {
    let settings = CapacitySettings { first_mode: 2, start: true, row: Some(5), ..CapacitySettings::RFC };
    let link = Link::new().delay(MS).rate(20_000_000).queue(60_000);
    let ran = Ran::new(link, &phase(Pattern::Pull, 1, settings), server_plan());
    let found = ran.result().unwrap();
    let (first, second) = found.modes.unwrap();
    assert!((1..=2).contains(&first) && (3..=5).contains(&second), "{first} {second}");
}

#[test]
fn a_client_that_vanishes_stops_the_load_within_three_seconds() {
    let mut net = Network::new(5);
    let link = Link::new().delay(MS).rate(5_000_000);
    net.datagram_links(link.clone(), link);
    let server = serve(&mut net, server_plan());
    let phase = phase(Pattern::Pull, 1, CapacitySettings::RFC);
    let client = net.join(client_ip(1), 1, Box::new(Client::new(client_plan(&phase), START)));
    let gone = net.now.plus(2 * SECOND);
    net.unplug_at(client, gone);
    net.run_until(gone);
    let sent = |net: &Network| net.open(server).0 + net.open(server).1;
    assert!(sent(&net) >= 1);
    net.run_until(gone.plus(13 * SECOND));
    assert_eq!(sent(&net), 0, "nothing is left of it");
}
