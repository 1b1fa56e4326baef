//! Control messages: JSON, length-prefixed, bounded.
//!
//! ```text
//! +---------------+------------------------------+
//! | length (4)    | JSON, UTF-8, `length` bytes  |
//! +---------------+------------------------------+
//! ```
//!
//! The length is big-endian. Unknown fields and unknown message types are ignored, so that versions
//! can differ; what must not differ is the wire version in the preamble. A message is at most 1 MiB
//! and nests at most 32 deep.

use crate::secure::Records;
use crate::spread::ProcessPort;
use metrics::{Clamped, FlowSums};
use model::document::{Document, field};
use model::{Accepted, HostSnapshot, PacketReport, Phase, Totals, Traffic};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;

/// Longest message.
pub const MAX_MESSAGE: usize = 1 << 20;
/// The capability of a client that sends its messages as slowly as the server says.
pub(super) const SLOWER_MESSAGES: &str = "slower-messages";
/// The capability of ends that go on with a session on another control connection.
pub(super) const RESUMES: &str = "resume";
/// The capability of a client that opens connections at other ports than the server's own.
pub(super) const PROCESS_PORTS: &str = "doors";
/// Deepest nesting.
const MAX_DEPTH: usize = 32;
/// Most messages are shorter.
const SHORT: usize = 128;

/// A message of the control connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", rename_all = "snake_case")]
pub enum Message {
    /// Both ends' first word.
    Hello {
        version: String,
        /// What the sender can do, for later versions to agree on.
        #[serde(default)]
        capabilities: Vec<String>,
        /// 16 random bytes in hexadecimal.
        nonce: String,
        /// From a server: an answer to the client's nonce that only the same host can give, in
        /// hexadecimal.
        #[serde(default)]
        host: String,
    },
    /// A step of the handshake with a key ([`crate::secure`]): what comes behind the last one is
    /// encrypted.
    Noise {
        /// From a client, with its first: the protocol's whole name, `Noise_…`.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        protocol: String,
        /// Likewise: the name of its key, where that has one.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        key: String,
        /// The framework's message, in hexadecimal.
        data: String,
    },
    /// Keeps an idle control connection alive.
    Ping {
        /// Returned in `Pong`.
        n: u32,
    },
    /// Answer to `Ping`.
    Pong {
        n: u32,
    },
    /// The client's request.
    Propose {
        /// The run; several sessions may belong to one.
        run: Uuid,
        #[serde(with = "field")]
        phase: Box<Phase>,
    },
    /// The proposal waits for others to finish.
    Queued {
        /// Sessions before this one in the queue.
        ahead: u32,
        reason: String,
    },
    Accepted {
        /// The session, and the reductions.
        accepted: Accepted,
        /// Secret of the key that seals openings ([`crate::opening`]): 16 bytes in hexadecimal.
        secret: String,
        #[serde(with = "field")]
        phase: Box<Phase>,
        /// The server's host.
        #[serde(with = "field")]
        host: Box<HostSnapshot>,
        workers: u32,
        placement: String,
        /// Ports that have the session's connections, where these are not at the one that is spoken
        /// to.
        #[serde(default, rename = "doors", skip_serializing_if = "Vec::is_empty")]
        process_ports: Vec<ProcessPort>,
    },
    /// The server refuses the proposal; the sentence is shown to the user.
    Refused {
        reason: String,
    },
    Start,
    /// The server has started, too; its first interval is running.
    Started,
    /// The server's counts of an interval.
    Interval {
        /// Number, from 0.
        index: u32,
        /// Bytes and time.
        traffic: Traffic,
        open: u64,
        /// Other runs' sessions on the server.
        others: u32,
        /// Arrival of the latest datagram, from the interval's start, ns; absent if none arrived.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        came_ns: Option<u64>,
        /// Figures of datagrams, when these are counted; without members that a default report has.
        #[serde(default, skip_serializing_if = "Option::is_none", with = "brief")]
        packets: Option<Box<PacketReport>>,
    },
    /// The client has the reports on all intervals before this one; the server keeps further ones
    /// back while many are under way.
    Received {
        intervals: u32,
    },
    /// A part of the server's record of packet trains, before its result. Times are ns of its
    /// host's monotonic clock.
    Trains {
        /// Start of the schedule, from a sender.
        #[serde(default)]
        start_ns: Option<i64>,
        /// Time that is added to those below.
        #[serde(default)]
        zero_ns: i64,
        /// Offset that is added to those below: the receiver's clock minus the sender's.
        #[serde(default)]
        offset_ns: i64,
        /// Error bound of that offset, ns.
        #[serde(default)]
        bound_ns: u64,
        /// Arrivals without room in the record.
        #[serde(default)]
        left_out: u64,
        /// Packets sent, in order: place in the schedule, time.
        #[serde(default)]
        sent: Vec<(u32, i64)>,
        /// Received packets, in order: sequence number, time, offset, source of the stamp (0 the
        /// program, 1 the kernel, 2 the card).
        #[serde(default)]
        got: Vec<(u64, i64, i64, u8)>,
    },
    /// The server's figures of one flow of datagrams, before its result.
    Flow(FlowReport),
    /// A part of the server's record of a flow's datagrams, after the figures.
    Samples {
        slot: u32,
        /// Sent datagrams, in order: intended time, delay of the departure, ns, source of its
        /// stamp, as below.
        #[serde(default)]
        sent: Vec<(i64, i64, u8)>,
        /// Received datagrams, in order: number, time, the server's clock minus the client's,
        /// source of the stamp (0 the program, 1 the kernel, 2 the network card), true if damaged.
        #[serde(default)]
        got: Vec<(u64, i64, i64, u8, bool)>,
    },
    /// The client's connections are being aborted: bytes under way arrive within this time.
    Abort {
        within_ns: u64,
    },
    /// The client has ended its connections.
    Stop,
    /// The first message of a client that goes on with a session on another control connection: on
    /// the one before, the end of the run has remained unanswered.
    Resume {
        session: u64,
        /// Of this attempt: numbers of a session rise.
        number: u32,
        /// Seal of both ([`crate::opening`]), in hexadecimal.
        seal: String,
    },
    /// The server goes on with it here: reports that were not acknowledged and the session's
    /// records follow, all of them.
    Resumed,
    /// The server's counts over the phase.
    Result {
        #[serde(with = "field")]
        totals: Box<Totals>,
    },
    /// The server is asked to end, or a limit ends the session; the client should end its run in
    /// good order.
    Stopping {
        reason: String,
        /// A limit ends the session.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        limited: bool,
    },
    /// End the server once its sessions are over.
    Shutdown {
        /// Only if it answers this besides: a protocol and a port, `echo:9999`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        only: Option<String>,
    },
    Bye,
    /// A message of a later version.
    #[serde(other)]
    Unknown,
}

