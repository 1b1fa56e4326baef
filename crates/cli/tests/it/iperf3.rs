//! Our iperf3 server against the real iperf3, where it is installed, and against clients that are
//! none.

use crate::support::iperf3::{self, missing};
use crate::support::{Done, Line, Proc, sized};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::time::Duration;

/// Our server on a port of its own, and what it prints.
struct Ours {
    proc: Proc,
    port: String,
}

fn ours(words: &str) -> Ours {
    let (proc, port) = iperf3::ours(|line| line.args(words));
    Ours { proc, port }
}

/// The real client at this port.
fn client(port: &str, words: &str) -> Proc {
    Line(Command::new("iperf3")).args(&format!("-c 127.0.0.1 -p {port} {words}")).spawn()
}

fn real(server: &Ours, words: &str) -> Proc {
    client(&server.port, &format!("-J {words}"))
}

/// The result that the real client has, which must be one.
fn result(done: Done) -> Value {
    let result = done.json();
    assert!(done.code == Some(0) && result["error"].is_null(), "{}", done.tell());
    result
}

fn bytes(value: &Value) -> u64 {
    value["bytes"].as_u64().unwrap_or_else(|| panic!("no bytes: {value}"))
}

#[test]
fn the_real_client_in_every_mode() {
    if missing("the_real_client_in_every_mode") {
        return;
    }
    let server = ours("");
    for words in [
        "-t 1 -b 8M",
        "-t 1 -b 8M -R",
        "-t 1 -b 4M -P 3",
        "-t 1 -b 4M -P 2 -R",
        "-t 1 -b 4M -P 2 --bidir",
        "-t 1 -b 8M -O 1",
        "-n 5M",
        "-n 5M -R",
        "-k 40 -l 64K",
        "-k 40 -R",
        "-t 1 -b 8M -w 256K -M 1000 -N -S 0x28",
        "-t 1 -b 8M -l 1000 -Z --repeating-payload",
        "-t 1 -b 8M --get-server-output --extra-data x -T y",
    ] {
        let result = result(real(&server, words).wait());
        let end = &result["end"];
        let (sent, received) = (bytes(&end["sum_sent"]), bytes(&end["sum_received"]));
        // Data sent in the omitted start may be received after it.
        assert!(received > 0 && (received <= sent || words.contains("-O")), "{words}: {end}");
        let streams = end["streams"].as_array().unwrap().len();
        let (per, ways) =
            (result["start"]["test_start"]["num_streams"].as_u64().unwrap(), words.contains("bidir"));
        assert_eq!(streams as u64, per * if ways { 2 } else { 1 }, "{words}");
        if ways {
            assert!(bytes(&end["sum_received_bidir_reverse"]) > 0, "{words}");
        }
        if words.contains("-n") {
            assert!(sent >= 5 << 20, "{words}: {sent}");
        }
        let text = result["server_output_text"].as_str().unwrap_or_default();
        assert_eq!(
            text.contains("Accepted connection from"),
            words.contains("get-server"),
            "{words}: {text}"
        );
    }
}

#[test]
fn the_real_client_with_datagrams() {
    if missing("the_real_client_with_datagrams") {
        return;
    }
    let server = ours("");
    for words in [
        "-u -t 1 -b 1M -l 1000",
        "-u -t 1 -b 1M -l 1000 -R",
        "-u -t 1 -b 1M -l 1200 -P 3",
        "-u -t 1 -b 1M -l 1200 -P 2 -R --udp-counters-64bit",
        "-u -t 1 -b 1M -l 600 -P 2 --bidir",
        "-u -t 1 -b 1M -l 1000 -O 1",
        "-u -n 200K -b 20M -l 1000",
        "-u -k 300 -b 20M -l 1000 -R",
        "-u -t 1 -b 1M/10 -l 1000 --udp-counters-64bit --dont-fragment",
    ] {
        let result = result(real(&server, words).wait());
        let sum = &result["end"]["sum"];
        let (packets, lost) = (sum["packets"].as_u64().unwrap(), sum["lost_packets"].as_i64().unwrap());
        assert!(packets > 20, "{words}: {sum}");
        // Only our own sockets' buffers could lose any here, and never most of them.
        assert!(lost >= 0 && (lost as u64) < packets / 2, "{words}: {sum}");
        assert!(sum["jitter_ms"].as_f64().unwrap() < 1_000.0, "{words}: {sum}");
    }
}

