//! Network namespaces: networks of their own, in which threads and programs of this host can run.
//!
//! A [`Namespace`] has no name in the file system. The kernel keeps it while a process holds it,
//! runs or has a socket in it, so that nothing is left behind however this process ends.
//! Configuration goes through the kernel's interface requests (ioctl) rather than the `ip` program:
//! half a dozen calls, and no program that has to be installed.

use crate::host::interface_errors;
pub use crate::sys::space::kill as signal;
use crate::sys::space::{self, Ask};
use std::fs::File;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

/// File of a thread's own namespace.
const OWN: &str = "/proc/thread-self/ns/net";

#[derive(Debug)]
pub struct Namespace {
    file: File,
}

impl Namespace {
    /// A new one, with nothing in it but a loopback that is down.
    ///
    /// # Errors
    /// `PermissionDenied` without the privilege (`CAP_SYS_ADMIN`).
    pub fn new() -> io::Result<Self> {
        std::thread::scope(|scope| {
            let made = scope.spawn(|| {
                space::leave_network()?;
                File::open(OWN)
            });
            joined(made).map(|file| Namespace { file })
        })
    }

    /// Runs `f` on a thread of its own within the namespace. Sockets and devices that it makes stay
    /// there.
    ///
    /// # Errors
    /// When the namespace may not be entered, or no thread be made.
    pub fn within<T: Send>(&self, f: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("within".to_owned());
            joined(thread.spawn_scoped(scope, || {
                space::enter_network(self.file.as_fd())?;
                f()
            })?)
        })
    }

    /// Has `command` run within the namespace, with no signal held back, and killed when the
    /// *thread* that starts it ends for any reason.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn enter(&self, command: &mut Command) -> io::Result<()> {
        let (file, parent) = (self.file.try_clone()?, std::process::id());
        let prepare = move || {
            space::die_with(parent)?;
            space::set_mask(libc::SIG_SETMASK, &[])?;
            space::enter_network(file.as_fd())
        };
        // SAFETY: between fork and exec only these three run. Each is a few system calls on values
        // that exist already; none allocates or takes a lock.
        unsafe { command.pre_exec(prepare) };
        Ok(())
    }

    /// The processes that run in it now.
    pub fn processes(&self) -> Vec<u32> {
        let Ok(own) = self.file.metadata() else { return Vec::new() };
        let here = |process: &u32| {
            let theirs = std::fs::metadata(format!("/proc/{process}/ns/net"));
            theirs.is_ok_and(|theirs| (theirs.dev(), theirs.ino()) == (own.dev(), own.ino()))
        };
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(here).collect()
    }
}

/// Result of a thread; its panic goes on in the caller.
fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// An interface of the namespace that the calling thread is in.
#[derive(Clone, Debug)]
pub struct Interface {
    name: String,
}

/// True if a socket in the namespace of the calling thread waits for connections or datagrams.
pub fn is_listening() -> io::Result<bool> {
    // `/proc/net/tcp`: the fourth column is the state, 0A being LISTEN; of UDP every socket with a
    // port is in the table.
    let has = |table: &str, wanted: fn(&str) -> bool| match std::fs::read_to_string(format!(
        "/proc/thread-self/net/{table}"
    )) {
        Ok(text) => Ok(text.lines().skip(1).any(wanted)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false), // without IPv6
        Err(e) => Err(e),
    };
    let listens = |line: &str| line.split_whitespace().nth(3) == Some("0A");
    Ok(has("tcp", listens)? || has("tcp6", listens)? || has("udp", |_| true)? || has("udp6", |_| true)?)
}

/// Packets that an interface lost, as the kernel counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// On the way in.
    pub rx_dropped: u64,
    /// Damaged on the way in.
    pub rx_errors: u64,
    /// On the way out: of a TUN device, because its reader was too slow.
    pub tx_dropped: u64,
    /// Refused on the way out.
    pub tx_errors: u64,
}

impl Interface {
    /// The interface of that name, which need not exist yet.
    pub fn new(name: &str) -> Self {
        Interface { name: name.to_owned() }
    }

