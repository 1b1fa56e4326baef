//! The matrix as one page: everything in one file, no script, nothing loaded from elsewhere.

use super::text::summary;
use super::view::{Line, Picture, Spot, View, letter};
use super::{Cell, Matrix};
use crate::result::Reason;
use crate::verdict::{Verdict, figure};
use metrics::{Wall, format_duration, real};
use report::{REPORT_STYLE, escape};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Write};

const STYLE: &str = include_str!("fleet.css");
/// Rows up to which each cell tells its value; of more the colour does.
const MOST_FIGURES: usize = 16;
/// Most pairs that are listed below the pictures; of more those with something to say.
const MOST_LISTED: usize = 10_000;

/// Writes the page about `matrix`. `report` names the page of a cell's own report, by its index, as a link.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_html(
    matrix: &Matrix,
    report: &dyn Fn(usize) -> Option<String>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let view = View::of(matrix);
    let listed = listed(matrix);
    writeln!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"netcaliper\">\n<title>netcaliper fleet: {0}</title>\n\
         <style>\n{REPORT_STYLE}{STYLE}</style>\n</head>\n<body class=\"fleet\">\n<header>\n<h1>netcaliper fleet</h1>\n\
         <p class=\"verdict {1}\">{0}</p>\n<p class=\"soft\">{2}; run {3}</p>\n\
         <nav aria-label=\"Parts of this page\"><a href=\"#verdicts\">Verdicts</a><a href=\"#pictures\">Matrices</a>\
         <a href=\"#pairs\">Pairs</a><a href=\"#hosts\">Hosts</a></nav>\n</header>\n<main>",
        escape(&summary(matrix)),
        if matrix.verdicts.is_empty() { "good" } else { "warning" },
        escape(&at(matrix.made)),
        matrix.run
    )?;
    verdicts(matrix, out)?;
    pictures(matrix, &view, &listed, out)?;
    pairs(matrix, &view, &listed, report, out)?;
    hosts(matrix, out)?;
    writeln!(out, "</main>\n</body>\n</html>")
}

fn at(wall: Wall) -> String {
    match jiff::Timestamp::from_nanosecond(wall.0.into()) {
        Ok(at) if wall.0 > 0 => format!("{at:.0}").replace('T', " ").replace('Z', " UTC"),
        _ => "at a time that is not known".to_owned(),
    }
}

fn verdicts(matrix: &Matrix, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<section id=\"verdicts\"><h2>Verdicts</h2>")?;
    list(&matrix.verdicts, "No host, direction, pair or label is worse than the rest.", out)?;
    if let Some(before) = matrix.before {
        writeln!(out, "<h3>Worse than in run {before}</h3>")?;
        list(&matrix.changes, "Nothing.", out)?;
    }
    writeln!(out, "</section>")
}

fn list(verdicts: &[Verdict], none: &str, out: &mut dyn Write) -> io::Result<()> {
    if verdicts.is_empty() {
        return writeln!(out, "<p>{none}</p>");
    }
    writeln!(out, "<ul class=\"caveats\">")?;
    for verdict in verdicts {
        writeln!(
            out,
            "<li>{}. <span class=\"soft\">By chance with probability {:.1e} at most.</span></li>",
            escape(&verdict.words()),
            verdict.q
        )?;
    }
    writeln!(out, "</ul>")
}

fn pictures(matrix: &Matrix, view: &View, listed: &BTreeSet<usize>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<section id=\"pictures\"><h2>Matrices</h2>")?;
    if view.too_many {
        writeln!(
            out,
            "<p>There are too many hosts for a picture, and no label gathers them: give them site or rack.</p>"
        )?;
    }
    if let Some(label) = view.gathered {
        writeln!(out, "<p class=\"soft\">A row for all hosts of a {label}: medians of their pairs.</p>")?;
    }
    writeln!(out, "<p class=\"soft\">Rows send, columns receive. A cell leads to its pair below.</p>")?;
    legend(matrix, out)?;
    writeln!(out, "<div class=\"small\">")?;
    for picture in &view.pictures {
        let (best, worst) = picture.ends();
        writeln!(
            out,
            "<figure class=\"matrix\"><figcaption><h3>{}</h3><p class=\"note\">{}; best <span class=\"scale\"></span> worst: {} to {}</p></figcaption>",
            escape(&picture.title()),
            escape(&matrix.test_words(picture.test)),
            escape(&best),
            escape(&worst)
        )?;
        picture_table(matrix, view, picture, listed, out)?;
        writeln!(out, "</figure>")?;
    }
    writeln!(out, "</div></section>")
}

