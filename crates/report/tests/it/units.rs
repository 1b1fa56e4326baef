//! A rate is told in three digits and the right unit wherever it is shown, from 1 bit/s to 400
//! Gbit/s.

use crate::common::text_of;
use metrics::{SECOND, Wall};
use model::{
    Begin, Direction, Event, Interval, KeptFigure, KeptRun, Outcome, Phase, Point, Status, Traffic, Unit,
};
use report::LivePage;
use screen::{Cell, Feed, Grid, Look, Planned, View};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Rates in bits/s: powers of 1.31 (each fourth of them, but for bench/deep), and what lies around
/// the borders between units.
fn rates() -> Vec<u64> {
    let step = if crate::json::thorough() { 1 } else { 4 };
    let powers =
        (0..100).step_by(step).map(|n| 1.31_f64.powi(n) as u64).take_while(|rate| *rate < 400_000_000_000);
    let borders = [1_000, 1_000_000, 1_000_000_000].into_iter().flat_map(|unit: u64| {
        [unit - 1, unit, unit + 1, unit / 1_000 * 999, unit / 10_000 * 9_994, unit / 10_000 * 9_996]
    });
    powers.chain(borders).chain([400_000_000_000]).filter(|rate| *rate > 0).collect()
}

/// The rate that a text says: three digits at least, and none of 1000 and more.
fn read(text: &str) -> f64 {
    let (number, unit) = text.trim().split_once(' ').unwrap_or_else(|| panic!("no unit: {text}"));
    let factor = match unit {
        "bit/s" => 1.0,
        "kbit/s" => 1e3,
        "Mbit/s" => 1e6,
        "Gbit/s" => 1e9,
        _ => panic!("{text}"),
    };
    let value: f64 = number.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
    assert!((1.0..1_000.0).contains(&value), "{text}");
    value * factor
}

/// What stands between two texts.
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no {before} in {text}"));
    rest.split_once(after).unwrap_or_else(|| panic!("no {after} in {rest}")).0
}

/// Eight seconds at so many bits a second, each way and as the remote end counted.
fn events(verb: &str, rate: u64) -> [Event; 3] {
    let traffic = Traffic { tx_bytes: rate, rx_bytes: rate, ns: 8 * SECOND, ..Traffic::default() };
    let interval =
        Interval { end_ns: 8 * SECOND, local: traffic, remote: Some(traffic), ..Interval::default() };
    let phase = Event::Phase { label: BTreeMap::new(), repeat: 1, phase: Box::new(Phase::default()) };
    let begin = Begin { verb: verb.to_owned(), ..Begin::default() };
    [Event::Begin(Box::new(begin)), phase, Event::Interval(Box::new(interval))]
}

fn live_view(rate: u64) -> String {
    let mut feed = Feed::default();
    events("tcp", rate).iter().for_each(|event| feed.push(0, event));
    let mut view = View::new(Look::default(), Planned::default(), 0);
    view.absorb(feed.take(), 8 * SECOND);
    let mut grid = Grid::new(80, 24);
    view.draw(&mut grid, 8 * SECOND);
    let line = |y| (0..80).filter_map(|x| grid.cell(x, y)).flat_map(Cell::chars).collect::<String>();
    let lines: Vec<String> = (0..24).map(line).collect();
    let row = lines.iter().find_map(|line| line.strip_prefix("goodput up")).unwrap();
    row.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

fn history(rate: u64) -> String {
    let figure = KeptFigure {
        setting: String::new(),
        repeat: 1,
        name: "goodput.up".to_owned(),
        unit: Unit::BitsPerSecond.name().to_owned(),
        value: rate as f64,
    };
    let run = KeptRun {
        id: 1,
        run: Uuid::nil(),
        started: Wall(1_764_000_000_000_000_000),
        verb: "tcp".to_owned(),
        protocol: "native".to_owned(),
        targets: "h".to_owned(),
        status: Status::Complete,
        source: String::new(),
        figures: vec![figure],
    };
    let text = text_of(|out| report::write_history(&[run], &[], &jiff::tz::TimeZone::UTC, false, out));
    text.lines().last().unwrap().rsplit_once("↑").unwrap_or_else(|| panic!("{text}")).1.to_owned()
}

fn tile(rate: u64) -> String {
    let up = Some(Direction { goodput_bps: rate as f64, ..Direction::default() });
    let point = Point { up, ..Point::default() };
    let outcome = Outcome { points: vec![point], ..Outcome::default() };
    between(&text_of(|out| report::write_html(&outcome, out)), "<span class=\"value\">", "<").to_owned()
}

/// The rate from clients, of a server's page.
fn server_tile(rate: u64) -> String {
    let mut page = LivePage::default();
    events("serve", rate).iter().for_each(|event| page.absorb(event));
    let parts = page.view().parts;
    let (_, first) = parts.iter().find(|(name, _)| *name == "first").unwrap();
    between(first, "from clients</span><span class=\"value\">", "<").to_owned()
}

#[test]
fn a_rate_has_its_unit_wherever_it_is_shown() {
    for rate in rates() {
        for (place, text) in [
            ("live view", live_view(rate)),
            ("history", history(rate)),
            ("tile", tile(rate)),
            ("server's tile", server_tile(rate)),
        ] {
            let off = (read(&text) / rate as f64 - 1.0).abs();
            // Half of the third digit of 1.00 and more.
            assert!(off <= 0.005, "{place}: {rate} bit/s is shown as {text}");
        }
    }
}
