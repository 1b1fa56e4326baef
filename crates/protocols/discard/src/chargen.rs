//! The character generator (RFC 864): lines of characters for every client, until the client
//! closes.
//!
//! ```text
//!  !"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\]^_`abcdefg␍␊
//! !"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\]^_`abcdefgh␍␊
//! "#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\]^_`abcdefghi␍␊
//! ```
//!
//! Each line has 72 of the 95 printable characters of ASCII and begins one further, so that all
//! repeats after 95 lines, 7,030 bytes. The RFC calls that a popular pattern and asks for none;
//! comparing every byte (`--verify data`) needs a service that sends it, as inetd's and ours do.
//! xinetd's leaves two of the characters out.
//!
//! Over UDP a datagram is answered by characters, here never more than it had: the service was
//! known for larger answers, which flood others on behalf of a forged address.

use common::bulk::{SHARES_NO_BYTES, UNLIMITED};
use common::call::{Answerer, Bound, Caller};
use common::kernel::Core;
use common::one_sided::{Answers, Calls, GROUP, OneSidedProtocol};
use common::payload::Repeated;
use common::pending::is_service;
use common::protocol::{Defaults, Info, Legacy, refused};
use metrics::{Clamped, Ending, SECOND};
use model::{Kind, Pattern, Payload, Phase, Verify};
use transport::{
    Acceptor, Checked, Connector, Context, Flow, FlowEvent, FlowId, Interest, Read, Received, Sent, Transmit,
    Violation, When,
};

pub static PROTOCOL: OneSidedProtocol = OneSidedProtocol {
    info: Info {
        questions: "tcp --reverse",
        defaults: Defaults::PLAIN,
        legacy: Some(Legacy {
            over: "TCP and UDP",
            serves: Legacy::MIXED,
            phase: || Phase { pattern: Pattern::Pull, stall_ns: UNREAD, ..Phase::default() },
            also_datagrams: true,
            sends_first: true,
            ..Legacy::PLAIN
        }),
        ..Info::new("chargen", 19)
    },
    carries,
    connectors,
    acceptors,
};

/// Time after which a connection ends whose client reads nothing, ns.
const UNREAD: u64 = 300 * SECOND;
const PRINTABLE: usize = 95;
/// Characters of a line, and with its end.
const SHOWN: usize = 72;
const LINE: usize = SHOWN + 2;
/// Bytes after which the stream repeats.
const PERIOD: usize = PRINTABLE * LINE;
/// Several periods, so that a send call has few pieces; twice, as [`Repeated`] wants it.
const KEPT: usize = 2 * 9 * PERIOD;

static CHARACTERS: [u8; KEPT] = {
    let mut bytes = [0; KEPT];
    let mut i = 0;
    while i < KEPT {
        let (line, column) = (i / LINE, i % LINE);
        bytes[i] = match column {
            SHOWN => b'\r',
            column if column > SHOWN => b'\n',
            column => b' ' + ((line + column) % PRINTABLE) as u8,
        };
        i += 1;
    }
    bytes
};
pub const STREAM: Repeated = Repeated(&CHARACTERS);

/// Most characters in a datagram (RFC 864).
const LONGEST_ANSWER: usize = 512;

fn carries(phase: &Phase) -> Result<(), &'static str> {
    let other = phase.kind != Kind::Tcp || phase.pattern != Pattern::Pull;
    let paced = phase.rate.is_some() || phase.rate_high.is_some() || phase.burst.is_some();
    refused([
        (other, "sends from the server to the client over TCP only: use it with tcp and --reverse"),
        (phase.payload != Payload::Pattern, "has one payload, its lines of characters"),
        (paced, "has no rates: its server sends at the speed of the path"),
        (phase.total_bytes.is_some(), SHARES_NO_BYTES),
    ])
}

fn connectors(phase: &Phase, calls: &Calls) -> Vec<Box<dyn Connector>> {
    let wanted = phase.clone();
    Caller::one_per_worker(phase, calls, false, move |_, slot| Reader::new(&wanted, slot))
}

fn acceptors(phase: &Phase, answers: &Answers) -> Vec<Box<dyn Acceptor>> {
    let stall_ns = phase.stall_ns;
    Answerer::with_datagrams(answers, move |_| Generator::new(stall_ns), answer)
}

fn answer(
    cx: &mut Context<'_>,
    got: &Received<'_>,
    reply: &mut Transmit<'_>,
    Bound { streams, account, .. }: &mut Bound,
) -> Option<Box<dyn Flow>> {
    let peer = got.from?.peer;
    if streams.admits(peer.ip()) && !is_service(peer) {
        let n = got.bytes.len().min(LONGEST_ANSWER);
        STREAM.offer(cx.rng.between(0, u64::clamped(PRINTABLE)) * u64::clamped(LINE), n, reply);
        account.record_answer(cx, got.len, reply.len());
    }
    None
}

