//! Pieces of lines and whole tables: CPUs, interfaces, counters, histograms, records.

use crate::packet_stats::TITLES;
use crate::{PacketTest, PacketTestClock, PacketTestCpu, PacketTestHost, PacketTestLost, PacketTestRecord};
use compat::number::g;
use metrics::{Binned, Clamped, Shape, real, seconds};
use std::fmt::Write as _;
use std::io::{self, Write};

/// Names of a Mellanox card's counters, which head the columns of every card.
const CARD: [&str; 9] = [
    "rx_packets",
    "tx_packets",
    "rx_packets_phy",
    "tx_packets_phy",
    "rx_pause_ctrl_phy",
    "tx_pause_ctrl_phy",
    "tx_global_pause_duration",
    "rx_crc_errors_phy",
    "rx_out_of_buffer",
];

/// Titles of the CPU columns of an end, `L` or `R`.
pub(super) fn cpu_titles(end: char, cpus: &[PacketTestCpu]) -> String {
    let mut text = String::new();
    for n in 0..cpus.len() {
        let _ = match n {
            0 => write!(text, " <{end} CPU>;"),
            _ => write!(text, "; {end}{} CPU;", n - 1),
        };
        text.push_str(
            " user cpu %; low-prio cpu %; kernel cpu%; idle cpu%; iowait cpu %; irq cpu%; softirq cpu%;",
        );
    }
    text
}

/// The CPU columns.
pub(super) fn cpus(end: char, cpus: &[PacketTestCpu]) -> String {
    let mut text = String::new();
    for (n, cpu) in cpus.iter().enumerate() {
        let PacketTestCpu { user, nice, system, idle, iowait, irq, softirq, .. } = cpu;
        let number = if n > 0 { (n - 1).to_string() } else { String::new() };
        let _ =
            write!(text, "{end}{number} ; {user}; {nice}; {system}; {idle}; {iowait}; {irq}; {softirq}; ;");
    }
    text
}

/// Titles of the columns of interfaces.
pub(super) fn interface_titles(end: char) -> String {
    format!(" {end} if; interface:; pktsin; bytesin; errin; dropin; pktsout; bytesout; errout; dropout;")
}

pub(super) fn interfaces(end: char, host: &PacketTestHost) -> String {
    let mut text = format!("{end} if;");
    for interface in &host.interfaces {
        let _ = write!(text, "{:>6}: ;", interface.name);
        for n in interface.counts {
            let _ = write!(text, " {n};");
        }
    }
    text
}

/// Interfaces in a table of their own.
pub(super) fn interface_table(end: char, host: &PacketTestHost, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", interface_titles(end))?;
    for interface in &host.interfaces {
        let counts: String = interface.counts.iter().map(|n| format!(" {n};")).collect();
        writeln!(out, "{:>6}: ;{counts}", interface.name)?;
    }
    Ok(())
}

/// The columns of TCP's counters.
pub(super) fn tcp(end: char, host: &PacketTestHost) -> String {
    let ip = &host.ip;
    format!(
        "{end} TCP; {}; {}; {}; {}; {};",
        ip.tcp_in, ip.tcp_in_errors, ip.tcp_out, ip.tcp_resets, ip.tcp_retransmitted
    )
}

/// Titles of the columns of interfaces and counters.
pub(super) fn net_titles(end: char, v6: bool) -> String {
    let snmp = if v6 { "snmp6" } else { "snmp" };
    format!(
        " {end} if; interface:; pktsin; bytesin; errin; dropin; pktsout; bytesout; errout; dropout; {end} {snmp}; InReceives; \
         InDiscards; OutRequests; OutDiscards; UDPInDatagrams; UDPInErrors; UDPOutDatagrams;"
    )
}

/// The columns of interfaces and counters.
pub(super) fn net(end: char, host: &PacketTestHost, v6: bool) -> String {
    let mut text = interfaces(end, host);
    let ip = &host.ip;
    text.push_str(&if v6 { format!(" {end} snmp6;") } else { format!("{end} snmp;") });
    for n in [
        ip.in_receives,
        ip.in_discards,
        ip.out_requests,
        ip.out_discards,
        ip.udp_in,
        ip.udp_in_errors,
        ip.udp_out,
    ] {
        let _ = write!(text, " {n};");
    }
    text
}

/// Titles of a card's columns.
pub(super) fn card_titles(end: char) -> String {
    let names: Vec<String> = CARD.iter().map(|name| format!(" {name};")).collect();
    format!(" {end} NIC; interface:;{}", names.concat())
}

/// A card's columns.
pub(super) fn card(end: char, host: &PacketTestHost, nth: usize) -> String {
    let Some(card) = host.cards.get(nth) else { return format!(" {end} NIC; ;") };
    let count = |n: &i64| if *n >= 0 { format!(" {n};") } else { " - ;".to_owned() };
    format!(" {end} NIC; {};{}", card.name, card.counts.iter().map(count).collect::<String>())
}

/// What a histogram's bins tell, by either arithmetic.
pub(super) fn shape(hist: &Binned, as_original: bool) -> Shape {
    if as_original { hist.shape_as_original() } else { hist.shape() }
}

pub(super) fn histogram(number: usize, title: &str, hist: &Binned, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "Hist {number:>8} {title}")?;
    writeln!(
        out,
        " counts {} mean {:.2} underflows {} overflows {}",
        hist.count(),
        hist.mean(),
        hist.under,
        hist.over
    )?;
    for (n, bin) in hist.bins.iter().enumerate() {
        writeln!(out, "{} ; {bin}", hist.edge(n))?;
    }
    Ok(())
}

