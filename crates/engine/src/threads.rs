//! Worker threads: their start, their orders for a group, and their end.

use crate::worker::{Command, GroupProgress, GroupState, Report, Worker, WorkerConfig};
use crate::{EngineError, Setup};
use metrics::Clamped as _;
use transport::{GroupPlan, Join as _, LinkSource, Platform, Reactor as _, Sender as _, Wake as _};

pub(crate) struct WorkerHandle<P: Platform> {
    pub(crate) mailbox: P::Sender<Command<P>>,
    waker: P::Waker,
    thread: Option<P::Join>,
}

impl<P: Platform> WorkerHandle<P> {
    pub(crate) fn send(&self, command: Command<P>) {
        self.mailbox.send(command);
        self.waker.wake();
    }
}

/// The worker threads of this process, and their reports.
pub(crate) struct Workers<P: Platform> {
    pub(crate) handles: Vec<WorkerHandle<P>>,
    pub(crate) reports: P::Receiver<(usize, Report<P>)>,
}

impl<P: Platform> Workers<P> {
    /// Starts the threads of `setup`; their reports wake the thread that waits on `control`.
    pub(crate) fn start(
        platform: &P,
        setup: &mut Setup<P>,
        control: &P::Reactor,
    ) -> Result<Self, EngineError> {
        let system = |what| move |source| EngineError::System { what, source };
        let (report, reports) = platform.channel();
        let each = usize::from(setup.workers.max(1));
        let count = each * usize::from(setup.sets.max(1));
        let mut made = Vec::new();
        for _ in 0..count {
            let reactor = platform.reactor().map_err(system("making a worker's reactor"))?;
            made.push((platform.channel::<Command<P>>(), reactor));
        }
        let peers: Vec<_> = made.iter().map(|((mailbox, _), r)| (mailbox.clone(), r.waker())).collect();
        let mut listeners = std::mem::take(&mut setup.listeners).into_iter();
        let mut datagrams = std::mem::take(&mut setup.datagrams).into_iter();
        let mut handles = Vec::new();
        for (index, ((mailbox, commands), reactor)) in made.into_iter().enumerate() {
            let waker = reactor.waker();
            let config = WorkerConfig {
                index,
                core: setup.cores.get(index % each).copied().flatten(),
                listeners: listeners.next().unwrap_or_default(),
                datagrams: datagrams.next().unwrap_or_default(),
                admission: setup.admission.clone(),
                commands,
                reports: report.clone(),
                control: control.waker(),
                peers: peers.clone(),
                buffer: setup.buffer,
                seed: platform.random(),
                inherited: setup.inherited.clone(),
                realtime: setup.realtime,
                links: setup.links,
                allowance: setup.allowance.clone(),
                clients: setup.clients.clone(),
            };
            let worker = Worker::new(platform.clone(), config, reactor);
            let thread = platform.spawn(&format!("worker-{index}"), worker);
            let thread = Some(thread.map_err(system("starting a worker"))?);
            handles.push(WorkerHandle { mailbox, waker, thread });
        }
        Ok(Workers { handles, reports })
    }

    pub(crate) fn quit(&self) {
        self.handles.iter().for_each(|worker| worker.send(Command::Quit));
    }

    /// Waits for the end of all; how many have panicked.
    pub(crate) fn join(&mut self) -> usize {
        let threads = self.handles.iter_mut().filter_map(|worker| worker.thread.take());
        threads.filter_map(|thread| (!thread.join()).then_some(())).count()
    }
}

/// Starts a group on these workers.
pub(crate) fn begin<P: Platform>(
    workers: &[WorkerHandle<P>],
    plan: &GroupPlan,
    sources: Vec<LinkSource>,
    setup: &Setup<P>,
) {
    let mut plan = plan.clone();
    plan.sockets.device.clone_from(&setup.inherited.device);
    let as_listeners = plan.sockets.of_streams() == setup.inherited.of_streams();
    let mut sources = sources.into_iter();
    let mut cores = (plan.beside.map_or(0, usize::clamped)..)
        .map(|at| setup.shared_cores.get(at % setup.shared_cores.len().max(1)).copied())
        .take(if plan.beside.is_some() { workers.len() } else { 0 });
    for worker in workers {
        let (source, core) = (sources.next(), cores.next().flatten());
        let state = GroupProgress::default();
        let group = GroupState { plan: plan.clone(), source, as_listeners, core, state };
        worker.send(Command::Group(Box::new(group)));
    }
}
