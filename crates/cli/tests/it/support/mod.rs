//! Runs the real binary as users do, and reads what it says. Every wait is bounded, every child is
//! killed when its handle goes, and nothing here asserts how fast the machine is.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may"
)]

pub(crate) mod browser;

pub(crate) mod fabric;
pub(crate) mod files;
#[cfg(all(target_os = "linux", feature = "fleet"))]
pub(crate) mod fleet;
pub(crate) mod iperf3;
pub(crate) mod lab;
pub(crate) mod net;
pub(crate) mod ours;
pub(crate) mod outcome;
pub(crate) mod peer;
pub(crate) mod relay;

pub(crate) use outcome::{Outcome, number, text};

use serde_json::Value;
use std::ffi::OsStr;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const BIN: &str = env!("CARGO_BIN_EXE_netcaliper");
/// How long anything may take that takes a fraction of it on a machine that is not overloaded.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The advice of a test that was shorter than its host was busy.
const TOO_SHORT: &str = ": give a longer -t";

/// What came out of a program's two pipes so far.
#[derive(Clone, Default)]
struct Pipes(Arc<(Mutex<[Pipe; 2]>, Condvar)>);

#[derive(Default)]
struct Pipe {
    bytes: Vec<u8>,
    over: bool,
}

const OUT: usize = 0;
const ERR: usize = 1;

impl Pipes {
    /// Reads one of them in a thread of its own.
    fn read(&self, which: usize, mut pipe: impl Read + Send + 'static) {
        let ours = self.clone();
        thread::spawn(move || {
            let mut buffer = [0; 64 * 1024];
            loop {
                let n = pipe.read(&mut buffer).unwrap_or(0);
                let mut both = ours.0.0.lock().unwrap();
                both[which].bytes.extend_from_slice(&buffer[..n]);
                both[which].over = n == 0;
                ours.0.1.notify_all();
                if n == 0 {
                    return;
                }
            }
        });
    }

    fn text(&self, which: usize) -> String {
        String::from_utf8_lossy(&self.0.0.lock().unwrap()[which].bytes).into_owned()
    }

