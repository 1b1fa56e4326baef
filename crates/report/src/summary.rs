//! The final report: status, results and caveats.

mod brief;
mod capacity;
mod extras;
mod hosts;
mod load;
mod marking;
mod packets;
mod pings;
mod point;
mod sweep;
mod trains;

pub(crate) use brief::line as answer;
pub(crate) use capacity::settings as capacity_settings;
pub(crate) use hosts::ends;
pub(crate) use load::{grown, worst};
pub(crate) use sweep::{is_one as is_sweep, slotted, tiles as phase_tiles};

use crate::console::{Detail, Style};
use crate::text::{Page, Tone};
use crate::words;
use metrics::{Spread, format_bits_per_second, format_bytes, format_duration};
use model::{Caveat, CaveatLevel, Figure, Kind, Outcome, PathMtu, Point, Status, Way, is_reliable};
use std::io::{self, Write};

/// Writes the report on `outcome`: each point in full, or, for a sweep, a table of all (and the
/// points when verbose).
pub(crate) fn write(outcome: &Outcome, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let serves = outcome.begin.verb == "serve" && style.detail == Detail::Brief;
    let detail = if serves || style.verbose { Detail::Full } else { style.detail };
    let tone = tone(outcome);
    // Programs read the one line: it is not broken.
    let columns = style.columns.filter(|_| detail != Detail::Line);
    let page = &mut Page::new(out, style.color).within(columns);
    if let Some(found) = outcome.path_mtu.as_ref().filter(|_| detail != Detail::Line) {
        page.gap();
        path_mtu(found, page);
    }
    match detail {
        Detail::Line => page.line(tone, &brief::one_line(outcome)),
        Detail::Brief => {
            page.gap();
            brief::write(outcome, tone, page);
        }
        Detail::Full => full(outcome, style, page),
    }
    page.end()
}

/// All tables, the caveats, and the verdict.
fn full(outcome: &Outcome, style: Style, page: &mut Page<'_>) {
    let swept = !outcome.sweep.is_empty();
    if style.verbose || !(swept || outcome.path_mtu.is_some()) || outcome.begin.verb == "demo" {
        for point in &outcome.points {
            page.gap();
            point::write(point, &outcome.begin, style, page);
        }
    }
    if outcome.begin.verb == "load" {
        load::write(outcome, page);
    } else if swept {
        page.gap();
        if sweep::is_repeated(outcome) {
            page.gap();
        }
        several(outcome, page);
    }
    caveats(&outcome.points, page);
    page.gap();
    page.paragraph(tone(outcome), "", &verdict_line(outcome));
}

/// The figures of all phases together.
fn several(outcome: &Outcome, page: &mut Page<'_>) {
    match sweep::is_repeated(outcome) {
        true => sweep::repetitions(outcome, page),
        false => sweep::write(outcome, page),
    }
}

/// Everything but caveats and verdict, for a page: the table of the stages or of the sweep, and the
/// first `most` points in full; of several points each is folded away.
pub(crate) fn in_full(outcome: &Outcome, most: usize, page: &mut Page<'_>) {
    let several = outcome.points.len() > 1;
    match outcome.begin.verb.as_str() {
        "load" => load::write(outcome, page),
        _ => self::several(outcome, page),
    }
    for (at, point) in outcome.points.iter().take(most).enumerate() {
        page.gap();
        if several {
            let name = words::setting(&point.label, point.repeat);
            let name = if name.is_empty() { format!("Phase {}", at + 1) } else { name };
            writeln!(page, "<details><summary>{}</summary>", crate::html::escape(&name));
        }
        // The hosts are the same for all.
        let style = Style { verbose: at == 0, ..Style::default() };
        point::write(point, &outcome.begin, style, page);
        if several {
            page.end_lines();
            writeln!(page, "</details>");
        }
    }
}

/// Quality of the result as a tone.
pub(crate) fn tone(outcome: &Outcome) -> Tone {
    let errors: u64 = outcome.points.iter().map(Point::errors).sum();
    match outcome.status {
        Status::Complete if errors == 0 => Tone::Heading,
        Status::Complete | Status::Interrupted => Tone::Warning,
        Status::Partial | Status::Failed => Tone::Bad,
    }
}

