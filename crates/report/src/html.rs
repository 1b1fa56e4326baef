//! A run as one page: everything in one file, nothing loaded from elsewhere.
//!
//! The text is that of the console's report, by the same code ([`Page`]); the plots are drawn here
//! and made interactive by the page's script. A policy in the page lets only that script run, by
//! its hash: texts of the network or the peer cannot add another, even if it were not escaped.

use crate::plot::{self, Plot, Style};
use crate::plots::{Sheet, sheets};
use crate::text::{Page, Table, Tone, clean};
use crate::{summary, words};
use jiff::Timestamp;
use metrics::{Clamped, Wall, format_duration};
use model::document::Document;
use model::{Begin, Caveat, CaveatLevel, HostSnapshot, Outcome, Phase, Point};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::io::{self, Write};

mod first;
pub(crate) mod history;
pub(crate) mod live;
mod sessions;

pub(crate) use first::overlay;

/// The report's style sheet, for pages that bring their own, too.
pub const STYLE: &str = include_str!("html/report.css");
/// The script that makes plots interactive, without anything that begins it on its own.
pub const SCRIPT: &str = include_str!("html/report.js");
/// SHA-256 of [`SCRIPT`] in base64, for the page's policy; a test computes it.
const SCRIPT_HASH: &str = "IPvf+ouputuUE8+sjVfWm5/L/D2BUwH7PGEbUyBKtHI=";
/// Samples of a legend.
const SAMPLE_LINE: &str = "<path class=\"line\" d=\"M0 5H24\"/>";
const SAMPLE_POINT: &str = "<circle class=\"dot\" cx=\"12\" cy=\"5\" r=\"3\"/>";
/// Phases that are shown in full; a sweep's table has all.
const MOST_POINTS: usize = 12;

/// Writes the page about `outcome`.
pub fn write_html(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let page = &mut Page::html(out);
    let sheets = sheets(outcome);
    let title = title(outcome);
    writeln!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'sha256-{SCRIPT_HASH}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"netcaliper {}\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>",
        escape(&outcome.begin.version),
        escape(&title)
    );
    head(outcome, &title, page);
    writeln!(page, "<main>");
    let is_timed = first::write(outcome, page);
    let leading = sheets.first().and_then(|sheet| sheet.plots.first()).filter(|_| !is_timed);
    leading.into_iter().for_each(|plot| figure(plot, 0, page));
    caveats(outcome, page);
    let mut number = 0;
    for sheet in &sheets {
        plots(sheet, (sheets.len() > 1, leading.is_some()), &mut number, page);
    }
    figures(outcome, page);
    conditions(outcome, page);
    writeln!(page, "</main>");
    foot(outcome, page);
    data(&sheets, page);
    writeln!(page, "<script>{SCRIPT}</script>\n</body>\n</html>");
    page.end()
}

/// The plots of `outcome` as SVG files: name and content.
pub fn svg_files(outcome: &Outcome) -> Vec<(String, String)> {
    let all = sheets(outcome);
    let plots = all.iter().flat_map(|sheet| &sheet.plots);
    plots.map(|plot| (format!("{}.svg", plot.name), plot::standalone(plot))).collect()
}

/// `text` with what means something in HTML or XML made harmless, for text and attributes alike,
/// and without control characters.
pub fn escape(text: &str) -> Cow<'_, str> {
    let text = clean(text);
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return text;
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    Cow::Owned(safe)
}

/// `bytes` with what means something in a URL percent-encoded (RFC 3986).
pub fn url_encoded(bytes: &[u8]) -> String {
    let byte = |&byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    bytes.iter().map(byte).collect()
}

fn title(outcome: &Outcome) -> String {
    let verb = match outcome.begin.verb.as_str() {
        "" => "run",
        verb => verb,
    };
    match &outcome.begin.targets[..] {
        [] => format!("netcaliper {verb}"),
        targets => format!("netcaliper {verb} {}", targets.join(" ")),
    }
}

fn utc(wall: Wall) -> String {
    match Timestamp::from_nanosecond(i128::from(wall.0)) {
        Ok(at) if wall.0 > 0 => format!("{at:.0}").replace('T', " ").replace('Z', " UTC"),
        _ => "at a time that is not known".to_owned(),
    }
}

fn head(outcome: &Outcome, title: &str, page: &mut Page<'_>) {
    let tone = match summary::tone(outcome) {
        Tone::Heading => "good",
        other => other.class(),
    };
    writeln!(
        page,
        "<header>\n<h1>{}</h1>\n<p class=\"verdict {tone}\">{}</p>\n<p class=\"soft\">{}</p>",
        escape(title),
        escape(&summary::verdict_line(outcome)),
        escape(&utc(outcome.begin.started))
    );
    if let [only] = &outcome.points[..] {
        writeln!(page, "<p>{}</p>", escape(&words::phase(&only.phase)));
    }
    writeln!(
        page,
        "<nav aria-label=\"Parts of this page\"><a href=\"#caveats\">Caveats</a><a href=\"#plots\">Plots</a>\
         <a href=\"#figures\">Figures</a><a href=\"#conditions\">Conditions</a></nav>\n</header>"
    );
}