model::tagged_document!(Message, "type");

impl Message {
    /// The server is asked to end.
    pub(crate) fn stopping(reason: impl Into<String>) -> Self {
        Message::Stopping { reason: reason.into(), limited: false }
    }
}

/// A report without the members that a default report has: a third of the length. Its reader fills
/// missing members with these defaults.
mod brief {
    use model::PacketReport;
    use model::document::Document;
    pub(super) use model::document::field::deserialize;
    use serde::{Serialize, Serializer, ser};
    use serde_json::Value;

    pub(super) fn serialize<S: Serializer>(
        report: &Option<Box<PacketReport>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let mut value = report.value().map_err(ser::Error::custom)?;
        leave_out(&mut value, &PacketReport::default().value().map_err(ser::Error::custom)?);
        value.serialize(to)
    }

    fn leave_out(value: &mut Value, default: &Value) {
        if let (Value::Object(members), Value::Object(defaults)) = (value, default) {
            members.retain(|name, member| defaults.get(name) != Some(member));
            for (name, member) in members {
                defaults.get(name).into_iter().for_each(|default| leave_out(member, default));
            }
        }
    }
}

/// An end's figures of one flow of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowReport {
    pub slot: u32,
    /// When the schedule began, ns of this end's host clock; the times of samples are relative to
    /// that.
    #[serde(default)]
    pub start_ns: i64,
    /// This end's estimate of the other clock minus its own at the end, ns; offsets of samples are
    /// relative to it.
    #[serde(default)]
    pub offset_ns: i64,
    /// Datagrams sent.
    #[serde(default)]
    pub out: u64,
    #[serde(default)]
    pub sums: FlowSums,
    /// Number of the other end's datagrams that `sums` account for: all that it sent, if this end
    /// learnt their number, else those up to the highest received one. `None` if this end receives
    /// none, or does not report it.
    #[serde(default)]
    pub known: Option<u64>,
    /// Datagrams sent, and received, that there was no room to remember.
    #[serde(default)]
    pub sent_left_out: u64,
    #[serde(default)]
    pub got_left_out: u64,
}

/// Why a message could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// Longer than the reader allows.
    #[error("a control message of {0} bytes is too long")]
    TooLong(usize),
    /// Nested too deeply.
    #[error("a control message is nested too deeply")]
    TooDeep,
    /// Not JSON, or not one of ours.
    #[error("a control message cannot be understood: {0}")]
    Malformed(String),
    /// Other bytes than the other end has encrypted.
    #[error("the control connection was tampered with, or the other end does not know the key")]
    Forged,
}

