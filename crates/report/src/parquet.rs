//! The figures of runs as one Parquet file: the table of
//! [`write_figures_csv`](crate::write_figures_csv) with types.
//!
//! Written column by column, without Arrow: the table is flat, and a third of the crates do.

use crate::history::{COLUMNS, Cell};
use jiff::Timestamp;
use model::{KeptFigure, KeptRun};
use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use std::io::{self, Write};
use std::sync::Arc;

/// The columns and their types, in the order of the CSV's.
const SCHEMA: &str = "
    message figures {
        required int64 id;
        optional int64 started_utc (timestamp(micros, true));
        required binary verb (string);
        required binary protocol (string);
        required binary targets (string);
        required binary status (string);
        required binary source (string);
        required binary setting (string);
        required int32 repeat (integer(32, false));
        required binary figure (string);
        required binary unit (string);
        required double value;
    }";

/// Rows of a group: readers take whole groups into memory.
const GROUP: usize = 1 << 16;

type RunFigure<'a> = (&'a KeptRun, &'a KeptFigure);

/// Writes a row per figure of each run.
pub fn write_figures_parquet(runs: &[KeptRun], out: &mut (dyn Write + Send)) -> io::Result<()> {
    let rows: Vec<RunFigure<'_>> =
        runs.iter().flat_map(|run| run.figures.iter().map(move |figure| (run, figure))).collect();
    written(&rows, out).map_err(io::Error::other)
}

fn written(rows: &[RunFigure<'_>], out: &mut (dyn Write + Send)) -> Result<(), ParquetError> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let settings = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut file = SerializedFileWriter::new(out, schema, Arc::new(settings))?;
    for rows in rows.chunks(GROUP) {
        let mut group = file.next_row_group()?;
        for (_, cell) in COLUMNS {
            if let Some(mut column) = group.next_column()? {
                fill(rows.iter().map(|(run, figure)| cell(run, figure)), &mut column)?;
                column.close()?;
            }
        }
        group.close()?;
    }
    file.close()?;
    Ok(())
}

/// Writes the values of one column.
fn fill<'a>(
    cells: impl Iterator<Item = Cell<'a>>,
    column: &mut SerializedColumnWriter<'_>,
) -> Result<(), ParquetError> {
    let (mut whole, mut numbers, mut real, mut texts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    // A cell without a value has the definition level 0.
    let mut levels: Vec<i16> = Vec::new();
    for cell in cells {
        levels.push(i16::from(!matches!(cell, Cell::Time(None))));
        match cell {
            Cell::Id(id) => whole.push(id),
            Cell::Time(at) => whole.extend(at.map(Timestamp::as_microsecond)),
            Cell::Text(text) => texts.push(ByteArray::from(text)),
            // An unsigned number in the bits of a signed one, as the format has it.
            Cell::Number(n) => numbers.push(n.cast_signed()),
            Cell::Value(value) => real.push(value),
        }
    }
    match column.untyped() {
        ColumnWriter::Int64ColumnWriter(column) => column.write_batch(&whole, Some(&levels), None),
        ColumnWriter::Int32ColumnWriter(column) => column.write_batch(&numbers, None, None),
        ColumnWriter::DoubleColumnWriter(column) => column.write_batch(&real, None, None),
        ColumnWriter::ByteArrayColumnWriter(column) => column.write_batch(&texts, None, None),
        _ => return Err(ParquetError::General("a column has no writer".to_owned())),
    }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_columns_are_those_of_the_csv() {
        let schema = parse_message_type(SCHEMA).unwrap();
        let names: Vec<&str> = schema.get_fields().iter().map(|field| field.name()).collect();
        assert_eq!(names, COLUMNS.map(|(name, _)| name));
    }
}
