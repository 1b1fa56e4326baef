//! Caveats about the hosts: when the figure shows them and not the path.

use super::packets::kept_schedule;
use super::{Case, Reason, join, percent};
use crate::{CauseCount, CpuUse, HostSnapshot, Kind, PacketReport, SessionInfo, Totals, Waiting};
use metrics::{Clamped, format_bytes, format_count, format_duration, real};
use std::net::IpAddr;

/// A CPU busier than this has nothing left to give.
pub(super) const CPU_FULL: f64 = 0.95;
/// A machine busier than this neither.
pub(super) const MACHINE_FULL: f64 = 0.90;
/// Share of a full machine's work from which it is this program's.
const OURS: f64 = 0.5;
/// Runs shorter than this are not judged by ticks of 10 ms, s.
const SHORTEST: f64 = 0.2;
/// Share of stolen time from which a figure suffers.
const STOLEN: f64 = 0.01;
/// Lateness of paced sends (99th percentile) that distorts their spacing, ns.
const LATE: u64 = 1_000_000;
/// Hosts with this many CPUs or fewer leave the scheduler choices that decide the figure.
const FEW_CPUS: u32 = 4;
/// Both ends on so few CPUs take them from each other.
const SHARED_CPUS: u32 = 2;

/// The load that filled a CPU or the whole machine: this program's or other programs'.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Filled {
    /// This program's share, with the kernel's for the network (softirqs).
    ByUs,
    /// Mostly other programs'.
    ByOthers,
}

/// The load that filled an end's CPUs, whose traffic took `ns`; `None` when they were not full.
fn filled(cpu: &CpuUse, ns: u64) -> Option<Filled> {
    // CPU time is of the omitted start, too, which the traffic leaves out; documents of 0.1.0 do
    // not have its length.
    let length_s = if cpu.wall_s > 0.0 { cpu.wall_s } else { real(ns) / 1e9 };
    // The kernel counts in ticks of 10 ms: of a shorter run there is nothing to say.
    if length_s < SHORTEST {
        return None;
    }
    let machine = cpu.share(cpu.machine_s).unwrap_or(0.0);
    let (one, all) = (cpu.busiest > CPU_FULL, machine > MACHINE_FULL);
    if !one && !all {
        return None;
    }
    // Which process had which CPU is not known: ours can have filled one only with as much work,
    // and the machine only with most.
    let ours = cpu.process_s() + cpu.softirq_s;
    let ours_one = one && ours >= CPU_FULL * length_s;
    let ours_all = all && ours >= OURS * cpu.machine_s;
    Some(if ours_one || ours_all { Filled::ByUs } else { Filled::ByOthers })
}

/// The ends whose CPUs were filled so, in words.
fn ends_filled(case: &Case<'_>, by: Filled) -> Option<String> {
    let phase = &case.point.phase;
    // Datagrams without a rate leave as fast as a CPU sends them.
    let scheduled = phase.rate.is_some() || phase.media.is_some();
    let waiting = phase.probe.map(|probe| probe.waiting).filter(|_| scheduled);
    if waiting == Some(Waiting::Spin) || phase.ping.is_some_and(|ping| ping.busy) {
        return None; // that is what spinning means
    }
    case.each_end(|end| {
        let cpu = end.totals.cpu.filter(|cpu| filled(cpu, end.totals.traffic.ns) == Some(by))?;
        if by == Filled::ByUs && waiting == Some(Waiting::Hybrid) && kept_schedule(case, end) {
            return None; // the sender spins for as long as it has to wait
        }
        let (busiest, machine) = (percent(cpu.busiest), percent(cpu.share(cpu.machine_s).unwrap_or(0.0)));
        Some(format!("the busiest CPU of {} was {busiest} busy and its whole machine {machine}", end.name))
    })
}

pub(super) fn host_busy(case: &Case<'_>) -> Option<Reason> {
    let clauses = ends_filled(case, Filled::ByOthers)?;
    let text = format!("Other programs kept a host busy ({clauses}): figures include the wait for a CPU.");
    Some((text, "Repeat when the host is quiet, or give the test CPUs of its own (--affinity)."))
}

