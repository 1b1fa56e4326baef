//! Pieces of lines and whole tables: CPUs, interfaces, counters, histograms, records.

use super::args::{Program, Spec};
use crate::packet_stats::TITLES;
use crate::{
    PacketTest, PacketTestClock, PacketTestCpu, PacketTestHost, PacketTestIp, PacketTestLost,
    PacketTestRecord, PacketTestRecords,
};
use compat::Text;
use compat::number::g;
use metrics::{Binned, Clamped, Shape, real, seconds};

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
    let one = |n: usize| {
        let cpu = if n == 0 { format!(" <{end} CPU>;") } else { format!("; {end}{} CPU;", n - 1) };
        cpu + " user cpu %; low-prio cpu %; kernel cpu%; idle cpu%; iowait cpu %; irq cpu%; softirq cpu%;"
    };
    (0..cpus.len()).map(one).collect()
}

/// The CPU columns.
pub(super) fn cpus(end: char, cpus: &[PacketTestCpu]) -> String {
    let one = |(n, cpu): (usize, &PacketTestCpu)| {
        let PacketTestCpu { user, nice, system, idle, iowait, irq, softirq, .. } = cpu;
        let number = n.checked_sub(1).map_or_else(String::new, |number| number.to_string());
        format!("{end}{number} ; {user}; {nice}; {system}; {idle}; {iowait}; {irq}; {softirq}; ;")
    };
    cpus.iter().enumerate().map(one).collect()
}

/// Titles of the columns of interfaces.
pub(super) fn interface_titles(end: char) -> String {
    format!(" {end} if; interface:; pktsin; bytesin; errin; dropin; pktsout; bytesout; errout; dropout;")
}

/// Traffic of each interface.
fn interface_rows(host: &PacketTestHost) -> impl Iterator<Item = String> {
    host.interfaces.iter().map(|interface| {
        let counts: String = interface.counts.iter().map(|n| format!(" {n};")).collect();
        format!("{:>6}: ;{counts}", interface.name)
    })
}

pub(super) fn interfaces(end: char, host: &PacketTestHost) -> String {
    format!("{end} if;{}", interface_rows(host).collect::<String>())
}

/// Interfaces in a table of their own.
pub(super) fn interface_table(end: char, host: &PacketTestHost, out: &mut Text) {
    writeln!(out, "{}", interface_titles(end));
    interface_rows(host).for_each(|row| writeln!(out, "{row}"));
}

/// Titles of the columns of TCP's counters.
pub(super) fn tcp_titles(end: char) -> String {
    format!("{end} TCP; TCPInSegs; TCPInErrs; TCPOutSegs; TCPOutRsts; TCPRetransSegs;")
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
    let (interfaces, snmp) = (interface_titles(end), if v6 { "snmp6" } else { "snmp" });
    format!(
        "{interfaces} {end} {snmp}; InReceives; InDiscards; OutRequests; OutDiscards; UDPInDatagrams; UDPInErrors; \
         UDPOutDatagrams;"
    )
}

/// The columns of interfaces and counters.
pub(super) fn net(end: char, host: &PacketTestHost, v6: bool) -> String {
    let PacketTestIp { in_receives, in_discards, out_requests, out_discards, .. } = host.ip;
    let PacketTestIp { udp_in, udp_in_errors, udp_out, .. } = host.ip;
    let (interfaces, snmp) =
        (interfaces(end, host), if v6 { format!(" {end} snmp6") } else { format!("{end} snmp") });
    format!(
        "{interfaces}{snmp}; {in_receives}; {in_discards}; {out_requests}; {out_discards}; {udp_in}; {udp_in_errors}; \
         {udp_out};"
    )
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

/// Figures of a histogram's bins, by either arithmetic.
pub(super) fn shape(hist: &Binned, as_original: bool) -> Shape {
    if as_original { hist.shape_as_original() } else { hist.shape() }
}

pub(super) fn histogram(number: usize, title: &str, hist: &Binned, out: &mut Text) {
    writeln!(out, "Hist {number:>8} {title}");
    writeln!(
        out,
        " counts {} mean {:.2} underflows {} overflows {}",
        hist.count(),
        hist.mean(),
        hist.under,
        hist.over
    );
    for (n, bin) in hist.bins.iter().enumerate() {
        writeln!(out, "{} ; {bin}", hist.edge(n));
    }
}

/// Histograms with their numbers and titles, from the first on.
pub(super) fn histograms<'a>(all: impl Iterator<Item = &'a Binned>, out: &mut Text) {
    for (n, hist) in all.enumerate() {
        histogram(n, TITLES.get(n).copied().unwrap_or_default(), hist, out);
    }
}

/// The lines after the histogram of round trips.
pub(super) fn histogram_shape(hist: &Binned, as_original: bool, out: &mut Text) {
    let s = shape(hist, as_original);
    writeln!(out, " counts {}; underflows {}; overflows {}; ", s.count, hist.under, hist.over);
    let [mean, sigma, skew, kurtosis] = [s.mean, s.sigma, s.skew, s.kurtosis].map(|value| g(value, 4));
    writeln!(out, " mean {mean} sigma {sigma}; coeff_skew {skew}; coeff_kurtosis {kurtosis}; ");
    writeln!(out, " median {}; 25-quartile {}; 75-quartile {}; ", s.median, s.q1, s.q3);
}

/// Time of a line: seconds since 1970, days of Excel, and hours since the `first` line.
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

