//! Originals: programs whose command line, printout and files stand in the crates of their
//! protocols, and their needs of this program.

use crate::host::HostInfo;
use crate::{ClientConfig, Peer, Protocol, ServerConfig};
use compat::NamedFile;
use ipnet::IpNet;
use model::{Address, Begin, Builder, Event, Level, Outcome, Phase, Status};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use transport::Interrupt;

/// A program whose command line and printout this one has.
#[derive(Debug)]
pub struct Original {
    /// Its subcommand, and its name for `report --as`.
    pub name: &'static str,
    /// A description, for the help.
    pub about: &'static str,
    /// Runs it with these arguments, to its exit code.
    pub run: fn(&[String], &Driver) -> u8,
    /// A saved run as it would have printed it.
    ///
    /// # Errors
    /// Why it could not have printed this one.
    pub print: fn(&Outcome, &[Event]) -> Result<String, String>,
    /// A reader of its tables, where several together show more than each.
    pub tables: Option<Tables>,
}

/// Tables of an original that are reported on together.
#[derive(Debug)]
pub struct Tables {
    /// True if a file is one of them.
    pub known: fn(&[u8]) -> bool,
    /// A report on them.
    ///
    /// # Errors
    /// Why there is none.
    pub report: fn(&[NamedFile]) -> Result<String, String>,
}

/// Why an original has no run, in one sentence.
#[derive(Debug)]
pub enum Refusal {
    /// Its command line or its settings cannot be.
    Usage(String),
    /// Something failed.
    Failed(String),
    /// A request to end arrived before the run had begun.
    Interrupted(String),
}

/// The exit code of an original that a signal ends before its run has begun.
const INTERRUPTED: u8 = 130;

impl Refusal {
    /// The same refusal, its sentence changed.
    #[must_use]
    pub fn map(self, change: impl FnOnce(String) -> String) -> Refusal {
        match self {
            Refusal::Usage(text) => Refusal::Usage(change(text)),
            Refusal::Failed(text) => Refusal::Failed(change(text)),
            Refusal::Interrupted(text) => Refusal::Interrupted(text),
        }
    }

    /// A refusal as one of the command line.
    #[must_use]
    pub fn as_usage(self) -> Refusal {
        match self {
            Refusal::Failed(text) => Refusal::Usage(text),
            other => other,
        }
    }

    /// A refusal as a failure.
    #[must_use]
    pub fn as_failure(self) -> Refusal {
        match self {
            Refusal::Usage(text) => Refusal::Failed(text),
            other => other,
        }
    }
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Refusal::Failed(text)
    }
}

/// Takes in what happens in a run.
pub type OnEvent<'a> = &'a mut dyn FnMut(&Event);

/// The addresses of a target (`name`, `name:port`) with this port, of IPv4 or of IPv6 where one of
/// the two is wanted.
pub type Resolve = fn(&str, u16, bool, bool) -> Result<Vec<Peer>, Refusal>;

