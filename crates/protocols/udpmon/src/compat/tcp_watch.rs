//! What tcpmon's programs tell while they run: the lines of `-i`.

use super::args::Spec;
use super::{tables, tcp};
use crate::{PacketTest, PacketTestCounts};
use compat::number::{g, ratio};
use metrics::{SECOND, real};
use std::collections::HashMap;
use std::io::{self, Write};

/// What a clock may be behind of a whole second, ns.
const ROUND: u64 = SECOND / 100;

/// What `tcpmon_mon` has told of its connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    bytes: u64,
    at_ns: u64,
    retransmits: u32,
}

impl Progress {
    /// A line of `-i`: what left since the line before, and the segments of the whole host since the start.
    pub(super) fn line(&mut self, spec: &Spec, test: &PacketTest, out: &mut dyn Write) -> io::Result<()> {
        let Some(last) = test.puts.last() else { return Ok(()) };
        // The test's own end is told by its result.
        if spec.packet_tests.time_ns.is_some_and(|ns| last.at_ns >= ns - ns / 100) {
            return Ok(());
        }
        let socket = last.socket.unwrap_or_default();
        let bytes = test.sent * u64::from(test.size);
        let (moved, ns) = (bytes - self.bytes.min(bytes), last.at_ns.saturating_sub(self.at_ns).max(1));
        let again = socket.retransmits.saturating_sub(self.retransmits);
        *self = Progress { bytes, at_ns: last.at_ns, retransmits: socket.retransmits };
        writeln!(
            out,
            "{}\t{moved}\t{:.2}\t\t{again}\t\t{:.2}\t\t{}\t\t{}",
            (last.at_ns + ROUND) / SECOND,
            real(moved) * 8.0 / real(ns),
            real(socket.cwnd_bytes) / 1e6,
            test.local.ip.tcp_in,
            test.local.ip.tcp_out
        )
    }
}

/// What `tcpmon_resp` has told: one line for each connection and period.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshots {
    titled: bool,
    lines: u64,
    /// When the first line was told, ns.
    first: Option<i64>,
    told: HashMap<String, PacketTestCounts>,
}

impl Snapshots {
    /// A line of `-i`: what came on a connection since the line before.
    pub(super) fn line(&mut self, spec: &Spec, test: &PacketTest, out: &mut dyn Write) -> io::Result<()> {
        if !std::mem::replace(&mut self.titled, true) {
            titles(spec, test, out)?;
        }
        let now = test.counts.unwrap_or_default();
        let before = self.told.insert(test.peer.clone(), now).unwrap_or_default();
        let PacketTestCounts { received: messages, bytes, span, .. } = now.since(&before);
        let us = real(span) / 10.0;
        // The time of the first line runs from the end of the first message.
        let first = u64::from(before.received == 0 && !spec.as_original).min(messages);
        let each = bytes.checked_div(messages).unwrap_or(0);
        let timed = real(bytes - first * each);
        // The original's frames are UDPmon's, one for each message.
        let wire = if spec.as_original {
            g(ratio(8.0 * (timed + 66.0 * real(messages)), us), 6)
        } else {
            "-".to_owned()
        };
        write!(
            out,
            " {}; {}; {messages}; {bytes}; {each}; {}; {}; {}; {wire};",
            self.lines,
            tables::times(test, &mut self.first),
            g(us, 6),
            g(ratio(us, real(messages - first)), 6),
            g(ratio(8.0 * timed, us), 6)
        )?;
        self.lines += 1;
        let (local, sender) =
            (&test.remote, if spec.as_original { String::new() } else { format!("{}; ", test.peer) });
        writeln!(
            out,
            " R TCP;{} L TCP; {}; {};{} {sender}",
            " -;".repeat(SENDERS.len()),
            local.ip.tcp_in,
            local.ip.tcp_out,
            tcp::host(local)
        )
    }

    pub(super) fn over(&mut self, test: &PacketTest) {
        self.told.remove(&test.peer);
    }
}

/// What a sender could tell of itself in its messages, and no tcpmon_mon does: the original prints what its memory held.
const SENDERS: [&str; 13] = [
    "TCPInSegs",
    "TCPOutSegs",
    "TCPRetransSegs",
    "%TCPRetransSegs",
    "snd MSS",
    "RTT",
    "win_scale",
    "snd cwnd",
    "cwnd_scale",
    "ssthresh",
    "retrans",
    "total_retrans",
    "snd inital MSS",
];

fn titles(spec: &Spec, test: &PacketTest, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "num; linux time; excel time; hour; num_recv;  Bytes Recv; Bytes/frame; elapsed time us; time/recv pkt; recv_user_data_rate \
         Mbit; recv_wire_rate Mbit; R TCP; {}; L TCP; TCPInSegs; TCPOutSegs;{} {}",
        SENDERS.join("; "),
        tcp::host_titles(&test.remote),
        if spec.as_original { "" } else { "sender; " }
    )
}
