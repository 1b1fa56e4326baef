//! The pages: what stands between the title and the keys.

use super::draw::Sheet;
use super::figures::{self, Figure, FigureRole, Sum, show};
use super::grid::{CellStyle, wide};
use super::plot::{self, Plot};
use super::track::{ConnectionRow, SortBy, Track, clock};
use super::view::{Known, View};
use metrics::{Clamped, Packets, SECOND, format_bits_per_second, format_bytes, format_duration};
use model::{Caveat, CaveatLevel, Interval, Kind, Level, PingCounts, Unit, Way};
use report::words;
use report::{broken, or_dash};

/// Columns of a figure's name, and of a value.
const NAME: u16 = 16;
const VALUE: u16 = 12;
/// Columns from which on connections stand beside the figures.
const WIDE: u16 = 140;

/// Figures of each of several measurements, and the least lines of a high screen, which has more.
const FEW: [usize; 2] = [2, 4];
const HIGH: u16 = 28;

/// The figures that are listed of a measurement.
fn listed(known: &Known, track: &Track, height: u16) -> Vec<Figure> {
    let mut all = figures::of(&track.point.phase, known.serving());
    if known.tracks.len() > 1 {
        // At which rate the datagrams beside a load are sent is known; how many of them are lost is
        // not.
        all.sort_by_key(|figure| track.point.phase.kind == Kind::Delay && figure.role != FigureRole::Bad);
        all.truncate(FEW[usize::from(height >= HIGH)]);
    }
    all
}

/// The figures of all running measurements from line `y` on, most important first, with a heading
/// each where there are several measurements. Returns the number of lines.
pub(super) fn figures(known: &Known, sheet: &mut Sheet<'_>, mut y: u16) -> u16 {
    let from = y;
    for track in known.tracks.values() {
        if known.tracks.len() > 1 {
            sheet.line(y, &heading(track), sheet.heading());
            y += 1;
        }
        for of in listed(known, track, sheet.area.height) {
            if y >= sheet.area.height {
                return y - from;
            }
            figure(track, of, sheet, y);
            y += 1;
        }
    }
    y - from
}

/// Which of several measurements it is.
fn heading(track: &Track) -> String {
    match track.point.label.get("part") {
        Some(part) => part.clone(),
        None => track.setting(),
    }
}

/// The columns of a figure: the width of its name, and the number of values.
fn columns(width: u16) -> (u16, u16) {
    let values = match width {
        0..40 => 1,
        40..64 => 2,
        _ => 3,
    };
    (NAME.min(width.saturating_sub(VALUE)), values)
}

fn titles(sheet: &mut Sheet<'_>, y: u16) {
    let (name, values) = columns(sheet.area.width);
    for (n, title) in ["now", "mean", "largest"].into_iter().take(usize::from(values)).enumerate() {
        sheet.right(name + u16::clamped(n) * VALUE, y, VALUE, title, sheet.quiet());
    }
}

/// A length of time: whole seconds as such.
pub(super) fn time(ns: u64) -> String {
    if (SECOND..100 * SECOND).contains(&ns) {
        let seconds = format!("{:.2}", metrics::seconds(ns));
        format!("{} s", seconds.trim_end_matches('0').trim_end_matches('.'))
    } else if ns >= SECOND {
        clock(ns)
    } else if ns == 0 {
        "0 s".to_owned()
    } else {
        format_duration(ns)
    }
}

fn figure(track: &Track, figure: Figure, sheet: &mut Sheet<'_>, y: u16) {
    let (name, values) = columns(sheet.area.width);
    let now = track.readings.back().and_then(|last| figure.of(last));
    let most = track.values(figure).reduce(f64::max);
    let shown = match figure.sum {
        Sum::Mean => [now, track.mean(figure), most],
        Sum::Largest => [now, None, most],
        Sum::Nothing => [now, None, None],
    };
    let empty = |n: usize| matches!((n, figure.sum), (1, Sum::Largest) | (1 | 2, Sum::Nothing));
    let alarm = figure.role == FigureRole::Bad && now.is_some_and(|now| now > 0.0);
    sheet.text(0, y, name, &figure.name(), if alarm { sheet.bad() } else { CellStyle::default() });
    for (n, value) in shown.into_iter().take(usize::from(values)).enumerate() {
        let text = value.map_or(if empty(n) { "" } else { "-" }.to_owned(), |value| show(figure.unit, value));
        let style = match (n, figure.role) {
            // Red while it happens.
            (0, FigureRole::Bad) if alarm => sheet.bad(),
            (0, FigureRole::Main | FigureRole::Latency) => sheet.heading(),
            _ => CellStyle::default(),
        };
        sheet.right(name + u16::clamped(n) * VALUE, y, VALUE, &text, style);
    }
}

