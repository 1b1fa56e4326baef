//! The printout and the log files of a run, made of its events.

use super::banner::Resolved;
use super::files::{Logs, OpenFile};
use super::line::{HEADER_EVERY, layout};
use super::spec::{BannerSettings, Role, Spec, Transport};
use super::transcript::{Item, Transcript};
use compat::{Printed, Text};
use model::{Event, Kind, Level, Outcome};
use std::io;
use std::net::SocketAddr;

/// Prints and writes a run as ctsTraffic does.
pub(crate) struct Printer {
    transcript: Transcript,
    console: Console,
    logs: Logs,
}

impl Printer {
    /// For a run that is about to begin; its log files are opened by `open`.
    ///
    /// # Errors
    /// One sentence naming the first file that cannot be written.
    pub(crate) fn new(spec: Spec, resolved: Resolved, open: OpenFile<'_>) -> Result<Printer, String> {
        Ok(Printer {
            console: Console::new(spec.verbosity, spec.transport),
            logs: Logs::open(&spec.logs, spec.transport, open)?,
            transcript: Transcript::new(spec, resolved),
        })
    }

    /// Takes an event in: results and errors are printed, logs go to their files. The failure of a
    /// file is reported as an error.
    pub(crate) fn on_event(&mut self, event: &Event) -> Printed {
        let items = self.transcript.on_event(event);
        self.print(items)
    }

    /// The user has ended the run: only the summary is still printed.
    pub(crate) fn interrupt(&mut self) -> Printed {
        let items = self.transcript.interrupt();
        self.print(items)
    }

    fn print(&mut self, items: Vec<Item>) -> Printed {
        let mut printed = Printed::default();
        for item in items {
            for text in self.logs.write(&item) {
                writeln!(printed.err, "netcaliper ctstraffic: {text}; the run goes on without it");
            }
            self.console.show(&item, &mut printed);
        }
        printed
    }

    /// The exit code: the number of failures, 255 at most.
    pub(crate) fn exit_code(&self) -> u8 {
        u8::try_from(self.transcript.errors()).unwrap_or(u8::MAX)
    }
}

/// The console: which of the items a verbosity shows, and where they go.
#[derive(Debug)]
pub(super) struct Console {
    verbosity: u8,
    transport: Transport,
    /// Status lines since the last header.
    lines: u32,
}

impl Console {
    pub(super) fn new(verbosity: u8, transport: Transport) -> Console {
        Console { verbosity, transport, lines: 0 }
    }

    /// Prints `item`.
    pub(super) fn show(&mut self, item: &Item, Printed { out, err }: &mut Printed) {
        let verbosity = self.verbosity;
        if verbosity == 0 {
            return;
        }
        let (status, errors) = (matches!(verbosity, 1 | 2 | 5 | 6), matches!(verbosity, 2 | 4 | 5 | 6));
        let (connections, debug) = (verbosity >= 3, verbosity >= 6);
        match item {
            Item::Adapters(lines) => all(lines, out),
            Item::Banner(lines) => {
                all(lines, out);
                if status {
                    let layout = layout(self.transport);
                    all(&layout.legend(), out);
                    writeln!(out, "\n{}\n", layout.heading);
                }
            }
            Item::Status(slice) if status => {
                if self.lines == HEADER_EVERY {
                    self.lines = 0;
                    writeln!(out, "{}", layout(self.transport).heading);
                }
                self.lines += 1;
                writeln!(out, "{}", slice.line(self.transport));
            }
            Item::Established(line) | Item::Connection { line, .. } if connections => writeln!(out, "{line}"),
            Item::Error(line) if errors => writeln!(err, "{line}"),
            Item::Message { text, level: Level::Warning, .. } => writeln!(err, "{text}"),
            Item::Message { text, level: Level::Error, .. } if errors => writeln!(out, "{text}"),
            Item::Message { text, .. } | Item::Started(text) if debug => writeln!(out, "{text}"),
            Item::Said(text) => writeln!(out, "{text}"),
            Item::Summary(lines) => {
                writeln!(out);
                all(lines, out);
            }
            _ => {}
        }
    }
}

fn all(lines: &[String], out: &mut Text) {
    lines.iter().for_each(|line| writeln!(out, "{line}"));
}

