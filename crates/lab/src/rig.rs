//! A lab that stands: two namespaces, a device in each, and the forwarder between them.

use crate::LabError;
use crate::forward::{Forwarder, ForwarderState};
use crate::network::Network;
use crate::setup::{Setup, Trace, Wait};
use crate::trace::{Tracer, Way};
use crate::truth::{Device, SCHEMA, Truth, Worker};
use crate::{LabResult, Side};
use io::netns::{Interface, Namespace};
use io::tun::Tun;
use io::{Clock, Reactor, Waker};
use metrics::Mono;
use std::io::ErrorKind;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use transport::{Reactor as _, Trigger, Wake as _};

/// The devices' name, in both namespaces.
const NAME: &str = "lab0";
/// Packets that a device keeps until the lab reads them. The kernel drops further ones, and counts
/// them.
const QUEUE: u32 = 20_000;
/// Time that killed processes get to exit.
const KILLING: Duration = Duration::from_secs(5);

/// An impaired path between two network namespaces. Dropping it kills the processes in them and
/// removes them. After a `kill -9` or an abort of this process the kernel takes the path down and
/// kills the commands that were started in it, but not what they have started themselves.
#[derive(Debug)]
pub struct Lab {
    spaces: [Namespace; 2],
    shared: Arc<ForwarderState>,
    waker: Waker,
    thread: Option<JoinHandle<Forwarder>>,
    clock: Clock,
    origin: Mono,
    setup: Setup,
}

impl Lab {
    /// Builds it and starts forwarding; timetables wait for [`Lab::begin`].
    ///
    /// # Errors
    /// When the paths cannot be, or the system does not let us: without privilege, without TUN
    /// devices.
    pub fn new(mut setup: Setup) -> Result<Lab, LabError> {
        for (way, path) in [(Way::Up, &setup.up), (Way::Down, &setup.down)] {
            path.check().map_err(|why| LabError::Setting(format!("{}: {why}", way.name())))?;
        }
        let spaces = [space()?, space()?];
        let devices = [
            device(&spaces[0], Side::Client, setup.up.mtu.0)?,
            device(&spaces[1], Side::Server, setup.down.mtu.0)?,
        ];
        let reactor = Reactor::new().map_err(LabError::system("making a reactor"))?;
        for (key, device) in (0..).zip(&devices) {
            reactor.watch(device, key, Trigger::Level).map_err(LabError::system("watching a device"))?;
        }
        let clock = Clock::new();
        let (origin, waker) = (clock.now(), reactor.waker());
        let tracer = Tracer::new(std::mem::replace(&mut setup.trace, Trace::Off), origin)
            .map_err(LabError::system("starting the trace"))?;
        let network = Network::new([&setup.up, &setup.down], &setup.hops, setup.seed, origin);
        let shared = Arc::new(ForwarderState::default());
        let (wait, core, theirs) = (setup.wait, setup.core, Arc::clone(&shared));
        let work = move || {
            let worker = prepare(wait, core);
            Forwarder { devices, network, reactor, clock, shared: theirs, tracer, worker }.run()
        };
        let name = std::thread::Builder::new().name("lab".to_owned());
        let thread = name.spawn(work).map_err(LabError::system("starting the forwarder"))?;
        Ok(Lab { spaces, shared, waker, thread: Some(thread), clock, origin, setup })
    }

    /// The timetables of outages and stalls begin now. Only the first call counts.
    pub fn begin(&self) {
        let now = self.clock.now().0.max(1);
        // Only the first call sets the beginning.
        let _ = self.shared.begin.compare_exchange(0, now, Ordering::AcqRel, Ordering::Acquire);
        self.waker.wake();
    }

    /// Waits until no packet is on its way, at most `limit`. False at the limit.
    pub fn settle(&self, limit: Duration) -> bool {
        self.shared.settle(|| self.waker.wake(), limit)
    }

    /// Runs `f` on a thread of its own in the namespace of `side`. Sockets that it makes stay
    /// there, and may be used from anywhere.
    ///
    /// # Errors
    /// Runs `f` in the namespace of `side`. An error of its own if that cannot be entered.
    pub fn within<T: Send>(
        &self,
        side: Side,
        f: impl FnOnce() -> std::io::Result<T> + Send,
    ) -> std::io::Result<T> {
        self.space(side).within(f)
    }