/// A message with its length before it.
pub fn encode(message: &Message) -> Vec<u8> {
    // With its whole capacity at once: glibc 2.36 extends a growing vector at the end of the heap,
    // and does not use that memory again once it is freed. At one short message a second this was 4
    // KiB a minute.
    let mut out = Vec::with_capacity(SHORT);
    out.extend([0; 4]);
    // Serialising our own types into memory cannot fail; if it ever did, the peer gets an empty,
    // ignored frame.
    if message.write(&mut out).is_err() {
        out.truncate(4);
    }
    let length = u32::clamped(out.len() - 4);
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

/// A byte stream of messages, in clear at first.
pub struct Frames {
    buffer: Vec<u8>,
    /// Bytes at its beginning that are used up.
    used: usize,
    longest: usize,
    records: Option<Records>,
}

impl Frames {
    /// A reader of messages of at most `longest` bytes.
    pub fn new(longest: usize) -> Self {
        Frames { buffer: Vec::new(), used: 0, longest: longest.min(MAX_MESSAGE), records: None }
    }

    /// Everything that has not been read yet, and all that is said from now on, is in these
    /// records.
    pub fn secure(&mut self, records: Records) -> Result<(), MessageError> {
        let come = self.buffer.split_off(std::mem::take(&mut self.used));
        self.buffer.clear();
        self.records = Some(records);
        self.push(&come)
    }

    /// True if messages are encrypted.
    pub fn is_secure(&self) -> bool {
        self.records.is_some()
    }

    /// The bytes of a message to send.
    pub fn encode(&mut self, message: &Message) -> Vec<u8> {
        let plain = encode(message);
        match &mut self.records {
            // After 2^64 records nothing more can be said: the other end will notice.
            Some(records) => records.seal(&plain).unwrap_or_default(),
            None => plain,
        }
    }

    /// Adds received bytes.
    ///
    /// # Errors
    /// When the peer has not sent them; the connection is then of no more use.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), MessageError> {
        self.buffer.drain(..std::mem::take(&mut self.used));
        match &mut self.records {
            Some(records) => self.buffer.extend(records.open(bytes).ok_or(MessageError::Forged)?),
            None => self.buffer.extend_from_slice(bytes),
        }
        Ok(())
    }

    /// The next whole message.
    ///
    /// # Errors
    /// When the peer sends something else; the connection is then of no more use.
    pub fn pop(&mut self) -> Result<Option<Message>, MessageError> {
        let Some((head, rest)) = self.rest().split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*head) as usize;
        if length > self.longest {
            return Err(MessageError::TooLong(length));
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let message = decode(body);
        self.used += 4 + length;
        message.map(Some)
    }

    /// The bytes not yet used, to recognise another protocol.
    pub fn rest(&self) -> &[u8] {
        &self.buffer[self.used..]
    }
}

fn decode(body: &[u8]) -> Result<Message, MessageError> {
    if depth(body) > MAX_DEPTH {
        return Err(MessageError::TooDeep);
    }
    let text = std::str::from_utf8(body).map_err(|error| MessageError::Malformed(error.to_string()))?;
    let read = Message::read(model::clean_json(text).as_bytes());
    read.map_err(|error| MessageError::Malformed(error.to_string()))
}

