//! What a [`Pinger`](super::Pinger) says and hears, where that is more than bytes that come back.

use metrics::{Clock, Mono};
use std::fmt;
use transport::{Context, Received, Transmit};

/// A datagram that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
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

/// What an answer tells of its round trip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// What the remote end spent, ns.
    pub remote_ns: Option<u64>,
    /// The rest, by the best stamps there are, ns.
    pub path_ns: Option<u64>,
}

/// What is said and heard over datagrams, a message in each.
pub trait Talk: Send + fmt::Debug {
    /// What is remembered of a message that is sent at `now`, and comes back in its answer.
    fn word(&self, clock: &Clock, now: Mono) -> u64;
    /// Offers message `number` of `size` bytes, sent at `cx.now`.
    fn offer(&mut self, cx: &Context<'_>, number: u64, size: usize, out: &mut Transmit<'_>);
    /// The message that was offered last has left, or was refused for good.
    fn left(&mut self, number: u64, accepted: bool);
    /// What a datagram says; the next message to be sent is number `next`.
    fn hear(&mut self, bytes: &[u8], next: u64) -> Said;
    /// The datagram heard last answers a message sent at `sent`, for the first time if `fresh`.
    fn answered(&mut self, cx: &mut Context<'_>, got: &Received<'_>, sent: Mono, fresh: bool) -> Times;
    /// Nothing more will come.
    fn over(&mut self, cx: &mut Context<'_>);
}
