//! The report of Windows NTttcp: a table of threads, and five of totals.
//!
//! KB and MB are 1024 and 1024² bytes here. Counts that only Windows has are `n/a`; the nearest
//! that Linux has to a deferred procedure call is a receive softirq (`NET_RX` of /proc/softirqs),
//! which stands for it.

use super::args::{Role, Spec};
use super::files::Results;
use super::print::Lines;
use compat::number;
use metrics::{Real, real};

/// Bytes of Windows' MEG.
const MEG: f64 = 1_048_576.0;

/// `a / b`, or `n/a` where there is no `b`.
fn ratio(a: impl Real, b: impl Real) -> String {
    let (a, b) = (real(a), real(b));
    if b > 0.0 { format!("{:.3}", a / b) } else { "n/a".to_owned() }
}

/// Prints the tables of a test.
pub(super) fn write(spec: &Spec, results: &Results, out: &mut Lines<'_>) {
    out.line("\n\nThread  Time(s) Throughput(KB/s) Avg B / Compl");
    out.line("======  ======= ================ =============");
    for (index, thread) in results.threads.iter().enumerate() {
        let (rate, each) = (number::ratio(thread.bytes, thread.seconds), ratio(thread.bytes, thread.calls));
        out.line(format_args!("{index:6} {:8.3} {:16.3} {each:>13}", thread.seconds, rate / 1024.0));
    }
    let Results { bytes, seconds, host, .. } = results;
    let (total, length) = (real(*bytes), real(spec.phase().buffer.high.max(1)));
    let (sent, received) = if spec.layout.udp { host.datagrams } else { host.segments };
    let own = if spec.role == Role::Sender { sent } else { received };
    out.line("\n\n#####  Totals:  #####\n\n");
    out.line("   Bytes(MEG)    realtime(s) Avg Frame Size Throughput(MB/s)");
    out.line("================ =========== ============== ================");
    let (mega, frame) = (total / MEG, ratio(total, own));
    out.line(format_args!("{mega:16.6} {seconds:11.3} {frame:>14} {:16.3}", number::ratio(mega, *seconds)));
    out.line("\n\nThroughput(Buffers/s) Cycles/Byte       Buffers");
    out.line("===================== =========== =============");
    // Without the clock of the CPU the cycles are unknown.
    let known = host.mhz > 0.0 && *bytes > 0;
    let cycles = if known { format!("{:.3}", results.cycles()) } else { "n/a".to_owned() };
    let buffers = total / length;
    out.line(format_args!("{:21.3} {cycles:>11} {buffers:13.3}", number::ratio(buffers, *seconds)));
    out.line("\n\nDPCs(count/s) Pkts(num/DPC)   Intr(count/s) Pkts(num/intr)");
    out.line("============= ============= =============== ==============");
    let rate = |n: u64| if n > 0 { format!("{:.3}", number::ratio(n, *seconds)) } else { "n/a".to_owned() };
    let [deferred, interrupts] = [host.deferred, host.all_interrupts].map(|n| (rate(n), ratio(received, n)));
    out.line(format_args!("{:>13} {:>13} {:>15} {:>14}", deferred.0, deferred.1, interrupts.0, interrupts.1));
    out.line("\n\nPackets Sent Packets Received Retransmits Errors Avg. CPU %");
    out.line("============ ================ =========== ====== ==========");
    let again = if spec.layout.udp { "n/a".to_owned() } else { host.retransmits[0].to_string() };
    let (errors, busy) = (results.errors, (1.0 - host.share(3)) * 100.0);
    out.line(format_args!("{sent:12} {received:16} {again:>11} {errors:6} {busy:10.3}"));
}

#[cfg(test)]
mod tests {
    use super::super::files::Thread;
    use super::super::host::HostReading;
    use super::super::print::Now;
    use super::*;
    use crate::Layout;

    fn printed(spec: &Spec, results: &Results) -> Vec<String> {
        let now = Now::default();
        let mut out = Lines::at(&now);
        write(spec, results, &mut out);
        out.text.lines().map(str::to_owned).collect()
    }

    /// The sample of Microsoft's page on testing the throughput of virtual machines, `ntttcp -s -m
    /// 4,*,10.0.0.5 -t 300`.
    const SAMPLE: &str = "
Thread  Time(s) Throughput(KB/s) Avg B / Compl
======  ======= ================ =============
     0  300.006        29617.328     65536.000
     1  300.006        29267.468     65536.000
     2  300.006        28978.834     65536.000
     3  300.006        29016.806     65536.000


#####  Totals:  #####


