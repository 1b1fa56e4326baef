//! Lines, tables and paragraphs, for a terminal and for a page.
//!
//! All text passes through [`Page`], which takes the control characters out of it (much of it comes
//! from the network and must not steer the reader's terminal) and adds the only escape sequences
//! there are: one colour for a whole line. On an HTML page the same text is escaped.

use crate::html::escape;
use metrics::{Clamped, DistSummary, format_duration};
pub use model::clean;
use std::borrow::{Borrow, Cow};
use std::io::{self, Write};
use std::{fmt, mem};
use unicode_width::UnicodeWidthChar as _;

/// Paragraphs are broken so that no line is longer.
const WIDTH: usize = 110;
/// Least indent of lines that continue another: the text of a peer must not begin a line, or it
/// could pass for ours.
const HANG: usize = 2;

/// Bars of a histogram, and characters of the longest.
const MOST_BARS: usize = 20;
const LONGEST_BAR: u64 = 50;

/// Meaning of a line, for its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Heading,
    Warning,
    Bad,
}

impl Tone {
    /// Bad, or plain.
    pub(crate) fn bad_if(bad: bool) -> Tone {
        if bad { Tone::Bad } else { Tone::Plain }
    }

    /// The SGR parameters of its colour, none for the terminal's own, and its class on a page.
    fn marks(self) -> (&'static str, &'static str) {
        match self {
            Tone::Plain => ("", "plain"),
            Tone::Heading => ("1", "heading"),
            Tone::Warning => ("33", "warning"),
            Tone::Bad => ("31", "bad"),
        }
    }

    pub(crate) fn class(self) -> &'static str {
        self.marks().1
    }
}

#[derive(Clone, Copy)]
enum Form {
    /// Lines of a terminal, with colours or without.
    Terminal { color: bool },
    /// Parts of a page; whether plain lines are being collected.
    Html { lines: bool },
}

/// Lines, tables and paragraphs on their way to a terminal or a page. After an error of the writer
/// nothing more is written; [`Page::end`] returns that error.
pub struct Page<'a> {
    out: &'a mut dyn Write,
    written: io::Result<()>,
    form: Form,
    /// Columns of the terminal, where they are known.
    columns: Option<u16>,
}

impl<'a> Page<'a> {
    pub fn new(out: &'a mut dyn Write, color: bool) -> Self {
        Page { out, written: Ok(()), form: Form::Terminal { color }, columns: None }
    }

    /// No line is longer than `columns`, if they are known: a terminal would continue it at its
    /// left edge.
    pub fn within(self, columns: Option<u16>) -> Self {
        Page { columns, ..self }
    }

    /// The same text as parts of an HTML page: headings, paragraphs, tables, and lines. `write!`
    /// adds HTML as it is.
    pub(crate) fn html(out: &'a mut dyn Write) -> Self {
        Page { out, written: Ok(()), form: Form::Html { lines: false }, columns: None }
    }

    /// Ends the page.
    ///
    /// # Errors
    /// The first error of the writer.
    pub fn end(&mut self) -> io::Result<()> {
        self.end_lines();
        mem::replace(&mut self.written, Ok(()))
    }

    /// Ends plain lines of an HTML page.
    pub(crate) fn end_lines(&mut self) {
        if let Form::Html { lines: true } = self.form {
            self.form = Form::Html { lines: false };
            writeln!(self, "</pre>");
        }
    }

    /// Implements `write!` and `writeln!`.
    pub(crate) fn write_fmt(&mut self, text: fmt::Arguments<'_>) {
        if self.written.is_ok() {
            self.written = self.out.write_fmt(text);
        }
    }

    /// One line; trailing blanks and control characters are taken out.
    pub fn line(&mut self, tone: Tone, text: &str) {
        let text = clean(text.trim_end());
        match self.form {
            Form::Terminal { color } => {
                let sgr = if color && !text.is_empty() { tone.marks().0 } else { "" };
                cut(&text, self.columns.map(usize::from)).iter().for_each(|text| match sgr {
                    "" => writeln!(self, "{text}"),
                    sgr => writeln!(self, "\x1b[{sgr}m{text}\x1b[0m"),
                });
            }
            Form::Html { lines } if tone == Tone::Plain => {
                self.form = Form::Html { lines: true };
                writeln!(self, "{}{}", if lines { "" } else { "<pre>" }, escape(&text));
            }
            Form::Html { .. } => {
                self.end_lines();
                let text = escape(&text);
                match tone {
                    Tone::Heading => writeln!(self, "<h4>{text}</h4>"),
                    other => writeln!(self, "<p class=\"{}\">{text}</p>", other.class()),
                }
            }
        }
    }