    /// Makes `command` run in the namespace of `side`, with the addresses in its environment. The
    /// kernel kills the command when the thread that starts it ends.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn enter(&self, side: Side, command: &mut Command) -> std::io::Result<()> {
        for side in [Side::Client, Side::Server] {
            let name = format!("NETCALIPER_LAB_{}", side.name().to_uppercase());
            command.env(&name, side.ipv4().to_string()).env(name + "6", side.ipv6().to_string());
        }
        command.env("NETCALIPER_LAB_SIDE", side.name());
        self.space(side).enter(command)
    }

    /// The processes in the namespace of `side`.
    pub fn processes(&self, side: Side) -> Vec<u32> {
        let own = std::process::id();
        self.space(side).processes().into_iter().filter(|process| *process != own).collect()
    }

    /// Kills what runs in both namespaces.
    pub fn kill(&self) {
        let until = Instant::now() + KILLING;
        loop {
            let left = [Side::Client, Side::Server].map(|side| self.processes(side)).concat();
            if left.is_empty() || Instant::now() >= until {
                return;
            }
            for process in left {
                // One that has just ended is as good as killed.
                let _ = io::netns::signal(process, io::signals::KILL);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Kills the processes in both namespaces, ends the forwarding, and returns the lab's account.
    ///
    /// # Errors
    /// When the trace could not be written, or the kernel's own counts could not be read.
    pub fn finish(mut self) -> Result<LabResult, LabError> {
        self.kill();
        let losses = |side| {
            let read = self.within(side, || Interface::new(NAME).losses());
            read.map_err(LabError::system("reading counters"))
        };
        let (client, server) = (losses(Side::Client), losses(Side::Server));
        let Forwarder { network, tracer, worker, .. } = self.stop().ok_or(LabError::Forwarder)?;
        let (client, server) = (client?, server?);
        let (rows, trace_lost, wrote) = tracer.close();
        wrote.map_err(LabError::system("writing the trace"))?;
        let device = |from: io::netns::Losses, to: io::netns::Losses| Device {
            not_read: from.tx_dropped + from.tx_errors,
            not_received: to.rx_dropped + to.rx_errors,
        };
        let ([up, down], hops) = network.close();
        let begin = self.shared.begin.load(Ordering::Acquire);
        let truth = Truth {
            schema: SCHEMA,
            seed: self.setup.seed,
            asked_up: self.setup.up.clone(),
            asked_down: self.setup.down.clone(),
            hops,
            origin_wall_ns: self.clock.sample().wall(self.origin).0,
            origin: self.origin,
            begin_ns: (begin > 0).then(|| Mono(begin).since(self.origin)),
            up: up.close(self.origin, device(client, server)),
            down: down.close(self.origin, device(server, client)),
            worker,
            trace_lost,
            caveats: Vec::new(),
        };
        Ok(LabResult { truth: Truth { caveats: truth.caveats(), ..truth }, rows })
    }

    fn space(&self, side: Side) -> &Namespace {
        &self.spaces[side as usize]
    }

    /// Ends the forwarder and returns it; `None` when it has ended before.
    fn stop(&mut self) -> Option<Forwarder> {
        self.shared.stop.store(true, Ordering::Release);
        self.waker.wake();
        self.thread.take()?.join().ok()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.kill();
            let _nobody_asks = self.stop();
        }
    }
}

/// A namespace, or the reason why there is none.
fn space() -> Result<Namespace, LabError> {
    let made = Namespace::new().map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => LabError::Denied,
        _ => LabError::system("making a network namespace")(error),
    })?;
    made.within(|| Interface::new("lo").up()).map_err(LabError::system("starting a loopback"))?;
    Ok(made)
}

/// The device of one side, ready to be used.
fn device(space: &Namespace, side: Side, mtu: u32) -> Result<Tun, LabError> {
    let made = space.within(|| {
        let tun = Tun::new(NAME)?;
        let link = Interface::new(NAME);
        link.quiet();
        link.any_source();
        link.mtu(mtu)?;
        link.queue(QUEUE)?;
        link.address(side.ipv4().into(), Side::PREFIX4)?;
        link.up()?;
        // IPv6 needs packets of 1280 bytes, and may be switched off altogether.
        if mtu >= 1280 {
            let _without_ipv6 = link.address(side.ipv6().into(), Side::PREFIX6);
            link.settled()?;
        }
        Ok(tun)
    });
    made.map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => LabError::Denied,
        ErrorKind::NotFound => LabError::NoTun,
        _ => LabError::system("making a TUN device")(error),
    })
}

/// The forwarder's thread: its core, its timers, its precedence.
fn prepare(wait: Wait, core: Option<usize>) -> Worker {
    let core = core.filter(|core| io::thread::pin(&[*core]).is_ok());
    // Without precise timers packets leave some 50 µs later, which the truth shows.
    let _ = io::thread::precise_timers();
    Worker { wait, core, hurried: io::thread::hurry().is_ok(), sleeps: 0 }
}
