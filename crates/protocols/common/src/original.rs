//! Originals: programs whose command line, printout and files stand in the crates of their protocols, and what these need of the program
//! that they are part of.

use crate::host::HostInfo;
use crate::{ClientConfig, Peer, Protocol, ServerConfig};
use compat::NamedFile;
use ipnet::IpNet;
use model::{Begin, Event, Level, Outcome, Phase, Status};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use transport::Interrupt;

/// A program whose command line and printout this one has.
#[derive(Debug)]
pub struct Original {
    /// Its subcommand, and its name for `report --as`.
    pub name: &'static str,
    /// What it is, for the help.
    pub about: &'static str,
    /// Runs it with these arguments, to its exit code.
    pub run: fn(&[String], &dyn Driver) -> u8,
    /// Prints a saved run as it would have printed it.
    pub print: fn(&Outcome, &[Event], &mut dyn Write) -> io::Result<()>,
    /// Its tables, where several together tell more than each.
    pub tables: Option<Tables>,
}

/// Tables of an original that are reported on together.
#[derive(Debug)]
pub struct Tables {
    /// Whether a file is one of them.
    pub known: fn(&[u8]) -> bool,
    /// Reports on them.
    pub report: fn(&[NamedFile], &mut dyn Write) -> io::Result<()>,
}

/// Why an original has no run, in one sentence.
#[derive(Debug)]
pub enum Refusal {
    /// Its command line or its settings cannot be.
    Usage(String),
    /// Something failed.
    Failed(String),
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Refusal::Failed(text)
    }
}

/// What an original needs of this program and its host.
pub trait Driver: Console + Runs + Files + Sync {
    /// The whole command line, for the records.
    fn command(&self) -> &[String];
    /// This program's version.
    fn version(&self) -> &'static str;
    /// The host.
    fn host(&self) -> &'static dyn HostInfo;
    /// Interfaces and addresses of the host.
    fn local_addresses(&self) -> Vec<(String, IpAddr)>;
    /// Whether an address is one of this host.
    fn is_ours(&self, address: IpAddr) -> bool;
    /// Limits of open files, in force and at most, where the system tells.
    fn open_files(&self) -> Option<(u64, u64)>;
    /// The addresses of `targets` (`name`, `name:port`), of one family where one is named.
    fn resolve(&self, targets: &[String], port: u16, v4: bool, v6: bool) -> Result<Vec<Peer>, Refusal>;
    /// Networks that may be sent to without having proved an address: these, and those that the user's environment names.
    fn open_to(&self, networks: &[String]) -> Result<Vec<IpNet>, Refusal>;
}

/// The terminal and signals of the process.
pub trait Console {
    /// Tells the user, on stderr.
    fn say(&self, text: &dyn fmt::Display);
    /// Stdout. When it takes no more, that is told once; the run goes on for the other end's sake.
    fn stdout(&self) -> Box<dyn Write>;
    /// A line that a peer wrote, as it may be shown: without control characters, and broken where the terminal of stdout ends, if
    /// it goes there.
    fn quoted(&self, line: &str, to_stdout: bool) -> String;
    /// Asks for a line that is not shown while it is typed.
    fn read_hidden(&self, prompt: &str) -> io::Result<String>;
    /// What is asked for the end by signals.
    fn on_signals(&self) -> Result<Interrupt, Refusal>;
    /// Asks `interrupt` for the end when a key is pressed, as long as the result lives; `None` without a terminal.
    fn on_any_key(&self, interrupt: &Interrupt) -> Option<Box<dyn Send>>;
    /// Goes on in the background.
    fn to_background(&self) -> io::Result<()>;
    /// Waits for so many milliseconds.
    fn sleep(&self, ms: u64);
}

/// What runs a client or a server.
pub trait Runs {
    /// Whether a client can have this run.
    fn check(&self, config: &ClientConfig, phase: &Phase) -> Result<(), Refusal>;
    /// The beginning of a client's run.
    fn begin(&self, config: &ClientConfig, verb: &str, phase: &Phase) -> Begin;
    /// Runs a client to its end.
    fn run(
        &self,
        config: &ClientConfig,
        phase: &Phase,
        interrupt: &Interrupt,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<(), Refusal>;
    /// Takes a server's ports.
    fn bind(&self, config: ServerConfig) -> Result<Box<dyn Bound>, Refusal>;
    /// The protocol in which servers of this program can be asked to end ([`StopServers`](crate::config::StopServers)).
    fn own_protocol(&self) -> &'static dyn Protocol;
}

/// Where results go.
pub trait Files {
    /// A file that takes its name when it is whole.
    fn create(&self, path: &Path) -> io::Result<Box<dyn ResultFile>>;
    /// The file in which a run is saved, if any; a server's is written in its place.
    fn journal(&self, path: Option<&PathBuf>, serves: bool) -> Result<Box<dyn Journal>, Refusal>;
    /// Where the events of a run go that is kept in the store.
    fn history(&self) -> Box<dyn History>;
}

/// A server that has its ports.
pub trait Bound: Send {
    /// Where it listens.
    fn addresses(&self) -> &[SocketAddr];
    /// The beginning of its run.
    fn begin(&self, command: Vec<String>) -> Begin;
    /// Runs it to its end.
    fn run(self: Box<Self>, interrupt: &Interrupt, on_event: &mut dyn FnMut(&Event)) -> Result<(), Refusal>;
}

/// A file that is not there before it is whole.
pub trait ResultFile {
    /// Writes all of it.
    fn fill(self: Box<Self>, text: &str) -> io::Result<()>;
}

/// The file of a run.
pub trait Journal {
    /// Keeps an event.
    ///
    /// # Errors
    /// Once, when the file fails.
    fn on_event(&mut self, event: &Event) -> Result<(), String>;
    /// The run is over.
    fn finish(&mut self) -> Result<(), String>;
}

/// A run on its way into the store.
pub trait History {
    /// Takes an event in.
    fn on_event(&mut self, event: &Event);
    /// The run is over and printed.
    fn finish(self: Box<Self>);
}

/// Why most options without an effect have none.
pub const NO_EFFECT: &str = ", because it has no effect here";

impl dyn Driver + '_ {
    /// A client of this protocol, with what is the same for all originals.
    pub fn client(&self, protocol: &'static dyn Protocol) -> ClientConfig {
        let mut run = [0; 16];
        self.host().random()(&mut run);
        ClientConfig {
            run: uuid::Builder::from_random_bytes(run).into_uuid(),
            version: self.version().to_owned(),
            records: true,
            ..ClientConfig::new(protocol)
        }
    }

