//! Peers without a session: they send what they are told to and remember what they receive.

use super::platform::{Sim, SimReactor, lock};
use super::socket::Socket;
use metrics::Mono;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use transport::{
    Arena, Clock as _, Got, Net as _, Park, Platform as _, Read, Ready, SocketSettings, StreamSocket, Target,
    Task, Transmit, Trigger, Watch as _,
};

/// Action of a raw peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Say {
    /// Sends bytes.
    Bytes(Vec<u8>),
    /// Does not hang up when it is hung up on in order; to be said first.
    Stay,
    Fin,
    Reset,
}

/// How the other end has ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HungUp {
    Refused,
    Fin,
    Reset,
}

/// A peer without a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Raw {
    pub heard: Vec<u8>,
    pub ended: Option<(Mono, HungUp)>,
}

pub(super) struct RawTask {
    sim: Sim,
    reactor: SimReactor,
    target: Target,
    socket: Option<Socket>,
    script: VecDeque<(Mono, Say)>,
    out: Vec<u8>,
    up: bool,
    stays: bool,
    raw: Arc<Mutex<Raw>>,
}

impl RawTask {
    /// Starts one; the times of its script count from now.
    pub(super) fn start(sim: Sim, target: Target, script: Vec<(u64, Say)>) -> io::Result<Arc<Mutex<Raw>>> {
        let (now, raw) = (sim.with(|world| world.time()), Arc::<Mutex<Raw>>::default());
        let script = script.into_iter().map(|(after, say)| (now.plus(after), say)).collect();
        let task = RawTask {
            reactor: sim.reactor()?,
            target,
            socket: None,
            script,
            out: Vec::new(),
            up: false,
            stays: false,
            raw: Arc::clone(&raw),
            sim: sim.clone(),
        };
        sim.spawn("raw", task)?;
        Ok(raw)
    }

    fn ended(&self, how: HungUp) {
        lock(&self.raw).ended = Some((self.sim.clock().now(), how));
    }

    /// Receives what there is; false when that is the end.
    fn receive(&self, socket: &Socket) -> bool {
        let (mut buffer, clock) = (vec![0; 1 << 16], self.sim.clock());
        while lock(&self.raw).ended.is_none() {
            match StreamSocket::net(socket, &mut buffer, &clock, false).recv(Read::look(1 << 16)) {
                Got::Nothing => return true,
                Got::Received(received) => lock(&self.raw).heard.extend_from_slice(received.bytes),
                Got::Fin => self.ended(HungUp::Fin),
                Got::Fault(_) => self.ended(HungUp::Reset),
            }
        }
        self.stays && lock(&self.raw).ended.is_some_and(|(_, how)| how == HungUp::Fin)
    }

    fn send(&mut self, socket: &Socket) {
        if self.out.is_empty() {
            return;
        }
        let mut arena = Arena::new(self.out.len());
        let mut burst = Transmit::new(&mut arena, self.out.len());
        burst.own(self.out.len()).copy_from_slice(&self.out);
        let (mut none, clock) = ([], self.sim.clock());
        let wrote = StreamSocket::net(socket, &mut none, &clock, false).send(&burst);
        self.out.drain(..wrote.bytes);
        if wrote.fault.is_some() {
            self.out.clear();
        }
    }

    /// One step with its socket, which it gives back unless it is done with it.
    fn go_on(&mut self, socket: Socket) -> Option<Socket> {
        if !self.up {
            match socket.connected() {
                Ok(None) => return Some(socket),
                Ok(Some(_)) => self.up = true,
                Err(_) => {
                    self.ended(HungUp::Refused);
                    return None;
                }
            }
        }
        if !self.receive(&socket) {
            return None;
        }
        let now = self.sim.clock().now();
        while self.script.front().is_some_and(|(at, _)| *at <= now)
            && let Some((_, say)) = self.script.pop_front()
        {
            match say {
                Say::Bytes(bytes) => self.out.extend_from_slice(&bytes),
                Say::Stay => self.stays = true,
                Say::Fin => {
                    self.send(&socket);
                    socket.half_close();
                }
                Say::Reset => {
                    self.send(&socket);
                    socket.abort();
                    return None;
                }
            }
        }
        self.send(&socket);
        Some(socket)
    }
}

impl Task<Sim> for RawTask {
    fn step(&mut self) -> Park {
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => match self.sim.connect(&self.target, &SocketSettings::default()) {
                Ok((socket, _)) if socket.watch(&self.reactor, 1, Trigger::Edges).is_ok() => socket,
                _ => {
                    self.ended(HungUp::Refused);
                    return Park::Done;
                }
            },
        };
        self.socket = self.go_on(socket);
        match &self.socket {
            Some(_) => Park::Wait(self.script.front().map(|(at, _)| *at).filter(|_| self.up)),
            None => Park::Done,
        }
    }

    fn reactor(&mut self) -> &mut SimReactor {
        &mut self.reactor
    }

    fn resume(&mut self, _: io::Result<&mut Vec<Ready>>) {}
}
