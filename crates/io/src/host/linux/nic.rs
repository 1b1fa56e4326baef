//! The interface that owns an address.
//!
//! All of it is asked of a socket, nothing of `/sys/class/net`: a socket sees the network namespace
//! of the thread, sysfs the namespace in which it was mounted (`unshare --net ls /sys/class/net`
//! lists the host's cards).

use super::netlink;
use super::sys::{self, Address, Ethtool, EthtoolAnswer};
use crate::card::layout::Able;
use std::net::IpAddr;
use std::os::unix::net::UnixDatagram;
use transport::NicSnapshot;

/// Describes the interface that owns `local`.
pub(super) fn nic(local: IpAddr) -> Option<NicSnapshot> {
    let (name, loopback) = owner(&sys::addresses(), local)?;
    let qdisc = sys::index_of(&name).and_then(netlink::root_qdisc).unwrap_or_default();
    let mut nic = NicSnapshot { name, loopback, qdisc, ..NicSnapshot::default() };
    // Any socket answers questions about interfaces; this one needs neither IPv4 nor a privilege.
    if let Ok(socket) = UnixDatagram::unbound() {
        nic.mtu = sys::mtu(&socket, &nic.name).unwrap_or(0);
        nic.driver = driver(&socket, &nic.name).unwrap_or_default();
        nic.speed_mbit = speed(&socket, &nic.name, &nic.driver);
        nic.offloads = offloads(&socket, &nic.name);
        let able = able(&socket, &nic.name);
        (nic.hardware_stamps, nic.phc) = (able.both(), able.clock);
    }
    Some(nic)
}

/// Name of the interface that owns `local`, and whether it is a loopback.
fn owner(all: &[Address], local: IpAddr) -> Option<(String, bool)> {
    let local = local.to_canonical();
    let exact = all.iter().find(|a| a.ip == Some(local));
    // All of 127.0.0.0/8 is the loopback's, though only 127.0.0.1 is listed.
    let found = exact.or_else(|| all.iter().find(|a| local.is_loopback() && a.loopback))?;
    let name = found.label.split(':').next().unwrap_or_default();
    Some((name.to_owned(), found.loopback))
}

