//! Signals as something that is waited for, and who sent them.

use crate::sys::space;
use std::io;

/// Interrupt: Ctrl-C.
pub const INTERRUPT: i32 = libc::SIGINT;
/// Request to end.
pub const TERMINATE: i32 = libc::SIGTERM;
/// The terminal is gone.
pub const HANG_UP: i32 = libc::SIGHUP;
/// End that a process cannot catch.
pub const KILL: i32 = libc::SIGKILL;
/// A child has ended.
pub const CHILD: i32 = libc::SIGCHLD;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    pub number: i32,
    /// True if the kernel sent it, as it does to all of the terminal's foreground group at Ctrl-C;
    /// else a process sent it, to this one.
    pub from_kernel: bool,
}

/// Signals without their usual effect on the process: they are kept until [`Signals::wait`] takes
/// them.
#[derive(Debug)]
pub struct Signals(Vec<i32>);

impl Signals {
    /// Holds these signals back from the calling thread and all that it starts from now on: to be
    /// called before the program has other threads.
    ///
    /// # Errors
    /// When one is not a signal's number.
    pub fn hold(numbers: &[i32]) -> io::Result<Self> {
        space::set_mask(libc::SIG_BLOCK, numbers)?;
        Ok(Signals(numbers.to_vec()))
    }

    /// Waits for the next, `ns` nanoseconds at most (`None`: for ever). `None` without one, or when
    /// the wait was interrupted.
    pub fn wait(&self, ns: Option<u64>) -> io::Result<Option<Signal>> {
        space::wait_signal(&self.0, ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_signal_waits_to_be_asked_for() {
        // No other test of this process uses real-time signals.
        let number = libc::SIGRTMIN() + 3;
        let got = std::thread::spawn(move || {
            let signals = Signals::hold(&[number]).unwrap();
            assert_eq!(signals.wait(Some(1_000_000)).unwrap(), None);
            let tid = std::fs::read_link("/proc/thread-self").unwrap();
            let tid: u32 = tid.file_name().unwrap().to_str().unwrap().parse().unwrap();
            (signals, tid)
        });
        // Only that the time passes is shown here; the command tests send real ones.
        assert!(got.join().unwrap().1 > 0);
    }
}
