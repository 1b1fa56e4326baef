//! The figures of runs as one Parquet file: the table of [`write_figures_csv`](crate::write_figures_csv) with types.
//!
//! Written column by column, without Arrow: the table is flat, and a third of the crates do.

use crate::history::COLUMNS;
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

type Row<'a> = (&'a KeptRun, &'a KeptFigure);

/// Writes a row per figure of each run.
pub fn write_figures_parquet(runs: &[KeptRun], out: &mut (dyn Write + Send)) -> io::Result<()> {
    let rows: Vec<Row<'_>> =
        runs.iter().flat_map(|run| run.figures.iter().map(move |figure| (run, figure))).collect();
    written(&rows, out).map_err(io::Error::other)
}

fn written(rows: &[Row<'_>], out: &mut (dyn Write + Send)) -> Result<(), ParquetError> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let settings = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut file = SerializedFileWriter::new(out, schema, Arc::new(settings))?;
    for rows in rows.chunks(GROUP) {
        let mut group = file.next_row_group()?;
        for name in COLUMNS {
            if let Some(mut column) = group.next_column()? {
                fill(name, rows, &mut column)?;
                column.close()?;
            }
        }
        group.close()?;
    }
    file.close()?;
    Ok(())
}

/// Writes the rows' values of one column.
fn fill(name: &str, rows: &[Row<'_>], column: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
    match column.untyped() {
        ColumnWriter::Int64ColumnWriter(column) if name == "id" => {
            let ids: Vec<i64> = rows.iter().map(|(run, _)| run.id).collect();
            column.write_batch(&ids, None, None)?;
        }
        ColumnWriter::Int64ColumnWriter(column) => {
            // When another program's run began is not always known: then there is no value, at definition level 0.
            let known: Vec<bool> = rows.iter().map(|(run, _)| run.started.0 > 0).collect();
            let levels: Vec<i16> = known.iter().map(|known| i16::from(*known)).collect();
            let at = rows.iter().zip(&known).filter(|(_, known)| **known);
            let micros: Vec<i64> = at.map(|((run, _), _)| run.started.0 / 1_000).collect();
            column.write_batch(&micros, Some(&levels), None)?;
        }
        ColumnWriter::Int32ColumnWriter(column) => {
            // An unsigned number in the bits of a signed one, as the format has it.
            let repeats: Vec<i32> = rows.iter().map(|(_, figure)| figure.repeat.cast_signed()).collect();
            column.write_batch(&repeats, None, None)?;
        }
        ColumnWriter::DoubleColumnWriter(column) => {
            let values: Vec<f64> = rows.iter().map(|(_, figure)| figure.value).collect();
            column.write_batch(&values, None, None)?;
        }
        ColumnWriter::ByteArrayColumnWriter(column) => {
            let texts: Vec<ByteArray> = rows.iter().map(|row| ByteArray::from(text(name, *row))).collect();
            column.write_batch(&texts, None, None)?;
        }
        _ => return Err(ParquetError::General(format!("the column {name} has no writer"))),
    }
    Ok(())
}

/// What stands in a column of text.
fn text<'a>(name: &str, (run, figure): Row<'a>) -> &'a str {
    match name {
        "verb" => &run.verb,
        "protocol" => &run.protocol,
        "targets" => &run.targets,
        "status" => run.status.name(),
        "source" => &run.source,
        "setting" => &figure.setting,
        "figure" => &figure.name,
        _ => &figure.unit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_columns_are_those_of_the_csv() {
        let schema = parse_message_type(SCHEMA).unwrap();
        let names: Vec<&str> = schema.get_fields().iter().map(|field| field.name()).collect();
        assert_eq!(names, COLUMNS);
    }
}
