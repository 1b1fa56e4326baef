//! The screen: a title, the progress of the run, a page, the keys. Parts that do not fit are left
//! out, the least important first.

use super::figures::FigureRole;
use super::grid::{Area, BRAILLE, CellStyle, Color, Grid, wide};
use super::pages;
use super::stages;
use super::track::{self, PhaseProgress};
use super::view::{Known, Look, Page, View};
use metrics::Clamped;
use model::Level;
use report::clean;
use report::words;

/// With fewer lines, only the title and the most important figures are shown.
const LEAST: u16 = 6;

/// A part of the screen to draw on. Nothing is ever drawn outside of it.
pub(super) struct Sheet<'a> {
    grid: &'a mut Grid,
    pub(super) area: Area,
    pub(super) look: Look,
}

impl Sheet<'_> {
    /// Writes `text` from column `x` of line `y`, at most `width` columns.
    pub(super) fn text(&mut self, x: u16, y: u16, width: u16, text: &str, style: CellStyle) {
        if x >= self.area.width || y >= self.area.height {
            return;
        }
        let width = width.min(self.area.width - x);
        let (x, y) = (self.area.x + x, self.area.y + y);
        self.grid.set_string(x, y, width, &clean(text), style);
    }

    /// Writes `text` so that it ends before column `x + width`; the end of a longer text is cut
    /// off.
    pub(super) fn right(&mut self, x: u16, y: u16, width: u16, text: &str, style: CellStyle) {
        let width = width.min(self.area.width.saturating_sub(x));
        let indent = width.saturating_sub(wide(text));
        self.text(x + indent, y, width - indent, text, style);
    }

    /// A line across the whole width.
    pub(super) fn line(&mut self, y: u16, text: &str, style: CellStyle) {
        self.text(0, y, self.area.width, text, style);
    }

    /// Adds a dot of a braille character (the bit of its code point) to column `x` of line `y`; a
    /// star where there are none.
    pub(super) fn dot(&mut self, x: u16, y: u16, bit: u32, style: CellStyle) {
        if x >= self.area.width || y >= self.area.height {
            return;
        }
        let (x, y) = (self.area.x + x, self.area.y + y);
        let known = self.grid.cell(x, y).and_then(|cell| cell.symbol).map_or(0, u32::from);
        let dots = known.checked_sub(BRAILLE).filter(|dots| *dots < 0x100).unwrap_or(0);
        let symbol = char::from_u32(BRAILLE + (dots | bit)).filter(|_| self.look.blocks);
        self.grid.put(x, y, symbol.unwrap_or('*'), style);
    }

    /// The lines from `y` on, without the last `less`.
    pub(super) fn below(&mut self, y: u16, less: u16) -> Sheet<'_> {
        let y = y.min(self.area.height);
        let height = self.area.height.saturating_sub(y).saturating_sub(less);
        let area = Area { y: self.area.y + y, height, ..self.area };
        Sheet { grid: self.grid, area, look: self.look }
    }

    /// `width` columns from `x` on.
    pub(super) fn columns(&mut self, x: u16, width: u16) -> Sheet<'_> {
        let x = x.min(self.area.width);
        let area = Area { x: self.area.x + x, width: width.min(self.area.width - x), ..self.area };
        Sheet { grid: self.grid, area, look: self.look }
    }

    pub(super) fn heading(&self) -> CellStyle {
        CellStyle::default().bold()
    }

    pub(super) fn quiet(&self) -> CellStyle {
        CellStyle { dim: true, ..CellStyle::default() }
    }

    /// In a colour, where there are colours.
    fn colored(&self, color: Color) -> CellStyle {
        CellStyle { color: if self.look.color { color } else { Color::Default }, ..CellStyle::default() }
    }

    /// For a caveat or a warning.
    pub(super) fn warning(&self) -> CellStyle {
        self.colored(Color::Yellow)
    }

    /// For what failed. Without colours it is bold.
    pub(super) fn bad(&self) -> CellStyle {
        if self.look.color { self.colored(Color::Red) } else { self.heading() }
    }

    pub(super) fn of_level(&self, level: Level) -> CellStyle {
        match level {
            Level::Info => CellStyle::default(),
            Level::Warning => self.warning(),
            Level::Error => self.bad(),
        }
    }

    /// Of the line of a figure.
    pub(super) fn of_role(&self, role: FigureRole) -> CellStyle {
        self.colored(match role {
            FigureRole::Main => Color::Green,
            FigureRole::Latency => Color::Cyan,
            FigureRole::Beside => Color::Blue,
            FigureRole::Bad => Color::Red,
        })
    }
}