    /// Waits until `found` finds something in stdout or stderr; `None` when it never comes.
    fn wait<T>(&self, limit: Duration, found: impl Fn(usize, &str) -> Option<T>) -> Option<T> {
        let until = Instant::now() + limit;
        let mut both = self.0.0.lock().unwrap();
        loop {
            for which in [OUT, ERR] {
                if let Some(it) = found(which, &String::from_utf8_lossy(&both[which].bytes)) {
                    return Some(it);
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if both.iter().all(|pipe| pipe.over) || left.is_zero() {
                return None;
            }
            both = self.0.1.wait_timeout(both, left).unwrap().0;
        }
    }

    /// Whether both are at their end, which is waited for at most this long.
    fn over(&self, limit: Duration) -> bool {
        let both = self.0.0.lock().unwrap();
        let going = |both: &mut [Pipe; 2]| !both.iter().all(|pipe| pipe.over);
        !self.0.1.wait_timeout_while(both, limit, going).unwrap().1.timed_out()
    }
}

/// A running program. Killed when dropped.
pub(crate) struct Proc {
    child: Child,
    name: String,
    pipes: Pipes,
}

pub(crate) struct Done {
    /// The command line, for messages.
    pub(crate) name: String,
    /// Exit code; `None` after a signal.
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    /// Its stdout, one JSON document.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}", self.tell()))
    }

    /// The last line of its stdout.
    #[track_caller]
    pub(crate) fn last_json(&self) -> Value {
        let last = self.out.lines().last().unwrap_or_default();
        serde_json::from_str(last).unwrap_or_else(|e| panic!("{e}: {}", self.tell()))
    }

    /// Everything that is known, for messages.
    pub(crate) fn tell(&self) -> String {
        let Done { name, code, out, err } = self;
        format!("{name}\nended with {code:?}\n--- stdout\n{}\n--- stderr\n{err}", tail(out))
    }

    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Done {
        assert_eq!(self.code, Some(code), "{}", self.tell());
        self
    }

    /// Whether stdout or stderr has these words, wherever lines are wrapped.
    fn says(&self, words: &str) -> bool {
        let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        [&self.out, &self.err].into_iter().any(|text| flat(text).contains(words))
    }

    /// stderr must hold each of `words`.
    #[track_caller]
    pub(crate) fn complains(self, words: &[&str]) -> Done {
        for word in words {
            assert!(self.err.contains(word), "'{word}' is missing on stderr: {}", self.tell());
        }
        self
    }

    /// stdout must hold each of `words`.
    #[track_caller]
    pub(crate) fn prints(self, words: &[&str]) -> Done {
        for word in words {
            assert!(self.out.contains(word), "'{word}' is missing on stdout: {}", self.tell());
        }
        self
    }

    /// Nothing but one sentence on stderr.
    #[track_caller]
    pub(crate) fn says_one_sentence(self) -> Done {
        let lines: Vec<&str> = self.err.lines().filter(|l| !l.trim().is_empty()).collect();
        assert!(lines.len() == 1, "one sentence was expected on stderr: {}", self.tell());
        self
    }
}

/// The whole lines of a text that is still written: the rest of one may be on its way.
pub(crate) fn whole(said: &str) -> &str {
    &said[..said.rfind('\n').map_or(0, |at| at + 1)]
}

/// The last lines of a long text.
fn tail(text: &str) -> &str {
    let mut from = text.len().saturating_sub(6000);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    &text[from..]
}

impl Proc {
    pub(crate) fn spawn(command: &mut Command) -> Proc {
        let name = format!("{command:?}");
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let pipes = Pipes::default();
        pipes.read(OUT, child.stdout.take().unwrap());
        pipes.read(ERR, child.stderr.take().unwrap());
        Proc { child, name, pipes }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed so far.
    pub(crate) fn out(&self) -> String {
        self.pipes.text(OUT)
    }

    /// What it has complained about so far.
    pub(crate) fn err(&self) -> String {
        self.pipes.text(ERR)
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for a line on stdout or stderr that contains `word`, and returns it.
    #[track_caller]
    pub(crate) fn hears(&self, word: &str) -> String {
        let line = self
            .pipes
            .wait(PATIENCE, |_, said| whole(said).lines().find(|l| l.contains(word)).map(str::to_owned));
        line.unwrap_or_else(|| {
            panic!(
                "{} never said '{word}'\n--- stdout\n{}\n--- stderr\n{}",
                self.name,
                self.out(),
                self.err()
            )
        })
    }

    /// The port that a peer says it has.
    pub(crate) fn port(&self) -> String {
        self.hears("port ").trim_start_matches("port ").to_owned()
    }

    /// The port at which a server says that it speaks this protocol.
    #[track_caller]
    pub(crate) fn port_of(&self, name: &str) -> u16 {
        let told = |line: &str| {
            let mut behind = line.split_whitespace().skip_while(|word| *word != name);
            behind.find_map(|word| word.rsplit_once(':')?.1.parse().ok())
        };
        let port = self.pipes.wait(PATIENCE, |_, said| whole(said).lines().find_map(told));
        port.unwrap_or_else(|| panic!("{} never said where {name} is\n{}", self.name, self.out()))
    }

    /// What a peer says when it is stopped.
    #[track_caller]
    pub(crate) fn stopped(self) -> Value {
        self.signal("INT");
        self.wait().last_json()
    }

    /// What a peer says when it has ended in good order.
    #[track_caller]
    pub(crate) fn ended(self) -> Value {
        self.wait().exits(0).last_json()
    }

    /// Waits until at least `n` lines on stdout contain `word`.
    #[track_caller]
    pub(crate) fn hears_often(&self, word: &str, n: usize) {
        let heard = self.pipes.wait(PATIENCE, |which, said| {
            (which == OUT && whole(said).lines().filter(|l| l.contains(word)).count() >= n).then_some(())
        });
        assert!(
            heard.is_some(),
            "{} did not say '{word}' {n} times\n{}\n{}",
            self.name,
            self.out(),
            self.err()
        );
    }

    /// Sends a signal by name: INT, TERM, KILL, STOP, CONT.
    pub(crate) fn signal(&self, name: &str) {
        let status =
            Command::new("kill").arg(format!("-{name}")).arg(self.id().to_string()).status().unwrap();
        assert!(status.success(), "{} is gone already", self.name);
    }

    /// Waits for its end, at most [`PATIENCE`].
    #[track_caller]
    pub(crate) fn wait(self) -> Done {
        self.wait_within(PATIENCE)
    }

    /// Waits for its end; panics when it does not come within `limit`.
    #[track_caller]
    pub(crate) fn wait_within(mut self, limit: Duration) -> Done {
        let until = Instant::now() + limit;
        let status: ExitStatus = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() >= until {
                let (out, err) = (self.out(), self.err());
                panic!(
                    "{} did not end within {limit:?}\n--- stdout\n{}\n--- stderr\n{err}",
                    self.name,
                    tail(&out)
                );
            }
            // A program mostly closes its pipes when it ends, but it may before, and a child of its
            // own may keep them open.
            if self.pipes.over(Duration::from_millis(100)) {
                thread::sleep(Duration::from_millis(1));
            }
        };
        self.pipes.over(Duration::from_secs(5));
        Done { name: self.name.clone(), code: status.code(), out: self.out(), err: self.err() }
    }
}

impl Drop for Proc {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command line in the making.
pub(crate) struct Line(pub(crate) Command);

/// `netcaliper VERB` that prints all tables; a ping is a closed loop unless something else is asked
/// for, without the local baseline, which takes a quarter of a second at full speed, and datagrams
/// go to the server alone.
pub(crate) fn netcaliper(verb: &str) -> Line {
    let line = as_it_is(verb);
    match verb {
        "ping" => line.args("-v --no-baseline --flood"),
        "delay" => line.args("-v --up"),
        "tcp" | "connect" | "stream" | "train" | "load" | "demo" | "report" => line.arg("-v"),
        _ => line,
    }
}

/// `netcaliper VERB` with its defaults.
pub(crate) fn as_it_is(verb: &str) -> Line {
    let mut command = Command::new(BIN);
    for name in ["NETCALIPER_PSK", "NETCALIPER_PSK_FILE", "NO_COLOR"] {
        command.env_remove(name);
    }
    // Runs of tests are not saved in the user's history.
    command.env("NETCALIPER_STORE", "off");
    // What is set on this machine changes no test.
    command.env("NETCALIPER_CONFIG", "off");
    command.arg(verb);
    Line(command)
}

/// `netcaliper tcp` at a target such as `127.0.0.1:7411`.
pub(crate) fn tcp(target: impl AsRef<OsStr>) -> Line {
    netcaliper("tcp").arg(target)
}

/// `netcaliper connect` at a target.
pub(crate) fn connect(target: impl AsRef<OsStr>) -> Line {
    netcaliper("connect").arg(target)
}

impl Line {
    /// Adds arguments, separated by spaces.
    pub(crate) fn args(mut self, words: &str) -> Line {
        self.0.args(words.split_whitespace());
        self
    }

