use super::*;
use crate::compat::spec::Binding;
use common::Placement;
use model::{Burst, Kind, Pattern, Range, Shutdown, Verify};
use std::path::PathBuf;

fn read_line(line: &str) -> Result<Request, String> {
    read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
}

#[track_caller]
pub(in crate::compat) fn spec(line: &str) -> Spec {
    match read_line(line) {
        Ok(Request::Run(spec)) => *spec,
        other => panic!("{line}: {other:?}"),
    }
}

#[track_caller]
fn client(line: &str) -> Spec {
    spec(&format!("-Target:localhost {line}"))
}

#[track_caller]
fn server(line: &str) -> Spec {
    spec(&format!("-Listen:* {line}"))
}

const UDP: &str = "-Protocol:udp -BitsPerSecond:25000000 -FrameRate:60 -StreamLength:60";

#[test]
fn defaults_of_a_tcp_client() {
    let c = client("");
    assert_eq!((c.role, c.transport, c.port, c.verbosity), (Role::Client, Transport::Tcp, 4444, 4));
    assert_eq!(
        (c.targets.as_slice(), c.binds.as_slice()),
        (["localhost".to_owned()].as_slice(), [].as_slice())
    );
    let p = &c.phase;
    assert_eq!((p.pattern, p.transfer, p.transfer_high), (Pattern::Push, 1 << 30, None));
    assert_eq!((p.buffer, p.connections, p.iterations, p.throttle), (Range::just(65_536), 8, None, 1000));
    assert_eq!((p.duration_ns, p.interval_ns), (None, 5_000_000_000));
    assert_eq!((p.verify, p.shutdown, p.rate, p.burst), (Verify::Data, Shutdown::Graceful, None, None));
    assert_eq!(
        (p.sockets.keepalive_ns, p.sockets.rcvbuf, p.sockets.sndbuf, p.sockets.dscp),
        (None, None, None, None)
    );
    assert_eq!((c.shown.receives, c.shown.sends), (1, 1));
    assert_eq!((c.exit_limit, c.pause_at_end_ms, c.break_on_error), (None, 0, false));
    assert_eq!(c.logs, crate::compat::spec::LogFiles::default());
    assert!(c.ignored.is_empty());
}

#[test]
fn defaults_of_a_tcp_server() {
    let s = server("");
    assert_eq!((s.role, s.listens.as_slice()), (Role::Server, ["*".to_owned()].as_slice()));
    assert!(s.phase.sockets.keepalive_ns.is_some(), "TCP servers keep connections alive");
    assert_eq!(s.shown.options, ["KeepAlive", "InlineIOCP"]);
}

/// The example of the practical guide.
#[test]
fn defaults_of_streams() {
    let c = client(UDP);
    let media = c.phase.media.unwrap();
    assert_eq!((c.phase.kind, c.phase.connections), (Kind::Stream, 1));
    assert_eq!((media.frames, media.frame_size, media.total()), (3600, 52_083, 187_498_800));
    assert_eq!((media.depth_frames, media.datagram), (60, 1400));
    assert_eq!((c.phase.sockets.rcvbuf, c.shown.receives), (Some(1 << 20), 2));
    assert_eq!(c.shown.options, ["InlineIOCP", "SO_RCVBUF(1048576)"]);
    let s = server(UDP);
    assert_eq!((s.phase.sockets.rcvbuf, s.phase.sockets.keepalive_ns), (None, None));
    assert!(s.shown.options.is_empty(), "completions are not inline on UDP servers");
    // Rounded down to whole bytes; a server takes any depth.
    let bits = client(&UDP.replace("25000000", "25000007"));
    assert_eq!(bits.phase.media.unwrap().rate_bps, 25_000_000);
    assert!(read_line(&format!("-Listen:* {UDP} -BufferDepth:0")).is_ok());
}

