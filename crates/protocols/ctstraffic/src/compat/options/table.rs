//! Every option of ctsTraffic, in the order of the help pages, and three of ours.

use super::{Kind, OptionRow, Page};
use crate::compat::spec::{Role, Transport};
use model::{LARGEST_DATAGRAM, SMALLEST_DATAGRAM};

const CLIENT: Option<Role> = Some(Role::Client);
const SERVER: Option<Role> = Some(Role::Server);

const U32: Kind = Kind::Number(0, u32::MAX);
const ABOVE_0: Kind = Kind::Number(1, u32::MAX);
const PORT: Kind = Kind::Number(1, 65_535);
const SHARDING: Option<&str> = Some("-EnableRecvSharding:on");

/// An option of both ends, given at most once.
const ROW: OptionRow = OptionRow {
    name: "",
    value: "",
    also: "",
    kind: Kind::Text,
    page: Page::Overview,
    who: None,
    over: None,
    needs: None,
    many: false,
    help: "",
};
const TCP: OptionRow = OptionRow { page: Page::Tcp, over: Some(Transport::Tcp), ..ROW };
const UDP: OptionRow = OptionRow { page: Page::Udp, over: Some(Transport::Udp), ..ROW };
const LOGGING: OptionRow = OptionRow { page: Page::Logging, ..ROW };
const ADVANCED: OptionRow = OptionRow { page: Page::Advanced, ..ROW };

/// Of each option its name, what may follow the colon, how that is read, what differs from the row
/// above the brace, the help.
macro_rules! rows {
    ($($base:ident { $($name:literal $value:literal ($kind:expr) [$($field:ident: $set:expr),*] $help:literal;)* })*) => {
        &[$($(OptionRow { name: $name, value: $value, kind: $kind, help: $help, $($field: $set,)* ..$base },)*)*]
    };
}

