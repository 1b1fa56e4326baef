//! Events since the last drawing: a bounded queue between the threads that report events and the view.

use model::Event;
use std::collections::VecDeque;

/// Most events kept. Some minutes of a run, while the terminal is stopped; after that the oldest intervals are left out.
const MOST: usize = 512;
/// Most failures told one by one.
const FAILURES: usize = 64;

/// Events on their way to a [`View`](super::View).
///
/// Adding an event copies the parts that are shown and never blocks. Parts that are not shown are left out;
/// ended connections, of which there may be tens of thousands a second, are counted.
#[derive(Clone, Debug, Default)]
pub struct Feed {
    pub(super) told: VecDeque<(u32, Event)>,
    /// Connections that ended, and how many of them in an error.
    pub(super) ended: (u64, u64),
    /// Causes of the first failures.
    pub(super) failures: Vec<String>,
    /// Intervals dropped because the view did not take them in time.
    pub(super) missed: u64,
}

impl Feed {
    /// Takes an event of one of several measurements that run beside each other; of the only one, 0.
    pub fn hear(&mut self, part: u32, event: &Event) {
        match event {
            Event::Begin(_)
            | Event::Phase { .. }
            | Event::Session(_)
            | Event::Start { .. }
            | Event::Interval(_)
            | Event::Notice { .. }
            | Event::Local(_)
            | Event::Remote(_)
            | Event::PhaseEnd { .. }
            | Event::End { .. } => {
                if self.told.len() >= MOST {
                    self.forget();
                }
                self.told.push_back((part, event.clone()));
            }
            Event::Connection(record) => {
                self.ended.0 += 1;
                if let Some(error) = &record.error {
                    self.ended.1 += 1;
                    if self.failures.len() < FAILURES {
                        self.failures.push(format!("{}: {error}", record.remote));
                    }
                }
            }
            _ => {}
        }
    }

    /// All that was told since the last time.
    pub fn take(&mut self) -> Feed {
        std::mem::take(self)
    }

    pub fn is_empty(&self) -> bool {
        self.told.is_empty() && self.ended.0 == 0
    }

    /// Whether a phase has begun to measure since.
    pub fn begins(&self) -> bool {
        self.told.iter().any(|(_, event)| matches!(event, Event::Start { .. }))
    }

    /// Whether an interval has ended since.
    pub fn measured(&self) -> bool {
        self.told.iter().any(|(_, event)| matches!(event, Event::Interval(_)))
    }

    /// Leaves out the oldest interval: what the others told is still true.
    fn forget(&mut self) {
        let oldest = self.told.iter().position(|(_, event)| matches!(event, Event::Interval(_)));
        self.told.remove(oldest.unwrap_or(0));
        self.missed += 1;
    }
}
