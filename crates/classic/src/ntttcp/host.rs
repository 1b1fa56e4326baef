//! What the kernel says of the host, out of the texts that it says it in.

/// Texts of /proc and /sys, read by whoever may; empty where there are none.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    /// /proc/stat.
    pub stat: String,
    /// /proc/net/snmp.
    pub snmp: String,
    /// /proc/net/netstat.
    pub netstat: String,
    /// /proc/interrupts.
    pub interrupts: String,
    /// /proc/cpuinfo.
    pub cpuinfo: String,
    /// Packets sent and received by the interface asked for.
    pub packets: (u64, u64),
}

/// What was read of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// user, nice, system, idle, iowait, irq, softirq, steal, in ticks.
    pub cpu: [u64; 8],
    /// CPUs.
    pub cores: u64,
    /// Clock of the first, MHz; 0 where it is not told.
    pub mhz: f64,
    /// RetransSegs, TCPLostRetransmit, TCPSynRetrans, TCPFastRetrans, TCPForwardRetrans, TCPSlowStartRetrans, TCPRetransFail.
    pub retransmits: [u64; 7],
    /// Interrupts of the lines asked for.
    pub interrupts: u64,
    /// Packets sent and received.
    pub packets: (u64, u64),
}

impl Reading {
    /// Reads `texts`; `device` is what lines of /proc/interrupts have to hold.
    #[must_use]
    pub fn of(texts: &Texts, device: Option<&str>) -> Reading {
        let cpu_lines = || texts.stat.lines().filter(|line| line.starts_with("cpu"));
        let mut cpu = [0; 8];
        if let Some(all) = cpu_lines().find(|line| line.starts_with("cpu ")) {
            let ticks = all.split_whitespace().skip(1).map(|text| text.parse().unwrap_or(0));
            cpu.iter_mut().zip(ticks).for_each(|(slot, n)| *slot = n);
        }
        let mhz = texts.cpuinfo.lines().find(|line| line.starts_with("cpu MHz"));
        let counter = |text: &str, row: &str, name: &str| named(text, row, name).unwrap_or(0);
        let ext = |name: &str| counter(&texts.netstat, "TcpExt:", name);
        Reading {
            cpu,
            cores: cpu_lines().count().saturating_sub(1) as u64,
            mhz: mhz.and_then(|line| line.rsplit(':').next()?.trim().parse().ok()).unwrap_or(0.0),
            retransmits: [
                counter(&texts.snmp, "Tcp:", "RetransSegs"),
                ext("TCPLostRetransmit"),
                ext("TCPSynRetrans"),
                ext("TCPFastRetrans"),
                ext("TCPForwardRetrans"),
                ext("TCPSlowStartRetrans"),
                ext("TCPRetransFail"),
            ],
            interrupts: device.map_or(0, |device| interrupts(&texts.interrupts, device)),
            packets: texts.packets,
        }
    }

    /// What happened since `before`.
    #[must_use]
    pub fn since(&self, before: &Reading) -> Reading {
        let minus = |a: u64, b: u64| a.saturating_sub(b);
        let mut after = self.clone();
        after.cpu.iter_mut().zip(before.cpu).for_each(|(now, then)| *now = minus(*now, then));
        after.retransmits.iter_mut().zip(before.retransmits).for_each(|(now, then)| *now = minus(*now, then));
        after.interrupts = minus(self.interrupts, before.interrupts);
        after.packets = (minus(self.packets.0, before.packets.0), minus(self.packets.1, before.packets.1));
        after
    }

    /// The share of ticks of a class, 0..=1.
    #[must_use]
    pub fn share(&self, class: usize) -> f64 {
        let all: u64 = self.cpu.iter().sum();
        let part = self.cpu.get(class).copied().unwrap_or(0);
        if all == 0 { 0.0 } else { part as f64 / all as f64 }
    }
}

/// A counter out of a pair of lines: names, and below them values.
fn named(text: &str, row: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with(row));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split_whitespace().position(|word| word == name)?;
    values.split_whitespace().nth(at)?.parse().ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_names() {
        let texts = Texts {
            stat: "cpu  10 1 20 60 5 0 4 0 0 0\ncpu0 5 0 10 30 2 0 2 0\ncpu1 5 1 10 30 3 0 2 0\nintr 5\n"
                .to_owned(),
            snmp: "Tcp: RtoMin InSegs RetransSegs\nTcp: 200 77 9\n".to_owned(),
            netstat: "TcpExt: TCPFastRetrans TCPSynRetrans\nTcpExt: 4 2\nIpExt: A\nIpExt: 1\n".to_owned(),
            interrupts: " CPU0 CPU1\nLOC: 100 200 Local timer interrupts\n 25: 7 8 eth0\n".to_owned(),
            cpuinfo: "processor : 0\ncpu MHz\t\t: 2596.124\n".to_owned(),
            packets: (3, 4),
        };
        let reading = Reading::of(&texts, Some("LOC"));
        assert_eq!((reading.cores, reading.mhz, reading.interrupts), (2, 2596.124, 300));
        assert_eq!(reading.retransmits, [9, 0, 2, 4, 0, 0, 0]);
        assert!((reading.share(0) - 0.1).abs() < 1e-12 && (reading.share(3) - 0.6).abs() < 1e-12);
        let later = Reading { interrupts: 305, packets: (9, 9), ..reading };
        assert_eq!((later.since(&reading).interrupts, later.since(&reading).packets), (5, (6, 5)));
        assert_eq!(Reading::of(&Texts::default(), None), Reading::default());
    }
}
