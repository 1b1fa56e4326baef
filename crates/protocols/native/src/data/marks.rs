//! Which marks a data connection sends, and what those mean that it receives.

use super::{Data, Role};
use crate::mark::{Kind, MARK, Mark, refusal};
use metrics::Mono;
use transport::{Checked, Context, Violation};

impl Data {
    /// The mark to send next, if the current span is over.
    pub(super) fn next_mark(&self) -> Option<Kind> {
        let (tx, rx) = (&self.tx, &self.rx);
        if rx.bad.is_some() {
            return (!rx.verdict_sent).then_some(Kind::Verdict);
        }
        if !self.inside.owed.is_empty() {
            return Some(Kind::Answer);
        }
        if rx.ended && !rx.verdict_sent {
            return Some(Kind::Verdict);
        }
        if self.stopping && self.role == Role::Client && rx.want > 0 && !rx.ended && !self.stop_sent {
            return Some(Kind::Stop);
        }
        if tx.want > 0 && !tx.ended {
            let peer_cut_short = rx.ended && rx.got < rx.want && self.allowance() <= tx.sent;
            if tx.sent == tx.want || self.stopping || peer_cut_short {
                return Some(Kind::End);
            }
            return (self.allowance() > tx.sent).then_some(Kind::Span);
        }
        let speaks_last = self.role == Role::Server && tx.want > 0 && !self.done;
        (speaks_last && self.both_confirmed()).then_some(Kind::Done)
    }

    /// Decides on a mark: from here on it will be sent.
    pub(super) fn commit(&mut self, kind: Kind, now: Mono) -> Mark {
        match kind {
            Kind::Span => {
                let length = if self.params.burst.is_some() { self.tx.size } else { self.tx.span_length };
                let length = length.min(self.allowance() - self.tx.sent);
                self.tx.span = length;
                self.tx.span_since = now;
                Mark::new(kind, length)
            }
            Kind::End => {
                self.tx.ended = true;
                Mark { kind, flagged: self.tx.sent < self.tx.want, value: self.tx.sent }
            }
            Kind::Verdict => {
                self.rx.verdict_sent = true;
                Mark { kind, flagged: self.rx.bad.is_some(), value: self.rx.bad.unwrap_or(self.rx.got) }
            }
            Kind::Stop => {
                self.stop_sent = true;
                Mark::new(kind, 0)
            }
            Kind::Answer | Kind::Probe => Mark::new(Kind::Answer, self.inside.owed.pop_front().unwrap_or(0)),
            Kind::Done | Kind::Refused => {
                self.done = true;
                Mark::new(Kind::Done, 0)
            }
        }
    }

    /// Remembers the offset of the first damage, for the report to the peer.
    pub(super) fn damaged(&mut self, offset: u64, violation: Violation) -> Violation {
        self.rx.bad = Some(offset);
        violation
    }

    /// The violation of 16 bytes in a mark's place: a damaged mark, or payload beyond the end.
    fn no_mark(&self, bytes: &[u8; MARK]) -> Violation {
        let (got, want) = (self.rx.got, self.rx.want);
        let like =
            |mark: Mark| mark.encode(self.core.id).iter().zip(bytes).filter(|(a, b)| a != b).count() <= 2;
        let expected = [(Kind::End, want), (Kind::Verdict, self.tx.sent), (Kind::Done, 0), (Kind::Stop, 0)];
        let complete = self.rx.ended || (got == want && (want > 0 || self.tx.confirmed));
        if complete && !expected.iter().any(|&(kind, value)| like(Mark::new(kind, value))) {
            return Violation::TooMany { want };
        }
        Violation::BadFrame { offset: got }
    }

    pub(super) fn marked(&mut self, cx: &mut Context<'_>, bytes: &[u8; MARK]) -> Checked {
        let (got, want) = (self.rx.got, self.rx.want);
        let Some(mark) = Mark::decode(bytes, self.core.id) else {
            let what = self.no_mark(bytes);
            return Err(self.damaged(got, what));
        };
        match mark.kind {
            Kind::Span if mark.value == 0 => Err(Violation::Malformed("an empty span")),
            Kind::Span if self.rx.ended || mark.value > want - got => {
                Err(self.damaged(got, Violation::TooMany { want }))
            }
            Kind::Span => {
                self.rx.span = mark.value;
                Ok(())
            }
            Kind::End if self.rx.ended || want == 0 => Err(Violation::Malformed("an end without payload")),
            Kind::End if mark.value != got => {
                Err(self.damaged(got, Violation::Disagree { sent: mark.value, received: got }))
            }
            Kind::End if got < want && !mark.flagged => {
                Err(self.damaged(got, Violation::TooFew { got, want }))
            }
            Kind::End => {
                self.rx.ended = true;
                Ok(())
            }
            Kind::Verdict if mark.flagged => Err(Violation::Reported { offset: mark.value }),
            Kind::Verdict if !self.tx.ended => Err(Violation::Malformed("a verdict before the end")),
            Kind::Verdict if mark.value != self.tx.sent => {
                Err(Violation::Disagree { sent: self.tx.sent, received: mark.value })
            }
            Kind::Verdict => {
                self.tx.confirmed = true;
                Ok(())
            }
            Kind::Stop if self.role == Role::Server => {
                self.stopping = true;
                Ok(())
            }
            Kind::Done if self.role == Role::Client => {
                self.done = true;
                Ok(())
            }
            Kind::Refused => Err(refusal(mark.value)),
            Kind::Probe if self.role == Role::Server => self.inside.owe(mark.value),
            Kind::Answer if self.role == Role::Client => {
                let ns = self.inside.on_answer(mark.value, cx.now)?;
                let tally = cx.rec.packet_tally(self.params.group);
                (tally.counts.sent, tally.counts.received) =
                    (tally.counts.sent + 1, tally.counts.received + 1);
                tally.delay_ns.record(ns);
                Ok(())
            }
            Kind::Stop | Kind::Done | Kind::Probe | Kind::Answer => {
                Err(Violation::Malformed("a mark from the wrong end"))
            }
        }
    }
}
