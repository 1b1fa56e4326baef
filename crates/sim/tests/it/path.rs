//! Paths that drop packets for their size, and receivers that drop datagrams for their checksum.

use metrics::{Mono, SECOND};
use sim::{Link, Sim, SimReactor, Socket};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use transport::{
    Arena, DatagramSocket, Got, ListenerSocket, Net, Park, Platform, Read, Received, SocketSettings,
    StreamSocket, Target, Task, Transmit,
};

const END: Mono = Mono(100 * SECOND);
/// A link of 1,280 bytes: IPv6's smallest. Payload is what headers of IPv4 leave: 20 and 8 bytes of
/// UDP, 20 and 32 of TCP.
const MTU: usize = 1_280;
const DATAGRAM: usize = MTU - 28;
const SEGMENT: usize = MTU - 52;

struct Once<F: FnMut() -> Park>(SimReactor, F);

impl<F: FnMut() -> Park + Send> Task<Sim> for Once<F> {
    fn step(&mut self) -> Park {
        (self.1)()
    }
    fn reactor(&mut self) -> &mut SimReactor {
        &mut self.0
    }
    fn resume(&mut self, _: std::io::Result<&mut Vec<transport::Ready>>) {}
}

fn spawn(sim: &Sim, body: impl FnMut() -> Park + Send + 'static) {
    sim.spawn("test", Once(sim.reactor().unwrap(), body)).unwrap();
}

fn at(host: u8) -> SocketAddr {
    (IpAddr::from([10, 0, 0, host]), 7).into()
}

/// Two hosts with `link` to the second.
fn hosts(link: Link) -> (Sim, Sim) {
    let one = Sim::new(1, at(1).ip());
    one.set_links(link, Link::new());
    let other = one.process_at(at(2).ip());
    (one, other)
}

fn put<N: Net>(mut net: N, bytes: &[u8]) -> usize {
    let mut arena = Arena::new(bytes.len());
    let mut burst = Transmit::new(&mut arena, bytes.len());
    burst.own(bytes.len()).copy_from_slice(bytes);
    net.send(&burst).bytes
}

/// Sends these sizes over a connection, or as datagrams, and returns what arrives: the sizes of
/// reads, each with the drops that the receiving socket reports.
fn arrivals(link: Link, settings: &SocketSettings, datagrams: bool, sizes: Vec<usize>) -> Vec<(usize, u32)> {
    let (one, other) = hosts(link);
    let log = Arc::<Mutex<Vec<(usize, u32)>>>::default();
    let told = Arc::clone(&log);
    let (bound, listener) = (other.bind(7, settings).unwrap(), other.listen(7).unwrap());
    let there = other.clone();
    let (mut bound, mut accepted) = (bound, None::<Socket>);
    spawn(&other, move || {
        let (mut memory, mut buffer, clock) = (Vec::new(), vec![0; 1 << 16], there.clock());
        let add = |got: Got<'_>| match got {
            Got::Received(Received { len, dropped, .. }) => {
                told.lock().unwrap().push((len, dropped));
                true
            }
            _ => false,
        };
        while add(DatagramSocket::net(&mut bound, &mut memory, &clock, false).recv(Read::look(1 << 16))) {}
        if accepted.is_none() {
            accepted = listener.accept().unwrap().map(|(socket, _)| socket);
        }
        if let Some(socket) = &accepted {
            while add(StreamSocket::net(socket, &mut buffer, &clock, false).recv(Read::look(1 << 16))) {}
        }
        Park::Sleep(transport::Clock::now(&clock).plus(SECOND / 100))
    });
    let (here, settings, mut sizes) = (one.clone(), settings.clone(), sizes.into_iter());
    let mut socket = None;
    spawn(&one, move || {
        let target = Target { to: at(2), from: None };
        let open = || match datagrams {
            true => here.connect_udp(&target, &settings).unwrap(),
            false => here.connect(&target, &settings).unwrap().0,
        };
        let clock = here.clock();
        let next = transport::Clock::now(&clock).plus(SECOND);
        let Some(socket) = &mut socket else {
            socket = Some(open());
            return Park::Sleep(next);
        };
        let Some(size) = sizes.next() else { return Park::Wait(None) };
        let (mut memory, mut none) = (Vec::new(), []);
        let sent = match datagrams {
            true => put(DatagramSocket::net(socket, &mut memory, &clock, false), &vec![b'x'; size]),
            false => put(StreamSocket::net(socket, &mut none, &clock, false), &vec![b'x'; size]),
        };
        assert_eq!(sent, size, "the sender's kernel takes it");
        Park::Sleep(next)
    });
    one.run(END);
    let told = log.lock().unwrap();
    told.clone()
}

#[test]
fn a_datagram_larger_than_the_path_carries_is_lost_without_notice() {
    let came = arrivals(
        Link::new().mtu(MTU),
        &SocketSettings::default(),
        true,
        vec![100, DATAGRAM, DATAGRAM + 1, 1_400, 40],
    );
    assert_eq!(came.iter().map(|came| came.0).collect::<Vec<_>>(), [100, DATAGRAM, 40]);
}

#[test]
fn nothing_of_a_stream_arrives_behind_a_segment_that_the_path_does_not_carry() {
    let narrow = Link::new().mtu(MTU);
    let sizes = vec![100, SEGMENT, SEGMENT + 1, 1];
    let total = |settings: &SocketSettings, sizes: &[usize]| {
        arrivals(narrow.clone(), settings, false, sizes.to_vec()).iter().map(|came| came.0).sum::<usize>()
    };
    let usual = SocketSettings::default();
    assert_eq!(total(&usual, &sizes), 100 + SEGMENT);
    // A full segment is as large as the ends' links carry, however long the send is.
    assert_eq!(total(&usual, &[10_000, 1]), 0);
    // With a smaller largest segment the sends are cut into what passes: 1,240 bytes with the
    // option of each, and the headers.
    let small = SocketSettings { mss: Some(1_240), ..usual.clone() };
    assert_eq!(total(&small, &sizes), 100 + 2 * SEGMENT + 2);
    let larger = SocketSettings { mss: Some(1_241), ..usual };
    assert_eq!(total(&larger, &sizes), 100 + SEGMENT);
}

#[test]
fn a_wrong_checksum_costs_the_datagram_and_a_stream_its_time() {
    let half = Link::new().damage(0.5);
    let came = arrivals(half.clone(), &SocketSettings::default(), true, vec![100; 90]);
    let lost = 90 - came.len();
    assert!((30..60).contains(&lost), "{lost}");
    assert!(came.windows(2).all(|pair| pair[0].1 <= pair[1].1));
    // All that were lost before it are among the drops that the last one reports.
    let behind = came.last().unwrap().1 as usize;
    assert!(behind <= lost && behind + 10 > lost, "{behind} of {lost}");
    let came = arrivals(half, &SocketSettings::default(), false, vec![100; 90]);
    assert_eq!(came.iter().map(|came| came.0).sum::<usize>(), 9_000);
}
