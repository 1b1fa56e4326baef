//! Content of the screen, at unusual sizes, too.

use super::*;
use metrics::{SECOND, TcpInfo, Wall};
use model::{
    Begin, Event, Interval, Kind, Level, PacketReport, Pattern, Phase, Ping, PingInterval, Probe, Sample,
    Status, Traffic,
};
use std::collections::BTreeMap;
use uuid::Uuid;

/// What the screen holds, line by line, blanks at the ends left out.
fn lines(view: &mut View, width: u16, height: u16, now_ns: u64) -> Vec<String> {
    let mut grid = Grid::new(width, height);
    view.draw(&mut grid, now_ns);
    let line = |y: u16| {
        let cells = (0..width).filter_map(|x| grid.cell(x, y));
        cells.flat_map(Cell::chars).collect::<String>().trim_end().to_owned()
    };
    (0..height).map(line).collect()
}

fn begin(verb: &str) -> Event {
    let targets = vec!["192.0.2.1".to_owned()];
    Event::Begin(Box::new(Begin { verb: verb.to_owned(), targets, ..Begin::default() }))
}

fn phase(phase: Phase) -> Event {
    Event::Phase { label: BTreeMap::new(), repeat: 1, phase: Box::new(phase) }
}

/// Second `n` of a run with 100 Mbit/s to the server, as it counted.
fn second(n: u64) -> Interval {
    let bytes = 12_500_000;
    let sample = |slot: u32| Sample {
        id: Uuid::from_u128(u128::from(slot) + 1),
        slot,
        tx_bytes: (n + 1) * bytes / 2,
        rx_bytes: 0,
        info: TcpInfo { rtt_us: 20_000 + slot * 2_000, cwnd: 10, retransmits: slot, ..TcpInfo::default() },
    };
    Interval {
        index: n as u32,
        start_ns: n * SECOND,
        end_ns: (n + 1) * SECOND,
        local: Traffic { tx_bytes: bytes + 1_000, rx_bytes: 0, ns: SECOND, ..Traffic::default() },
        remote: Some(Traffic { tx_bytes: 0, rx_bytes: bytes, ns: SECOND, ..Traffic::default() }),
        in_flight: 2,
        completed: n,
        opened: u64::from(n == 0) * 2,
        samples: vec![sample(0), sample(1)],
        ..Interval::default()
    }
}

/// These seconds of a run.
fn seconds(of: std::ops::Range<u64>) -> impl Iterator<Item = Event> {
    of.map(|n| Event::Interval(Box::new(second(n))))
}

/// A second of a run with round trips, and with datagrams of which one in a hundred was lost each
/// way.
fn probed(n: u64) -> Event {
    let mut report = PacketReport::default();
    (report.counts.received, report.counts.lost) = (99, 1);
    let packets = Some(Box::new(report));
    let (p50_ns, p99_ns) = (Some(3_000_000), Some(9_000_000));
    let pings = Some(PingInterval { count: 50, p50_ns, p99_ns, ..PingInterval::default() });
    let remote_packets = packets.clone();
    Event::Interval(Box::new(Interval { pings, packets, remote_packets, ..second(n) }))
}

/// What a view gets to know at `now_ns`.
fn tell(view: &mut View, events: impl IntoIterator<Item = Event>, now_ns: u64) {
    let mut feed = Feed::default();
    events.into_iter().for_each(|event| feed.push(0, &event));
    view.absorb(feed.take(), now_ns);
}

/// A view that was told these, the last of them at `now_ns`.
fn told(events: impl IntoIterator<Item = Event>, now_ns: u64) -> View {
    let planned = Planned { phases: Some(1), total_ns: Some(20 * SECOND) };
    let mut view = View::new(Look::default(), planned, 0);
    tell(&mut view, events, now_ns);
    view
}

fn transfer(length: u64) -> View {
    let of = Phase { duration_ns: Some(20 * SECOND), connections: 2, ..Phase::default() };
    let start = [begin("tcp"), phase(of), Event::Start { at: Wall(0) }];
    told(start.into_iter().chain(seconds(0..length)), length * SECOND)
}

