//! The terminal's screen: which stream it is, and its restoration on every way out.

use crate::error::lock;
use std::cell::Cell;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, TryLockError};
use std::time::Duration;

/// Shows the cursor, and gives the first screen back.
pub const LEAVE: &[u8] = b"\x1b[?25h\x1b[?1049l";
/// True while the screen is the view's.
pub static UP: AtomicBool = AtomicBool::new(false);
/// Held while writing to the terminal.
static PEN: Mutex<()> = Mutex::new(());
/// Place of the screen; written once.
static PLACE: Mutex<Place> = Mutex::new(Place::Stdout);

thread_local! {
    /// True while this thread has the pen.
    static DRAWING: Cell<bool> = const { Cell::new(false) };
}

/// Stream of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Stdout,
    Stderr,
}

impl Place {
    pub fn writer(self) -> Box<dyn Write + Send> {
        match self {
            Place::Stdout => Box::new(io::stdout()),
            Place::Stderr => Box::new(io::stderr()),
        }
    }
}

/// The right to write to the terminal.
pub struct Pen(#[expect(dead_code, reason = "held, not read")] MutexGuard<'static, ()>);

impl Pen {
    pub fn take() -> Pen {
        let pen = lock(&PEN);
        DRAWING.set(true);
        Pen(pen)
    }
}

impl Drop for Pen {
    fn drop(&mut self) {
        DRAWING.set(false);
    }
}

/// Gives the screen back, if it is the view's, before the program ends at once. A terminal that
/// takes nothing gets nothing.
pub fn leave_at_once() {
    if !UP.swap(false, Ordering::AcqRel) {
        return;
    }
    // A thread that panics while drawing holds the pen already.
    if DRAWING.get() {
        return leave();
    }
    // Another thread may be drawing, which takes a moment; on a terminal that takes nothing it
    // would take for ever.
    for _ in 0..DRAWN_WITHIN_MS {
        match PEN.try_lock() {
            Ok(_) | Err(TryLockError::Poisoned(_)) => return leave(),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Longest drawing before the program ends without giving the screen back, ms.
const DRAWN_WITHIN_MS: u32 = 300;

pub fn leave() {
    let place = *lock(&PLACE);
    let mut out = place.writer();
    // A terminal that is gone needs nothing back.
    let _ = out.write_all(LEAVE).and_then(|()| out.flush());
}

/// Switches to the view's screen; a panic restores the terminal first.
pub fn take(place: Place) {
    *lock(&PLACE) = place;
    on_panic();
}

/// Restores the terminal before a panic message, so that the message stays.
fn on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            leave_at_once();
            usual(info);
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const INSIDE: &str = "NETCALIPER_TEST_PANIC";

    /// What a program prints that has the screen and panics: with the pen, as while it draws, or
    /// without, or while another thread has died with it.
    fn printed(how: &str) -> String {
        let itself = std::env::current_exe().unwrap();
        let mut command = Command::new(itself);
        command.args([
            "--exact",
            "terminal::tests::whoever_panics_says_so_on_a_screen_that_stays",
            "--nocapture",
        ]);
        let output = command.env(INSIDE, how).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    #[test]
    fn whoever_panics_says_so_on_a_screen_that_stays() {
        if let Ok(how) = std::env::var(INSIDE) {
            take(Place::Stderr);
            if how == "poisoned" {
                let _ = std::thread::spawn(|| {
                    let _pen = Pen::take();
                    panic!("the first one");
                })
                .join();
            }
            UP.store(true, Ordering::Release);
            let _pen = (how == "drawing").then(Pen::take);
            panic!("that is why");
        }
        for how in ["drawing", "idle", "poisoned"] {
            let printed = printed(how);
            let left =
                printed.find("\x1b[?1049l").unwrap_or_else(|| panic!("{how}: not given back: {printed:?}"));
            let shown = printed.find("\x1b[?25h").expect("the cursor is shown");
            let why = printed.find("that is why").expect("it says why");
            assert!(left < why && shown < why, "{how}: {printed:?}");
        }
    }
}
