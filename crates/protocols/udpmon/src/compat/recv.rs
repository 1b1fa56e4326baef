//! The lines and tables of `udpmon_recv`: one line for each sender and period, because each sender
//! has counts of its own.

use super::args::Spec;
use super::line::{Got, got, percent};
use super::tables;
use crate::{PacketTest, PacketTestCounts};
use compat::Text;
use compat::number::g;
use std::collections::HashMap;

#[derive(Clone, Debug, Default)]
pub(super) struct ReceivedLines {
    titled: bool,
    /// For each sender: counts of its last line, and packets that this host had dropped by then.
    told: HashMap<String, (PacketTestCounts, u64)>,
    lines: u64,
    /// Time of the first line, ns.
    first: Option<i64>,
    /// Length of the last period in which anything arrived, µs.
    elapsed: f64,
}

/// Figures of received packets.
struct Figures {
    counts: PacketTestCounts,
    /// Packets lost that this host did not drop itself, and their share, percent.
    network: (u64, f64),
    each: u64,
    share: f64,
    got: Got,
}

impl Figures {
    /// Figures of `counts`, of whose losses this host dropped `dropped`.
    fn of(spec: &Spec, counts: PacketTestCounts, dropped: u64) -> Figures {
        let each = counts.bytes.checked_div(counts.received).unwrap_or(0);
        let ip = u64::from(spec.v6) * 20 + 20;
        // Shares are of all packets known to have been sent; `udpmon_recv` divides by the received
        // ones.
        let sent = counts.received + if spec.as_original { 0 } else { counts.lost };
        let mut got = got(&counts, each, ip, spec.as_original);
        if counts.received == 0 {
            got = Got { us: got.us, pace: 0.0, mbit: 0.0, wire: 0.0 };
        }
        let network = counts.lost.saturating_sub(dropped);
        let network = (network, percent(network, sent));
        Figures { counts, network, each, share: percent(counts.lost, sent), got }
    }
}

impl Figures {
    /// All of them, in the order in which they are printed.
    fn cells(&self) -> [String; 12] {
        let Figures { counts, network, each, share, got: Got { us, pace, mbit, wire } } = self;
        [
            counts.received.to_string(),
            counts.lost.to_string(),
            counts.bad_order.to_string(),
            g(*share, 2),
            network.0.to_string(),
            g(network.1, 2),
            counts.bytes.to_string(),
            each.to_string(),
            g(*us, 6),
            g(*pace, 6),
            g(*mbit, 6),
            g(*wire, 6),
        ]
    }
}

impl ReceivedLines {
    /// Prints a sender's counts since its last line; at the end all of its counts.
    pub(super) fn test(&mut self, spec: &Spec, test: &PacketTest, out: &mut Text) {
        let Some(now) = test.counts else { return };
        // Packets that this host itself dropped were not lost by the network.
        let here = test.remote.ip.udp_dropped();
        let (before, dropped) = self.told.get(&test.peer).copied().unwrap_or_default();
        self.told.insert(test.peer.clone(), (now, dropped + here));
        let delta = Figures::of(spec, now.since(&before), here);
        // A receiver without a time ends by a signal, to which the original answers with this
        // table.
        if test.over && spec.life_ns.is_none() && !spec.quiet {
            table(&Figures::of(spec, now, dropped + here), &delta, out);
        }
        if !spec.quiet && !std::mem::replace(&mut self.titled, true) {
            titles(spec, test, out);
        }
        self.line(spec, test, delta, out);
        if !test.over {
            return;
        }
        self.told.remove(&test.peer);
        if spec.packet_tests.histograms {
            let hists = test.gaps.iter().chain(&test.others);
            let most = if spec.packet_tests.stamps { 5 } else { 3 };
            tables::histograms(hists.take(most), out);
        }
        tables::records(spec, test, out);
    }

    fn line(&mut self, spec: &Spec, test: &PacketTest, mut delta: Figures, out: &mut Text) {
        // For a period without packets the original prints the time of the period before.
        if delta.counts.received == 0 && spec.as_original {
            delta.got.us = self.elapsed;
        }
        self.elapsed = delta.got.us;
        let (times, figures) = (tables::times(test, &mut self.first), delta.cells().join("; "));
        write!(out, " {}; {times}; {figures};", self.lines);
        self.lines += 1;
        let sender = if spec.as_original { String::new() } else { format!("{}; ", test.peer) };
        writeln!(
            out,
            "{}{}{} {sender}",
            tables::cpus('L', &test.remote.cpus),
            tables::net('L', &test.remote, spec.v6),
            tables::card('L', &test.remote, 0)
        );
    }
}

fn titles(spec: &Spec, test: &PacketTest, out: &mut Text) {
    writeln!(
        out,
        "num; linux time; excel time; hour; num_recv; num_lost; num_badorder; %lost; num_lost_innet; %lost_innet; Bytes Recv; \
         Bytes/frame; elapsed time us; time/recv pkt; recv_user_data_rate Mbit; recv_wire_rate Mbit;{}{}{} {}",
        tables::cpu_titles('L', &test.remote.cpus),
        tables::net_titles('L', spec.v6),
        tables::card_titles('L'),
        if spec.as_original { "" } else { "sender; " }
    );
}

/// Names of the figures in the table at the end.
const NAMES: [&str; 12] = [
    "Frames recv",
    "Frames lost",
    "Frames out of order",
    "% lost",
    "Frames lost in net",
    "% lost in net",
    "Bytes received",
    "Bytes/Frame",
    "Elapsed_time us",
    "Recv time/pkt us",
    "User data rate Mbit/s",
    "Wire rate Mbit/s",
];

/// Prints all counts, and those since the last line.
fn table(all: &Figures, delta: &Figures, out: &mut Text) {
    writeln!(out, " ");
    for (name, (all, delta)) in NAMES.into_iter().zip(all.cells().into_iter().zip(delta.cells())) {
        writeln!(out, "{name:<22}: {all} \t delta: {delta}");
    }
}
