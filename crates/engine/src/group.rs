//! The control thread's book on a group, and what the host did meanwhile.

use crate::machine;
use io::host::Reading;
use metrics::Mono;
use model::{Book, Totals};
use std::ops::Range;

/// A group that is watched.
pub(crate) struct Watched {
    pub(crate) book: Book,
    /// The workers that it is on.
    pub(crate) workers: Range<usize>,
    before: Reading,
}

impl Watched {
    pub(crate) fn new(book: Book, workers: Range<usize>) -> Self {
        Watched { book, workers, before: Reading::now() }
    }

    /// The group that waited for its start begins.
    pub(crate) fn begin(&mut self, at: Mono) {
        self.book.begin(at);
        self.before = Reading::now();
    }

    /// What the group found, and the host's part in it.
    pub(crate) fn totals(self) -> Totals {
        let (cpu, counters) = machine::usage(&self.before, &Reading::now());
        Totals { cpu: Some(cpu), counters, ..self.book.totals() }
    }
}
