//! Checks of this host alone: its clock, CPUs, sockets, firewall, permissions for the lab.

use crate::{ALL, Check, LAB, Place, State};
use metrics::{format_duration, format_percent};
use model::{Abilities, FirewallPolicy, HostSnapshot, Permission};

/// Descriptors that a client of many connections wants.
const DESCRIPTORS: u64 = 65_536;
/// Fewer than these do not even hold the files of a run with the default connections.
const FEW_DESCRIPTORS: u64 = 64;
/// A clock with larger steps, and a slower reading, ns, shows in round trips within a host.
const LARGE_STEP: u64 = 1_000;
const SLOW_READING: u64 = 250;
/// A share of CPU time that other programs, or the hypervisor, may use unnoticed.
const BUSY: f64 = 0.3;
const STEAL: f64 = 0.02;
/// Governors that keep an idle core slow, so that the first packets behind a pause are late.
const SLOW_GOVERNORS: [&str; 4] = ["powersave", "ondemand", "conservative", "schedutil"];
/// The table of tracked connections: entries that a test of connections fills, and a share that is
/// nearly full.
const FEW_TRACKED: u64 = 65_536;

/// The checks.
pub(crate) fn checks(host: &HostSnapshot, abilities: &Abilities) -> Vec<Check> {
    let mut all = vec![
        congestion(host, abilities),
        batches(abilities),
        stamps(abilities),
        card_stamps(host),
        descriptors(abilities),
        tracked(host, abilities),
        firewall(host, abilities),
        clock_source(abilities),
        cpus(host),
        busy(abilities),
        steal(abilities),
        governor(abilities),
    ];
    all.extend(lab(abilities));
    all.extend(sockets(abilities));
    all
}

/// True if this process may do what root may: it may make network namespaces.
fn is_privileged(abilities: &Abilities) -> bool {
    abilities.namespaces == Some(Permission::Granted)
}

fn check(name: &str, state: State, text: impl Into<String>) -> Check {
    Check::new(name, Place::Local, state, text)
}

/// Congestion controls that can be compared here.
fn congestion(host: &HostSnapshot, abilities: &Abilities) -> Check {
    const NAME: &str = "congestion-control";
    let all = &abilities.congestion_controls;
    if all.is_empty() {
        return check(NAME, State::Unknown, "The congestion controls of the kernel are not known.");
    }
    let listed = all.join(", ");
    let absent = |name: &str| !all.iter().any(|known| known == name);
    if absent("cubic") || absent("bbr") {
        let (lack, module) = match (absent("cubic"), absent("bbr")) {
            (true, true) => ("cubic nor bbr", "tcp_bbr tcp_cubic"),
            (true, false) => ("cubic", "tcp_cubic"),
            _ => ("bbr", "tcp_bbr"),
        };
        let has = if lack.contains(" nor ") { "neither " } else { "no " };
        let text = format!("The kernel has {has}{lack} loaded, only {listed}: -C cannot choose them.");
        return check(NAME, State::Limits, text).mend(format!("sudo modprobe -a {module}"));
    }
    let allowed = &abilities.congestion_allowed;
    let barred: Vec<&str> = all.iter().filter(|name| !allowed.contains(name)).map(String::as_str).collect();
    if !allowed.is_empty() && !barred.is_empty() && !is_privileged(abilities) {
        let text = format!("Only root may choose {}; the default is {}.", barred.join(", "), host.congestion);
        let command = format!("sudo sysctl -w net.ipv4.tcp_allowed_congestion_control='{}'", all.join(" "));
        return check(NAME, State::Limits, text).mend(command);
    }
    check(NAME, State::Ok, format!("The default is {}, and -C can choose {listed}.", host.congestion))
}

