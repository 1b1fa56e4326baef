//! The command line.

use crate::Outcome;
use crate::datagrams::HEADER;
use std::net::SocketAddr;
use transport::SocketSettings;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// Bytes.
    Stream,
    /// Connections, one byte each way.
    Connect,
    /// Connections that stay open, 64 bytes there and one back.
    Hold,
    /// Datagrams.
    Datagrams,
    /// Messages that come back.
    Echo,
}

/// Which end this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Listens; the receiver of `stream`.
    Server,
    /// Connects; the sender of `stream`.
    Client,
    /// Both, in one process.
    Both,
}

/// What the receiver does with the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verify {
    /// Compares every one.
    Compare,
    /// Copies them out of the kernel.
    Read,
    /// Leaves them there (`MSG_TRUNC`).
    Discard,
}

/// The whole command line.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) job: Job,
    pub(crate) role: Role,
    pub(crate) addr: SocketAddr,
    pub(crate) connections: usize,
    pub(crate) workers: usize,
    /// Worker i runs on the i-th of these, round robin; empty leaves it to the scheduler.
    pub(crate) cores: Vec<usize>,
    /// Bytes per send and receive call; of one datagram.
    pub(crate) buffer: usize,
    /// Datagrams per send and receive call.
    pub(crate) segments: usize,
    /// Sockets of a worker that sends or receives datagrams, in turn.
    pub(crate) sockets: usize,
    /// Bytes of datagrams after which their sender offers its core to others; 0 never.
    pub(crate) pause: usize,
    /// Connections of a worker that may be opened at the same time.
    pub(crate) throttle: usize,
    /// Datagrams per second, of all workers together; as fast as it goes without.
    pub(crate) rate: Option<f64>,
    /// Length of the run, ns.
    pub(crate) length: u64,
    pub(crate) verify: Verify,
    /// Connections end with RST rather than FIN.
    pub(crate) rst: bool,
    /// Messages go over TCP rather than UDP.
    pub(crate) tcp: bool,
    /// Who waits for one does not sleep.
    pub(crate) spin: bool,
    pub(crate) settings: SocketSettings,
}

/// Reads the command line.
pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Outcome<Plan> {
    let job = match words.next().as_deref() {
        Some("stream") => Job::Stream,
        Some("connect") => Job::Connect,
        Some("hold") => Job::Hold,
        Some("datagrams") => Job::Datagrams,
        Some("echo") => Job::Echo,
        _ => {
            return Err(
                "say `bare stream …`, `bare connect …`, `bare hold …`, `bare datagrams …` or `bare echo …` (see the top \
                        of bench/bare/src/main.rs)"
                    .to_owned(),
            );
        }
    };
    let mut plan = Plan {
        job,
        role: Role::Both,
        addr: SocketAddr::from(([127, 0, 0, 1], 7500)),
        connections: 8,
        workers: if job == Job::Echo { 1 } else { 2 },
        cores: Vec::new(),
        buffer: match job {
            Job::Datagrams => 1400,
            Job::Echo => 64,
            Job::Stream | Job::Connect | Job::Hold => 256 << 10,
        },
        segments: 1,
        sockets: 1,
        pause: 0,
        throttle: 1_000,
        rate: None,
        length: 2 * metrics::SECOND,
        verify: if job == Job::Datagrams { Verify::Read } else { Verify::Compare },
        rst: true,
        tcp: true,
        spin: false,
        settings: SocketSettings::default(),
    };
    while let Some(option) = words.next() {
        let value = words.next().ok_or_else(|| format!("{option} wants a value"))?;
        set(&mut plan, &option, &value).ok_or_else(|| format!("{option} {value} is not understood"))?;
    }
    if plan.workers == 0 || plan.connections < plan.workers || plan.buffer == 0 {
        return Err(
            "at least one worker, one connection for each and one byte of buffer are needed".to_owned()
        );
    }
    if job == Job::Datagrams && !(HEADER..=65_507).contains(&plan.buffer) {
        return Err(format!("a datagram has {HEADER} to 65507 bytes"));
    }
    if job == Job::Echo && (plan.workers > 1 || (!plan.tcp && plan.buffer > 65_507)) {
        return Err(
            "messages go one by one between two threads, and a datagram has 65507 bytes at most".to_owned()
        );
    }
    Ok(plan)
}

