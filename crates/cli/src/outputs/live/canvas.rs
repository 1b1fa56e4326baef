//! Writes grids of cells to a terminal: the changes since the last one, as control sequences of
//! ECMA-48 and xterm.

use screen::{CellStyle, Color, Grid};
use std::io::{self, Write};

/// Takes the other screen, and hides the cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l";
/// No colour, no attributes.
const PLAIN: &[u8] = b"\x1b[0m";
const CLEAR: &[u8] = b"\x1b[2J";

/// A terminal, and its contents.
pub(super) struct Canvas<W> {
    out: W,
    /// The last grid drawn.
    pub(super) shown: Grid,
    /// True if the terminal still shows that.
    known: bool,
}

impl<W: Write> Canvas<W> {
    pub(super) fn new(out: W) -> Canvas<W> {
        Canvas { out, shown: Grid::default(), known: false }
    }

    /// The terminal may show something else by now: the next grid is drawn whole.
    pub(super) fn forget(&mut self) {
        self.known = false;
    }

    /// True if the contents of a terminal of this size are known.
    pub(super) fn is_current(&self, size: (u16, u16)) -> bool {
        self.known && self.shown.size() == size
    }

    pub(super) fn enter(&mut self) -> io::Result<()> {
        self.forget();
        self.out.write_all(ENTER)?;
        self.out.flush()
    }

    /// Has the terminal show `next`.
    pub(super) fn draw(&mut self, next: Grid) -> io::Result<()> {
        let (width, height) = next.size();
        if !self.is_current((width, height)) {
            self.out.write_all(PLAIN)?;
            self.out.write_all(CLEAR)?;
            self.shown = Grid::new(width, height);
            self.known = true;
        }
        let (mut style, mut cursor) = (CellStyle::default(), None);
        for (x, y) in (0..height).flat_map(|y| (0..width).map(move |x| (x, y))) {
            let (before, now) = (self.shown.cell(x, y), next.cell(x, y));
            // The right half of a character of two columns is drawn with the left one, which
            // differs where it does.
            let Some(cell) = now.filter(|cell| now != before && cell.symbol.is_some()) else { continue };
            if cursor != Some((x, y)) {
                write!(self.out, "\x1b[{};{}H", y + 1, x + 1)?;
            }
            if cell.style != style {
                set_style(cell.style, &mut self.out)?;
                style = cell.style;
            }
            cell.chars().try_for_each(|symbol| write!(self.out, "{symbol}"))?;
            // Terminals do not agree on the columns of other characters.
            cursor = cell.is_single().then_some((x + 1, y));
        }
        if style != CellStyle::default() {
            self.out.write_all(PLAIN)?;
        }
        self.shown = next;
        self.out.flush()
    }
}

/// The colours are numbers of the palette, so that bold does not make them others (`38;5`, not
/// `30`).
fn set_style(style: CellStyle, out: &mut impl Write) -> io::Result<()> {
    write!(out, "\x1b[0")?;
    for (is, attribute) in [(style.bold, 1), (style.dim, 2)] {
        if is {
            write!(out, ";{attribute}")?;
        }
    }
    if style.color != Color::Default {
        write!(out, ";38;5;{}", style.color as u8)?;
    }
    write!(out, "m")
}

#[cfg(test)]
mod tests {
    use super::*;
    use console::terminal::LEAVE;

    /// A terminal as far as it concerns the view: written from ECMA-48 (CUP, ED, SGR) and xterm's
    /// handling of wide characters.
    #[derive(Default)]
    struct Terminal {
        size: (usize, usize),
        /// A character with its marks, empty in the right half of one of two columns; and the
        /// parameters of its SGR.
        cells: Vec<Vec<(String, Vec<u32>)>>,
        at: (usize, usize),
        style: Vec<u32>,
        other: bool,
        hidden: bool,
        left: String,
    }

    impl Terminal {
        /// A terminal that shows something already.
        fn new(width: u16, height: u16) -> Terminal {
            let mut terminal = Terminal::default();
            terminal.resize(width, height);
            terminal
        }

        /// What terminals make of their text when their size changes differs: it is replaced by
        /// something else here.
        fn resize(&mut self, width: u16, height: u16) {
            self.size = (width.into(), height.into());
            self.cells = vec![vec![("?".to_owned(), vec![31]); width.into()]; height.into()];
        }

        fn hear(&mut self, bytes: &[u8]) {
            let text = std::mem::take(&mut self.left) + std::str::from_utf8(bytes).unwrap();
            let mut rest = text.as_str();
            while let Some(symbol) = rest.chars().next() {
                if let Some(sequence) = rest.strip_prefix("\x1b[") {
                    let end = sequence.find(|c: char| c.is_ascii_alphabetic()).unwrap();
                    self.control(&sequence[..end], &sequence[end..=end]);
                    rest = &sequence[end + 1..];
                } else {
                    self.write(symbol);
                    rest = &rest[symbol.len_utf8()..];
                }
            }
        }

        fn control(&mut self, parameters: &str, last: &str) {
            let numbers: Vec<u32> = parameters.split(';').filter_map(|n| n.parse().ok()).collect();
            match (last, parameters) {
                ("H", _) => self.at = (numbers[1] as usize - 1, numbers[0] as usize - 1),
                ("J", "2") => {
                    assert!(self.style.is_empty(), "what is cleared would be coloured");
                    self.cells.iter_mut().flatten().for_each(|cell| *cell = (" ".to_owned(), Vec::new()));
                }
                ("m", _) => {
                    assert_eq!(numbers[0], 0, "a style never depends on the one before");
                    self.style = numbers[1..].to_vec();
                }
                ("h" | "l", "?1049") => self.other = last == "h",
                ("h" | "l", "?25") => self.hidden = last == "l",
                _ => panic!("unknown: {parameters}{last}"),
            }
        }

