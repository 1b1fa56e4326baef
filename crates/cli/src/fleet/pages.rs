//! `netcaliper fleet report`: the matrix of a run in any form.

use super::ShowArgs;
use crate::{CliError, Exit, file, kept, saved, stderr};
use fleet::matrix::{Matrix, MatrixBuilder, write_html, write_metrics, write_text};
use fleet::record::Record;
use metrics::Wall;
use model::Outcome;
use std::io::{self, Write as _};
use std::path::Path;

/// Shows a result. It is compared with the one that was asked for, or else with `before`.
pub(super) fn report(result: &Path, args: &ShowArgs, before: Option<&Path>) -> Result<Exit, CliError> {
    if let Some(folder) = &args.pages {
        std::fs::create_dir_all(folder)
            .map_err(|e| CliError::failed(format!("cannot make the folder {}: {e}", folder.display())))?;
    }
    let mut store = if args.keep { Some(args.store.make()?) } else { None };
    let mut matrix = read(result, &mut |outcome| {
        if let Some(folder) = &args.pages {
            let path = folder.join(format!("{}.html", outcome.begin.run));
            let told = file::write(&path, |out| report::write_html(outcome, out));
            told.map_err(|e| CliError::failed(format!("cannot write to {}: {e}", path.display())))?;
        }
        if let Some(store) = &mut store
            && !store.holds(outcome.begin.run).map_err(CliError::failed)?
        {
            store.keep(outcome, "").map_err(CliError::failed)?;
        }
        Ok(())
    })?;
    if let Some(before) = args.baseline.as_deref().or(before) {
        matrix.compare(&read(before, &mut |_| Ok(()))?);
    }
    if let Some(path) = &args.html {
        let link = |at: usize| page(args.pages.as_deref()?, path, &matrix, at);
        let told = file::write(path, |out| write_html(&matrix, &link, out));
        told.map_err(|e| CliError::failed(format!("cannot write to {}: {e}", path.display())))?;
    }
    if let Some(path) = &args.metrics_file {
        let told = file::write(path, |out| write_metrics(&matrix, out));
        told.map_err(|e| CliError::failed(format!("cannot write to {}: {e}", path.display())))?;
    }
    let mut out = io::stdout().lock();
    let written = match args.json {
        true => {
            serde_json::to_writer(&mut out, &matrix).map_err(io::Error::from).and_then(|()| writeln!(out))
        }
        false => write_text(&matrix, kept::color(), stderr::stdout_columns(), &mut out),
    };
    written.and_then(|()| out.flush()).map_err(|e| CliError::stdout(&e))?;
    Ok(Exit::Good)
}

/// The page of a cell's last outcome, as seen from the page of the matrix.
fn page(folder: &Path, html: &Path, matrix: &Matrix, at: usize) -> Option<String> {
    let run = matrix.cells.get(at)?.runs.last()?;
    let beside = html.parent().and_then(|parent| folder.strip_prefix(parent).ok()).unwrap_or(folder);
    let path: Vec<String> =
        beside.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    Some(format!("{}/{run}.html", path.join("/")))
}

/// The matrix of a folder or of a document; `each` sees every outcome of a folder.
pub(super) fn read(
    path: &Path,
    each: &mut dyn FnMut(&Outcome) -> Result<(), CliError>,
) -> Result<Matrix, CliError> {
    if !path.is_dir() {
        return Matrix::read(&saved::bytes(path)?).map_err(|e| saved::named(path, &e));
    }
    let record = Record::open(path).map_err(|e| saved::named(path, &e))?;
    let mut builder = MatrixBuilder::new(record.plan());
    let mut told = Ok(());
    record
        .results(|result| {
            if let Some(outcome) = builder.add(&result)
                && told.is_ok()
            {
                told = each(&outcome);
            }
        })
        .map_err(|e| saved::named(path, &e))?;
    told?;
    Ok(builder.build(Wall(kept::now())))
}
