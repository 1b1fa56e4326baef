//! A peer of another protocol, at either end, gets one sentence, soon; and other clients are not
//! affected.

use crate::support::files::Scratch;
use crate::support::{BIN, Proc, Server, at_once, iperf3, net, netcaliper, serve, skip, tcp};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Longest time that a server may spend on a peer of another protocol.
const SOON: Duration = Duration::from_secs(60);

/// What the server answers to `words`, until it hangs up.
#[track_caller]
fn answer(server: &Server, words: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.write_all(words).unwrap();
    until_closed(&mut stream)
}

#[track_caller]
fn until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return all,
            Ok(n) => all.extend_from_slice(&buffer[..n]),
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => return all,
            Err(e) => panic!("the server did not hang up: {e}; it said {:?}", String::from_utf8_lossy(&all)),
        }
    }
}

// ---- at the server
// --------------------------------------------------------------------------------------------------

#[test]
fn other_clients_are_answered_in_their_own_words() {
    let server = serve("");
    for request in [
        "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "POST /x HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
    ] {
        let said = String::from_utf8(answer(&server, request.as_bytes())).unwrap();
        assert!(said.starts_with("HTTP/1.1 400 ") && said.contains("netcaliper"), "{request}: {said}");
    }
    server.proc.hears("spoke HTTP to this port");
    // A person with telnet.
    for words in ["hello?\r\n", "help\n", "a", "QUIT\r\n"] {
        let said = String::from_utf8(answer(&server, words.as_bytes())).unwrap();
        assert!(said.contains("netcaliper"), "{words:?}: {said}");
    }
    let mut hello = vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    hello.resize(517, 0x5a);
    let said = answer(&server, &hello);
    assert_eq!(&said[..3], [0x15, 3, 3], "a TLS alert: {said:?}");
    server.proc.hears("spoke TLS to this port");
    // Another wire version is answered with ours.
    let said = answer(&server, &preamble(77, 1));
    assert_eq!(said.len(), 80, "a preamble: {said:?}");
    assert_eq!(said[..11], *b"\x8eNETCAL\n\x00\x03\x04");
    server.still_serves();
}

#[test]
fn a_real_iperf3_client_prints_an_error_and_ends() {
    if iperf3::missing("other_protocols::a_real_iperf3_client_prints_an_error_and_ends") {
        return;
    }
    let server = serve("");
    for args in ["-t 1", "-u -t 1", "-R -t 1", "-P 4 -t 1"] {
        let mut command = Command::new("iperf3");
        command.args(["-c", "127.0.0.1", "-p", &server.port.to_string()]).args(args.split_whitespace());
        let done = Proc::spawn(&mut command).wait_within(SOON);
        assert_ne!(done.code, Some(0), "{}", done.tell());
        assert!((done.out.clone() + &done.err).contains("error"), "{}", done.tell());
    }
    server.proc.hears("spoke iperf3 to this port");
    server.still_serves();
}

#[test]
fn the_silent_the_slow_and_the_incomplete_are_shown_the_door() {
    let server = serve("");
    let magic = b"\x8eNETCAL\n\x00\x02\x01\x00";
    let mut open: Vec<TcpStream> = Vec::new();
    for words in [&b""[..], &magic[..3], magic, &[0xff; 30], &[0; 64], &[0x8e; 200]] {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        let _ = stream.write_all(words);
        open.push(stream);
    }
    // One byte a second never makes a preamble.
    let mut slow = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).unwrap();
    let drip = thread::spawn(move || {
        let began = Instant::now();
        while began.elapsed() < SOON {
            if slow.write_all(&[0x8e]).is_err() {
                return true;
            }
            thread::sleep(Duration::from_millis(500));
        }
        false
    });
    // Meanwhile everybody else is served.
    server.still_serves();
    for stream in &mut open {
        until_closed(stream);
    }
    assert!(drip.join().unwrap(), "the slow one was hung up on");
    server.still_serves();
}

#[test]
fn half_open_connections_by_the_hundred_keep_nobody_out() {
    let server = serve("");
    let silent: Vec<TcpStream> =
        (0..500).map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).unwrap()).collect();
    server.still_serves();
    drop(silent);
    server.still_serves();
}

/// FNV-1a, as the preamble's drawing says.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// A preamble of this wire version, for this purpose.
fn preamble(version: u16, purpose: u8) -> Vec<u8> {
    let mut bytes = b"\x8eNETCAL\n".to_vec();
    bytes.extend(version.to_be_bytes());
    bytes.push(purpose);
    bytes.resize(76, 0);
    let check = fnv1a(&bytes);
    bytes.extend(check.to_be_bytes());
    bytes
}