/// The sending end of a connection. Received bytes are thrown away, and the client's end of the
/// connection, orderly or not, ends everything.
#[derive(Debug)]
pub struct Generator {
    core: Core,
    sent: u64,
}

impl Generator {
    /// The generator of a new connection; `stall_ns` is the longest time without progress.
    pub fn new(stall_ns: u64) -> Self {
        Generator { core: Core::new(GROUP, 0, stall_ns), sent: 0 }
    }
}

impl Flow for Generator {
    fn interest(&self) -> Interest {
        let wake = Some(self.core.stalls_at());
        let moving = Interest { send: When::Now, read: Read::skip(1 << 16), wake, end: None };
        self.core.last_interest().unwrap_or(moving)
    }

    fn prepare_send(&mut self, _: &mut Context<'_>, out: &mut Transmit<'_>) {
        STREAM.offer(self.sent, out.room(), out);
    }

    fn on_sent(&mut self, cx: &mut Context<'_>, n: Sent) {
        if self.core.wrote(cx.now, n) {
            self.sent += u64::clamped(n.bytes);
            self.core.sent(cx, n.bytes);
        }
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match event {
            FlowEvent::Up(path) => self.core.up(cx, path),
            FlowEvent::Fin | FlowEvent::Broken(_) => self.core.end(Ending::Completed),
            FlowEvent::Stop => self.core.end(Ending::Stopped),
            FlowEvent::Wake => self.core.check_stall(cx.now)?,
            _ => {}
        }
        Ok(())
    }

    fn id(&self) -> FlowId {
        self.core.id()
    }
}

/// The receiving end of a connection.
#[derive(Debug)]
pub struct Reader {
    core: Core,
    got: u64,
    transfer: u64,
    buffer: u64,
    verify: Verify,
    /// The run is over: a last sign of the server is waited for.
    stopping: bool,
}

impl Reader {
    pub fn new(phase: &Phase, slot: u32) -> Self {
        let Phase { transfer, verify, stall_ns, .. } = *phase;
        let core = Core::new(GROUP, slot, stall_ns);
        Reader { core, got: 0, transfer, buffer: phase.buffer.high, verify, stopping: false }
    }

    /// The server would send for ever: only a reset ends it at once.
    fn end(&mut self, cx: &mut Context<'_>, how: Ending) {
        if !self.stopping {
            self.core.complete(cx, self.core.moved);
        }
        self.core.over = Some((how, true));
    }

    /// Ending of a reader by the end of the run.
    fn stopped(&self) -> Ending {
        if self.transfer < UNLIMITED { Ending::Stopped } else { Ending::Completed }
    }
}

impl Flow for Reader {
    fn interest(&self) -> Interest {
        let most = self.buffer.min(self.transfer - self.got);
        let read = if self.verify == Verify::None { Read::skip(most) } else { Read::look(most) };
        let reads = Interest { read, wake: Some(self.core.stalls_at()), ..Interest::NONE };
        self.core.last_interest().unwrap_or(reads)
    }

    fn on_received(&mut self, cx: &mut Context<'_>, got: &Received<'_>, _: &mut Transmit<'_>) -> Checked {
        if self.stopping {
            self.end(cx, self.stopped());
            return Ok(());
        }
        if self.verify == Verify::Data {
            STREAM.check(self.got, got.bytes)?;
        }
        self.core.read(cx.now);
        self.got += u64::clamped(got.len);
        self.core.received(cx, got.len);
        if self.got >= self.transfer {
            self.end(cx, Ending::Completed);
        }
        Ok(())
    }

    fn on_event(&mut self, cx: &mut Context<'_>, event: FlowEvent) -> Checked {
        match event {
            FlowEvent::Up(path) => self.core.up(cx, path),
            FlowEvent::Fin | FlowEvent::Broken(_) if self.stopping => self.end(cx, self.stopped()),
            FlowEvent::Fin if self.transfer < UNLIMITED => {
                return Err(Violation::TooFew { got: self.got, want: self.transfer });
            }
            FlowEvent::Fin => {
                return Err(Violation::Malformed("the service hung up, which is the client's part"));
            }
            FlowEvent::Stop if self.got == 0 => self.end(cx, self.stopped()),
            // The server sends for as long as it is there.
            FlowEvent::Stop => {
                self.core.complete(cx, self.core.moved);
                self.core.part(cx.now);
                self.stopping = true;
            }
            FlowEvent::Wake if self.stopping => self.core.silent(cx.now).map_or(Ok(()), Err)?,
            FlowEvent::Wake => self.core.check_stall(cx.now)?,
            _ => {}
        }
        Ok(())
    }

    fn id(&self) -> FlowId {
        self.core.id()
    }
}
