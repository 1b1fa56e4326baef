//! A page's updates: all parts at first, then the changed ones.

use report::{LivePlot, LiveView, live_units};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A state of the page, ready to be sent.
#[derive(Debug, Default)]
pub(crate) struct Update {
    /// Its number; each change has one more.
    pub(crate) version: u64,
    /// True for the last update.
    pub(crate) last: bool,
    full: Arc<str>,
    /// Changes since the version before.
    delta: Arc<str>,
}

impl Update {
    /// The state after `before`.
    pub(crate) fn new(version: u64, before: &LiveView, view: &LiveView) -> Self {
        let mut full = message(version, &LiveView::default(), view);
        full["units"] = live_units();
        let mut delta = message(version, before, view);
        delta["from"] = Value::from(version.saturating_sub(1));
        Update { version, last: view.ended, full: full.to_string().into(), delta: delta.to_string().into() }
    }

    /// The update for a page that has the version `known`.
    pub(crate) fn since(&self, known: Option<u64>) -> Arc<str> {
        let next = known.is_some_and(|known| known + 1 == self.version);
        Arc::clone(if next { &self.delta } else { &self.full })
    }
}

/// The parts that differ from `before`; the state of the run is always included.
fn message(version: u64, before: &LiveView, view: &LiveView) -> Value {
    let changed =
        |(name, html): &&(&'static str, String)| !before.parts.iter().any(|(n, h)| n == name && h == html);
    let parts: Map<String, Value> =
        view.parts.iter().filter(changed).map(|(name, html)| ((*name).to_owned(), json!(html))).collect();
    let mut sheets = Vec::new();
    let (mut frames, mut plots) = (Map::new(), Map::new());
    for (title, all) in &view.sheets {
        sheets
            .push(json!({ "title": title, "plots": all.iter().map(|plot| &plot.name).collect::<Vec<_>>() }));
        for LivePlot { name, frame, plot } in all {
            let old = before.sheets.iter().flat_map(|(_, plots)| plots).find(|old| old.name == *name);
            if old.is_none_or(|old| old.frame != *frame) {
                frames.insert(name.clone(), json!(frame));
            }
            match old {
                Some(old) if old.plot == *plot => {}
                Some(old) => drop(plots.insert(name.clone(), grown(&old.plot, plot))),
                None => drop(plots.insert(name.clone(), plot.clone())),
            }
        }
    }
    json!({
        "v": version, "run": view.run, "title": view.title, "kind": view.kind, "ended": view.ended, "parts": parts, "sheets": sheets,
        "frames": frames, "plots": plots,
    })
}

/// The plot with those points of its series left out that are known: `keep` says how many there
/// are.
fn grown(old: &Value, new: &Value) -> Value {
    let mut grown = new.clone();
    let (Some(series), Some(known)) = (grown["series"].as_array_mut(), old["series"].as_array()) else {
        return grown;
    };
    for (series, known) in series.iter_mut().zip(known) {
        let plain = |series: &Value| series["spread"].as_array().is_none_or(Vec::is_empty);
        if series["name"] != known["name"] || !plain(series) || !plain(known) {
            continue;
        }
        let keep = same(&series["x"], &known["x"]).min(same(&series["y"], &known["y"]));
        for axis in ["x", "y"] {
            if let Some(points) = series[axis].as_array_mut() {
                points.drain(..keep.min(points.len()));
            }
        }
        series["keep"] = Value::from(keep);
    }
    grown
}

/// Length of the common beginning of two lists.
fn same(a: &Value, b: &Value) -> usize {
    match (a.as_array(), b.as_array()) {
        (Some(a), Some(b)) => a.iter().zip(b).take_while(|(a, b)| a == b).count(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(ys: &[f64], note: &str) -> LiveView {
        let xs: Vec<usize> = (0..ys.len()).collect();
        let plot = json!({ "name": "goodput", "series": [{ "name": "up", "x": xs, "y": ys, "spread": [] }] });
        let plot = LivePlot { name: "goodput".to_owned(), frame: "<figure>".to_owned(), plot };
        LiveView {
            parts: vec![("verdict", note.to_owned()), ("foot", "same".to_owned())],
            sheets: vec![(String::new(), vec![plot])],
            ..LiveView::default()
        }
    }

    #[test]
    fn what_is_known_is_not_told_again() {
        let (before, now) = (view(&[1.0, 2.0, 3.0], "a"), view(&[1.0, 2.0, 4.0, 5.0], "b"));
        let update = Update::new(7, &before, &now);
        let told: Value = serde_json::from_str(&update.since(Some(6))).unwrap();
        assert_eq!(told["from"], 6);
        assert_eq!(told["parts"], json!({ "verdict": "b" }));
        assert_eq!(told["frames"], json!({}));
        let series = &told["plots"]["goodput"]["series"][0];
        assert_eq!(
            (&series["keep"], &series["y"], &series["x"]),
            (&json!(2), &json!([4.0, 5.0]), &json!([2, 3]))
        );
        assert_eq!(told["sheets"][0]["plots"], json!(["goodput"]));
    }

    #[test]
    fn whoever_missed_something_is_told_all() {
        let update = Update::new(7, &view(&[1.0], "a"), &view(&[1.0, 2.0], "a"));
        for known in [None, Some(5), Some(7), Some(900)] {
            let told: Value = serde_json::from_str(&update.since(known)).unwrap();
            assert!(told["from"].is_null() && told["units"].is_object(), "{told}");
            assert_eq!(told["plots"]["goodput"]["series"][0]["y"], json!([1.0, 2.0]));
            assert_eq!(told["parts"]["foot"], "same");
        }
    }
}
