//! Which core each worker runs on.

use io::thread;

/// Where workers run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Each worker on a core of its own, when there are several: worker i of both ends then has the same connections, which
    /// on one host share a core and its caches. A single worker is left to the scheduler, unless the server is on this host.
    #[default]
    Even,
    /// The scheduler decides.
    Spread,
    /// Worker i runs on the i-th of these cores, round robin.
    Cores(Vec<usize>),
}

impl Placement {
    /// Checks that every core can be used by this process.
    ///
    /// # Errors
    /// One sentence naming a core that cannot.
    pub fn check(&self) -> Result<(), String> {
        let Placement::Cores(cores) = self else { return Ok(()) };
        let usable = thread::available();
        match cores.iter().find(|core| !usable.contains(core)) {
            Some(core) => Err(format!("core {core} cannot be used: this process may run on {usable:?}")),
            None if cores.is_empty() => Err("the list of cores is empty".to_owned()),
            None => Ok(()),
        }
    }

    /// The core of each of `workers` workers, the first on the `first`-th; `None` where the scheduler decides.
    #[must_use]
    pub(crate) fn cores(&self, workers: usize, first: usize) -> Vec<Option<usize>> {
        let cores = match self {
            Placement::Even if workers > 1 => thread::available(),
            Placement::Even | Placement::Spread => Vec::new(),
            Placement::Cores(cores) => cores.clone(),
        };
        let first = if *self == Placement::Even { first } else { 0 };
        (0..workers).map(|worker| cores.get((worker + first) % cores.len().max(1)).copied()).collect()
    }

    /// The cores that a group can share with the workers of a server on this host, in their order.
    #[must_use]
    pub(crate) fn shared(&self) -> Vec<usize> {
        if *self == Placement::Even { thread::available() } else { Vec::new() }
    }

    /// Where another end on this host runs that is not to share a core with the workers of this one; `None` when there is no
    /// other core.
    #[must_use]
    pub fn apart(&self) -> Option<Placement> {
        let usable = thread::available();
        match self {
            // The server's workers are told which core is the client's.
            Placement::Even | Placement::Spread => (usable.len() > 1).then_some(Placement::Even),
            Placement::Cores(taken) => {
                let others: Vec<usize> = usable.into_iter().filter(|core| !taken.contains(core)).collect();
                (!others.is_empty()).then_some(Placement::Cores(others))
            }
        }
    }

    /// How results name it.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Placement::Even => "even".to_owned(),
            Placement::Spread => "spread".to_owned(),
            Placement::Cores(cores) => {
                let list: Vec<String> = cores.iter().map(ToString::to_string).collect();
                format!("cores {}", list.join(","))
            }
        }
    }
}

/// Worker threads when nothing else is said: one per core that this process may use.
#[must_use]
pub(crate) fn default_workers() -> u16 {
    thread::available().len().clamp(1, 1024) as u16
}

/// The same for tests whose other end need not be ours, and then has no part in where ours runs: that end, where it is on this
/// host, or the network card wants a core as well. With a pinned worker on each of two cores, four streams to a stock iperf3
/// beside them got 0.7 times what stock iperf3 moves, with one worker that the scheduler places 1.0 to 1.2 times.
pub(crate) fn workers_beside_others() -> u16 {
    default_workers().saturating_sub(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_get_cores_round_robin() {
        assert_eq!(Placement::Cores(vec![3, 1]).cores(3, 1), [Some(3), Some(1), Some(3)]);
        assert_eq!(Placement::Spread.cores(2, 0), [None, None]);
        assert_eq!(Placement::Even.cores(1, 0), [None]);
        let usable = thread::available();
        assert_eq!(Placement::Even.cores(usable.len().max(2), 0)[0], usable.first().copied());
        assert_eq!(Placement::Cores(usable.clone()).apart(), None, "all cores are taken");
        let several = usable.len() > 1;
        assert_eq!(Placement::Even.apart(), several.then_some(Placement::Even));
        assert_eq!(Placement::Cores(usable[..1].to_vec()).apart().is_some(), several);
    }
}
