//! A command on an impaired path: what `netcaliper lab` does.

use crate::rig::Lab;
use crate::setup::Setup;
use crate::{LabError, LabResult, Side};
use io::clock::Clock;
use io::netns::{self, is_listening};
use io::process::EndRequests;
use io::signals::{CHILD, HANG_UP, INTERRUPT, KILL, Signal, Signals, TERMINATE};
use metrics::{Clamped, SECOND};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::fd::AsFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Time that a server, or the command and its children, gets to end after a request.
const GRACE: Duration = Duration::from_secs(3);
/// Interval of the checks if a server listens, ns.
const LOOK_NS: u64 = 5_000_000;
/// Interval of the checks if processes at the command's side have ended, ns: these are no children
/// of the lab.
const LOOK_AGAIN_NS: u64 = 20_000_000;
/// As shells answer: the command was found but could not be started, and it was not found.
const CANNOT_START: u8 = 126;
const NOT_FOUND: u8 = 127;
/// As shells answer for a command that a signal ended: this plus the signal's number.
const BY_SIGNAL: i32 = 128;

#[derive(Debug)]
pub struct Job {
    pub setup: Setup,
    pub command: Vec<OsString>,
    pub side: Side,
    /// A shell command to be run at the other side before, and ended afterwards. Its output goes to
    /// stderr.
    pub server: Option<String>,
    /// Longest wait of the command for the server to listen.
    pub patience: Duration,
}

#[derive(Debug)]
pub struct Finished {
    /// Exit code of the command, as shells state it.
    pub code: u8,
    pub ended: LabResult,
    pub notices: Vec<String>,
}

/// Builds the lab, runs the command in it, and takes the lab down again. SIGINT, SIGTERM and SIGHUP
/// to this process are forwarded to the command and its children (Ctrl-C reaches them by itself),
/// which get some seconds to end; a second request ends everything. To be called once, before the
/// program has other threads.
///
/// # Errors
/// When the lab cannot be built, or its record of packets is lost.
pub fn run(job: Job) -> Result<Finished, LabError> {
    let signals = Signals::hold(&[INTERRUPT, TERMINATE, HANG_UP, CHILD])
        .map_err(LabError::system("holding signals"))?;
    let core = job.setup.core;
    let usable = io::thread::available();
    if let Some(core) = core.filter(|core| !usable.is_empty() && !usable.contains(core)) {
        return Err(LabError::Setting(format!(
            "core {core} cannot be used: this process may run on {usable:?}"
        )));
    }
    let (requests, notices) = (EndRequests::default(), Vec::new());
    let mut show = Show { lab: Lab::new(job.setup)?, signals, requests, asked: 0, notices };
    keep_off(core);
    let other = if job.side == Side::Client { Side::Server } else { Side::Client };
    let mut server = None;
    if let Some(line) = &job.server {
        let started = show.serve(other, line).map_err(LabError::system("starting the server"))?;
        let server = server.insert(started);
        show.wait_for(other, server, job.patience).map_err(LabError::system("waiting for the server"))?;
    }
    show.lab.begin();
    let code = match show.start(job.side, &job.command) {
        Ok(mut command) => {
            show.attend(job.side, &mut command).map_err(LabError::system("waiting for the command"))?
        }
        Err(error) => {
            let name = job.command.first().map(|name| name.to_string_lossy()).unwrap_or_default();
            show.notices.push(format!("cannot start '{name}': {error}"));
            if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { CANNOT_START }
        }
    };
    if let Some(server) = &mut server {
        show.dismiss(other, server).map_err(LabError::system("ending the server"))?;
    }
    Ok(Finished { code, ended: show.lab.finish()?, notices: show.notices })
}

/// Keeps this thread, and the programs that it starts, off the forwarder's core, where there is
/// another.
fn keep_off(core: Option<usize>) {
    let others: Vec<usize> = io::thread::available().into_iter().filter(|c| Some(*c) != core).collect();
    if core.is_some() && !others.is_empty() {
        // If it cannot be, they share it, and the truth says how late packets were.
        let _ = io::thread::pin(&others);
    }
}

/// The lab while something runs in it.
struct Show {
    lab: Lab,
    signals: Signals,
    requests: EndRequests,
    /// Number of the user's requests to end.
    asked: u32,
    notices: Vec<String>,
}

