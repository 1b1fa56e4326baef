//! Linux system calls that std and socket2 do not offer, made safe: one call a function.

use super::unix::check;
use metrics::Clamped;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

/// Words of a processor mask: 8192 cores.
const MASK_WORDS: usize = 128;

/// Set when the kernel turns out to be older than 5.11.
static NO_PWAIT2: AtomicBool = AtomicBool::new(false);

/// The kernel's time type of `epoll_pwait2`, on every architecture.
#[repr(C)]
struct KernelTime {
    seconds: i64,
    nanoseconds: i64,
}

/// The same as [`check`] for calls that answer a length.
fn check_len(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Takes a descriptor that a system call just made.
fn own(fd: i32) -> OwnedFd {
    // SAFETY: the callers pass a descriptor that the kernel has just returned and that has no other
    // owner.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// True if a descriptor of this number is open.
#[cfg(feature = "portable")]
pub(crate) fn is_open(number: i32) -> bool {
    // SAFETY: takes no pointers, and changes nothing.
    check(unsafe { libc::fcntl(number, libc::F_GETFD) }).is_ok()
}

pub(crate) fn epoll() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map(own)
}

/// A new counter that is zero. With `EFD_SEMAPHORE` each read takes one off, waiting where the
/// counter is zero.
pub(crate) fn eventfd(flags: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | flags) }).map(own)
}

/// Adds, changes or removes (`op`) a descriptor's registration.
pub(crate) fn epoll_ctl(
    epoll: &OwnedFd,
    op: i32,
    fd: BorrowedFd<'_>,
    events: i32,
    key: u64,
) -> io::Result<()> {
    let mut event = libc::epoll_event { events: events as u32, u64: key };
    // SAFETY: `event` outlives the call, and the kernel only reads it.
    check(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), op, fd.as_raw_fd(), &raw mut event) }).map(drop)
}

/// Waits for events, `ns` nanoseconds at most (`None`: for ever); returns their number.
pub(crate) fn epoll_wait(
    epoll: &OwnedFd,
    events: &mut [libc::epoll_event],
    ns: Option<u64>,
) -> io::Result<usize> {
    // Polling and waiting for ever need no clock, so the older and slightly cheaper call will do.
    if let Some(ns) = ns.filter(|&ns| ns > 0)
        && !NO_PWAIT2.load(Ordering::Relaxed)
    {
        match epoll_pwait2(epoll, events, ns) {
            // Old sandboxes answer EPERM to calls they do not know.
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                NO_PWAIT2.store(true, Ordering::Relaxed);
            }
            result => return result,
        }
    }
    epoll_wait_ms(epoll, events, ns)
}

/// The older call, in milliseconds: late rather than early.
fn epoll_wait_ms(epoll: &OwnedFd, events: &mut [libc::epoll_event], ns: Option<u64>) -> io::Result<usize> {
    let ms = ns.map_or(-1, |ns| i32::try_from(ns.div_ceil(1_000_000)).unwrap_or(i32::MAX));
    let room = i32::try_from(events.len()).unwrap_or(i32::MAX);
    // SAFETY: the kernel writes at most `room` events, and `events` holds as many.
    let n = unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), room, ms) };
    check(n).map(usize::clamped)
}

fn epoll_pwait2(epoll: &OwnedFd, events: &mut [libc::epoll_event], ns: u64) -> io::Result<usize> {
    let room = i32::try_from(events.len()).unwrap_or(i32::MAX);
    let time =
        KernelTime { seconds: (ns / metrics::SECOND) as i64, nanoseconds: (ns % metrics::SECOND) as i64 };
    // SAFETY: the kernel reads `time`, writes at most `room` events, of which `events` holds as
    // many, and takes a null mask as "leave the signal mask alone". All five arguments have the
    // width the call expects.
    let n = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_raw_fd(),
            events.as_mut_ptr(),
            room,
            &raw const time,
            null::<libc::sigset_t>(),
            0_usize,
        )
    };
    check_len(n as isize)
}

/// Receives and drops up to `n` bytes of a TCP stream unseen; how many they were.
pub(crate) fn recv_drop(fd: BorrowedFd<'_>, n: usize) -> io::Result<usize> {
    // SAFETY: with MSG_TRUNC a TCP socket copies nothing, so that no buffer is needed (tcp(7)); a
    // kernel that did copy would fail with EFAULT on the null pointer.
    check_len(unsafe { libc::recv(fd.as_raw_fd(), null_mut(), n, libc::MSG_TRUNC | libc::MSG_DONTWAIT) })
}

