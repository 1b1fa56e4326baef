//! The line of a test of `udpmon_bw_mon`: its figures and their print.

use super::args::Spec;
use super::tables;
use crate::{PacketTest, PacketTestCounts};
use compat::number::{g, ratio};
use metrics::{Clamped, real};
use std::fmt::Write as _;

/// Overhead of a packet's UDP payload on Ethernet without the IP header, bytes: gap 12, preamble 8,
/// header 14, check 4, UDP 8.
const AROUND: u64 = 46;
/// Shortest frame without preamble and gap, and what of it is around IP.
const SHORTEST: u64 = 64;
const FRAME: u64 = 18;

/// The titles of a line of `udpmon_bw_mon`.
pub(super) fn titles(spec: &Spec, test: &PacketTest) -> String {
    // The second titles of each pair are printed with -x only.
    let parts = [
        (" pkt len; num_sent;", " num_ACKs recv; num_timeout; Time/frame us;"),
        (" inter-pkt_time us;", " Send time;"),
        (
            " send_user_data_rate Mbit; num_recv; num_lost; num_badorder; %lost; num_lost_innet; %lost_innet;",
            " Recv time; time/recv pkt;",
        ),
        (
            " recv_user_data_rate Mbit; recv_wire_rate Mbit;",
            " num_in_hist; mean; sigma; skew; kurtosis; median; iq25; iq75;",
        ),
    ];
    if !spec.extended {
        return parts.map(|(always, _)| always).concat();
    }
    let cpus =
        [('L', &test.local), ('R', &test.remote)].map(|(end, host)| tables::cpu_titles(end, &host.cpus));
    let net = ['L', 'R'].map(|end| tables::net_titles(end, spec.v6));
    let own = parts.map(|(always, extended)| [always, extended].concat()).concat();
    [own, cpus.concat(), net.concat(), tables::card_titles('R')].concat()
}

/// Time of sending, µs: in all and per packet; and the rate.
pub(super) struct Sent {
    pub(super) us: f64,
    pub(super) frame: f64,
    pub(super) mbit: f64,
}

pub(super) fn sent(spec: &Spec, test: &PacketTest) -> Sent {
    // With bursts the original divides what all of them sent by the time of the last.
    let ns = if spec.as_original { test.last_burst_ns } else { test.send_ns };
    let (us, packets) = (real(ns / 1_000), real(test.sent));
    Sent { us, frame: ratio(us, packets), mbit: ratio(8.0 * f64::from(test.size) * packets, us) }
}

/// Time of receiving, µs: in all and per packet; and the rates.
pub(super) struct Got {
    pub(super) us: f64,
    pub(super) pace: f64,
    pub(super) mbit: f64,
    pub(super) wire: f64,
}

/// `ip` is the length of an IP header. Between the first of N packets and the last there are N - 1;
/// the original counts N.
pub(super) fn got(counts: &PacketTestCounts, size: u64, ip: u64, as_original: bool) -> Got {
    let us = real(counts.span) / 10.0;
    let packets = real(if as_original { counts.received.max(1) } else { counts.received.saturating_sub(1) });
    let over = |a: f64, b: f64| if b > 0.0 || as_original { a / b } else { 0.0 };
    let around = if as_original { AROUND + 20 } else { AROUND + ip };
    // A frame that would be shorter is filled up.
    let short = if as_original { 0 } else { SHORTEST.saturating_sub(FRAME + ip + 8 + size) };
    Got {
        us,
        pace: over(us, packets),
        mbit: over(8.0 * real(size) * packets, us),
        wire: over(8.0 * real(size + around + short) * packets, us),
    }
}

pub(super) fn percent(part: u64, of: u64) -> f64 {
    100.0 * ratio(part, of)
}

/// A line of `udpmon_bw_mon`.
pub(super) fn line(spec: &Spec, test: &PacketTest) -> String {
    let mut text = format!(" {}; {};", test.size, test.sent);
    let Sent { us, frame, mbit } = sent(spec, test);
    let counts = test.counts.unwrap_or_default();
    let received = if spec.as_original { counts.received.max(1) } else { counts.received };
    let ip = u64::from(spec.v6) * 20 + 20;
    if spec.extended {
        let _ = write!(text, " {}; {}; {};", test.acks, test.timeouts, g(frame, 6));
    }
    let _ = write!(text, "  {}; ", g(f64::from(test.wait) / 10.0, 6));
    if spec.extended {
        let _ = write!(text, " {};", u64::clamped(us));
    }
    let share = 100.0 * (real(test.sent) - real(received)) / real(test.sent.max(1));
    // Packets that the remote host's own buffers dropped were not lost by the network.
    let card = test.remote.cards.first().and_then(|card| card.counts.get(8).copied()).filter(|n| *n > 0);
    // The original reads IPv4's counter for IPv6, too.
    let errors = match (spec.as_original, spec.v6) {
        (true, true) => 0,
        (true, false) => u64::try_from(test.remote.ip.udp_in_errors).unwrap_or(0),
        (false, _) => test.remote.ip.udp_dropped(),
    };
    let dropped = errors.saturating_add(card.and_then(|n| u64::try_from(n).ok()).unwrap_or(0));
    let network = counts.lost.saturating_sub(dropped);
    let _ = write!(
        text,
        " {}; {received}; {}; {}; {}; {network}; {};",
        g(mbit, 6),
        counts.lost,
        counts.bad_order,
        g(share, 2),
        g(percent(network, test.sent), 2)
    );
    let found = got(&PacketTestCounts { received, ..counts }, test.size.into(), ip, spec.as_original);
    if spec.extended {
        let _ = write!(text, "  {};  {};", g(found.us, 6), g(found.pace, 6));
    }
    let _ = write!(text, "  {};  {};", g(found.mbit, 6), g(found.wire, 6));
    if spec.extended {
        let shape = test.gaps.as_ref().map(|gaps| tables::shape(gaps, spec.as_original)).unwrap_or_default();
        let [mean, sigma, skew, kurtosis] =
            [shape.mean, shape.sigma, shape.skew, shape.kurtosis].map(|value| g(value, 6));
        let _ = write!(
            text,
            "  {}; {mean}; {sigma}; {skew}; {kurtosis}; {}; {}; {};",
            shape.count, shape.median, shape.q1, shape.q3
        );
        text.push_str(&tables::cpus('L', &test.local.cpus));
        text.push_str(&tables::cpus('R', &test.remote.cpus));
        text.push_str(&tables::net('L', &test.local, spec.v6));
        text.push_str(&tables::net('R', &test.remote, spec.v6));
        text.push_str(&tables::card('R', &test.remote, 0));
    }
    text
}
