//! A reflector's answer to one request, and its memory of a session.

use super::codec::{Mode, PROOF, PROOF_LEN, Reply, Request, is_sealed, seal};
use super::time::ErrorEstimate;
use super::tlv::{self, ReflectorFacts};
use common::Psk;
use metrics::{Clock, Mono};
use transport::Received;

/// Common settings of all sessions of a reflector.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// The key, in authenticated mode.
    pub key: Option<Psk>,
    /// Units that are known from one source only are answered, too (Direct Measurement).
    pub unconfirmed: bool,
}

impl Rules {
    pub fn mode(&self) -> Mode {
        if self.key.is_some() { Mode::Sealed } else { Mode::Open }
    }
}

/// A request as it was received.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    pub bytes: &'a [u8],
    pub at: Mono,
    /// Time to live or hop limit; 0 when unknown.
    pub ttl: u8,
    /// Traffic class octet.
    pub tos: u8,
}

impl<'a> Arrived<'a> {
    pub(super) fn of(got: &Received<'a>) -> Self {
        Arrived { bytes: got.bytes, at: got.arrived(), ttl: got.ttl, tos: got.tos }
    }
}

/// Memory of a session.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// The number of the next reply.
    next: u32,
    received: u32,
    /// The number and the time of the newest request.
    newest: Option<(u32, u64)>,
    /// The requests just below it, a bit for each that arrived.
    window: [u64; WINDOW],
    /// The last reply that has left, and when, by the kernel's stamp.
    left: Option<(u32, Mono)>,
    /// Arrival of the last request.
    pub(super) used: Mono,
}

/// Words of the replay window: 1024 numbers.
const WINDOW: usize = 16;

impl Session {
    /// Decides if a request of this number and time is to be answered, and records it. A sender
    /// that begins anew does so with a lower number at a later time, which in authenticated mode
    /// only the holder of the key can make up.
    fn admit(&mut self, number: u32, sent: u64, proven: bool) -> bool {
        let Some((newest, time)) = self.newest else {
            self.begin(number, sent);
            return true;
        };
        let ahead = number.wrapping_sub(newest) as i32;
        // Times wrap, too.
        let later = sent.wrapping_sub(time) as i64 > 0;
        if ahead > 0 {
            self.advance(ahead as usize);
            self.newest = Some((number, if later { sent } else { time }));
            return true;
        }
        let behind = ahead.unsigned_abs() as usize;
        if later && (number == 0 || proven) {
            self.begin(number, sent);
            return true;
        }
        if !proven {
            return true;
        }
        let (word, bit) = (behind / 64, 1u64 << (behind % 64));
        let seen = self.window.get(word).is_none_or(|word| word & bit != 0);
        if let Some(word) = self.window.get_mut(word) {
            *word |= bit;
        }
        !seen
    }

    fn begin(&mut self, number: u32, sent: u64) {
        *self = Session { newest: Some((number, sent)), used: self.used, ..Session::default() };
        self.window[0] = 1;
    }

    /// Moves the window up by `n` numbers; bit 0 is the newest.
    fn advance(&mut self, n: usize) {
        let (words, bits) = (n / 64, n % 64);
        for at in (0..WINDOW).rev() {
            let from = |back: usize| at.checked_sub(words + back).map_or(0, |at| self.window[at]);
            let low = if bits == 0 { 0 } else { from(1) >> (64 - bits) };
            self.window[at] = from(0) << bits | low;
        }
        self.window[0] |= 1;
    }

    /// The kernel has sent the reply of this number at this instant.
    pub fn left(&mut self, number: u32, at: Mono) {
        self.left = Some((number, at));
    }

    /// The reply of this number was not sent: the next one gets it.
    pub fn unsent(&mut self, number: u32) {
        self.next = number;
    }
}

/// A reply and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    pub number: u32,
    /// Its traffic class octet.
    pub tos: u8,
    /// When it leaves is to be known.
    pub follow_up: bool,
}

/// The request in `bytes`, if it is one that is to be answered: it is long enough and, where there
/// is a key, its sender knows it.
pub fn check(rules: &Rules, bytes: &[u8]) -> Option<Request> {
    let request = Request::decode(rules.mode(), bytes)?;
    rules.key.as_ref().is_none_or(|key| is_sealed(bytes, key)).then_some(request)
}

/// The proof (HMAC) of a packet, as [`Seen`](common::seen::Seen) takes it; empty in a shorter one.
pub(super) fn proof(packet: &[u8]) -> &[u8] {
    packet.get(PROOF..PROOF + PROOF_LEN).unwrap_or_default()
}