#[test]
fn many_real_clients_at_once() {
    if missing("many_real_clients_at_once") {
        return;
    }
    let server = ours("");
    let kinds = [
        "-t 1 -b 1M",
        "-t 1 -b 1M -R",
        "-u -t 1 -b 200K -l 500",
        "-u -t 1 -b 200K -l 500 -R -P 2",
        "-n 200K",
    ];
    let clients: Vec<(&str, Proc)> = (0..sized(15, 50))
        .map(|i| kinds[i % kinds.len()])
        .map(|words| (words, real(&server, words)))
        .collect();
    for (words, client) in clients {
        let result = result(client.wait());
        let sum = &result["end"][if words.contains("-u") { "sum" } else { "sum_received" }];
        assert!(bytes(sum) > 0, "{words}: {sum}");
    }
}

#[test]
fn clients_that_are_killed_disturb_nobody() {
    if missing("clients_that_are_killed_disturb_nobody") {
        return;
    }
    let server = ours("");
    for signal in ["INT", "KILL"] {
        for words in
            ["-t 30 -b 5M", "-t 30 -b 5M -R -P 2", "-u -t 30 -b 1M -l 500", "-u -t 30 -b 1M -l 500 -R"]
        {
            let victim = client(&server.port, &format!("--forceflush -i 0.1 {words}"));
            victim.hears("connected to");
            victim.hears("bits/sec");
            let beside = real(&server, "-t 1 -b 5M");
            victim.signal(signal);
            victim.wait();
            result(beside.wait());
        }
    }
    result(real(&server, "-u -t 1 -b 1M -l 500").wait());
}

#[test]
fn limits_and_the_end_of_a_server() {
    if missing("limits_and_the_end_of_a_server") {
        return;
    }
    let server = ours("--server-bitrate-limit 1M/1 --server-max-duration 20");
    for words in ["-t 5 -b 5M", "-t 5 --fq-rate 8M", "-t 5 -u -b 600K -P 2 -l 500", "-t 30 -b 100K"] {
        let done = real(&server, words).wait();
        let error = done.json()["error"].as_str().unwrap_or_default().to_owned();
        // With -J, 3.12 exits with 0 all the same.
        assert!(!error.is_empty(), "{words}: {}", done.tell());
    }
    result(real(&server, "-t 1 -b 400K -l 8K").wait());
    // A client is told when its server is ended, and the server ends well.
    let long = client(&server.port, "--forceflush -i 0.1 -t 15 -b 400K -l 8K");
    long.hears("bits/sec");
    server.proc.signal("INT");
    let told = long.wait();
    assert!(told.code == Some(1) && told.err.contains("server has terminated"), "{}", told.tell());
    assert_eq!(server.proc.wait().code, Some(0));
    // One test, and no more.
    let server = ours("-1");
    result(real(&server, "-t 1 -b 1M").wait());
    let done = server.proc.wait();
    assert_eq!((done.code, done.out.matches("Server listening on").count()), (Some(0), 1), "{}", done.tell());
}

