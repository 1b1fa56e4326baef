//! The system calls behind `host`, each as one small safe function. All unsafe code of `host` is
//! here.
#![allow(unsafe_code, reason = "system calls; every block says why it is sound")]

use crate::sys::space::interface_name as interface;
use metrics::{Clamped, real};
use std::ffi::CStr;
use std::mem::zeroed;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;

/// Host name, and kernel name with its release.
pub(super) fn names() -> Option<(String, String)> {
    // SAFETY: a utsname is arrays of characters, for which zeros are a value.
    let mut names: libc::utsname = unsafe { zeroed() };
    // SAFETY: the reference is to a utsname, which is all that uname writes.
    let answer = unsafe { libc::uname(&mut names) };
    (answer == 0)
        .then(|| (text(&names.nodename), format!("{} {}", text(&names.sysname), text(&names.release))))
}

/// The characters before the first zero.
fn text(chars: &[libc::c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().map(|c| c.to_ne_bytes()[0]).take_while(|b| *b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// CPUs the process (its main thread, strictly) may run on.
pub(super) fn usable_cpus() -> Option<u32> {
    let process = libc::pid_t::try_from(std::process::id()).ok()?;
    let cores = crate::sys::linux::affinity(process).ok()?;
    Some(u32::clamped(cores.len())).filter(|n| *n > 0)
}

/// CPU time of this process and its worker processes so far, in user mode and in the kernel,
/// seconds.
pub(in crate::host) fn process_use() -> Option<(f64, f64)> {
    let usage = own_usage()?;
    let seconds = |t: libc::timeval| real(t.tv_sec) + real(t.tv_usec) / 1e6;
    let workers = crate::workers::cpu_use();
    Some((seconds(usage.ru_utime) + workers.0, seconds(usage.ru_stime) + workers.1))
}

/// Number of times that a thread of this process lost its CPU without a request (involuntary
/// context switches).
pub(super) fn preempted() -> Option<u64> {
    u64::try_from(own_usage()?.ru_nivcsw).ok()
}

fn own_usage() -> Option<libc::rusage> {
    // SAFETY: an rusage is plain integers, for which zeros are a value.
    let mut usage: libc::rusage = unsafe { zeroed() };
    // SAFETY: the reference is to an rusage, which is all that getrusage writes.
    let answer = unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    (answer == 0).then_some(usage)
}

/// Ticks of `/proc/stat` in a second.
pub(crate) fn ticks_per_second() -> u64 {
    // SAFETY: sysconf takes no pointers.
    let hz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(hz).ok().filter(|hz| *hz > 0).unwrap_or(100)
}

/// An address of this host, or an interface that has none.
#[derive(Clone, Debug)]
pub(super) struct Address {
    /// The interface's name, or its alias' label (`eth0:1`).
    pub(super) label: String,
    /// True if the interface is a loopback.
    pub(super) loopback: bool,
    /// The address; `None` for link-layer entries.
    pub(super) ip: Option<IpAddr>,
}

pub(super) fn addresses() -> Vec<Address> {
    let mut head: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the reference is to a pointer, which is all that getifaddrs writes.
    if unsafe { libc::getifaddrs(&mut head) } != 0 {
        return Vec::new();
    }
    let mut all = Vec::new();
    let mut next = head;
    // SAFETY: the list's pointers are null or point to entries that live until freeifaddrs below.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        if entry.ifa_name.is_null() {
            continue;
        }
        // SAFETY: it is not null, and a name is a zero-terminated string that lives as long as its
        // entry.
        let label = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
        let loopback = entry.ifa_flags & libc::IFF_LOOPBACK as libc::c_uint != 0;
        // SAFETY: an entry's address is null or a sockaddr as long as its family says.
        let ip = unsafe { ip_of(entry.ifa_addr) };
        all.push(Address { label, loopback, ip });
    }
    // SAFETY: `head` is from getifaddrs, is freed once, and nothing borrowed from the list is left.
    unsafe { libc::freeifaddrs(head) };
    all
}

/// The address in a sockaddr of an internet family.
///
/// # Safety
/// `address` is null or points to a readable sockaddr that is as long as its family says.
unsafe fn ip_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: not null, so by the contract at least the family can be read; it is the first field.
    let family = unsafe { address.cast::<libc::sa_family_t>().read_unaligned() };
    match libc::c_int::from(family) {
        libc::AF_INET => {
            // SAFETY: by the contract an AF_INET address is a whole sockaddr_in.
            let inet = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(inet.sin_addr.s_addr.to_ne_bytes()).into())
        }
        libc::AF_INET6 => {
            // SAFETY: by the contract an AF_INET6 address is a whole sockaddr_in6.
            let inet = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(inet.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// The number of the interface of this name.
pub(super) fn index_of(name: &str) -> Option<u32> {
    let name = std::ffi::CString::new(name).ok()?;
    // SAFETY: the pointer is to a zero-terminated string that outlives the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    (index > 0).then_some(index)
}

/// True if an interface has this number.
pub(super) fn has_interface(index: u32) -> bool {
    let mut name = [0; libc::IF_NAMESIZE];
    // SAFETY: the call writes at most `IF_NAMESIZE` bytes, the length of `name`, which outlives it.
    !unsafe { libc::if_indextoname(index, name.as_mut_ptr()) }.is_null()
}

/// The questions to an interface that [`ethtool`] may ask (linux/ethtool.h). None of them changes
/// anything, and none is answered with more than [`EthtoolAnswer`] holds: the longest, of the link
/// settings, has 48 + 12 × 127 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Ethtool {
    DriverInfo = 0x03,
    RxChecksum = 0x14,
    TxChecksum = 0x16,
    ScatterGather = 0x18,
    Tso = 0x1e,
    Gso = 0x23,
    Flags = 0x25,
    Gro = 0x2b,
    /// `struct ethtool_ts_info`: 11 words.
    StampInfo = 0x41,
    LinkSettings = 0x4c,
}

/// The kernel's answer: the command again, then the words of that command.
pub(super) type EthtoolAnswer = [u32; 400];

/// Asks the driver of an interface. `masks` is the number of words in a link mode mask
/// (`LinkSettings` only; 0 asks for that number).
pub(super) fn ethtool(socket: &UnixDatagram, name: &str, ask: Ethtool, masks: i8) -> Option<EthtoolAnswer> {
    let mut answer: EthtoolAnswer = [0; 400];
    answer[0] = ask as u32;
    if ask == Ethtool::LinkSettings {
        answer[3] = u32::from_ne_bytes([0, 0, 0, masks.to_ne_bytes()[0]]);
    }
    let ifr_ifru = libc::__c_anonymous_ifr_ifru { ifru_data: answer.as_mut_ptr().cast() };
    let mut request = libc::ifreq { ifr_name: interface(name)?, ifr_ifru };
    // SAFETY: SIOCETHTOOL reads the request and reads and writes `answer` through its pointer. Both
    // outlive the call, and `answer` is longer than anything the kernel writes for these commands
    // (see `Ethtool`).
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    (result == 0).then_some(answer)
}

/// Most counters of a driver that are read: a card with a hundred queues has some thousands.
const MOST_COUNTERS: u32 = 20_000;
/// A name of a counter, bytes (`ETH_GSTRING_LEN`).
const COUNTER_NAME: usize = 32;

/// The driver's counters of an interface, by its own names; `None` where it has none.
pub(super) fn driver_counters(socket: &UnixDatagram, name: &str) -> Option<Vec<(String, u64)>> {
    // `n_stats` is the last but three of the words of `struct ethtool_drvinfo`: behind the command,
    // five names of 32 bytes, 12 bytes and the number of flags.
    let answer = ethtool(socket, name, Ethtool::DriverInfo, 0)?;
    let n = Some(answer[45]).filter(|n| (1..=MOST_COUNTERS).contains(n))?;
    // ETHTOOL_GSTRINGS: command, set (1: counters), number; then the names. ETHTOOL_GSTATS:
    // command, number; then the values.
    let names = counter_block(socket, name, &[0x1b, 1, n], usize::clamped(n) * COUNTER_NAME)?;
    let values = counter_block(socket, name, &[0x1d, n], usize::clamped(n) * size_of::<u64>())?;
    let names = names[12..].chunks_exact(COUNTER_NAME).map(|name| {
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        String::from_utf8_lossy(&name[..end]).trim().to_owned()
    });
    let values =
        values[8..].chunks_exact(size_of::<u64>()).map(|n| n.try_into().map_or(0, u64::from_ne_bytes));
    Some(names.zip(values).take(usize::clamped(n)).collect())
}

/// Asks the driver of an interface for a block: the words of the request, then `length` bytes of
/// answer behind the same words.
fn counter_block(socket: &UnixDatagram, name: &str, ask: &[u32], length: usize) -> Option<Vec<u8>> {
    let head: Vec<u8> = ask.iter().flat_map(|word| word.to_ne_bytes()).collect();
    // The kernel writes all present queues, not the number in the request: queues may have been
    // added.
    let mut words =
        vec![0u64; (head.len() + 4 * length) / size_of::<u64>() + 4 * usize::clamped(MOST_COUNTERS)];
    for (word, part) in words.iter_mut().zip(head.chunks(size_of::<u64>())) {
        let mut bytes = [0; size_of::<u64>()];
        bytes[..part.len()].copy_from_slice(part);
        *word = u64::from_ne_bytes(bytes);
    }
    let ifr_ifru = libc::__c_anonymous_ifr_ifru { ifru_data: words.as_mut_ptr().cast() };
    let mut request = libc::ifreq { ifr_name: interface(name)?, ifr_ifru };
    // SAFETY: SIOCETHTOOL reads the request and reads and writes `words` through its pointer. Both
    // outlive the call, and `words` has room for four times the counters that the driver said to
    // have, and 20,000 more.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    let bytes = words.iter().flat_map(|word| word.to_ne_bytes()).take(head.len() + length).collect();
    (result == 0).then_some(bytes)
}

/// The MTU of an interface, bytes.
pub(super) fn mtu(socket: &UnixDatagram, name: &str) -> Option<u32> {
    let ifr_ifru = libc::__c_anonymous_ifr_ifru { ifru_mtu: 0 };
    let mut request = libc::ifreq { ifr_name: interface(name)?, ifr_ifru };
    // SAFETY: SIOCGIFMTU reads and writes no more than the request, which outlives the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU as _, &raw mut request) };
    // SAFETY: the union was made with this field and any bytes are an integer.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    u32::try_from(mtu).ok().filter(|_| result == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_fit_no_request_are_refused() {
        assert_eq!(interface(""), None);
        assert_eq!(interface("sixteen-letters!"), None);
        assert_eq!(interface("fifteen-letters").map(|n| n[15]), Some(0));
        assert_eq!(index_of("no\0name"), None);
        let socket = UnixDatagram::unbound().unwrap();
        assert_eq!(mtu(&socket, "no-such-nic"), None);
        assert_eq!(ethtool(&socket, "no-such-nic", Ethtool::DriverInfo, 0), None);
    }

    #[test]
    fn the_loopback_interface_is_always_there() {
        let all = addresses();
        let lo = all.iter().find(|a| a.ip == Some(Ipv4Addr::LOCALHOST.into())).expect("127.0.0.1");
        assert!(lo.loopback);
        assert!(index_of(&lo.label).is_some());
    }
}
