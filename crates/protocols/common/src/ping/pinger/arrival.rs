//! Outcomes of messages: their echoes, whole, late or damaged, and their absence.

use super::Pinger;
use crate::ping::codec::{self, HEAD, Head};
use crate::ping::params::Remote;
use crate::ping::talk::{DecodedEcho, Times};
use crate::ping::window::{MessageSlot, MessageState};
use metrics::{Clamped, Mono, Packets};
use model::Echo;
use transport::{Checked, Context, Received, Violation};

impl Pinger {
    /// The kernel says when a message left; `tag` is the low end of its number.
    pub(super) fn left_at(&mut self, tag: u32, at: Mono) {
        let newest = self.window.next();
        let back = (newest as u32).wrapping_sub(tag);
        if let Some(slot) = newest.checked_sub(u64::from(back)).and_then(|number| self.window.slot(number)) {
            slot.left_at = Some(at);
        }
    }

    /// The time of a message is up.
    fn missing(&mut self, cx: &mut Context<'_>, number: u64, slot: &MessageSlot) {
        self.window.enter(number, MessageState::Missing);
        if slot.counted {
            self.core.packet(cx, |packets| packets.lost += 1);
        }
        self.record_message(cx, number, slot, Echo::Missing, None);
    }

    /// The echo of a message is whole.
    fn back(&mut self, cx: &mut Context<'_>, number: u64, times: Times) {
        let remote_ns = times.remote_ns;
        let Some(slot) = self.window.slot(number).copied() else { return };
        self.answered = true;
        self.refused = 0;
        let rtt = cx.now.since(slot.sent);
        if self.params.datagrams() && slot.state == MessageState::Waiting && rtt > self.params.ping.timeout_ns
        {
            self.missing(cx, number, &slot);
        }
        let late = self.window.slot(number).is_some_and(|slot| slot.state == MessageState::Missing);
        self.window.enter(number, MessageState::Settled);
        if slot.counted {
            self.core.packet(cx, |packets| {
                packets.received += 1;
                packets.late += u64::from(late);
                packets.lost -= i64::from(late);
            });
            // Late or not: without the slow ones percentiles would say how long the fast ones took.
            let tally = cx.rec.packet_tally(self.params.group);
            tally.delay_ns.record(rtt);
            if !self.closed_loop() {
                tally.intended_ns.record(cx.now.since(slot.intended));
            }
            if let Some((left, came)) = slot.left_at.zip(self.came) {
                tally.kernel_ns.record(came.since(left));
            }
            if let Some(remote) = remote_ns {
                tally.remote_ns.record(remote);
                tally.path_ns.record(times.path_ns.unwrap_or(rtt.saturating_sub(remote)));
            }
        }
        self.record_message(cx, number, &slot, if late { Echo::Late } else { Echo::InTime }, remote_ns);
    }

    /// Other bytes arrived in the place of an echo.
    fn bad(&mut self, cx: &mut Context<'_>, number: u64, what: Violation) {
        let Some(slot) = self.window.slot(number).copied() else { return };
        if slot.state == MessageState::Settled {
            return;
        }
        let lost = -i64::from(slot.state == MessageState::Missing);
        self.window.enter(number, MessageState::Settled);
        if slot.counted {
            self.core.packet(cx, |packets| {
                packets.corrupt += 1;
                packets.lost += lost;
            });
        }
        self.first_bad.get_or_insert(what);
        self.record_message(cx, number, &slot, Echo::Damaged, None);
    }

    /// Messages whose time is up.
    pub(super) fn overdue(&mut self, cx: &mut Context<'_>) {
        while self.params.datagrams()
            && let Some((number, slot)) = self.window.oldest()
            && cx.now.since(slot.sent) >= self.params.ping.timeout_ns
        {
            self.missing(cx, number, &slot);
        }
    }