   Bytes(MEG)    realtime(s) Avg Frame Size Throughput(MB/s)
================ =========== ============== ================
    34243.000000     300.005       1417.829          114.141


Throughput(Buffers/s) Cycles/Byte       Buffers
===================== =========== =============
             1826.262       7.036    547888.000


DPCs(count/s) Pkts(num/DPC)   Intr(count/s) Pkts(num/intr)
============= ============= =============== ==============
     4218.744         1.708        6055.769          1.190


Packets Sent Packets Received Retransmits Errors Avg. CPU %
============ ================ =========== ====== ==========
    25324915          2161992       60412      0     15.075
";

    #[test]
    fn the_documented_tables_come_out_of_their_own_figures() {
        let spec = Spec {
            role: Role::Sender,
            windows: true,
            layout: Layout { ports: 4, ..Layout::default() },
            buffer: Some(65_536),
            ..Spec::default()
        };
        let bytes = 34_243 << 20;
        // 547888 buffers at 1826.262 a second, 1265645 DPCs at 4218.744 and 1816762 interrupts at
        // 6055.769: the time that was printed as 300.005 has lost its digits.
        let seconds = 300.005_16;
        let thread = |kb: f64| {
            let bytes = (kb * 1024.0 * 300.006).round() as u64;
            Thread { bytes, calls: (bytes as f64 / 65_536.0).round() as u64, seconds: 300.006 }
        };
        let host = HostReading {
            // 15.075 % busy.
            cpu: [15_075, 0, 0, 84_925, 0, 0, 0, 0],
            // MHz and cores so that speed · cores · busy · time / bytes is 7.036.
            cores: 4,
            mhz: 7.036 * bytes as f64 / (4.0 * 0.150_75 * seconds) / 1e6,
            segments: (25_324_915, 2_161_992),
            deferred: 1_265_645,
            all_interrupts: 1_816_762,
            retransmits: [60_412, 0, 0, 0, 0, 0, 0],
            ..HostReading::default()
        };
        let threads = [29_617.328, 29_267.468, 28_978.834, 29_016.806].map(thread).to_vec();
        let results = Results { bytes, seconds, threads, host, ..Results::default() };
        let ours = printed(&spec, &results);
        let theirs: Vec<&str> = SAMPLE.lines().collect();
        assert_eq!(ours.len(), theirs.len() + 1);
        for (ours, theirs) in ours.iter().skip(1).zip(&theirs) {
            // Bytes of a thread are whole, so the mean of a completion may differ in its last
            // digits.
            let words = |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
            if theirs.contains("65536.000") {
                assert_eq!(
                    (words(ours)[..3].to_vec(), ours.len()),
                    (words(theirs)[..3].to_vec(), theirs.len())
                );
            } else {
                assert_eq!(ours, theirs);
            }
        }
    }

    #[test]
    fn the_seed_of_the_manual_comes_out_too() {
        // Teldat's manual on ttcp, Windows as the sender: 118358016 bytes, 81305 packets sent,
        // 79529 received, 30489 DPCs, 1806 buffers of 65536 in 10 s; a thread of 115584 KB in 9.999
        // s.
        let spec = Spec {
            role: Role::Sender,
            windows: true,
            layout: Layout { ports: 1, ..Layout::default() },
            buffer: Some(65_536),
            ..Spec::default()
        };
        let thread = Thread { bytes: 115_584 * 1024, calls: 1_806, seconds: 9.999 };
        let host = HostReading { segments: (81_305, 79_529), deferred: 30_489, ..HostReading::default() };
        let results =
            Results { bytes: 118_358_016, seconds: 10.0, threads: vec![thread], host, ..Results::default() };
        let lines = printed(&spec, &results);
        let has = |text: &str| assert!(lines.iter().any(|line| line.contains(text)), "{text}: {lines:#?}");
        has("     0    9.999        11559.556     65536.000");
        has("      112.875000      10.000       1455.729");
        has("              180.600         n/a      1806.000");
        has("         2.608             n/a            n/a");
    }

    #[test]
    fn what_is_not_known_is_not_zero() {
        let results =
            Results { bytes: 0, seconds: 0.0, threads: vec![Thread::default()], ..Results::default() };
        let lines = printed(
            &Spec { windows: true, layout: Layout { udp: true, ..Layout::default() }, ..Spec::default() },
            &results,
        );
        assert!(lines.iter().filter(|line| line.contains("n/a")).count() >= 4, "{lines:#?}");
    }
}
