//! Local addresses and ports, used in turn.

use metrics::Clamped;
use model::{is_link_local, scope_of, with_scope};
use std::net::{IpAddr, SocketAddr};

/// Which of our addresses and ports the next connection leaves from.
#[derive(Clone, Debug)]
pub struct RoundRobin {
    sources: Vec<SocketAddr>,
    ports: Option<(u16, u16)>,
    worker: u16,
    /// Counted from the worker's number, so that not all workers begin with the same.
    turns: u64,
}

impl RoundRobin {
    /// `ports` is an inclusive range; `worker` of `workers` decides which of them are ours, so that
    /// two workers never try the same.
    pub fn new(sources: Vec<SocketAddr>, ports: Option<(u16, u16)>, worker: u16, workers: u16) -> Self {
        let ports = ports.map(|(low, high)| {
            let span = u32::from(high - low) + 1;
            let (w, n) = (u32::from(worker), u32::from(workers.max(1)));
            let first = low + (span * w / n) as u16;
            let last = low + (span * (w + 1) / n).saturating_sub(1) as u16;
            (first.min(high), last.clamp(first.min(high), high))
        });
        RoundRobin { sources, ports, worker, turns: worker.into() }
    }

    /// Local address of the next connection, to `to`; `None` leaves the choice to the kernel.
    pub fn next(&mut self, to: SocketAddr) -> Option<SocketAddr> {
        let port = self.ports.map(|ports| port_of(self.turns - u64::from(self.worker), ports));
        let from = local_address(&self.sources, usize::clamped(self.turns), port, to);
        self.turns += 1;
        from
    }
}

/// A local address for a connection to `to`: `sources` of its family are used in turn, and this is
/// number `turn`, with `port`. `None` leaves the choice to the kernel. A link-local address without
/// an interface gets the interface of `to`.
pub fn local_address(
    sources: &[SocketAddr],
    turn: usize,
    port: Option<u16>,
    to: SocketAddr,
) -> Option<SocketAddr> {
    let fitting = || sources.iter().copied().filter(|source| source.is_ipv4() == to.is_ipv4());
    let source = fitting().nth(turn % fitting().count().max(1));
    let any = if to.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0_u16; 8]) };
    (source.is_some() || port.is_some()).then(|| {
        let ip = source.map_or(any, |source| source.ip());
        let scope = source.map_or(0, scope_of);
        let scope = if scope == 0 && is_link_local(ip) { scope_of(to) } else { scope };
        with_scope(ip, port.unwrap_or(0), scope)
    })
}

/// Port number `turn` of a range, whose ports are used in turn.
pub fn port_of(turn: u64, (low, high): (u16, u16)) -> u16 {
    low.saturating_add((turn % (u64::from(high.saturating_sub(low)) + 1)) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_share_the_ports_and_take_addresses_in_turn() {
        let to: SocketAddr = ([10, 0, 0, 9], 1).into();
        let sources = vec![([10, 0, 0, 1], 0).into(), ([0u16; 8], 0).into(), ([10, 0, 0, 2], 0).into()];
        let mut round_robin = RoundRobin::new(sources, Some((100, 105)), 1, 2);
        let took: Vec<String> = (0..4).filter_map(|_| round_robin.next(to)).map(|a| a.to_string()).collect();
        assert_eq!(took, ["10.0.0.2:103", "10.0.0.1:104", "10.0.0.2:105", "10.0.0.1:103"]);
        assert_eq!(RoundRobin::new(vec![], None, 0, 1).next(to), None);
    }
    #[test]
    fn addresses_and_ports_are_used_in_turn() {
        let to = SocketAddr::from(([10, 0, 0, 9], 7));
        let ports: Vec<u16> = (0..4).map(|turn| port_of(turn, (5_000, 5_002))).collect();
        assert_eq!(ports, [5_000, 5_001, 5_002, 5_000]);
        assert_eq!(local_address(&[], 3, None, to), None);
        assert_eq!(local_address(&[], 3, Some(5_000), to), Some(([0; 4], 5_000).into()));
        let sources = [([10, 0, 0, 1], 0).into(), ([0_u16; 8], 0).into(), ([10, 0, 0, 2], 0).into()];
        let turns = (0..3).filter_map(|turn| local_address(&sources, turn, None, to));
        assert_eq!(
            turns.map(|from| from.to_string()).collect::<Vec<_>>(),
            ["10.0.0.1:0", "10.0.0.2:0", "10.0.0.1:0"]
        );
        // The interface is the target's, unless the source has its own.
        let to: SocketAddr = "[fe80::2%3]:7".parse().unwrap();
        for (source, from) in [
            ("[fe80::1]:0", "[fe80::1%3]:9"),
            ("[fe80::1%4]:0", "[fe80::1%4]:9"),
            ("[fd00::1]:0", "[fd00::1]:9"),
        ] {
            assert_eq!(local_address(&[source.parse().unwrap()], 0, Some(9), to).unwrap().to_string(), from);
        }
    }
}
