//! The command lines: `key=value`, bare letters and `/words`, in any order and in upper or lower
//! case.

use compat::options::{Opt, Request, Stop, Value, find, request, stop, whole};
use metrics::SECOND;
use model::{Address, Kind, Phase, Ping, Range, SocketSettings, Transport};
use std::fmt::Display;
use std::net::IpAddr;
use std::str::FromStr;

/// A client's command line, understood.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Client {
    /// The server (`i=`).
    pub(crate) address: Option<Address>,
    /// Scope of a link-local address, a number or an interface's name (`o=`).
    pub(crate) scope: Option<String>,
    /// Its port (`p=`).
    pub(crate) port: u16,
    /// The client's own address (`a=`).
    pub(crate) local: Option<Address>,
    /// True if the first 500 messages count in the results (`b=`).
    pub(crate) include_first: bool,
    /// Connections, one after the other (`c=`).
    pub(crate) loops: u64,
    /// True if rates are printed with three decimals (`g=0`).
    pub(crate) fine: bool,
    /// True if the server is asked to end afterwards (`k`).
    pub(crate) kill: bool,
    /// At which port (`k=`).
    pub(crate) kill_port: Option<u16>,
    /// Messages of a connection (`m=`).
    pub(crate) messages: u64,
    /// True if Nagle's algorithm is on (`n=`).
    pub(crate) nagle: bool,
    /// Messages per progress line (`r=`).
    pub(crate) every: u64,
    /// Bytes of a message (`s=`).
    pub(crate) size: u32,
    /// Most bytes of one send (`e=`).
    pub(crate) chunk: Option<u32>,
    /// Nothing is printed after the start (`/silent`).
    pub(crate) silent: bool,
    /// Longest wait for an echo over UDP, ms (`t=`).
    pub(crate) timeout_ms: u64,
    /// Datagrams (`/udp`).
    pub(crate) udp: bool,
    /// Send and receive buffer, bytes (`w=`).
    pub(crate) window: Option<u64>,
    /// Rates by the original's arithmetic (`--as-original`).
    pub(crate) as_original: bool,
}

/// A server's command line, understood.
#[derive(Clone, Debug, PartialEq, Default)]
pub(crate) struct Server {
    /// Address to listen at (`i=`); the family of `f=` without.
    pub(crate) address: Option<Address>,
    /// IPv4 only (`f=v4`).
    pub(crate) v4: bool,
    /// True if Nagle's algorithm is on (`n=`).
    pub(crate) nagle: bool,
    /// Its port (`p=`).
    pub(crate) port: u16,
    /// Datagrams, too (`/udp`).
    pub(crate) udp: bool,
    /// One thread (`/s`).
    pub(crate) single: bool,
    /// Port on this host at which it is asked to end (`k=`); the one after its own without.
    pub(crate) kill_port: Option<u16>,
    /// Arguments that have no effect here, each with the reason.
    pub(crate) ignored: Vec<String>,
}

pub(super) const PORT: u16 = 9999;

/// The name of an argument, as it was given.
fn name_of(given: &str) -> String {
    given.split('=').next().unwrap_or_default().trim_start_matches(['/', '-']).to_ascii_lowercase()
}

fn number<T: FromStr + PartialOrd + Display>(value: &Value<'_>, low: T, high: T) -> Result<T, String> {
    whole(value.name, &name_of(value.name), value.text(), low, high)
}

fn flag(value: &Value<'_>) -> Result<bool, String> {
    let wrong = || format!("'{}': {} takes 0 or 1", value.name, name_of(value.name));
    ["0", "1"].iter().position(|known| *known == value.text()).map(|n| n == 1).ok_or_else(wrong)
}

fn address(value: &Value<'_>) -> Result<Address, String> {
    common::original::address(&name_of(value.name), value.text())
}

/// Reads arguments in any order; `bare` lists names without a value, and `valued` names with one.
fn read<T>(
    arguments: &[String],
    options: &'static [Opt<T>],
    (bare, valued): (&str, &str),
    program: &str,
    mut state: T,
) -> Result<T, Stop> {
    if arguments.iter().any(|text| matches!(text.as_str(), "/?" | "-?" | "?" | "--help" | "-h")) {
        return Err(Stop::Help);
    }
    for given in arguments {
        let (name, text) = (name_of(given), given.split_once('=').map_or("", |(_, value)| value));
        let wrong = if text.is_empty() { valued } else { bare };
        let option = find(options, &name).filter(|_| !wrong.split(' ').any(|known| known == name));
        let option = option.ok_or_else(|| format!("'{given}' is not an argument of {program}"))?;
        (option.set)(&mut state, &Value { name: given, text: Some(text) })?;
    }
    Ok(state)
}

