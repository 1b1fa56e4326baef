//! The live view's terminal: when there is one, the thread that draws on it and hears the keys, and
//! how it is left.
//!
//! Other threads put events into a [`Feed`] behind a lock that is held for as long as it takes to
//! copy an event; the drawing thread takes all of them out at once. Drawing happens outside of that
//! lock, so a terminal that is slow, or stopped by Ctrl-S, blocks no thread but this one. The
//! terminal is restored on every way out: at the end, after an error, after a panic, when a signal
//! ends the program at once (the view leaves no signals to itself: Ctrl-C stays one).

mod canvas;

use crate::args::When;
use canvas::Canvas;
use console::error::{CliError, Context as _, lock};
use console::terminal::{self, Pen, Place, UP};
use console::{file, signals, stderr, stdout};
use metrics::SECOND;
use model::Event;
use runtime::{Called, CpuMeter, Interrupt, Keys};
use screen::{Feed, Grid, Look, Planned, Presses, View, Wish};
use std::collections::VecDeque;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Runs that take as long or longer have a live view by default, ns.
const LONG: u64 = 5 * SECOND;
/// Wait for a key, ms: the longest delay in noticing the end of the run.
const TICK_MS: u16 = 100;
/// Time between two drawings.
const PACE: Duration = Duration::from_millis(200);
/// Interval at which the clock is redrawn without events.
const SECONDS: Duration = Duration::from_millis(1000);
/// Largest view, columns and lines; a larger terminal shows it in its corner.
const LARGEST: (u16, u16) = (500, 200);
/// File for a picture of the screen, in the folder that the program runs in.
const PICTURE: &str = "netcaliper-live.svg";
/// Paragraphs held back until the screen is back.
const HELD: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stdout {
    pub(crate) text: bool,
    /// Something for machines, while the run goes on.
    pub(crate) streams: bool,
    /// Only the summary is wanted.
    pub(crate) quiet: bool,
}

/// Properties of the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Terminal {
    stdout: bool,
    stderr: bool,
    /// Value of TERM.
    kind: String,
}

impl Terminal {
    fn here() -> Terminal {
        Terminal {
            stdout: io::stdout().is_terminal(),
            stderr: io::stderr().is_terminal(),
            kind: std::env::var("TERM").unwrap_or_default(),
        }
    }
}

/// Place of the view; `None` where there is to be none.
///
/// # Errors
/// When it was asked for and cannot be: one sentence.
pub(crate) fn place(when: When, to: Stdout, planned: Planned) -> Result<Option<Place>, CliError> {
    decide(when, to, planned, &Terminal::here()).map_err(CliError::usage)
}

fn decide(when: When, to: Stdout, planned: Planned, terminal: &Terminal) -> Result<Option<Place>, String> {
    let dumb = stderr::is_dumb(&terminal.kind);
    match when {
        When::Never => Ok(None),
        When::Auto => {
            let long = planned.total_ns.is_some_and(|ns| ns >= LONG);
            let wanted = terminal.stdout && to.text && !to.quiet && !dumb && long;
            Ok(wanted.then_some(Place::Stdout))
        }
        When::Always if !terminal.stdout && !terminal.stderr => {
            Err("--live needs a terminal: neither stdout nor stderr is one".to_owned())
        }
        When::Always if dumb => {
            Err(format!("--live needs a terminal that can be drawn on: TERM is '{}'", terminal.kind))
        }
        When::Always if terminal.stdout && to.streams => {
            Err("--live and rows for machines cannot share a terminal: send those to a file or a pipe"
                .to_owned())
        }
        When::Always => Ok(Some(if terminal.stdout { Place::Stdout } else { Place::Stderr })),
    }
}

struct Shared {
    feed: Mutex<Feed>,
    over: AtomicBool,
}

/// The view, while it is open. Held output is printed when it closes.
pub(crate) struct Live {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    place: Place,
    held: VecDeque<Vec<u8>>,
    left_out: u64,
    complaints: Vec<String>,
}

impl Live {
    /// Starts to show a run; `None` where the terminal is another program's at the moment.
    pub(crate) fn start(
        place: Place,
        interrupt: &Interrupt,
        planned: Planned,
        when: When,
    ) -> Result<Option<Live>, CliError> {
        let Some(keys) = Keys::at_terminal() else {
            return match when {
                When::Always => Err(CliError::failed(
                    "--live needs the terminal that the program was started from, and to be in its foreground",
                )),
                _ => Ok(None),
            };
        };
        let shared = Arc::new(Shared { feed: Mutex::new(Feed::default()), over: AtomicBool::new(false) });
        terminal::take(place);
        UP.store(true, Ordering::Release);
        let (ours, interrupt) = (Arc::clone(&shared), interrupt.clone());
        let show = move || {
            let shown = Show::new(place, keys, ours, interrupt, planned).run();
            if UP.swap(false, Ordering::AcqRel) {
                let _pen = Pen::take();
                terminal::leave();
            }
            shown
        };
        let thread = thread::Builder::new().name("live".to_owned()).spawn(|| drop(show()));
        let thread = thread.inspect_err(|_| UP.store(false, Ordering::Release));
        let thread = thread.context("cannot start the live view")?;
        Ok(Some(Live {
            shared,
            thread: Some(thread),
            place,
            held: VecDeque::new(),
            left_out: 0,
            complaints: Vec::new(),
        }))
    }

