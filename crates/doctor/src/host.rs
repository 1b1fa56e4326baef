//! Checks that either end's [`HostSnapshot`] decides: interface, buffers, TCP, control group, state
//! of the wall clock.

use crate::{Check, Place, State};
use metrics::{SECOND, format_bits_per_second, format_bytes, format_count, format_duration, real};
use model::HostSnapshot;

/// A socket buffer that a fast run may want, bytes.
const BUFFER: u64 = 4 << 20;
/// The limit of buffers that the remedy sets, bytes.
const MENDED_BUFFER: u64 = 16 << 20;
/// The link's speed where the card reports none, bits/s, and the round trip without a server, ns: a
/// gigabit across a continent.
const USUAL_SPEED: u64 = 1_000_000_000;
const USUAL_TRIP: u64 = SECOND / 50;
/// Fewer local ports than this are soon in TIME_WAIT, all of them: 60 s each.
const FEW_PORTS: u64 = 10_000;
/// Fewer tasks or less memory than this a server of many connections exceeds.
const FEW_TASKS: u64 = 256;
const LITTLE_MEMORY: u64 = 512 << 20;
/// The clock's error bound above which the kernel's word is of little use, ns.
const COARSE: u64 = SECOND / 100;

/// Settings of TCP that cost goodput where they differ, and their cost.
const SETTINGS: [(&str, &str, &str); 4] = [
    ("net.ipv4.tcp_window_scaling", "1", "no connection has more than 64 KiB under way"),
    ("net.ipv4.tcp_sack", "1", "a burst of losses is retransmitted one segment a round trip"),
    ("net.ipv4.tcp_timestamps", "1", "round trips are sampled once a window"),
    ("net.ipv4.tcp_moderate_rcvbuf", "1", "receive windows do not grow beyond their default"),
];

/// The checks; `trip` is the round trip to the server, ns.
pub(crate) fn checks(host: &HostSnapshot, place: Place, trip: Option<u64>) -> Vec<Check> {
    let mut all = vec![interface(host, place)];
    all.extend(buffers(host, place));
    all.push(window(host, place, trip));
    all.extend(settings(host, place));
    all.extend(ports(host, place));
    all.push(control_group(host, place));
    all.push(clock_sync(host, place));
    all
}

/// A setting's value, of which a number has that place.
fn number(host: &HostSnapshot, name: &str, at: usize) -> Option<u64> {
    host.sysctl.get(name)?.split(' ').nth(at)?.parse().ok()
}

/// The interface towards the other end, and its offloads.
fn interface(host: &HostSnapshot, place: Place) -> Check {
    const NAME: &str = "offloads";
    let Some(nic) = &host.nic else {
        let text = "No interface is known: with HOST, the one towards it is looked at.";
        return Check::new(NAME, place, State::Unknown, text);
    };
    if nic.loopback {
        let text = "The loopback carries the traffic: segments stay whole, and no card limits them.";
        return Check::new(NAME, place, State::Ok, text);
    }
    let name = if nic.name.is_empty() { "the interface" } else { &nic.name };
    let has = |offload: &&str| nic.offloads.iter().any(|on| on == offload);
    let wanted = ["tso", "gso", "gro"];
    let off: Vec<&str> = wanted.into_iter().filter(|offload| !has(offload)).collect();
    let speed = nic.speed_mbit.map_or_else(String::new, |mbit| {
        format!(", {}", format_bits_per_second(mbit.saturating_mul(1_000_000)))
    });
    let driver = if nic.driver.is_empty() { String::new() } else { format!("{}, ", nic.driver) };
    let card = format!("{name} ({driver}MTU {}{speed})", nic.mtu);
    if off.is_empty() {
        let text = format!("{} splits and merges segments: tso, gso and gro are on.", capital(&card));
        return Check::new(NAME, place, State::Ok, text);
    }
    let text = format!(
        "{} has {} off: the CPU handles every packet by itself, and is full at a lower rate.",
        capital(&card),
        off.join(", ")
    );
    let on: String = off.iter().map(|offload| format!(" {offload} on")).collect();
    let check = Check::new(NAME, place, State::Limits, text);
    if nic.name.is_empty() { check } else { check.mend(format!("sudo ethtool -K {}{on}", nic.name)) }
}

