//! Network namespaces that tests make for themselves, and what else a machine may or may not have.

use super::{Line, skip};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

pub(crate) fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .any(|dir| dir.join(program).is_file())
}

/// Whether `::1` exists.
pub(crate) fn has_ipv6() -> bool {
    std::net::TcpListener::bind("[::1]:0").is_ok()
}

/// A core that may be used.
pub(crate) fn a_core() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or("0");
    list.trim().split(['-', ',']).next().unwrap().to_owned()
}

/// The congestion controls that this user may ask for here.
pub(crate) fn congestion_controls() -> Vec<String> {
    let which = if is_root() { "available" } else { "allowed" };
    let list = std::fs::read_to_string(format!("/proc/sys/net/ipv4/tcp_{which}_congestion_control"));
    list.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    free_row(1, 1)
}

/// Ports that a test of this process was given: no other test gets them, or binds them to see
/// whether they are free.
static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// The first of `n` ports in a row, with the one below them, that were free a moment ago, and as
/// many `aside` above. They are outside the range of ephemeral ports, which other tests use, and
/// outside the range of the Python peers.
pub(crate) fn free_row(n: u16, aside: u16) -> u16 {
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let any = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), n) as u16;
    let free = |port: u16| {
        std::net::TcpListener::bind(("0.0.0.0", port)).is_ok()
            && std::net::UdpSocket::bind(("0.0.0.0", port)).is_ok()
    };
    let mut firsts = (0..500_u16).map(|at| 12_000 + any.wrapping_add(at.wrapping_mul(37)) % 16_000);
    let all = |first: u16| (first - 1..first + n).chain(first + aside..first + aside + n);
    let found = firsts.find(|first| all(*first).all(|port| !given.contains(&port) && free(port)));
    let first = found.expect("so many free ports in a row");
    given.extend(all(first));
    first
}

/// A listener and a datagram socket on the loopback address with one port.
pub(crate) fn both_kinds() -> (std::net::TcpListener, std::net::UdpSocket) {
    let both = || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").ok()?;
        let socket = std::net::UdpSocket::bind(listener.local_addr().ok()?).ok()?;
        Some((listener, socket))
    };
    (0..50).find_map(|_| both()).expect("a port that is free for both")
}

pub(crate) fn is_root() -> bool {
    let me = std::fs::metadata("/proc/self").map(|m| std::os::unix::fs::MetadataExt::uid(&m));
    matches!(me, Ok(0))
}

/// Runs a command; whether it succeeded.
pub(crate) fn succeeds(program: &str, words: &str) -> bool {
    let mut command = Command::new(program);
    let status = command.args(words.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|s| s.success())
}

/// A network namespace with its loopback up; gone when dropped.
pub(crate) struct Namespace(String);

