//! Options of TCP tests.

use super::{CLIENT, Need, Page, ROW, Row, TCP};
use crate::ctstraffic::draft::PatternName;
use crate::ctstraffic::grammar::{one_of, range_of, rate_of, u32_above_0, u32_of, u64_of};
use model::Shutdown;

const PUSHPULL: Need = Need { text: "-Pattern:pushpull", met: |d| d.pattern == Some(PatternName::PushPull) };
const RATE_LIMIT: Need = Need { text: "-RateLimit", met: |d| d.rate_limit.is_some() };
const BURST_COUNT: Need = Need { text: "-BurstCount", met: |d| d.burst_count.is_some() };
const BURST_DELAY: Need = Need { text: "-BurstDelay", met: |d| d.burst_delay.is_some() };

const THIS: Row = Row { page: Page::Tcp, over: TCP, ..ROW };

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "-Pattern",
        value: "push|pull|pushpull|duplex",
        take: |d, v| {
            let words = [
                ("push", PatternName::Push),
                ("pull", PatternName::Pull),
                ("pushpull", PatternName::PushPull),
                ("duplex", PatternName::Duplex),
                ("flood", PatternName::Duplex),
            ];
            one_of(v, &words).map(|p| d.pattern = Some(p))
        },
        help: "who sends: the client, the server, both in turn, both at once; the same at both ends (default: push)",
        ..THIS
    },
    Row {
        name: "-PushBytes",
        value: "bytes",
        take: |d, v| u32_above_0(v).map(|n| d.push_bytes = Some(n)),
        help: "bytes of the client's turn, with pushpull; the same at both ends (default: 1048576)",
        needs: Some(PUSHPULL),
        ..THIS
    },
    Row {
        name: "-PullBytes",
        value: "bytes",
        take: |d, v| u32_above_0(v).map(|n| d.pull_bytes = Some(n)),
        help: "bytes of the server's turn, with pushpull; the same at both ends (default: 1048576)",
        needs: Some(PUSHPULL),
        ..THIS
    },
    Row {
        name: "-Transfer",
        value: "bytes|[low,high]",
        take: |d, v| range_of(v, u64_of).map(|r| d.transfer = Some(r)),
        help: "payload of one connection, both directions together; the same at both ends. Of a range each end draws \
               a size of its own for each connection, so that connections fail on purpose (default: 1073741824)",
        ..THIS
    },
    Row {
        name: "-Buffer",
        value: "bytes|[low,high]",
        take: |d, v| range_of(v, u32_of).map(|r| d.buffer = Some(r)),
        help: "bytes of each send and receive; of a range one is drawn for each call (default: 65536)",
        ..THIS
    },
    Row {
        name: "-RateLimit",
        value: "bytes/s|[low,high]",
        take: |d, v| range_of(v, rate_of).map(|r| d.rate_limit = Some(r)),
        help: "limits what this end sends on each connection; of a range a rate is drawn for each connection (the \
               original always runs at the high end); not with -BurstDelay (default: no limit)",
        ..THIS
    },
    Row {
        name: "-RateLimitPeriod",
        value: "ms",
        take: |d, v| rate_of(v).map(|n| d.rate_period = Some(n)),
        help: "the stretch of time over which the limit is kept: rate x period / 1000 bytes each (default: 100)",
        needs: Some(RATE_LIMIT),
        ..THIS
    },
    Row {
        name: "-BurstCount",
        value: "n",
        take: |d, v| u32_above_0(v).map(|n| d.burst_count = Some(n)),
        help: "sends of a burst; the last of each waits for -BurstDelay first (default: no bursts)",
        needs: Some(BURST_DELAY),
        ..THIS
    },
    Row {
        name: "-BurstDelay",
        value: "ms",
        take: |d, v| u32_above_0(v).map(|n| d.burst_delay = Some(n)),
        help: "pause of each burst; not with -RateLimit (default: no bursts)",
        needs: Some(BURST_COUNT),
        ..THIS
    },
    Row {
        name: "-Shutdown",
        value: "graceful|rude|random",
        take: |d, v| {
            let words =
                [("graceful", Shutdown::Graceful), ("rude", Shutdown::Rude), ("random", Shutdown::Random)];
            one_of(v, &words).map(|s| d.shutdown = Some(s))
        },
        help: "how the client ends a good connection: by FIN, by RST (which leaves no TIME_WAIT), by a coin flip \
               (default: graceful)",
        who: CLIENT,
        over: super::Only::Any,
        ..THIS
    },
    Row {
        name: "-StallTimeout",
        value: "ms",
        take: |d, v| u32_of(v).map(|n| d.stall_ms = Some(n)),
        help: "ours, not the original's: a connection that moves nothing for so long has failed, with the likely cause \
               named; 0 waits for ever, as the original does (default: 15000)",
        over: super::Only::Any,
        ..THIS
    },
];
