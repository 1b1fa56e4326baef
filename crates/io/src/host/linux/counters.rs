//! The kernel's counters of what went wrong on the way: the list, and how each file is read.
//!
//! A counter is here because its movement shows a run's reader events that the run itself cannot
//! see: this host dropped, refused, repeated or postponed something. Traffic counters are not here.

use crate::host::reading::Counter;
use std::collections::BTreeMap;

type Counters = BTreeMap<String, Counter>;

/// `/proc/net/snmp` and `/proc/net/netstat`: group, then names, kept as `Group.Name`. Counters that
/// the running kernel lacks are not found. (Meanings: `include/uapi/linux/snmp.h`,
/// `Documentation/networking/snmp_counter.rst`.)
const KEPT: &[(&str, &[&str])] = &[
    // Datagrams thrown away, and fragmentation: a sign that the datagrams do not fit the path.
    ("Ip", &["InHdrErrors", "InAddrErrors", "InUnknownProtos", "InDiscards", "OutDiscards", "OutNoRoutes"]),
    ("Ip", &["ReasmReqds", "ReasmTimeout", "ReasmFails", "FragCreates", "FragFails"]),
    // InCEPkts: marked by a congested router (ECN).
    ("IpExt", &["InNoRoutes", "InTruncatedPkts", "InCsumErrors", "InCEPkts", "ReasmOverlaps"]),
    ("Icmp", &["InErrors", "InCsumErrors", "InDestUnreachs", "InTimeExcds", "OutDestUnreachs"]),
    ("Udp", &["NoPorts", "InErrors", "RcvbufErrors", "SndbufErrors", "InCsumErrors", "MemErrors"]),
    ("Tcp", &["AttemptFails", "EstabResets", "RetransSegs", "InErrs", "OutRsts", "InCsumErrors"]),
    // Connections that a listener could not take.
    ("TcpExt", &["ListenOverflows", "ListenDrops", "TCPReqQFullDrop", "TCPReqQFullDoCookies"]),
    ("TcpExt", &["SyncookiesSent", "SyncookiesFailed", "EmbryonicRsts", "TCPFastOpenListenOverflow"]),
    ("TcpExt", &["TCPDeferAcceptDrop", "TCPTimeWaitOverflow", "TCPSYNChallenge", "TCPChallengeACK"]),
    // Segments that arrived and were thrown away here: memory, queues, checks.
    ("TcpExt", &["TCPBacklogDrop", "TCPRcvQDrop", "TCPZeroWindowDrop", "TCPOFODrop", "TCPMinTTLDrop"]),
    ("TcpExt", &["PruneCalled", "RcvPruned", "OfoPruned", "TCPRcvCollapsed", "TCPMemoryPressures"]),
    ("TcpExt", &["PAWSActive", "PAWSEstab", "TSEcrRejected", "PFMemallocDrop", "IPReversePathFilter"]),
    ("TcpExt", &["BeyondWindow", "LockDroppedIcmps", "TCPWqueueTooBig"]),
    // Milliseconds, not events.
    ("TcpExt", &["TCPMemoryPressuresChrono"]),
    // The receiver could not keep up and closed its window.
    ("TcpExt", &["TCPToZeroWindowAdv"]),
    // Repetitions of the sender, their causes, and the needless ones.
    ("TcpExt", &["TCPTimeouts", "TCPLossProbes", "TCPFastRetrans", "TCPSlowStartRetrans"]),
    ("TcpExt", &["TCPSynRetrans", "TCPRetransFail", "TCPSpuriousRTOs", "TCPDSACKRecv", "TCPSACKReneging"]),
    ("TcpExt", &["TCPLostRetransmit", "TCPSpuriousRtxHostQueues", "TcpTimeoutRehash", "TCPMTUPFail"]),
    // Reordering noticed, and segments marked by a congested router.
    ("TcpExt", &["TCPSACKReorder", "TCPRenoReorder", "TCPTSReorder", "TCPDeliveredCE"]),
    // Connections given up.
    ("TcpExt", &["TCPAbortOnData", "TCPAbortOnClose", "TCPAbortOnMemory", "TCPAbortOnTimeout"]),
    ("TcpExt", &["TCPAbortOnLinger", "TCPAbortFailed"]),
];