#[test]
fn every_option_arrives() {
    let tcp = client(
        "-bind:10.0.0.1 -Bind:fe80::1 -PORT:0x1000 -protocol:TCP -pattern:pushpull -pushbytes:3 -pullbytes:5 \
         -transfer:[10,20] -buffer:[1024,1048576] -ratelimit:[1000,2000] -ratelimitperiod:50 -verify:connection \
         -shutdown:random -connections:3 -iterations:7 -throttleconnections:0 -timelimit:1500 -pauseatend:20 \
         -onerror:break -recvbufvalue:4096 -sendbufvalue:8192 -options:keepalive -localport:[5000,5002] \
         -compartment:blue -qosdscpvalue:46 -cpusetgroupid:1 -consoleverbosity:6 -statusupdate:500 \
         -connectionfilename:a.txt -errorfilename:a.txt -statusfilename:s.csv -tcpinfofilename:t.csv \
         -logencoding:utf16 -stalltimeout:700",
    );
    assert_eq!(
        (tcp.binds.as_slice(), tcp.port),
        (["10.0.0.1".to_owned(), "fe80::1".to_owned()].as_slice(), 4096)
    );
    let p = &tcp.phase;
    assert_eq!(p.pattern, Pattern::PushPull { push: 3, pull: 5 });
    assert_eq!((p.transfer, p.transfer_high), (10, Some(20)));
    assert_eq!(p.buffer, Range { low: 1024, high: 1 << 20 });
    assert_eq!((p.rate, p.rate_high, p.rate_period_ns), (Some(8000), Some(16_000), Some(50_000_000)));
    assert_eq!((p.verify, p.shutdown), (Verify::Connection, Shutdown::Random));
    assert_eq!((p.connections, p.iterations, p.throttle), (3, Some(7), u32::MAX));
    assert_eq!((p.duration_ns, p.interval_ns, p.stall_ns), (Some(1_500_000_000), 500_000_000, 700_000_000));
    let s = &p.sockets;
    assert_eq!((s.rcvbuf, s.sndbuf, s.dscp), (Some(4096), Some(8192), Some(46)));
    assert!(s.keepalive_ns.is_some());
    assert_eq!((tcp.pause_at_end_ms, tcp.break_on_error, tcp.verbosity), (20, true, 6));
    assert_eq!(tcp.local_ports, Some((5000, 5002)));
    assert_eq!(tcp.place, Some(Binding::Compartment("blue".to_owned())));
    assert_eq!(tcp.cores, Placement::Cores((64..128).collect()));
    let logs = &tcp.logs;
    let path = |name: &str| Some(PathBuf::from(name));
    assert_eq!((&logs.connection, &logs.error), (&path("a.txt"), &path("a.txt")));
    assert_eq!((&logs.status, &logs.tcp_info, logs.utf16), (&path("s.csv"), &path("t.csv"), true));

    let burst = client("-burstcount:2 -burstdelay:150 -keepalivevalue:1500 -ifindex:3 -conn:connectbyname");
    assert_eq!(burst.phase.burst, Some(Burst { count: 2, delay_ns: 150_000_000 }));
    assert_eq!(burst.phase.sockets.keepalive_ns, Some(2_000_000_000), "in whole seconds");
    assert_eq!((burst.place, burst.phase.shutdown), (Some(Binding::Interface(3)), Shutdown::Rude));

    let udp = client(&format!("{UDP} -bufferdepth:2 -datagrambytesize:1200 -jitterfilename:j.csv"));
    let media = udp.phase.media.unwrap();
    assert_eq!((media.depth_frames, media.datagram), (120, 1200));
    assert_eq!(udp.logs.jitter, path("j.csv"));

    let server = server(&format!(
        "{UDP} -serverexitlimit:10 -allow:192.0.2.0/24 -enablerecvsharding:on -shardcount:2 -affinitypolicy:manual"
    ));
    assert_eq!((server.exit_limit, server.workers, server.cores), (Some(10), Some(2), Placement::Spread));
    assert_eq!(server.allow, ["192.0.2.0/24"]);
}

#[test]
fn old_names_still_count() {
    assert_eq!(client("-pattern:flood").phase.pattern, Pattern::Duplex);
    assert_eq!(client("-verify:always").phase.verify, Verify::Data);
    assert_eq!(client("-verify:never").phase.verify, Verify::Connection);
    assert_eq!(client("-iterations:0").phase.iterations, None);
    assert_eq!(server("-serverexitlimit:0").exit_limit, None);
    assert_eq!(client("-bind:*").binds, [""; 0]);
}

#[test]
fn a_range_of_local_ports_is_large_enough_for_the_default_number_of_streams() {
    // One over UDP, eight over TCP.
    assert_eq!(client(&format!("{UDP} -LocalPort:[5000,5001]")).local_ports, Some((5_000, 5_001)));
    assert_eq!(client("-LocalPort:[5000,5007]").local_ports, Some((5_000, 5_007)));
}