impl Show {
    fn start(&self, side: Side, words: &[OsString]) -> std::io::Result<Child> {
        let (program, arguments) = words.split_first().ok_or(ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        self.lab.enter(side, command.args(arguments))?;
        command.spawn()
    }

    /// Starts a server. The server is no part of the terminal's foreground group: Ctrl-C ends the
    /// command first.
    fn serve(&self, side: Side, line: &str) -> std::io::Result<Child> {
        let mut command = Command::new("sh");
        command.args(["-c", line]).process_group(0).stdin(Stdio::null());
        command.stdout(std::io::stderr().as_fd().try_clone_to_owned()?);
        self.lab.enter(side, &mut command)?;
        command.spawn()
    }

    /// Waits until a server listens, has ended, or took too long.
    fn wait_for(&mut self, side: Side, server: &mut Child, patience: Duration) -> std::io::Result<()> {
        let until = Instant::now() + patience;
        while !self.lab.within(side, is_listening)? {
            if let Some(status) = server.try_wait()? {
                self.notices.push(format!("the server has ended before the command began ({status})"));
                return Ok(());
            }
            if Instant::now() >= until {
                self.notices
                    .push("the server does not listen; the command was started all the same".to_owned());
                return Ok(());
            }
            self.wait(Some(LOOK_NS))?;
            if self.asked > 0 {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Waits for the command's end. At a request to end, the command's children get the signal as
    /// well, as from a terminal: a shell waits for its children. Processes left after [`GRACE`], or
    /// at a second request, are killed.
    fn attend(&mut self, side: Side, command: &mut Child) -> std::io::Result<u8> {
        let (mut ended, mut until) = (None, None);
        if self.asked > 0 {
            // The end was asked for before the command began.
            self.forward(side, TERMINATE);
            until = Some(Instant::now() + GRACE);
        }
        loop {
            if ended.is_none() {
                ended = command.try_wait()?;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            match (ended, left) {
                (Some(status), None) => return Ok(code(status)),
                (Some(status), Some(_)) if self.lab.processes(side).is_empty() => return Ok(code(status)),
                (_, Some(Duration::ZERO)) => {
                    self.notices.push("the command did not end when asked, and was killed".to_owned());
                    self.lab.kill();
                    return Ok(code(command.wait()?));
                }
                _ => {}
            }
            let Some(signal) = self.wait(until.map(|_| LOOK_AGAIN_NS))? else { continue };
            if self.asked > 1 {
                self.lab.kill();
            } else if !signal.from_kernel {
                self.forward(side, signal.number);
            }
            until.get_or_insert_with(|| Instant::now() + GRACE);
        }
    }

    /// Sends a signal to all that runs at this side.
    fn forward(&self, side: Side, signal: i32) {
        for process in self.lab.processes(side) {
            // An error means that the process has just ended by itself.
            let _ = netns::signal(process, signal);
        }
    }

    /// Asks all that runs at the server's side to end, and sees to it.
    fn dismiss(&mut self, side: Side, server: &mut Child) -> std::io::Result<()> {
        if let Some(status) = server.try_wait()? {
            if !status.success() {
                self.notices.push(format!("the server has ended by itself ({status})"));
            }
            return Ok(());
        }
        self.forward(side, TERMINATE);
        let until = Instant::now() + GRACE;
        while server.try_wait()?.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.asked > 1 {
                let _ = netns::signal(server.id(), KILL);
                server.wait()?;
                self.notices.push("the server did not end when asked, and was killed".to_owned());
                break;
            }
            self.wait(Some(u64::clamped(left.as_nanos()).min(SECOND)))?;
        }
        Ok(())
    }

    /// Waits for a signal, `ns` at most (`None`: for ever); returns one that is a new request to
    /// end.
    fn wait(&mut self, ns: Option<u64>) -> std::io::Result<Option<Signal>> {
        let request = self
            .signals
            .wait(ns)?
            .filter(|signal| signal.number != CHILD && self.requests.count(Clock::new().now()).is_some());
        self.asked += u32::from(request.is_some());
        Ok(request)
    }
}

/// The exit code of a command, as shells say it.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| BY_SIGNAL + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