/// Datagrams that pass the kernel in batches.
fn batches(abilities: &Abilities) -> Check {
    const NAME: &str = "datagram-batches";
    let Some(udp) = abilities.datagrams else {
        return check(NAME, State::Unknown, "Batches of datagrams could not be tried over the loopback.");
    };
    match (udp.segments > 1, udp.gro) {
        (true, true) => {
            let text = format!(
                "UDP takes {} datagrams in a call (GSO) and returns them merged (GRO).",
                udp.segments
            );
            check(NAME, State::Ok, text)
        }
        (false, _) => {
            let text = "The kernel takes one datagram in a call (no UDP GSO, which Linux has from 4.18 on): a core \
                        sends a fraction of the rate.";
            check(NAME, State::Limits, text)
        }
        (true, false) => {
            let text = "The kernel returns datagrams one by one (no UDP GRO, which Linux has from 5.0 on): a core \
                        receives a fraction of the rate.";
            check(NAME, State::Limits, text)
        }
    }
}

/// Time stamps of the kernel.
fn stamps(abilities: &Abilities) -> Check {
    const NAME: &str = "stamps";
    let Some(udp) = abilities.datagrams else {
        return check(NAME, State::Unknown, "Stamps of the kernel could not be tried over the loopback.");
    };
    match (udp.receive_stamps, udp.transmit_stamps) {
        (true, true) => check(NAME, State::Ok, "The kernel stamps datagrams as they leave and arrive."),
        (true, false) => {
            let text = "The kernel stamps arrivals, not departures: --tx-stamps has nothing to report.";
            check(NAME, State::Limits, text)
        }
        (false, _) => {
            let text = "The kernel stamps no arrivals: delays include the time until the program runs.";
            check(NAME, State::Limits, text)
        }
    }
}

/// Time stamps of the network card.
fn card_stamps(host: &HostSnapshot) -> Check {
    const NAME: &str = "card-stamps";
    match host.nic.as_ref() {
        None => check(NAME, State::Unknown, "No interface is known whose card could stamp packets."),
        Some(nic) if nic.hardware_stamps => {
            let clock = nic.phc.map_or_else(String::new, |n| format!(", by its clock /dev/ptp{n}"));
            check(NAME, State::Ok, format!("The card of {} stamps packets{clock}.", nic.name))
        }
        Some(nic) => {
            let text = format!("{} stamps no packets itself; the kernel's stamps are used.", nic.name);
            check(NAME, State::Ok, text)
        }
    }
}

/// Files that a process may open: a connection takes one.
fn descriptors(abilities: &Abilities) -> Check {
    const NAME: &str = "descriptors";
    let Some(limit) = abilities.descriptors else {
        return check(NAME, State::Unknown, "The limit of open files is not known.");
    };
    let most = limit.hard.max(limit.soft);
    if most >= DESCRIPTORS {
        let text = format!("A process may open {most} files, and a connection takes one.");
        return check(NAME, State::Ok, text);
    }
    let command = format!("sudo prlimit --nofile={}:{} --pid $$", DESCRIPTORS * 16, DESCRIPTORS * 16);
    if most < FEW_DESCRIPTORS {
        let text = format!("A process may open {most} files only: a run of eight connections fails.");
        return check(NAME, State::Missing, text).mend(command).prevents(&ALL);
    }
    let text =
        format!("A process may open {most} files: more connections need several processes (--processes).");
    check(NAME, State::Limits, text).mend(command)
}

/// The firewall's table of connections.
fn tracked(host: &HostSnapshot, abilities: &Abilities) -> Check {
    const NAME: &str = "tracked-connections";
    let Some(table) = abilities.tracked else {
        let is_linux = host.kernel.starts_with("Linux");
        return match is_linux {
            true => check(NAME, State::Ok, "No firewall here tracks connections."),
            false => check(NAME, State::Unknown, "The system does not say whether connections are tracked."),
        };
    };
    let text = format!("The firewall tracks {} of at most {} connections", table.count, table.limit);
    if table.limit < FEW_TRACKED || table.count > table.limit / 5 * 4 {
        let more = (table.limit * 4).max(4 * FEW_TRACKED);
        let text = format!("{text}: beyond them it drops packets of new ones.");
        let command = format!("sudo sysctl -w net.netfilter.nf_conntrack_max={more}");
        return check(NAME, State::Limits, text).mend(command);
    }
    check(NAME, State::Ok, format!("{text}, at some CPU time for each packet."))
}

