//! Messages of flows, connectors and acceptors to their session: events for the reporters, and
//! messages that only the session of their protocol understands.

use metrics::{Mono, Packets};
use model::{Event, Level};
use std::any::Any;
use transport::{Context, Message, Path};

/// A message that several protocols share.
pub enum SharedMessage {
    /// An event for the reporters. Its times are the process's, ns.
    Event(Event),
    /// The remote end's counts of a test that is over.
    Counted(Box<Counted>),
    /// The last of a limited number of connections has ended.
    LimitReached,
    /// A result of one protocol, which the session makes an event of: a worker writes no JSON.
    Result(Box<dyn FnOnce() -> Event + Send>),
    /// The first bytes of this connection have arrived, where a test begins with them.
    FirstByte(Path, Mono),
}

/// Bytes that the remote end reports as received in a test that is over.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counted {
    /// Its way of reading, in words.
    pub receive: &'static str,
    /// Payload bytes.
    pub bytes: u64,
    /// Time that they took to arrive, ns; 0 where that is not known.
    pub ns: u64,
    /// Datagrams, where it counts them: received, lost, reordered.
    pub packets: Option<Packets>,
}

/// Passes an event to the reporters.
pub fn post_event(cx: &mut Context<'_>, event: Event) {
    cx.post(SharedMessage::Event(event));
}

/// Passes on a result of one protocol, which its session writes as JSON.
pub fn post_result(cx: &mut Context<'_>, event: impl FnOnce() -> Event + Send + 'static) {
    cx.post(SharedMessage::Result(Box::new(event)));
}

/// Reports a notice to the user, in one sentence. The same words are reported once.
pub fn notice(cx: &mut Context<'_>, level: Level, text: impl Into<String>) {
    post_event(cx, Event::Notice { level, text: text.into() });
}

/// Warns the user.
pub fn warn(cx: &mut Context<'_>, text: impl Into<String>) {
    notice(cx, Level::Warning, text);
}

/// A message as a session reads it whose protocol has messages `M` of its own.
pub enum SessionMessage<M> {
    /// A message that protocols share.
    Shared(SharedMessage),
    /// Of its protocol's own.
    Own(M),
    /// Of no kind that it knows.
    Unknown,
}

/// Reads a message: the one place that looks at its type.
pub fn downcast<M: Any>(message: Message) -> SessionMessage<M> {
    match message.downcast() {
        Ok(own) => SessionMessage::Own(*own),
        Err(other) => other.downcast().map_or(SessionMessage::Unknown, |told| SessionMessage::Shared(*told)),
    }
}

/// An event with its times counted from `start`.
pub fn since(mut event: Event, start: Mono) -> Event {
    let count = |ns: &mut u64| *ns = Mono(*ns).since(start);
    match &mut event {
        Event::Established { at_ns, .. } => count(at_ns),
        Event::Portion(portion) => [&mut portion.from_ns, &mut portion.to_ns].into_iter().for_each(count),
        Event::Pings { rows } => {
            rows.iter_mut().flat_map(|row| [&mut row.intended_ns, &mut row.sent_ns]).for_each(count);
        }
        _ => {}
    }
    event
}
