use super::*;
use crate::packet::tests::{accepted, packet, slow_checksum};
use crate::packet::{ICMP, ICMP6, UDP};
use crate::trace::Ways;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

const MS: u64 = 1_000_000;
/// Instants of the tests count from here.
const START: Mono = Mono(1_000 * MS);

/// A path in virtual time, and all that left it.
struct Bench {
    network: Network,
    rows: Vec<TraceRow>,
    /// Direction, ns since [`START`], bytes.
    left: Vec<(Way, u64, Vec<u8>)>,
}

impl Bench {
    fn new(hops: &[&str], up: &str, down: &str, seed: u64) -> Bench {
        let path = |text: &str| {
            let mut path = Path::default();
            path.set_all(text).unwrap();
            path
        };
        let hops = Hop::parse_all(hops).unwrap();
        let mut network = Network::new([&path(up), &path(down)], &hops, seed, START);
        network.begin(START);
        Bench { network, rows: Vec::new(), left: Vec::new() }
    }

    /// Does all that is due by `until`, each thing at its time.
    fn run(&mut self, until: Mono) {
        while let Some(due) = self.network.due().filter(|due| *due <= until) {
            match self.network.step(due) {
                None => panic!("something is due"),
                Some(Step::Moved(row)) => self.rows.extend(row),
                Some(Step::Leaves(way, emission)) => {
                    let lane = &mut self.network.lanes[way as usize];
                    self.left.push((way, due.since(START), lane.packet(emission.token).to_vec()));
                    self.rows.extend(lane.leave(&emission, true, due));
                }
            }
        }
    }

    /// Sends a packet `at` ns after the start.
    fn send(&mut self, at: u64, way: Way, bytes: &[u8]) {
        let at = START.plus(at);
        self.run(at);
        let taken = self.network.take(way, bytes, &dissect(bytes).unwrap(), at);
        self.rows.extend(taken.row);
        let back = if way == Way::Up { Way::Down } else { Way::Up };
        self.left.extend(taken.reply.map(|reply| (back, at.since(START), reply)));
    }

    fn finish(&mut self) {
        self.run(Mono(u64::MAX));
        assert!(self.network.is_empty());
        for lane in &self.network.lanes {
            assert_eq!((lane.bytes, lane.slots.len()), (0, lane.free.len()), "nothing is kept");
        }
    }

    fn close(mut self) -> ([crate::Direction; 2], Vec<HopTruth>) {
        self.finish();
        let (stats, hops) = self.network.close();
        (stats.map(|stats| stats.close(START, crate::Device::default())), hops)
    }
}

/// A UDP datagram of the client, or of the server.
fn probe(v6: bool, way: Way, ttl: u8, port: u16, length: usize) -> Vec<u8> {
    let mut bytes = packet(v6, UDP, &vec![7; length]);
    let header = if v6 { 40 } else { 20 };
    bytes[header..header + 2].copy_from_slice(&port.to_be_bytes());
    if way == Way::Down {
        let (at, size) = if v6 { (8, 16) } else { (12, 4) };
        bytes[at..at + 2 * size].rotate_left(size);
        bytes[header..header + 4].rotate_left(2);
    }
    let anatomy = dissect(&bytes).unwrap();
    anatomy.repair(&mut bytes);
    anatomy.set_ttl(&mut bytes, ttl);
    assert!(accepted(&bytes));
    bytes
}

/// The router that an ICMP message is from, its type and code, and the packet that it quotes.
fn message(bytes: &[u8]) -> (IpAddr, [u8; 2], Vec<u8>) {
    let a = dissect(bytes).unwrap();
    assert!(accepted(bytes) && (a.source.is_ipv6() || slow_checksum(&bytes[..20]) == 0));
    assert!(matches!(a.protocol, ICMP | ICMP6));
    let icmp = &bytes[a.transport];
    (a.source, [icmp[0], icmp[1]], icmp[8..].to_vec())
}

fn router(v6: bool, hop: u8, way: u8) -> IpAddr {
    if v6 { format!("fd77::{hop:x}:{way:x}") } else { format!("10.77.{hop}.{way}") }.parse().unwrap()
}

