//! Several phases: the figures of each setting over its repetitions, of one setting over all of
//! them, and the knee of datagrams.

use crate::text::{Page, Table, Tone, or_dash};
use crate::words;
use metrics::{Clamped, Spread, format_duration};
use model::{Figure, Outcome, Point, Stat, Status, SweepRow, Unit, Way};
use std::collections::BTreeSet;

/// Loss from which a row is coloured, percent.
const NOTABLE: f64 = 0.1;

/// One table; of datagrams one for each direction.
pub(super) fn write(outcome: &Outcome, page: &mut Page<'_>) {
    let rows = outcome.sweep.as_slice();
    let ways = slotted(rows);
    for (at, way) in ways.iter().enumerate() {
        if at > 0 {
            page.gap();
        }
        slots(rows, *way, page);
    }
    if ways.is_empty() {
        settings(outcome, page);
    }
}

/// Directions of datagrams.
pub(crate) fn slotted(rows: &[SweepRow]) -> Vec<Way> {
    Way::ALL.into_iter().filter(|way| rows.iter().any(|row| row.slot(*way).is_some())).collect()
}

/// An empty table under the names of the settings and these titles.
fn table(rows: &[SweepRow], titles: impl IntoIterator<Item = String>) -> (Table, Vec<&str>) {
    // Of another program's file one part may have no setting.
    let names: BTreeSet<&str> = rows.iter().flat_map(|row| row.label.keys().map(String::as_str)).collect();
    let names: Vec<&str> = if names.is_empty() { vec!["run"] } else { names.into_iter().collect() };
    let header = names.iter().map(|name| (*name).to_owned()).chain(["runs".to_owned()]).chain(titles);
    (Table::under(header.collect()), names)
}

/// The setting of a row, and its repetitions.
fn setting(row: &SweepRow, names: &[&str], figures: &[Figure]) -> Vec<String> {
    let none = if row.label.is_empty() && names == ["run"] { "all" } else { "-" };
    let value = |name: &&str| row.label.get(*name).map_or(none.to_owned(), |value| words::value(name, value));
    let runs = figures.iter().filter_map(|figure| row.figure(*figure)).map(|s| s.n).max().unwrap_or(0);
    names.iter().map(value).chain([runs.to_string()]).collect()
}

/// Results of each setting.
fn settings(outcome: &Outcome, page: &mut Page<'_>) {
    let rows = outcome.sweep.as_slice();
    let known = |figure: &Figure| rows.iter().any(|row| row.figure(*figure).is_some());
    let figures: Vec<Figure> = Figure::compared().filter(known).collect();
    if figures.is_empty() {
        // A row without any says nothing.
        return;
    }
    let room = figures.len() <= 2;
    let extremes = figures.len() == 1;
    let titles = figures.iter().flat_map(|figure| {
        let spread = room.then(|| "± sd".to_owned());
        let ends = extremes.then(|| ["min", "max"].map(str::to_owned));
        [figure.to_string()].into_iter().chain(spread).chain(ends.into_iter().flatten())
    });
    let (mut table, names) = table(rows, titles.chain(["errors", "CPU s/GB"].map(str::to_owned)));
    for row in rows {
        let mut cells = setting(row, &names, &figures);
        for figure in &figures {
            let show = |value: f64| figure.unit().show(value);
            let spread = row.figure(*figure);
            cells.push(or_dash(spread, |s| show(s.mean)));
            if room {
                cells.push(or_dash(spread.filter(|s| s.n > 1), |s| show(s.sd)));
            }
            if extremes {
                cells.extend([or_dash(spread, |s| show(s.min)), or_dash(spread, |s| show(s.max))]);
            }
        }
        cells.push(row.errors.to_string());
        cells.push(or_dash(row.figure(Figure::Cpu), |s| format!("{:.3}", s.mean)));
        table.row(Tone::bad_if(row.errors > 0), cells);
    }
    let title = if outcome.begin.verb == "demo" { "Parts" } else { "Sweep" };
    page.line(
        Tone::Heading,
        &format!("{title}: as the receivers counted; mean and standard deviation over the runs"),
    );
    page.table(&table);
}

