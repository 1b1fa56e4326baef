//! Made-up hosts and paths, each with the checks that must speak of it.

use super::*;
use metrics::{ClockFound, schema::Published};
use model::{
    Accepted, CgroupLimits, Change, Connecting, Descriptors, FirewallPolicy, MtuFound, NicSnapshot, Outcome,
    PathMtu, Permission, Phase, Point, SessionInfo, Status, TrackedConnections, UdpAbility,
};

/// A host on which everything is as it should be.
fn good() -> (HostSnapshot, Abilities) {
    let settings = [
        ("net.core.rmem_max", "16777216"),
        ("net.core.wmem_max", "16777216"),
        ("net.ipv4.tcp_rmem", "4096 131072 67108864"),
        ("net.ipv4.tcp_wmem", "4096 65536 67108864"),
        ("net.ipv4.tcp_window_scaling", "1"),
        ("net.ipv4.tcp_sack", "1"),
        ("net.ipv4.tcp_timestamps", "1"),
        ("net.ipv4.tcp_moderate_rcvbuf", "1"),
        ("net.ipv4.ip_local_port_range", "32768 60999"),
    ];
    let host = HostSnapshot {
        name: "a".to_owned(),
        kernel: "Linux 6.8.0".to_owned(),
        cpus: 4,
        congestion: "cubic".to_owned(),
        clock_synced: true,
        clock_error_ns: 200_000,
        sysctl: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        nic: Some(NicSnapshot {
            name: "eth0".to_owned(),
            driver: "virtio_net".to_owned(),
            mtu: 1_500,
            offloads: ["tso", "gso", "gro"].map(str::to_owned).into(),
            ..NicSnapshot::default()
        }),
        ..HostSnapshot::default()
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let abilities = Abilities {
        descriptors: Some(Descriptors { soft: 1_024, hard: 1_048_576 }),
        congestion_controls: names(&["reno", "cubic", "bbr"]),
        congestion_allowed: names(&["reno", "cubic", "bbr"]),
        clock_source: Some("tsc".to_owned()),
        clock_sources: names(&["tsc", "hpet", "acpi_pm"]),
        clock_step_ns: Some(20),
        clock_read_ns: Some(22),
        datagrams: Some(UdpAbility { segments: 128, gro: true, receive_stamps: true, transmit_stamps: true }),
        namespaces: Some(Permission::Granted),
        tun: Some(Permission::Granted),
        raw_sockets: Some(Permission::Granted),
        icmp_sockets: Some(Permission::Granted),
        governors: names(&["performance"]),
        cpu_busy: Some(0.02),
        cpu_steal: Some(0.0),
        tracked: None,
        firewall: Some(FirewallPolicy::Open),
    };
    (host, abilities)
}

/// The report of the good host after `change`.
#[track_caller]
fn after(change: impl FnOnce(&mut HostSnapshot, &mut Abilities)) -> Report {
    let (mut host, mut abilities) = good();
    change(&mut host, &mut abilities);
    Report::new("1", host, abilities, None)
}

/// The only check of `report` that is not good.
#[track_caller]
fn only(report: &Report) -> &Check {
    let odd: Vec<&Check> = report.checks.iter().filter(|check| check.state != State::Ok).collect();
    assert_eq!(odd.len(), 1, "{odd:#?}");
    odd[0]
}

fn set<'a>(name: &'a str, value: &'a str) -> impl FnOnce(&mut HostSnapshot, &mut Abilities) + use<'a> {
    move |host, _| drop(host.sysctl.insert(name.to_owned(), value.to_owned()))
}

#[test]
fn a_good_host_has_only_good_checks() {
    let report = after(|_, _| {});
    let odd: Vec<&Check> = report.checks.iter().filter(|check| check.state != State::Ok).collect();
    assert!(odd.is_empty() && report.prevents.is_empty(), "{odd:#?}");
    assert!(report.checks.len() >= 20, "{}", report.checks.len());
    let mut names: Vec<&str> = report.checks.iter().map(|check| check.check.as_str()).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all, "a name stands for one check: {names:?}");
}

#[test]
fn a_host_that_says_nothing_is_unknown_and_not_bad() {
    let report = Report::new("1", HostSnapshot::default(), Abilities::default(), None);
    let state = |name: &str| report.checks.iter().find(|check| check.check == name).unwrap().state;
    let bad = report.checks.iter().find(|check| check.state < State::Unknown || check.mend.is_some());
    assert_eq!(bad, None);
    for name in
        ["offloads", "receive-buffer", "tcp-window", "descriptors", "cpus", "cpu-steal", "tun", "clock-sync"]
    {
        assert_eq!(state(name), State::Unknown, "{name}");
    }
    assert!(!report.prevents_measuring());
}

