//! The run as it happens, for people: the test, the servers, one line per interval, and the
//! summary.

use crate::summary;
use crate::text::{Page, Tone, or_dash};
use crate::words;
use metrics::{format_bytes, format_duration, format_number, seconds};
use model::{
    Begin, ConnectionRecord, End, Event, Interval, Kind, Level, Measure, Outcome, Phase, Ping, PingInterval,
    SessionInfo, Status, Unit,
};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Interval lines between two headers.
const HEADER_EVERY: u32 = 40;

/// The label of a search for the path's MTU: its steps are no results.
const MTU: &str = "path_mtu";

/// Extent of the printed result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// One line.
    Line,
    /// A dozen lines.
    #[default]
    Brief,
    /// All tables.
    Full,
}

/// Style of the printout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Colour the lines (ANSI escape sequences).
    pub color: bool,
    /// Extent of the result.
    pub detail: Detail,
    /// Print every ended connection, every point of a sweep, and the hosts' properties.
    pub verbose: bool,
    /// Show the histogram of round trips in steps of this width, ns.
    pub linear_ns: Option<u64>,
    /// Columns of the terminal: no line is longer. `None` where it is none, or its size is not
    /// known.
    pub columns: Option<u16>,
}

/// The console reporter.
///
/// Feed it the events as they happen (or as [`replay`](crate::replay()) takes them out of a saved
/// outcome), then ask for the summary.
#[derive(Clone, Debug, Default)]
pub struct Console {
    style: Style,
    columns: Vec<Column>,
    serving: bool,
    /// The phase is one of several.
    labelled: bool,
    /// The phase is about messages.
    messages: bool,
    /// The run has stages, whose parts run beside each other.
    loads: bool,
    /// The part has the round trips of a load, which are less the server's turnaround.
    is_path: bool,
    /// True if intervals are printed.
    has_intervals: bool,
    /// A phase goes on.
    within: bool,
    /// Notices that were given.
    noticed: Vec<String>,
    /// Interval lines since the last header; the header is due when it is 0.
    lines: u32,
    /// The phase so far, where each interval has a message or none; other intervals have lines of
    /// their own.
    so_far: Option<Interval>,
    /// Ending of the last phase that was not complete.
    last_end: String,
    /// The latest failure: printed before the next event, unless that event or the answer has its
    /// sentence.
    pending: Option<Pending>,
}

/// A failure that waits for the next event.
#[derive(Clone, Debug)]
struct Pending {
    tone: Tone,
    label: &'static str,
    text: String,
    /// Its sentence.
    reason: String,
}

impl Console {
    /// A reporter that prints in this style.
    pub fn new(style: Style) -> Console {
        let columns = columns(false, &Phase::default());
        Console { style, columns, has_intervals: true, ..Console::default() }
    }

    /// Shows the histogram of round trips in steps of this width, ns.
    pub fn linear(&mut self, width_ns: Option<u64>) {
        self.style.linear_ns = width_ns;
    }

