//! The command lines: `key=value`, bare letters and `/words`, in any order and in upper or lower case.

use metrics::SECOND;
use model::{Kind, Phase, Ping, Range, SocketSettings, Transport};
use std::net::IpAddr;

/// What a command line asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked<T> {
    /// The usage.
    Help,
    /// A run.
    Run(T),
}

/// A client's command line, understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    /// The server (`i=`).
    pub address: IpAddr,
    /// Scope of a link-local address, a number or an interface's name (`o=`).
    pub scope: Option<String>,
    /// Its port (`p=`).
    pub port: u16,
    /// Where the client's socket is bound (`a=`).
    pub local: Option<IpAddr>,
    /// Whether the first 500 messages count in the results (`b=`).
    pub include_first: bool,
    /// Connections, one after the other (`c=`).
    pub loops: u64,
    /// Whether rates are printed with three decimals (`g=0`).
    pub fine: bool,
    /// Whether the server is asked to end afterwards (`k`).
    pub kill: bool,
    /// At which port (`k=`).
    pub kill_port: Option<u16>,
    /// Messages of a connection (`m=`).
    pub messages: u64,
    /// Whether Nagle's algorithm is on (`n=`).
    pub nagle: bool,
    /// A progress line after so many messages (`r=`).
    pub every: u64,
    /// Bytes of a message (`s=`).
    pub size: u32,
    /// Most bytes of one send (`e=`).
    pub chunk: Option<u32>,
    /// Nothing is printed after the start (`/silent`).
    pub silent: bool,
    /// How long an echo is waited for over UDP, ms (`t=`).
    pub timeout_ms: u64,
    /// Datagrams (`/udp`).
    pub udp: bool,
    /// Send and receive buffer, bytes (`w=`).
    pub window: Option<u64>,
    /// Rates by the original's arithmetic (`--as-original`).
    pub as_original: bool,
}

/// A server's command line, understood.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Server {
    /// Where it listens (`i=`); the family of `f=` without.
    pub address: Option<IpAddr>,
    /// IPv6 (`f=v6`).
    pub v6: bool,
    /// Whether Nagle's algorithm is on (`n=`).
    pub nagle: bool,
    /// Its port (`p=`).
    pub port: u16,
    /// Datagrams, too (`/udp`).
    pub udp: bool,
    /// One thread (`/s`).
    pub single: bool,
    /// Port on this host at which it is asked to end (`k=`); the one after its own without.
    pub kill_port: Option<u16>,
    /// Arguments that have no effect here, each with the reason.
    pub ignored: Vec<String>,
}

/// The port of either.
const PORT: u16 = 9999;

/// One argument, apart.
struct Word<'a> {
    text: &'a str,
    name: String,
    value: &'a str,
}

impl<'a> Word<'a> {
    fn of(text: &'a str) -> Word<'a> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let name = name.trim_start_matches(['/', '-']).to_ascii_lowercase();
        Word { text, name, value }
    }

    fn number(&self, low: u64, high: u64) -> Result<u64, String> {
        let n = self.value.parse().ok().filter(|n| (low..=high).contains(n));
        n.ok_or_else(|| format!("'{}': {} takes a whole number from {low} to {high}", self.text, self.name))
    }

    fn flag(&self) -> Result<bool, String> {
        match self.value {
            "0" => Ok(false),
            "1" => Ok(true),
            _ => Err(format!("'{}': {} takes 0 or 1", self.text, self.name)),
        }
    }

    fn address(&self) -> Result<IpAddr, String> {
        let parsed = self.value.trim_start_matches('[').trim_end_matches(']').parse();
        parsed.map_err(|_| format!("'{}': {} takes an address such as 192.0.2.1", self.text, self.name))
    }
}

fn asks_help(arguments: &[String]) -> bool {
    arguments.iter().any(|text| matches!(text.as_str(), "/?" | "-?" | "?" | "--help" | "-h"))
}

impl Default for Client {
    fn default() -> Self {
        Client {
            address: IpAddr::from([0, 0, 0, 0]),
            scope: None,
            port: PORT,
            local: None,
            include_first: false,
            loops: 1,
            fine: false,
            kill: false,
            kill_port: None,
            messages: 10_000,
            nagle: false,
            every: 500,
            size: 1024,
            chunk: None,
            silent: false,
            timeout_ms: 1000,
            udp: false,
            window: None,
            as_original: false,
        }
    }
}