/// Takes note of a request that [`check`] has passed in its session; false when the packet was seen
/// before (in authenticated mode): it is not to be answered.
pub fn admit(rules: &Rules, session: &mut Session, request: &Request, at: Mono) -> bool {
    let admitted = session.admit(request.number, request.sent, rules.mode() == Mode::Sealed);
    if admitted {
        session.used = at;
        session.received = session.received.wrapping_add(1);
    }
    admitted
}

/// Writes the reply to a request that was admitted into all of `out`, which is sent at `now`.
/// Without a session its number is the request's.
pub fn reply(
    rules: &Rules,
    session: Option<&mut Session>,
    (request, got): (&Request, &Arrived<'_>),
    (now, clock): (Mono, &Clock),
    out: &mut [u8],
) -> Made {
    let mode = rules.mode();
    let error = ErrorEstimate::decode(request.error);
    // The sender's format, so that it has to know but one; each side may choose its own.
    let ours = ErrorEstimate { ns: Some(clock.error_ns), synced: clock.synced, format: error.format };
    let stamp = |at: Mono| -> u64 { ours.format.encode(clock.wall(at)) };
    let mut knows = ReflectorFacts { tos: got.tos, synced: clock.synced, ..ReflectorFacts::default() };
    let mut number = request.number;
    if let Some(session) = session {
        number = session.next;
        session.next = session.next.wrapping_add(1);
        // A stamp of any but the reply before this one would be taken for that of another.
        let last = session.left.filter(|(left, _)| left.wrapping_add(1) == number);
        knows.last = last.map_or((0, 0), |(number, at)| (number, stamp(at)));
        knows.counts = rules.unconfirmed.then_some((session.received, session.next));
    }
    let said = Reply {
        head: Request { number, sent: stamp(now), error: ours.encode(), ssid: request.ssid },
        received: stamp(got.at),
        request: *request,
        ttl: Some(got.ttl),
    };
    let copied = out.len().min(got.bytes.len());
    out[..copied].copy_from_slice(&got.bytes[..copied]);
    out[copied..].fill(0);
    said.encode(mode, out);
    let numbers = (&request.number.to_be_bytes(), &number.to_be_bytes());
    let units = out.get_mut(mode.base()..).unwrap_or_default();
    let asked = tlv::answer(mode, rules.key.as_ref(), numbers, units, &knows);
    seal(out, rules.key.as_ref());
    let tos = asked.dscp.map_or(got.tos & !3, |dscp| dscp << 2);
    Made { number, tos, follow_up: asked.follow_up }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(session: &mut Session, numbers: &[u32]) -> Vec<bool> {
        numbers.iter().map(|&n| session.admit(n, 1000 + u64::from(n), true)).collect()
    }

    #[test]
    fn what_came_before_is_told_from_what_was_overtaken() {
        let mut session = Session::default();
        let all = [true, true, true, true, false, false, true, false];
        assert_eq!(admitted(&mut session, &[0, 5, 3, 100, 3, 100, 99, 99]), all);
        // A thousand numbers back are known; what is older is taken for a repeat.
        assert_eq!(admitted(&mut session, &[1123, 101, 100, 99]), [true, true, false, false]);
        assert_eq!(admitted(&mut session, &[5000, 5000 - 1023, 5000 - 1024]), [true, true, false]);
    }

    #[test]
    fn the_window_agrees_with_a_list_of_all_that_came() {
        let mut rng = transport::Rng::new(7);
        let (mut session, mut seen, mut newest) =
            (Session::default(), std::collections::HashSet::new(), 0i64);
        for _ in 0..20_000 {
            let number = (newest + rng.between(0, 1400) as i64 - 1300).max(0);
            let want =
                number > newest || seen.is_empty() || (newest - number < 1024 && !seen.contains(&number));
            // The same time in all requests: no new session.
            assert_eq!(session.admit(number as u32, 9, true), want, "{number} after {newest}");
            if want {
                seen.insert(number);
                newest = newest.max(number);
            }
        }
    }

    #[test]
    fn numbers_wrap() {
        let mut session = Session::default();
        assert!(session.admit(u32::MAX - 1, 5, true));
        assert!(session.admit(1, 6, true) && session.admit(u32::MAX, 6, true) && session.admit(0, 6, true));
        assert!(!session.admit(u32::MAX, 6, true) && !session.admit(1, 6, true));
    }

    #[test]
    fn a_sender_that_begins_anew_is_let_in_and_a_repeat_is_not() {
        for proven in [false, true] {
            let mut session = Session::default();
            assert!(session.admit(0, 100, proven) && session.admit(1, 110, proven));
            session.next = 2;
            assert_eq!(session.admit(0, 100, proven), !proven, "the same packet again");
            assert_eq!(session.next, 2);
            assert!(session.admit(0, 200, proven));
            assert_eq!(session.next, 0, "replies are numbered anew");
        }
    }
}