    /// Writes what `event` is worth to a person: nothing, or some lines.
    pub fn on_event(&mut self, event: &Event, out: &mut dyn Write) -> io::Result<()> {
        let mut page = Page::new(out, self.style.color).within(self.style.columns);
        self.settle(event, &mut page);
        self.within = match event {
            Event::Phase { .. } => true,
            Event::PhaseEnd { .. } => false,
            _ => self.within,
        };
        match event {
            Event::Begin(begin) => {
                self.serving = begin.verb == "serve";
                self.loads = begin.verb == "load";
                self.columns = columns(self.serving, &Phase::default());
                if self.style.verbose {
                    self.begin(begin, &mut page);
                }
            }
            Event::Notice { level: Level::Info, text } if !self.tells(text) => {}
            Event::Phase { label, repeat, phase } => self.phase(label, *repeat, phase, &mut page),
            // Caveats contain the same.
            Event::Session(_) if self.style.detail == Detail::Line && !self.is_full() => {}
            Event::Session(session) => session_lines(session, self.is_full(), &mut page),
            Event::Interval(_) if !self.has_intervals => {}
            Event::Interval(interval) if self.is_path => {
                // As in the answer, without the server's turnaround.
                let pings = interval.pings.map(PingInterval::of_path);
                self.interval(&Interval { pings, ..(**interval).clone() }, &mut page);
            }
            Event::Interval(interval) => self.interval(interval, &mut page),
            Event::Connection(record) if self.style.verbose => connection_line(record, &mut page),
            Event::Notice { level: Level::Error, text } if self.within && !self.serving => {
                let (text, reason) = (text.clone(), text.clone());
                let label = words::level(Level::Error);
                self.pending = Some(Pending { tone: tone_of(Level::Error), label, text, reason });
            }
            Event::Notice { level, text } => {
                page.paragraph(tone_of(*level), words::level(*level), text);
            }
            Event::PhaseEnd { status, reason } if *status != Status::Complete && self.tells_ends() => {
                let why = reason.as_deref().unwrap_or("no reason given");
                let text = format!("{}: {why}", status.name());
                // Stages of `load` have several parts, which fail alike.
                if !self.loads || self.last_end != text {
                    let (text, reason) = (text.clone(), why.to_owned());
                    self.pending = Some(Pending { tone: Tone::Warning, label: "", text, reason });
                }
                self.last_end = text;
            }
            _ => {}
        }
        page.end()
    }

    /// Prints the failure that waits, before an event that prints something. The end of the run has
    /// its reason in the answer, and the end of a phase has its own.
    fn settle(&mut self, event: &Event, page: &mut Page<'_>) {
        let repeats = match event {
            Event::PhaseEnd { reason, .. } | Event::End { reason, .. } => reason.as_deref(),
            // A failure ends a load, and the parts of its stage follow each other.
            Event::Phase { .. } if self.loads => return,
            Event::Interval(_) | Event::Phase { .. } | Event::Notice { .. } | Event::Session(_) => None,
            _ => return,
        };
        let Some(Pending { tone, label, text, reason }) = self.pending.take() else { return };
        if !repeats.is_some_and(|repeats| repeats.contains(&reason)) {
            page.paragraph(tone, label, &text);
        }
    }

    /// Writes the final report on `outcome`.
    pub fn summary(&self, outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
        summary::write(outcome, self.style, out)
    }

    /// True if all tables are printed. A server's activity has no answer in short.
    fn is_full(&self) -> bool {
        self.style.detail == Detail::Full || self.serving
    }

    /// True if the ending of a phase is printed at once: the answer of a run with one phase has it.
    fn tells_ends(&self) -> bool {
        self.is_full() || self.labelled
    }

    /// True if a notice is printed: each once in the short forms, and in a result of one line only
    /// notices from between the phases.
    fn tells(&mut self, text: &str) -> bool {
        // A list of a server's notices would have no end.
        if self.serving {
            return true;
        }
        let again = self.noticed.iter().any(|known| known == text);
        self.noticed.extend((!again).then(|| text.to_owned()));
        !(again || self.within && self.style.detail == Detail::Line)
    }

    fn begin(&self, begin: &Begin, page: &mut Page<'_>) {
        let command = begin.command.join(" ");
        let text = format!("netcaliper {}, run {}: {command}", begin.version, begin.run);
        page.paragraph(Tone::Plain, "", &text);
    }