/// Histograms with their numbers and titles, from the first on.
pub(super) fn histograms<'a>(all: impl Iterator<Item = &'a Binned>, out: &mut dyn Write) -> io::Result<()> {
    for (n, hist) in all.enumerate() {
        histogram(n, TITLES.get(n).copied().unwrap_or_default(), hist, out)?;
    }
    Ok(())
}

/// What follows the histogram of round trips.
pub(super) fn histogram_shape(hist: &Binned, as_original: bool, out: &mut dyn Write) -> io::Result<()> {
    let s = shape(hist, as_original);
    writeln!(out, " counts {}; underflows {}; overflows {}; ", s.count, hist.under, hist.over)?;
    let [mean, sigma, skew, kurtosis] = [s.mean, s.sigma, s.skew, s.kurtosis].map(|value| g(value, 4));
    writeln!(out, " mean {mean} sigma {sigma}; coeff_skew {skew}; coeff_kurtosis {kurtosis}; ")?;
    writeln!(out, " median {}; 25-quartile {}; 75-quartile {}; ", s.median, s.q1, s.q3)
}

/// When a line is told: seconds since 1970, days of Excel, and hours since the `first` line.
pub(super) fn times(test: &PacketTest, first: &mut Option<i64>) -> String {
    let told = test.told.unwrap_or(test.started).0;
    let (s, hours) = (seconds(told), seconds(told.saturating_sub(*first.get_or_insert(told))) / 3_600.0);
    format!("{}; {:.6}; {}", u64::clamped(s), s / 86_400.0 + 25_569.0, g(hours, 6))
}

/// A difference of times in tenths of a microsecond, µs.
pub(super) fn tenth(now: i64, before: i64) -> String {
    g(real(now.saturating_sub(before)) / 10.0, 6)
}

/// A difference of times in nanoseconds, µs.
pub(super) fn micro(now: i64, before: i64) -> String {
    g(real(now.saturating_sub(before)) / 1_000.0, 6)
}

/// A remote time in ours, by either arithmetic, µs.
fn ours(remote: i64, clock: Option<PacketTestClock>, as_original: bool) -> f64 {
    let clock = clock.unwrap_or(PacketTestClock { slope: 1.0, ..PacketTestClock::default() });
    let (slope, offset) = if as_original { clock.original } else { (clock.slope, clock.offset) };
    real(remote) / 10.0 * slope + offset
}

pub(super) fn records(
    test: &PacketTest,
    skip: u32,
    as_original: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, " num packets skipped =; {skip}")?;
    writeln!(
        out,
        "packet; recv_time 0.1us; send_time 0.1us; diff 0.1us; 1-way time us; ;delta recv_time us; delta send_time us; delta 1-way \
         time us; ;HW system time ns; HW raw time ns; ;delta HW system time us; delta HW raw time us;  "
    )?;
    let mut last: Option<(PacketTestRecord, f64)> = None;
    for (n, row) in test.records.iter().enumerate() {
        let came = row.received != 0 || row.sent != 0;
        let one_way =
            if came { ours(row.received, test.clock, as_original) - real(row.sent) / 10.0 } else { 0.0 };
        let diff = row.received.saturating_sub(row.sent);
        let number = u64::clamped(n) + 1 + u64::from(skip);
        write!(out, " {number}; {}; {}; {diff}; {}; ;", row.received, row.sent, g(one_way, 6))?;
        match &last {
            None => writeln!(out)?,
            Some((before, before_way)) if row.received != 0 && before.received != 0 => {
                write!(
                    out,
                    " {}; {}; {}; ;",
                    tenth(row.received, before.received),
                    tenth(row.sent, before.sent),
                    g(one_way - before_way, 6)
                )?;
                write!(out, " {}; {}; ;", row.system_ns, row.raw_ns)?;
                write!(
                    out,
                    " {}; {}; ;",
                    micro(row.system_ns, before.system_ns),
                    micro(row.raw_ns, before.raw_ns)
                )?;
            }
            Some(_) => write!(out, " 0; 0; 0; ; 0; 0; ;")?,
        }
        last = Some((*row, one_way));
        writeln!(out)?;
    }
    Ok(())
}

/// The records of lost packets: `rows` rows, as the original prints, empty ones included.
pub(super) fn lost(
    test: &PacketTest,
    skip: u32,
    rows: u32,
    as_original: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, " num packets skipped =; {skip}")?;
    writeln!(
        out,
        "lost event; recv_time 0.1us; send_time 0.1us; diff 0.1us; one_way time us; lost packet num; ;delta recv_time us; delta \
         send_time us; num packets between losses;"
    )?;
    let empty = if as_original { usize::clamped(rows).saturating_sub(test.lost.len()) } else { 0 };
    let nothing = std::iter::repeat_n(PacketTestLost::default(), empty);
    let mut last = PacketTestLost::default();
    for (n, row) in test.lost.iter().copied().chain(nothing).enumerate() {
        let told = row.received != 0 || row.sent != 0;
        let one_way =
            if told { ours(row.received, test.clock, as_original) - real(row.sent) / 10.0 } else { 0.0 };
        let diff = row.received.saturating_sub(row.sent);
        writeln!(
            out,
            " {}; {}; {}; {diff}; {}; {}; ; {}; {}; {}",
            n + 1,
            row.received,
            row.sent,
            g(one_way, 6),
            row.number,
            tenth(row.received, last.received),
            tenth(row.sent, last.sent),
            row.number.saturating_sub(last.number)
        )?;
        last = row;
    }
    Ok(())
}