/// Reads a client's arguments.
///
/// # Errors
/// One sentence that names what cannot be, and what could.
pub fn read_client(arguments: &[String]) -> Result<Asked<Client>, String> {
    if asks_help(arguments) {
        return Ok(Asked::Help);
    }
    let (mut client, mut address) = (Client::default(), None);
    for text in arguments {
        let word = Word::of(text);
        match word.name.as_str() {
            "i" => address = Some(word.address()?),
            "a" => client.local = Some(word.address()?),
            "b" => client.include_first = word.flag()?,
            "c" => client.loops = word.number(1, 1 << 32)?,
            "g" => client.fine = !word.flag()?,
            "k" if word.value.is_empty() => client.kill = true,
            "k" => (client.kill, client.kill_port) = (true, Some(word.number(1, 65_535)? as u16)),
            "m" => client.messages = word.number(1, 1 << 48)?,
            "n" => client.nagle = word.flag()?,
            "o" if !word.value.is_empty() => client.scope = Some(word.value.to_owned()),
            "p" => client.port = word.number(1, 65_535)? as u16,
            "r" => client.every = word.number(1, 1 << 48)?,
            "s" => client.size = word.number(1, 16 << 20)? as u32,
            "e" => client.chunk = Some(word.number(1, 16 << 20)? as u32),
            "silent" => client.silent = true,
            "t" => client.timeout_ms = word.number(1, 600_000)?,
            "udp" => client.udp = true,
            "w" => client.window = Some(word.number(1, 1 << 31)?),
            "as-original" => client.as_original = true,
            _ => return Err(format!("'{text}' is not an argument of RtTcpipClient")),
        }
    }
    client.address = address.ok_or("the server's address is missing: i=192.0.2.1")?;
    client.phase().check()?;
    Ok(Asked::Run(client))
}

impl Client {
    /// The test itself.
    #[must_use]
    pub fn phase(&self) -> Phase {
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

/// Reads a server's arguments.
///
/// # Errors
/// One sentence that names what cannot be, and what could.
pub fn read_server(arguments: &[String]) -> Result<Asked<Server>, String> {
    if asks_help(arguments) {
        return Ok(Asked::Help);
    }
    let mut server = Server { port: PORT, ..Server::default() };
    for text in arguments {
        let word = Word::of(text);
        match (word.name.as_str(), word.value) {
            ("i", _) => server.address = Some(word.address()?),
            ("f", "v4" | "V4") => server.v6 = false,
            ("f", "v6" | "V6") => server.v6 = true,
            ("n", _) => server.nagle = word.flag()?,
            ("p", _) => server.port = word.number(0, 65_535)? as u16,
            ("k", _) => server.kill_port = Some(word.number(0, 65_535)? as u16),
            ("udp", _) => server.udp = true,
            ("s", "") => server.single = true,
            ("l", _) if word.flag()? => {}
            ("l", _) => server.ignored.push(format!("{text} (echoes are as long as what came)")),
            ("m", "") => server.ignored.push(format!("{text} (there is no multicast here)")),
            _ => return Err(format!("'{text}' is not an argument of RtTcpipServer")),
        }
    }
    Ok(Asked::Run(server))
}

impl Server {
    /// What it is to be.
    #[must_use]
    pub fn phase(&self) -> Phase {
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
            Ok(Asked::Run(client)) => client,
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
        assert_eq!((c.chunk, c.window, c.local), (None, None, None));
        let phase = c.phase();
        assert!(phase.sockets.nodelay, "n=0 disables Nagle's algorithm");
        assert_eq!(phase.ping.unwrap().messages, Some(10_000));
    }

    #[test]
    fn every_argument_is_understood() {
        let c = client(
            "a=10.0.0.9 b=1 c=3 g=0 I=fe80::1 o=2 k m=7 n=1 p=77 r=5 S=64 e=10 /silent t=250 /UDP w=65536 --as-original",
        );
        assert_eq!(c.local, Some("10.0.0.9".parse().unwrap()));
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
        let Ok(Asked::Run(s)) = read_server(&words("i=0.0.0.0 f=v4 n=1 p=9 k=8 /udp /s l=0 /m")) else {
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
        assert_eq!(read_client(&words("/?")), Ok(Asked::Help));
    }
}