/// `text` as a sentence begins; a name of the system stays as it is.
fn capital(text: &str) -> String {
    match text.strip_prefix("the ") {
        Some(rest) => format!("The {rest}"),
        None => text.to_owned(),
    }
}

/// Limits of socket buffers.
fn buffers(host: &HostSnapshot, place: Place) -> [Check; 2] {
    let one = |check: &str, setting: &str, cost: &str| {
        let Some(most) = number(host, setting, 0) else {
            let text = format!("The limit of buffers, {setting}, is not known.");
            return Check::new(check, place, State::Unknown, text);
        };
        let least = format_bytes(most);
        if most >= BUFFER {
            let text = format!("A socket may have a buffer of {least} ({setting}).");
            return Check::new(check, place, State::Ok, text);
        }
        let text = format!("{setting} limits a socket's buffer to {least}: {cost}.");
        Check::new(check, place, State::Limits, text)
            .mend(format!("sudo sysctl -w {setting}={MENDED_BUFFER}"))
    };
    [
        one(
            "receive-buffer",
            "net.core.rmem_max",
            "of a longer burst of datagrams the host drops the rest, and --rcvbuf ends there",
        ),
        one(
            "send-buffer",
            "net.core.wmem_max",
            "senders of datagrams wait more often, and --sndbuf ends there",
        ),
    ]
}

/// The rate that TCP's windows allow, from the buffers that the kernel grows by itself.
fn window(host: &HostSnapshot, place: Place, trip: Option<u64>) -> Check {
    const NAME: &str = "tcp-window";
    let of = |name| number(host, name, 2);
    let (Some(receive), Some(send)) = (of("net.ipv4.tcp_rmem"), of("net.ipv4.tcp_wmem")) else {
        let text = "The limits of TCP's own buffers (tcp_rmem, tcp_wmem) are not known.";
        return Check::new(NAME, place, State::Unknown, text);
    };
    let trip = trip.unwrap_or(USUAL_TRIP).max(1);
    // Half of a receive buffer is kept for the kernel's own data about segments.
    let window = (receive / 2).min(send);
    let bits = real(window) * 8.0 * real(SECOND) / real(trip);
    let speed = host.nic.as_ref().and_then(|nic| nic.speed_mbit);
    let wanted = speed.map_or(USUAL_SPEED, |mbit| mbit.saturating_mul(1_000_000));
    let text = format!(
        "A TCP connection carries at most {} at a round trip of {}",
        format_bits_per_second(bits),
        format_duration(trip)
    );
    if bits >= real(wanted) {
        let text = format!("{text} (tcp_rmem, tcp_wmem).");
        return Check::new(NAME, place, State::Ok, text);
    }
    // Twice the product of rate and round trip, for the kernel's own data.
    let product = real(wanted) / 8.0 * real(trip) / real(SECOND);
    let bytes = ((2.0 * product) as u64).next_power_of_two().max(MENDED_BUFFER);
    let text = format!("{text}, less than {}: use more connections (-P).", format_bits_per_second(wanted));
    let command = format!(
        "sudo sysctl -w net.ipv4.tcp_rmem='4096 131072 {bytes}' net.ipv4.tcp_wmem='4096 65536 {bytes}'"
    );
    Check::new(NAME, place, State::Limits, text).mend(command)
}

/// Settings of TCP that cost goodput.
fn settings(host: &HostSnapshot, place: Place) -> Vec<Check> {
    const NAME: &str = "tcp-settings";
    let known = |(name, _, _): &&(&str, &str, &str)| host.sysctl.contains_key(*name);
    let differs = |(name, wanted, _): &&(&str, &str, &str)| host.sysctl[*name] != *wanted;
    let odd: Vec<Check> = SETTINGS
        .iter()
        .filter(known)
        .filter(differs)
        .map(|(name, wanted, cost)| {
            let text = format!("{name} is {}: {cost}.", host.sysctl[*name]);
            Check::new(NAME, place, State::Limits, text).mend(format!("sudo sysctl -w {name}={wanted}"))
        })
        .collect();
    match (odd.is_empty(), SETTINGS.iter().any(|setting| known(&setting))) {
        (false, _) => odd,
        (true, true) => {
            let text = "Window scaling, selective acknowledgements and timestamps of TCP are on.";
            vec![Check::new(NAME, place, State::Ok, text)]
        }
        (true, false) => vec![Check::new(NAME, place, State::Unknown, "The settings of TCP are not known.")],
    }
}