#[test]
fn the_ttl_decides_which_hop_reports() {
    for (v6, way) in [(false, Way::Up), (true, Way::Up), (false, Way::Down), (true, Way::Down)] {
        let mut bench = Bench::new(&["", "", ""], "", "", 1);
        for ttl in 1..=5 {
            bench.send(u64::from(ttl) * MS, way, &probe(v6, way, ttl, 4000, 20));
        }
        bench.finish();
        let (through, reports): (Vec<_>, Vec<_>) = bench.left.iter().partition(|left| left.0 == way);
        for ((_, _, bytes), ttl) in reports.iter().zip(1..) {
            let hop = if way == Way::Up { ttl } else { 4 - ttl };
            let (from, kind, quoted) = message(bytes);
            assert_eq!((from, kind), (router(v6, hop, 1), if v6 { [3, 0] } else { [11, 0] }));
            // The packet as the router received it: each router before has taken one.
            assert_eq!(quoted, probe(v6, way, 1, 4000, 20));
            // The message itself passes the routers before.
            assert_eq!(dissect(bytes).unwrap().ttl, 65 - ttl);
        }
        let through: Vec<_> = through.iter().map(|left| left.2.clone()).collect();
        assert_eq!(
            (reports.len(), through),
            (3, vec![probe(v6, way, 1, 4000, 20), probe(v6, way, 2, 4000, 20)])
        );
        let ends: Vec<_> = bench.rows.iter().map(|row| (row.hop, row.ways.all().len(), row.class)).collect();
        let expired = Class::Not(Verdict::Expired);
        let want = match way {
            Way::Up => vec![
                (1, 1, expired),
                (2, 2, expired),
                (3, 3, expired),
                (0, 3, Class::Left),
                (0, 3, Class::Left),
            ],
            Way::Down => vec![
                (3, 3, expired),
                (2, 3, expired),
                (1, 3, expired),
                (0, 3, Class::Left),
                (0, 3, Class::Left),
            ],
        };
        assert_eq!(ends, want);
        let ([up, down], hops) = bench.close();
        let (here, back) = if way == Way::Up { (up, down) } else { (down, up) };
        assert_eq!((here.counts.arrived, here.counts.expired, here.counts.delivered), (5, 3, 2));
        assert_eq!((here.counts.lost(), here.counts.loss_runs), (0, 0), "the sender wanted it");
        assert_eq!(back.counts, crate::Counts::default(), "messages of routers did not arrive from an end");
        assert!(
            hops.iter()
                .all(|hop| hop.ways[0].icmp == IcmpCounts { expired: 1, sent: 1, limited: 0, lost: 0 })
        );
    }
}

#[test]
fn reports_wait_in_the_queues_of_the_way_back() {
    // 8 Mbit/s are a byte in a microsecond.
    let hops = ["delay=1ms", "delay=2ms,down.rate=8M,down.queue=2p", "delay=4ms"];
    let mut bench = Bench::new(&hops, "delay=8ms", "", 1);
    // Alone: 3 ms there, then 76 bytes (20 of IP, 8 of ICMP, 48 quoted) through the bottleneck, and 3 ms.
    bench.send(0, Way::Up, &probe(false, Way::Up, 2, 4000, 20));
    bench.finish();
    assert_eq!(bench.left.pop().map(|left| left.1), Some(6 * MS + 76_000));
    // Behind 1028 bytes of the server that reach hop 2 28 µs before the probe.
    let at = 100 * MS;
    bench.send(at, Way::Down, &probe(false, Way::Down, 64, 4000, 1000));
    bench.send(at + MS + 28_000, Way::Up, &probe(false, Way::Up, 2, 4000, 20));
    bench.finish();
    // The server's packet is at hop 2 after 4 ms and through after 5.028; the probe is there after
    // 4.028 and its report waits for 1 ms.
    let times: Vec<u64> = bench.left.iter().map(|left| left.1 - at).collect();
    assert_eq!(times, [8 * MS + 28_000, 8 * MS + 28_000 + 76_000]);
    // A full queue drops a report like any packet: two of the server's are in it.
    bench.left.clear();
    let at = 200 * MS;
    bench.send(at, Way::Down, &probe(false, Way::Down, 64, 4000, 1000));
    bench.send(at, Way::Down, &probe(false, Way::Down, 64, 4000, 1000));
    bench.send(at + MS + 28_000, Way::Up, &probe(false, Way::Up, 2, 4000, 20));
    bench.finish();
    assert_eq!(bench.left.len(), 2);
    let (_, hops) = bench.close();
    let icmp = hops[1].ways[0].icmp;
    assert_eq!(icmp, IcmpCounts { expired: 3, sent: 3, limited: 0, lost: 1 });
}