    pub fn gap(&mut self) {
        match self.form {
            Form::Terminal { .. } => writeln!(self),
            Form::Html { .. } => self.end_lines(),
        }
    }

    /// A paragraph: `lead`, then `text` broken at blanks and indented by the width of `lead`, by
    /// two at least. A number and the word after it, its unit most often, stay together.
    pub fn paragraph(&mut self, tone: Tone, lead: &str, text: &str) {
        if matches!(self.form, Form::Html { .. }) {
            self.end_lines();
            let (lead, text) = (clean(lead), clean(text));
            let lead = match lead.trim() {
                "" => String::new(),
                _ => format!("<span class=\"lead\">{}</span> ", escape(&lead)),
            };
            return writeln!(self, "<p class=\"{}\">{lead}{}</p>", tone.class(), escape(&text));
        }
        broken(lead, text, self.columns()).iter().for_each(|line| self.line(tone, line));
    }

    /// A paragraph that is indented, about what stands above it.
    pub(crate) fn remark(&mut self, text: impl AsRef<str>) {
        self.paragraph(Tone::Plain, "  ", text.as_ref());
    }

    /// As many of `groups`, separated by semicolons, as fit into `lines` lines.
    pub(crate) fn groups(&mut self, lead: &str, groups: &[String], lines: usize) {
        let columns = self.columns();
        let fits = |n: &usize| broken(lead, &groups[..*n].join("; "), columns).len() <= lines;
        if let Some(n) = (1..=groups.len()).take_while(fits).last() {
            self.paragraph(Tone::Plain, lead, &groups[..n].join("; "));
        }
    }

    /// Columns that paragraphs may take.
    fn columns(&self) -> usize {
        self.columns.map_or(WIDTH, |columns| WIDTH.min(columns.into()))
    }

    /// A line with the number of further rows, if there are any, and their place.
    pub(crate) fn more(&mut self, n: u64, place: &str) {
        if n > 0 {
            self.line(Tone::Plain, &format!("  and {n} more{place}"));
        }
    }

    /// A histogram: a gap, the title, and a bar for each bound and its count.
    pub(crate) fn bars(&mut self, title: &str, bars: &[(String, u64)]) {
        let longest = bars.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
        self.gap();
        self.line(Tone::Heading, title);
        for (bound, count) in bars {
            // A bar that stands for anything at all is seen.
            let length = usize::clamped(count.saturating_mul(LONGEST_BAR).div_ceil(longest));
            self.line(Tone::Plain, &format!("  {bound:>11}  {count:>9}  {}", "#".repeat(length)));
        }
    }

    /// A gap and a table, if it has rows.
    pub fn section(&mut self, table: &Table) {
        if !table.is_empty() {
            self.gap();
            self.table(table);
        }
    }

    /// A table: the header in bold, columns of text to the left, all others to the right.
    pub fn table(&mut self, table: &Table) {
        if matches!(self.form, Form::Html { .. }) {
            self.end_lines();
            return table.html("", self);
        }
        let widths = widths(std::iter::once(&table.header).chain(table.rows.iter().map(|(_, row)| row)));
        let blocks = blocks(&widths, self.columns.map(usize::from));
        for (at, block) in blocks.iter().enumerate() {
            if at > 0 {
                self.gap();
            }
            self.line(Tone::Heading, &joined(&table.header, &widths, block, table.left));
            table
                .rows
                .iter()
                .for_each(|(tone, row)| self.line(*tone, &joined(row, &widths, block, table.left)));
        }
    }
}