/// Ports that connections from here can have.
fn ports(host: &HostSnapshot, place: Place) -> Option<Check> {
    const NAME: &str = "local-ports";
    let of = |at| number(host, "net.ipv4.ip_local_port_range", at);
    let Some((low, high)) = of(0).zip(of(1)) else {
        // The server keeps them to itself, and needs none.
        let text = "The range of local ports is not known.";
        return (place == Place::Local).then(|| Check::new(NAME, place, State::Unknown, text));
    };
    let n = (high + 1).saturating_sub(low);
    if n >= FEW_PORTS {
        let text = format!("Connections have {n} local ports.");
        return Some(Check::new(NAME, place, State::Ok, text));
    }
    let text = format!(
        "Connections have {}, each for 60 s: connect ends at {}/s unless --shutdown is rude.",
        format_count(n, "local port"),
        n / 60
    );
    let command = "sudo sysctl -w net.ipv4.ip_local_port_range='15000 60999'";
    Some(Check::new(NAME, place, State::Limits, text).mend(command))
}

/// Limits of the process's control group.
fn control_group(host: &HostSnapshot, place: Place) -> Check {
    const NAME: &str = "control-group";
    let is_linux = host.kernel.starts_with("Linux");
    let Some(limits) = host.allowance else {
        let (state, text) = match is_linux {
            true => (State::Ok, "No control group limits CPU time, memory or tasks."),
            false => (State::Unknown, "The system has no control groups, or does not show them."),
        };
        return Check::new(NAME, place, state, text);
    };
    let cpus = limits.cpus.map(|cpus| {
        let tight = cpus < f64::from(host.cpus.max(1));
        (
            tight,
            format!("{cpus} CPUs"),
            "the process is stopped for the rest of each period once they are used up",
        )
    });
    let memory = limits.memory.map(|bytes| {
        let cost = "connections beyond it fail, or the process is killed";
        (bytes < LITTLE_MEMORY, format!("{} of memory", format_bytes(bytes)), cost)
    });
    let tasks = limits.tasks.map(|n| {
        (n < FEW_TASKS, format_count(n, "task"), "worker threads and processes beyond them cannot start")
    });
    let all: Vec<_> = [cpus, memory, tasks].into_iter().flatten().collect();
    let tight: Vec<_> = all.iter().filter(|(tight, ..)| *tight).collect();
    if tight.is_empty() {
        let named: Vec<&str> = all.iter().map(|(_, limit, _)| limit.as_str()).collect();
        let text = format!("The control group allows {}, which is enough.", named.join(", "));
        return Check::new(NAME, place, State::Ok, text);
    }
    let named: Vec<&str> = tight.iter().map(|(_, limit, _)| limit.as_str()).collect();
    let costs: Vec<&str> = tight.iter().map(|(.., cost)| *cost).collect();
    let text = format!("The control group allows {}: {}.", named.join(", "), costs.join("; "));
    Check::new(NAME, place, State::Limits, text)
}

/// State of the wall clock: disciplined or not, and its error bound.
fn clock_sync(host: &HostSnapshot, place: Place) -> Check {
    const NAME: &str = "clock-sync";
    let bound = format_duration(host.clock_error_ns);
    if host.clock_synced && host.clock_error_ns <= COARSE {
        let text = format!("The wall clock is disciplined, to ±{bound} by the kernel's estimate.");
        return Check::new(NAME, place, State::Ok, text);
    }
    if !host.kernel.starts_with("Linux") && !host.clock_synced {
        let text = "The system does not say whether something disciplines the wall clock.";
        return Check::new(NAME, place, State::Unknown, text);
    }
    let text = match host.clock_synced {
        true => format!(
            "The wall clock is disciplined to ±{bound} only: --clock realtime is no better than that."
        ),
        false => "Nothing disciplines the wall clock: one-way delays rest on exchanges over the path, and \
                  --clock realtime means nothing."
            .to_owned(),
    };
    Check::new(NAME, place, State::Limits, text).mend("sudo timedatectl set-ntp true")
}