/// One fault each: the check that finds it, its state, a part of its sentence, a part of the remedy.
#[test]
fn each_fault_is_found_by_one_check() {
    type Change = Box<dyn FnOnce(&mut HostSnapshot, &mut Abilities)>;
    let limits = |cpus, memory, tasks| CgroupLimits { cpus, memory, tasks };
    let cases: Vec<(&str, State, &str, &str, Change)> = vec![
        (
            "receive-buffer",
            State::Limits,
            "208 KiB",
            "net.core.rmem_max=16777216",
            Box::new(set("net.core.rmem_max", "212992")),
        ),
        (
            "send-buffer",
            State::Limits,
            "208 KiB",
            "net.core.wmem_max=",
            Box::new(set("net.core.wmem_max", "212992")),
        ),
        (
            "tcp-window",
            State::Limits,
            // 1 MiB of buffer, half of it a window, 20 ms: 210 Mbit/s.
            "210 Mbit/s at a round trip of 20.0 ms",
            "net.ipv4.tcp_rmem='4096 131072 16777216'",
            Box::new(set("net.ipv4.tcp_rmem", "4096 131072 1048576")),
        ),
        (
            "tcp-settings",
            State::Limits,
            "64 KiB under way",
            "sudo sysctl -w net.ipv4.tcp_window_scaling=1",
            Box::new(set("net.ipv4.tcp_window_scaling", "0")),
        ),
        (
            "local-ports",
            State::Limits,
            "5000 local ports",
            "ip_local_port_range",
            Box::new(set("net.ipv4.ip_local_port_range", "40000 44999")),
        ),
        (
            "offloads",
            State::Limits,
            "tso, gro off",
            "sudo ethtool -K eth0 tso on gro on",
            Box::new(|host, _| host.nic.as_mut().unwrap().offloads = vec!["gso".to_owned()]),
        ),
        (
            "control-group",
            State::Limits,
            "1.5 CPUs",
            "",
            Box::new(move |host, _| host.allowance = Some(limits(Some(1.5), None, Some(10_000)))),
        ),
        (
            "control-group",
            State::Limits,
            "64.0 MiB of memory, 20 tasks",
            "",
            Box::new(move |host, _| host.allowance = Some(limits(None, Some(64 << 20), Some(20)))),
        ),
        (
            "clock-sync",
            State::Limits,
            "Nothing disciplines",
            "set-ntp true",
            Box::new(|host, _| (host.clock_synced, host.clock_error_ns) = (false, 16_000_000_000)),
        ),
        (
            "clock-sync",
            State::Limits,
            "to ±50.0 ms only",
            "",
            Box::new(|host, _| host.clock_error_ns = 50_000_000),
        ),
        ("cpus", State::Limits, "One CPU", "", Box::new(|host, _| host.cpus = 1)),
        (
            "congestion-control",
            State::Limits,
            "no bbr loaded",
            "modprobe -a tcp_bbr",
            Box::new(|_, able| drop(able.congestion_controls.pop())),
        ),
        (
            "congestion-control",
            State::Limits,
            "neither cubic nor bbr loaded, only reno",
            "tcp_bbr tcp_cubic",
            Box::new(|_, able| able.congestion_controls.truncate(1)),
        ),
        (
            "datagram-batches",
            State::Limits,
            "no UDP GSO",
            "",
            Box::new(|_, able| able.datagrams.as_mut().unwrap().segments = 1),
        ),
        (
            "datagram-batches",
            State::Limits,
            "no UDP GRO",
            "",
            Box::new(|_, able| able.datagrams.as_mut().unwrap().gro = false),
        ),
        (
            "stamps",
            State::Limits,
            "no arrivals",
            "",
            Box::new(|_, able| able.datagrams.as_mut().unwrap().receive_stamps = false),
        ),
        (
            "descriptors",
            State::Limits,
            "4096 files",
            "prlimit --nofile",
            Box::new(|_, able| able.descriptors = Some(Descriptors { soft: 1_024, hard: 4_096 })),
        ),
        (
            "descriptors",
            State::Missing,
            "20 files only",
            "prlimit --nofile",
            Box::new(|_, able| able.descriptors = Some(Descriptors { soft: 20, hard: 20 })),
        ),
        (
            "tracked-connections",
            State::Limits,
            "at most 4096 connections",
            "nf_conntrack_max=262144",
            Box::new(|_, able| able.tracked = Some(TrackedConnections { count: 10, limit: 4_096 })),
        ),
        (
            "tracked-connections",
            State::Limits,
            "tracks 95000 of at most 100000",
            "nf_conntrack_max=400000",
            Box::new(|_, able| able.tracked = Some(TrackedConnections { count: 95_000, limit: 100_000 })),
        ),
        (
            "firewall",
            State::Limits,
            "drops incoming packets",
            "ufw allow 7411",
            Box::new(|_, able| able.firewall = Some(FirewallPolicy::Drop)),
        ),
        ("firewall", State::Unknown, "not visible", "", Box::new(|_, able| able.firewall = None)),
        (
            "clock-source",
            State::Limits,
            "in steps of 4.00 ms",
            "echo tsc | sudo tee",
            Box::new(|_, able| {
                able.clock_source = Some("jiffies".to_owned());
                able.clock_step_ns = Some(4_000_000);
            }),
        ),
        (
            "clock-source",
            State::Limits,
            "1.10 µs to read",
            "echo tsc | sudo tee",
            Box::new(|_, able| {
                able.clock_source = Some("hpet".to_owned());
                (able.clock_step_ns, able.clock_read_ns) = (Some(70), Some(1_100));
            }),
        ),
        ("cpu-use", State::Limits, "70 % of the CPUs", "ps ", Box::new(|_, able| able.cpu_busy = Some(0.7))),
        (
            "cpu-steal",
            State::Limits,
            "hypervisor takes 12 %",
            "",
            Box::new(|_, able| able.cpu_steal = Some(0.12)),
        ),
        (
            "cpu-frequency",
            State::Limits,
            "performance, powersave",
            "cpupower frequency-set",
            Box::new(|_, able| able.governors.push("powersave".to_owned())),
        ),
        ("cpu-frequency", State::Unknown, "virtual machines", "", Box::new(|_, able| able.governors.clear())),
        (
            "tun",
            State::Missing,
            "no TUN devices",
            "sudo modprobe tun",
            Box::new(|_, able| able.tun = Some(Permission::Absent)),
        ),
        (
            "namespaces",
            State::Missing,
            "not permitted to this user",
            "sudo netcaliper lab",
            Box::new(|_, able| able.namespaces = Some(Permission::Denied)),
        ),
        (
            "icmp",
            State::Limits,
            "no ICMP echoes",
            "ping_group_range='0 2147483647'",
            Box::new(|_, able| able.icmp_sockets = Some(Permission::Denied)),
        ),
    ];
    for (name, state, part, command, change) in cases {
        let report = after(change);
        let found = only(&report);
        assert_eq!((found.check.as_str(), found.state), (name, state), "{found:?}");
        assert!(found.text.contains(part), "{part}: {found:?}");
        assert!(found.mend.as_deref().unwrap_or_default().contains(command), "{command}: {found:?}");
        assert_eq!(found.prevents.is_empty(), state != State::Missing, "{found:?}");
        let measures = name != "descriptors" || state != State::Missing;
        assert_eq!(!report.prevents_measuring(), measures, "{found:?}");
    }
}

