//! Options of UDP streams.

use super::{CLIENT, Need, Page, ROW, Row, SERVER, UDP};
use crate::ctstraffic::grammar::{on_off, one_of, rate_of, u32_above_0, u32_of, u32_within};
use model::{LARGEST_DATAGRAM, SMALLEST_DATAGRAM};

const SHARDING: Need = Need { text: "-EnableRecvSharding:on", met: |d| d.sharding == Some(true) };

const THIS: Row = Row { page: Page::Udp, over: UDP, ..ROW };

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "-BitsPerSecond",
        value: "bits/s",
        take: |d, v| match rate_of(v)? / 8 * 8 {
            0 => Err(format!("'{v}' must be at least 8")),
            bits => {
                d.bits_per_second = Some(bits);
                Ok(())
            }
        },
        help: "rate of the stream, rounded down to whole bytes; the same at both ends (required)",
        ..THIS
    },
    Row {
        name: "-FrameRate",
        value: "frames/s",
        take: |d, v| u32_above_0(v).map(|n| d.frame_rate = Some(n)),
        help: "frames per second; the same at both ends (required)",
        ..THIS
    },
    Row {
        name: "-StreamLength",
        value: "s",
        take: |d, v| u32_above_0(v).map(|n| d.stream_length = Some(n)),
        help: "length of the stream; the same at both ends (required)",
        ..THIS
    },
    Row {
        name: "-BufferDepth",
        value: "s",
        take: |d, v| u32_of(v).map(|n| d.buffer_depth = Some(n)),
        help: "how much of the stream the client holds before it shows the first frame; a server accepts and ignores \
               it (default: 1)",
        ..THIS
    },
    Row {
        name: "-DatagramByteSize",
        value: "bytes",
        take: |d, v| u32_within(v, SMALLEST_DATAGRAM..=LARGEST_DATAGRAM).map(|n| d.datagram = Some(n)),
        help: "most bytes of a datagram, its 26-byte header included; a client needs at least the server's (default: \
               1400)",
        ..THIS
    },
    Row {
        name: "-Allow",
        value: "network",
        many: true,
        take: |d, v| {
            d.allow.push(v.to_owned());
            Ok(())
        },
        help: "ours: the server also streams to this network, such as 192.0.2.0/24; without it only to this host and the \
               networks it is in, because a START can be forged (also: NETCALIPER_ALLOW); repeatable",
        who: SERVER,
        ..THIS
    },
    Row {
        name: "-EnableRecvSharding",
        value: "on|off",
        take: |d, v| on_off(v).map(|b| d.sharding = Some(b)),
        help: "spreads the server's clients over several sockets and threads; here it always is (default: off)",
        who: SERVER,
        ..THIS
    },
    Row {
        name: "-ShardCount",
        value: "n",
        take: |d, v| u32_within(v, 0..=1024).map(|n| d.shards = Some(n)),
        help: "worker threads; 0 is one per logical CPU (default: 0)",
        who: SERVER,
        needs: Some(SHARDING),
        ..THIS
    },
    Row {
        name: "-ShardWorkerCount",
        value: "n",
        take: |d, v| u32_above_0(v).map(|n| d.shard_workers = Some(n)),
        help: "threads of a shard; ignored here, a worker is one thread (default: 1)",
        who: SERVER,
        needs: Some(SHARDING),
        ..THIS
    },
    Row {
        name: "-IocpBatchSize",
        value: "1-256",
        take: |d, v| u32_within(v, 1..=256).map(|n| d.batch = Some(n)),
        help: "completions taken at once; ignored here (default: 64)",
        who: SERVER,
        needs: Some(SHARDING),
        ..THIS
    },
    Row {
        name: "-AffinityPolicy",
        value: "PerCpu|PerGroup|RssAligned|Manual",
        take: |d, v| {
            let words = ["PerCpu", "PerGroup", "RssAligned", "Manual"].map(|word| (word, word));
            one_of(v, &words).map(|p| d.affinity = Some(p))
        },
        help: "PerCpu and RssAligned give each worker a core; PerGroup and Manual leave them to the scheduler \
               (default: PerCpu)",
        who: SERVER,
        needs: Some(SHARDING),
        ..THIS
    },
    Row {
        name: "-JitterFilename",
        value: "file.csv",
        page: Page::Logging,
        take: |d, v| {
            d.jitter = Some(v.into());
            Ok(())
        },
        help: "one row per frame with the stamps of both ends; needs -Connections:1 (default: none)",
        who: CLIENT,
        ..THIS
    },
];