/// Main figures, their lines over time, the connections with the highest rates, and the newest
/// caveats and notices, within the height.
pub(super) fn overview(known: &Known, sheet: &mut Sheet<'_>) {
    let height = sheet.area.height;
    if known.tracks.is_empty() {
        return newest(known, sheet, 0);
    }
    let lines = |track| listed(known, track, height).len() + usize::from(known.tracks.len() > 1);
    let need = u16::clamped(known.tracks.values().map(lines).sum::<usize>());
    let titled = u16::from(height > need);
    if titled > 0 {
        titles(sheet, 0);
    }
    let mut left = height.saturating_sub(need).saturating_sub(titled);
    let counts = take(&mut left, 2);
    let plots = of_all(known, |plot| plot.has_news());
    let standing = known.caveats.iter().filter(|arisen| arisen.still).count() + known.notices.len().min(2);
    let room = if left > 16 { 6 } else { 2 };
    let standing = u16::clamped(standing).min(room);
    // Plots of a useful height have precedence over caveats, which have a page of their own.
    let kept = if plots.is_empty() { 0 } else { (plot::LEAST + 1).min(left) };
    left -= kept;
    let caveats = take(&mut left, standing);
    let gap = take(&mut left, u16::from(caveats > 0));
    left += kept;
    let rows_of = known.tracks.values().max_by_key(|track| track.connections.rows.len());
    let rows_of = rows_of.filter(|track| !track.connections.rows.is_empty());
    // A gap, the titles, and rows; two thirds of the lines are left for the plots.
    let table =
        rows_of.map_or(0, |track| u16::clamped(track.connections.rows.len()) + 2).min(left / 3).min(18);
    // A wide terminal has them beside the figures.
    let is_wide = sheet.area.width >= WIDE;
    let table = if table >= 4 && !is_wide { take(&mut left, table) } else { 0 };
    let mut y = titled + figures(known, sheet, titled);
    if let Some(track) = rows_of.filter(|_| is_wide) {
        let rows = track.connections.sorted(SortBy::Rate, false);
        // Lines that no plot takes show more connections.
        let spare = left.saturating_sub(layout(&plots, sheet, left).taken());
        let more = (u16::clamped(rows.len()) + 1).saturating_sub(y).min(spare);
        left -= more;
        y += more;
        let mut right = sheet.columns(NAME + 4 * VALUE, u16::MAX);
        let mut part = right.below(0, height.saturating_sub(y));
        table_of(&rows, ways(known), SortBy::Rate, false, &mut part, 0);
    }
    let drawn = draw(&plots, sheet, y, left);
    y += drawn;
    // Lines that no plot takes show more connections.
    let wanted = rows_of.map_or(0, |track| u16::clamped(track.connections.rows.len()) + 2);
    let table = if table > 0 { wanted.min(table + left.saturating_sub(drawn)) } else { 0 };
    count_lines(known, &mut sheet.below(y, height.saturating_sub(y + counts)));
    y += counts;
    if let Some(track) = rows_of.filter(|_| table > 0) {
        let rows = track.connections.sorted(SortBy::Rate, false);
        let mut part = sheet.below(y + 1, height.saturating_sub(y + table));
        table_of(&rows, ways(known), SortBy::Rate, false, &mut part, 0);
        y += table;
    }
    y = y.max(height.saturating_sub(caveats + gap)) + gap;
    newest(known, sheet, y);
}