pub(super) fn cpu_bound(case: &Case<'_>) -> Option<Reason> {
    let clauses = ends_filled(case, Filled::ByUs)?;
    let text =
        format!("A CPU was the limit ({clauses}): this is what the hosts manage, not what the path carries.");
    let advice =
        "Use larger buffers (-l), more connections (-P) on more CPUs, or --verify none, and compare.";
    Some((text, advice))
}

pub(super) fn steal(case: &Case<'_>) -> Option<Reason> {
    let clauses = case.each_end(|end| {
        let cpu = end.totals.cpu?;
        let stolen = cpu.share(cpu.steal_s)?;
        (stolen > STOLEN).then(|| format!("{:.1} % of the CPU time of {}", stolen * 100.0, end.name))
    })?;
    let text = format!("The hypervisor gave {clauses} to others: rates and times include that.");
    Some((text, "Repeat when the machine is quiet, or on dedicated CPUs."))
}

/// Share of a run for which a quota may hold this program back.
const HELD_BACK: f64 = 0.01;

pub(super) fn own_allowance(case: &Case<'_>) -> Option<Reason> {
    let hosts: Vec<&HostSnapshot> = case.hosts().map(|(_, host, ..)| host).collect();
    let clauses = join(case.ends().enumerate().filter_map(|(at, end)| {
        let moved = |name: &str| end.totals.counters.moved.get(name).copied().unwrap_or(0);
        let allowance = hosts.get(at).and_then(|host| host.allowance.as_ref());
        let mut clauses = Vec::new();
        let held_s = real(moved("cgroup.throttled_us")) / 1e6;
        let length_s = end.totals.cpu.map_or(0.0, |cpu| cpu.wall_s).max(SHORTEST);
        if held_s > HELD_BACK * length_s {
            let quota = allowance.and_then(|own| own.cpus).map(|cpus| format!(" of {cpus:.2} CPUs"));
            let periods = format_count(moved("cgroup.nr_throttled"), "period");
            clauses.push(format!(
                "its CPU quota{} held it back in {periods}, its threads for {held_s:.2} s together",
                quota.unwrap_or_default()
            ));
        }
        let limits = [
            (
                "cgroup.memory_limit_hits",
                "memory limit",
                allowance.and_then(|own| own.memory).map(format_bytes),
            ),
            (
                "cgroup.task_limit_hits",
                "limit of tasks",
                allowance.and_then(|own| own.tasks).map(|n| n.to_string()),
            ),
        ];
        for (name, what, most) in limits {
            if moved(name) > 0 {
                let most = most.map_or_else(String::new, |most| format!(" of {most}"));
                clauses.push(format!("its {what}{most} was reached {}", format_count(moved(name), "time")));
            }
        }
        (!clauses.is_empty()).then(|| format!("{}: {}", end.name, clauses.join(", ")))
    }))?;
    let text = format!(
        "The control group of a host limited this program ({clauses}): the figure is the quota's, not the path's."
    );
    Some((
        text,
        "Raise the limits of the container or service (CPU quota, memory, tasks), or measure outside of it.",
    ))
}

pub(super) fn late_pacing(case: &Case<'_>) -> Option<Reason> {
    let phase = &case.point.phase;
    // Datagrams are judged by their spacing.
    if (phase.rate.is_none() && phase.burst.is_none()) || phase.probe.is_some() {
        return None;
    }
    let clauses = case.each_end(|end| {
        let late = end.totals.late_ns.as_ref()?;
        (late.p99 > LATE).then(|| format!("{} of {}", format_duration(late.p99), end.name))
    })?;
    let text = format!(
        "Paced sends left late (99th percentile {clauses}): the traffic was burstier than what was asked for."
    );
    Some((text, "Use fewer connections, a lower rate or an idle CPU (--affinity)."))
}

