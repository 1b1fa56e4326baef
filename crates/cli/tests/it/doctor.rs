//! `netcaliper doctor` on this machine, against servers, and on paths that let only a part through.

use crate::support::lab::on_lab;
use crate::support::net::{Namespace, free_port, installed, is_root, succeeds};
use crate::support::{BIN, Done, Line, Server, netcaliper, serve, skip, text};
use serde_json::Value;
use std::process::Command;

/// A report, checked against the schema.
#[track_caller]
fn report(done: &Done) -> Value {
    let json: Value = serde_json::from_str(&done.out).unwrap_or_else(|e| panic!("{e}: {}", done.tell()));
    let schema = include_str!("../../../../schema/doctor.v1.json");
    let validator = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let errors: Vec<String> = validator.iter_errors(&json).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}: {}", done.tell());
    json
}

/// Runs it with `--json`: the report, and the exit code, which follows from it.
#[track_caller]
fn doctor(line: Line) -> Value {
    let done = line.arg("--json").run();
    let json = report(&done);
    let measures = json["prevents"].as_array().unwrap().iter().all(|command| command == "lab");
    assert_eq!(done.code, Some(if measures { 0 } else { 3 }), "{}", done.tell());
    json
}

#[track_caller]
fn check<'a>(json: &'a Value, place: &str, name: &str) -> &'a Value {
    let all = json["checks"].as_array().unwrap();
    let found = all.iter().find(|check| check["check"] == name && check["place"] == place);
    found.unwrap_or_else(|| panic!("no check {name} of {place} in {json:#}"))
}

#[track_caller]
fn state<'a>(json: &'a Value, place: &str, name: &str) -> &'a str {
    text(&check(json, place, name)["state"])
}

/// Commands that cannot do their work.
fn prevents(json: &Value) -> Vec<&str> {
    json["prevents"].as_array().unwrap().iter().map(text).collect()
}

#[test]
fn this_host_is_checked() {
    let json = doctor(netcaliper("doctor"));
    for name in ["receive-buffer", "tcp-window", "descriptors", "datagram-batches", "clock-source", "tun"] {
        assert_ne!(state(&json, "local", name), "unknown", "{json:#}");
    }
    assert_eq!(json["path"], Value::Null);
    // The worst first.
    let order = ["missing", "limits", "unknown", "ok"];
    let places: Vec<usize> = json["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| order.iter().position(|state| check["state"] == *state).unwrap())
        .collect();
    assert!(places.is_sorted(), "{json:#}");
    // For people: no line but a command is longer than 80 columns.
    let done = netcaliper("doctor").arg("-v").run();
    let long = done.out.lines().find(|line| line.chars().count() > 80 && !line.starts_with("    "));
    assert!(long.is_none() && done.out.starts_with("doctor: "), "{}", done.tell());
    let line = netcaliper("doctor").arg("-q").run();
    assert!(line.out.lines().count() <= 2, "{}", line.tell());
}

#[test]
fn a_user_without_privilege_cannot_have_a_lab_and_measures_all_the_same() {
    const NAME: &str = "doctor::a_user_without_privilege_cannot_have_a_lab_and_measures_all_the_same";
    let as_nobody = |program: &str| {
        let mut command = Command::new("setpriv");
        let user = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        command.args(user).arg(program).env("NETCALIPER_CONFIG", "off").env("NETCALIPER_STORE", "off");
        Line(command)
    };
    if !is_root() || !installed("setpriv") || as_nobody(BIN).arg("--version").run().code != Some(0) {
        return skip(NAME, "root, setpriv and a program that others may run are needed");
    }
    let json = doctor(as_nobody(BIN).arg("doctor"));
    assert_eq!(state(&json, "local", "namespaces"), "missing");
    assert_eq!(prevents(&json), ["lab"]);
    assert_eq!(check(&json, "local", "raw-sockets")["state"], "ok");
}

/// Nothing below `/proc` and `/sys`: unknown, and no failure.
#[test]
fn a_host_without_proc_and_sys_is_unknown() {
    const NAME: &str = "doctor::a_host_without_proc_and_sys_is_unknown";
    if !is_root() || !succeeds("unshare", "--mount true") {
        return skip(NAME, "mount namespaces need root and util-linux");
    }
    let script = format!("mount -t tmpfs none /sys && mount -t tmpfs none /proc && exec {BIN} doctor --json");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).env("NETCALIPER_CONFIG", "off");
    let done = Line(command).run();
    if done.err.contains("mount") {
        return skip(NAME, "file systems cannot be mounted here");
    }
    let json = report(&done.exits(0));
    for name in ["receive-buffer", "tcp-window", "cpu-steal", "cpu-frequency", "congestion-control"] {
        assert_eq!(state(&json, "local", name), "unknown", "{json:#}");
    }
}