fn message(json: &str) -> Vec<u8> {
    [&(json.len() as u32).to_be_bytes()[..], json.as_bytes()].concat()
}

const HELLO: &str =
    r#"{"type":"hello","version":"9","nonce":"000102030405060708090a0b0c0d0e0f","later":{"deep":[1]}}"#;

#[test]
fn what_cannot_be_in_a_conversation_ends_only_that() {
    let server = serve("");
    for (phase, reason) in [
        (r#"{"connections":0}"#, "connections must be 1 to 1000000"),
        (r#"{"transfer":0}"#, "the transfer must be 1 byte"),
        (r#"{"buffer":{"low":0,"high":9}}"#, "the buffer must be 1 byte to 16Mi"),
        (r#"{"buffer":{"low":9,"high":99999999999}}"#, "the buffer must be 1 byte to 16Mi"),
        (r#"{"interval_ns":1}"#, "the interval must be 10ms to 1h"),
        (r#"{"pattern":{"push_pull":{"push":0,"pull":1}}}"#, "push-pull segments must be at least 1 byte"),
        (r#"{"pattern":"sideways"}"#, "cannot be understood"),
        (r#"{"connections":-1}"#, "cannot be understood"),
    ] {
        let propose =
            format!(r#"{{"type":"propose","run":"00000000-0000-4000-8000-000000000001","phase":{phase}}}"#);
        let said = answer(&server, &[preamble(3, 1), message(HELLO), message(&propose)].concat());
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains("refused") && said.contains(reason), "{phase}: {said}");
    }
    server.still_serves();
    let deep = format!(r#"{{"type":"ping","n":1,"x":{}1{}}}"#, "[".repeat(5000), "]".repeat(5000));
    for abuse in [
        [0xff; 100].to_vec(),
        vec![0, 0, 0, 5, b'{', b'{', b'{', b'{', b'{'],
        (64 * 1024 * 1024u32).to_be_bytes().to_vec(),
        message(&deep),
        message(r#"{"type":"start"}"#),
        message(r#"{"type":"propose"}"#),
        [message(HELLO), message("[1,2,3]")].concat(),
        [message(HELLO), vec![0; 400]].concat(),
    ] {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.write_all(&[preamble(3, 1), abuse].concat()).unwrap();
        let _ = stream.shutdown(std::net::Shutdown::Write);
        until_closed(&mut stream);
    }
    // A data connection of a session that nobody has, a purpose that nobody knows, another wire
    // version.
    for preamble in [preamble(3, 2), preamble(1, 9), preamble(77, 1)] {
        answer(&server, &preamble);
    }
    server.still_serves();
}

#[test]
fn the_udp_port_answers_hellos_and_nothing_else() {
    let server = serve("");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect((Ipv4Addr::LOCALHOST, server.port)).unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    let mut buffer = [0; 2048];
    for junk in [&b"x"[..], &[0; 64], &[0xff; 1400], &preamble(3, 4), &preamble(1, 1)] {
        socket.send(junk).unwrap();
    }
    socket.send(&preamble(3, 3)).unwrap();
    let n = socket.recv(&mut buffer).unwrap();
    assert_eq!((n, buffer[10]), (80, 4), "one answer, no larger than the question");
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(socket.recv(&mut buffer).is_err(), "and no other");
    server.still_serves();
}

// ---- at the client
// --------------------------------------------------------------------------------------------------

/// A server that accepts every connection, says `banner`, answers the first bytes with `reply`, and
/// hangs up or not.
fn listener(banner: &'static [u8], reply: &'static [u8], hangs_up: bool) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut kept = Vec::new();
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.write_all(banner);
            if !reply.is_empty() {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(reply);
            }
            if hangs_up {
                let _ = stream.shutdown(std::net::Shutdown::Write);
                // A socket that is closed with unread bytes is reset, which may overtake its
                // orderly end.
                thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
            } else {
                kept.push(stream);
            }
        }
    });
    port
}

/// A client that meets it says `words`, once, and fails.
#[track_caller]
fn meets(port: u16, words: &[&str]) {
    let client = |more: &str| {
        tcp(format!("127.0.0.1:{port}")).args("-P 2 -n 1M").args(more).spawn().wait_within(SOON).exits(1)
    };
    let json = client("--json").json();
    assert_eq!(json["status"], "failed", "{json}");
    let done = client("");
    let all = done.out.clone() + &done.err;
    for word in words {
        assert!(json["reason"].as_str().is_some_and(|r| r.contains(word)), "'{word}': {}", json["reason"]);
        assert!(all.contains(word), "'{word}': {}", done.tell());
    }
    assert!(all.contains(&port.to_string()), "it says who: {}", done.tell());
}

#[test]
fn other_servers_are_called_by_their_name() {
    let other = "not a netcaliper server";
    meets(listener(b"", b"HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n", true), &[other, "HTTP"]);
    meets(listener(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", b"", false), &[other, "SSH"]);
    meets(listener(b"220 mail.example ESMTP ready\r\n", b"", false), &[other, "a text protocol"]);
    meets(listener(b"", b"\x15\x03\x01\x00\x02\x02\x46", true), &[other, "TLS"]);
    meets(listener(b"", b"\x7f\x01\x02\x03", false), &[other]);
}

/// A line that passes for ours.
const FORGED: &str = "Run complete: 1 Tbit/s";

/// What a rogue server says wherever it may: terminal commands, and lines that pass for ours, at a
/// line's end, where a paragraph is broken, and at the edge of a terminal of 80 columns.
fn evil() -> String {
    let fill = |with: &str| format!("{}{FORGED}", with.repeat(78));
    let blank =
        (0..80).map(|at| format!("{}\u{2800}", if at == 0 { "" } else { "\u{2800}" })).collect::<String>();
    let parts = [
        "not \u{1b}]0;title\u{7} you\u{1b}[2J\u{9b}31m\u{202e}x\u{200f}\u{2067}\u{61c}",
        "",
        &fill(" x"),
        &fill("y"),
        &blank,
    ];
    format!("{}{FORGED}", parts.join(&format!("\r\n{FORGED}\n")))
}

fn said(message_: &serde_json::Value) -> Vec<u8> {
    message(&message_.to_string())
}

/// One connection of a rogue server: it misbehaves in this way as soon as it can.
fn rogue_talk(stream: &mut TcpStream, how: &str) -> std::io::Result<()> {
    use serde_json::{Value, json};
    stream.read_exact(&mut [0; 80])?;
    let next = |stream: &mut TcpStream| -> std::io::Result<Value> {
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize % (1 << 20)];
        stream.read_exact(&mut body)?;
        serde_json::from_slice(&body).map_err(std::io::Error::other)
    };
    next(stream)?;
    let nonce = "00".repeat(16);
    stream.write_all(&said(&json!({"type": "hello", "version": evil(), "nonce": nonce, "host": evil()})))?;
    loop {
        let asked = next(stream)?;
        let answers = match (asked["type"].as_str().unwrap_or_default(), how) {
            ("ping", _) => vec![json!({"type": "pong", "n": asked["n"]})],
            ("propose" | "shutdown", "refuses") => vec![json!({"type": "refused", "reason": evil()})],
            ("propose", "queues") => vec![
                json!({"type": "queued", "ahead": 4, "reason": evil()}),
                json!({"type": "stopping", "reason": evil()}),
            ],
            ("shutdown", _) => vec![json!({"type": "stopping", "reason": evil()}), json!({"type": "bye"})],
            ("propose", _) => vec![json!({
                "type": "accepted", "secret": nonce, "phase": asked["phase"], "workers": 1, "placement": evil(),
                "accepted": {"session": 1, "others": 0,
                    "changes": [{"what": evil(), "asked": evil(), "given": evil(), "why": evil()}]},
                "host": {"name": evil(), "kernel": evil(), "cpu": evil(), "congestion": evil(), "sysctl": {evil(): evil()}},
            })],
            ("start", _) => vec![json!({"type": "started"}), json!({"type": "stopping", "reason": evil()})],
            _ => vec![],
        };
        answers.iter().try_for_each(|answer| stream.write_all(&said(answer)))?;
    }
}

/// The port of such a server.
fn rogue(how: &'static str) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            // It ends with the client.
            thread::spawn(move || rogue_talk(&mut stream, how));
        }
    });
    port
}

/// A refusal, a version, a host's name and all else that a server says are its own texts: what they
/// would have a terminal do is not printed, and no line is theirs.
#[test]
fn what_a_server_says_does_not_speak_to_the_terminal_or_in_our_name() {
    let tame = |text: &str| {
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}']), "{text}");
        assert!(!text.lines().any(|line| line.starts_with(FORGED)), "{text}");
    };
    let cases = [
        ("stop", "refuses"),
        ("tcp", "refuses"),
        ("tcp", "queues"),
        ("tcp", "accepts"),
        ("ping", "accepts"),
        ("stop", "accepts"),
    ];
    at_once(&cases, |(verb, how)| {
        let line = netcaliper(verb).arg(format!("127.0.0.1:{}", rogue(how)));
        let line = if verb == "stop" { line } else { line.args("-t 1s --verbose") };
        let done = line.spawn().wait_within(SOON);
        tame(&done.out);
        tame(&done.err);
        let was_told = done.out.contains("title") || done.err.contains("title");
        assert!(was_told, "{verb}, {how}: it was told something: {}", done.tell());
    });
    if !net::installed("script") {
        const NAME: &str = "other_protocols::what_a_server_says_does_not…";
        return skip(NAME, "the program `script` is not installed");
    }
    at_once(&[("stop", "refuses"), ("tcp", "refuses"), ("tcp", "accepts")], |(verb, how)| {
        let port = rogue(how);
        let time = if verb == "stop" { "" } else { "-t 1s --verbose" };
        let run = format!(
            "stty cols 80 rows 24; NO_COLOR=1 NETCALIPER_STORE=off {BIN} {verb} 127.0.0.1:{port} {time}"
        );
        let mut command = Command::new("script");
        command.args(["-qec", &run, "/dev/null"]);
        let done = Proc::spawn(&mut command).wait();
        let text = done.out.replace('\r', "");
        assert!(text.contains("title"), "{}", done.tell());
        tame(&text);
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "'{line}' goes on at the left edge: {text}");
        }
    });
}

/// The same in what is read by programs: a document that is printed, or a file that a terminal
/// shows, has no such characters, and neither have the texts that a reader of JSON gets.
#[test]
fn what_a_server_says_does_not_speak_through_documents() {
    fn commands(text: &str) -> bool {
        let turns = ['\u{61c}', '\u{200e}', '\u{200f}'].into_iter();
        let turns = turns.chain('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}');
        let turns: Vec<char> = turns.collect();
        text.contains(|c: char| (c.is_control() && !matches!(c, '\n' | '\r' | '\t')) || turns.contains(&c))
    }
    fn texts(value: &serde_json::Value) -> Vec<&str> {
        match value {
            serde_json::Value::String(text) => vec![text],
            serde_json::Value::Array(all) => all.iter().flat_map(texts).collect(),
            serde_json::Value::Object(all) => {
                all.iter().flat_map(|(name, value)| texts(value).into_iter().chain([name.as_str()])).collect()
            }
            _ => vec![],
        }
    }
    let cases = [("tcp", "refuses"), ("tcp", "queues"), ("tcp", "accepts"), ("ping", "accepts")];
    at_once(&cases, |(verb, how)| {
        let scratch = Scratch::new();
        let (journal, page) = (scratch.file("run.jsonl"), scratch.file("run.html"));
        let line = netcaliper(verb).arg(format!("127.0.0.1:{}", rogue(how))).args("-t 1s --json --html");
        let done = line.arg(&page).arg("--save").arg(&journal).spawn().wait_within(SOON);
        let kept = std::fs::read_to_string(&journal).unwrap();
        let was_told = kept.contains("title") && done.out.contains("title");
        assert!(was_told, "{verb}, {how}: it was told something: {}", done.tell());
        for text in [&done.out, &kept, &std::fs::read_to_string(&page).unwrap()] {
            assert!(!commands(text), "{verb}, {how}: {text}");
        }
        for document in kept.lines().chain([done.out.as_str()]) {
            let value = serde_json::from_str(document).unwrap();
            let bad: Vec<&str> = texts(&value).into_iter().filter(|text| commands(text)).collect();
            assert_eq!(bad, Vec::<&str>::new(), "{verb}, {how}");
        }
    });
}

#[test]
fn a_server_that_hangs_up_at_once_is_no_netcaliper() {
    meets(listener(b"", b"", true), &["closed the connection without a word", "is it netcaliper?"]);
}

#[test]
fn a_silent_server_is_given_up_on() {
    meets(listener(b"", b"", false), &["said nothing for", "is it netcaliper?"]);
}

#[test]
fn a_closed_port_is_refused_in_the_systems_words() {
    meets(net::free_port(), &["Connection refused"]);
}

#[test]
fn a_real_iperf3_server_is_recognised() {
    let name = "other_protocols::a_real_iperf3_server_is_recognised";
    let Some((_server, port)) = iperf3::real(name, |line| line.args("-B 127.0.0.1")) else { return };
    // iperf3 3.12 takes our first 37 bytes for a cookie and answers with a state, or hangs up.
    meets(port.parse().unwrap(), &["netcaliper"]);
}

#[test]
fn one_good_server_of_two_is_enough() {
    let server = serve("");
    let dead = net::free_port();
    let words = format!("127.0.0.1:{dead} -P 2 --iterations 1 --transfer 100001");
    let line = tcp(server.at()).args(&words);
    let outcome = line.outcome().exits(0).status("complete");
    let notices = outcome.json["notices"].to_string();
    assert!(notices.contains("left out") && notices.contains(&dead.to_string()), "{notices}");
    let completed = &outcome.local()["completed"];
    assert_eq!(*completed, 2, "all connections go to the remaining server: {}", outcome.tell());
}
