//! A key that ends a run.

use engine::Interrupt;
use io::Keys;

/// Any key pressed at the terminal asks `interrupt` for the end, as long as the result lives;
/// `None` where there is no terminal.
pub fn interrupt_by_any_key(interrupt: &Interrupt) -> Option<Keys> {
    let keys = Keys::listen()?;
    let asked = interrupt.clone();
    let listen = move || {
        if Keys::pressed() {
            asked.ask();
        }
    };
    // The thread waits for ever if no key is pressed, and ends with the process.
    std::thread::Builder::new().name("keys".to_owned()).spawn(listen).ok()?;
    Some(keys)
}