/// A client of our own making.
fn raw(server: &Ours) -> TcpStream {
    let stream = TcpStream::connect(format!("127.0.0.1:{}", server.port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn cookie(letter: char) -> Vec<u8> {
    let mut cookie = vec![letter as u8; 36];
    cookie.push(0);
    cookie
}

/// Reads all that comes until the server hangs up.
fn rest(mut stream: TcpStream) -> Vec<u8> {
    let mut all = vec![];
    // A reset is an end, too.
    let _ = stream.read_to_end(&mut all);
    all
}

fn one_byte(stream: &mut TcpStream) -> u8 {
    let mut byte = [0];
    stream.read_exact(&mut byte).unwrap();
    byte[0]
}

fn say(stream: &mut TcpStream, text: &str) {
    stream.write_all(&document(text)).unwrap();
}

/// As it is said: behind its length.
fn document(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

/// A client of our own making that has said its cookie, and is to go on.
fn begun(server: &Ours, letter: char) -> TcpStream {
    let mut control = raw(server);
    control.write_all(&cookie(letter)).unwrap();
    assert_eq!(one_byte(&mut control), 9);
    control
}

/// A test of our own making, byte by byte: the whole conversation as the originals' captures have
/// it.
fn whole_test(server: &Ours, letter: char) {
    let mut control = raw(server);
    for byte in cookie(letter) {
        control.write_all(&[byte]).unwrap();
    }
    assert_eq!(one_byte(&mut control), 9);
    let parameters = r#"{"tcp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":1,"len":1000,"client_version":"x"}"#;
    for byte in document(parameters) {
        control.write_all(&[byte]).unwrap();
    }
    assert_eq!(one_byte(&mut control), 10);
    let mut data = raw(server);
    data.write_all(&cookie(letter)).unwrap();
    assert_eq!((one_byte(&mut control), one_byte(&mut control)), (1, 2));
    data.write_all(&[7; 5_000]).unwrap();
    control.write_all(&[4]).unwrap();
    assert_eq!(one_byte(&mut control), 13);
    let line = r#"{"id":1,"bytes":5000,"retransmits":0,"jitter":0,"errors":0,"packets":0}"#;
    let results = format!(
        r#"{{"cpu_util_total":1,"cpu_util_user":1,"cpu_util_system":0,"sender_has_retransmits":1,"streams":[{line}]}}"#
    );
    say(&mut control, &results);
    let mut length = [0; 4];
    control.read_exact(&mut length).unwrap();
    let mut text = vec![0; u32::from_be_bytes(length) as usize];
    control.read_exact(&mut text).unwrap();
    let theirs: Value = serde_json::from_slice(&text).unwrap();
    // What has been received when the test ends is what counts.
    let stream = &theirs["streams"][0];
    assert!(stream["id"] == 1 && bytes(stream) <= 5_000, "{stream}");
    assert_eq!(one_byte(&mut control), 14);
    control.write_all(&[16]).unwrap();
    assert!(rest(control).is_empty());
}

#[test]
fn non_clients_do_not_affect_sessions() {
    let server = ours("");
    // Connections that send nothing, or half a cookie, wait while others are served.
    let silent = raw(&server);
    let mut half = raw(&server);
    half.write_all(&cookie('h')[..20]).unwrap();
    let waiting = begun(&server, 'w');
    whole_test(&server, 'a');

    // Documents that cannot be.
    for (bytes, code) in [
        (vec![0xff, 0xff, 0xff, 0xff], 114),
        (vec![0, 0, 0, 0], 114),
        (vec![0, 0, 0x20, 1], 114),
        (document("{\"a\":"), 114),
        (document("[]"), 114),
        (document("{\"time\":\"x\"}"), 114),
        (document("{\"parallel\":999}"), 6),
    ] {
        let mut client = begun(&server, 'b');
        client.write_all(&bytes).unwrap();
        let told = rest(client);
        assert_eq!(told, [&[0xfe, 0, 0, 0, code][..], &[0; 4]].concat(), "{bytes:?}");
    }
    // One that comes with the cookie is heard, too.
    for _ in 0..20 {
        let mut client = raw(&server);
        client.write_all(&[cookie('g'), document("[]")].concat()).unwrap();
        assert_eq!(rest(client), [&[9, 0xfe, 0, 0, 0, 114][..], &[0; 4]].concat());
    }
    // An unknown cookie is a new client; a stream too many is refused.
    let mut control = begun(&server, 'c');
    say(&mut control, r#"{"tcp":true,"parallel":1}"#);
    assert_eq!(one_byte(&mut control), 10);
    let mut other = begun(&server, 'd');
    let mut first = raw(&server);
    first.write_all(&cookie('c')).unwrap();
    assert_eq!((one_byte(&mut control), one_byte(&mut control)), (1, 2));
    // The streams are complete: this is a client of its own.
    let second = begun(&server, 'c');
    // The stream breaks off, the control connection vanishes, an unknown word is said.
    first.shutdown(Shutdown::Both).unwrap();
    drop(control);
    other.write_all(&[99, 0, 0, 0]).unwrap();
    assert_eq!(rest(other)[..5], [0xfe, 0, 0, 0, 114]);
    whole_test(&server, 'e');
    drop((silent, half, waiting, second));
    whole_test(&server, 'f');
    server.proc.signal("TERM");
    assert_eq!(server.proc.wait().code, Some(0));
}

#[test]
fn a_server_beside_the_native_one() {
    if missing("a_server_beside_the_native_one") {
        return;
    }
    let server = crate::support::serve("--legacy iperf3:0");
    let port = server.proc.port_of("iperf3").to_string();
    let result = result(client(&port, "-J -n 1M --get-server-output").wait());
    assert!(result["server_output_text"].as_str().unwrap().contains("receiver"));
    server.end();
}
