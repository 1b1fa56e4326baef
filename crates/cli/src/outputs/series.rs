//! Data series that protocols make of an outcome: as tables, and as CSV files.

use crate::protocols;
use common::Series;
use console::error::CliError;
use console::file;
use model::Outcome;
use std::io::{self, Write};
use std::path::Path;

/// All series that an outcome holds something for.
fn all(outcome: &Outcome) -> impl Iterator<Item = Series> {
    protocols::ALL.into_iter().flat_map(|protocol| (protocol.info().series)(outcome))
}

/// Prints the series of an outcome as tables.
pub(crate) fn print_all(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    all(outcome).try_for_each(|series| print(&series, out))
}

fn print(series: &Series, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{}", series.title)?;
    let heads = series.columns.iter().map(ToString::to_string).collect();
    let rows: Vec<Vec<String>> = std::iter::once(heads).chain(series.rows.clone()).collect();
    report::aligned(&rows, 0).try_for_each(|line| writeln!(out, "  {line}"))
}

/// Writes the series of an outcome into a folder.
pub(crate) fn write_all(folder: &Path, outcome: &Outcome) -> Result<(), CliError> {
    all(outcome).try_for_each(|series| file::put(&folder.join(series.file), |out| write(&series, out)))
}

fn write(series: &Series, out: &mut dyn Write) -> io::Result<()> {
    let mut out = csv::Writer::from_writer(out);
    out.write_record(&series.columns)?;
    for row in &series.rows {
        out.write_record(row)?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_files_hold_the_same() {
        let series = Series {
            file: "a.csv",
            title: "A",
            columns: vec!["one", "two"],
            rows: vec![vec!["1".to_owned(), String::new()]],
        };
        let (mut table, mut file) = (Vec::new(), Vec::new());
        print(&series, &mut table).unwrap();
        write(&series, &mut file).unwrap();
        assert_eq!(String::from_utf8(table).unwrap().lines().count(), 4);
        assert_eq!(String::from_utf8(file).unwrap(), "one,two\n1,\n");
    }
}