    pub(crate) fn arg(mut self, word: impl AsRef<OsStr>) -> Line {
        self.0.arg(word);
        self
    }

    /// Without this variable.
    pub(crate) fn without(mut self, name: &str) -> Line {
        self.0.env_remove(name);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Line {
        self.0.env(name, value);
        self
    }

    pub(crate) fn spawn(mut self) -> Proc {
        Proc::spawn(&mut self.0)
    }

    /// Runs it to its end. A test that was shorter than the host was busy, which the program says,
    /// is run again: the busier the host, the more often, but not without end.
    #[track_caller]
    pub(crate) fn run(mut self) -> Done {
        let mut left = 5;
        loop {
            let done = Proc::spawn(&mut self.0).wait();
            left -= 1;
            if left == 0 || !matches!(done.code, Some(1 | 4)) || !done.says(TOO_SHORT) {
                return done;
            }
        }
    }

    /// Runs it with `--json` and reads the outcome.
    #[track_caller]
    pub(crate) fn outcome(self) -> Outcome {
        Outcome::of(self.arg("--json").run())
    }
}

/// A server on a port of its own.
pub(crate) struct Server {
    pub(crate) proc: Proc,
    pub(crate) port: u16,
}

/// `netcaliper serve` with these arguments, on a free port of all addresses.
pub(crate) fn serve(words: &str) -> Server {
    Server::start(netcaliper("serve").args("--port 0").args(words))
}

/// The same on this port.
pub(crate) fn serve_at(port: u16, words: &str) -> Server {
    Server::start(netcaliper("serve").args(&format!("--port {port}")).args(words))
}

impl Server {
    /// Starts it and waits until it listens.
    #[track_caller]
    pub(crate) fn start(line: Line) -> Server {
        let proc = line.spawn();
        let said = proc.hears("listening on ");
        let address = said.split("listening on ").nth(1).and_then(|rest| rest.split_whitespace().next());
        let port = address.and_then(|a| a.rsplit(':').next()).and_then(|p| p.parse().ok());
        Server { port: port.unwrap_or_else(|| panic!("no port in '{said}'")), proc }
    }

