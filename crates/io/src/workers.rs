//! Worker processes: this program once more, whose standard input is a connection to the process
//! that has started it.

use crate::Stream;
use metrics::real;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest time until a worker process is ready.
const PATIENCE: Duration = Duration::from_secs(20);
/// Interval of the looks whether the start is still wanted.
const LOOK: Duration = Duration::from_millis(100);

/// A worker process that has been started.
#[derive(Debug)]
pub struct Starting {
    stream: UnixStream,
    /// `None` once it is ready.
    child: Option<Child>,
}

/// Starts this program with these arguments. The process has a group of its own, so that a
/// terminal's Ctrl-C reaches this process alone: a worker process ends when its connection does.
///
/// # Errors
/// When the system refuses.
pub fn start(arguments: &[String]) -> io::Result<Starting> {
    let (stream, theirs) = UnixStream::pair()?;
    let child = Command::new("/proc/self/exe")
        .args(arguments)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()?;
    cpu_times().running.insert(child.id(), (0.0, 0.0));
    Ok(Starting { stream, child: Some(child) })
}

impl Starting {
    /// Waits until it is ready, or until `is_over`: returns the connection to it, and the handle to
    /// wait for its end.
    ///
    /// # Errors
    /// When it ends instead, takes too long, or is not wanted any more.
    pub fn ready(mut self, is_over: &dyn Fn() -> bool) -> io::Result<(Stream, Child)> {
        let until = Instant::now() + PATIENCE;
        self.stream.set_read_timeout(Some(LOOK))?;
        loop {
            match self.stream.read_exact(&mut [0]) {
                Ok(()) => break,
                Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Err(error);
                }
                Err(_) if is_over() => return Err(ErrorKind::Interrupted.into()),
                Err(error) if Instant::now() >= until => return Err(error),
                Err(_) => {}
            }
        }
        let child = self.child.take().ok_or(ErrorKind::NotFound)?;
        Ok((Stream::of_local(self.stream.try_clone()?)?, child))
    }
}

impl Drop for Starting {
    /// One that is not ready may be stopped, and would not notice that its connection has ended.
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
            forget(child.id());
        }
    }
}

/// CPU times of the worker processes of this one, in user mode and in the kernel, seconds.
struct CpuTimes {
    /// As they were last read, by process.
    running: BTreeMap<u32, (f64, f64)>,
    /// Of all that have ended.
    ended: (f64, f64),
}

static CPU_TIMES: Mutex<CpuTimes> = Mutex::new(CpuTimes { running: BTreeMap::new(), ended: (0.0, 0.0) });

fn cpu_times() -> MutexGuard<'static, CpuTimes> {
    CPU_TIMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the CPU times of a worker process once more, before it is asked whether it has ended.
pub fn read_again(process: u32) {
    if let (Some(used), Some(now)) = (cpu_times().running.get_mut(&process), read(process)) {
        *used = now;
    }
}

/// Keeps the CPU times of a worker process that has ended as they were last read: another process
/// may have its number now.
pub fn forget(process: u32) {
    let mut times = cpu_times();
    if let Some((user, system)) = times.running.remove(&process) {
        times.ended.0 += user;
        times.ended.1 += system;
    }
}

/// CPU time of all worker processes that this process has started, in user mode and in the kernel,
/// seconds. An ended process has its last reading.
pub(crate) fn cpu_use() -> (f64, f64) {
    let mut times = cpu_times();
    let (mut user, mut system) = times.ended;
    for (process, used) in &mut times.running {
        *used = read(*process).unwrap_or(*used);
        user += used.0;
        system += used.1;
    }
    (user, system)
}

fn read(process: u32) -> Option<(f64, f64)> {
    used_by(&std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// `utime` and `stime` of /proc/PID/stat (proc(5)), whose second field is a name in parentheses.
fn used_by(stat: &str) -> Option<(f64, f64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut times = rest.split_whitespace().skip(11).map(|ticks| ticks.parse::<u64>().ok());
    let ticks = real(crate::host::ticks_per_second());
    Some((real(times.next()??) / ticks, real(times.next()??) / ticks))
}

/// In a worker process: says that it is ready. The connection to the process that has started it.
///
/// # Errors
/// When standard input is no such connection.
pub fn ready() -> io::Result<Stream> {
    let mut stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    stream.write_all(&[1])?;
    Stream::of_local(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_times_are_the_fourteenth_and_fifteenth_field() {
        let ticks = crate::host::ticks_per_second();
        let stat =
            format!("5 (a) b (c)) S 1 5 5 0 -1 4194304 99 0 0 0 {} {} 7 8 20 0 1 0", 3 * ticks, ticks / 2);
        assert_eq!(used_by(&stat), Some((3.0, 0.5)));
        assert_eq!(used_by("5 (a) S 1"), None);
    }

    #[test]
    fn a_process_that_has_ended_is_read_no_more_and_its_time_stays() {
        let process = std::process::id();
        cpu_times().running.insert(process, (0.0, 0.0));
        while cpu_use() == (0.0, 0.0) {}
        let (user, system) = cpu_use();
        forget(process);
        forget(process);
        assert!(!cpu_times().running.contains_key(&process));
        let (user_then, system_then) = cpu_use();
        assert!(user_then >= user && system_then >= system && cpu_use() == (user_then, system_then));
    }
}
