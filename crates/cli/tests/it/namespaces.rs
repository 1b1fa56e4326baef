//! Between network namespaces that the tests make: exhausted ports, a cable that is pulled, a path
//! with two ends.

use crate::support::fabric::Fabric;
use crate::support::files::Scratch;
use crate::support::net::{Namespace, has_ipv6, installed};
use crate::support::{Line, Outcome, Server, connect, netcaliper, number, skip, tcp, text};
use std::collections::BTreeSet;
use std::time::Duration;

/// Within this time a vanished peer must have been noticed and told: less than the minute that a
/// run would take.
const NOTICED: Duration = Duration::from_secs(50);

/// A server within a namespace, on the default port.
fn serve_in(space: &Namespace, words: &str) -> Server {
    Server::start(space.within(netcaliper("serve").args(words)))
}

#[test]
fn exhausted_ports_are_explained_and_a_rude_end_leaves_them_free() {
    const NAME: &str = "namespaces::exhausted_ports_are_explained_and_a_rude_end_leaves_them_free";
    let Some(space) = Namespace::for_test(NAME) else { return };
    // Closed connections hold their ports, and there are few of them.
    let set = space.sysctl("net.ipv4.tcp_tw_reuse", "0")
        && space.sysctl("net.ipv4.ip_local_port_range", "'40000 40049'");
    if !set {
        return skip(NAME, "the port range of a namespace cannot be set here");
    }
    let _server = serve_in(&space, "");
    let line = space.within(connect("127.0.0.1").args("-P 4 --iterations 100 --shutdown rude"));
    let outcome = line.outcome().good();
    assert_eq!(outcome.local()["completed"], 400, "{}", outcome.tell());
    assert!(outcome.caveat("ephemeral-ports").is_none());

    let scratch = Scratch::new();
    let saved = scratch.file("run.jsonl");
    let line = connect("127.0.0.1").args("-P 4 -t 2s -i 500ms --save").arg(&saved);
    let outcome = space.within(line).outcome().exits(1).status("complete");
    let local = outcome.local();
    assert!(number(&local["network_errors"]) > 0, "{}", outcome.tell());
    let completed = number(&local["completed"]);
    assert!((30..=50).contains(&completed), "as many as there are ports: {}", outcome.tell());
    // One cause, with the system's word for it.
    let causes = local["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 1, "{causes:?}");
    assert!(text(&causes[0]["text"]).contains("Cannot assign requested address"), "{causes:?}");
    assert_eq!(causes[0]["count"], local["network_errors"]);
    let caveat = outcome.caveats("ephemeral-ports");
    for words in ["found no free local port", "TIME_WAIT", "net.ipv4.ip_local_port_range"] {
        assert!(caveat.contains(words), "{caveat}");
    }
    let advice = text(&outcome.caveat("ephemeral-ports").unwrap()["advice"]);
    assert!(advice.contains("--shutdown rude") && advice.contains("tcp_tw_reuse"), "{advice}");
    // A dead end is asked, not hammered: four slots that back off to a second try a few dozen
    // times, not thousands.
    assert!(number(&local["network_errors"]) < 200, "{}", outcome.tell());
    // And the summary says the sentence to people.
    netcaliper("report").arg(&saved).run().exits(1).prints(&[
        "ephemeral-ports: ",
        "--shutdown rude",
        "Failures by cause",
        "Cannot assign requested",
    ]);
}

#[test]
fn two_hosts_measure_the_path_between_them() {
    const NAME: &str = "namespaces::two_hosts_measure_the_path_between_them";
    let Some((here, there)) = Namespace::pair(NAME) else { return };
    // There is no server yet; an unused address of the network answers nothing, and no route leads
    // elsewhere.
    for (target, told) in [
        ("10.77.0.99", &["No route to host", "no connection within"][..]),
        ("10.77.0.2", &["Connection refused"]),
        ("192.0.2.1", &["Network is unreachable"]),
    ] {
        let done = here.within(tcp(target).args("-n 1M")).spawn().wait_within(NOTICED).exits(1);
        let all = done.out.clone() + &done.err;
        assert!(told.iter().any(|words| all.contains(words)), "{target}: {}", done.tell());
    }
    let server = serve_in(&there, "");
    for (flags, up, down) in [("", 8_000_008, 0), ("-R", 0, 8_000_008), ("--bidir", 4_000_008, 4_000_008)] {
        let line =
            here.within(tcp("10.77.0.2").args(&format!("-P 4 --iterations 2 --transfer 1000001 {flags}")));
        let outcome = line.outcome().moved(8, up, down);
        assert!(outcome.caveat("loopback").is_none());
        let nic = &outcome.json["begin"]["host"]["nic"];
        assert_eq!((&nic["name"], &nic["driver"]), (&"nc0".into(), &"veth".into()));
        assert!(number(&outcome.point()["sessions"][0]["base_rtt_ns"]) > 0);
    }
    // A link-local address is reached with its interface.
    if !has_ipv6() {
        server.end();
        return skip(NAME, "this machine has no IPv6");
    }
    here.ip("address add fe80::71/64 dev nc0 nodad");
    there.ip("address add fe80::72/64 dev nc0 nodad");
    for target in ["fe80::72%nc0", "[fe80::72%nc0]:7411"] {
        let line = here.within(tcp(target).args("-P 2 --iterations 1 --transfer 100001"));
        let outcome = line.outcome().moved(2, 200_002, 0);
        let remote = text(&outcome.connections()[0]["remote"]);
        assert!(remote.starts_with("[fe80::72"), "{remote}");
    }
    // An address to connect from has its own interface, or the target's.
    for from in ["fe80::71%nc0", "fe80::71"] {
        let line = tcp("fe80::72%nc0").args("-P 2 --iterations 1 --transfer 100001 -B").arg(from);
        let outcome = here.within(line).outcome().moved(2, 200_002, 0);
        let local = text(&outcome.connections()[0]["local"]);
        assert!(local.starts_with("[fe80::71"), "{local}");
    }
    let said = "a link-local address needs its interface: fe80::71%nc0";
    here.within(tcp("10.77.0.2").args("-t 1s -B fe80::71")).run().complains(&[said]);
    for words in ["tcp fe80::71", "iperf3 -c fe80::71", "serve --listen fe80::71", "iperf3 -s -B fe80::71"] {
        let (verb, rest) = words.split_once(' ').unwrap();
        let done = here.within(netcaliper(verb).args(rest)).run();
        assert!(done.code != Some(0) && (done.out.clone() + &done.err).contains(said), "{}", done.tell());
    }
    here.within(tcp("fe80::72%nosuch")).run().complains(&["no interface 'nosuch' (here: nc0)"]);
    let listening = Server::start(there.within(netcaliper("serve").args("--listen [fe80::72%nc0]:7500")));
    here.within(tcp("[fe80::72%nc0]:7500").args("-P 1 -n 1k")).run().exits(0);
    listening.end();
    server.end();
}

#[test]
fn link_local_addresses_stand_for_hosts_in_tests_of_both_transports() {
    const NAME: &str = "namespaces::link_local_addresses_stand_for_hosts_in_tests_of_both_transports";
    let Some((here, there)) = Namespace::pair(NAME) else { return };
    if !has_ipv6() {
        return skip(NAME, "this machine has no IPv6");
    }
    here.ip("address add fe80::71/64 dev nc0 nodad");
    there.ip("address add fe80::72/64 dev nc0 nodad");
    let line = netcaliper("serve").args("--bind [fe80::72%nc0]:7500 --legacy echo:7507 --legacy");
    let _server = Server::start(there.within(line.arg("ctstraffic:7544 -transfer:1000")));
    for words in [
        "tcp [fe80::72%nc0]:7500 -P 1 -n 1k -R",
        "ping -u -n 3 [fe80::72%nc0]:7500 -B fe80::71",
        "ping -n 3 [fe80::72%nc0]:7500 -B fe80::71%nc0",
        "delay [fe80::72%nc0]:7500 -t 300ms",
        "ping -u -n 3 [fe80::72%nc0]:7507 --protocol echo -B fe80::71",
        "rttcpipclient i=fe80::72%nc0 p=7507 a=fe80::71 b=1 m=3",
        "ctstraffic -target:fe80::72%nc0 -port:7544 -bind:fe80::71 -connections:1 -iterations:1 -transfer:1000",
    ] {
        let (verb, rest) = words.split_once(' ').unwrap();
        let done = here.within(netcaliper(verb).args(rest)).run();
        assert_eq!(done.code, Some(0), "{words}: {}", done.tell());
    }
    // Without an interface every option asks for it, each stand-in by the name of its own option.
    let needs = "a link-local address needs its interface: fe80::71%nc0";
    for (words, option) in [
        ("tcp 10.77.0.2 -B fe80::71", "-B: "),
        ("tcp 10.77.0.2 --web=[fe80::71]:7480", ""),
        ("serve --metrics [fe80::71]:9411", ""),
        ("rttcpipclient i=10.77.0.2 a=fe80::71", "a: "),
        ("ntttcp -s 10.77.0.2 -a fe80::71", "-a: "),
        ("ctstraffic -target:fe80::71", ""),
        ("ctstraffic -listen:fe80::71", ""),
        ("udpmon_bw_mon -d fe80::71", ""),
        ("ttcp -t fe80::71", ""),
    ] {
        let (verb, rest) = words.split_once(' ').unwrap();
        let done = here.within(netcaliper(verb).args(rest)).run();
        let all = done.out.clone() + &done.err;
        assert!(
            done.code != Some(0) && all.contains(&format!("{option}{needs}")),
            "{words}: {}",
            done.tell()
        );
    }
}

#[test]
fn a_server_without_key_is_not_stopped_from_afar() {
    let Some((here, there)) = Namespace::pair("namespaces::a_server_without_key_is_not_stopped_from_afar")
    else {
        return;
    };
    let mut server = serve_in(&there, "");
    let done = here.within(netcaliper("stop").arg("10.77.0.2")).run().exits(1);
    done.complains(&["no pre-shared key", "own host"]);
    assert!(server.proc.is_running());
    let keyed = Server::start(
        there.within(netcaliper("serve").args("--port 7412").env("NETCALIPER_PSK", "long enough")),
    );
    here.within(netcaliper("stop").arg("10.77.0.2:7412").env("NETCALIPER_PSK", "long enough")).run().exits(0);
    keyed.proc.wait().exits(0);
}

#[test]
fn a_pulled_cable_is_noticed_by_both_ends() {
    let Some((here, there)) = Namespace::pair("namespaces::a_pulled_cable_is_noticed_by_both_ends") else {
        return;
    };
    let server = serve_in(&there, "");
    let scratch = Scratch::new();
    let line = tcp("10.77.0.2").args("-P 2 -t 60s -i 200ms -b 2M --json --save");
    let client = here.within(line.arg(scratch.file("run.jsonl"))).spawn();
    scratch.hears_intervals("run.jsonl", 3);
    here.ip("link set nc0 down");
    let outcome = Outcome::of(client.wait_within(NOTICED)).exits(4).status("partial");
    assert!(number(&outcome.local()["traffic"]["tx_bytes"]) > 0, "{}", outcome.tell());
    server.proc.hears("session 1 with 10.77.0.1");
    crate::support::eventually("the server lets go", || server.proc.err().contains("was lost"));
    // The cable is put back: all is well.
    here.ip("link set nc0 up");
    let line = here.within(tcp("10.77.0.2").args("-P 2 --iterations 1 --transfer 100001 --exclusive"));
    Outcome::of(line.arg("--json").spawn().wait_within(NOTICED)).moved(2, 200_002, 0);
}

#[test]
fn of_a_name_with_two_addresses_the_first_that_is_there_is_used() {
    const NAME: &str = "namespaces::of_a_name_with_two_addresses_the_first_that_is_there_is_used";
    let Some(space) = Namespace::for_test(NAME) else { return };
    if !space.hosts("127.0.0.8 twice\n127.0.0.9 twice\n") {
        return skip(NAME, "/etc/netns cannot be written");
    }
    let line = || space.within(tcp("twice").args("-P 4 --iterations 2 --transfer 100001"));
    let remotes = |outcome: &Outcome| {
        let all = outcome.connections().iter().map(|c| text(&c["remote"]).to_owned());
        all.collect::<BTreeSet<_>>()
    };
    let server = serve_in(&space, "");
    let outcome = line().outcome().moved(8, 800_008, 0);
    assert_eq!(remotes(&outcome).into_iter().collect::<Vec<_>>(), ["127.0.0.8:7411"]);
    assert_eq!(outcome.remote().len(), 1, "the name is one server: {}", outcome.tell());
    server.end();
    // The first refuses: the other is its fallback.
    let server = serve_in(&space, "--listen 127.0.0.9");
    let outcome = line().outcome().moved(8, 800_008, 0);
    assert_eq!(remotes(&outcome).into_iter().collect::<Vec<_>>(), ["127.0.0.9:7411"]);
    server.end();
}

#[cfg(feature = "http")]
/// All of the answers to GET requests for these paths that one shell in a namespace makes.
fn asked_from(space: &Namespace, at: &str, host: &str, paths: &[&str]) -> Vec<String> {
    let (address, port) = at.rsplit_once(':').unwrap();
    let address = address.trim_matches(['[', ']']);
    let ask = |path: &&str| {
        let request = format!("GET {path} HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n");
        // A zero byte ends each answer.
        format!("exec 3<>/dev/tcp/{address}/{port} && printf '{request}' >&3 && cat <&3; printf '\\0'")
    };
    let script = paths.iter().map(ask).collect::<Vec<_>>().join("; ");
    let mut command = std::process::Command::new("ip");
    command.args(["netns", "exec", space.name(), "bash", "-c", &script]);
    let answers = String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned();
    let answers: Vec<String> = answers.split_terminator('\0').map(str::to_owned).collect();
    assert_eq!(answers.len(), paths.len(), "{answers:?}");
    answers
}

#[test]
#[cfg(feature = "http")]
fn a_page_at_an_address_of_the_cable_wants_its_token() {
    let Some((here, there)) =
        Namespace::pair("namespaces::a_page_at_an_address_of_the_cable_wants_its_token")
    else {
        return;
    };
    here.ip("address add fd77::1/64 dev nc0 nodad");
    there.ip("address add fd77::2/64 dev nc0 nodad");
    there.ip("address add fe80::72/64 dev nc0 nodad");
    here.ip("address add fe80::71/64 dev nc0 nodad");
    for bound in ["10.77.0.2:0", "[fd77::2]:0", "[fe80::72%nc0]:0"] {
        let server = serve_in(&there, &format!("--web {bound}"));
        let line = server.proc.hears("live view at http://");
        let (at, token) = line.split("http://").nth(1).unwrap().split_once("/?token=").unwrap();
        let ((shown, port), written) = (at.rsplit_once(':').unwrap(), bound.rsplit_once(':').unwrap().0);
        // An interface is shown by its number, which means nothing to the other host.
        assert_eq!(shown.split('%').next(), written.strip_suffix("%nc0]").or(Some(written)), "{line}");
        let at = format!("{written}:{port}");
        let at = at.as_str();
        // No request without the token is answered: neither the other host, nor one that calls it
        // by a name of its own, nor this host itself.
        for (space, host) in [(&here, at), (&here, "localhost"), (&there, at), (&there, "127.0.0.1")] {
            let paths = ["/", "/events", "/run.json", "/metrics", "/?token=00"];
            for (path, answer) in paths.iter().zip(asked_from(space, at, host, &paths)) {
                assert!(answer.starts_with("HTTP/1.1 403"), "{path} {host}: {answer}");
            }
        }
        let paths = [format!("/?token={token}"), format!("/run.json?token={token}")];
        let answers = asked_from(&here, at, at, &[&paths[0], &paths[1]]);
        let (welcome, told) = (&answers[0], &answers[1]);
        assert!(welcome.starts_with("HTTP/1.1 303"), "{welcome}");
        assert!(told.starts_with("HTTP/1.1 200") && told.contains("netcaliper.outcome.v2"), "{told}");
        server.proc.signal("INT");
        server.proc.wait().exits(0);
    }
}

/// The fabric that other tests stand on: real kernels spread flows over both spines, and keep each
/// flow on its own.
#[test]
fn a_fabric_spreads_flows_over_its_spines() {
    const NAME: &str = "namespaces::a_fabric_spreads_flows_over_its_spines";
    if !installed("traceroute") {
        return skip(NAME, "traceroute is not installed");
    }
    let Some(fabric) = Fabric::new(NAME, 4, 2) else { return };
    let trace = |port: u16| {
        // One 5-tuple; the ports of ordinary traces differ from probe to probe.
        let mut line = Line(std::process::Command::new("traceroute"));
        line = line.args(&format!("-n -q 1 -N 1 -w 5 -U -p 7 --sport={port}")).arg(Fabric::address(4));
        let out = fabric.host(1).within(line).run().exits(0).out;
        let hops = out.lines().skip(1).filter_map(|hop| hop.split_whitespace().nth(1).map(str::to_owned));
        hops.collect::<Vec<String>>()
    };
    // Both spines in 24 flows, but for once in 2^23 runs.
    let traces: Vec<Vec<String>> = (0..24).map(|n| trace(40_000 + n)).collect();
    let way = |j| vec![Fabric::leaf(1, 0), Fabric::spine(1, j), Fabric::leaf(4, j), Fabric::address(4)];
    let seen: BTreeSet<&Vec<String>> = traces.iter().collect();
    assert_eq!(seen, BTreeSet::from([&way(1), &way(2)]));
    assert_eq!(trace(40_003), traces[3], "a flow keeps its way");
}
