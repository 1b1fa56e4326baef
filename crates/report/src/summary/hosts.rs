//! The hosts' part: TCP as their kernels saw it, CPU, settings, placement.

use crate::text::{Column, Page, Table, Tone, or_dash};
use crate::words;
use metrics::{Real, TcpTotals, format_bytes, format_duration, format_percent, real};
use model::{Begin, CpuUse, HostSnapshot, Kind, Point, Totals};

/// Both ends' totals under the names that the report uses, ours first.
pub(crate) fn ends(point: &Point) -> impl Iterator<Item = (String, &Totals)> {
    let local = ("this end".to_owned(), &point.local);
    std::iter::once(local).chain(point.remote.iter().map(|t| (format!("server {}", t.who), t)))
}

pub(super) fn write(point: &Point, begin: &Begin, verbose: bool, page: &mut Page<'_>) {
    if !matches!(point.phase.kind, Kind::Stream | Kind::Delay | Kind::Train | Kind::Capacity) {
        tcp(point, page);
    }
    cpu(point, page);
    settings(point, page);
    placement(point, begin, page);
    if !verbose {
        return;
    }
    let remote = point.sessions.iter().map(|s| (format!("server {}", s.address), &s.host));
    for (name, host) in std::iter::once(("this end".to_owned(), &begin.host)).chain(remote) {
        page.gap();
        snapshot(&name, host, page);
    }
    counters(point, page);
}

/// The kernels' figures of the connections, and RFC 6349's.
fn tcp(point: &Point, page: &mut Page<'_>) {
    let columns: [Column<&TcpTotals>; 6] = [
        ("retransmits", |t| t.retransmits.to_string()),
        ("resent", |t| format_bytes(t.bytes_retrans)),
        ("min RTT", |t| or_dash((t.min_rtt_us > 0).then_some(t.min_rtt_us), us)),
        ("mean RTT", |t| or_dash(t.mean_rtt_us(), us)),
        ("window-limited", |t| share_of_busy(t, t.rwnd_limited_us)),
        ("buffer-limited", |t| share_of_busy(t, t.sndbuf_limited_us)),
    ];
    // Without TCP, or without its kernel's figures, an end has no row of zeros.
    let told = |tcp: &TcpTotals| tcp.connections > 0 || tcp.retransmits > 0 || tcp.rtt_samples > 0;
    let ends = ends(point).filter(|(_, totals)| told(&totals.tcp));
    let rows = ends.map(|(name, totals)| (Tone::Plain, name, &totals.tcp));
    page.section(&Table::of("TCP", &columns, rows));
    if let Some(efficiency) = point.tcp_efficiency_percent {
        page.remark(format!(
            "TCP efficiency {efficiency:.3} %: the share of all bytes sent that were not sent again (RFC 6349)"
        ));
    }
    if let Some(delay) = point.buffer_delay_percent {
        page.remark(format!(
            "Buffer delay {}: the load's addition to the smallest round trip (RFC 6349)",
            format_percent(delay)
        ));
    }
}

fn us(us: impl Real) -> String {
    format_duration(us.real() * 1e3)
}

fn share_of_busy(t: &TcpTotals, us: u64) -> String {
    or_dash((t.busy_us > 0).then(|| real(us) / real(t.busy_us)), percent)
}

/// CPU time of both ends and the cost of a gigabyte, or a connection.
fn cpu(point: &Point, page: &mut Page<'_>) {
    let columns: [Column<CpuUse>; 6] = [
        ("process", |cpu| format!("{:.2} s", cpu.process_s())),
        ("user", |cpu| format!("{:.2} s", cpu.user_s)),
        ("system", |cpu| format!("{:.2} s", cpu.system_s)),
        ("whole machine", |cpu| or_dash(cpu.share(cpu.machine_s), percent)),
        ("busiest CPU", |cpu| percent(cpu.busiest)),
        ("stolen", |cpu| or_dash(cpu.share(cpu.steal_s), percent)),
    ];
    let rows = ends(point).filter_map(|(name, totals)| Some((Tone::Plain, name, totals.cpu?)));
    let table = Table::of("CPU", &columns, rows);
    if table.is_empty() {
        return;
    }
    page.section(&table);
    let cost = [("this end", point.local_cpu_s_per_gb), ("the servers", point.remote_cpu_s_per_gb)];
    let known: Vec<String> = cost.iter().filter_map(|(who, s)| Some(format!("{who} {:.3}", (*s)?))).collect();
    if !known.is_empty() {
        page.line(Tone::Plain, &format!("  CPU seconds per GB (10^9 payload bytes): {}", known.join(", ")));
    }
    let local = &point.local;
    if let (Kind::Connect, Some(cpu), 1..) = (point.phase.kind, local.cpu, local.opened) {
        let each = format_duration(cpu.process_s() * 1e9 / real(local.opened));
        page.line(Tone::Plain, &format!("  CPU time per connection at this end: {each}"));
    }
}

