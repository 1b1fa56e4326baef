//! tcpmon 2.2.1: `tcpmon_mon` and `tcpmon_resp`.

use super::args::Spec;
use super::tables;
use crate::{PacketTest, PacketTestCounts, PacketTestHost, PacketTestPut, PacketTestRecords};
use compat::Text;
use compat::number::{g, ratio};
use metrics::{Clamped, SECOND, SocketState, real};
use std::collections::HashMap;
use std::fmt::Display;

/// Title of the histogram of the times that messages take to be sent.
const PUTS: &str = "network put time us";

/// Longest segment of a socket that is not connected, as Linux has it.
const NEW_MSS: u32 = 536;

/// Properties of the connection, and the titles of `-i`.
pub(super) fn connected(spec: &Spec, mss: Option<u32>, out: &mut Text) {
    if let Some(mss) = mss {
        writeln!(out, " The TCP maximum segment size created soc {NEW_MSS}  connected soc {mss}");
    }
    if spec.packet_tests.every_ns.is_some() {
        writeln!(
            out,
            "Time;\t Bytes sent;\t Rate Gbit/s;\t Retrans;\t Cwnd MBytes;\t TCPInSegs;\t TCPOutSegs "
        );
    }
}

/// The titles and the line of a test.
pub(super) fn line(spec: &Spec, test: &PacketTest, out: &mut Text) {
    if !spec.quiet {
        writeln!(out, " {} bytes; ", test.size);
        titles(spec, test, out);
    }
    let counts = test.counts.unwrap_or_default();
    // The original's watch starts with each burst, and stops when the last message is begun.
    let us = real(if spec.as_original { test.last_burst_ns } else { test.send_ns }) / 1_000.0;
    let (sent, size) = (real(test.sent), f64::from(test.size));
    let segments = test.local.ip.tcp_out;
    let again = test.retransmitted.map_or_else(|| " - ".to_owned(), |n| n.to_string());
    let rate = ratio(100.0 * real(test.retransmitted.unwrap_or(0)), real(segments));
    write!(
        out,
        " {};  {};  {};   {};   {};   {};   {};   {segments};  {again};   {};   ;",
        test.size,
        spec.buffer.unwrap_or(0),
        test.sent,
        g(f64::from(test.wait) / 10.0, 6),
        g(ratio(us, sent), 6),
        g(us, 6),
        g(ratio(8.0 * size * sent, us), 6),
        g(rate, 6)
    );
    // The receiver's time runs from the end of the first message, which is not in it; the original
    // counts it.
    let (span, first) = (real(counts.span) / 10.0, if spec.as_original { 0.0 } else { 1.0 });
    let received = (real(counts.received) - first).max(0.0);
    write!(
        out,
        " 0;  {};  {};   {};   {};   {};   ;",
        counts.received,
        counts.bytes,
        g(ratio(span, received), 6),
        u64::clamped(span),
        g(ratio((real(counts.bytes) - first * size).max(0.0) * 8.0, span), 6)
    );
    let (interfaces_apart, cpus_apart) = spec.apart;
    for (end, host) in [('L', &test.local), ('R', &test.remote)] {
        let net = if interfaces_apart { String::new() } else { tables::interfaces(end, host) };
        write!(out, "{net}{}", tables::tcp(end, host));
    }
    write!(out, "{}{}", tables::card('R', &test.remote, 0), tables::card('R', &test.remote, 1));
    if !cpus_apart {
        write!(out, "{}{}", tables::cpus('L', &test.local.cpus), tables::cpus('R', &test.remote.cpus));
    }
    writeln!(out, "  ");
    if interfaces_apart {
        for (end, host) in [('L', &test.local), ('R', &test.remote)] {
            tables::interface_table(end, host, out);
        }
    }
    if cpus_apart {
        for (end, host) in [('L', &test.local), ('R', &test.remote)] {
            writeln!(out, "{}", tables::cpu_titles(end, host.cpus.get(..1).unwrap_or_default()));
            let rows = tables::cpus(end, &host.cpus);
            rows.split_inclusive("; ;").for_each(|row| writeln!(out, "{row}"));
        }
    }
    if let Some(hist) = test.gaps.as_ref().filter(|_| spec.packet_tests.histograms) {
        // Twice, as the original does for the sake of its spreadsheets.
        tables::histogram(0, PUTS, hist, out);
        tables::histogram(0, PUTS, hist, out);
    }
    if spec.packet_tests.records != PacketTestRecords::None {
        puts(test, out);
    }
}

