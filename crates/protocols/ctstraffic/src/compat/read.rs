//! ctsTraffic's own tables, read back: status, connections, jitter, TCP info; of the original (UTF-16) and of this program.

mod join;
mod show;
mod table;

use compat::NamedFile;
use compat::import::decode;
use std::io::{self, Write};
pub(super) use table::{Connections, Ended, Frame, Slice, Table, TcpInfo};

/// Whether a file is one of ctsTraffic's tables: its first line is one of their headers.
pub(crate) fn is_table(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(2048)];
    table::Shape::of(decode(start).lines().next().unwrap_or_default()).is_some()
}

/// Reports on tables: each by itself, and the connection tables of several hosts joined by the connections' identifiers.
///
/// # Errors
/// When `out` cannot be written; a file that is no such table is an error of kind `InvalidData`, in one sentence.
pub(crate) fn report(files: &[NamedFile], out: &mut dyn Write) -> io::Result<()> {
    let tables: Vec<(&str, Table)> = files.iter().map(one).collect::<io::Result<_>>()?;
    for (name, table) in &tables {
        show::table(name, table, out)?;
        writeln!(out)?;
    }
    let connections: Vec<(&str, &Connections)> = tables
        .iter()
        .filter_map(|(name, table)| match table {
            Table::Connections(c) => Some((*name, c)),
            _ => None,
        })
        .collect();
    if connections.len() > 1 {
        join::tell(&connections, out)?;
    }
    Ok(())
}

fn one(file: &NamedFile) -> io::Result<(&str, Table)> {
    let name = file.name.as_str();
    Table::read(&file.bytes).map(|table| (name, table)).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{name} is none of ctsTraffic's tables"))
    })
}

#[cfg(test)]
mod tests;
