//! The result in some lines: the answer, what else was found, and the gravest caveats.

use super::{kinds, load, point, result_words_of_all, sweep, tone_of};
use crate::text::{Page, Tone};
use crate::words;
use metrics::{Clamped, format_duration, format_percent};
use model::{Caveat, CaveatLevel, Figure, Kind, Outcome, Point, Status};

/// Caveats that are named.
const MOST_CAVEATS: usize = 3;
/// Causes of failures that are named.
const MOST_CAUSES: usize = 2;
/// Settings of a sweep beyond which its table hides the answer above it.
const LONG_TABLE: usize = 12;
/// Lines about figures beside the answer.
const MOST_LINES: usize = 3;

/// Writes the result; no more than twelve lines, and one for each step of a sweep or stage of a
/// load. A line that is longer than the page goes on below, and none is cut.
pub(super) fn write(outcome: &Outcome, tone: Tone, page: &mut Page<'_>) {
    if outcome.begin.verb == "demo" && tone == Tone::Heading {
        outcome.points.iter().filter_map(sweep::part).for_each(|part| page.paragraph(tone, "", &part));
    } else {
        page.paragraph(tone, "", &line(outcome));
    }
    if outcome.begin.verb == "load" {
        load::stages(outcome, page);
    } else if let [only] = outcome.points.as_slice() {
        page.groups("  ", &further_figures(only), MOST_LINES);
    } else if sweep::is_repeated(outcome) || outcome.path_mtu.is_some() || outcome.begin.verb == "demo" {
        // All of it is said.
    } else {
        sweep::steps(outcome, page);
    }
    causes(outcome, page);
    caveats(outcome, page);
    // Below a long table the answer is out of sight.
    if sweep::is_one(outcome) && outcome.sweep.len() > LONG_TABLE {
        page.paragraph(tone, "", &result_words_of_all(outcome).join(", "));
    }
}

/// The answer in one line: question and target, result, certainty, conditions.
pub(crate) fn line(outcome: &Outcome) -> String {
    let begin = &outcome.begin;
    let target = match begin.targets.as_slice() {
        [] => String::new(),
        [one] => format!(" {one}"),
        [one, more @ ..] => format!(" {one} and {} more", more.len()),
    };
    let mut found = result_words_of_all(outcome);
    if found.is_empty() && outcome.status == Status::Complete {
        found.push("no figure".to_owned());
    }
    if let [only] = outcome.points.as_slice()
        && !point::nothing(only)
    {
        let conditions = conditions(only, begin.verb == "serve");
        if let (Status::Partial, Some(reason), [lasted, ..]) =
            (outcome.status, &outcome.reason, &conditions[..])
        {
            let found = found.join(", ");
            // A reason of one target may begin with it, and may have the time of its event.
            let reason = begin.targets.first().map_or(reason.as_str(), |target| without(reason, target));
            let after = if reason.contains(" after ") { String::new() } else { format!(", after {lasted}") };
            return format!("Run partial: {}{target}: {reason}{after}; until then {found}", begin.verb);
        }
        found.extend(conditions);
    }
    found.extend(outcome.reason.clone());
    let how = if outcome.status == Status::Complete {
        String::new()
    } else {
        format!("Run {}: ", outcome.status.name())
    };
    let nothing = outcome.points.iter().all(point::nothing);
    let of =
        if nothing && outcome.reason.is_some() { String::new() } else { format!("{}{target}: ", begin.verb) };
    format!("{how}{of}{}", found.join(", "))
}

/// A reason without the name of the target in front.
fn without<'a>(reason: &'a str, target: &str) -> &'a str {
    reason.strip_prefix(target).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(reason)
}

