//! Counters of the host, from the kernel's texts.

use super::args::Spec;
use metrics::{Clamped, real};

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HostReading {
    /// user, nice, system, idle, iowait, irq, softirq, steal, in ticks.
    pub(crate) cpu: [u64; 8],
    /// CPUs.
    pub(crate) cores: u64,
    /// Clock of the first, MHz; 0 where the kernel does not report it.
    pub(crate) mhz: f64,
    /// RetransSegs, TCPLostRetransmit, TCPSynRetrans, TCPFastRetrans, TCPForwardRetrans,
    /// TCPSlowStartRetrans, TCPRetransFail.
    pub(crate) retransmits: [u64; 7],
    /// Interrupts of the lines asked for.
    pub(crate) interrupts: u64,
    pub(crate) packets: (u64, u64),
    /// TCP segments sent and received.
    pub(crate) segments: (u64, u64),
    /// UDP datagrams sent and received.
    pub(crate) datagrams: (u64, u64),
    /// Interrupts of all kinds.
    pub(crate) all_interrupts: u64,
    /// Receive softirqs: the deferred part of interrupts.
    pub(crate) deferred: u64,
}

impl HostReading {
    /// Reads the host figures in the printout of a test of `spec`; `text` gives the text of a file
    /// of /proc or /sys, empty where there is none.
    pub(crate) fn of(spec: &Spec, text: &dyn Fn(&str) -> String) -> HostReading {
        let [stat, cpuinfo, snmp, netstat] =
            ["stat", "cpuinfo", "net/snmp", "net/netstat"].map(|name| text(&format!("/proc/{name}")));
        let cpu_lines = || stat.lines().filter(|line| line.starts_with("cpu"));
        let mut cpu = [0; 8];
        if let Some(all) = cpu_lines().find(|line| line.starts_with("cpu ")) {
            let ticks = all.split_whitespace().skip(1).map(|text| text.parse().unwrap_or(0));
            cpu.iter_mut().zip(ticks).for_each(|(slot, n)| *slot = n);
        }
        let mhz = cpuinfo.lines().find(|line| line.starts_with("cpu MHz"));
        let all_interrupts =
            stat.lines().find_map(|line| line.strip_prefix("intr ")?.split_whitespace().next());
        let tcp = |name: &str| named(&snmp, "Tcp:", name);
        let udp = |name: &str| named(&snmp, "Udp:", name);
        let ext = |name: &str| named(&netstat, "TcpExt:", name);
        // An interface's name is no path.
        let nic = spec.nic.as_deref().filter(|nic| !nic.contains('/') && !nic.contains(".."));
        let packets = |way: &str| {
            let path = |nic: &str| format!("/sys/class/net/{nic}/statistics/{way}_packets");
            nic.and_then(|nic| text(&path(nic)).trim().parse().ok()).unwrap_or(0)
        };
        let interrupts_of = |device: &String| interrupts(&text("/proc/interrupts"), device);
        HostReading {
            cpu,
            cores: u64::clamped(cpu_lines().count().saturating_sub(1)),
            mhz: mhz.and_then(|line| line.rsplit(':').next()?.trim().parse().ok()).unwrap_or(0.0),
            retransmits: [
                tcp("RetransSegs"),
                ext("TCPLostRetransmit"),
                ext("TCPSynRetrans"),
                ext("TCPFastRetrans"),
                ext("TCPForwardRetrans"),
                ext("TCPSlowStartRetrans"),
                ext("TCPRetransFail"),
            ],
            interrupts: spec.interrupts.as_ref().map_or(0, interrupts_of),
            packets: (packets("tx"), packets("rx")),
            segments: (tcp("OutSegs"), tcp("InSegs")),
            datagrams: (udp("OutDatagrams"), udp("InDatagrams")),
            all_interrupts: all_interrupts.and_then(|n| n.parse().ok()).unwrap_or(0),
            deferred: if spec.windows { interrupts(&text("/proc/softirqs"), "NET_RX:") } else { 0 },
        }
    }

    /// The counts since `before`.
    pub(crate) fn since(&self, before: &HostReading) -> HostReading {
        let minus = |a: u64, b: u64| a.saturating_sub(b);
        let mut after = self.clone();
        after.cpu.iter_mut().zip(before.cpu).for_each(|(now, then)| *now = minus(*now, then));
        after.retransmits.iter_mut().zip(before.retransmits).for_each(|(now, then)| *now = minus(*now, then));
        after.interrupts = minus(self.interrupts, before.interrupts);
        let both = |a: (u64, u64), b: (u64, u64)| (minus(a.0, b.0), minus(a.1, b.1));
        after.packets = both(self.packets, before.packets);
        after.segments = both(self.segments, before.segments);
        after.datagrams = both(self.datagrams, before.datagrams);
        after.all_interrupts = minus(self.all_interrupts, before.all_interrupts);
        after.deferred = minus(self.deferred, before.deferred);
        after
    }