pub(super) fn all(view: &View, known: &Known, grid: &mut Grid, now_ns: u64) {
    grid.clear();
    let area = grid.area();
    let mut sheet = Sheet { grid, area, look: view.look };
    // Of those beside each other the longest.
    let longest = known.tracks.values().max_by_key(|track| track.point.phase.ends_after());
    let progress = longest.map(|track| PhaseProgress::of(track, now_ns));
    if area.height < LEAST {
        return small(view, known, &mut sheet, progress.as_ref());
    }
    title(view, known, &mut sheet);
    gauge(known, &mut sheet, progress.as_ref(), now_ns);
    let roomy = u16::from(area.height >= 16);
    footer(view, &mut sheet, area.height - 1);
    let mut page = sheet.below(2 + roomy, 1 + roomy);
    match view.page {
        Page::Overview if !known.stages.is_empty() => stages::overview(known, &mut page),
        Page::Overview => pages::overview(known, &mut page),
        Page::Connections => pages::connections(view, known, &mut page),
        Page::Latency => pages::latency(known, &mut page),
        Page::Caveats => pages::caveats(view, known, &mut page),
        Page::Points => pages::points(view, known, &mut page),
        Page::Help => pages::help(view, &mut page),
    }
}

/// Five lines at most: the figures themselves, and the progress of the run.
fn small(view: &View, known: &Known, sheet: &mut Sheet<'_>, progress: Option<&PhaseProgress>) {
    let height = sheet.area.height;
    let shown = pages::figures(known, &mut sheet.below(0, u16::from(height > 1)), 0);
    let text = progress.map_or_else(|| state(view).to_owned(), |progress| progress.text.clone());
    if height > 1 {
        sheet.line(height - 1, &text, sheet.quiet());
    } else if shown == 0 {
        sheet.line(0, &text, sheet.quiet());
    }
}

/// The state of the run, in a word.
fn state(view: &View) -> &'static str {
    match (view.ending, view.paused()) {
        (true, _) => "ending: one moment (Ctrl-C: at once)",
        (_, true) => "DISPLAY PAUSED (p goes on); the run is not",
        _ => "running",
    }
}

fn title(view: &View, known: &Known, sheet: &mut Sheet<'_>) {
    let width = sheet.area.width;
    let begin = &known.begin;
    let mut text = format!("netcaliper {}", begin.verb);
    if !begin.targets.is_empty() {
        text.extend([" ", &begin.targets.join(" ")]);
    }
    let setting = known.tracks.values().next().map(|track| {
        let mut label = track.point.label.clone();
        if known.tracks.len() > 1 || label.contains_key("stage") {
            // The part's name is already the heading of its column, or of no use beside its stage.
            label.remove("part");
        }
        words::setting(&label, track.point.repeat)
    });
    if let Some(setting) = setting.filter(|setting| !setting.is_empty()) {
        text.extend(["   ", &setting]);
    }
    let state = state(view);
    let style = if view.ending || view.paused() { sheet.warning().bold() } else { sheet.quiet() };
    let room = width.saturating_sub(wide(state) + 2);
    if room >= 20 {
        sheet.text(0, 0, room, &text, sheet.heading());
        sheet.right(room, 0, width - room, state, style);
    } else if view.ending || view.paused() {
        sheet.line(0, state, style);
    } else {
        sheet.line(0, &text, sheet.heading());
    }
}

/// The progress of the run, as a bar and in words.
fn gauge(known: &Known, sheet: &mut Sheet<'_>, progress: Option<&PhaseProgress>, now_ns: u64) {
    let Some(progress) = progress else {
        return sheet.line(1, "waiting for the first server", sheet.quiet());
    };
    let mut words = progress.text.clone();
    let is_load = known.tracks.values().any(|track| track.point.label.contains_key("stage"));
    let what = if is_load { "stage" } else { "run" };
    match known.planned.phases {
        Some(all) if all > 1 => words.push_str(&format!("   {what} {} of {all}", known.begun)),
        None if known.begun > 1 => words.push_str(&format!("   run {}", known.begun)),
        _ => {}
    }
    if let Some(all) = known.planned.total_ns.filter(|_| known.planned.phases.is_some_and(|n| n > 1)) {
        let left = known.with_overhead(all).saturating_sub(now_ns.saturating_sub(known.since_ns));
        words.push_str(&format!("   {} left", track::clock(left)));
    }
    let width = sheet.area.width;
    let bar = width.saturating_sub(wide(&words) + 2).min((width / 2).max(40));
    let Some(share) = progress.share.filter(|_| bar >= 8) else {
        return sheet.line(1, &words, CellStyle::default());
    };
    let (full, empty) = if sheet.look.blocks { ("█", "░") } else { ("#", ".") };
    let done = u16::clamped((share * f64::from(bar)).round());
    sheet.text(0, 1, done, &full.repeat(usize::from(done)), sheet.of_role(FigureRole::Main));
    sheet.text(done, 1, bar - done, &empty.repeat(usize::from(bar - done)), sheet.quiet());
    sheet.text(bar + 2, 1, width, &words, CellStyle::default());
}

fn footer(view: &View, sheet: &mut Sheet<'_>, y: u16) {
    let keys = [
        ("q", "end the run"),
        ("?", "keys"),
        ("p", if view.paused() { "go on" } else { "pause" }),
        ("o", "overview"),
        ("c", "connections"),
        ("l", "latency"),
        ("v", "caveats"),
        ("t", "table of runs"),
    ];
    let mut x = 0;
    for (key, what) in keys {
        if x + wide(key) + wide(what) + 1 > sheet.area.width {
            break;
        }
        sheet.text(x, y, wide(key), key, sheet.heading());
        sheet.text(x + wide(key) + 1, y, wide(what), what, sheet.quiet());
        x += wide(key) + wide(what) + 3;
    }
}
