//! Messages of a flow besides data (*words*): making and handling them.

use super::{Offer, Probe, State};
use crate::udp::codec::{CONTROL, Kind, UNKNOWN, Word, kind};
use crate::udp::sender::Sender;
use transport::{Context, Received, Transmit};

impl Probe {
    fn word(&self, kind: Kind, cx: &Context<'_>) -> Word {
        let known = self.clocks.known;
        let start = self.terms.start.filter(|_| self.client && self.state == State::Run);
        let start = start.map_or(0, |start| cx.clock.host_signed(start).wrapping_add(known.offset_ns) as u64);
        let over = matches!(self.state, State::End(_)) || self.sender.as_ref().is_some_and(Sender::is_over);
        Word {
            t1: cx.clock.host(cx.now),
            slot: self.core.slot,
            cookie: self.cookie,
            offset: known.offset_ns,
            bound: known.bound_ns,
            start,
            total: if over { self.sent() } else { UNKNOWN },
            missing: self.missing(),
            ..Word::new(kind, self.core.id)
        }
    }

    /// An answer to `question`, with the stamps of its arrival and of the answer's departure.
    fn answer(&self, kind: Kind, question: &Word, got: &Received<'_>, cx: &Context<'_>) -> Word {
        let came = got.arrived();
        let word = self.word(kind, cx);
        let (offset, bound) = self.clocks.wall(cx).unwrap_or((word.offset, word.bound));
        Word { t1: question.t1, t2: cx.clock.host(came), t3: cx.clock.host(cx.now), offset, bound, ..word }
    }

    /// Notes the number of DATA that the other end has sent, if the word has it.
    fn learn_total(&mut self, word: &Word) {
        if word.total != UNKNOWN {
            self.theirs = Some(word.total);
        }
    }

    fn on_server_word(&mut self, cx: &mut Context<'_>, word: &Word, got: &Received<'_>) {
        self.repeat.reset();
        match (self.state, word.kind) {
            (State::Init, Kind::Cookie) => {
                self.cookie = word.cookie;
                self.state = State::Open;
                self.word_at = cx.now;
            }
            (State::Open, Kind::Opened) => {
                self.state = State::Compare(self.before());
                self.word_at = cx.now;
            }
            (State::Compare(left), Kind::Timed) => {
                self.compare(cx, word, got);
                self.state = State::Compare(left.saturating_sub(1));
                // As many as fit before the start: another one, and the word that says when data
                // begins, take a round trip each.
                let next = cx.now.plus(2 * self.repeat.round_trip);
                if left <= 1 || self.terms.start.is_none_or(|start| next > start) {
                    self.begin_run(cx);
                }
            }
            (State::Run, Kind::Timed) => {
                self.agreed = true;
                self.compare(cx, word, got);
                self.learn_total(word);
                self.check_end(cx.now);
            }
            (State::End(_), Kind::Ended) => {
                self.clocks.closing(cx, word, got, self.pulse());
                self.learn_total(word);
                self.missed = Some(word.missing);
            }
            _ => {}
        }
    }

    /// An answer about the time.
    fn compare(&mut self, cx: &mut Context<'_>, word: &Word, got: &Received<'_>) {
        self.clocks.exchanged(cx, word, got, self.pulse());
        let round_trip = cx.clock.host(cx.now).saturating_sub(word.t1);
        self.schedule_word(cx.now, round_trip);
    }

    /// A word from the client; what to answer.
    fn on_client_word(&mut self, cx: &mut Context<'_>, word: &Word) -> Option<Kind> {
        match word.kind {
            Kind::Open => Some(Kind::Opened),
            Kind::Time => {
                let before = self.clocks.ours();
                self.clocks.apply(word);
                if let (None, Some(clock), Some(receiver)) = (before, self.clocks.ours(), &mut self.receiver)
                {
                    receiver.compared(clock);
                }
                if word.start != 0 && matches!(self.state, State::Compare(_)) {
                    self.state = State::Run;
                    let from_now = (word.start as i64).wrapping_sub(cx.clock.host_signed(cx.now));
                    // Nobody agrees on a start further away than this.
                    let from_now = u64::try_from(from_now).unwrap_or(0).min(2 * self.terms.probe.lead_ns);
                    self.start_sending(cx, Some(cx.now.plus(from_now)));
                }
                Some(Kind::Timed)
            }
            Kind::End => {
                self.learn_total(word);
                self.stopped |= self.sender.as_ref().is_some_and(|sender| !sender.is_over());
                self.end(cx.now);
                Some(Kind::Ended)
            }
            _ => None,
        }
    }

    /// A control word arrived. A client acts on it; a server answers in `reply`, which is empty
    /// unless an earlier word of the same batch is answered.
    pub(super) fn on_word(&mut self, cx: &mut Context<'_>, got: &Received<'_>, reply: &mut Transmit<'_>) {
        let Some(word) = Word::decode(got.bytes).filter(|word| word.id == self.core.id) else { return };
        if self.client {
            self.note_own(cx, got.len);
            return self.on_server_word(cx, &word, got);
        }
        // Of several at once one is answered; the others will be asked again.
        if let Some(kind) = self.on_client_word(cx, &word).filter(|_| reply.is_empty()) {
            let bytes = self.answer(kind, &word, got, cx).encode();
            if reply.whole(&bytes) {
                self.offer = Offer::Reply;
            }
        }
    }

    /// Writes the word that is due: one that the flow owes, else that of its state.
    pub(super) fn fill_word(&mut self, cx: &Context<'_>, out: &mut Transmit<'_>) {
        let kind = self.owed.unwrap_or(match self.state {
            State::Init => Kind::Init,
            State::Open => Kind::Open,
            State::Compare(_) | State::Run => Kind::Time,
            State::End(_) | State::Over => Kind::End,
        });
        let word = self.word(kind, cx);
        let word = match &self.terms.opener {
            Some(opener) if matches!(kind, Kind::Init | Kind::Open) => opener.word(self.number, word),
            _ => word,
        };
        if out.whole(&word.encode()) {
            self.offer = Offer::Word;
        }
    }
}

/// True if a datagram is a word rather than data. `by_size`: no data has a word's size, so that a
/// word is recognised even with a damaged kind.
pub(super) fn is_word(datagram: &[u8], by_size: bool) -> bool {
    datagram.len() == CONTROL && (by_size || kind(datagram).is_some_and(|kind| kind != Kind::Data))
}

/// True if any datagram of a batch is a word.
pub(super) fn holds_words(got: &Received<'_>, by_size: bool) -> bool {
    if got.stride == CONTROL {
        return got.datagrams().any(|datagram| is_word(datagram, by_size));
    }
    // Only the last one of a run may have another size than the first.
    got.stride > 0
        && got.len % got.stride == CONTROL
        && got.datagrams().last().is_some_and(|datagram| is_word(datagram, by_size))
}
