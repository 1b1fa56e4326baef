//! Status lines: 80 columns, numbers right-justified under their headings, and what becomes of a
//! number that is too wide.

use super::spec::Transport;
use metrics::{Frames, real};
use model::Interval;
use std::fmt::Write as _;

/// Status lines between two headers on the console.
pub(super) const HEADER_EVERY: u32 = 40;

/// Layout of a transport's lines and tables; headings have no line end.
pub(super) struct Layout {
    pub(super) name: &'static str,
    /// Heading of status lines, on the console and in text files.
    pub(super) heading: &'static str,
    /// Heading of the status CSV.
    pub(super) status_csv: &'static str,
    /// Heading of the connection CSV.
    pub(super) connection_csv: &'static str,
    /// The column in which the last digit stands, and the most characters, of the six numbers after
    /// the time.
    columns: [(usize, usize); 6],
    /// Meaning of the columns.
    legend: &'static [&'static str],
}

static TCP: Layout = Layout {
    name: "TCP",
    heading: " TimeSlice      SendBps      RecvBps  In-Flight  Completed  NetError  DataError ",
    status_csv: "TimeSlice,SendBps,RecvBps,In-Flight,Completed,NetError,DataError",
    connection_csv: "TimeSlice,LocalAddress,RemoteAddress,SendBytes,SendBps,RecvBytes,RecvBps,TimeMs,Result,ConnectionId",
    columns: [(23, 11), (36, 11), (47, 7), (58, 7), (68, 7), (79, 7)],
    legend: &[
        "TimeSlice - (seconds) cumulative runtime",
        "Send & Recv Rates - bytes/sec that were transferred within the TimeSlice period",
        "In-Flight - count of established connections transmitting IO pattern data",
        "Completed - cumulative count of successfully completed IO patterns",
        "Network Errors - cumulative count of failed IO patterns due to network errors",
        "Data Errors - cumulative count of failed IO patterns due to data errors",
    ],
};
static UDP: Layout = Layout {
    name: "UDP",
    heading: " TimeSlice       Bits/Sec    Streams   Completed   Dropped   Repeated    Errors ",
    status_csv: "TimeSlice,Bits/Sec,Streams,Completed,Dropped,Repeated,Errors",
    connection_csv: "TimeSlice,LocalAddress,RemoteAddress,Bits/Sec,Completed,Dropped,Repeated,Errors,Result,ConnectionId",
    columns: [(25, 12), (36, 8), (48, 9), (58, 7), (69, 7), (79, 7)],
    legend: &[
        "TimeSlice - (seconds) cumulative runtime",
        "Streams - count of current number of UDP streams",
        "Bits/Sec - bits streamed within the TimeSlice period",
        "Completed Frames - count of frames successfully processed within the TimeSlice",
        "Dropped Frames - count of frames that were never seen, or not whole, within the TimeSlice",
        "Repeated Frames - count of frames received multiple times within the TimeSlice",
        "Stream Errors - count of invalid frames or buffers within the TimeSlice",
    ],
};
const TIME_COLUMN: usize = 10;

pub(super) fn layout(transport: Transport) -> &'static Layout {
    if transport == Transport::Tcp { &TCP } else { &UDP }
}

