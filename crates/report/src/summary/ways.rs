//! Round trips taken apart: each way's delay and losses, and how far the clocks can be trusted for that.

use super::pings::{cells, header};
use crate::text::{Page, Tone};
use crate::words;
use metrics::{WayFacts, format_duration};
use model::Ways;
use std::io;

/// Writes all about the two ways.
pub(super) fn write(ways: &Ways, page: &mut Page<'_>) -> io::Result<()> {
    let mut table = header("Each way");
    let rows =
        [("there", &ways.there_ns), ("back", &ways.back_ns), ("answers left late by", &ways.left_late_ns)];
    for (name, spectrum) in rows {
        if let Some(spectrum) = spectrum {
            table.row(Tone::Plain, cells(name, spectrum, 0));
        }
    }
    page.gap()?;
    if table.is_empty() {
        page.line(Tone::Heading, "Each way")?;
    } else {
        page.table(&table)?;
    }
    for (tone, text) in clocks(&ways.facts)
        .into_iter()
        .chain(losses(&ways.facts))
        .chain(marks(&ways.facts))
        .chain(oddities(&ways.facts))
    {
        page.paragraph(tone, "  ", &text)?;
    }
    Ok(())
}

fn clocks(facts: &WayFacts) -> Vec<(Tone, String)> {
    let mut told = Vec::new();
    if let Some(bound) = facts.clock_bound_ns {
        let how = match facts.by_wall {
            0 => "found by exchanges of stamps",
            _ => "both clocks say that they are disciplined",
        };
        told.push((Tone::Plain, format!("delays are right to ±{} ({how})", format_duration(bound))));
    }
    let distance = facts.clock_offset_ns.map(|ns| {
        let side = if ns < 0 { "behind" } else { "ahead of" };
        format!("the remote end's clock is {} {side} ours", format_duration(ns.unsigned_abs()))
    });
    let claim = facts.remote_synced.map(|synced| {
        let error = facts.remote_error_ns.map_or("says nothing of its error".to_owned(), |ns| {
            format!("may be wrong by {}", format_duration(ns))
        });
        format!("by its own account it is {}disciplined and {error}", if synced { "" } else { "not " })
    });
    let words: Vec<String> =
        distance.into_iter().chain(claim).chain(facts.remote_clock.map(source)).collect();
    if !words.is_empty() {
        told.push((Tone::Plain, words.join("; ")));
    }
    told
}

/// The source of a clock's time, and of its stamps (RFC 8972, tables 6 and 7).
fn source([from, method, ..]: [u8; 4]) -> String {
    let from = match from {
        1 => "NTP",
        2 => "PTP",
        3 => "SSU/BITS",
        4 => "a satellite system",
        5 => "no source",
        _ => "a source of unknown kind",
    };
    let method = match method {
        1 => "hardware",
        2 => "software",
        3 => "the control plane",
        _ => "something unknown",
    };
    format!("it takes its time from {from}, and its stamps are taken by {method}")
}

fn losses(facts: &WayFacts) -> Vec<(Tone, String)> {
    let lost = facts.there.lost + facts.back.lost + facts.lost_somewhere;
    let mut words = Vec::new();
    if facts.numbered > 0 {
        words.push(format!("lost there {}, lost back {}", facts.there.lost, facts.back.lost));
    }
    if facts.lost_somewhere > 0 {
        words.push(format!("{} lost, but it cannot be told where", facts.lost_somewhere));
    }
    for (way, counts) in [("there", facts.there), ("back", facts.back)] {
        if counts.duplicated > 0 {
            words.push(format!("{} doubled {way}", counts.duplicated));
        }
        if counts.reordered > 0 {
            words.push(format!("{} overtaken {way}", counts.reordered));
        }
    }
    if facts.numbered == 0 && lost > 0 {
        words.push("the remote end copies our numbers, or all losses were on the way back".to_owned());
    }
    let tone = if lost > 0 { Tone::Warning } else { Tone::Plain };
    if words.is_empty() { Vec::new() } else { vec![(tone, words.join(", "))] }
}

fn marks(facts: &WayFacts) -> Vec<(Tone, String)> {
    let range = |what: &str, way: &str, (low, high): (u8, u8)| match low == high {
        true => format!("{what} {low} {way}"),
        false => format!("{what} {low} to {high} {way}"),
    };
    let mut words = Vec::new();
    for (way, marks) in [("there", &facts.there_marks), ("back", &facts.back_marks)] {
        words.extend(marks.ttl.map(|ttl| range("TTL", way, ttl)));
        words.extend(marks.dscp.map(|dscp| range("DSCP", way, dscp)));
        words.extend((marks.ecn[3] > 0).then(|| format!("{} marked congested {way}", marks.ecn[3])));
    }
    if words.is_empty() {
        Vec::new()
    } else {
        vec![(Tone::Plain, format!("received with {}", words.join(", ")))]
    }
}

fn oddities(facts: &WayFacts) -> Vec<(Tone, String)> {
    let answers = [
        (facts.rejected, "did not belong to us or did not prove to know the key"),
        (facts.unnamed, "came without our session identifier: the remote end knows none"),
        (facts.tampered, "came with extensions that were changed on the way"),
        (facts.malformed, "called one of our extensions malformed"),
    ];
    let odd = answers.into_iter().filter(|(n, _)| *n > 0);
    let mut told: Vec<_> =
        odd.map(|(n, what)| (Tone::Warning, format!("{} {what}", words::count(n, "answer")))).collect();
    if !facts.unrecognised.is_empty() {
        let kinds: Vec<String> = facts.unrecognised.iter().map(ToString::to_string).collect();
        let text = format!("the remote end does not know extensions of type {}", kinds.join(", "));
        told.push((Tone::Warning, text));
    }
    if let Some((received, sent)) = facts.remote_counts {
        let text = format!("by its own count the remote end received {received} and sent {sent}");
        told.push((Tone::Plain, text));
    }
    told
}
