//! Limits of a server hold in every protocol: what is sent and received, for how long, and what is
//! said of it.

use crate::support::files::Scratch;
use crate::support::{Outcome, Server, as_it_is, netcaliper, number, serve, tcp};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// Bits/s of `--max-rate 10M`, and what may pass in so many seconds and a tenth, bytes.
const RATE: f64 = 10e6;

fn most(seconds: f64) -> u64 {
    (RATE / 8.0 * seconds * 1.1) as u64
}

/// Longest that a test of this file waits for an end.
const PATIENCE: Duration = Duration::from_secs(10);

fn limited(more: &str) -> Server {
    serve(&format!("--max-rate 10M {more}"))
}

/// A connection to a protocol of this server.
fn reach(server: &Server, name: &str) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", server.proc.port_of(name))).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

#[test]
fn a_server_that_sends_is_paced_and_ended() {
    let server = limited("--max-time 1s --legacy chargen:0,discard:0");
    let mut stream = reach(&server, "chargen");
    let (begun, mut got, mut buffer) = (Instant::now(), 0, vec![0; 1 << 16]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => got += n as u64,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset);
                break;
            }
        }
    }
    let took = begun.elapsed();
    assert!(got > 0 && got <= most(1.0), "{got} bytes");
    assert!(took < PATIENCE, "{took:?}");
    server.proc.hears("paced to 10.0 Mbit/s");
    server.proc.hears("ended after 1 s");
    server.still_serves();
}

#[test]
fn a_server_that_receives_is_paced_and_ended() {
    let server = limited("--max-time 1s --legacy chargen:0,discard:0");
    let mut stream = reach(&server, "discard");
    let begun = Instant::now();
    let block = vec![0; 1 << 16];
    let mut sent = 0;
    while let Ok(n) = stream.write(&block) {
        sent += n as u64;
        assert!(begun.elapsed() < PATIENCE, "it goes on: {sent} bytes");
    }
    // The buffers of both kernels take some megabytes at once.
    assert!(sent <= most(1.0) + (16 << 20), "{sent} bytes");
    server.proc.hears("ended after 1 s");
    // The line is wrapped.
    server.proc.hears("sent no end");
    server.still_serves();
}

#[test]
fn bytes_of_a_client_are_a_limit() {
    let server = serve("--max-bytes 1Mi --legacy chargen:0,discard:0");
    let mut got = Vec::new();
    let _ = reach(&server, "chargen").read_to_end(&mut got);
    assert!((1..=1 << 20).contains(&got.len()), "{} bytes", got.len());
    server.proc.hears("ended after 1048576 bytes");
    for more in ["", "--processes 2"] {
        let server = serve(&format!("--max-bytes 1Mi {more}"));
        for words in ["-P 2", "-P 3 -R", "-P 4 --pattern duplex"] {
            let outcome = tcp(server.at()).args("-t 5s").args(words).outcome().exits(4).status("partial");
            // The records have the bytes that a busy host read after the server had ended the test.
            let of_client: u64 = outcome.connections().iter().map(|one| number(&one["rx_bytes"])).sum();
            let received = of_client + number(&outcome.point()["remote"][0]["traffic"]["rx_bytes"]);
            assert!((1..=1 << 20).contains(&received), "{words} {more}: {}", outcome.tell());
            let ended = "ended after 1048576 bytes, the most of one session";
            assert!(outcome.caveats("server-reduced").contains(ended), "{words} {more}: {}", outcome.tell());
            assert!(outcome.point()["reason"].as_str().unwrap().contains(ended), "{}", outcome.tell());
        }
    }
}

/// Two sessions of one key, one of which asks for less than the key's bytes of a day.
#[test]
fn a_session_ends_with_the_bytes_of_its_key() {
    let scratch = Scratch::new();
    let line = |rights: &str| format!("alice netcaliper-psk-1:{}{rights}\n", "5a".repeat(32));
    let (keys, key) = (scratch.key("keys", line(" bytes=2M")), scratch.key("key", line("")));
    let server = Server::start(netcaliper("serve").args("--port 0 --processes 2 --psk-file").arg(&keys));
    let client = |words: &str| tcp(server.at()).args("--json -P 1 --psk-file").arg(&key).args(words);
    // 1.25 MB in 10 s: no reduction.
    let slow = client("-t 10s -b 1M").spawn();
    server.proc.hears("session 1 with");
    for run in [client("-t 10s").spawn(), slow] {
        let outcome = Outcome::of(run.wait());
        let outcome = outcome.exits(4).status("partial");
        let caveat = outcome.caveats("server-reduced");
        assert!(caveat.contains("ended after 2097152 bytes, the most of this key a day"), "{caveat}");
    }
    // What a session had taken and not moved is left over.
    let third = client("-t 1s").run();
    assert!(third.err.contains("a day") || third.err.contains("for today"), "{}", third.tell());
    assert!([Some(1), Some(4)].contains(&third.code), "{}", third.tell());
}