#[test]
fn a_router_reports_at_most_at_its_rate() {
    let mut bench = Bench::new(&["icmp=10/s:3", "silent", ""], "", "", 1);
    for n in 0..200 {
        for ttl in 1..=3 {
            bench.send(n * 10 * MS, Way::Up, &probe(n % 2 == 0, Way::Up, ttl, 4000, 20));
        }
    }
    bench.finish();
    let times = |hop| {
        let from = [router(false, hop, 1), router(true, hop, 1)];
        let of = bench.left.iter().filter(|left| from.contains(&message(&left.2).0));
        of.map(|left| left.1 / (10 * MS)).collect::<Vec<u64>>()
    };
    // Three at once, then one each 100 ms.
    assert_eq!(times(1), [vec![0, 1, 2], (1..20).map(|n| n * 10).collect()].concat());
    assert_eq!((times(2).len(), times(3).len()), (0, 200), "the hop behind a silent one reports");
    let (_, hops) = bench.close();
    let icmp: Vec<_> = hops.iter().map(|hop| hop.ways[0].icmp).collect();
    let counts = |sent, limited| IcmpCounts { expired: 200, sent, limited, lost: 0 };
    assert_eq!(icmp, [counts(22, 178), counts(0, 0), counts(200, 0)]);
}

/// The ways of each flow (its port) at each hop.
fn spread(hops: &[&str], way: Way, flows: u16, each: u64) -> BTreeMap<u16, BTreeSet<Vec<u8>>> {
    let mut bench = Bench::new(hops, "", "", 5);
    let mut ports = Vec::new();
    for n in 0..each {
        for port in 0..flows {
            bench.send(
                (n * u64::from(flows) + u64::from(port)) * 1000,
                way,
                &probe(false, way, 64, 30_000 + port, 20),
            );
            ports.push(port);
        }
    }
    bench.finish();
    let mut all: BTreeMap<u16, BTreeSet<Vec<u8>>> = BTreeMap::new();
    for row in &bench.rows {
        assert_eq!(row.class, Class::Left);
        all.entry(ports[usize::clamped(row.index)]).or_default().insert(row.ways.all().to_vec());
    }
    all
}

/// Pearson's statistic of equal shares.
fn chi_square(counts: &[usize]) -> f64 {
    let expected = counts.iter().sum::<usize>() as f64 / counts.len() as f64;
    counts.iter().map(|count| (*count as f64 - expected).powi(2) / expected).sum()
}

#[test]
fn flows_are_spread_evenly_and_stay_on_their_way() {
    for way in [Way::Up, Way::Down] {
        let flows = spread(&["", "ways=4", "ways=3", ""], way, 3000, 2);
        assert!(flows.values().all(|ways| ways.len() == 1), "a flow has one way");
        let taken: Vec<_> = flows.values().flatten().collect();
        assert!(taken.iter().all(|ways| (ways[0], ways[3]) == (1, 1)));
        let count = |pick: &dyn Fn(&Vec<u8>) -> bool| taken.iter().filter(|ways| pick(ways)).count();
        let second: Vec<_> = (1..=4).map(|w| count(&|ways| ways[1] == w)).collect();
        let third: Vec<_> = (1..=3).map(|w| count(&|ways| ways[2] == w)).collect();
        let both: Vec<_> =
            (0..12).map(|n| count(&|ways| (ways[1], ways[2]) == (n % 4 + 1, n / 4 + 1))).collect();
        // 0.999 quantiles of chi-square with 3, 2 and 11 degrees of freedom (tables): 16.27, 13.82,
        // 31.26. The last shows that the choices of two hops do not depend on each other.
        assert!(chi_square(&second) < 16.27, "{second:?}");
        assert!(chi_square(&third) < 13.82, "{third:?}");
        assert!(chi_square(&both) < 31.26, "{both:?}");
    }
    // The way back of a flow is another choice.
    let up = spread(&["ways=4"], Way::Up, 2000, 1);
    let down = spread(&["ways=4"], Way::Down, 2000, 1);
    let same = up.iter().filter(|(port, ways)| down[*port] == **ways).count();
    // Binomial, 2000 at 1/4: five standard deviations.
    assert!((same as f64 - 500.0).abs() < 5.0 * (2000.0_f64 * 0.25 * 0.75).sqrt(), "{same}");
}