/// Runs a client to its end.
pub type RunClient = fn(&ClientConfig, &Phase, &Interrupt, OnEvent<'_>) -> Result<(), Refusal>;

/// Runs a server to its end.
pub type RunServer = Box<dyn FnOnce(&Interrupt, OnEvent<'_>) -> Result<(), Refusal> + Send>;

/// Writes all of a file, which is not there before.
pub type Fill = Box<dyn FnOnce(&str) -> io::Result<()>>;

/// Puts events into the file of a run, which is whole with [`Event::End`]. The first failure of the
/// file is an error with the cause.
pub type Save = Box<dyn FnMut(&Event) -> Result<(), String>>;

/// An original's needs of this program and its host.
///
/// Wide: all that an original asks of the process in which it runs.
pub struct Driver {
    /// The whole command line, for the records.
    pub command: Vec<String>,
    /// Version of this program.
    pub version: &'static str,
    /// The host.
    pub host: &'static dyn HostInfo,
    /// The protocol in which servers of this program can be asked to end
    /// ([`StopServers`](crate::config::StopServers)).
    pub own_protocol: &'static dyn Protocol,
    /// Interfaces and addresses of the host.
    pub local_addresses: fn() -> Vec<(String, IpAddr)>,
    /// True if an address is one of this host.
    pub is_ours: fn(IpAddr) -> bool,
    /// Limits of open files, in force and at most, where the system has any.
    pub open_files: fn() -> Option<(u64, u64)>,
    /// Looks a target up.
    pub resolve: Resolve,
    /// Networks that may be sent to without a proof of address: the given ones and the ones in the
    /// user's environment.
    pub open_to: fn(&[String]) -> Result<Vec<IpNet>, Refusal>,
    /// Prints a text for the user on stderr.
    pub say: fn(&dyn fmt::Display),
    /// Stdout. When stdout is closed, stderr gets one message; the run goes on for the other end's
    /// sake.
    pub stdout: fn() -> Box<dyn Write>,
    /// A line that a peer wrote, as it may be shown: without control characters, and broken where
    /// the terminal of stdout ends, if it goes there.
    pub quoted: fn(&str, bool) -> String,
    /// Asks for a line that is not shown while it is typed.
    pub read_hidden: fn(&str) -> io::Result<String>,
    /// The interrupt that signals set.
    pub on_signals: fn() -> Result<Interrupt, Refusal>,
    /// Asks for the end when a key is pressed, as long as the result lives; `None` without a
    /// terminal.
    pub on_any_key: fn(&Interrupt) -> Option<Box<dyn Send>>,
    /// Goes on in the background.
    pub to_background: fn() -> io::Result<()>,
    /// Waits.
    pub sleep: fn(Duration),
    /// Refuses a run that a client cannot have.
    pub check: fn(&ClientConfig, &Phase) -> Result<(), Refusal>,
    /// The beginning of a client's run, which has a verb and a command line.
    pub begin: fn(&ClientConfig, &str, Vec<String>, &Phase) -> Begin,
    /// Runs a client.
    pub run: RunClient,
    /// Takes the ports of a server, which has a command line.
    pub bind: fn(ServerConfig, Vec<String>) -> Result<Bound, Refusal>,
    /// A file that takes its name when it is whole.
    pub create: fn(&Path) -> io::Result<Fill>,
    /// The file in which a run is saved; a server's is written in its place.
    pub save: fn(&Path, bool) -> Result<Save, Refusal>,
    /// Puts a run into the store; `None` where there is none.
    pub keep: Option<fn(&Outcome)>,
}

/// A server that has its ports.
pub struct Bound {
    /// Addresses to listen at.
    pub addresses: Vec<SocketAddr>,
    /// The beginning of its run.
    pub begin: Begin,
    /// Runs it.
    pub run: RunServer,
}

/// The address that the value `text` of the option `name` is, with the interface of a link-local
/// one (`fe80::1%eth0`).
///
/// # Errors
/// One sentence that names the option and an example.
pub fn address(name: &str, text: &str) -> Result<Address, String> {
    let found = Address::parse(text).filter(|at| at.port.is_none());
    found.ok_or_else(|| format!("'{text}': {name} takes an address such as 192.0.2.1 or fe80::1%eth0"))
}

/// Why most options without an effect have none.
pub const NO_EFFECT: &str = ", because it has no effect here";

impl Driver {
    /// A socket's place at a written address, with the number of its interface. A link-local
    /// address without an interface is refused with the names of this host's.
    ///
    /// # Errors
    /// One sentence about the address.
    pub fn place(&self, at: &Address, port: u16) -> Result<SocketAddr, Refusal> {
        let found = (self.resolve)(&at.to_string(), port, false, false).map_err(Refusal::as_usage)?;
        Ok(found.first().map_or(SocketAddr::new(at.ip, port), |peer| peer.address))
    }

    /// The same of a client's own address, whose interface may be that of the server.
    ///
    /// # Errors
    /// One sentence about the address.
    pub fn source(&self, at: &Address) -> Result<SocketAddr, Refusal> {
        if at.zone.is_none() { Ok(SocketAddr::new(at.ip, 0)) } else { self.place(at, 0) }
    }

    /// A client of this protocol, with the common settings of all originals.
    pub fn client(&self, protocol: &'static dyn Protocol) -> ClientConfig {
        let mut run = [0; 16];
        self.host.random()(&mut run);
        ClientConfig {
            run: uuid::Builder::from_random_bytes(run).into_uuid(),
            version: self.version.to_owned(),
            records: true,
            ..ClientConfig::new(protocol)
        }
    }

    /// A server of this protocol, with the common settings of all originals.
    ///
    /// # Errors
    /// When the user's environment has an invalid network.
    pub fn server(&self, protocol: &'static dyn Protocol, phase: Phase) -> Result<ServerConfig, Refusal> {
        let (open_to, version) = ((self.open_to)(&[])?, self.version.to_owned());
        Ok(ServerConfig { open_to, version, ..ServerConfig::legacy(protocol, phase) })
    }

    /// The first address of a host.
    pub fn first(&self, host: &str, port: u16, v4: bool, v6: bool) -> Result<Vec<Peer>, Refusal> {
        let mut peers = (self.resolve)(host, port, v4, v6)?;
        peers.truncate(1);
        Ok(peers)
    }

    /// Prints a text for the user on stderr.
    pub fn say(&self, text: impl fmt::Display) {
        (self.say)(&text);
    }

    /// Prints a part of the result, at once. With a closed stdout the run goes on, for its files
    /// and its exit code.
    pub fn print(&self, text: &str) {
        if !text.is_empty() {
            let mut out = (self.stdout)();
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
    }

    /// Prints a text that was asked for; the rest of it is not missed when the reader of stdout has
    /// closed it.
    pub fn page(&self, text: &str, code: u8) -> Result<u8, Refusal> {
        let _ = io::stdout().write_all(text.as_bytes());
        Ok(code)
    }

    /// Warns of options without an effect.
    pub fn warn(&self, name: &str, why: &str, ignored: &[String]) {
        if !ignored.is_empty() {
            self.say(format_args!("{name}: warning: ignored{why}: {}", ignored.join(", ")));
        }
    }

    /// The exit code of an original that is called `name`; a refusal is printed on stderr.
    pub fn ended(&self, name: &str, codes: ExitCodes, how: Result<u8, Refusal>) -> u8 {
        let (text, code) = match how {
            Ok(code) => return code,
            Err(Refusal::Usage(text)) => (text, codes.usage),
            Err(Refusal::Failed(text)) => (text, codes.failed),
            Err(Refusal::Interrupted(text)) => (text, INTERRUPTED),
        };
        self.say(format_args!("{name}: {text}"));
        code
    }

    /// Checks the settings, emits the events at the start of a run (`verb` is the question that the
    /// documents of the run name), and runs the client until its end.
    pub fn call(
        &self,
        config: &ClientConfig,
        phase: &Phase,
        interrupt: &Interrupt,
        verb: &str,
        on_event: OnEvent<'_>,
    ) -> Result<(), Refusal> {
        (self.check)(config, phase)?;
        begin((self.begin)(config, verb, self.command.clone(), phase), phase, on_event);
        (self.run)(config, phase, interrupt, on_event)
    }

    /// Takes a server's ports.
    pub fn bind(&self, config: ServerConfig) -> Result<Bound, Refusal> {
        (self.bind)(config, self.command.clone())
    }
}

impl Bound {
    /// The first port that it has.
    pub fn port(&self) -> Option<u16> {
        self.addresses.first().map(SocketAddr::port)
    }

    /// Runs it to its end, with the events that begin a run.
    pub fn serve(self, phase: &Phase, interrupt: &Interrupt, on_event: OnEvent<'_>) -> Result<(), Refusal> {
        begin(self.begin, phase, on_event);
        (self.run)(interrupt, on_event)
    }
}

fn begin(begin: Begin, phase: &Phase, on_event: OnEvent<'_>) {
    on_event(&Event::Begin(Box::new(begin)));
    on_event(&Event::Phase { label: BTreeMap::new(), repeat: 1, phase: Box::new(phase.clone()) });
}

/// The exit codes of an original: for a command line that cannot be, and for what failed.
#[derive(Clone, Copy, Debug)]
pub struct ExitCodes {
    /// For a command line that cannot be.
    pub usage: u8,
    /// For what failed.
    pub failed: u8,
}

/// A run of an original's client or server: prints warnings and the ending, and saves the run.
pub struct Run<'a> {
    driver: &'a Driver,
    prefix: String,
    /// The builder of the store's outcome; `None` without a store.
    builder: Option<Builder>,
    file: Option<Save>,
    /// Its status at the end.
    pub status: Status,
    /// Why.
    pub reason: Option<String>,
}

impl Run<'_> {
    /// A run whose warnings begin with `prefix`; they are not printed where it is empty.
    pub fn new(driver: &Driver, prefix: impl Into<String>) -> Run<'_> {
        let (prefix, builder) = (prefix.into(), driver.keep.map(|_| Builder::default()));
        Run { driver, prefix, builder, file: None, status: Status::Failed, reason: None }
    }

    /// The same, saved in this file, if any; a server's is written in its place.
    pub fn saved(self, path: Option<&PathBuf>, serves: bool) -> Result<Self, Refusal> {
        let file = path.map(|path| (self.driver.save)(path, serves)).transpose()?;
        Ok(Run { file, ..self })
    }

    /// Puts an event into the file of the run; a failure is reported once, and the run goes on.
    pub fn save(&mut self, event: &Event) {
        if let Some(Err(text)) = self.file.as_mut().map(|save| save(event)) {
            self.driver.say(format_args!("{} {text}", self.prefix));
        }
    }

    fn say(&self, text: &str) {
        let gap = if self.prefix.is_empty() { "" } else { " " };
        self.driver.say(format_args!("{}{gap}{text}", self.prefix));
    }

    /// Takes an event in. Each original that prints losses so reports the part that this host
    /// dropped.
    pub fn on_event(&mut self, event: &Event) {
        match event {
            Event::PhaseEnd { status, reason } => (self.status, self.reason) = (*status, reason.clone()),
            Event::Notice { level: Level::Warning | Level::Error, text } if !self.prefix.is_empty() => {
                self.driver.say(format_args!("{} {text}", self.prefix));
            }
            Event::Local(totals) => {
                let here = totals.drops_here();
                here.iter().for_each(|text| self.say(text));
            }
            // The store has how the run ended once it is printed.
            Event::End { .. } => return,
            _ => {}
        }
        if let Some(builder) = &mut self.builder {
            builder.absorb(event);
        }
    }

    /// The run is over and printed.
    pub fn finish(self) {
        if let (Some(mut builder), Some(keep)) = (self.builder, self.driver.keep) {
            builder.absorb(&Event::End { status: self.status, reason: self.reason });
            keep(&builder.outcome());
        }
    }
}