/// Lines of rows with their columns below each other: the first `left` to the left, the others to
/// the right.
pub fn aligned(rows: &[Vec<String>], left: usize) -> impl Iterator<Item = String> {
    let widths = widths(rows);
    let all: Vec<usize> = (0..widths.len()).collect();
    rows.iter().map(move |row| joined(row, &widths, &all, left).trim_end().to_owned())
}

/// The widest cell of each column.
fn widths<'a>(rows: impl IntoIterator<Item = &'a Vec<String>>) -> Vec<usize> {
    let mut widths = Vec::new();
    for row in rows {
        widths.resize(row.len().max(widths.len()), 0);
        widths.iter_mut().zip(row).for_each(|(most, text)| *most = width(text).max(*most));
    }
    widths
}

/// The cells of a row in the columns of `block`.
fn joined(row: &[String], widths: &[usize], block: &[usize], left: usize) -> String {
    let mut line = String::new();
    for &at in block {
        let Some(text) = row.get(at) else { continue };
        let (gap, blanks) =
            (if at == 0 { "" } else { "  " }, " ".repeat(widths[at].saturating_sub(width(text))));
        line.extend(if at < left { [gap, text, &blanks] } else { [gap, &blanks, text] });
    }
    line
}

/// Upper bounds of times (ns) and counts as bars of a histogram, neighbours together where there
/// would be too many.
pub(crate) fn up_to(mut steps: Vec<(u64, u64)>) -> Vec<(String, u64)> {
    while steps.len() > MOST_BARS {
        let halves = steps.chunks(2);
        steps = halves.filter_map(|two| Some((two.last()?.0, two.iter().map(|step| step.1).sum()))).collect();
    }
    steps.into_iter().map(|(bound, n)| (format!("<= {}", format_duration(bound)), n)).collect()
}

/// A column: its title, and its cell in a row.
pub(crate) type Column<T> = (&'static str, fn(&T) -> String);

/// A value as `show` has it; a dash where there is none.
pub fn or_dash<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), show)
}

/// `text`, or its beginning.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

pub(crate) const TIMES: &str = "min|mean|p50|p90|p99|p99.9|max|count";
pub(crate) const FEW_TIMES: &str = "min|mean|p50|p99|max|count";

/// Rows of cells, with the meaning of each row.
pub struct Table {
    header: Vec<String>,
    rows: Vec<(Tone, Vec<String>)>,
    /// Columns that are aligned to the left, from the first.
    left: usize,
}

impl Table {
    /// An empty table under `header`, whose titles are separated by `|`.
    pub fn new(header: &str) -> Self {
        Table::under(header.split('|').map(str::to_owned).collect())
    }

    /// An empty table under these titles.
    pub fn under(header: Vec<String>) -> Self {
        Table { header, rows: Vec::new(), left: 1 }
    }

    /// The same with the first `left` columns aligned to the left.
    #[must_use]
    pub fn left(self, left: usize) -> Self {
        Table { left, ..self }
    }

    /// A table with a row for each of `rows`: its meaning, its name, and its cells by the columns'
    /// functions.
    pub(crate) fn of<T>(
        title: &str,
        columns: &[Column<T>],
        rows: impl IntoIterator<Item = (Tone, String, impl Borrow<T>)>,
    ) -> Self {
        let titles = std::iter::once(title).chain(columns.iter().map(|column| column.0));
        let mut table = Table::under(titles.map(str::to_owned).collect());
        for (tone, name, row) in rows {
            let cells = columns.iter().map(|column| column.1(row.borrow()));
            table.row(tone, std::iter::once(name).chain(cells).collect());
        }
        table
    }

    /// Adds a row of a distribution's times, for the titles [`TIMES`].
    pub(crate) fn times(&mut self, name: &str, dist: Option<&DistSummary>) {
        self.distribution(name, dist, |d| vec![(0.5, d.p50), (0.9, d.p90), (0.99, d.p99), (0.999, d.p999)]);
    }

    /// The same of fewer percentiles, under [`FEW_TIMES`].
    pub(crate) fn few_times(&mut self, name: &str, dist: Option<&DistSummary>) {
        self.distribution(name, dist, |d| vec![(0.5, d.p50), (0.99, d.p99)]);
    }