/// The time that a packet took, µs, by either arithmetic.
fn one_way(test: &PacketTest, received: i64, sent: i64, as_original: bool) -> f64 {
    let came = received != 0 || sent != 0;
    if came { ours(received, test.clock, as_original) - real(sent) / 10.0 } else { 0.0 }
}

/// The records that were asked for. A receiver knows nothing of the sender's clock: its have no
/// one-way times.
pub(super) fn records(spec: &Spec, test: &PacketTest, out: &mut Text) {
    let receives = spec.program == Program::Recv;
    match spec.packet_tests.records {
        PacketTestRecords::None => {}
        PacketTestRecords::Packets { skip, .. } if receives => received(spec, &test.records, skip, out),
        PacketTestRecords::Packets { skip, .. } => packets(test, skip, spec.as_original, out),
        PacketTestRecords::Lost { skip, n } => lost(spec, test, skip, n, out),
    }
}

/// Packets one by one.
fn packets(test: &PacketTest, skip: u32, as_original: bool, out: &mut Text) {
    writeln!(out, " num packets skipped =; {skip}");
    writeln!(
        out,
        "packet; recv_time 0.1us; send_time 0.1us; diff 0.1us; 1-way time us; ;delta recv_time us; delta send_time us; delta 1-way \
         time us; ;HW system time ns; HW raw time ns; ;delta HW system time us; delta HW raw time us;  "
    );
    let mut last: Option<(&PacketTestRecord, f64)> = None;
    for (number, row) in (u64::from(skip) + 1..).zip(&test.records) {
        let PacketTestRecord { received, sent, system_ns, raw_ns } = *row;
        let way = one_way(test, received, sent, as_original);
        let diff = received.saturating_sub(sent);
        write!(out, " {number}; {received}; {sent}; {diff}; {}; ;", g(way, 6));
        match last.replace((row, way)) {
            None => writeln!(out),
            Some((before, before_way)) if received != 0 && before.received != 0 => write!(
                out,
                " {}; {}; {}; ; {system_ns}; {raw_ns}; ; {}; {}; ;",
                tenth(received, before.received),
                tenth(sent, before.sent),
                g(way - before_way, 6),
                micro(system_ns, before.system_ns),
                micro(raw_ns, before.raw_ns)
            ),
            Some(_) => write!(out, " 0; 0; 0; ; 0; 0; ;"),
        }
        writeln!(out);
    }
}

/// A receiver's differences of times: tenths, which the original heads as microseconds.
fn step(spec: &Spec, now: i64, before: i64) -> String {
    let raw = spec.as_original && spec.program == Program::Recv;
    if raw { now.saturating_sub(before).to_string() } else { tenth(now, before) }
}

/// Packets one by one, as `udpmon_recv` prints them.
fn received(spec: &Spec, rows: &[PacketTestRecord], skip: u32, out: &mut Text) {
    writeln!(out, "recv_time ipg us; send_time ipg us; ");
    writeln!(out, " num packets skipped =; {skip}");
    writeln!(
        out,
        "packet num; recv_time 0.1us; send_time 0.1us; diff 0.1us; ;delta recv_time us; delta send_time us; ;HW system time ns; HW raw \
         time ns; ;delta HW system time us; delta HW raw time us;  "
    );
    let mut last: Option<&PacketTestRecord> = None;
    for (number, row) in (u64::from(skip) + 1..).zip(rows) {
        let PacketTestRecord { received, sent, system_ns, raw_ns } = *row;
        // The original takes them the other way round.
        let diff = received.saturating_sub(sent) * if spec.as_original { -1 } else { 1 };
        write!(out, " {number}; {received}; {sent}; {diff}; ;");
        match last.replace(row) {
            None => write!(out, " ; ; ; {system_ns}; {raw_ns}; ; ; ; ;"),
            Some(before) => write!(
                out,
                "{}; {}; ; {system_ns}; {raw_ns}; ; {}; {}; ;",
                step(spec, received, before.received),
                step(spec, sent, before.sent),
                micro(system_ns, before.system_ns),
                micro(raw_ns, before.raw_ns)
            ),
        }
        // In place of the end of a line the original prints these two characters.
        if spec.as_original { write!(out, "/n") } else { writeln!(out) }
    }
}

/// The records of lost packets: `rows` rows, as the original prints, empty ones included.
fn lost(spec: &Spec, test: &PacketTest, skip: u32, rows: u32, out: &mut Text) {
    let sends = spec.program != Program::Recv;
    let (titles, gap) = if sends { (" diff 0.1us; one_way time us;", " ;") } else { ("", "") };
    writeln!(out, " num packets skipped =; {skip}");
    writeln!(
        out,
        "lost event; recv_time 0.1us; send_time 0.1us;{titles} lost packet num;{gap}delta recv_time us; delta send_time us; num \
         packets between losses;"
    );
    let empty = if spec.as_original { usize::clamped(rows).saturating_sub(test.lost.len()) } else { 0 };
    let nothing = std::iter::repeat_n(PacketTestLost::default(), empty);
    let mut last = PacketTestLost::default();
    for (n, row) in (1..).zip(test.lost.iter().copied().chain(nothing)) {
        let PacketTestLost { received, sent, number } = row;
        let (diff, way) = (received.saturating_sub(sent), one_way(test, received, sent, spec.as_original));
        let times = if sends { format!(" {diff}; {};", g(way, 6)) } else { String::new() };
        writeln!(
            out,
            " {n}; {received}; {sent};{times} {number};{gap} {}; {}; {}",
            step(spec, received, last.received),
            step(spec, sent, last.sent),
            number.saturating_sub(last.number)
        );
        last = row;
    }
}