/// Duration and number of concurrent connections; of a server, which chooses neither, the number of
/// accepted ones.
fn conditions(of: &Point, serving: bool) -> Vec<String> {
    let phase = &of.phase;
    // One that has moved all that it was to move ends before its time.
    let lasted = match (of.status, of.intervals.last().map(|last| last.end_ns)) {
        (Status::Complete, ended) => {
            phase.duration_ns.map(|planned| ended.map_or(planned, |at| at.min(planned)))
        }
        (_, ended) => ended,
    };
    let connections = if serving { of.local.opened } else { of.granted().into() };
    let many = |what| (serving || connections > 1).then(|| words::count(connections, what));
    let what = match phase.kind {
        Kind::Tcp | Kind::Connect | Kind::Ping | Kind::Capacity => many("connection"),
        Kind::Stream => many("stream"),
        Kind::Delay => many("flow"),
        Kind::Train => None,
    };
    lasted.map(format_duration).into_iter().chain(what).collect()
}

/// The result in one line: the answer, and the figures that lead for the question beside it.
pub(super) fn one_line(outcome: &Outcome) -> String {
    let mut all = vec![line(outcome)];
    if let [only] = outcome.points.as_slice()
        && outcome.begin.verb != "serve"
        && !point::nothing(only)
    {
        all.extend(figures_beside(only, |figure| leads(figure, only.phase.kind)));
    }
    // Without its reason a figure that is none looks like one.
    let invalid = kinds(&outcome.points).into_iter().filter(|(c, _)| c.level == CaveatLevel::Invalid);
    all.extend(invalid.map(|(caveat, _)| format!("{}: {}", caveat.level.name(), caveat.short())));
    all.join("; ")
}

/// True if a figure of this row leads for the question.
fn leads(figure: Figure, kind: Kind) -> bool {
    Figure::leading(kind).iter().any(|leading| leading.family() == figure.family())
}

/// The figures beside the answer, the leading ones first.
fn further_figures(of: &Point) -> Vec<String> {
    if point::nothing(of) {
        return Vec::new();
    }
    let kind = of.phase.kind;
    let leading = figures_beside(of, |figure| leads(figure, kind));
    let others = figures_beside(of, |figure| !leads(figure, kind));
    round_trip(of).into_iter().chain(leading).chain(others).chain(cpu(of)).collect()
}

/// Some of the figures beside the answer; figures of one distribution stand together.
fn figures_beside(of: &Point, wanted: impl Fn(Figure) -> bool) -> Vec<String> {
    let mut groups: Vec<String> = Vec::new();
    let mut last = None;
    let beside = |figure: &Figure| wanted(*figure) && !is_answer(*figure, of.phase.kind);
    for figure in Figure::kept().filter(beside) {
        let Some(value) = figure.of(of) else { continue };
        let shown = figure.unit().show(value);
        let of_row = Some((figure.family(), figure.way())).filter(|_| figure.stat().is_some());
        let part = figure.part();
        match groups.last_mut().filter(|_| of_row.is_some() && last == of_row) {
            Some(group) => {
                group.push_str(&format!(", {} {shown}", part.rsplit(", ").next().unwrap_or_default()));
            }
            None => groups.push(format!("{} {shown}", figure.to_string().replace(", ", " "))),
        }
        last = of_row;
    }
    groups
}

/// True for figures that the answer has already, or that are of no use beside it.
fn is_answer(figure: Figure, kind: Kind) -> bool {
    let fits = |other: &Figure| other.family() == figure.family();
    let answered = match kind {
        Kind::Delay => matches!(figure, Figure::Delay(..) | Figure::Loss(_)),
        Kind::Train => matches!(figure, Figure::Dispersion),
        Kind::Capacity => matches!(figure, Figure::Capacity(_) | Figure::CapacityMean(_)),
        kind => Figure::deciding(kind).iter().any(fits),
    };
    answered
        || matches!(
            figure,
            Figure::Sent(_)
                | Figure::Cpu
                | Figure::CpuLocal
                | Figure::CpuRemote
                | Figure::LoadedRoundTrip
                | Figure::JitterMax(_)
                | Figure::EcnCleared(_)
                | Figure::Errors
                | Figure::Caveats
        )
        || matches!(figure, Figure::MessagesLost) && kind == Kind::Ping
        || matches!(figure, Figure::Fairness) && kind != Kind::Tcp
        // The payload of a search's rates is no goodput of a path.
        || matches!(figure, Figure::Goodput(_))
            && matches!(kind, Kind::Connect | Kind::Ping | Kind::Train | Kind::Capacity)
}

