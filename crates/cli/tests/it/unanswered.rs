//! Runs that nothing answers, of the real binary: every protocol that the binary knows, with every
//! question that it carries, against a listener that accepts and says nothing and a bound UDP port
//! that nobody reads. More questions, and the whole time of each wait, are tried over the simulated
//! network (`protocol-tests`, `endings`).

use crate::support::{as_it_is, at_once, netcaliper};
use std::collections::BTreeSet;
use std::net::{TcpListener, UdpSocket};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

/// Longest wait for the end.
const SOON: Duration = Duration::from_secs(50);

/// Silence after which the port closes its connections: clients that have given up before wait 10 s
/// at most. Only NTttcp's senders wait longer, 30 s.
const SILENCE: Duration = Duration::from_secs(12);

/// A port at which connections are accepted and kept, and datagrams are queued, in silence.
struct Mute {
    port: u16,
    _udp: UdpSocket,
}

fn mute() -> Mute {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let Ok(udp) = UdpSocket::bind(("127.0.0.1", port)) else { continue };
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                thread::spawn(move || {
                    thread::sleep(SILENCE);
                    drop(stream);
                });
            }
        });
        return Mute { port, _udp: udp };
    }
}

/// The protocols of the binary's table: the refusal of an unknown one names them.
fn protocols() -> Vec<String> {
    let done = netcaliper("tcp").args("127.0.0.1 --protocol none-of-them").run().exits(2);
    let (_, names) = done.err.split_once("must be one of ").expect("the table");
    let names = names.lines().next().unwrap_or_default().trim_end_matches('.');
    // Advice follows the last name.
    let words = names.split(',').filter_map(|name| name.split_whitespace().next());
    words.map(|name| name.trim_end_matches('.').to_owned()).collect()
}

/// Questions with their directions.
const QUESTIONS: [(&str, &str); 11] = [
    ("tcp", "-t 1s"),
    ("tcp", "-t 1s -R"),
    ("tcp", "-t 1s --bidir"),
    ("ping", "-n 3 --rate 50"),
    ("ping", "-u -n 3 --rate 50"),
    ("ping", "-u -t 1s --flood"),
    ("delay", "-t 1s"),
    ("delay", "-t 1s -R"),
    ("delay", "-t 1s --bidir"),
    ("stream", "-t 1s -R"),
    ("train", ""),
];

/// Where the peer reports nothing, and the sender's kernel takes its payload.
fn is_unreported(protocol: &str, verb: &str, args: &str) -> bool {
    let sends = !args.contains("-R") && !args.contains("--bidir");
    let silent = match verb {
        "tcp" => ["ttcp", "ntttcp", "discard"].contains(&protocol),
        "delay" => ["ttcp", "ntttcp", "discard", "bwdelaytester"].contains(&protocol),
        _ => false,
    };
    sends && silent
}

#[test]
fn nothing_that_is_not_answered_is_a_success() {
    let (mute, protocols) = (mute(), protocols());
    let of = |protocol| QUESTIONS.map(|(verb, args)| (protocol, verb, args));
    let cases: Vec<(&str, &str, &str)> = protocols.iter().map(String::as_str).flat_map(of).collect();
    let carried = Mutex::new(BTreeSet::new());
    at_once(&cases, |(protocol, verb, args)| {
        let words = format!("127.0.0.1:{} --protocol {protocol} {args} --json", mute.port);
        let done = netcaliper(verb).args(&words).spawn().wait_within(SOON);
        match done.code {
            // The protocol has no such question.
            Some(2) => return,
            // A kernel takes what its buffers hold, and acknowledges no more.
            Some(0 | 4) => {
                assert!(is_unreported(protocol, verb, args), "{}", done.tell());
                assert_eq!(done.json()["points"][0]["up"]["confirmed"], false, "{}", done.tell());
            }
            Some(1) => assert!(!done.err.trim().is_empty(), "{}", done.tell()),
            _ => panic!("{}", done.tell()),
        }
        carried.lock().unwrap().insert(protocol.to_owned());
    });
    // The client of UDPSTP is the stand-in `udpst`.
    let asked = protocols.into_iter().filter(|name| name != "udpstp").collect();
    assert_eq!(carried.into_inner().unwrap(), asked, "each has a question");
}

#[test]
fn stand_ins_say_that_nothing_was_answered() {
    let mute = mute();
    let port = mute.port.to_string();
    let cases = [
        (
            "ctstraffic",
            "-target:127.0.0.1 -port:PORT -timelimit:1000",
            255,
            "is the server's protocol ctstraffic?",
        ),
        (
            "ctstraffic",
            "-target:127.0.0.1 -port:PORT -timelimit:1000 -pattern:pull",
            255,
            "no payload arrived",
        ),
        (
            "ctstraffic",
            "-target:127.0.0.1 -port:PORT -timelimit:1000 -pattern:duplex",
            255,
            "no payload was sent",
        ),
        ("udpst", "-d -t 5 -p PORT 127.0.0.1", 200, "Timeout awaiting response from server"),
        (
            "udpst",
            "-u -t 5 -C 2 -p PORT 127.0.0.1",
            200,
            "ERROR: Minimum required connections (2) unavailable",
        ),
    ];
    at_once(&cases, |(name, words, code, why)| {
        let done = as_it_is(name).args(&words.replace("PORT", &port)).spawn().wait_within(SOON);
        assert_eq!(done.code, Some(code), "{}", done.tell());
        assert!((done.out.clone() + &done.err).contains(why), "{}", done.tell());
    });
}