fn caveats(outcome: &Outcome, page: &mut Page<'_>) {
    let kinds = summary::kinds(&outcome.points);
    writeln!(page, "<section id=\"caveats\"><h2>Caveats</h2>");
    if kinds.is_empty() {
        return writeln!(page, "<p>None.</p></section>");
    }
    writeln!(
        page,
        "<details><summary>{}</summary>\n<p>Reasons not to take these figures at face value, the gravest first.</p>\n\
         <ul class=\"caveats\">",
        by_level(&kinds)
    );
    for (caveat, n) in kinds {
        let runs = match outcome.points.len() {
            1 => String::new(),
            all => format!(" (in {n} of {all} phases)"),
        };
        let level = caveat.level.name();
        writeln!(
            page,
            "<li class=\"level-{level}\"><span class=\"level\">{level}</span> <span class=\"code\">{}</span>{runs}: {}<br>\
             <span class=\"soft\">{}</span></li>",
            escape(&caveat.code),
            escape(&caveat.text),
            escape(&caveat.advice)
        );
    }
    writeln!(page, "</ul></details></section>");
}

/// `3 caveats: 1 invalid, 2 notes`
fn by_level(kinds: &[(&Caveat, usize)]) -> String {
    let same = kinds.chunk_by(|(a, _), (b, _)| a.level == b.level);
    let counts = same.map(|same| match (u64::clamped(same.len()), same[0].0.level) {
        (n, CaveatLevel::Invalid) => format!("{n} invalid"),
        (n, level) => words::count(n, level.name()),
    });
    let all = words::count(u64::clamped(kinds.len()), "caveat");
    format!("{all}: {}", counts.collect::<Vec<_>>().join(", "))
}

/// The plots of a sheet. The plots of single phases among `several` are folded away. The first plot
/// of all may be `shown` already.
fn plots(sheet: &Sheet, (several, shown): (bool, bool), number: &mut usize, page: &mut Page<'_>) {
    let first = *number == 0;
    if first {
        writeln!(page, "<h2 id=\"plots\">Plots</h2>");
    }
    let folded = several && !first;
    match (folded, sheet.title.as_str()) {
        (_, "") => {}
        (false, title) => writeln!(page, "<h3>{}</h3>", escape(title)),
        (true, title) => writeln!(page, "<details><summary>{}</summary>", escape(title)),
    }
    for plot in &sheet.plots {
        if *number > 0 || !shown {
            figure(plot, *number, page);
        }
        *number += 1;
    }
    zeros(sheet, page);
    if folded && !sheet.title.is_empty() {
        writeln!(page, "</details>");
    }
}

/// Names the plots that a sheet has not, because they would show zeros alone.
fn zeros(sheet: &Sheet, page: &mut Page<'_>) {
    if sheet.zeros.is_empty() {
        return;
    }
    let of = if sheet.title.is_empty() { String::new() } else { format!(" ({})", sheet.title) };
    let text = format!("Zero throughout{of}: {}.", sheet.zeros.join("; "));
    writeln!(page, "<p class=\"soft\">{}</p>", escape(&text));
}

fn figure(plot: &Plot, number: usize, page: &mut Page<'_>) {
    writeln!(
        page,
        "<figure data-plot=\"{number}\" id=\"plot-{}\">\n<figcaption><h3>{}</h3><p class=\"note\">{}</p></figcaption>\n\
         <ul class=\"legend\">",
        escape(&plot.name),
        escape(&plot.title),
        escape(&plot.note)
    );
    for (at, series) in plot.series.iter().enumerate() {
        writeln!(
            page,
            "<li><span class=\"key\"><svg width=\"24\" height=\"10\" class=\"{}\" aria-hidden=\"true\">{}</svg>\
             <span>{}</span></span></li>",
            plot::class(at, series.style),
            if series.style == Style::Points { SAMPLE_POINT } else { SAMPLE_LINE },
            escape(&series.name)
        );
    }
    writeln!(page, "</ul>\n{}</figure>", plot::inline(plot));
}

/// The console's report, as tables.
fn figures(outcome: &Outcome, page: &mut Page<'_>) {
    writeln!(page, "<section id=\"figures\"><h2>Figures</h2>");
    summary::in_full(outcome, MOST_POINTS, page);
    page.end_lines();
    if outcome.points.len() > MOST_POINTS {
        writeln!(page, "<p class=\"soft\">The first {MOST_POINTS} phases; the JSON has all.</p>");
    }
    writeln!(page, "</section>");
}

/// The command, both ends, and the conditions of the run.
fn conditions(outcome: &Outcome, page: &mut Page<'_>) {
    let begin = &outcome.begin;
    writeln!(page, "<section id=\"conditions\"><h2>Conditions</h2>");
    writeln!(page, "<h3>Command</h3>\n<pre class=\"command\">{}</pre>", escape(&command(&begin.command)));
    clocks(outcome, page);
    if let Some(point) = outcome.points.first() {
        sessions(point, page);
        settings(&point.phase, page);
    }
    if !outcome.notices.is_empty() {
        writeln!(page, "<h3>Notices</h3>\n<ul>");
        outcome.notices.iter().for_each(|notice| writeln!(page, "<li>{}</li>", escape(notice)));
        writeln!(page, "</ul>");
    }
    writeln!(page, "</section>");
}