/// `Run complete: 9.87 Gbit/s to server`
pub(crate) fn verdict_line(outcome: &Outcome) -> String {
    let mut words = result_words_of_all(outcome);
    words.extend(outcome.reason.clone());
    result_line(&format!("Run {}", outcome.status.name()), &words)
}

/// `Running: 9.87 Gbit/s to server`
pub(crate) fn result_line(what: &str, words: &[String]) -> String {
    if words.is_empty() { what.to_owned() } else { format!("{what}: {}", words.join(", ")) }
}

pub(crate) fn result_words_of_all(outcome: &Outcome) -> Vec<String> {
    let errors: u64 = outcome.points.iter().map(Point::errors).sum();
    let mut words = match &outcome.points[..] {
        _ if outcome.path_mtu.is_some() => mtus(outcome),
        [only] if outcome.begin.verb == "serve" => served(only),
        [only] => result_words(only),
        _ if outcome.begin.verb == "load" => load::result_words(outcome),
        _ if sweep::is_repeated(outcome) => sweep::over_repetitions(outcome),
        [] => Vec::new(),
        _ => sweep::result_words(outcome),
    };
    if errors > 0 {
        words.push(format!("{} FAILED", words::count(errors, "connection")));
    }
    words
}

/// Bytes of a server: a rate over its life would include its waiting.
fn served(point: &Point) -> Vec<String> {
    point.served().map(|(_, what, bytes)| format!("{} {what}", format_bytes(bytes))).collect()
}

/// Results of the directions: their parts have commas already.
fn each_way(words: impl Iterator<Item = String>) -> Vec<String> {
    let words: Vec<String> = words.collect();
    if words.is_empty() { words } else { vec![words.join("; ")] }
}

/// The path's MTU in each direction that was looked at.
fn mtus(outcome: &Outcome) -> Vec<String> {
    let ways =
        outcome.path_mtu.iter().flat_map(|found| [("to server", found.up), ("from server", found.down)]);
    ways.filter_map(|(name, found)| Some(format!("path MTU {} bytes {name}", found?.mtu))).collect()
}

/// The result of a phase in a few words; none when there is none.
fn result_words(point: &Point) -> Vec<String> {
    if point::nothing(point) {
        return Vec::new();
    }
    if let (Kind::Ping, Some(trips)) = (point.phase.kind, &point.local.pings) {
        let timeout = pings::timeout(&point.phase);
        let shown =
            |name: &str, q| Some(format!("{name} {}", pings::percentile(trips.rtt_ns.as_ref()?, q, timeout)));
        let lost = u64::try_from(trips.counts.lost).unwrap_or(0);
        let messages = format!("of {}", words::count(trips.counts.sent, "message"));
        let unwell = [(lost, "lost"), (trips.counts.late, "late"), (trips.counts.damaged, "damaged")];
        let unwell = words::counted(unwell);
        let median = shown("round trip p50", 0.5);
        // A percentile that has not ten values beyond it says less than the largest.
        let rtt = trips.rtt_ns.as_ref();
        let tail = match rtt.filter(|rtt| is_reliable(rtt, 0.99)) {
            Some(_) => shown("p99", 0.99).into_iter().collect(),
            None => rtt.map_or_else(Vec::new, |rtt| {
                [("min", rtt.min), ("max", rtt.max)]
                    .map(|(name, ns)| format!("{name} {}", format_duration(ns)))
                    .to_vec()
            }),
        };
        return median.into_iter().chain(tail).chain([messages]).chain(unwell).collect();
    }
    if point.phase.kind == Kind::Connect {
        return point
            .connects_per_second()
            .map(|rate| format!("{rate:.0} connections/s{}", confidence(point, Figure::Connects)))
            .into_iter()
            .collect();
    }
    if point.phase.kind == Kind::Stream && point.phase.probe.is_some() {
        return packets::frames_found(point);
    }
    let frames = point.local.frames.filter(|f| point.phase.kind == Kind::Stream && f.judged() > 0);
    if let Some(frames) = frames {
        return vec![format!("{} of {} frames whole and in time", frames.completed, frames.judged())];
    }
    if point.phase.kind == Kind::Capacity {
        return capacity::result_words(point);
    }
    if matches!(point.phase.kind, Kind::Train | Kind::Delay) && extras::any(point) && point.trains.is_none() {
        return extras::result_words(point);
    }
    if point.phase.kind == Kind::Train {
        return trains::result_words(point);
    }
    if point.phase.kind == Kind::Delay {
        return packets::result_words(point);
    }
    let way = |way: Way| {
        let known = confidence(point, Figure::Goodput(way));
        let direction = way.direction(point)?;
        let rate = format_bits_per_second(direction.goodput_bps);
        let by = if direction.confirmed || direction.sent_bytes == 0 { "" } else { " by the sender's count" };
        Some(format!("{rate} {}{by}{known}", way.words()))
    };
    Way::ALL.into_iter().filter_map(way).collect()
}