/// Deepest nesting of brackets outside strings.
fn depth(body: &[u8]) -> usize {
    let (mut depth, mut deepest, mut text, mut escaped) = (0usize, 0, false, false);
    for &byte in body {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if text => escaped = true,
            b'"' => text = !text,
            b'{' | b'[' if !text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_any_split() {
        let messages = [
            Message::Start,
            Message::Ping { n: 7 },
            Message::Refused { reason: "no \u{201c}quotes\u{201d} {[".into() },
            Message::Propose { run: Uuid::from_u128(5), phase: Box::default() },
            Message::Result { totals: Box::default() },
        ];
        let bytes: Vec<u8> = messages.iter().flat_map(encode).collect();
        for size in [1, 3, 64, bytes.len()] {
            let mut frames = Frames::new(MAX_MESSAGE);
            let mut got = Vec::new();
            for chunk in bytes.chunks(size) {
                frames.push(chunk).unwrap();
                while let Some(message) = frames.pop().unwrap() {
                    got.push(message);
                }
            }
            assert_eq!(got, messages);
        }
    }

    fn framed(body: &[u8]) -> Vec<u8> {
        [&(body.len() as u32).to_be_bytes(), body].concat()
    }

    #[test]
    fn later_versions_are_tolerated() {
        let mut frames = Frames::new(1000);
        frames.push(&framed(br#"{"type":"ping","n":3,"colour":"blue"}"#)).unwrap();
        frames.push(&framed(br#"{"type":"teleport","to":{"x":1}}"#)).unwrap();
        assert_eq!(frames.pop(), Ok(Some(Message::Ping { n: 3 })));
        assert_eq!(frames.pop(), Ok(Some(Message::Unknown)));
        assert_eq!(frames.pop(), Ok(None));
    }

    #[test]
    fn a_message_is_one_object_with_its_documents_inside() {
        let text = |message: &Message| String::from_utf8(encode(message)[4..].to_vec()).unwrap();
        assert_eq!(text(&Message::Stop), r#"{"type":"stop"}"#);
        assert_eq!(text(&Message::Pong { n: 7 }), r#"{"type":"pong","n":7}"#);
        let result = text(&Message::Result { totals: Box::default() });
        assert!(result.starts_with(r#"{"type":"result","totals":{"who":"","#), "{result}");
        let interval = |packets: &str| {
            let rest = r#""index":1,"traffic":{},"open":2,"others":0"#;
            decode(format!(r#"{{{rest}{packets},"type":"interval"}}"#).as_bytes())
        };
        for none in ["", r#","packets":null"#, r#","packets": null "#] {
            let message = interval(none);
            assert!(matches!(message, Ok(Message::Interval { packets: None, open: 2, .. })), "{message:?}");
        }
        assert!(matches!(interval(r#","packets":{}"#), Ok(Message::Interval { packets: Some(_), .. })));
        assert!(matches!(interval(r#","packets":5"#), Err(MessageError::Malformed(_))));
    }

    #[test]
    fn a_report_is_short_and_reads_as_it_was() {
        let dist = metrics::DistSummary { count: 3, p50: 4, ..metrics::DistSummary::default() };
        let counts = metrics::Packets { sent: 5, ..metrics::Packets::default() };
        let mut report = PacketReport::from(counts);
        report.delay_ns = Some(dist);
        // A figure of 0 is known.
        let mut zeros = PacketReport { jitter_ns: Some(0.0), ..PacketReport::default() };
        zeros.max_extent = Some(0);
        for report in [report, zeros, PacketReport::default()] {
            let message = Message::Interval {
                index: 1,
                traffic: Traffic::default(),
                open: 1,
                others: 0,
                came_ns: None,
                packets: Some(Box::new(report)),
            };
            let bytes = encode(&message);
            assert!(bytes.len() < 300, "{}", String::from_utf8_lossy(&bytes));
            assert_eq!(decode(&bytes[4..]), Ok(message));
        }
    }

    #[test]
    fn the_texts_of_a_peer_command_no_terminal() {
        let evil = "a\u{1b}[2J\u{9b}31m\u{202e}\u{200f}b";
        let refused = encode(&Message::Refused { reason: evil.into() });
        let host = HostSnapshot {
            name: evil.into(),
            sysctl: [(evil.into(), evil.into())].into(),
            ..HostSnapshot::default()
        };
        let accepted = encode(&Message::Accepted {
            accepted: Accepted::default(),
            secret: String::new(),
            phase: Box::default(),
            host: Box::new(host),
            workers: 1,
            placement: evil.into(),
            process_ports: Vec::new(),
        });
        let mut frames = Frames::new(MAX_MESSAGE);
        let all = [refused, accepted, framed(br#"{"type":"refused","reason":"a\u009b\u202Eb"}"#)];
        frames.push(&all.concat()).unwrap();
        let clean = "a\u{fffd}[2J\u{fffd}31m\u{fffd}\u{fffd}b";
        assert_eq!(frames.pop(), Ok(Some(Message::Refused { reason: clean.into() })));
        let Ok(Some(Message::Accepted { host, placement, .. })) = frames.pop() else { panic!() };
        assert_eq!((host.name.as_str(), placement.as_str()), (clean, clean));
        assert_eq!(host.sysctl, [(clean.to_owned(), clean.to_owned())].into());
        assert_eq!(frames.pop(), Ok(Some(Message::Refused { reason: "a\u{fffd}\u{fffd}b".into() })));
    }

    #[test]
    fn abuse_is_bounded() {
        let mut frames = Frames::new(1000);
        frames.push(&1001u32.to_be_bytes()).unwrap();
        assert_eq!(frames.pop(), Err(MessageError::TooLong(1001)));
        let mut frames = Frames::new(MAX_MESSAGE);
        frames.push(&framed(&[b'['; 100_000])).unwrap();
        assert_eq!(frames.pop(), Err(MessageError::TooDeep));
        let mut frames = Frames::new(1000);
        frames.push(&framed(b"{\"type\":\"ping\"}")).unwrap();
        assert!(matches!(frames.pop(), Err(MessageError::Malformed(_))));
        assert_eq!(depth(br#"{"a":"}}}[[[\"[","b":[1]}"#), 2);
    }
}