const CLIENT: &[Opt<Client>] = ::compat::options! { Client:
    "i" Value |c, v| c.address = Some(address(v)?);
    "a" Value |c, v| c.local = Some(address(v)?);
    "b" Value |c, v| c.include_first = flag(v)?;
    "c" Value |c, v| c.loops = number(v, 1, 1 << 32)?;
    "g" Value |c, v| c.fine = !flag(v)?;
    "k" Maybe |c, v| {
        c.kill = true;
        if !v.text().is_empty() {
            c.kill_port = Some(number(v, 1, 65_535)?);
        }
    };
    "m" Value |c, v| c.messages = number(v, 1, 1 << 48)?;
    "n" Value |c, v| c.nagle = flag(v)?;
    "o" Value |c, v| c.scope = Some(v.owned());
    "p" Value |c, v| c.port = number(v, 1, 65_535)?;
    "r" Value |c, v| c.every = number(v, 1, 1 << 48)?;
    "s" Value |c, v| c.size = number(v, 1, 16 << 20)?;
    "e" Value |c, v| c.chunk = Some(number(v, 1, 16 << 20)?);
    "silent" Flag |c, _| c.silent = true;
    "t" Value |c, v| c.timeout_ms = number(v, 1, 600_000)?;
    "udp" Flag |c, _| c.udp = true;
    "w" Value |c, v| c.window = Some(number(v, 1, 1 << 31)?);
    "as-original" Flag |c, _| c.as_original = true;
};

/// Reads a client's arguments.
///
/// # Errors
/// One sentence that names what cannot be, and what could.
pub(crate) fn read_client(arguments: &[String]) -> Result<Request<Client>, String> {
    let read = read(arguments, CLIENT, ("", "o"), "RtTcpipClient", Client::new());
    request(read.and_then(|client| {
        if client.address.is_none() {
            return Err("the server's address is missing: i=192.0.2.1".into());
        }
        client.phase().check()?;
        Ok(client)
    }))
}

impl Client {
    /// The defaults.
    pub(crate) fn new() -> Self {
        let (port, loops, messages) = (PORT, 1, 10_000);
        Client { port, loops, messages, every: 500, size: 1024, timeout_ms: 1000, ..Client::default() }
    }

    /// The server; that of a run that had no connection is not known.
    pub(crate) fn server(&self) -> IpAddr {
        self.address.as_ref().map_or(IpAddr::from([0, 0, 0, 0]), |at| at.ip)
    }

    pub(crate) fn phase(&self) -> Phase {
        let ping = Ping {
            transport: if self.udp { Transport::Udp } else { Transport::Tcp },
            size: self.size,
            messages: Some(self.messages),
            chunk: self.chunk,
            timeout_ns: self.timeout_ms * (SECOND / 1000),
            samples: true,
            ..Ping::default()
        };
        Phase {
            kind: Kind::Ping,
            ping: Some(ping),
            buffer: Range::just(u64::from(self.size).clamp(4096, 1 << 20)),
            connections: 1,
            iterations: Some(self.loops),
            duration_ns: None,
            sockets: sockets(self.nagle, self.window),
            ..Phase::default()
        }
    }
}

fn sockets(nagle: bool, window: Option<u64>) -> SocketSettings {
    SocketSettings { nodelay: !nagle, sndbuf: window, rcvbuf: window, ..SocketSettings::default() }
}

const SERVER: &[Opt<Server>] = ::compat::options! { Server:
    "i" Value |s, v| s.address = Some(address(v)?);
    "f" Value |s, v| match v.text() {
        "v4" | "V4" => s.v4 = true,
        "v6" | "V6" => s.v4 = false,
        _ => stop(format!("'{}' is not an argument of RtTcpipServer", v.name))?,
    };
    "n" Value |s, v| s.nagle = flag(v)?;
    "p" Value |s, v| s.port = number(v, 0, 65_535)?;
    "k" Value |s, v| s.kill_port = Some(number(v, 0, 65_535)?);
    "udp" Flag |s, _| s.udp = true;
    "s" Flag |s, _| s.single = true;
    "l" Value |s, v| if !flag(v)? { s.ignored.push(format!("{} (echoes are as long as what came)", v.name)) };
    "m" Flag |s, v| s.ignored.push(format!("{} (there is no multicast here)", v.name));
};

