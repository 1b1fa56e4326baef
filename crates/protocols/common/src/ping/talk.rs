//! Messages and answers of a [`Pinger`](super::Pinger) that are more than echoed bytes.

use metrics::{Clock, Mono};
use std::fmt;
use transport::{Context, Received, Transmit};

/// A received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodedEcho {
    /// The answer to message `number`, which had this word.
    Answer {
        /// The message's number.
        number: u64,
        /// Its word, as the remote end repeats it.
        word: u64,
    },
    /// Nothing that could be believed.
    Noise,
}

/// An answer's account of its round trip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Time at the remote end, ns.
    pub remote_ns: Option<u64>,
    /// The rest, by the best stamps there are, ns.
    pub path_ns: Option<u64>,
}

/// Messages and answers over datagrams, one in each.
pub trait Talk: Send + fmt::Debug {
    /// A value that is remembered of a message sent at `now`, and returned in its answer.
    fn word(&self, clock: &Clock, now: Mono) -> u64;
    /// Offers message `number` of `size` bytes, sent at `cx.now`.
    fn offer(&mut self, cx: &Context<'_>, number: u64, size: usize, out: &mut Transmit<'_>);
    /// The message that was offered last has left, or was refused for good.
    fn left(&mut self, number: u64, accepted: bool);
    /// Decodes a datagram; the next message to be sent is number `next`.
    fn decode(&mut self, bytes: &[u8], next: u64) -> DecodedEcho;
    /// The datagram decoded last answers a message sent at `sent`, for the first time if `fresh`.
    fn on_answer(&mut self, cx: &mut Context<'_>, got: &Received<'_>, sent: Mono, fresh: bool) -> Times;
    /// No further answer is waited for.
    fn finish(&mut self, cx: &mut Context<'_>);
}