#[test]
fn single_packets_are_spread_where_asked() {
    let flows = spread(&["ways=4:packet", ""], Way::Up, 1, 1000);
    assert_eq!(flows[&0].len(), 4);
    let mut bench = Bench::new(&["ways=4:packet"], "", "", 5);
    for n in 0..4000 {
        bench.send(n * 1000, Way::Up, &probe(false, Way::Up, 64, 4000, 20));
    }
    let (_, hops) = bench.close();
    let counts: Vec<_> = hops[0].ways.iter().map(|way| way.up.packets as usize).collect();
    assert_eq!(counts.iter().sum::<usize>(), 4000);
    assert!(chi_square(&counts) < 16.27, "{counts:?}");
}

#[test]
fn parallel_lines_keep_the_way() {
    for choice in ["ways=4", "ways=4:packet"] {
        for way in [Way::Up, Way::Down] {
            let flows = spread(&["", choice, "ways=4:same", "ways=2:same", ""], way, 200, 1);
            let taken: Vec<_> = flows.values().flatten().collect();
            // Two lines of the last hop serve four: way 1 has 1 and 3.
            match way {
                Way::Up => assert!(taken.iter().all(|w| w[1] == w[2] && (w[2] - 1) % 2 + 1 == w[3])),
                Way::Down => assert!(taken.iter().all(|w| w[1] == w[2] && w[2] == w[3])),
            }
            let seen: BTreeSet<u8> = taken.iter().map(|w| w[2]).collect();
            assert_eq!(seen.len(), if way == Way::Up { 4 } else { 2 });
        }
    }
    // Behind a single router there is no line to stay on.
    let flows = spread(&["", "ways=4:same"], Way::Up, 200, 1);
    assert_eq!(flows.values().flatten().map(|ways| ways[1]).collect::<BTreeSet<_>>().len(), 4);
}

#[test]
fn one_way_can_be_bad_in_one_direction() {
    let hops = ["delay=1ms", "ways=4,delay=2ms,way3.up.loss=100%,way2.down.delay=7ms", ""];
    let mut bench = Bench::new(&hops, "", "", 9);
    for port in 0..200 {
        for way in [Way::Up, Way::Down] {
            bench.send(u64::from(port) * 100 * MS, way, &probe(false, way, 64, 20_000 + port, 20));
        }
    }
    bench.finish();
    for row in &bench.rows {
        let at_second = row.ways.all().get(1).copied();
        match row.way {
            // A packet that its link lost has not reached the router.
            Way::Up if row.class == Class::Not(Verdict::LostRandom) => {
                assert_eq!((row.hop, row.ways.all()), (2, &[1][..]));
            }
            Way::Up => {
                assert!(at_second != Some(3) && row.class == Class::Left);
                assert_eq!(row.due.since(row.arrived), 3 * MS);
            }
            Way::Down => {
                let slow = if at_second == Some(2) { 5 * MS } else { 0 };
                assert_eq!(row.due.since(row.arrived), 3 * MS + slow);
            }
        }
    }
    let ([up, down], hops) = bench.close();
    let third = &hops[1].ways[2];
    assert_eq!((third.up.lost, third.up.packets), (up.counts.lost_random, up.counts.lost_random));
    assert!((20..90).contains(&third.up.lost), "a quarter of 200: {third:?}");
    assert_eq!((down.counts.lost(), third.down.lost), (0, 0));
    assert_eq!(hops[1].ways.iter().map(|way| way.down.packets).sum::<u64>(), 200);
}

