//! This process: its terminal, and its way into the background.

use std::io;

/// Asks with `prompt` on standard error, and reads a line from standard input, without its end; where that is a terminal (Linux), what
/// is typed is not shown, not even what is typed as soon as the prompt is.
///
/// # Errors
/// When nothing can be read.
pub fn read_hidden(prompt: &str) -> io::Result<String> {
    #[cfg(target_os = "linux")]
    let _hidden = Hidden::new();
    io::Write::write_all(&mut io::stderr(), prompt.as_bytes())?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    line.truncate(line.trim_end_matches(['\r', '\n']).len());
    Ok(line)
}

/// While it lives, the terminal does not show what is typed.
#[cfg(target_os = "linux")]
struct Hidden(crate::sys::terminal::Manners);

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

/// Goes to the background: this process ends with success, and a child goes on in `/`, without a terminal. To be called before
/// there are other threads.
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