impl Layout {
    /// The legend, one line each; it ends with a blank one.
    pub(super) fn legend(&self) -> Vec<String> {
        let points = self.legend.iter().map(|point| format!("* {point}"));
        std::iter::once("Legend:".to_owned()).chain(points).chain([String::new()]).collect()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slice {
    /// Since the start, ms.
    pub(super) at_ms: u64,
    /// The six numbers, in the order of the columns.
    pub(super) numbers: [u64; 6],
}

/// `amount` within a stretch, per second; the stretch in whole ms, as the original divides.
pub(super) fn per_second(amount: u64, ms: u64) -> u64 {
    if ms == 0 { 0 } else { u64::try_from(u128::from(amount) * 1000 / u128::from(ms)).unwrap_or(u64::MAX) }
}

impl Slice {
    /// An interval. Over UDP bits and frames of the interval, and streams at its end; over TCP
    /// rates of the interval, identifiers and goodbyes included, connections open at its end, ended
    /// ones since the start.
    pub(super) fn of(interval: &Interval, transport: Transport) -> Slice {
        let (start_ms, at_ms) = (interval.start_ns / 1_000_000, interval.end_ns / 1_000_000);
        let rate = |amount| per_second(amount, at_ms.saturating_sub(start_ms));
        let Interval { local, framing, in_flight, completed, network_errors, data_errors, .. } = *interval;
        let numbers = match transport {
            Transport::Udp => {
                let Frames { completed, dropped, repeated, errors } = interval.frames.unwrap_or_default();
                let bits = (local.rx_bytes + local.tx_bytes).saturating_mul(8);
                [rate(bits), in_flight, completed, dropped, repeated, errors]
            }
            Transport::Tcp => {
                let sent = rate(local.tx_bytes + framing.tx_bytes);
                let received = rate(local.rx_bytes + framing.rx_bytes);
                [sent, received, in_flight, completed, network_errors, data_errors]
            }
        };
        Slice { at_ms, numbers }
    }

    /// The line for the console and text files, without its line end: 79 columns, and the line end
    /// is the 80th.
    pub(super) fn line(&self, transport: Transport) -> String {
        let time = fitting(&seconds(self.at_ms), real(self.at_ms) / 1000.0, TIME_COLUMN);
        let mut line = format!("{time:>TIME_COLUMN$}");
        for ((end, width), number) in layout(transport).columns.into_iter().zip(self.numbers) {
            let text = fitting(&number.to_string(), real(number), width);
            let room = end.saturating_sub(line.len());
            let _ = write!(line, "{text:>room$}");
        }
        line
    }

    /// The row for CSV files, without its line end.
    pub(super) fn row(&self) -> String {
        let mut row = seconds(self.at_ms);
        for number in self.numbers {
            let _ = write!(row, ",{number}");
        }
        row
    }
}

/// Milliseconds as seconds with three decimals.
pub(super) fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

/// `text`, or when it is wider than `width` the value in millions, thousands of millions, millions
/// of millions.
fn fitting(text: &str, value: f64, width: usize) -> String {
    if text.len() <= width {
        return text.to_owned();
    }
    [(1e6, "x^6"), (1e9, "x^9"), (1e12, "x^12")]
        .into_iter()
        .map(|(unit, sign)| format!("{:.1}{sign}", value / unit))
        .find(|short| short.len() <= width)
        .unwrap_or_else(|| "9+++T".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::Framing;
    use model::Traffic;

    const SECOND: u64 = metrics::SECOND;

    /// The line of the original's own test of its printout.
    #[test]
    fn zeros_after_a_second() {
        let slice = Slice { at_ms: 1000, numbers: [0; 6] };
        let want = "     1.000            0            0          0          0         0          0";
        assert_eq!(slice.line(Transport::Tcp), want);
        assert_eq!(slice.row(), "1.000,0,0,0,0,0,0");
    }

    #[test]
    fn last_digits_stand_in_their_columns() {
        let slice = Slice { at_ms: 5_002, numbers: [1, 2, 3, 4, 5, 6] };
        for (transport, ends) in
            [(Transport::Tcp, [10, 23, 36, 47, 58, 68, 79]), (Transport::Udp, [10, 25, 36, 48, 58, 69, 79])]
        {
            let line = slice.line(transport);
            assert_eq!(line.len(), 79);
            for (end, digit) in ends.into_iter().zip("2123456".chars()) {
                assert_eq!(line.as_bytes()[end - 1] as char, digit, "{line}");
            }
            assert_eq!(layout(transport).heading.len(), 80);
        }
        assert!(slice.line(Transport::Tcp).starts_with("     5.002"));
    }

    /// 99999999 in seven columns: 100.0x^6 would be eight, so it is 0.1x^9.
    #[test]
    fn numbers_that_are_too_wide() {
        assert_eq!(fitting("99999999", 99_999_999.0, 7), "0.1x^9");
        assert_eq!(fitting("9999999", 9_999_999.0, 7), "9999999");
        assert_eq!(fitting("10000000", 10_000_000.0, 7), "10.0x^6");
        assert_eq!(fitting("123456789012", 123_456_789_012.0, 11), "123456.8x^6");
        let most = u64::MAX;
        assert_eq!(fitting(&most.to_string(), most as f64, 7), "9+++T");
        assert_eq!(
            fitting(&most.to_string(), most as f64, 12),
            "18446744.1x^12".chars().take(0).collect::<String>() + "9+++T"
        );
        let slice = Slice { at_ms: 1_000_000_000, numbers: [most; 6] };
        let line = slice.line(Transport::Tcp);
        assert_eq!(line.len(), 79);
        assert!(line.starts_with("    1.0x^6        9+++T        9+++T      9+++T"), "{line}");
    }

    #[test]
    fn rates_are_whole_and_divided_by_whole_milliseconds() {
        assert_eq!(per_second(1, 3), 333);
        assert_eq!(per_second(5, 0), 0);
        assert_eq!(per_second(u64::MAX, 1), u64::MAX);
        // A guide's line: 300 frames of 52083 bytes in 5 s are 24999840 bit/s.
        let interval = Interval {
            start_ns: 5 * SECOND,
            end_ns: 10 * SECOND,
            local: Traffic { rx_bytes: 300 * 52_083, ..Traffic::default() },
            in_flight: 1,
            frames: Some(Frames { completed: 300, ..Frames::default() }),
            ..Interval::default()
        };
        let slice = Slice::of(&interval, Transport::Udp);
        assert_eq!(slice.row(), "10.000,24999840,1,300,0,0,0");
        let want = "    10.000       24999840          1         300         0          0         0";
        assert_eq!(slice.line(Transport::Udp), want);
    }

    #[test]
    fn bytes_beside_payload_are_counted() {
        let local = Traffic { tx_bytes: 100_000, rx_bytes: 0, ..Traffic::default() };
        // Three identifiers of 37 bytes, and twice DONE.
        let framing = Framing { tx_bytes: 0, rx_bytes: 3 * 37 + 2 * 4 };
        let interval = Interval { end_ns: SECOND, local, framing, completed: 2, ..Interval::default() };
        let slice = Slice::of(&interval, Transport::Tcp);
        assert_eq!(slice.row(), "1.000,100000,119,0,2,0,0");
    }
}