/// The practical guide's client of a stream is printed with `framerate:60`, without the dash.
#[test]
fn the_guide_may_be_copied_as_it_stands() {
    let line = "-target:localhost -protocol:udp -bitspersecond:25000000 framerate:60 -bufferdepth:1 -streamlength:60 \
                -consoleverbosity:1 -connections:1 -iterations:1 -statusfilename:udpclient.csv \
                -connectionfilename:udpconnection.csv -jitterfilename:jitter.csv";
    assert_eq!(spec(line).phase.media.unwrap().frame_rate, 60);
}

#[test]
fn help_counts_before_everything_else() {
    for (line, page) in [
        ("", Page::Overview),
        ("-?", Page::Overview),
        ("-Help", Page::Overview),
        ("--help", Page::Overview),
        ("-help:other", Page::Overview),
        ("-HELP:TCP", Page::Tcp),
        ("-Help:Udp", Page::Udp),
        ("-Help:Logging", Page::Logging),
        ("-Help:Advanced", Page::Advanced),
        ("-nonsense -Listen:* -Help:Tcp", Page::Tcp),
    ] {
        assert_eq!(read_line(line), Ok(Request::Help(page)), "{line}");
    }
}

#[test]
fn what_cannot_be_is_named() {
    let udp = |more: &str| format!("-Target:a {UDP} {more}");
    for (line, says) in [
        // The form of an argument.
        ("-Listen", "Invalid argument specified: '-Listen'"),
        ("-Listen:", "Invalid argument specified: '-Listen:'"),
        ("-Target:a -EnableRecvSharding", "Invalid argument specified: '-EnableRecvSharding'"),
        ("/Target:a -Listen:*", "did you mean -Target?"),
        ("--Target:a", "there is no --Target; did you mean -Target?"),
        ("-Target:a -Foo:1", "'-Foo:1' (there is no -Foo)"),
        // One of the two ends.
        ("-Port:5", "-Listen (a server) or -Target (a client) is required"),
        ("-Listen:* -Target:a", "one of them must go"),
        // Twice.
        ("-Target:a -Port:1 -port:2", "'-port:2' (-Port may be given once only)"),
        // Only at one end.
        ("-Listen:* -Bind:a", "'-Bind:a' (it is for clients"),
        ("-Listen:* -LocalPort:5", "it is for clients"),
        ("-Listen:* -IfIndex:5", "it is for clients"),
        ("-Listen:* -Shutdown:rude", "it is for clients"),
        ("-Listen:* -Connections:5", "it is for clients"),
        ("-Listen:* -Iterations:5", "it is for clients"),
        ("-Listen:* -ThrottleConnections:5", "it is for clients"),
        ("-Listen:* -Conn:connect", "it is for clients"),
        ("-Listen:* -PortScalability:on", "it is for clients"),
        ("-Target:a -ServerExitLimit:5", "it is for servers"),
        ("-Target:a -Acc:accept", "it is for servers"),
        (&udp("-EnableRecvSharding:on"), "it is for servers"),
        (&format!("-Listen:* {UDP} -JitterFilename:j.csv"), "it is for clients"),
        // Only over one transport.
        (&udp("-Pattern:pull"), "'-Pattern:pull' (it is for -Protocol:tcp)"),
        (&udp("-Transfer:5"), "it is for -Protocol:tcp"),
        (&udp("-Buffer:5"), "it is for -Protocol:tcp"),
        (&udp("-RateLimit:5"), "it is for -Protocol:tcp"),
        (&udp("-BurstCount:5 -BurstDelay:5"), "it is for -Protocol:tcp"),
        (&udp("-IO:iocp"), "it is for -Protocol:tcp"),
        (&udp("-Options:keepalive"), "it is for -Protocol:tcp"),
        (&udp("-KeepAliveValue:5"), "it is for -Protocol:tcp"),
        ("-Target:a -FrameRate:5", "it is for -Protocol:udp"),
        ("-Target:a -BitsPerSecond:8000", "it is for -Protocol:udp"),
        ("-Target:a -DatagramByteSize:1400", "it is for -Protocol:udp"),
        ("-Target:a -JitterFilename:j.csv", "it is for -Protocol:udp"),
        // Not without another.
        ("-Target:a -PushBytes:5", "it needs -Pattern:pushpull"),
        ("-Target:a -Pattern:duplex -PullBytes:5", "it needs -Pattern:pushpull"),
        ("-Target:a -RateLimitPeriod:5", "it needs -RateLimit"),
        ("-Target:a -BurstCount:5", "it needs -BurstDelay"),
        ("-Target:a -BurstDelay:5", "it needs -BurstCount"),
        (&format!("-Listen:* {UDP} -ShardCount:2"), "it needs -EnableRecvSharding:on"),
        (
            &format!("-Listen:* {UDP} -EnableRecvSharding:off -IocpBatchSize:2"),
            "it needs -EnableRecvSharding:on",
        ),
        ("-Target:a -PrePostRecvs:3", "-PrePostRecvs above 1 needs -Verify:connection"),
        // Not together.
        (
            "-Target:a -RateLimit:5000 -BurstDelay:5 -BurstCount:1",
            "-RateLimit and -BurstDelay exclude each other",
        ),
        ("-Target:a -Compartment:b -IfIndex:1", "give one"),
        // Values.
        ("-Target:a -Port:0", "-Port: '0' must be from 1 to 65535"),
        ("-Target:a -Port:65536", "-Port: '65536' must be from 1 to 65535"),
        ("-Target:a -Port:http", "-Port: 'http' is not a whole number"),
        ("-Target:a -Protocol:sctp", "-Protocol: 'sctp' is not one of tcp, udp"),
        // The help's words.
        ("-Target:a -Pattern:up", "'up' is not one of push, pull, pushpull, duplex"),
        ("-Target:a -Transfer:0", "-Transfer: '0' must not be 0"),
        ("-Target:a -Transfer:64K", "-Transfer: '64K' is not a whole number"),
        ("-Target:a -Transfer:-1", "1 byte to 1 PiB"),
        ("-Target:a -Transfer:[0,5]", "must not be 0"),
        ("-Target:a -Transfer:[9,5]", "falls"),
        ("-Target:a -Buffer:0", "must not be 0"),
        ("-Target:a -Buffer:4294967296", "must be from 0 to 4294967295"),
        ("-Target:a -Connections:[1,2]", "-Connections: '[1,2]' is not a whole number"),
        ("-Target:a -Connections:0", "-Connections: '0' must be from 1"),
        ("-Target:a -Connections:-1", "-Connections: '-1' must be from 1"),
        ("-Target:a -RateLimit:0", "must be above 0"),
        ("-Target:a -RateLimit:-5", "must be above 0"),
        ("-Target:a -RateLimit:9", "less than one byte in a -RateLimitPeriod of 100 ms"),
        ("-Target:a -RateLimit:900 -RateLimitPeriod:1", "less than one byte"),
        ("-Target:a -BurstCount:0 -BurstDelay:5", "must be from 1"),
        ("-Target:a -Verify:some", "is not one of data"),
        ("-Target:a -Shutdown:soft", "is not one of graceful, rude, random"),
        ("-Target:a -TimeLimit:0", "must be from 1"),
        ("-Target:a -PauseAtEnd:0", "must be from 1"),
        ("-Target:a -OnError:ignore", "is not one of log, break"),
        ("-Target:a -Pattern:pushpull -PushBytes:0", "-PushBytes: '0' must be from 1"),
        ("-Target:a -LocalPort:0", "must be from 1"),
        ("-Target:a -LocalPort:[5000,5006]", "-LocalPort has 7 ports for -Connections:8"),
        ("-Target:a -QosDscpValue:64", "must be from 0 to 63"),
        ("-Target:a -IfIndex:0", "must be from 1"),
        ("-Target:a -IO:rio", "is not one of iocp, RioIocp, ReadWriteFile"),
        ("-Target:a -Options:nagle", "is not one of keepalive, tcpfastpath"),
        ("-Target:a -KeepAliveValue:0", "must be from 1"),
        ("-Target:a -InlineCompletions:yes", "is not one of on, off"),
        ("-Target:a -ThreadPool:big", "is not one of default, runslong"),
        // Streams.
        ("-Target:a -Protocol:udp", "-BitsPerSecond is required"),
        ("-Target:a -Protocol:udp -BitsPerSecond:8000", "-FrameRate is required"),
        ("-Target:a -Protocol:udp -BitsPerSecond:8000 -FrameRate:5", "-StreamLength is required"),
        ("-Target:a -Protocol:udp -BitsPerSecond:7 -FrameRate:5 -StreamLength:1", "must be at least 8"),
        ("-Target:a -Protocol:udp -BitsPerSecond:-8 -FrameRate:5 -StreamLength:1", "must be above 0"),
        ("-Target:a -Protocol:udp -BitsPerSecond:8000 -FrameRate:0 -StreamLength:1", "must be from 1"),
        (
            "-Target:a -Protocol:udp -BitsPerSecond:8000 -FrameRate:100 -StreamLength:1",
            "a frame would have 10 bytes",
        ),
        (
            "-Target:a -Protocol:udp -BitsPerSecond:8000000000 -FrameRate:100000 -StreamLength:100000",
            "the stream is too long",
        ),
        (&udp("-BufferDepth:0"), "-BufferDepth must be at least 1 second"),
        (&udp("-DatagramByteSize:38"), "must be from 39 to 65507"),
        (&udp("-DatagramByteSize:65508"), "must be from 39 to 65507"),
        // Files.
        (&udp("-JitterFilename:j.txt"), "must end in .csv"),
        (&udp("-JitterFilename:j.csv -Connections:2"), "it needs -Connections:1"),
        ("-Target:a -TcpInfoFilename:t.log", "must end in .csv"),
        ("-Target:a -ErrorFilename:e.CSV", "must not end in .csv"),
        ("-Target:a -StatusFilename:a.csv -ConnectionFilename:a.csv", "a.csv is named twice"),
        ("-Target:a -ConsoleVerbosity:7", "must be from 0 to 6"),
        ("-Target:a -StatusUpdate:0", "must be from 1"),
        ("-Target:a -LogEncoding:ebcdic", "is not one of utf8, utf16"),
    ] {
        let why = read_line(line).expect_err(line);
        assert!(why.contains(says), "{line}: '{says}' is missing in: {why}");
        assert!(!why.contains('\n'), "one sentence: {why}");
    }
}

