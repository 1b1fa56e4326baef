//! Bound UDP sockets: peers without a socket of their own knock there.

use super::link::Link;
use super::network::{Conn, Job, Network, Owner};
use super::pair::Pair;
use super::side::Wire;
use metrics::Group;
use transport::{
    Arena, Batch, Burst, Card, Cx, Flow, News, Opener, Path, Read, Violation, Want, When, Wrote,
};

/// Most bytes of one answer.
const ROOM: usize = 65_507;

/// One datagram of a batch, as a bound socket hands it out.
fn alone<'a>(batch: &Batch<'a>, datagram: &'a [u8]) -> Batch<'a> {
    Batch { bytes: datagram, len: datagram.len(), stride: datagram.len(), ..*batch }
}

/// The accepting end of a [`Pair`]: an opener's door, and then the flow that it lets in.
struct Door {
    opener: Box<dyn Opener>,
    flow: Option<Box<dyn Flow>>,
    path: Option<Path>,
}

impl Flow for Door {
    fn want(&self) -> Want {
        let door = Want { send: When::Never, read: Read::look(65_535), wake: None, end: None };
        self.flow.as_ref().map_or(door, |flow| flow.want())
    }

    fn fill(&mut self, cx: &mut Cx<'_>, out: &mut Burst<'_>) {
        if let Some(flow) = &mut self.flow {
            flow.fill(cx, out);
        }
    }

    fn wrote(&mut self, cx: &mut Cx<'_>, n: Wrote) {
        if let Some(flow) = &mut self.flow {
            flow.wrote(cx, n);
        }
    }

    fn take(&mut self, cx: &mut Cx<'_>, got: &Batch<'_>, reply: &mut Burst<'_>) -> Result<(), Violation> {
        if let Some(flow) = &mut self.flow {
            return flow.take(cx, got, reply);
        }
        // The others of a run are late: they are lost, as those that come before the new socket is there.
        let first = got.datagrams().next().unwrap_or_default();
        self.flow = self.opener.knock(cx, &alone(got, first), reply);
        match (&mut self.flow, self.path) {
            (Some(flow), Some(path)) => flow.hear(cx, News::Up(path)),
            _ => Ok(()),
        }
    }

    fn hear(&mut self, cx: &mut Cx<'_>, news: News) -> Result<(), Violation> {
        if let News::Up(path) = news {
            self.path = Some(path);
        }
        self.flow.as_mut().map_or(Ok(()), |flow| flow.hear(cx, news))
    }

    fn card(&self) -> Card {
        self.flow.as_ref().map_or(Card::default(), |flow| flow.card())
    }
}

impl Pair {
    /// A flow on a connected UDP socket, and the bound one of a server, where `opener` listens to whoever knocks.
    #[must_use]
    pub fn knocking(client: Box<dyn Flow>, opener: Box<dyn Opener>) -> Self {
        Pair::datagrams(client, Box::new(Door { opener, flow: None, path: None }))
    }
}

impl Network {
    /// Conditions of every UDP socket that is opened from now on, from opener to server and back; those of connections
    /// until then.
    pub fn datagram_links(&mut self, up: Link, down: Link) {
        self.lanes = Some((up, down));
    }

    /// Whether somebody at the other end of a UDP socket listens to whoever knocks; one worker, as the kernel spreads them.
    pub(super) fn door(&mut self, path: Path) -> Owner {
        let at = |m: &super::host::Machine| m.ip == path.local.ip() && m.listens(path.local.port());
        match self.machines.iter().position(at) {
            Some(m) => {
                Owner::Door(m, self.rng.between(0, self.machines[m].workers.len() as u64 - 1) as usize)
            }
            None => Owner::Nobody,
        }
    }

    /// A datagram has come to a bound socket.
    pub(super) fn door_turn(&mut self, m: usize, w: usize, id: u64, end: usize) {
        let now = self.now;
        let Some(Conn { wire: Wire::Lanes(lanes), paths, .. }) = self.conns.get_mut(&id) else { return };
        let path = paths[end];
        let mut bytes = Vec::new();
        if lanes.recv(end, now, ROOM, false, &mut bytes).is_none() {
            return;
        }
        let batch = Batch { from: Some(path), ..Batch::stream(&bytes, now) };
        let mut arena = Arena::new(ROOM);
        let mut reply = Burst::new(&mut arena, bytes.len());
        let Some((opener, mut cx)) = self.machines[m].workers[w].opener(Group::ALL, now) else { return };
        let flow = opener.knock(&mut cx, &batch, &mut reply);
        if !reply.is_empty() {
            lanes.send(end, now, &reply);
        }
        if let Some(flow) = flow {
            self.let_in(m, w, (id, end), flow, path);
        }
        self.tend(m, w);
    }

    /// Lets a worker's opener mind what it took in without a flow.
    pub(super) fn tend(&mut self, m: usize, w: usize) {
        let now = self.now;
        let Some((opener, mut cx)) = self.machines[m].workers[w].opener(Group::ALL, now) else { return };
        let again = opener.tend(&mut cx);
        self.post(m, w);
        if let Some(at) = again {
            assert!(at > now, "an opener asks to be asked again at once: it would spin");
            self.push(at, 1, Job::Ask(m, w, Group::ALL));
        }
    }
}