/// The values behind a figure's name: now, mean, largest.
fn values<'a>(shown: &'a str, name: &str) -> Vec<&'a str> {
    let row = shown
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .unwrap_or_else(|| panic!("no {name} in {shown}"));
    row.split("  ").map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// The lines of the first plot whose names begin with `name`: its names, the lines of dots, the
/// times.
fn plot<'a>(shown: &'a [String], name: &str) -> &'a [String] {
    let at = shown.iter().position(|line| line.trim_start().starts_with(name) && line.starts_with("     "));
    let from = at.unwrap_or_else(|| panic!("no {name} in {shown:#?}"));
    let length = shown[from..].iter().position(|line| line.contains('└')).unwrap_or(0);
    &shown[from..=from + length]
}

/// The column of the last symbol that is a dot of braille, over all lines.
fn last_dot(lines: &[String]) -> usize {
    let dot = |symbol: char| ('\u{2801}'..='\u{28ff}').contains(&symbol);
    let columns = lines.iter().filter_map(|line| {
        let symbols: Vec<char> = line.chars().collect();
        symbols.iter().rposition(|symbol| dot(*symbol))
    });
    columns.max().unwrap_or(0)
}

#[test]
fn lines_over_time_have_axes_and_fill_the_width() {
    for (width, height) in [(80, 24), (120, 40), (200, 60)] {
        let of = |seconds: u64| lines(&mut transfer(seconds), width, height, seconds * SECOND);
        let shown = of(20);
        let goodput = plot(&shown, "goodput up 100 Mbit/s");
        // 100 Mbit/s at the top, 0 at the bottom; 0 s to the planned 20 s.
        assert!(goodput[1].starts_with(" 100 Mbit/s ┤"), "{goodput:#?}");
        let bottom = &goodput[goodput.len() - 2];
        assert!(bottom.contains("0 bit/s ┤"), "{goodput:#?}");
        let times = goodput.last().unwrap();
        assert!(times.contains("└0 s ") && times.ends_with("20 s"), "{goodput:#?}");
        assert_eq!(last_dot(goodput), usize::from(width) - 1, "{goodput:#?}");
        // After half of the time half of the width is used.
        let half = of(10);
        let half = last_dot(plot(&half, "goodput up"));
        // Right of the values, 13 columns; of two plots beside each other the right one begins
        // behind the middle.
        let left = if height > 24 { 13 } else { 41 + 13 };
        assert!((half as i32 - (i32::from(width) + left) / 2).abs() <= 1, "{half} of {width}");
        if height == 24 {
            // Beside the goodput; where values have no room, each line keeps its name.
            assert!(
                goodput[0].contains("RTT, mean   RTT, worst") && goodput[1].contains("25.0 ms ┤"),
                "{goodput:#?}"
            );
            assert!(times.matches("0 s ").count() >= 2 && times.matches("20 s").count() == 2, "{goodput:#?}");
        } else {
            let trips = plot(&shown, "RTT, mean 21.0 ms");
            assert!(trips[0].contains("RTT, worst 22.0 ms") && trips[1].contains("25.0 ms ┤"), "{trips:#?}");
            assert!(shown.iter().any(|line| line.contains("sending")), "connections have room: {shown:#?}");
        }
        assert!(shown.iter().all(|line| !line.contains("receiving")), "one direction is tested: {shown:#?}");
    }
}

#[test]
fn a_server_shows_what_it_has_kept_over_the_whole_width() {
    let events = [begin("serve"), phase(Phase { duration_ns: None, ..Phase::default() })];
    let mut view = told(events.into_iter().chain(seconds(0..700)), 700 * SECOND);
    let shown = lines(&mut view, 100, 40, 700 * SECOND);
    let plot = plot(&shown, "receiving");
    assert!(plot[0].contains("sending 100 Mbit/s"), "{plot:#?}");
    assert_eq!(last_dot(plot), 99, "{plot:#?}");
    assert!(plot.last().unwrap().ends_with("11:40"), "{plot:#?}");
}