#[test]
fn a_user_without_privilege_has_other_limits_than_root() {
    let report = after(|_, able| {
        able.namespaces = None;
        able.firewall = None;
        able.congestion_allowed.pop();
    });
    let of = |name: &str| report.checks.iter().find(|check| check.check == name).unwrap();
    let (control, firewall) = (of("congestion-control"), of("firewall"));
    assert_eq!(control.state, State::Limits);
    assert!(control.text.contains("Only root may choose bbr"), "{control:?}");
    let command = "sudo sysctl -w net.ipv4.tcp_allowed_congestion_control='reno cubic bbr'";
    assert_eq!(control.mend.as_deref(), Some(command));
    assert_eq!(firewall.mend.as_deref(), Some("sudo netcaliper doctor"));
}

#[test]
fn raw_sockets_without_privilege_are_no_fault() {
    let report = after(|_, able| able.raw_sockets = Some(Permission::Denied));
    assert!(report.checks.iter().all(|check| check.state == State::Ok));
}

#[test]
fn the_window_is_judged_by_the_link_and_the_round_trip() {
    let (mut host, _) = good();
    host.nic.as_mut().unwrap().speed_mbit = Some(10_000);
    let state = |host: &HostSnapshot, trip| {
        host::checks(host, Place::Local, trip).into_iter().find(|check| check.check == "tcp-window").unwrap()
    };
    // 32 MiB of window: 13 Gbit/s at 20 ms, 2.7 Gbit/s at 100 ms.
    assert_eq!(state(&host, None).state, State::Ok);
    let far = state(&host, Some(100_000_000));
    assert_eq!(far.state, State::Limits);
    assert!(far.text.contains("2.68 Gbit/s") && far.text.contains("less than 10.0 Gbit/s"), "{far:?}");
    // 10 Gbit/s times 100 ms are 125 MB, twice that 250 MB: 256 MiB.
    assert!(far.mend.unwrap().contains("268435456"));
}

