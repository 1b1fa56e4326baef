//! Which addresses may connect, and how many connections a server takes.

use crate::message::SharedMessage;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use transport::Context;

/// Addresses that may connect: denied networks first, then allowed ones (none means all).
#[derive(Clone, Debug, Default)]
pub struct Acl {
    /// Networks that may connect; empty for all.
    pub allow: Vec<ipnet::IpNet>,
    /// Networks that may not.
    pub deny: Vec<ipnet::IpNet>,
}

impl Acl {
    /// True if `address` may connect. IPv4-mapped IPv6 addresses count as IPv4.
    pub fn admits(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let within = |nets: &[ipnet::IpNet]| nets.iter().any(|net| net.contains(&address));
        !within(&self.deny) && (self.allow.is_empty() || within(&self.allow))
    }
}

/// Number of connections that a server takes, over all its workers.
#[derive(Debug)]
pub struct Limit {
    most: u64,
    accepted: AtomicU64,
    ended: AtomicU64,
}

impl Limit {
    /// `most` connections; `None` is without end.
    pub fn new(most: Option<u64>) -> Self {
        Limit { most: most.unwrap_or(u64::MAX), accepted: AtomicU64::new(0), ended: AtomicU64::new(0) }
    }

    /// Counts one more connection; false beyond the limit.
    pub fn enter(&self) -> bool {
        self.accepted
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < self.most).then_some(n + 1))
            .is_ok()
    }

    /// A connection has ended; the session is notified of the last.
    pub fn leave(&self, cx: &mut Context<'_>) {
        if self.ended.fetch_add(1, Ordering::Relaxed) + 1 == self.most {
            cx.post(SharedMessage::LimitReached);
        }
    }
}