        fn write(&mut self, symbol: char) {
            assert!(!symbol.is_control(), "{symbol:?}");
            let (x, y) = self.at;
            // The few characters of these tests.
            let columns = match symbol {
                '\u{300}'..='\u{36f}' => {
                    let base = (0..x).rev().find(|x| !self.cells[y][*x].0.is_empty()).unwrap();
                    return self.cells[y][base].0.push(symbol);
                }
                '\u{4e00}'..='\u{9fff}' | '\u{1f600}'..='\u{1f64f}' => 2,
                _ => 1,
            };
            assert!(x + columns <= self.size.0 && y < self.size.1, "beyond the edge: {symbol} at {x}, {y}");
            let row = &mut self.cells[y];
            let blank = || (" ".to_owned(), Vec::new());
            if row[x].0.is_empty() {
                row[x - 1] = blank();
            }
            if row.get(x + columns).is_some_and(|cell| cell.0.is_empty()) {
                row[x + columns] = blank();
            }
            row[x] = (symbol.to_string(), self.style.clone());
            if columns == 2 {
                row[x + 1] = (String::new(), self.style.clone());
            }
            self.at.0 += columns;
        }

        #[track_caller]
        fn shows(&self, grid: &Grid) {
            let (width, height) = grid.size();
            for (x, y) in (0..height).flat_map(|y| (0..width).map(move |x| (x, y))) {
                let (text, style) = &self.cells[usize::from(y)][usize::from(x)];
                let cell = grid.cell(x, y).unwrap();
                assert_eq!(*text, cell.chars().collect::<String>(), "at {x}, {y}");
                // The colour of a blank is not seen.
                if text.trim() != "" {
                    let mut want = Vec::new();
                    want.extend(cell.style.bold.then_some(1));
                    want.extend(cell.style.dim.then_some(2));
                    let color = cell.style.color;
                    want.extend(
                        (color != Color::Default).then_some([38, 5, color as u32]).into_iter().flatten(),
                    );
                    assert_eq!(*style, want, "at {x}, {y}");
                }
            }
        }
    }

    /// Numbers that look random, the same each time (Knuth's MMIX generator).
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, n: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % n
        }
    }

    /// Text of narrow and wide characters and of marks, in any style, anywhere in the grid or
    /// beyond it.
    fn scribble(grid: &mut Grid, numbers: &mut Numbers) {
        const TEXTS: [&str; 8] = ["plain text", "字語", "a字b語c", "▁▄█", "e\u{301}e", "😀😀", "⢁⣿", "   "];
        const COLORS: [Color; 4] = [Color::Default, Color::Red, Color::Yellow, Color::Cyan];
        for _ in 0..numbers.below(6) {
            let (width, height) = grid.size();
            let style = CellStyle {
                color: COLORS[numbers.below(4) as usize],
                bold: numbers.below(3) == 0,
                dim: numbers.below(3) == 0,
            };
            let (x, y) = (numbers.below(u64::from(width) + 2), numbers.below(u64::from(height) + 1));
            let (columns, text) = (numbers.below(12), TEXTS[numbers.below(8) as usize]);
            grid.set_string(x as u16, y as u16, columns as u16, text, style);
        }
    }

    #[test]
    fn after_any_frames_the_terminal_shows_the_last() {
        for seed in 0..20 {
            let mut numbers = Numbers(seed);
            let (mut width, mut height) = (20, 5);
            let mut terminal = Terminal::new(width, height);
            let mut canvas = Canvas::new(Vec::new());
            let mut grid = Grid::new(width, height);
            for _ in 0..100 {
                match numbers.below(10) {
                    0 => {
                        (width, height) = (numbers.below(30) as u16, numbers.below(8) as u16);
                        // The program is not told of a size that is the same.
                        if grid.size() != (width, height) {
                            terminal.resize(width, height);
                            grid = Grid::new(width, height);
                        }
                    }
                    1 => grid.clear(),
                    2 => {
                        // Another program has written onto the screen.
                        terminal.resize(width, height);
                        canvas.forget();
                    }
                    _ => {}
                }
                scribble(&mut grid, &mut numbers);
                canvas.draw(grid.clone()).unwrap();
                terminal.hear(&std::mem::take(&mut canvas.out));
                terminal.shows(&grid);
                assert_eq!((&canvas.shown, terminal.style.as_slice()), (&grid, &[][..]));
            }
        }
    }

    #[test]
    fn only_what_has_changed_is_written() {
        let mut canvas = Canvas::new(Vec::new());
        let mut grid = Grid::new(80, 24);
        grid.set_string(0, 0, 80, "goodput 100", CellStyle::default());
        canvas.draw(grid.clone()).unwrap();
        canvas.out.clear();
        canvas.draw(grid.clone()).unwrap();
        assert_eq!(canvas.out, b"");
        grid.set_string(8, 0, 80, "123", CellStyle { color: Color::Green, ..CellStyle::default() }.bold());
        canvas.draw(grid).unwrap();
        assert_eq!(canvas.out, b"\x1b[1;9H\x1b[0;1;38;5;2m123\x1b[0m");
    }

    #[test]
    fn the_screen_is_taken_and_given_back() {
        let mut terminal = Terminal::new(3, 1);
        let mut canvas = Canvas::new(Vec::new());
        canvas.enter().unwrap();
        terminal.hear(&canvas.out);
        assert!(terminal.other && terminal.hidden);
        terminal.hear(LEAVE);
        assert!(!terminal.other && !terminal.hidden);
    }
}
