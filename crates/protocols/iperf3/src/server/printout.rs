//! The kept part of a test for the printout that its client asked for.

use crate::{Bulk, BulkNews};

/// Rows of intervals that are kept of a test: the printout goes to the client in one document,
/// which may not be too long.
const MOST_ROWS: usize = 20_000;

#[derive(Debug, Default)]
pub(super) struct Printout {
    pub(super) events: Vec<Bulk>,
    /// Rows of the intervals among them.
    rows: usize,
}

impl Printout {
    /// Keeps news of a test whose client has `asked` for the printout: its begin and end, and as
    /// many intervals as there is room for.
    pub(super) fn keep(&mut self, bulk: &Bulk, asked: bool) {
        let (rows, early) = match &bulk.news {
            BulkNews::Interval { rows, .. } => (rows.len(), false),
            // The event precedes the parameters, which have the client's wish for a printout.
            BulkNews::Met { .. } => (0, true),
            BulkNews::Begun(_) | BulkNews::Ended(_) | BulkNews::Failed { .. } => (0, false),
        };
        if (asked || early) && self.rows + rows <= MOST_ROWS {
            self.rows += rows;
            self.events.push(bulk.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StreamRow;
    use metrics::Wall;

    #[test]
    fn only_what_was_asked_for_is_kept_and_both_ends_of_it_always() {
        let bulk = |news| Bulk { test: 1, news };
        let (peer, local) = (([10, 0, 0, 1], 4).into(), ([10, 0, 0, 9], 5201).into());
        let met = bulk(BulkNews::Met { peer, local, cookie: String::new(), at: Wall(0) });
        let interval = bulk(BulkNews::Interval { omitted: false, rows: vec![StreamRow::default(); 256] });
        for (asked, kept) in [(true, MOST_ROWS / 256 + 3), (false, 1)] {
            let mut printout = Printout::default();
            printout.keep(&met, asked);
            printout.keep(&bulk(BulkNews::Begun(Box::default())), asked);
            (0..1_000).for_each(|_| printout.keep(&interval, asked));
            printout.keep(&bulk(BulkNews::Ended(Box::default())), asked);
            assert_eq!(printout.events.len(), kept, "{asked}");
            let last = printout.events.last().map(|bulk| &bulk.news);
            assert_eq!(matches!(last, Some(BulkNews::Ended(_))), asked);
        }
    }
}