pub(in crate::compat) const ROWS: &[OptionRow] = rows! {
    ROW {
        "-Listen" "address|name|*" (Kind::Text) [many: true]
            "makes this end the server, listening there; * is every address, IPv4 and IPv6; repeatable";
        "-Target" "address|name" (Kind::Text) [many: true]
            "makes this end the client of that server; every address of a name is used, in turn; repeatable";
        "-Bind" "address|name|*" (Kind::Text) [who: CLIENT, many: true]
            "local address of the client's connections; repeatable, used in turn (default: *, the system chooses)";
        "-Port" "1-65535" (PORT) [] "the server's port, the same at both ends (default: 4444)";
        "-Protocol" "tcp|udp" (Kind::Word) [] "the same at both ends (default: tcp)";
        "-Verify" "data|connection" (Kind::Word) [also: "always|never"]
            "data compares every received byte; connection only counts (default: data)";
        "-Connections" "n" (ABOVE_0) [who: CLIENT] "connections, or UDP streams, held at once (default: 8 over TCP, 1 over UDP)";
        "-Iterations" "n" (Kind::Wide) [who: CLIENT]
            "lives of each: the client ends after Iterations x Connections; 0 is without end (default: 0)";
        "-ServerExitLimit" "n" (Kind::Wide) [who: SERVER]
            "the server ends after this number of accepted connections; 0 is without end (default: 0)";
        "-ThrottleConnections" "n" (U32) [who: CLIENT]
            "connections that may be connecting at once; 0 is without limit (default: 1000)";
        "-TimeLimit" "ms" (ABOVE_0) []
            "ends the run after this time; connections still open are closed and not counted (default: none)";
        "-PauseAtEnd" "ms" (ABOVE_0) [] "waits this long between the end of the work and the end of the program \
                                         (default: none)";
        "-OnError" "log|break" (Kind::Word) [page: Page::Advanced]
            "break ends the program by SIGABRT at the first error, for a debugger (default: log)";
    }
    TCP {
        "-Pattern" "push|pull|pushpull|duplex" (Kind::Word) [also: "flood"]
            "who sends: the client, the server, both in turn, both at once; the same at both ends (default: push)";
        "-PushBytes" "bytes" (ABOVE_0) [needs: Some("-Pattern:pushpull")]
            "bytes of the client's turn, with pushpull; the same at both ends (default: 1048576)";
        "-PullBytes" "bytes" (ABOVE_0) [needs: Some("-Pattern:pushpull")]
            "bytes of the server's turn, with pushpull; the same at both ends (default: 1048576)";
        "-Transfer" "bytes|[low,high]" (Kind::Range(&Kind::Wide)) []
            "payload of one connection, both directions together; the same at both ends. Of a range each end draws a size of \
             its own for each connection, so that connections fail on purpose (default: 1073741824)";
        "-Buffer" "bytes|[low,high]" (Kind::Range(&U32)) []
            "bytes of each send and receive; of a range one is drawn for each call (default: 65536)";
        "-RateLimit" "bytes/s|[low,high]" (Kind::Range(&Kind::Rate)) []
            "limits the sending rate of this end on each connection; of a range a rate is drawn for each connection \
             (the original always runs at the high end); not with -BurstDelay (default: no limit)";
        "-RateLimitPeriod" "ms" (Kind::Rate) [needs: Some("-RateLimit")]
            "the stretch of time over which the limit is kept: rate x period / 1000 bytes each (default: 100)";
        "-BurstCount" "n" (ABOVE_0) [needs: Some("-BurstDelay")]
            "sends of a burst; the last of each waits for -BurstDelay first (default: no bursts)";
        "-BurstDelay" "ms" (ABOVE_0) [needs: Some("-BurstCount")] "pause of each burst; not with -RateLimit (default: no bursts)";
        "-Shutdown" "graceful|rude|random" (Kind::Word) [who: CLIENT, over: None]
            "how the client ends a good connection: by FIN, by RST (which leaves no TIME_WAIT), by a coin flip (default: \
             graceful)";
        "-StallTimeout" "ms" (U32) [over: None]
            "ours, not the original's: a connection without progress for this time has failed, with the likely cause \
             named; 0 waits for ever, as the original does (default: 15000)";
    }
    UDP {
        "-BitsPerSecond" "bits/s" (Kind::Bits) []
            "rate of the stream, rounded down to whole bytes; the same at both ends (required)";
        "-FrameRate" "frames/s" (ABOVE_0) [] "frames per second; the same at both ends (required)";
        "-StreamLength" "s" (ABOVE_0) [] "length of the stream; the same at both ends (required)";
        "-BufferDepth" "s" (U32) []
            "how much of the stream the client holds before it shows the first frame; a server accepts and ignores it \
             (default: 1)";
        "-DatagramByteSize" "bytes" (Kind::Number(SMALLEST_DATAGRAM, LARGEST_DATAGRAM)) []
            "most bytes of a datagram, its 26-byte header included; a client needs at least the server's (default: 1400)";
        "-Allow" "network" (Kind::Text) [who: SERVER, many: true]
            "ours: the server also streams to this network, such as 192.0.2.0/24; without it only to this host and the \
             networks it is in, because a START can be forged (also: NETCALIPER_ALLOW); repeatable";
        "-EnableRecvSharding" "on|off" (Kind::Word) [who: SERVER]
            "spreads the server's clients over several sockets and threads; here it always is (default: off)";
        "-ShardCount" "n" (Kind::Number(0, 1024)) [who: SERVER, needs: SHARDING]
            "worker threads; 0 is one per logical CPU (default: 0)";
        "-ShardWorkerCount" "n" (ABOVE_0) [who: SERVER, needs: SHARDING]
            "threads of a shard; ignored here, a worker is one thread (default: 1)";
        "-IocpBatchSize" "1-256" (Kind::Number(1, 256)) [who: SERVER, needs: SHARDING]
            "completions taken at once; ignored here (default: 64)";
        "-AffinityPolicy" "PerCpu|PerGroup|RssAligned|Manual" (Kind::Word) [who: SERVER, needs: SHARDING]
            "PerCpu and RssAligned give each worker a core; PerGroup and Manual leave them to the scheduler (default: PerCpu)";
        "-JitterFilename" "file.csv" (Kind::Text) [page: Page::Logging, who: CLIENT]
            "one row per frame with the stamps of both ends; needs -Connections:1 (default: none)";
    }
    LOGGING {
        "-ConsoleVerbosity" "0-6" (Kind::Number(0, 6)) []
            "0 nothing; 1 status; 2 status and errors; 3 connections; 4 connections and errors; 5 all of them; 6 \
             all, and details for the search of faults (default: 4)";
        "-StatusUpdate" "ms" (ABOVE_0) [] "time between two status lines; here 10 to 3600000 (default: 5000)";
        "-StatusFilename" "file" (Kind::Text) []
            "status lines go there: as CSV when the name ends in .csv, else as text (default: none)";
        "-ConnectionFilename" "file" (Kind::Text) []
            "the result of every connection goes there: as CSV when the name ends in .csv, else as text (default: none)";
        "-ErrorFilename" "file" (Kind::Text) [] "errors go there, as text; it may be the text file of others (default: none)";
        "-TcpInfoFilename" "file.csv" (Kind::Text) [] "the kernel's account of every connection at its end (default: none)";
        "-LogEncoding" "utf8|utf16" (Kind::Word) []
            "ours: utf16 writes log files as the original does, little-endian with a byte order mark (default: utf8)";
    }
    ADVANCED {
        "-Acc" "AcceptEx|accept" (Kind::Word) [who: SERVER, over: Some(Transport::Tcp)]
            "how connections are accepted on Windows; ignored here (default: AcceptEx)";
        "-Conn" "ConnectEx|connect|ConnectByName" (Kind::Word) [who: CLIENT, over: Some(Transport::Tcp)]
            "how connections are made on Windows; here only ConnectByName has an effect, the rude shutdown that \
             belongs to it (default: ConnectEx)";
        "-IO" "iocp|RioIocp|ReadWriteFile" (Kind::Word) [over: Some(Transport::Tcp)]
            "how bytes are moved on Windows; ignored here (default: iocp)";
        "-InlineCompletions" "on|off" (Kind::Word) []
            "whether I/O that ends at once is handled at once; ignored here (default: on, but off with -IO:RioIocp, \
             -IO:ReadWriteFile and for UDP servers)";
        "-MsgWaitAll" "on|off" (Kind::Word) []
            "whether a receive waits until its buffer is full; here none ever does, so off is what you get (the original \
             takes no notice of off) (default: on)";
        "-PrePostRecvs" "n" (ABOVE_0) []
            "outstanding receives; ignored here; over TCP more than 1 needs -Verify:connection (default: 1 over TCP, 2 over \
             UDP)";
        "-PrePostSends" "n" (U32) []
            "outstanding sends; 0 follows the system's advice; ignored here (default: 1, with -IO:RioIocp 0)";
        "-RecvBufValue" "bytes" (U32) [] "SO_RCVBUF (default: the system's; UDP clients four frames, at least 1048576)";
        "-SendBufValue" "bytes" (U32) [] "SO_SNDBUF (default: the system's)";
        "-Options" "keepalive|tcpfastpath" (Kind::Word) [over: Some(Transport::Tcp), many: true]
            "SO_KEEPALIVE, or Windows' fast path over loopback, which is ignored here; repeatable (default: servers \
             keepalive)";
        "-KeepAliveValue" "ms" (ABOVE_0) [over: Some(Transport::Tcp)]
            "keep-alive probes after so much silence; here rounded up to whole seconds (default: none)";
        "-LocalPort" "port|[low,high]" (Kind::Range(&PORT)) [who: CLIENT]
            "local port or ports of the client, in turn; a range needs at least -Connections ports (default: the system's)";
        "-PortScalability" "on|off" (Kind::Word) [who: CLIENT]
            "lets Windows use one local port towards several servers; ignored here, Linux always does (default: off)";
        "-IfIndex" "n" (ABOVE_0) [who: CLIENT]
            "the interface with this number carries the client's connections (default: as routed)";
        "-Compartment" "name" (Kind::Text) []
            "on Windows the compartment of the interface of that name; here a network namespace (`ip netns`) of that name, \
             else the VRF or interface of that name (default: where the program was started)";
        "-QosDscpValue" "0-63" (Kind::Number(0, 63)) [] "DSCP of the packets of this end (default: 0)";
        "-CpuSetGroupId" "n" (U32) []
            "uses the logical CPUs 64n to 64n+63 only, Windows' processor group (default: all)";
        "-ThreadPool" "default|runslong" (Kind::Word) [] "a setting of Windows' thread pool; ignored here (default: default)";
    }
};
