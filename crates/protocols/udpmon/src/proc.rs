//! Reads the kernel's texts: shares of CPU time, traffic of interfaces, counters of IP, UDP and
//! TCP.

use crate::host::{HostCard, HostTexts};
use crate::{PacketTestCard, PacketTestCpu, PacketTestHost, PacketTestInterface, PacketTestIp};

/// Most interfaces that are reported, as in the original.
const MOST_INTERFACES: usize = 16;
/// Most CPUs, and their sum.
const MOST_CPUS: usize = 129;
/// Columns of a line of /proc/net/dev: bytes, packets, errors, drops, four others; the same out.
const DEV_COLUMNS: [usize; 8] = [1, 0, 2, 3, 9, 8, 10, 11];

/// Differences of a host's counters between two readings; empty if one of them was not taken. `v6`
/// takes the counters of IPv6.
pub fn between(start: &HostTexts, stop: &HostTexts, v6: bool) -> PacketTestHost {
    let taken = |texts: &HostTexts| *texts != HostTexts::default();
    if !taken(start) || !taken(stop) {
        return PacketTestHost::default();
    }
    PacketTestHost {
        cpus: cpus(&start.stat, &stop.stat),
        interfaces: interfaces(&start.dev, &stop.dev),
        ip: ip(start, stop, v6),
        cards: stop.cards.iter().map(|card| counted(start, stop, card)).collect(),
    }
}

/// user, nice, system, idle, iowait, irq, softirq of each line `cpu`.
fn times(stat: &str) -> impl Iterator<Item = (&str, [i64; 7])> {
    stat.lines().filter(|line| line.starts_with("cpu")).take(MOST_CPUS).filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let name = words.next()?;
        let numbers: Vec<i64> = words.map(|n| n.parse().unwrap_or(0)).collect();
        Some((name, *numbers.first_chunk()?))
    })
}

/// Shares of CPU time: all CPUs together, then each.
pub fn cpus(start: &str, stop: &str) -> Vec<PacketTestCpu> {
    let before: Vec<_> = times(start).collect();
    let one = |(name, after): (&str, [i64; 7])| {
        let was = before.iter().find(|(other, _)| *other == name).map_or([0; 7], |(_, row)| *row);
        let spent: [i64; 7] = std::array::from_fn(|i| after[i].saturating_sub(was[i]).max(0));
        let sum = |all: &[i64]| all.iter().fold(0, |sum: i64, n| sum.saturating_add(*n));
        let total = sum(&spent);
        let share = |n: i64| if total > 0 { (i128::from(n) * 100 / i128::from(total)) as i64 } else { 0 };
        let [.., kernel, _, iowait, irq, softirq] = spent;
        let system = share(sum(&[kernel, iowait, irq, softirq]));
        let [user, nice, kernel, idle, iowait, irq, softirq] = spent.map(share);
        PacketTestCpu { user, nice, system, idle, iowait, irq, softirq, kernel }
    };
    times(stop).map(one).collect()
}

/// Counters wrapped at 32 bits on old kernels.
fn moved(before: i64, after: i64) -> i64 {
    match after.saturating_sub(before) {
        negative @ ..0 => negative.saturating_add(i64::from(u32::MAX) + 1).max(0),
        moved => moved,
    }
}

fn dev(text: &str) -> impl Iterator<Item = (&str, [i64; 8])> {
    text.lines().skip(2).filter_map(|line| {
        let (name, numbers) = line.split_once(':')?;
        let all: Vec<i64> = numbers.split_ascii_whitespace().map(|n| n.parse().unwrap_or(0)).collect();
        let name = name.trim();
        is_interface(name).then(|| (name, DEV_COLUMNS.map(|column| all.get(column).copied().unwrap_or(0))))
    })
}

/// True if an interface can have this name. Names from the peer are printed, and could be any
/// bytes.
pub(super) fn is_interface(name: &str) -> bool {
    (1..16).contains(&name.len()) && name.chars().all(|c| c.is_ascii_graphic() || c.is_alphanumeric())
}

