//! Instants and the relation between the monotonic and the wall clock.

use serde::{Deserialize, Serialize};

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// A reading of the process's monotonic clock, in nanoseconds since an arbitrary zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash, Serialize, Deserialize)]
pub struct Mono(pub u64);

/// A reading of the wall clock, in nanoseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(inline))]
pub struct Wall(pub i64);

impl Mono {
    /// The instant `ns` nanoseconds later, saturating.
    #[must_use]
    pub const fn plus(self, ns: u64) -> Self {
        Mono(self.0.saturating_add(ns))
    }

    /// Nanoseconds from `earlier` to `self`; 0 when `earlier` is later.
    pub const fn since(self, earlier: Mono) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A stretch of time in which a schedule has bytes leave, or arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Window {
    /// Its begin.
    pub from: Mono,
    /// Its length, ns.
    pub ns: u64,
    /// True while the window grows: `ns` is its length so far, to one gap after the last bytes.
    pub open: bool,
}

impl Window {
    /// Its end, so far.
    pub fn ends(self) -> Mono {
        self.from.plus(self.ns)
    }

    /// The window of concurrent schedules, from the first begin on. Schedules of known length last
    /// as long as the longest: the end of the last one would add its distance from the first to the
    /// time that each of them takes.
    #[must_use]
    pub fn union(self, other: Window) -> Window {
        let (from, open) = (self.from.min(other.from), self.open || other.open);
        let ns = if open { self.ends().max(other.ends()).since(from) } else { self.ns.max(other.ns) };
        Window { from, ns, open }
    }

    /// Its part between two instants, ns.
    pub fn within(self, from: Mono, to: Mono) -> u64 {
        self.ends().min(to).since(self.from.max(from))
    }

    /// Adds one that may be there to one that may be there.
    pub fn add(ours: &mut Option<Window>, other: Option<Window>) {
        *ours = [*ours, other].into_iter().flatten().reduce(Window::union);
    }
}

/// Place at which a time stamp was taken; it decides the accuracy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StampKind {
    /// Read by this process around the system call.
    User,
    /// By the kernel when the packet was received.
    KernelRx,
    /// By the kernel when the packet was handed to the driver.
    KernelTx,
    /// By the network card.
    Hardware,
}

/// An instant and where it was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// When.
    pub at: Mono,
    /// Source of the stamp.
    pub kind: StampKind,
}

/// Relation of the monotonic clock to the wall clock at the last sample, with its error bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Wall time, in ns since the epoch, at `Mono(0)`.
    pub wall_at_zero: i64,
    /// The kernel's bound on the error of the wall clock, in ns (`adjtimex` maxerror).
    pub error_ns: u64,
    /// True if the kernel takes the wall clock for disciplined.
    pub synced: bool,
    /// The host's monotonic clock at `Mono(0)`, ns: the processes of one host share it. 0 where
    /// they share none.
    pub host_at_zero: u64,
}

impl Clock {
    /// The host's monotonic clock at `at`, ns: comparable between the processes of one host.
    pub fn host(&self, at: Mono) -> u64 {
        self.host_at_zero.wrapping_add(at.0)
    }

    /// The same with a sign, for differences of the clocks of two hosts.
    pub fn host_signed(&self, at: Mono) -> i64 {
        self.host(at).cast_signed()
    }

    /// The wall time at `at`.
    pub fn wall(&self, at: Mono) -> Wall {
        Wall(self.wall_at_zero.saturating_add_unsigned(at.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_saturate_instead_of_wrapping() {
        assert_eq!(Mono(5).since(Mono(9)), 0);
        assert_eq!(Mono(9).since(Mono(5)), 4);
        assert_eq!(Mono(u64::MAX).plus(1), Mono(u64::MAX));
    }

    #[test]
    fn wall_follows_mono() {
        let clock = Clock { wall_at_zero: 1_000, ..Clock::default() };
        assert_eq!(clock.wall(Mono(234)), Wall(1_234));
    }
}
