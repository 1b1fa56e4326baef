//! The firewall's treatment of incoming packets that no rule names.
//!
//! ```text
//! nfgenmsg      { family u8, version u8, resource u16 }
//! NFTA_CHAIN_HOOK (4), nested    NFTA_HOOK_HOOKNUM (1): u32, big-endian; NF_INET_LOCAL_IN is 1
//! NFTA_CHAIN_POLICY (5)          u32, big-endian; 0 drops, 1 accepts
//! NFTA_CHAIN_TYPE (7)            zero-terminated; `filter`
//! ```

use super::netlink::{attributes, list};
use super::{net, proc};
use transport::FirewallPolicy;

/// `NFNL_SUBSYS_NFTABLES`, in the upper half of a message's type.
const NFTABLES: u16 = 10 << 8;
const NEW_CHAIN: u16 = NFTABLES | 3;
const GET_CHAIN: u16 = NFTABLES | 4;
const GENERIC: usize = 4;
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;
const CHAIN_TYPE: u16 = 7;
const HOOK_NUMBER: u16 = 1;
const LOCAL_IN: u32 = 1;
/// Families of rules about IP: both (inet), IPv4, IPv6.
const FAMILIES: [u8; 3] = [1, 2, 10];

/// The strictest treatment of incoming packets in the calling thread's network namespace; `None`
/// where this user may not read the rules, or where iptables' older tables hold them.
pub(super) fn policy() -> Option<FirewallPolicy> {
    // The older tables do not show their policy, and their list is root's.
    match net("ip_tables_names") {
        Some(names) if names.lines().any(|name| name == "filter") => return None,
        None if is_loaded("ip_tables") => return None,
        _ => {}
    }
    // A question about rules would load the module.
    let is_modular = proc("modules").is_some_and(|modules| !modules.is_empty());
    if is_modular && !is_loaded("nf_tables") {
        return Some(FirewallPolicy::Open);
    }
    let mut strictest = FirewallPolicy::Open;
    let read = list(libc::NETLINK_NETFILTER, GET_CHAIN, &[0; GENERIC], &mut |kind, message| {
        let found = (kind == NEW_CHAIN).then(|| incoming(message)).flatten();
        strictest = match (strictest, found) {
            (_, Some(FirewallPolicy::Drop)) | (FirewallPolicy::Drop, _) => FirewallPolicy::Drop,
            (_, Some(FirewallPolicy::Accept)) => FirewallPolicy::Accept,
            (kept, _) => kept,
        };
    });
    match read {
        Ok(()) => Some(strictest),
        // The kernel has no such rules.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EPROTONOSUPPORT)) => {
            Some(FirewallPolicy::Open)
        }
        Err(_) => None,
    }
}

/// True if the kernel has loaded this module.
fn is_loaded(name: &str) -> bool {
    proc("modules").is_some_and(|all| all.lines().any(|line| line.split(' ').next() == Some(name)))
}

/// The policy of a chain that incoming packets pass; `None` for other chains.
fn incoming(message: &[u8]) -> Option<FirewallPolicy> {
    if !FAMILIES.contains(message.first()?) {
        return None;
    }
    let (mut hook, mut filters, mut policy) = (None, false, FirewallPolicy::Accept);
    for (kind, value) in attributes(message.get(GENERIC..)?) {
        match kind {
            CHAIN_HOOK => {
                let number = attributes(value).find(|(kind, _)| *kind == HOOK_NUMBER);
                hook = number.and_then(|(_, value)| number_of(value));
            }
            CHAIN_POLICY if number_of(value) == Some(0) => policy = FirewallPolicy::Drop,
            CHAIN_TYPE => filters = value.strip_suffix(&[0]) == Some(b"filter"),
            _ => {}
        }
    }
    (hook == Some(LOCAL_IN) && filters).then_some(policy)
}

fn number_of(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = u16::try_from(4 + value.len()).unwrap().to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn chain(family: u8, hook: u32, policy: u32, kind: &str) -> Vec<u8> {
        let mut bytes = vec![family, 0, 0, 0];
        bytes.extend(attribute(1, b"filter\0"));
        bytes.extend(attribute(3, b"input\0"));
        let hooks = [attribute(HOOK_NUMBER, &hook.to_be_bytes()), attribute(2, &[0; 4])].concat();
        bytes.extend(attribute(CHAIN_HOOK | 0x8000, &hooks));
        bytes.extend(attribute(CHAIN_POLICY, &policy.to_be_bytes()));
        bytes.extend(attribute(CHAIN_TYPE, format!("{kind}\0").as_bytes()));
        bytes
    }

    #[test]
    fn chains_of_incoming_packets_have_a_policy() {
        assert_eq!(incoming(&chain(1, LOCAL_IN, 0, "filter")), Some(FirewallPolicy::Drop));
        assert_eq!(incoming(&chain(2, LOCAL_IN, 1, "filter")), Some(FirewallPolicy::Accept));
        for other in [chain(1, 2, 0, "filter"), chain(3, LOCAL_IN, 0, "filter"), chain(1, LOCAL_IN, 0, "nat")]
        {
            assert_eq!(incoming(&other), None);
        }
        let whole = chain(1, LOCAL_IN, 0, "filter");
        for cut in 0..whole.len() {
            let _ = incoming(&whole[..cut]);
        }
    }
}
