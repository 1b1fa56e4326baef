//! The matrix as one page: everything in one file, no script, nothing loaded from elsewhere.

use super::colour;
use super::text::{NONE, headline, summary};
use super::view::{CellContent, Heading, Picture, Spot, TOO_MANY, View};
use super::{Cell, CellCaveat, Matrix};
use crate::result::Reason;
use crate::verdict::{Verdict, figure, title};
use metrics::{Wall, format_duration, real};
use report::{REPORT_STYLE, escape};
use std::collections::BTreeSet;
use std::io::{self, Write};

const STYLE: &str = include_str!("fleet.css");
/// Rows up to which each cell has its value in figures; with more, only its colour.
const MOST_FIGURES: usize = 28;
/// Most pairs that are listed below the pictures; of more, only pairs with a caveat or a reason.
const MOST_LISTED: usize = 10_000;

/// Writes the page about `matrix`. `report` names the page of a cell's own report, by its index, as
/// a link.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_html(
    matrix: &Matrix,
    report: &dyn Fn(usize) -> Option<String>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let page = Page { matrix, view: View::of(matrix), listed: listed(matrix) };
    let made = match jiff::Timestamp::from_nanosecond(matrix.made.0.into()) {
        Ok(at) if matrix.made.0 > 0 => format!("{at:.0}").replace('T', " ").replace('Z', " UTC"),
        _ => "at a time that is not known".to_owned(),
    };
    let (headline, summary, run) = (headline(matrix), summary(matrix), matrix.run);
    let (headline, summary) = (escape(&headline), escape(&summary));
    let (colours, verdict) = (colour::rules(), if matrix.verdicts.is_empty() { "good" } else { "warning" });
    writeln!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"netcaliper\">\n<title>netcaliper fleet: {headline}</title>\n\
         <style>\n{REPORT_STYLE}{STYLE}{colours}</style>\n</head>\n<body class=\"fleet\">\n<header>\n<h1>netcaliper fleet</h1>\n\
         <p class=\"verdict {verdict}\">{headline}.</p>\n<p class=\"soft\">{summary}; {made}; run {run}</p>\n\
         <nav aria-label=\"Parts of this page\"><a href=\"#verdicts\">Verdicts</a><a href=\"#pictures\">Matrices</a>\
         <a href=\"#pairs\">Pairs</a><a href=\"#hosts\">Hosts</a></nav>\n</header>\n<main>"
    )?;
    verdicts(matrix, out)?;
    page.pictures(out)?;
    page.pairs(report, out)?;
    hosts(matrix, out)?;
    writeln!(out, "</main>\n</body>\n</html>")
}

fn verdicts(matrix: &Matrix, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<section id=\"verdicts\"><h2>Verdicts</h2>")?;
    let none = if matrix.verdicts.is_empty() { format!("{}.", headline(matrix)) } else { String::new() };
    list(&matrix.verdicts, if matrix.changes.is_empty() { &none } else { NONE }, out)?;
    if let Some(single) = matrix.single_readings() {
        writeln!(out, "<p>{}</p>", escape(&single))?;
    }
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
        let chance = match verdict.failures {
            Some(_) => String::new(),
            None => format!(" <span class=\"soft\">{}.</span>", chance(verdict.q)),
        };
        writeln!(out, "<li>{}.{chance}</li>", escape(&verdict.words()))?;
    }
    writeln!(out, "</ul>")
}

/// A probability in words: as bad by chance alone.
fn chance(q: f64) -> String {
    let percent = 100.0 * q;
    match percent {
        p if p < 0.01 => "Less than 0.01 % by chance".to_owned(),
        p => format!("At most {p:.2} % by chance"),
    }
}

/// The reasons that occur, with their colours.
fn legend(matrix: &Matrix, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "<ul class=\"legend\">")?;
    for reason in matrix.counts().missing.into_keys() {
        let (class, letter) = (reason.class(), reason.letter());
        let key = format!("<span class=\"swatch {class}\">{letter}</span>{reason}");
        write!(out, "<li><span class=\"key\">{key}</span></li>")?;
    }
    writeln!(
        out,
        "<li><span class=\"key\"><span class=\"swatch named\"></span>named by a verdict</span></li>\
         <li><span class=\"key\"><span class=\"swatch caution\"></span>has cautions</span></li></ul>"
    )
}

/// The class of the head of a column.
fn head_class(line: &Heading, is_named: bool) -> String {
    let classes: Vec<&str> =
        [line.first.then_some("first"), is_named.then_some("named")].into_iter().flatten().collect();
    if classes.is_empty() { String::new() } else { format!(" class=\"{}\"", classes.join(" ")) }
}