    /// Its address over IPv4.
    pub(crate) fn at(&self) -> String {
        self.on("127.0.0.1")
    }

    /// Its address on `host`.
    pub(crate) fn on(&self, host: &str) -> String {
        format!("{host}:{}", self.port)
    }

    /// A small run against it that must be perfect.
    #[track_caller]
    pub(crate) fn still_serves(&self) {
        tcp(self.at()).args("-P 2 --iterations 1 --transfer 100001").outcome().moved(2, 200_002, 0);
    }

    /// Ends one that had an interrupted client: on a busy host that client aborts connections which
    /// have not ended within 0.7 s, and to the server these have failed.
    #[track_caller]
    pub(crate) fn ends(self) -> Done {
        self.proc.signal("INT");
        let done = self.proc.wait();
        assert!(matches!(done.code, Some(0 | 1)), "{}", done.tell());
        done
    }

    /// Ends it with SIGINT, which must be good.
    #[track_caller]
    pub(crate) fn end(self) -> Done {
        self.proc.signal("INT");
        self.proc.wait().exits(0)
    }
}

/// The size, rate or time of a test: `./test` takes the first, which shows the same, and
/// `bench/deep` the second.
pub(crate) fn sized<T>(usual: T, deep: T) -> T {
    if std::env::var_os("NETCALIPER_DEEP").is_some() { deep } else { usual }
}

/// Reports that `test` could not run, to `./test`, which counts skips, and to stderr.
pub(crate) fn skip(test: &str, reason: &str) {
    use std::io::Write;
    let line = format!("skipped: {test}: {reason}");
    eprintln!("{line}");
    if let Some(path) = std::env::var_os("NETCALIPER_SKIPS") {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(file, "{line}").unwrap();
    }
}

/// Does `each` with all of `cases` at once: they mostly wait.
pub(crate) fn at_once<T: Copy + Send>(cases: &[T], each: impl Fn(T) + Sync) {
    let each = &each;
    thread::scope(|scope| {
        for &case in cases {
            scope.spawn(move || each(case));
        }
    });
}

/// Waits until `done`, at most [`PATIENCE`].
#[track_caller]
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < until, "{what}: not within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(20));
    }
}
