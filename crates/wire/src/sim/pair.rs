//! Two flows and what lies between them.

use super::datagram::{Fate, Lanes};
use super::link::Link;
use super::side::{Quirks, Side, Socket, Stepped, Wire, next};
use super::stream::Stream;
use metrics::{Counts, Ending, Mono, SECOND};
use std::net::SocketAddr;
use transport::{Cause, Flow, News, Opener, Path};

/// When a simulation begins: not at 0, which would hide bugs.
pub const START: Mono = Mono(SECOND);

/// One end of a [`Pair`].
pub struct End {
    /// Its thread: recorder and posted notes.
    pub side: Side,
    /// Its flow.
    pub flow: Box<dyn Flow>,
    /// How it has ended, as the engine would count it.
    pub ended: Option<Result<Ending, Cause>>,
    /// When.
    pub ended_at: Mono,
    /// The flow wanted its socket to be lifted up to the session.
    pub lifted: bool,
    /// Payload it has counted.
    pub counts: Counts,
    socket: Socket,
    path: Path,
    stop_at: Option<Mono>,
}

impl End {
    /// Whether it moved everything and agreed with the other end.
    #[must_use]
    pub fn completed(&self) -> bool {
        self.ended == Some(Ok(Ending::Completed))
    }

    fn end(&mut self, how: Result<Ending, Cause>, now: Mono) {
        if let Some(row) = self.flow.card().row {
            (self.counts, _) = self.side.rec.life(row);
        }
        self.ended = Some(how);
        self.ended_at = now;
    }

    fn over(&self) -> bool {
        self.ended.is_some() || self.lifted
    }
}

/// Two flows over one connection: `ends[0]` has opened it, `ends[1]` accepted it.
pub struct Pair {
    /// The two ends.
    pub ends: [End; 2],
    /// The current instant.
    pub now: Mono,
    wire: Option<Wire>,
    links: [Link; 2],
    seed: u64,
    datagrams: bool,
    up: bool,
}

fn address(last: u8, port: u16) -> SocketAddr {
    ([10, 0, 0, last], port).into()
}

impl Pair {
    /// Two flows over a stream.
    #[must_use]
    pub fn stream(client: Box<dyn Flow>, server: Box<dyn Flow>) -> Self {
        Pair::new(client, server, false)
    }

    /// Two flows over datagrams.
    #[must_use]
    pub fn datagrams(client: Box<dyn Flow>, server: Box<dyn Flow>) -> Self {
        Pair::new(client, server, true)
    }

    /// A flow that has connected to what `opener` makes of it.
    ///
    /// # Panics
    /// When the opener refuses.
    #[must_use]
    pub fn accepted(client: Box<dyn Flow>, opener: &mut dyn Opener) -> Self {
        let path = Path { peer: address(1, 40_000), local: address(2, 7411) };
        let mut side = Side::new(1, Quirks::default(), false);
        let server = opener.accept(&mut side.cx(START), &path).expect("the opener refused");
        Pair::new(client, server, false)
    }

    fn new(client: Box<dyn Flow>, server: Box<dyn Flow>, datagrams: bool) -> Self {
        let (here, there) = (address(1, 40_000), address(2, 7411));
        let end = |flow, seed, path| End {
            side: Side::new(seed, Quirks::default(), datagrams),
            flow,
            ended: None,
            ended_at: Mono(0),
            lifted: false,
            counts: Counts::default(),
            socket: Socket::default(),
            path,
            stop_at: None,
        };
        let ends = [
            end(client, 1, Path { peer: there, local: here }),
            end(server, 2, Path { peer: here, local: there }),
        ];
        Pair {
            ends,
            now: START,
            wire: None,
            links: [Link::new(), Link::new()],
            seed: 1,
            datagrams,
            up: false,
        }
    }

