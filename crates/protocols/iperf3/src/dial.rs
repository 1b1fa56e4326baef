//! Opens a client's streams one after the other, because both ends number them in that order.

use super::ClientPlan;
use super::packets::UdpStream;
use super::stream::TcpStream;
use super::test_state::{Part, Posted, TestState};
use metrics::Ending;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use transport::{Cause, Connector, Context, Flow, Open, Target};

/// Time between two looks of a worker at its turn, ns.
const LOOK: u64 = 100_000;

/// Opens the streams of one worker.
pub(super) struct Dialer {
    test_state: Arc<TestState>,
    to: SocketAddr,
    from: Option<SocketAddr>,
    /// Local port of the first stream; the next have the next.
    port: Option<u16>,
    /// The next stream; beyond all of them when no more is to be opened.
    next: u32,
    step: u32,
}

impl Dialer {
    pub(super) fn one_per_worker(test_state: &Arc<TestState>, plan: &ClientPlan) -> Vec<Box<dyn Connector>> {
        let to = plan.server.address;
        let ClientPlan { from, port, workers, .. } = *plan;
        let step = u32::from(workers.max(1));
        let one = |next| {
            let dialer = Dialer { test_state: Arc::clone(test_state), to, from, port, next, step };
            Box::new(dialer) as Box<dyn Connector>
        };
        (0..step).map(one).collect()
    }

    fn target(&self) -> Target {
        let any = || if self.to.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0u16; 8]) };
        let port = self.port.map_or(0, |port| port.wrapping_add(self.next as u16));
        let chosen = self.from.is_some() || port != 0;
        let from = chosen.then(|| {
            let mut from = self.from.unwrap_or_else(|| SocketAddr::new(any(), 0));
            from.set_port(port);
            from
        });
        Target { to: self.to, from }
    }
}

impl Connector for Dialer {
    fn open(&mut self, cx: &mut Context<'_>) -> Open {
        if self.next >= self.test_state.terms.all_streams() {
            return Open::Done;
        }
        if self.test_state.turn() != self.next {
            return Open::At(cx.now.plus(LOOK));
        }
        let target = self.target();
        let slot = self.next;
        self.next += self.step;
        let part = Part::client(Arc::clone(&self.test_state), slot);
        if self.test_state.terms.udp {
            Open::Datagram(Box::new(UdpStream::new(part)), target)
        } else {
            Open::Flow(Box::new(TcpStream::new(part)), target)
        }
    }

    fn on_closed(&mut self, cx: &mut Context<'_>, _: Box<dyn Flow>, how: &Result<Ending, Cause>) {
        if let Err(cause) = how {
            cx.post(Posted::Gone(cause.to_string()));
        }
    }

    fn stop(&mut self) {
        self.next = u32::MAX;
    }
}