/// Columns that judge a row: the main figures of the measurement.
fn shown(rows: &[SweepRow]) -> Vec<Figure> {
    let p99 = Stat::Quantile(0.99);
    let all: Vec<Figure> = match slotted(rows).as_slice() {
        [] => vec![
            Figure::Goodput(Way::Up),
            Figure::Goodput(Way::Down),
            Figure::Connects,
            Figure::RoundTrip(Stat::MEDIAN),
            Figure::RoundTrip(p99),
        ],
        [way] => vec![
            Figure::Goodput(*way),
            Figure::Loss(*way),
            Figure::Delay(*way, Stat::MEDIAN),
            Figure::Delay(*way, p99),
        ],
        ways => ways.iter().flat_map(|way| [Figure::Loss(*way), Figure::Delay(*way, p99)]).collect(),
    };
    all.into_iter().filter(|figure| rows.iter().any(|row| row.figure(*figure).is_some())).collect()
}

/// A line for each setting.
pub(super) fn steps(outcome: &Outcome, page: &mut Page<'_>) {
    let rows = outcome.sweep.as_slice();
    let figures = shown(rows);
    let both = Way::ALL.iter().all(|way| figures.iter().any(|figure| figure.way() == Some(*way)));
    let titles = figures.iter().map(|figure| {
        let way = figure.way().filter(|_| both).map(|way| format!("{} ", way.key())).unwrap_or_default();
        let stat = figure.part();
        let stat = stat.rsplit(", ").next().filter(|_| figure.stat().is_some());
        format!("{way}{}{}", figure.family().1, stat.map(|stat| format!(" {stat}")).unwrap_or_default())
    });
    let (mut table, names) = table(rows, titles);
    for row in rows {
        let mut cells = setting(row, &names, &figures);
        for figure in &figures {
            cells.push(or_dash(row.figure(*figure), |spread| figure.unit().show(spread.mean)));
        }
        table.row(Tone::bad_if(row.errors > 0), cells);
    }
    if !figures.is_empty() {
        page.table(&table);
    }
}

/// True if settings were varied: parts without settings, or of a demonstration, are no sweep.
pub(crate) fn is_one(outcome: &Outcome) -> bool {
    let rows = outcome.sweep.as_slice();
    !["demo", "load"].contains(&outcome.begin.verb.as_str())
        && outcome.path_mtu.is_none()
        && rows.len() > 1
        && rows.iter().any(|row| !row.label.is_empty())
}

/// Which setting was best, and where the knee is; of parts that are no settings of one thing, how
/// many there were.
pub(super) fn result_words(outcome: &Outcome) -> Vec<String> {
    let rows = outcome.sweep.as_slice();
    if outcome.begin.verb == "demo" || rows.iter().all(|row| row.label.is_empty()) {
        return parts(outcome);
    }
    let mut words = vec![words::count(u64::clamped(rows.len()), "setting")];
    words.extend(best(rows).map(|[name, value, alike]| match alike.as_str() {
        "" => format!("best {name}: {value}"),
        alike => format!("best {name}: {value} ({alike})"),
    }));
    for way in Way::ALL {
        let slots = || rows.iter().filter_map(move |row| Some((row, row.slot(way)?)));
        match slots().find(|(_, slot)| slot.knee) {
            Some((row, _)) => {
                words.push(format!("knee {} at {}", way.words(), words::setting(&row.label, 1)));
            }
            None if slots().count() > 1 => words.push(format!("no knee {} within the sweep", way.words())),
            None => {}
        }
    }
    words.extend(saturation(rows));
    words
}

/// Share of the most that got through from which on more of a setting gains nothing.
const SATURATED: f64 = 0.95;

/// From where on more of the one setting of connections gains nothing; `None` of datagrams, which
/// have slots, and of settings without an order.
fn saturation(rows: &[SweepRow]) -> Option<String> {
    let value = |row: &SweepRow| match row.label.len() {
        1 => row.label.values().next()?.parse::<f64>().ok(),
        _ => None,
    };
    let mut ordered = rows.iter().map(|row| Some((value(row)?, row))).collect::<Option<Vec<_>>>()?;
    ordered.sort_by(|a, b| a.0.total_cmp(&b.0));
    let most = ordered.iter().filter_map(|(_, row)| Some(rates(row)?.1)).reduce(f64::max)?;
    let enough =
        |(_, row): &&(f64, &SweepRow)| rates(row).is_some_and(|(_, mean, _)| mean >= most * SATURATED);
    let (_, first) = ordered.iter().find(enough)?;
    if !slotted(rows).is_empty() || ordered.len() < 2 {
        return None;
    }
    let is_last = ordered.last().is_some_and(|(_, last)| last.label == first.label);
    Some(match is_last {
        true => "no knee within the sweep".to_owned(),
        false => format!("knee at {}: more gains less than 5 %", words::setting(&first.label, 1)),
    })
}