/// The settings that were really in effect at both ends.
fn settings(point: &Point, page: &mut Page<'_>) {
    let datagrams = point.phase.kind == Kind::Stream;
    let mut table = Table::new("Settings in effect");
    for (name, totals) in ends(point) {
        let Some(effective) = &totals.effective else { continue };
        let (titles, values): (Vec<_>, Vec<_>) = effective.named(datagrams).into_iter().unzip();
        if table.is_empty() {
            table = Table::new(&format!("Settings in effect|{}", titles.join("|")));
        }
        let values = values.into_iter().map(|value| or_dash(value, |value| value));
        table.row(Tone::Plain, std::iter::once(name).chain(values).collect());
    }
    page.section(&table);
    let receivers: Vec<String> = ends(point)
        // A server's own totals cover sessions that may each have verified in another way.
        .filter(|(_, totals)| totals.traffic.rx_bytes > 0)
        .filter(|(_, totals)| !(totals.receive.is_empty() && point.remote.is_empty()))
        .map(|(name, totals)| format!("{name}: {}", words::received(totals, point.phase.verify)))
        .collect();
    if receivers.is_empty() {
        return;
    }
    page.gap();
    page.paragraph(Tone::Plain, "Verification  ", &receivers.join("; "));
}

/// Placement of workers on cores.
fn placement(point: &Point, begin: &Begin, page: &mut Page<'_>) {
    let servers = point.sessions.iter();
    let servers = servers.map(|s| (format!("server {}", s.address), &s.placement, s.workers, s.host.cpus));
    let local = ("this end".to_owned(), &begin.placement, begin.workers, begin.host.cpus);
    // Files and servers of other programs do not report their hosts.
    let known = std::iter::once(local).chain(servers).filter(|(.., cpus)| *cpus > 0);
    let words = known.map(|(name, placement, workers, cpus)| {
        let placement = if placement.is_empty() { "not known" } else { placement };
        let (workers, cpus) = (words::count(workers.into(), "worker"), words::count(cpus.into(), "CPU"));
        format!("{name}: {workers} ({placement}) on {cpus}")
    });
    let all: Vec<String> = words.collect();
    if all.is_empty() {
        return;
    }
    page.paragraph(Tone::Plain, "Placement     ", &all.join("; "));
}

fn snapshot(name: &str, host: &HostSnapshot, page: &mut Page<'_>) {
    if host.cpus == 0 {
        let host = if host.name.is_empty() { "not known" } else { host.name.as_str() };
        return page.line(Tone::Heading, &format!("Host of {name}: {host}"));
    }
    // A server without a key does not report all of it to clients on other hosts.
    let known = |text: &str| if text.is_empty() { "not told".to_owned() } else { text.to_owned() };
    page.line(Tone::Heading, &format!("Host of {name}: {}", known(&host.name)));
    let clock = match host.clock_synced {
        true => format!("clock synchronised within {}", format_duration(host.clock_error_ns)),
        false => "clock not synchronised".to_owned(),
    };
    let memory = if host.memory == 0 { String::new() } else { format!("{}, ", format_bytes(host.memory)) };
    page.remark(format!(
        "{}, {}, {memory}default congestion control {}, {clock}",
        known(&host.kernel),
        words::cpus(host),
        host.congestion
    ));
    if let Some(nic) = &host.nic {
        let speed = nic.speed_mbit.map_or("speed not known".to_owned(), |mbit| format!("{mbit} Mbit/s"));
        let name = match nic.name.as_str() {
            "" => "interface".to_owned(),
            name => format!("{name} ({})", nic.driver),
        };
        let offloads = nic.offloads.join(" ");
        page.remark(format!("{name}, MTU {}, {speed}, qdisc {}, offloads {offloads}", nic.mtu, nic.qdisc));
    }
    host.sysctl.iter().for_each(|(key, value)| page.line(Tone::Plain, &format!("  {key} = {value}")));
}

/// The counters that moved at either end.
fn counters(point: &Point, page: &mut Page<'_>) {
    let mut table = Table::new("Counters that moved|by");
    for (name, totals) in ends(point) {
        for (counter, by) in &totals.counters.moved {
            table.row(Tone::Plain, vec![format!("{name} {counter}"), by.to_string()]);
        }
    }
    page.section(&table);
}

/// A share of one in percent.
fn percent(share: f64) -> String {
    format_percent(share * 100.0)
}
