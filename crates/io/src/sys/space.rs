//! Linux system calls around network namespaces, the devices in them and the programs run there,
//! made safe: one call a function.

use super::unix::check;
use crate::signals::Signal;
use std::io;
use std::mem::MaybeUninit;
use std::net::Ipv6Addr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::null_mut;

/// Puts the calling thread into a new network namespace. Needs `CAP_SYS_ADMIN`.
pub(crate) fn leave_network() -> io::Result<()> {
    // SAFETY: unshare takes no pointers, and CLONE_NEWNET concerns the calling thread alone.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

/// Puts the calling thread into the network namespace that `fd` names. Fit to be called between
/// fork and exec.
pub(crate) fn enter_network(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: setns takes no pointers, and with CLONE_NEWNET it concerns the calling thread alone.
    check(unsafe { libc::setns(fd.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Goes to the background: the caller ends and a child goes on in a session of its own, in `/`,
/// with `/dev/null` in the place of its standard streams. Other threads would be lost: there may be
/// none.
pub(crate) fn daemon() -> io::Result<()> {
    // SAFETY: takes numbers; the child has all of its parent's state, because no other thread was
    // running.
    check(unsafe { libc::daemon(0, 0) }).map(drop)
}

/// Has the calling process killed when the thread that started it ends; an error when `parent` is
/// gone already. Fit to be called between fork and exec.
pub(crate) fn die_with(parent: u32) -> io::Result<()> {
    // SAFETY: PR_SET_PDEATHSIG takes a number.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) })?;
    // SAFETY: takes nothing.
    let now = unsafe { libc::getppid() };
    if u32::try_from(now) == Ok(parent) { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
}

/// A name as `struct ifreq` wants it: at most 15 bytes and a zero.
pub(crate) fn interface_name(name: &str) -> Option<[libc::c_char; libc::IFNAMSIZ]> {
    if name.is_empty() || name.len() >= libc::IFNAMSIZ {
        return None;
    }
    let mut chars = [0; libc::IFNAMSIZ];
    for (to, from) in chars.iter_mut().zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    Some(chars)
}

/// A request about the interface of this name.
pub(crate) fn request(name: &str) -> io::Result<libc::ifreq> {
    let ifr_name = interface_name(name).ok_or(io::ErrorKind::InvalidInput)?;
    // The largest member, so that the whole union has a value.
    let ifru_map =
        libc::__c_anonymous_ifru_map { mem_start: 0, mem_end: 0, base_addr: 0, irq: 0, dma: 0, port: 0 };
    Ok(libc::ifreq { ifr_name, ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_map } })
}

/// Requests of [`interface`], by number. Each reads and writes no more than the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Make, or attach to, the TUN device of that name.
    Tun = libc::TUNSETIFF as isize,
    /// Set IPv4 address.
    Address = libc::SIOCSIFADDR as isize,
    /// Set IPv4 netmask.
    Netmask = libc::SIOCSIFNETMASK as isize,
    /// Set the largest packet.
    Mtu = libc::SIOCSIFMTU as isize,
    /// Set the length of the transmit queue.
    Queue = libc::SIOCSIFTXQLEN as isize,
    Flags = libc::SIOCGIFFLAGS as isize,
    SetFlags = libc::SIOCSIFFLAGS as isize,
    /// Read the interface's number.
    Index = libc::SIOCGIFINDEX as isize,
}

/// Asks the kernel, through any socket of the right namespace (or the TUN device's file), about an
/// interface.
pub(crate) fn interface(fd: BorrowedFd<'_>, ask: Ask, request: &mut libc::ifreq) -> io::Result<()> {
    let code = ask as isize;
    // SAFETY: all of these read and write a struct ifreq and nothing beyond it, and it outlives the
    // call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), code as _, std::ptr::from_mut(request)) }).map(drop)
}

/// The flags that [`Ask::Flags`] read.
pub(crate) fn flags(request: &libc::ifreq) -> libc::c_short {
    // SAFETY: any bytes are an integer.
    unsafe { request.ifr_ifru.ifru_flags }
}

/// The interface's number that [`Ask::Index`] read.
pub(crate) fn index(request: &libc::ifreq) -> libc::c_int {
    // SAFETY: any bytes are an integer.
    unsafe { request.ifr_ifru.ifru_ifindex }
}

/// An IPv4 socket address within a request.
pub(crate) fn inet(address: std::net::Ipv4Addr) -> libc::sockaddr {
    let mut sa_data = [0; 14];
    for (to, from) in sa_data[2..6].iter_mut().zip(address.octets()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data }
}

/// Gives an interface an IPv6 address, through an IPv6 socket of the right namespace.
pub(crate) fn add_inet6(fd: BorrowedFd<'_>, index: i32, address: Ipv6Addr, prefix: u8) -> io::Result<()> {
    let request = libc::in6_ifreq {
        ifr6_addr: libc::in6_addr { s6_addr: address.octets() },
        ifr6_prefixlen: u32::from(prefix),
        ifr6_ifindex: index,
    };
    // SAFETY: on an IPv6 socket SIOCSIFADDR only reads a struct in6_ifreq, which outlives the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCSIFADDR as _, &raw const request) }).map(drop)
}

/// Sends a process a signal.
///
/// # Errors
/// When there is no such process, or it may not be signalled.
pub fn kill(process: u32, signal: i32) -> io::Result<()> {
    let process = libc::pid_t::try_from(process).ok().filter(|p| *p > 1);
    let process = process.ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: takes no pointers; the number is that of one process, neither a group's nor
    // everybody's.
    check(unsafe { libc::kill(process, signal) }).map(drop)
}

fn set(signals: &[i32]) -> io::Result<libc::sigset_t> {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: sigemptyset writes the set that it is given, which has room for one.
    check(unsafe { libc::sigemptyset(set.as_mut_ptr()) })?;
    for &signal in signals {
        // SAFETY: sigaddset changes a set that was made just above.
        check(unsafe { libc::sigaddset(set.as_mut_ptr(), signal) })?;
    }
    // SAFETY: sigemptyset made it a set.
    Ok(unsafe { set.assume_init() })
}

/// Changes which signals are held back from the calling thread and those it starts from now on:
/// `SIG_BLOCK` adds these, with `SIG_SETMASK` there are no others. Fit to be called between fork
/// and exec.
pub(crate) fn set_mask(how: i32, signals: &[i32]) -> io::Result<()> {
    let set = set(signals)?;
    // SAFETY: the kernel reads the set, which outlives the call; the old one is not asked for.
    match unsafe { libc::pthread_sigmask(how, &raw const set, null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Waits for one of these (blocked) signals, `ns` nanoseconds at most (`None`: for ever). `None`
/// when the time is over or the wait was interrupted.
pub(crate) fn wait_signal(signals: &[i32], ns: Option<u64>) -> io::Result<Option<Signal>> {
    let set = set(signals)?;
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let result = match ns {
        // SAFETY: the kernel reads the set and writes the information, both of which outlive the
        // call.
        None => unsafe { libc::sigwaitinfo(&raw const set, info.as_mut_ptr()) },
        Some(ns) => {
            let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            time.tv_sec = (ns / metrics::SECOND) as _;
            time.tv_nsec = (ns % metrics::SECOND) as _;
            // SAFETY: as above, and the time is only read.
            unsafe { libc::sigtimedwait(&raw const set, info.as_mut_ptr(), &raw const time) }
        }
    };
    match check(result) {
        Ok(number) => {
            // SAFETY: plain integers and pointers that are never dereferenced; zeros are a valid
            // value.
            let info = unsafe { info.assume_init() };
            Ok(Some(Signal { number, from_kernel: info.si_code == libc::SI_KERNEL }))
        }
        Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Has the calling thread run before all ordinary ones whenever it is ready (`SCHED_FIFO`). One
/// that never sleeps is stopped by the kernel for 50 ms a second all the same, unless that was
/// switched off (`kernel.sched_rt_runtime_us`). The bare system call, because musl's function
/// refuses.
///
/// # Errors
/// `PermissionDenied` without the privilege (`CAP_SYS_NICE`), `Unsupported` outside Linux.
pub fn realtime() -> io::Result<()> {
    let priority = 10_i32;
    // SAFETY: the kernel reads a struct of this one number, which outlives the call; 0 is the
    // calling thread.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const priority) };
    check(result as i32).map(drop)
}

/// Keeps all memory of the process, present and future, from being paged out.
///
/// # Errors
/// Without the privilege (`CAP_IPC_LOCK`) or with too low a limit, and (`Unsupported`) outside
/// Linux.
pub fn lock_memory() -> io::Result<()> {
    // SAFETY: takes flags only.
    check(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) }).map(drop)
}

/// Gives the calling thread the most weight among ordinary threads (nice -20), so that it is seldom
/// made to wait. Not a real-time policy: the kernel stops those for 50 ms a second when they never
/// sleep.
///
/// # Errors
/// `PermissionDenied` without the privilege (`CAP_SYS_NICE`), `Unsupported` outside Linux.
pub fn hurry() -> io::Result<()> {
    // SAFETY: takes no pointers; on Linux 0 is the calling thread.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) }).map(drop)
}
