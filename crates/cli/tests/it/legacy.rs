//! Several servers of other protocols in one process (`serve --legacy`).

use crate::support::net::Namespace;
use crate::support::peer::call;
use crate::support::{Line, Outcome, Server, as_it_is, netcaliper, number, serve, sized};
use serde_json::{Value, json};
use std::net::{TcpListener, UdpSocket};
use std::time::Duration;

#[test]
fn several_protocols_and_a_table() {
    let server = serve(
        "--legacy iperf3:0,echo:0,stamp:0 --legacy ttcp:0,ctstraffic:0,udpmon:0,bwdelaytester:0,tcpmon:0",
    );
    for column in ["listens at", "over", "serves"] {
        assert!(server.proc.hears("protocol ").contains(column), "{column}");
    }
    let at = |name| server.proc.port_of(name).to_string();
    // All are spoken to while the others are there.
    for (verb, name, words) in [
        ("iperf3", "iperf3", "-c 127.0.0.1 -n 64K -p PORT"),
        ("iperf3", "iperf3", "-c 127.0.0.1 -u -k 10 -l 500 -p PORT"),
        ("ping", "echo", "127.0.0.1 --protocol echo -n 5 -u --no-baseline -p PORT"),
        ("ping", "stamp", "127.0.0.1 --protocol stamp -n 5 --no-baseline -p PORT"),
    ] {
        as_it_is(verb).args(&words.replace("PORT", &at(name))).run().exits(0);
    }
    // The transfer of a connection is 1 GiB.
    let limits = sized("-RateLimit:10000000 -TimeLimit:1500", "");
    let words = format!("-Target:127.0.0.1 -Port:{} -Connections:1 -Iterations:1", at("ctstraffic"));
    let done = as_it_is("ctstraffic").args(&words).args("-ConsoleVerbosity:1").args(limits).run().exits(0);
    let sent = done.out.split("Total Bytes Sent : ").nth(1);
    let sent = sent.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    assert!(sent > Some(0), "{}", done.tell());
    let probe = UdpSocket::bind("127.0.0.1:0").unwrap();
    probe.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    probe.send_to(b"word", format!("127.0.0.1:{}", at("echo"))).unwrap();
    let mut word = [0; 8];
    assert_eq!(probe.recv(&mut word).unwrap(), 4);
    server.still_serves();
    server.end();
}

#[test]
fn connections_and_streams_of_ctstraffic_are_served_without_settings() {
    let server = serve("--legacy ctstraffic:0");
    let port = server.proc.port_of("ctstraffic");
    for over in ["TCP", "UDP"] {
        server.proc.hears(&format!(":{port} ({over})"));
    }
    let words = format!("127.0.0.1 --protocol ctstraffic -p {port} -i 100ms");
    netcaliper("tcp").args(&words).args("-P 1 -b 20M -t 300ms").run().exits(0);
    let stream = netcaliper("stream").args(&words).args("-t 1500ms --depth 500ms --json").run();
    let outcome = Outcome::of(stream.exits(0));
    assert!(number(&outcome.local()["frames"]["completed"]) > 30, "{}", outcome.tell());
    server.end();
    let done = netcaliper("stream").args(&words).args("-t 1500ms").run().exits(1);
    done.prints(&["no ctsTraffic server of streams is at this UDP port: start `netcaliper serve --legacy"]);
}

#[test]
fn what_cannot_be_had_is_in_the_table_or_ends_it() {
    // Another program has this port: naming the protocol is then an error.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().port();
    let words = format!("-B 127.0.0.1 --port 0 --legacy echo:0,iperf3:{at}");
    netcaliper("serve").args(&words).run().exits(1).complains(&[&at.to_string()]);
    netcaliper("serve").args("--legacy native").run().exits(2).complains(&["speaks anyway"]);
}