/// Messages one by one: the time of each, and the kernel's figures of the connection before it.
fn puts(test: &PacketTest, out: &mut Text) {
    writeln!(
        out,
        "InfoStore; network_time_us; write_blksize_bytes; send_loop; soc_fd; elapsed_time_us; recv_bufSize; send_bufSize; \
         tcpi_snd_ssthresh; tcpi_snd_cwnd_octets; tcpi_rtt; tcpi_rttvar; tcpi_retrans  "
    );
    let mut again = 0;
    for (n, put) in test.puts.iter().enumerate() {
        let retransmits = put.socket.map_or(again, |socket| socket.retransmits);
        let more = put.socket.map(|_| retransmits.saturating_sub(again));
        again = retransmits;
        let bytes = if put.bytes > 0 { put.bytes } else { test.size.into() };
        let kernel = |s: &SocketState| [s.ssthresh.into(), s.cwnd_bytes, s.rtt_us.into(), s.rttvar_us.into()];
        writeln!(out, "{}{} ; ", record(n, put, bytes, kernel), or_dash(more));
    }
}

/// The kernel's figure; a dash where it was not read.
fn or_dash(told: Option<impl Display>) -> String {
    told.map_or_else(|| "-".to_owned(), |n| n.to_string())
}

/// A record of either end, with what else the `kernel` said of the connection.
fn record<const N: usize>(
    n: usize,
    put: &PacketTestPut,
    bytes: u64,
    kernel: fn(&SocketState) -> [u64; N],
) -> String {
    let socket = put.socket.as_ref();
    let said = socket.map_or([None; N], |s| kernel(s).map(Some)).map(|told| or_dash(told) + " ; ");
    format!(
        "{n} ; {} ; {bytes} ; {} ; {} ; {} ; {} ; {} ; {}",
        put.took_ns / 1_000,
        put.sends,
        or_dash(socket.map(|s| s.number)),
        put.at_ns / 1_000,
        or_dash(socket.map(|s| s.rcvbuf)),
        or_dash(socket.map(|s| s.sndbuf)),
        said.concat()
    )
}

/// A responder's histograms and records of a connection that has ended.
pub(super) fn noted(spec: &Spec, test: &PacketTest, out: &mut Text) {
    if spec.packet_tests.histograms {
        let hists = test.gaps.iter().chain(&test.others);
        let titles = ["Time between messages us", "Message read time us"];
        // Both have the number 0, as the original's have.
        hists.zip(titles).for_each(|(hist, title)| tables::histogram(0, title, hist, out));
    }
    if spec.packet_tests.records == PacketTestRecords::None {
        return;
    }
    writeln!(
        out,
        "InfoStore; network_time_us; read blksize_bytes; recv_loop; tcp_soc; elapsed_time_us; recv_bufSize; send_bufSize; \
         tcpi_rcv_ssthresh; tcpi_rcv_rtt; tcpi_rcv_space  "
    );
    for (n, put) in test.puts.iter().enumerate() {
        let kernel = |s: &SocketState| [s.rcv_ssthresh.into(), s.rcv_rtt_us.into(), s.rcv_space.into()];
        writeln!(out, "{}", record(n, put, put.bytes, kernel));
    }
}

/// A responder's lines of a connection that has ended.
pub(super) fn received(spec: &Spec, test: &PacketTest, out: &mut Text) {
    let counts = test.counts.unwrap_or_default();
    let local = &test.remote;
    writeln!(
        out,
        " Recv soc_buf_size; num_recv; bytes_recv; Recv time/Frame; recv_time; recv_data_rate Mbit;{}",
        host_titles(local)
    );
    let (span, first) = (real(counts.span) / 10.0, if spec.as_original { 0.0 } else { 1.0 });
    let messages = (real(counts.received) - first).max(0.0);
    // All messages of a connection are of one size but for the last.
    let bytes = real(counts.bytes) * ratio(messages, real(counts.received));
    write!(
        out,
        " {};  {};  {}  {};  {};  {}; ",
        spec.buffer.unwrap_or(0),
        counts.received,
        counts.bytes,
        g(ratio(span, messages), 6),
        u64::clamped(span),
        g(ratio(bytes * 8.0, span), 6)
    );
    writeln!(out, "{}", host(local));
}

/// Titles of a responder's host figures.
pub(super) fn host_titles(host: &PacketTestHost) -> String {
    let (cpus, card) = (tables::cpu_titles('L', &host.cpus), tables::card_titles('L'));
    format!("{cpus}{}{}{card}{card}", tables::interface_titles('L'), tables::tcp_titles('L'))
}