    /// Where all chance comes from.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        for (i, end) in self.ends.iter_mut().enumerate() {
            end.side = Side::new(seed * 2 + i as u64, end.side.quirks, self.datagrams);
        }
        self
    }

    /// Conditions from client to server.
    #[must_use]
    pub fn up(mut self, link: Link) -> Self {
        self.links[0] = link;
        self
    }

    /// Conditions from server to client.
    #[must_use]
    pub fn down(mut self, link: Link) -> Self {
        self.links[1] = link;
        self
    }

    /// Conditions both ways.
    #[must_use]
    pub fn both(self, link: Link) -> Self {
        self.up(link.clone()).down(link)
    }

    /// What both machines are like.
    #[must_use]
    pub fn quirks(mut self, quirks: Quirks) -> Self {
        for (i, end) in self.ends.iter_mut().enumerate() {
            end.side = Side::new(self.seed * 2 + i as u64, quirks, self.datagrams);
        }
        self
    }

    /// An end (0 the client, 1 the server) is told to stop, `after` ns from the start.
    #[must_use]
    pub fn stop(mut self, end: usize, after: u64) -> Self {
        self.ends[end].stop_at = Some(START.plus(after));
        self
    }

    /// Runs until both ends have ended, or nothing can happen any more.
    pub fn run(&mut self) -> &mut Self {
        self.run_until(Mono(u64::MAX))
    }

    /// Runs until `limit`, unless it is over before.
    ///
    /// # Panics
    /// When a flow breaks a rule of `transport`.
    pub fn run_until(&mut self, limit: Mono) -> &mut Self {
        self.begin();
        while !self.ends.iter().all(End::over) {
            let Some((at, end)) = self.soonest() else { break };
            if at > limit {
                self.now = self.now.max(limit);
                break;
            }
            self.now = at;
            if let Some(Wire::Stream(stream)) = &mut self.wire {
                stream.tick(at);
            }
            if let Some(end) = end {
                self.step(end);
            }
        }
        for end in self.ends.iter_mut().filter(|e| e.ended.is_none()) {
            if let Some(row) = end.flow.card().row {
                (end.counts, _) = end.side.rec.life(row);
            }
        }
        self
    }

    fn begin(&mut self) {
        if std::mem::replace(&mut self.up, true) {
            return;
        }
        let [up, down] = self.links.clone();
        let paths = [self.ends[0].path, self.ends[1].path];
        self.wire = Some(if self.datagrams {
            Wire::Lanes(Box::new(Lanes::new(up, down, self.seed, paths)))
        } else {
            Wire::Stream(Box::new(Stream::new(up, down, self.seed)))
        });
        for (end, path) in paths.into_iter().enumerate() {
            self.tell(end, News::Up(path));
        }
    }

    /// The next instant at which something happens, and at which end.
    fn soonest(&mut self) -> Option<(Mono, Option<usize>)> {
        let (wire, now) = (self.wire.as_mut()?, self.now);
        let cut = if let Wire::Stream(stream) = wire { stream.cut_at() } else { None };
        let mut soonest = cut.map(|at| (at.max(now), None));
        for (i, end) in self.ends.iter().enumerate().filter(|(_, e)| !e.over()) {
            let at = next(&*end.flow, wire, i, &end.socket, now).into_iter().chain(end.stop_at).min();
            if let Some(at) = at
                && soonest.is_none_or(|(best, _)| at < best)
            {
                soonest = Some((at, Some(i)));
            }
        }
        soonest
    }

    fn tell(&mut self, at: usize, news: News) {
        let end = &mut self.ends[at];
        if let Err(violation) = end.flow.hear(&mut end.side.cx(self.now), news) {
            self.end(at, Err(violation.into()), true);
        }
    }

    fn end(&mut self, at: usize, how: Result<Ending, Cause>, reset: bool) {
        self.ends[at].end(how, self.now);
        if let Some(wire) = &mut self.wire {
            wire.close(at, self.now, reset);
        }
    }

    fn step(&mut self, at: usize) {
        let now = self.now;
        if self.ends[at].stop_at.is_some_and(|stop| stop <= now) {
            self.ends[at].stop_at = None;
            return self.tell(at, News::Stop);
        }
        let (Some(wire), end) = (&mut self.wire, &mut self.ends[at]) else { return };
        match end.side.step(wire, at, &mut *end.flow, &mut end.socket, now) {
            Stepped::On => {}
            Stepped::Ended(how, reset) => self.end(at, how, reset),
            Stepped::Lift => end.lifted = true,
            Stepped::Hand(_) => {
                let path = end.path;
                self.tell(at, News::Up(path));
            }
        }
    }

    /// What became of the datagrams that an end has sent.
    #[must_use]
    pub fn fate(&self, from: usize) -> Fate {
        match &self.wire {
            Some(Wire::Lanes(lanes)) => lanes.fate(from),
            _ => Fate::default(),
        }
    }
}