/// `/proc/net/snmp6`, where group and name are one word (`Udp6RcvbufErrors`); kept as
/// `Udp6.RcvbufErrors`.
const KEPT6: &[(&str, &[&str])] = &[
    ("Ip6", &["InHdrErrors", "InTooBigErrors", "InNoRoutes", "InAddrErrors", "InUnknownProtos"]),
    ("Ip6", &["InDiscards", "OutDiscards", "OutNoRoutes", "ReasmReqds", "ReasmTimeout", "ReasmFails"]),
    ("Ip6", &["FragFails", "FragCreates", "InCEPkts", "InTruncatedPkts"]),
    ("Icmp6", &["InErrors", "InCsumErrors", "InDestUnreachs", "OutDestUnreachs"]),
    ("Icmp6", &["InPktTooBigs", "InTimeExcds"]),
    ("Udp6", &["NoPorts", "InErrors", "RcvbufErrors", "SndbufErrors", "InCsumErrors", "MemErrors"]),
];

/// Columns of `/proc/net/softnet_stat`: packets taken from the cards; dropped because a CPU's
/// backlog was full (`net.core.netdev_max_backlog`); times a CPU ran out of its budget; the part of
/// the drops that was one heavy flow's.
const SOFTNET: [(&str, usize); 4] = [
    ("softnet.processed", 0),
    ("softnet.dropped", 1),
    ("softnet.time_squeeze", 2),
    ("softnet.flow_limit", 10),
];
/// The column with the CPU's number, since Linux 5.10; before, the line's number has to do.
const SOFTNET_CPU: usize = 12;

/// Columns of `/proc/net/stat/nf_conntrack` (there when connections are tracked): entries that
/// found no room.
const CONNTRACK: [(&str, &str); 3] = [
    ("conntrack.insert_failed", "insert_failed"),
    ("conntrack.drop", "drop"),
    ("conntrack.early_drop", "early_drop"),
];

/// Columns of `/proc/net/dev` behind an interface's name, by the names that the same counters have
/// below `/sys/class/net/X/statistics` (`dev_seq_printf_stats` in the kernel's
/// `net/core/net-procfs.c`).
const INTERFACE: [(&str, usize); 9] = [
    ("rx_errors", 2),
    ("rx_dropped", 3),
    ("rx_fifo_errors", 4),
    ("rx_frame_errors", 5),
    ("tx_errors", 10),
    ("tx_dropped", 11),
    ("tx_fifo_errors", 12),
    ("collisions", 13),
    ("tx_carrier_errors", 14),
];

/// Rows of `/proc/softirqs`.
const SOFTIRQS: [(&str, &str); 2] = [("softirq.NET_RX", "NET_RX:"), ("softirq.NET_TX", "NET_TX:")];

/// Reads all counters. `proc` gives the text of a file below /proc, `net` of one below /proc/net,
/// or `None`.
pub(super) fn counters(
    proc: impl Fn(&str) -> Option<String>,
    net: impl Fn(&str) -> Option<String>,
) -> BTreeMap<String, Counter> {
    let mut all = Counters::new();
    for file in ["snmp", "netstat"] {
        groups(&net(file).unwrap_or_default(), &mut all);
    }
    words(&net("snmp6").unwrap_or_default(), &mut all);
    softnet(&net("softnet_stat").unwrap_or_default(), &mut all);
    conntrack(&net("stat/nf_conntrack").unwrap_or_default(), &mut all);
    interfaces(&net("dev").unwrap_or_default(), &mut all);
    softirqs(&proc("softirqs").unwrap_or_default(), &mut all);
    // Context switches of all CPUs of the machine: a host with much other work hands packets over
    // late.
    if let Some(switches) = context_switches(&proc("stat").unwrap_or_default()) {
        all.insert("cpu.context_switches".to_owned(), Counter::Wide(switches));
    }
    all
}

