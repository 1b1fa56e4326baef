//! Which core each worker runs on.

use io::thread;

/// Where workers run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// The scheduler decides.
    #[default]
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

    /// Puts the calling thread, worker `index`, where it belongs.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn take(&self, index: usize) -> std::io::Result<()> {
        match self {
            Placement::Spread => Ok(()),
            Placement::Cores(cores) => match cores.get(index % cores.len().max(1)) {
                Some(&core) => thread::pin(&[core]),
                None => Ok(()),
            },
        }
    }

    /// How results name it.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
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
