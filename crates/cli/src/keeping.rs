//! Runs behind the originals' command lines, and servers' lives, on their way into the store.
//!
//! A failing store does not change the original's output and exit code.

use crate::kept::{self, StoreArgs};
use common::original::History;
use model::{Builder, Event, Status};
use std::io::{self, IsTerminal};

/// What is heard of a run, until it is kept.
#[derive(Debug, Default)]
pub(crate) struct Keeping {
    /// Nothing is gathered when nothing is to be kept.
    builder: Option<Builder>,
    end: Option<(Status, Option<String>)>,
}

impl Keeping {
    /// For a run that will say itself when it begins.
    pub(crate) fn new() -> Keeping {
        let wanted = !matches!(StoreArgs::of_environment().path(), Ok(None));
        Keeping { builder: wanted.then(Builder::default), end: None }
    }
}

impl History for Keeping {
    fn on_event(&mut self, event: &Event) {
        let Some(builder) = &mut self.builder else { return };
        match event {
            Event::PhaseEnd { status, reason } => self.end = Some((*status, reason.clone())),
            // Drivers of originals that write files report the end themselves.
            Event::End { .. } => return,
            _ => {}
        }
        builder.absorb(event);
    }

    /// Saves the run at its end.
    fn finish(self: Box<Self>) {
        let Some(mut builder) = self.builder else { return };
        let (status, reason) = self.end.unwrap_or((Status::Interrupted, None));
        builder.absorb(&Event::End { status, reason });
        if let Err(trouble) = StoreArgs::of_environment().keep(&builder.outcome())
            // A program that reads the original's stderr does not expect this line.
            && io::stderr().is_terminal()
        {
            kept::warn_of_loss(&trouble);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Begin, Interval};

    #[test]
    fn a_server_of_an_original_gathers_no_more_with_its_age() {
        let mut keeping = Keeping { builder: Some(Builder::default()), end: None };
        keeping.on_event(&Event::Begin(Box::new(Begin { verb: "serve".to_owned(), ..Begin::default() })));
        let gathered = |keeping: &Keeping| {
            let outcome = keeping.builder.as_ref().unwrap().outcome();
            (outcome.points[0].intervals.len(), outcome.notices)
        };
        for index in 0..50_000_u32 {
            let (start_ns, end_ns) = (u64::from(index), u64::from(index) + 1);
            keeping.on_event(&Event::Interval(Box::new(Interval {
                index,
                start_ns,
                end_ns,
                opened: 1,
                ..Interval::default()
            })));
        }
        let (kept, notices) = gathered(&keeping);
        assert!(kept <= 1024, "{kept}");
        assert!(notices.iter().any(|notice| notice.contains("intervals are joined")), "{notices:?}");
    }
}