/// Round trips of the kernel's: idle, and under the load.
fn round_trip(of: &Point) -> Option<String> {
    let loaded = format_duration(of.loaded_rtt_ns()?);
    Some(match of.idle_rtt_ns() {
        Some(idle) => format!("round trip {} idle, {loaded} loaded", format_duration(idle)),
        None => format!("round trip {loaded} loaded"),
    })
}

/// Share of their CPUs' time that both processes took.
fn cpu(of: &Point) -> Option<String> {
    let share = |totals: &model::Totals| {
        let cpu = totals.cpu.as_ref().filter(|cpu| cpu.available_s > 0.0)?;
        Some(format_percent(100.0 * (cpu.user_s + cpu.system_s) / cpu.available_s))
    };
    let local = share(&of.local)?;
    Some(match of.remote.first().and_then(share) {
        Some(remote) => format!("CPU {local} here, {remote} there"),
        None => format!("CPU {local} here"),
    })
}

/// The most frequent errors.
fn causes(outcome: &Outcome, page: &mut Page<'_>) {
    let ends = outcome.points.iter().filter(|of| !point::nothing(of)).flat_map(Point::ends);
    let mut all: Vec<_> = ends.flat_map(|end| &end.causes).collect();
    all.sort_by_key(|cause| std::cmp::Reverse(cause.count));
    for cause in all.into_iter().take(MOST_CAUSES) {
        page.paragraph(Tone::Bad, "  ", &format!("{} x {}", cause.count, cause.text));
    }
}

/// ` (down, up)`: the stages of a load that have a caveat; empty where all have it.
pub(super) fn stages_of(points: &[Point], code: &str) -> String {
    let stages = |points: &mut dyn Iterator<Item = &Point>| {
        let mut all: Vec<String> = Vec::new();
        for stage in points.filter_map(|point| point.label.get("stage")) {
            if !all.contains(stage) {
                all.push(stage.clone());
            }
        }
        all
    };
    let has = |point: &&Point| point.caveats.iter().any(|caveat| caveat.code == code);
    let those = stages(&mut points.iter().filter(has));
    if those.is_empty() || those.len() == stages(&mut points.iter()).len() {
        return String::new();
    }
    format!(" ({})", those.join(", "))
}

/// The gravest caveats, a line each in their short form; notes, which explain how to read a figure, are counted.
fn caveats(outcome: &Outcome, page: &mut Page<'_>) {
    let kinds = kinds(&outcome.points);
    let is_load = outcome.begin.verb == "load";
    if kinds.is_empty() {
        return;
    }
    let (notes, grave): (Vec<&Caveat>, Vec<&Caveat>) =
        kinds.iter().map(|(caveat, _)| caveat).partition(|caveat| caveat.level == CaveatLevel::Note);
    for caveat in grave.iter().take(MOST_CAVEATS) {
        let stages = if is_load { stages_of(&outcome.points, &caveat.code) } else { String::new() };
        let text = format!("{}: {}{stages}: {}", caveat.level.name(), caveat.code, caveat.short());
        page.paragraph(tone_of(caveat.level), "  ", &text);
    }
    let more = grave.len().saturating_sub(MOST_CAVEATS);
    let counted = [(more, "more caution"), (notes.len(), "note")];
    let counted = counted.into_iter().filter(|(n, _)| *n > 0);
    let counted: Vec<String> = counted.map(|(n, what)| words::count(u64::clamped(n), what)).collect();
    let behind =
        if counted.is_empty() { "advice".to_owned() } else { format!("{}, advice", counted.join(", ")) };
    page.remark(format!("{behind} and all tables: -v, or netcaliper show last"));
}