/// Pairs of lines, `Group: name name …` and `Group: value value …`.
fn groups(text: &str, into: &mut Counters) {
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let (Some((group, names)), Some((again, values))) = (names.split_once(':'), values.split_once(':'))
        else {
            return;
        };
        if group != again {
            return;
        }
        for (name, value) in names.split_ascii_whitespace().zip(values.split_ascii_whitespace()) {
            // Not all of them are counters: Tcp.MaxConn is -1.
            if let (true, Ok(value)) = (kept(KEPT, group, name), value.parse()) {
                into.insert(format!("{group}.{name}"), Counter::Wide(value));
            }
        }
    }
}

/// Lines of `GroupName value`.
fn words(text: &str, into: &mut Counters) {
    for line in text.lines() {
        let mut fields = line.split_ascii_whitespace();
        let (Some(word), Some(Ok(value))) = (fields.next(), fields.next().map(str::parse)) else { continue };
        let Some((group, name)) = word.find('6').map(|at| word.split_at(at + 1)) else { continue };
        if kept(KEPT6, group, name) {
            into.insert(format!("{group}.{name}"), Counter::Wide(value));
        }
    }
}

fn kept(list: &[(&str, &[&str])], group: &str, name: &str) -> bool {
    list.iter().any(|(g, names)| *g == group && names.contains(&name))
}

/// A line for each CPU that is on, of hexadecimal columns.
fn softnet(text: &str, into: &mut Counters) {
    let mut found = SOFTNET.map(|_| BTreeMap::new());
    for (row, line) in (0..).zip(text.lines()) {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let hex = |column: usize| columns.get(column).and_then(|text| u32::from_str_radix(text, 16).ok());
        let cpu = hex(SOFTNET_CPU).unwrap_or(row);
        for ((_, column), by_cpu) in SOFTNET.iter().zip(&mut found) {
            by_cpu.extend(hex(*column).map(|value| (cpu, value)));
        }
    }
    keep(SOFTNET.map(|(name, _)| name), found, into);
}

/// A line of names, then one for each CPU, of hexadecimal columns.
fn conntrack(text: &str, into: &mut Counters) {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split_ascii_whitespace().collect();
    let columns = CONNTRACK.map(|(_, name)| names.iter().position(|n| *n == name));
    let mut found = CONNTRACK.map(|_| BTreeMap::new());
    for (cpu, line) in (0..).zip(lines) {
        let values: Vec<&str> = line.split_ascii_whitespace().collect();
        for (column, by_cpu) in columns.iter().zip(&mut found) {
            let value = column.and_then(|c| u32::from_str_radix(values.get(c)?, 16).ok());
            by_cpu.extend(value.map(|value| (cpu, value)));
        }
    }
    keep(CONNTRACK.map(|(name, _)| name), found, into);
}

/// The line `ctxt` of `/proc/stat`.
fn context_switches(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("ctxt ")?.trim().parse().ok())
}

/// A line of CPUs, then one for each kind of softirq, of decimal columns.
fn softirqs(text: &str, into: &mut Counters) {
    let mut lines = text.lines();
    let number = |cpu: &str| cpu.strip_prefix("CPU").and_then(|n| n.parse().ok());
    let cpus: Vec<Option<u32>> =
        lines.next().unwrap_or_default().split_ascii_whitespace().map(number).collect();
    let mut found = SOFTIRQS.map(|_| BTreeMap::new());
    for line in lines {
        let mut fields = line.split_ascii_whitespace();
        let Some(row) = fields.next().and_then(|kind| SOFTIRQS.iter().position(|(_, k)| *k == kind)) else {
            continue;
        };
        let pair = |(cpu, value): (&Option<u32>, &str)| Some(((*cpu)?, value.parse().ok()?));
        found[row] = cpus.iter().zip(fields).filter_map(pair).collect();
    }
    keep(SOFTIRQS.map(|(name, _)| name), found, into);
}

/// Keeps the counters of which at least one CPU was found.
fn keep<const N: usize>(names: [&str; N], found: [BTreeMap<u32, u32>; N], into: &mut Counters) {
    let seen = names.into_iter().zip(found).filter(|(_, by_cpu)| !by_cpu.is_empty());
    into.extend(seen.map(|(name, by_cpu)| (name.to_owned(), Counter::PerCpu(by_cpu))));
}