const SIZES: [(u16, u16); 12] = [
    (1, 1),
    (2, 1),
    (1, 30),
    (20, 5),
    (40, 6),
    (39, 7),
    (60, 12),
    (80, 24),
    (81, 15),
    (200, 60),
    (500, 3),
    (7, 200),
];

#[test]
fn a_transfer_shows_what_was_counted() {
    let mut view = transfer(5);
    let shown = lines(&mut view, 80, 24, 5 * SECOND);
    let all = shown.join("\n");
    assert!(shown[0].starts_with("netcaliper tcp 192.0.2.1") && shown[0].ends_with("running"), "{all}");
    assert!(shown[1].contains("00:05 of 00:20"), "{all}");
    // A quarter of 40 columns.
    assert_eq!(shown[1].matches('█').count(), 10, "{all}");
    assert_eq!(values(&all, "goodput up"), ["100 Mbit/s"; 3]);
    // The mean of 20 and 22 ms, and the larger of them.
    assert_eq!(values(&all, "RTT, mean"), ["21.0 ms"; 3]);
    assert_eq!(values(&all, "RTT, worst"), ["22.0 ms"; 2]);
    assert!(all.contains("open 2   completed 4   errors: network 0, data 0"), "{all}");
}

#[test]
fn nothing_breaks_at_any_size_on_any_page() {
    let views = [transfer(0), transfer(3), transfer(700), told([], 0)];
    for (width, height) in SIZES {
        for keys in ["o", "c", "l", "d", "t", "?", "p", "scr", "jjjjj"] {
            for mut view in views.clone() {
                for key in keys.chars() {
                    view.press(Press::Char(key), 0);
                }
                view.draw(&mut Grid::new(width, height), 700 * SECOND);
            }
        }
    }
}

#[test]
fn tiny_terminals_show_the_figure_itself() {
    assert_eq!(lines(&mut transfer(3), 28, 1, 3 * SECOND), ["goodput up        100 Mbit/s"]);
    let two = lines(&mut transfer(3), 28, 2, 3 * SECOND);
    assert_eq!(two, ["goodput up        100 Mbit/s", "00:03 of 00:20"]);
    assert_eq!(lines(&mut told([], 0), 28, 1, 0), ["running"]);
}

#[test]
fn every_kind_of_run_has_figures() {
    let run = |verb: &str, of: Phase| {
        let mut view = told([begin(verb), phase(of), probed(0)], SECOND);
        lines(&mut view, 80, 24, SECOND).join("\n")
    };
    let of = |kind| Phase { kind, ..Phase::default() };
    let ping = run("ping", Phase { ping: Some(Ping::default()), ..of(Kind::Ping) });
    assert_eq!(values(&ping, "rtt p50"), ["3.00 ms"; 2]);
    assert_eq!(values(&ping, "rtt p99"), ["9.00 ms"; 2]);
    let connect = run("connect", of(Kind::Connect));
    assert_eq!(values(&connect, "connects"), ["2/s", "2/s", "2/s"]);
    let both = Phase { pattern: Pattern::Duplex, probe: Some(Probe::default()), ..of(Kind::Delay) };
    let delay = run("delay", both);
    // 1 of 100.
    assert_eq!(values(&delay, "loss up"), ["1 %"; 2]);
    assert_eq!(values(&delay, "received down"), ["99/s"; 3]);
    let serve = run("serve", Phase { duration_ns: None, ..Phase::default() });
    assert_eq!(values(&serve, "sending"), ["100 Mbit/s"; 3]);
    assert!(!serve.contains("goodput"), "{serve}");
}

