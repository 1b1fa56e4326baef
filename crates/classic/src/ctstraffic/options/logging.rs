//! Options of what is printed and written.

use super::{Page, ROW, Row};
use crate::ctstraffic::grammar::{one_of, u32_above_0, u32_within};
use crate::ctstraffic::spec::Encoding;

const THIS: Row = Row { page: Page::Logging, ..ROW };

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "-ConsoleVerbosity",
        value: "0-6",
        take: |d, v| u32_within(v, 0..=6).map(|n| d.verbosity = Some(n as u8)),
        help: "0 nothing; 1 status; 2 status and errors; 3 connections; 4 connections and errors; 5 all of them; 6 all, \
               and what is only of interest when looking for faults (default: 4)",
        ..THIS
    },
    Row {
        name: "-StatusUpdate",
        value: "ms",
        take: |d, v| u32_above_0(v).map(|n| d.status_update = Some(n)),
        help: "time between two status lines; here 10 to 3600000 (default: 5000)",
        ..THIS
    },
    Row {
        name: "-StatusFilename",
        value: "file",
        take: |d, v| {
            d.status_file = Some(v.into());
            Ok(())
        },
        help: "status lines go there: as CSV when the name ends in .csv, else as text (default: none)",
        ..THIS
    },
    Row {
        name: "-ConnectionFilename",
        value: "file",
        take: |d, v| {
            d.connection_file = Some(v.into());
            Ok(())
        },
        help: "the result of every connection goes there: as CSV when the name ends in .csv, else as text (default: none)",
        ..THIS
    },
    Row {
        name: "-ErrorFilename",
        value: "file",
        take: |d, v| {
            d.error_file = Some(v.into());
            Ok(())
        },
        help: "errors go there, as text; it may be the text file of others (default: none)",
        ..THIS
    },
    Row {
        name: "-TcpInfoFilename",
        value: "file.csv",
        take: |d, v| {
            d.tcp_info = Some(v.into());
            Ok(())
        },
        help: "the kernel's account of every connection at its end (default: none)",
        ..THIS
    },
    Row {
        name: "-LogEncoding",
        value: "utf8|utf16",
        take: |d, v| {
            one_of(v, &[("utf8", Encoding::Utf8), ("utf16", Encoding::Utf16)]).map(|e| d.encoding = Some(e))
        },
        help: "ours: utf16 writes log files as the original does, little-endian with a byte order mark (default: utf8)",
        ..THIS
    },
];
