//! Runs that were kept, as reports have them.

use report::Past;
use store::Entry;

/// An entry as reports have it.
#[must_use]
pub fn past(entry: Entry) -> Past {
    let Entry { id, run, started, verb, protocol, targets, status, source, figures } = entry;
    let figures = figures.into_iter().map(|f| report::PastFigure {
        setting: f.setting,
        repeat: f.repeat,
        name: f.name,
        unit: f.unit,
        value: f.value,
    });
    Past { id, run, started, verb, protocol, targets, status, source, figures: figures.collect() }
}
