//! Data connections whose peer says what it should not: each lie is named, by either end.

use crate::support::{ID, opener, phase};
use metrics::{Ending, Group};
use model::{Pattern, Phase};
use native::{Data, Mark, MarkKind, Params, Preamble, Purpose};
use sim::{Pair, Quirks};
use std::sync::Arc;
use transport::{
    Cause, Checked, Context, Flow, FlowEvent, FlowId, Interest, Read, Sent, Transmit, Violation, When,
};

struct Liar {
    words: Vec<u8>,
    said: usize,
}

impl Flow for Liar {
    fn interest(&self) -> Interest {
        let send = if self.said < self.words.len() { When::Now } else { When::Never };
        Interest { send, read: Read::look(1 << 16), wake: None, end: None }
    }
    fn prepare_send(&mut self, _: &mut Context<'_>, out: &mut Transmit<'_>) {
        let rest = &self.words[self.said..];
        let n = rest.len().min(out.room());
        out.own(n).copy_from_slice(&rest[..n]);
    }
    fn on_sent(&mut self, _: &mut Context<'_>, n: Sent) {
        self.said += n.bytes;
    }
    fn on_event(&mut self, _: &mut Context<'_>, event: FlowEvent) -> Checked {
        if let FlowEvent::Fin = event { Err(Violation::Malformed("hung up on")) } else { Ok(()) }
    }
    fn id(&self) -> FlowId {
        FlowId::default()
    }
}

enum Word {
    Mark(MarkKind, u64),
    Flagged(MarkKind, u64),
    /// So many zeros, from the beginning or later: all offsets are alike.
    Payload(usize),
}
use Word::{Flagged, Payload};

fn word(kind: MarkKind, value: u64) -> Word {
    Word::Mark(kind, value)
}

/// How a truthful end of a transfer of 100 zeros ends when the other one says `words`.
fn ended(pattern: Pattern, honest_client: bool, words: &[Word]) -> Result<Ending, Cause> {
    let words: Vec<u8> = words
        .iter()
        .flat_map(|word| match *word {
            Word::Mark(kind, value) => Mark::new(kind, value).encode(ID).to_vec(),
            Flagged(kind, value) => Mark { kind, flagged: true, value }.encode(ID).to_vec(),
            Payload(n) => vec![0; n],
        })
        .collect();
    let phase = Phase { payload: model::Payload::Zeros, ..phase(pattern, 100) };
    let params = Arc::new(Params::of(&phase, Group(1)));
    let [result, again] = [Quirks::default(), Quirks::one_byte_reads()].map(|quirks| {
        let liar = Box::new(Liar { words: words.clone(), said: 0 });
        let pair = if honest_client {
            Pair::stream(Box::new(Data::client(Arc::clone(&params), &opener(), ID, 0, 100, false)), liar)
        } else {
            let preamble = Preamble { id: ID, transfer: 100, ..Preamble::new(Purpose::Data) };
            Pair::stream(liar, Box::new(Data::server(Arc::clone(&params), &preamble)))
        };
        let mut pair = pair.quirks(quirks);
        pair.run();
        pair.ends[usize::from(!honest_client)].ended.clone().expect("it goes on for ever")
    });
    assert_eq!(result, again, "however it is read");
    result
}

#[track_caller]
fn lie(pattern: Pattern, honest_client: bool, words: &[Word], expect: Violation) {
    assert_eq!(ended(pattern, honest_client, words), Err(Cause::Violation(expect)));
}

#[test]
fn the_truth_is_believed() {
    use MarkKind::{Done, End, Span, Verdict};
    let whole = [word(Span, 60), Payload(60), word(Span, 40), Payload(40), word(End, 100)];
    let stalled = |r| matches!(r, Err(Cause::Violation(Violation::Stalled(_))));
    // The liar does not hang up, so that a truthful server waits for that.
    assert!(stalled(ended(Pattern::Push, false, &whole)));
    assert_eq!(ended(Pattern::Push, true, &[word(Verdict, 100)]), Ok(Ending::Completed));
    let words = [word(Span, 100), Payload(100), word(End, 100), word(Done, 0)];
    assert_eq!(ended(Pattern::Pull, true, &words), Ok(Ending::Completed));
    let words = [Flagged(End, 0), word(Done, 0)];
    assert_eq!(ended(Pattern::Pull, true, &words), Ok(Ending::Stopped));
}

#[test]
fn counts_that_differ() {
    use MarkKind::{End, Span};
    for client in [true, false] {
        let pattern = if client { Pattern::Pull } else { Pattern::Push };
        let disagree = |sent, received| Violation::Disagree { sent, received };
        let too_many = || Violation::TooMany { want: 100 };
        let too_few = Violation::TooFew { got: 60, want: 100 };
        lie(pattern, client, &[word(Span, 100), Payload(100), word(End, 99)], disagree(99, 100));
        lie(pattern, client, &[word(Span, 60), Payload(60), word(End, 100)], disagree(100, 60));
        lie(pattern, client, &[Flagged(End, u64::MAX)], disagree(u64::MAX, 0));
        lie(pattern, client, &[word(Span, 60), Payload(60), word(End, 60)], too_few);
        lie(pattern, client, &[word(Span, 101)], too_many());
        lie(pattern, client, &[word(Span, u64::MAX)], too_many());
        lie(pattern, client, &[word(Span, 100), Payload(100), word(Span, 1)], too_many());
        lie(pattern, client, &[word(Span, 0)], Violation::Malformed("an empty span"));
        lie(pattern, client, &[Flagged(End, 0), word(Span, 1)], too_many());
    }
}

#[test]
fn verdicts_that_are_wrong() {
    use MarkKind::Verdict;
    // The truthful end sends 100 bytes at once, and its end.
    for (pattern, client) in [(Pattern::Push, true), (Pattern::Pull, false)] {
        for received in [0, 99, 101, u64::MAX] {
            let disagree = Violation::Disagree { sent: 100, received };
            lie(pattern, client, &[word(Verdict, received)], disagree);
        }
        lie(pattern, client, &[Flagged(Verdict, 7)], Violation::Reported { offset: 7 });
    }
    // It waits for its turn in the middle of its payload.
    let turns = Pattern::PushPull { push: 30, pull: 30 };
    lie(turns, true, &[word(Verdict, 30)], Violation::Malformed("a verdict before the end"));
}

#[test]
fn words_out_of_place() {
    use MarkKind::{Done, End, Refused, Stop};
    let wrong = || Violation::Malformed("a mark from the wrong end");
    lie(Pattern::Push, true, &[word(Stop, 0)], wrong());
    lie(Pattern::Pull, false, &[word(Done, 0)], wrong());
    let without = || Violation::Malformed("an end without payload");
    lie(Pattern::Push, true, &[word(End, 0)], without());
    lie(Pattern::Pull, false, &[word(End, 0)], without());
    lie(Pattern::Duplex, true, &[Flagged(End, 0), Flagged(End, 0)], without());
    for (reason, expect) in [
        (1, "the server does not know the session (any more)"),
        (2, "the server refused it: too many connections"),
        (3, "the server refused it: it ends after a number of connections that is reached"),
        (99, "the server does not know the session (any more)"),
    ] {
        lie(Pattern::Duplex, true, &[word(Refused, reason)], Violation::Malformed(expect));
    }
    // Done before anything is settled does not settle anything.
    let result = ended(Pattern::Pull, true, &[word(Done, 0)]);
    assert!(matches!(result, Err(Cause::Violation(Violation::Stalled(_)))), "{result:?}");
}