/// Rules for incoming packets: of concern where this host serves.
fn firewall(host: &HostSnapshot, abilities: &Abilities) -> Check {
    const NAME: &str = "firewall";
    match abilities.firewall {
        None => {
            let text = "The firewall's rules for incoming packets are not visible: root may be permitted to read them.";
            let unknown = check(NAME, State::Unknown, text);
            let is_user = host.kernel.starts_with("Linux") && !is_privileged(abilities);
            if is_user { unknown.mend("sudo netcaliper doctor") } else { unknown }
        }
        Some(FirewallPolicy::Open) => check(NAME, State::Ok, "No rule hinders incoming packets."),
        Some(FirewallPolicy::Accept) => {
            check(NAME, State::Ok, "Incoming packets pass the firewall unless one of its rules drops them.")
        }
        Some(FirewallPolicy::Drop) => {
            let text = "The firewall drops incoming packets unless a rule lets them pass: netcaliper serve needs one \
                        for TCP and UDP of its port.";
            check(NAME, State::Limits, text).mend("sudo ufw allow 7411")
        }
    }
}

/// The clock behind all times.
fn clock_source(abilities: &Abilities) -> Check {
    const NAME: &str = "clock-source";
    let (Some(read), source) = (abilities.clock_read_ns, abilities.clock_source.as_deref()) else {
        return check(NAME, State::Unknown, "The cost of reading the clock is not known.");
    };
    let step = abilities.clock_step_ns.unwrap_or(u64::MAX);
    let name =
        source.map_or_else(|| "The monotonic clock".to_owned(), |name| format!("The clock source {name}"));
    let steps = match abilities.clock_step_ns {
        Some(ns) => format!("moves in steps of {}", format_duration(ns)),
        None => "stands still for longer than a try".to_owned(),
    };
    let text = format!("{name} {steps} or less and takes {} to read", format_duration(read));
    if step <= LARGE_STEP && read <= SLOW_READING {
        return check(NAME, State::Ok, format!("{text}."));
    }
    let cost = match step > LARGE_STEP {
        true => format!("{name} {steps}: shorter delays cannot be measured."),
        false => format!("{text}: five readings of each round trip show in its time."),
    };
    let slow = check(NAME, State::Limits, cost);
    let better = ["tsc", "kvm-clock", "arch_sys_counter"].into_iter();
    let better = better.filter(|name| Some(*name) != source);
    let there = |name: &&str| abilities.clock_sources.iter().any(|known| known == name);
    match better.filter(there).collect::<Vec<_>>().first() {
        Some(name) => slow.mend(format!(
            "echo {name} | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource"
        )),
        None => slow,
    }
}

fn cpus(host: &HostSnapshot) -> Check {
    const NAME: &str = "cpus";
    match host.cpus {
        0 => check(NAME, State::Unknown, "The number of usable CPUs is not known."),
        1 => {
            let text = "One CPU does the work of the kernel, of this program and of all others: delays include waits \
                        for it.";
            check(NAME, State::Limits, text)
        }
        n => check(NAME, State::Ok, format!("{n} CPUs may be used.")),
    }
}

/// Other programs' use of the CPUs.
fn busy(abilities: &Abilities) -> Check {
    const NAME: &str = "cpu-use";
    let Some(share) = abilities.cpu_busy else {
        return check(NAME, State::Unknown, "The present use of the CPUs is not known.");
    };
    let percent = format_percent(share * 100.0);
    if share <= BUSY {
        return check(NAME, State::Ok, format!("Other programs use {percent} of the CPUs now."));
    }
    let text =
        format!("Other programs use {percent} of the CPUs now: goodput and delays include waits for them.");
    check(NAME, State::Limits, text).mend("ps -eo pcpu,pid,args --sort=-pcpu | head -n 6")
}

