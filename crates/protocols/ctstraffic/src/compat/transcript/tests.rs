use super::*;
use crate::compat::args::tests::spec;
use crate::compat::printer::Console;
use compat::Printed;
use metrics::{Frames, Framing, SECOND};
use model::{Begin, HostSnapshot, NicSnapshot, Traffic};
use uuid::Uuid;

fn transcript(line: &str, resolved: Resolved) -> Transcript {
    Transcript::new(spec(line), resolved)
}

fn localhost() -> Resolved {
    Resolved {
        targets: vec!["[::1]:4444".parse().unwrap(), "127.0.0.1:4444".parse().unwrap()],
        binds: vec!["0.0.0.0:0".parse().unwrap(), "[::]:0".parse().unwrap()],
        listens: vec!["0.0.0.0:4444".parse().unwrap(), "[::]:4444".parse().unwrap()],
    }
}

fn banner(line: &str) -> Vec<String> {
    let mut transcript = transcript(line, localhost());
    match transcript.on_event(&Event::Begin(Box::default())).pop() {
        Some(Item::Banner(lines)) => lines,
        other => panic!("{other:?}"),
    }
}

/// The banner of the practical guide, but for the I/O function.
#[test]
fn the_banner_of_the_guide() {
    let want = "  Configured Settings  
-----------------------
\tProtocol: TCP
\tOptions: InlineIOCP
\tIO function: epoll (send/recv on non-blocking sockets)
\tIoPattern: Push <TCP client send/server recv>
\tPrePostRecvs: 1
\tPrePostSends: 1
\tLevel of verification: Connections & Data
\tPort: 4444
\tBuffer used for each IO request: 65536 [0x10000] bytes
\tTotal transfer per connection: 1073741824 bytes
\tConnecting out to addresses:
\t\t[::1]:4444
\t\t127.0.0.1:4444
\tBinding to local addresses for outgoing connections:
\t\t0.0.0.0
\t\t::
\tConnection limit (maximum established connections): 8 [0x8]
\tConnection throttling rate (maximum pended connection attempts): 1000 [0x3e8]
\tTotal outgoing connections before exit (iterations * concurrent connections) : 0xffffffffffffffff
";
    assert_eq!(banner("-target:localhost -consoleverbosity:1").join("\n"), want);
}

#[test]
fn the_banner_of_the_guides_stream() {
    let lines = banner(
        "-target:localhost -protocol:udp -bitspersecond:25000000 -framerate:60 -bufferdepth:1 -streamlength:60 \
         -connections:1 -iterations:1",
    );
    for line in [
        "\tProtocol: UDP",
        "\tOptions: InlineIOCP SO_RCVBUF(1048576)",
        "\tIO function: MediaStream Client",
        "\tIoPattern: MediaStream <UDP controlled stream from server to client>",
        "\tPrePostRecvs: 2",
        "\tBuffer used for each IO request: 52083 [0xcb73] bytes",
        "\tTotal transfer per connection: 187498800 bytes",
        "\t\tUDP Stream BitsPerSecond: 25000000 bits per second",
        "\t\tUDP Stream FrameRate: 60 frames per second",
        "\t\tUDP Stream BufferDepth: 1 seconds",
        "\t\tUDP Stream StreamLength: 60 seconds (3600 frames)",
        "\t\tUDP Stream FrameSize: 52083 bytes",
        "\tConnection limit (maximum established connections): 1 [0x1]",
        "\tTotal outgoing connections before exit (iterations * concurrent connections) : 1 [0x1]",
    ] {
        assert!(lines.iter().any(|l| l == line), "{line} is missing in {lines:#?}");
    }
}

#[test]
fn the_banner_tells_what_was_asked_for() {
    let lines = banner(
        "-Listen:* -Pattern:pushpull -PushBytes:5 -Buffer:[1024,2048] -RateLimit:[1000,2000] -QosDscpValue:46 \
         -ServerExitLimit:10 -Verify:connection -Compartment:blue",
    )
    .join("\n");
    for part in [
        "PushBytes: 5",
        "PullBytes: 1048576",
        "[1024, 2048] bytes",
        "throttled down to [1000, 2000] bytes/second",
        "QOS DSCP: 46",
        "exit : 10 [0xa]",
        "verification: Connections\n",
        "Accepting connections on addresses:\n\t\t0.0.0.0:4444\n\t\t[::]:4444",
        "IP Compartment: blue",
        "Options: KeepAlive InlineIOCP",
    ] {
        assert!(lines.contains(part), "'{part}' is missing in {lines}");
    }
}