/// Traffic of each interface that existed at the start.
pub fn interfaces(start: &str, stop: &str) -> Vec<PacketTestInterface> {
    let one = |(name, before): (&str, [i64; 8])| {
        let after = dev(stop).find(|(other, _)| *other == name)?.1;
        let counts = std::array::from_fn(|i| moved(before[i], after[i]));
        Some(PacketTestInterface { name: name.to_owned(), counts })
    };
    dev(start).filter_map(one).take(MOST_INTERFACES).collect()
}

/// The names of a card's counters in UDPmon's order: first those of mlx5_core and bnxt_en, which
/// UDPmon knows, then other drivers' names. Packets in and out are the kernel's if the driver does
/// not count them.
const CARD: [&[&str]; 9] = [
    &["rx_ucast_frames", "rx_packets"],
    &["tx_ucast_frames", "tx_packets"],
    &["rx_packets_phy", "rx_total_frames"],
    &["tx_packets_phy", "tx_total_frames"],
    &["rx_pause_ctrl_phy", "rx_pause_frames", "rx_pause"],
    &["tx_pause_ctrl_phy", "tx_pause_frames", "tx_pause"],
    &["tx_global_pause_duration"],
    &["rx_crc_errors_phy", "rx_stat_err", "rx_crc_errors"],
    &["rx_out_of_buffer", "rx_stat_discard", "rx_missed_errors", "rx_no_buffer_count"],
];

/// Differences of a card's counters; -1 for one that it lacks.
fn counted(start: &HostTexts, stop: &HostTexts, card: &HostCard) -> PacketTestCard {
    let before = start.cards.iter().find(|other| other.name == card.name);
    let of = |card: &HostCard, name: &str| {
        card.counters
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, n)| i64::try_from(*n).unwrap_or(i64::MAX))
    };
    let kernel = |text: &str, column: usize| {
        dev(text).find(|(name, _)| *name == card.name).map(|(_, row)| row[column])
    };
    let one = |(at, names): (usize, &&[&str])| {
        let own = names.iter().find_map(|name| Some((of(before?, name)?, of(card, name)?)));
        let column = [0, 4].get(at).copied();
        let moved_on = own.or_else(|| column.and_then(|c| kernel(&start.dev, c).zip(kernel(&stop.dev, c))));
        moved_on.map_or(-1, |(before, after)| moved(before, after))
    };
    PacketTestCard { name: card.name.clone(), counts: CARD.iter().enumerate().map(one).collect() }
}

/// A counter of /proc/net/snmp: the line that names it, then the line with its numbers.
fn counter(text: &str, protocol: &str, name: &str) -> i64 {
    let mut lines =
        text.lines().filter_map(|line| line.split_once(':')).filter(|(head, _)| *head == protocol);
    let (Some((_, names)), Some((_, numbers))) = (lines.next(), lines.next()) else { return 0 };
    let column = names.split_ascii_whitespace().position(|column| column == name);
    let number = column.and_then(|column| numbers.split_ascii_whitespace().nth(column));
    number.and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// The same of /proc/net/snmp6, which has a name and a number in each line.
fn counter6(text: &str, protocol: &str, name: &str) -> i64 {
    let number = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (found, number) = (words.next()?, words.next()?);
        let found = found.strip_prefix(protocol)?.strip_prefix('6')?;
        (found == name).then(|| number.parse().unwrap_or(0))
    };
    text.lines().find_map(number).unwrap_or(0)
}

