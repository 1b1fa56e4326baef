//! Names to addresses, and the order in which they are used.

use crate::compat::{Resolved, Spec};
use common::Peer;
use common::original::{Driver, Refusal};
use model::Address;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const ANY: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];

fn addresses(driver: &Driver, names: &[String], port: u16) -> Result<Vec<SocketAddr>, Refusal> {
    let mut found = Vec::new();
    for name in names {
        let all = match name.as_str() {
            "*" => ANY.map(|any| SocketAddr::new(any, port)).to_vec(),
            name => {
                let peers = (driver.resolve)(name, port, false, false);
                peers.map_err(Refusal::as_usage)?.iter().map(|peer| peer.address).collect()
            }
        };
        for at in all {
            if !found.contains(&at) {
                found.push(at);
            }
        }
    }
    Ok(found)
}

/// A client's targets and local addresses; families that only one of the two has are left out.
pub(super) fn client(spec: &Spec, driver: &Driver) -> Result<Resolved, Refusal> {
    let mut targets = addresses(driver, &spec.targets, spec.port)?;
    let any = ["*".to_owned()];
    let binds = if spec.binds.is_empty() { &any[..] } else { &spec.binds };
    let mut binds = binds.iter().try_fold(Vec::new(), |mut all, bind| {
        let found = match Address::parse(bind).filter(|at| at.port.is_none()) {
            Some(at) => vec![driver.source(&at)?],
            None => addresses(driver, std::slice::from_ref(bind), 0)?,
        };
        let new: Vec<_> = found.into_iter().filter(|at| !all.contains(at)).collect();
        all.extend(new);
        Ok::<_, Refusal>(all)
    })?;
    let (from, to) = (binds.clone(), targets.clone());
    targets.retain(|to| from.iter().any(|from| from.is_ipv4() == to.is_ipv4()));
    binds.retain(|from| to.iter().any(|to| from.is_ipv4() == to.is_ipv4()));
    if targets.is_empty() {
        return Err(Refusal::Usage(format!(
            "-Bind and -Target have no address family in common: {} cannot reach {}",
            listed(&from.iter().map(SocketAddr::ip).collect::<Vec<_>>()),
            listed(&to)
        )));
    }
    Ok(Resolved { targets, binds, listens: Vec::new() })
}

fn listed<T: ToString>(all: &[T]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

pub(super) fn server(spec: &Spec, driver: &Driver) -> Result<Resolved, Refusal> {
    Ok(Resolved { listens: addresses(driver, &spec.listens, spec.port)?, ..Resolved::default() })
}

/// The sockets of a server: `[::]` takes IPv4 as well, so that `0.0.0.0` beside it is none of its
/// own.
pub(super) fn listening(resolved: &Resolved) -> Vec<SocketAddr> {
    let both = ANY.iter().all(|any| resolved.listens.iter().any(|at| at.ip() == *any));
    resolved.listens.iter().filter(|at| !(both && at.ip() == ANY[0])).copied().collect()
}

/// The targets in the order in which connections go to them.
pub(super) fn rotation(spec: &Spec, resolved: &Resolved) -> Vec<Peer> {
    let peer = |address| Peer::new(spec.targets.join(" "), address);
    in_turn(&resolved.binds, &resolved.targets).into_iter().map(peer).collect()
}

/// The original walks both lists with counters that move before they are used, so that it begins
/// with the second element, and the counter of targets moves on until its family is that of the
/// local address. One period of that walk; where it would never reach some of the targets, all are
/// taken in turn instead.
fn in_turn(binds: &[SocketAddr], targets: &[SocketAddr]) -> Vec<SocketAddr> {
    let (mut bind, mut target) = (0, 0);
    let (mut order, mut states) = (Vec::new(), Vec::new());
    while !binds.is_empty() && !states.contains(&(bind, target)) {
        states.push((bind, target));
        bind = (bind + 1) % binds.len();
        for _ in targets {
            target = (target + 1) % targets.len();
            if targets[target].is_ipv4() == binds[bind].is_ipv4() {
                break;
            }
        }
        order.push(targets[target]);
    }
    // Where the walk returns to its second state, its last step was its first.
    let first = states.iter().position(|state| *state == (bind, target)).unwrap_or(0);
    order.truncate(order.len() - first);
    if targets.iter().any(|target| !order.contains(target)) {
        order = targets.to_vec();
        order.rotate_left(1);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(binds: &[&str], targets: &[&str]) -> Vec<String> {
        let binds: Vec<SocketAddr> = binds.iter().map(|b| SocketAddr::new(b.parse().unwrap(), 0)).collect();
        let targets: Vec<SocketAddr> =
            targets.iter().map(|t| SocketAddr::new(t.parse().unwrap(), 4444)).collect();
        in_turn(&binds, &targets).iter().map(|at| at.ip().to_string()).collect()
    }

    /// With [0.0.0.0, ::] the first connection leaves from `::`.
    #[test]
    fn the_second_local_address_comes_first() {
        assert_eq!(walk(&["0.0.0.0", "::"], &["::1", "127.0.0.1"]), ["::1", "127.0.0.1"]);
        assert_eq!(walk(&["0.0.0.0", "::"], &["127.0.0.1", "::1"]), ["::1", "127.0.0.1"]);
        assert_eq!(
            walk(&["0.0.0.0"], &["10.0.0.1", "10.0.0.2", "10.0.0.3"]),
            ["10.0.0.2", "10.0.0.3", "10.0.0.1"]
        );
        assert_eq!(walk(&["0.0.0.0"], &["10.0.0.1"]), ["10.0.0.1"]);
    }

    /// The walk of the original would never come to 10.0.0.2 here; ours does.
    #[test]
    fn no_target_is_left_out() {
        let mut all = walk(&["0.0.0.0", "::"], &["10.0.0.1", "10.0.0.2", "fd00::1"]);
        assert_eq!(all[0], "10.0.0.2");
        all.sort();
        assert_eq!(all, ["10.0.0.1", "10.0.0.2", "fd00::1"]);
    }

    #[test]
    fn one_socket_serves_both_families() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let resolved = |listens: &[&str]| Resolved {
            listens: listens.iter().map(|l| at(l)).collect(),
            ..Resolved::default()
        };
        assert_eq!(listening(&resolved(&["0.0.0.0:4444", "[::]:4444"])), [at("[::]:4444")]);
        assert_eq!(listening(&resolved(&["0.0.0.0:4444", "[::1]:4444"])).len(), 2);
    }
}
