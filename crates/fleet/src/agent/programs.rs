//! The processes of an agent: this same program, once for each test and once for the server of a
//! run.
//!
//! A test that crashes, hangs or prints without end is thus one stated reason. Processes end with
//! the agent, however it ends (Linux): a test that outlived its agent would disturb the next one's
//! tests.

use super::options::Ceilings;
use crate::message::MAX_OUTCOME;
use crate::plan::Attempt;
use crate::threads::{lock, read_stderr, spawn, wait};
use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child as Process, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use uuid::Uuid;

/// An exclusive test's lock on its host, against agents of other controllers too.
pub trait HostLock {
    /// Takes it; whether that was possible.
    fn take(&mut self) -> bool;
    /// Gives it back.
    fn release(&mut self);
}

/// The processes of an agent.
pub trait Programs {
    /// Starts the server of a run, which keeps these ceilings; [`Happened::Serving`] follows.
    fn serve(&mut self, run: Uuid, key: &str, ceilings: &Ceilings);
    /// Ends it.
    fn end_server(&mut self, run: Uuid);
    /// Starts a test with these words; [`Happened::Over`] follows.
    fn start(&mut self, run: Uuid, attempt: Attempt, words: Vec<String>, key: Option<&str>);
    /// Asks a test to end, or ends it.
    fn end(&mut self, run: Uuid, attempt: Attempt, at_once: bool);
}

/// Event of a process.
#[derive(Clone, Debug)]
pub enum Happened {
    /// The server of a run listens on this port, or has ended for this reason.
    Serving { run: Uuid, port: Result<u16, String> },
    /// A test's process is gone.
    Over { run: Uuid, attempt: Attempt, left: Left },
}

/// Remains of a process.
#[derive(Clone, Debug, Default)]
pub struct Left {
    /// Its exit code; `None` where a signal ended it, or it could not start.
    pub code: Option<i32>,
    /// Its output.
    pub out: Vec<u8>,
    /// The end of its standard error.
    pub said: String,
}

/// The processes.
pub struct Child<F> {
    /// Called on other threads when something happened.
    happened: F,
    port: u16,
    tests: BTreeMap<(Uuid, Attempt), Arc<Mutex<Process>>>,
    servers: BTreeMap<Uuid, Serving>,
}

struct Serving {
    process: Arc<Mutex<Process>>,
    /// True if the agent has ended it.
    is_ended: Arc<AtomicBool>,
}

impl<F: Fn(Happened) + Clone + Send + 'static> Child<F> {
    /// No process yet. Servers listen on `port`, or on another where that is taken; 0 leaves it to
    /// the system.
    pub fn new(port: u16, happened: F) -> Child<F> {
        Child { happened, port, tests: BTreeMap::new(), servers: BTreeMap::new() }
    }

    fn begin(&self, words: &[String], key: Option<&str>) -> io::Result<Process> {
        let mut command = this_program();
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // The settings of people on this host change no test, and no result is saved as theirs.
        for name in ["NETCALIPER_PSK", "NETCALIPER_PSK_FILE", "NETCALIPER_KEY_FILE"] {
            command.env_remove(name);
        }
        command.env("NETCALIPER_STORE", "off").env("NETCALIPER_CONFIG", "off").env("NO_COLOR", "1");
        if let Some(key) = key {
            command.env("NETCALIPER_PSK", key);
        }
        ::io::process::end_with_this_thread(&mut command);
        command.spawn()
    }

    fn server_words(&self, ceilings: &Ceilings) -> Vec<String> {
        let is_free = self.port != 0 && std::net::TcpListener::bind(("::", self.port)).is_ok();
        let port = if is_free { self.port } else { 0 };
        let mut words = vec!["serve".to_owned(), "--port".to_owned(), port.to_string()];
        words.extend(["--interval", "1h", "--max-sessions", "64"].map(str::to_owned));
        words.extend(["--max-time".to_owned(), format!("{}ns", ceilings.time_ns)]);
        words.extend(ceilings.rate.iter().flat_map(|rate| ["--max-rate".to_owned(), rate.to_string()]));
        words
    }
}

impl<F: Fn(Happened) + Clone + Send + 'static> Programs for Child<F> {
    fn serve(&mut self, run: Uuid, key: &str, ceilings: &Ceilings) {
        self.end_server(run);
        // The rate of a key bounds all of its sessions together.
        let key = ceilings.rate.map_or_else(|| key.to_owned(), |rate| format!("- {key} rate={rate}"));
        let is_ended = Arc::new(AtomicBool::new(false));
        let (happened, ended) = (self.happened.clone(), Arc::clone(&is_ended));
        let tell = move |port| {
            if !ended.load(Ordering::Acquire) {
                happened(Happened::Serving { run, port });
            }
        };
        let listens = tell.clone();
        let read = move |out| read_port(out, |port| listens(Ok(port)));
        let over = move |Left { said, .. }: Left| {
            let why = said.strip_prefix("netcaliper: ").unwrap_or(&said);
            tell(Err(format!("the server ended: {why}")));
        };
        match self
            .begin(&self.server_words(ceilings), Some(&key))
            .and_then(|process| watch(process, read, over))
        {
            Ok(process) => drop(self.servers.insert(run, Serving { process, is_ended })),
            Err(e) => {
                let port = Err(format!("cannot start the server: {e}"));
                (self.happened)(Happened::Serving { run, port });
            }
        }
    }

    fn end_server(&mut self, run: Uuid) {
        if let Some(serving) = self.servers.remove(&run) {
            serving.is_ended.store(true, Ordering::Release);
            // The process has no sessions that would have to end in good order.
            let _ = lock(&serving.process).kill();
        }
    }

    fn start(&mut self, run: Uuid, attempt: Attempt, words: Vec<String>, key: Option<&str>) {
        self.tests.retain(|_, process| !matches!(lock(process).try_wait(), Ok(Some(_))));
        let happened = self.happened.clone();
        let over = move |left| happened(Happened::Over { run, attempt, left });
        // A longer text is no outcome: its writer finds the pipe closed.
        let read = |out: ChildStdout| {
            let mut bytes = Vec::new();
            let _ = out.take(8 * MAX_OUTCOME as u64 + 1).read_to_end(&mut bytes);
            bytes
        };
        match self.begin(&words, key).and_then(|process| watch(process, read, over.clone())) {
            Ok(process) => drop(self.tests.insert((run, attempt), process)),
            Err(e) => over(Left { said: format!("cannot start the test: {e}"), ..Left::default() }),
        }
    }

    fn end(&mut self, run: Uuid, attempt: Attempt, at_once: bool) {
        let Some(process) = self.tests.get(&(run, attempt)) else { return };
        let mut process = lock(process);
        // One that has ended by itself is over anyway.
        let _ = if at_once { process.kill() } else { ::io::process::ask_to_end(&mut process) };
    }
}

