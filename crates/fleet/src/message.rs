//! Messages between controller and agent: one JSON document a line, the same over every transport.
//!
//! ```text
//! agent                                    controller
//!   ── hello ─────────────────────────────────▶   version, program, resource
//!   ◀───────────────────────────────── hello ──   run, epoch, key of the run, clock
//!   ── ready ─────────────────────────────────▶   then all results of the run that it still has
//!   ◀─────────────────────── reserve (server) ──
//!   ── reserved | busy | refused ─────────────▶   port of its server
//!   ◀─────────────────────────── run (client) ──
//!   ── ended | busy | refused ────────────────▶   kept by the agent until
//!   ◀──────────────────────────────── stored ──
//!   ◀─────────────────────── release (server) ──
//!   ◀── alive ──────────────────────── alive ──▶   each second
//!   ◀─────────────────────────────────── bye ──
//! ```
//!
//! Unknown fields are ignored; an unknown order is refused. All input is hostile: a line is
//! bounded, and so is each text.

use crate::plan::{Attempt, CostClass, TaskId, Verb};
use crate::result::Reason;
use crate::spool::Kept;
use metrics::Mono;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::mpsc::Receiver;
use uuid::Uuid;

/// Version of the messages. Ends of different versions refuse each other by name.
pub(crate) const VERSION: u32 = 1;
/// Longest line to an agent, bytes.
pub(crate) const MAX_ORDER: usize = 64 << 10;
/// Longest line from an agent, bytes: below the largest message (1 MiB) that a NATS server takes by
/// default.
pub(crate) const MAX_REPORT: usize = 1_000_000;
/// Longest outcome document in a report, bytes.
pub(crate) const MAX_OUTCOME: usize = MAX_REPORT - (16 << 10);
/// Longest sentence in a report, bytes.
pub(crate) const MAX_TEXT: usize = 1_000;

/// Orders of a controller to an agent. A time is one of the controller's clock: the agent knows the
/// offset of its own (from `hello` and `alive`), so that an order that was held up on its way is
/// over at its time, and not later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// First of all.
    Hello {
        /// [`VERSION`] of the controller.
        version: u32,
        /// Number of the controller among all of the run: an agent obeys the highest.
        epoch: u64,
        /// Shared key of the run, with which its clients and servers know each other.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// The controller's clock.
        now: Mono,
        /// Time that the agent goes on without a message from the controller, ns.
        patience_ns: u64,
    },
    /// Have a server ready for one test until then, and admit no other that would disturb it.
    Reserve {
        attempt: Attempt,
        class: CostClass,
        until: Mono,
        /// The test, which earlier controllers do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        test: Option<Words>,
    },
    /// Run a test as its client.
    Run {
        attempt: Attempt,
        class: CostClass,
        /// The test's end in any case.
        until: Mono,
        verb: Verb,
        arguments: Vec<String>,
        target: Target,
    },
    /// The test is over: forget the reservation.
    Release { attempt: Attempt },
    /// The controller has the results of these tasks on its disk: the agent need not keep them.
    Stored {
        tasks: Vec<TaskId>,
        /// The number of the attempt at each task, in the same order. A missing number means any
        /// attempt.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        numbers: Vec<u32>,
    },
    /// Nothing new; the controller's clock, 0 where the sender does not know it.
    Alive { now: Mono },
    /// The run is over.
    Bye,
}

/// A test without its target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Words {
    pub verb: Verb,
    pub arguments: Vec<String>,
}

/// Target of a test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Name or address.
    pub host: String,
    /// Port of the server; the protocol's own where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The protocol of a server that is no agent's; `None` is our own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
}

/// Reports of an agent to a controller.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The agent does not know the run: first of all, and again after it was started anew.
    /// [`VERSION`] of the agent, and the version of its program.
    Hello { version: u32, program: String },
    /// The answer to the controller's hello.
    Ready {
        /// Resource of the agent's tests, which is boot id and network namespace, or the value
        /// given to the agent.
        resource: String,
        /// Longest time that tests of the run may go on that earlier controllers started at the
        /// host, ns; absent where another agent of the host has tests.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held_ns: Option<u64>,
    },
    /// A server is ready at this port.
    Reserved { attempt: Attempt, port: u16 },
    /// Not for this time.
    Busy { attempt: Attempt, for_ns: u64 },
    /// Never, for this reason, and in a sentence.
    Refused { attempt: Attempt, reason: Reason, why: String },
    /// A test is over.
    Ended(Kept),
    /// The agent does not work for this controller, for this reason, and in a sentence.
    Rejected { reason: Reason, why: String },
    /// Nothing new.
    Alive,
}

/// A message and the run that it belongs to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Of<M> {
    /// The run; the nil one in an agent's first word, when it knows of none.
    pub run: Uuid,
    /// In orders, the epoch of the controller ([`Order::Hello`]): an agent obeys none that another
    /// has taken the run over from. 0 where that is all the same.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub epoch: u64,
    /// The message.
    pub message: M,
}

impl<M: Serialize> Of<M> {
    /// A message of this run, without an epoch.
    pub(crate) fn new(run: Uuid, message: M) -> Of<M> {
        Of { run, epoch: 0, message }
    }

