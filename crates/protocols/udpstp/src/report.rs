//! Reports of a test's connections as events of the run.

use crate::NAME;
pub use common::capacity::{Activated, EndReport, News, Report, SubIntervalReport, Warning};
use common::message::post_result;
use model::{Event, Extra};
use transport::Context;

/// The report of an event, if it has one.
pub fn report_of(event: &Event) -> Option<Report> {
    event.extra_of(NAME)
}

/// Passes a report of a client to its session, which keeps it as a result.
pub(crate) fn keep(cx: &mut Context<'_>, report: Report) {
    post_result(cx, move || Event::Extra(Extra { shown: Some(Box::default()), ..Extra::new(NAME, &report) }));
}

/// Passes a report of a server to its session.
pub(crate) fn pass(cx: &mut Context<'_>, report: Report) {
    post_result(cx, move || Event::extra(NAME, &report));
}
