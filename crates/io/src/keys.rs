//! A key pressed at the terminal.

/// The terminal gives keys one by one while this lives; then it is as it was. Also when the process ends before.
#[derive(Debug)]
pub struct Keys(());

#[cfg(target_os = "linux")]
mod linux {
    use super::Keys;
    use crate::sys::terminal::{self, Manners};
    use std::io::{self, Read};
    use std::os::fd::AsFd as _;
    use std::sync::{Mutex, Once, PoisonError};

    /// How the terminal was before.
    static BEFORE: Mutex<Option<Manners>> = Mutex::new(None);
    static ONCE: Once = Once::new();

    extern "C" fn restore() {
        let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(before) = before {
            // Nothing can be done about a terminal that is gone.
            let _ = terminal::behave(io::stdin().as_fd(), &before);
        }
    }

    impl Keys {
        /// Has stdin give keys one by one; `None` where it is no terminal, or another program's at the moment.
        #[must_use]
        pub fn listen() -> Option<Keys> {
            let stdin = io::stdin();
            let before = terminal::manners(stdin.as_fd()).ok()?;
            if !terminal::in_front(stdin.as_fd()) {
                return None;
            }
            *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
            ONCE.call_once(|| terminal::at_exit(restore));
            terminal::behave(stdin.as_fd(), &terminal::key_by_key(&before)).ok()?;
            Some(Keys(()))
        }

        /// Waits for a key; false when there will be none.
        #[must_use]
        pub fn pressed() -> bool {
            io::stdin().read(&mut [0]).is_ok_and(|n| n > 0)
        }
    }

    impl Drop for Keys {
        fn drop(&mut self) {
            restore();
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Keys {
    /// Keys are not listened to here.
    #[must_use]
    pub fn listen() -> Option<Keys> {
        None
    }

    /// There will be none.
    #[must_use]
    pub fn pressed() -> bool {
        false
    }
}