    fn phase(&mut self, label: &BTreeMap<String, String>, repeat: u32, phase: &Phase, page: &mut Page<'_>) {
        self.columns = columns(self.serving, phase);
        self.is_path = label.get("part").is_some_and(|part| part == "trips");
        if self.is_path {
            self.columns.retain(|column| !["min", "mean", "max"].contains(&column.title));
        }
        self.lines = 0;
        self.messages = phase.kind == Kind::Ping;
        let is_single = |ping: &Ping| ping.schedule.gap_ns().is_some_and(|gap| gap >= phase.interval_ns);
        let single = phase.ping.as_ref().filter(|ping| is_single(ping) && phase.connections == 1);
        self.so_far = single
            .filter(|_| !self.serving)
            .map(|_| Interval { pings: Some(PingInterval::default()), ..Interval::default() });
        if self.so_far.is_some() {
            self.columns = SO_FAR.to_vec();
        }
        self.labelled = !label.is_empty() || repeat > 1;
        if self.serving {
            return; // its clients decide the phase
        }
        self.has_intervals = self.is_full() || !(self.loads || label.contains_key(MTU));
        let mut heading = words::setting(label, repeat);
        if self.is_full() || heading.is_empty() && self.style.detail == Detail::Brief {
            if !heading.is_empty() {
                page.gap();
                heading.push_str(": ");
            }
            return page.paragraph(Tone::Heading, "", &format!("{heading}{}", words::phase(phase)));
        }
        match label.get("stage").filter(|_| self.loads) {
            _ if self.style.detail == Detail::Line || label.contains_key(MTU) => {}
            // Its first part stands for all.
            Some(stage) if label.get("part").is_some_and(|part| part == "trips") => {
                page.line(Tone::Plain, &format!("stage {stage}"));
            }
            Some(_) => {}
            None => page.line(Tone::Heading, &heading),
        }
    }

    fn interval(&mut self, interval: &Interval, page: &mut Page<'_>) {
        if let Some(so_far) = self.so_far.as_mut().filter(|_| !interval.omitted) {
            so_far.join(interval);
        }
        if self.lines == 0 {
            let titles = self.columns.iter().map(|Column { title, width, .. }| format!("  {title:>width$}"));
            page.line(Tone::Heading, &format!("{:>9}{}", "elapsed", titles.collect::<String>()));
        }
        self.lines = (self.lines + 1) % HEADER_EVERY;
        let all = self.so_far.as_ref().unwrap_or(interval);
        let cells = self.columns.iter().map(|column| {
            let cell = column.cell(if column.title == LAST { interval } else { all });
            format!("  {cell:>width$}", width = column.width)
        });
        let elapsed = format!("{:.2} s", seconds(interval.end_ns));
        let mut line = format!("{elapsed:>9}{}", cells.collect::<String>());
        line.push_str(&unusual(interval, self.messages));
        page.line(Tone::bad_if(interval.errors() > 0), &line);
    }
}

/// One column of the interval lines, after the time.
#[derive(Clone, Copy, Debug)]
struct Column {
    title: &'static str,
    width: usize,
    measure: Measure,
    end: End,
}

impl Column {
    /// The value with its unit, which the title of a count per second has; a dash where the
    /// interval has none.
    fn cell(&self, interval: &Interval) -> String {
        or_dash(self.measure.of(interval, self.end), |value| match self.measure.unit {
            Unit::PerSecond | Unit::Count => format_number(value),
            unit => unit.show(value),
        })
    }
}

/// A column of this host's counts.
const fn local(title: &'static str, width: usize, measure: Measure) -> Column {
    Column { title, width, measure, end: End::Local }
}

const SEND: Column = local("send", 11, Measure::SENT);
const RECEIVE: Column = local("receive", 11, Measure::RECEIVED);
const ERRORS: Column = local("errors", 6, Measure::ERRORS);
const WHOLE: Column = local("whole", 7, Measure::FRAMES_WHOLE);
const DROPPED: Column = local("dropped", 7, Measure::FRAMES_DROPPED);