    /// The share of ticks of a class, 0..=1.
    pub(crate) fn share(&self, class: usize) -> f64 {
        let all: u64 = self.cpu.iter().sum();
        let part = self.cpu.get(class).copied().unwrap_or(0);
        if all == 0 { 0.0 } else { real(part) / real(all) }
    }
}

/// A counter out of a pair of lines, names and below them values; 0 where it is not there.
fn named(text: &str, row: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter(|line| line.starts_with(row));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let mut counters = names.split_whitespace().zip(values.split_whitespace());
    counters.find(|(word, _)| *word == name).and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

/// All numbers of all lines that hold `device`.
fn interrupts(text: &str, device: &str) -> u64 {
    let of = |line: &str| -> u64 {
        line.split_whitespace()
            .skip(1)
            .map_while(|word| word.parse::<u64>().ok())
            .fold(0, u64::saturating_add)
    };
    text.lines().filter(|line| line.contains(device)).map(of).fold(0, u64::saturating_add)
}

/// The host's counts in the test of the sample files and of the sample console: 84773 interrupts at
/// 28251.055 a second.
#[cfg(test)]
pub(super) fn sampled() -> HostReading {
    HostReading {
        cpu: [4110, 33, 2762, 17, 0, 0, 3078, 0],
        cores: 2,
        mhz: 2596.124,
        retransmits: [2, 0, 0, 2, 0, 0, 0],
        interrupts: 84_773,
        packets: (242_478, 242_478),
        ..HostReading::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_names() {
        let text = |path: &str| {
            match path {
                "/proc/stat" => {
                    "cpu  10 1 20 60 5 0 4 0 0 0\ncpu0 5 0 10 30 2 0 2 0\ncpu1 5 1 10 30 3 0 2 0\nintr 5\n"
                }
                "/proc/net/snmp" => {
                    "Tcp: RtoMin InSegs OutSegs RetransSegs\nTcp: 200 77 88 9\nUdp: InDatagrams NoPorts OutDatagrams\nUdp: 1 2 3\n"
                }
                "/proc/softirqs" => "          CPU0 CPU1\n  NET_TX: 1 2\n  NET_RX: 30 40\n",
                "/proc/net/netstat" => "TcpExt: TCPFastRetrans TCPSynRetrans\nTcpExt: 4 2\nIpExt: A\nIpExt: 1\n",
                "/proc/interrupts" => " CPU0 CPU1\nLOC: 100 200 Local timer interrupts\n 25: 7 8 eth0\n",
                "/proc/cpuinfo" => "processor : 0\ncpu MHz\t\t: 2596.124\n",
                "/sys/class/net/eth0/statistics/tx_packets" => "3\n",
                "/sys/class/net/eth0/statistics/rx_packets" => "4\n",
                _ => "",
            }
            .to_owned()
        };
        let (nic, interrupts) = (Some("eth0".to_owned()), Some("LOC".to_owned()));
        let reading = HostReading::of(&Spec { nic, interrupts, windows: true, ..Spec::default() }, &text);
        assert_eq!((reading.cores, reading.mhz, reading.interrupts), (2, 2596.124, 300));
        assert_eq!(reading.retransmits, [9, 0, 2, 4, 0, 0, 0]);
        assert_eq!((reading.segments, reading.datagrams), ((88, 77), (3, 1)));
        assert_eq!((reading.all_interrupts, reading.deferred), (5, 70));
        assert!((reading.share(0) - 0.1).abs() < 1e-12 && (reading.share(3) - 0.6).abs() < 1e-12);
        let later = HostReading { interrupts: 305, packets: (9, 9), ..reading };
        assert_eq!((later.since(&reading).interrupts, later.since(&reading).packets), (5, (6, 5)));
        assert_eq!(HostReading::of(&Spec::default(), &|_| String::new()), HostReading::default());
        // An interface's name is no path.
        let spec = Spec { nic: Some("../eth0".to_owned()), ..Spec::default() };
        assert_eq!(HostReading::of(&spec, &|_| "7".to_owned()).packets, (0, 0));
    }
}