#[test]
fn a_pause_stops_the_display_and_nothing_else() {
    let mut view = transfer(3);
    view.press(Press::Char('p'), 3 * SECOND);
    tell(&mut view, seconds(3..9), 9 * SECOND);
    let still = lines(&mut view, 100, 24, 9 * SECOND);
    assert!(still[0].contains("PAUSED") && still[1].contains("00:03 of 00:20"), "{still:?}");
    view.press(Press::Char('p'), 9 * SECOND);
    let goes_on = lines(&mut view, 100, 24, 9 * SECOND);
    assert!(goes_on[0].ends_with("running") && goes_on[1].contains("00:09 of 00:20"), "{goes_on:?}");
}

#[test]
fn the_clock_goes_on_between_intervals_and_stops_at_the_end() {
    let mut view = transfer(3);
    assert!(lines(&mut view, 80, 24, 3 * SECOND + SECOND / 2)[1].contains("00:03 of"));
    assert!(lines(&mut view, 80, 24, 7 * SECOND)[1].contains("00:07 of"));
    tell(&mut view, [Event::PhaseEnd { status: Status::Complete, reason: None }], 8 * SECOND);
    assert!(lines(&mut view, 80, 24, 20 * SECOND)[1].contains("00:03 of"));
}

#[test]
fn connections_are_listed_and_sorted() {
    let mut view = transfer(3);
    view.press(Press::Char('c'), 0);
    let slots = |view: &mut View| -> Vec<String> {
        let shown = lines(view, 80, 24, 0);
        shown.iter().skip(5).take(2).map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
    };
    assert_eq!(slots(&mut view), ["0", "1"]);
    // By rate, which is the same, then by round-trip time: slot 1 has the larger.
    view.press(Press::Char('s'), 0);
    view.press(Press::Char('s'), 0);
    assert_eq!(slots(&mut view), ["1", "0"]);
    view.press(Press::Char('r'), 0);
    assert_eq!(slots(&mut view), ["0", "1"]);
    let row = &lines(&mut view, 80, 24, 0)[5];
    // 6.25 MB a second are 50 Mbit/s.
    assert!(row.contains("50.0 Mbit/s") && row.contains("20.0 ms"), "{row}");
}

#[test]
fn caveats_arise_and_go() {
    let mut view = transfer(2);
    view.press(Press::Char('v'), 0);
    assert_eq!(lines(&mut view, 80, 24, 0)[3], "No caveats so far.");
    let remote = Some(Traffic { rx_bytes: 1_000_000, ns: SECOND, tx_bytes: 0, ..Traffic::default() });
    let slow = Event::Interval(Box::new(Interval { remote, ..second(2) }));
    let evil = Event::Notice { level: Level::Error, text: "no\u{1b}[2Jgood".to_owned() };
    tell(&mut view, [slow, evil], 3 * SECOND);
    let shown = lines(&mut view, 80, 24, 0);
    assert!(shown[3].starts_with("00:03 caution: unstable"), "{shown:?}");
    let harmless = shown.iter().any(|line| line.contains("error: no\u{fffd}[2Jgood"));
    assert!(harmless, "nothing steers the terminal: {shown:?}");
    tell(&mut view, seconds(3..60), 60 * SECOND);
    assert!(lines(&mut view, 80, 24, 0)[3].starts_with("00:03 caution: unstable, no longer"));
}

#[test]
fn a_sweep_keeps_what_is_over() {
    let run = |n: u32| {
        let label = BTreeMap::from([("buffer".to_owned(), (1024 * n).to_string())]);
        let phase = Box::new(Phase { duration_ns: Some(SECOND), ..Phase::default() });
        let end = Event::PhaseEnd { status: Status::Complete, reason: None };
        [Event::Phase { label, repeat: 1, phase }].into_iter().chain(seconds(0..1)).chain([end])
    };
    let mut view = told([begin("tcp")].into_iter().chain(run(1)).chain(run(2)), SECOND);
    view.known.planned = Planned { phases: Some(3), total_ns: Some(3 * SECOND) };
    let shown = lines(&mut view, 100, 24, SECOND);
    assert!(shown[0].contains("buffer 2.00 KiB") && shown[1].contains("run 2 of 3"), "{shown:?}");
    view.press(Press::Char('t'), 0);
    let shown = lines(&mut view, 100, 24, SECOND);
    assert!(shown[4].starts_with("buffer 1.00 KiB") && shown[4].contains("100 Mbit/s"), "{shown:?}");
}