#[test]
fn the_router_before_a_small_mtu_reports_it() {
    for v6 in [false, true] {
        let header = if v6 { 48 } else { 28 };
        let (hops, kind) = (["", "mtu=1400", "path-mtu=1350:silent"], if v6 { [2, 0] } else { [3, 4] });
        let mut bench = Bench::new(&hops, "path-mtu=1300", "path-mtu=1320", 1);
        let mut at = 0;
        for way in [Way::Up, Way::Down] {
            for length in [1300, 1310, 1320, 1321, 1351, 1401] {
                at += MS;
                bench.send(at, way, &probe(v6, way, 64, 4000, length - header));
            }
        }
        bench.finish();
        let lengths = |way, is_message| {
            let of = bench.left.iter().filter(|left| left.0 == way);
            let of = of.filter(|left| (dissect(&left.2).unwrap().protocol != UDP) == is_message);
            of.map(|left| left.2.clone()).collect::<Vec<_>>()
        };
        assert_eq!(lengths(Way::Up, false).len(), 1);
        assert_eq!(lengths(Way::Down, false).len(), 3);
        let told = |way| -> Vec<_> {
            let of = lengths(way, true);
            of.iter()
                .map(|bytes| {
                    let (from, got, quoted) = message(bytes);
                    assert_eq!(got, kind);
                    let length = if v6 {
                        40 + usize::from(crate::packet::u16_at(&quoted, 4).unwrap())
                    } else {
                        usize::from(crate::packet::u16_at(&quoted, 2).unwrap())
                    };
                    (from, length)
                })
                .collect()
        };
        // Up: 1310 to 1321 at the last link, by hop 3; 1351 vanishes; 1401 by hop 1.
        let third = |length| (router(v6, 3, 1), length);
        assert_eq!(told(Way::Down), [third(1310), third(1320), third(1321), (router(v6, 1, 1), 1401)]);
        // Down: no router is before the last link, so that it is in the client's name.
        let client: IpAddr =
            if v6 { crate::Side::Client.ipv6().into() } else { crate::Side::Client.ipv4().into() };
        assert_eq!(told(Way::Up), [1321, 1351, 1401].map(|length| (client, length)));
        let ([up, down], _) = bench.close();
        assert_eq!((up.counts.too_big, up.told_too_big), (5, 4));
        assert_eq!(down.counts.too_big, 3);
    }
}

#[test]
fn hops_change_what_they_are_told_to_and_quotes_show_where() {
    let hops = [
        "address=192.0.2.1",
        "address=192.0.2.1,dscp=0,ecn-bleach=yes",
        "nat=ports",
        "mpls=16:17",
        "ways=2,address=10.9.9.9",
    ];
    let mut bench = Bench::new(&hops, "", "", 3);
    let sent = |ttl| {
        let mut bytes = probe(false, Way::Up, ttl, 40_000, 20);
        let anatomy = dissect(&bytes).unwrap();
        anatomy.set_tos(&mut bytes, 46 << 2 | 2);
        bytes
    };
    for ttl in 1..=6 {
        bench.send(u64::from(ttl) * MS, Way::Up, &sent(ttl));
    }
    bench.finish();
    let reports: Vec<_> =
        bench.left.iter().filter(|left| left.0 == Way::Down).map(|left| message(&left.2)).collect();
    let from: Vec<String> = reports.iter().map(|report| report.0.to_string()).collect();
    assert_eq!(from, ["192.0.2.1", "192.0.2.1", "10.77.3.1", "10.77.4.1", "10.9.9.9"]);
    let tos: Vec<u8> = reports.iter().map(|report| report.2[1]).collect();
    assert_eq!(tos, [46 << 2 | 2, 0, 0, 0, 0]);
    // Addresses and ports in quotes are the sender's; the UDP checksum shows who was behind the
    // translation.
    let whole = sent(1);
    for (at, (_, _, quoted)) in reports.iter().enumerate() {
        assert_eq!(
            (&quoted[12..24], quoted[26..28] == whole[26..28]),
            (&whole[12..24], at < 3),
            "hop {}",
            at + 1
        );
    }
    // RFC 4884: 128 bytes of packet, then the labels.
    let lengths: Vec<_> = reports.iter().map(|report| report.2.len()).collect();
    assert_eq!(lengths, [48, 48, 48, 128 + 16, 48]);
    // The server sees the hop, on another port, and its answer finds back.
    let arrived = &bench.left.iter().find(|left| left.0 == Way::Up).unwrap().2;
    let seen = dissect(arrived).unwrap();
    assert!(accepted(arrived));
    let port = seen.ports.unwrap().0;
    assert_eq!((seen.source, port != 40_000), (router(false, 3, 1), true));
    let mut back = arrived.clone();
    back[12..20].rotate_left(4);
    back[20..24].rotate_left(2);
    let anatomy = dissect(&back).unwrap();
    anatomy.set_ttl(&mut back, 64);
    let at = bench.left.len();
    bench.send(100 * MS, Way::Down, &back);
    bench.finish();
    let got = dissect(&bench.left[at].2).unwrap();
    assert_eq!((got.destination, got.ports), (crate::Side::Client.ipv4().into(), Some((0x2000, 40_000))));
    assert!(accepted(&bench.left[at].2));
}