/// All of them in a namespace of their own, where all ports are free but one.
#[test]
fn all_that_can_be_had_is_there() {
    const NAME: &str = "legacy::all_that_can_be_had_is_there";
    let Some(space) = Namespace::for_test(NAME) else { return };
    let own = space.within(netcaliper("serve").args("-B 127.0.0.1 --port 0 --legacy bwdelaytester")).spawn();
    own.hears("answering bwdelaytester");
    let proc = space.within(netcaliper("serve").args("-B 127.0.0.1 --port 0 --legacy all")).spawn();
    let row = proc.hears("bwdelaytester ");
    assert!(row.contains("refused") && row.contains("8888"), "{row}");
    // ttcp has one of ntttcp's usual ports: ntttcp goes elsewhere, and says so.
    let row = proc.hears("ntttcp ");
    assert!(row.contains("127.0.0.1:5100 ") && row.contains("-p 5101"), "{row}");
    for (name, port) in [
        ("iperf3", 5201),
        ("ctstraffic", 4444),
        ("ttcp", 5001),
        ("udpmon", 14_233),
        ("echo", 7),
        ("stamp", 862),
    ] {
        let row = proc.hears(&format!("{name} "));
        assert!(row.contains(&format!("127.0.0.1:{port} ")), "{row}");
    }
    let sender = netcaliper("ntttcp").args("-s127.0.0.1 -p 5101 -P 1 -n 1 -t 1 -B 10M");
    let done = space.within(sender).run();
    assert_eq!(done.code, Some(0), "{}", done.tell());
    assert!(proc.hears("native ").contains("127.0.0.1:"), "{}", proc.out());
    for proc in [proc, own] {
        proc.signal("INT");
        assert_eq!(proc.wait().code, Some(0));
    }
}

/// Protocols that cannot prove an address.
const FENCED: [&str; 5] = ["udpmon", "bwdelaytester", "echo", "stamp", "udpstp"];

/// They serve this host and directly connected networks, unless more is allowed: other addresses
/// get no answer to any request, and each is named once on stderr.
#[test]
fn answers_stay_inside_the_fence() {
    const NAME: &str = "legacy::answers_stay_inside_the_fence";
    let Some((local, remote)) = Namespace::pair(NAME) else { return };
    // The second address of those who ask is behind a router, as the server sees it.
    local.ip("address add 10.99.0.1/32 dev lo");
    remote.ip("route add 10.99.0.0/24 via 10.77.0.1");
    let ask = |server: Line| -> Option<(Value, Server)> {
        let server = Server::start(remote.within(server));
        let ports = FENCED.map(|name| server.proc.port_of(name).to_string());
        let words = format!("10.77.0.2 10.99.0.1 {}", ports.join(" "));
        let done = local.within(call("fence.py", NAME, &words)?).run().exits(0);
        Some((serde_json::from_str(done.out.trim()).unwrap(), server))
    };
    let words = "-B 0.0.0.0 --port 0 --legacy udpmon:0,bwdelaytester:0,echo:0,stamp:0,udpstp:0";
    let Some((told, server)) = ask(netcaliper("serve").args(words)) else { return };
    let nothing = json!({"udpmon": [], "bwdelaytester": [], "echo": [], "stamp": [], "udpstp": []});
    assert_eq!(told["outside"], nothing, "{told}");
    let answers = json!({"udpmon": [208, 8000, 1400, 8064, 208], "bwdelaytester": [], "echo": [300], "stamp": [44, 44], "udpstp": [56, 104]});
    assert_eq!(told["inside"], answers, "{told}");
    for protocol in FENCED {
        server.proc.hears(&format!("{protocol}: 10.99.0.1 "));
    }
    let done = server.end();
    for protocol in FENCED {
        let named = format!("{protocol}: 10.99.0.1 ");
        assert_eq!(done.err.matches(&named).count(), 1, "{named}: {}", done.tell());
    }
    assert!(done.out.contains("50 datagrams from 1 senders"), "{}", done.tell());
    // The user can allow them.
    let line = netcaliper("serve").args(words).env("NETCALIPER_ALLOW", "10.99.0.0/24");
    let Some((told, server)) = ask(line) else { return };
    for (name, least) in [("udpmon", 1), ("echo", 10), ("stamp", 1), ("udpstp", 2)] {
        let got = told["outside"][name].as_array().unwrap();
        assert!(got.len() >= least, "{name}: {told}");
    }
    server.end();
}