#[test]
fn a_load_shows_goodput_round_trips_and_loss_on_a_small_terminal() {
    let mut feed = Feed::default();
    feed.push(0, &begin("load"));
    let both = Phase { pattern: Pattern::Duplex, duration_ns: Some(20 * SECOND), ..Phase::default() };
    let parts = [
        ("load", both.clone()),
        ("trips", Phase { kind: Kind::Ping, ping: Some(Ping::default()), ..both.clone() }),
        ("delay", Phase { kind: Kind::Delay, probe: Some(Probe::default()), ..both }),
    ];
    for (place, (name, phase)) in (0..).zip(parts) {
        let label = ("part".to_owned(), name.to_owned());
        feed.push(place, &Event::Phase { label: BTreeMap::from([label]), repeat: 1, phase: Box::new(phase) });
        (0..20).for_each(|n| feed.push(place, &probed(n)));
    }
    let mut view = View::new(Look::default(), Planned { phases: Some(4), total_ns: None }, 0);
    view.absorb(feed.take(), 20 * SECOND);
    let shown = lines(&mut view, 80, 24, 20 * SECOND);
    let all = shown.join("\n");
    assert_eq!(values(&all, "goodput up"), ["100 Mbit/s"; 3]);
    assert_eq!(values(&all, "rtt p50"), ["3.00 ms"; 2]);
    assert_eq!((values(&all, "loss up"), values(&all, "loss down")), (vec!["1 %"; 2], vec!["1 %"; 2]));
    let plots = plot(&shown, "goodput up   goodput down");
    assert!(plots[0].contains("p50   p99   max   min"), "{all}");
    assert!(plots[1].starts_with(" 100 Mbit/s ┤") && plots[1].contains("10.0 ms ┤"), "{all}");
    assert_eq!(last_dot(plots), 79, "{all}");
}

/// A part of a stage, from `at` s on, with so many seconds of round trips of `rtt_ms`.
fn stage(view: &mut View, at: u64, (stage, part): (&str, &str), phase: Phase, seconds: u64, rtt_ms: u64) {
    let label =
        BTreeMap::from([("stage".to_owned(), stage.to_owned()), ("part".to_owned(), part.to_owned())]);
    let place = u32::from(part == "trips");
    let mut feed = Feed::default();
    feed.push(place, &Event::Phase { label, repeat: 1, phase: Box::new(phase) });
    view.absorb(feed.take(), at * SECOND);
    for n in 0..seconds {
        let pings = PingInterval { count: 10, p50_ns: Some(rtt_ms * 1_000_000), ..PingInterval::default() };
        let interval = Interval { pings: Some(pings), omitted: part == "load" && n < 2, ..second(n) };
        feed.push(place, &Event::Interval(Box::new(interval)));
        view.absorb(feed.take(), (at + n + 1) * SECOND);
    }
}