#[test]
fn all_that_is_left_over_is_named_at_once() {
    let why = read_line("-Target:a -Foo:1 -ShardCount:2 -Port:1 -Port:2").unwrap_err();
    for part in ["'-Foo:1'", "'-ShardCount:2'", "'-Port:2'"] {
        assert!(why.contains(part), "{why}");
    }
}

#[test]
fn what_has_no_effect_is_told() {
    assert_eq!(client("-io:iocp -inlinecompletions:on -msgwaitall:off -threadpool:default").ignored, [""; 0]);
    let idle = client(
        "-IO:RioIocp -PrePostSends:2 -MsgWaitAll:on -Options:tcpfastpath -PortScalability:on -StatusUpdate:1 \
         -Buffer:33554432",
    );
    let (told, changed) = (idle.ignored.join(" "), idle.changed.join(" "));
    for part in
        ["-IO:RioIocp", "-PrePostSends:2", "-MsgWaitAll:on", "-Options:tcpfastpath", "-PortScalability:on"]
    {
        assert!(told.contains(part), "{told}");
    }
    // Values that are changed have an effect.
    for part in ["-StatusUpdate:1 (here 10 to 3600000; 10 is used)", "-Buffer above 16777216"] {
        assert!(changed.contains(part) && !told.contains(part), "{told} | {changed}");
    }
    assert_eq!((idle.phase.interval_ns, idle.phase.buffer.high), (10_000_000, 16 << 20));
    assert_eq!(idle.shown.sends, 2);
    let endless = client("-iterations:-1");
    assert_eq!(endless.changed, ["-Iterations below 0 (0 is used: without end)"]);
    assert_eq!(endless.phase.iterations, None);
}