    fn distribution(
        &mut self,
        name: &str,
        dist: Option<&DistSummary>,
        of: fn(&DistSummary) -> Vec<(f64, u64)>,
    ) {
        let Some(d) = dist else { return };
        let mut cells = vec![name.to_owned(), format_duration(d.min), format_duration(d.mean)];
        cells.extend(of(d).into_iter().map(|(q, ns)| or_dash(d.is_shown(q).then_some(ns), format_duration)));
        cells.extend([format_duration(d.max), d.count.to_string()]);
        self.row(Tone::Plain, cells);
    }

    /// Adds a row; its first cell is indented by two.
    pub fn row(&mut self, tone: Tone, mut cells: Vec<String>) {
        if let Some(first) = cells.first_mut() {
            first.insert_str(0, "  ");
        }
        self.rows.push((tone, cells));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// As a table of a page, which has a class of its own unless `class` is empty.
    pub(crate) fn html(&self, class: &str, page: &mut Page<'_>) {
        self.markup([class, Tone::Plain.class()], |_| "", page);
    }

    /// The same with a class of each column, by its title; `table` and `plain` are the classes of
    /// the table and of plain rows, empty for none.
    pub(crate) fn markup(
        &self,
        [table, plain]: [&str; 2],
        column: impl Fn(&str) -> &'static str,
        page: &mut Page<'_>,
    ) {
        let cell = |text: &str| escape(text.trim()).into_owned();
        let class = |name: &str| if name.is_empty() { String::new() } else { format!(" class=\"{name}\"") };
        write!(page, "<div class=\"wide\"><table{}><thead><tr>", class(table));
        for title in &self.header {
            write!(page, "<th scope=\"col\"{}>{}</th>", class(column(title)), cell(title));
        }
        writeln!(page, "</tr></thead><tbody>");
        for (tone, row) in &self.rows {
            let of_row = if *tone == Tone::Plain { plain } else { tone.class() };
            write!(page, "<tr{}>", class(of_row));
            for (at, (title, text)) in self.header.iter().zip(row).enumerate() {
                match at {
                    0 => write!(page, "<th scope=\"row\">{}</th>", cell(text)),
                    _ => write!(page, "<td{}>{}</td>", class(column(title)), cell(text)),
                }
            }
            writeln!(page, "</tr>");
        }
        writeln!(page, "</tbody></table></div>");
    }
}

/// Which columns of a table stand beside each other where no line may be longer than `most`: the
/// first is in each block.
fn blocks(widths: &[usize], most: Option<usize>) -> Vec<Vec<usize>> {
    let mut blocks = vec![vec![0]];
    let mut used = widths[0];
    for (at, wide) in widths.iter().enumerate().skip(1) {
        if most.is_some_and(|most| used + 2 + wide > most)
            && blocks.last().is_some_and(|block| block.len() > 1)
        {
            blocks.push(vec![0]);
            used = widths[0];
        }
        used += 2 + wide;
        blocks.last_mut().into_iter().for_each(|block| block.push(at));
    }
    blocks
}

/// `lead` and the words of `text` in lines of `columns` columns.
pub fn broken(lead: &str, text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = lead.to_owned();
    let mut indent = width(lead);
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        let mut word = word.to_owned();
        if is_number(&word)
            && let Some(unit) = words.next()
        {
            word.extend([" ", unit]);
        }
        let begun = width(&line) > indent;
        if begun && width(&line) + 1 + width(&word) > columns {
            indent = indent.max(HANG);
            lines.push(mem::replace(&mut line, " ".repeat(indent)));
        } else if begun {
            line.push(' ');
        }
        line.push_str(&word);
    }
    lines.push(line);
    lines
}

/// `line` in pieces of `columns` columns, all but the first indented; whole if the columns are not
/// known.
fn cut(line: &str, columns: Option<usize>) -> Vec<Cow<'_, str>> {
    let Some(columns) = columns.filter(|columns| width(line) > *columns) else {
        return vec![Cow::Borrowed(line)];
    };
    let (mut pieces, mut piece, mut used) = (Vec::new(), String::new(), 0);
    for symbol in line.chars() {
        let wide = symbol.width().unwrap_or(0);
        if used + wide > columns && used > HANG {
            pieces.push(Cow::Owned(mem::replace(&mut piece, " ".repeat(HANG))));
            used = HANG;
        }
        piece.push(symbol);
        used += wide;
    }
    pieces.push(Cow::Owned(piece));
    pieces
}