/// The columns for a phase, at most 80 characters wide: rates as both ends counted them;
/// connections per second when those are the question; what we counted when serving. A direction in
/// which nothing is to be sent has none.
fn columns(serving: bool, phase: &Phase) -> Vec<Column> {
    let (up, down) = (phase.pattern.sends_up(), phase.pattern.sends_down());
    let mut all = Vec::new();
    match phase.kind {
        Kind::Stream if phase.probe.is_some() && !serving => {
            all = datagram_columns(up, down);
            // As wide as the remaining space allows.
            let left_out = if up && down { &["p50"][..] } else { &["max", "sent/s", "remote sent/s"] };
            all.retain(|column| !left_out.contains(&column.title));
            if down {
                all.extend([WHOLE, DROPPED]);
            }
            return all;
        }
        Kind::Stream => return streams(serving),
        _ if serving => all.extend([SEND, RECEIVE]),
        Kind::Connect => all.push(local("connects/s", 10, Measure::CONNECTS)),
        Kind::Ping => {
            return vec![
                local("sent", 7, Measure::MESSAGES_SENT),
                local("loss", 7, Measure::MESSAGES_LOST),
                local("min", 8, Measure::RTT_MIN),
                local("mean", 8, Measure::RTT_MEAN),
                local("p50", 8, Measure::RTT_P50),
                local("p99", 8, Measure::RTT_P99),
                local("max", 8, Measure::RTT_MAX),
            ];
        }
        Kind::Capacity => {
            all.extend(up.then_some(SEND));
            all.extend(down.then_some(RECEIVE));
            all.extend(up.then_some(Column { end: End::Remote, title: "remote recv", ..RECEIVE }));
            all.push(local(
                "datagrams/s",
                11,
                if up { Measure::DATAGRAMS_SENT } else { Measure::DATAGRAMS_RECEIVED },
            ));
            all.extend(down.then(|| local("lost", 7, Measure::LOST)));
            return all;
        }
        Kind::Delay | Kind::Train => return datagram_columns(up, down),
        Kind::Tcp => {
            all.extend(up.then_some(SEND));
            all.extend(down.then_some(RECEIVE));
            all.extend(up.then_some(Column { end: End::Remote, title: "remote recv", ..RECEIVE }));
        }
    }
    all.push(local("open", 6, Measure::OPEN));
    let both = up && down && phase.kind == Kind::Tcp;
    all.extend((!both).then_some(local("finished", 8, Measure::COMPLETED)));
    all.extend([ERRORS, local("retrans", 7, Measure::RETRANSMITS)]);
    all
}

/// The title of the column that shows the interval itself beside all so far.
const LAST: &str = "last";

/// The columns of intervals with a message or none, as mtr has them: the last round trip, and all
/// so far.
const SO_FAR: [Column; 6] = [
    local("sent", 6, Measure::MESSAGES_SENT),
    local("loss", 7, Measure::MESSAGES_LOST),
    local(LAST, 9, Measure::RTT_MEAN),
    local("mean", 9, Measure::RTT_MEAN),
    local("min", 9, Measure::RTT_MIN),
    local("max", 9, Measure::RTT_MAX),
];

/// The columns of media streams: frames are the receiver's judgement, so a server has none.
fn streams(serving: bool) -> Vec<Column> {
    let repeated = local("repeated", 8, Measure::FRAMES_REPEATED);
    let judged = [RECEIVE, WHOLE, DROPPED, repeated, local("stray", 7, Measure::FRAMES_OF_NONE)];
    let mut all = if serving { vec![SEND] } else { judged.to_vec() };
    all.extend([local("streams", 7, Measure::OPEN), ERRORS]);
    all
}

/// Unusual counts of an interval, behind its line.
fn unusual(interval: &Interval, messages: bool) -> String {
    let counts = interval.pings.filter(|_| messages).map(|pings| pings.counts).unwrap_or_default();
    let all = [(counts.late, "late"), (counts.damaged, "damaged"), (counts.missed, "missed")];
    let omitted = interval.omitted.then(|| " omitted".to_owned());
    words::counted(all).map(|told| format!("  {told}")).chain(omitted).collect()
}

