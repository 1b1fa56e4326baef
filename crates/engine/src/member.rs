//! The control thread of a worker process: it passes instructions down to its workers, and their
//! findings up.

use crate::outgoing::Outgoing;
use crate::process::{BEAT_FRAME, Frames, Instruction, encode_finding};
use crate::threads::{Workers, begin};
use crate::worker::{Command, Report};
use crate::{EngineError, Setup};
use metrics::{Clamped as _, Mono, SECOND};
use model::Finding;
use transport::{
    Clock as _, Got, Mail, Net as _, Park, Platform, Read, Ready, Receiver as _, Replica, StreamSocket as _,
    Task, Trigger, Watch as _,
};

/// Interval of the signs of life to the process that has the session, ns.
const BEAT: u64 = SECOND / 4;
/// Bytes that are read at once.
const READ: usize = 64 * 1024;

/// The control thread of a worker process.
pub struct Member<P: Platform> {
    reactor: P::Reactor,
    clock: P::Clock,
    setup: Setup<P>,
    workers: Workers<P>,
    replica: Box<dyn Replica>,
    /// To the process that has the session.
    stream: P::Stream,
    frames: Frames,
    out: Outgoing,
    /// When the next sign of life is due.
    beat_at: Mono,
    buffer: Vec<u8>,
    is_over: bool,
}

impl<P: Platform> Member<P> {
    /// Starts the workers; `stream` leads to the process that has the session, and `replica` makes
    /// the links that it asks for.
    ///
    /// # Errors
    /// When the system refuses a reactor or a thread.
    pub fn new(
        platform: &P,
        stream: P::Stream,
        replica: Box<dyn Replica>,
        mut setup: Setup<P>,
    ) -> Result<Self, EngineError> {
        let system = |what| move |source| EngineError::System { what, source };
        let reactor = platform.reactor().map_err(system("making a reactor"))?;
        stream
            .watch(&reactor, 1, Trigger::Edges)
            .map_err(system("watching the process that has the session"))?;
        let workers = Workers::start(platform, &mut setup, &reactor)?;
        Ok(Member {
            reactor,
            clock: platform.clock(),
            setup,
            workers,
            replica,
            stream,
            frames: Frames::default(),
            out: Outgoing::default(),
            beat_at: Mono(0),
            buffer: vec![0; READ],
            is_over: false,
        })
    }

    /// Carries out received instructions. Without the other end no session is left.
    fn read(&mut self) {
        loop {
            let mut net = self.stream.net(&mut self.buffer, &self.clock, false);
            match net.recv(Read::look(READ)) {
                Got::Received(received) => self.frames.push(received.bytes),
                Got::Nothing => break,
                Got::Fin | Got::Fault(_) => {
                    self.is_over = true;
                    break;
                }
            }
        }
        while let Some(body) = self.frames.pop() {
            match Instruction::decode(body) {
                Some(Instruction::Group(part, about)) => {
                    let workers = u16::clamped(self.workers.handles.len());
                    match self.replica.group(part, workers, about) {
                        Some((plan, sources)) => {
                            begin(&self.workers.handles, &plan, sources, &self.setup);
                            self.out.push(&encode_finding(0, &Finding::Begun(plan.group)));
                        }
                        // Both ends are the same program.
                        None => self.is_over = true,
                    }
                }
                Some(Instruction::Order(group, order)) => {
                    self.replica.order(group, order);
                    self.workers.handles.iter().for_each(|worker| worker.send(Command::Order(group, order)));
                }
                None => self.is_over = true,
            }
        }
    }

    fn gather(&mut self) {
        while let Mail::Message((worker, report)) = self.workers.reports.try_recv() {
            // Messages of flows to their session, and control links, belong to the process that has
            // it.
            if let Report::Found(finding) = report {
                self.out.push(&encode_finding(worker, &finding));
            }
        }
    }

    fn write(&mut self) {
        self.is_over |= self.out.send::<P>(&mut self.stream, &self.clock).fault.is_some();
        let _ = self.stream.rearm(&self.reactor, 1, true, !self.out.is_empty());
    }

    /// After the last step: waits for the workers.
    pub fn finish(mut self) {
        self.workers.join();
    }
}

impl<P: Platform> Task<P> for Member<P> {
    fn step(&mut self) -> Park {
        if self.is_over {
            self.workers.quit();
            return Park::Done;
        }
        Park::Wait(Some(self.beat_at))
    }

    fn reactor(&mut self) -> &mut P::Reactor {
        &mut self.reactor
    }

    fn resume(&mut self, ready: std::io::Result<&mut Vec<Ready>>) {
        match ready {
            Ok(ready) => ready.clear(),
            Err(_) => self.is_over = true,
        }
        self.read();
        self.gather();
        let now = self.clock.now();
        if self.beat_at <= now {
            self.beat_at = now.plus(BEAT);
            self.out.push(&BEAT_FRAME);
        }
        self.write();
    }
}
