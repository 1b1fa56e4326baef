//! Help pages, made of the table of options.

use super::line::layout;
use super::options::{OptionRow, Page, ROWS};
use super::spec::{Role, Transport};
use std::fmt::Write as _;

/// Columns of a line.
const WIDTH: usize = 100;
const INDENT: usize = 6;

pub(crate) fn page(page: Page) -> String {
    let (title, before, after) = match page {
        Page::Overview => ("ctsTraffic, spoken by netcaliper", OVERVIEW, PAGES),
        Page::Tcp => ("ctsTraffic: TCP", "", TCP),
        Page::Udp => ("ctsTraffic: UDP streams (-Protocol:udp)", "", UDP),
        Page::Logging => ("ctsTraffic: printout and files", "", LOGGING),
        Page::Advanced => ("ctsTraffic: sockets, and ways of Windows", "", ADVANCED),
    };
    let mut text = format!("{title}\n{}\n", "-".repeat(title.len()));
    text.push_str(before);
    for row in ROWS.iter().filter(|row| row.page == page) {
        option(row, &mut text);
    }
    text.push_str(after);
    text
}

fn option(row: &OptionRow, text: &mut String) {
    let mut marks = Vec::new();
    marks.extend(row.who.map(|role| if role == Role::Client { "client" } else { "server" }));
    let titled = |over: &Transport| {
        matches!((over, row.page), (Transport::Tcp, Page::Tcp) | (Transport::Udp, Page::Udp))
    };
    marks.extend(row.over.filter(|over| !titled(over)).map(|over| layout(over).name));
    let needs = row.needs.map(|need| format!("with {need}"));
    marks.extend(needs.as_deref());
    let marks = if marks.is_empty() { String::new() } else { format!("   [{}]", marks.join(", ")) };
    let _ = write!(text, "\n  {}:<{}>{marks}", row.name, row.value);
    paragraph(row.help, text);
}

/// A new line for `words`, and more of them within the width, all indented.
fn paragraph(words: &str, text: &mut String) {
    let mut column = WIDTH;
    for word in words.split_whitespace() {
        let wide = 1 + word.chars().count();
        if column + wide > WIDTH {
            column = INDENT - 1;
            let _ = write!(text, "\n{:column$}", "");
        }
        let _ = write!(text, " {word}");
        column += wide;
    }
    text.push('\n');
}

const OVERVIEW: &str = "
A server and a client move a known pattern of bytes, compare every one of them, and count what
fails. Either end may be ctsTraffic 2.0.1 or later on Windows. Nothing is negotiated: options marked
`the same at both ends` must be given to both.

  netcaliper ctstraffic -Listen:* -ConsoleVerbosity:1
  netcaliper ctstraffic -Target:<server> -ConsoleVerbosity:1 -StatusFilename:status.csv

Arguments are written -Name:Value, in any order, in upper or lower case. Numbers are whole, decimal
or hexadecimal (0x10), without suffixes; ranges are written [low,high].
";

const PAGES: &str = "
  -Help:Tcp         patterns, sizes, limits, endings
  -Help:Udp         media streams
  -Help:Logging     printout and files
  -Help:Advanced    sockets, cores, options for Windows only

The exit code is the number of connections that failed, network and protocol errors together, 255 at
most; 13 on invalid arguments, and after help. Ctrl-C ends the run and prints the summary.

Where the original is wrong this differs on purpose: -MsgWaitAll:off and ranges of -RateLimit count,
-ConsoleVerbosity:0 prints nothing, the first status line is a rate like all others, failed connects
name their target, and a connection that hangs because the two ends differ ends with a sentence that
names that. docs/protocols/ctstraffic.md has the whole list.
";

const TCP: &str = "
Two ends with different settings: with a larger -Transfer at the sender the receiver ends with
ErrorTooMuchDataTransferred; with a smaller one, or another -Pattern, both wait until -StallTimeout.
The original waits for ever then.
";

const UDP: &str = "
A frame is BitsPerSecond / 8 / FrameRate bytes; it leaves in datagrams of at most -DatagramByteSize
bytes. The client asks for a stream by a datagram START, and judges each frame at its time to be
shown: completed, dropped (bytes are missing), repeated (too many). Lost frames do not make
a stream fail, so they are not in the exit code; a stream without any datagram is.

Unlike the original, values that would make it crash are refused: frames below 40 bytes, datagrams
below 39 or above 65507 bytes, a depth of 0 seconds, more than 2^32-1 frames.
";

const LOGGING: &str = "
All files are opened, and overwritten, before the run starts, and written out with each status line.
Lines end in CR LF. Text files begin with the time by the wall clock at which the run started,
which the original does not write. -ConnectionFilename, -ErrorFilename and -StatusFilename may
share a text file; a CSV file holds one table.

The sender's stamps in the jitter table are the ones sent; ctsTraffic on Windows reads them two
bytes early, which multiplies both by 65536 and leaves the times in flight as they are. A value that
Linux does not report is empty in the TCP-info table; its SndLim columns are times in
microseconds.
";

const ADVANCED: &str = "
Options without effect here are named once on stderr, in one line.
";

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Page; 5] = [Page::Overview, Page::Tcp, Page::Udp, Page::Logging, Page::Advanced];

    #[test]
    fn every_option_is_on_one_page() {
        for row in ROWS {
            let on = ALL.iter().filter(|&&p| page(p).contains(&format!("\n  {}:<", row.name))).count();
            assert_eq!(on, 1, "{}", row.name);
        }
    }

    #[test]
    fn lines_are_not_too_long() {
        for text in ALL.map(page) {
            for line in text.lines() {
                assert!(line.chars().count() <= WIDTH, "{line}");
            }
        }
    }
}