    /// A stream's bytes belong to the oldest message that is waited for.
    pub(super) fn take_stream(&mut self, cx: &mut Context<'_>, mut bytes: &[u8]) -> Checked {
        let size = self.size();
        let head = codec::head_of(size) as u64;
        while !bytes.is_empty() {
            let number = self.echo.number;
            let Some(slot) = self.window.slot(number).filter(|s| s.state == MessageState::Waiting).copied()
            else {
                return self.fail(Violation::TooMany { want: self.sent_bytes });
            };
            let n = u64::clamped(bytes.len()).min(size - self.echo.got) as usize;
            let part = &bytes[..n];
            if self.echo.got < head {
                let n = part.len().min(usize::clamped(head - self.echo.got));
                self.echo.head[usize::clamped(self.echo.got)..usize::clamped(self.echo.got) + n]
                    .copy_from_slice(&part[..n]);
            }
            let bad = codec::check(size, self.echo.got, part).err();
            self.echo.got += u64::clamped(n);
            bytes = &bytes[n..];
            let bad =
                bad.or_else(|| if self.echo.got >= head { self.check_head(number, slot.word) } else { None });
            if let Some(bad) = bad
                && !std::mem::replace(&mut self.echo.damaged, true)
            {
                self.first_bad.get_or_insert(bad);
            }
            if self.echo.got == size {
                let damaged = std::mem::take(&mut self.echo.damaged);
                (self.echo.got, self.echo.number) = (0, number + 1);
                if damaged {
                    let what = self.first_bad.clone().unwrap_or(Violation::BadFrame { offset: 0 });
                    self.bad(cx, number, what);
                } else {
                    let remote_ns = self.remote(&self.echo.head.clone());
                    self.back(cx, number, Times { remote_ns, path_ns: None });
                }
            }
        }
        Ok(())
    }

    /// The violation of the received head, if there is any.
    fn check_head(&self, number: u64, word: u64) -> Option<Violation> {
        let (mut want, n) = codec::encode(Head { number, word }, self.size());
        if self.params.remote == Remote::Spent && n == HEAD {
            want[8..].copy_from_slice(&self.echo.head[8..]);
        }
        (want[..n] != self.echo.head[..n]).then(|| codec::bad_head(&want[..n], &self.echo.head[..n]))
    }

    /// Time that the remote end reports, if it reports any.
    fn remote(&self, head: &[u8; HEAD]) -> Option<u64> {
        let says = self.params.remote == Remote::Spent && codec::head_of(self.size()) == HEAD;
        says.then(|| codec::decode(head, self.size(), 0).word)
    }

    /// A datagram is one unit of some message.
    pub(super) fn take_datagram(&mut self, cx: &mut Context<'_>, bytes: &[u8]) {
        let units = self.params.units();
        let newest = (self.window.next() * units).saturating_sub(1);
        // A short one is recognised by its number, if that has arrived.
        let longest = self.params.unit(0);
        let Head { number, word } = codec::decode(bytes, longest.min(self.size()), newest);
        let (message, piece) = (number / units, number % units);
        let size = self.params.unit(piece);
        let bit = 1u64 << piece.min(63);
        let Some(slot) = self.window.slot(message).filter(|slot| slot.left & bit != 0) else {
            return self.core.packet(cx, |packets| packets.duplicated += 1);
        };
        // Whole or damaged, the echo has arrived: another copy is a repeat.
        slot.left &= !bit;
        let slot = *slot;
        if u64::clamped(bytes.len()) != size {
            let (got, want) = (u64::clamped(bytes.len()), size);
            let what = if got < want { Violation::TooFew { got, want } } else { Violation::TooMany { want } };
            return self.bad(cx, message, what);
        }
        let (want, n) = codec::encode(Head { number, word: slot.word }, size);
        let spent = self.params.remote == Remote::Spent && n == HEAD;
        let compared = if spent { 8 } else { n };
        let bad = match want[..compared] == bytes[..compared] {
            true => codec::check(size, 0, bytes).err(),
            false => Some(codec::bad_head(&want[..compared], &bytes[..compared])),
        };
        if let Some(bad) = bad {
            return self.bad(cx, message, bad);
        }
        // One of which a part was damaged has been counted as such.
        if slot.left == 0 && slot.state != MessageState::Settled {
            self.back(cx, message, Times { remote_ns: spent.then_some(word), path_ns: None });
        }
    }

    /// A datagram is an answer, or noise.
    pub(super) fn take_answer(&mut self, cx: &mut Context<'_>, got: &Received<'_>, bytes: &[u8]) {
        let next = self.window.next();
        let Some(talk) = &mut self.talk else { return };
        let DecodedEcho::Answer { number, word } = talk.decode(bytes, next) else { return };
        let repeated = |packets: &mut Packets| packets.duplicated += 1;
        let Some(slot) = self.window.slot(number) else { return self.core.packet(cx, repeated) };
        // Whole or damaged, the echo has arrived: another copy is a repeat.
        let fresh = std::mem::take(&mut slot.left) != 0;
        let slot = *slot;
        if slot.word != word {
            let (want, got) = (slot.word.to_be_bytes(), word.to_be_bytes());
            return self.bad(cx, number, codec::bad_head(&want, &got));
        }
        let times = talk.on_answer(cx, got, slot.sent, fresh);
        if !fresh {
            return self.core.packet(cx, repeated);
        }
        self.back(cx, number, times);
    }
}