/// 65536 bytes at 1000 bytes/s are a send every 66 s: that is no stall.
#[test]
fn a_slow_limit_is_no_stall() {
    assert_eq!(client("").phase.stall_ns, 15_000_000_000);
    assert!(client("-RateLimit:1000").phase.stall_ns > 80_000_000_000);
    assert!(client("-StallTimeout:0").phase.stall_ns > 300 * 86_400 * 1_000_000_000);
}

/// Arguments put together from pieces of real ones: parsing never panics.
#[test]
fn nonsense_is_answered() {
    const PIECES: &str = "- Target Listen Transfer Buffer RateLimit Port : [ ] , 0x x 9 -1 é \u{0} udp Protocol \
        18446744073709551615 ? Help *";
    let pieces: Vec<&str> = PIECES.split(' ').chain([" "]).collect();
    let mut rng = transport::Rng::new(1);
    let mut draw = |below: usize| rng.between(0, below.max(1) as u64 - 1) as usize;
    for _ in 0..crate::compat::inputs() {
        let words: Vec<String> = (0..draw(4))
            .map(|_| {
                let name = pieces[draw(pieces.len())];
                let value: String = (0..draw(5)).map(|_| pieces[draw(pieces.len())]).collect();
                if draw(4) == 0 { format!("{name}{value}") } else { format!("-{name}:{value}") }
            })
            .collect();
        if let Err(why) = read(&words) {
            assert!(!why.is_empty());
        }
    }
}