/// Indices of the cells with a row of their own below.
fn listed(matrix: &Matrix) -> BTreeSet<usize> {
    let all = matrix.cells.len() <= MOST_LISTED;
    let cells = matrix.cells.iter().enumerate();
    let listed = cells
        .filter(|(_, cell)| all || !cell.caveats.is_empty() || cell.reason().is_some_and(Reason::is_failure));
    listed.map(|(at, _)| at).take(MOST_LISTED).collect()
}

struct Page<'a> {
    matrix: &'a Matrix,
    view: View,
    /// Indices of the cells with a row of their own below the pictures.
    listed: BTreeSet<usize>,
}

impl Page<'_> {
    fn pictures(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "<section id=\"pictures\"><h2>Matrices</h2>")?;
        if self.view.too_many {
            writeln!(out, "<p>{TOO_MANY}</p>")?;
        }
        if let Some(label) = self.view.gathered {
            writeln!(out, "<p class=\"soft\">A row for all hosts of a {label}: medians of their pairs.</p>")?;
        }
        writeln!(out, "<p class=\"soft\">Rows send, columns receive. A cell leads to its pair below.</p>")?;
        legend(self.matrix, out)?;
        for sentence in &self.view.uniform {
            writeln!(out, "<p>{}.</p>", escape(sentence))?;
        }
        for picture in &self.view.pictures {
            let (best, worst) = picture.ends();
            let (title, test) = (picture.title(), self.matrix.test_words(picture.test));
            let scale = picture.scale_words();
            let [title, test, best, worst] = [&title, &test, &best, &worst].map(|text| escape(text));
            writeln!(
                out,
                "<figure class=\"matrix\"><figcaption><h3>{title}</h3><p class=\"note\">{test}; best <span class=\"scale\"></span> worst: {best} to {worst}, {scale}</p></figcaption>"
            )?;
            self.picture_table(picture, out)?;
            writeln!(out, "</figure>")?;
        }
        writeln!(out, "</section>")
    }

    fn picture_table(&self, picture: &Picture, out: &mut dyn Write) -> io::Result<()> {
        let lines = &self.view.lines;
        let form = if lines.len() <= MOST_FIGURES { "told" } else { "dense" };
        write!(
            out,
            "<div class=\"wide matrix\"><table class=\"matrix {form}\"><thead><tr><th scope=\"col\"></th>"
        )?;
        let [rows, columns] = &picture.named;
        for (line, is_named) in lines.iter().zip(columns) {
            let class = head_class(line, *is_named);
            write!(out, "<th scope=\"col\"{class}><span>{}</span></th>", escape(&line.name))?;
        }
        writeln!(out, "</tr></thead><tbody>")?;
        for ((line, is_named), row) in lines.iter().zip(rows).zip(&picture.spots) {
            let title = match line.labels.as_str() {
                "" => String::new(),
                labels => format!(" title=\"{}\"", escape(labels)),
            };
            let class = if *is_named { " class=\"named\"" } else { "" };
            let first = if line.first { " class=\"first\"" } else { "" };
            write!(out, "<tr{first}><th scope=\"row\"{class}{title}>{}</th>", escape(&line.name))?;
            for (column, spot) in lines.iter().zip(row) {
                out.write_all(self.spot_cell(picture, line, column, spot.as_ref()).as_bytes())?;
            }
            writeln!(out, "</tr>")?;
        }
        writeln!(out, "</tbody></table></div>")
    }

    fn spot_cell(&self, picture: &Picture, from: &Heading, to: &Heading, spot: Option<&Spot>) -> String {
        let mut classes = Vec::from_iter(to.first.then_some("first"));
        let Some(spot) = spot else {
            classes.push("none");
            return format!("<td class=\"{}\"></td>", classes.join(" "));
        };
        let show = |value| picture.figure.show(value);
        let is_told = self.view.lines.len() <= MOST_FIGURES;
        let text = spot.text(|value| if is_told { picture.scale.show(value) } else { String::new() });
        let step = if let CellContent::Value(value) = spot.shown {
            format!("v{}", colour::step(picture.place(value)))
        } else {
            String::new()
        };
        let (class, meaning) = match spot.shown {
            CellContent::Value(value) => (Some(step.as_str()), show(value)),
            CellContent::Reason(reason) => (Some(reason.class()), reason.to_string()),
            CellContent::Nothing => (None, "no such figure".to_owned()),
        };
        classes.extend(class);
        classes.extend(spot.is_named.then_some("named"));
        classes.extend(spot.has_cautions.then_some("caution"));
        let mut title = format!("{} to {}: {meaning}", from.name, to.name);
        match spot.cell {
            Some(at) => title += &self.about(&self.matrix.cells[at]),
            None if self.view.gathered.is_some() => title += ", median of the pairs",
            None => {}
        }
        let text = escape(&text);
        let inner = match spot.cell.filter(|at| self.listed.contains(at)) {
            Some(at) if text.is_empty() => format!("<a href=\"#p{at}\">&nbsp;</a>"),
            Some(at) => format!("<a href=\"#p{at}\">{text}</a>"),
            None => text.into_owned(),
        };
        format!("<td class=\"{}\" title=\"{}\">{inner}</td>", classes.join(" "), escape(&title))
    }

    /// Age and caveats of a cell, after its value.
    fn about(&self, cell: &Cell) -> String {
        let mut text = cell.measured.map_or_else(String::new, |at| format!(", {} ago", self.age(at)));
        let codes: Vec<&str> = cell.caveats.iter().map(|caveat| caveat.code.as_str()).collect();
        for part in [codes.join(", "), cell.detail.clone()].iter().filter(|part| !part.is_empty()) {
            text += "; ";
            text += part;
        }
        text
    }

    fn age(&self, measured: Wall) -> String {
        format_duration(real(self.matrix.made.0.saturating_sub(measured.0).max(0)))
    }

    fn pairs(&self, report: &dyn Fn(usize) -> Option<String>, out: &mut dyn Write) -> io::Result<()> {
        let Page { matrix, listed, .. } = self;
        writeln!(out, "<section id=\"pairs\"><h2>Pairs</h2>")?;
        let (some, all) = (listed.len(), matrix.cells.len());
        if some < all {
            writeln!(out, "<p class=\"soft\">{some} of {all}: pairs with caveats or a reason.</p>")?;
        }
        let mut keys: Vec<&str> = Vec::new();
        for picture in &self.view.pictures {
            if !keys.contains(&picture.key) {
                keys.push(picture.key);
            }
        }
        writeln!(out, "<p class=\"soft\">Worst first.</p>")?;
        write!(
            out,
            "<div class=\"wide pairs\"><table class=\"pairs\"><thead><tr><th scope=\"col\">pair</th>"
        )?;
        for key in &keys {
            write!(out, "<th scope=\"col\" class=\"number\">{}</th>", escape(&title(key)))?;
        }
        writeln!(
            out,
            "<th scope=\"col\" class=\"number\">age</th><th scope=\"col\">reason, caveats</th></tr></thead><tbody>"
        )?;
        for at in &matrix.worst_first() {
            let Some(cell) = matrix.cells.get(*at).filter(|_| listed.contains(at)) else { continue };
            let test = match matrix.tests.len() {
                0 | 1 => String::new(),
                _ => format!(" <span class=\"soft\">{}</span>", escape(&matrix.test_words(cell.test))),
            };
            let name = format!("{} → {}", cell.from, cell.to);
            let name = match report(*at).filter(|_| !cell.runs.is_empty()) {
                Some(link) => format!("<a href=\"{}\">{}</a>", escape(&link), escape(&name)),
                None => escape(&name).into_owned(),
            };
            write!(out, "<tr id=\"p{at}\"><th scope=\"row\">{name}{test}</th>")?;
            for key in &keys {
                let value = cell.value(key).zip(figure(key)).map(|(value, figure)| figure.show(value));
                let repeats = match cell.readings.get(*key).map_or(0, Vec::len) {
                    0 | 1 => String::new(),
                    repeats => format!(" title=\"median of {repeats}\""),
                };
                write!(
                    out,
                    "<td class=\"number\"{repeats}>{}</td>",
                    escape(value.as_deref().unwrap_or("-"))
                )?;
            }
            let age = cell.measured.map_or_else(|| "-".to_owned(), |measured| self.age(measured));
            writeln!(out, "<td class=\"number\">{}</td><td>{}</td></tr>", escape(&age), reasons(cell))?;
        }
        writeln!(out, "</tbody></table></div></section>")
    }
}

fn reasons(cell: &Cell) -> String {
    let reason = |(reason, n): (&Reason, &u16)| match n {
        1 => reason.to_string(),
        n => format!("{n} {reason}"),
    };
    let caveat = |caveat: &CellCaveat| {
        format!("<span class=\"code\" title=\"{}\">{}</span>", escape(&caveat.text), escape(&caveat.code))
    };
    let mut said: Vec<String> = cell.missing.iter().map(reason).collect();
    said.extend((!cell.detail.is_empty()).then(|| escape(&cell.detail).into_owned()));
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
        let labels: Vec<String> = host.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let labels = labels.join(" ");
        let [name, address, labels] = [&host.name, &host.address, &labels].map(|text| escape(text));
        writeln!(out, "<tr><th scope=\"row\">{name}</th><td>{address}</td><td>{labels}</td></tr>")?;
    }
    writeln!(out, "</tbody></table></div></details></section>")
}