/// The command line as a shell would take it.
fn command(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+[]".contains(c);
    let quoted = |word: &String| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    match words {
        [] => "not on record".to_owned(),
        words => words.iter().map(quoted).collect::<Vec<_>>().join(" "),
    }
}

fn clocks(outcome: &Outcome, page: &mut Page<'_>) {
    let remote =
        outcome.points.iter().flat_map(|p| &p.sessions).map(|s| (format!("server {}", s.address), &s.host));
    let mut hosts: Vec<(String, &HostSnapshot)> = vec![("this end".to_owned(), &outcome.begin.host)];
    for (name, host) in remote {
        if !hosts.iter().any(|(known, _)| *known == name) {
            hosts.push((name, host));
        }
    }
    let mut table = Table::new("end|host|system|clock");
    for (name, host) in hosts {
        let clock = match host.clock_synced {
            _ if host.cpus == 0 => "not known".to_owned(),
            true => format!("synchronised, wrong by at most {}", format_duration(host.clock_error_ns)),
            false => "not synchronised".to_owned(),
        };
        let system = match host.cpus {
            0 => "not known".to_owned(),
            _ => format!("{}, {}", host.kernel, words::cpus(host)),
        };
        let host = if host.name.is_empty() { "not told".to_owned() } else { host.name.clone() };
        table.row(Tone::Plain, vec![name, host, system, clock]);
    }
    writeln!(page, "<h3>Hosts and clocks</h3>");
    table.html("pairs", page);
}

fn sessions(point: &Point, page: &mut Page<'_>) {
    if point.sessions.is_empty() {
        return;
    }
    writeln!(page, "<h3>Servers</h3>\n<ul>");
    for s in &point.sessions {
        // Servers of other programs report little or nothing about themselves.
        let version =
            if s.version.is_empty() { String::new() } else { format!(", netcaliper {}", s.version) };
        let others = words::count(u64::from(s.accepted.others), "other session");
        let told = [
            Some(format!("{} is {}{version}", s.target, s.address)),
            words::idle_round_trip(s),
            (s.workers > 0).then(|| words::count(u64::from(s.workers), "worker")),
            s.authenticated.then(|| "authenticated".to_owned()),
            (s.accepted.others > 0).then(|| others + " ran there"),
        ];
        let changes = s.accepted.changes.iter();
        let changes =
            changes.map(|c| format!("{}: {} was asked, {} given ({})", c.what, c.asked, c.given, c.why));
        let words: Vec<String> = told.into_iter().flatten().chain(changes).collect();
        writeln!(page, "<li>{}</li>", escape(&words.join("; ")));
    }
    writeln!(page, "</ul>");
}

/// Every setting of a phase under its name in the JSON, except unset ones.
fn settings(phase: &Phase, page: &mut Page<'_>) {
    let mut rows = Vec::new();
    flatten("", &phase.value().unwrap_or_default(), &mut rows);
    let mut table = Table::new("setting|value");
    rows.into_iter().for_each(|(name, value)| table.row(Tone::Plain, vec![name, value]));
    writeln!(page, "<details><summary>All settings, in base units</summary>");
    table.html("pairs", page);
    writeln!(page, "</details>");
}

/// The values of a document under their paths, except nulls.
pub(crate) fn flatten(name: &str, value: &Value, rows: &mut Vec<(String, String)>) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (key, value) in fields {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                flatten(&name, value, rows);
            }
        }
        Value::String(text) => rows.push((name.to_owned(), text.clone())),
        other => rows.push((name.to_owned(), other.to_string())),
    }
}

fn foot(outcome: &Outcome, page: &mut Page<'_>) {
    writeln!(
        page,
        "<footer class=\"soft\"><p>{}. This page is complete: it loads nothing, and nothing in it leaves your browser.</p></footer>",
        origin(&outcome.begin)
    );
}

/// Which run a page is about, and what made it.
fn origin(begin: &Begin) -> String {
    let protocol = if begin.protocol.is_empty() { "native" } else { &begin.protocol };
    format!("Run {} by netcaliper {}, protocol {}", begin.run, escape(&begin.version), escape(protocol))
}

/// The plots for the script. Characters that could end the element or start another are written as
/// escapes of JSON.
fn data(sheets: &[Sheet], page: &mut Page<'_>) {
    let plots: Vec<Value> = sheets.iter().flat_map(|sheet| &sheet.plots).map(Plot::json).collect();
    let text = json!({ "units": live::live_units(), "plots": plots }).to_string();
    let text = text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    writeln!(page, "<script type=\"application/json\" id=\"data\">{text}</script>");
}

#[cfg(test)]
mod tests;
