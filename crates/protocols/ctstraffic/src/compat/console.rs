//! The console: which of the items a verbosity shows, and where they go.

use super::line::{self, HEADER_EVERY};
use super::spec::Transport;
use super::transcript::Item;
use std::io::{self, Write};

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

    /// Prints `item`: results to `out`, errors to `err`.
    pub(super) fn show(&mut self, item: &Item, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<()> {
        let verbosity = self.verbosity;
        if verbosity == 0 {
            return Ok(());
        }
        let (status, errors) = (matches!(verbosity, 1 | 2 | 5 | 6), matches!(verbosity, 2 | 4 | 5 | 6));
        let (connections, debug) = (verbosity >= 3, verbosity >= 6);
        match item {
            Item::Adapters(lines) => all(lines, out),
            Item::Banner(lines) => {
                all(lines, out)?;
                if status {
                    all(&line::legend(self.transport), out)?;
                    writeln!(out, "\n{}\n", line::header(self.transport))?;
                }
                Ok(())
            }
            Item::Status(slice) if status => {
                if self.lines == HEADER_EVERY {
                    self.lines = 0;
                    writeln!(out, "{}", line::header(self.transport))?;
                }
                self.lines += 1;
                writeln!(out, "{}", slice.line(self.transport))
            }
            Item::Established(line) | Item::Connection { line, .. } if connections => {
                writeln!(out, "{line}")
            }
            Item::Error(line) if errors => writeln!(err, "{line}"),
            Item::Message { text, error, .. } if (*error && errors) || debug => {
                writeln!(out, "{text}")
            }
            Item::Warning { text, .. } => writeln!(err, "{text}"),
            Item::Started(text) if debug => writeln!(out, "{text}"),
            Item::Said(text) => writeln!(out, "{text}"),
            Item::Summary(lines) => {
                writeln!(out)?;
                all(lines, out)
            }
            _ => Ok(()),
        }
    }
}

fn all(lines: &[String], out: &mut dyn Write) -> io::Result<()> {
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))
}

#[cfg(test)]
mod tests {
    use super::super::line::Slice;
    use super::*;

    fn printed(verbosity: u8, items: &[Item]) -> (String, String) {
        let mut console = Console::new(verbosity, Transport::Tcp);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        for item in items {
            console.show(item, &mut out, &mut err).unwrap();
        }
        (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    #[test]
    fn each_verbosity_shows_its_own() {
        let items = [
            Item::Status(Slice { at_ms: 5000, numbers: [0; 6] }),
            Item::Connection { line: "connection".to_owned(), row: String::new(), tcp_info: None },
            Item::Error("error".to_owned()),
            Item::Message { at: String::new(), text: "detail".to_owned(), error: false },
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
        let header = line::header(Transport::Tcp);
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