    /// Gives it an address in a network of `prefix` bits. An IPv6 address can be used once it is
    /// [settled](Interface::settled).
    pub fn address(&self, address: IpAddr, prefix: u8) -> io::Result<()> {
        match address {
            IpAddr::V4(v4) => {
                self.ask(Ask::Address, |r| r.ifr_ifru.ifru_addr = space::inet(v4))?;
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
                let mask = space::inet(Ipv4Addr::from_bits(mask));
                self.ask(Ask::Netmask, |r| r.ifr_ifru.ifru_netmask = mask).map(drop)
            }
            IpAddr::V6(v6) => {
                let index = space::index(&self.ask(Ask::Index, |_| ())?);
                space::add_inet6(UdpSocket::bind("[::]:0")?.as_fd(), index, v6, prefix)
            }
        }
    }

    /// Sets the largest packet, bytes.
    ///
    /// # Errors
    /// When the kernel refuses: less than 68 or more than 65535.
    pub fn mtu(&self, bytes: u32) -> io::Result<()> {
        self.ask(Ask::Mtu, |r| r.ifr_ifru.ifru_mtu = bytes.cast_signed()).map(drop)
    }

    /// Sets how many packets may wait to be sent.
    pub fn queue(&self, packets: u32) -> io::Result<()> {
        // The kernel's name for the field is ifr_qlen, of the same place and type as the metric.
        self.ask(Ask::Queue, |r| r.ifr_ifru.ifru_metric = packets.cast_signed()).map(drop)
    }

    /// Starts it.
    pub fn up(&self) -> io::Result<()> {
        let flags = space::flags(&self.ask(Ask::Flags, |_| ())?) | libc::IFF_UP as libc::c_short;
        self.ask(Ask::SetFlags, |r| r.ifr_ifru.ifru_flags = flags).map(drop)
    }