#[test]
fn the_adapter_comes_first() {
    let nic = NicSnapshot {
        name: "eth0".to_owned(),
        driver: "virtio_net".to_owned(),
        mtu: 1500,
        speed_mbit: Some(10_000),
        qdisc: "fq".to_owned(),
        offloads: vec!["tso".to_owned(), "gro".to_owned()],
        ..NicSnapshot::default()
    };
    let host = HostSnapshot { nic: Some(nic), ..HostSnapshot::default() };
    let items = transcript("-target:a", localhost())
        .on_event(&Event::Begin(Box::new(Begin { host, ..Begin::default() })));
    let Some(Item::Adapters(lines)) = items.first() else { panic!("{items:?}") };
    assert_eq!(lines[0], "Adapter eth0 virtio_net (Up)");
    assert_eq!(lines[1], "\tRSC (GRO) on, LSO (TSO) on, GSO off, MTU 1500, 10000 Mbit/s, queueing fq");
}

fn interval(n: u64, framing: u64, completed: u64) -> Event {
    let local = Traffic { tx_bytes: 1_000_000, rx_bytes: 0, ns: 5 * SECOND, ..Traffic::default() };
    Event::Interval(Box::new(Interval {
        start_ns: n * 5 * SECOND,
        end_ns: (n + 1) * 5 * SECOND,
        local,
        in_flight: 8,
        framing: Framing { tx_bytes: 0, rx_bytes: framing },
        completed,
        ..Interval::default()
    }))
}

/// 37 bytes of identifier and 4 of DONE come with each connection: 10 opened and 2 done in 5 s are
/// 378 / 5 = 75 B/s.
#[test]
fn status_lines_count_what_comes_with_the_payload() {
    let mut client = transcript("-target:a", localhost());
    let row = |items: Vec<Item>| match items.as_slice() {
        [Item::Status(slice)] => slice.row(),
        other => panic!("{other:?}"),
    };
    assert_eq!(row(client.on_event(&interval(0, 10 * 37 + 2 * 4, 2))), "5.000,200000,75,8,2,0,0");
    assert_eq!(row(client.on_event(&interval(1, 0, 2))), "10.000,200000,0,8,2,0,0");
}

fn local() -> Event {
    Event::Local(Box::new(Totals {
        traffic: Traffic {
            tx_bytes: 67_358_818_304,
            rx_bytes: 0,
            ns: 26_357 * (SECOND / 1000),
            ..Traffic::default()
        },
        framing: Framing { tx_bytes: 0, rx_bytes: 67 * 37 + 59 * 4 },
        opened: 67,
        completed: 59,
        network_errors: 3,
        data_errors: 1,
        protocol_errors: 1,
        frames: Some(Frames { completed: 90, dropped: 10, repeated: 0, errors: 0 }),
        ..Totals::default()
    }))
}

fn end() -> Event {
    Event::End { status: Status::Complete, reason: None }
}

fn summary(line: &str) -> Vec<String> {
    let mut transcript = transcript(line, localhost());
    transcript.on_event(&local());
    transcript.on_event(&Event::PhaseEnd { status: Status::Complete, reason: None });
    assert_eq!(transcript.errors(), 5);
    match transcript.on_event(&end()).as_slice() {
        [Item::Summary(lines)] => lines.clone(),
        other => panic!("{other:?}"),
    }
}

/// 67 identifiers of 37 bytes and 59 times DONE are 2715 bytes.
#[test]
fn the_summary() {
    let lines = summary("-target:a");
    let heading = "  Historic Connection Statistics (all connections over the complete lifetime)  ";
    assert_eq!((lines[0].as_str(), lines[1].as_str()), ("", heading));
    assert_eq!(
        lines[3..],
        [
            "  SuccessfulConnections [59]   NetworkErrors [3]   ProtocolErrors [2]",
            "",
            "  Total Bytes Recv : 2715",
            "  Total Bytes Sent : 67358818304",
            "  Total Time : 26357 ms.",
        ]
    );
    let udp = "-protocol:udp -bitspersecond:8000 -framerate:5 -streamlength:1";
    assert_eq!(
        summary(&format!("-target:a {udp}"))[4..],
        [
            "",
            "  Total Bytes Recv : 0",
            "  Total Successful Frames : 90 (90.000000)",
            "  Total Dropped Frames : 10 (10.000000)",
            "  Total Duplicate Frames : 0 (0.000000)",
            "  Total Error Frames : 0 (0.000000)",
            "  Total Time : 26357 ms.",
        ]
    );
    assert_eq!(summary(&format!("-listen:* {udp}")).len(), 5, "a UDP server has no totals");
}