#[test]
fn a_load_has_a_row_for_each_stage_and_plots_over_all_of_them() {
    let ten = Phase { duration_ns: Some(10 * SECOND), ..Phase::default() };
    let trips = Phase { kind: Kind::Ping, ping: Some(Ping::default()), ..ten.clone() };
    let filler = Phase { pattern: Pattern::Duplex, omit_ns: 3 * SECOND, ..ten };
    let planned = Planned { phases: Some(2), total_ns: Some(20 * SECOND) };
    for (width, height) in [(80, 24), (120, 40), (200, 60)] {
        let mut view = View::new(Look::default(), planned, 0);
        tell(&mut view, [begin("load")], 0);
        stage(&mut view, 0, ("idle", "trips"), trips.clone(), 10, 20);
        let mut feed = Feed::default();
        feed.push(1, &Event::PhaseEnd { status: Status::Complete, reason: None });
        view.absorb(feed.take(), 12 * SECOND);
        // The idle stage took 12 s of 10, and so may the second.
        stage(&mut view, 12, ("both", "load"), filler.clone(), 1, 0);
        let shown = lines(&mut view, width, height, 13 * SECOND);
        let all = shown.join("\n");
        assert!(shown.iter().any(|line| line.contains("filling the path, 2 s")), "{all}");
        assert!(all.contains("00:11 left"), "20 s, twice 2 s more, 13 s of them are over: {all}");
        stage(&mut view, 15, ("both", "trips"), trips.clone(), 4, 72);
        let shown = lines(&mut view, width, height, 19 * SECOND);
        let all = shown.join("\n");
        let row = |name: &str| shown.iter().find(|line| line.starts_with(name)).unwrap().clone();
        assert!(row("idle").contains("20.0 ms"), "{all}");
        assert!(row("both").contains("72.0 ms") && row("both").contains("+52.0 ms"), "{all}");
        let trips = plot(&shown, if height > 24 { "rtt p50 72.0 ms" } else { "goodput up" });
        assert!(last_dot(trips) > usize::from(width) * 9 / 10 - 2, "{all}");
        assert!(trips.last().unwrap().contains("20 s"), "over the time of all stages: {all}");
    }
}

#[test]
fn measurements_beside_each_other_have_a_heading_each() {
    let mut feed = Feed::default();
    for (part, name) in [(0, "load"), (1, "trips")] {
        let label =
            BTreeMap::from([("part".to_owned(), name.to_owned()), ("stage".to_owned(), "down".to_owned())]);
        let phase = Box::new(Phase { kind: [Kind::Tcp, Kind::Ping][part as usize], ..Phase::default() });
        feed.push(part, &Event::Phase { label, repeat: 1, phase });
        feed.push(part, &Event::Interval(Box::new(second(0))));
    }
    let mut view = View::new(Look::default(), Planned { phases: Some(4), total_ns: None }, 0);
    view.absorb(feed.take(), SECOND);
    let shown = lines(&mut view, 80, 30, SECOND);
    assert!(shown[0].contains("stage down") && !shown[0].contains("part"), "{shown:?}");
    assert!(shown[1].contains("stage 1 of 4"), "{shown:?}");
    let at = |word: &str| shown.iter().position(|line| line == word);
    assert!(at("load") < at("trips") && at("load").is_some(), "{shown:?}");
}

#[test]
fn who_does_not_look_misses_intervals_and_no_memory() {
    let mut feed = Feed::default();
    feed.push(0, &begin("tcp"));
    feed.push(0, &phase(Phase::default()));
    seconds(0..10_000).for_each(|event| feed.push(0, &event));
    let mut view = View::new(Look::default(), Planned::default(), 0);
    view.absorb(feed.take(), SECOND);
    assert!(feed.is_empty());
    let shown = lines(&mut view, 100, 24, SECOND).join("\n");
    // 512 are kept, two of them no intervals.
    assert!(shown.contains("netcaliper tcp") && shown.contains("9490 intervals not shown"), "{shown}");
}

#[test]
fn without_colours_and_blocks_it_is_plain() {
    let mut view = transfer(5);
    view.look = Look { color: false, blocks: false };
    let mut grid = Grid::new(80, 24);
    view.draw(&mut grid, 5 * SECOND);
    let cells = || (0..24).flat_map(|y| (0..80).map(move |x| (x, y))).filter_map(|(x, y)| grid.cell(x, y));
    assert!(cells().all(|cell| cell.style.color == Color::Default));
    assert!(cells().flat_map(Cell::chars).all(|symbol| symbol.is_ascii() || symbol == 'µ'));
}

#[test]
fn a_screen_becomes_a_picture() {
    let mut view = transfer(5);
    let mut grid = Grid::new(80, 24);
    view.draw(&mut grid, 5 * SECOND);
    let mut svg = Vec::new();
    write_svg(&grid, "goodput & time", &mut svg).unwrap();
    let svg = String::from_utf8(svg).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert!(svg.contains("<title>goodput &amp; time</title>") && svg.contains(">goodput up"));
    assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
}