#[test]
fn datagrams_beyond_the_rate_are_refused_as_a_whole() {
    let server = limited("--legacy echo:0,stamp:0");
    for name in ["echo", "stamp"] {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(("127.0.0.1", server.proc.port_of(name))).unwrap();
        socket.set_nonblocking(true).unwrap();
        let (begun, datagram, mut buffer) = (Instant::now(), [0; 1_400], [0; 1 << 16]);
        let mut got = 0;
        while begun.elapsed() < Duration::from_secs(2) {
            let _ = socket.send(&datagram);
            while let Ok(n) = socket.recv(&mut buffer) {
                got += n as u64;
            }
        }
        assert!(got > 0 && got <= most(1.0), "{name}: {got} bytes");
        let line = server.proc.hears(&format!("{name}: "));
        assert!(line.contains("refused: its datagrams"), "{line}");
    }
    server.still_serves();
}

/// Bits/s of messages of a run in one direction.
fn messages(outcome: &Outcome, size: u64) -> f64 {
    let counts = &outcome.local()["pings"]["counts"];
    let ns = number(&outcome.local()["traffic"]["ns"]);
    (number(&counts["sent"]) * size * 8) as f64 / (ns as f64 / 1e9)
}

#[test]
fn round_trips_have_a_rate() {
    let scratch = Scratch::new();
    let keys =
        scratch.key("keys", format!("alice netcaliper-psk-1:{} rate=10M verbs=ping\n", "5a".repeat(32)));
    let key = scratch.key("key", format!("alice netcaliper-psk-1:{}\n", "5a".repeat(32)));
    let plain = limited("");
    let keyed = Server::start(netcaliper("serve").args("--port 0 --psk-file").arg(&keys));
    for (words, size) in
        [("--flood -l 60000", 60_000), ("-u --flood -l 1400", 1_400), ("--rate 100000 -l 1000", 1_000)]
    {
        for (server, key) in [(&plain, None), (&keyed, Some(&key))] {
            let mut line = as_it_is("ping").arg(server.at()).args("-t 1s --no-baseline").args(words);
            if let Some(key) = key {
                line = line.arg("--psk-file").arg(key);
            }
            let outcome = line.outcome();
            let rate = messages(&outcome, size);
            assert!(rate <= 1.1 * RATE, "{words}: {rate} bit/s\n{}", outcome.tell());
            assert!(rate > 0.01 * RATE, "{words}: {rate} bit/s\n{}", outcome.tell());
            assert!(outcome.caveats("server-reduced").contains("messages per connection"), "{words}");
        }
    }
}

#[test]
fn all_clients_together_have_a_rate() {
    let server = serve("--max-total-rate 10M --legacy chargen:0,discard:0");
    let begun = Instant::now();
    let runs: Vec<_> = (0..3).map(|_| tcp(server.at()).args("-R -t 2s -P 2 --json").spawn()).collect();
    let mut stream = reach(&server, "chargen");
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let (reading, mut buffer, mut got) = (Instant::now(), vec![0; 1 << 16], 0);
    while reading.elapsed() < Duration::from_secs(2) {
        got += stream.read(&mut buffer).unwrap_or(0) as u64;
    }
    drop(stream);
    let took: Vec<Outcome> = runs.into_iter().map(|run| Outcome::of(run.wait())).collect();
    let own: u64 = took.iter().map(|outcome| number(&outcome.local()["traffic"]["rx_bytes"])).sum();
    let most = most(begun.elapsed().as_secs_f64());
    assert!(got > 0 && own > 0 && got + own <= most, "{got} and {own} bytes of {most}");
}

#[test]
fn iperf3_gets_the_rate_and_the_time_of_the_server() {
    let server = limited("--max-time 1s --legacy iperf3:0,discard:0");
    let at = server.proc.port_of("iperf3");
    let begun = Instant::now();
    let done = as_it_is("iperf3").args(&format!("-c 127.0.0.1 -p {at} -R -t 5 -J")).run();
    assert!(begun.elapsed() < PATIENCE, "{}", done.tell());
    let bytes = done.json()["end"]["sum_received"]["bytes"].as_f64().unwrap_or(0.0);
    assert!(bytes <= most(1.0) as f64, "{}", done.tell());
    assert_ne!(done.code, Some(0), "{}", done.tell());
    server.proc.hears("ended after 1 s");
}
