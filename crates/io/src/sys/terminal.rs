//! Linux system calls around the terminal, made safe: one call a function.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

/// How a terminal treats what is typed.
pub(crate) type Manners = libc::termios;

/// How the terminal `fd` treats what is typed now; an error when it is none.
pub(crate) fn manners(fd: BorrowedFd<'_>) -> io::Result<Manners> {
    let mut manners = MaybeUninit::<Manners>::uninit();
    // SAFETY: the pointer is to memory for one termios, which the call fills in when it answers 0.
    if unsafe { libc::tcgetattr(fd.as_raw_fd(), manners.as_mut_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above has answered 0, and so filled it in.
    Ok(unsafe { manners.assume_init() })
}

/// Has the terminal treat what is typed like that from now on.
pub(crate) fn behave(fd: BorrowedFd<'_>, manners: &Manners) -> io::Result<()> {
    // SAFETY: the pointer is to a whole termios, which the call only reads.
    let done = unsafe { libc::tcsetattr(fd.as_raw_fd(), libc::TCSANOW, manners) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The same manners, but each key is given at once and not shown. Ctrl-C stays a signal.
pub(crate) fn key_by_key(manners: &Manners) -> Manners {
    let mut each = *manners;
    each.c_lflag &= !(libc::ICANON | libc::ECHO);
    each.c_cc[libc::VMIN] = 1;
    each.c_cc[libc::VTIME] = 0;
    each
}

/// The same manners, but what is typed is not shown.
pub(crate) fn unseen(manners: &Manners) -> Manners {
    let mut unseen = *manners;
    unseen.c_lflag &= !libc::ECHO;
    unseen
}

/// Whether this process is in the foreground of the terminal `fd`: one in the background would be stopped for touching it.
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