/// Sets one option; `None` when name or value cannot be.
fn set(plan: &mut Plan, option: &str, value: &str) -> Option<()> {
    match (option, value) {
        ("--role", "server") => plan.role = Role::Server,
        ("--role", "client") => plan.role = Role::Client,
        ("--role", "both") => plan.role = Role::Both,
        ("--addr", _) => plan.addr = value.parse().ok()?,
        ("--connections", _) => plan.connections = value.parse().ok()?,
        ("--workers", _) => plan.workers = value.parse().ok()?,
        ("--cores", _) => {
            plan.cores = value.split(',').map(|core| core.parse().ok()).collect::<Option<_>>()?;
        }
        ("--buffer", _) => plan.buffer = bytes(value)?,
        ("--segments", _) => plan.segments = value.parse().ok().filter(|n| (1..=128).contains(n))?,
        ("--sockets", _) => plan.sockets = value.parse().ok().filter(|n| (1..=10_000).contains(n))?,
        ("--throttle", _) => plan.throttle = value.parse().ok().filter(|n| *n > 0)?,
        ("--pause", _) => plan.pause = bytes(value)?,
        ("--rate", _) => plan.rate = Some(value.parse().ok().filter(|r| (1.0..1e9).contains(r))?),
        ("--seconds", _) => {
            let seconds = value.parse::<f64>().ok().filter(|s| (0.0..1e6).contains(s))?;
            plan.length = (seconds * metrics::SECOND as f64) as u64;
        }
        ("--verify", "compare") => plan.verify = Verify::Compare,
        ("--verify", "read") => plan.verify = Verify::Read,
        ("--verify", "discard") => plan.verify = Verify::Discard,
        ("--close", "rst") => plan.rst = true,
        ("--close", "fin") => plan.rst = false,
        ("--transport", "tcp") => plan.tcp = true,
        ("--transport", "udp") => plan.tcp = false,
        ("--wait", "spin") => plan.spin = true,
        ("--wait", "block") => plan.spin = false,
        ("--congestion", _) => plan.settings.congestion = Some(value.to_owned()),
        ("--nodelay", "on") => plan.settings.nodelay = true,
        ("--nodelay", "off") => plan.settings.nodelay = false,
        ("--sndbuf", _) => plan.settings.sndbuf = Some(bytes(value)?.try_into().ok()?),
        ("--rcvbuf", _) => plan.settings.rcvbuf = Some(bytes(value)?.try_into().ok()?),
        _ => return None,
    }
    Some(())
}

/// `65536`, `64Ki`, `1Mi`.
fn bytes(text: &str) -> Option<usize> {
    let (digits, shift) = match (text.strip_suffix("Ki"), text.strip_suffix("Mi")) {
        (Some(digits), _) => (digits, 10),
        (_, Some(digits)) => (digits, 20),
        _ => (text, 0),
    };
    digits.parse::<usize>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Outcome<Plan> {
        super::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn a_command_line_becomes_a_plan() {
        let plan = parse(
            "stream --role server --addr [::1]:9 --connections 4 --workers 2 --cores 0,1 --buffer 1Mi --seconds 0.5 \
             --verify discard --congestion cubic --nodelay off",
        )
        .unwrap();
        assert_eq!((plan.job, plan.role, plan.verify), (Job::Stream, Role::Server, Verify::Discard));
        assert_eq!((plan.connections, plan.workers, plan.buffer), (4, 2, 1 << 20));
        assert_eq!((plan.cores, plan.length), (vec![0, 1], metrics::SECOND / 2));
        assert_eq!((plan.settings.congestion.as_deref(), plan.settings.nodelay), (Some("cubic"), false));
    }

    #[test]
    fn datagrams_have_sizes_of_their_own() {
        let plan = parse("datagrams --segments 46 --rate 1e6 --connections 2").unwrap();
        assert_eq!((plan.job, plan.buffer, plan.segments, plan.rate), (Job::Datagrams, 1400, 46, Some(1e6)));
        assert!(parse("datagrams --buffer 15").is_err());
        assert!(parse("datagrams --segments 0").is_err());
    }

    #[test]
    fn messages_are_short_and_go_either_way() {
        let plan = parse("echo --transport udp --wait spin").unwrap();
        assert_eq!(
            (plan.job, plan.buffer, plan.workers, plan.tcp, plan.spin),
            (Job::Echo, 64, 1, false, true)
        );
        assert!(parse("echo --transport udp --buffer 65508").is_err());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for line in
            ["", "listen", "stream --role", "stream --role x", "stream --workers 0", "connect --buffer 1Ti"]
        {
            assert!(parse(line).is_err(), "{line}");
        }
        assert!(parse("stream --connections 1 --workers 2").is_err());
        assert!(parse("echo --workers 2").is_err());
    }
}