/// `text`, in which a peer may have had a part, for a terminal: without control characters, each
/// line but the first indented, and no line longer than `columns`, if they are known (a terminal
/// would continue it at its left edge).
pub fn hanging(text: &str, columns: Option<u16>) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let line = clean(line.trim_end());
        let line = if lines.is_empty() { line } else { Cow::Owned(format!("{:HANG$}{line}", "")) };
        match columns.map(usize::from).filter(|columns| width(&line) > *columns) {
            None => lines.push(line.into_owned()),
            Some(most) => {
                let lead = &line[..line.len() - line.trim_start().len()];
                let all = broken(lead, line.trim_start(), most);
                lines.extend(all.iter().flat_map(|line| cut(line, Some(most))).map(Cow::into_owned));
            }
        }
    }
    lines.join("\n")
}

/// Symbols of our texts, and what stands for each in ASCII.
const SYMBOLS: [(char, &str); 17] = [
    ('µ', "u"),
    ('±', "+-"),
    ('…', "~"),
    ('→', "->"),
    ('↑', "^"),
    ('↓', "v"),
    ('≤', "<="),
    ('≥', ">="),
    ('×', "x"),
    ('·', "."),
    ('–', "-"),
    ('—', "-"),
    ('−', "-"),
    ('│', "|"),
    ('─', "-"),
    ('█', "#"),
    ('░', "."),
];

/// `text` for a locale without UTF-8. A symbol that becomes two characters takes one of several
/// blanks before it, so that columns stay aligned; a character without a form of its own becomes a
/// question mark.
pub fn ascii(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for symbol in text.chars() {
        let known = SYMBOLS.iter().find(|(known, _)| *known == symbol).map(|(_, form)| *form);
        match known {
            _ if symbol.is_ascii() => plain.push(symbol),
            Some(form) => {
                if form.len() > 1 && plain.ends_with("  ") {
                    plain.pop();
                }
                plain.push_str(form);
            }
            None => plain.push('?'),
        }
    }
    plain
}

/// True if `word` is a plain number, perhaps after an opening parenthesis.
fn is_number(word: &str) -> bool {
    let digits = word.trim_start_matches('(');
    !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || c == '.')
}

