//! Reads this host and its load, for results.

use io::host;
use model::{CpuUse, HostCounters};

/// Begins a measurement of this host's load; the returned function reads the load since then.
pub(crate) fn meter() -> Box<dyn Fn() -> (CpuUse, HostCounters) + Send> {
    let before = host::Reading::now();
    Box::new(move || host::difference(&before, &host::Reading::now()))
}

/// Load of this host's CPUs during a run, for live views.
#[derive(Debug)]
pub struct CpuMeter {
    began: host::Reading,
    last: host::Reading,
}

impl Default for CpuMeter {
    fn default() -> Self {
        let now = host::Reading::of_cpus();
        CpuMeter { began: now.clone(), last: now }
    }
}

impl CpuMeter {
    /// Since it was made, and since it was asked last.
    pub fn lap(&mut self) -> (CpuUse, CpuUse) {
        let now = host::Reading::of_cpus();
        let used = (host::difference(&self.began, &now).0, host::difference(&self.last, &now).0);
        self.last = now;
        used
    }
}

/// Wall time, now.
pub fn wall_now() -> metrics::Wall {
    io::Clock::new().sample().wall(crate::session::now())
}
