//! Local addresses and ports, used in turn.

use std::net::{IpAddr, SocketAddr};

/// Which of our addresses and ports the next connection leaves from.
#[derive(Clone, Debug)]
pub struct RoundRobin {
    sources: Vec<IpAddr>,
    ports: Option<(u16, u16)>,
    port: u16,
    /// Counted from the worker's number, so that not all workers begin with the same.
    turns: u64,
}

impl RoundRobin {
    /// `ports` is an inclusive range; `worker` of `workers` decides which of them are ours, so that two workers never try
    /// the same.
    pub fn new(sources: Vec<IpAddr>, ports: Option<(u16, u16)>, worker: u16, workers: u16) -> Self {
        let ports = ports.map(|(low, high)| {
            let span = u32::from(high - low) + 1;
            let (w, n) = (u32::from(worker), u32::from(workers.max(1)));
            let first = low + (span * w / n) as u16;
            let last = low + (span * (w + 1) / n).saturating_sub(1) as u16;
            (first.min(high), last.clamp(first.min(high), high))
        });
        RoundRobin { sources, port: ports.map_or(0, |p| p.0), ports, turns: worker.into() }
    }

    /// How many turns were taken, counted from the worker's number.
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// Where the next connection, to `to`, leaves from; `None` leaves it to the kernel.
    pub fn next(&mut self, to: SocketAddr) -> Option<SocketAddr> {
        let turn = self.turns as usize;
        self.turns += 1;
        let fitting = self.sources.iter().filter(|a| a.is_ipv4() == to.is_ipv4()).count();
        let pick = turn.checked_rem(fitting);
        let address =
            pick.and_then(|n| self.sources.iter().filter(|a| a.is_ipv4() == to.is_ipv4()).nth(n)).copied();
        if address.is_none() && self.ports.is_none() {
            return None;
        }
        let any = if to.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
        let port = self.port;
        if let Some((low, high)) = self.ports {
            self.port = if port >= high { low } else { port + 1 };
        }
        Some(SocketAddr::new(address.unwrap_or(any), port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_share_the_ports_and_take_addresses_in_turn() {
        let to: SocketAddr = ([10, 0, 0, 9], 1).into();
        let sources = vec![[10, 0, 0, 1].into(), [0u16; 8].into(), [10, 0, 0, 2].into()];
        let mut round_robin = RoundRobin::new(sources, Some((100, 105)), 1, 2);
        let took: Vec<String> = (0..4).filter_map(|_| round_robin.next(to)).map(|a| a.to_string()).collect();
        assert_eq!(took, ["10.0.0.2:103", "10.0.0.1:104", "10.0.0.2:105", "10.0.0.1:103"]);
        assert_eq!(RoundRobin::new(vec![], None, 0, 1).next(to), None);
    }
}