impl Namespace {
    /// A new one; without the right or the tools to make it, `test` is counted as skipped.
    pub(crate) fn for_test(test: &str) -> Option<Namespace> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !is_root() || !installed("ip") {
            skip(test, "network namespaces need root and iproute2");
            return None;
        }
        let name = format!("nct-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        if !succeeds("ip", &format!("netns add {name}")) {
            skip(test, "no network namespace can be made here");
            return None;
        }
        let space = Namespace(name);
        space.ip("link set lo up");
        Some(space)
    }

    /// Two that are joined, see [`Namespace::join`]; where that cannot be had, `test` is counted as
    /// skipped.
    pub(crate) fn pair(test: &str) -> Option<(Namespace, Namespace)> {
        let (here, there) = (Namespace::for_test(test)?, Namespace::for_test(test)?);
        if !here.join(&there) {
            skip(test, "this kernel has no virtual Ethernet pairs");
            return None;
        }
        Some((here, there))
    }

    /// What `ip netns` calls it.
    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    /// Programs within it find these lines in `/etc/hosts`; whether that can be arranged (`ip netns
    /// exec` does).
    pub(crate) fn hosts(&self, lines: &str) -> bool {
        let folder = Path::new("/etc/netns").join(&self.0);
        std::fs::create_dir_all(&folder).is_ok() && std::fs::write(folder.join("hosts"), lines).is_ok()
    }

    /// An address that swallows all packets, and names that are looked up there; whether the kernel
    /// can.
    pub(crate) fn silence(&self) -> Option<&'static str> {
        let name = &self.0;
        let pair = succeeds("ip", &format!("-n {name} link add nc0 type veth peer name nc1"));
        let folder = Path::new("/etc/netns").join(name);
        let names = std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(folder.join("resolv.conf"), "nameserver 10.77.0.9\n"));
        if !pair || names.is_err() {
            return None;
        }
        self.ip("address add 10.77.0.1/24 dev nc0");
        self.ip("link set nc0 up");
        self.ip("link set nc1 up");
        self.ip("neigh add 10.77.0.9 lladdr 02:00:00:00:00:09 dev nc0 nud permanent");
        Some("10.77.0.9")
    }

    /// `ip` within it.
    #[track_caller]
    pub(crate) fn ip(&self, words: &str) {
        let name = &self.0;
        assert!(succeeds("ip", &format!("-n {name} {words}")), "ip -n {name} {words}");
    }

    /// Sets a sysctl within it; whether that worked.
    pub(crate) fn sysctl(&self, name: &str, value: &str) -> bool {
        let path = Path::new("/proc/sys").join(name.replace('.', "/"));
        let script = format!("echo {value} > {}", path.display());
        let words = ["netns", "exec", &self.0, "sh", "-c", &script];
        Command::new("ip").args(words).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
    }

    /// The same command line, run within it.
    pub(crate) fn within(&self, line: Line) -> Line {
        let inner = line.0;
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0]).arg(inner.get_program()).args(inner.get_args());
        if let Some(folder) = inner.get_current_dir() {
            command.current_dir(folder);
        }
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Line(command)
    }

    /// Joins it with `other` by a pair of virtual Ethernet devices, `10.77.0.1` here and
    /// `10.77.0.2` there; whether the kernel can.
    pub(crate) fn join(&self, other: &Namespace) -> bool {
        let (a, b) = (&self.0, &other.0);
        if !succeeds("ip", &format!("link add nc0 netns {a} type veth peer name nc0 netns {b}")) {
            return false;
        }
        for (space, address) in [(self, "10.77.0.1/24"), (other, "10.77.0.2/24")] {
            space.ip(&format!("address add {address} dev nc0"));
            space.ip("link set nc0 up");
        }
        true
    }

    /// From now on every UDP datagram that comes in over the virtual cable is dropped, over IPv4;
    /// whether that can be arranged.
    pub(crate) fn drops_udp(&self) -> bool {
        // Octet 23 of an Ethernet frame is the protocol of IPv4: 17 is UDP.
        self.drops("4,48 0 0 23,21 0 1 17,6 0 0 2,6 0 0 4294967295")
    }

    /// The same with every TCP segment.
    pub(crate) fn drops_tcp(&self) -> bool {
        self.drops("4,48 0 0 23,21 0 1 6,6 0 0 2,6 0 0 4294967295")
    }

    /// The same with every packet of more than 1300 bytes, Ethernet's header of 14 included.
    pub(crate) fn drops_large(&self) -> bool {
        // The frame's length is loaded, and compared.
        self.drops("4,128 0 0 0,37 0 1 1300,6 0 0 2,6 0 0 4294967295")
    }

    /// Incoming packets of the virtual cable, over IPv4, for which this classic BPF program returns 2
    /// (TC_ACT_SHOT) are dropped.
    fn drops(&self, program: &str) -> bool {
        let filter = "filter add dev nc0 ingress protocol ip bpf da bytecode";
        let mut command = Command::new("tc");
        command.args(["-n", &self.0]).args(filter.split(' ')).arg(program);
        succeeds("tc", &format!("-n {} qdisc add dev nc0 clsact", self.0))
            && command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        succeeds("ip", &format!("netns delete {}", self.0));
        let _ = std::fs::remove_dir_all(Path::new("/etc/netns").join(&self.0));
        let _ = std::fs::remove_dir("/etc/netns"); // fails if another test has something there
    }
}
