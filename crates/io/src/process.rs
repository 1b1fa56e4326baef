//! The process's terminal, its move into the background, and its end.

use crate::clock::Clock;
use metrics::Mono;
use std::io;
use std::process::{Child, Command};

/// Asks with `prompt` on standard error, and reads a line from standard input, without its end;
/// where that is a terminal (Linux), the typed text is not shown, from before the prompt on.
pub fn read_hidden(prompt: &str) -> io::Result<String> {
    #[cfg(target_os = "linux")]
    let _hidden = Hidden::new();
    io::Write::write_all(&mut io::stderr(), prompt.as_bytes())?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    line.truncate(line.trim_end_matches(['\r', '\n']).len());
    Ok(line)
}

/// Columns of the terminal that standard output, standard error or standard input is; `None` where
/// none of them is one, or its size is not known (or, outside Linux, asked for).
pub fn terminal_columns() -> Option<u16> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsFd;
        let (out, err, input) = (io::stdout(), io::stderr(), io::stdin());
        let all = [out.as_fd(), err.as_fd(), input.as_fd()];
        let sizes = all.into_iter().filter_map(|fd| crate::sys::terminal::size(fd).ok());
        sizes.map(|(columns, _)| columns).find(|columns| *columns > 0)
    }
    #[cfg(not(target_os = "linux"))]
    None
}

/// While this value lives, the terminal does not show typed text.
#[cfg(target_os = "linux")]
struct Hidden(crate::sys::terminal::Termios);

#[cfg(target_os = "linux")]
impl Hidden {
    /// `None` when standard input is no terminal.
    fn new() -> Option<Hidden> {
        use std::os::fd::AsFd;
        let before = crate::sys::terminal::manners(io::stdin().as_fd()).ok()?;
        crate::sys::terminal::behave(io::stdin().as_fd(), &crate::sys::terminal::unseen(&before)).ok()?;
        Some(Hidden(before))
    }
}

#[cfg(target_os = "linux")]
impl Drop for Hidden {
    fn drop(&mut self) {
        use std::os::fd::AsFd;
        // A terminal that has gone needs nothing back.
        let _ = crate::sys::terminal::behave(io::stdin().as_fd(), &self.0);
    }
}

/// Goes to the background: this process ends with success, and a child goes on in `/`, without a
/// terminal. To be called before there are other threads.
///
/// # Errors
/// When the system refuses, or there are other threads, or (`Unsupported`) outside Linux.
pub fn to_background() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        if std::fs::read_dir("/proc/self/task")?.count() > 1 {
            return Err(io::Error::other("other threads are running already"));
        }
        crate::sys::space::daemon()
    }
    #[cfg(not(target_os = "linux"))]
    Err(crate::sys::unsupported())
}

/// Has a write beyond the limit on the size of files (`ulimit -f`) fail like one to a full disk,
/// instead of ending this process by a signal. Programs that this one starts find the signal as it
/// was; Rust's library does the same for a closed pipe's.
pub fn fail_writes_beyond_limit() {
    #[cfg(target_os = "linux")]
    {
        extern "C" fn nothing(_: i32) {}
        // A handler, since a signal that is ignored stays ignored in the programs that are started.
        crate::sys::terminal::call_at(libc::SIGXFSZ, nothing);
    }
}

/// Has the process that `command` starts killed when the thread that starts it ends, for any reason
/// (Linux).
pub fn end_with_this_thread(command: &mut Command) {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::process::CommandExt as _;
        let parent = std::process::id();
        // SAFETY: between fork and exec only this runs: two system calls on a number, which neither
        // allocate nor take a lock.
        unsafe { command.pre_exec(move || crate::sys::space::die_with(parent)) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command;
}

/// Asks a process to end (SIGTERM); outside Linux it is ended.
///
/// # Errors
/// When the system refuses.
pub fn ask_to_end(child: &mut Child) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        // Its number is that of no other process as long as this one has not taken note of its end.
        if child.try_wait()?.is_none() {
            crate::sys::space::kill(child.id(), crate::signals::TERMINATE)?;
        }
        Ok(())
    }
    #[cfg(not(target_os = "linux"))]
    child.kill()
}

/// Time after a request to end in which further signals repeat that request instead of insisting on
/// it, ns. coreutils' `timeout` signals its child and then the child's process group, so that one
/// request is two signals within microseconds; supervisors that signal a wrapper and its group do
/// the same.
pub const ONE_REQUEST_NS: u64 = 500_000_000;

/// A request to this process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndRequest {
    /// The first: end in good order.
    First,
    /// A later one, at least [`ONE_REQUEST_NS`] after the one before it: end at once.
    Again,
}

/// Requests to end, counted from signals: several within [`ONE_REQUEST_NS`] are one request.
#[derive(Clone, Copy, Debug, Default)]
pub struct EndRequests(Option<Mono>);

