//! The lines and tables of `udpmon_recv`: one line for each sender and period, because each sender has counts of its own.

use super::args::Spec;
use super::line::{Got, got, percent};
use super::tables;
use crate::{PacketTest, PacketTestCounts, PacketTestLost, PacketTestRecord, PacketTestRecords};
use compat::number::g;
use metrics::Clamped;
use std::collections::HashMap;
use std::io::{self, Write};

#[derive(Clone, Debug, Default)]
pub(super) struct Receiver {
    titled: bool,
    /// Of each sender: what was told last, and what this host had dropped by then.
    told: HashMap<String, (PacketTestCounts, u64)>,
    lines: u64,
    /// When the first line was told, ns.
    first: Option<i64>,
    /// Time of the last period in which anything came, us.
    elapsed: f64,
}

/// What is computed of what came.
struct Figures {
    counts: PacketTestCounts,
    /// Packets lost that this host did not drop itself, and their share, percent.
    network: (u64, f64),
    each: u64,
    share: f64,
    got: Got,
}

impl Figures {
    fn of(spec: &Spec, counts: PacketTestCounts, dropped: u64) -> Figures {
        let each = counts.bytes.checked_div(counts.received).unwrap_or(0);
        let ip = u64::from(spec.v6) * 20 + 20;
        // Of what was sent, as far as that is known here; the original takes what came.
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

impl Receiver {
    /// Prints what came from a sender since the line before; at the end all that is known of it.
    pub(super) fn test(&mut self, spec: &Spec, test: &PacketTest, out: &mut dyn Write) -> io::Result<()> {
        let Some(now) = test.counts else { return Ok(()) };
        // What this host itself dropped was not lost by the network.
        let here = u64::try_from(test.remote.ip.udp_in_errors).unwrap_or(0);
        let (before, dropped) = self.told.get(&test.peer).copied().unwrap_or_default();
        self.told.insert(test.peer.clone(), (now, dropped + here));
        let delta = PacketTestCounts {
            received: now.received.saturating_sub(before.received),
            lost: now.lost.saturating_sub(before.lost),
            bad_order: now.bad_order.saturating_sub(before.bad_order),
            bytes: now.bytes.saturating_sub(before.bytes),
            span: now.span.saturating_sub(before.span),
        };
        let delta = Figures::of(spec, delta, here);
        // A receiver without a time ends by a signal, to which the original answers with this table.
        if test.over && spec.life_ns.is_none() && !spec.quiet {
            table(&Figures::of(spec, now, dropped + here), &delta, out)?;
        }
        if !spec.quiet && !std::mem::replace(&mut self.titled, true) {
            titles(spec, test, out)?;
        }
        self.line(spec, test, &delta, out)?;
        if !test.over {
            return Ok(());
        }
        self.told.remove(&test.peer);
        if spec.packet_tests.histograms {
            let hists = test.gaps.iter().chain(&test.others);
            let most = if spec.packet_tests.stamps { 5 } else { 3 };
            tables::histograms(hists.take(most), out)?;
        }
        match spec.packet_tests.records {
            PacketTestRecords::None => Ok(()),
            PacketTestRecords::Packets { skip, .. } => records(spec, &test.records, skip, out),
            PacketTestRecords::Lost { skip, n } => lost(spec, &test.lost, skip, n, out),
        }
    }

    fn line(
        &mut self,
        spec: &Spec,
        test: &PacketTest,
        delta: &Figures,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let Figures { counts, network, each, share, got: Got { us, pace, mbit, wire } } = delta;
        // Where nothing came the original tells the time of the period before.
        self.elapsed = if counts.received > 0 || !spec.as_original { *us } else { self.elapsed };
        write!(
            out,
            " {}; {}; {}; {}; {}; {}; {}; {}; {}; {each}; {}; {}; {}; {};",
            self.lines,
            tables::times(test, &mut self.first),
            counts.received,
            counts.lost,
            counts.bad_order,
            g(*share, 2),
            network.0,
            g(network.1, 2),
            counts.bytes,
            g(self.elapsed, 6),
            g(*pace, 6),
            g(*mbit, 6),
            g(*wire, 6),
        )?;
        self.lines += 1;
        let sender = if spec.as_original { String::new() } else { format!("{}; ", test.peer) };
        writeln!(
            out,
            "{}{}{} {sender}",
            tables::cpus('L', &test.remote.cpus),
            tables::net('L', &test.remote, spec.v6),
            tables::card('L', &test.remote, 0)
        )
    }
}

fn titles(spec: &Spec, test: &PacketTest, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "num; linux time; excel time; hour; num_recv; num_lost; num_badorder; %lost; num_lost_innet; %lost_innet; Bytes Recv; \
         Bytes/frame; elapsed time us; time/recv pkt; recv_user_data_rate Mbit; recv_wire_rate Mbit;{}{}{} {}",
        tables::cpu_titles('L', &test.remote.cpus),
        tables::net_titles('L', spec.v6),
        tables::card_titles('L'),
        if spec.as_original { "" } else { "sender; " }
    )
}

/// What came in all, and since the last line.
fn table(all: &Figures, delta: &Figures, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, " ")?;
    let mut row = |title: &str, of: &dyn Fn(&Figures) -> String| {
        writeln!(out, "{title:<22}: {} \t delta: {}", of(all), of(delta))
    };
    row("Frames recv", &|f| f.counts.received.to_string())?;
    row("Frames lost", &|f| f.counts.lost.to_string())?;
    row("Frames out of order", &|f| f.counts.bad_order.to_string())?;
    row("% lost", &|f| g(f.share, 2))?;
    row("Frames lost in net", &|f| f.network.0.to_string())?;
    row("% lost in net", &|f| g(f.network.1, 2))?;
    row("Bytes received", &|f| f.counts.bytes.to_string())?;
    row("Bytes/Frame", &|f| f.each.to_string())?;
    row("Elapsed_time us", &|f| g(f.got.us, 6))?;
    row("Recv time/pkt us", &|f| g(f.got.pace, 6))?;
    row("User data rate Mbit/s", &|f| g(f.got.mbit, 6))?;
    row("Wire rate Mbit/s", &|f| g(f.got.wire, 6))
}

