//! Why a phase has no result, or half of one, in a sentence.

use super::{Account, EndTotals, JudgedPhase, Known, LARGE};
use crate::{Kind, Phase, Transport, Way};
use metrics::format_bytes;

/// Advice where small packets passed.
pub(super) const SMALL_PASSED: &str = ": small packets pass, large ones may not: try `delay --path-mtu`";

pub(super) fn were(n: u64) -> String {
    format!("{n} {}", if n == 1 { "was" } else { "were" })
}

impl Account {
    /// The time of a phase that its server accepted was over before a connection was established or
    /// failed.
    pub(super) fn too_short(&self, phase: &Phase) -> Option<String> {
        let none = self.accepted && self.local.opened == 0 && self.local.cause.is_none();
        let text = "the time of the test was over before a connection was established: give a longer -t";
        (none && phase.duration_ns.is_some()).then(|| text.to_owned())
    }

    /// Why a measurement of round trips has none.
    pub(super) fn unanswered(&self, asked: JudgedPhase<'_>) -> String {
        let EndTotals { messages, missed, refused, .. } = self.local;
        let over = match asked.phase.ping.map(|ping| ping.transport) {
            Some(Transport::Udp) => "UDP",
            _ => "TCP",
        };
        match (messages, missed) {
            (0, 1..) => format!(
                "none of the {missed} messages of the schedule was sent: the flow was opened too late"
            ),
            (0, 0) if refused > 0 => format!("no message was sent: the kernel refused {refused}"),
            (0, 0) => self
                .too_short(asked.phase)
                .unwrap_or_else(|| format!("no message was sent{}", self.explanation(asked))),
            // The agreement is small, and passed.
            _ if over == "UDP" && self.accepted && asked.phase.ping.is_some_and(|ping| ping.size > LARGE) => {
                format!("no message returned over UDP: {} sent{SMALL_PASSED}", were(messages))
            }
            _ => {
                format!("no message returned over {over}: {} sent{}", were(messages), self.explanation(asked))
            }
        }
    }

    /// Why a stream of which no frame arrived whole has failed: parts of frames are no use. The last
    /// part of a frame is short, and passes a path that drops large packets.
    pub(super) fn without_frames(&self, way: Way) -> Option<String> {
        let (_, receiver) = self.ends(way);
        let place = if way == Way::Up { "at the server" } else { "from the server" };
        // Where nothing at all arrived, the rules of datagrams have the reason.
        let parts = receiver.arrived == Known::Some && receiver.incomplete > 0 && !receiver.has_whole;
        parts.then(|| format!("none of {} frames arrived whole {place}{SMALL_PASSED}", receiver.incomplete))
    }

    /// Payload that arrived after the time of the test, in a direction in which none did before.
    pub(super) fn too_late(&self, way: Way) -> Option<String> {
        let (_, receiver) = self.ends(way);
        let place = if way == Way::Up { "at the server" } else { "from the server" };
        let bytes = format_bytes(receiver.in_all);
        (receiver.in_all > 0).then(|| {
            format!("no payload arrived {place} within the time of the test, and {bytes} after it: give a longer -t")
        })
    }

    /// Why nothing passed, and what did.
    pub(super) fn nothing_passed(&self, asked: JudgedPhase<'_>, silent: &[Way]) -> String {
        let (way, both) = (silent.first().copied().unwrap_or(Way::Up), silent.len() > 1);
        let (sender, receiver) = self.ends(way);
        let EndTotals { opened, refused, .. } = self.local;
        let datagrams = asked.phase.kind != Kind::Tcp || sender.datagrams > 0;
        let what = if datagrams { "datagram" } else { "payload" };
        let place = match way {
            _ if both => "",
            Way::Up => " at the server",
            Way::Down => " from the server",
        };
        let large = asked.phase.probe.is_none_or(|probe| probe.size > LARGE);
        // The agreement and the reports are small, and passed.
        let talked = self.accepted && self.remote.is_heard() && opened > 0;
        let small_passed =
            talked && sender.sent == Known::Some && large && (datagrams || sender.retransmits > 0);
        let advice = match small_passed {
            true => SMALL_PASSED.to_owned(),
            false => self.explanation(asked),
        };
        if datagrams {
            return match (sender.datagrams, sender.sent == Known::Some) {
                (0, false) if way == Way::Up && refused > 0 => {
                    format!("no datagram was sent: the kernel refused {refused}")
                }
                (0, false) if way == Way::Up => format!("no datagram was sent{advice}"),
                (sent, _) if sender.is_refused() && !receiver.is_heard() => {
                    format!(
                        "the peer's host refused {refused} of {sent} datagrams: does anything listen there?"
                    )
                }
                (0, _) => format!("no datagram arrived{place} over UDP{advice}"),
                (sent, _) => format!("no datagram arrived{place} over UDP: {} sent{advice}", were(sent)),
            };
        }
        if let Some(why) = self.too_short(asked.phase) {
            return why;
        }
        let but = match opened {
            0 if self.connections_unknown => String::new(),
            0 => "no connection was established, and ".to_owned(),
            1 => "1 connection was established, but ".to_owned(),
            n => format!("{n} connections were established, but "),
        };
        match way {
            _ if sender.is_unacknowledged() && !receiver.is_heard() => {
                format!("{but}no byte was acknowledged{SMALL_PASSED}")
            }
            Way::Up if sender.sent < Known::Some => format!("{but}no {what} was sent{advice}"),
            Way::Up if !receiver.is_heard() => format!("{but}the server reported nothing{advice}"),
            _ => format!("{but}no {what} arrived{place}{advice}"),
        }
    }

    /// Why the connections failed; where none did, whether the peer speaks another protocol, unless
    /// something shows that it speaks this one.
    fn explanation(&self, asked: JudgedPhase<'_>) -> String {
        // Bytes that are no answers may be another protocol's.
        let arrived = self.local.arrived == Known::Some && asked.phase.kind != Kind::Ping;
        let heard = self.remote.is_heard() || arrived;
        match &self.local.cause {
            Some(cause) => format!(": {cause}"),
            None if self.accepted || heard || asked.protocol.is_empty() => String::new(),
            None => format!(": is the server's protocol {}?", asked.protocol),
        }
    }
}