#[test]
fn a_time_limit_is_told_when_it_ended_the_run() {
    let said = |limit: u32| {
        let mut transcript = transcript(&format!("-target:a -timelimit:{limit}"), localhost());
        transcript.on_event(&local());
        transcript.on_event(&Event::PhaseEnd { status: Status::Complete, reason: None })
    };
    assert_eq!(said(26_357), [Item::Said("  Time-limit of 26357 ms has been reached".to_owned())]);
    assert_eq!(said(30_000), [Item::Pause], "it ended by itself before");
}

#[test]
fn after_ctrl_c_there_is_only_the_summary() {
    let mut transcript = transcript("-target:a", localhost());
    assert_eq!(transcript.interrupt().len(), 1);
    assert_eq!(transcript.interrupt(), [], "said once");
    assert_eq!(transcript.on_event(&interval(0, 1, 1)), [Item::Pause]);
    assert_eq!(transcript.on_event(&Event::Connection(Box::new(refused()))), []);
    assert!(matches!(transcript.on_event(&end()).as_slice(), [Item::Summary(_)]));
}

fn refused() -> ConnectionRecord {
    ConnectionRecord {
        id: Uuid::nil(),
        local: None,
        remote: "127.0.0.1:4444".parse().unwrap(),
        ended_ns: SECOND / 4,
        tx_bytes: 0,
        rx_bytes: 0,
        connect_ns: None,
        duration_ns: 0,
        result: metrics::Ending::NetworkError,
        error: Some("connecting: Connection refused (os error 111)".to_owned()),
        failure: Some(Failure::System { deed: "connect".to_owned(), errno: 111 }),
        tcp: None,
        frames: None,
    }
}

#[test]
fn failures_are_told_by_function_and_number() {
    let mut transcript = transcript("-target:a", localhost());
    let items = transcript.on_event(&Event::Connection(Box::new(refused())));
    let text = "No connection could be made because the target machine actively refused it.";
    assert_eq!(items[0], Item::Error(format!("[0.250] ConnectEx failed (10061) {text}")));
    assert!(matches!(&items[1], Item::Connection { row, .. } if row.contains(",10061: No connection")));
    let failure = Some(Failure::TooFew);
    let result = metrics::Ending::DataError;
    let error = Some("too few bytes: 5 of 9 arrived".to_owned());
    let short = ConnectionRecord { failure, result, error, connect_ns: Some(1), ..refused() };
    let items = transcript.on_event(&Event::Connection(Box::new(short)));
    let said = "[0.250] Connection aborted due to the protocol error ErrorNotAllDataTransferred (too few bytes: 5 of 9 \
                arrived)";
    assert_eq!(items[0], Item::Error(said.to_owned()));
    let cut = ConnectionRecord { result: metrics::Ending::Stopped, failure: None, error: None, ..refused() };
    assert_eq!(transcript.on_event(&Event::Connection(Box::new(cut))), [], "the original counts it nowhere");
}

#[test]
fn text_files_tell_the_wall_clock() {
    let mut transcript = transcript("-target:a", localhost());
    // 2026-11-20T09:36:17Z, by `date -u -d @1795167377`.
    let at = Wall(1_795_167_377_123_456_000);
    let items = transcript.on_event(&Event::Start { at });
    let want = "Started at 2026-11-20T09:36:17.123456Z (UTC): the times below are seconds since then";
    assert_eq!(items, [Item::Started(want.to_owned())]);
}

/// A whole short run on the console at verbosity 1, as a user sees it.
#[test]
fn a_run_on_the_console() {
    let mut transcript = transcript("-target:a -consoleverbosity:1", localhost());
    let mut console = Console::new(1, Transport::Tcp);
    let mut printed = Printed::default();
    let begin = Event::Begin(Box::default());
    let stop = Event::PhaseEnd { status: Status::Complete, reason: None };
    for event in [begin, interval(0, 8 * 37, 0), local(), stop, end()] {
        for item in transcript.on_event(&event) {
            console.show(&item, &mut printed);
        }
    }
    let out = printed.out.0;
    let from = out.find("Legend:").unwrap();
    let want = "\
Legend:
* TimeSlice - (seconds) cumulative runtime
* Send & Recv Rates - bytes/sec that were transferred within the TimeSlice period
* In-Flight - count of established connections transmitting IO pattern data
* Completed - cumulative count of successfully completed IO patterns
* Network Errors - cumulative count of failed IO patterns due to network errors
* Data Errors - cumulative count of failed IO patterns due to data errors


 TimeSlice      SendBps      RecvBps  In-Flight  Completed  NetError  DataError 

     5.000       200000           59          8          0         0          0


  Historic Connection Statistics (all connections over the complete lifetime)  
";
    assert!(out[from..].starts_with(want), "{}", &out[from..]);
    assert!(printed.err.0.is_empty());
}
