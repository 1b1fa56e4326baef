//! The driver of simulated threads: the one furthest behind takes the next step.

use super::link::Link;
use super::platform::{Sim, lock};
use super::quirks::Quirks;
use super::world::{Parked, Turn, World};
use metrics::Mono;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use transport::Park;

impl Sim {
    /// A process on the host `ip` of a new world; everything random in it comes from `seed`.
    pub fn new(seed: u64, ip: IpAddr) -> Sim {
        Sim::on(&Arc::new(Mutex::new(World::new(seed))), ip)
    }

    /// Another process in the same world.
    pub fn process_at(&self, ip: IpAddr) -> Sim {
        Sim::on(&self.world, ip)
    }

    pub(super) fn on(shared: &Arc<Mutex<World>>, ip: IpAddr) -> Sim {
        let mut world = lock(shared);
        world.processes += 1;
        Sim { world: Arc::clone(shared), host: world.host(ip), process: world.processes }
    }

    /// What this host is like, from now on.
    pub fn set_quirks(&self, quirks: Quirks) {
        self.with(|world| world.hosts[self.host].quirks = quirks);
    }

    /// Conditions of every connection that is opened from now on, from opener to acceptor and back,
    /// and of datagrams.
    pub fn set_links(&self, up: Link, down: Link) {
        self.with(|world| world.links = (up, down));
    }

    /// Runs the world until `limit`, or until nothing happens any more; the instant that it has
    /// come to.
    pub fn run(&self, limit: Mono) -> Mono {
        while step(&self.world, limit) {}
        self.with(|world| world.now)
    }

    /// This process dies: its tasks are dropped, and with them their sockets.
    pub fn kill(&self) {
        let count = self.with(|world| world.threads.len());
        for thread in 0..count {
            let task = self.with(|world| {
                let ours = world.threads[thread].process == self.process;
                if ours {
                    world.finish(thread);
                }
                world.threads[thread].task.take_if(|_| ours)
            });
            drop(task);
        }
    }

    /// Drops every packet of this host from now on.
    pub fn unplug(&self) {
        self.with(|world| {
            let ip = world.hosts[self.host].ip;
            world.hosts[self.host].plugged = false;
            let ours = world.conns.iter().filter(|(_, conn)| conn.hosts.contains(&Some(self.host)));
            for conn in ours.map(|(id, _)| *id).collect::<Vec<_>>() {
                world.silence(conn);
            }
            for lanes in world.lanes.iter_mut().filter(|lanes| lanes.ends.iter().any(|end| end.ip() == ip)) {
                lanes.unplug();
            }
        });
    }

    /// All calls to the platform so far, each with its time and thread, hashed.
    pub fn trace(&self) -> u64 {
        self.with(|world| world.trace)
    }
}

/// Lets the next thing happen, by `limit`; false when there is none.
pub(super) fn step(shared: &Arc<Mutex<World>>, limit: Mono) -> bool {
    let Some(Turn { thread, before, mut ready, task }) = lock(shared).turn(limit) else { return false };
    let Some(mut task) = task else {
        lock(shared).current = before;
        return true;
    };
    if let Some(events) = &mut ready {
        task.resume(Ok(events));
    }
    let park = task.step();
    let (reactor, held) = (task.reactor().id, task.held());
    let mut world = lock(shared);
    world.hold(thread, held);
    match park {
        Park::Run => {
            world.threads[thread].parked = Parked::Run;
            let now = world.threads[thread].now;
            world.schedule(thread, now);
        }
        Park::Sleep(until) => {
            world.threads[thread].parked = Parked::Run;
            let late = world.lateness(thread);
            world.schedule(thread, until.plus(late));
        }
        Park::Wait(until) => world.wait(thread, reactor, until),
        Park::Done => {
            world.finish(thread);
            drop(world);
            drop(task);
            lock(shared).current = before;
            return true;
        }
    }
    world.threads[thread].task = Some(task);
    world.current = before;
    true
}

/// Lets the others run until a thread is over.
pub(super) fn join(shared: &Arc<Mutex<World>>, thread: usize) {
    let over = |world: &World| world.threads[thread].parked == Parked::Done;
    while !over(&lock(shared)) {
        assert!(step(shared, Mono(u64::MAX)), "a thread that is waited for never ends");
    }
    let mut world = lock(shared);
    let end = world.threads[thread].now;
    if let Some(current) = world.current {
        let joiner = &mut world.threads[current];
        joiner.now = joiner.now.max(end);
        return;
    }
    drop(world);
    // No thread of the world waits, but the test: it goes on when the other has ended.
    while step(shared, end) {}
    let mut world = lock(shared);
    world.now = world.now.max(end);
}
