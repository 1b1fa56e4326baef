//! The host of sessions in virtual time.

use common::host::{Host, HostInfo, Meter, Random};
use ipnet::IpNet;
use metrics::{Mono, Wall};
use model::HostSnapshot;
use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};

/// A host in virtual time, without anything that tests would depend on.
struct Virtual(Mono);

/// One for a session that begins now. Sessions want it for as long as the program runs.
pub(crate) fn host(now: Mono) -> &'static dyn HostInfo {
    Box::leak(Box::new(Virtual(now)))
}

thread_local! {
    /// The last random byte of the cell that this thread runs.
    pub(crate) static RANDOM: Cell<u8> = const { Cell::new(0) };
}

impl HostInfo for Virtual {
    fn now(&self) -> Mono {
        self.0
    }
    fn wall(&self) -> Wall {
        Wall(1_700_000_000_000_000_000)
    }
    fn random(&self) -> Random {
        |bytes| {
            for byte in bytes {
                RANDOM.set(RANDOM.get().wrapping_mul(5).wrapping_add(77));
                *byte = RANDOM.get();
            }
            true
        }
    }
    fn clock_id(&self) -> String {
        String::new()
    }
    fn snapshot(&self, _: Option<IpAddr>) -> HostSnapshot {
        HostSnapshot::default()
    }
    fn local_for(&self, _: SocketAddr) -> Option<IpAddr> {
        None
    }
    fn connected_networks(&self) -> Vec<IpNet> {
        vec![IpNet::new([10, 0, 0, 0].into(), 8).unwrap()]
    }
    fn congestion(&self) -> (String, Vec<String>) {
        ("cubic".to_owned(), vec!["cubic".to_owned()])
    }
    fn cpu_meter(&self) -> Meter {
        Box::new(|| (0.0, 0.0))
    }
    fn cores(&self) -> Vec<usize> {
        vec![0, 1]
    }
    fn descriptors(&self) -> Option<usize> {
        None
    }
    fn free_descriptors(&self) -> Option<usize> {
        None
    }
    fn texts(&self) -> Host {
        Host::default()
    }
}