    /// Takes an event of one of the measurements beside each other; of the only one, 0.
    pub(crate) fn push(&self, part: u32, event: &Event) {
        lock(&self.shared.feed).push(part, event);
    }

    /// True while it is open: the terminal may close.
    pub(crate) fn up(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// True if stdout is its screen.
    pub(crate) fn holds_stdout(&self) -> bool {
        self.place == Place::Stdout
    }

    /// Keeps text for stdout until it is gone.
    pub(crate) fn hold(&mut self, text: Vec<u8>) {
        if text.is_empty() {
            return;
        }
        if self.held.len() >= HELD {
            self.held.pop_front();
            self.left_out += 1;
        }
        self.held.push_back(text);
    }

    /// Writes a line to stderr; one for the terminal of the live view is held until the view has
    /// ended.
    pub(crate) fn complain(&mut self, text: String) {
        if !io::stderr().is_terminal() {
            stderr::say(text);
        } else if self.complaints.len() < HELD {
            self.complaints.push(text);
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A thread that died has printed why.
            let _ = thread.join();
        }
        let mut out = stdout::text();
        if self.left_out > 0 {
            let _ = writeln!(out, "({} earlier paragraphs are left out)", self.left_out);
        }
        // The summary shows if anybody reads.
        let _ = self.held.iter().try_for_each(|text| out.write_all(text)).and_then(|()| out.flush());
        self.complaints.iter().for_each(stderr::say);
    }
}

/// State of the drawing thread.
struct Show {
    canvas: Canvas<BufWriter<Box<dyn Write + Send>>>,
    keys: Keys,
    shared: Arc<Shared>,
    interrupt: Interrupt,
    view: View,
    cpus: CpuMeter,
    began: Instant,
    /// Its columns and rows when they were last asked for.
    size: Option<(u16, u16)>,
    /// True if its screen has been taken, where that is known.
    entered: bool,
}

impl Show {
    fn new(place: Place, keys: Keys, shared: Arc<Shared>, interrupt: Interrupt, planned: Planned) -> Show {
        let look = Look { color: stderr::likes_colors(), blocks: stderr::is_utf8() };
        let canvas = Canvas::new(BufWriter::with_capacity(64 * 1024, place.writer()));
        let view = View::new(look, planned, 0);
        let (cpus, began) = (CpuMeter::default(), Instant::now());
        Show { canvas, keys, shared, interrupt, view, cpus, began, size: None, entered: false }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Until the run is over, or the terminal is gone.
    fn run(mut self) -> io::Result<()> {
        self.enter()?;
        let mut drawn = Instant::now();
        let (mut changed, mut ending) = (true, false);
        let mut typed = [0; 256];
        loop {
            if changed || drawn.elapsed() >= SECONDS {
                self.draw()?;
                (drawn, changed) = (Instant::now(), false);
            }
            let n = self.keys.typed(TICK_MS, &mut typed)?;
            if self.shared.over.load(Ordering::Acquire) || !UP.load(Ordering::Acquire) {
                return Ok(());
            }
            for press in Presses::of(&typed[..n.unwrap_or(0)]) {
                changed = true;
                let wish = self.view.press(press, self.now_ns());
                self.grant(wish)?;
            }
            match self.keys.called() {
                Some(Called::Stop) => self.aside(Keys::stop_alone),
                // The view could not restore the terminal before SIGSTOP: the shell took it as it
                // was.
                Some(Called::GoOn) => self.entered = false,
                None => {}
            }
            changed |= !self.entered;
            if self.interrupt.is_requested() && !std::mem::replace(&mut ending, true) {
                self.view.ending();
                // At Ctrl-C the kernel throws away the pending output of the terminal.
                self.canvas.forget();
                changed = true;
            }
            let told = !lock(&self.shared.feed).is_empty();
            changed |= told && drawn.elapsed() >= PACE;
            changed |= self.keys.size() != self.size;
        }
    }

    fn enter(&mut self) -> io::Result<()> {
        let _pen = Pen::take();
        self.entered = true;
        self.canvas.enter()
    }

    /// Carries out a key's request beyond the screen.
    fn grant(&mut self, wish: Wish) -> io::Result<()> {
        match wish {
            Wish::Nothing => {}
            Wish::End => self.interrupt.ask(),
            Wish::Anew => self.canvas.forget(),
            Wish::Picture => {
                let told = match self.picture() {
                    Ok(()) => format!("written to {PICTURE}"),
                    Err(error) => format!("cannot write to {PICTURE}: {error}"),
                };
                self.view.notice(told, self.now_ns());
            }
            Wish::Kill => signals::exit_at_once(),
            Wish::Stop => self.aside(Keys::stop),
        }
        Ok(())
    }

    /// Leaves the terminal to the shell while this process is stopped. The next drawing takes it
    /// back in its foreground.
    fn aside(&mut self, stop: impl Fn(&Keys)) {
        if std::mem::take(&mut self.entered) {
            let _pen = Pen::take();
            terminal::leave();
        }
        stop(&self.keys);
    }

    /// Keeps this screen as a picture.
    fn picture(&self) -> io::Result<()> {
        let title = "The live view of a run of netcaliper on a terminal";
        file::write(PICTURE.as_ref(), |out| screen::write_svg(&self.canvas.shown, title, out))
    }

    /// Takes the queued events and draws the changes.
    fn draw(&mut self) -> io::Result<()> {
        let feed = lock(&self.shared.feed).take();
        let now_ns = self.now_ns();
        if feed.begins() {
            self.cpus = CpuMeter::default();
        } else if feed.measured() {
            let (phase, interval) = self.cpus.lap();
            self.view.host(phase, interval);
        }
        self.view.absorb(feed, now_ns);
        if !self.keys.in_front() {
            // The shell has it: it is drawn anew when we have it again.
            self.canvas.forget();
            return Ok(());
        }
        if !self.entered {
            self.keys.again();
            self.enter()?;
        }
        self.size = self.keys.size();
        let (width, height) = self.size.unwrap_or((80, 24));
        let mut next = Grid::new(width.min(LARGEST.0), height.min(LARGEST.1));
        self.view.draw(&mut next, now_ns);
        let _pen = Pen::take();
        if !UP.load(Ordering::Acquire) {
            return Ok(());
        }
        if !self.canvas.is_current(next.size()) {
            self.keys.again();
        }
        self.canvas.draw(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: Stdout = Stdout { text: true, streams: false, quiet: false };

    fn planned(s: u64) -> Planned {
        Planned { phases: Some(1), total_ns: Some(s * SECOND) }
    }

    fn terminal(stdout: bool, stderr: bool) -> Terminal {
        Terminal { stdout, stderr, kind: "xterm".to_owned() }
    }

    #[test]
    fn long_runs_on_a_terminal_are_shown_unless_something_speaks_against_it() {
        let auto = |to, s, terminal: &Terminal| decide(When::Auto, to, planned(s), terminal);
        let here = terminal(true, true);
        assert_eq!(auto(TEXT, 5, &here), Ok(Some(Place::Stdout)));
        assert_eq!(auto(TEXT, 4, &here), Ok(None), "four seconds pass without a view");
        assert_eq!(auto(TEXT, 11, &terminal(false, true)), Ok(None), "never on a pipe");
        assert_eq!(auto(Stdout { quiet: true, ..TEXT }, 11, &here), Ok(None));
        assert_eq!(auto(Stdout { text: false, ..TEXT }, 11, &here), Ok(None));
        assert_eq!(auto(TEXT, 11, &Terminal { kind: "dumb".to_owned(), ..here }), Ok(None));
        let open = Planned { phases: Some(1), total_ns: None };
        assert_eq!(decide(When::Auto, TEXT, open, &here), Ok(None), "how long it takes is not known");
        assert_eq!(decide(When::Never, TEXT, planned(11), &here), Ok(None));
    }

    #[test]
    fn who_asks_for_it_gets_it_or_a_reason() {
        let always = |to, terminal: &Terminal| decide(When::Always, to, planned(1), terminal);
        assert_eq!(always(TEXT, &terminal(true, false)), Ok(Some(Place::Stdout)));
        assert_eq!(always(TEXT, &terminal(false, true)), Ok(Some(Place::Stderr)));
        let rows = Stdout { text: false, streams: true, quiet: false };
        assert_eq!(always(rows, &terminal(false, true)), Ok(Some(Place::Stderr)));
        for (to, terminal, why) in [
            (TEXT, terminal(false, false), "neither stdout nor stderr is one"),
            (rows, terminal(true, true), "cannot share a terminal"),
            (TEXT, Terminal { kind: "dumb".to_owned(), ..terminal(true, true) }, "TERM is 'dumb'"),
        ] {
            let said = always(to, &terminal).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }
}