impl<F> Drop for Child<F> {
    fn drop(&mut self) {
        let servers = self.servers.values().map(|serving| &serving.process);
        for process in servers.chain(self.tests.values()) {
            let mut process = lock(process);
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Path of the running program, even when its file has been replaced or removed.
fn this_program() -> Command {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::process::CommandExt as _;
        let mut command = Command::new("/proc/self/exe");
        command.arg0("netcaliper");
        command
    }
    #[cfg(not(target_os = "linux"))]
    Command::new(std::env::current_exe().unwrap_or_else(|_| "netcaliper".into()))
}

/// Reads a process's output by `read`, and passes on its remains once it has ended.
fn watch(
    mut process: Process,
    read: impl FnOnce(ChildStdout) -> Vec<u8> + Send + 'static,
    over: impl FnOnce(Left) + Send + 'static,
) -> io::Result<Arc<Mutex<Process>>> {
    let (out, err) = (process.stdout.take(), read_stderr(process.stderr.take())?);
    let process = Arc::new(Mutex::new(process));
    let watched = Arc::clone(&process);
    spawn("reading", move || {
        let out = out.map(read).unwrap_or_default();
        let code = wait(&watched, Duration::MAX);
        over(Left { code, out, said: err.join().unwrap_or_default() });
    })?;
    Ok(process)
}

/// Passes on the port that a server listens on, and reads its further output, which is not kept.
fn read_port(out: ChildStdout, tell: impl Fn(u16)) -> Vec<u8> {
    let (mut lines, mut line, mut is_reported) = (BufReader::new(out), String::new(), false);
    while matches!(lines.by_ref().take(4096).read_line(&mut line), Ok(1..)) {
        if let Some(port) = port_of(&line).filter(|_| !is_reported) {
            is_reported = true;
            tell(port);
        }
        line.clear();
    }
    Vec::new()
}

/// The port in `listening on [::]:7411 (TCP and UDP; …)`.
fn port_of(line: &str) -> Option<u16> {
    let address = line.split_once("listening on ")?.1.split_whitespace().next()?;
    address.rsplit_once(':')?.1.parse().ok()
}

/// Resource of an agent's tests: its boot and network namespace.
#[must_use]
pub fn own_resource() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = std::fs::read_link("/proc/self/ns/net").unwrap_or_else(|_| PathBuf::from("net"));
    format!("{}/{}", boot.trim(), space.display())
}

/// An exclusive test's lock on a network namespace: a name that one socket can have, and that goes
/// with its process. Outside Linux two agents of a host do not know of each other.
pub struct OwnLock {
    name: String,
    taken: Option<Name>,
}

#[cfg(target_os = "linux")]
type Name = std::os::unix::net::UnixListener;
#[cfg(not(target_os = "linux"))]
type Name = ();

impl OwnLock {
    /// The lock of this resource, not taken.
    #[must_use]
    pub fn new(resource: &str) -> OwnLock {
        OwnLock { name: format!("netcaliper-agent-{resource}").chars().take(100).collect(), taken: None }
    }
}

impl HostLock for OwnLock {
    fn take(&mut self) -> bool {
        self.taken = bound(&self.name);
        self.taken.is_some()
    }

    fn release(&mut self) {
        self.taken = None;
    }
}

#[cfg(target_os = "linux")]
fn bound(name: &str) -> Option<Name> {
    use std::os::linux::net::SocketAddrExt as _;
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name.as_bytes()).ok()?;
    Name::bind_addr(&address).ok()
}

#[cfg(not(target_os = "linux"))]
fn bound(_name: &str) -> Option<Name> {
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_found() {
        assert_eq!(port_of("listening on [::]:7411 (TCP and UDP; a key is required)\n"), Some(7411));
        assert_eq!(port_of("listening on 127.0.0.1:80\n"), Some(80));
        assert_eq!(port_of("something else"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn two_agents_of_a_host_exclude_each_other() {
        let name = format!("test-{}", std::process::id());
        let (mut one, mut two) = (OwnLock::new(&name), OwnLock::new(&name));
        assert!(one.take() && !two.take());
        one.release();
        assert!(two.take() && !one.take());
    }
}
