//! Options that choose between ways in which Windows can do the same, and options of sockets.

use super::{CLIENT, Page, ROW, Row, SERVER, TCP};
use crate::ctstraffic::draft::{Connect, IoModel, SocketOption};
use crate::ctstraffic::grammar::{on_off, one_of, port_of, range_of, u32_above_0, u32_of, u32_within};

const THIS: Row = Row { page: Page::Advanced, ..ROW };

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "-Acc",
        value: "AcceptEx|accept",
        take: |d, v| one_of(v, &[("AcceptEx", "AcceptEx"), ("accept", "accept")]).map(|n| d.accept = Some(n)),
        help: "how connections are accepted on Windows; ignored here (default: AcceptEx)",
        who: SERVER,
        over: TCP,
        ..THIS
    },
    Row {
        name: "-Conn",
        value: "ConnectEx|connect|ConnectByName",
        take: |d, v| {
            let words = [
                ("ConnectEx", Connect::Extended),
                ("connect", Connect::Plain),
                ("ConnectByName", Connect::ByName),
            ];
            one_of(v, &words).map(|c| d.connect = Some(c))
        },
        help: "how connections are made on Windows; here only ConnectByName has an effect, the rude shutdown that comes \
               with it (default: ConnectEx)",
        who: CLIENT,
        over: TCP,
        ..THIS
    },
    Row {
        name: "-IO",
        value: "iocp|RioIocp|ReadWriteFile",
        take: |d, v| {
            let words = [
                ("iocp", IoModel::Iocp),
                ("RioIocp", IoModel::Rio),
                ("ReadWriteFile", IoModel::ReadWriteFile),
            ];
            one_of(v, &words).map(|io| d.io = Some(io))
        },
        help: "how bytes are moved on Windows; ignored here (default: iocp)",
        over: TCP,
        ..THIS
    },
    Row {
        name: "-InlineCompletions",
        value: "on|off",
        take: |d, v| on_off(v).map(|b| d.inline = Some(b)),
        help: "whether I/O that ends at once is handled at once; ignored here (default: on, but off with -IO:RioIocp, \
               -IO:ReadWriteFile and for UDP servers)",
        ..THIS
    },
    Row {
        name: "-MsgWaitAll",
        value: "on|off",
        take: |d, v| on_off(v).map(|b| d.wait_all = Some(b)),
        help: "whether a receive waits until its buffer is full; here none ever does, so off is what you get (the \
               original takes no notice of off) (default: on)",
        ..THIS
    },
    Row {
        name: "-PrePostRecvs",
        value: "n",
        take: |d, v| u32_above_0(v).map(|n| d.receives = Some(n)),
        help: "outstanding receives; ignored here; over TCP more than 1 needs -Verify:connection (default: 1 over TCP, 2 \
               over UDP)",
        ..THIS
    },
    Row {
        name: "-PrePostSends",
        value: "n",
        take: |d, v| u32_of(v).map(|n| d.sends = Some(n)),
        help: "outstanding sends; 0 follows the system's advice; ignored here (default: 1, with -IO:RioIocp 0)",
        ..THIS
    },
    Row {
        name: "-RecvBufValue",
        value: "bytes",
        take: |d, v| u32_of(v).map(|n| d.rcvbuf = Some(n)),
        help: "SO_RCVBUF (default: the system's; UDP clients four frames, at least 1048576)",
        ..THIS
    },
    Row {
        name: "-SendBufValue",
        value: "bytes",
        take: |d, v| u32_of(v).map(|n| d.sndbuf = Some(n)),
        help: "SO_SNDBUF (default: the system's)",
        ..THIS
    },
    Row {
        name: "-Options",
        value: "keepalive|tcpfastpath",
        many: true,
        take: |d, v| {
            let words = [("keepalive", SocketOption::KeepAlive), ("tcpfastpath", SocketOption::FastPath)];
            one_of(v, &words).map(|o| d.options.push(o))
        },
        help: "SO_KEEPALIVE, or Windows' fast path over loopback, which is ignored here; repeatable (default: servers \
               keepalive)",
        over: TCP,
        ..THIS
    },
    Row {
        name: "-KeepAliveValue",
        value: "ms",
        take: |d, v| u32_above_0(v).map(|n| d.keepalive_ms = Some(n)),
        help: "keep-alive probes after so much silence; here rounded up to whole seconds (default: none)",
        over: TCP,
        ..THIS
    },
    Row {
        name: "-LocalPort",
        value: "port|[low,high]",
        take: |d, v| range_of(v, port_of).map(|r| d.local_port = Some(r)),
        help: "local port or ports of the client, in turn; a range needs at least -Connections ports (default: the \
               system's)",
        who: CLIENT,
        ..THIS
    },
    Row {
        name: "-PortScalability",
        value: "on|off",
        take: |d, v| on_off(v).map(|b| d.port_scalability = Some(b)),
        help: "lets Windows use one local port towards several servers; ignored here, Linux always does (default: off)",
        who: CLIENT,
        ..THIS
    },
    Row {
        name: "-IfIndex",
        value: "n",
        take: |d, v| u32_above_0(v).map(|n| d.if_index = Some(n)),
        help: "the interface with this number carries the client's connections (default: as routed)",
        who: CLIENT,
        ..THIS
    },
    Row {
        name: "-Compartment",
        value: "name",
        take: |d, v| {
            d.compartment = Some(v.to_owned());
            Ok(())
        },
        help: "on Windows the compartment of the interface of that name; here a network namespace (`ip netns`) of that \
               name, else the VRF or interface of that name (default: where the program was started)",
        ..THIS
    },
    Row {
        name: "-QosDscpValue",
        value: "0-63",
        take: |d, v| u32_within(v, 0..=63).map(|n| d.dscp = Some(n as u8)),
        help: "DSCP of what this end sends (default: 0)",
        ..THIS
    },
    Row {
        name: "-CpuSetGroupId",
        value: "n",
        take: |d, v| u32_of(v).map(|n| d.cpu_group = Some(n)),
        help: "uses the logical CPUs 64n to 64n+63 only, which is what a processor group is on Windows (default: all)",
        ..THIS
    },
    Row {
        name: "-ThreadPool",
        value: "default|runslong",
        take: |d, v| one_of(v, &[("default", "default"), ("runslong", "runslong")]).map(|t| d.pool = Some(t)),
        help: "a setting of Windows' thread pool; ignored here (default: default)",
        ..THIS
    },
];