/// Columns that `text` takes.
fn width(text: &str) -> usize {
    text.chars().map(|symbol| symbol.width().unwrap_or(0)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(color: bool, write: impl FnOnce(&mut Page<'_>)) -> String {
        let mut out = Vec::new();
        let mut page = Page::new(&mut out, color);
        write(&mut page);
        page.end().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn tables_are_aligned_by_characters_not_bytes() {
        let mut table = Table::new("Time|mean|n");
        table.row(Tone::Plain, vec!["a".into(), "51.0 µs".into(), "7".into()]);
        table.row(Tone::Plain, vec!["longer".into(), "1 s".into(), "100".into()]);
        let want = "Time         mean    n\n  a       51.0 µs    7\n  longer      1 s  100\n";
        assert_eq!(page(false, |p| p.table(&table)), want);
    }

    #[test]
    fn a_wide_table_is_told_in_blocks_of_columns() {
        let mut table = Table::new("A|bbbb|cccc|dddd");
        table.row(Tone::Plain, ["x", "1", "2", "3"].map(str::to_owned).to_vec());
        let said = page(false, |p| Page::new(p.out, false).within(Some(16)).table(&table));
        assert_eq!(said, "A    bbbb  cccc\n  x     1     2\n\nA    dddd\n  x     3\n");
    }

    #[test]
    fn a_locale_without_utf_8_gets_ascii_in_the_same_columns() {
        assert_eq!(ascii("51.0 µs (± 1.5 ms, 95 %)… -P 8 → 2"), "51.0 us (+- 1.5 ms, 95 %)~ -P 8 -> 2");
        assert_eq!(ascii("mean    ± sd"), "mean   +- sd");
        assert_eq!(ascii("ü\n"), "?\n");
    }

    #[test]
    fn paragraphs_hang_under_their_lead_and_break_between_words() {
        let text = page(false, |p| p.paragraph(Tone::Plain, "  ab  ", &"word ".repeat(25)));
        // 6 columns of lead and 21 times "word " end in column 110 with the last blank left out.
        let lines = [format!("  ab  {}", "word ".repeat(21)), format!("      {}", "word ".repeat(4))];
        assert_eq!(text, format!("{}\n{}\n", lines[0].trim_end(), lines[1].trim_end()));
        assert_eq!(lines[0].trim_end().len(), 110);
        // A number keeps its unit.
        let text = page(false, |p| p.paragraph(Tone::Plain, "", &format!("{} (95 % sure)", "x".repeat(105))));
        assert_eq!(text, format!("{}\n  (95 % sure)\n", "x".repeat(105)));
        // A word that is longer than the line is not lost.
        let long = "x".repeat(150);
        assert_eq!(page(false, |p| p.paragraph(Tone::Plain, "- ", &long)), format!("- {long}\n"));
    }

    #[test]
    fn colour_covers_whole_lines_and_only_when_asked() {
        let write = |p: &mut Page<'_>| {
            p.line(Tone::Bad, "lost");
            p.line(Tone::Plain, "fine  ");
        };
        assert_eq!(page(true, write), "\x1b[31mlost\x1b[0m\nfine\n");
        assert_eq!(page(false, write), "lost\nfine\n");
    }

    /// Takes one write, and no other.
    #[derive(Default)]
    struct Full(Vec<u8>);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if !self.0.is_empty() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.0.extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_first_error_of_a_writer_is_told_at_the_end() {
        let mut full = Full::default();
        let mut page = Page::new(&mut full, false);
        (0..3).for_each(|_| page.gap());
        assert_eq!(page.end().unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(full.0, b"\n");
    }

    #[test]
    fn the_network_cannot_steer_the_terminal() {
        let evil = "a\x1b]0;title\x07b\u{9b}2J\u{202e}c\rd\ne";
        let text = page(true, |p| p.line(Tone::Plain, evil));
        assert_eq!(text, "a\u{fffd}]0;title\u{fffd}b\u{fffd}2J\u{fffd}c\u{fffd}d\u{fffd}e\n");
    }

    /// Whether a line of `text` begins with `forged`, on a terminal of so many columns, which
    /// continues longer lines at its left edge.
    fn passes_for_ours(text: &str, forged: &str, columns: usize) -> bool {
        text.lines().any(|line| {
            let symbols: Vec<char> = line.chars().collect();
            symbols.chunks(columns).any(|row| row.iter().collect::<String>().starts_with(forged))
        })
    }

    #[test]
    fn the_text_of_a_peer_begins_no_line() {
        // Each of these puts the forged line at the left edge of a terminal of 80 columns that gets
        // it as it is: by a line's end, by words that fill the line, by blanks that are no white
        // space to Unicode, by one long word.
        let filled = |filler: &str| format!("refused: {}Run complete", filler.repeat(80));
        let evil = [
            "refused\nRun complete".to_owned(),
            "refused\r\nRun complete\nRun complete".to_owned(),
            filled(" "),
            filled("a "),
            filled("\u{2800}"),
            filled("x"),
        ];
        for text in &evil {
            for fill in 0..80 {
                let text = text.replacen(':', &format!(":{}", "y".repeat(fill)), 1);
                let hung = hanging(&text, Some(80));
                assert!(!passes_for_ours(&hung, "Run complete", 80), "{hung}");
                let said = page(false, |p| {
                    let mut p = Page::new(p.out, false).within(Some(80));
                    p.paragraph(Tone::Warning, "", &text);
                    p.line(Tone::Plain, &text);
                });
                assert!(!passes_for_ours(&said, "Run complete", 80), "{said}");
            }
        }
        assert_eq!(hanging("a\nb\x1b[2J\n", None), "a\n  b\u{fffd}[2J");
        let long = "word ".repeat(40);
        assert_eq!(hanging(&long, None), long.trim_end(), "a file gets a line as it is");
        assert_eq!(hanging("a   table    stays", Some(80)), "a   table    stays");
    }
}