/// Every fate on every link: each packet is in the sum once, and runs of loss are those of a slow
/// count.
#[test]
fn a_chain_of_bad_links_adds_up() {
    let bad = "delay=3ms,jitter=1ms:normal:reorder,loss=2%,burst-loss=1%:30%,duplicate=3%:2,reorder=2%:3,corrupt=2%,\
               rate=20M,queue=20p,outage=500ms+5ms/1s";
    let wire = bad.replace("corrupt=2%", "corrupt=2%:1:wire");
    for seed in 1..=3 {
        let mut bench = Bench::new(&[bad, &format!("{wire},ways=3"), bad], bad, &wire, seed);
        let mut rng = Rng::new(seed);
        let mut at = 0;
        for n in 0..4000 {
            at += rng.between(0, 800_000);
            let ttl = if n % 50 == 0 { u8::clamped(rng.between(1, 3)) } else { 64 };
            let (way, port) =
                (if n % 3 == 0 { Way::Down } else { Way::Up }, 3000 + u16::clamped(rng.between(0, 9)));
            bench.send(at, way, &probe(n % 2 == 0, way, ttl, port, 200));
        }
        bench.finish();
        let rows = std::mem::take(&mut bench.rows);
        let (directions, hops) = bench.close();
        for (way, direction) in [Way::Up, Way::Down].into_iter().zip(&directions) {
            let mine: Vec<&TraceRow> = rows.iter().filter(|row| row.way == way).collect();
            let c = &direction.counts;
            let lost = c.lost_random + c.lost_burst + c.lost_outage + c.dropped_queue + c.too_big;
            assert_eq!(
                c.arrived,
                c.delivered + lost + c.expired + c.overrun + c.refused + c.unfinished,
                "{c:?}"
            );
            assert!(
                [lost, c.expired, c.copies, c.corrupted, c.damaged, c.held_back].iter().all(|n| *n > 10),
                "{c:?}"
            );
            let first = |class| mine.iter().filter(|row| row.copy == 0 && row.class == class).count() as u64;
            assert_eq!((first(Class::Left), first(Class::Not(Verdict::Expired))), (c.delivered, c.expired));
            assert_eq!(
                mine.iter().filter(|row| row.copy > 0 && row.class == Class::Left).count() as u64,
                c.copies
            );
            let mut firsts: Vec<_> = mine.iter().filter(|row| row.copy == 0).collect();
            firsts.sort_by_key(|row| row.index);
            assert!((0..).zip(&firsts).all(|(index, row)| row.index == index), "each packet has one row");
            let seen: String = firsts
                .iter()
                .filter(|row| row.class != Class::Not(Verdict::Expired))
                .map(|row| if row.class == Class::Left && !(row.wire && row.flipped > 0) { ' ' } else { 'x' })
                .collect();
            let runs = || seen.split(' ').filter(|run| !run.is_empty());
            let longest = runs().map(str::len).max().unwrap() as u64;
            assert_eq!((c.loss_runs, c.longest_loss), (runs().count() as u64, longest));
            assert_eq!(c.lost(), seen.matches('x').count() as u64);
            assert_eq!(direction.flows.iter().map(|flow| flow.counts.arrived).sum::<u64>(), c.arrived);
            assert_eq!(direction.flows.iter().map(|flow| flow.counts.lost()).sum::<u64>(), c.lost());
        }
        let icmp = |count: fn(&IcmpCounts) -> u64| {
            hops.iter().flat_map(|hop| &hop.ways).map(|way| count(&way.icmp)).sum::<u64>()
        };
        assert!(icmp(|i| i.lost) > 0 && icmp(|i| i.sent) > icmp(|i| i.lost));
    }
}

#[test]
fn without_hops_nothing_is_different() {
    let mut bench = Bench::new(&[], "delay=1ms,path-mtu=1300", "", 1);
    bench.send(0, Way::Up, &probe(false, Way::Up, 1, 4000, 20));
    bench.send(0, Way::Up, &probe(false, Way::Up, 64, 4000, 1300));
    bench.finish();
    let (from, kind, _) = message(&bench.left[0].2);
    assert_eq!((bench.left[0].0, from, kind), (Way::Down, crate::Side::Server.ipv4().into(), [3, 4]));
    assert_eq!(bench.left[1], (Way::Up, MS, probe(false, Way::Up, 1, 4000, 20)), "nobody takes from its TTL");
    assert!(bench.rows.iter().all(|row| (row.hop, row.ways) == (0, Ways::default())));
}