/// Reads a server's arguments.
///
/// # Errors
/// One sentence that names what cannot be, and what could.
pub(crate) fn read_server(arguments: &[String]) -> Result<Request<Server>, String> {
    request(read(arguments, SERVER, ("s m", ""), "RtTcpipServer", Server { port: PORT, ..Server::default() }))
}

impl Server {
    /// The settings of the server.
    pub(crate) fn phase(&self) -> Phase {
        let transport = if self.udp { Transport::Udp } else { Transport::Tcp };
        Phase {
            kind: Kind::Ping,
            ping: Some(Ping { transport, ..Ping::default() }),
            buffer: Range::just(64 * 1024),
            duration_ns: None,
            sockets: sockets(self.nagle, None),
            ..Phase::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn client(text: &str) -> Client {
        match read_client(&words(text)) {
            Ok(Request::Run(client)) => client,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_original() {
        let c = client("i=10.0.0.1");
        assert_eq!(
            (c.port, c.loops, c.messages, c.every, c.size, c.timeout_ms),
            (9999, 1, 10_000, 500, 1024, 1000)
        );
        assert_eq!(
            (c.include_first, c.nagle, c.udp, c.silent, c.kill, c.fine),
            (false, false, false, false, false, false)
        );
        assert_eq!((c.chunk, c.window, c.local.clone()), (None, None, None));
        let phase = c.phase();
        assert!(phase.sockets.nodelay, "n=0 disables Nagle's algorithm");
        assert_eq!(phase.ping.unwrap().messages, Some(10_000));
    }

    #[test]
    fn every_argument_is_understood() {
        let c = client(
            "a=10.0.0.9 b=1 c=3 g=0 I=fe80::1 o=2 k m=7 n=1 p=77 r=5 S=64 e=10 /silent t=250 /UDP w=65536 --as-original",
        );
        assert_eq!(c.local, Address::parse("10.0.0.9"));
        let scoped = client("i=fe80::1%eth0 a=[fe80::2%3]");
        assert_eq!(scoped.address.map(|at| at.to_string()).as_deref(), Some("fe80::1%eth0"));
        assert_eq!(scoped.local.map(|at| at.to_string()).as_deref(), Some("fe80::2%3"));
        assert_eq!(
            (c.include_first, c.loops, c.fine, c.kill, c.messages, c.nagle),
            (true, 3, true, true, 7, true)
        );
        assert_eq!(
            (c.port, c.every, c.size, c.chunk, c.silent, c.timeout_ms),
            (77, 5, 64, Some(10), true, 250)
        );
        assert_eq!(
            (c.udp, c.window, c.as_original, c.scope.as_deref()),
            (true, Some(65_536), true, Some("2"))
        );
        let phase = c.phase();
        assert_eq!(phase.iterations, Some(3));
        assert_eq!(
            (phase.sockets.sndbuf, phase.sockets.rcvbuf, phase.sockets.nodelay),
            (Some(65_536), Some(65_536), false)
        );
        assert_eq!((client("i=::1 k=77").kill, client("i=::1 k=77").kill_port), (true, Some(77)));
        let Ok(Request::Run(s)) = read_server(&words("i=0.0.0.0 f=v4 n=1 p=9 k=8 /udp /s l=0 /m")) else {
            panic!()
        };
        assert_eq!((s.nagle, s.port, s.udp, s.single, s.ignored.len()), (true, 9, true, true, 2));
        assert_eq!(s.kill_port, Some(8));
    }

    #[test]
    fn what_cannot_be_is_told_in_a_sentence() {
        for (bad, why) in [
            ("", "i=192.0.2.1"),
            ("i=somewhere", "takes an address"),
            ("i=1.2.3.4 s=0", "from 1 to"),
            ("i=1.2.3.4 b=2", "0 or 1"),
            ("i=1.2.3.4 x=1", "'x=1' is not an argument"),
            ("i=1.2.3.4 k=0", "from 1 to 65535"),
            ("i=1.2.3.4 /udp s=70000", "65507"),
            ("i=1.2.3.4 m=many", "whole number"),
        ] {
            let told = read_client(&words(bad)).unwrap_err();
            assert!(told.contains(why), "{bad}: {told}");
        }
        assert!(read_server(&words("q")).is_err());
        assert_eq!(read_client(&words("/?")), Ok(Request::Help));
    }
}
