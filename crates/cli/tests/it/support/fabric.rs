//! A fabric of real kernels: leaf and spine routers in namespaces, with routes of equal cost and
//! hashes over addresses and ports.
//!
//! ```text
//!  host i ── leaf i ─┬─ spine 1 ─┬─ leaf k ── host k
//!                    └─ spine 2 ─┘
//! ```

use super::net::Namespace;
use super::skip;

/// Leaves with a host each, and spines; gone when dropped. All numbers are from 1.
pub(crate) struct Fabric {
    leaves: Vec<Namespace>,
    spines: Vec<Namespace>,
    hosts: Vec<Namespace>,
}

impl Fabric {
    /// At most 14 of each; where the fabric cannot be made, `test` is counted as skipped.
    pub(crate) fn new(test: &str, leaves: usize, spines: usize) -> Option<Fabric> {
        let make = |n: usize| (0..n).map(|_| Namespace::for_test(test)).collect::<Option<Vec<_>>>();
        let fabric = Fabric { leaves: make(leaves)?, spines: make(spines)?, hosts: make(leaves)? };
        for space in [&fabric.leaves, &fabric.spines, &fabric.hosts].into_iter().flatten() {
            // The hash is over the 5-tuple in the packet. Policy 1 (layer 4) would take the hash of
            // the sending socket, which packets between namespaces keep: probes of one 5-tuple from
            // several sockets would take several ways. Each error is sent, in the name of the
            // interface on which the packet arrived.
            let settings = [
                ("net.ipv4.ip_forward", "1"),
                ("net.ipv4.fib_multipath_hash_policy", "3"),
                ("net.ipv4.fib_multipath_hash_fields", "0x37"),
                ("net.ipv4.icmp_ratelimit", "0"),
                ("net.ipv4.icmp_errors_use_inbound_ifaddr", "1"),
                ("net.ipv4.conf.all.rp_filter", "0"),
                ("net.ipv4.conf.default.rp_filter", "0"),
            ];
            if !settings.iter().all(|(name, value)| space.sysctl(name, value)) {
                skip(test, "this kernel does not hash ports for routes of equal cost");
                return None;
            }
        }
        if !fabric.link() {
            skip(test, "this kernel has no virtual Ethernet pairs");
            return None;
        }
        fabric.route();
        Some(fabric)
    }

    /// The host at leaf `n`.
    pub(crate) fn host(&self, n: usize) -> &Namespace {
        &self.hosts[n - 1]
    }

    /// Address of the host at leaf `n`.
    pub(crate) fn address(n: usize) -> String {
        format!("10.89.{n}.2")
    }

    /// Spine `spine` in its messages about packets from leaf `leaf`.
    pub(crate) fn spine(leaf: usize, spine: usize) -> String {
        format!("10.88.{}.2", leaf * 16 + spine)
    }

    /// Leaf `leaf` in its messages about packets from spine `spine`, or from its host (0).
    pub(crate) fn leaf(leaf: usize, spine: usize) -> String {
        if spine == 0 { format!("10.89.{leaf}.1") } else { format!("10.88.{}.1", leaf * 16 + spine) }
    }

    fn link(&self) -> bool {
        let join =
            |(a, a_name): (&Namespace, &str), (b, b_name): (&Namespace, &str), addresses: [String; 2]| {
                let (a_space, b_space) = (a.name(), b.name());
                let words =
                    format!("link add {a_name} netns {a_space} type veth peer name {b_name} netns {b_space}");
                if !super::net::succeeds("ip", &words) {
                    return false;
                }
                for ((space, name), address) in [(a, a_name), (b, b_name)].into_iter().zip(addresses) {
                    space.ip(&format!("address add {address} dev {name}"));
                    space.ip(&format!("link set {name} up"));
                }
                true
            };
        (1..).zip(&self.leaves).all(|(i, leaf)| {
            let host = [format!("{}/24", Self::address(i)), format!("{}/24", Self::leaf(i, 0))];
            join((&self.hosts[i - 1], "nc0"), (leaf, "host"), host)
                && (1..).zip(&self.spines).all(|(j, spine)| {
                    let both = [format!("{}/30", Self::leaf(i, j)), format!("{}/30", Self::spine(i, j))];
                    join((leaf, &format!("spine{j}")), (spine, &format!("leaf{i}")), both)
                })
        })
    }

    fn route(&self) {
        for (i, leaf) in (1..).zip(&self.leaves) {
            self.host(i).ip(&format!("route add default via {}", Self::leaf(i, 0)));
            let hops: Vec<String> =
                (1..=self.spines.len()).map(|j| format!("nexthop via {}", Self::spine(i, j))).collect();
            for k in (1..=self.leaves.len()).filter(|k| *k != i) {
                leaf.ip(&format!("route add 10.89.{k}.0/24 {}", hops.join(" ")));
            }
            for (j, spine) in (1..).zip(&self.spines) {
                spine.ip(&format!("route add 10.89.{i}.0/24 via {}", Self::leaf(i, j)));
            }
        }
    }
}