/// The precision of a figure by its intervals, in parentheses; nothing of one interval.
fn confidence(point: &Point, figure: Figure) -> String {
    let spread = Spread::of(&figure.readings(point, false));
    let text = spread.and_then(|spread| known_within(&spread, |width| figure.unit().show(width)));
    text.map_or_else(String::new, |text| format!(" ({text})"))
}

/// Largest share of the mean that a margin may be: wider ones reach where no reading was, and give
/// way to the range of the readings.
const WIDE: f64 = 0.3;

/// `± 1.50 Mbit/s within this run, 95 %`: how well the mean over the intervals of a run is known.
/// Another run differs by more.
pub(crate) fn margin(spread: &Spread, show: impl Fn(f64) -> String) -> Option<String> {
    let width = spread.margin().filter(|width| *width <= WIDE * spread.mean.abs())?;
    Some(format!("± {} within this run, 95 %", show(width)))
}

/// The [margin], or, of few or scattered readings, `48.0 Gbit/s to 85.0 Gbit/s, 3 intervals`.
pub(crate) fn known_within(spread: &Spread, show: impl Fn(f64) -> String) -> Option<String> {
    margin(spread, &show).or_else(|| {
        let [low, high] = [spread.min, spread.max].map(&show);
        (low != high).then(|| format!("{low} to {high}, {}", words::count(spread.n, "interval")))
    })
}

/// Every caveat once, the gravest first, and how many phases it concerns.
pub(crate) fn kinds(points: &[Point]) -> Vec<(&Caveat, usize)> {
    let mut kinds: Vec<(&Caveat, usize)> = Vec::new();
    for caveat in points.iter().flat_map(|p| &p.caveats) {
        match kinds.iter_mut().find(|(known, _)| known.code == caveat.code) {
            Some((_, n)) => *n += 1,
            None => kinds.push((caveat, 1)),
        }
    }
    kinds.sort_by_key(|(caveat, _)| caveat.level);
    kinds
}

/// Tone of a caveat's level.
fn tone_of(level: CaveatLevel) -> Tone {
    match level {
        CaveatLevel::Invalid => Tone::Bad,
        CaveatLevel::Caution => Tone::Warning,
        CaveatLevel::Note => Tone::Plain,
    }
}

fn caveats(points: &[Point], page: &mut Page<'_>) {
    let kinds = kinds(points);
    if kinds.is_empty() {
        return;
    }
    page.gap();
    page.line(Tone::Heading, "Caveats");
    for (caveat, n) in kinds {
        let runs = match points.len() {
            1 => String::new(),
            all if points[0].label.contains_key("stage") => {
                format!("{} (in {n} of {all} parts)", brief::stages_of(points, &caveat.code))
            }
            all => format!(" (in {n} of {all} runs)"),
        };
        let text = format!("{}: {}{runs}: {}", caveat.level.name(), caveat.code, caveat.text);
        page.paragraph(tone_of(caveat.level), "  ", &text);
        page.paragraph(Tone::Plain, "    > ", &caveat.advice);
    }
}

/// The largest packets that arrived whole.
fn path_mtu(found: &PathMtu, page: &mut Page<'_>) {
    page.line(Tone::Heading, "Path MTU (IP packets that arrive whole, DF set)");
    for (name, found) in [("to server", found.up), ("from server", found.down)] {
        let Some(found) = found else { continue };
        let why = match (found.too_big, found.told) {
            (None, _) => "the largest that was tried".to_owned(),
            (Some(n), true) => format!("{n} bytes were refused: the sender's system or a router said so"),
            (Some(n), false) => format!("{n} bytes vanished without an error: a black hole"),
        };
        page.paragraph(Tone::Plain, &format!("  {name:<12} {:>6} bytes  ", found.mtu), &why);
    }
}
