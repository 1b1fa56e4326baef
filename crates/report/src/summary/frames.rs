//! Frames of media streams: which could be shown, and which depth would have been enough.

use super::packets::share;
use crate::text::{Column, Page, Table, Tone, or_dash};
use metrics::{Frames, PlayoutSummary, format_duration, real};
use model::{Point, Totals};
use std::io;

/// One direction's receiver.
struct Shown<'a> {
    name: &'static str,
    frames: Option<Frames>,
    playout: Option<&'a PlayoutSummary>,
}

fn shown(point: &Point) -> Vec<Shown<'_>> {
    let pattern = point.phase.pattern;
    let mut all = Vec::new();
    if pattern.sends_up() {
        let sum = |all: Option<Frames>, one: &Totals| {
            let mut all = all.unwrap_or_default();
            all.add(one.frames?);
            Some(all)
        };
        let frames = point.remote.iter().fold(None, sum);
        // Those of several servers cannot be told as one.
        let playout = if let [one] = point.remote.as_slice() { one.playout.as_ref() } else { None };
        all.push(Shown { name: "to server", frames, playout });
    }
    if pattern.sends_down() {
        let Totals { frames, playout, .. } = &point.local;
        all.push(Shown { name: "from server", frames: *frames, playout: playout.as_ref() });
    }
    all
}

fn total(frames: &Frames) -> u64 {
    frames.completed + frames.dropped + frames.repeated
}

/// The result in a few words.
pub(super) fn found(point: &Point) -> Vec<String> {
    let words = |shown: &Shown<'_>| {
        let frames = shown.frames?;
        let part = share(real(frames.dropped) / real(total(&frames).max(1)));
        Some(format!("{}: {} of {} frames dropped ({part})", shown.name, frames.dropped, total(&frames)))
    };
    super::each_way(shown(point).iter().filter_map(words))
}

/// All about `point`'s frames.
pub(super) fn write(point: &Point, page: &mut Page<'_>) -> io::Result<()> {
    let columns: [Column<&Shown<'_>>; 7] = [
        ("frames", |one| one.frames.map_or("NOT CONFIRMED".to_owned(), |f| total(&f).to_string())),
        ("whole", |one| or_dash(one.frames, |f| f.completed.to_string())),
        ("dropped", |one| or_dash(one.frames, |f| f.dropped.to_string())),
        ("share", |one| or_dash(one.frames, |f| share(real(f.dropped) / real(total(&f).max(1))))),
        ("repeated", |one| or_dash(one.frames, |f| f.repeated.to_string())),
        ("stalls", |one| or_dash(one.playout.filter(|_| one.frames.is_some()), |p| p.stalls.to_string())),
        ("longest", |one| {
            or_dash(one.playout.filter(|_| one.frames.is_some()), |p| p.longest_stall.to_string())
        }),
    ];
    let all = shown(point);
    let rows = all
        .iter()
        .map(|one| (Tone::bad_if(one.frames.is_none_or(|f| f.dropped > 0)), one.name.to_owned(), one));
    page.table(&Table::of("Frames (receiver's judgement)", &columns, rows))?;
    for one in &all {
        if let Some(playout) = one.playout {
            depth(one.name, playout, page)?;
        }
    }
    Ok(())
}

/// Which depth would have been enough?
fn depth(name: &str, playout: &PlayoutSummary, page: &mut Page<'_>) -> io::Result<()> {
    let Some(need) = &playout.need_ns else { return Ok(()) };
    let ns = |n: i64| {
        if n < 0 { format!("-{}", format_duration(n.unsigned_abs())) } else { format_duration(n) }
    };
    let mut words = vec![format!(
        "a buffer of {} would have held every frame that came, {} 99 % of them",
        ns(need.max.max(0)),
        ns(need.p99.max(0))
    )];
    if playout.never > 0 {
        words.push(format!("{} never came whole: no depth helps them", playout.never));
    }
    let useful = playout.misses.iter().filter(|(_, missed)| *missed > playout.never);
    let missed: Vec<String> =
        useful.map(|(depth, n)| format!("{n} with {}", format_duration(*depth))).collect();
    if !missed.is_empty() {
        words.push(format!("frames missed: {}", missed.join(", ")));
    }
    page.paragraph(Tone::Plain, &format!("  {name}: "), &words.join("; "))
}