pub(super) fn loopback(case: &Case<'_>) -> Option<Reason> {
    let by_address = |ip: &IpAddr| ip.to_canonical().is_loopback();
    let nic = case.begin.host.nic.as_ref().is_some_and(|nic| nic.loopback);
    let peers = case.point.sessions.iter().any(|s| by_address(&s.address.ip()));
    let remotes = &case.point.local.remotes;
    let served = !remotes.is_empty() && remotes.keys().all(by_address);
    (nic && !case.serving() || peers || served).then(|| {
        let text = "Both ends ran on one host over the loopback interface: this shows its CPU and memory and says \
                    nothing about a network.";
        (text.to_owned(), "Run the server on another host to measure a network.")
    })
}

pub(super) fn placement(case: &Case<'_>) -> Option<Reason> {
    // The other end has placed itself: a scheduler that may move ours out of its way was found to
    // do better than cores.
    let beside_others = case.legacy().is_some() && case.begin.placement == "spread";
    let advice = if beside_others {
        "Run the two ends on different hosts, or repeat the run and compare."
    } else {
        "Pin both ends with --affinity and compare placements."
    };
    let here = &case.begin.host;
    if !cpus_decide(case) {
        return None;
    }
    let shared = case.point.sessions.iter().any(|s| same_host(here, s));
    if shared && (1..=SHARED_CPUS).contains(&here.cpus) {
        let text = format!(
            "Both ends shared the {} of one host: which end ran where decides much of the figure.",
            format_count(here.cpus.into(), "CPU")
        );
        return Some((text, advice));
    }
    if beside_others {
        return None;
    }
    let unpinned = case.hosts().filter(|(_, host, placement, _)| {
        (2..=FEW_CPUS).contains(&host.cpus) && (placement.is_empty() || *placement == "spread")
    });
    let clauses = join(unpinned.map(|(name, host, _, workers)| {
        format!("{name} ran {} on {} CPUs", format_count(workers.into(), "worker"), host.cpus)
    }))?;
    let text = format!(
        "The scheduler was free to place the workers ({clauses}): where they land can change the figure by a third."
    );
    Some((text, advice))
}

/// Share of one CPU from which the place of a program decides a rate.
const DECIDES: f64 = 0.3;
/// The same of a median round trip, ns.
const QUICK: u64 = 200_000;

/// True if the figure may depend on the CPUs of the ends: a program that needs little of a CPU has
/// a place anywhere, and wake-ups are small beside a long round trip.
fn cpus_decide(case: &Case<'_>) -> bool {
    let trip = case.point.local.pings.as_ref().and_then(|pings| pings.rtt_ns.as_ref()?.quantile(0.5));
    if case.point.phase.kind == Kind::Ping && trip.is_some() {
        return trip < Some(QUICK);
    }
    let share = |cpu: &CpuUse| if cpu.wall_s > 0.0 { cpu.process_s() / cpu.wall_s } else { 1.0 };
    case.ends().any(|end| end.totals.cpu.as_ref().is_none_or(|cpu| share(cpu) > DECIDES))
}

/// True if the server runs on the same machine (perhaps in another network namespace).
fn same_host(here: &HostSnapshot, session: &SessionInfo) -> bool {
    let there = &session.host;
    let alike = !here.name.is_empty() && here.name == there.name && here.kernel == there.kernel;
    session.same_host
        || session.address.ip().to_canonical().is_loopback()
        || (alike && here.memory == there.memory)
}

/// A connection request is sent again after this time at least, ns.
const TRIED_AGAIN: u64 = 900_000_000;

pub(super) fn listen_drops(case: &Case<'_>) -> Option<Reason> {
    // The counters are of the whole host: without a slow or failed connection of the run, the
    // dropped requests were other programs'.
    let slowest = case.point.local.connect_ns.as_ref().map(|all| all.max);
    if slowest.is_some_and(|ns| ns < TRIED_AGAIN) && case.point.local.network_errors == 0 {
        return None;
    }
    let names = ["TcpExt.ListenDrops", "TcpExt.ListenOverflows"];
    let clauses = moved(case, |name| names.contains(&name))?;
    let text = format!(
        "Connection requests were dropped at a full listen queue ({clauses}): connect times include retries."
    );
    let advice = "Raise net.core.somaxconn and net.ipv4.tcp_max_syn_backlog, or connect at a lower rate.";
    Some((text, advice))
}

