//! The report for people and for programs.

use crate::{Check, Place, Report, State};
use metrics::{format_bytes, format_count};
use report::{Page, Tone, broken};
use std::io::{self, Write};

/// Lines are no longer, commands excepted: those are copied whole.
const COLUMNS: usize = 80;

/// Checks that are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The first line.
    Line,
    /// Checks that ask for something; the others by name.
    Brief,
    /// Every check.
    Full,
}

/// Writes the report as one JSON document.
///
/// # Errors
/// The first error of `out`.
pub fn write_json(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, report)?;
    writeln!(out)
}

/// Writes the report for people, the worst first.
///
/// # Errors
/// The first error of `out`.
pub fn write_text(report: &Report, detail: Detail, color: bool, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Page::new(out, color);
    let bad = if report.prevents_measuring() { Tone::Bad } else { Tone::Heading };
    let lead =
        report.path.as_ref().map_or_else(|| "doctor".to_owned(), |path| format!("doctor {}", path.target));
    paragraph(&mut page, bad, &lead, &headline(report));
    if detail == Detail::Line {
        return page.end();
    }
    paragraph(&mut page, Tone::Plain, "host", &host(report));
    for state in [State::Missing, State::Limits, State::Unknown, State::Ok] {
        let checks: Vec<&Check> = report.checks.iter().filter(|check| check.state == state).collect();
        let quiet = matches!(state, State::Unknown | State::Ok) && detail != Detail::Full;
        if checks.is_empty() {
            continue;
        }
        if quiet {
            let names: Vec<String> = checks.iter().map(|check| name(check)).collect();
            page.gap();
            paragraph(&mut page, Tone::Plain, state.title(), &names.join(", "));
            continue;
        }
        page.gap();
        page.line(Tone::Heading, state.title());
        for check in checks {
            one(&mut page, check, report);
        }
    }
    if detail == Detail::Brief {
        page.gap();
        page.line(Tone::Plain, "Every check with its reason: -v; for programs: --json.");
    }
    page.end()
}

/// The answer in one line.
fn headline(report: &Report) -> String {
    let counts = [(State::Missing, "missing"), (State::Limits, "limited"), (State::Unknown, "unknown")];
    let counts = counts.into_iter().map(|(state, word)| (report.count(state), word));
    let counts: Vec<String> = counts.filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    let counts = if counts.is_empty() { "all checks are good".to_owned() } else { counts.join(", ") };
    if !report.prevents_measuring() {
        return format!("nothing prevents measuring ({counts})");
    }
    format!("not possible: {} ({counts})", report.prevents.join(", "))
}

/// One line about the host that checks.
fn host(report: &Report) -> String {
    let host = &report.host;
    let mut parts = vec![host.name.clone(), host.kernel.clone()];
    if host.cpus > 0 {
        parts.push(format_count(u64::from(host.cpus), "CPU"));
    }
    if host.memory > 0 {
        parts.push(format_bytes(host.memory));
    }
    if let Some(nic) = &host.nic {
        parts.push(format!("interface {}", nic.name));
    }
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

/// The name of a check for people, with the host where it is the server's.
fn name(check: &Check) -> String {
    let name = check.check.replace('-', " ");
    if check.place == Place::Remote { format!("server's {name}") } else { name }
}

fn one(page: &mut Page<'_>, check: &Check, report: &Report) {
    let tone = match check.state {
        State::Missing => Tone::Bad,
        State::Limits => Tone::Warning,
        State::Unknown | State::Ok => Tone::Plain,
    };
    let mut lines = broken("  ", &format!("{}: {}", name(check), check.text), COLUMNS - 2).into_iter();
    // The colour marks where a check begins.
    lines.by_ref().take(1).for_each(|first| page.line(tone, &first));
    lines.for_each(|line| page.line(Tone::Plain, &format!("  {line}")));
    if !check.prevents.is_empty() {
        let text = format!("prevents {}", check.prevents.join(", "));
        broken("    ", &text, COLUMNS).iter().for_each(|line| page.line(Tone::Plain, line));
    }
    if let Some(command) = &check.mend {
        let at = match (check.mend_at, &report.path) {
            (Some(Place::Remote), Some(path)) => format!("on {}: ", path.target),
            _ => String::new(),
        };
        page.line(Tone::Plain, &format!("    {at}{command}"));
    }
}

fn paragraph(page: &mut Page<'_>, tone: Tone, lead: &str, text: &str) {
    broken("", &format!("{lead}: {text}"), COLUMNS).iter().for_each(|line| page.line(tone, line));
}
