//! System calls of Linux, macOS and FreeBSD that std and socket2 do not offer, made safe: one call a
//! function.

use metrics::Clamped;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The result of a call that answers -1 on failure.
pub(super) fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Sets a socket option that has no name in socket2.
#[cfg(target_os = "linux")]
pub(crate) fn set_option(fd: BorrowedFd<'_>, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    let len = value.len() as libc::socklen_t;
    // SAFETY: the kernel reads at most `len` bytes, which `value` has.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, value.as_ptr().cast(), len) }).map(drop)
}

/// Reads a socket option; how many bytes of `value` it filled.
pub(crate) fn get_option(fd: BorrowedFd<'_>, level: i32, name: i32, value: &mut [u8]) -> io::Result<usize> {
    let mut len = value.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, which `value` has, and then the true length
    // into `len`.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut len) })?;
    Ok((usize::clamped(len)).min(value.len()))
}

/// Number of files that the process may open: the limit in force, and the highest it may be raised
/// to.
pub fn rlimit_nofile() -> Option<(u64, u64)> {
    /// A limit whose type differs between systems; "unlimited" is the largest number.
    fn files<T: TryInto<u64>>(limit: T) -> u64 {
        limit.try_into().unwrap_or(u64::MAX)
    }
    let limit = limit()?;
    Some((files(limit.rlim_cur), files(limit.rlim_max)))
}

fn limit() -> Option<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the reference is to an rlimit, which is all that getrlimit writes.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }).ok()?;
    Some(limit)
}

/// Raises the limit of open files to the highest permitted one, and returns both limits as they are
/// then.
pub fn raise_nofile() -> Option<(u64, u64)> {
    /// The most that macOS grants where the highest limit is "unlimited" (`OPEN_MAX`).
    const GRANTED: u64 = 10_240;
    /// The number in the type of a limit.
    fn raised<T: TryFrom<u64>>(files: u64, _: T) -> Option<T> {
        T::try_from(files).ok()
    }
    let (soft, hard) = rlimit_nofile()?;
    for wanted in [hard, GRANTED.min(hard)] {
        let mut limit = limit()?;
        let Some(raised) = raised(wanted, limit.rlim_cur).filter(|_| soft < wanted) else { continue };
        limit.rlim_cur = raised;
        // SAFETY: setrlimit only reads the rlimit behind the reference.
        if check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }).is_ok() {
            break;
        }
    }
    rlimit_nofile()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_open_files_can_be_raised_to_its_ceiling() {
        let (_, hard) = rlimit_nofile().unwrap();
        assert_eq!(raise_nofile(), Some((hard, hard)));
        assert_eq!(rlimit_nofile(), Some((hard, hard)));
    }
}