/// CPU time that the hypervisor gives to others.
fn steal(abilities: &Abilities) -> Check {
    const NAME: &str = "cpu-steal";
    let Some(share) = abilities.cpu_steal else {
        return check(NAME, State::Unknown, "The hypervisor's share of CPU time is not known.");
    };
    let percent = format_percent(share * 100.0);
    if share <= STEAL {
        return check(NAME, State::Ok, format!("The hypervisor takes {percent} of the CPUs' time now."));
    }
    let text = format!(
        "The hypervisor takes {percent} of the CPUs' time now: pauses of milliseconds look like delays of the path."
    );
    check(NAME, State::Limits, text)
}

/// The governors of the CPUs' frequencies.
fn governor(abilities: &Abilities) -> Check {
    const NAME: &str = "cpu-frequency";
    if abilities.governors.is_empty() {
        let text = "No governor of CPU frequencies is visible, as in most virtual machines.";
        return check(NAME, State::Unknown, text);
    }
    let names = abilities.governors.join(", ");
    if !abilities.governors.iter().any(|name| SLOW_GOVERNORS.contains(&name.as_str())) {
        return check(NAME, State::Ok, format!("The CPUs' frequency governor is {names}."));
    }
    let text = format!(
        "The CPUs' frequency governor is {names}: idle cores are slow, and sparse round trips take longer than dense ones."
    );
    check(NAME, State::Limits, text).mend("sudo cpupower frequency-set -g performance")
}

/// Permissions for the lab.
fn lab(abilities: &Abilities) -> [Check; 2] {
    let (spaces, tun) = ("namespaces", "tun");
    let namespaces = match abilities.namespaces {
        Some(Permission::Granted) => check(spaces, State::Ok, "Network namespaces can be made, for the lab."),
        Some(Permission::Denied) => {
            let text = "Network namespaces, of which the lab needs two, are not permitted to this user.";
            check(spaces, State::Missing, text)
                .mend("sudo netcaliper lab --delay 10ms -- ping 10.77.0.2")
                .prevents(&LAB)
        }
        Some(Permission::Absent) => {
            check(spaces, State::Missing, "The kernel has no network namespaces, of which the lab needs two.")
                .prevents(&LAB)
        }
        None => check(spaces, State::Unknown, "Network namespaces cannot be tried here."),
    };
    let devices = match abilities.tun {
        Some(Permission::Granted) => check(tun, State::Ok, "TUN devices can be made, for the lab."),
        Some(Permission::Denied) => check(
            tun,
            State::Missing,
            "TUN devices, through which the lab forwards, are not permitted to this user.",
        )
        .mend("sudo chmod 666 /dev/net/tun")
        .prevents(&LAB),
        Some(Permission::Absent) => {
            let text = "The system has no TUN devices, through which the lab forwards (containers need --device \
                        /dev/net/tun).";
            check(tun, State::Missing, text).mend("sudo modprobe tun").prevents(&LAB)
        }
        None => check(tun, State::Unknown, "TUN devices cannot be tried here."),
    };
    [namespaces, devices]
}

/// Sockets that other programs need: no measurement does.
fn sockets(abilities: &Abilities) -> [Check; 2] {
    let (icmp, raw) = ("icmp", "raw-sockets");
    let echo = match abilities.icmp_sockets {
        Some(Permission::Granted) => check(icmp, State::Ok, "Users may send ICMP echoes (ping_group_range)."),
        Some(_) => {
            let text = "Users may send no ICMP echoes: ping and mtr, to compare with, need privilege; netcaliper needs \
                        none.";
            check(icmp, State::Limits, text).mend("sudo sysctl -w net.ipv4.ping_group_range='0 2147483647'")
        }
        None => check(icmp, State::Unknown, "Sockets for ICMP echoes cannot be tried here."),
    };
    let any = match abilities.raw_sockets {
        Some(Permission::Granted) => check(raw, State::Ok, "Raw sockets are permitted (CAP_NET_RAW)."),
        Some(_) => {
            check(raw, State::Ok, "Raw sockets need privilege (CAP_NET_RAW) here; no measurement uses them.")
        }
        None => check(raw, State::Unknown, "Raw sockets cannot be tried here."),
    };
    [echo, any]
}