/// `struct ethtool_drvinfo`: the command, then the driver's name in 32 bytes. Where a virtual
/// interface has no driver the kernel names its kind.
fn driver(socket: &UnixDatagram, name: &str) -> Option<String> {
    let answer = sys::ethtool(socket, name, Ethtool::DriverInfo, 0)?;
    let bytes: Vec<u8> =
        answer[1..9].iter().flat_map(|w| w.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The card's stamp abilities, and the number of its clock (`/dev/ptpN`).
fn able(socket: &UnixDatagram, name: &str) -> Able {
    let words = sys::ethtool(socket, name, Ethtool::StampInfo, 0);
    words.and_then(|words| Able::read(&words)).unwrap_or_default()
}

/// The interface `device`, or the one that owns `local`, and its card's stamp abilities; `None`
/// when there is no such interface.
pub(crate) fn stamping(local: IpAddr, device: Option<&str>) -> Option<(String, Able)> {
    let name = match device {
        Some(device) => device.to_owned(),
        None => owner(&sys::addresses(), local)?.0,
    };
    let socket = UnixDatagram::unbound().ok()?;
    let able = able(&socket, &name);
    Some((name, able))
}

/// These drivers report a constant (10 Gbit/s, 10 Mbit/s) that has nothing to do with their
/// traffic.
const SPEEDS_MADE_UP: [&str; 3] = ["veth", "tun", "tap"];

/// The link's speed in Mbit/s, when the driver knows one.
fn speed(socket: &UnixDatagram, name: &str, driver: &str) -> Option<u64> {
    if SPEEDS_MADE_UP.contains(&driver) {
        return None;
    }
    // The first answer only says, as a negative number, how long the masks are that the second must
    // have room for.
    let masks = mask_words(&sys::ethtool(socket, name, Ethtool::LinkSettings, 0)?);
    let answer = sys::ethtool(socket, name, Ethtool::LinkSettings, masks.checked_neg()?)?;
    (mask_words(&answer) > 0)
        .then_some(answer[1])
        .filter(|speed| !matches!(*speed, 0 | u32::MAX))
        .map(u64::from)
}

/// `link_mode_masks_nwords`, the 16th byte of `struct ethtool_link_settings`.
fn mask_words(answer: &EthtoolAnswer) -> i8 {
    i8::from_ne_bytes([answer[3].to_ne_bytes()[3]])
}

/// The large receive offload, among the bits of `ETHTOOL_GFLAGS`.
const ETH_FLAG_LRO: u32 = 1 << 15;

fn offloads(socket: &UnixDatagram, name: &str) -> Vec<String> {
    let asks = [
        ("tso", Ethtool::Tso, 1),
        ("gso", Ethtool::Gso, 1),
        ("gro", Ethtool::Gro, 1),
        ("lro", Ethtool::Flags, ETH_FLAG_LRO),
        ("rx-checksum", Ethtool::RxChecksum, 1),
        ("tx-checksum", Ethtool::TxChecksum, 1),
        ("scatter-gather", Ethtool::ScatterGather, 1),
    ];
    let on = |(_, ask, bit): &(&str, Ethtool, u32)| {
        sys::ethtool(socket, name, *ask, 0).is_some_and(|answer| answer[1] & bit != 0)
    };
    asks.iter().filter(|ask| on(ask)).map(|(name, ..)| (*name).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn address(label: &str, ip: Option<&str>) -> Address {
        Address { label: label.into(), loopback: label == "lo", ip: ip.map(|ip| ip.parse().unwrap()) }
    }

    #[test]
    fn the_owner_of_an_address() {
        let all = [
            address("lo", None),
            address("eth0", None),
            address("lo", Some("127.0.0.1")),
            address("eth0", Some("192.0.2.7")),
            address("eth0:web", Some("192.0.2.8")),
            address("eth0", Some("fe80::1")),
        ];
        let name = |local: &str| owner(&all, local.parse().unwrap()).map(|(name, _)| name);
        assert_eq!(name("192.0.2.7").as_deref(), Some("eth0"));
        assert_eq!(name("::ffff:192.0.2.7").as_deref(), Some("eth0"));
        assert_eq!(name("192.0.2.8").as_deref(), Some("eth0"), "a label is not a name");
        assert_eq!(name("fe80::1").as_deref(), Some("eth0"));
        assert_eq!(name("127.0.0.1").as_deref(), Some("lo"));
        assert_eq!(name("127.9.9.9").as_deref(), Some("lo"));
        assert_eq!(name("::1").as_deref(), Some("lo"));
        assert_eq!(name("192.0.2.9"), None);
        assert_eq!(name("0.0.0.0"), None);
    }

    #[test]
    fn the_loopback_of_this_machine() {
        let lo = nic("127.0.0.1".parse().unwrap()).expect("a loopback");
        assert!(lo.loopback);
        assert_eq!(lo.speed_mbit, None);
        let mtu = std::fs::read_to_string(format!("/sys/class/net/{}/mtu", lo.name)).unwrap();
        assert_eq!(lo.mtu.to_string(), mtu.trim());
    }

    /// What the tools of the system say of every interface that has an address.
    #[test]
    fn agrees_with_ethtool_and_tc() {
        let _starts = crate::testing::starts();
        for address in sys::addresses() {
            let Some(nic) = address.ip.and_then(nic) else { continue };
            match Command::new("ethtool").args(["-k", &nic.name]).output() {
                Ok(out) => compare_offloads(&nic, &String::from_utf8_lossy(&out.stdout)),
                Err(e) => println!("skipped: no ethtool to compare with: {e}"),
            }
            match Command::new("tc").args(["qdisc", "show", "dev", &nic.name]).output() {
                Ok(out) => {
                    let text = String::from_utf8_lossy(&out.stdout).into_owned();
                    let root = text.lines().find(|line| line.contains(" root ")).unwrap_or_default();
                    assert_eq!(root.split_whitespace().nth(1).unwrap_or_default(), nic.qdisc, "{text}");
                }
                Err(e) => println!("skipped: no tc to compare with: {e}"),
            }
        }
    }

    fn compare_offloads(nic: &NicSnapshot, text: &str) {
        let names = [
            ("tso", "tcp-segmentation-offload: on"),
            ("gso", "generic-segmentation-offload: on"),
            ("gro", "generic-receive-offload: on"),
            ("lro", "large-receive-offload: on"),
            ("rx-checksum", "rx-checksumming: on"),
            ("tx-checksum", "tx-checksumming: on"),
            ("scatter-gather", "scatter-gather: on"),
        ];
        for (name, line) in names {
            let told = text.lines().any(|l| l.starts_with(line));
            assert_eq!(nic.offloads.iter().any(|o| o == name), told, "{name} of {}:\n{text}", nic.name);
        }
    }
}