fn session(version: &str) -> SessionInfo {
    SessionInfo {
        target: "b".to_owned(),
        address: "192.0.2.7:7411".parse().unwrap(),
        version: version.to_owned(),
        accepted: Accepted::default(),
        host: good().0.without_identity(),
        workers: 2,
        placement: String::new(),
        authenticated: false,
        base_rtt_ns: 10_000_000,
        udp_rtt_ns: Some(10_100_000),
        same_host: false,
    }
}

/// A path of which everything was tried, with success.
fn whole() -> Path {
    let mtu = Some(MtuFound { mtu: 1_500, too_big: Some(1_501), told: true });
    let datagrams = Some(Datagrams { sent: 50, received: 50 });
    let clock = ClockFound { offset_ns: -2_000_000, bound_ns: 60_000, ..ClockFound::default() };
    Path {
        session: Some(session("1")),
        udp_rtt_ns: Some(10_100_000),
        up: datagrams,
        down: datagrams,
        clock: Some(clock),
        mtu: Some(PathMtu { up: mtu, down: mtu }),
        ..Path::new("b", "192.0.2.7:7411".parse().unwrap(), &good().0)
    }
}

/// The report of the good host and the whole path after `change`.
fn towards(change: impl FnOnce(&mut Path)) -> Report {
    let (host, abilities) = good();
    let mut path = whole();
    change(&mut path);
    Report::new("1", host, abilities, Some(path))
}

/// Names of the checks in this state.
fn named(report: &Report, state: State) -> Vec<&str> {
    report.checks.iter().filter(|check| check.state == state).map(|check| check.check.as_str()).collect()
}

fn text_of<'a>(report: &'a Report, name: &str) -> &'a Check {
    report.checks.iter().find(|check| check.check == name && check.place == Place::Path).unwrap()
}

#[test]
fn a_whole_path_has_only_good_checks() {
    let report = towards(|_| {});
    assert!(report.checks.iter().all(|check| check.state == State::Ok), "{:#?}", report.checks);
    assert!(text_of(&report, "tcp").text.contains("round trip of 10.0 ms"));
    assert!(text_of(&report, "clock-offset").text.contains("±60.0 µs, 2.00 ms apart"));
    let remote = report.checks.iter().filter(|check| check.place == Place::Remote).count();
    assert!(remote >= 4, "{remote}");
}