    /// As a line, without its end.
    ///
    /// # Errors
    /// Where the document cannot be written, which no message of this module causes.
    pub(crate) fn line(&self) -> io::Result<String> {
        serde_json::to_string(self).map_err(io::Error::other)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
pub(crate) fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Reads a message from a line.
///
/// # Errors
/// One sentence, that repeats nothing of the line but its length.
pub fn parse<M: for<'de> Deserialize<'de>>(line: &[u8]) -> Result<Of<M>, String> {
    serde_json::from_slice(line).map_err(|e| {
        format!("a line of {} bytes is no message of version {VERSION}: {:?}", line.len(), e.classify())
    })
}

/// Reads one line of at most `longest` bytes into `line`, without its end; `false` at the end of
/// the input.
///
/// # Errors
/// `InvalidData` for a longer line.
fn read_line(from: &mut impl BufRead, longest: usize, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let most = longest as u64 + 1;
    let read = from.by_ref().take(most).read_until(b'\n', line)?;
    if line.pop_if(|last| *last == b'\n').is_none() && read as u64 == most {
        let text = format!("a line of more than {longest} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(read > 0)
}

/// Gives `take` each message of `from`, which are lines of at most `longest` bytes, until there are
/// no more or `take` wants none.
///
/// # Errors
/// `InvalidData` for a longer line, and for one that is no message.
pub(crate) fn read_all<M: for<'de> Deserialize<'de>>(
    from: impl Read,
    longest: usize,
    mut take: impl FnMut(Of<M>) -> bool,
) -> io::Result<()> {
    let (mut from, mut line) = (BufReader::new(from), Vec::new());
    while read_line(&mut from, longest, &mut line)? {
        if !take(parse(&line).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?) {
            break;
        }
    }
    Ok(())
}

/// Writes lines until there are no more, or one cannot be written.
pub(crate) fn write_lines(lines: &Receiver<impl Display>, mut to: impl Write) {
    let mut write = |line| writeln!(to, "{line}").and_then(|()| to.flush());
    let _ = lines.iter().try_for_each(&mut write);
}

/// At most [`MAX_TEXT`] bytes of a text, without characters that a terminal obeys.
pub(crate) fn bounded(text: &str) -> String {
    let one_line: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_TEXT).collect();
    let mut bounded = model::clean(&one_line).into_owned();
    bounded.truncate(bounded.floor_char_boundary(MAX_TEXT));
    bounded
}

/// A JSON document without the white space between its parts, so that it fits into a line.
pub(crate) fn compact(document: &str) -> String {
    let (mut quoted, mut escaped) = (false, false);
    let kept = |c: &char| {
        let keep = quoted || !matches!(c, ' ' | '\n' | '\r' | '\t');
        quoted ^= *c == '"' && !escaped;
        escaped = quoted && *c == '\\' && !escaped;
        keep
    };
    document.chars().filter(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Ending;

    #[test]
    fn messages_come_back_as_they_were() {
        let attempt = Attempt { task: TaskId(7), number: 2 };
        let target = Target { host: "10.0.0.1".to_owned(), port: Some(7411), protocol: None };
        let order = Of {
            run: Uuid::from_u128(3),
            epoch: 4,
            message: Order::Run {
                attempt,
                class: CostClass::Exclusive,
                until: Mono(5),
                verb: Verb::Ping,
                arguments: vec!["-n".to_owned(), "5".to_owned()],
                target,
            },
        };
        let line = order.line().unwrap();
        let back: Of<Order> = parse(line.as_bytes()).unwrap();
        assert_eq!((back.run, back.epoch, back.message), (order.run, 4, order.message));
        let document = compact("{\"a\": [1,\n  2.50, \"b \\\" c\\\\\", 1e3]}\n");
        assert_eq!(document, r#"{"a":[1,2.50,"b \" c\\",1e3]}"#);
        let raw = serde_json::value::RawValue::from_string(document.clone()).unwrap();
        let report = Of::new(
            Uuid::nil(),
            Report::Ended(Kept { attempt, ending: Ending::Measured(raw), owner: String::new() }),
        );
        let back: Of<Report> = parse(report.line().unwrap().as_bytes()).unwrap();
        let Report::Ended(Kept { ending: Ending::Measured(raw), .. }) = back.message else {
            panic!("{back:?}")
        };
        assert_eq!(raw.get(), document, "a document passes byte for byte");
    }

    #[test]
    fn lines_are_bounded() {
        let mut input = &b"one\ntwo\n\nthree"[..];
        let mut line = Vec::new();
        for expected in ["one", "two", "", "three"] {
            assert!(read_line(&mut input, 5, &mut line).unwrap());
            assert_eq!(line, expected.as_bytes());
        }
        assert!(!read_line(&mut input, 5, &mut line).unwrap());
        assert!(read_line(&mut &b"123456\n"[..], 5, &mut line).is_err());
        assert!(read_line(&mut &b"123456"[..], 5, &mut line).is_err());
        assert!(read_line(&mut &b"12345\n"[..], 5, &mut line).unwrap());
        assert!(bounded(&"ä\n".repeat(2_000)).len() <= MAX_TEXT);
    }

    #[test]
    fn garbage_is_named_without_repeating_it() {
        let why = parse::<Order>(b"\x1b[31m secret").unwrap_err();
        assert!(why.contains("12 bytes") && !why.contains("secret"), "{why}");
        assert!(
            parse::<Order>(br#"{"run":"00000000-0000-0000-0000-000000000000","message":{"jump":{}}}"#)
                .is_err()
        );
    }
}