/// Datagrams by their receivers' counts, and beside them the senders' where room is left; delays in
/// one direction.
fn datagram_columns(up: bool, down: bool) -> Vec<Column> {
    let received = [
        Measure::DATAGRAMS_RECEIVED,
        Measure::LOST,
        Measure::DELAY_P50,
        Measure::DELAY_P99,
        Measure::DELAY_MAX,
    ];
    let by = |end, titles: &[(&'static str, usize)]| -> Vec<Column> {
        let column = |(&(title, width), measure)| Column { title, width, measure, end };
        titles.iter().zip(received).map(column).collect()
    };
    let alone = |first, end| by(end, &[first, ("lost", 7), ("delay p50", 9), ("p99", 9), ("max", 9)]);
    let beside = |first, end| by(end, &[first, ("lost", 6), ("p50", 7), ("p99", 7)]);
    let sent = |title, width, end| vec![Column { title, width, measure: Measure::DATAGRAMS_SENT, end }];
    match (up, down) {
        (true, true) => [beside(("up/s", 7), End::Remote), beside(("down/s", 7), End::Local)].concat(),
        (true, false) => [sent("sent/s", 9, End::Local), alone(("remote rx/s", 11), End::Remote)].concat(),
        (false, true) => [sent("remote sent/s", 13, End::Remote), alone(("rx/s", 9), End::Local)].concat(),
        (false, false) => Vec::new(),
    }
}

/// The server, its reductions with their reasons, and its other sessions.
fn session_lines(session: &SessionInfo, full: bool, page: &mut Page<'_>) {
    if full {
        write_server(session, page);
    }
    for change in &session.accepted.changes {
        let why = if change.why.is_empty() { "no reason given" } else { &change.why };
        let text = format!("{} reduced from {} to {}: {why}", change.what, change.asked, change.given);
        page.paragraph(Tone::Warning, "  ", &text);
    }
    if session.accepted.others > 0 {
        let others = words::count(u64::from(session.accepted.others), "other session");
        page.line(Tone::Warning, &format!("  {others} on this server"));
    }
}

/// The server that answered.
fn write_server(session: &SessionInfo, page: &mut Page<'_>) {
    let host = &session.host;
    // Servers of other programs report little or nothing about themselves.
    let version = (!session.version.is_empty()).then(|| format!("netcaliper {}", session.version));
    let name = match (host.name.as_str(), host.kernel.as_str()) {
        ("", kernel) => kernel.to_owned(),
        (name, "") => format!("host {name}"),
        (name, kernel) => format!("host {name} on {kernel}"),
    };
    let told = [
        version,
        (!name.is_empty()).then_some(name),
        (host.cpus > 0).then(|| words::count(u64::from(host.cpus), "CPU")),
        words::idle_round_trip(session),
        session.authenticated.then(|| "authenticated".to_owned()),
    ];
    let told: Vec<String> = told.into_iter().flatten().collect();
    let colon = if told.is_empty() { "" } else { ": " };
    page.paragraph(Tone::Plain, "", &format!("server {}{colon}{}", session.address, told.join(", ")));
}

fn connection_line(record: &ConnectionRecord, page: &mut Page<'_>) {
    let failed = record.error.as_deref().map(|e| format!(": {e}")).unwrap_or_default();
    let text = format!(
        "connection {} to {}: {}, {} sent, {} received in {}{failed}",
        record.id,
        record.remote,
        words::ending(record.result),
        format_bytes(record.tx_bytes),
        format_bytes(record.rx_bytes),
        format_duration(record.duration_ns),
    );
    page.line(Tone::bad_if(record.error.is_some()), &text);
}

fn tone_of(level: Level) -> Tone {
    match level {
        Level::Info => Tone::Plain,
        Level::Warning => Tone::Warning,
        Level::Error => Tone::Bad,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_are_not_gathered_where_all_of_them_are_told() {
        let begin = Begin { verb: "serve".to_owned(), ..Begin::default() };
        let notice = |n: u32| Event::Notice { level: Level::Info, text: format!("client {n} came") };
        let mut console = Console::new(Style::default());
        let mut out = Vec::new();
        for event in [Event::Begin(Box::new(begin)), notice(1), notice(1), notice(2)] {
            console.on_event(&event, &mut out).unwrap();
        }
        assert_eq!(String::from_utf8(out).unwrap(), "client 1 came\nclient 1 came\nclient 2 came\n");
        assert_eq!(console.noticed, Vec::<String>::new());
    }
}
