//! Keys pressed at the terminal, and its size.

/// While this value lives, the terminal gives keys one by one; afterwards, or when the process ends
/// before, it is as it was. One exists at a time.
#[derive(Debug)]
pub struct Keys(());

/// A job-control signal that another process sent to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// Request to stop (`kill -TSTP`): see [`Keys::stop_alone`].
    Stop,
    /// Continuation after a stop without a request (`kill -STOP`): the terminal may have been
    /// changed.
    GoOn,
}

#[cfg(target_os = "linux")]
mod linux {
    use super::{Called, Keys};
    use crate::sys::terminal::{self, StopScope, Termios};
    use std::fs::File;
    use std::io::{self, Read};
    use std::os::fd::{AsFd, OwnedFd};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Mutex, Once, PoisonError};

    /// The terminal, how it was before and how it is meanwhile.
    struct Before {
        terminal: OwnedFd,
        was: Termios,
        is: Termios,
    }

    static BEFORE: Mutex<Option<Before>> = Mutex::new(None);
    static ONCE: Once = Once::new();
    /// True while a thread reads keys.
    static HEARS: AtomicBool = AtomicBool::new(false);
    /// Signals that have not been taken yet.
    static STOP: AtomicBool = AtomicBool::new(false);
    static GO_ON: AtomicBool = AtomicBool::new(false);

    extern "C" fn on_stop(_: i32) {
        STOP.store(true, Ordering::Release);
    }

    extern "C" fn on_continue(_: i32) {
        GO_ON.store(true, Ordering::Release);
    }

    /// Does something with the terminal, if there is one.
    fn with<T>(deed: impl FnOnce(&Before) -> T) -> Option<T> {
        BEFORE.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(deed)
    }

    extern "C" fn restore() {
        let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(before) = before {
            // Nothing can be done about a terminal that is gone.
            let _ = terminal::behave(before.terminal.as_fd(), &before.was);
        }
    }

    impl Keys {
        /// Has stdin give keys one by one; `None` where it is no terminal, or another program's at
        /// the moment.
        pub fn listen() -> Option<Keys> {
            Keys::take(io::stdin().as_fd().try_clone_to_owned().ok()?, terminal::key_by_key)
        }

        /// Keys of the controlling terminal, even when stdin is no terminal; Ctrl-Z and Ctrl-\ are
        /// keys, too, and a stop signal from another process is [reported](Keys::called) before
        /// this process stops.
        pub fn at_terminal() -> Option<Keys> {
            let terminal = File::options().read(true).write(true).open("/dev/tty").ok()?;
            let keys = Keys::take(terminal.into(), |was| terminal::unstopped(&terminal::key_by_key(was)))?;
            HEARS.store(true, Ordering::Release);
            terminal::call_at(libc::SIGTSTP, on_stop);
            terminal::call_at(libc::SIGCONT, on_continue);
            Some(keys)
        }

        /// The job-control signal since the last call. A stop takes effect only when this is
        /// called.
        pub fn called(&self) -> Option<Called> {
            if STOP.swap(false, Ordering::AcqRel) {
                return Some(Called::Stop);
            }
            GO_ON.swap(false, Ordering::AcqRel).then_some(Called::GoOn)
        }

        fn take(terminal: OwnedFd, manners: impl Fn(&Termios) -> Termios) -> Option<Keys> {
            let was = terminal::manners(terminal.as_fd()).ok()?;
            if !terminal::in_front(terminal.as_fd()) {
                return None;
            }
            let is = manners(&was);
            *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Before { terminal, was, is });
            ONCE.call_once(|| terminal::at_exit(restore));
            // Dropping `keys` on failure restores the terminal.
            let keys = Keys(());
            with(|before| terminal::behave(before.terminal.as_fd(), &before.is))?.ok()?;
            Some(keys)
        }

        /// Waits for a key at stdin; false when there will be none.
        pub fn pressed() -> bool {
            io::stdin().read(&mut [0]).is_ok_and(|n| n > 0)
        }

        /// Reads typed bytes, for `ms` at most; returns their number, or `None` for none.
        ///
        /// # Errors
        /// When there will be nothing more: the terminal is gone.
        pub fn typed(&self, ms: u16, into: &mut [u8]) -> io::Result<Option<usize>> {
            // The lock is released first: another thread may have to restore the terminal.
            let terminal = with(|before| before.terminal.try_clone()).ok_or(io::ErrorKind::NotFound)??;
            terminal::typed(terminal.as_fd(), ms.into(), into)
        }

        /// Columns and rows of the terminal; `None` when it is gone.
        pub fn size(&self) -> Option<(u16, u16)> {
            with(|before| terminal::size(before.terminal.as_fd()).ok())?
        }

        /// True if this process is in the foreground of the terminal; nothing is to be shown there
        /// otherwise.
        pub fn in_front(&self) -> bool {
            with(|before| terminal::in_front(before.terminal.as_fd())).unwrap_or(false)
        }

        /// Restores the terminal, stops this process and its group, as Ctrl-Z does, and has the
        /// terminal give keys again when they continue.
        pub fn stop(&self) {
            self.halt(StopScope::Group);
        }

        /// The same of this process alone, as requested.
        pub fn stop_alone(&self) {
            self.halt(StopScope::Own);
        }

        fn halt(&self, scope: StopScope) {
            with(|before| terminal::behave(before.terminal.as_fd(), &before.was));
            terminal::stop(scope);
            self.again();
        }

        /// Sets the terminal to single keys again, after another program has changed that.
        pub fn again(&self) {
            if self.in_front() {
                with(|before| terminal::behave(before.terminal.as_fd(), &before.is));
            }
        }
    }

    impl Drop for Keys {
        fn drop(&mut self) {
            restore();
            if HEARS.swap(false, Ordering::AcqRel) {
                terminal::as_usual(libc::SIGTSTP);
                terminal::as_usual(libc::SIGCONT);
                // The stop arrived when `called` was not called any more.
                if STOP.swap(false, Ordering::AcqRel) {
                    terminal::stop(StopScope::Own);
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Keys {
    /// Keys are not listened to here.
    pub fn listen() -> Option<Keys> {
        None
    }

    pub fn at_terminal() -> Option<Keys> {
        None
    }

    /// No key is ever pressed.
    pub fn pressed() -> bool {
        false
    }

    /// No key is ever pressed.
    pub fn typed(&self, _ms: u16, _into: &mut [u8]) -> std::io::Result<Option<usize>> {
        Err(crate::sys::unsupported())
    }

    pub fn size(&self) -> Option<(u16, u16)> {
        None
    }

    pub fn in_front(&self) -> bool {
        false
    }

    /// No signals here.
    pub fn called(&self) -> Option<Called> {
        None
    }

    /// Nothing was changed.
    pub fn stop(&self) {}

    pub fn stop_alone(&self) {}

    pub fn again(&self) {}
}