/// A saved run as ctsTraffic would have printed it, at its highest ordinary verbosity.
pub(crate) fn print(outcome: &Outcome, events: &[Event]) -> Result<String, String> {
    let (spec, resolved) = of_run(outcome);
    let mut none = |_: &std::path::Path| Err(io::Error::other("a printout has no files"));
    let mut printer = Printer::new(spec, resolved, &mut none)?;
    let mut text = String::new();
    for event in events {
        let Printed { out, err } = printer.on_event(event);
        text += &out.0;
        text += &err.0;
    }
    Ok(text)
}

/// Addresses that the banner of a saved run lists.
const MOST_TARGETS: usize = 64;

/// The command line of a saved run, in the settings that the printout depends on.
fn of_run(outcome: &Outcome) -> (Spec, Resolved) {
    let phase = outcome.points.first().map(|point| point.phase.clone()).unwrap_or_default();
    let role = if outcome.begin.verb == "serve" { Role::Server } else { Role::Client };
    let transport = if phase.kind == Kind::Stream { Transport::Udp } else { Transport::Tcp };
    let mut targets: Vec<SocketAddr> =
        outcome.points.iter().flat_map(|p| &p.sessions).map(|s| s.address).collect();
    if targets.is_empty() && role == Role::Client {
        // Other programs' servers have no sessions: the connections have their addresses.
        for record in outcome.points.iter().flat_map(|p| &p.connections) {
            if targets.len() < MOST_TARGETS && !targets.contains(&record.remote) {
                targets.push(record.remote);
            }
        }
    }
    let resolved = Resolved { targets, ..Resolved::default() };
    let port = resolved.targets.first().map_or(0, |at| at.port());
    let shown =
        BannerSettings { connect_function: "connect", receives: 1, sends: 1, ..BannerSettings::default() };
    let spec = Spec { role, transport, port, phase, verbosity: 5, shown, ..Spec::default() };
    (spec, resolved)
}

#[cfg(test)]
mod tests {
    use super::super::line::Slice;
    use super::*;

    fn printed(verbosity: u8, items: &[Item]) -> (String, String) {
        let mut console = Console::new(verbosity, Transport::Tcp);
        let mut printed = Printed::default();
        items.iter().for_each(|item| console.show(item, &mut printed));
        (printed.out.0, printed.err.0)
    }

    #[test]
    fn each_verbosity_shows_its_own() {
        let items = [
            Item::Status(Slice { at_ms: 5000, numbers: [0; 6] }),
            Item::Connection { line: "connection".to_owned(), row: String::new(), tcp_info: None },
            Item::Error("error".to_owned()),
            Item::Message { at: String::new(), text: "detail".to_owned(), level: Level::Info },
        ];
        // As the help of the original lists them; 6 is hidden there.
        for (verbosity, status, connections, errors, debug) in [
            (0, false, false, false, false),
            (1, true, false, false, false),
            (2, true, false, true, false),
            (3, false, true, false, false),
            (4, false, true, true, false),
            (5, true, true, true, false),
            (6, true, true, true, true),
        ] {
            let (out, err) = printed(verbosity, &items);
            let seen = [
                out.contains("5.000"),
                out.contains("connection"),
                err.contains("error"),
                out.contains("detail"),
            ];
            assert_eq!(seen, [status, connections, errors, debug], "verbosity {verbosity}");
        }
    }

    #[test]
    fn nothing_at_all_at_0() {
        let items = [
            Item::Adapters(vec!["adapter".to_owned()]),
            Item::Banner(vec!["banner".to_owned()]),
            Item::Said("limit".to_owned()),
            Item::Summary(vec!["summary".to_owned()]),
        ];
        assert_eq!(printed(0, &items), (String::new(), String::new()));
    }

    #[test]
    fn the_header_comes_again_after_forty_lines() {
        let mut items = vec![Item::Banner(vec!["\tProtocol: TCP".to_owned(), String::new()])];
        items.extend(vec![Item::Status(Slice::default()); 85]);
        let (out, _) = printed(1, &items);
        let header = layout(Transport::Tcp).heading;
        let lines: Vec<&str> = out.lines().collect();
        let at: Vec<usize> =
            lines.iter().enumerate().filter(|(_, l)| **l == header).map(|(i, _)| i).collect();
        // An empty line after the legend's own, and one after the first header only.
        assert_eq!(lines[at[0] - 2..at[0]], ["", ""]);
        assert_eq!(lines[at[0] + 1], "");
        assert_eq!(at.len(), 3);
        assert_eq!((at[1] - at[0] - 2, at[2] - at[1] - 1), (40, 40));
    }
}
