//! Threads that wait for pipes, sockets and processes, and their shared parts.

use crate::message::bounded;
use std::io::{self, Read};
use std::process::Child;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Stack of a thread, bytes.
const STACK: usize = 256 << 10;
/// Interval of the checks for a process's end.
const LOOK: Duration = Duration::from_millis(2);
/// Most bytes that are kept of a process's standard error.
const MAX_SAID: u64 = 4096;

/// Starts a thread.
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(body)
}

/// Says that a thread could not be started.
pub(crate) fn no_thread(error: io::Error) -> String {
    format!("cannot start a thread: {error}")
}

/// Locks a mutex, also where a thread panicked with it: its data is whole at every moment.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the beginning of a process's standard error; the rest is thrown away.
pub(crate) fn read_stderr(pipe: Option<impl Read + Send + 'static>) -> io::Result<JoinHandle<String>> {
    spawn("said", move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.by_ref().take(MAX_SAID).read_to_end(&mut bytes);
            let _ = io::copy(&mut pipe, &mut io::sink());
        }
        bounded(String::from_utf8_lossy(&bytes).trim())
    })
}

/// The exit code of a process that has closed its output. One that lingers for longer than `most`
/// is killed; other threads may end the process meanwhile.
pub(crate) fn wait(process: &Mutex<Child>, most: Duration) -> Option<i32> {
    for _ in 0..most.as_millis() / LOOK.as_millis() {
        let ended = lock(process).try_wait().ok()?;
        if let Some(status) = ended {
            return status.code();
        }
        thread::sleep(LOOK);
    }
    // SIGKILL cannot be ignored: the wait is short.
    let _ = lock(process).kill();
    let ended = lock(process).wait();
    ended.ok().and_then(|status| status.code())
}
