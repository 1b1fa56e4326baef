//! Results of a protocol's own: figures against the setting that varies, and curves.

use crate::plot::{Axis, Plot, Series, Style};
use metrics::real;
use model::{Point, Reading, Shown};
use std::collections::{BTreeMap, BTreeSet};

/// Results whose curves are drawn.
const MOST: usize = 8;

pub(super) fn plots(point: &Point) -> Vec<Plot> {
    let all: Vec<&Shown> = point.shown().collect();
    against(&all).into_iter().chain(curves(&all)).filter_map(Plot::some).collect()
}

/// Different values in the order of their first occurrence.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut all = Vec::new();
    values.for_each(|value| {
        if !all.contains(&value) {
            all.push(value);
        }
    });
    all
}

/// `1000 B, 20.0 µs`: the settings but that of the x axis.
fn name(shown: &Shown, varied: Option<&str>) -> String {
    let words = shown.settings.iter().filter(|setting| Some(setting.key.as_str()) != varied);
    words.map(|setting| format!("{} {}", setting.label, setting.show())).collect::<Vec<_>>().join(", ")
}

fn setting<'a>(shown: &'a Shown, key: &str) -> Option<&'a Reading> {
    shown.settings.iter().find(|setting| setting.key == key)
}

/// The figures of each kind of result against the last of its settings that varies, a line for each
/// combination of the others.
fn against(all: &[&Shown]) -> Vec<Plot> {
    let mut plots = Vec::new();
    for title in distinct(all.iter().map(|shown| &shown.title)) {
        let same: Vec<&Shown> = all.iter().copied().filter(|shown| shown.title == *title).collect();
        let values =
            |key: &str| distinct(same.iter().filter_map(|shown| Some(setting(shown, key)?.value))).len();
        let Some(x) = same[0].settings.iter().rev().find(|setting| values(&setting.key) > 1) else {
            continue;
        };
        let figures = same.iter().flat_map(|shown| &shown.figures);
        let family = |figure: &Reading| figure.key.split('.').next().unwrap_or_default().to_owned();
        for key in distinct(figures.clone().map(family)) {
            plots.extend(figures.clone().find(|figure| family(figure) == key).map(|first| {
                let label = first.figure().map_or(first.label.as_str(), |figure| figure.family().1);
                let y = Axis::new(label, first.unit);
                Plot::new(
                    &format!("extra-{key}"),
                    &format!("{title}: {label}"),
                    Axis::new(&x.label, x.unit),
                    y,
                )
                .note(
                    "Of results that were repeated the mean is shown, and a bar from the least to the most.",
                )
                .with(lines(&same, &x.key, |figure| family(figure) == key))
            }));
        }
    }
    plots
}

fn lines(same: &[&Shown], x: &str, wanted: impl Fn(&Reading) -> bool) -> Vec<Series> {
    let mut lines: BTreeMap<(String, String), Vec<(f64, f64)>> = BTreeMap::new();
    for shown in same {
        let Some(at) = setting(shown, x) else { continue };
        for figure in shown.figures.iter().filter(|figure| wanted(figure)) {
            let line = lines.entry((name(shown, Some(x)), figure.label.clone())).or_default();
            line.push((at.value, figure.value));
        }
    }
    let labels = distinct(lines.keys().map(|(_, label)| label.clone())).len();
    let name = |others: String, label: String| match (labels > 1, others.is_empty()) {
        (true, true) => label,
        (true, false) => format!("{label}, {others}"),
        (false, true) => "all".to_owned(),
        (false, false) => others,
    };
    lines.into_iter().map(|((others, label), values)| over_results(&name(others, label), values)).collect()
}

/// A line over the means of results with the same setting, with bars from the least to the most of
/// several.
fn over_results(name: &str, mut values: Vec<(f64, f64)>) -> Series {
    values.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let (mut points, mut spread) = (Vec::new(), Vec::new());
    for same in values.chunk_by(|a, b| a.0 == b.0) {
        let mean = same.iter().map(|(_, value)| value).sum::<f64>() / real(same.len());
        points.push((same[0].0, Some(mean)));
        spread.push((same.len() > 1).then(|| (same[0].1, same[same.len() - 1].1)));
    }
    if spread.iter().all(Option::is_none) {
        spread.clear();
    }
    Series { spread, ..Series::line(name, points) }
}

/// The curves of the first result of each setting; curves with equal titles share a plot.
fn curves(all: &[&Shown]) -> Vec<Plot> {
    let mut plots: Vec<Plot> = Vec::new();
    let mut drawn = BTreeSet::new();
    for shown in all {
        let name = name(shown, None);
        for curve in &shown.curves {
            let before = drawn.iter().filter(|(title, _)| *title == &curve.title).count();
            if before >= MOST || !drawn.insert((&curve.title, name.clone())) {
                continue;
            }
            let plot = Plot::titled(&mut plots, &curve.title, || {
                let axis = |(label, unit): &(String, model::Unit)| Axis::new(label, *unit);
                let id = format!("extra-{}", curve.title.to_lowercase());
                Plot::new(&id, &curve.title, axis(&curve.x), axis(&curve.y)).note(&curve.note)
            });
            let style = if curve.steps { Style::Steps } else { Style::Line };
            plot.add(Series::new(name.clone(), style, curve.points.clone()));
        }
    }
    plots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_results_are_a_mean_with_its_extremes() {
        let series = over_results("all", vec![(20.0, 7.0), (10.0, 4.0), (10.0, 1.0), (10.0, 1.0)]);
        assert_eq!(series.points, [(10.0, Some(2.0)), (20.0, Some(7.0))]);
        assert_eq!(series.spread, [Some((1.0, 4.0)), None]);
    }
}
