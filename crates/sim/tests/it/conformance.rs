//! The checks of every platform, on two simulated hosts.

use metrics::Mono;
use sim::{Sim, SimReactor, Socket};
use std::mem::replace;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use transport::conformance::{Ability, Bench};
use transport::{Fault, Join as _, Park, Platform as _, Ready, SocketSettings, Task};

transport::conformance!(Hosts::new());

/// Two hosts. The test is no thread of theirs: what it calls takes no time, and time passes while
/// it waits.
struct Hosts {
    client: Sim,
    server: Sim,
}

impl Hosts {
    fn new() -> Self {
        let client = Sim::new(1, [10, 0, 0, 1].into());
        let server = client.process_at([10, 0, 0, 2].into());
        Hosts { client, server }
    }
}

/// A wait that is over: the reactor, and what it reported.
type Over = Arc<Mutex<Option<(SimReactor, Vec<Ready>)>>>;

/// Waits once, in place of the test.
struct Waiting {
    reactor: SimReactor,
    until: Option<Mono>,
    spare: Option<SimReactor>,
    over: Over,
}

impl Task<Sim> for Waiting {
    fn step(&mut self) -> Park {
        if self.spare.is_some() { Park::Wait(self.until) } else { Park::Done }
    }

    fn reactor(&mut self) -> &mut SimReactor {
        &mut self.reactor
    }

    fn resume(&mut self, ready: std::io::Result<&mut Vec<Ready>>) {
        let ready = std::mem::take(ready.unwrap());
        let reactor = replace(&mut self.reactor, self.spare.take().unwrap());
        *self.over.lock().unwrap() = Some((reactor, ready));
    }
}

impl Bench for Hosts {
    type Platform = Sim;

    fn client(&self) -> Sim {
        self.client.clone()
    }

    fn server(&self) -> Sim {
        self.server.clone()
    }

    fn addresses(&self) -> Vec<IpAddr> {
        vec![[10, 0, 0, 2].into()]
    }

    fn listen(
        &self,
        at: SocketAddr,
        share: bool,
        settings: &SocketSettings,
    ) -> Result<(Socket, SocketAddr), Fault> {
        self.server.listen_at(at, share, settings)
    }

    fn bind_udp(
        &self,
        at: SocketAddr,
        share: bool,
        settings: &SocketSettings,
    ) -> Result<(Socket, SocketAddr), Fault> {
        self.server.bind_at(at, share, settings)
    }

    fn wait(&self, reactor: &mut SimReactor, until: Option<Mono>) -> Vec<Ready> {
        let (spare, other) = (self.client.reactor().unwrap(), self.client.reactor().unwrap());
        let over = Over::default();
        let task =
            Waiting { reactor: replace(reactor, spare), until, spare: Some(other), over: Arc::clone(&over) };
        self.client.spawn("the test", task).unwrap().join();
        let (back, ready) = over.lock().unwrap().take().unwrap();
        *reactor = back;
        ready
    }

    fn lacks(&self, ability: Ability) -> Option<String> {
        match ability {
            Ability::ExactRung => {
                Some("threads take turns: one that looks for wakes is told to pause as well".to_owned())
            }
            Ability::Panics => Some("a panic in a simulated thread is one of the test".to_owned()),
            Ability::SleepingReceives => Some("a simulated thread sleeps between two steps only".to_owned()),
            Ability::Segmentation
            | Ability::Merging
            | Ability::ReceiveStamps
            | Ability::TransmitStamps
            | Ability::Edges
            | Ability::SharedPorts => None,
        }
    }

    fn skip(&self, reason: &str) {
        panic!("no check is skipped in virtual time: {reason}");
    }
}
