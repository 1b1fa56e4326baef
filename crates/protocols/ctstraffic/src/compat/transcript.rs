//! A run in the original's words: events become lines and rows, which the console and the log files
//! pick from.

use super::banner::{self, Resolved};
use super::connection::{ConnectionEnd, established, jitter_row};
use super::line::{Slice, seconds};
use super::spec::{Role, Spec, Transport};
use super::windows::{ConnectionOutcome, function, one_line, verdict};
use jiff::Timestamp;
use metrics::{FrameJitter, Wall, real};
use model::{ConnectionRecord, Event, Failure, Interval, Level, Status, Totals};

/// One item of the printout, in the original's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// Adapters: the console's first lines.
    Adapters(Vec<String>),
    Banner(Vec<String>),
    /// When the run started by the wall clock; the times of all other lines count from there.
    Started(String),
    Status(Slice),
    /// A connection is established.
    Established(String),
    /// A connection's result: as a line and as rows of the two tables.
    Connection {
        line: String,
        /// For the connection CSV.
        row: String,
        /// For the TCP-info CSV, if the kernel said something.
        tcp_info: Option<String>,
    },
    /// A function that failed, or a connection given up for a protocol error; with its time.
    Error(String),
    /// Any other message; the time is for files only. A warning is printed at every verbosity,
    /// because it puts the result in doubt; information is for the search of faults only.
    Message {
        at: String,
        text: String,
        level: Level,
    },
    /// Rows of the jitter CSV.
    Jitter(Vec<String>),
    /// A line that is always said: a limit was reached, the run is being ended.
    Said(String),
    Summary(Vec<String>),
    /// No output, but a good moment to write out the held rows.
    Pause,
}

#[derive(Debug, Default)]
pub(super) struct Transcript {
    spec: Spec,
    resolved: Resolved,
    local: Option<Totals>,
    /// End of the last interval, ms.
    last_ms: u64,
    jitter: FrameJitter,
    interrupted: bool,
    over: bool,
}

impl Transcript {
    pub(super) fn new(spec: Spec, resolved: Resolved) -> Transcript {
        Transcript { spec, resolved, ..Transcript::default() }
    }

    /// The run is being ended by the user: from here on neither status lines nor results, but still
    /// the summary.
    pub(super) fn interrupt(&mut self) -> Vec<Item> {
        if std::mem::replace(&mut self.interrupted, true) {
            return Vec::new();
        }
        vec![Item::Said("\n  Ctrl-C: shutting down".to_owned())]
    }

    /// The items of `event`.
    pub(super) fn on_event(&mut self, event: &Event) -> Vec<Item> {
        match event {
            Event::Begin(begin) => vec![
                Item::Adapters(banner::adapter(&begin.host)),
                Item::Banner(banner::settings(&self.spec, &self.resolved)),
            ],
            Event::Start { at } => vec![Item::Started(started(*at))],
            Event::Established { .. } if self.interrupted => Vec::new(),
            Event::Established { local, remote, at_ns } => {
                vec![Item::Established(established(self.spec.transport, *local, *remote, *at_ns))]
            }
            Event::Interval(interval) => self.interval(interval),
            Event::Connection(record) => self.connection(record),
            Event::Frames { rows, .. } => {
                vec![Item::Jitter(rows.iter().filter_map(|r| jitter_row(&mut self.jitter, r)).collect())]
            }
            Event::Notice { level: Level::Info, text } => vec![self.message(Level::Info, text)],
            Event::Notice { text, .. } => vec![self.message(Level::Warning, text)],
            Event::Local(totals) => {
                self.local = Some((**totals).clone());
                vec![Item::Pause]
            }
            Event::PhaseEnd { status, reason } => vec![self.phase_end(*status, reason.as_deref())],
            Event::End { .. } if !std::mem::replace(&mut self.over, true) => {
                vec![Item::Summary(self.summary())]
            }
            _ => vec![Item::Pause],
        }
    }

    fn interval(&mut self, interval: &Interval) -> Vec<Item> {
        self.last_ms = self.last_ms.max(interval.end_ns / 1_000_000);
        if self.interrupted || interval.end_ns <= interval.start_ns {
            return vec![Item::Pause];
        }
        vec![Item::Status(Slice::of(interval, self.spec.transport))]
    }

    fn message(&self, level: Level, text: &str) -> Item {
        Item::Message { at: seconds(self.last_ms), text: text.to_owned(), level }
    }