/// Differences of times: tenths, which the original heads as microseconds.
fn step(spec: &Spec, now: i64, before: i64) -> String {
    let tenths = now.saturating_sub(before);
    if spec.as_original { tenths.to_string() } else { tables::tenth(now, before) }
}

/// Packets one by one. A receiver knows nothing of the sender's clock: there are no one-way times.
fn records(spec: &Spec, rows: &[PacketTestRecord], skip: u32, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "recv_time ipg us; send_time ipg us; ")?;
    writeln!(out, " num packets skipped =; {skip}")?;
    writeln!(
        out,
        "packet num; recv_time 0.1us; send_time 0.1us; diff 0.1us; ;delta recv_time us; delta send_time us; ;HW system time ns; HW raw \
         time ns; ;delta HW system time us; delta HW raw time us;  "
    )?;
    let mut last: Option<&PacketTestRecord> = None;
    for (n, row) in rows.iter().enumerate() {
        let number = u64::clamped(n) + 1 + u64::from(skip);
        // The original takes them the other way round.
        let diff = row.received.saturating_sub(row.sent) * if spec.as_original { -1 } else { 1 };
        write!(out, " {number}; {}; {}; {diff}; ;", row.received, row.sent)?;
        match last {
            None => write!(out, " ; ; ; {}; {}; ; ; ; ;", row.system_ns, row.raw_ns)?,
            Some(before) => write!(
                out,
                "{}; {}; ; {}; {}; ; {}; {}; ;",
                step(spec, row.received, before.received),
                step(spec, row.sent, before.sent),
                row.system_ns,
                row.raw_ns,
                tables::micro(row.system_ns, before.system_ns),
                tables::micro(row.raw_ns, before.raw_ns)
            )?,
        }
        last = Some(row);
        // In place of the end of a line the original prints these two characters.
        if spec.as_original { write!(out, "/n")? } else { writeln!(out)? }
    }
    Ok(())
}

/// Lost packets one by one; the original prints the rows that there is nothing of, too.
fn lost(spec: &Spec, found: &[PacketTestLost], skip: u32, rows: u32, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, " num packets skipped =; {skip}")?;
    writeln!(
        out,
        "lost event; recv_time 0.1us; send_time 0.1us; lost packet num;delta recv_time us; delta send_time us; num packets between \
         losses;"
    )?;
    let empty = if spec.as_original { usize::clamped(rows).saturating_sub(found.len()) } else { 0 };
    let mut last = PacketTestLost::default();
    for (n, row) in
        found.iter().copied().chain(std::iter::repeat_n(PacketTestLost::default(), empty)).enumerate()
    {
        writeln!(
            out,
            " {}; {}; {}; {}; {}; {}; {}",
            n + 1,
            row.received,
            row.sent,
            row.number,
            step(spec, row.received, last.received),
            step(spec, row.sent, last.sent),
            row.number.saturating_sub(last.number)
        )?;
        last = row;
    }
    Ok(())
}