    /// Waits until all of its IPv6 addresses can be used. The kernel calls a new one tentative
    /// until a work queue of its own has looked at it, even on a device that needs no neighbour
    /// discovery, and until then binding to it fails.
    ///
    /// # Errors
    /// `TimedOut` when one is tentative after five seconds; an interface that is down has no
    /// others.
    pub fn settled(&self) -> io::Result<()> {
        // `/proc/net/if_inet6`: address, index, prefix, scope, flags (IFA_F_TENTATIVE 0x40), name.
        let tentative = |line: &str| {
            let mut words = line.split_whitespace().skip(4);
            let flags = words.next().and_then(|word| u32::from_str_radix(word, 16).ok()).unwrap_or(0);
            words.next() == Some(&self.name) && flags & libc::IFA_F_TENTATIVE != 0
        };
        for _ in 0..5_000 {
            match std::fs::read_to_string("/proc/thread-self/net/if_inet6") {
                Ok(text) if text.lines().any(tentative) => std::thread::sleep(Duration::from_millis(1)),
                Ok(_) => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()), // without IPv6
                Err(e) => return Err(e),
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Keeps the kernel from sending packets of its own through it, as it would on a cable with
    /// unknown neighbours (link-local addresses, router solicitations). Without IPv6 it sends none.
    pub fn quiet(&self) {
        for (setting, value) in
            [("addr_gen_mode", "1"), ("router_solicitations", "0"), ("accept_ra", "0"), ("accept_dad", "0")]
        {
            let path = format!("/proc/sys/net/ipv6/conf/{}/{setting}", self.name);
            let _without_ipv6 =
                File::options().write(true).open(path).map(|mut f| f.write_all(value.as_bytes()));
        }
    }

    /// Accepts IPv4 packets from addresses without a route through it: routers have such ones. The
    /// kernel may drop these packets where settings cannot be written.
    pub fn any_source(&self) {
        for name in ["all", self.name.as_str()] {
            let path = format!("/proc/sys/net/ipv4/conf/{name}/rp_filter");
            let _as_it_was = File::options().write(true).open(path).map(|mut f| f.write_all(b"0"));
        }
    }

    /// Its losses since it was made.
    pub fn losses(&self) -> io::Result<Losses> {
        let text = std::fs::read_to_string("/proc/thread-self/net/dev")?;
        let (_, counters) =
            interface_errors(&text).find(|(name, _)| *name == self.name).ok_or(io::ErrorKind::NotFound)?;
        let of = |wanted: &str| counters.iter().find(|(name, _)| *name == wanted).map_or(0, |(_, n)| *n);
        Ok(Losses {
            rx_dropped: of("rx_dropped"),
            rx_errors: of("rx_errors"),
            tx_dropped: of("tx_dropped"),
            tx_errors: of("tx_errors"),
        })
    }

    /// One request, through a socket of the calling thread's namespace.
    fn ask(&self, ask: Ask, fill: impl FnOnce(&mut libc::ifreq)) -> io::Result<libc::ifreq> {
        let mut request = space::request(&self.name)?;
        // The kernel looks at the IPv4 addresses of a socket of that family; the other requests
        // take any socket.
        let socket: OwnedFd = match ask {
            Ask::Address | Ask::Netmask => UdpSocket::bind("0.0.0.0:0")?.into(),
            _ => UnixDatagram::unbound()?.into(),
        };
        fill(&mut request);
        space::interface(socket.as_fd(), ask, &mut request)?;
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A namespace, or the reason why there is none.
    fn namespace() -> Option<Namespace> {
        match Namespace::new() {
            Ok(made) => Some(made),
            Err(e) => {
                crate::testing::skip(&format!("no network namespace can be made: {e}"));
                None
            }
        }
    }

    #[test]
    fn what_is_made_within_stays_within() {
        let Some(space) = namespace() else { return };
        // Nothing is up in there, so that not even the loopback can be reached; out here it can.
        let inside = space.within(|| {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            Ok(socket.send_to(b"x", ("127.0.0.1", 9)).is_err())
        });
        assert!(inside.unwrap());
        space.within(|| Interface::new("lo").up()).unwrap();
        assert!(!space.within(is_listening).unwrap());
        let socket = space.within(|| UdpSocket::bind("127.0.0.1:7411")).unwrap();
        assert!(space.within(is_listening).unwrap());
        let other = space.within(|| UdpSocket::bind("127.0.0.1:0")).unwrap();
        other.send_to(b"x", "127.0.0.1:7411").unwrap();
        assert_eq!(socket.recv_from(&mut [0; 8]).unwrap(), (1, other.local_addr().unwrap()));
        let _not_taken_out_here = UdpSocket::bind("127.0.0.1:0").unwrap();
    }

    #[test]
    fn a_panic_within_is_the_callers() {
        let Some(space) = namespace() else { return };
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            space.within(|| -> io::Result<()> { panic!("of the closure") })
        }));
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"of the closure"));
    }

    #[test]
    fn programs_run_within_and_are_found_and_killed() {
        let _starts = crate::testing::starts();
        let Some(space) = namespace() else { return };
        assert!(space.processes().is_empty());
        let mut command = Command::new("sleep");
        space.enter(command.arg("1000")).unwrap();
        let mut child = command.spawn().unwrap();
        assert_eq!(space.processes(), [child.id()]);
        signal(child.id(), libc::SIGTERM).unwrap();
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap()),
            Some(libc::SIGTERM)
        );
        assert!(space.processes().is_empty());
    }

    #[test]
    fn a_program_dies_with_the_thread_that_started_it() {
        let _starts = crate::testing::starts();
        let Some(space) = namespace() else { return };
        let mut command = Command::new("sleep");
        space.enter(command.arg("1000")).unwrap();
        let mut child = std::thread::scope(|s| s.spawn(|| command.spawn().unwrap()).join().unwrap());
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap()),
            Some(libc::SIGKILL)
        );
    }

    #[test]
    fn only_single_processes_are_signalled() {
        for process in [0, 1, u32::MAX] {
            assert_eq!(signal(process, 0).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{process}");
        }
    }

    #[test]
    fn names_that_fit_no_request_are_refused() {
        for name in ["", "sixteen-letters!"] {
            assert_eq!(Interface::new(name).up().unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        assert!(Interface::new("no-such-nic").up().is_err());
        assert!(Interface::new("no-such-nic").losses().is_err());
    }
}