/// A responder's figures of its host.
pub(super) fn host(host: &PacketTestHost) -> String {
    let cards = [0, 1].map(|nth| tables::card('L', host, nth)).concat();
    let (cpus, interfaces) = (tables::cpus('L', &host.cpus), tables::interfaces('L', host));
    format!("{cpus}{interfaces}{}{cards}", tables::tcp('L', host))
}

fn titles(spec: &Spec, test: &PacketTest, out: &mut Text) {
    write!(
        out,
        " pkt len; soc_buf_size; num_sent; wait_time; Time/frame us; Send_time; send_data_rate Mbit; TCPOutSegs; \
         tcpi_total_retrans; tcp_retrans_rate%;  ; Recv soc_buf_size; num_recv; bytes_recv; Recv time/Frame; recv_time; \
         recv_data_rate Mbit;  ;"
    );
    let (interfaces_apart, cpus_apart) = spec.apart;
    for end in ['L', 'R'] {
        let net = if interfaces_apart { String::new() } else { tables::interface_titles(end) };
        write!(out, "{net}{}", tables::tcp_titles(end));
    }
    write!(out, "{}{}", tables::card_titles('R'), tables::card_titles('R'));
    if !cpus_apart {
        let (local, remote) =
            (tables::cpu_titles('L', &test.local.cpus), tables::cpu_titles('R', &test.remote.cpus));
        write!(out, "{local}  ;{remote}");
    }
    writeln!(out);
}

/// Tolerance of a clock behind a whole second, ns.
const ROUND: u64 = SECOND / 100;

/// Progress of `tcpmon_mon`'s connection in print.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PrintedProgress {
    bytes: u64,
    at_ns: u64,
    retransmits: u32,
}

impl PrintedProgress {
    /// A line of `-i`: what left since the line before, and the segments of the whole host since
    /// the start.
    pub(super) fn line(&mut self, spec: &Spec, test: &PacketTest, out: &mut Text) {
        let Some(last) = test.puts.last() else { return };
        // The test's result has its end.
        if spec.packet_tests.time_ns.is_some_and(|ns| last.at_ns >= ns - ns / 100) {
            return;
        }
        let socket = last.socket.unwrap_or_default();
        let bytes = test.sent * u64::from(test.size);
        let (moved, ns) = (bytes - self.bytes.min(bytes), last.at_ns.saturating_sub(self.at_ns).max(1));
        let again = socket.retransmits.saturating_sub(self.retransmits);
        *self = PrintedProgress { bytes, at_ns: last.at_ns, retransmits: socket.retransmits };
        writeln!(
            out,
            "{}\t{moved}\t{:.2}\t\t{again}\t\t{:.2}\t\t{}\t\t{}",
            (last.at_ns + ROUND) / SECOND,
            real(moved) * 8.0 / real(ns),
            real(socket.cwnd_bytes) / 1e6,
            test.local.ip.tcp_in,
            test.local.ip.tcp_out
        );
    }
}

/// Lines of `tcpmon_resp`: one for each connection and period.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshots {
    titled: bool,
    lines: u64,
    /// Time of the first line, ns.
    first: Option<i64>,
    told: HashMap<String, PacketTestCounts>,
}

impl Snapshots {
    /// A line of `-i`: messages and bytes of a connection since its previous line.
    pub(super) fn line(&mut self, spec: &Spec, test: &PacketTest, out: &mut Text) {
        if !std::mem::replace(&mut self.titled, true) {
            snapshot_titles(spec, test, out);
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
        );
        self.lines += 1;
        let (local, sender) =
            (&test.remote, if spec.as_original { String::new() } else { format!("{}; ", test.peer) });
        writeln!(
            out,
            " R TCP;{} L TCP; {}; {};{} {sender}",
            " -;".repeat(SENDERS.len()),
            local.ip.tcp_in,
            local.ip.tcp_out,
            host(local)
        );
    }

    pub(super) fn remove(&mut self, test: &PacketTest) {
        self.told.remove(&test.peer);
    }
}

/// Figures that a sender could send in its messages, and no tcpmon_mon does: the original prints
/// bytes of its memory.
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

fn snapshot_titles(spec: &Spec, test: &PacketTest, out: &mut Text) {
    writeln!(
        out,
        "num; linux time; excel time; hour; num_recv;  Bytes Recv; Bytes/frame; elapsed time us; time/recv pkt; recv_user_data_rate \
         Mbit; recv_wire_rate Mbit; R TCP; {}; L TCP; TCPInSegs; TCPOutSegs;{} {}",
        SENDERS.join("; "),
        host_titles(&test.remote),
        if spec.as_original { "" } else { "sender; " }
    );
}

#[cfg(test)]
mod tests;