#[test]
fn a_server_on_this_host_is_reached() {
    let server = serve("");
    let json = doctor(netcaliper("doctor").arg(server.at()));
    for name in ["tcp", "large-packets", "versions", "server-limits", "clock-offset"] {
        assert_eq!(state(&json, "path", name), "ok", "{json:#}");
    }
    // A busy host may lose datagrams.
    assert!(["ok", "limits"].contains(&state(&json, "path", "udp")), "{json:#}");
    let path = &json["path"];
    assert_eq!((&path["session"]["same_host"], &path["tcp"]), (&true.into(), &"connected".into()));
    assert_eq!(path["mtu"]["up"]["mtu"], 9000, "{path:#}");
    server.end();
    // Terms of a server are reported, whatever they are.
    let server = serve("--max-rate 2M --max-time 5s");
    let json = doctor(netcaliper("doctor").arg(server.at()));
    let limits = check(&json, "path", "server-limits");
    assert_eq!(limits["state"], "limits");
    for part in ["duration 5 s", "rate per connection 2000000 bit/s"] {
        assert!(text(&limits["text"]).contains(part), "{limits:#}");
    }
    server.end();
}

#[test]
fn a_port_without_a_server_is_refused() {
    let port = free_port();
    let json = doctor(netcaliper("doctor").arg(format!("127.0.0.1:{port}")));
    let tcp = check(&json, "path", "tcp");
    assert_eq!((text(&tcp["state"]), text(&tcp["mend_at"])), ("missing", "remote"));
    assert_eq!(text(&tcp["mend"]), format!("netcaliper serve -p {port}"));
    assert_eq!(state(&json, "path", "udp"), "unknown");
    // A protocol of another program, and a name that is none.
    netcaliper("doctor").args("127.0.0.1 --protocol echo").run().exits(2).complains(&["--protocol"]);
    netcaliper("doctor").args("no-such-host.invalid").run().exits(1).says_one_sentence();
}

/// Two hosts with a cable between them, and a server on the second.
fn two_hosts(test: &str) -> Option<(Namespace, Namespace, Server)> {
    let (here, there) = Namespace::pair(test)?;
    let server = Server::start(there.within(netcaliper("serve")));
    Some((here, there, server))
}

#[test]
fn a_firewall_is_named_with_what_it_drops() {
    const NAME: &str = "doctor::a_firewall_is_named_with_what_it_drops";
    type Drop = fn(&Namespace) -> bool;
    let cases: [(Drop, &str, &str, [&str; 3]); 3] = [
        (Namespace::drops_udp, "udp", "sudo ufw allow 7411/udp", ["ok", "missing", "unknown"]),
        (Namespace::drops_tcp, "tcp", "sudo ufw allow 7411/tcp", ["missing", "ok", "unknown"]),
        (
            Namespace::drops_large,
            "large-packets",
            "sudo ip link set dev nc0 mtu 1286",
            ["ok", "ok", "missing"],
        ),
    ];
    for (drops, name, command, states) in cases {
        let Some((here, there, _server)) = two_hosts(NAME) else { return };
        if !drops(&there) {
            return skip(NAME, "this kernel has no packet filter for tc");
        }
        let json = doctor(here.within(netcaliper("doctor")).arg("10.77.0.2"));
        let found =
            ["tcp", "udp", "large-packets"].map(|name| state(&json, "path", name).replace("limits", "ok"));
        assert_eq!(found, states, "{json:#}");
        assert_eq!(text(&check(&json, "path", name)["mend"]), command, "{json:#}");
        assert!(!prevents(&json).is_empty());
    }
}

#[test]
fn an_address_that_swallows_everything_is_blocked_for_tcp_and_udp() {
    const NAME: &str = "doctor::an_address_that_swallows_everything_is_blocked_for_tcp_and_udp";
    let Some(space) = Namespace::for_test(NAME) else { return };
    let Some(address) = space.silence() else { return skip(NAME, "no virtual Ethernet pairs") };
    let json = doctor(space.within(netcaliper("doctor")).arg(address));
    let found = ["tcp", "udp", "large-packets"].map(|name| state(&json, "path", name));
    assert_eq!(found, ["missing", "missing", "unknown"], "{json:#}");
    assert_eq!(json["path"]["tcp"], "silent");
}

#[test]
fn packets_that_a_router_refuses_are_a_limit() {
    const NAME: &str = "doctor::packets_that_a_router_refuses_are_a_limit";
    let command = format!("{BIN} doctor $NETCALIPER_LAB_SERVER --json");
    let Some(done) = on_lab(NAME, "-q --wait sleep --path-mtu 1400", &command) else { return };
    let json = report(&done.exits(0));
    let large = check(&json, "path", "large-packets");
    assert_eq!(large["state"], "limits", "{json:#}");
    assert!(text(&large["text"]).contains("to the server those above 1400 bytes are refused"), "{large:#}");
    assert_eq!(text(&large["mend"]), "sudo ip link set dev lab0 mtu 1400");
}