pub(super) fn softnet_drops(case: &Case<'_>) -> Option<Reason> {
    let clauses = moved(case, |name| name.starts_with("softnet.") && name.ends_with("dropped"))?;
    // The counters are of all interfaces and programs.
    let missing = missing(case);
    if missing == 0 {
        return None;
    }
    let text = format!(
        "A host dropped packets before their sockets saw them ({clauses}; of this run {missing} are missing): the network did not lose \
         those."
    );
    let advice = "Raise net.core.netdev_max_backlog, or spread the interrupts over more CPUs (RSS, RPS).";
    Some((text, advice))
}

/// Packets of the run that did not arrive the first time: datagrams and messages lost, segments
/// sent again, failed connections.
pub(super) fn missing(case: &Case<'_>) -> u64 {
    let of = |totals: &Totals| {
        let lost = totals.packets.as_deref().and_then(PacketReport::lost).unwrap_or(0);
        let messages = totals.pings.as_ref().map_or(0, |pings| pings.counts.lost);
        let lost = u64::clamped(lost.max(0)).saturating_add(u64::clamped(messages.max(0)));
        lost.saturating_add(totals.retransmits().unwrap_or(0)).saturating_add(totals.network_errors)
    };
    case.ends().map(|end| of(end.totals)).fold(0, u64::saturating_add)
}

/// The counters with a wanted name that moved, at both ends.
fn moved(case: &Case<'_>, wanted: impl Fn(&str) -> bool) -> Option<String> {
    case.each_end(|end| {
        let counters = end.totals.counters.moved.iter().filter(|(name, by)| wanted(name) && **by > 0);
        join(counters.map(|(name, by)| format!("{name} of {} rose by {by}", end.name)))
    })
}

pub(super) fn ephemeral_ports(case: &Case<'_>) -> Option<Reason> {
    let n = failures(case, |words| {
        let exhausted = words.contains("Cannot assign requested address") || words.contains("EADDRNOTAVAIL");
        // Binding fails so when the address given with -B is not ours.
        exhausted && !words.contains("bind")
    })?;
    let text = format!(
        "{n} connections found no free local port: each closed connection holds its port in TIME_WAIT for a minute, \
         and the ephemeral port range (net.ipv4.ip_local_port_range) to this server was used up."
    );
    let advice = "Close with --shutdown rude (RST leaves no TIME_WAIT), widen net.ipv4.ip_local_port_range, set \
                  net.ipv4.tcp_tw_reuse=1, or give more source addresses (-B).";
    Some((text, advice))
}

pub(super) fn file_descriptors(case: &Case<'_>) -> Option<Reason> {
    let n = open_files(case)?;
    let text = format!("{n} connections failed because the limit of open files was reached.");
    let advice = "Raise the limit (ulimit -n, LimitNOFILE=, fs.file-max) or use fewer connections (-P).";
    Some((text, advice))
}

/// Failures at either end for want of descriptors; `None` without any.
pub(super) fn open_files(case: &Case<'_>) -> Option<u64> {
    failures(case, |words| {
        ["Too many open files", "EMFILE", "ENFILE"].iter().any(|error| words.contains(error))
    })
}

/// Failures at either end whose cause has `wanted` words; `None` without any.
fn failures(case: &Case<'_>, wanted: impl Fn(&str) -> bool) -> Option<u64> {
    let hit = |cause: &&CauseCount| wanted(&cause.text) || wanted(&cause.first);
    let n: u64 = case.ends().flat_map(|end| end.totals.causes.iter().filter(hit)).map(|c| c.count).sum();
    (n > 0).then_some(n)
}