/// The reasons that occur, with their colours.
fn legend(matrix: &Matrix, out: &mut dyn Write) -> io::Result<()> {
    let (_, missing) = matrix.counts();
    write!(out, "<ul class=\"legend\">")?;
    for reason in missing.keys() {
        write!(
            out,
            "<li><span class=\"key\"><span class=\"swatch {}\">{}</span>{}</span></li>",
            class(*reason),
            letter(*reason),
            reason.words()
        )?;
    }
    writeln!(
        out,
        "<li><span class=\"key\"><span class=\"swatch named\"></span>named by a verdict</span></li>\
         <li><span class=\"key\"><span class=\"swatch doubt\"></span>has caveats</span></li></ul>"
    )
}

fn picture_table(
    matrix: &Matrix,
    view: &View,
    picture: &Picture,
    listed: &BTreeSet<usize>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let told = view.lines.len() <= MOST_FIGURES;
    let form = if told { "told" } else { "dense" };
    write!(out, "<div class=\"wide\"><table class=\"matrix {form}\"><thead><tr><th scope=\"col\"></th>")?;
    for line in &view.lines {
        let first = if line.first { " class=\"first\"" } else { "" };
        write!(out, "<th scope=\"col\"{first}><span>{}</span></th>", escape(&line.name))?;
    }
    writeln!(out, "</tr></thead><tbody>")?;
    for (line, row) in view.lines.iter().zip(&picture.spots) {
        let first = if line.first { " class=\"first\"" } else { "" };
        let title = if line.labels.is_empty() {
            String::new()
        } else {
            format!(" title=\"{}\"", escape(&line.labels))
        };
        write!(out, "<tr{first}><th scope=\"row\"{title}>{}</th>", escape(&line.name))?;
        for (column, spot) in view.lines.iter().zip(row) {
            let text = spot_cell(matrix, view, picture, (line, column), spot.as_ref(), told, listed);
            out.write_all(text.as_bytes())?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody></table></div>")
}

fn spot_cell(
    matrix: &Matrix,
    view: &View,
    picture: &Picture,
    (from, to): (&Line, &Line),
    spot: Option<&Spot>,
    told: bool,
    listed: &BTreeSet<usize>,
) -> String {
    let mut classes = Vec::from_iter(to.first.then_some("first"));
    let Some(spot) = spot else {
        classes.push("none");
        return format!("<td class=\"{}\"></td>", classes.join(" "));
    };
    let show = |value| picture.figure.unit().show(value);
    let (text, style) = match (spot.value, spot.reason) {
        (Some(value), _) => {
            classes.push("value");
            (
                if told { show(value) } else { String::new() },
                format!(" style=\"--v:{:.0}%\"", picture.place(value) * 100.0),
            )
        }
        (None, Some(reason)) => {
            classes.push(class(reason));
            (letter(reason).to_string(), String::new())
        }
        (None, None) => ("-".to_owned(), String::new()),
    };
    classes.extend(spot.is_named.then_some("named"));
    classes.extend(spot.has_caveats.then_some("doubt"));
    let mut title = format!("{} to {}: ", from.name, to.name);
    title += &match (spot.value, spot.reason) {
        (Some(value), _) => show(value),
        (None, Some(reason)) => reason.words().to_owned(),
        (None, None) => "no such figure".to_owned(),
    };
    if let Some(cell) = spot.cell.map(|at| &matrix.cells[at]) {
        title += &about(matrix, cell);
    } else if view.gathered.is_some() {
        title += ", median of the pairs";
    }
    let link = spot.cell.filter(|at| listed.contains(at));
    let inner = match link {
        Some(at) => format!(
            "<a href=\"#p{at}\">{}</a>",
            if text.is_empty() { "&nbsp;".into() } else { escape(&text) }
        ),
        None => escape(&text).into_owned(),
    };
    format!("<td class=\"{}\"{style} title=\"{}\">{inner}</td>", classes.join(" "), escape(&title))
}

/// Age and caveats of a cell, after its value.
fn about(matrix: &Matrix, cell: &Cell) -> String {
    let mut text = String::new();
    if let Some(measured) = cell.measured {
        let _ = write!(text, ", {} ago", age(matrix, measured));
    }
    if !cell.caveats.is_empty() {
        let codes = cell.caveats.iter().map(|caveat| caveat.code.as_str());
        let _ = write!(text, "; {}", codes.collect::<Vec<_>>().join(", "));
    }
    if !cell.detail.is_empty() {
        let _ = write!(text, "; {}", cell.detail);
    }
    text
}

fn age(matrix: &Matrix, measured: Wall) -> String {
    format_duration(real(matrix.made.0.saturating_sub(measured.0).max(0)))
}

/// Indices of the cells with a row of their own below.
fn listed(matrix: &Matrix) -> BTreeSet<usize> {
    let all = matrix.cells.len() <= MOST_LISTED;
    let cells = matrix.cells.iter().enumerate();
    let told =
        cells.filter(|(_, cell)| all || !cell.caveats.is_empty() || cell.reason().is_some_and(is_told));
    told.map(|(at, _)| at).take(MOST_LISTED).collect()
}

fn is_told(reason: Reason) -> bool {
    !matches!(reason, Reason::UnreachableByDesign | Reason::NotMeasuredYet)
}

fn pairs(
    matrix: &Matrix,
    view: &View,
    listed: &BTreeSet<usize>,
    report: &dyn Fn(usize) -> Option<String>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let several = matrix.tests.len() > 1;
    writeln!(out, "<section id=\"pairs\"><h2>Pairs</h2>")?;
    if listed.len() < matrix.cells.len() {
        writeln!(
            out,
            "<p class=\"soft\">{} of {}: those with caveats or a reason.</p>",
            listed.len(),
            matrix.cells.len()
        )?;
    }
    let mut keys: Vec<&str> = view.pictures.iter().map(|picture| picture.key).collect();
    keys.sort_unstable();
    keys.dedup();
    write!(out, "<div class=\"wide\"><table class=\"pairs\"><thead><tr><th scope=\"col\">pair</th>")?;
    for key in &keys {
        write!(out, "<th scope=\"col\">{}</th>", escape(key))?;
    }
    writeln!(out, "<th scope=\"col\">age</th><th scope=\"col\">reason, caveats</th></tr></thead><tbody>")?;
    for at in listed {
        let cell = &matrix.cells[*at];
        let test = if several {
            format!(" <span class=\"soft\">{}</span>", escape(&matrix.test_words(cell.test)))
        } else {
            String::new()
        };
        let name = format!("{} → {}", cell.from, cell.to);
        let link = report(*at).filter(|_| !cell.runs.is_empty());
        let name = match link {
            Some(link) => format!("<a href=\"{}\">{}</a>", escape(&link), escape(&name)),
            None => escape(&name).into_owned(),
        };
        write!(out, "<tr id=\"p{at}\"><th scope=\"row\">{name}{test}</th>")?;
        for key in &keys {
            let value = cell.value(key).zip(figure(key)).map(|(value, figure)| figure.unit().show(value));
            let repeats = cell.readings.get(*key).map_or(0, Vec::len);
            let repeats = if repeats > 1 { format!(" title=\"median of {repeats}\"") } else { String::new() };
            write!(out, "<td{repeats}>{}</td>", escape(&value.unwrap_or_else(|| "-".to_owned())))?;
        }
        let age = cell.measured.map_or_else(|| "-".to_owned(), |measured| age(matrix, measured));
        writeln!(out, "<td>{}</td><td>{}</td></tr>", escape(&age), reasons(cell))?;
    }
    writeln!(out, "</tbody></table></div></section>")
}

fn reasons(cell: &Cell) -> String {
    let reasons = cell.missing.iter().map(|(reason, n)| match n {
        1 => reason.words().to_owned(),
        n => format!("{n} {}", reason.words()),
    });
    let mut said: Vec<String> = reasons.map(|text| escape(&text).into_owned()).collect();
    said.extend((!cell.detail.is_empty()).then(|| escape(&cell.detail).into_owned()));
    let caveat = |caveat: &super::CellCaveat| {
        format!("<span class=\"code\" title=\"{}\">{}</span>", escape(&caveat.text), escape(&caveat.code))
    };
    said.extend(cell.caveats.iter().map(caveat));
    said.join("; ")
}

fn hosts(matrix: &Matrix, out: &mut dyn Write) -> io::Result<()> {
    let hosts = &matrix.inventory.hosts;
    writeln!(
        out,
        "<section id=\"hosts\"><h2>Hosts</h2><details><summary>{} hosts</summary><div class=\"wide\"><table class=\"pairs\"><thead><tr>\
         <th scope=\"col\">host</th><th scope=\"col\">address</th><th scope=\"col\">labels</th></tr></thead><tbody>",
        hosts.len()
    )?;
    for host in hosts.iter().take(MOST_LISTED) {
        let labels =
            host.labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ");
        writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td></tr>",
            escape(&host.name),
            escape(&host.address),
            escape(&labels)
        )?;
    }
    writeln!(out, "</tbody></table></div></details></section>")
}

/// The class of a reason: its colour.
fn class(reason: Reason) -> &'static str {
    match reason {
        Reason::UnreachableByDesign => "design",
        Reason::Refused | Reason::Version => "refused",
        Reason::NotMeasuredYet | Reason::Cancelled => "open",
        Reason::Busy => "busy",
        Reason::HostAbsent | Reason::AgentLost | Reason::TimedOut | Reason::Failed | Reason::BadResult => {
            "failed"
        }
    }
}