    /// A server of this protocol, with what is the same for all originals.
    ///
    /// # Errors
    /// When the user's environment names what is no network.
    pub fn server(&self, protocol: &'static dyn Protocol, phase: Phase) -> Result<ServerConfig, Refusal> {
        let (open_to, version) = (self.open_to(&[])?, self.version().to_owned());
        Ok(ServerConfig { open_to, version, ..ServerConfig::legacy(protocol, phase) })
    }

    /// The first address of a host.
    pub fn first(&self, host: &str, port: u16, v4: bool, v6: bool) -> Result<Vec<Peer>, Refusal> {
        let mut peers = self.resolve(&[host.to_owned()], port, v4, v6)?;
        peers.truncate(1);
        Ok(peers)
    }

    /// Prints a text that was asked for; the rest of it is not missed when the reader of stdout has closed it.
    pub fn page(&self, text: &str, code: u8) -> Result<u8, Refusal> {
        let _ = io::stdout().write_all(text.as_bytes());
        Ok(code)
    }

    /// Warns of options without an effect.
    pub fn warn(&self, name: &str, why: &str, ignored: &[String]) {
        if !ignored.is_empty() {
            self.say(&format_args!("{name}: warning: ignored{why}: {}", ignored.join(", ")));
        }
    }

    /// The exit code of an original that is called `name`; a refusal is told on stderr.
    pub fn ended(&self, name: &str, codes: ExitCodes, how: Result<u8, Refusal>) -> u8 {
        let (text, code) = match how {
            Ok(code) => return code,
            Err(Refusal::Usage(text)) => (text, codes.usage),
            Err(Refusal::Failed(text)) => (text, codes.failed),
        };
        self.say(&format_args!("{name}: {text}"));
        code
    }

    /// Runs a client to its end, with the events that begin a run.
    pub fn call(
        &self,
        config: &ClientConfig,
        phase: &Phase,
        interrupt: &Interrupt,
        verb: &str,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<(), Refusal> {
        self.check(config, phase)?;
        begin(self.begin(config, verb, phase), phase, on_event);
        self.run(config, phase, interrupt, on_event)
    }

    /// Runs a server to its end, with the events that begin a run.
    pub fn serve(
        &self,
        bound: Box<dyn Bound>,
        phase: &Phase,
        interrupt: &Interrupt,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<(), Refusal> {
        begin(bound.begin(self.command().to_vec()), phase, on_event);
        bound.run(interrupt, on_event)
    }
}

fn begin(begin: Begin, phase: &Phase, on_event: &mut dyn FnMut(&Event)) {
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

/// What is told of every run: how it ended, and warnings.
pub struct Run<'a> {
    driver: &'a dyn Driver,
    prefix: String,
    history: Box<dyn History>,
    /// How it ended.
    pub status: Status,
    /// Why.
    pub reason: Option<String>,
}

impl Run<'_> {
    /// A run whose warnings begin with `prefix`; they are not printed where it is empty.
    pub fn new(driver: &dyn Driver, prefix: impl Into<String>) -> Run<'_> {
        let (history, status) = (driver.history(), Status::Failed);
        Run { driver, prefix: prefix.into(), history, status, reason: None }
    }

    /// Takes an event in.
    pub fn on_event(&mut self, event: &Event) {
        self.history.on_event(event);
        match event {
            Event::PhaseEnd { status, reason } => (self.status, self.reason) = (*status, reason.clone()),
            Event::Notice { level: Level::Warning | Level::Error, text } if !self.prefix.is_empty() => {
                self.driver.say(&format_args!("{} {text}", self.prefix));
            }
            _ => {}
        }
    }

    /// The run is over and printed.
    pub fn finish(self) {
        self.history.finish();
    }
}