/// Differences of the counters of IP, UDP and TCP; the text for IPv4 counts TCP of both families.
fn ip(start: &HostTexts, stop: &HostTexts, v6: bool) -> PacketTestIp {
    let four = |protocol: &str, name: &str| {
        moved(counter(&start.snmp, protocol, name), counter(&stop.snmp, protocol, name))
    };
    let by = |protocol: &str, name: &str| match v6 {
        true => moved(counter6(&start.snmp6, protocol, name), counter6(&stop.snmp6, protocol, name)),
        false => four(protocol, name),
    };
    PacketTestIp {
        in_receives: by("Ip", "InReceives"),
        in_discards: by("Ip", "InDiscards"),
        out_requests: by("Ip", "OutRequests"),
        out_discards: by("Ip", "OutDiscards"),
        udp_in: by("Udp", "InDatagrams"),
        udp_in_errors: by("Udp", "InErrors"),
        udp_wrong_checksums: by("Udp", "InCsumErrors"),
        udp_out: by("Udp", "OutDatagrams"),
        tcp_in: four("Tcp", "InSegs"),
        tcp_out: four("Tcp", "OutSegs"),
        tcp_retransmitted: four("Tcp", "RetransSegs"),
        tcp_in_errors: four("Tcp", "InErrs"),
        tcp_resets: four("Tcp", "OutRsts"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEV: &str = "Inter-|   Receive                                                |  Transmit\n \
        face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
        lo: 1000      10    0    0    0     0          0         0     1000      10    0    0    0     0       0          0\n";

    #[test]
    fn what_moved_is_told() {
        let stop = DEV.replace(
            "1000      10    0    0    0     0          0         0     1000      10",
            "1500      14    1    2    0     0          0         0     1700      15",
        );
        let found = interfaces(DEV, &stop);
        assert_eq!(found, [PacketTestInterface { name: "lo".into(), counts: [4, 500, 1, 2, 5, 700, 0, 0] }]);
        let start = "Ip: Forwarding InReceives InDiscards\nIp: 1 10 0\nUdp: InDatagrams NoPorts InErrors\nUdp: 5 0 1\n";
        let stop = "Ip: Forwarding InReceives InDiscards\nIp: 1 30 2\nUdp: InDatagrams NoPorts InErrors\nUdp: 25 0 4\n";
        let texts = |snmp: &str| HostTexts { snmp: snmp.to_owned(), ..HostTexts::default() };
        let found = ip(&texts(start), &texts(stop), false);
        assert_eq!((found.in_receives, found.in_discards, found.udp_in, found.udp_in_errors), (20, 2, 20, 3));
        assert_eq!(found.out_requests, 0, "what is not told has not moved");
    }

    #[test]
    fn of_a_reading_that_was_not_taken_nothing_is_known() {
        let snmp = "Ip: Forwarding InReceives InDiscards\nIp: 1 30 2\n".to_owned();
        let taken = HostTexts { dev: DEV.to_owned(), snmp, ..HostTexts::default() };
        let none = HostTexts::default();
        for (start, stop) in [(&taken, &none), (&none, &taken)] {
            assert_eq!(between(start, stop, false), PacketTestHost::default());
        }
        assert_eq!(between(&taken, &taken, false).interfaces.len(), 1);
    }

    #[test]
    fn a_cards_counters_go_by_any_drivers_name() {
        let card = |counters: &[(&str, u64)]| {
            let counters = counters.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
            vec![HostCard { name: "lo".to_owned(), counters }]
        };
        let texts = |n: u64, dev: &str| HostTexts {
            dev: dev.to_owned(),
            cards: card(&[("rx_packets_phy", 100 + n), ("rx_missed_errors", 7), ("rx_crc_errors", n)]),
            ..HostTexts::default()
        };
        let later = DEV.replace(
            "1000      10    0    0    0     0          0         0     1000      10",
            "1000 14 0 0 0 0 0 0 1000 15",
        );
        let found = between(&texts(5, DEV), &texts(8, &later), false).cards;
        // Packets in and out are those of /proc/net/dev: 10 to 14 and 10 to 15.
        assert_eq!(
            found,
            [PacketTestCard { name: "lo".into(), counts: vec![4, 5, 3, -1, -1, -1, -1, 3, 0] }]
        );
    }

    #[test]
    fn shares_of_cpu_time_are_whole_percent() {
        let start = "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 50 0 50 400 0 0 0 0 0 0\nintr 5\n";
        let stop = "cpu  150 10 120 900 5 5 10 0 0 0\ncpu0 50 0 50 400 0 0 0 0 0 0\nintr 5\n";
        let found = cpus(start, stop);
        // 50, 10, 20, 100, 5, 5 and 10 of 200.
        let all = found[0];
        assert_eq!((all.user, all.nice, all.kernel, all.idle), (25, 5, 10, 50));
        assert_eq!((all.iowait, all.irq, all.softirq, all.system), (2, 2, 5, 20));
        assert_eq!(found[1], PacketTestCpu::default(), "no time has passed on it");
        assert_eq!(cpus("", "cpu nonsense\n"), []);
    }

    #[test]
    fn counters_that_wrap_go_on() {
        assert_eq!((moved(5, 9), moved(u32::MAX.into(), 4), moved(i64::MAX, 0)), (4, 5, 0));
    }
}