#[test]
fn a_server_that_is_not_there_is_missing_and_the_rest_unknown() {
    let none = |path: &mut Path| {
        let fresh = Path::new("b", path.address, &good().0);
        *path = Path { tcp_failure: Some("why".to_owned()), ..fresh };
    };
    let cases = [
        (Connecting::Refused, "no server listens there", "netcaliper serve", Place::Remote),
        (Connecting::Silent, "nothing answers within 4 s", "sudo ufw allow 7411/tcp", Place::Remote),
        (Connecting::Unreachable, "no route or no host", "ip route get 192.0.2.7", Place::Local),
        (Connecting::Forbidden, "own firewall", "sudo ufw allow out 7411/tcp", Place::Local),
    ];
    for (tcp, part, command, at) in cases {
        let report = towards(|path| {
            none(path);
            path.tcp = tcp;
        });
        let found = text_of(&report, "tcp");
        assert!(found.text.contains(part), "{found:?}");
        assert_eq!((found.mend.as_deref(), found.mend_at), (Some(command), Some(at)));
        assert!(report.prevents_measuring());
        let udp = if tcp == Connecting::Silent { State::Missing } else { State::Unknown };
        assert_eq!(text_of(&report, "udp").state, udp, "{tcp:?}");
        assert_eq!(text_of(&report, "large-packets").state, State::Unknown);
    }
    // TCP is dropped, and a datagram is answered.
    let report = towards(|path| {
        none(path);
        (path.tcp, path.udp_rtt_ns) = (Connecting::Silent, Some(1));
    });
    assert_eq!((text_of(&report, "tcp").state, text_of(&report, "udp").state), (State::Missing, State::Ok));
    // Another port is named in commands.
    let report = towards(|path| {
        none(path);
        (path.tcp, path.address) = (Connecting::Refused, "192.0.2.7:80".parse().unwrap());
    });
    assert_eq!(text_of(&report, "tcp").mend.as_deref(), Some("netcaliper serve -p 80"));
    // Something connects, and is no server.
    let report = towards(|path| {
        none(path);
        path.tcp_failure = Some("b: it answers in iperf3".to_owned());
    });
    assert!(text_of(&report, "tcp").text.ends_with("the run failed: it answers in iperf3."));
    let report = towards(|path| {
        none(path);
        path.tcp_failure = Some("b: it said nothing for 4 s: is it netcaliper?".to_owned());
    });
    assert!(text_of(&report, "tcp").text.ends_with("is it netcaliper?"));
}

#[test]
fn blocked_datagrams_leave_tcp() {
    let report = towards(|path| {
        (path.udp_rtt_ns, path.up, path.down, path.clock, path.mtu) = (None, None, None, None, None);
        path.session.as_mut().unwrap().udp_rtt_ns = None;
        path.udp_failure = Some("no UDP datagram comes back although TCP works".to_owned());
    });
    assert_eq!(named(&report, State::Missing), ["udp"]);
    let found = text_of(&report, "udp");
    assert_eq!(found.mend.as_deref(), Some("sudo ufw allow 7411/udp"));
    assert!(found.text.contains("although TCP passes"), "{found:?}");
    assert!(report.prevents.contains(&"delay".to_owned()) && !report.prevents.contains(&"tcp".to_owned()));
    assert_eq!(text_of(&report, "tcp").state, State::Ok);
    assert_eq!(named(&report, State::Unknown), ["large-packets", "clock-offset"]);
    let report = towards(|path| path.up = Some(Datagrams { sent: 50, received: 45 }));
    assert!(only(&report).text.contains("5 of 100 datagrams were lost"));
}

#[test]
fn large_packets_vanish_or_are_refused() {
    let narrow = |told| Some(MtuFound { mtu: 1_400, too_big: Some(1_401), told });
    let report = towards(|path| path.mtu.as_mut().unwrap().up = narrow(true));
    let found = only(&report);
    assert_eq!((found.check.as_str(), found.state), ("large-packets", State::Limits));
    assert!(found.text.contains("to the server those above 1400 bytes are refused"), "{found:?}");
    assert_eq!(found.mend.as_deref(), Some("sudo ip link set dev eth0 mtu 1400"));
    // A black hole that TCP falls into, and one that it does not.
    let hole = |path: &mut Path| path.mtu.as_mut().unwrap().down = narrow(false);
    let report = towards(hole);
    assert_eq!(only(&report).state, State::Limits);
    let report = towards(|path| {
        hole(path);
        path.tcp_failure = Some("no progress for 3 s".to_owned());
    });
    let found = only(&report);
    assert_eq!((found.check.as_str(), found.state), ("large-packets", State::Missing));
    assert!(found.text.contains("from the server those above 1400 bytes vanish"), "{found:?}");
    assert!(report.prevents_measuring());
    // Not even the server's first message arrives.
    let report = towards(|path| {
        let fresh = Path::new("b", path.address, &good().0);
        let why = Some("it accepted the connection but said nothing for 3 s: is it netcaliper?".to_owned());
        *path = Path { tcp_failure: why, udp_rtt_ns: Some(1), ..fresh };
    });
    assert_eq!(named(&report, State::Missing), ["large-packets"]);
    assert_eq!(text_of(&report, "large-packets").mend.as_deref(), Some("sudo ip link set dev eth0 mtu 1280"));
}

