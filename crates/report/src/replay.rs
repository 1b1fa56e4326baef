//! The events of a saved outcome, so that every reporter that lives on events works on files too.

use model::{Event, Level, Outcome, Point};

/// The events that tell `outcome`: a [`Builder`](model::Builder) makes the same outcome of them again, as far as it was
/// kept. Notices come right after the beginning, since an outcome does not say when they were given.
pub fn replay(outcome: &Outcome) -> Vec<Event> {
    let mut events = vec![Event::Begin(Box::new(outcome.begin.clone()))];
    events.extend(outcome.notices.iter().map(|notice| {
        let (level, text) = match notice.split_once(": ") {
            Some(("warning", text)) => (Level::Warning, text),
            Some(("error", text)) => (Level::Error, text),
            _ => (Level::Info, notice.as_str()),
        };
        Event::Notice { level, text: text.to_owned() }
    }));
    outcome.points.iter().for_each(|point| phase(point, &mut events));
    events.push(Event::End { status: outcome.status, reason: outcome.reason.clone() });
    events
}

fn phase(point: &Point, events: &mut Vec<Event>) {
    let (label, repeat) = (point.label.clone(), point.repeat);
    events.push(Event::Phase { label, repeat, phase: Box::new(point.phase.clone()) });
    events.extend(point.baseline.iter().map(|baseline| Event::Baseline(baseline.clone())));
    events.extend(point.sessions.iter().map(|s| Event::Session(Box::new(s.clone()))));
    events.extend(point.started.map(|at| Event::Start { at }));
    events.extend(point.intervals.iter().map(|i| Event::Interval(Box::new(i.clone()))));
    events.extend(point.extras.iter().cloned().map(Event::Extra));
    events.extend(point.connections.iter().map(|c| Event::Connection(Box::new(c.clone()))));
    events.extend(point.trains.iter().map(|trains| Event::Trains(trains.clone())));
    events.extend(point.frame_times.iter().map(|times| Event::FrameTimes(times.clone())));
    if !point.flows.is_empty() {
        events.push(Event::Flows { rows: point.flows.clone() });
    }
    events.push(Event::Local(Box::new(point.local.clone())));
    events.extend(point.remote.iter().map(|totals| Event::Remote(Box::new(totals.clone()))));
    events.push(Event::PhaseEnd { status: point.status, reason: point.reason.clone() });
}