/// The kernel's estimate of its wall clock: error bound in µs, and true if something disciplines
/// it.
pub(crate) fn wall_clock_state() -> Option<(u64, bool)> {
    // SAFETY: `timex` is plain numbers, for which zero is a value; zero `modes` asks to read only.
    let mut timex: libc::timex = unsafe { zeroed() };
    // SAFETY: `timex` outlives the call, and the kernel writes no more than it holds.
    let state = check(unsafe { libc::adjtimex(&raw mut timex) }).ok()?;
    let synced = state != libc::TIME_ERROR && timex.status & libc::STA_UNSYNC == 0;
    Some((u64::try_from(timex.maxerror).unwrap_or(0), synced))
}

/// `CLOCK_MONOTONIC`, ns.
pub(crate) fn monotonic() -> u64 {
    // SAFETY: `timespec` is plain numbers, for which zero is a value.
    let mut time: libc::timespec = unsafe { zeroed() };
    // SAFETY: `time` outlives the call, and the kernel writes no more than it holds. Every Linux
    // has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    u64::clamped(time.tv_sec) * metrics::SECOND + u64::clamped(time.tv_nsec)
}

/// The cores that a thread may run on; 0 is the calling one.
pub(crate) fn affinity(thread: libc::pid_t) -> io::Result<Vec<usize>> {
    let mut mask = [0_u64; MASK_WORDS];
    // SAFETY: the kernel writes at most the given size, which `mask` has; the type is a plain bit
    // mask.
    check(unsafe { libc::sched_getaffinity(thread, size_of_val(&mask), mask.as_mut_ptr().cast()) })?;
    let mut cores = Vec::new();
    // Nearly all of the 8,192 bits are 0.
    for (word, bits) in mask.iter().enumerate().filter(|(_, bits)| **bits != 0) {
        cores.extend((0..64).filter(|bit| bits >> bit & 1 == 1).map(|bit| word * 64 + bit));
    }
    Ok(cores)
}

/// Lets the calling thread, and those it starts from now on, run on these cores only.
///
/// # Errors
/// When none of them may be used, or (`Unsupported`) outside Linux.
pub fn pin(cores: &[usize]) -> io::Result<()> {
    let mut mask = [0_u64; MASK_WORDS];
    for &core in cores {
        let word = mask.get_mut(core / 64).ok_or(io::ErrorKind::InvalidInput)?;
        *word |= 1 << (core % 64);
    }
    // SAFETY: the kernel reads at most the given size, which `mask` has; the type is a plain bit
    // mask.
    check(unsafe { libc::sched_setaffinity(0, size_of_val(&mask), mask.as_ptr().cast()) }).map(drop)
}

/// The core that the calling thread runs on at this moment; `None` outside Linux.
pub fn current_core() -> Option<usize> {
    // SAFETY: takes nothing.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Makes the calling thread's timers as precise as they get: by default Linux lets them be 50 µs
/// late to save power.
///
/// # Errors
/// `Unsupported` outside Linux.
pub fn precise_timers() -> io::Result<()> {
    const NS: libc::c_ulong = 1;
    // SAFETY: takes no pointers.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, NS) }).map(drop)
}

const _: () = assert!(size_of::<KernelTime>() == 16);

#[cfg(test)]
mod tests {
    use super::super::unix::{get_option, set_option};
    use super::*;
    use std::os::fd::AsFd as _;
    use std::time::{Duration, Instant};

    #[test]
    fn the_older_wait_is_never_early_and_tells_the_same() {
        let (epoll, bell) = (epoll().unwrap(), eventfd(libc::EFD_NONBLOCK).unwrap());
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
        for ns in [1, 1_200_000] {
            let begun = Instant::now();
            assert_eq!(epoll_wait_ms(&epoll, &mut events, Some(ns)).unwrap(), 0);
            assert!(begun.elapsed() >= Duration::from_nanos(ns));
        }
        epoll_ctl(&epoll, libc::EPOLL_CTL_ADD, bell.as_fd(), libc::EPOLLOUT, 77).unwrap();
        assert_eq!(epoll_wait_ms(&epoll, &mut events, None).unwrap(), 1);
        assert_eq!({ events[0].u64 }, 77);
        events[0].u64 = 0;
        assert_eq!(epoll_pwait2(&epoll, &mut events, 1_000_000_000).unwrap(), 1);
        assert_eq!({ events[0].u64 }, 77);
    }

    #[test]
    fn failures_are_errors() {
        let bell = eventfd(libc::EFD_NONBLOCK).unwrap();
        let error = recv_drop(bell.as_fd(), 10).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTSOCK));
        assert!(set_option(bell.as_fd(), libc::SOL_TCP, libc::TCP_NODELAY, &[0; 4]).is_err());
        assert!(get_option(bell.as_fd(), libc::SOL_TCP, libc::TCP_INFO, &mut [0; 8]).is_err());
    }

    #[test]
    fn the_wall_clock_has_a_state() {
        match wall_clock_state() {
            // NTP gives a clock up at 16 s of possible error.
            Some((us, synced)) => assert!(!synced || us < 16_000_000),
            None => crate::testing::skip("adjtimex is not allowed here"),
        }
    }
}