#[test]
fn the_servers_terms_are_reported() {
    let change = Change {
        what: "duration".to_owned(),
        asked: "3600 s".to_owned(),
        given: "60 s".to_owned(),
        why: "limit of this server".to_owned(),
    };
    let report = towards(|path| path.session.as_mut().unwrap().accepted.changes.push(change));
    assert_eq!(only(&report).text, "The server limits sessions: duration 60 s (limit of this server).");
    let report = towards(|path| path.session.as_mut().unwrap().accepted.others = 2);
    assert!(only(&report).text.contains("2 other sessions on the server now"));
    let report = towards(|path| path.session.as_mut().unwrap().version = "0.9".to_owned());
    assert_eq!(only(&report).check, "versions");
    let report = towards(|path| {
        let host = &mut path.session.as_mut().unwrap().host;
        host.sysctl.insert("net.core.rmem_max".to_owned(), "212992".to_owned());
    });
    let found = only(&report);
    assert_eq!((found.check.as_str(), found.place), ("receive-buffer", Place::Remote));
    assert_eq!(found.mend_at, Some(Place::Remote));
}

#[test]
fn clocks_that_step_or_differ_widely_are_reported() {
    let report = towards(|path| path.clock.as_mut().unwrap().stepped = true);
    assert!(only(&report).text.contains("stepped"));
    let report = towards(|path| path.clock.as_mut().unwrap().bound_ns = 30_000_000);
    assert_eq!(only(&report).state, State::Limits);
    let report = towards(|path| path.session.as_mut().unwrap().same_host = true);
    assert!(text_of(&report, "clock-offset").text.contains("one clock"));
    assert!(report.checks.iter().all(|check| check.place != Place::Remote), "one host is checked once");
}

#[test]
fn results_of_runs_are_read() {
    let failed = |reason: &str| {
        let point = Point { status: Status::Failed, reason: Some(reason.to_owned()), ..Point::default() };
        Outcome { points: vec![point], ..Outcome::default() }
    };
    let mut path = Path::new("b", "192.0.2.7:7411".parse().unwrap(), &HostSnapshot::default());
    assert_eq!((path.largest_tried, path.headers()), (1_500, 28));
    path.take_tcp(&failed("no connection"));
    path.take_datagrams(&failed("no datagram"));
    assert_eq!(path.tcp_failure.as_deref(), Some("no connection"));
    assert_eq!(path.udp_failure.as_deref(), Some("no datagram"));
    path.take_tcp(&Outcome::default());
    assert!(path.tcp_failure.is_some() && !path.has_session());
    for phase in [Path::tcp_phase(), Path::datagram_phase()] {
        assert_eq!(Phase::check(&phase), Ok(()));
    }
}

fn written(report: &Report, detail: Detail) -> String {
    let mut text = Vec::new();
    write_text(report, detail, false, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn people_read_the_worst_first_in_80_columns() {
    let report = towards(|path| {
        path.udp_failure = Some("no datagram".to_owned());
        (path.udp_rtt_ns, path.up) = (None, None);
        let host = &mut path.session.as_mut().unwrap().host;
        host.sysctl.insert("net.core.rmem_max".to_owned(), "212992".to_owned());
    });
    let text = written(&report, Detail::Brief);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "doctor b: not possible: ping -u, stream, delay, train, capacity, load");
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("no '{part}' in {text}"));
    assert!(
        at("Missing\n  udp: UDP to 192.0.2.7:7411 is blocked") < at("Limits\n  server's receive buffer: ")
    );
    assert!(text.contains("\n    on b: sudo ufw allow 7411/udp\n"), "{text}");
    assert!(text.contains("\nGood: tcp, "), "{text}");
    let long = lines.iter().find(|line| line.chars().count() > 80 && !line.contains("sudo "));
    assert_eq!(long, None);
    let full = written(&report, Detail::Full);
    assert!(full.contains("\nGood\n  tcp: TCP to 192.0.2.7:7411 passes"), "{full}");
    assert_eq!(
        written(&after(|_, _| {}), Detail::Line),
        "doctor: nothing prevents measuring (all checks are good)\n"
    );
}

#[test]
fn the_schema_is_that_of_the_types() {
    let (file, id) = ("doctor.v1.json", "urn:netcaliper:doctor:v1");
    Published { file, id, title: "netcaliper doctor, version 1" }.check::<Report>().unwrap();
}

#[test]
fn the_document_is_read_again() {
    let report = towards(|_| {});
    let mut text = Vec::new();
    write_json(&report, &mut text).unwrap();
    assert_eq!(serde_json::from_slice::<Report>(&text).unwrap(), report);
}
