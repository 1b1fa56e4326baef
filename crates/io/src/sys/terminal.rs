//! Linux system calls around the terminal, made safe: one call a function.

use super::unix::check;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A terminal's treatment of typed text.
pub(crate) type Termios = libc::termios;

/// The terminal's present treatment of typed text; an error when `fd` is no terminal.
pub(crate) fn manners(fd: BorrowedFd<'_>) -> io::Result<Termios> {
    // SAFETY: a termios is plain integers, for which zeros are a value.
    let mut manners: Termios = unsafe { zeroed() };
    // SAFETY: the reference is to a termios, which is all that the call writes.
    check(unsafe { libc::tcgetattr(fd.as_raw_fd(), &mut manners) })?;
    Ok(manners)
}

/// Sets the terminal's treatment of typed text.
pub(crate) fn behave(fd: BorrowedFd<'_>, manners: &Termios) -> io::Result<()> {
    // SAFETY: the pointer is to a whole termios, which the call only reads.
    check(unsafe { libc::tcsetattr(fd.as_raw_fd(), libc::TCSANOW, manners) }).map(drop)
}

/// The same manners, but each key is given at once and not shown. Ctrl-C stays a signal.
pub(crate) fn key_by_key(manners: &Termios) -> Termios {
    let mut each = *manners;
    each.c_lflag &= !(libc::ICANON | libc::ECHO);
    each.c_cc[libc::VMIN] = 1;
    each.c_cc[libc::VTIME] = 0;
    each
}

/// The same manners, but the keys that stop a program (Ctrl-Z) or end it with a core dump (Ctrl-\\)
/// are keys like others: who has changed the screen wants to put it back first.
pub(crate) fn unstopped(manners: &Termios) -> Termios {
    let mut unstopped = *manners;
    for key in [libc::VSUSP, libc::VQUIT] {
        unstopped.c_cc[key] = libc::_POSIX_VDISABLE;
    }
    unstopped
}

/// The same manners without echo.
pub(crate) fn unseen(manners: &Termios) -> Termios {
    let mut unseen = *manners;
    unseen.c_lflag &= !libc::ECHO;
    unseen
}

/// True if this process is in the foreground of the terminal `fd`: one in the background would be
/// stopped for touching it.
pub(crate) fn in_front(fd: BorrowedFd<'_>) -> bool {
    // SAFETY: takes a number.
    let front = unsafe { libc::tcgetpgrp(fd.as_raw_fd()) };
    // SAFETY: takes nothing.
    let own = unsafe { libc::getpgrp() };
    front == own
}

/// Has `last` called when the process ends by `exit`, whichever thread ends it.
pub(crate) fn at_exit(last: extern "C" fn()) {
    // SAFETY: the function lives as long as the program and takes nothing.
    let _ = unsafe { libc::atexit(last) };
}

/// Columns and rows of the terminal `fd`; an error when it is none.
pub(crate) fn size(fd: BorrowedFd<'_>) -> io::Result<(u16, u16)> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the request writes one winsize, and the pointer is to one.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) })?;
    Ok((size.ws_col, size.ws_row))
}

/// Reads bytes typed at the terminal `fd`, for `ms` at most; returns their number, or `None` for
/// none.
///
/// # Errors
/// When there will be nothing more: the terminal is gone.
pub(crate) fn typed(fd: BorrowedFd<'_>, ms: i32, into: &mut [u8]) -> io::Result<Option<usize>> {
    let mut wait = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the pointer is to one pollfd, and 1 is how many there are.
    let ready = unsafe { libc::poll(&raw mut wait, 1, ms) };
    if ready == 0 {
        return Ok(None);
    }
    let n = if ready < 0 {
        -1
    } else {
        // SAFETY: pointer and length are a slice's that is ours to write.
        unsafe { libc::read(fd.as_raw_fd(), into.as_mut_ptr().cast(), into.len()) }
    };
    match usize::try_from(n) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(n) => Ok(Some(n)),
        Err(_) => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            error => Err(error),
        },
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopScope {
    /// This process and all others of its group, as Ctrl-Z does.
    Group,
    Own,
}

/// Stops until SIGCONT, with the default action instead of a handler ([`call_at`]); a program that
/// ignores the signal goes on at once.
pub(crate) fn stop(scope: StopScope) {
    if ignored(libc::SIGTSTP) {
        return;
    }
    let handled = [libc::SIGTSTP, libc::SIGCONT].map(|signal| (signal, handle(signal, libc::SIG_DFL)));
    // SAFETY: takes nothing.
    let own = unsafe { libc::getpid() };
    let process = if scope == StopScope::Group { 0 } else { own };
    // SAFETY: takes numbers; 0 is the own group.
    let _ = unsafe { libc::kill(process, libc::SIGTSTP) };
    // The signal reaches the threads one after the other: this one must not go on as if it were
    // over.
    std::thread::sleep(STOPPING);
    for (signal, handler) in handled {
        if let Some(handler) = handler {
            handle(signal, handler);
        }
    }
}

/// Much longer than a signal takes to stop all threads.
const STOPPING: std::time::Duration = std::time::Duration::from_millis(100);

/// Installs `called` as handler of the signal, unless the program is to ignore it. A handler may do
/// no more than store a number.
pub(crate) fn call_at(signal: i32, called: extern "C" fn(i32)) {
    if !ignored(signal) {
        handle(signal, called as *const () as libc::sighandler_t);
    }
}

/// Installs `called` as handler of the signal, also where the program was to ignore it. A handler
/// may do no more than store a number, or write to a descriptor.
pub(crate) fn always_call_at(signal: i32, called: extern "C" fn(i32)) -> io::Result<()> {
    let done = handle(signal, called as *const () as libc::sighandler_t);
    done.map(drop).ok_or_else(io::Error::last_os_error)
}

/// Restores the signal's usual effect, unless the program is to ignore it.
pub(crate) fn as_usual(signal: i32) {
    if !ignored(signal) {
        handle(signal, libc::SIG_DFL);
    }
}

/// True if the program is to ignore the signal.
fn ignored(signal: i32) -> bool {
    // SAFETY: zeros are a whole sigaction.
    let mut now: libc::sigaction = unsafe { zeroed() };
    // SAFETY: without a new action nothing changes; the pointer is to a sigaction, which is all
    // that the call writes.
    let answer = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut now) };
    answer == 0 && now.sa_sigaction == libc::SIG_IGN
}

/// Sets the handler of a signal and returns the one before. System calls that the signal interrupts
/// are restarted, where the kernel can.
fn handle(signal: i32, handler: libc::sighandler_t) -> Option<libc::sighandler_t> {
    // SAFETY: zeros are a whole sigaction: no flags, nothing blocked.
    let [mut action, mut before]: [libc::sigaction; 2] = unsafe { zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: both pointers are to a sigaction each; the handler is one of the system's, or a
    // function that lives as long as the program, takes one number and does what may be done in a
    // signal's handler (see the callers).
    let answer = unsafe { libc::sigaction(signal, &raw const action, &raw mut before) };
    (answer == 0).then_some(before.sa_sigaction)
}