/// The plots of all that runs: the first of each measurement, then the second of each.
fn of_all<'a>(known: &'a Known, wanted: impl Fn(&Plot<'_>) -> bool) -> Vec<Plot<'a>> {
    // The rate of the datagrams beside a load is known.
    let told = |track: &Track| known.tracks.len() == 1 || track.point.phase.kind != Kind::Delay;
    let all = known.tracks.values().map(|track| {
        let plots = plot::of(track, known.serving()).into_iter();
        plots.filter(|plot| wanted(plot) && (told(track) || plot.role() != FigureRole::Main))
    });
    let mut ranked: Vec<(usize, Plot<'a>)> = all.flat_map(Iterator::enumerate).collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, plot)| plot).collect()
}

/// Draws as many as are easy to read in `room` lines from `y` on, two beside each other where one
/// only would be; how many lines were taken.
pub(super) fn draw(plots: &[Plot<'_>], sheet: &mut Sheet<'_>, y: u16, room: u16) -> u16 {
    let Layout { n, each, beside } = layout(plots, sheet, room);
    if let ([left, right, ..], true) = (plots, beside) {
        let half = sheet.area.width / 2;
        left.draw(&mut sheet.columns(0, half - 1), y, room);
        right.draw(&mut sheet.columns(half + 1, half), y, room);
        return room;
    }
    for (n, plot) in (0..n).zip(plots) {
        plot.draw(sheet, y + n * each, each);
    }
    n * each
}

/// Places of plots.
struct Layout {
    /// Number of plots below each other.
    n: u16,
    /// Lines of each.
    each: u16,
    /// Two beside each other instead.
    beside: bool,
}

impl Layout {
    fn taken(&self) -> u16 {
        self.n * self.each
    }
}

/// The layout of plots in `room` lines.
fn layout(plots: &[Plot<'_>], sheet: &Sheet<'_>, room: u16) -> Layout {
    if room < plot::LEAST || plots.is_empty() {
        return Layout { n: 0, each: 0, beside: false };
    }
    if plots.len() > 1 && room < 2 * plot::GOOD && sheet.area.width >= plot::TWO {
        return Layout { n: 1, each: room, beside: true };
    }
    let n = (room / plot::GOOD).clamp(1, u16::clamped(plots.len()));
    // All of one height, with lines of dots in an odd number: the half of the scale has a line of
    // its own.
    let each = (room / n).min(3 * plot::GOOD);
    let each = if each.is_multiple_of(2) && each > plot::LEAST { each - 1 } else { each };
    Layout { n, each, beside: false }
}

/// The part of `want` that is `left`.
fn take(left: &mut u16, want: u16) -> u16 {
    let got = want.min(*left);
    *left -= got;
    got
}

/// Connections and their endings; then traffic, and the CPUs.
pub(super) fn count_lines(known: &Known, sheet: &mut Sheet<'_>) {
    let (mut open, mut done, mut network, mut data) = (0, 0, 0, 0);
    let mut all = Interval::default();
    for track in known.tracks.values() {
        all.join(&track.sums);
        if let Some(last) = track.last() {
            (open, done) = (open + last.in_flight, done + last.completed);
            (network, data) = (network + last.network_errors, data + last.data_errors);
        }
    }
    let mut first = format!("open {open}   completed {done}   errors: network {network}, data {data}");
    let PingCounts { received, lost, late, damaged, missed, .. } = all.pings.unwrap_or_default().counts;
    if received > 0 {
        first.push_str(&format!(
            "   messages {received}: lost {lost}, late {late}, damaged {damaged}, not sent {missed}"
        ));
    }
    for way in Way::ALL {
        let Some(Packets { received, lost, .. }) = way.receiver().packets(&all).map(|all| all.counts) else {
            continue;
        };
        if received > 0 {
            let sent = received.saturating_add_signed(lost);
            first.push_str(&format!("   lost {} {lost} of {sent}", way.key()));
        }
    }
    sheet.line(0, &first, if network + data > 0 { sheet.bad() } else { CellStyle::default() });
    let (sent, received) = (format_bytes(all.local.tx_bytes), format_bytes(all.local.rx_bytes));
    let mut second = format!("sent {sent}, received {received}   retransmits {}", all.retransmits);
    if let Some((_, now)) = &known.cpu
        && let Some(machine) = now.share(now.machine_s)
    {
        let percent = |share: f64| (share * 100.0).clamp(0.0, 100.0);
        second.push_str(&format!("   CPU {:.0} %, busiest {:.0} %", percent(machine), percent(now.busiest)));
    }
    if known.missed > 0 {
        second.push_str(&format!("   {} intervals not shown", known.missed));
    }
    sheet.line(1, &second, CellStyle::default());
}

/// The gravest caveats and the newest notices, one line each, from line `y` to the end.
pub(super) fn newest(known: &Known, sheet: &mut Sheet<'_>, y: u16) {
    let room = usize::from(sheet.area.height.saturating_sub(y));
    let told = |wanted: fn(&Level) -> bool| {
        let newest = known.notices.iter().rev().filter(move |(_, level, _)| wanted(level));
        newest.map(|(_, level, text)| (*level, format!("{}{text}", words::level(*level))))
    };
    // Measurements beside each other often have the same caveat.
    let mut caveats: Vec<(&Caveat, usize)> = Vec::new();
    for caveat in known.caveats.iter().rev().filter(|arisen| arisen.still).map(|arisen| &arisen.caveat) {
        match caveats.iter_mut().find(|(other, _)| other.code == caveat.code) {
            Some((_, parts)) => *parts += 1,
            None => caveats.push((caveat, 1)),
        }
    }
    caveats.sort_by_key(|(caveat, _)| caveat.level);
    let caveats = caveats.into_iter().map(|(caveat, parts)| {
        let level = if caveat.level == CaveatLevel::Note { Level::Info } else { Level::Warning };
        let of = if parts > 1 { format!(" (in {parts} parts)") } else { String::new() };
        (level, format!("{}: {}{of}: {}", caveat.level.name(), caveat.code, caveat.short()))
    });
    // Errors and warnings take at most half of the lines, so that caveats have room.
    let failed = told(|level| *level != Level::Info).take(room.div_ceil(2));
    let all = failed.chain(caveats).chain(told(|level| *level == Level::Info));
    for (n, (level, text)) in all.take(room).enumerate() {
        let style = sheet.of_level(level);
        sheet.line(y + u16::clamped(n), &text, style);
        if wide(&text) > sheet.area.width && sheet.area.width > 8 {
            let more = if sheet.look.blocks { "…" } else { "~" };
            sheet.text(sheet.area.width - 1, y + u16::clamped(n), 1, more, style);
        }
    }
}

/// A table of connections from its row `scroll` on.
fn table_of(
    rows: &[&ConnectionRow],
    (up, down): (bool, bool),
    by: SortBy,
    turned: bool,
    sheet: &mut Sheet<'_>,
    scroll: u16,
) {
    type Cell = fn(&ConnectionRow) -> String;
    // The rate by which rows are sorted is that of both directions.
    let received = (!up).then_some(SortBy::Rate);
    let shown: [(&str, u16, Option<SortBy>, Cell); 8] = [
        ("conn", 6, Some(SortBy::Slot), |r| r.now.slot.to_string()),
        ("sending", 13, Some(SortBy::Rate), |r| format_bits_per_second(r.tx_bps)),
        ("receiving", 13, received, |r| format_bits_per_second(r.rx_bps)),
        ("RTT", 10, Some(SortBy::Rtt), |r| smoothed(r.now.info.rtt_us)),
        ("cwnd", 7, None, |r| r.now.info.cwnd.to_string()),
        ("retrans", 9, Some(SortBy::Retransmits), |r| r.now.info.retransmits.to_string()),
        ("+retr", 7, None, |r| r.again.to_string()),
        ("moved", 11, Some(SortBy::Bytes), |r| format_bytes(r.now.tx_bytes.saturating_add(r.now.rx_bytes))),
    ];
    let mut x = 0;
    for (title, width, column, cell) in shown {
        if title == "sending" && !up || title == "receiving" && !down {
            continue;
        }
        if x + width > sheet.area.width {
            break;
        }
        let sorted = column == Some(by);
        let mark = match (sheet.look.blocks, turned) {
            (true, false) => "▼",
            (true, true) => "▲",
            (false, false) => "v",
            (false, true) => "^",
        };
        let words = if sorted { format!("{mark} {title}") } else { title.to_owned() };
        sheet.right(x, 0, width, &words, if sorted { sheet.heading() } else { sheet.quiet() });
        let below =
            rows.iter().skip(usize::from(scroll)).take(usize::from(sheet.area.height.saturating_sub(1)));
        for (n, row) in below.enumerate() {
            let style = if title == "+retr" && row.again > 0 { sheet.bad() } else { CellStyle::default() };
            sheet.right(x, u16::clamped(n) + 1, width, &cell(row), style);
        }
        x += width;
    }
}

/// The directions in which payload goes.
fn ways(known: &Known) -> (bool, bool) {
    let any = |of: fn(&Track) -> bool| known.serving() || known.tracks.values().any(of);
    (any(|track| track.point.phase.pattern.sends_up()), any(|track| track.point.phase.pattern.sends_down()))
}

fn smoothed(us: u32) -> String {
    or_dash((us > 0).then(|| f64::from(us) * 1e3), format_duration)
}

/// Keeps a page's first line where something is left to see: of `all` lines `room` fit.
fn scrolled(view: &View, all: usize, room: u16) -> u16 {
    let most = all.saturating_sub(usize::from(room));
    view.scroll.set(view.scroll.get().min(u16::clamped(most)));
    view.scroll.get()
}

pub(super) fn connections(view: &View, known: &Known, sheet: &mut Sheet<'_>) {
    let rows: Vec<&ConnectionRow> =
        known.tracks.values().flat_map(|track| track.connections.sorted(view.sort, view.turned)).collect();
    if rows.is_empty() {
        let why = "No connection is sampled: none is open, or they are no TCP connections.";
        return sheet.line(0, why, CellStyle::default());
    }
    let scroll = scrolled(view, rows.len(), sheet.area.height.saturating_sub(2));
    let open: u64 = known.tracks.values().filter_map(Track::last).map(|last| last.in_flight).sum();
    let text = format!(
        "{} of {open} open connections   s sorts by the next column, r turns the order round",
        rows.len()
    );
    sheet.line(0, &text, sheet.quiet());
    table_of(&rows, ways(known), view.sort, view.turned, &mut sheet.below(1, 0), scroll);
}

/// Times, and their lines as high as there is room.
pub(super) fn latency(known: &Known, sheet: &mut Sheet<'_>) {
    let times = known.tracks.values().flat_map(|track| {
        let all = figures::of(&track.point.phase, known.serving()).into_iter();
        all.filter(|figure| figure.unit == Unit::Ns).map(move |figure| (track, figure))
    });
    let times: Vec<(&Track, Figure)> = times.collect();
    if times.is_empty() {
        return sheet.line(0, "No times are measured in this run.", CellStyle::default());
    }
    let sessions = known.tracks.values().flat_map(|track| &track.point.sessions);
    let least = sessions.filter(|session| session.base_rtt_ns > 0).min_by_key(|session| session.base_rtt_ns);
    let idle = least.and_then(words::idle_round_trip).unwrap_or_default();
    titles(sheet, 0);
    let last = sheet.area.height.saturating_sub(1);
    let mut y = 1;
    for (track, of) in times.into_iter().take(usize::from(last.saturating_sub(1))) {
        figure(track, of, sheet, y);
        y += 1;
    }
    let plots = of_all(known, |plot| plot.unit() == Unit::Ns);
    draw(&plots, sheet, y, last.saturating_sub(y));
    sheet.line(last, &idle, sheet.quiet());
}

/// Caveats with their advice, then notices.
pub(super) fn caveats(view: &View, known: &Known, sheet: &mut Sheet<'_>) {
    let width = usize::from(sheet.area.width);
    let mut lines: Vec<(CellStyle, String)> = Vec::new();
    for arisen in &known.caveats {
        let style = if arisen.still { sheet.warning() } else { sheet.quiet() };
        let over = if arisen.still { "" } else { ", no longer" };
        let of = if arisen.setting.is_empty() { String::new() } else { format!(", {}", arisen.setting) };
        let level = arisen.caveat.level.name();
        let head = format!("{} {level}: {}{of}{over}", clock(arisen.at_ns), arisen.caveat.code);
        lines.push((style, head));
        let caveat = [(CellStyle::default(), &arisen.caveat.text), (sheet.quiet(), &arisen.caveat.advice)];
        for (style, text) in caveat {
            lines.extend(broken("  ", text, width).into_iter().map(|line| (style, line)));
        }
    }
    if known.caveats.is_empty() {
        lines.push((CellStyle::default(), "No caveats so far.".to_owned()));
    }
    if !known.notices.is_empty() {
        lines.push((CellStyle::default(), String::new()));
    }
    for (at_ns, level, text) in known.notices.iter().rev() {
        let text = format!("{} {}{text}", clock(*at_ns), words::level(*level));
        lines.extend(broken("", &text, width).into_iter().map(|line| (sheet.of_level(*level), line)));
    }
    scroll_lines(view, sheet, &lines);
}

fn scroll_lines(view: &View, sheet: &mut Sheet<'_>, lines: &[(CellStyle, String)]) {
    let room = sheet.area.height;
    let scroll = scrolled(view, lines.len(), room);
    for (n, (style, text)) in lines.iter().skip(usize::from(scroll)).take(usize::from(room)).enumerate() {
        sheet.line(u16::clamped(n), text, *style);
    }
}

pub(super) fn points(view: &View, known: &Known, sheet: &mut Sheet<'_>) {
    if known.done.is_empty() {
        return sheet.line(
            0,
            "No measurement is over yet: those of a sweep or of repetitions are listed here.",
            CellStyle::default(),
        );
    }
    let mut lines = Vec::new();
    let mut titled: Vec<&str> = Vec::new();
    let fit = usize::from(sheet.area.width.saturating_sub(35) / 15);
    for past in &known.done {
        let names: Vec<&str> = past.figures.iter().map(|(name, _)| name.as_str()).take(fit).collect();
        if names != titled {
            let titles: String = names.iter().map(|name| format!("{name:>15}")).collect();
            lines.push((sheet.quiet(), format!("{:<28}{:>7}{titles}", "", "errors")));
            titled = names;
        }
        let values: String = past.figures.iter().take(fit).map(|(_, value)| format!("{value:>15}")).collect();
        let style = if past.errors > 0 { sheet.bad() } else { CellStyle::default() };
        let setting: String = past.setting.chars().take(27).collect();
        lines.push((style, format!("{setting:<28}{:>7}{values}", past.errors)));
    }
    scroll_lines(view, sheet, &lines);
}

pub(super) fn help(view: &View, sheet: &mut Sheet<'_>) {
    let keys = [
        ("q, Ctrl-C", "end the run in good order, with all its results; Ctrl-C again: at once"),
        ("p, space", "pause the display and let it go on; the run is not paused"),
        ("o, 1, Esc", "overview"),
        ("c, 2", "open connections (s: sort by the next column, r: turn the order round)"),
        ("l, 3", "latency"),
        ("v, 4", "caveats with advice, notices, failures"),
        ("t, 5", "the measurements of a sweep or of repetitions that are over"),
        ("Tab, arrows", "next page, page before, lines up and down (PgUp, PgDn, Home, End)"),
        ("w", "write this screen to netcaliper-live.svg, a picture"),
        ("Ctrl-L", "draw the screen again"),
        ("Ctrl-Z", "stop the program, the measurement included, until `fg`"),
        ("?", "this page, and back"),
    ];
    let width = usize::from(sheet.area.width);
    let lines = keys.into_iter().flat_map(|(key, what)| broken(&format!("{key:<14}"), what, width));
    let lines: Vec<(CellStyle, String)> = lines.map(|line| (CellStyle::default(), line)).collect();
    scroll_lines(view, sheet, &lines);
}
