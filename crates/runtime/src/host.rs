//! Implements `HostInfo`, by which sessions read this host.

use crate::processes::OTHER_DESCRIPTORS;
use crate::{machine, session, texts};
use common::host::{Host, HostInfo, Meter, Random};
use io::host::Reading;
use ipnet::IpNet;
use metrics::{Clamped, Mono, Wall};
use model::HostSnapshot;
use std::net::{IpAddr, SocketAddr};

/// The host that this process runs on.
pub struct ThisHost;

impl HostInfo for ThisHost {
    fn now(&self) -> Mono {
        session::now()
    }

    fn wall(&self) -> Wall {
        machine::wall_now()
    }

    fn random(&self) -> Random {
        random
    }

    fn clock_id(&self) -> String {
        io::host::clock_id()
    }

    fn snapshot(&self, local: Option<IpAddr>) -> HostSnapshot {
        io::host::snapshot(local)
    }

    fn local_for(&self, to: SocketAddr) -> Option<IpAddr> {
        local_for(to)
    }

    fn connected_networks(&self) -> Vec<IpNet> {
        let networks = io::host::connected_networks().into_iter();
        networks.filter_map(|(address, length)| IpNet::new(address, length).ok()).collect()
    }

    fn congestion(&self) -> (String, Vec<String>) {
        (io::host::congestion_control(), io::host::congestion_controls())
    }

    fn cpu_meter(&self) -> Meter {
        let zero = Reading::of_cpus();
        Box::new(move || {
            let (used, _) = io::host::difference(&zero, &Reading::of_cpus());
            (used.user_s, used.system_s)
        })
    }

    fn cores(&self) -> Vec<usize> {
        io::thread::available()
    }

    fn descriptors(&self) -> Option<usize> {
        let (soft, _) = io::host::rlimit_nofile()?;
        Some(usize::try_from(soft).unwrap_or(usize::MAX))
    }

    fn free_descriptors(&self) -> Option<usize> {
        // A system without a list of open descriptors: assumes the usual need of a process.
        let open =
            std::fs::read_dir("/proc/self/fd").map_or(usize::clamped(OTHER_DESCRIPTORS), Iterator::count);
        Some(self.descriptors()?.saturating_sub(open))
    }

    fn memory(&self) -> Option<u64> {
        let host = io::host::snapshot(None);
        let limit = host.allowance.and_then(|allowance| allowance.memory);
        limit.into_iter().chain(Some(host.memory).filter(|all| *all > 0)).min()
    }

    fn texts(&self) -> Host {
        texts::host(&[])
    }
}

/// Fills `bytes` with the system's randomness; `false` when it has none.
pub fn random(bytes: &mut [u8]) -> bool {
    io::clock::random(bytes).is_ok()
}

/// Our address on the way to `to`, as the routing table has it; nothing is sent.
pub fn local_for(to: SocketAddr) -> Option<IpAddr> {
    let any: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = std::net::UdpSocket::bind(any).ok()?;
    socket.connect(to).ok()?;
    socket.local_addr().ok().map(|local| local.ip())
}

/// True if `address` is one of this host's.
pub fn is_ours(address: IpAddr) -> bool {
    local_for(SocketAddr::new(address, 9)).is_some_and(|local| local.to_canonical() == address.to_canonical())
        || address.to_canonical().is_loopback()
}