    fn connection(&mut self, record: &ConnectionRecord) -> Vec<Item> {
        self.last_ms = self.last_ms.max(record.ended_ns / 1_000_000);
        if self.interrupted {
            return Vec::new();
        }
        let Some(verdict) = verdict(record, self.spec.transport) else { return Vec::new() };
        let ended = ConnectionEnd::new(record, verdict, self.spec.role, self.spec.transport);
        let mut items: Vec<Item> = self.error(record, &ended).into_iter().collect();
        let tcp_info = ended.tcp_info_row(record);
        items.push(Item::Connection { line: ended.line(), row: ended.row(), tcp_info });
        items
    }

    /// The error log's line of a failure.
    fn error(&self, record: &ConnectionRecord, ended: &ConnectionEnd) -> Option<Item> {
        let at = &ended.at;
        Some(match (&ended.verdict, &record.failure) {
            (ConnectionOutcome::Succeeded, _) => return None,
            (ConnectionOutcome::Protocol(name), _) => {
                let particulars = record.error.as_deref().map_or_else(String::new, |e| format!(" ({e})"));
                let text = format!("[{at}] Connection aborted due to the protocol error {name}{particulars}");
                Item::Error(one_line(&text))
            }
            (ConnectionOutcome::System(number, words), Some(Failure::System { deed, .. })) => {
                let function = function(deed, self.spec.shown.connect_function);
                Item::Error(format!("[{at}] {function} failed ({number}) {words}"))
            }
            (ConnectionOutcome::System(_, words), _) => {
                let text = one_line(&format!("connection with {}: {words}", record.remote));
                Item::Message { at: at.clone(), text, level: Level::Error }
            }
        })
    }

    fn phase_end(&mut self, status: Status, reason: Option<&str>) -> Item {
        if let Some(local) = &self.local {
            self.last_ms = self.last_ms.max(local.traffic.ns / 1_000_000);
        }
        let limit = self.spec.phase.duration_ns.map(|ns| ns / 1_000_000);
        match (status, limit) {
            // The clock of the intervals may be a little ahead or behind.
            // Connections may have failed before, as with the original.
            (Status::Complete | Status::Partial, Some(limit))
                if self.last_ms + 5 >= limit && (status == Status::Complete || self.errors() > 0) =>
            {
                Item::Said(format!("  Time-limit of {limit} ms has been reached"))
            }
            // The causes of failed connections were printed with each of them.
            (Status::Failed | Status::Partial, _) if self.errors() == 0 => {
                self.message(Level::Error, reason.unwrap_or("the run ended early"))
            }
            _ => Item::Pause,
        }
    }

    /// Connections that failed: for the exit code.
    pub(super) fn errors(&self) -> u64 {
        self.local.as_ref().map_or(0, Totals::errors)
    }

    fn summary(&self) -> Vec<String> {
        let local = self.local.clone().unwrap_or_default();
        let heading = "  Historic Connection Statistics (all connections over the complete lifetime)  ";
        let mut lines = vec![String::new(), heading.to_owned(), "-".repeat(heading.len())];
        lines.push(format!(
            "  SuccessfulConnections [{}]   NetworkErrors [{}]   ProtocolErrors [{}]",
            local.completed,
            local.network_errors,
            local.data_errors + local.protocol_errors
        ));
        let received = |bytes: u64| [String::new(), format!("  Total Bytes Recv : {bytes}")];
        match (self.spec.transport, self.spec.role) {
            (Transport::Tcp, _) => {
                lines.extend(received(local.traffic.rx_bytes + local.framing.rx_bytes));
                let sent = local.traffic.tx_bytes + local.framing.tx_bytes;
                lines.push(format!("  Total Bytes Sent : {sent}"));
            }
            (Transport::Udp, Role::Client) => {
                lines.extend(received(local.traffic.rx_bytes));
                lines.extend(frames(&local));
            }
            (Transport::Udp, Role::Server) => {}
        }
        lines.push(format!("  Total Time : {} ms.", self.last_ms));
        lines
    }
}

/// Frames, each kind with its share of all of them in percent.
fn frames(local: &Totals) -> impl Iterator<Item = String> {
    let f = local.frames.unwrap_or_default();
    let kinds =
        [("Successful", f.completed), ("Dropped", f.dropped), ("Duplicate", f.repeated), ("Error", f.errors)];
    let all: u64 = kinds.iter().map(|k| k.1).sum();
    kinds.into_iter().map(move |(name, n)| {
        let percent = if all == 0 { 0.0 } else { real(n) * 100.0 / real(all) };
        format!("  Total {name} Frames : {n} ({percent:.6})")
    })
}

fn started(at: Wall) -> String {
    let stamp = Timestamp::from_nanosecond(i128::from(at.0));
    let utc = stamp.map_or_else(|_| "an unknown time".to_owned(), |t| format!("{t:.6}"));
    format!("Started at {utc} (UTC): the times below are seconds since then")
}

#[cfg(test)]
mod tests;