/// The rate of a setting, both ways together: its unit, mean, and half of its confidence interval.
fn rates(row: &SweepRow) -> Option<(Unit, f64, f64)> {
    let all = [Figure::Goodput(Way::Up), Figure::Goodput(Way::Down), Figure::Connects];
    let known = all.into_iter().filter_map(|figure| Some((figure, row.figure(figure)?)));
    known.map(|(figure, s)| (figure.unit(), s.mean, s.ci95)).reduce(|a, b| (a.0, a.1 + b.1, a.2 + b.2))
}

/// Results of each part.
fn parts(outcome: &Outcome) -> Vec<String> {
    match outcome.points.len() {
        0..=4 => super::each_way(outcome.points.iter().filter_map(part)),
        more => vec![words::count(u64::clamped(more), "phase")],
    }
}

/// The result of a part after its name; `None` without any.
pub(super) fn part(point: &Point) -> Option<String> {
    let found = super::result_words(point);
    let name = words::setting(&point.label, point.repeat);
    (!found.is_empty()).then(|| format!("{name}: {}", found.join(", ")))
}

/// The setting with the highest rate, that rate, and how many others are no worse within their
/// spread.
fn best(rows: &[SweepRow]) -> Option<[String; 3]> {
    // Loss that is bearable: of datagrams more may arrive at a load that loses many.
    let clean = |row: &&SweepRow| {
        Way::ALL.iter().all(|way| row.figure(Figure::Loss(*way)).is_none_or(|loss| loss.mean <= NOTABLE))
    };
    let rated = || rows.iter().filter(clean).filter_map(|row| Some((row, rates(row)?)));
    let (row, (unit, mean, ci)) = rated().max_by(|a, b| a.1.1.total_cmp(&b.1.1))?;
    let alike = rated().filter(|(_, (_, other, width))| other + width >= mean - ci).count();
    let alike = match alike.saturating_sub(1) {
        0 => String::new(),
        others => format!("no significant difference to {}", words::count(u64::clamped(others), "other")),
    };
    Some([words::setting(&row.label, 1), unit.show(mean), alike])
}

/// Results of several phases for the tiles of a page: name, value, and what else is to be said. Of a
/// sweep the best setting and the knees, of repetitions their mean, of parts each one's.
pub(crate) fn tiles(outcome: &Outcome) -> Vec<(String, String, String)> {
    let rows = outcome.sweep.as_slice();
    if is_repeated(outcome) {
        let kind = outcome.points.first().map(|point| point.phase.kind).unwrap_or_default();
        let over = |figure: &Figure| {
            let spread = spread(&outcome.points, *figure)?;
            let show = |value: f64| figure.unit().show(value);
            let known = spread.margin().map_or_else(String::new, |width| format!("± {}, ", show(width)));
            let runs = words::count(spread.n, "run");
            Some((figure.to_string(), show(spread.mean), format!("{known}mean of {runs}")))
        };
        return Figure::leading(kind).iter().filter_map(over).collect();
    }
    if !is_one(outcome) {
        let part = |point: &Point| {
            let found = super::result_words(point).join(", ");
            (words::setting(&point.label, point.repeat), found, String::new())
        };
        let parts = outcome.points.iter().take(MOST_PARTS).map(part);
        return parts.filter(|(_, found, _)| !found.is_empty()).collect();
    }
    let best = best(rows).map(|[name, value, alike]| (format!("best: {name}"), value, alike));
    let knee = |way: Way| {
        let row = rows.iter().find(|row| row.slot(way).is_some_and(|slot| slot.knee))?;
        Some((format!("knee {}", way.words()), words::setting(&row.label, 1), String::new()))
    };
    let settings = ("settings".to_owned(), rows.len().to_string(), String::new());
    best.into_iter().chain(Way::ALL.into_iter().filter_map(knee)).chain([settings]).collect()
}

