//! Options that every test has.

use super::{CLIENT, Page, ROW, Row, SERVER};
use crate::ctstraffic::draft::Verify;
use crate::ctstraffic::grammar::{one_of, port_of, u32_above_0, u32_of, u64_of};
use crate::ctstraffic::spec::Transport;

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "-Listen",
        value: "address|name|*",
        many: true,
        take: |d, v| {
            d.listen.push(v.to_owned());
            Ok(())
        },
        help: "makes this end the server, listening there; * is every address, IPv4 and IPv6; repeatable",
        ..ROW
    },
    Row {
        name: "-Target",
        value: "address|name",
        many: true,
        take: |d, v| {
            d.target.push(v.to_owned());
            Ok(())
        },
        help: "makes this end the client of that server; every address of a name is used, in turn; repeatable",
        ..ROW
    },
    Row {
        name: "-Bind",
        value: "address|name|*",
        many: true,
        take: |d, v| {
            d.bind.push(v.to_owned());
            Ok(())
        },
        help: "local address of the client's connections; repeatable, used in turn (default: *, the system chooses)",
        who: CLIENT,
        ..ROW
    },
    Row {
        name: "-Port",
        value: "1-65535",
        take: |d, v| port_of(v).map(|n| d.port = Some(n)),
        help: "the server's port, the same at both ends (default: 4444)",
        ..ROW
    },
    Row {
        name: "-Protocol",
        value: "tcp|udp",
        take: |d, v| {
            one_of(v, &[("tcp", Transport::Tcp), ("udp", Transport::Udp)]).map(|p| d.protocol = Some(p))
        },
        help: "the same at both ends (default: tcp)",
        ..ROW
    },
    Row {
        name: "-Verify",
        value: "data|connection",
        take: |d, v| {
            let words = [
                ("data", Verify::Data),
                ("connection", Verify::Connection),
                ("always", Verify::Data),
                ("never", Verify::Connection),
            ];
            one_of(v, &words).map(|p| d.verify = Some(p))
        },
        help: "data compares every received byte; connection only counts (default: data)",
        ..ROW
    },
    Row {
        name: "-Connections",
        value: "n",
        take: |d, v| u32_above_0(v).map(|n| d.connections = Some(n)),
        help: "connections, or UDP streams, held at once (default: 8 over TCP, 1 over UDP)",
        who: CLIENT,
        ..ROW
    },
    Row {
        name: "-Iterations",
        value: "n",
        take: |d, v| u64_of(v).map(|n| d.iterations = Some(n)),
        help: "lives of each: the client ends after Iterations x Connections; 0 is without end (default: 0)",
        who: CLIENT,
        ..ROW
    },
    Row {
        name: "-ServerExitLimit",
        value: "n",
        take: |d, v| u64_of(v).map(|n| d.exit_limit = Some(n)),
        help: "the server ends after so many accepted connections; 0 is without end (default: 0)",
        who: SERVER,
        ..ROW
    },
    Row {
        name: "-ThrottleConnections",
        value: "n",
        take: |d, v| u32_of(v).map(|n| d.throttle = Some(n)),
        help: "connections that may be connecting at once; 0 is without limit (default: 1000)",
        who: CLIENT,
        ..ROW
    },
    Row {
        name: "-TimeLimit",
        value: "ms",
        take: |d, v| u32_above_0(v).map(|n| d.time_limit = Some(n)),
        help: "ends the run after so long; connections still open are closed and not counted (default: none)",
        ..ROW
    },
    Row {
        name: "-PauseAtEnd",
        value: "ms",
        take: |d, v| u32_above_0(v).map(|n| d.pause_at_end = Some(n)),
        help: "waits so long between the end of the work and the end of the program (default: none)",
        ..ROW
    },
    Row {
        name: "-OnError",
        value: "log|break",
        take: |d, v| one_of(v, &[("log", false), ("break", true)]).map(|b| d.break_on_error = Some(b)),
        help: "break ends the program by SIGABRT at the first error, for a debugger (default: log)",
        page: Page::Advanced,
        ..ROW
    },
];