impl EndRequests {
    /// Counts a signal that was taken at `now`; `None` when the signal repeats a request.
    pub fn count(&mut self, now: Mono) -> Option<EndRequest> {
        let request = match self.0 {
            None => EndRequest::First,
            Some(last) if now.since(last) < ONE_REQUEST_NS => return None,
            Some(_) => EndRequest::Again,
        };
        self.0 = Some(now);
        Some(request)
    }
}

/// Has `requested` called, on a thread of its own, for each request to this process to end: Ctrl-C,
/// a request to terminate, a terminal that goes away. The process does not end by itself from then
/// on. To be called once.
///
/// # Errors
/// When it was called before, or the system refuses.
pub fn on_end_request(mut requested: impl FnMut(EndRequest) + Send + 'static) -> io::Result<()> {
    let (clock, mut requests) = (Clock::new(), EndRequests::default());
    let signalled = move || {
        if let Some(request) = requests.count(clock.now()) {
            requested(request);
        }
    };
    #[cfg(target_os = "linux")]
    return ending::on_signal(signalled);
    #[cfg(not(target_os = "linux"))]
    ctrlc::set_handler(signalled).map_err(io::Error::other)
}

#[cfg(target_os = "linux")]
mod ending {
    use crate::signals::{HANG_UP, INTERRUPT, TERMINATE};
    use crate::sys::{linux, terminal};
    use std::fs::File;
    use std::io::{self, Read as _, Write as _};
    use std::sync::OnceLock;

    static COUNTER: OnceLock<File> = OnceLock::new();

    /// The signals' handler: an atomic load and a write call, both of which may be done in one.
    extern "C" fn count(_: i32) {
        if let Some(mut counter) = COUNTER.get() {
            // A counter takes 2^64 of them.
            let _ = counter.write(&1_u64.to_ne_bytes());
        }
    }

    pub(super) fn on_signal(mut signalled: impl FnMut() + Send + 'static) -> io::Result<()> {
        let mut counter = File::from(linux::eventfd(libc::EFD_SEMAPHORE)?);
        COUNTER.set(counter.try_clone()?).map_err(|_| io::ErrorKind::AlreadyExists)?;
        let listen = move || {
            // Each reading takes one off, and waits where there is none.
            while counter.read_exact(&mut [0; 8]).is_ok() {
                signalled();
            }
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(listen)?;
        [INTERRUPT, TERMINATE, HANG_UP]
            .into_iter()
            .try_for_each(|signal| terminal::always_call_at(signal, count))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::signals::{HANG_UP, INTERRUPT, TERMINATE};
    use std::process::Command;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    const INSIDE: &str = "NETCALIPER_TEST_END";

    /// Times are arguments: in milliseconds, from the first signal on.
    #[test]
    fn signals_within_half_a_second_are_one_request() {
        use EndRequest::{Again, First};
        let counted = |signals: &[u64]| {
            let mut requests = EndRequests::default();
            let count = |ms: &u64| requests.count(Mono(7_000_000_000 + ms * 1_000_000));
            signals.iter().map(count).collect::<Vec<_>>()
        };
        assert_eq!(counted(&[0, 0, 0]), [Some(First), None, None]);
        assert_eq!(counted(&[0, 499, 500]), [Some(First), None, Some(Again)]);
        // The half second begins with the request, so that a signal every 0.3 s does end the
        // process.
        assert_eq!(counted(&[0, 300, 600, 900, 1_200]), [Some(First), None, Some(Again), None, Some(Again)]);
    }

    /// In a process of its own: this one is to end at a signal.
    #[test]
    fn every_request_to_end_is_reported() {
        if std::env::var_os(INSIDE).is_none() {
            let _starts = crate::testing::starts();
            let mut own = Command::new(std::env::current_exe().unwrap());
            own.args(["--exact", "process::tests::every_request_to_end_is_reported"]).env(INSIDE, "1");
            let output = own.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
            return;
        }
        let (report, requests) = channel();
        on_end_request(move |request| report.send(request).unwrap()).unwrap();
        let signal = |number| crate::netns::signal(std::process::id(), number).unwrap();
        let next = || requests.recv_timeout(Duration::from_secs(20)).unwrap();
        // As `timeout` does: the process, and then its group.
        signal(TERMINATE);
        signal(INTERRUPT);
        assert_eq!(next(), EndRequest::First);
        for number in [INTERRUPT, TERMINATE, HANG_UP] {
            std::thread::sleep(Duration::from_nanos(ONE_REQUEST_NS));
            signal(number);
            assert_eq!(next(), EndRequest::Again);
        }
        assert!(requests.try_recv().is_err(), "each is reported once");
        assert_eq!(on_end_request(|_| ()).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }
}
