//! UDPSTP with the real binary, either end, against an independent peer: `peers/udpstp.py`, written
//! from a description of the PDUs with Python's standard library.

use crate::support::files::Scratch;
use crate::support::peer::peer;
use crate::support::{Proc, netcaliper};
use serde_json::Value;

const PEER: &str = "udpstp.py";

/// The stand-in as a server on a free port.
struct Server {
    proc: Proc,
    port: String,
}

fn server(words: &str) -> Server {
    let proc = netcaliper("udpst").args("-4 -v -p 0").args(words).spawn();
    let line = proc.hears("Awaiting setup requests on ");
    let port = line.rsplit(':').next().unwrap().to_owned();
    Server { proc, port }
}

#[test]
fn a_client_of_another_program_is_served_in_both_directions() {
    let test = "a_client_of_another_program_is_served_in_both_directions";
    for (way, key) in [("up", ""), ("down", ""), ("down", "netcaliper-key")] {
        let (ours, theirs) = match key {
            "" => (String::new(), String::new()),
            key => (format!("-a {key}"), format!("key={key}")),
        };
        let server = server(&ours);
        let words = format!("client {} {way} 5 {theirs}", server.port);
        let Some(client) = peer(PEER, test, &words) else { return };
        let found = client.wait().exits(0).json();
        assert_eq!((&found["setup"], &found["activation"]), (&Value::from(1), &Value::from(1)), "{found}");
        let moved = if way == "up" { "sent" } else { "received" };
        assert!(found[moved].as_u64() > Some(500), "{way}: {found}");
        // The peer's own reports have no sub-intervals.
        if way == "up" {
            server.proc.hears("Sub-Interval[5]");
        }
        server.proc.hears("Sending test stop");
        server.proc.hears("End time reached");
        server.proc.signal("INT");
        server.proc.wait().exits(0);
    }
}

#[test]
fn a_client_with_another_key_is_refused() {
    let test = "a_client_with_another_key_is_refused";
    let server = server("-a netcaliper-key");
    for (key, code) in [("key=another", 7), ("", 5)] {
        let Some(client) = peer(PEER, test, &format!("client {} down 5 {key}", server.port)) else { return };
        let found = client.wait().exits(0).json();
        assert_eq!(
            (&found["setup"], &found["setup_octets"]),
            (&Value::from(code), &Value::from(56)),
            "{found}"
        );
    }
    server.proc.hears("ERROR: Authentication failure of setup request from ");
    server.proc.signal("INT");
    server.proc.wait().exits(0);
}

#[test]
fn a_server_of_another_program_is_measured_in_both_directions() {
    let test = "a_server_of_another_program_is_measured_in_both_directions";
    for (way, key) in [("-u", ""), ("-d", "netcaliper-key")] {
        let (ours, theirs) = match key {
            "" => (String::new(), String::new()),
            key => (format!("-a {key}"), format!("key={key}")),
        };
        let Some(server) = peer(PEER, test, &format!("server {theirs}")) else { return };
        let port = server.port();
        let line = format!("{way} -t 5 -f json {ours} -p {port} 127.0.0.1");
        let done = netcaliper("udpst").args(&line).run().exits(0);
        let json = done.json();
        assert_eq!((&json["ErrorStatus"], &json["Output"]["Status"]), (&Value::from(0), &"Complete".into()));
        let counts = server.wait().exits(0);
        let counts: Value = serde_json::from_str(counts.out.lines().last().unwrap()).unwrap();
        if way == "-d" {
            // The peer sends 97 octets a millisecond, headers of 28 each: 1 Mbit/s, or as much of it as Python does.
            let capacity = json["Output"]["AtMax"]["MaxIPLayerCapacity"].as_f64().unwrap();
            assert!((0.3..1.1).contains(&capacity), "{capacity} {counts}");
            assert!(counts["sent"].as_u64() > Some(1_000), "{counts}");
        } else {
            assert!(counts["received"].as_u64() > Some(500), "{counts}");
        }
    }
}

#[test]
fn both_ends_are_ours_and_a_saved_run_is_printed_again() {
    let server = server("");
    let scratch = Scratch::new();
    let file = scratch.file("run.jsonl");
    let line = format!("-d -t 5 -I 5 -C 2 -p {} 127.0.0.1 --save", server.port);
    let done = netcaliper("udpst").args(&line).arg(&file).run().exits(0);
    let done = done.prints(&[
        "Conn: 2, DSCP+ECN: 0",
        "Sub-Interval[5](sec):",
        "Downstream Maximum Mbps(L3/IP): ",
        // A busy machine may have ended one of the two before the last report.
        "Active Connections: ",
    ]);
    let again = netcaliper("report").args("--as udpst").arg(&file).run().exits(0);
    let lines =
        |text: &str| text.lines().filter(|line| line.contains("Mbps")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(lines(&again.out), lines(&done.out));
    netcaliper("report").arg(&file).run().exits(0).prints(&["Maximum IP-layer capacity from server"]);
    server.proc.signal("INT");
    server.proc.wait().exits(0);
}

#[test]
fn a_server_beside_the_native_one_has_its_options() {
    let scratch = Scratch::new();
    let keys = scratch.key("keys", "7,netcaliper-key\n");
    let line = netcaliper("serve")
        .args("-B 127.0.0.1 --port 0 --legacy udpstp:0 --udpstp-bandwidth 50 --udpstp-no-jumbo");
    let proc = line.arg("--udpstp-key-file").arg(&keys).spawn();
    let port = proc.port_of("udpstp");
    let with =
        |words: &str| netcaliper("udpst").args(&format!("-d -t 5 -I 1 -s -p {port} {words} 127.0.0.1")).run();
    with("-j -a netcaliper-key -y 7 -B 20").exits(0);
    with("-j -a netcaliper-key -y 7").exits(109);
    with("-j -a netcaliper-key -y 7 -B 51").exits(110);
    with("-a netcaliper-key -y 7 -B 20").exits(103);
    with("-j -a netcaliper-key -B 20").exits(107);
    proc.signal("INT");
    assert_eq!(proc.wait().code, Some(0));
}