/// `/proc/net/dev`: one file for all interfaces, of the right network namespace, read without the
/// lock that a configuration change holds. The drops include `rx_missed_errors` (the card found no
/// free buffer), the frame errors include errors of length, CRC and overrun.
fn interfaces(text: &str, into: &mut Counters) {
    for (interface, counters) in interface_errors(text) {
        for (name, value) in counters {
            into.insert(format!("{interface}.{name}"), Counter::Wide(value));
        }
    }
}

/// The interfaces in the text of `/proc/net/dev` and what went wrong at each; lines that are cut
/// are left out.
pub(crate) fn interface_errors(text: &str) -> impl Iterator<Item = (&str, [(&'static str, u64); 9])> {
    // The first two lines are titles.
    text.lines().skip(2).filter_map(|line| {
        let (name, columns) = line.split_once(':')?;
        let columns: Vec<u64> = columns.split_ascii_whitespace().map_while(|n| n.parse().ok()).collect();
        let mut counters = INTERFACE.map(|(name, _)| (name, 0));
        for ((_, value), (_, column)) in counters.iter_mut().zip(INTERFACE) {
            *value = *columns.get(column)?;
        }
        Some((name.trim(), counters))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = include_str!("captured/before.txt");
    const AFTER: &str = include_str!("captured/after.txt");

    fn file(capture: &str, name: &str) -> Option<String> {
        let (_, text) = capture.split_once(&format!("==> {name} <==\n"))?;
        Some(text.split("==> ").next()?.to_owned())
    }

    fn read(capture: &str) -> Counters {
        counters(|name| file(capture, name), |name| file(capture, &format!("net/{name}")))
    }

    fn wide(all: &Counters, name: &str) -> Option<u64> {
        match all.get(name)? {
            Counter::Wide(value) => Some(*value),
            Counter::PerCpu(_) => None,
        }
    }

    /// How `name` moved from the one capture to the other.
    fn moved(name: &str) -> u64 {
        let (before, after) = (wide(&read(BEFORE), name), wide(&read(AFTER), name));
        let (Some(before), Some(after)) = (before, after) else { panic!("no {name}") };
        after - before
    }

    #[test]
    fn finds_what_the_sender_of_the_capture_knows_was_lost() {
        assert_eq!(moved("Udp.RcvbufErrors"), 97);
        assert_eq!(moved("Udp6.RcvbufErrors"), 47);
        assert_eq!(moved("TcpExt.ListenOverflows"), 4);
        assert_eq!(moved("TcpExt.ListenDrops"), 4);
        assert_eq!(moved("Tcp.RetransSegs"), 0);
    }

    #[test]
    fn reads_every_file() {
        let all = read(BEFORE);
        assert_eq!(wide(&all, "Tcp.OutRsts"), Some(96));
        assert_eq!(wide(&all, "Tcp.EstabResets"), Some(81));
        assert_eq!(wide(&all, "lo.rx_dropped"), Some(0));
        assert_eq!(wide(&all, "eth0.tx_carrier_errors"), Some(0));
        assert_eq!(all["softirq.NET_RX"], Counter::PerCpu(BTreeMap::from([(0, 7056), (1, 10934)])));
        assert_eq!(all["softnet.processed"], Counter::PerCpu(BTreeMap::from([(0, 0x40f), (1, 0x436c)])));
        assert!(!all.contains_key("Tcp.InSegs"), "traffic is not an error");
        assert_eq!(all["conntrack.drop"], Counter::PerCpu(BTreeMap::from([(0, 0), (1, 0)])));
    }

    #[test]
    fn interfaces_have_their_columns_and_lines_that_are_cut_are_left_out() {
        // /proc/net/dev of the capture, each column of eth0 given a number of its own; without a
        // blank before the first one, as it is printed when that is long.
        let text = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
  eth0:10 11 12 13 14 15 16 17 20 21 22 23 24 25 26 27
    lo: 11336689    4475    0    0    0     0          0         0 11336689    4475    0    0    0     0       0          0
  ifb0:       0       0    0    0    0     0          0         0        0       0    0    0    0     0
";
        let mut all = Counters::new();
        interfaces(text, &mut all);
        let want = [
            ("rx_errors", 12),
            ("rx_dropped", 13),
            ("rx_fifo_errors", 14),
            ("rx_frame_errors", 15),
            ("tx_errors", 22),
            ("tx_dropped", 23),
            ("tx_fifo_errors", 24),
            ("collisions", 25),
            ("tx_carrier_errors", 26),
        ];
        for (name, value) in want {
            assert_eq!(wide(&all, &format!("eth0.{name}")), Some(value), "{name}");
        }
        let of = |interface: &str| all.keys().filter(|name| name.starts_with(interface)).count();
        assert_eq!((of("eth0."), of("lo."), of("ifb0."), all.len()), (9, 9, 0, 18));
    }

    /// Names that no kernel has would silently never be found. This one has all but a few.
    #[test]
    fn the_list_has_no_misspelt_names() {
        let all = read(BEFORE);
        let lists = KEPT.iter().chain(KEPT6).flat_map(|(group, names)| names.iter().map(move |n| (group, n)));
        let missing: Vec<String> =
            lists.map(|(group, name)| format!("{group}.{name}")).filter(|n| !all.contains_key(n)).collect();
        assert_eq!(missing, Vec::<String>::new());
    }

    #[test]
    fn columns_of_an_old_softnet_stat_and_of_cpus_that_are_off() {
        // Linux 4.4 has no CPU column; in 5.10 and later CPU 1 of 3 may be off.
        let old = "0000000a 00000001 00000002 0 0 0 0 0 0 0 00000000\n0000000b 00000003 00000000 0 0 0 0 0 0 0 00000004\n";
        let new = "a 1 2 0 0 0 0 0 0 0 0 0 00000000 0 0\nb 3 0 0 0 0 0 0 0 0 4 0 00000002 0 0\n";
        for (text, second) in [(old, 1), (new, 2)] {
            let mut all = Counters::new();
            softnet(text, &mut all);
            assert_eq!(all["softnet.dropped"], Counter::PerCpu(BTreeMap::from([(0, 1), (second, 3)])));
            assert_eq!(all["softnet.flow_limit"], Counter::PerCpu(BTreeMap::from([(0, 0), (second, 4)])));
        }
    }

    #[test]
    fn columns_of_conntrack_are_found_by_name() {
        // /proc/net/stat/nf_conntrack of the test machine, with values put in (its own are zeros,
        // see `captured`).
        let text = "\
entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop icmp_error  expect_new
00000011  00000000 00000000 00000000 00000001 00000000 00000000 00000000 00000000 00000002 0000000f 00000000 00000000
00000011  00000000 00000000 00000000 00000001 00000000 00000000 00000000 00000000 00000003 00000010 00000001
";
        let mut all = Counters::new();
        conntrack(text, &mut all);
        assert_eq!(all["conntrack.insert_failed"], Counter::PerCpu(BTreeMap::from([(0, 2), (1, 3)])));
        assert_eq!(all["conntrack.drop"], Counter::PerCpu(BTreeMap::from([(0, 15), (1, 16)])));
        assert_eq!(all["conntrack.early_drop"], Counter::PerCpu(BTreeMap::from([(0, 0), (1, 1)])));
    }

    #[test]
    fn texts_that_are_cut_or_nonsense_are_survived() {
        // `bench/deep` has more.
        let step = if std::env::var_os("NETCALIPER_INPUTS").is_some() { 1 } else { 29 };
        let net =
            ["net/snmp", "net/netstat", "net/snmp6", "net/softnet_stat", "net/dev", "net/stat/nf_conntrack"];
        for name in net.into_iter().chain(["softirqs"]) {
            let whole = file(BEFORE, name).unwrap();
            // Cuts of a text, shown to every reader; a reader of the wrong file finds nothing worth
            // an alarm.
            for cut in (0..whole.len()).step_by(step) {
                let part = || Some(whole[..cut].to_owned());
                let _any = counters(|_| part(), |_| part());
            }
        }
        assert_eq!(counters(|_| None, |_| None), Counters::new());
    }
}
