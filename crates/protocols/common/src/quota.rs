//! Bounds for peers that have proved nothing: control links, rates, and lines in a log.

use metrics::{Clamped, Mono, SECOND};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use transport::Link;
pub use transport::admission::holder;

/// The oldest control link of the address that has most of `silent`, which are in the order of
/// arrival.
pub fn to_give_way(silent: impl IntoIterator<Item = (Link, IpAddr)>) -> Option<Link> {
    let mut holders = HashMap::<IpAddr, (usize, Reverse<Link>)>::new();
    for (link, address) in silent {
        holders.entry(holder(address)).or_insert((0, Reverse(link))).0 += 1;
    }
    holders.into_values().max().map(|(_, oldest)| oldest.0)
}

/// Lines about one thing: one a minute.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lines {
    last: Option<Mono>,
    /// Lines left out since.
    left_out: u64,
}

/// Time between two lines about one thing.
const MINUTE: u64 = 60 * SECOND;

impl Lines {
    /// If a line is due, the number of lines that were left out before it.
    pub fn due(&mut self, now: Mono) -> Option<u64> {
        if self.last.is_some_and(|last| now.since(last) < MINUTE) {
            self.left_out += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.left_out))
    }

    /// [`Lines::due`] for a text, which says how many like it were left out.
    pub fn text(&mut self, now: Mono, text: String) -> Option<String> {
        match self.due(now)? {
            0 => Some(text),
            n => Some(format!("{text} ({n} more of its kind since the last line)")),
        }
    }
}

/// A rate: `burst` at once, then one each `period_ns`.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    period_ns: u64,
    burst: u64,
    /// When all that was taken is paid for.
    paid: Mono,
}

impl Rate {
    /// With nothing taken yet.
    pub const fn new(burst: u64, period_ns: u64) -> Self {
        Rate { period_ns, burst, paid: Mono(0) }
    }

    /// True if one can be taken.
    pub fn open(&self, now: Mono) -> bool {
        self.paid.since(now) <= self.period_ns.saturating_mul(self.burst.saturating_sub(1))
    }

    /// Takes one.
    pub fn take(&mut self, now: Mono) {
        self.paid = self.paid.max(now).plus(self.period_ns);
    }

    /// Takes one if there is one.
    pub fn admits(&mut self, now: Mono) -> bool {
        let open = self.open(now);
        if open {
            self.take(now);
        }
        open
    }
}

/// State by address; when there are too many addresses, the least recently used ones are forgotten.
#[derive(Debug)]
pub struct ByAddress<T> {
    all: HashMap<IpAddr, (u64, T)>,
    uses: u64,
}

/// Addresses that are remembered.
const MOST_ADDRESSES: usize = 4096;

impl<T> Default for ByAddress<T> {
    fn default() -> Self {
        ByAddress { all: HashMap::new(), uses: 0 }
    }
}

impl<T> ByAddress<T> {
    /// The state of `address`, made by `new` if there is none.
    pub fn of(&mut self, address: IpAddr, new: impl FnOnce() -> T) -> &mut T {
        let holder = holder(address);
        self.uses += 1;
        if self.all.len() >= MOST_ADDRESSES && !self.all.contains_key(&holder) {
            // Half of them at once, so that each costs little.
            let old = self.uses.saturating_sub(u64::clamped(MOST_ADDRESSES) / 2);
            self.all.retain(|_, (used, _)| *used >= old);
        }
        let entry = self.all.entry(holder).or_insert_with(|| (0, new()));
        entry.0 = self.uses;
        &mut entry.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(n: u32) -> IpAddr {
        IpAddr::from((0x7f00_0000 + n).to_be_bytes())
    }

    #[test]
    fn a_rate_lets_a_burst_through_and_then_one_each_period() {
        let mut rate = Rate::new(5, SECOND);
        let start = Mono(100 * SECOND);
        let mut admitted = |at: u64| (0..10).filter(|_| rate.admits(start.plus(at))).count();
        assert_eq!((admitted(0), admitted(SECOND), admitted(3 * SECOND)), (5, 1, 2));
        assert_eq!(admitted(1000 * SECOND), 5);
    }

    #[test]
    fn what_is_remembered_of_addresses_is_bounded() {
        let mut all = ByAddress::<u32>::default();
        for n in 0..100_000 {
            *all.of(ip(n), || 0) += 1;
            *all.of(ip(7), || 0) += 1;
        }
        assert!(all.all.len() <= MOST_ADDRESSES);
        assert_eq!(*all.of(ip(7), || 0), 100_001, "what is used stays");
    }

    #[test]
    fn lines_are_told_once_a_minute_with_the_number_of_those_left_out() {
        let mut lines = Lines::default();
        let mut at = |s: u64| lines.text(Mono(s * SECOND), "x".to_owned());
        assert_eq!(at(5).as_deref(), Some("x"));
        assert!(at(6).is_none() && at(64).is_none());
        assert_eq!(at(65).as_deref(), Some("x (2 more of its kind since the last line)"));
    }
}