/// Parts with a tile each.
const MOST_PARTS: usize = 6;

/// Load, loss and delay of datagrams in one direction, and the knee.
fn slots(rows: &[SweepRow], way: Way, page: &mut Page<'_>) {
    let p99 = Stat::Quantile(0.99);
    let figures = [
        Figure::Sent(way),
        Figure::Goodput(way),
        Figure::Loss(way),
        Figure::Delay(way, Stat::MEDIAN),
        Figure::Delay(way, p99),
    ];
    let titles = ["sent at", "received at", "loss", "delay p50", "p99", "right to ±", ""].map(str::to_owned);
    let (mut table, names) = table(rows, titles);
    for row in rows {
        let Some(slot) = row.slot(way) else { continue };
        let mean = |figure: &Figure| or_dash(row.figure(*figure), |s| figure.unit().show(s.mean));
        let mut cells = setting(row, &names, &figures);
        cells.extend(figures.iter().map(mean));
        cells.push(or_dash(slot.clock_bound_ns, format_duration));
        cells.push(if slot.knee { "<- knee" } else { "" }.to_owned());
        let lossy = row.figure(Figure::Loss(way)).is_some_and(|loss| loss.mean > NOTABLE);
        table.row(if slot.knee { Tone::Heading } else { Tone::bad_if(lossy) }, cells);
    }
    page.line(
        Tone::Heading,
        &format!("Datagrams {}, slot by slot (as the receiver counted them)", way.words()),
    );
    page.table(&table);
    let text = if rows.iter().filter_map(|row| row.slot(way)).any(|slot| slot.knee) {
        "the knee is where throughput over delay (Kleinrock's power) is largest: beyond it a queue grows, or things are lost"
    } else {
        "no knee: throughput over delay is largest where most was sent; the knee lies beyond this sweep"
    };
    page.paragraph(Tone::Plain, "  ", text);
}

/// True if all phases are repetitions of one setting.
pub(super) fn is_repeated(outcome: &Outcome) -> bool {
    let points = &outcome.points;
    points.iter().any(|point| point.repeat > 1) && points.iter().all(|point| point.label.is_empty())
}

/// A figure over the repetitions that measured something.
fn spread(points: &[Point], figure: Figure) -> Option<Spread> {
    let measured = points.iter().filter(|point| point.status != Status::Failed);
    Spread::of(&measured.filter_map(|point| figure.of(point)).collect::<Vec<f64>>())
}

pub(super) fn repetitions(outcome: &Outcome, page: &mut Page<'_>) {
    let mut table = Table::new("Figure|runs|mean|± 95 %|sd|min|max");
    for figure in Figure::compared() {
        let Some(spread) = spread(&outcome.points, figure) else { continue };
        let show = |value: f64| figure.unit().show(value);
        let known = |value: f64| if spread.n > 1 { show(value) } else { "-".to_owned() };
        let cells = [
            figure.to_string(),
            spread.n.to_string(),
            show(spread.mean),
            or_dash(spread.margin(), show),
            known(spread.sd),
            show(spread.min),
            show(spread.max),
        ];
        table.row(Tone::Plain, cells.to_vec());
    }
    page.line(Tone::Heading, "Over the repetitions, each of which is one reading");
    page.table(&table);
}

/// Their main figures, in a few words.
pub(super) fn over_repetitions(outcome: &Outcome) -> Vec<String> {
    let kind = outcome.points.first().map(|point| point.phase.kind).unwrap_or_default();
    let about = Figure::deciding(kind).iter().filter_map(|figure| {
        let spread = spread(&outcome.points, *figure)?;
        let show = |value: f64| figure.unit().show(value);
        let (mean, runs) = (show(spread.mean), words::count(spread.n, "run"));
        // Too few or too scattered readings for a margin have a range.
        let [low, high] = [spread.min, spread.max].map(show);
        Some(match spread.margin() {
            Some(width) => format!("{figure} {mean} ± {} in {runs}", show(width)),
            None if low != high => format!("{figure} {mean} ({low} to {high}) in {runs}"),
            None => format!("{figure} {mean} in {runs}"),
        })
    });
    about.collect()
}
